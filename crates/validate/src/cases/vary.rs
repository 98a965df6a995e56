//! What does every real run have that a replay lacks? Kernel code takes time: no burst ends on the nanosecond.
//!
//! A burst that is exactly as long as a tick is a trap: begun at a tick, it is over at the next, and the tick
//! comes first: the task is preempted with nothing left to do. Eight tasks that run 4 ms and sleep 6 ms fall
//! into step that way in the simulation, and a CPU idles for a tenth of the time; one microsecond of doubt
//! about the ends dissolves it. (docs/validate.md, "What the comparison found".)

use schedlab_stdx::Random;
use schedlab_units::Span;
use schedlab_workload::{EventKind, Workload};

/// Each end of a burst comes up to this late: a system call's way into the kernel and out of it, as the guest shows it.
pub const BURST_END_NS: u64 = 5_000;

/// The workload with the end of each burst moved by 0 to [`BURST_END_NS`]; what one burst is too long the
/// next is shorter, as in the guest, whose tasks compute up to a total. CPU time in total is off by no more
/// than that.
pub fn vary(workload: &Workload, seed: u64) -> Workload {
    let mut varied = workload.clone();
    for (index, task) in varied.tasks.iter_mut().enumerate() {
        let mut random = Random::for_part(seed, index as u64);
        let mut late_ns = 0;
        let mut begins = true; // lengths count from the last wakeup: only a block that follows one is a burst by itself
        for event in &mut task.events {
            let alone = std::mem::replace(&mut begins, matches!(event.kind, EventKind::Wakeup(_)));
            let EventKind::Block { length } = &mut event.kind else { continue };
            if !alone {
                continue;
            }
            let next_ns = random.below(BURST_END_NS + 1);
            let ns = (length.as_ns() + next_ns).saturating_sub(late_ns);
            late_ns = (ns + late_ns).saturating_sub(length.as_ns());
            *length = Span::from_ns(ns);
        }
    }
    varied
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::generate::Spec;

    #[test]
    fn ends_move_a_little_and_totals_hardly() {
        let spec = Spec::from_toml("t", "kind = \"sleepers\"\nduration = \"1s\"").unwrap();
        let workload = spec.build().unwrap();
        let varied = vary(&workload, 7);
        assert_eq!(varied, vary(&workload, 7));
        assert_ne!(varied, vary(&workload, 8));
        for (before, after) in workload.tasks.iter().zip(&varied.tasks) {
            let (before_ns, after_ns) = (before.cpu_demand().as_ns(), after.cpu_demand().as_ns());
            assert!(after_ns >= before_ns && after_ns - before_ns <= BURST_END_NS);
            for (a, b) in before.events.iter().zip(&after.events) {
                if let (Some(a), Some(b)) = (a.kind.length(), b.kind.length()) {
                    assert!(a.as_ns().abs_diff(b.as_ns()) <= BURST_END_NS, "{a} -> {b}");
                }
            }
        }
    }
}
