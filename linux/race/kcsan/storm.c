/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scenarios of linux/race do, at random and all at once, as the only program of a real kernel
 * (scripts/race-kcsan.sh, docs/race-scoreboard.md "Beside the kernel's own detector").
 *
 * It is the guest's init. WORKERS processes compute, sleep, wake each other, yield and fork; COMMANDERS of the highest
 * real-time priority change where and how the workers run. The kernel's command line says how long, and by which numbers:
 * `storm=SECONDS seed=NUMBER`. Then it says how often the kernel did each, at last "storm: N operations", and the machine
 * restarts. A kernel that hangs or dies never says that line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 12
#define COMMANDERS 3
#define GROUPS 3

/* What a commander does, and how often: moves between groups wait for grace periods, and a CPU's hotplug for seconds. */
enum operation { AFFINITY, CLASS, GROUP, QUOTA, WEIGHT, CPUS, PRESSURE, HOTPLUG, OPERATIONS };
static const char *const names[OPERATIONS] = {
	"affinity", "class", "group", "quota", "weight", "cpus", "pressure", "hotplug",
};
static const unsigned int shares[OPERATIONS] = { 400, 400, 40, 60, 40, 20, 30, 1 };

static const char *const groups[GROUPS] = { "/groups", "/groups/a", "/groups/b" };

/* Shared by all processes: each counts what it did of each operation that the kernel accepted. */
static struct {
	pid_t workers[WORKERS];
	int pipes[WORKERS][2];
	unsigned int cpus;
	unsigned long done[COMMANDERS][OPERATIONS];
} *shared;

static uint64_t state;

static unsigned int drawn(unsigned int below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 20) % below;
}

static void rest_us(unsigned int us)
{
	struct timespec time = { .tv_nsec = us * 1000L };

	nanosleep(&time, NULL);
}

static void compute_us(unsigned int us)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < us * 1000L);
}

/* Whether the kernel took it: a busy group or a full machine refuses much, which is no fault. */
static int wrote(const char *text, const char *folder, const char *file)
{
	char path[128];
	int fd, all;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return 0;
	all = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return all;
}

static void work(unsigned int me)
{
	char byte = 0;

	for (;;) {
		struct pollfd mine = { .fd = shared->pipes[me][0], .events = POLLIN };

		switch (drawn(8)) {
		case 0:
			sched_yield();
			break;
		case 1:
			if (!fork()) {
				compute_us(drawn(100));
				_exit(0);
			}
			break;
		case 2: case 3:
			if (write(shared->pipes[drawn(WORKERS)][1], &byte, 1) < 0 && errno != EAGAIN)
				_exit(1);
			break;
		case 4: case 5:
			if (poll(&mine, 1, 1 + drawn(4)) > 0 && read(mine.fd, &byte, 1) < 0 && errno != EAGAIN)
				_exit(1);
			break;
		case 6:
			rest_us(drawn(1000));
			break;
		default:
			compute_us(drawn(500));
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}

static int change_class(pid_t task)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime_ns, deadline_ns, period_ns;
	} to = { .size = sizeof(to) };

	switch (drawn(6)) {
	case 0: case 1:
		to.policy = drawn(2) ? SCHED_FIFO : SCHED_RR;
		to.priority = 1 + drawn(50);
		break;
	case 2: case 3:
		to.policy = SCHED_DEADLINE;
		to.runtime_ns = 100000 * (1 + drawn(10));
		to.deadline_ns = to.period_ns = 5000000 * (1 + drawn(4));
		break;
	default:
		to.policy = drawn(4) ? SCHED_OTHER : drawn(2) ? SCHED_BATCH : SCHED_IDLE;
		to.nice = (int)drawn(40) - 20;
	}
	return !syscall(SYS_sched_setattr, task, &to, 0);
}

static int change_affinity(pid_t task)
{
	unsigned long mask = 1 + drawn((1u << shared->cpus) - 1);

	return !syscall(SYS_sched_setaffinity, task, sizeof(mask), &mask);
}

static int turn_cpu(void)
{
	char folder[64];
	unsigned int cpu = 1 + drawn(shared->cpus - 1);
	int off;

	snprintf(folder, sizeof(folder), "/sys/devices/system/cpu/cpu%u", cpu);
	off = wrote("0", folder, "online");
	rest_us(drawn(20000));
	return wrote("1", folder, "online") && off;
}

