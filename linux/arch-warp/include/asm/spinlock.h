/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_SPINLOCK_H
#define _WARP_SPINLOCK_H
/*
 * Kernel: queued spinlocks, first come first served. Ours: one byte's worth of state and cpu_relax().
 * A lock can be contended only when its holder is itself inside cpu_relax() (waiting for a call-function IPI, say).
 * Could falsify: the order in which several waiters get such a lock, at one instant of simulated time.
 */
#include <linux/compiler.h>
#include <asm/processor.h>
#include <asm/race.h>
#ifdef CONFIG_WARP_RACE
/* a store before the lock may be late beyond it; on x86 it may not, and the kernel's own default is nothing */
#define smp_mb__after_spinlock() smp_mb()
/*
 * Kernel: whoever waits for a mutex spins while its owner has a CPU, unless a hypervisor has taken that away. Ours: who is in
 * user mode goes on as time passes, which it does not while others spin; so it passes for one whose CPU was taken away.
 * Could falsify: a mutex is never had by spinning while its owner computes.
 */
bool warp_race_in_user(int cpu);
#define vcpu_is_preempted(cpu) warp_race_in_user(cpu)
#endif
#define arch_spin_is_locked(l) ((l)->locked != 0)
#define arch_spin_is_contended(l) 0
#define arch_spin_value_unlocked(l) ((l).locked == 0)
#ifdef CONFIG_WARP_RACE
static __always_inline int arch_spin_trylock(arch_spinlock_t *l)
{
	unsigned int was = 0;

	WARP_RACE_POINT(WARP_POINT_LOCK, &l->locked);
	/* a lock that is held keeps whose it is */
	asm volatile("lock cmpxchg %2,%1" : "+a"(was), "+m"(l->locked) : "r"(1U) : "memory", "cc");
	if (!was)
		WARP_RACE_SAYS(WARP_SAYS_LOCKED, l);
	return !was;
}
static __always_inline void arch_spin_unlock(arch_spinlock_t *l)
{
	WARP_RACE_SAYS(WARP_SAYS_RELEASE, l);
	asm volatile("movl $0,%0" : "=m"(l->locked) : : "memory");
	WARP_RACE_POINT(WARP_POINT_UNLOCK, &l->locked);
}
#else
static __always_inline int arch_spin_trylock(arch_spinlock_t *l)
{
	warp_point(WARP_POINT_LOCK, l);
	if (l->locked)
		return 0;
	l->locked = 1;
	barrier();
	return 1;
}
static __always_inline void arch_spin_unlock(arch_spinlock_t *l)
{
	barrier();
	l->locked = 0;
	warp_point(WARP_POINT_UNLOCK, l);
}
#endif
static __always_inline void arch_spin_lock(arch_spinlock_t *l)
{
	bool waited = false;

	while (unlikely(!arch_spin_trylock(l))) {
		warp_race_spins(l);
		waited = true;
		cpu_relax();
	}
	if (unlikely(waited))
		warp_race_spins(NULL);
}
#include <asm/qrwlock.h>
#endif
