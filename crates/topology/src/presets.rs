//! Which machines have a name?

use crate::{Topology, TopologyError};

/// A machine with a name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// What `--machine` takes.
    pub name: &'static str,
    /// What it is, and where its numbers are from.
    pub summary: &'static str,
    /// The parts that it consists of, one package each unless the text has several.
    parts: &'static [&'static str],
    /// Distances between nodes, row by row, where the parts do not say them.
    distances: &'static [u32],
}

/// Of `mesh`: a link is 16 long and two are 22, as AMD's firmware of that time has it. Nodes 0 and 3 have the links
/// that the paper's text names (section 3.2). Those of the others are chosen so that no two nodes are more than two
/// links apart.
#[rustfmt::skip]
const MESH: [u32; 64] = [
    10, 16, 16, 22, 16, 22, 16, 22,
    16, 10, 22, 16, 22, 22, 22, 22,
    16, 22, 10, 16, 22, 22, 22, 22,
    22, 16, 16, 10, 16, 16, 22, 16,
    16, 22, 22, 16, 10, 22, 22, 22,
    22, 22, 22, 16, 22, 10, 16, 22,
    16, 22, 22, 22, 22, 16, 10, 16,
    22, 22, 22, 16, 22, 22, 16, 10,
];

/// All of them.
pub const PRESETS: [Preset; 7] = [
    Preset {
        name: "laptop",
        summary: "hybrid laptop: 4 big cores with a cache of their own, 4 small ones in a cluster (without SMT, as \
            Intel's Lunar Lake; the small cores' capacity of 600 is a round figure, not a measurement)",
        parts: &["cores=4", "cores=4,cluster=4,capacity=600"],
        distances: &[],
    },
    Preset {
        name: "phone",
        summary: "2 big, 2 middle, 4 little cores that share a cache (capacities of Google's gs101 device tree: 1024, \
            620, 250)",
        parts: &["cores=8,capacity=250*4+620*2+1024*2"],
        distances: &[],
    },
    Preset {
        name: "desktop",
        summary: "8 cores with SMT and one last-level cache: 16 CPUs",
        parts: &["cores=8,smt=2"],
        distances: &[],
    },
    Preset {
        name: "server",
        summary: "2 sockets of 16 cores with SMT, a NUMA node each, distance 21 as Intel's firmware says: 64 CPUs",
        parts: &["packages=2,cores=16,smt=2,distance=21"],
        distances: &[],
    },
    Preset {
        name: "multi-llc",
        summary: "1 socket, 16 last-level caches of 8 cores (AMD's server layout without SMT): 128 CPUs",
        parts: &["llcs=16,cores=8"],
        distances: &[],
    },
    Preset {
        name: "warp",
        summary: "WARP's example: 16 sockets of 4 cores that share a cache, a NUMA node each: 64 CPUs",
        parts: &["packages=16,cores=4"],
        distances: &[],
    },
    Preset {
        name: "mesh",
        summary: "8 nodes of 8 CPUs, some linked and some two links apart, as the machine of 'The Linux Scheduler: a \
            Decade of Wasted Cores' (EuroSys 2016): 64 CPUs",
        parts: &["packages=8,cores=8"],
        distances: &MESH,
    },
];

impl Preset {
    /// The machine.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let mut cpus = Vec::new();
        let (mut distances, mut cores, mut llcs, mut clusters) = (Vec::new(), 0, 0, 0);
        for part in self.parts {
            let part: Topology = part.parse()?;
            let shifted = part.cpus().iter().map(|cpu| {
                let mut cpu = *cpu;
                // parts lie side by side in one package
                (cpu.core, cpu.llc, cpu.cluster) = (cpu.core + cores, cpu.llc + llcs, cpu.cluster + clusters);
                cpu
            });
            cpus.extend(shifted);
            let next = |id: fn(&crate::Cpu) -> u32| cpus.iter().map(id).max().map_or(0, |last| last + 1);
            (cores, llcs, clusters) = (next(|c| c.core), next(|c| c.llc), next(|c| c.cluster));
            distances = part.distances().to_vec();
        }
        if !self.distances.is_empty() {
            distances = self.distances.to_vec();
        }
        Topology::new(cpus, distances, self.name.to_owned())
    }
}

/// The preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// All names, separated by commas.
pub(crate) fn names() -> String {
    PRESETS.map(|preset| preset.name).join(", ")
}
