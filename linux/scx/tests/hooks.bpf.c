/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A first-in-first-out scheduler with programs on other hooks, written in each way that libbpf has. They compile, are listed as not
 * attached, and are never called: `called` stays 0.
 */
#include <scx/common.bpf.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

struct pair {
	u64 a, b;
};

u64 called;

SEC("kprobe/do_exit")
int BPF_KPROBE(on_exit, long code)
{
	called += code + !!ctx;
	return 0;
}

SEC("kprobe/schedule")
int BPF_KPROBE(on_schedule)
{
	called += !!ctx;
	return 0;
}

SEC("kretprobe/do_exit")
int BPF_KRETPROBE(on_return, long result)
{
	called += result;
	return 0;
}

SEC("fentry/try_to_wake_up")
int BPF_PROG2(on_wakeup, struct task_struct *, p, unsigned int, state, int, flags)
{
	called += p->pid + state + flags;
	return 0;
}

SEC("fentry/of_a_pair")
int BPF_PROG2(on_pair, struct pair, both)
{
	called += both.a + both.b;
	return 0;
}

SEC("fexit/of_six")
int BPF_PROG2(on_six, int, a, int, b, int, c, int, d, int, e, long, f)
{
	called += a + b + c + d + e + f;
	return 0;
}

void BPF_STRUCT_OPS(hooks_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(hooks_ops,
	       .enqueue = (void *)hooks_enqueue,
	       .name = "hooks");
