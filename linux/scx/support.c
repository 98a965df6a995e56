/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of the bpf() system call and of libbpf that a natively compiled scheduler needs: maps, the way into and out of a
 * program, registration. Compiled with the kernel's own headers and flags, linked into the scheduler's object; kernel
 * functions are found by name in the kernel object's symbol table when both are loaded, static ones included.
 *
 * What is called here is the kernel's: map_alloc(), bpf_trampoline_enter(), check_member(), init_member(), reg().
 */
#include <linux/bpf.h>
#include <linux/bpf_local_storage.h>
#include <linux/cgroup.h>
#include <linux/cpumask.h>
#include <linux/filter.h>
#include <linux/genalloc.h>
#include <linux/kthread.h>
#include <linux/math64.h>
#include <linux/sched/isolation.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/version.h>
#include "scx_abi.h"

extern struct bpf_struct_ops bpf_sched_ext_ops;	/* static in kernel/sched/ext.c */
extern struct scx_exit_record schedlab_exit_record;
extern const unsigned int schedlab_glue_sizes[3];
void schedlab_record_exit(void *info);

typedef u64 (*scx_function)(u64, u64, u64, u64, u64);

/* ---- what stands for the loaded program ---- */

struct bpf_prog_aux scx_aux_shared __attribute__((visibility("hidden")));	/* also for functions that take the caller */
static struct bpf_prog_aux scx_aux_sleepable;
#define scx_aux scx_aux_shared
static struct bpf_prog scx_prog = { .type = BPF_PROG_TYPE_STRUCT_OPS, .aux = &scx_aux };
static struct bpf_prog scx_prog_sleepable = {
	.type = BPF_PROG_TYPE_STRUCT_OPS, .sleepable = 1, .aux = &scx_aux_sleepable,
};
static u64 scx_faults;

struct bpf_prog_aux *schedlab_prog_aux(void);
struct bpf_prog_aux *schedlab_prog_aux(void)
{
	return &scx_aux;
}

static u64 scx_enter_and_call(struct bpf_prog *prog, scx_function f, u64 a, u64 b, u64 c, u64 d, u64 e)
{
	struct bpf_tramp_run_ctx ctx = { };
	u64 start, result;

	/* as the kernel's trampoline does: RCU, no migration, run context */
	start = bpf_trampoline_enter(prog)(prog, &ctx);
	result = f(a, b, c, d, e);
	bpf_trampoline_exit(prog)(prog, start, &ctx);
	return result;
}

/* ---- the operations ---- */

static struct {
	scx_function function;
	struct bpf_prog *prog;
} scx_members[SCX_MAX_MEMBERS];

/*
 * The kernel calls an operation with its own type: at most five integers or pointers, results of up to 64 bits. Both pass
 * through a function of five u64 unchanged, and the kernel reads no more of the result than its type has.
 */
#define SCX_THUNK(n) static u64 scx_thunk_##n(u64 a, u64 b, u64 c, u64 d, u64 e)		\
	{ return scx_enter_and_call(scx_members[n].prog, scx_members[n].function, a, b, c, d, e); }
#define SCX_EIGHT(m, x)	m(x##0) m(x##1) m(x##2) m(x##3) m(x##4) m(x##5) m(x##6) m(x##7)
#define SCX_ALL(m) SCX_EIGHT(m, 0) SCX_EIGHT(m, 01) SCX_EIGHT(m, 02) SCX_EIGHT(m, 03)		\
		   SCX_EIGHT(m, 04) SCX_EIGHT(m, 05) SCX_EIGHT(m, 06) SCX_EIGHT(m, 07)
SCX_ALL(SCX_THUNK)	/* octal: 00 to 077 */
#define SCX_NAME(n) scx_thunk_##n,
static const scx_function scx_thunks[SCX_MAX_MEMBERS] = { SCX_ALL(SCX_NAME) };

static scx_function scx_own_exit;

static u64 scx_exit(u64 info, u64 b, u64 c, u64 d, u64 e)
{
	schedlab_record_exit((void *)info);
	return scx_own_exit ? scx_own_exit(info, 0, 0, 0, 0) : 0;
}

/* ---- arenas ---- */

