//! Channels between wakers and sleepers, where a recording has only who woke whom.
//!
//! A message that finds its reader awake wakes nobody. Were there any? While the sleeper *slept*, each message of the
//! waker woke it: so the CPU time that the waker spent meanwhile says how often it sends. While the sleeper is
//! *awake*, the waker is taken to go on at that rate.
//!
//! ```text
//! sleeper   zzzzW-----------zzzW-------z      z asleep, W woken, - runs
//! waker     ====s=====s=====..=s====s==       = its CPU time. 5 of 7 ms (z) gave 2 wakeups: one each 3.5 ms.
//!               recorded  inferred            in the next 12 ms (W, -) it has sent 3 more, and they were read by then
//! ```
//!
//! The sleeper takes them out one by one, spread over its CPU time until it sleeps again, each after it was sent. So
//! the recorded schedule is one that these channels allow, without one more sleep than was recorded. As a channel only
//! counts, no other schedule can end in a deadlock either.
//!
//! A waker that waits for room is a sleeper too, woken by its reader: what a pipe holds shows in how far the one may be
//! ahead of the other. Wakers of one name make one channel per sleeper.
//!
//! Where futexes were recorded, a channel is a futex at which one task alone waits. It has its recorded messages
//! already, and only those that woke nobody are put in.

use super::edit::{Edits, Insert, apply};
use super::recorded::AtFutexes;
use crate::{
    Event, EventId, EventKind, Object, ObjectId, ObjectKind, ObjectOp, Recorded, WaitCosts, Wakes, Wakeup,
    Workload,
};
use schedlab_units::{Span, TaskId};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// When things happened: what a workload does not hold.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Of each event, by its identifier (ns).
    times: Vec<u64>,
    /// Of each task: from when until when it had a CPU (ns).
    stays: Vec<Vec<(u64, u64)>>,
}

impl Timeline {
    /// Notes an event.
    pub fn event(&mut self, eid: EventId, now_ns: u64) {
        let row = eid.0 as usize;
        if self.times.len() <= row {
            self.times.resize(row + 1, 0);
        }
        self.times[row] = now_ns;
    }

    /// Notes that a task had a CPU.
    pub fn stay(&mut self, task: usize, from_ns: u64, until_ns: u64) {
        if self.stays.len() <= task {
            self.stays.resize(task + 1, Vec::new());
        }
        if from_ns < until_ns {
            self.stays[task].push((from_ns, until_ns));
        }
    }

    /// The tasks that stay in the workload, by their rows there.
    pub fn renumber(&mut self, rows: &[Option<TaskId>]) {
        let mut stays = vec![Vec::new(); rows.iter().flatten().count()];
        for (old, new) in rows.iter().enumerate() {
            if let (Some(new), Some(own)) = (new, self.stays.get_mut(old)) {
                stays[new.index()] = std::mem::take(own);
            }
        }
        self.stays = stays;
    }

    fn time(&self, eid: EventId) -> u64 {
        self.known(eid).unwrap_or(0)
    }

    /// When an event was, if the recording has it.
    fn known(&self, eid: EventId) -> Option<u64> {
        self.times.get(eid.0 as usize).copied().filter(|time| *time > 0)
    }
}

/// A channel needs so many waits: with 16 that come at random its rate is known to a quarter (one over the root).
const WAITS_MIN: usize = 16;
/// A sender is not taken to send more often than once in so much CPU time.
const SEND_MIN_NS: u64 = 200;
/// Messages of one interval are put into at most so many pieces, the last ones larger.
const PIECES_MAX: u64 = 64;

/// CPU time of one task over time.
struct Progress {
    /// From, until, CPU time before.
    stays: Vec<(u64, u64, u64)>,
}

impl Progress {
    fn new(stays: &[(u64, u64)]) -> Progress {
        let mut before = 0;
        let stays = stays.iter().map(|&(from, until)| {
            before += until - from;
            (from, until, before - (until - from))
        });
        Progress { stays: stays.collect() }
    }

    /// CPU time until this instant.
    fn at(&self, time_ns: u64) -> u64 {
        let next = self.stays.partition_point(|(from, ..)| *from <= time_ns);
        match next.checked_sub(1).map(|row| self.stays[row]) {
            Some((from, until, before)) => before + time_ns.min(until) - from,
            None => 0,
        }
    }

