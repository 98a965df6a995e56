/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which runnable tasks must not run for now, and where may a task run? What the log needs so that a task that is held back does
 * not look like one that waits:
 *
 *   held by its group's cpu.max      fair class: throttle_count of its queue; since 6.18 the task itself is dequeued (p->throttled)
 *   held by the limit of real time   rt_throttled of its CPU's queue; since 6.12 only with CONFIG_RT_GROUP_SCHED
 *   held by its deadline budget      dl_throttled
 *
 * The kernel has no tracepoint for any of these. But each ends, and the first two begin, with a change of the number of runnable
 * tasks, for which it has one (since 5.9); the rest is looked at where a record is written anyway. That tracepoint costs something
 * at each wakeup and sleep, so that it is asked for only once something can be held at all.
 */
#include <linux/cgroup.h>
#include <linux/cpuset.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include "../../../kernel/sched/sched.h"
#include <trace/events/sched.h>
#include "versions.h"
#include "warp.h"

bool warp_holds;

/* as last seen, per CPU */
static unsigned int warp_throttles[NR_CPUS];
static bool warp_rt_throttles[NR_CPUS];
/* workload tasks that wait for a new deadline budget */
static unsigned int warp_nr_dl_held;

#if WARP_RT_LIMIT
static bool warp_rt_limited(struct rq *rq) { return rq->rt.rt_throttled; }
#else
static bool warp_rt_limited(struct rq *rq) { return false; }
#endif

/* Why this queued task may not run on this CPU; WARP_HELD_NOT */
static unsigned int warp_held_by(struct task_struct *p, int cpu)
{
	if (dl_task(p))
		return p->dl.dl_throttled ? WARP_HELD_DEADLINE : WARP_HELD_NOT;
	if (p->sched_class == &rt_sched_class)
		return warp_rt_limited(cpu_rq(cpu)) ? WARP_HELD_RT : WARP_HELD_NOT;
	if (p->sched_class != &fair_sched_class)
		return WARP_HELD_NOT;
#if WARP_TASKS_THROTTLED
	return p->throttled ? WARP_HELD_GROUP : WARP_HELD_NOT;
#else
	return task_group(p)->cfs_rq[cpu]->throttle_count ? WARP_HELD_GROUP : WARP_HELD_NOT;
#endif
}

/* Tells the log if that has changed. Only a task that is queued is held: another one is asleep. */
static void warp_hold_check_on(struct task_struct *p, int cpu)
{
	unsigned int why;

	if (!p->thread.id || !p->on_rq)
		return;
	why = warp_held_by(p, cpu);
	if (why == p->thread.held)
		return;
	warp_nr_dl_held += (why == WARP_HELD_DEADLINE) - (p->thread.held == WARP_HELD_DEADLINE);
	p->thread.held = why;
	warp_log_note(p, WARP_NOTE_HELD, 0, why);
}

void warp_hold_check(struct task_struct *p)
{
	if (warp_holds)
		warp_hold_check_on(p, task_cpu(p));
}

/* A task changes its CPU: another CPU's queue of its group is open, or is not. */
void warp_hold_moved(struct task_struct *p, int to)
{
	if (warp_holds)
		warp_hold_check_on(p, to);
}

/* The group's queues of this CPU: throttled so many times over. */
static void warp_look_at_groups(struct rq *rq)
{
	struct task_struct *p;
#if WARP_TASKS_THROTTLED
	/* a task that comes back is the queue's newest */
	p = list_first_entry_or_null(&rq->cfs_tasks, struct task_struct, se.group_node);
	if (p)
		warp_hold_check_on(p, cpu_of(rq));
#else
	unsigned int sum = 0;
	struct task_group *tg;

	rcu_read_lock();
	list_for_each_entry_rcu(tg, &task_groups, list)
		sum += tg->cfs_rq[cpu_of(rq)]->throttle_count;
	rcu_read_unlock();
	if (sum == warp_throttles[cpu_of(rq)])
		return;
	warp_throttles[cpu_of(rq)] = sum;
	list_for_each_entry(p, &rq->cfs_tasks, se.group_node)
		if (!WARP_SLEEPS_QUEUED(p))
			warp_hold_check_on(p, cpu_of(rq));
#endif
}

static void warp_look_at_rt(struct rq *rq)
{
	struct rt_prio_array *array = &rq->rt.active;
	struct sched_rt_entity *rt_se;
	int prio;

	if (warp_rt_limited(rq) == warp_rt_throttles[cpu_of(rq)])
		return;
	warp_rt_throttles[cpu_of(rq)] = warp_rt_limited(rq);
	for (prio = find_first_bit(array->bitmap, MAX_RT_PRIO); prio < MAX_RT_PRIO;
	     prio = find_next_bit(array->bitmap, MAX_RT_PRIO, prio + 1))
		list_for_each_entry(rt_se, &array->queue[prio], run_list)
			warp_hold_check_on(container_of(rt_se, struct task_struct, rt), cpu_of(rq));
}

static void warp_look_at_deadlines(struct rq *rq)
{
	struct rb_node *node;

	if (!warp_nr_dl_held)
		return;
	for (node = rb_first_cached(&rq->dl.root); node; node = rb_next(node)) {
		struct sched_dl_entity *dl_se = rb_entry(node, struct sched_dl_entity, rb_node);

		if (!WARP_DL_SERVER(dl_se))
			warp_hold_check_on(container_of(dl_se, struct task_struct, dl), cpu_of(rq));
	}
}

/* The number of runnable tasks of this CPU has changed; its lock is held. */
static void probe_nr_running(void *unused, struct rq *rq, int change)
{
	warp_look_at_groups(rq);
	warp_look_at_rt(rq);
	warp_look_at_deadlines(rq);
}

/* From now on something can be held. */
void warp_hold_watch(void)
{
	if (warp_holds)
		return;
	warp_holds = true;
	BUG_ON(register_trace_sched_update_nr_running_tp(probe_nr_running, NULL));
}

/* ---- where a task may run ---- */

static u64 warp_mask_sum(const struct cpumask *mask)
{
	u64 sum = 0;

	for (unsigned int word = 0; word < BITS_TO_LONGS(nr_cpu_ids); word++)
		sum = sum * 0x9e3779b97f4a7c15ULL + cpumask_bits(mask)[word];
	return sum;
}

/* A new task begins with its parent's CPUs. */
void warp_allowed_new(struct task_struct *p)
{
	p->thread.allowed = warp_mask_sum(&p->cpus_mask);
}

/* Tells the log of the CPUs that this task may use, if they are others than the log knows of: those asked for (NULL: as before). */
void warp_log_allowed(struct task_struct *p, const struct cpumask *asked)
{
	u64 sum = warp_mask_sum(&p->cpus_mask);
	u64 known = asked ? warp_mask_sum(asked) : p->thread.allowed;

	p->thread.allowed = sum;
	if (sum == known || !p->thread.id)
		return;
	for (unsigned int word = 0; word < BITS_TO_LONGS(nr_cpu_ids); word++)
		warp_log_note(p, WARP_NOTE_ALLOWED, word, cpumask_bits(&p->cpus_mask)[word]);
}

/* The experimenter has written a file: of a cpuset, a CPU's `online`, anything. */
void warp_log_allowed_all(void)
{
	if (warp_abi.log_on)
		for (unsigned int id = 0; id < warp_boot_info.max_tasks; id++)
			if (warp_boot_info.tasks[id].task)
				warp_log_allowed(warp_boot_info.tasks[id].task, NULL);
}
