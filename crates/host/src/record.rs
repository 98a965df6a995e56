//! One recording, from nothing mounted to two files on disk.
//!
//! ```text
//!  1 remove what dead recorders left; make the instance; clock mono, buffer size, fill mark, events
//!  2 hold the command (or look for the processes, the control groups); filter by pid if asked; start draining
//!  3 if a signal is to begin it: let the command run and wait for the signal
//!  4 tracing on, then the snapshot (the fork event of a task born in between describes it), then the command runs
//!  5 wait: command's end, duration, signal, a full disk
//!  6 tracing off, drain the rest, read the counters, write NAME.dat and NAME.proc.csv, remove the instance
//!  7 if the command is still running (a duration or a signal has ended the recording): wait for its end
//! ```
//!
//! Whatever fails in 2 to 6, the instance goes away and no half file stays: the pages lie in unnamed temporary files
//! and both results are written aside and renamed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schedlab_stdx::aside::folder_of;
use schedlab_trace::OBJECT_FORMAT;
use schedlab_trace::write::{EventSystem, TraceDatWriter, TraceMeta, WriteOptions};
use schedlab_units::CpuId;

use crate::anonymise::{Anonymised, Others, Ours, anonymise};
use crate::capture::{self, Backend, CaptureMethod, Collected, Started, page_size_of_memory};
use crate::cgroup::GroupTable;
use crate::command::{Command, CommandEnd};
use crate::drain::{CpuPages, DrainCost, Gap, PageLoss, thread_cpu_time};
use crate::error::HostError;
use crate::events::{self, EnabledEvents, EventChoice};
use crate::signals::{STOPPING, Signals};
use crate::snapshot::Snapshot;
use crate::target::Target;
use crate::tracefs::{Instance, Tracefs, read_text};
use crate::user::User;

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
pub enum RecordRequest {
    /// The whole system, for a while or until a stopping signal.
    System {
        /// How long; `None` is until Ctrl-C.
        duration: Option<Duration>,
    },
    /// A command, until it ends, or for a while; it runs on when the recording is over.
    Command {
        /// Program and arguments; found by PATH.
        argv: Vec<OsString>,
        /// How long at most.
        duration: Option<Duration>,
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
    /// The tasks of these control groups and of the groups below them, for a while or until a stopping signal.
    Cgroups {
        /// Their paths in the hierarchy that has the cpu controller, as in /proc/PID/cgroup: /system.slice/ssh.service.
        paths: Vec<String>,
        /// How long; `None` is until Ctrl-C.
        duration: Option<Duration>,
    },
}

/// How to record.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// The trace to write; the snapshot goes beside it.
    pub output: PathBuf,
    /// What.
    pub what: RecordRequest,
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
    /// By which way events come from the kernel.
    pub backend: Backend,
    /// Begin only when this signal comes to the recorder (see [`signal_by_name`](crate::signal_by_name)); a
    /// command runs from the start.
    pub start_on: Option<i32>,
    /// End when this signal comes to the recorder.
    pub stop_on: Option<i32>,
    /// Who runs the command and gets the files; `None`: the recorder's own user.
    pub user: Option<User>,
}

