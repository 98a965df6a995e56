//! Every truncation of every sample: it loads with a count of what is missing, or says why it does not.
//!
//! Here are the samples of `record` (trace.dat), rt-app's description, and a workload in binary form; those
//! of other tools are in `crates/trace/tests/damaged_tools.rs`. Texts that people write have no end mark: one
//! that ends between two lines is whole.

use schedlab_trace::{Mode, Recording, TraceFile};
use schedlab_workload::derive::{DeriveOptions, Deriver};
use schedlab_workload::limits::Limits;
use schedlab_workload::rtapp::parse_rtapp_within;
use schedlab_workload::{Workload, read_binary, write_binary};
use std::path::{Path, PathBuf};

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples")
}

/// All recordings of ours.
fn recordings() -> Vec<PathBuf> {
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    };
    let all: Vec<PathBuf> =
        folders(&samples()).into_iter().flat_map(|f| [vec![f.clone()], folders(&f)].concat()).collect();
    let mut found: Vec<PathBuf> =
        all.iter().map(|folder| folder.join("trace.dat")).filter(|path| path.exists()).collect();
    found.sort();
    assert!(found.len() >= 12, "{found:?}");
    found
}

struct Loaded {
    events: u64,
    missing: u64,
    workload: Workload,
}

fn load(bytes: &[u8], mode: Mode) -> Result<Loaded, String> {
    let file = Recording::from_bytes(bytes.to_vec(), mode).map_err(|error| error.to_string())?;
    let mut stream = file.events().map_err(|error| error.to_string())?;
    let mut deriver = Deriver::new(DeriveOptions::default(), None);
    while let Some(event) = stream.next_event().map_err(|error| error.to_string())? {
        deriver.event(&event, |comm| stream.comm(comm));
    }
    let missing = stream.counts().values().sum();
    let derived = deriver.finish(file.cpu_count(), |comm| stream.comm(comm));
    Ok(Loaded { events: derived.summary.trace_events, missing, workload: derived.workload })
}

/// A cut file is refused by the strict reader, with a place; the lenient one loses nothing in silence.
fn cut(path: &Path, bytes: &[u8], whole: &Loaded, length: usize, lenient_too: bool) -> bool {
    if let Err(message) = load(&bytes[..length], Mode::Strict) {
        let says = ["byte", "empty", "no sched events"];
        assert!(
            says.iter().any(|word| message.contains(word)),
            "{} cut to {length}: {message}",
            path.display()
        );
    } else {
        let again = load(&bytes[..length], Mode::Strict).unwrap_or_else(|message| panic!("{message}"));
        assert!(again.workload == whole.workload, "{} cut to {length}: another workload", path.display());
    }
    if !lenient_too {
        return false;
    }
    match load(&bytes[..length], Mode::Lenient) {
        Ok(part) => {
            assert!(part.events <= whole.events);
            let is_counted = part.events == whole.events || part.missing > whole.missing;
            assert!(
                is_counted,
                "{} cut to {length}: {} of {} events",
                path.display(),
                part.events,
                whole.events
            );
            part.workload
                .check()
                .unwrap_or_else(|error| panic!("{} cut to {length}: {error}", path.display()));
            true
        }
        Err(message) => {
            assert!(!message.is_empty());
            false
        }
    }
}

fn recordings_cut(step: impl Fn(usize) -> (usize, usize)) {
    for path in recordings() {
        let bytes = std::fs::read(&path).unwrap();
        let whole = load(&bytes, Mode::Strict).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (strict_step, lenient_step) = step(bytes.len());
        let (mut tried, mut tried_leniently, mut loaded) = (0u64, 0u64, 0u64);
        for length in 0..bytes.len() {
            let near = length < 64 || length + 64 > bytes.len();
            let lenient_too = length.is_multiple_of(lenient_step);
            if near || lenient_too || length.is_multiple_of(strict_step) {
                tried += 1;
                tried_leniently += u64::from(lenient_too);
                loaded += u64::from(cut(&path, &bytes, &whole, length, lenient_too));
            }
        }
        println!(
            "{}: {} bytes, {tried} lengths refused or whole, {tried_leniently} tried leniently, {loaded} of them load",
            path.display(),
            bytes.len()
        );
    }
}

#[test]
fn recordings_that_were_cut_say_so() {
    recordings_cut(|length| (length / 40 + 1, length / 12 + 1));
}

/// How much the lenient reader finds, without deriving anything from it: events, and what it counts as missing.
fn skim(bytes: &[u8]) -> Option<(u64, u64)> {
    let file = Recording::from_bytes(bytes.to_vec(), Mode::Lenient).ok()?;
    let mut stream = file.events().ok()?;
    let mut events = 0;
    while stream.next_event().ok()?.is_some() {
        events += 1;
    }
    Some((events, stream.counts().values().sum()))
}

