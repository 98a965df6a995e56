/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What does the user-space half of scx_userland (tools/sched_ext/scx_userland.c) do while the scheduler runs? It decides: tasks
 * come to it in one queue, it sorts them by virtual time, and sends the first eight back in another. Here a thread of the kernel
 * does that, by the same steps, in the class ext as the half's process is. Part of support.c.
 *
 * Ours: the thread's work takes no simulated time, as all kernel code; virtual times are integers of 1/16 ns, where the half has
 * doubles; of pids there are 32,768, not as many as /proc/sys/kernel/pid_max allows.
 * Could falsify: a machine so full that the half's own CPU time counts.
 */
#define SCX_USERLAND_PIDS 32768

/* struct scx_userland_enqueued_task of scx_userland.h */
struct scx_userland_message {
	s32 pid;
	u64 sum_exec_runtime, weight;
};

struct scx_userland_task {
	struct list_head entry;
	u64 sum_exec_runtime, vruntime;
};

static struct scx_userland_task *scx_userland_tasks;
static LIST_HEAD(scx_userland_queue);
static u64 scx_userland_min, scx_userland_waiting;

static void scx_userland_enqueue(const struct scx_userland_message *m)
{
	struct scx_userland_task *task = &scx_userland_tasks[m->pid], *other;

	task->vruntime += mul_u64_u64_div_u64((m->sum_exec_runtime - task->sum_exec_runtime) << 4, 100, m->weight);
	if (scx_userland_min > task->vruntime)
		task->vruntime = scx_userland_min;
	task->sum_exec_runtime = m->sum_exec_runtime;
	/* it left its queue and came again, by sched_setscheduler() say: the half puts it in twice, which breaks its list */
	if (task->entry.next)
		list_del(&task->entry);
	else
		scx_userland_waiting++;
	list_for_each_entry(other, &scx_userland_queue, entry)
		if (task->vruntime <= other->vruntime)
			break;
	list_add_tail(&task->entry, &other->entry);
}

static int scx_userland_loop(void *data)
{
	const struct scx_userland *u = data;
	struct bpf_map *enqueued = *(struct bpf_map **)u->enqueued, *dispatched = *(struct bpf_map **)u->dispatched;
	struct scx_userland_message message;

	while (!kthread_should_stop()) {
		while (!enqueued->ops->map_pop_elem(enqueued, &message)) {
			if (message.pid < 0 || message.pid >= SCX_USERLAND_PIDS || !message.weight)
				return -ESRCH;	/* the half ends, and the watchdog finds what it leaves */
			scx_userland_enqueue(&message);
		}
		*u->queued = 0;
		for (u32 i = 0; i < u->batch && !list_empty(&scx_userland_queue); i++) {
			struct scx_userland_task *first =
				list_first_entry(&scx_userland_queue, struct scx_userland_task, entry);
			s32 pid = first - scx_userland_tasks;

			scx_userland_min = first->vruntime;
			if (dispatched->ops->map_push_elem(dispatched, &pid, 0))
				break;
			list_del(&first->entry);
			first->entry.next = NULL;
			scx_userland_waiting--;
		}
		*u->scheduled = scx_userland_waiting;
		yield();
	}
	return 0;
}

/* Before the operations are registered: the scheduler has to know the thread. */
static struct task_struct *scx_userland_make(const struct scx_userland *u)
{
	struct task_struct *thread;

	scx_userland_tasks = kcalloc(SCX_USERLAND_PIDS, sizeof(*scx_userland_tasks), GFP_KERNEL);
	if (!scx_userland_tasks)
		return ERR_PTR(-ENOMEM);
	thread = kthread_create(scx_userland_loop, (void *)u, "scx_userland");
	if (!IS_ERR(thread))
		*u->pid = thread->pid;
	return thread;
}
