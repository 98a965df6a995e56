/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Operations of a task in process context, each through the function the corresponding system call uses.
 */
#include <linux/cpumask.h>
#include <linux/ctype.h>
#include <linux/hrtimer.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/syscalls.h>
#include <linux/wait.h>
#include <uapi/linux/sched/types.h>
#include "versions.h"
#include "warp.h"

static struct warp_task *warp_box(u64 target)
{
	if (target == WARP_TASK_SELF)
		return current->thread.box;
	if (target == WARP_TASK_CONTROL)
		return warp_abi.control;
	return target < warp_boot_info.max_tasks ? &warp_boot_info.tasks[target] : NULL;
}

static struct task_struct *warp_target(u64 target)
{
	struct warp_task *box = warp_box(target);

	return box ? box->task : NULL;
}

/*
 * Block as the kernel's own sleeps do. With a time: what clock_nanosleep(TIMER_ABSTIME) does, without timer slack.
 * The simulator's clock and CLOCK_MONOTONIC advance alike; they differ by the moment at which timekeeping started.
 */
static long warp_block(u64 wake_ns, unsigned int flags)
{
	ktime_t expires = ns_to_ktime(wake_ns - warp_now_ns) + ktime_get();
	bool waits = warp_race_waits();
	int before = waits ? io_schedule_prepare() : 0;

	warp_race_block();
	while (warp_may_sleep(waits || flags & WARP_F_UNINTERRUPTIBLE ? TASK_UNINTERRUPTIBLE : TASK_INTERRUPTIBLE)) {
		if (wake_ns == ~0ULL)
			schedule();
		else if (!schedule_hrtimeout_range(&expires, 0, HRTIMER_MODE_ABS))
			break;
		/* a wakeup that was under way when the last block ended early may end this one: look again */
		if (!IS_ENABLED(CONFIG_WARP_RACE))
			break;
	}
	__set_current_state(TASK_RUNNING);
	if (waits)
		io_schedule_finish(before);
	warp_forget_wakeup(current);
	return 0;
}

/* A sync wakeup is one from a wait queue: the waker says that it is about to block. */
static long warp_wake_now(struct task_struct *p, unsigned int flags)
{
	if (flags & WARP_F_SYNC) {
		DECLARE_WAIT_QUEUE_HEAD_ONSTACK(queue);
		wait_queue_entry_t entry = { .private = p, .func = default_wake_function };
		unsigned int before = READ_ONCE(p->on_rq);

		__add_wait_queue(&queue, &entry);
		__wake_up_sync(&queue, TASK_NORMAL);
		return !before && READ_ONCE(p->on_rq);
	}
	return wake_up_process(p);
}

static long warp_wake(struct task_struct *p, unsigned int flags)
{
	long woken;

	if (!p)
		return -ESRCH;
	if (!IS_ENABLED(CONFIG_WARP_RACE))
		return warp_wake_now(p, flags);
	/* whoever looked between the word and the wakeup would take it for lost: no preemption there */
	preempt_disable();
	warp_ask_wakeup(p);
	woken = warp_wake_now(p, flags);
	preempt_enable();
	return woken;
}

/* fork(): a process of its own, in the same cgroup and with the same scheduling parameters as its parent. */
static long warp_fork(u64 child, const char *name)
{
	struct kernel_clone_args args = { .flags = CLONE_FS | CLONE_FILES, .exit_signal = SIGCHLD };
	struct warp_task *box;
	char comm[TASK_COMM_LEN];
	struct task_struct *task;
	pid_t pid;

	if (child >= warp_boot_info.max_tasks)
		return -EINVAL;
	box = &warp_boot_info.tasks[child];
	current->thread.child_id = child + 1;
	pid = kernel_clone(&args);
	if (pid < 0)
		return pid;
	/* nothing else has run since: kernel_clone() does not block. With the flavour race others may have, the child too */
	rcu_read_lock();
	task = find_task_by_pid_ns(pid, &init_pid_ns);
	rcu_read_unlock();
	box->pid = pid;
	if (IS_ENABLED(CONFIG_WARP_RACE) && (!task || task->flags & PF_EXITING))
		return pid;
	box->task = task;
	if (name) {
		strscpy_pad(comm, name, sizeof(comm));
		set_task_comm(box->task, comm);
	}
	return pid;
}

