//! What is done to a scheduler, and when? A plan: tasks in a start state, and steps at stated or drawn times.
//!
//! ```toml
//! name = "one queue too long"
//! cpus = 4
//! duration = "10s"
//! repeats = 5                    # seeds 1 to 5: other drawn times, other phases of the kernel's periodic work
//!
//! [[tasks]]
//! name = "hog"
//! counts = [8, 0, 0, 0]          # eight on CPU 0, bound there until a step releases them
//! class = "heavy"                # always wants the CPU; "light" wants `percent` of one
//!
//! [[steps]]
//! from = "1s"                    # drawn between the two; `at` states a time
//! to = "2s"
//! do = "release"
//! ```
//!
//! | `do` | what happens to the tasks of `tasks` (all, unless it is given) | with |
//! |---|---|---|
//! | `release` | they may go to every CPU, or to those of `cpus` | `cpus` |
//! | `bind` | each is bound to its CPU again, or to those of `counts` | `counts` |
//! | `arrange` | bound as `counts` says and released, at one instant | `counts` |
//! | `start` | those that were asleep from the beginning wake up | |
//! | `stop`, `continue` | heavy ones sleep, as soon as they have a CPU; they wake again | |
//! | `end` | heavy ones end, as soon as they have a CPU | |
//! | `exec` | heavy ones execute a new program, as soon as they have a CPU: the scheduler may choose another | |
//! | `set` | their nice value changes | `nice` |
//!
//! A step happens from outside, at one instant: no task of the workload does it ([`FileRequest::Change`]). Under real
//! Linux the kernel's first process does it, on the CPU with the most tasks, which does not fall idle by it.
//!
//! [`FileRequest::Change`]: schedlab_machine::kernel::FileRequest::Change

mod lower;

use schedlab_stdx::limits::read_toml;
use schedlab_units::{CpuSet, Nice, Span};
use schedlab_workload::generate::duration;
use serde::Deserialize;
use std::path::Path;

/// An experiment. See the module.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it is called.
    pub name: String,
    /// CPUs of the machine.
    pub cpus: u32,
    /// How long a run lasts.
    #[serde(deserialize_with = "duration::deserialize")]
    pub duration: Span,
    /// So many runs: seeds 1 to this.
    #[serde(default = "one")]
    pub repeats: u64,
    /// The tasks.
    pub tasks: Vec<Tasks>,
    /// What is done to them.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// Tasks that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tasks {
    /// Their name.
    pub name: String,
    /// How many on each CPU.
    pub counts: Vec<u32>,
    /// Whether they always want a CPU.
    #[serde(default)]
    pub class: Class,
    /// Light ones: what they want of a CPU.
    #[serde(default = "thirty")]
    pub percent: u32,
    /// Light ones: how long they run at a time, in the mean.
    #[serde(default = "ten_ms", deserialize_with = "duration::deserialize")]
    pub mean: Span,
    /// Light ones: every run and every sleep is as long as the others; else from half to one and a half times the mean.
    #[serde(default)]
    pub periodic: bool,
    /// Nice value.
    #[serde(default)]
    pub nice: i32,
    /// SCHED_FIFO or SCHED_RR instead of the normal policy.
    #[serde(default)]
    pub policy: PolicyWord,
    /// Priority under FIFO and RR, 1 to 99.
    #[serde(default = "one_u8")]
    pub priority: u8,
    /// Control group.
    #[serde(default)]
    pub group: Option<String>,
    /// Its cpu.weight.
    #[serde(default)]
    pub weight: Option<u32>,
    /// Asleep until a step `start`.
    #[serde(default)]
    pub asleep: bool,
}

/// How much CPU time a task wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// All that it gets.
    #[default]
    Heavy,
    /// A part of a CPU.
    Light,
}

/// A scheduling policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyWord {
    /// SCHED_NORMAL.
    #[default]
    Normal,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_RR.
    Rr,
}

/// Something that is done.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, from the start.
    #[serde(default, deserialize_with = "duration::deserialize_some")]
    pub at: Option<Span>,
    /// Drawn, from here on,
    #[serde(default, deserialize_with = "duration::deserialize_some")]
    pub from: Option<Span>,
    /// to here.
    #[serde(default, deserialize_with = "duration::deserialize_some")]
    pub to: Option<Span>,
    /// What.
    #[serde(rename = "do")]
    pub act: Act,
    /// To which tasks; all unless given.
    #[serde(default)]
    pub tasks: Option<String>,
    /// New counts per CPU.
    #[serde(default)]
    pub counts: Option<Vec<u32>>,
    /// CPUs that are allowed.
    #[serde(default, deserialize_with = "cpu_list")]
    pub cpus: Option<CpuSet>,
    /// New nice value.
    #[serde(default)]
    pub nice: Option<i32>,
}

/// What a step does; the module's table says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Act {
    Release,
    Bind,
    Arrange,
    Start,
    Stop,
    Continue,
    End,
    Exec,
    Set,
}

