//! Which period do these moments have? A clock's tick among noise, and its exact length.
//!
//! ```text
//!   moments     |   | |   |   |  ||  |        gaps, of which many lie on a grid
//!   grid        |   |   |   |   |   |         the frequency at which their phases agree best (Rayleigh's test)
//!   line        t = phase + k x period        least squares over those near the grid: value and interval
//! ```

use crate::stats::{Estimate, student};
use std::f64::consts::TAU;

/// A moment and the clock it belongs to: CPUs may tick at different phases.
pub(crate) type Moment = (u32, u64);

/// Phases of one clock agree so well by chance less than once in 10^5 searches of a thousand frequencies.
const SIGNIFICANT: f64 = 18.0;

/// As [`SIGNIFICANT`], of so many clocks: the sum of their powers is a gamma variable (Laurent and Massart's bound).
fn significant(clocks: usize) -> f64 {
    SIGNIFICANT + (2.0 * SIGNIFICANT * (clocks - 1) as f64).sqrt()
}
/// A lower frequency whose grid holds the moments by these shares as well as the best is preferred: noise adds to a
/// grid's power and takes from it. Ticks that are seen in a part of each longer period, as under cpu.max, have
/// up to 0.65 of their power at a fifth of their frequency: so whoever can tell tries the others too.
const LOWEST_SHARES: [f64; 3] = [0.4, 0.8, 1.0];
/// Moments farther from the line than so many times the median distance are none of the clock's.
const STRANGE: f64 = 6.0;
/// A clock's moments may be seen late by so much, whatever its period.
const JITTER_NS: f64 = 20_000.0;
/// More moments than these are thinned out.
const MOMENTS_MAX: usize = 6_000;

/// Sum over clocks of |sum of e^(i 2 pi t f)|^2 / n: n times the share of moments on the grid, squared; about
/// the number of clocks by chance.
fn power(groups: &[Vec<f64>], hz: f64) -> f64 {
    let each = groups.iter().map(|times| {
        let (mut re, mut im) = (0.0, 0.0);
        for time_s in times {
            let phase = (time_s * hz).fract() * TAU;
            re += phase.cos();
            im += phase.sin();
        }
        (re * re + im * im) / times.len() as f64
    });
    each.sum::<f64>() - groups.len() as f64
}

/// The lowest of these frequencies whose grid holds the moments significantly, and nearly as well as the best.
///
/// A grid of 250 Hz is one of 500 Hz and 750 Hz too, so that the lowest counts.
pub(crate) fn frequency(moments: &[Moment], candidates_hz: &[f64]) -> Option<f64> {
    frequencies(moments, candidates_hz).first().copied()
}

/// As [`frequency`], and behind it the lowest that hold them better, up to the best.
pub(crate) fn frequencies(moments: &[Moment], candidates_hz: &[f64]) -> Vec<f64> {
    let groups = grouped(moments);
    let powers: Vec<f64> = candidates_hz.iter().map(|hz| power(&groups, *hz)).collect();
    let best = powers.iter().copied().fold(0.0, f64::max);
    if groups.is_empty() || best < significant(groups.len()) {
        return Vec::new();
    }
    let mut found: Vec<f64> = Vec::new();
    for share in LOWEST_SHARES {
        let place = powers.iter().position(|power| *power >= best * share).expect("the best does");
        // the neighbours of a candidate share its power when the run is short: the top of the hill counts
        let top = (place..powers.len()).take_while(|p| candidates_hz[*p] < candidates_hz[place] * 1.4);
        let top = top.max_by(|a, b| powers[*a].total_cmp(&powers[*b])).expect("the place itself is one");
        if !found.contains(&candidates_hz[top]) {
            found.push(candidates_hz[top]);
        }
    }
    found
}

fn grouped(moments: &[Moment]) -> Vec<Vec<f64>> {
    let step = moments.len().div_ceil(MOMENTS_MAX).max(1);
    let mut clocks: Vec<u32> = moments.iter().map(|moment| moment.0).collect();
    clocks.sort_unstable();
    clocks.dedup();
    let group = |clock: &u32| -> Vec<f64> {
        let own = moments.iter().filter(|moment| moment.0 == *clock);
        own.step_by(step).map(|moment| moment.1 as f64 / 1e9).collect()
    };
    clocks.iter().map(group).filter(|group: &Vec<f64>| group.len() >= 8).collect()
}

