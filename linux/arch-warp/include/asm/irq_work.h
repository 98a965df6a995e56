/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_IRQ_WORK_H
#define _WARP_IRQ_WORK_H
/* irq_work interrupts its own CPU as soon as interrupts are on (x86: a self-IPI), it does not wait for the tick */
#include <linux/types.h>
static inline bool arch_irq_work_has_interrupt(void) { return true; }
void arch_irq_work_raise(void);
#endif
