//! Recorded futexes and locks: who waits for whom, and for how long nobody else may go on.
//!
//! A futex is a word of the program's, and the kernel does not know what it means. Where the C library's functions were
//! recorded (`record --objects=locks`), they say it, and the calls of `futex` within them say who slept:
//!
//! ```text
//! recorded   lock(m) .. futex(m, WAIT) BLOCK ... WAKEUP .. = 0 .. unlock(m)      the block goes:
//! workload   LOCK m (slept) ............................... UNLOCK m
//!
//! recorded   wait(c, m) .. futex BLOCK ... WAKEUP ..                             a predicate is behind each condition:
//! workload   UNLOCK m, RECV c (slept), LOCK m                                    a signal that comes first is not lost
//! ```
//!
//! A futex without functions, also that of a condition, becomes a semaphore if one task alone waits there, its wakers
//! never do, and each wakeup woke a recorded wait. Otherwise its waits stay recorded blocks: a task could take what it
//! put in itself, or what another one needs to go on, and the replay could end in a deadlock that the program has not.
//! A wakeup that found its task awake is no call of `futex`. Those are inferred ([`inferred`](super::inferred)), but
//! for locks: who waits for one expects a certain value there.
//! A recorded block of a task that holds a mutex lets it go meanwhile ([`held`](super::held)).
//! What contradicts itself (a lock by who holds it, an unlock by who does not) is left out and counted.

use super::edit::Insert;
use super::held::Holds;
use super::recorded::{Channels, SeenKind, op_of};
use crate::{Event, EventId, EventKind, ObjectId, ObjectOp, Recorded, Workload};
use schedlab_trace::{MutexKind, SyncCall, SyncOp};
use schedlab_units::Span;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a futex is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SyncKind {
    /// Not known.
    Futex,
    Mutex,
    Condition,
    Semaphore,
    Barrier,
}

impl SyncKind {
    const ALL: [(SyncKind, &'static str); SyncKind::NR] = [
        (SyncKind::Futex, "futex"),
        (SyncKind::Mutex, "mutex"),
        (SyncKind::Condition, "condition"),
        (SyncKind::Semaphore, "semaphore"),
        (SyncKind::Barrier, "barrier"),
    ];
    pub const NR: usize = 5;

    pub fn name(self) -> &'static str {
        SyncKind::ALL.iter().find(|(kind, _)| *kind == self).map_or("futex", |(_, name)| name)
    }
}

/// What was seen of locks while the recording was read.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// Row of the condition or barrier that a task is in.
    within: HashMap<usize, u32>,
    /// Conditions and barriers by the rows of their futexes. (A condition has several: signals, and who leaves.)
    parents: HashMap<u32, u32>,
    /// From which place in the program a mutex was locked.
    pub from: HashMap<EventId, u64>,
    /// Semaphores of single waiters, by the condition that they are part of.
    parts: HashMap<u32, u32>,
    /// Forked tasks by their number, with their parents.
    born: HashMap<i32, (usize, usize)>,
    /// Where tasks tell of their ends.
    pub ends: HashMap<usize, u32>,
    /// Futexes whose waiters were put to another one.
    links: Vec<(u32, u32)>,
    /// What is in each semaphore, counted from the start, and the least that was there when a task took one without a
    /// sleep.
    levels: BTreeMap<u32, (i64, i64)>,
    /// A task's last taking, and what was left then, until it is known whether it slept.
    taking: HashMap<usize, (u32, i64)>,
    /// The same of a semaphore of which it wanted one if there was any, up to its next call at a semaphore or channel.
    tried: HashMap<usize, (u32, i64)>,
    /// How often tasks waited at each futex for a contended lock to be free, and how often for something else.
    expected: BTreeMap<u32, (u64, u64)>,
    counts: Counts,
}

/// What a futex holds whose lock is had and waited for: in glibc, in Rust's library and in Go's runtime alike.
const CONTENDED: u32 = 2;

/// Calls that leave no operation.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    woke_nobody: u64,
    changed: u64,
    gave_up: u64,
    functions: u64,
}

impl Locks {
    pub fn born(&mut self, tid: i32, task: usize, parent: usize) {
        self.born.insert(tid, (task, parent));
    }

    pub fn leaves(&mut self, task: usize) {
        self.within.remove(&task);
        self.took_awake(task);
    }

