//! A recording as a log: what was so when it began, then what happened.

use schedlab_log::{Batches, Log, LogError, LogHeader, RawLog, Record};

/// The schedule of a recording. Its records lie in a nameless file; memory does not grow with them.
pub struct RecordedLog {
    /// Records at time 0: who ran, who waited.
    pub(super) head: Vec<Record>,
    pub(super) body: RawLog,
}

impl Log for RecordedLog {
    fn header(&self) -> &LogHeader {
        self.body.header()
    }
    fn batches(&self) -> Result<Box<dyn Batches + '_>, LogError> {
        let head = Some(&self.head[..]).filter(|head| !head.is_empty());
        Ok(Box::new(RecordedBatches { head, body: self.body.batches()? }))
    }
    fn len_hint(&self) -> Option<u64> {
        Some(self.head.len() as u64 + self.body.len())
    }
}

struct RecordedBatches<'a> {
    head: Option<&'a [Record]>,
    body: Box<dyn Batches + 'a>,
}

impl Batches for RecordedBatches<'_> {
    fn next_batch(&mut self) -> Result<Option<&[Record]>, LogError> {
        match self.head.take() {
            Some(head) => Ok(Some(head)),
            None => self.body.next_batch(),
        }
    }
}
