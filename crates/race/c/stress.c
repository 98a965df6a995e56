/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What happens to a structure that many threads use at the same time, and what does each call cost? (`race --stress`, `race --cost`)
 *
 * After PRAcTISE (Falzoi, Lelli, Lipari 2012), figure 1. Each simulated CPU is a thread with a ready queue of its own. In each cycle
 *
 *	an event is drawn, or read		a task arrives | the first one ends | nothing
 *	the first task is over its deadline, or has run to its end?	it leaves
 *
 * and each time a task has come or left:
 *
 *	the first task is another one now?	preempt() or finish() of the structure, under the queue's lock
 *	pull					from a CPU with two tasks or more, if its second is worth more than our first: the one that
 *						pull_find() says, or each in turn
 *	two tasks or more? push			find() a CPU for the second, lock both queues, look again, move it
 *
 * The time of events is simulated: a cycle is one period, whatever it takes. So each CPU's stream of events follows from the seed, or the
 * file of events, alone; in which order the CPUs' calls happen is up to the machine. Now and then one thread locks all queues and compares
 * the structure with them.
 *
 *	stress NAME=NUMBER ...		results go to standard output, a line each; samples to the file `samples`
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <schedlab_race.h>

typedef uint64_t u64;

extern const struct race_target schedlab_race_target;
#define T schedlab_race_target

/* ---- options ---- */

static struct {
	long threads, cpus, cycles, period_ns, arrive_ppm, end_ppm, deadline_low_ns, deadline_high_ns, run_low_ns, run_high_ns;
	long seed, check_us, is_paced, limit_s;
	long measured;			/* a bit for each operation whose calls are measured, and one for what the structure measures */
	long span_ns;			/* of the file of events: then it begins again */
	const char *samples, *events;
} o = { .threads = 2, .cpus = 1, .cycles = 1000, .period_ns = 10000000, .arrive_ppm = 200000, .end_ppm = 100000,
	.deadline_low_ns = 10000000, .deadline_high_ns = 100000000, .run_low_ns = 5000000, .run_high_ns = 15000000, .seed = 1, .check_us = 50000, .limit_s = 60 };

static const struct { const char *name; long *at; } OPTIONS[] = {
	{ "threads", &o.threads }, { "cpus", &o.cpus }, { "cycles", &o.cycles }, { "period_ns", &o.period_ns },
	{ "arrive_ppm", &o.arrive_ppm }, { "end_ppm", &o.end_ppm }, { "seed", &o.seed },
	{ "deadline_low_ns", &o.deadline_low_ns }, { "deadline_high_ns", &o.deadline_high_ns },
	{ "run_low_ns", &o.run_low_ns }, { "run_high_ns", &o.run_high_ns },
	{ "check_us", &o.check_us }, { "is_paced", &o.is_paced }, { "measured", &o.measured }, { "limit_s", &o.limit_s },
	{ "span_ns", &o.span_ns },
};

static int read_options(char **words)
{
	for (; *words; words++) {
		char *value = strchr(*words, '=');
		size_t i;

		if (!value)
			return -1;
		*value++ = 0;
		if (!strcmp(*words, "samples") || !strcmp(*words, "events")) {
			*(**words == 's' ? &o.samples : &o.events) = value;
			continue;
		}
		for (i = 0; i < sizeof(OPTIONS) / sizeof(OPTIONS[0]) && strcmp(OPTIONS[i].name, *words); i++)
			;
		if (i == sizeof(OPTIONS) / sizeof(OPTIONS[0]))
			return -1;
		*OPTIONS[i].at = strtol(value, NULL, 10);
	}
	return 0;
}

/* ---- simulated CPUs ---- */

enum op { SET, CLEAR, FIND, PUSH, PULL, ENQUEUE, DEQUEUE, PULL_SET, PULL_FIND, NR_OPS };
static const char *const NAMES[NR_OPS] = { "set", "clear", "find", "push", "pull", "enqueue", "dequeue", "pull_set", "pull_find" };
enum { PRIORITY_MAX = 99, QUEUE_MAX = 256, SAMPLES_MAX = 1 << 20, TRIES = 3, MEASURES_MAX = 16 };
enum { AHEAD_MAX = 4 };			/* a CPU's time is at most so many cycles before another's */

