// SPDX-License-Identifier: GPL-2.0-only
/*
 * kernel/sched/cpudeadline.c behind the hooks of `race --stress` and `race --cost`: CPUs are threads of this machine, and call it at the
 * same time. The runtime (crates/race/c/stress.c) has the queues, and holds the lock of a CPU's queue while that CPU's earliest deadline
 * is changed, as the kernel does. Keys are deadlines in ns.
 */
#include "target.h"
#include "cpudl_heap.h"

static struct cpudl cp;

static long preempt(int cpu, long key)
{
	cpudl_set(&cp, cpu, key);
	return 0;
}

static long finish(int cpu, long key)
{
	if (key >= 0)
		cpudl_set(&cp, cpu, key);
	else
		/* some releases have no third argument: then nobody looks at it (x86-64 passes it in a register) */
		((void (*)(struct cpudl *, int, bool))cpudl_clear)(&cp, cpu, true);
	return 0;
}

static long find(int cpu, long key)
{
	struct task_struct *p = race_task(cpu, 0);
	unsigned long chosen;

	p->dl.deadline = key;
	if (!cpudl_find(&cp, p, &race_masks[cpu]))
		return -1;
	chosen = cpumask_bits(&race_masks[cpu])[0];
	if (!chosen)
		race_fail("cpudl_find() returns 1 with an empty mask");
	if (chosen & ~race_all())
		race_fail("cpudl_find() returns a CPU that is not there");
	return __builtin_ctzl(chosen);
}

static void rest(void)
{
	int cpu;

	heap(&cp);
	for (cpu = 0; cpu < race_nr_cpus; cpu++) {
		long first = race_first(cpu);

		if ((first < 0) != (cp.elements[cpu].idx < 0))
			race_fail("cpudl: a CPU with DEADLINE tasks is not in the heap, or one without is");
		if (first >= 0 && cp.elements[cp.elements[cpu].idx].dl != (u64)first)
			race_fail("cpudl: a CPU's deadline is not that of its first task");
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

RACE_TARGET(.name = "cpudl", .init = init, .preempt = preempt, .finish = finish, .find = find, .rest = rest, .least_first = 1,
	    .cpu_base = race_cpus, .cpu_stride = sizeof(race_cpus[0]));
