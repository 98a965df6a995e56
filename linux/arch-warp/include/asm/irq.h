/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_IRQ_H
#define _WARP_IRQ_H
/* the interrupts of a warp CPU do not go through irq descriptors; the table is as small as generic code allows */
#define NR_IRQS 16
#include <asm-generic/irq.h>
#endif
