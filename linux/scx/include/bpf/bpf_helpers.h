/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What libbpf's header of this name is to a scheduler compiled for BPF, for one that is compiled natively into the simulated
 * kernel's process: every helper is the kernel's own function of that name (kernel/bpf/), called directly. Arguments that
 * BPF's verifier adds to a call (the calling program, GFP flags) are added here.
 *
 * `(bpf_x)(...)` is the kernel's function, `bpf_x(...)` the macro that a scheduler sees.
 */
#ifndef SCHEDLAB_BPF_HELPERS_H
#define SCHEDLAB_BPF_HELPERS_H

/* ---- words of the language ---- */

#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]
#define __ulong(name, val) enum { ___bpf_concat(__unique_value, __COUNTER__) = val } name
#define SEC(name) __attribute__((section(name), used))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __hidden __attribute__((visibility("hidden")))
#define __ksym		/* resolved against the kernel's symbols when the object is loaded; __weak ones may be missing */
#define __kconfig	/* the configuration's value, a constant (compile.rs); __weak ones may be missing */
enum libbpf_tristate { TRI_NO = 0, TRI_YES = 1, TRI_MODULE = 2 };
#define __kptr
#define __kptr_untrusted
#define __percpu_kptr
#define __uptr
#define __arg_ctx
#define __arg_nonnull
#define __arg_nullable
#define __arg_trusted
#define __arg_untrusted
#define __arg_arena
/*
 * Arenas: a pointer into one is an address as any, so nothing is cast, and a variable that is said to be in one is where it is.
 * The headers that come with a scheduler then take their branch for compilers that know address spaces.
 */
#define __BPF_FEATURE_ADDR_SPACE_CAST 1
#define __arena
/* may_goto: BPF ends a loop that runs too long; here the watchdog of the run does */
#define __BPF_FEATURE_MAY_GOTO 1
__asm__(".macro may_goto label\n.endm");
#define __bpf_fastcall
#ifndef NULL
#define NULL ((void *)0)
#endif
#ifndef barrier
#define barrier() __asm__ __volatile__("" ::: "memory")
#endif
#ifndef barrier_var
#define barrier_var(v) __asm__ __volatile__("" : "+r"(v))
#endif
#ifndef offsetof
#define offsetof(t, m) __builtin_offsetof(t, m)
#endif
#ifndef container_of
#define container_of(p, t, m) ({ void *__mp = (void *)(p); (t *)(__mp - offsetof(t, m)); })
#endif
#define __bpf_unreachable __builtin_trap
#define bpf_ksym_exists(sym) (!!(sym))
#define bpf_cast_to_kern_ctx(x) (x)
#define bpf_rdonly_cast(x, id) ((void *)(x))
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))

#ifndef ___bpf_concat
#define ___bpf_concat(a, b) a##b
#endif
#define ___bpf_apply(fn, n) ___bpf_concat(fn, n)
#define ___bpf_nth(_, _1, _2, _3, _4, _5, _6, _7, _8, _9, _a, _b, _c, N, ...) N
#define ___bpf_narg(...) ___bpf_nth(_, ##__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define ___bpf_fill0(arr, p, x)
#define ___bpf_fill1(arr, p, x) arr[p] = (unsigned long)(x)
#define ___bpf_fill2(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill1(arr, p + 1, a)
#define ___bpf_fill3(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill2(arr, p + 1, a)
#define ___bpf_fill4(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill3(arr, p + 1, a)
#define ___bpf_fill5(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill4(arr, p + 1, a)
#define ___bpf_fill6(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill5(arr, p + 1, a)
#define ___bpf_fill7(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill6(arr, p + 1, a)
#define ___bpf_fill8(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill7(arr, p + 1, a)
#define ___bpf_fill9(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill8(arr, p + 1, a)
#define ___bpf_fill10(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill9(arr, p + 1, a)
#define ___bpf_fill11(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill10(arr, p + 1, a)
#define ___bpf_fill12(arr, p, x, a...) arr[p] = (unsigned long)(x); ___bpf_fill11(arr, p + 1, a)
#define ___bpf_fill(arr, a...) ___bpf_apply(___bpf_fill, ___bpf_narg(a))(arr, 0, a)

/* tells how the compiler writes the dimensions of arrays into its type information */
static const char schedlab_dimensions[2][3] __attribute__((used));

/* ---- callbacks ---- */

/*
 * A callback is called by the kernel as `u64 f(u64, u64, u64, u64, u64)`. BPF's r0 has 64 bits whatever the function's type;
 * a native bool or int defines 8 or 32 bits of its register only, and the kernel would see what else is in it. So each use
 * of a callback gets a function around it that widens the result. (No variable is captured, so it needs no trampoline.)
 */
#define ___bpf_callback(cb, A, B, C) ({								\
	__u64 __wide(__u64 __a, __u64 __b, __u64 __c, __u64 __d, __u64 __e)			\
	{											\
		return (__u64)(cb)((A)__a, (B)__b, (C)__c);					\
	}											\
	(void *)__wide; })
