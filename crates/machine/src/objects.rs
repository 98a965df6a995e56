//! Who waits at which object, and who is let on by what a task does there? The rules of `docs/objects.md`, without
//! time or CPUs.
//!
//! ```text
//! channel of 2                     r: RECV 1                 nothing there: r stands in line, Did::Sleeps
//!                                  s: SEND 1                 r gets it: Did::Wakes(r)
//!                                  s: SEND 1, SEND 1         Did::Goes twice: it is full
//!                                  s: SEND 1                 no room: s stands in line, Did::Sleeps
//! ```
//!
//! Whoever must wait stands in line and is served in that order; who serves him wakes him, and his operation is done
//! then. (Two wake before the operation is done: a mutex whose holders compete, and a signal, after which the mutex
//! is still to be had. Those try again.)
//!
//! A task may have to wake several, and to sleep itself after that. It does one at a time: [`Objects::operate`] is
//! called again, until the answer says that the step is over. Meanwhile others may run, who find it in line although
//! it does not sleep yet; what they hand it, it finds when it comes to sleep.

use schedlab_units::{Span, TaskId};
use schedlab_workload::{ALL, Handover, Late, Object, ObjectId, ObjectKind, ObjectOp, Recorded};
use std::collections::VecDeque;

/// Tasks that wait, first come, first served. Most lines have one task or none, which costs no look into a queue.
#[derive(Clone, Debug)]
struct Line {
    /// [`TaskId::IDLE`]: nobody waits.
    first: TaskId,
    rest: VecDeque<TaskId>,
}

impl Line {
    const EMPTY: Line = Line { first: TaskId::IDLE, rest: VecDeque::new() };

    #[inline]
    fn is_empty(&self) -> bool {
        self.first.is_idle()
    }

    /// The one who waits, if it is one alone.
    #[inline]
    fn only(&self) -> Option<TaskId> {
        self.front().filter(|_| self.rest.is_empty())
    }

    #[inline]
    fn front(&self) -> Option<TaskId> {
        (!self.is_empty()).then_some(self.first)
    }

    fn len(&self) -> usize {
        usize::from(!self.is_empty()) + self.rest.len()
    }

    #[inline]
    fn push_back(&mut self, task: TaskId) {
        if self.is_empty() { self.first = task } else { self.rest.push_back(task) }
    }

    fn pop_front(&mut self) -> Option<TaskId> {
        let first = self.front()?;
        self.leave();
        Some(first)
    }

    /// The first one, who is known to be there, is gone.
    #[inline(always)]
    fn leave(&mut self) {
        self.first = if self.rest.is_empty() { TaskId::IDLE } else { self.next() };
    }

    #[cold]
    fn next(&mut self) -> TaskId {
        self.rest.pop_front().unwrap_or(TaskId::IDLE)
    }

    fn contains(&self, task: TaskId) -> bool {
        self.front() == Some(task) || self.rest.contains(&task)
    }

    /// Takes a task out, wherever it stands.
    fn remove(&mut self, task: TaskId) {
        self.rest.retain(|other| *other != task);
        if self.front() == Some(task) {
            self.pop_front();
        }
    }

    /// All who wait, in order; nobody does any more.
    fn take(&mut self) -> impl Iterator<Item = TaskId> + use<> {
        let taken = std::mem::replace(self, Line::EMPTY);
        taken.front().into_iter().chain(taken.rest)
    }
}

/// What came of an operation, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// It is over; nobody is woken.
    Goes,
    /// The task wakes this one, and it is over.
    Wakes(TaskId),
    /// The task wakes this one; then the operation goes on.
    WakesAndGoesOn(TaskId),
    /// The task sleeps.
    Sleeps,
}

/// How far a task is with its operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// It has none, or begins it.
    #[default]
    Begins,
    /// It stands in line and is still to sleep.
    InLine,
    /// It sleeps in line.
    Asleep,
    /// It was served before it slept.
    Served,
    /// It has been woken, or need not sleep, and tries again to get the mutex, or what a stream holds.
    TriesAgain,
    /// It is over, but for others whom it still wakes.
    WakesOthers,
}

