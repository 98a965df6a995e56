//! How is a machine written? A number of CPUs, or sizes from the outside to the inside.
//!
//! | key | meaning | unless stated |
//! |---|---|---|
//! | `packages` (`sockets`) | packages | 1 |
//! | `nodes` | NUMA nodes in each package (a cache that spans nodes is cut); 0 = the whole machine is one node | 1 |
//! | `llcs` | last-level caches in each package | 1 |
//! | `cores` | cores at each last-level cache | 1 |
//! | `smt` (`threads`) | hardware threads of each core | 1 |
//! | `cluster` | cores of each cluster, a level between core and last-level cache | 1 |
//! | `capacity` | capacities of the cores at each last-level cache, `1024*2+512*4`, or of all, `512` | 1024 |
//! | `distance`, `near` | between nodes of different packages, of one package | 20, 12 |
//!
//! ```text
//! packages=2,nodes=2,llcs=4,cores=8,smt=2,distance=32     128 CPUs, 4 nodes, an AMD server with two nodes per socket
//! cores=6,capacity=1024*2+512*4                           a phone's two big and four little cores
//! ```

use crate::{
    CAPACITY_SCALE, CPUS_MAX, Cpu, DISTANCE_LOCAL, DISTANCE_REMOTE, NODES_MAX, Topology, TopologyError,
};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Distance between nodes of one package unless stated (as AMD's servers say).
const DISTANCE_NEAR: u32 = 12;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) packages: u32,
    pub(crate) nodes: u32,
    pub(crate) llcs: u32,
    pub(crate) cores: u32,
    pub(crate) smt: u32,
    pub(crate) cluster: u32,
    /// Of the cores at each last-level cache; the last one holds for the rest.
    pub(crate) capacities: Vec<u32>,
    pub(crate) distance: u32,
    pub(crate) near: u32,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            packages: 1,
            nodes: 1,
            llcs: 1,
            cores: 1,
            smt: 1,
            cluster: 1,
            capacities: Vec::new(),
            distance: DISTANCE_REMOTE,
            near: DISTANCE_NEAR,
        }
    }
}

impl Sizes {
    pub(crate) fn build(&self) -> Result<Topology, TopologyError> {
        let product = |factors: &[u32]| factors.iter().fold(1u64, |n, &k| n.saturating_mul(u64::from(k)));
        match product(&[self.packages, self.llcs, self.cores, self.smt]) {
            0 => return Err(TopologyError::NoCpu),
            n if n > u64::from(CPUS_MAX) => return Err(TopologyError::TooMany(n)),
            _ => {}
        }
        let wrong = |problem: String| Err(TopologyError::Syntax { text: self.to_string(), problem });
        if self.nodes > 1 && !(self.llcs * self.cores).is_multiple_of(self.nodes) {
            return wrong(format!(
                "{} cores of a package cannot be split evenly into {} nodes",
                self.llcs * self.cores,
                self.nodes
            ));
        }
        if self.cluster == 0 || !self.cores.is_multiple_of(self.cluster) {
            return wrong(format!(
                "{} cores cannot be split evenly into clusters of {}",
                self.cores, self.cluster
            ));
        }
        let nr_nodes = if self.nodes == 0 { 1 } else { product(&[self.packages, self.nodes]) };
        if nr_nodes > u64::from(NODES_MAX) {
            return Err(TopologyError::TooManyNodes(nr_nodes));
        }
        if self.distance <= DISTANCE_LOCAL || self.near <= DISTANCE_LOCAL {
            return wrong(format!(
                "{DISTANCE_LOCAL} is a node's distance from itself; from another it is more"
            ));
        }
        let in_package = self.llcs * self.cores;
        let cpus = (0..self.packages * in_package * self.smt).map(|cpu| {
            let core = cpu / self.smt;
            let llc = core / self.cores;
            let package = core / in_package;
            let node = match self.nodes {
                0 => 0,
                n => package * n + core % in_package / (in_package / n),
            };
            let at = (core % self.cores) as usize;
            let capacity = self.capacities.get(at).or(self.capacities.last()).copied();
            Cpu {
                core,
                cluster: core / self.cluster,
                llc,
                package,
                node,
                capacity: capacity.unwrap_or(CAPACITY_SCALE),
            }
        });
        let cpus: Vec<Cpu> = cpus.collect();
        let nr_nodes = nr_nodes as u32;
        let distances = (0..nr_nodes * nr_nodes).map(|i| {
            let (a, b) = (i / nr_nodes, i % nr_nodes);
            match () {
                () if a == b => DISTANCE_LOCAL,
                () if a / self.nodes == b / self.nodes => self.near,
                () => self.distance,
            }
        });
        Topology::new(cpus, distances.collect(), self.to_string())
    }
}

