//! How do events become ring-buffer pages?
//!
//! A page is a head of 16 bytes (timestamp, bytes in use and loss flags) and events, each with a word of 5
//! bits type and 27 bits of time since the one before:
//!
//! ```text
//! | type | what follows | bytes |
//! |------|--------------|-------|
//! | 0    | length (its own 4 bytes included), data | 4 + length |
//! | 1-28 | data of 4 x type bytes                  | 4 + 4 x type |
//! | 29   | padding: a discarded event's length, its bytes; the rest of the page where the time is 0 | 4 + length |
//! | 30   | 32 more bits of time since              | 8 |
//! | 31   | 32 more bits of absolute time           | 8 |
//! ```

/// Bytes before the first event, on 64-bit kernels.
const HEAD: usize = 16;
const DELTA_BITS: u32 = 27;
/// RB_MISSED_EVENTS and RB_MISSED_STORED (kernel/trace/ring_buffer.c).
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Events lost just before a page, as its head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// How many, if the kernel stored it.
    pub count: Option<u64>,
}

/// Puts the events of one CPU into pages. Bytes behind the last event of a page are zero.
#[derive(Debug)]
pub struct PageBuilder {
    page_size: usize,
    page: Vec<u8>,
    time: u64,
    missed: Option<Missed>,
    /// Whole pages so far.
    out: Vec<u8>,
}

impl PageBuilder {
    /// For pages of this size.
    pub fn new(page_size: usize) -> PageBuilder {
        PageBuilder { page_size, page: Vec::new(), time: 0, missed: None, out: Vec::new() }
    }

    /// Notes that events were lost before the next one: it begins a page, whose head can say so.
    pub fn lost(&mut self, missed: Missed) {
        self.flush();
        self.missed = Some(match self.missed {
            // Two gaps with nothing left between them are one.
            Some(before) => Missed { count: before.count.zip(missed.count).map(|(a, b)| a + b) },
            None => missed,
        });
    }

    /// Appends an event. `data` is at most a page less its head, as it came out of one; `time` is not before
    /// the last event's.
    pub fn push(&mut self, time: u64, data: &[u8]) {
        let padded = data.len().next_multiple_of(4);
        let (kind, extra) = if (4..=112).contains(&padded) { (padded as u32 / 4, 0) } else { (0, 4) };
        let event_bytes = 4 + extra + padded;
        let delta = time.saturating_sub(self.time);
        let extend = if delta >> DELTA_BITS != 0 { 8 } else { 0 };
        // The number of lost events is stored behind the last event: keep its place.
        let room = self.page_size - if self.missed.is_some() { 8 } else { 0 };
        if self.page.is_empty() || self.page.len() + extend + event_bytes > room {
            self.flush();
            self.page.extend_from_slice(&time.to_le_bytes());
            self.page.extend_from_slice(&[0; 8]);
            self.time = time;
        }
        let delta = time.saturating_sub(self.time);
        if delta >> DELTA_BITS != 0 {
            let low = delta & ((1 << DELTA_BITS) - 1);
            self.word((low as u32) << 5 | 30);
            self.word((delta >> DELTA_BITS) as u32);
            self.word(kind);
        } else {
            self.word((delta as u32) << 5 | kind);
        }
        self.time = time;
        if kind == 0 {
            self.word(padded as u32 + 4);
        }
        self.page.extend_from_slice(data);
        self.page.resize(self.page.len() + padded - data.len(), 0);
    }

    fn word(&mut self, word: u32) {
        self.page.extend_from_slice(&word.to_le_bytes());
    }

    fn flush(&mut self) {
        if self.page.is_empty() {
            return;
        }
        let mut commit = (self.page.len() - HEAD) as u64;
        if let Some(missed) = self.missed.take() {
            commit |= MISSED_EVENTS;
            if let Some(count) = missed.count {
                commit |= MISSED_STORED;
                self.page.extend_from_slice(&count.to_le_bytes());
            }
        }
        self.page[8..16].copy_from_slice(&commit.to_le_bytes());
        self.page.resize(self.page_size, 0);
        self.out.append(&mut self.page);
    }

    /// Whether so many pages are full that they should be taken.
    pub fn is_a_lot(&self) -> bool {
        self.out.len() >= 64 * self.page_size
    }

    /// The pages that are full; the one being filled stays.
    pub fn take_whole_pages(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The rest of the pages.
    pub fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.out
    }
}
