//! What does one page of the kernel's ring buffer hold?
//!
//! ```text
//! byte 0        8          16                                             4096
//!      timestamp | commit  | event | event | time extend | event | ... unused
//!                  low 27 bits: bytes in use; bit 31: events were lost before this page;
//!                  bit 30: their number stands behind the last event
//!
//! an event:  type_len (5 bits) | time_delta (27 bits) | data
//!            1..28: data of 4 x type_len bytes
//!            0:     its length + 4 in the next word, then the data
//!            29:    unused space: to the page's end (time_delta 0), or a discarded event
//!            30:    time extend: (next word << 27 | time_delta) is added to the clock
//!            31:    time stamp:  (next word << 27 | time_delta) is the clock, but for its top 5 bits
//! ```
//!
//! Worked: a page with timestamp 1000 whose first event has time_delta 5 and whose second has 7 puts them at
//! 1005 and 1012.
//!
//! Source: kernel/trace/ring_buffer.c; the header's places are read from the trace (`header_page`), the
//! event's packing is `header_event`'s and has been the same since Linux 2.6.30.

use crate::error::Problem;
use crate::format::{Field, Number, bytes_at, format_error, parse_field};

/// Where a page's header has its parts; from the text of `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageFormat {
    timestamp: Number,
    commit: Number,
    /// First byte of the events.
    pub data: usize,
    /// Bytes of `commit`: the traced kernel's `long`.
    commit_size: usize,
    /// Bytes of events that a page of this text's ring buffer has room for.
    pub data_size: usize,
}

/// RB_MISSED_EVENTS: events were lost before this page.
const MISSED: u64 = 1 << 31;
/// RB_MISSED_STORED: how many is stored behind the last event.
const MISSED_STORED: u64 = 1 << 30;
/// What is left of `commit` is a length.
const COMMIT_LENGTH: u64 = (1 << 27) - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// A page's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    /// Clock at the page's begin.
    pub timestamp: u64,
    /// Bytes of events.
    pub length: usize,
    /// Events lost before this page, and how many if the kernel counted them.
    pub lost: Option<Option<u64>>,
}

impl PageFormat {
    /// From the text of `events/header_page`.
    pub fn parse(text: &[u8]) -> Result<PageFormat, Problem> {
        let text = String::from_utf8_lossy(text);
        let mut fields: Vec<Field> = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| line.starts_with("field:")) {
            fields.push(parse_field("header_page", line)?);
        }
        let find = |name: &str| {
            fields
                .iter()
                .find(|field| field.name == name)
                .ok_or_else(|| format_error("header_page", format!("it has no field {name}")))
        };
        let timestamp = Number::of("header_page", find("timestamp")?)?;
        let commit = find("commit")?;
        let data = find("data")?;
        let format = PageFormat {
            timestamp,
            commit: Number::of("header_page", commit)?,
            data: data.offset as usize,
            commit_size: commit.size as usize,
            data_size: data.size as usize,
        };
        if timestamp.end() > format.data || format.commit.end() > format.data || !matches!(commit.size, 4 | 8)
        {
            let problem =
                format!("timestamp, commit ({} bytes) and data overlap or have odd sizes", commit.size);
            return Err(format_error("header_page", problem));
        }
        Ok(format)
    }

    /// Reads the header of `page`; `Err` gives the impossible length.
    #[inline]
    pub fn header(&self, page: &[u8]) -> Result<PageHeader, u64> {
        let commit = self.commit.get(page) as u64;
        let length = (commit & COMMIT_LENGTH) as usize;
        let end = self.data + length;
        if end > page.len() {
            return Err(length as u64);
        }
        let lost = (commit & MISSED != 0).then(|| {
            let stored = commit & MISSED_STORED != 0 && end + self.commit_size <= page.len();
            stored.then(|| match self.commit_size {
                4 => u64::from(u32::from_le_bytes(bytes_at(page, end))),
                _ => u64::from_le_bytes(bytes_at(page, end)),
            })
        });
        Ok(PageHeader { timestamp: self.timestamp.get(page) as u64, length, lost })
    }
}