/// A task at an object.
#[derive(Clone, Debug, Default)]
struct Visit {
    stage: Stage,
    /// How much is still to be sent or received.
    left: u32,
    /// Where it stands in line.
    object: u32,
    /// Whether it has slept since it began.
    has_slept: bool,
    /// Whether its operation goes on when it is woken.
    goes_on: bool,
    /// Whom it is still to wake.
    to_wake: VecDeque<TaskId>,
    /// Whether it stands there for so much of what a stream holds.
    takes: bool,
}

/// An object as it stands.
#[derive(Clone, Debug)]
struct ObjectState {
    kind: ObjectKind,
    closed: bool,
    is_stream: bool,
    /// It is closed, owes something, or senders wait: what is done there is to be looked at closely.
    is_special: bool,
    /// What a channel holds at most.
    most: u64,
    /// What is in a channel or semaphore.
    level: u64,
    /// What was taken out that nobody had put in: what comes in goes there first. ([`Objects::force`])
    owed: u64,
    /// Who holds a mutex.
    owner: Option<TaskId>,
    /// Who wait: receivers, lockers, waiters of a condition or at a barrier.
    line: Line,
    /// Senders who wait for room.
    senders: Line,
}

/// All objects of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    states: Vec<ObjectState>,
    visits: Vec<Visit>,
    /// Last expiry of each timer.
    expiries_ns: Vec<u64>,
    pub counts: Counts,
}

/// What objects did, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Operations that slept where the recording had none.
    pub gained: u64,
    /// Operations that did not sleep where the recording had one.
    pub skipped: u64,
    /// Sends to closed objects.
    pub lost: u64,
    /// Waits of a recording that were ended since nobody was left who could.
    pub forced: u64,
}

impl Objects {
    pub fn new(objects: &[Object], nr_tasks: usize) -> Objects {
        let state = |object: &Object| ObjectState {
            kind: object.kind,
            closed: object.is_closed,
            is_special: object.is_closed,
            is_stream: matches!(object.kind, ObjectKind::Stream { .. }),
            most: match object.kind {
                ObjectKind::Channel { capacity: Some(capacity), .. }
                | ObjectKind::Stream { capacity: Some(capacity), .. } => capacity.into(),
                _ => u64::MAX,
            },
            level: match object.kind {
                ObjectKind::Channel { start, .. }
                | ObjectKind::Stream { start, .. }
                | ObjectKind::Semaphore { start } => start.into(),
                _ => 0,
            },
            owed: 0,
            owner: None,
            line: Line::EMPTY,
            senders: Line::EMPTY,
        };
        let nr_visits = if objects.is_empty() { 0 } else { nr_tasks };
        Objects {
            states: objects.iter().map(state).collect(),
            visits: vec![Visit::default(); nr_visits],
            expiries_ns: vec![0; objects.len()],
            counts: Counts::default(),
        }
    }

    /// Time 0 of the workload: all timers count from here.
    pub fn start(&mut self, now_ns: u64) {
        self.expiries_ns.fill(now_ns);
    }

    /// When a task that waits for a timer goes on; `None`: at once.
    pub fn tick(&mut self, id: ObjectId, period: Span, now_ns: u64) -> Option<u64> {
        let (state, expiry_ns) = (&self.states[id.0 as usize], &mut self.expiries_ns[id.0 as usize]);
        let next_ns = expiry_ns.saturating_add(period.as_ns());
        if state.closed {
            return None;
        }
        if next_ns > now_ns {
            *expiry_ns = next_ns;
            return Some(next_ns);
        }
        let restarts = state.kind == ObjectKind::Timer(Late::Restart);
        *expiry_ns = if restarts { now_ns } else { next_ns };
        None
    }

    /// The object that a sleeping task stands in line at, and who holds it.
    pub fn awaited(&self, task: TaskId) -> (u32, Option<TaskId>) {
        let object = self.visits[task.index()].object;
        (object, self.states[object as usize].owner)
    }

    /// Whether the operation of a sleeping task goes on when it is woken.
    pub fn goes_on(&self, task: TaskId) -> bool {
        self.visits[task.index()].goes_on
    }

