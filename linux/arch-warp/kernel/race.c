/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race: what the calls do that gcc's -fsanitize=thread puts before the accesses of kernel/sched and its
 * neighbours (configs/flavours/race.config).
 *
 * Each CPU counts its points. When it comes to the one that the simulator has named (stop_at), it goes to the simulator
 * as in cpu_relax(), and the access is made when it is resumed; others may have run meanwhile, and time may have
 * passed, as if a hypervisor had taken the CPU away. An interrupt that has arrived is taken there, if they are on.
 *
 * warp_race_check() says what does not hold among the queues whose locks are free.
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

/* Mirrored in crates/linux/src/race.rs. */
struct warp_race_cpu {
	unsigned long long at;		/* kernel: points so far */
	unsigned long long stop_at;	/* simulator: the point to stop before; ~0: none */
};
struct warp_race_event {
	unsigned long long address;
	unsigned long long code;
	unsigned int at;		/* the CPU's points so far */
	unsigned short cpu;
	unsigned char kind;		/* WARP_POINT_*, WARP_SAYS_* */
	unsigned char size;		/* 0xff: longer */
	unsigned long long value;	/* before the access, up to 8 bytes */
};
struct warp_race {
	unsigned int version, sizeof_race, sizeof_cpu, sizeof_event;
	unsigned int on;		/* simulator: points count */
	unsigned int reserved;
	struct warp_race_cpu *cpus;
	struct warp_race_event *trace;	/* simulator: NULL: none */
	unsigned long long trace_max;
	unsigned long long trace_len;	/* kernel; beyond trace_max, events are lost */
	const char *(*check)(unsigned int at_rest);
};

static struct warp_race_cpu warp_race_cpus[NR_CPUS];
static struct warp_race warp_race_state = {
	.version = 1,
	.sizeof_race = sizeof(struct warp_race),
	.sizeof_cpu = sizeof(struct warp_race_cpu),
	.sizeof_event = sizeof(struct warp_race_event),
	.cpus = warp_race_cpus,
};

static unsigned long long warp_race_value(const volatile void *address, unsigned int size)
{
	switch (size) {
	case 1: return *(const volatile u8 *)address;
	case 2: return *(const volatile u16 *)address;
	case 4: return *(const volatile u32 *)address;
	case 8: return *(const volatile u64 *)address;
	}
	return 0;
}

static noinline void warp_race_note(unsigned int what, const volatile void *address, unsigned long code)
{
	struct warp_race *race = &warp_race_state;
	struct warp_race_event *event;

	if (race->trace_len++ >= race->trace_max)
		return;
	event = &race->trace[race->trace_len - 1];
	event->address = (unsigned long)address;
	event->code = code - (unsigned long)warp_abi.text_start;
	event->at = warp_race_cpus[warp_this->id].at;
	event->cpu = warp_this->id;
	event->kind = what;
	event->size = what >> 8 > 0xff ? 0xff : what >> 8;
	event->value = address ? warp_race_value(address, what >> 8) : 0;
}

/* What is this CPU's own, or on the stack that it runs on, nobody else sees. */
static __always_inline bool warp_race_private(const volatile void *address)
{
	unsigned long a = (unsigned long)address, sp = (unsigned long)__builtin_frame_address(0);

	return ((a ^ sp) & ~(THREAD_SIZE - 1UL)) == 0 ||
	       a - (unsigned long)warp_cpus < sizeof(struct warp_cpu) * NR_CPUS;
}

static __always_inline void warp_race_at(unsigned int what, const volatile void *address, unsigned long code)
{
	struct warp_race *race = &warp_race_state;
	struct warp_race_cpu *c;

	if (likely(!race->on) || warp_race_private(address))
		return;
	c = &warp_race_cpus[warp_this->id];
	c->at++;
	if (likely(c->at < c->stop_at)) {
		if (unlikely(race->trace))
			warp_race_note(what, address, code);
		return;
	}
	c->stop_at = ~0ULL;
	warp_this->point = what;
	warp_this->point_address = address;
	warp_this->point_code = (const void *)code;
	warp_leave(WARP_POINT);
	if (warp_this->irq_on && warp_this->pending)
		warp_interrupt_kernel();
	if (unlikely(race->trace))
		warp_race_note(what, address, code);
}

void warp_race_point(unsigned int what, const volatile void *address)
{
	warp_race_at(what, address, (unsigned long)__builtin_return_address(0));
}

void warp_race_says(unsigned int what, const volatile void *address)
{
	if (unlikely(warp_race_state.on && warp_race_state.trace))
		warp_race_note(what, address, (unsigned long)__builtin_return_address(0));
}

