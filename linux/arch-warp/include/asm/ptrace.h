/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_PTRACE_H
#define _WARP_PTRACE_H
/* Registers at an interrupt or system call. The kernel asks them only "did it come from user mode?". */
#include <uapi/asm/ptrace.h>
#ifndef __ASSEMBLY__
struct pt_regs {
	unsigned long ip, sp;
	int user;
};
#define user_mode(r) ((r)->user)
#define user_stack_pointer(r) ((r)->sp)
#define instruction_pointer(r) ((r)->ip)
#define instruction_pointer_set(r, v) ((r)->ip = (v))
#define profile_pc(r) instruction_pointer(r)
#define kernel_stack_pointer(r) ((r)->sp)
#define regs_return_value(r) 0
#define is_syscall_success(r) 1
#define frame_pointer(r) 0
#define current_pt_regs() task_pt_regs(current)
/* an interrupt is taken only where they are enabled */
static inline int regs_irqs_disabled(struct pt_regs *r) { return 0; }
#endif
#endif
