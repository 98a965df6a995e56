/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Into the kernel and out again: interrupts, the way back to user mode, and handing the CPU to the simulator.
 *
 * The order of things on return to user mode (reschedule, task work, signals) is the kernel's own: GENERIC_ENTRY.
 */
#include <linux/entry-common.h>
#include <linux/hardirq.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/sched.h>
#include <linux/sched/wake_q.h>
#include <linux/smp.h>
#include <asm/irq_regs.h>
#include "versions.h"
#include "warp.h"

void warp_leave(unsigned int why)
{
	/*
	 * Late stores are seen. Only where it waits for others does a CPU stop before that: an interrupt that comes then is
	 * looked for behind cpu_relax(), and would be forgotten on the way to user mode or into idleness.
	 */
	if (why == WARP_RELAX)
		WARP_RACE_SEEN();
	else if (why != WARP_POINT)
		warp_race_interrupted();
	warp_this->why = why;
	warp_to_host();
}

void warp_call(unsigned int call)
{
	warp_this->call = call;
	warp_leave(WARP_CALL);
}

void warp_relax(void)
{
	warp_leave(WARP_RELAX);
	if (warp_this->irq_on && warp_this->pending)
		warp_interrupt_kernel();
}

#ifdef CONFIG_WARP_POINTS
unsigned int warp_points;

/* Ours: a CPU stops here until the simulator lets it go on; interrupts that came meanwhile are taken if they are on. */
noinline void warp_stop(unsigned int point, const volatile void *address)
{
	warp_this->point = point;
	warp_this->point_address = address;
	warp_this->point_code = __builtin_return_address(0);
	warp_leave(WARP_POINT);
	if (warp_this->irq_on && warp_this->pending)
		warp_interrupt_kernel();
}
#endif

/*
 * A device raised an interrupt on behalf of sleeping tasks, as a disk or a network card does. The list may grow meanwhile: with points a
 * CPU stops within a wakeup, and the simulator puts what comes next behind what is left.
 */
static void warp_device_interrupt(void)
{
	struct warp_cpu *cpu = warp_this;

	while (cpu->nr_device_tasks) {
		unsigned int id = *cpu->device_tasks++;
		struct warp_task *box = id == WARP_TASK_CONTROL ? warp_abi.control : &warp_boot_info.tasks[id];

		cpu->nr_device_tasks--;
		if (box->task) {
			warp_ask_wakeup(box->task);
			wake_up_process(box->task);
		}
	}
}

/*
 * Kernel: between an interrupt that asks for another task, which has read the clock (the tick's update_curr()), and schedule(), which
 * reads it again, lies code that takes a microsecond or two. Ours: none, unless the simulator gives it a length (warp_abi.resched_ns).
 * Then turns count from schedule(): one that began behind a tick is a little less than a tick old at the next one.
 * A task may also be within the system call that its next operation ends (WARP_RESCHED_CALL): the interrupt does not choose, unless the
 * kernel is preempted in system calls, and the end of the operation does. Could falsify: such a call has a cond_resched() before its end.
 * An idle CPU's own timer or device has a length of its own (warp_cpu.idle_resched_ns): the way out of the idle loop lies in it, too.
 */
static void warp_pause_before_schedule(unsigned int ns)
{
	bool asked = need_resched();

#ifdef CONFIG_ARCH_HAS_PREEMPT_LAZY
	asked |= test_thread_flag(TIF_NEED_RESCHED_LAZY);
#endif
	if (!asked)
		return;
	warp_this->paused_until_ns = warp_now_ns + ns;
	while (warp_now_ns < warp_this->paused_until_ns)
		warp_leave(WARP_PAUSED);
}

/*
 * Take the pending interrupts one by one, each with its own entry and exit, in the order of their priority on x86
 * (reschedule, call function, irq_work, timer, devices). Interrupts are on when we come here and when we leave.
 * Could falsify: an interrupt that arrives while another is handled waits for its end; kernel code takes no time, so
 * that is always at the same instant.
 */
