//! Which conditions count something?
//!
//! A predicate stands behind each condition, and no recorder sees it. Mostly it is a number: how many items are in a
//! queue, or how much room. Then each signal is one item, and who enters the section of the condition's mutex takes
//! one. It waits where none is left:
//!
//! ```text
//! items             0      1      2      1      0         0      1      0
//! signalled                s      s                              s
//! sections of W                      [--]   [--]    [wait ......... --]      2 entered with something there: no wait
//! workload of W              RECV  LOCK..  RECV  LOCK..  LOCK UNLOCK RECV (slept) LOCK UNLOCK
//! ```
//!
//! So a condition whose recorded waits fall where nothing is left, and whose other sections begin where something is,
//! becomes a semaphore. A replay then waits where nothing is left *there*: waits are gained as well as lost. What is in
//! it at the start is the number at which its waits agree. If it is a flag and no number, a signal is lost where the
//! flag is set already.
//!
//! A task may use the mutex for other things, too. The place in the program from which it takes the mutex tells its
//! sections apart; where that was not recorded, what the task did before. Those that begin as one that waited began may
//! take something. A signal is for whoever waits. Where one task alone may be meant, and at a broadcast, each
//! waiter has a semaphore of its own. All other conditions stay what their futexes tell ([`locks`](super::locks)).

use super::edit::{Edits, Insert, apply};
use super::locks::{SyncKind, length_of, place_after_wait};
use super::recorded::{Channels, SeenKind, op_of};
use crate::{Event, EventId, EventKind, ObjectId, ObjectOp, Recorded, Wakeup, Workload};
use schedlab_stdx::percentile::upper_median;
use schedlab_units::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Conditions with fewer waits tell nothing of what they count.
const WAITS_MIN: usize = 16;
/// One in so many waits and sections may contradict the count.
const FLAWS: usize = 20;
/// A condition whose waiters have a semaphore each has no more of them.
const PARTS_MAX: usize = 16;

/// A condition, and who does what there.
#[derive(Default)]
struct Condition {
    nr_waits: usize,
    mutexes: BTreeSet<u32>,
    waiters: BTreeSet<usize>,
    /// Who signals, and who wakes all.
    signallers: BTreeSet<usize>,
    broadcasters: BTreeSet<usize>,
}

/// How a section began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Begin {
    /// From this place in the program.
    From(u64),
    /// The place was not recorded: behind this operation, and at what.
    Behind(&'static str, At),
    /// And there was none.
    First,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Mutex,
    Condition,
    Other,
}

/// A stretch in which a waiter holds the condition's mutex, the waits within it included.
#[derive(Clone, Debug)]
struct Section {
    task: usize,
    /// Row of its LOCK.
    lock: usize,
    /// Row of its UNLOCK, if there is one.
    end: Option<usize>,
    begin: Begin,
    /// Rows of its WAITs at this condition.
    waits: Vec<usize>,
    /// It came to its end, its last wait was not over by time, and it waited for nothing else.
    may_take: bool,
}

/// What happens at a condition, in order of time.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A signal; the row of the event.
    Give { task: usize, row: usize, to_all: bool },
    /// A section waits for the first time.
    Wait,
    /// A section is over.
    End { section: usize },
}

/// Waiters that take from one semaphore, and what becomes of it.
#[derive(Default)]
struct Counted {
    start: i64,
    sections: Vec<Section>,
    /// Sections that take one.
    takes: BTreeSet<usize>,
    /// How much each signal gives, by task and row of its event.
    gives: BTreeMap<(usize, usize), u64>,
    /// Waits where something was left, and sections that waited for nothing where nothing was.
    wrong_waits: usize,
    wrong_sections: usize,
}

