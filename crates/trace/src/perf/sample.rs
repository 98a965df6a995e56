//! Where in a sample stand its time, its CPU and the tracepoint's bytes? Each event's description tells.
//!
//! ```text
//! sample_type   IDENTIFIER | IP | TID | TIME | ID | CPU | PERIOD | RAW
//! sample        8 id  8 ip  4 pid 4 tid  8 time  8 id  4 cpu 4 -  8 period  4 size, bytes of the tracepoint
//! other record  its own fields, then at its end (if sample_id_all): 8 pid, tid  8 time  8 id  8 cpu  8 id
//! ```

use super::unsupported;
use crate::container::invalid;
use crate::cursor::Cursor;
use crate::error::{Place, Problem};
use crate::format::bytes_at;
use schedlab_units::CpuId;
use std::collections::HashMap;
use std::ops::Range;

// enum perf_event_sample_format (include/uapi/linux/perf_event.h)
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;

// enum perf_event_read_format
const TOTAL_TIME_ENABLED: u64 = 1 << 0;
const TOTAL_TIME_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

const TYPE_TRACEPOINT: u32 = 2;
/// Bit of `perf_event_attr`'s flags.
const SAMPLE_ID_ALL: u64 = 1 << 18;
/// A greater CPU number is none (x86: at most 8191).
const MAX_CPU: u32 = 1 << 16;

/// What is needed of a `perf_event_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attr {
    kind: u32,
    config: u64,
    form: Form,
}

/// What decides how records look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    sample_type: u64,
    read_format: u64,
    id_all: bool,
}

impl Attr {
    pub fn parse(bytes: &[u8], place: Place) -> Result<Attr, Problem> {
        let mut cursor = Cursor::at_place(bytes, place);
        let what = "an event's description";
        let kind = cursor.u32(what)?;
        cursor.u32(what)?;
        let config = cursor.u64(what)?;
        cursor.u64(what)?;
        let sample_type = cursor.u64(what)?;
        let read_format = cursor.u64(what)?;
        let flags = cursor.u64(what)?;
        Ok(Attr { kind, config, form: Form { sample_type, read_format, id_all: flags & SAMPLE_ID_ALL != 0 } })
    }
}

/// Of all recorded events: how their samples look.
#[derive(Default)]
pub(super) struct Layouts {
    attrs: Vec<Attr>,
    /// Different forms, and for each event number the row; only ever asked, never listed.
    layouts: Vec<Layout>,
    by_id: HashMap<u64, u8>,
}

/// Places in the samples of one form, counted from the body's begin.
#[derive(Clone, Copy, Debug)]
struct Layout {
    form: Form,
    time: Option<u32>,
    cpu: Option<u32>,
    /// End of the fields of fixed size: READ, CALLCHAIN and RAW follow.
    fixed: u32,
    /// In other records, counted from the end.
    trailer_time: Option<u32>,
    trailer_cpu: Option<u32>,
}

impl Layout {
    fn new(form: Form) -> Layout {
        let mut at = 0;
        let mut layout =
            Layout { form, time: None, cpu: None, fixed: 0, trailer_time: None, trailer_cpu: None };
        for bit in [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD] {
            if form.sample_type & bit != 0 {
                match bit {
                    TIME => layout.time = Some(at),
                    CPU => layout.cpu = Some(at),
                    _ => {}
                }
                at += 8;
            }
        }
        layout.fixed = at;
        if form.id_all {
            let mut back = 0;
            for bit in [IDENTIFIER, CPU, STREAM_ID, ID, TIME, TID] {
                if form.sample_type & bit != 0 {
                    back += 8;
                    match bit {
                        TIME => layout.trailer_time = Some(back),
                        CPU => layout.trailer_cpu = Some(back),
                        _ => {}
                    }
                }
            }
        }
        layout
    }
}

/// Time and CPU of a record, where it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub time_ns: Option<u64>,
    pub cpu: Option<CpuId>,
}

impl Layouts {
    /// Takes in one event's description and its numbers (as bytes).
    pub fn add(&mut self, attr: Attr, ids: &[u8], place: Place) -> Result<(), Problem> {
        if attr.kind == TYPE_TRACEPOINT {
            for (bit, name) in [(TIME, "time"), (CPU, "CPU"), (RAW, "raw data")] {
                if attr.form.sample_type & bit == 0 {
                    return Err(unsupported(
                        place,
                        "a tracepoint's sample",
                        format!("one without {name}"),
                        "record with `perf sched record`, or `perf record -a -R -e sched:...`",
                    ));
                }
            }
        }
        let known = self.layouts.iter().position(|layout| layout.form == attr.form);
        let row = known.unwrap_or(self.layouts.len());
        let row = u8::try_from(row)
            .map_err(|_| invalid(place, "the number of different kinds of samples", row, "at most 255"))?;
        if known.is_none() {
            self.layouts.push(Layout::new(attr.form));
        }
        self.attrs.push(attr);
        for id in ids.chunks_exact(8) {
            self.by_id.insert(u64::from_le_bytes(bytes_at(id, 0)), row);
        }
        let identified = |layout: &Layout| layout.form.sample_type & IDENTIFIER != 0;
        if self.layouts.len() > 1 && !self.layouts.iter().all(identified) {
            return Err(unsupported(
                place,
                "a recording of different kinds of samples",
                "one whose samples do not say which they are (no IDENTIFIER)".to_string(),
                "record the sched events alone, with `perf sched record`",
            ));
        }
        Ok(())
    }
    pub fn is_empty(&self) -> bool {
        self.attrs.is_empty()
    }
    /// Whether the tracepoint of this number is among the events.
    pub fn records(&self, tracepoint: u16) -> bool {
        self.attrs.iter().any(|attr| attr.kind == TYPE_TRACEPOINT && attr.config == u64::from(tracepoint))
    }

