/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel: a compressed table of all symbols, made by linking three times; lock debugging wants it (CONFIG_LOCKDEP).
 * Ours: one symbol, "linux", at the start of the text: %pS prints "linux+0x1234/0x...", which the simulator, who has the
 * symbols, replaces. Could falsify: lookups by name find nothing but "linux".
 */
#include <linux/types.h>
#include <asm/sections.h>

extern const int kallsyms_offsets[];
extern const u8 kallsyms_names[];
extern const unsigned int kallsyms_num_syms;
extern const unsigned long kallsyms_relative_base;
extern const char kallsyms_token_table[];
extern const u16 kallsyms_token_index[];
extern const unsigned int kallsyms_markers[];
extern const u8 kallsyms_seqs_of_names[];

const int kallsyms_offsets[] = { 0 };
/* a name of one token */
const u8 kallsyms_names[] = { 1, 0 };
const unsigned int kallsyms_num_syms = 1;
const unsigned long kallsyms_relative_base = (unsigned long)_stext;
/* token 0: the symbol's type and its name */
const char kallsyms_token_table[] = "Tlinux";
const u16 kallsyms_token_index[256] = { 0 };
const unsigned int kallsyms_markers[] = { 0 };
const u8 kallsyms_seqs_of_names[] = { 0, 0, 0 };