#define ___bpf_callback2(cb, A, B) ({								\
	__u64 __wide(__u64 __a, __u64 __b, __u64 __c, __u64 __d, __u64 __e)			\
	{											\
		return (__u64)(cb)((A)__a, (B)__b);						\
	}											\
	(void *)__wide; })
#define ___bpf_callback4(cb, A, B, C, D) ({							\
	__u64 __wide(__u64 __a, __u64 __b, __u64 __c, __u64 __d, __u64 __e)			\
	{											\
		return (__u64)(cb)((A)__a, (B)__b, (C)__c, (D)__d);				\
	}											\
	(void *)__wide; })

/* ---- maps ---- */

/*
 * A map is a variable in section .maps (scx_maps here, so that the linker names its ends). The loader puts the kernel's map
 * into its first word. A pointer from elsewhere (inner map, timer callback's argument) is the kernel's map already.
 */
extern char __start_scx_maps[] __weak __hidden, __stop_scx_maps[] __weak __hidden;
static inline struct bpf_map *___bpf_map(const void *m)
{
	return (const char *)m >= __start_scx_maps && (const char *)m < __stop_scx_maps ?
		*(struct bpf_map **)m : (struct bpf_map *)m;
}

struct bpf_prog_aux; struct bpf_timer; struct bpf_spin_lock; struct bpf_dynptr; struct bpf_wq; struct bpf_map;
struct task_struct; struct cgroup; struct btf_ptr; struct pt_regs; struct seq_file;

/* what stands for the loaded program; of support.c */
extern struct bpf_prog_aux *schedlab_prog_aux(void);
extern __u32 schedlab_gfp(void);

extern void *bpf_map_lookup_elem(struct bpf_map *, const void *);
extern long bpf_map_update_elem(struct bpf_map *, const void *, const void *, __u64);
extern long bpf_map_delete_elem(struct bpf_map *, const void *);
extern long bpf_map_push_elem(struct bpf_map *, const void *, __u64);
extern long bpf_map_pop_elem(struct bpf_map *, void *);
extern long bpf_map_peek_elem(struct bpf_map *, void *);
extern void *bpf_map_lookup_percpu_elem(struct bpf_map *, const void *, __u32);
extern long bpf_for_each_map_elem(struct bpf_map *, void *, void *, __u64);
extern void *bpf_task_storage_get(struct bpf_map *, struct task_struct *, void *, __u64, __u32);
extern long bpf_task_storage_delete(struct bpf_map *, struct task_struct *);
extern void *bpf_cgrp_storage_get(struct bpf_map *, struct cgroup *, void *, __u64, __u32);
extern long bpf_cgrp_storage_delete(struct bpf_map *, struct cgroup *);
extern void *schedlab_ringbuf_reserve(struct bpf_map *, __u64, __u64);
extern void schedlab_ringbuf_submit(void *, __u64);

#define bpf_map_lookup_elem(m, k) (bpf_map_lookup_elem)(___bpf_map(m), k)
#define bpf_map_update_elem(m, k, v, f) (bpf_map_update_elem)(___bpf_map(m), k, v, f)
#define bpf_map_delete_elem(m, k) (bpf_map_delete_elem)(___bpf_map(m), k)
#define bpf_map_push_elem(m, v, f) (bpf_map_push_elem)(___bpf_map(m), v, f)
#define bpf_map_pop_elem(m, v) (bpf_map_pop_elem)(___bpf_map(m), v)
#define bpf_map_peek_elem(m, v) (bpf_map_peek_elem)(___bpf_map(m), v)
#define bpf_map_lookup_percpu_elem(m, k, c) (bpf_map_lookup_percpu_elem)(___bpf_map(m), k, c)
#define bpf_for_each_map_elem(m, cb, ctx, f) \
	(bpf_for_each_map_elem)(___bpf_map(m), ___bpf_callback4(cb, void *, void *, void *, void *), ctx, f)
#define bpf_task_storage_get(m, t, v, f) \
	(bpf_task_storage_get)(___bpf_map(m), t, (void *)(long)(v), f, schedlab_gfp())
#define bpf_task_storage_delete(m, t) (bpf_task_storage_delete)(___bpf_map(m), t)
#define bpf_cgrp_storage_get(m, c, v, f) \
	(bpf_cgrp_storage_get)(___bpf_map(m), c, (void *)(long)(v), f, schedlab_gfp())
#define bpf_cgrp_storage_delete(m, c) (bpf_cgrp_storage_delete)(___bpf_map(m), c)
#define bpf_ringbuf_reserve(m, n, f) schedlab_ringbuf_reserve(___bpf_map(m), n, f)
#define bpf_ringbuf_submit(r, f) schedlab_ringbuf_submit(r, f)
#define bpf_ringbuf_discard(r, f) schedlab_ringbuf_submit(r, f)
#define bpf_arena_alloc_pages schedlab_arena_alloc
#define bpf_arena_free_pages schedlab_arena_free
#define bpf_arena_reserve_pages schedlab_arena_reserve
#define bpf_arena_mapping_nr_pages schedlab_arena_pages

/* ---- timers, locks, pointers, the rest ---- */

