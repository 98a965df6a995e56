/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A CPU's own ready queue behind enqueue() and dequeue(). What its two samples share: the hooks, and what must hold.
 *
 *	queue_heap.c	an array heap (what PRAcTISE has)
 *	queue_rbtree.c	a red-black tree that knows its leftmost node (what Linux has)
 *
 * The lock of a CPU's queue is held while it is called (`race --stress`, `race --cost`); under the explorer a CPU may also send a task to
 * another one's queue, so that there is something to explore: `send KEY CPU`. Keys of a queue are different from each other in a scenario.
 */
#ifndef QUEUE_H
#define QUEUE_H
#include <schedlab_race.h>

enum { TASKS_MAX = 256 };

/* What a file says: an empty queue; put in; take one with this key out, 0: there is none; the least key, -1: empty; is it in order? */
static void queue_build(int cpu);
static void queue_insert(int cpu, long key);
static int queue_erase(int cpu, long key);
static long queue_first(int cpu);
static void queue_check(int cpu);

static int nr_cpus;
static int sizes[RACE_CPUS_MAX];	/* tasks in each queue */

/* Where CPUs are threads the runtime holds the lock already. */
#ifndef RACE_THREADS
static unsigned int locks[RACE_CPUS_MAX];
static void queue_lock(int cpu) { race_lock(&locks[cpu]); }
static void queue_unlock(int cpu) { race_unlock(&locks[cpu]); }
#else
static void queue_lock(int cpu) { (void)cpu; }
static void queue_unlock(int cpu) { (void)cpu; }
#endif

static int init(int cpus)
{
	nr_cpus = cpus;
	for (int cpu = 0; cpu < cpus; cpu++)
		queue_build(cpu);
	return 0;
}

static long enqueue(int cpu, long key)
{
	queue_lock(cpu);
	queue_insert(cpu, key);
	sizes[cpu]++;
	queue_unlock(cpu);
	return 0;
}

static long dequeue(int cpu, long key)
{
	int was_there;

	queue_lock(cpu);
	was_there = queue_erase(cpu, key);
	sizes[cpu] -= was_there;
	queue_unlock(cpu);
	if (!was_there)
		race_fail("a task that was put into the queue is not in it");
	return 0;
}

/* Both queues at once, the one of lower number locked first. */
static long send(int cpu, const long *args, int nr)
{
	(void)nr;
	int to = (int)args[1], low = cpu < to ? cpu : to, high = cpu < to ? to : cpu;

	if (to < 0 || to >= nr_cpus || to == cpu)
		race_refuse("send KEY CPU: another CPU of the scenario");
	queue_lock(low);
	queue_lock(high);
	if (queue_erase(cpu, args[0])) {
		sizes[cpu]--;
		queue_insert(to, args[0]);
		sizes[to]++;
	}
	queue_unlock(high);
	queue_unlock(low);
	return 0;
}

static const struct race_op ops[] = {
	{ "send", send, "KEY CPU: the task with this key goes to that CPU's queue, if it is in ours", 2 },
	{ 0 },
};

/* When nobody is at work. */
static void rest(void)
{
	for (int cpu = 0; cpu < nr_cpus; cpu++) {
		queue_check(cpu);
#ifdef RACE_THREADS
		if (queue_first(cpu) != race_first(cpu))
			race_fail("the first task of a queue is not the one with the least key");
#endif
	}
}

#define QUEUE_TARGET(its_name)									\
	RACE_TARGET(.name = its_name, .init = init, .enqueue = enqueue, .dequeue = dequeue, .rest = rest, .ops = ops, .least_first = 1, \
		    .scenario = "cpus 2\n"							\
				"first enqueue 50; enqueue 20; enqueue 70; enqueue 10; enqueue 60\n" \
				"cpu0 enqueue 30; dequeue 10; send 50 1\n"			\
				"cpu1 enqueue 15; enqueue 5; dequeue 15\n")
#endif
