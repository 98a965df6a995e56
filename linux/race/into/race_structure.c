// SPDX-License-Identifier: GPL-2.0-only
/* The structure, a unit of its own, so that none of its names meets one of the kernel's. RACE_FILE: its file. */
#include RACE_FILE
