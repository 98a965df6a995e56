//! Can this workload happen at all? Every rule of the model, each broken one told in a sentence.
//!
//! ```text
//! task 100 (worker), event 3 (YIELD): a blocked task cannot run; put a WAKEUP between the BLOCK before it and this
//! ```
//!
//! A workload that passes can be executed, written and read back. What single events do not show, a
//! cycle of wakeups that wait for each other, is [`find_deadlock`](crate::find_deadlock)'s business.

pub use self::objects::ObjectFlaw;
use self::objects::{AtObjects, Uses, object_flaw};
use crate::index::{EventIndex, EventPlace};
use crate::{
    Birth, CgroupId, Event, EventId, EventKind, InitState, ObjectKind, ObjectOp, ParamChange, Task, Wakeup,
    Workload,
};
use schedlab_units::{CpuSet, SchedParams, SchedPolicy, Span, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

mod objects;

/// Problems listed at most; the rest is counted.
const LISTED_MAX: usize = 20;

/// cpu.max accepts quotas and periods from 1 ms (kernel/sched/core.c, `min_cfs_quota_period`) ...
const CPU_MAX_PERIOD_MIN: Span = Span::from_ms(1);
/// ... and periods to 1 s (`max_cfs_quota_period`).
const CPU_MAX_PERIOD_MAX: Span = Span::from_s(1);
/// cpu.weight (include/linux/cgroup.h, `CGROUP_WEIGHT_MIN` and `CGROUP_WEIGHT_MAX`).
const CPU_WEIGHT: std::ops::RangeInclusive<u32> = 1..=10_000;
/// The least runtime of SCHED_DEADLINE (kernel/sched/deadline.c, `__checkparam_dl`: 1 << DL_SCALE ns).
const DEADLINE_RUNTIME_MIN: Span = Span::from_ns(1 << 10);

/// A workload that breaks the model's rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct WorkloadError {
    /// The first problems, in the order of the tasks; never empty.
    pub problems: Vec<BrokenRule>,
    /// All of them, listed or not.
    pub nr_problems: u64,
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        match self.nr_problems - self.problems.len() as u64 {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenRule {
    /// Where.
    pub place: Place,
    /// What, and what to do.
    pub flaw: Flaw,
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.flaw)
    }
}

/// Where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The workload as a whole.
    Workload,
    /// A control group.
    Cgroup(String),
    /// An object.
    Object(String),
    /// A task: its birth or its attributes.
    Task {
        /// Row.
        id: TaskId,
        /// Identifier in the text form.
        pid: u32,
        /// Name.
        name: String,
    },
    /// One of a task's events.
    Event {
        /// The task's row.
        id: TaskId,
        /// Index into its events.
        index: usize,
        /// The task's identifier in the text form.
        pid: u32,
        /// The task's name.
        name: String,
        /// The event's identifier.
        eid: EventId,
        /// The event's type.
        kind: &'static str,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Workload => f.write_str("workload"),
            Place::Cgroup(path) => write!(f, "cgroup {path}"),
            Place::Object(name) => write!(f, "object {name}"),
            Place::Task { pid, name, .. } => write!(f, "task {pid} ({name})"),
            Place::Event { pid, name, eid, kind, .. } => {
                write!(f, "task {pid} ({name}), event {} ({kind})", eid.0)
            }
        }
    }
}

