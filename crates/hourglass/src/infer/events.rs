//! What comes in between: interrupts, wakeups that take a CPU away, threads that move, and each timer for itself.
//!
//! ```text
//!   gap on the tick's grid      a tick
//!   any other short one         an interrupt, which counts here:  412 a second, 2.1 us each
//!
//!   a thread's time comes while another one of the log computes on that CPU:
//!     it runs within .2 ms      it took the CPU away
//!     later                     it waited for the other's turn to end
//! ```

use super::rules::{
    Clockwork, Found, LEAST, NEAR_TICK_NS, TICK_NS_MAX, cannot, grain, sorted, tick_grids, useful,
};
use super::seen::{HANDOVER_NS, Seen, Wake};
use super::{Answer, TimerRow};
use crate::plan::Timer;
use crate::stats::{Estimate, median, ratio, wilson};
use schedlab_log::MissedCause;
use schedlab_report::units::time;

/// Parts of a run whose rates are compared with each other for an interval.
const BLOCKS: u64 = 20;

const INTERRUPT_WOULD: &str = "a thread that computes for 2 s or more (-w CPU -d 2s)";

/// Begin and length of each interrupt that is no tick, as threads that compute saw them.
fn interrupts(seen: &Seen) -> Vec<(u64, f64)> {
    let grids: Vec<(u32, Clockwork)> = tick_grids(seen);
    let is_tick =
        |cpu: u32, at: u64| grids.iter().any(|(of, grid)| *of == cpu && grid.off_ns(at) < NEAR_TICK_NS);
    let gaps = seen.of_cause(MissedCause::Interrupt);
    let gaps = gaps.filter(|gap| gap.missed.ns < TICK_NS_MAX && seen.computes(gap.thread));
    let gaps = gaps.filter(|gap| !is_tick(gap.cpu, gap.from_ns));
    gaps.map(|gap| (gap.from_ns, (gap.missed.ns as f64 - seen.loop_ns).max(0.0))).collect()
}

/// In each part of the run: seconds in which threads that compute had a CPU, and how many of these moments
/// fell into it.
fn in_blocks(seen: &Seen, moments: impl Iterator<Item = u64>) -> Vec<(f64, f64)> {
    let block_ns = (seen.duration_ns / BLOCKS).max(1);
    let block_of = |at: u64| ((at / block_ns).min(BLOCKS - 1)) as usize;
    let mut blocks = vec![(0.0, 0.0); BLOCKS as usize];
    for stretch in seen.stretches.iter().filter(|stretch| seen.computes(stretch.thread)) {
        let mut at = stretch.from_ns;
        while at < stretch.to_ns {
            let block = block_of(at);
            let end = if block as u64 + 1 == BLOCKS { stretch.to_ns } else { (block as u64 + 1) * block_ns };
            let end = end.min(stretch.to_ns);
            blocks[block].0 += (end - at) as f64 / 1e9;
            at = end;
        }
    }
    moments.for_each(|at| blocks[block_of(at)].1 += 1.0);
    blocks.retain(|(seconds, _)| *seconds > 0.0);
    blocks
}

/// A rate of `n` events: where one more or less would have been seen by another begin of the run, it is not
/// known better.
fn counted(rate: Estimate, n: usize, seconds: f64) -> Estimate {
    let one = 1.0 / seconds.max(1e-9);
    let low = rate.low.min(rate.value - one).max(0.0);
    Estimate { low, high: rate.high.max(rate.value + one), n: n as u64, ..rate }
}

