//! What is known of each task so far, and the list of its events as it grows.

use super::WakeupCounts;
use super::prio::PrioState;
use crate::messages::Timeline;
use crate::{Birth, Event, EventId, EventKind, ExternalSource, InitState, Wakeup};
use schedlab_trace::{CommId, Pid};
use schedlab_units::{Span, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// Forked, not yet woken for the first time.
    New,
    /// Waits for a CPU: newly awake, or taken off one.
    Runnable { since_ns: u64, woken: bool },
    /// On this CPU, its time counted up to `since`.
    Running { cpu: u32, since_ns: u64 },
    /// Sleeps.
    Blocked { since_ns: u64 },
    /// Gone.
    Dead,
}

/// Who wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A task of the workload: row of [`Tasks::wakes`].
    Token(u32),
    /// Something else.
    Outside(ExternalSource),
}

/// Counts an external wakeup by its source.
pub(super) fn count_outside(counts: &mut WakeupCounts, source: ExternalSource) {
    *match source {
        ExternalSource::SoftIrq => &mut counts.softirq,
        ExternalSource::TimerSoftIrq => &mut counts.timer_softirq,
        ExternalSource::Timer => &mut counts.timer,
        ExternalSource::Device => &mut counts.device,
        ExternalSource::HardIrq => &mut counts.other_hardirq,
        ExternalSource::Idle => &mut counts.idle,
        ExternalSource::MadeUp => &mut counts.made_up,
        _ => &mut counts.unknown_waker,
    } += 1;
}

/// How sure it is that a wakeup depends on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// The task did it itself.
    Task,
    /// A softirq that the task was seen to raise.
    SoftIrqRaised,
    /// A softirq that is taken to have run on the task's behalf.
    SoftIrq,
    /// A softirq that interrupted the task; decided at the end.
    SoftIrqMaybe,
}

/// One wakeup by a task, which waits for the waker's next event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    pub waker: u32,
    pub wakee: u32,
    /// The waker's next event; 0 until there is one.
    pub event: u64,
    /// Until then: the waker's CPU time since its own wakeup; afterwards the distance (ns).
    pub cpu_ns: u64,
    pub evidence: Evidence,
}

/// A task under observation.
pub(super) struct Task {
    /// The kernel's number.
    pub tid: Pid,
    /// The number in the workload (another if the kernel used one twice).
    pub pid: u32,
    pub comm: CommId,
    pub birth: Birth,
    /// When it became runnable for the first time, if it was forked.
    pub born_ns: u64,
    pub at: Where,
    /// CPU time since its last wakeup or start, up to `since_ns` if it runs (ns).
    pub cpu_ns: u64,
    /// All its CPU time (ns).
    pub total_cpu_ns: u64,
    pub events: Vec<Event>,
    /// Length of the last event since the last wakeup (ns).
    last_length_ns: u64,
    /// Its wakeups of others since its last event.
    open_wakes: Vec<u32>,
    /// CPU time that `sched_stat_runtime` has told since the last one was counted.
    pub booked_ns: u64,
    /// What was counted already of the stay that it is in.
    stay_ns: u64,
    /// Begin or end of the stay that it is in are not in the trace.
    pub is_guessed: bool,
    /// The last waking that came while it was not blocked (yet), in the stay that it is in.
    pub early_wake: Option<Cause>,
    /// The CPU of the task that woke it, and when it did, until it runs.
    pub woken_from: Option<(u32, u64)>,
    /// Children forked and not yet woken.
    pub new_children: Vec<u32>,
    /// Inside `sched_yield`.
    pub in_yield: bool,
    /// What shows that calls of its wake and then sleep or end.
    pub calls: Calls,
    pub prio: PrioState,
    /// How often it came to a CPU or left one, and how often the other end of that stay was not in the trace.
    pub stays: u64,
    pub broken_stays: u64,
    /// Whether it was ever seen to leave a CPU.
    pub seen_leaving: bool,
    pub kernel_thread: bool,
    /// ksoftirqd/N: softirqs are its work.
    pub softirq_thread: bool,
    /// Its external wakeups.
    pub outside: WakeupCounts,
}

/// What a recording shows of the system calls in which a task wakes others and then sleeps or ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    /// Sleeps right after a fork that no signal ends, in order: vfork().
    pub vforks: Vec<EventId>,
    /// Such sleeps right after it has woken somebody: a disk's worker, say.
    pub sleeps: Vec<EventId>,
    /// CPU time since its last wakeup at which its end began (`sched_process_exit`), ns.
    pub ends_from_ns: Option<u64>,
}

/// `since_ns` of a task that stays on its CPU while an interrupt has it: no time passes for it.
const PAUSED: u64 = u64::MAX;

/// A task of which more than one in this many stays is broken is left out. (In a whole recording none is; in one that
/// follows others, nearly all.)
const GLIMPSED_SHARE: u64 = 4;

/// So many times must a task have come to a CPU without leaving it to be taken as hidden.
const HIDDEN_ARRIVALS: u64 = 3;

