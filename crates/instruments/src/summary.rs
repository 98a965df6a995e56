//! Who got how much, who waited how long? Tables per task, per CPU and for the machine, in one pass over the log.
//!
//! ```text
//!   ms    0         1         2
//!         0123456789012345678901
//!   cpu0  AAAABBBBAA....AA          A blocks at 10, is woken at 14; B is new at 2
//!
//!   A: cpu 12 ms, run delay 4 ms (4 to 8, preempted), blocked 4 ms, wakeup latency 0 ms
//!   B: cpu  4 ms, run delay 2 ms (2 to 4, new)
//! ```
//!
//! Run delay is all waiting while runnable; wakeup latency is the part that follows a wakeup. A wait or a run
//! that is not over when the log ends counts up to the log's end.
//!
//! [`summarize`] asks for a log that hides nothing, so that every number is what it says. [`summarize_seen`]
//! takes any log, and counts what was seen: whoever shows a number asks [`Summary::why_unknown`] first (module
//! `unknown`).

use crate::wasted::{Account, Conservation, Keeper};
use crate::{Distribution, LogProblem};
use schedlab_log::{
    Hidden, Kind, Log, ObservedBy, Observer, PrevState, Record, Row, Run, Slots, Unseen, Wait, WaitCause,
    replay,
};
use schedlab_units::{CpuId, TaskId};

/// One task's account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskStats {
    /// The task.
    pub id: TaskId,
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Waits while runnable, of every cause.
    pub run_delay: Distribution,
    /// Waits after a wakeup; its sum is a part of the run delay's.
    pub wakeup_latency: Distribution,
    /// Part of the run delay after preemption, the end of a slice, or a yield.
    pub preempted_wait_ns: u64,
    /// Part of the run delay before the first run.
    pub new_wait_ns: u64,
    /// Time blocked: from the switch-out to the wakeup.
    pub blocked_ns: u64,
    /// Wakeups (those that found the task blocked and those that did not).
    pub wakeups: u64,
    /// Switch-outs by blocking or exiting (the kernel's `nvcsw`).
    pub switches_voluntary: u64,
    /// Switch-outs while runnable (the kernel's `nivcsw`, which counts a yield here too).
    pub switches_involuntary: u64,
    /// Of the involuntary ones, those by `sched_yield`.
    pub yields: u64,
    /// Runs on another CPU than the task's last one. (The kernel's `se.nr_migrations` counts assignments:
    /// `assignments` here. A task moved twice between two runs is one migration and two assignments; moved
    /// there and back it is none and two.)
    pub migrations: u64,
    /// `migrate` records: how often the task was assigned to another CPU, whether or not it ran there.
    pub assignments: u64,
    /// Number of times it got a CPU.
    pub runs: u64,
    /// Whether it exited.
    pub exited: bool,
    /// When it was first runnable or running; `None`: never.
    pub first_ns: Option<u64>,
    /// When it last stopped running, the log's end if it was still runnable then.
    pub last_ns: Option<u64>,
    /// Time in which nobody saw whether it waited or was blocked; it ran on no CPU.
    pub off_cpu_ns: u64,
    /// Time in which nobody saw whether it ran, waited or was blocked.
    pub unseen_ns: u64,
}

impl TaskStats {
    /// Adds another task's counts, times and waits; whose they are, and when, stays.
    pub fn add(&mut self, other: &TaskStats) {
        self.cpu_ns += other.cpu_ns;
        self.run_delay.merge(&other.run_delay);
        self.wakeup_latency.merge(&other.wakeup_latency);
        self.preempted_wait_ns += other.preempted_wait_ns;
        self.new_wait_ns += other.new_wait_ns;
        self.blocked_ns += other.blocked_ns;
        self.wakeups += other.wakeups;
        self.switches_voluntary += other.switches_voluntary;
        self.switches_involuntary += other.switches_involuntary;
        self.yields += other.yields;
        self.migrations += other.migrations;
        self.assignments += other.assignments;
        self.runs += other.runs;
        self.off_cpu_ns += other.off_cpu_ns;
        self.unseen_ns += other.unseen_ns;
    }
}

