/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A first-in-first-out scheduler that tries to do what no scheduler has to do, when its 100th task is enqueued: `act` says what.
 * BPF's verifier would refuse all of it; compiled here it is native code, and its process has to be contained.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

const volatile u32 act;
u64 enqueued;
u64 *nowhere;

static long call(long number, long a, long b, long c)
{
	long result;

	asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return result;
}

static __attribute__((noinline)) void fault_here(u64 value)
{
	*nowhere = value; /* the line that the report has to name */
}

static void hostile(void)
{
	static const char path[] = "/tmp/schedlab-hostile";

	switch (act) {
	case 1: /* exit_group */
		call(231, 0, 0, 0);
		break;
	case 2: /* fork, without end */
		for (;;)
			call(57, 0, 0, 0);
	case 3: /* socket(AF_INET, SOCK_STREAM) */
		call(41, 2, 1, 0);
		break;
	case 4: /* open(O_WRONLY | O_CREAT) */
		call(2, (long)path, 1 | 0100, 0600);
		break;
	case 5: /* kill(-1, 0): everybody whom it may */
		call(62, -1, 0, 0);
		break;
	case 6: /* execve */
		call(59, (long)path, 0, 0);
		break;
	case 7: /* unlink */
		call(87, (long)path, 0, 0);
		break;
	case 8: /* ptrace(PTRACE_ATTACH) */
		call(101, 16, call(110, 0, 0, 0), 0);
		break;
	case 9: /* a store through a bad pointer */
		fault_here(1);
		break;
	case 10: /* an endless loop */
		for (;;)
			asm volatile("");
	}
}

void BPF_STRUCT_OPS(hostile_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (++enqueued == 100)
		hostile();
	scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(hostile_ops,
	       .enqueue = (void *)hostile_enqueue,
	       .name = "hostile");
