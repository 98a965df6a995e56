/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_RACE_PREEMPT_H
#define _WARP_RACE_PREEMPT_H
/*
 * Kernel: a count of reasons not to preempt. Ours: always 0, since a target's CPU runs one thing, and nothing else wants it.
 * Could falsify: a target that asks whether it is preemptible.
 */
#include <linux/thread_info.h>
#define PREEMPT_ENABLED 0
static __always_inline int preempt_count(void) { return 0; }
static __always_inline volatile int *preempt_count_ptr(void) { return (volatile int *)0; }
static __always_inline void preempt_count_set(int count) { }
#define init_task_preempt_count(p) do { } while (0)
#define init_idle_preempt_count(p, cpu) do { } while (0)
static __always_inline void set_preempt_need_resched(void) { }
static __always_inline void clear_preempt_need_resched(void) { }
static __always_inline bool test_preempt_need_resched(void) { return false; }
static __always_inline void __preempt_count_add(int value) { }
static __always_inline void __preempt_count_sub(int value) { }
static __always_inline bool __preempt_count_dec_and_test(void) { return false; }
static __always_inline bool should_resched(int offset) { return false; }
#define __preempt_schedule() do { } while (0)
#define __preempt_schedule_notrace() do { } while (0)
#endif
