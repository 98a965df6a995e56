/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_THREAD_INFO_H
#define _WARP_THREAD_INFO_H
#define THREAD_SIZE_ORDER 2
#define THREAD_SIZE (4096UL << THREAD_SIZE_ORDER)
#ifndef __ASSEMBLY__
#include <asm/processor.h>
struct thread_info {
	unsigned long flags;		/* TIF_* */
	unsigned long syscall_work;
	int preempt_count;
	unsigned int cpu;
};
#define INIT_THREAD_INFO(tsk) { .flags = 0, .preempt_count = INIT_PREEMPT_COUNT }
#endif
#define TIF_SYSCALL_TRACE	0
#define TIF_NOTIFY_RESUME	1
#define TIF_SIGPENDING		2
#define TIF_NEED_RESCHED	3
#define TIF_NOTIFY_SIGNAL	4
#define TIF_RESTORE_SIGMASK	5
#define TIF_MEMDIE		6
#define TIF_SYSCALL_AUDIT	7
#define TIF_SECCOMP		8
#define TIF_NEED_RESCHED_LAZY	9
#define TIF_POLLING_NRFLAG	10
#define _TIF_SYSCALL_TRACE	(1 << TIF_SYSCALL_TRACE)
#define _TIF_NOTIFY_RESUME	(1 << TIF_NOTIFY_RESUME)
#define _TIF_SIGPENDING		(1 << TIF_SIGPENDING)
#define _TIF_NEED_RESCHED	(1 << TIF_NEED_RESCHED)
#define _TIF_NOTIFY_SIGNAL	(1 << TIF_NOTIFY_SIGNAL)
#define _TIF_NEED_RESCHED_LAZY	(1 << TIF_NEED_RESCHED_LAZY)
#define _TIF_POLLING_NRFLAG	(1 << TIF_POLLING_NRFLAG)
#endif
