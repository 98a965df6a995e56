//! At every moment: does a CPU idle while a task that may run there waits? The state that all of this
//! module's readers share.

use super::masks::Masks;
use super::{Keeper, Unknown};
use crate::allowed::{Allowed, Limit, May, limit};
use schedlab_log::{Fact, Kind, LogHeader, Observer, Record, Row, Slots, Unseen, Wait, WaitCause, note};
use schedlab_units::{CpuId, SchedPolicy, TaskId};
use std::collections::BTreeMap;

/// One of the workload's tasks.
pub(super) struct Task {
    /// Its number among the [`Masks`].
    mask: u32,
    pub may: May,
    /// A limit that it shares with others.
    limit: Option<Limit>,
    policy: SchedPolicy,
    /// Since when it waits, and on whose queue.
    pub waits: Option<(u64, CpuId)>,
    /// How its wait is counted now.
    counted: Option<Counted>,
    unknown: Option<Unknown>,
    /// Nobody sees whether it waits.
    is_unseen: bool,
}

/// Which CPUs can a waiting task use now?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// Those of its mask.
    Anywhere,
    /// Its own queue's. (Others that share its limit have used it up; what is left to its queue is for this CPU.)
    AtHome,
    /// Its own queue's for certain, and perhaps more.
    Somewhere,
    /// Perhaps some, perhaps none.
    Perhaps,
}

impl Counted {
    fn is_at_home(self) -> bool {
        matches!(self, Counted::AtHome | Counted::Somewhere)
    }
}

pub(crate) struct Account<'a> {
    header: &'a LogHeader,
    slots: &'a Slots,
    /// The log says when a task is held back.
    tells_holds: bool,
    /// The log says on whose queue a task waits.
    tells_queues: bool,
    allowed: Allowed,
    pub(super) masks: Masks,
    pub(super) tasks: Vec<Task>,
    pub(super) now_ns: u64,
    /// Per CPU: no task on it, since when.
    pub(super) idle_since_ns: Vec<Option<u64>>,
    is_down: Vec<bool>,
    /// Limits that hold tasks back now, and how many.
    exhausted: BTreeMap<Limit, u32>,
    /// Tasks that may use their own queue's CPU whatever else is not known, by the CPU on whose queue they
    /// wait: there they may.
    at_home: Vec<u32>,
    /// CPUs that idle although such a task waits on their own queue.
    nr_at_home: u32,
    /// Since when a CPU idles beside waiting work.
    wasted_since_ns: Option<u64>,
    pub(super) keeper: Keeper,
}

