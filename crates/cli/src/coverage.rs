//! `run --coverage DIR`: which lines of kernel/sched did this workload execute?
//!
//! ```text
//! file                     lines  executed       %  functions  called
//! kernel/sched/fair.c      4,210     1,890    44.9        402     201
//! ```
//!
//! A kernel of the flavour gcov (`--sched linux-6.12+gcov`) counts how often each line is executed, from the
//! start of the workload on; counting is the kernel's own (kernel/gcov), so is the format. `gcov`, of the
//! compiler that built the kernel, gives the counters their lines. In DIR: `coverage.info` (lcov's format:
//! editors show it, genhtml makes pages of it) and each source file with the counts in front of its lines.

use crate::failure::{Failure, Result};
use crate::output;
use clap::Args;
use schedlab_report::units::count;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CoverageArgs {
    /// Write which lines of kernel/sched were executed, how often, into this folder; needs a kernel built for
    /// it: --sched linux-6.12+gcov.
    #[arg(long, value_name = "DIR")]
    pub coverage: Option<PathBuf>,
}

/// What gcov says about one object, `--json-format`.
#[derive(Deserialize)]
struct Object {
    current_working_directory: PathBuf,
    files: Vec<ObjectFile>,
}

#[derive(Deserialize)]
struct ObjectFile {
    file: PathBuf,
    functions: Vec<ObjectFunction>,
    lines: Vec<ObjectLine>,
}

#[derive(Deserialize)]
struct ObjectFunction {
    name: String,
    start_line: u64,
    execution_count: u64,
}

#[derive(Deserialize)]
struct ObjectLine {
    line_number: u64,
    count: u64,
}

/// One source file, of all objects that it was compiled into.
#[derive(Debug, Default, PartialEq)]
struct Source {
    path: PathBuf,
    /// Line -> times.
    lines: BTreeMap<u64, u64>,
    /// Name -> line, times.
    functions: BTreeMap<String, (u64, u64)>,
}

impl Source {
    fn executed(&self) -> usize {
        self.lines.values().filter(|count| **count > 0).count()
    }
    fn called(&self) -> usize {
        self.functions.values().filter(|(_, count)| *count > 0).count()
    }
}

impl CoverageArgs {
    /// Before the run: can the folder be made?
    pub(crate) fn check(&self) -> Result<()> {
        let Some(dir) = &self.coverage else { return Ok(()) };
        std::fs::create_dir_all(dir)
            .map_err(|e| Failure::Input(format!("--coverage {}: {e}; give a folder", dir.display())))
    }

    /// After the run: writes the files, prints the table.
    pub(crate) fn write(&self, data: &[(String, Vec<u8>)]) -> Result<()> {
        let Some(dir) = &self.coverage else { return Ok(()) };
        if data.is_empty() {
            return Err(Failure::Input(
                "--coverage: this scheduler counts no lines; take real Linux of the flavour gcov: --sched \
                    linux-6.12+gcov"
                    .into(),
            ));
        }
        let sources = merge(&read(data)?);
        output::text(&dir.join("coverage.info"), &lcov(&sources))?;
        for (name, source) in &sources {
            let text = std::fs::read_to_string(&source.path)
                .map_err(|e| Failure::Input(format!("{}: {e}", source.path.display())))?;
            output::text(&dir.join(format!("{}.gcov", name.replace('/', "_"))), &annotated(source, &text))?;
        }
        print!("\n{}", table(&sources));
        println!("lines with their counts: {}", dir.display());
        Ok(())
    }
}

/// Has gcov read the counters, in a folder of their own beside the notes that the compiler has left (`.gcno`).
fn read(data: &[(String, Vec<u8>)]) -> Result<Vec<Object>> {
    let dir = crate::output::temporary_folder()?;
    let mut objects = Vec::new();
    for (number, (name, bytes)) in data.iter().enumerate() {
        let notes = Path::new(name).with_extension("gcno");
        let beside = dir.path().join(number.to_string());
        let counters = beside.join("counters.gcda");
        std::fs::create_dir(&beside)
            .and_then(|()| std::fs::write(&counters, bytes))
            .map_err(Failure::input)?;
        std::fs::copy(&notes, counters.with_extension("gcno")).map_err(|e| {
            Failure::Input(format!("--coverage: {}: {e}; build this kernel again", notes.display()))
        })?;
        let output =
            Command::new("gcov").arg("--json-format").arg("--stdout").arg(&counters).output().map_err(
                |e| {
                    Failure::Input(format!(
                        "--coverage needs gcov ({e}), which comes with gcc; on Debian: apt-get install gcc"
                    ))
                },
            )?;
        let text = String::from_utf8_lossy(&output.stdout);
        let object = serde_json::from_str(text.trim()).map_err(|e| {
            let said = String::from_utf8_lossy(&output.stderr);
            Failure::Input(format!("--coverage: gcov's answer about {name} is not understood ({e}): {said}"))
        })?;
        objects.push(object);
    }
    Ok(objects)
}

