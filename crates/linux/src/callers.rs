//! Which words of a stack are callers, and where in the source are they?
//!
//! [`stack::walk`](crate::stack::walk) finds every word that stands behind a call instruction. Some are
//! left-overs of calls that are over. The call itself distinguishes a caller from them: a direct call names its
//! target, which must be the function above it on the stack.
//!
//! ```text
//! at            fault_here+0x7              hostile.bpf.c:30
//! ...+0x2f      behind `call fault_here`    hostile_enqueue, a caller           hostile.bpf.c:74
//! ...+0x80      behind `call kfree`         left over: kfree is not below
//! ...+0x12c     behind `call *0x18(%rax)`   do_enqueue_task: may be a caller, and is shown
//! ```
//!
//! A function that ends in a jump (`jmp f` instead of `call f; ret`) stands in for the one that it jumps to.

use crate::elf::{Elf, SymbolKind};
use crate::symbols::Symbols;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use std::path::Path;

/// Code in memory: the kernel object, or a scheduler's.
pub struct Code {
    /// Where it was loaded.
    start: u64,
    end: u64,
    /// The address in the file of what lies at `start`.
    low: u64,
    symbols: Symbols,
    data: Vec<u8>,
    has_lines: bool,
}

/// A place in code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The function, and how far in it.
    pub function: String,
    /// Bytes from the function's beginning.
    pub offset: u64,
    /// `FILE:LINE` of a scheduler's source.
    pub line: Option<String>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}+{:#x}", self.function, self.offset)?;
        self.line.iter().try_for_each(|line| write!(f, " ({line})"))
    }
}

impl Code {
    /// The kernel object, whose code was loaded from `start` to `end`. Lines of its source are not looked up.
    pub fn of_kernel(object: &Path, start: u64, end: u64) -> Option<Code> {
        let data = std::fs::read(object).ok()?;
        let symbols = Symbols::of(&Elf::parse(&data)?, &[SymbolKind::Function]);
        Some(Code { start, end, low: symbols.text_start(), symbols, data, has_lines: false })
    }

    /// A scheduler's object.
    pub fn of_scheduler(object: &Path, start: u64, end: u64) -> Option<Code> {
        let data = std::fs::read(object).ok()?;
        let elf = Elf::parse(&data)?;
        let symbols = Symbols::of(&elf, &[SymbolKind::Function]);
        let low = elf.sections.iter().filter(|s| s.is_code).map(|s| s.address).min()?;
        Some(Code { start, end, low, symbols, data, has_lines: true })
    }

    fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The file's address of what lies at an address of the memory.
    fn in_file(&self, address: u64) -> u64 {
        address - self.start + self.low
    }

    /// The bytes from one of the file's addresses on, at most `most`.
    fn bytes(&self, from: u64, most: u64) -> Option<&[u8]> {
        let elf = Elf::parse(&self.data)?;
        let section =
            elf.sections.iter().find(|s| s.is_code && (s.address..s.address + s.size).contains(&from))?;
        let begin = (from - section.address) as usize;
        let end = section.data.len().min(begin + most as usize);
        section.data.get(begin..end)
    }

    /// Where, in the file, the direct call before a return address goes.
    fn target(&self, returns_to: u64) -> Option<u64> {
        let behind = self.in_file(returns_to);
        let call = self.bytes(behind.checked_sub(5)?, 5).filter(|call| call[0] == 0xe8)?;
        let distance = i32::from_le_bytes([call[1], call[2], call[3], call[4]]);
        Some(behind.wrapping_add_signed(distance.into()))
    }

    /// First address, in the file, of the function around one.
    fn function(&self, in_file: u64) -> Option<u64> {
        self.symbols.find(in_file).map(|(_, offset)| in_file - offset)
    }

    fn place(&self, address: u64) -> Option<Place> {
        let in_file = self.in_file(address);
        let (function, offset) = self.symbols.find(in_file)?;
        // (a scheduler's author wrote `f`; gcc made f.constprop.0 of it)
        let function = if self.has_lines { function.split('.').next().unwrap_or(function) } else { function };
        let line = if self.has_lines { self.line(in_file) } else { None };
        Some(Place { function: function.to_owned(), offset, line })
    }

