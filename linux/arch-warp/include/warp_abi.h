/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The boundary between the simulator and a Linux kernel that runs as a library inside it.
 *
 * The simulator plays the hardware. It owns time (warp_abi.now_ns), decides when interrupts arrive, and runs a virtual
 * CPU by calling resume(cpu). resume() switches to that CPU's kernel stack and comes back when the CPU has nothing more
 * to do at this instant; warp_cpu.why says why. Kernel code costs no simulated time unless the simulator makes it so.
 *
 *      simulator                                   kernel (this CPU)
 *      ---------                                   -----------------
 *      now_ns = 4,000,000
 *      cpu->pending |= WARP_IRQ_TIMER
 *      resume(cpu) ------------------------------> irq_enter, tick, irq_exit, maybe schedule()
 *      why == WARP_USER, task == 7  <------------- the current task is in user mode
 *      read cpu->deadline_ns: it may have changed; drain kick[]: other CPUs may have been sent interrupts
 *
 * Everything is shared memory of one process and one host thread. There are no callbacks: when the kernel needs the
 * simulator at once (console text, a full log window, panic) resume() comes back with WARP_CALL, and the simulator
 * serves cpu->call and resumes the same CPU. So no simulator code ever runs on a (small) kernel stack.
 *
 * Only one symbol is exported: warp_abi_get(). Compare `version` and the `sizeof_*` fields before anything else.
 * Mirrored in crates/linux/src/abi.rs. Plain C types only: this file is included by kernel C and by nothing else.
 */
#ifndef WARP_ABI_H
#define WARP_ABI_H

#define WARP_ABI_VERSION 1

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

/* warp_cpu.call */
#define WARP_CALL_PRINT	   1	/* console text at call_text, call_len bytes */
#define WARP_CALL_LOG_FULL 2	/* set warp_abi.log_next and .log_end to a fresh window of at least one record */
#define WARP_CALL_PANIC	   3	/* panic(): call_text is the reason; do not resume any CPU again */
#define WARP_CALL_HALT	   4	/* the kernel has powered off; do not resume any CPU again */

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
	unsigned char reserved0;
	unsigned int nr_device_tasks;	/* simulator: length of device_tasks; the handler sets it to 0 */
	unsigned int reserved1;
	/* second line: cold */
	const unsigned int *device_tasks; /* simulator: ids of tasks that the device interrupt wakes, in this order */
	const char *call_text;
	unsigned long long call_len;
	unsigned long long reserved2[5];
} __attribute__((aligned(64)));

/*
 * Operations: what the task that is in user mode asks of the kernel. The simulator writes op and args into the task's
 * mailbox and resumes the CPU; the kernel sets op to 0 when it takes the request and counts `done` up when the system
 * call is about to return to user mode. A target is a task id, or WARP_TASK_SELF.
 */
#define WARP_OP_NONE	 0
#define WARP_OP_BLOCK	 1	/* a0: absolute time at which a timer wakes the task, ~0 = none. flags: WARP_F_UNINTERRUPTIBLE */
#define WARP_OP_WAKE	 2	/* a0: target. flags: WARP_F_SYNC. result: 1 woken, 0 was not blocked */
#define WARP_OP_FORK	 3	/* a0: id of the child. result: the child's pid or -errno */
#define WARP_OP_YIELD	 4	/* sched_yield() */
#define WARP_OP_EXIT	 5	/* a0: exit code. Does not return */
#define WARP_OP_NICE	 6	/* a0: target, a1: nice */
#define WARP_OP_SCHED	 7	/* a0: target, a1: policy (SCHED_*) | nice or rt priority << 32, a2: runtime, a3: deadline,
				   a4: period; flags: WARP_F_RESET_ON_FORK. sched_setattr() */
#define WARP_OP_AFFINITY 8	/* a0: target, a1: address of the mask's 64-bit words, a2: number of words. sched_setaffinity() */
#define WARP_OP_WRITE	 9	/* a0: path, a1: data, a2: length. result: bytes or -errno (paths are NUL-terminated) */
#define WARP_OP_READ	 10	/* a0: path, a1: buffer, a2: size. result: bytes or -errno */
#define WARP_OP_MKDIR	 11	/* a0: path, a1: mode */
#define WARP_OP_RMDIR	 12	/* a0: path */
#define WARP_OP_MOUNT	 13	/* a0: file system type, a1: directory, a2: options or 0 */
#define WARP_OP_ATTACH	 14	/* a0: target, a1: path of a cgroup.procs or cgroup.threads file: write the target's pid there */
#define WARP_OP_LIST	 15	/* a0: path of a directory, a1: buffer, a2: size: names, NUL-terminated each. result: bytes */

#define WARP_F_UNINTERRUPTIBLE 1	/* TASK_UNINTERRUPTIBLE instead of TASK_INTERRUPTIBLE */
#define WARP_F_SYNC	       2	/* the waker is about to block: WF_SYNC */
#define WARP_F_RESET_ON_FORK   4

/* One task of the workload (or the control task): first line mailbox, second line what the kernel says about it. */
struct warp_task {
	unsigned int op;		/* simulator: WARP_OP_*; kernel: 0 when taken */
	unsigned int flags;		/* simulator: WARP_F_* */
	unsigned long long arg[5];	/* simulator */
	long long result;		/* kernel */
	struct task_struct *task;	/* kernel: NULL before the fork and after the exit */

