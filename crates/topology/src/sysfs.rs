//! Which machine does `/sys` describe?
//!
//! Read are `devices/system/cpu` and `devices/system/node`, of a running Linux or of a copy ([`snapshot`]
//! makes one). CPUs that are offline are left out, and the others numbered from 0.
//!
//! | what | file |
//! |---|---|
//! | CPUs | `cpu/online` |
//! | package, core, cluster | `cpu/cpuN/topology/physical_package_id`, `thread_siblings_list`, `cluster_cpus_list` |
//! | last-level cache | `cpu/cpuN/cache/indexK/{level,type,shared_cpu_list}`: the highest level |
//! | capacity | `cpu/cpuN/cpu_capacity` (only where capacities differ) |
//! | nodes, distances | `node/nodeN/{cpulist,distance}` |

use crate::{CAPACITY_SCALE, Cpu, DISTANCE_LOCAL, Topology, TopologyError};
use schedlab_stdx::limits::{SYSFS_BYTES_MAX, read_bytes, read_text};
use schedlab_units::{CpuId, CpuSet};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The machine that a folder like `/sys` describes.
pub fn read(folder: &Path) -> Result<Topology, TopologyError> {
    let system = folder.join("devices/system");
    let (cpu_dir, node_dir) = (system.join("cpu"), system.join("node"));
    let online = list(&cpu_dir.join("online"))?;
    let online: Vec<CpuId> = online.iter().collect();
    let mut nodes = nodes(&node_dir)?;
    let mut groups = Groups::default();
    let mut cpus = Vec::new();
    for &cpu in &online {
        let dir = cpu_dir.join(format!("cpu{}", cpu.0));
        let topology = dir.join("topology");
        let siblings = list(&topology.join("thread_siblings_list"))?;
        let package = number(&topology.join("physical_package_id"))?;
        // a machine that does not know it has -1 or 65535
        let package = u32::try_from(package).ok().filter(|&p| p != 0xffff).unwrap_or(0);
        let cluster = list(&topology.join("cluster_cpus_list")).ok().filter(|c| !c.is_empty());
        let llc = last_level_cache(&dir.join("cache"))?;
        // without a cache in sight the package is as good a guess as any
        let llc = llc.map_or_else(|| format!("package {package}"), |set| set.to_string());
        let node = nodes.iter().position(|(_, set, _)| set.contains(cpu)).unwrap_or(0);
        let core = siblings.to_string();
        let cluster = cluster.map_or_else(|| core.clone(), |set| set.to_string());
        let capacity = number(&dir.join("cpu_capacity")).ok().and_then(|c| u32::try_from(c).ok());
        cpus.push(Cpu {
            core: groups.id("core", core),
            // a cluster that is as wide as the cache is no level of its own; nor is one that the firmware does not tell
            cluster: groups.id("cluster", if cluster == llc { siblings.to_string() } else { cluster }),
            llc: groups.id("llc", llc),
            package: groups.id("package", package.to_string()),
            node: node as u32,
            capacity: capacity.unwrap_or(CAPACITY_SCALE).clamp(1, CAPACITY_SCALE),
        });
    }
    // nodes without CPUs (memory only) do not matter to a scheduler
    let used: Vec<usize> =
        (0..nodes.len()).filter(|&n| cpus.iter().any(|cpu| cpu.node as usize == n)).collect();
    for cpu in &mut cpus {
        cpu.node = used.iter().position(|&n| n == cpu.node as usize).unwrap_or(0) as u32;
    }
    let mut distances = Vec::new();
    for &a in &used {
        for &b in &used {
            let at = nodes[b].0 as usize;
            // the file lists possible nodes in order
            let row = std::mem::take(&mut nodes[a].2);
            let d = row.get(b).or(row.get(at)).copied().unwrap_or(DISTANCE_LOCAL);
            nodes[a].2 = row;
            distances.push(if a == b { DISTANCE_LOCAL } else { d });
        }
    }
    if used.is_empty() {
        distances.push(DISTANCE_LOCAL);
    }
    Topology::new(cpus, distances, folder.display().to_string())
}

