/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An array heap under a lock: the rival that cpudeadline.c itself is. `schedlab race samples/race/heap.c` */
#include "heap.h"

static void change(int cpu, long key)
{
	race_lock(&lock);
	change_begins();
	heap_change(cpu, key);
	change_ends();
	race_unlock(&lock);
}

LATEST_TARGET("heap");