/// The period near `about_ns` in ns, from the moments near the grid.
pub(crate) fn fit(moments: &[Moment], about_ns: f64) -> Option<Estimate> {
    let mut period = sharpened(moments, about_ns);
    let mut found = None;
    // the grid is sharper once its period is
    for width in [0.08, 0.04, 0.02] {
        let points = near_grid(moments, period, width);
        let (slope, error, n) = slope(&points)?;
        period = slope;
        let reach = student(n - 2) * error;
        found = Some(Estimate { value: slope, low: slope - reach, high: slope + reach, n });
    }
    // what happened near the grid by chance: far from the line, against what is on it
    let mut points = near_grid(moments, period, 0.02);
    for _ in 0..4 {
        let Some(kept) = on_line(&points, period) else { break };
        points = kept;
        let Some((slope, error, n)) = slope(&points) else { break };
        period = slope;
        let reach = student(n - 2) * error;
        found = Some(Estimate { value: slope, low: slope - reach, high: slope + reach, n });
    }
    found
}

/// Whether the moments near this grid lie at its points. Moments that are there by chance lie anywhere near them.
///
/// ```text
///   near the grid           |  . .:|:.. |        |.. . | . .|
///   at least half of them     at its point          anywhere: a quarter is
/// ```
pub(crate) fn gathers(moments: &[Moment], period: f64) -> bool {
    const NEAR: f64 = 0.02;
    let points = near_grid(moments, period, NEAR);
    let off = off_line(&points, period);
    let reach = (period * NEAR / 4.0).max(JITTER_NS);
    off.iter().filter(|off| **off <= reach).count() * 2 >= off.len()
}

/// The period at which phases agree best among those that a run of this length can hardly tell from one: the line
/// would follow noise at a worse one.
fn sharpened(moments: &[Moment], about_ns: f64) -> f64 {
    const STEPS: i32 = 16;
    let groups = grouped(moments);
    let times = || moments.iter().map(|moment| moment.1);
    let length_s = times().max().unwrap_or(0).saturating_sub(times().min().unwrap_or(0)) as f64 / 1e9;
    if groups.is_empty() || length_s <= 0.0 {
        return about_ns;
    }
    let hz = |step: i32| 1e9 / about_ns + f64::from(step) / f64::from(STEPS) / length_s;
    let steps =
        (-STEPS..=STEPS).filter(|step| hz(*step) > 0.0).map(|step| (hz(step), power(&groups, hz(step))));
    let best = steps.max_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(about_ns, |(hz, _)| 1e9 / hz)
}

fn middle(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// How far each point is from the line of this slope through the middle of its clock's.
fn off_line(points: &[(f64, f64, u32)], period: f64) -> Vec<f64> {
    let groups = || points.chunk_by(|a, b| a.2 == b.2);
    let rest = |point: &(f64, f64, u32)| point.1 - point.0 * period;
    let phases: Vec<f64> = groups()
        .map(|group| middle(&mut group.iter().map(rest).collect::<Vec<f64>>()).expect("a group is not empty"))
        .collect();
    let off =
        groups().zip(&phases).flat_map(|(group, phase)| group.iter().map(move |p| (rest(p) - phase).abs()));
    off.collect()
}

/// The points that lie as near to a line of this slope as most of their clock do.
fn on_line(points: &[(f64, f64, u32)], period: f64) -> Option<Vec<(f64, f64, u32)>> {
    let off = off_line(points, period);
    // times are whole ns
    let reach = STRANGE * middle(&mut off.clone())?.max(1.0);
    Some(points.iter().zip(off).filter(|(_, off)| *off <= reach).map(|(point, _)| *point).collect())
}

/// Number of the tick, time, clock, of moments within `width` periods of the grid.
fn near_grid(moments: &[Moment], period: f64, width: f64) -> Vec<(f64, f64, u32)> {
    let mut points = Vec::new();
    for times in by_clock(moments) {
        let clock = times[0].0;
        let (mut re, mut im) = (0.0, 0.0);
        for (_, time) in &times {
            let phase = (*time as f64 / period).fract() * TAU;
            re += phase.cos();
            im += phase.sin();
        }
        let phase = im.atan2(re) / TAU * period;
        let mut last = f64::NEG_INFINITY;
        for (_, time) in &times {
            let k = ((*time as f64 - phase) / period).round();
            let off = (*time as f64 - phase - k * period) / period;
            // the first of several at one place of the grid: what comes behind a tick is late by it
            if off.abs() < width && k > last {
                points.push((k, *time as f64, clock));
                last = k;
            }
        }
    }
    points
}

fn by_clock(moments: &[Moment]) -> Vec<Vec<Moment>> {
    let mut sorted = moments.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a.0 == b.0).map(<[Moment]>::to_vec).collect()
}

