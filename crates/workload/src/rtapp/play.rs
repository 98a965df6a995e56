//! The description, played on a machine where every thread has a CPU of its own.
//!
//! ```text
//! A  run 2 ms, signal c, run 1 ms           B  wait c, run 3 ms
//!
//! ms   0    1    2    3    4    5
//! A    AAAAAAAAAAAAAAA|                      BLOCK or EXIT at 3 ms
//! B    ..........BBBBBBBBBBBBBBB|            WAKEUP dependent on A's next event, 1 ms of A's CPU time before it
//! ```
//!
//! Of the play's times only those survive that hold on any machine: CPU time, sleeps, the timers' grids. How
//! long someone waited for someone else is kept as `recorded_after` alone.

use super::describe::{Description, Event, Phase, TaskDescription};
use crate::limits::{Account, Exceeded, Limits};
use crate::{
    Birth, Cgroup, CgroupId, Event as WorkloadEvent, EventId, EventKind, ExternalSource, Handover, InitState,
    Object, ObjectId, ObjectKind, ObjectOp, ParamChange, Task, WaitCosts, Wakes, Wakeup, Workload,
};
use schedlab_units::{CpuSet, SchedParams, Span, TaskId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Why a play cannot end.
pub(super) enum Stop {
    TooLarge(Exceeded),
    NoTime(String),
    NeverUnlocks(String),
}

/// An endless description without a duration is played so long.
const DURATION: Span = Span::from_s(10);
/// So many steps of one thread at one instant are an endless loop: no description has as many events in a row.
const STEPS_AT_ONCE: u64 = 1_000_000;
/// Who holds a mutex goes on after the end of the play; after so many steps he will never let it go.
const STEPS_AFTER_END: u64 = 1_000_000;
/// So many steps of a play may come to each event that it is allowed: runs in a row are one event.
const STEPS_PER_EVENT: u64 = 4;

pub(super) fn play(description: &Description, limits: Limits) -> Result<Workload, Stop> {
    let endless = |task: &TaskDescription| {
        task.loops.is_none() || task.phases.iter().any(|phase| phase.loops.is_none())
    };
    let any_endless = description.tasks.iter().any(endless);
    let duration = description.duration.or(any_endless.then_some(DURATION));
    let mut play = Play::new(description, duration, limits);
    if any_endless && description.duration.is_none() {
        play.count("description without end or duration, played for 10 s", 1);
    }
    let nr_threads = description.tasks.iter().fold(0u64, |sum, task| sum.saturating_add(task.instances));
    play.account.check_tasks(nr_threads).map_err(Stop::TooLarge)?;
    for (row, task) in description.tasks.iter().enumerate() {
        for instance in 0..task.instances {
            let name =
                if task.instances > 1 { format!("{}-{instance}", task.name) } else { task.name.clone() };
            play.thread(row, name, None, 0);
        }
    }
    while let Some((time_ns, number)) = play.due.pop_first() {
        play.run(number as usize, time_ns)?;
    }
    Ok(play.finish())
}

/// What a thread is doing.
struct Thread<'d> {
    task: &'d TaskDescription,
    /// Loops done, phase, its loops done, its next event.
    at: (u64, usize, u64, usize),
    params: SchedParams,
    cpus: Option<CpuSet>,
    group: Option<CgroupId>,
    /// The periodic timer that its wakeups can have, and its last expiry.
    timer: Option<usize>,
    expiry_ns: u64,
    /// Since when it waits for another thread.
    waits_since_ns: u64,
    /// CPU time since its last wakeup.
    cpu_ns: u64,
    /// Its wakeups of others since its last event: (task, index of the event, CPU time then).
    open: Vec<(usize, usize, u64)>,
    ended: bool,
    /// Mutexes that it holds.
    held: BTreeSet<usize>,
    /// Steps after the end of the play.
    late_steps: u64,
}

#[derive(Default)]
struct Mutex {
    owner: Option<usize>,
    waiting: VecDeque<usize>,
    /// The object that it becomes; `None` if it cannot hold anybody up: it has one user, or no time passes while it
    /// is held.
    object: Option<ObjectId>,
}

#[derive(Default)]
struct Barrier {
    needed: u64,
    waiting: Vec<usize>,
    /// The object that it becomes, if more than one thread comes.
    object: Option<ObjectId>,
}

