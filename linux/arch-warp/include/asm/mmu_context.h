/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_MMU_CONTEXT_H
#define _WARP_MMU_CONTEXT_H
#include <linux/version.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
#include <asm-generic/nommu_context.h>
#else
#include <asm-generic/mm_hooks.h>
struct mm_struct;
struct task_struct;
static inline int init_new_context(struct task_struct *t, struct mm_struct *mm) { return 0; }
static inline void destroy_context(struct mm_struct *mm) { }
static inline void enter_lazy_tlb(struct mm_struct *mm, struct task_struct *t) { }
static inline void deactivate_mm(struct task_struct *t, struct mm_struct *mm) { }
static inline void switch_mm(struct mm_struct *p, struct mm_struct *n, struct task_struct *t) { }
static inline void activate_mm(struct mm_struct *p, struct mm_struct *n) { }
#endif
#endif
