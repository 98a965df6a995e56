//! What happens to a structure that threads of this machine use at the same time, and what does each call cost?
//!
//! The same hooks as under the explorer, with real atomics and real parallelism: PRAcTISE's way (Falzoi, Lelli, Lipari
//! 2012). `c/stress.c` has the simulated CPUs, each a thread with a ready queue, which draw events, pull and push.
//!
//! ```text
//! stress   200,000 cycles of 8 threads on 2 CPUs   now and then, with all queues locked, it is compared with them
//! cost     2 threads, each on a CPU of its own     CPUID RDTSC call RDTSCP CPUID (LFENCE in a guest), less its own
//! ```
//!
//! It finds what stays wrong, and hardly ever what is wrong for a moment: for that there is the explorer. It says
//! nothing of machines that order memory less than this one.

use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema};
use schedlab_process::contain::Yard;
use schedlab_units::Span;

use crate::compile::Compiled;
use crate::stream::{Stream, TaskEvent};
use crate::{RaceError, io};

/// The most threads there can be (`RACE_CPUS_MAX`).
pub const THREADS_MAX: u32 = 64;
/// What is measured, in the order of `enum op` of `c/stress.c`.
pub const OPERATIONS: [&str; 9] =
    ["set", "clear", "find", "push", "pull", "enqueue", "dequeue", "pull_set", "pull_find"];
/// Bytes of one sample in the file that the program writes.
const SAMPLE_BYTES: usize = 24;
/// The program's last word, if all threads have done their cycles.
const DONE: &str = "done";
/// Two readings of the TSC's rate may differ by so much of it: they take 20 ms each.
const RATE_TOLERANCE: f64 = 0.001;

/// What the threads do.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Simulated CPUs, a thread each.
    pub threads: u32,
    /// CPUs of this machine that they run on.
    pub cpus: u32,
    /// Of each thread.
    pub cycles: u64,
    /// Length of a cycle, in simulated time.
    pub period: Span,
    /// Whether a cycle takes that long.
    pub is_paced: bool,
    /// Chance in a cycle that a task arrives.
    pub arrive: f64,
    /// Chance in a cycle that the first task ends early.
    pub end: f64,
    /// A task's deadline lies so long after its arrival, where the structure keeps deadlines; priorities are 1 to 99.
    pub deadlines: RangeInclusive<Span>,
    /// How long a task runs.
    pub run_times: RangeInclusive<Span>,
    /// Of the streams of events: each thread's follows from it, whatever the others do.
    pub seed: u64,
    /// Tasks that come, if they are not drawn.
    pub stream: Option<Arc<Stream>>,
    /// How long the program may take.
    pub limit_s: u32,
}

impl Default for Load {
    /// As published: 10 ms, 20 %, 10 %, deadlines of 10 to 100 ms, run times of 5 to 15 ms.
    fn default() -> Load {
        Load {
            threads: 2,
            cpus: 1,
            cycles: 20_000,
            period: Span::from_ms(10),
            is_paced: false,
            arrive: 0.2,
            end: 0.1,
            deadlines: Span::from_ms(10)..=Span::from_ms(100),
            run_times: Span::from_ms(5)..=Span::from_ms(15),
            seed: 1,
            stream: None,
            limit_s: 60,
        }
    }
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Reading of the TSC at its begin.
    pub start: u64,
    /// Less what measuring takes.
    pub cycles: u64,
    /// Index into [`OPERATIONS`]; from their number on one of [`Stressed::measures`].
    pub operation: u32,
    /// Whose.
    pub cpu: u32,
}

/// What a structure measures of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// What it calls it.
    pub name: String,
    /// Cycles; else a number.
    pub is_time: bool,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stressed {
    /// What did not hold; the run ended there.
    pub finding: Option<String>,
    /// Numbers by name, in the program's order: events, calls, checks.
    pub counts: Vec<(String, u64)>,
    /// What ThreadSanitizer reported: where, how often.
    pub reports: Vec<(String, u64)>,
    /// Of a run that measures.
    pub samples: Vec<Sample>,
    /// What the structure measures of itself, by `race_time()` and `race_count()`.
    pub measures: Vec<Measure>,
}

