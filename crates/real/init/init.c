// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The only program of the guest: process 1. It prepares the system, starts the workload's tasks as real processes, waits,
// and hands everything recorded to the host through QEMU's debug console (port 0x502), in frames (see emit()).
//
//   boot | prepare | spawn the blocked | hold every CPU, spawn the runnable | marker, release: time 0 ... | marker | dump
//
// A task computes until its CPU time reaches a target. It must not ask the kernel for its CPU time meanwhile: that calls
// update_curr(), which on EEVDF ends a slice at the moment of the question and not at the next tick. So it reads the TSC
// within a restartable sequence (rseq): the kernel leaves the sequence whenever the task loses the CPU, hence the intervals
// between the readings are CPU time. After it has blocked or yielded (where the kernel's books are up to date anyway) the clock is
// read; a wakeup of another task, a fork or a change may leave the books as they are, and what it took is made good after the next.

#define _GNU_SOURCE
#ifdef ERRAND
#include <dirent.h>
#endif // ERRAND
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;

enum { PORT_OUT = 0x502, PORT_EXIT = 0xf4 };
enum { NONE = 0xffffffffu };
#define TRACEFS "/sys/kernel/tracing"
#define MS 1000000ull
#define SETTLE (1000 * MS)

// ---- the program, as crates/guest/src/program.rs writes it --------------------------------------------------------------

enum { MAGIC = 0x31504753 }; // "SGP1"
struct header {
	u32 magic, nr_tasks, nr_changes, nr_cgroups;
	u64 nr_steps, duration_ns, phase_ns, timer_slack_ns;
	u32 nr_tokens, nr_cpus, first_pid, interleave_us;
	u32 flags, pad;
};
enum { POLL_CLOCK = 1 };
enum { STATE_RUNNABLE, STATE_BLOCKED, STATE_FORKED };
struct task {
	char name[16];
	u32 state, change;
	u64 first_step;
	u32 idle_forever, pad;
};
enum { SET_PARAMS = 1, SET_AFFINITY = 2, SET_CGROUP = 4 };
enum { MASK_WORDS = 16 };
struct change {
	u32 target, what, policy;
	int nice;
	u32 rt_priority, cgroup;
	u64 runtime, deadline, period;
	u64 affinity[MASK_WORDS];
};
enum { CG_WEIGHT = 1, CG_MAX = 2, CG_CPUSET = 4 };
struct cgroup {
	char path[128];
	char cpuset[128];
	u32 what, weight;
	u64 quota_us, period_us;
};
enum { BLOCK_TIMER, BLOCK_DEVICE, BLOCK_TOKEN, BLOCK_FOREVER, DELIVER, FORK, SET, YIELD, EXIT,
       BLOCK_UNTIL, BLOCK_GRID, BLOCK_GRID_RESTART };
#ifdef EXEC
enum { EXECUTE = 12 };
#endif // EXEC
struct step {
	u64 after_ns;
	u64 packed; // code in the top byte, operand below
};

static const struct header *head;
static const struct task *tasks;
static const struct change *changes;
static const struct cgroup *cgroups;
static const struct step *steps;
static int *cgroup_fds;

// What the tasks share.
enum { MAX_REFUSED = 64 };
static struct shared {
	u32 live;     // tasks that have not done all yet
	u32 holding;  // CPUs held before the start
	u32 released; // the start has come
	u32 nr_refused;
	struct { u32 task, step_code; int error; u32 target; } refused[MAX_REFUSED];
	u32 tokens[];
} *shared;
static u64 *passes; // per task: how often it went through the loop of compute()
enum { PASS_INSTRUCTIONS = 407 };

// ---- output ---------------------------------------------------------------------------------------------------------------

#ifdef HOST // the same on the machine that it is started on: "runner PROGRAM OUTPUT", no emulator
static int out_fd;
static void out(const void *data, size_t length)
{
	if (write(out_fd, data, length) != (ssize_t)length)
		_exit(2);
}
#else
static void out(const void *data, size_t length)
{
	asm volatile("rep outsb" : "+S"(data), "+c"(length) : "d"(PORT_OUT) : "memory");
}
#endif

enum { F_FILE = 1, F_PAGES = 2, F_STATE = 3, F_ERROR = 4, F_END = 5 };

// A frame: "SGF1", kind, index, length of the name, length of the data (64 bits), name, data.
static void emit(u32 kind, u32 index, const char *name, const void *data, u64 length)
{
	struct { char magic[4]; u32 kind, index, name_length; u64 length; } frame = {
		{ 'S', 'G', 'F', '1' }, kind, index, strlen(name), length
	};
	out(&frame, sizeof frame);
	out(name, frame.name_length);
	out(data, length);
}

static void power_off(void)
{
#ifdef HOST
	_exit(0);
#endif
	outl(0, PORT_EXIT);
	for (;;)
		pause();
}

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	char text[512];
	va_list arguments;
	int error = errno;
	va_start(arguments, format);
	int length = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	snprintf(text + length, sizeof text - length, ": %s", strerror(error));
	emit(F_ERROR, 0, "init", text, strlen(text));
	power_off();
	__builtin_unreachable();
}

