/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which CPU has the latest deadline? What structures that answer this share: the hooks, and what must hold.
 *
 *	heap.c		an array heap under a lock (what cpudeadline.c is)
 *	skiplist.c	a skip list under a lock
 *	combining.c	the same heap; who has the lock carries out what the others have published (flat combining)
 *	push_pull.c	heap.c, with a second heap for pull(): whose second task is the most urgent?
 *
 * A CPU without a deadline is free, and has the latest of all. Changes are atomic in each structure. A search takes no lock: it looks, and
 * looks again if something has changed meanwhile. So both hold of it:
 *
 *	the CPU that it returns had a later deadline, or was free, at some moment of the call
 *	if it returns none, no CPU had a later deadline, or was free, during the whole call
 */
#ifndef LATEST_H
#define LATEST_H
#include <schedlab_race.h>
#include <limits.h>
#include <stdatomic.h>

#define FREE LONG_MAX

static int nr_cpus;
static unsigned int lock;
static _Atomic long deadline[RACE_CPUS_MAX];	/* of each CPU, as the structure has it */
static _Atomic unsigned int sequence;		/* odd: a change is under way */

/* What a file says: build the structure, all CPUs free; change one; a CPU that has the latest. */
static void build(void);
static void change(int cpu, long key);
static int latest(void);

/* Under the lock: searches look again. */
static inline void change_begins(void) { sequence++; }
static inline void change_ends(void) { sequence++; }

/* Where CPUs are threads of this machine nobody knows what was at the same time, and a search is not judged. */
#ifndef RACE_THREADS
struct seen { long now, next; int is_changing; };
static struct seen seen[RACE_CPUS_MAX] RACE_PRIVATE;
static struct search {
	int on;
	long key;
	unsigned int always;		/* CPUs that had a later deadline all the time so far */
	unsigned int once;		/* at some moment */
} searches[RACE_CPUS_MAX] RACE_PRIVATE;

static void look(struct search *s, int cpu)
{
	struct seen *c = &seen[cpu];
	int is = c->now > s->key, will = c->is_changing ? c->next > s->key : is;

	if (is || will)
		s->once |= 1u << cpu;
	if (!is || !will)
		s->always &= ~(1u << cpu);
}

static void seen_changes(int cpu, long next, int is_changing)
{
	seen[cpu].next = next;
	seen[cpu].is_changing = is_changing;
	if (!is_changing)
		seen[cpu].now = next;
	for (int i = 0; i < nr_cpus; i++)
		if (searches[i].on)
			look(&searches[i], cpu);
}

static void search_begins(int cpu, long key)
{
	searches[cpu] = (struct search){ 1, key, (1u << nr_cpus) - 1, 0 };
	for (int i = 0; i < nr_cpus; i++)
		look(&searches[cpu], i);
}

static void search_ends(int cpu, long found)
{
	searches[cpu].on = 0;
	if (found < 0 && searches[cpu].always)
		race_fail("find() returns none, and a CPU had a later deadline during the whole call");
	if (found >= 0 && !(searches[cpu].once >> found & 1))
		race_fail("find() returns a CPU that never had a later deadline during the call");
}

static void start(void)
{
	for (int i = 0; i < RACE_CPUS_MAX; i++) {
		seen[i] = (struct seen){ FREE, FREE, 0 };
		searches[i].on = 0;
	}
}
#else
static void seen_changes(int cpu, long next, int is_changing) { (void)cpu, (void)next, (void)is_changing; }
static void search_begins(int cpu, long key) { (void)cpu, (void)key; }
static void search_ends(int cpu, long found) { (void)cpu, (void)found; }
static void start(void) { }
#endif

static int init(int cpus)
{
	nr_cpus = cpus;
	for (int i = 0; i < cpus; i++)
		deadline[i] = FREE;
	build();
	return 0;
}

static long preempt(int cpu, long key)
{
	seen_changes(cpu, key, 1);
	change(cpu, key);
	seen_changes(cpu, key, 0);
	return 0;
}

static long finish(int cpu, long key)
{
	return preempt(cpu, key < 0 ? FREE : key);
}

static long find(int cpu, long key)
{
	unsigned long looks = 0;
	unsigned int before;
	int found;
	long its;

	search_begins(cpu, key);
	for (;;) {
		looks++;
		before = sequence;
		found = latest();
		its = deadline[found];
		if (!(before & 1) && sequence == before)
			break;
		race_relax();
	}
	if (its <= key)
		found = -1;
	search_ends(cpu, found);
	race_count("looks of a search", looks);
	return found;
}

/* When nobody is at work. */
static void rest(void)
{
	int found = latest();

	for (int i = 0; i < nr_cpus; i++)
		if (deadline[i] > deadline[found])
			race_fail("a CPU has a later deadline than the one that is latest");
#ifdef RACE_THREADS
	for (int i = 0; i < nr_cpus; i++)
		if (deadline[i] != (race_first(i) < 0 ? FREE : race_first(i)))
			race_fail("a CPU's deadline is not that of its first task");
#else
	for (int i = 0; i < nr_cpus; i++)
		if (deadline[i] != seen[i].now)
			race_fail("a CPU's deadline is not the one that was set last");
#endif
}

#define LATEST_TARGET(its_name)								\
	RACE_TARGET(.name = its_name, .init = init, .start = start, .preempt = preempt, .finish = finish, .find = find, \
		    .rest = rest, .least_first = 1,						\
		    .scenario = "cpus 3\n"							\
				"first preempt 20\n"						\
				"cpu0 preempt 10; finish 40\n"					\
				"cpu1 preempt 60; preempt 30; finish -1\n"			\
				"cpu2 preempt 35; find 50; find 30\n")
#endif
