//! Where do logs of any size and shape come from when there is no machine at hand? A tiny scheduler of our
//! own, for tests, benchmarks and examples of everything that reads logs.
//!
//! Like a parallel build: `make` forks `sh` tasks, which compute in short bursts with short sleeps in between
//! and exit; a few `daemon` tasks are woken by timers all the time; `hog` tasks never sleep; one kernel
//! thread per CPU now and then preempts. Round robin with a slice of 3 ms per CPU, wakeups go to the last CPU
//! or to an idle one, an idle CPU pulls. The same [`Config`] always gives the same log.
//!
//! ```
//! use schedlab_log::{Log, synthetic::Config};
//! let log = Config { nr_cpus: 2, ..Config::default() }.log();
//! assert_eq!(log.header.nr_cpus, 2);
//! assert!(log.records.len() > 1000);
//! ```

use crate::{KernelThread, Kind, LogHeader, LogTask, MemLog, PrevState, Record};
use schedlab_stdx::Random;
use schedlab_units::{Nice, SchedParams, Span, TaskId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What to make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of CPUs.
    pub nr_cpus: u32,
    /// Length of the log.
    pub duration: Span,
    /// Tasks that `make` keeps alive at once (as `make -j`).
    pub jobs: u32,
    /// Tasks that never sleep.
    pub hogs: u32,
    /// Tasks that wake up every few ms.
    pub daemons: u32,
    /// Seed of the random lengths.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config { nr_cpus: 4, duration: Span::from_ms(500), jobs: 6, hogs: 1, daemons: 3, seed: 1 }
    }
}

const SLICE_NS: u64 = 3_000_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The current task of a CPU has run as long as was planned (plan number, to recognise outdated events).
    RunEnds { cpu: u32, plan: u64 },
    /// A timer wakes a task.
    Wake { row: u32 },
}

struct Task {
    id: TaskId,
    role: Role,
    /// CPU time until it blocks, forks or exits.
    left_ns: u64,
    /// Bursts until it exits.
    bursts: u32,
    cpu: u32,
    parent: Option<u32>,
    awake: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Make,
    Job,
    Daemon,
    Hog,
    Kernel,
}

struct Cpu {
    current: Option<u32>,
    started_ns: u64,
    plan: u64,
    queue: VecDeque<u32>,
}

struct Scheduler<'a> {
    config: Config,
    now: u64,
    sequence: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    tasks: Vec<Task>,
    names: Vec<LogTask>,
    kernel_threads: Vec<KernelThread>,
    cpus: Vec<Cpu>,
    alive_jobs: u32,
    random: Random,
    emit: &'a mut dyn FnMut(&Record),
}

impl Config {
    /// The log, in memory.
    pub fn log(self) -> MemLog {
        let mut records = Vec::new();
        let header = self.generate(&mut |record| records.push(*record));
        MemLog { header, records }
    }

    /// Hands the records to `emit` one by one, in order, and returns the header, which is known at the end.
    pub fn generate(self, emit: &mut dyn FnMut(&Record)) -> LogHeader {
        let cpu = |_| Cpu { current: None, started_ns: 0, plan: 0, queue: VecDeque::new() };
        let mut scheduler = Scheduler {
            config: self,
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            tasks: Vec::new(),
            names: Vec::new(),
            kernel_threads: Vec::new(),
            cpus: (0..self.nr_cpus).map(cpu).collect(),
            alive_jobs: 0,
            random: Random::new(self.seed),
            emit,
        };
        scheduler.run();
        LogHeader {
            sched: "synthetic".to_string(),
            sched_version: "1".to_string(),
            nr_cpus: self.nr_cpus,
            hz: 0,
            duration: self.duration,
            tasks: scheduler.names,
            kernel_threads: scheduler.kernel_threads,
            params: vec![("seed".to_string(), self.seed.to_string())],
            ..LogHeader::default()
        }
    }
}

