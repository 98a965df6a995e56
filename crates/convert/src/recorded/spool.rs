//! Records on their way to a file, of which the last ones can still get company: what happened is sometimes
//! understood later.
//!
//! ```text
//!   file  <── 0 .. base ──│── window: base .. next ──│
//!                              ^ insert(position)         push: at the end
//! ```
//!
//! A task leaves CPU 0 asleep; only when it runs again without a wakeup is it known that the wakeup came
//! before it had left. The record of that belongs right after its switch-out. Memory is bounded: what is
//! older than the window is put at its beginning, later than it was.

use schedlab_log::{Record, to_bytes};
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Records that can still get company: 16 MiB.
const WINDOW: usize = 1 << 19;

pub(super) struct Spool {
    out: BufWriter<File>,
    /// Position of the window's first record, counted without insertions.
    base: u64,
    window: Vec<Record>,
    inserts: Vec<(u64, Record)>,
    most: usize,
    /// Insertions that came too late for their place.
    pub late: u64,
}

impl Spool {
    pub fn new(file: File) -> Spool {
        Spool::with_window(file, WINDOW)
    }

    fn with_window(file: File, most: usize) -> Spool {
        Spool {
            out: BufWriter::with_capacity(1 << 20, file),
            base: 0,
            window: Vec::new(),
            inserts: Vec::new(),
            most,
            late: 0,
        }
    }

    /// The position behind the last record: where the next one comes.
    #[inline]
    pub fn next(&self) -> u64 {
        self.base + self.window.len() as u64
    }

    #[inline]
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        self.window.push(record);
        if self.window.len() >= 2 * self.most { self.write(self.most) } else { Ok(()) }
    }

    /// Puts a record before the one at `position`, behind those that were put there before. Gives the time that it got.
    pub fn insert(&mut self, position: u64, mut record: Record) -> u64 {
        if position < self.base {
            self.late += 1;
            record.time_ns =
                self.window.first().map_or(record.time_ns, |first| record.time_ns.max(first.time_ns));
        }
        let time_ns = record.time_ns;
        self.inserts.push((position.max(self.base), record));
        time_ns
    }

    /// Writes the first `count` records of the window, and what belongs before and between them.
    fn write(&mut self, count: usize) -> io::Result<()> {
        // at one place by time: events without a record move the time on, but not the place; stable: of one
        // instant as they came
        self.inserts.sort_by_key(|(position, record)| (*position, record.time_ns));
        let mut due = 0;
        for (position, record) in (self.base..).zip(&self.window[..count]) {
            while let Some((_, insert)) = self.inserts.get(due).filter(|(at, _)| *at <= position) {
                self.out.write_all(&to_bytes(insert))?;
                due += 1;
            }
            self.out.write_all(&to_bytes(record))?;
        }
        self.inserts.drain(..due);
        self.window.drain(..count);
        self.base += count as u64;
        Ok(())
    }

    /// Writes all that is left.
    pub fn finish(mut self) -> io::Result<File> {
        self.write(self.window.len())?;
        for (_, insert) in &self.inserts {
            self.out.write_all(&to_bytes(insert))?;
        }
        self.out.into_inner().map_err(|error| error.into_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_log::{Log, LogHeader, RawLog};

    fn record(time_ns: u64, arg: u32) -> Record {
        Record { time_ns, kind: 9, arg, ..Record::default() }
    }

    // position  0  1  2  3  4  5  6  7      two are put before 6, then one before 1, which is written already: before 4
    #[test]
    fn what_is_understood_later_stands_where_it_happened() {
        let mut spool = Spool::with_window(tempfile::tempfile().unwrap(), 4);
        for time in 0..8 {
            spool.push(record(10 * time, 0)).unwrap();
        }
        assert_eq!((spool.next(), spool.base), (8, 4));
        assert_eq!(spool.insert(6, record(55, 1)), 55);
        assert_eq!(spool.insert(6, record(56, 2)), 56);
        assert_eq!(spool.insert(6, record(54, 4)), 54);
        assert_eq!(spool.insert(1, record(5, 3)), 40, "what is too late gets the time of its place");
        assert_eq!(spool.late, 1);
        let log = RawLog::open(spool.finish().unwrap(), LogHeader::default()).unwrap();
        let found: Vec<_> = log.records().unwrap().map(|r| r.unwrap()).map(|r| (r.time_ns, r.arg)).collect();
        let plain = |time| (time, 0);
        let mut expected: Vec<_> = (0..8).map(|i| plain(10 * i)).collect();
        expected.splice(6..6, [(54, 4), (55, 1), (56, 2)]);
        expected.insert(4, (40, 3));
        assert_eq!(found, expected);
    }
}
