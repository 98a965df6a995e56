/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_DELAY_H
#define _WARP_DELAY_H
/* Busy waits cost nothing, like all kernel code: they return at once. */
extern void __udelay(unsigned long usecs);
extern void __ndelay(unsigned long nsecs);
extern void __const_udelay(unsigned long usecs);
extern void __delay(unsigned long loops);
#define udelay(n) __udelay(n)
#define ndelay(n) __ndelay(n)
#endif
