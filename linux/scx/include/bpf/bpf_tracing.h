/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SCHEDLAB_BPF_TRACING_H
#define SCHEDLAB_BPF_TRACING_H
/*
 * A BPF program gets its arguments in an array, `ctx`; a native function gets them as the kernel's caller passes them. One that
 * names none may look into the array itself: programs on the return of other functions do, which are compiled and never called.
 */
#define ___bpf_named_0(...) unsigned long long *ctx
#define ___bpf_named_1(args...) args
#define ___bpf_are_named_(are, ...) are
#define ___bpf_are_named(...) ___bpf_are_named_(__VA_OPT__(1,) 0, 0)
#define ___bpf_parameters(args...) ___bpf_apply(___bpf_named_, ___bpf_are_named(args))(args)
#define BPF_PROG(name, args...) name(___bpf_parameters(args))
#define BPF_PROG2(name, args...) name(___bpf_parameters(args))
#endif
