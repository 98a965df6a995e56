/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Flat combining over an array heap (Hendler, Incze, Shavit, Tzafrir, 2010). A CPU publishes its change. Who gets the lock carries out all
 * that are published; the others wait until theirs is done, and never touch the heap.
 *
 *	cpu0  publishes, has the lock, carries out 0, 1, 2 ......... gives it back
 *	cpu1     publishes, waits ................ done
 *	cpu2        publishes, waits ................. done
 *
 * `schedlab race samples/race/combining.c`
 */
#include "heap.h"

static struct request {
	long key;
	_Atomic int is_open;		/* published, and not carried out */
} __attribute__((aligned(64))) requests[RACE_CPUS_MAX];

static void combine(void)
{
	unsigned long nr = 0;

	change_begins();
	for (int cpu = 0; cpu < nr_cpus; cpu++) {
		if (!requests[cpu].is_open)
			continue;
		heap_change(&heap, cpu, requests[cpu].key);
		nr++;
		requests[cpu].is_open = 0;
	}
	change_ends();
	race_count("requests carried out at once", nr);
}

static void change(int cpu, long key)
{
	requests[cpu].key = key;
	requests[cpu].is_open = 1;
	while (requests[cpu].is_open) {
		if (race_trylock(&lock)) {
			combine();
			race_unlock(&lock);
		} else {
			race_relax();
		}
	}
}

LATEST_TARGET("combining");
