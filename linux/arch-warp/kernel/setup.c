/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Power-on: what the simulator tells about the machine, memory, console, topology; and the exported table.
 */
#include <linux/console.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 14, 0)
#include <linux/panic_notifier.h>
#endif
#include <linux/reboot.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/start_kernel.h>
#include <linux/utsname.h>
#include <asm/sections.h>
#include <asm/setup.h>
#include "versions.h"
#include "warp.h"

static_assert(sizeof(struct warp_cpu) == 128);
static_assert(sizeof(struct warp_task) == 128);
static_assert(sizeof(struct warp_record) == 32);
static_assert(sizeof(struct warp_entity) == 112);
static_assert(NR_CPUS <= 65536);	/* warp_record.cpu */

extern const char warp_text_start[], warp_text_end[];

struct warp_boot warp_boot_info;
volatile unsigned long long warp_now_ns;
struct warp_cpu warp_cpus[NR_CPUS];
struct warp_cpu_topology warp_topology[NR_CPUS];
static unsigned int warp_kick[NR_CPUS];
unsigned long memory_start, memory_end;
#ifdef WARP_OWN_ZERO_PAGE
void *empty_zero_page;
#endif
#ifdef CONFIG_NUMA
struct cpumask warp_node_cpus[MAX_NUMNODES];
struct pglist_data warp_node0;
/* from 7.0 on written with NUMA, too, but defined without */
struct page *mem_map __weak;
unsigned long max_mapnr __weak;
/* /proc/PID/numa_maps, without an MMU */
extern const struct file_operations proc_pid_numa_maps_operations;
const struct file_operations proc_pid_numa_maps_operations __weak = { };
/* Stands for the page table walks of mm/mempolicy.c (warp.lds.S); unreachable. */
void warp_no_mmu(void);
void warp_no_mmu(void) { BUG(); }
#ifdef WARP_OWN_NODE_DATA
struct pglist_data *node_data[MAX_NUMNODES];
#endif
#endif

/* ---- console and end of the world ---- */

static void warp_console_write(struct console *con, const char *text, unsigned int len)
{
	warp_this->call_text = text;
	warp_this->call_len = len;
	warp_call(WARP_CALL_PRINT);
}
static struct console warp_console = {
	.name = "warp",
	.write = warp_console_write,
	.flags = CON_PRINTBUFFER | CON_ENABLED | CON_ANYTIME,
	.index = -1,
};

static void __noreturn warp_end(unsigned int call, const char *text)
{
	warp_this->call_text = text;
	warp_this->call_len = strlen(text);
	for (;;)
		warp_call(call);
}

static int warp_on_panic(struct notifier_block *nb, unsigned long event, void *reason)
{
	warp_end(WARP_CALL_PANIC, reason);
}
static struct notifier_block warp_panic_block = { .notifier_call = warp_on_panic };

void machine_restart(char *command) { warp_end(WARP_CALL_HALT, "restart"); }
void machine_halt(void) { warp_end(WARP_CALL_HALT, "halt"); }
void machine_power_off(void) { warp_end(WARP_CALL_HALT, "power off"); }
void (*pm_power_off)(void);

/* ---- topology ---- */

/* One mask per group of CPUs that agree in package and, as deep as `depth` says, in llc, cluster, core. */
static bool __init warp_same(const struct warp_topo *a, const struct warp_topo *b, int depth)
{
	return a->package == b->package && (depth < 1 || a->llc == b->llc) &&
	       (depth < 2 || a->cluster == b->cluster) && (depth < 3 || a->core == b->core);
}

static struct cpumask **__init warp_mask_slot(int cpu, int depth)
{
	struct warp_cpu_topology *t = &warp_topology[cpu];

	return depth == 0 ? &t->package : depth == 1 ? &t->llc : depth == 2 ? &t->cluster : &t->smt;
}

static void __init warp_setup_topology(void)
{
	const struct warp_topo *topo = warp_boot_info.topo;
	int nr = warp_boot_info.nr_cpus;
	/* at most as many groups as CPUs at each of four levels; one allocation, because early ones are few */
	struct cpumask *mask = memblock_alloc(4 * nr * sizeof(*mask), SMP_CACHE_BYTES);

	for (int depth = 0; depth < 4; depth++) {
		for (int first = 0; first < nr; first++) {
			if (*warp_mask_slot(first, depth))
				continue;
			for (int cpu = first; cpu < nr; cpu++) {
				if (!warp_same(&topo[first], &topo[cpu], depth))
					continue;
				cpumask_set_cpu(cpu, mask);
				*warp_mask_slot(cpu, depth) = mask;
			}
			mask++;
		}
	}
	for (int cpu = 0; cpu < nr; cpu++) {
		warp_topology[cpu].core_id = topo[cpu].core;
		warp_topology[cpu].cluster_id = topo[cpu].cluster;
		warp_topology[cpu].package_id = topo[cpu].package;
		warp_topology[cpu].node = topo[cpu].node;
		warp_topology[cpu].capacity = topo[cpu].capacity;
	}
}

#ifdef CONFIG_NUMA
int warp_node_distance(int a, int b)
{
	return warp_boot_info.distance[a * warp_boot_info.nr_nodes + b];
}

/*
 * Kernel: firmware says which memory and which CPUs a node has. Ours: node 0 has all memory, the others have CPUs only,
 * as on machines with memoryless nodes.
 * Could falsify: nothing in the scheduler's decisions, which look at CPUs, distances and (not here) NUMA balancing.
 */
