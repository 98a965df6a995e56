/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_SPINLOCK_H
#define _WARP_SPINLOCK_H
/* Kernel: queued, first come first served. Ours: one word; who waits is not run, and any waiter may get it. */
#include <linux/compiler.h>
#include <asm/processor.h>
#include <schedlab_race.h>
#define arch_spin_is_locked(l) ((l)->locked != 0)
#define arch_spin_is_contended(l) 0
#define arch_spin_value_unlocked(l) ((l).locked == 0)
#define arch_spin_trylock(l) race_trylock((unsigned int *)&(l)->locked)
#define arch_spin_lock(l) race_lock((unsigned int *)&(l)->locked)
#define arch_spin_unlock(l) race_unlock((unsigned int *)&(l)->locked)
#include <asm/qrwlock.h>
#endif
