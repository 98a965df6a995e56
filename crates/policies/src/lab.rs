//! Small experiments with native schedulers: write down tasks, run them, read off who ran when, who waited how long.
//!
//! ```
//! use schedlab_policies::lab::{Lab, Step::*, TaskSpec};
//! let lab = Lab::new("linux-2.4", 1).unit_ms(10);
//! let drawn = lab.draw(30, &[TaskSpec::nice(0, &[Run(50), Sleep(30), Run(10)]), TaskSpec::nice(10, &[Run(60)])]);
//! assert_eq!(drawn, ["AAAAABBBABBB"]);
//! ```
//!
//! [`fairbench`] and [`responsebench`] are the two micro benchmarks of the WARP paper.

use crate::PolicyError;
use schedlab_log::{Kind, PrevState, Record};
use schedlab_machine::native::Native;
use schedlab_machine::{End, Machine, Outcome, Program, Setup};
use schedlab_stdx::Random;
use schedlab_topology::{CPUS_MAX, Topology};
use schedlab_units::{CpuSet, DeadlineParams, Nice, Policy, SchedParams, Span, TaskId};
use schedlab_workload::{
    Birth, Event, EventId, EventKind, ExternalSource, InitState, ParamChange, Task, Wakeup, Workload,
};

/// What a task does next, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Needs this much CPU time.
    Run(u64),
    /// Needs this much CPU time, not in whole ms.
    RunFor(Span),
    /// Sleeps this long.
    Sleep(u64),
    /// Sleeps this long, not in whole ms.
    SleepFor(Span),
    /// Gives up the CPU.
    Yield,
}

/// A task of an experiment.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Policy and priorities.
    pub params: SchedParams,
    /// Allowed CPUs; `None` = all.
    pub affinity: Option<CpuSet>,
    /// It sleeps this long before its first step; 0 = runnable at the start.
    pub start_ms: u64,
    /// Its life, repeated `times`.
    pub steps: Vec<Step>,
    /// How often.
    pub times: u64,
    /// It becomes runnable at `start_ms` and then each period, on time however late it is itself ([`Run`](Step::Run) steps only).
    pub period: Option<Span>,
    /// At this time its affinity is lifted, of all such tasks at once.
    pub release_ms: Option<u64>,
    /// Taken off each job's CPU time, so that a job that has exactly enough time ends before its deadline and not at it.
    pub less: Span,
}

impl TaskSpec {
    fn new(params: SchedParams, steps: &[Step]) -> TaskSpec {
        TaskSpec {
            params,
            affinity: None,
            start_ms: 0,
            steps: steps.to_vec(),
            times: 1,
            period: None,
            release_ms: None,
            less: Span::ZERO,
        }
    }
    /// SCHED_NORMAL.
    pub fn nice(nice: i32, steps: &[Step]) -> TaskSpec {
        TaskSpec::new(SchedParams::normal(Nice::new(nice).expect("-20..=19")), steps)
    }
    /// SCHED_FIFO.
    pub fn fifo(rt_priority: u8, steps: &[Step]) -> TaskSpec {
        TaskSpec::new(SchedParams { policy: Policy::Fifo, rt_priority, ..SchedParams::default() }, steps)
    }
    /// SCHED_RR.
    pub fn rr(rt_priority: u8, steps: &[Step]) -> TaskSpec {
        TaskSpec::new(
            SchedParams { policy: Policy::RoundRobin, rt_priority, ..SchedParams::default() },
            steps,
        )
    }
    /// SCHED_DEADLINE with these parameters in ms.
    pub fn deadline(runtime_ms: u64, deadline_ms: u64, period_ms: u64, steps: &[Step]) -> TaskSpec {
        let ms = Span::from_ms;
        TaskSpec::deadline_of(ms(runtime_ms), ms(deadline_ms), ms(period_ms), steps)
    }
    /// SCHED_DEADLINE with these parameters.
    pub fn deadline_of(runtime: Span, deadline: Span, period: Span, steps: &[Step]) -> TaskSpec {
        let deadline = Some(DeadlineParams { runtime, deadline, period });
        TaskSpec::new(SchedParams { policy: Policy::Deadline, deadline, ..SchedParams::default() }, steps)
    }
    /// Released each `period_ms`, `times` times; its deadline parameters stay what they are.
    pub fn periodic(mut self, period_ms: u64, times: u64) -> TaskSpec {
        (self.period, self.times, self.less) = (Some(Span::from_ms(period_ms)), times, Span::from_us(1));
        self
    }
    /// Jobs end exactly when their time is up.
    pub fn exact(mut self) -> TaskSpec {
        self.less = Span::ZERO;
        self
    }
    /// Only on these CPUs.
    pub fn on(mut self, cpus: &str) -> TaskSpec {
        self.affinity = Some(cpus.parse().expect("a list of CPUs"));
        self
    }
    /// Only on these CPUs until `release_ms`, then on all.
    pub fn bound(mut self, cpus: &str, release_ms: u64) -> TaskSpec {
        self.release_ms = Some(release_ms);
        self.on(cpus)
    }
    /// Sleeps this long first.
    pub fn from_ms(mut self, start_ms: u64) -> TaskSpec {
        self.start_ms = start_ms;
        self
    }
    /// All this so many times.
    pub fn repeat(mut self, times: u64) -> TaskSpec {
        self.times = times;
        self
    }
}