struct Play<'d> {
    description: &'d Description,
    /// Threads stop at this time (ns).
    end_ns: Option<u64>,
    threads: Vec<Thread<'d>>,
    workload: Workload,
    next_eid: u64,
    nr_steps: u64,
    /// What is made, and once it is too much: what of.
    account: Account,
    exceeded: Option<Exceeded>,
    /// Threads that will go on by themselves: (time, number).
    due: BTreeSet<(u64, u32)>,
    mutexes: Vec<Mutex>,
    /// Waiters of conditions, with the mutex that they want back.
    conditions: Vec<VecDeque<(usize, usize)>>,
    barriers: Vec<Barrier>,
    /// Last expiry of shared timers and of second ones, by (timer, thread if its own).
    timers: BTreeMap<(usize, Option<usize>), u64>,
    /// Timers that more than one thread uses.
    shared: BTreeSet<usize>,
    groups: BTreeMap<String, CgroupId>,
    now_ns: u64,
}

/// Mutexes that can hold somebody up: more than one thread uses them, and time passes while they are held.
fn exclusive(description: &Description) -> Vec<bool> {
    let nr = description.resources.mutexes.len();
    let (mut users, mut takes_time) = (vec![0u64; nr], vec![false; nr]);
    for task in &description.tasks {
        let (mut held, mut used) = (BTreeSet::new(), BTreeSet::new());
        // twice, for what is held when a loop begins anew
        for event in task.phases.iter().chain(&task.phases).flat_map(|phase| &phase.events) {
            match event {
                Event::Lock(mutex) => {
                    held.insert(*mutex);
                    used.insert(*mutex);
                }
                Event::Unlock(mutex) => {
                    held.remove(mutex);
                }
                Event::Wait { mutex, .. } | Event::Sync { mutex, .. } => {
                    used.insert(*mutex);
                    held.iter().filter(|other| *other != mutex).for_each(|other| takes_time[*other] = true);
                    held.insert(*mutex);
                }
                Event::Run(_)
                | Event::Runtime(_)
                | Event::Sleep(_)
                | Event::Timer { .. }
                | Event::Barrier(_) => {
                    held.iter().for_each(|mutex| takes_time[*mutex] = true);
                }
                _ => {}
            }
        }
        // a task that is forked has no instance of its own, and may be forked more than once
        let threads = if task.instances == 0 { 2 } else { task.instances };
        used.iter().for_each(|mutex| users[*mutex] = users[*mutex].saturating_add(threads));
    }
    users.iter().zip(takes_time).map(|(users, takes_time)| *users > 1 && takes_time).collect()
}

/// Whether the thread goes on at once.
enum Next {
    Goes,
    Waits,
}

