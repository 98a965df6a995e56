/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race: what is kept twice must agree. A number that is carried along is compared with what it stands for, and
 * a state with the timer or the interrupt that is to end it. Each was read in 5.10, 6.1, 6.12 and 7.2
 * (race_read.h); other versions are not asked.
 *
 *	fair		sums of weights and lags, idle tasks, a group's load; a task's weight is that of its nice value; who is
 *			current on each level; the list of tasks that balancing walks
 *	real time	who takes turns; a queue that is held back
 *	deadline	a task's share; the fair server's states, as deadline.c lists them, and its timer
 *	sched_ext	a CPU's own queue, and who is runnable
 *	a task		each class says the same of it as on_rq; its priority and CPUs; pressure; clamps of utilisation
 *	at rest		flags that an interrupt or a stopper takes back; the tick; who is busy in a domain
 *			a task's CPUs are among those of its cpuset
 */
#include <linux/cpuset.h>
#include <linux/mmu_context.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include <linux/sched/smt.h>
#include <linux/tick.h>
#include "../../../kernel/sched/sched.h"
#include "../../../kernel/sched/pelt.h"
#if defined(CONFIG_CPUSETS) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include "../../../kernel/cgroup/cpuset-internal.h"
#endif
#include "race_read.h"
#include "warp.h"

#if WARP_WAS_READ

static char warp_state_why[256];
#define WARP_WRONG(...) \
	({ scnprintf(warp_state_why, sizeof(warp_state_why), __VA_ARGS__); (const char *)warp_state_why; })

/* ---- fair ---- */

static bool warp_is_idle_entity(const struct sched_entity *se)
{
#if WARP_IDLE_GROUPS
	if (se->my_q)
		return se->my_q->idle;
#endif
	return !se->my_q && container_of(se, struct task_struct, se)->policy == SCHED_IDLE;
}

static struct sched_entity *warp_entity(struct rb_node *node)
{
	return node ? rb_entry(node, struct sched_entity, run_node) : NULL;
}

#if WARP_EEVDF
/* What a tree's node says of those below it, for the search of who may run. */
static bool warp_is_joined(struct sched_entity *se)
{
	struct sched_entity *children[] = { warp_entity(se->run_node.rb_left), warp_entity(se->run_node.rb_right) };
	u64 vruntime = se->vruntime, slice = se->slice;

	for (unsigned int n = 0; n < ARRAY_SIZE(children); n++) {
		if (!children[n])
			continue;
		if ((s64)(children[n]->min_vruntime - vruntime) < 0)
			vruntime = children[n]->min_vruntime;
		slice = min(slice, children[n]->min_slice);
	}
	return se->min_vruntime == vruntime && se->min_slice == slice;
}
#endif

/* Sums over a fair queue: weights and lags of those in the tree; idle entities on its level, and idle tasks below. */
static const char *warp_fair_sums(int cpu, struct cfs_rq *cfs_rq)
{
	struct rb_node *node = rb_first_cached(&cfs_rq->tasks_timeline);
	struct sched_entity *se = cfs_rq->curr && cfs_rq->curr->on_rq ? cfs_rq->curr : NULL;
	bool in_tree = false;
	unsigned int __maybe_unused idle = 0, idle_below = 0;
	u64 __maybe_unused load = 0;
	s64 __maybe_unused lags = 0;

	for (;; in_tree = true) {
		if (se) {
			bool counts = warp_is_idle_entity(se);

			idle += counts;
			idle_below += !se->my_q ? counts : counts ? WARP_BELOW(se->my_q) : WARP_BELOW_IDLE(se->my_q);
#if WARP_EEVDF
			if (se->slice > NSEC_PER_SEC)
				return WARP_WRONG("cpu%d: an entity's slice is %llu ns", cpu, se->slice);
#endif
		}
#if WARP_EEVDF
		if (se && in_tree) {
			unsigned long weight = WARP_WEIGHT(cfs_rq, se->load.weight);

			load += weight;
			lags += (s64)(se->vruntime - cfs_rq->zero_vruntime) * (s64)weight;
			if (!warp_is_joined(se))
				return WARP_WRONG("cpu%d: a fair tree's node has another least virtual time or slice than those below", cpu);
		}
#endif
		if (!node)
			break;
		se = warp_entity(node);
		node = rb_next(node);
	}
#if WARP_EEVDF
	if (load != WARP_SUM_WEIGHT(cfs_rq) || lags != WARP_SUM_LAGS(cfs_rq))
		return WARP_WRONG("cpu%d: a fair queue sums weights of %lld and lags of %lld, and has %lld and %lld", cpu,
				  (s64)WARP_SUM_WEIGHT(cfs_rq), (s64)WARP_SUM_LAGS(cfs_rq), (s64)load, lags);
#endif
	if (idle_below != WARP_BELOW_IDLE(cfs_rq))
		return WARP_WRONG("cpu%d: a fair queue counts %u idle tasks, and has %u", cpu,
				  (unsigned int)WARP_BELOW_IDLE(cfs_rq), idle_below);
#if WARP_IDLE_LEVEL
	if (idle != cfs_rq->idle_nr_running)
		return WARP_WRONG("cpu%d: a fair queue counts %u idle entities, and has %u", cpu, cfs_rq->idle_nr_running, idle);
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	if (cfs_rq->h_nr_delayed != cfs_rq->h_nr_queued - cfs_rq->h_nr_runnable)
		return WARP_WRONG("cpu%d: a fair queue counts %u tasks whose dequeueing is put off, of %u and %u", cpu,
				  cfs_rq->h_nr_delayed, cfs_rq->h_nr_queued, cfs_rq->h_nr_runnable);
#endif
#if defined(CONFIG_CFS_BANDWIDTH) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)	/* before, it stays behind */
	if (cfs_rq->throttled_clock && !cfs_rq->throttled)
		return WARP_WRONG("cpu%d: a fair queue is not held back, and counts the time that it is", cpu);
#endif
	return NULL;
}

