//! Which of its features does a kernel show in the laboratory?
//!
//! Each [`Feature`] is a scenario of a few tasks whose outcome follows from a formula of the kernel, run on a
//! given kernel object:
//!
//! ```text
//! nice    1 CPU, hogs of nice 0, 5, -5, 10       shares 1024 : 335 : 3121 : 110 (sched_prio_to_weight)
//! found   22.31 7.30 67.99 2.40 %                expected 22.31 7.30 67.99 2.40 %        works
//! ```
//!
//! [`all`] lists them; [`ScenarioBench::run`] runs one; [`table`] lays versions beside each other. `schedlab linux
//! check --all` prints it.

mod bench;
mod scenarios;
mod schedule;
pub mod table;

pub use bench::{ScenarioBench, Trouble};
pub use scenarios::all;
use serde::{Deserialize, Serialize};

/// Counts up when a scenario or a tolerance changes: results that are kept from before do not count any more.
pub const SUITE: u32 = 9;

/// Something that a scheduler does or offers, and the scenario that shows it.
#[derive(Clone, Copy)]
pub struct Feature {
    /// A short name, the same in every version.
    pub name: &'static str,
    /// What it belongs to: the table's sections.
    pub group: FeatureGroup,
    /// What is set up, and where the expected result is from.
    pub what: &'static str,
    /// The first version that has it, as `(6, 12)`.
    pub since: (u32, u32),
    /// A flavour that has it where the plain configuration has not, and the first version whose plain
    /// configuration has it.
    pub flavour: Option<(&'static str, (u32, u32))>,
    /// Most CPUs of the kernel that it needs: 64 or 1024.
    pub nr_cpus: u32,
    pub(crate) run: fn(&ScenarioBench) -> Result<Finding, Trouble>,
}

impl Feature {
    /// The flavour that a version needs for it; an unknown version counts as the oldest.
    pub fn flavour_of(&self, version: Option<(u32, u32)>) -> Option<&'static str> {
        self.flavour.filter(|(_, plain)| version.is_none_or(|v| v < *plain)).map(|(name, _)| name)
    }
}

/// Sections of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeatureGroup {
    /// nice, policies of the fair class.
    Fair,
    /// FIFO, RR, DEADLINE.
    RealTime,
    /// Control groups, affinity, sessions.
    Groups,
    /// Cores, caches, nodes, capacities, CPUs that come and go.
    Machine,
    /// Ticks, isolation, tunables.
    System,
}

impl FeatureGroup {
    /// The section's title.
    pub fn title(self) -> &'static str {
        match self {
            FeatureGroup::Fair => "fair class",
            FeatureGroup::RealTime => "real-time classes",
            FeatureGroup::Groups => "groups and sets",
            FeatureGroup::Machine => "machines",
            FeatureGroup::System => "ticks, isolation, tunables",
        }
    }
}

/// What a scenario found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Whether it is what the formula says.
    pub as_expected: bool,
    /// What was measured, short.
    pub found: String,
    /// What the formula says.
    pub expected: String,
}

impl Finding {
    /// A number against a formula, with the greatest difference that the scenario's own granularity explains.
    pub(crate) fn number(found: f64, expected: f64, tolerance: f64, unit: &str) -> Finding {
        Finding::numbers(&[found], &[expected], tolerance, unit)
    }

    /// Several numbers.
    pub(crate) fn numbers(found: &[f64], expected: &[f64], tolerance: f64, unit: &str) -> Finding {
        let list = |numbers: &[f64]| {
            // a digit more than the tolerance has
            let digits = match tolerance {
                t if t >= 0.5 => 0,
                t if t >= 0.05 => 2,
                t if t >= 0.005 => 3,
                _ => 4,
            };
            let each: Vec<String> = numbers.iter().map(|n| format!("{n:.digits$}")).collect();
            format!("{}{unit}", each.join(" "))
        };
        let near = found.iter().zip(expected).all(|(f, e)| (f - e).abs() <= tolerance);
        Finding {
            as_expected: near && found.len() == expected.len(),
            found: list(found),
            expected: format!("{} ± {tolerance}", list(expected)),
        }
    }

    /// Words against words.
    pub(crate) fn words(found: impl Into<String>, expected: impl Into<String>) -> Finding {
        let (found, expected) = (found.into(), expected.into());
        Finding { as_expected: found == expected, found, expected }
    }
}

/// A cell of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum FeatureCell {
    /// The scenario ran.
    Ran(Finding),
    /// This version, or this configuration of it, has no such thing.
    Absent {
        /// Why.
        why: String,
    },
    /// The scenario could not be run to its end.
    Failed {
        /// What happened.
        why: String,
    },
    /// The kernel that it needs is not built.
    NotBuilt {
        /// What would build it.
        how: String,
    },
}

impl FeatureCell {
    /// Whether there is nothing to worry about.
    pub fn is_fine(&self) -> bool {
        match self {
            FeatureCell::Ran(finding) => finding.as_expected,
            FeatureCell::Absent { .. } | FeatureCell::NotBuilt { .. } => true,
            FeatureCell::Failed { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_both_sides() {
        let f = Finding::numbers(&[22.309, 7.3], &[22.31, 7.30], 0.1, " %");
        assert_eq!((f.as_expected, &*f.found, &*f.expected), (true, "22.31 7.30 %", "22.31 7.30 % ± 0.1"));
        assert!(!Finding::number(3.2, 3.0, 0.1, " s").as_expected);
        assert!(!Finding::words("off", "on").as_expected);
    }

    #[test]
    fn names_are_different() {
        let mut names: Vec<&str> = all().iter().map(|f| f.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
