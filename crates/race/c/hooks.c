/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What do gcc's -fsanitize=thread, C11 atomics and schedlab_race.h call? A table that the explorer fills in (crates/race/src/abi.rs).
 * This file itself is compiled without that option.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <schedlab_race.h>

#define HIDDEN __attribute__((visibility("hidden")))
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

/* as abi.rs has them */
#define WRITE 0x100
#define MARKED 0x200
#define EITHER 0x400

struct engine {
	void (*access)(volatile void *at, u64 kind, void *code);
	u64 (*atomic)(volatile void *at, u32 how, u64 value, u64 expected, void *code);
	void (*barrier)(u32 kind, void *code);
	void (*lock)(u32 *lock, void *code);
	int (*trylock)(u32 *lock, void *code);
	void (*unlock)(u32 *lock, void *code);
	void (*relax)(void *code);
	void (*sleep)(u32 what, int cpu, void *code);
	void (*fail)(u32 kind, const char *text, void *code);
	void (*note)(const char *text);
	int (*cpu)(void);
	void *(*alloc)(u64 bytes, void *code);
	void (*free)(void *memory, void *code);
	u64 is_weak;
};
__attribute__((visibility("default"), used)) struct engine schedlab_race_engine;
#define E schedlab_race_engine

/* where RACE_PRIVATE data are */
extern char __start_race_private[] __attribute__((weak, visibility("hidden")));
extern char __stop_race_private[] __attribute__((weak, visibility("hidden")));
__attribute__((visibility("default"), used)) char *const schedlab_race_private[2] = { __start_race_private, __stop_race_private };
#define CODE __builtin_return_address(0)

