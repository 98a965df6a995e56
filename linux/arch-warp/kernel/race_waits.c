/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race: who waits, and for whom. A mutex that lends priority keeps its waiters in a tree, and the first of them in
 * a tree of its owner's. A task that waits beside an idle CPU waits for whoever balances.
 *
 *	mutex	owner o		waiters: d (priority -1), r (94), f (120)
 *	o	pi_waiters: d		o runs as d would
 *	then	o gives it up		d is woken, and stays first until it has it
 *
 * Read in 6.12 and 7.2, and asked of no other (race_read.h): before 6.5 a waiter has one key for both trees.
 */
#include <linux/cpuset.h>
#include <linux/mmu_context.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include "../../../kernel/sched/sched.h"
#include "../../../kernel/locking/rtmutex_common.h"
#include "race_read.h"
#include "warp.h"

#if WARP_WAS_READ && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)

static char warp_waits_why[256];
#define WARP_WRONG(...) \
	({ scnprintf(warp_waits_why, sizeof(warp_waits_why), __VA_ARGS__); (const char *)warp_waits_why; })

/* ---- mutexes that lend priority ---- */

#ifdef CONFIG_RT_MUTEXES
/* Whether one that waits comes after the other, by the keys that they have in one tree (rt_waiter_node_less()). */
static bool warp_comes_after(const struct rt_waiter_node *one, const struct rt_waiter_node *other)
{
	if (one->prio != other->prio)
		return one->prio > other->prio;
	return dl_prio(one->prio) && dl_time_before(other->deadline, one->deadline);
}

static struct task_struct *warp_mutex_owner(struct rt_mutex_base *lock)
{
	return (struct task_struct *)((unsigned long)READ_ONCE(lock->owner) & ~1UL);
}

/*
 * Asks: a mutex's waiters stand in the order of their keys, and each says that it waits there. Falsified by a key that is
 * changed in the tree, and by a waiter that has gone. wait_lock is free.
 */
static const char *warp_mutex_waiters(struct rt_mutex_base *lock)
{
	struct rt_mutex_waiter *waiter, *before = NULL;
	struct rb_node *node;

	for (node = rb_first_cached(&lock->waiters); node; node = rb_next(node)) {
		waiter = rb_entry(node, struct rt_mutex_waiter, tree.entry);
		if (waiter->lock != lock || waiter->task->pi_blocked_on != waiter)
			return WARP_WRONG("%s is among those that wait for a mutex, and says otherwise", waiter->task->comm);
		if (before && warp_comes_after(&before->tree, &waiter->tree))
			return WARP_WRONG("%s waits for a mutex behind %s, which comes after it", waiter->task->comm,
					  before->task->comm);
		before = waiter;
	}
	return NULL;
}

/*
 * Asks: a task lends from the first waiter of each mutex that it has, in their order. Falsified by an owner whose tree has
 * somebody else, or lacks one of them. The owner's pi_lock and the locks of its mutexes are free.
 */
static const char *warp_mutex_lenders(struct task_struct *owner, struct rt_mutex_base *lock)
{
	struct rt_mutex_waiter *waiter, *before = NULL;
	struct rb_node *node;
	bool found = false;

	for (node = rb_first_cached(&owner->pi_waiters); node; node = rb_next(node)) {
		waiter = rb_entry(node, struct rt_mutex_waiter, pi_tree.entry);
		if (raw_spin_is_locked(&waiter->lock->wait_lock))
			return NULL;
		if (warp_mutex_owner(waiter->lock) != owner ||
		    rb_first_cached(&waiter->lock->waiters) != &waiter->tree.entry)
			return WARP_WRONG("%s lends its priority to %s, and is not the first that waits for it", waiter->task->comm,
					  owner->comm);
		if (before && warp_comes_after(&before->pi_tree, &waiter->pi_tree))
			return WARP_WRONG("those that lend their priority to %s are out of order", owner->comm);
		found |= waiter->lock == lock;
		before = waiter;
	}
	if (!found)
		return WARP_WRONG("%s has a mutex, and who waits for it does not lend it its priority", owner->comm);
	return NULL;
}

/*
 * Asks of a task that waits for a mutex: the mutex's tree, its owner's, and at rest whether the mutex will go on. Falsified
 * by a waiter whose key is not its priority, and by a mutex that is free while the first that waits for it sleeps: who
 * gives a mutex up wakes the first one, and whoever becomes the first one meanwhile is woken, too.
 */
