/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_SYSCALL_H
#define _WARP_SYSCALL_H
/* Operations do not go through a system call table, so nothing can trace or rewrite them. */
#include <uapi/linux/audit.h>
#include <asm/ptrace.h>
struct task_struct;
static inline int syscall_get_nr(struct task_struct *t, struct pt_regs *r) { return -1; }
static inline void syscall_set_nr(struct task_struct *t, struct pt_regs *r, int nr) { }
static inline void syscall_get_arguments(struct task_struct *t, struct pt_regs *r, unsigned long *a) { }
static inline void syscall_set_arguments(struct task_struct *t, struct pt_regs *r, const unsigned long *a) { }
static inline long syscall_get_error(struct task_struct *t, struct pt_regs *r) { return 0; }
static inline long syscall_get_return_value(struct task_struct *t, struct pt_regs *r) { return 0; }
static inline void syscall_set_return_value(struct task_struct *t, struct pt_regs *r, int e, long v) { }
static inline void syscall_rollback(struct task_struct *t, struct pt_regs *r) { }
static inline bool arch_syscall_is_vdso_sigreturn(struct pt_regs *r) { return false; }
static inline int syscall_get_arch(struct task_struct *t) { return AUDIT_ARCH_X86_64; }
#endif
