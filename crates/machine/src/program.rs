//! A workload in the form in which the machine executes it: per task a flat list of operations, each with the
//! CPU time before it.
//!
//! ```text
//! workload                              program of t0
//!   BLOCK  t0 4ms                         after 4 ms: block until 6 ms later
//!   WAKEUP t0 6ms 0 0 0
//!   FORK   t0 1ms t1                      after 1 ms: fork t1
//!   BLOCK  t0 3ms                         after 2 ms: block until token 0
//!   WAKEUP t0 .. (event 9 of t1, 1 ms)
//! and in t1, whose event 9 is EXIT after 5 ms:
//!                                         after 4 ms: deliver token 0
//!                                         after 1 ms: exit
//! ```
//!
//! A dependent wakeup is a *token*: the waker delivers it at its place in the waker's program; the sleeper
//! waits for it. A token that arrives before its sleeper blocks is kept, and the sleeper then does not block
//! (as with a futex whose value has changed).

use crate::costs::Costs;
use crate::perturb::LateTimers;
use crate::queue::FAR_NS;
use schedlab_units::{CpuId, CpuSet, Span, TaskId};
use schedlab_workload::{
    Birth, Cgroup, Event, EventId, EventKind, ExternalSource, InitState, Object, ObjectOp, Recorded,
    WaitCosts, Wakes, Wakeup, Workload, change_words,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

use crate::kernel::{Change, SpawnState};

/// One step of a task: compute for `after_ns` of CPU time, then do `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// CPU time from the previous step (or wakeup) to this one.
    pub after_ns: u64,
    /// What, in the top byte, and its operand. The top bit: [`Step::stays`].
    packed: u64,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Block; an own timer wakes it after this many ns.
    BlockTimer(u64),
    /// Block; a device wakes it after this many ns.
    BlockDevice(u64),
    /// Block until this many ns after the previous such instant, or after the start.
    BlockUntil(u64),
    /// Block until the task's periodic timer expires, this many ns after the expiry before; not at all if it has.
    BlockGrid(u64),
    /// As `BlockGrid`, but where it has expired the next expiry counts from now.
    BlockGridRestart(u64),
    /// As `BlockGrid`, but expiries that lie this many ns or more back are left out.
    BlockGridSkip(u64),
    /// Block until the token is delivered.
    BlockToken(u32),
    /// Block for the rest of the run; the task has done all that the workload asks of it.
    BlockForever,
    /// Deliver a token.
    Deliver(u32),
    /// Create this task.
    Fork(u32),
    /// Apply `Program::changes[i]`.
    Set(u32),
    /// Yield.
    Yield,
    /// Execute a new program.
    Exec,
    /// Exit.
    Exit,
    /// Do `Program::acts[i]` at an object.
    Object(u32),
}

impl Code {
    /// Whether it sleeps until an instant of the task's own timer.
    pub(crate) fn is_instant(self) -> bool {
        use Code::{BlockGrid, BlockGridRestart, BlockGridSkip, BlockUntil};
        matches!(self, BlockUntil(_) | BlockGrid(_) | BlockGridRestart(_) | BlockGridSkip(_))
    }

    /// Such a sleep, with its instant (and so all that follow) moved by this much; anything else as it is.
    pub(crate) fn later_by(self, by_ns: u64) -> Code {
        match self {
            Code::BlockUntil(ns) => Code::BlockUntil(ns.saturating_add(by_ns)),
            Code::BlockGrid(ns) => Code::BlockGrid(ns.saturating_add(by_ns)),
            Code::BlockGridRestart(ns) => Code::BlockGridRestart(ns.saturating_add(by_ns)),
            Code::BlockGridSkip(ns) => Code::BlockGridSkip(ns.saturating_add(by_ns)),
            other => other,
        }
    }
}

/// A step that tasks take all the time: [`Code::BlockToken`], [`Code::Deliver`] or [`Code::Object`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuickStep {
    Block(u32),
    Deliver(u32),
    Object(u32),
}

/// The longest that a task computes before a step.
const AFTER_MAX_NS: u64 = FAR_NS - 1;
const OPERAND_BITS: u32 = 56;
const OPERAND_MAX: u64 = (1 << OPERAND_BITS) - 1;
/// The task stays within the system call ([`Step::stays`]).
const STAYS: u64 = 1 << 63;

