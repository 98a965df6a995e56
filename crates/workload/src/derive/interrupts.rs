//! What is a CPU doing besides its task, and on whose behalf? Interrupt and softirq events, one CPU's at a time.
//!
//! ```text
//! cpu0   task 7 ......| timer ..| softirq 3 ..|...... task 7 ...| softirq 3 |.... task 7
//!                  entry     exit  entry   exit       raise 3  entry      exit
//!                     <----- interrupted ---->        (by 7)   <- 7's own -->
//! ```
//!
//! A softirq belongs to whoever raised it. Task 7 that sends over the loopback raises NET_RX in its own
//! context: the work is 7's, and so is the wakeup at its end. One that an interrupt raised is the
//! interrupt's, and runs right behind it. Where raises were not recorded, a softirq within 10 us of an
//! interrupt's end is that interrupt's doing (`irq_exit()` runs it at once).

use schedlab_trace::{Context, Vector};

/// A softirq this soon after a handler's end is that interrupt's doing (irq_exit runs it at once).
const SOFTIRQ_AFTER_IRQ_NS: u64 = 10_000;
/// Softirqs there are (include/linux/interrupt.h, `NR_SOFTIRQS`), and some to come.
const SOFTIRQS: usize = 16;

/// The kernel's numbers of softirqs (include/linux/interrupt.h).
pub(super) mod softirq {
    pub const TIMER: u32 = 1;
    pub const NET_TX: u32 = 2;
    pub const NET_RX: u32 = 3;
    pub const HRTIMER: u32 = 8;
}

/// Who asked for a softirq.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// Not told.
    #[default]
    Unknown,
    /// The CPU's task, in its own context.
    Task,
    /// An interrupt.
    Interrupt,
}

/// A softirq that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SoftIrq {
    /// The kernel's number.
    pub vec: u32,
    /// Who asked for it.
    pub origin: Origin,
    /// Whether the origin was recorded (`softirq_raise`), not guessed from the time.
    pub recorded: bool,
}

/// One CPU's state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interrupts {
    /// Handlers of devices that are being executed.
    devices: u8,
    /// The CPU's own interrupts that are being executed, the last one of them.
    vectors: u8,
    vector: Option<Vector>,
    softirq: Option<SoftIrq>,
    /// By softirq number: who raised it since it last ran.
    raised: [Origin; SOFTIRQS],
    /// End of the last interrupt, or of the last softirq that belonged to one.
    irq_end_ns: Option<u64>,
}

impl Interrupts {
    pub fn device_entry(&mut self) {
        self.devices = self.devices.saturating_add(1);
    }
    pub fn device_exit(&mut self, now_ns: u64) {
        self.devices = self.devices.saturating_sub(1);
        self.irq_end_ns = Some(now_ns);
    }
    pub fn vector_entry(&mut self, vector: Vector) {
        self.vectors = self.vectors.saturating_add(1);
        self.vector = Some(vector);
    }
    pub fn vector_exit(&mut self, now_ns: u64) {
        self.vectors = self.vectors.saturating_sub(1);
        if self.vectors == 0 {
            self.vector = None;
        }
        self.irq_end_ns = Some(now_ns);
    }

    /// Somebody in this context asks for a softirq. The first one counts: a second raise before it runs
    /// changes nothing.
    pub fn raise(&mut self, vec: u32, context: Context) {
        let Some(raised) = self.raised.get_mut(vec as usize) else { return };
        if *raised == Origin::Unknown {
            *raised = match context {
                Context::Task => Origin::Task,
                Context::HardIrq | Context::Nmi => Origin::Interrupt,
                Context::Unknown => Origin::Unknown,
                Context::SoftIrq => self.softirq.map_or(Origin::Unknown, |running| running.origin),
            };
        }
    }

    /// A softirq begins; `irq_events`: interrupts are recorded, so that none just before it means none at all.
    pub fn softirq_entry(&mut self, vec: u32, now_ns: u64, irq_events: bool) {
        let raised = self.raised.get_mut(vec as usize).map(std::mem::take).unwrap_or_default();
        let (origin, recorded) = match raised {
            Origin::Unknown => {
                let soon = |end_ns: u64| now_ns.saturating_sub(end_ns) <= SOFTIRQ_AFTER_IRQ_NS;
                match self.irq_end_ns {
                    Some(end_ns) if soon(end_ns) => (Origin::Interrupt, false),
                    // only the network's are raised by tasks for their own sake
                    _ if irq_events && matches!(vec, softirq::NET_TX | softirq::NET_RX) => {
                        (Origin::Task, false)
                    }
                    _ if irq_events => (Origin::Interrupt, false),
                    _ => (Origin::Unknown, false),
                }
            }
            known => (known, true),
        };
        self.softirq = Some(SoftIrq { vec, origin, recorded });
    }
    pub fn softirq_exit(&mut self, now_ns: u64) {
        // A second softirq of one round still belongs to the same interrupt.
        if self.softirq.take().is_some_and(|softirq| softirq.origin == Origin::Interrupt) {
            self.irq_end_ns = Some(now_ns);
        }
    }

