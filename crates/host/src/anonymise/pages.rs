//! How is a ring-buffer page taken apart and put together again with fewer or other events in it?
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
//!
//! Taking events out merges their times into the next one's, which may then need a word of type 30. Nothing of the old
//! page survives outside the events handed back: bytes behind the last event are zero.

use schedlab_trace::write::Missed;

use crate::drain::{COMMIT_MASK, MISSED_EVENTS, MISSED_STORED};

/// Bytes before the first event, on 64-bit kernels.
const HEAD: usize = 16;
const DELTA_BITS: u32 = 27;

/// Calls `event(time_ns, data)` for each event of a page; what its head says about losses comes back.
/// A page that contradicts itself is an error saying where.
pub fn walk(page: &[u8], mut event: impl FnMut(u64, &[u8])) -> Result<Option<Missed>, String> {
    let long = |at: usize| page.get(at..at + 8).and_then(|b| Some(u64::from_le_bytes(b.try_into().ok()?)));
    let word = |at: usize| page.get(at..at + 4).and_then(|b| Some(u32::from_le_bytes(b.try_into().ok()?)));
    let (Some(mut time), Some(commit)) = (long(0), long(8)) else {
        return Err(format!("a page of {} bytes has no head", page.len()));
    };
    let end = HEAD + (commit & COMMIT_MASK) as usize;
    if end > page.len() {
        return Err(format!("a page of {} bytes says that {end} are in use", page.len()));
    }
    let missed = (commit & MISSED_EVENTS != 0)
        .then(|| Missed { count: if commit & MISSED_STORED != 0 { long(end) } else { None } });
    let mut at = HEAD;
    while at + 4 <= end {
        let short = || format!("the event at byte {at} of a page reaches beyond the {end} in use");
        let head = word(at).ok_or_else(short)?;
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        let next = || word(at + 4).ok_or_else(short);
        let (data, after) = match kind {
            29 if delta == 0 => break,
            29 => (None, at + 4 + next()? as usize),
            30 => {
                time += u64::from(next()?) << DELTA_BITS;
                (None, at + 8)
            }
            31 => {
                let low = (u64::from(next()?) << DELTA_BITS) + delta;
                // 59 bits are stored; the rest is that of the time so far, and may have moved on since.
                let high = time & !((1 << 59) - 1);
                time = high | low;
                at += 8;
                continue;
            }
            0 => {
                let length = next()? as usize;
                let data = at + 8..at + 4 + length;
                (Some(page.get(data).ok_or_else(short)?), at + 4 + length)
            }
            _ => {
                let length = 4 * kind as usize;
                (Some(page.get(at + 4..at + 4 + length).ok_or_else(short)?), at + 4 + length)
            }
        };
        time += delta;
        if after > end {
            return Err(short());
        }
        if let Some(data) = data {
            event(time, data);
        }
        at = after;
    }
    Ok(missed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::write::PageBuilder;

    type Events = Vec<(u64, Vec<u8>)>;

    fn read(pages: &[u8]) -> (Events, Vec<Missed>) {
        let (mut events, mut missed) = (Vec::new(), Vec::new());
        for page in pages.chunks(4096) {
            missed.extend(walk(page, |time, data| events.push((time, data.to_vec()))).expect("own page"));
        }
        (events, missed)
    }

    #[test]
    fn a_page_by_hand_is_read_as_the_kernel_means_it() {
        let mut page = 1000u64.to_le_bytes().to_vec();
        page.extend([0; 8]);
        for word in [
            5 << 5 | 2,
            0xaaaa_aaaa,
            0xbbbb_bbbb, // 1005: 8 bytes
            3 << 5 | 29,
            8,
            0xdead, // 1008: discarded, 4 + 8 bytes
            7 << 5 | 30,
            1, // 1008 + 2^27 + 7
            5 << 5,
            8,
            0xcccc_cccc, // + 5: type 0, length 8: 4 bytes
            9 << 5 | 31,
            2, // absolute 2 x 2^27 + 9
            1 << 5 | 1,
            0xdddd_dddd, // + 1
            29,
            0, // the end
        ] {
            page.extend(u32::to_le_bytes(word));
        }
        let used = page.len() as u64 - 16;
        page[8..16].copy_from_slice(&used.to_le_bytes());
        page.resize(4096, 0x55);
        let (events, missed) = read(&page);
        let times: Vec<u64> = events.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, [1005, 1008 + (1 << 27) + 7 + 5, (2 << 27) + 9 + 1]);
        assert_eq!(events[0].1, [0xaa, 0xaa, 0xaa, 0xaa, 0xbb, 0xbb, 0xbb, 0xbb]);
        assert_eq!(events[1].1, [0xcc; 4]);
        assert!(missed.is_empty());
    }

    #[test]
    fn events_put_together_come_apart_the_same() {
        let mut expected: Events = Vec::new();
        let mut time = 77;
        for i in 0..2000u64 {
            // Gaps of 0 ns, of a little, and of more than 27 bits; lengths of all kinds.
            time += [0, 13, 200_000_000, 1 << 40][i as usize % 4];
            expected.push((time, vec![i as u8; 4 * (1 + i as usize % 70)]));
        }
        let mut builder = PageBuilder::new(4096);
        for (time, data) in &expected {
            builder.push(*time, data);
        }
        let pages = builder.finish();
        assert_eq!(pages.len() % 4096, 0);
        assert_eq!(read(&pages).0, expected);
    }

    #[test]
    fn losses_stay_where_they_were() {
        let mut builder = PageBuilder::new(4096);
        builder.push(1, &[1; 8]);
        builder.lost(Missed { count: Some(3) });
        builder.lost(Missed { count: Some(4) });
        for time in 2..400 {
            builder.push(time, &[2; 32]);
        }
        builder.lost(Missed { count: None });
        builder.push(500, &[3; 8]);
        let (events, missed) = read(&builder.finish());
        assert_eq!(missed, [Missed { count: Some(7) }, Missed { count: None }]);
        assert_eq!(events.len(), 400);
    }

    #[test]
    fn a_page_that_lies_is_refused() {
        assert!(walk(&[0; 7], |_, _| ()).is_err());
        let mut page = vec![0u8; 64];
        page[8] = 200;
        assert!(walk(&page, |_, _| ()).expect_err("too long").contains("216 are in use"));
        page[8] = 4;
        page[16] = 5;
        assert!(walk(&page, |_, _| ()).expect_err("cut").contains("beyond"));
    }
}
