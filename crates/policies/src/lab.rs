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
use schedlab_log::{LogHeader, LogTask, MemLog, Observer, Record, Row, Run, Slots, Wait, WaitCause, replay};
use schedlab_machine::native::Native;
use schedlab_machine::{End, Machine, Outcome, Program, Setup};
use schedlab_stdx::Random;
use schedlab_topology::{CPUS_MAX, Topology};
use schedlab_units::{CpuId, CpuSet, DeadlineParams, Nice, SchedParams, SchedPolicy, Span, TaskId};
use schedlab_workload::build::Life;
use schedlab_workload::{Builder, ParamChange, Workload};

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
    /// It becomes runnable at `start_ms` and then each period, on time however late it is itself
    /// ([`Run`](Step::Run) steps only).
    pub period: Option<Span>,
    /// At this time its affinity is lifted, of all such tasks at once.
    pub release_ms: Option<u64>,
    /// Taken off each job's CPU time, so that a job that has exactly enough time ends before its deadline and
    /// not at it.
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
        TaskSpec::new(SchedParams { policy: SchedPolicy::Fifo, rt_priority, ..SchedParams::default() }, steps)
    }
    /// SCHED_RR.
    pub fn rr(rt_priority: u8, steps: &[Step]) -> TaskSpec {
        TaskSpec::new(
            SchedParams { policy: SchedPolicy::RoundRobin, rt_priority, ..SchedParams::default() },
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
        TaskSpec::new(
            SchedParams { policy: SchedPolicy::Deadline, deadline, ..SchedParams::default() },
            steps,
        )
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

/// As [`responsebench`], with each sleep so much longer than asked for: a kernel with high-resolution timers
/// adds the timer slack of 50 us and the cost of the wakeup.
pub fn responsebench_late(duration: Span, late: Span) -> Vec<TaskSpec> {
    let mut tasks = responsebench(duration);
    for step in tasks.iter_mut().flat_map(|task| &mut task.steps) {
        if let Step::Sleep(ms) = *step {
            *step = Step::SleepFor(Span::from_ms(ms) + late);
        }
    }
    tasks
}

/// As [`responsebench`], with sleeps as `usleep` makes them on a kernel of 1000 ticks per second: each is
/// longer than asked for by up to 2 ms. How much is drawn from `seed`. WARP says that this inaccuracy shows
/// in its figure 10.
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
    /// Per task: from each wakeup (or start; of a periodic task: from each release on the grid of its
    /// periods, though it was woken later, being late with the job before) to the following block or exit.
    pub responses: Vec<Vec<Span>>,
    /// Per task: times it started on another CPU than before.
    pub migrations: Vec<u64>,
    /// The scheduler's warnings.
    pub warnings: Vec<String>,
    runs: Vec<(usize, u64, u64, TaskId)>,
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
            warnings.append(&mut schedlab_machine::kernel::Kernel::read_out(machine.kernel()).warnings);
            outcome
        };
        if let End::Fault(fault) = &outcome.end {
            panic!("{} misbehaved: {fault}", self.sched);
        }
        Ok(Measured::read(records, outcome, warnings, self.topology.nr_cpus(), tasks))
    }

    /// Runs the tasks to their end and draws a line per CPU, a letter per unit (A = the first task, `.` =
    /// idle; the idle end is left out).
    ///
    /// # Panics
    /// If a switch does not fall on a whole unit, if the tasks do not end within `limit` units, or as
    /// [`run`](Lab::run).
    pub fn draw(&self, limit: u64, tasks: &[TaskSpec]) -> Vec<String> {
        let unit_ns = self.unit_ms * 1_000_000;
        let measured =
            self.run(Span::from_ns(limit * unit_ns), tasks).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(measured.outcome.end, End::AllDone, "the tasks end in time");
        let mut lines = vec![vec![b'.'; limit as usize]; self.topology.nr_cpus() as usize];
        for &(cpu, from_ns, to_ns, task) in measured.runs() {
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

    /// (CPU, from, to, task) of each uninterrupted run, in ns, in order of its end; those that the end cuts
    /// off in order of CPU.
    pub fn runs(&self) -> &[(usize, u64, u64, TaskId)] {
        &self.runs
    }

    fn read(
        records: Vec<Record>,
        outcome: Outcome,
        warnings: Vec<String>,
        nr_cpus: u32,
        tasks: &[TaskSpec],
    ) -> Measured {
        let nr_tasks = tasks.len();
        // one more: who lifts affinities
        let header = LogHeader {
            nr_cpus,
            duration: outcome.duration,
            tasks: vec![LogTask::default(); nr_tasks + 1],
            ..LogHeader::default()
        };
        let log = MemLog { header, records };
        let mut reader = Reader {
            tasks,
            now_ns: 0,
            open: vec![Open::default(); nr_tasks + 1],
            runs: Vec::new(),
            responses: vec![Vec::new(); nr_tasks],
            waits: vec![Vec::new(); nr_tasks],
            migrations: vec![0; nr_tasks + 1],
        };
        replay(&log, &Slots::new(&log.header), &mut reader).expect("a policy's log is consistent");
        let Reader { open, mut runs, responses, mut waits, mut migrations, .. } = reader;
        // waits that the end of the run cuts short count too: a starved task has waited
        for (waits, open) in waits.iter_mut().zip(&open).filter(|(_, open)| open.woken_ns.is_some()) {
            waits.push(Span::from_ns(open.waited_ns));
        }
        let cut_off = runs.iter().position(|run| run.stop.is_none()).unwrap_or(runs.len());
        runs[cut_off..].sort_by_key(|run| run.cpu);
        let runs = runs.iter().map(|run| (run.cpu.index(), run.since_ns, run.until_ns, TaskId(run.row.0)));
        let runs: Vec<(usize, u64, u64, TaskId)> = runs.collect();
        let mut cpu = vec![Span::ZERO; nr_tasks];
        for &(_, from_ns, to_ns, task) in runs.iter().filter(|run| run.3.index() < nr_tasks) {
            cpu[task.index()] += Span::from_ns(to_ns - from_ns);
        }
        migrations.truncate(nr_tasks);
        Measured { records: log.records, outcome, cpu, waits, responses, migrations, warnings, runs }
    }
}

/// A task's wakeup that has not led to a block yet.
#[derive(Clone, Copy, Default)]
struct Open {
    woken_ns: Option<u64>,
    /// What it has waited since.
    waited_ns: u64,
    cpu: Option<CpuId>,
}

/// Reads waits and responses off a run.
struct Reader<'a> {
    tasks: &'a [TaskSpec],
    now_ns: u64,
    open: Vec<Open>,
    runs: Vec<Run>,
    responses: Vec<Vec<Span>>,
    waits: Vec<Vec<Span>>,
    migrations: Vec<u64>,
}

