//! What does the log lack of a CPU that goes down? Linux traces nothing on a CPU that is not online any more
//! (`DECLARE_TRACE()` asks `cpu_online()`), and a CPU that goes down still switches, wakes and moves tasks.
//! It does so at one instant: no time passes between its last record and its end.
//!
//! ```text
//!   2009 ms cpu0 switch k25 disk -> t2           a worker waits until CPU 2 is down
//!   2013 ms cpu2 switch t0 preempted -> k20      CPU 2's stopper
//!   2013 ms cpu2 note: down
//! + 2013 ms cpu2 switch k20 disk -> idle         the stopper parks, and CPU 2 is idle until it comes back
//! + 2013 ms cpu2 wakeup k25 cpu0                 it woke the worker: k25 runs next, and had been blocked
//! + 2013 ms cpu2 migrate t0 cpu2 -> cpu1         (5.10) it moved what waited there: t0 runs next on CPU 1
//!   2017 ms cpu0 switch t2 preempted -> k25
//! ```
//!
//! A task that runs although it was last seen blocked *before* the CPU went down has been woken by it; any
//! other contradiction stays one.

use crate::RunError;
use schedlab_log::{Kind, Log, LogError, LogHeader, PrevState, RawLog, Record, for_each, note, to_bytes};
use schedlab_machine::kernel::{Action, FileRequest, Hotplug};
use schedlab_units::TaskId;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Seek, Write};

