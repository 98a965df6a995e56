/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own files (cgroup2, sysctl, debugfs), from inside. Buffers are the simulator's memory; without an MMU
 * that is also valid "user" memory, so the calls are the ones behind read(2) and write(2).
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init_syscalls.h>
#include <linux/namei.h>
#include "versions.h"
#include "warp.h"

long warp_file_write(const char *path, const void *data, unsigned long len)
{
	struct file *file = filp_open(path, O_WRONLY, 0);
	loff_t pos = 0;
	long result;

	if (IS_ERR(file))
		return PTR_ERR(file);
	result = vfs_write(file, (const char __user *)data, len, &pos);
	fput(file);
	return result;
}

long warp_file_read(const char *path, void *buf, unsigned long size)
{
	struct file *file = filp_open(path, O_RDONLY, 0);
	loff_t pos = 0;
	long total = 0, result = 0;

	if (IS_ERR(file))
		return PTR_ERR(file);
	while (total < size) {
		/* a sysctl allocates as much memory as is asked for */
		result = vfs_read(file, (char __user *)buf + total, min(size - total, 65536UL), &pos);
		if (result <= 0)
			break;
		total += result;
	}
	fput(file);
	return result < 0 ? result : total;
}

struct warp_dir {
	struct dir_context ctx;
	char *buf;
	unsigned long size, used;
};

static WARP_FILLDIR_RESULT warp_filldir(struct dir_context *ctx, const char *name, int len, loff_t pos, u64 ino,
					unsigned int type)
{
	struct warp_dir *dir = container_of(ctx, struct warp_dir, ctx);

	if (dir->used + len + 1 > dir->size)
		return WARP_FILLDIR_STOP;
	memcpy(dir->buf + dir->used, name, len);
	dir->buf[dir->used + len] = 0;
	dir->used += len + 1;
	return WARP_FILLDIR_GO_ON;
}

long warp_file_list(const char *path, char *buf, unsigned long size)
{
	struct warp_dir dir = { .ctx.actor = warp_filldir, .buf = buf, .size = size };
	struct file *file = filp_open(path, O_RDONLY | O_DIRECTORY, 0);
	int result;

	if (IS_ERR(file))
		return PTR_ERR(file);
	result = iterate_dir(file, &dir.ctx);
	fput(file);
	return result < 0 ? result : dir.used;
}

/* fs/init.c keeps these for the time before user space; nothing of the init sections is ever freed here */
long __ref warp_file_mkdir(const char *path, unsigned int mode) { return init_mkdir(path, mode); }
long __ref warp_file_rmdir(const char *path) { return init_rmdir(path); }
long __ref warp_file_mount(const char *type, const char *dir, const char *options)
{
	return init_mount("none", dir, type, 0, (void *)options);
}