/* The entities of the task that runs, and no others, are current on their queues. */
static const char *warp_fair_current(int cpu, struct cfs_rq *cfs_rq)
{
	struct task_struct *curr = cpu_rq(cpu)->curr;
	struct sched_entity *se = curr->sched_class == &fair_sched_class ? &curr->se : NULL;

	while (se && se->cfs_rq != cfs_rq)
		se = WARP_PARENT(se);
	if (cfs_rq->curr != se)
		return WARP_WRONG("cpu%d: %s runs, and %s is current on a fair queue %s", cpu, curr->comm,
				  cfs_rq->curr ? "another one" : "nobody", se ? "of its" : "that has nothing of it");
	return NULL;
}

/* Who can be moved by balancing: each queued fair task, once, on the list of its CPU. */
static const char *warp_fair_tasks(int cpu)
{
	struct rq *rq = cpu_rq(cpu);
	unsigned int listed = 0, queued = 0;
	struct task_struct *g, *p;
	struct list_head *at;

	list_for_each(at, &rq->cfs_tasks) {
		p = container_of(at, struct task_struct, se.group_node);
		listed++;
		/* (one that has ended and runs on leaves the list of tasks, after its number: release_task()) */
		queued += !pid_alive(p) && !warp_in_box(p);
		if (task_cpu(p) != cpu || !p->se.on_rq)
			return WARP_WRONG("cpu%d: balancing would find %s there, which says otherwise", cpu, p->comm);
	}
	for_each_process_thread(g, p)
		queued += pid_alive(p) && !warp_in_box(p) && task_cpu(p) == cpu && p->se.on_rq;
	for (unsigned int id = 0; id < warp_boot_info.max_tasks; id++) {
		p = warp_boot_info.tasks[id].task;
		queued += p && task_cpu(p) == cpu && p->se.on_rq;
	}
	if (listed != queued)
		return WARP_WRONG("cpu%d: %u fair tasks are queued, and balancing would find %u", cpu, queued, listed);
	return NULL;
}

static const char *warp_fair_queues(int cpu)
{
	const char *why = warp_fair_tasks(cpu);
	struct task_group *tg;

#ifdef CONFIG_FAIR_GROUP_SCHED
	list_for_each_entry_rcu(tg, &task_groups, list)
		if (!why && WARP_FAIR_QUEUE(tg, cpu))
			why = warp_fair_sums(cpu, WARP_FAIR_QUEUE(tg, cpu)) ?: warp_fair_current(cpu, WARP_FAIR_QUEUE(tg, cpu));
#else
	(void)tg;
	if (!why)
		why = warp_fair_sums(cpu, &cpu_rq(cpu)->cfs) ?: warp_fair_current(cpu, &cpu_rq(cpu)->cfs);
#endif
	return why;
}