impl Task {
    /// Whether only glimpses of its life are in the trace: a recording that follows other tasks
    /// (set_event_pid) shows it when it hands a CPU to them or takes one from them.
    pub fn is_glimpsed(&self) -> bool {
        self.broken_stays * GLIMPSED_SHARE > self.stays
    }
    /// Whether the recording leaves out all that happens in this task's context (set_event_notrace_pid, an
    /// agent that hides itself): it comes to CPUs and never leaves one.
    pub fn is_hidden(&self) -> bool {
        self.stays >= HIDDEN_ARRIVALS && !self.seen_leaving
    }
    /// Whether it is on this CPU.
    pub fn runs_on(&self, cpu: usize) -> bool {
        matches!(self.at, Where::Running { cpu: on, .. } if on as usize == cpu)
    }
}

/// All tasks, and the wakeups between them.
#[derive(Default)]
pub(super) struct Tasks {
    pub list: Vec<Task>,
    /// Living task of each number.
    by_tid: BTreeMap<Pid, u32>,
    /// The last one found: most events come in runs.
    cache: Vec<(i32, u32)>,
    /// Numbers used so far.
    used: BTreeSet<Pid>,
    pub wakes: Vec<Wake>,
    next_eid: u64,
    next_fresh_pid: u32,
    /// Stays whose length is what `sched_stat_runtime` says.
    pub settled: u64,
    /// When everything happened, if that is wanted.
    pub timeline: Option<Timeline>,
}

const CACHE_ROWS: usize = 1 << 12;
/// Numbers beyond the kernel's greatest pid (PID_MAX_LIMIT, 2^22), for tasks whose number had been used before.
const FIRST_FRESH_PID: u32 = (1 << 22) + 1;

impl Tasks {
    pub fn new(with_times: bool) -> Tasks {
        Tasks {
            timeline: with_times.then(Timeline::default),
            cache: vec![(0, u32::MAX); CACHE_ROWS],
            next_eid: 1,
            next_fresh_pid: FIRST_FRESH_PID,
            ..Tasks::default()
        }
    }
    /// The living task with this number.
    pub fn find(&mut self, tid: Pid) -> Option<usize> {
        let row = &mut self.cache[tid.0 as usize % CACHE_ROWS];
        if row.0 == tid.0 && row.1 != u32::MAX {
            return Some(row.1 as usize);
        }
        let index = *self.by_tid.get(&tid)?;
        *row = (tid.0, index);
        Some(index as usize)
    }
    /// A new task; one that has the number so far loses it.
    pub fn add(&mut self, tid: Pid, comm: CommId, birth: Birth, at: Where) -> usize {
        let index = self.list.len();
        self.by_tid.insert(tid, index as u32);
        let pid = if self.used.insert(tid) {
            tid.0 as u32
        } else {
            self.next_fresh_pid += 1;
            self.next_fresh_pid - 1
        };
        self.cache[tid.0 as usize % CACHE_ROWS] = (tid.0, index as u32);
        self.list.push(Task {
            tid,
            pid,
            comm,
            birth,
            born_ns: 0,
            at,
            cpu_ns: 0,
            total_cpu_ns: 0,
            events: Vec::new(),
            last_length_ns: 0,
            open_wakes: Vec::new(),
            booked_ns: 0,
            stay_ns: 0,
            is_guessed: false,
            early_wake: None,
            woken_from: None,
            new_children: Vec::new(),
            calls: Calls::default(),
            in_yield: false,
            prio: PrioState::default(),
            stays: 0,
            broken_stays: 0,
            seen_leaving: false,
            kernel_thread: false,
            softirq_thread: false,
            outside: WakeupCounts::default(),
        });
        index
    }
    /// A task that was there before the trace.
    pub fn add_init(&mut self, tid: Pid, comm: CommId, state: InitState, at: Where) -> usize {
        let eid = self.fresh_eid();
        self.add(tid, comm, Birth::Init { eid, parent: None, state }, at)
    }
    pub fn fresh_eid(&mut self) -> EventId {
        self.next_eid += 1;
        EventId(self.next_eid - 1)
    }

    /// The task's CPU time since its last wakeup, at `now_ns`.
    pub fn cpu_now(&self, index: usize, now_ns: u64) -> u64 {
        let task = &self.list[index];
        match task.at {
            Where::Running { since_ns, .. } => task.cpu_ns + now_ns.saturating_sub(since_ns),
            _ => task.cpu_ns,
        }
        .max(task.last_length_ns)
    }

    /// Appends a running event (not a WAKEUP) with the task's CPU time at `now_ns` as length; returns its index.
    pub fn emit(&mut self, index: usize, now_ns: u64, kind: impl FnOnce(Span) -> EventKind) -> usize {
        let length_ns = self.cpu_now(index, now_ns);
        let eid = self.fresh_eid();
        let task = &mut self.list[index];
        for token in task.open_wakes.drain(..) {
            let wake = &mut self.wakes[token as usize];
            wake.event = eid.0;
            wake.cpu_ns = length_ns.saturating_sub(wake.cpu_ns);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.event(eid, now_ns);
        }
        task.last_length_ns = length_ns;
        task.events.push(Event { eid, kind: kind(Span::from_ns(length_ns)) });
        task.events.len() - 1
    }

