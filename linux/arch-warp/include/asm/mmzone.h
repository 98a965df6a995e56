/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_MMZONE_H
#define _WARP_MMZONE_H
/* Node data. Linux >= 6.12 has the array in mm/numa.c and does not include this header. */
#include <linux/version.h>
#if defined(CONFIG_NUMA) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define WARP_OWN_NODE_DATA
extern struct pglist_data *node_data[];
#define NODE_DATA(nid) (node_data[nid])
#endif
#endif