    /// The condition or barrier that a futex belongs to.
    pub fn parent_of(&self, futex: u32) -> Option<u32> {
        self.parents.get(&futex).copied()
    }

    /// This semaphore is one of a condition's.
    pub fn is_part_of(&mut self, row: u32, condition: u32) {
        self.parts.insert(row, condition);
    }

    /// What is in a semaphore at the start.
    pub fn begins_with(&mut self, row: u32, start: i64) {
        self.levels.insert(row, (0, -start));
    }

    /// Waits at this futex were for the same as those at another one.
    fn waits_as(&mut self, row: u32, other: u32) {
        if let Some(expected) = self.expected.get(&other).copied() {
            self.expected.insert(row, expected);
        }
    }

    /// A task goes on without a wait for what it tried to take: it has it.
    pub fn keeps_what_it_tried(&mut self, task: usize) {
        if let Some((row, left)) = self.tried.remove(&task) {
            self.had(row, left);
        }
    }

    /// One was taken without a sleep, and so many were left.
    fn had(&mut self, row: u32, left: i64) {
        if let Some((_, least)) = self.levels.get_mut(&row) {
            *least = left.min(*least);
        }
    }

    fn took_awake(&mut self, task: usize) {
        if let Some((row, left)) = self.taking.remove(&task) {
            self.had(row, left);
        }
    }
}

impl Channels {
    /// A futex is a mutex, but for some of its waits: the row for those.
    pub(super) fn rest_of_lock(&mut self, lock: u32) -> u32 {
        self.list[lock as usize].kind = SeenKind::Sync(SyncKind::Mutex);
        let rest = self.part(SeenKind::Sync(SyncKind::Futex));
        self.locks.waits_as(rest, lock);
        rest
    }
}

/// A lock that is taken if it is free stands as a TICK until it is known whether it was. What a semaphore gives, takes
/// as SIGNAL and ARRIVE, beside the SENDs and RECVs of its futex.
fn attempt(object: ObjectId) -> ObjectOp {
    ObjectOp::Tick { object, period: Span::ZERO }
}

/// See [`Channels::sync`].
pub(super) fn op_of_call(channels: &mut Channels, task: usize, call: SyncCall) -> Option<ObjectOp> {
    use SyncOp::{
        BarrierWait, ConditionBroadcast, ConditionSignal, ConditionWait, FutexChanged, FutexGaveUp,
        FutexLockPi, FutexRequeue, FutexUnlockPi, FutexWake, FutexWoken, MutexLock, MutexTry, MutexUnlock,
        SemaphoreEmpty, SemaphorePost, SemaphoreTry, SemaphoreWait,
    };
    let within_function = matches!(
        call.what,
        FutexWoken | FutexChanged | FutexGaveUp | FutexWake | FutexRequeue | FutexLockPi | FutexUnlockPi
    );
    if !within_function {
        channels.leaves_lock(task);
        channels.locks.counts.functions += 1;
    }
    let lock = |channels: &mut Channels, key: u64, mutex: Option<MutexKind>| {
        let row = named(channels, key, SyncKind::Mutex);
        let seen = &mut channels.list[row as usize];
        seen.inherits_priority |= mutex.is_some_and(|kind| kind.inherits_priority);
        seen.is_recursive |= mutex.is_some_and(|kind| kind.is_recursive);
        ObjectId(row)
    };
    Some(match call.what {
        FutexWoken | FutexChanged if joined(channels, task, call.value).is_some() => {
            ObjectOp::Receive { object: joined(channels, task, call.value)?, amount: 1 }
        }
        FutexWoken => {
            let object = futex(channels, task, call.key);
            channels.locks.taking.remove(&task);
            let (locks, others) = channels.locks.expected.entry(object.0).or_default();
            *(if call.value == CONTENDED { locks } else { others }) += 1;
            ObjectOp::Receive { object, amount: 1 }
        }
        FutexChanged => {
            channels.locks.counts.changed += 1;
            return None;
        }
        FutexGaveUp => {
            channels.locks.counts.gave_up += 1;
            return None;
        }
        FutexWake | FutexRequeue => {
            let object = futex(channels, task, call.key);
            if call.what == FutexRequeue && call.other != 0 {
                let other = futex(channels, task, call.other);
                channels.locks.links.push((object.0, other.0));
            }
            if call.value == 0 {
                channels.locks.counts.woke_nobody += 1;
                return None;
            }
            ObjectOp::Send { object, amount: call.value }
        }
        FutexLockPi | FutexUnlockPi => {
            let object = futex(channels, task, call.key);
            channels.list[object.0 as usize].inherits_priority = true;
            match call.what {
                FutexLockPi => ObjectOp::Receive { object, amount: 1 },
                _ => ObjectOp::Send { object, amount: 1 },
            }
        }
        MutexLock(kind) => ObjectOp::Lock { object: lock(channels, call.key, Some(kind)) },
        MutexTry(kind) => attempt(lock(channels, call.key, Some(kind))),
        MutexUnlock => ObjectOp::Unlock { object: lock(channels, call.key, None) },
        ConditionWait => {
            let object = within(channels, task, call.key, SyncKind::Condition);
            ObjectOp::Wait { object, mutex: lock(channels, call.other, None) }
        }
        ConditionSignal => ObjectOp::Signal { object: within(channels, task, call.key, SyncKind::Condition) },
        ConditionBroadcast => {
            ObjectOp::Broadcast { object: within(channels, task, call.key, SyncKind::Condition) }
        }
        BarrierWait => {
            let object = within(channels, task, call.key, SyncKind::Barrier);
            let seen = &mut channels.list[object.0 as usize];
            seen.room = seen.room.max(call.value);
            ObjectOp::Arrive { object }
        }
        SemaphoreWait | SemaphoreTry | SemaphoreEmpty | SemaphorePost => {
            return at_semaphore(channels, task, call);
        }
    })
}