    /// The softirq that runs, if its begin was recorded.
    pub fn softirq(&self) -> Option<SoftIrq> {
        self.softirq
    }
    /// Whether a device's handler is being executed.
    pub fn in_device(&self) -> bool {
        self.devices > 0
    }
    /// Which of the CPU's own interrupts is being executed.
    pub fn vector(&self) -> Option<Vector> {
        self.vector
    }
    /// Whether an interrupt's handler is being executed.
    pub fn in_handler(&self) -> bool {
        self.devices > 0 || self.vectors > 0
    }
    /// Whether the CPU works for somebody else than its task: an interrupt, or a softirq that one has raised.
    pub fn interrupted(&self) -> bool {
        self.in_handler() || self.softirq.is_some_and(|softirq| softirq.origin == Origin::Interrupt)
    }
    /// No interrupt is going on: a context switch, or events were lost. True if the end of one was not recorded.
    pub fn over(&mut self) -> bool {
        let broken = self.interrupted();
        (self.devices, self.vectors, self.vector, self.softirq) = (0, 0, None, None);
        broken
    }
    /// Events were lost: nothing is known any more.
    pub fn forget(&mut self) {
        *self = Interrupts::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_softirq_belongs_to_who_raised_it() {
        let mut cpu = Interrupts::default();
        // raised by the task, run 1 us after an interrupt's end: the raise is the better evidence
        cpu.raise(softirq::NET_RX, Context::Task);
        cpu.vector_entry(Vector::LocalTimer);
        assert!(cpu.interrupted());
        assert_eq!(cpu.vector(), Some(Vector::LocalTimer));
        cpu.raise(softirq::TIMER, Context::HardIrq);
        cpu.vector_exit(1_000);
        assert!(!cpu.interrupted());
        cpu.softirq_entry(softirq::TIMER, 1_100, true);
        assert!(cpu.interrupted());
        // what the timer softirq raises is the interrupt's too
        cpu.raise(softirq::NET_TX, Context::SoftIrq);
        cpu.softirq_exit(1_200);
        cpu.softirq_entry(softirq::NET_TX, 50_000, true);
        assert_eq!(cpu.softirq().map(|s| (s.origin, s.recorded)), Some((Origin::Interrupt, true)));
        cpu.softirq_exit(50_100);
        cpu.softirq_entry(softirq::NET_RX, 50_200, true);
        assert_eq!(cpu.softirq().map(|s| s.origin), Some(Origin::Task));
        assert!(!cpu.interrupted());
        cpu.softirq_exit(50_300);
        // a raise serves once
        cpu.softirq_entry(softirq::NET_RX, 90_000, true);
        assert_eq!(cpu.softirq().map(|s| (s.origin, s.recorded)), Some((Origin::Task, false)));
    }

    #[test]
    fn without_raises_the_time_tells() {
        let mut cpu = Interrupts::default();
        cpu.device_entry();
        cpu.device_exit(10_000);
        cpu.softirq_entry(softirq::TIMER, 15_000, true);
        assert_eq!(cpu.softirq().map(|s| s.origin), Some(Origin::Interrupt));
        cpu.softirq_exit(30_000);
        cpu.softirq_entry(softirq::NET_RX, 35_000, true);
        assert_eq!(
            cpu.softirq().map(|s| s.origin),
            Some(Origin::Interrupt),
            "a second one of the same round"
        );
        cpu.softirq_exit(36_000);
        cpu.softirq_entry(softirq::NET_RX, 80_000, true);
        assert_eq!(cpu.softirq().map(|s| s.origin), Some(Origin::Task));
        cpu.softirq_exit(81_000);
        let mut deaf = Interrupts::default();
        deaf.softirq_entry(softirq::NET_RX, 80_000, false);
        assert_eq!(deaf.softirq().map(|s| s.origin), Some(Origin::Unknown));
    }

    #[test]
    fn an_end_that_was_not_recorded_is_reported() {
        let mut cpu = Interrupts::default();
        cpu.device_entry();
        assert!(cpu.over());
        assert!(!cpu.over() && !cpu.interrupted());
    }
}