    /// Time, CPU and tracepoint's bytes of a sample; no bytes: another kind of event. `Err` says what is wrong with it.
    #[inline]
    pub fn sample(&self, body: &[u8]) -> Result<(Stamp, Option<Range<usize>>), &'static str> {
        const SHORT: &str = "a sample is shorter than its description says";
        let layout = match &self.layouts[..] {
            [only] => only,
            several => {
                let id = u64::from_le_bytes(*body.first_chunk().ok_or(SHORT)?);
                let row = self.by_id.get(&id).ok_or("a sample of an event that was not described")?;
                &several[usize::from(*row)]
            }
        };
        if body.len() < layout.fixed as usize {
            return Err(SHORT);
        }
        let stamp = Stamp {
            time_ns: layout.time.map(|at| u64::from_le_bytes(bytes_at(body, at as usize))),
            cpu: layout.cpu.map(|at| CpuId(u32::from_le_bytes(bytes_at(body, at as usize)))),
        };
        if stamp.cpu.is_some_and(|cpu| cpu.0 > MAX_CPU) {
            return Err("a sample's CPU is beyond any machine's");
        }
        if layout.form.sample_type & RAW == 0 {
            return Ok((stamp, None));
        }
        let mut at = layout.fixed as usize;
        if layout.form.sample_type & READ != 0 {
            at = skip_read(body, at, layout.form.read_format).ok_or(SHORT)?;
        }
        if layout.form.sample_type & CALLCHAIN != 0 {
            let depth = word(body, at).ok_or(SHORT)?;
            at = skip(at, depth.checked_add(1).ok_or(SHORT)?).ok_or(SHORT)?;
        }
        let size = body.get(at..).and_then(|rest| rest.first_chunk()).ok_or(SHORT)?;
        let raw = at + 4..(at + 4).saturating_add(u32::from_le_bytes(*size) as usize);
        if raw.end > body.len() {
            return Err("a sample's raw data is longer than the sample");
        }
        Ok((stamp, Some(raw)))
    }

    /// Time and CPU of another record of the kernel's.
    pub fn trailer(&self, body: &[u8]) -> Stamp {
        let Some(layout) = self.layouts.first() else { return Stamp::default() };
        let at = |back: Option<u32>| body.len().checked_sub(back? as usize);
        Stamp {
            time_ns: at(layout.trailer_time).and_then(|at| word(body, at)),
            cpu: at(layout.trailer_cpu)
                .and_then(|at| word(body, at))
                .map(|cpu| CpuId(cpu as u32))
                .filter(|cpu| cpu.0 <= MAX_CPU),
        }
    }
}

fn word(body: &[u8], at: usize) -> Option<u64> {
    body.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn skip(at: usize, words: u64) -> Option<usize> {
    at.checked_add(usize::try_from(words.checked_mul(8)?).ok()?)
}

/// End of the counter values at `at`.
fn skip_read(body: &[u8], at: usize, format: u64) -> Option<usize> {
    let count = |bits: u64| u64::from((format & bits).count_ones());
    let times = count(TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING);
    let each = 1 + count(READ_ID | READ_LOST);
    if format & GROUP == 0 {
        return skip(at, each + times);
    }
    let values = word(body, at)?;
    skip(at, values.checked_mul(each)?.checked_add(1 + times)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(sample_type: u64, read_format: u64) -> Attr {
        Attr { kind: TYPE_TRACEPOINT, config: 7, form: Form { sample_type, read_format, id_all: true } }
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn fields_stand_in_the_order_of_the_kernel() {
        let mut layouts = Layouts::default();
        let all =
            IDENTIFIER | IP | TID | TIME | ADDR | ID | STREAM_ID | CPU | PERIOD | READ | CALLCHAIN | RAW;
        layouts.add(attr(all, GROUP | READ_ID | TOTAL_TIME_ENABLED), &words(&[1, 2]), Place::at(0)).unwrap();
        // identifier ip tid time addr id stream cpu period | nr enabled value id value id | depth ip ip | raw
        let mut body = words(&[1, 11, 12, 13, 14, 15, 16, 3, 18, 2, 20, 21, 22, 23, 24, 2, 26, 27]);
        body.extend_from_slice(&4u32.to_le_bytes());
        body.extend_from_slice(b"rawdpadding.");
        let (stamp, raw) = layouts.sample(&body).unwrap();
        assert_eq!(stamp, Stamp { time_ns: Some(13), cpu: Some(CpuId(3)) });
        assert_eq!(&body[raw.unwrap()], b"rawd");
        for length in 0..18 * 8 + 4 + 4 {
            assert!(layouts.sample(&body[..length]).is_err(), "{length}");
        }
        // LOST: id, count | tid time id stream cpu identifier
        let lost = words(&[9, 500, 12, 13, 15, 16, 3, 1]);
        assert_eq!(layouts.trailer(&lost), stamp);
    }

    #[test]
    fn samples_without_what_is_needed_are_refused() {
        for sample_type in [TIME | CPU, TIME | RAW, CPU | RAW] {
            let error = Layouts::default().add(attr(sample_type, 0), &[], Place::at(7)).unwrap_err();
            assert!(error.to_string().contains("perf sched record"), "{error}");
        }
        let mut layouts = Layouts::default();
        layouts.add(attr(TIME | CPU | RAW, 0), &[], Place::at(0)).unwrap();
        let error = layouts.add(attr(TIME | CPU | RAW | PERIOD, 0), &[], Place::at(0)).unwrap_err();
        assert!(error.to_string().contains("IDENTIFIER"), "{error}");
        assert!(layouts.records(7) && !layouts.records(8));
    }
}
