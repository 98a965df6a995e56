//! What do the original's slides show, and what comes out here? Slides 8, 9, 17 and 18 beside ours; and a rival's
//! numbers of the same minute.
//!
//! ```text
//!   slide 8, 9    three threads that compute, as a raw trace and as a picture
//!   slide 17, 18  4 ms every 5 ms, at real-time priority: alone, under load, and which deadlines that costs
//! ```
//!
//! The slides' machine received at full bandwidth over 100 Mbit Ethernet; here a connection between two network
//! namespaces stands for it ([`Contention::Net`]), which has no interrupts of a device. Busy neighbours and a busy disk
//! are ours.

use crate::loads::Contention;
use crate::map::Map;
use crate::plan::{Class, Model, Plan, ThreadPlan, Timer};
use crate::rivals;
use crate::run::{HourglassError, run};
use crate::stats::wilson;
use schedlab_report::chart::Drawing;
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};
use schedlab_units::{CpuId, CpuSet, SchedPolicy, Span};
use serde_json::{Value, json};

/// Missed deadlines on slide 17: kernel, per cent, throughput beside it.
const SLIDE_17: [(&str, f64, &str); 3] = [
    ("2.4.17 plain, network receive", 33.0, "68 of 94 Mbit/s"),
    ("2.4.17 preemptible and lock breaking, network receive", 0.4, "66 of 94 Mbit/s"),
    ("2.4.7 TimeSys, network receive", 0.0, "59 of 94 Mbit/s"),
];
/// Rows of slide 8.
const RAW_ROWS: usize = 8;

/// Alone, then beside each load.
const LOADS: [Option<Contention>; 4] =
    [None, Some(Contention::Net), Some(Contention::Disk), Some(Contention::Cpu)];

pub(crate) fn periodic() -> ThreadPlan {
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
    for load in LOADS {
        let name = load.map_or("alone", Contention::what);
        if let Some((program, package)) = load.and_then(Contention::lacks) {
            let row = [json!(format!("here, {name}")), json!("ours")];
            let why = format!("not run: {program} is not installed (package {package})");
            misses
                .push([&row[..], &[Value::Null, Value::Null, Value::Null, Value::Null, json!(why)]].concat());
            continue;
        }
        progress(&format!("slide 17: 4 ms every 5 ms, {name}"));
        let loads = load.into_iter().collect();
        let map =
            run(&Plan { duration: each, threads: vec![periodic()], loads, ..Plan::default() }, progress)?;
        notes.extend(map.notes.iter().filter(|note| !notes.contains(*note)).cloned().collect::<Vec<_>>());
        misses.push(measured(&map, name));
        if load.is_some() {
            let caption = format!("Slide 18: 4 ms every 5 ms, {name}.");
            drawings.push(named(&map, &format!("slide-18-{}", drawings.len()), &caption));
        }
    }
    tables.push(misses);
    tables.push(rivals::wakeups(each, progress)?);
    tables.push(rivals::deadlines(each, progress)?);
    tables.push(rivals::busy(each, progress)?);
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
