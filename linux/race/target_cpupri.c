// SPDX-License-Identifier: GPL-2.0-only
/*
 * What must hold for kernel/sched/cpupri.c while CPUs change their priorities and others look for a CPU to send a task to?
 *
 * Priorities here are those of users: 1 to 99, 0 for a CPU without real-time tasks. A call of cpupri_set() stands under the run queue's
 * lock, as in the kernel. Beside the structure stands what is known from outside: the priority of each CPU, and while a call of
 * cpupri_set() is under way the one that it will have. A search is judged by what these were at some moment of its call:
 *
 *	cpu0	   |-- set 10 -> 60 --|			cpu0 may be seen at 10 or 60 there, at 10 before, at 60 after
 *	cpu1	|----- find 50 ----------|		so it may return cpu0, or not
 *
 * (kernel/sched/cpupri.c: "the loop sees one or the other when we raise the priority of the run queue. We don't care about when we lower
 * the priority".)
 */
#include "target.h"
#include "cpupri_levels.h"

static struct cpupri cp;
struct seen { int now, next; };		/* next: -1 if it is not being changed */
static struct seen seen[RACE_CPUS_MAX] RACE_PRIVATE;
/* per searching CPU */
static struct search {
	int on, priority;
	unsigned int surely;		/* CPUs that could take the task at every moment so far, and were not lowered */
	int low[RACE_CPUS_MAX];		/* the lowest and highest priority that each CPU had at any moment */
	int high[RACE_CPUS_MAX];
} searches[RACE_CPUS_MAX] RACE_PRIVATE;
static int lowest[RACE_CPUS_MAX] RACE_PRIVATE;	/* since the scenario began */
static unsigned int lowered RACE_PRIVATE;	/* CPUs whose priority has been lowered since */

static void look(struct search *s, int cpu)
{
	struct seen *c = &seen[cpu];
	int low = c->next >= 0 && c->next < c->now ? c->next : c->now;
	int high = c->next > c->now ? c->next : c->now;

	if (low < s->low[cpu])
		s->low[cpu] = low;
	if (high > s->high[cpu])
		s->high[cpu] = high;
	if (high >= s->priority || low < c->now)
		s->surely &= ~(1U << cpu);
}

static void changed(int cpu)
{
	int i;

	for (i = 0; i < race_nr_cpus; i++)
		if (searches[i].on)
			look(&searches[i], cpu);
}

static long set(int self, const long *args, int nr_args)
{
	int cpu = RACE_CPU_OF(args[0]);
	int priority = args[1];

	if (priority < 0 || priority > 99)
		race_refuse("there is no real-time priority %d; expected 0 (none) to 99", priority);
	race_lock(&race_rq_locks[cpu]);
	if (priority < seen[cpu].now)
		lowered |= 1U << cpu;
	if (priority < lowest[cpu])
		lowest[cpu] = priority;
	seen[cpu].next = priority;
	changed(cpu);
	cpupri_set(&cp, cpu, prio_of(priority));
	race_unlock(&race_rq_locks[cpu]);
	seen[cpu].now = priority;
	seen[cpu].next = -1;
	changed(cpu);
	return 0;
}

