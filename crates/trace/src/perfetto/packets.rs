//! Where in the trace are the bundles? One pass over the packets, of which only the heads are read.

use super::wire::{Fields, Value, Wrong, varint};
use crate::container::{Counts, Mode, count, invalid};
use crate::error::{Place, Problem};
use schedlab_stdx::limits::{PACKETS_MAX, UNPACKED_BYTES_MAX};
use std::collections::BTreeMap;
use std::rc::Rc;

// TracePacket's fields
const FTRACE_EVENTS: u32 = 1;
const SYSTEM_INFO: u32 = 45;
const COMPRESSED_PACKETS: u32 = 50;
const SEQUENCE: u32 = 10;

/// A packed packet unpacks to at most this. (Perfetto packs at most 512 KiB at a time.)
const UNPACKED_MAX: usize = UNPACKED_BYTES_MAX as usize;
/// Unpacked packets kept at a time: CPUs' bundles of one round lie near each other.
const KEPT: usize = 16;
/// More CPUs than any Linux has.
const MAX_CPU: u64 = 1 << 16;

/// The place of a bundle, or of anything else in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// In the file, or in what `packed` unpacks to.
    pub offset: usize,
    pub length: u32,
    /// Row of [`Packets::packed`].
    pub packed: Option<u32>,
}

/// What is in the trace.
#[derive(Default)]
pub(super) struct Packets {
    /// By CPU: its bundles, in order of the trace.
    pub bundles: BTreeMap<u32, Vec<Part>>,
    /// Packed packets: offset and length in the file.
    packed: Vec<(usize, usize)>,
    pub cpu_count: Option<u32>,
    pub release: Option<String>,
    pub tool: Option<String>,
    pub counts: Counts,
    /// Bundles so far, and how many there may be.
    nr_parts: usize,
    parts_max: usize,
}

/// While the packets are read: bundles by writer, since two data sources may have seen the same CPUs.
type Writers = BTreeMap<u64, BTreeMap<u32, Vec<Part>>>;

pub(super) fn scan(file: &[u8], mode: Mode) -> Result<Packets, Problem> {
    scan_within(file, mode, PACKETS_MAX)
}

fn scan_within(file: &[u8], mode: Mode, parts_max: usize) -> Result<Packets, Problem> {
    let mut packets = Packets { parts_max, ..Packets::default() };
    let mut writers = Writers::new();
    if file.is_empty() {
        return Err(Problem::UnknownRecording { found: "an empty file".to_string() });
    }
    let ended = each_packet(file, |packet, offset| {
        let mut unpacked = Vec::new();
        packets.packet(packet, offset, None, &mut writers, &mut unpacked)?;
        for (offset, bytes) in unpacked {
            let row = packets.packed.len() as u32;
            packets.packed.push((offset, bytes.len()));
            let content = inflate(bytes).map_err(|why| (offset, why))?;
            each_packet(&content, |packet, at| {
                packets.packet(packet, at, Some(row), &mut writers, &mut Vec::new())
            })
            .map_err(|(_, why)| (offset, why))?;
        }
        Ok(())
    });
    if let Err((offset, why)) = ended {
        if mode == Mode::Strict || writers.is_empty() || why == TOO_MANY {
            return Err(problem(file, offset, why));
        }
        count(&mut packets.counts, &format!("rest of the trace left out: {why}"), 1);
    }
    let bytes = |bundles: &BTreeMap<u32, Vec<Part>>| {
        bundles.values().flatten().map(|part| u64::from(part.length)).sum::<u64>()
    };
    let others = writers.len().saturating_sub(1) as u64;
    count(&mut packets.counts, "other ftrace data source of the trace, ignored", others);
    // The one with most to say; the first of equals.
    let most = writers.into_iter().rev().max_by_key(|(_, bundles)| bytes(bundles));
    match most {
        Some((_, bundles)) => packets.bundles = bundles,
        None => {
            let detail = "no packet of the trace has ftrace events".to_string();
            return Err(Problem::NoSchedEvents { detail });
        }
    }
    Ok(packets)
}

fn problem(file: &[u8], offset: usize, why: Wrong) -> Problem {
    let at = Place::at(offset as u64);
    match why {
        PACKET_CUT => Problem::Truncated {
            at,
            what: "a packet",
            needed: varint(&file[(offset + 1).min(file.len())..]).map_or(1, |(length, _)| length),
            available: file.len().saturating_sub(offset + 1) as u64,
            lenient: true,
        },
        _ => invalid(at, "a packet", why, "what Perfetto's protocol says"),
    }
}

/// Whatever the mode is: each is remembered.
const TOO_MANY: Wrong = "more packets with events than a trace may have (docs/results.md)";
const PACKET_CUT: Wrong = "cut short within a packet";