/* A group's load is the sum of what its queues have given. Asked when no queue's lock is held. */
static const char *warp_group_load(void)
{
#ifdef CONFIG_FAIR_GROUP_SCHED
	struct task_group *tg;
	int cpu;

	list_for_each_entry_rcu(tg, &task_groups, list) {
		long sum = 0;

		if (tg == &root_task_group)
			continue;
		for_each_possible_cpu(cpu) {
			long given = WARP_FAIR_QUEUE(tg, cpu) ? WARP_FAIR_QUEUE(tg, cpu)->tg_load_avg_contrib : 0;

			sum += given;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)	/* before, it stays */
			if (given && !cpu_online(cpu))
				return WARP_WRONG("cpu%d is off, and a group's load has %ld of it", cpu, given);
#endif
		}
		if (sum != atomic_long_read(&tg->load_avg))
			return WARP_WRONG("a group's load is %ld, its queues have given %ld", atomic_long_read(&tg->load_avg), sum);
	}
#endif
	return NULL;
}

/* Time of a group: what fills it anew is on its way as long as it says so. */
static const char *warp_periods(void)
{
#ifdef CONFIG_CFS_BANDWIDTH
	struct task_group *tg;

	list_for_each_entry_rcu(tg, &task_groups, list)
		if (!raw_spin_is_locked(&tg->cfs_bandwidth.lock) && tg->cfs_bandwidth.period_active &&
		    !hrtimer_active(&tg->cfs_bandwidth.period_timer))
			return WARP_WRONG("a group's periods go on, as it says, and no timer begins the next");
#endif
	return NULL;
}

/* A queue of a group with a limit asks for time where a CPU is active. A new limit reaches one CPU after the other. */
static const char *warp_limits(bool at_end)
{
#ifdef CONFIG_CFS_BANDWIDTH
	struct task_group *tg;
	int cpu;

	if (!at_end)
		return NULL;
	list_for_each_entry_rcu(tg, &task_groups, list)
		for_each_online_cpu(cpu)
			if (tg != &root_task_group && WARP_FAIR_QUEUE(tg, cpu) && cpu_active(cpu) && cpu_rq(cpu)->online &&
			    WARP_FAIR_QUEUE(tg, cpu)->runtime_enabled != (tg->cfs_bandwidth.quota != RUNTIME_INF))
				return WARP_WRONG("cpu%d: a group has %s limit, and its queue says otherwise", cpu,
						  tg->cfs_bandwidth.quota != RUNTIME_INF ? "a" : "no");
#endif
	return NULL;
}

/* ---- real time and deadline ---- */

static const char *warp_rt_state(int cpu)
{
#ifndef CONFIG_RT_GROUP_SCHED
	struct rt_rq *rt_rq = &cpu_rq(cpu)->rt;
	struct task_struct *p;
	unsigned int turns = 0;
	int prio;

	for_each_set_bit(prio, rt_rq->active.bitmap, MAX_RT_PRIO)
		list_for_each_entry(p, &rt_rq->active.queue[prio], rt.run_list)
			turns += p->policy == SCHED_RR;
	if (turns != rt_rq->rr_nr_running)
		return WARP_WRONG("cpu%d: %u real-time tasks take turns, and the queue counts %u", cpu, turns, rt_rq->rr_nr_running);
	if (!WARP_RT_LIMIT && !!rt_rq->rt_queued != !!rt_rq->rt_nr_running)
		return WARP_WRONG("cpu%d: its real-time queue has %u tasks and %s", cpu, rt_rq->rt_nr_running,
				  rt_rq->rt_queued ? "counts as having some" : "counts as having none");
#endif
	return NULL;
}

/* The fair server: A is off, B and C wait for their time, D runs, E waits for time anew (deadline.c, dl_server_start()). */
static const char *warp_server(int cpu)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	struct sched_dl_entity *server = &cpu_rq(cpu)->fair_server;
	bool queued = !RB_EMPTY_NODE(&server->rb_node);

	if (!WARP_DL_SERVER(server) || !server->dl_runtime)
		return NULL;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
	if (!server->dl_bw_attached)	/* sched_ext has taken its share away */
		return NULL;