// ---- small helpers ----------------------------------------------------------------------------------------------------------

static char buffer[1 << 20];

static ssize_t read_file(const char *path, char *into, size_t room)
{
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	size_t length = 0;
	ssize_t got;
	while (length < room && (got = read(fd, into + length, room - length)) > 0)
		length += got;
	close(fd);
	return length;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	ssize_t done = write(fd, text, strlen(text));
	close(fd);
	return done < 0 ? -1 : 0;
}

static u64 clock_ns(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static struct timespec to_timespec(u64 ns)
{
	return (struct timespec){ ns / 1000000000ull, ns % 1000000000ull };
}

static void sleep_ns(u64 ns)
{
	struct timespec ts = to_timespec(ns);
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}

static void sleep_until(u64 ns)
{
	struct timespec ts = to_timespec(ns);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static void __attribute__((noreturn)) sleep_forever(void)
{
	for (;;)
		pause();
}

static long futex(u32 *word, int op, u32 value, const struct timespec *timeout, u32 bits)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, bits);
}

struct sched_attr_ {
	u32 size, sched_policy;
	u64 sched_flags;
	int sched_nice;
	u32 sched_priority;
	u64 sched_runtime, sched_deadline, sched_period;
};
enum { RESET_ON_FORK = 1 };

static int set_attr(pid_t pid, u32 policy, u64 flags, int nice, u32 priority, const struct change *dl)
{
	struct sched_attr_ attr = { sizeof attr, policy, flags, nice, priority, 0, 0, 0 };
	if (dl) {
		attr.sched_runtime = dl->runtime;
		attr.sched_deadline = dl->deadline;
		attr.sched_period = dl->period;
	}
	return syscall(SYS_sched_setattr, pid, &attr, 0);
}

// ---- computing --------------------------------------------------------------------------------------------------------------

static u64 tsc_per_ns; // in 1/2^32

