/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Does a deadline task run again that left its class while it was held back? (docs/race.md, "On a real machine")
 *
 *	0 s	the task becomes a deadline task of 10 ms in each second, uses them up, overruns, and is held back
 *	.3 s	it becomes an ordinary task again
 *	1 s	its deadline timer comes, and finds no deadline task
 *	1.003 s	before its 0-lag time it becomes a deadline task again, while real-time tasks have all CPUs
 *
 * gcc held-back.c && sudo ./a.out: prints how often it counted in each second, and exits 1 if it never ran.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void become(pid_t task, struct attributes attributes)
{
	attributes.size = sizeof(attributes);
	if (syscall(SYS_sched_setattr, task, &attributes, 0)) {
		perror("sched_setattr (run it as root)");
		kill(task, SIGKILL);
		exit(2);
	}
}

/* A real-time task on this CPU: nobody of a lower class runs there meanwhile. */
static void take(int cpu)
{
	struct sched_param first = { .sched_priority = 50 };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || sched_setscheduler(0, SCHED_FIFO, &first)) {
		perror("SCHED_FIFO");
		_exit(2);
	}
}

int main(void)
{
	volatile uint64_t *count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct attributes deadline = { .policy = 6, .runtime_ns = 10000000, .deadline_ns = 1000000000, .period_ns = 1000000000 };
	struct attributes normal = { .policy = SCHED_OTHER };
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), ran = 0;
	double begin_s;
	pid_t task = fork();

	if (!task)
		for (;;)
			++*count;
	usleep(100000);
	begin_s = now_s();
	become(task, deadline);
	usleep(300000);
	become(task, normal);
	usleep(300000);
	for (int cpu = 1; cpu < cpus; cpu++)
		if (!fork()) {
			take(cpu);
			while (now_s() < begin_s + 1.5)
				;
			_exit(0);
		}
	take(0);
	while (now_s() < begin_s + 1.003)
		;
	become(task, deadline);
	for (int second = 1; second <= 3; second++) {
		uint64_t before = *count;

		usleep(2000000);
		printf("deadline again, second %d and %d: %llu\n", 2 * second - 1, 2 * second,
		       (unsigned long long)(*count - before));
		ran += *count != before;
	}
	become(task, normal);
	usleep(1000000);
	puts(ran ? "it ran" : "it never ran until its class changed");
	kill(task, SIGKILL);
	while (wait(NULL) > 0)
		;
	return ran ? 0 : 1;
}
