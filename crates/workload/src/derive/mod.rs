//! What did the tasks of a recorded system want, whatever its scheduler made of it?
//!
//! [`import_trace`] reads a recording (of trace-cmd, perf, ftrace as text, Perfetto) and the /proc snapshot
//! beside it; [`Deriver`] takes the events one by one and gives a [`Workload`]. Worked, for one CPU (ms; `.`
//! another task runs):
//!
//! ```text
//! ms      0    1    2    3    4    5    6    7         derived for A (pid 7), counted from its wakeup
//! cpu0    A    A    .    A   idle idle  A    A|        INIT 0, runnable
//!                 R |  switch   S |    | waking   Z    BLOCK 3ms      (ran 2 + 1; the 1 ms of waiting is not its wish)
//!                                                      WAKEUP 2ms     (elapsed since the block)
//!                                                      EXIT 2ms
//! ```
//!
//! The rules:
//!
//! * CPU time is the sum of a task's stays on CPUs between `sched_switch`es, less the interrupts that hit it
//!   meanwhile where those were recorded ([`InterruptRule`]).
//! * prev_state S, D, T, t, I, P: BLOCK. Z, X: EXIT. R, R+: preempted; R after the entry of `sched_yield` and
//!   before its exit: YIELD ([`DeriveOptions::yields`]).
//! * Wakeups come from `sched_waking` (its place and time are the waker's); where that was not recorded, from
//!   `sched_wakeup`. Where none came between a block and the task's next stay, the last waking before the
//!   switch-out belongs to that block: the waker saw the task's state change before it had left its CPU, which
//!   may take a while (it looks for other tasks to run). A redis server with its client showed 1,963 of 7,373
//!   blocks woken so early, all within 50 us; an nginx server one after 94 us.
//! * Waker in task context (or in one that the recording does not tell: counted): a dependent wakeup; `event`
//!   is the waker's next event, `distance` its CPU time from the waking to that. Hardirq, idle task:
//!   external. Softirq: see [`SoftIrqRule`]; ksoftirqd's are its own. Which it was stands in the workload
//!   ([`ExternalSource`](crate::ExternalSource)) and in its notes.
//! * FORK at `sched_wakeup_new` after `sched_process_fork`; a task first seen by `sched_wakeup_new` alone is
//!   INIT, blocked.
//! * INIT for every task that is there when first seen: blocked if it was woken first, else runnable.
//! * Nice and policy come from the priorities in the events and from the snapshot, which knows SCHED_BATCH,
//!   RR and IDLE apart. PRIO comes from the system calls that change them, placed at the caller; a change
//!   that no call explains is placed where it is first seen. A priority that `sched_pi_setprio` lends is
//!   never taken for one.
//! * Control groups with their weights, limits and cpusets come from the snapshot; a move
//!   (`cgroup_attach_task`) becomes PRIO of the task that made it.
//! * migration/N, which only the scheduler causes, is left out and counted.
//! * What contradicts itself or is missing is counted by reason in [`Workload::dropped`]; facts are in
//!   [`Workload::notes`].
//!
//! A task that is on a CPU or waits for one when the trace ends gets a last BLOCK, so that its CPU time is complete.

mod calls;
mod causes;
mod engine;
mod finish;
mod groups;
mod import;
mod interrupts;
mod prio;
mod settings;
mod snapshot;
mod tasks;

#[cfg(test)]
mod tests;
mod window;

pub use engine::{Deriver, caused_by_scheduler, is_possible};
pub use import::{ImportError, import_trace, snapshot_beside};
pub use prio::{params_for, prio_of};
pub use snapshot::{GroupRow, ProcRow, ProcSnapshot, SnapshotError};
pub use window::{TraceTime, Window, WindowError};

use crate::{Messages, Workload};
use schedlab_units::Span;

/// What may be chosen. [`DeriveOptions::default`] are the rules above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeriveOptions {
    /// Which calls of `sched_yield` become YIELD.
    pub yields: YieldRule,
    /// When a wakeup from a softirq depends on the interrupted task.
    pub softirq: SoftIrqRule,
    /// Whether interrupts count as CPU time of the task that they hit.
    pub interrupts: InterruptRule,
    /// Whether tasks wait at channels, and which. `None`: at recorded ones, if there is one among the first events of
    /// the recording ([`import_trace`]), else at none.
    pub messages: Option<Messages>,
    /// Which part of the recording is taken.
    pub window: Window,
}

