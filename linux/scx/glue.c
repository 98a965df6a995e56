/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler's types (vmlinux.h) are needed for: the record of its exit. The types are private to the kernel's ext.c,
 * so that support.c, compiled with the kernel's headers, cannot name them.
 */
#include "vmlinux.h"
#include "scx_abi.h"

struct scx_exit_record schedlab_exit_record __attribute__((visibility("hidden")));
const unsigned int schedlab_glue_sizes[3] __attribute__((visibility("hidden"))) = {
	sizeof(struct task_struct), sizeof(struct bpf_prog_aux), sizeof(struct bpf_map),
};

static void copy_text(char *to, const char *from, unsigned long size)
{
	unsigned long i = 0;

	for (; from && i + 1 < size && from[i]; i++)
		to[i] = from[i];
	to[i] = 0;
}

/*
 * Linux 7.1 and later: operations in terms of cids (struct sched_ext_ops_cid). compile.rs defines SCHEDLAB_CID if the kernel's
 * types have them.
 */
#ifdef SCHEDLAB_CID
#define HIDDEN __attribute__((visibility("hidden")))
const unsigned long schedlab_ops_offset HIDDEN = __builtin_offsetof(struct bpf_struct_ops_map, kvalue.data);
const unsigned long schedlab_enable_size HIDDEN = sizeof(struct scx_enable_cmd);
const unsigned long schedlab_enable_work HIDDEN = __builtin_offsetof(struct scx_enable_cmd, work);

HIDDEN void schedlab_enable_fill(void *command, void *ops);
HIDDEN void schedlab_enable_fill(void *command, void *ops)
{
	struct scx_enable_cmd *cmd = command;

	cmd->ops_cid = ops;
	cmd->is_cid_type = 1;
}

/* as the kernel's scx_enable() tells a sub-scheduler from the first */
HIDDEN int schedlab_is_sub(const void *ops);
HIDDEN int schedlab_is_sub(const void *ops)
{
	return ((const struct sched_ext_ops_cid *)ops)->sub_cgroup_id > 1;
}

HIDDEN long schedlab_enable_result(const void *command);
HIDDEN long schedlab_enable_result(const void *command)
{
	return ((const struct scx_enable_cmd *)command)->ret;
}

HIDDEN void schedlab_give_pool(void *ops, void *pool);
HIDDEN void schedlab_give_pool(void *ops, void *pool)
{
	((struct scx_sched *)((struct sched_ext_ops *)ops)->priv)->arena_pool = pool;
}
#endif

/* Called in place of the scheduler's exit(), which comes after. */
__attribute__((visibility("hidden"))) void schedlab_record_exit(void *info)
{
	struct scx_exit_info *ei = info;
	struct scx_exit_record *r = &schedlab_exit_record;

	r->kind = ei->kind;
	r->code = ei->exit_code;
	for (r->nr_stack = 0; r->nr_stack < ei->bt_len && r->nr_stack < 64; r->nr_stack++)
		r->stack[r->nr_stack] = ei->bt[r->nr_stack];
	copy_text(r->reason, ei->reason, sizeof(r->reason));
	copy_text(r->message, ei->msg, sizeof(r->message));
	copy_text(r->dump, ei->dump, sizeof(r->dump));
	__asm__ __volatile__("" ::: "memory");
	r->exited = 1;
}
