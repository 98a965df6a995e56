/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler's own structures say at one decision, and a place for a debugger to stop. Off unless the simulator
 * asks; the probes of log.c then call warp_watch(). Nothing here changes anything that the kernel reads.
 */
#include <linux/cgroup.h>
#include <linux/cpuset.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include "../../../kernel/sched/sched.h"
#include "versions.h"
#include "warp.h"

/* breakpoint: gdb stops here, warp_watch_state says why */
noinline void warp_stopped(void);
noinline void warp_stopped(void) { asm volatile(""); }

static struct warp_entity *warp_new_entity(struct warp_watch *w)
{
	struct warp_entity *e;

	if (w->nr_entities == w->max_entities) {
		w->lost++;
		return NULL;
	}
	e = &w->entities[w->nr_entities++];
	memset(e, 0, sizeof(*e));
	return e;
}

static bool warp_entity_picked(struct rq *rq, struct sched_entity *se)
{
	struct sched_entity *curr;

	for (curr = rq->curr->sched_class == &fair_sched_class ? &rq->curr->se : NULL; curr; curr = curr->parent)
		if (curr == se)
			return true;
	return false;
}

static void warp_add_fair(struct warp_watch *w, struct rq *rq, struct cfs_rq *cfs_rq, struct sched_entity *se,
			  unsigned int level)
{
	struct warp_entity *e = warp_new_entity(w);

	if (!e)
		return;
	e->class = WARP_CLASS_FAIR;
	e->level = level;
	e->task = se->my_q ? WARP_TASK_IDLE : warp_task_id(container_of(se, struct task_struct, se));
	if (se->my_q)
		cgroup_path(se->my_q->tg->css.cgroup, e->group, sizeof(e->group));
	e->vruntime = se->vruntime;
	e->weight = scale_load_down(se->load.weight);
	e->exec_ns = se->sum_exec_runtime;
	e->ran_ns = se->sum_exec_runtime - se->prev_sum_exec_runtime;
	e->load_avg = se->avg.load_avg;
	e->util_avg = se->avg.util_avg;
	if (warp_entity_picked(rq, se))
		e->flags |= WARP_ENTITY_CURR;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	e->deadline = se->deadline;
	e->slice_ns = se->slice;
	if (entity_eligible(cfs_rq, se))
		e->flags |= WARP_ENTITY_ELIGIBLE;
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	if (se->sched_delayed)
		e->flags |= WARP_ENTITY_DELAYED;
#endif
	if (cfs_rq->next == se)
		e->flags |= WARP_ENTITY_NEXT;
}

/* All entities of a queue: the running one is not in the tree. */
static void warp_add_cfs_rq(struct warp_watch *w, struct rq *rq, struct cfs_rq *cfs_rq, unsigned int level)
{
	struct rb_node *node;

	if (cfs_rq->curr && cfs_rq->curr->on_rq)
		warp_add_fair(w, rq, cfs_rq, cfs_rq->curr, level);
	for (node = rb_first_cached(&cfs_rq->tasks_timeline); node; node = rb_next(node))
		warp_add_fair(w, rq, cfs_rq, rb_entry(node, struct sched_entity, run_node), level);
}

static void warp_add_task(struct warp_watch *w, struct rq *rq, struct task_struct *p)
{
	struct warp_entity *e = warp_new_entity(w);

	if (!e)
		return;
	e->class = dl_task(p) ? WARP_CLASS_DL : WARP_CLASS_RT;
	e->task = warp_task_id(p);
	e->prio = dl_task(p) ? 0 : MAX_RT_PRIO - 1 - p->prio;
	e->deadline = dl_task(p) ? p->dl.deadline : 0;
	e->slice_ns = dl_task(p) ? max_t(s64, p->dl.runtime, 0) : 0;
	e->exec_ns = p->se.sum_exec_runtime;
	e->ran_ns = p->se.sum_exec_runtime - p->se.prev_sum_exec_runtime;
	if (rq->curr == p)
		e->flags |= WARP_ENTITY_CURR;
}

