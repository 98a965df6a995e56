//! Where in a trace.dat is what? Header, metadata, options, and for each buffer and CPU the place of its pages.
//!
//! Version 6 is one sequence that ends with a table of the CPUs' pages; version 7 is a chain of options that point at
//! sections. Both come out as the same [`Contents`].

mod options;
mod v6;
mod v7;

pub use options::BufferStats;
pub(crate) use options::{Options, Tsc};
pub(crate) use v7::unpack;

use crate::cursor::{Cursor, show_bytes};
use crate::error::{Place, Problem};
use crate::write::EventSystem;
use schedlab_units::CpuId;
use std::collections::BTreeMap;

/// Whether a damaged trace is refused or loaded as far as it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Anything missing or impossible is an error.
    #[default]
    Strict,
    /// Pages and events that are missing or impossible are left out and counted by reason; the directory of
    /// the pages must be there.
    Lenient,
}

/// Reason -> how often. What a lenient reader left out, or what had to be assumed.
pub type Counts = BTreeMap<String, u64>;

/// Counts `times` more for `reason`.
pub(crate) fn count(counts: &mut Counts, reason: &str, times: u64) {
    if times > 0 {
        match counts.get_mut(reason) {
            Some(count) => *count += times,
            None => {
                counts.insert(reason.to_string(), times);
            }
        }
    }
}

/// Everything in the file but the pages.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub version: u32,
    pub long_size: u8,
    pub page_size: u32,
    pub header_page: Vec<u8>,
    pub header_event: Vec<u8>,
    pub ftrace_events: Vec<Vec<u8>>,
    pub systems: Vec<EventSystem>,
    pub cmdlines: Vec<u8>,
    pub options: Options,
    pub buffers: Vec<Buffer>,
    pub counts: Counts,
}

/// One trace buffer: the top one (name "") or an instance's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Name of the instance; empty for the top one.
    pub name: String,
    /// Clock of its timestamps as the file has it (trace-cmd 3.1 writes the top instance's clock for every instance).
    pub clock: String,
    /// Bytes of a page.
    pub page_size: usize,
    /// Whose pages, and where.
    pub cpus: Vec<CpuPages>,
}

impl Buffer {
    /// Bytes of its pages in the file.
    pub fn stored_bytes(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.bytes).sum()
    }
}

/// The place of one CPU's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPages {
    /// Which CPU.
    pub cpu: CpuId,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// Whether they are compressed chunks instead of pages.
    pub compressed: bool,
}

/// The start of both versions.
pub(crate) fn parse(file: &[u8], mode: Mode) -> Result<Contents, Problem> {
    const MAGIC: &[u8] = b"\x17\x08\x44tracing";
    let mut cursor = Cursor::at(file, 0);
    if !file.starts_with(MAGIC) {
        let found = &file[..file.len().min(MAGIC.len())];
        if !found.is_empty() && MAGIC.starts_with(found) {
            return Err(cursor
                .take(MAGIC.len() as u64, "the header")
                .expect_err("fewer bytes than the magic has"));
        }
        let found = if found.is_empty() { "an empty file".to_string() } else { show_bytes(found) };
        return Err(Problem::WrongMagic { found });
    }
    cursor.take(MAGIC.len() as u64, "the header")?;
    let version_at = cursor.place();
    let version = cursor.c_string(16, "the version")?;
    let at = cursor.place();
    match cursor.u8("the byte order")? {
        0 => {}
        1 => return Err(Problem::BigEndian { at }),
        other => return Err(invalid(at, "the byte order", other, "0 (little endian) or 1 (big endian)")),
    }
    let at = cursor.place();
    let long_size = cursor.u8("the size of a long")?;
    if !matches!(long_size, 4 | 8) {
        return Err(invalid(at, "the size of a long", long_size, "4 or 8"));
    }
    let at = cursor.place();
    let page_size = cursor.u32("the page size")?;
    check_page_size(at, page_size)?;
    let mut contents = Contents { long_size, page_size, ..Contents::default() };
    match version.as_str() {
        "6" => {
            contents.version = 6;
            v6::parse(file, cursor, mode, &mut contents)?;
        }
        "7" => {
            contents.version = 7;
            v7::parse(file, cursor, mode, &mut contents)?;
        }
        _ => return Err(Problem::UnknownVersion { at: version_at, found: version }),
    }
    check_places(file, mode, &mut contents)?;
    Ok(contents)
}

