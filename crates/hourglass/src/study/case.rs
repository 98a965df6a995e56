//! One drawn case: a scheduler with parameters, a load, what stands between the schedule and a poller, the truth.
//!
//! ```text
//!   seed 17    linux-6.12, 250 Hz, 4 CPUs, base slice 5.3 ms, two equal threads on each CPU, 130 noises a second
//!              truth: tick 4 ms, a turn 8 ms, a switch 1.9 us, ...
//! ```
//!
//! Parameters of the scheduler and of the view are truth as drawn. How long a turn is and how late a sleeper runs
//! is read off the whole schedule, which inference does not see.

use crate::infer::Question;
use crate::observe::View;
use crate::plan::{Model, ThreadPlan, Timer};
use schedlab_instruments::{Stay, stays};
use schedlab_lab::{Ended, Standard, Subject, run, run_here};
use schedlab_log::{Log, LogProblem, PrevState};
use schedlab_runner::{LinuxObject, RunRequest};
use schedlab_stdx::Random;
use schedlab_topology::Topology;
use schedlab_units::{Nice, SchedParams, SchedPolicy, Span};
use schedlab_workload::{Builder, Cgroup, CpuMax, Workload};
use std::collections::BTreeMap;

/// Who runs in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// A thread that computes on each CPU.
    Alone,
    /// Two equal threads that compute on each CPU.
    Equal,
    /// Two threads that compute on each CPU, the second nicer.
    Nicer,
    /// A thread that sleeps on each CPU.
    Sleepers,
    /// Two threads that compute on each CPU, in a group with a `cpu.max`.
    Throttled,
    /// A real-time thread that computes beside a normal one, on one CPU.
    RealTime,
}

impl Load {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Load::Alone => "a thread alone",
            Load::Equal => "two equal threads a CPU",
            Load::Nicer => "a thread and a nicer one a CPU",
            Load::Sleepers => "sleepers",
            Load::Throttled => "a group with cpu.max",
            Load::RealTime => "a real-time thread beside a normal one",
        }
    }
}

/// A drawn case.
#[derive(Clone, Debug)]
pub struct DrawnCase {
    /// Of what it was drawn.
    pub seed: u64,
    /// The scheduler's name.
    pub sched: String,
    /// Its parameters.
    pub params: Vec<(String, String)>,
    /// CPUs.
    pub cpus: u32,
    /// Who runs.
    pub load: Load,
    /// How much nicer the second thread is.
    pub nicer: i32,
    /// `cpu.max`, if there is one.
    pub max: Option<CpuMax>,
    /// Real-time tasks may run so long from pause to pause.
    pub rt_limit_ns: Option<u64>,
    /// Length in ms.
    pub duration_ms: u64,
    /// What stands between the schedule and a poller.
    pub view: View,
    subject: usize,
}

/// A case that was run.
pub(crate) struct Ran {
    /// What pollers saw.
    pub(crate) seen: schedlab_log::MemLog,
    pub(crate) truth: Truth,
}

/// What is true of a schedule besides its parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Truth {
    /// Median turn of a thread that has an equal beside it, and how many turns there were.
    pub(crate) turn_ns: Option<f64>,
    pub(crate) turns: u64,
    /// Ticks per second on a CPU, without those that ended a turn.
    pub(crate) inner_tick_hz: f64,
    /// Times that the first thread was held back with its group.
    pub(crate) pauses: u64,
    /// CPU time of the first thread by that of the second, where they are alone on a CPU.
    pub(crate) nice_share: Option<f64>,
    /// A real-time thread's mean time between two pauses.
    pub(crate) rt_limit_ns: Option<f64>,
}

/// Machines of a study: small ones are drawn more often, since they take less time.
const CPUS: [u32; 16] = [1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 16, 32, 64];
/// The cpu controller's periods that are common.
const PERIODS_MS: [u64; 4] = [20, 50, 100, 100];
/// Grids on which a timer may fire: a jiffy, a millisecond, powers of two of a second; 0 is none.
const GRAINS_NS: [f64; 8] = [0.0, 0.0, 0.0, 0.0, 1e6, 4e6, 1e9 / 1024.0, 1e9 / 256.0];