struct sample { u64 start, cycles; uint32_t op, cpu; };

/* A task that comes: a line of the file of events, which is in order of CPU and time. */
struct event { u64 at_ns; long priority, deadline_ns, run_ns; u64 cpu; };

static struct cpu {
	unsigned int lock;
	int nr;				/* others look at it without the lock */
	struct ready { long key, left_ns; } tasks[QUEUE_MAX];	/* a heap: the first one at 0 */
	u64 random;
	long at;			/* the cycle it is in; others look at it */
	long told_first, told_second;	/* what the structures were told last */
	const char *calling;		/* the hook that this thread is in */
	const struct event *events, *next, *events_end;
	u64 events_from_ns;		/* when they began, this time */
	struct sample *samples;
	u64 nr_samples, nr_unkept, own_cycles, inner_cycles, nr_measured;
	u64 arrivals, ends, early_ends, misses, refused, pushes, pushed, pulls, calls[NR_OPS];
} __attribute__((aligned(128))) cpus[RACE_CPUS_MAX];

static int stopped;
static u64 checks;
static __thread int self = -1;
static __thread unsigned int spins;

int race_cpu(void) { return self; }
int race_is_weak(void) { return 0; }

void race_relax(void)
{
	__builtin_ia32_pause();
	if (++spins % 64 == 0)
		sched_yield();
}

/* Sleeping CPUs are rare in such structures: they look again and again. */
static unsigned int sleeping[RACE_CPUS_MAX];
void race_will_sleep(void) { __atomic_store_n(&sleeping[self], 1, __ATOMIC_SEQ_CST); }
void race_awake(void) { __atomic_store_n(&sleeping[self], 0, __ATOMIC_SEQ_CST); }
void race_wake(int cpu) { __atomic_store_n(&sleeping[cpu], 0, __ATOMIC_SEQ_CST); }
void race_sleep(void)
{
	while (__atomic_load_n(&sleeping[self], __ATOMIC_SEQ_CST) && !__atomic_load_n(&stopped, __ATOMIC_RELAXED))
		race_relax();
}

void *race_alloc(unsigned long bytes) { return calloc(1, bytes); }
void race_free(void *memory) { free(memory); }
void race_note(const char *format, ...) { (void)format; }

static void put(const char *format, ...)
{
	char text[1024];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (write(1, text, length) != length)
		_exit(2);
}

/* The first finding ends the process. */
static void __attribute__((noreturn)) found(const char *kind, const char *format, va_list args)
{
	static int is_first = 1;
	char text[512];

	if (!__atomic_exchange_n(&is_first, 0, __ATOMIC_SEQ_CST))
		for (;;)
			pause();
	vsnprintf(text, sizeof(text), format, args);
	put("%s %s\n", kind, text);
	_exit(strcmp(kind, "refused") ? 1 : 3);
}
#define FINDING(name, kind)			\
	void name(const char *format, ...)	\
	{					\
		va_list args;			\
		va_start(args, format);		\
		found(kind, format, args);	\
	}
FINDING(race_fail, "finding")
FINDING(race_warn, "finding")
FINDING(race_refuse, "refused")

/* The process ends: whoever is in a hook has not come back from it. */
static void out_of_time(int signal)
{
	char text[256];
	int at = 0;

	(void)signal;
	for (int cpu = 0; cpu < o.threads && at < (int)sizeof(text) - 40; cpu++)
		if (cpus[cpu].calling)
			at += snprintf(text + at, sizeof(text) - at, "%s cpu%d in %s()", at ? "," : ":", cpu, cpus[cpu].calling);
	put("finding a call does not return, or CPUs wait for each other, for %ld s%.*s\n", o.limit_s, at, text);
	_exit(1);
}

