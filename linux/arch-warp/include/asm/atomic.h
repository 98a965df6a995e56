/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_ATOMIC_H
#define _WARP_ATOMIC_H
/* See asm/cmpxchg.h for why plain arithmetic is enough. */
#include <linux/types.h>
#include <asm/cmpxchg.h>
#include <asm/barrier.h>
#define ARCH_ATOMIC		/* Linux < 5.14: "the arch_ names are ours" */
#define ATOMIC64_INIT(i) { (i) }
#define arch_atomic_read(v) READ_ONCE((v)->counter)
#define arch_atomic_set(v, i) WRITE_ONCE((v)->counter, (i))
#define arch_atomic64_read(v) READ_ONCE((v)->counter)
#define arch_atomic64_set(v, i) WRITE_ONCE((v)->counter, (i))

#ifdef CONFIG_WARP_RACE
/* one step: asm/race.h */
#define WARP_ATOMIC(pfx, T, V, op, c_op)				\
static __always_inline T arch_##pfx##_fetch_##op(T i, V *v)		\
{									\
	T old, now;							\
	WARP_RACE_POINT(WARP_POINT_ATOMIC, &v->counter);		\
	asm volatile("mov %1,%0" : "=r"(old) : "m"(v->counter) : "memory"); \
	now = old c_op i;						\
	asm volatile("mov %1,%0" : "=m"(v->counter) : "r"(now) : "memory"); \
	return old;							\
}									\
static __always_inline void arch_##pfx##_##op(T i, V *v)		\
{									\
	T value;							\
	WARP_RACE_RELAXED(&v->counter, WARP_OP_##op, i);		\
	asm volatile("mov %1,%0" : "=r"(value) : "m"(v->counter) : "memory"); \
	value = value c_op i;						\
	asm volatile("mov %1,%0" : "=m"(v->counter) : "r"(value) : "memory"); \
}
#define WARP_ATOMIC_RETURN(pfx, T, V, op, c_op)				\
static __always_inline T arch_##pfx##_##op##_return(T i, V *v)		\
{									\
	return arch_##pfx##_fetch_##op(i, v) c_op i;			\
}
#else
#define WARP_ATOMIC(pfx, T, V, op, c_op)				\
static __always_inline void arch_##pfx##_##op(T i, V *v)		\
{									\
	warp_point(WARP_POINT_ATOMIC, v);				\
	barrier(); v->counter = v->counter c_op i; barrier();		\
}									\
static __always_inline T arch_##pfx##_fetch_##op(T i, V *v)		\
{									\
	T old;								\
	warp_point(WARP_POINT_ATOMIC, v);				\
	barrier(); old = v->counter; v->counter = old c_op i; barrier(); \
	return old;							\
}
#define WARP_ATOMIC_RETURN(pfx, T, V, op, c_op)				\
static __always_inline T arch_##pfx##_##op##_return(T i, V *v)		\
{									\
	T now;								\
	warp_point(WARP_POINT_ATOMIC, v);				\
	barrier(); now = v->counter c_op i; v->counter = now; barrier(); \
	return now;							\
}
#endif
WARP_ATOMIC(atomic, int, atomic_t, add, +)
WARP_ATOMIC(atomic, int, atomic_t, sub, -)
WARP_ATOMIC(atomic, int, atomic_t, and, &)
WARP_ATOMIC(atomic, int, atomic_t, or, |)
WARP_ATOMIC(atomic, int, atomic_t, xor, ^)
WARP_ATOMIC_RETURN(atomic, int, atomic_t, add, +)
WARP_ATOMIC_RETURN(atomic, int, atomic_t, sub, -)
WARP_ATOMIC(atomic64, s64, atomic64_t, add, +)
WARP_ATOMIC(atomic64, s64, atomic64_t, sub, -)
WARP_ATOMIC(atomic64, s64, atomic64_t, and, &)
WARP_ATOMIC(atomic64, s64, atomic64_t, or, |)
WARP_ATOMIC(atomic64, s64, atomic64_t, xor, ^)
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
/* Linux < 6.5 has no generic fall-back for these */
#define arch_atomic_xchg(v, n) arch_xchg(&(v)->counter, n)
#define arch_atomic_cmpxchg(v, o, n) arch_cmpxchg(&(v)->counter, o, n)
#define arch_atomic64_xchg(v, n) arch_xchg(&(v)->counter, n)
#define arch_atomic64_cmpxchg(v, o, n) arch_cmpxchg(&(v)->counter, o, n)
#endif
