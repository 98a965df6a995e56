/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sections that the kernel's generic code finds by name, in addition to the host linker's own script for shared objects.
 * The lists themselves are the kernel's (asm-generic/vmlinux.lds.h).
 */
#include <asm/page.h>
#include <asm/thread_info.h>
#include <asm/cache.h>
#include <asm-generic/vmlinux.lds.h>
#undef THREAD_SIZE
#undef PAGE_SIZE
#define THREAD_SIZE 16384
#define PAGE_SIZE 4096
#ifndef CPUIDLE_TEXT
#define CPUIDLE_TEXT __cpuidle_text_start = .; __cpuidle_text_end = .;
#endif
SECTIONS {
	.warp_text : ALIGN(4096) {	/* and then the host's .text, in which all plain functions are */
		warp_text_start = .;
		_stext = .;
		SCHED_TEXT
		CPUIDLE_TEXT
		LOCK_TEXT
		KPROBES_TEXT
		IRQENTRY_TEXT
		SOFTIRQENTRY_TEXT
		NOINSTR_TEXT
		*(.ref.text)
		*(.head.text)
		_sinittext = .;
		INIT_TEXT
		EXIT_TEXT
		_einittext = .;
	}
} INSERT BEFORE .text;
SECTIONS {
	.warp_data : ALIGN(16384) {
		INIT_TASK_DATA(THREAD_SIZE)
		*(.rodata..init)
		. = ALIGN(64);
		__start___param = .; KEEP(*(__param)) __stop___param = .;
		__start___modver = .; KEEP(*(__modver)) __stop___modver = .;
		. = ALIGN(64);
		SCHED_DATA
		READ_MOSTLY_DATA(64)
		CACHELINE_ALIGNED_DATA(64)
		. = ALIGN(8);
		__start_once = .; *(.data..once) __end_once = .;
		. = ALIGN(32);
		*(__tracepoints)
		TRACE_PRINTKS()			/* these two: flavours that select TRACING */
		TRACEPOINT_STR()
		__init_begin = .;
		INIT_DATA
		INIT_SETUP(16)
		INIT_CALLS
		CON_INITCALL
		INIT_RAM_FS
		__init_end = .;
		. = ALIGN(8);
		__start___tracepoints_ptrs = .; KEEP(*(__tracepoints_ptrs)) __stop___tracepoints_ptrs = .;
		RO_AFTER_INIT_DATA
#ifndef CONFIG_LOCKDEP
		__start_rodata = .; __end_rodata = .;
#endif
		__start___ex_table = .; __stop___ex_table = .;
		__start_notes = .; __stop_notes = .; __start_BTF = .; __stop_BTF = .;
		__start_builtin_fw = .; __end_builtin_fw = .;
		. = ALIGN(4096);
	}
	.warp_percpu : ALIGN(4096) {
		__per_cpu_load = .;
		PERCPU_INPUT(64)
		. = ALIGN(4096);
	}
} INSERT AFTER .data;
jiffies = jiffies_64;
warp_text_end = ADDR(.text) + SIZEOF(.text);
_etext = warp_text_end;
_sdata = ADDR(.data);
__bss_start = ADDR(.bss);
__bss_stop = ADDR(.bss) + SIZEOF(.bss);
/* what lock debugging takes for a lock's static key; elsewhere an empty range, so that kstrdup_const() always copies */
#ifdef CONFIG_LOCKDEP
__start_rodata = ADDR(.rodata);
__end_rodata = ADDR(.rodata) + SIZEOF(.rodata);
#endif

/*
 * CONFIG_TRACEPOINTS without ftrace: the events' printing and ring buffer code is compiled and never called, because
 * nothing but ftrace's own files could enable it. Should that ever be false, warp_no_ftrace() stops the kernel.
 */
PROVIDE_HIDDEN(event_triggers_call = warp_no_ftrace);
PROVIDE_HIDDEN(event_triggers_post_call = warp_no_ftrace);
PROVIDE_HIDDEN(trace_event_raw_init = warp_no_ftrace);
PROVIDE_HIDDEN(trace_event_reg = warp_no_ftrace);
PROVIDE_HIDDEN(trace_event_buffer_reserve = warp_no_ftrace);
PROVIDE_HIDDEN(trace_event_buffer_commit = warp_no_ftrace);
PROVIDE_HIDDEN(trace_event_ignore_this_pid = warp_no_ftrace);
PROVIDE_HIDDEN(trace_event_printf = warp_no_ftrace);
PROVIDE_HIDDEN(trace_handle_return = warp_no_ftrace);
PROVIDE_HIDDEN(trace_output_call = warp_no_ftrace);
PROVIDE_HIDDEN(trace_print_array_seq = warp_no_ftrace);
PROVIDE_HIDDEN(trace_print_bitmask_seq = warp_no_ftrace);
PROVIDE_HIDDEN(trace_print_flags_seq = warp_no_ftrace);
PROVIDE_HIDDEN(trace_print_hex_seq = warp_no_ftrace);
PROVIDE_HIDDEN(trace_print_symbols_seq = warp_no_ftrace);
PROVIDE_HIDDEN(trace_raw_output_prep = warp_no_ftrace);
PROVIDE_HIDDEN(trace_seq_printf = warp_no_ftrace);
PROVIDE_HIDDEN(__trace_trigger_soft_disabled = warp_no_ftrace);

/*
 * CONFIG_NUMA without an MMU: mm/mempolicy.c and fs/proc are compiled, and no task has memory that they could walk. Which of
 * these a version refers to differs.
 */
PROVIDE_HIDDEN(__pte_offset_map_lock = warp_no_mmu);
PROVIDE_HIDDEN(__split_vma = warp_no_mmu);
PROVIDE_HIDDEN(isolate_lru_page = warp_no_mmu);
PROVIDE_HIDDEN(migrate_pages = warp_no_mmu);
PROVIDE_HIDDEN(pte_offset_map_lock = warp_no_mmu);
PROVIDE_HIDDEN(putback_movable_pages = warp_no_mmu);
PROVIDE_HIDDEN(split_vma = warp_no_mmu);
PROVIDE_HIDDEN(vma_merge = warp_no_mmu);
PROVIDE_HIDDEN(vma_modify_policy = warp_no_mmu);
PROVIDE_HIDDEN(walk_page_range = warp_no_mmu);
PROVIDE_HIDDEN(walk_page_vma = warp_no_mmu);