fn one() -> u64 {
    1
}
fn one_u8() -> u8 {
    1
}
fn thirty() -> u32 {
    30
}
fn ten_ms() -> Span {
    Span::from_ms(10)
}

fn cpu_list<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<CpuSet>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// A plan that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("{place}: cannot be read: {why}")]
    Read {
        /// The file.
        place: String,
        /// The system's reason.
        why: String,
    },
    /// Not the TOML of a plan.
    #[error("{place}: {why}; docs/harmony.md has an example")]
    Toml {
        /// The file.
        place: String,
        /// Line, value and expectation.
        why: String,
    },
    /// Values that do not fit together.
    #[error("{place}: {what}: {why}")]
    Value {
        /// The file.
        place: String,
        /// Which part of the plan.
        what: String,
        /// What is wrong, and what would be right.
        why: String,
    },
}

impl schedlab_lab::Fails for PlanError {
    fn kind(&self) -> schedlab_lab::FailureKind {
        schedlab_lab::FailureKind::Input
    }
}

/// More tasks than this, or more repeats, are a typing error.
const MANY: u64 = 10_000;

impl Plan {
    /// From a TOML file.
    ///
    /// # Errors
    /// It cannot be read, or is no plan.
    pub fn read(path: &Path) -> Result<Plan, PlanError> {
        let place = path.display().to_string();
        match read_toml(path) {
            Ok(text) => Plan::parse(&place, &text),
            Err(error) => Err(PlanError::Read { place, why: error.to_string() }),
        }
    }

    /// From the text of one; `place` is for messages.
    ///
    /// # Errors
    /// It is no plan.
    pub fn parse(place: &str, text: &str) -> Result<Plan, PlanError> {
        let toml = |error: toml::de::Error| PlanError::Toml { place: place.into(), why: error.to_string() };
        let plan: Plan = toml::from_str(text).map_err(toml)?;
        plan.check(place)?;
        Ok(plan)
    }

    fn check(&self, place: &str) -> Result<(), PlanError> {
        let wrong = |what: String, why: String| Err(PlanError::Value { place: place.to_string(), what, why });
        if self.cpus == 0 || self.cpus > schedlab_topology::CPUS_MAX {
            let most = schedlab_topology::CPUS_MAX;
            return wrong("cpus".into(), format!("{}: expected 1 to {most}", self.cpus));
        }
        if self.repeats == 0 || self.repeats > MANY {
            return wrong("repeats".into(), format!("{}: expected 1 to {MANY}", self.repeats));
        }
        if self.duration == Span::ZERO {
            return wrong("duration".into(), "0: a run lasts some time, for example \"10s\"".into());
        }
        let total: u64 =
            self.tasks.iter().flat_map(|tasks| &tasks.counts).map(|count| u64::from(*count)).sum();
        if total == 0 || total > MANY {
            return wrong("tasks".into(), format!("{total} in all: expected 1 to {MANY}"));
        }
        for tasks in &self.tasks {
            if let Err(why) = tasks.check(self.cpus) {
                return wrong(format!("tasks '{}'", tasks.name), why);
            }
        }
        for (number, step) in self.steps.iter().enumerate() {
            if let Err(why) = self.check_step(step) {
                return wrong(format!("step {}", number + 1), why);
            }
        }
        Ok(())
    }

    fn check_step(&self, step: &Step) -> Result<(), String> {
        let latest = match (step.at, step.from, step.to) {
            (Some(at), None, None) => at,
            (None, Some(from), Some(to)) if from <= to => to,
            _ => return Err("expected `at`, or `from` and a later `to`".into()),
        };
        if latest > self.duration {
            return Err(format!("at {latest}, after the run's end at {}", self.duration));
        }
        let concerned: Vec<&Tasks> = self.concerned(step).collect();
        if concerned.is_empty() {
            let known: Vec<&str> = self.tasks.iter().map(|tasks| tasks.name.as_str()).collect();
            let name = step.tasks.as_deref().unwrap_or_default();
            return Err(format!("there are no tasks '{name}'; there are {}", known.join(", ")));
        }
        let is_many = matches!(step.act, Act::Arrange);
        if is_many && step.counts.is_none() {
            return Err("`arrange` needs `counts`".into());
        }
        if let Some(counts) = &step.counts {
            let total = |counts: &[u32]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
            let has: u64 = concerned.iter().map(|tasks| total(&tasks.counts)).sum();
            let sum = total(counts);
            if sum != has || counts.len() > self.cpus as usize {
                let cpus = self.cpus;
                return Err(format!("counts {counts:?}: expected {has} tasks on the CPUs 0 to {}", cpus - 1));
            }
        }
        if let Some(cpu) = step.cpus.as_ref().and_then(|cpus| cpus.iter().find(|cpu| cpu.0 >= self.cpus)) {
            return Err(format!(
                "{cpu} is not there: the plan's machine has the CPUs 0 to {}",
                self.cpus - 1
            ));
        }
        if step.act == Act::Set && step.nice.is_none_or(|nice| Nice::new(nice).is_err()) {
            return Err("`set` needs `nice`, from -20 to 19".into());
        }
        let cuts = matches!(step.act, Act::Stop | Act::Continue | Act::End | Act::Exec);
        if let Some(light) = concerned.iter().find(|tasks| cuts && tasks.class == Class::Light) {
            return Err(format!(
                "'{}' are light: stop, continue, end and exec are for heavy tasks",
                light.name
            ));
        }
        if let Some(awake) = concerned.iter().find(|tasks| step.act == Act::Start && !tasks.asleep) {
            return Err(format!("'{}' are awake already: give them `asleep = true`", awake.name));
        }
        Ok(())
    }

