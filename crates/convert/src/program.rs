//! A workload's program ran, its tasks with pids in a row, between two markers: what schedule did the kernel make of
//! it? Pids become task numbers, time starts at the marker, the state at that moment is written out as records at time
//! 0, and what came before or after is left out.
//!
//! ```text
//! trace:  ... wakeup_new 1000 | marker "start" | switch init -> 1000 ...  | marker "end"
//! log:                          0 new t0, 0 switch idle -> k1, switch k1 -> t0 ... up to the duration
//! ```

use schedlab_log::{KernelThread, Kind, PrevState, Record, note};
use schedlab_trace::{Context, Pid, SchedEvent, Syscall, TaskState, TraceEvent};
use schedlab_units::{CpuId, Span, TaskId};
use std::collections::BTreeMap;

/// Events are missing: the buffer of this CPU was full. A program's run is known in full or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace lost events on {cpu}")]
pub struct EventsLost {
    /// Whose buffer.
    pub cpu: CpuId,
}

/// What [`ProgramLog::finish`] gives.
pub struct ProgramRun {
    /// The records, in order.
    pub records: Vec<Record>,
    /// Length of the log.
    pub duration_ns: u64,
    /// Time 0, by the trace's clock.
    pub start_ns: u64,
    /// Tasks that are not the workload's.
    pub kernel_threads: Vec<KernelThread>,
}

/// Where a task is before time 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Early {
    Absent,
    Runnable(CpuId),
    Blocked,
}

/// Takes in the events of a trace, in order of time.
pub struct ProgramLog {
    nr_tasks: u32,
    first_pid: u32,
    /// The trace has no sched_wakeup: a task is runnable from its sched_waking on.
    wakes_by_waking: bool,
    wanted: Span,
    records: Vec<Record>,
    markers: u32,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
    early: Vec<Early>,
    /// Who runs on each CPU.
    current: BTreeMap<CpuId, Pid>,
    names: BTreeMap<i32, String>,
    /// Tasks that have called sched_yield and not been switched out since.
    yielding: Vec<bool>,
    /// Tasks that have called execve, and neither been moved by it nor begun the new program: the record that says so.
    executing: BTreeMap<TaskId, usize>,
}

impl ProgramLog {
    /// For a workload with so many tasks, the first with this pid, that was to run for so long.
    pub fn new(nr_tasks: u32, first_pid: u32, wanted: Span) -> ProgramLog {
        ProgramLog {
            nr_tasks,
            first_pid,
            wakes_by_waking: false,
            wanted,
            records: Vec::new(),
            markers: 0,
            start_ns: None,
            end_ns: None,
            early: vec![Early::Absent; nr_tasks as usize],
            current: BTreeMap::new(),
            names: BTreeMap::new(),
            yielding: vec![false; nr_tasks as usize],
            executing: BTreeMap::new(),
        }
    }

    /// Of a trace without markers and without `sched_wakeup`: a task is runnable from its `sched_waking` on.
    pub fn without_markers(mut self) -> ProgramLog {
        self.markers = 1;
        self.wakes_by_waking = true;
        self
    }

