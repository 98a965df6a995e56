//! One event after the other: what does it say of the schedule, and what must have happened before that no event told?
//!
//! Every record that is made agrees with those before it, so that [`replay`](schedlab_log::replay()) can read
//! the log: where an event contradicts what was known, what is missing between is put in, at the time that
//! leaves least in doubt, and counted.

use super::spool::Spool;
use super::tasks::{At, Mark, Tasks};
use schedlab_log::{Kind, PrevState, Record, note};
use schedlab_trace::{
    CommId, Context, Counts, Marker, Pid, SchedEvent, SwitchSide, Syscall, SyscallKind, TaskState,
    TraceEvent, Wake,
};
use schedlab_units::{CpuId, SchedParams, TaskId};
use schedlab_workload::derive::{caused_by_scheduler, is_possible};
use std::fs::File;
use std::io;

/// Longer than any recording (13 days): a damaged time would otherwise make years of it.
const DURATION_MAX_NS: u64 = 1 << 50;
/// As many CPUs as any Linux can have.
const CPUS_MAX: u32 = 8192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// Nothing is known since the start, or since events were lost.
    Unknown,
    Idle,
    /// Row of the tasks.
    Task(usize),
}

#[derive(Clone, Copy)]
struct Cpu {
    on: On,
    pid: Option<Pid>,
    /// It was never seen to idle, and nothing of it was missed.
    busy_from_start: bool,
    seen: bool,
    /// The task that left it to the idle task, though runnable.
    left_runnable: Option<usize>,
    /// Behind its last record.
    mark: Mark,
    /// Behind its last event.
    last_event: Mark,
}

/// Which kinds of events the recording has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub switches: u64,
    pub waking: u64,
    pub wakeup: u64,
    pub births: u64,
    pub exits: u64,
    pub migrations: u64,
    pub prios: u64,
    pub unknown_stops: u64,
    pub unknown_context: u64,
    pub gaps: u64,
    pub lost_events: u64,
    /// Places from which on a CPU or a task is unknown.
    pub unseen_spans: u64,
    /// Evidence of somebody on a CPU that is shown as idle.
    pub not_idle: u64,
    /// Words of who has a CPU and is left out.
    pub strangers: u64,
}

/// Takes in the events in order of time.
pub(super) struct Schedule {
    spool: Spool,
    head: Vec<Record>,
    running_at_start: Vec<Record>,
    pub tasks: Tasks,
    cpus: Vec<Cpu>,
    start_ns: Option<u64>,
    now_ns: u64,
    pub counts: Counts,
    pub seen: Seen,
    pub events: u64,
    failed: Option<io::Error>,
}

/// Everything but who the tasks are.
pub(super) struct Ended {
    pub head: Vec<Record>,
    pub body: File,
    pub tasks: Tasks,
    pub nr_cpus: u32,
    pub duration_ns: u64,
    pub counts: Counts,
    pub seen: Seen,
    pub events: u64,
}

impl Schedule {
    pub fn new(file: File) -> Schedule {
        Schedule {
            spool: Spool::new(file),
            head: Vec::new(),
            running_at_start: Vec::new(),
            tasks: Tasks::new(),
            cpus: Vec::new(),
            start_ns: None,
            now_ns: 0,
            counts: Counts::new(),
            seen: Seen::default(),
            events: 0,
            failed: None,
        }
    }

    fn count(&mut self, reason: &str, times: u64) {
        if times > 0 {
            *self.counts.entry(reason.to_string()).or_default() += times;
        }
    }

    /// The end of the recording.
    pub fn finish(mut self) -> io::Result<Ended> {
        self.count(
            "record put up to a window later than it happened: it was understood too late",
            self.spool.late,
        );
        self.count(
            "wakeup in a context that this form of recording does not tell, taken as the current task's",
            self.seen.unknown_context,
        );
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.head.append(&mut self.running_at_start);
        Ok(Ended {
            head: self.head,
            body: self.spool.finish()?,
            tasks: self.tasks,
            nr_cpus: self.cpus.len() as u32,
            duration_ns: self.now_ns,
            counts: self.counts,
            seen: self.seen,
            events: self.events,
        })
    }

    fn now(&self) -> Mark {
        Mark { position: self.spool.next(), time_ns: self.now_ns }
    }

