//! The raw form: 32-byte records one after the other, as the child process wrote them; the header comes from elsewhere.

use crate::source::{BATCH_RECORDS, check_kinds};
use crate::{Batches, Log, LogError, LogHeader, Record};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const RECORD_BYTES: usize = size_of::<Record>();

/// A spill file with its header. Reads in batches: memory does not grow with the file.
#[derive(Debug)]
pub struct RawLog {
    file: File,
    header: LogHeader,
    nr_records: u64,
    /// Bytes of an incomplete last record.
    trailing_bytes: u64,
}

/// How a spill file is called in errors: it has no name.
const SPILL: &str = "the run's log (temporary file)";

impl RawLog {
    /// A spill file that must end with a whole record.
    pub fn open(file: File, header: LogHeader) -> Result<RawLog, LogError> {
        let log = RawLog::salvage(file, header)?;
        match log.trailing_bytes {
            0 => Ok(log),
            bytes => Err(LogError::Truncated {
                path: SPILL.into(),
                problem: format!("it ends with {bytes} of a record's {RECORD_BYTES} bytes"),
            }),
        }
    }

    /// A spill file of a run that died: an incomplete last record is left out, [`RawLog::trailing_bytes`] tells.
    pub fn salvage(file: File, header: LogHeader) -> Result<RawLog, LogError> {
        let bytes = file.metadata().map_err(LogError::io("read", Path::new(SPILL)))?.len();
        let size = RECORD_BYTES as u64;
        Ok(RawLog { file, header, nr_records: bytes / size, trailing_bytes: bytes % size })
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        self.nr_records
    }
    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.nr_records == 0
    }
    /// Bytes of an incomplete last record that are not read.
    pub fn trailing_bytes(&self) -> u64 {
        self.trailing_bytes
    }
}

impl Log for RawLog {
    fn header(&self) -> &LogHeader {
        &self.header
    }
    fn batches(&self) -> Result<Box<dyn Batches + '_>, LogError> {
        Ok(Box::new(RawBatches {
            log: self,
            next: 0,
            bytes: vec![0; BATCH_RECORDS * RECORD_BYTES],
            records: Vec::new(),
        }))
    }
    fn len_hint(&self) -> Option<u64> {
        Some(self.nr_records)
    }
}

struct RawBatches<'a> {
    log: &'a RawLog,
    next: u64,
    bytes: Vec<u8>,
    records: Vec<Record>,
}

impl Batches for RawBatches<'_> {
    fn next_batch(&mut self) -> Result<Option<&[Record]>, LogError> {
        let count = (self.log.nr_records - self.next).min(BATCH_RECORDS as u64) as usize;
        if count == 0 {
            return Ok(None);
        }
        let bytes = &mut self.bytes[..count * RECORD_BYTES];
        let offset = self.next * RECORD_BYTES as u64;
        self.log.file.read_exact_at(bytes, offset).map_err(LogError::io("read", Path::new(SPILL)))?;
        self.records.clear();
        self.records.extend(bytes.chunks_exact(RECORD_BYTES).map(decode));
        check_kinds(&self.records, self.next)?;
        self.next += count as u64;
        Ok(Some(&self.records))
    }
}

/// The layout of [`Record`] (`repr(C)`), in host byte order: writer and reader are one machine.
#[inline]
fn decode(bytes: &[u8]) -> Record {
    fn at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
        bytes[offset..offset + N].try_into().expect("the slice has N bytes")
    }
    Record {
        time_ns: u64::from_ne_bytes(at(bytes, 0)),
        kind: bytes[8],
        flags: bytes[9],
        cpu: u16::from_ne_bytes(at(bytes, 10)),
        task: u32::from_ne_bytes(at(bytes, 12)),
        other: u32::from_ne_bytes(at(bytes, 16)),
        arg: u32::from_ne_bytes(at(bytes, 20)),
        value: u64::from_ne_bytes(at(bytes, 24)),
    }
}

/// The bytes that [`RawLog`] reads.
pub fn to_bytes(record: &Record) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[0..8].copy_from_slice(&record.time_ns.to_ne_bytes());
    bytes[8] = record.kind;
    bytes[9] = record.flags;
    bytes[10..12].copy_from_slice(&record.cpu.to_ne_bytes());
    bytes[12..16].copy_from_slice(&record.task.to_ne_bytes());
    bytes[16..20].copy_from_slice(&record.other.to_ne_bytes());
    bytes[20..24].copy_from_slice(&record.arg.to_ne_bytes());
    bytes[24..32].copy_from_slice(&record.value.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::mem::offset_of;

    #[test]
    fn the_layout_is_the_kernel_objects() {
        assert_eq!(
            [
                offset_of!(Record, time_ns),
                offset_of!(Record, kind),
                offset_of!(Record, flags),
                offset_of!(Record, cpu),
                offset_of!(Record, task),
                offset_of!(Record, other),
                offset_of!(Record, arg),
                offset_of!(Record, value)
            ],
            [0, 8, 9, 10, 12, 16, 20, 24]
        );
    }

    #[test]
    fn records_come_back_over_many_batches() {
        let nr = BATCH_RECORDS as u64 * 2 + 7;
        let record = |i: u64| Record {
            time_ns: i * 3,
            kind: 1 + (i % 9) as u8,
            flags: i as u8,
            cpu: i as u16,
            task: i as u32,
            other: !(i as u32),
            arg: i as u32 ^ 0x5555,
            value: i << 32,
        };
        let mut file = tempfile::tempfile().unwrap();
        for i in 0..nr {
            file.write_all(&to_bytes(&record(i))).unwrap();
        }
        let log = RawLog::open(file, LogHeader::default()).unwrap();
        assert_eq!(log.len_hint(), Some(nr));
        for _pass in 0..2 {
            let read: Vec<Record> = log.records().unwrap().map(Result::unwrap).collect();
            assert_eq!(read, (0..nr).map(record).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_cut_file_and_an_unknown_kind_are_refused() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&to_bytes(&Record { kind: 77, time_ns: 5, ..Record::default() })).unwrap();
        file.write_all(&[1, 2, 3]).unwrap();
        let error = RawLog::open(file.try_clone().unwrap(), LogHeader::default()).unwrap_err();
        assert!(matches!(error, LogError::Truncated { .. }), "{error}");
        let log = RawLog::salvage(file, LogHeader::default()).unwrap();
        assert_eq!((log.len(), log.trailing_bytes()), (1, 3));
        let error = log.records().unwrap().next().unwrap().unwrap_err();
        assert!(matches!(error, LogError::UnknownKind { index: 0, time_ns: 5, kind: 77 }), "{error}");
    }
}
