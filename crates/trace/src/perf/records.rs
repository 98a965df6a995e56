//! One record after the other, whether they stand in the file or are packed in it.
//!
//! ```text
//! 4 type, 2 misc, 2 size | body          size counts the header
//! COMPRESSED  8 bytes of header | zstd   what it unpacks to goes on where the one before it ended, within a record too
//! TRACING_DATA, AUXTRACE                 more bytes follow the record, as many as its first field says
//! ```

use crate::container::{Counts, Mode, count, invalid};
use crate::error::{Place, Problem};
use crate::format::bytes_at;
use std::ops::Range;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

// enum perf_event_type (include/uapi/linux/perf_event.h) and enum perf_user_event_type (tools/lib/perf)
pub(super) const LOST: u32 = 2;
pub(super) const SAMPLE: u32 = 9;
pub(super) const LOST_SAMPLES: u32 = 13;
pub(super) const HEADER_ATTR: u32 = 64;
pub(super) const TRACING_DATA: u32 = 66;
pub(super) const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
pub(super) const HEADER_FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

const HEADER: usize = 8;
/// The largest that perf makes a compressed record, header included. A piece of the recording whose
/// compressed form does not fit goes on in the next one; but perf (6.1, `zstd_compress_stream_to_records()`)
/// ends when the piece has been taken in, not when all of it has been put out: after the last piece the rest
/// stays where it is and is lost. perf itself reads such a file without a word.
const FULL: usize = u16::MAX as usize;

/// Unpacked at a time: a compressed record can unpack to gigabytes.
const CHUNK: usize = 128 << 10;

/// A record; its body is asked from [`Records::body`].
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub kind: u32,
    /// Where its body is: in the file, or in what was unpacked.
    body: Range<usize>,
    packed: bool,
    /// Bytes behind it that belong to it.
    trailer: Range<usize>,
}

/// What comes next.
pub(super) enum Step {
    Record(Record),
    End,
}

pub(super) struct Records<'f> {
    file: &'f [u8],
    at: usize,
    end: usize,
    mode: Mode,
    packed: Option<Unpacker>,
}

struct Unpacker {
    decoder: Decoder<'static>,
    /// Unpacked and not yet given out: from `at`.
    content: Vec<u8>,
    at: usize,
    /// Not yet unpacked, in the file.
    input: Range<usize>,
    /// The decoder filled all the room it was given: it may hold more.
    holds_more: bool,
    /// The last compressed record was as large as one can be.
    was_full: bool,
}

impl<'f> Records<'f> {
    pub fn new(file: &'f [u8], data: Range<usize>, mode: Mode) -> Records<'f> {
        Records { file, at: data.start, end: data.end, mode, packed: None }
    }

    /// The bytes of a record that this gave last.
    pub fn body(&self, record: &Record) -> &[u8] {
        match &self.packed {
            Some(packed) if record.packed => &packed.content[record.body.clone()],
            _ => &self.file[record.body.clone()],
        }
    }
    /// The bytes behind a record that belong to it.
    pub fn trailer(&self, record: &Record) -> &'f [u8] {
        &self.file[record.trailer.clone()]
    }
    /// Where a record's body is.
    pub fn place(&self, record: &Record) -> Place {
        match &self.packed {
            Some(packed) if record.packed => {
                Place::unpacked(packed.input.end as u64, record.body.start as u64)
            }
            _ => Place::at(record.body.start as u64),
        }
    }

    /// The next record. In [`Mode::Lenient`] the first that cannot be ends the records, and is counted.
    pub fn next(&mut self, counts: &mut Counts) -> Result<Step, Problem> {
        match self.try_next() {
            Err(problem) if self.mode == Mode::Lenient => {
                let why = match &problem {
                    Problem::Truncated { .. } => "rest of the records left out: cut short",
                    _ => "rest of the records left out: damaged",
                };
                count(counts, why, 1);
                self.at = self.end;
                self.packed = None;
                Ok(Step::End)
            }
            Ok(Step::End) => {
                if self.packed.take().is_some_and(|packed| packed.at < packed.content.len()) {
                    count(counts, "end of the recording: perf has compressed it and not written it out", 1);
                }
                Ok(Step::End)
            }
            other => other,
        }
    }