    /// The first instant from this one on at which the task has a CPU.
    fn on_cpu(&self, time_ns: u64) -> Option<u64> {
        let next = self.stays.partition_point(|(_, until, _)| *until <= time_ns);
        self.stays.get(next).map(|(from, ..)| time_ns.max(*from))
    }

    /// When it had used so much.
    fn when(&self, cpu_ns: u64) -> u64 {
        let next = self.stays.partition_point(|(.., before)| *before < cpu_ns);
        match next.checked_sub(1).map(|row| self.stays[row]) {
            Some((from, until, before)) => (from + (cpu_ns - before)).min(until),
            None => self.stays.first().map_or(0, |(from, ..)| *from),
        }
    }
}

/// One recorded wait of a sleeper.
#[derive(Clone, Copy)]
struct Wait {
    /// Row of its BLOCK.
    row: usize,
    slept_ns: u64,
    woken_ns: u64,
    waker: usize,
    /// The waker's next event, and the CPU time until there. `None`: it is an operation already.
    end: Option<(EventId, Span)>,
}

/// A channel that is being found.
#[derive(Default)]
struct Found {
    sleeper: usize,
    /// The object that it is already.
    object: Option<ObjectId>,
    waits: Vec<Wait>,
    wakers: BTreeSet<usize>,
}

/// How well a channel is known, for the notes.
struct Evidence {
    /// Waits that a message of its ended, which say how often it is sent to.
    waits: usize,
    /// Messages that were put in.
    inferred: u64,
    /// Standard error of the wakers' CPU time per message, as a share of it.
    error: f64,
}

/// A channel of which more than this share is unsure is counted apart.
const UNSURE: f64 = 0.25;
/// So many channels are named, those with most messages put in.
const NAMED: usize = 3;

struct Inference<'a> {
    workload: &'a Workload,
    progress: Vec<Progress>,
    /// Time of each task's events, by row.
    times: Vec<Vec<u64>>,
    /// Before which of them the task holds a mutex.
    locked: Vec<Vec<bool>>,
    places: HashMap<EventId, usize>,
    /// When a task woke others before an event, and the CPU time from there to the event.
    wakes: HashMap<EventId, Vec<(u64, Span)>>,
    edits: Vec<Edits>,
}

/// Puts channels in the place of the waits that tasks ended, with the messages that woke nobody.
///
/// With `at_futexes` those waits alone are looked at, and messages are put into objects that they are at already.
pub(crate) fn infer(workload: &mut Workload, timeline: &Timeline, at_futexes: Option<&AtFutexes>) {
    let channels = match at_futexes {
        None => channels(workload, timeline),
        Some(waits) => futexes(workload, timeline, waits),
    };
    let progress: Vec<Progress> = timeline.stays.iter().map(|stays| Progress::new(stays)).collect();
    let first = workload.objects.len();
    let mut inference = Inference {
        times: times_of(workload, timeline, &progress),
        locked: workload.tasks.iter().map(|task| locked(&task.events)).collect(),
        progress,
        places: places(workload),
        wakes: wakes(workload, timeline),
        edits: vec![Edits::default(); workload.tasks.len()],
        workload,
    };
    let (mut objects, mut known) = (Vec::new(), Vec::new());
    for ((_, name), found) in &channels {
        let fresh = ObjectId((first + objects.len()) as u32);
        let object = found.object.unwrap_or(fresh);
        let Some(evidence) = inference.channel(found, object) else { continue };
        let sleeper = &inference.workload.tasks[found.sleeper];
        let name = format!("{name}-to-{}-{}", sleeper.name, sleeper.pid);
        known.push((name.clone(), evidence));
        if object == fresh {
            let kind = ObjectKind::Channel { capacity: None, start: 0, low: None };
            objects.push(Object {
                name,
                kind,
                wakes: Wakes::Plain,
                costs: WaitCosts::default(),
                is_closed: false,
                is_polled: false,
            });
        }
    }
    let mut edits = inference.edits;
    for edits in &mut edits {
        // at one place what is sent comes first: who receives may have to wait for the answer
        let receives = |insert: &Insert| matches!(insert.op, ObjectOp::Receive { .. });
        edits.inserted.sort_by_key(|insert| (insert.before, insert.length, receives(insert)));
    }
    apply(workload, &edits);
    let (key, what) = match at_futexes {
        None => ("messages", "channels"),
        Some(_) => ("messages at futexes", "futexes where one task waits"),
    };
    if at_futexes.is_none() || !known.is_empty() {
        workload.notes.insert(key.to_string(), said(what, &known));
    }
    workload.objects.append(&mut objects);
}