/// WARP's fairbench: 25 tasks that always want the CPU, five each at nice -20, -10, 0, 10 and 19, for this long.
pub fn fairbench(duration: Span) -> Vec<TaskSpec> {
    let enough = duration.as_ns() / 1_000_000 + 1000;
    let hog = |nice| TaskSpec::nice(nice, &[Step::Run(enough)]);
    [-20, -10, 0, 10, 19].into_iter().flat_map(|nice| (0..5).map(move |_| hog(nice))).collect()
}

/// WARP's responsebench: 25 tasks that run 5 ms and then sleep 5, 10, 20, 50 or 100 ms, five each, for this long.
pub fn responsebench(duration: Span) -> Vec<TaskSpec> {
    let ms = duration.as_ns() / 1_000_000;
    [5, 10, 20, 50, 100]
        .into_iter()
        .flat_map(|sleep| {
            let cycle = [Step::Run(5), Step::Sleep(sleep)];
            (0..5).map(move |_| TaskSpec::nice(0, &cycle).repeat(ms / (5 + sleep) + 1))
        })
        .collect()
}

/// As [`responsebench`], with each sleep so much longer than asked for: a kernel with high-resolution timers adds the timer slack of
/// 50 us and the cost of the wakeup.
pub fn responsebench_late(duration: Span, late: Span) -> Vec<TaskSpec> {
    let mut tasks = responsebench(duration);
    for step in tasks.iter_mut().flat_map(|task| &mut task.steps) {
        if let Step::Sleep(ms) = *step {
            *step = Step::SleepFor(Span::from_ms(ms) + late);
        }
    }
    tasks
}

/// As [`responsebench`], with sleeps as `usleep` makes them on a kernel of 1000 ticks per second: each is longer than asked for by up
/// to 2 ms. How much is drawn from `seed`. WARP says that this inaccuracy shows in its figure 10.
pub fn responsebench_usleep(duration: Span, seed: u64) -> Vec<TaskSpec> {
    let mut random = Random::new(seed);
    let mut tasks = responsebench(duration);
    for task in &mut tasks {
        let [Step::Run(run), Step::Sleep(sleep)] = task.steps[..] else { unreachable!("as made above") };
        task.steps = (0..std::mem::replace(&mut task.times, 1))
            .flat_map(|_| {
                let late = Span::from_us(random.next_u64() % 2000);
                [Step::Run(run), Step::SleepFor(Span::from_ms(sleep) + late)]
            })
            .collect();
    }
    tasks
}

/// A scheduler on a machine.
#[derive(Clone, Debug)]
pub struct Lab {
    sched: String,
    params: Vec<(String, String)>,
    topology: Topology,
    unit_ms: u64,
}

