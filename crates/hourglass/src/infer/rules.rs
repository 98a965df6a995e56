//! By which rule does each question find its answer?
//!
//! A rule looks at one kind of evidence, and says what is lacking if there is too little of it. None of them
//! knows whose log it reads.

use super::period::{Moment, fit, frequencies, frequency, gathers};
use super::seen::{Ending, HANDOVER_NS, Seen, Stretch, TickClock, Wake};
use super::{Answer, Inference, Question, events};
use crate::plan::Timer;
use crate::stats::{Estimate, mean, median, ratio, wilson};
use schedlab_log::MissedCause;
use schedlab_report::units::time;
use schedlab_units::SchedPolicy;

/// Fewer samples say nothing.
pub(super) const LEAST: usize = 10;
/// Handlers of the tick take less.
pub(super) const TICK_NS_MAX: u64 = 200_000;
/// Switches take less, where it was not found how much.
const SWITCH_NS_MAX: f64 = 10_000.0;
/// An interval wider than this share of its value is no answer.
const WIDTH_MAX: f64 = 0.5;

/// Answers one question.
pub(crate) fn answer(question: Question, seen: &Seen) -> Inference {
    let (answer, remark) = match question {
        Question::Tick => tick(seen),
        Question::TickCost => tick_cost(seen),
        Question::Slice => slice(seen),
        Question::SwitchCost => switch_cost(seen),
        Question::DispatchLatency => dispatch_latency(seen),
        Question::TimerGrain => timer_grain(seen),
        Question::RtLimit => rt_limit(seen),
        Question::CpuMaxQuota => cpu_max(seen, false),
        Question::CpuMaxPeriod => cpu_max(seen, true),
        Question::HiddenShare => hidden_share(seen),
        Question::Reservation => reservation(seen),
        Question::NiceShare => nice_share(seen),
        Question::InterruptRate => events::interrupt_rate(seen),
        Question::InterruptCost => events::interrupt_cost(seen),
        Question::WakeupPreemption => events::wakeup_preemption(seen),
        Question::MigrationRate => events::migration_rate(seen),
        Question::MigrationCost => events::migration_cost(seen),
        Question::Family => family(seen),
    };
    Inference { question, answer, remark }
}

pub(super) type Found = (Answer, String);

pub(super) fn cannot(why: impl Into<String>, would: &'static str) -> Found {
    (Answer::CannotTell { why: why.into(), would }, String::new())
}

pub(super) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The estimate if it says anything.
pub(super) fn useful(estimate: Option<Estimate>) -> Option<Estimate> {
    estimate.filter(|e| e.value > 0.0 && (e.high - e.low) / e.value <= WIDTH_MAX)
}

/// Frequencies of ticks: whole ones, from the lowest that anyone builds to beyond the highest.
fn tick_candidates() -> Vec<f64> {
    (24..=1200).map(f64::from).collect()
}

/// Beginnings of short gaps in which a thread that computes kept its CPU. A thread that sleeps has interrupts
/// of its own making.
fn handlers(seen: &Seen) -> Vec<Moment> {
    let gaps = seen.gaps.iter().filter(|gap| gap.is_on_cpu() && gap.missed.ns < TICK_NS_MAX);
    gaps.filter(|gap| seen.computes(gap.thread)).map(|gap| (gap.cpu, gap.from_ns)).collect()
}

/// When threads that compute were switched out, which a tick may have asked for. A thread whose own time had come has
/// asked for it itself.
fn displaced(seen: &Seen) -> Vec<Moment> {
    let mut woken: Vec<Moment> = seen.wakes.iter().map(|wake| (wake.cpu, wake.ran_ns)).collect();
    woken.sort_unstable();
    let by_a_wakeup = |(cpu, at): Moment| {
        let next = woken.partition_point(|wake| *wake < (cpu, at));
        woken.get(next).is_some_and(|(of, ran)| *of == cpu && ran - at < HANDOVER_NS)
    };
    let out = seen.stretches.iter().filter(|s| s.ending == Ending::Preempted && seen.computes(s.thread));
    out.map(|stretch| (stretch.cpu, stretch.to_ns)).filter(|moment| !by_a_wakeup(*moment)).collect()
}

const TICK_WOULD: &str = "a thread that computes for 2 s or more (-w CPU -d 2s)";

/// A grid counts as the tick's if at least this share of its points has a gap or a switch while threads compute. A tick
/// interrupts whoever computes.
const OCCUPIED: f64 = 0.5;
/// Grids so many times finer or coarser than what the phases agree on are tried.
const TIMES_MAX: u32 = 12;
/// A finer grid is the tick's if its points are by this share as well occupied: half of them are at most, of a grid
/// that is too fine.
const AS_OCCUPIED: f64 = 0.75;
/// A period as a multiple and a part of another one.
type Ratio = (u32, u32);