impl DrawnCase {
    /// Draws a case for one of these schedulers.
    pub(crate) fn draw(seed: u64, subjects: &[Subject]) -> DrawnCase {
        let mut random = Random::for_part(seed, 0x484f_5552);
        let subject = random.below(subjects.len() as u64) as usize;
        let linux = subjects[subject].linux();
        let loads: &[Load] = match linux {
            // native schedulers have neither cpu.max nor an RT limit: more of these here, or there are too few to judge
            Some(_) => &[
                Load::Alone,
                Load::Equal,
                Load::Equal,
                Load::Nicer,
                Load::Sleepers,
                Load::Throttled,
                Load::Throttled,
                Load::RealTime,
            ],
            None => &[Load::Alone, Load::Equal, Load::Equal, Load::Nicer, Load::Sleepers],
        };
        let load = *random.pick(loads);
        let hz = linux.map_or_else(|| *random.pick(&[100, 250, 300, 1000]), |object| object.hz);
        let mut case = DrawnCase {
            seed,
            sched: subjects[subject].scheduler.name().to_string(),
            params: subjects[subject].params.clone(),
            cpus: *random.pick(&CPUS),
            load,
            nicer: 1 + random.below(10) as i32,
            max: None,
            rt_limit_ns: None,
            duration_ms: 2000,
            view: view(&mut random, hz, load, seed),
            subject,
        };
        case.cpus = match (load, linux) {
            (Load::RealTime, _) => 1,
            (Load::Throttled, _) => case.cpus.min(2),
            // this one has a single queue for all CPUs
            (_, None) if case.sched == "rr" => 1,
            (_, Some(object)) => case.cpus.min(object.nr_cpus),
            _ => case.cpus,
        };
        let slice_us = 500 + random.below(12_000);
        match linux {
            Some(object) => case.tune_linux(object, slice_us, &mut random),
            None => case.tune_native(&subjects[subject], hz, slice_us),
        }
        case
    }

    fn set(&mut self, name: &str, value: impl std::fmt::Display) {
        self.params.push((name.to_string(), value.to_string()));
    }

    fn tune_native(&mut self, subject: &Subject, hz: u32, slice_us: u64) {
        let info = subject.info().expect("it is a native one");
        for param in info.params {
            match param.name {
                "hz" => self.set("hz", hz),
                "tick_phase" => self.set("tick_phase", "0ms"),
                "base_slice" | "quantum" => self.set(param.name, format!("{slice_us}us")),
                _ => {}
            }
        }
    }

    fn tune_linux(&mut self, object: &LinuxObject, slice_us: u64, random: &mut Random) {
        let mut numbers = object.version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version >= (6, 6) {
            self.set("base_slice_ns", slice_us * 1000);
        }
        match self.load {
            Load::Throttled => {
                let period = Span::from_ms(*random.pick(&PERIODS_MS));
                // a fifth to nine tenths of what its CPUs have
                let share = 0.2 + 0.7 * random.unit_f64();
                let all_ns = period.as_ns() as f64 * f64::from(self.cpus);
                let quota = Span::from_us((share * all_ns / 1000.0) as u64);
                self.max = Some(CpuMax { quota, period });
            }
            Load::RealTime => {
                let period_us = 200_000 + random.below(400_000);
                let pause_us = 8_000 + random.below(40_000);
                self.rt_limit_ns = Some((period_us - pause_us) * 1000);
                self.duration_ms = 4000;
                if version >= (6, 12) {
                    self.set("sched/fair_server/cpu0/period", period_us * 1000);
                    self.set("sched/fair_server/cpu0/runtime", pause_us * 1000);
                } else {
                    // a period is refused that is shorter than the running time
                    self.set("rt_runtime_us", period_us - pause_us);
                    self.set("rt_period_us", period_us);
                }
            }
            _ => {}
        }
    }

