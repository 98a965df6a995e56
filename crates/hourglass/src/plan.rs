//! What is each thread to do, when is it woken, and how is it scheduled?
//!
//! ```text
//! -d 20s -n 1 -t 0 -p RTHIGH -w PERIODIC 4ms 5ms -i RTC
//!     a thread of class FIFO 98 that computes 4 ms in each period of 5 ms, woken by the real-time clock's interrupt
//! ```

use crate::loads::Contention;
use schedlab_units::{CpuSet, Nice, SchedParams, SchedPolicy, Span};
use std::fmt;
use std::path::PathBuf;

/// More threads than these are refused: each has a stack, a buffer of locked memory, and a place in every table.
pub const THREADS_MAX: usize = 1000;

/// What a thread does, again and again until the run is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Model {
    /// Computes without an end.
    #[default]
    Cpu,
    /// Computes so long in each period, then blocks until the next one.
    Periodic {
        /// CPU time of a job.
        compute: Span,
        /// From release to release, and each job's deadline.
        period: Span,
    },
    /// As [`Model::Periodic`], but polls until the next period instead of blocking: a rendering loop.
    NonBlocking {
        /// CPU time of a job.
        compute: Span,
        /// From release to release.
        period: Span,
    },
    /// Sleeps, and notes how late it runs.
    Latency {
        /// From wakeup to wakeup.
        period: Span,
    },
    /// Reads and writes so much memory in a circle.
    Scan {
        /// Bytes.
        bytes: usize,
    },
    /// As [`Model::Periodic`], with releases at random that are at least a period apart.
    Sporadic {
        /// CPU time of a job.
        compute: Span,
        /// The least time between releases; the mean is twice that.
        period: Span,
    },
    /// Computes for a while of its own CPU time, sleeps for a while.
    OnOff {
        /// CPU time.
        on: Span,
        /// Sleep.
        off: Span,
    },
    /// A list of steps.
    Steps(Vec<ModelStep>),
    /// Steps that are done once; then the thread is done.
    Script {
        /// What to call it.
        name: String,
        /// What it does.
        steps: Vec<ModelStep>,
    },
}