    /// Ends the wait of a task that sleeps in line: the others wait, too, and a recording says that it went on. What it
    /// takes without its being there is owed; a mutex is its own from now on, and its old holder has none.
    pub fn force(&mut self, task: TaskId) {
        let visit = &mut self.visits[task.index()];
        let state = &mut self.states[visit.object as usize];
        let then = match state.kind {
            ObjectKind::Channel { .. } | ObjectKind::Stream { .. } | ObjectKind::Semaphore { .. } => {
                let left = u64::from(std::mem::take(&mut visit.left));
                if state.senders.contains(task) {
                    state.level += left;
                } else {
                    let taken = state.level.min(left);
                    state.level -= taken;
                    state.owed += left - taken;
                }
                Stage::Begins
            }
            ObjectKind::Mutex(_) => {
                state.owner = Some(task);
                Stage::Begins
            }
            ObjectKind::Condition => Stage::TriesAgain,
            ObjectKind::Barrier { .. } | ObjectKind::Timer(_) => Stage::Begins,
        };
        state.line.remove(task);
        state.senders.remove(task);
        state.settle();
        visit.stage = if then == Stage::Begins && visit.goes_on { Stage::Served } else { then };
        self.counts.forced += 1;
    }

    /// [`Self::operate`] for what most operations meet. `None`: nothing has changed, and that is to be asked.
    #[inline(always)]
    pub fn at_once(&mut self, task: TaskId, op: ObjectOp, recorded: Recorded) -> Option<(Did, bool)> {
        match op {
            ObjectOp::Send { object, amount } => self.send_at_once(task, object, amount, recorded),
            ObjectOp::Receive { object, amount } => self.receive_at_once(task, object, amount, recorded),
            _ => None,
        }
    }

    /// [`Self::operate`] for what most sends meet: room, and nobody in line or one who waits for it. `None`: nothing
    /// has changed, and that is to be asked.
    #[inline(always)]
    fn send_at_once(
        &mut self,
        task: TaskId,
        id: ObjectId,
        amount: u32,
        recorded: Recorded,
    ) -> Option<(Did, bool)> {
        let state = &mut self.states[id.0 as usize];
        let level = state.level + u64::from(amount);
        if self.visits[task.index()].stage != Stage::Begins || state.is_special || level > state.most {
            return None;
        }
        let did = match state.line.front() {
            None => {
                state.level = level;
                (Did::Goes, false)
            }
            Some(first) => {
                let receiver = &mut self.visits[first.index()];
                if receiver.stage != Stage::Asleep {
                    return None;
                }
                if state.is_stream {
                    // he takes it himself
                    (receiver.stage, state.level) = (Stage::TriesAgain, level);
                } else if level == u64::from(amount) && receiver.left == amount && state.line.rest.is_empty()
                {
                    receiver.stage = Stage::Begins;
                } else {
                    return None;
                }
                state.line.leave();
                (Did::Wakes(first), state.is_stream)
            }
        };
        if recorded == Recorded::Slept {
            self.counts.skipped += 1;
        }
        Some(did)
    }

    /// What most receipts meet: enough, or nothing. `None` as above.
    #[inline(always)]
    fn receive_at_once(
        &mut self,
        task: TaskId,
        id: ObjectId,
        amount: u32,
        recorded: Recorded,
    ) -> Option<(Did, bool)> {
        let state = &mut self.states[id.0 as usize];
        let visit = &mut self.visits[task.index()];
        if amount == ALL || visit.stage != Stage::Begins || state.is_special || !state.line.is_empty() {
            return None;
        }
        if state.level >= amount.into() {
            state.level -= u64::from(amount);
            if recorded == Recorded::Slept {
                self.counts.skipped += 1;
            }
            return Some((Did::Goes, false));
        }
        if state.level > 0 {
            return None;
        }
        state.line.first = task;
        (visit.stage, visit.object, visit.left) = (Stage::Asleep, id.0, amount);
        (visit.goes_on, visit.has_slept, visit.takes) = (state.is_stream, true, state.is_stream);
        if recorded == Recorded::Awake {
            self.counts.gained += 1;
        }
        Some((Did::Sleeps, state.is_stream))
    }