static long warp_set_sched(struct task_struct *p, const struct warp_op *op)
{
	struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = (u32)op->arg[1],
		.sched_runtime = op->arg[2],
		.sched_deadline = op->arg[3],
		.sched_period = op->arg[4],
	};
	int param = (int)(op->arg[1] >> 32);

	if (attr.sched_policy == SCHED_FIFO || attr.sched_policy == SCHED_RR)
		attr.sched_priority = param;
	else
		attr.sched_nice = param;
	if (p->thread.id && (attr.sched_policy == SCHED_DEADLINE || attr.sched_priority))
		warp_hold_watch();
	if (op->flags & WARP_F_RESET_ON_FORK)
		attr.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
	return sched_setattr(p, &attr);
}

static long warp_set_affinity(struct task_struct *p, const u64 *words, u64 nr_words)
{
	cpumask_var_t mask;
	long result;

	if (!alloc_cpumask_var(&mask, GFP_KERNEL))
		return -ENOMEM;
	cpumask_clear(mask);
	for (unsigned int cpu = 0; cpu < nr_cpu_ids && cpu / 64 < nr_words; cpu++)
		if (words[cpu / 64] >> (cpu % 64) & 1)
			cpumask_set_cpu(cpu, mask);
#ifdef CONFIG_WARP_RACE
	p->thread.asking_both |= !!p->thread.asking++;
#endif
	result = sched_setaffinity(p->pid, mask);
#ifdef CONFIG_WARP_RACE
	if (p->thread.asking_both)
		p->thread.asked = 0;
	else if (!result)
		p->thread.asked = cpumask_bits(mask)[0];
	if (!--p->thread.asking)
		p->thread.asking_both = 0;
#endif
	if (!result) {
		warp_log_params(p, true);
		warp_log_allowed(p, mask);
	}
	free_cpumask_var(mask);
	return result;
}

/*
 * cpuN/hotplug/fail takes the number of a step of CPU hotplug, which fails once. Numbers differ from kernel to kernel, so
 * here it may be the step's name in hotplug/states, whose lines are "<number>: <name>".
 */
static long warp_fail_step(const char *path, const char *name, unsigned long len)
{
	char *states = kzalloc(2 * PAGE_SIZE, GFP_KERNEL), *line, *rest = states, number[16];
	long result = -ENOENT;

	if (!states)
		return -ENOMEM;
	while (len && name[len - 1] == '\n')
		len--;
	if (warp_file_read("/sys/devices/system/cpu/hotplug/states", states, 2 * PAGE_SIZE - 1) > 0) {
		while ((line = strsep(&rest, "\n"))) {
			char *colon = strchr(line, ':');

			if (!colon || strlen(colon) != len + 2 || memcmp(colon + 2, name, len))
				continue;
			*colon = 0;
			result = warp_file_write(path, number, scnprintf(number, sizeof(number), "%s\n", skip_spaces(line)));
			break;
		}
	}
	kfree(states);
	return result;
}

/* A limit of CPU time can hold tasks back; a cpuset, or a CPU that goes, changes where tasks may run. */
static long warp_write(const char *path, const void *data, unsigned long len)
{
	long result;

	if (strstr(path, "/cpu.max"))
		warp_hold_watch();
	if (strstr(path, "/hotplug/fail") && len && !isdigit(*(const char *)data))
		return warp_fail_step(path, data, len);
	result = warp_file_write(path, data, len);
	warp_log_allowed_all();
	return result;
}

