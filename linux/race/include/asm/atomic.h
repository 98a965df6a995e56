/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_ATOMIC_H
#define _WARP_ATOMIC_H
/*
 * Atomic operations of the targets of `schedlab race`: each is one step, which the explorer carries out (schedlab_race.h), in place of the
 * port's plain arithmetic. Those without a result are relaxed, those with one are fully ordered unless their name says otherwise.
 */
#include <linux/types.h>
#include <linux/compiler.h>
#include <asm/cmpxchg.h>
#include <asm/barrier.h>
#define ARCH_ATOMIC
#define ATOMIC64_INIT(i) { (i) }
#define arch_atomic_read(v) READ_ONCE((v)->counter)
#define arch_atomic_set(v, i) WRITE_ONCE((v)->counter, (i))
#define arch_atomic64_read(v) READ_ONCE((v)->counter)
#define arch_atomic64_set(v, i) WRITE_ONCE((v)->counter, (i))

#define WARP_ATOMIC(pfx, T, V, op, code, value)					\
static __always_inline void arch_##pfx##_##op(T i, V *v)			\
{										\
	race_atomic(&v->counter, sizeof(T), code, (unsigned long)(value), 0, RACE_RELAXED, 0); \
}										\
static __always_inline T arch_##pfx##_fetch_##op(T i, V *v)			\
{										\
	return (T)race_atomic(&v->counter, sizeof(T), code, (unsigned long)(value), 0, RACE_FULL, 1); \
}										\
static __always_inline T arch_##pfx##_fetch_##op##_relaxed(T i, V *v)		\
{										\
	return (T)race_atomic(&v->counter, sizeof(T), code, (unsigned long)(value), 0, RACE_RELAXED, 1); \
}										\
static __always_inline T arch_##pfx##_fetch_##op##_acquire(T i, V *v)		\
{										\
	return (T)race_atomic(&v->counter, sizeof(T), code, (unsigned long)(value), 0, RACE_ACQ, 1); \
}										\
static __always_inline T arch_##pfx##_fetch_##op##_release(T i, V *v)		\
{										\
	return (T)race_atomic(&v->counter, sizeof(T), code, (unsigned long)(value), 0, RACE_REL, 1); \
}
#define WARP_ATOMIC_RETURN(pfx, T, V, op, c_op)					\
static __always_inline T arch_##pfx##_##op##_return(T i, V *v)			\
{										\
	return arch_##pfx##_fetch_##op(i, v) c_op i;				\
}
WARP_ATOMIC(atomic, int, atomic_t, add, RACE_ADD, i)
WARP_ATOMIC(atomic, int, atomic_t, sub, RACE_ADD, -i)
WARP_ATOMIC(atomic, int, atomic_t, and, RACE_AND, i)
WARP_ATOMIC(atomic, int, atomic_t, or, RACE_OR, i)
WARP_ATOMIC(atomic, int, atomic_t, xor, RACE_XOR, i)
WARP_ATOMIC_RETURN(atomic, int, atomic_t, add, +)
WARP_ATOMIC_RETURN(atomic, int, atomic_t, sub, -)
WARP_ATOMIC(atomic64, s64, atomic64_t, add, RACE_ADD, i)
WARP_ATOMIC(atomic64, s64, atomic64_t, sub, RACE_ADD, -i)
WARP_ATOMIC(atomic64, s64, atomic64_t, and, RACE_AND, i)
WARP_ATOMIC(atomic64, s64, atomic64_t, or, RACE_OR, i)
WARP_ATOMIC(atomic64, s64, atomic64_t, xor, RACE_XOR, i)
WARP_ATOMIC_RETURN(atomic64, s64, atomic64_t, add, +)
WARP_ATOMIC_RETURN(atomic64, s64, atomic64_t, sub, -)
#undef WARP_ATOMIC
#undef WARP_ATOMIC_RETURN

#define arch_atomic_fetch_add arch_atomic_fetch_add
#define arch_atomic_fetch_sub arch_atomic_fetch_sub
#define arch_atomic_fetch_and arch_atomic_fetch_and
#define arch_atomic_fetch_or arch_atomic_fetch_or
#define arch_atomic_fetch_xor arch_atomic_fetch_xor
#define arch_atomic_add_return arch_atomic_add_return
#define arch_atomic_sub_return arch_atomic_sub_return
#define arch_atomic64_fetch_add arch_atomic64_fetch_add
#define arch_atomic64_fetch_sub arch_atomic64_fetch_sub
#define arch_atomic64_fetch_and arch_atomic64_fetch_and
#define arch_atomic64_fetch_or arch_atomic64_fetch_or
#define arch_atomic64_fetch_xor arch_atomic64_fetch_xor
#define arch_atomic64_add_return arch_atomic64_add_return
#define arch_atomic64_sub_return arch_atomic64_sub_return
#define arch_atomic_xchg(v, n) arch_xchg(&(v)->counter, n)
#define arch_atomic_cmpxchg(v, o, n) arch_cmpxchg(&(v)->counter, o, n)
#define arch_atomic64_xchg(v, n) arch_xchg(&(v)->counter, n)
#define arch_atomic64_cmpxchg(v, o, n) arch_cmpxchg(&(v)->counter, o, n)
#endif
