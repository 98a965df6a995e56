//! What does a replay leave open, and how may it vary? One deterministic replay is one sample; a seed gives another.
//!
//! A workload says when a sleep ends and which tasks are there at the start, to the nanosecond. No real run
//! is that exact. A [`Perturb`] draws, from its seed, what differs between two real runs of the same program:
//!
//! | what | distribution | default | why |
//! |---|---|---|---|
//! | phase of the kernel's periodic work (ticks, RT period, balancing) against the workload's start, one for all CPUs | uniform over `phase` | 1 s | nobody starts a program on a tick; every period that divides 1 s gets a uniform phase |
//! | end of each sleep that a timer or a device ends: late by | uniform over 0..=`slack` | 50 us | the kernel's default timer slack; a timer may fire late, never early |
//! | start of each task that is there at the start: late by | uniform over 0..=`start` | 4 ms | they are not forked within one instant; a tick at HZ=250. The instants of its timers move with it |
//! | one timer interrupt in eight, on each CPU by itself: late by | uniform over 0..=`late` | 0 | it finds interrupts off, or a guest's CPU not running; which of two CPUs has its tick first decides what the other finds (`jiffies`, when a balancer's interval is over) |
//!
//! `at=TIME` sets the phase instead of drawing it. Timers of real-time tasks (FIFO, RR, DEADLINE) have no slack
//! in the kernel, and none here. Nor has the first timer of a task that begins asleep: its start is varied
//! already. A timer that is late does not move the next instant. CPU time is never touched. Draws belong to tasks
//! and their sleeps, not to simulated time: two schedulers under the same seed see the same workload, which is
//! what makes their difference small to measure.
//!
//! ```
//! use schedlab_machine::Perturb;
//! let all: Perturb = "7".parse().unwrap();
//! let jitter_only: Perturb = "7,phase=0,start=0".parse().unwrap();
//! assert_eq!(all.slack, jitter_only.slack);
//! assert_eq!(jitter_only.to_string(), "7,phase=0ns,start=0ns");
//! ```

use crate::kernel::SpawnState;
use crate::program::{Code, Program, Step};
use schedlab_stdx::Random;
use schedlab_units::{CpuId, Span, TaskId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How a replay is varied. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Perturb {
    /// Decides every draw.
    pub seed: u64,
    /// Range of the phase between the kernel's periodic work and the workload's start.
    pub phase: Span,
    /// This phase, instead of one that is drawn (to repeat that of a recording or of a guest).
    pub at: Option<Span>,
    /// Most by which a sleep is prolonged.
    pub slack: Span,
    /// Most by which a task's start is delayed.
    pub start: Span,
    /// Most by which one timer interrupt in [`LATE_ONE_IN`] is late, on each CPU by itself.
    pub late: Span,
}

impl Perturb {
    /// Everything at its default, with this seed.
    pub fn new(seed: u64) -> Perturb {
        Perturb {
            seed,
            phase: Span::from_s(1),
            at: None,
            slack: Span::from_ns(50_000),
            start: Span::from_ms(4),
            late: Span::ZERO,
        }
    }
}

/// Timers of a guest whose tasks have no timer slack are late by the interrupt's way through the kernel.
const GUEST_TIMER_LATE: Span = Span::from_us(10);
/// Ticks of a guest with several CPUs come up to 30 us late, of 2,400 on two CPUs.
const GUEST_TURN: Span = Span::from_us(30);

impl Perturb {
    /// As a guest's runs differ from each other: its tasks begin together and have no timer slack.
    pub fn of_guest(seed: u64) -> Perturb {
        Perturb { start: Span::ZERO, slack: GUEST_TIMER_LATE, ..Perturb::new(seed) }
    }

    /// The same on several CPUs, which take turns: one may wait for the others before it has its tick.
    #[must_use]
    pub fn with_turns_of(self, nr_cpus: u32) -> Perturb {
        Perturb { late: if nr_cpus > 1 { GUEST_TURN } else { Span::ZERO }, ..self }
    }
}

/// Longest range of each kind: far more than any kernel leaves open.
const RANGE_MAX: Span = Span::from_s(10);

/// A perturbation that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{part}' in the perturbation '{text}': {problem}; expected \
        SEED[,phase=TIME|,at=TIME][,slack=TIME][,start=TIME][,late=TIME], for example 7 or 7,slack=0"
)]
pub struct PerturbError {
    /// All of it.
    pub text: String,
    /// The part that is wrong.
    pub part: String,
    /// What is wrong.
    pub problem: String,
}

