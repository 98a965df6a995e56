//! Where records go while a run is under way: 32 bytes each, in order, to a file that may become larger than memory.

use schedlab_log::Record;
use std::cell::UnsafeCell;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Takes the records of a run in order.
pub trait Sink {
    /// Takes one record. Errors are kept until [`flush`](Sink::flush).
    fn push(&mut self, record: Record);
    /// Takes these records, in order.
    fn push_all(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.push(*record));
    }
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
    fn push_all(&mut self, records: &[Record]) {
        (**self).push_all(records);
    }
    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }
}

/// A buffer of records that may lie in memory which another process sees too: what a process that died had
/// not yet handed on is still there. All zeroes is an empty buffer.
#[repr(C)]
pub struct Buffer {
    len: AtomicUsize,
    records: UnsafeCell<[Record; BUFFERED_RECORDS]>,
}

const BUFFERED_RECORDS: usize = 8192; // 256 KiB: it stays in the cache

// SAFETY: only the one `Spill` that uses a buffer writes to it; others read it when that one's process is
// dead (`rest`).
unsafe impl Sync for Buffer {}

impl Buffer {
    fn new() -> Box<Buffer> {
        let layout = std::alloc::Layout::new::<Buffer>();
        // SAFETY: the layout is not of size 0; all zeroes is a valid Buffer (an atomic 0, and records of
        // integers without padding), and the box frees it with the same layout.
        unsafe {
            let memory = std::alloc::alloc_zeroed(layout).cast::<Buffer>();
            if memory.is_null() {
                std::alloc::handle_alloc_error(layout);
            }
            Box::from_raw(memory)
        }
    }

    /// Makes it an empty one, for the next process. To be called when nobody writes.
    pub fn clear(&self) {
        self.len.store(0, Ordering::Release);
    }

    /// What was put in and not handed on. To be called when nobody writes any more.
    pub fn rest(&self) -> &[Record] {
        let len = self.len.load(Ordering::Acquire).min(BUFFERED_RECORDS);
        // SAFETY: the first `len` records are initialised (zeroes at least), and nobody writes, by the caller's word.
        unsafe { std::slice::from_raw_parts(self.records.get().cast::<Record>(), len) }
    }
}

/// Records as raw bytes, in host byte order, to a writer, through a [`Buffer`].
pub struct Spill<'a, W: Write> {
    buffer: &'a Buffer,
    writer: W,
    error: Option<io::Error>,
}

impl<W: Write> Spill<'static, W> {
    /// To this writer. (Its buffer is not freed: there is one per process and run.)
    pub fn new(writer: W) -> Spill<'static, W> {
        Spill::through(Box::leak(Buffer::new()), writer)
    }
}

impl<'a, W: Write> Spill<'a, W> {
    /// To this writer, through a buffer that nobody else writes to.
    pub fn through(buffer: &'a Buffer, writer: W) -> Spill<'a, W> {
        Spill { buffer, writer, error: None }
    }

    #[cold]
    fn spill(&mut self) {
        self.write(self.buffer.rest());
        self.buffer.len.store(0, Ordering::Release);
    }

    fn write(&mut self, records: &[Record]) {
        if self.error.is_none()
            && let Err(error) = self.writer.write_all(bytes(records))
        {
            self.error = Some(error);
        }
    }
}

/// Records as they lie in memory.
pub fn bytes(records: &[Record]) -> &[u8] {
    // SAFETY: Record is repr(C) with no padding (8+1+1+2+4+4+4+8 = 32), so all its bytes are initialised.
    unsafe { std::slice::from_raw_parts(records.as_ptr().cast::<u8>(), size_of_val(records)) }
}

impl<W: Write> Sink for Spill<'_, W> {
    #[inline]
    fn push(&mut self, record: Record) {
        let mut len = self.buffer.len.load(Ordering::Relaxed);
        if len >= BUFFERED_RECORDS {
            self.spill();
            len = 0;
        }
        // SAFETY: `len` is below the number of records, and only this Spill writes to the buffer.
        unsafe { self.buffer.records.get().cast::<Record>().add(len).write(record) };
        self.buffer.len.store(len + 1, Ordering::Release);
    }
    /// Many records are not copied: they are written from where they lie.
    fn push_all(&mut self, records: &[Record]) {
        self.spill();
        self.write(records);
    }
    fn flush(&mut self) -> io::Result<()> {
        self.spill();
        match self.error.take() {
            Some(error) => Err(error),
            None => self.writer.flush(),
        }
    }
}