impl RecordOptions {
    /// Defaults: 4 MiB per CPU drained at 50 %, no progress. At 50 bytes an event that is 40,000 events between two
    /// drains of a CPU: 0.1 s at the 400,000 events/s of a CPU that does nothing but switch, minutes when compressing.
    pub fn new(output: impl Into<PathBuf>, what: RecordRequest) -> RecordOptions {
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
            backend: Backend::default(),
            start_on: None,
            stop_on: None,
            user: None,
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
            RecordRequest::Command { argv, .. } => argv.is_empty().then_some("command"),
            RecordRequest::Processes { pids, .. } => pids.is_empty().then_some("pid"),
            RecordRequest::Cgroups { paths, .. } => paths.is_empty().then_some("cgroup"),
            RecordRequest::System { .. } => None,
        };
        for (option, signal) in [("start_on", self.start_on), ("stop_on", self.stop_on)] {
            if let Some(signal) = signal
                && (STOPPING.contains(&signal) || !(1..=31).contains(&signal))
            {
                let expected =
                    "a signal that may be caught and does not end a recording anyway: SIGUSR1, SIGUSR2";
                return Err(HostError::Option { option, value: signal.to_string(), expected });
            }
        }
        if self.start_on.is_some() && self.start_on == self.stop_on {
            let value = self.stop_on.map(|signal| signal.to_string()).unwrap_or_default();
            let expected = "another signal than start_on";
            return Err(HostError::Option { option: "stop_on", value, expected });
        }
        match nothing {
            Some(option) => Err(HostError::Option { option, value: String::new(), expected: "at least one" }),
            None => Ok(()),
        }
    }
}

/// Where a recording is, for a progress line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// All is ready; the signal that begins the recording has not come.
    Waiting {
        /// The signal.
        signal: i32,
    },
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
    /// The files are there; the command still runs.
    CommandGoesOn,
}

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordEnd {
    /// The command ended, or all processes did.
    TargetEnded,
    /// The time was over.
    Duration,
    /// This signal came.
    Signal(i32),
}

/// What one CPU's buffer says of itself at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
pub struct RecordedTrace {
    /// The trace.
    pub trace: PathBuf,
    /// The snapshot beside it.
    pub snapshot: PathBuf,
    /// Bytes of the trace file.
    pub trace_bytes: u64,
    /// Why it ended.
    pub ended: RecordEnd,
    /// How the command ended, if one was run.
    pub command: Option<CommandEnd>,
    /// The command's process id, if one was run: the root of its tree.
    pub command_pid: Option<i32>,
    /// From tracing on to tracing off.
    pub duration: Duration,
    /// When tracing was switched on, in ns of the trace's clock.
    pub start_ns: u64,
    /// By which way events came from the kernel.
    pub method: CaptureMethod,
    /// Wakeups while process 1 had the CPU, which this kernel hides from programs, so that ftrace has recorded them;
    /// `None`: programs see all.
    pub hidden_wakings: Option<u64>,
    /// What draining has cost, while it was recorded and just after.
    pub drain: DrainCost,
    /// CPU time of writing the files.
    pub write_cpu: Duration,
    /// Events enabled, and those this kernel does not have.
    pub events: EnabledEvents,
    /// Each CPU's counters.
    pub cpus: Vec<CpuCount>,
    /// What was done to the names, if that was asked. The counters above are those of the recording before it.
    pub anonymised: Option<Anonymised>,
    /// Instances of dead recorders that were removed at the start.
    pub removed_instances: Vec<String>,
}

impl RecordedTrace {
    /// Events in the file.
    pub fn nr_events(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.events).sum()
    }

    /// Events that happened and are not in the file.
    pub fn nr_lost(&self) -> u64 {
        self.cpus.iter().map(CpuCount::lost).sum()
    }

    /// Where events are missing, in order of time.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = self.cpus.iter().flat_map(|cpu| cpu.pages.places.iter().copied()).collect();
        gaps.sort_by_key(|gap| (gap.until_ns, gap.cpu));
        gaps
    }

    /// The status `schedlab record` returns: the command's, or 0.
    pub fn status(&self) -> i32 {
        self.command.map_or(0, |end| end.status())
    }
}

/// Gaps that [`RecordedTrace`] prints one by one.
const GAPS_SHOWN: usize = 5;