/// Adds one to a semaphore, or takes one. `None`: it does neither, or the attempt before stands for it.
fn at_semaphore(channels: &mut Channels, task: usize, call: SyncCall) -> Option<ObjectOp> {
    if call.what == SyncOp::SemaphoreWait && tried_in_vain(channels, task, call.key) {
        return None;
    }
    channels.locks.keeps_what_it_tried(task);
    if call.what == SyncOp::SemaphoreEmpty {
        return None;
    }
    let row = named(channels, call.key, SyncKind::Semaphore);
    let (level, _) = channels.locks.levels.entry(row).or_insert((0, 0));
    let until_known = match call.what {
        SyncOp::SemaphorePost => {
            *level += 1;
            return Some(ObjectOp::Signal { object: ObjectId(row) });
        }
        SyncOp::SemaphoreTry => &mut channels.locks.tried,
        _ => &mut channels.locks.taking,
    };
    *level -= 1;
    until_known.insert(task, (row, *level));
    Some(ObjectOp::Arrive { object: ObjectId(row) })
}

/// Whether a task waits for what it has just tried to take: somebody else was faster, and this is no second taking.
fn tried_in_vain(channels: &mut Channels, task: usize, key: u64) -> bool {
    let row = channels.known(key);
    let locks = &mut channels.locks;
    let Some((tried, _)) = locks.tried.get(&task).copied().filter(|(tried, _)| row == Some(*tried)) else {
        return false;
    };
    let left = locks.levels.get(&tried).map_or(0, |(level, _)| *level);
    locks.tried.remove(&task);
    locks.taking.insert(task, (tried, left));
    true
}

/// The row of this key, which a function has named now.
fn named(channels: &mut Channels, key: u64, kind: SyncKind) -> u32 {
    let row = channels.row_of(key, SeenKind::Sync(kind));
    channels.list[row as usize].kind = SeenKind::Sync(kind);
    row
}

/// The same, and the task is in that function from now on.
fn within(channels: &mut Channels, task: usize, key: u64, kind: SyncKind) -> ObjectId {
    let row = named(channels, key, kind);
    channels.locks.within.insert(task, row);
    ObjectId(row)
}

/// What a futex belongs to: the lock that has its address, or itself. In the second case the condition or barrier that
/// the task is in is its parent.
fn futex(channels: &mut Channels, task: usize, key: u64) -> ObjectId {
    let known = channels.known(key).filter(|row| {
        let kind = channels.list[*row as usize].kind;
        matches!(kind, SeenKind::Sync(SyncKind::Mutex | SyncKind::Semaphore))
    });
    if let Some(row) = known {
        return ObjectId(row);
    }
    let row = channels.row_of(key, SeenKind::Sync(SyncKind::Futex));
    if let Some(parent) = channels.locks.within.get(&task).copied().filter(|parent| *parent != row) {
        channels.locks.parents.insert(row, parent);
    }
    ObjectId(row)
}

