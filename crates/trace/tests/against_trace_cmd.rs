//! Do we read the same as trace-cmd? The texts in tests/data are what `trace-cmd report -R -N -t` (3.1.6) printed.

mod support;

use schedlab_trace::write::{Compression, FileVersion, TraceDatWriter, WriteOptions};
use schedlab_trace::{EventStream, Mode, SchedEvent, Syscall, TaskState, TraceEvent, TraceFile, Wake};
use support::{data, read_all};

/// One line of the report: `comm-PID [CPU] SECONDS.NANOSECONDS: event: fields`, as `time cpu pid event: fields`.
fn report(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(data(name)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("cpus="));
    lines
        .map(|line| {
            if let Some(rest) = line.strip_prefix("CPU:") {
                let (cpu, rest) = rest.split_once(" [").unwrap();
                return format!("cpu {cpu} lost {}", rest.split_once(' ').unwrap().0);
            }
            let (task, rest) = line.split_once('[').unwrap();
            let (cpu, rest) = rest.split_once("] ").unwrap();
            let (time, rest) = rest.trim_start().split_once(": ").unwrap();
            let (seconds, ns) = time.split_once('.').unwrap();
            let time_ns: u64 = seconds.parse::<u64>().unwrap() * 1_000_000_000 + ns.parse::<u64>().unwrap();
            let pid = task.trim_end().rsplit_once('-').unwrap().1;
            let fields: Vec<&str> = rest.split_whitespace().collect();
            format!("{time_ns} {} {pid} {}", cpu.parse::<u32>().unwrap(), fields.join(" "))
        })
        .collect()
}

/// The same text from our events. Fields that [`SchedEvent`] does not keep are cut from the report by [`shortened`].
fn line(events: &EventStream<'_>, event: &TraceEvent) -> String {
    let comm = |id| events.comm(id);
    let wake = |name: &str, w: Wake| {
        format!(
            "{name}: comm={} pid={} prio={} target_cpu={:03}",
            comm(w.comm),
            w.pid,
            w.prio,
            w.target_cpu.0
        )
    };
    let what = match event.what {
        SchedEvent::Lost { count } => return format!("cpu {} lost {}", event.cpu.0, count.unwrap()),
        SchedEvent::Switch { prev, prev_state, next } => format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={} next_comm={} next_pid={} next_prio={}",
            comm(prev.comm),
            prev.pid,
            prev.prio,
            state_number(prev_state),
            comm(next.comm),
            next.pid,
            next.prio
        ),
        SchedEvent::Waking(w) => wake("sched_waking", w),
        SchedEvent::Wakeup(w) => wake("sched_wakeup", w),
        SchedEvent::WakeupNew(w) => wake("sched_wakeup_new", w),
        SchedEvent::Fork { parent, child, child_comm } => {
            format!(
                "sched_process_fork: parent_pid={parent} child_comm={} child_pid={child}",
                comm(child_comm)
            )
        }
        SchedEvent::Exec { pid, old_pid } => format!("sched_process_exec: pid={pid} old_pid={old_pid}"),
        SchedEvent::Exit { pid, comm: name, prio } => {
            format!("sched_process_exit: comm={} pid={pid} prio={prio}", comm(name))
        }
        SchedEvent::Migrate { pid, prio, orig_cpu, dest_cpu } => format!(
            "sched_migrate_task: pid={pid} prio={prio} orig_cpu={} dest_cpu={}",
            orig_cpu.0, dest_cpu.0
        ),
        SchedEvent::IrqEntry { irq } => format!("irq_handler_entry: irq={irq}"),
        SchedEvent::IrqExit { irq } => format!("irq_handler_exit: irq={irq}"),
        SchedEvent::SoftIrqEntry { vec } => format!("softirq_entry: vec={vec}"),
        SchedEvent::SoftIrqExit { vec } => format!("softirq_exit: vec={vec}"),
        SchedEvent::SysEnter(Syscall::SchedYield) => "sys_enter_sched_yield:".to_string(),
        SchedEvent::SysEnter(Syscall::SetPriority { which, who, nice }) => {
            format!("sys_enter_setpriority: which=0x{which:08x} who=0x{who:08x} niceval=0x{nice:08x}")
        }
        SchedEvent::SysEnter(Syscall::SchedSetScheduler { pid, policy }) => {
            format!("sys_enter_sched_setscheduler: pid=0x{:08x} policy=0x{policy:08x}", pid.0)
        }
        SchedEvent::SysExit { ret, .. } => format!("sys_exit: ret=0x{ret:x}"),
        other => panic!("not in these traces: {other:?}"),
    };
    format!("{} {} {} {what}", event.time_ns, event.cpu.0, event.pid)
}

/// Linux 6.18's numbers.
fn state_number(state: TaskState) -> i32 {
    match state {
        TaskState::Running => 0,
        TaskState::Interruptible => 1,
        TaskState::Uninterruptible => 2,
        TaskState::Dead => 0x10,
        TaskState::Zombie => 0x20,
        TaskState::Idle => 0x80,
        TaskState::RunningPreempted => 0x100,
        other => panic!("not in these traces: {other:?}"),
    }
}

