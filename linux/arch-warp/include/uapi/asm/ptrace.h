/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _UAPI_WARP_PTRACE_H
#define _UAPI_WARP_PTRACE_H
#ifndef __ASSEMBLY__
struct user_regs_struct { unsigned long r[16]; };
#define PTRACE_SYSEMU 31
#define PTRACE_SYSEMU_SINGLESTEP 32
#endif
#endif
