/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An array heap of CPUs, the latest deadline first, and each CPU's place in it. Changes: under the lock. */
#ifndef HEAP_H
#define HEAP_H
#include "latest.h"

static _Atomic int heap[RACE_CPUS_MAX];		/* CPUs */
static int place[RACE_CPUS_MAX];		/* of a CPU in the heap */

static void build(void)
{
	for (int i = 0; i < nr_cpus; i++)
		heap[i] = place[i] = i;
}

static void put(int at, int cpu)
{
	heap[at] = cpu;
	place[cpu] = at;
}

static void sift(int at, int cpu)
{
	long key = deadline[cpu];

	for (; at && deadline[heap[(at - 1) / 2]] < key; at = (at - 1) / 2)
		put(at, heap[(at - 1) / 2]);
	for (int child; (child = 2 * at + 1) < nr_cpus; at = child) {
		if (child + 1 < nr_cpus && deadline[heap[child + 1]] > deadline[heap[child]])
			child++;
		if (deadline[heap[child]] <= key)
			break;
		put(at, heap[child]);
	}
	put(at, cpu);
}

static void heap_change(int cpu, long key)
{
	deadline[cpu] = key;
	sift(place[cpu], cpu);
}

static int latest(void)
{
	return heap[0];
}
#endif
