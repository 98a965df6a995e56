//! A damaged Arrow log must not make the reader ask for absurdly much memory, which would end the program.
//! Every request is seen here: the allocator of this test notes the greatest.

use schedlab_log::{LogHeader, MemLog, Record};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Watched;

static GREATEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        GREATEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is the system's precondition.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        GREATEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is the system's precondition.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        GREATEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system's precondition.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the system's precondition.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// A batch of this log unpacks to 3,000 rows of at most 16 bytes a column; 32 for a record.
const MOST: usize = 3_000 * 32 + (1 << 20);

fn log() -> MemLog {
    let record = |i: u64| Record {
        time_ns: i * 1000,
        kind: 1 + (i % 9) as u8,
        flags: (i % 5) as u8,
        cpu: (i % 7) as u16,
        task: i as u32,
        other: u32::MAX - i as u32,
        arg: i as u32 * 3,
        value: i << 20,
    };
    let header = LogHeader { sched: "fifo".into(), nr_cpus: 7, ..LogHeader::default() };
    MemLog { header, records: (0..3_000).map(record).collect() }
}

/// Reads a log and drops it; what it asked for at most.
fn greatest_request(path: &Path, bytes: &[u8]) -> (usize, Result<(), String>) {
    std::fs::write(path, bytes).unwrap();
    GREATEST.store(0, Ordering::Relaxed);
    let result = schedlab_log::open(path).and_then(|log| {
        let mut batches = log.batches()?;
        while batches.next_batch()?.is_some() {}
        Ok(())
    });
    (GREATEST.load(Ordering::Relaxed), result.map_err(|error| error.to_string()))
}

#[test]
fn no_byte_makes_the_reader_ask_for_much_memory() {
    std::panic::set_hook(Box::new(|_| {})); // the library's panics are caught and reported as errors
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.arrow");
    schedlab_log::write(&path, &log()).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let (whole, result) = greatest_request(&path, &bytes);
    assert!(result.is_ok() && whole < MOST, "{whole} bytes, {result:?}");
    // The structure is at the begin (schema, metadata of the first batch), at the end (footer), and before
    // each column (8 bytes): every byte of both ends, and some of all the rest.
    let (mut refused, mut tried) = (0, 0);
    let length = bytes.len();
    let near = |at: &usize| *at < 400 || *at + 1600 > length || at.is_multiple_of(211);
    for at in (0..length).filter(near) {
        let kept = bytes[at];
        for value in [kept ^ 0x80, 0x7f] {
            bytes[at] = value;
            let (greatest, result) = greatest_request(&path, &bytes);
            assert!(
                greatest < MOST,
                "byte {at} of {length} as {value:#x}: {greatest} bytes asked for, {result:?}"
            );
            refused += usize::from(result.is_err());
            tried += 1;
        }
        bytes[at] = kept;
    }
    // Wherever a batch's metadata says how long a column is, and before each column: a huge number.
    let huge = (1u64 << 40).to_le_bytes();
    for at in (0..length - 8).filter(|at| at.is_multiple_of(8)) {
        let kept: [u8; 8] = bytes[at..at + 8].try_into().unwrap();
        bytes[at..at + 8].copy_from_slice(&huge);
        let (greatest, _) = greatest_request(&path, &bytes);
        assert!(greatest < MOST, "bytes {at}.. of {length}: {greatest} bytes asked for");
        bytes[at..at + 8].copy_from_slice(&kept);
        tried += 1;
    }
    println!("{tried} damages, {refused} refused");
    assert!(refused * 2 > tried / 2, "{refused} of {tried} refused");
}
