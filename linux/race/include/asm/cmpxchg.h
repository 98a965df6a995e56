/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_CMPXCHG_H
#define _WARP_CMPXCHG_H
/* One step each, fully ordered (asm/atomic.h beside this). The 128-bit one is of slabs, which no target has. */
#include <linux/compiler.h>
#include <linux/types.h>
#include <schedlab_race.h>
#define arch_xchg(p, v) ({ \
	__typeof__(p) __xp = (p); \
	(__typeof__(*__xp))race_atomic(__xp, sizeof(*__xp), RACE_SWAP, (unsigned long)(v), 0, RACE_FULL, 1); })
#define arch_cmpxchg(p, o, n) ({ \
	__typeof__(p) __cp = (p); \
	(__typeof__(*__cp))race_atomic(__cp, sizeof(*__cp), RACE_SWAP_IF, (unsigned long)(n), (unsigned long)(o), RACE_FULL, 1); })
#define arch_cmpxchg_local arch_cmpxchg
#define arch_cmpxchg64 arch_cmpxchg
#define arch_cmpxchg64_local arch_cmpxchg
#define arch_cmpxchg128(p, o, n) ({ (void)(o); (void)(n); *(p); })
#define arch_cmpxchg128_local arch_cmpxchg128
#define system_has_cmpxchg128() 0
#endif