/// The tick's grid. Handlers come first: switches may have a clock of their own. Where most ticks make a switch,
/// gaps alone show nothing, or every n-th tick.
fn tick_clock(seen: &Seen) -> Option<&TickClock> {
    let find = || {
        let (gaps, switches) = (handlers(seen), displaced(seen));
        let mut both = [gaps.clone(), switches.clone()].concat();
        both.sort_unstable();
        let sources = [
            (&gaps, "by the phases of gaps"),
            (&both, "by the phases of gaps and switches"),
            (&switches, "by the phases of switches: it may be the slice"),
        ];
        let grids = sources.into_iter().flat_map(|(moments, what)| {
            frequencies(moments, &tick_candidates()).into_iter().map(move |hz| (moments, what, hz))
        });
        grids.into_iter().find_map(|(moments, what, hz)| {
            let base = fit(moments, 1e9 / hz)?;
            let straight = Some(base.value).filter(|period| gathers(moments, *period));
            let ratio = occupied(seen, moments, &both, straight?)?;
            let cpus = moments.iter().map(|moment| moment.0).max().unwrap_or(0);
            let grid = |cpu: u32| Clockwork::of_ratio(&of_cpu(moments, cpu), base.value, ratio);
            let times = f64::from(ratio.0) / f64::from(ratio.1);
            let [value, low, high] = [base.value, base.low, base.high].map(|ns| ns * times);
            let hz = (hz / times).round();
            Some(TickClock {
                period: Estimate { value, low, high, ..base },
                hz,
                grids: (0..=cpus).map(grid).collect(),
                what,
            })
        })
    };
    // several rules ask, and the search takes longer than all else
    seen.tick_clock.get_or_init(find).as_ref()
}

/// The tick's grid among those that share moments with one of this period: the finest whose points have a gap or a
/// switch wherever a thread computed, as its period over the one given. `None`: no grid has one often enough.
fn occupied(seen: &Seen, moments: &[Moment], events: &[Moment], period: f64) -> Option<Ratio> {
    let ratios = (1..=TIMES_MAX).map(|times| (1, times)).chain((2..=TIMES_MAX).map(|times| (times, 1)));
    let computing: Vec<&Stretch> = seen.stretches.iter().filter(|s| seen.computes(s.thread)).collect();
    let events = by_cpu(events);
    let share = |ratio: Ratio| {
        let (mut points, mut hits) = (0u64, 0u64);
        for (cpu, own) in &events {
            let grid = Clockwork::of_ratio(&of_cpu(moments, *cpu), period, ratio);
            for stretch in computing.iter().filter(|stretch| stretch.cpu == *cpu) {
                // its end counts if something took the CPU there
                let end = match stretch.ending {
                    Ending::Preempted => stretch.to_ns as f64 + NEAR_TICK_NS,
                    _ => stretch.to_ns as f64 - NEAR_TICK_NS,
                };
                let mut at = grid.next(stretch.from_ns as f64 + NEAR_TICK_NS);
                while at < end {
                    let near = own.partition_point(|event| (event.1 as f64) < at - NEAR_TICK_NS);
                    let is_hit = own.get(near).is_some_and(|event| (event.1 as f64) < at + NEAR_TICK_NS);
                    points += 1;
                    hits += u64::from(is_hit);
                    at += grid.period;
                }
            }
        }
        wilson(hits, points).filter(|_| points as usize >= LEAST)
    };
    let is_near = |(up, down): &Ratio| {
        (1.0 / 1200.0..1.0 / 24.0).contains(&(period * f64::from(*up) / f64::from(*down) / 1e9))
    };
    let shares = ratios.filter(is_near).filter_map(|ratio| Some((ratio, share(ratio)?)));
    let shares: Vec<(Ratio, Estimate)> = shares.collect();
    // few points of many grids: one of them is well occupied by chance
    let best = shares.iter().map(|(_, share)| share.low).fold(0.0, f64::max);
    let well = shares.into_iter().filter(|(_, share)| best > OCCUPIED && share.value > AS_OCCUPIED * best);
    let finest = well.min_by(|(a, _), (b, _)| (a.0 * b.1).cmp(&(b.0 * a.1)));
    finest.map(|(ratio, _)| ratio)
}

/// Moments of each CPU.
fn by_cpu(moments: &[Moment]) -> Vec<(u32, Vec<Moment>)> {
    let mut sorted = moments.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a.0 == b.0).map(|own| (own[0].0, own.to_vec())).collect()
}

