//! What can be wrong with a trace, said so that the reader of the message knows where and what to do.

use schedlab_units::CpuId;
use std::path::PathBuf;

/// Why a trace could not be written. Nothing is left behind under the target's name.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Pages come whole.
    #[error(
        "{cpu}: {bytes} bytes of ring-buffer data are no whole number of {page_size}-byte pages; read trace_pipe_raw in multiples of the page size"
    )]
    PartialPage {
        /// Whose pages.
        cpu: CpuId,
        /// What was given.
        bytes: usize,
        /// What one page has.
        page_size: usize,
    },
    /// No ring buffer has such pages.
    #[error("page size {value}: expected a power of two from 512 to 1048576")]
    PageSize {
        /// The value given.
        value: usize,
    },
    /// The file could not be read again.
    #[error("the trace's {what} is empty; read it from tracefs before the instance is removed")]
    MissingMeta {
        /// Field of `TraceMeta`.
        what: &'static str,
    },
}
