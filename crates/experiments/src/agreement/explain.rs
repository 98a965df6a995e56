//! Why do two schedules differ at first? Each cause with the evidence that tells it, and where in the kernel it lies.

use super::judge::{Comparison, Divergence};
use super::late_timers::RESOLUTION_NS;
use super::measure::{By, ComparedRun, Decision};
use schedlab_units::{SchedPolicy, TaskId};
use schedlab_workload::{Birth, InitState, Workload};

/// A cause of a first difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// 6.12's deadline server for the fair class ends slices.
    FairServer,
    /// 6.1 lets real-time tasks have 950 ms of each second only.
    RealTimeLimit,
    /// The kernel's own threads compete too.
    OwnThreads,
    /// A timer less than 1 us ahead fires 1 us ahead.
    TimerResolution,
    /// Tasks that are blocked at the start have another virtual time.
    BlockedAtStart,
    /// The native deadline class is 6.12's.
    OlderDeadline,
    /// A deadline or real-time task was put on another CPU.
    RealTimePlacement,
    /// Slices of SCHED_RR are counted in ticks.
    RoundRobin,
    /// A new task was put on another CPU.
    ForkPlacement,
    /// A woken task was put on another CPU.
    WakeupPlacement,
    /// A waiting task was moved to another CPU.
    Balancing,
    /// None of these.
    Unexplained,
}

impl Cause {
    /// All.
    pub const ALL: [Cause; 12] = [
        Cause::FairServer,
        Cause::RealTimeLimit,
        Cause::OwnThreads,
        Cause::TimerResolution,
        Cause::BlockedAtStart,
        Cause::OlderDeadline,
        Cause::RealTimePlacement,
        Cause::RoundRobin,
        Cause::ForkPlacement,
        Cause::WakeupPlacement,
        Cause::Balancing,
        Cause::Unexplained,
    ];

    /// A few words, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Cause::FairServer => "fair server",
            Cause::RealTimeLimit => "real-time limit",
            Cause::OwnThreads => "kernel's own threads",
            Cause::TimerResolution => "timers under 1 us",
            Cause::BlockedAtStart => "blocked at the start",
            Cause::OlderDeadline => "6.1's deadline class",
            Cause::RealTimePlacement => "real-time placement",
            Cause::RoundRobin => "round robin in ticks",
            Cause::ForkPlacement => "fork placement",
            Cause::WakeupPlacement => "wakeup placement",
            Cause::Balancing => "balancing",
            Cause::Unexplained => "not explained",
        }
    }

    /// How to see it, and where it lies.
    pub fn explanation(self) -> &'static str {
        match self {
            Cause::FairServer => {
                "Since 6.8 a deadline server stands in for the fair class (50 ms per s, deferred). Coming out of the \
                 boot it runs at first (dl_defer_running), charges fair tasks, and when its budget is used up calls \
                 resched_curr(): a slice ends early, and as RUN_TO_PARITY protects only an eligible task, another is \
                 chosen. Told by: with the server's runtime set to 0 (--param sched/fair_server/cpuN/runtime=0) the \
                 difference is gone or later. Shares are the same. (kernel/sched/deadline.c: dl_server_start, \
                 update_curr_dl_se)"
            }
            Cause::RealTimeLimit => {
                "Before 6.8 FIFO and RR tasks together have 950 ms of each second (sched_rt_runtime_us) while others \
                 wait. The native policy has no such limit. Told by: with the limit off (--param rt_runtime_us=-1) \
                 the difference is gone or later. (kernel/sched/rt.c: sched_rt_runtime_exceeded)"
            }
            Cause::OwnThreads => {
                "kworkers (vmstat, random), rcu_preempt and others of the kernel's own threads wake up, are placed on \
                 the fair queue, move the mean virtual time, and make the kernel account for the current task, which \
                 can end its slice between two ticks. A native policy has no such threads. Told by: with the same \
                 wakeups in its workload, as tasks that need no CPU time, the difference is gone or later."
            }
            Cause::TimerResolution => {
                "The clock event device of the port cannot be programmed less than 1 us ahead (as real ones cannot, \
                 min_delta_ns); a shorter sleep of the workload ends then. Native policies wake to the ns. Told by: \
                 with sleeps lengthened by what real Linux woke the tasks later (1 us at most each), the difference \
                 is gone or later; or the same decision comes less than 1 us apart."
            }
            Cause::BlockedAtStart => {
                "The port creates tasks that are blocked at the start before the start: each is placed a slice after \
                 the others (START_DEBIT) and blocks without having run, so that their virtual times differ by up to \
                 a period at their first wakeup. The native policy lets them begin equal. Told by: the task concerned \
                 was blocked at the start. (kernel/sched/fair.c: place_entity)"
            }
            Cause::OlderDeadline => {
                "The native servers (cbs) follow 6.12. When 6.1 chooses anew, it first puts the current task back, \
                 which accounts for it (core.c: put_prev_task_balance; deadline.c: put_prev_task_dl calls \
                 update_curr_dl): a budget that is used up is found then, and the task throttled. 6.12 chooses first \
                 and puts nobody back if the same task is chosen (sched.h: put_prev_set_next_task), so that the \
                 overrun is found at the next tick. A task that wakes while throttled asks for such a choice (its old \
                 deadline is the earlier one). Told by: one CPU, 6.1, and a task concerned is SCHED_DEADLINE."
            }
            Cause::RealTimePlacement => {
                "Which CPU a deadline or real-time task runs on: Linux keeps a queue per CPU and pushes and pulls \
                 (cpudl, cpupri), the native policy has one queue for all. Which tasks run is the same by design: see \
                 same_pct, which does not ask on which CPU. Told by: the task placed, or the one that runs, is \
                 DEADLINE, FIFO or RR, and there are several CPUs."
            }
            Cause::RoundRobin => {
                "A slice of SCHED_RR is 25 ticks in which the task is found running (HZ=250); the native policy \
                 counts its CPU time, exactly 100 ms. Told by: a task concerned is SCHED_RR. (kernel/sched/rt.c: \
                 task_tick_rt)"
            }
            Cause::ForkPlacement => {
                "sched_balance_find_dst_cpu() classifies groups of CPUs by decayed utilisation and load (PELT) and \
                 looks for the one with most spare capacity. The native policy counts runnable weights."
            }
            Cause::WakeupPlacement => {
                "select_task_rq_fair(): wake_affine() compares decayed loads (PELT), wake_wide() looks at who wakes \
                 whom how often, and SIS_UTIL ends the search for an idle CPU early by the cache domain's \
                 utilisation. The native policy compares runnable weights and searches all."
            }
            Cause::Balancing => {
                "sched_balance_rq(): since 5.5 the amount to move is decided by group types (has spare, fully busy, \
                 overloaded, ...) and by decayed loads; when it is tried depends on the cost measured and, when newly \
                 idle, on a random number. The native policy has the older rule: the mean of runnable weights, at \
                 fixed intervals."
            }
            Cause::Unexplained => {
                "None of the above tells it. Where such differences were followed through the kernel's own run queues \
                 (schedlab linux debug), virtual times agreed to a few ns until then: the kernel's own threads had \
                 woken in another order, or two deadlines were closer than rounding."
            }
        }
    }
}

