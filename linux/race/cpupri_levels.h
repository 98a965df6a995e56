/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _RACE_CPUPRI_LEVELS_H
#define _RACE_CPUPRI_LEVELS_H
/* Which number does kernel/sched/cpupri.c give to a user's priority, 1 to 99, or 0 for a CPU without real-time tasks? */
#include "target.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
#define NORMAL (MAX_RT_PRIO - 1)
#define LEVELS_BELOW_1 0
#else
#define NORMAL MAX_RT_PRIO
#define LEVELS_BELOW_1 1
#endif

/* user's priority -> task_struct.prio, as the real-time class does */
static int prio_of(int priority)
{
	return priority ? MAX_RT_PRIO - 1 - priority : NORMAL;
}
#endif
