//! How do the tools that people use for real traces see a simulated run? As a trace.dat: `trace-cmd report`,
//! KernelShark, and our own import open it.
//!
//! Each record of the log becomes the event that a kernel would have traced: `sched_switch`, `sched_waking`,
//! `sched_wakeup_new`, `sched_process_fork` and `_exit`, `sched_migrate_task`; a change of parameters becomes
//! the system call of whoever was on that CPU, a yield its `sched_yield`. Beside the trace goes the snapshot
//! (`NAME.proc.csv`) of the tasks that were there at the start, which holds what no event tells: policy,
//! affinity, deadline parameters.
//!
//! ```text
//!         0 cpu0 switch idle -> t0     swapper/0-0 [000] 1.000000: sched_switch: swapper/0:0 [120] R ==> gzip:71 [120]
//!   4000000 cpu0 switch t0 sleeping .. gzip-71     [000] 1.004000: sched_switch: gzip:71 [120] S ==> swapper/0:0 [120]
//! ```
//!
//! What differs from a trace of a real system:
//!
//! * Times are those of the log and 1 s (KernelShark takes 0 for no time), and later by some ns where the
//!   order of two events of one task at one instant on two CPUs would be lost (`order.rs`).
//! * With [`TraceDatOptions::tasks_only`] the simulated kernel's own threads are left out: their time, which
//!   is none, goes to whom they displaced or to idle, and what they wake is woken by an interrupt. So an
//!   import gives the tasks of the workload and no others.
//! * A name has 15 bytes at most.

mod records;
mod snapshot;
#[cfg(test)]
mod tests;

pub use snapshot::Extra;

