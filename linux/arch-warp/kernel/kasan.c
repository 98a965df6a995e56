/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The address sanitizer (flavour asan): its shadow, and the memory functions under the checked ones. See asm/kasan.h.
 */
#include <linux/kasan.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include "warp.h"

#define MAP_PRIVATE_ANONYMOUS_NORESERVE_FIXED_NOREPLACE (0x02 | 0x20 | 0x4000 | 0x100000)

/* before any checked code: mmap(2) of the host, whose C library is not asked because none of its headers can be included here */
int warp_kasan_map(void)
{
	register long flags asm("r10") = MAP_PRIVATE_ANONYMOUS_NORESERVE_FIXED_NOREPLACE;
	register long fd asm("r8") = -1;
	register long offset asm("r9") = 0;
	long result = 9;

	asm volatile("syscall"
		     : "+a"(result)
		     : "D"(KASAN_SHADOW_START), "S"(KASAN_SHADOW_SIZE), "d"(0x1 | 0x2), "r"(flags), "r"(fd), "r"(offset)
		     : "rcx", "r11", "memory");
	return result == (long)KASAN_SHADOW_START ? 0 : -1;
}

/* Kernel: when page tables are there. Ours: at power-on, the shadow is complete. */
void __init warp_kasan_init(void)
{
	init_task.kasan_depth = 0;
	pr_info("KernelAddressSanitizer initialized\n");
}

/* for modules, of which there are none; only kernels with an MMU have it */
struct vm_struct *find_vm_area(const void *address);
struct vm_struct __weak *find_vm_area(const void *address) { return NULL; }

/* mm/kasan/shadow.c checks and calls these; so do compilers for copies of structures */
void *__memcpy(void *to, const void *from, size_t n)
{
	void *result = to;

	asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return result;
}

void *__memset(void *to, int byte, size_t n)
{
	void *result = to;

	asm volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
	return result;
}

void *__memmove(void *to, const void *from, size_t n)
{
	void *result = to;

	if (to <= from || to >= from + n)
		return __memcpy(to, from, n);
	to += n - 1;
	from += n - 1;
	asm volatile("std; rep movsb; cld" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return result;
}
