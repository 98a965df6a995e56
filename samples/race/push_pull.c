/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The paper's two structures: push() asks which CPU has the latest deadline, pull() which CPU's second task has the earliest. Two heaps,
 * each with a lock of its own. `schedlab race samples/race/push_pull.c`
 */
#include "heap.h"

#define NOTHING LONG_MIN		/* no second task: least urgent of all */

static _Atomic long urgency[RACE_CPUS_MAX];	/* of each CPU's second task: its deadline, with the other sign */
static struct heap seconds = { .key = urgency };
static unsigned int pull_lock;

static void change(int cpu, long key)
{
	race_lock(&lock);
	change_begins();
	heap_change(&heap, cpu, key);
	change_ends();
	race_unlock(&lock);
}

static int init_both(int cpus)
{
	if (init(cpus))
		return 1;
	for (int i = 0; i < cpus; i++)
		urgency[i] = NOTHING;
	heap_build(&seconds);
	return 0;
}

static long pull_preempt(int cpu, long key)
{
	race_lock(&pull_lock);
	heap_change(&seconds, cpu, key < 0 ? NOTHING : -key);
	race_unlock(&pull_lock);
	return 0;
}

/* Under the lock; what it says may be old when the caller has locked that CPU's queue, and the caller looks again. */
static long pull_find(int cpu, long key)
{
	long found;

	(void)cpu;
	race_lock(&pull_lock);
	found = seconds.cpus[0];
	if (urgency[found] == NOTHING || (key >= 0 && -urgency[found] >= key))
		found = -1;
	race_unlock(&pull_lock);
	return found;
}

static void rest_both(void)
{
	rest();
	for (int i = 0; i < nr_cpus; i++) {
		if (urgency[i] > urgency[seconds.cpus[0]])
			race_fail("a CPU's second task is more urgent than the one that is first");
#ifdef RACE_THREADS
		if (urgency[i] != (race_second(i) < 0 ? NOTHING : -race_second(i)))
			race_fail("what pull() knows of a CPU is not its second task");
#endif
	}
}

RACE_TARGET(.name = "push_pull", .init = init_both, .start = start, .preempt = preempt, .finish = finish, .find = find, .rest = rest_both,
	    .pull_preempt = pull_preempt, .pull_finish = pull_preempt, .pull_find = pull_find, .least_first = 1,
	    .scenario = "cpus 3\n"
			"first preempt 20; pull_preempt 40\n"
			"cpu0 pull_finish 60; preempt 10\n"
			"cpu1 preempt 60; pull_preempt 70; pull_finish -1\n"
			"cpu2 find 50; pull_find 55; pull_find -1\n");