/// How many interrupts beside the tick hit a thread that computes, in a second of its time.
pub(super) fn interrupt_rate(seen: &Seen) -> Found {
    let found = interrupts(seen);
    if found.len() < LEAST {
        return cannot(format!("{} interrupts beside ticks were seen", found.len()), INTERRUPT_WOULD);
    }
    let blocks = in_blocks(seen, found.iter().map(|(at, _)| *at));
    // the time near ticks is left out
    let grids = tick_grids(seen);
    let seen_share = grids.first().map_or(1.0, |(_, grid)| 1.0 - 2.0 * NEAR_TICK_NS / grid.period());
    let blocks: Vec<(f64, f64)> = blocks.into_iter().map(|(seconds, n)| (seconds * seen_share, n)).collect();
    match useful(ratio(&blocks)) {
        Some(rate) => {
            let rate = counted(rate, found.len(), blocks.iter().map(|(seconds, _)| seconds).sum());
            let remark =
                "interrupts beside ticks in a second of a thread that computes, beyond the threshold of gaps";
            (Answer::Is(rate), remark.into())
        }
        None => cannot("their number differs too much from one part of the run to the next", INTERRUPT_WOULD),
    }
}

/// How long such an interrupt takes.
pub(super) fn interrupt_cost(seen: &Seen) -> Found {
    let lengths = sorted(interrupts(seen).into_iter().map(|(_, ns)| ns).collect());
    if lengths.len() < LEAST {
        return cannot(format!("{} interrupts beside ticks were seen", lengths.len()), INTERRUPT_WOULD);
    }
    match useful(median(&lengths)) {
        Some(found) => {
            (Answer::Is(found), "median gap beside the tick's grid in which no other thread ran".into())
        }
        None => cannot("gaps beside the tick's grid differ too much", INTERRUPT_WOULD),
    }
}

/// How often a thread that is woken takes the CPU from one that runs there.
pub(super) fn wakeup_preemption(seen: &Seen) -> Found {
    const WOULD: &str =
        "a thread that sleeps beside one that computes (-n 2 -a 0 -w CPU -t 1 -w LATENCY 1370us)";
    let held: Vec<&Wake> = seen.wakes.iter().filter(|wake| seen.is_held(wake)).collect();
    let displaced = held.iter().filter(|wake| wake.ran_ns.saturating_sub(wake.due_ns) < HANDOVER_NS).count();
    match wilson(displaced as u64, held.len() as u64) {
        Some(share) if held.len() >= LEAST => {
            let remark = "share of wakeups at once, of those to a CPU on which another thread of the log ran";
            (Answer::Is(share), remark.into())
        }
        _ => cannot(
            format!("{} times did a thread's time come while another one ran there", held.len()),
            WOULD,
        ),
    }
}

/// How often threads that may move do.
pub(super) fn migration_rate(seen: &Seen) -> Found {
    const WOULD: &str =
        "threads that may run on several CPUs, more of them than CPUs (-n 3 -w CPU, without -a)";
    let free = (0..seen.threads.len()).filter(|thread| seen.may_move[*thread]).count();
    if free == 0 {
        return cannot("no thread of this log may run on two CPUs", WOULD);
    }
    let seconds = seen.duration_ns as f64 / 1e9 * free as f64;
    if seen.moves.is_empty() {
        // the rule of three: with this rate nothing is seen one time in twenty
        let bound = 3.0 / seconds.max(1e-9);
        return (Answer::AtMost { bound, n: 0 }, "nobody moved".into());
    }
    let block_ns = (seen.duration_ns / BLOCKS).max(1);
    let mut blocks = vec![(seconds / BLOCKS as f64, 0.0); BLOCKS as usize];
    seen.moves.iter().for_each(|at| blocks[(at / block_ns).min(BLOCKS - 1) as usize].1 += 1.0);
    match ratio(&blocks) {
        Some(rate) if seen.moves.len() >= LEAST => {
            let remark = "moves of a thread to another CPU, in a second of the run";
            (Answer::Is(counted(rate, seen.moves.len(), seconds)), remark.into())
        }
        _ => cannot(format!("threads moved {} times, {LEAST} are needed", seen.moves.len()), WOULD),
    }
}

