//! `schedlab machines`: which machines have a name, and what does one look like?

use crate::failure::{Failure, Result};
use clap::Args;
use schedlab_topology::{Cpu, Topology, presets, sysfs};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct MachinesArgs {
    /// A machine as --machine takes it: 8, packages=2,cores=4,smt=2, a preset's name, /sys or a copy of it.
    pub machine: Option<Topology>,
    /// Copy what describes this machine's CPUs from /sys into a folder, which --machine takes anywhere.
    #[arg(long, value_name = "DIR", conflicts_with = "machine")]
    pub snapshot: Option<PathBuf>,
}

pub(crate) fn machines(args: &MachinesArgs) -> Result<()> {
    if let Some(folder) = &args.snapshot {
        let files = sysfs::snapshot(Path::new("/sys"), folder).map_err(Failure::input)?;
        println!("{files} files in {}; use it with --machine {}", folder.display(), folder.display());
        let machine = sysfs::read(folder).map_err(Failure::input)?;
        print!("{}", picture(&machine));
        return Ok(());
    }
    match &args.machine {
        Some(machine) => print!("{}", picture(machine)),
        None => {
            println!("Machines with a name (--machine NAME)");
            for preset in presets::PRESETS {
                println!("  {:<10} {}", preset.name, preset.summary);
            }
            println!("\nSizes, from the outside to the inside: packages=2,nodes=2,llcs=4,cores=8,smt=2");
            println!(
                "  cluster=4 groups cores below the cache; capacity=1024*2+512*4 gives the cores different power;"
            );
            println!(
                "  distance=32,near=12 are the distances between nodes of different packages and of one"
            );
            println!(
                "\nA folder: /sys is this machine; 'schedlab machines --snapshot DIR' makes a copy to take elsewhere"
            );
        }
    }
    Ok(())
}

/// Equal neighbours are drawn once.
///
/// ```text
/// 16 CPUs: package 0-1, node 0-1
///   package 0   node 0   cache 0   cores 0-3, 2 threads each: CPUs 0-7
/// ```
fn picture(machine: &Topology) -> String {
    let cpus = machine.cpus();
    let count = |id: fn(&Cpu) -> u32| {
        let mut ids: Vec<u32> = cpus.iter().map(id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len()
    };
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut text = format!(
        "{machine}: {}, {}, {}, {}, {}\n",
        plural(cpus.len(), "CPU"),
        plural(count(|c| c.core), "core"),
        plural(count(|c| c.llc), "last-level cache"),
        plural(count(|c| c.package), "package"),
        plural(count(|c| c.node), "NUMA node"),
    );
    // one line per last-level cache and capacity
    let mut lines: Vec<(_, Vec<u32>)> = Vec::new();
    for (number, cpu) in cpus.iter().enumerate() {
        let place = (cpu.package, cpu.node, cpu.llc, cpu.capacity);
        match lines.iter_mut().find(|(p, _)| *p == place) {
            Some((_, members)) => members.push(number as u32),
            None => lines.push((place, vec![number as u32])),
        }
    }
    lines.sort_unstable();
    const SHOWN: usize = 40;
    for ((package, node, llc, capacity), members) in lines.iter().take(SHOWN) {
        let group = |id: fn(&Cpu) -> u32| {
            let mut ids: Vec<u32> = members.iter().map(|m| id(&cpus[*m as usize])).collect();
            ids.sort_unstable();
            ids.dedup();
            ids.len()
        };
        let (cores, clusters) = (group(|c| c.core), group(|c| c.cluster));
        let set: schedlab_units::CpuSet = members.iter().map(|m| schedlab_units::CpuId(*m)).collect();
        text.push_str(&format!(
            "  package {package:<3} node {node:<3} cache {llc:<3} CPUs {set:<12} {}",
            plural(cores, "core")
        ));
        if members.len() > cores {
            text.push_str(&format!(", {} threads each", members.len() / cores));
        }
        if clusters < cores {
            text.push_str(&format!(", {}", plural(clusters, "cluster")));
        }
        if machine.is_asymmetric() {
            text.push_str(&format!(", capacity {capacity}"));
        }
        text.push('\n');
    }
    if lines.len() > SHOWN {
        text.push_str(&format!("  and {} more caches\n", lines.len() - SHOWN));
    }
    let nodes = machine.nr_nodes();
    if nodes > 1 {
        text.push_str("  distances\n");
        for a in 0..nodes.min(16) {
            let row: Vec<String> =
                (0..nodes.min(16)).map(|b| format!("{:>3}", machine.distance(a, b))).collect();
            text.push_str(&format!("    node {a:<3} {}\n", row.join(" ")));
        }
    }
    text
}
