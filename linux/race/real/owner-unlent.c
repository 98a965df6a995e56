/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Does the owner of a mutex that lends priority keep what it is lent when its own priority is lowered?
 *
 * "first" holds the mutex; "second" (SCHED_FIFO 20) and "waiter" (SCHED_FIFO 15) wait for it. When "first" gives it up,
 * "second" has it, and "waiter" waits for "second". Then "second" becomes SCHED_FIFO 5. It should have priority 15, as long
 * as it has the mutex. In the second part "waiter" comes when "second" has the mutex already. On one CPU:
 *
 *	gcc -pthread owner-unlent.c && sudo taskset -c 0 ./a.out
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t mutex;
static volatile int second_tid, has_it, may_go, waits_later;

static void be_fifo(int tid, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (sched_setscheduler(tid, SCHED_FIFO, &param))
		perror("sched_setscheduler"), exit(2);
}

/* The 18th field of /proc/PID/stat: -1 less the priority of a real-time task, what it is lent included. */
static int priority_of(int tid)
{
	char path[64], line[1024] = "";
	long priority = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	if (!file || !fgets(line, sizeof(line), file) ||
	    sscanf(strrchr(line, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %ld", &priority) != 1)
		perror(path), exit(2);
	fclose(file);
	return -1 - priority;
}

static void *second(void *nothing)
{
	second_tid = syscall(SYS_gettid);
	be_fifo(second_tid, 20);
	pthread_mutex_lock(&mutex);
	has_it = 1;
	while (!may_go)
		usleep(1000);
	pthread_mutex_unlock(&mutex);
	return nothing;
}

static void *waiter(void *nothing)
{
	be_fifo(syscall(SYS_gettid), 15);
	while (waits_later && !has_it)
		usleep(1000);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	return nothing;
}

static void part(int later)
{
	pthread_t threads[2];

	second_tid = has_it = may_go = 0;
	waits_later = later;
	pthread_mutex_lock(&mutex);
	pthread_create(&threads[0], NULL, second, NULL);
	pthread_create(&threads[1], NULL, waiter, NULL);
	usleep(50000);
	pthread_mutex_unlock(&mutex);
	usleep(50000);
	be_fifo(second_tid, 5);
	usleep(1000);
	printf("%s: it is SCHED_FIFO 5, a task of 15 waits for it, and it has priority %d\n",
	       later ? "the waiter came when it had the mutex" : "the waiter was there before", priority_of(second_tid));
	may_go = 1;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

int main(void)
{
	pthread_mutexattr_t attr;

	be_fifo(0, 50);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&mutex, &attr);
	part(0);
	part(1);
	return 0;
}
