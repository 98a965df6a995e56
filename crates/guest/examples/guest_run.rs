//! Boots a guest with one of the built-in workloads and prints each task's CPU time: `guest_run 6.12 1 fairbench 20s`.

use schedlab_guest::{GuestKernel, Options, on_stderr, run, workloads};
use schedlab_log::Kind;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kernel, cpus, name, duration, ..] = args.as_slice() else {
        return Err(
            "usage: guest_run KERNEL CPUS WORKLOAD DURATION [fresh] [phase=SPAN] [arg=KERNEL_ARG]".into()
        );
    };
    let mut options = Options { cpus: cpus.parse()?, duration: duration.parse()?, ..Options::default() };
    let mut log = None;
    for arg in &args[4..] {
        match arg.split_once('=') {
            None if arg == "fresh" => options.fresh = true,
            None if arg == "poll" => options.poll_clock = true,
            Some(("phase", value)) => options.phase = value.parse()?,
            Some(("slack", value)) => options.timer_slack = value.parse()?,
            Some(("interleave", value)) => options.interleave = value.parse()?,
            Some(("shift", value)) => options.shift = value.parse()?,
            Some(("arg", value)) => options.kernel_args.push(value.to_string()),
            Some(("trace", value)) => options.keep_trace = Some(value.into()),
            Some(("log", value)) => log = Some(std::path::PathBuf::from(value)),
            _ => return Err(format!("unknown: {arg}").into()),
        }
    }
    let workload = workloads::named(name, options.duration)?;
    let kernel = GuestKernel::find(kernel)?;
    let guest = run(&kernel, &workload, &options, &mut on_stderr())?;
    if let Some(path) = log {
        schedlab_log::write(&path, &guest.log)?;
    }
    println!("{}", guest.report.kernel);
    println!(
        "{} wall {} ms boot {} ns",
        guest.report.command_line, guest.report.wall_ms, guest.report.boot_ns
    );
    let mut cpu_ns = vec![0i64; workload.tasks.len()];
    for record in &guest.log.records {
        if record.kind() == Some(Kind::Switch) {
            let time = record.time_ns as i64;
            if record.task().is_workload() {
                cpu_ns[record.task().index()] += time;
            }
            if record.other().is_workload() {
                cpu_ns[record.other().index()] -= time;
            }
        }
    }
    let end = guest.log.header.duration.as_ns() as i64;
    for (index, task) in workload.tasks.iter().enumerate() {
        if cpu_ns[index] < 0 {
            cpu_ns[index] += end;
        }
        println!(
            "{:12} {:>14} {:>14} {:?}",
            task.name, cpu_ns[index], guest.report.instructions[index], guest.report.schedstat[index]
        );
    }
    println!(
        "{} records, duration {}, dropped {:?}",
        guest.log.records.len(),
        guest.log.header.duration,
        guest.report.dropped
    );
    let mut others = std::collections::BTreeMap::<_, (i64, u32)>::new();
    for record in guest.log.records.iter().filter(|r| r.kind() == Some(Kind::Switch)) {
        for (id, sign) in [(record.task(), 1), (record.other(), -1)] {
            if !id.is_workload() {
                let row = others.entry(id).or_default();
                row.0 += sign * record.time_ns as i64;
                row.1 += 1;
            }
        }
    }
    for (id, (ns, switches)) in others {
        println!("{id} {} {switches}", if ns < 0 { ns + end } else { ns });
    }
    println!(
        "{:?}",
        guest.log.header.kernel_threads.iter().map(|t| format!("{}:{}", t.pid, t.name)).collect::<Vec<_>>()
    );
    Ok(())
}