/// Calls `each` with every packet and its offset. An error says where and why it ended.
fn each_packet(
    bytes: &[u8],
    mut each: impl FnMut(&[u8], usize) -> Result<(), (usize, Wrong)>,
) -> Result<(), (usize, Wrong)> {
    let mut fields = Fields::new(bytes);
    loop {
        let begin = fields.at;
        match fields.next() {
            Ok(None) => return Ok(()),
            Ok(Some((1, Value::Bytes(packet)))) => each(packet, fields.at - packet.len())?,
            Ok(Some(_)) => return Err((begin, "a field that is no packet")),
            Err(why) if bytes[begin] != 0x0a => return Err((begin, why)),
            Err(_) => return Err((begin, PACKET_CUT)),
        }
    }
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, Wrong> {
    miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(bytes, UNPACKED_MAX)
        .map_err(|_| "packed packets that cannot be unpacked (deflate)")
}

impl Packets {
    fn packet<'b>(
        &mut self,
        packet: &'b [u8],
        offset: usize,
        packed: Option<u32>,
        writers: &mut Writers,
        unpack: &mut Vec<(usize, &'b [u8])>,
    ) -> Result<(), (usize, Wrong)> {
        let mut fields = Fields::new(packet);
        let (mut bundle, mut sequence) = (None, 0);
        let place = |fields: &Fields<'_>, bytes: &[u8]| offset + fields.at - bytes.len();
        loop {
            match fields.next().map_err(|why| (offset, why))? {
                None => break,
                Some((FTRACE_EVENTS, Value::Bytes(bytes))) => bundle = Some((bytes, place(&fields, bytes))),
                Some((SEQUENCE, Value::Number(number))) => sequence = number,
                Some((COMPRESSED_PACKETS, Value::Bytes(bytes))) => {
                    unpack.push((place(&fields, bytes), bytes))
                }
                Some((SYSTEM_INFO, Value::Bytes(bytes))) => {
                    self.system_info(bytes).map_err(|why| (offset, why))?;
                }
                Some(_) => {}
            }
        }
        if let Some((bytes, at)) = bundle {
            let cpu = cpu_of(bytes).map_err(|why| (offset, why))?;
            let length = u32::try_from(bytes.len()).map_err(|_| (offset, "a bundle of more than 4 GiB"))?;
            let parts = writers.entry(sequence).or_default().entry(cpu).or_default();
            self.nr_parts += 1;
            if self.nr_parts > self.parts_max {
                return Err((offset, TOO_MANY));
            }
            parts.push(Part { offset: at, length, packed });
        }
        Ok(())
    }

    fn system_info(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut fields = Fields::new(bytes);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, Value::Bytes(utsname)) => {
                    let mut fields = Fields::new(utsname);
                    while let Some((field, value)) = fields.next()? {
                        if let (3, Value::Bytes(release)) = (field, value) {
                            self.release = Some(text(release));
                        }
                    }
                }
                (4, Value::Bytes(version)) => self.tool = Some(text(version)),
                (8, Value::Number(cpus)) => {
                    self.cpu_count = Some(cpus as u32).filter(|_| (1..=MAX_CPU).contains(&cpus));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What is still packed, for [`Content`].
    pub fn packed(&self, row: u32) -> (usize, usize) {
        self.packed[row as usize]
    }
}

/// The CPU that a bundle is of; not stated: 0.
fn cpu_of(bundle: &[u8]) -> Result<u32, Wrong> {
    let mut fields = Fields::new(bundle);
    while let Some((field, value)) = fields.next()? {
        if let (1, Value::Number(cpu)) = (field, value) {
            return if cpu < MAX_CPU { Ok(cpu as u32) } else { Err("a CPU's number beyond 65536") };
        }
    }
    Ok(0)
}

/// Gives the bytes of parts, unpacking where needed and keeping what was unpacked lately.
pub(super) struct Content<'f> {
    file: &'f [u8],
    packets: &'f Packets,
    kept: Vec<(u32, Rc<Vec<u8>>)>,
}

/// Bytes of a part.
pub(super) enum PartBytes<'f> {
    File(&'f [u8]),
    Unpacked(Rc<Vec<u8>>, std::ops::Range<usize>),
}

impl PartBytes<'_> {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            PartBytes::File(bytes) => bytes,
            PartBytes::Unpacked(content, range) => &content[range.clone()],
        }
    }
}

impl<'f> Content<'f> {
    pub fn new(file: &'f [u8], packets: &'f Packets) -> Content<'f> {
        Content { file, packets, kept: Vec::new() }
    }

    /// The bytes of a part that [`scan`] found.
    pub fn bytes(&mut self, part: Part) -> PartBytes<'f> {
        let range = part.offset..part.offset + part.length as usize;
        let Some(row) = part.packed else { return PartBytes::File(&self.file[range]) };
        if let Some((_, content)) = self.kept.iter().find(|(kept, _)| *kept == row) {
            return PartBytes::Unpacked(Rc::clone(content), range);
        }
        let (offset, length) = self.packets.packed(row);
        let content = inflate(&self.file[offset..offset + length]).expect("it was unpacked before");
        let content = Rc::new(content);
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push((row, Rc::clone(&content)));
        PartBytes::Unpacked(content, range)
    }

    /// Where a part is, for messages.
    pub fn place(&self, part: Part) -> Place {
        match part.packed {
            None => Place::at(part.offset as u64),
            Some(row) => Place::unpacked(self.packets.packed(row).0 as u64, part.offset as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many packets with events as there may be, and one more, which no mode leaves out.
    #[test]
    fn packets_are_counted() {
        // packet { ftrace_events { cpu: 0 } }, twice
        let trace = [0x0a, 4, 0x0a, 2, 0x08, 0].repeat(2);
        for mode in [Mode::Strict, Mode::Lenient] {
            assert_eq!(scan_within(&trace, mode, 2).map(|found| found.bundles[&0].len()).unwrap(), 2);
            let error = scan_within(&trace, mode, 1).map(drop).unwrap_err().to_string();
            assert!(error.contains("more packets with events than a trace may have"), "{error}");
        }
    }

    /// Packed packets that unpack to as much as they may, and to a byte more.
    #[test]
    fn what_a_packet_unpacks_to_is_bounded() {
        let packed = |bytes: usize| miniz_oxide::deflate::compress_to_vec_zlib(&vec![0; bytes], 1);
        assert_eq!(inflate(&packed(UNPACKED_MAX)).map(|bytes| bytes.len()), Ok(UNPACKED_MAX));
        assert!(inflate(&packed(UNPACKED_MAX + 1)).is_err());
    }
}
