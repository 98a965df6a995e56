/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks: their first stack frame, how they begin, how they idle. The rest of a task's life is the kernel's own code.
 */
#include <linux/binfmts.h>
#include <linux/cpu.h>
#include <linux/elf.h>
#include <linux/ptrace.h>
#include <linux/regset.h>
#include <linux/sched.h>
#include <linux/sched/debug.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/stacktrace.h>
#include <linux/uaccess.h>
#include <linux/entry-common.h>
#include <asm/switch_to.h>
#include "versions.h"
#include "warp.h"

/* Write a frame as switch.S expects it; the task (or CPU) will start at entry. */
void warp_first_frame(void **sp, void *stack_page, void *entry)
{
	unsigned long *s = (unsigned long *)((char *)stack_page + THREAD_SIZE);

	*--s = 0;			/* entry's "return address": the end for a stack walker, and keeps sp 16n + 8 */
	*--s = (unsigned long)entry;
	for (int i = 0; i < 5; i++)
		*--s = 0;
	*sp = s;
}

/*
 * Kernel: prepare the child's registers and stack. A kernel thread starts in fn; a user task, forked by WARP_OP_FORK,
 * starts in user mode with the id that its parent was given for it.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 19, 0)
int copy_thread(struct task_struct *p, const struct kernel_clone_args *args)
{
	int (*fn)(void *) = args->fn;
	void *arg = args->fn_arg;
#else
int copy_thread(unsigned long flags, unsigned long fn_word, unsigned long arg_word, struct task_struct *p,
		unsigned long tls)
{
	bool kernel = p->flags & (PF_KTHREAD | PF_IO_WORKER);
	int (*fn)(void *) = kernel ? (void *)fn_word : NULL;
	void *arg = kernel ? (void *)arg_word : NULL;
#endif
	memset(&p->thread, 0, sizeof(p->thread));
	p->thread.fn = fn;
	p->thread.arg = arg;
	if (!fn) {
		p->thread.id = current->thread.child_id;
		p->thread.box = &warp_boot_info.tasks[p->thread.id - 1];
		p->thread.regs.user = 1;
		warp_allowed_new(p);
	}
	warp_first_frame(&p->thread.sp, task_stack_page(p), warp_ret_from_fork);
	return 0;
}

/* Every task's first instructions. A kernel thread's fn returns only after a successful execve (pid 1: init.c). */
asmlinkage __visible void warp_task_entry(struct task_struct *prev);
asmlinkage __visible void warp_task_entry(struct task_struct *prev)
{
	struct thread_struct *t = &current->thread;

	schedule_tail(prev);
	if (t->fn)
		t->fn(t->arg);
	if (!t->box)
		do_exit(0);
	local_irq_disable();
	irqentry_exit_to_user_mode(&t->regs);
	warp_this->irq_on = 1;
	warp_user_mode();
}

/* Kernel: fill in the registers of a freshly executed program. Ours: the task may now run in user mode. */
void start_thread(struct pt_regs *regs, unsigned long ip, unsigned long sp)
{
	regs->user = 1;
}

/* Kernel: halt until an interrupt. Ours: the same, the simulator resumes this CPU when one is pending. */
void arch_cpu_idle(void)
{
	if (!warp_this->pending)
		warp_leave(WARP_IDLE);
	warp_this->irq_on = 1;
	if (warp_this->pending)
		warp_interrupt_kernel();
	if (WARP_IDLE_RETURNS_IRQS_OFF)
		warp_this->irq_on = 0;
}

/* Kernel: where a blocked task sleeps (/proc/PID/wchan). Ours: not told. */
unsigned long __get_wchan(struct task_struct *p) { return 0; }

/* Does a call instruction end at pc? (near call, or indirect call through a register or memory) */
static bool warp_after_call(const u8 *pc)
{
	return pc[-5] == 0xe8 || (pc[-2] == 0xff && (pc[-1] & 0x38) == 0x10) ||
	       (pc[-3] == 0xff && (pc[-2] & 0x38) == 0x10) || (pc[-6] == 0xff && (pc[-5] & 0x38) == 0x10);
}

/* The first word from here on that looks like a return address; NULL at the stack's end. */
static unsigned long *warp_next_return(struct task_struct *task, unsigned long *word)
{
	const u8 *low = warp_abi.text_start, *high = warp_abi.text_end;
	unsigned long *end = (unsigned long *)((char *)task_stack_page(task) + THREAD_SIZE);

	for (; word < end; word++) {
		const u8 *pc = (const u8 *)*word;

		if (pc >= low + 8 && pc < high && warp_after_call(pc))
			return word;
	}
	return NULL;
}

/*
 * Print a stack as offsets into the library's text; the simulator has the symbols. There are no frame pointers, so
 * this lists every word that looks like a return address, as kernels without an unwinder do: a few may be left-overs.
 */
void show_stack(struct task_struct *task, unsigned long *sp, const char *level)
{
	unsigned long low = (unsigned long)warp_abi.text_start;
	unsigned long *word;
	int shown = 0;

	if (!task)
		task = current;
	word = task == current ? __builtin_frame_address(0) : task->thread.sp;
	printk("%sPossible call trace of %s (pid %d):\n", level, task->comm, task->pid);
	while (shown++ < 32 && (word = warp_next_return(task, word)))
		printk("%s [<+%#lx>]\n", level, *word++ - low);
}

#ifdef CONFIG_STACKTRACE
/* The same walk for lock debugging and the like. */
noinline void arch_stack_walk(stack_trace_consume_fn consume, void *cookie, struct task_struct *task, struct pt_regs *regs)
{
	unsigned long *word = task == current ? __builtin_frame_address(0) : task->thread.sp;

	while ((word = warp_next_return(task, word)) && consume(cookie, *word))
		word++;
}
#endif

/* No registers to show, no FPU, no debugger inside the simulated machine. */
void show_regs(struct pt_regs *regs) { show_stack(NULL, NULL, KERN_DEFAULT); }
void flush_thread(void) { }
int elf_core_copy_task_fpregs(struct task_struct *t, elf_fpregset_t *f) { return 0; }
const struct user_regset_view *task_user_regset_view(struct task_struct *t) { return NULL; }
void ptrace_disable(struct task_struct *t) { }
long arch_ptrace(struct task_struct *t, long request, unsigned long addr, unsigned long data) { return -EIO; }

/*
 * Kernel: a read that may fault, for a report of what is broken, is mended by the table of exceptions. Ours: there is
 * none, and a pointer that is NULL with an offset is the one that reports come upon (a worker's, while it has no work).
 */
bool copy_from_kernel_nofault_allowed(const void *from, size_t size)
{
	return (unsigned long)from >= PAGE_SIZE;
}
