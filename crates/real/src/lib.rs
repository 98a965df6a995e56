//! What does real Linux do with this workload? Runs it as real processes that spend real CPU time and real sleeps,
//! records the kernel's own trace, and gives it as a schedule log: in a guest, a distributor's kernel in QEMU, or on
//! this machine's own kernel. The two are [`Arm`]s; the program that performs the workload is the same (`init/init.c`).
//!
//! ```text
//!   Workload ──Program──> /program in an initramfs ─┐
//!   Debian's vmlinuz ───────────────────────────────┴─> QEMU, one instruction = 2 ns ──debug console──> frames
//!                                                        (deterministic: same bytes twice)                 │
//!   schedule log <──convert── trace.dat <── ring-buffer pages, format texts <──────────────────────────────┘
//! ```
//!
//! With `-icount` the guest's only clock counts its instructions: a run is a function of kernel, QEMU,
//! workload and options, to the byte, on any host. The price: the clock is not physical. How long kernel code
//! takes (2 ns an instruction, all virtual CPUs sharing one instruction clock) is made up, so that latencies
//! below a tick mean nothing; what is decided by the scheduler on ticks, timers and CPU time is real.
//!
//! ```no_run
//! use schedlab_real::{Arm, GuestKernel, Options, workloads};
//! let arm = Arm::Guest(GuestKernel::find("6.12")?);
//! let fairbench = workloads::named("fairbench", "20s".parse().unwrap())?;
//! let options = Options { cpus: 1, duration: "20s".parse().unwrap(), ..Options::default() };
//! let run = arm.perform(&fairbench, &options, &mut |_| {})?;
//! println!("{} records of {}", run.log.records.len(), run.log.header.sched_version);
//! # Ok::<(), schedlab_real::RealError>(())
//! ```

pub mod cache;
mod convert;
mod emulator;
mod errand;
mod error;
mod frames;
mod host;
mod initramfs;
mod kernel;
mod notes;
mod options;
mod program;
mod progress;
mod qemu;
mod recording;
pub mod workloads;

pub use errand::{Returned, errand};
pub use error::RealError;
pub use kernel::{GuestKernel, Listed, SERIES, list};
pub use options::Options;
pub use progress::{RunStage, on_stderr};
pub use qemu::{GuestRequest, Present, command_line, without_memory};

use schedlab_log::{LogGroup, LogHeader, LogTask, MemLog};
use schedlab_machine::Program;
use schedlab_units::Span;
use schedlab_workload::{Birth, Cgroup, Task, Workload};
use std::collections::BTreeMap;

/// Where real Linux performs a workload.
#[derive(Clone, Debug)]
pub enum Arm {
    /// In QEMU: this kernel, which has the machine to itself.
    Guest(GuestKernel),
    /// On this machine, beside all else that it does.
    Host,
}

impl Arm {
    /// Performs a workload. A guest's run that was made before comes from the cache, unless [`Options::fresh`]. On the
    /// host `progress` is not called.
    ///
    /// # Errors
    /// See [`RealError`]: what is missing on the host, what a guest or this machine cannot do, what went wrong inside.
    pub fn perform(
        &self,
        workload: &Workload,
        options: &Options,
        progress: &mut dyn FnMut(RunStage),
    ) -> Result<RealRun, RealError> {
        match self {
            Arm::Guest(kernel) => run(kernel, workload, options, progress),
            Arm::Host => host::run(workload, options),
        }
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct RealRun {
    /// What happened, in the schema that the machine writes.
    pub log: MemLog,
    /// What the kernel's own books say, and how to make this again.
    pub report: RealReport,
}

/// Everything about a run besides its log.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct RealReport {
    /// Kernel package (or file name).
    pub package: String,
    /// Its version.
    pub package_version: String,
    /// `/proc/version` of the guest.
    pub kernel: String,
    /// `qemu-system-x86_64 --version`.
    pub qemu: String,
    /// QEMU's command line, with bare file names.
    pub command_line: String,
    /// Names this run: of kernel, initramfs, QEMU and command line. Same key, same bytes.
    pub key: String,
    /// What was asked of the guest, whatever kernel and QEMU it ran on.
    pub asked: GuestRequest,
    /// Per task, the kernel's own account (`/proc/PID/schedstat`); `None` for a task that never came to be.
    pub schedstat: Vec<Option<Schedstat>>,
    /// Per task, instructions of computing (those of the kernel and of system calls are not in it). With one
    /// CPU they take `2^shift` ns each; with several busy ones more, since the CPUs share one instruction
    /// clock.
    pub instructions: Vec<u64>,
    /// What was left out or bent, and what the kernel refused: reason -> how often.
    pub dropped: BTreeMap<String, u64>,
    /// How many operations the kernel refused; which and why is among `dropped`. With any, it was another
    /// workload that ran.
    pub nr_refused: u32,
    /// Virtual time from power-on to time 0 of the workload, by the trace's clock.
    pub boot_ns: u64,
    /// Host time QEMU took, in ms; 0 if the run came from the cache.
    pub wall_ms: u64,
}

impl RealReport {
    /// Of `dropped`, what the kernel refused.
    pub fn refused(&self) -> BTreeMap<String, u64> {
        let is_refusal = |(reason, _): &(&String, &u64)| reason.contains(convert::REFUSED);
        self.dropped.iter().filter(is_refusal).map(|(reason, times)| (reason.clone(), *times)).collect()
    }
}

/// `/proc/PID/schedstat`: the task's life to the end of the run, its start before time 0 included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Schedstat {
    /// CPU time.
    pub cpu_ns: u64,
    /// Time runnable without a CPU.
    pub run_delay_ns: u64,
    /// Number of times it was given a CPU.
    pub slices: u64,
}