/// Makes conditions that count into semaphores: their signals are posts, and their waiters' sections take one.
pub(super) fn count(workload: &mut Workload, channels: &mut Channels) -> u64 {
    let all = conditions(workload, channels);
    if all.is_empty() {
        return 0;
    }
    let mut changes = vec![Changes::default(); workload.tasks.len()];
    let mut nr = 0;
    let places = Places::new(workload);
    for (row, condition) in all {
        let Some((mutex, all)) = semaphores((workload, &places), channels, (row, &condition)) else {
            continue;
        };
        let mut gives: BTreeMap<(usize, usize), Vec<ObjectId>> = BTreeMap::new();
        for (part, counted) in all.iter().enumerate() {
            let object = ObjectId(if part == 0 { row } else { channels.part_of_condition(row) });
            channels.locks.begins_with(object.0, counted.start);
            let is_its = |futex: ObjectId| channels.locks.parent_of(futex.0) == Some(row);
            takes(workload, (object, mutex), counted, (&is_its, &mut changes));
            for (place, times) in &counted.gives {
                gives.entry(*place).or_default().extend((0..*times).map(|_| object));
            }
        }
        for (place, to) in gives {
            give(workload, place, &to, &mut changes);
        }
        channels.list[row as usize].kind = SeenKind::Sync(SyncKind::Semaphore);
        nr += 1;
    }
    let mut edits = Vec::new();
    for (task, Changes { ops, edits: mut own }) in workload.tasks.iter_mut().zip(changes) {
        for (row, to) in ops {
            if let EventKind::Object { op, .. } = &mut task.events[row].kind {
                *op = to;
            }
        }
        own.inserted.sort_by_key(|insert| insert.before);
        edits.push(own);
    }
    apply(workload, &edits);
    nr
}

/// What becomes of a task's events. Nothing changes before all conditions were looked at: several may have one mutex.
#[derive(Clone, Default)]
struct Changes {
    /// Operations that become others, by row.
    ops: BTreeMap<usize, ObjectOp>,
    edits: Edits,
}

/// Where tasks do something at a mutex or condition: rows of events by task and object. A wait is at both.
struct Places(BTreeMap<(usize, u32), Vec<usize>>);

impl Places {
    fn new(workload: &Workload) -> Places {
        let mut places: BTreeMap<(usize, u32), Vec<usize>> = BTreeMap::new();
        for (task, of) in workload.tasks.iter().enumerate() {
            for (row, event) in of.events.iter().enumerate() {
                let mut add = |object: ObjectId| places.entry((task, object.0)).or_default().push(row);
                match op_of(event) {
                    Some(ObjectOp::Wait { object, mutex }) => {
                        add(object);
                        add(mutex);
                    }
                    Some(
                        ObjectOp::Lock { object }
                        | ObjectOp::Unlock { object }
                        | ObjectOp::Signal { object }
                        | ObjectOp::Broadcast { object },
                    ) => add(object),
                    _ => {}
                }
            }
        }
        Places(places)
    }

    fn at(&self, task: usize, object: u32) -> &[usize] {
        self.0.get(&(task, object)).map_or(&[], |rows| rows)
    }
}

/// All conditions at which tasks wait often enough, by their rows.
fn conditions(workload: &Workload, channels: &Channels) -> BTreeMap<u32, Condition> {
    let mut all: BTreeMap<u32, Condition> = BTreeMap::new();
    for (task, events) in workload.tasks.iter().map(|task| &task.events).enumerate() {
        for op in events.iter().filter_map(op_of) {
            let row = op.object().0;
            if channels.list[row as usize].kind != SeenKind::Sync(SyncKind::Condition) {
                continue;
            }
            let condition = all.entry(row).or_default();
            match op {
                ObjectOp::Wait { mutex, .. } => {
                    condition.nr_waits += 1;
                    condition.mutexes.insert(mutex.0);
                    condition.waiters.insert(task);
                }
                ObjectOp::Broadcast { .. } => drop(condition.broadcasters.insert(task)),
                _ => drop(condition.signallers.insert(task)),
            }
        }
    }
    all.retain(|_, condition| condition.nr_waits >= WAITS_MIN);
    all
}

