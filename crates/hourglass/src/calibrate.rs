//! How fast is the counter, how long is the loop, and from where on is a step a gap? Found without being
//! asked, and shown.
//!
//! ```text
//! steps of the loop    13 ns ███████████████ 3,801,442       one turn
//!                      26 ns ▏ 1,204                         a turn and a miss in the cache
//!                      52 ns
//!                     104 ns                  <- threshold: first valley above 99.9 %, four turns or more
//!                   2,100 ns ▏ 25                            timer interrupts
//! ```
//!
//! That is the original's procedure: run the loop with a huge threshold, look at the histogram, and choose a
//! length above the loop's high percentiles and below the shortest interrupt handler of interest.

use crate::counter::{Choice, Clock, Counter, clock_ns};
use crate::os::System;
use crate::poll::Scale;
use schedlab_units::{CpuId, CpuSet};
use serde::Serialize;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Bins of the histogram per doubling.
const PER_OCTAVE: usize = 4;
const BINS: usize = 40 * PER_OCTAVE;
/// Handlers of interrupts are at least so long; a threshold above it would hide them.
const SHORTEST_HANDLER_NS: f64 = 1000.0;
/// Loop turns that a gap has at least.
const LEAST_TURNS: f64 = 4.0;

/// How far a CPU's counter may be ahead of CPU 0's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Skew {
    /// The CPU.
    pub cpu: u32,
    /// Ahead by at least this, in ns.
    pub low_ns: f64,
    /// Ahead by at most this, in ns.
    pub high_ns: f64,
}

/// What was found before and over a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Calibration {
    /// The counter's name.
    pub counter: String,
    /// Why it is not the processor's own, if so.
    pub fallback: Option<String>,
    /// Ticks per second of the kernel's monotonic clock, over the whole run.
    pub rate_hz: f64,
    /// Largest distance of the clock from the straight line, in ns.
    pub rate_error_ns: f64,
    /// A bare read of the counter, median, in ns.
    pub read_ns: f64,
    /// One turn of the loop, median, in ns.
    pub loop_ns: f64,
    /// 999 of 1,000 turns are at most so long, in ns.
    pub loop_p999_ns: f64,
    /// A step above this is a gap, in ns.
    pub threshold_ns: f64,
    /// How the threshold came about.
    pub threshold_why: String,
    /// Steps of the loop: upper edge in ns, count.
    pub histogram: Vec<(f64, u64)>,
    /// CPUs whose counters were compared with the first one's.
    pub skews: Vec<Skew>,
    /// What happened to the clocks during the run.
    pub clock_events: Vec<String>,
}

/// The counter and a clock at about the same moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Anchor {
    pub(crate) ticks: u64,
    pub(crate) monotonic_ns: u64,
    /// Reading took so many ticks.
    pub(crate) width: u64,
    pub(crate) real_ns: u64,
    pub(crate) boot_ns: u64,
}

/// The tightest of several readings.
pub(crate) fn anchor<C: Counter>(counter: C, tries: u32) -> Anchor {
    let once = || {
        let (before, _) = counter.read();
        let monotonic_ns = clock_ns(libc::CLOCK_MONOTONIC);
        let (after, _) = counter.read();
        let width = after.saturating_sub(before);
        Anchor { ticks: before + width / 2, monotonic_ns, width, real_ns: 0, boot_ns: 0 }
    };
    let best = (0..tries.max(1)).map(|_| once()).min_by_key(|anchor| anchor.width).expect("at least one");
    // differences from one instant, so that the time between the calls does not count
    let now_ns = clock_ns(libc::CLOCK_MONOTONIC);
    let (real_ns, boot_ns) = (clock_ns(libc::CLOCK_REALTIME), clock_ns(libc::CLOCK_BOOTTIME));
    let to_best = now_ns.saturating_sub(best.monotonic_ns);
    Anchor { real_ns: real_ns.saturating_sub(to_best), boot_ns: boot_ns.saturating_sub(to_best), ..best }
}

/// The scale between two anchors.
pub(crate) fn scale(first: &Anchor, last: &Anchor) -> Scale {
    let ns = last.monotonic_ns.saturating_sub(first.monotonic_ns).max(1) as f64;
    let ticks = last.ticks.saturating_sub(first.ticks).max(1) as f64;
    Scale { ticks: first.ticks, ns: first.monotonic_ns, ticks_per_ns: ticks / ns }
}

