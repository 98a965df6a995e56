//! What did the tasks of a real system do, as its kernel recorded it?
//!
//! trace.dat, trace-cmd's format, in versions 6 and 7.

pub mod error;
pub mod write;

pub use error::WriteError;