/// The semaphores that a condition is, with its mutex; `None`: it does not count.
fn semaphores(
    recording: (&Workload, &Places),
    channels: &Channels,
    (row, condition): (u32, &Condition),
) -> Option<(ObjectId, Vec<Counted>)> {
    let mutex = *condition.mutexes.first().filter(|_| condition.mutexes.len() == 1)?;
    if channels.list[mutex as usize].is_recursive {
        return None;
    }
    let Condition { waiters, signallers, broadcasters, .. } = condition;
    let others = |task: &usize| waiters.len() - usize::from(waiters.contains(task));
    let is_shared = signallers.iter().any(|task| others(task) > 1);
    let parts: Vec<BTreeSet<usize>> = match is_shared {
        true if !waiters.is_disjoint(signallers) || !waiters.is_disjoint(broadcasters) => return None,
        true => vec![waiters.clone()],
        false if waiters.len() > PARTS_MAX => return None,
        false => waiters.iter().map(|waiter| BTreeSet::from([*waiter])).collect(),
    };
    let givers = signallers | broadcasters;
    let all: Option<Vec<Counted>> = parts
        .iter()
        .map(|part| counted(recording, channels, (row, mutex), part, &(&givers - part)))
        .collect();
    let all = all?;
    let sum = |of: &dyn Fn(&Counted) -> usize| all.iter().map(of).sum::<usize>();
    let nr_waits = sum(&|part| part.sections.iter().filter(|section| !section.waits.is_empty()).count());
    let is_so = sum(&|part| part.wrong_waits) * FLAWS <= nr_waits
        && sum(&|part| part.wrong_sections) * FLAWS <= sum(&|part| part.takes.len());
    (nr_waits >= WAITS_MIN && is_so).then_some((ObjectId(mutex), all))
}

/// What these waiters' semaphore counts: a number or a flag, by sections that begin alike or by all. The one with the
/// fewest flaws is taken.
fn counted(
    (workload, places): (&Workload, &Places),
    channels: &Channels,
    (condition, mutex): (u32, u32),
    waiters: &BTreeSet<usize>,
    givers: &BTreeSet<usize>,
) -> Option<Counted> {
    let mut sections = Vec::new();
    for &task in waiters {
        let events = &workload.tasks[task].events;
        sections_of(events, (channels, places), (task, condition, mutex), &mut sections);
    }
    let mut begins: BTreeSet<Begin> =
        sections.iter().filter(|section| !section.waits.is_empty()).map(|section| section.begin).collect();
    begins.insert(Begin::First);
    let is_alone = waiters.len() == 1;
    // waits and signals are the same, whichever sections take something
    let mut known: Vec<(EventId, Step)> = Vec::new();
    for section in &sections {
        let wait = section.waits.first().map(|row| workload.tasks[section.task].events[*row].eid);
        known.extend(wait.map(|eid| (eid, Step::Wait)));
    }
    for &task in givers {
        let mut rows = [places.at(task, condition), places.at(task, mutex)].concat();
        rows.sort_unstable();
        signals((task, &workload.tasks[task].events, &rows), (condition, mutex), &mut known);
    }
    let mut found: Vec<Counted> = Vec::new();
    for begins in [Some(&begins), None] {
        let mut steps = known.clone();
        for (number, section) in sections.iter().enumerate() {
            let is_such = begins.is_none_or(|begins| begins.contains(&section.begin));
            let end = section.end.filter(|_| is_such).map(|row| workload.tasks[section.task].events[row].eid);
            steps.extend(end.map(|eid| (eid, Step::End { section: number })));
        }
        steps.sort_by_key(|(eid, _)| *eid);
        let steps: Vec<Step> = steps.into_iter().map(|(_, step)| step).collect();
        // what is there at the start, as if each section that ends took one
        let (mut level, mut at_waits) = (0i64, Vec::new());
        for step in &steps {
            match step {
                Step::Give { to_all, .. } => level += i64::from(is_alone || !to_all),
                Step::Wait => at_waits.push(level),
                Step::End { section } => level -= i64::from(sections[*section].may_take),
            }
        }
        at_waits.sort_unstable();
        let start = (-upper_median(&at_waits)?).max(0);
        found.push(levels(&sections, &steps, start, (is_alone, None)));
        found.push(levels(&sections, &steps, 0, (is_alone, Some(1))));
    }
    let mut best = found.into_iter().min_by_key(|counted| counted.wrong_waits + counted.wrong_sections)?;
    best.sections = sections;
    Some(best)
}