fn tick(seen: &Seen) -> Found {
    let seen_gaps = handlers(seen).len() + displaced(seen).len();
    if seen_gaps < LEAST {
        return cannot(format!("only {seen_gaps} gaps were seen while a thread computed"), TICK_WOULD);
    }
    match tick_clock(seen) {
        Some(TickClock { period, hz, what, .. }) if period.n as usize >= LEAST => {
            let remark = format!("{hz:.0} Hz, {what}; who runs every n-th tick only sees n ticks as one");
            (Answer::Is(*period), remark)
        }
        Some(_) => cannot("too few gaps lie on the grid", TICK_WOULD),
        None => {
            cannot("no frequency stands out among the gaps: no tick, or more noise than ticks", TICK_WOULD)
        }
    }
}

/// Moments of one CPU.
fn of_cpu(moments: &[Moment], cpu: u32) -> Vec<Moment> {
    moments.iter().copied().filter(|moment| moment.0 == cpu).collect()
}

/// Lengths of the gaps that lie on the tick's grid and are no switch.
fn tick_cost(seen: &Seen) -> Found {
    let (Answer::Is(found), _) = tick(seen) else { return cannot("the tick is not known", TICK_WOULD) };
    let grids = tick_grids(seen);
    let moments = handlers(seen);
    if frequency(&moments, &[1e9 / found.value]).is_none() {
        return cannot("every tick that was seen made a switch", TICK_WOULD);
    }
    let mut lengths = Vec::new();
    for (cpu, clockwork) in grids {
        let gaps = seen.gaps.iter().filter(|gap| gap.is_on_cpu() && gap.missed.ns < TICK_NS_MAX);
        let ticks = gaps.filter(|gap| gap.cpu == cpu && clockwork.off_ns(gap.from_ns) < NEAR_TICK_NS);
        lengths.extend(ticks.map(|gap| gap.missed.ns as f64 - seen.loop_ns));
    }
    match useful(median(&sorted(lengths))) {
        Some(found) => {
            (Answer::Is(found), "median gap on the tick's grid in which no other thread ran".into())
        }
        None => cannot("gaps on the tick's grid differ too much", TICK_WOULD),
    }
}

/// Lengths from taking a CPU over to handing it on, of threads that compute and have equals.
fn turns(seen: &Seen) -> Vec<f64> {
    let pairs: Vec<(&Stretch, &Stretch)> = seen.handovers().collect();
    let same = |a: usize, b: usize| {
        let [a, b] = [&seen.threads[a].0, &seen.threads[b].0];
        (a.policy, a.nice, a.rt_priority) == (b.policy, b.nice, b.rt_priority)
    };
    let full = pairs.windows(2).filter(|two| two[0].1 == two[1].0).filter(|two| {
        let (before, own, after) = (two[0].0, two[0].1, two[1].1);
        own.ending == Ending::Preempted
            && [before, own, after].iter().all(|stretch| seen.computes(stretch.thread))
            && same(own.thread, after.thread)
    });
    full.map(|two| (two[1].1.from_ns - two[0].1.from_ns) as f64).collect()
}

const SLICE_WOULD: &str = "two threads that compute on one CPU (-n 2 -a 0 -w CPU -d 2s)";

fn slice(seen: &Seen) -> Found {
    let turns = sorted(turns(seen));
    if turns.len() < LEAST {
        return cannot(
            format!("{} times did equal threads that compute take turns on a CPU", turns.len()),
            SLICE_WOULD,
        );
    }
    match useful(median(&turns)) {
        Some(found) => {
            let [low, high] =
                [turns[turns.len() / 20], turns[turns.len() * 19 / 20]].map(|ns| time(ns as u64));
            (
                Answer::Is(found),
                format!("median turn of a thread with an equal beside it; 90 % from {low} to {high}"),
            )
        }
        None => cannot("turns differ too much", SLICE_WOULD),
    }
}

/// Ticks and what they make of a switch lie so near the grid.
pub(super) const NEAR_TICK_NS: f64 = 5_000.0;

/// The tick's grid on each CPU; none if it is not known.
pub(super) fn tick_grids(seen: &Seen) -> Vec<(u32, Clockwork)> {
    tick_clock(seen).map_or(Vec::new(), |clock| (0..).zip(clock.grids.iter().copied()).collect())
}

/// What of each handover's gap is the tick's handler: nothing, unless it lies on the tick's grid. `None` if the grid is
/// not known, or what a tick costs.
fn tick_part(seen: &Seen) -> impl Fn(u32, u64) -> Option<f64> {
    let cost = match tick_cost(seen).0 {
        Answer::Is(found) => Some(found.value),
        _ => None,
    };
    let clockworks: Vec<Clockwork> = tick_clock(seen).map_or(Vec::new(), |clock| clock.grids.clone());
    // where the tick is not known, any switch may lie on one
    move |cpu, at| match clockworks.get(cpu as usize)?.off_ns(at) < NEAR_TICK_NS {
        true => cost,
        false => Some(0.0),
    }
}

