//! How does the kernel's trace become a schedule log? Pids become task numbers, time starts at the marker, the state at that
//! moment is written out as records at time 0, and what came before or after is left out.
//!
//! ```text
//! trace:  ... wakeup_new 1000 | marker "start" | switch init -> 1000 ...  | marker "end"
//! log:                          0 new t0, 0 switch idle -> k1, switch k1 -> t0 ... up to the duration
//! ```

use crate::frames::Frames;
use crate::program::FIRST_PID;
use crate::{GuestError, Options, Schedstat};
use schedlab_log::{KernelThread, Kind, PrevState, Record};
use schedlab_trace::write::{EventSystem, TraceDatWriter, TraceMeta, WriteOptions};
use schedlab_trace::{Context, Event, Mode, Pid, SchedEvent, Syscall, TaskState, TraceFile};
use schedlab_units::{CpuId, Span, TaskId};
use schedlab_workload::Workload;
use std::collections::BTreeMap;

/// A guest's output in our terms.
pub(crate) struct Converted {
    pub records: Vec<Record>,
    pub duration_ns: u64,
    pub start_ns: u64,
    pub kernel_threads: Vec<KernelThread>,
    pub schedstat: Vec<Option<Schedstat>>,
    /// What was left out or made up: reason -> how often.
    pub dropped: BTreeMap<String, u64>,
    pub kernel: String,
    pub instructions: Vec<u64>,
}

