//! What is in a compiled object: sections, symbols, imports? Read by the crate `object`.
//!
//! ```text
//! .text    executable   0x1000, 0x2f3a10 bytes
//! .symtab  pick_eevdf   0x1a2b40, 312 bytes, a function of section 1
//! .rela.plt             the address of malloc, which the object does not define, belongs at 0x4018
//! ```
//!
//! ELF64, little endian, which is all that the port and the schedulers are built as.

use object::read::elf::{ElfFile64, SectionHeader, Sym};
use object::{LittleEndian, Object, RelocationTarget, elf};
use std::path::Path;

/// A section.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// Such as `.text`.
    pub name: String,
    /// Whether it is executed.
    pub is_code: bool,
    /// Whether it is in memory when the object is loaded.
    pub is_loaded: bool,
    /// Where it lies when it is loaded at 0.
    pub address: u64,
    /// In bytes.
    pub size: u64,
    /// Its bytes in the file: none of one that begins as zeros.
    pub data: &'a [u8],
}

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Such as `pick_eevdf`.
    pub name: String,
    /// Its address when the object is loaded at 0.
    pub value: u64,
    /// In bytes.
    pub size: u64,
    /// What it names.
    pub kind: SymbolKind,
    /// Whether another symbol of that name has precedence.
    pub is_weak: bool,
    /// Index of its section; 0: undefined.
    pub section: u16,
}

/// What a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// Code.
    Function,
    /// Data.
    Variable,
    /// A section, a file, nothing.
    Other,
}

/// An ELF file in memory.
pub struct Elf<'a> {
    file: ElfFile64<'a, LittleEndian>,
    /// All sections, by index; number 0 is none.
    pub sections: Vec<Section<'a>>,
}

impl<'a> Elf<'a> {
    /// `None`: it is no such file, or damaged.
    pub fn parse(data: &'a [u8]) -> Option<Elf<'a>> {
        let file = ElfFile64::<LittleEndian>::parse(data).ok()?;
        let table = file.elf_section_table();
        let section = |header: &elf::SectionHeader64<LittleEndian>| {
            let flags = header.sh_flags(LittleEndian);
            Some(Section {
                name: lossy(table.section_name(LittleEndian, header).ok()?),
                is_code: flags.contains(elf::SHF_EXECINSTR),
                is_loaded: flags.contains(elf::SHF_ALLOC),
                address: header.sh_addr(LittleEndian),
                size: header.sh_size(LittleEndian),
                data: header.data(LittleEndian, data).ok()?,
            })
        };
        let sections = table.iter().map(section).collect::<Option<_>>()?;
        Some(Elf { file, sections })
    }

    /// The section of this name.
    pub fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|s| s.name == name)
    }

    /// The full symbol table.
    pub fn symbols(&self) -> Vec<Symbol> {
        let table = self.file.elf_symbol_table();
        let symbol = |symbol: &elf::Sym64<LittleEndian>| Symbol {
            name: lossy(table.symbol_name(LittleEndian, symbol).unwrap_or_default()),
            value: symbol.st_value(LittleEndian),
            size: symbol.st_size(LittleEndian),
            kind: match symbol.st_type() {
                elf::STT_FUNC => SymbolKind::Function,
                elf::STT_OBJECT => SymbolKind::Variable,
                _ => SymbolKind::Other,
            },
            is_weak: symbol.is_weak(),
            section: symbol.st_shndx(LittleEndian).0,
        };
        table.iter().map(symbol).collect()
    }

    /// Dynamic relocations against symbols that the object does not define: address, addend, name.
    pub fn imports(&self) -> Vec<(u64, i64, String)> {
        let table = self.file.elf_dynamic_symbol_table();
        let import = |(at, relocation): (u64, object::Relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else { return None };
            let symbol = table.symbol(index).ok().filter(|s| s.is_undefined(LittleEndian))?;
            let name = lossy(table.symbol_name(LittleEndian, symbol).ok()?);
            (!name.is_empty()).then(|| (at, relocation.addend(), name))
        };
        self.file.dynamic_relocations().into_iter().flatten().filter_map(import).collect()
    }

    /// Versions that the object asks of its libraries, as the dynamic loader checks them: `GLIBC_2.34`, `GCC_3.0`.
    /// `None`: their table is damaged.
    pub fn needed_versions(&self) -> Option<Vec<String>> {
        let (table, data) = (self.file.elf_section_table(), self.file.data());
        let Some((needs, link)) = table.gnu_verneed(LittleEndian, data).ok()? else {
            return Some(Vec::new());
        };
        let strings = table.strings(LittleEndian, data, link).ok()?;
        let mut names = Vec::new();
        for library in needs {
            for version in library.ok()?.1 {
                names.push(lossy(version.ok()?.name(LittleEndian, strings).ok()?));
            }
        }
        Some(names)
    }
}

/// Whether the dynamic loader executes nothing of this object's own when it opens it: no constructors beside
/// the C runtime's one, and no functions that choose functions (IRELATIVE). Such an object can be opened in a
/// process that is not contained.
pub fn loads_quietly(path: &Path) -> bool {
    quiet(path).unwrap_or(false)
}

fn quiet(path: &Path) -> Option<bool> {
    use object::read::elf::FileHeader;
    const RUNTIMES_OWN: u64 = 8; // frame_dummy of crtstuff.c
    let cache = object::ReadCache::new(std::fs::File::open(path).ok()?);
    let header = elf::FileHeader64::<LittleEndian>::parse(&cache).ok()?;
    let sections = header.sections(LittleEndian, &cache).ok()?;
    let mut is_quiet = true;
    for section in sections.iter() {
        match section.sh_type(LittleEndian) {
            elf::SHT_INIT_ARRAY | elf::SHT_PREINIT_ARRAY => {
                is_quiet &= section.sh_size(LittleEndian) <= RUNTIMES_OWN;
            }
            elf::SHT_RELA if section.sh_flags(LittleEndian).contains(elf::SHF_ALLOC) => {
                let (relocations, _) = section.rela(LittleEndian, &cache).ok()??;
                is_quiet &=
                    relocations.iter().all(|r| r.r_type(LittleEndian, false) != elf::R_X86_64_IRELATIVE);
            }
            _ => {}
        }
    }
    Some(is_quiet)
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
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
        assert!(text.is_code && text.is_loaded && main.kind == SymbolKind::Function);
        assert_eq!(elf.sections[usize::from(main.section)].name, ".text");
        // libc is imported
        assert!(elf.imports().iter().any(|(_, _, name)| name.starts_with("malloc")));
        assert!(elf.needed_versions().unwrap().iter().any(|name| name.starts_with("GLIBC_2.")));
        assert!(Elf::parse(&data[..100]).is_none());
    }
}
