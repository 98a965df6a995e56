//! How fast is each form imported? `import_speed [MILLION_EVENTS] [FOLDER [only]]`, 2 million and a temporary folder
//! by default. With `only` the compact Perfetto form is written, and nothing is measured (scripts/bench-report.sh).
//!
//! The events of samples/hackbench, again and again at later times, are written as text, perf.data and
//! Perfetto (compact), and imported: opening, reading, merging, deriving. Times are CPU times of one thread
//! (a busy host does not count), the best of three; memory is the process's peak after the first import of
//! each. trace.dat is the sample itself, 20 times.

use schedlab_trace::{Context, Mode, Recording, SchedEvent, SwitchSide, TaskState, TraceEvent, Wake};
use schedlab_workload::derive::{DeriveOptions, import_trace};
use std::io::{BufWriter, Write};
use std::path::Path;

/// CPU time of this process in seconds (Linux: first field of schedstat, ns).
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1e-9
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// One round of events with names, and how long it lasts.
struct Round {
    events: Vec<(TraceEvent, [String; 2])>,
    length_ns: u64,
}

fn round() -> Result<Round> {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/hackbench/trace.dat");
    let file = Recording::open(&sample, Mode::Strict)?;
    let mut stream = file.events()?;
    let mut events = Vec::new();
    while let Some(event) = stream.next_event()? {
        let name = |comm| stream.comm(comm).to_string();
        let names = match event.what {
            SchedEvent::Switch { prev, next, .. } => [name(prev.comm), name(next.comm)],
            SchedEvent::Waking(wake) => [name(wake.comm), String::new()],
            _ => continue, // rare
        };
        events.push((event, names));
    }
    let first = events[0].0.time_ns;
    let length_ns = events[events.len() - 1].0.time_ns - first + 1_000_000;
    for (event, _) in &mut events {
        event.time_ns -= first;
    }
    Ok(Round { events, length_ns })
}

fn letter(state: TaskState) -> (&'static str, u32) {
    match state {
        TaskState::Running => ("R", 0),
        TaskState::RunningPreempted => ("R+", 0x100),
        TaskState::Interruptible => ("S", 1),
        TaskState::Uninterruptible => ("D", 2),
        TaskState::Idle => ("I", 0x80),
        _ => ("X", 0x10),
    }
}

