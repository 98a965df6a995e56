/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _RACE_CPUDL_HEAP_H
#define _RACE_CPUDL_HEAP_H
/* What must hold of the heap of kernel/sched/cpudeadline.c while nobody changes it? */
#include "target.h"

static void heap(const struct cpudl *cp)
{
	int i;

	if (cp->size < 0 || cp->size > race_nr_cpus)
		race_fail("cpudl: the heap has more elements than there are CPUs");
	for (i = 0; i < cp->size; i++) {
		int cpu = cp->elements[i].cpu;

		if (cpu < 0 || cpu >= race_nr_cpus)
			race_fail("cpudl: the heap holds a CPU that is not there");
		if (cp->elements[cpu].idx != i)
			race_fail("cpudl: a CPU's index is not its place in the heap");
		if (i && dl_time_before(cp->elements[(i - 1) / 2].dl, cp->elements[i].dl))
			race_fail("cpudl: the heap is out of order");
		if (cpumask_test_cpu(cpu, cp->free_cpus))
			race_fail("cpudl: a CPU is in the heap and free");
	}
	for (i = 0; i < race_nr_cpus; i++)
		if (!cpumask_test_cpu(i, cp->free_cpus) && cp->elements[i].idx < 0)
			race_fail("cpudl: a CPU is neither in the heap nor free");
}
#endif