/// How much later a thread runs that is woken on another CPU than before.
pub(super) fn migration_cost(seen: &Seen) -> Found {
    const WOULD: &str = "threads that sleep and may move (-n 2 -w LATENCY 1370us -d 10s, without -a)";
    let late = |moved: bool| {
        let wakes = seen.wakes.iter().filter(|wake| wake.moved == moved && !wake.preempts);
        sorted(wakes.map(|wake| wake.ran_ns.saturating_sub(wake.due_ns) as f64).collect())
    };
    let [here, there] = [late(false), late(true)];
    let (Some(a), Some(b), true) = (median(&here), median(&there), there.len().min(here.len()) >= LEAST)
    else {
        let why =
            format!("threads woke on another CPU {} times, on the same {} times", there.len(), here.len());
        return cannot(why, WOULD);
    };
    let both = |a: f64, b: f64| (a * a + b * b).sqrt();
    let found = Estimate {
        value: b.value - a.value,
        low: b.value - a.value - both(b.value - b.low, a.high - a.value),
        high: b.value - a.value + both(b.high - b.value, a.value - a.low),
        n: b.n,
    };
    let remark = "what a wakeup on another CPU comes later than one on the same, medians";
    match useful(Some(found)) {
        Some(found) if found.low > 0.0 => (Answer::Is(found), remark.into()),
        _ if found.high > 0.0 => (Answer::AtMost { bound: found.high, n: found.n }, remark.into()),
        _ => cannot("wakeups on another CPU come earlier than those on the same", WOULD),
    }
}

/// A row for each timer that woke somebody ten times.
pub(super) fn timers(seen: &Seen) -> Vec<TimerRow> {
    let of = |timer: Timer| {
        let own = seen.wakes.iter().filter(|wake| wake.timer == Some(timer) && !seen.is_held(wake));
        let wakes: Vec<&Wake> = own.collect();
        let late = |wake: &&Wake| (wake.ran_ns.saturating_sub(wake.due_ns) as f64 - seen.loop_ns).max(0.0);
        let late = sorted(wakes.iter().map(late).collect());
        let latency = median(&late).filter(|_| late.len() >= LEAST)?;
        let worst_ns = late[late.len() - 1];
        Some(TimerRow { timer: timer.name(), latency, worst_ns, grain: grain(seen, Some(timer), &wakes).0 })
    };
    Timer::ALL.into_iter().filter_map(of).collect()
}

impl Seen {
    /// Whether another thread of the log had the CPU when this wakeup's time came.
    pub(super) fn is_held(&self, wake: &Wake) -> bool {
        let own = self.on_cpu(wake.cpu);
        let first = own.partition_point(|stretch| stretch.to_ns < wake.due_ns);
        own[first..]
            .iter()
            .take_while(|stretch| stretch.from_ns < wake.due_ns)
            .any(|stretch| stretch.thread != wake.thread)
    }

    /// The stretches of one CPU, in order of time.
    fn on_cpu(&self, cpu: u32) -> &[super::seen::Stretch] {
        let from = self.stretches.partition_point(|stretch| stretch.cpu < cpu);
        let to = self.stretches.partition_point(|stretch| stretch.cpu <= cpu);
        &self.stretches[from..to]
    }
}

/// In words, for the terminal.
pub(super) fn timer_line(row: &TimerRow) -> String {
    let grain = match &row.grain {
        Answer::Is(found) => format!("a grid of {}", time(found.value as u64)),
        Answer::AtMost { bound, .. } => format!("no grid above {}", time(*bound as u64)),
        _ => "grid: cannot tell".into(),
    };
    let [value, low, high, worst] = [row.latency.value, row.latency.low, row.latency.high, row.worst_ns]
        .map(|ns| time(ns.max(0.0) as u64));
    format!("{:<9} {value:>9}   {:<22} worst {worst:>9}   {grain}", row.timer, format!("{low} to {high}"))
}

#[cfg(test)]
mod tests {
    use super::super::seen::{Ending, Gap, Stretch};
    use super::*;
    use crate::plan::Model;
    use schedlab_log::Missed;
    use schedlab_units::{Nice, SchedParams};

    const MS: u64 = 1_000_000;

