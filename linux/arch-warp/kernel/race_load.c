/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race: a fair queue's utilisation is the sum of what its tasks and groups have, sleepers included (pelt.c). Who
 * comes to a queue brings its utilisation with it, and who leaves takes it away:
 *
 *	queue	util 700  =  task a 400 + sleeper b 100 + group g 200
 *
 * What stays behind, or is taken away twice, fades away by half in 32 ms; nothing else tells of it. Asked at the
 * end of a scenario. Entities were last brought up to date at different times, so copies of them are taken to the time of
 * the queue's own, by the kernel's own function. Each was read in 5.10, 6.1, 6.12 and 7.2 (race_read.h).
 *
 * A task that goes to sleep leaves its queue (dequeue_entity()), and is its current one until put_prev_entity(). In between
 * its CPU looks for work elsewhere (sched_balance_newidle()), which brings the queue's average up to date as one that is
 * used, and the task's no longer. On hardware these are microseconds. A CPU that stands there for 40 ms gives its
 * queue 576 of 1024 that nobody has. So a CPU that has stood there is not asked. (With an edit of
 * pelt.c that asks for curr->on_rq, too, 4,000 schedules each of hotplug-rt and hotplug-dl-held do not show it.)
 */
#include <linux/cpuset.h>
#include <linux/hardirq.h>
#include <linux/mmu_context.h>
#include <linux/sched/clock.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include "../../../kernel/sched/sched.h"
#include "../../../kernel/sched/pelt.h"
#include "race_read.h"
#include "warp.h"

#if WARP_WAS_READ && defined(CONFIG_FAIR_GROUP_SCHED)

static char warp_load_why[256];
#define WARP_WRONG(...) \
	({ scnprintf(warp_load_why, sizeof(warp_load_why), __VA_ARGS__); (const char *)warp_load_why; })

static struct warp_load {
	struct cfs_rq *cfs_rq;
	unsigned int nr;
	long util;
} warp_loads[256];
static unsigned long warp_migrations;	/* of all tasks so far */

/*
 * What may differ by rounding. Who goes takes a little less than it had brought, and update_cfs_rq_load_avg() rounds the
 * rest up, by a unit each time. So a queue that tasks go through in no time has more: 47 of 1024 where nobody is left.
 */
static long warp_rounds(struct warp_load *load)
{
	return 64 + 4 * load->nr + load->util / 8 + (long)min(warp_migrations / 2, 100UL);
}

/* When a CPU began to stand between the two, and CPUs that have stood there while time passed. */
static unsigned long long warp_between_since[NR_CPUS];
static bool warp_stood_between[NR_CPUS];

static bool warp_is_between(int cpu)
{
	struct sched_entity *se = &cpu_rq(cpu)->curr->se;

	while (se && se->on_rq)
		se = WARP_PARENT(se);
	return se && se->cfs_rq && se->cfs_rq->curr == se;
}

void warp_race_stands(bool goes_on)
{
	int cpu = raw_smp_processor_id();

	if (!goes_on)
		warp_between_since[cpu] = warp_is_between(cpu) ? sched_clock() : 0;
	else if (warp_between_since[cpu] && sched_clock() != warp_between_since[cpu])
		warp_stood_between[cpu] = true;
}

static void warp_load_add(struct sched_entity *se)
{
	static struct sched_entity copy;
	static struct cfs_rq queue;
	struct cfs_rq *cfs_rq = se->cfs_rq;
	struct warp_load *load = warp_loads;

	while (load->cfs_rq && load->cfs_rq != cfs_rq)
		if (++load == warp_loads + ARRAY_SIZE(warp_loads))
			return;
	copy = *se;
	queue.curr = cfs_rq->curr == se ? &copy : NULL;
	__update_load_avg_se(cfs_rq->avg.last_update_time, &queue, &copy);
	load->cfs_rq = cfs_rq;
	load->nr++;
	load->util += copy.avg.util_avg;
}

static void warp_load_task(struct task_struct *p)
{
	warp_migrations += p->se.nr_migrations;
	if (p->sched_class == &fair_sched_class && p->se.avg.last_update_time && WARP_STATE(p) != TASK_DEAD &&
	    cpu_online(task_cpu(p)))
		warp_load_add(&p->se);
}

/* A queue that is held back has a clock of its own, and the unmodified kernel's sums differ there: not asked. */
static bool warp_is_limited(struct task_group *tg)
{
#ifdef CONFIG_CFS_BANDWIDTH
	return tg->cfs_bandwidth.quota != RUNTIME_INF || tg->cfs_bandwidth.nr_periods;
#else
	return false;
#endif
}

static const char *warp_load_differs(struct warp_load *load)
{
	struct cfs_rq *cfs_rq = load->cfs_rq;
	long util = (long)cfs_rq->avg.util_avg - (long)cfs_rq->removed.util_avg;
	int cpu = cpu_of(rq_of(cfs_rq));

	if (abs(util - load->util) > warp_rounds(load) && !warp_stood_between[cpu])
		return WARP_WRONG("cpu%d: a fair queue has %s utilisation than its tasks and groups", cpu,
				  util > load->util ? "more" : "less");
	return NULL;
}

static const char *warp_loads_agree(void)
{
	const char *why = NULL;
	struct task_struct *g, *p;
	struct task_group *tg;
	int cpu;

	memset(warp_loads, 0, sizeof(warp_loads));
	warp_migrations = 0;
	for_each_process_thread(g, p)
		if (!warp_in_box(p))
			warp_load_task(p);
	for (unsigned int id = 0; id < warp_boot_info.max_tasks; id++)
		if (warp_boot_info.tasks[id].task)
			warp_load_task(warp_boot_info.tasks[id].task);
	list_for_each_entry_rcu(tg, &task_groups, list) {
		if (warp_is_limited(tg))
			return NULL;
		for_each_online_cpu(cpu)
			if (tg != &root_task_group && WARP_FAIR_QUEUE(tg, cpu))
				warp_load_add(WARP_GROUP_ENTITY(tg, cpu));
	}
	for (struct warp_load *load = warp_loads; load->cfs_rq && load < warp_loads + ARRAY_SIZE(warp_loads) && !why; load++)
		why = warp_load_differs(load);
	return why;
}

/*
 * The simulator asks, on no CPU. With lockdep the kernel's function asks at its trace point which CPU it is on, and whether
 * RCU watches that one, which it does not while the CPU is idle. So it is CPU 0, and RCU watches it.
 */
const char *warp_race_load(void)
{
	struct warp_cpu *simulator = warp_this;
	const char *why;
	bool unwatched;

	warp_this = &warp_cpus[0];
	unwatched = IS_ENABLED(CONFIG_LOCKDEP) && !rcu_is_watching();
	if (unwatched)
		WARP_RCU_WATCH();
	why = warp_loads_agree();
	if (unwatched)
		WARP_RCU_UNWATCH();
	warp_this = simulator;
	return why;
}
#else
const char *warp_race_load(void) { return NULL; }
void warp_race_stands(bool goes_on) { }
#endif