/// Common slope of lines with an intercept for each clock, its standard error, and the number of points.
fn slope(points: &[(f64, f64, u32)]) -> Option<(f64, f64, u64)> {
    let groups: Vec<&[(f64, f64, u32)]> =
        points.chunk_by(|a, b| a.2 == b.2).filter(|g| g.len() >= 3).collect();
    let (mut xx, mut xy, mut n) = (0.0, 0.0, 0u64);
    let centre = |group: &[(f64, f64, u32)]| {
        let count = group.len() as f64;
        (group.iter().map(|p| p.0).sum::<f64>() / count, group.iter().map(|p| p.1).sum::<f64>() / count)
    };
    for group in &groups {
        let (cx, cy) = centre(group);
        for (x, y, _) in *group {
            xx += (x - cx) * (x - cx);
            xy += (x - cx) * (y - cy);
        }
        n += group.len() as u64;
    }
    let degrees = n.checked_sub(1 + groups.len() as u64).filter(|degrees| *degrees >= 4)?;
    let slope = xy / xx;
    let mut squares = 0.0;
    for group in &groups {
        let (cx, cy) = centre(group);
        squares += group.iter().map(|(x, y, _)| (y - cy - slope * (x - cx)).powi(2)).sum::<f64>();
    }
    let error = (squares / degrees as f64 / xx).sqrt();
    // times are whole ns: no line is straighter than that lets it be
    Some((slope, error.max(0.3 / xx.sqrt()), n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_stdx::Random;

    /// Ticks of 4 ms that are late by up to 3 us, a third of them unseen, among as many moments that mean nothing.
    fn ticks(period_ns: f64, seed: u64) -> Vec<Moment> {
        let mut random = Random::new(seed);
        let count = (2e9 / period_ns) as u64;
        let mut moments = Vec::new();
        for k in 1..count {
            if random.below(3) > 0 {
                moments.push((0, (k as f64 * period_ns) as u64 + random.below(3000)));
            }
            moments.push((0, random.below(2_000_000_000)));
        }
        moments.sort_unstable();
        moments
    }

    #[test]
    fn a_tick_is_found_among_noise() {
        let candidates: Vec<f64> = (50..=1200).map(f64::from).collect();
        for hz in [100.0, 250.0, 300.0, 1000.0] {
            let mut held = 0;
            for seed in 0..40 {
                let moments = ticks(1e9 / hz, seed);
                assert_eq!(frequency(&moments, &candidates), Some(hz));
                let found = fit(&moments, 1e9 / hz).unwrap();
                held += u32::from(found.holds(1e9 / hz));
                assert!((found.high - found.low) / found.value < 1e-3, "{found:?}");
            }
            assert!((33..=40).contains(&held), "{hz} Hz: {held} of 40 intervals hold the truth");
        }
    }

    #[test]
    fn moments_by_chance_do_not_gather_at_a_grid() {
        for seed in 0..40 {
            let moments = ticks(4e6, seed);
            assert!(gathers(&moments, 4e6));
            let mut random = Random::new(seed);
            let chance: Vec<Moment> = (0..2000).map(|_| (0, random.below(4_000_000_000))).collect();
            let found = fit(&chance, 16.1e6).unwrap();
            assert!(!gathers(&chance, found.value), "{found:?}");
        }
    }

    #[test]
    fn noise_has_no_tick() {
        let mut random = Random::new(7);
        let moments: Vec<Moment> = (0..3000).map(|_| (0, random.below(2_000_000_000))).collect();
        let candidates: Vec<f64> = (50..=1200).map(f64::from).collect();
        assert_eq!(frequency(&moments, &candidates), None);
    }
}