/// Whether these take a CPU down.
fn take_down(actions: &[Action]) -> bool {
    actions.iter().flat_map(|action| &action.files).any(|request| match request {
        FileRequest::Hotplug { to, .. } => *to == Hotplug::Off,
        FileRequest::Write { name, .. } => name.ends_with("/online"),
        _ => false,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Blocked,
    /// On this CPU's queue.
    Waiting(u32),
    Running,
}

/// A task's phase, and the number and time of the record that says so.
#[derive(Clone, Copy, Debug)]
struct Seen {
    phase: Phase,
    index: u64,
    time_ns: u64,
}

/// A CPU went down.
#[derive(Clone, Copy, Debug)]
struct Down {
    index: u64,
    time_ns: u64,
    cpu: u16,
}

/// Records to be put in, by the number of the record that they follow.
type Missing = BTreeMap<u64, Vec<Record>>;

fn missing(log: &dyn Log) -> Result<Missing, LogError> {
    let mut missing = Missing::new();
    let mut tasks = HashMap::<u32, Seen>::new();
    let mut current = HashMap::<u16, u32>::new();
    let mut downs = Vec::<Down>::new();
    for_each(log, |index, record: &Record| -> Result<(), LogError> {
        let time_ns = record.time_ns;
        let seen = |phase| Seen { phase, index, time_ns };
        match record.kind() {
            Some(Kind::Note) if record.arg == note::CPU && record.value == 0 => {
                let down = Down { index, time_ns, cpu: record.cpu };
                downs.push(down);
                let stopper = current.insert(record.cpu, TaskId::IDLE.0);
                if let Some(task) = stopper.filter(|task| !TaskId(*task).is_idle()) {
                    tasks.insert(task, seen(Phase::Blocked));
                    let (kind, flags) = (Kind::Switch as u8, PrevState::Disk as u8);
                    let other = TaskId::IDLE.0;
                    let switch =
                        Record { time_ns, kind, flags, cpu: record.cpu, task, other, ..Record::default() };
                    missing.entry(index).or_default().push(switch);
                }
            }
            Some(Kind::Wakeup | Kind::New) => {
                let state = tasks.entry(record.task).or_insert(seen(Phase::Blocked));
                if state.phase == Phase::Blocked {
                    *state = seen(Phase::Waiting(record.arg));
                }
            }
            Some(Kind::Migrate) => {
                if let Some(state) = tasks.get_mut(&record.task)
                    && matches!(state.phase, Phase::Waiting(_))
                {
                    *state = seen(Phase::Waiting(record.other));
                }
            }
            Some(Kind::Switch) => {
                let cpu = u32::from(record.cpu);
                if !record.task().is_idle() {
                    let waits = record.prev_state().is_some_and(PrevState::is_runnable);
                    let phase = if waits { Phase::Waiting(cpu) } else { Phase::Blocked };
                    tasks.insert(record.task, seen(phase));
                }
                let next = record.other;
                current.insert(record.cpu, next);
                if record.other().is_idle() {
                    return Ok(());
                }
                if let Some(state) = tasks.insert(next, seen(Phase::Running))
                    && let Some((after, lost)) = lost(state, next, cpu, &downs)
                {
                    missing.entry(after).or_default().push(lost);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(missing)
}

/// What a CPU that went down did to this task, which now runs on `cpu`: after which record it belongs.
fn lost(state: Seen, task: u32, cpu: u32, downs: &[Down]) -> Option<(u64, Record)> {
    match state.phase {
        Phase::Blocked => {
            // woken when it was blocked already, or blocked at the very instant
            let is_of = |down: &&Down| state.index < down.index || state.time_ns == down.time_ns;
            let down = downs.iter().rev().find(is_of)?;
            let kind = Kind::Wakeup as u8;
            let wakeup =
                Record { time_ns: down.time_ns, kind, cpu: down.cpu, task, arg: cpu, ..Record::default() };
            Some((down.index.max(state.index), wakeup))
        }
        Phase::Waiting(from) if from != cpu => {
            let is_of = |down: &&Down| state.index < down.index && u32::from(down.cpu) == from;
            let down = downs.iter().rev().find(is_of)?;
            let (kind, other) = (Kind::Migrate as u8, cpu);
            let migrate = Record {
                time_ns: down.time_ns,
                kind,
                cpu: down.cpu,
                task,
                other,
                arg: from,
                ..Record::default()
            };
            Some((down.index, migrate))
        }
        _ => None,
    }
}

/// The spill file with what CPUs that went down did, if any did.
pub(crate) fn complete(spill: File, header: &LogHeader, actions: &[Action]) -> Result<File, RunError> {
    if !take_down(actions) {
        return Ok(spill);
    }
    let host = |source| RunError::Host {
        doing: "complete the log of a CPU that went down",
        source,
        remedy: "free space in the temporary directory (TMPDIR)",
    };
    let read = |error: LogError| host(std::io::Error::other(error));
    let log = RawLog::salvage(spill.try_clone().map_err(host)?, header.clone()).map_err(read)?;
    let missing = missing(&log).map_err(read)?;
    if missing.is_empty() {
        return Ok(spill);
    }
    let mut completed = tempfile::tempfile().map_err(host)?;
    let mut out = BufWriter::new(&mut completed);
    for_each(&log, |index, record| -> Result<(), LogError> {
        let more = missing.get(&index).map_or(&[][..], Vec::as_slice);
        for record in [record].into_iter().chain(more) {
            out.write_all(&to_bytes(record))
                .map_err(|error| LogError::io("write", std::path::Path::new("the run's log"))(error))?;
        }
        Ok(())
    })
    .map_err(read)?;
    out.flush().map_err(host)?;
    drop(out);
    completed.rewind().map_err(host)?;
    Ok(completed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_log::MemLog;

    const MS: u64 = 1_000_000;

    fn switch(ms: u64, cpu: u16, prev: TaskId, state: PrevState, next: TaskId) -> Record {
        let (kind, flags) = (Kind::Switch as u8, state as u8);
        Record { time_ns: ms * MS, kind, flags, cpu, task: prev.0, other: next.0, ..Record::default() }
    }

    /// The picture of this module.
    #[test]
    fn what_a_cpu_did_on_its_way_down_is_put_in() {
        use PrevState::{Disk, Preempted};
        let [idle, t0, t2, k20, k25] = [TaskId::IDLE, TaskId(0), TaskId(2), TaskId(20), TaskId(25)];
        let down =
            Record { time_ns: 13 * MS, kind: Kind::Note as u8, cpu: 2, arg: note::CPU, ..Record::default() };
        let records = vec![
            switch(1, 2, idle, Preempted, t0),
            switch(8, 0, idle, Preempted, k25),
            switch(9, 0, k25, Disk, t2),
            switch(13, 2, t0, Preempted, k20),
            down,
            switch(17, 0, t2, Preempted, k25),
            switch(18, 1, idle, Preempted, t0),
            switch(19, 1, t0, Disk, idle),
            // nothing explains this one
            switch(21, 1, idle, Preempted, t0),
        ];
        let log = MemLog { header: LogHeader { nr_cpus: 3, ..LogHeader::default() }, records };
        let found = missing(&log).unwrap();
        let at =
            |kind, task: TaskId| Record { time_ns: 13 * MS, kind, cpu: 2, task: task.0, ..Record::default() };
        let expected = vec![
            switch(13, 2, k20, Disk, idle),
            Record { arg: 0, ..at(Kind::Wakeup as u8, k25) },
            Record { arg: 2, other: 1, ..at(Kind::Migrate as u8, t0) },
        ];
        assert_eq!(found, Missing::from([(4, expected)]));
    }
}
