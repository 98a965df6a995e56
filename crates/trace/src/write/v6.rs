//! Version 6: one sequence without directory; only the pages have addresses.

use super::spool::Spool;
use super::{TraceMeta, WriteOptions, WrittenTrace, pad_to, round_up};
use schedlab_units::CpuId;
use std::io::{Result, Write};

/// The header common to both versions, up to the page size.
pub(super) fn magic(version: &str, meta: &TraceMeta) -> Vec<u8> {
    let mut head = b"\x17\x08\x44tracing".to_vec();
    head.extend_from_slice(version.as_bytes());
    head.extend_from_slice(&[0, 0, meta.long_size]); // end of the version; little endian; bytes of a long
    head.extend_from_slice(&meta.page_size.to_le_bytes());
    head
}

pub(super) fn header_info(meta: &TraceMeta) -> Vec<u8> {
    let mut out = b"header_page\0".to_vec();
    sized_u64(&mut out, &meta.header_page);
    out.extend_from_slice(b"header_event\0");
    sized_u64(&mut out, &meta.header_event);
    out
}

pub(super) fn ftrace_events(meta: &TraceMeta) -> Vec<u8> {
    let mut out = (meta.ftrace_events.len() as u32).to_le_bytes().to_vec();
    for format in &meta.ftrace_events {
        sized_u64(&mut out, format);
    }
    out
}

pub(super) fn event_formats(meta: &TraceMeta) -> Vec<u8> {
    let mut out = (meta.systems.len() as u32).to_le_bytes().to_vec();
    for system in &meta.systems {
        out.extend_from_slice(system.name.as_bytes());
        out.push(0);
        out.extend_from_slice(&(system.formats.len() as u32).to_le_bytes());
        for format in &system.formats {
            sized_u64(&mut out, format);
        }
    }
    out
}

/// kallsyms and printk_formats: a 32-bit size, then the text.
pub(super) fn sized_u32(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text].concat()
}

pub(super) fn cmdlines(meta: &TraceMeta) -> Vec<u8> {
    let mut out = Vec::new();
    sized_u64(&mut out, &meta.saved_cmdlines);
    out
}

fn sized_u64(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text);
}

pub(super) fn write(
    out: &mut impl Write,
    meta: &TraceMeta,
    spool: &mut Spool,
    options: WriteOptions,
) -> Result<WrittenTrace> {
    // Pages of 4 KiB on a machine with other pages, or the reverse: the header's page size is the ring buffer's.
    let meta_page = TraceMeta { page_size: options.page_size as u32, ..meta.clone() };
    let cpus = spool.cpus().map(|(cpu, _)| cpu.0 + 1).max().unwrap_or(0).max(meta.cpus);
    let mut head = magic("6", &meta_page);
    head.extend(header_info(meta));
    head.extend(ftrace_events(meta));
    head.extend(event_formats(meta));
    head.extend(sized_u32(&meta.kallsyms));
    head.extend(sized_u32(&meta.printk_formats));
    head.extend(cmdlines(meta));
    head.extend_from_slice(&cpus.to_le_bytes());
    head.extend_from_slice(b"options  \0");
    for (id, data) in meta.common_options() {
        head.extend_from_slice(&id.to_le_bytes());
        head.extend_from_slice(&(data.len() as u32).to_le_bytes());
        head.extend_from_slice(&data);
    }
    head.extend_from_slice(&0u16.to_le_bytes());

    let clock = format!("[{}]\0", meta.clock);
    let table_bytes = 10 + 16 * u64::from(cpus) + 8 + clock.len() as u64;
    let mut place = round_up(head.len() as u64 + table_bytes, options.page_size);
    head.extend_from_slice(b"flyrecord\0");
    for cpu in 0..cpus {
        let bytes: u64 = spool.chunks(CpuId(cpu)).iter().map(|chunk| u64::from(chunk.raw_bytes)).sum();
        head.extend_from_slice(&place.to_le_bytes());
        head.extend_from_slice(&bytes.to_le_bytes());
        place += bytes;
    }
    // The clock again, as trace-cmd 2.x and later put it behind the table.
    sized_u64(&mut head, clock.as_bytes());

    let mut at = head.len() as u64;
    out.write_all(&head)?;
    let pages_at = round_up(at, options.page_size);
    pad_to(out, &mut at, pages_at)?;
    let mut buffer = Vec::new();
    let chunks: Vec<_> = spool.cpus().flat_map(|(_, chunks)| chunks.to_vec()).collect();
    for chunk in chunks {
        spool.copy(chunk, &mut buffer, out)?;
        at += u64::from(chunk.raw_bytes);
    }
    Ok(WrittenTrace {
        file_bytes: at,
        pages: spool.raw_bytes() / options.page_size as u64,
        cpus_with_data: spool.cpus().filter(|(_, chunks)| !chunks.is_empty()).count() as u32,
    })
}
