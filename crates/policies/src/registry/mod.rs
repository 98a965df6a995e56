//! The list of native schedulers, each with its parameters, once.
//!
//! A scheduler is registered in the file of its family: `basic` (first in first out, round robin),
//! `proportional` (shares of the CPU). A family is a `pub(super) const POLICIES: &[PolicyInfo]`, named in
//! [`FAMILIES`].

use crate::cfs::Tunable;
use schedlab_machine::policy::Policy;
use schedlab_units::Span;
use std::str::FromStr;
use std::sync::{LazyLock, OnceLock};

mod basic;
mod linux_history;
mod proportional;
mod realtime;

/// The families, in the order in which they are listed.
const FAMILIES: &[&[PolicyInfo]] =
    &[basic::POLICIES, proportional::POLICIES, linux_history::POLICIES, realtime::POLICIES];

/// Those of the program itself ([`extend`]).
static EXTRA: OnceLock<Vec<PolicyInfo>> = OnceLock::new();
static REGISTRY: LazyLock<Vec<PolicyInfo>> = LazyLock::new(|| {
    let mut all = FAMILIES.concat();
    all.extend(EXTRA.get_or_init(Vec::new)); // from now on it is too late to add one
    all
});

/// A parameter of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct ParamInfo {
    /// Name, as `--param NAME=VALUE` takes it.
    pub name: &'static str,
    /// Default, in the form in which it is given.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// A native scheduler.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// Name, as `--sched` takes it.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// In what it differs from that.
    pub differs: &'static str,
    /// What is not known for certain: constants from memory, rules restored, what was never compared. Empty: nothing.
    pub uncertain: &'static str,
    /// Its parameters.
    pub params: &'static [ParamInfo],
    make: fn(&Params<'_>) -> Result<Box<dyn Policy>, PolicyError>,
}

/// Parameters for one scheduler, checked against its list.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    info: &'a PolicyInfo,
    given: &'a [(String, String)],
}

/// A scheduler that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No such parameter.
    #[error("{sched} has no parameter '{name}'; it has: {known}")]
    UnknownParam {
        /// The scheduler.
        sched: &'static str,
        /// The name given.
        name: String,
        /// What it has.
        known: String,
    },
    /// A value that does not fit.
    #[error("parameter {name}={value} of {sched}: {problem}")]
    BadValue {
        /// The scheduler.
        sched: &'static str,
        /// The parameter.
        name: &'static str,
        /// The value given.
        value: String,
        /// What is wrong and what would be right.
        problem: String,
    },
}

impl Params<'_> {
    fn text(&self, param: &ParamInfo) -> String {
        let given = self.given.iter().rev().find(|(name, _)| name == param.name);
        given.map_or_else(|| param.default.to_string(), |(_, value)| value.clone())
    }

    /// The parameter, read by `parse`, whose error says what is wrong and what would be right.
    pub fn read<T>(
        &self,
        param: &'static ParamInfo,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, PolicyError> {
        let value = self.text(param);
        parse(&value).map_err(|problem| PolicyError::BadValue {
            sched: self.info.name,
            name: param.name,
            value,
            problem,
        })
    }

    /// A length of time greater than zero.
    pub fn span(&self, param: &'static ParamInfo) -> Result<Span, PolicyError> {
        self.read(param, |value| match value.parse::<Span>() {
            Ok(Span::ZERO) => Err("must be greater than zero".into()),
            Ok(span) => Ok(span),
            Err(error) => Err(error.to_string()),
        })
    }

    /// A number (or anything else with a `FromStr`); `expected` says what would be right.
    pub fn value<T: FromStr>(&self, param: &'static ParamInfo, expected: &str) -> Result<T, PolicyError> {
        self.read(param, |value| value.parse().map_err(|_| format!("expected {expected}")))
    }
}

