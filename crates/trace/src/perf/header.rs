//! What stands before the samples, or in a file's feature sections behind them: how samples look, and the
//! event formats.

use super::records::{self, Records, Step};
use super::sample::{Attr, Layouts};
use super::unsupported;
use crate::container::{Counts, Mode, count, invalid, parse_tracing_data};
use crate::cursor::{Cursor, show_bytes};
use crate::decode::Decoder;
use crate::error::{Place, Problem};
use std::ops::Range;

const MAGIC: &[u8] = b"PERFILE2";
/// Size of a pipe's header: magic and size.
const PIPE_HEADER: u64 = 16;
/// Size of a file's header: magic, sizes, three sections, 256 bits of features.
const FILE_HEADER: u64 = 104;
const FEATURE_BITS: u32 = 256;

// enum of tools/perf/util/header.h
const TRACING_DATA: u32 = 1;
const OSRELEASE: u32 = 4;
const VERSION: u32 = 5;
const NRCPUS: u32 = 7;
const DIR_FORMAT: u32 = 24;

/// Everything but the samples.
#[derive(Default)]
pub(super) struct Head {
    /// Where the records are.
    pub data: Range<usize>,
    pub layouts: Layouts,
    pub decoder: Option<Decoder>,
    pub release: Option<String>,
    pub tool: Option<String>,
    pub cpu_count: Option<u32>,
    pub counts: Counts,
}

pub(super) fn parse(file: &[u8], mode: Mode) -> Result<Head, Problem> {
    let mut cursor = Cursor::at(file, 0);
    if !file.starts_with(MAGIC) {
        if !file.is_empty() && MAGIC.starts_with(file) {
            return Err(cursor
                .take(MAGIC.len() as u64, "the header")
                .expect_err("fewer bytes than the magic has"));
        }
        if file.starts_with(b"2ELIFREP") {
            return Err(Problem::BigEndian { at: Place::at(0) });
        }
        let found = if file.is_empty() {
            "an empty file".to_string()
        } else {
            show_bytes(&file[..file.len().min(8)])
        };
        return Err(Problem::UnknownRecording { found });
    }
    cursor.take(MAGIC.len() as u64, "the header")?;
    let at = cursor.place();
    let size = cursor.u64("the header's size")?;
    let mut head = Head::default();
    match size {
        PIPE_HEADER => pipe(file, mode, &mut head)?,
        FILE_HEADER => regular(file, cursor, mode, &mut head)?,
        _ => return Err(invalid(at, "the header's size", size, "16 (from a pipe) or 104 (a file)")),
    }
    if head.layouts.is_empty() {
        return Err(invalid(Place::at(0), "the number of recorded events", 0, "at least one"));
    }
    match &head.decoder {
        None => Err(Problem::NoSchedEvents {
            detail: "the file has no event formats (TRACING_DATA): no tracepoint was recorded, or the file is cut \
                short".to_string(),
        }),
        Some(decoder) if !head.layouts.records(decoder.switch_id()) => Err(Problem::NoSchedEvents {
            detail: "sched_switch was not among the recorded events".to_string(),
        }),
        Some(_) => Ok(head),
    }
}

fn section(cursor: &mut Cursor<'_>, what: &'static str) -> Result<(u64, u64), Problem> {
    Ok((cursor.u64(what)?, cursor.u64(what)?))
}

/// The part of the file that a section names.
fn part<'f>(
    file: &'f [u8],
    (offset, size): (u64, u64),
    what: &'static str,
) -> Result<(&'f [u8], Place), Problem> {
    let mut cursor = Cursor::at(file, offset);
    Ok((cursor.take(size, what)?, Place::at(offset)))
}

