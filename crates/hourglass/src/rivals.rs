//! Do other programs measure the same? Ours, the rival's, ours again, in the same minute.
//!
//! | rival | measures | beside ours |
//! |---|---|---|
//! | cyclictest, `rtla timerlat` | how late a real-time thread wakes every 5 ms | `LATENCY 5ms` |
//! | rt-app | the same; and 4 ms of every 5 ms | the same; `PERIODIC 4ms 5ms` |
//! | oslat, `rtla osnoise` | the longest time that a thread which computes does not | `CPU` |
//!
//! The last column of a table says how far the rival's number is from ours. What is not installed, and what the
//! kernel cannot do, is a row that says so.

use crate::linux::let_timer_signals_through;
use crate::loads::is_there;
use crate::plan::{Class, Model, Plan, ThreadPlan};
use crate::reproduced::periodic;
use crate::run::{HourglassError, run};
use crate::stats::{Estimate, wilson};
use schedlab_report::table::{Column, Table};
use schedlab_stdx::percentile::nearest;
use schedlab_units::{CpuId, CpuSet, SchedPolicy, Span};
use serde_json::{Value, json};
use std::process::{Command, Output};

/// Lateness in ns, in order; or why there is none.
type Late = Result<Vec<u64>, String>;

/// Lateness of a real-time thread that wakes every 5 ms, ours; and its class.
fn ours(each: Span) -> Result<(Vec<u64>, String), HourglassError> {
    let class = Class::real_time(SchedPolicy::Fifo, 98);
    let model = Model::Latency { period: Span::from_ms(5) };
    let thread = ThreadPlan { model, class, cpus: Some(CpuSet::single(CpuId(0))), ..ThreadPlan::default() };
    let map = run(&Plan { duration: each, threads: vec![thread], ..Plan::default() }, &|_| {})?;
    Ok((map.threads[0].lateness_ns(), map.threads[0].plan.class.to_string()))
}

fn whole_seconds(each: Span) -> String {
    each.as_ns().div_ceil(1_000_000_000).to_string()
}

/// What a program says, if it is there and ends well. It is started from a thread of its own, which blocks no
/// signal: `oslat` ends by an alarm.
fn said_by(command: &mut Command, package: &str) -> Result<String, String> {
    let mut run = || -> std::io::Result<Output> {
        std::thread::scope(|scope| {
            let started = scope.spawn(|| {
                let_timer_signals_through();
                command.output()
            });
            started.join().expect("starting a program does not panic")
        })
    };
    match run() {
        Err(error) => Err(format!("{error}; it is in the package {package}")),
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => {
            let said = [output.stderr, output.stdout].concat();
            let said = String::from_utf8_lossy(&said).trim().to_string();
            Err(said.lines().next().unwrap_or("it failed").to_string())
        }
    }
}

/// Wakeups every 5 ms.
pub(crate) fn wakeups(each: Span, progress: &dyn Fn(&str)) -> Result<Table, HourglassError> {
    let columns = vec![
        Column::new("tool", "", "who measured"),
        Column::new("wakeups", "", "how many"),
        Column::new("p50_us", "us", "median lateness of a wakeup"),
        Column::new("p99_us", "us", "99 of 100 were less late"),
        Column::new("max_us", "us", "the worst"),
        Column::new("less_ours_us", "us", "its median less the mean of our two"),
        Column::new("remark", "", "class; or why there is nothing"),
    ];
    let mut table = Table::new("rivals", "A real-time thread that wakes every 5 ms", columns);
    progress("wakeups, ours");
    let (first, class) = ours(each)?;
    type Rival = (&'static str, fn(Span) -> Late, &'static str);
    let rivals: [Rival; 3] = [
        ("cyclictest", cyclictest, "fifo 98; whole us"),
        ("rt-app", rt_app_wakeups, "fifo 98; whole us, its wu_lat"),
        ("rtla timerlat", timerlat, "fifo 98; the kernel's own timer"),
    ];
    let mut measured = Vec::new();
    for (name, measure, remark) in rivals {
        progress(name);
        measured.push((name, measure(each), remark));
    }
    progress("wakeups, ours again");
    let (second, _) = ours(each)?;
    let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1000.0);
    let median = |late: &[u64]| us(nearest(late, 500));
    let mean = median(&first).zip(median(&second)).map(|(a, b)| (a + b) / 2.0);
    let row = |tool: &str, late: &[u64], less: Option<f64>, remark: &str| {
        let [p50, p99] = [500, 990].map(|at| json!(us(nearest(late, at))));
        let less = less.map(|less| (less * 10.0).round() / 10.0);
        vec![
            json!(tool),
            json!(late.len()),
            p50,
            p99,
            json!(us(late.last().copied())),
            json!(less),
            json!(remark),
        ]
    };
    table.push(row("hourglass", &first, None, &class));
    for (name, late, remark) in measured {
        match late {
            Ok(late) => {
                let less = median(&late).zip(mean).map(|(rival, ours)| rival - ours);
                table.push(row(name, &late, less, remark));
            }
            Err(why) => table.push(row(name, &[], None, &why)),
        }
    }
    table.push(row("hourglass again", &second, None, &class));
    Ok(table)
}