/// What was read off a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The log.
    pub records: Vec<Record>,
    /// How it went.
    pub outcome: Outcome,
    /// Per task: CPU time.
    pub cpu: Vec<Span>,
    /// Per task: the waits from wakeup (or preemption) to running, summed from each wakeup to the following block.
    pub waits: Vec<Vec<Span>>,
    /// Per task: from each wakeup (or start; of a periodic task: from each release on the grid of its periods, though it was woken
    /// later, being late with the job before) to the following block or exit.
    pub responses: Vec<Vec<Span>>,
    /// Per task: times it started on another CPU than before.
    pub migrations: Vec<u64>,
    /// The scheduler's warnings.
    pub warnings: Vec<String>,
}

impl Lab {
    /// This scheduler on so many equal CPUs.
    pub fn new(sched: &str, nr_cpus: u32) -> Lab {
        let topology = Topology::flat(nr_cpus).expect("1 to 1024 CPUs");
        Lab { sched: sched.to_string(), params: Vec::new(), topology, unit_ms: 1 }
    }
    /// Another machine.
    pub fn machine(mut self, topology: Topology) -> Lab {
        self.topology = topology;
        self
    }
    /// With this parameter.
    pub fn param(mut self, name: &str, value: &str) -> Lab {
        self.params.push((name.to_string(), value.to_string()));
        self
    }
    /// One letter of a drawing is so many ms.
    pub fn unit_ms(mut self, unit_ms: u64) -> Lab {
        self.unit_ms = unit_ms;
        self
    }

    /// Runs the tasks for `duration` at most.
    ///
    /// # Errors
    /// A parameter that the scheduler does not have, or that does not fit.
    ///
    /// # Panics
    /// If there is no such scheduler, or if it breaks its contract.
    pub fn run(&self, duration: Span, tasks: &[TaskSpec]) -> Result<Measured, PolicyError> {
        let info = crate::find(&self.sched).unwrap_or_else(|| panic!("no scheduler '{}'", self.sched));
        let policy = info.build(&self.params)?;
        let mut records: Vec<Record> = Vec::new();
        let setup = Setup { topology: self.topology.clone(), duration: Some(duration), params: Vec::new() };
        let program = Program::new(&workload(tasks)).expect("the experiment is consistent");
        let mut warnings = Vec::new();
        let outcome = {
            let mut machine = Machine::new(Native::new(policy, &mut records), program, setup);
            let outcome = machine.run();
            warnings.append(&mut schedlab_machine::kernel::Kernel::warnings(machine.kernel()));
            outcome
        };
        if let End::Fault(fault) = &outcome.end {
            panic!("{} misbehaved: {fault}", self.sched);
        }
        let nr_tasks = tasks.len();
        let mut out = Measured {
            cpu: vec![Span::ZERO; nr_tasks],
            waits: vec![Vec::new(); nr_tasks],
            responses: vec![Vec::new(); nr_tasks],
            migrations: vec![0; nr_tasks],
            records,
            outcome,
            warnings,
        };
        out.read(self.topology.nr_cpus(), tasks);
        Ok(out)
    }

    /// Runs the tasks to their end and draws a line per CPU, a letter per unit (A = the first task, `.` = idle; the idle end is left
    /// out).
    ///
    /// # Panics
    /// If a switch does not fall on a whole unit, if the tasks do not end within `limit` units, or as [`run`](Lab::run).
    pub fn draw(&self, limit: u64, tasks: &[TaskSpec]) -> Vec<String> {
        let unit_ns = self.unit_ms * 1_000_000;
        let measured =
            self.run(Span::from_ns(limit * unit_ns), tasks).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(measured.outcome.end, End::AllDone, "the tasks end in time");
        let mut lines = vec![vec![b'.'; limit as usize]; self.topology.nr_cpus() as usize];
        for (cpu, from_ns, to_ns, task) in measured.runs(self.topology.nr_cpus()) {
            if task.index() >= tasks.len() {
                continue; // who lifts affinities
            }
            assert!(
                from_ns % unit_ns == 0 && to_ns % unit_ns == 0,
                "{task} runs from {from_ns} to {to_ns} ns: not in whole units"
            );
            lines[cpu][(from_ns / unit_ns) as usize..(to_ns / unit_ns) as usize].fill(b'A' + task.0 as u8);
        }
        let text = |line: Vec<u8>| String::from_utf8_lossy(&line).trim_end_matches('.').to_string();
        lines.into_iter().map(text).collect()
    }
}

