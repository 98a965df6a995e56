//! One recording, from nothing mounted to two files on disk.
//!
//! ```text
//!  1 remove what dead recorders left; make the instance; clock mono, buffer size, fill mark, events
//!  2 hold the command (or list the threads of --pid); filter by pid if asked; start draining
//!  3 tracing on, then the snapshot (a task born in between is told by its fork event), then the command runs
//!  4 wait: command's end, duration, signal, a full disk
//!  5 tracing off, drain the rest, read the counters, write NAME.dat and NAME.proc.csv, remove the instance
//! ```
//!
//! Whatever fails in 2 to 5, the instance goes away and no half file stays: the pages lie in unnamed temporary files
//! and both results are written aside and renamed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schedlab_trace::write::{TraceDatWriter, TraceMeta, WriteOptions};
use schedlab_units::CpuId;

use crate::anonymise::{Anonymised, Others, anonymise};
use crate::command::{Command, CommandEnd, pidfd_of};
use crate::drain::{CpuPages, Drain, PageLoss};
use crate::error::HostError;
use crate::events::{self, EnabledEvents, EventChoice};
use crate::signals::{Signals, poll};
use crate::snapshot::{Snapshot, folder_of, numbers_in};
use crate::tracefs::{Instance, Tracefs, read_text};

/// How long the last switch of a command that has ended may take to be recorded: the kernel tells its parent before
/// the dead task leaves the CPU for good.
const LAST_SWITCH: Duration = Duration::from_millis(5);

/// How long a command may take to end after Ctrl-C before the recording ends without it.
const GRACE: Duration = Duration::from_secs(5);

/// Which tasks' events are kept while a command or process is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All tasks of the host: who competed for the CPUs is part of the story.
    Whole,
    /// The command or process and what it forks (set_event_pid and event-fork): a switch is kept when the task that
    /// goes or the one that comes belongs to it.
    Tree,
}

/// What to record, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The whole system, for a while or until a stopping signal.
    System {
        /// How long; `None` is until Ctrl-C.
        duration: Option<Duration>,
    },
    /// A command, until it ends.
    Command {
        /// Program and arguments; found by PATH.
        argv: Vec<OsString>,
        /// Which tasks.
        scope: Scope,
    },
    /// Processes that run already, until they have all ended, for a while, or until a stopping signal.
    Processes {
        /// Their ids.
        pids: Vec<i32>,
        /// How long at most.
        duration: Option<Duration>,
        /// Which tasks.
        scope: Scope,
    },
}

/// How to record.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// The trace to write; the snapshot goes beside it.
    pub output: PathBuf,
    /// What.
    pub what: What,
    /// Which events.
    pub events: EventChoice,
    /// Ring buffer per CPU in KiB.
    pub buffer_kb: u32,
    /// Fill mark at which a buffer is drained, in per cent.
    pub buffer_percent: u32,
    /// The tracing interface, where it is not the mounted one.
    pub tracefs: Option<PathBuf>,
    /// Compression and version of the file.
    pub write: WriteOptions,
    /// Whether only the recorded command's (or processes') names and those of standard kernel threads are written, and
    /// what becomes of the others; see [`mod@crate::anonymise`].
    pub anonymise: Option<Others>,
    /// How often [`Stage::Recording`] is reported; each report is a wake-up on the recorded host.
    pub progress_every: Option<Duration>,
}

impl RecordOptions {
    /// Defaults: 4 MiB per CPU drained at 50 %, no progress. At 50 bytes an event that is 40,000 events between two
    /// drains of a CPU: 0.1 s at the 400,000 events/s of a CPU that does nothing but switch, minutes when compressing.
    pub fn new(output: impl Into<PathBuf>, what: What) -> RecordOptions {
        RecordOptions {
            output: output.into(),
            what,
            events: EventChoice::default(),
            buffer_kb: 4096,
            buffer_percent: 50,
            tracefs: None,
            write: WriteOptions::default(),
            anonymise: None,
            progress_every: None,
        }
    }

    fn check(&self) -> Result<(), HostError> {
        if self.buffer_percent > 100 {
            return Err(HostError::Option {
                option: "buffer_percent",
                value: self.buffer_percent.to_string(),
                expected: "0 to 100",
            });
        }
        if self.buffer_kb == 0 {
            return Err(HostError::Option {
                option: "buffer_kb",
                value: "0".to_owned(),
                expected: "at least 1 (4096 is usual)",
            });
        }
        let nothing = match &self.what {
            What::Command { argv, .. } => argv.is_empty().then_some("command"),
            What::Processes { pids, .. } => pids.is_empty().then_some("pid"),
            What::System { .. } => None,
        };
        match nothing {
            Some(option) => Err(HostError::Option { option, value: String::new(), expected: "at least one" }),
            None => Ok(()),
        }
    }
}

