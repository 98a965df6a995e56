//! Which CPUs share what?
//!
//! A [`Topology`] says for each CPU which core, last-level cache, package and NUMA node it belongs to, and its capacity
//! (1024 = the biggest CPU). It is what the machine tells a kernel at boot; schedulers build their domains from it.
//!
//! ```
//! use schedlab_topology::Topology;
//! // 2 packages, each with 2 last-level caches of 4 cores with 2 SMT siblings: 32 CPUs.
//! let server: Topology = "packages=2,llcs=2,cores=4,smt=2".parse().unwrap();
//! assert_eq!(server.nr_cpus(), 32);
//! assert_eq!(server.cpus()[1].core, server.cpus()[0].core); // siblings are neighbours
//! assert_eq!(server.cpus()[16].package, 1);
//! ```

use schedlab_units::CpuId;
use std::fmt;
use std::str::FromStr;

/// Where one CPU sits. The numbers are identifiers: two CPUs share a level iff they have the same number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Physical core; SMT siblings have the same.
    pub core: u32,
    /// Last-level cache.
    pub llc: u32,
    /// Package (socket).
    pub package: u32,
    /// NUMA node.
    pub node: u32,
    /// Relative power, 1024 = the biggest.
    pub capacity: u32,
}

/// The CPUs of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cpus: Vec<Cpu>,
}

/// Most CPUs a machine can have: what the kernel object is built for at most (NR_CPUS).
pub const CPUS_MAX: u32 = 1024;

/// Capacity of the biggest CPU (kernel: SCHED_CAPACITY_SCALE).
pub const CAPACITY_SCALE: u32 = 1024;

/// Why a machine cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// No CPU at all.
    #[error("a machine needs at least 1 CPU, 0 were asked for")]
    NoCpu,
    /// More CPUs than supported.
    #[error("{0} CPUs were asked for; at most {CPUS_MAX} are supported")]
    TooMany(u64),
    /// Not understood.
    #[error("machine '{text}': {problem}; write for example 8, or packages=2,llcs=2,cores=4,smt=2")]
    Syntax {
        /// What was given.
        text: String,
        /// What is wrong with it.
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
        let total =
            [llcs, cores, smt].iter().fold(u64::from(packages), |n, &k| n.saturating_mul(u64::from(k)));
        match total {
            0 => return Err(TopologyError::NoCpu),
            n if n > u64::from(CPUS_MAX) => return Err(TopologyError::TooMany(n)),
            _ => {}
        }
        let cpus = (0..total as u32)
            .map(|cpu| {
                let core = cpu / smt;
                let llc = core / cores;
                let package = llc / llcs;
                Cpu { core, llc, package, node: package, capacity: CAPACITY_SCALE }
            })
            .collect();
        Ok(Topology { cpus })
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
}

impl FromStr for Topology {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Topology, TopologyError> {
        let syntax = |problem: String| TopologyError::Syntax { text: text.to_string(), problem };
        if let Ok(count) = text.trim().parse::<u64>() {
            return Topology::flat(u32::try_from(count).map_err(|_| TopologyError::TooMany(count))?);
        }
        let (mut packages, mut llcs, mut cores, mut smt) = (1, 1, 1, 1);
        for part in text.split(',') {
            let (key, value) =
                part.split_once('=').ok_or_else(|| syntax(format!("'{part}' is not KEY=NUMBER")))?;
            let value: u32 =
                value.trim().parse().map_err(|_| syntax(format!("'{value}' is not a number")))?;
            match key.trim() {
                "packages" | "sockets" => packages = value,
                "llcs" => llcs = value,
                "cores" => cores = value,
                "smt" | "threads" => smt = value,
                other => return Err(syntax(format!("'{other}' is none of packages, llcs, cores, smt"))),
            }
        }
        Topology::regular(packages, llcs, cores, smt)
    }
}

/// The shortest text that parses back to the same machine, if it is regular; else its size.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.cpus.last().expect("a machine has a CPU");
        let (packages, llcs, cores) = (last.package + 1, last.llc + 1, last.core + 1);
        let (per_package, per_llc, smt) = (llcs / packages, cores / llcs, self.nr_cpus() / cores);
        match Topology::regular(packages, per_package.max(1), per_llc.max(1), smt.max(1)) {
            Ok(t) if t == *self && packages == 1 && llcs == 1 && smt == 1 => write!(f, "{}", self.nr_cpus()),
            Ok(t) if t == *self => {
                write!(f, "packages={packages},llcs={per_package},cores={per_llc},smt={smt}")
            }
            _ => write!(f, "{} CPUs, irregular", self.nr_cpus()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        assert_eq!("0".parse::<Topology>(), Err(TopologyError::NoCpu));
        assert_eq!("1025".parse::<Topology>(), Err(TopologyError::TooMany(1025)));
        assert_eq!("99999999999".parse::<Topology>(), Err(TopologyError::TooMany(99_999_999_999)));
        assert_eq!("packages=64,cores=64".parse::<Topology>(), Err(TopologyError::TooMany(4096)));
        assert!(matches!("eight".parse::<Topology>(), Err(TopologyError::Syntax { .. })));
        assert_eq!("1024".parse::<Topology>().unwrap().nr_cpus(), 1024);
    }

    #[test]
    fn text_form_round_trips() {
        for text in ["1", "8", "packages=2,llcs=2,cores=4,smt=2", "packages=16,llcs=1,cores=4,smt=1"] {
            assert_eq!(text.parse::<Topology>().unwrap().to_string(), text);
        }
    }
}
