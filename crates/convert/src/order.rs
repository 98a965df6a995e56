//! In which order will a reader see events of one instant?
//!
//! In simulated time many things happen in the same nanosecond, in an order that matters: woken by CPU 3,
//! then running on CPU 1. Viewers and importers keep the events of each CPU in order, but order equal times
//! of different CPUs by the CPU's number. Where that would turn the order of two events of one task around,
//! the later one is written 1 ns later. How often, and by how much at most, is counted; the log itself is not
//! touched.
//!
//! ```text
//! log          5000 ns cpu3 waking t7            written   5000 ns cpu3 waking t7
//!              5000 ns cpu1 switch idle -> t7              5001 ns cpu1 switch idle -> t7
//! ```

use schedlab_log::{Fact, Kind, Log, LogError, LogTask, Record, for_each, note};
use schedlab_trace::{Marker, Pid};
use schedlab_units::{DeadlineParams, SchedParams, Span, TaskId};
use std::collections::BTreeSet;

/// Tasks that somebody forks; with `tasks_only`, that a task of the workload forks (the simulated kernel's own
/// thread that starts the workload is no parent if it is left out).
///
/// # Errors
/// The log cannot be read, or its observer could not see what each CPU did at all times: then it is no
/// recording that other tools could show.
pub fn forked(log: &dyn Log, tasks_only: bool) -> Result<BTreeSet<TaskId>, LogError> {
    log.header().needs("what each CPU did at all times", &[Fact::Spans, Fact::Stops, Fact::Idle])?;
    let mut forked = BTreeSet::new();
    for_each(log, |_, record| -> Result<(), LogError> {
        let by_task = !tasks_only || record.task().is_workload();
        if record.kind == Kind::Fork as u8 && by_task {
            forked.insert(record.other());
        }
        Ok(())
    })?;
    Ok(forked)
}

/// What was written later than it happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shifts {
    /// How many events.
    pub events: u64,
    /// By how much at most.
    pub max_ns: u64,
}

/// When and where the last event was written, per task and CPU.
pub struct LastWritten {
    tasks: Vec<(u64, u32)>,
    cpus: Vec<u64>,
    /// What was written later so far.
    pub shifts: Shifts,
}

impl LastWritten {
    /// For so many tasks and CPUs.
    pub fn new(nr_tasks: usize, nr_cpus: usize) -> LastWritten {
        LastWritten { tasks: vec![(0, 0); nr_tasks], cpus: vec![0; nr_cpus], shifts: Shifts::default() }
    }

    /// When an event on `cpu` that changes the state of these tasks is written: not before the CPU's last
    /// event, and after each task's last event even if equal times are ordered by CPU.
    #[inline]
    pub fn written_ns(&mut self, time_ns: u64, cpu: u32, rows: [Option<u32>; 2]) -> u64 {
        let mut at = time_ns.max(self.cpus[cpu as usize]);
        for row in rows.into_iter().flatten() {
            let (last_ns, last_cpu) = self.tasks[row as usize];
            at = at.max(last_ns + u64::from(last_cpu > cpu));
        }
        for row in rows.into_iter().flatten() {
            self.tasks[row as usize] = (at, cpu);
        }
        self.cpus[cpu as usize] = at;
        if at > time_ns {
            self.shifts.events += 1;
            self.shifts.max_ns = self.shifts.max_ns.max(at - time_ns);
        }
        at
    }
}

/// The line of text for a note of the machine's, and the row besides its task whose order matters; `wakee` is
/// the row and number of the note's other task. `None` for other notes.
pub fn marker(record: &Record, wakee: Option<(u32, Pid)>) -> Option<(Marker, Option<u32>)> {
    match record.arg {
        note::EARLY => {
            wakee.map(|(row, pid)| (Marker::Early { wakee: pid, wakeup: record.value }, Some(row)))
        }
        note::AWAKE if record.value == note::NO_WAKEUP => Some((Marker::TimeHasCome, None)),
        note::AWAKE => Some((Marker::Awake { wakeup: record.value }, None)),
        note::YIELD => Some((Marker::Yield, None)),
        _ => None,
    }
}

/// What a forked task begins with, in the words of a workload's text, where that is not what its parent begins with.
pub fn birth_words(child: &LogTask, parent: &LogTask) -> Option<String> {
    let mut words = Vec::new();
    let SchedParams { policy, nice, rt_priority, deadline } = child.params;
    if child.params != parent.params {
        words.push(format!("policy={policy} nice={nice} prio={rt_priority}"));
        words.extend(deadline.map(|DeadlineParams { runtime, deadline, period }| {
            let [runtime, deadline, period] = [runtime, deadline, period].map(Span::as_ns);
            format!("runtime={runtime}ns deadline={deadline}ns period={period}ns")
        }));
    }
    words.extend(
        child
            .affinity
            .as_ref()
            .filter(|_| child.affinity != parent.affinity)
            .map(|set| format!("affinity={set}")),
    );
    (!words.is_empty()).then(|| words.join(" "))
}

/// Thread ids of the tasks, then of the kernel's threads: as in the log where that is possible (not 0, which
/// is idle; below 2^31; not twice; 2 only for kthreadd, the kernel threads' parent), else a fresh number.
pub fn thread_ids(header: &schedlab_log::LogHeader) -> Vec<u32> {
    let tasks = header.tasks.iter().map(|task| (task.pid, &task.name));
    let threads = header.kernel_threads.iter().map(|thread| (thread.pid, &thread.name));
    unique_tids(tasks.chain(threads).map(|(pid, name)| if pid == 2 && name != "kthreadd" { 0 } else { pid }))
}

/// The numbers wanted, but fresh ones for 0, for those from 2^31 on, and where one comes again.
pub fn unique_tids(wanted: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut used = std::collections::BTreeSet::from([0]);
    let mut tids: Vec<Option<u32>> =
        wanted.map(|pid| (pid < 1 << 31 && used.insert(pid)).then_some(pid)).collect();
    let mut fresh = 100_000;
    for tid in tids.iter_mut().filter(|tid| tid.is_none()) {
        while !used.insert(fresh) {
            fresh += 1;
        }
        *tid = Some(fresh);
    }
    tids.into_iter().flatten().collect()
}

/// The kernel's priority of these parameters: 120 + nice, 99 - real-time priority, -1 for deadline.
pub fn prio(policy: schedlab_units::SchedPolicy, nice: i32, rt_priority: u8) -> i32 {
    use schedlab_units::SchedPolicy;
    match policy {
        SchedPolicy::Fifo | SchedPolicy::RoundRobin => 99 - i32::from(rt_priority),
        SchedPolicy::Deadline => -1,
        SchedPolicy::Normal | SchedPolicy::Batch | SchedPolicy::Idle | SchedPolicy::Ext => 120 + nice,
    }
}
