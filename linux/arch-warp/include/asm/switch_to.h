/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_SWITCH_TO_H
#define _WARP_SWITCH_TO_H
/* A context switch is a switch of stacks: every task keeps its real kernel stack. See kernel/switch.S. */
#include <asm/race.h>
struct task_struct;
struct task_struct *warp_switch_to(struct task_struct *prev, struct task_struct *next);
#define switch_to(prev, next, last) do {	\
	WARP_RACE_SEEN();			\
	warp_this->curr = (next);		\
	(last) = warp_switch_to(prev, next);	\
} while (0)
#endif