/// The barrier that a futex belongs to, or the condition that counts: the futex is no object then.
pub(super) fn owner_of(channels: &Channels, row: u32) -> Option<u32> {
    let parent = channels.locks.parent_of(row)?;
    let kind = channels.list[parent as usize].kind;
    matches!(kind, SeenKind::Sync(SyncKind::Barrier | SyncKind::Semaphore)).then_some(parent)
}

/// The end of the thread that a wait is for: such a futex holds the thread's number until the kernel clears it.
fn joined(channels: &mut Channels, task: usize, value: u32) -> Option<ObjectId> {
    let (thread, parent) = *channels.locks.born.get(&i32::try_from(value).ok()?)?;
    (parent == task).then(|| channels.end_of(thread))
}

/// What is to be done with the operations at locks.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Of each row, whether it becomes an object. (Of futexes and locks alone.)
    pub usable: Vec<bool>,
    /// What is in semaphores at the start.
    pub starts: Vec<u32>,
    pub tasks: Vec<TaskLocks>,
    /// Locks that one task alone uses.
    pub private: u64,
    /// Locks that tasks hold while they wake others.
    pub nr_held: u64,
    /// Futexes where one task alone waits, and its wakers never do.
    pub alone: Vec<bool>,
}

/// The same, of one task.
#[derive(Debug, Default)]
pub(super) struct TaskLocks {
    pub removed: BTreeSet<usize>,
    pub inserted: Vec<Insert>,
    /// Operations that become others.
    pub changed: BTreeMap<usize, ObjectOp>,
    /// Rows of operations that slept.
    pub slept: BTreeSet<usize>,
    /// When it holds which mutexes.
    pub holds: Holds,
    /// Row of the operation by which the task came to where it sleeps, for its futex's calls; last first.
    began: Vec<(usize, u32)>,
}

impl TaskLocks {
    /// The operation at this row is followed by a wait at a lock, whose LOCK is put in.
    pub fn waits_at(&mut self, row: usize, lock: u32) {
        self.began.push((row, lock));
    }
}

impl Settled {
    /// A block at `row` of a task was a wait at this object. Is it a lock, whose function is an operation before the
    /// block? That one slept then.
    pub fn whose_block(
        &mut self,
        (workload, channels): (&Workload, &Channels),
        (task, row): (usize, usize),
        object: ObjectId,
    ) -> BlockOf {
        let SeenKind::Sync(kind) = channels.list[object.0 as usize].kind else { return BlockOf::Itself };
        let object = owner_of(channels, object.0).map_or(object, ObjectId);
        if kind == SyncKind::Futex && channels.list[object.0 as usize].kind == SeenKind::Sync(kind) {
            return BlockOf::Itself;
        }
        let own = &mut self.tasks[task];
        let is_there = |of: &u32| *of == object.0 || channels.locks.parts.get(of) == Some(&object.0);
        let began = own.began.iter().rev().find(|(at, of)| *at < row && is_there(of));
        let Some((at, _)) = began.copied() else { return BlockOf::Unknown };
        let is_again = |insert: &&mut Insert| {
            insert.before > at && insert.before <= row && insert.op == (ObjectOp::Lock { object })
        };
        match own.inserted.iter_mut().find(is_again) {
            Some(insert) => insert.recorded = Recorded::Slept,
            None => {
                own.slept.insert(at);
                if let Some(op) = op_of(&workload.tasks[task].events[at]) {
                    own.changed.entry(at).or_insert(op);
                }
            }
        }
        BlockOf::Function
    }
}

/// Which operation a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockOf {
    /// The receipt that follows it.
    Itself,
    /// A function's, which stands before it.
    Function,
    /// A lock's, of which no function was recorded.
    Unknown,
}

/// Who does what at each row.
#[derive(Default)]
struct Users {
    wakers: BTreeSet<usize>,
    waiters: BTreeSet<usize>,
    woken: u64,
    waited: u64,
    lockers: BTreeSet<usize>,
    arrivals: u64,
    posts: u64,
}

impl Users {
    /// One task alone waits, and its wakers never do.
    fn is_alone(&self) -> bool {
        self.waiters.len() == 1 && self.wakers.is_disjoint(&self.waiters)
    }
}

