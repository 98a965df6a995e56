/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All per-CPU memory of a run in one piece, set aside when the kernel boots (CONFIG_WARP_PERCPU_ONCE).
 *
 * Kernel: mm/percpu.c makes a first chunk with 28 KB on each CPU for alloc_percpu(). When it is nearly used up, mm/percpu-km.c adds
 * another, one block of the page allocator for all CPUs. In the versions that need this file it was written for one CPU:
 * pcpu_create_chunk() marks the pages of all CPUs in a bitmap for the pages of one, and overwrites what lies behind the bitmap.
 * Ours: the first chunk has room for all that this run allocates, and is larger than the largest block of the page allocator, so
 * that there is no second one whatever happens. alloc_percpu() fails where the first chunk is used up, as it does on a machine
 * that is out of memory; who asked for it says so (mkdir of a control group: ENOMEM). Pages that nobody uses are not touched.
 * Could falsify: where per-CPU variables lie, and nothing else; a real machine of these versions has an MMU and gets chunk by chunk.
 */
#include <linux/cgroup.h>
#include <linux/init.h>
#include <linux/memblock.h>
#include <linux/mmzone.h>
#include <linux/percpu.h>
#include <linux/psi_types.h>
#include <linux/smp.h>
#include <asm/sections.h>
#include "versions.h"
#include "warp.h"

unsigned long __per_cpu_offset[NR_CPUS] __read_mostly;

/* What a control group allocates on each CPU: statistics, and a reference count each for itself and its two controllers. */
#define WARP_GROUP_REFS 3
#ifdef CONFIG_PSI
#define WARP_GROUP_PSI (sizeof(struct psi_group_cpu) + SMP_CACHE_BYTES)
#else
#define WARP_GROUP_PSI 0
#endif
#define WARP_GROUP_BYTES (sizeof(struct cgroup_rstat_cpu) + WARP_GROUP_REFS * sizeof(unsigned long) + WARP_GROUP_PSI)

#if WARP_OWN_FIRST_CHUNK
/* From memblock as it is: cleared memory would be touched memory, and alloc_percpu() clears what it gives away. */
static void *__init warp_percpu_alloc(unsigned int cpu, size_t size, size_t align)
{
	return memblock_alloc_try_nid_raw(size, align, 0, MEMBLOCK_ALLOC_ACCESSIBLE, NUMA_NO_NODE);
}

static void __init warp_percpu_free(void *start, size_t size)
{
	warp_memblock_free(start, size);
}
#endif

void __init setup_per_cpu_areas(void)
{
	unsigned int nr_cpus = num_possible_cpus();
	/* the largest block is 1 << (MAX_ORDER - 1) pages */
	size_t largest_block = MAX_ORDER_NR_PAGES * PAGE_SIZE;
	size_t room = PERCPU_DYNAMIC_RESERVE;
	unsigned long delta;
	unsigned int cpu;

	/* kernel/smp.c: each CPU that comes up has, on every CPU, a call that it can send there */
	room += nr_cpus * sizeof(call_single_data_t);
	/* twice: the allocator cannot use all that lies between pieces of different sizes */
	room += 2 * WARP_GROUP_BYTES * warp_boot_info.nr_groups;
	room = max(room, largest_block / nr_cpus + PAGE_SIZE);
	if (warp_embed_first_chunk(room, warp_percpu_alloc, warp_percpu_free) < 0)
		panic("no memory for per-CPU areas: %u CPUs, %zu bytes each, and their variables", nr_cpus, room);
	delta = (unsigned long)pcpu_base_addr - (unsigned long)__per_cpu_start;
	for_each_possible_cpu(cpu)
		__per_cpu_offset[cpu] = delta + pcpu_unit_offsets[cpu];
}
