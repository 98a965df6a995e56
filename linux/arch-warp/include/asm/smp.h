/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_SMP_H
#define _WARP_SMP_H
#include <linux/cpumask.h>
#include <asm/cpu.h>
#define raw_smp_processor_id() (warp_this->id)
#define __smp_processor_id(x) raw_smp_processor_id()
int __cpu_disable(void);
void __cpu_die(unsigned int cpu);
void arch_send_call_function_single_ipi(int cpu);
void arch_send_call_function_ipi_mask(const struct cpumask *mask);
#endif