/*
 * Kernel: 4 GiB of addresses that are populated page by page, known to programs by their lower 32 bits; needs an MMU. Ours: a
 * mapping of the simulator's in the lowest 4 GiB, populated by the host as it is touched; a pointer into it is an address as any.
 * What the kernel's own code does with arenas (handing over a mask in one) works with a start of 0, as it has without an MMU.
 * Could falsify: a scheduler that relies on a page being absent.
 */
static struct {
	u8 *start;
	unsigned long pages, *used;
	unsigned long nr_used;
} scx_arena;

static long scx_make_arena(struct scx_request *q)
{
	scx_arena.start = q->arena;
	scx_arena.pages = q->arena_pages;
	scx_arena.used = kzalloc(BITS_TO_LONGS(q->arena_pages) * sizeof(long), GFP_KERNEL);
	return scx_arena.used ? 0 : -ENOMEM;
}

/* The first page of a place in the arena; beyond it: -1. */
static long scx_arena_page(const void *at, u32 count)
{
	unsigned long offset = (u8 *)at - scx_arena.start;

	if (!scx_arena.start || offset % PAGE_SIZE || offset / PAGE_SIZE + count > scx_arena.pages)
		return -1;
	return offset / PAGE_SIZE;
}

void *schedlab_arena_alloc(void *map, void *at, u32 count, int node, u64 flags);
void *schedlab_arena_alloc(void *map, void *at, u32 count, int node, u64 flags)
{
	unsigned long first;

	if (!scx_arena.start || !count || count > scx_arena.pages || flags)
		return NULL;
	if (at) {
		if (scx_arena_page(at, count) < 0)
			return NULL;
		first = scx_arena_page(at, count);
		if (find_next_bit(scx_arena.used, first + count, first) < first + count)
			return NULL;
	} else {
		first = bitmap_find_next_zero_area(scx_arena.used, scx_arena.pages, 0, count, 0);
		if (first >= scx_arena.pages)
			return NULL;
	}
	bitmap_set(scx_arena.used, first, count);
	scx_arena.nr_used += count;
	return scx_arena.start + first * PAGE_SIZE;
}

void schedlab_arena_free(void *map, void *at, u32 count);
void schedlab_arena_free(void *map, void *at, u32 count)
{
	long first = scx_arena_page(at, count);

	if (first < 0 || !count)
		return;
	memset(at, 0, count * PAGE_SIZE);	/* pages that are handed out are empty */
	bitmap_clear(scx_arena.used, first, count);
	scx_arena.nr_used -= count;
}

int schedlab_arena_reserve(void *map, void *at, u32 count);
int schedlab_arena_reserve(void *map, void *at, u32 count)
{
	if (!count)
		return 0;
	/* below the arena, as a guard around NULL is: nothing is there, an access ends the run */
	if (at + (u64)count * PAGE_SIZE <= scx_arena.start)
		return 0;
	if (scx_arena_page(at, count) < 0)
		return -EINVAL;
	return schedlab_arena_alloc(map, at, count, NUMA_NO_NODE, 0) ? 0 : -EBUSY;
}

long schedlab_arena_pages(void *map);
long schedlab_arena_pages(void *map) { return scx_arena.pages; }

/* ---- maps ---- */

static const struct bpf_map_ops *const scx_map_ops[] = {
#define BPF_PROG_TYPE(_id, _name, prog_ctx_type, kern_ctx_type)
#define BPF_MAP_TYPE(_id, _ops) [_id] = &_ops,
#define BPF_LINK_TYPE(_id, _name)
#include <linux/bpf_types.h>
#undef BPF_PROG_TYPE
#undef BPF_MAP_TYPE
#undef BPF_LINK_TYPE
};

static struct btf_record *scx_record(const struct scx_map *d)
{
	struct btf_record *r = kzalloc(struct_size(r, fields, d->nr_fields), GFP_KERNEL);

