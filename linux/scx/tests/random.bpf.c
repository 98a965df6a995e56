/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A first-in-first-out scheduler that draws a random number for each task that it queues, for crates/runner/tests/scx.rs. It keeps
 * what init() drew, the first number of each of two CPUs, and how often each remainder of four came.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

u64 in_init, first_of_cpu[2], remainders[4];

s32 BPF_STRUCT_OPS_SLEEPABLE(random_init)
{
	in_init = bpf_get_prandom_u32();
	return 0;
}

void BPF_STRUCT_OPS(random_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 drawn = bpf_get_prandom_u32(), cpu = bpf_get_smp_processor_id();

	if (cpu < 2 && !first_of_cpu[cpu])
		first_of_cpu[cpu] = drawn;
	remainders[drawn % 4]++;
	scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(random_ops,
	       .enqueue = (void *)random_enqueue,
	       .init = (void *)random_init,
	       .name = "random");
