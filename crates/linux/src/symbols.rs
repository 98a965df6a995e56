//! Which kernel function does an address belong to?
//!
//! The kernel object exports one name; its full symbol table (`.symtab`) stays in the file and is read from
//! there when a stack trace has to be printed.

use crate::elf::{Elf, SymbolKind};
use std::io;
use std::path::Path;

/// The symbol at which kernel code starts.
pub const TEXT_START: &str = "warp_text_start";

/// Functions by address.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// (start, size, name), sorted by start.
    ranges: Vec<(u64, u64, String)>,
    text_start: u64,
}

impl Symbols {
    /// Read the symbol table of an ELF file.
    pub fn read(object: &Path) -> io::Result<Symbols> {
        let data = std::fs::read(object)?;
        Symbols::parse(&data).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: no ELF symbol table", object.display()))
        })
    }

    fn parse(data: &[u8]) -> Option<Symbols> {
        let found = Symbols::of(&Elf::parse(data)?, &[SymbolKind::Function]);
        (!found.ranges.is_empty()).then_some(found)
    }

    /// What these kinds of symbols name.
    pub fn of(elf: &Elf<'_>, kinds: &[SymbolKind]) -> Symbols {
        let symbols = elf.symbols();
        let text_start = symbols.iter().find(|s| s.name == TEXT_START).map_or(0, |s| s.value);
        let named = symbols.into_iter().filter(|s| s.section != 0 && s.size > 0 && kinds.contains(&s.kind));
        let mut ranges: Vec<_> = named.map(|s| (s.value, s.size, s.name)).collect();
        ranges.sort();
        Symbols { ranges, text_start }
    }

    /// The function at an address of the file, and the offset in it.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.ranges.partition_point(|(start, _, _)| *start <= address);
        let (start, size, name) = self.ranges.get(after.checked_sub(1)?)?;
        (address - start < *size).then_some((name, address - start))
    }

    /// Address in the file of the function with this name; the first if several files have one.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.ranges.iter().find(|(_, _, known)| known == name).map(|(start, ..)| *start)
    }

    /// Where kernel code starts in the file.
    pub fn text_start(&self) -> u64 {
        self.text_start
    }

    /// Number of functions.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test's own executable is an ELF file whose symbol table the compiler wrote.
    #[test]
    fn finds_a_function_of_this_program() {
        let symbols = Symbols::read(&std::env::current_exe().unwrap()).unwrap();
        let main = symbols.ranges.iter().find(|f| f.2 == "main").expect("an executable has main");
        assert_eq!(symbols.find(main.0 + 1), Some(("main", 1)));
        assert_eq!(symbols.address("main"), Some(main.0));
        assert_eq!(symbols.find(1), None);
    }

    #[test]
    fn no_elf_and_cut_elf_are_refused() {
        assert!(Symbols::parse(b"not elf").is_none());
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for cut in [5, 63, 100, whole.len() / 2] {
            assert!(Symbols::parse(&whole[..cut]).is_none(), "cut at {cut}");
        }
    }
}
