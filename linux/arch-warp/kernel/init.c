/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Process 1. The kernel boots to its end and executes /init; that is an empty file, which the port's own binary format
 * accepts: "the program" is the simulator. So pid 1 becomes a user task in user mode like the workload's, with a
 * mailbox, and the kernel's boot needs no change. It serves as control task and ancestor of the workload.
 */
#include <linux/binfmts.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/sched/signal.h>
#include <linux/signal.h>
#include "warp.h"

static struct warp_task warp_control_box;

/*
 * Kernel: a format replaces the caller's memory image (begin_new_exec()). Ours: there is no image, mm stays NULL as for
 * a kernel thread, and so for all descendants. Could falsify: nothing that follows from memory (NUMA balancing,
 * lazy TLB, membarrier) happens.
 */
static int warp_load_binary(struct linux_binprm *bprm)
{
	struct thread_struct *t = &current->thread;

	if (!is_global_init(current))
		return -ENOEXEC;
	/* as begin_new_exec(): pid 1 stops being a kernel thread (which it is before Linux 5.18) */
	current->flags &= ~(PF_KTHREAD | PF_FORKNOEXEC);
	t->box = &warp_control_box;
	warp_control_box.task = current;
	warp_control_box.pid = current->pid;
	/* children are reaped by the kernel itself; inherited by all descendants */
	kernel_sigaction(SIGCHLD, SIG_IGN);
	start_thread(&t->regs, 0, 0);
	warp_abi.control_ready = 1;
	return 0;
}
static struct linux_binfmt warp_format = { .load_binary = warp_load_binary };

static int __init warp_init(void)
{
	struct file *file;

	warp_abi.control = &warp_control_box;
	register_binfmt(&warp_format);
	file = filp_open("/init", O_RDONLY | O_CREAT, 0755);
	if (IS_ERR(file))
		panic("cannot create /init: %ld", PTR_ERR(file));
	fput(file);
	return 0;
}
late_initcall(warp_init);