fn cyclictest(each: Span) -> Late {
    let seconds = whole_seconds(each);
    let line = ["-q", "-t1", "-a0", "-p98", "-i5000", "-h100000", "-D", &seconds];
    said_by(Command::new("cyclictest").args(line), "rt-tests").map(|text| cyclictest_histogram(&text))
}

/// `cyclictest`'s histogram, as lateness in ns, in order: `000012 000345` is 345 times 12 us.
fn cyclictest_histogram(text: &str) -> Vec<u64> {
    let mut late = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        if let (Some(Ok(us)), Some(Ok(times))) = (numbers.next(), numbers.next()) {
            late.extend(std::iter::repeat_n(us * 1000, times.min(10_000_000) as usize));
        }
    }
    late
}

/// A line of `rt-app`'s log of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RtAppLoop {
    /// Time from the end of the job to its period's.
    slack_us: i64,
    /// How late it was woken.
    late_us: u64,
}

/// Runs one thread of `rt-app`: so much computing every 5 ms, FIFO 98, on CPU 0.
fn rt_app(each: Span, run_us: u64) -> Result<Vec<RtAppLoop>, String> {
    let trouble = |error: std::io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(trouble)?;
    let description = json!({
        "global": {
            "duration": each.as_ns().div_ceil(1_000_000_000), "calibration": "CPU0", "default_policy": "SCHED_FIFO",
            "lock_pages": true, "gnuplot": false, "logdir": folder.path().display().to_string(),
            "log_basename": "rival",
        },
        "tasks": { "t": { "priority": 98, "cpus": [0], "loop": -1, "run": run_us,
            "timer": { "ref": "tick", "period": 5000, "mode": "absolute" } } },
    });
    let path = folder.path().join("rival.json");
    std::fs::write(&path, description.to_string()).map_err(trouble)?;
    said_by(Command::new("rt-app").arg(&path), "rt-app")?;
    let log = std::fs::read_to_string(folder.path().join("rival-t-0.log")).map_err(trouble)?;
    Ok(rt_app_log(&log))
}

/// The columns are named in the log's head; the first line is of a thread that has just begun.
fn rt_app_log(text: &str) -> Vec<RtAppLoop> {
    let head = text.lines().find(|line| line.starts_with("#idx")).unwrap_or_default();
    let place = |name: &str| head.split_whitespace().position(|word| word.trim_start_matches('#') == name);
    let (Some(slack), Some(late)) = (place("slack"), place("wu_lat")) else { return Vec::new() };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let loops = lines.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(RtAppLoop { slack_us: words.get(slack)?.parse().ok()?, late_us: words.get(late)?.parse().ok()? })
    });
    loops.skip(1).collect()
}

fn rt_app_wakeups(each: Span) -> Late {
    let loops = rt_app(each, 100)?;
    let mut late: Vec<u64> = loops.iter().map(|one| one.late_us * 1000).collect();
    late.sort_unstable();
    Ok(late)
}

