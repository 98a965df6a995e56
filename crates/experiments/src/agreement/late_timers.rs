//! What does it change that a real timer cannot be set less than 1 us ahead? Wake the native policy's tasks as late.
//!
//! ```text
//! us            0         0.12               1
//! real Linux    A wakes   (B's sleep ends)   B wakes      the device is set for B's timer in A's interrupt, 1 us ahead
//! native        A wakes   B wakes
//! ```
//!
//! The tasks are runnable 880 ns apart; if a third one is running, no decision may differ for seconds, until
//! two virtual deadlines are a few ns apart that were equal. So the sleeps of the native policy's tasks are
//! lengthened by what the real kernel woke them later, and the run is repeated.

use super::measure::{By, ComparedRun};
use schedlab_units::Span;
use schedlab_workload::{EventKind, ExternalSource, Wakeup, Workload};

/// The clock event device of the port cannot be set less than this ahead.
pub(super) const RESOLUTION_NS: u64 = 1_000;

/// The workload with those sleeps lengthened that real Linux ended later, by at most 1 us, before `until_ns`;
/// `None` if there are none. `native` is the run of that workload which is compared with `real`.
pub fn with_late_timers(
    workload: &Workload,
    native: &ComparedRun,
    real: &ComparedRun,
    until_ns: u64,
) -> Option<Workload> {
    let mut out = workload.clone();
    let mut any = false;
    let wakeups = |schedule: &ComparedRun| {
        let mut times_ns = vec![Vec::new(); workload.tasks.len()];
        for placement in schedule.placements.iter().filter(|placement| placement.by == By::Wakeup) {
            times_ns[placement.task.index()].push(placement.time_ns);
        }
        times_ns
    };
    for ((task, native_ns), real_ns) in out.tasks.iter_mut().zip(wakeups(native)).zip(wakeups(real)) {
        let late: Vec<u64> = native_ns
            .iter()
            .zip(&real_ns)
            .take_while(|&(&native_ns, &real_ns)| {
                native_ns <= until_ns && (native_ns..=native_ns + RESOLUTION_NS).contains(&real_ns)
            })
            .map(|(native_ns, real_ns)| real_ns - native_ns)
            .collect();
        if late.iter().all(|&late_ns| late_ns == 0) {
            continue;
        }
        // how much later than planned the last instant is by now
        let mut owed = Span::ZERO;
        let events = task.events.iter_mut().filter_map(|event| match &mut event.kind {
            EventKind::Wakeup(wakeup) => Some(wakeup),
            _ => None,
        });
        // (one more than were late: the next instant stays where it was)
        for (wakeup, late_ns) in events.zip(late.into_iter().chain([0])) {
            let Wakeup::External { after, source } = wakeup else { continue };
            let late = Span::from_ns(late_ns);
            any |= late_ns > 0;
            *after += late;
            if *source == ExternalSource::Absolute {
                *after = after.saturating_sub(std::mem::replace(&mut owed, late));
            }
        }
    }
    any.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::super::measure::Placement;
    use super::*;
    use schedlab_machine::drawn::{Life, workload};
    use schedlab_units::TaskId;

    fn woken(times_ns: &[u64]) -> ComparedRun {
        let placement = |&time_ns: &u64| Placement { time_ns, task: TaskId(0), cpu: 0, by: By::Wakeup };
        ComparedRun { placements: times_ns.iter().map(placement).collect(), ..ComparedRun::default() }
    }

    fn sleeps_ns(workload: &Workload) -> Vec<u64> {
        let wakeups = workload.tasks[0].events.iter().filter_map(|event| match event.kind {
            EventKind::Wakeup(Wakeup::External { after, .. }) => Some(after.as_ns()),
            _ => None,
        });
        wakeups.collect()
    }

    /// Woken at 3 ms, at 6 ms and 9 ms; real Linux 400 ns later the second time.
    #[test]
    fn a_sleep_is_as_long_as_the_real_one() {
        let life = [
            Life::Run(1),
            Life::Sleep(2),
            Life::Run(1),
            Life::Sleep(2),
            Life::Run(1),
            Life::Sleep(2),
            Life::Run(1),
        ];
        let workload = workload(&[&life]);
        let native = woken(&[3_000_000, 6_000_000, 9_000_000]);
        let real = woken(&[3_000_000, 6_000_400, 9_000_000]);
        let late = with_late_timers(&workload, &native, &real, 20_000_000).unwrap();
        assert_eq!(sleeps_ns(&late), [2_000_000, 2_000_400, 2_000_000]);
        assert!(with_late_timers(&workload, &native, &real, 5_000_000).is_none(), "nothing is late so early");
        let late_by_more = woken(&[3_000_000, 6_001_001, 9_000_000]);
        assert!(with_late_timers(&workload, &native, &late_by_more, 20_000_000).is_none());
        let early = woken(&[3_000_000, 5_999_999, 9_000_000]);
        assert!(with_late_timers(&workload, &native, &early, 20_000_000).is_none());
    }

    /// Instants do not move: who is 400 ns late at one of them is not late at the next.
    #[test]
    fn the_next_instant_stays_where_it_was() {
        let life = [Life::Run(1), Life::Sleep(2), Life::Run(1), Life::Sleep(2), Life::Run(1)];
        let mut workload = workload(&[&life]);
        for event in &mut workload.tasks[0].events {
            if let EventKind::Wakeup(Wakeup::External { source, after }) = &mut event.kind {
                (*source, *after) = (ExternalSource::Absolute, Span::from_ms(3));
            }
        }
        let native = woken(&[3_000_000, 6_000_000]);
        let late = with_late_timers(&workload, &native, &woken(&[3_000_400, 6_000_000]), 20_000_000).unwrap();
        assert_eq!(sleeps_ns(&late), [3_000_400, 2_999_600]);
    }
}
