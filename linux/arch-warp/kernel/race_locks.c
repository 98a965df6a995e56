/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race: which CPUs spin for each other's locks? Asked once some CPU has spun for very long.
 *
 *	cpu0	has a lock of its queue, spins for one of cpu1's
 *	cpu1	has that, spins for the one of cpu0's		they wait for each other
 *
 * A lock that is held has its CPU's number in it, plus 1 (warp_race_says()). Falsified by a lock that one CPU takes and
 * another gives: none is such a one. Spin locks alone are asked about: for which mutex or rwlock a CPU waits is not said.
 */
#include <linux/cpuset.h>
#include <linux/mmu_context.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include "../../../kernel/sched/sched.h"
#include "warp.h"
#include "race_late.h"

void warp_race_spins(const void *lock)
{
	warp_race_cpus[warp_this->id].waits_for = lock;
}

/* The CPU that has the lock for which this one spins; -1: it spins for none, or nobody has it. */
static int warp_waits_for_cpu(int cpu)
{
	const arch_spinlock_t *lock = warp_race_cpus[cpu].waits_for;

	return lock ? (int)lock->locked - 1 : -1;
}

/* Whose lock it is, by where it lies. */
static int warp_name_lock(char *text, size_t size, const void *lock)
{
	struct task_struct *g, *p;
	int cpu;

	for_each_possible_cpu(cpu) {
		const void *rq = cpu_rq(cpu);

		if (lock >= rq && lock < rq + sizeof(struct rq))
			return scnprintf(text, size, "a lock of cpu%d's queue", cpu);
	}
	for_each_process_thread(g, p)
		if (lock >= (void *)p && lock < (void *)(p + 1))
			return scnprintf(text, size, "a lock of %s", p->comm);
	return scnprintf(text, size, "a lock");
}

static char warp_waits_text[512];

/* Says behind what is said, from this place on, for whom the CPU waits; how much is said then. */
static int warp_say_waits(int len, int cpu)
{
	char *text = warp_waits_text;
	size_t size = sizeof(warp_waits_text);

	len += scnprintf(text + len, size - len, "%scpu%d waits for ", len ? "; " : "", cpu);
	len += warp_name_lock(text + len, size - len, warp_race_cpus[cpu].waits_for);
	return len + scnprintf(text + len, size - len, ", which cpu%d has", warp_waits_for_cpu(cpu));
}

/* Of CPUs that wait for each other, who waits for whom, from the lowest one on; NULL: there are none. */
const char *warp_race_deadlock(void)
{
	int first, cpu, n, len = 0;

	for_each_online_cpu(first) {
		for (cpu = first, n = 0; n < nr_cpu_ids; n++) {
			cpu = warp_waits_for_cpu(cpu);
			if (cpu < 0 || cpu == first)
				break;
		}
		if (cpu != first)
			continue;
		do {
			len = warp_say_waits(len, cpu);
			cpu = warp_waits_for_cpu(cpu);
		} while (cpu != first);
		return warp_waits_text;
	}
	return NULL;
}

/* The lowest CPU that spins for a lock which another one has, and does not give; NULL: there is none. */
const char *warp_race_spinner(void)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (warp_waits_for_cpu(cpu) >= 0) {
			warp_say_waits(0, cpu);
			return warp_waits_text;
		}
	return NULL;
}
