//! What a sleep at a channel takes of CPU time, as far as the recording shows it.
//!
//! A task that finds a message reads it and goes on; one that finds none also leaves its CPU and comes back. That takes
//! some us of its CPU time, and its waker some more. The recorded lengths hold that time. A replay in which other
//! operations sleep would keep it where nobody sleeps, and miss it where somebody does:
//!
//! ```text
//! recorded     write ==3us==> write ==3us==> write ====7us====> write        the last one woke its reader: 4 us
//! workload     write ==3us==> write ==3us==> write ==3us==> write            OBJECT ... wake=4us
//! ```
//!
//! Intervals between operations of one kind after one kind are compared: those that neither slept nor woke, those that
//! slept once, those that woke once. The difference of the medians is the cost, and is taken out of the lengths.
//!
//! A wakeup onto another CPU that is idle costs more, for that CPU is interrupted. Where the recording has wakeups of
//! both sorts they are kept apart: the cost of a channel is that of the others, and what the interrupt takes is one
//! number for all (`kick`). On another number of CPUs other wakeups find an idle one.

use super::edit::set_length;
use super::recorded::{AtFutexes, op_of, side};
use super::rooms::RoomWait;
use crate::{Event, EventId, EventKind, ObjectId, WaitCosts, Wakeup, Workload};
use schedlab_stdx::percentile::upper_median;
use schedlab_units::Span;
use std::collections::{BTreeMap, HashMap};

/// Where recorded sleeps at channels were, and who ended them.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// The channel of each BLOCK that is a wait, by task and row.
    pub slept: BTreeMap<(usize, usize), ObjectId>,
    /// The CPU time from such a wait to the end of its call.
    pub behind: Vec<(ObjectId, Span)>,
    /// The channels of the wakeups before an event, by task and row of the event.
    pub woke: BTreeMap<(usize, usize), Vec<Woken>>,
    /// Waits at futexes where one task alone waits.
    pub at_futexes: AtFutexes,
    /// Waits of senders for room.
    pub for_room: Vec<RoomWait>,
}

/// One wakeup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Woken {
    pub object: ObjectId,
    /// Onto another CPU, which was idle.
    pub kicks: bool,
    /// The waker's CPU time from there to the end of its call, as far as the recording shows that.
    pub lead: Option<Span>,
    /// The time from there until its waker gave it the CPU, at the return of the call; if it did.
    pub tail: Option<Span>,
}

/// Intervals of which there are fewer tell nothing.
const SEEN_MIN: usize = 16;
/// More than this is no cost of a sleep.
const COST_MAX: Span = Span::from_us(50);

/// What an operation did besides what it is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Extra {
    Nothing,
    Slept,
    Woke,
    SleptAndWoke,
    Kicked,
    SleptAndKicked,
}

/// Operations that are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpKind {
    /// The kind of channel.
    pub kind: usize,
    pub sends: bool,
    /// A connection takes other time than data.
    pub connects: bool,
}

/// Task's name, the operation, the one before, what it did besides; the CPU times from the one to the other (ns).
type Intervals<'a> = BTreeMap<(&'a str, OpKind, OpKind), BTreeMap<Extra, Vec<u64>>>;