#endif
	if (!server->dl_server_active && (queued || server->dl_throttled || server->dl_defer_armed))
		return WARP_WRONG("cpu%d: its fair server is off, and %s", cpu, queued ? "queued" : "waits for its time");
	if (server->dl_server_active && queued == !!server->dl_throttled)
		return WARP_WRONG("cpu%d: its fair server is on, and %s", cpu,
				  queued ? "queued while it waits for time" : "neither queued nor does it wait for time");
	if (cpu_online(cpu) && WARP_BELOW(&cpu_rq(cpu)->cfs) && !server->dl_server_active)
		return WARP_WRONG("cpu%d: it has fair tasks, and its fair server is off", cpu);
#endif
	return NULL;
}

static u64 warp_share(struct sched_dl_entity *dl_se)
{
	return dl_se->dl_period ? div64_u64(dl_se->dl_runtime << BW_SHIFT, dl_se->dl_period) : 0;
}

/* ---- sched_ext ---- */

static const char *warp_ext_queue(int cpu)
{
#ifdef CONFIG_SCHED_CLASS_EXT
	struct scx_dispatch_q *dsq = &cpu_rq(cpu)->scx.local_dsq;
	struct task_struct *p;
	unsigned int nr = 0;

	list_for_each_entry(p, &dsq->list, scx.dsq_list.node) {
		nr++;
		if (p->scx.dsq != dsq || task_cpu(p) != cpu)
			return WARP_WRONG("cpu%d: %s is in its own queue of sched_ext, and says otherwise", cpu, p->comm);
	}
	if (nr != dsq->nr)
		return WARP_WRONG("cpu%d: its own queue of sched_ext counts %u tasks, and has %u", cpu, dsq->nr, nr);
#endif
	return NULL;
}

static const char *warp_ext_task(struct task_struct *p)
{
#ifdef CONFIG_SCHED_CLASS_EXT
	bool queued = p->sched_class == &ext_sched_class && p->on_rq == TASK_ON_RQ_QUEUED;

	if (queued != !!(p->scx.flags & SCX_TASK_QUEUED))
		return WARP_WRONG("%s is %s, and sched_ext says otherwise", p->comm, queued ? "queued" : "not queued");
	if (!list_empty(&p->scx.runnable_node) != (queued && task_rq(p)->curr != p))
		return WARP_WRONG("%s %s among those that wait under sched_ext", p->comm,
				  list_empty(&p->scx.runnable_node) ? "is not" : "is");
#endif
	return NULL;
}

/* ---- one task, whose queue's lock is free ---- */

static const char *warp_task_classes(struct task_struct *p)
{
	bool queued = p->on_rq == TASK_ON_RQ_QUEUED;
	bool fair = queued && p->sched_class == &fair_sched_class && !WARP_IS_THROTTLED(p);
	bool rt = queued && p->sched_class == &rt_sched_class;
	bool dl = queued && p->sched_class == &dl_sched_class;

	if (fair != !!p->se.on_rq)
		return WARP_WRONG("%s is %s in the fair class, which says otherwise", p->comm, fair ? "queued" : "not queued");
	if (rt != !!p->rt.on_rq)
		return WARP_WRONG("%s is %s in the real-time class, which says otherwise", p->comm, rt ? "queued" : "not queued");
	if (!dl && !RB_EMPTY_NODE(&p->dl.rb_node))
		return WARP_WRONG("%s is not queued, and is in a deadline tree", p->comm);
	if (dl && RB_EMPTY_NODE(&p->dl.rb_node) != !!p->dl.dl_throttled)
		return WARP_WRONG("%s is %s the deadline tree, and %s held back", p->comm,
				  RB_EMPTY_NODE(&p->dl.rb_node) ? "not in" : "in", p->dl.dl_throttled ? "is" : "is not");
	return NULL;
}