/// Numbers for names, per level, in order of first use.
#[derive(Default)]
struct Groups(BTreeMap<&'static str, Vec<String>>);

impl Groups {
    fn id(&mut self, level: &'static str, name: String) -> u32 {
        let names = self.0.entry(level).or_default();
        let at = names.iter().position(|n| *n == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        at as u32
    }
}

/// Number, CPUs and distances of each node, by number.
fn nodes(dir: &Path) -> Result<Vec<(u32, CpuSet, Vec<u32>)>, TopologyError> {
    let mut found = Vec::new();
    // a kernel without NUMA has no such folder
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(number) = name.strip_prefix("node").and_then(|n| n.parse().ok()) else { continue };
        let path = entry.path().join("distance");
        let text = text(&path)?;
        let row: Option<Vec<u32>> = text.split_whitespace().map(|d| d.parse().ok()).collect();
        let row = row.ok_or_else(|| wrong(&path, format!("'{text}' is not a row of distances")))?;
        found.push((number, list(&entry.path().join("cpulist"))?, row));
    }
    found.sort_by_key(|node: &(u32, CpuSet, Vec<u32>)| node.0);
    Ok(found)
}

/// The CPUs that share the highest level of cache; none if the kernel does not tell.
fn last_level_cache(dir: &Path) -> Result<Option<CpuSet>, TopologyError> {
    let mut best: Option<(i64, CpuSet)> = None;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with("index") {
            continue;
        }
        let level = number(&path.join("level"))?;
        if text(&path.join("type"))? != "Instruction" && best.as_ref().is_none_or(|(l, _)| level > *l) {
            best = Some((level, list(&path.join("shared_cpu_list"))?));
        }
    }
    Ok(best.map(|(_, set)| set))
}

/// Copies what [`read`] reads from a running system into a folder, to be taken elsewhere. Returns the number of files.
pub fn snapshot(from: &Path, to: &Path) -> Result<usize, TopologyError> {
    let mut files: Vec<PathBuf> = vec!["devices/system/cpu/online".into()];
    let below = |dir: &str| -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = fs::read_dir(from.join(dir))
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| Path::new(dir).join(e.file_name()))
            .collect();
        names.sort();
        names
    };
    let last = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered =
        |path: &Path, prefix: &str| last(path).strip_prefix(prefix).is_some_and(|n| n.parse::<u32>().is_ok());
    for cpu in below("devices/system/cpu").iter().filter(|p| numbered(p, "cpu")) {
        let topology = ["physical_package_id", "thread_siblings_list", "cluster_cpus_list"];
        files.extend(topology.iter().map(|name| cpu.join("topology").join(name)));
        files.push(cpu.join("cpu_capacity"));
        let caches = below(&cpu.join("cache").display().to_string());
        for cache in caches.iter().filter(|p| numbered(p, "index")) {
            files.extend(["level", "type", "shared_cpu_list"].iter().map(|name| cache.join(name)));
        }
    }
    for node in below("devices/system/node").iter().filter(|p| numbered(p, "node")) {
        files.extend(["cpulist", "distance"].iter().map(|name| node.join(name)));
    }
    if fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(wrong(to, "there is something in it already; name a new folder".into()));
    }
    // aside first: the folder is complete or not there
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let aside = to.with_file_name(format!(".{name}.new"));
    let clear = || {
        let _ = fs::remove_dir_all(&aside); // not there, or left by one that was killed
    };
    clear();
    let copied = copy(from, &files, &aside).and_then(|copied| {
        read(&aside)?;
        fs::rename(&aside, to).map_err(|e| wrong(to, format!("cannot be written: {e}")))?;
        Ok(copied)
    });
    copied.inspect_err(|_| clear())
}

fn copy(from: &Path, files: &[PathBuf], to: &Path) -> Result<usize, TopologyError> {
    let mut copied = 0;
    for file in files {
        // what is not there (cpu_capacity on equal CPUs) is not there in the copy
        let Ok(data) = read_bytes(&from.join(file), SYSFS_BYTES_MAX) else { continue };
        let target = to.join(file);
        let parent = target.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(|e| wrong(parent, format!("cannot be created: {e}")))?;
        fs::write(&target, data).map_err(|e| wrong(&target, format!("cannot be written: {e}")))?;
        copied += 1;
    }
    Ok(copied)
}

fn wrong(path: &Path, problem: String) -> TopologyError {
    TopologyError::Sysfs { path: path.display().to_string(), problem }
}

fn text(path: &Path) -> Result<String, TopologyError> {
    let text = read_text(path, SYSFS_BYTES_MAX).map_err(|e| {
        wrong(path, format!("{e}; a folder like /sys is expected, with devices/system/cpu in it"))
    })?;
    Ok(text.trim().to_owned())
}

fn number(path: &Path) -> Result<i64, TopologyError> {
    let text = text(path)?;
    text.parse().map_err(|_| wrong(path, format!("'{text}' is not a number")))
}

fn list(path: &Path) -> Result<CpuSet, TopologyError> {
    let text = text(path)?;
    if text.is_empty() {
        return Ok(CpuSet::default());
    }
    text.parse().map_err(|_| wrong(path, format!("'{text}' is not a list of CPUs such as 0-3,8")))
}