fn regular(file: &[u8], mut cursor: Cursor<'_>, mode: Mode, head: &mut Head) -> Result<(), Problem> {
    let at = cursor.place();
    let attr_size = cursor.u64("the size of an event's description")?;
    let attrs = section(&mut cursor, "the place of the events' descriptions")?;
    let data_at = cursor.place();
    let data = section(&mut cursor, "the place of the records")?;
    section(&mut cursor, "the place of the event types")?;
    let features = cursor.take(u64::from(FEATURE_BITS) / 8, "the list of features")?;
    if !(64 + 16..=4096).contains(&attr_size) {
        return Err(invalid(at, "the size of an event's description", attr_size, "80 to 4096"));
    }
    if attrs.1 % attr_size != 0 {
        let expected = format!("a multiple of {attr_size}");
        return Err(invalid(at, "the size of the events' descriptions", attrs.1, &expected));
    }
    let (bytes, place) = part(file, attrs, "the events' descriptions")?;
    for (index, bytes) in bytes.chunks_exact(attr_size as usize).enumerate() {
        let place = Place::at(place.offset + index as u64 * attr_size);
        let (attr, ids) = bytes.split_at(bytes.len() - 16);
        let ids = section(&mut Cursor::at_place(ids, place), "the place of an event's numbers")?;
        let (ids, _) = part(file, ids, "an event's numbers")?;
        head.layouts.add(Attr::parse(attr, place)?, ids, place)?;
    }
    if data.1 == 0 {
        return Err(unsupported(
            data_at,
            "the size of the records",
            "0 (perf did not end its recording)".to_string(),
            "record again and end perf with Ctrl-C, or record through a pipe: perf sched record -o - > perf.data",
        ));
    }
    let Some(end) = data.0.checked_add(data.1).filter(|end| *end <= file.len() as u64) else {
        return Err(Problem::Truncated {
            at: data_at,
            what: "the records (behind which the event formats stand)",
            needed: data.1,
            available: (file.len() as u64).saturating_sub(data.0),
            lenient: false,
        });
    };
    head.data = data.0 as usize..end as usize;
    let mut table = Cursor::at(file, end);
    for bit in 0..FEATURE_BITS {
        if features[bit as usize / 8] >> (bit % 8) & 1 == 0 {
            continue;
        }
        let found = section(&mut table, "the place of a feature's section")
            .and_then(|place| part(file, place, "a feature's section"))
            .and_then(|(bytes, place)| feature(bit, bytes, place, head));
        match found {
            // Without the event formats nothing can be read; all else is dispensable.
            Err(_) if mode == Mode::Lenient && bit != TRACING_DATA => {
                count(&mut head.counts, "section of facts about the recording unreadable", 1);
            }
            other => other?,
        }
    }
    Ok(())
}

fn feature(bit: u32, bytes: &[u8], place: Place, head: &mut Head) -> Result<(), Problem> {
    let mut cursor = Cursor::at_place(bytes, place);
    match bit {
        TRACING_DATA => tracing_data(bytes, place, head)?,
        OSRELEASE => head.release = Some(text(&mut cursor, "the kernel's release")?),
        VERSION => head.tool = Some(format!("perf {}", text(&mut cursor, "perf's version")?)),
        NRCPUS => {
            // Configured ones first, then those that were online.
            let configured = cursor.u32("the number of CPUs")?;
            let online = cursor.u32("the number of CPUs")?;
            head.cpu_count = Some(configured.max(online)).filter(|cpus| *cpus > 0);
        }
        DIR_FORMAT => {
            return Err(unsupported(
                place,
                "the form",
                "a folder of files (perf record --threads)".to_string(),
                "record without --threads",
            ));
        }
        _ => {}
    }
    Ok(())
}

fn text(cursor: &mut Cursor<'_>, what: &'static str) -> Result<String, Problem> {
    let bytes = cursor.sized_u32(what)?;
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn tracing_data(bytes: &[u8], place: Place, head: &mut Head) -> Result<(), Problem> {
    let (systems, _) = parse_tracing_data(bytes, place)?;
    head.decoder = Some(Decoder::for_systems(&systems)?);
    Ok(())
}

/// What a pipe tells of itself comes as records, before the first sample.
fn pipe(file: &[u8], mode: Mode, head: &mut Head) -> Result<(), Problem> {
    head.data = PIPE_HEADER as usize..file.len();
    let mut records = Records::new(file, head.data.clone(), mode);
    while let Step::Record(record) = records.next(&mut head.counts)? {
        let body = records.body(&record);
        let place = records.place(&record);
        let mut cursor = Cursor::at_place(body, place);
        match record.kind {
            records::SAMPLE => break,
            records::HEADER_ATTR => {
                // The description says its own size; numbers of the event follow.
                let size =
                    u64::from(cursor.clone().u64("an event's description").map(|word| (word >> 32) as u32)?);
                let attr = cursor.take(size.max(64), "an event's description")?;
                let ids = cursor.take(cursor.left() as u64, "an event's numbers")?;
                head.layouts.add(Attr::parse(attr, place)?, ids, place)?;
            }
            records::HEADER_FEATURE => {
                let bit = cursor.u64("a feature's number")?;
                let bytes = cursor.take(cursor.left() as u64, "a feature")?;
                let found = feature(u32::try_from(bit).unwrap_or(u32::MAX), bytes, place, head);
                if mode == Mode::Strict {
                    found?
                } else {
                    let _ = found;
                }
            }
            records::TRACING_DATA => {
                let bytes = records.trailer(&record);
                tracing_data(bytes, place, head)?;
            }
            _ => {}
        }
    }
    // What was counted will be so again when the events are read.
    head.counts.clear();
    Ok(())
}