impl<'d> Play<'d> {
    fn new(description: &'d Description, duration: Option<Span>, limits: Limits) -> Play<'d> {
        let resources = &description.resources;
        let mut barriers: Vec<Barrier> = (0..resources.barriers.len()).map(|_| Barrier::default()).collect();
        let mut users = BTreeMap::new();
        for task in &description.tasks {
            let mut timers = BTreeSet::new();
            for event in task.phases.iter().flat_map(|phase| &phase.events) {
                match event {
                    Event::Barrier(barrier) => barriers[*barrier].needed += task.instances,
                    Event::Timer { timer, own: false, .. } => {
                        timers.insert(*timer);
                    }
                    _ => {}
                }
            }
            for timer in timers {
                *users.entry(timer).or_insert(0) += task.instances.max(1);
            }
        }
        let mut workload = Workload { dropped: description.left_out.clone(), ..Workload::default() };
        if let Some(duration) = duration {
            workload.notes.insert("duration of the description".to_string(), duration.to_string());
        }
        let mut object = |name: String, kind| {
            workload.add_object(Object {
                name,
                kind,
                wakes: Wakes::Plain,
                costs: WaitCosts::default(),
                is_closed: false,
                is_polled: false,
            })
        };
        let exclude = exclusive(description);
        let mutexes = (0..).zip(&exclude).map(|(row, excludes)| Mutex {
            object: excludes
                .then(|| object(format!("mutex-{}", row + 1), ObjectKind::Mutex(Handover::Competing))),
            ..Mutex::default()
        });
        let mutexes = mutexes.collect();
        for (row, barrier) in barriers.iter_mut().enumerate() {
            // (the limit on tasks is far below 2^32)
            let parties = u32::try_from(barrier.needed).unwrap_or(u32::MAX);
            let named = || object(format!("barrier-{}", row + 1), ObjectKind::Barrier { parties });
            barrier.object = (parties > 1).then(named);
        }
        Play {
            description,
            end_ns: duration.map(Span::as_ns),
            threads: Vec::new(),
            workload,
            next_eid: 1,
            nr_steps: 0,
            account: Account::new(limits),
            exceeded: None,
            due: BTreeSet::new(),
            mutexes,
            conditions: vec![VecDeque::new(); resources.conditions.len()],
            barriers,
            timers: BTreeMap::new(),
            shared: users.into_iter().filter(|(_, users)| *users > 1).map(|(timer, _)| timer).collect(),
            groups: BTreeMap::new(),
            now_ns: 0,
        }
    }

    fn count(&mut self, reason: &str, count: u64) {
        self.workload.count_dropped(reason, count);
    }

    fn eid(&mut self) -> EventId {
        self.next_eid += 1;
        let room = self.account.add_events(1);
        self.made(room);
        EventId(self.next_eid - 1)
    }

    /// The play ends with the next step of a thread, if this was too much.
    fn made(&mut self, room: Result<(), Exceeded>) {
        self.exceeded = self.exceeded.or(room.err());
    }

    /// A control group and its parents.
    fn group(&mut self, path: &str) -> Option<CgroupId> {
        if path.is_empty() {
            return None;
        }
        if let Some(id) = self.groups.get(path) {
            return Some(*id);
        }
        let (parent, _) = path.rsplit_once('/')?;
        self.group(parent);
        let id = CgroupId(self.workload.cgroups.len() as u32);
        self.workload.cgroups.push(Cgroup { path: path.to_string(), ..Cgroup::default() });
        self.groups.insert(path.to_string(), id);
        Some(id)
    }

    /// A new thread: at the start, or forked by `parent` now.
    fn thread(&mut self, row: usize, name: String, parent: Option<usize>, now_ns: u64) -> usize {
        let task = &self.description.tasks[row];
        let number = self.threads.len();
        let group = task.group.as_deref().and_then(|path| self.group(path));
        let delayed = parent.is_none() && task.delay != Span::ZERO;
        let birth = match parent {
            Some(parent) => Birth::Fork { parent: TaskId(parent as u32) },
            None => {
                let state = if delayed { InitState::Blocked } else { InitState::Runnable };
                Birth::Init { eid: self.eid(), parent: None, state }
            }
        };
        let name_and_cpus =
            name.len() as u64 + task.cpus.as_ref().map_or(0, |cpus| 2 * size_of_val(cpus.words()) as u64);
        let room = self.account.add_tasks(1).and_then(|()| self.account.add_bytes(name_and_cpus));
        self.made(room);
        self.workload.tasks.push(Task {
            pid: number as u32 + 1,
            name,
            birth,
            params: Some(task.params),
            affinity: task.cpus.clone(),
            cgroup: group,
            kernel_thread: false,
            events: Vec::new(),
        });
        self.threads.push(Thread {
            task,
            at: (0, 0, 0, 0),
            params: task.params,
            cpus: task.cpus.clone(),
            group,
            timer: None,
            expiry_ns: now_ns,
            waits_since_ns: now_ns,
            cpu_ns: 0,
            open: Vec::new(),
            ended: false,
            held: BTreeSet::new(),
            late_steps: 0,
        });
        let mut begin_ns = now_ns;
        if delayed {
            begin_ns += task.delay.as_ns();
            self.threads[number].expiry_ns = begin_ns;
            self.wakeup(number, Wakeup::External { after: task.delay, source: ExternalSource::Grid });
        } else if parent.is_some() && task.delay != Span::ZERO {
            begin_ns += task.delay.as_ns();
            self.threads[number].expiry_ns = begin_ns;
            self.block(number);
            self.wakeup(number, Wakeup::External { after: task.delay, source: ExternalSource::Grid });
        }
        self.due.insert((begin_ns, number as u32));
        number
    }

    /// Appends a running event.
    fn emit(&mut self, number: usize, kind: impl FnOnce(Span) -> EventKind) {
        let eid = self.eid();
        let thread = &mut self.threads[number];
        let cpu_ns = thread.cpu_ns;
        let kind = kind(Span::from_ns(cpu_ns));
        let room = self.account.add_event_bytes(&kind);
        self.exceeded = self.exceeded.or(room.err());
        self.workload.tasks[number].events.push(WorkloadEvent { eid, kind });
        for (wakee, index, then_ns) in std::mem::take(&mut thread.open) {
            if let EventKind::Wakeup(Wakeup::Dependent { event, distance, .. }) =
                &mut self.workload.tasks[wakee].events[index].kind
            {
                *event = eid;
                *distance = Span::from_ns(cpu_ns - then_ns);
            }
        }
    }

    fn block(&mut self, number: usize) {
        self.emit(number, |length| EventKind::Block { length });
        self.threads[number].cpu_ns = 0;
    }

    fn wakeup(&mut self, number: usize, wakeup: Wakeup) {
        let eid = self.eid();
        self.workload.tasks[number].events.push(WorkloadEvent { eid, kind: EventKind::Wakeup(wakeup) });
        self.threads[number].cpu_ns = 0;
    }

    /// `number` blocks until another thread wakes it.
    fn wait(&mut self, number: usize) {
        self.block(number);
        self.threads[number].waits_since_ns = self.now_ns;
    }

    /// `by` wakes `number`, which waits.
    fn wake(&mut self, by: usize, number: usize) {
        self.woken(by, number);
        self.due.insert((self.now_ns, number as u32));
    }

    /// As [`Self::wake`], but it does not go on yet.
    fn woken(&mut self, by: usize, number: usize) {
        let after = Span::from_ns(self.now_ns - self.threads[number].waits_since_ns);
        let task = TaskId(by as u32);
        let (event, distance) = (EventId(0), Span::ZERO);
        self.wakeup(number, Wakeup::Dependent { recorded_after: after, event, task, distance });
        let index = self.workload.tasks[number].events.len() - 1;
        let then_ns = self.threads[by].cpu_ns;
        self.threads[by].open.push((number, index, then_ns));
    }

    fn at_object(&mut self, number: usize, op: ObjectOp) {
        self.emit(number, |length| EventKind::at_object(length, op));
    }

    fn is_over(&self) -> bool {
        self.end_ns.is_some_and(|end_ns| self.now_ns >= end_ns)
    }

    /// Lets a thread go on at this time until it waits for something.
    fn run(&mut self, number: usize, time_ns: u64) -> Result<(), Stop> {
        self.now_ns = time_ns;
        for _ in 0..STEPS_AT_ONCE {
            self.nr_steps += 1;
            // steps without an event take time all the same
            let steps = self.nr_steps / STEPS_PER_EVENT;
            if let Some(error) = self.exceeded.or(self.account.check_events(steps).err()) {
                return Err(Stop::TooLarge(error));
            }
            // rt-app ends its threads between two events, but not while they hold a mutex.
            let is_over = self.is_over();
            let thread = &mut self.threads[number];
            let over = is_over && thread.held.is_empty();
            thread.late_steps += u64::from(is_over);
            if thread.late_steps > STEPS_AFTER_END {
                return Err(Stop::NeverUnlocks(thread.task.name.clone()));
            }
            let Some(event) = (if over { None } else { self.next_event(number) }) else {
                self.emit(number, |length| EventKind::Exit { length });
                self.threads[number].ended = true;
                return Ok(());
            };
            if let Next::Waits = self.event(number, event) {
                return Ok(());
            }
        }
        Err(Stop::NoTime(self.threads[number].task.name.clone()))
    }

    /// The thread's next event; `None`: it has done all its loops.
    fn next_event(&mut self, number: usize) -> Option<&'d Event> {
        loop {
            let thread = &mut self.threads[number];
            let task = thread.task;
            let (done, phase_row, loops, event) = thread.at;
            if task.loops.is_some_and(|loops| done >= loops) || task.phases.is_empty() {
                return None;
            }
            let Some(phase) = task.phases.get(phase_row) else {
                thread.at = (done + 1, 0, 0, 0);
                // A description whose phases have no events, or are done no times, never gets anywhere.
                if task.phases.iter().all(|phase| phase.events.is_empty() || phase.loops == Some(0)) {
                    return None;
                }
                continue;
            };
            if phase.loops.is_some_and(|limit| loops >= limit) || phase.events.is_empty() {
                thread.at = (done, phase_row + 1, 0, 0);
                continue;
            }
            if event == 0 {
                self.begin_phase(number, phase);
            }
            match phase.events.get(event) {
                Some(found) => {
                    self.threads[number].at = (done, phase_row, loops, event + 1);
                    return Some(found);
                }
                None => self.threads[number].at = (done, phase_row, loops + 1, 0),
            }
        }
    }

