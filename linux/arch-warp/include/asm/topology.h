/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_TOPOLOGY_H
#define _WARP_TOPOLOGY_H
/*
 * Which CPUs share a core, a cluster, a last-level cache, a package: as the simulator's warp_topo table says.
 * The kernel builds its own scheduling domains from these masks (kernel/sched/topology.c).
 * NUMA nodes: CPUs and distances only; all memory is node 0's. Not here: x86's asymmetric packing (ITMT).
 */
#include <linux/cpumask.h>
struct warp_cpu_topology {
	struct cpumask *smt, *cluster, *llc, *package;
	int core_id, cluster_id, package_id, node;
	unsigned long capacity;
};
extern struct warp_cpu_topology warp_topology[];
#define topology_physical_package_id(c) (warp_topology[c].package_id)
#define topology_cluster_id(c) (warp_topology[c].cluster_id)
#define topology_core_id(c) (warp_topology[c].core_id)
#define topology_sibling_cpumask(c) ((const struct cpumask *)warp_topology[c].smt)
#define topology_cluster_cpumask(c) ((const struct cpumask *)warp_topology[c].cluster)
#define topology_core_cpumask(c) ((const struct cpumask *)warp_topology[c].package)
static inline const struct cpumask *cpu_coregroup_mask(int c) { return warp_topology[c].llc; }
static inline const struct cpumask *cpu_clustergroup_mask(int c) { return warp_topology[c].cluster; }
#define arch_scale_cpu_capacity(c) (warp_topology[c].capacity)
#ifdef CONFIG_NUMA
extern struct cpumask warp_node_cpus[];
int warp_node_distance(int a, int b);
#define cpumask_of_node(n) ((n) == NUMA_NO_NODE ? cpu_all_mask : (const struct cpumask *)&warp_node_cpus[n])
#define early_cpu_to_node(c) (warp_topology[c].node)
#define node_distance(a, b) warp_node_distance(a, b)
#define pcibus_to_node(bus) ((void)(bus), NUMA_NO_NODE)
#define cpumask_of_pcibus(bus) ((void)(bus), cpu_all_mask)
#endif
#include <asm-generic/topology.h>
#endif
