/* SPDX-License-Identifier: GPL-2.0-only */
/* Offsets for switch.S; the kernel's build turns them into <generated/asm-offsets.h>. */
#define COMPILE_OFFSETS		/* Linux >= 7.0: <linux/sched.h> itself needs offsets that are made later */
#include <linux/kbuild.h>
#include <linux/sched.h>
#include <asm/cpu.h>

int main(void);
int main(void)
{
	OFFSET(WARP_TASK_SP, task_struct, thread.sp);
	OFFSET(WARP_CPU_SP, warp_cpu, sp);
	return 0;
}
