//! What would a scheduler's user-space part have set before it loaded the BPF part?
//!
//! A sched_ext scheduler is two programs. The one in user space fills in what only it knows (how many CPUs
//! there are, sizes of buffers, the machine's topology) and what its command line says. Here it is replaced
//! by defaults, each stated in the report and replaceable by `--param NAME=VALUE`. For a scheduler that is
//! not known by name the general ones below are all there is.

use schedlab_linux::abi::Topo;

mod lavd;

/// The machine, as a user-space part finds it in /sys.
pub(super) struct Hardware<'a> {
    pub(super) cpus: &'a [Topo],
    /// Bytes of one of the scheduler's structures.
    pub(super) size_of: &'a dyn Fn(&str) -> Option<u32>,
}

/// A program of type "syscall" that the user-space part runs before the scheduler is attached.
pub(super) struct Call {
    pub(super) program: String,
    /// Its argument.
    pub(super) context: Vec<u8>,
    /// Unless empty: written to where the program's answer, at the start of the argument, points; that
    /// address is then the start of the next call's argument.
    pub(super) mask: Vec<u64>,
}

/// What is set.
#[derive(Default)]
pub(super) struct UserSpace {
    /// Path of the variable and value, in this order.
    pub(super) settings: Vec<(String, String)>,
    /// The kernel must call init() on the CPU whose number is in this variable.
    pub(super) init_on: Option<&'static str>,
    /// What is to be run before the scheduler is attached.
    pub(super) calls: Vec<Call>,
    /// Maps whose number of elements the half sets.
    pub(super) entries: Vec<(&'static str, u32)>,
    /// Arrays of maps that the user-space part fills, with how many.
    pub(super) filled: Vec<(&'static str, u32)>,
    /// It decides while the scheduler runs, as scx_userland's does: a thread stands for it.
    pub(super) decides: bool,
    /// What the user-space part does that nobody does here.
    pub(super) missing: Vec<&'static str>,
}

/// Length of a scheduler's buffer for the exit's dump: `UEI_DUMP_DFL_LEN` of the kernel's user_exit_info.h.
const DUMP_LENGTH: u32 = 32768;

/// The defaults for a scheduler: by its name in `struct sched_ext_ops`, and by its variables' names.
pub(super) fn defaults(name: &str, variables: &[&str], machine: &Hardware<'_>) -> UserSpace {
    let mut user_space = UserSpace::default();
    let nr_cpus = machine.cpus.len();
    let mut set = |path: String, value: String| user_space.settings.push((path, value));
    for variable in variables {
        match *variable {
            // libbpf_num_possible_cpus(), or the highest CPU number and one
            "nr_cpu_ids" | "nr_cpus" | "nr_possible_cpus" | "nr_cpus_possible" => {
                set((*variable).to_owned(), nr_cpus.to_string());
            }
            // scx_utils::Topology, by the names that its users have
            "nr_llcs" | "nr_llc" => set((*variable).to_owned(), machine.count(|cpu| cpu.llc).to_string()),
            "nr_nodes" | "nr_numa_nodes" | "nr_node_ids" => {
                set((*variable).to_owned(), machine.count(|cpu| cpu.node).to_string());
            }
            "smt_enabled" => set((*variable).to_owned(), machine.has_smt().to_string()),
            "cpu_llc_ids" => {
                let caches = machine.cpus.iter().enumerate();
                caches.for_each(|(i, cpu)| set(format!("{variable}[{i}]"), cpu.llc.to_string()));
            }
            "cpu_node_ids" => {
                let nodes = machine.cpus.iter().enumerate();
                nodes.for_each(|(i, cpu)| set(format!("{variable}[{i}]"), cpu.node.to_string()));
            }
            // UEI_SET_SIZE()
            _ if variable.ends_with("_dump_len") => set((*variable).to_owned(), DUMP_LENGTH.to_string()),
            // scx_utils::import_enums!(): the kernel's enumerators, by name
            _ if variable.starts_with("__SCX_") => {
                set((*variable).to_owned(), variable.trim_start_matches("__").to_owned());
            }
            _ => {}
        }
    }
    let has = |variable: &str| variables.contains(&variable);
    match name {
        "central" => {
            user_space.init_on = Some("central_cpu");
            user_space.slice("slice_ns", &has);
        }
        "qmap" => {
            user_space.slice("slice_ns", &has);
            // from 7.1 on
            if has("max_tasks") {
                user_space.set("max_tasks", 16384);
            }
        }
        "flatcg" => user_space.slice("cgrp_slice_ns", &has),
        "pair" => pair(&mut user_space, machine),
        "userland" => {
            user_space.set("num_possible_cpus", nr_cpus);
            user_space.decides = true;
            user_space.missing.push("its half decides in a thread of the kernel, which takes no time: -b 8");
        }
        "bpfland" if has("preferred_cpus") => bpfland_1_1(&mut user_space, machine),
        "bpfland" => bpfland(&mut user_space, machine),
        "lavd" if has("pco_table") => lavd::from_1_1(&mut user_space, machine),
        "lavd" => lavd::until_1_0(&mut user_space, machine),
        "rusty" => rusty(&mut user_space, machine),
        _ => {}
    }
    user_space
}

impl Hardware<'_> {
    /// How many different ones there are.
    fn count(&self, of: fn(&Topo) -> u32) -> usize {
        self.cpus.iter().map(of).collect::<std::collections::BTreeSet<_>>().len()
    }

    fn has_smt(&self) -> bool {
        self.cpus.iter().enumerate().any(|(i, cpu)| self.cpus[..i].iter().any(|other| other.core == cpu.core))
    }

    /// Groups of CPUs that share a last-level cache and have the same capacity, in the order of their first CPU.
    fn domains(&self) -> Vec<Vec<usize>> {
        let mut found: Vec<(u32, u32, Vec<usize>)> = Vec::new();
        for (number, cpu) in self.cpus.iter().enumerate() {
            match found.iter_mut().find(|(llc, capacity, _)| (*llc, *capacity) == (cpu.llc, cpu.capacity)) {
                Some((_, _, members)) => members.push(number),
                None => found.push((cpu.llc, cpu.capacity, vec![number])),
            }
        }
        found.into_iter().map(|(_, _, members)| members).collect()
    }

    fn strongest(&self) -> u32 {
        self.cpus.iter().map(|cpu| cpu.capacity).max().unwrap_or(1024)
    }
}

/// The words of a CPU mask that are not 0.
fn words(cpus: impl IntoIterator<Item = usize>) -> Vec<(usize, u64)> {
    let mut found: Vec<(usize, u64)> = Vec::new();
    for cpu in cpus {
        match found.iter_mut().find(|(word, _)| *word == cpu / 64) {
            Some((_, bits)) => *bits |= 1 << (cpu % 64),
            None => found.push((cpu / 64, 1 << (cpu % 64))),
        }
    }
    found
}

impl UserSpace {
    /// The kernel's default slice: the loaders of the kernel's schedulers ask for it by name.
    fn slice(&mut self, variable: &str, has: &dyn Fn(&str) -> bool) {
        if has(variable) {
            self.set(variable, "SCX_SLICE_DFL");
        }
    }

