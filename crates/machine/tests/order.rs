//! Who goes on first at one instant: orders of ready CPUs on native policies, and on a kernel that stops
//! inside its operations.

use proptest::prelude::*;
use schedlab_instruments::verify;
use schedlab_log::{LogHeader, LogTask, MemLog, Record};
use schedlab_machine::drawn::{Life::*, draw, draw_in_order, workload};
use schedlab_machine::kernel::*;
use schedlab_machine::native::Native;
use schedlab_machine::order::{Choose, Chosen, FirstPosted, Order, Ready, in_posted_order};
use schedlab_machine::{End, Machine, Outcome, Program, Setup};
use schedlab_stdx::Random;
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Span, TaskId, Time};
use schedlab_workload::Workload;

/// What [`FirstPosted`] does, spelt out.
struct Posted;
impl Choose for Posted {
    fn points(&self) -> PointSet {
        PointSet::ALL
    }
    fn choose(&mut self, _now: Time, ready: &[Ready]) -> Option<usize> {
        Some(in_posted_order(ready))
    }
}

/// The last one first.
struct Last;
impl Choose for Last {
    fn choose(&mut self, _now: Time, ready: &[Ready]) -> Option<usize> {
        Some(ready.len() - 1)
    }
}

/// Any of them.
struct Any(Random);
impl Choose for Any {
    fn points(&self) -> PointSet {
        PointSet::ALL
    }
    fn choose(&mut self, _now: Time, ready: &[Ready]) -> Option<usize> {
        Some(self.0.below(ready.len() as u64) as usize)
    }
}

/// This CPU only from this time on.
struct Held(CpuId, Time);
impl Choose for Held {
    fn points(&self) -> PointSet {
        PointSet::of(&[PointKind::Lock])
    }
    fn choose(&mut self, now: Time, ready: &[Ready]) -> Option<usize> {
        ready.iter().position(|ready| ready.cpu != self.0 || now >= self.1)
    }
}

fn fifo() -> Box<dyn schedlab_machine::policy::Policy> {
    schedlab_policies::find("fifo").unwrap().build(&[]).unwrap()
}

#[test]
fn the_order_of_interrupts_decides_who_is_picked_where() {
    // fifo has one queue for all CPUs; at 0 both are posted an interrupt, cpu0 first
    let tasks = workload(&[&[Run(3), Sleep(1), Run(1)], &[Run(2)]]);
    //                                                                          ms 012345
    assert_eq!(draw(fifo(), 2, 9, &tasks), ["AAA.A", "BB"]);
    assert_eq!(draw_in_order(fifo(), 2, 9, &tasks, Chosen::new(Posted)), ["AAA.A", "BB"]);
    assert_eq!(draw_in_order(fifo(), 2, 9, &tasks, Chosen::new(Last)), ["BB", "AAA.A"]);
}

#[test]
fn an_interrupt_may_be_held_back_while_time_goes_on() {
    // A wakes B at 2, and cpu1 is to run it. Held back until the first event after 4, cpu1 comes too late: at
    // 5 A blocks, and cpu0 takes B from the common queue. A goes to cpu1
    let text = "schedlab-workload 1\n\
        - INIT 0 0 1 runnable name=a\n- INIT 0 0 2 blocked name=b\n\
        10 BLOCK 1 5ms\n11 WAKEUP 1 1ms\n12 EXIT 1 1ms\n\
        20 WAKEUP 2 0 10 1 3ms\n21 EXIT 2 2ms\n";
    let tasks = schedlab_workload::text::parse_text("held", text.as_bytes()).unwrap();
    let held = Held(CpuId(1), Time::from_ns(1_000_000_000) + Span::from_ms(4));
    //                                                                             ms 0123456
    assert_eq!(draw(fifo(), 2, 9, &tasks), ["AAAAA.A", "..BB"]);
    assert_eq!(draw_in_order(fifo(), 2, 9, &tasks, Chosen::new(held)), ["AAAAABB", "......A"]);
}

