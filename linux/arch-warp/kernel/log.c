/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The schedule log: probes on the scheduler's own tracepoints, each appending one fixed-size record.
 * Also what the kernel says about a task when it is gone.
 */
#include <linux/init.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>
#include "versions.h"
#include "warp.h"

static __always_inline struct warp_record *warp_record(void)
{
	if (unlikely(warp_abi.log_next == warp_abi.log_end))
		warp_call(WARP_CALL_LOG_FULL);
	return warp_abi.log_next++;
}

static __always_inline void warp_log(u8 kind, u8 flags, u32 task, u32 other, u32 arg, u64 value)
{
	struct warp_record *r;

	if (!warp_abi.log_on)
		return;
	r = warp_record();
	r->time_ns = warp_now_ns - warp_abi.log_epoch_ns;
	r->kind = kind;
	r->flags = flags;
	r->cpu = warp_this->id;
	r->task = task;
	r->other = other;
	r->arg = arg;
	r->value = value;
}

static void warp_fill_stats(struct warp_task *box, struct task_struct *p)
{
	box->cpu_ns = p->se.sum_exec_runtime;
	box->nvcsw = p->nvcsw;
	box->nivcsw = p->nivcsw;
	box->migrations = p->se.nr_migrations;
#ifdef CONFIG_SCHED_INFO
	box->wait_ns = p->sched_info.run_delay;
#endif
}

void warp_task_stats(struct warp_task *box)
{
	if (box->task)
		warp_fill_stats(box, box->task);
}

static void probe_switch(void *unused, WARP_SWITCH_ARGS)
{
	WARP_SWITCH_STATE
	u8 why;

	if (preempt || !prev_state)
		why = prev->thread.yielding ? WARP_PREV_YIELDED : WARP_PREV_PREEMPTED;
	else if (prev_state & TASK_DEAD)
		why = WARP_PREV_DEAD;
	else if (prev_state & TASK_INTERRUPTIBLE)
		why = WARP_PREV_SLEEPING;
	else
		why = WARP_PREV_DISK;
	/* the last that is seen of a dead task: its account is closed, its structure still there */
	if (why == WARP_PREV_DEAD && prev->thread.box) {
		warp_fill_stats(prev->thread.box, prev);
		prev->thread.box->task = NULL;
	}
	if (unlikely(warp_abi.watch_on))
		warp_watch(WARP_WATCH_SWITCH, prev, next, 0);
	/* before its wait begins */
	if (why == WARP_PREV_PREEMPTED || why == WARP_PREV_YIELDED)
		warp_hold_check(prev);
#ifdef CONFIG_WARP_RACE
	prev->thread.unpinned = 0;
#endif
	warp_log(WARP_LOG_SWITCH, why, warp_task_id(prev), warp_task_id(next), prev_state, 0);
}

static void probe_waking(void *unused, struct task_struct *p)
{
	if (unlikely(warp_abi.watch_on))
		warp_watch(WARP_WATCH_WAKING, p, NULL, 0);
	warp_log(WARP_LOG_WAKING, hardirq_count() || in_serving_softirq(), warp_task_id(p), warp_task_id(current), 0, 0);
}

static void probe_wakeup(void *unused, struct task_struct *p)
{
	warp_hold_check(p);
	warp_log(WARP_LOG_WAKEUP, 0, warp_task_id(p), 0, task_cpu(p), 0);
}

static void probe_new(void *unused, struct task_struct *p)
{
	warp_hold_check(p);
	warp_log(WARP_LOG_NEW, 0, warp_task_id(p), 0, task_cpu(p), 0);
}

static void probe_migrate(void *unused, struct task_struct *p, int to)
{
	if (unlikely(warp_abi.watch_on))
		warp_watch(WARP_WATCH_MIGRATE, p, NULL, to);
	warp_log(WARP_LOG_MIGRATE, 0, warp_task_id(p), to, task_cpu(p), 0);
	warp_hold_moved(p, to);
}

static void probe_fork(void *unused, struct task_struct *parent, struct task_struct *child)
{
	warp_log(WARP_LOG_FORK, 0, warp_task_id(parent), warp_task_id(child), 0, 0);
}

static void probe_exit(void *unused, WARP_EXIT_ARGS)
{
	warp_log(WARP_LOG_EXIT, 0, warp_task_id(p), 0, 0, 0);
	if (!p->thread.id) {
		warp_this->task = warp_task_id(p);
		warp_this->call_text = p->comm;
		warp_this->call_len = strlen(p->comm);
		warp_call(WARP_CALL_THREAD);
	}
}

void warp_log_cpu(bool up)
{
	warp_log(WARP_LOG_NOTE, 0, 0, 0, WARP_NOTE_CPU, up);
}

void warp_log_params(struct task_struct *p, bool affinity)
{
	warp_log(WARP_LOG_PARAMS, affinity, warp_task_id(p), 0, 0,
		 p->policy | (task_nice(p) & 0xff) << 8 | (u64)p->rt_priority << 16);
}

void warp_log_note(struct task_struct *p, u32 note, u8 flags, u64 value)
{
	warp_log(WARP_LOG_NOTE, flags, warp_task_id(p), WARP_TASK_IDLE, note, value);
}

static int __init warp_log_init(void)
{
	int failed = 0;

	failed |= register_trace_sched_switch(probe_switch, NULL);
	failed |= register_trace_sched_waking(probe_waking, NULL);
	failed |= register_trace_sched_wakeup(probe_wakeup, NULL);
	failed |= register_trace_sched_wakeup_new(probe_new, NULL);
	failed |= register_trace_sched_migrate_task(probe_migrate, NULL);
	failed |= register_trace_sched_process_fork(probe_fork, NULL);
	failed |= register_trace_sched_process_exit(probe_exit, NULL);
	BUG_ON(failed);
	return 0;
}
early_initcall(warp_log_init);

/* Stands for ftrace's functions (warp.lds.S); unreachable. */
void warp_no_ftrace(void);
void warp_no_ftrace(void) { BUG(); }

/* Kernel threads (and pid 1) that are alive, in order of pid. Called between resumes: nothing runs. */
unsigned int warp_threads(struct warp_thread *out, unsigned int max)
{
	struct task_struct *p;
	unsigned int n = 0;

	for_each_process(p) {
		if (p->thread.id)
			continue;
		if (n < max) {
			out[n].id = warp_task_id(p);
			out[n].pid = p->pid;
			out[n].cpu_ns = p->se.sum_exec_runtime;
			memcpy(out[n].comm, p->comm, sizeof(out[n].comm));
		}
		n++;
	}
	return n;
}
