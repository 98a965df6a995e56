//! Kernel code that takes time: a drawn example, to the microsecond, and that nothing changes without costs.

use schedlab_log::{Kind, Record};
use schedlab_machine::native::Native;
use schedlab_machine::{Costs, Machine, Program, Setup};
use schedlab_topology::Topology;
use schedlab_workload::text::parse_text;

const WORKLOAD: &str = "schedlab-workload 1
- INIT 0 0 1 runnable name=a
- INIT 0 0 2 blocked  name=b
@a BLOCK  1 1000us
-  WAKEUP 2 0 @a 1 0us
-  EXIT   2 500us
-  WAKEUP 1 5ms
-  EXIT   1 1000us
";

/// When each switch was, in us, and who left and who came.
fn switches(costs: Costs) -> Vec<(u64, String)> {
    switches_of(WORKLOAD, costs)
}

fn switches_of(text: &str, costs: Costs) -> Vec<(u64, String)> {
    switches_on(2, text, costs)
}

fn switches_on(nr_cpus: u32, text: &str, costs: Costs) -> Vec<(u64, String)> {
    let workload = parse_text("costs", text.as_bytes()).unwrap();
    let mut program = Program::new(&workload).unwrap();
    program.costs = costs;
    let policy = schedlab_policies::find("fifo").unwrap().build(&[]).unwrap();
    let mut records: Vec<Record> = Vec::new();
    let setup = Setup { topology: Topology::flat(nr_cpus).unwrap(), duration: None, params: Vec::new() };
    Machine::new(Native::new(policy, &mut records), program, setup).run();
    let switches = records.iter().filter(|record| record.kind() == Some(Kind::Switch));
    switches.map(|r| (r.time_ns / 1000, format!("{}>{}", r.task(), r.other()))).collect()
}

fn costs(added: bool) -> Costs {
    let mut costs = Costs::default();
    for (name, value) in [("switch", "20us"), ("wakeup", "15us"), ("block", "10us")] {
        costs.set(name, value).unwrap();
    }
    costs.added = added;
    costs
}

// us   0  20        1020 1035 1045       1565      6045 6065        7020
//  a   sw│1000 us of work│wk│bl│ sleeps 5 ms       │sw│ 1000 - 55 + 10 us
//  b                        │sw│ 500 us │bl│
#[test]
fn who_pays_and_when() {
    let at: Vec<u64> = switches(costs(false)).into_iter().map(|(us, _)| us).collect();
    assert_eq!(at, [0, 1035, 1045, 1565, 6045, 7020]);
    // on top: the second burst is 20 + 1000 + 10 us
    let at: Vec<u64> = switches(costs(true)).into_iter().map(|(us, _)| us).collect();
    assert_eq!(at, [0, 1035, 1045, 1565, 6045, 7075]);
}

#[test]
fn without_costs_nothing_takes_time() {
    let plain = switches(Costs::default());
    let at: Vec<u64> = plain.iter().map(|(us, _)| *us).collect();
    assert_eq!(at, [0, 1000, 1000, 1500, 6000, 7000]);
}

// us   0     600 630  1000  1130        6000      7000
//  a   │ 1000 us      │ sleeps 5 ms     │ 1000 us │    an own timer's interrupt finds its CPU awake
//  b         ....│ 500 us │                            its CPU was idle: 30 us until it takes a's interrupt
// (The start is nobody's interrupt: the experimenter puts the tasks where they begin. And a goes on when it has woken
// b: FIFO has one queue, from which a's own CPU would take b at once.)
#[test]
fn an_idle_cpu_takes_time_to_answer_another_one() {
    let early = WORKLOAD.replace("@a 1 0us", "@a 1 400us");
    let at = |exit: &str| -> Vec<u64> {
        let mut costs = Costs::default();
        costs.set("idle_exit", exit).unwrap();
        switches_of(&early, costs).into_iter().map(|(us, _)| us).collect()
    };
    assert_eq!(at("30us"), [0, 630, 1000, 1130, 6000, 7000]);
    assert_eq!(at("0"), [0, 600, 1000, 1100, 6000, 7000]);
}

// us    0   10            100   130               230
//  a    │ computes         │kick│ computes 100 us │      on two CPUs b's is idle: it is interrupted
//  b    │10│ sleeps         │ 50 us │
#[test]
fn who_wakes_pays_for_interrupting_an_idle_cpu_and_for_no_other() {
    let text = "schedlab-workload 4\nOBJECT pipe channel\n- INIT 0 0 1 runnable name=a\n\
                - INIT 0 0 2 runnable name=b\n- SEND 1 100us pipe\n- EXIT 1 200us\n- RECV 2 10us pipe\n\
                - EXIT 2 60us\n";
    let ends = |nr_cpus: u32, kick: &str| -> Vec<(u64, String)> {
        let mut costs = Costs::default();
        costs.set("kick", kick).unwrap();
        switches_on(nr_cpus, text, costs).into_iter().filter(|(_, who)| who.starts_with("t0>")).collect()
    };
    let (plain, kicked) = (ends(2, "0"), ends(2, "30us"));
    assert_eq!(plain.iter().map(|(us, _)| *us).collect::<Vec<_>>(), [200]);
    assert_eq!(kicked.iter().map(|(us, _)| *us).collect::<Vec<_>>(), [230]);
    assert_eq!(ends(1, "0"), ends(1, "30us"), "b's CPU is a's own");
}
