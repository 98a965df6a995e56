//! What did one log's world look like just before a decision, and what came before and after it?

use crate::LogProblem;
use crate::replay::{Observer, Run, Wait, WaitCause, replay};
use crate::slots::Slots;
use schedlab_log::{Kind, Log, PrevState, Record};
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

    fn nr_waiting(&mut self, row: u32, cpu: u32) -> Option<&mut u32> {
        self.slots.id(row).is_workload().then(|| &mut self.cpus[cpu as usize].waiting)
    }
}

impl Observer for Looker<'_> {
    fn elapse(&mut self, _from: u64, to: u64) {
        if let Moment::After(time_ns) = self.moment
            && self.seen.is_none()
            && to > time_ns
        {
            self.look_now(time_ns);
        }
        self.now_ns = to;
    }
    fn wait_begin(&mut self, row: u32, cpu: u32) {
        if let Some(waiting) = self.nr_waiting(row, cpu) {
            *waiting += 1;
        }
        let task = &mut self.tasks[row as usize];
        // after a run; a wakeup or a first time is told by its record
        (task.place, task.since_ns) = (Place::Waiting(CpuId(cpu), WaitCause::Preempted), self.now_ns);
    }
    fn wait_moved(&mut self, row: u32, from: u32, to: u32) {
        if let Some(waiting) = self.nr_waiting(row, from) {
            *waiting -= 1;
        }
        if let Some(waiting) = self.nr_waiting(row, to) {
            *waiting += 1;
        }
        if let Place::Waiting(cpu, _) = &mut self.tasks[row as usize].place {
            *cpu = CpuId(to);
        }
    }
    fn wait_end(&mut self, wait: &Wait) {
        if let Some(waiting) = self.nr_waiting(wait.row, wait.cpu) {
            *waiting -= 1;
        }
    }
    fn run_end(&mut self, run: &Run) {
        let task = &mut self.tasks[run.row as usize];
        task.cpu_ns += run.until - run.since;
        task.since_ns = run.until;
        task.place = if run.stop == Some(PrevState::Dead) { Place::Gone } else { Place::Blocked };
    }
    fn record(&mut self, record: &Record, kind: Kind, row: Option<u32>) {
        match kind {
            Kind::Switch => {
                self.cpus[usize::from(record.cpu)].current = record.other();
                if let Some(next) = self.slots.row(record.other()) {
                    let task = &mut self.tasks[next as usize];
                    (task.place, task.since_ns) = (Place::Running(record.cpu()), record.time_ns);
                }
            }
            Kind::Wakeup | Kind::New => {
                if let Some(task) = row.map(|row| &mut self.tasks[row as usize])
                    && let Place::Waiting(_, cause) = &mut task.place
                    && task.since_ns == record.time_ns
                {
                    *cause = if kind == Kind::New { WaitCause::New } else { WaitCause::Wakeup };
                }
            }
            _ => {}
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
