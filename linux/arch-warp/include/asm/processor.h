/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_PROCESSOR_H
#define _WARP_PROCESSOR_H
#ifndef __ASSEMBLY__
#include <linux/version.h>
#include <asm/ptrace.h>
#include <asm/cpu.h>

/* What a task carries for us. */
struct thread_struct {
	void *sp;			/* its stack pointer while it is not running */
	int (*fn)(void *);		/* kernel thread: what to run first. User task: NULL */
	void *arg;
	unsigned int id;		/* workload task: id + 1. Else 0 */
	unsigned int child_id;		/* during WARP_OP_FORK: id + 1 of the child */
	unsigned char yielding;		/* in sched_yield() */
	unsigned char held;		/* WARP_HELD_*, as the log knows */
#ifdef CONFIG_WARP_RACE
	unsigned char woken;		/* someone has asked for its wakeup since it was told to block: ops.c */
	unsigned char unpinned;		/* its section without migration has ended since it got its CPU: race.c */
	unsigned char said;		/* within data_race(): race.c */
	unsigned long long asked;	/* the CPUs that sched_setaffinity() last granted, 0: it is not known: ops.c */
	unsigned char asking;		/* so many calls of sched_setaffinity() for it are under way */
	unsigned char asking_both;	/* and there were several at once: no order of them is known */
#endif
	unsigned long long allowed;	/* a sum of the CPUs that it may use, as the log knows */
	struct warp_task *box;		/* mailbox; NULL for kernel threads */
	struct pt_regs regs;		/* "user" registers */
};
#define INIT_THREAD { }

/*
 * Kernel: a hint inside a spin loop. Ours: the only way another CPU can make progress, so it hands control back.
 * Could falsify: spinning takes no simulated time.
 */
void warp_relax(void);
#define cpu_relax() warp_relax()
#define cpu_relax_lowlatency() cpu_relax()

#define TASK_SIZE (~0UL)
#define TASK_UNMAPPED_BASE 0
#define STACK_TOP TASK_SIZE
#define STACK_TOP_MAX TASK_SIZE
#define task_pt_regs(t) (&(t)->thread.regs)
#define KSTK_EIP(t) 0UL
#define KSTK_ESP(t) 0UL
#define on_thread_stack() true
void start_thread(struct pt_regs *regs, unsigned long ip, unsigned long sp);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 16, 0)
struct task_struct;
unsigned long __get_wchan(struct task_struct *p);
#else
#define get_wchan(p) 0UL
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
static inline void release_thread(struct task_struct *p) { }
#endif
#endif
#endif