pub(crate) fn convert(
    frames: &Frames<'_>,
    workload: &Workload,
    options: &Options,
) -> Result<Converted, GuestError> {
    let directory = match options.keep_trace.as_deref().and_then(|path| path.parent()) {
        Some(directory) if !directory.as_os_str().is_empty() => directory.to_path_buf(),
        Some(_) => ".".into(),
        None => std::env::temp_dir(),
    };
    let work = tempfile::tempdir_in(&directory).map_err(GuestError::io("make a directory in", &directory))?;
    let path = work.path().join("trace.dat");
    write_trace(frames, options, &path)?;
    let trace = TraceFile::open(&path, Mode::Strict)?;
    let marker = print_id(&frames.text("events/ftrace/print/format")?)?;
    let mut log = LogBuilder::new(workload.tasks.len() as u32, FIRST_PID, options.duration);
    let mut events = trace.events()?;
    while let Some(event) = events.next_event()? {
        if let SchedEvent::Switch { prev, next, .. } = event.what {
            log.name(prev.pid, events.comm(prev.comm));
            log.name(next.pid, events.comm(next.comm));
        }
        if matches!(event.what, SchedEvent::Other { id } if id == marker) {
            log.marker(event.time_ns);
        } else {
            log.event(&event)?;
        }
    }
    drop(events);
    if let Some(keep) = &options.keep_trace {
        std::fs::rename(&path, keep).map_err(GuestError::io("rename the trace to", keep))?;
    }
    let (Some(start_ns), Some(duration_ns)) = (log.start_ns, log.duration_ns()) else {
        return Err(GuestError::Output { offset: 0, what: "the trace has not both markers".to_string() });
    };
    log.records.retain(|record| record.time_ns <= duration_ns);
    Ok(Converted {
        duration_ns,
        start_ns,
        kernel_threads: log.kernel_threads(),
        records: log.records,
        schedstat: schedstats(&frames.text("schedstat")?, workload.tasks.len()),
        dropped: refused(frames, "the guest's kernel")?,
        kernel: frames.text("/proc/version")?.trim().to_string(),
        instructions: frames
            .file("instructions")?
            .chunks_exact(8)
            .map(|bytes| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
            .collect(),
    })
}

/// The same of this machine's own trace, whose clock is CLOCK_MONOTONIC: time 0 is known from the program that ran.
pub(crate) fn convert_host(
    trace: &std::path::Path,
    frames: &Frames<'_>,
    first_pid: u32,
    workload: &Workload,
    options: &Options,
) -> Result<Converted, GuestError> {
    let start_ns = frames
        .file("start")?
        .first_chunk::<8>()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .ok_or_else(|| GuestError::Output { offset: 0, what: "the start is no number".to_string() })?;
    let end_ns = start_ns + options.duration.as_ns();
    let trace = TraceFile::open(trace, Mode::Strict)?;
    let mut log = LogBuilder::new(workload.tasks.len() as u32, first_pid, options.duration);
    log.markers = 1;
    log.wakes_by_waking = true;
    let mut events = trace.events()?;
    while let Some(event) = events.next_event()? {
        if event.cpu.0 >= options.cpus {
            continue; // the workload's tasks keep to the first CPUs
        }
        if let SchedEvent::Switch { prev, next, .. } = event.what {
            log.name(prev.pid, events.comm(prev.comm));
            log.name(next.pid, events.comm(next.comm));
        }
        if log.start_ns.is_none() && event.time_ns >= start_ns {
            log.marker(start_ns);
        }
        if log.end_ns.is_none() && event.time_ns > end_ns {
            log.marker(end_ns);
        }
        log.event(&event)?;
    }
    drop(events);
    let (Some(_), Some(duration_ns)) = (log.start_ns, log.duration_ns()) else {
        return Err(GuestError::Output { offset: 0, what: "the trace ends before the workload".to_string() });
    };
    log.records.retain(|record| record.time_ns <= duration_ns);
    let (records, hidden) = with_hidden_switches(without_strangers(log.records));
    let mut dropped = refused(frames, "this machine's kernel")?;
    if hidden > 0 {
        dropped
            .insert("switches that this machine hides from tracing, put in by inference".to_string(), hidden);
    }
    let others = (0..options.cpus).map(|cpu| KernelThread { pid: cpu + 1, name: format!("others/{cpu}") });
    Ok(Converted {
        duration_ns,
        start_ns,
        kernel_threads: others.collect(),
        records,
        schedstat: schedstats(&frames.text("schedstat")?, workload.tasks.len()),
        dropped,
        kernel: frames.text("/proc/version")?.trim().to_string(),
        instructions: Vec::new(),
    })
}

/// On each CPU all tasks but the workload's become one, which is always ready to run: where they come from and go to, on CPUs
/// that are not part of the log, does not matter.
fn without_strangers(records: Vec<Record>) -> Vec<Record> {
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

/// On some hosts threads hide from tracing: a switch from one of them to a task of ours is missing, and the task stops without having
/// begun. It began at the CPU's last switch, or when it was woken if that was later. How many were put in.
fn with_hidden_switches(records: Vec<Record>) -> (Vec<Record>, u64) {
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

fn write_trace(frames: &Frames<'_>, options: &Options, path: &std::path::Path) -> Result<(), GuestError> {
    let mut writer = TraceDatWriter::create(path, WriteOptions::default())?;
    for (cpu, pages) in &frames.pages {
        for page in pages {
            writer.append_pages(*cpu, page)?;
        }
    }
    let mut systems: BTreeMap<String, EventSystem> = BTreeMap::new();
    for (name, format) in &frames.files {
        let Some(event) = name.strip_prefix("events/").and_then(|name| name.strip_suffix("/format")) else {
            continue;
        };
        let system = event.split('/').next().unwrap_or_default().to_string();
        if system != "ftrace" {
            let row = systems.entry(system.clone()).or_default();
            row.name = system;
            row.formats.push(format.clone());
        }
    }
    let clocks = frames.text("trace_clock")?;
    let clock = clocks.split(['[', ']']).nth(1).unwrap_or("local").to_string();
    let stats = (0..options.cpus).map(|cpu| frames.text(&format!("per_cpu/cpu{cpu}/stats")));
    let meta = TraceMeta {
        header_page: frames.file("events/header_page")?.to_vec(),
        header_event: frames.file("events/header_event")?.to_vec(),
        ftrace_events: vec![frames.file("events/ftrace/print/format")?.to_vec()],
        systems: systems.into_values().collect(),
        saved_cmdlines: frames.file("saved_cmdlines")?.to_vec(),
        cpus: options.cpus,
        clock,
        uname: Some(frames.text("/proc/version")?.trim().to_string()),
        tool: Some(format!("schedlab guest {}", env!("CARGO_PKG_VERSION"))),
        cpu_stats: stats.collect::<Result<_, _>>()?,
        ..TraceMeta::default()
    };
    writer.finish(&meta)?;
    Ok(())
}

/// The number of `ftrace:print`, which trace_marker writes.
fn print_id(format: &str) -> Result<u16, GuestError> {
    format.lines().find_map(|line| line.strip_prefix("ID: ")?.trim().parse().ok()).ok_or_else(|| {
        GuestError::Output { offset: 0, what: "the format of ftrace/print has no ID".to_string() }
    })
}

fn schedstats(text: &str, nr_tasks: usize) -> Vec<Option<Schedstat>> {
    let row = |line: &str| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().ok());
        Some(Schedstat { cpu_ns: numbers.next()??, run_delay_ns: numbers.next()??, slices: numbers.next()?? })
    };
    let mut rows: Vec<_> = text.lines().map(row).collect();
    rows.resize(nr_tasks, None);
    rows
}

/// What stands in every reason that tells of a refusal.
pub(crate) const REFUSED: &str = "kernel refused";

/// What the kernel refused to tasks, by operation and error; each contains [`REFUSED`].
fn refused(frames: &Frames<'_>, whose: &str) -> Result<BTreeMap<String, u64>, GuestError> {
    let mut counts = BTreeMap::new();
    let mut listed = 0;
    for row in frames.file("refused")?.chunks_exact(16) {
        let word = |i: usize| u32::from_le_bytes([row[i], row[i + 1], row[i + 2], row[i + 3]]);
        let operations = if word(4) == 5 { "forks" } else { "changes of parameters" };
        let error = std::io::Error::from_raw_os_error(word(8) as i32);
        *counts.entry(format!("{operations} that {whose} refused: {error}")).or_default() += 1;
        listed += 1;
    }
    if frames.nr_refused > listed {
        let rest = u64::from(frames.nr_refused - listed);
        counts.insert(format!("further operations that {whose} refused"), rest);
    }
    Ok(counts)
}

/// Where a task is before time 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Early {
    Absent,
    Runnable(CpuId),
    Blocked,
}