/// What is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// Two tasks with one pid.
    #[error("pid {0} belongs to an earlier task too; give every task a number of its own")]
    DuplicatePid(u32),
    /// Pid 0 stands for "none".
    #[error("pid 0 means \"no task\"; number tasks from 1")]
    ZeroPid,
    /// Event 0 stands for "none".
    #[error("event identifier 0 means \"no event\"; number events from 1")]
    ZeroEid,
    /// Two events with one identifier.
    #[error("event identifier {0} occurs more than once; give every event a number of its own")]
    DuplicateEid(u64),
    /// A row that the workload does not have.
    #[error("{role} is task row {row}, but the workload has {nr} tasks")]
    MissingTask {
        /// What it was named as.
        role: &'static str,
        /// Row named.
        row: u32,
        /// Tasks there are.
        nr: usize,
    },
    /// A control group that the workload does not have.
    #[error("names control group {0}, but the workload has only {1}")]
    MissingCgroup(u32, usize),
    /// Own parent.
    #[error("is its own parent; name another task or none")]
    OwnParent,
    /// Born by FORK, but nobody forks it.
    #[error(
        "is to be forked by task {parent}, but no FORK event creates it; add one to that task, or make this an INIT"
    )]
    NeverForked {
        /// The parent named.
        parent: u32,
    },
    /// Forked twice.
    #[error("forks task {child}, which an earlier FORK created; a task can be created once")]
    ForkedTwice {
        /// The child's pid.
        child: u32,
    },
    /// Forks what is there from the start.
    #[error("forks task {child}, which is there from the start (INIT); drop one of the two")]
    ForksInit {
        /// The child's pid.
        child: u32,
    },
    /// FORK and birth disagree about the parent.
    #[error("forks task {child}, whose parent is said to be task {parent}; let both name the same task")]
    ForksOthersChild {
        /// The child's pid.
        child: u32,
        /// The parent in its birth.
        parent: u32,
    },
    /// Tasks that only fork each other.
    #[error("can never start: its line of parents leads back to itself; make one of them an INIT")]
    ForkCycle,
    /// A running event of a blocked task.
    #[error(
        "a blocked task cannot run; put a WAKEUP between the BLOCK (or the blocked INIT) before it and this event"
    )]
    RunsWhileBlocked,
    /// WAKEUP of a task that is not blocked.
    #[error("there is no BLOCK before this WAKEUP; add one, or start the task with INIT ... blocked")]
    WakeupWithoutBlock,
    /// Something after EXIT.
    #[error("comes after the task's EXIT; a task that has ended does nothing")]
    AfterExit,
    /// Length below the previous event's.
    #[error(
        "its length {length} is less than the {previous} of the event before it; lengths count from the last wakeup \
            and cannot decrease"
    )]
    LengthDecreases {
        /// This event's.
        length: Span,
        /// The previous event's.
        previous: Span,
    },
    /// Times that cannot be added up.
    #[error("the task's times add up to more than 2^64 ns (584 years); use shorter ones")]
    TooLong,
    /// Dependence on itself.
    #[error("waits for an event of its own task, which is blocked until then; name another task's event")]
    WaitsForItself,
    /// Dependence on an event that does not exist.
    #[error(
        "waits for event {event} of task {task}, but no event has that identifier; correct deid, or make the wakeup \
            external (0 0 0)"
    )]
    UnknownEvent {
        /// deid.
        event: u64,
        /// dpid.
        task: u32,
    },
    /// Dependence on an event of another task than named.
    #[error("waits for event {event} of task {task}, but that event is task {owner}'s; correct deid or dpid")]
    NotTheWakersEvent {
        /// deid.
        event: u64,
        /// dpid.
        task: u32,
        /// Whose event it is.
        owner: u32,
    },
    /// Dependence on an event that takes no CPU time.
    #[error(
        "waits for event {event}, which is {kind}; a waker must be running, so name its next FORK, PRIO, YIELD, BLOCK \
            or EXIT"
    )]
    NotARunningEvent {
        /// deid.
        event: u64,
        /// WAKEUP or INIT.
        kind: &'static str,
    },
    /// A wakeup before the waker itself ran.
    #[error(
        "is to happen {distance} of CPU time before event {event}, but that is only {length} after the waker's own \
            wakeup; shorten distance or name an earlier event"
    )]
    DistanceTooLong {
        /// distance.
        distance: Span,
        /// deid.
        event: u64,
        /// The waker's event's length.
        length: Span,
    },
    /// No CPU to run on.
    #[error("its set of allowed CPUs is empty; list at least one CPU, or leave it out for all")]
    NoCpus,
    /// Priority out of range for the policy.
    #[error("policy {policy} with real-time priority {priority}; expected {expected}")]
    RtPriority {
        /// The policy.
        policy: SchedPolicy,
        /// The priority given.
        priority: u8,
        /// What it should be.
        expected: &'static str,
    },
    /// Deadline parameters where there should be none, or none where there should be some.
    #[error("policy {0} {1}")]
    DeadlineMismatch(SchedPolicy, &'static str),
    /// Deadline parameters that the kernel refuses.
    #[error(
        "deadline parameters {runtime} in {deadline} every {period}: expected 1024ns <= runtime <= deadline <= period"
    )]
    DeadlineOrder {
        /// Runtime.
        runtime: Span,
        /// Relative deadline.
        deadline: Span,
        /// Period.
        period: Span,
    },
    /// PRIO that sets nothing.
    #[error("changes nothing; name at least one of nice, policy, affinity, cgroup")]
    EmptyChange,
    /// What is wrong with an object, or with what is done at it.
    #[error("{0}")]
    Object(#[from] ObjectFlaw),
    /// A path that cannot be a control group's.
    #[error(
        "is not a path of a control group; write for example /system.slice/redis, without a slash at the end"
    )]
    CgroupPath,
    /// Declared twice.
    #[error("is declared twice; merge the two")]
    DuplicateCgroup,
    /// Parent missing or later.
    #[error("its parent {0} is not declared before it; add a CGROUP line for the parent above")]
    CgroupParent(String),
    /// Settings on the root.
    #[error("the root has no settings; set them on a group below it")]
    CgroupRoot,
    /// cpu.weight out of range.
    #[error("weight {0} is out of range; expected 1 to 10000 (100 is the default)")]
    CgroupWeight(u32),
    /// cpu.max out of range.
    #[error("limit of {quota} every {period}; expected a quota of at least 1ms, and a period of 1ms to 1s")]
    CgroupMax {
        /// Quota.
        quota: Span,
        /// Period.
        period: Span,
    },
}