/// What [`step`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An event with its data.
    Event {
        /// First byte of the data.
        data: usize,
        /// Bytes of data.
        length: usize,
        /// Where to go on.
        next: usize,
    },
    /// Time or a discarded event; go on there.
    Skip {
        /// Where to go on.
        next: usize,
    },
    /// Nothing more on this page.
    End,
    /// What stands here cannot be an event.
    Damaged(&'static str),
}

/// Looks at the event at `at` in `bytes`, whose events end at `end` (<= `bytes.len()`), and moves `clock` to its time.
#[inline(always)]
pub(crate) fn step(bytes: &[u8], at: usize, end: usize, clock: &mut u64) -> Step {
    let Some(events) = bytes.get(at..end) else { return Step::End };
    let Some(word) = events.first_chunk().map(|word| u32::from_le_bytes(*word)) else { return Step::End };
    let type_len = word & 31;
    let delta = u64::from(word >> 5);
    if (1..=28).contains(&type_len) {
        let length = type_len as usize * 4;
        if 4 + length > events.len() {
            return Step::Damaged("an event runs past its page's data");
        }
        *clock = clock.wrapping_add(delta);
        return Step::Event { data: at + 4, length, next: at + 4 + length };
    }
    if type_len == PADDING && delta == 0 {
        return Step::End;
    }
    if events.len() < 8 {
        return Step::Damaged("an event is cut by its page's end");
    }
    let second = u32::from_le_bytes(bytes_at(events, 4));
    let long_time = u64::from(second) << 27 | delta;
    match type_len {
        0 => {
            // The length counts its own word and is rounded up to words on the page.
            let size = second as usize;
            let rounded = size.next_multiple_of(4);
            if size < 4 || rounded > events.len() - 4 {
                return Step::Damaged("an event's stored length does not fit its page");
            }
            *clock = clock.wrapping_add(delta);
            Step::Event { data: at + 8, length: size - 4, next: at + 4 + rounded }
        }
        PADDING => {
            // A discarded event: its time has passed all the same, but 1 stands for 0 there (rb_event_discard).
            let size = (second as usize).next_multiple_of(4);
            if size > events.len() - 4 {
                return Step::Damaged("a discarded event's length does not fit its page");
            }
            if delta != 1 {
                *clock = clock.wrapping_add(delta);
            }
            Step::Skip { next: at + 4 + size }
        }
        TIME_EXTEND => {
            *clock = clock.wrapping_add(long_time);
            Step::Skip { next: at + 8 }
        }
        _ => {
            debug_assert_eq!(type_len, TIME_STAMP);
            *clock = restore_top_bits(long_time, *clock);
            Step::Skip { next: at + 8 }
        }
    }
}

