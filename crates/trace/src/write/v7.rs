//! Version 7: sections with identifiers, and options that point at them.

use super::spool::{Chunk, Spool};
use super::{Compression, TraceMeta, WriteOptions, WrittenTrace, pad_to, round_up, v6};
use schedlab_units::CpuId;
use std::io::{Result, Write};

/// Bytes of a section header: number, flags, description, size.
const SECTION_HEADER: u64 = 16;

/// Each section's number and description; the STRINGS section holds the latter. An option that points at a section has
/// the section's number.
const SECTIONS: [(u16, &str); 9] = [
    (16, "headers"),
    (17, "ftrace events"),
    (18, "events format"),
    (19, "kallsyms"),
    (20, "printk"),
    (21, "command lines"),
    (OPTIONS, "options"),
    (STRINGS, "strings"),
    (BUFFER, "flyrecord"),
];
const OPTIONS: u16 = 0;
const BUFFER: u16 = 3;
const STRINGS: u16 = 15;

/// The content of the STRINGS section, or its part before the description of section `id`.
fn descriptions(before: Option<u16>) -> Vec<u8> {
    let listed = SECTIONS.iter().take_while(|(id, _)| Some(*id) != before);
    listed.flat_map(|(_, text)| text.bytes().chain([0])).collect()
}

/// The file as it grows, up to the pages.
struct Sections {
    file: Vec<u8>,
    compression: Compression,
}

impl Sections {
    /// Appends a section header; `size` is that of what follows it. Returns the section's place.
    fn header(&mut self, id: u16, compressed: bool, size: u64) -> u64 {
        let place = self.file.len() as u64;
        self.file.extend_from_slice(&id.to_le_bytes());
        self.file.extend_from_slice(&u16::from(compressed).to_le_bytes());
        self.file.extend_from_slice(&(descriptions(Some(id)).len() as u32).to_le_bytes());
        self.file.extend_from_slice(&size.to_le_bytes());
        place
    }

    /// Appends a section, compressed if the file is; returns its place.
    fn add(&mut self, id: u16, content: &[u8]) -> Result<u64> {
        match self.compression {
            Compression::None => {
                let place = self.header(id, false, content.len() as u64);
                self.file.extend_from_slice(content);
                Ok(place)
            }
            Compression::Zstd(level) => {
                let packed = zstd::bulk::compress(content, level)?;
                let place = self.header(id, true, packed.len() as u64 + 8);
                self.file.extend_from_slice(&(packed.len() as u32).to_le_bytes());
                self.file.extend_from_slice(&(content.len() as u32).to_le_bytes());
                self.file.extend_from_slice(&packed);
                Ok(place)
            }
        }
    }
}

fn put_option(out: &mut Vec<u8>, id: u16, data: &[u8]) {
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(data);
}

