//! How fast is the machine itself? `cargo run --release -p schedlab-policies --example speed -- fifo 4 8 600`
//! prints simulated seconds per host second for TASKS x (4 ms run + 6 ms sleep) on CPUS CPUs.
use schedlab_log::Record;
use schedlab_machine::native::Native;
use schedlab_machine::sink::Spill;
use schedlab_machine::{Machine, Program, Setup};
use schedlab_units::{Span, TaskId};
use schedlab_workload::*;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (cpus, tasks, seconds): (u32, u32, u64) =
        (args[2].parse().unwrap(), args[3].parse().unwrap(), args[4].parse().unwrap());
    let cycles = seconds * 100;
    let tasks = (0..tasks)
        .map(|t| {
            let mut events = Vec::new();
            for c in 0..cycles {
                let eid = |k| EventId(u64::from(t) * cycles * 2 + c * 2 + k + 1);
                events.push(Event { eid: eid(0), kind: EventKind::Block { length: Span::from_ms(4) } });
                let wakeup = Wakeup::External { after: Span::from_ms(6), source: ExternalSource::Timer };
                events.push(Event { eid: eid(1), kind: EventKind::Wakeup(wakeup) });
            }
            Task {
                pid: t + 1,
                name: "s".into(),
                birth: Birth::Init { eid: EventId(0), parent: None, state: InitState::Runnable },
                params: None,
                affinity: None,
                cgroup: None,
                kernel_thread: false,
                events,
            }
        })
        .collect();
    let workload = Workload { tasks, ..Workload::default() };
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
    let outcome = machine.run();
    let counters = schedlab_machine::kernel::Kernel::task_counters(machine.kernel(), TaskId(0));
    println!(
        "{:?} {} events, {:.1} ns/event, {:.0} simulated s per s, {:?}, {} byte records",
        outcome.duration,
        outcome.events,
        outcome.loop_wall_ns as f64 / outcome.events as f64,
        outcome.duration.as_s_f64() / (outcome.loop_wall_ns as f64 * 1e-9),
        counters,
        size_of::<Record>()
    );
}
