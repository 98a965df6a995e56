/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_ELF_H
#define _WARP_ELF_H
/* no ELF program is ever loaded (elf_check_arch() is false) */
#include <asm/ptrace.h>
#define ELF_CLASS ELFCLASS64
#define ELF_DATA ELFDATA2LSB
#define ELF_ARCH 62
#define elf_check_arch(x) 0
typedef unsigned long elf_greg_t;
#define ELF_NGREG 16
typedef elf_greg_t elf_gregset_t[ELF_NGREG];
typedef unsigned long elf_fpregset_t;
#define ELF_EXEC_PAGESIZE 4096
#define ELF_ET_DYN_BASE 0
#define ELF_HWCAP 0
#define ELF_PLATFORM NULL
#define ELF_PLAT_INIT(r, l) do {} while (0)
#endif
