//! What came of a run? In the caller, from what the child left: its report, or else the control page.

use crate::crash::Scene;
use crate::wire::Ended;
use crate::workers::Worker;
use crate::{ChildReport, ExitKind, ExitReport, LinuxObject, RunEnd, RunError, RunRequest, Scheduler};
use schedlab_log::Record;
use schedlab_machine::sink::bytes;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

const SPACE: &str = "free space in the temporary directory (TMPDIR)";

fn host(doing: &'static str, remedy: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::Host { doing, source, remedy }
}

/// A file for the records of a run.
pub(crate) fn spill() -> Result<File, RunError> {
    tempfile::tempfile().map_err(host("create a temporary file for the log", SPACE))
}

/// The report of a run that has ended; its spill file is completed, and rewound.
pub(crate) fn report(
    request: &RunRequest<'_>,
    ended: Ended,
    worker: &Worker,
    spill: &mut File,
) -> Result<ChildReport, RunError> {
    let page = worker.page().get();
    let object = match request.scheduler {
        Scheduler::Linux(linux) => Some(&*linux.object),
        Scheduler::Native(_) => None,
    };
    let schedulers = schedulers(request.scheduler);
    let text = || read(worker.answer()).map_err(host("read the run's report", "free memory"));
    let leaves = page.leaves.load(Ordering::Acquire) != 0;
    if let (Ended::Exited(0), true) = (&ended, leaves) {
        spill.rewind().map_err(host("rewind the log", SPACE))?;
        return serde_json::from_slice(&text()?).map_err(|error| RunError::Report(error.to_string()));
    }
    let (rest, scene) = page.remains();
    complete(spill, rest).map_err(host("complete the log", SPACE))?;
    let time_ns = rest.last().map_or(0, |record| record.time_ns).max(scene.time_ns());
    let (kind, reason) = match ended {
        Ended::Exited(code) if !leaves => {
            let reason = format!(
                "its code ended the process of the run by itself, with status {code} (exit): a scheduler has to return"
            );
            (ExitKind::Crash, reason)
        }
        Ended::Exited(code) => {
            let text = text()?;
            let text = String::from_utf8_lossy(&text);
            return Err(RunError::Report(format!("the child ended with status {code}: {text}")));
        }
        Ended::Signal(signal) => {
            let mut reason = signal_reason(signal, &String::from_utf8_lossy(&text()?));
            if let Some(call) = scene.refused_call() {
                reason = format!(
                    "it asked the host for {call}, which no scheduler's process may do; it was ended"
                );
            }
            if scene.is_there() {
                reason.push_str(&format!("{} {}", scene.access(), scene.place(object, &schedulers)));
            }
            (ExitKind::Crash, reason)
        }
        Ended::Stalled => (ExitKind::Stall, stall_reason(request, &scene, &schedulers)),
        Ended::NotStarted { doing, errno } => {
            let source = io::Error::from_raw_os_error(errno);
            return Err(RunError::Worker(format!(
                "cannot {doing} ({source}); raise the process limit (ulimit -u)"
            )));
        }
        Ended::NoPolicy(name) => return Err(RunError::NoPolicy { name }),
    };
    let pulse = page.pulse.load(Ordering::Relaxed);
    Ok(crashed(kind, reason, time_ns, pulse, request.workload.tasks.len()))
}

/// The objects of its sched_ext schedulers, in the order in which they are loaded.
fn schedulers(scheduler: &Scheduler) -> Vec<&Path> {
    let Scheduler::Linux(LinuxObject { scx: Some(compiled), .. }) = scheduler else { return Vec::new() };
    let subs = compiled.subs.values().map(|sub| &*sub.object);
    std::iter::once(&*compiled.object).chain(subs).collect()
}

fn stall_reason(request: &RunRequest<'_>, scene: &Scene, schedulers: &[&Path]) -> String {
    let limit = request.stall_limit;
    let mut reason = format!("nothing happened for {limit:?}: an endless loop inside the scheduler");
    if let Scheduler::Linux(linux) = request.scheduler
        && scene.is_there()
    {
        reason.push_str(&format!(", {}", scene.place(Some(&linux.object), schedulers)));
    }
    reason
}

/// All of a file, wherever its position is.
fn read(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Puts behind the spilled records those that the child had not handed on, unless it was just about to say that it had.
fn complete(spill: &mut File, rest: &[Record]) -> io::Result<()> {
    let record = size_of::<Record>() as u64;
    let length = spill.metadata()?.len() / record * record; // less than a whole one is of no use
    spill.set_len(length)?;
    let rest = bytes(rest);
    let mut last = vec![0; rest.len().min(length as usize)];
    let from = length - last.len() as u64;
    spill.read_exact_at(&mut last, from)?;
    if last != rest {
        spill.seek(SeekFrom::End(0))?;
        spill.write_all(rest)?;
    }
    spill.rewind()
}

fn signal_reason(signal: i32, text: &str) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV (a bad pointer)",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL (BUG or an illegal instruction)",
        libc::SIGFPE => "SIGFPE (division by zero)",
        libc::SIGABRT => "SIGABRT (an assertion)",
        libc::SIGSYS => "SIGSYS (it asked the host for what no scheduler's process may do)",
        libc::SIGXCPU => "SIGXCPU (a day of CPU time is the limit)",
        libc::SIGKILL => "SIGKILL (ended from outside, or out of memory)",
        _ => "a signal",
    };
    let detail = if text.is_empty() { String::new() } else { format!("; {text}") };
    format!("the scheduler's process ended by signal {signal}, {name}{detail}")
}

/// The report of a child that could not write one.
fn crashed(kind: ExitKind, reason: String, time_ns: u64, pulse: u64, nr_tasks: usize) -> ChildReport {
    ChildReport {
        end: RunEnd::Misbehaved { report: ExitReport { kind, reason, time_ns } },
        duration_ns: time_ns,
        finished: vec![false; nr_tasks],
        events: pulse,
        tokens_early: 0,
        waits_gained: 0,
        waits_skipped: 0,
        sends_lost: 0,
        waits_forced: 0,
        first_forced: None,
        loop_wall_ns: 0,
        kernel_wall_ns: 0,
        boot_ns: 0,
        kernel_threads: Vec::new(),
        refused: std::collections::BTreeMap::new(),
        warnings: Vec::new(),
        kernel_cpu_ns: Vec::new(),
        readings: Vec::new(),
        account: Vec::new(),
        coverage: Vec::new(),
        decisions: Vec::new(),
        uncontained: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time_ns: u64) -> Record {
        Record { time_ns, ..Record::default() }
    }

    #[test]
    fn the_log_of_a_dead_child_is_completed_once() {
        let rest = [record(3), record(4)];
        let times = |spilled: &[u8]| {
            let mut spill = tempfile::tempfile().unwrap();
            spill.write_all(spilled).unwrap();
            complete(&mut spill, &rest).unwrap();
            let all = read(&spill).unwrap();
            let time = |record: &[u8]| u64::from_ne_bytes(record[..8].try_into().unwrap());
            all.chunks_exact(size_of::<Record>()).map(time).collect::<Vec<u64>>()
        };
        let before = [record(1), record(2)];
        let all = [record(1), record(2), record(3), record(4)];
        assert_eq!(times(bytes(&before)), [1, 2, 3, 4]);
        assert_eq!(times(&[]), [3, 4]);
        // it died in the middle of a write; between a write and the note that it is done
        assert_eq!(times(&bytes(&all)[..75]), [1, 2, 3, 4]);
        assert_eq!(times(bytes(&all)), [1, 2, 3, 4]);
    }
}