impl Step {
    /// `code` after `after_ns`, or 18 years if that is more: until then nobody simulates.
    pub(crate) fn new(after_ns: u64, code: Code) -> Step {
        let (tag, operand) = match code {
            Code::BlockTimer(ns) => (0, ns),
            Code::BlockDevice(ns) => (1, ns),
            Code::BlockToken(token) => (2, u64::from(token)),
            Code::BlockForever => (3, 0),
            Code::Deliver(token) => (4, u64::from(token)),
            Code::Fork(task) => (5, u64::from(task)),
            Code::Set(change) => (6, u64::from(change)),
            Code::Yield => (7, 0),
            Code::Exec => (13, 0),
            Code::Exit => (8, 0),
            Code::BlockUntil(ns) => (9, ns),
            Code::BlockGrid(ns) => (10, ns),
            Code::BlockGridRestart(ns) => (11, ns),
            Code::Object(act) => (12, u64::from(act)),
            Code::BlockGridSkip(ns) => (14, ns),
        };
        Step { after_ns: after_ns.min(AFTER_MAX_NS), packed: tag << OPERAND_BITS | operand.min(OPERAND_MAX) }
    }

    /// Whether the task stays within the system call then, so that its CPU chooses nobody else yet.
    #[inline]
    pub fn stays(self) -> bool {
        self.packed & STAYS != 0
    }

    /// What it does, if that is one of these, and it does not stay within a system call.
    #[inline(always)]
    pub(crate) fn quick(self) -> Option<QuickStep> {
        match self.packed >> OPERAND_BITS {
            2 => Some(QuickStep::Block(self.packed as u32)),
            4 => Some(QuickStep::Deliver(self.packed as u32)),
            12 => Some(QuickStep::Object(self.packed as u32)),
            _ => None,
        }
    }

    /// What it does.
    #[inline]
    pub fn code(self) -> Code {
        let operand = self.packed & OPERAND_MAX;
        match (self.packed & !STAYS) >> OPERAND_BITS {
            0 => Code::BlockTimer(operand),
            1 => Code::BlockDevice(operand),
            2 => Code::BlockToken(operand as u32),
            3 => Code::BlockForever,
            4 => Code::Deliver(operand as u32),
            5 => Code::Fork(operand as u32),
            6 => Code::Set(operand as u32),
            7 => Code::Yield,
            13 => Code::Exec,
            8 => Code::Exit,
            9 => Code::BlockUntil(operand),
            10 => Code::BlockGrid(operand),
            11 => Code::BlockGridRestart(operand),
            14 => Code::BlockGridSkip(operand),
            _ => Code::Object(operand as u32),
        }
    }
}

/// A dependent wakeup.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Token {
    /// Who waits for it.
    pub sleeper: TaskId,
    /// Who delivers it.
    pub waker: TaskId,
    /// The waker's event that it precedes, for reports.
    pub before: EventId,
}

/// Something done at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AtObject {
    /// What.
    pub op: ObjectOp,
    /// How it wakes others.
    pub wakes: Wakes,
    /// What sleeping and waking there takes.
    pub costs: WaitCosts,
    /// Whether it slept where it was recorded.
    pub recorded: Recorded,
    /// A question at what its task polls, whose answer is the next step and stands before the next question: the answer
    /// is put off while there are more questions.
    pub puts_off: bool,
}

/// A task as the machine starts it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramTask {
    /// Its name.
    pub name: String,
    /// Whether it was a thread of the recorded kernel.
    pub kernel_thread: bool,
    /// `None`: a FORK step creates it.
    pub init: Option<SpawnState>,
    /// Own settings at its start, where the workload states them.
    pub change: Option<Change>,
    /// First step in `Program::steps`.
    pub first_step: usize,
    /// Whether its list ends with EXIT or BlockForever after some work; a task blocked for the whole run is
    /// not counted as live.
    pub idle_forever: bool,
    /// If it is runnable at the start: it comes to be this long after the workload's start.
    pub start_after: Span,
    /// The CPU that it begins on; `None`: wherever the scheduler puts it.
    pub start_cpu: Option<CpuId>,
}

