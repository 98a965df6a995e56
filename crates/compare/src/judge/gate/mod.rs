//! When does a comparison fail? Conditions for a CI gate: `--fail-if 'p99>5%'`.
//!
//! ```text
//!   condition = [ subject ":" ] metric comparison threshold
//!   metric    = statistic                       mean, p50, p90, p99, max: of the run delay
//!             | family [ "." statistic ]        run_delay.p99, migrations, share_error, ...
//!   threshold = [ "+" | "-" ] number unit
//!   unit      = "%"                             change, in percent of the baseline
//!             | "ns" | "us" | "ms" | "s" | "pt" | nothing (counts and indices)
//! ```
//!
//! | condition | met if |
//! |---|---|
//! | `p99>5%` | the p99 of the run delay is more than 5 % above the baseline's |
//! | `migrations<-10%` | there are fewer migrations, by more than 10 % |
//! | `wakeup_latency.max>+2ms` | with a sign: the longest wakeup latency grew by more than 2 ms |
//! | `wakeup_latency.max>20ms` | without: it *is* above 20 ms, whatever the baseline's |
//! | `share_error>+1pt` | the share error grew by more than one percentage point |
//! | `cc1:run_delay.p99>5%` | the same of the tasks named cc1 |
//! | `misses>0` | any job of any run missed its deadline |
//!
//! A condition is met only if the ensemble shows it: the whole interval lies beyond the threshold, not the
//! estimate alone. With a single run there is no interval, and the estimate decides.

mod parse;

use crate::cases::ensemble::Samples;
use crate::judge::comparison::Comparison;
use crate::measure::metric::{MetricId, Unit};
use crate::measure::stats::{Interval, mean};
use std::fmt;

/// How a quantity is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

impl Op {
    fn holds(self, value: f64, threshold: f64) -> bool {
        match self {
            Op::Above => value > threshold,
            Op::AtLeast => value >= threshold,
            Op::Below => value < threshold,
            Op::AtMost => value <= threshold,
        }
    }
    /// As written.
    pub fn text(self) -> &'static str {
        match self {
            Op::Above => ">",
            Op::AtLeast => ">=",
            Op::Below => "<",
            Op::AtMost => "<=",
        }
    }
}

/// What a threshold is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Change in parts of the baseline (0.05 = 5 %).
    Relative,
    /// Change in the metric's own unit.
    Change,
    /// The contender's value.
    Value,
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// Label of a subject; `None` = all tasks.
    pub subject: Option<String>,
    /// Of what.
    pub metric: MetricId,
    /// How.
    pub op: Op,
    /// Which quantity.
    pub quantity: Quantity,
    /// In the metric's unit (ns, parts of 1), or in parts of the baseline.
    pub threshold: f64,
    /// As typed.
    pub text: String,
}

/// A condition that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\n  {text}\n  {}{}\n  expected {expected}", " ".repeat(*.at), "^".repeat(*.length))]
pub struct GateError {
    /// All of it.
    pub text: String,
    /// First character that is wrong.
    pub at: usize,
    /// Characters that are wrong, at least one.
    pub length: usize,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub expected: String,
}

/// How a condition turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// The ensemble shows that it holds.
    Met,
    /// The estimate satisfies it, but the interval reaches back over the threshold.
    Open,
    /// The estimate does not satisfy it.
    NotMet,
    /// Nothing of the kind was measured.
    NoData,
}

/// A condition applied to one comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// How it turned out.
    pub outcome: ConditionOutcome,
    /// The quantity, in the threshold's unit.
    pub interval: Interval,
}

impl Gate {
    /// Applies the condition to a comparison with the baseline.
    pub fn judge(&self, samples: &Samples, comparison: &Comparison, confidence: f64) -> Judgement {
        let nothing = Interval { mean: f64::NAN, low: f64::NAN, high: f64::NAN, n: 0, p: 1.0 };
        let no_data = Judgement { outcome: ConditionOutcome::NoData, interval: nothing };
        let subject = match &self.subject {
            None => None,
            Some(label) => match samples.subjects.iter().position(|subject| subject.label == *label) {
                None => return no_data,
                found => found,
            },
        };
        let interval = if self.quantity == Quantity::Value {
            // the contender's own runs, whether or not the baseline has the metric
            let get = |run: &crate::measure::MetricValues| match subject {
                None => run.values[self.metric.0],
                Some(subject) => run.subjects[subject][self.metric.0],
            };
            let runs = samples.runs[comparison.contender].iter().filter_map(|run| run.as_ref().ok());
            let values: Vec<f64> = runs.filter_map(get).collect();
            if values.is_empty() {
                return no_data;
            }
            // nothing that is measured is negative: one value above zero shows that their mean is
            if self.op == Op::Above && self.threshold == 0.0 && values.iter().any(|value| *value > 0.0) {
                return Judgement { outcome: ConditionOutcome::Met, interval: mean(&values, confidence) };
            }
            mean(&values, confidence)
        } else {
            let list = if subject.is_none() { &comparison.changes } else { &comparison.subjects };
            let change = list.iter().find(|c| c.metric == self.metric && c.subject == subject);
            match (change, self.quantity) {
                (None, _) => return no_data,
                (Some(change), Quantity::Relative) => change.relative(),
                (Some(change), _) => change.difference,
            }
        };
        // the end of the interval that is nearest to the other side
        let worst = match self.op {
            _ if interval.n < 2 => interval.mean,
            Op::Above | Op::AtLeast => interval.low,
            Op::Below | Op::AtMost => interval.high,
        };
        let outcome = if self.op.holds(worst, self.threshold) {
            ConditionOutcome::Met
        } else if self.op.holds(interval.mean, self.threshold) {
            ConditionOutcome::Open
        } else {
            ConditionOutcome::NotMet
        };
        Judgement { outcome, interval }
    }

    /// A number of the threshold's unit, as people read it.
    pub fn number_text(&self, number: f64) -> String {
        match self.quantity {
            _ if number.is_infinite() => if number > 0.0 { "+inf" } else { "-inf" }.to_string(),
            Quantity::Relative if number.abs() >= 10.0 => format!("{:+.0} %", 100.0 * number),
            Quantity::Relative => format!("{:+.1} %", 100.0 * number),
            Quantity::Change => self.metric.get().difference_text(number),
            Quantity::Value => self.metric.get().value_text(number),
        }
    }
}

/// In a normal form that reads back as the same condition.
impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metric = self.metric.get();
        if let Some(subject) = &self.subject {
            write!(f, "{subject}:")?;
        }
        write!(f, "{}{}", metric.name(), self.op.text())?;
        let sign = |number: f64| if number.is_sign_negative() { "" } else { "+" };
        let threshold = self.threshold;
        match self.quantity {
            Quantity::Relative => write!(f, "{}{}%", sign(threshold), 100.0 * threshold),
            _ => {
                let sign = if self.quantity == Quantity::Change { sign(threshold) } else { "" };
                match metric.unit {
                    Unit::Ns => write!(f, "{sign}{threshold}ns"),
                    Unit::Share => write!(f, "{sign}{}pt", 100.0 * threshold),
                    Unit::Count | Unit::Index => write!(f, "{sign}{threshold}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
