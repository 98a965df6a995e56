/* SPDX-License-Identifier: GPL-2.0-only */
/* nothing: memory is flat; <linux/numa.h> asks for the header */
