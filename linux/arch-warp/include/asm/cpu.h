/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_CPU_H
#define _WARP_CPU_H
/*
 * "This CPU". A processor has a register that finds its per-CPU data (x86: gs). Ours is r15, which no kernel code may
 * otherwise use (-ffixed-r15): resume() sets it, every coroutine switch leaves it alone, so it is always the CPU that
 * runs, whichever task's stack we are on.
 * Could falsify: nothing in decisions. A host function called from the kernel (memcpy ...) saves and restores r15.
 */
#ifndef __ASSEMBLY__
#include <warp_cpu.h>
register struct warp_cpu *warp_this asm("r15");
extern struct warp_cpu warp_cpus[];
extern volatile unsigned long long warp_now_ns;	/* the simulated clock */

/*
 * Kernel: nothing. Ours, in the flavour points alone: a place at which a CPU hands control back if the simulator has asked
 * for it, so that other CPUs go on before it does. In all other kernels there is no code for it.
 * Could falsify: nothing by itself; where no atomic operation, lock or interrupt flag lies between two accesses, no other
 * CPU comes between them.
 */
#ifdef CONFIG_WARP_POINTS
extern unsigned int warp_points;
void warp_stop(unsigned int point, const volatile void *address);
#define warp_point(point, address) do {						\
	if (__builtin_expect(warp_points & 1u << (point), 0))			\
		warp_stop(point, address);					\
} while (0)
#else
#define warp_point(point, address) do { } while (0)
#endif

void warp_leave(unsigned int why);	/* to the simulator; comes back when this CPU is resumed */
void warp_call(unsigned int call);	/* the same, to have something done at once */
void warp_interrupt_kernel(void);	/* take pending interrupts, arriving in kernel mode */
void warp_post(int cpu, unsigned int irq); /* send an interrupt to another CPU */
#endif
#endif
