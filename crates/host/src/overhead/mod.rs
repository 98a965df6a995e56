//! What does recording cost here? As WARP's section V.C: per type of event, and per event from the buffer to the file.
//!
//! ```text
//! per type   one operation many times, on one CPU, its event off and on in turn: the difference of CPU time per event
//! to file    three workloads recorded: CPU time of draining and of writing the file, per event
//! all in     the same workloads without and with recording in turn: their own CPU time
//! ```
//!
//! Each by ftrace, and by programs where the kernel takes them.
//!
//! Every figure is a median with the middle half of its samples beside it: on a busy host the spread says how
//! much it is worth. CPU time, not elapsed time, is measured wherever that is possible.

mod events;
pub mod loads;
mod pipe;
mod report;
mod workloads;

pub use events::{EventCost, Operation, lock_cost};
pub use report::{WARP_EVENTS, WARP_TO_FILE};
pub use workloads::{WayCost, WorkloadCost};

use std::ffi::OsString;

use schedlab_stdx::percentile::interpolated;

use crate::error::HostError;

/// What to measure, and how often.
#[derive(Debug, Clone)]
pub struct OverheadOptions {
    /// Pairs of slices (event off, event on) per type of event.
    pub pairs: u32,
    /// Pairs of runs (without and with recording) per workload; 0 leaves the workloads out.
    pub runs: u32,
    /// A program that runs [`loads::run`] when this is followed by a load's name.
    pub load_program: Vec<OsString>,
}

/// A figure with its spread.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// A quarter of the samples is below.
    pub low: f64,
    /// A quarter of the samples is above.
    pub high: f64,
}

/// Everything that was measured.
#[derive(Debug, Clone)]
pub struct Overhead {
    /// Per type of event.
    pub events: Vec<EventCost>,
    /// Per workload.
    pub workloads: Vec<WorkloadCost>,
    /// Release of the kernel.
    pub kernel: String,
    /// CPUs.
    pub cpus: usize,
}

impl Spread {
    /// Of these samples; all zero without any.
    pub fn of(mut samples: Vec<f64>) -> Spread {
        samples.sort_by(f64::total_cmp);
        let at = |share| interpolated(&samples, share).unwrap_or(0.0);
        Spread { median: at(0.5), low: at(0.25), high: at(0.75) }
    }
}

/// Measures; `progress` gets what is being measured. Takes about 1 s per type of event, and 20 s per run
/// of the workloads.
///
/// # Errors
/// [`HostError`]; ask [`HostError::is_unavailable`] whether this host cannot record at all.
pub fn measure(options: &OverheadOptions, progress: &mut dyn FnMut(&str)) -> Result<Overhead, HostError> {
    let events = events::measure(options.pairs, progress)?;
    let workloads = workloads::measure(options, progress)?;
    let release = crate::tracefs::read_text(std::path::Path::new("/proc/sys/kernel/osrelease"));
    Ok(Overhead {
        events,
        workloads,
        kernel: release.unwrap_or_default().trim().to_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0, 5.0]);
        assert_eq!((spread.low, spread.median, spread.high), (2.0, 3.0, 4.0));
        let spread = Spread::of(vec![1.0, 2.0]);
        assert_eq!((spread.low, spread.median, spread.high), (1.25, 1.5, 1.75));
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