/// Why `rtla`'s tracer cannot be used here; `None`: it can.
fn lacks_tracer(name: &str) -> Option<String> {
    if !is_there("rtla") {
        return Some("rtla is not installed; it is in the package rtla".into());
    }
    let known = ["/sys/kernel/tracing/available_tracers", "/sys/kernel/debug/tracing/available_tracers"]
        .into_iter()
        .find_map(|path| std::fs::read_to_string(path).ok());
    match known {
        Some(tracers) if tracers.split_whitespace().any(|tracer| tracer == name) => None,
        Some(_) => Some(format!("this kernel has no tracer {name} (CONFIG_{}_TRACER)", name.to_uppercase())),
        None => {
            Some("which tracers the kernel has cannot be seen: tracefs is not mounted, or not for us".into())
        }
    }
}

fn timerlat(each: Span) -> Late {
    if let Some(why) = lacks_tracer("timerlat") {
        return Err(why);
    }
    let line = ["timerlat", "hist", "-c", "0", "-p", "5000", "-P", "f:98", "-E", "100000", "--no-irq"];
    let text = said_by(Command::new("rtla").args(line).args(["-d", &whole_seconds(each)]), "rtla")?;
    Ok(timerlat_histogram(&text))
}

/// `rtla timerlat hist`: lines of us and how often (of the thread).
fn timerlat_histogram(text: &str) -> Vec<u64> {
    let rows = text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    cyclictest_histogram(&rows.map(|row| format!("{row}\n")).collect::<String>())
}

/// 4 ms every 5 ms, the share of deadlines missed.
pub(crate) fn deadlines(each: Span, progress: &dyn Fn(&str)) -> Result<Table, HourglassError> {
    let columns = vec![
        Column::new("tool", "", "who measured"),
        Column::new("jobs", "", "deadlines"),
        Column::new("missed_pct", "%", "of them missed"),
        Column::new("low_pct", "%", "lower end of the 95 % interval"),
        Column::new("high_pct", "%", "upper end"),
        Column::new("remark", "", "whether the intervals meet; or why there is nothing"),
    ];
    let mut table = Table::new("rivals-deadlines", "4 ms every 5 ms at real-time priority", columns);
    let pct = |share: f64| json!((share * 10_000.0).round() / 100.0);
    let row = |tool: &str, share: Option<Estimate>, remark: String| match share {
        Some(e) => vec![json!(tool), json!(e.n), pct(e.value), pct(e.low), pct(e.high), json!(remark)],
        None => vec![json!(tool), json!(0), Value::Null, Value::Null, Value::Null, json!(remark)],
    };
    let own = || -> Result<Option<Estimate>, HourglassError> {
        let thread = ThreadPlan { cpus: Some(CpuSet::single(CpuId(0))), ..periodic() };
        let map = run(&Plan { duration: each, threads: vec![thread], ..Plan::default() }, &|_| {})?;
        let jobs = map.threads[0].jobs().unwrap_or_default();
        Ok(wilson(jobs.missed, jobs.count))
    };
    progress("deadlines, ours");
    let first = own()?;
    progress("rt-app");
    let rival = rt_app(each, 4000);
    progress("deadlines, ours again");
    let second = own()?;
    table.push(row("hourglass", first, String::new()));
    match rival {
        Ok(loops) => {
            let missed = loops.iter().filter(|one| one.slack_us < 0).count() as u64;
            let share = wilson(missed, loops.len() as u64);
            let meets = |ours: Option<Estimate>| {
                share.zip(ours).is_some_and(|(a, b)| a.low <= b.high && b.low <= a.high)
            };
            let remark = if meets(first) || meets(second) { "agrees" } else { "does not agree" };
            table.push(row(
                "rt-app",
                share,
                format!("{remark}; its 4 ms are a count of turns, calibrated at its start"),
            ));
        }
        Err(why) => table.push(row("rt-app", None, why)),
    }
    table.push(row("hourglass again", second, String::new()));
    Ok(table)
}

