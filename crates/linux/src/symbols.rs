//! Which kernel function does an address belong to?
//!
//! The kernel object exports one name; its full symbol table (`.symtab`) stays in the file and is read from there when a
//! stack trace has to be printed. ELF64, little endian, which is all that the port is built as.

use std::io;
use std::path::Path;

/// Functions by address.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// (start, size, name), sorted by start.
    functions: Vec<(u64, u64, String)>,
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
        let u16_at = |at: usize| Some(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?) as usize);
        let u32_at = |at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?) as usize);
        let u64_at = |at: usize| Some(u64::from_le_bytes(data.get(at..at.checked_add(8)?)?.try_into().ok()?));
        if data.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let (table, entry, count) = (u64_at(0x28)? as usize, u16_at(0x3a)?, u16_at(0x3c)?);
        let header = |i: usize| table.checked_add(i * entry);
        const SHT_SYMTAB: usize = 2;
        let symtab = (0..count).find_map(|i| header(i).filter(|&h| u32_at(h + 4) == Some(SHT_SYMTAB)))?;
        let section = |h: usize| data.get(u64_at(h + 0x18)? as usize..)?.get(..u64_at(h + 0x20)? as usize);
        let names = section(header(u32_at(symtab + 0x28)?)?)?;
        let mut functions = Vec::new();
        let mut text_start = 0;
        for symbol in section(symtab)?.chunks_exact(24) {
            let name_at = u32::from_le_bytes(symbol[..4].try_into().ok()?) as usize;
            let value = u64::from_le_bytes(symbol[8..16].try_into().ok()?);
            let size = u64::from_le_bytes(symbol[16..24].try_into().ok()?);
            let name = names.get(name_at..)?.split(|&b| b == 0).next()?;
            if name == b"warp_text_start" {
                text_start = value;
            }
            const STT_FUNC: u8 = 2;
            if symbol[4] & 15 == STT_FUNC && size > 0 {
                functions.push((value, size, String::from_utf8_lossy(name).into_owned()));
            }
        }
        functions.sort();
        Some(Symbols { functions, text_start })
    }

    /// The function at an address of the file, and the offset in it.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.functions.partition_point(|(start, _, _)| *start <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - start < *size).then_some((name, address - start))
    }

    /// Address in the file of the function with this name; the first if several files have one.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.functions.iter().find(|(_, _, known)| known == name).map(|(start, ..)| *start)
    }

    /// Where kernel code starts in the file.
    pub fn text_start(&self) -> u64 {
        self.text_start
    }

    /// Number of functions.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test's own executable is an ELF file whose symbol table the compiler wrote.
    #[test]
    fn finds_a_function_of_this_program() {
        let symbols = Symbols::read(&std::env::current_exe().unwrap()).unwrap();
        let main = symbols.functions.iter().find(|f| f.2 == "main").expect("an executable has main");
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
