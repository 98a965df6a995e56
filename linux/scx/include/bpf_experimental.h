/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The header of this name that comes with a scheduler, then again what <scx/common.bpf.h> says of a callback: the one there
 * would hand the kernel the scheduler's less() itself, whose result is not 64 bits.
 */
#include_next <bpf_experimental.h>
#ifndef SCHEDLAB_BPF_EXPERIMENTAL_H
#define SCHEDLAB_BPF_EXPERIMENTAL_H
#undef bpf_rbtree_add
#define bpf_rbtree_add(head, node, less) bpf_rbtree_add_impl(head, node,	\
	___bpf_callback2(less, void *, void *), NULL, 0)
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
#endif
