//! What changed between two schedulers, most first, and what the ensemble cannot tell?

use crate::cases::ensemble::Samples;
use crate::measure::MetricValues;
use crate::measure::metric::{MetricId, ids};
use crate::measure::stats::{Interval, holm, mean, paired};

/// What can be said of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Significance {
    /// It changed: the interval, corrected for the number of questions asked, does not hold zero.
    Changed,
    /// It changed, by less than means anything ([`Metric::grain`](crate::measure::metric::Metric::grain)).
    Negligible,
    /// The ensemble does not show a difference.
    NotShown,
}

/// One metric under two schedulers.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which.
    pub metric: MetricId,
    /// Whose: an index into [`Samples::subjects`]; `None` = all tasks.
    pub subject: Option<usize>,
    /// Under the baseline.
    pub base: Interval,
    /// Under the other.
    pub other: Interval,
    /// Other less baseline, within pairs.
    pub difference: Interval,
    /// The probability corrected for the number of questions.
    pub p_adjusted: f64,
    /// In how many pairs the difference has the sign of its mean.
    pub same_sign: usize,
    /// The judgement.
    pub verdict: Significance,
    /// |ln(other / base)|, both enlarged by the metric's grain: by this the changes are ranked.
    pub size: f64,
}

impl Change {
    /// The difference in parts of the baseline: infinite if that is zero and there is a difference. No metric
    /// is negative, so nothing can fall by more than all: the interval ends there.
    pub fn relative(&self) -> Interval {
        let base = self.base.mean;
        let over = |x: f64| if x == 0.0 { 0.0 } else { (x / base).max(-1.0) };
        Interval {
            mean: over(self.difference.mean),
            low: over(self.difference.low),
            high: over(self.difference.high),
            ..self.difference
        }
    }
}

/// One contender against the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Which: an index into the ensemble's contenders.
    pub contender: usize,
    /// Metrics of all tasks together: what changed, most first; then what is negligible; then what is not
    /// shown, in the metrics' order.
    pub changes: Vec<Change>,
    /// Metrics of subjects, ranked likewise.
    pub subjects: Vec<Change>,
    /// Seeds of which both runs have numbers.
    pub nr_pairs: usize,
}

impl Comparison {
    /// Compares a contender with the first one, at this confidence (0 to 1).
    pub fn new(samples: &Samples, contender: usize, confidence: f64) -> Comparison {
        let runs = samples.runs[0].iter().zip(&samples.runs[contender]);
        let pairs: Vec<(&MetricValues, &MetricValues)> =
            runs.filter_map(|(a, b)| Some((a.as_ref().ok()?, b.as_ref().ok()?))).collect();
        let of_all = |id: MetricId| change(id, None, &pairs, confidence, |measures| measures.values[id.0]);
        let changes = ids().filter_map(of_all).collect();
        let mut subjects = Vec::new();
        for subject in 0..samples.subjects.len() {
            for id in ids().filter(|id| id.get().per_task) {
                let get = |measures: &MetricValues| measures.subjects[subject][id.0];
                subjects.extend(change(id, Some(subject), &pairs, confidence, get));
            }
        }
        Comparison {
            contender,
            changes: judge(changes, confidence),
            subjects: judge(subjects, confidence),
            nr_pairs: pairs.len(),
        }
    }

    /// What the ensemble shows to have changed, most first.
    pub fn changed(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.verdict == Significance::Changed)
    }
}

/// `None` if no pair has numbers.
fn change(
    metric: MetricId,
    subject: Option<usize>,
    pairs: &[(&MetricValues, &MetricValues)],
    confidence: f64,
    get: impl Fn(&MetricValues) -> Option<f64>,
) -> Option<Change> {
    let values = pairs.iter().filter_map(|(a, b)| Some((get(a)?, get(b)?)));
    let (a, b): (Vec<f64>, Vec<f64>) = values.unzip();
    if a.is_empty() {
        return None;
    }
    let difference = paired(&a, &b, confidence);
    let same_sign = a.iter().zip(&b).filter(|(a, b)| (*b - *a) * difference.mean > 0.0).count();
    let (base, other) = (mean(&a, confidence), mean(&b, confidence));
    let grain = metric.get().grain;
    let size = ((other.mean + grain) / (base.mean + grain)).ln().abs();
    let verdict = Significance::NotShown;
    Some(Change { metric, subject, base, other, difference, p_adjusted: 1.0, same_sign, verdict, size })
}

/// Corrects for the number of questions, judges and ranks.
fn judge(mut changes: Vec<Change>, confidence: f64) -> Vec<Change> {
    let p: Vec<f64> = changes.iter().map(|change| change.difference.p).collect();
    for (change, p_adjusted) in changes.iter_mut().zip(holm(&p)) {
        change.p_adjusted = p_adjusted;
        change.verdict = if p_adjusted >= 1.0 - confidence {
            Significance::NotShown
        } else if change.difference.mean.abs() < change.metric.get().grain {
            Significance::Negligible
        } else {
            Significance::Changed
        };
    }
    let rank = |verdict: Significance| match verdict {
        Significance::Changed => 0,
        Significance::Negligible => 1,
        Significance::NotShown => 2,
    };
    changes.sort_by(|a, b| {
        let size = if a.verdict == Significance::Changed {
            b.size.total_cmp(&a.size)
        } else {
            std::cmp::Ordering::Equal
        };
        rank(a.verdict)
            .cmp(&rank(b.verdict))
            .then(size)
            .then((a.subject, a.metric).cmp(&(b.subject, b.metric)))
    });
    changes
}