/// Puts the operations at futexes and locks in order: what is used alone goes, what contradicts itself is counted.
pub(super) fn settle(workload: &mut Workload, channels: &mut Channels) -> Settled {
    link(workload, channels);
    for task in 0..workload.tasks.len() {
        channels.locks.keeps_what_it_tried(task);
    }
    let mut users = users(workload, channels);
    if unite_alone(workload, channels, &users) {
        users = self::users(workload, channels);
    }
    let sections = super::sections::find(workload, channels, |row| users[row as usize].is_alone());
    let channels = &*channels;
    if sections.nr_locks() > 0 {
        users = self::users(workload, channels);
    }
    let mut settled = Settled { nr_held: sections.nr_locks(), ..Settled::default() };
    for (row, (seen, of)) in channels.list.iter().zip(&users).enumerate() {
        // where several wait, one could take what another needs to go on
        let is_alone = of.is_alone();
        let waited_alike = is_alone && of.waited == of.woken;
        let is_futex = seen.kind == SeenKind::Sync(SyncKind::Futex);
        let is_free = !is_lock_like(channels, row as u32) && owner_of(channels, row as u32).is_none();
        settled.alone.push(is_alone && is_futex && is_free);
        let parties = u64::from(seen.room);
        let (level, least) = channels.locks.levels.get(&(row as u32)).copied().unwrap_or((0, 0));
        let is_counted = matches!(seen.kind, SeenKind::Sync(SyncKind::Semaphore));
        let start = if is_counted { (-least).max(-level).max(0) } else { 0 };
        let is_usable = match seen.kind {
            SeenKind::Sync(SyncKind::Futex) => waited_alike,
            SeenKind::Sync(SyncKind::Mutex) => of.lockers.len() > 1,
            SeenKind::Sync(SyncKind::Semaphore) => of.arrivals > 0 && (of.posts > 0 || start > 0),
            SeenKind::Sync(SyncKind::Barrier) => {
                let whole = parties > 0 && of.arrivals.is_multiple_of(parties);
                whole && of.lockers.len() as u64 >= parties && of.arrivals > 0
            }
            _ => false,
        };
        let is_lock = matches!(seen.kind, SeenKind::Sync(SyncKind::Mutex));
        settled.private += u64::from(is_lock && of.lockers.len() == 1);
        settled.usable.push(is_usable);
        settled.starts.push(u32::try_from(start).unwrap_or(u32::MAX));
    }
    for row in 0..channels.list.len() {
        if let Some(owner) = owner_of(channels, row as u32) {
            settled.usable[row] = settled.usable[owner as usize];
        }
    }
    let mut flaws = Flaws::default();
    for task in 0..workload.tasks.len() {
        settled.tasks.push(Walk::new(channels, &settled.usable).task(workload, task, &mut flaws));
    }
    for (task, own) in workload.tasks.iter().zip(&settled.tasks) {
        // whoever is to wake it may need the mutex first: such waits stay recorded blocks
        let mut held = own.holds.in_order();
        for (row, op) in (0..).zip(&task.events).filter_map(|(row, event)| Some((row, op_of(event)?))) {
            let ObjectOp::Receive { object, .. } = op else { continue };
            let is_futex = channels.list[object.0 as usize].kind == SeenKind::Sync(SyncKind::Futex);
            if is_futex && !held.at(row).is_empty() {
                settled.usable[object.0 as usize] = false;
            }
        }
    }
    for (reason, times) in [
        ("lock of a mutex that its task holds already in the recording, left out", flaws.twice),
        ("unlock of a mutex that its task does not hold in the recording, left out", flaws.not_held),
        ("wait at a condition without its mutex in the recording, its mutex left out", flaws.without),
        ("mutex that its task holds to its end, let go there", flaws.kept),
    ] {
        workload.count_dropped(reason, times);
    }
    sections.put(workload, channels, &mut settled);
    settled
}

#[derive(Default)]
struct Flaws {
    twice: u64,
    not_held: u64,
    without: u64,
    kept: u64,
}

