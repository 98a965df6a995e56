// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rest of a kernel, as far as cpupri.c and cpudeadline.c call it. Each stub says what the kernel does, what we do, and what that
 * could falsify.
 */
#include "target.h"

int race_nr_cpus RACE_PRIVATE = 1;
struct warp_cpu race_cpus[RACE_CPUS_MAX] RACE_PRIVATE = { };
struct task_struct race_tasks[RACE_CPUS_MAX] RACE_PRIVATE = { };
struct cpumask race_masks[RACE_CPUS_MAX] RACE_PRIVATE = { };
unsigned int race_rq_locks[RACE_CPUS_MAX];

/* Kernel: set at boot and by hotplug. Ours: all CPUs of the scenario are there and active. Could falsify: races with hotplug. */
#if NR_CPUS == 1
#error "built for one CPU"
#endif
#ifndef nr_cpu_ids
unsigned int nr_cpu_ids RACE_PRIVATE = 1;
#endif
struct cpumask __cpu_possible_mask RACE_PRIVATE = { };
struct cpumask __cpu_present_mask RACE_PRIVATE = { };
struct cpumask __cpu_online_mask RACE_PRIVATE = { };
struct cpumask __cpu_active_mask RACE_PRIVATE = { };

void race_start(int cpus)
{
	int cpu;

	race_nr_cpus = cpus;
#ifndef nr_cpu_ids
	nr_cpu_ids = cpus;
#endif
	cpumask_clear(&__cpu_possible_mask);
	for (cpu = 0; cpu < cpus; cpu++) {
		race_cpus[cpu].id = cpu;
		race_cpus[cpu].curr = &race_tasks[cpu];
		race_cpus[cpu].irq_on = 1;
		__cpumask_set_cpu(cpu, &__cpu_possible_mask);
	}
	__cpu_present_mask = __cpu_online_mask = __cpu_active_mask = __cpu_possible_mask;
}

struct task_struct *race_task(int cpu, unsigned long allowed)
{
	struct task_struct *p = &race_tasks[cpu];

	p->cpus_ptr = &p->cpus_mask;
	cpumask_bits(&p->cpus_mask)[0] = allowed ? allowed : race_all();
	cpumask_clear(&race_masks[cpu]);
	return p;
}

/* Kernel: slabs. Ours: the explorer's memory, filled with zeros, which is put back after each schedule. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
void *__kmalloc_noprof(size_t size, gfp_t flags) { return race_alloc(size); }
void *__kmalloc_cache_noprof(struct kmem_cache *s, gfp_t flags, size_t size) { return race_alloc(size); }
#else
void *__kmalloc(size_t size, gfp_t flags) { return race_alloc(size); }
#endif
void kfree(const void *memory) { race_free((void *)memory); }

/* Kernel: another CPU gets a chance by itself. Ours: by being given it. */
void warp_relax(void) { race_relax(); }
/* Kernel: takes an interrupt. Ours: there is none. */
void warp_interrupt_kernel(void) { }

/* Kernel: a warning goes to the console, and it goes on. A panic ends it. Ours: both are findings, and end the schedule. */
void warn_slowpath_fmt(const char *file, const int line, unsigned taint, const char *fmt, ...)
{
	race_warn("kernel warning at %s:%d", file, line);
}
void __warn_printk(const char *fmt, ...) { race_warn("kernel warning: %s", fmt); }
void panic(const char *fmt, ...) { race_warn("kernel panic: %s", fmt); }

/* Kernel: as the machine is. Ours: all CPUs are equal. Could falsify: nothing that is asked for here. */
struct warp_cpu_topology warp_topology[NR_CPUS] RACE_PRIVATE = { [0 ... NR_CPUS - 1] = { .capacity = SCHED_CAPACITY_SCALE } };

/*
 * Kernel: each CPU has a run queue. Ours: one stands for all, and of it only the capacity is read (6.1, cpudl_find()). It is gone where nobody
 * asks for it. Could falsify: nothing, for capacities are equal, and decide in asymmetric machines alone.
 */
unsigned long __per_cpu_offset[NR_CPUS] RACE_PRIVATE = { };
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
DEFINE_PER_CPU_SHARED_ALIGNED(struct rq, runqueues) = { .cpu_capacity_orig = SCHED_CAPACITY_SCALE };
#endif

unsigned long __sw_hweight64(u64 w) { return __builtin_popcountl(w); }
unsigned int __sw_hweight32(unsigned int w) { return __builtin_popcount(w); }

/* Kernel: to the console. Ours: nowhere; what matters follows as a panic or warning. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 15, 0)
int _printk(const char *fmt, ...) { return 0; }
#else
int printk(const char *fmt, ...) { return 0; }
#endif
