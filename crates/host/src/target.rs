//! Whose recording is it, and when is it over? A command, processes, control groups, or the whole system.
//!
//! The recorder has one waiting place: it sleeps in poll until a target ends, a signal comes, a draining
//! thread gives up, or the time is over. It wakes for nothing else, so as not to be part of what it records.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::anonymise::Ours;
use crate::capture::Capture;
use crate::cgroup::Cgroups;
use crate::command::{Command, CommandEnd, pidfd_of};
use crate::error::HostError;
use crate::record::{RecordEnd, RecordOptions, RecordRequest, Scope, Stage};
use crate::signals::{Signals, poll};
use crate::snapshot::{Snapshot, numbers_in};
use crate::tracefs::{Instance, read_text};
use crate::user::User;

/// How long the last switch of a command that has ended may take to be recorded: the kernel tells its parent before
/// the dead task leaves the CPU for good.
const LAST_SWITCH: Duration = Duration::from_millis(5);

/// How long a command may take to end after Ctrl-C before the recording ends without it.
const GRACE: Duration = Duration::from_secs(5);

/// What is waited for.
pub(crate) struct Target {
    pub command: Option<Command>,
    processes: Vec<OwnedFd>,
    /// Whose names may be written; complete when the recording has begun.
    pub ours: Ours,
    deadline: Option<Duration>,
    pub end: Option<CommandEnd>,
}

impl Target {
    /// Holds the command, looks for the processes or the groups; with [`Scope::Tree`], has the kernel follow them.
    pub(crate) fn prepare(
        instance: &Instance,
        what: &RecordRequest,
        user: Option<&User>,
    ) -> Result<Target, HostError> {
        let mut target =
            Target { command: None, processes: Vec::new(), ours: Ours::default(), deadline: None, end: None };
        let mut threads = BTreeSet::new();
        let scope = match what {
            RecordRequest::System { duration } => {
                target.deadline = *duration;
                Scope::Whole
            }
            RecordRequest::Command { argv, duration, scope } => {
                let command = Command::hold(argv, user)?;
                threads.insert(command.pid());
                target.ours.pids.insert(command.pid());
                target.command = Some(command);
                target.deadline = *duration;
                *scope
            }
            RecordRequest::Processes { pids, duration, scope } => {
                target.deadline = *duration;
                for &pid in pids {
                    target.processes.push(pidfd_of(pid)?);
                    let folder = format!("/proc/{pid}/task");
                    threads.extend(
                        numbers_in(Path::new(&folder)).map_err(|_| HostError::NoSuchProcess { pid })?,
                    );
                }
                if *scope == Scope::Tree {
                    threads.extend(Snapshot::take()?.family(pids));
                }
                *scope
            }
            RecordRequest::Cgroups { paths, duration } => {
                target.deadline = *duration;
                let cgroups = Cgroups::new(&read_text(Path::new("/proc/self/mounts")).unwrap_or_default());
                for path in paths {
                    let known = path.starts_with('/') && path != "/" && cgroups.folder(path).is_some();
                    if !known {
                        return Err(HostError::NoSuchCgroup { path: path.clone() });
                    }
                    let path = path.trim_end_matches('/');
                    target.ours.cgroups.push(path.to_owned());
                }
                Scope::Whole
            }
        };
        if scope == Scope::Tree {
            instance.set(
                "options/event-fork",
                "1",
                "Kernels before 4.7 cannot follow forks: record everything",
            )?;
            for thread in &threads {
                instance.append("set_event_pid", &format!("{thread}\n"), "Record everything instead")?;
            }
        }
        Ok(target)
    }

