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

#include <schedlab_objects.h>

/* as long as any user-space half makes them: one element per CPU, or the default dump */
#undef RESIZABLE_ARRAY
#define RESIZABLE_ARRAY(elfsec, arr) arr[32768] SEC(".bss." #arr)
#endif
