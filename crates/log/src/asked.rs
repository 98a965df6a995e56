//! Waits from the moment at which somebody asks for the task, not from the moment at which its CPU knows of it.
//!
//! ```text
//!   us     0             20            22
//!   log    waking B      wakeup B      switch idle -> B      cpu1 was idle, and took 20 us to answer
//!   here   B waits ────────────────────>                     as a recording shows it: 22 us, not 2
//! ```
//!
//! A recording has the `sched_waking` alone, since it comes in the waker's context. Whoever compares a replay with it
//! must count the same way.

use crate::{Batches, Kind, Log, LogError, LogHeader, PrevState, Record};
use schedlab_units::TaskId;
use std::collections::HashMap;

/// A log whose tasks are runnable from their `waking` on.
pub struct FromWaking<'a>(pub &'a dyn Log);

impl Log for FromWaking<'_> {
    fn header(&self) -> &LogHeader {
        self.0.header()
    }
    fn batches(&self) -> Result<Box<dyn Batches + '_>, LogError> {
        Ok(Box::new(Asked { of: self.0.batches()?, out: Vec::new(), sleeps_on: HashMap::new() }))
    }
}

struct Asked<'a> {
    of: Box<dyn Batches + 'a>,
    out: Vec<Record>,
    /// Where tasks that sleep ran last; only ever asked.
    sleeps_on: HashMap<TaskId, u16>,
}

impl Batches for Asked<'_> {
    fn next_batch(&mut self) -> Result<Option<&[Record]>, LogError> {
        let Some(batch) = self.of.next_batch()? else { return Ok(None) };
        self.out.clear();
        for record in batch {
            self.out.push(*record);
            match record.kind() {
                Some(Kind::Switch) => {
                    let sleeps = PrevState::from_number(record.flags)
                        .is_some_and(|state| matches!(state, PrevState::Sleeping | PrevState::Disk));
                    if sleeps {
                        self.sleeps_on.insert(record.task(), record.cpu);
                    }
                }
                Some(Kind::Wakeup) => {
                    self.sleeps_on.remove(&record.task());
                }
                Some(Kind::Waking) => {
                    if let Some(cpu) = self.sleeps_on.remove(&record.task()) {
                        let kind = Kind::Wakeup as u8;
                        self.out.push(Record { kind, arg: cpu.into(), flags: 0, ..*record });
                    }
                }
                _ => {}
            }
        }
        Ok(Some(&self.out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemLog, Observer, Slots, TextLog, Wait, replay};
    use std::path::Path;

    fn waits(log: &dyn Log) -> Vec<(u32, u64, u64)> {
        struct Waits(Vec<(u32, u64, u64)>);
        impl Observer for Waits {
            fn wait_end(&mut self, wait: &Wait) {
                self.0.push((wait.cpu.0, wait.since_ns, wait.until_ns));
            }
        }
        let mut waits = Waits(Vec::new());
        replay(log, &Slots::new(log.header()), &mut waits).unwrap();
        waits.0
    }

    /// The drawing of this module: t0 sleeps on cpu0, is asked for at 1000, and its wakeup comes at 21000 on cpu1.
    #[test]
    fn a_wait_begins_at_the_waking() {
        let lines = "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n500 cpu0 switch t0 sleeping -> idle\n\
            1000 cpu0 waking t0 by idle irq\n1000 cpu0 migrate t0 cpu0 -> cpu1\n21000 cpu1 wakeup t0 cpu1\n\
            23000 cpu1 switch idle -> t0\n";
        let text = format!(
            "# schedlab log 2\n# sched \"x\"\n# sched_version \"1\"\n# cpus 2\n# hz 250\n# duration_ns 4000000\n\
             # task t0 pid=1 policy=normal nice=0 name=\"a\"\n{lines}# end {}\n",
            lines.lines().count()
        );
        let log = TextLog::parse(&text, Path::new("drawn")).unwrap();
        let log = MemLog {
            header: log.header().clone(),
            records: log.records().unwrap().map(Result::unwrap).collect(),
        };
        assert_eq!(waits(&log), [(0, 0, 0), (1, 21_000, 23_000)]);
        assert_eq!(waits(&FromWaking(&log)), [(0, 0, 0), (1, 1000, 23_000)]);
    }
}