	unsigned int pid;		/* kernel: pid in the simulated kernel, kept after the exit */
	unsigned int done;		/* kernel: number of operations completed */
	unsigned long long cpu_ns;	/* kernel: se.sum_exec_runtime ... filled at exit and by task_stats() */
	unsigned long long nvcsw;	/* voluntary switches */
	unsigned long long nivcsw;	/* involuntary switches */
	unsigned long long migrations;	/* se.nr_migrations */
	unsigned long long wait_ns;	/* sched_info.run_delay; 0 if the kernel was built without */
	unsigned long long reserved[2];
} __attribute__((aligned(64)));

/*
 * A record of the schedule log. Written by probes on the kernel's own tracepoints.
 * The same layout as schedlab_log::Record, which says what each field means for each kind.
 */
struct warp_record {
	unsigned long long time_ns;
	unsigned char kind;		/* WARP_LOG_* */
	unsigned char flags;
	unsigned short cpu;		/* where it happened */
	unsigned int task;
	unsigned int other;
	unsigned int arg;
	unsigned long long value;
};

#define WARP_LOG_SWITCH	 1	/* task: previous, other: next, flags: WARP_PREV_*, arg: raw prev_state of the tracepoint */
#define WARP_LOG_WAKING	 2	/* task: wakee, other: current task, flags bit 0: from hard or soft interrupt context */
#define WARP_LOG_WAKEUP	 3	/* task, arg: CPU it is runnable on */
#define WARP_LOG_NEW	 4	/* task, arg: CPU */
#define WARP_LOG_MIGRATE 5	/* task, arg: from CPU, other: to CPU */
#define WARP_LOG_FORK	 6	/* task: parent, other: child */
#define WARP_LOG_EXIT	 7	/* task */
#define WARP_LOG_PARAMS	 8	/* task, value: policy | (nice & 0xff) << 8 | rt_priority << 16, flags bit 0: affinity */

#define WARP_PREV_PREEMPTED 0
#define WARP_PREV_YIELDED   1
#define WARP_PREV_SLEEPING  2
#define WARP_PREV_DISK	    3
#define WARP_PREV_DEAD	    4

/* Where a CPU is. Equal ids at a level (within the level above) share it. capacity: 1024 = the biggest CPU. */
struct warp_topo {
	unsigned int core;
	unsigned int cluster;
	unsigned int llc;
	unsigned int package;
	unsigned int node;	/* must be 0 in this version */
	unsigned int capacity;
};

struct warp_boot {
	unsigned long long now_ns;	/* time at power-on, not 0 */
	unsigned int nr_cpus;		/* at most warp_abi.max_cpus */
	unsigned int max_tasks;		/* length of tasks */
	const struct warp_topo *topo;	/* nr_cpus entries; must outlive the kernel */
	struct warp_task *tasks;	/* zeroed */
	void *memory;			/* the machine's RAM: page aligned, zeroed, at the same address in every run */
	unsigned long long memory_size;
	const char *command_line;
};

/* A thread of the simulated kernel, for the name table of a log. */
struct warp_thread {
	unsigned int id;		/* task id as in the log */
	unsigned int pid;
	char comm[16];
	unsigned long long cpu_ns;
};

struct warp_abi {
	/* compare these first */
	unsigned int version;
	unsigned int sizeof_abi, sizeof_cpu, sizeof_task, sizeof_record, sizeof_topo, sizeof_boot, sizeof_thread;
	/* what was built */
	unsigned int max_cpus;
	unsigned int hz;
	unsigned int linux_version;	/* LINUX_VERSION_CODE */
	unsigned int reserved0;
	const char *linux_banner;
	/* shared state */
	volatile unsigned long long now_ns; /* simulator: the clock. Never goes back */
	struct warp_cpu *cpus;		/* max_cpus entries */
	struct warp_task *control;	/* mailbox of WARP_TASK_CONTROL */
	unsigned int *kick;		/* kernel appends CPU numbers whose .posted became non-zero; max_cpus entries */
	unsigned int nr_kick;		/* kernel counts up, simulator drains and sets to 0 after every resume() */
	unsigned int reserved1;
	struct warp_record *log_next;	/* kernel: where the next record goes */
	struct warp_record *log_end;
	unsigned int log_on;		/* simulator: 0 = write no records */
	unsigned int control_ready;	/* kernel: pid 1 is in user mode, the boot is over */
	/* functions; none may be called while resume() has not come back */
	int (*boot)(const struct warp_boot *boot);	/* once. 0 or -1: a parameter is out of range. Then resume CPU 0 */
	void (*resume)(struct warp_cpu *cpu);
	void (*task_stats)(struct warp_task *task);	/* refresh the statistics of a live task; no effect on a dead one */
	unsigned int (*threads)(struct warp_thread *out, unsigned int max); /* kernel threads; returns how many there are */
	const void *text_start, *text_end;		/* range of kernel code, for stack traces */
};

/* the only exported symbol */
__attribute__((visibility("default"))) struct warp_abi *warp_abi_get(void);

#endif
