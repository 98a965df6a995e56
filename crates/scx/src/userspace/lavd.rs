//! What does scx_lavd's user-space part set? CPUs in the order of preference, and compute domains: CPUs of
//! one last-level cache and one capacity.
//!
//! ```text
//! laptop: 2 big cores with 2 threads, 4 little  domains 0 (CPUs 0-3, big), 1 (CPUs 4-7); each the other's alternative
//! order for performance                         first threads of cores before second ones
//! ```

use super::{Hardware, UserSpace};
use schedlab_linux::abi::Topo;

/// scx_lavd 1.0: a compute domain for each last-level cache and capacity.
pub(super) fn until_1_0(user_space: &mut UserSpace, machine: &Hardware<'_>) {
    user_space.set("is_smt_active", machine.has_smt());
    let strongest = machine.strongest();
    let mut order: Vec<usize> = (0..machine.cpus.len()).collect();
    order.sort_by_key(|&cpu| std::cmp::Reverse(machine.cpus[cpu].capacity));
    for (place, &cpu) in order.iter().enumerate() {
        user_space.set(format!("cpu_order_performance[{place}]"), cpu);
        user_space.set(format!("__cpu_capacity_hint[{cpu}]"), machine.cpus[cpu].capacity);
    }
    for (place, &cpu) in order.iter().rev().enumerate() {
        user_space.set(format!("cpu_order_powersave[{place}]"), cpu);
    }
    let domains = machine.domains();
    let of = |domain: usize| &machine.cpus[domains[domain][0]];
    for (id, members) in domains.iter().enumerate() {
        let path = format!("cpdom_ctxs[{id}]");
        let is_big = of(id).capacity == strongest;
        // the nearest domain of the other kind, itself if there is none
        let other = (0..domains.len()).find(|&d| (of(d).capacity == strongest) != is_big).unwrap_or(id);
        for (member, value) in [
            ("id", id),
            ("alt_id", other),
            ("node_id", of(id).node as usize),
            ("is_big", usize::from(is_big)),
            ("is_active", 1),
        ] {
            user_space.set(format!("{path}.{member}"), value);
        }
        user_space.mask(&format!("{path}.__cpumask"), members.iter().copied());
        // neighbours of the same kind: in the node, then beyond
        let near = |same_node: bool| {
            let others = (0..domains.len()).filter(|&d| d != id && of(d).capacity == of(id).capacity);
            others.filter(|&d| (of(d).node == of(id).node) == same_node).collect::<Vec<_>>()
        };
        for (distance, neighbours) in [near(true), near(false)].iter().filter(|n| !n.is_empty()).enumerate() {
            user_space.set(format!("{path}.nr_neighbors[{distance}]"), neighbours.len());
            let bits = neighbours.iter().fold(0u64, |bits, d| bits | 1 << d);
            user_space.set(format!("{path}.neighbor_bits[{distance}]"), format!("{bits:#x}"));
        }
    }
}

/// Where a CPU is: numbers within what is above it.
struct Place {
    cpu: usize,
    /// Which thread of its core.
    thread: usize,
    /// Which core of its cache.
    core: usize,
    /// Which cache of its node.
    llc: usize,
}

fn places(machine: &Hardware<'_>) -> Vec<Place> {
    let cpus = machine.cpus;
    // how many different values come before this CPU's own, among the CPUs of a kind
    let rank = |cpu: usize, same: &dyn Fn(&Topo) -> bool, value: &dyn Fn(&Topo) -> u32| {
        let mut seen: Vec<u32> = Vec::new();
        for other in cpus.iter().filter(|t| same(t)) {
            if !seen.contains(&value(other)) {
                seen.push(value(other));
            }
        }
        seen.iter().position(|v| *v == value(&cpus[cpu])).unwrap_or(0)
    };
    (0..cpus.len())
        .map(|cpu| {
            let own = cpus[cpu];
            Place {
                cpu,
                thread: cpus[..cpu].iter().filter(|t| t.core == own.core).count(),
                core: rank(cpu, &|t| t.llc == own.llc, &|t| t.core),
                llc: rank(cpu, &|t| t.node == own.node, &|t| t.llc),
            }
        })
        .collect()
}

/// Around a domain: the nearer its number the earlier, as scx_lavd's `circular_sort()`.
fn around(start: usize, others: &[usize]) -> Vec<usize> {
    let mut list: Vec<usize> = others.iter().copied().chain([start]).collect();
    list.sort_unstable();
    let n = list.len();
    let at = list.iter().position(|&d| d == start).unwrap_or(0);
    let distance = |x: usize| ((x + n - at) % n).min((at + n - x) % n);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&x| (distance(x), x));
    order[1..].iter().map(|&x| list[x]).collect()
}

