/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_ENTRY_COMMON_H
#define _WARP_ENTRY_COMMON_H
/* GENERIC_ENTRY asks for this header; its defaults are right. Work on return to user mode is the kernel's own loop. */
#endif