    /// Time 0 by the trace's clock, once it is known.
    pub fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }

    /// The end by the trace's clock, once it is known.
    pub fn end_ns(&self) -> Option<u64> {
        self.end_ns
    }

    /// The log up to the end of the run; `None`: start or end are missing.
    pub fn finish(mut self) -> Option<ProgramRun> {
        let (start_ns, duration_ns) = (self.start_ns?, self.duration_ns()?);
        self.records.retain(|record| record.time_ns <= duration_ns);
        let kernel_threads = self.kernel_threads();
        Some(ProgramRun { records: self.records, duration_ns, start_ns, kernel_threads })
    }

    fn id(&self, pid: Pid) -> TaskId {
        let number = pid.0 as u32;
        match number.checked_sub(self.first_pid) {
            _ if pid == Pid::IDLE => TaskId::IDLE,
            Some(index) if index < self.nr_tasks => TaskId(index),
            _ => TaskId::kernel_thread(number),
        }
    }

    /// The name of a task.
    pub fn name(&mut self, pid: Pid, name: &str) {
        if pid != Pid::IDLE && !self.id(pid).is_workload() && self.names.get(&pid.0).is_none_or(|n| n != name)
        {
            self.names.insert(pid.0, name.to_string());
        }
    }

    fn kernel_threads(&self) -> Vec<KernelThread> {
        let mut seen: Vec<u32> = self
            .records
            .iter()
            .flat_map(|r| [r.task(), r.other()])
            .filter_map(|id| id.kernel_pid())
            .collect();
        seen.sort_unstable();
        seen.dedup();
        let name = |pid: &u32| self.names.get(&(*pid as i32)).cloned().unwrap_or_default();
        seen.iter().map(|pid| KernelThread { pid: *pid, name: name(pid) }).collect()
    }

    /// Time from the first marker to the end: the duration asked for, or the last thing that a task of the
    /// workload did.
    fn duration_ns(&self) -> Option<u64> {
        let span = self.end_ns? - self.start_ns?;
        if span >= self.wanted.as_ns() {
            return Some(self.wanted.as_ns());
        }
        let last = self.records.iter().rev().find(|record| record.task().is_workload());
        Some(last.map_or(span, |record| record.time_ns))
    }

    /// The markers are "ready", "start", "end".
    pub fn marker(&mut self, time_ns: u64) {
        self.markers += 1;
        if self.markers != 2 {
            self.end_ns = self.start_ns.map(|_| time_ns);
            return;
        }
        self.start_ns = Some(time_ns);
        for (index, early) in std::mem::take(&mut self.early).into_iter().enumerate() {
            if let Early::Runnable(cpu) = early {
                let task = TaskId(index as u32);
                self.push(0, Kind::New, cpu, task, TaskId::IDLE).arg = cpu.0;
            }
        }
        for (cpu, pid) in self.current.clone() {
            let next = self.id(pid);
            if !next.is_idle() {
                self.push(0, Kind::Switch, cpu, TaskId::IDLE, next);
            }
        }
    }

    fn push(&mut self, time_ns: u64, kind: Kind, cpu: CpuId, task: TaskId, other: TaskId) -> &mut Record {
        self.records.push(Record {
            time_ns,
            kind: kind as u8,
            flags: 0,
            cpu: cpu.0 as u16,
            task: task.0,
            other: other.0,
            arg: 0,
            value: 0,
        });
        let last = self.records.len() - 1;
        &mut self.records[last]
    }

    /// # Errors
    /// [`EventsLost`].
    pub fn event(&mut self, event: &TraceEvent) -> Result<(), EventsLost> {
        let Some(start_ns) = self.start_ns else {
            return self.before(event);
        };
        if self.end_ns.is_some() {
            return Ok(());
        }
        let time_ns = event.time_ns.saturating_sub(start_ns);
        let cpu = event.cpu;
        match event.what {
            SchedEvent::Switch { prev, prev_state, next } => {
                let task = self.id(prev.pid);
                let yielded = task.is_workload() && std::mem::take(&mut self.yielding[task.index()]);
                let state = prev_state_of(prev_state, yielded);
                self.push(time_ns, Kind::Switch, cpu, task, self.id(next.pid)).flags = state as u8;
            }
            SchedEvent::Waking(wake) => {
                let interrupt = event.context != Context::Task;
                self.push(time_ns, Kind::Waking, cpu, self.id(wake.pid), self.id(event.pid)).flags =
                    u8::from(interrupt);
                if self.wakes_by_waking {
                    self.push(time_ns, Kind::Wakeup, cpu, self.id(wake.pid), TaskId::IDLE).arg =
                        wake.target_cpu.0;
                }
            }
            SchedEvent::Wakeup(wake) => {
                self.push(time_ns, Kind::Wakeup, cpu, self.id(wake.pid), TaskId::IDLE).arg =
                    wake.target_cpu.0;
            }
            SchedEvent::WakeupNew(wake) => {
                self.push(time_ns, Kind::New, cpu, self.id(wake.pid), TaskId::IDLE).arg = wake.target_cpu.0;
            }
            SchedEvent::Migrate { pid, orig_cpu, dest_cpu, .. } => {
                if cpu == orig_cpu {
                    self.moved_by_exec(time_ns, self.id(pid));
                }
                self.push(time_ns, Kind::Migrate, cpu, self.id(pid), TaskId(dest_cpu.0)).arg = orig_cpu.0;
            }
            SchedEvent::Fork { parent, child, .. } => {
                self.push(time_ns, Kind::Fork, cpu, self.id(parent), self.id(child));
            }
            SchedEvent::Exit { pid, .. } => {
                self.push(time_ns, Kind::Exit, cpu, self.id(pid), TaskId::IDLE);
            }
            SchedEvent::SysEnter(Syscall::SchedYield) => {
                let task = self.id(event.pid);
                if task.is_workload() {
                    self.yielding[task.index()] = true;
                }
            }
            SchedEvent::SysEnter(Syscall::Execve) => {
                let task = self.id(event.pid);
                if task.is_workload() {
                    self.executing.insert(task, self.records.len());
                    self.push(time_ns, Kind::Note, cpu, task, TaskId::IDLE).arg = note::EXEC;
                }
            }
            SchedEvent::Exec { pid, .. } => {
                self.executing.remove(&self.id(pid));
            }
            SchedEvent::Lost { .. } => return Err(EventsLost { cpu }),
            _ => {}
        }
        Ok(())
    }

    /// A thread of its own CPU moves a task that has called execve and has not begun the new program: the note stands
    /// at the instant of the move then, as in the machine's logs.
    fn moved_by_exec(&mut self, time_ns: u64, task: TaskId) {
        let Some(at) = self.executing.remove(&task) else { return };
        let called = self.records.remove(at);
        self.records.push(Record { time_ns, ..called });
        self.executing.values_mut().filter(|other| **other > at).for_each(|other| *other -= 1);
    }

    /// Keeps track of who is where until time 0.
    fn before(&mut self, event: &TraceEvent) -> Result<(), EventsLost> {
        let (first_pid, nr_tasks) = (self.first_pid, self.nr_tasks);
        let mut set = |pid: Pid, early: Early| {
            let task = match (pid.0 as u32).checked_sub(first_pid) {
                Some(index) if index < nr_tasks => index as usize,
                _ => return,
            };
            self.early[task] = early;
        };
        match event.what {
            SchedEvent::Switch { prev, prev_state, next } => {
                if !prev_state.is_runnable() {
                    set(prev.pid, Early::Blocked);
                }
                self.current.insert(event.cpu, next.pid);
            }
            SchedEvent::Wakeup(wake) | SchedEvent::WakeupNew(wake) | SchedEvent::Waking(wake)
                if self.wakes_by_waking || !matches!(event.what, SchedEvent::Waking(_)) =>
            {
                set(wake.pid, Early::Runnable(wake.target_cpu));
            }
            SchedEvent::Migrate { pid, dest_cpu, .. } => {
                let index = (pid.0 as u32).wrapping_sub(self.first_pid) as usize;
                if let Some(Early::Runnable(cpu)) = self.early.get_mut(index) {
                    *cpu = dest_cpu;
                }
            }
            SchedEvent::Lost { .. } => return Err(EventsLost { cpu: event.cpu }),
            _ => {}
        }
        Ok(())
    }
}