impl<'a> Account<'a> {
    pub fn new(header: &'a LogHeader, slots: &'a Slots, keeper: Keeper) -> Account<'a> {
        let nr_cpus = header.nr_cpus as usize;
        let allowed = Allowed::new(header);
        let mut masks = Masks::new(nr_cpus);
        let tells_holds = !header.hidden.has(Fact::Limits);
        let tells_queues = !header.hidden.has(Fact::Assignments);
        let tasks = header.tasks.iter().enumerate().map(|(row, task)| {
            let may = allowed.may(Row(row as u32)).expect("a task of the workload");
            let policy = task.params.policy;
            Task {
                mask: masks.take(&may.cpus),
                may,
                limit: limit(header, policy, task.group),
                policy,
                waits: None,
                counted: None,
                unknown: None,
                is_unseen: false,
            }
        });
        let tasks = tasks.collect();
        Account {
            header,
            slots,
            tells_holds,
            tells_queues,
            allowed,
            masks,
            tasks,
            now_ns: 0,
            idle_since_ns: vec![None; nr_cpus],
            is_down: vec![false; nr_cpus],
            exhausted: BTreeMap::new(),
            at_home: vec![0; nr_cpus],
            nr_at_home: 0,
            wasted_since_ns: None,
            keeper,
        }
    }

    /// The log has ended: everything that was found, and tasks of which something was not known while they
    /// waited beside an idle CPU.
    pub fn finish(mut self) -> (Keeper, Vec<(TaskId, Unknown)>) {
        self.end_stretch(self.now_ns);
        let unknown = self.tasks.iter().enumerate();
        let unknown = unknown.filter_map(|(row, task)| Some((TaskId(row as u32), task.unknown?)));
        (self.keeper, unknown.collect())
    }

    /// Whether this task waits, may run now, and an idle CPU is one of those that it may use.
    pub(super) fn could_run(&self, task: &Task) -> bool {
        match (task.waits, task.counted) {
            (Some(_), Some(Counted::Anywhere)) => task.may.cpus.iter().any(|cpu| self.masks.is_idle(cpu)),
            (Some((_, queue)), Some(counted)) => counted.is_at_home() && self.masks.is_idle(queue),
            _ => false,
        }
    }

    /// Whether this idle CPU is one that the task may use for certain.
    pub(super) fn may_use(&self, task: &Task, cpu: CpuId) -> bool {
        match task.counted {
            Some(Counted::Anywhere) => task.may.cpus.contains(cpu),
            _ => task.waits.is_some_and(|(_, queue)| queue == cpu),
        }
    }

    fn end_stretch(&mut self, at_ns: u64) {
        if let Some(since_ns) = self.wasted_since_ns.take() {
            self.keeper.stretch(since_ns, at_ns);
        }
    }

    #[inline]
    fn change_home(&mut self, cpu: CpuId, by: i32) {
        let place = &mut self.at_home[cpu.index()];
        let was = *place > 0 && self.masks.is_idle(cpu);
        *place = place.checked_add_signed(by).expect("who leaves has come");
        let is = *place > 0 && self.masks.is_idle(cpu);
        self.nr_at_home = self.nr_at_home + u32::from(is) - u32::from(was);
    }

    fn set_idle(&mut self, cpu: CpuId, begins: bool) {
        if self.at_home[cpu.index()] > 0 && self.masks.is_idle(cpu) != begins {
            self.nr_at_home = if begins { self.nr_at_home + 1 } else { self.nr_at_home - 1 };
        }
        self.masks.idle(cpu, begins);
    }

    /// How a task that waits and is not held back counts.
    fn how(&self, task: &Task) -> Counted {
        let may_be_held = !self.tells_holds && (task.limit.is_some() || task.policy == SchedPolicy::Deadline);
        match (may_be_held, task.may.is_known) {
            (true, _) => Counted::Perhaps,
            (false, false) if !self.tells_queues => Counted::Perhaps,
            _ if task.limit.is_some_and(|limit| self.exhausted.contains_key(&limit)) => Counted::AtHome,
            (false, true) => Counted::Anywhere,
            (false, false) => Counted::Somewhere,
        }
    }

    /// Counts the task if it waits and may run.
    #[inline]
    fn count(&mut self, row: Row) {
        let task = &self.tasks[row.index()];
        let Some((_, queue)) = task.waits.filter(|_| task.may.held == note::HELD_NOT) else { return };
        let counted = self.how(task);
        let task = &mut self.tasks[row.index()];
        task.counted = Some(counted);
        match counted {
            Counted::Anywhere => self.masks.wait(task.mask, true, true),
            Counted::AtHome => {}
            Counted::Somewhere | Counted::Perhaps => {
                task.unknown = Some(if task.may.is_known { Unknown::Limit } else { Unknown::Affinity });
                self.masks.wait(task.mask, false, true);
            }
        }
        if counted.is_at_home() {
            self.change_home(queue, 1);
        }
    }

    #[inline]
    fn discount(&mut self, row: Row) {
        let task = &mut self.tasks[row.index()];
        let (Some(counted), Some((_, queue))) = (task.counted.take(), task.waits) else { return };
        match counted {
            Counted::Anywhere => self.masks.wait(task.mask, true, false),
            Counted::AtHome => {}
            Counted::Somewhere | Counted::Perhaps => self.masks.wait(task.mask, false, false),
        }
        if counted.is_at_home() {
            self.change_home(queue, -1);
        }
    }

    /// What is known of the task has changed.
    #[cold]
    fn update(&mut self, row: Row) {
        let Some(may) = self.allowed.may(row) else { return };
        self.discount(row);
        self.exhaust(row, false);
        let task = &mut self.tasks[row.index()];
        if task.is_unseen {
            self.masks.wait(task.mask, false, false);
        }
        if may.cpus != task.may.cpus {
            self.masks.give_back(task.mask);
            task.mask = self.masks.take(&may.cpus);
        }
        if task.is_unseen {
            self.masks.wait(task.mask, false, true);
        }
        task.may = may;
        task.limit = limit(self.header, task.policy, self.allowed.group(row));
        self.exhaust(row, true);
        self.count(row);
    }

    /// Counts the task, if it is held back, among those under its limit that are.
    fn exhaust(&mut self, row: Row, begins: bool) {
        let task = &self.tasks[row.index()];
        let Some(limit) = task.limit.filter(|_| task.may.held != note::HELD_NOT) else { return };
        let held = self.exhausted.entry(limit).or_default();
        let was = *held;
        *held = if begins { was + 1 } else { was - 1 };
        let now = *held;
        if now == 0 {
            self.exhausted.remove(&limit);
        }
        if was.min(now) == 0 {
            let shares = |(_, task): &(usize, &Task)| task.limit == Some(limit) && task.counted.is_some();
            let shares = self.tasks.iter().enumerate().filter(shares);
            for row in shares.map(|(row, _)| Row(row as u32)).collect::<Vec<_>>() {
                self.discount(row);
                self.count(row);
            }
        }
    }

    #[cold]
    fn down(&mut self, cpu: CpuId, is_down: bool) {
        self.is_down[cpu.index()] = is_down;
        self.set_idle(cpu, !is_down && self.idle_since_ns[cpu.index()].is_some());
    }
}