/// Event formats and saved command lines as `perf record` keeps them, in its section TRACING_DATA: the start
/// of a trace.dat of an older version ("0.5", "0.6"), without buffers. The command lines may be missing.
pub(crate) fn parse_tracing_data(data: &[u8], origin: Place) -> Result<(Vec<EventSystem>, Vec<u8>), Problem> {
    let mut cursor = Cursor::at_place(data, origin);
    cursor.expect(b"\x17\x08\x44tracing", "the begin of perf's event formats")?;
    cursor.c_string(16, "the version of perf's event formats")?;
    let at = cursor.place();
    if cursor.u8("the byte order")? == 1 {
        return Err(Problem::BigEndian { at });
    }
    cursor.u8("the size of a long")?;
    cursor.u32("the page size")?;
    let mut contents = Contents::default();
    contents.header_info(&mut cursor)?;
    contents.ftrace_formats(&mut cursor)?;
    contents.event_formats(&mut cursor)?;
    let rest = |contents: &mut Contents, cursor: &mut Cursor<'_>| {
        cursor.sized_u32("the kernel's symbols")?;
        cursor.sized_u32("the printk formats")?;
        contents.saved_cmdlines(cursor)
    };
    // Names of threads are dispensable, and version 0.5 has none.
    let _ = rest(&mut contents, &mut cursor);
    Ok((contents.systems, contents.cmdlines))
}

fn check_page_size(at: Place, size: u32) -> Result<(), Problem> {
    if size.is_power_of_two() && (512..=1 << 20).contains(&size) {
        return Ok(());
    }
    Err(invalid(at, "the page size", size, "a power of two from 512 to 1048576"))
}

pub(crate) fn invalid(at: Place, what: &'static str, value: impl ToString, expected: &str) -> Problem {
    Problem::Invalid { at, what, value: value.to_string(), expected: expected.to_string() }
}

/// Each CPU's pages lie within the file and are whole; a lenient reader cuts them to what is there and counts the rest.
fn check_places(file: &[u8], mode: Mode, contents: &mut Contents) -> Result<(), Problem> {
    let length = file.len() as u64;
    // Pages shared by two CPUs would be work without end in a small file.
    let mut places: Vec<_> = contents.buffers.iter().flat_map(|buffer| &buffer.cpus).collect();
    places.sort_by_key(|cpu| cpu.offset);
    for pair in places.windows(2) {
        if pair[0].offset.saturating_add(pair[0].bytes) > pair[1].offset {
            let expected = format!(
                "at least {}, the end of the pages before",
                pair[0].offset.saturating_add(pair[0].bytes)
            );
            return Err(invalid(
                Place::at(pair[1].offset),
                "the place of a CPU's pages",
                pair[1].offset,
                &expected,
            ));
        }
    }
    let counts = &mut contents.counts;
    for buffer in &mut contents.buffers {
        for cpu in &mut buffer.cpus {
            let page_size = buffer.page_size as u64;
            let available = length.saturating_sub(cpu.offset);
            if cpu.bytes > available {
                if mode == Mode::Strict {
                    return Err(Problem::Truncated {
                        at: Place::at(cpu.offset),
                        what: "a CPU's pages",
                        needed: cpu.bytes,
                        available,
                        lenient: true,
                    });
                }
                // How many chunks are missing is counted where they are read.
                let kept = if cpu.compressed { available } else { available / page_size * page_size };
                if !cpu.compressed {
                    count(
                        counts,
                        "page beyond the end of a truncated file",
                        (cpu.bytes - kept).div_ceil(page_size),
                    );
                }
                cpu.bytes = kept;
            } else if !cpu.compressed && cpu.bytes % page_size != 0 {
                if mode == Mode::Strict {
                    let at = Place::at(cpu.offset);
                    let expected = format!("a multiple of the page size {page_size}");
                    return Err(Problem::Invalid {
                        at,
                        what: "the size of a CPU's pages",
                        value: cpu.bytes.to_string(),
                        expected,
                    });
                }
                count(counts, "incomplete page at the end of a CPU's pages", 1);
                cpu.bytes -= cpu.bytes % page_size;
            }
        }
        buffer.cpus.sort_by_key(|cpu| cpu.cpu);
        if let Some(pair) = buffer.cpus.windows(2).find(|pair| pair[0].cpu == pair[1].cpu) {
            return Err(invalid(
                Place::at(pair[1].offset),
                "a CPU listed twice",
                pair[0].cpu,
                "each CPU once",
            ));
        }
    }
    Ok(())
}

/// The metadata that both versions have in common, each part in the same form.
impl Contents {
    fn header_info(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        cursor.expect(b"header_page\0", "the name of the page header's format")?;
        self.header_page = cursor.sized_u64("the page header's format")?.to_vec();
        cursor.expect(b"header_event\0", "the name of the event header's format")?;
        self.header_event = cursor.sized_u64("the event header's format")?.to_vec();
        Ok(())
    }
    fn ftrace_formats(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        for _ in 0..cursor.u32("the number of ftrace's formats")? {
            self.ftrace_events.push(cursor.sized_u64("a format of ftrace")?.to_vec());
        }
        Ok(())
    }
    fn event_formats(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        for _ in 0..cursor.u32("the number of event systems")? {
            let name = cursor.c_string(256, "the name of an event system")?;
            let mut formats = Vec::new();
            for _ in 0..cursor.u32("the number of a system's events")? {
                formats.push(cursor.sized_u64("an event's format")?.to_vec());
            }
            self.systems.push(EventSystem { name, formats });
        }
        Ok(())
    }
    fn saved_cmdlines(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        self.cmdlines = cursor.sized_u64("the saved command lines")?.to_vec();
        Ok(())
    }
}