    fn line(&self, in_file: u64) -> Option<String> {
        let elf = Elf::parse(&self.data)?;
        let section = |id: SectionId| -> Result<_, addr2line::gimli::Error> {
            let data = elf.section(id.name()).map_or(&[][..], |section| section.data);
            Ok(EndianSlice::new(data, LittleEndian))
        };
        let context = addr2line::Context::from_dwarf(Dwarf::load(section).ok()?).ok()?;
        let found = context.find_location(in_file).ok()??;
        Some(format!("{}:{}", found.file?, found.line?))
    }

    /// Whether the function at `from` jumps to the one at `to`, both in the file: a jump of 4 bytes is enough
    /// to look for.
    fn jumps(&self, from: u64, to: u64) -> bool {
        const LONGEST: u64 = 64 << 10;
        let Some((start, bytes)) =
            self.function(from).and_then(|start| Some((start, self.bytes(start, LONGEST)?)))
        else {
            return false;
        };
        let at = |i: usize| -> Option<u64> {
            let distance = i32::from_le_bytes(bytes.get(i..i + 4)?.try_into().ok()?);
            Some((start + i as u64 + 4).wrapping_add_signed(distance.into()))
        };
        let is_jump =
            |i: usize| bytes[i] == 0xe9 || (i > 0 && bytes[i - 1] == 0x0f && bytes[i] & 0xf0 == 0x80);
        let own = (0..bytes.len()).take_while(|i| self.function(start + *i as u64) == Some(start));
        own.filter(|i| is_jump(*i)).any(|i| at(i + 1) == Some(to))
    }
}

/// Where it was and who called, innermost first. `candidates` are return addresses, in the order in which they
/// lie on the stack.
pub fn chain(at: u64, candidates: &[u64], code: &[Code]) -> (Option<Place>, Vec<Place>) {
    let holder = |address: u64| code.iter().find(|code| code.holds(address));
    let mut inner = holder(at).and_then(|code| Some((code, code.function(code.in_file(at))?)));
    let mut callers = Vec::new();
    for candidate in candidates {
        // (the call itself, not what follows it: the function may end with it)
        let Some(code) = holder(candidate - 1) else { continue };
        if let Some((inside, function)) = inner
            && !may_call(code, *candidate, inside, function)
        {
            continue;
        }
        let Some(place) = code.place(candidate - 1) else { continue };
        inner = code.function(code.in_file(candidate - 1)).map(|function| (code, function));
        callers.push(place);
    }
    (holder(at).and_then(|code| code.place(at)), callers)
}

/// Who called whom, innermost first, of a stack that the kernel itself saved: return addresses in their order,
/// left-overs among them. The first whose call names a function that `begins` a report is where it begins; without
/// one, the first.
pub fn saved_chain(saved: &[u64], code: &[Code], begins: impl Fn(&str) -> bool) -> Vec<Place> {
    let calls = |address: &u64| {
        let code = code.iter().find(|code| code.holds(address.wrapping_sub(1)))?;
        code.symbols.find(code.target(*address)?).map(|(name, _)| begins(name))
    };
    let first = saved.iter().position(|address| calls(address) == Some(true)).unwrap_or(0);
    let Some(at) = saved.get(first) else { return Vec::new() };
    let (place, callers) = chain(at.wrapping_sub(1), &saved[first + 1..], code);
    place.into_iter().chain(callers).collect()
}

/// Whether the call before a return address can have led to this function.
fn may_call(code: &Code, returns_to: u64, inside: &Code, function: u64) -> bool {
    let Some(target) = code.target(returns_to) else {
        return true; // through a pointer: to anybody
    };
    let is_same = std::ptr::eq(code, inside);
    match code.function(target) {
        Some(called) if is_same => called == function || code.jumps(called, function),
        // a function of this object that jumped, or was called through a pointer and left no address: unknown
        Some(_) => false,
        // the table of imports: to another object
        None => !is_same,
    }
}
