//! What can go wrong while recording, each with what was being done, what is missing and what to do about it.
//!
//! A recorder fails for reasons that belong to the host: no root, no tracefs, a kernel without the events. Each of
//! these has its own variant, because the command line answers them differently: `demo` falls back to a sample when
//! [`HostError::is_unavailable`] says so, and stops on everything else.

use std::io;
use std::path::PathBuf;

/// Said after every error that means "this host does not let us record": recording is the only step that needs it.
pub const WORKS_WITHOUT: &str = "Everything except recording works without it: \
    `schedlab import`, `run` and `compare` take the recordings in samples/ or a trace.dat made elsewhere.";

/// Why a recording could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The process may not use tracefs.
    #[error(
        "recording needs root: {doing} was refused ({source}) for effective user id {euid}. \
         Run it again with sudo{}. {WORKS_WITHOUT}",
        if *.euid == 0 { ", outside the container or with CAP_SYS_ADMIN and no kernel lockdown (this user is root \
            already)" } else { "" }
    )]
    NotPermitted {
        /// The step that was refused.
        doing: String,
        /// The effective user id that tried.
        euid: u32,
        /// What the kernel answered.
        source: io::Error,
    },

    /// The kernel has no tracefs, or it cannot be mounted.
    #[error(
        "no tracefs: {reason}. The kernel must be built with CONFIG_FTRACE and CONFIG_EVENT_TRACING (Debian's are); \
         then `mount -t tracefs nodev /sys/kernel/tracing` as root. {WORKS_WITHOUT}"
    )]
    NoTracefs {
        /// What was looked for and not found.
        reason: String,
    },

    /// The kernel does not take programs (BPF), and only those were asked for.
    #[error(
        "events cannot be recorded by programs here: {why}. Without --backend bpf ftrace takes their place"
    )]
    NoPrograms {
        /// What is missing, or what the kernel answered.
        why: String,
    },

    /// Calls of a function of the running kernel cannot be timed.
    #[error(
        "{function}() of the running kernel cannot be timed: {why}; expected root (CAP_BPF, CAP_PERFMON), and a kernel \
         that has the function and was built with CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_JIT and CONFIG_FUNCTION_TRACER, as \
         Debian's are; without --in-kernel nothing of this is needed"
    )]
    NoCalls {
        /// Which.
        function: String,
        /// What is missing, or what the kernel answered.
        why: String,
    },

    /// An event without which nothing can be derived is missing from this kernel.
    #[error(
        "this kernel has no event {event} ({}), without which no schedule is known. \
         A kernel with CONFIG_EVENT_TRACING and CONFIG_SMP or a newer one is needed. {WORKS_WITHOUT}",
        path.display()
    )]
    NoEssentialEvent {
        /// The event, as system:name.
        event: String,
        /// Where it was looked for.
        path: PathBuf,
    },

    /// A setting the recorder cannot do without was refused by tracefs.
    #[error("tracefs refused {value:?} for {}: {source}. {remedy}", path.display())]
    Setting {
        /// The control file.
        path: PathBuf,
        /// What was written to it.
        value: String,
        /// What the kernel answered.
        source: io::Error,
        /// What to change.
        remedy: &'static str,
    },

    /// A file or folder could not be read or written.
    #[error("{doing} {}: {source}{}", path.display(), room(source))]
    Io {
        /// What was being done, as "cannot write".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },

    /// A system call of the recorder itself failed.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system answered.
        source: io::Error,
    },

    /// The command could not be started.
    #[error("cannot run {command:?}: {source}. Check its name and PATH; nothing was recorded")]
    Command {
        /// The command's first word.
        command: String,
        /// Why not.
        source: io::Error,
    },

    /// An option makes no sense.
    #[error("{option} is {value:?}, expected {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        expected: &'static str,
    },

    /// A process to record does not exist.
    #[error("there is no process {pid} to record. `ps -e` lists the ones there are")]
    NoSuchProcess {
        /// The process id asked for.
        pid: i32,
    },

    /// A control group to record does not exist.
    #[error(
        "there is no control group {path:?} in the hierarchy that has the cpu controller; \
         /proc/PID/cgroup names the groups of a process, as /system.slice/ssh.service"
    )]
    NoSuchCgroup {
        /// The path asked for.
        path: String,
    },

    /// The signal that was to begin the recording has not come.
    #[error("nothing was recorded: the signal to begin had not come when {why}")]
    NeverBegan {
        /// What happened instead.
        why: &'static str,
    },

    /// Two recordings at once in one process: they would share the signal handlers.
    #[error("this process is recording already; wait for that recording, or start a second process")]
    Busy,

    /// A snapshot file does not parse.
    #[error("{}:{line}: {problem}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Line in it, from 1.
        line: usize,
        /// What is wrong, what was expected and what to do.
        problem: String,
    },

    /// The trace file could not be written, read or edited.
    #[error("{}: {problem}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What the trace library says.
        problem: String,
    },
}

impl HostError {
    /// True when this host cannot record at all (no rights, no tracefs, no events), so that a caller may fall back to
    /// a sample; false when what was asked is wrong or something failed half-way.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            HostError::NotPermitted { .. } | HostError::NoTracefs { .. } | HostError::NoEssentialEvent { .. }
        )
    }

    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> HostError {
        let path = path.into();
        move |source| HostError::Io { doing, path, source }
    }

    /// The last failed system call of this thread.
    pub(crate) fn last_os(doing: &'static str) -> HostError {
        HostError::System { doing, source: io::Error::last_os_error() }
    }
}

/// What to do about a full disk.
fn room(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => {
            ". Nothing is left of the recording. While it runs it takes some 50 bytes an event beside the output: \
                choose another place with -o, or a shorter --duration"
        }
        _ => "",
    }
}