fn switch_cost(seen: &Seen) -> Found {
    const WOULD: &str = "two threads on one CPU (-n 2 -a 0 -w CPU, or -w ONOFF 1ms 1ms)";
    let gap = |(a, b): (&Stretch, &Stretch)| (b.from_ns - a.to_ns) as f64 - seen.loop_ns;
    let slept: Vec<f64> = seen.handovers().filter(|(a, _)| a.ending == Ending::Slept).map(gap).collect();
    let forced: Vec<_> = seen.handovers().filter(|(a, _)| a.ending == Ending::Preempted).take(2000).collect();
    let mut unsure = (0.0, 0.0);
    let (values, what) = if slept.len() >= LEAST.max(forced.len()) {
        (slept, "from a thread that goes to sleep to the next")
    } else {
        let part = tick_part(seen);
        let less =
            |pair: &(&Stretch, &Stretch)| Some((gap(*pair) - part(pair.0.cpu, pair.0.to_ns)?).max(0.0));
        let values: Vec<f64> = forced.iter().filter_map(less).collect();
        if let Answer::Is(cost) = tick_cost(seen).0 {
            unsure = (cost.high - cost.value, cost.value - cost.low);
        }
        if values.len() * 2 < forced.len() {
            return cannot("switches lie on ticks, and what a tick alone costs is not known", WOULD);
        }
        (values, "from a thread that is preempted to the next, less a tick on it")
    };
    if values.len() < LEAST {
        let times = values.len();
        return cannot(format!("{times} times did one thread of the log take over from another"), WOULD);
    }
    // how well the tick's part is known belongs to the interval
    let with = |found: Estimate| {
        // (f64::hypot() would ask for glibc 2.35)
        let both = |a: f64, b: f64| (a * a + b * b).sqrt();
        let down = both(found.value - found.low, unsure.0);
        let up = both(found.high - found.value, unsure.1);
        Estimate { low: (found.value - down).max(0.0), high: found.value + up, ..found }
    };
    match useful(median(&sorted(values)).map(with)) {
        Some(found) => (Answer::Is(found), format!("median {what}, without the loop's own time")),
        None => cannot("the times between two threads differ too much", WOULD),
    }
}

/// Lateness of wakeups by one timer, in ns, of the timer with the most of them.
fn latest<'a>(seen: &'a Seen, by: impl Fn(&Wake) -> bool + 'a) -> Option<(Option<Timer>, Vec<&'a Wake>)> {
    let mut groups: Vec<(Option<Timer>, Vec<&Wake>)> = Vec::new();
    for wake in seen.wakes.iter().filter(|wake| by(wake)) {
        match groups.iter_mut().find(|(timer, _)| *timer == wake.timer) {
            Some((_, group)) => group.push(wake),
            None => groups.push((wake.timer, vec![wake])),
        }
    }
    groups.into_iter().max_by_key(|(_, group)| group.len())
}

fn name(timer: Option<Timer>) -> &'static str {
    timer.map_or("an unknown timer", Timer::name)
}

fn dispatch_latency(seen: &Seen) -> Found {
    const WOULD: &str = "a thread that sleeps at least ten times (-w LATENCY 10ms)";
    let to_idle = |wake: &Wake| !seen.is_held(wake);
    let Some((timer, wakes)) = latest(seen, to_idle).filter(|(_, wakes)| wakes.len() >= LEAST) else {
        let asked = seen.wakes.len();
        let why = format!("of {asked} wakeups less than {LEAST} were to a CPU that no thread of the log had");
        return cannot(why, WOULD);
    };
    let late = |wake: &&Wake| (wake.ran_ns.saturating_sub(wake.due_ns) as f64 - seen.loop_ns).max(0.0);
    let late = sorted(wakes.iter().map(late).collect());
    let preempting = wakes.iter().filter(|wake| wake.preempts).count();
    match median(&late) {
        Some(found) => {
            let worst = time(late[late.len() - 1] as u64);
            let remark = format!(
                "median from the time asked of {} to running; worst {worst}; {preempting} of {} displaced another",
                name(timer),
                late.len()
            );
            (Answer::Is(found), remark)
        }
        None => cannot("too few wakeups", WOULD),
    }
}

/// Steps that timers are known to have, in ns, beside the tick: jiffies of all builds, ms, powers of two of a second.
const GRAINS_NS: [f64; 10] = [
    10e6,
    4e6,
    1e9 / 300.0,
    1e6,
    1e9 / 64.0,
    1e9 / 128.0,
    1e9 / 256.0,
    1e9 / 512.0,
    1e9 / 1024.0,
    1e9 / 8192.0,
];

fn timer_grain(seen: &Seen) -> Found {
    const WOULD: &str = "a thread that sleeps to odd times a hundred times (-w LATENCY 1370us)";
    match latest(seen, |_| true).filter(|(_, wakes)| wakes.len() >= 30) {
        Some((timer, wakes)) => grain(seen, timer, &wakes),
        None => cannot(format!("{} wakeups were asked for, 30 are needed", seen.wakes.len()), WOULD),
    }
}

