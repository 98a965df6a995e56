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
#include <linux/version.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define HAVE_TIF_NEED_RESCHED_LAZY
#define HAVE_TIF_POLLING_NRFLAG
#define HAVE_TIF_RESTORE_SIGMASK
#include <asm-generic/thread_info_tif.h>
#define TIF_SYSCALL_TRACE	16
#define TIF_SYSCALL_AUDIT	17
#define TIF_SECCOMP		18
#else
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
#define TIF_SYSCALL_TRACEPOINT	11	/* Linux < 5.11: system call work is among the thread flags */
#define _TIF_NOTIFY_RESUME	(1 << TIF_NOTIFY_RESUME)
#define _TIF_SIGPENDING		(1 << TIF_SIGPENDING)
#define _TIF_NEED_RESCHED	(1 << TIF_NEED_RESCHED)
#define _TIF_NOTIFY_SIGNAL	(1 << TIF_NOTIFY_SIGNAL)
#define _TIF_NEED_RESCHED_LAZY	(1 << TIF_NEED_RESCHED_LAZY)
#define _TIF_POLLING_NRFLAG	(1 << TIF_POLLING_NRFLAG)
#endif
#define _TIF_SYSCALL_TRACE	(1 << TIF_SYSCALL_TRACE)
#endif