    /// Whether so much can be taken out at once, also after so much else.
    pub fn holds(&self, op: ObjectOp, before: u64) -> bool {
        let ObjectOp::Receive { object, amount } = op else { return false };
        let state = &self.states[object.0 as usize];
        !state.is_special
            && state.line.is_empty()
            && amount != ALL
            && state.level >= before + u64::from(amount)
    }

    /// The same, when so much more has come.
    pub fn will_hold(&self, op: ObjectOp, more: u32) -> bool {
        let ObjectOp::Receive { object, amount } = op else { return false };
        let state = &self.states[object.0 as usize];
        let is_free = !state.is_special && state.line.is_empty() && state.is_stream && amount != ALL;
        is_free && state.level + u64::from(more) >= amount.into()
    }

    /// Whether a task is in no operation.
    pub fn begins(&self, task: TaskId) -> bool {
        self.visits[task.index()].stage == Stage::Begins
    }

    /// Whether a task sleeps for all that it wants of a stream: it has taken nothing yet.
    pub fn awaits_all_of(&self, task: TaskId, op: ObjectOp) -> bool {
        let ObjectOp::Receive { object, amount } = op else { return false };
        let visit = &self.visits[task.index()];
        let is_there = visit.stage == Stage::Asleep && visit.object == object.0 && visit.takes;
        is_there && visit.left == amount && amount != ALL
    }

    /// A task that sleeps for what a stream holds sleeps for this instead.
    pub fn awaits_instead(&mut self, task: TaskId, op: ObjectOp) {
        let ObjectOp::Receive { object, amount } = op else { return };
        let visit = &mut self.visits[task.index()];
        self.states[visit.object as usize].line.remove(task);
        (visit.object, visit.left) = (object.0, amount);
        self.states[object.0 as usize].line.push_back(task);
    }

    /// A task that was woken in line goes on. Whether it is for what a stream holds, and has got all of it now: then
    /// its operation is over; else nothing has changed.
    #[inline(always)]
    pub fn takes_the_rest(&mut self, task: TaskId) -> bool {
        let visit = &mut self.visits[task.index()];
        if visit.stage != Stage::TriesAgain || !visit.takes {
            return false;
        }
        let state = &mut self.states[visit.object as usize];
        if state.is_special || !state.line.is_empty() || state.level < visit.left.into() {
            return false;
        }
        state.level -= u64::from(visit.left);
        visit.stage = Stage::Begins;
        true
    }

    /// The task begins an operation, or goes on with it; `recorded`: what it did where it was recorded. With what came
    /// of it: whether the operation of who sleeps or is woken goes on after that.
    #[inline(never)]
    pub fn operate(&mut self, task: TaskId, op: ObjectOp, recorded: Recorded) -> (Did, bool) {
        let did = self.part(task, op);
        self.states[op.object().0 as usize].settle();
        let has_slept = &mut self.visits[task.index()].has_slept;
        match did {
            Did::Goes | Did::Wakes(_) => {
                self.counts.skipped += u64::from(recorded == Recorded::Slept && !*has_slept);
            }
            Did::Sleeps => {
                self.counts.gained += u64::from(recorded == Recorded::Awake && !*has_slept);
                *has_slept = true;
            }
            Did::WakesAndGoesOn(_) => {}
        }
        let goes_on = match did {
            Did::Wakes(wakee) | Did::WakesAndGoesOn(wakee) => self.goes_on(wakee),
            Did::Sleeps => self.goes_on(task),
            Did::Goes => false,
        };
        (did, goes_on)
    }

    fn part(&mut self, task: TaskId, op: ObjectOp) -> Did {
        let at_stream = self.at_stream(op);
        let visit = &mut self.visits[task.index()];
        if visit.to_wake.is_empty() {
            match visit.stage {
                Stage::Begins => {
                    visit.has_slept = false;
                    self.begin(task, op);
                }
                Stage::TriesAgain if at_stream => self.try_stream(task, op),
                Stage::TriesAgain => {
                    let mutex = match op {
                        ObjectOp::Wait { mutex, .. } => mutex,
                        other => other.object(),
                    };
                    self.lock(task, mutex.0);
                }
                Stage::InLine | Stage::Asleep | Stage::Served | Stage::WakesOthers => {}
            }
        }
        self.proceed(task, op)
    }