/// What the anchors of a run say: how straight the clocks were, and whether one jumped.
pub(crate) fn clock_events(anchors: &[Anchor]) -> (f64, Vec<String>) {
    let (Some(first), Some(last)) = (anchors.first(), anchors.last()) else { return (0.0, Vec::new()) };
    let line = scale(first, last);
    let ms = |ns: i64| ns as f64 / 1e6;
    let mut events = Vec::new();
    let mut error_ns: f64 = 0.0;
    for pair in anchors.windows(2) {
        let [a, b] = [&pair[0], &pair[1]];
        // wall clock and sleep clock go as fast as the monotonic one unless somebody sets them or the machine sleeps
        let step = b.monotonic_ns as i64 - a.monotonic_ns as i64;
        let set = (b.real_ns as i64 - a.real_ns as i64) - step;
        let slept = (b.boot_ns as i64 - a.boot_ns as i64) - step;
        if slept > 1_000_000 {
            events.push(format!("the machine was suspended for {:.0} ms", ms(slept)));
        } else if set.abs() > 1_000_000 {
            events.push(format!("the wall clock was set by {:+.1} ms (not used here)", ms(set)));
        }
        if b.ticks < a.ticks {
            events.push("the counter went back: it is not the same on all CPUs".into());
        }
        let tight = (b.width as f64 / line.ticks_per_ns) < 1000.0;
        if tight {
            let off = (line.ns_at(b.ticks) as i64 - b.monotonic_ns as i64).unsigned_abs() as f64;
            error_ns = error_ns.max(off);
        }
    }
    if error_ns > 50_000.0 {
        events.push(format!("the counter and the kernel's clock came apart by {:.0} us", error_ns / 1e3));
    }
    (error_ns, events)
}

/// Counts of steps by length, logarithmic.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    counts: Vec<u64>,
}

fn bin(ticks: u64) -> usize {
    let log = (ticks.max(1) as f64).log2() * PER_OCTAVE as f64;
    (log as usize).min(BINS - 1)
}

/// Upper edge of a bin in ticks.
fn edge(bin: usize) -> f64 {
    ((bin + 1) as f64 / PER_OCTAVE as f64).exp2()
}

impl Steps {
    fn new() -> Steps {
        Steps { counts: vec![0; BINS] }
    }

    fn merge(&mut self, other: &Steps) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, others)| *mine += others);
    }

    /// Upper edge of the bin below which this share of all steps lies, in ticks.
    fn percentile(&self, share: f64) -> f64 {
        let all: u64 = self.counts.iter().sum();
        let mut below = 0;
        for (bin, count) in self.counts.iter().enumerate() {
            below += count;
            if below as f64 >= all as f64 * share {
                return edge(bin);
            }
        }
        edge(BINS - 1)
    }

    /// The threshold in ns, and how it came about.
    fn threshold(&self, ticks_per_ns: f64, loop_ns: f64) -> (f64, String) {
        let high = self.percentile(0.999) / ticks_per_ns;
        let least = (loop_ns * LEAST_TURNS).max(high);
        let all: u64 = self.counts.iter().sum();
        // a bin with less than a millionth of the steps is empty as far as the loop is concerned
        let few = (all / 1_000_000).max(1);
        let in_valley = |bin: usize| self.counts[bin..].iter().take(2).all(|count| *count <= few);
        let valley = (0..BINS - 2).find(|b| edge(*b) / ticks_per_ns >= least && in_valley(*b));
        let found = valley.map_or(least, |bin| edge(bin) / ticks_per_ns);
        if found > SHORTEST_HANDLER_NS && loop_ns * LEAST_TURNS < SHORTEST_HANDLER_NS {
            let why =
                "1 us: no valley below the shortest handler of an interrupt; some gaps are the loop's own";
            return (SHORTEST_HANDLER_NS, why.into());
        }
        let why = "the first valley above 99.9 % of the loop's turns, and at least four turns";
        (found, why.into())
    }
}