impl ProgramTask {
    fn new(task: &schedlab_workload::Task, first_step: usize, idle_forever: bool) -> ProgramTask {
        let is_set = task.params.is_some() || task.affinity.is_some() || task.cgroup.is_some();
        ProgramTask {
            name: task.name.clone(),
            kernel_thread: task.kernel_thread,
            init: match task.birth {
                Birth::Init { state: InitState::Runnable, .. } => Some(SpawnState::Runnable),
                Birth::Init { state: InitState::Blocked, .. } => Some(SpawnState::Blocked),
                Birth::Fork { .. } => None,
            },
            change: is_set.then(|| Change {
                params: task.params,
                nice: None,
                affinity: task.affinity.clone(),
                cgroup: task.cgroup.map(|c| c.0),
            }),
            first_step,
            idle_forever,
            start_after: Span::ZERO,
            start_cpu: None,
        }
    }
}

/// All that the machine needs of a workload.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// All tasks' steps; a task's begin at its `first_step`.
    pub steps: Vec<Step>,
    /// Row i is `TaskId(i)`.
    pub tasks: Vec<ProgramTask>,
    /// The dependent wakeups.
    pub tokens: Vec<Token>,
    /// Operands of [`Code::Set`]: whose (`None`: its own), and what.
    pub changes: Vec<(Option<TaskId>, Change)>,
    /// The changes in words, as the workload has them ([`schedlab_workload::change_words`]).
    pub change_words: Vec<Box<str>>,
    /// Control groups, parents first.
    pub cgroups: Vec<Cgroup>,
    /// What tasks wait at.
    pub objects: Vec<Object>,
    /// Operands of [`Code::Object`], each once.
    pub acts: Vec<AtObject>,
    /// What lowering had to leave out or bend: reason -> how often.
    pub dropped: BTreeMap<String, u64>,
    /// The workload starts this long after a full second of the kernel's clock.
    pub phase: Span,
    /// How late timer interrupts come.
    pub late: LateTimers,
    /// How late a sleep until an instant ends, ns, for each step; empty: none is.
    pub late_by: Vec<u64>,
    /// What kernel code costs.
    pub costs: Costs,
    /// Some task stays within a system call from one step to the next ([`Step::stays`]).
    pub has_calls: bool,
}

/// A workload that cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A wakeup names an event or a task that does not exist.
    #[error(
        "task {pid} ('{name}'): a wakeup depends on event {event} of task {waker}, which has no such event; correct \
            the wakeup's deid and dpid, or make it external (0 0 0)"
    )]
    UnknownEvent {
        /// The sleeper.
        pid: u32,
        /// The sleeper's name.
        name: String,
        /// The event named.
        event: u64,
        /// The waker named.
        waker: String,
    },
    /// Something is done at an object that the workload lacks.
    #[error("task {pid} ('{name}'): an event names object number {object}, but there are {nr}")]
    UnknownObject {
        /// The task.
        pid: u32,
        /// Its name.
        name: String,
        /// The object named.
        object: u32,
        /// Objects there are.
        nr: usize,
    },
    /// Too many tasks or tokens for 32-bit identifiers.
    #[error("the workload has too many {0} (at most 2^31)")]
    TooMany(&'static str),
    /// No task at all.
    #[error("the workload has no tasks; nothing can run")]
    Empty,
}

impl Program {
    /// Lowers a workload. Costs one pass over its events and memory in proportion to them.
    pub fn new(workload: &Workload) -> Result<Program, ProgramError> {
        if workload.tasks.is_empty() {
            return Err(ProgramError::Empty);
        }
        if workload.tasks.len() >= 1 << 31 {
            return Err(ProgramError::TooMany("tasks"));
        }
        let (cgroups, objects) = (workload.cgroups.clone(), workload.objects.clone());
        let mut program = Program { cgroups, objects, ..Program::default() };
        let acts = program.collect_acts(workload)?;
        let deliveries = program.collect_tokens(workload)?;
        let mut token = 0;
        for (index, task) in workload.tasks.iter().enumerate() {
            program.lower_task(workload, TaskId(index as u32), task, (&deliveries[index], &acts), &mut token);
            program.mark_questions(program.tasks[index].first_step);
        }
        Ok(program)
    }