/* What the task itself has of its nice value, its parameters and its CPUs. */
static const char *warp_task_copies(struct task_struct *p)
{
	unsigned long weight = scale_load(WEIGHT_IDLEPRIO);

	if (p->policy != SCHED_IDLE)
		weight = scale_load(sched_prio_to_weight[p->static_prio - MAX_RT_PRIO]);
	/* under sched_ext a task keeps the weight that it had before (reweight_task_scx()) */
	if (p->sched_class == &fair_sched_class && p->se.load.weight != weight)
		return WARP_WRONG("%s weighs %lu, and its nice value has %lu", p->comm, p->se.load.weight, weight);
	if (p->policy == SCHED_DEADLINE && !(p->dl.flags & SCHED_FLAG_SUGOV) && p->dl.dl_bw != warp_share(&p->dl))
		return WARP_WRONG("%s has a share of %llu, and its parameters are one of %llu", p->comm, p->dl.dl_bw,
				  warp_share(&p->dl));
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
	if (p->cpus_ptr != &p->cpus_mask && p->migration_disabled)
		return NULL;
#endif
	if (p->cpus_ptr != &p->cpus_mask || p->nr_cpus_allowed != cpumask_weight(&p->cpus_mask))
		return WARP_WRONG("%s may use %u CPUs, and counts %d", p->comm, cpumask_weight(p->cpus_ptr), p->nr_cpus_allowed);
	return NULL;
}

/*
 * Asks: the load that a fair task is worth is its weight times its share of time (pelt.c, ___update_load_avg()). Falsified by a
 * weight that is changed alone. The sum grows within a period, a thousandth of a second, and the average follows at its end.
 */
static const char *warp_task_load(struct task_struct *p)
{
#if defined(CONFIG_SMP) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)	/* not tried before */
	u64 weight = scale_load_down(p->se.load.weight), divider = PELT_MIN_DIVIDER + p->se.avg.period_contrib;
	u64 load = div64_u64(weight * p->se.avg.load_sum, divider), differs;

	if (p->sched_class != &fair_sched_class || !p->se.avg.last_update_time)
		return NULL;
	differs = load > p->se.avg.load_avg ? load - p->se.avg.load_avg : p->se.avg.load_avg - load;
	if (differs > weight / 16 + 2)
		return WARP_WRONG("%s has %s load than its weight and time say", p->comm, p->se.avg.load_avg > load ? "more" : "less");
#endif
	return NULL;
}

/* A task's class and priority are those of its parameters, if nobody has lent it his. */
static const char *warp_task_priority(struct task_struct *p)
{
	int prio = p->static_prio;

#ifdef CONFIG_RT_MUTEXES
	if (!RB_EMPTY_ROOT(&p->pi_waiters.rb_root))
		return NULL;
#endif
	if (p->policy == SCHED_DEADLINE)
		prio = MAX_DL_PRIO - 1;
	else if (p->policy == SCHED_FIFO || p->policy == SCHED_RR)
		prio = MAX_RT_PRIO - 1 - p->rt_priority;
	/* a task of SCHED_IDLE keeps its nice value, and takes its priority from the one that was asked for with the policy */
	if (p->policy != SCHED_IDLE && (p->prio != prio || p->normal_prio != prio))
		return WARP_WRONG("%s has priority %d and %d, and its parameters are those of %d", p->comm, p->prio,
				  p->normal_prio, prio);
	if (dl_prio(prio) != (p->sched_class == &dl_sched_class) ||
	    (!dl_prio(prio) && rt_prio(prio)) != (p->sched_class == &rt_sched_class))
		return WARP_WRONG("%s has priority %d, and is in another class", p->comm, prio);
	return NULL;
}

static const char *warp_task_pressure(struct task_struct *p)
{
#if defined(CONFIG_PSI) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	bool runs = p->on_rq == TASK_ON_RQ_QUEUED && !WARP_SLEEPS_QUEUED(p);

	if (static_branch_likely(&psi_disabled))
		return NULL;
	/* who falls asleep counts until its CPU has switched; meanwhile that may look for work elsewhere, without its lock */
	if (runs != !!(p->psi_flags & TSK_RUNNING) && task_rq(p)->curr != p)
		return WARP_WRONG("%s is %s, and pressure says otherwise", p->comm, runs ? "runnable" : "not runnable");
	if ((task_rq(p)->curr == p) != !!(p->psi_flags & TSK_ONCPU))
		return WARP_WRONG("%s is %s a CPU, and pressure says otherwise", p->comm, task_rq(p)->curr == p ? "on" : "not on");
#endif
	return NULL;
}

/*
 * Asks: a task may use no CPU that its cpuset has not. Falsified where a cpuset changes within a call that changes the task's
 * CPUs. Who is in the top cpuset may name CPUs that are off, and is not asked.
 */