static int read_pressure(void)
{
	char text[256];
	int fd = open("/proc/pressure/cpu", O_RDONLY), all;

	if (fd < 0)
		return 0;
	all = read(fd, text, sizeof(text)) > 0;
	close(fd);
	return all;
}

static int perform(enum operation operation)
{
	pid_t task = shared->workers[drawn(WORKERS)];
	const char *group = groups[1 + drawn(GROUPS - 1)];
	char text[64];
	unsigned int first;

	switch (operation) {
	case AFFINITY:
		return change_affinity(task);
	case CLASS:
		return change_class(task);
	case GROUP:
		snprintf(text, sizeof(text), "%d", task);
		return wrote(text, groups[drawn(GROUPS)], "cgroup.procs");
	case QUOTA:
		snprintf(text, sizeof(text), "%u %u", 1000 * (1 + drawn(8)), 5000 * (1 + drawn(2)));
		return wrote(drawn(4) ? text : "max", group, "cpu.max");
	case WEIGHT:
		snprintf(text, sizeof(text), "%u", 1 + drawn(1000));
		return wrote(text, group, "cpu.weight");
	case CPUS:
		first = drawn(shared->cpus);
		snprintf(text, sizeof(text), "%u-%u", first, first + drawn(shared->cpus - first));
		return wrote(text, group, "cpuset.cpus");
	case PRESSURE:
		return read_pressure();
	case HOTPLUG:
		return turn_cpu();
	default:
		return 0;
	}
}

static void command(unsigned int me)
{
	struct sched_param first = { .sched_priority = 99 };
	unsigned int all = 0, operation, share;

	sched_setscheduler(0, SCHED_FIFO, &first);
	for (operation = 0; operation < OPERATIONS; operation++)
		all += shares[operation];
	for (;;) {
		share = drawn(all);
		for (operation = 0; share >= shares[operation]; operation++)
			share -= shares[operation];
		shared->done[me][operation] += perform(operation);
		rest_us(drawn(1000));
	}
}

static pid_t begun(void (*what)(unsigned int), unsigned int me, uint64_t seed)
{
	pid_t pid = fork();

	if (!pid) {
		state = seed * 0x9e3779b97f4a7c15ull + 1;
		what(me);
	}
	return pid;
}

/* The number behind a word of the kernel's command line. */
static unsigned long asked(const char *line, const char *word, unsigned long otherwise)
{
	const char *at = strstr(line, word);

	return at ? strtoul(at + strlen(word), NULL, 10) : otherwise;
}

int main(void)
{
	char line[1024] = "";
	unsigned long seconds, seed, operation, all = 0;
	unsigned int task;
	int fd;

	mkdir("/proc", 0700);
	mkdir("/sys", 0700);
	mkdir("/groups", 0700);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("none", "/groups", "cgroup2", 0, NULL);
	wrote("+cpu +cpuset", "/groups", "cgroup.subtree_control");
	mkdir("/groups/a", 0700);
	mkdir("/groups/b", 0700);
	fd = open("/proc/cmdline", O_RDONLY);
	if (fd < 0 || read(fd, line, sizeof(line) - 1) < 0)
		printf("storm: no command line\n");
	seconds = asked(line, "storm=", 30);
	seed = asked(line, "seed=", 1);

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	shared->cpus = sysconf(_SC_NPROCESSORS_CONF);
	for (task = 0; task < WORKERS; task++)
		if (pipe2(shared->pipes[task], O_NONBLOCK))
			return 1;
	printf("storm: %lu s on %u CPUs, seed %lu\n", seconds, shared->cpus, seed);
	fflush(stdout);
	for (task = 0; task < WORKERS; task++)
		shared->workers[task] = begun(work, task, seed + task);
	for (task = 0; task < COMMANDERS; task++)
		begun(command, task, seed + WORKERS + task);
	{
		/* above the commanders, or it would never be its turn */
		struct sched_param first = { .sched_priority = 99 };

		sched_setscheduler(0, SCHED_FIFO, &first);
	}
	for (; seconds; seconds--)
		sleep(1);
	for (operation = 0; operation < OPERATIONS; operation++) {
		unsigned long done = 0;

		for (task = 0; task < COMMANDERS; task++)
			done += shared->done[task][operation];
		printf("storm: %s %lu\n", names[operation], done);
		all += done;
	}
	printf("storm: %lu operations\n", all);
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	return 0;
}