    /// What happens, and what each thread's plan is.
    fn workload(&self) -> (Workload, Vec<ThreadPlan>) {
        let mut workload = Builder::new();
        let mut random = Random::for_part(self.seed, 2);
        let mut plans = Vec::new();
        let group = self.max.map(|max| {
            workload.cgroup(Cgroup { path: "/study".into(), max: Some(max), ..Cgroup::default() })
        });
        let long = Span::from_ms(self.duration_ms * 2);
        for cpu in 0..self.cpus {
            let pair = if matches!(self.load, Load::Alone | Load::Sleepers) { 1 } else { 2 };
            for place in 0..pair {
                let mut life = workload.task(format!("poller{cpu}.{place}"));
                let mut plan = ThreadPlan { timer: Timer::Absolute, ..ThreadPlan::default() };
                if self.sched != "rr" {
                    life = life.cpu(cpu);
                }
                if let Some(group) = group {
                    life = life.cgroup(group);
                }
                if self.load == Load::Nicer && place == 1 {
                    life = life.nice(Nice::new(self.nicer).expect("1 to 10 is one"));
                }
                if self.load == Load::RealTime && place == 0 {
                    plan.class = crate::plan::Class::real_time(SchedPolicy::Fifo, 50);
                    life = life.params(SchedParams {
                        policy: SchedPolicy::Fifo,
                        rt_priority: 50,
                        ..SchedParams::default()
                    });
                }
                if self.load == Load::Sleepers {
                    plan.model = Model::Latency { period: Span::from_ms(5) };
                    let grain_ns = self.view.timer_grain_ns;
                    let step_ns = if grain_ns > 0.0 { grain_ns } else { 1.0 };
                    let mut at_ns = 0;
                    while at_ns < self.duration_ms * 1_000_000 {
                        // odd times, or the next time of the grid behind them
                        let wanted_ns = (at_ns + 2_000_000 + random.below(6_000_000)) as f64;
                        let next_ns = ((wanted_ns / step_ns).ceil() * step_ns) as u64;
                        life = life.run(Span::from_us(100)).sleep_until(Span::from_ns(next_ns - at_ns));
                        at_ns = next_ns;
                    }
                    life.exit();
                } else {
                    plan.model = Model::Cpu;
                    life.run(long).exit();
                }
                plans.push(plan);
            }
        }
        (workload.finish().expect("the case is a workload"), plans)
    }

    /// Runs it: what pollers see of it, and what is true.
    pub(crate) fn run(&self, subjects: &[Subject]) -> Result<Ran, Ended> {
        let (workload, plans) = self.workload();
        let topology = Topology::flat(self.cpus).expect("1 to 64 CPUs are a machine");
        let duration = Some(Span::from_ms(self.duration_ms));
        let subject = &subjects[self.subject];
        let read = |log: &dyn Log| -> Result<Ran, LogProblem> {
            let view = View { tick_phase_ns: tick_phase(log, self.view.tick_ns)?, ..self.view };
            Ok(Ran { seen: crate::observe::observe(log, &view, &plans)?, truth: self.truth_of(log, &view)? })
        };
        let internal = |problem: LogProblem| Ended::Internal(problem.to_string());
        match subject.info() {
            Some(info) => {
                let log = run_here(info, &self.params, (&workload, topology), duration, Standard::NoWarning)?;
                read(&log).map_err(internal)
            }
            None => {
                let request = RunRequest {
                    params: self.params.clone(),
                    duration,
                    ..RunRequest::new(&workload, &subject.scheduler, topology)
                };
                let finished = run(&request, Standard::NoWarning)?;
                read(&finished.log).map_err(internal)
            }
        }
    }

    fn truth_of(&self, log: &dyn Log, view: &View) -> Result<Truth, LogProblem> {
        let stays = stays(log)?;
        let is_ours = |stay: &&Stay| stay.task.is_workload();
        let preempted = |stay: &&Stay| stay.stop.is_some_and(PrevState::is_runnable);
        let whole: Vec<&Stay> = stays.iter().filter(is_ours).filter(preempted).collect();
        let mut turns: Vec<f64> = whole.iter().map(|stay| stay.ns() as f64).collect();
        turns.sort_by(f64::total_cmp);
        let on_cpu: u64 = stays.iter().filter(is_ours).map(Stay::ns).sum();
        let inner = |stay: &Stay| view.ticks_within(stay.start_ns, stay.end_ns);
        let inner_ticks: u64 = stays.iter().filter(is_ours).map(inner).sum();
        let held = schedlab_log::note::HELD_GROUP;
        let mut pauses = 0;
        schedlab_log::for_each(log, |_, record| -> Result<(), LogProblem> {
            let is_first = record.task().index() == 0;
            pauses += u64::from(is_first && record.arg == schedlab_log::note::HELD && record.value == held);
            Ok(())
        })?;
        Ok(Truth {
            turn_ns: turns.get(turns.len() / 2).copied(),
            turns: turns.len() as u64,
            inner_tick_hz: inner_ticks as f64 / (on_cpu as f64 / 1e9).max(1e-9),
            pauses,
            nice_share: (self.load == Load::Nicer && self.cpus == 1).then(|| {
                let ran = |task: usize| {
                    let own = stays.iter().filter(|stay| stay.task.index() == task && is_ours(stay));
                    own.map(Stay::ns).sum::<u64>() as f64
                };
                ran(0) / ran(1).max(1.0)
            }),
            rt_limit_ns: rt_limit(&stays),
        })
    }

