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
#define arch_cmpxchg_local arch_cmpxchg
#define arch_cmpxchg64 arch_cmpxchg
#define arch_cmpxchg64_local arch_cmpxchg
/* Linux >= 6.5: a slab's list and counters change in one step, as on x86-64; kmalloc_nolock() gives no memory without */
#define arch_cmpxchg128 arch_cmpxchg
#define arch_cmpxchg128_local arch_cmpxchg
#define system_has_cmpxchg128() 1
#endif