struct LogBuilder {
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
}

impl LogBuilder {
    fn new(nr_tasks: u32, first_pid: u32, wanted: Span) -> LogBuilder {
        LogBuilder {
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
        }
    }

    fn id(&self, pid: Pid) -> TaskId {
        let number = pid.0 as u32;
        match number.checked_sub(self.first_pid) {
            _ if pid == Pid::IDLE => TaskId::IDLE,
            Some(index) if index < self.nr_tasks => TaskId(index),
            _ => TaskId::kernel_thread(number),
        }
    }

    fn name(&mut self, pid: Pid, name: &str) {
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

    /// Time from the first marker to the end: the duration asked for, or the last thing that a task of the workload did.
    fn duration_ns(&self) -> Option<u64> {
        let span = self.end_ns? - self.start_ns?;
        if span >= self.wanted.as_ns() {
            return Some(self.wanted.as_ns());
        }
        let last = self.records.iter().rev().find(|record| record.task().is_workload());
        Some(last.map_or(span, |record| record.time_ns))
    }

    /// The markers are "ready", "start", "end".
    fn marker(&mut self, time_ns: u64) {
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

    fn event(&mut self, event: &Event) -> Result<(), GuestError> {
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
            SchedEvent::Lost { .. } => return Err(GuestError::Lost { cpu }),
            _ => {}
        }
        Ok(())
    }

    /// Keeps track of who is where until time 0.
    fn before(&mut self, event: &Event) -> Result<(), GuestError> {
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
            SchedEvent::Lost { .. } => return Err(GuestError::Lost { cpu: event.cpu }),
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

#[cfg(test)]
mod tests {
    use super::*;

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