static long warp_attach(struct task_struct *p, const char *path)
{
	char pid[16];
	long result = warp_file_write(path, pid, scnprintf(pid, sizeof(pid), "%d", p->pid));

	warp_log_allowed(p, NULL);
	warp_hold_check(p);
	return result;
}

static long long warp_one(struct warp_op *o)
{
	unsigned long long *arg = o->arg;
	struct task_struct *p;
	long result;

	switch (o->op) {
	case WARP_OP_BLOCK:
		return warp_block(arg[0], o->flags);
	case WARP_OP_WAKE:
		return warp_wake(warp_target(arg[0]), o->flags);
	case WARP_OP_FORK:
		return warp_fork(arg[0], (const char *)arg[1]);
	case WARP_OP_YIELD:
		current->thread.yielding = 1;
		result = sys_sched_yield();
		current->thread.yielding = 0;
		return result;
	case WARP_OP_RETURN:
		return 0;
	case WARP_OP_EXEC:
		sched_exec();
		return 0;
	case WARP_OP_EXIT:
		warp_race_exit();
		do_exit((arg[0] & 0xff) << 8);
	case WARP_OP_WRITE:
		return warp_write((const char *)arg[0], (const void *)arg[1], arg[2]);
	case WARP_OP_READ:
		return warp_file_read((const char *)arg[0], (void *)arg[1], arg[2]);
	case WARP_OP_MKDIR:
		return warp_file_mkdir((const char *)arg[0], arg[1]);
	case WARP_OP_RMDIR:
		return warp_file_rmdir((const char *)arg[0]);
	case WARP_OP_MOUNT:
		return warp_file_mount((const char *)arg[0], (const char *)arg[1], (const char *)arg[2]);
	case WARP_OP_LIST:
		return warp_file_list((const char *)arg[0], (char *)arg[1], arg[2]);
	case WARP_OP_SETSID:
		return ksys_setsid();
	case WARP_OP_CALL:
		return ((long (*)(void *))arg[0])((void *)arg[1]);
	}
	/* the rest has another task as its object */
	p = warp_target(arg[0]);
	if (!p)
		return -ESRCH;
	switch (o->op) {
	case WARP_OP_NICE:
		set_user_nice(p, (int)arg[1]);
		warp_log_params(p, false);
		return 0;
	case WARP_OP_SCHED:
		result = warp_set_sched(p, o);
		if (!result) {
			warp_log_params(p, false);
			warp_hold_check(p);
		}
		return result;
	case WARP_OP_AFFINITY:
		return warp_set_affinity(p, (const u64 *)arg[1], arg[2]);
	case WARP_OP_ATTACH:
		return warp_attach(p, (const char *)arg[1]);
	}
	return -ENOSYS;
}

static long long warp_operate(struct warp_task *box)
{
	struct warp_op one = { .op = box->op, .flags = box->flags };
	struct warp_op *batch;
	u64 failures = 0, n;

	memcpy(one.arg, box->arg, sizeof(one.arg));
	box->op = WARP_OP_NONE;
	if (likely(one.op != WARP_OP_BATCH))
		return warp_one(&one);
	batch = (struct warp_op *)one.arg[0];
	n = one.arg[1];
	for (u64 i = 0; i < n; i++) {
		batch[i].result = warp_one(&batch[i]);
		failures += batch[i].result < 0;
	}
	return failures;
}

#ifdef CONFIG_WARP_RACE
unsigned int warp_race_operations;
#endif

long long warp_operation(struct warp_task *box)
{
#ifdef CONFIG_WARP_RACE
	/* who blocks or ends has no other task's reference, and may be long */
	bool counts = box->op != WARP_OP_BLOCK && box->op != WARP_OP_EXIT;
	long long result;

	warp_race_operations += counts;
	result = warp_operate(box);
	warp_race_operations -= counts;
	return result;
#else
	return warp_operate(box);
#endif
}
