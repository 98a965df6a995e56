/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_IRQFLAGS_H
#define _WARP_IRQFLAGS_H
/* Kernel: interrupts are off, or on. Ours: no target is interrupted, so nothing is kept. Could falsify: a lock that is taken in an interrupt, too. */
#include <linux/compiler.h>
#include <asm/cpu.h>
#define ARCH_IRQ_DISABLED 0
#define ARCH_IRQ_ENABLED 1
static __always_inline unsigned long arch_local_save_flags(void) { return ARCH_IRQ_ENABLED; }
static __always_inline void arch_local_irq_restore(unsigned long flags) { }
#include <asm-generic/irqflags.h>
#endif
