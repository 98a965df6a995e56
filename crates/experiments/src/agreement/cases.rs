//! The workloads on which agreement is measured.

use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::Workload;
use schedlab_workload::generate::{GenerateError, from_toml};

/// A workload on a machine.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its name in tables.
    pub name: String,
    /// The workload.
    pub workload: Workload,
    /// The machine.
    pub topology: Topology,
    /// Compared for this long.
    pub duration: Span,
}

/// Generated ones: name, settings, numbers of CPUs.
const GENERATED: [(&str, &str, &[u32]); 9] = [
    ("fairbench", "kind = 'fairbench'\ncpu = '60s'", &[1]),
    ("responsebench", "kind = 'responsebench'\nduration = '30s'", &[1, 4]),
    ("hogs", "kind = 'hogs'\nnices = [0, 0, 5, -5]\ncpu = '60s'", &[1, 2]),
    ("sleepers", "kind = 'sleepers'\nduration = '30s'", &[1, 4]),
    ("hackbench-100", "kind = 'hackbench'\nturns = 100", &[1, 4]),
    ("deadline", "kind = 'periodic'\nutilisation = 0.7\nduration = '30s'", &[1, 2]),
    ("deadline-full", "kind = 'periodic'\ntasks = 8\nutilisation = 1.6\nduration = '30s'", &[2, 4]),
    (
        "rate-monotonic-8",
        "kind = 'periodic'\npolicy = 'rate_monotonic'\ntasks = 8\nutilisation = 1.7\nduration = '30s'",
        &[2],
    ),
    (
        "rate-monotonic",
        "kind = 'periodic'\npolicy = 'rate_monotonic'\nutilisation = 0.9\nduration = '30s'",
        &[1, 2],
    ),
];

/// The generated workloads, each on its machines.
///
/// # Errors
/// None with the settings as they are written here.
pub fn cases(duration: Span) -> Result<Vec<Setup>, GenerateError> {
    let mut cases = Vec::new();
    for (name, settings, machines) in GENERATED {
        let workload = from_toml(name, settings)?;
        cases.extend(machines.iter().map(|&nr_cpus| Setup {
            name: name.to_string(),
            workload: workload.clone(),
            topology: Topology::flat(nr_cpus).expect("a few CPUs are a machine"),
            duration,
        }));
    }
    Ok(cases)
}
