/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_RACE_H
#define _WARP_RACE_H
/*
 * Flavour race: gcc's -fsanitize=thread puts calls before the accesses of chosen objects (configs/flavours/race.config).
 * There a CPU may stop, and others go on: kernel/race.c. What is one step on hardware must be one here: atomic
 * operations and attempts at a lock are inline assembly, which gcc does not instrument; operations on per-CPU variables
 * are calls. Code of other objects only tells what orders it against others (WARP_SAYS), and never stops.
 *
 * Numbers of kinds are PointKind's (crates/machine/src/kernel.rs); those from 16 on are no points.
 */
#ifdef CONFIG_WARP_RACE
#include <warp_cpu.h>
/* 1 to 4 are WARP_POINT_ATOMIC, _LOCK, _UNLOCK, _IRQ_ON (warp_cpu.h) */
#define WARP_POINT_READ		5
#define WARP_POINT_WRITE	6
#define WARP_POINT_MARKED_READ	7
#define WARP_POINT_MARKED_WRITE	8
#define WARP_POINT_BARRIER	9	/* only with stores that are late, and where the CPU is to stop next */
#define WARP_SAYS_LOCKED	16	/* the lock is ours */
#define WARP_SAYS_RELEASE	17	/* the lock is about to be free */
#define WARP_SAYS_WRITER	18	/* ASSERT_EXCLUSIVE_WRITER(): nobody else writes there (asm/race_marks.h) */
#define WARP_SAYS_ACCESS	19	/* ASSERT_EXCLUSIVE_ACCESS(): nobody else touches it */
/* barriers: asm/barrier.h */
#define WARP_SAYS_MB		20
#define WARP_SAYS_WMB		21
#define WARP_SAYS_RMB		22
#define WARP_SAYS_ACQUIRE	23	/* smp_load_acquire(): the load is made */
#define WARP_SAYS_STORE_RELEASE	24	/* smp_store_release(): the store comes next */
#define WARP_SAYS_SEEN		25	/* this CPU's late stores are seen from here on */
#define WARP_LATE		0x20	/* on top of a store: it is late */
#define WARP_SAID		0x40	/* on top of an access: data_race() */
#define WARP_RELAXED		0x80	/* on top of WARP_POINT_ATOMIC: without a result, so it orders nothing */

/* what: the kind, and the access's size << 8 */
void warp_race_point(unsigned int what, const volatile void *address);
void warp_race_says(unsigned int what, const volatile void *address);
/* this CPU spins until the lock is free, or has it: NULL (kernel/race_locks.c) */
void warp_race_spins(const void *lock);
/* an atomic operation without a result, and what it does: it may be late (kernel/race_late.c) */
void warp_race_relaxed(unsigned int what, const volatile void *address, unsigned int op, unsigned long value);
#define WARP_RACE_WHAT(kind, p) ((kind) | (unsigned int)sizeof(*(p)) << 8)
#ifdef __SANITIZE_THREAD__
#define WARP_RACE_POINT(kind, p) warp_race_point(WARP_RACE_WHAT(kind, p), p)
#define WARP_RACE_RELAXED(p, op, value)						\
	warp_race_relaxed(WARP_RACE_WHAT(WARP_POINT_ATOMIC | WARP_RELAXED, p), p, op, value)
#else
#define WARP_RACE_POINT(kind, p) warp_race_says(WARP_RACE_WHAT(kind, p), p)
#define WARP_RACE_RELAXED(p, op, value) warp_race_says(WARP_RACE_WHAT(WARP_POINT_ATOMIC | WARP_RELAXED, p), p)
#endif
#define WARP_RACE_SAYS(kind, p) warp_race_says(kind, p)
#define WARP_OP_STORE	0
#define WARP_OP_add	1
#define WARP_OP_sub	2
#define WARP_OP_and	3
#define WARP_OP_or	4
#define WARP_OP_xor	5

/*
 * Stores that others do not see yet (kernel/race_late.c), of all CPUs. From here on they are seen; the second form is for
 * where that is seldom of use, and is not noted.
 */
extern unsigned int warp_race_nr_late;
/* the same without a stop before: where an interrupt comes, since its CPU may stand already; where a CPU leaves the kernel */
void warp_race_interrupted(void);
#define WARP_RACE_SEEN() warp_race_says(WARP_SAYS_MB, 0)
#define WARP_RACE_SEEN_IF_LATE() do { if (unlikely(warp_race_nr_late)) WARP_RACE_SEEN(); } while (0)

/* operations on this CPU's variables, each in one step; p is the variable's address as the compiler knows it */
unsigned long warp_pcp_read(const volatile void *p, unsigned int size);
unsigned long warp_pcp_write(volatile void *p, unsigned int size, unsigned long value);	/* the old value */
unsigned long warp_pcp_add(volatile void *p, unsigned int size, unsigned long value);	/* the new value */
unsigned long warp_pcp_and(volatile void *p, unsigned int size, unsigned long value);
unsigned long warp_pcp_or(volatile void *p, unsigned int size, unsigned long value);
unsigned long warp_pcp_cmpxchg(volatile void *p, unsigned int size, unsigned long old, unsigned long new);
#else
static inline void warp_race_interrupted(void) { }
static inline void warp_race_spins(const void *lock) { }
#define WARP_RACE_SEEN() do { } while (0)
#define WARP_RACE_SEEN_IF_LATE() do { } while (0)
#endif
#endif