impl Workload {
    /// Checks every rule of the model; the error lists what is broken, in order.
    ///
    /// Time in proportion to the events (plus sorting where identifiers are sparse): about 10 million events a second.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let mut checker =
            Checker { workload: self, error: WorkloadError { problems: Vec::new(), nr_problems: 0 } };
        checker.cgroups();
        checker.objects();
        checker.births();
        checker.tasks();
        checker.unsent();
        if checker.error.nr_problems == 0 { Ok(()) } else { Err(checker.error) }
    }

    /// Checks what is known of a workload whose tasks have their FORKs only: groups, births and settings.
    pub(crate) fn check_skeleton(&self) -> Result<(), WorkloadError> {
        let mut checker =
            Checker { workload: self, error: WorkloadError { problems: Vec::new(), nr_problems: 0 } };
        checker.cgroups();
        checker.objects();
        checker.births();
        for (row, task) in self.tasks.iter().enumerate() {
            if let Some(flaw) = checker.settings(task.params, task.affinity.as_ref(), task.cgroup) {
                checker.at_task(row, flaw);
            }
        }
        if checker.error.nr_problems == 0 { Ok(()) } else { Err(checker.error) }
    }
}

struct Checker<'a> {
    workload: &'a Workload,
    error: WorkloadError,
}

impl<'a> Checker<'a> {
    fn report(&mut self, place: impl FnOnce() -> Place, flaw: Flaw) {
        self.error.nr_problems += 1;
        if self.error.problems.len() < LISTED_MAX {
            self.error.problems.push(BrokenRule { place: place(), flaw });
        }
    }

    fn task_place(&self, row: usize) -> Place {
        let task = &self.workload.tasks[row];
        Place::Task { id: TaskId(row as u32), pid: task.pid, name: task.name.clone() }
    }

    fn at_task(&mut self, row: usize, flaw: Flaw) {
        let place = self.task_place(row);
        self.report(|| place, flaw);
    }

    fn at_event(&mut self, row: usize, index: usize, flaw: Flaw) {
        let task = &self.workload.tasks[row];
        let event = &task.events[index];
        self.report(
            || Place::Event {
                id: TaskId(row as u32),
                index,
                pid: task.pid,
                name: task.name.clone(),
                eid: event.eid,
                kind: event.kind.name(),
            },
            flaw,
        );
    }

