/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which CPU runs the task of lowest priority? Changes take a lock, a search does not: it looks at a CPU that the last change has noted.
 * The worked example of docs/race.md. It has a bug: `schedlab race samples/race/lowest.c` shows it, -D MENDED takes it away.
 */
#include <schedlab_race.h>
#include <stdatomic.h>

static int nr_cpus;
static unsigned int lock;
static _Atomic int priority[RACE_CPUS_MAX];
static _Atomic int lowest;		/* a CPU */
static _Atomic unsigned int sequence;	/* odd: a change is under way */

/*
 * What is known from outside: for each search, which CPUs have been lower than its key all the time. Where CPUs are threads of this
 * machine (`race --stress`) nobody can know that, and a search is not judged.
 */
#ifndef RACE_THREADS
static struct { long key; unsigned int lower; } searches[RACE_CPUS_MAX] RACE_PRIVATE;

static void raised(int cpu, long key)
{
	for (int s = 0; s < nr_cpus; s++)
		if (key >= searches[s].key)
			searches[s].lower &= ~(1u << cpu);
}

static void begins(int cpu, long key)
{
	searches[cpu].key = key;
	searches[cpu].lower = 0;
	for (int i = 0; i < nr_cpus; i++)
		if (priority[i] < key)
			searches[cpu].lower |= 1u << i;
}

static void judge(int cpu, long found)
{
	if (found < 0 && searches[cpu].lower)
		race_fail("find() returns none, and a CPU was lower during the whole call");
}
#else
static void raised(int cpu, long key) { (void)cpu, (void)key; }
static void begins(int cpu, long key) { (void)cpu, (void)key; }
static void judge(int cpu, long found) { (void)cpu, (void)found; }
#endif

static int init(int cpus)
{
	nr_cpus = cpus;
	return 0;
}

static long preempt(int cpu, long key)
{
	int best = 0;

	race_lock(&lock);
	raised(cpu, key);
#ifdef MENDED
	sequence++;
#endif
	priority[cpu] = key;
	for (int i = 1; i < nr_cpus; i++)
		if (priority[i] < priority[best])
			best = i;
	lowest = best;
#ifdef MENDED
	sequence++;
#endif
	race_unlock(&lock);
	return best;
}

static long look(long key)
{
	int cpu = lowest;

	return priority[cpu] < key ? cpu : -1;
}

static long find(int cpu, long key)
{
	long found;

	begins(cpu, key);
#ifdef MENDED
	for (;;) {
		unsigned int before = sequence;

		found = look(key);
		if (!(before & 1) && sequence == before)
			break;
		race_relax();
	}
#else
	found = look(key);
#endif
	judge(cpu, found);
	return found;
}

static void rest(void)
{
	for (int i = 0; i < nr_cpus; i++)
		if (priority[i] < priority[lowest])
			race_fail("the CPU that is noted is not the lowest");
#ifdef RACE_THREADS
	for (int i = 0; i < nr_cpus; i++)
		if (priority[i] != (race_first(i) < 0 ? 0 : race_first(i)))
			race_fail("a CPU's priority is not that of its first task");
#endif
}

RACE_TARGET(.name = "lowest", .init = init, .preempt = preempt, .find = find, .rest = rest,
	    .scenario = "cpus 3\n"
			"first preempt 20\n"		/* cpu0; the others have 0 */
			"cpu0 preempt 10\n"
			"cpu1 preempt 60; preempt 30\n"
			"cpu2 find 50; find 50\n");