static const char *warp_mutex_wait(struct task_struct *p, bool at_rest)
{
	struct rt_mutex_waiter *waiter = p->pi_blocked_on, *first;
	struct rt_mutex_base *lock;
	struct task_struct *owner;
	const char *why;

	if (!waiter)
		return NULL;
	lock = waiter->lock;
	if (raw_spin_is_locked(&lock->wait_lock))
		return NULL;
	why = warp_mutex_waiters(lock);
	if (why)
		return why;
	owner = warp_mutex_owner(lock);
	if (owner && !raw_spin_is_locked(&owner->pi_lock)) {
		why = warp_mutex_lenders(owner, lock);
		if (why)
			return why;
	}
	if (!at_rest)
		return NULL;
	if (waiter->tree.prio != (p->prio < MAX_RT_PRIO ? p->prio : DEFAULT_PRIO))
		return WARP_WRONG("%s has priority %d, and waits for a mutex as if it had %d", p->comm, p->prio, waiter->tree.prio);
	first = rb_entry(rb_first_cached(&lock->waiters), struct rt_mutex_waiter, tree.entry);
	if (!owner && (!first->task->on_rq || WARP_SLEEPS_QUEUED(first->task)) && WARP_STATE(first->task) & TASK_NORMAL)
		return WARP_WRONG("a mutex is free, and %s, which is the first that waits for it, sleeps", first->task->comm);
	return NULL;
}
#else
static const char *warp_mutex_wait(struct task_struct *p, bool at_rest) { return NULL; }
#endif

/* Asked of a task whose queue's lock is free. */
const char *warp_race_task_waits(struct task_struct *p, bool at_rest)
{
	return raw_spin_is_locked(&p->pi_lock) ? NULL : warp_mutex_wait(p, at_rest);
}

/* ---- tasks that wait beside idle CPUs ---- */

/* Since when a CPU has been idle, while another one of its cache has a task that could run there. */
static unsigned long long warp_idle_since[16];

/* Whether a fair task waits on a CPU, beside one that runs, and could be moved to another one. */
static bool warp_has_for(int cpu, int idle)
{
	struct rq *rq = cpu_rq(cpu);
	struct task_struct *p;

	if (WARP_BELOW_RUNNABLE(&rq->cfs) < 2)
		return false;
	list_for_each_entry(p, &rq->cfs_tasks, se.group_node)
		if (p != rq->curr && !WARP_SLEEPS_QUEUED(p) && !p->se.cfs_rq->throttle_count &&
		    cpumask_test_cpu(idle, p->cpus_ptr) && !is_migration_disabled(p))
			return true;
	return false;
}

static bool warp_is_free(int cpu)
{
	return !raw_spin_is_locked(WARP_RQ_LOCK(cpu_rq(cpu)));
}

/*
 * Asks: no CPU idles for long beside one of the same cache that has too much. An idle CPU looks each few ticks, or is
 * looked for by the busy one's tick; 150 ms are ten times what that takes, and longer than a CPU stands. Falsified by a flag
 * that says that somebody balances already, by an idle CPU that nobody finds, or by a domain that lacks a CPU.
 */
const char *warp_race_idle_beside(void)
{
#if defined(CONFIG_FAIR_GROUP_SCHED) && defined(CONFIG_CFS_BANDWIDTH)
	int cpu, other;

	for_each_online_cpu(cpu) {
		struct sched_domain *sd = rcu_dereference_raw(per_cpu(sd_llc, cpu));
		bool has = false, unknown = !warp_is_free(cpu);

		if (cpu >= ARRAY_SIZE(warp_idle_since))
			break;
		if (sd && cpu_active(cpu) && is_idle_task(cpu_rq(cpu)->curr) && !cpu_rq(cpu)->nr_running)
			for_each_cpu(other, sched_domain_span(sd)) {
				if (!warp_is_free(other))
					unknown = true;
				else if (other != cpu && cpu_active(other) && warp_has_for(other, cpu))
					has = true;
			}
		if (!has && !unknown)
			warp_idle_since[cpu] = 0;
		else if (has && !warp_idle_since[cpu])
			warp_idle_since[cpu] = sched_clock();
		else if (has && sched_clock() - warp_idle_since[cpu] > 150 * NSEC_PER_MSEC)
			return WARP_WRONG("cpu%d has been idle for 150 ms beside one that has several tasks", cpu);
	}
#endif
	return NULL;
}
#else
const char *warp_race_task_waits(struct task_struct *p, bool at_rest) { return NULL; }
const char *warp_race_idle_beside(void) { return NULL; }
#endif
