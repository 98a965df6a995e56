//! The workload as data. Lengths of running events count from the task's last WAKEUP (or its start), as WARP's do.

use crate::{Object, ObjectOp, Recorded};
use schedlab_units::{CpuSet, Nice, SchedParams, Span, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Identifies an event within one workload; 0 means "none" in the text form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventId(pub u64);

/// The version of both forms on disk that has objects.
const OBJECTS_VERSION: u32 = 4;
/// The version of both forms on disk that has EXEC.
const EXEC_VERSION: u32 = 5;
/// The version of both forms on disk that knows timers which skip.
const SKIP_VERSION: u32 = 6;
/// The version of both forms on disk that has CALL.
const CALL_VERSION: u32 = 7;
/// The version of both forms on disk that knows where in its call a task wakes another, and what is polled.
const TAIL_VERSION: u32 = 8;

/// The version of both forms on disk that these objects need.
pub(crate) fn objects_version(objects: &[Object]) -> u32 {
    let of_one = |object: &Object| match object.costs.tail > Span::ZERO || object.is_polled {
        true => TAIL_VERSION,
        false => OBJECTS_VERSION,
    };
    objects.iter().map(of_one).max().unwrap_or(1)
}

/// Index into [`Workload::cgroups`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupId(pub u32);

/// A set of tasks and what each wants to do.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct Workload {
    /// Tasks in order of appearance; `TaskId(i)` is row i.
    pub tasks: Vec<Task>,
    /// Control groups, parents before children.
    pub cgroups: Vec<Cgroup>,
    /// What tasks wait at.
    pub objects: Vec<Object>,
    /// What an import left out or made up: reason -> how often. Shown in every report.
    pub dropped: BTreeMap<String, u64>,
    /// Facts worth keeping with the workload (source file, kernel, CPUs of the recording, ...), in order of name.
    pub notes: BTreeMap<String, String>,
}

/// One task's life.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Task {
    /// The identifier in the text form; unique within a workload. From a trace: its pid (a reused pid gets a
    /// fresh number).
    pub pid: u32,
    /// Name (comm).
    pub name: String,
    /// How it comes to be.
    pub birth: Birth,
    /// Parameters at its start. A forked task without own parameters inherits its parent's at the fork.
    pub params: Option<SchedParams>,
    /// Allowed CPUs; `None` = all (forked: the parent's).
    pub affinity: Option<CpuSet>,
    /// Control group; `None` = the root (forked: the parent's).
    pub cgroup: Option<CgroupId>,
    /// Whether it was a kernel thread on the recorded system.
    pub kernel_thread: bool,
    /// Its events in order. Running events and wakeups alternate as the model demands: BLOCK is followed by
    /// WAKEUP. A task whose list ends without EXIT is alive and blocked (after BLOCK) or done for this run
    /// (otherwise) at the end.
    pub events: Vec<Event>,
}

/// How a task comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Birth {
    /// It is there at the start (INIT), with this parent if that is in the workload.
    Init {
        /// Event identifier of the INIT.
        eid: EventId,
        /// Who forked it, before the start.
        parent: Option<TaskId>,
        /// Runnable or blocked at the start.
        state: InitState,
    },
    /// A FORK event of `parent` creates it.
    Fork {
        /// The task whose FORK creates it.
        parent: TaskId,
    },
}

/// Scheduling state at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InitState {
    /// Wants a CPU from time 0.
    Runnable,
    /// Blocked: its first event is a WAKEUP, timed from the start. (No event at all: blocked for the whole run.)
    Blocked,
}

/// One event of a task's life.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Event {
    /// Identifier, unique in the workload.
    pub eid: EventId,
    /// What and when.
    pub kind: EventKind,
}

