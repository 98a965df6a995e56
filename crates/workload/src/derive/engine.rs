//! One event after the other: who is on which CPU, who sleeps, who woke whom.

use super::groups::Moves;
use super::interrupts::Interrupts;
use super::snapshot::{ProcRow, ProcSnapshot};
use super::tasks::{Cause, Evidence, Task, Tasks, Where};
use super::{DeriveOptions, Summary, YieldRule};
use crate::messages::Channels;
use crate::{Birth, EventKind, ExternalSource, InitState, Messages, ObjectOp, Recorded};
use schedlab_trace::{
    Carried, CommId, Counts, Marker, ObjectCall, Pid, SchedEvent, SwitchSide, SyncCall, SyncOp, Syscall,
    SyscallKind, TaskState, TraceEvent, Wake,
};
use schedlab_units::{Span, TaskId};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Derives a workload from events in order of time. Feed it with [`Deriver::event`], then call [`Deriver::finish`].
pub struct Deriver<'a> {
    pub(super) options: DeriveOptions,
    pub(super) messages: Messages,
    pub(super) snapshot: Option<&'a ProcSnapshot>,
    pub(super) tasks: Tasks,
    pub(super) cpus: Vec<Cpu>,
    pub(super) start_ns: Option<u64>,
    pub(super) now_ns: u64,
    pub(super) counts: Counts,
    pub(super) summary: Summary,
    pub(super) facts: Facts,
    /// Control groups that tasks were moved to, in order of the moves.
    pub(super) moves: Moves,
    /// Pipes and sockets, if they are asked for.
    pub(super) channels: Channels,
    /// What interrupts had of each CPU, if they are to be replayed (ns from the start).
    pub(super) stolen: Vec<Vec<(u64, u64)>>,
    /// Numbers of tasks that are left out.
    left_out: BTreeSet<Pid>,
    /// Wakeups that came before their sleep, by the number that an export gave them.
    early: BTreeMap<u64, Cause>,
    /// Pairs (current, woken) of wakeups from softirqs; only ever asked, never listed.
    pub(super) softirq_pairs: HashSet<(u32, u32)>,
}

/// What the notes of the workload tell besides the summary.
#[derive(Default)]
pub(super) struct Facts {
    pub yield_calls: u64,
    /// Lines of text tell settings in full, besides the calls.
    pub told_settings: bool,
    pub early_wakes: u64,
    pub ignored_wakes: u64,
    /// Which of them the trace has.
    pub irq_events: bool,
    pub vector_events: bool,
    pub softirq_events: bool,
    pub raise_events: bool,
    pub wakeup_fallback: u64,
    pub unknown_context: u64,
    /// Calls at pipes and sockets.
    pub object_calls: u64,
    /// Calls of `sched_setaffinity`, and of them those whose mask is known.
    pub affinity_calls: u64,
    pub affinity_masks: u64,
    pub uncharged_ns: u64,
    /// Places where events were lost: CPU, last event before, first after, how many.
    pub gaps: Vec<(u32, u64, u64, Option<u64>)>,
    pub nr_gaps: u64,
}

/// Places of lost events that the notes name one by one.
const GAPS_NOTED: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// Nothing is known since the start or since events were lost.
    Unknown,
    /// The idle task.
    Idle,
    /// A task that is left out.
    LeftOut,
    /// Row of the tasks.
    Task(usize),
}

#[derive(Clone, Copy)]
pub(super) struct Cpu {
    pub on: On,
    /// The current task's number; `None` while nothing is known.
    pid: Option<Pid>,
    /// The task that left it to the idle task, though runnable.
    left_runnable: Option<usize>,
    /// Since when `on` is known to hold (for [`On::Unknown`]: since when nothing is known).
    since_ns: u64,
    last_event_ns: u64,
    pub interrupts: Interrupts,
    /// Since when an interrupt has had the current task.
    pub paused_ns: Option<u64>,
}

/// Whether the scheduler itself causes the kernel thread of this name (migration/N): it would run twice in a replay.
#[inline]
pub fn caused_by_scheduler(name: &str) -> bool {
    name.starts_with("migration/")
}

/// Longer than any recording (13 days). A damaged time would otherwise make years of CPU time.
const DURATION_MAX_NS: u64 = 1 << 50;
/// As many CPUs as any Linux can have (CONFIG_NR_CPUS, arch/x86/Kconfig). So many times the longest recording
/// fit in 64 bits.
const CPUS_MAX: u32 = 8192;