impl FromStr for Perturb {
    type Err = PerturbError;

    fn from_str(text: &str) -> Result<Perturb, PerturbError> {
        let fail =
            |part: &str, problem: String| PerturbError { text: text.into(), part: part.into(), problem };
        let mut parts = text.split(',').map(str::trim);
        let seed = parts.next().unwrap_or_default();
        let number = seed.parse().map_err(|_| fail(seed, "the seed is a whole number below 2^64".into()))?;
        let mut perturb = Perturb::new(number);
        for part in parts {
            let (key, value) =
                part.split_once('=').ok_or_else(|| fail(part, "a setting is KEY=TIME".into()))?;
            let span: Span = value.parse().map_err(|error| fail(part, format!("{error}")))?;
            if span > RANGE_MAX {
                return Err(fail(part, format!("more than {RANGE_MAX}")));
            }
            match key {
                "phase" => perturb.phase = span,
                "at" => perturb.at = Some(span),
                "slack" => perturb.slack = span,
                "start" => perturb.start = span,
                "late" => perturb.late = span,
                _ => return Err(fail(part, format!("there is no setting '{key}'"))),
            }
        }
        Ok(perturb)
    }
}

/// The seed, then what is not at its default.
impl fmt::Display for Perturb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Perturb::new(self.seed);
        write!(f, "{}", self.seed)?;
        if let Some(at) = self.at {
            write!(f, ",at={at}")?;
        }
        let settings = [
            ("phase", self.phase, default.phase),
            ("slack", self.slack, default.slack),
            ("start", self.start, default.start),
            ("late", self.late, default.late),
        ];
        settings
            .iter()
            .filter(|(_, value, default)| value != default)
            .try_for_each(|(key, value, _)| write!(f, ",{key}={value}"))
    }
}

/// One timer interrupt in so many is late: of a guest's two CPUs with simultaneous ticks, the second has its
/// own first in 279 of 2,429.
pub const LATE_ONE_IN: u64 = 8;

/// How late timer interrupts come.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct LateTimers {
    seed: u64,
    range_ns: u64,
}

impl LateTimers {
    /// When a timer that is set to `at_ns` interrupts this CPU: the same answer each time that it is asked.
    #[inline]
    pub fn of(&self, cpu: CpuId, at_ns: u64) -> u64 {
        if self.range_ns == 0 || at_ns == u64::MAX { at_ns } else { self.drawn(cpu, at_ns) }
    }

    /// Whether none is.
    pub(crate) fn is_none(&self) -> bool {
        self.range_ns == 0
    }

    #[cold]
    fn drawn(&self, cpu: CpuId, at_ns: u64) -> u64 {
        let part = at_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(cpu.0);
        let mut random = Random::for_part(self.seed, part);
        if random.below(LATE_ONE_IN) > 0 {
            at_ns
        } else {
            at_ns.saturating_add(random.below(self.range_ns + 1))
        }
    }
}

/// Uniform over `0..=range`, whole nanoseconds.
fn within(random: &mut Random, range: Span) -> u64 {
    random.below(range.as_ns() + 1)
}

