/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_PGTABLE_H
#define _WARP_PGTABLE_H
/* There are no page tables (CONFIG_MMU=n); generic code still wants the names. */
#include <linux/version.h>
#include <asm/page.h>
#include <asm-generic/pgtable-nopmd.h>
#define PGDIR_SHIFT 21
#define PGDIR_SIZE (1UL << PGDIR_SHIFT)
#define PTRS_PER_PGD 1
#define pgd_present(pgd) (1)
#define pgd_none(pgd) (0)
#define pgd_bad(pgd) (0)
#define pgd_clear(p)
#define PAGE_NONE __pgprot(0)
#define PAGE_SHARED __pgprot(0)
#define PAGE_COPY __pgprot(0)
#define PAGE_READONLY __pgprot(0)
#define PAGE_KERNEL __pgprot(0)
#define swapper_pg_dir ((pgd_t *)0)
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)	/* later: generic uint8_t empty_zero_page[] */
#define WARP_OWN_ZERO_PAGE
extern void *empty_zero_page;
#define ZERO_PAGE(v) (virt_to_page(empty_zero_page))
#endif
#define VMALLOC_START 0UL
#define VMALLOC_END ~0UL
#endif