/// A report's line without what our events leave out.
fn shortened(line: &str) -> String {
    let dropped = ["filename=", "name=", "__syscall_nr=", "group_dead=", "param=", "parent_comm="];
    let migrate = line.contains("sched_migrate_task:");
    let irq_exit = line.contains("irq_handler_exit:");
    let words = line.split(' ').filter(|word| {
        let left_out = dropped.iter().any(|key| word.starts_with(key))
            || (migrate && word.starts_with("comm="))
            || (irq_exit && word.starts_with("ret="));
        !left_out
    });
    words
        .map(|word| if word.starts_with("sys_exit_") { "sys_exit:" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

fn assert_same(path: &std::path::Path, report_name: &str) {
    let file = TraceFile::open(path, Mode::Strict).unwrap();
    let (events, stream) = read_all(&file).unwrap();
    let ours: Vec<String> = events.iter().map(|event| line(&stream, event)).collect();
    let theirs: Vec<String> = report(report_name).iter().map(|line| shortened(line)).collect();
    assert!(ours.len() > 100);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{}", path.display());
    }
    assert_eq!(ours.len(), theirs.len());
    assert!(stream.counts().is_empty(), "{:?}", stream.counts());
}

#[test]
fn version_6_as_trace_cmd_wrote_and_reads_it() {
    assert_same(&data("small-v6.dat"), "small.report.txt");
}

#[test]
fn version_7_as_trace_cmd_wrote_and_reads_it() {
    assert_same(&data("small-v7.dat"), "small.report.txt");
}

#[test]
fn lost_events_are_where_trace_cmd_reports_them() {
    assert_same(&data("lost.dat"), "lost.report.txt");
    // The kernel's own count, from its per-CPU statistics, is the same.
    let file = TraceFile::open(&data("lost.dat"), Mode::Strict).unwrap();
    let (events, _) = read_all(&file).unwrap();
    for stats in file.cpu_stats(0) {
        let lost: u64 = events
            .iter()
            .filter(|event| event.cpu == stats.cpu)
            .map(|event| if let SchedEvent::Lost { count } = event.what { count.unwrap() } else { 0 })
            .sum();
        assert_eq!(lost, stats.overrun, "{}", stats.cpu);
        assert!(lost > 0);
    }
}

/// small-v6.dat, whose pages are not compressed, as a file of another version.
fn copy(file: &TraceFile, path: &std::path::Path, version: FileVersion) {
    let bytes = std::fs::read(data("small-v6.dat")).unwrap();
    let mut writer =
        TraceDatWriter::create(path, WriteOptions { version, ..WriteOptions::default() }).unwrap();
    for cpu in &file.buffers()[0].cpus {
        assert!(!cpu.compressed);
        writer.append_pages(cpu.cpu, &bytes[cpu.offset as usize..][..cpu.bytes as usize]).unwrap();
    }
    writer.finish(&file.meta(0)).unwrap();
}

#[test]
fn what_we_write_reads_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = TraceFile::open(&data("small-v6.dat"), Mode::Strict).unwrap();
    for version in [
        FileVersion::V6,
        FileVersion::V7(Compression::None),
        FileVersion::V7(Compression::Zstd(1)),
        FileVersion::V7(Compression::Zstd(19)),
    ] {
        let path = directory.path().join("copy.dat");
        copy(&file, &path, version);
        assert_same(&path, "small.report.txt");
        let copy = TraceFile::open(&path, Mode::Strict).unwrap();
        assert_eq!(copy.uname(), file.uname());
        assert_eq!(copy.cpu_count(), Some(2));
        assert_eq!(copy.cmdlines(), file.cmdlines());
        assert_eq!(copy.buffers()[0].clock, "local");
    }
}

/// Where trace-cmd is installed, it must open what we write.
#[test]
fn trace_cmd_opens_what_we_write() {
    let Ok(version) = std::process::Command::new("trace-cmd").arg("--version").output() else {
        eprintln!("trace-cmd is not installed: not tested here");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = TraceFile::open(&data("small-v6.dat"), Mode::Strict).unwrap();
    let expected = std::fs::read_to_string(data("small.report.txt")).unwrap();
    for version in
        [FileVersion::V6, FileVersion::V7(Compression::None), FileVersion::V7(Compression::Zstd(3))]
    {
        let path = directory.path().join("copy.dat");
        copy(&file, &path, version);
        let output = std::process::Command::new("trace-cmd")
            .args(["report", "-R", "-N", "-t"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // The same lines but for names: paths of executables are wiped, saved names are fewer.
        let tail = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split_once('[').map_or(line, |(_, rest)| rest).to_string()).collect()
        };
        assert_eq!(tail(&String::from_utf8_lossy(&output.stdout)), tail(&expected));
    }
    drop(version);
}