impl Measured {
    /// Longest wait of a task.
    pub fn worst_wait(&self, task: usize) -> Span {
        self.waits[task].iter().copied().max().unwrap_or(Span::ZERO)
    }
    /// Longest response of a task.
    pub fn worst_response(&self, task: usize) -> Span {
        self.responses[task].iter().copied().max().unwrap_or(Span::ZERO)
    }
    /// The share of the CPU time used that task `task` had.
    pub fn share(&self, task: usize) -> f64 {
        let total: Span = self.cpu.iter().copied().sum();
        self.cpu[task].as_ns() as f64 / total.as_ns().max(1) as f64
    }
    /// The shares of groups of `size` tasks, as they were given.
    pub fn group_shares(&self, size: usize) -> Vec<f64> {
        let shares: Vec<f64> = (0..self.cpu.len()).map(|task| self.share(task)).collect();
        shares.chunks(size).map(|group| group.iter().sum()).collect()
    }

    /// (CPU, from, to, task) of each uninterrupted run, in ns, in order of its end.
    pub fn runs(&self, nr_cpus: u32) -> Vec<(usize, u64, u64, TaskId)> {
        let mut current = vec![(0, TaskId::IDLE); nr_cpus as usize];
        let mut runs = Vec::new();
        let end_ns = self.outcome.duration.as_ns();
        for record in self.records.iter().filter(|record| record.kind() == Some(Kind::Switch)) {
            let cpu = record.cpu().index();
            let (since_ns, task) = std::mem::replace(&mut current[cpu], (record.time_ns, record.other()));
            if !task.is_idle() {
                runs.push((cpu, since_ns, record.time_ns, task));
            }
        }
        for (cpu, (since_ns, task)) in current.into_iter().enumerate() {
            if !task.is_idle() && since_ns < end_ns {
                runs.push((cpu, since_ns, end_ns, task));
            }
        }
        runs
    }

    fn read(&mut self, nr_cpus: u32, tasks: &[TaskSpec]) {
        let nr_tasks = self.cpu.len();
        for (_, from_ns, to_ns, task) in self.runs(nr_cpus) {
            if task.index() < nr_tasks {
                self.cpu[task.index()] += Span::from_ns(to_ns - from_ns);
            }
        }
        #[derive(Clone, Copy, Default)]
        struct Open {
            woken_ns: Option<u64>,
            queued_ns: Option<u64>,
            waited_ns: u64,
            cpu: Option<u16>,
        }
        let mut open = vec![Open::default(); nr_tasks];
        let known = |task: TaskId| task.is_workload() && task.index() < nr_tasks;
        for record in &self.records {
            match record.kind() {
                Some(Kind::Wakeup | Kind::New) if known(record.task()) => {
                    let state = &mut open[record.task().index()];
                    (state.woken_ns, state.queued_ns, state.waited_ns) =
                        (Some(record.time_ns), Some(record.time_ns), 0);
                }
                Some(Kind::Switch) => {
                    if known(record.task()) {
                        let task = record.task().index();
                        let state = &mut open[task];
                        if PrevState::from_number(record.flags).is_some_and(PrevState::is_runnable) {
                            state.queued_ns = Some(record.time_ns);
                        } else if let Some(woken_ns) = state.woken_ns.take() {
                            let released_ns = match tasks[task].period {
                                Some(period) => {
                                    tasks[task].start_ms * 1_000_000
                                        + self.responses[task].len() as u64 * period.as_ns()
                                }
                                None => woken_ns,
                            };
                            self.responses[task].push(Span::from_ns(record.time_ns - released_ns));
                            self.waits[task].push(Span::from_ns(state.waited_ns));
                        }
                    }
                    if known(record.other()) {
                        let task = record.other().index();
                        let state = &mut open[task];
                        if let Some(queued_ns) = state.queued_ns.take() {
                            state.waited_ns += record.time_ns - queued_ns;
                        }
                        if state.cpu.is_some_and(|cpu| cpu != record.cpu) {
                            self.migrations[task] += 1;
                        }
                        state.cpu = Some(record.cpu);
                    }
                }
                _ => {}
            }
        }
        // waits that the end of the run cuts short count too: a starved task has waited
        let end_ns = self.outcome.duration.as_ns();
        for (task, state) in open.iter().enumerate() {
            if state.woken_ns.is_some() {
                let waiting_ns = state.queued_ns.map_or(0, |queued_ns| end_ns.saturating_sub(queued_ns));
                self.waits[task].push(Span::from_ns(state.waited_ns + waiting_ns));
            }
        }
    }
}