fn prev_state_of(state: TaskState, yielded: bool) -> PrevState {
    match state {
        TaskState::Running | TaskState::RunningPreempted if yielded => PrevState::Yielded,
        TaskState::Running | TaskState::RunningPreempted => PrevState::Preempted,
        TaskState::Uninterruptible | TaskState::Idle => PrevState::Disk,
        TaskState::Dead | TaskState::Zombie => PrevState::Dead,
        _ => PrevState::Sleeping,
    }
}

/// On each CPU all tasks but the workload's become one, which is always ready to run: where they come from
/// and go to, on CPUs that are not part of the log, does not matter.
pub fn without_strangers(records: Vec<Record>) -> Vec<Record> {
    let mut kept = Vec::with_capacity(records.len());
    for mut record in records {
        let one = |id: TaskId| match id.kernel_pid() {
            Some(_) => TaskId::kernel_thread(u32::from(record.cpu) + 1),
            None => id,
        };
        match record.kind() {
            Some(Kind::Switch) => {
                (record.task, record.other) = (one(record.task()).0, one(record.other()).0);
                if record.task == record.other {
                    continue;
                }
                if record.task().kernel_pid().is_some() {
                    record.flags = PrevState::Preempted as u8;
                }
            }
            _ if !record.task().is_workload() => continue,
            Some(Kind::Waking) => record.other = one(record.other()).0,
            Some(Kind::Fork) if !record.other().is_workload() => continue,
            _ => {}
        }
        kept.push(record);
    }
    kept
}