#define HOOK(name, kind) HIDDEN void __tsan_##name(void *at) { E.access(at, kind, CODE); }
#define HOOKS(n)								\
	HOOK(read##n, n) HOOK(write##n, n | WRITE)				\
	HOOK(unaligned_read##n, n) HOOK(unaligned_write##n, n | WRITE)		\
	HOOK(volatile_read##n, n | MARKED) HOOK(volatile_write##n, n | WRITE | MARKED) \
	HOOK(unaligned_volatile_read##n, n | MARKED) HOOK(unaligned_volatile_write##n, n | WRITE | MARKED) \
	HOOK(read_write##n, n | WRITE | EITHER) HOOK(unaligned_read_write##n, n | WRITE | EITHER)
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)

/* longer ones are one step: their first 8 bytes stand for them */
HIDDEN void __tsan_read_range(void *at, u64 n) { E.access(at, n < 8 ? n : 8, CODE); }
HIDDEN void __tsan_write_range(void *at, u64 n) { E.access(at, (n < 8 ? n : 8) | WRITE, CODE); }
HIDDEN void __tsan_vptr_read(void *at) { E.access(at, 8, CODE); }
HIDDEN void __tsan_vptr_update(void *at, void *value) { (void)value; E.access(at, 8 | WRITE, CODE); }
HIDDEN void __tsan_func_entry(void *caller) { (void)caller; }
HIDDEN void __tsan_func_exit(void) { }
HIDDEN void __tsan_init(void) { }

#define HOW(size, op, order, result) ((size) | (op) << 8 | (order) << 16 | (u32)(result) << 24)
/* memory_order: relaxed, consume, acquire, release, acq_rel, seq_cst */
static u32 order_of(int mo)
{
	static const u8 orders[] = { RACE_RELAXED, RACE_ACQ, RACE_ACQ, RACE_REL, RACE_FULL, RACE_FULL };
	return orders[mo > 5 ? 5 : mo];
}

#define RMW(bits, T, name, op, value_of)					\
	HIDDEN T __tsan_atomic##bits##_##name(volatile T *at, T value, int mo)	\
	{									\
		return (T)E.atomic(at, HOW(bits / 8, op, order_of(mo), 1), (T)(value_of), 0, CODE); \
	}
#define SWAP_IF(bits, T, name)							\
	HIDDEN int __tsan_atomic##bits##_compare_exchange_##name(volatile T *at, T *expected, T value, int mo, int fail_mo) \
	{									\
		T was = (T)E.atomic(at, HOW(bits / 8, RACE_SWAP_IF, order_of(mo), 1), value, *expected, CODE); \
		int done = was == *expected;					\
		(void)fail_mo;							\
		*expected = was;						\
		return done;							\
	}
#define ATOMICS(bits, T)							\
	HIDDEN T __tsan_atomic##bits##_load(const volatile T *at, int mo)	\
	{									\
		T value;							\
		if (mo == __ATOMIC_SEQ_CST)					\
			E.barrier(RACE_MB, CODE);				\
		E.access((volatile void *)at, bits / 8 | MARKED, CODE);		\
		value = *at;							\
		if (mo != __ATOMIC_RELAXED)					\
			E.barrier(RACE_ACQUIRE, CODE);				\
		return value;							\
	}									\
	HIDDEN void __tsan_atomic##bits##_store(volatile T *at, T value, int mo) \
	{									\
		if (mo != __ATOMIC_RELAXED)					\
			E.barrier(RACE_RELEASE, CODE);				\
		E.access(at, bits / 8 | MARKED | WRITE, CODE);			\
		*at = value;							\
		if (mo == __ATOMIC_SEQ_CST)					\
			E.barrier(RACE_MB, CODE);				\
	}									\
	RMW(bits, T, exchange, RACE_SWAP, value)				\
	RMW(bits, T, fetch_add, RACE_ADD, value)				\
	RMW(bits, T, fetch_sub, RACE_ADD, 0 - value)				\
	RMW(bits, T, fetch_and, RACE_AND, value)				\
	RMW(bits, T, fetch_or, RACE_OR, value)					\
	RMW(bits, T, fetch_xor, RACE_XOR, value)				\
	RMW(bits, T, fetch_nand, RACE_NAND, value)				\
	SWAP_IF(bits, T, strong)						\
	SWAP_IF(bits, T, weak)							\
	HIDDEN T __tsan_atomic##bits##_compare_exchange_val(volatile T *at, T expected, T value, int mo, int fail_mo) \
	{									\
		(void)fail_mo;							\
		return (T)E.atomic(at, HOW(bits / 8, RACE_SWAP_IF, order_of(mo), 1), value, expected, CODE); \
	}
ATOMICS(8, u8) ATOMICS(16, u16) ATOMICS(32, u32) ATOMICS(64, u64)

HIDDEN void __tsan_atomic_thread_fence(int mo)
{
	static const u8 kinds[] = { RACE_MB, RACE_RMB, RACE_RMB, RACE_WMB, RACE_MB, RACE_MB };
	if (mo != __ATOMIC_RELAXED)
		E.barrier(kinds[mo > 5 ? 5 : mo], CODE);
}
HIDDEN void __tsan_atomic_signal_fence(int mo) { (void)mo; }

#define FAIL(name, kind)							\
	HIDDEN void name(const char *format, ...)				\
	{									\
		char text[512];							\
		va_list args;							\
										\
		va_start(args, format);						\
		vsnprintf(text, sizeof(text), format, args);			\
		va_end(args);							\
		E.fail(kind, text, CODE);					\
		__builtin_unreachable();					\
	}
FAIL(race_fail, 0) FAIL(race_warn, 1) FAIL(race_refuse, 2)
/* what would end the process, and with it the search: a finding of the call that asks for it */
#define ENDS(name, parameter, words)						\
	HIDDEN __attribute__((noreturn)) void name(parameter)			\
	{									\
		E.fail(3, "the target ends its process: " words, CODE);		\
		__builtin_unreachable();					\
	}
ENDS(exit, int status, "exit()") ENDS(_exit, int status, "_exit()") ENDS(_Exit, int status, "_Exit()")
ENDS(quick_exit, int status, "quick_exit()") ENDS(abort, void, "abort()")
HIDDEN __attribute__((noreturn)) void __assert_fail(const char *what, const char *file, unsigned int line, const char *function)
{
	char text[512];

	(void)file, (void)line, (void)function;
	snprintf(text, sizeof(text), "assertion '%s' fails", what);
	E.fail(3, text, CODE);
	__builtin_unreachable();
}
HIDDEN void race_note(const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	E.note(text);
}
HIDDEN long race_first(int cpu) { (void)cpu; return -1; }
HIDDEN int race_cpu(void) { return E.cpu(); }
HIDDEN int race_is_weak(void) { return (int)E.is_weak; }
HIDDEN void race_lock(u32 *lock) { E.lock(lock, CODE); }
HIDDEN int race_trylock(u32 *lock) { return E.trylock(lock, CODE); }
HIDDEN void race_unlock(u32 *lock) { E.unlock(lock, CODE); }
HIDDEN void race_relax(void) { E.relax(CODE); }
HIDDEN void race_will_sleep(void) { E.sleep(0, -1, CODE); }
HIDDEN void race_sleep(void) { E.sleep(1, -1, CODE); }
HIDDEN void race_awake(void) { E.sleep(2, -1, CODE); }
HIDDEN void race_wake(int cpu) { E.sleep(3, cpu, CODE); }
HIDDEN void *race_alloc(u64 bytes) { return E.alloc(bytes, CODE); }
HIDDEN void race_free(void *memory) { E.free(memory, CODE); }
HIDDEN void race_barrier(u32 kind) { E.barrier(kind, CODE); }
HIDDEN u64 race_atomic(volatile void *at, u32 size, u32 op, u64 value, u64 expected, u32 order, int result)
{
	return E.atomic(at, HOW(size, op, order, result), value, expected, CODE);
}
