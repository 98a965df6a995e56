//! What did one log's world look like just before a decision, and what came before and after it?

use crate::LogProblem;
use schedlab_log::{Kind, Log, Observer, PrevState, Record, Row, Run, Slots, Wait, WaitCause, replay};
use schedlab_units::{CpuId, TaskId};
use std::collections::VecDeque;

/// Where a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Nothing has been seen of it yet.
    #[default]
    Absent,
    /// Asleep, or forked and not yet runnable.
    Blocked,
    /// Runnable, on this CPU's queue, for this reason.
    Waiting(CpuId, WaitCause),
    /// On this CPU.
    Running(CpuId),
    /// It has exited.
    Gone,
}

/// What is known of a task at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskView {
    /// Where it is.
    pub place: Place,
    /// Since when.
    pub since_ns: u64,
    /// CPU time so far.
    pub cpu_ns: u64,
}

/// One CPU at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuView {
    /// Who is on it.
    pub current: TaskId,
    /// Workload tasks that wait on its queue.
    pub waiting: u32,
}

/// One log at the moment before a decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SideView {
    /// When that is.
    pub time_ns: u64,
    /// The decision: when, and who was chosen. `None`: this log goes on as before.
    pub decision: Option<(u64, TaskId)>,
    /// How the stay before ended, if this log decides.
    pub stop: Option<PrevState>,
    /// All tasks: the workload's, then kernel threads in the header's order.
    pub tasks: Vec<TaskView>,
    /// All CPUs.
    pub cpus: Vec<CpuView>,
    /// The last records on this CPU or about the tasks chosen, oldest first.
    pub before: Vec<Record>,
    /// The decision's record and those that follow.
    pub after: Vec<Record>,
}

/// Which moment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// Before this record.
    Record { index: u64, time_ns: u64 },
    /// After everything that happens at this time.
    After(u64),
}

/// What records to keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Focus {
    pub cpu: CpuId,
    pub chosen: [Option<TaskId>; 2],
    /// Records to keep before, and after.
    pub events: usize,
}

impl Focus {
    fn holds(&self, record: &Record, kind: Kind) -> bool {
        let about = |task: TaskId| self.chosen.contains(&Some(task)) && !task.is_idle();
        let here = record.cpu() == self.cpu;
        match kind {
            Kind::Switch => {
                let whole_kernel = |task: TaskId| !task.is_workload();
                let nobody = whole_kernel(record.task()) && whole_kernel(record.other());
                (here && !nobody) || about(record.task()) || about(record.other())
            }
            _ if !record.task().is_workload() && !about(record.task()) => false,
            Kind::Wakeup | Kind::New => record.arg == self.cpu.0 || about(record.task()),
            Kind::Migrate => record.arg == self.cpu.0 || record.other == self.cpu.0 || about(record.task()),
            _ => here || about(record.task()),
        }
    }
}

struct Looker<'a> {
    slots: &'a Slots,
    moment: Moment,
    focus: Focus,
    index: u64,
    now_ns: u64,
    tasks: Vec<TaskView>,
    cpus: Vec<CpuView>,
    recent: VecDeque<Record>,
    seen: Option<SideView>,
}

/// The state of a log at a moment. Reads the log once.
pub(super) fn look(
    log: &dyn Log,
    slots: &Slots,
    moment: Moment,
    focus: Focus,
) -> Result<SideView, LogProblem> {
    let mut looker = Looker {
        slots,
        moment,
        focus,
        index: 0,
        now_ns: 0,
        tasks: vec![TaskView::default(); slots.len()],
        cpus: vec![CpuView { current: TaskId::IDLE, waiting: 0 }; log.header().nr_cpus as usize],
        recent: VecDeque::new(),
        seen: None,
    };
    looker.look_if_due();
    replay(log, slots, &mut looker)?;
    let at_end = match moment {
        Moment::After(time_ns) => time_ns,
        Moment::Record { time_ns, .. } => time_ns,
    };
    if looker.seen.is_none() {
        looker.look_now(at_end);
    }
    Ok(looker.seen.expect("the moment has come, or the log's end was taken"))
}

impl Looker<'_> {
    fn look_if_due(&mut self) {
        if let Moment::Record { index, time_ns } = self.moment
            && self.seen.is_none()
            && self.index == index
        {
            self.look_now(time_ns);
        }
    }

    fn look_now(&mut self, time_ns: u64) {
        let mut tasks = self.tasks.clone();
        for task in &mut tasks {
            if let Place::Running(_) = task.place {
                task.cpu_ns += time_ns.saturating_sub(task.since_ns);
            }
        }
        self.seen = Some(SideView {
            time_ns,
            tasks,
            cpus: self.cpus.clone(),
            before: self.recent.iter().copied().collect(),
            ..SideView::default()
        });
    }

    fn nr_waiting(&mut self, row: Row, cpu: CpuId) -> Option<&mut u32> {
        self.slots.id(row).is_workload().then(|| &mut self.cpus[cpu.index()].waiting)
    }
}

impl Observer for Looker<'_> {
    fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
        if let Moment::After(time_ns) = self.moment
            && self.seen.is_none()
            && to_ns > time_ns
        {
            self.look_now(time_ns);
        }
        self.now_ns = to_ns;
    }
    fn wait_begin(&mut self, row: Row, cpu: CpuId, cause: WaitCause) {
        if let Some(waiting) = self.nr_waiting(row, cpu) {
            *waiting += 1;
        }
        let task = &mut self.tasks[row.index()];
        (task.place, task.since_ns) = (Place::Waiting(cpu, cause), self.now_ns);
    }
    fn wait_moved(&mut self, row: Row, from: CpuId, to: CpuId) {
        if let Some(waiting) = self.nr_waiting(row, from) {
            *waiting -= 1;
        }
        if let Some(waiting) = self.nr_waiting(row, to) {
            *waiting += 1;
        }
        if let Place::Waiting(cpu, _) = &mut self.tasks[row.index()].place {
            *cpu = to;
        }
    }
    fn wait_end(&mut self, wait: &Wait) {
        if let Some(waiting) = self.nr_waiting(wait.row, wait.cpu) {
            *waiting -= 1;
        }
    }
    fn run_end(&mut self, run: &Run) {
        let task = &mut self.tasks[run.row.index()];
        task.cpu_ns += run.until_ns - run.since_ns;
        task.since_ns = run.until_ns;
        task.place = if run.stop == Some(PrevState::Dead) { Place::Gone } else { Place::Blocked };
    }
    fn run_begin(&mut self, row: Row, cpu: CpuId) {
        let task = &mut self.tasks[row.index()];
        (task.place, task.since_ns) = (Place::Running(cpu), self.now_ns);
    }
    fn record(&mut self, record: &Record, kind: Kind, _row: Option<Row>) {
        if kind == Kind::Switch {
            self.cpus[usize::from(record.cpu)].current = record.other();
        }
        let is_before = self.seen.is_none();
        if self.focus.holds(record, kind) {
            match &mut self.seen {
                None => {
                    self.recent.push_back(*record);
                    if self.recent.len() > self.focus.events {
                        self.recent.pop_front();
                    }
                }
                Some(seen) if seen.after.len() < self.focus.events => seen.after.push(*record),
                Some(_) => {}
            }
        }
        self.index += 1;
        if is_before {
            self.look_if_due();
        }
    }
}
