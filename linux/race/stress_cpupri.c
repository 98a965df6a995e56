// SPDX-License-Identifier: GPL-2.0-only
/*
 * kernel/sched/cpupri.c behind the hooks of `race --stress` and `race --cost`: CPUs are threads of this machine, and call it at the same
 * time. The runtime (crates/race/c/stress.c) has the queues, and holds the lock of a CPU's queue while that CPU's priority is changed, as
 * the kernel does. Keys are users' priorities, 1 to 99.
 */
#include "target.h"
#include "cpupri_levels.h"

static struct cpupri cp;

static long preempt(int cpu, long key)
{
	cpupri_set(&cp, cpu, prio_of(key));
	return 0;
}

static long finish(int cpu, long key)
{
	cpupri_set(&cp, cpu, prio_of(key < 0 ? 0 : key));
	return 0;
}

static long find(int cpu, long key)
{
	struct task_struct *p = race_task(cpu, 0);
	unsigned long chosen;

	p->prio = prio_of(key);
	if (!cpupri_find(&cp, p, &race_masks[cpu]))
		return -1;
	chosen = cpumask_bits(&race_masks[cpu])[0];
	if (!chosen)
		race_fail("cpupri_find() returns 1 with an empty mask");
	if (chosen & ~race_all())
		race_fail("cpupri_find() returns a CPU that is not there");
	return __builtin_ctzl(chosen);
}

static void rest(void)
{
	int level, cpu;

	for (level = 0; level < CPUPRI_NR_PRIORITIES; level++)
		if (atomic_read(&cp.pri_to_cpu[level].count) != cpumask_weight(cp.pri_to_cpu[level].mask))
			race_fail("cpupri: the count of a level is not the number of its CPUs");
	for (cpu = 0; cpu < race_nr_cpus; cpu++) {
		long first = race_first(cpu);

		level = level_of(first < 0 ? 0 : first);
		if (cp.cpu_to_pri[cpu] != level || !cpumask_test_cpu(cpu, cp.pri_to_cpu[level].mask))
			race_fail("cpupri: a CPU is not at the level of its first task");
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

RACE_TARGET(.name = "cpupri", .init = init, .preempt = preempt, .finish = finish, .find = find, .rest = rest,
	    .cpu_base = race_cpus, .cpu_stride = sizeof(race_cpus[0]));