impl fmt::Display for RecordedTrace {
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
        let gaps = self.gaps();
        for gap in gaps.iter().take(GAPS_SHOWN) {
            let at = |ns: u64| ns.saturating_sub(self.start_ns) as f64 / 1e9;
            let events = gap.events.map_or("events".to_owned(), |events| format!("{events} events"));
            let from = gap.from_ns.map_or(0.0, at);
            writeln!(
                f,
                "  {events} of CPU {} missing from {from:.6} s to {:.6} s",
                gap.cpu,
                at(gap.until_ns)
            )?;
        }
        if gaps.len() > GAPS_SHOWN {
            let (first, last) = (&gaps[GAPS_SHOWN], &gaps[gaps.len() - 1]);
            let at = |gap: &Gap| gap.until_ns.saturating_sub(self.start_ns) as f64 / 1e9;
            let more = gaps.len() - GAPS_SHOWN;
            writeln!(
                f,
                "  and {more} more places, from {:.6} s to {:.6} s; the workload counts them too",
                at(first),
                at(last)
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
pub fn record(options: &RecordOptions, progress: &mut dyn FnMut(Stage)) -> Result<RecordedTrace, HostError> {
    options.check()?;
    let chosen: Vec<i32> = options.start_on.into_iter().chain(options.stop_on).collect();
    let signals = Signals::install(&chosen)?;
    let tracefs = match &options.tracefs {
        Some(root) => Tracefs::at(root)?,
        None => Tracefs::open()?,
    };
    let removed_instances = tracefs.remove_stale();
    // Order of drops, last first: the command is let go, the drain closes the instance's files, the instance goes.
    let instance = tracefs.make_instance()?;
    let Started { capture, enabled, page_size, method } = capture::start(&tracefs, &instance, options)?;
    let mut target = Target::prepare(&instance, &options.what, options.user.as_ref())?;
    if let Some(signal) = options.start_on {
        if let Some(command) = &mut target.command {
            command.open_gate()?;
        }
        progress(Stage::Waiting { signal });
        target.wait_for_start(&signals, signal)?;
    }

    let start_ns = monotonic_ns();
    capture.record(&instance, true)?;
    let began = Instant::now();
    let mut snapshot = Snapshot::take()?;
    target.began(&snapshot, &options.what);
    if let (Some(command), None) = (&mut target.command, options.start_on) {
        command.open_gate()?;
    }
    let ended = target.wait(&signals, &capture, began, options, progress)?;
    capture.record(&instance, false)?;
    let duration = began.elapsed();
    // Groups that have come meanwhile; an error here must not cost the recording.
    if let Ok(after) = Snapshot::take() {
        snapshot.groups.add_new(after.groups);
    }

    progress(Stage::Draining);
    let Collected { pages, cost, counts, hidden_wakings } =
        capture.finish(&instance, page_size, folder_of(&options.output))?;
    progress(Stage::Writing);
    let write_began = thread_cpu_time();
    let mut meta = describe(&tracefs, &instance, &enabled, &snapshot, options)?;
    meta.page_size = page_size_of_memory();
    if matches!(method, CaptureMethod::Bpf { .. }) {
        // The instance has not recorded all of it.
        meta.cpu_stats = counts.iter().map(CpuCount::to_stats).collect();
        meta.cpus = counts.len() as u32;
    }
    let options_of_file = WriteOptions { page_size, ..options.write };
    let snapshot_path = Snapshot::path_beside(&options.output);
    let (trace_bytes, anonymised) =
        write_out(options, pages, &meta, options_of_file, (&snapshot, &snapshot_path), &target.ours)?;
    if let Some(user) = &options.user {
        let groups = GroupTable::path_beside_snapshot(&snapshot_path);
        let written = [&options.output, &snapshot_path, &groups];
        written.into_iter().filter(|path| path.is_file()).try_for_each(|path| user.give(path))?;
    }
    instance.remove()?;
    let write_cpu = thread_cpu_time().saturating_sub(write_began);
    if target.goes_on() {
        progress(Stage::CommandGoesOn);
        target.wait_for_end(&signals)?;
    }

    Ok(RecordedTrace {
        trace: options.output.clone(),
        snapshot: snapshot_path,
        trace_bytes,
        anonymised,
        ended,
        command_pid: target.command.as_ref().map(Command::pid),
        command: target.end,
        duration,
        start_ns,
        method,
        hidden_wakings,
        drain: cost,
        write_cpu,
        events: enabled,
        cpus: counts,
        removed_instances,
    })
}

/// The clock mono, which the trace is recorded with.
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills a local; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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
    if enabled.enabled.iter().any(|name| events::is_ours(name)) {
        let formats = vec![OBJECT_FORMAT.as_bytes().to_vec()];
        meta.systems.push(EventSystem { name: "schedlab".to_owned(), formats });
    }
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

/// While this lives, files are made for their owner alone: a recording of the whole system tells what all its
/// users do. (The command was started before and has the mask that it was given.)
struct Private(libc::mode_t);

impl Private {
    fn begin() -> Private {
        // SAFETY: sets a number of this process.
        Private(unsafe { libc::umask(0o077) })
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::umask(self.0) };
    }
}

/// Writes the recording and the snapshot beside it, anonymised if that is asked for; how many bytes the recording has.
fn write_out(
    options: &RecordOptions,
    pages: Vec<CpuPages>,
    meta: &TraceMeta,
    options_of_file: WriteOptions,
    (snapshot, snapshot_path): (&Snapshot, &Path),
    ours: &Ours,
) -> Result<(u64, Option<Anonymised>), HostError> {
    let Some(others) = options.anonymise else {
        let _private = Private::begin();
        let bytes = write_trace(&options.output, pages, meta, options_of_file)?;
        snapshot.write(snapshot_path)?;
        return Ok((bytes, None));
    };
    // The full recording lies in a folder that only its owner may enter, and goes with it.
    let folder = folder_of(&options.output);
    let folder = tempfile::Builder::new()
        .prefix(&schedlab_process::prefix_in(folder, ".schedlab-record-"))
        .tempdir_in(folder)
        .map_err(HostError::io("cannot make a temporary folder in", folder))?;
    let full = folder.path().join("full.dat");
    write_trace(&full, pages, meta, options_of_file)?;
    let full_snapshot = Snapshot::path_beside(&full);
    snapshot.write(&full_snapshot)?;
    let done = anonymise(&full, Some(&full_snapshot), ours, others, &options.output, options_of_file)?;
    Ok((done.bytes, Some(done)))
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
        let snapshot = Snapshot { rows: vec![row(7, "sh"), row(9, "cat")], ..Snapshot::default() };
        let merged = merge_names(b"7 gzip -9\n8 make\n10 <...>\n", &snapshot);
        assert_eq!(String::from_utf8_lossy(&merged), "7 gzip -9\n8 make\n9 cat\n");
    }

    #[test]
    fn senseless_options_are_refused_before_anything_is_touched() {
        let said = |change: fn(&mut RecordOptions)| {
            let mut options = RecordOptions::new("x.dat", RecordRequest::System { duration: None });
            change(&mut options);
            options.check().expect_err("senseless").to_string()
        };
        assert!(said(|o| o.buffer_kb = 0).starts_with("buffer_kb is \"0\", expected at least 1"));
        assert!(said(|o| o.buffer_percent = 101).contains("expected 0 to 100"));
        assert!(
            said(|o| o.what = RecordRequest::Command { argv: vec![], duration: None, scope: Scope::Whole })
                .starts_with("command is")
        );
        let none = |o: &mut RecordOptions| {
            o.what = RecordRequest::Processes { pids: vec![], duration: None, scope: Scope::Tree };
        };
        assert!(said(none).starts_with("pid is"));
        assert!(
            said(|o| o.what = RecordRequest::Cgroups { paths: vec![], duration: None })
                .starts_with("cgroup is")
        );
        assert!(said(|o| o.start_on = Some(libc::SIGINT)).starts_with("start_on is \"2\""));
        let same =
            |o: &mut RecordOptions| (o.start_on, o.stop_on) = (Some(libc::SIGUSR1), Some(libc::SIGUSR1));
        assert!(said(same).contains("another signal than start_on"));
    }
}