static const char *warp_task_cpuset(struct task_struct *p)
{
#if defined(CONFIG_CPUSETS) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	struct cpuset *cs = css_cs(rcu_dereference_raw(p->cgroups)->subsys[cpuset_cgrp_id]);

	if (warp_race_operations || p->flags & (PF_KTHREAD | PF_EXITING | PF_NO_SETAFFINITY))
		return NULL;
	/*
	 * Asks: the wish that the kernel keeps is the one that it granted last, and the task may use all CPUs of its wish that
	 * its cpuset has (those that are on, of the top cpuset), if there is one.
	 */
	if (p->user_cpus_ptr && p->thread.asked && cpumask_bits(p->user_cpus_ptr)[0] != p->thread.asked)
		return WARP_WRONG("%s asked for CPUs last that are not its wish (%llx, %lx)", p->comm, p->thread.asked,
				  cpumask_bits(p->user_cpus_ptr)[0]);
	if (p->user_cpus_ptr && cpumask_intersects(p->user_cpus_ptr, cs->effective_cpus) &&
	    (cpumask_bits(p->user_cpus_ptr)[0] & cpumask_bits(cs->effective_cpus)[0] & ~cpumask_bits(&p->cpus_mask)[0]))
		return WARP_WRONG("%s may not use CPUs of its wish that its cpuset has (%lx, %lx, %lx)", p->comm,
				  cpumask_bits(&p->cpus_mask)[0], cpumask_bits(p->user_cpus_ptr)[0],
				  cpumask_bits(cs->effective_cpus)[0]);
	if (!cs->css.parent)
		return NULL;
	if (!cpumask_subset(&p->cpus_mask, cs->effective_cpus))
		return WARP_WRONG("%s may use CPUs that its cpuset has not (%lx, %lx)", p->comm, cpumask_bits(&p->cpus_mask)[0],
				  cpumask_bits(cs->effective_cpus)[0]);
#endif
	return NULL;
}

/* pi_lock guards a task's parameters and CPUs, the queue's lock where it is queued: both are free. */
const char *warp_race_task_state(struct task_struct *p, unsigned int at_rest)
{
	const char *why = NULL;

	if (WARP_STATE(p) == TASK_NEW || p->sched_class == &stop_sched_class || p->on_rq == TASK_ON_RQ_MIGRATING ||
	    raw_spin_is_locked(&p->pi_lock))
		return NULL;
	why = warp_task_classes(p);
	if (!why)
		why = warp_task_copies(p);
	if (!why)
		why = warp_task_priority(p);
	if (!why)
		why = warp_task_load(p);
	if (!why)
		why = warp_task_pressure(p);
	if (!why)
		why = warp_ext_task(p);
	if (!why && at_rest)
		why = warp_task_cpuset(p);
	/* the unmodified kernel's tasks may be so for a while (linux/race/explained.toml), and more is to be seen behind that */
	if (!why && at_rest == 2 && dl_task(p) && p->on_rq && p->dl.dl_throttled && !hrtimer_active(&p->dl.dl_timer))
		why = WARP_WRONG("a deadline task is held back until it has time again, and no timer will end that");
	return why;
}

/* ---- one queue, whose lock is free ---- */

/* What a queue says of its clamps: the highest bucket that has tasks, and that it has none. */
static const char *warp_clamp_value(int cpu, unsigned int id)
{
#if defined(CONFIG_UCLAMP_TASK) && LINUX_VERSION_CODE >= KERNEL_VERSION(5, 16, 0)
	struct uclamp_rq *clamp = &cpu_rq(cpu)->uclamp[id];
	bool idle = cpu_rq(cpu)->uclamp_flags & UCLAMP_FLAG_IDLE;
	int bucket = UCLAMP_BUCKETS - 1;

	while (bucket >= 0 && !clamp->bucket[bucket].tasks)
		bucket--;
	if (id == UCLAMP_MAX && idle != (bucket < 0))
		return WARP_WRONG("cpu%d: %s tasks with a clamp are there, and its queue says otherwise", cpu, idle ? "some" : "no");
	if (bucket >= 0 && clamp->value != clamp->bucket[bucket].value)
		return WARP_WRONG("cpu%d: its clamp is %u, and the highest of its tasks' %u", cpu, (unsigned int)clamp->value,
				  (unsigned int)clamp->bucket[bucket].value);
#endif
	return NULL;
}

