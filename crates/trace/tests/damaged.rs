//! What becomes of a trace that ends anywhere or has any byte wrong? An error with its place, or fewer events
//! with a count of what is missing; never a panic, a hang or a full memory.

mod support;

use proptest::prelude::*;
use schedlab_trace::write::{Compression, FileVersion, TraceMeta, WriteOptions};
use schedlab_trace::{Mode, Problem, TraceEvent, TraceFile};
use support::{Page, data, fork, meta, open, read_all, switch, trace, waking};

const DATA: [&str; 3] = ["small-v6.dat", "small-v7.dat", "lost.dat"];

/// Reads to the end; an iterator that never ends would be noticed by its length.
fn try_all(bytes: &[u8], mode: Mode) -> Result<(usize, u64), String> {
    let file = open(bytes, mode).map_err(|error| error.to_string())?;
    let mut stream = file.events().map_err(|error| error.to_string())?;
    let mut events = 0;
    while let Some(_event) = stream.next_event().map_err(|error| error.to_string())? {
        events += 1;
        assert!(events <= bytes.len() * 1000, "more events than the file has room for");
    }
    Ok((events, stream.counts().values().sum()))
}

#[test]
fn every_truncation_is_an_error_in_strict_mode() {
    for name in DATA {
        let bytes = std::fs::read(data(name)).unwrap();
        let (all, _) = try_all(&bytes, Mode::Strict).unwrap();
        let (mut loaded, mut refused) = (0, 0);
        for length in 0..bytes.len() {
            match try_all(&bytes[..length], Mode::Strict) {
                // Behind the last byte that is read (padding, a section of strings): nothing is missing.
                Ok((events, _)) => assert_eq!(events, all, "{name} cut to {length}"),
                Err(message) => {
                    assert!(
                        message.contains("byte") || message.contains("empty"),
                        "{name} cut to {length}: {message}"
                    )
                }
            }
            match try_all(&bytes[..length], Mode::Lenient) {
                Ok((events, missing)) => {
                    loaded += 1;
                    assert!(events <= all);
                    assert!(events == all || missing > 0, "{name} cut to {length}: silent loss");
                }
                Err(_) => refused += 1,
            }
        }
        println!("{name}: {} lengths, {loaded} load leniently, {refused} do not", bytes.len());
        // Our own files have the directory of the pages before them: once one CPU is complete, all that is there loads.
        if name == "lost.dat" {
            let file = open(&bytes, Mode::Strict).unwrap();
            let second = file.buffers()[0].cpus[1].offset as usize;
            assert!(loaded >= bytes.len() - second, "{loaded} lengths, {second} of {}", bytes.len());
        }
    }
}