    /// The tasks that a step is about.
    fn concerned<'a>(&'a self, step: &'a Step) -> impl Iterator<Item = &'a Tasks> {
        self.tasks.iter().filter(move |tasks| step.tasks.as_ref().is_none_or(|name| *name == tasks.name))
    }
}

impl Tasks {
    /// Heavy tasks of the normal policy.
    pub fn heavy(name: &str, counts: Vec<u32>) -> Tasks {
        Tasks {
            name: name.to_string(),
            counts,
            class: Class::Heavy,
            percent: thirty(),
            mean: ten_ms(),
            periodic: false,
            nice: 0,
            policy: PolicyWord::Normal,
            priority: 1,
            group: None,
            weight: None,
            asleep: false,
        }
    }

    fn check(&self, nr_cpus: u32) -> Result<(), String> {
        if self.counts.len() > nr_cpus as usize {
            let last = nr_cpus - 1;
            return Err(format!("counts {:?}: the plan's machine has the CPUs 0 to {last}", self.counts));
        }
        if Nice::new(self.nice).is_err() {
            return Err(format!("nice {}: expected -20 to 19", self.nice));
        }
        if self.policy != PolicyWord::Normal && !(1..=99).contains(&self.priority) {
            return Err(format!("priority {}: expected 1 to 99", self.priority));
        }
        if !(1..=99).contains(&self.percent) || self.mean < Span::from_us(10) {
            return Err(format!(
                "percent {}, mean {}: expected 1 to 99, and 10us or more",
                self.percent, self.mean
            ));
        }
        Ok(())
    }
}

impl Step {
    /// At a stated time.
    pub fn at(at: Span, act: Act) -> Step {
        Step { at: Some(at), from: None, to: None, act, tasks: None, counts: None, cpus: None, nice: None }
    }

    /// At a time drawn between two.
    pub fn drawn(from: Span, to: Span, act: Act) -> Step {
        Step { from: Some(from), to: Some(to), at: None, ..Step::at(from, act) }
    }

    /// With these counts.
    pub fn counts(self, counts: &[u32]) -> Step {
        Step { counts: Some(counts.to_vec()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "name = \"x\"\ncpus = 2\nduration = \"4s\"\n[[tasks]]\nname = \"hog\"\ncounts = [4, 0]\n";

    #[test]
    fn a_plan_reads_and_says_what_is_wrong() {
        let with = |more: &str| Plan::parse("p.toml", &format!("{GOOD}{more}"));
        let plan = with("[[steps]]\nfrom = \"1s\"\nto = \"2s\"\ndo = \"release\"\ncpus = \"0-1\"\n").unwrap();
        assert_eq!((plan.steps.len(), plan.steps[0].act, plan.repeats), (1, Act::Release, 1));
        for (more, word) in [
            ("[[steps]]\nat = \"1s\"\ndo = \"release\"\ncpus = \"2\"\n", "cpu2 is not there"),
            ("[[steps]]\nat = \"9s\"\ndo = \"release\"\n", "after the run's end"),
            ("[[steps]]\nfrom = \"1s\"\ndo = \"release\"\n", "`from`"),
            ("[[steps]]\nat = \"1s\"\ndo = \"release\"\ntasks = \"dog\"\n", "no tasks 'dog'"),
            ("[[steps]]\nat = \"1s\"\ndo = \"arrange\"\ncounts = [1, 1]\n", "expected 4 tasks"),
            ("[[steps]]\nat = \"1s\"\ndo = \"start\"\n", "asleep"),
            ("[[steps]]\nat = \"1s\"\ndo = \"set\"\nnice = 40\n", "-20 to 19"),
            ("[[steps]]\nat = \"1s\"\ndo = \"dance\"\n", "dance"),
            ("[[tasks]]\nname = \"y\"\ncounts = [0, 0, 1]\n", "CPUs 0 to 1"),
            ("colour = 1\n", "colour"),
        ] {
            let error = with(more).unwrap_err().to_string();
            assert!(error.starts_with("p.toml: ") && error.contains(word), "{more}: {error}");
        }
    }
}