	if (!r)
		return NULL;
	r->spin_lock_off = r->timer_off = r->wq_off = r->refcount_off = -1;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
	r->res_spin_lock_off = -1;
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
	r->task_work_off = -1;
#endif
	for (u32 i = 0; i < d->nr_fields; i++) {
		const struct scx_field *f = &d->fields[i];
		u32 type = f->kind == SCX_FIELD_SPIN_LOCK ? BPF_SPIN_LOCK :
			   f->kind == SCX_FIELD_TIMER ? BPF_TIMER : BPF_WORKQUEUE;

		*(f->kind == SCX_FIELD_SPIN_LOCK ? &r->spin_lock_off :
		  f->kind == SCX_FIELD_TIMER ? &r->timer_off : &r->wq_off) = f->offset;
		r->field_mask |= type;
		r->fields[r->cnt].offset = f->offset;
		r->fields[r->cnt].size = f->size;
		r->fields[r->cnt++].type = type;
	}
	return r;
}

/*
 * Kernel: a large table is vmalloc'ed. Without an MMU memory has to be contiguous, and the page allocator's largest block is
 * 4 MiB: tables that would need more get their elements one by one, and at most 64 Ki buckets.
 */
#define SCX_LARGE_TABLE (2u << 20)

static struct bpf_map *scx_make_map(const struct scx_map *d)
{
	union bpf_attr attr = {
		.map_type = d->type, .key_size = d->key_size, .value_size = d->value_size,
		.max_entries = d->max_entries, .map_flags = d->flags, .map_extra = d->map_extra,
	};
	bool storage = d->type == BPF_MAP_TYPE_TASK_STORAGE || d->type == BPF_MAP_TYPE_CGRP_STORAGE;
	const struct bpf_map_ops *ops, *allocator;
	struct bpf_map *map;

	if (d->type >= ARRAY_SIZE(scx_map_ops) || !scx_map_ops[d->type])
		return ERR_PTR(-EOPNOTSUPP);
	allocator = ops = scx_map_ops[d->type];
	if (d->type == BPF_MAP_TYPE_HASH && (u64)d->max_entries * (d->value_size + 64) > SCX_LARGE_TABLE) {
		attr.map_flags |= BPF_F_NO_PREALLOC;
		attr.max_entries = min(d->max_entries, 65536u);
	}
	if (d->type == BPF_MAP_TYPE_ARRAY_OF_MAPS) {
		/* its own allocator wants the inner map's file descriptor; the array of pointers is the same */
		allocator = &array_map_ops;
		attr.map_type = BPF_MAP_TYPE_ARRAY;
		attr.key_size = 4;
		attr.value_size = 8;
	}
	/* storage maps want BTF, of which no use is made here */
	if (allocator->map_alloc_check && !storage) {
		int error = allocator->map_alloc_check(&attr);

		if (error)
			return ERR_PTR(error);
	}
	map = allocator->map_alloc(&attr);
	if (IS_ERR(map))
		return map;
	/* as map_create() does */
	map->ops = ops;
	map->map_type = d->type;
	strscpy(map->name, d->name, sizeof(map->name));
	atomic64_set(&map->refcnt, 1);
	atomic64_set(&map->usercnt, 1);
	mutex_init(&map->freeze_mutex);
	spin_lock_init(&map->owner_lock);
	if (d->nr_fields) {
		map->record = scx_record(d);
		if (!map->record)
			return ERR_PTR(-ENOMEM);
	}
	return map;
}

static long scx_failed(struct scx_request *q, const char *what, const char *name, long error)
{
	scnprintf(q->failed, sizeof(q->failed), "%s %s", what, name);
	return error;
}

#define SCX_MAP_TYPE_ARENA 33	/* BPF_MAP_TYPE_ARENA, from 6.9 on */

