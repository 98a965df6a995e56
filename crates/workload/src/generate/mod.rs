//! Which workload shall it be, if not a recorded one? Each kind is a struct of parameters with documented
//! defaults, and a TOML file.
//!
//! ```
//! let workload = schedlab_workload::generate::from_toml("spec.toml", r#"
//!     kind = "sleepers"
//!     tasks = 8
//!     run = "4ms"
//!     sleep = "6ms"
//!     duration = "1s"
//! "#)?;
//! assert_eq!(workload.tasks.len(), 8);
//! assert_eq!(workload.tasks[0].cpu_demand(), "400ms".parse()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Missing fields have their defaults, so that `kind = "fairbench"` alone is WARP's; unknown ones are refused
//! where they stand. What is random comes from `seed` alone: the same parameters give the same workload, on
//! every machine. The parameters are kept in the workload as the note `generate`.

mod arrivals;
mod distribution;
mod docs;
pub mod duration;
mod fixed_sum;
mod hackbench;
mod loops;
mod periodic;
mod random;
mod rng;
mod server;
mod start;
mod start_state;
mod storms;

pub use arrivals::Arrivals;
pub use distribution::{Distribution, Drawn, Quantile};
pub use fixed_sum::rand_fixed_sum;
pub use hackbench::Hackbench;
pub use loops::{Fairbench, Hogs, Responsebench, Sleepers};
pub use periodic::{Method, Periodic, PeriodicPolicy, uunifast};
pub use random::Random;
pub use rng::Rng;
pub use server::{Server, ServerMode};
pub use start::Start;
pub use start_state::StartState;
pub use storms::{Execstorm, Forkstorm};

use crate::Workload;
use crate::limits::{Exceeded, TIME_MAX};
use crate::{Builder, WorkloadBuildError};
use schedlab_units::{Nice, Span};
use serde::{Deserialize, Serialize};

/// A workload that cannot be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// The TOML has a mistake; the message has line, column, the line itself and a caret.
    #[error("{file}: {message}")]
    Toml {
        /// File name as the caller gave it.
        file: String,
        /// The mistake.
        message: String,
        /// Where it is in the text, in bytes.
        place: Option<std::ops::Range<usize>>,
    },
    /// No such generator.
    #[error("{file}: kind {kind:?} is not known; expected {}", KINDS.map(|(name, _)| name).join(", "))]
    Kind {
        /// File name as the caller gave it.
        file: String,
        /// As given; empty if missing.
        kind: String,
    },
    /// A parameter that makes no sense.
    #[error("{name} = {value}; expected {expected}")]
    Parameter {
        /// Which.
        name: &'static str,
        /// As given.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Too much.
    #[error("{0}: shorten the duration, take fewer tasks, or generate parts and mix them")]
    TooLarge(#[from] Exceeded),
}

/// Names of the generators, and what each makes.
pub const KINDS: [(&str, &str); 12] = [
    ("fairbench", "hogs at several nice values (WARP V.D)"),
    ("responsebench", "tasks that run and sleep, of several lengths of sleep (WARP V.D)"),
    ("hogs", "tasks that only compute, with given nice values"),
    ("sleepers", "equal tasks that run and sleep"),
    ("start", "hogs bound to stated CPUs, released at one instant (Harmony)"),
    ("hackbench", "groups of senders and receivers that wake each other"),
    ("server", "message threads that hand requests to workers (after schbench)"),
    ("forkstorm", "parents that fork short children as fast as they can"),
    ("execstorm", "shells that run one short command after the other"),
    ("periodic", "a random real-time set of given utilisation (UUniFast, RandFixedSum)"),
    ("arrivals", "tasks that come at random, work and end"),
    ("random", "tasks that run and sleep by chance"),
];

/// A generator with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Spec {
    /// See [`Fairbench`].
    Fairbench(Fairbench),
    /// See [`Responsebench`].
    Responsebench(Responsebench),
    /// See [`Hogs`].
    Hogs(Hogs),
    /// See [`Sleepers`].
    Sleepers(Sleepers),
    /// See [`Start`].
    Start(Start),
    /// See [`Hackbench`].
    Hackbench(Hackbench),
    /// See [`Server`].
    Server(Server),
    /// See [`Forkstorm`].
    Forkstorm(Forkstorm),
    /// See [`Execstorm`].
    Execstorm(Execstorm),
    /// See [`Periodic`].
    Periodic(Periodic),
    /// See [`Arrivals`].
    Arrivals(Arrivals),
    /// See [`Random`].
    Random(Random),
}

impl Spec {
    /// The generator of this name, with its defaults.
    pub fn of_kind(kind: &str) -> Option<Spec> {
        Some(match kind {
            "fairbench" => Spec::Fairbench(Fairbench::default()),
            "responsebench" => Spec::Responsebench(Responsebench::default()),
            "hogs" => Spec::Hogs(Hogs::default()),
            "sleepers" => Spec::Sleepers(Sleepers::default()),
            "start" => Spec::Start(Start::default()),
            "hackbench" => Spec::Hackbench(Hackbench::default()),
            "server" => Spec::Server(Server::default()),
            "forkstorm" => Spec::Forkstorm(Forkstorm::default()),
            "execstorm" => Spec::Execstorm(Execstorm::default()),
            "periodic" => Spec::Periodic(Periodic::default()),
            "arrivals" => Spec::Arrivals(Arrivals::default()),
            "random" => Spec::Random(Random::default()),
            _ => return None,
        })
    }

