/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Line coverage (flavour gcov): the kernel's own gcov support counts and writes the data format; this hands it out.
 * Kernel: files below debugfs. Ours: the same bytes without a system call, so that nothing of the schedule changes.
 */
#include "../../../kernel/gcov/gcov.h"
#include "warp.h"

static struct gcov_info *warp_nth(unsigned int n)
{
	struct gcov_info *info = NULL;

	do
		info = gcov_info_next(info);
	while (info && n--);
	return info;
}

/* The nth file's name and, at out if there is room, its data. Returns their length, 0: there is no such file. */
unsigned long warp_coverage(unsigned int n, const char **name, char *out, unsigned long room)
{
	struct gcov_info *info = warp_nth(n);
	unsigned long size;

	if (!info)
		return 0;
	size = convert_to_gcda(NULL, info);
	*name = gcov_info_filename(info);
	if (size <= room)
		convert_to_gcda(out, info);
	return size;
}

/* Counting begins here. */
void warp_coverage_reset(void)
{
	for (struct gcov_info *info = NULL; (info = gcov_info_next(info)); )
		gcov_info_reset(info);
}