static __always_inline void warp_interrupts(struct pt_regs *regs)
{
	struct pt_regs within = { .user = 0 };

	if (unlikely(warp_abi.resched_ns == WARP_RESCHED_CALL) && regs->user)
		regs = &within;
	warp_race_interrupted();
	while (warp_this->pending) {
		unsigned int irq = warp_this->pending & -warp_this->pending;
		struct pt_regs *old;
		irqentry_state_t state;

		warp_this->pending &= ~irq;
		warp_this->irq_on = 0;
		state = irqentry_enter(regs);
		old = set_irq_regs(regs);
		if (irq == WARP_IRQ_RESCHED) {
			scheduler_ipi();	/* the exit does the work; as on x86, not a full interrupt */
		} else {
			irq_enter_rcu();
			switch (irq) {
			case WARP_IRQ_CALL:
				generic_smp_call_function_interrupt();
				break;
			case WARP_IRQ_WORK:
				irq_work_run();
				break;
			case WARP_IRQ_TIMER:
				warp_timer_interrupt();
				break;
			case WARP_IRQ_DEVICE:
				warp_device_interrupt();
				break;
			}
			irq_exit_rcu();
		}
		set_irq_regs(old);
		if (unlikely(warp_abi.resched_ns) && regs->user)
			warp_pause_before_schedule(warp_abi.resched_ns);
		else if (!IS_ENABLED(CONFIG_WARP_RACE) && unlikely(warp_this->idle_resched_ns) && is_idle_task(current))
			warp_pause_before_schedule(warp_this->idle_resched_ns);
		irqentry_exit(regs, state);	/* to user mode: may schedule(), and come back on another CPU */
		warp_this->irq_on = 1;
	}
}

void warp_interrupt_kernel(void)
{
	struct pt_regs regs = { .user = 0 };

	warp_interrupts(&regs);
}

/*
 * Kernel: a system call may wake others and then sleep or end, and nobody gets the CPU in between: need_resched() is looked at on return
 * to user mode, and where code says cond_resched(). Ours: the task does not return to user mode until it has said all that belongs to one
 * call; time that passes meanwhile is spent in the kernel, with interrupts on and preemption enabled, as CONFIG_PREEMPT decides.
 * Could falsify: a real call has a cond_resched() between its wakeup and its sleep, or is preempted between the two.
 */
static noinline void warp_stay(struct warp_task *box)
{
	while (!box->op) {
		warp_this->task = warp_task_id(current);
		warp_leave(WARP_USER);
		if (warp_this->pending)
			warp_interrupt_kernel();
	}
	/*
	 * Kernel: whom exit() wakes, it wakes in its last steps (exit_notify()), behind all places where it may give the CPU away. Ours: the
	 * wakeup comes before do_exit(), so these places must not see what it asked for. The last schedule() chooses anew anyway.
	 */
	if (box->op == WARP_OP_EXIT)
		clear_tsk_need_resched(current);
}

/* The system call path around an operation. */
static __always_inline void warp_system_call(struct pt_regs *regs, struct warp_task *box)
{
	warp_this->irq_on = 0;
	irqentry_enter_from_user_mode(regs);
	local_irq_enable();
	for (;;) {
		unsigned int stays = box->flags & WARP_F_STAYS;

		box->result = warp_operation(box);
		box->done++;
		if (likely(!stays))
			break;
		warp_stay(box);
	}
	local_irq_disable();
	irqentry_exit_to_user_mode(regs);
	warp_this->irq_on = 1;
}

/*
 * "User mode": the task computes. It does so outside the kernel, in the simulator's time; we are resumed when an
 * interrupt has arrived or when its computation is over and it makes a system call.
 */
void __noreturn warp_user_mode(void)
{
	struct pt_regs *regs = task_pt_regs(current);
	struct warp_task *box = current->thread.box;
	unsigned int id = warp_task_id(current);

	for (;;) {
		if (warp_this->pending) {
			warp_interrupts(regs);
		} else if (box->op) {
			warp_system_call(regs, box);
		} else {
			warp_this->task = id;
			warp_leave(WARP_USER);
		}
	}
}