static const char *warp_clamps(int cpu)
{
#ifdef CONFIG_UCLAMP_TASK
	struct uclamp_rq *clamps = cpu_rq(cpu)->uclamp;
	struct task_struct *g, *p;

	for (unsigned int id = 0; id < UCLAMP_CNT; id++) {
		unsigned int nr[UCLAMP_BUCKETS] = {};

		for_each_process_thread(g, p)
			if (!warp_in_box(p) && task_cpu(p) == cpu && p->uclamp[id].active)
				nr[p->uclamp[id].bucket_id]++;
		for (unsigned int box = 0; box < warp_boot_info.max_tasks; box++) {
			p = warp_boot_info.tasks[box].task;
			if (p && task_cpu(p) == cpu && p->uclamp[id].active)
				nr[p->uclamp[id].bucket_id]++;
		}
		for (unsigned int bucket = 0; bucket < UCLAMP_BUCKETS; bucket++)
			if (nr[bucket] != clamps[id].bucket[bucket].tasks)
				return WARP_WRONG("cpu%d: %u tasks have a clamp of utilisation, and its queue counts %u", cpu, nr[bucket],
						  (unsigned int)clamps[id].bucket[bucket].tasks);
		if (warp_clamp_value(cpu, id))
			return warp_state_why;
	}
#endif
	return NULL;
}

const char *warp_race_queue_state(int cpu)
{
	const char *why = warp_fair_queues(cpu);

	if (!why)
		why = warp_rt_state(cpu);
	if (!why)
		why = warp_server(cpu);
	if (!why)
		why = warp_ext_queue(cpu);
	if (!why)
		why = warp_clamps(cpu);
	return why;
}

/* ---- all queues' locks are free ---- */

const char *warp_race_all_state(void)
{
	return warp_race_all_free() ? warp_group_load() : NULL;
}

/* ---- all CPUs are at rest, and no interrupt is on its way ---- */

/*
 * Who of a cache's CPUs is busy. Domains that are made anew begin with all busy, and with CPUs of other domains, too
 * (linux/race/explained.toml): that more are counted is asked at the end alone.
 */
static const char *warp_busy(int cpu, bool at_end)
{
	struct sched_domain *sd = rcu_dereference_raw(per_cpu(sd_llc, cpu)), *other;
	int busy = 0, at;

	if (!sd || !sd->shared)
		return NULL;
	for_each_cpu(at, sched_domain_span(sd)) {
		other = rcu_dereference_raw(per_cpu(sd_llc, at));
		if (!other || other->shared != sd->shared)
			return WARP_WRONG("cpu%d and cpu%d share a cache, and not what is known of it", cpu, at);
		busy += !other->nohz_idle;
	}
	if (busy > atomic_read(&sd->shared->nr_busy_cpus))
		return WARP_WRONG("cpu%d: its cache counts fewer busy CPUs than there are", cpu);
	if (at_end && busy < atomic_read(&sd->shared->nr_busy_cpus))
		return WARP_WRONG("cpu%d: its cache counts more busy CPUs than there are", cpu);
	return NULL;
}

static const char *warp_flags(int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	if (rq->ttwu_pending)
		return WARP_WRONG("cpu%d: woken tasks are on their way to it, as it says, and none is", cpu);
	if (rq->active_balance)
		return WARP_WRONG("cpu%d: its stopper is to move a task, as it says, and nobody asked that", cpu);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
	if (rq->push_busy)
		return WARP_WRONG("cpu%d: its stopper is to push a task away, as it says, and nobody asked that", cpu);
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 12, 0)
	if (!cpu_active(cpu) && rq->nohz_tick_stopped)
		return WARP_WRONG("cpu%d goes off, and counts among the idle CPUs that others balance for", cpu);
#endif
	if (!is_idle_task(rq->curr) && tick_nohz_tick_stopped_cpu(cpu))
		return WARP_WRONG("cpu%d runs %s without ticks", cpu, rq->curr->comm);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	if (WARP_DL_SERVER(&rq->fair_server) && rq->fair_server.dl_throttled && !hrtimer_active(&rq->fair_server.dl_timer))
		return WARP_WRONG("cpu%d: its fair server waits for its time, and no timer will tell it", cpu);
#endif
#ifdef CONFIG_SCHED_CLASS_EXT
	if (is_idle_task(rq->curr) && rq->scx.local_dsq.nr)
		return WARP_WRONG("cpu%d is idle, and its own queue of sched_ext has tasks", cpu);
#endif
	return NULL;
}

