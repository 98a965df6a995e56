/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The three stack switches. All use one frame layout, so a task's saved stack looks like this, low addresses first:
 *
 *	sp -> r14 r13 r12 rbx rbp  return address
 *
 * r15 is the virtual CPU (asm/cpu.h) and belongs to no task. Vector registers are dead across a call.
 */
#include <linux/linkage.h>
#include <generated/asm-offsets.h>

	.macro PUSH_FRAME
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	.endm
	.macro POP_FRAME
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	.endm
	.macro FUNCTION name
	.globl \name
	.hidden \name
	.type \name, @function
	.balign 16
\name:
	.endm

	.text
/* struct task_struct *warp_switch_to(prev, next): the returned prev is the one this CPU just switched from */
	FUNCTION warp_switch_to
	PUSH_FRAME
	mov %rsp, WARP_TASK_SP(%rdi)
	mov WARP_TASK_SP(%rsi), %rsp
	POP_FRAME
	mov %rdi, %rax
	ret
	.size warp_switch_to, . - warp_switch_to

/* where a new task's saved frame returns to: rax = prev */
	FUNCTION warp_ret_from_fork
	mov %rax, %rdi
	sub $8, %rsp		/* the ABI's alignment, for vector instructions: 16n before a call */
	call warp_task_entry
	ud2
	.size warp_ret_from_fork, . - warp_ret_from_fork

/* void warp_resume(struct warp_cpu *cpu): called by the simulator on its own stack */
	FUNCTION warp_resume
	push %r15
	PUSH_FRAME
	mov %rsp, warp_host_sp(%rip)
	mov %rdi, %r15
	mov WARP_CPU_SP(%r15), %rsp
	POP_FRAME
	ret
	.size warp_resume, . - warp_resume

/* void warp_to_host(void): called on a kernel stack; returns when the simulator resumes this CPU */
	FUNCTION warp_to_host
	PUSH_FRAME
	mov %rsp, WARP_CPU_SP(%r15)
	mov warp_host_sp(%rip), %rsp
	POP_FRAME
	pop %r15
	ret
	.size warp_to_host, . - warp_to_host

	.bss
	.balign 8
	.globl warp_host_sp
	.hidden warp_host_sp
warp_host_sp:
	.zero 8
	.section .note.GNU-stack, "", @progbits
