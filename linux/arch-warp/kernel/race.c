/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race: what the calls do that gcc's -fsanitize=thread puts before the accesses of kernel/sched and its
 * neighbours (configs/flavours/race.config).
 *
 * Each CPU counts its points. When it comes to the one that the simulator has named (stop_at), it goes to the simulator
 * as in cpu_relax(), and the access is made when it is resumed; others may have run meanwhile, and time may have
 * passed, as if a hypervisor had taken the CPU away. An interrupt that has arrived is taken there, if they are on.
 *
 * What must hold meanwhile: race_check.c.
 */
#include <linux/rtmutex.h>
#include <linux/sched.h>
#include "versions.h"
#include "warp.h"
#include "race_late.h"

/* Mirrored in crates/linux/src/race.rs. */
struct warp_race_event {
	unsigned long long address;
	unsigned long long code;
	unsigned int at;		/* the CPU's points so far */
	unsigned short cpu;
	unsigned char kind;		/* WARP_POINT_*, WARP_SAYS_*, and WARP_LATE, _SAID, _RELAXED */
	unsigned char size;		/* 0xff: longer */
	unsigned long long value;	/* before the access, up to 8 bytes */
};
struct warp_race {
	unsigned int version, sizeof_race, sizeof_cpu, sizeof_event;
	unsigned int on;		/* simulator: points count */
	unsigned int reserved;
	unsigned int *model;		/* WARP_MODEL_* */
	unsigned long long pinned;	/* simulator: tasks by id that enter and leave migrate_disable() at their blocks */
	unsigned long long waits;	/* simulator: tasks by id that sleep as if a device were to wake them */
	unsigned long long mutex;	/* simulator: tasks by id that take and give the mutex at their blocks */
	struct warp_race_cpu *cpus;
	struct warp_race_event *trace;	/* simulator: NULL: none */
	unsigned long long trace_max;
	unsigned long long trace_len;	/* kernel; beyond trace_max, events are lost */
	const unsigned long long *private;	/* simulator: words that one CPU touches alone; NULL: none */
	unsigned long long private_mask;	/* their number, a power of two, less 1 */
	const char *(*check)(unsigned int at_rest);
};

struct warp_race_cpu warp_race_cpus[NR_CPUS];
static struct warp_race warp_race_state = {
	.version = 6,
	.sizeof_race = sizeof(struct warp_race),
	.sizeof_cpu = sizeof(struct warp_race_cpu),
	.sizeof_event = sizeof(struct warp_race_event),
	.model = &warp_race_model,
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
	event->kind = what | (current->thread.said ? WARP_SAID : 0);
	event->size = what >> 8 > 0xff ? 0xff : what >> 8;
	event->value = address ? warp_race_value(address, what >> 8) : 0;
}

register unsigned long warp_race_sp asm("rsp");

/* What is this CPU's own, or on the stack that it runs on, nobody else sees. */
static __always_inline bool warp_race_private(const volatile void *address)
{
	unsigned long a = (unsigned long)address;

	return ((a ^ warp_race_sp) & ~(THREAD_SIZE - 1UL)) == 0 ||
	       a - (unsigned long)warp_cpus < sizeof(struct warp_cpu) * NR_CPUS;
}

void warp_race_noted(unsigned int what, const volatile void *address, unsigned long code)
{
	if (warp_race_state.trace)
		warp_race_note(what, address, code);
}

/*
 * Whether the simulator has said that no other CPU touches these 8 bytes, or nobody writes there. Words are address >> 3,
 * in a table with free places (0): crates/linux/src/race.rs fills it.
 */
static bool warp_race_passes(const volatile void *address)
{
	const unsigned long long *private = warp_race_state.private;
	unsigned long long mask = warp_race_state.private_mask, word = (unsigned long)address >> 3, at;

	if (!private)
		return false;
	if (!word)
		return true;
	for (at = (word * 0x9e3779b97f4a7c15ULL) >> 32; private[at & mask]; at++)
		if (private[at & mask] == word)
			return true;
	return false;
}

/* This CPU stops here: others run, and do not see its late stores. */
static noinline void warp_race_stop(unsigned int what, const volatile void *address, unsigned long code)
{
	warp_race_cpus[warp_this->id].stop_at = warp_race_cpus[warp_this->id].must_at = ~0ULL;
	warp_this->point = what & ~WARP_RELAXED;
	warp_this->point_address = address;
	warp_this->point_code = (const void *)code;
	warp_race_stands(false);
	if (unlikely(warp_race_nr_late)) {
		warp_race_late_hide();
		warp_leave(WARP_POINT);
		warp_race_late_show();
	} else {
		warp_leave(WARP_POINT);
	}
	warp_race_stands(true);
	if (warp_this->irq_on && warp_this->pending) {
		/* what an interrupt does is not what the source said may race */
		unsigned char said = current->thread.said;

		current->thread.said = 0;
		warp_interrupt_kernel();
		current->thread.said = said;
	}
}

/* A point that is noted, stopped before, or that concerns late stores. */
static noinline void warp_race_slow(unsigned int what, const volatile void *address, unsigned long code,
				    unsigned int op, unsigned long value)
{
	struct warp_race_cpu *c = &warp_race_cpus[warp_this->id];

	if (c->at >= c->stop_at) {
		if (c->at < c->must_at && warp_race_passes(address))
			c->stop_at = c->at + 1;
		else
			warp_race_stop(what, address, code);
	}
	c = &warp_race_cpus[warp_this->id];	/* an interrupt may have ended on another CPU */
	if (unlikely(c->at >= c->late_at) && warp_race_late_point(c, what, address, op, value))
		what |= WARP_LATE;
	warp_race_noted(what, address, code);
}

