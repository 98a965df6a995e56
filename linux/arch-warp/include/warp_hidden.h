/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included before everything else: declarations, too, are hidden, so that one kernel object reaches another's data
 * without the global offset table. (-fvisibility=hidden speaks of definitions only.)
 */
#ifndef __ASSEMBLY__
#pragma GCC visibility push(hidden)
#endif
