//! A log as the decisions that can be compared: who ran where from when on, who was put where, and how long
//! runs and waits lasted.
//!
//! ```text
//! log                                             decisions of cpu0
//!   1.000 ms  switch t0 preempted -> k10            0 ms  t0
//!   1.000 ms  switch k10 sleeping -> t1             1 ms  t1
//! ```
//!
//! Kernel code takes no time here, so that the kernel's own threads run for none: they are left out, as is
//! everything else that lasts 0 ns.

use schedlab_log::{Kind, Log, LogProblem, Observer, Record, Row, Run, Slots, Wait, WaitCause, replay};
use schedlab_stdx::percentile::nearest;
use schedlab_units::{CpuId, TaskId};

/// From `time_ns` on, `task` runs on `cpu`; idle if nobody of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Since when, in ns from the start.
    pub time_ns: u64,
    /// Who.
    pub task: TaskId,
}

/// How a task came to be on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// It was created.
    Birth,
    /// It was woken.
    Wakeup,
    /// It was moved while it was runnable.
    Balancing,
}

/// A task was put on a CPU's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// When, in ns from the start.
    pub time_ns: u64,
    /// Who.
    pub task: TaskId,
    /// Where.
    pub cpu: u32,
    /// How.
    pub by: By,
}

/// A wakeup of a thread of the kernel's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnWakeup {
    /// When, in ns from the start.
    pub time_ns: u64,
    /// Its pid.
    pub pid: u32,
    /// On which CPU.
    pub cpu: u32,
    /// The thread of the kernel's own that ran there and woke it, if one did (`ksoftirqd` wakes `rcu_preempt`).
    pub by: Option<u32>,
}

/// What is compared of a run.
#[derive(Clone, Debug, Default)]
pub struct ComparedRun {
    /// The scheduler's name.
    pub sched: String,
    /// Length of the run.
    pub duration_ns: u64,
    /// Per CPU, in order of time; each differs from the one before. Idle before the first.
    pub decisions: Vec<Vec<Decision>>,
    /// In order of time.
    pub placements: Vec<Placement>,
    /// Wakeups of the kernel's own threads, in order of time.
    pub own_wakeups: Vec<OwnWakeup>,
    /// Their names by pid.
    pub own_names: Vec<(u32, String)>,
    /// Per task: CPU time.
    pub cpu_ns: Vec<u64>,
    /// Length of each run of a task that was longer than 0, sorted; runs that the end cuts short are left out.
    pub runs_ns: Vec<u64>,
    /// Length of each wait from a wakeup to running, sorted.
    pub waits_ns: Vec<u64>,
    /// Stops of a run by preemption, yield or the end of a slice.
    pub involuntary: u64,
    /// Runs on another CPU than the task's last one.
    pub migrations: u64,
}

/// Reads a log.
struct Reader {
    nr_tasks: usize,
    now_ns: u64,
    out: ComparedRun,
    /// Per task: its last wait, if that began with its birth or a wakeup.
    waited_ns: Vec<Option<u64>>,
    last_cpu: Vec<Option<CpuId>>,
}

impl ComparedRun {
    /// Of this log; tasks from number `nr_tasks` on count as threads of the kernel's own.
    ///
    /// # Errors
    /// [`LogProblem`] if the log is no schedule.
    pub fn read(log: &dyn Log, nr_tasks: usize) -> Result<ComparedRun, LogProblem> {
        let header = log.header();
        let nr_cpus = header.nr_cpus as usize;
        let mut reader = Reader {
            nr_tasks,
            out: ComparedRun {
                sched: header.sched.clone(),
                duration_ns: header.duration.as_ns(),
                decisions: vec![Vec::new(); nr_cpus],
                cpu_ns: vec![0; nr_tasks],
                own_names: header.kernel_threads.iter().map(|t| (t.pid, t.name.clone())).collect(),
                ..ComparedRun::default()
            },
            now_ns: 0,
            waited_ns: vec![None; nr_tasks],
            last_cpu: vec![None; nr_tasks],
        };
        replay(log, &Slots::new(header), &mut reader)?;
        reader.out.runs_ns.sort_unstable();
        reader.out.waits_ns.sort_unstable();
        Ok(reader.out)
    }

    /// Decisions of all CPUs.
    pub fn nr_decisions(&self) -> usize {
        self.decisions.iter().map(Vec::len).sum()
    }

    /// A hundredth, two hundredths, ... of the runs are no longer than this, in ns; empty without runs.
    pub fn run_quantiles_ns(&self) -> Vec<u64> {
        (1..=100).filter_map(|part| nearest(&self.runs_ns, part * 10)).collect()
    }

    /// The name of a thread of the kernel's own.
    pub fn own_name(&self, pid: u32) -> &str {
        self.own_names.iter().find(|(p, _)| *p == pid).map_or("?", |(_, name)| name)
    }
}

impl Reader {
    fn is_known(&self, task: TaskId) -> bool {
        task.is_workload() && task.index() < self.nr_tasks
    }

    /// The place of a task of the workload.
    fn task(&self, row: Row) -> Option<usize> {
        (row.index() < self.nr_tasks).then(|| row.index())
    }

