/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A first-in-first-out scheduler that prints a line for each task that it queues, for crates/runner/tests/scx.rs. With WITH_A_HALF it
 * waits for decisions of a user-space half as scx_rustland does, which is refused.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

u64 queued;

#ifdef WITH_A_HALF
struct {
	__uint(type, BPF_MAP_TYPE_USER_RINGBUF);
	__uint(max_entries, 4096);
} decided SEC(".maps");
#endif

void BPF_STRUCT_OPS(printing_enqueue, struct task_struct *p, u64 enq_flags)
{
	queued++;
	bpf_printk("queued %s as number %llu", p->comm, queued);
	scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(printing_ops,
	       .enqueue = (void *)printing_enqueue,
	       .name = "printing");