#[test]
fn every_wrong_byte_is_survived() {
    for name in DATA {
        let mut bytes = std::fs::read(data(name)).unwrap();
        // All bytes of the packed files; of the plain one, whose formats are most of it, every seventh.
        for at in (0..bytes.len()).step_by(if name == "small-v6.dat" { 7 } else { 1 }) {
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
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_damage_is_survived(
        which in 0..3usize,
        writes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            any::<u8>().prop_map(|byte| vec![byte]),
            prop::sample::select(vec![0u32, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX])
                .prop_map(|v| v.to_le_bytes().to_vec()),
            any::<u64>().prop_map(|v| v.to_le_bytes().to_vec()),
        ]), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = std::fs::read(data(DATA[which])).unwrap();
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
fn assert_refused(bytes: &[u8], parts: &[&str]) {
    let message = match open(bytes, Mode::Strict) {
        Err(error) => error.to_string(),
        Ok(file) => match read_all(&file) {
            Err(error) => error.to_string(),
            Ok((events, _)) => panic!("{} events where {parts:?} was expected", events.len()),
        },
    };
    for part in parts {
        assert!(message.contains(part), "\"{message}\" lacks \"{part}\"");
    }
}

#[test]
fn messages_name_place_value_expectation_and_remedy() {
    let v7 = std::fs::read(data("small-v7.dat")).unwrap();
    let patched = |at: usize, bytes: &[u8]| {
        let mut copy = v7.clone();
        copy[at..at + bytes.len()].copy_from_slice(bytes);
        copy
    };
    assert_refused(b"", &["byte 0", "empty", "trace.dat"]);
    assert_refused(b"PERFILE2 and so on", &["byte 0", "PERFILE2", "17 08 44", "perf.data"]);
    assert_refused(&patched(10, b"8"), &["byte 10", "\"8\"", "expected 6 or 7", "trace-cmd convert"]);
    assert_refused(&patched(12, &[1]), &["byte 12", "big endian", "expected 0"]);
    assert_refused(&patched(13, &[5]), &["byte 13", "long is 5", "4 or 8"]);
    assert_refused(&patched(14, &3000u32.to_le_bytes()), &["byte 14", "3000", "power of two"]);
    assert_refused(&patched(18, b"zlib"), &["byte 18", "\"zlib\"", "none or zstd", "--compression zstd"]);
    assert_refused(
        &patched(29, &u64::MAX.to_le_bytes()),
        &["byte 18446744073709551615", "options", "cut short"],
    );
    let error = TraceFile::open("/no/such/trace.dat".as_ref(), Mode::Strict).err().unwrap();
    assert!(error.to_string().starts_with("/no/such/trace.dat: No such file"), "{error}");
    assert!(TraceFile::open("/".as_ref(), Mode::Strict).err().unwrap().to_string().contains("regular file"));
}

#[test]
fn a_trace_without_switches_says_so() {
    let options = WriteOptions::default();
    let pages = vec![Page::at(5).event(1, &waking(1, 0, 2))];
    assert_refused(
        &trace(&meta(), options, &[(0, pages)]),
        &["no sched events", "not one sched_switch", "schedlab record"],
    );
    assert_refused(&trace(&meta(), options, &[]), &["no sched events", "data"]);
    let mut without_format = meta();
    without_format.systems[0].formats.remove(0);
    let pages = vec![Page::at(5).event(1, &switch(1, 0, 2))];
    assert_refused(
        &trace(&without_format, options, &[(0, pages)]),
        &["no sched events", "no format of sched_switch"],
    );
}

#[test]
fn clocks_that_count_no_time_are_refused() {
    for clock in ["counter", "uptime", "x86-tsc"] {
        let meta = TraceMeta { clock: clock.to_string(), ..meta() };
        let pages = vec![Page::at(5).event(1, &switch(1, 0, 2))];
        let bytes = trace(&meta, WriteOptions::default(), &[(0, pages)]);
        assert_refused(&bytes, &["clock", clock, "echo mono > trace_clock"]);
    }
}

#[test]
fn a_damaged_page_costs_what_is_behind_the_damage_and_no_more() {
    let good = |at: u64| Page::at(at).event(1, &switch(1, 0, 2)).event(1, &switch(2, 0, 1));
    // 1000 words of data announced with 4 bytes left on the page.
    let bad = Page::at(200).event(1, &switch(1, 0, 2)).raw(&(9u32 << 5 | 28).to_le_bytes());
    // A length that no page of 4096 has.
    let mut impossible = good(300).bytes();
    impossible[8..12].copy_from_slice(&9999u32.to_le_bytes());
    let options = WriteOptions { version: FileVersion::V7(Compression::None), ..WriteOptions::default() };
    let mut bytes = trace(&meta(), options, &[(0, vec![good(100), bad, good(300), good(400)])]);
    let pages = bytes.len() - 4 * 4096;
    bytes[pages + 2 * 4096..pages + 3 * 4096].copy_from_slice(&impossible);

    let error = open(&bytes, Mode::Strict).and_then(|file| read_all(&file).map(|_| ())).unwrap_err();
    let Problem::Invalid { at, .. } = error.problem() else { panic!("{error}") };
    assert_eq!(at.offset, (pages + 4096 + 16 + 4 + 52) as u64);

    let file = open(&bytes, Mode::Lenient).unwrap();
    let (events, stream) = read_all(&file).unwrap();
    assert_eq!(events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [101, 102, 201, 401, 402]);
    let counts: Vec<(&str, u64)> =
        stream.counts().iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(
        counts,
        [
            ("page left out: its events are longer than it", 1),
            ("rest of a page left out: an event runs past its page's data", 1)
        ]
    );
}

#[test]
fn records_shorter_than_their_format_and_texts_outside_are_noticed() {
    let short = switch(1, 0, 2)[..40].to_vec();
    let mut outside = fork(1, 2, "a", "b");
    outside[12..16].copy_from_slice(&(40u32 << 16 | 4000).to_le_bytes());
    outside[16..20].copy_from_slice(&(40u32 << 16 | 4000).to_le_bytes());
    let page = || {
        Page::at(0).event(1, &switch(1, 0, 2)).event(1, &short).event(1, &outside).event(1, &switch(2, 0, 1))
    };
    let bytes = trace(&meta(), WriteOptions::default(), &[(0, vec![page()])]);
    assert_refused(&bytes, &["an event", "shorter than its format"]);
    let file = open(&bytes, Mode::Lenient).unwrap();
    let (events, stream) = read_all(&file).unwrap();
    let times: Vec<u64> = events.iter().map(|event: &TraceEvent| event.time_ns).collect();
    assert_eq!(times, [1, 4]);
    assert_eq!(stream.counts().len(), 2, "{:?}", stream.counts());
}