    fn get(&self, id: TaskId) -> Option<&'a Task> {
        self.workload.tasks.get(id.0 as usize)
    }

    fn missing_task(&self, role: &'static str, id: TaskId) -> Flaw {
        Flaw::MissingTask { role, row: id.0, nr: self.workload.tasks.len() }
    }

    fn cgroups(&mut self) {
        let mut seen = BTreeMap::new();
        for (row, cgroup) in self.workload.cgroups.iter().enumerate() {
            let path = cgroup.path.as_str();
            let mut flaws = Vec::new();
            let root = path == "/";
            let proper = |part: &str| !part.is_empty() && part != "." && part != "..";
            if !root && !path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(proper)) {
                flaws.push(Flaw::CgroupPath);
            } else if let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty())
                && !seen.contains_key(parent)
            {
                flaws.push(Flaw::CgroupParent(parent.to_string()));
            }
            if seen.insert(path, row).is_some() {
                flaws.push(Flaw::DuplicateCgroup);
            }
            if root && (cgroup.weight.is_some() || cgroup.max.is_some() || cgroup.cpuset.is_some()) {
                flaws.push(Flaw::CgroupRoot);
            }
            flaws.extend(cgroup.weight.filter(|weight| !CPU_WEIGHT.contains(weight)).map(Flaw::CgroupWeight));
            if let Some(max) = cgroup.max
                && (max.quota < CPU_MAX_PERIOD_MIN
                    || !(CPU_MAX_PERIOD_MIN..=CPU_MAX_PERIOD_MAX).contains(&max.period))
            {
                flaws.push(Flaw::CgroupMax { quota: max.quota, period: max.period });
            }
            if cgroup.cpuset.as_ref().is_some_and(CpuSet::is_empty) {
                flaws.push(Flaw::NoCpus);
            }
            for flaw in flaws {
                self.report(|| Place::Cgroup(path.to_string()), flaw);
            }
        }
    }

    /// Pids, parents, and that every forked task is forked once, by its parent, and can come to be.
    fn births(&mut self) {
        let tasks = &self.workload.tasks;
        let mut pids = BTreeMap::new();
        for (row, task) in tasks.iter().enumerate() {
            if task.pid == 0 {
                self.at_task(row, Flaw::ZeroPid);
            } else if pids.insert(task.pid, row).is_some() {
                self.at_task(row, Flaw::DuplicatePid(task.pid));
            }
            if let Birth::Init { eid: EventId(0), .. } = task.birth {
                self.at_task(row, Flaw::ZeroEid);
            }
            let parent = match task.birth {
                Birth::Init { parent, .. } => parent,
                Birth::Fork { parent } => Some(parent),
            };
            match parent {
                Some(parent) if parent.0 as usize == row => self.at_task(row, Flaw::OwnParent),
                Some(parent) if self.get(parent).is_none() => {
                    self.at_task(row, self.missing_task("its parent", parent));
                }
                _ => {}
            }
        }
        let mut forked = vec![false; tasks.len()];
        for (row, task) in tasks.iter().enumerate() {
            for (index, event) in task.events.iter().enumerate() {
                let EventKind::Fork { child, .. } = event.kind else { continue };
                let Some(born) = self.get(child) else {
                    self.at_event(row, index, self.missing_task("the child", child));
                    continue;
                };
                match born.birth {
                    Birth::Init { .. } => self.at_event(row, index, Flaw::ForksInit { child: born.pid }),
                    Birth::Fork { parent } if parent.0 as usize != row => {
                        let parent = self.get(parent).map_or(0, |task| task.pid);
                        self.at_event(row, index, Flaw::ForksOthersChild { child: born.pid, parent });
                    }
                    Birth::Fork { .. } if forked[child.index()] => {
                        self.at_event(row, index, Flaw::ForkedTwice { child: born.pid });
                    }
                    Birth::Fork { .. } => forked[child.index()] = true,
                }
            }
        }
        // a line of parents must end at an INIT: 0 unknown, 1 on the way, 2 known (each cycle is reported once)
        let mut state = vec![0u8; tasks.len()];
        for (row, task) in tasks.iter().enumerate() {
            if let Birth::Fork { parent } = task.birth
                && !forked[row]
                && let Some(parent) = self.get(parent)
                && parent.pid != task.pid
            {
                self.at_task(row, Flaw::NeverForked { parent: parent.pid });
            }
            let mut path = Vec::new();
            let mut at = row;
            let cycle = loop {
                match (state[at], &tasks[at].birth) {
                    (0, Birth::Fork { parent }) if self.get(*parent).is_some() && parent.0 as usize != at => {
                        state[at] = 1;
                        path.push(at);
                        at = parent.0 as usize;
                    }
                    (known, _) => break known == 1,
                }
            };
            path.iter().for_each(|&row| state[row] = 2);
            if cycle {
                self.at_task(row, Flaw::ForkCycle);
            }
        }
    }

    fn tasks(&mut self) {
        let (index, duplicates) = EventIndex::build(self.workload, LISTED_MAX + 1);
        for EventId(eid) in duplicates {
            if eid != 0 {
                self.report(|| Place::Workload, Flaw::DuplicateEid(eid));
            }
        }
        for (row, task) in self.workload.tasks.iter().enumerate() {
            if let Some(flaw) = self.settings(task.params, task.affinity.as_ref(), task.cgroup) {
                self.at_task(row, flaw);
            }
            let mut life = Life::new(match task.birth {
                Birth::Init { state, .. } => state,
                Birth::Fork { .. } => InitState::Runnable,
            });
            let mut total = Some(Span::ZERO);
            let mut at_objects = AtObjects::default();
            for (i, event) in task.events.iter().enumerate() {
                if event.eid.0 == 0 {
                    self.at_event(row, i, Flaw::ZeroEid);
                }
                if let Some(flaw) = life.step(event) {
                    self.at_event(row, i, flaw);
                }
                let part = match &event.kind {
                    EventKind::Block { length } | EventKind::Exit { length } => Some(*length),
                    EventKind::Wakeup(Wakeup::External { after, .. }) => Some(*after),
                    EventKind::Wakeup(Wakeup::Dependent { recorded_after, .. }) => Some(*recorded_after),
                    _ => None,
                };
                if let Some(part) = part {
                    let before = total;
                    total = total.and_then(|sum| sum.checked_add(part));
                    if total.is_none() && before.is_some() {
                        self.at_event(row, i, Flaw::TooLong);
                    }
                }
                let flaw = match &event.kind {
                    EventKind::Wakeup(wakeup) => self.dependency(row, wakeup, &index),
                    EventKind::Prio { change, .. } => self.change(change),
                    EventKind::Object { op, .. } => {
                        at_objects.step(&self.workload.objects, *op).err().map(Flaw::Object)
                    }
                    _ => None,
                };
                if let Some(flaw) = flaw {
                    self.at_event(row, i, flaw);
                }
            }
        }
    }

    fn dependency(&self, row: usize, wakeup: &Wakeup, index: &EventIndex) -> Option<Flaw> {
        let Wakeup::Dependent { event, task: waker, distance, .. } = *wakeup else { return None };
        let Some(waker_task) = self.get(waker) else { return Some(self.missing_task("the waker", waker)) };
        if waker.0 as usize == row {
            return Some(Flaw::WaitsForItself);
        }
        let pid_of = |id: TaskId| self.get(id).map_or(0, |task| task.pid);
        let not_mine =
            |owner| Flaw::NotTheWakersEvent { event: event.0, task: waker_task.pid, owner: pid_of(owner) };
        match index.find(event) {
            None => Some(Flaw::UnknownEvent { event: event.0, task: waker_task.pid }),
            Some(EventPlace::Init(owner) | EventPlace::Event(owner, _)) if owner != waker => {
                Some(not_mine(owner))
            }
            Some(EventPlace::Init(_)) => Some(Flaw::NotARunningEvent { event: event.0, kind: "INIT" }),
            Some(EventPlace::Event(_, i)) => {
                let Some(length) = waker_task.events[i].kind.length() else {
                    return Some(Flaw::NotARunningEvent { event: event.0, kind: "WAKEUP" });
                };
                // it may reach past other events of the waker, back to its own wakeup: WARP counts from event
                // deid, whichever it is
                (distance > length).then_some(Flaw::DistanceTooLong { distance, event: event.0, length })
            }
        }
    }

    /// Names and numbers of objects.
    fn objects(&mut self) {
        let mut seen = BTreeSet::new();
        for object in &self.workload.objects {
            let twice = (!seen.insert(object.name.as_str())).then_some(ObjectFlaw::DuplicateName);
            for flaw in object_flaw(object).into_iter().chain(twice) {
                self.report(|| Place::Object(object.name.clone()), Flaw::Object(flaw));
            }
        }
    }

    /// Who waits at an object must be able to get what he waits for.
    fn unsent(&mut self) {
        let objects = &self.workload.objects;
        let mut uses = vec![Uses::default(); objects.len()];
        for (row, task) in self.workload.tasks.iter().enumerate() {
            for event in &task.events {
                let EventKind::Object { op, .. } = event.kind else { continue };
                let Some(uses) = uses.get_mut(op.object().0 as usize) else { continue };
                match op {
                    ObjectOp::Receive { .. } | ObjectOp::Wait { .. } => uses.is_awaited = true,
                    ObjectOp::Send { .. }
                    | ObjectOp::Close { .. }
                    | ObjectOp::Signal { .. }
                    | ObjectOp::Broadcast { .. } => uses.is_served = true,
                    ObjectOp::Arrive { .. } if uses.arrived != Some(row) => {
                        uses.arrived = Some(row);
                        uses.nr_arrived += 1;
                    }
                    _ => {}
                }
            }
        }
        for (object, uses) in objects.iter().zip(uses) {
            let starts = match object.kind {
                ObjectKind::Channel { start, .. }
                | ObjectKind::Stream { start, .. }
                | ObjectKind::Semaphore { start } => start > 0,
                _ => false,
            };
            let flaw = match object.kind {
                _ if object.is_closed => None,
                ObjectKind::Barrier { parties } if uses.nr_arrived > 0 && uses.nr_arrived < parties => {
                    Some(ObjectFlaw::TooFewArrive { parties, arrive: uses.nr_arrived })
                }
                _ if uses.is_awaited && !uses.is_served && !starts => Some(ObjectFlaw::NobodySends),
                _ => None,
            };
            if let Some(flaw) = flaw {
                self.report(|| Place::Object(object.name.clone()), Flaw::Object(flaw));
            }
        }
    }

    fn change(&self, change: &ParamChange) -> Option<Flaw> {
        if *change == (ParamChange { target: change.target, ..ParamChange::default() }) {
            return Some(Flaw::EmptyChange);
        }
        match change.target {
            Some(target) if self.get(target).is_none() => Some(self.missing_task("the target", target)),
            _ => self.settings(change.params, change.affinity.as_ref(), change.cgroup),
        }
    }

    fn settings(
        &self,
        params: Option<SchedParams>,
        affinity: Option<&CpuSet>,
        cgroup: Option<CgroupId>,
    ) -> Option<Flaw> {
        if affinity.is_some_and(CpuSet::is_empty) {
            return Some(Flaw::NoCpus);
        }
        if let Some(CgroupId(id)) = cgroup.filter(|id| id.0 as usize >= self.workload.cgroups.len()) {
            return Some(Flaw::MissingCgroup(id, self.workload.cgroups.len()));
        }
        params.and_then(|params| params_flaw(&params))
    }
}