/* A pick on this CPU: whatever could have been picked. rq->curr is the picked task already. */
static void warp_add_candidates(struct warp_watch *w, struct rq *rq, struct task_struct *p)
{
	struct task_struct *g;
	struct cfs_rq *path[16];
	unsigned int depth = 0, level;

	w->curr = warp_task_id(rq->curr);
	rcu_read_lock();
	for_each_process(g)
		if (task_cpu(g) == cpu_of(rq) && task_on_rq_queued(g) && (rt_task(g) || dl_task(g)))
			warp_add_task(w, rq, g);
	rcu_read_unlock();
	/* the queues on the way to the task that is asked about; a task of another class: the root's */
	if (p && p->sched_class == &fair_sched_class) {
		struct sched_entity *se;

		for (se = &p->se; se && depth < ARRAY_SIZE(path); se = se->parent)
			path[depth++] = se->cfs_rq;
	} else {
		path[depth++] = &rq->cfs;
	}
	for (level = 0; level < depth; level++)
		warp_add_cfs_rq(w, rq, path[depth - 1 - level], level);
}

/* A placement: every CPU that the task may run on, as the kernel's own sums see it. */
static void warp_add_cpus(struct warp_watch *w, struct task_struct *p)
{
	int cpu;

	w->prev_cpu = task_cpu(p);
	for_each_cpu_and(cpu, p->cpus_ptr, cpu_online_mask) {
		struct rq *rq = cpu_rq(cpu);
		struct warp_entity *e = warp_new_entity(w);

		if (!e)
			continue;
		e->class = WARP_CLASS_CPU;
		e->level = cpu;
		e->task = warp_task_id(rq->curr);
		e->prio = rq->nr_running;
		e->load_avg = rq->cfs.avg.load_avg;
		e->util_avg = rq->cfs.avg.util_avg;
		e->weight = arch_scale_cpu_capacity(cpu);
		if (idle_cpu(cpu))
			e->flags |= WARP_ENTITY_IDLE_CPU;
		if (cpus_share_cache(cpu, task_cpu(p)))
			e->flags |= WARP_ENTITY_SHARES_CACHE;
	}
}

static struct task_struct *warp_find(unsigned int id)
{
	if (id == WARP_TASK_CONTROL)
		return warp_abi.control->task;
	return id < warp_boot_info.max_tasks ? warp_boot_info.tasks[id].task : NULL;
}

/* A task leaves its last-level cache although a CPU there, which it may use, is idle. */
static bool warp_leaves_idle_llc(struct task_struct *p, int to)
{
	int from = task_cpu(p), cpu;

	if (cpus_share_cache(from, to))
		return false;
	for_each_cpu_and(cpu, p->cpus_ptr, cpu_online_mask)
		if (cpus_share_cache(from, cpu) && idle_cpu(cpu))
			return true;
	return false;
}

static void warp_explain(struct warp_watch *w, unsigned int event, struct task_struct *a, struct task_struct *b)
{
	struct rq *rq = cpu_rq(smp_processor_id());
	struct task_struct *p = warp_find(w->task);

	w->nr_entities = w->lost = 0;
	w->cpu = smp_processor_id();
	w->event = event;
	w->time_ns = warp_now_ns - warp_abi.log_epoch_ns;
	if (event == WARP_WATCH_SWITCH) {
		if (a != p && b != p && !(p && task_cpu(p) == w->cpu && task_on_rq_queued(p)))
			return;
		w->prev = warp_task_id(a);
		warp_add_candidates(w, rq, p);
	} else if (event == WARP_WATCH_WAKING && a == p) {
		w->prev = warp_task_id(current);
		warp_add_cpus(w, p);
	} else {
		return;
	}
	w->explain = 0;
	warp_call(WARP_CALL_DECISION);
}

void warp_watch(unsigned int event, struct task_struct *a, struct task_struct *b, int cpu)
{
	struct warp_watch *w = warp_abi.watch;
	bool stop = false;

	if (!warp_abi.log_on || warp_now_ns - warp_abi.log_epoch_ns < w->from_ns)
		return;
	if (w->explain)
		warp_explain(w, event, a, b);
	switch (w->stop) {
	case WARP_STOP_TIME:
		stop = true;
		break;
	case WARP_STOP_WAKEUP:
		stop = event == WARP_WATCH_WAKING && warp_task_id(a) == w->task && ++w->count == w->nth;
		break;
	case WARP_STOP_DECISION:
		stop = event == WARP_WATCH_SWITCH && ++w->count == w->nth;
		break;
	case WARP_STOP_LEAVES_IDLE_LLC:
		stop = event == WARP_WATCH_MIGRATE && warp_leaves_idle_llc(a, cpu) && ++w->count == w->nth;
		break;
	}
	if (stop) {
		w->stop = 0;
		warp_stopped();
	}
	if (!w->stop && !w->explain)
		warp_abi.watch_on = 0;
}
