//! What distribution did these tasks' times have? Quantiles of what a workload holds, for a generator to draw from.
//!
//! ```text
//! runs of cc1 (485): 12us, 20us, ..., 3.7s      ->   { empirical = [[0, "12us"], [0.001, "13us"], ..., [1, "3.7s"]] }
//! ```
//!
//! Or, of a law that is chosen, the parameters that make what was measured most likely:
//!
//! ```text
//! cpu times of the lives in a compile, from 100 ms on   ->   { pareto = { min = "100ms", shape = 1.2, max = "3.7s" } }
//! ```
//!
//! Quantiles stand close at both ends, where heavy tails live. All lengths are kept and sorted; of more than
//! four million a random four million, always the same.

use crate::generate::{Distribution, Drawn, Quantile, Rng};
use crate::stream::{OwnClock, Source, StreamError};
use crate::{Birth, EventKind, InitState};
use schedlab_stdx::percentile::between;
use schedlab_units::Span;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// CPU times from a wakeup (or birth) to the next block or end.
    Run,
    /// Blocked times.
    Sleep,
    /// CPU time of a whole life.
    Cpu,
    /// Time from one task's beginning to the next one's, in own time.
    Between,
}

impl Measure {
    /// All, by name.
    pub const ALL: [(&'static str, Measure); 4] = [
        ("run", Measure::Run),
        ("sleep", Measure::Sleep),
        ("cpu", Measure::Cpu),
        ("between", Measure::Between),
    ];
}

/// Lengths found, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Sorted.
    pub lengths: Vec<Span>,
    /// How many there were, kept or not.
    pub count: u64,
    /// Sum of all.
    pub sum_ns: u128,
}

/// As many lengths are kept.
const KEPT_MAX: u64 = 4 << 20;

/// Shares at which quantiles are taken.
const SHARES: [f64; 33] = [
    0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6,
    0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0,
];

struct Gather {
    sample: Sample,
    rng: Rng,
}

impl Gather {
    fn new() -> Gather {
        Gather { sample: Sample { lengths: Vec::new(), count: 0, sum_ns: 0 }, rng: Rng::new(1, 0) }
    }

    /// Keeps all, or a random part (Vitter's algorithm R).
    fn add(&mut self, span: Span) {
        let sample = &mut self.sample;
        sample.count += 1;
        sample.sum_ns += u128::from(span.as_ns());
        if sample.count <= KEPT_MAX {
            return sample.lengths.push(span);
        }
        let place = self.rng.bits() % sample.count;
        if let Some(slot) = sample.lengths.get_mut(place as usize) {
            *slot = span;
        }
    }

    fn finish(mut self) -> Sample {
        self.sample.lengths.sort_unstable();
        self.sample
    }
}

/// Measures tasks with `rows` set. One pass over the events.
pub fn measure(source: &Source, rows: &[bool], measure: Measure) -> Result<Sample, StreamError> {
    let mut gather = Gather::new();
    let head = source.head();
    let meant = |row: usize| rows.get(row).copied().unwrap_or(false);
    let mut clocks = vec![OwnClock::default(); head.workload.tasks.len()];
    let mut cpu = vec![0u64; clocks.len()];
    let mut begins: Vec<Option<u64>> = head
        .workload
        .tasks
        .iter()
        .zip(&head.lives)
        .map(|(task, life)| {
            let blocked = matches!(task.birth, Birth::Init { state: InitState::Blocked, .. });
            (!blocked).then_some(life.birth.as_ns())
        })
        .collect();
    source.runs(&mut |row, events| {
        if !meant(row.index()) {
            return Ok(());
        }
        let clock = &mut clocks[row.index()];
        for event in events.iter() {
            let before = *clock;
            let at = clock.step(&event.kind);
            match &event.kind {
                EventKind::Wakeup(_) => {
                    // the wakeup that begins a life is an arrival, no sleep
                    if begins[row.index()].is_none() {
                        begins[row.index()] = Some(at.as_ns());
                    } else if measure == Measure::Sleep {
                        gather.add(at.saturating_sub(before.now()));
                    }
                }
                kind => {
                    let ran = clock.length().saturating_sub(before.length());
                    cpu[row.index()] = cpu[row.index()].saturating_add(ran.as_ns());
                    let ends = matches!(kind, EventKind::Block { .. } | EventKind::Exit { .. });
                    if ends && measure == Measure::Run {
                        gather.add(clock.length());
                    }
                }
            }
        }
        Ok(())
    })?;
    match measure {
        Measure::Cpu => {
            let begun = (0..cpu.len()).filter(|&row| meant(row) && head.lives[row].nr_events > 0);
            begun.for_each(|row| gather.add(Span::from_ns(cpu[row])));
        }
        Measure::Between => {
            let mut times: Vec<u64> =
                (0..cpu.len()).filter(|&row| meant(row)).filter_map(|row| begins[row]).collect();
            times.sort_unstable();
            times.windows(2).for_each(|pair| gather.add(Span::from_ns(pair[1] - pair[0])));
        }
        Measure::Run | Measure::Sleep => {}
    }
    Ok(gather.finish())
}