impl Stressed {
    /// The number of this name; 0: there is none.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.iter().find(|(known, _)| known == name).map_or(0, |(_, n)| *n)
    }

    /// What a sample is of.
    pub fn operation(&self, sample: &Sample) -> &str {
        match OPERATIONS.get(sample.operation as usize) {
            Some(name) => name,
            None => self.measure(sample).map_or("", |measure| &measure.name),
        }
    }

    /// Which of the structure's own measures it is of, if it is.
    pub fn measure(&self, sample: &Sample) -> Option<&Measure> {
        let at = (sample.operation as usize).checked_sub(OPERATIONS.len())?;
        self.measures.get(at)
    }

    /// Whether cycles mean a time on this machine: the TSC runs at one rate, and its two readings agree.
    pub fn has_stable_tsc(&self) -> bool {
        let [begin, end] = ["tsc_hz", "tsc_hz_end"].map(|name| self.count(name) as f64);
        self.count("tsc_invariant") == 1 && begin > 0.0 && (end / begin - 1.0).abs() < RATE_TOLERANCE
    }
}

/// Runs a program of [`crate::compile::kernel_program`] or [`crate::compile::own_program`].
///
/// # Errors
/// It cannot be run, or says that it cannot do what is asked.
pub fn stress(compiled: &Compiled, load: &Load) -> Result<Stressed, RaceError> {
    run(compiled, load, 0)
}

/// The same, with a sample of each call. It runs three times: the second time for `push` and `pull` alone, since others
/// wait for the locks that these hold, and would wait for the measuring of what is called within them; the third time
/// for what the structure measures of itself, within its calls.
///
/// # Errors
/// As [`stress`].
pub(crate) fn cost(compiled: &Compiled, load: &Load) -> Result<Stressed, RaceError> {
    let all = (1 << OPERATIONS.len()) - 1;
    let outer = OPERATIONS
        .iter()
        .enumerate()
        .filter(|(_, name)| ["push", "pull"].contains(name))
        .fold(0, |bits, (operation, _)| bits | 1 << operation);
    let mut whole = run(compiled, load, !outer & all)?;
    for measured in [outer, all + 1] {
        if whole.finding.is_some() {
            break;
        }
        let more = run(compiled, load, measured)?;
        for operation in OPERATIONS.iter().enumerate().filter(|(at, _)| measured >> at & 1 == 1) {
            let name = format!("calls_{}", operation.1);
            let number = more.count(&name);
            whole.counts.retain(|(known, _)| *known != name);
            whole.counts.push((name, number));
        }
        whole.samples.extend(more.samples);
        whole.measures = more.measures;
        whole.finding = more.finding;
    }
    Ok(whole)
}

/// Which hooks a target has: `hook_preempt` and so on, and `least_first`; 1 or 0.
///
/// # Errors
/// It cannot be run.
pub(crate) fn describe(compiled: &Compiled) -> Result<Stressed, RaceError> {
    let load = Load { cycles: 0, ..Load::default() };
    run(compiled, &load, 0)
}

