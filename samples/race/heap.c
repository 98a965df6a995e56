/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An array heap under a lock: the rival that cpudeadline.c itself is. `schedlab race samples/race/heap.c` */
#include "heap.h"

static void change(int cpu, long key)
{
	unsigned long since = race_clock();

	race_lock(&lock);
	race_time("wait for the lock", since);
	change_begins();
	heap_change(&heap, cpu, key);
	change_ends();
	race_unlock(&lock);
}

LATEST_TARGET("heap");