    /// What the phase sets: its own, else the task's, else the default.
    fn begin_phase(&mut self, number: usize, phase: &Phase) {
        /// No machine has more (the engine's limit is 1024): all CPUs.
        const ALL_CPUS: u32 = 1024;
        let task = self.threads[number].task;
        let path = phase.group.as_deref().or(task.group.as_deref());
        let group = path.and_then(|path| self.group(path));
        let cpus = phase.cpus.clone().or(task.cpus.clone());
        let params = phase.params.unwrap_or(task.params);
        let thread = &mut self.threads[number];
        let mut change = ParamChange::default();
        if cpus != thread.cpus {
            change.affinity = Some(cpus.clone().unwrap_or_else(|| CpuSet::first(ALL_CPUS)));
            thread.cpus = cpus;
        }
        if params != thread.params {
            change.params = Some(params);
            thread.params = params;
        }
        let to_root = group.is_none() && thread.group.is_some();
        if group != thread.group && !to_root {
            change.cgroup = group;
            thread.group = group;
        }
        if change != ParamChange::default() {
            self.emit(number, |length| EventKind::Prio { length, change: Box::new(change) });
        }
    }

    fn event(&mut self, number: usize, event: &Event) -> Next {
        match event {
            Event::Run(span) | Event::Runtime(span) => {
                if matches!(event, Event::Runtime(_)) {
                    self.count(
                        "\"runtime\", taken as CPU time (rt-app counts the time in which others have the CPU \
                        too)",
                        1,
                    );
                }
                self.threads[number].cpu_ns += span.as_ns();
                self.later(number, *span)
            }
            Event::Sleep(span) => {
                self.block(number);
                self.wakeup(number, Wakeup::External { after: *span, source: ExternalSource::Timer });
                self.later(number, *span)
            }
            Event::Timer { timer, own, period } => self.timer(number, *timer, *own, *period),
            Event::Lock(mutex) => self.lock(number, *mutex),
            Event::Unlock(mutex) => {
                self.unlock(number, *mutex);
                Next::Goes
            }
            Event::Wait { condition, mutex } => {
                // Others may lock it meanwhile; it is locked again when this thread goes on.
                self.unlock(number, *mutex);
                self.wait(number);
                self.conditions[*condition].push_back((number, *mutex));
                Next::Waits
            }
            Event::Sync { condition, mutex } => {
                self.signal(number, *condition, false);
                self.event(number, &Event::Wait { condition: *condition, mutex: *mutex })
            }
            Event::Signal(condition) => {
                self.signal(number, *condition, false);
                Next::Goes
            }
            Event::Broadcast(condition) => {
                self.signal(number, *condition, true);
                Next::Goes
            }
            Event::Barrier(barrier) => {
                let object = self.barriers[*barrier].object;
                if let Some(object) = object {
                    self.at_object(number, ObjectOp::Arrive { object });
                }
                let barrier = &mut self.barriers[*barrier];
                if barrier.waiting.len() as u64 + 1 < barrier.needed {
                    barrier.waiting.push(number);
                    return Next::Waits;
                }
                for waiter in std::mem::take(&mut barrier.waiting) {
                    self.due.insert((self.now_ns, waiter as u32));
                }
                Next::Goes
            }
            Event::Yield => {
                self.emit(number, |length| EventKind::Yield { length });
                Next::Goes
            }
            Event::Fork(name, row) => {
                let child = TaskId(self.threads.len() as u32);
                self.emit(number, |length| EventKind::Fork { length, child });
                self.thread(*row, name.clone(), Some(number), self.now_ns);
                Next::Goes
            }
            Event::Unknown => Next::Goes,
        }
    }

