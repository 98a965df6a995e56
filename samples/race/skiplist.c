/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A skip list of CPUs, the latest deadline first, under a lock (Pugh, 1990).
 *
 *	level 2   head ------------------> cpu3 ----------> end
 *	level 1   head ---------> cpu1 --> cpu3 ----------> end
 *	level 0   head -> cpu0 -> cpu1 --> cpu3 --> cpu2 -> end
 *	                  free     90 ms    70 ms    20 ms
 *
 * A CPU is taken out and put in again with a drawn height. `schedlab race samples/race/skiplist.c`
 */
#include "latest.h"

enum { LEVELS = 6, HEAD = RACE_CPUS_MAX, END = -1 };

static _Atomic int next[RACE_CPUS_MAX + 1][LEVELS];	/* CPUs; HEAD's: the first ones */
static int height[RACE_CPUS_MAX + 1];
static unsigned int random_state;

/* 1 with a chance of one half, 2 of one quarter, ... */
static int draw_height(void)
{
	int levels = 1;

	random_state = random_state * 1664525u + 1013904223u;
	for (unsigned int bits = random_state >> 16; (bits & 1) && levels < LEVELS; bits >>= 1)
		levels++;
	return levels;
}

/* In each level the last one that stands before `cpu`'s deadline: later ones, and of equal ones those of lower number. */
static void find_before(int cpu, long key, int before[LEVELS])
{
	int at = HEAD;

	for (int level = LEVELS - 1; level >= 0; level--) {
		for (int n; (n = next[at][level]) != END; at = n)
			if (deadline[n] < key || (deadline[n] == key && n >= cpu))
				break;
		before[level] = at;
	}
}

static void insert(int cpu, long key)
{
	int before[LEVELS];

	find_before(cpu, key, before);
	height[cpu] = draw_height();
	for (int level = 0; level < height[cpu]; level++) {
		next[cpu][level] = next[before[level]][level];
		next[before[level]][level] = cpu;
	}
}

static void build(void)
{
	random_state = 1;
	for (int level = 0; level < LEVELS; level++)
		next[HEAD][level] = END;
	for (int i = 0; i < nr_cpus; i++)
		insert(i, FREE);
}

static void change(int cpu, long key)
{
	int before[LEVELS];
	unsigned long since = race_clock();

	race_lock(&lock);
	race_time("wait for the lock", since);
	change_begins();
	find_before(cpu, deadline[cpu], before);
	for (int level = 0; level < height[cpu]; level++)
		next[before[level]][level] = next[cpu][level];
	deadline[cpu] = key;
	insert(cpu, key);
	change_ends();
	race_unlock(&lock);
}

static int latest(void)
{
	int first = next[HEAD][0];

	/* while the only CPU is taken out there is none; the search looks again */
	return first == END ? 0 : first;
}

LATEST_TARGET("skiplist");
