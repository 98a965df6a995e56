/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _RACE_TARGET_H
#define _RACE_TARGET_H
/* What the targets from kernel/sched share: CPUs, run queue locks, tasks that look for a CPU. */
#include <linux/version.h>
#include <linux/cpumask.h>
#include <linux/sched/rt.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>
#include <linux/mmu_context.h>
#include "sched.h"
#include <schedlab_race.h>

extern int race_nr_cpus;
extern struct warp_cpu race_cpus[RACE_CPUS_MAX];
/* of each CPU: the task that it looks for a place for, and the mask that it is given */
extern struct task_struct race_tasks[RACE_CPUS_MAX];
extern struct cpumask race_masks[RACE_CPUS_MAX];
/* what holds the priority or deadline of a CPU still while it is changed: its run queue's lock, as in the kernel */
extern unsigned int race_rq_locks[RACE_CPUS_MAX];

void race_start(int cpus);
/* the task of this CPU may run on these CPUs; 0: on all */
struct task_struct *race_task(int cpu, unsigned long allowed);
static inline unsigned long race_all(void) { return race_nr_cpus < 64 ? (1UL << race_nr_cpus) - 1 : ~0UL; }
#define RACE_CPU_OF(arg) ({ \
	if ((arg) < 0 || (arg) >= race_nr_cpus) \
		race_refuse("there is no CPU %ld; expected 0 to %d", (long)(arg), race_nr_cpus - 1); \
	(int)(arg); })
#endif
