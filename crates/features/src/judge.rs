//! Is it what the formula says?

use serde::{Deserialize, Serialize};

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
}
