//! What does recording cost a whole workload, and the recorder? Each load without and with recording in turn.

use std::ffi::OsString;
use std::time::Instant;

use super::{OverheadOptions, Spread, loads};
use crate::error::HostError;
use crate::record::{RecordOptions, Scope, What, record};

/// What recording one workload costs.
#[derive(Debug, Clone)]
pub struct WorkloadCost {
    /// Its name.
    pub name: &'static str,
    /// Why it could not be measured; then all else is zero.
    pub missing: Option<&'static str>,
    /// Events recorded, per run.
    pub events: Spread,
    /// Events per second of elapsed time.
    pub events_per_s: Spread,
    /// Its own CPU time without recording, in s.
    pub cpu_plain_s: Spread,
    /// And with.
    pub cpu_recorded_s: Spread,
    /// Elapsed time without recording, in s.
    pub elapsed_plain_s: Spread,
    /// And with.
    pub elapsed_recorded_s: Spread,
    /// CPU time of taking events from the buffers, while it runs and at the end, per event in us.
    pub drain_us: Spread,
    /// CPU time of writing the file, after it has ended, per event in us.
    pub write_us: Spread,
    /// Bytes of the file per event.
    pub bytes: Spread,
    /// Events lost.
    pub lost: u64,
}

pub(super) fn measure(
    options: &OverheadOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<WorkloadCost>, HostError> {
    if options.runs == 0 {
        return Ok(Vec::new());
    }
    let folder =
        tempfile::tempdir().map_err(HostError::io("cannot make a folder in", std::env::temp_dir()))?;
    let mut costs = Vec::new();
    for name in loads::LOADS {
        let mut argv = options.load_program.clone();
        argv.push(name.into());
        let mut samples = Samples::default();
        let missing = loads::missing(name);
        for run in 0..if missing.is_some() { 0 } else { options.runs } {
            progress(&format!("measuring {name}, {} of {}", run + 1, options.runs));
            plain(&argv, &mut samples)?;
            recorded(&argv, &folder.path().join("t.dat"), &mut samples)?;
        }
        costs.push(samples.cost(name, missing));
    }
    Ok(costs)
}

#[derive(Default)]
struct Samples {
    events: Vec<f64>,
    events_per_s: Vec<f64>,
    cpu_plain: Vec<f64>,
    cpu_recorded: Vec<f64>,
    elapsed_plain: Vec<f64>,
    elapsed_recorded: Vec<f64>,
    drain: Vec<f64>,
    write: Vec<f64>,
    bytes: Vec<f64>,
    lost: u64,
}

impl Samples {
    fn cost(self, name: &'static str, missing: Option<&'static str>) -> WorkloadCost {
        WorkloadCost {
            name,
            missing,
            events: Spread::of(self.events),
            events_per_s: Spread::of(self.events_per_s),
            cpu_plain_s: Spread::of(self.cpu_plain),
            cpu_recorded_s: Spread::of(self.cpu_recorded),
            elapsed_plain_s: Spread::of(self.elapsed_plain),
            elapsed_recorded_s: Spread::of(self.elapsed_recorded),
            drain_us: Spread::of(self.drain),
            write_us: Spread::of(self.write),
            bytes: Spread::of(self.bytes),
            lost: self.lost,
        }
    }
}

/// CPU time of children that have ended, in s.
fn children_cpu_s() -> f64 {
    // SAFETY: fills a local.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn plain(argv: &[OsString], samples: &mut Samples) -> Result<(), HostError> {
    let (cpu, began) = (children_cpu_s(), Instant::now());
    let (program, arguments) = argv.split_first().ok_or(HostError::Option {
        option: "load_program",
        value: String::new(),
        expected: "a program",
    })?;
    let status = std::process::Command::new(program).args(arguments).status();
    let failed = |source| HostError::Command { command: program.to_string_lossy().into_owned(), source };
    if !status.map_err(failed)?.success() {
        return Err(failed(std::io::Error::other("the load failed")));
    }
    samples.elapsed_plain.push(began.elapsed().as_secs_f64());
    samples.cpu_plain.push(children_cpu_s() - cpu);
    Ok(())
}

fn recorded(argv: &[OsString], output: &std::path::Path, samples: &mut Samples) -> Result<(), HostError> {
    let what = What::Command { argv: argv.to_vec(), duration: None, scope: Scope::Whole };
    let cpu = children_cpu_s();
    let recorded = record(&RecordOptions::new(output, what), &mut |_| {})?;
    samples.cpu_recorded.push(children_cpu_s() - cpu);
    let elapsed_s = recorded.duration.as_secs_f64();
    samples.elapsed_recorded.push(elapsed_s);
    let events = (recorded.nr_events() + recorded.nr_lost()).max(1) as f64;
    samples.events.push(events);
    samples.events_per_s.push(events / elapsed_s);
    samples.drain.push(recorded.drain.cpu.as_secs_f64() * 1e6 / events);
    samples.write.push(recorded.write_cpu.as_secs_f64() * 1e6 / events);
    samples.bytes.push(recorded.trace_bytes as f64 / events);
    samples.lost += recorded.nr_lost();
    Ok(())
}