static long scx_load(struct scx_request *q)
{
	long error;

	/* as the verifier does when it meets a call of bpf_get_prandom_u32(): until then every number is 0 */
	if (q->draws_random)
		bpf_user_rnd_init_once();
	atomic64_set(&scx_aux.refcnt, 1);
	atomic64_set(&scx_aux_sleepable.refcnt, 1);
	scx_aux.prog = &scx_prog;
	scx_aux_sleepable.prog = &scx_prog_sleepable;
	for (u32 i = 0; i < q->nr_maps; i++) {
		struct bpf_map *map;

		if (!q->maps[i].definition)
			continue;	/* a pattern for others */
		/* the kernel's ring buffer maps its pages twice, which needs an MMU: see schedlab_ringbuf_reserve() */
		if (q->maps[i].type == BPF_MAP_TYPE_RINGBUF)
			continue;
		if (q->maps[i].type == SCX_MAP_TYPE_ARENA) {
			error = scx_make_arena(q);
			if (error)
				return scx_failed(q, "map", q->maps[i].name, error);
			continue;
		}
		map = scx_make_map(&q->maps[i]);
		if (IS_ERR(map))
			return scx_failed(q, "map", q->maps[i].name, PTR_ERR(map));
		*(struct bpf_map **)q->maps[i].definition = map;
	}
	for (u32 i = 0; i < q->nr_maps; i++) {
		const struct scx_map *d = &q->maps[i];
		struct bpf_array *array;

		if (d->type != BPF_MAP_TYPE_ARRAY_OF_MAPS)
			continue;
		array = container_of(*(struct bpf_map **)d->definition, struct bpf_array, map);
		/* what the user-space half would have put in: equal maps */
		for (u32 k = 0; d->inner_like && k < d->nr_inner && k < d->max_entries; k++) {
			struct bpf_map *map = scx_make_map(&q->maps[d->inner_like - 1]);

			if (IS_ERR(map))
				return scx_failed(q, "maps within", d->name, PTR_ERR(map));
			*(void **)(array->value + array->elem_size * k) = map;
		}
		if (d->inner_like)
			continue;
		for (u32 k = 0; k < d->nr_inner && k < d->max_entries; k++)
			if (d->inner[k])
				*(void **)(array->value + array->elem_size * k) = *(void **)d->inner[k];
	}
	return 0;
}

/*
 * A scheduler's loader can pin itself to the CPU on which init() is to run. Debian's 6.12 and later kernels call init() in a
 * thread of their own: then it is that thread that has to be pinned.
 */
static long scx_init_cpu;
static scx_function scx_own_init;

static u64 scx_init_there(u64 a, u64 b, u64 c, u64 d, u64 e)
{
	struct cpumask *before = kzalloc(cpumask_size(), GFP_KERNEL);
	u64 result;

	if (!before)
		return (u64)-ENOMEM;
	cpumask_copy(before, current->cpus_ptr);
	set_cpus_allowed_ptr(current, cpumask_of(scx_init_cpu));
	result = scx_own_init(a, b, c, d, e);
	set_cpus_allowed_ptr(current, before);
	kfree(before);
	return result;
}

#ifdef SCHEDLAB_CID
extern struct bpf_struct_ops bpf_sched_ext_ops_cid;	/* static in kernel/sched/ext/ext.c, as this: */
void scx_root_enable_workfn(struct kthread_work *work);
void scx_sub_enable_workfn(struct kthread_work *work);
extern const unsigned long schedlab_ops_offset, schedlab_enable_size, schedlab_enable_work;
void schedlab_enable_fill(void *command, void *ops);
int schedlab_is_sub(const void *ops);
long schedlab_enable_result(const void *command);
void schedlab_give_pool(void *ops, void *pool);

static void *scx_ops;
static scx_function scx_inner_init;

/*
 * init(), the last that is called before the kernel makes a pool of memory in the arena. Without an MMU it makes none; so it is
 * made here. It holds a mask for each CPU.
 */
static u64 scx_init_cid(u64 a, u64 b, u64 c, u64 d, u64 e)
{
	u64 result = scx_inner_init ? scx_inner_init(a, b, c, d, e) : 0;
	u32 pages = 4 + DIV_ROUND_UP(nr_cpu_ids * (64 + nr_cpu_ids / 8), PAGE_SIZE);
	struct gen_pool *pool;
	void *memory;

	if ((s32)result)
		return result;
	pool = gen_pool_create(3, NUMA_NO_NODE);
	memory = schedlab_arena_alloc(NULL, NULL, pages, NUMA_NO_NODE, 0);
	if (!pool || !memory || gen_pool_add(pool, (unsigned long)memory, pages * PAGE_SIZE, NUMA_NO_NODE))
		return (u64)-ENOMEM;
	schedlab_give_pool(scx_ops, pool);
	return 0;
}

/*
 * A scheduler that keeps track of idle CPUs itself hears of one when it becomes idle, not of those that are idle when it is
 * attached. On a real machine some thread of the kernel runs everywhere soon. Here nothing would: process 1 visits each CPU once.
 */
