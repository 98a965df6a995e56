// SPDX-License-Identifier: GPL-2.0-only
/*
 * What must hold for kernel/sched/cpudeadline.c while CPUs change their earliest deadlines and others look for a CPU with a later one?
 *
 * Deadlines are small numbers, 0 for a CPU without DEADLINE tasks. What a search returns is judged by what each CPU's deadline was at some
 * moment of its call (target_cpupri.c has the picture).
 */
#include "target.h"
#include "cpudl_heap.h"

static struct cpudl cp;
struct seen { long now, next; };	/* 0: free; next: -1 if it is not being changed */
static struct seen seen[RACE_CPUS_MAX] RACE_PRIVATE;
static struct search {
	int on;
	long deadline;
	unsigned int free;		/* CPUs that were free at every moment so far */
	unsigned int later;		/* CPUs that were free, or had a later deadline, at some moment */
} searches[RACE_CPUS_MAX] RACE_PRIVATE;
static unsigned int changes RACE_PRIVATE;	/* CPUs that have become free since the scenario began */
static unsigned int were[RACE_CPUS_MAX] RACE_PRIVATE;	/* bit n: had a deadline later than n before, or was free */

static void look(struct search *s, int cpu)
{
	struct seen *c = &seen[cpu];

	if (c->now || c->next > 0)
		s->free &= ~(1U << cpu);
	if (!c->now || c->now > s->deadline || c->next == 0 || c->next > s->deadline)
		s->later |= 1U << cpu;
}

static void changed(int cpu)
{
	int i;

	for (i = 0; i < race_nr_cpus; i++)
		if (searches[i].on)
			look(&searches[i], cpu);
}

static void remember(int cpu)
{
	long n, now = seen[cpu].now;

	for (n = 0; n < 32; n++)
		if (!now || now > n)
			were[cpu] |= 1U << n;
}

static long change(int cpu, long deadline)
{
	race_lock(&race_rq_locks[cpu]);
	if (!deadline)
		changes |= 1U << cpu;
	remember(cpu);
	seen[cpu].next = deadline;
	changed(cpu);
	if (deadline)
		cpudl_set(&cp, cpu, deadline);
	else
		/* some releases have no third argument: then nobody looks at it (x86-64 passes it in a register) */
		((void (*)(struct cpudl *, int, bool))cpudl_clear)(&cp, cpu, true);
	race_unlock(&race_rq_locks[cpu]);
	seen[cpu].now = deadline;
	seen[cpu].next = -1;
	remember(cpu);
	changed(cpu);
	return 0;
}

static long set(int self, const long *args, int nr_args)
{
	if (args[1] < 1 || args[1] > 31)
		race_refuse("deadlines are 1 to 31, not %ld", args[1]);
	return change(RACE_CPU_OF(args[0]), args[1]);
}

static long clear(int self, const long *args, int nr_args)
{
	return change(RACE_CPU_OF(args[0]), 0);
}

static long find(int self, const long *args, int nr_args)
{
	struct search *s = &searches[self];
	struct task_struct *p = race_task(self, args[1]);
	unsigned long allowed = cpumask_bits(&p->cpus_mask)[0], chosen;
	int cpu, found;

	p->dl.deadline = args[0];
	s->deadline = args[0];
	s->later = 0;
	s->free = race_all() & ~(race_is_weak() ? changes : 0);
	if (race_is_weak())
		for (cpu = 0; cpu < race_nr_cpus; cpu++)
			s->later |= (were[cpu] >> args[0] & 1) << cpu;
	s->on = 1;
	for (cpu = 0; cpu < race_nr_cpus; cpu++)
		look(s, cpu);
	found = cpudl_find(&cp, p, &race_masks[self]);
	s->on = 0;
	chosen = cpumask_bits(&race_masks[self])[0];
	race_note("cpudl_find() = %d, mask 0x%lx", found, chosen);
	if (!found) {
		if (s->free & allowed)
			race_fail("cpudl_find() misses a CPU that was free during the whole call");
		return 0;
	}
	if (!chosen)
		race_fail("cpudl_find() returns 1 with an empty mask");
	if (chosen & ~allowed)
		race_fail("cpudl_find() returns a CPU outside the task's affinity");
	if (chosen & ~s->later)
		race_fail("cpudl_find() returns a CPU that was never free, nor had a later deadline, during the call");
	return chosen;
}

/* At every point at which nobody holds the lock. */
static void check(void)
{
	if (!raw_spin_is_locked(&cp.lock))
		heap(&cp);
}

static void rest(void)
{
	int cpu;

	heap(&cp);
	for (cpu = 0; cpu < race_nr_cpus; cpu++) {
		if (!seen[cpu].now != (cp.elements[cpu].idx < 0))
			race_fail("cpudl: a CPU with DEADLINE tasks is not in the heap, or one without is");
		if (seen[cpu].now && cp.elements[cp.elements[cpu].idx].dl != seen[cpu].now)
			race_fail("cpudl: a CPU's deadline is not the one that was set last");
	}
}

static int init(int cpus)
{
	int cpu;

	race_start(cpus);
	if (cpudl_init(&cp))
		return 1;
	for (cpu = 0; cpu < cpus; cpu++)
		__cpumask_set_cpu(cpu, cp.free_cpus);
	return 0;
}

static void start(void)
{
	int cpu;

	changes = 0;
	for (cpu = 0; cpu < race_nr_cpus; cpu++) {
		seen[cpu] = (struct seen){ 0, -1 };
		were[cpu] = 0;
		searches[cpu].on = 0;
	}
}

/* what was done by the scenario's first lines is known to all */
static void begin(void)
{
	int cpu;

	changes = 0;
	for (cpu = 0; cpu < race_nr_cpus; cpu++) {
		were[cpu] = 0;
		remember(cpu);
	}
}

static const struct race_op ops[] = {
	{ "set", set, "CPU DEADLINE: cpudl_set(); 1 to 31", 2 },
	{ "clear", clear, "CPU: cpudl_clear()", 1 },
	{ "find", find, "DEADLINE MASK: cpudl_find() for a task with this deadline that may run on these CPUs; 0: on all", 2 },
	{ NULL },
};

RACE_TARGET(.name = "cpudl", .init = init, .start = start, .begin = begin, .check = check, .rest = rest, .ops = ops,
	    .cpu_base = race_cpus, .cpu_stride = sizeof(race_cpus[0]));
