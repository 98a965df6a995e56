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

/* libbpf: types and names in turn, BPF_PROG2(name, struct pair, p, int, n), since an argument may be a structure. */
#define ___bpf_pairs_0() unsigned long long *ctx
#define ___bpf_pairs_1(t, n) t n
#define ___bpf_pairs_2(t, n, more...) t n, ___bpf_pairs_1(more)
#define ___bpf_pairs_3(t, n, more...) t n, ___bpf_pairs_2(more)
#define ___bpf_pairs_4(t, n, more...) t n, ___bpf_pairs_3(more)
#define ___bpf_pairs_5(t, n, more...) t n, ___bpf_pairs_4(more)
#define ___bpf_pairs_6(t, n, more...) t n, ___bpf_pairs_5(more)
#define ___bpf_nr_pairs_(a, b, c, d, e, f, g, h, i, j, k, l, nr, ...) nr
#define ___bpf_nr_pairs(args...) ___bpf_nr_pairs_(args __VA_OPT__(,) 6, odd, 5, odd, 4, odd, 3, odd, 2, odd, 1, odd, 0)
#define BPF_PROG2(name, args...) name(___bpf_apply(___bpf_pairs_, ___bpf_nr_pairs(args))(args))

/*
 * Probes of kernel functions, of their return and of system calls: compiled and never called, as all that hangs on other hooks than
 * the scheduler's. libbpf takes the arguments from the registers in `ctx`; here they are parameters that nobody passes.
 */
struct pt_regs;
#define BPF_KPROBE(name, args...) name(struct pt_regs *ctx __VA_OPT__(,) args)
#define BPF_KRETPROBE(name, args...) name(struct pt_regs *ctx __VA_OPT__(,) args)
#define BPF_UPROBE BPF_KPROBE
#define BPF_URETPROBE BPF_KRETPROBE
#define BPF_KSYSCALL(name, args...) name(struct pt_regs *ctx __VA_OPT__(,) args)
#endif