/// Futexes between which waiters were moved are one.
fn link(workload: &mut Workload, channels: &Channels) {
    let mut first: Vec<u32> = (0..channels.list.len() as u32).collect();
    fn find(first: &[u32], mut row: u32) -> u32 {
        while first[row as usize] != row {
            row = first[row as usize];
        }
        row
    }
    for (a, b) in &channels.locks.links {
        let (a, b) = (find(&first, *a), find(&first, *b));
        let is_futex = |row: u32| channels.list[row as usize].kind == SeenKind::Sync(SyncKind::Futex);
        if is_futex(a) && is_futex(b) {
            first[a.max(b) as usize] = a.min(b);
        }
    }
    if channels.locks.links.is_empty() {
        return;
    }
    rename(workload, |row| find(&first, row));
}

/// What is sent and received at a row is so at another one.
fn rename(workload: &mut Workload, to: impl Fn(u32) -> u32) {
    for event in workload.tasks.iter_mut().flat_map(|task| &mut task.events) {
        if let EventKind::Object {
            op: ObjectOp::Send { object, .. } | ObjectOp::Receive { object, .. },
            ..
        } = &mut event.kind
        {
            object.0 = to(object.0);
        }
    }
}

/// Whether most waits at a futex were for a lock to be free. Who takes it without a wait sends nobody anything.
pub(super) fn is_lock_like(channels: &Channels, row: u32) -> bool {
    channels.locks.expected.get(&row).is_some_and(|(locks, others)| locks > others)
}

/// A task waits at one place at a time. So futexes where it alone waits, and that the same tasks wake, are one to it:
/// a condition has two that take turns. Whether there were any.
fn unite_alone(workload: &mut Workload, channels: &Channels, users: &[Users]) -> bool {
    let mut first: BTreeMap<(usize, Option<u32>, &BTreeSet<usize>), u32> = BTreeMap::new();
    let mut into: BTreeMap<u32, u32> = BTreeMap::new();
    for ((row, seen), of) in (0..).zip(&channels.list).zip(users) {
        let Some(waiter) = of.waiters.first().filter(|_| of.waiters.len() == 1) else { continue };
        let is_its_own = seen.kind == SeenKind::Sync(SyncKind::Futex)
            && !of.wakers.contains(waiter)
            && owner_of(channels, row).is_none();
        if is_its_own && !is_lock_like(channels, row) {
            let parent = channels.locks.parent_of(row);
            let to = *first.entry((*waiter, parent, &of.wakers)).or_insert(row);
            into.extend((to != row).then_some((row, to)));
        }
    }
    rename(workload, |row| into.get(&row).copied().unwrap_or(row));
    !into.is_empty()
}

fn users(workload: &Workload, channels: &Channels) -> Vec<Users> {
    let mut users: Vec<Users> = channels.list.iter().map(|_| Users::default()).collect();
    for (task, events) in workload.tasks.iter().map(|task| &task.events).enumerate() {
        for op in events.iter().filter_map(op_of) {
            let of = &mut users[op.object().0 as usize];
            match op {
                ObjectOp::Send { amount, .. } => {
                    of.wakers.insert(task);
                    of.woken += u64::from(amount);
                }
                ObjectOp::Receive { amount, .. } => {
                    of.waiters.insert(task);
                    of.waited += u64::from(amount);
                }
                ObjectOp::Lock { .. } | ObjectOp::Unlock { .. } | ObjectOp::Tick { .. } => {
                    of.lockers.insert(task);
                }
                ObjectOp::Arrive { .. } => {
                    of.lockers.insert(task);
                    of.arrivals += 1;
                }
                ObjectOp::Signal { .. } => of.posts += 1,
                _ => {}
            }
            if let ObjectOp::Wait { mutex, .. } = op {
                users[mutex.0 as usize].lockers.insert(task);
            }
        }
    }
    users
}

/// One task's way through its locks.
struct Walk<'a> {
    channels: &'a Channels,
    usable: &'a [bool],
    /// Mutexes that it holds, and how often it has locked them.
    held: BTreeMap<u32, u32>,
    out: TaskLocks,
}

