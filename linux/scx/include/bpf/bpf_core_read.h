/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SCHEDLAB_BPF_CORE_READ_H
#define SCHEDLAB_BPF_CORE_READ_H
/*
 * What libbpf would relocate when it loads a program. A scheduler is compiled against the types of the very kernel that it runs
 * in; a type of its own (struct rq___local) is laid out as the kernel's, and these questions are answered, in the preprocessed
 * text (crates/scx/src/relocate.rs). The attribute preserve_access_index is left in it, too: gcc knows none of that name.
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
#define ___core_read6(a, b, c, d, e, f) ((a)->b->c->d->e->f)
#define ___core_read7(a, b, c, d, e, f, g) ((a)->b->c->d->e->f->g)
#define ___core_read8(a, b, c, d, e, f, g, h) ((a)->b->c->d->e->f->g->h)
#define ___core_read9(a, b, c, d, e, f, g, h, i) ((a)->b->c->d->e->f->g->h->i)
#define ___core_read10(a, b, c, d, e, f, g, h, i, j) ((a)->b->c->d->e->f->g->h->i->j)
#define BPF_CORE_READ(a...) ___bpf_apply(___core_read, ___bpf_narg(a))(a)
/* the last step is bpf_core_read()'s, with its error; arrays are copied */
#define BPF_CORE_READ_INTO(dst, a...) bpf_core_read(dst, sizeof(*(dst)), &BPF_CORE_READ(a))
#define BPF_CORE_READ_STR_INTO(dst, a...) bpf_core_read_str(dst, sizeof(*(dst)), &BPF_CORE_READ(a))
#define BPF_PROBE_READ BPF_CORE_READ
#define BPF_PROBE_READ_INTO BPF_CORE_READ_INTO
#define BPF_PROBE_READ_STR_INTO BPF_CORE_READ_STR_INTO
#define BPF_CORE_READ_BITFIELD(s, f) ((unsigned long long)(s)->f)
#define BPF_CORE_READ_BITFIELD_PROBED(s, f) BPF_CORE_READ_BITFIELD(s, f)
/* a number for bpf_rdonly_cast(), which does not look at it; 0 for a type that the kernel lacks */
#define bpf_core_type_id_kernel(t) __schedlab_core_type_exists(t)
#define __builtin_preserve_access_index(x) (x)
#endif