    /// What the answer should be; `None`: this case has no truth for it.
    pub(crate) fn truth(&self, question: Question, of: &Truth) -> Option<f64> {
        let view = &self.view;
        let noise_ns = (view.noise_ns.0 + view.noise_ns.1) as f64 / 2.0;
        let computes = self.load != Load::Sleepers;
        match question {
            Question::Tick if computes => Some(view.tick_ns),
            Question::TickCost if computes => Some(view.tick_cost_ns as f64),
            Question::Slice if self.load == Load::Equal => of.turn_ns,
            Question::SwitchCost if computes && self.load != Load::Alone => Some(view.switch_ns as f64),
            Question::DispatchLatency if !computes && view.timer_grain_ns == 0.0 => {
                Some((view.switch_ns + view.wake_ns) as f64)
            }
            Question::TimerGrain if !computes && view.timer_grain_ns > 0.0 => Some(view.timer_grain_ns),
            Question::RtLimit if self.load == Load::RealTime => of.rt_limit_ns,
            Question::CpuMaxQuota => self.max.map(|max| max.quota.as_ns() as f64),
            Question::CpuMaxPeriod => self.max.map(|max| max.period.as_ns() as f64),
            Question::NiceShare => of.nice_share,
            Question::HiddenShare if computes && self.load != Load::RealTime => {
                // the tick that ends a turn is part of the switch
                let ticks = view.tick_cost_ns as f64 * of.inner_tick_hz;
                Some((ticks + view.noise_hz * noise_ns) / 1e9)
            }
            Question::InterruptRate if computes && self.load != Load::RealTime => Some(view.noise_hz),
            Question::InterruptCost if computes && self.load != Load::RealTime => Some(noise_ns),
            _ => None,
        }
    }
}

/// What stands between the schedule and a poller, drawn.
fn view(random: &mut Random, hz: u32, load: Load, seed: u64) -> View {
    let low = 1000 + random.below(3000);
    View {
        threshold_ns: 300,
        loop_ns: 14.0,
        // the machine's ticks are whole ns apart
        tick_ns: (1_000_000_000 / u64::from(hz)) as f64,
        tick_phase_ns: 0.0,
        tick_cost_ns: 1500 + random.below(4000),
        switch_ns: 800 + random.below(3000),
        wake_ns: 2000 + random.below(30_000),
        timer_grain_ns: if load == Load::Sleepers { *random.pick(&GRAINS_NS) } else { 0.0 },
        noise_hz: random.below(400) as f64,
        noise_ns: (low, low + 1 + random.below(8000)),
        jitter: 0.2 * random.unit_f64(),
        seed,
    }
}

/// When a schedule's ticks are, in ns behind a multiple of their period: they end most turns, and real Linux's clock
/// ticks as it did when the workload began. Where nobody is preempted, nothing depends on it.
fn tick_phase(log: &dyn Log, tick_ns: f64) -> Result<f64, LogProblem> {
    let mut phases: BTreeMap<u64, u64> = BTreeMap::new();
    for stay in stays(log)? {
        if stay.task.is_workload() && stay.stop.is_some_and(PrevState::is_runnable) {
            *phases.entry((stay.end_ns as f64 % tick_ns) as u64).or_default() += 1;
        }
    }
    let most = phases.into_iter().max_by_key(|(phase, times)| (*times, std::cmp::Reverse(*phase)));
    Ok(most.map_or(0.0, |(phase, _)| phase as f64))
}

/// Mean time of the first task between two pauses of 5 ms or more.
fn rt_limit(stays: &[Stay]) -> Option<f64> {
    let mut own: Vec<&Stay> = stays.iter().filter(|stay| stay.task.index() == 0).collect();
    own.sort_by_key(|stay| stay.start_ns);
    let pauses: Vec<(u64, u64)> = own
        .windows(2)
        .map(|two| (two[0].end_ns, two[1].start_ns))
        .filter(|(from, to)| to - from >= 5_000_000)
        .collect();
    let between: Vec<f64> = pauses.windows(2).map(|two| (two[1].0 - two[0].1) as f64).collect();
    (!between.is_empty()).then(|| between.iter().sum::<f64>() / between.len() as f64)
}