impl Scheduler<'_> {
    fn random(&mut self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    fn record(&mut self, kind: Kind, cpu: u32, task: TaskId, other: u32, flags: u8, arg: u32) {
        (self.emit)(&Record {
            time_ns: self.now,
            kind: kind as u8,
            flags,
            cpu: cpu as u16,
            task: task.0,
            other,
            arg,
            value: 0,
        });
    }

    fn at(&mut self, after_ns: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((self.now + after_ns, self.sequence, event)));
    }

    fn run(&mut self) {
        for cpu in 0..self.config.nr_cpus {
            let pid = 20 + cpu;
            self.kernel_threads.push(KernelThread { pid, name: format!("migration/{cpu}") });
            let row = self.add(TaskId::kernel_thread(pid), Role::Kernel, cpu, None);
            self.at(50_000_000 + 1_000_000 * u64::from(cpu), Event::Wake { row });
        }
        let roles = [(Role::Make, 1), (Role::Hog, self.config.hogs), (Role::Daemon, self.config.daemons)];
        for (role, count) in roles {
            for n in 0..count {
                let row = self.add_task(role, n % self.config.nr_cpus, None);
                self.arrive(0, row, Kind::New);
            }
        }
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            if time > self.config.duration.as_ns() {
                break;
            }
            self.now = time;
            match event {
                Event::RunEnds { cpu, plan } if self.cpus[cpu as usize].plan == plan => self.run_ends(cpu),
                Event::RunEnds { .. } => {}
                Event::Wake { row } => {
                    let cpu = self.tasks[row as usize].cpu;
                    self.wake(cpu, row, None);
                }
            }
        }
    }

    fn add(&mut self, id: TaskId, role: Role, cpu: u32, parent: Option<u32>) -> u32 {
        self.tasks.push(Task { id, role, left_ns: 0, bursts: 0, cpu, parent, awake: false });
        let row = self.tasks.len() as u32 - 1;
        self.plan_burst(row);
        row
    }

    fn add_task(&mut self, role: Role, cpu: u32, parent: Option<u32>) -> u32 {
        let id = TaskId(self.names.len() as u32);
        let row = self.add(id, role, cpu, parent);
        self.tasks[row as usize].bursts = 2 + self.random(20) as u32;
        let name = match role {
            Role::Make => "make",
            Role::Hog => "hog",
            Role::Daemon => "daemon",
            _ => ["cc1", "as", "sh", "ld", "collect2", "objtool"][self.random(6) as usize],
        };
        self.names.push(LogTask {
            pid: 1000 + id.0,
            name: name.to_string(),
            params: SchedParams::normal(Nice::new(if role == Role::Hog { 5 } else { 0 }).expect("in range")),
            affinity: None,
            parent: parent.map(|parent| self.tasks[parent as usize].id),
            group: None,
        });
        row
    }

    fn plan_burst(&mut self, row: u32) {
        let ns = match self.tasks[row as usize].role {
            Role::Make => 20_000 + self.random(200_000),
            Role::Job => {
                let magnitude = 15 + self.random(9);
                50_000 + self.random(1 << magnitude)
            }
            Role::Daemon => 5_000 + self.random(80_000),
            Role::Hog => u64::MAX / 4,
            Role::Kernel => 2_000 + self.random(5_000),
        };
        self.tasks[row as usize].left_ns = ns;
    }

    fn wake(&mut self, here: u32, row: u32, waker: Option<TaskId>) {
        let Task { id, awake, .. } = self.tasks[row as usize];
        if awake {
            return;
        }
        self.record(Kind::Waking, here, id, waker.unwrap_or(TaskId::IDLE).0, waker.is_none().into(), 0);
        self.arrive(here, row, Kind::Wakeup);
    }

    /// The task becomes runnable: on its last CPU if that is idle, else on an idle one, else on its last.
    fn arrive(&mut self, here: u32, row: u32, kind: Kind) {
        let Task { cpu: last, id, role, .. } = self.tasks[row as usize];
        let free = |cpu: &Cpu| cpu.current.is_none() && cpu.queue.is_empty();
        let to = if role == Role::Kernel || free(&self.cpus[last as usize]) {
            last
        } else {
            self.cpus.iter().position(free).map_or(last, |cpu| cpu as u32)
        };
        if to != last && kind == Kind::Wakeup {
            self.record(Kind::Migrate, here, id, to, 0, last);
        }
        (self.tasks[row as usize].cpu, self.tasks[row as usize].awake) = (to, true);
        self.record(kind, here, id, TaskId::IDLE.0, 0, to);
        let cpu = &mut self.cpus[to as usize];
        if role == Role::Kernel {
            cpu.queue.push_front(row);
        } else {
            cpu.queue.push_back(row);
        }
        match cpu.current {
            None => self.switch(to, PrevState::Preempted),
            Some(_) if role == Role::Kernel => self.stop(to, PrevState::Preempted),
            // its slice may be over later, since it was alone so far
            Some(_) if cpu.queue.len() == 1 => self.plan(to, SLICE_NS),
            Some(_) => {}
        }
    }

    /// Plans the end of the current task's run, at most `limit_ns` from now.
    fn plan(&mut self, cpu: u32, limit_ns: u64) {
        let state = &mut self.cpus[cpu as usize];
        state.plan += 1;
        let (plan, since) = (state.plan, self.now - state.started_ns);
        let row = state.current.expect("a task is current");
        let left = self.tasks[row as usize].left_ns - since;
        self.at(left.min(limit_ns), Event::RunEnds { cpu, plan });
    }

    fn run_ends(&mut self, cpu: u32) {
        let state = &self.cpus[cpu as usize];
        let row = state.current.expect("a task is current");
        let ran = self.now - state.started_ns;
        let Task { left_ns, role, id, parent, .. } = self.tasks[row as usize];
        if ran < left_ns {
            return self.stop(cpu, PrevState::Preempted);
        }
        let burst_over = &mut self.tasks[row as usize].bursts;
        *burst_over = burst_over.saturating_sub(1);
        let exits = role == Role::Job && *burst_over == 0;
        if role == Role::Make && self.alive_jobs < self.config.jobs {
            self.alive_jobs += 1;
            let child = self.add_task(Role::Job, cpu, Some(row));
            let child_id = self.tasks[child as usize].id;
            self.record(Kind::Fork, cpu, id, child_id.0, 0, 0);
            self.arrive(cpu, child, Kind::New);
        }
        if exits {
            self.alive_jobs -= 1;
            self.record(Kind::Exit, cpu, id, TaskId::IDLE.0, 0, 0);
            if let Some(parent) = parent {
                self.wake(cpu, parent, Some(id));
            }
            return self.stop(cpu, PrevState::Dead);
        }
        self.plan_burst(row);
        match role {
            // make sleeps until a child exits when it has enough of them
            Role::Make if self.alive_jobs == self.config.jobs => {}
            Role::Make => self.at(10_000, Event::Wake { row }),
            Role::Kernel => self.at(100_000_000, Event::Wake { row }),
            Role::Daemon => {
                let sleep = 1_000_000 + self.random(8_000_000);
                self.at(sleep, Event::Wake { row });
            }
            _ => {
                let sleep = 20_000 + self.random(2_000_000);
                self.at(sleep, Event::Wake { row });
            }
        }
        let disk = role == Role::Job && self.random(3) == 0;
        // the burst just planned is for the next run
        self.cpus[cpu as usize].started_ns = self.now;
        self.stop(cpu, if disk { PrevState::Disk } else { PrevState::Sleeping });
    }

    /// The current task leaves the CPU.
    fn stop(&mut self, cpu: u32, why: PrevState) {
        let state = &mut self.cpus[cpu as usize];
        let row = state.current.expect("a task is current");
        let ran = self.now - state.started_ns;
        self.tasks[row as usize].left_ns -= ran;
        self.tasks[row as usize].awake = why.is_runnable();
        if why.is_runnable() {
            state.queue.push_back(row);
        }
        self.switch(cpu, why);
    }

    /// The next task of the CPU's queue, or one pulled from another queue, or idle.
    fn switch(&mut self, cpu: u32, why: PrevState) {
        let prev = self.cpus[cpu as usize].current;
        let next = self.cpus[cpu as usize].queue.pop_front().or_else(|| self.pull(cpu));
        if prev == next && prev.is_some() {
            self.cpus[cpu as usize].started_ns = self.now;
            return self.plan(cpu, SLICE_NS);
        }
        let id = |row: Option<u32>, tasks: &[Task]| row.map_or(TaskId::IDLE, |row| tasks[row as usize].id);
        let (prev, next_id) = (id(prev, &self.tasks), id(next, &self.tasks));
        if prev == next_id {
            return;
        }
        self.record(Kind::Switch, cpu, prev, next_id.0, why as u8, 0);
        let state = &mut self.cpus[cpu as usize];
        (state.current, state.started_ns) = (next, self.now);
        if next.is_some() {
            self.plan(cpu, SLICE_NS);
        } else {
            state.plan += 1;
        }
    }

    fn pull(&mut self, cpu: u32) -> Option<u32> {
        let movable = |tasks: &[Task], row: u32| tasks[row as usize].role != Role::Kernel;
        let from = (0..self.cpus.len()).max_by_key(|from| (self.cpus[*from].queue.len(), Reverse(*from)))?;
        let at = self.cpus[from].queue.iter().position(|row| movable(&self.tasks, *row))?;
        let row = self.cpus[from].queue.remove(at)?;
        let id = self.tasks[row as usize].id;
        self.record(Kind::Migrate, cpu, id, cpu, 0, from as u32);
        self.tasks[row as usize].cpu = cpu;
        Some(row)
    }
}
