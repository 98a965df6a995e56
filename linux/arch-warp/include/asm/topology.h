/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_TOPOLOGY_H
#define _WARP_TOPOLOGY_H
/*
 * Which CPUs share a core, a cluster, a last-level cache, a package: as the simulator's warp_topo table says.
 * The kernel builds its own scheduling domains from these masks (kernel/sched/topology.c).
 * Not here: NUMA nodes, and x86's asymmetric packing (ITMT).
 */
#include <linux/cpumask.h>
struct warp_cpu_topology {
	struct cpumask *smt, *cluster, *llc, *package;
	int core_id, cluster_id, package_id;
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
#include <asm-generic/topology.h>
#endif
