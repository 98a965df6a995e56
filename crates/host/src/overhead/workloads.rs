//! What does recording cost a whole workload, and the recorder? Each load without and with recording in turn.

use std::ffi::OsString;
use std::time::Instant;

use super::{OverheadOptions, Spread, loads};
use crate::capture::{self, Backend};
use crate::error::HostError;
use crate::events::EventChoice;
use crate::record::{RecordOptions, RecordRequest, Scope, record};

/// What recording one workload costs.
#[derive(Debug, Clone)]
pub struct WorkloadCost {
    /// Its name.
    pub name: &'static str,
    /// Why it could not be measured; then there is nothing else.
    pub missing: Option<&'static str>,
    /// Its own CPU time without recording, in s.
    pub cpu_s: Spread,
    /// Elapsed time without recording, in s.
    pub elapsed_s: Spread,
    /// By each way of recording.
    pub ways: Vec<WayCost>,
}

/// What one way of recording costs.
#[derive(Debug, Clone)]
pub struct WayCost {
    /// ftrace, bpf, or bpf without system calls (on a kernel where those are left to ftrace).
    pub way: &'static str,
    /// Events recorded, per run.
    pub events: Spread,
    /// Events per second of elapsed time.
    pub events_per_s: Spread,
    /// The workload's own CPU time, in s.
    pub cpu_s: Spread,
    /// What recording adds to it, per event in us, run by run.
    pub added_us: Spread,
    /// Elapsed time, in s.
    pub elapsed_s: Spread,
    /// CPU time of taking events from the buffers, while it runs and at the end, per event in us.
    pub drain_us: Spread,
    /// CPU time of writing the file, after it has ended, per event in us.
    pub write_us: Spread,
    /// Bytes of the file per event.
    pub bytes: Spread,
    /// Events lost in all runs.
    pub lost: u64,
}

/// The ways that this kernel has.
fn ways() -> Vec<(&'static str, Backend, EventChoice)> {
    let all = EventChoice::default();
    let mut ways = vec![("ftrace", Backend::Ftrace, all)];
    if let Some(rest) = capture::rest_for_ftrace() {
        ways.push(("bpf", Backend::Bpf, all));
        if rest > 0 {
            ways.push(("bpf, no calls", Backend::Bpf, EventChoice { syscalls: false, ..all }));
        }
    }
    ways
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
    let ways = ways();
    let mut costs = Vec::new();
    for name in loads::LOADS {
        let mut argv = options.load_program.clone();
        argv.push(name.into());
        let missing = loads::missing(name);
        let (mut cpu, mut elapsed) = (Vec::new(), Vec::new());
        let mut samples: Vec<Samples> = ways.iter().map(|_| Samples::default()).collect();
        for run in 0..if missing.is_some() { 0 } else { options.runs } {
            progress(&format!("measuring {name}, {} of {}", run + 1, options.runs));
            let (plain_cpu, plain_elapsed) = plain(&argv)?;
            cpu.push(plain_cpu);
            elapsed.push(plain_elapsed);
            for ((_, backend, events), samples) in ways.iter().zip(&mut samples) {
                let what = RecordRequest::Command { argv: argv.clone(), duration: None, scope: Scope::Whole };
                let recording = RecordOptions {
                    backend: *backend,
                    events: *events,
                    ..RecordOptions::new(folder.path().join("t.dat"), what)
                };
                recorded(&recording, plain_cpu, samples)?;
            }
        }
        costs.push(WorkloadCost {
            name,
            missing,
            cpu_s: Spread::of(cpu),
            elapsed_s: Spread::of(elapsed),
            ways: ways.iter().zip(samples).map(|((way, ..), samples)| samples.cost(way)).collect(),
        });
    }
    Ok(costs)
}

#[derive(Default)]
struct Samples {
    events: Vec<f64>,
    events_per_s: Vec<f64>,
    cpu: Vec<f64>,
    added: Vec<f64>,
    elapsed: Vec<f64>,
    drain: Vec<f64>,
    write: Vec<f64>,
    bytes: Vec<f64>,
    lost: u64,
}

impl Samples {
    fn cost(self, way: &'static str) -> WayCost {
        WayCost {
            way,
            events: Spread::of(self.events),
            events_per_s: Spread::of(self.events_per_s),
            cpu_s: Spread::of(self.cpu),
            added_us: Spread::of(self.added),
            elapsed_s: Spread::of(self.elapsed),
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

/// CPU and elapsed time of a run that nobody records, in s.
fn plain(argv: &[OsString]) -> Result<(f64, f64), HostError> {
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
    Ok((children_cpu_s() - cpu, began.elapsed().as_secs_f64()))
}

fn recorded(options: &RecordOptions, plain_cpu_s: f64, samples: &mut Samples) -> Result<(), HostError> {
    let cpu = children_cpu_s();
    let recorded = record(options, &mut |_| {})?;
    let cpu_s = children_cpu_s() - cpu;
    let elapsed_s = recorded.duration.as_secs_f64();
    let events = (recorded.nr_events() + recorded.nr_lost()).max(1) as f64;
    samples.cpu.push(cpu_s);
    samples.added.push((cpu_s - plain_cpu_s) * 1e6 / events);
    samples.elapsed.push(elapsed_s);
    samples.events.push(events);
    samples.events_per_s.push(events / elapsed_s);
    samples.drain.push(recorded.drain.cpu.as_secs_f64() * 1e6 / events);
    samples.write.push(recorded.write_cpu.as_secs_f64() * 1e6 / events);
    samples.bytes.push(recorded.trace_bytes as f64 / events);
    samples.lost += recorded.nr_lost();
    Ok(())
}
