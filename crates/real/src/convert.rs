//! What did the kernel make of a workload's program? What the guest (or this machine's tracing)
//! says, as a log: the trace by [`ProgramLog`], and what the guest's files say besides.

use crate::frames::Frames;
use crate::notes::Notes;
use crate::program::FIRST_PID;
use crate::{Options, RealError, Schedstat};
use schedlab_convert::{ProgramLog, with_hidden_switches, with_wakeups_behind_switches, without_strangers};
use schedlab_log::{KernelThread, Record};
use schedlab_trace::write::{EventSystem, TraceDatWriter, TraceMeta, WriteOptions};
use schedlab_trace::{Mode, OBJECT_FORMAT, SchedEvent, TraceFile};
use schedlab_workload::Workload;
use std::collections::BTreeMap;

/// A guest's output in our terms.
pub(crate) struct Converted {
    pub records: Vec<Record>,
    pub duration_ns: u64,
    pub start_ns: u64,
    pub kernel_threads: Vec<KernelThread>,
    pub schedstat: Vec<Option<Schedstat>>,
    /// What was left out or made up: reason -> how often.
    pub dropped: BTreeMap<String, u64>,
    pub kernel: String,
    pub instructions: Vec<u64>,
}

pub(crate) fn convert(
    frames: &Frames<'_>,
    notes: Option<&Notes>,
    workload: &Workload,
    options: &Options,
) -> Result<Converted, RealError> {
    let directory = match options.keep_trace.as_deref().and_then(|path| path.parent()) {
        Some(directory) if !directory.as_os_str().is_empty() => directory.to_path_buf(),
        Some(_) => ".".into(),
        None => std::env::temp_dir(),
    };
    let work = tempfile::tempdir_in(&directory).map_err(RealError::io("make a directory in", &directory))?;
    let path = work.path().join("trace.dat");
    write_trace(frames, notes, options, &path)?;
    let trace = TraceFile::open(&path, Mode::Strict)?;
    let marker = print_id(&frames.text("events/ftrace/print/format")?)?;
    let mut log = ProgramLog::new(workload.tasks.len() as u32, FIRST_PID, options.duration);
    let mut events = trace.events()?;
    while let Some(event) = events.next_event()? {
        if let SchedEvent::Switch { prev, next, .. } = event.what {
            log.name(prev.pid, events.comm(prev.comm));
            log.name(next.pid, events.comm(next.comm));
        }
        if matches!(event.what, SchedEvent::Other { id } if id == marker) {
            log.marker(event.time_ns);
        } else {
            log.event(&event)?;
        }
    }
    drop(events);
    if let Some(keep) = &options.keep_trace {
        std::fs::rename(&path, keep).map_err(RealError::io("rename the trace to", keep))?;
    }
    let Some(run) = log.finish() else {
        return Err(RealError::Output { offset: 0, what: "the trace has not both markers".to_string() });
    };
    Ok(Converted {
        duration_ns: run.duration_ns,
        start_ns: run.start_ns,
        kernel_threads: run.kernel_threads,
        records: run.records,
        schedstat: schedstats(&frames.text("schedstat")?, workload.tasks.len()),
        dropped: refused(frames, "the guest's kernel")?,
        kernel: frames.text("/proc/version")?.trim().to_string(),
        instructions: frames
            .file("instructions")?
            .chunks_exact(8)
            .map(|bytes| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
            .collect(),
    })
}

/// The same of this machine's own trace, whose clock is CLOCK_MONOTONIC: time 0 is known from the program that ran.
pub(crate) fn convert_host(
    trace: &std::path::Path,
    frames: &Frames<'_>,
    first_pid: u32,
    workload: &Workload,
    options: &Options,
) -> Result<Converted, RealError> {
    let start_ns = frames
        .file("start")?
        .first_chunk::<8>()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .ok_or_else(|| RealError::Output { offset: 0, what: "the start is no number".to_string() })?;
    let end_ns = start_ns + options.duration.as_ns();
    let trace = TraceFile::open(trace, Mode::Strict)?;
    let mut log = ProgramLog::new(workload.tasks.len() as u32, first_pid, options.duration).without_markers();
    let mut events = trace.events()?;
    while let Some(event) = events.next_event()? {
        if event.cpu.0 >= options.cpus {
            continue; // the workload's tasks keep to the first CPUs
        }
        if let SchedEvent::Switch { prev, next, .. } = event.what {
            log.name(prev.pid, events.comm(prev.comm));
            log.name(next.pid, events.comm(next.comm));
        }
        if log.start_ns().is_none() && event.time_ns >= start_ns {
            log.marker(start_ns);
        }
        if log.end_ns().is_none() && event.time_ns > end_ns {
            log.marker(end_ns);
        }
        log.event(&event)?;
    }
    drop(events);
    let Some(run) = log.finish() else {
        return Err(RealError::Output { offset: 0, what: "the trace ends before the workload".to_string() });
    };
    let records = with_wakeups_behind_switches(without_strangers(run.records));
    let (records, hidden) = with_hidden_switches(records);
    let mut dropped = refused(frames, "this machine's kernel")?;
    if hidden > 0 {
        dropped
            .insert("switches that this machine hides from tracing, put in by inference".to_string(), hidden);
    }
    let others = (0..options.cpus).map(|cpu| KernelThread { pid: cpu + 1, name: format!("others/{cpu}") });
    Ok(Converted {
        duration_ns: run.duration_ns,
        start_ns,
        kernel_threads: others.collect(),
        records,
        schedstat: schedstats(&frames.text("schedstat")?, workload.tasks.len()),
        dropped,
        kernel: frames.text("/proc/version")?.trim().to_string(),
        instructions: Vec::new(),
    })
}

fn write_trace(
    frames: &Frames<'_>,
    notes: Option<&Notes>,
    options: &Options,
    path: &std::path::Path,
) -> Result<(), RealError> {
    let mut writer = TraceDatWriter::create(path, WriteOptions::default())?;
    for (cpu, pages) in &frames.pages {
        match notes {
            // a note is no marker
            Some(notes) => writer.append_pages(*cpu, &notes.pages(pages, |_| true)?)?,
            None => pages.iter().try_for_each(|page| writer.append_pages(*cpu, page))?,
        }
    }
    writer.finish(&trace_meta(frames, notes, options)?)?;
    Ok(())
}

/// What a trace.dat of this guest says besides its events.
pub(crate) fn trace_meta(
    frames: &Frames<'_>,
    notes: Option<&Notes>,
    options: &Options,
) -> Result<TraceMeta, RealError> {
    let mut systems: BTreeMap<String, EventSystem> = BTreeMap::new();
    for (name, format) in &frames.files {
        let Some(event) = name.strip_prefix("events/").and_then(|name| name.strip_suffix("/format")) else {
            continue;
        };
        let system = event.split('/').next().unwrap_or_default().to_string();
        if system != "ftrace" {
            let row = systems.entry(system.clone()).or_default();
            row.name = system;
            row.formats.push(format.clone());
        }
    }
    if notes.is_some() {
        let formats = vec![OBJECT_FORMAT.as_bytes().to_vec()];
        systems.insert("schedlab".to_string(), EventSystem { name: "schedlab".to_string(), formats });
    }
    let clocks = frames.text("trace_clock")?;
    let clock = clocks.split(['[', ']']).nth(1).unwrap_or("local").to_string();
    let stats = (0..options.cpus).map(|cpu| frames.text(&format!("per_cpu/cpu{cpu}/stats")));
    Ok(TraceMeta {
        header_page: frames.file("events/header_page")?.to_vec(),
        header_event: frames.file("events/header_event")?.to_vec(),
        ftrace_events: vec![frames.file("events/ftrace/print/format")?.to_vec()],
        systems: systems.into_values().collect(),
        saved_cmdlines: frames.file("saved_cmdlines")?.to_vec(),
        cpus: options.cpus,
        clock,
        uname: Some(frames.text("/proc/version")?.trim().to_string()),
        tool: Some(format!("schedlab guest {}", env!("CARGO_PKG_VERSION"))),
        cpu_stats: stats.collect::<Result<_, _>>()?,
        ..TraceMeta::default()
    })
}

/// The number of `ftrace:print`, which trace_marker writes.
fn print_id(format: &str) -> Result<u16, RealError> {
    format.lines().find_map(|line| line.strip_prefix("ID: ")?.trim().parse().ok()).ok_or_else(|| {
        RealError::Output { offset: 0, what: "the format of ftrace/print has no ID".to_string() }
    })
}

fn schedstats(text: &str, nr_tasks: usize) -> Vec<Option<Schedstat>> {
    let row = |line: &str| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().ok());
        Some(Schedstat { cpu_ns: numbers.next()??, run_delay_ns: numbers.next()??, slices: numbers.next()?? })
    };
    let mut rows: Vec<_> = text.lines().map(row).collect();
    rows.resize(nr_tasks, None);
    rows
}

/// What stands in every reason that tells of a refusal.
pub(crate) const REFUSED: &str = "kernel refused";

/// What the kernel refused to tasks, by operation and error; each contains [`REFUSED`].
fn refused(frames: &Frames<'_>, whose: &str) -> Result<BTreeMap<String, u64>, RealError> {
    let mut counts = BTreeMap::new();
    let mut listed = 0;
    for row in frames.file("refused")?.chunks_exact(16) {
        let word = |i: usize| u32::from_le_bytes([row[i], row[i + 1], row[i + 2], row[i + 3]]);
        let operations = if word(4) == 5 { "forks" } else { "changes of parameters" };
        let error = std::io::Error::from_raw_os_error(word(8) as i32);
        *counts.entry(format!("{operations} that {whose} refused: {error}")).or_default() += 1;
        listed += 1;
    }
    if frames.nr_refused > listed {
        let rest = u64::from(frames.nr_refused - listed);
        counts.insert(format!("further operations that {whose} refused"), rest);
    }
    Ok(counts)
}