    fn decision(&mut self, record: &Record) {
        let next = Some(record.other()).filter(|&next| self.is_known(next));
        let decisions = &mut self.out.decisions[usize::from(record.cpu)];
        decisions.pop_if(|last| last.time_ns == record.time_ns); // it lasted 0 ns
        let task = next.unwrap_or(TaskId::IDLE);
        if decisions.last().map_or(TaskId::IDLE, |last| last.task) != task {
            decisions.push(Decision { time_ns: record.time_ns, task });
        }
    }

    fn placement(&mut self, record: &Record, cpu: u32, by: By) {
        let (time_ns, task) = (record.time_ns, record.task());
        if by != By::Balancing {
            // its own assignment to a CPU was logged as a migration before
            let placements = &mut self.out.placements;
            placements.pop_if(|p| p.by == By::Balancing && p.task == task && p.time_ns == time_ns);
        }
        self.out.placements.push(Placement { time_ns, task, cpu, by });
    }

    fn own_waking(&mut self, record: &Record) {
        if let Some(pid) = record.task().kernel_pid() {
            let waker = Some(record.other()).filter(|waker| !waker.is_idle());
            let by = waker.and_then(TaskId::kernel_pid).filter(|&waker| waker != pid);
            let (time_ns, cpu) = (record.time_ns, u32::from(record.cpu));
            self.out.own_wakeups.push(OwnWakeup { time_ns, pid, cpu, by });
        }
    }
}

impl Observer for Reader {
    fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
        self.now_ns = to_ns;
    }

    fn wait_end(&mut self, wait: &Wait) {
        if let Some(task) = self.task(wait.row) {
            let since_ns = Some(wait.since_ns).filter(|_| wait.cause != WaitCause::Preempted);
            self.waited_ns[task] = since_ns.map(|since_ns| wait.until_ns - since_ns);
        }
    }

    fn run_begin(&mut self, row: Row, cpu: CpuId) {
        let Some(task) = self.task(row) else { return };
        self.out.waits_ns.extend(self.waited_ns[task].take());
        let last = self.last_cpu[task].replace(cpu);
        self.out.migrations += u64::from(last.is_some_and(|last| last != cpu));
    }

    fn run_end(&mut self, run: &Run) {
        let Some(task) = self.task(run.row) else { return };
        let length_ns = run.until_ns - run.since_ns;
        self.out.cpu_ns[task] += length_ns;
        let Some(stop) = run.stop else { return };
        if length_ns > 0 {
            self.out.runs_ns.push(length_ns);
        }
        if stop.is_runnable() {
            self.out.involuntary += 1;
        }
    }

    fn record(&mut self, record: &Record, kind: Kind, _row: Option<Row>) {
        let is_known = self.is_known(record.task());
        match kind {
            Kind::Switch => self.decision(record),
            Kind::Waking if !is_known => self.own_waking(record),
            Kind::New if is_known => self.placement(record, record.arg, By::Birth),
            Kind::Wakeup if is_known => self.placement(record, record.arg, By::Wakeup),
            Kind::Migrate if is_known => self.placement(record, record.other, By::Balancing),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_log::TextLog;
    use std::path::Path;

    fn read(lines: &str) -> ComparedRun {
        let header = "# schedlab log 1\n# sched \"x\"\n# sched_version \"1\"\n# cpus 1\n# hz 250\n\
            # duration_ns 9000000\n\
                      # task t0 pid=1 policy=normal nice=0 name=\"a\"\n# task t1 pid=2 policy=normal nice=0 \
                      name=\"b\"\n\
                      # kernel_thread k10 name=\"kworker\"\n";
        let log =
            TextLog::parse(&format!("{header}{lines}# end {}\n", lines.lines().count()), Path::new("drawn"))
                .unwrap();
        ComparedRun::read(&log, 2).unwrap()
    }

    /// ms    0        9
    /// cpu0  AABBBBA.     a thread of the kernel's own between A and B, for 0 ns
    #[test]
    fn what_lasts_no_time_is_left_out() {
        let schedule = read(
            "0 cpu0 new t0 cpu0\n0 cpu0 new t1 cpu0\n0 cpu0 switch idle -> t0\n\
             2000000 cpu0 waking k10 by t0 irq\n2000000 cpu0 wakeup k10 cpu0\n2000000 cpu0 switch t0 preempted -> k10\n\
             2000000 cpu0 switch k10 sleeping -> t1\n6000000 cpu0 switch t1 preempted -> t0\n\
             7000000 cpu0 switch t0 sleeping -> idle\n",
        );
        let decisions: Vec<(u64, u32)> =
            schedule.decisions[0].iter().map(|d| (d.time_ns / 1_000_000, d.task.0)).collect();
        assert_eq!(decisions, [(0, 0), (2, 1), (6, 0), (7, TaskId::IDLE.0)]);
        assert_eq!(schedule.cpu_ns, [3_000_000, 4_000_000]);
        assert_eq!(schedule.runs_ns, [1_000_000, 2_000_000, 4_000_000]);
        assert_eq!(schedule.waits_ns, [0, 2_000_000]);
        assert_eq!((schedule.involuntary, schedule.migrations), (2, 0));
        assert_eq!(schedule.own_wakeups, [OwnWakeup { time_ns: 2_000_000, pid: 10, cpu: 0, by: None }]);
        assert_eq!(schedule.own_name(10), "kworker");
    }
}
