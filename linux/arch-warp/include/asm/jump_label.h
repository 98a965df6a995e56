/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _WARP_JUMP_LABEL_H
#define _WARP_JUMP_LABEL_H
/* Static keys, as on x86-64: a five-byte nop or jump in the library's own text, patched when the key changes. */
#ifndef __ASSEMBLY__
#include <linux/stringify.h>
#include <linux/types.h>
#define JUMP_LABEL_NOP_SIZE 5
#define WARP_JUMP_ENTRY					\
	".pushsection __jump_table, \"aw\"\n\t"		\
	".balign 8\n\t"					\
	".long 1b - .\n\t"				\
	".long %l[l_yes] - .\n\t"			\
	".quad %c0 + %c1 - .\n\t"			\
	".popsection\n\t"

static __always_inline bool arch_static_branch(struct static_key * const key, const bool branch)
{
	asm goto("1:\n\t"
		 ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t"
		 WARP_JUMP_ENTRY : : "i" (key), "i" (branch) : : l_yes);
	return false;
l_yes:
	return true;
}
static __always_inline bool arch_static_branch_jump(struct static_key * const key, const bool branch)
{
	asm goto("1:\n\t"
		 ".byte 0xe9\n\t.long %l[l_yes] - (. + 4)\n\t"
		 WARP_JUMP_ENTRY : : "i" (key), "i" (branch) : : l_yes);
	return false;
l_yes:
	return true;
}
#endif
#endif
