/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race: names of what the checks read, where kernel versions differ. For race_check.c, race_lists.c and
 * race_state.c, behind kernel/sched/sched.h.
 */
#ifndef WARP_RACE_READ_H
#define WARP_RACE_READ_H
#include "versions.h"

/*
 * The sources that were read for race_lists.c and race_state.c: 5.10, 6.1, the later 6.12 and 7.2. WARP_HAS_ZERO_VRUNTIME
 * is a field of late 6.12s and of 6.19 on (Makefile). No other version is asked what they ask.
 */
#define WARP_SERIES (LINUX_VERSION_CODE >> 8)
#if WARP_SERIES == KERNEL_VERSION(5, 10, 0) >> 8 || WARP_SERIES == KERNEL_VERSION(6, 1, 0) >> 8
#define WARP_WAS_READ 1
#elif defined(WARP_HAS_ZERO_VRUNTIME)
#define WARP_WAS_READ (WARP_SERIES == KERNEL_VERSION(6, 12, 0) >> 8 || WARP_SERIES == KERNEL_VERSION(7, 2, 0) >> 8)
#else
#define WARP_WAS_READ 0
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
#define WARP_RQ_LOCK(rq) (&(rq)->__lock)
#define WARP_STATE(p) ((p)->__state)
#else
#define WARP_RQ_LOCK(rq) (&(rq)->lock)
#define WARP_STATE(p) ((p)->state)
#endif

/* Fair entities on one level, and fair tasks below it: other names since 6.14, the latter also late in 6.12. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
#define WARP_LEVEL(cfs_rq) ((cfs_rq)->nr_queued)
#else
#define WARP_LEVEL(cfs_rq) ((cfs_rq)->nr_running)
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0) || \
    (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 20) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0))
#define WARP_BELOW(cfs_rq) ((cfs_rq)->h_nr_queued)
#define WARP_BELOW_RUNNABLE(cfs_rq) ((cfs_rq)->h_nr_runnable)
#define WARP_COUNTS_BELOW IS_ENABLED(CONFIG_FAIR_GROUP_SCHED)
#else
#define WARP_BELOW(cfs_rq) ((cfs_rq)->h_nr_running)
#define WARP_BELOW_RUNNABLE(cfs_rq) WARP_BELOW(cfs_rq)	/* the same: no dequeueing is put off */
#define WARP_COUNTS_BELOW (IS_ENABLED(CONFIG_FAIR_GROUP_SCHED) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0))
#endif

/* A group's fair queue on a CPU, and the entity that it is above: per-CPU memory instead of an array of pointers since 7.0. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define WARP_FAIR_QUEUE(tg, cpu) tg_cfs_rq(tg, cpu)
#define WARP_GROUP_ENTITY(tg, cpu) tg_se(tg, cpu)
#else
#define WARP_FAIR_QUEUE(tg, cpu) ((tg)->cfs_rq ? (tg)->cfs_rq[cpu] : NULL)
#define WARP_GROUP_ENTITY(tg, cpu) ((tg)->se[cpu])
#endif

/*
 * RCU watches the CPU from here on, and no longer: as at the begin and the end of an interrupt that cannot be masked (an idle
 * CPU stands with interrupts off, and lockdep holds them for on). Renamed in 6.0.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 0, 0)
#define WARP_RCU_WATCH() ct_nmi_enter()
#define WARP_RCU_UNWATCH() ct_nmi_exit()
#else
#define WARP_RCU_WATCH() rcu_nmi_enter()
#define WARP_RCU_UNWATCH() rcu_nmi_exit()
#endif

/* The group in which a fair entity is one. */
#ifdef CONFIG_FAIR_GROUP_SCHED
#define WARP_PARENT(se) ((se)->parent)
#else
#define WARP_PARENT(se) ((struct sched_entity *)NULL)
#endif

/* By what the fair class's tree is in order. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
#define WARP_FAIR_KEY(se) ((se)->deadline)
#else
#define WARP_FAIR_KEY(se) ((se)->vruntime)
#endif

/* Deadline tasks could be pushed: more of them than run since 6.7; before, any may be that may leave the CPU. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
#define WARP_DL_OVERLOAD(dl_rq) (!RB_EMPTY_ROOT(&(dl_rq)->pushable_dl_tasks_root.rb_root))
#else
#define WARP_DL_OVERLOAD(dl_rq) ((dl_rq)->dl_nr_migratory && (dl_rq)->dl_nr_running > 1)
#endif

/* The fair class's sums of weights, and of lags times weight: since 6.6, other names since 7.0. */
#define WARP_EEVDF (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0))
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define WARP_SUM_WEIGHT(cfs_rq) ((cfs_rq)->sum_weight)
#define WARP_SUM_LAGS(cfs_rq) ((cfs_rq)->sum_w_vruntime)
#define WARP_WEIGHT(cfs_rq, weight) ((cfs_rq)->sum_shift ? max(2UL, (weight) >> (cfs_rq)->sum_shift) : (weight))
#else
#define WARP_SUM_WEIGHT(cfs_rq) ((cfs_rq)->avg_load)
#define WARP_SUM_LAGS(cfs_rq) ((cfs_rq)->avg_vruntime)
#define WARP_WEIGHT(cfs_rq, weight) scale_load_down(weight)
#endif

/* Fair tasks below a queue that run only if nobody else does; a whole group may be so since 5.15, and is one entity until 6.13. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
#define WARP_BELOW_IDLE(cfs_rq) ((cfs_rq)->h_nr_idle)
#else
#define WARP_BELOW_IDLE(cfs_rq) ((cfs_rq)->idle_h_nr_running)
#endif
#define WARP_IDLE_GROUPS (LINUX_VERSION_CODE >= KERNEL_VERSION(5, 15, 0))
#define WARP_IDLE_LEVEL (LINUX_VERSION_CODE >= KERNEL_VERSION(5, 16, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0))

/* A task whose group is out of time, off its queue since 6.18. */
#if WARP_TASKS_THROTTLED && defined(CONFIG_CFS_BANDWIDTH)
#define WARP_IS_THROTTLED(p) ((p)->throttled)
#else
#define WARP_IS_THROTTLED(p) false
#endif

/* A request that is on its way. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
#define WARP_IRQ_WORK_PENDING(work) irq_work_is_pending(work)
#else
#define WARP_IRQ_WORK_PENDING(work) (atomic_read(&(work)->flags) & IRQ_WORK_PENDING)
#endif

/* Who is frozen does not count as load. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0)
#define WARP_IS_FROZEN(p) (WARP_STATE(p) & TASK_FROZEN)
#else
#define WARP_IS_FROZEN(p) ((p)->flags & PF_FROZEN)
#endif
#endif