/// What is wrong with scheduling parameters, if anything.
pub(crate) fn params_flaw(params: &SchedParams) -> Option<Flaw> {
    let policy = params.policy;
    let real_time = matches!(policy, SchedPolicy::Fifo | SchedPolicy::RoundRobin);
    let priority = params.rt_priority;
    if real_time != (1..=99).contains(&priority) || (!real_time && priority != 0) {
        let expected = if real_time { "prio=1 to prio=99" } else { "none (only fifo and rr have one)" };
        return Some(Flaw::RtPriority { policy, priority, expected });
    }
    match (policy, params.deadline) {
        (SchedPolicy::Deadline, None) => {
            Some(Flaw::DeadlineMismatch(policy, "needs runtime=, deadline= and period="))
        }
        (SchedPolicy::Deadline, Some(p)) => {
            let ordered =
                DEADLINE_RUNTIME_MIN <= p.runtime && p.runtime <= p.deadline && p.deadline <= p.period;
            (!ordered).then_some(Flaw::DeadlineOrder {
                runtime: p.runtime,
                deadline: p.deadline,
                period: p.period,
            })
        }
        (_, Some(_)) => Some(Flaw::DeadlineMismatch(
            policy,
            "has no runtime, deadline or period; leave them out, or write policy=deadline",
        )),
        (_, None) => None,
    }
}