/// A kernel whose CPUs stand at a point before they carry out an operation: interrupts are off there, and a
/// timer's waits.
struct Stops<K> {
    kernel: K,
    on: bool,
    standing: Vec<Option<(TaskId, Op<'static>)>>,
    times: u32,
}

impl<K: Kernel> Stops<K> {
    fn new(kernel: K, nr_cpus: usize) -> Stops<K> {
        Stops { kernel, on: false, standing: vec![None; nr_cpus], times: 0 }
    }
}

impl<K: Kernel> Kernel for Stops<K> {
    const OWNS_TASK_TIMERS: bool = K::OWNS_TASK_TIMERS;

    fn resume(&mut self, cpu: CpuId, now: Time, stimulus: Stimulus<'_>) -> Yield {
        if let Some((task, op)) = self.standing[cpu.index()].take() {
            let done = self.kernel.resume(cpu, now, Stimulus::Op(task, op));
            return match stimulus {
                Stimulus::Continue => done,
                Stimulus::Timer(_) => self.kernel.resume(cpu, now, stimulus),
                _ => panic!("{stimulus:?} comes where interrupts are off"),
            };
        }
        let op = match stimulus {
            Stimulus::Op(_, Op::Block) => Op::Block,
            Stimulus::Op(_, Op::Wake(task)) => Op::Wake(task),
            Stimulus::Op(_, Op::WakeSync(task)) => Op::WakeSync(task),
            Stimulus::Op(_, Op::Exit) => Op::Exit,
            _ => return self.kernel.resume(cpu, now, stimulus),
        };
        match stimulus {
            Stimulus::Op(task, _) if self.on => {
                self.times += 1;
                self.standing[cpu.index()] = Some((task, op));
                Yield::Point
            }
            _ => self.kernel.resume(cpu, now, stimulus),
        }
    }
    fn set_points(&mut self, kinds: PointSet) {
        self.on = kinds.contains(PointKind::Lock);
    }
    fn point(&self, cpu: CpuId) -> Point {
        assert!(self.standing[cpu.index()].is_some());
        Point { kind: PointKind::Lock, ..Point::RELAX }
    }