/// Whether the threads that an event names can be: 0 is the idle task, which is neither woken nor forked, and
/// none is less.
#[inline]
pub fn is_possible(event: &TraceEvent) -> bool {
    let task = |pid: Pid| pid.0 > 0;
    let any = |pid: Pid| pid.0 >= 0;
    any(event.pid)
        && match event.what {
            SchedEvent::Switch { prev, next, .. } => any(prev.pid) && any(next.pid),
            SchedEvent::Waking(wake) | SchedEvent::Wakeup(wake) | SchedEvent::WakeupNew(wake) => {
                task(wake.pid)
            }
            SchedEvent::Fork { child, .. } => task(child),
            SchedEvent::Exec { pid, old_pid } => task(pid) && task(old_pid),
            SchedEvent::Settings { pid, .. } => task(pid),
            _ => true,
        }
}

impl<'a> Deriver<'a> {
    /// Starts a derivation; `snapshot` is what /proc said at the start of the recording.
    pub fn new(options: DeriveOptions, snapshot: Option<&'a ProcSnapshot>) -> Deriver<'a> {
        let messages = options.messages.unwrap_or_default();
        Deriver {
            options,
            messages,
            snapshot,
            tasks: Tasks::new(messages != Messages::None),
            cpus: Vec::new(),
            start_ns: options.window.from.map(|from| from.0),
            now_ns: 0,
            counts: Counts::new(),
            summary: Summary::default(),
            facts: Facts::default(),
            moves: Moves::default(),
            channels: Channels::default(),
            stolen: Vec::new(),
            left_out: BTreeSet::new(),
            early: BTreeMap::new(),
            softirq_pairs: HashSet::new(),
        }
    }

    /// Calls at pipes and sockets that the recording has.
    pub fn object_calls(&self) -> u64 {
        self.facts.object_calls
    }

    /// Counts something left out or made up.
    pub(super) fn count(&mut self, reason: &str, times: u64) {
        if times > 0 {
            *self.counts.entry(reason.to_string()).or_default() += times;
        }
    }

    /// The task's row in the snapshot, if the task was there then.
    pub(super) fn row_of(&self, task: usize) -> Option<&'a ProcRow> {
        let task = &self.tasks.list[task];
        match task.birth {
            // A number of today's forked task may have been another's at the start.
            Birth::Init { .. } => self.snapshot?.row(task.tid.0),
            Birth::Fork { .. } => None,
        }
    }

    /// Tasks and events of the workload so far. Takes time with the number of tasks.
    pub fn size(&self) -> (u64, u64) {
        let tasks = &self.tasks.list;
        let events: u64 = tasks.iter().map(|task| task.events.len() as u64).sum();
        let stolen: u64 = self.stolen.iter().map(|stretches| 2 * stretches.len() as u64).sum();
        (tasks.len() as u64, events + stolen)
    }

