/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where kernel versions differ in what the port's C files use; one name for each difference.
 * (Header differences stand in the asm/ header concerned, marked LINUX_VERSION_CODE.)
 * Tested at 5.10, 6.1, 6.12, 6.18 and 7.2; where a boundary lies between two of them is from reading the sources.
 */
#ifndef WARP_VERSIONS_H
#define WARP_VERSIONS_H
#include <linux/version.h>

/* arguments of the sched_switch tracepoint */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 19, 0)
#define WARP_SWITCH_ARGS bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state
#define WARP_SWITCH_STATE
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(5, 18, 0)
#define WARP_SWITCH_ARGS bool preempt, unsigned int prev_state, struct task_struct *prev, struct task_struct *next
#define WARP_SWITCH_STATE
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
#define WARP_SWITCH_ARGS bool preempt, struct task_struct *prev, struct task_struct *next
#define WARP_SWITCH_STATE unsigned int prev_state = READ_ONCE(prev->__state);
#else
#define WARP_SWITCH_ARGS bool preempt, struct task_struct *prev, struct task_struct *next
#define WARP_SWITCH_STATE unsigned int prev_state = READ_ONCE(prev->state);
#endif

/* real time is limited by stopping whole queues: before 6.12 always, later only for groups; there, a deadline server runs the others */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0) || defined(CONFIG_RT_GROUP_SCHED)
#define WARP_RT_LIMIT 1
#else
#define WARP_RT_LIMIT 0
#endif

/* cpu.max takes tasks off the queue one by one, on their way to user mode, since 6.18; before, whole queues of a group */
#define WARP_TASKS_THROTTLED (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0))

/* a task may be asleep and still be on the fair class's queue since 6.12 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#define WARP_SLEEPS_QUEUED(p) ((p)->se.sched_delayed)
#else
#define WARP_SLEEPS_QUEUED(p) false
#endif

/* a task may sleep with migration disabled since 5.11; before, that disabled preemption */
#define WARP_SLEEPS_PINNED (LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0))

/* entities of the deadline class that are no tasks, since 6.8 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define WARP_DL_SERVER(dl_se) ((dl_se)->dl_server)
#else
#define WARP_DL_SERVER(dl_se) false
#endif

/* arguments of the sched_process_exit tracepoint */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define WARP_EXIT_ARGS struct task_struct *p, bool group_dead
#else
#define WARP_EXIT_ARGS struct task_struct *p
#endif

/* arch_cpu_idle() returns with interrupts on before 6.3, off since */
#define WARP_IDLE_RETURNS_IRQS_OFF (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0))

/* smp_send_reschedule() became a tracing wrapper around arch_smp_send_reschedule() */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#define warp_send_reschedule arch_smp_send_reschedule
#else
#define warp_send_reschedule smp_send_reschedule
#endif

/* generic zone set-up in 7.x: arch_zone_limits_init() in place of free_area_init(); memblock_free_all() is called by generic code since 6.16 */
#define WARP_OWN_ZONE_INIT (LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0))
#define WARP_OWN_MEM_INIT (LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0))

/* what a dead CPU's idle task calls: does not return since 6.4 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#define WARP_IDLE_DEAD_NORETURN __noreturn
#else
#define WARP_IDLE_DEAD_NORETURN
#endif

/* the functions that allocate per-CPU memory's first chunk are the caller's before 5.17; memblock_free() takes a pointer since 5.16 */
#define WARP_OWN_FIRST_CHUNK (LINUX_VERSION_CODE < KERNEL_VERSION(5, 17, 0))
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 16, 0)
#define warp_memblock_free(start, size) memblock_free(start, size)
#else
#define warp_memblock_free(start, size) memblock_free(__pa(start), size)
#endif
#if !WARP_OWN_FIRST_CHUNK
#define warp_embed_first_chunk(room, alloc, free) pcpu_embed_first_chunk(PERCPU_MODULE_RESERVE, room, PAGE_SIZE, NULL, NULL)
#else
#define warp_embed_first_chunk(room, alloc, free) \
	pcpu_embed_first_chunk(PERCPU_MODULE_RESERVE, room, PAGE_SIZE, NULL, alloc, free)
#endif

/* directory iteration callbacks return bool (go on) since 6.1, int (0 = go on) before */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0)
#define WARP_FILLDIR_RESULT bool
#define WARP_FILLDIR_GO_ON true
#define WARP_FILLDIR_STOP false
#else
#define WARP_FILLDIR_RESULT int
#define WARP_FILLDIR_GO_ON 0
#define WARP_FILLDIR_STOP -ENOSPC
#endif
#endif