/// Steps of the loop over `turns`, with the counter and nothing else in it.
fn steps<C: Counter>(counter: C, turns: u32) -> Steps {
    let mut steps = Steps::new();
    // linear in the short part, where nearly all are, so that counting adds little
    let mut short = vec![0u32; 4096];
    let (mut last, _) = counter.read();
    for _ in 0..turns {
        let (now, _) = counter.read();
        let step = now.wrapping_sub(last) as usize;
        match short.get_mut(step) {
            Some(count) => *count += 1,
            None => steps.counts[bin(step as u64)] += 1,
        }
        // the time of counting is not a step's
        last = if step < 4096 { now } else { counter.read().0 };
    }
    short.iter().enumerate().for_each(|(step, count)| steps.counts[bin(step as u64)] += u64::from(*count));
    steps
}

/// Median over batches of what one of `each` takes, in ticks.
fn median_of_batches<C: Counter>(counter: C, mut each: impl FnMut(u32)) -> f64 {
    const TURNS: u32 = 500;
    let mut batches: Vec<u64> = (0..400)
        .map(|_| {
            let (before, _) = counter.read();
            each(TURNS);
            counter.read().0.wrapping_sub(before)
        })
        .collect();
    batches.sort_unstable();
    batches[batches.len() / 2] as f64 / f64::from(TURNS)
}

/// Ticks of a bare read and of one turn of the poller's loop.
fn costs<C: Counter>(counter: C) -> (f64, f64) {
    let read = median_of_batches(counter, |turns| {
        for _ in 0..turns {
            black_box(counter.read());
        }
    });
    let threshold = black_box(u64::MAX / 2);
    let turn = median_of_batches(counter, |turns| {
        let (mut last, _) = counter.read();
        let mut left = black_box(turns);
        while left > 0 {
            let (now, _) = counter.read();
            if now.wrapping_sub(last) > threshold {
                black_box(now);
            } else {
                last = now;
            }
            left -= 1;
        }
        black_box(last);
    });
    (read, turn)
}

/// CPUs this process may use.
pub(crate) fn allowed_cpus(nr_cpus: u32) -> Vec<u32> {
    // SAFETY: a zeroed set is valid, and the kernel writes one.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: numbers below 1024, the set's size.
    (0..nr_cpus.min(1024)).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &set) }).collect()
}