/// On what grid these wakeups by one timer lie.
pub(super) fn grain(seen: &Seen, timer: Option<Timer>, wakes: &[&Wake]) -> Found {
    if wakes.len() < 30 {
        return cannot(format!("{} wakeups were asked for, 30 are needed", wakes.len()), "more of them");
    }
    let mut candidates = GRAINS_NS.to_vec();
    if let (Answer::Is(found), _) = tick(seen) {
        candidates.push(found.value);
    }
    // each thread for itself: the first of several on one place of the grid would be the least late one
    let ran: Vec<Moment> = wakes.iter().map(|wake| (wake.thread as u32, wake.ran_ns)).collect();
    let due: Vec<Moment> = wakes.iter().map(|wake| (wake.thread as u32, wake.due_ns)).collect();
    candidates.sort_by(|a, b| b.total_cmp(a));
    for grain in candidates {
        let hz = [1e9 / grain];
        // what was asked for must not lie on the grid itself
        if frequency(&ran, &hz).is_some() && frequency(&due, &hz).is_none() {
            let clockwork = Clockwork::through(&ran, grain);
            let share = ran.iter().filter(|(_, at)| clockwork.has(*at)).count();
            if share * 10 >= ran.len() * 8
                && let Some(found) = fit(&ran, grain)
            {
                return (Answer::Is(found), format!("{} wakes on a grid", name(timer)));
            }
        }
    }
    let late = sorted(wakes.iter().map(|wake| wake.ran_ns.saturating_sub(wake.due_ns) as f64).collect());
    let bound = late[late.len() * 3 / 4] - late[late.len() / 20];
    let remark = format!("{} wakes on no grid that is coarser than the spread of its lateness", name(timer));
    (Answer::AtMost { bound: bound.max(1.0), n: late.len() as u64 }, remark)
}

/// A grid in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clockwork {
    period: f64,
    phase: f64,
}

fn angle(at: u64, period: f64) -> f64 {
    (at as f64 / period).fract() * std::f64::consts::TAU
}

impl Clockwork {
    /// Through the mean phase of these moments, then of those of them that are near it: others, which mean
    /// nothing, would pull it away.
    fn through(moments: &[Moment], period: f64) -> Clockwork {
        let mean = |moments: &mut dyn Iterator<Item = u64>| {
            let angles = moments.map(|at| angle(at, period));
            let (re, im) = angles.fold((0.0, 0.0), |(re, im), angle| (re + angle.cos(), im + angle.sin()));
            im.atan2(re)
        };
        let mut clockwork = Clockwork { period, phase: mean(&mut moments.iter().map(|moment| moment.1)) };
        for width in [0.1, 0.04, 0.015, 0.005] {
            let near =
                moments.iter().map(|moment| moment.1).filter(|at| clockwork.off_ns(*at) < width * period);
            let near: Vec<u64> = near.collect();
            if near.len() >= 3 {
                clockwork.phase = mean(&mut near.into_iter());
            }
        }
        clockwork
    }

    /// Through moments of this period, with another one that shares points with it. Of the grids with several such
    /// periods it is the one on which most moments lie.
    fn of_ratio(moments: &[Moment], period: f64, (up, down): Ratio) -> Clockwork {
        let own = Clockwork::through(moments, period);
        let each = (0..up).map(|nth| own.coarser(up, nth));
        let near =
            |grid: &Clockwork| moments.iter().filter(|moment| grid.off_ns(moment.1) < NEAR_TICK_NS).count();
        let most = each.map(|grid| (near(&grid), grid)).reduce(|a, b| if b.0 > a.0 { b } else { a });
        most.map_or(own, |(_, grid)| grid).finer(down)
    }

    /// With every so many-th point alone, from the nth on.
    fn coarser(self, times: u32, nth: u32) -> Clockwork {
        let turn = self.phase + std::f64::consts::TAU * f64::from(nth);
        Clockwork { period: self.period * f64::from(times), phase: turn / f64::from(times) }
    }

    /// With so many more times in each period.
    fn finer(self, times: u32) -> Clockwork {
        Clockwork { period: self.period / f64::from(times), phase: self.phase * f64::from(times) }
    }

    /// The first point of the grid behind a moment.
    fn next(&self, at_ns: f64) -> f64 {
        let phase = self.phase / std::f64::consts::TAU * self.period;
        phase + ((at_ns - phase) / self.period).ceil() * self.period
    }

    pub(super) fn period(&self) -> f64 {
        self.period
    }

    /// How far a moment lies from the grid.
    pub(super) fn off_ns(&self, at: u64) -> f64 {
        let off = (angle(at, self.period) - self.phase) / std::f64::consts::TAU;
        (off - off.round()).abs() * self.period
    }

