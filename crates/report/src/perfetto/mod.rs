//! How does ui.perfetto.dev show a run with its own scheduling tracks, thread states and wakeup arrows? As a
//! trace of ftrace events: `sched_switch`, `sched_waking`, `sched_wakeup_new`, `task_newtask` and
//! `sched_process_fork`, `sched_process_exit` and `_free`, in one bundle per CPU. (`schedlab import` reads it
//! again, as any Perfetto trace.)
//!
//! What differs from a trace of a real system:
//!
//! * Every task is a process of its own (the log does not know threads of one process); the kernel's own
//!   threads are kernel threads.
//! * Where Perfetto's order of equal times (by CPU number) would turn the order of two events around, the
//!   later one is written 1 ns later (`order.rs`); [`PerfettoStats`] counts such events. The log itself is
//!   not touched.
//! * A task that is there from the start is woken at 0: nothing else tells Perfetto that it is runnable.
//! * Yields and changes of parameters are the system calls that would have made them (`sys_enter`,
//!   `sys_exit`); what changes nothing in the schedule, and who is runnable from the start, is a line of text
//!   (`print`, [`Marker`]).
//! * Kernel version 6.12 is stated, so that the states are read as written: R+ preempted, R yielded, S, D, X exited.

mod proto;

use crate::jobs::DeadlineMark;
use proto::{bytes, field, message, number, varint};
use schedlab_convert::{LastWritten, RecordedCall, birth_words, calls_for, forked, marker, prio, thread_ids};
use schedlab_log::{Kind, Log, LogError, LogHeader, PrevState, Record, SetWords, for_each, note};
use schedlab_stdx::aside;
use schedlab_trace::{Marker, Pid, settings_line};
use schedlab_units::{SchedPolicy, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfettoStats {
    /// Ftrace events.
    pub events: u64,
    /// Events written later than they happened, to keep their order.
    pub shifted_events: u64,
    /// By how much at most.
    pub shift_max_ns: u64,
}

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfettoOptions<'a> {
    /// Leave out the simulated kernel's own threads: their time, which is none, is shown as idle.
    pub tasks_only: bool,
    /// Deadlines, in order of time: an instant on the track of the task's process each.
    pub marks: &'a [DeadlineMark],
}

/// Writes the log as a Perfetto trace; the file appears when it is complete.
///
/// # Errors
/// [`LogError`]: it cannot be read or written, or its observer could not see what every CPU did.
pub fn perfetto(path: &Path, log: &dyn Log, options: PerfettoOptions<'_>) -> Result<PerfettoStats, LogError> {
    aside::with(path, LogError::io("write", path), |out| write_perfetto(log, options, out, path))
}

/// Writes the log as a Perfetto trace; `name` stands for the output in errors.
pub fn write_perfetto(
    log: &dyn Log,
    options: PerfettoOptions<'_>,
    out: &mut dyn Write,
    name: &Path,
) -> Result<PerfettoStats, LogError> {
    let forked = forked(log, options.tasks_only)?;
    let mut writer = Writer::new(log.header(), options, forked, out, name);
    writer.preamble(log.header())?;
    let mut marks = options.marks.iter().peekable();
    for_each(log, |_, record| {
        while let Some(mark) = marks.next_if(|mark| mark.at_ns <= record.time_ns) {
            writer.mark(mark);
        }
        writer.record(record)
    })?;
    marks.for_each(|mark| writer.mark(mark));
    writer.finish(log.header())
}

/// Bytes of events gathered before they are written as one bundle per CPU.
const CHUNK: usize = 1 << 20;
/// TRACE_FLAG_HARDIRQ (include/linux/trace_events.h).
const HARDIRQ: u64 = 0x08;

/// A task in a form that is ready to be copied.
struct Task {
    tid: u32,
    /// `prev_comm` and `prev_pid` of a switch; also `comm` and `pid` of other events.
    as_prev: Vec<u8>,
    /// `next_comm` and `next_pid` of a switch.
    as_next: Vec<u8>,
    /// The kernel's priority: 120 + nice, 99 - real-time priority, -1.
    prio: i32,
    /// A `waking` record has been written, its `wakeup` is to come.
    waking: bool,
    forked: bool,
    /// Policy, nice value, real-time priority.
    params: (u8, i8, u8),
    /// What it begins with, if it is forked and its parent has other settings at its start.
    born: Option<String>,
    /// Created, and has not run yet: what its creator sets of it is how it begins.
    is_new: bool,
    /// It is in `sched_yield`.
    yields: bool,
}