/// The events of WARP's figure 2 (INIT is [`Birth::Init`]). `length` of all but WAKEUP: CPU time of the task
/// since its last WAKEUP or its start; lengths therefore never decrease from one WAKEUP to the next.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum EventKind {
    /// Creates `child`.
    Fork {
        /// CPU time since the last wakeup.
        length: Span,
        /// The task it creates, whose birth is [`Birth::Fork`].
        child: TaskId,
    },
    /// Changes scheduling parameters.
    Prio {
        /// CPU time since the last wakeup.
        length: Span,
        /// What changes (boxed: rare, and it would treble the size of every event).
        change: Box<ParamChange>,
    },
    /// Gives up the CPU, stays runnable.
    Yield {
        /// CPU time since the last wakeup.
        length: Span,
    },
    /// Gives up the CPU until its next WAKEUP.
    Block {
        /// CPU time since the last wakeup.
        length: Span,
    },
    /// Executes a new program (`execve`): the scheduler may choose another CPU for it. It runs on.
    Exec {
        /// CPU time since the last wakeup.
        length: Span,
    },
    /// Begins a system call in which it will sleep or end. What follows, up to and with its next BLOCK or EXIT, happens
    /// within that call: whom it wakes or forks there cannot have its CPU before, unless the kernel is one that
    /// is preempted within system calls.
    Call {
        /// CPU time since the last wakeup.
        length: Span,
    },
    /// Does something at an object; it may have to wait there, and goes on afterwards without a WAKEUP.
    Object {
        /// CPU time since the last wakeup.
        length: Span,
        /// What.
        op: ObjectOp,
        /// Whether it slept where it was recorded.
        recorded: Recorded,
    },
    /// Becomes runnable again.
    Wakeup(Wakeup),
    /// Ends.
    Exit {
        /// CPU time since the last wakeup.
        length: Span,
    },
}

/// What makes a blocked task runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wakeup {
    /// Something outside the workload, `after` this elapsed time since the task blocked (or since the start).
    External {
        /// Elapsed time since the block; of a timer set for an instant: since the instant before.
        after: Span,
        /// What it was, where known.
        source: ExternalSource,
    },
    /// Another task's action: it happens when `task` has `distance` of CPU time left until its event `event`.
    Dependent {
        /// Elapsed time since the block as recorded; not used when the dependency is honoured.
        recorded_after: Span,
        /// The waker's next event after the wakeup (WARP's deid).
        event: EventId,
        /// The waker (WARP's dpid).
        task: TaskId,
        /// The waker's CPU time from the wakeup to `event`.
        distance: Span,
    },
}

/// Source of an external wakeup: the evidence that a recording gave for it. A machine replays it either by a
/// timer of the task's own or by a device's interrupt ([`ExternalSource::is_device`]); all the rest is for
/// people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExternalSource {
    /// A timer armed by the task itself (nanosleep and friends); also when a workload does not say.
    #[default]
    Timer,
    /// An interrupt of a device.
    Device,
    /// A timer that the task set for an instant, not for a length (`clock_nanosleep` with `TIMER_ABSTIME`,
    /// `timerfd`), as periodic programs do: `after` counts from the instant of the task's previous wakeup of
    /// this kind (from its birth for the first), not from the block. If that instant has passed, the task is
    /// woken as soon as it has blocked: unlike with [`ExternalSource::Grid`] a job that comes late still ends
    /// in a block, which is what the theory of real-time scheduling calls a job's end.
    Absolute,
    /// A periodic timer of the task's own: its expiries form a grid that begins at the task's start (of a
    /// forked task: at its fork), each `after` later than the one before, whenever the task blocks. An expiry
    /// that has passed when the task blocks for it does not let it sleep. (`clock_nanosleep(TIMER_ABSTIME)`
    /// in a loop; rt-app's timer, absolute.)
    Grid,
    /// As [`ExternalSource::Grid`], but an expiry that has passed moves the grid: the next one counts from
    /// that block on. (rt-app's timer, relative.)
    GridRestart,
    /// As [`ExternalSource::Grid`], but jobs that are a whole `after` late are given up: of the expiries that have
    /// passed, those that lie `after` or more back are left out of the grid. What the task does next is what stands
    /// next in its list; that is the next job which is not given up. (A player that drops frames.)
    GridSkip,
    /// A hardware interrupt, whose kind was not recorded: a timer's, a device's, or another CPU's message.
    HardIrq,
    /// A softirq that brought what a device or another machine sent (network, block device), or whose kind
    /// was not recorded.
    SoftIrq,
    /// The timer softirq: a timeout counted in ticks.
    TimerSoftIrq,
    /// The idle task's context: work that another CPU or an interrupt had left to an idle CPU.
    Idle,
    /// A waker that is not in the workload, or nobody knows who.
    Unknown,
    /// Not recorded: the task ran again, so it must have been woken.
    MadeUp,
    /// A task of the workload, on which it was chosen not to depend ([`Dependencies`](crate::Dependencies)).
    Task,
}