extern long bpf_timer_init(struct bpf_timer *, struct bpf_map *, __u64);
extern long bpf_timer_set_callback(struct bpf_timer *, void *, struct bpf_prog_aux *);
extern long bpf_timer_start(struct bpf_timer *, __u64, __u64);
extern long bpf_timer_cancel(struct bpf_timer *);
extern void bpf_spin_lock(struct bpf_spin_lock *);
extern void bpf_spin_unlock(struct bpf_spin_lock *);
extern void *bpf_kptr_xchg(void *, void *);
extern __u64 bpf_ktime_get_ns(void);
extern __u64 bpf_ktime_get_boot_ns(void);
extern __u64 bpf_ktime_get_coarse_ns(void);
extern __u64 bpf_ktime_get_tai_ns(void);
extern __u64 bpf_jiffies64(void);
extern __u32 bpf_get_smp_processor_id(void);
extern __u32 bpf_get_numa_node_id(void);
extern __u32 bpf_user_rnd_u32(void);
extern long bpf_loop(__u32, void *, void *, __u64);
extern __u64 bpf_get_current_pid_tgid(void);
extern long bpf_get_current_comm(void *, __u32);
extern long bpf_strncmp(const char *, __u32, const char *);
extern void *bpf_per_cpu_ptr(const void *, __u32);
extern void *bpf_this_cpu_ptr(const void *);
/* the kernel's are in kernel/trace/bpf_trace.c, which needs perf events and kprobes */
extern long schedlab_probe_read(void *, __u32, const void *);
extern long schedlab_probe_read_str(void *, __u32, const void *);
extern struct task_struct *schedlab_current(void);
extern int schedlab_printk(const char *, ...) __attribute__((format(printf, 1, 2)));

#define bpf_timer_init(t, m, f) (bpf_timer_init)(t, ___bpf_map(m), f)
#define bpf_timer_set_callback(t, cb) \
	(bpf_timer_set_callback)(t, ___bpf_callback(cb, void *, void *, void *), schedlab_prog_aux())
#define bpf_loop(n, cb, ctx, f) (bpf_loop)(n, ___bpf_callback2(cb, __u32, void *), ctx, f)
#define bpf_kptr_xchg(d, p) ({								\
	typeof(*(d)) __new = (p); (typeof(*(d)))(bpf_kptr_xchg)((void *)(d), (void *)__new); })
/* of programs that are never called: see bpf_tracing.h */
static inline long bpf_get_func_ret(void *ctx, __u64 *value) { *value = 0; return -95; /* EOPNOTSUPP */ }
#define __builtin_memcpy_inline __builtin_memcpy
#define bpf_get_prandom_u32() bpf_user_rnd_u32()
#define bpf_get_current_task_btf() schedlab_current()
#define bpf_get_current_task() ((__u64)schedlab_current())
#define bpf_probe_read_kernel schedlab_probe_read
#define bpf_probe_read_kernel_str schedlab_probe_read_str
#define bpf_printk(fmt, args...) ({						\
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wformat\"")	\
	int __r = schedlab_printk(fmt, ##args);						\
	_Pragma("GCC diagnostic pop") __r; })
/* a program's own streams (6.17 and later), which its user-space half reads: to the kernel's log, as bpf_printk() */
#define bpf_stream_vprintk schedlab_stream_vprintk
/* bpf_obj_new_impl(): BPF's verifier turns the type's id into its size */
#define bpf_core_type_id_local(t) sizeof(t)

/* ---- open-coded iterators: the kernel's own kfuncs ---- */

struct bpf_iter_num; struct bpf_iter_bits;
extern int bpf_iter_num_new(struct bpf_iter_num *, int, int) __weak;
extern int *bpf_iter_num_next(struct bpf_iter_num *) __weak;
extern void bpf_iter_num_destroy(struct bpf_iter_num *) __weak;
extern int bpf_iter_bits_new(struct bpf_iter_bits *, const __u64 *, __u32) __weak;
extern int *bpf_iter_bits_next(struct bpf_iter_bits *) __weak;
extern void bpf_iter_bits_destroy(struct bpf_iter_bits *) __weak;

#define bpf_for_each(type, cur, args...)						\
	for (struct bpf_iter_##type ___it __attribute__((aligned(8),			\
			cleanup(bpf_iter_##type##_destroy))),				\
	     *___p __attribute__((unused)) = (bpf_iter_##type##_new(&___it, ##args), (void *)0); \
	     (((cur) = bpf_iter_##type##_next(&___it))); )
#define bpf_for(i, start, end)								\
	for (struct bpf_iter_num ___it __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))), \
	     *___p __attribute__((unused)) = (bpf_iter_num_new(&___it, (start), (end)), (void *)0); \
	     ({ int *___t = bpf_iter_num_next(&___it);					\
		(___t ? ((i) = *___t, 1) : ((i) = 0, 0)) && ((i) >= (start) && (i) < (end)); }); )
#define bpf_repeat(N)									\
	for (struct bpf_iter_num ___it __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))), \
	     *___p __attribute__((unused)) = (bpf_iter_num_new(&___it, 0, (N)), (void *)0); \
	     bpf_iter_num_next(&___it); )
#endif