/// The tasks as a workload. A task of its own, which uses no CPU time (FIFO 99), lifts affinities.
pub fn workload(tasks: &[TaskSpec]) -> Workload {
    let mut out = Workload::default();
    let eid = |task: usize, event: usize| EventId(((task as u64) << 32) + event as u64 + 1);
    for (index, spec) in tasks.iter().enumerate() {
        let mut events = Vec::new();
        let mut length = Span::ZERO;
        if let Some(period) = spec.period {
            let run = |step: &Step| match *step {
                Step::Run(ms) => Span::from_ms(ms),
                Step::RunFor(span) => span,
                _ => Span::ZERO,
            };
            let run: Span = spec.steps.iter().map(run).sum();
            for job in 0..spec.times {
                events.push(absolute(if job == 0 { Span::from_ms(spec.start_ms) } else { period }));
                events.push(EventKind::Block { length: run.saturating_sub(spec.less) });
            }
        } else {
            if spec.start_ms > 0 {
                events.push(timer(Span::from_ms(spec.start_ms)));
            }
            for step in (0..spec.times).flat_map(|_| &spec.steps) {
                match *step {
                    Step::Run(ms) => length += Span::from_ms(ms),
                    Step::RunFor(span) => length += span,
                    Step::Yield => events.push(EventKind::Yield { length }),
                    Step::Sleep(_) | Step::SleepFor(_) => {
                        let after = match *step {
                            Step::SleepFor(span) => span,
                            Step::Sleep(ms) => Span::from_ms(ms),
                            _ => Span::ZERO,
                        };
                        events.push(EventKind::Block { length: std::mem::take(&mut length) });
                        events.push(timer(after));
                    }
                }
            }
            events.push(EventKind::Exit { length });
        }
        let blocked = spec.start_ms > 0 || spec.period.is_some();
        out.tasks.push(task(index, spec, events, blocked, eid));
    }
    let mut times: Vec<u64> = tasks.iter().filter_map(|spec| spec.release_ms).collect();
    times.sort_unstable();
    times.dedup();
    for time_ms in times {
        let spec = TaskSpec::fifo(99, &[]);
        let mut events = vec![timer(Span::from_ms(time_ms))];
        for (index, _) in tasks.iter().enumerate().filter(|(_, spec)| spec.release_ms == Some(time_ms)) {
            let (target, affinity) = (Some(TaskId(index as u32)), Some(CpuSet::first(CPUS_MAX)));
            let change = ParamChange { target, affinity, ..ParamChange::default() };
            events.push(EventKind::Prio { length: Span::ZERO, change: Box::new(change) });
        }
        events.push(EventKind::Exit { length: Span::ZERO });
        out.tasks.push(task(out.tasks.len(), &spec, events, true, eid));
    }
    out
}

fn timer(after: Span) -> EventKind {
    EventKind::Wakeup(Wakeup::External { after, source: ExternalSource::Timer })
}

fn absolute(after: Span) -> EventKind {
    EventKind::Wakeup(Wakeup::External { after, source: ExternalSource::Absolute })
}

fn task(
    index: usize,
    spec: &TaskSpec,
    events: Vec<EventKind>,
    blocked: bool,
    eid: impl Fn(usize, usize) -> EventId,
) -> Task {
    let state = if blocked { InitState::Blocked } else { InitState::Runnable };
    Task {
        pid: index as u32 + 1,
        name: format!("task{}", index + 1),
        birth: Birth::Init { eid: EventId(0), parent: None, state },
        params: Some(spec.params),
        affinity: spec.affinity.clone(),
        cgroup: None,
        kernel_thread: false,
        events: events.into_iter().enumerate().map(|(i, kind)| Event { eid: eid(index, i), kind }).collect(),
    }
}