/// The note: how many there are, how well the rate of the median channel is known, and that of those that matter most.
fn said(what: &str, known: &[(String, Evidence)]) -> String {
    let recorded: usize = known.iter().map(|(_, channel)| channel.waits).sum();
    let inferred: u64 = known.iter().map(|(_, channel)| channel.inferred).sum();
    let mut note =
        format!("inferred: {} {what}, {recorded} messages that woke, {inferred} that did not", known.len());
    let mut errors: Vec<f64> = known.iter().map(|(_, channel)| channel.error).collect();
    errors.sort_by(f64::total_cmp);
    let Some(median) = errors.get(errors.len() / 2) else {
        note += &format!("; no task was woken {WAITS_MIN} times by tasks of one name");
        return note;
    };
    note += &format!("; the rate of the median channel is known to {:.0} %", 100.0 * median);
    let unsure = errors.iter().filter(|error| **error > UNSURE).count();
    if unsure > 0 {
        note += &format!(", that of {unsure} not to {:.0} %", 100.0 * UNSURE);
    }
    let mut rows: Vec<&(String, Evidence)> =
        known.iter().filter(|(_, channel)| channel.inferred > 0).collect();
    rows.sort_by_key(|(name, channel)| (std::cmp::Reverse(channel.inferred), name));
    let one = |(name, channel): &&(String, Evidence)| {
        let (percent, waits) = (100.0 * channel.error, channel.waits);
        format!("{name} ({}, known to {percent:.0} %, from {waits} waits)", channel.inferred)
    };
    let most: Vec<String> = rows.iter().take(NAMED).map(one).collect();
    if !most.is_empty() {
        note += &format!("; most were put into {}", most.join(", "));
    }
    note
}

/// Standard error of the mean of these, as a share of it: how far the mean of so many may be from the true one.
fn relative_error(values: &[u64]) -> f64 {
    let nr = values.len() as f64;
    let mean = values.iter().sum::<u64>() as f64 / nr;
    if mean == 0.0 {
        return 1.0;
    }
    let square: f64 = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
    (square / (nr - 1.0)).sqrt() / nr.sqrt() / mean
}

/// Waits at futexes by sleeper and futex.
fn futexes(workload: &Workload, timeline: &Timeline, waits: &AtFutexes) -> BTreeMap<(usize, String), Found> {
    let mut channels: BTreeMap<(usize, String), Found> = BTreeMap::new();
    for (sleeper, task) in workload.tasks.iter().enumerate() {
        for (row, event) in task.events.iter().enumerate() {
            let Some(wait) = waits.get(&event.eid) else { continue };
            let wakeup = task.events.get(row + 1).map(|next| &next.kind);
            let (end, object) = match (&event.kind, wakeup) {
                (EventKind::Object { op: ObjectOp::Receive { object, .. }, .. }, _) => (None, Some(*object)),
                (
                    EventKind::Block { .. },
                    Some(EventKind::Wakeup(Wakeup::Dependent { event, distance, .. })),
                ) if wait.object.is_none() => (Some((*event, *distance)), None),
                _ => continue,
            };
            let found = channels.entry((sleeper, format!("futex-{}", wait.futex + 1))).or_default();
            (found.sleeper, found.object) = (sleeper, object);
            found.wakers.insert(wait.waker.index());
            found.waits.push(Wait {
                row,
                slept_ns: timeline.time(event.eid),
                woken_ns: timeline.time(wait.wakeup),
                waker: wait.waker.index(),
                end,
            });
        }
    }
    channels.retain(|_, found| found.waits.len() >= WAITS_MIN);
    channels
}

