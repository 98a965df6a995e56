//! Who takes a lock that nobody holds? No system call tells: programs at the functions of the C library do (uprobes).
//!
//! ```text
//! pthread_mutex_lock(0x7f..10)      key: the process's memory and the address; room: __kind of the mutex
//! pthread_cond_wait(0x7f..38, 0x7f..10)      other: the mutex
//! ```
//!
//! Of a lock `other` is the place in the program from which it is taken: what a thread does with the mutex differs from
//! place to place.
//!
//! The event comes when the function begins; what is in a semaphore then says whether `sem_trywait` will take one
//! (Python tries that before it waits, at each of its locks). The futex in a mutex or semaphore has the same address,
//! and so the same key: the calls of `futex` tell who waited, and until when. Each function is found in the symbols of
//! the library's file; programs that bring a library of their own, or lock without one (Go), are not seen.

use super::insn::{Asm, FRAME, If, R1, R2, R3, R6, R8, Size};
use super::objects::{CALL, KEY, KIND, OTHER, ROOM, WORD, read_user};
use super::programs::{Generator, Source, Unsupported};
use schedlab_trace::{LOCK_CALLS, LockCall, OBJECT_LOCK};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bit of what the library says of a mutex or semaphore: processes share it.
const SHARED: i32 = 0x80;

/// A function that a program is attached to: its number in [`LOCK_CALLS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LockFunction(pub usize);

impl LockFunction {
    fn call(self) -> LockCall {
        LOCK_CALLS[self.0].1
    }

    /// Where the library keeps what it knows of the object: `__kind` of pthread_mutex_t, `private` of sem_t, `count` of
    /// pthread_barrier_t (sysdeps/nptl/bits/struct_mutex.h, internaltypes.h of glibc).
    fn detail(self) -> Option<i32> {
        match self.call() {
            LockCall::Lock | LockCall::Try | LockCall::Unlock => Some(16),
            LockCall::Take | LockCall::TryTake | LockCall::Post | LockCall::Barrier => Some(8),
            LockCall::Wait | LockCall::Signal | LockCall::Broadcast => None,
        }
    }
}

/// Fields of `schedlab:object` as these programs fill them.
pub(super) fn fields() -> Vec<(&'static str, Source)> {
    [("key", KEY), ("kind", KIND), ("room", ROOM), ("call", CALL), ("other", OTHER)]
        .map(|(name, at)| (name, Source::Stack(at)))
        .to_vec()
}

impl Generator<'_> {
    /// Puts what a function of the C library was given on the stack; r6: the registers.
    pub(super) fn lock_of_call(&self, asm: &mut Asm) -> Result<(), Unsupported> {
        asm.store_value(Size::Long, FRAME, OTHER, 0);
        asm.store_value(Size::Word, FRAME, KIND, OBJECT_LOCK as i32);
        asm.store_value(Size::Word, FRAME, CALL, self.lock.0 as i32);
        asm.store_value(Size::Word, FRAME, ROOM, 0);
        asm.load(Size::Long, R8, R6, self.offset("pt_regs", "di")?);
        if let Some(at) = self.lock.detail() {
            asm.mov(R3, R8);
            asm.add(R3, at);
            read_user(asm, 4);
            asm.load(Size::Word, R2, FRAME, WORD);
            asm.store(Size::Word, FRAME, ROOM, R2);
        }
        if self.lock.call() == LockCall::Lock {
            // where it will return to
            asm.load(Size::Long, R3, R6, self.offset("pt_regs", "sp")?);
            read_user(asm, 8);
            asm.load(Size::Long, R2, FRAME, WORD);
            asm.store(Size::Long, FRAME, OTHER, R2);
        }
        self.process(asm)?;
        if self.lock.call() == LockCall::Lock {
            asm.load(Size::Long, R2, FRAME, OTHER);
            asm.add_reg(R2, R3);
            asm.store(Size::Long, FRAME, OTHER, R2);
        }
        if !matches!(self.lock.call(), LockCall::Barrier) {
            let (shared, private) = (asm.label(), asm.label());
            asm.load(Size::Word, R2, FRAME, ROOM);
            asm.jump(If::Has(SHARED), R2, shared);
            asm.jump(If::Always, R2, private);
            asm.here(shared);
            asm.set(R3, 0);
            asm.here(private);
        }
        asm.add_reg(R8, R3);
        asm.store(Size::Long, FRAME, KEY, R8);
        if self.lock.call() == LockCall::TryTake {
            // the first word of a sem_t, less the bit by which musl says that somebody waits
            asm.load(Size::Long, R3, R6, self.offset("pt_regs", "di")?);
            read_user(asm, 4);
            asm.load(Size::Word, R2, FRAME, WORD);
            asm.and(R2, i32::MAX);
            asm.store(Size::Word, FRAME, ROOM, R2);
        }
        if self.lock.call() == LockCall::Wait {
            asm.load(Size::Long, R1, R6, self.offset("pt_regs", "si")?);
            asm.add_reg(R1, R3);
            asm.store(Size::Long, FRAME, OTHER, R1);
        }
        Ok(())
    }
}

/// A function in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LockPlace {
    pub function: LockFunction,
    pub file: PathBuf,
    /// In the file.
    pub offset: u64,
}

