//! Which parameters can be inferred in which cases? Written down before any run.
//!
//! A case is identifiable if a poller could tell in principle: enough of the evidence exists, and nothing that looks
//! the same covers it. "Cannot tell" in any other case is the right answer, and is not counted.

use super::case::{DrawnCase, Load, Truth};
use crate::infer::Question;

/// A case in which a parameter can be inferred.
pub(crate) struct Identifiable {
    pub(crate) question: Question,
    /// For at least so long.
    pub(crate) least_ms: u64,
    /// By whom.
    pub(crate) needs: &'static str,
    pub(crate) is_given: fn(&DrawnCase, &Truth) -> bool,
}

fn computes(case: &DrawnCase) -> bool {
    case.load != Load::Sleepers
}

/// Turns end by ticks, and each thread sees ticks within its turns too.
fn has_spare_ticks(case: &DrawnCase, truth: &Truth) -> bool {
    truth.turn_ns.is_none_or(|turn_ns| turn_ns > 1.9 * case.view.tick_ns)
}

/// Schedulers whose nice values are Linux's weights.
fn is_fair(case: &DrawnCase) -> bool {
    ["eevdf", "cfs", "linux"].iter().any(|name| case.sched.starts_with(name))
}

/// The table.
pub(crate) const TABLE: [Identifiable; 14] = [
    Identifiable {
        question: Question::Tick,
        least_ms: 1000,
        needs: "a thread that computes",
        is_given: |case, _| computes(case),
    },
    Identifiable {
        question: Question::TickCost,
        least_ms: 1000,
        needs: "a thread that computes, and turns of two ticks or more",
        is_given: |case, truth| computes(case) && has_spare_ticks(case, truth),
    },
    Identifiable {
        question: Question::Slice,
        least_ms: 1000,
        needs: "two equal threads that compute on each CPU, and 60 turns",
        is_given: |case, truth| case.load == Load::Equal && truth.turns >= 60,
    },
    Identifiable {
        question: Question::SwitchCost,
        least_ms: 1000,
        needs: "two equal threads that compute on each CPU, 60 turns, each of two ticks or more",
        is_given: |case, truth| case.load == Load::Equal && truth.turns >= 60 && has_spare_ticks(case, truth),
    },
    Identifiable {
        question: Question::DispatchLatency,
        least_ms: 1000,
        needs: "a thread that sleeps, on an idle CPU, by a timer without a grid",
        is_given: |case, _| case.load == Load::Sleepers && case.view.timer_grain_ns == 0.0,
    },
    Identifiable {
        question: Question::TimerGrain,
        least_ms: 1000,
        needs: "a thread that sleeps, by a timer with a grid of 0.9 ms or more",
        is_given: |case, _| case.load == Load::Sleepers && case.view.timer_grain_ns > 0.0,
    },
    Identifiable {
        question: Question::RtLimit,
        least_ms: 4000,
        needs: "a real-time thread that computes beside a normal one on its CPU, and four pauses of 5 ms",
        is_given: |case, truth| case.load == Load::RealTime && truth.rt_limit_ns.is_some(),
    },
    Identifiable {
        question: Question::CpuMaxQuota,
        least_ms: 2000,
        needs: "threads that compute in the group, and ten pauses",
        is_given: |case, truth| case.load == Load::Throttled && truth.pauses >= 10,
    },
    Identifiable {
        question: Question::CpuMaxPeriod,
        least_ms: 2000,
        needs: "threads that compute in the group, and ten pauses",
        is_given: |case, truth| case.load == Load::Throttled && truth.pauses >= 10,
    },
    Identifiable {
        question: Question::HiddenShare,
        least_ms: 1000,
        needs: "a thread that computes",
        is_given: |case, _| computes(case) && case.load != Load::RealTime,
    },
    Identifiable {
        question: Question::InterruptRate,
        least_ms: 1000,
        needs: "a thread that computes, and 100 interrupts a second or more beside the tick",
        is_given: |case, _| computes(case) && case.load != Load::RealTime && case.view.noise_hz >= 100.0,
    },
    Identifiable {
        question: Question::InterruptCost,
        least_ms: 1000,
        needs: "a thread that computes, and 100 interrupts a second or more beside the tick",
        is_given: |case, _| computes(case) && case.load != Load::RealTime && case.view.noise_hz >= 100.0,
    },
    Identifiable {
        question: Question::NiceShare,
        least_ms: 1000,
        needs: "two threads that compute on one CPU, one nicer",
        is_given: |case, _| case.load == Load::Nicer && case.cpus == 1,
    },
    Identifiable {
        question: Question::Family,
        least_ms: 1000,
        needs: "two threads that compute on one CPU, one nicer, under a fair class",
        is_given: |case, _| case.load == Load::Nicer && case.cpus == 1 && is_fair(case),
    },
];