/// Where a recording is, for a progress line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Events come in.
    Recording {
        /// Since tracing was switched on.
        elapsed: Duration,
        /// Bytes of pages drained so far.
        drained_bytes: u64,
    },
    /// The rest is taken from the buffers.
    Draining,
    /// The files are written.
    Writing,
}

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The command ended, or all processes did.
    TargetEnded,
    /// The time was over.
    Duration,
    /// This signal came.
    Signal(i32),
}

/// What one CPU's buffer says of itself at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuCount {
    /// The CPU.
    pub cpu: u32,
    /// Events in the file, as the kernel counted them out (`read events`).
    pub events: u64,
    /// Events overwritten before they were drained (`overrun`).
    pub overrun: u64,
    /// Events lost inside the ring buffer: `commit overrun` and `dropped events`.
    pub dropped: u64,
    /// What the page heads in the file say.
    pub pages: PageLoss,
    /// Bytes of pages.
    pub bytes: u64,
}

impl CpuCount {
    /// Events of this CPU that happened and are not in the file.
    pub fn lost(&self) -> u64 {
        self.overrun + self.dropped
    }
}

/// What was recorded.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The trace.
    pub trace: PathBuf,
    /// The snapshot beside it.
    pub snapshot: PathBuf,
    /// Bytes of the trace file.
    pub trace_bytes: u64,
    /// Why it ended.
    pub ended: Ended,
    /// How the command ended, if one was run.
    pub command: Option<CommandEnd>,
    /// The command's process id, if one was run: the root of its tree.
    pub command_pid: Option<i32>,
    /// From tracing on to tracing off.
    pub duration: Duration,
    /// Events enabled, and those this kernel does not have.
    pub events: EnabledEvents,
    /// Each CPU's counters.
    pub cpus: Vec<CpuCount>,
    /// What was done to the names, if that was asked. The counters above are those of the recording before it.
    pub anonymised: Option<Anonymised>,
    /// Instances of dead recorders that were removed at the start.
    pub removed_instances: Vec<String>,
}

impl Recorded {
    /// Events in the file.
    pub fn nr_events(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.events).sum()
    }

    /// Events that happened and are not in the file.
    pub fn nr_lost(&self) -> u64 {
        self.cpus.iter().map(CpuCount::lost).sum()
    }

    /// The status `schedlab record` returns: the command's, or 0.
    pub fn status(&self) -> i32 {
        self.command.map_or(0, |end| end.status())
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.duration.as_secs_f64();
        writeln!(
            f,
            "{} events in {seconds:.1} s on {} CPUs, {:.2} MB: {}",
            self.nr_events(),
            self.cpus.len(),
            self.trace_bytes as f64 / 1e6,
            self.trace.display()
        )?;
        for cpu in self.cpus.iter().filter(|cpu| cpu.lost() > 0) {
            writeln!(
                f,
                "CPU {}: {} events lost ({} overwritten, {} dropped) in {} places; a larger buffer keeps them",
                cpu.cpu,
                cpu.lost(),
                cpu.overrun,
                cpu.dropped,
                cpu.pages.gaps
            )?;
        }
        for (event, reason) in &self.events.missing {
            writeln!(f, "without {event}: {reason}")?;
        }
        Ok(())
    }
}

