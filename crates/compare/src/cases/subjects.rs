//! Whose numbers are compared, besides those of all tasks together? Tasks of one name and nice value, and
//! single tasks if there are few.

use schedlab_instruments::jobs::{Jobs, TaskJobs};
use schedlab_instruments::{Distribution, FairShare, Summary, TaskStats};
use schedlab_units::TaskId;
use schedlab_workload::Workload;
use std::collections::BTreeMap;

/// Some tasks of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskGroup {
    /// `cc1`, `hog nice 5`, `hog t3`.
    pub label: String,
    /// Its tasks, in order.
    pub tasks: Vec<TaskId>,
    /// If it is a single one of several tasks of its name: the place of those.
    pub group: Option<usize>,
}

/// A name with more tasks than this is not taken apart, nor is a workload with more than [`TASKS_MAX`].
const MEMBERS_MAX: usize = 32;
const TASKS_MAX: usize = 400;

/// The subjects of a workload, in order of their first task; single tasks behind those of their name.
pub fn subjects(workload: &Workload) -> Vec<TaskGroup> {
    let mut groups: BTreeMap<(&str, i32), Vec<TaskId>> = BTreeMap::new();
    let mut levels: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (index, task) in workload.tasks.iter().enumerate() {
        let id = TaskId(index as u32);
        let nice = workload.inherited(task, |task| task.params).map_or(0, |params| params.nice.get());
        groups.entry((&task.name, nice)).or_default().push(id);
        levels.entry(&task.name).or_default().push(nice);
    }
    for levels in levels.values_mut() {
        levels.dedup();
    }
    let mut ordered: Vec<_> = groups.into_iter().collect();
    ordered.sort_by_key(|(_, tasks)| tasks[0]);
    let mut subjects = Vec::new();
    for ((name, nice), tasks) in ordered {
        let label = if levels[name].len() > 1 { format!("{name} nice {nice}") } else { name.to_string() };
        let singles: Vec<TaskId> = match tasks.len() {
            2..=MEMBERS_MAX if workload.tasks.len() <= TASKS_MAX => tasks.clone(),
            _ => Vec::new(),
        };
        let group = Some(subjects.len());
        subjects.push(TaskGroup { label, tasks, group: None });
        let single = |task| TaskGroup { label: format!("{name} {task}"), tasks: vec![task], group };
        subjects.extend(singles.into_iter().map(single));
    }
    subjects
}

/// All tasks of a subject as one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    pub cpu_ns: u64,
    pub run_delay: Distribution,
    pub wakeup_latency: Distribution,
    pub migrations: u64,
    pub preemptions: u64,
    pub turnaround: Distribution,
    pub service_error_ns: u64,
    pub jobs: GatheredJobs,
}

/// Jobs of a subject's tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatheredJobs {
    pub response: Distribution,
    pub tardiness: Distribution,
    pub nr_with_deadline: u64,
    pub misses: u64,
}

impl Gathered {
    pub fn of(subject: &TaskGroup, summary: &Summary, share: &FairShare, jobs: &Jobs) -> Gathered {
        let mut all = Gathered::default();
        for task in &subject.tasks {
            all.add(&summary.tasks[task.index()]);
            let due = &share.tasks[task.index()];
            let error_ns = due.lowest_ns.unsigned_abs().max(due.highest_ns.unsigned_abs());
            all.service_error_ns = all.service_error_ns.max(error_ns);
        }
        let of_subject = |jobs: &&TaskJobs| subject.tasks.contains(&jobs.task);
        jobs.tasks.iter().filter(of_subject).for_each(|jobs| all.jobs.add(jobs));
        all
    }

    pub fn add(&mut self, task: &TaskStats) {
        self.cpu_ns += task.cpu_ns;
        self.run_delay.merge(&task.run_delay);
        self.wakeup_latency.merge(&task.wakeup_latency);
        self.migrations += task.migrations;
        self.preemptions += task.switches_involuntary;
        if let (true, Some(first_ns), Some(last_ns)) = (task.exited, task.first_ns, task.last_ns) {
            self.turnaround.add(last_ns - first_ns);
        }
    }
}

impl GatheredJobs {
    pub fn add(&mut self, jobs: &TaskJobs) {
        self.response.merge(&jobs.response);
        self.tardiness.merge(&jobs.tardiness);
        self.nr_with_deadline += jobs.nr_with_deadline;
        self.misses += jobs.misses;
    }

    /// A part of the jobs that have a deadline; `None` if none has.
    pub fn of_deadlines(&self, part: u64) -> Option<f64> {
        (self.nr_with_deadline > 0).then(|| part as f64 / self.nr_with_deadline as f64)
    }
}
