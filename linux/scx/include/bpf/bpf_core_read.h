/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SCHEDLAB_BPF_CORE_READ_H
#define SCHEDLAB_BPF_CORE_READ_H
/*
 * A scheduler is compiled against the types of the very kernel that it runs in: nothing is relocated, and what it asks for by
 * name exists (else it does not compile). Could falsify: a scheduler that asks for a field of an older kernel, by a type of
 * its own with that field, is told that the field exists.
 */
#define bpf_core_field_exists(f...) 1
#define bpf_core_type_exists(t) 1
#define bpf_core_type_matches(t) 1
#define bpf_core_enum_value_exists(t, v) 1
#define bpf_core_enum_value(t, v) (v)
#define bpf_core_type_size(t) sizeof(t)
#define bpf_core_field_size(f...) sizeof(f)
#define bpf_core_field_offset(f...) __builtin_offsetof(f)
#define bpf_core_cast(p, t) ((t *)(p))
#define bpf_core_read(dst, size, src) schedlab_probe_read(dst, size, src)
#define bpf_core_read_str(dst, size, src) schedlab_probe_read_str(dst, size, src)
/* loads through bad pointers read as 0 (see NOTES.md), as BPF's do */
#define ___core_read1(a) (a)
#define ___core_read2(a, b) ((a)->b)
#define ___core_read3(a, b, c) ((a)->b->c)
#define ___core_read4(a, b, c, d) ((a)->b->c->d)
#define ___core_read5(a, b, c, d, e) ((a)->b->c->d->e)
#define BPF_CORE_READ(a...) ___bpf_apply(___core_read, ___bpf_narg(a))(a)
#define BPF_CORE_READ_INTO(dst, a...) ({ *(dst) = BPF_CORE_READ(a); 0; })
#define preserve_access_index
#endif
