/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_FUTEX_H
#define _WARP_FUTEX_H
/* No simulated task has user memory, so no futex word exists. The functions are here because the generic ones trap. */
#include <linux/futex.h>
#include <linux/uaccess.h>
static inline int arch_futex_atomic_op_inuser(int op, int a, int *old, u32 __user *u) { return -ENOSYS; }
static inline int futex_atomic_cmpxchg_inatomic(u32 *val, u32 __user *u, u32 o, u32 n) { return -ENOSYS; }
#endif