    /// Whether a moment lies within a twentieth of a period of the grid.
    fn has(&self, at: u64) -> bool {
        self.off_ns(at) < 0.05 * self.period
    }
}

fn rt_limit(seen: &Seen) -> Found {
    const WOULD: &str = "a real-time thread that computes for 5 s (-p FIFO 1 -w CPU -a 0 -d 5s, as root)";
    let is_rt =
        |thread: usize| matches!(seen.threads[thread].0.policy, SchedPolicy::Fifo | SchedPolicy::RoundRobin);
    if !(0..seen.threads.len()).any(|thread| is_rt(thread) && seen.computes(thread)) {
        return cannot("no real-time thread computes in this log", WOULD);
    }
    let mut ends: Vec<(usize, u64, u64)> =
        seen.of_cause(MissedCause::RtLimit).map(|gap| (gap.thread, gap.from_ns, gap.end_ns())).collect();
    ends.sort_unstable();
    let whole = ends.windows(2).filter(|two| two[0].0 == two[1].0).map(|two| (two[1].1 - two[0].2) as f64);
    match useful(mean(&whole.collect::<Vec<_>>())) {
        Some(found) => (
            Answer::Is(found),
            "from one pause of real-time threads to the next; the fair server pauses them too".into(),
        ),
        None => cannot(format!("real-time threads were held back {} times, 4 are needed", ends.len()), WOULD),
    }
}

/// When a group that was held back went on. Of threads that were held back together the first to run tells: one that
/// shares its CPU comes a turn later.
fn refills(seen: &Seen) -> Vec<u64> {
    let mut held: Vec<(u64, u64)> =
        seen.of_cause(MissedCause::CpuMax).map(|gap| (gap.from_ns, gap.end_ns())).collect();
    held.sort_unstable();
    let mut ends: Vec<u64> = Vec::new();
    for (from, end) in held {
        match ends.last_mut().filter(|last| from < **last) {
            Some(last) => *last = end.min(*last),
            None => ends.push(end),
        }
    }
    ends
}

/// Whether half of the period would show the same pauses. Time is taken from a quota at ticks: where half a period
/// is a number of ticks, a group that has used its quota up shortly before its end may run into the next.
fn may_be_a_part(seen: &Seen, period: f64, ends: &[u64]) -> Option<String> {
    let Answer::Is(tick) = tick(seen).0 else { return None };
    let ticks = period / 2.0 / tick.value;
    let is_commensurate = ticks > 0.5 && (ticks - ticks.round()).abs() < 0.01;
    let paused = seen.of_cause(MissedCause::CpuMax).map(|gap| gap.missed.ns as f64).collect::<Vec<_>>();
    let pause = sorted(paused).into_iter().next()?;
    let said = |what: f64| time(what as u64);
    (ends.len() > 1 && is_commensurate && pause < 2.0 * tick.value).then(|| {
        format!("the period is {} or a part of it: ticks of {} hide pauses", said(period), said(tick.value))
    })
}

/// Stretches and pauses of a group under cpu.max: the ends of pauses lie on the grid of its periods.
fn cpu_max(seen: &Seen, period: bool) -> Found {
    const WOULD: &str = "threads that compute in the group for 10 of its periods (-c DIR -n 2 -w CPU)";
    let ends = refills(seen);
    if ends.len() < 6 {
        return cannot(format!("a group was held back {} times", ends.len()), WOULD);
    }
    let steps = sorted(ends.windows(2).map(|two| (two[1] - two[0]) as f64).collect());
    // a period may pass without a pause; the shortest steps are single periods, late ones apart
    let single = steps[steps.len() / 10];
    let about: Vec<f64> = steps.iter().copied().filter(|step| (step / single - 1.0).abs() < 0.2).collect();
    let about = about[about.len() / 2];
    let moments: Vec<Moment> = ends.iter().map(|end| (0, *end)).collect();
    let Some(found) = fit(&moments, about).filter(|found| found.n >= 5 && found.n as usize * 2 >= ends.len())
    else {
        return cannot("the ends of its pauses lie on no grid", WOULD);
    };
    if let Some(why) = may_be_a_part(seen, found.value, &ends) {
        return cannot(why, "a kernel with a shorter tick, or a smaller quota");
    }
    if period {
        return (Answer::Is(found), "by the moments at which a paused group goes on".into());
    }
    let cycles: Vec<(u64, u64)> = ends
        .windows(2)
        .filter(|two| ((two[1] - two[0]) as f64 / found.value - 1.0).abs() < 0.2)
        .map(|two| (two[0], two[1]))
        .collect();
    let charged = seen.charged();
    let ran = |(from, to): (u64, u64)| {
        let within = |s: &Stretch| s.to_ns.min(to).saturating_sub(s.from_ns.max(from)) as f64;
        charged.iter().map(within).sum::<f64>()
    };
    // the group pays for the first switch of a period on each CPU, which no thread of it sees
    let cpus = by_cpu(&displaced(seen)).len() as f64;
    let unseen = match switch_cost(seen).0 {
        Answer::Is(switch) => cpus * switch.high,
        _ => cpus * SWITCH_NS_MAX,
    };
    // time is taken from the quota at ticks: over any number of periods in a row it is ahead by up to a tick on each
    // CPU, or behind by the debt of the period before. Periods that are alike say nothing of that: they may all end
    // at the same tick.
    let rows = 1 + cycles.windows(2).filter(|two| two[0].1 != two[1].0).count();
    let owed = match tick(seen).0 {
        Answer::Is(tick) => cpus * tick.value * rows as f64 / cycles.len().max(1) as f64,
        _ => 0.0,
    };
    let paid = |found: Estimate| match owed > 0.0 {
        true => Estimate { low: found.value - owed, high: found.value + owed + unseen, ..found },
        false => Estimate { high: found.high + unseen, ..found },
    };
    match useful(mean(&cycles.into_iter().map(ran).collect::<Vec<_>>()).map(paid)) {
        Some(quota) => {
            let tick = match tick(seen).0 {
                Answer::Is(tick) => {
                    format!("; single periods go over it by up to a tick ({})", time(tick.value as u64))
                }
                _ => String::new(),
            };
            (Answer::Is(quota), format!("CPU time of the log's threads from refill to refill{tick}"))
        }
        None => cannot("the CPU time in its periods differs too much", WOULD),
    }
}

