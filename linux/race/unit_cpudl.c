// SPDX-License-Identifier: GPL-2.0-only
/* kernel/sched/cpudeadline.c, unchanged, with the headers that the kernel compiles it with. Every access to memory in it is a point. */
#include <linux/version.h>
#include <linux/sched/deadline.h>
#include <linux/slab.h>
#include <linux/mmu_context.h>
#include "sched.h"
#include "cpudeadline.c"
