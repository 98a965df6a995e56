/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race: what must hold among the queues whose locks are free, and of all when every CPU is at rest. Reads only,
 * takes no lock, and is asked while no CPU runs.
 *
 *	at each stop	one CPU a task; what a queue says of itself beside its trees, lists and tasks
 *	at rest		nobody waits for what nobody will do; order of classes; references and reserved bandwidth
 */
#include <linux/cgroup.h>
#include <linux/cpuset.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include "../../../kernel/sched/sched.h"
#include "race_read.h"
#include "warp.h"

static char warp_race_why[256];
#define WARP_WRONG(...) ({ scnprintf(warp_race_why, sizeof(warp_race_why), __VA_ARGS__); (const char *)warp_race_why; })

/* The priority of the next real-time task to be pushed if there is none; when a queue is marked as having several. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 12, 0)
#define WARP_NO_PUSHABLE (MAX_RT_PRIO - 1)
#else
#define WARP_NO_PUSHABLE MAX_RT_PRIO
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
#define WARP_RT_OVERLOAD(rt_rq) (!plist_head_empty(&(rt_rq)->pushable_tasks))
#else
#define WARP_RT_OVERLOAD(rt_rq) ((rt_rq)->rt_nr_migratory && (rt_rq)->rt_nr_total > 1)
#endif

#ifdef CONFIG_SCHED_CLASS_EXT
#define WARP_EXT(rq) ((rq)->scx.nr_running)
#else
#define WARP_EXT(rq) 0
#endif

#ifdef CONFIG_RT_MUTEXES
#define WARP_WAITS_FOR_MUTEX(p) ((p)->pi_blocked_on != NULL)
#else
#define WARP_WAITS_FOR_MUTEX(p) false
#endif

/* mutex_is_locked() is code with points, and nobody may stop here. */
static bool warp_is_held(struct mutex *mutex) { return atomic_long_read(&mutex->owner) != 0; }

static bool warp_rq_whole(int cpu) { return !raw_spin_is_locked(WARP_RQ_LOCK(cpu_rq(cpu))); }

bool warp_race_all_free(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		if (!warp_rq_whole(cpu))
			return false;
	return true;
}

static int warp_throttled(struct task_struct *p)
{
#ifdef CONFIG_CFS_BANDWIDTH
	struct sched_entity *se = &p->se;

	if (p->sched_class == &fair_sched_class)
		for (; se; se = se->parent)
			if (se->cfs_rq->throttled || se->cfs_rq->throttle_count)
				return 1;
#endif
	if (dl_task(p) && p->dl.dl_throttled)
		return 1;
	return 0;
}

static bool warp_is_ext(struct task_struct *p)
{
#ifdef CONFIG_SCHED_CLASS_EXT
	return p->sched_class == &ext_sched_class;
#else
	return false;
#endif
}

/* What all tasks say together. */
static struct warp_sums {
	unsigned short queued[NR_CPUS][2];	/* on the CPU's queue; of them held back, perhaps */
	unsigned short ready[NR_CPUS];		/* could run there: not held back, not asleep already, no scheduler of sched_ext's */
	u64 dl_bw[NR_CPUS];			/* of queued DEADLINE tasks */
	u64 dl_here[NR_CPUS];			/* of DEADLINE tasks there, those that sleep included */
	u64 dl_all;				/* of all DEADLINE tasks */
	u64 dl_active[NR_CPUS];			/* of those that are queued, and those before their 0-lag time */
	u64 dl_allowed[NR_CPUS];		/* of DEADLINE tasks, by the first online CPU that they may use */
	u64 dl_left;				/* of tasks that left the class, before their 0-lag time */
	unsigned int pinned;			/* with migration disabled */
	unsigned int psi[2][NR_CPUS];		/* that wait for a device; that are runnable */
} warp_sums;

static void warp_add(struct task_struct *p)
{
	struct warp_sums *sums = &warp_sums;
	int cpu = task_cpu(p);

	if (p->on_rq == TASK_ON_RQ_QUEUED) {
		bool held = warp_throttled(p) || (rt_task(p) && !dl_task(p) && !cpu_rq(cpu)->rt.rt_queued);

		sums->queued[cpu][held]++;
		sums->ready[cpu] += !held && !WARP_SLEEPS_QUEUED(p) && !warp_is_ext(p);
	}
	if (dl_task(p) && !(p->dl.flags & SCHED_FLAG_SUGOV)) {
		sums->dl_all += p->dl.dl_bw;
		sums->dl_here[cpu] += p->dl.dl_bw;
		sums->dl_allowed[min_t(unsigned int, cpumask_first_and(p->cpus_ptr, cpu_online_mask), NR_CPUS - 1)] += p->dl.dl_bw;
		if (p->on_rq == TASK_ON_RQ_QUEUED)
			sums->dl_bw[cpu] += p->dl.dl_bw;
		if (p->on_rq == TASK_ON_RQ_QUEUED || p->dl.dl_non_contending)
			sums->dl_active[cpu] += p->dl.dl_bw;
	}
	if (p->dl.dl_bw && !dl_task(p) && hrtimer_active(&p->dl.inactive_timer))
		sums->dl_left += p->dl.dl_bw;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
	sums->pinned += !!p->migration_disabled;
#endif
#ifdef CONFIG_PSI
	sums->psi[0][cpu] += !!(p->psi_flags & TSK_IOWAIT);
	sums->psi[1][cpu] += !!(p->psi_flags & TSK_RUNNING);
#endif
}

/* ---- one queue, whose lock nobody holds ---- */

