//! What is in a scheduler's object, and at which addresses are the kernel's symbols?
//!
//! ```text
//! linux.so  .symtab   scx_bpf_kick_cpu  0x1a2b40 (static in the kernel, still named here)
//! sched.so  .rela.plt JUMP_SLOT scx_bpf_kick_cpu at 0x4018   ->   base of linux.so + 0x1a2b40 is written there
//! ```
//!
//! ELF64, little endian, x86-64.

use std::collections::{BTreeMap, BTreeSet};

/// A section.
#[derive(Clone, Debug)]
pub(crate) struct Section<'a> {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
    pub(crate) data: &'a [u8],
}

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) value: u64,
    pub(crate) size: u64,
    /// `STT_*`: 0 none, 1 object, 2 function.
    pub(crate) kind: u8,
    pub(crate) is_weak: bool,
    /// Index of its section; 0: undefined.
    pub(crate) section: u16,
}

/// An ELF file in memory.
pub(crate) struct Elf<'a> {
    pub(crate) sections: Vec<Section<'a>>,
}

const SHT_SYMTAB: u32 = 2;
const SHT_RELA: u32 = 4;
const SHT_NOBITS: u32 = 8;
const SHT_DYNSYM: u32 = 11;
pub(crate) const SHF_EXECINSTR: u64 = 4;

fn number(data: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let bytes = data.get(at..at.checked_add(bytes)?)?;
    Some(bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
}

fn text(table: &[u8], at: u64) -> String {
    let bytes = table.get(at as usize..).and_then(|t| t.split(|&b| b == 0).next()).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

impl<'a> Elf<'a> {
    pub(crate) fn parse(data: &'a [u8]) -> Option<Elf<'a>> {
        if data.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let table = number(data, 0x28, 8)? as usize;
        let (entry, count, names) = (
            number(data, 0x3a, 2)? as usize,
            number(data, 0x3c, 2)? as usize,
            number(data, 0x3e, 2)? as usize,
        );
        let mut sections = Vec::with_capacity(count);
        let mut name_at = Vec::with_capacity(count);
        for i in 0..count {
            let h = table.checked_add(i * entry)?;
            let field = |at: usize, bytes| number(data, h + at, bytes);
            let (kind, offset, size) = (field(4, 4)? as u32, field(0x18, 8)? as usize, field(0x20, 8)?);
            let bytes = if kind == SHT_NOBITS {
                &[][..]
            } else {
                data.get(offset..offset.checked_add(size as usize)?)?
            };
            name_at.push(field(0, 4)?);
            sections.push(Section {
                name: String::new(),
                kind,
                flags: field(8, 8)?,
                address: field(0x10, 8)?,
                size,
                link: field(0x28, 4)? as u32,
                data: bytes,
            });
        }
        let names = sections.get(names)?.data;
        for (section, at) in sections.iter_mut().zip(name_at) {
            section.name = text(names, at);
        }
        Some(Elf { sections })
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|s| s.name == name)
    }

    /// The full symbol table.
    pub(crate) fn symbols(&self) -> Vec<Symbol> {
        self.sections.iter().filter(|s| s.kind == SHT_SYMTAB).flat_map(|s| self.table(s)).collect()
    }

    fn table(&self, section: &Section<'_>) -> Vec<Symbol> {
        let names = self.sections.get(section.link as usize).map_or(&[][..], |s| s.data);
        section
            .data
            .chunks_exact(24)
            .map(|s| Symbol {
                name: text(names, number(s, 0, 4).unwrap_or(0)),
                value: number(s, 8, 8).unwrap_or(0),
                size: number(s, 16, 8).unwrap_or(0),
                kind: s[4] & 15,
                is_weak: s[4] >> 4 == 2,
                section: number(s, 6, 2).unwrap_or(0) as u16,
            })
            .collect()
    }

    /// Dynamic relocations against symbols that the object does not define: address, addend, name.
    pub(crate) fn imports(&self) -> Vec<(u64, i64, String)> {
        let mut found = Vec::new();
        for section in self.sections.iter().filter(|s| s.kind == SHT_RELA) {
            let Some(symbols) = self.sections.get(section.link as usize).filter(|s| s.kind == SHT_DYNSYM)
            else {
                continue;
            };
            let symbols = self.table(symbols);
            for r in section.data.chunks_exact(24) {
                let (at, info, addend) = (number(r, 0, 8), number(r, 8, 8), number(r, 16, 8));
                let (Some(at), Some(info), Some(addend)) = (at, info, addend) else { continue };
                let Some(symbol) = symbols.get((info >> 32) as usize).filter(|s| !s.name.is_empty()) else {
                    continue;
                };
                if symbol.section == 0 {
                    found.push((at, addend as i64, symbol.name.clone()));
                }
            }
        }
        found
    }
}

/// A name without the flavour behind its last `___`, as libbpf looks it up (bpf_core_essential_name_len()): several declarations of
/// one function or type can differ. Longer rows of `_` separate nothing.
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
    fn this_program_has_sections_and_a_main() {
        let data = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::parse(&data).unwrap();
        let text = elf.section(".text").unwrap();
        let main = elf.symbols().into_iter().find(|s| s.name == "main").unwrap();
        assert!((text.address..text.address + text.size).contains(&main.value));
        assert_eq!(text.flags & SHF_EXECINSTR, SHF_EXECINSTR);
        // libc is imported
        assert!(elf.imports().iter().any(|(_, _, name)| name.starts_with("malloc")));
        assert!(Elf::parse(&data[..100]).is_none());
    }

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
