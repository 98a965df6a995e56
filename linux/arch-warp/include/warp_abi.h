/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The boundary between the simulator and a Linux kernel that runs as a library inside it.
 *
 * The simulator plays the hardware. It owns time (*warp_abi.now_ns), decides when interrupts arrive, and runs a virtual
 * CPU by calling resume(cpu). resume() switches to that CPU's kernel stack and comes back when the CPU has nothing more
 * to do at this instant; warp_cpu.why says why. Kernel code costs no simulated time unless the simulator makes it so.
 *
 *      simulator                                   kernel (this CPU)
 *      ---------                                   -----------------
 *      *now_ns = 4,000,000
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
 * The per-CPU part, which all kernel code sees, is warp_cpu.h. Both are mirrored in crates/linux/src/abi.rs.
 */
#ifndef WARP_ABI_H
#define WARP_ABI_H

#define WARP_ABI_VERSION 9

#include "warp_cpu.h"

/*
 * Operations: what the task that is in user mode asks of the kernel. The simulator writes op and args into the task's
 * mailbox and resumes the CPU; the kernel sets op to 0 when it takes the request and counts `done` up when the system
 * call is about to return to user mode. A target is a task id, or WARP_TASK_SELF.
 */
#define WARP_OP_NONE	 0
#define WARP_OP_BLOCK	 1	/* a0: absolute time at which a timer wakes the task, ~0 = none. flags: WARP_F_UNINTERRUPTIBLE */
#define WARP_OP_WAKE	 2	/* a0: target. flags: WARP_F_SYNC. result: 1 woken, 0 was not blocked */
#define WARP_OP_FORK	 3	/* a0: id of the child, a1: its name (NUL-terminated) or 0. result: its pid or -errno */
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
#define WARP_OP_BATCH	 16	/* a0: address of struct warp_op[a1]: carried out in this order within one system call, so that
				   nothing else runs between them (unless one blocks). result: number of failures */

#define WARP_OP_SETSID	 17	/* setsid(): a session of its own, and with it an autogroup. result: the session or -errno */
#define WARP_OP_CALL	 18	/* a0: address of long f(void *) in an object that the simulator has loaded, a1: its argument */
#define WARP_OP_EXEC	 19	/* sched_exec(): what execve() has the scheduler do; there is no new program */
#define WARP_OP_RETURN	 20	/* nothing: a system call that WARP_F_STAYS kept open is over */

#define WARP_F_UNINTERRUPTIBLE 1	/* TASK_UNINTERRUPTIBLE instead of TASK_INTERRUPTIBLE */
#define WARP_F_SYNC	       2	/* the waker is about to block: WF_SYNC */
#define WARP_F_RESET_ON_FORK   4
#define WARP_F_STAYS	       8	/* any: the task stays within the system call until an operation without this flag */

/* An element of WARP_OP_BATCH. */
struct warp_op {
	unsigned int op;
	unsigned int flags;
	unsigned long long arg[5];
	long long result;		/* kernel */
};

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
#define WARP_LOG_NOTE	 9	/* arg: WARP_NOTE_* */
#define WARP_NOTE_CPU	 0x80000001u	/* cpu comes up (value 1) or goes down (value 0) */
#define WARP_NOTE_HELD	 0x80000015u	/* task is held back, or no longer: value: WARP_HELD_* */
#define WARP_NOTE_ALLOWED 0x80000016u	/* task may use these CPUs: value: 64 of them, flags: which 64; one after the other */

#define WARP_HELD_NOT	   0
#define WARP_HELD_GROUP	   1	/* its group's cpu.max */
#define WARP_HELD_RT	   2	/* the limit of real time */
#define WARP_HELD_DEADLINE 3	/* its SCHED_DEADLINE budget */

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
	unsigned int node;	/* NUMA node, 0 to 63 */
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
	const unsigned int *distance;	/* nr_nodes x nr_nodes, 10 = local, more = farther; must outlive the kernel */
	unsigned int nr_nodes;		/* 1 and more; warp_topo.node is below it */
	unsigned int nr_groups;		/* so many control groups will be made, the root not counted; sizes per-CPU memory */
};

/* A thread of the simulated kernel, for the name table of a log. */
struct warp_thread {
	unsigned int id;		/* task id as in the log */
	unsigned int pid;
	char comm[16];
	unsigned long long cpu_ns;
};

/*
 * Looking into one decision, and stopping a debugger at one (watch.c). The simulator fills in the first part and sets
 * warp_abi.watch_on; when the decision has come, the kernel fills in the rest and calls WARP_CALL_DECISION.
 */
#define WARP_WATCH_SWITCH  1	/* events */
#define WARP_WATCH_WAKING  2
#define WARP_WATCH_MIGRATE 3

#define WARP_STOP_TIME		  1	/* at the first event from from_ns on */
#define WARP_STOP_WAKEUP	  2	/* at the nth wakeup of task */
#define WARP_STOP_DECISION	  3	/* at the nth switch */
#define WARP_STOP_LEAVES_IDLE_LLC 4	/* at the nth migration out of a last-level cache in which a CPU is idle */