fn write_text(out: &mut impl Write, round: &Round, rounds: u64) -> Result<()> {
    writeln!(out, "# tracer: nop\n#")?;
    for number in 0..rounds {
        for (event, [first, second]) in &round.events {
            let ns = event.time_ns + number * round.length_ns;
            let irq = if event.context == Context::HardIrq { 'h' } else { '.' };
            let (s, us) = (ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
            write!(out, "{:>16}-{:<7} [{:03}] d.{irq}2. {s:5}.{us:06}: ", "task", event.pid, event.cpu.0)?;
            match event.what {
                SchedEvent::Switch { prev, prev_state, next } => writeln!(
                    out,
                    "sched_switch: prev_comm={first} prev_pid={} prev_prio={} prev_state={} ==> next_comm={second} \
                        next_pid={} next_prio={}",
                    prev.pid,
                    prev.prio,
                    letter(prev_state).0,
                    next.pid,
                    next.prio
                )?,
                SchedEvent::Waking(Wake { pid, prio, target_cpu, .. }) => writeln!(
                    out,
                    "sched_waking: comm={first} pid={pid} prio={prio} target_cpu={:03}",
                    target_cpu.0
                )?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn comm(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

fn format_text(name: &str, id: u16, fields: &[(&str, u32)], print: &str) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n{COMMON}");
    let mut offset = 8;
    for (declaration, size) in fields {
        text += &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:1;\n");
        offset += size;
    }
    format!("{text}\nprint fmt: {print}\n")
}

/// perf's event formats: the start of a trace.dat of version 0.6.
fn tracing_data() -> Vec<u8> {
    let states = r#""", (REC->prev_state & 255) ? __print_flags(REC->prev_state & 255, "|", { 1, "S" }, { 2, "D" }, { 16, "X" }, { 128, "I" }) : "R", REC->prev_state & 256 ? "+" : """#;
    let side = |p: &str| [format!("char {p}_comm[16]"), format!("pid_t {p}_pid"), format!("int {p}_prio")];
    let (prev, next) = (side("prev"), side("next"));
    let switch = [
        (prev[0].as_str(), 16),
        (&prev[1], 4),
        (&prev[2], 4),
        ("long prev_state", 8),
        (&next[0], 16),
        (&next[1], 4),
        (&next[2], 4),
    ];
    let waking = [("char comm[16]", 16), ("pid_t pid", 4), ("int prio", 4), ("int target_cpu", 4)];
    let formats =
        [format_text("sched_switch", 1, &switch, states), format_text("sched_waking", 2, &waking, "\"\"")];
    let mut data = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0header_page\0".to_vec();
    data.extend_from_slice(&0u64.to_le_bytes());
    data.extend_from_slice(b"header_event\0");
    data.extend_from_slice(&0u64.to_le_bytes());
    data.extend_from_slice(&0u32.to_le_bytes());
    data.extend_from_slice(&1u32.to_le_bytes());
    data.extend_from_slice(b"sched\0");
    data.extend_from_slice(&2u32.to_le_bytes());
    for text in formats {
        data.extend_from_slice(&(text.len() as u64).to_le_bytes());
        data.extend_from_slice(text.as_bytes());
    }
    data.extend_from_slice(&[0; 16]);
    data
}

fn raw(event: &TraceEvent, names: &[String; 2]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(64);
    let id = if matches!(event.what, SchedEvent::Switch { .. }) { 1u16 } else { 2 };
    raw.extend_from_slice(&id.to_le_bytes());
    raw.extend_from_slice(&[if event.context == Context::HardIrq { 8 } else { 0 }, 0]);
    raw.extend_from_slice(&event.pid.0.to_le_bytes());
    let mut side = |side: SwitchSide, name: &str, state: Option<TaskState>| {
        raw.extend_from_slice(&comm(name));
        raw.extend_from_slice(&side.pid.0.to_le_bytes());
        raw.extend_from_slice(&side.prio.to_le_bytes());
        if let Some(state) = state {
            raw.extend_from_slice(&u64::from(letter(state).1).to_le_bytes());
        }
    };
    match event.what {
        SchedEvent::Switch { prev, prev_state, next } => {
            side(prev, &names[0], Some(prev_state));
            side(next, &names[1], None);
        }
        SchedEvent::Waking(Wake { pid, prio, target_cpu, comm }) => {
            side(SwitchSide { pid, comm, prio }, &names[0], None);
            raw.extend_from_slice(&target_cpu.0.to_le_bytes());
        }
        _ => {}
    }
    raw
}

/// As `perf sched record` writes it; each CPU's buffer is emptied after 20,000 events.
fn write_perf(path: &Path, round: &Round, rounds: u64) -> Result<()> {
    let mut data = Vec::new();
    let mut cpus: Vec<Vec<u8>> = vec![Vec::new(); 8];
    let mut count = 0;
    let mut flush = |cpus: &mut Vec<Vec<u8>>| {
        for cpu in cpus.iter_mut() {
            data.append(cpu);
        }
        data.extend_from_slice(&[68, 0, 0, 0, 0, 0, 8, 0]);
    };
    for number in 0..rounds {
        for (event, names) in &round.events {
            let raw = raw(event, names);
            // IP, TID, TIME, CPU, PERIOD, RAW, as perf has them
            let size = (8 + 40 + 4 + raw.len()).next_multiple_of(8);
            let out = &mut cpus[event.cpu.index()];
            let start = out.len();
            out.extend_from_slice(&[9, 0, 0, 0, 0, 0]);
            out.extend_from_slice(&(size as u16).to_le_bytes());
            for word in [0, 0, event.time_ns + number * round.length_ns, u64::from(event.cpu.0), 1] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
            out.extend_from_slice(&raw);
            out.resize(start + size, 0);
            count += 1;
            if count % 20_000 == 0 {
                flush(&mut cpus);
            }
        }
    }
    flush(&mut cpus);
    let (attr_at, attr_size) = (104u64, 64 + 16);
    let data_at = attr_at + 2 * attr_size;
    let formats = tracing_data();
    let formats_at = data_at + data.len() as u64 + 16;
    let mut file = b"PERFILE2".to_vec();
    for word in [104, attr_size, attr_at, 2 * attr_size, data_at, data.len() as u64, 0, 0, 1 << 1, 0, 0, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for id in 1..=2u64 {
        let sample_type = 1 | 2 | 4 | 1 << 7 | 1 << 8 | 1 << 10;
        for word in [2 | 64 << 32, id, 1, sample_type, 0, 0, 0, 0, 0, 0] {
            file.extend_from_slice(&u64::to_le_bytes(word));
        }
    }
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    out.write_all(&file)?;
    out.write_all(&data)?;
    for word in [formats_at, formats.len() as u64] {
        out.write_all(&word.to_le_bytes())?;
    }
    out.write_all(&formats)?;
    Ok(out.flush()?)
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, field: u64, content: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// Compact bundles of a CPU's events, 1,000 each.
fn write_perfetto(out: &mut impl Write, round: &Round, rounds: u64) -> Result<()> {
    for number in 0..rounds {
        for chunk in round.events.chunks(2000) {
            for cpu in 0..8 {
                let mut columns: Vec<Vec<u8>> = vec![Vec::new(); 13];
                let (mut table, mut last) = (Vec::<&str>::new(), [0u64; 2]);
                for (event, names) in chunk.iter().filter(|(event, _)| event.cpu.0 == cpu) {
                    let ns = event.time_ns + number * round.length_ns;
                    let mut row = |name| match table.iter().position(|known| *known == name) {
                        Some(row) => row as u64,
                        None => {
                            table.push(name);
                            table.len() as u64 - 1
                        }
                    };
                    match event.what {
                        SchedEvent::Switch { prev_state, next, .. } => {
                            let values = [
                                ns - last[0],
                                letter(prev_state).1.into(),
                                next.pid.0 as u64,
                                next.prio as u64,
                            ];
                            last[0] = ns;
                            for (column, value) in (1..5).zip(values) {
                                varint(&mut columns[column], value);
                            }
                            varint(&mut columns[6], row(&names[1]));
                        }
                        SchedEvent::Waking(wake) => {
                            let flags = if event.context == Context::HardIrq { 8 } else { 0 };
                            let values = [
                                ns - last[1],
                                wake.pid.0 as u64,
                                wake.target_cpu.0.into(),
                                wake.prio as u64,
                                row(&names[0]),
                                flags,
                            ];
                            last[1] = ns;
                            for (column, value) in (7..13).zip(values) {
                                varint(&mut columns[column], value);
                            }
                        }
                        _ => {}
                    }
                }
                let mut compact = Vec::new();
                table.iter().for_each(|name| bytes(&mut compact, 5, name.as_bytes()));
                for (field, column) in columns.iter().enumerate().filter(|(_, column)| !column.is_empty()) {
                    bytes(&mut compact, field as u64, column);
                }
                if compact.is_empty() {
                    continue;
                }
                let mut bundle = vec![8, cpu as u8];
                bytes(&mut bundle, 4, &compact);
                let (mut packet, mut framed) = (Vec::new(), Vec::new());
                bytes(&mut packet, 1, &bundle);
                bytes(&mut framed, 1, &packet);
                out.write_all(&framed)?;
            }
        }
    }
    Ok(())
}

fn measure(label: &str, path: &Path, times: u32) -> Result<()> {
    let mut best = f64::INFINITY;
    let (mut events, mut reading) = (0, f64::INFINITY);
    for _ in 0..3 {
        let start = cpu_s();
        for _ in 0..times {
            let file = Recording::open(path, Mode::Strict)?;
            let mut stream = file.events()?;
            while stream.next_event()?.is_some() {}
        }
        reading = reading.min(cpu_s() - start);
        let start = cpu_s();
        events = 0;
        for _ in 0..times {
            let derived = import_trace(path, Mode::Strict, DeriveOptions::default(), |_| {})?;
            events += derived.summary.trace_events;
        }
        best = best.min(cpu_s() - start);
    }
    let n = events as f64 / 1e6;
    let bytes = std::fs::metadata(path)?.len() as f64 * f64::from(times) / events as f64;
    println!(
        "{label:22} {n:6.2} M events {bytes:6.1} bytes each   read {:6.2} M/s   import {:6.2} M/s   peak {} MiB",
        n / reading,
        n / best,
        peak_mib()
    );
    Ok(())
}

fn main() -> Result<()> {
    let million: f64 = std::env::args().nth(1).map_or(Ok(2.0), |n| n.parse())?;
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args().nth(2).map_or(temporary.path().to_path_buf(), Into::into);
    let round = round()?;
    let rounds = (million * 1e6 / round.events.len() as f64).ceil() as u64;
    if std::env::args().nth(3).as_deref() == Some("only") {
        let mut out = BufWriter::new(std::fs::File::create(folder.join("compact.perfetto"))?);
        write_perfetto(&mut out, &round, rounds)?;
        return Ok(out.flush()?);
    }
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    measure("trace.dat (hackbench)", &sample.join("hackbench/trace.dat"), 20)?;
    measure("trace.dat (compile)", &sample.join("compile/trace.dat"), 20)?;
    let path = folder.join("perf.data");
    write_perf(&path, &round, rounds)?;
    measure("perf.data", &path, 1)?;
    let path = folder.join("compact.perfetto");
    let mut out = BufWriter::new(std::fs::File::create(&path)?);
    write_perfetto(&mut out, &round, rounds)?;
    out.flush()?;
    measure("Perfetto, compact", &path, 1)?;
    let path = folder.join("ftrace.txt");
    let mut out = BufWriter::new(std::fs::File::create(&path)?);
    write_text(&mut out, &round, rounds)?;
    out.flush()?;
    measure("text", &path, 1)?;
    Ok(())
}