#define WARP_TSAN(name, kind, size)						\
void __tsan_##name(void *address);						\
void __tsan_##name(void *address)						\
{										\
	warp_race_at((kind) | (size) << 8, address, (unsigned long)__builtin_return_address(0)); \
}
#define WARP_TSAN_SIZES(name, kind)						\
	WARP_TSAN(name##1, kind, 1) WARP_TSAN(name##2, kind, 2) WARP_TSAN(name##4, kind, 4)	\
	WARP_TSAN(name##8, kind, 8) WARP_TSAN(name##16, kind, 16)
WARP_TSAN_SIZES(read, WARP_POINT_READ)
WARP_TSAN_SIZES(write, WARP_POINT_WRITE)
WARP_TSAN_SIZES(unaligned_read, WARP_POINT_READ)
WARP_TSAN_SIZES(unaligned_write, WARP_POINT_WRITE)
WARP_TSAN_SIZES(volatile_read, WARP_POINT_MARKED_READ)
WARP_TSAN_SIZES(volatile_write, WARP_POINT_MARKED_WRITE)
WARP_TSAN_SIZES(unaligned_volatile_read, WARP_POINT_MARKED_READ)
WARP_TSAN_SIZES(unaligned_volatile_write, WARP_POINT_MARKED_WRITE)

void __tsan_read_range(void *address, long size);
void __tsan_read_range(void *address, long size)
{
	warp_race_at(WARP_POINT_READ | (unsigned int)size << 8, address, (unsigned long)__builtin_return_address(0));
}
void __tsan_write_range(void *address, long size);
void __tsan_write_range(void *address, long size)
{
	warp_race_at(WARP_POINT_WRITE | (unsigned int)size << 8, address, (unsigned long)__builtin_return_address(0));
}
void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc) { }
void __tsan_func_exit(void);
void __tsan_func_exit(void) { }
void __tsan_init(void);
void __tsan_init(void) { }

/* ---- per-CPU variables: one step ---- */

#define WARP_PCP_OF(p, T) (*(volatile T *)((unsigned long)(p) + warp_this->pcpu_off))
#define WARP_PCP(name, args, expr)						\
unsigned long warp_pcp_##name args						\
{										\
	switch (size) {								\
	case 1: { typedef u8 T; expr }						\
	case 2: { typedef u16 T; expr }						\
	case 4: { typedef u32 T; expr }						\
	default: { typedef u64 T; expr }					\
	}									\
}
#define WARP_PCP_CHANGE(c_expr) T old = WARP_PCP_OF(p, T), now = (c_expr); (void)old; WARP_PCP_OF(p, T) = now; return now;
WARP_PCP(read, (const volatile void *p, unsigned int size), return WARP_PCP_OF(p, T);)
WARP_PCP(write, (volatile void *p, unsigned int size, unsigned long value),
	 T old = WARP_PCP_OF(p, T); WARP_PCP_OF(p, T) = value; return old;)
WARP_PCP(add, (volatile void *p, unsigned int size, unsigned long value), WARP_PCP_CHANGE(old + (T)value))
WARP_PCP(and, (volatile void *p, unsigned int size, unsigned long value), WARP_PCP_CHANGE(old & (T)value))
WARP_PCP(or, (volatile void *p, unsigned int size, unsigned long value), WARP_PCP_CHANGE(old | (T)value))
WARP_PCP(cmpxchg, (volatile void *p, unsigned int size, unsigned long before, unsigned long value),
	 T old = WARP_PCP_OF(p, T); if (old == (T)before) WARP_PCP_OF(p, T) = value; return old;)

/* ---- what must hold ---- */

static char warp_race_why[256];
#define WARP_WRONG(...) ({ scnprintf(warp_race_why, sizeof(warp_race_why), __VA_ARGS__); (const char *)warp_race_why; })

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
#define WARP_RQ_LOCK(rq) (&(rq)->__lock)
#define WARP_STATE(p) ((p)->__state)
#else
#define WARP_RQ_LOCK(rq) (&(rq)->lock)
#define WARP_STATE(p) ((p)->state)
#endif

static bool warp_rq_whole(int cpu) { return !raw_spin_is_locked(WARP_RQ_LOCK(cpu_rq(cpu))); }

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

/*
 * A task of the workload is found by its mailbox: one that exits is reaped, and in no list, before it leaves its CPU
 * for good; one that is being forked is in a list, and in no mailbox yet.
 */
static bool warp_in_box(struct task_struct *p)
{
	return p->thread.id && warp_boot_info.tasks[p->thread.id - 1].task == p;
}

static void warp_count(struct task_struct *p, unsigned short (*queued)[2])
{
	int cpu = task_cpu(p);

	if (p->on_rq == TASK_ON_RQ_QUEUED)
		queued[cpu][warp_throttled(p) || (rt_task(p) && !dl_task(p) && !cpu_rq(cpu)->rt.rt_queued)]++;
}

/* A queue whose lock nobody holds: what it says of itself, beside what its tasks say. */
static const char *warp_check_rq(int cpu, const unsigned short *queued)
{
	struct rq *rq = cpu_rq(cpu);
	struct task_struct *curr = rq->curr;
	unsigned int nr = rq->nr_running, low = queued[0], high = queued[0] + queued[1];

	if (task_cpu(curr) != cpu)
		return WARP_WRONG("cpu%d runs %s, which says that it is on cpu%d", cpu, curr->comm, task_cpu(curr));
	if (!curr->on_cpu)
		return WARP_WRONG("cpu%d runs %s, which says that no CPU runs it", cpu, curr->comm);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	high++;	/* the fair server counts itself */
#endif
	if (nr < low || nr > high) {
		int len = scnprintf(warp_race_why, sizeof(warp_race_why), "cpu%d: nr_running is %u, its tasks are", cpu, nr);
		struct task_struct *g, *p;

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
	return NULL;
}

static const char *warp_check_task(struct task_struct *p, bool at_rest)
{
	int cpu = task_cpu(p);

	if (p->on_rq == TASK_ON_RQ_QUEUED && !raw_spin_is_locked(&p->pi_lock) &&
	    !cpumask_test_cpu(cpu, p->cpus_ptr) && cpu_active(cpu)
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
	    && !is_migration_disabled(p) && !p->migration_pending
#endif
	    && !(p->flags & PF_KTHREAD) && at_rest)
		return WARP_WRONG("%s is queued on cpu%d, which it may not use (%lx)", p->comm, cpu,
				  cpumask_bits(p->cpus_ptr)[0]);
	if (!at_rest)
		return NULL;
	if (WARP_STATE(p) == TASK_RUNNING && !p->on_rq && !(p->flags & PF_EXITING))
		return WARP_WRONG("%s is runnable and on no queue", p->comm);
	if (WARP_STATE(p) == TASK_WAKING)
		return WARP_WRONG("%s is waking, and nobody wakes it", p->comm);
	if (p->on_rq == TASK_ON_RQ_MIGRATING)
		return WARP_WRONG("%s migrates, and nobody moves it", p->comm);
	if (p->thread.woken && !p->on_rq && !p->on_cpu && WARP_STATE(p) != TASK_RUNNING && !(p->flags & PF_EXITING))
		return WARP_WRONG("%s was woken, and sleeps", p->comm);
	if (p->on_cpu && cpu_rq(cpu)->curr != p)
		return WARP_WRONG("%s says that cpu%d runs it, which runs %s", p->comm, cpu, cpu_rq(cpu)->curr->comm);
	return NULL;
}

/* Fair tasks on the queue's uppermost level: another name since 6.14. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
#define WARP_FAIR(rq) ((rq)->cfs.nr_queued)
#else
#define WARP_FAIR(rq) ((rq)->cfs.nr_running)
#endif

/* All CPUs are idle or in user mode, and no interrupt is on its way. */
static const char *warp_check_order(int cpu)
{
	struct rq *rq = cpu_rq(cpu);
	struct task_struct *curr = rq->curr;

	if (test_tsk_need_resched(curr) || warp_cpus[cpu].pending || warp_cpus[cpu].posted)
		return NULL;
#ifdef CONFIG_ARCH_HAS_PREEMPT_LAZY
	if (test_tsk_thread_flag(curr, TIF_NEED_RESCHED_LAZY))
		return NULL;
#endif
	if (is_idle_task(curr) && rq->nr_running && (WARP_FAIR(rq) || rq->rt.rt_queued))
		return WARP_WRONG("cpu%d is idle, and %u of its tasks could run", cpu, rq->nr_running);
	if (rq->rt.rt_queued && rq->rt.rt_nr_running && curr->sched_class != &stop_sched_class && !dl_task(curr) &&
	    rq->rt.highest_prio.curr < curr->prio)
		return WARP_WRONG("cpu%d runs %s of priority %d, and has one of %d", cpu, curr->comm, curr->prio,
				  rq->rt.highest_prio.curr);
	return NULL;
}

static const char *warp_race_check(unsigned int at_rest)
{
	static unsigned short queued[NR_CPUS][2];
	struct task_struct *g, *p;
	const char *why = NULL;
	int cpu, other;

	memset(queued, 0, sizeof(queued));
	for_each_online_cpu(cpu)
		for_each_online_cpu(other)
			if (cpu < other && cpu_rq(cpu)->curr == cpu_rq(other)->curr && warp_rq_whole(cpu) && warp_rq_whole(other))
				return WARP_WRONG("%s runs on cpu%d and cpu%d", cpu_rq(cpu)->curr->comm, cpu, other);
	for_each_process_thread(g, p) {
		cpu = task_cpu(p);
		if (!warp_in_box(p))
			warp_count(p, queued);
		if (!why && warp_rq_whole(cpu))
			why = warp_check_task(p, at_rest);
	}
	for (unsigned int id = 0; id < warp_boot_info.max_tasks; id++)
		if (warp_boot_info.tasks[id].task)
			warp_count(warp_boot_info.tasks[id].task, queued);
	for_each_online_cpu(cpu) {
		if (!why && warp_rq_whole(cpu))
			why = warp_check_rq(cpu, queued[cpu]);
		if (!why && at_rest)
			why = warp_check_order(cpu);
	}
	return why;
}

__attribute__((visibility("default"))) struct warp_race *warp_race_get(void);
struct warp_race *warp_race_get(void)
{
	warp_race_state.check = warp_race_check;
	return &warp_race_state;
}