    fn record(&self, kind: Kind, cpu: CpuId, task: TaskId, other: TaskId) -> Record {
        let (kind, cpu) = (kind as u8, cpu.0 as u16);
        Record { time_ns: self.now_ns, kind, cpu, task: task.0, other: other.0, ..Record::default() }
    }

    #[inline]
    fn push(&mut self, record: Record) {
        if let Err(error) = self.spool.push(record) {
            self.failed.get_or_insert(error);
        }
    }

    /// Puts a record where it happened.
    fn put(&mut self, at: Mark, record: Record) -> Mark {
        let time_ns = self.spool.insert(at.position, Record { time_ns: at.time_ns, ..record });
        Mark { time_ns, ..at }
    }

    /// Takes in one event; `name` gives the names behind [`CommId`]s.
    ///
    /// # Errors
    /// The records cannot be written.
    pub fn event<'n>(
        &mut self,
        event: &TraceEvent,
        name: impl Fn(CommId) -> &'n str + Copy,
    ) -> io::Result<()> {
        self.events += 1;
        let start_ns = *self.start_ns.get_or_insert(event.time_ns);
        let since_ns = event.time_ns.saturating_sub(start_ns);
        if since_ns > DURATION_MAX_NS || event.cpu.0 >= CPUS_MAX {
            self.count("event more than 13 days after the first or on a CPU beyond 8192, left out", 1);
            return Ok(());
        }
        self.now_ns = self.now_ns.max(since_ns); // times of a damaged recording may go back
        if !is_possible(event) {
            self.count("event that names an impossible thread, left out", 1);
            return Ok(());
        }
        let cpu = event.cpu.index();
        self.see_cpu(event.cpu);
        let (current, comm) = match event.what {
            SchedEvent::Switch { prev, .. } => (prev.pid, prev.comm),
            _ => (event.pid, CommId::default()),
        };
        if self.cpus[cpu].pid != Some(current)
            && !matches!(event.what, SchedEvent::Lost { .. } | SchedEvent::Exec { .. })
        {
            self.found_on(event.cpu, current, comm, name);
        }
        self.take(event, name);
        self.cpus[cpu].last_event = self.now();
        self.failed.take().map_or(Ok(()), Err)
    }

    #[inline]
    fn take<'n>(&mut self, event: &TraceEvent, name: impl Fn(CommId) -> &'n str + Copy) {
        let cpu = event.cpu;
        match event.what {
            SchedEvent::Switch { prev, prev_state, next } => self.switch(cpu, prev, prev_state, next, name),
            SchedEvent::Waking(wake) => {
                self.seen.waking += 1;
                self.waking(event, wake, false, name);
            }
            SchedEvent::Wakeup(wake) => {
                self.seen.wakeup += 1;
                self.wakeup(event, wake, name);
            }
            SchedEvent::WakeupNew(wake) => self.wakeup_new(cpu, wake, name),
            SchedEvent::Fork { parent, child, child_comm } => self.fork(cpu, parent, child, child_comm),
            SchedEvent::Exit { pid, .. } => {
                self.seen.exits += 1;
                if let Some(row) = self.tasks.find(pid) {
                    self.push(self.record(Kind::Exit, cpu, self.tasks.list[row].id, TaskId::IDLE));
                }
            }
            SchedEvent::Migrate { pid, orig_cpu, dest_cpu, .. } => {
                self.seen.migrations += 1;
                self.moved(cpu, pid, orig_cpu, dest_cpu);
            }
            SchedEvent::Exec { pid, old_pid } if pid != old_pid => {
                if let Some(row) = self.tasks.find(old_pid) {
                    self.tasks.renumber(row, pid);
                    if self.cpus[cpu.index()].on == On::Task(row) {
                        self.cpus[cpu.index()].pid = Some(pid);
                    }
                }
            }
            SchedEvent::PiSetPrio { pid, new_prio, .. } => {
                if let Some(row) = self.tasks.find(pid) {
                    self.tasks.list[row].lend(new_prio);
                }
            }
            SchedEvent::SysEnter(Syscall::SchedYield) => self.yields(event.pid, true),
            SchedEvent::SysExit { call: SyscallKind::SchedYield, .. } => self.yields(event.pid, false),
            SchedEvent::Marker(Marker::Start { pid }) if self.tasks.find(pid).is_none() => {
                let row = self.tasks.add(pid, CommId::default(), false);
                self.waits_from_start(row, cpu);
            }
            SchedEvent::Stranger { busy } => self.stranger(cpu, busy),
            SchedEvent::Lost { count } => self.lost(cpu, count),
            _ => {}
        }
    }

    /// Somebody whom the recording leaves out takes a CPU that is shown as idle, or gives it up.
    fn stranger(&mut self, cpu: CpuId, busy: bool) {
        self.seen.strangers += 1;
        self.strangers_leave(cpu);
        match self.cpus[cpu.index()].on {
            _ if !busy => {}
            On::Idle => {
                let row = self.tasks.strangers(cpu);
                let id = self.tasks.list[row].id;
                if matches!(self.tasks.list[row].at, At::Blocked { .. }) {
                    let record = self.record(Kind::Wakeup, cpu, id, TaskId::IDLE);
                    self.push(Record { arg: cpu.0, ..record });
                }
                self.push(self.record(Kind::Switch, cpu, TaskId::IDLE, id));
                self.tasks.list[row].at = At::Running { cpu };
                self.now_on(cpu, On::Task(row));
            }
            _ => self.count("somebody left out on a CPU that a task of the recording has, left out", 1),
        }
    }

    /// Whoever was left out no longer has this CPU: it is as idle as it is shown.
    fn strangers_leave(&mut self, cpu: CpuId) {
        let On::Task(row) = self.cpus[cpu.index()].on else { return };
        if self.tasks.list[row].strangers_of != Some(cpu) {
            return;
        }
        let record = self.record(Kind::Switch, cpu, self.tasks.list[row].id, TaskId::IDLE);
        self.push(Record { flags: PrevState::Sleeping as u8, ..record });
        self.tasks.list[row].at = At::Blocked { woken_early: false };
        self.now_on(cpu, On::Idle);
    }

    /// Who is on this CPU behind the record that was just made.
    fn now_on(&mut self, cpu: CpuId, on: On) {
        let mark = self.now();
        let here = &mut self.cpus[cpu.index()];
        (here.on, here.mark, here.left_runnable) = (on, mark, None);
        if let On::Task(row) = on {
            self.tasks.list[row].mark = mark;
        }
    }

    fn yields(&mut self, pid: Pid, begins: bool) {
        if let Some(row) = self.tasks.find(pid) {
            self.tasks.list[row].in_yield = begins;
        }
    }

    /// It waits since before the recording began.
    fn waits_from_start(&mut self, row: usize, cpu: CpuId) {
        let record = self.record(Kind::New, cpu, self.tasks.list[row].id, TaskId::IDLE);
        self.head.push(Record { time_ns: 0, arg: cpu.0, ..record });
        self.tasks.list[row].at = At::Waiting { cpu };
    }

    /// An event shows another task on this CPU than was known to be there: at the beginning, after lost
    /// events, or where the recording leaves out events.
    #[cold]
    fn found_on<'n>(&mut self, cpu: CpuId, pid: Pid, comm: CommId, name: impl Fn(CommId) -> &'n str) {
        self.strangers_leave(cpu);
        let before = self.cpus[cpu.index()];
        let row = (pid != Pid::IDLE).then(|| {
            let found = self.tasks.find(pid);
            found.unwrap_or_else(|| self.tasks.add(pid, comm, caused_by_scheduler(name(comm))))
        });
        let here = &mut self.cpus[cpu.index()];
        (here.pid, here.seen) = (Some(pid), true);
        let arrival = match before.on {
            On::Unknown if !before.seen => {
                return self.ran_from_start(cpu, row);
            }
            // it has been there since events were lost
            On::Unknown => before.mark,
            On::Idle => self.begin_on_idle(before, row),
            On::Task(other) if self.tasks.list[other].is_hidden() => {
                self.count("switch away from a task that the recording hides, put in at its arrival", 1);
                self.unseen_from(cpu, before.mark);
                before.mark
            }
            On::Task(other) => {
                self.count("switch that is not in the recording: who left when is not known", 1);
                self.unseen_from(cpu, before.last_event);
                self.tasks.list[other].broken_stays += 1;
                self.now()
            }
        };
        match row {
            Some(row) => self.arrives(cpu, row, arrival),
            None => self.cpus[cpu.index()].on = On::Idle,
        }
    }

    /// The first event of this CPU tells who has been there since the beginning.
    fn ran_from_start(&mut self, cpu: CpuId, row: Option<usize>) {
        let Some(row) = row else {
            let here = &mut self.cpus[cpu.index()];
            (here.on, here.busy_from_start) = (On::Idle, false);
            return;
        };
        if self.tasks.list[row].at != At::Unseen || self.tasks.list[row].mark != Mark::default() {
            // it was seen elsewhere before: it came unseen
            self.count("switch that is not in the recording: who left when is not known", 1);
            self.cpus[cpu.index()].busy_from_start = false;
            return self.arrives(cpu, row, self.now());
        }
        let record = self.record(Kind::Switch, cpu, TaskId::IDLE, self.tasks.list[row].id);
        self.running_at_start.push(Record { time_ns: 0, ..record });
        self.tasks.list[row].at = At::Running { cpu };
        self.cpus[cpu.index()].on = On::Task(row);
    }

    /// When a task that is found on a CPU that was idle began to run there.
    fn begin_on_idle(&mut self, before: Cpu, row: Option<usize>) -> Mark {
        let Some(row) = row else { return self.now() };
        let task = &mut self.tasks.list[row];
        if before.left_runnable == Some(row) {
            // nobody goes idle while a task wants the CPU: a hidden task took it from this one, as a rule for
            // a short time
            self.seen.not_idle += 1;
            self.count(
                "runnable task that gave its CPU to a task that the recording hides; taken as back at once",
                1,
            );
            return before.mark;
        }
        if let At::Waiting { .. } = task.at {
            self.seen.not_idle += 1;
            self.count("switch from idle that is not in the recording, put in when the task was runnable", 1);
            return before.mark;
        }
        task.broken_stays += 1;
        self.count(
            "switch from idle that is not in the recording, put in when the task was first seen there",
            1,
        );
        self.now()
    }

    /// From `at` on nobody saw what this CPU did, nor the task on it, nor those on its queue.
    fn unseen_from(&mut self, cpu: CpuId, at: Mark) {
        let mut at = at.max(self.cpus[cpu.index()].mark);
        let ran = if let On::Task(row) = self.cpus[cpu.index()].on { Some(row) } else { None };
        at = ran.map_or(at, |row| at.max(self.tasks.list[row].mark));
        self.seen.unseen_spans += 1;
        let record = self.record(Kind::Note, cpu, TaskId::IDLE, TaskId::IDLE);
        let at = self.put(at, Record { arg: note::UNKNOWN_CPU, ..record });
        // (from the note on they may be anywhere, and not before)
        for (row, task) in self.tasks.list.iter_mut().enumerate() {
            let is_there = Some(row) == ran;
            if is_there || (task.at == (At::Waiting { cpu }) && task.mark <= at) {
                (task.at, task.mark) = (At::Unseen, at);
                task.woken_early &= !is_there;
            }
        }
        let here = &mut self.cpus[cpu.index()];
        (here.on, here.mark, here.busy_from_start) = (On::Unknown, at, false);
    }

    /// `row` began to run on this CPU at `at`, which may be past.
    fn arrives(&mut self, cpu: CpuId, row: usize, at: Mark) {
        let at = at.max(self.cpus[cpu.index()].mark);
        let at = self.runnable_by(row, cpu, at);
        let record = self.record(Kind::Switch, cpu, TaskId::IDLE, self.tasks.list[row].id);
        let at = self.put(at, record);
        let task = &mut self.tasks.list[row];
        (task.at, task.mark) = (At::Running { cpu }, at);
        task.arrivals += 1;
        let here = &mut self.cpus[cpu.index()];
        (here.on, here.mark, here.left_runnable) = (On::Task(row), at, None);
    }

    /// Sees to it that the task is runnable at `at`, on this CPU; what no event told of that is put in. Gives
    /// the time from which on it can run: `at`, or later.
    fn runnable_by(&mut self, row: usize, cpu: CpuId, at: Mark) -> Mark {
        let mut at = at.max(self.tasks.list[row].mark);
        if let At::Running { cpu: first } = self.tasks.list[row].at {
            self.count("task found on two CPUs at once; taken off the first at that one's last event", 1);
            let last = self.cpus[first.index()].last_event;
            self.unseen_from(first, last);
            let here = &mut self.cpus[first.index()];
            here.pid = None;
            here.seen = true;
            at = at.max(self.tasks.list[row].mark);
        }
        let id = self.tasks.list[row].id;
        match self.tasks.list[row].at {
            At::Blocked { woken_early: true } => {
                let mark = self.tasks.list[row].mark;
                let record = self.record(Kind::Wakeup, cpu, id, TaskId::IDLE);
                self.put(mark, Record { arg: cpu.0, ..record });
            }
            At::Blocked { woken_early: false } => {
                let reason = "blocked task that ran again without a wakeup in the recording: unknown from its block on";
                self.count(reason, 1);
                self.seen.unseen_spans += 1;
                let mark = self.tasks.list[row].mark;
                let record = self.record(Kind::Note, cpu, id, TaskId::IDLE);
                self.put(mark, Record { arg: note::UNKNOWN_TASK, ..record });
            }
            At::New => {
                let record = self.record(Kind::New, cpu, id, TaskId::IDLE);
                at = self.put(at, Record { arg: cpu.0, ..record });
            }
            At::Unseen | At::Waiting { .. } | At::Running { .. } => {}
        }
        at
    }

    fn see_prio(&mut self, cpu: CpuId, row: usize, prio: i32) {
        self.seen.prios += u64::from(prio != schedlab_trace::PRIO_UNKNOWN);
        if let Some(SchedParams { policy, nice, rt_priority, .. }) = self.tasks.list[row].see_prio(prio) {
            let record = self.record(Kind::Params, cpu, self.tasks.list[row].id, TaskId::IDLE);
            let value = u64::from(policy.number())
                | u64::from(nice.get() as i8 as u8) << 8
                | u64::from(rt_priority) << 16;
            self.push(Record { value, ..record });
        }
    }

    #[inline]
    fn switch<'n>(
        &mut self,
        cpu: CpuId,
        prev: SwitchSide,
        prev_state: TaskState,
        next: SwitchSide,
        name: impl Fn(CommId) -> &'n str,
    ) {
        self.seen.switches += 1;
        if prev.pid == next.pid {
            return self.count("switch of a task to itself, left out", 1);
        }
        self.strangers_leave(cpu);
        let on = self.cpus[cpu.index()].on;
        let prev_row = if let On::Task(row) = on { Some(row) } else { None };
        if let Some(row) = prev_row {
            self.see_prio(cpu, row, prev.prio);
        }
        let next_row = (next.pid != Pid::IDLE).then(|| match self.tasks.find(next.pid) {
            Some(row) => row,
            None => self.first_sight(cpu, next, caused_by_scheduler(name(next.comm))),
        });
        let mut state = PrevState::Preempted;
        if let Some(row) = prev_row {
            self.tasks.list[row].comm = prev.comm;
            self.tasks.list[row].seen_leaving = true;
            state = self.stop_of(row, prev_state);
        }
        if let Some(row) = next_row {
            let now = self.now();
            self.runnable_by(row, cpu, now);
        }
        let id = |row: Option<usize>, tasks: &Tasks| row.map_or(TaskId::IDLE, |row| tasks.list[row].id);
        let record = self.record(Kind::Switch, cpu, id(prev_row, &self.tasks), id(next_row, &self.tasks));
        self.push(Record { flags: state as u8, ..record });
        let mark = self.now();
        if let Some(row) = prev_row {
            self.left(cpu, row, state, mark);
        }
        let here = &mut self.cpus[cpu.index()];
        here.left_runnable = prev_row.filter(|_| next_row.is_none() && state.is_runnable());
        (here.pid, here.mark) = (Some(next.pid), mark);
        here.busy_from_start &= next_row.is_some();
        here.on = next_row.map_or(On::Idle, On::Task);
        if let Some(row) = next_row {
            let task = &mut self.tasks.list[row];
            (task.at, task.mark, task.comm) = (At::Running { cpu }, mark, next.comm);
            // what came while it waited for its CPU found it runnable
            task.woken_early = false;
            task.arrivals += 1;
            self.see_prio(cpu, row, next.prio);
        }
    }

    /// A task that nobody has seen is switched in.
    fn first_sight(&mut self, cpu: CpuId, next: SwitchSide, of_scheduler: bool) -> usize {
        let row = self.tasks.add(next.pid, next.comm, of_scheduler);
        // on a CPU that was busy since the beginning it can only have waited; elsewhere its wakeup is missing
        if self.cpus[cpu.index()].busy_from_start && self.seen.gaps == 0 {
            self.waits_from_start(row, cpu);
        }
        row
    }

    fn stop_of(&mut self, row: usize, state: TaskState) -> PrevState {
        let in_yield = std::mem::take(&mut self.tasks.list[row].in_yield);
        match state {
            TaskState::Running if in_yield => PrevState::Yielded,
            TaskState::Running | TaskState::RunningPreempted => PrevState::Preempted,
            TaskState::Unknown => {
                self.seen.unknown_stops += 1;
                PrevState::Unknown
            }
            TaskState::Uninterruptible | TaskState::Idle => PrevState::Disk,
            TaskState::Dead | TaskState::Zombie => PrevState::Dead,
            _ => PrevState::Sleeping,
        }
    }

    fn left(&mut self, cpu: CpuId, row: usize, state: PrevState, mark: Mark) {
        let task = &mut self.tasks.list[row];
        task.mark = mark;
        match state {
            PrevState::Preempted | PrevState::Yielded => task.at = At::Waiting { cpu },
            PrevState::Sleeping | PrevState::Disk => {
                task.at = At::Blocked { woken_early: std::mem::take(&mut task.woken_early) };
            }
            PrevState::Dead => self.tasks.forget(row),
            PrevState::Unknown => task.at = At::Unseen,
        }
    }

    /// `sched_waking`, or `sched_wakeup` in its place (`late`).
    fn waking<'n>(&mut self, event: &TraceEvent, wake: Wake, late: bool, name: impl Fn(CommId) -> &'n str) {
        let row = self.tasks.find(wake.pid);
        let row =
            row.unwrap_or_else(|| self.tasks.add(wake.pid, wake.comm, caused_by_scheduler(name(wake.comm))));
        let at = self.tasks.list[row].at;
        if at == At::New {
            return; // sched_wakeup_new is to come
        }
        let waker = match self.tasks.find(event.pid) {
            Some(waker) if event.pid != Pid::IDLE => self.tasks.list[waker].id,
            _ => TaskId::IDLE,
        };
        self.seen.unknown_context += u64::from(event.context == Context::Unknown);
        let is_interrupt = !matches!(event.context, Context::Task | Context::Unknown);
        let id = self.tasks.list[row].id;
        let record = self.record(Kind::Waking, event.cpu, id, waker);
        self.push(Record { flags: u8::from(is_interrupt), ..record });
        match at {
            At::Blocked { .. } | At::Unseen => {
                let record = self.record(Kind::Wakeup, event.cpu, id, TaskId::IDLE);
                self.push(Record { arg: wake.target_cpu.0, ..record });
                self.see_cpu(wake.target_cpu);
                let mark = self.now();
                let task = &mut self.tasks.list[row];
                (task.at, task.mark, task.comm) = (At::Waiting { cpu: wake.target_cpu }, mark, wake.comm);
                task.woken_early = false;
                self.see_prio(event.cpu, row, wake.prio);
            }
            // it has said that it will sleep, but has not left its CPU: perhaps it will not
            At::Running { .. } | At::Waiting { .. } if !late && event.pid != wake.pid => {
                self.tasks.list[row].woken_early = true;
            }
            _ => {}
        }
    }

    /// A CPU of which nothing is known yet, if it is named for the first time.
    fn see_cpu(&mut self, cpu: CpuId) {
        if cpu.index() >= self.cpus.len() && cpu.0 < CPUS_MAX {
            let unknown = Cpu {
                on: On::Unknown,
                pid: None,
                busy_from_start: true,
                seen: false,
                left_runnable: None,
                mark: Mark::default(),
                last_event: Mark::default(),
            };
            self.cpus.resize(cpu.index() + 1, unknown);
        }
    }

    /// `sched_wakeup`: where `sched_waking` was recorded it tells the CPU that was chosen, and that an early
    /// waking found its task awake.
    fn wakeup<'n>(&mut self, event: &TraceEvent, wake: Wake, name: impl Fn(CommId) -> &'n str) {
        let Some(row) = self.tasks.find(wake.pid) else { return self.waking(event, wake, true, name) };
        match self.tasks.list[row].at {
            At::Blocked { woken_early: true } => {
                let mark = self.tasks.list[row].mark;
                let record = self.record(Kind::Wakeup, event.cpu, self.tasks.list[row].id, TaskId::IDLE);
                self.put(mark, Record { arg: wake.target_cpu.0, ..record });
                self.see_cpu(wake.target_cpu);
                self.tasks.list[row].at = At::Waiting { cpu: wake.target_cpu };
                self.tasks.list[row].mark = self.now();
            }
            At::Blocked { .. } | At::Unseen => self.waking(event, wake, true, name),
            At::Waiting { cpu } if cpu != wake.target_cpu => {
                self.moved(event.cpu, wake.pid, cpu, wake.target_cpu);
            }
            At::Running { .. } => self.tasks.list[row].woken_early = false,
            _ => {}
        }
    }

    fn moved(&mut self, cpu: CpuId, pid: Pid, from: CpuId, to: CpuId) {
        let Some(row) = self.tasks.find(pid) else { return };
        if from == to || matches!(self.tasks.list[row].at, At::Running { .. } | At::New) {
            return;
        }
        self.see_cpu(to);
        let record = self.record(Kind::Migrate, cpu, self.tasks.list[row].id, TaskId(to.0));
        self.push(Record { arg: from.0, ..record });
        let mark = self.now();
        let task = &mut self.tasks.list[row];
        task.mark = mark;
        if let At::Waiting { cpu } = &mut task.at {
            *cpu = to;
        }
    }

    fn wakeup_new<'n>(&mut self, cpu: CpuId, wake: Wake, name: impl Fn(CommId) -> &'n str) {
        self.seen.births += 1;
        let row = self.tasks.find(wake.pid);
        let row =
            row.unwrap_or_else(|| self.tasks.add(wake.pid, wake.comm, caused_by_scheduler(name(wake.comm))));
        if !matches!(self.tasks.list[row].at, At::New | At::Unseen) {
            return;
        }
        let record = self.record(Kind::New, cpu, self.tasks.list[row].id, TaskId::IDLE);
        self.push(Record { arg: wake.target_cpu.0, ..record });
        self.see_cpu(wake.target_cpu);
        let mark = self.now();
        let task = &mut self.tasks.list[row];
        (task.at, task.mark) = (At::Waiting { cpu: wake.target_cpu }, mark);
        self.see_prio(cpu, row, wake.prio);
    }

    fn fork(&mut self, cpu: CpuId, parent: Pid, child: Pid, comm: CommId) {
        self.seen.births += 1;
        if let Some(old) = self.tasks.find(child) {
            self.count(
                "number of a living task given to a new one; the old one's end is not in the recording",
                1,
            );
            self.tasks.forget(old);
        }
        let Some(parent) = self.tasks.find(parent) else {
            return self.count("fork by a task that is not in the recording, left out", 1);
        };
        let parent = &self.tasks.list[parent];
        let (parent, params) = (parent.id, parent.params);
        let row = self.tasks.add(child, comm, false);
        let task = &mut self.tasks.list[row];
        (task.at, task.parent, task.forked) = (At::New, Some(parent), true);
        task.parent = task.parent.filter(|parent| parent.is_workload());
        (task.initial, task.params) = (params, params);
        let child = task.id;
        self.push(self.record(Kind::Fork, cpu, parent, child));
        self.tasks.list[row].mark = self.now();
    }

    /// Events of this CPU are missing between its last one and now.
    fn lost(&mut self, cpu: CpuId, count: Option<u64>) {
        self.seen.gaps += 1;
        match count {
            Some(count) => {
                self.seen.lost_events += count;
                self.count("event lost by the recording (buffer full)", count);
            }
            None => self.count("place where the recording lost events, their number unknown", 1),
        }
        self.unseen_from(cpu, self.cpus[cpu.index()].last_event);
        let now = self.now();
        let here = &mut self.cpus[cpu.index()];
        (here.on, here.pid, here.seen, here.busy_from_start) = (On::Unknown, None, true, false);
        here.mark = now;
    }
}
