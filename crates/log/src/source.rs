//! How does a reader get at a log that may be larger than memory? In batches, in order, as often as it likes.
//!
//! ```
//! use schedlab_log::{Log, LogHeader, MemLog, Record};
//! let log = MemLog { header: LogHeader::default(), records: vec![Record { kind: 6, ..Record::default() }; 3] };
//! let mut count = 0;
//! let mut batches = log.batches().unwrap();
//! while let Some(batch) = batches.next_batch().unwrap() {
//!     count += batch.len();
//! }
//! assert_eq!(count, 3);
//! assert_eq!(log.records().unwrap().count(), 3);
//! ```

use crate::{LogError, LogHeader, Record};

/// A log in any form: spill file, text, Arrow, memory.
pub trait Log {
    /// Who ran on what.
    fn header(&self) -> &LogHeader;
    /// A pass over the records from the first to the last. May be called again for another pass.
    fn batches(&self) -> Result<Box<dyn Batches + '_>, LogError>;
    /// Number of records, where that is known without reading them.
    fn len_hint(&self) -> Option<u64> {
        None
    }
    /// The records one by one; for a pass that does more than a little per record, since each costs a few ns more.
    fn records(&self) -> Result<Records<'_>, LogError> {
        Ok(Records { batches: self.batches()?, batch: Vec::new(), next: 0, done: false })
    }
}

/// One pass over a log.
pub trait Batches {
    /// The next records, never an empty slice; `None` at the end. Every record's kind is known
    /// ([`Record::kind`] is `Some`). Not to be called again after an error.
    fn next_batch(&mut self) -> Result<Option<&[Record]>, LogError>;
}

/// Calls `f` with every record and its position, in order; the first error ends the pass.
pub fn for_each<E: From<LogError>>(
    log: &dyn Log,
    mut f: impl FnMut(u64, &Record) -> Result<(), E>,
) -> Result<(), E> {
    let mut batches = log.batches()?;
    let mut index = 0;
    while let Some(batch) = batches.next_batch()? {
        for record in batch {
            f(index, record)?;
            index += 1;
        }
    }
    Ok(())
}

/// The records of a log as an iterator; ends after the first error.
pub struct Records<'a> {
    batches: Box<dyn Batches + 'a>,
    batch: Vec<Record>,
    next: usize,
    done: bool,
}

impl Iterator for Records<'_> {
    type Item = Result<Record, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.batch.len() {
            if self.done {
                return None;
            }
            self.batch.clear();
            self.next = 0;
            match self.batches.next_batch() {
                Ok(Some(batch)) => self.batch.extend_from_slice(batch),
                end => {
                    self.done = true;
                    return end.err().map(Err);
                }
            }
        }
        self.next += 1;
        Some(Ok(self.batch[self.next - 1]))
    }
}

/// A log in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemLog {
    /// Who ran on what.
    pub header: LogHeader,
    /// The records in order.
    pub records: Vec<Record>,
}

impl MemLog {
    /// The whole of another log; for tests and small logs.
    pub fn read(log: &dyn Log) -> Result<MemLog, LogError> {
        let records = log.records()?.collect::<Result<_, _>>()?;
        Ok(MemLog { header: log.header().clone(), records })
    }
}

impl Log for MemLog {
    fn header(&self) -> &LogHeader {
        &self.header
    }
    fn batches(&self) -> Result<Box<dyn Batches + '_>, LogError> {
        Ok(Box::new(MemBatches { records: &self.records, start: 0 }))
    }
    fn len_hint(&self) -> Option<u64> {
        Some(self.records.len() as u64)
    }
}

/// Records per batch: 512 KiB, so that a batch stays in the second-level cache.
pub(crate) const BATCH_RECORDS: usize = 16 * 1024;

struct MemBatches<'a> {
    records: &'a [Record],
    start: u64,
}

impl Batches for MemBatches<'_> {
    fn next_batch(&mut self) -> Result<Option<&[Record]>, LogError> {
        let (batch, rest) = self.records.split_at(self.records.len().min(BATCH_RECORDS));
        check_kinds(batch, self.start)?;
        self.records = rest;
        self.start += batch.len() as u64;
        Ok((!batch.is_empty()).then_some(batch))
    }
}

/// Every kind must be known; `start` is the position of the first record.
pub(crate) fn check_kinds(batch: &[Record], start: u64) -> Result<(), LogError> {
    match batch.iter().position(|record| record.kind().is_none()) {
        None => Ok(()),
        Some(at) => Err(LogError::UnknownKind {
            index: start + at as u64,
            time_ns: batch[at].time_ns,
            kind: batch[at].kind,
        }),
    }
}
