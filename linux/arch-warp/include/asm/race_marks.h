/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_RACE_MARKS_H
#define _WARP_RACE_MARKS_H
/*
 * Flavour race, included before each instrumented file (configs/flavours/race.config): what the source says of its own
 * races. data_race(x) and ASSERT_EXCLUSIVE_*(x) are for KCSAN, which is not built in; here they tell the detector.
 */
#include <linux/kcsan-checks.h>
#ifdef CONFIG_WARP_RACE
void warp_race_said_begin(void);	/* accesses from here on may race: data_race() */
void warp_race_said_end(void);
void warp_race_says(unsigned int what, const volatile void *address);
#undef __kcsan_disable_current
#undef __kcsan_enable_current
#define __kcsan_disable_current warp_race_said_begin
#define __kcsan_enable_current warp_race_said_end
#define __kcsan_check_access(p, size, type) do {						\
	if ((type) & KCSAN_ACCESS_ASSERT)							\
		warp_race_says(((type) & KCSAN_ACCESS_WRITE ? 19 : 18) | (unsigned int)(size) << 8, p);	\
} while (0)
#endif
#endif