/// When each event was. One that was put in is where its task has had the CPU time that it stands at.
fn times_of(workload: &Workload, timeline: &Timeline, progress: &[Progress]) -> Vec<Vec<u64>> {
    let of_task = |(task, events): (usize, &Vec<Event>)| {
        let progress = progress.get(task);
        let (mut before, mut woken_at) = (0, 0);
        let mut times: Vec<u64> = Vec::with_capacity(events.len());
        for event in events {
            let known = timeline.known(event.eid);
            let time = known.unwrap_or_else(|| match (event.kind.length(), progress) {
                (Some(length), Some(progress)) => progress.when(woken_at + length.as_ns()),
                _ => before,
            });
            before = time.max(before);
            if event.kind.length().is_none() {
                woken_at = progress.map_or(0, |progress| progress.at(before));
            }
            times.push(before);
        }
        times
    };
    workload.tasks.iter().map(|task| &task.events).enumerate().map(of_task).collect()
}

/// Before which of its events a task holds a mutex.
fn locked(events: &[Event]) -> Vec<bool> {
    let mut held = 0u32;
    let of = |event: &Event| {
        let before = held > 0;
        match event.kind {
            EventKind::Object { op: ObjectOp::Lock { .. }, .. } => held += 1,
            EventKind::Object { op: ObjectOp::Unlock { .. }, .. } => held = held.saturating_sub(1),
            _ => {}
        }
        before
    };
    events.iter().map(of).collect()
}

/// Waits by sleeper and name of the wakers.
fn channels(workload: &Workload, timeline: &Timeline) -> BTreeMap<(usize, String), Found> {
    let mut channels: BTreeMap<(usize, String), Found> = BTreeMap::new();
    for (sleeper, task) in workload.tasks.iter().enumerate() {
        for (row, pair) in task.events.windows(2).enumerate() {
            let (EventKind::Block { .. }, EventKind::Wakeup(wakeup)) = (&pair[0].kind, &pair[1].kind) else {
                continue;
            };
            let Wakeup::Dependent { event, task: waker, distance, .. } = *wakeup else { continue };
            let name = workload.tasks[waker.index()].name.clone();
            let found = channels.entry((sleeper, name)).or_default();
            found.sleeper = sleeper;
            found.wakers.insert(waker.index());
            found.waits.push(Wait {
                row,
                slept_ns: timeline.time(pair[0].eid),
                woken_ns: timeline.time(pair[1].eid),
                waker: waker.index(),
                end: Some((event, distance)),
            });
        }
    }
    channels.retain(|_, found| found.waits.len() >= WAITS_MIN);
    channels
}

/// Row of each event that a waker does next; only ever asked.
fn places(workload: &Workload) -> HashMap<EventId, usize> {
    let mut places = HashMap::new();
    for event in workload.tasks.iter().flat_map(|task| &task.events) {
        if let EventKind::Wakeup(Wakeup::Dependent { event, .. }) = event.kind {
            places.insert(event, usize::MAX);
        }
    }
    for task in &workload.tasks {
        for (row, event) in task.events.iter().enumerate() {
            if let Some(place) = places.get_mut(&event.eid) {
                *place = row;
            }
        }
    }
    places
}

/// See [`Inference::wakes`]; only ever asked.
fn wakes(workload: &Workload, timeline: &Timeline) -> HashMap<EventId, Vec<(u64, Span)>> {
    let mut wakes: HashMap<EventId, Vec<(u64, Span)>> = HashMap::new();
    for event in workload.tasks.iter().flat_map(|task| &task.events) {
        if let EventKind::Wakeup(Wakeup::Dependent { event: next, distance, .. }) = event.kind {
            wakes.entry(next).or_default().push((timeline.time(event.eid), distance));
        }
    }
    wakes
}

