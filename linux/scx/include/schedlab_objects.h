/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the headers that come with a scheduler say of trees and objects, said again for programs that no verifier has seen.
 * Without a guard: <scx/common.bpf.h> and <bpf_experimental.h> define them anew, in either order.
 */

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