impl Task {
    fn new(tid: u32, comm: &str, prio: i32, params: (u8, i8, u8)) -> Task {
        let encode = |comm_field, pid_field| {
            let mut out = Vec::new();
            bytes(&mut out, comm_field, comm.as_bytes());
            number(&mut out, pid_field, tid.into());
            out
        };
        let (as_prev, as_next) = (encode(1, 2), encode(5, 6));
        let (waking, forked, is_new, yields) = (false, false, false, false);
        Task { tid, as_prev, as_next, prio, waking, forked, params, born: None, is_new, yields }
    }
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    name: &'a Path,
    tasks_only: bool,
    /// Workload tasks, then kernel threads.
    tasks: Vec<Task>,
    nr_tasks: u32,
    kernel_rows: BTreeMap<u32, u32>,
    /// Per CPU: its idle task, its events so far.
    cpus: Vec<(Task, Vec<u8>)>,
    /// Per CPU: the row of the task that the trace shows there.
    current: Vec<Option<u32>>,
    order: LastWritten,
    words: SetWords,
    buffered: usize,
    scratch: (Vec<u8>, Vec<u8>),
    stats: PerfettoStats,
}

impl<'a> Writer<'a> {
    fn new(
        header: &LogHeader,
        options: PerfettoOptions<'_>,
        forked: BTreeSet<TaskId>,
        out: &'a mut dyn Write,
        name: &'a Path,
    ) -> Writer<'a> {
        let tids = thread_ids(header);
        let params = |row: usize| header.tasks[row].params;
        let mut tasks: Vec<Task> = header
            .tasks
            .iter()
            .enumerate()
            .map(|(row, task)| {
                let p = params(row);
                let nice = p.nice.get();
                let stated = (p.policy.number(), nice as i8, p.rt_priority);
                Task::new(tids[row], &task.name, prio(p.policy, nice, p.rt_priority), stated)
            })
            .collect();
        forked.iter().filter(|id| id.is_workload()).for_each(|id| {
            if let Some(task) = tasks.get_mut(id.index()) {
                let entry = &header.tasks[id.index()];
                let parent = entry.parent.and_then(|parent| header.tasks.get(parent.index()));
                task.forked = true;
                task.born = parent.and_then(|parent| birth_words(entry, parent));
            }
        });
        let nr_tasks = tasks.len() as u32;
        let mut kernel_rows = BTreeMap::new();
        for (thread, tid) in header.kernel_threads.iter().zip(&tids[tasks.len()..]) {
            kernel_rows.insert(thread.pid, tasks.len() as u32);
            tasks.push(Task::new(*tid, &thread.name, 120, (0, 0, 0)));
        }
        let cpus = (0..header.nr_cpus)
            .map(|cpu| (Task::new(0, &format!("swapper/{cpu}"), 120, (0, 0, 0)), Vec::new()));
        let order = LastWritten::new(tasks.len(), header.nr_cpus as usize);
        Writer {
            out,
            name,
            tasks_only: options.tasks_only,
            tasks,
            nr_tasks,
            kernel_rows,
            cpus: cpus.collect(),
            current: vec![None; header.nr_cpus as usize],
            order,
            words: SetWords::default(),
            buffered: 0,
            scratch: Default::default(),
            stats: PerfettoStats::default(),
        }
    }

    fn packet(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), LogError> {
        let mut trace = Vec::new();
        message(&mut trace, field::TRACE_PACKET, |packet| {
            fill(packet);
            number(packet, field::TRUSTED_PACKET_SEQUENCE_ID, 1);
        });
        self.out.write_all(&trace).map_err(|source| self.io(source))
    }

    fn io(&self, source: std::io::Error) -> LogError {
        LogError::Io { doing: "write", path: self.name.to_path_buf(), source }
    }

    /// The system, and the tasks that are there before the first fork.
    fn preamble(&mut self, header: &LogHeader) -> Result<(), LogError> {
        self.packet(|packet| {
            message(packet, field::SYSTEM_INFO, |info| {
                message(info, 1, |utsname| {
                    let version = format!("schedlab, simulated: {} {}", header.sched, header.sched_version);
                    bytes(utsname, 1, b"Linux");
                    bytes(utsname, 2, version.as_bytes());
                    bytes(utsname, 3, b"6.12.0");
                });
                number(info, 3, header.hz.into());
                number(info, 8, header.nr_cpus.into());
            });
        })?;
        let mut tree = Vec::new();
        let mut process = |tid: u32, parent: u32, name: &str, is_kthread: bool| {
            message(&mut tree, 1, |process| {
                number(process, 1, tid.into());
                number(process, 2, parent.into());
                bytes(process, 3, name.as_bytes());
                number(process, 8, is_kthread.into());
                number(process, 9, 1); // cmdline_is_comm
            });
        };
        for (task, entry) in self.tasks.iter().zip(&header.tasks).filter(|(task, _)| !task.forked) {
            let parent = entry
                .parent
                .and_then(|parent| self.tasks.get(parent.0 as usize))
                .map_or(0, |parent| parent.tid);
            process(task.tid, parent, &entry.name, false);
        }
        let threads = if self.tasks_only { &[][..] } else { &header.kernel_threads[..] };
        for (task, thread) in self.tasks[self.nr_tasks as usize..].iter().zip(threads) {
            process(task.tid, 2, &thread.name, true); // a child of kthreadd
        }
        self.packet(|packet| bytes(packet, field::PROCESS_TREE, &tree))
    }

    fn row(&self, id: TaskId) -> Option<u32> {
        match id.kernel_pid() {
            Some(_) if self.tasks_only => None,
            Some(pid) => self.kernel_rows.get(&pid).copied(),
            None => (id.0 < self.nr_tasks).then_some(id.0),
        }
    }

    fn tid(&self, row: Option<u32>) -> u32 {
        row.map_or(0, |row| self.tasks[row as usize].tid)
    }

    #[inline]
    fn written_ns(&mut self, time_ns: u64, cpu: u32, rows: [Option<u32>; 2]) -> u64 {
        self.order.written_ns(time_ns, cpu, rows)
    }

    /// The thread in whose context an event on this CPU is written.
    fn current_tid(&self, cpu: u32) -> u32 {
        self.tid(self.current[cpu as usize])
    }

    /// Adds an event to its CPU's bundle. The order of fields is the one that the reader is fastest with.
    #[inline]
    fn event(&mut self, cpu: u32, time_ns: u64, tid: u32, kind: u32, common_flags: u64) {
        let (content, event) = &mut self.scratch;
        event.clear();
        number(event, field::EVENT_TIMESTAMP, time_ns);
        number(event, field::EVENT_PID, tid.into());
        bytes(event, kind, content);
        number(event, field::EVENT_COMMON_FLAGS, common_flags);
        let bundle = &mut self.cpus[cpu as usize].1;
        let before = bundle.len();
        bytes(bundle, field::BUNDLE_EVENT, event);
        self.buffered += bundle.len() - before;
        self.stats.events += 1;
    }

    /// `comm`, `pid`, `prio` as most events have them.
    #[inline]
    fn content(&mut self, row: u32, prio_field: u32) -> &mut Vec<u8> {
        let task = &self.tasks[row as usize];
        let content = &mut self.scratch.0;
        content.clear();
        content.extend_from_slice(&task.as_prev);
        number(content, prio_field, i64::from(task.prio) as u64);
        content
    }

    /// A call of whoever is on the CPU.
    fn enter(&mut self, time_ns: u64, cpu: u32, call: RecordedCall, arguments: &[i64; 3]) {
        let at = self.written_ns(time_ns, cpu, [None, None]);
        let content = &mut self.scratch.0;
        content.clear();
        number(content, 1, call.number().into());
        arguments.iter().zip(call.arguments()).for_each(|(value, _)| number(content, 2, *value as u64));
        self.event(cpu, at, self.current_tid(cpu), field::SYS_ENTER, 0);
    }

    fn leave(&mut self, time_ns: u64, cpu: u32, call: RecordedCall) {
        let at = self.written_ns(time_ns, cpu, [None, None]);
        let content = &mut self.scratch.0;
        content.clear();
        number(content, 1, call.number().into());
        number(content, 2, 0);
        self.event(cpu, at, self.current_tid(cpu), field::SYS_EXIT, 0);
    }

    /// A line of text.
    fn print(&mut self, cpu: u32, at_ns: u64, tid: u32, text: &str) {
        let content = &mut self.scratch.0;
        content.clear();
        bytes(content, 2, text.as_bytes());
        self.event(cpu, at_ns, tid, field::PRINT, 0);
    }

    /// A deadline, as the instant that systrace's `I|PROCESS|TEXT` makes.
    fn mark(&mut self, mark: &DeadlineMark) {
        if !self.cpus.is_empty() {
            let text = format!("I|{}|{}\n", self.tid(Some(mark.row)), mark.text());
            let at = self.written_ns(mark.at_ns, 0, [None, None]);
            self.print(0, at, 0, &text);
        }
    }

    /// Settings of a task, by whoever is on the CPU.
    fn settings(&mut self, time_ns: u64, cpu: u32, target: u32, born: bool, words: &str) {
        let at = self.written_ns(time_ns, cpu, [self.current[cpu as usize], Some(target)]);
        let line = settings_line(Pid(self.tid(Some(target)) as i32), born, words);
        self.print(cpu, at, self.current_tid(cpu), &line);
    }

    fn waking(&mut self, time_ns: u64, cpu: u32, wakee: u32, flags: u64) {
        let at = self.written_ns(time_ns, cpu, [Some(wakee), None]);
        self.content(wakee, 3);
        let waker = self.current_tid(cpu);
        self.event(cpu, at, waker, field::SCHED_WAKING, flags);
    }

    fn record(&mut self, record: &Record) -> Result<(), LogError> {
        let cpu = u32::from(record.cpu);
        let (time_ns, row) = (record.time_ns, self.row(record.task()));
        if self.cpus.get(cpu as usize).is_none() {
            return Ok(()); // a contradiction, which the instruments report
        }
        match (record.kind(), row) {
            (Some(Kind::Switch), _) => self.switch(record, cpu, row),
            (Some(Kind::Waking), Some(wakee)) => {
                let waker = self.row(record.other());
                self.tasks[wakee as usize].waking = true;
                let by_task = record.flags & 1 == 0 && waker.is_some() && waker == self.current[cpu as usize];
                self.waking(time_ns, cpu, wakee, if by_task { 0 } else { HARDIRQ });
            }
            (Some(Kind::Wakeup), Some(wakee)) => {
                let is_named = std::mem::take(&mut self.tasks[wakee as usize].waking);
                if !is_named {
                    self.waking(time_ns, cpu, wakee, HARDIRQ);
                }
            }
            (Some(Kind::New), Some(row)) => {
                if !self.tasks[row as usize].forked {
                    let at = self.written_ns(time_ns, cpu, [Some(row), None]);
                    let pid = Pid(self.tid(Some(row)) as i32);
                    self.print(cpu, at, self.current_tid(cpu), &Marker::Start { pid }.to_string());
                    // no task_newtask tells Perfetto that it is runnable from now on
                    self.waking(time_ns, cpu, row, HARDIRQ);
                }
                let at = self.written_ns(time_ns, cpu, [Some(row), None]);
                number(self.content(row, 3), 5, record.arg.into());
                let parent = self.current_tid(cpu);
                self.event(cpu, at, parent, field::SCHED_WAKEUP_NEW, 0);
            }
            (Some(Kind::Fork), _) => {
                let child = self.row(record.other()).filter(|child| self.tasks[*child as usize].forked);
                if let Some(child) = child {
                    self.fork(time_ns, cpu, row, child);
                }
            }
            (Some(Kind::Exit), Some(row)) => {
                let at = self.written_ns(time_ns, cpu, [Some(row), None]);
                let tid = self.tid(Some(row));
                number(self.content(row, 4), 3, tid.into());
                self.event(cpu, at, tid, field::SCHED_PROCESS_EXIT, 0);
            }
            (Some(Kind::Params), Some(row)) => self.params(record, cpu, row),
            (Some(Kind::Note), row) if record.arg == note::SET => {
                let (words, target) = (self.words.piece(record), self.row(record.other()));
                let on_cpu = row.is_some() && row == self.current[cpu as usize];
                if let (Some(words), Some(target), true) = (words, target, on_cpu) {
                    self.settings(time_ns, cpu, target, false, &words);
                }
            }
            (Some(Kind::Note), Some(row)) if self.current[cpu as usize] == Some(row) => {
                let wakee = self.row(record.other()).map(|wakee| (wakee, Pid(self.tid(Some(wakee)) as i32)));
                if let Some((marker, other)) = marker(record, wakee) {
                    let at = self.written_ns(time_ns, cpu, [Some(row), other]);
                    self.print(cpu, at, self.tid(Some(row)), &marker.to_string());
                }
            }
            _ => {}
        }
        if self.buffered >= CHUNK { self.flush() } else { Ok(()) }
    }

    /// `parent` makes `child`: the kernel's event for a new task, the scheduler's for a fork, and the child's settings.
    fn fork(&mut self, time_ns: u64, cpu: u32, parent: Option<u32>, child: u32) {
        self.tasks[child as usize].is_new = true;
        let at = self.written_ns(time_ns, cpu, [Some(child), parent]);
        let content = &mut self.scratch.0;
        content.clear();
        number(content, 1, self.tasks[child as usize].tid.into());
        let comm = &self.tasks[child as usize].as_prev;
        content.push(2 << 3 | 2); // comm; in as_prev it is field 1, followed by the pid
        content.extend_from_slice(&comm[1..comm.len() - pid_bytes(self.tasks[child as usize].tid)]);
        number(content, 3, 0); // clone_flags: not a thread of the parent
        let current = self.current_tid(cpu);
        self.event(cpu, at, current, field::TASK_NEWTASK, 0);
        // the same once more, for readers of scheduling events
        let parent = parent.map_or(&self.cpus[cpu as usize].0, |row| &self.tasks[row as usize]);
        let (parent, forked) = (&parent.as_prev, &self.tasks[child as usize]);
        let content = &mut self.scratch.0;
        content.clear();
        content.extend_from_slice(parent);
        content.push(3 << 3 | 2); // child_comm
        content.extend_from_slice(&forked.as_prev[1..forked.as_prev.len() - pid_bytes(forked.tid)]);
        number(content, 4, forked.tid.into());
        self.event(cpu, at, current, field::SCHED_PROCESS_FORK, 0);
        if let Some(words) = self.tasks[child as usize].born.take() {
            self.settings(time_ns, cpu, child, true, &words);
        }
    }

    /// Parameters of a task change: the system calls by which whoever runs there could have done it.
    fn params(&mut self, record: &Record, cpu: u32, row: u32) {
        let [policy, nice, rt_priority, ..] = record.value.to_le_bytes();
        let Some(kind) = SchedPolicy::from_number(policy.into()) else { return };
        let (new, affinity) = ((policy, nice as i8, rt_priority), record.flags & 1 != 0);
        let task = &mut self.tasks[row as usize];
        let old = std::mem::replace(&mut task.params, new);
        task.prio = prio(kind, i32::from(new.1), rt_priority);
        let (is_new, tid) = (task.is_new, task.tid);
        if let Some(caller) = self.current[cpu as usize].filter(|_| !is_new) {
            let who = if caller == row { 0 } else { i64::from(tid) };
            for (call, arguments) in calls_for(old, new, affinity, who) {
                self.enter(record.time_ns, cpu, call, &arguments);
                self.leave(record.time_ns, cpu, call);
            }
        }
    }

    #[inline]
    fn switch(&mut self, record: &Record, cpu: u32, prev_row: Option<u32>) {
        let next_row = self.row(record.other());
        if prev_row.is_none() && next_row.is_none() {
            return; // threads that are left out
        }
        let yields = PrevState::from_number(record.flags) == Some(PrevState::Yielded);
        if let Some(row) = prev_row.filter(|row| yields && self.current[cpu as usize] == Some(*row)) {
            self.tasks[row as usize].yields = true;
            self.enter(record.time_ns, cpu, RecordedCall::Yield, &[0; 3]);
        }
        self.current[cpu as usize] = next_row;
        let at = self.written_ns(record.time_ns, cpu, [prev_row, next_row]);
        let state = match PrevState::from_number(record.flags) {
            _ if prev_row.is_none() => 0,
            Some(PrevState::Preempted) => 0x100,
            Some(PrevState::Yielded | PrevState::Unknown) | None => 0,
            Some(PrevState::Sleeping) => 1,
            Some(PrevState::Disk) => 2,
            Some(PrevState::Dead) => 0x10,
        };
        let idle = &self.cpus[cpu as usize].0;
        let prev = prev_row.map_or(idle, |row| &self.tasks[row as usize]);
        let next = next_row.map_or(idle, |row| &self.tasks[row as usize]);
        let content = &mut self.scratch.0;
        content.clear();
        content.extend_from_slice(&prev.as_prev);
        number(content, 3, i64::from(prev.prio) as u64);
        number(content, 4, state);
        content.extend_from_slice(&next.as_next);
        number(content, 7, i64::from(next.prio) as u64);
        let tid = prev.tid;
        self.event(cpu, at, tid, field::SCHED_SWITCH, 0);
        if let Some(row) = prev_row
            && record.flags == PrevState::Dead as u8
        {
            self.content(row, 3);
            let current = self.current_tid(cpu);
            self.event(cpu, at, current, field::SCHED_PROCESS_FREE, 0);
        }
        if let Some(row) = next_row {
            let task = &mut self.tasks[row as usize];
            task.is_new = false;
            if std::mem::take(&mut task.yields) {
                self.leave(record.time_ns, cpu, RecordedCall::Yield);
            }
        }
    }

    fn flush(&mut self) -> Result<(), LogError> {
        let mut head = Vec::new();
        for cpu in 0..self.cpus.len() {
            let events = std::mem::take(&mut self.cpus[cpu].1);
            if events.is_empty() {
                continue;
            }
            // Trace { packet { ftrace_events { cpu, events } } }: the lengths of what is around the events,
            // without copying them
            let mut bundle = Vec::new();
            number(&mut bundle, field::BUNDLE_CPU, cpu as u64);
            let bundle_len = (bundle.len() + events.len()) as u64;
            let mut packet = Vec::new();
            number(&mut packet, field::TRUSTED_PACKET_SEQUENCE_ID, 1);
            packet.push((field::FTRACE_EVENTS << 3 | 2) as u8);
            varint(&mut packet, bundle_len);
            head.clear();
            head.push((field::TRACE_PACKET << 3 | 2) as u8);
            varint(&mut head, packet.len() as u64 + bundle_len);
            head.extend_from_slice(&packet);
            head.extend_from_slice(&bundle);
            let written = self.out.write_all(&head).and_then(|()| self.out.write_all(&events));
            written.map_err(|source| self.io(source))?;
            self.cpus[cpu].1 = events;
            self.cpus[cpu].1.clear();
        }
        self.buffered = 0;
        Ok(())
    }

    fn finish(mut self, header: &LogHeader) -> Result<PerfettoStats, LogError> {
        if !self.cpus.is_empty() {
            // the trace lasts until its last event: mark the end of the run, so that open slices reach it
            let at = self.written_ns(header.duration.as_ns(), 0, [None, None]);
            self.print(0, at, 0, "end of the schedule log\n");
        }
        self.flush()?;
        self.out.flush().map_err(|source| self.io(source))?;
        self.stats.shifted_events = self.order.shifts.events;
        self.stats.shift_max_ns = self.order.shifts.max_ns;
        Ok(self.stats)
    }
}

/// Bytes of a `pid` field: tag and varint.
fn pid_bytes(tid: u32) -> usize {
    1 + (u32::BITS - (tid | 1).leading_zeros()).div_ceil(7) as usize
}

#[cfg(test)]
mod tests;
