//! What does a run cost beside its event loop? CPU time and wall time of a run, from its request to its log,
//! in several repetitions.
//!
//! ```text
//! schedlab import samples/gzip -o /tmp/gzip.txt
//! cargo run --release -p schedlab-runner --example cost_of_a_run -- 200 /tmp/gzip.txt
//!
//! empty, fifo                 1.10 ms CPU  1.25 ms wall     200 runs, 5 repetitions, the median
//! ```

use schedlab_linux::build::{self, BuildOptions};
use schedlab_runner::{LinuxObject, RunRequest, Scheduler, run};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::{Workload, parse_text};
use std::time::Instant;

const EMPTY: &str = "schedlab-workload 1\n- INIT 0 0 1 runnable name=one\n- EXIT 1 1ms\n";
const REPETITIONS: usize = 5;

/// CPU time of this process and of its children that have been waited for, in ns.
fn cpu_ns() -> u64 {
    let of = |who| {
        // SAFETY: the call fills a local, for which all zeroes is a value.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &raw mut usage);
            usage
        };
        [usage.ru_utime, usage.ru_stime]
            .iter()
            .map(|time| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000)
            .sum::<u64>()
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

fn measure(name: &str, workload: &Workload, scheduler: &Scheduler, duration: Option<Span>, runs: usize) {
    let mut found = Vec::new();
    for _ in 0..REPETITIONS {
        let (cpu, begun) = (cpu_ns(), Instant::now());
        let mut loop_ns = 0;
        for _ in 0..runs {
            let request = RunRequest {
                duration,
                ..RunRequest::new(workload, scheduler, Topology::flat(2).expect("2 CPUs"))
            };
            loop_ns += run(&request).expect("it runs").report.loop_wall_ns;
        }
        let wall_ns = begun.elapsed().as_nanos() as u64;
        schedlab_runner::end_idle(); // so that their CPU time is counted
        let per_run = |ns: u64| ns as f64 / runs as f64 / 1e6;
        found.push((per_run(cpu_ns() - cpu), per_run(wall_ns), per_run(loop_ns)));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (cpu, wall, inside) = found[REPETITIONS / 2];
    let (least, most) = (found[0].0, found[REPETITIONS - 1].0);
    println!(
        "{name:<28} {cpu:7.2} ms CPU ({least:.2} to {most:.2})  {wall:7.2} ms wall  {inside:7.2} ms in the event loop"
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let runs = args.next().map_or(100, |text| text.parse().expect("a number of runs"));
    let empty = parse_text("empty", EMPTY.as_bytes()).expect("it is well-formed");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/hand/sleepers8.txt");
    let small = std::fs::read(path).expect("samples are in the tree");
    let small = parse_text("sleepers8", &small).expect("it is well-formed");
    let fifo = Scheduler::Native(schedlab_policies::find("fifo").expect("it is registered"));
    let second = Some(Span::from_s(1));
    println!("{runs} runs, {REPETITIONS} repetitions, the median (and range) per run");
    measure("empty, fifo", &empty, &fifo, None, runs);
    measure("8 sleepers 1 s, fifo", &small, &fifo, second, runs);
    let Some(kernel) = build::find("6.12", &BuildOptions::default()).expect("the cache is readable") else {
        println!("Linux 6.12 is not built (schedlab linux add 6.12)");
        return;
    };
    let linux = Scheduler::Linux(LinuxObject::of(&kernel));
    measure("empty, linux-6.12", &empty, &linux, None, runs);
    measure("8 sleepers 1 s, linux-6.12", &small, &linux, second, runs);
    for path in args {
        let text = std::fs::read(&path).expect("the workload's file");
        let workload = parse_text(&path, &text).unwrap_or_else(|error| panic!("{error}"));
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        let runs = runs.div_ceil(10);
        measure(&format!("{name}, fifo"), &workload, &fifo, None, runs);
        measure(&format!("{name}, linux-6.12"), &workload, &linux, None, runs);
    }
}