    fn wakes_sleepers_with_ticks(&self) -> bool {
        self.kernel.wakes_sleepers_with_ticks()
    }
    fn boot(&mut self, boot: &Boot<'_>) -> Result<(), Fault> {
        self.kernel.boot(boot)
    }
    fn is_up(&self) -> bool {
        self.kernel.is_up()
    }
    fn takes_devices(&self, cpu: CpuId) -> bool {
        self.kernel.takes_devices(cpu)
    }
    fn timer(&self, cpu: CpuId) -> Time {
        self.kernel.timer(cpu)
    }
    fn next_kick(&mut self) -> Option<CpuId> {
        self.kernel.next_kick()
    }
    fn control(&mut self, now: Time, request: Control<'_>) -> Result<(), Fault> {
        self.kernel.control(now, request)
    }
    fn control_done(&mut self) -> Option<Carried> {
        self.kernel.control_done()
    }
    fn start_log(&mut self, epoch: Time) {
        self.kernel.start_log(epoch);
    }
    fn note(&mut self, now: Time, note: Record) {
        self.kernel.note(now, note);
    }
    fn read_out(&mut self) -> ReadOut {
        self.kernel.read_out()
    }
    fn fault(&mut self) -> Fault {
        self.kernel.fault()
    }
    fn flush_log(&mut self) -> std::io::Result<()> {
        self.kernel.flush_log()
    }
}

/// Runs in this order; the log is checked: nothing impossible happened.
fn run(
    sched: &str,
    nr_cpus: u32,
    workload: &Workload,
    costs: bool,
    order: impl Order,
) -> (Outcome, Vec<Record>, u32) {
    let policy = schedlab_policies::find(sched).unwrap().build(&[]).unwrap();
    let setup =
        Setup { topology: Topology::flat(nr_cpus).unwrap(), duration: Some(Span::from_s(2)), params: vec![] };
    let mut program = Program::new(workload).unwrap();
    if costs {
        for (name, value) in
            [("tick", "2us"), ("switch", "3us"), ("wakeup", "1us"), ("block", "1500ns"), ("ipi", "700ns")]
        {
            program.costs.set(name, value).unwrap();
        }
    }
    let mut records: Vec<Record> = Vec::new();
    let kernel = Stops::new(Native::new(policy, &mut records), nr_cpus as usize);
    let mut machine = Machine::with_order(kernel, program, setup, order);
    let outcome = machine.run();
    let times = machine.kernel().times;
    drop(machine);
    let task = |task: &schedlab_workload::Task| LogTask { pid: task.pid, ..LogTask::default() };
    let header = LogHeader {
        nr_cpus,
        duration: outcome.duration,
        tasks: workload.tasks.iter().map(task).collect(),
        ..LogHeader::default()
    };
    let log = MemLog { header, records };
    let verdict = verify(&log).unwrap();
    assert!(verdict.is_clean(), "{sched}: {:?}", verdict.violations);
    (outcome, log.records, times)
}

#[test]
fn a_cpu_that_stands_is_not_interrupted() {
    // B's block at 2 ms stands until 5 (the event after that which lets it go on is A's exit). Its timer is due at 4,
    // and waits.
    // ms   0123456789
    // cpu0 AAA.A
    // cpu1 BB___BBBB       _ = stands in B's block
    let tasks = workload(&[&[Run(3), Sleep(1), Run(1)], &[Run(2), Sleep(2), Run(4)]]);
    let held = Held(CpuId(1), Time::from_ns(1_000_000_000) + Span::from_ms(5));
    let (outcome, records, times) = run("fifo", 2, &tasks, false, Chosen::new(held));
    assert_eq!((outcome.end, times), (End::AllDone, 4));
    let switches = records.iter().filter(|r| r.kind == 1);
    let switches: Vec<String> =
        switches.map(|r| format!("{} {} {}>{}", r.time(), r.cpu(), r.task(), r.other())).collect();
    assert_eq!(
        switches,
        [
            "0ns cpu0 idle>t0",
            "0ns cpu1 idle>t1",
            "3ms cpu0 t0>idle",
            "4ms cpu0 idle>t0",
            "5ms cpu1 t1>idle",
            "5ms cpu0 t0>idle",
            "5ms cpu1 idle>t1",
            "9ms cpu1 t1>idle",
        ]
    );
}

fn lives() -> impl Strategy<Value = Vec<Vec<schedlab_machine::drawn::Life>>> {
    let life = prop_oneof![(0u64..6).prop_map(Run), (0u64..6).prop_map(Sleep)];
    proptest::collection::vec(proptest::collection::vec(life, 1..8), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Stopping at points changes nothing if who stops goes on at once; every other order gives a log without
    /// contradictions, and the same one again.
    #[test]
    fn any_order_gives_a_valid_log(lives in lives(), nr_cpus in 1u32..5, costs: bool, seed: u64, which in 0usize..4) {
        let sched = ["fifo", "rr", "eevdf", "o1-2.6.18"][which];
        let lives: Vec<&[_]> = lives.iter().map(Vec::as_slice).collect();
        let tasks = workload(&lives);
        let (ordinary, log, times) = run(sched, nr_cpus, &tasks, costs, FirstPosted::default());
        prop_assert_eq!(times, 0);
        let (outcome, same, times) = run(sched, nr_cpus, &tasks, costs, Chosen::new(Posted));
        prop_assert!(times > 0);
        prop_assert_eq!(same, log);
        prop_assert_eq!((outcome.end, outcome.duration), (ordinary.end.clone(), ordinary.duration));
        let any = || run(sched, nr_cpus, &tasks, costs, Chosen::new(Any(Random::new(seed))));
        let (first, second) = (any(), any());
        prop_assert_eq!(first.1, second.1);
        prop_assert_eq!(first.0.end, ordinary.end);
    }
}
