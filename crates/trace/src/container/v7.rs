//! Version 7: options that point at sections, in a chain of option sections. Sections may be compressed.

use super::options::DONE;
use super::v6::MAX_CPUS;
use super::{Buffer, Contents, CpuPages, Mode};
use crate::cursor::Cursor;
use crate::error::{Place, Problem};
use schedlab_units::CpuId;
use std::collections::BTreeSet;
use std::io::Read;

/// A section that we read whole unpacks to at most this. (2 MiB of formats is usual; symbols we do not read.)
const MAX_UNPACKED: u64 = schedlab_stdx::limits::UNPACKED_BYTES_MAX;

const COMPRESSED: u16 = 1;
const OPTIONS: u16 = 0;
const BUFFER: u16 = 3;
const HEADER_INFO: u16 = 16;
const FTRACE_EVENTS: u16 = 17;
const EVENT_FORMATS: u16 = 18;
const CMDLINES: u16 = 21;

pub(super) fn parse(
    file: &[u8],
    mut cursor: Cursor<'_>,
    mode: Mode,
    contents: &mut Contents,
) -> Result<(), Problem> {
    let at = cursor.place();
    let codec = cursor.c_string(64, "the name of the compression")?;
    cursor.c_string(64, "the version of the compression")?;
    if !matches!(codec.as_str(), "none" | "zstd") {
        return Err(Problem::Unsupported {
            at,
            what: "the compression",
            value: format!("\"{codec}\""),
            remedy: "expected none or zstd: convert the file with `trace-cmd convert --compression zstd`",
        });
    }
    read_options(file, cursor.u64("the place of the options")?, contents)?;

    for (id, place) in std::mem::take(&mut contents.options.sections) {
        // Symbols and printk formats are not needed.
        if !matches!(id, HEADER_INFO | FTRACE_EVENTS | EVENT_FORMATS | CMDLINES) {
            continue;
        }
        let result = section(file, place, id).and_then(|(bytes, origin)| {
            let mut cursor = Cursor::at_place(&bytes, origin);
            match id {
                HEADER_INFO => contents.header_info(&mut cursor),
                FTRACE_EVENTS => contents.ftrace_formats(&mut cursor),
                EVENT_FORMATS => contents.event_formats(&mut cursor),
                _ => contents.saved_cmdlines(&mut cursor),
            }
        });
        match result {
            // Names and ftrace's own formats are dispensable.
            Err(_) if mode == Mode::Lenient && matches!(id, FTRACE_EVENTS | CMDLINES) => {
                let reason = if id == CMDLINES { "saved command lines" } else { "ftrace's own formats" };
                super::count(&mut contents.counts, &format!("section of {reason} unreadable"), 1);
            }
            result => result?,
        }
    }
    for (at, option) in std::mem::take(&mut contents.options.buffers) {
        let buffer = buffer(file, Cursor::at_place(&option, at))?;
        contents.buffers.push(buffer);
    }
    if contents.header_page.is_empty() {
        return Err(Problem::Truncated {
            at: Place::at(file.len() as u64),
            what: "the section with the page header's format",
            needed: 1,
            available: 0,
            lenient: false,
        });
    }
    Ok(())
}

/// Follows the chain of option sections.
fn read_options(file: &[u8], first: u64, contents: &mut Contents) -> Result<(), Problem> {
    let (mut place, mut seen) = (first, BTreeSet::new());
    while place != 0 {
        if place >= file.len() as u64 {
            return Err(Problem::Truncated {
                at: Place::at(place),
                what: "a section of options, which tells where each CPU's pages are (trace-cmd writes it last),",
                needed: 16,
                available: 0,
                lenient: false,
            });
        }
        if !seen.insert(place) {
            return Err(super::invalid(
                Place::at(place),
                "the next options' place",
                place,
                "a place not read before",
            ));
        }
        let (bytes, origin) = section(file, place, OPTIONS)?;
        let mut cursor = Cursor::at_place(&bytes, origin);
        place = 0;
        while cursor.left() > 0 {
            let id = cursor.u16("an option's number")?;
            let size = cursor.u32("an option's size")?;
            let at = cursor.place();
            let data = cursor.take(u64::from(size), "an option")?;
            if id == DONE {
                place = Cursor::at_place(data, at).u64("the place of the next options")?;
                break;
            }
            contents.options.add(id, data, Cursor::at_place(data, at))?;
        }
    }
    Ok(())
}

