/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A first-in-first-out scheduler whose init() does what BPF defines and C does not, and leaves the results in variables, for
 * crates/runner/tests/scx.rs. The results are those that BPF's rules give; a real machine's verifier would refuse the loads
 * through pointers that it cannot know (wild, null) before they read 0.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

/* values that the compiler cannot know */
volatile u64 zero_u64, seven_u64 = 7;
volatile u32 zero_u32, seven_u32 = 7;
volatile s64 smallest_s64 = -0x7fffffffffffffffLL - 1, minus_one_s64 = -1, zero_s64;
struct task_struct *volatile null_task;

/* results, none of which may stay as it is here */
u64 quotient_u64 = 99, remainder_u64 = 99;
u32 quotient_u32 = 99, remainder_u32 = 99;
s64 quotient_s64 = 99, remainder_s64 = 99, quotient_by_zero_s64 = 99;
u64 loaded_null = 99, loaded_wild = 99, loaded_nested = 99, compared = 99;
s64 probe_result = 99;
u64 relocated = 99;
u64 order = 99, loops = 99, migration_disabled = 99, in_rcu = 99;

/*
 * The kernel's types as far as this program needs them: other places, one unsigned field of another width, one of another kind,
 * shorter arrays, and some that no kernel has.
 */
struct sched_ext_entity___own {
	u64 no_such_field;
	u64 slice;
} __attribute__((preserve_access_index));

struct hlist_node___own {
	struct hlist_node **pprev;
	u64 no_such_field;
} __attribute__((preserve_access_index));

struct task_struct___own {
	u64 no_such_field;
	struct {
		int inner;
	} no_such_struct;
	int no_such_array[4];
	u64 flags;	/* unsigned int */
	u64 tasks;	/* struct list_head */
	char comm[2];
	struct hlist_node___own pid_links[2];
	struct sched_ext_entity___own scx;
	union {
		struct {
			const char *name;
			int pid;
		};
		struct task_struct *real_parent;
	};
} __attribute__((preserve_access_index));

struct no_such_type___own {
	int field;
} __attribute__((preserve_access_index));

/* this program's own, whatever its name looks like */
struct semantics_context___v2 {
	u8 a;
	u64 b;
};

enum scx_dsq_id_flags___own { SCX_DSQ_GLOBAL___own = 5, SCX_DSQ_NO_SUCH___own = 6 };

/* what the kernel is configured with, as libbpf hands it on */
extern bool CONFIG_SMP __kconfig;
extern int CONFIG_NR_CPUS __kconfig;
extern const int CONFIG_HZ __kconfig __weak;
extern enum libbpf_tristate CONFIG_NO_SUCH_OPTION __kconfig __weak;
u64 configured = 99, refused, short_array[2];

/* an object of the size of struct keyed, whose bytes the next one is given */
struct filled {
	struct bpf_list_node node;
	u64 bytes[2];
};

struct keyed {
	struct bpf_rb_node rb;
	u64 key;
};
private(TREE) struct bpf_spin_lock tree_lock;
private(TREE) struct bpf_rb_root tree __contains(node, rb);

/* natively, the result is the lowest byte of a register that holds a key in its others */
static bool less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	struct keyed *x = container_of(a, struct keyed, rb), *y = container_of(b, struct keyed, rb);

	return x->key < y->key;
}

static void insert(u64 key)
{
	struct keyed *n = bpf_obj_new(struct keyed);

	if (!n)
		return;
	n->key = 0x7777777700000000ULL | key;
	bpf_spin_lock(&tree_lock);
	refused += bpf_rbtree_add(&tree, &n->rb, less) != 0;
	bpf_spin_unlock(&tree_lock);
}

static u64 smallest(void)
{
	struct bpf_rb_node *rb;
	struct keyed *n;
	u64 key = 0;

	bpf_spin_lock(&tree_lock);
	rb = bpf_rbtree_first(&tree);
	if (rb)
		rb = bpf_rbtree_remove(&tree, rb);
	bpf_spin_unlock(&tree_lock);
	if (!rb)
		return 0;
	n = container_of(rb, struct keyed, rb);
	key = n->key & 0xf;
	bpf_obj_drop(n);
	return key;
}

