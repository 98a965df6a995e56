/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_SPINLOCK_TYPES_H
#define _WARP_SPINLOCK_TYPES_H
typedef struct { volatile unsigned int locked; } arch_spinlock_t;
#define __ARCH_SPIN_LOCK_UNLOCKED { 0 }
#include <asm-generic/qrwlock_types.h>
#endif
