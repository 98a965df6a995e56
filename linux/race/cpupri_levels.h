/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _RACE_CPUPRI_LEVELS_H
#define _RACE_CPUPRI_LEVELS_H
/* Which number does kernel/sched/cpupri.c give to a user's priority, 1 to 99, or 0 for a CPU without real-time tasks? */
#include "target.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
#define NORMAL (MAX_RT_PRIO - 1)
#else
#define NORMAL MAX_RT_PRIO
#endif

/* user's priority -> task_struct.prio, as the real-time class does */
static int prio_of(int priority)
{
	return priority ? MAX_RT_PRIO - 1 - priority : NORMAL;
}

/* user's priority -> index of cpupri.pri_to_cpu. 5.10's cpupri.h: 1 is CPUPRI_NORMAL, "values 2-101 are RT priorities 0-99". */
static inline int level_of(int priority)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
	return priority;
#else
	return priority ? priority + 2 : CPUPRI_NORMAL;
#endif
}
#endif
