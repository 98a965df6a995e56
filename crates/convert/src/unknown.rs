//! How do viewers see what nobody saw? They know tasks and idle CPUs and nothing third, so a thread named
//! `unknown` has a CPU for as long as nobody knows what that did.
//!
//! ```text
//!   log, idle time hidden     0 switch A sleeping -> idle                 3 switch idle -> B
//!   for a viewer              0 switch A sleeping -> unknown/0            3 switch unknown/0 -> B
//! ```
//!
//! A task that is lost from sight is asleep for the viewer from then on; `report` has what is known.

use schedlab_log::{
    Batches, Fact, Hidden, KernelThread, Kind, Log, LogError, LogHeader, PrevState, Record, note,
};
use schedlab_units::TaskId;

/// A log that hides nothing, for viewers: what was unknown is somebody's named `unknown`.
pub struct UnknownAsThread<'a> {
    log: &'a dyn Log,
    header: LogHeader,
    hidden: Hidden,
    first_pid: u32,
}

impl<'a> UnknownAsThread<'a> {
    /// The log, with a thread for each CPU.
    pub fn new(log: &'a dyn Log) -> UnknownAsThread<'a> {
        let hidden = log.header().hidden;
        let mut header = LogHeader { hidden: Hidden::NOTHING, ..log.header().clone() };
        let tasks = header.tasks.iter().map(|task| task.pid);
        let first_pid =
            1 + tasks.chain(header.kernel_threads.iter().map(|thread| thread.pid)).max().unwrap_or(0);
        let threads = (0..header.nr_cpus)
            .map(|cpu| KernelThread { pid: first_pid + cpu, name: format!("unknown/{cpu}") });
        header.kernel_threads.extend(threads);
        UnknownAsThread { log, header, hidden, first_pid }
    }
}

impl Log for UnknownAsThread<'_> {
    fn header(&self) -> &LogHeader {
        &self.header
    }
    fn batches(&self) -> Result<Box<dyn Batches + '_>, LogError> {
        let nr_cpus = self.header.nr_cpus as usize;
        let all_begin_unknown = self.hidden.has(Fact::Idle);
        Ok(Box::new(Translated {
            inner: self.log.batches()?,
            idle_is_unknown: all_begin_unknown,
            first_pid: self.first_pid,
            current: vec![TaskId::IDLE; nr_cpus],
            unknown: vec![all_begin_unknown; nr_cpus],
            started: false,
            out: Vec::new(),
        }))
    }
}

struct Translated<'a> {
    inner: Box<dyn Batches + 'a>,
    idle_is_unknown: bool,
    first_pid: u32,
    current: Vec<TaskId>,
    unknown: Vec<bool>,
    started: bool,
    out: Vec<Record>,
}

impl Translated<'_> {
    fn thread(&self, cpu: usize) -> TaskId {
        TaskId::kernel_thread(self.first_pid + cpu as u32)
    }

    fn take(&mut self, record: &Record) {
        let cpu = usize::from(record.cpu);
        if cpu >= self.current.len() {
            return self.out.push(*record);
        }
        let thread = self.thread(cpu);
        match record.kind() {
            Some(Kind::Switch) => {
                let mut record = *record;
                if std::mem::take(&mut self.unknown[cpu]) {
                    if !record.task().is_idle() {
                        // it ran there, nobody saw since when
                        let flags = PrevState::Sleeping as u8;
                        self.out.push(Record { task: thread.0, other: record.task, flags, ..record });
                    } else {
                        (record.task, record.flags) = (thread.0, PrevState::Sleeping as u8);
                    }
                }
                if record.other().is_idle() && self.idle_is_unknown {
                    record.other = thread.0;
                    self.unknown[cpu] = true;
                }
                if record.prev_state() == Some(PrevState::Unknown) {
                    record.flags = PrevState::Sleeping as u8;
                }
                self.current[cpu] = record.other();
                self.out.push(record);
            }
            Some(Kind::Note) if record.arg == note::UNKNOWN_CPU => {
                if !std::mem::replace(&mut self.unknown[cpu], true) {
                    let was = std::mem::replace(&mut self.current[cpu], thread);
                    let (kind, flags) = (Kind::Switch as u8, PrevState::Sleeping as u8);
                    self.out.push(Record { kind, flags, task: was.0, other: thread.0, arg: 0, ..*record });
                }
            }
            Some(Kind::Note) if record.arg == note::UNKNOWN_TASK => {}
            _ => self.out.push(*record),
        }
    }
}

impl Batches for Translated<'_> {
    fn next_batch(&mut self) -> Result<Option<&[Record]>, LogError> {
        self.out.clear();
        if !std::mem::replace(&mut self.started, true) {
            for cpu in (0..self.current.len()).filter(|cpu| self.unknown[*cpu]).collect::<Vec<_>>() {
                let thread = self.thread(cpu);
                let (kind, task, other) = (Kind::Switch as u8, TaskId::IDLE.0, thread.0);
                self.out.push(Record { kind, cpu: cpu as u16, task, other, ..Record::default() });
                self.current[cpu] = thread;
            }
        }
        while self.out.is_empty() {
            let Some(batch) = self.inner.next_batch()?.map(<[Record]>::to_vec) else { return Ok(None) };
            batch.iter().for_each(|record| self.take(record));
        }
        Ok(Some(&self.out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_log::{MemLog, TextLog, format_record};
    use std::path::Path;

    fn shown(hidden: &str, lines: &str) -> Vec<String> {
        let text = format!(
            "# schedlab log 2\n# sched \"x\"\n# sched_version \"1\"\n# cpus 1\n# hz 0\n# duration_ns 9\n\
             # observer recorder\n\
             # hidden {hidden}\n# task t0 pid=1 policy=normal nice=0 name=\"a\"\n\
             # task t1 pid=2 policy=normal nice=0 name=\"b\"\n\
             {lines}# end {}\n",
            lines.lines().count()
        );
        let log = TextLog::parse(&text, Path::new("drawn")).unwrap();
        let log = MemLog::read(&UnknownAsThread::new(&log)).unwrap();
        assert!(log.header.hidden.is_nothing() && log.header.kernel_threads[0].name == "unknown/0");
        let lines = log.records.iter().map(|record| {
            let mut line = Vec::new();
            format_record(&mut line, record);
            String::from_utf8(line).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        });
        lines.collect()
    }

    #[test]
    fn hidden_idle_time_is_a_thread_s() {
        let lines = shown(
            "idle",
            "1 cpu0 switch idle -> t0\n2 cpu0 switch t0 sleeping -> idle\n5 cpu0 switch idle -> t1\n",
        );
        let expected = [
            "0 cpu0 switch idle -> k3",
            "1 cpu0 switch k3 sleeping -> t0",
            "2 cpu0 switch t0 sleeping -> k3",
            "5 cpu0 switch k3 sleeping -> t1",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_gap_is_a_thread_s_until_the_next_switch() {
        let note = format!("2 cpu0 note idle note={} other=idle value=0 flags=0", note::UNKNOWN_CPU);
        let lines =
            shown("spans", &format!("1 cpu0 switch idle -> t0\n{note}\n5 cpu0 switch t1 sleeping -> idle\n"));
        let expected = [
            "1 cpu0 switch idle -> t0",
            "2 cpu0 switch t0 sleeping -> k3",
            "5 cpu0 switch k3 sleeping -> t1",
            "5 cpu0 switch t1 sleeping -> idle",
        ];
        assert_eq!(lines, expected);
    }
}
