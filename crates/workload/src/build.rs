//! How is a small workload written down in a program? As it would be drawn: task by task, from left to right.
//!
//! ```text
//! ms        0         1
//!           0123456789012345
//! worker    RRRR......RRRRR                R: runs, on a CPU of its own; .: blocked
//!                         ^                wakes the collector, a millisecond before it blocks
//! collector ..............RR
//! ```
//!
//! ```
//! use schedlab_units::Span;
//! use schedlab_workload::Builder;
//! let ms = Span::from_ms;
//! let mut w = Builder::new();
//! let collector = w.task("collector").blocked().id();
//! w.task("worker").run(ms(4)).sleep(ms(6)).run(ms(4)).wakes(collector).run(ms(1)).block();
//! w.life(collector).run(ms(2)).exit();
//! let workload = w.finish()?;
//! assert_eq!(workload.tasks[1].cpu_demand(), ms(9));
//! let text = workload.to_text()?;
//! assert!(text.contains("6 BLOCK 2 5ms")); // lengths count from the last wakeup
//! assert!(text.contains("5 WAKEUP 1 0 6 2 1ms")); // when task 2 has a millisecond left until its event 6
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Builder::task`] begins a task; the [`Life`] that it gives says who the task is ([`Life::nice`],
//! [`Life::cpu`], ...) and what it does next ([`Life::run`], [`Life::sleep`], [`Life::exit`], ...), step by
//! step. [`Builder::life`] goes on with a task where it stands, so that tasks that wake each other are
//! written in the order in which that happens.
//!
//! A task is runnable at the start, of the normal policy with nice 0, and allowed everywhere, unless it is
//! told otherwise. Pids count from 1 ([`Builder::first_pid`]), events in the order of the calls. A builder
//! never grows beyond [`Limits::HELD`]: once it would, it takes nothing more, and [`Builder::finish`] says
//! so.

use crate::limits::{Account, Exceeded, Limits};
use crate::{
    Birth, Cgroup, CgroupId, Event, EventId, EventKind, ExternalSource, InitState, Object, ObjectId,
    ObjectOp, ParamChange, Task, Wakeup, Workload, WorkloadError,
};
use schedlab_units::{CpuId, CpuSet, DeadlineParams, Nice, SchedParams, SchedPolicy, Span, TaskId};

/// More CPU time than any run gives: a task that computes so long never ends.
pub const ENDLESS: Span = Span::from_s(100_000);

/// A workload that a [`Builder`] cannot give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadBuildError {
    /// More than fits.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    TooLarge(#[from] Exceeded),
    /// A rule of the model is broken.
    #[error(transparent)]
    Rules(#[from] WorkloadError),
}

/// Puts a workload together; see the [module](self).
#[derive(Clone, Debug)]
pub struct Builder {
    workload: Workload,
    account: Account,
    exceeded: Option<Exceeded>,
    next_pid: u32,
    next_eid: u64,
    /// Where each task stands.
    now: Vec<Now>,
}

/// Where a task stands after its last event.
#[derive(Clone, Debug, Default)]
struct Now {
    /// CPU time since its last wakeup, which its next event states.
    length: Span,
    is_awake: bool,
    /// Waits that its next event ends: where they stand, and its CPU time then.
    wakes: Vec<(Place, Span)>,
}

/// Where a wait stands, for [`Builder::set_event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    task: TaskId,
    index: usize,
}

