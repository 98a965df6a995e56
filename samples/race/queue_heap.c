/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A ready queue that is an array heap, the least key first. `schedlab race samples/race/queue_heap.c`, `--stress`, `--cost` */
#include "queue.h"

static long keys[RACE_CPUS_MAX][TASKS_MAX];

static void queue_build(int cpu)
{
	sizes[cpu] = 0;
}

/* `key` into place `at` of a heap of `nr`, or to where it belongs above or below. */
static void settle(long *heap, int nr, int at, long key)
{
	for (; at && key < heap[(at - 1) / 2]; at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	for (int child; (child = 2 * at + 1) < nr; at = child) {
		if (child + 1 < nr && heap[child + 1] < heap[child])
			child++;
		if (key <= heap[child])
			break;
		heap[at] = heap[child];
	}
	heap[at] = key;
}

static void queue_insert(int cpu, long key)
{
	if (sizes[cpu] == TASKS_MAX)
		race_fail("the queue is full");
	settle(keys[cpu], sizes[cpu] + 1, sizes[cpu], key);
}

static int queue_erase(int cpu, long key)
{
	int last = sizes[cpu] - 1;

	for (int at = 0; at <= last; at++) {
		if (keys[cpu][at] != key)
			continue;
		race_count("places looked at", (unsigned long)at + 1);
		if (at < last)
			settle(keys[cpu], last, at, keys[cpu][last]);
		return 1;
	}
	return 0;
}

static long queue_first(int cpu)
{
	return sizes[cpu] ? keys[cpu][0] : -1;
}

static void queue_check(int cpu)
{
	for (int at = 1; at < sizes[cpu]; at++)
		if (keys[cpu][at] < keys[cpu][(at - 1) / 2])
			race_fail("the heap is out of order");
}

QUEUE_TARGET("queue_heap");