/* How many tasks stand on the queue, by those tasks; and who they are. */
static const char *warp_check_number(int cpu)
{
	unsigned int nr = cpu_rq(cpu)->nr_running, low = warp_sums.queued[cpu][0], high = low + warp_sums.queued[cpu][1];
	struct task_struct *g, *p;
	int len;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	high++;	/* the fair server counts itself */
#endif
	if (nr >= low && nr <= high)
		return NULL;
	len = scnprintf(warp_race_why, sizeof(warp_race_why), "cpu%d: nr_running is %u, its tasks are", cpu, nr);
	for_each_process_thread(g, p)
		if (task_cpu(p) == cpu && p->on_rq == TASK_ON_RQ_QUEUED && !warp_in_box(p))
			len += scnprintf(warp_race_why + len, sizeof(warp_race_why) - len, " %s", p->comm);
	for (unsigned int id = 0; id < warp_boot_info.max_tasks; id++) {
		p = warp_boot_info.tasks[id].task;
		if (p && task_cpu(p) == cpu && p->on_rq == TASK_ON_RQ_QUEUED)
			len += scnprintf(warp_race_why + len, sizeof(warp_race_why) - len, " %s", p->comm);
	}
	return warp_race_why;
}

static const char *warp_check_current(int cpu)
{
	struct task_struct *curr = cpu_rq(cpu)->curr;

	if (task_cpu(curr) != cpu)
		return WARP_WRONG("cpu%d runs %s, which says that it is on cpu%d", cpu, curr->comm, task_cpu(curr));
	if (!curr->on_cpu)
		return WARP_WRONG("cpu%d runs %s, which says that no CPU runs it", cpu, curr->comm);
	if (!refcount_read(&curr->usage))
		return WARP_WRONG("cpu%d runs %s, whose memory has been given back", cpu, curr->comm);
	return NULL;
}

/* The fair class's tree of one group: its number, weight and order. */
static const char *warp_check_fair(int cpu, struct cfs_rq *cfs_rq)
{
	unsigned long weight = 0;
	unsigned int nr = 0;
	struct sched_entity *se, *before = NULL;
	struct rb_node *node;

	if (cfs_rq->curr && cfs_rq->curr->on_rq) {
		weight += cfs_rq->curr->load.weight;
		nr++;
	}
	for (node = rb_first_cached(&cfs_rq->tasks_timeline); node; node = rb_next(node)) {
		se = rb_entry(node, struct sched_entity, run_node);
		weight += se->load.weight;
		nr++;
		if (!se->on_rq || se->cfs_rq != cfs_rq)
			return WARP_WRONG("cpu%d: an entity is in a fair tree, and says that it is not", cpu);
		if (before && (s64)(WARP_FAIR_KEY(se) - WARP_FAIR_KEY(before)) < 0)
			return WARP_WRONG("cpu%d: a fair tree is out of order", cpu);
		before = se;
	}
	if (nr != WARP_LEVEL(cfs_rq))
		return WARP_WRONG("cpu%d: a fair queue counts %u entities and has %u", cpu, (unsigned int)WARP_LEVEL(cfs_rq), nr);
	if (weight != cfs_rq->load.weight)
		return WARP_WRONG("cpu%d: a fair queue's weight is %lu, its entities' %lu", cpu, cfs_rq->load.weight, weight);
	return NULL;
}

/* Tasks below a fair queue: all of them, and those whose dequeueing is not put off. What is held back counts for itself. */
static const char *warp_check_below(int cpu, struct cfs_rq *cfs_rq)
{
#if WARP_COUNTS_BELOW
	struct rb_node *node = rb_first_cached(&cfs_rq->tasks_timeline);
	struct sched_entity *se = cfs_rq->curr && cfs_rq->curr->on_rq ? cfs_rq->curr : NULL;
	unsigned int all = 0, runnable = 0;

	for (;;) {
		if (se && se->my_q) {
			all += WARP_BELOW(se->my_q);
			runnable += WARP_BELOW_RUNNABLE(se->my_q);
		} else if (se) {
			all++;
			runnable += !WARP_SLEEPS_QUEUED(container_of(se, struct task_struct, se));
		}
		if (!node)
			break;
		se = rb_entry(node, struct sched_entity, run_node);
		node = rb_next(node);
	}
	if (all != WARP_BELOW(cfs_rq) || runnable != WARP_BELOW_RUNNABLE(cfs_rq))
		return WARP_WRONG("cpu%d: a fair queue counts %d tasks, %d of them runnable, and has %d and %d", cpu,
				  (int)WARP_BELOW(cfs_rq), (int)WARP_BELOW_RUNNABLE(cfs_rq), (int)all, (int)runnable);
#endif
	return NULL;
}

/* The list of fair queues whose load is kept: a branch that was begun has been joined to its tree. */
static const char *warp_check_leaves(int cpu)
{
#if defined(CONFIG_FAIR_GROUP_SCHED) && LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
	if (cpu_rq(cpu)->tmp_alone_branch != &cpu_rq(cpu)->leaf_cfs_rq_list)
		return WARP_WRONG("cpu%d: a branch of the list of leaves is not joined to its tree", cpu);
#endif
	return NULL;
}

static const char *warp_check_bandwidth(int cpu, struct task_group *tg)
{
#ifdef CONFIG_CFS_BANDWIDTH
	struct cfs_rq *cfs_rq = WARP_FAIR_QUEUE(tg, cpu);
	struct task_group *above;
	int held = 0;

	for (above = tg; above; above = above->parent)
		held += !!WARP_FAIR_QUEUE(above, cpu)->throttled;
	if (cfs_rq->throttle_count != held)
		return WARP_WRONG("cpu%d: %d groups hold a fair queue back, and it counts %d", cpu, held, cfs_rq->throttle_count);
	if (cfs_rq->throttled && list_empty(&cfs_rq->throttled_list))
		return WARP_WRONG("cpu%d: a fair queue is held back, and nobody knows", cpu);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
	if (cfs_rq->throttled && cfs_rq->runtime_remaining > 0 && list_empty(&cfs_rq->throttled_csd_list))
		return WARP_WRONG("cpu%d: a fair queue is held back with time left, and nobody lets it go on", cpu);
#endif
#endif
	return NULL;
}