/// Runs `workload` in a guest.
fn run(
    kernel: &GuestKernel,
    workload: &Workload,
    options: &Options,
    progress: &mut dyn FnMut(RunStage),
) -> Result<RealRun, RealError> {
    options.check()?;
    let program = Program::new(workload)?;
    progress(RunStage::Preparing);
    let guest = qemu::Guest::new(kernel, &program, options)?;
    let output = guest.output(options, progress)?;
    let frames = frames::parse(&output.bytes)?;
    let notes = notes::Notes::of(&frames, &program, options)?;
    let converted = convert::convert(&frames, notes.as_ref(), workload, options)?;
    if let Some(path) = &options.recording {
        recording::write(path, (&frames, notes.as_ref()), workload, options, &converted)?;
    }
    let mut dropped = program.dropped.clone();
    for (reason, count) in converted.dropped {
        *dropped.entry(reason).or_default() += count;
    }
    let header = LogHeader {
        sched: format!("guest-linux-{}", release(&converted.kernel)),
        sched_version: version_text(kernel),
        kernel_threads: converted.kernel_threads,
        ..header(workload, options, kernel.hz, converted.duration_ns)
    };
    Ok(RealRun {
        log: MemLog { header, records: converted.records },
        report: RealReport {
            package: kernel.package.clone(),
            package_version: kernel.version.clone(),
            kernel: converted.kernel,
            qemu: guest.version().to_string(),
            command_line: guest.command_line,
            key: guest.key,
            asked: guest.asked,
            schedstat: converted.schedstat,
            instructions: converted.instructions,
            dropped,
            nr_refused: frames.nr_refused,
            boot_ns: converted.start_ns,
            wall_ms: output.wall_ms,
        },
    })
}

/// What a log's header says of workload and options.
fn header(workload: &Workload, options: &Options, hz: u32, duration_ns: u64) -> LogHeader {
    LogHeader {
        nr_cpus: options.cpus,
        hz,
        duration: Span::from_ns(duration_ns),
        tasks: workload.tasks.iter().map(|task| log_task(workload, task)).collect(),
        params: options.settings.clone(),
        groups: workload.cgroups.iter().map(log_group).collect(),
        ..LogHeader::default()
    }
}

/// `Linux version 6.12.117+deb12-cloud-amd64 (...` -> `6.12`.
fn release(version: &str) -> String {
    let release = version.split_whitespace().nth(2).unwrap_or("unknown");
    let mut parts = release.split(['.', '-']);
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => format!("{major}.{minor}"),
        _ => release.to_string(),
    }
}

fn version_text(kernel: &GuestKernel) -> String {
    let version = if kernel.version.is_empty() { &kernel.package } else { &kernel.version };
    format!("{version}, HZ={}", kernel.hz)
}

fn log_task(workload: &Workload, task: &Task) -> LogTask {
    LogTask {
        pid: task.pid,
        name: task.name.clone(),
        params: workload.inherited(task, |t| t.params).unwrap_or_default(),
        affinity: workload.inherited(task, |t| t.affinity.clone()),
        parent: match task.birth {
            Birth::Init { parent, .. } => parent,
            Birth::Fork { parent } => Some(parent),
        },
        group: workload.inherited(task, |t| t.cgroup).map(|group| group.0),
    }
}

fn log_group(group: &Cgroup) -> LogGroup {
    let max = group.max.map(|max| (max.quota, max.period));
    LogGroup { path: group.path.clone(), max, cpuset: group.cpuset.clone() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn releases_are_shortened() {
        assert_eq!(super::release("Linux version 6.12.117+deb12-cloud-amd64 (x@y) (gcc)"), "6.12");
        assert_eq!(super::release("Linux version 6.1.0-56-cloud-amd64 (x@y)"), "6.1");
        assert_eq!(super::release("nonsense"), "unknown");
    }
}