    /// Has tasks that are there at the start begin on these CPUs, row i `TaskId(i)`; from then on they may go
    /// wherever their affinity allows. CPUs that the machine has not, and CPUs outside a task's affinity, are
    /// left out.
    pub fn place(&mut self, cpus: &[Option<CpuId>], nr_cpus: u32) {
        for (task, cpu) in self.tasks.iter_mut().zip(cpus) {
            let affinity = task.change.as_ref().and_then(|change| change.affinity.as_ref());
            task.start_cpu =
                cpu.filter(|cpu| cpu.0 < nr_cpus && affinity.is_none_or(|allowed| allowed.contains(*cpu)));
        }
    }

    /// Fits the tasks' affinities and the control groups' cpusets to a machine: CPUs that it does not have
    /// are left out, and a set of which nothing is left (a per-CPU kernel thread of a bigger machine) does
    /// not count. Both are counted in [`Program::dropped`].
    pub fn restrict_to(&mut self, nr_cpus: u32) {
        let there = CpuSet::first(nr_cpus);
        let own = self.tasks.iter_mut().filter_map(|task| task.change.as_mut());
        let later = self.changes.iter_mut().map(|(_, change)| change);
        let (mut lost, mut cut) = (0, 0);
        for affinity in own.chain(later).map(|change| &mut change.affinity) {
            let Some(wanted) = affinity else { continue };
            let left = wanted.intersection(&there);
            if left.is_empty() {
                lost += 1;
                *affinity = None;
            } else if left != *wanted {
                cut += 1;
                *affinity = Some(left);
            }
        }
        let (mut lost_sets, mut cut_sets) = (0, 0);
        for cpuset in self.cgroups.iter_mut().map(|group| &mut group.cpuset) {
            let Some(wanted) = cpuset else { continue };
            let left = wanted.intersection(&there);
            if left.is_empty() {
                lost_sets += 1;
                *cpuset = None;
            } else if left != *wanted {
                cut_sets += 1;
                *cpuset = Some(left);
            }
        }
        self.count("cpuset of a control group that names no CPU of this machine, left out", lost_sets);
        self.count("cpuset of a control group that names more CPUs than this machine has, cut", cut_sets);
        self.count("affinity that names no CPU of this machine, left out", lost);
        self.count("affinity that names more CPUs than this machine has, cut", cut);
    }

    /// Number of tasks.
    pub fn nr_tasks(&self) -> u32 {
        self.tasks.len() as u32
    }