/// The shortest text that says the same.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Sizes { cores: self.cores, ..Sizes::default() };
        if *self == plain {
            return write!(f, "{}", self.cores);
        }
        write!(f, "packages={},llcs={},cores={},smt={}", self.packages, self.llcs, self.cores, self.smt)?;
        let unless = Sizes::default();
        for (name, value, default) in [
            ("nodes", self.nodes, unless.nodes),
            ("cluster", self.cluster, unless.cluster),
            ("distance", self.distance, unless.distance),
            ("near", self.near, unless.near),
        ] {
            if value != default {
                write!(f, ",{name}={value}")?;
            }
        }
        let mut rest = &self.capacities[..];
        while let Some(&first) = rest.first() {
            let times = rest.iter().take_while(|c| **c == first).count();
            let lead = if rest.len() == self.capacities.len() { ",capacity=" } else { "+" };
            write!(f, "{lead}{first}*{times}")?;
            rest = &rest[times..];
        }
        Ok(())
    }
}

fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let mut sizes = Sizes::default();
    for part in text.split(',') {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is not KEY=NUMBER"))?;
        let (key, value) = (key.trim(), value.trim());
        if key == "capacity" {
            sizes.capacities = parse_capacities(value)?;
            continue;
        }
        let number: u32 = value.parse().map_err(|_| format!("'{value}' is not a number"))?;
        let place = match key {
            "packages" | "sockets" => &mut sizes.packages,
            "nodes" => &mut sizes.nodes,
            "llcs" => &mut sizes.llcs,
            "cores" => &mut sizes.cores,
            "smt" | "threads" => &mut sizes.smt,
            "cluster" => &mut sizes.cluster,
            "distance" => &mut sizes.distance,
            "near" => &mut sizes.near,
            other => {
                return Err(format!(
                    "'{other}' is none of packages, nodes, llcs, cores, smt, cluster, capacity, distance, near"
                ));
            }
        };
        *place = number;
    }
    if sizes.capacities.len() > sizes.cores as usize {
        return Err(format!("{} capacities for {} cores", sizes.capacities.len(), sizes.cores));
    }
    Ok(sizes)
}

/// `1024*2+512*4`
fn parse_capacities(text: &str) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    for part in text.split('+') {
        let (capacity, times) = part.split_once('*').unwrap_or((part, "1"));
        let number = |text: &str, what: &str, max: u32| match text.trim().parse::<u32>() {
            Ok(n) if (1..=max).contains(&n) => Ok(n),
            _ => Err(format!("'{text}' is not a {what} from 1 to {max}")),
        };
        let capacity = number(capacity, "capacity", CAPACITY_SCALE)?;
        let times = number(times, "number of cores", CPUS_MAX)?;
        all.extend(std::iter::repeat_n(capacity, times as usize));
    }
    Ok(all)
}

impl FromStr for Topology {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Topology, TopologyError> {
        let text = text.trim();
        if let Ok(count) = text.parse::<u64>() {
            return Topology::flat(u32::try_from(count).map_err(|_| TopologyError::TooMany(count))?);
        }
        if let Some(preset) = crate::presets::find(text) {
            return preset.build();
        }
        if text.contains('/') || Path::new(text).is_dir() {
            return crate::sysfs::read(Path::new(text));
        }
        let syntax = |problem| TopologyError::Syntax { text: text.to_string(), problem };
        parse_sizes(text).map_err(syntax)?.build()
    }
}

/// The text that it can be parsed from again.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}
