/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * drivers/base/trace.c, unchanged. The kernel's Makefile compiles it with CONFIG_TRACING only, but its tracepoint is
 * used whenever CONFIG_TRACEPOINTS is on.
 */
#include "drivers/base/trace.c"
