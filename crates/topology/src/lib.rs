//! Which CPUs share what?
//!
//! A [`Topology`] says for each CPU which core, cluster, last-level cache, package and NUMA node it belongs
//! to, and its capacity (1024 = the biggest CPU), and how far the nodes are from each other. It is what the
//! machine tells a kernel at boot; schedulers build their domains from it.
//!
//! ```
//! use schedlab_topology::Topology;
//! // 2 packages, each with 2 last-level caches of 4 cores with 2 SMT siblings: 32 CPUs.
//! let server: Topology = "packages=2,llcs=2,cores=4,smt=2".parse().unwrap();
//! assert_eq!(server.nr_cpus(), 32);
//! assert_eq!(server.cpus()[1].core, server.cpus()[0].core); // siblings are neighbours
//! assert_eq!(server.cpus()[16].package, 1);
//! assert_eq!(server.distance(0, 1), 20); // one NUMA node per package
//! ```
//!
//! A machine is written as a number, as a list of sizes ([`mod@text`]), as the name of a preset
//! ([`presets`]), or as a folder: `/sys` of a running Linux or a snapshot of it ([`sysfs`]).

pub mod presets;
pub mod sysfs;
mod text;

use schedlab_units::CpuId;
use serde::{Deserialize, Serialize};

/// Where one CPU sits. The numbers are identifiers: two CPUs share a level iff they have the same number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Physical core; SMT siblings have the same.
    pub core: u32,
    /// Cores that share something below the last-level cache (a second-level cache, say); the core itself if none do.
    pub cluster: u32,
    /// Last-level cache.
    pub llc: u32,
    /// Package (socket).
    pub package: u32,
    /// NUMA node.
    pub node: u32,
    /// Relative power, 1024 = the biggest. Work takes 1024 / capacity times as long here.
    pub capacity: u32,
}

/// The CPUs of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    cpus: Vec<Cpu>,
    nr_nodes: u32,
    /// `nr_nodes` x `nr_nodes`.
    distances: Vec<u32>,
    /// How it was written.
    label: String,
}

/// Most CPUs a machine can have: what the kernel object is built for at most (NR_CPUS).
pub const CPUS_MAX: u32 = 1024;

/// Most NUMA nodes (the port's `1 << CONFIG_NODES_SHIFT`).
pub const NODES_MAX: u32 = 64;

/// Capacity of the biggest CPU (kernel: SCHED_CAPACITY_SCALE).
pub const CAPACITY_SCALE: u32 = 1024;

/// Distance of a node from itself, and from another unless stated (kernel: LOCAL_DISTANCE, REMOTE_DISTANCE).
pub const DISTANCE_LOCAL: u32 = 10;
/// See [`DISTANCE_LOCAL`].
pub const DISTANCE_REMOTE: u32 = 20;

/// Why a machine cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// No CPU at all.
    #[error("a machine needs at least 1 CPU, 0 were asked for")]
    NoCpu,
    /// More CPUs than supported.
    #[error("{0} CPUs were asked for; at most {CPUS_MAX} are supported")]
    TooMany(u64),
    /// More nodes than supported.
    #[error("{0} NUMA nodes were asked for; at most {NODES_MAX} are supported")]
    TooManyNodes(u64),
    /// Not understood.
    #[error(
        "machine '{text}': {problem}; write for example 8, or packages=2,llcs=2,cores=4,smt=2, or {}, or a folder \
            like /sys",
        presets::names()
    )]
    Syntax {
        /// What was given.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A folder that does not describe CPUs.
    #[error("{path}: {problem}")]
    Sysfs {
        /// The file or folder.
        path: String,
        /// What is wrong, and what to do.
        problem: String,
    },
}

impl Topology {
    /// `nr_cpus` equal cores without SMT that share one last-level cache.
    pub fn flat(nr_cpus: u32) -> Result<Topology, TopologyError> {
        Topology::regular(1, 1, nr_cpus, 1)
    }

    /// `packages` x `llcs` per package x `cores` per LLC x `smt` siblings per core; one NUMA node per package.
    pub fn regular(packages: u32, llcs: u32, cores: u32, smt: u32) -> Result<Topology, TopologyError> {
        text::Sizes { packages, llcs, cores, smt, ..text::Sizes::default() }.build()
    }

    /// From its CPUs. `distances` has a row and a column for each node, 0 to the highest that a CPU is in. A
    /// cache that spans nodes is cut at their borders, as Linux on x86 does it for sub-NUMA clusters: a
    /// scheduler takes nodes for the wider level.
    ///
    /// # Errors
    /// No or too many CPUs or nodes, or a table of another size.
    pub fn new(cpus: Vec<Cpu>, distances: Vec<u32>, label: String) -> Result<Topology, TopologyError> {
        let cpus = cut_caches(cpus);
        let nr_nodes = cpus.iter().map(|cpu| u64::from(cpu.node) + 1).max().ok_or(TopologyError::NoCpu)?;
        if cpus.len() as u64 > u64::from(CPUS_MAX) {
            return Err(TopologyError::TooMany(cpus.len() as u64));
        }
        if nr_nodes > u64::from(NODES_MAX) {
            return Err(TopologyError::TooManyNodes(nr_nodes));
        }
        if distances.len() as u64 != nr_nodes * nr_nodes {
            let problem = format!(
                "{} distances for {nr_nodes} NUMA nodes, {} are needed",
                distances.len(),
                nr_nodes * nr_nodes
            );
            return Err(TopologyError::Syntax { text: label, problem });
        }
        Ok(Topology { cpus, nr_nodes: nr_nodes as u32, distances, label })
    }

    /// Number of CPUs, 1..=[`CPUS_MAX`].
    pub fn nr_cpus(&self) -> u32 {
        self.cpus.len() as u32
    }
    /// The CPUs, by number.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }
    /// All CPU numbers in order.
    pub fn ids(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.nr_cpus()).map(CpuId)
    }
    /// Number of NUMA nodes, 1..=[`NODES_MAX`].
    pub fn nr_nodes(&self) -> u32 {
        self.nr_nodes
    }
    /// How far node `b` is from node `a`; [`DISTANCE_LOCAL`] = the same.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn distance(&self, a: u32, b: u32) -> u32 {
        self.distances[(a * self.nr_nodes + b) as usize]
    }
    /// All distances, row by row.
    pub fn distances(&self) -> &[u32] {
        &self.distances
    }
    /// Whether CPUs differ in capacity.
    pub fn is_asymmetric(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.capacity != self.cpus[0].capacity)
    }
}

/// Caches within nodes, numbered in order of first use.
fn cut_caches(mut cpus: Vec<Cpu>) -> Vec<Cpu> {
    let mut pieces: Vec<(u32, u32)> = Vec::new();
    for cpu in &mut cpus {
        let piece = (cpu.llc, cpu.node);
        let at = pieces.iter().position(|p| *p == piece).unwrap_or_else(|| {
            pieces.push(piece);
            pieces.len() - 1
        });
        cpu.llc = at as u32;
    }
    cpus
}

#[cfg(test)]
mod tests;
