//! Log files by name: which form is it, and how is it written so that nobody ever sees half of one?

use crate::{Log, LogError, TextLog, write_text};
use schedlab_stdx::aside;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Opens a log file of any form; its first bytes tell which.
pub fn open(path: &Path) -> Result<Box<dyn Log>, LogError> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(LogError::io("open", path))?;
    file.take(64).read_to_end(&mut start).map_err(LogError::io("read", path))?;
    if start.starts_with(ARROW_MAGIC) {
        return open_arrow(path);
    }
    if start.starts_with(b"#") {
        Ok(Box::new(TextLog::open(path)?))
    } else {
        let shown: String =
            start.iter().take(16).flat_map(|b| std::ascii::escape_default(*b)).map(char::from).collect();
        let found = if start.is_empty() { "nothing (it is empty)".to_string() } else { format!("'{shown}'") };
        Err(LogError::NotALog { path: path.to_path_buf(), found })
    }
}

/// Writes a log file: Arrow if the name ends in `.arrow`, text otherwise. The file appears when it is complete.
pub fn write(path: &Path, log: &dyn Log) -> Result<(), LogError> {
    let is_arrow = path.extension().is_some_and(|extension| extension == "arrow");
    aside::with(path, LogError::io("write", path), |out| {
        if is_arrow { to_arrow(log, out, path) } else { write_text(log, out, path) }
    })
}

/// The first bytes of every Arrow IPC file.
const ARROW_MAGIC: &[u8] = b"ARROW1";

#[cfg(feature = "arrow")]
fn open_arrow(path: &Path) -> Result<Box<dyn Log>, LogError> {
    Ok(Box::new(crate::ArrowLog::open(path)?))
}
#[cfg(feature = "arrow")]
use crate::write_arrow as to_arrow;

#[cfg(not(feature = "arrow"))]
fn open_arrow(path: &Path) -> Result<Box<dyn Log>, LogError> {
    Err(LogError::NoArrow { path: path.to_path_buf() })
}
#[cfg(not(feature = "arrow"))]
fn to_arrow(_log: &dyn Log, _out: &mut (dyn std::io::Write + Send), path: &Path) -> Result<(), LogError> {
    Err(LogError::NoArrow { path: path.to_path_buf() })
}

#[cfg(all(test, feature = "arrow"))]
mod tests {
    use super::*;
    use crate::{LogHeader, MemLog, Record};
    use proptest::prelude::*;

    fn sample() -> MemLog {
        let record = |i: u64| Record {
            time_ns: i * 1000,
            kind: 1 + (i % 9) as u8,
            flags: (i % 5) as u8,
            cpu: (i % 7) as u16,
            task: i as u32,
            other: u32::MAX - i as u32,
            arg: i as u32 * 3,
            value: i << 20,
        };
        let header = LogHeader { sched: "fifo".into(), nr_cpus: 7, ..LogHeader::default() };
        MemLog { header, records: (0..70_000).map(record).collect() }
    }

    fn canonical(mut log: MemLog) -> MemLog {
        log.records.iter_mut().for_each(|r| *r = r.canonical());
        log
    }

    #[test]
    fn the_name_chooses_the_form_and_the_content_tells_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let log = sample();
        for (name, expected) in [("a.arrow", log.clone()), ("a.log", canonical(log.clone()))] {
            let path = folder.path().join(name);
            write(&path, &log).unwrap();
            // the name does not matter for reading
            let other = folder.path().join("other");
            std::fs::copy(&path, &other).unwrap();
            assert_eq!(MemLog::read(&*open(&other).unwrap()).unwrap(), expected);
        }
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["a.arrow", "a.log", "other"], "nothing else is left behind");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        std::fs::write(&path, "precious").unwrap();
        let mut bad = sample();
        bad.records[60_000].kind = 99;
        assert!(matches!(write(&path, &bad), Err(LogError::UnknownKind { index: 60_000, .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for content in [&b""[..], b"\x7fELF", b"# schedlab workload 1\n", b"ARROW1\0\0", b"#"] {
            std::fs::write(&path, content).unwrap();
            let error = open(&path).err().unwrap();
            assert!(matches!(error, LogError::NotALog { .. } | LogError::Truncated { .. }), "{error}");
        }
        assert!(matches!(
            open(folder.path().join("none").as_path()).err().unwrap(),
            LogError::Missing { .. }
        ));
    }

    #[test]
    fn an_arrow_file_cut_anywhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrow");
        let mut log = sample();
        log.records.truncate(50);
        write(&path, &log).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for end in 0..bytes.len() {
            std::fs::write(&path, &bytes[..end]).unwrap();
            assert!(open(&path).is_err(), "cut at byte {end} of {}", bytes.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_header_round_trips_through_arrow(header in crate::text::tests::any_header()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.arrow");
            write(&path, &MemLog { header: header.clone(), records: Vec::new() }).unwrap();
            let log = open(&path).unwrap();
            prop_assert_eq!(log.header(), &header);
        }
    }
}