use crate::calls::{RecordedCall, calls_for};
use crate::order::{LastWritten, birth_words, forked, marker, prio, thread_ids};
use records::{COMM, Common, HARDIRQ, HEADER_EVENT, HEADER_PAGE, Record as Bytes, Side, comm, formats, id};
use schedlab_log::{Kind, Log, LogError, LogHeader, PrevState, Record, SetWords, for_each, note};
use schedlab_trace::write::{
    Compression, EventSystem, FileVersion, PageBuilder, TraceDatWriter, TraceMeta, WriteOptions,
};
use schedlab_trace::{Pid, WriteError, settings_line};
use schedlab_units::{CpuId, SchedPolicy, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How to write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceDatOptions {
    /// Leave out the simulated kernel's own threads.
    pub tasks_only: bool,
    /// Compress the pages (zstd): a fifth of the size, half the speed.
    pub compress: bool,
    /// What the log does not hold but a snapshot does: per task of the workload, in its order.
    pub extra: Vec<Extra>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceDatStats {
    /// Events.
    pub events: u64,
    /// Events written later than they happened, to keep their order.
    pub shifted_events: u64,
    /// By how much at most.
    pub shift_max_ns: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A log that could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum TraceDatError {
    /// Reading the log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Writing the trace.
    #[error(transparent)]
    Write(#[from] WriteError),
}

const PAGE: usize = 4096;

/// Time 0 of the log in the trace: KernelShark takes a time of 0 for none, and mixes up the CPUs of a trace
/// that begins at 0.
const EPOCH_NS: u64 = 1_000_000_000;

/// Writes the log as a trace.dat, and the snapshot beside it; both appear when they are complete.
///
/// Memory: tasks and CPUs; the log is read twice, batch by batch.
pub fn trace_dat(
    path: &Path,
    log: &dyn Log,
    options: &TraceDatOptions,
) -> Result<TraceDatStats, TraceDatError> {
    let header = log.header();
    let forked = forked(log, options.tasks_only)?;
    let level = if options.compress { Compression::Zstd(1) } else { Compression::None };
    let file =
        TraceDatWriter::create(path, WriteOptions { version: FileVersion::V7(level), page_size: PAGE })?;
    let mut writer = Writer::new(header, &forked, options, file);
    writer.mark(0, "begin of the schedule log");
    for_each(log, |_, record| writer.record(record))?;
    let meta = writer.meta(header);
    let stats = writer.finish(header, &meta)?;
    snapshot::write(&path.with_extension("proc.csv"), header, &forked, options)?;
    Ok(stats)
}

struct Task {
    side: Side,
    cpu: u32,
    params: (u8, i8, u8),
    forked: bool,
    /// What it begins with, if it is forked and its parent has other settings at its start.
    born: Option<String>,
    /// Created, and has not run yet: what its creator sets of it is how it begins.
    is_new: bool,
    /// A `waking` record has been written, its `wakeup` is to come.
    waking: bool,
    /// It is in `sched_yield`.
    yields: bool,
    /// Its switch-out on this CPU is held back.
    held_on: Option<u32>,
}

struct Cpu {
    idle: Side,
    pages: PageBuilder,
    /// Row of the task that the trace shows there.
    current: Option<u32>,
    /// The row that gave way to a thread that is left out, when, and its state: perhaps it is back at once.
    held: Option<(u32, u64, u8)>,
}

struct Writer {
    file: TraceDatWriter,
    tasks_only: bool,
    /// Workload tasks, then kernel threads.
    tasks: Vec<Task>,
    nr_tasks: u32,
    kernel_rows: BTreeMap<u32, u32>,
    cpus: Vec<Cpu>,
    order: LastWritten,
    words: SetWords,
    buffer: Vec<u8>,
    stats: TraceDatStats,
    /// Events since pages were last handed on.
    gathered: u32,
}

/// Events between two looks for whole pages.
const GATHER: u32 = 4096;

impl Writer {
    fn new(
        header: &LogHeader,
        forked: &BTreeSet<TaskId>,
        options: &TraceDatOptions,
        file: TraceDatWriter,
    ) -> Writer {
        let tids = thread_ids(header);
        let task = |tid: u32, name: &str, params: (SchedPolicy, i32, u8), forked: bool| Task {
            side: Side { comm: comm(name), pid: tid as i32, prio: prio(params.0, params.1, params.2) },
            cpu: 0,
            params: (params.0.number(), params.1 as i8, params.2),
            forked,
            born: None,
            is_new: false,
            waking: false,
            yields: false,
            held_on: None,
        };
        let mut tasks: Vec<Task> = (0..)
            .zip(&header.tasks)
            .map(|(row, entry)| {
                let p = entry.params;
                task(
                    tids[row as usize],
                    &entry.name,
                    (p.policy, p.nice.get(), p.rt_priority),
                    forked.contains(&TaskId(row)),
                )
            })
            .collect();
        for (task, entry) in tasks.iter_mut().zip(&header.tasks).filter(|(task, _)| task.forked) {
            let parent = entry.parent.and_then(|parent| header.tasks.get(parent.index()));
            task.born = parent.and_then(|parent| birth_words(entry, parent));
        }
        let nr_tasks = tasks.len() as u32;
        let mut kernel_rows = BTreeMap::new();
        for (thread, tid) in header.kernel_threads.iter().zip(&tids[nr_tasks as usize..]) {
            kernel_rows.insert(thread.pid, tasks.len() as u32);
            tasks.push(task(*tid, &thread.name, (SchedPolicy::Normal, 0, 0), false));
        }
        let cpu = |cpu: u32| Cpu {
            idle: Side { comm: comm(&format!("swapper/{cpu}")), pid: 0, prio: 120 },
            pages: PageBuilder::new(PAGE),
            current: None,
            held: None,
        };
        Writer {
            file,
            tasks_only: options.tasks_only,
            nr_tasks,
            kernel_rows,
            order: LastWritten::new(tasks.len(), header.nr_cpus as usize),
            words: SetWords::default(),
            tasks,
            cpus: (0..header.nr_cpus).map(cpu).collect(),
            buffer: Vec::with_capacity(128),
            stats: TraceDatStats::default(),
            gathered: 0,
        }
    }

    /// The row of a task that the trace shows.
    #[inline]
    fn row(&self, id: TaskId) -> Option<u32> {
        match id.kernel_pid() {
            Some(_) if self.tasks_only => None,
            Some(pid) => self.kernel_rows.get(&pid).copied(),
            None => (id.0 < self.nr_tasks).then_some(id.0),
        }
    }

    fn side(&self, cpu: u32, row: Option<u32>) -> Side {
        row.map_or(self.cpus[cpu as usize].idle, |row| self.tasks[row as usize].side)
    }

    /// In the context of whoever is on the CPU.
    #[inline]
    fn common(&self, cpu: u32, flags: u8) -> Common {
        Common { pid: self.side(cpu, self.cpus[cpu as usize].current).pid, flags }
    }

    /// Writes what is in the buffer.
    #[inline]
    fn push(&mut self, cpu: u32, at_ns: u64) {
        self.cpus[cpu as usize].pages.push(EPOCH_NS.saturating_add(at_ns), &self.buffer);
        self.stats.events += 1;
        self.gathered += 1;
    }

    /// A line of text on CPU 0, so that the trace begins and ends when the run does.
    fn mark(&mut self, time_ns: u64, text: &str) {
        if !self.cpus.is_empty() {
            let at = self.order.written_ns(time_ns, 0, [None, None]);
            let common = self.common(0, 0);
            Bytes::begin(&mut self.buffer, id::PRINT, common).long(0).text(text);
            self.push(0, at);
        }
    }

    fn record(&mut self, record: &Record) -> Result<(), TraceDatError> {
        let cpu = u32::from(record.cpu);
        if self.cpus.get(cpu as usize).is_none() {
            return Ok(()); // a contradiction, which the instruments report
        }
        let (time_ns, row) = (record.time_ns, self.row(record.task()));
        if self.cpus[cpu as usize].held.is_some_and(|(_, since_ns, _)| since_ns < time_ns) {
            self.release(cpu, None);
        }
        match (record.kind(), row) {
            (Some(Kind::Switch), _) => self.switch(record, cpu, row),
            (Some(Kind::Waking), Some(wakee)) => {
                self.tasks[wakee as usize].waking = true;
                let by_task = record.flags & 1 == 0 && {
                    let waker = self.row(record.other());
                    waker.is_some() && waker == self.cpus[cpu as usize].current
                };
                self.waking(time_ns, cpu, wakee, if by_task { 0 } else { HARDIRQ });
            }
            (Some(Kind::Wakeup), Some(wakee)) => {
                if !std::mem::take(&mut self.tasks[wakee as usize].waking) {
                    self.waking(time_ns, cpu, wakee, HARDIRQ);
                }
                self.tasks[wakee as usize].cpu = record.arg;
            }
            (Some(Kind::New), Some(row)) => {
                let task = &mut self.tasks[row as usize];
                task.cpu = record.arg;
                // a task that is there from the start shows by running
                if task.forked {
                    let at = self.order.written_ns(time_ns, cpu, [Some(row), None]);
                    let (common, side) = (self.common(cpu, 0), self.tasks[row as usize].side);
                    Bytes::begin(&mut self.buffer, id::WAKEUP_NEW, common).side(&side).int(record.arg as i32);
                    self.push(cpu, at);
                }
            }
            (Some(Kind::Fork), Some(parent)) => {
                if let Some(child) = self.row(record.other()) {
                    self.tasks[child as usize].is_new = true;
                    let at = self.order.written_ns(time_ns, cpu, [Some(child), Some(parent)]);
                    let common = self.common(cpu, 0);
                    let (from, to) = (self.tasks[parent as usize].side, self.tasks[child as usize].side);
                    let bytes =
                        Bytes::begin(&mut self.buffer, id::FORK, common).comm(&from.comm).int(from.pid);
                    bytes.comm(&to.comm).int(to.pid);
                    self.push(cpu, at);
                    if let Some(words) = self.tasks[child as usize].born.take() {
                        self.settings(time_ns, cpu, [parent, child], true, &words);
                    }
                }
            }
            (Some(Kind::Exit), Some(row)) => {
                let at = self.order.written_ns(time_ns, cpu, [Some(row), None]);
                let (common, side) = (self.common(cpu, 0), self.tasks[row as usize].side);
                Bytes::begin(&mut self.buffer, id::EXIT, common).side(&side);
                self.push(cpu, at);
            }
            (Some(Kind::Migrate), Some(row)) => {
                let at = self.order.written_ns(time_ns, cpu, [None, None]);
                let (common, side) = (self.common(cpu, HARDIRQ), self.tasks[row as usize].side);
                let bytes = Bytes::begin(&mut self.buffer, id::MIGRATE, common).side(&side);
                bytes.int(record.arg as i32).int(record.other as i32);
                self.tasks[row as usize].cpu = record.other;
                self.push(cpu, at);
            }
            (Some(Kind::Params), Some(row)) => self.params(record, cpu, row),
            (Some(Kind::Note), Some(row)) => self.note(record, cpu, row),
            _ => {}
        }
        if self.gathered >= GATHER { self.hand_on() } else { Ok(()) }
    }

    /// What changes nothing in the schedule, and settings in full, as a line of text in the task's context.
    fn note(&mut self, record: &Record, cpu: u32, row: u32) {
        if record.arg == note::SET {
            let (words, target) = (self.words.piece(record), self.row(record.other()));
            if let (Some(words), Some(target), true) =
                (words, target, self.cpus[cpu as usize].current == Some(row))
            {
                self.settings(record.time_ns, cpu, [row, target], false, &words);
            }
            return;
        }
        let wakee = self.row(record.other());
        let wakee = wakee.map(|wakee| (wakee, Pid(self.tasks[wakee as usize].side.pid)));
        let Some((marker, other)) = marker(record, wakee) else { return };
        if self.cpus[cpu as usize].current != Some(row) {
            return; // a contradiction, or a task of which the trace shows nothing
        }
        let at = self.order.written_ns(record.time_ns, cpu, [Some(row), other]);
        let common = self.common(cpu, 0);
        Bytes::begin(&mut self.buffer, id::PRINT, common).long(0).text(&marker.to_string());
        self.push(cpu, at);
    }

    /// The settings of the second row, by the first.
    fn settings(&mut self, time_ns: u64, cpu: u32, [row, target]: [u32; 2], born: bool, words: &str) {
        let at = self.order.written_ns(time_ns, cpu, [Some(row), Some(target)]);
        let common = self.common(cpu, 0);
        let line = settings_line(Pid(self.tasks[target as usize].side.pid), born, words);
        Bytes::begin(&mut self.buffer, id::PRINT, common).long(0).text(&line);
        self.push(cpu, at);
    }

    fn waking(&mut self, time_ns: u64, cpu: u32, wakee: u32, flags: u8) {
        let at = self.order.written_ns(time_ns, cpu, [Some(wakee), None]);
        let common = self.common(cpu, flags);
        let Task { side, cpu: target, .. } = self.tasks[wakee as usize];
        Bytes::begin(&mut self.buffer, id::WAKING, common).side(&side).int(target as i32);
        self.push(cpu, at);
    }

    /// A call of whoever is on the CPU.
    fn call(&mut self, time_ns: u64, cpu: u32, call: RecordedCall, arguments: &[i64], returns: bool) {
        let at = self.order.written_ns(time_ns, cpu, [None, None]);
        let common = self.common(cpu, 0);
        let number = call.number() as i32;
        let mut bytes = Bytes::begin(&mut self.buffer, id::ENTER + call as u16, common).int(number).int(0);
        for argument in &arguments[..arguments.len().min(call.arguments().len())] {
            bytes = bytes.long(*argument);
        }
        self.push(cpu, at);
        if returns {
            self.call_returns(at, cpu, call);
        }
    }

    fn call_returns(&mut self, time_ns: u64, cpu: u32, call: RecordedCall) {
        let at = self.order.written_ns(time_ns, cpu, [None, None]);
        let common = self.common(cpu, 0);
        let number = call.number() as i32;
        Bytes::begin(&mut self.buffer, id::LEAVE + call as u16, common).int(number).int(0).long(0);
        self.push(cpu, at);
    }

    fn params(&mut self, record: &Record, cpu: u32, row: u32) {
        let [policy, nice, rt_priority, ..] = record.value.to_le_bytes();
        let Some(kind) = SchedPolicy::from_number(policy.into()) else { return };
        let (new, affinity) = ((policy, nice as i8, rt_priority), record.flags & 1 != 0);
        let task = &mut self.tasks[row as usize];
        let old = std::mem::replace(&mut task.params, new);
        task.side.prio = prio(kind, i32::from(new.1), rt_priority);
        // how it begins, or set by nobody whom the trace shows
        let (is_new, pid) = (task.is_new, task.side.pid);
        let Some(caller) = self.cpus[cpu as usize].current.filter(|_| !is_new) else { return };
        let who = if caller == row { 0 } else { i64::from(pid) };
        for (call, arguments) in calls_for(old, new, affinity, who) {
            self.call(record.time_ns, cpu, call, &arguments, true);
        }
    }

    fn switch(&mut self, record: &Record, cpu: u32, prev: Option<u32>) {
        let next = self.row(record.other());
        let runnable = PrevState::from_number(record.flags).is_some_and(PrevState::is_runnable);
        // a thread that is left out displaces a task: perhaps that is back before time goes on
        if next.is_none() && self.tasks_only && record.other().is_kernel_thread() && runnable {
            if let Some(row) = prev {
                self.tasks[row as usize].held_on = Some(cpu);
                self.cpus[cpu as usize].held = Some((row, record.time_ns, record.flags));
            }
            return;
        }
        if prev.is_none()
            && let Some((held, ..)) = self.cpus[cpu as usize].held
        {
            self.release(cpu, Some((next, held)));
            return;
        }
        self.switch_now(record.time_ns, cpu, prev, record.flags, next);
    }

    /// Writes a switch-out that was held back: to `next` instead of the thread between, or to idle.
    fn release(&mut self, cpu: u32, next: Option<(Option<u32>, u32)>) {
        let Some((row, since_ns, state)) = self.cpus[cpu as usize].held.take() else { return };
        self.tasks[row as usize].held_on = None;
        match next {
            Some((Some(back), held)) if back == held => {} // as if nothing had been
            Some((next, _)) => self.switch_now(since_ns, cpu, Some(row), state, next),
            None => self.switch_now(since_ns, cpu, Some(row), state, None),
        }
    }

    #[inline]
    fn switch_now(&mut self, time_ns: u64, cpu: u32, prev: Option<u32>, flags: u8, next: Option<u32>) {
        // it may have been taken to another CPU meanwhile
        if let Some(elsewhere) =
            next.and_then(|row| self.tasks[row as usize].held_on).filter(|&held| held != cpu)
        {
            self.release(elsewhere, None);
        }
        let state = PrevState::from_number(flags);
        if let (Some(row), Some(PrevState::Yielded)) = (prev, state) {
            self.tasks[row as usize].yields = true;
            self.call(time_ns, cpu, RecordedCall::Yield, &[], false);
        }
        if prev.is_some() || next.is_some() {
            let at = self.order.written_ns(time_ns, cpu, [prev, next]);
            let number = match state {
                _ if prev.is_none() => 0,
                Some(PrevState::Preempted) => 0x100,
                Some(PrevState::Yielded | PrevState::Unknown) | None => 0,
                Some(PrevState::Sleeping) => 1,
                Some(PrevState::Disk) => 2,
                Some(PrevState::Dead) => 0x10,
            };
            let (from, to) = (self.side(cpu, prev), self.side(cpu, next));
            let common = Common { pid: from.pid, flags: 0 };
            Bytes::begin(&mut self.buffer, id::SWITCH, common).side(&from).long(number).side(&to);
            self.push(cpu, at);
        }
        self.cpus[cpu as usize].current = next;
        if let Some(row) = next {
            let task = &mut self.tasks[row as usize];
            (task.cpu, task.is_new) = (cpu, false);
            if std::mem::take(&mut task.yields) {
                self.call_returns(time_ns, cpu, RecordedCall::Yield);
            }
        }
    }

    fn hand_on(&mut self) -> Result<(), TraceDatError> {
        self.gathered = 0;
        for (number, cpu) in (0..).zip(&mut self.cpus) {
            let pages = cpu.pages.take_whole_pages();
            if !pages.is_empty() {
                self.file.append_pages(CpuId(number), &pages)?;
            }
        }
        Ok(())
    }

    fn meta(&self, header: &LogHeader) -> TraceMeta {
        let name =
            |comm: &[u8; COMM]| String::from_utf8_lossy(comm).trim_end_matches('\0').replace('\n', "?");
        let shown = if self.tasks_only { self.nr_tasks as usize } else { self.tasks.len() };
        let cmdlines: String = self.tasks[..shown]
            .iter()
            .map(|task| format!("{} {}\n", task.side.pid, name(&task.side.comm)))
            .collect();
        let (ftrace_events, systems) = formats();
        TraceMeta {
            header_page: HEADER_PAGE.into(),
            header_event: HEADER_EVENT.into(),
            ftrace_events,
            systems: systems
                .into_iter()
                .map(|(name, formats)| EventSystem { name: name.to_string(), formats })
                .collect(),
            saved_cmdlines: cmdlines.into_bytes(),
            cpus: header.nr_cpus,
            clock: "mono".to_string(),
            uname: Some(format!("Linux simulated {} x86_64", header.sched.replace(char::is_whitespace, "-"))),
            tool: Some(concat!("schedlab ", env!("CARGO_PKG_VERSION")).to_string()),
            ..TraceMeta::default()
        }
    }

    fn finish(mut self, header: &LogHeader, meta: &TraceMeta) -> Result<TraceDatStats, TraceDatError> {
        for cpu in 0..self.cpus.len() as u32 {
            self.release(cpu, None);
        }
        self.mark(header.duration.as_ns(), "end of the schedule log");
        self.hand_on()?;
        for (number, cpu) in (0..).zip(self.cpus) {
            self.file.append_pages(CpuId(number), &cpu.pages.finish())?;
        }
        self.stats.bytes = self.file.finish(meta)?.file_bytes;
        (self.stats.shifted_events, self.stats.shift_max_ns) =
            (self.order.shifts.events, self.order.shifts.max_ns);
        Ok(self.stats)
    }
}