fn hidden_share(seen: &Seen) -> Found {
    const WOULD: &str = "a thread that computes for 2 s (-w CPU -d 2s)";
    const BLOCKS: u64 = 20;
    let computing: Vec<bool> = (0..seen.threads.len()).map(|thread| seen.computes(thread)).collect();
    let block_ns = (seen.duration_ns / BLOCKS).max(1);
    let (mut had, mut hidden) = (vec![0.0; BLOCKS as usize], vec![0.0; BLOCKS as usize]);
    let spread = |into: &mut Vec<f64>, from_ns: u64, to_ns: u64| {
        let mut at = from_ns;
        while at < to_ns {
            let block = (at / block_ns).min(BLOCKS - 1);
            let end = if block + 1 == BLOCKS { to_ns } else { to_ns.min((block + 1) * block_ns) };
            into[block as usize] += (end - at) as f64;
            at = end;
        }
    };
    for stretch in seen.stretches.iter().filter(|stretch| computing[stretch.thread]) {
        spread(&mut had, stretch.from_ns, stretch.to_ns);
    }
    for gap in seen.gaps.iter().filter(|gap| gap.is_on_cpu() && computing[gap.thread]) {
        let loop_ns = (seen.loop_ns as u64).min(gap.missed.ns);
        spread(&mut hidden, gap.from_ns, gap.end_ns() - loop_ns);
    }
    let gaps = seen.gaps.iter().filter(|gap| gap.is_on_cpu()).count();
    let blocks: Vec<(f64, f64)> =
        had.into_iter().zip(hidden).filter(|(had, _)| *had > block_ns as f64 / 20.0).collect();
    match ratio(&blocks) {
        Some(found) if blocks.len() >= 5 => {
            let found = Estimate { low: found.low.max(0.0), n: gaps as u64, ..found };
            let remark = "interrupts, hypervisor and the unexplained, of the time on a CPU";
            (Answer::Is(found), remark.into())
        }
        _ => cannot("no thread computed for most of the time", WOULD),
    }
}

fn reservation(seen: &Seen) -> Found {
    let missed = seen.jobs.iter().filter(|job| job.late).count() as u64;
    match wilson(missed, seen.jobs.len() as u64) {
        Some(share) if seen.jobs.len() >= LEAST => {
            let kept = match () {
                () if share.high < 0.01 => "kept",
                () if share.low > 0.01 => "not kept",
                () => "not decided at 1 %",
            };
            (Answer::Is(share), format!("share of deadlines missed: the reservation is {kept}"))
        }
        _ => cannot(
            format!("{} jobs have a deadline in this log", seen.jobs.len()),
            "a periodic thread (-w PERIODIC 4ms 5ms, at least 400 jobs)",
        ),
    }
}