/// A task that is being written: who it is, and what it does next. CPU time after which nothing comes is no
/// event, and is forgotten.
#[derive(Debug)]
pub struct Life<'b> {
    builder: &'b mut Builder,
    id: TaskId,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// An empty workload.
    pub fn new() -> Builder {
        Builder::of(Workload::default())
    }

    /// Goes on with a workload: pids and events are numbered above those that are there.
    pub fn of(workload: Workload) -> Builder {
        let builder = Builder {
            account: Account::new(Limits::HELD),
            exceeded: None,
            next_pid: workload.free_pid(),
            next_eid: workload.free_eid().0,
            now: workload.tasks.iter().map(Now::of).collect(),
            workload,
        };
        builder.within(Limits::HELD)
    }

    /// With other limits than [`Limits::HELD`].
    pub fn within(mut self, limits: Limits) -> Builder {
        self.account = Account::new(limits);
        self.exceeded = self.account.add_copies(&self.workload, 1).err();
        self
    }

    /// The first task gets this pid.
    pub fn first_pid(mut self, pid: u32) -> Builder {
        self.next_pid = pid;
        self
    }

    /// Refuses about so many events before the first is made.
    pub fn with_room(self, nr_events: u128) -> Result<Builder, Exceeded> {
        self.account.check_events(u64::try_from(nr_events).unwrap_or(u64::MAX))?;
        Ok(self)
    }

    /// What there is too much of by now, for whoever cannot tell beforehand how much there will be.
    pub fn room(&self) -> Result<(), Exceeded> {
        self.exceeded.map_or(Ok(()), Err)
    }

    /// A control group; parents first.
    pub fn cgroup(&mut self, cgroup: Cgroup) -> CgroupId {
        self.workload.cgroups.push(cgroup);
        CgroupId(self.workload.cgroups.len() as u32 - 1)
    }

    /// Something that tasks wait at ([`Life::at`]).
    pub fn object(&mut self, object: Object) -> ObjectId {
        let room = self.account.add_bytes(size_of::<Object>() as u64 + object.name.len() as u64);
        self.made(room);
        match self.exceeded {
            Some(_) if !self.workload.objects.is_empty() => ObjectId(0), // nothing more is taken
            _ => self.workload.add_object(object),
        }
    }

    /// A new task, there from the start, after all those before it.
    pub fn task(&mut self, name: impl Into<String>) -> Life<'_> {
        let eid = self.eid();
        let birth = Birth::Init { eid, parent: None, state: InitState::Runnable };
        let task = Task { params: Some(SchedParams::default()), ..Task::new(self.next_pid, name, birth) };
        let id = self.add(task);
        self.life(id)
    }

    /// What something outside the workload had of a CPU: a task of the highest real-time priority takes it again.
    /// Stretches from the start (ns), in order of time, without overlaps.
    pub fn stolen(&mut self, name: impl Into<String>, cpu: CpuId, stretches: &[(u64, u64)]) -> TaskId {
        let mut life = self.task(name).fifo(99).affinity(CpuSet::single(cpu)).blocked();
        let mut last_ns = 0;
        for (from_ns, to_ns) in stretches {
            life = life.sleep_until(Span::from_ns(from_ns - last_ns)).run(Span::from_ns(to_ns - from_ns));
            last_ns = *from_ns;
        }
        let id = life.id;
        life.exit();
        id
    }

    /// Goes on with a task.
    ///
    /// # Panics
    /// If there is none of this row.
    pub fn life(&mut self, id: TaskId) -> Life<'_> {
        assert!(id.index() < self.now.len(), "task row {} is not there yet", id.0);
        Life { builder: self, id }
    }

    /// `task` blocks, if it has not, until `waker` is about to do an event that is not known yet:
    /// [`Builder::set_event`] names it, at the place returned. ([`Life::wakes`] is simpler where the waker's
    /// next event ends the wait.)
    pub fn wait(&mut self, task: TaskId, waker: TaskId) -> Place {
        let (event, distance) = (EventId(0), Span::ZERO);
        let wakeup = Wakeup::Dependent { recorded_after: Span::ZERO, event, task: waker, distance };
        self.life(task).wakeup(wakeup);
        Place { task, index: self.workload.tasks[task.index()].events.len().saturating_sub(1) }
    }

    /// Completes a [`Builder::wait`]: it ends when the waker has `before` of CPU time left until its event `eid`.
    pub fn set_event(&mut self, place: Place, eid: EventId, before: Span) {
        let kind = self.workload.tasks[place.task.index()].events.get_mut(place.index);
        match kind.map(|event| &mut event.kind) {
            Some(EventKind::Wakeup(Wakeup::Dependent { event, distance, .. })) => {
                *event = eid;
                *distance = before;
            }
            _ if self.exceeded.is_some() => {}
            _ => panic!("a place is given by wait()"),
        }
    }

    /// The workload, if it fits and keeps every rule ([`Workload::check`]).
    pub fn finish(self) -> Result<Workload, WorkloadBuildError> {
        self.room()?;
        self.workload.check()?;
        Ok(self.workload)
    }

    /// Adds a task; its number.
    fn add(&mut self, task: Task) -> TaskId {
        let room = self.account.add_task(&task);
        self.made(room);
        if self.exceeded.is_some() && !self.now.is_empty() {
            return TaskId(self.now.len() as u32 - 1); // nothing more is taken
        }
        self.next_pid = task.pid.saturating_add(1);
        self.now.push(Now::of(&task));
        self.workload.tasks.push(task);
        TaskId(self.now.len() as u32 - 1)
    }

    fn push(&mut self, task: TaskId, kind: EventKind) -> EventId {
        let room = self.account.add_event_bytes(&kind);
        self.made(room);
        let eid = self.eid();
        if self.exceeded.is_none() {
            self.workload.tasks[task.index()].events.push(Event { eid, kind });
        }
        eid
    }

    fn eid(&mut self) -> EventId {
        let room = self.account.add_events(1);
        self.made(room);
        self.next_eid += 1;
        EventId(self.next_eid - 1)
    }

    fn made(&mut self, room: Result<(), Exceeded>) {
        self.exceeded = self.exceeded.or(room.err());
    }
}