/// How long before the switch-out a wakeup may come that ends the block, of runs whose wakeups are all there.
const EARLY_WAKE_NS: u64 = 50_000;

/// A CPU can wake a task that another one is just switching out: the trace has the wakeup up to 50 us before the switch
/// that it ends. Such a wakeup goes behind that switch, as in a recording that is reported.
pub fn with_wakeups_behind_switches(records: Vec<Record>) -> Vec<Record> {
    let mut woken: BTreeMap<TaskId, Vec<usize>> = BTreeMap::new();
    let mut ordered: Vec<Option<Record>> = Vec::with_capacity(records.len());
    for record in records {
        let is_wakeup = matches!(record.kind(), Some(Kind::Waking | Kind::Wakeup));
        if is_wakeup {
            woken.entry(record.task()).or_default().push(ordered.len());
        }
        ordered.push(Some(record));
        if record.kind() == Some(Kind::Switch) {
            let early = woken.remove(&record.task()).unwrap_or_default();
            woken.remove(&record.other());
            let blocks =
                [PrevState::Sleeping, PrevState::Disk].map(|state| state as u8).contains(&record.flags);
            let is_early = |at: &usize| {
                ordered[*at].is_some_and(|wakeup| wakeup.time_ns + EARLY_WAKE_NS >= record.time_ns)
            };
            for at in early.into_iter().filter(|at| blocks && is_early(at)).collect::<Vec<usize>>() {
                let moved = ordered[at].take().map(|wakeup| Record { time_ns: record.time_ns, ..wakeup });
                ordered.push(moved);
            }
        }
    }
    ordered.into_iter().flatten().collect()
}

