//! What do the original's slides show, and what comes out here? Slides 8, 9, 17 and 18 beside ours; and a rival's
//! numbers of the same minute.
//!
//! ```text
//!   slide 8, 9    three threads that compute, as a raw trace and as a picture
//!   slide 17, 18  4 ms every 5 ms, at real-time priority: alone, under load, and which deadlines that costs
//! ```
//!
//! The slides' machine received at full bandwidth over 100 Mbit Ethernet; here a connection over the loopback
//! device stands for it, which has no interrupts of a device. A busy neighbour and a busy disk are ours.

use crate::linux::let_timer_signals_through;
use crate::map::Map;
use crate::plan::{Class, Model, Plan, ThreadPlan, Timer};
use crate::run::{HourglassError, run};
use crate::stats::wilson;
use schedlab_report::chart::Drawing;
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};
use schedlab_stdx::percentile::nearest;
use schedlab_units::{CpuId, CpuSet, SchedPolicy, Span};
use serde_json::{Value, json};
use std::process::{Command, Output};

/// Missed deadlines on slide 17: kernel, per cent, throughput beside it.
const SLIDE_17: [(&str, f64, &str); 3] = [
    ("2.4.17 plain, network receive", 33.0, "68 of 94 Mbit/s"),
    ("2.4.17 preemptible and lock breaking, network receive", 0.4, "66 of 94 Mbit/s"),
    ("2.4.7 TimeSys, network receive", 0.0, "59 of 94 Mbit/s"),
];
/// Rows of slide 8.
const RAW_ROWS: usize = 8;

/// A load, and the program that it needs.
struct Load {
    name: &'static str,
    needs: &'static str,
    command: fn(u64) -> String,
}

const LOADS: [Load; 4] = [
    Load { name: "alone", needs: "", command: |_| String::new() },
    Load {
        name: "network receive over loopback",
        needs: "iperf3",
        command: |seconds| {
            format!(
                "iperf3 -s -1 -p 52017 >/dev/null & sleep 0.2; \
                 iperf3 -c 127.0.0.1 -p 52017 -t {seconds} -f m | (trap '' INT; exec grep -E 'sender|receiver')"
            )
        },
    },
    Load {
        name: "a busy disk",
        needs: "dd",
        command: |_| {
            "f=$(mktemp); trap 'rm -f $f; exit' INT; while :; do \
             dd if=/dev/zero of=$f bs=1M count=64 conv=fsync 2>&1 | grep copied; done"
                .to_string()
        },
    },
    Load {
        name: "two busy neighbours",
        needs: "sh",
        command: |_| "while :; do :; done & while :; do :; done".to_string(),
    },
];

