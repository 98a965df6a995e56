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
#endif