/* Of 50,000 points in a schedule some ten are slow: what stands here saves no registers. */
static __always_inline void warp_race_at(unsigned int what, const volatile void *address, unsigned long code,
					 unsigned int op, unsigned long value)
{
	struct warp_race *race = &warp_race_state;
	struct warp_race_cpu *c;

	if (likely(!race->on) || warp_race_private(address))
		return;
	c = &warp_race_cpus[warp_this->id];
	c->at++;
	if (unlikely(c->at >= c->stop_at || c->at >= c->late_at || race->trace))
		warp_race_slow(what, address, code, op, value);
}

void warp_race_said_begin(void) { current->thread.said++; }
void warp_race_said_end(void) { current->thread.said--; }

bool warp_race_in_user(int cpu)
{
	return warp_cpus[cpu].why == WARP_USER;
}

/* Whether the running task is one of these. */
static bool warp_race_is_of(unsigned long long ids)
{
	unsigned int id = current->thread.id;

	return id && id <= 64 && ids >> (id - 1) & 1;
}

/*
 * There is one, which lends its owner the priority of who waits for it. A program has it, so it is held beyond the system
 * call, as by futex(). lockdep is not to hold it for a lock of the kernel's there.
 */
static DEFINE_RT_MUTEX(warp_race_mutex);
struct task_struct *warp_race_owner;

static void warp_race_take(void)
{
	rt_mutex_lock(&warp_race_mutex);
	mutex_release(&warp_race_mutex.dep_map, _RET_IP_);
	warp_race_owner = current;
}

static void warp_race_give(void)
{
	warp_race_owner = NULL;
	mutex_acquire(&warp_race_mutex.dep_map, 0, 1, _RET_IP_);
	rt_mutex_unlock(&warp_race_mutex);
}

/*
 * Of a scenario's pinned task each block comes with the other half of a section: it sleeps, and computes until its next
 * block, with migration disabled; then it does both with migration enabled. Likewise with the mutex.
 */
void warp_race_block(void)
{
	if (warp_race_is_of(warp_race_state.mutex)) {
		if (warp_race_owner == current)
			warp_race_give();
		else
			warp_race_take();
	}
#if WARP_SLEEPS_PINNED
	if (!warp_race_is_of(warp_race_state.pinned))
		return;
	if (current->migration_disabled) {
		current->thread.unpinned = 1;
		migrate_enable();
		current->thread.unpinned = 1;	/* again: it may have given its CPU up within */
	} else {
		migrate_disable();
	}
#endif
}

/* A scenario's task that waits for a device sleeps uninterruptibly, and counts as load and as waiting for it. */
bool warp_race_waits(void)
{
	return warp_race_is_of(warp_race_state.waits);
}

void warp_race_exit(void)
{
	if (warp_race_owner == current)
		warp_race_give();
#if WARP_SLEEPS_PINNED
	if (current->migration_disabled)
		migrate_enable();
#endif
}

void warp_race_point(unsigned int what, const volatile void *address)
{
	warp_race_at(what, address, (unsigned long)__builtin_return_address(0), 0, 0);
}

void warp_race_relaxed(unsigned int what, const volatile void *address, unsigned int op, unsigned long value)
{
	warp_race_at(what, address, (unsigned long)__builtin_return_address(0), op, value);
}

void warp_race_says(unsigned int what, const volatile void *address)
{
	struct warp_race_cpu *c;

	/* whose it is (race_locks.c) */
	if (what == WARP_SAYS_LOCKED)
		((arch_spinlock_t *)address)->locked = warp_this->id + 1;
	if (likely(!warp_race_state.on))
		return;
	c = &warp_race_cpus[warp_this->id];
	if (unlikely(warp_race_nr_late || c->late_at == 0)) {
		unsigned long code = (unsigned long)__builtin_return_address(0);

		/* a stop behind a late store comes before what makes it be seen, even where no point is */
		if (c->stop_at == c->at + 1 && warp_race_late_ends(what, address)) {
			c->at++;
			warp_race_stop(WARP_POINT_BARRIER, NULL, code);
			warp_race_noted(WARP_POINT_BARRIER, NULL, code);
			c = &warp_race_cpus[warp_this->id];
		}
		warp_race_late_says(c, what, address);
	}
	warp_race_noted(what, address, (unsigned long)__builtin_return_address(0));
}

void warp_race_interrupted(void)
{
	if (likely(!warp_race_state.on))
		return;
	if (unlikely(warp_race_nr_late))
		warp_race_late_says(&warp_race_cpus[warp_this->id], WARP_SAYS_MB, NULL);
	warp_race_noted(WARP_SAYS_MB, NULL, (unsigned long)__builtin_return_address(0));
}

#define WARP_TSAN(name, kind, size)						\
void __tsan_##name(void *address);						\
void __tsan_##name(void *address)						\
{										\
	warp_race_at((kind) | (size) << 8, address, (unsigned long)__builtin_return_address(0), 0, 0); \
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
	warp_race_at(WARP_POINT_READ | (unsigned int)size << 8, address, (unsigned long)__builtin_return_address(0), 0, 0);
}
void __tsan_write_range(void *address, long size);
void __tsan_write_range(void *address, long size)
{
	warp_race_at(WARP_POINT_WRITE | (unsigned int)size << 8, address, (unsigned long)__builtin_return_address(0), 0, 0);
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

__attribute__((visibility("default"))) struct warp_race *warp_race_get(void);
struct warp_race *warp_race_get(void)
{
	warp_race_state.check = warp_race_check;
	return &warp_race_state;
}
