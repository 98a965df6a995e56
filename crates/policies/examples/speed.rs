//! How fast is the machine itself? `cargo run --release -p schedlab-policies --example speed -- fifo 4 8 600`
//! prints simulated seconds per second of CPU time of the event loop, log on, for TASKS x (4 ms run + 6 ms
//! sleep) on CPUS CPUs; by the clock on the wall too, which a shared host slows down.
use schedlab_log::Record;
use schedlab_machine::native::Native;
use schedlab_machine::sink::Spill;
use schedlab_machine::{Machine, Program, Setup};
use schedlab_units::Span;
use schedlab_workload::Builder;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (cpus, tasks, seconds): (u32, u32, u64) =
        (args[2].parse().unwrap(), args[3].parse().unwrap(), args[4].parse().unwrap());
    let cycles = seconds * 100;
    let mut builder = Builder::new();
    for _ in 0..tasks {
        let mut life = builder.task("s").inherits();
        for _ in 0..cycles {
            life = life.run(Span::from_ms(4)).sleep(Span::from_ms(6));
        }
    }
    let workload = builder.finish().unwrap();
    let program = Program::new(&workload).unwrap();
    drop(workload);
    let policy = schedlab_policies::find(&args[1]).unwrap().build(&[]).unwrap();
    let setup = Setup {
        topology: schedlab_topology::Topology::flat(cpus).unwrap(),
        duration: Some(Span::from_s(seconds)),
        params: vec![],
    };
    let sink = Spill::new(std::fs::File::create("/dev/null").unwrap());
    let mut machine = Machine::new(Native::new(policy, sink), program, setup);
    let before_ns = cpu_ns();
    let outcome = machine.run();
    let loop_cpu_ns = cpu_ns() - before_ns;
    let simulated_s = outcome.duration.as_s_f64();
    println!(
        "{} events, {:.1} ns each; {:.0} simulated s per CPU s, {:.0} by the wall; {} bytes a record",
        outcome.events,
        loop_cpu_ns as f64 / outcome.events as f64,
        simulated_s / (loop_cpu_ns as f64 * 1e-9),
        simulated_s / (outcome.loop_wall_ns as f64 * 1e-9),
        size_of::<Record>()
    );
}

/// CPU time of this process so far.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux keeps it");
    stat.split_whitespace().next().and_then(|field| field.parse().ok()).expect("a number of ns")
}
