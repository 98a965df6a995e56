/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_RACE_LATE_H
#define _WARP_RACE_LATE_H
/* What race.c and race_late.c share. Mirrored in crates/linux/src/race.rs. */
#define WARP_MODEL_SC	0	/* each store is seen at once */
#define WARP_MODEL_TSO	1
#define WARP_MODEL_LKMM	2

/* simulator: a point whose store is late */
struct warp_race_choice {
	unsigned long long at;		/* the point */
	unsigned long long one;		/* that store alone; else those behind it, too */
};
struct warp_race_cpu {
	unsigned long long at;		/* kernel: points so far */
	unsigned long long stop_at;	/* simulator: the point to stop before; ~0: none */
	unsigned long long must_at;	/* simulator: those before it are passed if they touch private memory */
	unsigned long long late_at;	/* kernel: the next point that may concern late stores; 0: each; ~0: none */
	const struct warp_race_choice *late;	/* simulator: in order; the kernel takes them one by one */
	unsigned long long nr_late;
	const arch_spinlock_t *waits_for;	/* kernel: the lock that the CPU spins for; NULL: none */
};

/* race_late.c: what a point means for the late stores of this CPU, and whether its store is late */
bool warp_race_late_point(struct warp_race_cpu *c, unsigned int what, const volatile void *address, unsigned int op,
			  unsigned long value);
/* whether what is said makes late stores be seen; what it does; before others run, and after */
bool warp_race_late_ends(unsigned int what, const volatile void *address);
void warp_race_late_says(struct warp_race_cpu *c, unsigned int what, const volatile void *address);
void warp_race_late_hide(void);
void warp_race_late_show(void);
extern unsigned int warp_race_model;
extern struct warp_race_cpu warp_race_cpus[];
/* race.c: notes it in the trace, if there is one */
void warp_race_noted(unsigned int what, const volatile void *address, unsigned long code);
#endif