/// On some hosts threads hide from tracing: a switch from one of them to a task of ours is missing, and the
/// task stops without having begun. It began at the CPU's last switch, or when it was woken if that was
/// later. How many were put in.
pub fn with_hidden_switches(records: Vec<Record>) -> (Vec<Record>, u64) {
    let mut on_cpu: BTreeMap<u16, (TaskId, u64)> = BTreeMap::new();
    let mut ready_ns: BTreeMap<TaskId, u64> = BTreeMap::new();
    let mut whole = Vec::with_capacity(records.len());
    let mut hidden = 0;
    for record in records {
        match record.kind() {
            Some(Kind::Wakeup | Kind::New) => {
                ready_ns.insert(record.task(), record.time_ns);
            }
            Some(Kind::Switch) => {
                let (was, since_ns) = on_cpu.get(&record.cpu).copied().unwrap_or((TaskId::IDLE, 0));
                if was != record.task() {
                    hidden += 1;
                    let from_ns = ready_ns.get(&record.task()).copied().unwrap_or(0).max(since_ns);
                    whole.push(Record {
                        time_ns: from_ns.min(record.time_ns),
                        flags: PrevState::Preempted as u8,
                        task: was.0,
                        other: record.task,
                        ..record
                    });
                }
                if record.task().is_workload() {
                    ready_ns.insert(record.task(), record.time_ns);
                }
                on_cpu.insert(record.cpu, (record.other(), record.time_ns));
            }
            _ => {}
        }
        whole.push(record);
    }
    whole.sort_by_key(|record| record.time_ns); // stable: at one instant as before
    (whole, hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    // us    0    10   12   20
    // cpu0  t0t0t0t0..          woken by CPU 1 at 10, while it is switched out until 12
    #[test]
    fn a_wakeup_of_a_task_that_is_being_switched_out_comes_behind_it() {
        let record = |us: u64, cpu: u16, kind: Kind, flags: PrevState| Record {
            time_ns: us * 1000,
            cpu,
            kind: kind as u8,
            flags: if kind == Kind::Switch { flags as u8 } else { 0 },
            task: 0,
            other: TaskId::IDLE.0,
            ..Record::default()
        };
        let wakeup = record(10, 1, Kind::Wakeup, PrevState::Preempted);
        let blocks = record(12, 0, Kind::Switch, PrevState::Disk);
        let behind = Record { time_ns: 12_000, ..wakeup };
        assert_eq!(with_wakeups_behind_switches(vec![wakeup, blocks]), [blocks, behind]);
        // it was preempted, or it was woken long before: nothing is turned round
        let preempted = record(12, 0, Kind::Switch, PrevState::Preempted);
        assert_eq!(with_wakeups_behind_switches(vec![wakeup, preempted]), [wakeup, preempted]);
        let late = record(100, 0, Kind::Switch, PrevState::Disk);
        assert_eq!(with_wakeups_behind_switches(vec![wakeup, late]), [wakeup, late]);
    }

    // us    0    10   20   30   40      t0 calls execve at 10, is moved for it at 20 and begins at 30; t1 calls at 25,
    // cpu0  t0t0t0t0|t1t1t1t1t1..       is left where it is, and begins at 40; the move at 50 is a balancer's
    // cpu1           t0t0t0t0
    #[test]
    fn the_note_of_an_exec_stands_at_its_move_or_at_the_call() {
        let mut log = ProgramLog::new(2, 100, Span::from_us(60));
        log.marker(0);
        log.marker(0);
        let mut event = |us: u64, cpu: u32, pid: i32, what: SchedEvent| {
            let event = TraceEvent {
                time_ns: us * 1000,
                cpu: CpuId(cpu),
                pid: Pid(pid),
                context: Context::Task,
                preempt_count: 0,
                what,
            };
            log.event(&event).unwrap();
        };
        let moved = |pid: i32| SchedEvent::Migrate {
            pid: Pid(pid),
            prio: 120,
            orig_cpu: CpuId(0),
            dest_cpu: CpuId(1),
        };
        let begun = |pid: i32| SchedEvent::Exec { pid: Pid(pid), old_pid: Pid(pid) };
        event(10, 0, 100, SchedEvent::SysEnter(Syscall::Execve));
        event(15, 0, 7, SchedEvent::SysEnter(Syscall::Execve)); // not the workload's
        event(20, 0, 21, moved(100));
        event(25, 0, 101, SchedEvent::SysEnter(Syscall::Execve));
        event(30, 1, 100, begun(100));
        event(40, 0, 101, begun(101));
        event(50, 0, 21, moved(101));
        log.marker(60_000);
        let records = log.finish().unwrap().records;
        let said: Vec<_> =
            records.iter().map(|r| (r.time_ns / 1000, r.task, r.kind().unwrap(), r.arg)).collect();
        let expected = [
            (20, 0, Kind::Note, note::EXEC),
            (20, 0, Kind::Migrate, 0),
            (25, 1, Kind::Note, note::EXEC),
            (50, 1, Kind::Migrate, 0),
        ];
        assert_eq!(said, expected);
    }

    // us    0    10   20   30
    // cpu0  k1k1k1....t0t0k1      the switch k1 -> t0 is hidden; t0 was woken at 20
    #[test]
    fn a_hidden_switch_is_put_in_when_the_task_was_woken() {
        let (k1, t0) = (TaskId::kernel_thread(1), TaskId(0));
        let record = |us: u64, kind: Kind, task: TaskId, other: TaskId| Record {
            time_ns: us * 1000,
            kind: kind as u8,
            task: task.0,
            other: other.0,
            ..Record::default()
        };
        let records = vec![
            record(0, Kind::Switch, TaskId::IDLE, k1),
            record(20, Kind::Wakeup, t0, TaskId::IDLE),
            record(30, Kind::Switch, t0, k1),
        ];
        let (whole, hidden) = with_hidden_switches(records.clone());
        assert_eq!((hidden, whole.len()), (1, 4));
        assert_eq!((whole[2].time_ns, whole[2].task(), whole[2].other()), (20_000, k1, t0));
        // nothing hidden: nothing put in
        let mut seen = records;
        seen.insert(2, record(20, Kind::Switch, k1, t0));
        assert_eq!(with_hidden_switches(seen.clone()), (seen, 0));
    }
}
