/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel: patch a static key's branch. Ours: write it. The simulator has made the library's text writable, and there is
 * one host thread, so no other CPU can be executing the five bytes.
 */
#include <linux/jump_label.h>
#include <linux/string.h>
#include "warp.h"

void arch_jump_label_transform(struct jump_entry *entry, enum jump_label_type type)
{
	static const u8 nop[5] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	u8 *code = (u8 *)jump_entry_code(entry);
	u8 jump[5] = { 0xe9 };
	s32 offset = (s32)(jump_entry_target(entry) - (jump_entry_code(entry) + 5));

	memcpy(jump + 1, &offset, 4);
	/* Linux < 6.0 writes the initial nops, too */
	BUG_ON(memcmp(code, nop, 5) && memcmp(code, jump, 5));
	memcpy(code, type == JUMP_LABEL_JMP ? jump : nop, 5);
}