/// Records. Signals SIGINT, SIGTERM, SIGHUP and SIGQUIT end the recording in order while this runs.
///
/// # Errors
/// [`HostError`]; ask [`HostError::is_unavailable`] whether this host cannot record at all.
pub fn record(options: &RecordOptions, progress: &mut dyn FnMut(Stage)) -> Result<Recorded, HostError> {
    options.check()?;
    let signals = Signals::install()?;
    let tracefs = match &options.tracefs {
        Some(root) => Tracefs::at(root)?,
        None => Tracefs::open()?,
    };
    let removed_instances = tracefs.remove_stale();
    // Order of drops, last first: the command is let go, the drain closes the instance's files, the instance goes.
    let instance = tracefs.make_instance()?;
    let (page_size, wait_mark) = configure(&instance, options)?;
    let enabled = events::enable(&instance, options.events)?;
    let drain = Drain::start(&instance, &folder_of(&options.output), page_size, wait_mark)?;
    let mut target = Target::prepare(&instance, &options.what)?;

    instance.set("tracing_on", "1", "")?;
    let began = Instant::now();
    let snapshot = Snapshot::take()?;
    if let Some(command) = &mut target.command {
        command.open_gate()?;
    }
    let ended = wait(&mut target, &signals, &drain, began, options, progress)?;
    instance.set("tracing_on", "0", "")?;
    let duration = began.elapsed();

    progress(Stage::Draining);
    let mut pages = drain.finish()?;
    let cpus = count(&instance, &mut pages, page_size)?;
    progress(Stage::Writing);
    let mut meta = describe(&tracefs, &instance, &enabled, &snapshot, options)?;
    meta.page_size = page_size_of_memory();
    let options_of_file = WriteOptions { page_size, ..options.write };
    let snapshot_path = Snapshot::path_beside(&options.output);
    let (trace_bytes, anonymised) = match options.anonymise {
        None => {
            let bytes = write_trace(&options.output, pages, &meta, options_of_file)?;
            snapshot.write(&snapshot_path)?;
            (bytes, None)
        }
        Some(others) => {
            // The full recording lies in a folder that only its owner may enter, and goes with it.
            let folder = folder_of(&options.output);
            let folder = tempfile::Builder::new()
                .prefix(".schedlab-")
                .tempdir_in(&folder)
                .map_err(HostError::io("cannot make a temporary folder in", &folder))?;
            let full = folder.path().join("full.dat");
            write_trace(&full, pages, &meta, options_of_file)?;
            let full_snapshot = Snapshot::path_beside(&full);
            snapshot.write(&full_snapshot)?;
            let (roots, out) = (target.roots(&options.what), &options.output);
            let done = anonymise(&full, &full_snapshot, &roots, others, out, options_of_file)?;
            (done.bytes, Some(done))
        }
    };
    instance.remove()?;

    Ok(Recorded {
        trace: options.output.clone(),
        snapshot: snapshot_path,
        trace_bytes,
        anonymised,
        ended,
        command_pid: target.command.as_ref().map(Command::pid),
        command: target.end,
        duration,
        events: enabled,
        cpus,
        removed_instances,
    })
}

/// Clock, buffer size and fill mark; gives the size of a buffer page and whether poll waits for the mark.
fn configure(instance: &Instance, options: &RecordOptions) -> Result<(usize, bool), HostError> {
    instance.set("trace_clock", "mono", "The clock mono is in every kernel since 3.17; use a newer one")?;
    let size = options.buffer_kb.to_string();
    instance.set("buffer_size_kb", &size, "It is per CPU and must fit into memory: ask for less")?;
    let wait_mark = instance.has("buffer_percent");
    if wait_mark {
        instance.set("buffer_percent", &options.buffer_percent.to_string(), "Use 0 to 100")?;
    }
    // Kernels before 6.8 have no choice: a buffer page is a memory page.
    let sub_buffer =
        instance.get("buffer_subbuf_size_kb").ok().and_then(|kb| kb.trim().parse::<usize>().ok());
    let page_size = sub_buffer.map_or(page_size_of_memory() as usize, |kb| kb * 1024);
    Ok((page_size, wait_mark))
}

fn page_size_of_memory() -> u32 {
    // SAFETY: a plain query; the page size is positive and small.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u32 }
}

/// What is waited for.
struct Target {
    command: Option<Command>,
    processes: Vec<OwnedFd>,
    /// The threads that were there when the recording began.
    threads: Vec<i32>,
    deadline: Option<Duration>,
    end: Option<CommandEnd>,
}

impl Target {
    fn prepare(instance: &Instance, what: &What) -> Result<Target, HostError> {
        let mut target =
            Target { command: None, processes: Vec::new(), threads: Vec::new(), deadline: None, end: None };
        let scope = match what {
            What::System { duration } => {
                target.deadline = *duration;
                Scope::Whole
            }
            What::Command { argv, scope } => {
                let command = Command::hold(argv)?;
                target.threads.push(command.pid());
                target.command = Some(command);
                *scope
            }
            What::Processes { pids, duration, scope } => {
                target.deadline = *duration;
                for &pid in pids {
                    target.processes.push(pidfd_of(pid)?);
                    let folder = format!("/proc/{pid}/task");
                    target.threads.extend(
                        numbers_in(Path::new(&folder)).map_err(|_| HostError::NoSuchProcess { pid })?,
                    );
                }
                *scope
            }
        };
        if scope == Scope::Tree {
            instance.set(
                "options/event-fork",
                "1",
                "Kernels before 4.7 cannot follow forks: record everything",
            )?;
            for thread in &target.threads {
                instance.append("set_event_pid", &format!("{thread}\n"), "Record everything instead")?;
            }
        }
        Ok(target)
    }