/// `measured`: a bit for each of [`OPERATIONS`], and one for what the structure measures of itself.
fn run(compiled: &Compiled, load: &Load, measured: u64) -> Result<Stressed, RaceError> {
    let measures = measured != 0;
    let folder = crate::compile::temporary(&std::env::temp_dir())?;
    let [samples, events] = ["samples", "events"].map(|name| folder.path().join(name));
    let parts = |share: f64| (share * 1e6).round() as u64;
    let words = [
        ("threads", u64::from(load.threads)),
        ("cpus", u64::from(load.cpus)),
        ("cycles", load.cycles),
        ("period_ns", load.period.as_ns()),
        ("is_paced", u64::from(load.is_paced)),
        ("arrive_ppm", parts(load.arrive)),
        ("end_ppm", parts(load.end)),
        ("deadline_low_ns", load.deadlines.start().as_ns()),
        ("deadline_high_ns", load.deadlines.end().as_ns()),
        ("run_low_ns", load.run_times.start().as_ns()),
        ("run_high_ns", load.run_times.end().as_ns()),
        ("seed", load.seed),
        ("check_us", if load.is_paced { 50_000 } else { 1000 }),
        ("measured", measured),
        ("span_ns", load.stream.as_ref().map_or(0, |stream| stream.length.as_ns())),
        ("limit_s", u64::from(load.limit_s)),
    ];
    let mut command = Command::new(&compiled.object);
    command.args(words.map(|(name, value)| format!("{name}={value}"))).stdin(Stdio::null());
    if measures {
        command.arg(format!("samples={}", samples.display()));
    }
    if let Some(stream) = &load.stream {
        write_events(&events, stream, load.threads)?;
        command.arg(format!("events={}", events.display()));
    }
    command.env("TSAN_OPTIONS", "exitcode=0 report_bugs=1 history_size=4");
    schedlab_process::ends_with_us(&mut command, libc::SIGKILL);
    if !compiled.is_sanitized() {
        // the sanitizer maps more memory than anything contained may have
        let (yard, _) = Yard::around(folder.path()).map_err(io("open", folder.path()))?;
        yard.hold(&mut command);
    }
    let output = command.output().map_err(io("run", &compiled.object))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut stressed = heard(&said)?;
    stressed.reports = reports(&String::from_utf8_lossy(&output.stderr));
    if let Some(signal) = output.status.signal() {
        stressed.finding = Some(format!("the program was ended by signal {signal}"));
    } else if !output.status.success() && stressed.finding.is_none() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(RaceError::Lost(format!("{}: {}: {}", compiled.name, output.status, text.trim())));
    } else if stressed.finding.is_none() && load.cycles > 0 && !said.lines().any(|line| line == DONE) {
        // a call ended the process, and what was right until then says nothing
        return Err(RaceError::Lost(format!(
            "{}: the process ended ({}) before its threads were done",
            compiled.name, output.status
        )));
    }
    if measures && stressed.finding.is_none() {
        stressed.samples = read_samples(&samples)?;
    }
    Ok(stressed)
}

/// What the program says: NAME NUMBER, `finding TEXT`, `refused TEXT`.
fn heard(text: &str) -> Result<Stressed, RaceError> {
    let mut stressed = Stressed::default();
    for line in text.lines() {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (name, rest.parse::<u64>()) {
            ("finding", _) => stressed.finding = Some(rest.to_owned()),
            ("refused", _) => return Err(RaceError::Refused(rest.to_owned())),
            ("measure", _) => {
                let (unit, name) = rest.split_once(' ').unwrap_or((rest, ""));
                stressed.measures.push(Measure { name: name.to_owned(), is_time: unit == "cycles" });
            }
            (_, Ok(number)) => stressed.counts.push((name.to_owned(), number)),
            _ => {}
        }
    }
    Ok(stressed)
}

/// The places of ThreadSanitizer's reports: one line for the two functions that meet.
fn reports(text: &str) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = Vec::new();
    for report in text.split("WARNING: ThreadSanitizer: ").skip(1) {
        let kind = report.split(" (").next().unwrap_or_default();
        let first = |frame: &str| {
            let words: Vec<&str> = frame.trim().trim_start_matches("#0 ").split(' ').collect();
            let place = words.get(1).and_then(|path| path.rsplit('/').next()).unwrap_or_default();
            format!("{}() {place}", words[0])
        };
        let mut places: Vec<String> =
            report.lines().filter(|line| line.trim().starts_with("#0 ")).take(2).map(first).collect();
        places.sort();
        places.dedup();
        let place = format!("{kind}: {}", places.join(" and "));
        match found.iter_mut().find(|(known, _)| *known == place) {
            Some((_, times)) => *times += 1,
            None => found.push((place, 1)),
        }
    }
    found.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    found
}

fn read_samples(path: &Path) -> Result<Vec<Sample>, RaceError> {
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(io("open", path))?;
    file.read_to_end(&mut bytes).map_err(io("read", path))?;
    let long = |at: &[u8]| at.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let sample = |row: &[u8]| Sample {
        start: long(&row[..8]),
        cycles: long(&row[8..16]),
        operation: long(&row[16..20]) as u32,
        cpu: long(&row[20..24]) as u32,
    };
    Ok(bytes.chunks_exact(SAMPLE_BYTES).map(sample).collect())
}