    /// From TOML: `kind = "..."` and any of that kind's fields. `file` is named in errors.
    pub fn from_toml(file: &str, text: &str) -> Result<Spec, GenerateError> {
        let table = toml::de::DeTable::parse(text).map_err(|error| toml_error(file, text, error))?;
        Spec::from_table(file, text, table)
    }

    /// Whether a TOML file holds a generator's settings: it says `kind = ...`.
    pub fn is_spec(text: &str) -> bool {
        toml::de::DeTable::parse(text).is_ok_and(|table| table.get_ref().contains_key("kind"))
    }

    /// As [`Spec::from_toml`], from a table of a larger text.
    pub(crate) fn from_table(
        file: &str,
        text: &str,
        mut table: toml::Spanned<toml::de::DeTable<'_>>,
    ) -> Result<Spec, GenerateError> {
        let located = |error| toml_error(file, text, error);
        let kind = table.get_mut().remove("kind");
        let kind = kind.as_ref().and_then(|kind| kind.get_ref().as_str()).unwrap_or_default().to_string();
        let fields = toml::de::Deserializer::from(table);
        match kind.as_str() {
            "fairbench" => Fairbench::deserialize(fields).map(Spec::Fairbench),
            "responsebench" => Responsebench::deserialize(fields).map(Spec::Responsebench),
            "hogs" => Hogs::deserialize(fields).map(Spec::Hogs),
            "sleepers" => Sleepers::deserialize(fields).map(Spec::Sleepers),
            "start" => Start::deserialize(fields).map(Spec::Start),
            "hackbench" => Hackbench::deserialize(fields).map(Spec::Hackbench),
            "server" => Server::deserialize(fields).map(Spec::Server),
            "forkstorm" => Forkstorm::deserialize(fields).map(Spec::Forkstorm),
            "execstorm" => Execstorm::deserialize(fields).map(Spec::Execstorm),
            "periodic" => Periodic::deserialize(fields).map(Spec::Periodic),
            "arrivals" => Arrivals::deserialize(fields).map(Spec::Arrivals),
            "random" => Random::deserialize(fields).map(Spec::Random),
            _ => return Err(GenerateError::Kind { file: file.to_string(), kind }),
        }
        .map_err(located)
    }

    /// As TOML, with every field: a file to edit.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a struct of numbers, texts and lists has a TOML form")
    }

    /// The workload. Its note `generate` is the TOML.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        let mut workload = match self {
            Spec::Fairbench(spec) => spec.build(),
            Spec::Responsebench(spec) => spec.build(),
            Spec::Hogs(spec) => spec.build(),
            Spec::Sleepers(spec) => spec.build(),
            Spec::Start(spec) => spec.build(),
            Spec::Hackbench(spec) => spec.build(),
            Spec::Server(spec) => spec.build(),
            Spec::Forkstorm(spec) => spec.build(),
            Spec::Execstorm(spec) => spec.build(),
            Spec::Periodic(spec) => spec.build(),
            Spec::Arrivals(spec) => spec.build(),
            Spec::Random(spec) => spec.build(),
        }?;
        workload.notes.insert("generate".into(), self.to_toml());
        Ok(workload)
    }
}

/// A mistake with its place; named with the file, the message shows line and caret.
fn toml_error(file: &str, text: &str, mut error: toml::de::Error) -> GenerateError {
    let place = error.span();
    let message = if file.is_empty() {
        error.message().to_string()
    } else {
        error.set_input(Some(text));
        error.to_string().trim_end().to_string()
    };
    GenerateError::Toml { file: file.to_string(), message, place }
}

/// The workload that a TOML file describes; see [`Spec::from_toml`].
pub fn from_toml(file: &str, text: &str) -> Result<Workload, GenerateError> {
    Spec::from_toml(file, text)?.build()
}

/// The paper's levels.
fn default_nices() -> Vec<i32> {
    vec![-20, -10, 0, 10, 19]
}

/// What a builder gives; a broken rule would be a mistake of the generator.
fn finished(builder: Builder) -> Result<Workload, GenerateError> {
    match builder.finish() {
        Ok(workload) => Ok(workload),
        Err(WorkloadBuildError::TooLarge(error)) => Err(error.into()),
        Err(WorkloadBuildError::Rules(error)) => {
            panic!("the generator made a workload that breaks the rules: {error}")
        }
    }
}

fn nice(name: &'static str, value: i32) -> Result<Nice, GenerateError> {
    let fail = |_| GenerateError::Parameter { name, value: value.to_string(), expected: "-20 to 19" };
    Nice::new(value).map_err(fail)
}

fn positive(name: &'static str, span: Span) -> Result<(), GenerateError> {
    if span > Span::ZERO && span <= TIME_MAX {
        return Ok(());
    }
    Err(GenerateError::Parameter { name, value: span.to_string(), expected: "more than 0, at most 1000000s" })
}