static inline u64 rdtsc(void)
{
	u32 low, high;
	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

static u64 ns_of(u64 tsc)
{
	return ((unsigned __int128)tsc << 32) / tsc_per_ns;
}

static u64 tsc_of(u64 ns)
{
	return ((unsigned __int128)ns * tsc_per_ns) >> 32;
}

static void calibrate(void)
{
	u64 ns = clock_ns(CLOCK_MONOTONIC), tsc = rdtsc();
	while (clock_ns(CLOCK_MONOTONIC) - ns < 20 * MS)
		;
	u64 ns_end = clock_ns(CLOCK_MONOTONIC), tsc_end = rdtsc();
	tsc_per_ns = ((unsigned __int128)(tsc_end - tsc) << 32) / (ns_end - ns);
}

// Computes until `length` cycles have passed (true), or until the task has lost the CPU (false). Either way `*last - *first` is
// time on the CPU; both stay 0 if it was lost at once. The passes of 400 nops (0.8 us at 2 ns each) are long for the sake of the
// emulator: it counts whole blocks of instructions.
static int compute(struct rseq *rseq, u64 length, volatile u64 *first, volatile u64 *last, u64 *pass)
{
	*first = *last = 0;
	asm goto(
		".pushsection __rseq_cs, \"aw\"\n\t"
		".balign 32\n"
		"3:\n\t"
		".long 0, 0\n\t"
		".quad 1f, 2f - 1f, 4f\n\t"
		".popsection\n\t"
		".pushsection __rseq_abort, \"ax\"\n\t"
		".byte 0x0f, 0xb9, 0x3d\n\t"
		".long 0x53053053\n"
		"4:\n\t"
		"jmp %l[lost]\n\t"
		".popsection\n\t"
		"leaq 3b(%%rip), %%rax\n\t"
		"movq %%rax, (%[cs])\n"
		"1:\n\t"
		"rdtsc\n\t"
		"shlq $32, %%rdx\n\t"
		"orq %%rdx, %%rax\n\t"
		"movq %%rax, (%[first])\n\t"
		"movq %%rax, (%[last])\n\t"
		"leaq (%%rax, %[length]), %%rcx\n"
		"5:\n\t"
		".rept 400\n\tnop\n\t.endr\n\t"
		"incq (%[pass])\n\t"
		"rdtsc\n\t"
		"shlq $32, %%rdx\n\t"
		"orq %%rdx, %%rax\n\t"
		"movq %%rax, (%[last])\n\t"
		"cmpq %%rcx, %%rax\n\t"
		"jb 5b\n"
		"2:\n\t"
		:
		: [cs] "r"(&rseq->rseq_cs), [length] "r"(length), [first] "r"(first), [last] "r"(last), [pass] "r"(pass)
		: "rax", "rcx", "rdx", "memory", "cc"
		: lost);
	return 1;
lost:
	return 0;
}

// Computes from CPU time `now` to CPU time `target`. Less than half a pass is left to the next burst.
static void compute_until(u64 now, u64 target, u64 *pass)
{
	if (head->flags & POLL_CLOCK) { // as programs do that know no better; see the top
		while (now < target)
			now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		return;
	}
	struct rseq *rseq = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	while (now + 400 < target) {
		volatile u64 first, last;
		int complete = compute(rseq, tsc_of(target - now), &first, &last, pass);
		now += ns_of(last - first);
		if (complete)
			return;
	}
}

#ifdef NOTES
// ---- notes --------------------------------------------------------------------------------------------------------------------

// For a recording: what a task did at a token, written behind the call as the recorder's own programs write it. A line of the
// trace's marker: S (it has delivered) or R (it is past the wait), the token in hexadecimal digits.
enum { NOTES_FD = 200 }; // the same in every program that a task executes
static void open_notes(void)
{
	int fd = open(TRACEFS "/trace_marker", O_WRONLY);
	if (fd < 0 || dup2(fd, NOTES_FD) < 0)
		die("opening trace_marker");
	close(fd);
}

static void note(char what, u32 token)
{
	char text[9] = { what };
	for (int i = 8; i > 0; i--, token >>= 4)
		text[i] = "0123456789abcdef"[token & 15];
	if (write(NOTES_FD, text, sizeof text) < 0)
		die("writing trace_marker");
}

#endif // NOTES
// ---- tasks --------------------------------------------------------------------------------------------------------------------

static void refused(u32 task, u32 code, u32 target)
{
	int error = errno;
	u32 row = __atomic_fetch_add(&shared->nr_refused, 1, __ATOMIC_RELAXED);
	if (row < MAX_REFUSED) {
		shared->refused[row].task = task;
		shared->refused[row].step_code = code;
		shared->refused[row].error = error;
		shared->refused[row].target = target;
	}
}

static pid_t pid_of(u32 task)
{
	return head->first_pid + task;
}

static void apply(u32 by, u32 target, const struct change *change)
{
	pid_t pid = pid_of(target);
	if (change->what & SET_CGROUP) {
		char text[16];
		int length = snprintf(text, sizeof text, "%d", pid);
		int fd = openat(cgroup_fds[change->cgroup], "cgroup.procs", O_WRONLY);
		if (fd < 0 || write(fd, text, length) < 0)
			refused(by, SET, target);
		if (fd >= 0)
			close(fd);
	}
	// A deadline task's affinity cannot be changed; so before.
	if (change->what & SET_AFFINITY && syscall(SYS_sched_setaffinity, pid, sizeof change->affinity, change->affinity) < 0)
		refused(by, SET, target);
	if (change->what & SET_PARAMS &&
	    set_attr(pid, change->policy, 0, change->nice, change->rt_priority, change->runtime ? change : NULL) < 0)
		refused(by, SET, target);
}

static u64 zero_ns; // time 0 of the workload on CLOCK_MONOTONIC, set before any task is created

static void __attribute__((noreturn)) run(u32 id, u64 start_ns);
#ifdef EXEC
// A task that executes a new program starts this one anew, and goes on with the step behind. What it needs for that is in the
// argument: numbers, in this order. The rest lies in a file in memory, which stays open. The time from execve() to the next step
// is CPU time of the task that its steps do not ask for.
enum { GO_ON = 1, ID, STEP, TARGET, INSTANT, ZERO, TSC_PER_NS, SHARED_FD, OUT_FD, NR_CARRIED };
static u64 carried[NR_CARRIED]; // GO_ON: 1 in a task's second program and later ones
static char *program_path;
static int shared_fd;

static void share(size_t size)
{
	if (!carried[GO_ON]) {
		shared_fd = syscall(SYS_memfd_create, "shared", 0);
		if (shared_fd < 0 || ftruncate(shared_fd, size) < 0)
			die("memory for %u tasks that execute", head->nr_tasks);
	}
	if (mmap(shared, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, shared_fd, 0) == MAP_FAILED)
		die("sharing memory");
}

static void execute(u32 id, const struct step *next, u64 target, u64 instant_ns)
{
	u64 values[NR_CARRIED] = { [GO_ON] = 1, [ID] = id, [STEP] = next - steps, [TARGET] = target, [INSTANT] = instant_ns,
				   [ZERO] = zero_ns, [TSC_PER_NS] = tsc_per_ns, [SHARED_FD] = shared_fd };
#ifdef HOST
	values[OUT_FD] = out_fd;
#endif
	char text[NR_CARRIED * 21], *at = text;
	for (u32 i = 0; i < NR_CARRIED; i++)
		at += sprintf(at, "%llu ", (unsigned long long)values[i]);
	char *arguments[] = { "task", program_path, text, NULL }, *environment[] = { NULL };
	execve("/proc/self/exe", arguments, environment);
}

static void load_program(const char *path);

// Goes on, if this program was started by a task.
static void go_on(int nr_arguments, char **arguments)
{
	if (nr_arguments != 3 || strcmp(arguments[0], "task") != 0) {
#ifdef HOST
		program_path = arguments[1];
#else
		program_path = "/program"; // the kernel hands what it does not know of its command line to init
#endif
		return;
	}
	program_path = arguments[1];
	char *at = arguments[2];
	for (u32 i = 0; i < NR_CARRIED; i++)
		carried[i] = strtoull(at, &at, 10);
	zero_ns = carried[ZERO];
	tsc_per_ns = carried[TSC_PER_NS];
	shared_fd = carried[SHARED_FD];
#ifdef HOST
	out_fd = carried[OUT_FD];
#endif
	load_program(program_path);
	if (head->nr_cgroups)
		cgroup_fds = calloc(head->nr_cgroups, sizeof *cgroup_fds);
	for (u32 i = 0; i < head->nr_cgroups; i++) {
		char path[300];
		snprintf(path, sizeof path, "/cg%s", cgroups[i].path);
		cgroup_fds[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	run(carried[ID], 0);
}
#endif // EXEC

static pid_t spawn(u32 id, u64 start_ns)
{
	struct {
		u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
	} args = { 0 };
	pid_t pid = pid_of(id);
	const struct task *task = &tasks[id];
	args.exit_signal = SIGCHLD;
	args.set_tid = (u64)&pid;
	args.set_tid_size = 1;
	if (task->change != NONE && changes[task->change].what & SET_CGROUP) {
		args.flags = 0x200000000ull; // CLONE_INTO_CGROUP
		args.cgroup = cgroup_fds[changes[task->change].cgroup];
	}
	pid_t child = syscall(SYS_clone3, &args, sizeof args);
	if (child == 0)
		run(id, start_ns);
	return child;
}

static void done(void)
{
	if (__atomic_sub_fetch(&shared->live, 1, __ATOMIC_SEQ_CST) == 0)
		futex(&shared->live, FUTEX_WAKE, 1, NULL, 0);
}

// A DEADLINE task would run before time 0, since init holds the CPUs with less (FIFO 99): it sleeps until shortly after.
enum { LATE = 50000 };
static int starts_late(const struct task *task)
{
	return task->state == STATE_RUNNABLE && task->change != NONE && changes[task->change].what & SET_PARAMS &&
	       changes[task->change].policy == 6;
}

// A task's life. `start_ns` is time 0 on CLOCK_MONOTONIC for a task that is asleep at the start, else 0.
static void run(u32 id, u64 start_ns)
{
	const struct task *task = &tasks[id];
	const struct step *step = &steps[task->first_step];
	// the last instant that it set a timer for; before the first: of its birth
	u64 target = 0, instant_ns = task->state == STATE_FORKED ? clock_ns(CLOCK_MONOTONIC) : zero_ns;
	int booked = 0; // whether the kernel's books are up to date
	prctl(PR_SET_NAME, task->name);
#ifdef EXEC
	if (carried[GO_ON]) {
		carried[GO_ON] = 0; // its children begin at their beginning
		step = &steps[carried[STEP]];
		target = carried[TARGET];
		instant_ns = carried[INSTANT];
		goto go_on;
	}
#endif // EXEC
	if (starts_late(task))
		sleep_until(start_ns + LATE);
	if (task->state == STATE_FORKED && task->change != NONE) {
		struct change own = changes[task->change];
		own.what &= ~SET_CGROUP; // it was born there
		apply(id, id, &own);
	}
#ifdef EXEC
go_on:
#endif // EXEC
	for (;; step++) {
		u64 now = booked ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : target;
		target += step->after_ns;
		compute_until(now, target, &passes[id]);
		u32 code = step->packed >> 56;
		u64 operand = step->packed & ((1ull << 56) - 1);
		booked = code <= BLOCK_FOREVER || code == YIELD;
		switch (code) {
		case BLOCK_TIMER:
		case BLOCK_DEVICE:
			if (start_ns && task->state == STATE_BLOCKED)
				sleep_until(start_ns + operand);
			else
				sleep_ns(operand);
			break;
		case BLOCK_UNTIL:
			instant_ns += operand;
			booked = instant_ns > clock_ns(CLOCK_MONOTONIC);
			sleep_until(instant_ns);
			break;
		case BLOCK_GRID:
		case BLOCK_GRID_RESTART:
			instant_ns += operand;
			booked = instant_ns > clock_ns(CLOCK_MONOTONIC);
			if (booked)
				sleep_until(instant_ns);
			else if (code == BLOCK_GRID_RESTART)
				instant_ns = clock_ns(CLOCK_MONOTONIC);
			break;
		case BLOCK_TOKEN: {
			u32 *token = &shared->tokens[operand];
			booked = 0; // unless it has to wait
			while (!__atomic_load_n(token, __ATOMIC_ACQUIRE))
				booked |= futex(token, FUTEX_WAIT, 0, NULL, 0) == 0;
#ifdef NOTES
			note('R', operand);
#endif // NOTES
			break;
		}
		case BLOCK_FOREVER:
			if (!task->idle_forever)
				done();
			sleep_forever();
		case DELIVER:
			__atomic_store_n(&shared->tokens[operand], 1, __ATOMIC_RELEASE);
			futex(&shared->tokens[operand], FUTEX_WAKE, 1, NULL, 0);
#ifdef NOTES
			note('S', operand);
#endif // NOTES
			break;
		case FORK:
			if (spawn(operand, 0) < 0)
				refused(id, code, operand);
			break;
		case SET: {
			const struct change *change = &changes[operand];
			apply(id, change->target == NONE ? id : change->target, change);
			break;
		}
		case YIELD:
			sched_yield();
			break;
#ifdef EXEC
		case EXECUTE:
			execute(id, step + 1, target, instant_ns);
			refused(id, code, id);
			break;
#endif // EXEC
		default:
			done();
			_exit(0);
		}
#ifdef NOTES
		booked = 0; // what calls take comes on top, as in programs that are recorded elsewhere
#endif // NOTES
		if (start_ns && task->state == STATE_BLOCKED) // what it took to get to sleep before time 0 is not the workload's
			target = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		start_ns = 0;
	}
}

static pid_t holders[CPU_SETSIZE];
static u32 nr_holders;

// Keeps a CPU until the start.
static void hold(u32 cpu)
{
	pid_t child = fork();
	if (child < 0)
		die("forking the holder of CPU %u", cpu);
	if (child > 0) {
		holders[nr_holders++] = child;
		return;
	}
	cpu_set_t mask;
	CPU_ZERO(&mask);
	CPU_SET(cpu, &mask);
	prctl(PR_SET_NAME, "holder");
	if (sched_setaffinity(0, sizeof mask, &mask) < 0 || set_attr(0, SCHED_FIFO, RESET_ON_FORK, 0, 99, NULL) < 0)
		die("holding CPU %u", cpu);
	__atomic_add_fetch(&shared->holding, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&shared->released, __ATOMIC_ACQUIRE))
		;
	sleep_forever();
}

// ---- setting up and tearing down ------------------------------------------------------------------------------------------------

__attribute__((unused)) static void mount_all(void)
{
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/cg", 0755);
	if (mount("proc", "/proc", "proc", 0, NULL) < 0)
		die("mounting /proc");
	if (mount("sysfs", "/sys", "sysfs", 0, NULL) < 0)
		die("mounting /sys");
	if (mount("tracefs", TRACEFS, "tracefs", 0, NULL) < 0)
		die("mounting tracefs");
	if (mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL) < 0)
		die("mounting debugfs");
	if (mount("cgroup2", "/cg", "cgroup2", 0, NULL) < 0)
		die("mounting cgroup2");
}

static void load_program(const char *path)
{
	int fd = open(path, O_RDONLY);
	struct stat stat;
	if (fd < 0 || fstat(fd, &stat) < 0)
		die("opening /program");
	const char *at = mmap(NULL, stat.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (at == MAP_FAILED)
		die("mapping /program");
	close(fd);
	head = (const void *)at;
	at += sizeof *head;
	if (head->magic != MAGIC)
		die("/program has magic %x", head->magic);
	tasks = (const void *)at;
	at += head->nr_tasks * sizeof *tasks;
	changes = (const void *)at;
	at += head->nr_changes * sizeof *changes;
	cgroups = (const void *)at;
	at += head->nr_cgroups * sizeof *cgroups;
	steps = (const void *)at;
	size_t size = sizeof *shared + (head->nr_tokens + 1) / 2 * sizeof(u64);
	passes = (void *)size;
	size += head->nr_tasks * sizeof *passes;
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (shared == MAP_FAILED)
		die("memory for %u tokens", head->nr_tokens);
#ifdef EXEC
	share(size);
#endif // EXEC
	passes = (u64 *)((char *)shared + (size_t)passes);
}

__attribute__((unused)) static void online_cpus(void)
{
	for (u32 cpu = 1; cpu < head->nr_cpus; cpu++) {
		char path[64], state[2] = "";
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/online", cpu);
		read_file(path, state, 1);
		if (state[0] != '1' && write_file(path, "1") < 0)
			die("bringing up CPU %u", cpu);
	}
}

// All CPUs of the emulator share one thread; each in turn runs for its part of the time until the next timer is due, which may
// be a tick away (QEMU's rr_cpu_thread_fn, icount_percpu_budget). So a comparator of the HPET, which the kernel leaves alone
// (hpet=disable), runs out every `interleave_us`; it interrupts nobody, but no turn is longer.
__attribute__((unused)) static void interleave(void)
{
	enum { BASE = 0xfed00000, TICKS_PER_US = 100 };
	enum { PERIODIC = 8, SET_VALUE = 64 };
	int fd = open("/dev/mem", O_RDWR | O_SYNC);
	volatile u32 *hpet = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, BASE);
	if (hpet == MAP_FAILED)
		die("mapping the HPET");
	hpet[0x120 / 4] = PERIODIC | SET_VALUE;
	hpet[0x128 / 4] = head->interleave_us * TICKS_PER_US;
	hpet[0x120 / 4] = PERIODIC | SET_VALUE;
	hpet[0x12c / 4] = 0;
	hpet[0x10 / 4] = 1;
	close(fd);
}

__attribute__((unused)) static void apply_settings(void)
{
	ssize_t length = read_file("/settings", buffer, sizeof buffer - 1);
	if (length <= 0)
		return;
	buffer[length] = 0;
	for (char *line = strtok(buffer, "\n"); line; line = strtok(NULL, "\n")) {
		char *value = strchr(line, '=');
		if (!value)
			die("setting '%s' has no value", line);
		*value++ = 0;
		if (write_file(line, value) < 0)
			die("setting %s to '%s'", line, value);
	}
}

__attribute__((unused)) static void make_cgroups(void)
{
	char path[300], text[64];
	cgroup_fds = calloc(head->nr_cgroups + 1, sizeof *cgroup_fds);
	if (head->nr_cgroups && write_file("/cg/cgroup.subtree_control", "+cpu +cpuset") < 0)
		die("the controllers cpu and cpuset");
	for (u32 i = 0; i < head->nr_cgroups; i++) {
		const struct cgroup *group = &cgroups[i];
		snprintf(path, sizeof path, "/cg%s", group->path);
		// make missing parents too, and hand the controllers down to each
		for (char *slash = path + 4; *slash; slash++) {
			if (*slash != '/')
				continue;
			*slash = 0;
			mkdir(path, 0755);
			snprintf(text, sizeof text, "+cpu +cpuset");
			char control[330];
			snprintf(control, sizeof control, "%s/cgroup.subtree_control", path);
			write_file(control, text);
			*slash = '/';
		}
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			die("making control group %s", group->path);
		cgroup_fds[i] = open(path, O_RDONLY | O_DIRECTORY);
		if (cgroup_fds[i] < 0)
			die("opening control group %s", group->path);
		size_t end = strlen(path);
		if (group->what & CG_WEIGHT) {
			strcpy(path + end, "/cpu.weight");
			snprintf(text, sizeof text, "%u", group->weight);
			if (write_file(path, text) < 0)
				die("%s = %s", path, text);
		}
		if (group->what & CG_MAX) {
			strcpy(path + end, "/cpu.max");
			snprintf(text, sizeof text, "%llu %llu", (unsigned long long)group->quota_us,
				 (unsigned long long)group->period_us);
			if (write_file(path, text) < 0)
				die("%s = %s", path, text);
		}
		if (group->what & CG_CPUSET) {
			strcpy(path + end, "/cpuset.cpus");
			if (write_file(path, group->cpuset) < 0)
				die("%s = %s", path, group->cpuset);
		}
	}
}

static void start_task(u32 id, u64 start_ns)
{
	const struct task *task = &tasks[id];
	if (spawn(id, start_ns) < 0)
		die("starting task %u as process %d", id, pid_of(id));
	if (task->change != NONE) {
		struct change own = changes[task->change];
		own.what &= ~SET_CGROUP; // it was born there
		apply(id, id, &own);
	}
}

static void marker(const char *text)
{
#ifdef HOST
	return; // the trace's clock is CLOCK_MONOTONIC: it needs no marks
#endif
	static int fd = -1;
	if (fd < 0)
		fd = open(TRACEFS "/trace_marker", O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die("writing trace_marker");
}

static void emit_file(const char *name)
{
	char path[300];
	snprintf(path, sizeof path, "%s%s", name[0] == '/' ? "" : TRACEFS "/", name);
	ssize_t length = read_file(path, buffer, sizeof buffer);
	if (length < 0)
		die("reading %s", path);
	emit(F_FILE, 0, name, buffer, length);
}

// What the kernel itself says of each task: CPU time, run delay, number of times it got a CPU.
static void emit_schedstats(void)
{
	size_t length = 0;
	for (u32 id = 0; id < head->nr_tasks; id++) {
		char path[48], text[96];
		snprintf(path, sizeof path, "/proc/%d/schedstat", pid_of(id));
		ssize_t got = read_file(path, text, sizeof text);
		if (got <= 0)
			got = snprintf(text, sizeof text, "-\n"); // never started
		if (length + got > sizeof buffer) {
			emit(F_FILE, 0, "schedstat", buffer, length);
			length = 0;
		}
		memcpy(buffer + length, text, got);
		length += got;
	}
	emit(F_FILE, 0, "schedstat", buffer, length);
}

static void emit_rest(void);

__attribute__((unused)) static void dump(void)
{
	emit_file("/proc/version");
	emit_file("/proc/interrupts");
	emit_file("events/header_page");
	emit_file("events/header_event");
	emit_file("events/ftrace/print/format");
	emit_file("saved_cmdlines");
	emit_file("trace_clock");
	ssize_t length = read_file("/events", buffer, sizeof buffer - 1);
	buffer[length < 0 ? 0 : length] = 0;
	char *names = strdup(buffer), *rest;
	for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
		char path[200];
		snprintf(path, sizeof path, "events/%s/format", name);
		emit_file(path);
	}
	for (u32 cpu = 0; cpu < head->nr_cpus; cpu++) {
		char path[100];
		snprintf(path, sizeof path, "per_cpu/cpu%u/stats", cpu);
		emit_file(path);
		snprintf(path, sizeof path, TRACEFS "/per_cpu/cpu%u/trace_pipe_raw", cpu);
		int fd = open(path, O_RDONLY | O_NONBLOCK);
		if (fd < 0)
			die("opening %s", path);
		ssize_t got;
		while ((got = read(fd, buffer, 4096)) > 0)
			emit(F_PAGES, cpu, "", buffer, got);
		close(fd);
	}
	emit_rest();
}

// What is not a file of the system.
static void emit_rest(void)
{
	for (u32 id = 0; id < head->nr_tasks; id++)
		passes[id] *= PASS_INSTRUCTIONS;
	emit(F_FILE, 0, "instructions", passes, head->nr_tasks * sizeof *passes);
	emit(F_FILE, 0, "refused", shared->refused,
	     (shared->nr_refused < MAX_REFUSED ? shared->nr_refused : MAX_REFUSED) * sizeof shared->refused[0]);
	emit(F_END, shared->nr_refused, "", NULL, 0);
}

#ifdef HOST
static void prepare(char **arguments)
{
	out_fd = open(arguments[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (out_fd < 0)
		_exit(2);
	load_program(arguments[1]);
	cpu_set_t mask;
	CPU_ZERO(&mask);
	for (u32 cpu = 0; cpu < head->nr_cpus; cpu++)
		CPU_SET(cpu, &mask);
	if (sched_setaffinity(0, sizeof mask, &mask) < 0)
		die("keeping to %u CPUs", head->nr_cpus);
}

static void finish(u64 start_ns)
{
	emit(F_FILE, 0, "start", &start_ns, sizeof start_ns);
	emit_schedstats();
	for (u32 id = 0; id < head->nr_tasks; id++)
		kill(pid_of(id), SIGKILL); // ours: no other process could have that pid while they live
	for (u32 i = 0; i < nr_holders; i++)
		kill(holders[i], SIGKILL);
	set_attr(0, SCHED_OTHER, 0, 0, 0, NULL);
	while (wait(NULL) > 0)
		;
	emit_file("/proc/version");
	emit_rest();
}
#else
static void prepare(char **arguments)
{
	(void)arguments;
	if (iopl(3) < 0)
		exit(1);
	mount_all();
#ifdef NOTES
	open_notes();
#endif // NOTES
	load_program("/program");
	emit(F_STATE, 0, "booted", NULL, 0);
	if (head->interleave_us)
		interleave(); // before the CPUs come up, since they wait for each other
	online_cpus();
	apply_settings();
	make_cgroups();
}

static void finish(u64 start_ns)
{
	(void)start_ns;
	marker("end");
	write_file(TRACEFS "/tracing_on", "0");
	emit(F_STATE, 0, "ended", NULL, 0);
	emit_schedstats();
	kill(-1, SIGKILL);
	set_attr(0, SCHED_OTHER, 0, 0, 0, NULL);
	while (wait(NULL) > 0)
		;
	dump();
}
#endif

#ifdef ERRAND
// ---- an errand: programs in place of a workload ---------------------------------------------------------------------------

enum { MAX_WORDS = 200 };

// One line of /commands: words, each behind the last a tab. What it prints goes to /out/N.said; how it ended, to /out/N.status.
static void perform(u32 number, char *line)
{
	char *words[MAX_WORDS + 1], *rest, path[64], status[32];
	u32 count = 0;
	for (char *word = strtok_r(line, "\t", &rest); word && count < MAX_WORDS; word = strtok_r(NULL, "\t", &rest))
		words[count++] = word;
	words[count] = NULL;
	if (count == 0)
		return;
	pid_t pid = fork();
	if (pid < 0)
		die("starting %s", words[0]);
	if (pid == 0) {
		snprintf(path, sizeof path, "/out/%u.said", number);
		int said = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644), none = open("/dev/null", O_RDONLY);
		if (said < 0 || none < 0 || dup2(none, 0) < 0 || dup2(said, 1) < 0 || dup2(said, 2) < 0)
			_exit(126);
		execv(words[0], words);
		dprintf(2, "%s: %s\n", words[0], strerror(errno));
		_exit(127);
	}
	int how = 0;
	while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
		;
	snprintf(path, sizeof path, "/out/%u.status", number);
	snprintf(status, sizeof status, "%d\n", WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how));
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, status, strlen(status)) < 0)
		die("writing %s", path);
	close(fd);
}

