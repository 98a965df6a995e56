//! What does this machine's own kernel do with a workload? The guest's program, run here and recorded by tracefs.
//!
//! Times are physical and costs are real; but other processes of the machine take part, and no run is like another.

use crate::initramfs::Extra;
use crate::{
    Options, RealError, RealReport, RealRun, convert, frames, header, initramfs, kernel, program, release,
};
use schedlab_host::{Backend, EventChoice, RecordOptions, RecordRequest, Scope};
use schedlab_log::{LogHeader, MemLog};
use schedlab_machine::Program;
use schedlab_workload::Workload;
use std::path::Path;
use std::process::Command;

/// Ring buffer per CPU: other processes fill it too.
const BUFFER_KIB: u32 = 32 * 1024;

/// Runs `workload` on the first CPUs of this machine. Needs root: tracing, real-time tasks, chosen pids.
///
/// # Errors
/// See [`RealError`]: control groups and settings are refused (they would change the machine), and what the
/// host refuses.
pub(crate) fn run(workload: &Workload, options: &Options) -> Result<RealRun, RealError> {
    options.check()?;
    let refuse = |what: &str, value: String, expected: &str| {
        Err(RealError::Unsupported { what: what.to_string(), value, expected: expected.to_string() })
    };
    if !workload.cgroups.is_empty() || !options.settings.is_empty() {
        return refuse(
            "the number of control groups and settings",
            (workload.cgroups.len() + options.settings.len()).to_string(),
            "none on this machine itself, only in a guest",
        );
    }
    let online = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    if options.cpus > online {
        return refuse(
            "the number of CPUs",
            options.cpus.to_string(),
            &format!("at most this machine's {online}"),
        );
    }
    let program = Program::new(workload)?;
    let first_pid = free_pids(program.tasks.len() as u32)?;
    let temporary = std::env::temp_dir();
    let work = tempfile::Builder::new()
        .prefix(&schedlab_process::prefix_in(&temporary, "schedlab-host-"))
        .tempdir()
        .map_err(RealError::io("make a directory in", &temporary))?;
    let at = |name: &str| work.path().join(name);
    crate::cache::write(&at("program"), &program::encode(&program, options, first_pid)?)?;
    let executes = program::executes(&program);
    let extras: &[Extra] = if executes { &[Extra::Exec] } else { &[] };
    let runner = initramfs::init_binary(initramfs::Runs::Host, extras)?;
    let argv = [runner, at("program"), at("output")].map(Into::into).to_vec();
    let what = RecordRequest::Command { argv, scope: Scope::Whole, duration: None };
    let record = RecordOptions {
        backend: Backend::Ftrace, // with which the agreement was measured
        buffer_kb: BUFFER_KIB,
        events: EventChoice { execs: executes, ..EventChoice::default() },
        ..RecordOptions::new(at("trace.dat"), what)
    };
    let recorded = schedlab_host::record(&record, &mut |_| {})?;
    let output = at("output");
    let bytes = std::fs::read(&output).map_err(RealError::io("read", &output))?;
    let said = frames::parse(&bytes)?;
    let converted = convert::convert_host(&recorded.trace, &said, first_pid, workload, options)?;
    let mut dropped = program.dropped.clone();
    for (reason, count) in converted.dropped {
        *dropped.entry(reason).or_default() += count;
    }
    let release_name = converted.kernel.split_whitespace().nth(2).unwrap_or("unknown").to_string();
    let header = LogHeader {
        sched: format!("host-linux-{}", release(&converted.kernel)),
        sched_version: release_name.clone(),
        kernel_threads: converted.kernel_threads,
        ..header(workload, options, hz(&release_name), converted.duration_ns)
    };
    Ok(RealRun {
        log: MemLog { header, records: converted.records },
        report: RealReport {
            package: "this machine".to_string(),
            package_version: release_name,
            kernel: converted.kernel,
            qemu: String::new(),
            command_line: String::new(),
            key: String::new(),
            asked: crate::GuestRequest::default(),
            schedstat: converted.schedstat,
            instructions: converted.instructions,
            dropped,
            nr_refused: said.nr_refused,
            boot_ns: 0,
            wall_ms: options.duration.as_ns() / 1_000_000,
        },
    })
}

/// CONFIG_HZ of the running kernel, where it can be found; else 250.
fn hz(release: &str) -> u32 {
    let packed = kernel::output(Command::new("zcat").arg("/proc/config.gz")).ok();
    let text = packed.or_else(|| std::fs::read_to_string(format!("/boot/config-{release}")).ok());
    let text = text.unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok()).unwrap_or(250)
}

/// As many free pids in a row, high up: their pids distinguish the tasks from others.
fn free_pids(count: u32) -> Result<u32, RealError> {
    let path = Path::new("/proc/sys/kernel/pid_max");
    let text = std::fs::read_to_string(path).map_err(RealError::io("read", path))?;
    let pid_max: u32 = text.trim().parse().unwrap_or(32_768);
    let taken = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
    let mut first = pid_max.saturating_sub(count + 1000);
    while first > 300 {
        match (first..first + count).rev().find(|pid| taken(*pid)) {
            None => return Ok(first),
            Some(pid) => first = pid.saturating_sub(count + 1),
        }
    }
    Err(RealError::Unsupported {
        what: "the number of tasks".to_string(),
        value: count.to_string(),
        expected: format!("as many free process numbers in a row (of {pid_max})"),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn free_pids_are_free() {
        let first = super::free_pids(50).unwrap();
        assert!((first..first + 50).all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()));
    }
}