pub(super) fn write(
    out: &mut impl Write,
    meta: &TraceMeta,
    spool: &mut Spool,
    options: WriteOptions,
    compression: Compression,
) -> Result<WrittenTrace> {
    let mut sections = Sections { file: v6::magic("7", meta), compression };
    sections.file.extend_from_slice(match compression {
        Compression::None => b"none\0\0",
        Compression::Zstd(_) => b"zstd\x001.5.0\0",
    });
    let options_pointer = sections.file.len();
    sections.file.extend_from_slice(&[0; 8]);

    let places = [
        (16, sections.add(16, &v6::header_info(meta))?),
        (17, sections.add(17, &v6::ftrace_events(meta))?),
        (18, sections.add(18, &v6::event_formats(meta))?),
        (19, sections.add(19, &v6::sized_u32(&meta.kallsyms))?),
        (20, sections.add(20, &v6::sized_u32(&meta.printk_formats))?),
        (21, sections.add(21, &v6::cmdlines(meta))?),
    ];
    let mut content = Vec::new();
    for (id, place) in places {
        put_option(&mut content, id, &place.to_le_bytes());
    }
    for (id, data) in meta.common_options() {
        put_option(&mut content, id, &data);
    }

    // The BUFFER option needs the places of the pages, which lie behind it: all its sizes are known by now.
    let cpus: Vec<_> = spool.cpus().map(|(cpu, chunks)| (cpu, chunks.to_vec())).collect();
    let buffer_option_bytes = 8 + meta.buffer_name.len() + 1 + meta.clock.len() + 1 + 4 + 4 + 20 * cpus.len();
    let options_bytes = content.len() + (6 + buffer_option_bytes) + (6 + 8);
    let strings = descriptions(None);
    let options_place = sections.file.len() as u64;
    let buffer_place = options_place + 2 * SECTION_HEADER + (options_bytes + strings.len()) as u64;

    let mut buffer_option = buffer_place.to_le_bytes().to_vec();
    buffer_option.extend_from_slice(meta.buffer_name.as_bytes());
    buffer_option.push(0);
    buffer_option.extend_from_slice(meta.clock.as_bytes());
    buffer_option.push(0);
    buffer_option.extend_from_slice(&(options.page_size as u32).to_le_bytes());
    buffer_option.extend_from_slice(&(cpus.len() as u32).to_le_bytes());
    let mut end = buffer_place + SECTION_HEADER;
    let mut cpu_places = Vec::new();
    for (cpu, chunks) in &cpus {
        let place = round_up(end, options.page_size);
        let stored: u64 = chunks.iter().map(|chunk| u64::from(chunk.stored_bytes)).sum();
        // The size leaves out the number of chunks, which stands before them: so trace-cmd 3.1.6 has it.
        let (count_bytes, bytes) = match compression {
            Compression::None => (0, stored),
            Compression::Zstd(_) => (4, 8 * chunks.len() as u64 + stored),
        };
        buffer_option.extend_from_slice(&cpu.0.to_le_bytes());
        buffer_option.extend_from_slice(&place.to_le_bytes());
        buffer_option.extend_from_slice(&bytes.to_le_bytes());
        cpu_places.push(place);
        end = place + count_bytes + bytes;
    }
    assert_eq!(buffer_option.len(), buffer_option_bytes);
    put_option(&mut content, BUFFER, &buffer_option);
    put_option(&mut content, 0, &0u64.to_le_bytes());
    assert_eq!(content.len(), options_bytes);

    sections.header(OPTIONS, false, options_bytes as u64);
    sections.file.extend_from_slice(&content);
    sections.header(STRINGS, false, strings.len() as u64);
    sections.file.extend_from_slice(&strings);
    assert_eq!(sections.file.len() as u64, buffer_place);
    let packed = compression != Compression::None;
    sections.header(BUFFER, packed, end - (buffer_place + SECTION_HEADER));
    sections.file[options_pointer..options_pointer + 8].copy_from_slice(&options_place.to_le_bytes());

    out.write_all(&sections.file)?;
    let at = write_pages(out, sections.file.len() as u64, &cpus, &cpu_places, packed, spool)?;
    assert_eq!(at, end);
    Ok(WrittenTrace {
        file_bytes: at,
        pages: spool.raw_bytes() / options.page_size as u64,
        cpus_with_data: cpus.iter().filter(|(_, chunks)| !chunks.is_empty()).count() as u32,
    })
}

/// Each CPU's pages at its place, from `at` on; returns where they end.
fn write_pages(
    out: &mut impl Write,
    mut at: u64,
    cpus: &[(CpuId, Vec<Chunk>)],
    places: &[u64],
    packed: bool,
    spool: &mut Spool,
) -> Result<u64> {
    let mut buffer = Vec::new();
    for ((_, chunks), place) in cpus.iter().zip(places) {
        pad_to(out, &mut at, *place)?;
        if packed {
            out.write_all(&(chunks.len() as u32).to_le_bytes())?;
            at += 4;
        }
        for chunk in chunks {
            if packed {
                out.write_all(&chunk.stored_bytes.to_le_bytes())?;
                out.write_all(&chunk.raw_bytes.to_le_bytes())?;
                at += 8;
            }
            spool.copy(*chunk, &mut buffer, out)?;
            at += u64::from(chunk.stored_bytes);
        }
    }
    Ok(at)
}