/// One CPU's account; `busy_ns + idle_ns + unseen_ns` is the log's duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// Time with any task on it, kernel threads included.
    pub busy_ns: u64,
    /// Of it, the kernel's own threads.
    pub kernel_thread_ns: u64,
    /// Time with the idle task.
    pub idle_ns: u64,
    /// Time in which nobody saw whether it idled, or who ran there.
    pub unseen_ns: u64,
    /// Switches, to and from idle included.
    pub switches: u64,
    /// Integral over time of the number of tasks waiting on its queue.
    pub waiting_task_ns: u64,
    /// Most tasks waiting on its queue at once for more than 0 ns.
    pub waiting_max: u32,
}

/// The machine's account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemStats {
    /// Records read.
    pub records: u64,
    /// Switches on all CPUs (the kernel's `ctxt`), to and from idle included.
    pub switches: u64,
    /// Sum of the migrations of the workload's tasks: runs on another CPU than the last one.
    pub migrations: u64,
    /// `migrate` records of the workload's tasks: each assignment to another CPU, whether or not the task ran there.
    pub assignments: u64,
    /// `migrate` records of the kernel's own threads.
    pub kernel_thread_assignments: u64,
    /// CPU time of the workload's tasks.
    pub task_ns: u64,
    /// CPU time of the kernel's own threads.
    pub kernel_thread_ns: u64,
    /// Idle time of all CPUs.
    pub idle_ns: u64,
    /// Waits of all workload tasks.
    pub run_delay: Distribution,
    /// Waits after wakeups of all workload tasks.
    pub wakeup_latency: Distribution,
    /// Integral over time of the number of tasks waiting anywhere; divided by the duration: the mean queue length.
    pub waiting_task_ns: u64,
    /// Most tasks waiting at once for more than 0 ns.
    pub waiting_max: u32,
    /// Idling while work waits.
    pub conservation: Conservation,
    /// The [`LONGEST_WAITS`] longest waits of workload tasks, longest first; of equal ones the earliest.
    pub longest_waits: Vec<LongWait>,
}

/// Stretches kept in [`Conservation::longest`] by [`summarize`].
pub const LONGEST_STRETCHES: usize = 20;
/// Waits kept in [`SystemStats::longest_waits`].
pub const LONGEST_WAITS: usize = 20;

/// One wait of a runnable task for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// Who waited.
    pub task: TaskId,
    /// On whose queue it began.
    pub cpu: CpuId,
    /// On whose queue it was over: where the task ran then.
    pub end_cpu: CpuId,
    /// How often the task was assigned to another CPU while it waited.
    pub moves: u32,
    /// Why.
    pub cause: WaitCause,
    /// From when, in ns from the start.
    pub start_ns: u64,
    /// Until when (it ran, or the log ends).
    pub end_ns: u64,
}

impl LongWait {
    /// Its length.
    pub fn ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// Everything that one pass over a log tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The log's duration.
    pub duration_ns: u64,
    /// The workload's tasks; row i is `TaskId(i)`.
    pub tasks: Vec<TaskStats>,
    /// The kernel's own threads, in the header's order.
    pub kernel_threads: Vec<TaskStats>,
    /// Row i is `CpuId(i)`.
    pub cpus: Vec<CpuStats>,
    /// The machine.
    pub system: SystemStats,
    /// Who observed.
    pub observer: ObservedBy,
    /// What was hidden from them.
    pub hidden: Hidden,
}

/// Time is lost or made up: CPU time and idle time do not add up to the CPUs' time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what}: busy {busy_ns} ns + idle {idle_ns} ns = {} ns, expected {expected_ns} ns",
    u128::from(*.busy_ns) + u128::from(*.idle_ns)
)]
pub struct TimeNotConserved {
    /// `cpuN`, or the machine.
    pub what: String,
    /// CPU time of tasks.
    pub busy_ns: u64,
    /// Idle time.
    pub idle_ns: u64,
    /// The duration, times the number of CPUs for the machine.
    pub expected_ns: u64,
}