static void scx_visit_cpus(void)
{
	struct cpumask *before = kzalloc(cpumask_size(), GFP_KERNEL);
	int cpu;

	if (!before)
		return;
	cpumask_copy(before, current->cpus_ptr);
	for_each_online_cpu(cpu)
		set_cpus_allowed_ptr(current, cpumask_of(cpu));
	set_cpus_allowed_ptr(current, before);
	kfree(before);
}

/* bpf_scx_reg_cid() and scx_enable(), but for the arena, which they find by way of an MMU. */
static long scx_register_cid(void *ops)
{
	kthread_work_func_t enable = schedlab_is_sub(ops) ? scx_sub_enable_workfn : scx_root_enable_workfn;
	struct kthread_worker *worker;
	void *command;
	long error;

	if (!scx_arena.start || housekeeping_enabled(HK_TYPE_DOMAIN_BOOT))
		return -EINVAL;		/* the kernel: no arena; isolcpus= */
	command = kzalloc(schedlab_enable_size, GFP_KERNEL);
	if (!command)
		return -ENOMEM;
	worker = kthread_run_worker(0, "scx_enable_helper");
	if (IS_ERR_OR_NULL(worker))
		return -ENOMEM;
	sched_set_fifo(worker->task);
	schedlab_enable_fill(command, ops);
	kthread_init_work((struct kthread_work *)(command + schedlab_enable_work), enable);
	kthread_queue_work(worker, command + schedlab_enable_work);
	kthread_flush_work(command + schedlab_enable_work);
	error = schedlab_enable_result(command);
	/* the kernel tells the first scheduler alone of idle CPUs (__scx_update_idle()) */
	if (!error && !schedlab_is_sub(ops))
		scx_visit_cpus();
	return error;
}
#endif

#include "userland.c"

static bool scx_call_failed;	/* the user-space half gives up, then */

/*
 * What the loader of a sub-scheduler does (scx_qmap -c): the number of its control group, which stat(2) gives as that of the
 * folder, goes into the operations, and into a variable that says it to the program.
 */
static long scx_find_group(struct scx_request *q)
{
	struct cgroup *group = cgroup_get_from_path(q->cgroup);

	if (IS_ERR(group))
		return scx_failed(q, "control group", q->cgroup, PTR_ERR(group));
	for (u32 i = 0; i < ARRAY_SIZE(q->cgroup_ids); i++)
		if (q->cgroup_ids[i])
			*q->cgroup_ids[i] = cgroup_id(group);
	cgroup_put(group);
	return 0;
}