    /// The recording has begun: who is there now and belongs to it.
    pub(crate) fn began(&mut self, snapshot: &Snapshot, what: &RecordRequest) {
        match what {
            RecordRequest::Processes { pids, .. } => self.ours.pids.extend(snapshot.family(pids)),
            // A command that has been running until a signal came has children by now.
            RecordRequest::Command { .. } => {
                let command: Vec<i32> = self.command.iter().map(Command::pid).collect();
                self.ours.pids.extend(snapshot.family(&command));
            }
            RecordRequest::Cgroups { .. } => self.ours.pids.extend(snapshot.members(&self.ours.cgroups)),
            RecordRequest::System { .. } => {}
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

    /// Waits for the signal that begins the recording.
    pub(crate) fn wait_for_start(&mut self, signals: &Signals, start: i32) -> Result<(), HostError> {
        loop {
            let mut fds = vec![signals.fd()];
            fds.extend(self.fds());
            let ready = poll(&fds, -1)?;
            let stop = signals.take();
            if signals.has_come(start) {
                return Ok(());
            }
            if let Some(stop) = stop {
                if let Some(command) = self.command.as_ref().filter(|_| stop.forward) {
                    command.signal(stop.signal);
                }
                return Err(HostError::NeverBegan { why: "a signal stopped it" });
            }
            if self.ended(&ready[1..])? {
                return Err(HostError::NeverBegan { why: "what was to be recorded has ended" });
            }
        }
    }

    /// Waits for the end of the recording.
    pub(crate) fn wait(
        &mut self,
        signals: &Signals,
        capture: &Capture,
        began: Instant,
        options: &RecordOptions,
        progress: &mut dyn FnMut(Stage),
    ) -> Result<RecordEnd, HostError> {
        let mut stopped: Option<(Instant, i32, u32)> = None;
        loop {
            let elapsed = began.elapsed();
            let mut sleeps = [None, options.progress_every, None];
            if let Some(deadline) = self.deadline {
                match deadline.checked_sub(elapsed) {
                    Some(left) if !left.is_zero() => sleeps[0] = Some(left),
                    _ => return Ok(RecordEnd::Duration),
                }
            }
            if let Some((since, signal, _)) = stopped {
                match GRACE.checked_sub(since.elapsed()) {
                    Some(left) => sleeps[2] = Some(left),
                    None => {
                        self.end = Some(CommandEnd::StillRunning);
                        return Ok(RecordEnd::Signal(signal));
                    }
                }
            }
            // Rounded up: waking a hair early would only mean one more round.
            let timeout =
                sleeps.into_iter().flatten().min().map_or(-1, |sleep| {
                    i32::try_from(sleep.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
                });
            let mut fds = vec![signals.fd()];
            fds.extend(capture.failed_fds());
            let own = fds.len();
            fds.extend(self.fds());
            let ready = poll(&fds, timeout)?;
            if self.ended(&ready[own..])? {
                std::thread::sleep(LAST_SWITCH);
                return Ok(stopped.map_or(RecordEnd::TargetEnded, |(_, signal, _)| RecordEnd::Signal(signal)));
            }
            if ready[1..own].contains(&true) {
                // A draining thread gave up; what it said comes out of finish(). A running command is not ours to kill.
                return Ok(RecordEnd::TargetEnded);
            }
            let stop = signals.take();
            if let Some(signal) = options.stop_on.filter(|signal| signals.has_come(*signal)) {
                return Ok(RecordEnd::Signal(signal));
            }
            if let Some(stop) = stop {
                match (&self.command, stopped) {
                    (Some(command), None) => {
                        if stop.forward {
                            command.signal(stop.signal);
                        }
                        stopped = Some((Instant::now(), stop.signal, stop.count));
                    }
                    (Some(_), Some((_, signal, count))) if stop.count > count => {
                        self.end = Some(CommandEnd::StillRunning);
                        return Ok(RecordEnd::Signal(signal));
                    }
                    (Some(_), Some(_)) => {}
                    (None, _) => return Ok(RecordEnd::Signal(stop.signal)),
                }
            }
            if options.progress_every.is_some() {
                progress(Stage::Recording { elapsed: began.elapsed(), drained_bytes: capture.bytes() });
            }
        }
    }

    /// Whether the command runs on although the recording is over.
    pub(crate) fn goes_on(&self) -> bool {
        self.command.is_some() && self.end.is_none()
    }

    /// Waits for the end of the command that runs on; a stopping signal is handed on to it, a second one ends the wait.
    pub(crate) fn wait_for_end(&mut self, signals: &Signals) -> Result<(), HostError> {
        let mut forwarded = None;
        while self.goes_on() {
            let mut fds = vec![signals.fd()];
            fds.extend(self.fds());
            let ready = poll(&fds, -1)?;
            if self.ended(&ready[1..])? {
                return Ok(());
            }
            if let (Some(stop), Some(command)) = (signals.take(), &self.command) {
                if forwarded.is_some_and(|count| stop.count > count) {
                    self.end = Some(CommandEnd::StillRunning);
                    return Ok(());
                }
                if forwarded.is_none() && stop.forward {
                    command.signal(stop.signal);
                }
                forwarded = Some(stop.count);
            }
        }
        Ok(())
    }
}