    fn try_next(&mut self) -> Result<Step, Problem> {
        loop {
            if let Some(packed) = &mut self.packed
                && let Some(record) = packed.next(self.file)?
            {
                return Ok(Step::Record(record));
            }
            if self.at >= self.end {
                return match &self.packed {
                    Some(packed) if packed.at < packed.content.len() && !packed.was_full => {
                        let rest = &packed.content[packed.at..];
                        let needed = if rest.len() < HEADER { HEADER } else { head(rest).1 };
                        Err(Problem::Truncated {
                            at: Place::at(self.at as u64),
                            what: "a compressed record",
                            needed: needed as u64,
                            available: rest.len() as u64,
                            lenient: true,
                        })
                    }
                    _ => Ok(Step::End),
                };
            }
            let record = self.plain()?;
            match record.kind {
                COMPRESSED => self.unpack(record.body)?,
                COMPRESSED2 => {
                    // The length of the data, then the data, then padding.
                    let body = &self.file[record.body.clone()];
                    let length = u64::from_le_bytes(bytes_at(body, 0));
                    let start = record.body.start + 8;
                    match usize::try_from(length).ok().and_then(|length| start.checked_add(length)) {
                        Some(end) if end <= record.body.end => self.unpack(start..end)?,
                        _ => {
                            let at = Place::at(record.body.start as u64);
                            let expected = format!("at most {}", body.len().saturating_sub(8));
                            return Err(invalid(at, "the length of compressed data", length, &expected));
                        }
                    }
                }
                _ => return Ok(Step::Record(record)),
            }
        }
    }

    /// The record at `at` in the file.
    fn plain(&mut self) -> Result<Record, Problem> {
        let at = Place::at(self.at as u64);
        let available = self.end - self.at;
        let short = |needed: usize| Problem::Truncated {
            at,
            what: "a record",
            needed: needed as u64,
            available: available as u64,
            lenient: true,
        };
        if available < HEADER {
            return Err(short(HEADER));
        }
        let (kind, size) = head(&self.file[self.at..]);
        if size < HEADER {
            return Err(invalid(at, "the size of a record", size, "8 or more"));
        }
        if size > available {
            return Err(short(size));
        }
        let body = self.at + HEADER..self.at + size;
        let after = match kind {
            TRACING_DATA => u64::from(u32::from_le_bytes(bytes_at(&self.file[body.clone()], 0))),
            AUXTRACE => u64::from_le_bytes(bytes_at(&self.file[body.clone()], 0)),
            _ => 0,
        };
        let left = self.end - body.end;
        let after = match usize::try_from(after) {
            Ok(after) if after <= left => after,
            _ => return Err(short(usize::try_from(after).unwrap_or(usize::MAX).saturating_add(size))),
        };
        self.at = body.end + after;
        Ok(Record { kind, trailer: body.end..self.at, body, packed: false })
    }

    fn unpack(&mut self, input: Range<usize>) -> Result<(), Problem> {
        let packed = match &mut self.packed {
            Some(packed) => packed,
            none => {
                let decoder = Decoder::new().map_err(Problem::Io)?;
                none.insert(Unpacker {
                    decoder,
                    content: Vec::new(),
                    at: 0,
                    input: 0..0,
                    holds_more: false,
                    was_full: false,
                })
            }
        };
        packed.was_full = input.len() + HEADER == FULL;
        packed.input = input;
        Ok(())
    }
}

/// Type and size of the record at the begin of `bytes`.
fn head(bytes: &[u8]) -> (u32, usize) {
    (u32::from_le_bytes(bytes_at(bytes, 0)), usize::from(u16::from_le_bytes(bytes_at(bytes, 6))))
}

impl Unpacker {
    /// The next record that is complete, `None` if more input is needed.
    fn next(&mut self, file: &[u8]) -> Result<Option<Record>, Problem> {
        loop {
            let rest = &self.content[self.at..];
            if rest.len() >= HEADER {
                let (kind, size) = head(rest);
                if size < HEADER {
                    let at = Place::unpacked(self.input.start as u64, self.at as u64);
                    return Err(invalid(at, "the size of a record", size, "8 or more"));
                }
                if size <= rest.len() {
                    let body = self.at + HEADER..self.at + size;
                    self.at += size;
                    return Ok(Some(Record { kind, body, packed: true, trailer: 0..0 }));
                }
            }
            if !self.more(file)? {
                return Ok(None);
            }
        }
    }

    /// Unpacks some more; false if the input is used up.
    fn more(&mut self, file: &[u8]) -> Result<bool, Problem> {
        if self.input.is_empty() && !self.holds_more {
            return Ok(false);
        }
        self.content.drain(..self.at);
        self.at = 0;
        let kept = self.content.len();
        self.content.resize(kept + CHUNK, 0);
        let mut input = InBuffer::around(&file[self.input.clone()]);
        let mut output = OutBuffer::around(&mut self.content[kept..]);
        let result = self.decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.content.truncate(kept + written);
        let place = Place::at(self.input.start as u64);
        if let Err(error) = result {
            return Err(invalid(place, "compressed data", error, "a zstd stream"));
        }
        self.input.start += read;
        self.holds_more = written == CHUNK;
        if read == 0 && written == 0 && !self.input.is_empty() {
            return Err(invalid(place, "compressed data", "a stream that does not go on", "a zstd stream"));
        }
        Ok(true)
    }
}