impl Inference<'_> {
    fn cpu_at(&self, task: usize, time_ns: u64) -> u64 {
        self.progress.get(task).map_or(0, |progress| progress.at(time_ns))
    }

    /// CPU time of all wakers from one instant to another.
    fn progress_of(&self, wakers: &BTreeSet<usize>, from_ns: u64, until_ns: u64) -> u64 {
        let of = |waker: &usize| self.cpu_at(*waker, until_ns).saturating_sub(self.cpu_at(*waker, from_ns));
        wakers.iter().map(of).sum()
    }

    /// Puts one channel in, and says how well it is known; `None`: it could not be.
    fn channel(&mut self, found: &Found, object: ObjectId) -> Option<Evidence> {
        let waits = &found.waits;
        let is_unplaced = |event: &EventId| self.places.get(event).is_none_or(|row| *row == usize::MAX);
        if waits.iter().filter_map(|wait| wait.end).any(|(event, _)| is_unplaced(&event)) {
            return None;
        }
        let slept: Vec<u64> =
            waits.iter().map(|wait| self.progress_of(&found.wakers, wait.slept_ns, wait.woken_ns)).collect();
        let each_ns = (slept.iter().sum::<u64>() / waits.len() as u64).max(SEND_MIN_NS);
        let own = |wait: &[Wait]| {
            let [a, b] = wait else { return 0 };
            self.cpu_at(found.sleeper, b.slept_ns).saturating_sub(self.cpu_at(found.sleeper, a.woken_ns))
        };
        let owned: Vec<u64> = waits.windows(2).map(own).collect();
        let mut bursts = owned.clone();
        bursts.sort_unstable();
        // a tenth of the bursts is shorter: one message
        let one_ns = bursts.get(bursts.len() / 10).copied().unwrap_or(0).max(SEND_MIN_NS);
        for wait in waits {
            self.put_wait(found.sleeper, *wait, object);
        }
        let (mut carried_ns, mut inferred) = (0, 0);
        for (pair, own_ns) in waits.windows(2).zip(owned) {
            let (from_ns, until_ns) = (pair[0].woken_ns, pair[1].slept_ns);
            carried_ns += self.progress_of(&found.wakers, from_ns, until_ns);
            let sent = carried_ns / each_ns;
            carried_ns %= each_ns;
            let taken = (own_ns / one_ns).saturating_sub(1);
            let hidden = sent.min(taken);
            if hidden > 0 {
                inferred += self.put_hidden(found, (from_ns, until_ns), hidden, object);
            }
        }
        Some(Evidence { waits: waits.len(), inferred, error: relative_error(&slept) })
    }

    /// The recorded wait, and the message that ended it.
    fn put_wait(&mut self, sleeper: usize, wait: Wait, object: ObjectId) {
        let Some((event, distance)) = wait.end else { return };
        self.edits[sleeper].blocks.insert(wait.row, Some(ObjectOp::Receive { object, amount: 1 }));
        let before = self.places[&event];
        let event = &self.workload.tasks[wait.waker].events[before];
        let length = event.kind.length().unwrap_or(Span::ZERO).saturating_sub(distance);
        let op = ObjectOp::Send { object, amount: 1 };
        self.edits[wait.waker].inserted.push(Insert { before, length, op, recorded: Recorded::Awake });
    }

    /// Messages that woke nobody, between two waits; how many could be put in.
    fn put_hidden(
        &mut self,
        found: &Found,
        (from_ns, until_ns): (u64, u64),
        hidden: u64,
        object: ObjectId,
    ) -> u64 {
        let total = self.progress_of(&found.wakers, from_ns, until_ns);
        let pieces = hidden.min(PIECES_MAX);
        // when each was sent, and by whom: evenly over the progress of all wakers together
        let mut sends: Vec<(u64, usize)> = Vec::new();
        let mut before = 0;
        for &waker in &found.wakers {
            let start = self.cpu_at(waker, from_ns);
            let own = self.cpu_at(waker, until_ns).saturating_sub(start);
            // piece k is at (2k + 1) / 2 pieces of the total
            let first = (2 * pieces * before).div_ceil(total.max(1)).saturating_sub(1).div_ceil(2);
            for k in first..pieces {
                let place = (2 * k + 1) * total / (2 * pieces);
                if place >= before + own {
                    break;
                }
                let cpu = start + place.saturating_sub(before);
                let sent_ns = self.progress[waker].when(cpu).clamp(from_ns, until_ns);
                sends.extend(self.progress[waker].on_cpu(sent_ns).map(|sent_ns| (sent_ns, waker)));
            }
            before += own;
        }
        sends.sort_unstable();
        let (nr, mut inferred) = (sends.len() as u64, 0);
        let start = self.cpu_at(found.sleeper, from_ns);
        let own = self.cpu_at(found.sleeper, until_ns).saturating_sub(start);
        for (k, (sent_ns, waker)) in (1..).zip(sends) {
            let amount = u32::try_from(hidden * k / nr - hidden * (k - 1) / nr).unwrap_or(u32::MAX);
            if sent_ns > until_ns {
                continue;
            }
            let even_ns = self.progress[found.sleeper].when(start + own * k / (nr + 1));
            let read_ns = even_ns.clamp(sent_ns, until_ns);
            let Some(sent) = self.place(waker, sent_ns, false) else { continue };
            let Some(read) = self.place(found.sleeper, read_ns, true) else { continue };
            let insert = |(before, length), op| Insert { before, length, op, recorded: Recorded::Awake };
            self.edits[waker].inserted.push(insert(sent, ObjectOp::Send { object, amount }));
            self.edits[found.sleeper].inserted.push(insert(read, ObjectOp::Receive { object, amount }));
            inferred += u64::from(amount);
        }
        inferred
    }

    /// Before which event a task was at this instant, and at what CPU time; `None`: it was nowhere, or it would receive
    /// with a mutex. (Who has one and waits for a message could wait for a task that waits for the mutex.)
    ///
    /// A call's time is that of its return, and it takes effect before. So who may be within one that sends receives
    /// behind it: else it would wait with a message that is out already.
    fn place(&self, task: usize, time_ns: u64, receives: bool) -> Option<(usize, Span)> {
        let (events, times) = (&self.workload.tasks[task].events, &self.times[task]);
        let mut before = times.partition_point(|time| *time < time_ns);
        // at the very instant of its wakeup: after it
        while events.get(before).is_some_and(|event| event.kind.length().is_none()) {
            before += 1;
        }
        let last = before.checked_sub(1);
        let least = last.and_then(|row| events[row].kind.length()).unwrap_or(Span::ZERO);
        let since = self.cpu_at(task, last.map_or(0, |row| times[row]));
        let mut length = least + Span::from_ns(self.cpu_at(task, time_ns).saturating_sub(since));
        if receives
            && let EventKind::Object { op: ObjectOp::Send { .. }, length: at, .. } = events.get(before)?.kind
        {
            (before, length) = (before + 1, length.max(at));
        }
        let next = events.get(before)?;
        let end = next.kind.length()?;
        if receives {
            // behind whom it has woken before
            let woken =
                self.wakes.get(&next.eid).into_iter().flatten().filter(|(at_ns, _)| *at_ns <= time_ns);
            let behind = |(_, distance): &(u64, Span)| end.saturating_sub(*distance) + Span::from_ns(1);
            let least = woken.map(behind).max().unwrap_or(Span::ZERO);
            if least > end {
                return None;
            }
            length = length.max(least);
        }
        let is_unsafe = receives && self.locked[task][before];
        (!is_unsafe).then_some((before, length.min(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_known_as_its_intervals_spread() {
        assert_eq!(relative_error(&[5; 16]), 0.0);
        // mean 2, standard deviation the root of 2, of two values
        assert!((relative_error(&[1, 3]) - 0.5).abs() < 1e-12);
        // random arrivals: their standard deviation is the mean, so one over the root of 400
        let random: Vec<u64> =
            (0..400).map(|k| (-1e6 * (1.0 - (f64::from(k) + 0.5) / 400.0).ln()) as u64).collect();
        assert!((relative_error(&random) - 0.05).abs() < 0.001, "{}", relative_error(&random));
        assert_eq!(relative_error(&[0; 16]), 1.0, "who never computes meanwhile says nothing");
    }

    #[test]
    fn the_note_names_what_matters_most_and_how_much_is_unsure() {
        let known =
            |name: &str, waits, inferred, error| (name.to_string(), Evidence { waits, inferred, error });
        let channels = [
            known("a-to-b-1", 16, 0, 0.4),
            known("c-to-d-2", 100, 3, 0.1),
            known("e-to-f-3", 20, 70, 0.3),
            known("g-to-h-4", 30, 3, 0.2),
            known("i-to-j-5", 50, 1, 0.05),
        ];
        assert_eq!(
            said("channels", &channels),
            "inferred: 5 channels, 216 messages that woke, 77 that did not; the rate of the median channel is known to \
             20 %, that of 2 not to 25 %; most were put into e-to-f-3 (70, known to 30 %, from 20 waits), c-to-d-2 (3, \
             known to 10 %, from 100 waits), g-to-h-4 (3, known to 20 %, from 30 waits)"
        );
    }
}
