/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race: what race_check.c asks of lists, of what is on its way, and of CPUs that go off. Each was read in
 * 5.10, 6.1, 6.12 and 7.2 (race_read.h); other versions are not asked.
 *
 *	lists		who can be pushed; fair queues whose load is kept
 *	on its way	a request to push holds its root domain; callbacks end with the lock that they came under
 *	at rest		nobody stays on a CPU that goes off; sleepers that count as load, or wait for a device; whose memory a
 *			wish is
 */
#include <linux/cpu.h>
#include <linux/cpuset.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/mmu_context.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include "../../../kernel/sched/sched.h"
#include "race_read.h"
#include "warp.h"

#if WARP_WAS_READ

static char warp_lists_why[256];
#define WARP_WRONG(...) \
	({ scnprintf(warp_lists_why, sizeof(warp_lists_why), __VA_ARGS__); (const char *)warp_lists_why; })

#define WARP_CHECKED_CPUS 16	/* most of a scenario */

/*
 * A queue that has something to run, and is not held back, is in the list of leaves. A parent does not leave the list
 * while the one before it is its child (child_cfs_rq_on_list()); whoever stands elsewhere may lose its parent.
 */
static struct cfs_rq *warp_before_parent[WARP_CHECKED_CPUS][64];

static const char *warp_leaves(int cpu)
{
#if defined(CONFIG_FAIR_GROUP_SCHED) && defined(CONFIG_CFS_BANDWIDTH)
	struct cfs_rq **known = warp_before_parent[cpu], *child, *parent;
	struct task_group *tg;
	unsigned int n = 0;

	list_for_each_entry_rcu(tg, &task_groups, list) {
		child = WARP_FAIR_QUEUE(tg, cpu);
		if (!child)
			continue;
		if (child->load.weight && !child->throttle_count && !child->on_list)
			return WARP_WRONG("cpu%d: a fair queue has something to run, and its load is not kept", cpu);
		/* before 5.13 nothing keeps a parent in the list */
		if (LINUX_VERSION_CODE < KERNEL_VERSION(5, 13, 0) || !tg->parent || !child->on_list ||
		    WARP_FAIR_QUEUE(tg->parent, cpu)->on_list)
			continue;
		for (n = 0; n < ARRAY_SIZE(warp_before_parent[cpu]); n++)
			if (known[n] == child)
				return WARP_WRONG("cpu%d: a fair queue has left the list of leaves before its child", cpu);
	}
	n = 0;
	list_for_each_entry_rcu(tg, &task_groups, list) {
		child = WARP_FAIR_QUEUE(tg, cpu);
		if (!tg->parent || !child)
			continue;
		parent = WARP_FAIR_QUEUE(tg->parent, cpu);
		if (n < ARRAY_SIZE(warp_before_parent[cpu]) && child->on_list && parent->on_list &&
		    child->leaf_cfs_rq_list.next == &parent->leaf_cfs_rq_list)
			known[n++] = child;
	}
	while (n < ARRAY_SIZE(warp_before_parent[cpu]))
		known[n++] = NULL;
#endif
	return NULL;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)	/* 5.10 makes its calls behind the lock, and pushes nobody away */
/* CPUs that have begun to push tasks away. */
static unsigned long warp_pushes_away;

static bool warp_pushes_no_more(int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	return warp_pushes_away & BIT(cpu) && !cpu_active(cpu) && cpu_dying(cpu) && !rq->online && !rq->balance_callback;
}
#endif

/*
 * A CPU that goes off pushes tasks away from the first time on that it says so; no other callback outlives its lock. Before 6.11
 * one that may not go off is on its way back without a mark of that, between two calls of sched_cpu_deactivate(): asked at rest.
 */
static const char *warp_callbacks(int cpu, bool at_rest)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)
	struct rq *rq = cpu_rq(cpu);

	if (cpu_active(cpu)) {
		warp_pushes_away &= ~BIT(cpu);
		if (rq->balance_callback)
			return WARP_WRONG("cpu%d: nobody holds its queue, and a callback waits for whoever does", cpu);
	} else if (cpu_dying(cpu) && !rq->online && rq->balance_callback) {
		warp_pushes_away |= BIT(cpu);
	}
	if (warp_pushes_no_more(cpu) && (at_rest || LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)))
		return WARP_WRONG("cpu%d goes off, and nothing keeps tasks from running there", cpu);
#endif
	return NULL;
}

/* Asked of a CPU whose queue's lock is free. */
const char *warp_race_queue_lists(int cpu)
{
	struct dl_rq *dl_rq = &cpu_rq(cpu)->dl;
	struct rb_node *first = rb_first_cached(&dl_rq->pushable_dl_tasks_root);
	const char *why;

	if (cpu >= WARP_CHECKED_CPUS)
		return NULL;
	why = warp_callbacks(cpu, false);
	if (!why)
		why = warp_leaves(cpu);
	if (!why && !!dl_rq->overloaded != !!WARP_DL_OVERLOAD(dl_rq))
		why = WARP_WRONG("cpu%d: deadline tasks could be pushed, or none, and its queue says otherwise", cpu);
	if (!why && first && dl_rq->earliest_dl.next != rb_entry(first, struct task_struct, pushable_dl_tasks)->dl.deadline)
		why = WARP_WRONG("cpu%d: the next deadline task to be pushed has another deadline than the queue says", cpu);
	return why;
}