impl Observer for Account<'_> {
    #[inline]
    fn elapse(&mut self, from_ns: u64, to_ns: u64) {
        self.now_ns = to_ns;
        if self.masks.nr_wasted > 0 || self.nr_at_home > 0 {
            self.wasted_since_ns.get_or_insert(from_ns);
            return;
        }
        if self.wasted_since_ns.is_some() {
            self.end_stretch(from_ns);
        }
        if self.masks.nr_maybe > 0 {
            self.keeper.unknown_ns += to_ns - from_ns;
        }
    }
    #[inline]
    fn wait_begin(&mut self, row: Row, cpu: CpuId, _cause: WaitCause) {
        if row.index() < self.tasks.len() {
            self.tasks[row.index()].waits = Some((self.now_ns, cpu));
            self.count(row);
        }
    }
    #[inline]
    fn wait_moved(&mut self, row: Row, _from: CpuId, to: CpuId) {
        if row.index() < self.tasks.len() {
            self.discount(row);
            if let Some((_, queue)) = &mut self.tasks[row.index()].waits {
                *queue = to;
            }
            self.count(row);
        }
    }
    #[inline]
    fn wait_end(&mut self, wait: &Wait) {
        if wait.row.index() < self.tasks.len() {
            self.discount(wait.row);
            self.tasks[wait.row.index()].waits = None;
        }
    }
    #[inline]
    fn idle_begin(&mut self, cpu: CpuId) {
        self.idle_since_ns[cpu.index()] = Some(self.now_ns);
        if !self.is_down[cpu.index()] {
            self.set_idle(cpu, true);
        }
    }
    #[inline]
    fn idle_end(&mut self, cpu: CpuId, _since_ns: u64, _now_ns: u64) {
        self.idle_since_ns[cpu.index()] = None;
        self.set_idle(cpu, false);
    }
    fn task_unknown_begin(&mut self, row: Row, _what: Unseen) {
        if let Some(task) = self.tasks.get_mut(row.index()) {
            (task.is_unseen, task.unknown) = (true, Some(Unknown::Unseen));
            self.masks.wait(task.mask, false, true);
        }
    }
    fn task_unknown_end(&mut self, row: Row, _what: Unseen, _since_ns: u64, _now_ns: u64) {
        if let Some(task) = self.tasks.get_mut(row.index()) {
            task.is_unseen = false;
            self.masks.wait(task.mask, false, false);
        }
    }
    fn cpu_unknown_begin(&mut self, cpu: CpuId) {
        self.masks.may_idle(cpu, true);
    }
    fn cpu_unknown_end(&mut self, cpu: CpuId, _since_ns: u64, _now_ns: u64) {
        self.masks.may_idle(cpu, false);
    }
    #[inline]
    fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
        match kind {
            Kind::Note if record.arg == note::CPU => self.down(record.cpu(), record.value == 0),
            Kind::Note | Kind::Params | Kind::Fork => {
                if let (Some(row), Some((policy, ..))) = (row, record.params())
                    && let Some(task) = self.tasks.get_mut(row.index())
                {
                    task.policy = policy;
                    self.update(row);
                }
                if let Some(row) = self.allowed.record(record, kind, self.slots) {
                    self.update(row);
                }
            }
            _ => {}
        }
    }
}