    fn later(&mut self, number: usize, span: Span) -> Next {
        self.due.insert((self.now_ns.saturating_add(span.as_ns()), number as u32));
        Next::Waits
    }

    fn timer(&mut self, number: usize, timer: usize, own: bool, period: Span) -> Next {
        let absolute = self.description.resources.absolute.contains(&timer);
        let first = *self.threads[number].timer.get_or_insert(timer);
        if first == timer && (own || !self.shared.contains(&timer)) {
            let source = if absolute { ExternalSource::Grid } else { ExternalSource::GridRestart };
            self.block(number);
            self.wakeup(number, Wakeup::External { after: period, source });
            let expiry_ns = self.threads[number].expiry_ns.saturating_add(period.as_ns());
            let late = expiry_ns <= self.now_ns;
            self.threads[number].expiry_ns = if late && !absolute { self.now_ns } else { expiry_ns };
            return self.later(number, Span::from_ns(expiry_ns.saturating_sub(self.now_ns)));
        }
        self.count("wait for a timer that other tasks use too, or for a task's second one: as long as with a CPU for \
            each", 1);
        let begin_ns = self.threads[number].task.delay.as_ns();
        let last_ns = self.timers.entry((timer, own.then_some(number))).or_insert(begin_ns);
        let expiry_ns = last_ns.saturating_add(period.as_ns());
        if expiry_ns <= self.now_ns {
            *last_ns = if absolute { expiry_ns } else { self.now_ns };
            return Next::Goes;
        }
        *last_ns = expiry_ns;
        let after = Span::from_ns(expiry_ns - self.now_ns);
        self.block(number);
        self.wakeup(number, Wakeup::External { after, source: ExternalSource::Timer });
        self.later(number, after)
    }