impl Default for DeriveOptions {
    fn default() -> Self {
        DeriveOptions {
            yields: YieldRule::Switched,
            softirq: SoftIrqRule::Evidence,
            interrupts: InterruptRule::Subtract,
            messages: None,
            window: Window::default(),
        }
    }
}

/// What becomes of the time of recorded interrupts, and of softirqs that interrupts have raised. (A softirq
/// that a task has raised in its own context is the task's work, wherever the task runs next time, and always
/// counts as its CPU time.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptRule {
    /// It is taken out of the tasks' CPU time; how much is in [`Summary::interrupt_ns`].
    Subtract,
    /// It counts as CPU time of the tasks that it hit, as it must where no interrupts were recorded.
    Keep,
    /// It is taken out of the tasks' CPU time, and a task above all others takes it from the CPU again, at its time.
    Replay,
}

/// Which calls of `sched_yield` become YIELD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YieldRule {
    /// Those after which another task ran.
    Switched,
    /// All: on fewer CPUs more of them would have mattered.
    All,
}

/// When a wakeup from a softirq depends on the task that the softirq interrupted, its *current* task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftIrqRule {
    /// By evidence. With softirq events in the trace: one that the current task has raised in its own context
    /// (`softirq_raise`) runs on its behalf (it sent something over the loopback); where raises were not
    /// recorded, a network softirq that did not follow a hardware interrupt on its CPU (within 10 us). All
    /// others are external. Without softirq events: if the two tasks wake each other by softirqs, both ways,
    /// as client and server do over the loopback. A task that merely happened to run when a device's packet
    /// came is not woken by its receiver in turn.
    Evidence,
    /// Always external.
    Never,
    /// Always dependent (unless the current task is the idle task).
    Always,
}

/// What was derived.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// The workload.
    pub workload: Workload,
    /// Counts that reports show.
    pub summary: Summary,
}

/// Counts of one derivation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events read from the trace.
    pub trace_events: u64,
    /// From the first event to the last (ns).
    pub duration_ns: u64,
    /// CPU time of all tasks in the workload (ns).
    pub cpu_ns: u64,
    /// Time of interrupts that hit tasks, not in their CPU time (ns).
    pub interrupt_ns: u64,
    /// `sched_switch`es.
    pub switches: u64,
    /// BLOCK events, final ones included.
    pub blocks: u64,
    /// YIELD events.
    pub yields: u64,
    /// WAKEUP events by cause.
    pub wakeups: WakeupCounts,
    /// What it costs a waker at a recorded channel more if an idle CPU is interrupted for whom it wakes.
    pub kick: Span,
    /// Where channels come from.
    pub messages: Messages,
}

/// WAKEUP events of the workload by what was behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeupCounts {
    /// Dependent: the waker did it itself.
    pub task: u64,
    /// Dependent: a softirq on behalf of the waker.
    pub softirq_on_behalf: u64,
    /// Of the dependent softirqs, those whose raise was recorded in the waker's context; the others are known
    /// by time or by pairs.
    pub softirq_raised: u64,
    /// External: a softirq (network, block device, ...).
    pub softirq: u64,
    /// External: the timer softirq.
    pub timer_softirq: u64,
    /// External: the CPU's timer interrupt.
    pub timer: u64,
    /// External: a device's interrupt.
    pub device: u64,
    /// External: a hardware interrupt whose kind was not recorded, another CPU's message, or an NMI.
    pub other_hardirq: u64,
    /// External: from the idle task.
    pub idle: u64,
    /// External: the waker is not in the workload (left out, or not known to run).
    pub unknown_waker: u64,
    /// External: made up, because the task ran again without one.
    pub made_up: u64,
}

impl WakeupCounts {
    /// All.
    pub fn total(&self) -> u64 {
        self.task + self.softirq_on_behalf + self.external()
    }
    /// Those that no task of the workload causes.
    pub fn external(&self) -> u64 {
        self.softirqs() + self.hardirqs() + self.idle + self.unknown_waker + self.made_up
    }
    /// External ones in hardware interrupts.
    pub fn hardirqs(&self) -> u64 {
        self.timer + self.device + self.other_hardirq
    }
    /// External ones in softirqs.
    pub fn softirqs(&self) -> u64 {
        self.softirq + self.timer_softirq
    }
    /// Share of external ones, in percent; 0 if there are none at all.
    pub fn external_percent(&self) -> f64 {
        if self.total() == 0 { 0.0 } else { 100.0 * self.external() as f64 / self.total() as f64 }
    }
}