/// A law whose parameters can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// `exponential`: arrivals that know nothing of each other.
    Exponential,
    /// `pareto`: P(length > T) = (min/T)^shape; with a shape near 1 the 1/T law of process lifetimes (WARP,
    /// section II).
    Pareto,
    /// `log_normal`.
    LogNormal,
}

impl Law {
    /// All, by name.
    pub const ALL: [(&'static str, Law); 3] =
        [("exponential", Law::Exponential), ("pareto", Law::Pareto), ("log-normal", Law::LogNormal)];
}

impl Sample {
    /// Only the lengths from `least` on.
    pub fn from_length(mut self, least: Span) -> Sample {
        let below = self.lengths.partition_point(|length| *length < least);
        self.lengths.drain(..below);
        self.count = self.lengths.len() as u64;
        self.sum_ns = self.lengths.iter().map(|length| u128::from(length.as_ns())).sum();
        self
    }

    /// The law of this kind that makes the sample most likely, and the largest distance of its distribution
    /// function from the sample's (Kolmogorov and Smirnov's, 0 to 1). `None` if there are no two different
    /// lengths above 0.
    ///
    /// Maximum likelihood: the mean; Hill's n / sum ln(x/min) (a length at the longest counts as what it is);
    /// mean and deviation of ln x.
    pub fn fitted(&self, law: Law) -> Option<(Distribution, f64)> {
        let lengths: Vec<f64> =
            self.lengths.iter().map(|length| length.as_ns() as f64).filter(|ns| *ns > 0.0).collect();
        let (first, last) = (*lengths.first()?, *lengths.last()?);
        if first >= last {
            return None;
        }
        let n = lengths.len() as f64;
        let span = |ns: f64| Span::from_ns(libm::round(ns) as u64);
        let mean_log = lengths.iter().map(|ns| libm::log(*ns)).sum::<f64>() / n;
        let drawn = match law {
            Law::Exponential => Drawn::Exponential { mean: span(lengths.iter().sum::<f64>() / n) },
            Law::Pareto => {
                let shape = 1.0 / (mean_log - libm::log(first));
                Drawn::Pareto { min: span(first), shape: rounded(shape), max: span(last) }
            }
            Law::LogNormal => {
                let squares =
                    lengths.iter().map(|ns| (libm::log(*ns) - mean_log) * (libm::log(*ns) - mean_log));
                let sigma = libm::sqrt(squares.sum::<f64>() / n);
                Drawn::LogNormal { median: span(libm::exp(mean_log)), sigma: rounded(sigma) }
            }
        };
        let distance = (0u32..)
            .zip(&lengths)
            .map(|(place, ns)| {
                let (below, upto) = (f64::from(place) / n, f64::from(place + 1) / n);
                // all that a law cuts at the longest lies there
                let share = drawn.share_below(*ns);
                let upper = if *ns >= last { 0.0 } else { (upto - share).abs() };
                let lower = if *ns >= last { 0.0 } else { (share - below).abs() };
                upper.max(lower)
            })
            .fold(0.0, f64::max);
        Some((Distribution::Drawn(drawn), distance))
    }

    /// The mean; zero of none.
    pub fn mean(&self) -> Span {
        Span::from_ns((self.sum_ns / u128::from(self.count.max(1))) as u64)
    }

    /// Its distribution; `None` if there is no length at all.
    pub fn distribution(&self) -> Option<Distribution> {
        let last = self.lengths.len().checked_sub(1)?;
        // shares that small samples do not tell apart are left out
        let wanted = |&share: &f64| {
            let place = share * last as f64;
            share == 0.0 || share == 1.0 || (place >= 1.0 && (last as f64 - place) >= 1.0)
        };
        let quantile = |share: f64| {
            let (low, high, part) = between(self.lengths.len(), share).expect("there is a length");
            let (low, high) = (self.lengths[low], self.lengths[high]);
            let ns = low.as_ns() as f64 + (high.as_ns() - low.as_ns()) as f64 * part;
            Quantile(share, Span::from_ns(ns.round() as u64))
        };
        let mut quantiles: Vec<Quantile> =
            SHARES.iter().filter(|share| wanted(share)).map(|&share| quantile(share)).collect();
        if let [.., first, second] = &mut quantiles[..]
            && first.1 > second.1
        {
            first.1 = second.1;
        }
        Some(Distribution::Drawn(Drawn::Empirical(quantiles)))
    }
}

/// Four digits: more than any sample warrants.
fn rounded(value: f64) -> f64 {
    let scale = libm::pow(10.0, 3.0 - libm::floor(libm::log10(value.max(1e-12))));
    libm::round(value * scale) / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_text;

    #[test]
    fn each_measure_finds_what_is_there() {
        let text = "- INIT 0 0 1 runnable\n- FORK 1 1ms 2\n- BLOCK 1 3ms\n- WAKEUP 1 5ms\n- EXIT 1 2ms\n- EXIT 2 7ms\n\
            - INIT 0 0 3 blocked\n- WAKEUP 3 9ms\n- BLOCK 3 4ms\n";
        let source = Source::from(parse_text("t", text.as_bytes()).unwrap());
        let ms = |of: Measure| -> Vec<u64> {
            let sample = measure(&source, &[true; 3], of).unwrap();
            assert_eq!(sample.count, sample.lengths.len() as u64);
            sample.lengths.iter().map(|span| span.as_ns() / 1_000_000).collect()
        };
        assert_eq!(ms(Measure::Run), [2, 3, 4, 7]);
        assert_eq!(ms(Measure::Sleep), [5]);
        assert_eq!(ms(Measure::Cpu), [4, 5, 7]);
        assert_eq!(ms(Measure::Between), [1, 8]); // births at 0, 1 and 9 ms
        assert_eq!(measure(&source, &[false, true, false], Measure::Run).unwrap().mean(), Span::from_ms(7));
        let none = measure(&source, &[false; 3], Measure::Run).unwrap();
        assert_eq!(none.distribution(), None);
    }

    // A law, drawn from: its parameters are found again, within four deviations of their estimators
    // (shape/sqrt(n), sigma/sqrt(2n)).
    #[test]
    fn the_parameters_of_a_law_are_found_again() {
        const N: usize = 40_000;
        let (ms, n) = (Span::from_ms, N as f64);
        let drawn = |law: Drawn| {
            let (mut gather, mut rng, law) = (Gather::new(), Rng::new(5, 0), Distribution::Drawn(law));
            (0..N).for_each(|_| gather.add(law.draw(&mut rng)));
            gather.finish()
        };
        let near = |found: f64, true_value: f64, relative: f64| {
            assert!((found / true_value - 1.0).abs() < relative, "{found}, not {true_value}");
        };
        let sample = drawn(Drawn::Pareto { min: ms(1), shape: 1.05, max: Span::from_s(100_000) });
        let (Distribution::Drawn(Drawn::Pareto { shape, min, .. }), distance) =
            sample.fitted(Law::Pareto).unwrap()
        else {
            panic!("a Pareto law");
        };
        near(shape, 1.05, 4.0 / n.sqrt());
        assert!(min < Span::from_us(1001) && distance < 1.63 / n.sqrt(), "{min} {distance}");
        // of another law the fit says so
        assert!(sample.fitted(Law::Exponential).unwrap().1 > 0.3);
        // the tail of a Pareto law is one, with the same shape
        let tail = sample.from_length(ms(10));
        let Some((Distribution::Drawn(Drawn::Pareto { shape, .. }), _)) = tail.fitted(Law::Pareto) else {
            panic!("a Pareto law");
        };
        near(shape, 1.05, 4.0 / (tail.count as f64).sqrt());
        let sample = drawn(Drawn::LogNormal { median: ms(3), sigma: 1.2 });
        let (Distribution::Drawn(Drawn::LogNormal { median, sigma }), distance) =
            sample.fitted(Law::LogNormal).unwrap()
        else {
            panic!("a log-normal law");
        };
        near(median.as_ns() as f64, 3e6, 4.0 * 1.2 / n.sqrt());
        near(sigma, 1.2, 4.0 / (2.0 * n).sqrt());
        assert!(distance < 1.63 / n.sqrt(), "{distance}");
        let sample = drawn(Drawn::Exponential { mean: ms(7) });
        let (Distribution::Drawn(Drawn::Exponential { mean }), distance) =
            sample.fitted(Law::Exponential).unwrap()
        else {
            panic!("an exponential law");
        };
        near(mean.as_ns() as f64, 7e6, 4.0 / n.sqrt());
        assert!(distance < 1.63 / n.sqrt(), "{distance}");
    }

    // A law, drawn from; the quantiles of what was drawn; drawn from these: the same law within what the
    // quantiles leave out.
    #[test]
    fn what_was_fitted_is_drawn_again() {
        for law in [
            Drawn::Exponential { mean: Span::from_ms(10) },
            Drawn::Pareto { min: Span::from_ms(1), shape: 1.1, max: Span::from_s(100) },
            Drawn::LogNormal { median: Span::from_ms(3), sigma: 1.0 },
        ] {
            let law = Distribution::Drawn(law);
            let mut gather = Gather::new();
            let mut rng = Rng::new(3, 0);
            (0..50_000).for_each(|_| gather.add(law.draw(&mut rng)));
            let sample = gather.finish();
            let fitted = sample.distribution().unwrap();
            fitted.check("fitted").unwrap();
            let mut rng = Rng::new(4, 0);
            let mut again: Vec<Span> = (0..50_000).map(|_| fitted.draw(&mut rng)).collect();
            again.sort_unstable();
            // two-sample Kolmogorov-Smirnov: 1.95 sqrt(2/n) = 1.2 %, and up to 1 % between quantiles 5 % apart
            let mut worst: f64 = 0.0;
            for (i, x) in again.iter().enumerate() {
                let other = sample.lengths.partition_point(|length| length <= x);
                worst = worst.max((i as f64 - other as f64).abs() / 50_000.0);
            }
            assert!(worst < 0.022, "{law:?}: {worst}");
        }
    }
}