    /// The tasks whose names, and whose children's, may be told.
    fn roots(&self, what: &What) -> BTreeSet<i32> {
        match what {
            What::Processes { .. } => self.threads.iter().copied().collect(),
            _ => self.command.iter().map(Command::pid).collect(),
        }
    }

    /// Descriptors that become readable when a target ends.
    fn fds(&self) -> Vec<i32> {
        let command = self.command.as_ref().filter(|_| self.end.is_none()).map(Command::fd);
        command.into_iter().chain(self.processes.iter().map(AsRawFd::as_raw_fd)).collect()
    }

    /// Notes those that have ended; true when none is left.
    fn ended(&mut self, ready: &[bool]) -> Result<bool, HostError> {
        if let Some(command) = &mut self.command {
            if ready.first() == Some(&true) {
                self.end = Some(command.wait()?);
            }
            return Ok(self.end.is_some());
        }
        let mut place = 0;
        let had = !self.processes.is_empty();
        self.processes.retain(|_| {
            place += 1;
            ready.get(place - 1) != Some(&true)
        });
        Ok(had && self.processes.is_empty())
    }
}

/// The recorder's one waiting place.
fn wait(
    target: &mut Target,
    signals: &Signals,
    drain: &Drain,
    began: Instant,
    options: &RecordOptions,
    progress: &mut dyn FnMut(Stage),
) -> Result<Ended, HostError> {
    let mut stopped: Option<(Instant, i32, u32)> = None;
    loop {
        let elapsed = began.elapsed();
        let mut sleeps = [None, options.progress_every, None];
        if let Some(deadline) = target.deadline {
            match deadline.checked_sub(elapsed) {
                Some(left) if !left.is_zero() => sleeps[0] = Some(left),
                _ => return Ok(Ended::Duration),
            }
        }
        if let Some((since, signal, _)) = stopped {
            match GRACE.checked_sub(since.elapsed()) {
                Some(left) => sleeps[2] = Some(left),
                None => {
                    target.end = Some(CommandEnd::StillRunning);
                    return Ok(Ended::Signal(signal));
                }
            }
        }
        // Rounded up: waking a hair early would only mean one more round.
        let timeout = sleeps
            .into_iter()
            .flatten()
            .min()
            .map_or(-1, |sleep| i32::try_from(sleep.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
        let mut fds = vec![signals.fd(), drain.failed_fd()];
        fds.extend(target.fds());
        let ready = poll(&fds, timeout)?;
        if target.ended(&ready[2..])? {
            std::thread::sleep(LAST_SWITCH);
            return Ok(stopped.map_or(Ended::TargetEnded, |(_, signal, _)| Ended::Signal(signal)));
        }
        if ready[1] {
            // A draining thread gave up; what it said comes out of finish(). A running command is not ours to kill.
            return Ok(Ended::TargetEnded);
        }
        if let Some(stop) = signals.take() {
            match (&target.command, stopped) {
                (Some(command), None) => {
                    if stop.forward {
                        command.signal(stop.signal);
                    }
                    stopped = Some((Instant::now(), stop.signal, stop.count));
                }
                (Some(_), Some((_, signal, count))) if stop.count > count => {
                    target.end = Some(CommandEnd::StillRunning);
                    return Ok(Ended::Signal(signal));
                }
                (Some(_), Some(_)) => {}
                (None, _) => return Ok(Ended::Signal(stop.signal)),
            }
        }
        if options.progress_every.is_some() {
            progress(Stage::Recording { elapsed: began.elapsed(), drained_bytes: drain.bytes() });
        }
    }
}

/// Each CPU's counters, after everything has been read.
fn count(instance: &Instance, pages: &mut [CpuPages], page_size: usize) -> Result<Vec<CpuCount>, HostError> {
    let mut counts = Vec::new();
    for cpu in pages {
        let stats = instance.get(&format!("per_cpu/cpu{}/stats", cpu.cpu))?;
        let value = |name: &str| stat(&stats, name).unwrap_or(0);
        counts.push(CpuCount {
            cpu: cpu.cpu,
            events: value("read events"),
            overrun: value("overrun"),
            dropped: value("commit overrun") + value("dropped events"),
            pages: cpu.loss(page_size)?,
            bytes: cpu.bytes,
        });
    }
    Ok(counts)
}

/// A counter in the text of per_cpu/cpuN/stats.
pub(crate) fn stat(stats: &str, name: &str) -> Option<u64> {
    stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

fn describe(
    tracefs: &Tracefs,
    instance: &Instance,
    enabled: &EnabledEvents,
    snapshot: &Snapshot,
    options: &RecordOptions,
) -> Result<TraceMeta, HostError> {
    let wanted =
        |system: &str, event: &str| enabled.enabled.iter().any(|name| events::split(name) == (system, event));
    let mut meta = TraceMeta::from_tracefs(tracefs.root(), instance.path(), wanted)
        .map_err(|e| HostError::Trace { path: options.output.clone(), problem: e.to_string() })?;
    meta.saved_cmdlines = merge_names(&meta.saved_cmdlines, snapshot);
    // The host's name may say more than the host's owner wants; from_tracefs has replaced it.
    if let Ok(machine) = read_text(Path::new("/proc/sys/kernel/osrelease")) {
        meta.uname = Some(format!("Linux localhost {} {}", machine.trim(), std::env::consts::ARCH));
    }
    Ok(meta)
}

/// The kernel's list of names holds a few thousand tasks that ran last, the snapshot all that lived at the start: what
/// the kernel saved later wins.
fn merge_names(saved: &[u8], snapshot: &Snapshot) -> Vec<u8> {
    let mut names: BTreeMap<i32, String> =
        snapshot.rows.iter().map(|row| (row.tid, row.comm.clone())).collect();
    for line in String::from_utf8_lossy(saved).lines() {
        let Some((pid, name)) = line.split_once(' ') else { continue };
        if let (Ok(pid), true) = (pid.parse(), !name.is_empty() && name != "<...>") {
            names.insert(pid, name.to_owned());
        }
    }
    names.into_iter().map(|(pid, name)| format!("{pid} {name}\n")).collect::<String>().into_bytes()
}

fn write_trace(
    path: &Path,
    pages: Vec<CpuPages>,
    meta: &TraceMeta,
    options: WriteOptions,
) -> Result<u64, HostError> {
    let failed =
        |e: schedlab_trace::WriteError| HostError::Trace { path: path.to_owned(), problem: e.to_string() };
    let mut writer = TraceDatWriter::create(path, options).map_err(failed)?;
    for cpu in pages {
        writer.add_cpu_data(CpuId(cpu.cpu), cpu.file).map_err(failed)?;
    }
    Ok(writer.finish(meta).map_err(failed)?.file_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_whole_name() {
        // As on Linux 6.18; "overrun" must not match "commit overrun".
        let stats = "entries: 0\noverrun: 12\ncommit overrun: 3\nbytes: 60\noldest event ts:  90.11\n\
                     now ts:    98.90\ndropped events: 4\nread events: 129\n";
        for (name, expected) in
            [("overrun", 12), ("commit overrun", 3), ("dropped events", 4), ("read events", 129)]
        {
            assert_eq!(stat(stats, name), Some(expected), "{name}");
        }
        assert_eq!(stat(stats, "bytes lost"), None);
    }

    #[test]
    fn names_saved_by_the_kernel_win_over_the_snapshot() {
        let row = |tid, comm: &str| crate::SnapshotRow { tid, comm: comm.to_owned(), ..Default::default() };
        let snapshot = Snapshot { rows: vec![row(7, "sh"), row(9, "cat")] };
        let merged = merge_names(b"7 gzip -9\n8 make\n10 <...>\n", &snapshot);
        assert_eq!(String::from_utf8_lossy(&merged), "7 gzip -9\n8 make\n9 cat\n");
    }

    #[test]
    fn senseless_options_are_refused_before_anything_is_touched() {
        let said = |change: fn(&mut RecordOptions)| {
            let mut options = RecordOptions::new("x.dat", What::System { duration: None });
            change(&mut options);
            options.check().expect_err("senseless").to_string()
        };
        assert!(said(|o| o.buffer_kb = 0).starts_with("buffer_kb is \"0\", expected at least 1"));
        assert!(said(|o| o.buffer_percent = 101).contains("expected 0 to 100"));
        assert!(
            said(|o| o.what = What::Command { argv: vec![], scope: Scope::Whole }).starts_with("command is")
        );
        let none = |o: &mut RecordOptions| {
            o.what = What::Processes { pids: vec![], duration: None, scope: Scope::Tree };
        };
        assert!(said(none).starts_with("pid is"));
    }
}