impl ExternalSource {
    /// All, with their words in the text form.
    pub const NAMES: [(ExternalSource, &'static str); 13] = [
        (ExternalSource::Timer, "timer"),
        (ExternalSource::Device, "device"),
        (ExternalSource::Absolute, "absolute"),
        (ExternalSource::Grid, "grid"),
        (ExternalSource::GridRestart, "grid-restart"),
        (ExternalSource::GridSkip, "grid-skip"),
        (ExternalSource::HardIrq, "hardirq"),
        (ExternalSource::SoftIrq, "softirq"),
        (ExternalSource::TimerSoftIrq, "timer-softirq"),
        (ExternalSource::Idle, "idle"),
        (ExternalSource::Unknown, "unknown"),
        (ExternalSource::MadeUp, "made-up"),
        (ExternalSource::Task, "task"),
    ];
    /// Its word in the text form.
    pub fn name(self) -> &'static str {
        ExternalSource::NAMES.iter().find(|(source, _)| *source == self).map_or("timer", |(_, name)| name)
    }
    /// From [`ExternalSource::name`].
    pub fn from_name(name: &str) -> Option<ExternalSource> {
        ExternalSource::NAMES.iter().find(|(_, known)| *known == name).map(|(source, _)| *source)
    }
    /// Whether a device's interrupt wakes the task in a replay; else a timer of its own.
    pub fn is_device(self) -> bool {
        matches!(self, ExternalSource::Device | ExternalSource::SoftIrq)
    }
    /// Whether it is a timer set for an instant.
    pub fn is_instant(self) -> bool {
        use ExternalSource::{Absolute, Grid, GridRestart, GridSkip};
        matches!(self, Absolute | Grid | GridRestart | GridSkip)
    }
    /// The version of both forms on disk that knows it.
    pub fn version(self) -> u32 {
        match self {
            ExternalSource::Timer | ExternalSource::Device => 1,
            ExternalSource::GridSkip => SKIP_VERSION,
            source if source.is_instant() => 2,
            _ => 3,
        }
    }
}

/// What a PRIO event sets; `None` leaves as it is.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct ParamChange {
    /// Whose parameters change; `None` = the task's own.
    pub target: Option<TaskId>,
    /// Policy, nice, priority, deadline parameters, all at once as `sched_setattr(2)` sets them.
    pub params: Option<SchedParams>,
    /// The nice value alone, as `setpriority(2)` sets it: the policy stays. After `params`, if both are given.
    pub nice: Option<Nice>,
    /// Allowed CPUs.
    pub affinity: Option<CpuSet>,
    /// Control group to move to.
    pub cgroup: Option<CgroupId>,
}

/// A control group (cgroup v2) with the cpu controller's settings.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
pub struct Cgroup {
    /// Path from the root, e.g. `/system.slice/redis`.
    pub path: String,
    /// cpu.weight, 1..=10000, default 100.
    pub weight: Option<u32>,
    /// cpu.max: quota per period; `None` = no limit.
    pub max: Option<CpuMax>,
    /// cpuset.cpus; `None` = the parent's.
    pub cpuset: Option<CpuSet>,
}

/// cpu.max of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuMax {
    /// CPU time per period, over all CPUs.
    pub quota: Span,
    /// Period, default 100 ms.
    pub period: Span,
}

impl EventKind {
    /// Its type as in WARP's figure 2.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::Fork { .. } => "FORK",
            EventKind::Prio { .. } => "PRIO",
            EventKind::Yield { .. } => "YIELD",
            EventKind::Exec { .. } => "EXEC",
            EventKind::Call { .. } => "CALL",
            EventKind::Block { .. } => "BLOCK",
            EventKind::Object { op, .. } => op.name(),
            EventKind::Wakeup(_) => "WAKEUP",
            EventKind::Exit { .. } => "EXIT",
        }
    }
    /// Whether it is a wakeup by a timer set for an instant.
    pub fn is_instant(&self) -> bool {
        matches!(self, EventKind::Wakeup(Wakeup::External { source, .. }) if source.is_instant())
    }
    /// The version of both forms on disk that knows it: 2 for timers set for an instant, 3 for wakeups by what only a
    /// recording tells, 4 for what happens at objects, 5 for EXEC, 6 for timers that skip, 7 for CALL.
    #[inline]
    pub fn version(&self) -> u32 {
        match self {
            EventKind::Wakeup(Wakeup::External { source, .. }) => source.version(),
            EventKind::Object { .. } => OBJECTS_VERSION,
            EventKind::Exec { .. } => EXEC_VERSION,
            EventKind::Call { .. } => CALL_VERSION,
            _ => 1,
        }
    }
    /// CPU time since the last wakeup; `None` for WAKEUP, which is timed in elapsed time.
    pub fn length(&self) -> Option<Span> {
        match self {
            EventKind::Fork { length, .. }
            | EventKind::Prio { length, .. }
            | EventKind::Yield { length }
            | EventKind::Exec { length }
            | EventKind::Call { length }
            | EventKind::Block { length }
            | EventKind::Object { length, .. }
            | EventKind::Exit { length } => Some(*length),
            EventKind::Wakeup(_) => None,
        }
    }
}