/// The cause of a difference that own threads and Linux' protection of fair tasks do not explain.
pub fn cause(
    found: &Divergence,
    workload: &Workload,
    native: &ComparedRun,
    real: &ComparedRun,
    start_debit: bool,
) -> Cause {
    let nr_cpus = real.decisions.len();
    let concerned = || [found.first, found.second].into_iter().flatten();
    let is_same =
        |a: Decision, b: Decision| a.task == b.task && a.time_ns.abs_diff(b.time_ns) <= RESOLUTION_NS;
    if found.first.zip(found.second).is_some_and(|(a, b)| is_same(a, b)) || wakes_early(found, native, real) {
        return Cause::TimerResolution;
    }
    if nr_cpus > 1 && is_real_time_placement(found, workload) {
        return Cause::RealTimePlacement;
    }
    if start_debit && concerned().any(|decision| was_blocked_at_start(decision.task, workload)) {
        return Cause::BlockedAtStart;
    }
    if start_debit
        && concerned().any(|decision| class_of(decision.task, workload) == Some(SchedPolicy::Deadline))
    {
        return Cause::OlderDeadline;
    }
    if concerned().any(|decision| class_of(decision.task, workload) == Some(SchedPolicy::RoundRobin)) {
        return Cause::RoundRobin;
    }
    match found.placement {
        Some((placement, _)) if nr_cpus > 1 => match placement.by {
            By::Birth => Cause::ForkPlacement,
            By::Wakeup => Cause::WakeupPlacement,
            By::Balancing => Cause::Balancing,
        },
        _ => Cause::Unexplained,
    }
}

/// Whether the native policy woke a task within the last us that real Linux woke, or wakes, up to 1 us later.
fn wakes_early(found: &Divergence, native: &ComparedRun, real: &ComparedRun) -> bool {
    let window = |schedule: &ComparedRun, from_ns: u64, to_ns: u64| -> Vec<(u64, TaskId)> {
        let first = schedule.placements.partition_point(|placement| placement.time_ns < from_ns);
        let within = schedule.placements[first..].iter().take_while(|placement| placement.time_ns <= to_ns);
        within
            .filter(|placement| placement.by == By::Wakeup)
            .map(|placement| (placement.time_ns, placement.task))
            .collect()
    };
    let now_ns = found.time_ns;
    let later = window(real, now_ns.saturating_sub(RESOLUTION_NS), now_ns + RESOLUTION_NS);
    let is_late = |&(time_ns, task): &(u64, TaskId)| {
        later
            .iter()
            .any(|&(real_ns, other)| other == task && real_ns > time_ns && real_ns - time_ns <= RESOLUTION_NS)
            && !later.contains(&(time_ns, task))
    };
    window(native, now_ns.saturating_sub(RESOLUTION_NS), now_ns).iter().any(is_late)
}

/// A task's policy at the start, if it was stated or the task is one of the workload's.
fn class_of(task: TaskId, workload: &Workload) -> Option<SchedPolicy> {
    let task = workload.tasks.get(task.0 as usize).filter(|_| !task.is_idle())?;
    Some(task.params.map_or(SchedPolicy::Normal, |params| params.policy))
}

/// Whether the first placement that differs, or else a task concerned, is of a class above the fair one.
fn is_real_time_placement(found: &Divergence, workload: &Workload) -> bool {
    let is_above = |task: TaskId| {
        matches!(
            class_of(task, workload),
            Some(SchedPolicy::Deadline | SchedPolicy::Fifo | SchedPolicy::RoundRobin)
        )
    };
    match found.placement {
        Some((placement, _)) => is_above(placement.task),
        None => [found.first, found.second].into_iter().flatten().any(|decision| is_above(decision.task)),
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
