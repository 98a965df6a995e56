/*
 * Somebody types, a screen is painted, sound plays, and something compiles in the background: what is recorded as
 * samples/interactive. A process or thread each:
 *
 *   editor      waits for a key (40..200 ms), works 1..4 ms, and hands every key to its spelling thread
 *   spell       wakes for each key, works 0.5..2 ms and answers; the editor waits for it   (task wakes task, both ways)
 *   painter     every 16.667 ms by the clock, works 2..6 ms                                (periodic, 60 Hz)
 *   audio       every 10 ms, works 0.3 ms, SCHED_FIFO 10 where that is allowed             (real time)
 *   background  works all the time; after 5 s it becomes nice 10, after 10 s it stays on one CPU, and now and then yields
 *   helper      a child of background every 500 ms that works 20 ms and exits              (fork and exit)
 *
 * Work is CPU time of the thread, so that a busy host makes it later and not more. Random numbers are seeded.
 *
 *   cc -O2 -pthread -o mix mix.c && ./mix 30
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll

static long long end_ns;

static long long now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void work_ns(long long ns)
{
	long long until = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
	static volatile unsigned sink;

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		for (int i = 0; i < 2000; i++)
			sink = sink * 31 + i;
}

static void sleep_until_ns(long long at)
{
	struct timespec t = { at / 1000000000ll, at % 1000000000ll };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int running(void)
{
	return now_ns(CLOCK_MONOTONIC) < end_ns;
}

/* Uniform in low..high, from a state of its own per task. */
static long long between(unsigned *state, long long low, long long high)
{
	*state = *state * 1664525u + 1013904223u;
	return low + (high - low) * (*state >> 8) / (1 << 24);
}

static int keys[2], answers[2];

static void *spell(void *unused)
{
	unsigned seed = 2;
	char key;

	prctl(PR_SET_NAME, "spell");
	while (read(keys[0], &key, 1) == 1) {
		work_ns(between(&seed, MS / 2, 2 * MS));
		if (write(answers[1], &key, 1) != 1)
			break;
	}
	return unused;
}

static void editor(void)
{
	unsigned seed = 1;
	pthread_t thread;
	char key = 'k';

	if (pipe(keys) || pipe(answers) || pthread_create(&thread, NULL, spell, NULL))
		exit(1);
	while (running()) {
		sleep_until_ns(now_ns(CLOCK_MONOTONIC) + between(&seed, 40 * MS, 200 * MS));
		work_ns(between(&seed, 1 * MS, 4 * MS));
		if (write(keys[1], &key, 1) != 1 || read(answers[0], &key, 1) != 1)
			exit(1);
		work_ns(MS / 4);
	}
	close(keys[1]);
	pthread_join(thread, NULL);
}

static void painter(void)
{
	unsigned seed = 3;
	long long next = now_ns(CLOCK_MONOTONIC);

	while (running()) {
		work_ns(between(&seed, 2 * MS, 6 * MS));
		next += 1000000000ll / 60;
		sleep_until_ns(next);
	}
}

static void audio(void)
{
	struct sched_param priority = { .sched_priority = 10 };
	long long next = now_ns(CLOCK_MONOTONIC);

	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		fprintf(stderr, "mix: audio stays an ordinary task (no right to SCHED_FIFO)\n");
	while (running()) {
		work_ns(3 * MS / 10);
		next += 10 * MS;
		sleep_until_ns(next);
	}
}

static void background(void)
{
	long long began = now_ns(CLOCK_MONOTONIC), helped = began;
	int niced = 0, bound = 0;

	while (running()) {
		long long age = now_ns(CLOCK_MONOTONIC) - began;

		work_ns(15 * MS);
		if (!niced && age > 5000 * MS)
			niced = !setpriority(PRIO_PROCESS, 0, 10);
		if (!bound && age > 10000 * MS) {
			cpu_set_t one;

			CPU_ZERO(&one);
			CPU_SET(0, &one);
			bound = !sched_setaffinity(0, sizeof(one), &one);
		}
		if (age / (100 * MS) % 2)
			sched_yield();
		if (now_ns(CLOCK_MONOTONIC) - helped > 500 * MS) {
			pid_t child = fork();

			if (child == 0) {
				prctl(PR_SET_NAME, "helper");
				work_ns(20 * MS);
				_exit(0);
			}
			helped = now_ns(CLOCK_MONOTONIC);
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
		}
	}
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } parts[] = {
		{ "editor", editor }, { "painter", painter }, { "audio", audio }, { "background", background },
	};

	end_ns = now_ns(CLOCK_MONOTONIC) + (argc > 1 ? atoll(argv[1]) : 30) * 1000 * MS;
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		pid_t child = fork();

		if (child == 0) {
			prctl(PR_SET_NAME, parts[i].name);
			parts[i].run();
			exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
