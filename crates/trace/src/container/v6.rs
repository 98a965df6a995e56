//! Version 6: one part after the other, the table of the CPUs' pages last.

use super::options::{DONE, Options};
use super::{Buffer, Contents, CpuPages, Mode, count};
use crate::cursor::{Cursor, show_bytes};
use crate::error::{Place, Problem};
use crate::write::selected_clock;
use schedlab_units::CpuId;

/// More CPUs than any Linux has (x86: at most 8192).
pub(super) const MAX_CPUS: u32 = 1 << 16;

pub(super) fn parse(
    file: &[u8],
    mut cursor: Cursor<'_>,
    mode: Mode,
    contents: &mut Contents,
) -> Result<(), Problem> {
    contents.header_info(&mut cursor)?;
    contents.ftrace_formats(&mut cursor)?;
    contents.event_formats(&mut cursor)?;
    cursor.sized_u32("the kernel's symbols")?;
    cursor.sized_u32("the printk formats")?;
    contents.saved_cmdlines(&mut cursor)?;
    let at = cursor.place();
    let cpus = cursor.u32("the number of CPUs")?;
    if cpus > MAX_CPUS {
        return Err(super::invalid(at, "the number of CPUs", cpus, "at most 65536"));
    }
    let at = cursor.place();
    let mut kind = cursor.take(10, "the kind of what follows")?;
    if kind == b"options  \0" {
        read_options(&mut cursor, &mut contents.options)?;
        kind = cursor.take(10, "the kind of what follows")?;
    }
    if kind == b"latency  \0" {
        return Err(Problem::Unsupported {
            at,
            what: "the recorded data",
            value: "text of a latency tracer".to_string(),
            remedy: "record events, not a tracer",
        });
    }
    if kind != b"flyrecord\0" {
        let expected = show_bytes(b"flyrecord\0");
        return Err(super::invalid(at, "the kind of what follows", show_bytes(kind), &expected));
    }
    let default_clock = contents.options.clock.clone().unwrap_or_default();
    // An option may raise the number of CPUs; then the table is that long.
    let cpus = contents.options.cpu_count.unwrap_or(cpus).min(MAX_CPUS);
    let page_size = contents.page_size as usize;
    let top = table(&mut cursor, cpus, String::new(), &default_clock, page_size)?;
    contents.buffers.push(top);
    for (at, option) in std::mem::take(&mut contents.options.buffers) {
        let mut option = Cursor::at_place(&option, at);
        let place = option.u64("the place of a buffer")?;
        let name = option.c_string(4096, "the name of a buffer")?;
        let mut cursor = Cursor::at(file, place);
        let result = cursor
            .expect(b"flyrecord\0", "the begin of a buffer's table")
            .and_then(|()| table(&mut cursor, cpus, name, &default_clock, page_size));
        match result {
            Ok(buffer) => contents.buffers.push(buffer),
            Err(problem) if mode == Mode::Strict => return Err(problem),
            Err(_) => {
                count(&mut contents.counts, "buffer whose table lies beyond the end of a truncated file", 1)
            }
        }
    }
    Ok(())
}

fn read_options(cursor: &mut Cursor<'_>, options: &mut Options) -> Result<(), Problem> {
    loop {
        let id = cursor.u16("an option's number")?;
        if id == DONE {
            return Ok(());
        }
        let size = cursor.u32("an option's size")?;
        let place = cursor.place();
        let data = cursor.take(u64::from(size), "an option")?;
        options.add(id, data, Cursor::at_place(data, place))?;
    }
}

/// Place and size of each CPU's pages; behind them, in newer files, the clock.
fn table(
    cursor: &mut Cursor<'_>,
    cpus: u32,
    name: String,
    default_clock: &str,
    page_size: usize,
) -> Result<Buffer, Problem> {
    let mut buffer = Buffer { name, clock: default_clock.to_string(), page_size, cpus: Vec::new() };
    let mut first_page = u64::MAX;
    for cpu in 0..cpus {
        let offset = cursor.u64("the place of a CPU's pages")?;
        let bytes = cursor.u64("the size of a CPU's pages")?;
        if bytes > 0 {
            first_page = first_page.min(offset);
            buffer.cpus.push(CpuPages { cpu: CpuId(cpu), offset, bytes, compressed: false });
        }
    }
    // Old files have pages or zeros there.
    let Place { offset: here, .. } = cursor.place();
    if here.saturating_add(8 + 64) <= first_page
        && let Ok(length @ 3..=64) = cursor.clone().u64("")
    {
        let mut ahead = cursor.clone();
        ahead.u64("")?;
        if let Ok(text) = ahead.take(length, "")
            && text.starts_with(b"[")
        {
            buffer.clock = selected_clock(&String::from_utf8_lossy(text)).to_string();
        }
    }
    Ok(buffer)
}
