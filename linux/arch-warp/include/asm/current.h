/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_CURRENT_H
#define _WARP_CURRENT_H
#include <asm/cpu.h>
#define get_current() (warp_this->curr)
#define current get_current()
#endif