fn is_there(program: &str) -> bool {
    program.is_empty()
        || std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn periodic() -> ThreadPlan {
    ThreadPlan {
        model: Model::Periodic { compute: Span::from_ms(4), period: Span::from_ms(5) },
        timer: Timer::Rtc,
        class: Class::real_time(SchedPolicy::Fifo, 98),
        ..ThreadPlan::default()
    }
}

/// The slides beside this machine; runs of `each`.
///
/// # Errors
/// [`HourglassError`]: a run cannot be made.
pub fn reproduced(each: Span, progress: &dyn Fn(&str)) -> Result<Pages, HourglassError> {
    progress("slides 8 and 9: three threads that compute on one CPU");
    let cpu = Some(CpuSet::single(CpuId(0)));
    let three = ThreadPlan { cpus: cpu, ..ThreadPlan::default() };
    let map = run(&Plan { duration: each, threads: vec![three; 3], ..Plan::default() }, progress)?;
    let mut tables = vec![slide_8(&map)];
    let mut drawings = vec![named(&map, "slide-9", "Slide 9: three threads that compute share a CPU.")];
    let mut remarks = conditions(&map);
    let (mut misses, mut notes) = (slide_17(), Vec::new());
    for load in &LOADS {
        if !is_there(load.needs) {
            let row = [json!(format!("here, {}", load.name)), json!("ours")];
            let why = format!("not run: {} is not installed", load.needs);
            misses
                .push([&row[..], &[Value::Null, Value::Null, Value::Null, Value::Null, json!(why)]].concat());
            continue;
        }
        progress(&format!("slide 17: 4 ms every 5 ms, {}", load.name));
        let command = (load.command)(each.as_ns().div_ceil(1_000_000_000));
        let beside = if command.is_empty() { Vec::new() } else { vec![command] };
        let map =
            run(&Plan { duration: each, threads: vec![periodic()], beside, ..Plan::default() }, progress)?;
        notes.extend(map.notes.iter().filter(|note| !notes.contains(*note)).cloned().collect::<Vec<_>>());
        misses.push(measured(&map, load.name));
        if load.name != "alone" {
            let caption = format!("Slide 18: 4 ms every 5 ms, {}.", load.name);
            drawings.push(named(&map, &format!("slide-18-{}", drawings.len()), &caption));
        }
    }
    tables.push(misses);
    progress("the rival: cyclictest");
    tables.push(rivals(each, progress)?);
    tables.push(busy_rivals(each, progress)?);
    remarks.extend(notes);
    Ok(Pages { title: "Hourglass (FREENIX 2002), slides 8, 9, 17, 18".into(), remarks, drawings, tables })
}

fn conditions(map: &Map) -> Vec<String> {
    let known: Vec<String> =
        map.preconditions.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
    vec![known.join("; "), format!("load average of this machine at the start: {load}")]
}

fn named(map: &Map, name: &str, caption: &str) -> Drawing {
    let picture = map.pages("").drawings.swap_remove(0);
    Drawing { name: name.into(), caption: format!("{caption} {}", picture.caption), ..picture }
}

fn slide_8(map: &Map) -> Table {
    let columns = vec![
        Column::new("source", "", "the slide, or this machine"),
        Column::new("thread", "", "who"),
        Column::new("duration_ms", "ms", "how long it ran"),
        Column::new("gap_ms", "ms", "until it was seen to run again, or another thread"),
    ];
    let mut table = Table::new("slide-8", "Slide 8: raw execution trace", columns);
    let published = [
        (2, 9.976, 0.006),
        (2, 9.976, 0.005),
        (0, 9.972, 0.009),
        (0, 9.976, 0.005),
        (1, 7.574, 0.006),
        (1, 1.242, 0.009),
        (1, 1.139, 0.009),
        (1, 0.122, 0.005),
    ];
    for (thread, ran, gap) in published {
        table.push(vec![json!("slide"), json!(thread), json!(ran), json!(gap)]);
    }
    let raw = map.raw();
    let middle = raw.rows.len() / 2;
    for row in raw.rows.iter().skip(middle).take(RAW_ROWS) {
        table.push(vec![json!("ours"), row[0].clone(), row[2].clone(), row[3].clone()]);
    }
    table
}

fn slide_17() -> Table {
    let columns = vec![
        Column::new("experiment", "", "kernel and load"),
        Column::new("source", "", "the slide, or this machine"),
        Column::new("jobs", "", "deadlines"),
        Column::new("missed_pct", "%", "of them missed"),
        Column::new("low_pct", "%", "lower end of the 95 % interval"),
        Column::new("high_pct", "%", "upper end"),
        Column::new("load_said", "", "throughput of the load beside it"),
    ];
    let mut table = Table::new("slide-17", "Slide 17: 4 ms every 5 ms", columns);
    for (name, missed, throughput) in SLIDE_17 {
        let unknown = Value::Null;
        let (jobs, low, high) = (unknown.clone(), unknown.clone(), unknown);
        table.push(vec![json!(name), json!("slide"), jobs, json!(missed), low, high, json!(throughput)]);
    }
    table
}

fn measured(map: &Map, load: &str) -> Vec<Value> {
    let kernel = map.preconditions.iter().find(|(name, _)| name == "kernel").map_or("", |(_, value)| value);
    let said = map.beside.first().and_then(|(_, said)| said.lines().last().map(str::trim)).unwrap_or("");
    let pct = |share: f64| json!((share * 10_000.0).round() / 100.0);
    let jobs = map.threads[0].jobs().unwrap_or_default();
    let name = json!(format!("{kernel}, {load}"));
    match wilson(jobs.missed, jobs.count) {
        Some(share) => vec![
            name,
            json!("ours"),
            json!(jobs.count),
            pct(share.value),
            pct(share.low),
            pct(share.high),
            json!(said),
        ],
        None => vec![name, json!("ours"), json!(0), Value::Null, Value::Null, Value::Null, json!(said)],
    }
}

/// Lateness of a real-time thread that wakes every 5 ms: in ns, in order.
fn ours(each: Span) -> Result<(Vec<u64>, String), HourglassError> {
    let class = Class::real_time(SchedPolicy::Fifo, 98);
    let model = Model::Latency { period: Span::from_ms(5) };
    let thread = ThreadPlan { model, class, cpus: Some(CpuSet::single(CpuId(0))), ..ThreadPlan::default() };
    let map = run(&Plan { duration: each, threads: vec![thread], ..Plan::default() }, &|_| {})?;
    Ok((map.threads[0].lateness_ns(), map.threads[0].plan.class.to_string()))
}

/// `cyclictest`'s histogram, as lateness in ns, in order: `000012 000345` is 345 times 12 us.
fn cyclictest(text: &str) -> Vec<u64> {
    let mut late = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        if let (Some(Ok(us)), Some(Ok(times))) = (numbers.next(), numbers.next()) {
            late.extend(std::iter::repeat_n(us * 1000, times.min(10_000_000) as usize));
        }
    }
    late
}