static void __init warp_setup_nodes(void)
{
	nodes_clear(node_possible_map);
	nodes_clear(node_online_map);
	for (unsigned int node = 0; node < warp_boot_info.nr_nodes; node++) {
		node_set(node, node_possible_map);
		node_set_online(node);
		NODE_DATA(node) = node ? memblock_alloc(sizeof(struct pglist_data), SMP_CACHE_BYTES) : &warp_node0;
	}
	for (int cpu = 0; cpu < warp_boot_info.nr_cpus; cpu++)
		cpumask_set_cpu(cpu, &warp_node_cpus[warp_topology[cpu].node]);
	memblock_set_node(0, PHYS_ADDR_MAX, &memblock.memory, 0);
	setup_nr_node_ids();
}
#else
static void __init warp_setup_nodes(void) { }
#endif

/* ---- the kernel's questions during boot ---- */

void __init setup_arch(char **command_line)
{
#if WARP_OWN_ZONE_INIT
	unsigned long limit[MAX_NR_ZONES] = { 0 };
#endif
	int cpu;

	*command_line = boot_command_line;
	memblock_add(__pa(memory_start), memory_end - memory_start);
	min_low_pfn = PFN_UP(__pa(memory_start));
	max_low_pfn = max_pfn = PFN_DOWN(__pa(memory_end));
	register_console(&warp_console);
	atomic_notifier_chain_register(&panic_notifier_list, &warp_panic_block);
	for (cpu = 0; cpu < NR_CPUS; cpu++) {
		set_cpu_possible(cpu, cpu < warp_boot_info.nr_cpus);
		set_cpu_present(cpu, cpu < warp_boot_info.nr_cpus);
	}
	warp_setup_topology();
	warp_setup_nodes();
#ifdef WARP_OWN_ZERO_PAGE
	empty_zero_page = memblock_alloc(PAGE_SIZE, PAGE_SIZE);
#endif
#if WARP_OWN_ZONE_INIT
	limit[ZONE_NORMAL] = max_low_pfn;
	free_area_init(limit);
#endif
	parse_early_param();
#ifdef CONFIG_KASAN
	warp_kasan_init();
#endif
}

#if WARP_OWN_MEM_INIT
void __init mem_init(void) { memblock_free_all(); }
#endif
#if !WARP_OWN_ZONE_INIT
void __init arch_zone_limits_init(unsigned long *limit) { limit[ZONE_NORMAL] = max_low_pfn; }
#endif

/* Kernel: give back the memory of init code. Ours: it is the library's, and some of it is still used (files.c). */
void free_initmem(void) { }
void __init init_IRQ(void) { }
void __init trap_init(void) { }
void calibrate_delay(void) { loops_per_jiffy = 1000000; }
void __udelay(unsigned long usecs) { }
void __ndelay(unsigned long nsecs) { }
void __const_udelay(unsigned long usecs) { }
void __delay(unsigned long loops) { }
int arch_show_interrupts(struct seq_file *p, int prec) { return 0; }
const struct seq_operations cpuinfo_op;

/* ---- the exported table ---- */

static int warp_power_on(const struct warp_boot *boot)
{
	if (!boot->nr_cpus || boot->nr_cpus > NR_CPUS || !boot->now_ns || warp_boot_info.nr_cpus ||
	    !boot->nr_nodes || boot->nr_nodes > MAX_NUMNODES || warp_kasan_map())
		return -1;
	warp_boot_info = *boot;
	memory_start = (unsigned long)boot->memory;
	memory_end = memory_start + boot->memory_size;
	strscpy(boot_command_line, boot->command_line, COMMAND_LINE_SIZE);
	warp_now_ns = boot->now_ns;
	warp_cpus[0].curr = &init_task;
	warp_cpus[0].online = 1;
	for (int cpu = 0; cpu < NR_CPUS; cpu++) {
		warp_cpus[cpu].id = cpu;
		warp_cpus[cpu].deadline_ns = ~0ULL;
	}
	warp_first_frame(&warp_cpus[0].sp, init_task.stack, start_kernel);
	return 0;
}

static struct warp_watch warp_watch_state;

struct warp_abi warp_abi = {
	.version = WARP_ABI_VERSION,
	.sizeof_abi = sizeof(struct warp_abi),
	.sizeof_cpu = sizeof(struct warp_cpu),
	.sizeof_task = sizeof(struct warp_task),
	.sizeof_record = sizeof(struct warp_record),
	.sizeof_topo = sizeof(struct warp_topo),
	.sizeof_boot = sizeof(struct warp_boot),
	.sizeof_thread = sizeof(struct warp_thread),
	.sizeof_op = sizeof(struct warp_op),
	.max_cpus = NR_CPUS,
	.hz = HZ,
	.linux_version = LINUX_VERSION_CODE,
	.linux_banner = linux_banner,
	.now_ns = &warp_now_ns,
	.cpus = warp_cpus,
	.kick = warp_kick,
	.boot = warp_power_on,
	.resume = warp_resume,
	.task_stats = warp_task_stats,
	.threads = warp_threads,
	.text_start = warp_text_start,
	.text_end = warp_text_end,
	.watch = &warp_watch_state,
	.sizeof_entity = sizeof(struct warp_entity),
	.sizeof_watch = sizeof(struct warp_watch),
#ifdef CONFIG_GCOV_KERNEL
	.coverage = warp_coverage,
	.coverage_reset = warp_coverage_reset,
#endif
#ifdef CONFIG_WARP_POINTS
	.points = &warp_points,
#endif
};

struct warp_abi *warp_abi_get(void)
{
	return &warp_abi;
}