/// Where a recording's packed chunks of pages begin and end: each is its packed size, its unpacked size, and
/// so many bytes.
fn chunk_edges(bytes: &[u8]) -> Vec<usize> {
    let file = TraceFile::from_bytes(bytes.to_vec(), Mode::Strict).unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut edges = Vec::new();
    for place in file.buffers().iter().flat_map(|buffer| &buffer.cpus).filter(|place| place.bytes > 0) {
        assert!(place.compressed, "our recorder packs pages");
        let mut at = place.offset as usize;
        let chunks = u32_at(at);
        edges.push(at);
        at += 4;
        for _ in 0..chunks {
            edges.push(at);
            at += 8 + u32_at(at);
        }
        edges.push(at);
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// The strict reader at every length. The lenient one at every length of small files and of everything before
/// the pages; within the pages at each chunk's edges, and inside it: a chunk that is not all there cannot be
/// unpacked, so that all lengths inside it are one case, which is checked at its begin, middle and end.
#[test]
#[ignore = "long: every truncation of 12 recordings, minutes"]
fn every_recording_cut_anywhere_says_so() {
    for path in recordings() {
        let bytes = std::fs::read(&path).unwrap();
        let whole = load(&bytes, Mode::Strict).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // a file that gets shorter and shorter: nothing is copied
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        for length in (0..bytes.len()).rev() {
            file.as_file().set_len(length as u64).unwrap();
            let read = || -> Result<(), schedlab_trace::TraceError> {
                let file = Recording::open(file.path(), Mode::Strict)?;
                let mut stream = file.events()?;
                while stream.next_event()?.is_some() {}
                Ok(())
            };
            let error = read().expect_err("the file is cut").to_string();
            let says = ["byte", "empty", "no sched events"];
            assert!(
                says.iter().any(|word| error.contains(word)),
                "{} cut to {length}: {error}",
                path.display()
            );
        }
        let edges = chunk_edges(&bytes);
        let all_to = if bytes.len() < 32_768 { bytes.len() } else { edges[0] };
        let (mut tried, mut loaded) = (0u64, 0u64);
        for length in 0..all_to {
            tried += 1;
            let Some((events, missing)) = skim(&bytes[..length]) else { continue };
            loaded += 1;
            assert!(events < whole.events && missing > whole.missing, "{} cut to {length}", path.display());
        }
        for (row, ends) in edges.windows(2).enumerate() {
            let (from, to) = (ends[0], ends[1]);
            let inside = [from + 1, (from + to) / 2, to - 1].map(|length| skim(&bytes[..length]));
            assert!(
                inside.iter().all(|found| *found == inside[0]),
                "{} {from}..{to}: {inside:?}",
                path.display()
            );
            for length in [from.saturating_sub(2), from.saturating_sub(1), from, from + 1, from + 2] {
                tried += 1;
                if let Some((events, missing)) = skim(&bytes[..length]) {
                    loaded += 1;
                    let is_counted = events == whole.events || missing > whole.missing;
                    assert!(
                        is_counted && events <= whole.events,
                        "{} cut to {length}: {events} events",
                        path.display()
                    );
                }
            }
            if row.is_multiple_of(8) {
                cut(&path, &bytes, &whole, from + 1, true);
            }
        }
        println!(
            "{}: {} bytes, all lengths refused; {tried} read leniently ({} chunks), {loaded} of them load",
            path.display(),
            bytes.len(),
            edges.len() - 1
        );
    }
}

#[test]
fn every_truncated_description_is_refused() {
    let text = std::fs::read_to_string(samples().join("rtapp/player.json")).unwrap();
    let end = text.trim_end().len();
    for length in (0..end).filter(|length| text.is_char_boundary(*length)) {
        let limits = Limits { events: 1_000_000, ..Limits::HELD };
        let error = parse_rtapp_within(Path::new("player.json"), &text[..length], limits)
            .expect_err("a brace is missing")
            .to_string();
        assert!(error.starts_with("player.json, line "), "{error}");
    }
}

#[test]
fn every_truncated_binary_workload_is_refused() {
    let bytes = std::fs::read(samples().join("hackbench/trace.dat")).unwrap();
    let workload = load(&bytes, Mode::Strict).map(|loaded| loaded.workload).unwrap_or_default();
    let mut small = workload.clone();
    small.tasks.truncate(3);
    small.tasks.iter_mut().for_each(|task| task.events.clear());
    for workload in [small, workload] {
        let mut bytes = Vec::new();
        write_binary(&workload, &mut bytes).unwrap();
        let step = bytes.len() / 2000 + 1;
        for length in (0..bytes.len()).step_by(step) {
            let error = read_binary(&bytes[..length]).expect_err("it is cut").to_string();
            assert!(error.starts_with("byte "), "{error}");
        }
    }
}
