/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SCHEDLAB_THREADS_H
#define SCHEDLAB_THREADS_H
/*
 * What do locks, barriers and atomic operations of schedlab_race.h mean where CPUs are threads (`race --stress`, `race --cost`)?
 *
 * What the machine has: x86's locked instructions, inline, as a kernel has them. A waiter spins, and gives its processor away now and
 * then, since there may be more threads than processors. Barriers that x86 does not need are the compiler's alone.
 */

#define RACE_THREAD_INLINE static inline __attribute__((always_inline, unused))

/* Another thread may need the processor: c/stress.c. */
void race_relax(void);

RACE_THREAD_INLINE int race_trylock(unsigned int *lock)
{
	return !__atomic_exchange_n(lock, 1u, __ATOMIC_ACQUIRE);
}

RACE_THREAD_INLINE void race_lock(unsigned int *lock)
{
	while (!race_trylock(lock))
		while (__atomic_load_n(lock, __ATOMIC_RELAXED))
			race_relax();
}

RACE_THREAD_INLINE void race_unlock(unsigned int *lock)
{
	__atomic_store_n(lock, 0u, __ATOMIC_RELEASE);
}

RACE_THREAD_INLINE void race_barrier(unsigned int kind)
{
	if (kind == RACE_MB)
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	else
		__atomic_thread_fence(__ATOMIC_ACQ_REL);
}

#define RACE_THREAD_ATOMIC(T)								\
	do {										\
		volatile T *__at = (volatile T *)at;					\
		T __old = (T)expected;							\
											\
		switch (op) {								\
		case RACE_ADD:								\
			return (unsigned long)__atomic_fetch_add(__at, (T)value, __ATOMIC_SEQ_CST); \
		case RACE_AND:								\
			return (unsigned long)__atomic_fetch_and(__at, (T)value, __ATOMIC_SEQ_CST); \
		case RACE_OR:								\
			return (unsigned long)__atomic_fetch_or(__at, (T)value, __ATOMIC_SEQ_CST); \
		case RACE_XOR:								\
			return (unsigned long)__atomic_fetch_xor(__at, (T)value, __ATOMIC_SEQ_CST); \
		case RACE_NAND:								\
			return (unsigned long)__atomic_fetch_nand(__at, (T)value, __ATOMIC_SEQ_CST); \
		case RACE_SWAP:								\
			return (unsigned long)__atomic_exchange_n(__at, (T)value, __ATOMIC_SEQ_CST); \
		default:								\
			__atomic_compare_exchange_n(__at, &__old, (T)value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
			return (unsigned long)__old;					\
		}									\
	} while (0)

/* On x86 every locked operation is a full barrier, so `order` and `result` change nothing. */
RACE_THREAD_INLINE unsigned long race_atomic(volatile void *at, unsigned int size, unsigned int op, unsigned long value,
					     unsigned long expected, unsigned int order, int result)
{
	(void)order;
	(void)result;
	switch (size) {
	case 1:
		RACE_THREAD_ATOMIC(unsigned char);
	case 2:
		RACE_THREAD_ATOMIC(unsigned short);
	case 4:
		RACE_THREAD_ATOMIC(unsigned int);
	default:
		RACE_THREAD_ATOMIC(unsigned long);
	}
}
#endif
