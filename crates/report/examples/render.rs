//! Every output of a log, to look at: `cargo run --release -p schedlab-report --example render -- OUTDIR
//! [LOG...]`; without LOG synthetic ones of 2 and 8 CPUs. `SECONDS=60` makes the synthetic ones longer.

use schedlab_instruments::verify;
use schedlab_log::{Log, RawLog, synthetic::Config, to_bytes};
use schedlab_report::*;
use schedlab_units::Span;
use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

fn synthetic(nr_cpus: u32, seconds: u64) -> Result<Box<dyn Log>, Box<dyn Error>> {
    let mut spill = BufWriter::with_capacity(1 << 18, tempfile::tempfile()?);
    let config = Config { nr_cpus, duration: Span::from_s(seconds), jobs: 2 * nr_cpus, ..Config::default() };
    let mut result = Ok(());
    let header = config.generate(&mut |record| {
        if result.is_ok() {
            result = spill.write_all(&to_bytes(record));
        }
    });
    result?;
    Ok(Box::new(RawLog::open(spill.into_inner()?, header)?))
}

/// CPU time of this thread so far: wall time means little on a busy machine.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0)
}

fn timed<T>(what: &str, records: u64, work: impl FnOnce() -> T) -> T {
    let start = cpu_ns();
    let result = work();
    let ns = cpu_ns() - start;
    eprintln!("{what:<12} {:>8.1} ms {:>8.1} ns per record", ns * 1e-6, ns / records.max(1) as f64);
    result
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("usage: render OUTDIR [LOG...]")?);
    std::fs::create_dir_all(&folder)?;
    let paths: Vec<String> = args.collect();
    let mut logs: Vec<Box<dyn Log>> = Vec::new();
    for path in &paths {
        logs.push(schedlab_log::open(Path::new(path))?);
    }
    if logs.is_empty() {
        let seconds = std::env::var("SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2);
        logs.push(synthetic(2, seconds)?);
        logs.push(synthetic(8, seconds)?);
    }
    let mut runs = Vec::new();
    for (n, log) in logs.iter().enumerate() {
        let mut records = 0;
        schedlab_log::for_each(&**log, |_, _| -> Result<(), schedlab_log::LogError> {
            records += 1;
            Ok(())
        })?;
        eprintln!("log {n}: {records} records");
        timed("read", records, || {
            let mut sum = 0u64;
            schedlab_log::for_each(&**log, |_, r| -> Result<(), schedlab_log::LogError> {
                sum = sum.wrapping_add(r.time_ns);
                Ok(())
            })
        })?;
        let verdict = timed("verify", records, || verify(&**log))?;
        if !verdict.is_clean() {
            eprintln!("{} violations, first: {}", verdict.nr_violations, verdict.violations[0]);
        }
        let summary = timed("summarize", records, || schedlab_instruments::summarize(&**log))?;
        summary.check_time()?;
        let facts = RunFacts {
            workload: paths.get(n).cloned().unwrap_or("a synthetic build".to_string()),
            command: "cargo run --release -p schedlab-report --example render".to_string(),
            end: "stopped at the end of the log".to_string(),
            ..RunFacts::default()
        };
        let detail = Detail::for_html(logs.len());
        let run = timed("timeline", records, || RunReport::with_summary(&**log, summary, facts, detail))?;
        let name = |extension: &str| folder.join(format!("run{n}.{extension}"));
        timed("text", records, || schedlab_log::write(&name("log"), &**log))?;
        timed("arrow", records, || schedlab_log::write(&name("arrow"), &**log))?;
        let stats =
            timed("perfetto", records, || perfetto(&name("perfetto"), &**log, PerfettoOptions::default()))?;
        eprintln!("{stats:?}");
        timed("json", records, || {
            json(run.view(), &mut BufWriter::new(std::fs::File::create(name("json"))?))
        })?;
        print!("{}", terminal(&run, Style::detect()));
        html(&folder.join(format!("run{n}.html")), "A synthetic build", std::slice::from_ref(&run))?;
        runs.push(run);
    }
    timed("html", 1, || html(&folder.join("all.html"), "A synthetic build on 2 and on 8 CPUs", &runs))?;
    Ok(())
}
