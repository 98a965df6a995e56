//! Which of the kernel's symbols does a scheduler mean?
//!
//! ```text
//! linux.so  .symtab   scx_bpf_kick_cpu  0x1a2b40 (static in the kernel, still named here)
//! sched.so  .rela.plt JUMP_SLOT scx_bpf_kick_cpu at 0x4018   ->   base of linux.so + 0x1a2b40 is written there
//! ```

use schedlab_linux::elf::Symbol;
use std::collections::{BTreeMap, BTreeSet};

/// A name without the flavour behind its last `___`, as libbpf looks it up (bpf_core_essential_name_len()):
/// several declarations of one function or type can differ. Longer rows of `_` separate nothing.
pub(crate) fn essential(name: &str) -> &str {
    let bytes = name.as_bytes();
    let is_separator =
        |at: usize| bytes[at] != b'_' && bytes[at + 1..].starts_with(b"___") && bytes[at + 4] != b'_';
    match (0..bytes.len().saturating_sub(4)).rev().find(|at| is_separator(*at)) {
        Some(at) => name.get(..=at).unwrap_or(name),
        None => name,
    }
}

/// Values of the wanted symbols. A name that stands for several things is left out.
pub(crate) fn lookup(symbols: &[Symbol], wanted: &BTreeSet<String>) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut ambiguous = Vec::new();
    for s in symbols.iter().filter(|s| s.section != 0 && wanted.contains(&s.name)) {
        if found.insert(s.name.clone(), s.value).is_some_and(|old| old != s.value) {
            ambiguous.push(s.name.clone());
        }
    }
    for name in ambiguous {
        found.remove(&name);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flavours_are_cut_off() {
        assert_eq!(essential("scx_bpf_dsq_insert___compat"), "scx_bpf_dsq_insert");
        assert_eq!(essential("scx_bpf_dsq_insert___v2___compat"), "scx_bpf_dsq_insert___v2");
        assert_eq!(essential("___x"), "___x");
        assert_eq!(essential("plain"), "plain");
        assert_eq!(essential("my____thing"), "my____thing");
        assert_eq!(
            (essential("a___"), essential("a___b"), essential("___vmlinux___")),
            ("a___", "a", "___vmlinux___")
        );
    }
}
