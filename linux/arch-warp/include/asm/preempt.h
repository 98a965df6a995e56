/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_PREEMPT_H
#define _WARP_PREEMPT_H
/*
 * Kernel: where preemption is enabled again, and where an unlock does so, the task gives its CPU away only under preempt=full
 * (CONFIG_PREEMPT_DYNAMIC). The generic header knows that from 6.2 on; until then each architecture says it, as arm64's does. Ours: the
 * same lines.
 * Could falsify: without them 6.1 is preempted within system calls although preempt=voluntary is in force: a CALL of a workload shows it.
 */
#include <asm-generic/preempt.h>

#if defined(CONFIG_PREEMPT_DYNAMIC) && defined(CONFIG_HAVE_PREEMPT_DYNAMIC_KEY)
void dynamic_preempt_schedule(void);
void dynamic_preempt_schedule_notrace(void);
#undef __preempt_schedule
#undef __preempt_schedule_notrace
#define __preempt_schedule() dynamic_preempt_schedule()
#define __preempt_schedule_notrace() dynamic_preempt_schedule_notrace()
#endif

#endif
