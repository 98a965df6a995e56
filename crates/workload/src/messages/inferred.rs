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

use super::edit::{Edits, Insert, apply};
use crate::{
    EventId, EventKind, Object, ObjectId, ObjectKind, ObjectOp, Recorded, WaitCosts, Wakes, Wakeup, Workload,
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
        self.times.get(eid.0 as usize).copied().unwrap_or(0)
    }
}

/// A channel needs so many waits: with 16 its rate is known to a quarter (one over the root).
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
    /// The waker's next event, and the CPU time until there.
    event: EventId,
    distance: Span,
}

/// A channel that is being found.
struct Found {
    sleeper: usize,
    waits: Vec<Wait>,
    wakers: BTreeSet<usize>,
}

/// What was found in all, for the notes.
#[derive(Default)]
struct Sum {
    recorded: u64,
    inferred: u64,
    errors: Vec<f64>,
}

struct Inference<'a> {
    workload: &'a Workload,
    timeline: &'a Timeline,
    progress: Vec<Progress>,
    /// Time of each task's events, by row.
    times: Vec<Vec<u64>>,
    places: HashMap<EventId, usize>,
    edits: Vec<Edits>,
    sum: Sum,
}

/// Puts channels in the place of the waits that tasks ended, with the messages that woke nobody.
pub(crate) fn infer(workload: &mut Workload, timeline: &Timeline) {
    let channels = channels(workload, timeline);
    let mut inference = Inference {
        progress: timeline.stays.iter().map(|stays| Progress::new(stays)).collect(),
        times: (workload.tasks.iter())
            .map(|task| task.events.iter().map(|event| timeline.time(event.eid)).collect())
            .collect(),
        places: places(workload),
        edits: vec![Edits::default(); workload.tasks.len()],
        sum: Sum::default(),
        workload,
        timeline,
    };
    let mut objects = Vec::new();
    for ((_, name), found) in &channels {
        let object = ObjectId(objects.len() as u32);
        if inference.channel(found, object) {
            let kind = ObjectKind::Channel { capacity: None, start: 0, low: None };
            let sleeper = &inference.workload.tasks[found.sleeper];
            let name = format!("{name}-to-{}-{}", sleeper.name, sleeper.pid);
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
    let (mut edits, mut sum) = (inference.edits, inference.sum);
    for edits in &mut edits {
        edits.inserted.sort_by_key(|insert| (insert.before, insert.length));
    }
    apply(workload, &edits);
    sum.errors.sort_by(f64::total_cmp);
    let (nr, recorded, inferred) = (objects.len(), sum.recorded, sum.inferred);
    let confidence = match sum.errors.get(sum.errors.len() / 2) {
        Some(error) => format!("; the rate of the median channel is known to {:.0} %", 100.0 * error),
        None => format!("; no task was woken {WAITS_MIN} times by tasks of one name"),
    };
    let note = format!(
        "inferred: {nr} channels, {recorded} messages that woke, {inferred} that did not{confidence}"
    );
    workload.notes.insert("messages".to_string(), note);
    workload.objects = objects;
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
            let found = channels.entry((sleeper, name)).or_insert_with(|| Found {
                sleeper,
                waits: Vec::new(),
                wakers: BTreeSet::new(),
            });
            found.wakers.insert(waker.index());
            found.waits.push(Wait {
                row,
                slept_ns: timeline.time(pair[0].eid),
                woken_ns: timeline.time(pair[1].eid),
                waker: waker.index(),
                event,
                distance,
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

impl Inference<'_> {
    fn cpu_at(&self, task: usize, time_ns: u64) -> u64 {
        self.progress.get(task).map_or(0, |progress| progress.at(time_ns))
    }

    /// CPU time of all wakers from one instant to another.
    fn progress_of(&self, wakers: &BTreeSet<usize>, from_ns: u64, until_ns: u64) -> u64 {
        let of = |waker: &usize| self.cpu_at(*waker, until_ns).saturating_sub(self.cpu_at(*waker, from_ns));
        wakers.iter().map(of).sum()
    }

    /// Puts one channel in; whether it could be.
    fn channel(&mut self, found: &Found, object: ObjectId) -> bool {
        let waits = &found.waits;
        if waits.iter().any(|wait| self.places.get(&wait.event).is_none_or(|row| *row == usize::MAX)) {
            return false;
        }
        let slept: u64 =
            waits.iter().map(|wait| self.progress_of(&found.wakers, wait.slept_ns, wait.woken_ns)).sum();
        let each_ns = (slept / waits.len() as u64).max(SEND_MIN_NS);
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
        let mut carried_ns = 0;
        for (pair, own_ns) in waits.windows(2).zip(owned) {
            let (from_ns, until_ns) = (pair[0].woken_ns, pair[1].slept_ns);
            carried_ns += self.progress_of(&found.wakers, from_ns, until_ns);
            let sent = carried_ns / each_ns;
            carried_ns %= each_ns;
            let taken = (own_ns / one_ns).saturating_sub(1);
            let hidden = sent.min(taken);
            if hidden > 0 {
                self.put_hidden(found, (from_ns, until_ns), hidden, object);
            }
        }
        self.sum.recorded += waits.len() as u64;
        self.sum.errors.push(1.0 / (waits.len() as f64).sqrt());
        true
    }

    /// The recorded wait, and the message that ended it.
    fn put_wait(&mut self, sleeper: usize, wait: Wait, object: ObjectId) {
        self.edits[sleeper].blocks.insert(wait.row, Some(ObjectOp::Receive { object, amount: 1 }));
        let before = self.places[&wait.event];
        let event = &self.workload.tasks[wait.waker].events[before];
        let length = event.kind.length().unwrap_or(Span::ZERO).saturating_sub(wait.distance);
        let op = ObjectOp::Send { object, amount: 1 };
        self.edits[wait.waker].inserted.push(Insert { before, length, op, recorded: Recorded::Awake });
    }

    /// Messages that woke nobody, between two waits.
    fn put_hidden(&mut self, found: &Found, (from_ns, until_ns): (u64, u64), hidden: u64, object: ObjectId) {
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
                sends.push((self.progress[waker].when(cpu).clamp(from_ns, until_ns), waker));
            }
            before += own;
        }
        sends.sort_unstable();
        let nr = sends.len() as u64;
        let start = self.cpu_at(found.sleeper, from_ns);
        let own = self.cpu_at(found.sleeper, until_ns).saturating_sub(start);
        for (k, (sent_ns, waker)) in (1..).zip(sends) {
            let amount = u32::try_from(hidden * k / nr - hidden * (k - 1) / nr).unwrap_or(u32::MAX);
            if !self.insert(waker, sent_ns, ObjectOp::Send { object, amount }) {
                continue;
            }
            let even_ns = self.progress[found.sleeper].when(start + own * k / (nr + 1));
            let read_ns = even_ns.clamp(sent_ns, until_ns);
            if self.insert(found.sleeper, read_ns, ObjectOp::Receive { object, amount }) {
                self.sum.inferred += u64::from(amount);
            }
        }
    }

    /// Puts an operation where the task was at this instant; whether it was anywhere.
    fn insert(&mut self, task: usize, time_ns: u64, op: ObjectOp) -> bool {
        let (events, times) = (&self.workload.tasks[task].events, &self.times[task]);
        let mut before = times.partition_point(|time| *time < time_ns);
        // at the very instant of its wakeup: after it
        while events.get(before).is_some_and(|event| event.kind.length().is_none()) {
            before += 1;
        }
        let Some(end) = events.get(before).and_then(|event| event.kind.length()) else { return false };
        let woken = events[..before].iter().rposition(|event| event.kind.length().is_none());
        let since_ns = woken.map_or(0, |row| self.timeline.time(events[row].eid));
        let since = self.cpu_at(task, since_ns);
        let length = Span::from_ns(self.cpu_at(task, time_ns).saturating_sub(since)).min(end);
        self.edits[task].inserted.push(Insert { before, length, op, recorded: Recorded::Awake });
        true
    }
}
