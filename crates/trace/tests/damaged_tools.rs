//! What becomes of a recording by perf, Perfetto or as text that ends anywhere or has any byte wrong? An
//! error with its place, or fewer events and a count of what is missing; never a panic, a hang or a full
//! memory.

use proptest::prelude::*;
use schedlab_trace::{Mode, Recording};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn sample(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../samples/tools").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

const FILES: [&str; 7] = [
    "perf.data",
    "perf-pipe.data",
    "perf-packed.data", // perf.data, its records packed here
    "ftrace.txt",
    "report.txt",
    "plain.perfetto",
    "packed.perfetto",
];

fn bytes_of(name: &str) -> Vec<u8> {
    if name == "perf-packed.data" { packed(&sample("perf.data")) } else { sample(name) }
}

/// perf.data with its records in COMPRESSED ones, as `perf record -z` writes them: one zstd stream, flushed
/// after each piece. Pieces end anywhere, also within a record.
fn packed(file: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (data_at, data_size) = (word(40), word(48));
    let data = &file[data_at..data_at + data_size];
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let mut records = Vec::new();
    for piece in data.chunks(3001) {
        encoder.write_all(piece).unwrap();
        encoder.flush().unwrap();
        let content = std::mem::take(encoder.get_mut());
        records.extend_from_slice(&81u32.to_le_bytes());
        records.extend_from_slice(&0u16.to_le_bytes());
        records.extend_from_slice(&u16::try_from(content.len() + 8).unwrap().to_le_bytes());
        records.extend_from_slice(&content);
    }
    with_data(file, &records)
}

/// A perf.data with other records.
fn with_data(file: &[u8], records: &[u8]) -> Vec<u8> {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (data_at, data_size) = (word(40), word(48));
    let rest = &file[data_at + data_size..];
    let mut out = file[..data_at].to_vec();
    out[48..56].copy_from_slice(&(records.len() as u64).to_le_bytes());
    out.extend_from_slice(records);
    // Feature sections: a table of places, then the sections, all further back or forth now.
    let moved = records.len() as i64 - data_size as i64;
    let sections = file[72..104].iter().map(|byte| byte.count_ones()).sum::<u32>() as usize;
    let at = out.len();
    out.extend_from_slice(rest);
    for row in 0..sections {
        let place = at + row * 16;
        let offset = i64::from_le_bytes(out[place..place + 8].try_into().unwrap()) + moved;
        out[place..place + 8].copy_from_slice(&offset.to_le_bytes());
    }
    out
}

/// Reads to the end; an iterator that never ends would be noticed by its length.
fn try_all(bytes: &[u8], mode: Mode) -> Result<(usize, u64), String> {
    let file = Recording::from_bytes(bytes.to_vec(), mode).map_err(|error| error.to_string())?;
    let mut stream = file.events().map_err(|error| error.to_string())?;
    let mut events = 0;
    while let Some(_event) = stream.next_event().map_err(|error| error.to_string())? {
        events += 1;
        assert!(events <= bytes.len() * 1000 + 1000, "more events than the file has room for");
    }
    Ok((events, stream.counts().values().sum()))
}

#[test]
fn packed_records_give_the_same_events() {
    let all = |bytes: Vec<u8>| {
        let file = Recording::from_bytes(bytes, Mode::Strict).unwrap();
        let mut stream = file.events().unwrap();
        std::iter::from_fn(|| stream.next_event().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(all(sample("perf.data")), all(bytes_of("perf-packed.data")));
}

/// perf 6.1 loses what does not fit into the last compressed record that it writes, which is full then: seen
/// with real recordings of 3 and 6 MB, of which `perf script` prints as many events as are read here.
#[test]
fn what_perf_has_not_written_out_is_counted() {
    let file = sample("perf.data");
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (data_at, data_size) = (word(40), word(48));
    let data = &file[data_at..data_at + data_size];
    // as much noise first as fills all but the last 100 bytes of a compressed record: a record of a kind that
    // is passed over
    let mut noise = vec![];
    let mut state = 1u32;
    while noise.len() < 65_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.push((state >> 24) as u8);
    }
    let mut content = [&1000u32.to_le_bytes()[..], &[0; 2], &(65_008u16).to_le_bytes(), &noise].concat();
    content.extend_from_slice(data);
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    for piece in content.chunks(3001) {
        std::io::Write::write_all(&mut encoder, piece).unwrap();
        std::io::Write::flush(&mut encoder).unwrap();
    }
    let packed = encoder.finish().unwrap();
    let make = |length: usize| {
        let head = [&81u32.to_le_bytes()[..], &[0; 2], &(length as u16 + 8).to_le_bytes()].concat();
        with_data(&file, &[&head, &packed[..length]].concat())
    };
    assert!(packed.len() > 65_527, "{}", packed.len());
    let (strict, lenient) = (try_all(&make(65_527), Mode::Strict), try_all(&make(65_527), Mode::Lenient));
    assert_eq!(strict, lenient);
    assert_eq!(strict.unwrap().1, 1, "the loss is counted");
    let cut = try_all(&make(65_526), Mode::Strict).unwrap_err();
    assert!(cut.contains("a compressed record needs"), "{cut}");
}

/// Where a file may end without anybody noticing: between two lines, two packets, two records of a pipe.
fn ends(name: &str, bytes: &[u8]) -> BTreeSet<usize> {
    let mut ends = BTreeSet::new();
    match name {
        "perf-pipe.data" => {
            let mut at = 16;
            while at < bytes.len() {
                ends.insert(at);
                let kind = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
                let size = usize::from(u16::from_le_bytes(bytes[at + 6..at + 8].try_into().unwrap()));
                let more = || u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
                at += size + if kind == 66 { more() } else { 0 };
            }
        }
        "plain.perfetto" | "packed.perfetto" => {
            let mut at = 0;
            while at < bytes.len() {
                ends.insert(at);
                let (mut length, mut shift) = (0, 0);
                loop {
                    at += 1;
                    length |= usize::from(bytes[at] & 127) << shift;
                    shift += 7;
                    if bytes[at] < 128 {
                        break;
                    }
                }
                at += 1 + length;
            }
        }
        "report.txt" => {
            ends.extend(bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1))
        }
        _ => {}
    }
    ends
}

fn truncations(name: &str, lengths: impl Iterator<Item = usize>) {
    let bytes = bytes_of(name);
    let (all, none) = try_all(&bytes, Mode::Strict).unwrap();
    assert!(all > 300 && none <= 2, "{name}: {all} events, {none} counts");
    let unnoticed = ends(name, &bytes);
    let (mut loaded, mut refused) = (0, 0);
    for length in lengths.filter(|length| *length < bytes.len()) {
        match try_all(&bytes[..length], Mode::Strict) {
            Ok((events, missing)) => assert!(
                events == all || missing > none || unnoticed.contains(&length),
                "{name} cut to {length}: {events} events and not a word"
            ),
            Err(message) => {
                let says = ["byte", "line", "empty", "no sched events"];
                assert!(says.iter().any(|word| message.contains(word)), "{name} cut to {length}: {message}");
            }
        }
        match try_all(&bytes[..length], Mode::Lenient) {
            Ok((events, missing)) => {
                loaded += 1;
                assert!(events <= all);
                assert!(
                    events == all || missing > none || unnoticed.contains(&length),
                    "{name} cut to {length}: silent loss"
                );
            }
            Err(_) => refused += 1,
        }
    }
    println!("{name}: {} bytes, {loaded} lengths load leniently, {refused} do not", bytes.len());
}

#[test]
fn truncations_are_errors_or_counted() {
    for name in FILES {
        let length = bytes_of(name).len();
        // All ends near the begin and the end, and every 17th (a prime, no multiple of a field) in between.
        let near = |at: &usize| *at < 200 || *at + 200 > length || at.is_multiple_of(17);
        truncations(name, (0..length).filter(near));
    }
}

#[test]
#[ignore = "long: all 250,000 truncations, about a minute"]
fn every_truncation_is_an_error_or_counted() {
    for name in FILES {
        truncations(name, 0..bytes_of(name).len());
    }
}

#[test]
fn any_byte_may_be_wrong() {
    for name in FILES {
        let mut bytes = bytes_of(name);
        let step = if bytes.len() > 20_000 { 61 } else { 7 };
        for at in (0..bytes.len()).step_by(step) {
            let flip = [0x01, 0x80, 0xff][at % 3];
            bytes[at] ^= flip;
            let strict = try_all(&bytes, Mode::Strict);
            let lenient = try_all(&bytes, Mode::Lenient);
            // Whatever is good enough for the strict reader is so for the lenient one, and gives the same.
            if let Ok(strict) = &strict {
                assert_eq!(lenient.as_ref(), Ok(strict), "{name} byte {at} ^ {flip:#x}");
            }
            bytes[at] ^= flip;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_damage_is_survived(
        which in 0..FILES.len(),
        writes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            any::<u8>().prop_map(|byte| vec![byte]),
            prop::sample::select(vec![0u32, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX])
                .prop_map(|v| v.to_le_bytes().to_vec()),
            any::<u64>().prop_map(|v| v.to_le_bytes().to_vec()),
            "[ -~]{1,12}".prop_map(String::into_bytes),
        ]), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = bytes_of(FILES[which]);
        for (at, value) in writes {
            let at = at.index(bytes.len());
            let end = (at + value.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&value[..end - at]);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = try_all(&bytes, Mode::Strict);
        let _ = try_all(&bytes, Mode::Lenient);
    }
}

/// The one message for a bad file, which must name all of `parts`.
#[track_caller]
fn refused(bytes: &[u8], parts: &[&str]) {
    let message = try_all(bytes, Mode::Strict).expect_err("the file is bad");
    for part in parts {
        assert!(message.contains(part), "\"{message}\" lacks \"{part}\"");
    }
}

#[test]
fn messages_name_place_value_expectation_and_remedy() {
    let patched = |name: &str, at: usize, bytes: &[u8]| {
        let mut copy = sample(name);
        copy[at..at + bytes.len()].copy_from_slice(bytes);
        copy
    };
    refused(b"", &["empty file", "expected a recording"]);
    refused(b"something else", &["something", "trace.dat", "perf.data", "Perfetto", "schedlab record"]);
    refused(b"2ELIFREP and so on", &["byte 0", "big endian"]);
    refused(&patched("perf.data", 8, &[99]), &["byte 8", "99", "16 (from a pipe) or 104 (a file)"]);
    refused(
        &patched("perf.data", 48, &[0; 8]),
        &["byte 40", "0 (perf did not end", "Ctrl-C", "perf sched record -o -"],
    );
    let cut = &sample("perf.data")[..20_000];
    refused(cut, &["byte 40", "the records", "cut short"]);
    refused(&sample("perf-pipe.data")[..30_000], &["a record needs", "cut short", "lenient"]);
    refused(&sample("perf-pipe.data")[..100], &["byte 16: a record needs 152 bytes", "cut short"]);
    refused(&sample("plain.perfetto")[..9_000], &["a packet needs", "cut short", "lenient"]);

    let text = String::from_utf8(sample("ftrace.txt")).unwrap();
    let line = text.lines().position(|line| line.contains("sched_switch:")).unwrap() + 1;
    let bad = text.replacen("prev_prio=120 ", "prev_prio=high ", 1);
    refused(bad.as_bytes(), &[&format!("line {line}:"), "prev_prio=high", "expected prev_comm=NAME"]);
    refused(text.trim_end().as_bytes(), &[&format!("line {}:", text.lines().count()), "cut short"]);
    let cycles: String = text.lines().map(|line| format!("{}\n", line.replace("14153.", "14153"))).collect();
    refused(cycles.as_bytes(), &["line 13", "clock", "echo mono > trace_clock"]);
    let none: String =
        text.lines().filter(|line| !line.contains("sched_switch:")).map(|line| format!("{line}\n")).collect();
    refused(none.as_bytes(), &["no sched events", "not one sched_switch", "schedlab record"]);
}

#[test]
fn what_a_text_leaves_out_is_counted() {
    let text = String::from_utf8(sample("ftrace.txt")).unwrap();
    let counts = |text: &str, mode: Mode| {
        let file = Recording::from_bytes(text.as_bytes().to_vec(), mode).unwrap();
        let mut stream = file.events().unwrap();
        let events = std::iter::from_fn(|| stream.next_event().unwrap()).count();
        (events, stream.counts().iter().map(|(why, times)| format!("{times} {why}")).collect::<Vec<_>>())
    };
    assert_eq!(counts(&text, Mode::Strict), (384, vec![]));
    let overwritten = text.replacen("384/384", "384/1384", 1);
    assert_eq!(
        counts(&overwritten, Mode::Strict),
        (384, vec!["1000 event overwritten before the first one of the text".to_string()])
    );
    let stack = text.replacen("\n          <idle>", "\n => do_idle\n          <idle>", 1);
    let shorter: String = text.lines().take(112).map(|line| format!("{line}\n")).collect();
    for (changed, events, said) in [
        (stack, 384, "line of the text that is no event"),
        (shorter, 100, "event that the text's header announces"),
    ] {
        let (found, said_here) = counts(&changed, Mode::Strict);
        assert_eq!(found, events);
        assert!(changed == text || said_here.iter().any(|line| line.contains(said)), "{said_here:?}");
    }
    let (events, said) = counts(&text.replacen("prev_prio=120 ", "prev_prio=high ", 1), Mode::Lenient);
    assert_eq!(events, 383);
    assert!(said[0].contains("its line lacks prev_comm=NAME"), "{said:?}");
}