/// Logarithm of the ratio of the shares of two threads that compute on one CPU at different nice values, by
/// blocks of the run; and what the weights of Linux's fair class would give.
fn weights(seen: &Seen) -> Option<(Estimate, f64)> {
    const BLOCKS: u64 = 10;
    let normal: Vec<usize> = (0..seen.threads.len())
        .filter(|thread| seen.computes(*thread) && seen.threads[*thread].0.policy == SchedPolicy::Normal)
        .collect();
    let [a, b] = *normal.as_slice() else { return None };
    let cpus = |thread: usize| {
        let mut cpus: Vec<u32> =
            seen.stretches.iter().filter(|s| s.thread == thread).map(|s| s.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    };
    let nice = |thread: usize| seen.threads[thread].0.nice;
    if nice(a) == nice(b) || cpus(a) != cpus(b) || cpus(a).len() != 1 {
        return None;
    }
    let block_ns = (seen.duration_ns / BLOCKS).max(1);
    let charged = seen.charged();
    let ran = |thread: usize, block: u64| -> f64 {
        let (from, to) = (block * block_ns, (block + 1) * block_ns);
        let own = charged.iter().filter(|stretch| stretch.thread == thread);
        own.map(|s| s.to_ns.min(to).saturating_sub(s.from_ns.max(from)) as f64).sum()
    };
    let ratios = (0..BLOCKS).map(|block| (ran(a, block), ran(b, block)));
    let ratios: Vec<f64> = ratios.filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| (a / b).ln()).collect();
    let weight = |thread: usize| nice(thread).weight().0 as f64;
    let found = mean(&ratios).filter(|_| ratios.len() * 2 >= BLOCKS as usize)?;
    Some((found, (weight(a) / weight(b)).ln()))
}

const NICER_WOULD: &str =
    "two threads that compute on one CPU, one of them nicer (-n 2 -a 0 -w CPU -t 1 -p NICE 5 -d 2s)";

fn nice_share(seen: &Seen) -> Found {
    let Some((had, due)) = weights(seen) else {
        return cannot("no two normal threads of different nice values shared a CPU", NICER_WOULD);
    };
    // more for whom is less nice, whichever thread of the log that is
    let sign = if due < 0.0 { -1.0 } else { 1.0 };
    let [low, high] = [had.low * sign, had.high * sign].map(f64::exp);
    let found =
        Estimate { value: (had.value * sign).exp(), low: low.min(high), high: low.max(high), n: had.n };
    let linux = (due * sign).exp();
    match useful(Some(found)) {
        Some(found) => (
            Answer::Is(found),
            format!(
                "CPU time of a thread beside that of a nicer one; Linux's weights would give {linux:.2} : 1"
            ),
        ),
        None => cannot("shares differ too much from one part of the run to the next", NICER_WOULD),
    }
}

fn family(seen: &Seen) -> Found {
    const WOULD: &str = NICER_WOULD;
    let n = seen.handovers().count() as u64;
    if let Some((had, due)) = weights(seen) {
        // blocks end within turns: what that makes of a share is no doubt about the weights
        let near = |value: f64| had.holds(value) || (had.value - value).abs() < 0.05;
        let ratio = |value: f64| format!("{:.2} : 1", value.exp());
        let said = format!(
            "nice values gave {} (95 %: {} to {}); weights of Linux's fair class would give {}",
            ratio(had.value),
            ratio(had.low),
            ratio(had.high),
            ratio(due)
        );
        return match (near(due), near(0.0)) {
            (true, false) => (Answer::Named { name: "fair", confidence_pct: 95, n: had.n }, said),
            (false, true) => (Answer::Named { name: "round robin", confidence_pct: 85, n: had.n }, said),
            _ => cannot(said, WOULD),
        };
    }
    let turns = sorted(turns(seen));
    if turns.len() >= LEAST {
        let (low, high) = (turns[turns.len() / 20], turns[turns.len() * 19 / 20]);
        let regular = high - low < 0.02 * high + 20_000.0;
        let tick = match tick(seen).0 {
            Answer::Is(found) => Some(found.value),
            _ => None,
        };
        let said = format!("equal threads took turns of {} to {}", time(low as u64), time(high as u64));
        return match tick {
            _ if regular && low > 45e6 => {
                (Answer::Named { name: "round robin", confidence_pct: 80, n }, said)
            }
            Some(tick) if high < 5.0 * tick && high < 40e6 => {
                (Answer::Named { name: "fair", confidence_pct: 60, n }, format!("{said}, a few ticks"))
            }
            _ if regular => (Answer::Named { name: "round robin", confidence_pct: 60, n }, said),
            _ => cannot(said, WOULD),
        };
    }
    // several threads that compute share their CPUs, and one of them never had to give way
    let computing = (0..seen.threads.len()).filter(|thread| seen.computes(*thread)).count();
    let rival = seen.stretches.iter().filter(|s| s.ending == Ending::Preempted).count();
    if computing >= 2 && rival == 0 && n == 0 && seen.duration_ns > 50 * HANDOVER_NS {
        return cannot("no thread ever gave way: run to block, or a CPU for each thread", WOULD);
    }
    cannot(format!("{} turns of equal threads were seen", turns.len()), WOULD)
}
