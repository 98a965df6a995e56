/* SPDX-License-Identifier: GPL-2.0-only */
/* What the port's own files share. */
#ifndef WARP_KERNEL_H
#define WARP_KERNEL_H
#include <linux/version.h>
#include <linux/sched.h>
#include <asm/cpu.h>
#include <warp_abi.h>

extern struct warp_abi warp_abi;
extern struct warp_boot warp_boot_info;

/* switch.S */
void warp_to_host(void);
void warp_ret_from_fork(void);
void warp_resume(struct warp_cpu *cpu);

/* process.c */
void warp_first_frame(void **sp, void *stack_page, void *entry);
static inline unsigned int warp_task_id(const struct task_struct *p)
{
	if (p->thread.id)
		return p->thread.id - 1;
	return p->pid ? WARP_TASK_KTHREAD | p->pid : WARP_TASK_IDLE;
}

#ifdef CONFIG_WARP_RACE
/* race_wait.c: the waker says so; the sleeper sets its state, and looks */
void warp_ask_wakeup(struct task_struct *p);
bool warp_may_sleep(unsigned int state);
static inline void warp_forget_wakeup(struct task_struct *p) { WRITE_ONCE(p->thread.woken, 0); }

/* race.c: a task blocks, waits for a device then, a task ends; race_check.c: what does not hold, or NULL */
void warp_race_block(void);
bool warp_race_waits(void);
extern struct task_struct *warp_race_owner;	/* of the scenario's mutex */
extern unsigned int warp_race_operations;	/* ops.c: under way, blocks and ends left out */
void warp_race_exit(void);
const char *warp_race_check(unsigned int at_rest);
/* nobody holds any queue's lock */
bool warp_race_all_free(void);
/* race_lists.c: the same of lists and of what is on its way */
const char *warp_race_queue_lists(int cpu);
const char *warp_race_task_lists(struct task_struct *p);
const char *warp_race_requests(void);
const char *warp_race_rest_lists(void);
/* race_state.c: what is kept twice agrees: a queue, a task, all queues, all CPUs at rest */
const char *warp_race_queue_state(int cpu);
const char *warp_race_task_state(struct task_struct *p, unsigned int at_rest);
const char *warp_race_all_state(void);
const char *warp_race_rest_state(bool at_end);
/* race_waits.c: who waits for a mutex; CPUs that idle beside tasks */
const char *warp_race_task_waits(struct task_struct *p, bool at_rest);
const char *warp_race_idle_beside(void);
/* race_locks.c: CPUs that spin for each other's locks; one that spins for a lock which another does not give */
const char *warp_race_deadlock(void);
const char *warp_race_spinner(void);
/* race_load.c: fair queues' averages, at the end of a scenario; a CPU is about to stand, and goes on */
const char *warp_race_load(void);
void warp_race_stands(bool goes_on);
/*
 * A task of the workload is found by its mailbox: one that exits is reaped, and in no list, before it leaves its CPU
 * for good; one that is being forked is in a list, and in no mailbox yet.
 */
static inline bool warp_in_box(struct task_struct *p)
{
	return p->thread.id && warp_boot_info.tasks[p->thread.id - 1].task == p;
}
#else
static inline void warp_ask_wakeup(struct task_struct *p) { }
static inline bool warp_may_sleep(unsigned int state)
{
	set_current_state(state);
	return true;	/* a task sleeps before anything else can happen */
}
static inline void warp_forget_wakeup(struct task_struct *p) { }
static inline void warp_race_block(void) { }
static inline bool warp_race_waits(void) { return false; }
static inline void warp_race_exit(void) { }
#endif

/* entry.c */
void __noreturn warp_user_mode(void);

/* ops.c */
long long warp_operation(struct warp_task *box);

/* files.c: need a process context */
long warp_file_write(const char *path, const void *data, unsigned long len);
long warp_file_read(const char *path, void *buf, unsigned long size);
long warp_file_list(const char *path, char *buf, unsigned long size);
long warp_file_mkdir(const char *path, unsigned int mode);
long warp_file_rmdir(const char *path);
long warp_file_mount(const char *type, const char *dir, const char *options);

/* time.c */
void warp_clockevent_init(void);
void warp_timer_interrupt(void);

/* watch.c */
void warp_watch(unsigned int event, struct task_struct *a, struct task_struct *b, int cpu);

/* may_run.c */
extern bool warp_holds;
void warp_hold_watch(void);
void warp_hold_check(struct task_struct *p);
void warp_hold_moved(struct task_struct *p, int to);
void warp_allowed_new(struct task_struct *p);
void warp_log_allowed(struct task_struct *p, const struct cpumask *asked);
void warp_log_allowed_all(void);

/* coverage.c */
unsigned long warp_coverage(unsigned int n, const char **name, char *out, unsigned long room);
void warp_coverage_reset(void);

/* kasan.c */
#ifdef CONFIG_KASAN
int warp_kasan_map(void);
#else
static inline int warp_kasan_map(void) { return 0; }
#endif

/* log.c */
void warp_log_cpu(bool up);
void warp_log_params(struct task_struct *p, bool affinity);
void warp_log_note(struct task_struct *p, u32 note, u8 flags, u64 value);
void warp_task_stats(struct warp_task *box);
unsigned int warp_threads(struct warp_thread *out, unsigned int max);
#endif