    fn set(&mut self, path: impl Into<String>, value: impl ToString) {
        self.settings.push((path.into(), value.to_string()));
    }

    fn call(&mut self, program: &str, words: &[i32]) {
        let context = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.calls.push(Call { program: program.to_owned(), context, mask: Vec::new() });
    }

    fn call_with(&mut self, program: &str, words: &[u64], mask: Vec<u64>) {
        let context = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.calls.push(Call { program: program.to_owned(), context, mask });
    }

    fn mask(&mut self, path: &str, cpus: impl IntoIterator<Item = usize>) {
        for (word, bits) in words(cpus) {
            self.set(format!("{path}[{word}]"), format!("{bits:#x}"));
        }
    }
}

/// scx_pair: the first half of the CPUs with the second.
fn pair(user_space: &mut UserSpace, machine: &Hardware<'_>) {
    /// Of the 4,096 queues that its user-space part makes; it takes the next free one for each control group.
    const QUEUES: u32 = 256;
    let pairs = machine.cpus.len() / 2;
    user_space.set("pair_batch_dur_ns", "SCX_SLICE_DFL");
    for cpu in 0..pairs * 2 {
        user_space.set(format!("pair_cpu[{cpu}]"), (cpu + pairs) % (2 * pairs));
        user_space.set(format!("pair_id[{cpu}]"), cpu % pairs);
        user_space.set(format!("in_pair_idx[{cpu}]"), cpu / pairs);
    }
    user_space.entries.push(("pair_ctx", pairs as u32));
    user_space.filled.push(("cgrp_q_arr", QUEUES));
    if machine.cpus.len() % 2 == 1 {
        user_space.missing.push("scx_pair requires an even number of CPUs");
    }
}

/// scx_bpfland 1.0: all CPUs are of the primary domain; siblings are those that share a cache.
fn bpfland(user_space: &mut UserSpace, machine: &Hardware<'_>) {
    user_space.set("smt_enabled", machine.has_smt());
    // -1 empties the mask
    for cpu in std::iter::once(-1).chain(0..machine.cpus.len() as i32) {
        user_space.call("enable_primary_cpu", &[cpu]);
    }
    for (level, same) in [
        (2, (|a, b| a.cluster == b.cluster && a.llc == b.llc) as fn(&Topo, &Topo) -> bool),
        (3, |a, b| a.llc == b.llc),
    ] {
        for (a, cpu) in machine.cpus.iter().enumerate() {
            for (b, other) in machine.cpus.iter().enumerate() {
                if same(cpu, other) {
                    user_space.call("enable_sibling_cpu", &[level, a as i32, b as i32]);
                }
            }
        }
    }
    user_space.missing.push("the energy profile is not read: --primary-domain all");
}

/// scx_bpfland from 1.1 on: all CPUs are of the primary domain; siblings are the threads of a core.
fn bpfland_1_1(user_space: &mut UserSpace, machine: &Hardware<'_>) {
    let has_nodes = machine.cpus.iter().any(|cpu| cpu.node != 0);
    user_space.set("smt_enabled", machine.has_smt());
    user_space.set("numa_enabled", has_nodes);
    let mut order: Vec<usize> = (0..machine.cpus.len()).collect();
    order.sort_by_key(|&cpu| std::cmp::Reverse(machine.cpus[cpu].capacity));
    for (place, &cpu) in order.iter().enumerate() {
        user_space.set(format!("cpu_capacity[{cpu}]"), machine.cpus[cpu].capacity);
        user_space.set(format!("preferred_cpus[{place}]"), cpu);
    }
    let mut flags = String::from(
        "SCX_OPS_ENQ_EXITING|SCX_OPS_ENQ_LAST|SCX_OPS_ENQ_MIGRATION_DISABLED|SCX_OPS_ALLOW_QUEUED_WAKEUP",
    );
    if has_nodes {
        flags.push_str("|SCX_OPS_BUILTIN_IDLE_PER_NODE");
    }
    user_space.set("ops.flags", flags);
    for cpu in std::iter::once(-1).chain(0..machine.cpus.len() as i32) {
        user_space.call("enable_primary_cpu", &[cpu]);
    }
    // each CPU with the thread beside it, itself if there is none
    for (cpu, of) in machine.cpus.iter().enumerate() {
        let beside = (0..machine.cpus.len()).find(|&b| b != cpu && machine.cpus[b].core == of.core);
        user_space.call("enable_sibling_cpu", &[cpu as i32, beside.unwrap_or(cpu) as i32]);
    }
    user_space.missing.push("the energy profile is not read: --primary-domain all");
}

/// scx_rusty 1.0: a domain for each last-level cache, with its defaults; no load balancer between them, no tuner.
fn rusty(user_space: &mut UserSpace, machine: &Hardware<'_>) {
    let domains = machine.domains();
    let nodes = machine.cpus.iter().map(|cpu| cpu.node).max().unwrap_or(0) + 1;
    user_space.set("nr_doms", domains.len());
    user_space.set("nr_nodes", nodes);
    user_space.set("load_half_life", 1_000_000_000);
    user_space.set("greedy_threshold", 1);
    for (id, members) in domains.iter().enumerate() {
        user_space.set(format!("dom_numa_id_map[{id}]"), machine.cpus[members[0]].node);
        user_space.mask(&format!("dom_cpumasks[{id}]"), members.iter().copied());
        for cpu in members {
            user_space.set(format!("cpu_dom_id_map[{cpu}]"), id);
        }
    }
    for node in 0..nodes {
        let of_node = |&cpu: &usize| machine.cpus[cpu].node == node;
        user_space.mask(&format!("numa_cpumasks[{node}]"), (0..machine.cpus.len()).filter(of_node));
    }
    user_space.set("tune_input.slice_ns", 20_000_000);
    user_space.set("tune_input.gen", 1);
    user_space.mask("tune_input.direct_greedy_cpumask", 0..machine.cpus.len());
    user_space.mask("tune_input.kick_greedy_cpumask", 0..machine.cpus.len());
    user_space.missing.push("load balancing between domains (every 2 s, in user space)");
    user_space
        .missing
        .push("the tuner (every 0.1 s): slice and greedy masks stay as for a machine that is not full");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus() -> Vec<Topo> {
        // two caches of two cores with two threads each
        (0..8)
            .map(|i| Topo { core: i / 2, cluster: i / 2, llc: i / 4, package: 0, node: 0, capacity: 1024 })
            .collect()
    }

    #[test]
    fn general_settings_go_by_name() {
        let cpus = cpus();
        let user_space = defaults(
            "mine",
            &["nr_cpu_ids", "uei_dump_len", "__SCX_SLICE_DFL", "x"],
            &Hardware { cpus: &cpus, size_of: &|_| None },
        );
        let pairs: Vec<(&str, &str)> =
            user_space.settings.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(
            pairs,
            [("nr_cpu_ids", "8"), ("uei_dump_len", "32768"), ("__SCX_SLICE_DFL", "SCX_SLICE_DFL")]
        );
    }

    /// Two caches of four CPUs, threads two by two, one node: `--param` need not say it.
    #[test]
    fn caches_and_nodes_go_by_name() {
        let cpus = cpus();
        let user_space = defaults(
            "mine",
            &["nr_llcs", "nr_nodes", "smt_enabled", "cpu_llc_ids"],
            &Hardware { cpus: &cpus, size_of: &|_| None },
        );
        let value = |name: &str| user_space.settings.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(
            (value("nr_llcs"), value("nr_nodes"), value("smt_enabled")),
            (Some("2"), Some("1"), Some("true"))
        );
        assert_eq!((value("cpu_llc_ids[3]"), value("cpu_llc_ids[4]")), (Some("0"), Some("1")));
    }

    #[test]
    fn topology_is_reported() {
        let cpus = cpus();
        let machine = Hardware { cpus: &cpus, size_of: &|_| None };
        let user_space = defaults("rusty", &[], &machine);
        let value = |name: &str| user_space.settings.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!((value("nr_doms"), value("cpu_dom_id_map[5]")), (Some("2"), Some("1")));
        assert_eq!((value("dom_cpumasks[1][0]"), value("numa_cpumasks[0][0]")), (Some("0xf0"), Some("0xff")));
        let user_space = defaults("lavd", &[], &machine);
        let value = |name: &str| user_space.settings.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(
            (value("cpdom_ctxs[0].neighbor_bits[0]"), value("cpdom_ctxs[1].nr_neighbors[0]")),
            (Some("0x2"), Some("1"))
        );
        assert_eq!(value("is_smt_active"), Some("true"));
        let user_space = defaults("bpfland", &[], &machine);
        // 9 for the primary domain; 8 x 2 of level 2, 8 x 4 of level 3
        assert_eq!(user_space.calls.len(), 9 + 16 + 32);
    }
}
