/* SPDX-License-Identifier: GPL-2.0-only */
/* The header of this name that comes with a scheduler, then ours again (schedlab_objects.h). */
#include_next <bpf_experimental.h>
#ifndef SCHEDLAB_BPF_EXPERIMENTAL_H
#define SCHEDLAB_BPF_EXPERIMENTAL_H
#include <schedlab_objects.h>
#endif
