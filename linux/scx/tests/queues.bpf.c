/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A toy whose policy is known: a queue per CPU, round robin on each, and balancing put together from parts by settings.
 * `schedlab harmony --toys` asks it as it asks the native toys (crates/harmony/src/toy.rs), to check verdicts on
 * sched_ext schedulers.
 *
 * Each CPU has a timer of its own. What it moves goes to a CPU's local queue, so that the kernel carries the task there
 * at that instant and the log has it as a migration by the timer's CPU.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

enum amount { ONE, HALF_OF_QUEUE, PAIRWISE, POLY, FIXED };
enum mover { TARGET, SOURCE, THIRD };
enum place { PREVIOUS, IDLE_PREVIOUS_FIRST, WAKER, SHORTEST, RANDOM };

#define CPUS_MAX 64

const volatile u32 nr_cpu_ids = 1;
/* time slice of each queue */
const volatile u64 slice_ns = 5000000;
/* each CPU's timer looks so often; 0: never */
const volatile u64 period_ns;
/* whether it looks while its CPU is busy, and while it is idle */
const volatile bool busy_looks = true, idle_looks;
/* a CPU that falls idle takes one task at once */
const volatile bool newidle;
const volatile u32 amount = ONE, number = 3, cap, threshold = 2, mover = TARGET, wake = PREVIOUS, fork = PREVIOUS;

struct timer_of_cpu {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct timer_of_cpu);
} timers SEC(".maps");

/* a task of the workload runs there */
u32 runs[CPUS_MAX];
bool has_timer[CPUS_MAX];

/* tasks on a CPU, the running one included */
static u32 length(u32 cpu)
{
	return scx_bpf_dsq_nr_queued(cpu) + scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) + runs[cpu];
}

/*
 * a CPU with the longest or the shortest queue, but not `but`; of equals the first from `from` on. On `more` there is one
 * task that does not count elsewhere.
 */
static u32 extreme(u32 from, bool is_longest, u32 but, u32 more)
{
	u32 found = CPUS_MAX, best = 0, i;

	bpf_for(i, 0, nr_cpu_ids) {
		u32 cpu = (from + i) % nr_cpu_ids, of = length(cpu) + (cpu == more);

		if (cpu == but)
			continue;
		if (found == CPUS_MAX || (is_longest ? of > best : of < best)) {
			found = cpu;
			best = of;
		}
	}
	return found;
}

static u32 how_many(u32 source, u32 target)
{
	u32 half = (source - target) / 2, all = 0, above, below, n, i;

	switch (amount) {
	case HALF_OF_QUEUE:
		n = source / 2;
		break;
	case PAIRWISE:
		n = half;
		break;
	case POLY:
		bpf_for(i, 0, nr_cpu_ids)
			all += length(i);
		above = source * nr_cpu_ids > all ? source * nr_cpu_ids - all : 0;
		below = all > target * nr_cpu_ids ? all - target * nr_cpu_ids : 0;
		n = (above < below ? above : below) / nr_cpu_ids;
		break;
	case FIXED:
		n = number;
		break;
	default:
		n = 1;
	}
	if (n < 1)
		n = 1;
	return cap && n > cap ? cap : n;
}

/* a check of this CPU; `most`: no more tasks than these, 0: any */
static bool look(u32 cpu, u32 most)
{
	u32 drawn = bpf_get_prandom_u32() % nr_cpu_ids, from, to, n, source, target;
	struct task_struct *p;
	u64 there;

	from = mover == SOURCE ? cpu : extreme(drawn, true, mover == TARGET ? cpu : CPUS_MAX, CPUS_MAX);
	to = mover == TARGET ? cpu : extreme(drawn, false, mover == SOURCE ? cpu : CPUS_MAX, CPUS_MAX);
	if (from >= CPUS_MAX || to >= CPUS_MAX || from == to)
		return false;
	source = length(from);
	target = length(to);
	if (source < target + threshold)
		return false;
	n = how_many(source, target);
	if (most && n > most)
		n = most;
	there = to == cpu && most ? SCX_DSQ_LOCAL : SCX_DSQ_LOCAL_ON | to;
	target = 0;
	bpf_for_each(scx_dsq, p, from, SCX_DSQ_ITER_REV) {
		if (target == n)
			break;
		if (!bpf_cpumask_test_cpu(to, p->cpus_ptr) || p->migration_disabled)
			continue;
		if (__COMPAT_scx_bpf_dispatch_from_dsq(BPF_FOR_EACH_ITER, p, there, 0))
			target++;
	}
	return target > 0;
}

