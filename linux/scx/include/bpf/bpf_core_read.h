/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SCHEDLAB_BPF_CORE_READ_H
#define SCHEDLAB_BPF_CORE_READ_H
/*
 * What libbpf would relocate when it loads a program. A scheduler is compiled against the types of the very kernel that it runs
 * in; a type of its own (struct rq___local) is laid out as the kernel's, and these questions are answered, in the preprocessed
 * text (crates/linux/src/scx/relocate.rs). The attribute preserve_access_index is left in it, too: gcc knows none of that name.
 * Could falsify: bit fields in such types, which are refused.
 */
#define bpf_core_field_exists(f...) __schedlab_core_field_exists(f)
#define bpf_core_type_exists(t) __schedlab_core_type_exists(t)
#define bpf_core_type_matches(t) __schedlab_core_type_exists(t)
#define bpf_core_enum_value_exists(t, v) __schedlab_core_enum_value_exists(t, v)
#define bpf_core_enum_value(t, v) __schedlab_core_enum_value(t, v)
#define bpf_core_type_size(t) __schedlab_core_type_size(t)
#define bpf_core_field_size(f...) __schedlab_core_field_size(f)
#define bpf_core_field_offset(f...) __schedlab_core_field_offset(f)
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
#endif
