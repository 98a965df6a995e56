// SPDX-License-Identifier: GPL-2.0-only
/* kernel/sched/cpupri.c, unchanged, with the headers that the kernel compiles it with. Every access to memory in it is a point. */
#include <linux/version.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 18, 0)	/* build_policy.c includes the file; before, it is compiled by itself */
#include <linux/sched/cputime.h>
#include <linux/sched/rt.h>
#include <linux/slab.h>
#include <linux/mmu_context.h>
#include "sched.h"
#endif
#include "cpupri.c"