/// Per file of kernel/sched (`kernel/sched/fair.c`): the sum over objects.
fn merge(objects: &[Object]) -> BTreeMap<String, Source> {
    let mut sources: BTreeMap<String, Source> = BTreeMap::new();
    for object in objects {
        for file in &object.files {
            let text = file.file.to_string_lossy();
            let Some(at) = text.find("kernel/sched/") else { continue };
            let source = sources.entry(text[at..].to_owned()).or_default();
            source.path = object.current_working_directory.join(&file.file);
            for line in &file.lines {
                *source.lines.entry(line.line_number).or_default() += line.count;
            }
            for function in &file.functions {
                let entry = source.functions.entry(function.name.clone()).or_default();
                entry.0 = function.start_line;
                entry.1 += function.execution_count;
            }
        }
    }
    sources
}

/// lcov's trace file: https://github.com/linux-test-project/lcov, man geninfo, "TRACEFILE FORMAT".
fn lcov(sources: &BTreeMap<String, Source>) -> String {
    let mut out = String::new();
    for source in sources.values() {
        // writing to a String cannot fail
        let _ = writeln!(out, "TN:\nSF:{}", source.path.display());
        for (name, (line, _)) in &source.functions {
            let _ = writeln!(out, "FN:{line},{name}");
        }
        for (name, (_, count)) in &source.functions {
            let _ = writeln!(out, "FNDA:{count},{name}");
        }
        let _ = writeln!(out, "FNF:{}\nFNH:{}", source.functions.len(), source.called());
        for (line, count) in &source.lines {
            let _ = writeln!(out, "DA:{line},{count}");
        }
        let _ = writeln!(out, "LF:{}\nLH:{}\nend_of_record", source.lines.len(), source.executed());
    }
    out
}

/// The source with counts, as gcov prints it: `-` no code, `#####` never executed.
fn annotated(source: &Source, text: &str) -> String {
    let mut out = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        let count = match source.lines.get(&number) {
            None => "-".to_owned(),
            Some(0) => "#####".to_owned(),
            Some(count) => count.to_string(),
        };
        let _ = writeln!(out, "{count:>12}:{number:>6}:{line}");
    }
    out
}

fn table(sources: &BTreeMap<String, Source>) -> String {
    let mut out = format!(
        "{:<32} {:>8} {:>9} {:>6} {:>10} {:>7}\n",
        "from the workload's start on", "lines", "executed", "%", "functions", "called"
    );
    let width = 35;
    let mut total = [0; 4];
    let mut row = |name: &str, n: [usize; 4]| {
        let percent = 100.0 * n[1] as f64 / n[0].max(1) as f64;
        let n = n.map(|n| count(n as u64));
        let _ =
            writeln!(out, "{name:<width$} {:>5} {:>9} {percent:>6.1} {:>10} {:>7}", n[0], n[1], n[2], n[3]);
    };
    for (name, source) in sources {
        let n = [source.lines.len(), source.executed(), source.functions.len(), source.called()];
        total.iter_mut().zip(n).for_each(|(sum, n)| *sum += n);
        row(name, n);
    }
    row("all", total);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As gcov 12 prints it, shortened.
    const ANSWER: &str = r#"{"gcc_version": "12.2.0", "files": [
        {"file": "../src/kernel/sched/fair.c", "functions": [
            {"name": "pick", "demangled_name": "pick", "start_line": 2, "end_line": 4, "blocks": 2, "blocks_executed": 2, "execution_count": 7}],
         "lines": [{"line_number": 2, "count": 7, "unexecuted_block": false, "branches": []},
                   {"line_number": 3, "count": 0, "unexecuted_block": true, "branches": []}]},
        {"file": "../src/include/linux/list.h", "functions": [], "lines": []}],
        "format_version": "1", "current_working_directory": "/k/build", "data_file": "counters.gcda"}"#;

    #[test]
    fn counts_of_several_objects_are_added() {
        let one = || serde_json::from_str::<Object>(ANSWER).unwrap();
        let sources = merge(&[one(), one()]);
        assert_eq!(sources.keys().collect::<Vec<_>>(), ["kernel/sched/fair.c"]);
        let fair = &sources["kernel/sched/fair.c"];
        assert_eq!(fair.path, Path::new("/k/build/../src/kernel/sched/fair.c"));
        assert_eq!((fair.lines[&2], fair.lines[&3], fair.functions["pick"]), (14, 0, (2, 14)));
        assert_eq!(
            annotated(fair, "a\nb\nc\n").lines().map(|l| l[..12].trim()).collect::<Vec<_>>(),
            ["-", "14", "#####"]
        );
        assert!(lcov(&sources).ends_with("FNF:1\nFNH:1\nDA:2,14\nDA:3,0\nLF:2\nLH:1\nend_of_record\n"));
        let table = table(&sources);
        assert!(table.lines().last().unwrap().starts_with("all "), "{table}");
        assert!(table.contains("50.0"), "{table}");
    }
}
