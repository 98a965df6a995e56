//! When would it happen if nobody ever had to wait? A task's own time.
//!
//! A workload holds no schedule, so no event of it has a time. What it has is an *own time*: from the task's
//! birth, CPU time and blocked time added up, as if the task always had a CPU at once and every block lasted
//! as recorded (or as stated).
//!
//! ```text
//! FORK  1ms       1 ms        (CPU time since the start)
//! BLOCK 4ms       4 ms
//! WAKEUP 6ms     10 ms
//! EXIT  2ms      12 ms
//! ```
//!
//! A forked task is born at the own time of its parent's FORK. In a recording own times run ahead of the
//! clock on the wall: by what the task waited for CPUs until then.

use crate::{EventKind, ExternalSource, Wakeup};
use schedlab_units::Span;

/// One task's own time since its birth; saturates at 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnClock {
    /// Of the last wakeup, or 0.
    woken_ns: u64,
    /// CPU time since then.
    length_ns: u64,
    /// Of the last wakeup at an absolute time, or 0.
    until_ns: u64,
}

impl OwnClock {
    /// Goes on to this event; its own time.
    #[inline]
    pub fn step(&mut self, kind: &EventKind) -> Span {
        match kind {
            EventKind::Wakeup(Wakeup::External { after, source }) if source.is_instant() => {
                let now_ns = self.woken_ns.saturating_add(self.length_ns);
                self.until_ns = self.until_ns.saturating_add(after.as_ns());
                match source {
                    ExternalSource::GridRestart => self.until_ns = self.until_ns.max(now_ns),
                    ExternalSource::GridSkip => {
                        let behind = now_ns.saturating_sub(self.until_ns) / after.as_ns().max(1);
                        self.until_ns += behind * after.as_ns();
                    }
                    _ => {}
                }
                self.woken_ns = now_ns.max(self.until_ns);
                self.length_ns = 0;
            }
            EventKind::Wakeup(
                Wakeup::External { after, .. } | Wakeup::Dependent { recorded_after: after, .. },
            ) => {
                self.woken_ns = self.woken_ns.saturating_add(self.length_ns).saturating_add(after.as_ns());
                self.length_ns = 0;
            }
            running => self.length_ns = running.length().unwrap_or_default().as_ns(),
        }
        self.now()
    }

    /// Now.
    #[inline]
    pub fn now(&self) -> Span {
        Span::from_ns(self.woken_ns.saturating_add(self.length_ns))
    }

    /// When it was last woken, or was born.
    #[inline]
    pub fn woken(&self) -> Span {
        Span::from_ns(self.woken_ns)
    }

    /// For when its last wakeup at an absolute time was set, or its birth.
    #[inline]
    pub fn until(&self) -> Span {
        Span::from_ns(self.until_ns)
    }

    /// CPU time since then.
    #[inline]
    pub fn length(&self) -> Span {
        Span::from_ns(self.length_ns)
    }
}
