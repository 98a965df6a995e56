/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Several CPUs: bringing them up, and interrupts between them. When an interrupt arrives is the simulator's decision.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/node.h>
#include <linux/percpu.h>
#include <linux/sched/hotplug.h>
#include <linux/sched/mm.h>
#include <linux/sched/task_stack.h>
#include <linux/smp.h>
#include "versions.h"
#include "warp.h"

void warp_post(int cpu, unsigned int irq)
{
	struct warp_cpu *c = &warp_cpus[cpu];

	WARP_RACE_SEEN();
	if (c == warp_this) {
		c->pending |= irq;
		if (c->irq_on)
			warp_interrupt_kernel();
		return;
	}
	c->posted |= irq;
	if (!c->queued) {
		c->queued = 1;
		warp_abi.kick[warp_abi.nr_kick++] = cpu;
	}
}

void warp_send_reschedule(int cpu) { warp_post(cpu, WARP_IRQ_RESCHED); }
void arch_send_call_function_single_ipi(int cpu) { warp_post(cpu, WARP_IRQ_CALL); }
void arch_irq_work_raise(void) { warp_post(smp_processor_id(), WARP_IRQ_WORK); }
void arch_send_call_function_ipi_mask(const struct cpumask *mask)
{
	int cpu;

	for_each_cpu(cpu, mask)
		warp_post(cpu, WARP_IRQ_CALL);
}

/* Kernel: stop all other CPUs, in a panic. Ours: the simulator resumes none after WARP_CALL_PANIC. */
void smp_send_stop(void) { }

/* a secondary CPU's first function, on its idle task's stack; again after it has been off */
static void warp_start_secondary(void)
{
	mmgrab(&init_mm);	/* dropped when the CPU goes down */
	current->active_mm = &init_mm;
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 14, 0)
	preempt_disable();	/* later: the idle task begins with preemption off */
#endif
	notify_cpu_starting(smp_processor_id());
	warp_clockevent_init();
	set_cpu_online(smp_processor_id(), true);
	warp_log_cpu(true);
	local_irq_enable();
	cpu_startup_entry(CPUHP_AP_ONLINE_IDLE);
}

int __cpu_up(unsigned int cpu, struct task_struct *idle)
{
	struct warp_cpu *c = &warp_cpus[cpu];

	warp_first_frame(&c->sp, task_stack_page(idle), warp_start_secondary);
	c->curr = idle;
	c->pcpu_off = per_cpu_offset(cpu);
	c->online = 1;
	task_thread_info(idle)->cpu = cpu;
	warp_post(cpu, WARP_IRQ_START);
	while (!cpu_online(cpu))
		cpu_relax();
	return 0;
}

/* ---- hotplug: /sys/devices/system/cpu/cpuN/online ---- */

/* On the CPU that goes down, in the stopper; its tasks and timers are moved by generic code. */
int __cpu_disable(void)
{
	set_cpu_online(smp_processor_id(), false);
	warp_log_cpu(false);
	return 0;
}

/* The idle task of a CPU that is down. Its next life begins at warp_start_secondary(), on the stack's first frame. */
void WARP_IDLE_DEAD_NORETURN arch_cpu_idle_dead(void)
{
	local_irq_disable();
	idle_task_exit();
	warp_this->deadline_ns = ~0ULL;
	warp_this->online = 0;
	for (;;)
		warp_leave(WARP_IDLE);
}

/* On another CPU: wait until it is down. */
void __cpu_die(unsigned int cpu)
{
	while (READ_ONCE(warp_cpus[cpu].online))
		cpu_relax();
}

static DEFINE_PER_CPU(struct cpu, warp_cpu_device);

/* CPU 0 stays, as on x86. */
static int __init warp_register_cpus(void)
{
	int cpu, failed = 0;

#if defined(CONFIG_NUMA) && LINUX_VERSION_CODE < KERNEL_VERSION(5, 18, 0)
	int node;

	for_each_online_node(node)
		failed |= register_one_node(node);
#endif
	for_each_present_cpu(cpu) {
		per_cpu(warp_cpu_device, cpu).hotpluggable = cpu != 0;
		failed |= register_cpu(&per_cpu(warp_cpu_device, cpu), cpu);
	}
	return failed;
}
subsys_initcall(warp_register_cpus);

void __init smp_prepare_boot_cpu(void)
{
	int cpu;

	warp_cpus[0].pcpu_off = per_cpu_offset(0);
	for_each_possible_cpu(cpu)
		set_cpu_numa_node(cpu, warp_topology[cpu].node);
}
void __init smp_prepare_cpus(unsigned int max) { }
void __init smp_cpus_done(unsigned int max) { }