impl Observer for Reader<'_> {
    fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
        self.now_ns = to_ns;
    }
    fn wait_begin(&mut self, row: Row, _cpu: CpuId, cause: WaitCause) {
        if cause != WaitCause::Preempted {
            let open = &mut self.open[row.index()];
            (open.woken_ns, open.waited_ns) = (Some(self.now_ns), 0);
        }
    }
    fn wait_end(&mut self, wait: &Wait) {
        self.open[wait.row.index()].waited_ns += wait.until_ns - wait.since_ns;
    }
    fn run_begin(&mut self, row: Row, cpu: CpuId) {
        let last = self.open[row.index()].cpu.replace(cpu);
        self.migrations[row.index()] += u64::from(last.is_some_and(|last| last != cpu));
    }
    fn run_end(&mut self, run: &Run) {
        let task = run.row.index();
        if run.stop.is_some() || run.since_ns < run.until_ns {
            self.runs.push(*run);
        }
        if task < self.tasks.len()
            && run.stop.is_some_and(|stop| !stop.is_runnable())
            && let Some(woken_ns) = self.open[task].woken_ns.take()
        {
            let released_ns = match self.tasks[task].period {
                Some(period) => {
                    self.tasks[task].start_ms * 1_000_000 + self.responses[task].len() as u64 * period.as_ns()
                }
                None => woken_ns,
            };
            self.responses[task].push(Span::from_ns(run.until_ns - released_ns));
            self.waits[task].push(Span::from_ns(self.open[task].waited_ns));
        }
    }
}

/// The tasks as a workload. A task of its own, which uses no CPU time (FIFO 99), lifts affinities.
pub fn workload(tasks: &[TaskSpec]) -> Workload {
    let mut builder = Builder::new();
    for (index, spec) in tasks.iter().enumerate() {
        let mut life = builder.task(format!("task{}", index + 1));
        if let Some(affinity) = &spec.affinity {
            life = life.affinity(affinity.clone());
        }
        match spec.period {
            Some(period) => jobs(life, spec, period),
            None => steps(life.start(Span::from_ms(spec.start_ms)), spec),
        }
    }
    let mut times: Vec<u64> = tasks.iter().filter_map(|spec| spec.release_ms).collect();
    times.sort_unstable();
    times.dedup();
    for (more, time_ms) in times.into_iter().enumerate() {
        let name = format!("task{}", tasks.len() + more + 1);
        let mut life = builder.task(name).fifo(99).blocked().sleep(Span::from_ms(time_ms));
        for (index, _) in tasks.iter().enumerate().filter(|(_, spec)| spec.release_ms == Some(time_ms)) {
            let (target, affinity) = (Some(TaskId(index as u32)), Some(CpuSet::first(CPUS_MAX)));
            life = life.set(ParamChange { target, affinity, ..ParamChange::default() });
        }
        life.exit();
    }
    let mut workload = builder.finish().expect("tasks of a test keep the rules");
    // a slice of one's own (sched_attr's runtime beside SCHED_NORMAL) is known to policies, not to a workload's rules
    workload.tasks.iter_mut().zip(tasks).for_each(|(task, spec)| task.params = Some(spec.params));
    workload
}

/// A job each period, from the task's start on; after the last it stays blocked.
fn jobs(life: Life<'_>, spec: &TaskSpec, period: Span) {
    let run = |step: &Step| match *step {
        Step::Run(ms) => Span::from_ms(ms),
        Step::RunFor(span) => span,
        _ => Span::ZERO,
    };
    let run: Span = spec.steps.iter().map(run).sum();
    let mut life = life.blocked();
    for job in 0..spec.times {
        let release = if job == 0 { Span::from_ms(spec.start_ms) } else { period };
        life = life.sleep_until(release).run(run.saturating_sub(spec.less)).block();
    }
}

fn steps(mut life: Life<'_>, spec: &TaskSpec) {
    for step in (0..spec.times).flat_map(|_| &spec.steps) {
        life = match *step {
            Step::Run(ms) => life.run(Span::from_ms(ms)),
            Step::RunFor(span) => life.run(span),
            Step::Yield => life.yields(),
            Step::Sleep(ms) => life.sleep(Span::from_ms(ms)),
            Step::SleepFor(span) => life.sleep(span),
        };
    }
    life.exit();
}
