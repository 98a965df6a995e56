/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _UAPI_WARP_SIGCONTEXT_H
#define _UAPI_WARP_SIGCONTEXT_H
/* No signal is ever delivered to a simulated user task: there is no user code to run a handler. */
struct sigcontext { unsigned long unused; };
#endif