/// The content of the section at `place`, whose number must be `id`, and the place of its first byte.
fn section(file: &[u8], place: u64, id: u16) -> Result<(std::borrow::Cow<'_, [u8]>, Place), Problem> {
    let mut cursor = Cursor::at(file, place);
    let found = cursor.u16("a section's number")?;
    if found != id {
        return Err(super::invalid(Place::at(place), "a section's number", found, &id.to_string()));
    }
    let flags = cursor.u16("a section's flags")?;
    cursor.u32("a section's description")?;
    let size = cursor.u64("a section's size")?;
    let start = cursor.place();
    let bytes = cursor.take(size, "a section")?;
    if flags & COMPRESSED == 0 {
        return Ok((bytes.into(), start));
    }
    let mut cursor = Cursor::at_place(bytes, start);
    let packed = cursor.u32("the packed size of a section")?;
    let at = cursor.place();
    let unpacked = u64::from(cursor.u32("the unpacked size of a section")?);
    let packed = cursor.take(u64::from(packed), "a packed section")?;
    if unpacked > MAX_UNPACKED {
        return Err(super::invalid(at, "the unpacked size of a section", unpacked, "at most 64 MiB"));
    }
    // The buffer grows with what really comes out, not with what the file promises.
    let mut content = Vec::new();
    let result = zstd::stream::read::Decoder::with_buffer(packed)
        .and_then(|decoder| decoder.take(unpacked + 1).read_to_end(&mut content));
    match result {
        Ok(_) if content.len() as u64 == unpacked => Ok((content.into(), Place::unpacked(start.offset, 0))),
        Ok(_) => {
            let value =
                if content.len() as u64 > unpacked { "more".to_string() } else { content.len().to_string() };
            Err(super::invalid(at, "the unpacked size of a section", value, &unpacked.to_string()))
        }
        Err(error) => {
            Err(super::invalid(start, "a packed section", format!("damaged ({error})"), "valid zstd data"))
        }
    }
}

/// Unpacks a chunk of pages into `content`, which gets `unpacked` bytes. `Err` says why not.
pub(crate) fn unpack(
    decompressor: &mut zstd::bulk::Decompressor<'_>,
    packed: &[u8],
    unpacked: usize,
    content: &mut Vec<u8>,
) -> Result<(), String> {
    content.clear();
    content.reserve_exact(unpacked);
    match decompressor.decompress_to_buffer(packed, content) {
        Ok(length) if length == unpacked => Ok(()),
        Ok(length) => Err(format!("{length} bytes unpacked")),
        Err(error) => Err(error.to_string()),
    }
}

/// A BUFFER option: the buffer's section, name, clock, page size and the CPUs' pages.
fn buffer(file: &[u8], mut cursor: Cursor<'_>) -> Result<Buffer, Problem> {
    let place = cursor.u64("the place of a buffer")?;
    let name = cursor.c_string(4096, "the name of a buffer")?;
    let clock = cursor.c_string(4096, "the clock of a buffer")?;
    let at = cursor.place();
    let page_size = cursor.u32("the page size of a buffer")?;
    let count = cursor.u32("the number of a buffer's CPUs")?;
    if count == 0 {
        return Ok(Buffer { name, clock, page_size: 4096, cpus: Vec::new() });
    }
    super::check_page_size(at, page_size)?;
    let mut section = Cursor::at(file, place);
    let found = section.u16("a buffer's section")?;
    if found != BUFFER {
        return Err(super::invalid(Place::at(place), "a section's number", found, &BUFFER.to_string()));
    }
    let compressed = section.u16("the flags of a buffer's section")? & COMPRESSED != 0;
    let mut cpus = Vec::new();
    for _ in 0..count {
        let cpu = cursor.u32("a CPU's number")?;
        if cpu >= MAX_CPUS {
            return Err(super::invalid(cursor.place(), "a CPU's number", cpu, "less than 65536"));
        }
        let offset = cursor.u64("the place of a CPU's pages")?;
        let bytes = cursor.u64("the size of a CPU's pages")?;
        if bytes > 0 {
            cpus.push(CpuPages { cpu: CpuId(cpu), offset, bytes, compressed });
        }
    }
    Ok(Buffer { name, clock, page_size: page_size as usize, cpus })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section that unpacks to as much as it may, and one that says it has a byte more.
    #[test]
    fn what_a_section_unpacks_to_is_bounded() {
        let read = |stated: u64| {
            let content = zstd::bulk::compress(&vec![0; MAX_UNPACKED as usize], 1).unwrap();
            let mut file = Vec::new();
            file.extend(7_u16.to_le_bytes());
            file.extend(COMPRESSED.to_le_bytes());
            file.extend(0_u32.to_le_bytes());
            file.extend((content.len() as u64 + 8).to_le_bytes());
            file.extend((content.len() as u32).to_le_bytes());
            file.extend((stated as u32).to_le_bytes());
            file.extend(content);
            section(&file, 0, 7).map(|(bytes, _)| bytes.len() as u64)
        };
        assert_eq!(read(MAX_UNPACKED).unwrap(), MAX_UNPACKED);
        let error = read(MAX_UNPACKED + 1).unwrap_err().to_string();
        assert!(error.contains("67108865") && error.contains("at most 64 MiB"), "{error}");
    }
}