/// What sleeping and waking takes at channels of each kind, and what it takes more to interrupt an idle CPU; `kind_of`
/// an event is that of its operation.
pub(super) fn measure(
    workload: &Workload,
    waits: &Waits,
    nr_kinds: usize,
    kind_of: impl Fn(&Event) -> Option<OpKind>,
    kind_of_object: impl Fn(ObjectId) -> usize,
) -> Measured {
    let mut intervals = Intervals::new();
    for (task, of) in workload.tasks.iter().enumerate() {
        add_intervals(&mut intervals, (&of.name, task), &of.events, waits, &kind_of);
    }
    let mut sums = vec![[Mean::default(); 3]; nr_kinds];
    intervals.values_mut().flat_map(BTreeMap::values_mut).for_each(|times| times.sort_unstable());
    for ((_, OpKind { kind, .. }, _), seen) in &intervals {
        let median = |of: Extra| {
            let times = seen.get(&of).filter(|times| times.len() >= SEEN_MIN)?;
            Some((upper_median(times)?, times.len() as u64))
        };
        use Extra::{Kicked, Nothing, Slept, SleptAndKicked, SleptAndWoke, Woke};
        let pairs = [
            (SLEEP, Slept, Nothing),
            (SLEEP, SleptAndWoke, Woke),
            (SLEEP, SleptAndKicked, Kicked),
            (WAKE, Woke, Nothing),
            (WAKE, SleptAndWoke, Slept),
            (KICK, Kicked, Nothing),
            (KICK, SleptAndKicked, Slept),
        ];
        for (which, more, less) in pairs {
            let (Some((more_ns, nr_more)), Some((less_ns, nr_less))) = (median(more), median(less)) else {
                continue;
            };
            sums[*kind][which].add(more_ns.saturating_sub(less_ns), nr_more.min(nr_less));
        }
    }
    let all =
        [SLEEP, WAKE, KICK].map(|which| sums.iter().fold(Mean::default(), |sum, of| sum.and(of[which])));
    // where all wakeups are of one sort, that is what a wakeup takes
    let wakes = if all[WAKE].nr > 0 { WAKE } else { KICK };
    let kick = match all[WAKE].nr {
        0 => Span::ZERO,
        _ => all[KICK].span().saturating_sub(all[WAKE].span()),
    };
    // what is unknown of one kind is as with the others
    let cost = |of: &[Mean; 3], which: usize| if of[which].nr > 0 { of[which] } else { all[which] }.span();
    let of_wakeups = |time: &dyn Fn(&Woken) -> Option<Span>| {
        let plain = waits.woke.values().flatten().filter(|woken| wakes == KICK || !woken.kicks);
        medians(plain.filter_map(|woken| Some((kind_of_object(woken.object), time(woken)?))), nr_kinds)
    };
    let (leads, tails) = (of_wakeups(&|woken| woken.lead), of_wakeups(&|woken| woken.tail));
    let behind =
        medians(waits.behind.iter().map(|(object, time)| (kind_of_object(*object), *time)), nr_kinds);
    let (mut costs, mut lead_of) = (Vec::new(), Vec::new());
    for (kind, of) in sums.iter().enumerate() {
        let whole = tails[kind].or(leads[kind]);
        // a wakeup takes no longer than the call in which it is
        let most = whole.or(tails[nr_kinds]).or(leads[nr_kinds]).unwrap_or(COST_MAX);
        // who sleeps leaves its CPU and comes back: it is seen how long it takes to come back and return
        let most_asleep = behind[kind].or(behind[nr_kinds]).map_or(COST_MAX, |behind| behind + behind);
        let (sleep, wake) = (cost(of, SLEEP).min(most_asleep), cost(of, wakes).min(most));
        let beyond = |whole: Option<Span>, cost: Span| whole.unwrap_or_default().saturating_sub(cost);
        costs.push(WaitCosts { sleep, wake, tail: beyond(whole, wake) });
        lead_of.push(Leads { gives: beyond(leads[kind], wake), takes: beyond(behind[kind], sleep) });
    }
    Measured { costs, leads: lead_of, kick }
}

/// What calls at channels take.
pub(super) struct Measured {
    /// By kind of channel.
    pub costs: Vec<WaitCosts>,
    /// By kind of channel.
    pub leads: Vec<Leads>,
    /// To interrupt an idle CPU.
    pub kick: Span,
}

/// How long before the recorded end of its call an operation takes effect, without what sleeping and waking take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leads {
    /// Where it wakes.
    pub gives: Span,
    /// Where it looks whether it must wait.
    pub takes: Span,
}

/// The medians of such times by kind of channel, and behind them that of all; of too few: none.
fn medians(seen: impl Iterator<Item = (usize, Span)>, nr_kinds: usize) -> Vec<Option<Span>> {
    let mut times = vec![Vec::new(); nr_kinds + 1];
    for (kind, time) in seen {
        times[kind].push(time);
        times[nr_kinds].push(time);
    }
    let median = |mut times: Vec<Span>| {
        times.sort_unstable();
        if times.len() < SEEN_MIN { None } else { upper_median(&times).map(|time| time.min(COST_MAX)) }
    };
    times.into_iter().map(median).collect()
}

/// Places of the costs that are measured; a kick holds what the wakeup itself takes.
const SLEEP: usize = 0;
const WAKE: usize = 1;
const KICK: usize = 2;

/// A mean of times.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: u128,
    nr: u128,
}

impl Mean {
    fn add(&mut self, ns: u64, times: u64) {
        self.sum += u128::from(ns) * u128::from(times);
        self.nr += u128::from(times);
    }
    fn and(self, other: Mean) -> Mean {
        Mean { sum: self.sum + other.sum, nr: self.nr + other.nr }
    }
    /// At most what a cost can be.
    fn span(self) -> Span {
        Span::from_ns(self.sum.checked_div(self.nr).unwrap_or(0) as u64).min(COST_MAX)
    }
}