/// A time stamp has 59 bits; the top 5 are those of the clock before it, or one more (the kernel's rb_fix_abs_ts).
fn restore_top_bits(stamp: u64, clock: u64) -> u64 {
    const TOP: u64 = 0xf8 << 56;
    if clock & TOP == 0 {
        return stamp;
    }
    let fixed = stamp | (clock & TOP);
    if fixed < clock { fixed.wrapping_add(1 << 59) } else { fixed }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_64: &[u8] = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn word(type_len: u32, delta: u32) -> [u8; 4] {
        (delta << 5 | type_len).to_le_bytes()
    }

    /// Steps through `events`, giving (clock, data) of each event.
    fn walk(events: &[u8], start: u64) -> Result<Vec<(u64, Vec<u8>)>, &'static str> {
        let (mut at, mut clock, mut found) = (0, start, Vec::new());
        loop {
            match step(events, at, events.len(), &mut clock) {
                Step::Event { data, length, next } => {
                    found.push((clock, events[data..data + length].to_vec()));
                    at = next;
                }
                Step::Skip { next } => at = next,
                Step::End => return Ok(found),
                Step::Damaged(why) => return Err(why),
            }
        }
    }

    #[test]
    fn every_kind_of_event() {
        let mut events = Vec::new();
        events.extend([word(1, 5).as_slice(), b"abcd"].concat());
        // 100 ns beyond 2^27.
        events.extend([word(30, 100), 1u32.to_le_bytes()].concat());
        events.extend([word(2, 7).as_slice(), b"efghijkl"].concat());
        // A discarded event of 8 bytes after its header, 9 ns later; then one whose 0 was written as 1.
        events.extend([word(29, 9).as_slice(), &8u32.to_le_bytes(), b"...."].concat());
        events.extend([word(29, 1).as_slice(), &4u32.to_le_bytes()].concat());
        // Long form: 4 + 5 bytes, rounded up to 12.
        events.extend([word(0, 3).as_slice(), &9u32.to_le_bytes(), b"mnopq...".as_slice()].concat());
        // The clock is set: 3 << 27 | 11.
        events.extend([word(31, 11), 3u32.to_le_bytes()].concat());
        events.extend([word(1, 1).as_slice(), b"rstu"].concat());
        events.extend([word(29, 0).as_slice(), b"whatever is left"].concat());
        let base = 1000 + 5 + 100 + (1 << 27);
        assert_eq!(
            walk(&events, 1000).unwrap(),
            [
                (1005, b"abcd".to_vec()),
                (base + 7, b"efghijkl".to_vec()),
                (base + 7 + 9 + 3, b"mnopq".to_vec()),
                ((3 << 27) + 12, b"rstu".to_vec()),
            ]
        );
    }

    #[test]
    fn top_bits_of_a_time_stamp_come_from_the_clock() {
        let high = 0x18 << 56;
        assert_eq!(restore_top_bits(500, 20), 500);
        assert_eq!(restore_top_bits(500, high + 20), high + 500);
        // It cannot lie before the clock: the 59 bits have wrapped.
        assert_eq!(restore_top_bits(10, high + 20), high + (1 << 59) + 10);
    }

    #[test]
    fn headers_tell_length_and_losses() {
        let format = PageFormat::parse(HEADER_64).unwrap();
        assert_eq!((format.data, format.data_size), (16, 4080));
        let mut page = vec![0; 4096];
        page[0..8].copy_from_slice(&77u64.to_le_bytes());
        page[8..16].copy_from_slice(&100u64.to_le_bytes());
        assert_eq!(format.header(&page), Ok(PageHeader { timestamp: 77, length: 100, lost: None }));
        page[8..16].copy_from_slice(&(100 | MISSED).to_le_bytes());
        assert_eq!(format.header(&page).unwrap().lost, Some(None));
        page[8..16].copy_from_slice(&(100 | MISSED | MISSED_STORED).to_le_bytes());
        page[116..124].copy_from_slice(&42u64.to_le_bytes());
        assert_eq!(format.header(&page).unwrap().lost, Some(Some(42)));
        page[8..16].copy_from_slice(&5000u64.to_le_bytes());
        assert_eq!(format.header(&page), Err(5000));
        // A kernel of 32 bits has a commit of 4 bytes.
        let text = String::from_utf8_lossy(HEADER_64)
            .replace("offset:8;\tsize:8", "offset:8;\tsize:4")
            .replace("offset:16", "offset:12");
        let format = PageFormat::parse(text.as_bytes()).unwrap();
        assert_eq!((format.data, format.commit_size), (12, 4));
        assert!(PageFormat::parse(b"").is_err());
    }

    #[test]
    fn damage_is_noticed_not_followed() {
        for (events, why) in [
            ([word(5, 1).as_slice(), b"abcd"].concat(), "past"),
            ([word(0, 1).as_slice(), &400u32.to_le_bytes()].concat(), "stored length"),
            ([word(0, 1).as_slice(), &2u32.to_le_bytes()].concat(), "stored length"),
            ([word(0, 1).as_slice(), &u32::MAX.to_le_bytes()].concat(), "stored length"),
            ([word(29, 2).as_slice(), &u32::MAX.to_le_bytes()].concat(), "discarded"),
            (word(30, 2).to_vec(), "cut"),
        ] {
            let found = walk(&events, 0).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }
}