/// Ours, the rival's, ours again, in the same minute.
fn rivals(each: Span, progress: &dyn Fn(&str)) -> Result<Table, HourglassError> {
    let columns = vec![
        Column::new("tool", "", "who measured"),
        Column::new("wakeups", "", "how many"),
        Column::new("p50_us", "us", "median lateness of a wakeup"),
        Column::new("p99_us", "us", "99 of 100 were less late"),
        Column::new("max_us", "us", "the worst"),
        Column::new("remark", "", "class; or why there is nothing"),
    ];
    let mut table = Table::new("rivals", "A real-time thread that wakes every 5 ms", columns);
    let row = |tool: &str, late: &[u64], remark: String| {
        let us = |ns: Option<u64>| ns.map_or(Value::Null, |ns| json!(ns as f64 / 1000.0));
        let [p50, p99] = [500, 990].map(|at| us(nearest(late, at)));
        vec![json!(tool), json!(late.len()), p50, p99, us(late.last().copied()), json!(remark)]
    };
    let (late, class) = ours(each)?;
    table.push(row("hourglass", &late, class));
    progress("cyclictest");
    let seconds = each.as_ns().div_ceil(1_000_000_000).to_string();
    let line = ["-q", "-t1", "-a0", "-p98", "-i5000", "-h100000", "-D", &seconds];
    match output(Command::new("cyclictest").args(line)) {
        Ok(output) if output.status.success() => {
            let late = cyclictest(&String::from_utf8_lossy(&output.stdout));
            table.push(row("cyclictest", &late, "fifo 98; whole us".into()));
        }
        Ok(output) => {
            let said =
                String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("it failed").to_string();
            table.push(row("cyclictest", &[], said));
        }
        Err(error) => table.push(row("cyclictest", &[], format!("{error}; it is in the package rt-tests"))),
    }
    let (late, class) = ours(each)?;
    table.push(row("hourglass again", &late, class));
    Ok(table)
}

/// What a rival says. It is started from a thread of its own, which blocks no signal: `oslat` ends by an alarm.
fn output(command: &mut Command) -> std::io::Result<Output> {
    std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            let_timer_signals_through();
            command.output()
        });
        started.join().expect("starting a program does not panic")
    })
}

/// The last of a line of `oslat`'s numbers, as in `   Maximum:\t 12 34 (us)`.
fn oslat(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().filter_map(|word| word.parse().ok()).next_back()
}

/// Gaps of a thread that computes alone on the last CPU, ours, the rival's, ours again.
fn busy_rivals(each: Span, progress: &dyn Fn(&str)) -> Result<Table, HourglassError> {
    let columns = vec![
        Column::new("tool", "", "who measured"),
        Column::new("max_us", "us", "the longest gap"),
        Column::new("remark", "", "what it measured; or why there is nothing"),
    ];
    let mut table = Table::new("rivals-busy", "A thread that computes on one CPU", columns);
    let cpu = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32 - 1;
    let ours = || {
        let thread = ThreadPlan { cpus: Some(CpuSet::single(CpuId(cpu))), ..ThreadPlan::default() };
        let map = run(&Plan { duration: each, threads: vec![thread], ..Plan::default() }, &|_| {})?;
        let longest = map.threads[0].gaps().map(crate::map::Piece::ns).max();
        let gaps = map.threads[0].gaps().filter(|gap| gap.ns() >= 1000).count();
        Ok::<_, HourglassError>(vec![
            json!(longest.map(|ns| ns as f64 / 1000.0)),
            json!(format!("{gaps} gaps of 1 us or more on cpu{cpu}")),
        ])
    };
    table.push([vec![json!("hourglass")], ours()?].concat());
    progress("oslat");
    let seconds = each.as_ns().div_ceil(1_000_000_000).to_string();
    let output = output(Command::new("oslat").args(["-c", &cpu.to_string(), "-D", &seconds]));
    let (longest, remark) = match output {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let longest = oslat(&text, "Maximum");
            let failed =
                || String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("no maximum").to_string();
            (longest, longest.map_or_else(failed, |_| "whole us".into()))
        }
        Err(error) => (None, format!("{error}; it is in the package rt-tests")),
    };
    table.push(vec![json!("oslat"), json!(longest), json!(remark)]);
    table.push([vec![json!("hourglass again")], ours()?].concat());
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rivals_histogram_is_read() {
        let text =
            "# /dev/cpu_dma_latency set to 0us\n000011 000000\n000012 000003\n000040 000001\n# Total: 4\n";
        assert_eq!(cyclictest(text), [12_000, 12_000, 12_000, 40_000]);
    }

    #[test]
    fn the_other_rivals_line_is_read() {
        let text =
            "    Core:\t 0 1\n Minimum:\t 1 1 (us)\n Maximum:\t 19 1204 (us)\n Max-Min:\t 18 1203 (us)\n";
        assert_eq!(oslat(text, "Maximum"), Some(1204.0));
        assert_eq!(oslat("", "Maximum"), None);
    }

    #[test]
    fn programs_are_looked_for_in_the_path() {
        assert!(is_there("sh") && is_there("") && !is_there("no-such-program-anywhere"));
    }
}
