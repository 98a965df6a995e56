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
#define PTRS_PER_PTE 1
struct vm_area_struct;
struct mm_struct;
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
#ifdef CONFIG_NUMA
/*
 * mm/mempolicy.c walks page tables, MMU or not. It is never called: no task has memory. What it would call stands in
 * warp.lds.S (warp_no_mmu).
 */
#define ptep_get(ptep) (*(ptep))
#define pmdp_get(pmdp) (*(pmdp))
#define pte_none(pte) 1
#define pte_present(pte) 0
#define pte_unmap(ptep) ((void)(ptep))
#define pte_pfn(pte) 0UL
#define pmd_present(pmd) 0
#define pmd_pfn(pmd) 0UL
#define pmd_trans_unstable(pmdp) 0
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define pte_offset_map(pmd, address) ((void)(pmd), (pte_t *)NULL)
#endif
#define pmd_page(pmd) ((void)(pmd), (struct page *)NULL)
#define is_pmd_migration_entry(pmd) 0	/* this name and the next two: Linux < 6.19 */
#define is_migration_entry(entry) 0
#define pte_to_swp_entry(pte) ((void)(pte), (swp_entry_t){ })
#define pmd_is_migration_entry(pmd) 0
#define pmd_folio(pmd) ((void)(pmd), (struct folio *)NULL)
#define softleaf_from_pte(pte) ((void)(pte), (softleaf_t){ })
#define softleaf_is_migration(leaf) ((void)(leaf), 0)
#define folio_pte_batch(...) 1
#define page_address_in_vma(...) 0UL
#endif
#ifdef CONFIG_KASAN
/* mm/kasan/init.c fills page tables for the shadow, on machines that have some. Never called: kernel/kasan.c maps it. */
#define pte_page(pte) ((void)(pte), (struct page *)NULL)
#define pte_offset_kernel(pmd, address) ((void)(pmd), (pte_t *)NULL)
#define pfn_pte(pfn, prot) ((void)(pfn), __pte(0))
#define pte_wrprotect(pte) (pte)
#define pte_clear(mm, address, ptep) ((void)(ptep))
#define pte_alloc_one_kernel(mm) ((pte_t *)NULL)
#define pte_free_kernel(mm, pte) ((void)(pte))
#define set_pte_at(mm, address, ptep, pte) ((void)(pte))
#define pmd_populate_kernel(mm, pmd, pte) ((void)(pmd))
#define pmd_none(pmd) 1
#define pmd_clear(pmd) ((void)(pmd))
#define pmd_alloc(mm, pud, address) ((pmd_t *)NULL)
#define pud_alloc(mm, p4d, address) ((pud_t *)NULL)
#define p4d_alloc(mm, pgd, address) ((p4d_t *)NULL)
#define pgd_offset_k(address) ((pgd_t *)NULL)
#define pgd_addr_end(address, end) (end)
#define ARCH_PAGE_TABLE_SYNC_MASK 0
#define arch_sync_kernel_mappings(start, end) do { } while (0)
#endif
#define VMALLOC_START 0UL
#define VMALLOC_END ~0UL
#endif
