/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_RACE_H
#define _WARP_RACE_H
/*
 * Flavour race: gcc's -fsanitize=thread puts calls before the accesses of chosen objects (configs/flavours/race.config).
 * There a CPU may stop, and others go on: kernel/race.c. What is one step on hardware must be one here: atomic
 * operations and attempts at a lock are inline assembly, which gcc does not instrument; operations on per-CPU variables
 * are calls. Code of other objects only tells what orders it against others (WARP_SAYS), and never stops.
 *
 * Numbers of kinds are PointKind's (crates/machine/src/kernel.rs); those from 16 on are no points.
 */
#ifdef CONFIG_WARP_RACE
#include <warp_cpu.h>
/* 1 to 4 are WARP_POINT_ATOMIC, _LOCK, _UNLOCK, _IRQ_ON (warp_cpu.h) */
#define WARP_POINT_READ		5
#define WARP_POINT_WRITE	6
#define WARP_POINT_MARKED_READ	7
#define WARP_POINT_MARKED_WRITE	8
#define WARP_SAYS_LOCKED	16	/* the lock is ours */
#define WARP_SAYS_RELEASE	17	/* the lock is about to be free */
#define WARP_SAYS_WRITER	18	/* ASSERT_EXCLUSIVE_WRITER(): nobody else writes there (asm/race_marks.h) */
#define WARP_SAYS_ACCESS	19	/* ASSERT_EXCLUSIVE_ACCESS(): nobody else touches it */
#define WARP_SAID		0x40	/* on top of an access: data_race() */

/* what: the kind, and the access's size << 8 */
void warp_race_point(unsigned int what, const volatile void *address);
void warp_race_says(unsigned int what, const volatile void *address);
#ifdef __SANITIZE_THREAD__
#define WARP_RACE_POINT(kind, p) warp_race_point((kind) | (unsigned int)sizeof(*(p)) << 8, p)
#else
#define WARP_RACE_POINT(kind, p) warp_race_says((kind) | (unsigned int)sizeof(*(p)) << 8, p)
#endif
#define WARP_RACE_SAYS(kind, p) warp_race_says(kind, p)

/* operations on this CPU's variables, each in one step; p is the variable's address as the compiler knows it */
unsigned long warp_pcp_read(const volatile void *p, unsigned int size);
unsigned long warp_pcp_write(volatile void *p, unsigned int size, unsigned long value);	/* the old value */
unsigned long warp_pcp_add(volatile void *p, unsigned int size, unsigned long value);	/* the new value */
unsigned long warp_pcp_and(volatile void *p, unsigned int size, unsigned long value);
unsigned long warp_pcp_or(volatile void *p, unsigned int size, unsigned long value);
unsigned long warp_pcp_cmpxchg(volatile void *p, unsigned int size, unsigned long old, unsigned long new);
#endif
#endif