/* Asked of a task whose queue's lock is free: who waits and may run elsewhere can be pushed, and nobody else. */
const char *warp_race_task_lists(struct task_struct *p)
{
	struct rq *rq = task_rq(p);
	bool waits = p->on_rq == TASK_ON_RQ_QUEUED && p != rq->curr && p->nr_cpus_allowed > 1;
	bool rt = waits && p->sched_class == &rt_sched_class;
	bool dl = waits && p->sched_class == &dl_sched_class && !RB_EMPTY_NODE(&p->dl.rb_node);

	if (p->sched_class == &stop_sched_class || p->on_rq == TASK_ON_RQ_MIGRATING)
		return NULL;
	if (rt != !plist_node_empty(&p->pushable_tasks))
		return WARP_WRONG("%s %s among the real-time tasks to be pushed on cpu%d", p->comm,
				  rt ? "waits, and is not" : "is", rq->cpu);
	if (dl != !RB_EMPTY_NODE(&p->pushable_dl_tasks))
		return WARP_WRONG("%s %s among the deadline tasks to be pushed on cpu%d", p->comm,
				  dl ? "waits, and is not" : "is", rq->cpu);
	if (WARP_SLEEPS_QUEUED(p) && (p->sched_class != &fair_sched_class || !p->se.on_rq || !p->on_rq))
		return WARP_WRONG("the dequeueing of %s is put off, and it is not queued as a fair task", p->comm);
	return NULL;
}

/* A request to push that is on its way holds the root domain that it is a part of. Asked when all locks are free. */
const char *warp_race_requests(void)
{
#ifdef HAVE_RT_PUSH_IPI
	int cpu, other;

	if (!warp_race_all_free())
		return NULL;
	for_each_online_cpu(cpu) {
		struct root_domain *rd = cpu_rq(cpu)->rd;
		int attached = rd == &def_root_domain;

		if (!WARP_IRQ_WORK_PENDING(&rd->rto_push_work))
			continue;
		for_each_possible_cpu(other)
			attached += cpu_rq(other)->rd == rd;
		if (atomic_read(&rd->refcount) <= attached)
			return WARP_WRONG("a request to push is on its way, and nobody holds its root domain");
	}
#endif
	return NULL;
}

/* Of all CPUs at rest. */
static const char *warp_sleepers(void)
{
	unsigned long uninterruptible = 0, says = 0, device = 0, device_says = 0;
	struct cpumask __maybe_unused *wishes[64];
	unsigned int __maybe_unused n = 0;
	struct task_struct *g, *p;
	int cpu;

	for_each_possible_cpu(cpu) {
		says += cpu_rq(cpu)->nr_uninterruptible;
		device_says += atomic_read(&cpu_rq(cpu)->nr_iowait);
	}
	for_each_process_thread(g, p) {
		unsigned int state = READ_ONCE(WARP_STATE(p));

		uninterruptible += !p->on_rq && (state & TASK_UNINTERRUPTIBLE) && !(state & (TASK_NOLOAD | TASK_NEW)) &&
				   !WARP_IS_FROZEN(p);
		device += !p->on_rq && p->in_iowait;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 15, 0)
		if (!p->user_cpus_ptr)
			continue;
		for (unsigned int i = 0; i < n; i++)
			if (wishes[i] == p->user_cpus_ptr)
				return WARP_WRONG("%s and another task have one wish for CPUs in one memory", p->comm);
		if (n < ARRAY_SIZE(wishes))
			wishes[n++] = p->user_cpus_ptr;
#endif
	}
	if ((unsigned int)says != (unsigned int)uninterruptible)
		return WARP_WRONG("%lu tasks sleep and count as load, and queues say %ld", uninterruptible, (long)says);
	if ((unsigned int)device_says != (unsigned int)device)
		return WARP_WRONG("%lu tasks wait for a device, and queues count %ld", device, (long)device_says);
	return NULL;
}

static const char *warp_stays(int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	if (cpu_rq(cpu)->online && !!rq->dl.overloaded != !!cpumask_test_cpu(cpu, rq->rd->dlo_mask))
		return WARP_WRONG("cpu%d: the domain's mask of queues with several deadline tasks is wrong", cpu);
	if (atomic_read(&rq->rd->dlo_count) != cpumask_weight(rq->rd->dlo_mask))
		return WARP_WRONG("cpu%d: %u queues have several deadline tasks, and the domain counts %d", cpu,
				  cpumask_weight(rq->rd->dlo_mask), atomic_read(&rq->rd->dlo_count));
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)
	/* (whose section without migration has just ended stays until it sleeps or is preempted: balance_push()) */
	if (cpu_dying(cpu) && rq->balance_callback && !is_idle_task(rq->curr) && !kthread_is_per_cpu(rq->curr) &&
	    !is_migration_disabled(rq->curr) && !rq->curr->thread.unpinned)
		return WARP_WRONG("cpu%d goes off, and %s stays there", cpu, rq->curr->comm);
#endif
	return NULL;
}

const char *warp_race_rest_lists(void)
{
	const char *why = warp_sleepers();
	int cpu;

	for_each_online_cpu(cpu) {
		if (!why)
			why = warp_stays(cpu);
		if (!why)
			why = warp_callbacks(cpu, true);
	}
	return why;
}
#else
const char *warp_race_queue_lists(int cpu) { return NULL; }
const char *warp_race_task_lists(struct task_struct *p) { return NULL; }
const char *warp_race_requests(void) { return NULL; }
const char *warp_race_rest_lists(void) { return NULL; }
#endif
