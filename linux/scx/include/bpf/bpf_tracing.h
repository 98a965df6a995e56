/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SCHEDLAB_BPF_TRACING_H
#define SCHEDLAB_BPF_TRACING_H
/* A BPF program gets its arguments in an array; a native function gets them as the kernel's caller passes them. */
#define BPF_PROG(name, args...) name(args)
#define BPF_PROG2(name, args...) name(args)
#endif