static int timer_ends(void *map, int *key, struct bpf_timer *timer)
{
	u32 cpu = bpf_get_smp_processor_id();

	bpf_rcu_read_lock();
	if (cpu < CPUS_MAX && (runs[cpu] ? busy_looks : idle_looks))
		look(cpu, 0);
	bpf_rcu_read_unlock();
	bpf_timer_start(timer, period_ns, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/* each CPU starts its own timer: it stays there */
static void start_timer(u32 cpu)
{
	struct timer_of_cpu *of;

	if (!period_ns || cpu >= CPUS_MAX || has_timer[cpu])
		return;
	of = bpf_map_lookup_elem(&timers, &cpu);
	if (!of)
		return;
	has_timer[cpu] = true;
	bpf_timer_init(&of->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&of->timer, timer_ends);
	bpf_timer_start(&of->timer, period_ns, BPF_F_TIMER_CPU_PIN);
}

static s32 place(struct task_struct *p, s32 prev_cpu, u32 how)
{
	s32 cpu = prev_cpu, here = bpf_get_smp_processor_id();
	/* a waker of another class is a task on this CPU, too */
	bool is_stranger = !runs[here % CPUS_MAX] && bpf_get_current_task_btf()->pid;

	switch (how) {
	case IDLE_PREVIOUS_FIRST:
		if (scx_bpf_test_and_clear_cpu_idle(prev_cpu))
			return prev_cpu;
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		break;
	case WAKER:
		cpu = here;
		break;
	case SHORTEST:
		cpu = extreme(prev_cpu, false, CPUS_MAX, is_stranger ? here : CPUS_MAX);
		break;
	case RANDOM:
		cpu = bpf_get_prandom_u32() % nr_cpu_ids;
		break;
	}
	return cpu >= 0 && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? cpu : prev_cpu;
}

s32 BPF_STRUCT_OPS(queues_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return place(p, prev_cpu, wake_flags & SCX_WAKE_FORK ? fork : wake);
}

void BPF_STRUCT_OPS(queues_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (p->flags & PF_KTHREAD) {
		/* the kernel's own work waits for one slice at most */
		scx_bpf_dispatch(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
		return;
	}
	scx_bpf_dispatch(p, cpu, slice_ns, enq_flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

void BPF_STRUCT_OPS(queues_dispatch, s32 cpu, struct task_struct *prev)
{
	start_timer(cpu);
	if (scx_bpf_consume(cpu))
		return;
	if (newidle && mover == TARGET && !(prev && (prev->scx.flags & SCX_TASK_QUEUED)))
		look(cpu, 1);
}

void BPF_STRUCT_OPS(queues_running, struct task_struct *p)
{
	u32 cpu = scx_bpf_task_cpu(p);

	if (cpu < CPUS_MAX)
		runs[cpu] = !(p->flags & PF_KTHREAD);
}

void BPF_STRUCT_OPS(queues_stopping, struct task_struct *p, bool runnable)
{
	u32 cpu = scx_bpf_task_cpu(p);

	if (cpu < CPUS_MAX)
		runs[cpu] = 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(queues_init)
{
	u32 cpu;
	s32 ret;

	if (nr_cpu_ids > CPUS_MAX)
		return -EINVAL;
	bpf_for(cpu, 0, nr_cpu_ids) {
		ret = scx_bpf_create_dsq(cpu, -1);
		if (ret)
			return ret;
	}
	return 0;
}

SCX_OPS_DEFINE(queues_ops,
	       .select_cpu = (void *)queues_select_cpu,
	       .enqueue = (void *)queues_enqueue,
	       .dispatch = (void *)queues_dispatch,
	       .running = (void *)queues_running,
	       .stopping = (void *)queues_stopping,
	       .init = (void *)queues_init,
	       .timeout_ms = 30000,
	       .name = "queues");