    /// Pass 1: number the dependent wakeups in order of (sleeper, event), and find for each its place in the
    /// waker's program. Returns per waker (index of its event, distance before it, token), sorted.
    fn collect_tokens(&mut self, workload: &Workload) -> Result<Vec<Vec<Delivery>>, ProgramError> {
        let mut wanted: Vec<HashMap<EventId, usize>> = vec![HashMap::new(); workload.tasks.len()];
        let mut deliveries: Vec<Vec<Delivery>> = vec![Vec::new(); workload.tasks.len()];
        let dependent = |task: &schedlab_workload::Task| {
            task.events
                .iter()
                .filter_map(|event| match event.kind {
                    EventKind::Wakeup(Wakeup::Dependent { event, task, distance, .. }) => {
                        Some((event, task, distance))
                    }
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        let unknown =
            |sleeper: &schedlab_workload::Task, event: EventId, waker: TaskId| ProgramError::UnknownEvent {
                pid: sleeper.pid,
                name: sleeper.name.clone(),
                event: event.0,
                waker: workload
                    .tasks
                    .get(waker.0 as usize)
                    .map_or_else(|| waker.to_string(), |task| task.pid.to_string()),
            };
        for task in &workload.tasks {
            for (event, waker, _) in dependent(task) {
                let Some(events) = wanted.get_mut(waker.0 as usize) else {
                    return Err(unknown(task, event, waker));
                };
                events.insert(event, usize::MAX);
            }
        }
        for (task, wanted) in workload.tasks.iter().zip(&mut wanted) {
            if !wanted.is_empty() {
                for (index, event) in task.events.iter().enumerate() {
                    if let Some(place) = wanted.get_mut(&event.eid) {
                        *place = index;
                    }
                }
            }
        }
        for (index, task) in workload.tasks.iter().enumerate() {
            for (event, waker, distance) in dependent(task) {
                let place = wanted[waker.index()][&event];
                if place == usize::MAX || workload.tasks[waker.index()].events[place].kind.length().is_none()
                {
                    return Err(unknown(task, event, waker));
                }
                let waker_events = &workload.tasks[waker.index()].events;
                let token = u32::try_from(self.tokens.len()).map_err(|_| ProgramError::TooMany("wakeups"))?;
                self.tokens.push(Token { sleeper: TaskId(index as u32), waker, before: event });
                let (event, distance) = nearest(waker_events, place, distance);
                deliveries[waker.index()].push(Delivery { event, distance, token });
            }
        }
        for list in &mut deliveries {
            // far from the event first; equal distances in token order
            list.sort_by(|a, b| (a.event, b.distance, a.token).cmp(&(b.event, a.distance, b.token)));
        }
        Ok(deliveries)
    }

    /// Whether answers may be put off anywhere.
    pub(crate) fn has_questions(&self) -> bool {
        self.acts.iter().any(|act| act.puts_off)
    }

    /// What is asked for by a question whose answer may be put off, if this is one.
    pub(crate) fn question(&self, code: Code) -> Option<ObjectOp> {
        let Code::Object(act) = code else { return None };
        self.acts.get(act as usize).filter(|act| act.puts_off).map(|act| act.op)
    }

    /// Marks the questions of the task that begins at this step, which is the last so far.
    fn mark_questions(&mut self, first_step: usize) {
        let op_of = |step: Step| match step.code() {
            Code::Object(act) if !step.stays() => Some(self.acts[act as usize].op),
            _ => None,
        };
        let is_polled = |op: ObjectOp| match op {
            ObjectOp::Receive { object, .. } => self.objects[object.0 as usize].is_polled,
            _ => false,
        };
        let is_question = |steps: &&[Step]| {
            let [question, answer, next] = [steps[0], steps[1], steps[2]].map(op_of);
            let is_answer = matches!(answer, Some(ObjectOp::Send { .. }));
            question.is_some_and(is_polled) && is_answer && next.is_some_and(is_polled)
        };
        let places: Vec<usize> = self.steps[first_step..]
            .windows(3)
            .enumerate()
            .filter(|(_, steps)| is_question(steps))
            .map(|(place, _)| first_step + place)
            .collect();
        let mut marked: HashMap<u32, u32> = HashMap::new();
        for place in places {
            let Code::Object(act) = self.steps[place].code() else { continue };
            let next = self.acts.len() as u32;
            let act = *marked.entry(act).or_insert(next);
            if act == next {
                let Code::Object(plain) = self.steps[place].code() else { continue };
                self.acts.push(AtObject { puts_off: true, ..self.acts[plain as usize] });
            }
            self.steps[place] = Step::new(self.steps[place].after_ns, Code::Object(act));
        }
    }

    fn at_object(&self, op: ObjectOp, recorded: Recorded) -> AtObject {
        let Object { wakes, costs, .. } = self.objects[op.object().0 as usize];
        AtObject { op, wakes, costs, recorded, puts_off: false }
    }

    /// Lists what is done at objects, each once; where in the list each stands.
    fn collect_acts(&mut self, workload: &Workload) -> Result<HashMap<AtObject, u32>, ProgramError> {
        let (mut numbers, nr) = (HashMap::new(), self.objects.len());
        for task in &workload.tasks {
            for event in &task.events {
                if let Some(object) = event.kind.objects().find(|object| object.0 as usize >= nr) {
                    let (pid, name) = (task.pid, task.name.clone());
                    return Err(ProgramError::UnknownObject { pid, name, object: object.0, nr });
                }
                if let EventKind::Object { op, recorded, .. } = event.kind {
                    let act = self.at_object(op, recorded);
                    numbers.entry(act).or_insert_with(|| {
                        self.acts.push(act);
                        self.acts.len() as u32 - 1
                    });
                }
            }
        }
        Ok(numbers)
    }

    fn lower_task(
        &mut self,
        workload: &Workload,
        id: TaskId,
        task: &schedlab_workload::Task,
        (deliveries, acts): (&[Delivery], &HashMap<AtObject, u32>),
        next_token: &mut u32,
    ) {
        let first_step = self.steps.len();
        let mut deliveries = deliveries.iter().peekable();
        let mut at_ns = 0; // CPU time since the last wakeup, of the step emitted last
        let mut clamped = 0;
        let mut events = task.events.iter().enumerate().peekable();
        let init_blocked = matches!(task.birth, Birth::Init { state: InitState::Blocked, .. });
        if init_blocked {
            // its first event is a WAKEUP timed from the start
            let code = match events.peek().map(|(_, event)| &event.kind) {
                Some(EventKind::Wakeup(wakeup)) => {
                    let code = block_code(wakeup, next_token);
                    events.next();
                    code
                }
                _ => Code::BlockForever,
            };
            self.steps.push(Step::new(0, code));
        }
        let mut ended = false;
        let mut call_from = None; // the first step within a system call
        while let Some((index, event)) = events.next() {
            let Some(length) = event.kind.length() else {
                self.count("wakeup without a block before it", 1);
                continue;
            };
            while let Some(delivery) = deliveries.next_if(|d| d.event <= index) {
                let mut place_ns = length.saturating_sub(delivery.distance).as_ns();
                if delivery.distance > length || place_ns < at_ns {
                    clamped += 1;
                    place_ns = place_ns.max(at_ns);
                }
                let place_ns = place_ns.min(length.as_ns().max(at_ns));
                self.steps.push(Step::new(place_ns - at_ns, Code::Deliver(delivery.token)));
                at_ns = place_ns;
            }
            if matches!(event.kind, EventKind::Call { .. }) {
                call_from.get_or_insert(self.steps.len());
                continue;
            }
            let length_ns = length.as_ns().max(at_ns);
            let after_ns = length_ns - at_ns;
            at_ns = length_ns;
            let code = match &event.kind {
                EventKind::Fork { child, .. } => Code::Fork(child.0),
                EventKind::Prio { change, .. } => self.lower_change(change, workload),
                EventKind::Yield { .. } => Code::Yield,
                EventKind::Exec { .. } => Code::Exec,
                EventKind::Object { op, recorded, .. } => Code::Object(acts[&self.at_object(*op, *recorded)]),
                EventKind::Exit { .. } => {
                    ended = true;
                    Code::Exit
                }
                EventKind::Block { .. } => {
                    at_ns = 0;
                    match events.peek().map(|(_, event)| &event.kind) {
                        Some(EventKind::Wakeup(wakeup)) => {
                            let code = block_code(wakeup, next_token);
                            events.next();
                            code
                        }
                        _ => {
                            ended = true;
                            Code::BlockForever
                        }
                    }
                }
                EventKind::Call { .. } => unreachable!("is no step of its own"),
                EventKind::Wakeup(_) => unreachable!("has no length"),
            };
            let ends_call = matches!(event.kind, EventKind::Block { .. } | EventKind::Exit { .. });
            if let Some(from) = call_from.take_if(|_| ends_call) {
                self.steps[from..].iter_mut().for_each(|step| step.packed |= STAYS);
                self.has_calls |= from < self.steps.len();
            }
            self.steps.push(Step::new(after_ns, code));
            if ended {
                self.count("events after a task's end", events.len() as u64);
                break;
            }
        }
        if !ended {
            self.steps.push(Step::new(0, Code::BlockForever));
        }
        self.count("wakeup placed outside its waker's run and moved into it", clamped);
        let idle_forever = init_blocked && self.steps[first_step].code() == Code::BlockForever;
        self.tasks.push(ProgramTask::new(task, first_step, idle_forever));
        debug_assert_eq!(self.tasks.len(), id.index() + 1);
    }

    /// New settings of a task, which a step refers to.
    fn lower_change(&mut self, change: &schedlab_workload::ParamChange, workload: &Workload) -> Code {
        let lowered = Change {
            params: change.params,
            nice: change.nice,
            affinity: change.affinity.clone(),
            cgroup: change.cgroup.map(|c| c.0),
        };
        self.changes.push((change.target, lowered));
        self.change_words.push(change_words(change, workload).into());
        Code::Set(self.changes.len() as u32 - 1)
    }

    fn count(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.dropped.entry(reason.to_string()).or_default() += count;
        }
    }
}

/// A token's place in its waker's program: `distance` of CPU time before event number `event`.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    event: usize,
    distance: Span,
    token: u32,
}

/// `distance` before event number `event` of a task, as a distance before the task's next event after that
/// place: other events of the same stretch, since the task's own wakeup, may lie between.
fn nearest(events: &[Event], mut event: usize, distance: Span) -> (usize, Span) {
    let length = |event: usize| events[event].kind.length();
    let Some(place) =
        length(event).filter(|length| *length >= distance).map(|length| length.saturating_sub(distance))
    else {
        return (event, distance); // not within the stretch: lowering counts it
    };
    while let Some(before) = event.checked_sub(1).and_then(length)
        && before > place
    {
        event -= 1;
    }
    (event, length(event).map_or(distance, |length| length.saturating_sub(place)))
}

/// How a block ends. Tokens are consumed in the order in which pass 1 numbered them.
fn block_code(wakeup: &Wakeup, next_token: &mut u32) -> Code {
    match *wakeup {
        Wakeup::External { after, source: ExternalSource::Absolute } => Code::BlockUntil(after.as_ns()),
        Wakeup::External { after, source: ExternalSource::Grid } => Code::BlockGrid(after.as_ns()),
        Wakeup::External { after, source: ExternalSource::GridRestart } => {
            Code::BlockGridRestart(after.as_ns())
        }
        Wakeup::External { after, source: ExternalSource::GridSkip } => Code::BlockGridSkip(after.as_ns()),
        Wakeup::External { after, source } if source.is_device() => Code::BlockDevice(after.as_ns()),
        Wakeup::External { after, .. } => Code::BlockTimer(after.as_ns()),
        Wakeup::Dependent { .. } => {
            *next_token += 1;
            Code::BlockToken(*next_token - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::Task;

    fn task(pid: u32, birth: Birth, events: Vec<EventKind>) -> Task {
        let events = events.into_iter().enumerate();
        Task {
            pid,
            name: format!("task{pid}"),
            birth,
            params: None,
            affinity: None,
            cgroup: None,
            kernel_thread: false,
            events: events
                .map(|(i, kind)| Event { eid: EventId(u64::from(pid) * 100 + i as u64), kind })
                .collect(),
        }
    }
    const INIT: Birth = Birth::Init { eid: EventId(0), parent: None, state: InitState::Runnable };
    const BLOCKED: Birth = Birth::Init { eid: EventId(0), parent: None, state: InitState::Blocked };
    fn ms(n: u64) -> Span {
        Span::from_ms(n)
    }
    fn steps(program: &Program, task: usize) -> Vec<(u64, Code)> {
        let end = program.tasks.get(task + 1).map_or(program.steps.len(), |next| next.first_step);
        program.steps[program.tasks[task].first_step..end]
            .iter()
            .map(|s| (s.after_ns / 1_000_000, s.code()))
            .collect()
    }

    /// The picture in the module's documentation.
    #[test]
    fn the_documented_example() {
        let dependent = Wakeup::Dependent {
            recorded_after: ms(1),
            event: EventId(200),
            task: TaskId(1),
            distance: ms(1),
        };
        let workload = Workload {
            tasks: vec![
                task(
                    1,
                    INIT,
                    vec![
                        EventKind::Block { length: ms(4) },
                        EventKind::Wakeup(Wakeup::External { after: ms(6), source: ExternalSource::Timer }),
                        EventKind::Fork { length: ms(1), child: TaskId(1) },
                        EventKind::Block { length: ms(3) },
                        EventKind::Wakeup(dependent),
                    ],
                ),
                task(2, Birth::Fork { parent: TaskId(0) }, vec![EventKind::Exit { length: ms(5) }]),
            ],
            ..Workload::default()
        };
        let program = Program::new(&workload).unwrap();
        assert_eq!(
            steps(&program, 0),
            [
                (4, Code::BlockTimer(6_000_000)),
                (1, Code::Fork(1)),
                (2, Code::BlockToken(0)),
                (0, Code::BlockForever)
            ]
        );
        assert_eq!(steps(&program, 1), [(4, Code::Deliver(0)), (1, Code::Exit)]);
        assert!(program.dropped.is_empty());
    }

    #[test]
    fn deliveries_are_ordered_and_clamped_aloud() {
        let wake = |event, distance| {
            EventKind::Wakeup(Wakeup::Dependent {
                recorded_after: Span::ZERO,
                event: EventId(event),
                task: TaskId(2),
                distance: ms(distance),
            })
        };
        let workload = Workload {
            tasks: vec![
                task(1, BLOCKED, vec![wake(300, 9), EventKind::Exit { length: ms(1) }]),
                task(2, BLOCKED, vec![wake(300, 3), EventKind::Exit { length: ms(1) }]),
                task(3, INIT, vec![EventKind::Exit { length: ms(5) }]),
            ],
            ..Workload::default()
        };
        let program = Program::new(&workload).unwrap();
        assert_eq!(steps(&program, 2), [(0, Code::Deliver(0)), (2, Code::Deliver(1)), (3, Code::Exit)]);
        assert_eq!(program.dropped.values().sum::<u64>(), 1);
        assert_eq!(steps(&program, 0), [(0, Code::BlockToken(0)), (1, Code::Exit)]);
    }

    // waker: ..w..FORK....YIELD....w'...BLOCK: both wakeups are counted back from the BLOCK, 11 and 1 ms
    #[test]
    fn a_distance_may_reach_past_the_wakers_own_events() {
        let wake = |distance| {
            EventKind::Wakeup(Wakeup::Dependent {
                recorded_after: Span::ZERO,
                event: EventId(303),
                task: TaskId(2),
                distance: ms(distance),
            })
        };
        let fork = EventKind::Fork { length: ms(3), child: TaskId(3) };
        let block = EventKind::Block { length: ms(12) };
        let workload = Workload {
            tasks: vec![
                task(1, BLOCKED, vec![wake(11), EventKind::Exit { length: ms(1) }]),
                task(2, BLOCKED, vec![wake(1), EventKind::Exit { length: ms(1) }]),
                task(
                    3,
                    INIT,
                    vec![
                        EventKind::Yield { length: Span::ZERO },
                        fork,
                        EventKind::Yield { length: ms(7) },
                        block,
                    ],
                ),
                task(4, Birth::Fork { parent: TaskId(2) }, vec![EventKind::Exit { length: ms(1) }]),
            ],
            ..Workload::default()
        };
        let program = Program::new(&workload).unwrap();
        assert_eq!(
            steps(&program, 2),
            [
                (0, Code::Yield),
                (1, Code::Deliver(0)),
                (2, Code::Fork(3)),
                (4, Code::Yield),
                (4, Code::Deliver(1)),
                (1, Code::BlockForever)
            ]
        );
        assert!(program.dropped.is_empty());
    }

    #[test]
    fn affinities_are_fitted_to_the_machine() {
        let with = |pid, cpus: &str| Task {
            affinity: Some(cpus.parse().unwrap()),
            ..task(pid, INIT, vec![EventKind::Exit { length: ms(1) }])
        };
        let workload = Workload {
            tasks: vec![with(1, "0"), with(2, "3"), with(3, "1-3"), with(4, "0-1")],
            ..Workload::default()
        };
        let mut program = Program::new(&workload).unwrap();
        program.restrict_to(2);
        let affinity =
            |i: usize| program.tasks[i].change.as_ref().unwrap().affinity.as_ref().map(ToString::to_string);
        assert_eq!(
            [affinity(0), affinity(1), affinity(2), affinity(3)].map(|a| a.unwrap_or_default()),
            ["0", "", "1", "0-1"]
        );
        assert_eq!(program.dropped.values().copied().collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn a_wakeup_by_nobody_is_refused() {
        let wakeup = Wakeup::Dependent {
            recorded_after: Span::ZERO,
            event: EventId(7),
            task: TaskId(0),
            distance: Span::ZERO,
        };
        let mut workload = Workload {
            tasks: vec![task(1, BLOCKED, vec![EventKind::Wakeup(wakeup)])],
            ..Workload::default()
        };
        assert!(matches!(Program::new(&workload), Err(ProgramError::UnknownEvent { pid: 1, event: 7, .. })));
        workload.tasks.clear();
        assert_eq!(Program::new(&workload).unwrap_err(), ProgramError::Empty);
    }
}