/// scx_lavd from 1.1 on, with the defaults of its options.
pub(super) fn from_1_1(user_space: &mut UserSpace, machine: &Hardware<'_>) {
    let cpus = machine.cpus;
    let strongest = machine.strongest();
    let has_little = cpus.iter().any(|cpu| cpu.capacity != strongest);
    for (option, value) in [
        ("slice_max_ns", 5_000_000),
        ("slice_min_ns", 500_000),
        ("pinned_slice_ns", 5_000_000),
        ("preempt_shift", 6),
        ("lat_load_target_pct", 100),
        ("lb_low_util_wall", (25 << 10) / 100),
        ("lb_local_dsq_util_wall", (10 << 10) / 100),
        ("xmig_min_gain_ns", 350_000),
        ("bw_kick_builtin_idle", 1),
        ("nr_cgrp_max", 2048),
        ("tree_height_max", 32),
        ("ops.exit_dump_len", 262_144),
    ] {
        user_space.set(option, value);
    }
    user_space.set("is_smt_active", machine.has_smt());
    user_space.set(
        "ops.flags",
        "SCX_OPS_ENQ_EXITING|SCX_OPS_ENQ_LAST|SCX_OPS_ENQ_MIGRATION_DISABLED|SCX_OPS_KEEP_BUILTIN_IDLE",
    );
    for (number, cpu) in cpus.iter().enumerate() {
        user_space.set(format!("cpu_capacity[{number}]"), cpu.capacity);
        user_space.set(format!("cpu_big[{number}]"), u32::from(cpu.capacity == strongest));
        let beside = (0..cpus.len()).find(|&b| b != number && cpus[b].core == cpu.core);
        // none: -1
        user_space.set(format!("cpu_sibling[{number}]"), beside.map_or(u32::MAX, |b| b as u32));
    }
    // without an energy model: two orders, all CPUs in each
    let mut performance = places(machine);
    let capacity = |p: &Place| std::cmp::Reverse(cpus[p.cpu].capacity);
    performance.sort_by_key(|p| (p.thread, cpus[p.cpu].node, p.llc, capacity(p), p.core, p.cpu));
    let mut saving = places(machine);
    if has_little {
        saving.sort_by_key(|p| (cpus[p.cpu].node, p.llc, cpus[p.cpu].capacity, p.core, p.thread, p.cpu));
    } else {
        saving.sort_by_key(|p| (cpus[p.cpu].node, p.llc, capacity(p), p.core, p.thread, p.cpu));
    }
    let total: u32 = cpus.iter().map(|cpu| cpu.capacity).sum();
    let least = saving.first().map_or(total, |p| cpus[p.cpu].capacity);
    let mut states = vec![(least, &saving), (total, &performance)];
    if least == total {
        states.remove(0);
    }
    user_space.set("nr_pco_states", states.len());
    for (state, (bound, order)) in states.into_iter().enumerate() {
        user_space.set(format!("pco_bounds[{state}]"), bound);
        user_space.set(format!("pco_nr_primary[{state}]"), 1);
        for (at, place) in order.iter().enumerate() {
            user_space.set(format!("pco_table[{state}][{at}]"), place.cpu);
        }
    }
    domains(user_space, machine, strongest);
    arena(user_space, machine);
    user_space.missing.push("the energy model is not read (--no-use-em)");
    user_space.missing.push("futexes are not seen (--no-futex-boost)");
    user_space
        .missing
        .push("ops.cpu_release stays, as before 6.19; the program on sched_switch is not attached");
}

/// Compute domains, and for each the others by their distance.
fn domains(user_space: &mut UserSpace, machine: &Hardware<'_>, strongest: u32) {
    /// `LAVD_CPDOM_MAX_NR`
    const LARGEST: usize = 128;
    let cpus = machine.cpus;
    let domains = machine.domains();
    let of = |domain: usize| &cpus[domains[domain][0]];
    let is_big = |domain: usize| of(domain).capacity == strongest;
    let mut caches: Vec<u32> = cpus.iter().map(|cpu| cpu.llc).collect();
    caches.sort_unstable();
    caches.dedup();
    user_space.set("nr_llcs", caches.len());
    for (id, members) in domains.iter().enumerate() {
        let path = format!("cpdom_ctxs[{id}]");
        // another kind of core first, then another node, then another cache (by its place and by its number)
        let distance = |other: usize| {
            let kind = if is_big(id) == is_big(other) { 0 } else { 100 };
            match (of(id).node == of(other).node, of(id).llc == of(other).llc) {
                (false, _) => kind + 10,
                (true, false) => kind + 2,
                (true, true) => kind,
            }
        };
        let mut distances: Vec<u32> = (0..domains.len()).filter(|&d| d != id).map(distance).collect();
        distances.sort_unstable();
        distances.dedup();
        let rings: Vec<Vec<usize>> = distances
            .iter()
            .map(|at| (0..domains.len()).filter(|&d| d != id && distance(d) == *at).collect::<Vec<_>>())
            .map(|ring| around(id, &ring))
            .collect();
        let same_place = |d: &usize| of(*d).llc == of(id).llc && is_big(*d) != is_big(id);
        let other = (0..domains.len())
            .find(same_place)
            .or_else(|| rings.iter().flatten().copied().find(|&d| is_big(d) != is_big(id)))
            .unwrap_or(id);
        for (member, value) in [
            ("id", id),
            ("alt_id", other),
            ("numa_id", of(id).node as usize),
            ("llc_id", caches.iter().position(|llc| *llc == of(id).llc).unwrap_or(0)),
            ("is_big", usize::from(is_big(id))),
            ("is_valid", 1),
        ] {
            user_space.set(format!("{path}.{member}"), value);
        }
        user_space.mask(&format!("{path}.__cpumask"), members.iter().copied());
        for (ring, neighbours) in rings.iter().enumerate() {
            user_space.set(format!("{path}.nr_neighbors[{ring}]"), neighbours.len());
            for (at, neighbour) in neighbours.iter().enumerate() {
                user_space.set(format!("{path}.neighbor_ids[{}]", ring * LARGEST + at), neighbour);
            }
        }
    }
}