static long scx_attach(struct scx_request *q)
{
	struct bpf_struct_ops *st = &bpf_sched_ext_ops;
	struct task_struct *half = NULL;
	unsigned long before = 0;
	void *ops;
	long error = -ENOMEM;

	if (scx_call_failed)
		return 0;
	if (q->cgroup) {
		error = scx_find_group(q);
		if (error)
			return error;
		error = -ENOMEM;
	}
	if (q->nr_members > SCX_MAX_MEMBERS)
		return scx_failed(q, "members of", "struct sched_ext_ops", -E2BIG);
#ifdef SCHEDLAB_CID
	if (q->is_cid)
		st = &bpf_sched_ext_ops_cid;
	/* functions that are given a program find its scheduler here: the operations within a struct bpf_struct_ops_map */
	before = schedlab_ops_offset;
#else
	if (q->is_cid)
		return scx_failed(q, "this kernel has no", "struct sched_ext_ops_cid", -EOPNOTSUPP);
#endif
	/* the kernel keeps what it is given */
	ops = kzalloc(before + q->ops_size, GFP_KERNEL);
	if (!ops)
		return -ENOMEM;
#ifdef SCHEDLAB_CID
	rcu_assign_pointer(scx_aux.st_ops_assoc, ops);
	rcu_assign_pointer(scx_aux_sleepable.st_ops_assoc, ops);
	ops += before;
	scx_ops = ops;
#endif
	/* as bpf_struct_ops_map_update_elem() does */
	for (u32 i = 0; i < q->nr_members; i++) {
		const struct scx_member *m = &q->members[i];
		struct btf_member member = { .offset = m->offset * 8 };
		struct btf_type type = { };
		void *from = q->ops + m->offset, *to = ops + m->offset;

		error = st->init_member(&type, &member, ops, q->ops);
		if (error < 0)
			return scx_failed(q, "value of a member of", "struct sched_ext_ops", error);
		if (error > 0)
			continue;
		if (!m->is_function)
			continue;	/* the kernel refuses a value there that is not 0; the simulator has checked that */
		scx_members[i].function = *(scx_function *)from;
		scx_members[i].prog = m->sleepable ? &scx_prog_sleepable : &scx_prog;
		if (m->sleepable == 2) {	/* exit(): always there, to be recorded */
			scx_own_exit = scx_members[i].function;
			scx_members[i].function = scx_exit;
		}
#ifdef SCHEDLAB_CID
		if (m->sleepable == 3 && q->is_cid && !scx_members[i].function) {
			*(scx_function *)to = scx_init_cid;
			continue;
		}
#endif
		if (!scx_members[i].function)
			continue;
		if (st->check_member) {
			error = st->check_member(&type, &member, scx_members[i].prog);
			if (error)
				return scx_failed(q, "a callback that must not sleep in", "struct sched_ext_ops", error);
		}
		*(scx_function *)to = scx_thunks[i];
		if (m->sleepable == 3 && q->init_cpu >= 0) {	/* init() */
			scx_init_cpu = q->init_cpu;
			scx_own_init = scx_thunks[i];
			*(scx_function *)to = scx_init_there;
		}
#ifdef SCHEDLAB_CID
		if (m->sleepable == 3 && q->is_cid) {
			scx_inner_init = *(scx_function *)to;
			*(scx_function *)to = scx_init_cid;
		}
#endif
	}
	if (q->userland) {
		half = scx_userland_make(q->userland);
		if (IS_ERR(half))
			return scx_failed(q, "making", "its user-space half", PTR_ERR(half));
		/* until the half runs nobody decides for us */
		sched_set_fifo(current);
	}
	error = st->validate ? st->validate(ops) : 0;
#ifdef SCHEDLAB_CID
	if (!error && q->is_cid)
		error = scx_register_cid(ops);
	else
#endif
	if (!error)
		error = st->reg(ops, NULL);
	if (half) {
		wake_up_process(half);
		sched_set_normal(current, 0);
	}
	if (error == -EOPNOTSUPP && q->cgroup)	/* find_parent_sched() */
		return scx_failed(q, "the scheduler above it takes none: it has no", "sub_attach()", error);
	return error ? scx_failed(q, "attaching", "the scheduler", error) : 0;
}

static long scx_call(struct scx_syscall *call)
{
	int error;

	if (scx_call_failed)
		return 0;	/* what comes after is not tried */
	error = (int)scx_enter_and_call(&scx_prog_sleepable, (scx_function)(void *)call->program, (u64)call->context, 0, 0, 0, 0);
	if (!error && call->mask_words) {
		memcpy(*(void **)call->context, call->mask, call->mask_words * sizeof(u64));
		*(u64 *)call->next = *(u64 *)call->context;
	}
	scx_call_failed = error != 0;
	return error;
}

static void *scx_value(void *definition, unsigned int index, unsigned int cpu)
{
	struct bpf_map *map = *(struct bpf_map **)definition;
	struct bpf_array *array = container_of(map, struct bpf_array, map);

	if (!map || index >= map->max_entries)
		return NULL;
	if (map->map_type == BPF_MAP_TYPE_ARRAY)
		return array->value + (u64)array->elem_size * index;
	if (map->map_type == BPF_MAP_TYPE_PERCPU_ARRAY)
		return per_cpu_ptr(array->pptrs[index], cpu);
	return NULL;
}

/* ---- helpers whose kernel version is not built (kernel/trace/bpf_trace.c), or needs an MMU ---- */

/* The simulator lets a load through a bad pointer in this object read 0, and counts it. */
long schedlab_probe_read(void *to, u32 size, const void *from);
long schedlab_probe_read(void *to, u32 size, const void *from)
{
	u64 before = READ_ONCE(scx_faults);
	const volatile u8 *source = from;

	for (u32 i = 0; i < size; i++) {
		u8 byte = source[i];

		if (READ_ONCE(scx_faults) != before) {
			memset(to, 0, size);
			return -EFAULT;
		}
		((u8 *)to)[i] = byte;
	}
	return 0;
}

