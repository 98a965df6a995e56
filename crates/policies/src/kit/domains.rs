//! Scheduling domains: at each level of the machine, the CPUs among which load is balanced, in groups that
//! are compared.
//!
//! ```text
//! packages=2,llcs=1,cores=2,smt=2   cpu0: core {0,1}: groups 0 | 1
//!                                         cache {0-3}: groups 0,1 | 2,3
//!                                         node {0-7}: groups 0-3 | 4-7
//! ```
//!
//! A level that would hold the same CPUs as the one below it is left out, as the kernel does.

use schedlab_topology::Topology;
use schedlab_units::CpuId;

/// What the CPUs of a domain share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// A core: SMT siblings.
    Core,
    /// A last-level cache or a package.
    Package,
    /// The machine: several packages.
    Machine,
}

/// One domain.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub(crate) level: Level,
    pub(crate) span: Vec<CpuId>,
    pub(crate) groups: Vec<Group>,
}

/// CPUs that are compared as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) cpus: Vec<CpuId>,
    /// Sum of the CPUs' power; 1024 = a CPU that has a core for itself.
    pub(crate) power: u64,
}

/// Power of one CPU that has its core for itself.
pub(crate) const POWER: u64 = 1024;
/// Power of a core with several siblings, all together (kernel: `smt_gain` of 2.6.32; 1.10 to 1.15 before).
const CORE_SMT_POWER: u64 = 1178;

/// The domains of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domains {
    pub(crate) domains: Vec<Domain>,
    /// Per CPU: its domains, lowest level first.
    pub(crate) of_cpu: Vec<Vec<usize>>,
}

impl Domains {
    pub(crate) fn new(topology: &Topology) -> Domains {
        let nr_cpus = topology.nr_cpus() as usize;
        let cpus = topology.cpus();
        let key = |level: usize, cpu: usize| match level {
            0 => cpus[cpu].core,
            1 => cpus[cpu].llc,
            2 => cpus[cpu].package,
            _ => 0,
        };
        let smt = |cpu: usize| cpus.iter().filter(|c| c.core == cpus[cpu].core).count() as u64;
        let mut out = Domains { domains: Vec::new(), of_cpu: vec![Vec::new(); nr_cpus] };
        // the groups of the next domain: spans of the level below
        let mut below: Vec<Vec<usize>> = (0..nr_cpus).map(|cpu| vec![cpu]).collect();
        for level in 0..4 {
            let mut spans: Vec<(u32, Vec<usize>)> = Vec::new();
            for (group, members) in below.iter().enumerate() {
                let key = key(level, members[0]);
                match spans.iter_mut().find(|(k, _)| *k == key) {
                    Some((_, groups)) => groups.push(group),
                    None => spans.push((key, vec![group])),
                }
            }
            let mut next = Vec::new();
            for (_, groups) in spans {
                let span: Vec<usize> = groups.iter().flat_map(|&g| below[g].iter().copied()).collect();
                if groups.len() > 1 {
                    let index = out.domains.len();
                    span.iter().for_each(|&cpu| out.of_cpu[cpu].push(index));
                    let groups = groups.iter().map(|&g| {
                        let power_of = |&cpu: &usize| match smt(cpu) {
                            1 => POWER,
                            siblings => CORE_SMT_POWER / siblings,
                        };
                        Group {
                            cpus: below[g].iter().map(|&cpu| CpuId(cpu as u32)).collect(),
                            power: below[g].iter().map(power_of).sum(),
                        }
                    });
                    out.domains.push(Domain {
                        level: [Level::Core, Level::Package, Level::Package, Level::Machine][level],
                        span: span.iter().map(|&cpu| CpuId(cpu as u32)).collect(),
                        groups: groups.collect(),
                    });
                }
                next.push(span);
            }
            below = next;
        }
        out
    }

    /// The CPUs that share a cache with `cpu` (its highest domain below the machine level), or all of its only domain.
    pub(crate) fn cache_of(&self, cpu: CpuId) -> &[CpuId] {
        let mut domains = self.of_cpu[cpu.index()].iter().map(|&d| &self.domains[d]);
        domains.rfind(|d| d.level < Level::Machine).map_or(&[], |d| &d.span)
    }
}
