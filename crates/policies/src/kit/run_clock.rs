//! From when to when is a task charged? Between two readings of its queue's clock, which Linux leaves out once.
//!
//! A wakeup reads the clock. If it asks for another task, `wakeup_preempt()` has `__schedule()` not read it again: the
//! two are thought to follow each other at once. Within a system call that nobody is preempted in they do not, and
//! whoever is chosen pays for the time between them:
//!
//! ```text
//! us     0          100       110                    200
//! A      runs       forks B   sleeps
//! B                           runs                   wakes C
//! paid   |--- A --->|---------------- B ------------>|         A 100, not 110; B 100, not 90
//! ```
//!
//! A task that exits reads the clock on its way, where it leaves its group.
//!
//! *Source*: kernel/sched/core.c, `wakeup_preempt()` (6.1: `check_preempt_curr()`), `RQCF_REQ_SKIP`,
//! `update_rq_clock()`; `sched_autogroup_exit_task()`.

use schedlab_machine::policy::Stop;
use schedlab_units::{Span, Time};

/// What a CPU's current task has been charged, and who pays for what comes between.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunClock {
    /// How much of the current task's run is charged.
    charged: Span,
    /// Where in the task's time the clock was read last, if it is not read when the task stops.
    skips_from: Option<Span>,
    /// What the current task pays for from before its run.
    before: Span,
    /// What the task pays for that is chosen at this instant.
    left: (Span, Time),
}

impl RunClock {
    /// The clock is read: what the current task, which has run for `ran`, is charged now.
    #[inline]
    pub(crate) fn read(&mut self, ran: Span) -> Span {
        let until = ran + self.before;
        self.skips_from = self.skips_from.map(|_| until);
        self.charge(until)
    }

    fn charge(&mut self, until: Span) -> Span {
        let delta = until.saturating_sub(self.charged);
        self.charged = until.max(self.charged);
        delta
    }

    /// A wakeup has read the clock, and another task than the current one, which has run for `ran`, is to be chosen.
    #[inline]
    pub(crate) fn asked(&mut self, ran: Span) {
        self.skips_from = Some(ran + self.before);
    }

    /// The current task stops: what it is charged now.
    #[inline]
    pub(crate) fn stop(&mut self, now: Time, ran: Span, how: Stop) -> Span {
        let until = ran + self.before;
        let read = self.skips_from.take().filter(|_| how != Stop::Exited).unwrap_or(until);
        self.left = (until.saturating_sub(read), now);
        self.charge(read)
    }

    /// A task is chosen: what it pays for from before.
    #[inline]
    pub(crate) fn start(&mut self, now: Time) -> Span {
        let (left, at) = std::mem::take(&mut self.left);
        (self.charged, self.skips_from) = (Span::ZERO, None);
        self.before = if at == now { left } else { Span::ZERO };
        self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Span {
        Span::from_us(us)
    }

    #[test]
    fn who_is_chosen_after_a_wakeup_pays_from_then_on() {
        let mut clock = RunClock::default();
        assert_eq!(clock.start(Time::ZERO), Span::ZERO);
        assert_eq!(clock.read(us(100)), us(100));
        clock.asked(us(100));
        let sleep = Time::from_ns(110_000);
        assert_eq!(clock.stop(sleep, us(110), Stop::Blocked), Span::ZERO);
        assert_eq!(clock.start(sleep), us(10));
        assert_eq!(clock.read(us(90)), us(100));
        // a tick between wakeup and choice reads the clock
        clock.asked(us(90));
        assert_eq!(clock.read(us(95)), us(5));
        assert_eq!(clock.stop(Time::from_ns(210_000), us(100), Stop::Preempted), Span::ZERO);
        assert_eq!(clock.start(Time::from_ns(210_000)), us(5));
    }

    #[test]
    fn without_a_wakeup_each_pays_for_its_own() {
        let mut clock = RunClock::default();
        clock.start(Time::ZERO);
        assert_eq!(clock.stop(Time::from_ns(7_000), us(7), Stop::Blocked), us(7));
        assert_eq!(clock.start(Time::from_ns(7_000)), Span::ZERO);
        // (not charged yet, though the clock was read)
        clock.asked(us(1));
        assert_eq!(clock.stop(Time::from_ns(9_000), us(2), Stop::Blocked), us(1));
        // the CPU was idle since
        assert_eq!(clock.start(Time::from_ns(20_000)), Span::ZERO);
        clock.asked(us(1));
        assert_eq!(clock.stop(Time::from_ns(25_000), us(5), Stop::Exited), us(5));
        assert_eq!(clock.start(Time::from_ns(25_000)), Span::ZERO);
    }
}