/// The C libraries of this host: glibc's, where it keeps its locks since 2.34 and where it kept them before; musl's.
const LIBRARIES: [&str; 9] = [
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib64/libc.so.6",
    "/usr/lib/libc.so.6",
    "/usr/lib64/libc.so.6",
    "/lib/x86_64-linux-gnu/libpthread.so.0",
    "/lib64/libpthread.so.0",
    "/usr/lib/libpthread.so.0",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/ld-musl-x86_64.so.1",
];

/// Where the functions are: in the libraries of this host and in those that these processes use.
pub(super) fn places(pids: &[i32]) -> Result<Vec<LockPlace>, String> {
    let mut files: BTreeMap<(u64, u64), PathBuf> = BTreeMap::new();
    let mut add = |path: PathBuf| {
        if let Ok(meta) = std::fs::metadata(&path) {
            files.entry((meta.dev(), meta.ino())).or_insert(path);
        }
    };
    for pid in pids {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for path in maps.lines().filter_map(|line| line.split_whitespace().nth(5)) {
            let name = path.rsplit('/').next().unwrap_or_default();
            if ["libc.so", "libc-", "libpthread", "ld-musl"].iter().any(|begin| name.starts_with(begin)) {
                add(PathBuf::from(format!("/proc/{pid}/root{path}")));
            }
        }
    }
    LIBRARIES.iter().for_each(|path| add(PathBuf::from(path)));
    let mut all: Vec<LockPlace> = Vec::new();
    for file in files.into_values() {
        let bytes = std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        all.extend(functions(&bytes).into_iter().map(|(function, offset)| LockPlace {
            function,
            file: file.clone(),
            offset,
        }));
    }
    if all.is_empty() {
        return Err(format!("none of {} has pthread_mutex_lock", LIBRARIES.join(", ")));
    }
    Ok(all)
}

/// The functions of an ELF file of 64 bits, with their offsets; none where it is no such file.
fn functions(file: &[u8]) -> Vec<(LockFunction, u64)> {
    find_functions(file).unwrap_or_default()
}

fn number(file: &[u8], at: u64, bytes: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let part = file.get(at..at.checked_add(bytes)?)?;
    Some(part.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// elf(5): the dynamic symbols, their names, and the segment that each address is loaded from.
fn find_functions(file: &[u8]) -> Option<Vec<(LockFunction, u64)>> {
    const DYNSYM: u64 = 11;
    const LOAD: u64 = 1;
    /// Size of an entry of the table of sections, of segments and of symbols.
    const SECTION: u64 = 64;
    const SEGMENT: u64 = 56;
    const SYMBOL: u64 = 24;
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (segments, nr_segments) = (number(file, 32, 8)?, number(file, 56, 2)?);
    let (sections, nr_sections) = (number(file, 40, 8)?, number(file, 60, 2)?);
    let section = |row: u64| sections.checked_add(row * SECTION);
    let symbols = (0..nr_sections)
        .filter_map(section)
        .find(|at| at.checked_add(4).and_then(|at| number(file, at, 4)) == Some(DYNSYM))?;
    let names = section(number(file, symbols + 40, 4)?)?;
    let (names, nr_bytes) = (number(file, names + 24, 8)?, number(file, symbols + 32, 8)?);
    let symbols = number(file, symbols + 24, 8)?;
    let offset_of = |address: u64| {
        (0..nr_segments).find_map(|row| {
            let at = segments.checked_add(row * SEGMENT)?;
            let (offset, from, length) =
                (number(file, at + 8, 8)?, number(file, at + 16, 8)?, number(file, at + 32, 8)?);
            let is_in = number(file, at, 4)? == LOAD && (from..from.checked_add(length)?).contains(&address);
            is_in.then(|| offset + (address - from))
        })
    };
    let mut found = Vec::new();
    for row in 0..nr_bytes / SYMBOL {
        let at = symbols.checked_add(row * SYMBOL)?;
        let address = number(file, at + 8, 8)?;
        let name_at = usize::try_from(names.checked_add(number(file, at, 4)?)?).ok()?;
        let name = file.get(name_at..)?;
        let is_named = |known: &str| {
            name.starts_with(known.as_bytes()) && name.get(known.len()) == Some(&0) && address != 0
        };
        let function = LOCK_CALLS.iter().position(|(known, _)| is_named(known));
        if let (Some(function), Some(offset)) = (function, offset_of(address)) {
            // an older version of a function may be the same one
            let entry = (LockFunction(function), offset);
            if !found.iter().any(|(_, known)| *known == offset) {
                found.push(entry);
            }
        }
    }
    Some(found)
}

/// The number that the kernel gives uprobes among its sources of events.
pub(super) fn uprobe_type() -> Result<u32, String> {
    let path = Path::new("/sys/bus/event_source/devices/uprobe/type");
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("this kernel has no uprobes ({}: {e})", path.display()))?;
    text.trim().parse().map_err(|_| format!("{} is {text:?}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_in_this_programs_own_library_and_damage_finds_none() {
        let Ok(places) = places(&[std::process::id() as i32]) else {
            eprintln!("SKIPPED: no C library here");
            return;
        };
        for (number, (name, _)) in LOCK_CALLS.iter().enumerate() {
            assert!(places.iter().any(|place| place.function.0 == number), "{name}: {places:?}");
        }
        let mut file = std::fs::read(&places[0].file).expect("just read");
        for at in (0..64).chain((64..file.len()).step_by(997)) {
            file[at] ^= 0xff;
            let _ = functions(&file);
            file[at] ^= 0xff;
        }
        for length in (0..file.len()).step_by(file.len() / 64) {
            let _ = functions(&file[..length]);
        }
    }
}
