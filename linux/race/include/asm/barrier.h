/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_BARRIER_H
#define _WARP_BARRIER_H
/* Barriers between CPUs reach the explorer, which has an effect in its weak models of memory. */
#ifndef __ASSEMBLY__
#include <schedlab_race.h>
#define mb()		race_barrier(RACE_MB)
#define rmb()		race_barrier(RACE_RMB)
#define wmb()		race_barrier(RACE_WMB)
#define __smp_mb()	race_barrier(RACE_MB)
#define __smp_rmb()	race_barrier(RACE_RMB)
#define __smp_wmb()	race_barrier(RACE_WMB)
#define __smp_store_release(p, v)	do { race_barrier(RACE_RELEASE); WRITE_ONCE(*(p), v); } while (0)
#define __smp_load_acquire(p)		({ __typeof__(*(p)) ___p1 = READ_ONCE(*(p)); race_barrier(RACE_ACQUIRE); ___p1; })
#include <asm-generic/barrier.h>
#endif
#endif