// Each file in a folder, in parts that fit into the buffer.
static void emit_folder(const char *folder)
{
	DIR *entries = opendir(folder);
	if (!entries)
		die("reading %s", folder);
	for (struct dirent *entry; (entry = readdir(entries));) {
		char path[PATH_MAX];
		snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			emit_folder(path);
		if (entry->d_type != DT_REG)
			continue;
		int fd = open(path, O_RDONLY);
		if (fd < 0)
			die("opening %s", path);
		ssize_t got;
		while ((got = read(fd, buffer, sizeof buffer)) > 0)
			emit(F_FILE, 0, path, buffer, got);
		close(fd);
	}
	closedir(entries);
}

static void __attribute__((noreturn)) errand(void)
{
	if (iopl(3) < 0)
		exit(1);
	mount_all();
	if (mount("devtmpfs", "/dev", "devtmpfs", 0, NULL) < 0)
		die("mounting /dev");
	mkdir("/tmp", 01777);
	mkdir("/out", 0755);
	emit(F_STATE, 0, "booted", NULL, 0);
	sleep_ns(SETTLE);
	static char commands[1 << 16];
	if (read_file("/commands", commands, sizeof commands - 1) < 0)
		die("reading /commands");
	emit(F_STATE, 0, "started", NULL, 0);
	char *rest;
	u32 number = 0;
	for (char *line = strtok_r(commands, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		perform(number++, line);
	emit(F_STATE, 0, "ended", NULL, 0);
	emit_file("/proc/version");
	emit_folder("/out");
	emit(F_END, 0, "", NULL, 0);
	power_off();
	__builtin_unreachable();
}

#endif // ERRAND
int main(int nr_arguments, char **arguments)
{
	(void)nr_arguments;
#ifdef EXEC
	go_on(nr_arguments, arguments);
#endif // EXEC
#ifdef ERRAND
	errand();
#endif // ERRAND
	prepare(arguments);
	calibrate();
	sleep_ns(SETTLE); // the rest of the boot's work
	prctl(PR_SET_TIMERSLACK, head->timer_slack_ns);
	u32 nr_blocked = 0, nr_runnable = 0;
	for (u32 id = 0; id < head->nr_tasks; id++) {
		shared->live += !tasks[id].idle_forever;
		int asleep = tasks[id].state == STATE_BLOCKED || starts_late(&tasks[id]);
		nr_blocked += asleep;
		nr_runnable += tasks[id].state == STATE_RUNNABLE && !asleep;
	}
	// Time 0 is a multiple of 100 ms of CLOCK_MONOTONIC, plus the phase asked for; early enough for everything before it.
	u64 now_ns = clock_ns(CLOCK_MONOTONIC);
	u64 need_ns = 50 * MS + head->nr_cpus * 10 * MS + (nr_blocked + nr_runnable) * MS * head->nr_cpus;
	u64 start_ns = (now_ns + need_ns + 100 * MS) / (100 * MS) * (100 * MS) + head->phase_ns;
	zero_ns = start_ns;
	for (u32 id = 0; id < head->nr_tasks; id++)
		if (tasks[id].state == STATE_BLOCKED || starts_late(&tasks[id]))
			start_task(id, start_ns);
	// they go to sleep meanwhile
	u64 hold_ns = start_ns - (40 * MS + head->nr_cpus * 4 * MS + nr_runnable * MS / 2 * head->nr_cpus);
	sleep_until(hold_ns);
	cpu_set_t mask;
	CPU_ZERO(&mask);
	CPU_SET(0, &mask);
	if (sched_setaffinity(0, sizeof mask, &mask) < 0)
		die("going to CPU 0");
	for (u32 cpu = 1; cpu < head->nr_cpus; cpu++)
		hold(cpu);
	while (__atomic_load_n(&shared->holding, __ATOMIC_ACQUIRE) < head->nr_cpus - 1)
		sched_yield();
	if (set_attr(0, SCHED_FIFO, RESET_ON_FORK, 0, 99, NULL) < 0)
		die("becoming a real-time task");
	for (u32 cpu = 1; cpu < head->nr_cpus; cpu++)
		CPU_SET(cpu, &mask);
	if (sched_setaffinity(0, sizeof mask, &mask) < 0)
		die("leaving CPU 0");
	for (u32 id = 0; id < head->nr_tasks; id++)
		if (tasks[id].state == STATE_RUNNABLE && !starts_late(&tasks[id]))
			start_task(id, 0);
	marker("ready"); // the next one finds the file open
	emit(F_STATE, 0, "started", NULL, 0);
	now_ns = clock_ns(CLOCK_MONOTONIC);
	if (now_ns > start_ns) {
		errno = ETIME;
		die("starting %u tasks took %llu us longer than foreseen", head->nr_tasks,
		    (unsigned long long)(now_ns - start_ns) / 1000);
	}
	while (clock_ns(CLOCK_MONOTONIC) < start_ns)
		;
	marker("start");
	__atomic_store_n(&shared->released, 1, __ATOMIC_RELEASE);
	// a little more than asked for: the host cuts it to size by the trace's clock
	u64 end_ns = start_ns + head->duration_ns + MS;
	struct timespec end = to_timespec(end_ns);
	for (;;) {
		u32 live = __atomic_load_n(&shared->live, __ATOMIC_ACQUIRE);
		if (live == 0 || clock_ns(CLOCK_MONOTONIC) >= end_ns)
			break;
		futex(&shared->live, FUTEX_WAIT_BITSET, live, &end, FUTEX_BITSET_MATCH_ANY);
	}
	if (shared->live == 0)
		sleep_ns(2 * MS); // the last one is about to die
	finish(start_ns);
	power_off();
}