    /// A thread that computes on CPU 0 for two seconds, and one that sleeps.
    fn seen() -> Seen {
        let params = SchedParams::normal(Nice::default());
        let whole = Stretch { thread: 0, cpu: 0, from_ns: 0, to_ns: 2000 * MS, ending: Ending::Over };
        Seen {
            duration_ns: 2000 * MS,
            threads: vec![(params, Some(Model::Cpu)), (params, None)],
            may_move: vec![true, true],
            stretches: vec![whole],
            ..Seen::default()
        }
    }

    fn gap(from_ns: u64, ns: u64) -> Gap {
        let missed = Missed { ns, cause: MissedCause::Interrupt, confidence_pct: 90, switches: 0 };
        Gap { thread: 0, cpu: 0, from_ns, missed }
    }

    #[test]
    fn ticks_are_no_interrupts() {
        let mut seen = seen();
        // ticks of 3 us each 4 ms; interrupts of 7 us each 9.7 ms, which do not keep the tick's grid
        seen.gaps.extend((0..500).map(|n| gap(n * 4 * MS, 3_000)));
        seen.gaps.extend((0..206).map(|n| gap(n * 9_700_000 + 1_234_567, 7_000)));
        seen.gaps.sort_by_key(|gap| gap.from_ns);
        let (Answer::Is(rate), _) = interrupt_rate(&seen) else { panic!("{:?}", interrupt_rate(&seen)) };
        assert!(rate.holds(1e9 / 9_700_000.0), "{rate:?}");
        let (Answer::Is(cost), _) = interrupt_cost(&seen) else { panic!("{:?}", interrupt_cost(&seen)) };
        assert!((cost.value - 7_000.0).abs() < 1.0, "{cost:?}");
    }

    #[test]
    fn a_wakeup_that_waits_for_the_turns_end_displaces_nobody() {
        let mut seen = seen();
        let wake = |n: u64, late_ns: u64| {
            let due_ns = n * 10 * MS;
            let (timer, ran_ns) = (Some(Timer::Absolute), due_ns + late_ns);
            Wake { thread: 1, cpu: 0, moved: false, timer, due_ns, ran_ns, preempts: true }
        };
        seen.wakes.extend((1..=30).map(|n| wake(n, if n % 3 == 0 { 2 * MS } else { 5_000 })));
        let (Answer::Is(share), _) = wakeup_preemption(&seen) else { panic!("no answer") };
        assert_eq!((share.value, share.n), (20.0 / 30.0, 30));
        // on another CPU nobody ran
        seen.wakes.iter_mut().for_each(|wake| wake.cpu = 1);
        assert!(matches!(wakeup_preemption(&seen).0, Answer::CannotTell { .. }));
    }

    #[test]
    fn moves_have_a_rate_and_a_price() {
        let mut seen = seen();
        let Answer::AtMost { bound, n: 0 } = migration_rate(&seen).0 else { panic!("nobody moved") };
        assert!((bound - 0.75).abs() < 1e-9, "three in four seconds of threads: {bound}");
        seen.moves.extend((0..40).map(|n| n * 50 * MS));
        let (Answer::Is(rate), _) = migration_rate(&seen) else { panic!("no answer") };
        assert!(rate.holds(10.0), "{rate:?}");
        let wake = |n: u64| {
            let (due_ns, moved) = (n * 10 * MS, n.is_multiple_of(2));
            let ran_ns = due_ns + 20_000 + n % 5 * 100 + if moved { 3_000 } else { 0 };
            // thread 0 computes on CPU 0: there a wakeup would wait
            Wake { thread: 1, cpu: 1, moved, timer: Some(Timer::Absolute), due_ns, ran_ns, preempts: false }
        };
        seen.wakes.extend((1..=100).map(wake));
        let (Answer::Is(cost), _) = migration_cost(&seen) else { panic!("{:?}", migration_cost(&seen)) };
        assert!(cost.holds(3_000.0), "{cost:?}");
        let rows = timers(&seen);
        assert_eq!((rows.len(), rows[0].timer, rows[0].latency.n), (1, Timer::Absolute.name(), 100));
    }
}