/// Bounds of how far `there`'s counter is ahead of `here`'s, from messages both ways: each message arrives
/// after it was sent.
fn skew<C: Counter>(counter: C, system: &dyn System, here: u32, there: u32) -> Option<(i64, i64)> {
    const ROUNDS: u64 = 2000;
    let until = Instant::now() + Duration::from_millis(60);
    let (asked, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    let answer_at = AtomicU64::new(0);
    let bounds = std::thread::scope(|scope| {
        // threads may be denied: what cannot be measured is not known
        let answerer = Builder::new().spawn_scoped(scope, || {
            if system.bind(&CpuSet::single(CpuId(there))).is_err() {
                return;
            }
            for round in 1..=ROUNDS {
                while asked.load(Ordering::Acquire) < round {
                    if Instant::now() > until {
                        return;
                    }
                    spin_loop();
                }
                answer_at.store(counter.read().0, Ordering::Relaxed);
                answered.store(round, Ordering::Release);
            }
        });
        answerer.ok()?;
        let asker = Builder::new().spawn_scoped(scope, || {
            system.bind(&CpuSet::single(CpuId(here))).ok()?;
            let (mut low, mut high) = (i64::MIN, i64::MAX);
            for round in 1..=ROUNDS {
                let (sent, _) = counter.read();
                asked.store(round, Ordering::Release);
                while answered.load(Ordering::Acquire) < round {
                    if Instant::now() > until {
                        return (round > 1).then_some((low, high));
                    }
                    spin_loop();
                }
                let there_at = answer_at.load(Ordering::Relaxed) as i64;
                let (received, _) = counter.read();
                low = low.max(there_at - received as i64);
                high = high.min(there_at - sent as i64);
            }
            Some((low, high))
        });
        asker.ok()?.join().ok().flatten()
    });
    asked.store(u64::MAX, Ordering::Release);
    bounds
}

/// All that can be known before the run. The scale is a first one; `first` is where the run's own begins.
pub(crate) fn before<C: Counter>(
    counter: C,
    choice: &Choice,
    system: &dyn System,
) -> (Calibration, Scale, Anchor) {
    let first = anchor(counter, 64);
    let cpus = allowed_cpus(system.nr_cpus());
    let mut all = Steps::new();
    // as many threads as CPUs, five at most, as the original's advice was
    let found: Vec<Steps> = std::thread::scope(|scope| {
        let turns = |_| Builder::new().spawn_scoped(scope, || steps(counter, 1_000_000)).ok();
        let threads: Vec<_> = cpus.iter().take(5).filter_map(turns).collect();
        let found: Vec<Steps> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        if found.is_empty() { vec![steps(counter, 1_000_000)] } else { found }
    });
    found.iter().for_each(|steps| all.merge(steps));
    let (read, turn) = costs(counter);
    let mut skews = Vec::new();
    for cpu in cpus.iter().skip(1).take(63) {
        if let Some((low, high)) = skew(counter, system, cpus[0], *cpu) {
            skews.push((*cpu, low, high));
        }
    }
    if Duration::from_nanos(clock_ns(libc::CLOCK_MONOTONIC) - first.monotonic_ns) < Duration::from_millis(100)
    {
        std::thread::sleep(Duration::from_millis(100));
    }
    let scale = scale(&first, &anchor(counter, 64));
    let per_ns = scale.ticks_per_ns;
    let (threshold_ns, threshold_why) = all.threshold(per_ns, turn / per_ns);
    let edges = all.counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let calibration = Calibration {
        counter: choice.name().into(),
        fallback: match choice {
            Choice::Native => None,
            Choice::Clock(why) => Some(why.clone()),
        },
        rate_hz: per_ns * 1e9,
        read_ns: read / per_ns,
        loop_ns: turn / per_ns,
        loop_p999_ns: all.percentile(0.999) / per_ns,
        threshold_ns,
        threshold_why,
        histogram: edges.map(|(bin, count)| (edge(bin) / per_ns, *count)).collect(),
        skews: skews
            .into_iter()
            .map(|(cpu, low, high)| Skew { cpu, low_ns: low as f64 / per_ns, high_ns: high as f64 / per_ns })
            .collect(),
        ..Calibration::default()
    };
    (calibration, scale, first)
}

/// As [`before`] with the counter of choice.
pub(crate) fn calibrate(choice: &Choice, system: &dyn System) -> (Calibration, Scale, Anchor) {
    match choice {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        Choice::Native => before(crate::counter::Native, choice, system),
        _ => before(Clock, choice, system),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps at 34 ticks (13 ns), a few at 70, interrupts at 6,000: the valley between is found.
    #[test]
    fn the_threshold_lies_in_the_valley() {
        let mut steps = Steps::new();
        steps.counts[bin(34)] = 3_800_000;
        steps.counts[bin(70)] = 1_200;
        steps.counts[bin(6000)] = 25;
        let (ns, why) = steps.threshold(2.6, 13.0);
        assert!((70.0 / 2.6..6000.0 / 2.6).contains(&ns), "{ns}: {why}");
    }

    #[test]
    fn without_a_valley_the_shortest_handler_bounds_it() {
        let mut steps = Steps::new();
        (bin(34)..bin(40_000)).for_each(|bin| steps.counts[bin] = 50_000);
        let (ns, why) = steps.threshold(2.6, 13.0);
        assert_eq!(ns, SHORTEST_HANDLER_NS);
        assert!(why.contains("no valley"));
    }

    #[test]
    fn a_clock_that_is_set_and_a_machine_that_slept_are_said() {
        let at = |ms: u64| Anchor {
            ticks: ms * 2_600_000,
            monotonic_ns: ms * 1_000_000,
            width: 60,
            real_ns: ms * 1_000_000,
            boot_ns: ms * 1_000_000,
        };
        assert_eq!(clock_events(&[at(0), at(100), at(200)]), (0.0, vec![]));
        let set = Anchor { real_ns: 3_200_000_000, ..at(200) };
        let slept = Anchor { boot_ns: 9_200_000_000, ..at(200) };
        assert!(clock_events(&[at(0), at(100), set]).1[0].contains("set by +3000.0 ms"));
        assert!(clock_events(&[at(0), at(100), slept]).1[0].contains("suspended for 9000 ms"));
        let jump = Anchor { ticks: 100 * 2_600_000 + 26_000_000, ..at(100) };
        assert!(clock_events(&[at(0), jump, at(200)]).1[0].contains("came apart"));
    }
}