/// The intervals of one task in which nothing else happened.
fn add_intervals<'a>(
    intervals: &mut Intervals<'a>,
    (name, task): (&'a str, usize),
    events: &[Event],
    waits: &Waits,
    kind_of: &impl Fn(&Event) -> Option<OpKind>,
) {
    let (mut before, mut is_pure) = (None, false);
    let (mut cpu_ns, mut last_ns, mut sleeps, mut wakes, mut kicks) = (0, 0, 0, 0, 0);
    for (row, event) in events.iter().enumerate() {
        let Some(length) = event.kind.length() else {
            last_ns = 0;
            continue;
        };
        cpu_ns += length.as_ns().saturating_sub(last_ns);
        last_ns = length.as_ns();
        for woken in waits.woke.get(&(task, row)).into_iter().flatten() {
            *(if woken.kicks { &mut kicks } else { &mut wakes }) += 1;
        }
        match &event.kind {
            EventKind::Block { .. } if waits.slept.contains_key(&(task, row)) => sleeps += 1,
            EventKind::Object { .. } => {
                let kind = kind_of(event);
                if let (true, Some(kind), Some(before)) = (is_pure, kind, before) {
                    let extra = match (sleeps, wakes, kicks) {
                        (0, 0, 0) => Some(Extra::Nothing),
                        (1, 0, 0) => Some(Extra::Slept),
                        (0, 1, 0) => Some(Extra::Woke),
                        (1, 1, 0) => Some(Extra::SleptAndWoke),
                        (0, 0, 1) => Some(Extra::Kicked),
                        (1, 0, 1) => Some(Extra::SleptAndKicked),
                        _ => None,
                    };
                    if let Some(extra) = extra {
                        let of = intervals.entry((name, kind, before)).or_default();
                        of.entry(extra).or_default().push(cpu_ns);
                    }
                }
                (before, is_pure) = (kind, true);
                (cpu_ns, sleeps, wakes, kicks) = (0, 0, 0, 0);
            }
            _ => is_pure = false,
        }
    }
}

/// Takes the costs out of the lengths: of a sleep after it, of a wakeup before the operation that made it and, as far
/// as there is not so much, after it.
pub(super) fn take_out(
    workload: &mut Workload,
    waits: &Waits,
    of_object: impl Fn(ObjectId) -> (WaitCosts, Leads),
    kick: Span,
) {
    let mut gaps: HashMap<EventId, (Span, Span)> = HashMap::new();
    for (task, of) in workload.tasks.iter_mut().enumerate() {
        let (mut owed, mut old, mut new) = (Span::ZERO, Span::ZERO, Span::ZERO);
        for (row, event) in of.events.iter_mut().enumerate() {
            let Some(length) = event.kind.length() else {
                (old, new) = (Span::ZERO, Span::ZERO);
                continue;
            };
            for woken in waits.woke.get(&(task, row)).into_iter().flatten() {
                owed += of_object(woken.object).0.wake;
                if woken.kicks {
                    owed += kick;
                }
            }
            let gap = length.saturating_sub(old);
            let off = gap.min(owed);
            owed = owed.saturating_sub(off);
            (old, new) = (length, new + gap.saturating_sub(off));
            // the recorded time is that of the return
            let lead = op_of(event).map(side).map_or(Span::ZERO, |(object, gives)| {
                let Leads { gives: sent, takes } = of_object(object).1;
                if gives { sent } else { takes }
            });
            let left = gap.saturating_sub(off).saturating_sub(lead);
            if left < gap {
                gaps.insert(event.eid, (gap, left));
            }
            set_length(&mut event.kind, new.saturating_sub(lead.min(gap.saturating_sub(off))));
            if let Some(object) = waits.slept.get(&(task, row)) {
                owed += of_object(*object).0.sleep;
            }
        }
    }
    // wakeups that are none of a channel's keep their place, as far as there is room before the waker's next event
    for event in workload.tasks.iter_mut().flat_map(|task| &mut task.events) {
        if let EventKind::Wakeup(Wakeup::Dependent { event, distance, .. }) = &mut event.kind
            && let Some((gap, left)) = gaps.get(event)
            && *distance <= *gap
        {
            *distance = (*distance).min(*left);
        }
    }
}
