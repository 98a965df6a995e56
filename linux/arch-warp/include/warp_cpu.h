/* SPDX-License-Identifier: GPL-2.0-only */
/* One virtual CPU, as shared by the kernel and the simulator. Part of warp_abi.h; versioned with it. */
#ifndef WARP_CPU_ABI_H
#define WARP_CPU_ABI_H

struct task_struct;

/* warp_cpu.pending and .posted: interrupts. When several are pending they are taken in this order, one by one. */
#define WARP_IRQ_RESCHED 0x01	/* reschedule IPI */
#define WARP_IRQ_CALL	 0x02	/* call-function IPI: remote wakeups (ttwu_queue), csd, stop_machine ... */
#define WARP_IRQ_WORK	 0x04	/* irq_work, self or remote */
#define WARP_IRQ_TIMER	 0x08	/* this CPU's clockevent; set by the simulator when deadline_ns is reached */
#define WARP_IRQ_DEVICE	 0x10	/* wakes the tasks listed in warp_cpu.device_tasks */
#define WARP_IRQ_START	 0x80	/* .posted only: the CPU has been given a stack and is to be resumed for the first time */

/* warp_cpu.why: what the CPU is doing now that resume() has come back */
#define WARP_OFF   0		/* never resumed yet */
#define WARP_IDLE  1		/* in arch_cpu_idle(): resume when an interrupt is pending */
#define WARP_USER  2		/* the current task is in user mode: resume with an interrupt pending, or with an operation */
#define WARP_RELAX 3		/* spinning in cpu_relax(): resume after other CPUs have had a chance to run */
#define WARP_CALL  4		/* wants the simulator (warp_cpu.call): serve, then resume this same CPU */
#define WARP_PAUSED 5		/* kernel code takes time, interrupts off: resume at paused_until_ns */
#define WARP_POINT 6		/* stopped at a point that was asked for (warp_abi.points; race.c): resume when it is to go on */

/* warp_cpu.point: what the CPU is about to do, or has just done. Bits of *warp_abi.points. 0 is WARP_RELAX's. */
#define WARP_POINT_ATOMIC 1	/* before an atomic operation that reads and writes */
#define WARP_POINT_LOCK	  2	/* before an attempt to take a spin lock */
#define WARP_POINT_UNLOCK 3	/* after a spin lock was released */
#define WARP_POINT_IRQ_ON 4	/* after interrupts were enabled, and those that waited were taken */

/* warp_cpu.call */
#define WARP_CALL_PRINT	   1	/* console text at call_text, call_len bytes */
#define WARP_CALL_LOG_FULL 2	/* set warp_abi.log_next and .log_end to a fresh window of at least one record */
#define WARP_CALL_PANIC	   3	/* panic(): call_text is the reason; do not resume any CPU again */
#define WARP_CALL_HALT	   4	/* the kernel has powered off; do not resume any CPU again */
#define WARP_CALL_DECISION 6	/* warp_abi.watch holds what was asked for */
#define WARP_CALL_THREAD   5	/* a kernel thread with id `task` and name call_text exits: last chance to learn its name */

/* Task ids. Workload tasks are numbered by the simulator, 0 and up. */
#define WARP_TASK_KTHREAD 0x80000000u	/* | pid: kernel threads, and pid 1, the control task */
#define WARP_TASK_IDLE	  0xffffffffu
#define WARP_TASK_CONTROL (WARP_TASK_KTHREAD | 1)
#define WARP_TASK_SELF	  0xfffffffeu	/* as an operation's target: the task itself */

/* One virtual CPU. The first cache line is hot. */
struct warp_cpu {
	struct task_struct *curr;	/* kernel: the running task */
	unsigned long pcpu_off;		/* kernel: offset of this CPU's per-CPU variables */
	unsigned int id;		/* kernel: CPU number */
	unsigned char irq_on;		/* kernel: local interrupts are enabled */
	unsigned char pending;		/* simulator and this CPU itself: interrupts that have arrived; kernel clears */
	unsigned char posted;		/* kernel, other CPUs: interrupts under way; simulator clears and moves to pending */
	unsigned char queued;		/* kernel sets when it puts this CPU into kick[], simulator clears when it takes it out */
	unsigned long long deadline_ns;	/* kernel: clockevent, absolute; ~0 = off. Changes only while this CPU is resumed */
	void *sp;			/* both: stack pointer of the CPU while it is not resumed; NULL: not started */
	unsigned int task;		/* kernel: id of the task in user mode, valid when why == WARP_USER */
	unsigned char why;		/* kernel: WARP_OFF ... */
	unsigned char online;		/* kernel: takes part in scheduling */
	unsigned char call;		/* kernel: WARP_CALL_*, valid when why == WARP_CALL */
	unsigned char point;		/* kernel: WARP_POINT_*, valid when why == WARP_POINT */
	unsigned int nr_device_tasks;	/* simulator: length of device_tasks; the handler counts it down */
	unsigned int idle_resched_ns;	/* simulator: as warp_abi.resched_ns, for the interrupts of this resume() to an idle CPU. 0: none */
	/* second line: cold */
	const unsigned int *device_tasks; /* simulator: ids of tasks that the device interrupt wakes, in this order; the handler goes on behind each */
	const char *call_text;
	unsigned long long call_len;
	unsigned long long paused_until_ns; /* kernel: valid when why == WARP_PAUSED */
	const volatile void *point_address; /* kernel: the lock or variable concerned, or NULL; valid when why == WARP_POINT */
	const void *point_code;		/* kernel: where in its text, likewise */
	unsigned long long reserved2[2];
} __attribute__((aligned(64)));

#endif