    /// Appends a WAKEUP of a task that has been blocked for `after_ns`, and makes it runnable.
    pub fn wake(&mut self, index: usize, now_ns: u64, after_ns: u64, cause: Cause) {
        let eid = self.fresh_eid();
        let after = Span::from_ns(after_ns);
        let task = &mut self.list[index];
        let wakeup = match cause {
            // The token stands in for the event until the end.
            Cause::Token(token) => Wakeup::Dependent {
                recorded_after: after,
                event: EventId(u64::from(token)),
                task: TaskId(self.wakes[token as usize].waker),
                distance: Span::ZERO,
            },
            Cause::Outside(source) => {
                count_outside(&mut task.outside, source);
                Wakeup::External { after, source }
            }
        };
        if let Some(timeline) = &mut self.timeline {
            timeline.event(eid, now_ns);
        }
        task.events.push(Event { eid, kind: EventKind::Wakeup(wakeup) });
        task.cpu_ns = 0;
        task.last_length_ns = 0;
        task.calls.ends_from_ns = task.calls.ends_from_ns.map(|_| 0);
        (task.early_wake, task.woken_from) = (None, None);
        task.at = Where::Runnable { since_ns: now_ns, woken: true };
    }

    /// Notes that `waker` wakes `wakee` now.
    pub fn token(&mut self, waker: usize, wakee: usize, now_ns: u64, evidence: Evidence) -> Cause {
        let cpu_ns = self.cpu_now(waker, now_ns);
        let token = u32::try_from(self.wakes.len()).expect("2^32 wakeups do not fit in memory");
        self.wakes.push(Wake { waker: waker as u32, wakee: wakee as u32, event: 0, cpu_ns, evidence });
        self.list[waker].open_wakes.push(token);
        Cause::Token(token)
    }

    /// An interrupt hits the task, which is on a CPU: from now on its time stands still.
    pub fn pause(&mut self, index: usize, now_ns: u64) {
        let task = &mut self.list[index];
        if let Where::Running { since_ns, .. } = &mut task.at {
            if let Some(timeline) = &mut self.timeline {
                timeline.stay(index, *since_ns, now_ns);
            }
            let ran_ns = now_ns.saturating_sub(*since_ns);
            *since_ns = PAUSED;
            task.stay_ns += ran_ns;
            task.cpu_ns += ran_ns;
            task.total_cpu_ns += ran_ns;
        }
    }

    /// The interrupt is over.
    pub fn resume(&mut self, index: usize, now_ns: u64) {
        if let Where::Running { since_ns: since_ns @ PAUSED, .. } = &mut self.list[index].at {
            *since_ns = now_ns;
        }
    }

    /// Takes the task off its CPU: its time up to `until_ns` counts, and at least what its events have told already.
    /// Where begin or end are not in the trace, what the kernel itself has booked is the better number.
    pub fn charge(&mut self, index: usize, until_ns: u64, now_ns: u64) {
        let task = &mut self.list[index];
        if let Where::Running { since_ns, .. } = task.at {
            let seen_ns = match task.is_guessed && task.booked_ns > 0 {
                true => {
                    self.settled += 1;
                    task.booked_ns.saturating_sub(task.stay_ns)
                }
                false => until_ns.saturating_sub(since_ns),
            };
            let ran_ns = seen_ns.max(task.last_length_ns.saturating_sub(task.cpu_ns));
            (task.is_guessed, task.booked_ns, task.stay_ns) = (false, 0, 0);
            if let Some(timeline) = &mut self.timeline {
                timeline.stay(index, since_ns, until_ns);
            }
            task.cpu_ns += ran_ns;
            task.total_cpu_ns += ran_ns;
            task.at = Where::Runnable { since_ns: now_ns, woken: false };
        }
    }

    /// Whether it has woken somebody since its last event.
    pub fn has_woken(&self, index: usize) -> bool {
        !self.list[index].open_wakes.is_empty()
    }

    /// Whether an event would carry something that the last one does not: CPU time, or a wakeup of another task.
    pub fn has_unsaid(&self, index: usize) -> bool {
        let task = &self.list[index];
        task.cpu_ns > task.last_length_ns || self.has_woken(index)
    }

    /// Gives a task another number: a thread that calls exec takes over its process's.
    pub fn renumber(&mut self, index: usize, tid: Pid) {
        self.forget(index);
        if let Some(old) = self.find(tid) {
            self.forget(old);
        }
        self.list[index].tid = tid;
        self.by_tid.insert(tid, index as u32);
    }

    /// Frees the number of a task that is gone.
    pub fn forget(&mut self, index: usize) {
        let tid = self.list[index].tid;
        if self.by_tid.get(&tid) == Some(&(index as u32)) {
            self.by_tid.remove(&tid);
            self.cache[tid.0 as usize % CACHE_ROWS] = (0, u32::MAX);
        }
    }
}
