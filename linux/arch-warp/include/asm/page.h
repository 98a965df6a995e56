/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_PAGE_H
#define _WARP_PAGE_H
/*
 * No MMU: memory is one mapping of the host process; virtual and host addresses are the same number. Physical addresses begin
 * low, because the kernel looks at every block of pages below memory when it boots (7.x: 0.3 s from 0 to 1 TiB).
 */
#include <linux/version.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#include <vdso/page.h>
#else
#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#endif
#ifndef __ASSEMBLY__
#define clear_page(p) memset((p), 0, PAGE_SIZE)
#define copy_page(t, f) memcpy((t), (f), PAGE_SIZE)
#define clear_user_page(p, v, pg) clear_page(p)
#define copy_user_page(t, f, v, pg) copy_page(t, f)
typedef struct { unsigned long pte; } pte_t;
typedef struct { unsigned long pgd; } pgd_t;
typedef struct { unsigned long pgprot; } pgprot_t;
typedef struct page *pgtable_t;
#define pte_val(x) ((x).pte)
#define pgd_val(x) ((x).pgd)
#define pgprot_val(x) ((x).pgprot)
#define __pte(x) ((pte_t){(x)})
#define __pgd(x) ((pgd_t){(x)})
#define __pgprot(x) ((pgprot_t){(x)})
extern unsigned long memory_start, memory_end;
#define PAGE_OFFSET (memory_start)
#define WARP_PHYS 0x8000000UL	/* 128 MiB, the largest block of the page allocator */
#define ARCH_PFN_OFFSET (WARP_PHYS >> PAGE_SHIFT)
#define __va(x) ((void *)((unsigned long)(x) - WARP_PHYS + memory_start))
#define __pa(x) ((unsigned long)(x) - memory_start + WARP_PHYS)
#define virt_to_pfn(k) (__pa(k) >> PAGE_SHIFT)
#define pfn_to_virt(p) __va((p) << PAGE_SHIFT)
#define virt_to_page(a) pfn_to_page(virt_to_pfn(a))
#define page_to_virt(p) pfn_to_virt(page_to_pfn(p))
#define virt_addr_valid(k) ((unsigned long)(k) >= memory_start && (unsigned long)(k) < memory_end)
#define pfn_valid(p) ((p) >= ARCH_PFN_OFFSET && (p) < (__pa(memory_end) >> PAGE_SHIFT))
#include <asm-generic/memory_model.h>
#ifndef page_to_phys		/* generic from 6.14 on */
#define page_to_phys(p) ((phys_addr_t)page_to_pfn(p) << PAGE_SHIFT)
#define phys_to_page(p) pfn_to_page((p) >> PAGE_SHIFT)
#endif
#ifdef CONFIG_NUMA
/* All memory is node 0's, so its map is the map of flat memory. (Before 7.0 generic code sets mem_map without NUMA only.) */
extern struct pglist_data warp_node0;
#undef __pfn_to_page
#undef __page_to_pfn
#define __pfn_to_page(pfn) (warp_node0.node_mem_map + ((pfn) - ARCH_PFN_OFFSET))
#define __page_to_pfn(page) ((unsigned long)((page) - warp_node0.node_mem_map) + ARCH_PFN_OFFSET)
#endif
#include <asm-generic/getorder.h>
#endif
#endif