static const char *warp_check_fair_groups(int cpu)
{
	const char *why = NULL;
	struct task_group *tg;

#ifdef CONFIG_FAIR_GROUP_SCHED
	list_for_each_entry_rcu(tg, &task_groups, list) {
		if (!WARP_FAIR_QUEUE(tg, cpu))
			continue;
		why = warp_check_fair(cpu, WARP_FAIR_QUEUE(tg, cpu));
		if (!why)
			why = warp_check_bandwidth(cpu, tg);
		if (!why)
			why = warp_check_below(cpu, WARP_FAIR_QUEUE(tg, cpu));
		if (why)
			break;
	}
#else
	(void)tg;
	why = warp_check_fair(cpu, &cpu_rq(cpu)->cfs);
#endif
	return why;
}

/* Real time: the array's lists beside the count and the highest priority. */
static const char *warp_check_rt(int cpu)
{
	struct rt_rq *rt_rq = &cpu_rq(cpu)->rt;
	struct list_head *queue = rt_rq->active.queue, *at;
	DECLARE_BITMAP(any, MAX_RT_PRIO) = {};
	DECLARE_BITMAP(differs, MAX_RT_PRIO);
	int prio, first;
	unsigned int nr = 0;

#ifdef CONFIG_RT_GROUP_SCHED
	return NULL;	/* its lists hold groups */
#endif
	/* 100 lists at each stop: without a branch for each */
	for (prio = 0; prio < MAX_RT_PRIO; prio++)
		any[prio / BITS_PER_LONG] |= (unsigned long)(queue[prio].next != &queue[prio]) << prio % BITS_PER_LONG;
	bitmap_xor(differs, any, rt_rq->active.bitmap, MAX_RT_PRIO);
	prio = find_first_bit(differs, MAX_RT_PRIO);
	if (prio < MAX_RT_PRIO)
		return WARP_WRONG("cpu%d: real-time priority %d has %s task and its bit says otherwise", cpu, prio,
				  test_bit(prio, any) ? "a" : "no");
	first = find_first_bit(any, MAX_RT_PRIO);
	for_each_set_bit(prio, any, MAX_RT_PRIO)
		list_for_each(at, &queue[prio])
			nr++;
	if (nr != rt_rq->rt_nr_running)
		return WARP_WRONG("cpu%d: rt_nr_running is %u, its lists have %u", cpu, (unsigned int)rt_rq->rt_nr_running, nr);
	if (nr && rt_rq->highest_prio.curr != first)
		return WARP_WRONG("cpu%d: the highest real-time priority is %d, and it says %d", cpu, first,
				  rt_rq->highest_prio.curr);
	first = WARP_NO_PUSHABLE;
	if (!plist_head_empty(&rt_rq->pushable_tasks))
		first = plist_first(&rt_rq->pushable_tasks)->prio;
	if (rt_rq->highest_prio.next != first)
		return WARP_WRONG("cpu%d: the next task to be pushed has priority %d, and the queue says %d", cpu, first,
				  rt_rq->highest_prio.next);
	if (!!rt_rq->overloaded != WARP_RT_OVERLOAD(rt_rq))
		return WARP_WRONG("cpu%d: real-time tasks could be pushed, or none, and its queue says otherwise", cpu);
	return NULL;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
/* cpupri.c's level of a CPU without DEADLINE tasks, from its own queue. */
static const char *warp_check_cpupri(int cpu)
{
	struct rq *rq = cpu_rq(cpu);
	struct cpupri *cp = &rq->rd->cpupri;
	int prio = rq->rt.rt_nr_running ? rq->rt.highest_prio.curr : MAX_RT_PRIO - 1;
	int level = MAX_RT_PRIO - 1 - prio;

	if (!rq->online || rq->dl.dl_nr_running)
		return NULL;
	if (cp->cpu_to_pri[cpu] != level)
		return WARP_WRONG("cpu%d: cpupri has it on level %d, and its queue is at %d", cpu, cp->cpu_to_pri[cpu], level);
	if (level && !cpumask_test_cpu(cpu, cp->pri_to_cpu[level].mask))
		return WARP_WRONG("cpu%d: cpupri's mask of level %d does not have it", cpu, level);
	return NULL;
}
#else
static const char *warp_check_cpupri(int cpu) { return NULL; }
#endif

/* DEADLINE: the tree beside the count, bandwidth of queued tasks, cpudl's place. tasks, servers: what the tree has */
static const char *warp_check_dl(int cpu, unsigned int *tasks, unsigned int *servers)
{
	struct rq *rq = cpu_rq(cpu);
	struct dl_rq *dl_rq = &rq->dl;
	struct sched_dl_entity *first = NULL, *dl_se;
	struct cpudl *cpudl = &rq->rd->cpudl;
	unsigned int nr = 0;
	struct rb_node *node;

	*tasks = *servers = 0;
	for (node = rb_first(&dl_rq->root.rb_root); node; node = rb_next(node)) {
		dl_se = rb_entry(node, struct sched_dl_entity, rb_node);
		if (first && dl_time_before(dl_se->deadline, first->deadline))
			return WARP_WRONG("cpu%d: the deadline tree is out of order", cpu);
		first = first ?: dl_se;
		nr++;
		*(WARP_DL_SERVER(dl_se) ? servers : tasks) += 1;
	}
	if (nr != dl_rq->dl_nr_running)
		return WARP_WRONG("cpu%d: dl_nr_running is %u, its tree has %u", cpu, (unsigned int)dl_rq->dl_nr_running, nr);
	if (first && dl_rq->earliest_dl.curr != first->deadline)
		return WARP_WRONG("cpu%d: the earliest deadline is not that of the tree", cpu);
	if (warp_sums.dl_bw[cpu] > dl_rq->running_bw)
		return WARP_WRONG("cpu%d: queued deadline tasks have more bandwidth than running_bw", cpu);
	if (dl_rq->running_bw > dl_rq->this_bw)
		return WARP_WRONG("cpu%d: running_bw is more than this_bw", cpu);
	if (rq->online && !raw_spin_is_locked(&cpudl->lock)) {
		int idx = cpudl->elements[cpu].idx;

		if ((idx >= 0 && idx < cpudl->size) != !!nr)
			return WARP_WRONG("cpu%d: cpudl %s it, and it has %u deadline tasks", cpu, nr ? "lacks" : "has", nr);
		if (nr && cpudl->elements[idx].dl != dl_rq->earliest_dl.curr)
			return WARP_WRONG("cpu%d: cpudl has another deadline of it", cpu);
	}
	if (!raw_spin_is_locked(&cpudl->lock) && cpumask_test_cpu(cpu, cpudl->free_cpus) != (rq->online && !nr))
		return WARP_WRONG("cpu%d: cpudl says that it is %s for deadline tasks; its queue is %s, and has %u of them", cpu,
				  cpumask_test_cpu(cpu, cpudl->free_cpus) ? "free" : "not free", rq->online ? "on" : "off", nr);
	return NULL;
}

/*
 * A CPU that is active in a domain of its own takes part in push and pull. Asked at rest: one that comes back is active first,
 * and its queue is on later in the same call (sched_cpu_activate()).
 */
static const char *warp_check_online(int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	if (cpu_active(cpu) && rq->rd != &def_root_domain && !rq->online)
		return WARP_WRONG("cpu%d is active, and its queue is marked as off", cpu);
	if (!!rq->online != !!cpumask_test_cpu(cpu, rq->rd->online))
		return WARP_WRONG("cpu%d: its queue is marked as %s, and its domain says otherwise", cpu, rq->online ? "on" : "off");
	return NULL;
}

/*
 * The queue of a CPU that is off takes no part in push and pull: it has said so before the CPU went (sched_cpu_deactivate()), and
 * is on again when the CPU is active. Before 5.11 this is left to whoever makes the domains anew, later.
 */
static const char *warp_check_off(void)
{
	int cpu;

	if (LINUX_VERSION_CODE < KERNEL_VERSION(5, 11, 0))
		return NULL;
	for_each_possible_cpu(cpu)
		if (!cpu_online(cpu) && cpu_rq(cpu)->online && !raw_spin_is_locked(WARP_RQ_LOCK(cpu_rq(cpu))))
			return WARP_WRONG("cpu%d is off, and its queue is marked as on", cpu);
	return NULL;
}

/* The queue's number beside those of its classes. A server counts itself in some versions. */
static const char *warp_check_classes(int cpu, unsigned int dl, unsigned int servers)
{
	struct rq *rq = cpu_rq(cpu);
	unsigned int rt = rq->rt.rt_queued ? rq->rt.rt_nr_running : 0;
	unsigned int fair = WARP_BELOW(&rq->cfs);
	unsigned int stop = rq->stop && rq->stop->on_rq == TASK_ON_RQ_QUEUED, sum = rt + fair + dl + stop + WARP_EXT(rq);

	if (rq->nr_running < sum || rq->nr_running > sum + servers)
		return WARP_WRONG("cpu%d: nr_running is %u, its classes have %u (fair %u, rt %u, dl %u)", cpu, rq->nr_running,
				  sum, fair, rt, dl);
	return NULL;
}

#ifdef CONFIG_PSI
#if defined(CONFIG_CGROUP_SCHED) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0)
static bool warp_psi_runs(struct task_struct *p, int cpu, struct cgroup *cgroup)
{
	return task_cpu(p) == cpu && p->psi_flags & TSK_RUNNING && cgroup_is_descendant(task_dfl_cgroup(p), cgroup);
}

/* A control group's runnable tasks on a CPU, those of the groups in it included: what pressure counts, and who says so. */
static const char *warp_check_psi_group(int cpu, struct cgroup *cgroup)
{
	unsigned int says = per_cpu_ptr(cgroup_psi(cgroup)->pcpu, cpu)->tasks[NR_RUNNING], sum = 0;
	struct task_struct *g, *p;

	for_each_process_thread(g, p)
		sum += !warp_in_box(p) && warp_psi_runs(p, cpu, cgroup);
	for (unsigned int id = 0; id < warp_boot_info.max_tasks; id++) {
		p = warp_boot_info.tasks[id].task;
		sum += p && warp_psi_runs(p, cpu, cgroup);
	}
	if (says != sum)
		return WARP_WRONG("cpu%d: pressure counts %u runnable tasks of a control group, and %u say so", cpu, says, sum);
	return NULL;
}
#endif

static const char *warp_check_psi(int cpu)
{
	unsigned int *says = per_cpu_ptr(psi_system.pcpu, cpu)->tasks;
	const char *why = NULL;
	struct task_group *tg;

	if (static_branch_likely(&psi_disabled))
		return NULL;
	if (says[NR_RUNNING] != warp_sums.psi[1][cpu])
		return WARP_WRONG("cpu%d: pressure counts %s runnable tasks than say so", cpu,
				  says[NR_RUNNING] > warp_sums.psi[1][cpu] ? "more" : "fewer");
	if (says[NR_IOWAIT] != warp_sums.psi[0][cpu])
		return WARP_WRONG("cpu%d: pressure counts %u tasks that wait for a device, and %u say so", cpu, says[NR_IOWAIT],
				  warp_sums.psi[0][cpu]);
#if defined(CONFIG_CGROUP_SCHED) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0)
	list_for_each_entry_rcu(tg, &task_groups, list)
		if (!why && tg->css.cgroup)
			why = warp_check_psi_group(cpu, tg->css.cgroup);
#else
	(void)tg;
#endif
	return why;
}
#else
static const char *warp_check_psi(int cpu) { return NULL; }
#endif

/* A request not to update the clock is for one section under the lock. */
static const char *warp_check_clock(int cpu)
{
	if (cpu_rq(cpu)->clock_update_flags & RQCF_ACT_SKIP)
		return WARP_WRONG("cpu%d: nobody holds its queue, and its clock is not to be updated", cpu);
	return NULL;
}

static const char *warp_check_rq(int cpu)
{
	unsigned int dl_tasks, dl_servers;
	const char *why = warp_check_current(cpu);

	if (!why)
		why = warp_check_clock(cpu);
	if (!why)
		why = warp_check_number(cpu);
	if (!why)
		why = warp_check_leaves(cpu);
	if (!why)
		why = warp_check_fair_groups(cpu);
	if (!why)
		why = warp_check_rt(cpu);
	if (!why)
		why = warp_check_cpupri(cpu);
	if (!why)
		why = warp_check_dl(cpu, &dl_tasks, &dl_servers);
	if (!why)
		why = warp_check_classes(cpu, dl_tasks, dl_servers);
	if (!why)
		why = warp_check_psi(cpu);
	if (!why)
		why = warp_race_queue_lists(cpu);
	if (!why)
		why = warp_race_queue_state(cpu);
	return why;
}

/* ---- one task ---- */

#ifdef CONFIG_RT_MUTEXES
/*
 * Who holds a mutex for which others wait has the priority of the first of them, if that is higher than its own. Of ordinary
 * tasks this is not asked: set_user_nice() takes away what one of them was lent by another one.
 */
static const char *warp_check_lent(struct task_struct *p)
{
	struct task_struct *top = p->pi_top_task, *owner = READ_ONCE(warp_race_owner);
	int prio = p->normal_prio;

	if (raw_spin_is_locked(&p->pi_lock) || p->policy == SCHED_IDLE)
		return NULL;
	if (p->pi_blocked_on && p->prio < MAX_RT_PRIO && owner && !raw_spin_is_locked(&owner->pi_lock) && p->prio < owner->prio)
		return WARP_WRONG("%s of priority %d waits for a mutex of %s, which has %d", p->comm, p->prio, owner->comm, owner->prio);
	if (top && top->prio < prio)
		prio = top->prio;
	if (p->prio != prio && (p->prio < MAX_RT_PRIO || prio < MAX_RT_PRIO))
		return WARP_WRONG("%s has priority %d, and by its parameters and who waits for it %d", p->comm, p->prio, prio);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
	if (p->on_rq && p->dl.pi_se != &p->dl && p->dl.dl_throttled)
		return WARP_WRONG("%s is lent a deadline task's time, and is held back", p->comm);
#endif
	return NULL;
}
#else
static const char *warp_check_lent(struct task_struct *p) { return NULL; }
#endif

static const char *warp_check_task(struct task_struct *p, bool at_rest)
{
	int cpu = task_cpu(p);

	if (!at_rest)
		return NULL;
	/* a task whose CPUs have all gone stays where it is until it is chosen a place again */
	if (p->on_rq == TASK_ON_RQ_QUEUED && !raw_spin_is_locked(&p->pi_lock) &&
	    !cpumask_test_cpu(cpu, p->cpus_ptr) && cpu_active(cpu) && cpumask_intersects(p->cpus_ptr, cpu_active_mask)
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
	    && !is_migration_disabled(p) && !p->migration_pending
#endif
	    && !(p->flags & PF_KTHREAD))
		return WARP_WRONG("%s is queued on cpu%d, which it may not use (%lx)", p->comm, cpu,
				  cpumask_bits(p->cpus_ptr)[0]);
	if (WARP_STATE(p) == TASK_RUNNING && !p->on_rq && !(p->flags & PF_EXITING))
		return WARP_WRONG("%s is runnable and on no queue", p->comm);
	if (WARP_STATE(p) == TASK_WAKING)
		return WARP_WRONG("%s is waking, and nobody wakes it", p->comm);
	if (p->on_rq == TASK_ON_RQ_MIGRATING)
		return WARP_WRONG("%s migrates, and nobody moves it", p->comm);
	if (p->thread.woken && !p->on_rq && !p->on_cpu && WARP_STATE(p) != TASK_RUNNING && !(p->flags & PF_EXITING) &&
	    !WARP_WAITS_FOR_MUTEX(p))
		return WARP_WRONG("%s was woken, and sleeps", p->comm);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
	if (p->migration_pending && !is_migration_disabled(p))
		return WARP_WRONG("whoever changed the affinity of %s waits, and no stopper will tell it", p->comm);
#endif
	if (dl_task(p) && !p->on_rq && p->dl.dl_non_contending && !hrtimer_active(&p->dl.inactive_timer))
		return WARP_WRONG("%s sleeps, its share counts as used, and no timer will end that", p->comm);
	if (p->on_cpu && cpu_rq(cpu)->curr != p)
		return WARP_WRONG("%s says that cpu%d runs it, which runs %s", p->comm, cpu, cpu_rq(cpu)->curr->comm);
#ifdef CONFIG_FAIR_GROUP_SCHED
	if (p->on_rq == TASK_ON_RQ_QUEUED && p->se.cfs_rq != WARP_FAIR_QUEUE(task_group(p), cpu))
		return WARP_WRONG("%s stands on cpu%d, and its fair queue is another group's or CPU's", p->comm, cpu);
#endif
	return warp_check_lent(p);
}

/* ---- all CPUs are idle or in user mode, and no interrupt is on its way ---- */

static bool warp_will_look_again(int cpu)
{
	struct task_struct *curr = cpu_rq(cpu)->curr;

#ifdef CONFIG_ARCH_HAS_PREEMPT_LAZY
	if (test_tsk_thread_flag(curr, TIF_NEED_RESCHED_LAZY))
		return true;
#endif
	return test_tsk_need_resched(curr) || warp_cpus[cpu].pending || warp_cpus[cpu].posted;
}

/* Who is to give its CPU up looks on the way out of the kernel, or is sent an interrupt. */
static const char *warp_check_asked(int cpu)
{
	struct task_struct *curr = cpu_rq(cpu)->curr;

	if (test_tsk_need_resched(curr) && !warp_cpus[cpu].pending && !warp_cpus[cpu].posted)
		return WARP_WRONG("cpu%d: %s is to give its CPU up, and no interrupt will tell it", cpu, curr->comm);
	return NULL;
}

/* A task whose group is out of time runs on no longer than until its CPU looks. Since 6.18 it runs on within the kernel. */
static const char *warp_check_held_runs(int cpu)
{
#if defined(CONFIG_CFS_BANDWIDTH) && !WARP_TASKS_THROTTLED
	struct task_struct *curr = cpu_rq(cpu)->curr;

	if (curr->sched_class == &fair_sched_class && curr->se.cfs_rq->throttle_count)
		return WARP_WRONG("cpu%d runs %s, whose group is held back", cpu, curr->comm);
#endif
	return NULL;
}

static const char *warp_check_order(int cpu)
{
	struct rq *rq = cpu_rq(cpu);
	struct task_struct *curr = rq->curr;
	struct rb_node *node = rb_first(&rq->dl.root.rb_root);

	if (is_idle_task(curr) && warp_sums.ready[cpu])
		return WARP_WRONG("cpu%d is idle, and %u of its tasks could run", cpu, warp_sums.ready[cpu]);
	if (rq->stop && rq->stop->on_rq == TASK_ON_RQ_QUEUED && curr != rq->stop)
		return WARP_WRONG("cpu%d runs %s, and its stopper could run", cpu, curr->comm);
	if (curr->sched_class == &stop_sched_class)
		return NULL;
	if (node) {
		struct sched_dl_entity *first = rb_entry(node, struct sched_dl_entity, rb_node);

		if (!WARP_DL_SERVER(first) && (!dl_task(curr) || dl_time_before(first->deadline, curr->dl.deadline)))
			return WARP_WRONG("cpu%d runs %s, and has a task of an earlier deadline", cpu, curr->comm);
	}
	if (rq->rt.rt_queued && rq->rt.rt_nr_running && !dl_task(curr) && rq->rt.highest_prio.curr < curr->prio
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	    && !(node && WARP_DL_SERVER(rb_entry(node, struct sched_dl_entity, rb_node)))
#endif
	   )
		return WARP_WRONG("cpu%d runs %s of priority %d, and has one of %d", cpu, curr->comm, curr->prio,
				  rq->rt.highest_prio.curr);
	return NULL;
}

/* The root domain that a CPU is in: who refers to it, who is overloaded, what is reserved. */
static const char *warp_check_domain(int cpu)
{
	struct root_domain *rd = cpu_rq(cpu)->rd;
	int other, attached = 0, spare = rd == &def_root_domain;

	for_each_possible_cpu(other)
		attached += cpu_rq(other)->rd == rd;
	if (atomic_read(&rd->refcount) != attached + spare)
		return WARP_WRONG("cpu%d: %d queues are in its root domain, which counts %d references", cpu, attached,
				  atomic_read(&rd->refcount) - spare);
	if (cpu_rq(cpu)->online && !!cpu_rq(cpu)->rt.overloaded != !!cpumask_test_cpu(cpu, rd->rto_mask))
		return WARP_WRONG("cpu%d: the domain's mask of queues with several real-time tasks is wrong", cpu);
	if (atomic_read(&rd->rto_count) != cpumask_weight(rd->rto_mask))
		return WARP_WRONG("cpu%d: %u queues have several real-time tasks, and the domain counts %d", cpu,
				  cpumask_weight(rd->rto_mask), atomic_read(&rd->rto_count));
	return NULL;
}

/* Tasks of the workload that were of the deadline class, also those that have ended. */
static struct task_struct *warp_were_dl[1024];

static void warp_note_dl(unsigned int id, struct task_struct *p)
{
	if (id < ARRAY_SIZE(warp_were_dl) && p)
		warp_were_dl[id] = dl_task(p) || p->dl.dl_bw ? p : NULL;
}

/*
 * One that has ended has its share until its 0-lag time, when a timer gives it back (task_non_contending()). It holds the task,
 * so memory that has been given back has none; if it says otherwise, it is another task's by now, and no more is asked.
 */
static bool warp_dl_ends(void)
{
	for (unsigned int id = 0; id < ARRAY_SIZE(warp_were_dl) && id < warp_boot_info.max_tasks; id++) {
		struct task_struct *p = warp_were_dl[id];

		if (p && !warp_boot_info.tasks[id].task && (p->on_rq || p->on_cpu || hrtimer_active(&p->dl.inactive_timer)))
			return true;
	}
	return false;
}

/* A CPU's servers have their part of what is reserved. */
static u64 warp_server_bw(int cpu)
{
	u64 bw = 0;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	bw += WARP_DL_SERVER(&cpu_rq(cpu)->fair_server) ? cpu_rq(cpu)->fair_server.dl_bw : 0;
#endif
	return bw;
}

/*
 * What DEADLINE tasks have is reserved, in a machine of one root domain. At the end no more is: what a task had is given
 * back at its 0-lag time, also when it leaves the class or ends.
 */
static const char *warp_check_reserved(bool at_end)
{
	struct root_domain *rd = cpu_rq(cpumask_first(cpu_online_mask))->rd;
	u64 servers = 0;
	int cpu;

	for_each_online_cpu(cpu) {
		if (cpu_rq(cpu)->rd != rd)
			return NULL;
		servers += warp_server_bw(cpu);
	}
	/* whoever makes the domains anew begins at 0 and adds the tasks one by one; nobody else reads the sum meanwhile */
	if (raw_spin_is_locked(&rd->dl_bw.lock) || warp_is_held(&sched_domains_mutex))
		return NULL;
	if (rd->dl_bw.total_bw < warp_sums.dl_all)
		return WARP_WRONG("deadline tasks have more bandwidth than is reserved");
	if (at_end && !warp_race_operations && !warp_dl_ends() && rd->dl_bw.total_bw > warp_sums.dl_all + warp_sums.dl_left + servers)
		return WARP_WRONG("more bandwidth is reserved than deadline tasks and servers have");
	return NULL;
}

/*
 * The same at the end where there are several root domains. A deadline task's CPUs are those of its domain; a sleeper's last
 * CPU may lie in another one.
 */
static const char *warp_check_domains_reserved(void)
{
	int cpu, other;

	/* a task that is being moved is counted in one domain before it may run there */
	if (warp_is_held(&sched_domains_mutex) || warp_race_operations)
		return NULL;
	for_each_online_cpu(cpu) {
		struct root_domain *rd = cpu_rq(cpu)->rd;
		u64 tasks = 0;

		for_each_online_cpu(other)
			if (cpu_rq(other)->rd == rd)
				tasks += warp_sums.dl_allowed[other];
		if (!raw_spin_is_locked(&rd->dl_bw.lock) && rd->dl_bw.total_bw < tasks)
			return WARP_WRONG("cpu%d: deadline tasks have more bandwidth than is reserved in their domain", cpu);
	}
	return NULL;
}

/* A group that is held back has a timer that ends it. */
static const char *warp_check_held(void)
{
#ifdef CONFIG_CFS_BANDWIDTH
	struct task_group *tg;
	int cpu;

	list_for_each_entry_rcu(tg, &task_groups, list) {
		struct cfs_bandwidth *b = &tg->cfs_bandwidth;

		if (raw_spin_is_locked(&b->lock))
			continue;
		/*
		 * A CPU that has nothing to run gives back what it took, up to a slice (sched_cfs_bandwidth_slice_us: 5 ms), also in a
		 * later period than it took it in, and nothing caps the sum (__return_cfs_rq_runtime()).
		 */
		if (b->quota != RUNTIME_INF && b->runtime > b->quota + num_possible_cpus() * 5ULL * NSEC_PER_MSEC
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
		    + b->burst
#endif
		   )
			return WARP_WRONG("a group has %llu ns left of a quota of %llu", b->runtime, b->quota);
		for_each_online_cpu(cpu)
			if (WARP_FAIR_QUEUE(tg, cpu) && WARP_FAIR_QUEUE(tg, cpu)->throttled && !b->period_active &&
			    !hrtimer_active(&b->slack_timer))
				return WARP_WRONG("cpu%d: a group is held back, and no timer will let it go on", cpu);
	}
#endif
	return NULL;
}

/*
 * A group's time: what is in its pool and on its CPUs grows only where a period begins. A limit that is changed makes all
 * anew, and a CPU that goes off gets a nanosecond for nothing: such a group is not asked about again.
 */
static struct warp_pool {
	struct task_group *tg;
	u64 quota, burst;
	ktime_t period;
	int nr_periods;
	s64 sum;
	unsigned long online, active;	/* of the first CPUs */
	bool lost;
} warp_pools[32];

static const char *warp_check_pools(void)
{
#if defined(CONFIG_CFS_BANDWIDTH) && LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
	struct task_group *tg;
	int cpu;

	if (!warp_race_all_free())
		return NULL;
	list_for_each_entry_rcu(tg, &task_groups, list) {
		struct cfs_bandwidth *b = &tg->cfs_bandwidth;
		struct warp_pool *pool = NULL;
		s64 sum = b->runtime, more;
		bool off = b->quota == RUNTIME_INF;

		if (!tg->cfs_rq || raw_spin_is_locked(&b->lock))
			continue;
		for (unsigned int n = 0; n < ARRAY_SIZE(warp_pools) && !pool; n++)
			if (!warp_pools[n].tg || warp_pools[n].tg == tg)
				pool = &warp_pools[n];
		if (!pool)
			return NULL;
		for_each_possible_cpu(cpu) {
			sum += WARP_FAIR_QUEUE(tg, cpu)->runtime_remaining;
			off |= cpu_online(cpu) && !WARP_FAIR_QUEUE(tg, cpu)->runtime_enabled;
			off |= !cpu_online(cpu) && WARP_FAIR_QUEUE(tg, cpu)->runtime_enabled;
		}
		more = (s64)(b->nr_periods - pool->nr_periods) * (s64)pool->quota;
		if (pool->tg && (off || pool->quota != b->quota || pool->burst != b->burst || pool->period != b->period ||
				 b->nr_periods < pool->nr_periods || pool->online != cpumask_bits(cpu_online_mask)[0] ||
				 pool->active != cpumask_bits(cpu_active_mask)[0]))
			pool->lost = true;
		if (pool->tg && !pool->lost && sum > pool->sum + more)
			return WARP_WRONG("a group's time grew without a new period, or by more than its quota");
		*pool = (struct warp_pool){ .tg = tg, .quota = b->quota, .burst = b->burst, .period = b->period,
					    .nr_periods = b->nr_periods, .sum = sum, .lost = pool->lost,
					    .online = cpumask_bits(cpu_online_mask)[0],
					    .active = cpumask_bits(cpu_active_mask)[0] };
	}
#endif
	return NULL;
}

/* At the end a task of the workload is referred to by itself and by its timers, if no operation is under way. */
static const char *warp_check_references(void)
{
	if (warp_race_operations)
		return NULL;
	for (unsigned int id = 0; id < warp_boot_info.max_tasks; id++) {
		struct task_struct *p = warp_boot_info.tasks[id].task;
		unsigned int wants;

		if (!p || p->flags & PF_EXITING)
			continue;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
		if (p->migration_pending)
			continue;
#endif
		wants = 1 + hrtimer_active(&p->dl.dl_timer) + hrtimer_active(&p->dl.inactive_timer);
		if (refcount_read(&p->usage) != wants)
			return WARP_WRONG("%s has %u references, and %u are known", p->comm, refcount_read(&p->usage), wants);
	}
	return NULL;
}

static const char *warp_check_pinned(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
	unsigned int sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += cpu_rq(cpu)->nr_pinned;
	if (sum != warp_sums.pinned)
		return WARP_WRONG("%u tasks have migration disabled, and queues count %u", warp_sums.pinned, sum);
#endif
	return NULL;
}

/* A queue's this_bw is that of its tasks, those that sleep included, and of its server if that counts itself. */
static const char *warp_check_this_bw(int cpu)
{
	u64 has = cpu_rq(cpu)->dl.this_bw, tasks = warp_sums.dl_here[cpu];

	if (raw_spin_is_locked(WARP_RQ_LOCK(cpu_rq(cpu))) || warp_dl_ends())
		return NULL;
	if (has < tasks || has > tasks + warp_server_bw(cpu))
		return WARP_WRONG("cpu%d: this_bw is not what its deadline tasks have", cpu);
	has = cpu_rq(cpu)->dl.running_bw;
	tasks = warp_sums.dl_active[cpu];
	if (has < tasks || has > tasks + warp_server_bw(cpu))
		return WARP_WRONG("cpu%d: running_bw is not what its deadline tasks have that run, wait, or have just slept", cpu);
	return NULL;
}

static const char *warp_check_rest(bool at_end)
{
	const char *why = NULL;
	bool all = true;
	int cpu;

	for_each_online_cpu(cpu) {
		why = warp_check_asked(cpu);
		if (why)
			return why;
		if (!warp_will_look_again(cpu))
			why = warp_check_order(cpu) ?: warp_check_held_runs(cpu);
		else
			all = false;
		if (why)
			return why;
	}
	/* an interrupt that is on its way may hold a reference */
	if (!all)
		return NULL;
	why = warp_check_off();
	if (why)
		return why;
	for_each_online_cpu(cpu) {
		why = warp_check_online(cpu) ?: warp_check_domain(cpu) ?: warp_check_this_bw(cpu);
		if (why)
			return why;
	}
	/* first what no unmodified kernel fails: an explained finding hides those behind it */
	why = at_end ? warp_check_domains_reserved() ?: warp_race_load() ?: warp_check_references() : NULL;
	if (!why)
		why = warp_check_reserved(at_end);
	if (!why)
		why = warp_race_rest_lists();
	if (!why)
		why = warp_check_held();
	if (!why)
		why = warp_check_pinned();
	if (!why)
		why = warp_race_rest_state(at_end);
	return why;
}

/* at_rest: 1, every CPU is; 2, and the scenario is over; 3: some CPU spins for ever; 4: and no two do for each other */
const char *warp_race_check(unsigned int at_rest)
{
	struct task_struct *g, *p;
	const char *why = NULL;
	int cpu, other;

	if (at_rest == 3)
		return warp_race_deadlock();
	if (at_rest == 4)
		return warp_race_spinner();
	/* what is late is ordered by locks that readers here do not take: asked once it is seen */
	if (warp_race_nr_late)
		return NULL;
	memset(&warp_sums, 0, sizeof(warp_sums));
	for_each_online_cpu(cpu)
		for_each_online_cpu(other)
			if (cpu < other && cpu_rq(cpu)->curr == cpu_rq(other)->curr && warp_rq_whole(cpu) && warp_rq_whole(other))
				return WARP_WRONG("%s runs on cpu%d and cpu%d", cpu_rq(cpu)->curr->comm, cpu, other);
	for_each_process_thread(g, p) {
		if (!warp_in_box(p))
			warp_add(p);
		if (!why && warp_rq_whole(task_cpu(p)))
			why = warp_check_task(p, at_rest) ?: warp_race_task_lists(p) ?: warp_race_task_state(p, at_rest) ?:
			      warp_race_task_waits(p, at_rest);
	}
	for (unsigned int id = 0; id < warp_boot_info.max_tasks; id++) {
		warp_note_dl(id, warp_boot_info.tasks[id].task);
		if (warp_boot_info.tasks[id].task)
			warp_add(warp_boot_info.tasks[id].task);
	}
	for_each_online_cpu(cpu)
		if (!why && warp_rq_whole(cpu))
			why = warp_check_rq(cpu);
	if (!why)
		why = warp_check_pools();
	if (!why)
		why = warp_race_requests();
	if (!why)
		why = warp_race_all_state();
	if (!why)
		why = warp_race_idle_beside();
	if (!why && at_rest)
		why = warp_check_rest(at_rest == 2);
	return why;
}