/* goes on while it returns 0: false */
static bool count_to_five(u32 i, u64 *n)
{
	u64 far = 0x7777777700000000ULL | i;

	(*n)++;
	return far > 0x7777777700000003ULL;
}

/* a bit for each answer that is right */
#define RIGHT(bit, is) right |= (u64)!!(is) << (bit)

static u64 relocations(struct task_struct *wild)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_struct___own *own = (void *)p;
	struct no_such_type___own *none = NULL;
	struct semantics_context___v2 context = { 1, 2 };
	char comm[sizeof(p->comm)];
	int pid = 77;
	u64 right = 0;

	RIGHT(0, own->pid == p->pid && p->pid);
	RIGHT(1, own->flags == p->flags && p->flags);
	RIGHT(2, own->scx.slice == p->scx.slice);
	RIGHT(3, own->real_parent == p->real_parent);
	RIGHT(4, BPF_CORE_READ(own, real_parent, pid) == p->real_parent->pid);
	RIGHT(5, !bpf_core_field_exists(own->no_such_field));
	RIGHT(6, !bpf_core_field_exists(own->scx.no_such_field));
	RIGHT(7, bpf_core_field_exists(own->scx.slice));
	RIGHT(8, !bpf_core_field_exists(own->name));
	RIGHT(9, !bpf_core_field_exists(struct task_struct___own, no_such_field));
	RIGHT(10, !bpf_core_field_exists(((struct task_struct___own *)0)->scx.no_such_field));
	RIGHT(11, bpf_core_field_exists(struct task_struct___own, scx.slice));
	RIGHT(12, bpf_core_field_exists(p->in_iowait));
	RIGHT(13, bpf_core_type_exists(struct task_struct___own));
	RIGHT(14, !bpf_core_type_exists(struct no_such_type___own));
	RIGHT(15, bpf_core_type_size(struct task_struct___own) == sizeof(*p));
	RIGHT(16, bpf_core_enum_value_exists(enum scx_dsq_id_flags___own, SCX_DSQ_GLOBAL___own));
	RIGHT(17, !bpf_core_enum_value_exists(enum scx_dsq_id_flags___own, SCX_DSQ_NO_SUCH___own));
	RIGHT(18, bpf_core_enum_value(enum scx_dsq_id_flags___own, SCX_DSQ_GLOBAL___own) == SCX_DSQ_GLOBAL);
	RIGHT(19, bpf_core_field_offset(struct task_struct___own, pid) == offsetof(struct task_struct, pid));
	RIGHT(20, bpf_core_field_size(own->flags) == sizeof(p->flags));
	/* within what is not there */
	RIGHT(21, !bpf_core_field_exists(own->no_such_struct.inner));
	RIGHT(22, !bpf_core_field_exists((own->no_such_struct).inner));
	RIGHT(23, !bpf_core_field_exists(own->no_such_array[1]));
	RIGHT(24, !bpf_core_field_exists(struct task_struct___own, no_such_struct.inner));
	RIGHT(25, !bpf_core_field_exists(((const struct task_struct___own *)NULL)->no_such_field));
	RIGHT(26, bpf_core_field_exists(own->scx));
	RIGHT(27, bpf_core_field_exists(typeof(*own), pid) && !bpf_core_field_exists(typeof(*own), no_such_field));
	/* of another kind */
	RIGHT(28, !bpf_core_field_exists(own->tasks));
	RIGHT(29, !bpf_core_field_exists(struct task_struct___own, tasks));
	/* the kernel's places, lengths and distances */
	RIGHT(30, bpf_core_field_offset(own->pid) == offsetof(struct task_struct, pid));
	RIGHT(31, bpf_core_field_offset(own->scx.slice) == offsetof(struct task_struct, scx.slice));
	RIGHT(32, bpf_core_field_size(own->comm) == sizeof(p->comm));
	RIGHT(33, own->pid_links[1].pprev == p->pid_links[1].pprev);
	RIGHT(34, !bpf_core_field_exists(own->pid_links[1].no_such_field));
	RIGHT(35, own->comm[1] == p->comm[1]);
	/* types by other names, and types of this program's own */
	RIGHT(36, bpf_core_type_exists(typeof(*own)) && !bpf_core_type_exists(typeof(*none)));
	RIGHT(37, !bpf_core_type_exists(struct semantics_context___v2));
	RIGHT(38, context.a == 1 && context.b == 2 && sizeof(context) == 16);
	/* ways to read */
	RIGHT(39, BPF_CORE_READ(p, real_parent, real_parent, real_parent, real_parent, real_parent, real_parent,
				real_parent, real_parent, pid) ==
		  p->real_parent->real_parent->real_parent->real_parent->real_parent->real_parent
		  ->real_parent->real_parent->pid);
	RIGHT(40, !BPF_CORE_READ_INTO(&comm, p, comm) && comm[0] == p->comm[0] && comm[0]);
	RIGHT(41, BPF_CORE_READ_STR_INTO(&comm, p, comm) > 1 && comm[1] == p->comm[1]);
	RIGHT(42, BPF_CORE_READ_INTO(&pid, p, real_parent, pid) == 0 && pid == p->real_parent->pid);
	RIGHT(43, BPF_CORE_READ_INTO(&pid, wild, pid) == -14 && pid == 0);
	RIGHT(44, BPF_CORE_READ_BITFIELD_PROBED(p, in_iowait) == p->in_iowait);
	return right;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(semantics_init)
{
	struct task_struct *wild = (struct task_struct *)(0x6b6b6b6b6b6b6b6bULL + zero_u64), *null = null_task;
	u64 n = 0, text = 77;

	quotient_u64 = seven_u64 / zero_u64;
	remainder_u64 = seven_u64 % zero_u64;
	quotient_u32 = seven_u32 / zero_u32;
	remainder_u32 = seven_u32 % zero_u32;
	quotient_s64 = smallest_s64 / minus_one_s64;
	remainder_s64 = smallest_s64 % minus_one_s64;
	quotient_by_zero_s64 = minus_one_s64 / zero_s64;

	loaded_null = null->pid;
	loaded_wild = wild->scx.dsq_vtime;
	loaded_nested = wild->real_parent->pid;
	compared = null->pid == 0 ? 1 : 2;
	probe_result = bpf_probe_read_kernel(&text, sizeof(text), &wild->pid);
	loaded_wild |= text;

	configured = CONFIG_SMP + (CONFIG_NR_CPUS >= 64) * 10 + (CONFIG_HZ == 250) * 100 +
		     (CONFIG_NO_SUCH_OPTION == TRI_NO) * 1000;
	short_array[1] = 7;
	insert(2);
	insert(3);
	insert(1);
	order = smallest() * 100;
	order += smallest() * 10;
	order += smallest();

	relocated = relocations(wild);

	bpf_loop(10, count_to_five, &n, 0);
	loops = n;
	return 0;
}

void BPF_STRUCT_OPS(semantics_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct filled *f;

	/* a program runs with migration off, within RCU */
	migration_disabled = bpf_get_current_task_btf()->migration_disabled;
	in_rcu = bpf_get_current_task_btf()->rcu_read_lock_nesting;
	/* memory that was another object's is a new object's */
	f = bpf_obj_new(struct filled);
	if (f) {
		f->bytes[0] = f->bytes[1] = 0x5555;
		bpf_obj_drop(f);
	}
	insert(1);
	smallest();
	scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(semantics_ops,
	       .enqueue = (void *)semantics_enqueue,
	       .init = (void *)semantics_init,
	       .name = "semantics");
