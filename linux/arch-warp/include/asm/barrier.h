/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_BARRIER_H
#define _WARP_BARRIER_H
/*
 * All virtual CPUs run on one host thread: only the compiler can reorder. In flavour race a store may be late
 * (kernel/race_late.c), and barriers say until when. Code that has no points stores at once, so there every barrier
 * that orders stores is a full one.
 */
#ifndef __ASSEMBLY__
#ifdef CONFIG_WARP_RACE
#include <asm/race.h>
#ifdef __SANITIZE_THREAD__
#define WARP_ORDERS(kind) do { barrier(); warp_race_says(kind, 0); barrier(); } while (0)
#else
#define WARP_ORDERS(kind) do { barrier(); warp_race_says(WARP_SAYS_MB, 0); barrier(); } while (0)
#endif
#define mb()		WARP_ORDERS(WARP_SAYS_MB)
#define rmb()		WARP_ORDERS(WARP_SAYS_RMB)
#define wmb()		WARP_ORDERS(WARP_SAYS_WMB)
#define __smp_mb()	mb()
#define __smp_rmb()	rmb()
#define __smp_wmb()	wmb()
#define __smp_store_release(p, v) do {					\
	compiletime_assert_atomic_type(*p);				\
	WARP_ORDERS(WARP_SAYS_STORE_RELEASE);				\
	WRITE_ONCE(*p, v);						\
} while (0)
#define __smp_load_acquire(p) ({					\
	__unqual_scalar_typeof(*p) ___p1 = READ_ONCE(*p);		\
	compiletime_assert_atomic_type(*p);				\
	WARP_ORDERS(WARP_SAYS_ACQUIRE);					\
	(typeof(*p))___p1;						\
})
#else
#define mb()		barrier()
#define __smp_mb()	barrier()
#define __smp_rmb()	barrier()
#define __smp_wmb()	barrier()
#endif
#include <asm-generic/barrier.h>
#endif
#endif