long schedlab_probe_read_str(void *to, u32 size, const void *from);
long schedlab_probe_read_str(void *to, u32 size, const void *from)
{
	u64 before = READ_ONCE(scx_faults);
	const volatile char *source = from;
	char *text = to;
	u32 i;

	if (!size)
		return 0;
	for (i = 0; i < size - 1; i++) {
		text[i] = source[i];
		if (READ_ONCE(scx_faults) != before) {
			memset(to, 0, size);
			return -EFAULT;
		}
		if (!text[i])
			return i + 1;
	}
	text[i] = 0;
	return size;
}

struct task_struct *schedlab_current(void);
struct task_struct *schedlab_current(void) { return current; }

/* BPF's verifier picks GFP_KERNEL in programs that may sleep, GFP_ATOMIC in others. */
u32 schedlab_gfp(void);
u32 schedlab_gfp(void)
{
	return preemptible() && !rcu_preempt_depth() ? GFP_KERNEL : GFP_ATOMIC;
}

int schedlab_printk(const char *format, ...);
int schedlab_printk(const char *format, ...)
{
	struct va_format f = { .fmt = format };
	va_list args;

	va_start(args, format);
	f.va = &args;
	_printk(KERN_INFO "bpf_printk: %pV\n", &f);
	va_end(args);
	return 0;
}

/* Kernel: kernel/bpf/stream.c keeps the text for whoever reads the program's stream. Ours: the kernel's log. */
int schedlab_stream_vprintk(int stream, const char *format, const void *args, u32 len);
int schedlab_stream_vprintk(int stream, const char *format, const void *args, u32 len)
{
	struct bpf_bprintf_data data = { .get_bin_args = true, .get_buf = true };
	int error = bpf_bprintf_prepare(format, strlen(format) + 1, args, len / sizeof(u64), &data);

	if (error)
		return error;
	bstr_printf(data.buf, MAX_BPRINTF_BUF, format, data.bin_args);
	_printk(KERN_INFO "bpf_stream %d: %s", stream, data.buf);
	bpf_bprintf_cleanup(&data);
	return 0;
}

/*
 * Kernel: a ring of pages that user space reads. Ours: nobody reads; a record exists from reserve to submit, and is counted.
 * Could falsify: a scheduler that looks at how full the ring is.
 */
void *schedlab_ringbuf_reserve(struct bpf_map *map, u64 size, u64 flags);
void *schedlab_ringbuf_reserve(struct bpf_map *map, u64 size, u64 flags)
{
	return kmalloc(size, GFP_ATOMIC);
}
void schedlab_ringbuf_submit(void *record, u64 flags);
void schedlab_ringbuf_submit(void *record, u64 flags) { kfree(record); }

/* ---- what libbpf reads from the kernel's version (__kconfig; options: compile.rs) ---- */

const u64 scx_kernel_version __asm__("LINUX_KERNEL_VERSION") = LINUX_VERSION_CODE;

/* ---- the exported table ---- */

struct scx_abi schedlab_scx = {
	.version = SCX_ABI_VERSION,
	.sizeof_map = sizeof(struct scx_map),
	.sizeof_member = sizeof(struct scx_member),
	.sizeof_request = sizeof(struct scx_request),
	.sizeof_exit = sizeof(struct scx_exit_record),
	.task_size = sizeof(struct task_struct),
	.prog_aux_size = sizeof(struct bpf_prog_aux),
	.map_size = sizeof(struct bpf_map),
	.exit = &schedlab_exit_record,
	.faults = &scx_faults,
	.load = scx_load,
	.attach = scx_attach,
	.call = scx_call,
	.value = scx_value,
};

struct scx_abi *schedlab_scx_abi(void);
struct scx_abi *schedlab_scx_abi(void)
{
	schedlab_scx.glue_task_size = schedlab_glue_sizes[0];
	schedlab_scx.glue_prog_aux_size = schedlab_glue_sizes[1];
	schedlab_scx.glue_map_size = schedlab_glue_sizes[2];
	return &schedlab_scx;
}
