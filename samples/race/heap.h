/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An array heap of CPUs, the greatest key first, and each CPU's place in it. Changes: under the lock. */
#ifndef HEAP_H
#define HEAP_H
#include "latest.h"

struct heap {
	_Atomic int cpus[RACE_CPUS_MAX];
	int place[RACE_CPUS_MAX];	/* of a CPU in the heap */
	_Atomic long *key;		/* of each CPU */
};

static struct heap heap = { .key = deadline };

static void heap_build(struct heap *h)
{
	for (int i = 0; i < nr_cpus; i++)
		h->cpus[i] = h->place[i] = i;
}

static void put(struct heap *h, int at, int cpu)
{
	h->cpus[at] = cpu;
	h->place[cpu] = at;
}

static void heap_change(struct heap *h, int cpu, long key)
{
	int at = h->place[cpu];

	h->key[cpu] = key;
	for (; at && h->key[h->cpus[(at - 1) / 2]] < key; at = (at - 1) / 2)
		put(h, at, h->cpus[(at - 1) / 2]);
	for (int child; (child = 2 * at + 1) < nr_cpus; at = child) {
		if (child + 1 < nr_cpus && h->key[h->cpus[child + 1]] > h->key[h->cpus[child]])
			child++;
		if (h->key[h->cpus[child]] <= key)
			break;
		put(h, at, h->cpus[child]);
	}
	put(h, at, cpu);
}

static void build(void)
{
	heap_build(&heap);
}

static int latest(void)
{
	return heap.cpus[0];
}
#endif