impl Summary {
    /// Checks that on every CPU, and over all tasks and CPUs, CPU time + idle time = duration (less what nobody
    /// saw), exactly. Task time and CPU time are added up independently of each other.
    pub fn check_time(&self) -> Result<(), TimeNotConserved> {
        let check = |what: String, busy_ns: u64, idle_ns: u64, expected_ns: u64| {
            if u128::from(busy_ns) + u128::from(idle_ns) == u128::from(expected_ns) {
                Ok(())
            } else {
                Err(TimeNotConserved { what, busy_ns, idle_ns, expected_ns })
            }
        };
        for (cpu, stats) in self.cpus.iter().enumerate() {
            let seen_ns = self.duration_ns - stats.unseen_ns;
            check(format!("cpu{cpu}"), stats.busy_ns, stats.idle_ns, seen_ns)?;
        }
        let tasks = self.tasks.iter().chain(&self.kernel_threads).map(|task| task.cpu_ns).sum();
        let idle = self.cpus.iter().map(|cpu| cpu.idle_ns).sum();
        let unseen_ns: u64 = self.cpus.iter().map(|cpu| cpu.unseen_ns).sum();
        check("all CPUs".to_string(), tasks, idle, self.duration_ns * self.cpus.len() as u64 - unseen_ns)
    }

    /// The row of a task; `None` for idle and for tasks that the log does not name.
    pub fn task(&self, id: TaskId) -> Option<&TaskStats> {
        let found = if id.is_workload() { self.tasks.get(id.index()) } else { None };
        found.or_else(|| self.kernel_threads.iter().find(|thread| thread.id == id))
    }

    /// Share of the machine that was busy, 0 to 1.
    pub fn utilisation(&self) -> f64 {
        let all = self.duration_ns as f64 * self.cpus.len() as f64;
        if all == 0.0 { 0.0 } else { 1.0 - self.system.idle_ns as f64 / all }
    }
}

/// Reads the log once and gives all tables. A log that contradicts itself is refused (see
/// [`verify`](crate::verify) for all its contradictions), and so is one whose observer could not see
/// everything.
///
/// # Errors
/// [`LogProblem`].
pub fn summarize(log: &dyn Log) -> Result<Summary, LogProblem> {
    log.header().needs_everything("a summary without gaps")?;
    summarize_seen(log)
}

/// As [`summarize`], of what was seen in any log. Ask [`Summary::why_unknown`] and its like before a number is shown.
///
/// # Errors
/// [`LogProblem`] if the log contradicts itself.
pub fn summarize_seen(log: &dyn Log) -> Result<Summary, LogProblem> {
    let header = log.header();
    let slots = Slots::new(header);
    let row = |row| Entry {
        stats: TaskStats { id: slots.id(row), ..TaskStats::default() },
        last_cpu: None,
        waits_from: (CpuId(0), 0),
    };
    let keeper = Keeper::new(0, LONGEST_STRETCHES);
    let mut collector = Collector {
        now: 0,
        rows: slots.rows().map(row).collect(),
        nr_tasks: header.tasks.len() as u32,
        cpus: vec![CpuStats::default(); header.nr_cpus as usize],
        queues: vec![Queue::default(); header.nr_cpus as usize],
        queue: Queue::default(),
        longest: Vec::with_capacity(2 * LONGEST_WAITS),
        longest_at_least: 0,
        system: SystemStats::default(),
        conservation: Account::new(header, &slots, keeper),
    };
    replay(log, &slots, &mut collector)?;
    let summary = collector.finish(header.duration.as_ns());
    Ok(Summary { observer: header.observer, hidden: header.hidden, ..summary })
}

struct Entry {
    stats: TaskStats,
    last_cpu: Option<CpuId>,
    /// Where its wait began, and how often it was moved since.
    waits_from: (CpuId, u32),
}

/// How many wait, and since when that many.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    waiting: u32,
    since: u64,
    max: u32,
    task_ns: u64,
}

impl Queue {
    #[inline]
    fn change(&mut self, now: u64, by: i32) {
        self.bring_up_to_date(now);
        self.waiting = self.waiting.checked_add_signed(by).expect("waits begin before they end");
    }
    #[inline]
    fn bring_up_to_date(&mut self, now: u64) {
        if now > self.since {
            self.task_ns += u64::from(self.waiting) * (now - self.since);
            self.max = self.max.max(self.waiting);
            self.since = now;
        }
    }
}