impl Now {
    fn of(task: &Task) -> Now {
        let blocked_at_start = matches!(task.birth, Birth::Init { state: InitState::Blocked, .. });
        let last = task.events.last().map(|event| &event.kind);
        Now {
            length: last.and_then(EventKind::length).unwrap_or_default(),
            is_awake: last.map_or(!blocked_at_start, |kind| {
                !matches!(kind, EventKind::Block { .. } | EventKind::Exit { .. })
            }),
            wakes: Vec::new(),
        }
    }
}

/// Who it is.
impl Life<'_> {
    fn task(&mut self) -> &mut Task {
        &mut self.builder.workload.tasks[self.id.index()]
    }

    /// Its number in the workload.
    pub fn id(self) -> TaskId {
        self.id
    }

    /// With this pid; the next task gets the one above.
    pub fn pid(mut self, pid: u32) -> Self {
        self.task().pid = pid;
        self.builder.next_pid = pid.saturating_add(1);
        self
    }

    /// Policy and all that belongs to it.
    pub fn params(mut self, params: SchedParams) -> Self {
        self.task().params = Some(params);
        self
    }

    /// No parameters of its own: its parent's, or the system's default.
    pub fn inherits(mut self) -> Self {
        self.task().params = None;
        self
    }

    /// The normal policy with this nice value.
    pub fn nice(self, nice: Nice) -> Self {
        self.params(SchedParams::normal(nice))
    }

    /// SCHED_FIFO, 1 to 99.
    pub fn fifo(self, rt_priority: u8) -> Self {
        self.params(SchedParams { policy: SchedPolicy::Fifo, rt_priority, ..SchedParams::default() })
    }

    /// SCHED_RR, 1 to 99.
    pub fn rr(self, rt_priority: u8) -> Self {
        self.params(SchedParams { policy: SchedPolicy::RoundRobin, rt_priority, ..SchedParams::default() })
    }

    /// SCHED_DEADLINE.
    pub fn deadline(self, deadline: DeadlineParams) -> Self {
        let deadline = Some(deadline);
        self.params(SchedParams { policy: SchedPolicy::Deadline, deadline, ..SchedParams::default() })
    }

    /// Allowed on these CPUs only.
    pub fn affinity(mut self, cpus: CpuSet) -> Self {
        let room = self.builder.account.add_bytes(size_of_val(cpus.words()) as u64);
        self.builder.made(room);
        self.task().affinity = Some(cpus);
        self
    }

    /// Allowed on this CPU only.
    pub fn cpu(self, cpu: u32) -> Self {
        self.affinity(CpuSet::single(CpuId(cpu)))
    }

    /// In this control group.
    pub fn cgroup(mut self, cgroup: CgroupId) -> Self {
        self.task().cgroup = Some(cgroup);
        self
    }

    /// A kernel thread of the recorded system.
    pub fn kernel_thread(mut self) -> Self {
        self.task().kernel_thread = true;
        self
    }

    /// Blocked at the start, until something wakes it: what follows is a wait.
    pub fn blocked(mut self) -> Self {
        if let Birth::Init { state, .. } = &mut self.task().birth {
            *state = InitState::Blocked;
        }
        self.now().is_awake = false;
        self
    }

    /// Begins so long after the start: blocked until then, unless that is no time at all.
    pub fn start(self, after: Span) -> Self {
        if after == Span::ZERO { self } else { self.blocked().sleep(after) }
    }
}