impl<'a> Walk<'a> {
    fn new(channels: &'a Channels, usable: &'a [bool]) -> Walk<'a> {
        Walk { channels, usable, held: BTreeMap::new(), out: TaskLocks::default() }
    }

    fn task(mut self, workload: &Workload, task: usize, flaws: &mut Flaws) -> TaskLocks {
        let events = &workload.tasks[task].events;
        // what follows an attempt at the same mutex says whether it held it then
        let mut next: BTreeMap<u32, bool> = BTreeMap::new();
        let mut succeeded: BTreeSet<usize> = BTreeSet::new();
        for (row, event) in events.iter().enumerate().rev() {
            match op_of(event) {
                Some(ObjectOp::Unlock { object }) => drop(next.insert(object.0, true)),
                Some(ObjectOp::Wait { mutex, .. }) => drop(next.insert(mutex.0, true)),
                Some(ObjectOp::Lock { object }) => drop(next.insert(object.0, false)),
                Some(ObjectOp::Tick { object, .. }) if next.insert(object.0, false) == Some(true) => {
                    succeeded.insert(row);
                }
                _ => {}
            }
        }
        for (row, event) in events.iter().enumerate() {
            let Some(op) = op_of(event) else { continue };
            let SeenKind::Sync(kind) = self.channels.list[op.object().0 as usize].kind else { continue };
            self.step((row, op), kind, (events, &succeeded), flaws);
        }
        let last = events.len().wrapping_sub(1);
        if let Some(length) = events.last().and_then(|event| event.kind.length()) {
            for object in std::mem::take(&mut self.held).into_keys().map(ObjectId) {
                flaws.kept += 1;
                self.out.holds.ends(object, last);
                let (op, recorded) = (ObjectOp::Unlock { object }, Recorded::Nothing);
                self.out.inserted.push(Insert { before: last, length, op, recorded });
            }
        }
        self.out
    }

    fn step(
        &mut self,
        (row, op): (usize, ObjectOp),
        kind: SyncKind,
        (events, succeeded): (&[Event], &BTreeSet<usize>),
        flaws: &mut Flaws,
    ) {
        let id = op.object().0;
        let is_usable = self.usable[id as usize];
        match (kind, op) {
            (SyncKind::Condition, ObjectOp::Wait { object, mutex }) => {
                self.wait(row, (object, mutex), events, flaws);
            }
            (SyncKind::Futex, _) if owner_of(self.channels, id).is_none() => {}
            _ if !is_usable => {
                self.out.removed.insert(row);
            }
            (SyncKind::Mutex, ObjectOp::Lock { object }) => {
                let depth = self.held.entry(id).or_insert(0);
                *depth += 1;
                if *depth > 1 {
                    flaws.twice += u64::from(!self.channels.list[id as usize].is_recursive);
                    self.out.removed.insert(row);
                } else {
                    self.out.holds.begins(object, row);
                    self.out.began.push((row, object.0));
                }
            }
            (SyncKind::Mutex, ObjectOp::Tick { object, .. }) => {
                if succeeded.contains(&row) && !self.held.contains_key(&id) {
                    self.held.insert(id, 1);
                    self.out.holds.begins(object, row);
                    self.out.changed.insert(row, ObjectOp::Lock { object });
                } else {
                    self.out.removed.insert(row);
                }
            }
            (SyncKind::Mutex, ObjectOp::Unlock { object }) => match self.held.get_mut(&id) {
                Some(depth) if *depth > 1 => {
                    *depth -= 1;
                    self.out.removed.insert(row);
                }
                Some(_) => {
                    self.held.remove(&id);
                    self.out.holds.ends(object, row);
                }
                None => {
                    flaws.not_held += 1;
                    self.out.removed.insert(row);
                }
            },
            (SyncKind::Semaphore, ObjectOp::Arrive { object }) => {
                self.out.began.push((row, object.0));
                self.out.changed.insert(row, ObjectOp::Receive { object, amount: 1 });
            }
            (SyncKind::Semaphore, ObjectOp::Signal { object }) => {
                self.out.changed.insert(row, ObjectOp::Send { object, amount: 1 });
            }
            (SyncKind::Barrier, ObjectOp::Arrive { object }) => self.out.began.push((row, object.0)),
            _ => drop(self.out.removed.insert(row)),
        }
    }

    /// A wait at a condition lets its mutex go, and takes it again after the sleep.
    fn wait(
        &mut self,
        row: usize,
        (condition, mutex): (ObjectId, ObjectId),
        events: &[Event],
        flaws: &mut Flaws,
    ) {
        let is_usable = self.usable[mutex.0 as usize];
        if !(is_usable && self.held.contains_key(&mutex.0)) {
            flaws.without += u64::from(is_usable);
            self.out.removed.insert(row);
            return;
        }
        self.out.changed.insert(row, ObjectOp::Unlock { object: mutex });
        self.out.holds.ends(mutex, row);
        let is_its = |row: ObjectId| self.channels.locks.parent_of(row.0) == Some(condition.0);
        let (before, length) = place_after_wait(events, row, is_its, mutex);
        if events.get(before).is_some_and(|next| next.kind.length().is_some()) {
            let (op, recorded) = (ObjectOp::Lock { object: mutex }, Recorded::Awake);
            self.out.inserted.push(Insert { before, length, op, recorded });
            self.out.holds.begins(mutex, before);
            self.out.began.push((row, mutex.0));
        } else {
            self.held.remove(&mutex.0);
        }
    }
}