impl Workload {
    /// The task with this identifier.
    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }
    /// A setting of the task, or of its nearest forebear that states it: a fork inherits. `None` if none of them does.
    ///
    /// With a parent at nice 5 and children that state nothing, `inherited(child, |task| task.params)` is
    /// nice 5 for each.
    pub fn inherited<'a, T>(&'a self, mut task: &'a Task, get: impl Fn(&Task) -> Option<T>) -> Option<T> {
        // unchecked workloads may have a circle of parents
        for _ in 0..self.tasks.len() {
            match (get(task), task.birth) {
                (Some(value), _) => return Some(value),
                (None, Birth::Fork { parent }) => task = self.task(parent),
                (None, Birth::Init { .. }) => return None,
            }
        }
        None
    }
    /// Lets all tasks run on every CPU, as on a machine where nobody bound them: masks of tasks, those set later, and
    /// CPUs of control groups are left out. How many that were.
    ///
    /// With one task under `affinity=0` in a group whose `cpuset` is 0 and 1: 2.
    pub fn unbind(&mut self) -> u64 {
        let later = self.tasks.iter_mut().flat_map(|task| {
            let changes = task.events.iter_mut().filter_map(|event| match &mut event.kind {
                EventKind::Prio { change, .. } => Some(&mut change.affinity),
                _ => None,
            });
            std::iter::once(&mut task.affinity).chain(changes)
        });
        let groups = self.cgroups.iter_mut().map(|group| &mut group.cpuset);
        later.chain(groups).filter_map(Option::take).count() as u64
    }
    /// Number of events, INIT included.
    pub fn nr_events(&self) -> u64 {
        let init = |task: &&Task| matches!(task.birth, Birth::Init { .. });
        self.tasks.iter().filter(init).count() as u64
            + self.tasks.iter().map(|task| task.events.len() as u64).sum::<u64>()
    }
    /// The identifiers of all events, INIT included, task by task.
    pub fn eids(&self) -> impl Iterator<Item = EventId> + '_ {
        self.tasks
            .iter()
            .flat_map(|task| task.birth_eid().into_iter().chain(task.events.iter().map(|event| event.eid)))
    }
    /// An event identifier above all of its events'; those after it are free, too.
    pub fn free_eid(&self) -> EventId {
        EventId(1 + self.eids().max().unwrap_or_default().0)
    }
    /// A pid above all of its tasks'.
    pub fn free_pid(&self) -> u32 {
        1 + self.tasks.iter().map(|task| task.pid).max().unwrap_or(0)
    }
    /// The version of both forms on disk that it needs: the highest that one of its events needs
    /// ([`EventKind::version`]).
    pub fn version(&self) -> u32 {
        let events = self.tasks.iter().flat_map(|task| &task.events);
        events.map(|event| event.kind.version()).max().unwrap_or(1).max(objects_version(&self.objects))
    }
    /// Counts one more thing left out or made up.
    pub fn count_dropped(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.dropped.entry(reason.to_string()).or_default() += count;
        }
    }
}

impl Task {
    /// A task with nothing but these: no parameters of its own, every CPU, the root group, no events. `Task {
    /// affinity, ..Task::new(...) }` adds what else it has; [`Builder`](crate::Builder) writes whole
    /// workloads.
    pub fn new(pid: u32, name: impl Into<String>, birth: Birth) -> Task {
        Task {
            pid,
            name: name.into(),
            birth,
            params: None,
            affinity: None,
            cgroup: None,
            kernel_thread: false,
            events: Vec::new(),
        }
    }
    /// Identifier of its INIT; `None` if it is forked.
    pub fn birth_eid(&self) -> Option<EventId> {
        match self.birth {
            Birth::Init { eid, .. } => Some(eid),
            Birth::Fork { .. } => None,
        }
    }
    /// Total CPU time the task's events ask for.
    pub fn cpu_demand(&self) -> Span {
        let mut total = Span::ZERO;
        let mut since_wakeup = Span::ZERO;
        for event in &self.events {
            match event.kind.length() {
                Some(length) => since_wakeup = length,
                None => {
                    total += since_wakeup;
                    since_wakeup = Span::ZERO;
                }
            }
        }
        total + since_wakeup
    }
}