    /// The next thing to do for a task whose operation has had its effect.
    fn proceed(&mut self, task: TaskId, op: ObjectOp) -> Did {
        let visit = &mut self.visits[task.index()];
        if let Some(wakee) = visit.to_wake.pop_front() {
            let is_over = matches!(visit.stage, Stage::Begins | Stage::Served | Stage::WakesOthers);
            if is_over && visit.to_wake.is_empty() {
                visit.stage = Stage::Begins;
                return Did::Wakes(wakee);
            }
            if is_over {
                visit.stage = Stage::WakesOthers;
            }
            return Did::WakesAndGoesOn(wakee);
        }
        match visit.stage {
            Stage::Begins => Did::Goes,
            Stage::Served => {
                visit.stage = Stage::Begins;
                Did::Goes
            }
            Stage::InLine => {
                visit.stage = Stage::Asleep;
                let kind = self.states[visit.object as usize].kind;
                visit.goes_on = matches!(op, ObjectOp::Wait { .. })
                    || kind == ObjectKind::Mutex(Handover::Competing)
                    || matches!(kind, ObjectKind::Stream { .. });
                Did::Sleeps
            }
            Stage::TriesAgain | Stage::Asleep | Stage::WakesOthers => {
                unreachable!(
                    "a task that sleeps does nothing, one that tries has tried, one that wakes has somebody to"
                )
            }
        }
    }

    fn begin(&mut self, task: TaskId, op: ObjectOp) {
        let id = op.object().0;
        if self.states[id as usize].closed {
            self.counts.lost += u64::from(matches!(op, ObjectOp::Send { .. }));
            return;
        }
        let op = match op {
            ObjectOp::Send { object, amount } if self.states[id as usize].owed > 0 => {
                let owed = &mut self.states[id as usize].owed;
                let paid = (*owed).min(amount.into());
                *owed -= paid;
                ObjectOp::Send { object, amount: amount - paid as u32 }
            }
            op => op,
        };
        match op {
            ObjectOp::Send { amount: 0, .. } => {}
            ObjectOp::Send { amount, .. } | ObjectOp::Receive { amount, .. } if self.at_stream(op) => {
                self.visits[task.index()].left = amount;
                self.try_stream(task, op);
            }
            ObjectOp::Send { amount, .. } => self.send(task, id, amount),
            ObjectOp::Receive { amount, .. } => self.receive(task, id, amount),
            ObjectOp::Lock { .. } => self.lock(task, id),
            ObjectOp::Unlock { .. } => self.unlock(task, id),
            ObjectOp::Wait { mutex, .. } => {
                self.unlock(task, mutex.0);
                self.stand_in_line(task, id);
            }
            ObjectOp::Signal { .. } => {
                if let Some(first) = self.states[id as usize].line.pop_front() {
                    self.serve(task, first, Stage::TriesAgain);
                }
            }
            ObjectOp::Broadcast { .. } => self.serve_all(task, id, Stage::TriesAgain),
            ObjectOp::Arrive { .. } => {
                let state = &self.states[id as usize];
                match state.kind {
                    ObjectKind::Barrier { parties } if state.line.len() + 1 < parties as usize => {
                        self.stand_in_line(task, id);
                    }
                    _ => self.serve_all(task, id, Stage::Begins),
                }
            }
            ObjectOp::Close { .. } => self.close(task, id),
            ObjectOp::Tick { .. } => unreachable!("timers are the engine's"),
        }
    }

    fn stand_in_line(&mut self, task: TaskId, id: u32) {
        self.states[id as usize].line.push_back(task);
        let visit = &mut self.visits[task.index()];
        (visit.stage, visit.object) = (Stage::InLine, id);
    }