/// The last of a line of `oslat`'s numbers, as in `   Maximum:\t 12 34 (us)`.
fn oslat_line(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().filter_map(|word| word.parse().ok()).next_back()
}

fn oslat(each: Span, cpu: u32) -> Result<f64, String> {
    let line = ["-c", &cpu.to_string(), "-D", &whole_seconds(each)];
    let text = said_by(Command::new("oslat").args(line), "rt-tests")?;
    oslat_line(&text, "Maximum").ok_or_else(|| "it says no maximum".into())
}

/// `rtla osnoise top`: its last line is `CPU #periods runtime noise %available max-noise max-single ...`.
fn osnoise(each: Span, cpu: u32) -> Result<f64, String> {
    if let Some(why) = lacks_tracer("osnoise") {
        return Err(why);
    }
    let line = ["osnoise", "top", "-q", "-c", &cpu.to_string(), "-d", &whole_seconds(each)];
    let text = said_by(Command::new("rtla").args(line), "rtla")?;
    osnoise_line(&text).ok_or_else(|| "it says no maximum".into())
}

fn osnoise_line(text: &str) -> Option<f64> {
    let row = text.lines().rev().find(|line| line.contains('#') && !line.contains("CPU"))?;
    row.split_whitespace().nth(6)?.parse().ok()
}

/// Gaps of a thread that computes alone on the last CPU.
pub(crate) fn busy(each: Span, progress: &dyn Fn(&str)) -> Result<Table, HourglassError> {
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
    progress("gaps, ours");
    table.push([vec![json!("hourglass")], ours()?].concat());
    type Rival = (&'static str, fn(Span, u32) -> Result<f64, String>, &'static str);
    let rivals: [Rival; 2] =
        [("oslat", oslat, "whole us"), ("rtla osnoise", osnoise, "the longest single noise, whole us")];
    for (name, measure, remark) in rivals {
        progress(name);
        let (longest, remark) = match measure(each, cpu) {
            Ok(longest) => (Some(longest), remark.to_string()),
            Err(why) => (None, why),
        };
        table.push(vec![json!(name), json!(longest), json!(remark)]);
    }
    table.push([vec![json!("hourglass again")], ours()?].concat());
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_read() {
        let text =
            "# /dev/cpu_dma_latency set to 0us\n000011 000000\n000012 000003\n000040 000001\n# Total: 4\n";
        assert_eq!(cyclictest_histogram(text), [12_000, 12_000, 12_000, 40_000]);
        let text = "# RTLA timerlat histogram\n# Duration:   0 00:00:02\nIndex   Thr-000\n3             2\n9      1\n\
            over:         0\ncount:        3\nmin:          3\n";
        assert_eq!(timerlat_histogram(text), [3000, 3000, 9000]);
    }

    /// A log of rt-app 1.0 (Debian).
    #[test]
    fn the_log_of_rt_app_is_read() {
        let text = "# Policy : SCHED_FIFO priority : 98\n\
            #idx perf run period start end rel_st slack c_duration c_period wu_lat\n\
            \x20 0 1886 60 4938 1392312052 1392316990 10722 4808 100 5000 65\n\
            \x20 0 1886 40 5010 1394286978 1394291988 1985648 -905 100 5000 64\n";
        assert_eq!(rt_app_log(text), [RtAppLoop { slack_us: -905, late_us: 64 }]);
        assert!(rt_app_log("nonsense").is_empty());
    }

    #[test]
    fn lines_of_the_others_are_read() {
        let text =
            "    Core:\t 0 1\n Minimum:\t 1 1 (us)\n Maximum:\t 19 1204 (us)\n Max-Min:\t 18 1203 (us)\n";
        assert_eq!(oslat_line(text, "Maximum"), Some(1204.0));
        assert_eq!(oslat_line("", "Maximum"), None);
        let text = "CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW\n  \
            0 #59         59000000       3254   99.99448         122           61          5\n";
        assert_eq!(osnoise_line(text), Some(61.0));
    }
}