struct Collector<'a> {
    now: u64,
    rows: Vec<Entry>,
    nr_tasks: u32,
    cpus: Vec<CpuStats>,
    queues: Vec<Queue>,
    queue: Queue,
    /// Candidates for the longest waits; cut back to the longest when there are twice as many as wanted.
    longest: Vec<LongWait>,
    longest_at_least: u64,
    system: SystemStats,
    conservation: Account<'a>,
}

impl Observer for Collector<'_> {
    #[inline]
    fn elapse(&mut self, from_ns: u64, to_ns: u64) {
        self.now = to_ns;
        self.conservation.elapse(from_ns, to_ns);
    }

    #[inline]
    fn wait_begin(&mut self, row: Row, cpu: CpuId, cause: WaitCause) {
        self.queue.change(self.now, 1);
        self.queues[cpu.index()].change(self.now, 1);
        self.conservation.wait_begin(row, cpu, cause);
        let entry = &mut self.rows[row.index()];
        entry.waits_from = (cpu, 0);
        entry.stats.first_ns.get_or_insert(self.now);
    }

    #[inline]
    fn wait_moved(&mut self, row: Row, from: CpuId, to: CpuId) {
        self.conservation.wait_moved(row, from, to);
        self.rows[row.index()].waits_from.1 += u32::from(from != to);
        self.queues[from.index()].change(self.now, -1);
        self.queues[to.index()].change(self.now, 1);
    }

    #[inline]
    fn wait_end(&mut self, wait: &Wait) {
        self.queue.change(wait.until_ns, -1);
        self.queues[wait.cpu.index()].change(wait.until_ns, -1);
        self.conservation.wait_end(wait);
        let ns = wait.until_ns - wait.since_ns;
        let Entry { stats, waits_from: (cpu, moves), .. } = &mut self.rows[wait.row.index()];
        stats.run_delay.add(ns);
        match wait.cause {
            WaitCause::Wakeup => stats.wakeup_latency.add(ns),
            WaitCause::New => stats.new_wait_ns += ns,
            WaitCause::Preempted => stats.preempted_wait_ns += ns,
        }
        stats.last_ns = Some(wait.until_ns);
        if ns > self.longest_at_least && wait.row.0 < self.nr_tasks {
            self.longest.push(LongWait {
                task: TaskId(wait.row.0),
                cpu: *cpu,
                end_cpu: wait.cpu,
                moves: *moves,
                cause: wait.cause,
                start_ns: wait.since_ns,
                end_ns: wait.until_ns,
            });
            if self.longest.len() == 2 * LONGEST_WAITS {
                self.keep_longest();
            }
        }
    }

    #[inline]
    fn run_end(&mut self, run: &Run) {
        let row = &mut self.rows[run.row.index()];
        let ns = run.until_ns - run.since_ns;
        row.stats.cpu_ns += ns;
        row.stats.runs += 1;
        row.stats.first_ns.get_or_insert(run.since_ns);
        row.stats.last_ns = Some(run.until_ns);
        if row.last_cpu.replace(run.cpu).is_some_and(|last| last != run.cpu) {
            row.stats.migrations += 1;
        }
        match run.stop {
            Some(PrevState::Preempted) => row.stats.switches_involuntary += 1,
            Some(PrevState::Yielded) => {
                row.stats.switches_involuntary += 1;
                row.stats.yields += 1;
            }
            Some(PrevState::Sleeping | PrevState::Disk | PrevState::Dead) => {
                row.stats.switches_voluntary += 1
            }
            Some(PrevState::Unknown) | None => {}
        }
        let cpu = &mut self.cpus[run.cpu.index()];
        cpu.busy_ns += ns;
        if run.row.0 >= self.nr_tasks {
            cpu.kernel_thread_ns += ns;
        }
    }

    #[inline]
    fn block_end(&mut self, row: Row, since_ns: u64, now_ns: u64) {
        self.rows[row.index()].stats.blocked_ns += now_ns - since_ns;
    }

    #[inline]
    fn idle_begin(&mut self, cpu: CpuId) {
        self.conservation.idle_begin(cpu);
    }

    #[inline]
    fn idle_end(&mut self, cpu: CpuId, since_ns: u64, now_ns: u64) {
        self.conservation.idle_end(cpu, since_ns, now_ns);
        self.cpus[cpu.index()].idle_ns += now_ns - since_ns;
    }

    fn task_unknown_begin(&mut self, row: Row, what: Unseen) {
        self.conservation.task_unknown_begin(row, what);
    }

    fn task_unknown_end(&mut self, row: Row, what: Unseen, since_ns: u64, now_ns: u64) {
        self.conservation.task_unknown_end(row, what, since_ns, now_ns);
        let stats = &mut self.rows[row.index()].stats;
        match what {
            Unseen::OffCpu => stats.off_cpu_ns += now_ns - since_ns,
            Unseen::All => stats.unseen_ns += now_ns - since_ns,
        }
    }

    fn cpu_unknown_begin(&mut self, cpu: CpuId) {
        self.conservation.cpu_unknown_begin(cpu);
    }

    fn cpu_unknown_end(&mut self, cpu: CpuId, since_ns: u64, now_ns: u64) {
        self.conservation.cpu_unknown_end(cpu, since_ns, now_ns);
        self.cpus[cpu.index()].unseen_ns += now_ns - since_ns;
    }

    #[inline]
    fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
        self.system.records += 1;
        match (kind, row) {
            (Kind::Switch, _) => self.cpus[usize::from(record.cpu)].switches += 1,
            (Kind::Wakeup, Some(row)) => self.rows[row.index()].stats.wakeups += 1,
            (Kind::Migrate, Some(row)) => self.rows[row.index()].stats.assignments += 1,
            (Kind::Exit, Some(row)) => self.rows[row.index()].stats.exited = true,
            _ => {}
        }
        self.conservation.record(record, kind, row);
    }
}

