/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The boundary between the simulator and a sched_ext scheduler that is loaded beside the kernel object.
 * Mirrored in crates/scx/src/abi.rs. Functions run in process context inside the kernel (WARP_OP_CALL), unless it says
 * otherwise, and return 0 or a negative error number.
 */
#ifndef SCHEDLAB_SCX_ABI_H
#define SCHEDLAB_SCX_ABI_H

#define SCX_ABI_VERSION 5
#define SCX_MAX_MEMBERS 64	/* of struct sched_ext_ops */
#define SCX_MAX_FIELDS	8	/* special fields of a map's value */

/* kinds of special fields */
#define SCX_FIELD_SPIN_LOCK 1
#define SCX_FIELD_TIMER	    2
#define SCX_FIELD_WORK	    3

struct scx_field {
	unsigned int kind, offset, size, reserved;
};

/* A map to be made. */
struct scx_map {
	void *definition;		/* in the scheduler's memory: the map's address goes into its first word */
	const char *name;
	unsigned int type, key_size, value_size, max_entries, flags, nr_fields;
	struct scx_field fields[SCX_MAX_FIELDS];
	void **inner;			/* array of maps: definitions of the inner ones, NULL for none */
	unsigned int nr_inner;
	unsigned int inner_like;	/* array of maps: 1 + the number of the map in this list whose copies fill it; 0: see inner */
	unsigned long long map_extra;
};

/* A member of struct sched_ext_ops. */
struct scx_member {
	unsigned int offset, size;	/* in bytes */
	unsigned int is_function;
	unsigned int sleepable;		/* 0 no, 1 yes; 2: exit(), 3: init() that may sleep */
};

/* Where scx_userland's BPF half and its user-space half meet: see userland.c. */
struct scx_userland {
	int *pid;			/* of the half: its constant usersched_pid */
	unsigned long long *queued, *scheduled;
	void *enqueued, *dispatched;	/* definitions of the two queues */
	unsigned int batch, reserved;	/* tasks that it sends back at a time */
};

/* What the simulator asks for. */
struct scx_request {
	struct scx_map *maps;
	unsigned int nr_maps, nr_members;
	struct scx_member *members;
	void *ops;			/* the scheduler's struct sched_ext_ops */
	unsigned long ops_size;
	long init_cpu;			/* CPU on which init() is to run; -1: wherever the kernel runs it */
	/* the scheduler's arena: memory that the simulator has set aside, and its size in pages; NULL, 0 for none */
	void *arena;
	unsigned long arena_pages;
	unsigned int is_cid;		/* its operations are a struct sched_ext_ops_cid */
	unsigned int draws_random;	/* it calls bpf_get_prandom_u32() */
	const struct scx_userland *userland;	/* unless NULL: the half that decides for it */
	/* a sub-scheduler: path of its control group, and where the group's number is to be written; NULL otherwise */
	const char *cgroup;
	unsigned long long *cgroup_ids[2];	/* its ops' sub_cgroup_id, and a variable of that name or NULL */
	/* kernel: what failed, for messages */
	char failed[128];
};

/* What the kernel told the scheduler's exit(). Written once; `exited` last. */
struct scx_exit_record {
	unsigned int exited, kind;
	long long code;
	unsigned int nr_stack, reserved;
	unsigned long long stack[64];
	char reason[128];
	char message[1024];
	char dump[65536];
};

/* The user-space side of a program of type "syscall". */
struct scx_syscall {
	long (*program)(void *);
	void *context;
	/* unless there are none: the program has put an address at the start of its context; these go there, it to the start of `next` */
	const unsigned long long *mask;
	unsigned long long mask_words;
	void *next;
};

struct scx_abi {
	unsigned int version;
	unsigned int sizeof_map, sizeof_member, sizeof_request, sizeof_exit;
	/* sizes as the kernel's own headers and as vmlinux.h give them: must agree */
	unsigned int task_size, prog_aux_size, map_size;
	unsigned int glue_task_size, glue_prog_aux_size, glue_map_size;
	unsigned int reserved;
	struct scx_exit_record *exit;
	unsigned long long *faults;	/* the simulator counts up: loads through bad pointers in the scheduler */
	long (*load)(struct scx_request *request);	/* makes the maps */
	long (*attach)(struct scx_request *request);	/* registers the operations with the kernel */
	long (*call)(struct scx_syscall *call);		/* runs a program of type "syscall"; returns its result */
	/* called between resumes, nothing runs: address of a value of an array (any kind), or NULL */
	void *(*value)(void *map, unsigned int index, unsigned int cpu);
};

#endif