    fn lock(&mut self, number: usize, row: usize) -> Next {
        // Locking twice is a mistake of the description that rt-app would hang on.
        if self.mutexes[row].owner == Some(number) {
            return Next::Goes;
        }
        if let Some(object) = self.mutexes[row].object {
            self.at_object(number, ObjectOp::Lock { object });
        }
        let mutex = &mut self.mutexes[row];
        match mutex.owner {
            None => {
                mutex.owner = Some(number);
                self.threads[number].held.insert(row);
                Next::Goes
            }
            Some(_) => {
                mutex.waiting.push_back(number);
                if mutex.object.is_none() {
                    self.wait(number);
                }
                Next::Waits
            }
        }
    }

    fn unlock(&mut self, number: usize, row: usize) {
        if !self.threads[number].held.remove(&row) {
            return;
        }
        if let Some(object) = self.mutexes[row].object {
            self.at_object(number, ObjectOp::Unlock { object });
        }
        let mutex = &mut self.mutexes[row];
        mutex.owner = mutex.waiting.pop_front();
        if let Some(next) = mutex.owner {
            let is_object = mutex.object.is_some();
            self.threads[next].held.insert(row);
            if is_object {
                self.due.insert((self.now_ns, next as u32));
            } else {
                self.wake(number, next);
            }
        }
    }

    fn signal(&mut self, number: usize, condition: usize, all: bool) {
        if self.conditions[condition].is_empty() {
            self.count("signal that nobody waited for: it is lost, as with rt-app", 1);
        }
        while let Some((waiter, row)) = self.conditions[condition].pop_front() {
            // It goes on when it has the mutex again, which the one who signals may hold.
            if let Some(object) = self.mutexes[row].object {
                self.woken(number, waiter);
                self.at_object(waiter, ObjectOp::Lock { object });
            }
            let mutex = &mut self.mutexes[row];
            if mutex.owner.is_none() {
                mutex.owner = Some(waiter);
                let is_object = mutex.object.is_some();
                self.threads[waiter].held.insert(row);
                if is_object {
                    self.due.insert((self.now_ns, waiter as u32));
                } else {
                    self.wake(number, waiter);
                }
            } else {
                mutex.waiting.push_back(waiter);
            }
            if !all {
                break;
            }
        }
    }

    /// Threads that wait for ever have ended with a BLOCK, all others with an EXIT.
    fn finish(mut self) -> Workload {
        for number in self.barriers.iter_mut().flat_map(|barrier| std::mem::take(&mut barrier.waiting)) {
            // who waits at a barrier that will not open any more waits as others do who wait for ever
            if let Some(last) = self.workload.tasks[number].events.last_mut()
                && let EventKind::Object { length, .. } = last.kind
            {
                last.kind = EventKind::Block { length };
            }
        }
        let waiting = self.threads.iter().filter(|thread| !thread.ended).count() as u64;
        if self.end_ns.is_none() {
            self.count("task that waits for ever", waiting);
        }
        self.workload
    }
}