/// Where a task takes its mutex again that waits at a condition from `row` on: after the last call at the condition's
/// futexes (who leaves tells those who signal, and they hold the mutex), else after the first sleep, else at once.
pub(super) fn place_after_wait(
    events: &[Event],
    row: usize,
    is_its: impl Fn(ObjectId) -> bool,
    mutex: ObjectId,
) -> (usize, Span) {
    let mut last = None;
    for (at, event) in events.iter().enumerate().skip(row + 1) {
        match event.kind {
            EventKind::Object {
                op: ObjectOp::Send { object, .. } | ObjectOp::Receive { object, .. },
                ..
            } if is_its(object) => last = Some(at),
            EventKind::Object {
                op: ObjectOp::Send { object, .. } | ObjectOp::Receive { object, .. },
                ..
            } if object == mutex => {}
            EventKind::Object { .. } | EventKind::Exit { .. } | EventKind::Fork { .. } => break,
            _ => {}
        }
    }
    let sleeps = events.get(row + 1).is_some_and(|next| matches!(next.kind, EventKind::Block { .. }));
    let wakes = events.get(row + 2).is_some_and(|next| next.kind.length().is_none());
    match last {
        Some(at) => (at + 1, length_of(&events[at])),
        None if sleeps && wakes => (row + 3, Span::ZERO),
        None => (row + 1, length_of(&events[row])),
    }
}

pub(super) fn length_of(event: &Event) -> Span {
    event.kind.length().unwrap_or(Span::ZERO)
}

/// What there is, for the notes of the workload: which locks are known, which waits are theirs, and what is not seen.
pub(super) fn note(
    workload: &mut Workload,
    channels: &Channels,
    (usable, settled): (&[bool], &Settled),
    (nr_waits, nr_blocks, nr_counting): (u64, u64, u64),
) {
    let of = |kind: SyncKind| {
        let all = channels.list.iter().zip(usable);
        all.filter(move |(seen, _)| seen.kind == SeenKind::Sync(kind))
    };
    if SyncKind::ALL.iter().all(|(kind, _)| of(*kind).count() == 0) {
        return;
    }
    let kinds: Vec<String> = SyncKind::ALL
        .into_iter()
        .map(|(kind, word)| (kind, of(kind).count(), of(kind).filter(|(_, usable)| **usable).count(), word))
        .filter(|(_, all, ..)| *all > 0)
        .map(|(kind, all, used, word)| match kind {
            SyncKind::Condition => format!("{all} {word} by its futexes"),
            _ => format!("{used} of {all} {word}"),
        })
        .collect();
    let counts = channels.locks.counts;
    let mut note = format!(
        "{}; {nr_waits} of {nr_blocks} blocks that a task ended are waits at them; {} wakeups at futexes woke nobody, \
         {} waits found their value changed, {} ended without a wakeup",
        kinds.join(", "),
        counts.woke_nobody,
        counts.changed,
        counts.gave_up
    );
    if nr_counting > 0 {
        note += &format!("; {nr_counting} conditions count something, and are semaphores");
    }
    if settled.nr_held > 0 {
        note += &format!(
            "; {} are held by who wakes another, as waits behind such wakeups show",
            settled.nr_held
        );
    }
    if settled.private > 0 {
        note += &format!("; {} mutexes that one task alone uses are left out", settled.private);
    }
    let lending = channels.list.iter().filter(|seen| seen.inherits_priority).count();
    if lending > 0 {
        note += &format!("; {lending} inherit priority: they are replayed as plain ones");
    }
    if counts.functions == 0 {
        note += "; locks were recorded only where somebody waited: another schedule loses such waits and gains none \
            (record --objects=locks)";
    }
    workload.notes.insert("locks".to_string(), note);
}