/// Where a task stands between two events.
pub(crate) enum Life {
    Runnable { since_wakeup: Span },
    Blocked,
    Ended,
}

impl Life {
    /// A task that is in this state at its start.
    pub(crate) fn new(state: InitState) -> Life {
        match state {
            InitState::Runnable => Life::Runnable { since_wakeup: Span::ZERO },
            InitState::Blocked => Life::Blocked,
        }
    }

    /// Goes on to after `event`; the flaw says why it cannot happen here.
    pub(crate) fn step(&mut self, event: &Event) -> Option<Flaw> {
        let length = event.kind.length();
        let flaw = match (&*self, length) {
            (Life::Ended, _) => return Some(Flaw::AfterExit),
            (Life::Blocked, Some(_)) => Some(Flaw::RunsWhileBlocked),
            (Life::Runnable { .. }, None) => Some(Flaw::WakeupWithoutBlock),
            (Life::Runnable { since_wakeup: previous }, Some(length)) if length < *previous => {
                Some(Flaw::LengthDecreases { length, previous: *previous })
            }
            _ => None,
        };
        *self = match (&event.kind, length) {
            (EventKind::Exit { .. }, _) => Life::Ended,
            (EventKind::Block { .. }, _) => Life::Blocked,
            (_, Some(length)) => Life::Runnable { since_wakeup: length },
            (_, None) => Life::Runnable { since_wakeup: Span::ZERO },
        };
        flaw
    }
}
