//! Where records go while a run is under way: 32 bytes each, in order, to a file that may become larger than memory.

use schedlab_log::Record;
use std::io::{self, Write};

/// Takes the records of a run in order.
pub trait Sink {
    /// Takes one record. Errors are kept until [`flush`](Sink::flush).
    fn push(&mut self, record: Record);
    /// Hands everything on.
    fn flush(&mut self) -> io::Result<()>;
}

/// Keeps records in memory; for tests and short runs.
impl Sink for Vec<Record> {
    #[inline]
    fn push(&mut self, record: Record) {
        Vec::push(self, record);
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets a test keep hold of the records.
impl<S: Sink> Sink for &mut S {
    #[inline]
    fn push(&mut self, record: Record) {
        (**self).push(record);
    }
    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }
}

/// Records as raw bytes, in host byte order, to a writer, through a buffer that stays in the cache.
pub struct Spill<W: Write> {
    buffer: Vec<Record>,
    writer: W,
    error: Option<io::Error>,
}

const BUFFERED_RECORDS: usize = 8192; // 256 KiB

impl<W: Write> Spill<W> {
    /// To this writer.
    pub fn new(writer: W) -> Spill<W> {
        Spill { buffer: Vec::with_capacity(BUFFERED_RECORDS), writer, error: None }
    }

    #[cold]
    fn spill(&mut self) {
        let bytes = self.buffer.len() * size_of::<Record>();
        // SAFETY: Record is repr(C) with no padding (8+1+1+2+4+4+4+8 = 32), so all `bytes` bytes are initialised.
        let raw = unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast::<u8>(), bytes) };
        if self.error.is_none()
            && let Err(error) = self.writer.write_all(raw)
        {
            self.error = Some(error);
        }
        self.buffer.clear();
    }
}

impl<W: Write> Sink for Spill<W> {
    #[inline]
    fn push(&mut self, record: Record) {
        if self.buffer.len() == self.buffer.capacity() {
            self.spill();
        }
        self.buffer.push(record);
    }
    fn flush(&mut self) -> io::Result<()> {
        self.spill();
        match self.error.take() {
            Some(error) => Err(error),
            None => self.writer.flush(),
        }
    }
}
