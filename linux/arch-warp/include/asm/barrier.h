/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_BARRIER_H
#define _WARP_BARRIER_H
/* All virtual CPUs run on one host thread: only the compiler can reorder. */
#ifndef __ASSEMBLY__
#define mb()		barrier()
#define __smp_mb()	barrier()
#define __smp_rmb()	barrier()
#define __smp_wmb()	barrier()
#include <asm-generic/barrier.h>
#endif
#endif
