/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef SCHEDLAB_RACE_H
#define SCHEDLAB_RACE_H
/*
 * How does a C data structure tell `schedlab race` what to call, and what must hold?
 *
 *	#include <schedlab_race.h>
 *	static int highest[8];
 *	static int my_init(int cpus) { return 0; }
 *	static long my_preempt(int cpu, long priority) { highest[cpu] = priority; return 0; }
 *	RACE_TARGET(.name = "mine", .init = my_init, .preempt = my_preempt, .scenario = "cpus 2\ncpu0 preempt 60\ncpu1 preempt 50\n");
 *
 * The file is compiled with gcc's -fsanitize=thread, and the calls which that puts before each access to memory are points: between any
 * two of them another CPU may go on. C11 atomics and <pthread.h>-free code need no change. What this header offers are locks, barriers,
 * sleep, allocation and the verdict. A CPU has a stack of its own of 64 KiB. Accesses to the own stack are no points.
 *
 * Every function of a target runs with no CPU interrupting it where the text says "alone".
 */

#ifdef __cplusplus
extern "C" {
#endif

#ifdef RACE_THREADS	/* CPUs are threads of a real machine: --stress, --cost */
#define RACE_CPUS_MAX 64
#else
#define RACE_CPUS_MAX 8
#endif
#define RACE_ARGS_MAX 8
#define RACE_VERSION 1

/* An operation that a scenario can name: `cpu0 NAME 1 2`. Its result is shown, and judged by nobody but itself. */
struct race_op {
	const char *name;
	long (*run)(int cpu, const long *args, int nr_args);
	const char *help;	/* its arguments and meaning, a line */
	int nr_args;		/* how many it takes; a scenario with fewer or more is refused */
};

/*
 * What is tested. The hooks have the names and meanings of PRAcTISE (Falzoi, Lelli, Lipari, 2012). NULL: there is none.
 * Those that take a CPU and a key are operations of these names in a scenario, beside those in `ops`. A CPU's own calls of preempt(),
 * finish(), pull_preempt(), pull_finish(), enqueue() and dequeue() come one after the other: the lock of its queue is held.
 */
struct race_target {
	unsigned int version;			/* RACE_VERSION */
	unsigned int size;			/* of this structure */
	const char *name;
	int (*init)(int cpus);			/* alone, once: build the structure empty. Not 0: it cannot be had */
	void (*cleanup)(void);			/* alone, after each schedule */
	void (*start)(void);			/* alone, before each schedule: RACE_PRIVATE data as they were */
	void (*begin)(void);			/* alone, when the scenario's first lines are done and CPUs begin */
	long (*preempt)(int cpu, long key);	/* the CPU's first task is one with this priority or deadline now */
	long (*finish)(int cpu, long key);	/* that task has ended, the next one has this key; -1: there is none */
	long (*find)(int cpu, long key);	/* the CPU to send a task with this key to (push) or take one from (pull); -1: none */
	long (*enqueue)(int cpu, long key);	/* the CPU's own ready queue: a task with this key comes */
	long (*dequeue)(int cpu, long key);	/* one with this key leaves */
	void (*check)(void);			/* alone, at every point after a store: calls race_fail() if something does not hold */
	void (*rest)(void);			/* alone, when all CPUs have ended: the same */
	const struct race_op *ops;		/* ends with a name of NULL */
	const char *scenario;			/* who calls what, if the command line names no scenario (docs/race.md) */
	void *cpu_base;				/* what register r15 holds on CPU 0, with a stride from CPU to CPU; NULL: nothing particular */
	unsigned long cpu_stride;
	int least_first;			/* which key of a queue is first: 0: the greatest (priorities), 1: the least (deadlines) */
	/* A second structure, for pull(): of each CPU's second task. NULL: queues are searched one after the other, as the kernel does. */
	long (*pull_preempt)(int cpu, long key);	/* the CPU's second task is one with this key now */
	long (*pull_finish)(int cpu, long key);		/* that task has gone, the next second one has this key; -1: there is none */
	long (*pull_find)(int cpu, long key);		/* the CPU whose second task goes before one with this key (-1: any); -1: none */
};

#define RACE_TARGET(...) \
	__attribute__((visibility("default"), used)) const struct race_target schedlab_race_target = \
		{ .version = RACE_VERSION, .size = sizeof(struct race_target), __VA_ARGS__ }

/* A finding: this schedule ends here, and does not come back. Findings with the same text are one: numbers go into a race_note(). */
void race_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* The same, said by the code under test of itself. */
void race_warn(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* The scenario asks for what the target does not have: not a finding, but bad input. */
void race_refuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* The number of the running CPU; -1 alone. */
int race_cpu(void);
/* Whether stores may be late and loads see what has been (--model tso, lkmm). */
int race_is_weak(void);
/* A note for the reader of a schedule, shown in the CPU's column. */
void race_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Of --stress, when nobody else is at work: the key of the first task of a CPU, -1: there is none. What a structure says of a CPU can be
 * compared with it.
 */
long race_first(int cpu);
/* The same of its second task, for a structure of pull(). */
long race_second(int cpu);

/*
 * Measures of the target's own, under --cost: each has a row beside find and set, and its samples. A name is a literal.
 *	unsigned long since = race_clock(); ...; race_time("wait for the lock", since);		cycles
 *	race_count("steps of a search", steps);							a number
 */
#ifdef RACE_THREADS
extern int race_measures;		/* whether this run is for them; else they cost a look at it */
unsigned long race_clock_now(void);
void race_keep_time(const char *name, unsigned long since);
void race_keep_count(const char *name, unsigned long number);
static inline __attribute__((unused)) unsigned long race_clock(void)
{
	return race_measures ? race_clock_now() : 0;
}
static inline __attribute__((unused)) void race_time(const char *name, unsigned long since)
{
	if (race_measures)
		race_keep_time(name, since);
}
static inline __attribute__((unused)) void race_count(const char *name, unsigned long number)
{
	if (race_measures)
		race_keep_count(name, number);
}
#else
static inline __attribute__((unused)) unsigned long race_clock(void) { return 0; }
static inline __attribute__((unused)) void race_time(const char *name, unsigned long since) { (void)name, (void)since; }
static inline __attribute__((unused)) void race_count(const char *name, unsigned long number) { (void)name, (void)number; }
#endif

/* A spin lock: 0 is free. A CPU that waits is not run; CPUs that wait for each other are a deadlock. */
#ifndef RACE_THREADS
void race_lock(unsigned int *lock);
int race_trylock(unsigned int *lock);
void race_unlock(unsigned int *lock);
#endif
/* In a loop that waits for another CPU: others go on first. CPUs that all wait so for ever are a livelock. */
void race_relax(void);

/*
 * Sleep as the kernel does: say that one is about to sleep, look at the condition, sleep. A wakeup in between is not lost.
 *	race_will_sleep(); if (!condition) race_sleep(); else race_awake();
 * A CPU that sleeps when all others have ended has lost its wakeup.
 */
void race_will_sleep(void);
void race_sleep(void);
void race_awake(void);
void race_wake(int cpu);

/* Memory that is given back by itself after each schedule. Use after race_free() and past the end are findings. */
void *race_alloc(unsigned long bytes);
void race_free(void *memory);

/* Barriers, for the weak models. Under --model sc they order nothing that is not ordered already. */
#define RACE_MB 0
#define RACE_RMB 1
#define RACE_WMB 2
#define RACE_ACQUIRE 3	/* after a load: what follows comes later */
#define RACE_RELEASE 4	/* before a store: what went before comes earlier */
#ifndef RACE_THREADS
void race_barrier(unsigned int kind);
#endif

/* Atomic operations. The order: of the old value's read and the new one's write. With `result` 0 nobody looks at the old value. */
#define RACE_ADD 0
#define RACE_AND 1
#define RACE_OR 2
#define RACE_XOR 3
#define RACE_SWAP 4
#define RACE_SWAP_IF 5	/* if the old value is `expected` */
#define RACE_NAND 6
#define RACE_RELAXED 0
#define RACE_ACQ 1
#define RACE_REL 2
#define RACE_FULL 3
#ifndef RACE_THREADS
unsigned long race_atomic(volatile void *at, unsigned int size, unsigned int op, unsigned long value, unsigned long expected,
			  unsigned int order, int result);
#else
#include <schedlab_threads.h>
#endif

/* Data that no operation changes in a way that others see: accesses to it are no points, and it is not put back after a schedule. */
#define RACE_PRIVATE __attribute__((section("race_private")))

#ifdef __cplusplus
}
#endif
#endif
