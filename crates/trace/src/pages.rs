//! Where does the next page of a CPU come from? From the mapped file, or from a chunk that is unpacked into one buffer.

use crate::container::Counts;
use crate::container::{Buffer, CpuPages, Mode, count, invalid, unpack};
use crate::cursor::Cursor;
use crate::error::{Place, Problem};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A chunk unpacks to at most this: 64 pages of 64 KiB. (trace-cmd packs 10 pages, we 16.)
const MAX_CHUNK: usize = 4 << 20;

/// All CPUs' unpacked chunks together have at most this: a small file must not fill the memory. (8192 CPUs
/// with 128 KiB.)
const MAX_RESIDENT: usize = 1 << 30;

/// Bytes that the unpacked chunks of one stream's CPUs hold at present.
pub(crate) type Resident = Arc<AtomicUsize>;

/// The pages of one CPU, front to back.
pub(crate) struct Pages<'f> {
    page_size: usize,
    source: Source<'f>,
    /// First byte of the current page in [`Pages::bytes`], once there is one.
    page: usize,
    started: bool,
}

enum Source<'f> {
    Plain {
        pages: &'f [u8],
        offset: u64,
    },
    Packed {
        cursor: Cursor<'f>,
        chunks_left: u32,
        chunk_at: u64,
        content: Vec<u8>,
        decompressor: zstd::bulk::Decompressor<'static>,
        resident: Resident,
    },
}

impl<'f> Pages<'f> {
    /// The pages at `place`, which [`container::parse`](crate::container::parse) has checked to lie in `file`.
    pub fn new(
        file: &'f [u8],
        buffer: &Buffer,
        place: &CpuPages,
        resident: &Resident,
        mode: Mode,
        counts: &mut Counts,
    ) -> Result<Pages<'f>, Problem> {
        let start = (place.offset as usize).min(file.len());
        // The size of packed pages does not count the number of chunks before them (trace-cmd 3.1.6).
        let bytes = place.bytes.saturating_add(if place.compressed { 4 } else { 0 }) as usize;
        let pages = &file[start..file.len().min(start.saturating_add(bytes))];
        let source = if !place.compressed {
            Source::Plain { pages, offset: place.offset }
        } else {
            let mut cursor = Cursor::at_place(pages, Place::at(place.offset));
            let chunks_left = match cursor.u32("the number of a CPU's chunks") {
                Ok(chunks) => chunks,
                Err(_) if mode == Mode::Lenient => {
                    count(counts, "CPU whose pages lie beyond the end of a truncated file", 1);
                    0
                }
                Err(problem) => return Err(problem),
            };
            let decompressor = zstd::bulk::Decompressor::new().map_err(Problem::Io)?;
            Source::Packed {
                cursor,
                chunks_left,
                chunk_at: place.offset,
                content: Vec::new(),
                decompressor,
                resident: resident.clone(),
            }
        };
        Ok(Pages { page_size: buffer.page_size, source, page: 0, started: false })
    }

    /// What the current page is part of.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        match &self.source {
            Source::Plain { pages, .. } => pages,
            Source::Packed { content, .. } => content,
        }
    }

    /// First byte of the current page in [`Pages::bytes`].
    pub fn page(&self) -> usize {
        self.page
    }

    /// Where byte `at` of [`Pages::bytes`] stands in the file.
    pub fn place(&self, at: usize) -> Place {
        match &self.source {
            Source::Plain { offset, .. } => Place::at(offset + at as u64),
            Source::Packed { chunk_at, .. } => Place::unpacked(*chunk_at, at as u64),
        }
    }

    /// Goes on to the next page; `false` if there is none.
    pub fn next_page(&mut self, mode: Mode, counts: &mut Counts) -> Result<bool, Problem> {
        if self.started {
            self.page += self.page_size;
        }
        self.started = true;
        while self.page + self.page_size > self.bytes().len() {
            match self.next_chunk() {
                Ok(true) => self.page = 0,
                Ok(false) => return Ok(false),
                Err(problem) if mode == Mode::Strict => return Err(problem),
                Err(problem) => {
                    let Source::Packed { chunks_left, content, .. } = &mut self.source else {
                        return Err(problem);
                    };
                    // The chunk at fault is already off the count; behind it nothing can be found.
                    let reason = match problem {
                        Problem::Truncated { .. } => "chunk of pages beyond the end of a truncated file",
                        _ => "chunk of pages that cannot be unpacked, and those behind it",
                    };
                    count(counts, reason, u64::from(*chunks_left) + 1);
                    *chunks_left = 0;
                    content.clear();
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Unpacks the next chunk.
    fn next_chunk(&mut self) -> Result<bool, Problem> {
        let page_size = self.page_size;
        let Source::Packed { cursor, chunks_left, chunk_at, content, decompressor, resident } =
            &mut self.source
        else {
            return Ok(false);
        };
        if *chunks_left == 0 {
            return Ok(false);
        }
        *chunks_left -= 1;
        let packed = cursor.u32("the packed size of a chunk")?;
        let at = cursor.place();
        let unpacked = cursor.u32("the unpacked size of a chunk")? as usize;
        let start = cursor.place();
        let packed = cursor.take(u64::from(packed), "a chunk of pages")?;
        if unpacked > MAX_CHUNK || !unpacked.is_multiple_of(page_size) {
            let expected = format!("a multiple of the page size {page_size}, at most {MAX_CHUNK}");
            return Err(invalid(at, "the unpacked size of a chunk", unpacked, &expected));
        }
        if unpacked > content.capacity() {
            let total = resident.load(Ordering::Relaxed) + unpacked - content.capacity();
            if total > MAX_RESIDENT {
                return Err(invalid(at, "the unpacked size of all CPUs' chunks", total, "at most 1 GiB"));
            }
            resident.store(total, Ordering::Relaxed);
        }
        *chunk_at = start.offset;
        unpack(decompressor, packed, unpacked, content).map_err(|why| {
            let damaged = format!("damaged ({why})");
            invalid(start, "a chunk of pages", damaged, &format!("zstd data of {unpacked} bytes"))
        })?;
        Ok(true)
    }
}
