//! Real Linux stops inside the kernel, at locks, atomic operations and where interrupts are enabled, and any order in
//! which its CPUs go on ends well.

use std::path::Path;
use std::process::Command;

use schedlab_linux::build::{self, BuildOptions};
use schedlab_linux::{LinuxKernel, LoadedKernel};
use schedlab_machine::kernel::{Kernel, PointKind, PointSet};
use schedlab_machine::order::{Choose, Chosen, FirstPosted, Order, Ready, in_posted_order};
use schedlab_machine::{End, Machine, Program, Setup};
use schedlab_stdx::Random;
use schedlab_topology::Topology;
use schedlab_units::{Span, Time};
use schedlab_workload::generate::from_toml;

const TEST: &str = "cpus_stop_at_points_and_every_order_ends_well";
/// What a kernel of the flavour has; it never stops at others.
const KINDS: [PointKind; 4] =
    [PointKind::Atomic, PointKind::Lock, PointKind::Unlock, PointKind::InterruptsOn];

/// Chooses as the engine itself would (no seed), or at random; counts CPUs that stand at a point, by kind.
struct Counted {
    points: PointSet,
    random: Option<Random>,
    chosen: [u64; PointKind::ALL.len()],
}

impl Choose for Counted {
    fn points(&self) -> PointSet {
        self.points
    }

    fn choose(&mut self, _now: Time, ready: &[Ready]) -> Option<usize> {
        let index = match &mut self.random {
            Some(random) => random.below(ready.len() as u64) as usize,
            None => in_posted_order(ready),
        };
        if let Some(point) = ready[index].stands {
            self.chosen[point.kind as usize] += 1;
            let is_known = point.kind == PointKind::Relax || self.points.contains(point.kind);
            assert!(is_known, "{point:?} was not asked for");
            // (a lock's or variable's place, and the code that stopped)
            assert!(point.kind == PointKind::Relax || point.code > 0, "{point:?}");
        }
        Some(index)
    }
}

/// One run in this process; prints a checksum of its log.
fn run<O: Order>(object: &Path, order: O, show: impl FnOnce(&O)) {
    let workload = from_toml("points", "kind = 'hackbench'\nturns = 5").unwrap();
    let program = Program::new(&workload).unwrap();
    let limit = Some(Span::from_s(20));
    let setup = Setup { topology: Topology::flat(3).unwrap(), duration: limit, params: Vec::new() };
    let mut log = Vec::new();
    let kernel = LinuxKernel::new(LoadedKernel::load(object).unwrap(), "noautogroup", &mut log);
    let mut machine = Machine::with_order(kernel, program, setup, order);
    let outcome = machine.run();
    assert_eq!(outcome.end, End::AllDone);
    machine.kernel().flush_log().unwrap();
    let read_out = machine.kernel().read_out();
    assert_eq!(read_out.warnings, Vec::<String>::new());
    for (task, counters) in workload.tasks.iter().zip(read_out.tasks) {
        assert_eq!(counters.cpu, task.cpu_demand(), "{}", task.name);
    }
    show(machine.order());
    drop(machine);
    let sum = log.iter().fold(0u64, |sum, r| {
        let words = [r.time_ns, r.value, u64::from(r.task), u64::from(r.other), u64::from(r.arg)];
        let words = words.into_iter().chain([u64::from(r.kind), u64::from(r.flags), u64::from(r.cpu)]);
        words.fold(sum, |sum, word| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3))
    });
    println!("result {} {sum:016x}", log.len());
}

fn in_child(object: &Path, order: &str) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([TEST, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env("SCHEDLAB_CHILD", order)
        .env("SCHEDLAB_OBJECT", object)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{order}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter_map(|line| line.strip_prefix("result ")).map(str::to_owned).collect()
}

fn child(object: &Path, order: &str) {
    let counted = |points, seed: Option<u64>| {
        Chosen::new(Counted { points, random: seed.map(Random::new), chosen: Default::default() })
    };
    let show = |order: &Chosen<Counted>| {
        let chosen = order.choose().chosen;
        println!("result {}", KINDS.map(|kind| chosen[kind as usize].to_string()).join(" "));
    };
    match order {
        "plain" => run(object, FirstPosted::default(), |_| println!("result 0 0 0 0")),
        "no points" => run(object, counted(PointSet::NONE, None), show),
        "in order" => run(object, counted(PointSet::of(&KINDS), None), show),
        seed => run(object, counted(PointSet::of(&KINDS), seed.parse().ok()), show),
    }
}

#[test]
#[ignore = "long: builds a kernel of the flavour points"]
fn cpus_stop_at_points_and_every_order_ends_well() {
    if let Ok(order) = std::env::var("SCHEDLAB_CHILD") {
        return child(Path::new(&std::env::var("SCHEDLAB_OBJECT").unwrap()), &order);
    }
    let options = BuildOptions { flavours: vec!["points".to_owned()], ..BuildOptions::default() };
    let kernel = build::add("6.12", &options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let object = &kernel.object();
    let plain = in_child(object, "plain");
    // who is not asked to stop does not, and a CPU that stops and goes on at once changes nothing
    assert_eq!(in_child(object, "no points"), plain);
    let in_order = in_child(object, "in order");
    assert_eq!(in_order[1], plain[1]);
    let stops: Vec<u64> = in_order[0].split(' ').map(|number| number.parse().unwrap()).collect();
    assert!(stops.iter().all(|stops| *stops > 100), "atomic, lock, unlock, interrupts: {stops:?}");
    // at random: as well, the same again, and another for each seed
    let shuffled: Vec<_> = ["1", "1", "2", "3"].iter().map(|seed| in_child(object, seed)).collect();
    assert_eq!(shuffled[0], shuffled[1]);
    assert!(shuffled[0][1] != plain[1] && shuffled[0][1] != shuffled[2][1] && shuffled[2] != shuffled[3]);
}
