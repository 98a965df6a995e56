//! Why do two schedules differ at first? Each cause with the evidence that tells it, and where in the kernel it lies.

use super::compare::{Comparison, Divergence};
use super::schedule::By;
use schedlab_units::TaskId;
use schedlab_workload::{Birth, InitState, Workload};

/// A cause of a first difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// 6.12's deadline server for the fair class ends slices.
    FairServer,
    /// The kernel's own threads compete too.
    OwnThreads,
    /// A timer less than 1 us ahead fires 1 us ahead.
    TimerResolution,
    /// Tasks that are blocked at the start have another virtual time.
    BlockedAtStart,
    /// A new task was put on another CPU.
    ForkPlacement,
    /// A woken task was put on another CPU.
    WakeupPlacement,
    /// A waiting task was moved to another CPU.
    Balancing,
    /// The same tasks were there, and another was chosen.
    Choice,
}

impl Cause {
    /// All.
    pub const ALL: [Cause; 8] = [
        Cause::FairServer,
        Cause::OwnThreads,
        Cause::TimerResolution,
        Cause::BlockedAtStart,
        Cause::ForkPlacement,
        Cause::WakeupPlacement,
        Cause::Balancing,
        Cause::Choice,
    ];

    /// A few words, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Cause::FairServer => "fair server",
            Cause::OwnThreads => "kernel's own threads",
            Cause::TimerResolution => "timers under 1 us",
            Cause::BlockedAtStart => "blocked at the start",
            Cause::ForkPlacement => "fork placement",
            Cause::WakeupPlacement => "wakeup placement",
            Cause::Balancing => "balancing",
            Cause::Choice => "choice",
        }
    }

    /// How it is told, and where it lies.
    pub fn explanation(self) -> &'static str {
        match self {
            Cause::FairServer => {
                "Since 6.8 a deadline server stands in for the fair class (50 ms per s, deferred). Coming out of the boot it runs at first \
                 (dl_defer_running), charges fair tasks, and when its budget is used up calls resched_curr(): a slice ends early, and \
                 as RUN_TO_PARITY protects only an eligible task, another is chosen. Told by: with the server's runtime set to 0 \
                 (--param sched/fair_server/cpuN/runtime=0) the difference is gone or later. Shares are the same. (kernel/sched/deadline.c: \
                 dl_server_start, update_curr_dl_se)"
            }
            Cause::OwnThreads => {
                "kworkers (vmstat, random), rcu_preempt and others of the kernel's own threads wake up, are placed on the fair queue, move \
                 the mean virtual time, and make the kernel account for the current task, which can end its slice between two ticks. \
                 A native policy has no such threads. Told by: with the same wakeups in its workload, as tasks that need no CPU \
                 time, the difference is gone or later."
            }
            Cause::TimerResolution => {
                "The clock event device of the port cannot be programmed less than 1 us ahead (as real ones cannot, min_delta_ns); a \
                 shorter sleep of the workload ends then. Native policies wake to the ns. Told by: the same decision, less than 1 us apart."
            }
            Cause::BlockedAtStart => {
                "The port creates tasks that are blocked at the start before the start: each is placed a slice after the others \
                 (START_DEBIT) and blocks without having run, so that their virtual times differ by up to a period at their first \
                 wakeup. The native policy lets them begin equal. Told by: the task concerned was blocked at the start. \
                 (kernel/sched/fair.c: place_entity)"
            }
            Cause::ForkPlacement => {
                "sched_balance_find_dst_cpu() classifies groups of CPUs by decayed utilisation and load (PELT) and looks for the \
                 one with most spare capacity. The native policy counts runnable weights."
            }
            Cause::WakeupPlacement => {
                "select_task_rq_fair(): wake_affine() compares decayed loads (PELT), wake_wide() looks at who wakes whom how often, and \
                 SIS_UTIL ends the search for an idle CPU early by the cache domain's utilisation. The native policy compares \
                 runnable weights and searches all."
            }
            Cause::Balancing => {
                "sched_balance_rq(): since 5.5 the amount to move is decided by group types (has spare, fully busy, overloaded, ...) and by \
                 decayed loads; when it is tried depends on the cost measured and, when newly idle, on a random number. The native policy \
                 has the older rule: the mean of runnable weights, at fixed intervals."
            }
            Cause::Choice => {
                "The same tasks were runnable at the same time, and the two chose differently: a rule of the policy or its arithmetic \
                 differs. There should be none of these."
            }
        }
    }
}

/// Timers differ by this at most through the resolution of the clock event device.
const RESOLUTION_NS: u64 = 1_000;

/// The cause of a difference that own threads and the fair server do not explain.
pub fn cause(found: &Divergence, workload: &Workload, nr_cpus: u32, start_debit: bool) -> Cause {
    if let (Some(a), Some(b)) = (found.first, found.second)
        && a.task == b.task
        && a.time_ns.abs_diff(b.time_ns) <= RESOLUTION_NS
    {
        return Cause::TimerResolution;
    }
    let concerned = || [found.first, found.second].into_iter().flatten();
    if start_debit && concerned().any(|decision| was_blocked_at_start(decision.task, workload)) {
        return Cause::BlockedAtStart;
    }
    match found.placement {
        Some((placement, _)) if nr_cpus > 1 => match placement.by {
            By::Birth => Cause::ForkPlacement,
            By::Wakeup => Cause::WakeupPlacement,
            By::Balancing => Cause::Balancing,
        },
        _ => Cause::Choice,
    }
}

fn was_blocked_at_start(task: TaskId, workload: &Workload) -> bool {
    let birth = workload.tasks.get(task.0 as usize).filter(|_| !task.is_idle()).map(|task| task.birth);
    matches!(birth, Some(Birth::Init { state: InitState::Blocked, .. }))
}

/// Whether the first difference is gone or later.
pub fn moved(before: &Comparison, after: &Comparison) -> bool {
    match (before.divergence, after.divergence) {
        (Some(_), None) => true,
        (Some(before), Some(after)) => after.time_ns > before.time_ns,
        (None, _) => false,
    }
}