#define WARP_CLASS_FAIR 0
#define WARP_CLASS_RT	1
#define WARP_CLASS_DL	2
#define WARP_CLASS_CPU	3	/* not an entity but a CPU that a woken task could be placed on */

#define WARP_ENTITY_CURR	 0x01	/* runs from now on */
#define WARP_ENTITY_ELIGIBLE	 0x02	/* fair, Linux >= 6.6: entity_eligible() */
#define WARP_ENTITY_DELAYED	 0x04	/* Linux >= 6.12: sleeps already, still queued */
#define WARP_ENTITY_NEXT	 0x08	/* fair: the queue's next buddy */
#define WARP_ENTITY_IDLE_CPU	 0x10	/* CPU: idle_cpu() */
#define WARP_ENTITY_SHARES_CACHE 0x20	/* CPU: shares the last-level cache of the task's previous CPU */

struct warp_entity {
	unsigned char class;		/* WARP_CLASS_* */
	unsigned char flags;		/* WARP_ENTITY_* */
	unsigned short level;		/* fair: depth of its queue below the root's; CPU: its number */
	unsigned int task;		/* WARP_TASK_IDLE for a group; CPU: who runs there */
	int prio;			/* RT: rt_priority; CPU: number of runnable tasks */
	unsigned int reserved;
	unsigned long long vruntime;	/* fair */
	unsigned long long deadline;	/* fair, Linux >= 6.6: virtual; DL: absolute, ns */
	unsigned long long slice_ns;	/* fair, Linux >= 6.6; DL: what is left of the runtime */
	unsigned long long weight;	/* fair; CPU: capacity */
	unsigned long long exec_ns;	/* sum_exec_runtime */
	unsigned long long ran_ns;	/* of it, since it was last picked (queued entities: in its last turn) */
	unsigned long long load_avg, util_avg;
	char group[32];			/* path of a group */
};

struct warp_watch {
	/* simulator, or debugger */
	unsigned long long from_ns;	/* log time from which on events count */
	unsigned int explain;		/* 1: the next decision about task; kernel: 0 when it has come */
	unsigned int stop;		/* WARP_STOP_*; kernel: 0 when it has come */
	unsigned int task;		/* whom it is about */
	unsigned int nth;		/* 1 and up */
	struct warp_entity *entities;
	unsigned int max_entities;
	/* kernel */
	unsigned int nr_entities;
	unsigned int lost;		/* entities for which there was no room */
	unsigned int count;		/* events for stop so far */
	unsigned int event;		/* WARP_WATCH_SWITCH or _WAKING */
	unsigned int cpu;		/* where */
	unsigned int prev;		/* switch: who ran; waking: the waker */
	unsigned int curr;		/* switch: who runs now */
	unsigned int prev_cpu;		/* waking: the task's CPU before */
	unsigned int reserved;
	unsigned long long time_ns;	/* when, log time */
};

#define WARP_RESCHED_CALL ~0u	/* warp_abi.resched_ns: an interrupt finds the task in a system call, which its next operation ends */

struct warp_abi {
	/* compare these first */
	unsigned int version;
	unsigned int sizeof_abi, sizeof_cpu, sizeof_task, sizeof_record, sizeof_topo, sizeof_boot, sizeof_thread,
		     sizeof_op;
	/* what was built */
	unsigned int max_cpus;
	unsigned int hz;
	unsigned int linux_version;	/* LINUX_VERSION_CODE */
	const char *linux_banner;
	/* shared state */
	volatile unsigned long long *now_ns; /* simulator: the clock. Never goes back */
	unsigned long long log_epoch_ns;	/* simulator: subtracted from the time of every record */
	struct warp_cpu *cpus;		/* max_cpus entries */
	struct warp_task *control;	/* mailbox of WARP_TASK_CONTROL */
	unsigned int *kick;		/* kernel appends CPU numbers whose .posted became non-zero; max_cpus entries */
	unsigned int nr_kick;		/* kernel counts up, simulator drains and sets to 0 before the next resume() */
	unsigned int resched_ns;	/* simulator: time from an interrupt that asks for another task to schedule(). 0: none; or WARP_RESCHED_CALL */
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
	struct warp_watch *watch;
	unsigned int watch_on;		/* simulator: look at watch at each event; kernel: 0 when there is nothing more to do */
	unsigned int sizeof_entity, sizeof_watch, reserved2;
	/* flavour gcov, else NULL. The nth compiled file's name and coverage data, their size (written if there is room), 0: no such */
	unsigned long (*coverage)(unsigned int n, const char **name, char *out, unsigned long room);
	void (*coverage_reset)(void);
	/* flavour points, else NULL. Simulator: CPUs stop at points of these kinds (1 << WARP_POINT_*). 0: at none */
	unsigned int *points;
};

/* the only exported symbol */
__attribute__((visibility("default"))) struct warp_abi *warp_abi_get(void);

#endif