/// Follows the number; with `most` a signal gives nothing beyond that.
fn levels(
    sections: &[Section],
    steps: &[Step],
    start: i64,
    (is_alone, most): (bool, Option<i64>),
) -> Counted {
    let mut counted = Counted { start, ..Counted::default() };
    let (mut level, mut waiting) = (start, 0u64);
    for step in steps {
        match *step {
            Step::Give { task, row, to_all } => {
                let wanted = if to_all && !is_alone { waiting as i64 } else { 1 };
                let gives = most.map_or(wanted, |most| wanted.min(most - level)).max(0);
                counted.gives.insert((task, row), gives as u64);
                level += gives;
            }
            Step::Wait => {
                waiting += 1;
                counted.wrong_waits += usize::from(level > 0);
            }
            Step::End { section: row } => {
                let section = &sections[row];
                waiting -= u64::from(!section.waits.is_empty());
                let takes = section.may_take && level > 0;
                counted.wrong_sections += usize::from(section.may_take && !takes);
                if takes {
                    level -= 1;
                    counted.takes.insert(row);
                }
            }
        }
    }
    counted
}

/// Whether an operation is a call of `futex` within a function of the library's.
fn is_call_within(channels: &Channels, op: ObjectOp) -> bool {
    let is_call = matches!(op, ObjectOp::Send { .. } | ObjectOp::Receive { .. });
    is_call && matches!(channels.list[op.object().0 as usize].kind, SeenKind::Sync(_))
}

/// What a task did before its event of a row.
fn behind(events: &[Event], channels: &Channels, (row, condition, mutex): (usize, u32, u32)) -> Begin {
    let ops = events[..row].iter().rev().filter_map(op_of);
    let last = ops.into_iter().find(|op| !is_call_within(channels, *op));
    last.map_or(Begin::First, |op| {
        let at = match op.object().0 {
            row if row == mutex => At::Mutex,
            row if row == condition => At::Condition,
            _ => At::Other,
        };
        Begin::Behind(op.name(), at)
    })
}

/// The sections of one waiter, but for those in which it waits for another condition alone.
fn sections_of(
    events: &[Event],
    (channels, places): (&Channels, &Places),
    (task, condition, mutex): (usize, u32, u32),
    sections: &mut Vec<Section>,
) {
    let mut open: Option<Section> = None;
    let mut waits_elsewhere = false;
    for &row in places.at(task, mutex) {
        match op_of(&events[row]) {
            Some(ObjectOp::Lock { .. }) => {
                // one that never ended keeps its waits
                sections.extend(open.take());
                let from = channels.locks.from.get(&events[row].eid);
                let begin = match from {
                    Some(from) => Begin::From(*from),
                    None => behind(events, channels, (row, condition, mutex)),
                };
                let (waits, may_take) = (Vec::new(), false);
                open = Some(Section { task, lock: row, end: None, begin, waits, may_take });
                waits_elsewhere = false;
            }
            Some(ObjectOp::Wait { object, .. }) => match &mut open {
                Some(section) if object.0 == condition => section.waits.push(row),
                _ => waits_elsewhere = true,
            },
            Some(ObjectOp::Unlock { .. }) => {
                if let Some(mut section) = open.take() {
                    let is_over = |wait: &usize| is_over_by_time(&events[*wait..row]);
                    section.end = Some(row);
                    section.may_take = !section.waits.last().is_some_and(is_over) && !waits_elsewhere;
                    let is_other = waits_elsewhere && section.waits.is_empty();
                    sections.extend((!is_other).then_some(section));
                }
            }
            _ => {}
        }
    }
    sections.extend(open);
}

