/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_KASAN_H
#define _WARP_KASAN_H
/*
 * The address sanitizer's shadow: one byte says of eight bytes which of them may be touched. Kernel: mapped piece by piece with
 * page tables. Ours: the host maps, without reserving memory, the shadow of all addresses that a process has; it begins as zeroes:
 * what nobody has poisoned may be touched. So the shadow knows the kernel's slabs, stacks and globals, and not the simulator's
 * memory, which kernel code reaches through the interface.
 */
#include <linux/const.h>
#define KASAN_SHADOW_SCALE_SHIFT 3
#define KASAN_SHADOW_OFFSET _AC(CONFIG_KASAN_SHADOW_OFFSET, UL)
#define KASAN_SHADOW_START KASAN_SHADOW_OFFSET
#define KASAN_SHADOW_SIZE (1UL << 44)
#define KASAN_SHADOW_END (KASAN_SHADOW_START + KASAN_SHADOW_SIZE)
#ifndef __ASSEMBLY__
void warp_kasan_init(void);
#endif
#endif