    /// Takes in one event; `name` gives the names behind [`CommId`]s. Events come in order of time.
    pub fn event<'n>(&mut self, event: &TraceEvent, name: impl Fn(CommId) -> &'n str + Copy) {
        self.summary.trace_events += 1;
        let start_ns = *self.start_ns.get_or_insert(event.time_ns);
        if event.time_ns.saturating_sub(start_ns) > DURATION_MAX_NS || event.cpu.0 >= CPUS_MAX {
            self.count("event more than 13 days after the first or on a CPU beyond 8192, left out", 1);
            return;
        }
        // times of a damaged recording may go back
        self.now_ns = self.now_ns.max(event.time_ns);
        let event = &TraceEvent { time_ns: self.now_ns, ..*event };
        let cpu = event.cpu.index();
        if self.cpus.len() <= cpu {
            let unknown = Cpu {
                on: On::Unknown,
                pid: None,
                left_runnable: None,
                since_ns: start_ns,
                last_event_ns: start_ns,
                interrupts: Interrupts::default(),
                paused_ns: None,
            };
            self.cpus.resize(cpu + 1, unknown);
        }
        if !is_possible(event) {
            self.count("event that names an impossible thread, left out", 1);
            return;
        }
        let current = match event.what {
            SchedEvent::Switch { prev, .. } => {
                if caused_by_scheduler(name(prev.comm)) {
                    self.left_out.insert(prev.pid);
                }
                prev.pid
            }
            _ => event.pid,
        };
        if self.cpus[cpu].pid != Some(current)
            && !matches!(event.what, SchedEvent::Lost { .. } | SchedEvent::Exec { .. })
        {
            self.found_on(cpu, current);
        }
        match event.what {
            SchedEvent::Switch { prev, prev_state, next } => self.switch(cpu, prev, prev_state, next, name),
            SchedEvent::Waking(wake) => self.waking(event, wake, false, name),
            SchedEvent::Wakeup(wake) => self.wakeup(event, wake, name),
            SchedEvent::WakeupNew(wake) => self.wakeup_new(wake, name),
            SchedEvent::Fork { parent, child, child_comm } => self.fork(parent, child, child_comm),
            SchedEvent::Lost { count } => self.lost(cpu, count),
            SchedEvent::PiSetPrio { pid, old_prio, new_prio } => {
                if let Some(task) = self.tasks.find(pid) {
                    self.pi_prio(task, old_prio, new_prio);
                }
            }
            SchedEvent::SysEnter(call) => self.sys_enter(event.pid, call),
            SchedEvent::SysExit { call, ret } => self.sys_exit(event.pid, call, ret),
            SchedEvent::IrqEntry { .. }
            | SchedEvent::IrqExit { .. }
            | SchedEvent::VectorEntry(_)
            | SchedEvent::VectorExit(_)
            | SchedEvent::SoftIrqRaise { .. }
            | SchedEvent::SoftIrqEntry { .. }
            | SchedEvent::SoftIrqExit { .. } => self.interrupt(event),
            SchedEvent::Exec { pid, old_pid } if pid != old_pid => {
                if let Some(task) = self.tasks.find(old_pid) {
                    self.tasks.renumber(task, pid);
                    if self.cpus[cpu].on == On::Task(task) {
                        self.cpus[cpu].pid = Some(pid);
                    }
                }
            }
            SchedEvent::Marker(marker) => self.marked(cpu, marker),
            SchedEvent::Settings { pid, born, words } => self.settings(cpu, pid, born, name(words)),
            SchedEvent::CgroupAttach { pid, path, root } => self.moved(cpu, pid, name(path), root),
            SchedEvent::Object(call) => self.object(event.pid, call),
            SchedEvent::Sync(call) => self.sync(event.pid, call),
            SchedEvent::Affinity { pid, mask } => self.affinity(event.pid, pid, mask),
            SchedEvent::Polled => self.polled(event.pid),
            SchedEvent::ChildTaken => self.child_taken(event.pid),
            SchedEvent::FoundNothing => {}
            SchedEvent::UnknownObject => {
                let reason =
                    "event at an object of an unknown kind or call, or with a negative amount, left out";
                self.count(reason, 1);
            }
            SchedEvent::Stranger { busy } => self.stranger(cpu, busy),
            SchedEvent::StatRuntime { pid, runtime_ns } => {
                if let Some(task) = self.tasks.find(pid) {
                    self.tasks.list[task].booked_ns += runtime_ns.min(DURATION_MAX_NS);
                }
            }
            SchedEvent::Exit { pid, .. } => {
                if let Some(task) = self.running(pid) {
                    self.tasks.list[task].calls.ends_from_ns = Some(self.tasks.cpu_now(task, self.now_ns));
                }
            }
            SchedEvent::Exec { .. } | SchedEvent::Migrate { .. } | SchedEvent::Other { .. } => {}
        }
        self.cpus[cpu].last_event_ns = event.time_ns;
    }

    /// An interrupt, or a softirq, begins or ends.
    fn interrupt(&mut self, event: &TraceEvent) {
        let cpu = event.cpu.index();
        match event.what {
            SchedEvent::IrqEntry { .. } => {
                self.facts.irq_events = true;
                self.cpus[cpu].interrupts.device_entry();
            }
            SchedEvent::IrqExit { .. } => {
                self.cpus[cpu].interrupts.device_exit(event.time_ns);
            }
            SchedEvent::VectorEntry(vector) => {
                self.facts.vector_events = true;
                self.cpus[cpu].interrupts.vector_entry(vector);
            }
            SchedEvent::VectorExit(_) => {
                self.cpus[cpu].interrupts.vector_exit(event.time_ns);
            }
            SchedEvent::SoftIrqRaise { vec } => {
                self.facts.raise_events = true;
                self.cpus[cpu].interrupts.raise(vec, event.context);
                return;
            }
            SchedEvent::SoftIrqEntry { vec } => {
                self.facts.softirq_events = true;
                let irq_events = self.facts.irq_events;
                self.cpus[cpu].interrupts.softirq_entry(vec, event.time_ns, irq_events);
            }
            SchedEvent::SoftIrqExit { .. } => {
                self.cpus[cpu].interrupts.softirq_exit(event.time_ns);
            }
            _ => unreachable!("not an interrupt"),
        }
        self.interrupted(cpu);
    }

    fn is_softirq_thread(name: &str) -> bool {
        name.starts_with("ksoftirqd/")
    }

    /// The task on this CPU, if one of the workload is known to be there.
    pub(super) fn current(&self, cpu: usize) -> Option<usize> {
        match self.cpus[cpu].on {
            On::Task(task) => Some(task),
            _ => None,
        }
    }

    /// Somebody whom the recording leaves out takes a CPU that is shown as idle, or gives it up.
    fn stranger(&mut self, cpu: usize, busy: bool) {
        let here = &mut self.cpus[cpu];
        let on = match here.on {
            On::Idle if busy => On::LeftOut,
            On::LeftOut if !busy && here.pid == Some(Pid::IDLE) => On::Idle,
            _ => return,
        };
        (here.on, here.since_ns, here.left_runnable) = (on, self.now_ns, None);
    }

    fn since_start(&self) -> u64 {
        self.now_ns - self.start_ns.unwrap_or(self.now_ns)
    }

    fn switch<'n>(
        &mut self,
        cpu: usize,
        prev: SwitchSide,
        prev_state: TaskState,
        next: SwitchSide,
        name: impl Fn(CommId) -> &'n str,
    ) {
        self.summary.switches += 1;
        self.interrupts_over(cpu);
        // (not if a stranger leaves it at this very moment)
        let was_idle = self.cpus[cpu].on == On::Idle && self.cpus[cpu].since_ns < self.now_ns;
        let (since_ns, is_preempted) = (self.cpus[cpu].since_ns, prev_state.is_runnable());
        match self.cpus[cpu].on {
            On::Task(task) => {
                if self.tasks.list[task].stays == 0 {
                    self.tasks.list[task].softirq_thread = Self::is_softirq_thread(name(prev.comm));
                }
                self.switch_out(task, prev, prev_state);
                let runnable = next.pid == Pid::IDLE && prev_state.is_runnable();
                self.cpus[cpu].left_runnable = runnable.then_some(task);
            }
            On::Idle | On::LeftOut | On::Unknown => self.cpus[cpu].left_runnable = None,
        }
        self.cpus[cpu].since_ns = self.now_ns;
        self.cpus[cpu].pid = Some(next.pid);
        self.cpus[cpu].on = if next.pid == Pid::IDLE {
            On::Idle
        } else if caused_by_scheduler(name(next.comm)) {
            self.count("switch to a kernel thread that the scheduler causes (migration/N), left out", 1);
            self.left_out.insert(next.pid);
            On::LeftOut
        } else {
            let task = self.switch_in(cpu, next);
            let Task { woken_from, events, .. } = &mut self.tasks.list[task];
            match woken_from.take() {
                Some((from, _)) if was_idle && from as usize != cpu => self.channels.kicked(events),
                Some((from, woken_ns)) if is_preempted && from as usize == cpu && since_ns <= woken_ns => {
                    self.channels.preempted(events, Span::from_ns(self.now_ns - woken_ns));
                }
                _ => {}
            }
            if self.tasks.list[task].stays == 1 {
                self.tasks.list[task].softirq_thread = Self::is_softirq_thread(name(next.comm));
            }
            On::Task(task)
        };
    }

    /// An event shows another task on this CPU than was known to be there: at the trace's begin, after lost
    /// events, or where the recording leaves out events.
    #[cold]
    fn found_on(&mut self, cpu: usize, pid: Pid) {
        let before = self.cpus[cpu];
        if let On::Task(other) = before.on {
            self.gone_unseen(cpu, other);
        }
        self.cpus[cpu].pid = Some(pid);
        if pid == Pid::IDLE || self.left_out.contains(&pid) {
            self.cpus[cpu].on = if pid == Pid::IDLE { On::Idle } else { On::LeftOut };
            self.cpus[cpu].since_ns = self.now_ns;
            return;
        }
        let found = self.tasks.find(pid);
        let told_ns = match before.on {
            // It has been there since before the trace, or since events were lost.
            On::Unknown => Some(before.since_ns),
            // It handed the CPU over at some time since; as a rule soon.
            On::Task(other) if self.tasks.list[other].is_hidden() => {
                self.count(
                    "switch away from a task that the recording hides; its successor charged from its \
                    arrival",
                    1,
                );
                Some(before.since_ns)
            }
            On::Idle => self.begin_on_idle_cpu(before, found),
            _ => None,
        };
        let since_ns = told_ns.unwrap_or(self.now_ns);
        let at = Where::Running { cpu: cpu as u32, since_ns };
        let task = match found {
            None => self.tasks.add_init(pid, CommId::default(), InitState::Runnable, at),
            Some(task) => {
                self.now_runs(task, cpu, since_ns);
                task
            }
        };
        self.tasks.list[task].is_guessed = true;
        if told_ns.is_none() {
            self.count("stay on a CPU whose begin is not in the trace, not charged", 1);
            self.tasks.list[task].broken_stays += 1;
        }
        self.cpus[cpu].on = On::Task(task);
        self.cpus[cpu].since_ns = since_ns;
    }

    /// When a task that is found on a CPU that was idle began to run there, where that is known.
    fn begin_on_idle_cpu(&mut self, before: Cpu, found: Option<usize>) -> Option<u64> {
        let Where::Runnable { since_ns, woken } = self.tasks.list[found?].at else { return None };
        if before.left_runnable == found {
            // Nobody goes idle while a task wants the CPU: a hidden task took it from this one, as a rule for
            // a short time.
            self.count(
                "runnable task that gave its CPU to idle (to a task that the recording hides); charged on",
                1,
            );
            return Some(before.since_ns);
        }
        // An idle CPU takes what has been woken at once.
        woken.then(|| {
            self.count(
                "stay whose begin on an idle CPU is not in the trace, charged from the task's wakeup",
                1,
            );
            before.since_ns.max(since_ns)
        })
    }

    /// `task` was thought to be on this CPU, but another one leaves it: its end of stay is not in the trace.
    fn gone_unseen(&mut self, cpu: usize, task: usize) {
        self.count("stay on a CPU whose end is not in the trace, not charged", 1);
        self.tasks.list[task].broken_stays += 1;
        if !self.tasks.list[task].is_hidden() {
            self.facts.uncharged_ns += self.now_ns - self.cpus[cpu].since_ns;
        }
        if self.tasks.list[task].runs_on(cpu) {
            self.tasks.list[task].is_guessed = true;
            self.tasks.charge(task, 0, self.now_ns);
        }
    }

    fn switch_out(&mut self, task: usize, prev: SwitchSide, state: TaskState) {
        self.tasks.list[task].comm = prev.comm;
        self.tasks.list[task].stays += 1;
        self.tasks.list[task].seen_leaving = true;
        self.see_prio(task, prev.prio);
        self.tasks.charge(task, self.now_ns, self.now_ns);
        if !self.tasks.list[task].new_children.is_empty() && !state.is_runnable() {
            self.fork_children(task);
        }
        match state {
            TaskState::Running if self.tasks.list[task].in_yield => {
                // With YieldRule::All the call itself has been noted.
                if self.options.yields == YieldRule::Switched {
                    self.tasks.emit(task, self.now_ns, |length| EventKind::Yield { length });
                }
                self.tasks.list[task].in_yield = false;
            }
            TaskState::Running | TaskState::RunningPreempted => {}
            TaskState::Unknown => self.count("switch-out in an unknown state, taken as preemption", 1),
            TaskState::Dead | TaskState::Zombie => {
                self.tell_parent(task);
                self.tasks.emit(task, self.now_ns, |length| EventKind::Exit { length });
                self.tasks.list[task].at = Where::Dead;
                self.tasks.forget(task);
            }
            TaskState::Interruptible
            | TaskState::Uninterruptible
            | TaskState::Stopped
            | TaskState::Traced
            | TaskState::Parked
            | TaskState::Idle => {
                let has_woken = self.tasks.has_woken(task);
                self.tasks.emit(task, self.now_ns, |length| EventKind::Block { length });
                let Task { events, calls, .. } = &mut self.tasks.list[task];
                if let (TaskState::Uninterruptible, Some(block)) = (state, events.last()) {
                    let before = events.len().checked_sub(2).map(|before| &events[before].kind);
                    if matches!(before, Some(EventKind::Fork { .. })) {
                        calls.vforks.push(block.eid);
                    } else if has_woken {
                        calls.sleeps.push(block.eid);
                    }
                }
                self.tasks.list[task].at = Where::Blocked { since_ns: self.now_ns };
            }
        }
    }

    /// `task` is on a CPU, whatever was thought of it.
    fn now_runs(&mut self, task: usize, cpu: usize, at_ns: u64) {
        match self.tasks.list[task].at {
            Where::New => self.fork_child(task),
            Where::Blocked { since_ns } => self.wake_unseen(task, since_ns, at_ns),
            Where::Running { cpu: first, .. } => {
                self.count("task found on two CPUs at once; its stay on the first not charged", 1);
                self.tasks.charge(task, 0, self.now_ns);
                let first = &mut self.cpus[first as usize];
                (first.on, first.pid, first.since_ns) = (On::Unknown, None, self.now_ns);
            }
            Where::Runnable { .. } | Where::Dead => {}
        }
        self.tasks.list[task].at = Where::Running { cpu: cpu as u32, since_ns: at_ns };
        self.late_prio(task);
    }

    fn switch_in(&mut self, cpu: usize, next: SwitchSide) -> usize {
        let at = Where::Running { cpu: cpu as u32, since_ns: self.now_ns };
        let task = match self.tasks.find(next.pid) {
            // First seen: it was waiting for a CPU when the trace began.
            None => self.tasks.add_init(next.pid, next.comm, InitState::Runnable, at),
            Some(task) if matches!(self.tasks.list[task].at, Where::Runnable { .. }) => {
                self.tasks.list[task].at = at;
                // what came while it waited for its CPU found it runnable
                if self.tasks.list[task].early_wake.take().is_some() {
                    self.facts.ignored_wakes += 1;
                }
                task
            }
            Some(task) => {
                self.now_runs(task, cpu, self.now_ns);
                task
            }
        };
        self.tasks.list[task].comm = next.comm;
        self.tasks.list[task].stays += 1;
        self.see_prio(task, next.prio);
        task
    }

    /// A blocked task runs again and no waking came in between: the last one of the stay before the block, or one made
    /// up.
    /// `at_ns`: when it is known to be awake at the latest.
    fn wake_unseen(&mut self, task: usize, since_ns: u64, at_ns: u64) {
        match self.tasks.list[task].early_wake.take() {
            Some(cause) => {
                self.facts.early_wakes += 1;
                self.tasks.wake(task, at_ns, 0, cause);
            }
            None => {
                self.count("blocked task that ran again without a wakeup in the trace; one made up", 1);
                let cause = Cause::Outside(ExternalSource::MadeUp);
                self.tasks.wake(task, at_ns, at_ns.saturating_sub(since_ns), cause);
            }
        }
        self.late_prio(task);
    }

    /// `sched_waking`, or `sched_wakeup` in its place (`late`).
    fn waking<'n>(&mut self, event: &TraceEvent, wake: Wake, late: bool, name: impl Fn(CommId) -> &'n str) {
        if caused_by_scheduler(name(wake.comm)) {
            return;
        }
        let Some(task) = self.tasks.find(wake.pid) else {
            // First seen: blocked since before the trace.
            let at = Where::Blocked { since_ns: self.start_ns.unwrap_or(self.now_ns) };
            let task = self.tasks.add_init(wake.pid, wake.comm, InitState::Blocked, at);
            self.see_prio(task, wake.prio);
            let cause = self.cause(event, task, late);
            self.tasks.wake(task, self.now_ns, self.since_start(), cause);
            return;
        };
        self.tasks.list[task].comm = wake.comm;
        match self.tasks.list[task].at {
            Where::Blocked { since_ns } => {
                self.see_prio(task, wake.prio);
                if self.tasks.list[task].early_wake.take().is_some() {
                    self.facts.ignored_wakes += 1;
                }
                let cause = self.cause(event, task, late);
                self.tasks.wake(task, self.now_ns, self.now_ns - since_ns, cause);
                if matches!(cause, Cause::Token(_)) {
                    self.tasks.list[task].woken_from = Some((event.cpu.0, self.now_ns));
                }
                self.late_prio(task);
            }
            // It has said that it will sleep, but has not left the CPU: perhaps it will not.
            Where::Running { .. } | Where::Runnable { .. } if event.pid != wake.pid && !late => {
                let cause = self.cause(event, task, late);
                if self.tasks.list[task].early_wake.replace(cause).is_some() {
                    self.facts.ignored_wakes += 1;
                }
            }
            Where::Running { .. } | Where::Runnable { .. } => self.facts.ignored_wakes += 1,
            Where::New => {}
            Where::Dead => self.count("waking of a task that had exited, left out", 1),
        }
    }

    /// `sched_wakeup`: where `sched_waking` was recorded it adds nothing, but that an early waking found its
    /// task awake.
    fn wakeup<'n>(&mut self, event: &TraceEvent, wake: Wake, name: impl Fn(CommId) -> &'n str) {
        let at = self.tasks.find(wake.pid).map(|task| (task, self.tasks.list[task].at));
        match at {
            Some((task, Where::Blocked { since_ns })) => match self.tasks.list[task].early_wake {
                Some(_) => self.wake_unseen(task, since_ns, self.now_ns),
                None => {
                    self.facts.wakeup_fallback += 1;
                    self.waking(event, wake, true, name);
                }
            },
            None => {
                self.facts.wakeup_fallback += 1;
                self.waking(event, wake, true, name);
            }
            Some((task, _)) => {
                if self.tasks.list[task].early_wake.take().is_some() {
                    self.facts.ignored_wakes += 1;
                }
            }
        }
    }

    fn fork(&mut self, parent: Pid, child: Pid, child_comm: CommId) {
        if let Some(old) = self.tasks.find(child) {
            self.count(
                "number of a living task given to a new one; the old one's end is not in the trace",
                1,
            );
            self.tasks.forget(old);
        }
        let Some(parent_index) = self.tasks.find(parent) else {
            self.count("fork by a task that is not in the trace; its child taken as there from the start", 1);
            return;
        };
        let birth = Birth::Fork { parent: TaskId(parent_index as u32) };
        let tid = child.0;
        let child = self.tasks.add(child, child_comm, birth, Where::New);
        if self.messages == Messages::Recorded {
            self.channels.born(tid, child, parent_index);
        }
        let kthreadd = Pid(2);
        self.tasks.list[child].kernel_thread = parent == kthreadd;
        self.tasks.list[parent_index].new_children.push(child as u32);
    }

    fn wakeup_new<'n>(&mut self, wake: Wake, name: impl Fn(CommId) -> &'n str) {
        if caused_by_scheduler(name(wake.comm)) {
            return;
        }
        match self.tasks.find(wake.pid) {
            None => {
                // Its fork is not in the trace.
                let at = Where::Blocked { since_ns: self.start_ns.unwrap_or(self.now_ns) };
                let task = self.tasks.add_init(wake.pid, wake.comm, InitState::Blocked, at);
                self.see_prio(task, wake.prio);
                let cause = Cause::Outside(ExternalSource::Unknown);
                self.tasks.wake(task, self.now_ns, self.since_start(), cause);
            }
            Some(task) => {
                if self.tasks.list[task].at == Where::New {
                    self.fork_child(task);
                    if let Birth::Fork { parent } = self.tasks.list[task].birth {
                        self.inherit(task, parent.index(), wake.prio);
                    }
                } else if self.tasks.list[task].prio.current.is_none() {
                    self.see_prio(task, wake.prio);
                }
            }
        }
    }

    /// FORK of one new child, now.
    fn fork_child(&mut self, child: usize) {
        let Birth::Fork { parent } = self.tasks.list[child].birth else { return };
        let siblings = &mut self.tasks.list[parent.index()].new_children;
        siblings.retain(|sibling| *sibling as usize != child);
        self.tasks.list[child].at = Where::Runnable { since_ns: self.now_ns, woken: true };
        self.tasks.list[child].born_ns = self.now_ns;
        if self.tasks.list[parent.index()].at == Where::Dead {
            self.count("child that appeared after its parent's exit; taken as there from the start", 1);
            let eid = self.tasks.fresh_eid();
            self.tasks.list[child].birth = Birth::Init { eid, parent: None, state: InitState::Blocked };
            self.tasks.list[child].at = Where::Blocked { since_ns: self.start_ns.unwrap_or(self.now_ns) };
            self.tasks.wake(child, self.now_ns, self.since_start(), Cause::Outside(ExternalSource::Unknown));
            return;
        }
        // A parent that is blocked by now cannot fork: its wakeup is missing.
        if let Where::Blocked { since_ns } = self.tasks.list[parent.index()].at {
            self.wake_unseen(parent.index(), since_ns, self.now_ns);
        }
        let child = TaskId(child as u32);
        self.tasks.emit(parent.index(), self.now_ns, |length| EventKind::Fork { length, child });
    }

    /// FORK of all children not woken so far: their parent is about to block or end.
    pub(super) fn fork_children(&mut self, parent: usize) {
        for child in self.tasks.list[parent].new_children.clone() {
            self.fork_child(child as usize);
        }
    }

    /// The task, if it is known to be on a CPU.
    fn running(&mut self, pid: Pid) -> Option<usize> {
        self.tasks.find(pid).filter(|task| matches!(self.tasks.list[*task].at, Where::Running { .. }))
    }

    /// A call at a pipe or socket has returned.
    fn object(&mut self, pid: Pid, call: ObjectCall) {
        self.facts.object_calls += 1;
        if self.messages != Messages::Recorded {
            return;
        }
        let Some(task) = self.at_object(pid) else { return };
        self.channels.leaves_lock(task);
        let Some(op) = self.channels.op(task, call) else { return };
        let recorded = Recorded::Awake;
        let row = self.tasks.emit(task, self.now_ns, |length| EventKind::Object { length, op, recorded });
        if call.what != Carried::Data {
            self.channels.connected(self.tasks.list[task].events[row].eid);
        }
    }

    /// The task that an event at an object is of: it must be on a CPU.
    fn at_object(&mut self, pid: Pid) -> Option<usize> {
        let task = self.running(pid);
        let reason = "event at an object by a task that has no CPU then by the recorded switches, left out";
        self.count(reason, u64::from(task.is_none() && pid != Pid::IDLE));
        task
    }

    /// A task has been at a futex, or is about to be at a lock.
    fn sync(&mut self, pid: Pid, call: SyncCall) {
        self.facts.object_calls += 1;
        if self.messages != Messages::Recorded {
            return;
        }
        let Some(task) = self.at_object(pid) else { return };
        if let Some(op) = self.channels.sync(task, call) {
            let recorded = Recorded::Awake;
            let row = self.tasks.emit(task, self.now_ns, |length| EventKind::Object { length, op, recorded });
            if let SyncOp::MutexLock(_) = call.what {
                self.channels.locked_from(self.tasks.list[task].events[row].eid, call.other);
            }
        }
    }

    /// A wait for several files has found one.
    fn polled(&mut self, pid: Pid) {
        if let Some(task) = self.running(pid) {
            self.channels.polls(task);
        }
    }

    /// The current task has taken the end of a child.
    fn child_taken(&mut self, pid: Pid) {
        let (Some(task), Messages::Recorded) = (self.running(pid), self.messages) else { return };
        let object = self.channels.children_of(task);
        let (op, recorded) = (ObjectOp::Receive { object, amount: 1 }, Recorded::Awake);
        self.tasks.emit(task, self.now_ns, |length| EventKind::Object { length, op, recorded });
    }

    /// A task is about to exit: its parent may be waiting for it.
    fn tell_parent(&mut self, task: usize) {
        let (Birth::Fork { parent }, Messages::Recorded) = (self.tasks.list[task].birth, self.messages)
        else {
            return;
        };
        for object in [self.channels.children_of(parent.index()), self.channels.end_of(task)] {
            let (op, recorded) = (ObjectOp::Send { object, amount: 1 }, Recorded::Awake);
            self.tasks.emit(task, self.now_ns, |length| EventKind::Object { length, op, recorded });
        }
    }

    fn sys_enter(&mut self, pid: Pid, call: Syscall) {
        let Some(task) = self.running(pid) else { return };
        if call == Syscall::SchedYield {
            self.facts.yield_calls += 1;
            self.tasks.list[task].in_yield = true;
            if self.options.yields == YieldRule::All {
                self.tasks.emit(task, self.now_ns, |length| EventKind::Yield { length });
            }
        } else {
            self.tasks.list[task].prio.call = Some(call);
        }
    }

    fn sys_exit(&mut self, pid: Pid, call: SyscallKind, ret: i64) {
        let Some(task) = self.running(pid) else { return };
        if call == SyscallKind::SchedYield {
            self.tasks.list[task].in_yield = false;
        } else if call == SyscallKind::Setsid {
            if ret > 0 {
                self.new_session(task);
            }
        } else if let Some(call) = self.tasks.list[task].prio.call.take()
            && ret >= 0
        {
            self.call_done(task, call);
        }
    }

    /// What an export of ours says of the current task, since no event of the scheduler does.
    fn marked(&mut self, cpu: usize, marker: Marker) {
        let now_ns = self.now_ns;
        if let Marker::Start { pid } = marker {
            if self.tasks.find(pid).is_none() {
                let at = Where::Runnable { since_ns: self.start_ns.unwrap_or(now_ns), woken: true };
                self.tasks.add_init(pid, CommId::default(), InitState::Runnable, at);
            }
            return;
        }
        let Some(task) = self.current(cpu).filter(|task| self.tasks.list[*task].runs_on(cpu)) else {
            return self.count("note of a task that is not on its CPU, left out", 1);
        };
        match marker {
            Marker::Early { wakee, wakeup } => {
                // Whoever is woken may not have been born yet; only softirqs ask for it.
                let wakee = self.tasks.find(wakee).unwrap_or(usize::MAX);
                let cause = self.tasks.token(task, wakee, now_ns, Evidence::Task);
                self.early.insert(wakeup, cause);
            }
            Marker::Awake { wakeup } => {
                let cause = self.early.remove(&wakeup);
                if cause.is_none() {
                    self.count("wakeup before a sleep whose waker is not in the trace", 1);
                }
                let unknown = Cause::Outside(ExternalSource::Unknown);
                self.needs_no_sleep(cpu, task, cause.unwrap_or(unknown));
            }
            Marker::TimeHasCome => self.needs_no_sleep(cpu, task, Cause::Outside(ExternalSource::Timer)),
            Marker::Yield => {
                self.tasks.emit(task, now_ns, |length| EventKind::Yield { length });
            }
            Marker::Start { .. } => {}
        }
    }

    /// The task would block, but is awake: BLOCK and WAKEUP at once.
    fn needs_no_sleep(&mut self, cpu: usize, task: usize, cause: Cause) {
        self.tasks.charge(task, self.now_ns, self.now_ns);
        if !self.tasks.list[task].new_children.is_empty() {
            self.fork_children(task);
        }
        self.tasks.emit(task, self.now_ns, |length| EventKind::Block { length });
        self.tasks.wake(task, self.now_ns, 0, cause);
        self.late_prio(task);
        self.tasks.list[task].at = Where::Running { cpu: cpu as u32, since_ns: self.now_ns };
    }

    fn lost(&mut self, cpu: usize, count: Option<u64>) {
        let from_ns = self.cpus[cpu].last_event_ns;
        self.facts.nr_gaps += 1;
        if self.facts.gaps.len() < GAPS_NOTED {
            self.facts.gaps.push((cpu as u32, from_ns, self.now_ns, count));
        }
        match count {
            Some(count) => self.count("event lost by the recording (buffer full)", count),
            None => self.count("place where the recording lost events, their number unknown", 1),
        }
        // In an interrupt: the time since its begin is nobody's.
        self.cpus[cpu].paused_ns = None;
        // The current task is charged up to the last event before the gap.
        let before_ns = self.cpus[cpu].last_event_ns;
        if let On::Task(task) = self.cpus[cpu].on
            && self.tasks.list[task].runs_on(cpu)
        {
            self.tasks.charge(task, before_ns, self.now_ns);
        }
        let cpu = &mut self.cpus[cpu];
        (cpu.on, cpu.pid, cpu.since_ns) = (On::Unknown, None, self.now_ns);
        cpu.interrupts.forget();
    }
}