/// Whether what a wait slept was ended by no task.
fn is_over_by_time(events: &[Event]) -> bool {
    let wakeup = events.iter().find_map(|event| match &event.kind {
        EventKind::Wakeup(wakeup) => Some(wakeup),
        _ => None,
    });
    wakeup.is_some_and(|wakeup| !matches!(wakeup, Wakeup::Dependent { .. }))
}

/// The signals of one task, at these rows. What a signal tells of was done before it let the mutex go.
fn signals(
    (task, events, rows): (usize, &[Event], &[usize]),
    (condition, mutex): (u32, u32),
    steps: &mut Vec<(EventId, Step)>,
) {
    let (mut holds, mut let_go) = (false, None);
    for &row in rows {
        let eid = events[row].eid;
        match op_of(&events[row]) {
            Some(ObjectOp::Lock { object }) if object.0 == mutex => holds = true,
            Some(ObjectOp::Unlock { object }) if object.0 == mutex => (holds, let_go) = (false, Some(eid)),
            Some(op @ (ObjectOp::Signal { object } | ObjectOp::Broadcast { object }))
                if object.0 == condition =>
            {
                let at = let_go.take().filter(|_| !holds).unwrap_or(eid);
                let to_all = matches!(op, ObjectOp::Broadcast { .. });
                steps.push((at, Step::Give { task, row, to_all }));
            }
            _ => {}
        }
    }
}

fn insert(before: usize, length: Span, op: ObjectOp) -> Insert {
    Insert { before, length, op, recorded: Recorded::Awake }
}

/// Notes what waiters do: a wait lets the mutex go, and takes it again behind what it waits for.
fn takes(
    workload: &Workload,
    (object, mutex): (ObjectId, ObjectId),
    counted: &Counted,
    (is_its, changes): (&impl Fn(ObjectId) -> bool, &mut [Changes]),
) {
    for (number, section) in counted.sections.iter().enumerate() {
        let events = &workload.tasks[section.task].events;
        let Changes { ops, edits: Edits { inserted, .. } } = &mut changes[section.task];
        let takes = counted.takes.contains(&number).then_some(ObjectOp::Arrive { object });
        if section.waits.is_empty() {
            inserted.extend(takes.map(|op| insert(section.lock, length_of(&events[section.lock]), op)));
        }
        for &row in &section.waits {
            let at = length_of(&events[row]);
            let takes = takes.filter(|_| row == section.waits[0] && row + 1 < events.len());
            inserted.extend(takes.map(|op| insert(row + 1, at, op)));
            let (before, length) = place_after_wait(events, row, is_its, mutex);
            if events.get(before).is_some_and(|next| next.kind.length().is_some()) {
                inserted.push(insert(before, length, ObjectOp::Lock { object: mutex }));
            }
            ops.insert(row, ObjectOp::Unlock { object: mutex });
        }
    }
}

/// Notes what a signal gives, to one semaphore after the other.
fn give(workload: &Workload, (task, row): (usize, usize), to: &[ObjectId], changes: &mut [Changes]) {
    let length = length_of(&workload.tasks[task].events[row]);
    let Changes { ops, edits } = &mut changes[task];
    let signal = |object: &ObjectId| ObjectOp::Signal { object: *object };
    match to.split_last() {
        Some((last, others)) => {
            edits.inserted.extend(others.iter().map(|object| insert(row, length, signal(object))));
            ops.insert(row, signal(last));
        }
        None => drop(edits.removed.insert(row)),
    }
}
