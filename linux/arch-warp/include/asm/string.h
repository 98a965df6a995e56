/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_STRING_H
#define _WARP_STRING_H
/* the host's libc has the best memcpy() and friends for the host's processor */
#define __HAVE_ARCH_MEMCPY
extern void *memcpy(void *, const void *, __kernel_size_t) __attribute__((visibility("default")));
#define __HAVE_ARCH_MEMSET
extern void *memset(void *, int, __kernel_size_t) __attribute__((visibility("default")));
#define __HAVE_ARCH_MEMMOVE
extern void *memmove(void *, const void *, __kernel_size_t) __attribute__((visibility("default")));
#define __HAVE_ARCH_MEMCMP
extern int memcmp(const void *, const void *, __kernel_size_t) __attribute__((visibility("default")));
#ifdef CONFIG_KASAN
/* the unchecked ones: kernel/kasan.c */
extern void *__memcpy(void *, const void *, __kernel_size_t);
extern void *__memset(void *, int, __kernel_size_t);
extern void *__memmove(void *, const void *, __kernel_size_t);
#endif
#endif
