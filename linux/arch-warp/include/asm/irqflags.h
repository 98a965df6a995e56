/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_IRQFLAGS_H
#define _WARP_IRQFLAGS_H
/* The interrupt flag is a byte; an interrupt that arrived while it was 0 is taken when it becomes 1, as on hardware. */
#include <linux/compiler.h>
#include <asm/cpu.h>
#include <asm/race.h>
#define ARCH_IRQ_DISABLED 0
#define ARCH_IRQ_ENABLED 1
static __always_inline unsigned long arch_local_save_flags(void)
{
	return warp_this->irq_on;
}
static __always_inline void arch_local_irq_restore(unsigned long flags)
{
	barrier();
#ifndef __SANITIZE_THREAD__
	WARP_RACE_SEEN_IF_LATE();	/* what is allocated and freed is in memory: kernel/race_late.c */
#endif
	warp_this->irq_on = flags;
	if (flags && __builtin_expect(warp_this->pending, 0))
		warp_interrupt_kernel();
	if (flags)
		warp_point(WARP_POINT_IRQ_ON, 0);
#if defined(CONFIG_WARP_RACE) && defined(__SANITIZE_THREAD__)
	if (flags)
		warp_race_point(WARP_POINT_IRQ_ON, NULL);
#endif
	barrier();
}
#include <asm-generic/irqflags.h>
#endif
