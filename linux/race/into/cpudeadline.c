// SPDX-License-Identifier: GPL-2.0-only
/*
 * A structure behind the hooks of schedlab_race.h as kernel/sched/cpudeadline.c (`schedlab race FILE.c --into-kernel NAME`). It replaces that
 * file in a tree; the structure itself is race_structure.c, which includes FILE.c as it is.
 *
 *	cpudl_set(cpu, dl)		preempt(cpu, dl), or finish(cpu, dl) if the CPU's earliest deadline is a later one now
 *	cpudl_clear(cpu), online	finish(cpu, -1): free
 *	cpudl_clear(cpu), offline	preempt(cpu, 0): the earliest of all, so that a search for a later one never finds it
 *	cpudl_find(p)			find(cpu, p's deadline); a CPU that p may not use, or of another root domain, is none
 *
 * Kernel: a heap for each root domain, and all free CPUs that the task may use are returned. Ours: one structure for all domains, and one
 * CPU; if that one will not do there is none. Could falsify: cpuset partitions, and tasks that are bound to some CPUs: they are pushed less
 * often. Locks are the structure's own spinning ones, unknown to lockdep. Deadlines are compared as signed numbers: right for 292 years.
 */
#define RACE_THREADS
#include "race/schedlab_race.h"

extern const struct race_target schedlab_race_target;
#define T schedlab_race_target

#define NOT_TOLD (-2L)
#define NO_TASK (-1L)
static long race_told[RACE_CPUS_MAX] = { [0 ... RACE_CPUS_MAX - 1] = NOT_TOLD };	/* of each CPU, under its queue's lock */
static bool race_made;

static void race_tell(int cpu, long key)
{
	long was = race_told[cpu];

	if (key == was)
		return;
	race_told[cpu] = key;
	if (key == NO_TASK)
		T.finish(cpu, -1);
	else if (was >= 0 && key > was)
		T.finish(cpu, key);
	else
		T.preempt(cpu, key);
}

int cpudl_find(struct cpudl *cp, struct task_struct *p, struct cpumask *later_mask)
{
	struct root_domain *rd = container_of(cp, struct root_domain, cpudl);
	long cpu = T.find(raw_smp_processor_id(), (long)p->dl.deadline);

	if (later_mask)
		cpumask_clear(later_mask);
	if (cpu < 0 || !cpumask_test_cpu(cpu, &p->cpus_mask) || !cpumask_test_cpu(cpu, rd->online))
		return 0;
	if (later_mask)
		cpumask_set_cpu(cpu, later_mask);
	return 1;
}

void cpudl_set(struct cpudl *cp, int cpu, u64 dl)
{
	race_tell(cpu, (long)dl);
}

#ifdef RACE_CPUDL_ONLINE
void cpudl_clear(struct cpudl *cp, int cpu, bool online)
{
	race_tell(cpu, online ? NO_TASK : 0);
}
#else
void cpudl_clear(struct cpudl *cp, int cpu)
{
	race_tell(cpu, NO_TASK);
}

void cpudl_set_freecpu(struct cpudl *cp, int cpu)
{
	race_tell(cpu, NO_TASK);
}

void cpudl_clear_freecpu(struct cpudl *cp, int cpu)
{
	race_tell(cpu, 0);
}
#endif

int cpudl_init(struct cpudl *cp)
{
	int cpu;

	if (race_made)
		return 0;
	if (nr_cpu_ids > RACE_CPUS_MAX)
		panic("%s: a structure behind schedlab_race.h has at most %d CPUs, this machine may have %u", T.name, RACE_CPUS_MAX, nr_cpu_ids);
	if (T.init && T.init(nr_cpu_ids))
		return -ENOMEM;
	if (T.start)
		T.start();
	if (T.begin)
		T.begin();
	/* until they are online */
	for_each_possible_cpu(cpu)
		race_tell(cpu, 0);
	race_made = true;
	pr_info("cpudl: %s, behind schedlab_race.h\n", T.name ? T.name : "?");
	return 0;
}

void cpudl_cleanup(struct cpudl *cp)
{
	/* the structure is there as long as the kernel */
}

#undef T

/* What schedlab_race.h declares. */
#define RACE_ENDS(name)						\
	void name(const char *format, ...)			\
	{							\
		struct va_format text = { .fmt = format };	\
		va_list args;					\
								\
		va_start(args, format);				\
		text.va = &args;				\
		panic(#name "(): %pV", &text);			\
	}
RACE_ENDS(race_fail)
RACE_ENDS(race_warn)
RACE_ENDS(race_refuse)

int race_measures;
int race_cpu(void) { return raw_smp_processor_id(); }
int race_is_weak(void) { return 0; }
void race_note(const char *format, ...) { }
void race_relax(void) { cpu_relax(); }
long race_first(int cpu) { return -1; }
long race_second(int cpu) { return -1; }
unsigned long race_clock_now(void) { return 0; }
void race_keep_time(const char *name, unsigned long since) { }
void race_keep_count(const char *name, unsigned long number) { }
void *race_alloc(unsigned long bytes) { return kzalloc(bytes, GFP_ATOMIC); }
void race_free(void *memory) { kfree(memory); }
/* It is called under a queue's lock, where nobody sleeps. */
void race_will_sleep(void) { race_fail("a structure sleeps in the kernel"); }
void race_sleep(void) { race_fail("a structure sleeps in the kernel"); }
void race_awake(void) { }
void race_wake(int cpu) { }
