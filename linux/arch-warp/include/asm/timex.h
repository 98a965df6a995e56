/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_TIMEX_H
#define _WARP_TIMEX_H
/* The cycle counter is the simulated clock: one cycle is one nanosecond. Also the kernel's only source of entropy. */
#include <asm/cpu.h>
typedef unsigned long cycles_t;
#define get_cycles() ((cycles_t)warp_now_ns)
#endif
