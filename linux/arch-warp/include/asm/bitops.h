/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_BITOPS_H
#define _WARP_BITOPS_H
/* asm-generic/bitops.h, with the compiler's one-instruction searches in place of loops */
#ifndef _LINUX_BITOPS_H
#error only <linux/bitops.h> can be included directly
#endif
#include <linux/compiler.h>
#include <linux/irqflags.h>
#include <linux/version.h>
#include <asm/barrier.h>
#include <asm-generic/bitops/builtin-__ffs.h>
#include <asm-generic/bitops/ffz.h>
#include <asm-generic/bitops/builtin-fls.h>
#include <asm-generic/bitops/builtin-__fls.h>
#include <asm-generic/bitops/fls64.h>
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 17, 0)
#include <asm-generic/bitops/find.h>	/* later in <linux/find.h> */
#endif
#include <asm-generic/bitops/sched.h>
#include <asm-generic/bitops/builtin-ffs.h>
#include <asm-generic/bitops/hweight.h>
#include <asm-generic/bitops/lock.h>
#include <asm-generic/bitops/atomic.h>
#include <asm-generic/bitops/non-atomic.h>
#include <asm-generic/bitops/le.h>
#include <asm-generic/bitops/ext2-atomic.h>
#endif