impl Collector<'_> {
    #[cold]
    fn keep_longest(&mut self) {
        self.longest.sort_by_key(|wait| (std::cmp::Reverse(wait.ns()), wait.start_ns, wait.task));
        self.longest.truncate(LONGEST_WAITS);
        if self.longest.len() == LONGEST_WAITS {
            self.longest_at_least = self.longest[LONGEST_WAITS - 1].ns();
        }
    }

    fn finish(mut self, duration_ns: u64) -> Summary {
        self.queue.bring_up_to_date(duration_ns);
        for (cpu, queue) in self.cpus.iter_mut().zip(&mut self.queues) {
            queue.bring_up_to_date(duration_ns);
            (cpu.waiting_task_ns, cpu.waiting_max) = (queue.task_ns, queue.max);
        }
        let mut tasks: Vec<TaskStats> = self.rows.into_iter().map(|row| row.stats).collect();
        let kernel_threads = tasks.split_off(self.nr_tasks as usize);
        self.longest.sort_by_key(|wait| (std::cmp::Reverse(wait.ns()), wait.start_ns, wait.task));
        self.longest.truncate(LONGEST_WAITS);
        let mut system = SystemStats { longest_waits: self.longest, ..self.system };
        for task in &tasks {
            system.run_delay.merge(&task.run_delay);
            system.wakeup_latency.merge(&task.wakeup_latency);
            system.migrations += task.migrations;
            system.assignments += task.assignments;
            system.task_ns += task.cpu_ns;
        }
        system.kernel_thread_ns = kernel_threads.iter().map(|thread| thread.cpu_ns).sum();
        system.kernel_thread_assignments = kernel_threads.iter().map(|thread| thread.assignments).sum();
        system.switches = self.cpus.iter().map(|cpu| cpu.switches).sum();
        system.idle_ns = self.cpus.iter().map(|cpu| cpu.idle_ns).sum();
        (system.waiting_task_ns, system.waiting_max) = (self.queue.task_ns, self.queue.max);
        let (keeper, unknown) = self.conservation.finish();
        system.conservation = keeper.finish(unknown);
        Summary { duration_ns, tasks, kernel_threads, cpus: self.cpus, system, ..Summary::default() }
    }
}