static long find(int self, const long *args, int nr_args)
{
	struct search *s = &searches[self];
	struct task_struct *p = race_task(self, args[1]);
	unsigned long allowed = cpumask_bits(&p->cpus_mask)[0], chosen;
	int cpu, best = 100, found;

	p->prio = prio_of(args[0]);
	s->priority = args[0];
	s->surely = race_all() & ~(race_is_weak() ? lowered : 0);
	for (cpu = 0; cpu < race_nr_cpus; cpu++) {
		/* without a barrier between them, what has been may still be seen */
		s->low[cpu] = race_is_weak() ? lowest[cpu] : 1000;
		s->high[cpu] = -1;
	}
	s->on = 1;
	for (cpu = 0; cpu < race_nr_cpus; cpu++)
		look(s, cpu);
	found = cpupri_find(&cp, p, &race_masks[self]);
	s->on = 0;
	if (race_is_weak())
		s->surely &= ~lowered;
	chosen = cpumask_bits(&race_masks[self])[0];
	race_note("cpupri_find() = %d, mask 0x%lx", found, chosen);
	if (!found) {
		if (s->surely & allowed)
			race_fail("cpupri_find() misses a CPU that could take the task during the whole call");
		return 0;
	}
	if (!chosen)
		race_fail("cpupri_find() returns 1 with an empty mask");
	if (chosen & ~allowed)
		race_fail("cpupri_find() returns a CPU outside the task's affinity");
	for (cpu = 0; cpu < race_nr_cpus; cpu++) {
		if (!(chosen >> cpu & 1))
			continue;
		if (s->low[cpu] >= s->priority)
			race_fail("cpupri_find() returns a CPU whose priority was never lower than the task's during the call");
		if (s->low[cpu] < best)
			best = s->low[cpu];
	}
	for (cpu = 0; cpu < race_nr_cpus; cpu++)
		if ((s->surely & allowed) >> cpu & 1 && s->high[cpu] < best)
			race_fail("cpupri_find() passes over a CPU of lower priority than all that it returns");
	return chosen;
}

static int in_level(int cpu, int priority)
{
	struct cpupri_vec *vec = &cp.pri_to_cpu[level_of(priority)];

	return cpumask_test_cpu(cpu, vec->mask) && atomic_read(&vec->count) > 0;
}

/* At every point: a CPU whose priority is not being changed stands at its level. */
static void check(void)
{
	int cpu;

	for (cpu = 0; cpu < race_nr_cpus; cpu++)
		if (seen[cpu].next < 0 && !in_level(cpu, seen[cpu].now))
			race_fail("cpupri: a CPU is not at its level while nobody changes its priority");
}

/* When all have ended: each CPU at one level, and the counts are right. */
static void rest(void)
{
	int level, cpu;

	check();
	for (level = 0; level < CPUPRI_NR_PRIORITIES; level++) {
		struct cpupri_vec *vec = &cp.pri_to_cpu[level];

		if (atomic_read(&vec->count) != cpumask_weight(vec->mask))
			race_fail("cpupri: the count of a level is not the number of its CPUs");
		for_each_cpu(cpu, vec->mask)
			if (cp.cpu_to_pri[cpu] != level)
				race_fail("cpupri: a CPU stands at a level that is not its own");
	}
}

static int init(int cpus)
{
	int cpu;

	race_start(cpus);
	if (cpupri_init(&cp))
		return 1;
	for (cpu = 0; cpu < cpus; cpu++)
		cpupri_set(&cp, cpu, prio_of(0));
	return 0;
}

/* before each schedule */
static void start(void)
{
	int cpu;

	lowered = 0;
	for (cpu = 0; cpu < race_nr_cpus; cpu++) {
		seen[cpu] = (struct seen){ 0, -1 };
		lowest[cpu] = 0;
		searches[cpu].on = 0;
	}
}

/* what was done by the scenario's first lines is known to all */
static void begin(void)
{
	int cpu;

	lowered = 0;
	for (cpu = 0; cpu < race_nr_cpus; cpu++)
		lowest[cpu] = seen[cpu].now;
}

static const struct race_op ops[] = {
	{ "set", set, "CPU PRIORITY: cpupri_set(); priority 0: no real-time task, 1 to 99", 2 },
	{ "find", find, "PRIORITY MASK: cpupri_find() for a task of this priority that may run on these CPUs; 0: on all", 2 },
	{ NULL },
};

RACE_TARGET(.name = "cpupri", .init = init, .start = start, .begin = begin, .check = check, .rest = rest, .ops = ops,
	    .cpu_base = race_cpus, .cpu_stride = sizeof(race_cpus[0]));