/// `struct event` of `c/stress.c`, one after the other. With fewer threads than the stream was made for, one has the
/// tasks of several.
fn write_events(path: &Path, stream: &Stream, threads: u32) -> Result<(), RaceError> {
    let mut events: Vec<TaskEvent> =
        stream.events.iter().map(|event| TaskEvent { cpu: event.cpu % threads, ..*event }).collect();
    events.sort();
    let mut bytes = Vec::with_capacity(events.len() * 40);
    for event in events {
        let priority = event.priority as u64;
        for word in
            [event.at.as_ns(), priority, event.deadline.as_ns(), event.run.as_ns(), u64::from(event.cpu)]
        {
            bytes.extend(word.to_le_bytes());
        }
    }
    std::fs::write(path, bytes).map_err(io("write", path))
}

/// All samples as an Arrow file: `threads`, `cpu`, `operation`, `start_cycles`, `value`, `unit`, a row each.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_arrow(path: &Path, runs: &[(u32, Stressed)]) -> Result<(), RaceError> {
    let field = |name: &str, kind: DataType| Field::new(name, kind, false);
    let schema = Arc::new(Schema::new(vec![
        field("threads", DataType::UInt32),
        field("cpu", DataType::UInt32),
        field("operation", DataType::Utf8),
        field("start_cycles", DataType::UInt64),
        field("value", DataType::UInt64),
        field("unit", DataType::Utf8),
    ]));
    let failed =
        |error: arrow_schema::ArrowError| io("write", path)(std::io::Error::other(error.to_string()));
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &schema).map_err(failed)?;
    for (threads, one) in runs {
        let samples = &one.samples;
        let unit = |sample: &Sample| match one.measure(sample) {
            Some(measure) if !measure.is_time => "number",
            _ => "cycles",
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(vec![*threads; samples.len()])),
            Arc::new(samples.iter().map(|s| s.cpu).collect::<UInt32Array>()),
            Arc::new(StringArray::from_iter_values(samples.iter().map(|s| one.operation(s)))),
            Arc::new(samples.iter().map(|s| s.start).collect::<UInt64Array>()),
            Arc::new(samples.iter().map(|s| s.cycles).collect::<UInt64Array>()),
            Arc::new(StringArray::from_iter_values(samples.iter().map(unit))),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(failed)?;
        writer.write(&batch).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    drop(writer);
    schedlab_stdx::aside::write(path, &bytes).map_err(io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_is_heard() {
        let said = heard("arrivals 20\nunlocked no memory\nfinding the heap is out of order\n").unwrap();
        assert_eq!((said.count("arrivals"), said.count("ends")), (20, 0));
        assert_eq!(said.finding.as_deref(), Some("the heap is out of order"));
        assert!(matches!(heard("refused no hook\n"), Err(RaceError::Refused(text)) if text == "no hook"));
    }

    #[test]
    fn reports_of_the_sanitizer_are_counted_by_place() {
        let one = "WARNING: ThreadSanitizer: data race (pid=1)\n  Read of size 8 by thread T3:\n    \
            #0 find /x/own.c:39 (own+0x5e38)\n    #1 push /x/stress.c:4 (own+0x1)\n\n  Previous write by T2:\n    \
            #0 preempt /x/own.c:67 (own+0x1)\n";
        let text = format!("{one}==\n{one}");
        assert_eq!(reports(&text), [("data race: find() own.c:39 and preempt() own.c:67".to_owned(), 2)]);
        assert_eq!(reports("nothing"), []);
    }

    #[test]
    fn a_tsc_whose_rate_changes_is_not_stable() {
        let of = |end: u64, invariant: u64| Stressed {
            counts: [("tsc_hz", 2_600_000_000), ("tsc_hz_end", end), ("tsc_invariant", invariant)]
                .map(|(name, n)| (name.to_owned(), n))
                .to_vec(),
            ..Stressed::default()
        };
        assert!(of(2_600_100_000, 1).has_stable_tsc());
        assert!(!of(2_610_000_000, 1).has_stable_tsc() && !of(2_600_000_000, 0).has_stable_tsc());
    }
}
