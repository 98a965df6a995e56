/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's own <scx/common.bpf.h> (of the kernel's tools/sched_ext, or of scx_utils), then what of it cannot be native:
 * two macros of BPF assembler, arrays that libbpf would resize when it loads the object, and a callback.
 */
#ifndef SCHEDLAB_MEMBER_VPTR
/* address within bounds, or NULL; a header that uses it itself (7.1 and later) leaves it alone if it is there */
#define SCHEDLAB_MEMBER_VPTR(base, member) ((typeof((base) member) *)({		\
	u64 __base = (u64)&(base), __addr = (u64)&((base) member) - __base;	\
	__addr <= sizeof(base) - sizeof((base) member) ? __addr + __base : 0; }))
#define MEMBER_VPTR(base, member) SCHEDLAB_MEMBER_VPTR(base, member)
#endif
#include_next <scx/common.bpf.h>
#ifndef SCHEDLAB_SCX_COMMON
#define SCHEDLAB_SCX_COMMON

#undef MEMBER_VPTR
#define MEMBER_VPTR(base, member) SCHEDLAB_MEMBER_VPTR(base, member)
#undef ARRAY_ELEM_PTR
#define ARRAY_ELEM_PTR(arr, i, n) ((typeof(arr[i]) *)({				\
	u64 __base = (u64)(arr), __addr = (u64)&((arr)[i]) - __base;		\
	__addr <= sizeof((arr)[0]) * ((n) - 1) ? __addr + __base : 0; }))

/* the kernel reads less()'s result as 64 bits */
#undef bpf_rbtree_add
#define bpf_rbtree_add(head, node, less) bpf_rbtree_add_impl(head, node,	\
	___bpf_callback2(less, void *, void *), NULL, 0)

/*
 * BPF's verifier hands bpf_obj_new() a record by which the kernel initialises an object's links; without it they would be what
 * the memory held before, and a tree or list would refuse the object. A counted object's counter cannot be found without it.
 */
#undef bpf_obj_new
#define bpf_obj_new(type) ({							\
	type *__object = (type *)bpf_obj_new_impl(sizeof(type), NULL);		\
	if (__object)								\
		__builtin_memset(__object, 0, sizeof(*__object));		\
	__object; })
#undef bpf_refcount_acquire
#define bpf_refcount_acquire(object) ({						\
	_Static_assert(0, "bpf_refcount_acquire() is not done here: counted objects need the verifier");	\
	(void *)(object); })

/* as long as any user-space half makes them: one element per CPU, or the default dump */
#undef RESIZABLE_ARRAY
#define RESIZABLE_ARRAY(elfsec, arr) arr[32768] SEC(".bss." #arr)
#endif