/// What scx_arena's library does before a scheduler is attached: memory, then the machine from the top down.
fn arena(user_space: &mut UserSpace, machine: &Hardware<'_>) {
    /// Pages that its allocator takes at a time.
    const PAGES: u64 = 8;
    let cpus = machine.cpus;
    let task = u64::from((machine.size_of)("task_ctx").unwrap_or(0));
    user_space.call_with("arena_init", &[PAGES, task, 0], Vec::new());
    // CPUs of each node, cache, core, CPU
    let groups = |value: &dyn Fn(usize, &Topo) -> u32| {
        let mut found: Vec<(u32, Vec<usize>)> = Vec::new();
        for (number, cpu) in cpus.iter().enumerate() {
            match found.iter_mut().find(|(v, _)| *v == value(number, cpu)) {
                Some((_, members)) => members.push(number),
                None => found.push((value(number, cpu), vec![number])),
            }
        }
        found.into_iter().map(|(_, members)| members).collect::<Vec<_>>()
    };
    let levels = [
        groups(&|_, _| 0),
        groups(&|_, cpu| cpu.node),
        groups(&|_, cpu| cpu.llc),
        groups(&|_, cpu| cpu.core),
        groups(&|number, _| number as u32),
    ];
    let children = |level: usize| {
        let within = |above: &Vec<usize>| levels[level + 1].iter().filter(|g| above.contains(&g[0])).count();
        levels.get(level + 1).map_or(0, |_| levels[level].iter().map(within).max().unwrap_or(0))
    };
    let most: Vec<i32> = (0..levels.len()).map(|level| children(level) as i32).collect();
    user_space.call("arena_topology_init", &most);
    for groups in &levels {
        for (id, members) in groups.iter().enumerate() {
            let mut mask = vec![0u64; cpus.len().div_ceil(64)];
            for cpu in members {
                mask[cpu / 64] |= 1 << (cpu % 64);
            }
            user_space.call_with("arena_alloc_mask", &[0], mask);
            // the mask, bytes of data, its number
            user_space.call_with("arena_topology_node_init", &[0, 0, id as u64], Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Hardware, defaults};
    use super::*;

    /// scx_lavd's own example: from 0 among eight the order is 1, 7, 2, 6, 3, 5, 4; from 7 it is 0, 6, 1, 5, 2, 4, 3.
    #[test]
    fn neighbours_go_around() {
        assert_eq!(around(0, &[1, 2, 3, 4, 5, 6, 7]), [1, 7, 2, 6, 3, 5, 4]);
        assert_eq!(around(7, &[0, 1, 2, 3, 4, 5, 6]), [0, 6, 1, 5, 2, 4, 3]);
        assert_eq!(around(3, &[]), Vec::<usize>::new());
    }

    /// Two caches of two cores with two threads: first threads before second ones; for saving one cache, core by core.
    #[test]
    fn orders_of_preference() {
        let cpus: Vec<Topo> = (0..8)
            .map(|i| Topo { core: i / 2, cluster: i / 2, llc: i / 4, package: 0, node: 0, capacity: 1024 })
            .collect();
        let machine = Hardware { cpus: &cpus, size_of: &|name| (name == "task_ctx").then_some(640) };
        let user_space = defaults("lavd", &["pco_table"], &machine);
        let value = |name: &str| user_space.settings.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let order = |state: usize| -> Vec<String> {
            (0..8).map(|at| value(&format!("pco_table[{state}][{at}]")).unwrap().to_owned()).collect()
        };
        assert_eq!(order(0).join(" "), "0 1 2 3 4 5 6 7");
        assert_eq!(order(1).join(" "), "0 2 4 6 1 3 5 7");
        assert_eq!((value("pco_bounds[0]"), value("pco_bounds[1]")), (Some("1024"), Some("8192")));
        assert_eq!((value("cpdom_ctxs[1].neighbor_ids[0]"), value("nr_llcs")), (Some("0"), Some("2")));
        assert_eq!(value("cpu_sibling[5]"), Some("4"));
        // a top, a node, 2 caches, 4 cores, 8 CPUs: two calls each, and two before
        assert_eq!(user_space.calls.len(), 2 + 2 * (1 + 1 + 2 + 4 + 8));
        assert_eq!(user_space.calls[0].context[8..10], 640u16.to_le_bytes());
        // children at most: a node, 2 caches, 2 cores, 2 CPUs
        let most: Vec<u8> = user_space.calls[1].context.iter().step_by(4).copied().collect();
        assert_eq!(most, [1, 2, 2, 2, 0]);
    }
}
