// SPDX-License-Identifier: GPL-2.0-only
/*
 * lib/cpumask.c, bitmap.c and find_bit.c, unchanged: what masks of CPUs are searched, combined and counted with. Where the number of CPUs is a
 * constant of one word the headers do it in place (6.12, 7.2), and nothing of this is linked. Every access to memory in it is a point.
 */
#include "cpumask.c"
#include "bitmap.c"
#include "find_bit.c"