/// A step of [`Model::Steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelStep {
    /// Compute.
    Run(Span),
    /// Sleep.
    Sleep(Span),
    /// `sched_yield`.
    Yield,
    /// The end of a job, then a sleep to the next time of a grid that begins with the run; that time is the
    /// job's deadline. Scripts only.
    Grid {
        /// From the grid's time before.
        after: Span,
        /// A time that has passed moves the grid: the next one counts from now.
        restarts: bool,
    },
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Model::Cpu => f.write_str("CPU"),
            Model::Periodic { compute, period } => write!(f, "PERIODIC {compute} {period}"),
            Model::NonBlocking { compute, period } => write!(f, "NONBLOCKING {compute} {period}"),
            Model::Latency { period } => write!(f, "LATENCY {period}"),
            Model::Scan { bytes } => write!(f, "SCAN {bytes}"),
            Model::Sporadic { compute, period } => write!(f, "SPORADIC {compute} {period}"),
            Model::OnOff { on, off } => write!(f, "ONOFF {on} {off}"),
            Model::Script { name, .. } => write!(f, "SCRIPT {name}"),
            Model::Steps(steps) => {
                f.write_str("STEPS ")?;
                for (place, step) in steps.iter().enumerate() {
                    let comma = if place > 0 { "," } else { "" };
                    match step {
                        ModelStep::Run(span) => write!(f, "{comma}run={span}")?,
                        ModelStep::Sleep(span) => write!(f, "{comma}sleep={span}")?,
                        ModelStep::Yield => write!(f, "{comma}yield")?,
                        ModelStep::Grid { after, .. } => write!(f, "{comma}grid={after}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl Model {
    /// The period of a model that has releases.
    pub fn period(&self) -> Option<Span> {
        match self {
            Model::Periodic { period, .. }
            | Model::NonBlocking { period, .. }
            | Model::Latency { period }
            | Model::Sporadic { period, .. } => Some(*period),
            _ => None,
        }
    }

    /// Whether it can keep a CPU for ever.
    pub fn never_blocks(&self) -> bool {
        match self {
            Model::Cpu | Model::NonBlocking { .. } | Model::Scan { .. } => true,
            Model::Periodic { compute, period } => compute >= period,
            Model::Steps(steps) => !steps.iter().any(|step| matches!(step, ModelStep::Sleep(_))),
            _ => false,
        }
    }
}

/// By what a sleeping thread is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Timer {
    /// `clock_nanosleep` for a length of time.
    Sleep = 0,
    /// `clock_nanosleep` until a time.
    #[default]
    Absolute = 1,
    /// A timer as a file.
    Timerfd = 2,
    /// `setitimer`: one for the whole process, so that one thread can have it.
    Itimer = 3,
    /// `timer_create`, by a signal to the thread.
    Posix = 4,
    /// The real-time clock's periodic interrupt, `/dev/rtc`, at a power of two per second.
    Rtc = 5,
    /// None: it polls until then.
    Busy = 6,
}

impl Timer {
    /// All, in the order of their numbers in a log.
    pub const ALL: [Timer; 7] =
        [Timer::Sleep, Timer::Absolute, Timer::Timerfd, Timer::Itimer, Timer::Posix, Timer::Rtc, Timer::Busy];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        ["SLEEP", "ABSOLUTE", "TIMERFD", "ITIMER", "POSIX", "RTC", "BUSY"][self as usize]
    }
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Policy, nice, priority.
    pub params: SchedParams,
}

impl Default for Class {
    fn default() -> Class {
        Class { params: SchedParams::normal(Nice::default()) }
    }
}

impl Class {
    /// A policy with a real-time priority.
    pub(crate) fn real_time(policy: SchedPolicy, rt_priority: u8) -> Class {
        Class { params: SchedParams { policy, rt_priority, ..SchedParams::default() } }
    }

    /// Whether threads of this class come before all others.
    pub fn is_real_time(self) -> bool {
        matches!(self.params.policy, SchedPolicy::Fifo | SchedPolicy::RoundRobin | SchedPolicy::Deadline)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params = &self.params;
        match (params.policy, params.deadline) {
            (SchedPolicy::Fifo | SchedPolicy::RoundRobin, _) => {
                write!(f, "{} {}", params.policy, params.rt_priority)
            }
            (_, Some(deadline)) => write!(f, "deadline {} in {}", deadline.runtime, deadline.period),
            _ => write!(f, "{} nice {}", params.policy, params.nice),
        }
    }
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadPlan {
    /// What it does.
    pub model: Model,
    /// By what it is woken.
    pub timer: Timer,
    /// How it is scheduled.
    pub class: Class,
    /// Where it may run; `None`: everywhere.
    pub cpus: Option<CpuSet>,
    /// The control group's folder that it enters.
    pub cgroup: Option<PathBuf>,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How long.
    pub duration: Span,
    /// Who.
    pub threads: Vec<ThreadPlan>,
    /// Shortest time missing that is a gap; `None`: found by calibration.
    pub threshold: Option<Span>,
    /// Entries in each thread's buffer; `None`: by the duration.
    pub entries: Option<usize>,
    /// Commands that run beside it.
    pub beside: Vec<String>,
    /// Loads that run beside it.
    pub loads: Vec<Contention>,
    /// Real-time threads may have all CPUs.
    pub all_cpus: bool,
    /// Of what is drawn at random.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            duration: Span::from_s(2),
            threads: vec![ThreadPlan::default()],
            threshold: None,
            entries: None,
            beside: Vec::new(),
            loads: Vec::new(),
            all_cpus: false,
            seed: 1,
        }
    }
}

/// A plan that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum PlanError {
    #[error("the duration is 0; give at least 10ms, e.g. -d 2s")]
    NoDuration,
    #[error("a run of {duration} is too long; at most 1h fits into a buffer of locked memory")]
    TooLong { duration: Span },
    #[error("{count} threads; expected 1 to {THREADS_MAX}")]
    ThreadCount { count: usize },
    #[error("thread {thread}: the period is 0; give a period of at least 10us")]
    NoPeriod { thread: usize },
    #[error("thread {thread}: {compute} of computing do not fit into a period of {period}; give C <= T")]
    TooMuch { thread: usize, compute: Span, period: Span },
    #[error("thread {thread}: CPU {cpu} does not exist; this machine has {nr_cpus}")]
    NoCpu { thread: usize, cpu: u32, nr_cpus: u32 },
    #[error(
        "thread {thread}: the kernel refuses SCHED_DEADLINE to a thread bound to some CPUs (EPERM); leave out -a"
    )]
    BoundDeadline { thread: usize },
    #[error(
        "threads {first} and {second} both use ITIMER, which a process has once; give one of them another timer"
    )]
    TwoItimers { first: usize, second: usize },
    #[error(
        "real-time threads that never block would hold all {nr_cpus} CPUs; leave one CPU, or say --all-cpus"
    )]
    AllCpus { nr_cpus: u32 },
    #[error("thread {thread}: a working set of {bytes} bytes; expected 4096 to 1 GiB")]
    WorkingSet { thread: usize, bytes: usize },
    #[error(
        "--load {load}: {program} is not installed; it is in the package {package}, or give a command with --beside"
    )]
    NoLoad { load: Contention, program: &'static str, package: &'static str },
    #[error("a step of no length, or no step, in thread {thread}; give e.g. STEPS run=2ms,sleep=3ms")]
    NoStep { thread: usize },
}

