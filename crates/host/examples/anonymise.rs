//! Makes a recording fit to be given away: the library behind `schedlab record --anonymise`.
//!
//! ```text
//! anonymise [--drop] [--level ZSTD] --root PID IN.dat OUT.dat
//! ```

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use schedlab_host::{Others, Ours, Snapshot, anonymise};
use schedlab_trace::write::{Compression, FileVersion, WriteOptions};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("anonymise: {message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let (mut roots, mut others, mut level, mut files) =
        (BTreeSet::new(), Others::Rename, 3, Vec::<PathBuf>::new());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|n| n.parse().ok()).ok_or(format!("{word} needs a number"));
        match word.as_str() {
            "--drop" => others = Others::Drop,
            "--root" => {
                roots.insert(number()?);
            }
            "--level" => level = number()?,
            _ => files.push(word.into()),
        }
    }
    let [input, output] = files.as_slice() else { return Err("IN.dat and OUT.dat are needed".to_owned()) };
    let version = FileVersion::V7(Compression::Zstd(level));
    let options = WriteOptions { version, ..WriteOptions::default() };
    let ours = Ours { pids: roots, ..Ours::default() };
    let done = anonymise(input, &Snapshot::path_beside(input), &ours, others, output, options)
        .map_err(|e| e.to_string())?;
    println!(
        "{} events kept, {} dropped, {:.3} s, {} bytes, {} tasks of the command, {} called other-N, reused pids {:?}\n\
         names: {}",
        done.events,
        done.events_dropped,
        (done.span_ns.1 - done.span_ns.0) as f64 / 1e9,
        done.bytes,
        done.kept,
        done.others,
        done.reused_pids,
        done.names.into_iter().collect::<Vec<_>>().join(", ")
    );
    Ok(())
}