impl Program {
    /// Varies the program as the perturbation says; `is_real_time` tells whose timers have no slack.
    pub fn perturb(&mut self, perturb: &Perturb, is_real_time: impl Fn(TaskId) -> bool) {
        // each draw has a stream of its own: part 0 is the machine, part 1 + i is task i
        let mut machine = Random::for_part(perturb.seed, 0);
        self.phase = match (perturb.at, perturb.phase) {
            (Some(at), _) => at,
            (None, Span::ZERO) => Span::ZERO,
            (None, range) => Span::from_ns(machine.below(range.as_ns())),
        };
        self.late = LateTimers { seed: perturb.seed, range_ns: perturb.late.as_ns() };
        let ends: Vec<usize> =
            self.tasks.iter().skip(1).map(|task| task.first_step).chain([self.steps.len()]).collect();
        let has_instants = self.steps.iter().any(|step| step.code().is_instant());
        self.late_by = vec![0; if has_instants { self.steps.len() } else { 0 }];
        for (index, (task, end)) in self.tasks.iter_mut().zip(ends).enumerate() {
            let mut random = Random::for_part(perturb.seed, 1 + index as u64);
            let start_ns = within(&mut random, perturb.start);
            if task.init == Some(SpawnState::Runnable) {
                task.start_after = Span::from_ns(start_ns);
            }
            let timer_slack = if is_real_time(TaskId(index as u32)) { Span::ZERO } else { perturb.slack };
            let mut first_sleep = task.init == Some(SpawnState::Blocked);
            for (at, step) in (task.first_step..).zip(&mut self.steps[task.first_step..end]) {
                let is_first = std::mem::take(&mut first_sleep);
                let offset_ns = if is_first { start_ns } else { 0 };
                let code = match step.code() {
                    Code::BlockTimer(ns) => {
                        let late_ns = within(&mut random, timer_slack);
                        Code::BlockTimer(ns.saturating_add(late_ns + offset_ns))
                    }
                    Code::BlockDevice(ns) => {
                        let late_ns = within(&mut random, perturb.slack);
                        Code::BlockDevice(ns.saturating_add(late_ns + offset_ns))
                    }
                    // the start moves all of a task's instants, the slack none of them: that wakes it late
                    instant if instant.is_instant() => {
                        let late_ns = within(&mut random, timer_slack);
                        self.late_by[at] = if is_first { 0 } else { late_ns };
                        instant.later_by(offset_ns)
                    }
                    _ => continue,
                };
                *step = Step::new(step.after_ns, code);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawn::Life::{Run, Sleep};
    use crate::drawn::workload;

    fn program() -> Program {
        let life: Vec<_> = (0..500).flat_map(|_| [Run(1), Sleep(2)]).collect();
        Program::new(&workload(&[&life, &life, &[Run(5)]])).unwrap()
    }

    fn sleeps(program: &Program, task: usize) -> Vec<u64> {
        let end = program.tasks.get(task + 1).map_or(program.steps.len(), |next| next.first_step);
        let steps = &program.steps[program.tasks[task].first_step..end];
        let sleep = |step: &Step| match step.code() {
            Code::BlockTimer(ns) => Some(ns),
            _ => None,
        };
        steps.iter().filter_map(sleep).collect()
    }

    /// Sleeps are late by 0 to 50 us, 25 us in the mean: of 500 uniform draws the mean has a standard deviation of
    /// 50 / sqrt(12 * 500) = 0.645 us; five of them.
    #[test]
    fn draws_follow_the_stated_distributions() {
        let mut varied = program();
        varied.perturb(&Perturb::new(1), |task| task == TaskId(1));
        let late: Vec<u64> = sleeps(&varied, 0).iter().map(|ns| ns - 2_000_000).collect();
        assert_eq!(late.len(), 500);
        assert!(late.iter().all(|ns| *ns <= 50_000));
        let mean = late.iter().sum::<u64>() as f64 / 500.0;
        assert!((mean - 25_000.0).abs() < 5.0 * 645.0, "{mean}");
        assert_eq!(sleeps(&varied, 1), [2_000_000; 500], "a real-time task's timers have no slack");
        assert!(varied.phase < Span::from_s(1) && varied.phase > Span::ZERO);
        assert!(varied.tasks.iter().all(|task| task.start_after <= Span::from_ms(4)));
        // the mean phase over seeds is half a second: 1000 draws, standard deviation 9.1 ms; five of them
        let phase = |seed| {
            let mut program = Program::new(&workload(&[&[Run(1)]])).unwrap();
            program.perturb(&Perturb::new(seed), |_| false);
            program.phase.as_ns() as f64 * 1e-6
        };
        let mean_ms = (0..1000).map(phase).sum::<f64>() / 1000.0;
        assert!((mean_ms - 500.0).abs() < 46.0, "{mean_ms}");
    }

    #[test]
    fn a_seed_repeats_and_cpu_time_stays() {
        let varied = |seed| {
            let mut program = program();
            program.perturb(&Perturb::new(seed), |_| false);
            program
        };
        assert_eq!(varied(3).steps, varied(3).steps);
        assert_ne!(varied(3).steps, varied(4).steps);
        let cpu = |program: &Program| program.steps.iter().map(|step| step.after_ns).sum::<u64>();
        assert_eq!(cpu(&varied(3)), cpu(&program()));
        // another task's sleeps have no say in a task's draws
        let mut alone = Program::new(&workload(&[&[Run(1), Sleep(2)]])).unwrap();
        alone.perturb(&Perturb::new(3), |_| false);
        assert_eq!(sleeps(&alone, 0)[0], sleeps(&varied(3), 0)[0]);
    }

    /// One in eight of 8,000: 1,000, with a standard deviation of sqrt(8000 * 7 / 64) = 29.6; five of them.
    /// Those are uniform over 0 to 50 us: mean 25 us, of 1,000 draws with a standard deviation of 50 /
    /// sqrt(12 * 1000) = 0.456 us.
    #[test]
    fn some_timers_are_late_each_by_itself() {
        let mut varied = program();
        varied.perturb(&"1,late=50us".parse().unwrap(), |_| false);
        let late_ns = |cpu, tick: u64| varied.late.of(CpuId(cpu), tick * 4_000_000) - tick * 4_000_000;
        let late: Vec<u64> = (1..=8000).map(|tick| late_ns(0, tick)).filter(|ns| *ns > 0).collect();
        assert!((852..=1148).contains(&late.len()), "{}", late.len());
        assert!(late.iter().all(|ns| *ns <= 50_000));
        let mean_ns = late.iter().sum::<u64>() as f64 / late.len() as f64;
        assert!((mean_ns - 25_000.0).abs() < 5.0 * 456.0, "{mean_ns}");
        // with CPU 1 both are late one time in 64: 125 of 8,000, standard deviation 11
        let both = (1..=8000).filter(|tick| late_ns(0, *tick) > 0 && late_ns(1, *tick) > 0).count();
        assert!((70..=180).contains(&both), "{both}");
        assert_eq!(varied.late.of(CpuId(0), u64::MAX), u64::MAX, "a timer that is off stays off");
        assert!((1..=8000).all(|tick| program().late.of(CpuId(0), tick) == tick), "nobody asked");
    }

    #[test]
    fn nothing_is_varied_by_ranges_of_zero() {
        let mut same = program();
        same.perturb(&"9,phase=0,slack=0,start=0".parse().unwrap(), |_| false);
        assert_eq!(same.steps, program().steps);
        assert!(same.phase == Span::ZERO && same.tasks.iter().all(|task| task.start_after == Span::ZERO));
    }

    #[test]
    fn the_text_form_reads_back_and_says_what_is_wrong() {
        for text in [
            "7",
            "7,slack=0ns",
            "7,late=50us",
            "0,at=3ms,start=0ns",
            "18446744073709551615,phase=4ms,slack=1us,start=0ns",
        ] {
            assert_eq!(text.parse::<Perturb>().unwrap().to_string(), text);
        }
        for (text, word) in [
            ("", "seed"),
            ("x", "seed"),
            ("-1", "seed"),
            ("7,jitter=1", "jitter"),
            ("7,slack", "KEY=TIME"),
            ("7,slack=soon", "soon"),
            ("7,start=1h", "10s"),
        ] {
            let error = text.parse::<Perturb>().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