    /// `by` lets a task on that was taken out of its line; it is woken if it sleeps. `then`: [`Stage::Begins`] if its
    /// operation is over.
    fn serve(&mut self, by: TaskId, task: TaskId, then: Stage) {
        let visit = &mut self.visits[task.index()];
        if visit.stage == Stage::Asleep {
            // who goes on when he is woken must find that there is nothing left to do
            visit.stage = if then == Stage::Begins && visit.goes_on { Stage::Served } else { then };
            self.visits[by.index()].to_wake.push_back(task);
        } else {
            visit.stage = if then == Stage::Begins { Stage::Served } else { then };
        }
    }

    fn serve_all(&mut self, by: TaskId, id: u32, then: Stage) {
        for task in self.states[id as usize].line.take() {
            self.serve(by, task, then);
        }
    }

    /// Puts in what there is room for, and waits with the rest.
    fn send(&mut self, task: TaskId, id: u32, amount: u32) {
        let state = &mut self.states[id as usize];
        if state.line.is_empty() && state.senders.is_empty() && state.room() >= amount.into() {
            state.level += u64::from(amount);
            return;
        }
        // what most sends meet: one who waits for just this
        if let Some(first) = state.line.only()
            && state.level == 0
            && state.senders.is_empty()
            && self.visits[first.index()].left == amount
        {
            state.line.pop_front();
            self.serve(task, first, Stage::Begins);
            return;
        }
        // nobody comes before those who wait for room
        let room = if state.senders.is_empty() { state.room() } else { 0 };
        let put = room.min(amount.into());
        state.level += put;
        let left = amount - put as u32;
        if left > 0 {
            state.senders.push_back(task);
            let visit = &mut self.visits[task.index()];
            (visit.stage, visit.object, visit.left) = (Stage::InLine, id, left);
        }
        self.serve_waiting(task, id);
    }

    /// Takes what there is, and waits for the rest.
    fn receive(&mut self, task: TaskId, id: u32, amount: u32) {
        let state = &mut self.states[id as usize];
        if state.line.is_empty() && state.level >= u64::from(amount.max(1)) {
            state.level -= if amount == ALL { state.level } else { amount.into() };
            if !state.senders.is_empty() {
                self.serve_waiting(task, id);
            }
            return;
        }
        self.visits[task.index()].left = amount;
        let is_empty = state.level == 0 && state.senders.is_empty();
        self.stand_in_line(task, id);
        if !is_empty {
            self.serve_waiting(task, id);
        }
    }

    /// Serves receivers and senders, in order, until nothing more moves.
    fn serve_waiting(&mut self, by: TaskId, id: u32) {
        loop {
            while let Some(first) = self.states[id as usize].line.front() {
                let state = &mut self.states[id as usize];
                let left = &mut self.visits[first.index()].left;
                let whole = matches!(state.kind, ObjectKind::Semaphore { .. });
                let taken = match *left {
                    ALL => state.level,
                    left if whole && state.level < left.into() => 0,
                    left => state.level.min(left.into()),
                };
                if taken == 0 {
                    break;
                }
                state.level -= taken;
                if *left != ALL && u64::from(*left) > taken {
                    *left -= taken as u32;
                    break; // it waits for the rest, nothing is left
                }
                *left = 0;
                state.line.pop_front();
                self.serve(by, first, Stage::Begins);
            }
            if !self.let_senders_in(by, id) {
                return;
            }
        }
    }

    /// Senders who wait put in what they have, in order, if enough has been taken out; whether anything came in.
    fn let_senders_in(&mut self, by: TaskId, id: u32) -> bool {
        let mut moved = false;
        let state = &self.states[id as usize];
        let low = match state.kind {
            ObjectKind::Channel { low: Some(low), .. } => u64::from(low),
            _ => u64::MAX,
        };
        if state.level > low {
            return false;
        }
        while let Some(first) = self.states[id as usize].senders.front() {
            let state = &mut self.states[id as usize];
            let left = &mut self.visits[first.index()].left;
            let put = state.room().min((*left).into());
            if put == 0 {
                break;
            }
            moved = true;
            state.level += put;
            *left -= put as u32;
            if *left > 0 {
                break;
            }
            state.senders.pop_front();
            self.serve(by, first, Stage::Begins);
        }
        moved
    }