impl Plan {
    /// Refuses what cannot be, on a machine with so many CPUs.
    ///
    /// # Errors
    /// [`PlanError`]: the first thing wrong.
    pub fn check(&self, nr_cpus: u32) -> Result<(), PlanError> {
        if self.duration < Span::from_ms(10) {
            return Err(PlanError::NoDuration);
        }
        if self.duration > Span::from_s(3600) {
            return Err(PlanError::TooLong { duration: self.duration });
        }
        if self.threads.is_empty() || self.threads.len() > THREADS_MAX {
            return Err(PlanError::ThreadCount { count: self.threads.len() });
        }
        for (thread, plan) in self.threads.iter().enumerate() {
            check_thread(thread, plan, nr_cpus)?;
        }
        if let Some((load, lacks)) = self.loads.iter().find_map(|load| Some((*load, load.lacks()?))) {
            return Err(PlanError::NoLoad { load, program: lacks.0, package: lacks.1 });
        }
        let mut itimers = (0..self.threads.len()).filter(|t| self.threads[*t].timer == Timer::Itimer);
        if let (Some(first), Some(second)) = (itimers.next(), itimers.next()) {
            return Err(PlanError::TwoItimers { first, second });
        }
        let hogs = self.threads.iter().filter(|t| t.class.is_real_time() && t.model.never_blocks());
        // each such thread can hold one CPU; one of them that may go anywhere leaves the others free if there
        // are others
        if !self.all_cpus && hogs.count() >= nr_cpus as usize {
            return Err(PlanError::AllCpus { nr_cpus });
        }
        Ok(())
    }
}

fn check_thread(thread: usize, plan: &ThreadPlan, nr_cpus: u32) -> Result<(), PlanError> {
    match &plan.model {
        Model::Periodic { compute, period }
        | Model::NonBlocking { compute, period }
        | Model::Sporadic { compute, period }
            if *period > Span::ZERO && compute > period =>
        {
            return Err(PlanError::TooMuch { thread, compute: *compute, period: *period });
        }
        Model::Scan { bytes } if !(4096..=1 << 30).contains(bytes) => {
            return Err(PlanError::WorkingSet { thread, bytes: *bytes });
        }
        Model::OnOff { on, off } if on.as_ns() + off.as_ns() == 0 => {
            return Err(PlanError::NoStep { thread });
        }
        Model::Steps(steps) => {
            let all = steps.iter().map(|step| match step {
                ModelStep::Run(span) | ModelStep::Sleep(span) => span.as_ns(),
                ModelStep::Grid { after, .. } => after.as_ns(),
                ModelStep::Yield => 1,
            });
            if all.sum::<u64>() == 0 {
                return Err(PlanError::NoStep { thread });
            }
        }
        model if model.period().is_some_and(|period| period < Span::from_us(10)) => {
            return Err(PlanError::NoPeriod { thread });
        }
        _ => {}
    }
    if let Some(cpus) = &plan.cpus {
        if let Some(cpu) = cpus.iter().find(|cpu| cpu.0 >= nr_cpus) {
            return Err(PlanError::NoCpu { thread, cpu: cpu.0, nr_cpus });
        }
        if plan.class.params.policy == SchedPolicy::Deadline && cpus.len() < nr_cpus as usize {
            return Err(PlanError::BoundDeadline { thread });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn periodic(compute: u64, period: u64) -> Plan {
        let model = Model::Periodic { compute: Span::from_ms(compute), period: Span::from_ms(period) };
        Plan { threads: vec![ThreadPlan { model, ..ThreadPlan::default() }], ..Plan::default() }
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_sentence() {
        let mut hog = Plan::default();
        hog.threads[0].class = Class::real_time(SchedPolicy::Fifo, 98);
        let bound = Some(CpuSet::single(schedlab_units::CpuId(7)));
        let far =
            Plan { threads: vec![ThreadPlan { cpus: bound, ..ThreadPlan::default() }], ..Plan::default() };
        let many = Plan { threads: vec![ThreadPlan::default(); 1_000_000], ..Plan::default() };
        for (plan, words) in [
            (periodic(6, 5), "do not fit"),
            (periodic(0, 0), "the period is 0"),
            (Plan { duration: Span::ZERO, ..Plan::default() }, "duration is 0"),
            (hog, "would hold all 1 CPUs"),
            (far, "CPU 7 does not exist"),
            (many, "1000000 threads"),
        ] {
            let error = plan.check(1).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(periodic(4, 5).check(1), Ok(()));
    }
}
