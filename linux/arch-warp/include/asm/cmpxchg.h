/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_CMPXCHG_H
#define _WARP_CMPXCHG_H
/*
 * Kernel: atomic between CPUs. Ours: all virtual CPUs share one host thread and change places only in warp_leave(),
 * so plain loads and stores are atomic; a locked instruction would cost 20 cycles each, some 30 times per event.
 * Could falsify: no interleaving within kernel code is ever seen; races of the scheduler are out of reach.
 */
#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/cpu.h>
#include <asm/race.h>
#ifdef CONFIG_WARP_RACE
/* one step, for code in which other CPUs may come between any two: asm/race.h */
#define arch_xchg(p, v) ({						\
	__typeof__(p) __xp = (p);					\
	__typeof__(*__xp) __xn = (__typeof__(*__xp))(v);		\
	WARP_RACE_POINT(WARP_POINT_ATOMIC, __xp);			\
	asm volatile("xchg %0,%1" : "+r"(__xn), "+m"(*__xp) : : "memory"); \
	__xn; })
#define arch_cmpxchg(p, o, n) ({					\
	__typeof__(p) __cp = (p);					\
	__typeof__(*__cp) __co = (__typeof__(*__cp))(o);		\
	__typeof__(*__cp) __cn = (__typeof__(*__cp))(n);		\
	WARP_RACE_POINT(WARP_POINT_ATOMIC, __cp);			\
	asm volatile("cmpxchg %2,%1" : "+a"(__co), "+m"(*__cp) : "r"(__cn) : "memory", "cc"); \
	__co; })
static __always_inline __int128 warp_cmpxchg128(volatile void *p, __int128 old, __int128 new)
{
	unsigned long low = (unsigned long)old, high = (unsigned long)(old >> 64);

	WARP_RACE_POINT(WARP_POINT_ATOMIC, (volatile unsigned long *)p);
	asm volatile("cmpxchg16b %2" : "+a"(low), "+d"(high), "+m"(*(volatile __int128 *)p)
		     : "b"((unsigned long)new), "c"((unsigned long)((unsigned __int128)new >> 64)) : "memory", "cc");
	return (__int128)((unsigned __int128)high << 64 | low);
}
#define arch_cmpxchg128(p, o, n) ((__typeof__(*(p)))warp_cmpxchg128(p, o, n))
#define arch_cmpxchg128_local arch_cmpxchg128
#else
#define arch_xchg(p, v) ({						\
	__typeof__(p) __xp = (p);					\
	__typeof__(*__xp) __xn = (__typeof__(*__xp))(v), __xo;		\
	warp_point(WARP_POINT_ATOMIC, __xp);				\
	barrier(); __xo = *__xp; *__xp = __xn; barrier(); __xo; })
#define arch_cmpxchg(p, o, n) ({					\
	__typeof__(p) __cp = (p);					\
	__typeof__(*__cp) __co = (__typeof__(*__cp))(o), __cc;		\
	__typeof__(*__cp) __cn = (__typeof__(*__cp))(n);		\
	warp_point(WARP_POINT_ATOMIC, __cp);				\
	barrier(); __cc = *__cp; if (__cc == __co) *__cp = __cn; barrier(); __cc; })
/* Linux >= 6.5: a slab's list and counters change in one step, as on x86-64; kmalloc_nolock() gives no memory without */
#define arch_cmpxchg128 arch_cmpxchg
#define arch_cmpxchg128_local arch_cmpxchg
#endif
#define arch_cmpxchg_local arch_cmpxchg
#define arch_cmpxchg64 arch_cmpxchg
#define arch_cmpxchg64_local arch_cmpxchg
#define system_has_cmpxchg128() 1
#endif