    /// Whether this is about a stream.
    fn at_stream(&self, op: ObjectOp) -> bool {
        matches!(op, ObjectOp::Send { .. } | ObjectOp::Receive { .. })
            && self.states[op.object().0 as usize].is_stream
    }

    /// A task moves what can move of what it has left, and stands in line if that is not all. Who can go on then is
    /// woken.
    fn try_stream(&mut self, task: TaskId, op: ObjectOp) {
        let id = op.object().0;
        let state = &mut self.states[id as usize];
        let visit = &mut self.visits[task.index()];
        visit.stage = Stage::Begins;
        if state.closed {
            return;
        }
        if matches!(op, ObjectOp::Send { .. }) {
            let put = state.room().min(visit.left.into());
            state.level += put;
            visit.left -= put as u32;
            visit.takes = false;
            if visit.left > 0 {
                state.senders.push_back(task);
                (visit.stage, visit.object) = (Stage::InLine, id);
            }
        } else {
            let taken = if visit.left == ALL { state.level } else { state.level.min(visit.left.into()) };
            state.level -= taken;
            let is_done = if visit.left == ALL { taken > 0 } else { u64::from(visit.left) == taken };
            visit.left = if visit.left == ALL { ALL } else { visit.left - taken as u32 };
            visit.takes = visit.left != ALL;
            if !is_done {
                self.stand_in_line(task, id);
            }
        }
        self.wake_at_stream(task, id);
    }

    /// Wakes a receiver if there is something, and the senders for whom there is room.
    fn wake_at_stream(&mut self, by: TaskId, id: u32) {
        let state = &mut self.states[id as usize];
        if state.level > 0
            && let Some(first) = state.line.pop_front()
        {
            self.serve(by, first, Stage::TriesAgain);
        }
        let state = &self.states[id as usize];
        let low = match state.kind {
            ObjectKind::Stream { low: Some(low), .. } => u64::from(low),
            _ => u64::MAX,
        };
        if state.level > low {
            return;
        }
        let mut room = state.room();
        while room > 0
            && let Some(first) = self.states[id as usize].senders.pop_front()
        {
            room = room.saturating_sub(self.visits[first.index()].left.into());
            self.serve(by, first, Stage::TriesAgain);
        }
    }

    fn lock(&mut self, task: TaskId, id: u32) {
        let state = &mut self.states[id as usize];
        if state.closed || state.owner.is_none() {
            state.owner = (!state.closed).then_some(task);
            self.visits[task.index()].stage = Stage::Begins;
        } else {
            self.stand_in_line(task, id);
        }
    }

    fn unlock(&mut self, task: TaskId, id: u32) {
        let state = &mut self.states[id as usize];
        // another one has it by force
        if state.owner.is_some_and(|owner| owner != task) {
            return;
        }
        let first = state.line.pop_front();
        let fifo = state.kind == ObjectKind::Mutex(Handover::Fifo);
        state.owner = first.filter(|_| fifo);
        if let Some(first) = first {
            self.serve(task, first, if fifo { Stage::Begins } else { Stage::TriesAgain });
        }
    }

    fn close(&mut self, task: TaskId, id: u32) {
        let state = &mut self.states[id as usize];
        state.closed = true;
        state.owner = None;
        let nr_senders = state.senders.len();
        let senders = state.senders.take();
        self.counts.lost += nr_senders as u64;
        let then = match state.kind {
            ObjectKind::Condition => Stage::TriesAgain,
            _ => Stage::Begins,
        };
        self.serve_all(task, id, then);
        senders.for_each(|sender| self.serve(task, sender, Stage::Begins));
    }
}

impl ObjectState {
    /// To be called when it has been closed, owes or has been paid, or senders have come or gone.
    fn settle(&mut self) {
        self.is_special = self.closed || self.owed > 0 || !self.senders.is_empty();
    }

    fn room(&self) -> u64 {
        self.most.saturating_sub(self.level)
    }
}