/* splitmix64 */
static u64 draw(struct cpu *c)
{
	u64 z = (c->random += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static long between(struct cpu *c, long low, long high)
{
	return low + (long)(draw(c) % (u64)(high - low + 1));
}

/* whether a task with key a goes before one with key b */
static int before(long a, long b)
{
	return T.least_first ? a < b : a > b;
}

/* ---- the ready queue: a heap ---- */

static int goes_before(const struct ready *a, const struct ready *b)
{
	return before(a->key, b->key);
}

/* A task in place `at`, which is free, or one above it. */
static void sift_up(struct cpu *c, int at, struct ready task)
{
	while (at && goes_before(&task, &c->tasks[(at - 1) / 2])) {
		c->tasks[at] = c->tasks[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	c->tasks[at] = task;
}

static long insert(struct cpu *c, struct ready task)
{
	sift_up(c, c->nr, task);
	__atomic_store_n(&c->nr, c->nr + 1, __ATOMIC_RELAXED);
	return 0;
}

static long erase(struct cpu *c, int at)
{
	struct ready last = c->tasks[c->nr - 1];

	__atomic_store_n(&c->nr, c->nr - 1, __ATOMIC_RELAXED);
	if (at == c->nr)
		return 0;
	for (;;) {
		int child = 2 * at + 1;

		if (child + 1 < c->nr && goes_before(&c->tasks[child + 1], &c->tasks[child]))
			child++;
		if (child >= c->nr || !goes_before(&c->tasks[child], &last))
			break;
		c->tasks[at] = c->tasks[child];
		at = child;
	}
	sift_up(c, at, last);
	return 0;
}

/* where the second task stands; there are two or more */
static int second(const struct cpu *c)
{
	return c->nr > 2 && goes_before(&c->tasks[2], &c->tasks[1]) ? 2 : 1;
}

long race_first(int cpu)
{
	return cpus[cpu].nr ? cpus[cpu].tasks[0].key : -1;
}

long race_second(int cpu)
{
	return cpus[cpu].nr > 1 ? cpus[cpu].tasks[second(&cpus[cpu])].key : -1;
}

/* ---- measuring ---- */

/*
 * CPUID RDTSC .. RDTSCP CPUID: nothing of what is measured happens before or after. In a virtual machine CPUID leaves it, for some 18,000
 * cycles, and the caches with it; there LFENCE keeps the order.
 */
static int is_guest;

static inline u64 begin(void)
{
	unsigned int low, high;

	if (is_guest)
		asm volatile("mfence\n\tlfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
	else
		asm volatile("xorl %%eax, %%eax\n\tcpuid\n\trdtsc" : "=a"(low), "=d"(high) : : "rbx", "rcx", "memory");
	return (u64)high << 32 | low;
}

static inline u64 end(void)
{
	unsigned int low, high;

	if (is_guest)
		asm volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high) : : "rcx", "memory");
	else
		asm volatile("rdtscp\n\tmovl %%eax, %0\n\tmovl %%edx, %1\n\txorl %%eax, %%eax\n\tcpuid"
			     : "=r"(low), "=r"(high) : : "rax", "rbx", "rcx", "rdx", "memory");
	return (u64)high << 32 | low;
}

/* `inner`: how many others were measured within it. */
static void keep(enum op op, u64 start, u64 stop, u64 inner)
{
	struct cpu *c = &cpus[self];

	c->nr_measured++;
	if (c->nr_samples == SAMPLES_MAX) {
		c->nr_unkept++;
		return;
	}
	u64 cycles = stop - start, own = c->own_cycles + inner * c->inner_cycles;
	c->samples[c->nr_samples++] =
		(struct sample){ start, cycles > own ? cycles - own : 0, op, (uint32_t)self };
}

/* `name`: the hook that is called, or NULL. */
#define MEASURED(op, name, call)				\
	({							\
		struct cpu *__c = &cpus[self];			\
		const char *__was = __c->calling;		\
		u64 __before = __c->nr_measured;		\
								\
		__c->calling = (name);				\
		u64 __start = o.measured & 1 << (op) ? begin() : 0; \
		__auto_type __result = (call);			\
		if (o.measured & 1 << (op))			\
			keep(op, __start, end(), __c->nr_measured - __before); \
		__c->calling = __was;				\
		__c->calls[op]++;				\
		__result;					\
	})

/* What a structure measures of itself: names, each a literal. */
static struct { const char *name; int is_time; } measures[MEASURES_MAX];

static void keep_measure(const char *name, int is_time, u64 start, u64 value)
{
	static unsigned int lock;
	int at;

	if (self < 0)
		return;
	for (at = 0; at < MEASURES_MAX && __atomic_load_n(&measures[at].name, __ATOMIC_ACQUIRE); at++)
		if (!strcmp(measures[at].name, name))
			break;
	if (at == MEASURES_MAX)
		race_refuse("more than %d measures: '%s' is one too many", MEASURES_MAX, name);
	if (!measures[at].name) {
		race_lock(&lock);
		for (at = 0; at < MEASURES_MAX && measures[at].name && strcmp(measures[at].name, name); at++)
			;
		if (at < MEASURES_MAX && !measures[at].name) {
			measures[at].is_time = is_time;
			__atomic_store_n(&measures[at].name, name, __ATOMIC_RELEASE);
		}
		race_unlock(&lock);
		if (at == MEASURES_MAX)
			race_refuse("more than %d measures: '%s' is one too many", MEASURES_MAX, name);
	}
	if (!is_time) {
		/* a number is kept as it is */
		struct cpu *c = &cpus[self];

		if (c->nr_samples == SAMPLES_MAX)
			c->nr_unkept++;
		else
			c->samples[c->nr_samples++] = (struct sample){ start, value, NR_OPS + at, (uint32_t)self };
		return;
	}
	keep(NR_OPS + at, start, start + value, 0);
}

int race_measures;

unsigned long race_clock_now(void)
{
	return begin();
}

void race_keep_time(const char *name, unsigned long since)
{
	keep_measure(name, 1, since, end() - since);
}

void race_keep_count(const char *name, unsigned long number)
{
	keep_measure(name, 0, __builtin_ia32_rdtsc(), number);
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* What a measurement of nothing takes, or of so many measurements of nothing: the median. */
static u64 own_cost(int inner)
{
	enum { N = 2001 };
	static __thread u64 all[N];

	for (int i = 0; i < N; i++) {
		u64 start = begin();

		for (int k = 0; k < inner; k++) {
			begin();
			end();
		}
		all[i] = end() - start;
	}
	qsort(all, N, sizeof(all[0]), compare);
	return all[N / 2];
}

static u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (u64)now.tv_sec * 1000000000 + (u64)now.tv_nsec;
}

/*
 * Both clocks at the same instant. Another program, or another virtual machine, may have the CPU between two readings: of many pairs
 * the one whose two readings of the TSC lie closest together counts.
 */
static void both_clocks(u64 *tsc, u64 *ns)
{
	u64 closest = ~0ul;

	for (int i = 0; i < 50; i++) {
		u64 before = __builtin_ia32_rdtsc(), now = now_ns(), after = __builtin_ia32_rdtsc();

		if (after - before < closest)
			closest = after - before, *tsc = before + closest / 2, *ns = now;
	}
}

/* Cycles of the TSC in a second, over 20 ms. */
static u64 tsc_hz(void)
{
	u64 tsc, ns, tsc_end, ns_end;

	both_clocks(&tsc, &ns);
	while (now_ns() < ns + 20000000)
		;
	both_clocks(&tsc_end, &ns_end);
	return (u64)((double)(tsc_end - tsc) * 1e9 / (double)(ns_end - ns));
}

/* Cycles of the TSC that 100,000 dependent multiplications take: of several times the least. It follows the clock of the processor. */
static u64 loop_cycles(void)
{
	u64 least = ~0ull;

	for (int i = 0; i < 20; i++) {
		u64 x = 3, start = begin(), cycles;

		for (int k = 0; k < 100000; k++)
			asm volatile("imulq %0, %0" : "+r"(x));
		cycles = end() - start;
		if (cycles < least)
			least = cycles;
	}
	return least;
}

/* ---- a cycle ---- */

/* The CPU's first task, or its second, is another one: the structures hear of it. Under the queue's lock. */
static void tell(int cpu)
{
	struct cpu *c = &cpus[cpu];
	long was = c->told_first, is = race_first(cpu);

	c->told_first = is;
	if (is != was && T.preempt) {
		if (is < 0 && T.finish)
			MEASURED(CLEAR, "finish", T.finish(cpu, -1));
		else if (was >= 0 && is >= 0 && before(was, is) && T.finish)
			MEASURED(SET, "finish", T.finish(cpu, is));
		else if (is < 0)
			MEASURED(CLEAR, "preempt", T.preempt(cpu, 0));
		else
			MEASURED(SET, "preempt", T.preempt(cpu, is));
	}
	was = c->told_second;
	is = race_second(cpu);
	c->told_second = is;
	if (is == was || !T.pull_preempt)
		return;
	if (is < 0 && T.pull_finish)
		MEASURED(PULL_SET, "pull_finish", T.pull_finish(cpu, -1));
	else if (was >= 0 && is >= 0 && before(was, is) && T.pull_finish)
		MEASURED(PULL_SET, "pull_finish", T.pull_finish(cpu, is));
	else
		MEASURED(PULL_SET, "pull_preempt", T.pull_preempt(cpu, is < 0 ? 0 : is));
}

/* A queue of the target's own is measured without ours, which is kept beside it. */
static void enqueue(struct cpu *c, struct ready task)
{
	if (!T.enqueue) {
		MEASURED(ENQUEUE, NULL, insert(c, task));
		return;
	}
	insert(c, task);
	MEASURED(ENQUEUE, "enqueue", T.enqueue((int)(c - cpus), task.key));
}

static struct ready take(struct cpu *c, int at)
{
	struct ready out = c->tasks[at];

	if (!T.dequeue) {
		MEASURED(DEQUEUE, NULL, erase(c, at));
		return out;
	}
	erase(c, at);
	MEASURED(DEQUEUE, "dequeue", T.dequeue((int)(c - cpus), out.key));
	return out;
}

/* Locks another queue, too; ours is given back for it where the order of locks wants that. */
static void lock_both(int other)
{
	if (other > self) {
		race_lock(&cpus[other].lock);
		return;
	}
	race_unlock(&cpus[self].lock);
	race_lock(&cpus[other].lock);
	race_lock(&cpus[self].lock);
}

/* Takes the second task of another CPU, if it is worth more than our first. Whether it was taken. Our queue is locked. */
static long pull_from(struct cpu *mine, int other)
{
	struct cpu *its = &cpus[other];
	long taken = 0;

	if (__atomic_load_n(&its->nr, __ATOMIC_RELAXED) < 2)
		return 0;
	lock_both(other);
	if (its->nr >= 2 && mine->nr < QUEUE_MAX) {
		long first = race_first(self);

		if (first < 0 || before(race_second(other), first)) {
			enqueue(mine, take(its, second(its)));
			tell(other);
			tell(self);
			taken = 1;
		}
	}
	race_unlock(&its->lock);
	return taken;
}

static long pull(struct cpu *mine)
{
	long taken = 0;

	if (T.pull_find) {
		long from = MEASURED(PULL_FIND, "pull_find", T.pull_find(self, race_first(self)));

		if (from < -1 || from >= o.threads)
			race_fail("pull_find() returns a CPU that is not there");
		return from < 0 || from == self ? 0 : pull_from(mine, (int)from);
	}
	for (int i = 1; i < o.threads; i++)
		taken += pull_from(mine, (self + i) % (int)o.threads);
	return taken;
}

/* Sends the second task to a CPU that the structure finds. Whether it went. Our queue is locked. */
static long push(struct cpu *mine)
{
	long key = mine->tasks[second(mine)].key;

	for (int i = 0; i < TRIES; i++) {
		long to = MEASURED(FIND, "find", T.find(self, key));
		long went = 0;

		if (to < -1 || to >= o.threads)
			race_fail("find() returns a CPU that is not there");
		if (to < 0 || to == self)
			return 0;
		struct cpu *its = &cpus[to];
		lock_both((int)to);
		/* our lock may have been given back: is it still our second, and worth more than what is there? */
		if (mine->nr >= 2 && mine->tasks[second(mine)].key == key && its->nr < QUEUE_MAX) {
			long was = race_first((int)to);

			if (was < 0 || before(key, was)) {
				enqueue(its, take(mine, second(mine)));
				tell((int)to);
				tell(self);
				went = 1;
			}
		}
		race_unlock(&its->lock);
		if (went)
			return 1;
		if (mine->nr < 2 || mine->tasks[second(mine)].key != key)
			return 0;
	}
	return 0;
}

/* A task has come or left: the structure hears of it, then figure 1's pull and push. */
static void changed(struct cpu *c)
{
	tell(self);
	c->pulls += (u64)MEASURED(PULL, NULL, pull(c));
	while (T.find && c->nr >= 2) {
		c->pushes++;
		if (!MEASURED(PUSH, NULL, push(c)))
			break;
		c->pushed++;
	}
}

static void on_activation(struct cpu *c, struct ready task)
{
	c->arrivals++;
	if (c->nr == QUEUE_MAX) {
		c->refused++;
		return;
	}
	enqueue(c, task);
	changed(c);
}

static void on_block(struct cpu *c)
{
	take(c, 0);
	changed(c);
}

/* Tasks that come in this cycle, as the file says. */
static void read_events(struct cpu *c, u64 until_ns)
{
	while (c->events < c->events_end) {
		const struct event *e = c->next;

		if (c->events_from_ns + e->at_ns >= until_ns)
			return;
		on_activation(c, (struct ready){ T.least_first ? (long)c->events_from_ns + e->deadline_ns : e->priority, e->run_ns });
		if (++c->next == c->events_end) {
			c->next = c->events;
			c->events_from_ns += (u64)o.span_ns;
		}
	}
}

static void draw_event(struct cpu *c, u64 now)
{
	u64 event = draw(c) % 1000000;
	long key = T.least_first ? (long)now + between(c, o.deadline_low_ns, o.deadline_high_ns) : between(c, 1, PRIORITY_MAX);
	struct ready new = { key, between(c, o.run_low_ns, o.run_high_ns) };

	if (event < (u64)o.arrive_ppm) {
		on_activation(c, new);
	} else if (event < (u64)(o.arrive_ppm + o.end_ppm) && c->nr) {
		c->early_ends++;
		on_block(c);
	}
}

static void cycle(struct cpu *c, long n)
{
	u64 now = (u64)n * (u64)o.period_ns;
	long left_ns = o.period_ns;

	race_lock(&c->lock);
	if (o.events)
		read_events(c, now + (u64)o.period_ns);
	else
		draw_event(c, now);
	/* one task after the other runs; who is over its deadline leaves */
	while (c->nr && left_ns) {
		struct ready *first = &c->tasks[0];
		long ran = first->left_ns < left_ns ? first->left_ns : left_ns;

		if (T.least_first && (u64)first->key <= now) {
			c->misses++;
			on_block(c);
			continue;
		}
		left_ns -= ran;
		first->left_ns -= ran;
		if (!first->left_ns) {
			c->ends++;
			on_block(c);
		}
	}
	race_unlock(&c->lock);
}

/* ---- threads ---- */

/* Register r15 of a kernel's target: this CPU's structure. */
static void set_base(int cpu)
{
	unsigned long base = (unsigned long)T.cpu_base + T.cpu_stride * (unsigned long)(cpu < 0 ? 0 : cpu);

	asm volatile("movq %0, %%r15" : : "r"(base));
}

static pthread_barrier_t start_line, all_here;

/* Waits for those who are behind. Where CPUs have few processors, one would else be seconds of simulated time before another. */
static long wait_for_others(long n)
{
	long least;

	if (o.threads > o.cpus) {
		/* who waits gives its processor to others */
		if (n)
			pthread_barrier_wait(&all_here);
		return n + AHEAD_MAX;
	}
	for (;;) {
		least = n;
		for (int i = 0; i < o.threads; i++) {
			long at = __atomic_load_n(&cpus[i].at, __ATOMIC_RELAXED);

			if (at < least)
				least = at;
		}
		if (n - least < AHEAD_MAX)
			return least + AHEAD_MAX;
		race_relax();
	}
}

static void *live(void *argument)
{
	int cpu = (int)(long)argument;
	struct cpu *c = &cpus[cpu];
	cpu_set_t mask;
	struct timespec due;

	CPU_ZERO(&mask);
	CPU_SET(cpu % (int)o.cpus, &mask);
	if (sched_setaffinity(0, sizeof(mask), &mask) < 0)
		race_refuse("a thread cannot be bound to CPU %d: %s", cpu % (int)o.cpus, strerror(errno));
	self = cpu;
	c->random = (u64)o.seed * 0xd1342543de82ef95ull + (u64)cpu * 0x2545f4914f6cdd1dull;
	if (o.measured) {
		c->samples = calloc(SAMPLES_MAX, sizeof(*c->samples));
		if (!c->samples)
			race_refuse("no memory for the samples");
		memset(c->samples, 0, SAMPLES_MAX * sizeof(*c->samples));
		c->own_cycles = own_cost(0);	/* its page faults are over, too */
		c->inner_cycles = own_cost(1) - c->own_cycles;
	}
	set_base(cpu);
	pthread_barrier_wait(&start_line);
	clock_gettime(CLOCK_MONOTONIC, &due);
	for (long n = 0, until = 0; n < o.cycles; n++) {
		__atomic_store_n(&c->at, n, __ATOMIC_RELAXED);
		if (n >= until)
			until = wait_for_others(n);
		cycle(c, n);
		if (o.is_paced) {
			due.tv_nsec += o.period_ns % 1000000000;
			due.tv_sec += o.period_ns / 1000000000 + due.tv_nsec / 1000000000;
			due.tv_nsec %= 1000000000;
			while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
				;
		}
	}
	__atomic_store_n(&c->at, o.cycles, __ATOMIC_RELAXED);
	__atomic_add_fetch(&stopped, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* With all queues locked nobody is at work: what the structure says must be what the queues say. */
static void check(void)
{
	int cpu;

	for (cpu = 0; cpu < o.threads; cpu++)
		race_lock(&cpus[cpu].lock);
	if (T.check)
		T.check();
	if (T.rest)
		T.rest();
	checks++;
	for (cpu = 0; cpu < o.threads; cpu++)
		race_unlock(&cpus[cpu].lock);
}

static void print_results(u64 hz, u64 loop, u64 wall_ns)
{
	struct cpu sum = { 0 };
	unsigned int eax, ebx, ecx = 0, edx = 0;

	for (int i = 0; i < o.threads; i++) {
		struct cpu *c = &cpus[i];

		sum.arrivals += c->arrivals, sum.ends += c->ends, sum.early_ends += c->early_ends, sum.misses += c->misses, sum.refused += c->refused;
		sum.pushes += c->pushes, sum.pushed += c->pushed, sum.pulls += c->pulls, sum.nr_unkept += c->nr_unkept;
		for (int op = 0; op < NR_OPS; op++)
			sum.calls[op] += c->calls[op];
	}
	put("arrivals %lu\nends %lu\nearly_ends %lu\nmisses %lu\nrefused_arrivals %lu\npushes %lu\npushed %lu\npulled %lu\n", sum.arrivals, sum.ends,
	    sum.early_ends, sum.misses, sum.refused, sum.pushes, sum.pushed, sum.pulls);
	put("checks %lu\nwall_ns %lu\nunkept %lu\n", checks, wall_ns, sum.nr_unkept);
	for (int op = 0; op < NR_OPS; op++)
		put("calls_%s %lu\n", NAMES[op], sum.calls[op]);
	if (!o.measured)
		return;
	put("tsc_hz %lu\ntsc_hz_end %lu\nloop_cycles %lu\nloop_cycles_end %lu\n", hz, tsc_hz(), loop, loop_cycles());
	put("tsc_invariant %d\n", __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) ? (int)(edx >> 8 & 1) : 0);
	put("is_guest %d\n", is_guest);
	for (int i = 0; i < o.threads; i++)
		put("own_cycles %lu\ninner_cycles %lu\n", cpus[i].own_cycles, cpus[i].inner_cycles);
	for (int i = 0; i < MEASURES_MAX && measures[i].name; i++)
		put("measure %s %s\n", measures[i].is_time ? "cycles" : "number", measures[i].name);
}

/* The file of events, and each CPU's part of it. */
static void open_events(void)
{
	FILE *file = fopen(o.events, "r");
	struct event *all;
	long bytes;

	if (!file || fseek(file, 0, SEEK_END) || (bytes = ftell(file)) < 0 || fseek(file, 0, SEEK_SET))
		race_refuse("the events cannot be read from %s: %s", o.events, strerror(errno));
	all = malloc((size_t)bytes + 1);
	if (!all || fread(all, 1, (size_t)bytes, file) != (size_t)bytes)
		race_refuse("the events cannot be read from %s", o.events);
	fclose(file);
	for (struct event *e = all; e < all + (size_t)bytes / sizeof(*all); e++) {
		struct cpu *c;

		if (e->cpu >= (u64)o.threads)
			race_refuse("an event of a CPU that is not there");
		c = &cpus[e->cpu];
		if (!c->events)
			c->events = c->next = e;
		c->events_end = e + 1;
	}
}

static int write_samples(void)
{
	FILE *file = fopen(o.samples, "w");

	if (!file)
		return -1;
	for (int i = 0; i < o.threads; i++)
		if (fwrite(cpus[i].samples, sizeof(struct sample), cpus[i].nr_samples, file) != cpus[i].nr_samples)
			return -1;
	return fclose(file);
}

int main(int nr, char **words)
{
	pthread_t threads[RACE_CPUS_MAX];
	u64 hz = 0, loop = 0, start_ns;
	unsigned int eax, ebx, ecx = 0, edx;

	(void)nr;
	if (read_options(words + 1) || o.threads < 1 || o.threads > RACE_CPUS_MAX || o.cpus < 1 || o.deadline_low_ns > o.deadline_high_ns ||
	    o.run_low_ns > o.run_high_ns)
		race_refuse("options that only its caller gives");
	if (!o.cycles) {
		/* what there is, for its caller */
		put("hook_preempt %d\nhook_finish %d\nhook_find %d\nleast_first %d\n", !!T.preempt, !!T.finish, !!T.find, !!T.least_first);
		return 0;
	}
	if (!T.preempt && !T.enqueue)
		race_refuse("%s: the target has no hook preempt() and no enqueue(), so there is nothing to call: "
			    "add one to RACE_TARGET() (schedlab race --header)", T.name ? T.name : "?");
	if (!T.enqueue != !T.dequeue)
		race_refuse("%s: the target has %s() and no %s(): a ready queue needs both in RACE_TARGET()", T.name ? T.name : "?",
			    T.enqueue ? "enqueue" : "dequeue", T.enqueue ? "dequeue" : "enqueue");
	if (!T.pull_find != !T.pull_preempt)
		race_refuse("%s: the target has %s() and no %s(): a structure for pull() needs both in RACE_TARGET()", T.name ? T.name : "?",
			    T.pull_find ? "pull_find" : "pull_preempt", T.pull_find ? "pull_preempt" : "pull_find");
	if (o.events)
		open_events();
	for (int cpu = 0; cpu < o.threads; cpu++)
		cpus[cpu].told_first = cpus[cpu].told_second = -1;
	signal(SIGALRM, out_of_time);
	alarm((unsigned int)o.limit_s);
	is_guest = __get_cpuid(1, &eax, &ebx, &ecx, &edx) ? (int)(ecx >> 31 & 1) : 0;
	race_measures = o.measured >> NR_OPS & 1;
	if (o.measured) {
		if (mlockall(MCL_CURRENT | MCL_FUTURE))
			put("unlocked %s\n", strerror(errno));
		hz = tsc_hz();
		loop = loop_cycles();
	}
	set_base(0);
	if (T.init && T.init((int)o.threads))
		race_refuse("init() says that the structure cannot be had");
	if (T.start)
		T.start();
	if (T.begin)
		T.begin();
	pthread_barrier_init(&start_line, NULL, (unsigned int)o.threads + 1);
	pthread_barrier_init(&all_here, NULL, (unsigned int)o.threads);
	for (long cpu = 0; cpu < o.threads; cpu++)
		if (pthread_create(&threads[cpu], NULL, live, (void *)cpu))
			race_refuse("thread %ld cannot be made", cpu);
	pthread_barrier_wait(&start_line);
	start_ns = now_ns();
	while (__atomic_load_n(&stopped, __ATOMIC_SEQ_CST) < o.threads) {
		struct timespec nap = { o.check_us / 1000000, o.check_us % 1000000 * 1000 };

		nanosleep(&nap, NULL);
		if (!o.measured)
			check();
	}
	for (int cpu = 0; cpu < o.threads; cpu++)
		pthread_join(threads[cpu], NULL);
	u64 wall_ns = now_ns() - start_ns;
	check();
	if (T.cleanup)
		T.cleanup();
	print_results(hz, loop, wall_ns);
	if (o.samples && write_samples()) {
		put("refused the samples cannot be written to %s: %s\n", o.samples, strerror(errno));
		return 3;
	}
	put("done\n");
	return 0;
}