/// What it does.
impl Life<'_> {
    fn now(&mut self) -> &mut Now {
        &mut self.builder.now[self.id.index()]
    }

    /// Needs this much CPU time before what comes next.
    pub fn run(mut self, cpu: Span) -> Self {
        let length = self.now().length.as_ns().saturating_add(cpu.as_ns()); // 584 years: a rule is broken then
        self.now().length = Span::from_ns(length);
        self
    }

    /// An event in its own running, at this length; whoever it wakes before gets its number.
    fn running(mut self, kind: impl FnOnce(Span) -> EventKind) -> Self {
        let length = self.now().length;
        let eid = self.builder.push(self.id, kind(length));
        for (place, at) in std::mem::take(&mut self.now().wakes) {
            self.builder.set_event(place, eid, length - at);
        }
        self
    }

    /// Gives the CPU to whoever waits for it.
    pub fn yields(self) -> Self {
        self.running(|length| EventKind::Yield { length })
    }

    /// Executes a new program, for which the scheduler may choose another CPU.
    pub fn executes(self) -> Self {
        self.running(|length| EventKind::Exec { length })
    }

    /// Changes settings, its own or another task's.
    pub fn set(self, change: ParamChange) -> Self {
        self.running(|length| EventKind::Prio { length, change: Box::new(change) })
    }

    /// Gives up the CPU until something wakes it.
    pub fn block(self) -> Self {
        let mut life = self.running(|length| EventKind::Block { length });
        life.now().is_awake = false;
        life
    }

    /// Ends.
    pub fn exit(self) -> Self {
        let mut life = self.running(|length| EventKind::Exit { length });
        life.now().is_awake = false;
        life
    }

    /// Does this at an object ([`Builder::object`]), and waits there if it must.
    pub fn at(self, op: ObjectOp) -> Self {
        self.running(|length| EventKind::at_object(length, op))
    }

    /// Creates a task with its own settings; the child's number.
    pub fn fork(self, name: impl Into<String>) -> TaskId {
        let child = TaskId(self.builder.now.len() as u32);
        let birth = Birth::Fork { parent: self.id };
        let life = self.running(|length| EventKind::Fork { length, child });
        let task = Task::new(life.builder.next_pid, name, birth);
        life.builder.add(task)
    }

    /// Blocks, if it has not, until this happens.
    pub fn wakeup(self, wakeup: Wakeup) -> Self {
        let is_awake = self.builder.now[self.id.index()].is_awake;
        let mut life = if is_awake { self.block() } else { self };
        life.builder.push(life.id, EventKind::Wakeup(wakeup));
        let now = life.now();
        (now.length, now.is_awake) = (Span::ZERO, true);
        life
    }

    /// Sleeps so long.
    pub fn sleep(self, after: Span) -> Self {
        self.wakeup(Wakeup::External { after, source: ExternalSource::Timer })
    }

    /// Sleeps until so long after its previous wakeup of this kind, or after the start ([`ExternalSource::Absolute`]).
    pub fn sleep_until(self, after: Span) -> Self {
        self.wakeup(Wakeup::External { after, source: ExternalSource::Absolute })
    }

    /// Waits so long for a device.
    pub fn device(self, after: Span) -> Self {
        self.wakeup(Wakeup::External { after, source: ExternalSource::Device })
    }

    /// Waits until `waker` has `before` of CPU time left until its event `event`.
    pub fn wait_for(self, waker: TaskId, event: EventId, before: Span) -> Self {
        let recorded_after = Span::ZERO;
        self.wakeup(Wakeup::Dependent { recorded_after, event, task: waker, distance: before })
    }

    /// Wakes another task here, which has blocked, or blocks where it stands. This task must do something
    /// more: that is the event which the wakeup names.
    pub fn wakes(mut self, sleeper: TaskId) -> Self {
        let place = self.builder.wait(sleeper, self.id);
        let length = self.now().length;
        self.now().wakes.push((place, length));
        self
    }

    /// An event as it is, whatever comes before it.
    pub fn event(mut self, kind: EventKind) -> Self {
        match (&kind, kind.length()) {
            (_, None) => (self.now().length, self.now().is_awake) = (Span::ZERO, true),
            (EventKind::Block { .. } | EventKind::Exit { .. }, Some(length)) => {
                (self.now().length, self.now().is_awake) = (length, false);
            }
            (_, Some(length)) => self.now().length = length,
        }
        match kind.length() {
            Some(_) => self.running(|_| kind),
            None => {
                self.builder.push(self.id, kind);
                self
            }
        }
    }

    /// The number of its last event.
    ///
    /// # Panics
    /// If it has none.
    pub fn eid(self) -> EventId {
        match self.builder.workload.tasks[self.id.index()].events.last() {
            Some(event) => event.eid,
            None if self.builder.exceeded.is_some() => EventId(0),
            None => panic!("the task has no event yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Flaw;

    const MS: fn(u64) -> Span = Span::from_ms;

    fn text(builder: Builder) -> String {
        builder.finish().unwrap().to_text().unwrap()
    }

    #[test]
    fn a_life_is_written_from_left_to_right() {
        let mut w = Builder::new().first_pid(100);
        let group = w.cgroup(Cgroup { path: "/g".into(), ..Cgroup::default() });
        let nice = Nice::new(5).unwrap();
        w.task("a")
            .nice(nice)
            .cpu(2)
            .cgroup(group)
            .run(MS(1))
            .yields()
            .run(MS(1))
            .sleep(MS(3))
            .run(MS(1))
            .exit();
        w.task("b").fifo(7).start(MS(2)).run(MS(1)).device(MS(4)).sleep_until(MS(9)).block();
        assert_eq!(
            text(w),
            "schedlab-workload 2\nCGROUP /g\n\
             1 INIT 0 0 100 runnable name=a policy=normal nice=5 affinity=2 cgroup=/g\n\
             6 INIT 0 0 101 blocked name=b policy=fifo prio=7\n\
             2 YIELD 100 1ms\n3 BLOCK 100 2ms\n4 WAKEUP 100 3ms 0 0 0\n5 EXIT 100 1ms\n\
             7 WAKEUP 101 2ms 0 0 0\n8 BLOCK 101 1ms\n9 WAKEUP 101 4ms 0 0 0 device\n10 BLOCK 101 0\n\
             11 WAKEUP 101 9ms 0 0 0 absolute\n12 BLOCK 101 0\n"
        );
    }

    /// a RRR. RR..  a wakes b a millisecond before it blocks, and the other way round.
    #[test]
    fn tasks_wake_each_other_in_the_order_of_the_calls() {
        let mut w = Builder::new();
        let a = w.task("a").inherits().id();
        let b = w.task("b").inherits().blocked().id();
        for _ in 0..2 {
            w.life(a).run(MS(2)).wakes(b).run(MS(1)).block();
            w.life(b).run(MS(1)).wakes(a).run(MS(1)).block();
        }
        assert_eq!(
            text(w),
            "schedlab-workload 1\n1 INIT 0 0 1 runnable name=a\n2 INIT 0 0 2 blocked name=b\n\
             4 BLOCK 1 3ms\n5 WAKEUP 1 0 6 2 1ms\n8 BLOCK 1 3ms\n9 WAKEUP 1 0 10 2 1ms\n\
             3 WAKEUP 2 0 4 1 1ms\n6 BLOCK 2 2ms\n7 WAKEUP 2 0 8 1 1ms\n10 BLOCK 2 2ms\n"
        );
    }

    #[test]
    fn children_and_waits_for_what_comes_later() {
        let mut w = Builder::new();
        let parent = w.task("parent").id();
        let child = w.life(parent).run(MS(1)).fork("child");
        let place = w.wait(parent, child);
        let end = w.life(child).run(MS(2)).exit().eid();
        w.set_event(place, end, Span::ZERO);
        w.life(parent).run(MS(1)).exit();
        let workload = w.finish().unwrap();
        assert_eq!(workload.tasks[1].birth, Birth::Fork { parent });
        assert_eq!(workload.tasks.iter().map(|task| task.events.len()).collect::<Vec<_>>(), [4, 1]);
        // and one task more, numbered above all
        let mut more = Builder::of(workload);
        more.task("late").run(MS(1)).exit();
        let workload = more.finish().unwrap();
        assert_eq!((workload.tasks[2].pid, workload.tasks[2].birth_eid()), (3, Some(EventId(7))));
    }

    #[test]
    fn what_cannot_be_is_reported_at_the_end() {
        let mut w = Builder::new();
        let sleeper = w.task("sleeper").blocked().id();
        w.task("waker").run(MS(1)).wakes(sleeper); // and does nothing after it
        let WorkloadBuildError::Rules(error) = w.finish().unwrap_err() else { panic!("a rule is broken") };
        assert!(matches!(error.problems[0].flaw, Flaw::UnknownEvent { .. }), "{error}");
        let mut w = Builder::new().within(Limits { bytes: 3 * 8192, ..Limits::HELD });
        w.task("").affinity("65535".parse().unwrap()).exit();
        assert!(w.clone().with_room(u128::MAX).is_err());
        w.task("").affinity("65535".parse().unwrap()).exit();
        w.task("").affinity("65535".parse().unwrap()).exit();
        assert!(w.room().is_ok());
        w.task("").affinity("0".parse().unwrap()).exit();
        assert!(w.room().is_err());
        let id = w.task("no more").run(MS(1)).wakes(TaskId(0)).exit().id();
        assert!(w.life(id).fork("none").index() < w.workload.tasks.len());
        assert!(w.finish().unwrap_err().to_string().contains("bytes of names, CPU lists"));
    }
}
