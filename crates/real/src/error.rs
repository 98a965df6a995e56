//! What can go wrong before, in and after a guest, said so that the reader knows what to do.

use std::path::{Path, PathBuf};

/// Why a guest gave no log.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// A program or package that is needed is not there.
    #[error("{what} is missing; {remedy}")]
    Missing {
        /// What.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// A kernel that nobody knows.
    #[error("kernel '{name}': {why}; expected a series such as 6.12 or 6.1, or the path of a kernel image")]
    Kernel {
        /// As given.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The host refused.
    #[error("cannot {doing} {}: {source}{}", path.display(), remedy(path))]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A helper program failed.
    #[error("{command} failed ({status}): {output}")]
    Command {
        /// The command line.
        command: String,
        /// Its exit status.
        status: String,
        /// The end of what it said.
        output: String,
    },
    /// The workload cannot be executed anywhere.
    #[error(transparent)]
    Program(#[from] schedlab_machine::ProgramError),
    /// The workload or an option is more than a guest can do.
    #[error("{what} is {value}; a guest takes {expected}")]
    Unsupported {
        /// What it is about.
        what: String,
        /// The value given.
        value: String,
        /// What is possible, or what to do.
        expected: String,
    },
    /// This machine could not be recorded.
    #[error(transparent)]
    Host(#[from] schedlab_host::HostError),
    /// The program inside the guest gave up.
    #[error("the guest reports: {0}")]
    Inside(String),
    /// The guest ended, or was ended, without having said all.
    #[error("the guest {how} after {wall_s} s; the end of its console: {console}")]
    Died {
        /// How.
        how: String,
        /// Host time it ran.
        wall_s: u64,
        /// The last lines of its console.
        console: String,
    },
    /// The host's own CPU did not run it.
    #[error(
        "this machine's own CPU does not run the guest: it {how} after {wall_s} s{console}\n\
            leave out --kvm: an emulated CPU does the same, slower and deterministic. KVM needs a machine whose \
         virtualization is whole: on a virtual machine, nested virtualization passed on by its host (cat \
         /sys/module/kvm_*/parameters/nested says Y there)"
    )]
    Kvm {
        /// How.
        how: String,
        /// Host time it ran.
        wall_s: u64,
        /// The last lines of its console.
        console: String,
    },
    /// What the guest sent cannot be understood: a bug of ours, or a full disk.
    #[error(
        "byte {offset} of the guest's output: {what}; run it again, with `fresh` if the output came from the cache"
    )]
    Output {
        /// Where.
        offset: usize,
        /// What is wrong.
        what: String,
    },
    /// The kernel's trace buffer was too small.
    #[error(
        "{cpu}: the guest's trace buffer was full and events were lost; give it a larger `trace_buffer_mb` or a \
            shorter duration"
    )]
    Lost {
        /// Where.
        cpu: schedlab_units::CpuId,
    },
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] schedlab_trace::TraceError),
    /// The trace cannot be written.
    #[error(transparent)]
    Write(#[from] schedlab_trace::WriteError),
}

/// What to do where the cache does not take what is to be kept.
fn remedy(path: &Path) -> &'static str {
    if path.starts_with(crate::cache::directory()) {
        "; name a folder with room that you may write for what is kept: SCHEDLAB_CACHE=DIR"
    } else {
        ""
    }
}

impl RealError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RealError {
        let path = path.to_path_buf();
        move |source| RealError::Io { doing, path, source }
    }
}

impl From<schedlab_convert::EventsLost> for RealError {
    fn from(lost: schedlab_convert::EventsLost) -> RealError {
        RealError::Lost { cpu: lost.cpu }
    }
}
