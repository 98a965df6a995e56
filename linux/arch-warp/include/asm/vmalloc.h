/* SPDX-License-Identifier: GPL-2.0-only */
/* nothing: vmalloc() without an MMU is kmalloc() */
