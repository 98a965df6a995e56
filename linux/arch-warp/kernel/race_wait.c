/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race: a wakeup can come at any point of the way to sleep. As everywhere in the kernel, the waker says so first
 * and then wakes; the sleeper sets its state and then looks. This file has points, as kernel/sched has: so others may
 * come between, and a store may be late. The barrier between the state and the look is set_current_state()'s; that
 * between the word and the look at the state is try_to_wake_up()'s.
 */
#include <linux/sched.h>
#include "warp.h"

void warp_ask_wakeup(struct task_struct *p)
{
	WRITE_ONCE(p->thread.woken, 1);
}

bool warp_may_sleep(unsigned int state)
{
	set_current_state(state);
	return !READ_ONCE(current->thread.woken);
}