/*
 * Asks: a cpuset counts the deadline tasks in it (those that are lent a deadline, too). Nobody is under way that changes a class or
 * a cpuset. Falsified where an attach is refused, and counts.
 */
static const char *warp_cpuset_deadline(void)
{
#if defined(CONFIG_CPUSETS) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	struct task_struct *g, *p, *g2, *p2;

	if (warp_race_operations)
		return NULL;
	for_each_process_thread(g, p)
		if (p->flags & PF_EXITING || raw_spin_is_locked(&p->pi_lock))
			return NULL;
	for_each_process_thread(g, p) {
		struct cpuset *cs = css_cs(rcu_dereference_raw(p->cgroups)->subsys[cpuset_cgrp_id]);
		int n = 0;

		if (p->flags & PF_KTHREAD)
			continue;
		for_each_process_thread(g2, p2)
			n += p2->sched_class == &dl_sched_class &&
			     css_cs(rcu_dereference_raw(p2->cgroups)->subsys[cpuset_cgrp_id]) == cs;
		if (n != atomic_read(&cs->nr_deadline_tasks))
			return WARP_WRONG("the cpuset of %s has %d deadline tasks, and counts %d", p->comm, n,
					  atomic_read(&cs->nr_deadline_tasks));
		if (cs->nr_migrate_dl_tasks)
			return WARP_WRONG("the cpuset of %s has deadline tasks on their way to it, as it says, and none is", p->comm);
	}
#endif
	return NULL;
}

/*
 * Asks: what says that there are cores of two threads counts each CPU of such a core that becomes active, until it is not. (The
 * first CPU of all is active without being counted.) Falsified where a CPU that may not go off is not counted again. Who changes
 * the count has said before that the CPU is not active, or says that it is in the same call, which does not sleep between.
 */
static const char *warp_siblings(void)
{
#ifdef CONFIG_SCHED_SMT
	static int uncounted = -1;
	int cpu, active = 0, counts = static_key_count(&sched_smt_present.key);

	for_each_online_cpu(cpu) {
		if (!cpu_active(cpu))
			return NULL;
		active += cpumask_weight(cpu_smt_mask(cpu)) == 2;
	}
	if (uncounted < 0)
		uncounted = active - counts;
	if (active - counts != uncounted)
		return WARP_WRONG("%d CPUs of cores with two threads are active, and %d are counted", active - uncounted, counts);
#endif
	return NULL;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
DECLARE_PER_CPU(struct hrtimer_cpu_base, hrtimer_bases);
#endif

/*
 * Asks: a CPU that is off has left nothing behind. Its timers go to another CPU as it dies (hrtimers_cpu_dying()), and the
 * domains are made without it before that (cpuset_cpu_inactive()), within one call. Falsified where somebody arms a timer there, or
 * makes domains by an old mask. Before 6.12 both may come later.
 */
static const char *warp_left_behind(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	struct sched_domain *sd;
	int off, cpu;

	for_each_possible_cpu(off) {
		if (cpu_online(off))
			continue;
		if (per_cpu(hrtimer_bases, off).active_bases)
			return WARP_WRONG("cpu%d is off, and a timer waits there", off);
		for_each_online_cpu(cpu)
			for (sd = rcu_dereference_raw(cpu_rq(cpu)->sd); sd; sd = rcu_dereference_raw(sd->parent))
				if (cpumask_test_cpu(off, sched_domain_span(sd)))
					return WARP_WRONG("cpu%d is off, and in a domain of cpu%d", off, cpu);
	}
#endif
	return NULL;
}

const char *warp_race_rest_state(bool at_end)
{
	const char *why = warp_periods() ?: warp_limits(at_end) ?: warp_cpuset_deadline() ?: warp_siblings() ?: warp_left_behind();
	int cpu;

	for_each_online_cpu(cpu) {
		if (!why && cpu_active(cpu) && !atomic_long_read(&sched_domains_mutex.owner))
			why = warp_busy(cpu, at_end);
		if (!why && !raw_spin_is_locked(WARP_RQ_LOCK(cpu_rq(cpu))))
			why = warp_flags(cpu);
	}
	return why;
}
#else
const char *warp_race_task_state(struct task_struct *p, unsigned int at_rest) { return NULL; }
const char *warp_race_queue_state(int cpu) { return NULL; }
const char *warp_race_all_state(void) { return NULL; }
const char *warp_race_rest_state(bool at_end) { return NULL; }
#endif