impl Params<'_> {
    /// `yes` or `no`.
    fn yes_no(&self, param: &'static ParamInfo) -> Result<bool, PolicyError> {
        self.read(param, |value| match value {
            "yes" | "true" | "1" => Ok(true),
            "no" | "false" | "0" => Ok(false),
            _ => Err("expected yes or no".into()),
        })
    }

    /// A length of time greater than zero, `3ms`, or one that grows with the machine, `3ms*log`.
    fn tunable(&self, param: &'static ParamInfo) -> Result<Tunable, PolicyError> {
        self.read(param, |value| {
            let (span, grows) = match value.strip_suffix(Tunable::GROWS) {
                Some(span) => (span, true),
                None => (value, false),
            };
            match span.parse::<Span>() {
                Ok(Span::ZERO) => Err("must be greater than zero".into()),
                Ok(span) if grows => Ok(Tunable::Growing(span)),
                Ok(span) => Ok(Tunable::Fixed(span)),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    /// A length of time, which may be zero.
    fn phase(&self, param: &'static ParamInfo) -> Result<Span, PolicyError> {
        self.read(param, |value| value.parse::<Span>().map_err(|error| error.to_string()))
    }

    /// A whole number from `least` to `most`.
    fn number(&self, param: &'static ParamInfo, least: u64, most: u64) -> Result<u64, PolicyError> {
        self.read(param, |value| match value.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(format!("expected a whole number from {least} to {most}")),
        })
    }
}

impl PolicyInfo {
    /// A scheduler from outside this crate: it can then be run as the registered ones are. [`extend`] has it
    /// listed with them.
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        source: &'static str,
        params: &'static [ParamInfo],
        make: fn(&Params<'_>) -> Result<Box<dyn Policy>, PolicyError>,
    ) -> PolicyInfo {
        PolicyInfo { name, summary, source, differs: "", uncertain: "not stated by its author", params, make }
    }

    /// The address of the function that builds it, for another process of the same executable
    /// ([`PolicyInfo::with_maker`]).
    pub fn maker(&self) -> usize {
        self.make as usize
    }

    /// The scheduler of another process of the same executable, by what that one said about it.
    ///
    /// # Safety
    /// `maker` is the address here of the function whose address there is [`PolicyInfo::maker`].
    pub unsafe fn with_maker(name: &'static str, params: &'static [ParamInfo], maker: usize) -> PolicyInfo {
        // SAFETY: by the caller's word it is the address of a function of this type.
        let make = unsafe {
            std::mem::transmute::<*const (), fn(&Params<'_>) -> Result<Box<dyn Policy>, PolicyError>>(
                std::ptr::with_exposed_provenance(maker),
            )
        };
        PolicyInfo::new(name, "", "", params, make)
    }

    /// A policy that is broken on purpose.
    pub(crate) const fn deliberately(
        name: &'static str,
        summary: &'static str,
        params: &'static [ParamInfo],
        make: fn(&Params<'_>) -> Result<Box<dyn Policy>, PolicyError>,
    ) -> PolicyInfo {
        PolicyInfo { name, summary, source: "none", differs: "", uncertain: "", params, make }
    }

    /// Builds the scheduler; parameters not given have their default.
    pub fn build(&self, given: &[(String, String)]) -> Result<Box<dyn Policy>, PolicyError> {
        for (name, _) in given {
            if !self.params.iter().any(|param| param.name == name) {
                let known: Vec<_> = self.params.iter().map(|param| param.name).collect();
                let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                return Err(PolicyError::UnknownParam { sched: self.name, name: name.clone(), known });
            }
        }
        (self.make)(&Params { info: self, given })
    }
}

/// Schedulers that cannot be added to the registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtendError {
    /// A name that another scheduler has.
    #[error("there is a scheduler '{0}' already; give yours another name")]
    Taken(&'static str),
    /// A name that `--sched` cannot take.
    #[error(
        "'{0}' cannot be a scheduler's name: expected letters, digits, '-', '_' and '.', beginning with a letter or \
            digit, and none of {RESERVED:?}"
    )]
    NotAName(&'static str),
    /// The registry has been read, or extended, before.
    #[error("schedulers are added once, before the first is looked up: call it first in main()")]
    TooLate,
}

/// What `--sched` begins with where it means no native scheduler.
const RESERVED: [&str; 4] = ["linux", "scx", "guest", "host"];

/// Adds schedulers of the program's own to the registry. To be called once, at the start, before anything is looked up:
/// [`find`] and [`registry`] then know them like all others, and so does every command.
///
/// A program that starts itself again for its runs comes by here each time.
///
/// # Errors
/// A name that cannot be typed or is taken; a second call, or one that comes too late.
pub fn extend(extra: &[PolicyInfo]) -> Result<(), ExtendError> {
    for (index, info) in extra.iter().enumerate() {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_name = info.name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && info.name.chars().all(plain)
            && !RESERVED.contains(&info.name);
        if !is_name {
            return Err(ExtendError::NotAName(info.name));
        }
        let mut others = FAMILIES.iter().copied().flatten().chain(&BROKEN).chain(&extra[..index]);
        if others.any(|other| other.name == info.name) {
            return Err(ExtendError::Taken(info.name));
        }
    }
    EXTRA.set(extra.to_vec()).map_err(|_| ExtendError::TooLate)
}

/// Whether a scheduler of this name was added by the program itself ([`extend`]).
pub fn is_extra(name: &str) -> bool {
    EXTRA.get().is_some_and(|extra| extra.iter().any(|info| info.name == name))
}

static BROKEN: [PolicyInfo; 8] = crate::broken::POLICIES;

/// All native schedulers, in the order in which they are listed; those of the program itself ([`extend`]) last.
pub fn registry() -> &'static [PolicyInfo] {
    &REGISTRY
}

/// The native scheduler of this name; also those that are broken on purpose ([`broken`](crate::broken)).
pub fn find(name: &str) -> Option<&'static PolicyInfo> {
    REGISTRY.iter().chain(&BROKEN).find(|info| info.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked() {
        let rr = find("rr").unwrap();
        assert!(rr.build(&[("quantum".into(), "5ms".into())]).is_ok());
        for (name, value) in [("quantum", "0"), ("quantum", "soon"), ("slice", "5ms")] {
            assert!(rr.build(&[(name.into(), value.into())]).is_err(), "{name}={value}");
        }
        assert!(find("fifo").unwrap().build(&[("quantum".into(), "1ms".into())]).is_err());
    }
}
