//! Real Linux behind `trait Kernel`, driven by the machine: hand-written workloads whose outcome can be worked out.

mod child;

use std::path::{Path, PathBuf};

use child::in_child;
use schedlab_linux::{LinuxKernel, LoadedKernel};
use schedlab_log::Record;
use schedlab_machine::kernel::{Kernel, ReadOut, TaskCounters};
use schedlab_machine::{Costs, End, Machine, Outcome, Program, Setup};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::Workload;

struct Ran {
    outcome: Outcome,
    tasks: Vec<TaskCounters>,
    log: Vec<Record>,
    warnings: Vec<String>,
    refused: usize,
}

fn run(object: PathBuf, text: &str, cpus: &str, duration: Option<Span>, params: &[(&str, &str)]) -> Ran {
    run_with(Costs::default(), object, text, cpus, duration, params)
}

fn run_with(
    costs: Costs,
    object: PathBuf,
    text: &str,
    cpus: &str,
    duration: Option<Span>,
    params: &[(&str, &str)],
) -> Ran {
    let workload: Workload = schedlab_workload::text::parse_text("test", text.as_bytes()).unwrap();
    let mut program = Program::new(&workload).unwrap();
    program.costs = costs;
    let setup = Setup {
        topology: cpus.parse::<Topology>().unwrap(),
        duration,
        params: params.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
    };
    let mut log = Vec::new();
    let kernel = LinuxKernel::new(LoadedKernel::load(&object).unwrap(), "noautogroup", &mut log);
    let mut machine = Machine::new(kernel, program, setup);
    let outcome = machine.run();
    let kernel = machine.kernel();
    kernel.flush_log().unwrap();
    let mut read_out = kernel.read_out();
    drop(machine);
    read_out.tasks.truncate(workload.tasks.len());
    let ReadOut { tasks, warnings, refused, .. } = read_out;
    Ran { outcome, tasks, log, warnings, refused: refused.len() }
}

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/hand").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The WARP paper's figure 1: forked at 0 s, blocks at 8 and 30 s, wakes at 20 and 50 s, ends at 60 s.
#[test]
fn figure_1_happens_at_its_times() {
    in_child("figure_1_happens_at_its_times", |object| {
        let ran = run(object, &sample("figure1.txt"), "1", Some(Span::from_s(100)), &[]);
        let switches_out: Vec<u64> = ran
            .log
            .iter()
            .filter(|r| r.kind == 1 && r.task == 1 && r.flags >= 2)
            .map(|r| r.time_ns)
            .collect();
        let wakeups: Vec<u64> =
            ran.log.iter().filter(|r| r.kind == 3 && r.task == 1).map(|r| r.time_ns).collect();
        let s = 1_000_000_000;
        assert_eq!((switches_out, wakeups), (vec![8 * s, 30 * s, 60 * s], vec![20 * s, 50 * s]));
        assert_eq!(ran.tasks[1].cpu, Span::from_s(28));
        assert_eq!((ran.warnings, ran.refused), (vec![], 0));
    });
}

/// Against the real kernel (6.12.117 in a virtual machine, HZ=250, 20 s): .8916 .0963 .0109 of the CPU at
/// nice -20, -10, 0.
#[test]
fn fairbench_is_within_a_percent_of_the_real_kernel() {
    in_child("fairbench_is_within_a_percent_of_the_real_kernel", |object| {
        let ran = run(object, &sample("fairbench.txt"), "1", Some(Span::from_s(20)), &[]);
        assert_eq!(ran.outcome.end, End::Duration);
        let total: u64 = ran.tasks.iter().map(|t| t.cpu.as_ns()).sum();
        let share = |level: usize| {
            ran.tasks[5 * level..5 * level + 5].iter().map(|t| t.cpu.as_ns()).sum::<u64>() as f64
                / total as f64
        };
        println!("\nshares {:.4} {:.4} {:.4} {:.4} {:.4}", share(0), share(1), share(2), share(3), share(4));
        for (level, real, tolerance) in [(0, 0.8916, 0.01), (1, 0.0963, 0.01), (2, 0.0109, 0.04)] {
            assert!(
                (share(level) / real - 1.0).abs() < tolerance,
                "level {level}: {} against {real}",
                share(level)
            );
        }
        assert_eq!((ran.warnings, ran.refused), (vec![], 0));
    });
}

/// All six policies, a tree of forks, wakeups by each other, groups: everything ends as the workload says, on
/// each machine.
#[test]
fn hand_written_workloads_end_with_the_cpu_time_they_ask_for() {
    for (name, cpus) in
        [("forktree.txt", "1"), ("forktree.txt", "packages=2,llcs=1,cores=2,smt=2"), ("pingpong.txt", "2")]
    {
        let text = sample(name);
        let test = "hand_written_workloads_end_with_the_cpu_time_they_ask_for";
        // the child runs the case that its parent is at
        let case = format!("{name} on {cpus}");
        if std::env::var("SCHEDLAB_CHILD").is_ok() && std::env::var("SCHEDLAB_CASE").as_deref() != Ok(&case) {
            continue;
        }
        // SAFETY: the tests of this program that read the environment run in children of their own.
        unsafe { std::env::set_var("SCHEDLAB_CASE", &case) };
        in_child(test, |object| {
            let ran = run(object, &text, cpus, None, &[]);
            assert_eq!(ran.outcome.end, End::AllDone, "{case}");
            let total: u64 = ran.tasks.iter().map(|t| t.cpu.as_ns()).sum();
            // forktree: make 8 ms, compilers 30 + 30 + 60, assemblers 5 + 5 + 10; pingpong: 2 x 10,000 x 0.1 ms
            let expected = if name == "forktree.txt" { 148_000_000 } else { 2_000_000_000 };
            assert_eq!(total, expected, "{case}");
            assert_eq!((ran.warnings, ran.refused), (vec![], 0), "{case}");
        });
    }
}

#[test]
fn groups_limits_and_sets_hold() {
    in_child("groups_limits_and_sets_hold", |object| {
        // two groups alone on two CPUs: half a CPU at most, and what is left; one task on CPU 1 alone within that
        let text = "schedlab-workload 1\n\
            CGROUP /batch max=50ms/100ms\n\
            CGROUP /pinned cpuset=1\n\
            - INIT 0 0 1..4 runnable name=batch cgroup=/batch\n\
            - INIT 0 0 5..6 runnable name=other\n\
            - INIT 0 0 8 runnable name=pinned cgroup=/pinned\n\
            - EXIT 1..8 10s\n";
        let text = text.replace("EXIT 1..8", "EXIT 1..6").replace("10s\n", "10s\n- EXIT 8 10s\n");
        let ran = run(object, &text, "2", Some(Span::from_s(4)), &[]);
        let batch: u64 = ran.tasks[..4].iter().map(|t| t.cpu.as_ns()).sum();
        // 50 ms in each of 40 periods; its share of the weights would be more: 1 of 4 (groups count as one
        // task) on 2 CPUs
        assert!((1.9e9..2.06e9).contains(&(batch as f64)), "{batch}");
        let total: u64 = ran.tasks.iter().map(|t| t.cpu.as_ns()).sum();
        assert!((7.98e9..=8.0e9).contains(&(total as f64)), "{total}");
        let elsewhere = ran.log.iter().filter(|r| r.kind == 1 && r.other == 6 && r.cpu != 1).count();
        assert_eq!(elsewhere, 0);
        assert_eq!((ran.warnings, ran.refused), (vec![], 0));
    });
}

#[test]
fn a_tunable_changes_the_kernel_and_a_wrong_one_is_refused() {
    in_child("a_tunable_changes_the_kernel_and_a_wrong_one_is_refused", |object| {
        // CFS bandwidth for real-time tasks off, features given by name; and one that no kernel has
        let params = [
            ("features", "NO_RUN_TO_PARITY,NO_DELAY_DEQUEUE"),
            ("rt_runtime_us", "-1"),
            ("nonsense_ns", "1"),
        ];
        let ran = run(object, &sample("figure1.txt"), "1", Some(Span::from_s(1)), &params);
        let End::Fault(fault) = ran.outcome.end else { panic!("{:?}", ran.outcome.end) };
        let said =
            "--param nonsense_ns=1: this kernel has no such parameter (/sys/kernel/debug/sched/nonsense_ns)";
        assert!(fault.reason.contains(said), "{fault}");
    });
}

/// When a child ends whose end wakes its parent of higher priority, in ms; the child has 4 ms to compute, the parent 5.
fn end_of_child(object: PathBuf, call: &str) -> u64 {
    let text = format!(
        "schedlab-workload 7\n\
         1 INIT 0 0 10 blocked name=parent policy=fifo prio=3\n\
         2 INIT 0 0 20 runnable name=child policy=fifo prio=1\n\
         3 WAKEUP 10 0 22 20 0\n\
         4 EXIT 10 5ms\n\
         {call}22 EXIT 20 4ms\n"
    );
    let ran = run(object, &text, "1", None, &[]);
    assert_eq!(ran.outcome.end, End::AllDone);
    let cpu: Vec<u64> = ran.tasks.iter().map(|task| task.cpu.as_ns() / 1_000_000).collect();
    assert_eq!(cpu, [5, 4]);
    let last = ran.log.iter().rfind(|r| r.kind == 1 && r.task == 1);
    last.expect("the child leaves its CPU").time_ns / 1_000_000
}

/// Linux looks on its way to user mode whether another task is to have the CPU.
#[test]
fn a_parent_that_is_woken_by_a_call_preempts_its_child() {
    in_child("a_parent_that_is_woken_by_a_call_preempts_its_child", |object| {
        assert_eq!(end_of_child(object, ""), 9);
    });
}

/// The same wakeup within exit(): there is no way to user mode.
#[test]
fn a_parent_that_is_woken_by_an_exit_waits_for_its_end() {
    in_child("a_parent_that_is_woken_by_an_exit_waits_for_its_end", |object| {
        assert_eq!(end_of_child(object, "21 CALL 20 4ms\n"), 4);
    });
}

// ms    0           1      1.3                    10      urgent is woken at 1 ms: it waits for the end of a's
// cpu0  a computes  │ call │ urgent │ a computes │ sleeps system call, or for its sleep if that is first
fn starts_and_sleeps_us(object: PathBuf, goes_on: Span) -> (u64, u64) {
    let workload = "schedlab-workload 1\n- INIT 0 0 1 runnable name=a\n\
                    - INIT 0 0 2 blocked name=urgent policy=fifo prio=50\n\
                    - BLOCK 1 10ms\n- WAKEUP 1 5ms\n- EXIT 1 1ms\n- WAKEUP 2 1ms\n- EXIT 2 100us\n";
    let costs = Costs { call_drawn: Some([goes_on; 20]), ..Costs::default() };
    let ran = run_with(costs, object, workload, "1", None, &[("sched/fair_server/cpu0/runtime", "0")]);
    assert_eq!((ran.outcome.end, ran.warnings), (End::AllDone, vec![]));
    // 11 ms of a and 100 us of urgent, and 5 ms of a's sleep. The kernel's account differs: between a wakeup and
    // schedule() it does not look at the clock again (rq_clock_skip_update()), so who is next has the call's rest
    let exits = ran.log.iter().find(|r| r.kind == 7 && r.task == 0).unwrap();
    assert!([16_100_000, 16_000_000].contains(&exits.time_ns), "a has lost nothing: {}", exits.time_ns);
    let starts = ran.log.iter().find(|r| r.kind == 1 && r.other == 1).unwrap();
    let slept = ran.log.iter().find(|r| r.kind == 1 && r.task == 0 && r.flags >= 2).unwrap();
    (starts.time_ns / 1000, slept.time_ns / 1000)
}

#[test]
fn who_is_woken_interrupts_user_mode() {
    in_child("who_is_woken_interrupts_user_mode", |object| {
        assert_eq!(starts_and_sleeps_us(object, Span::ZERO), (1000, 10_100));
    });
}

#[test]
fn who_is_woken_waits_for_the_end_of_a_system_call() {
    in_child("who_is_woken_waits_for_the_end_of_a_system_call", |object| {
        assert_eq!(starts_and_sleeps_us(object, Span::from_us(300)), (1300, 10_100));
    });
}

#[test]
fn who_is_woken_waits_for_a_sleep_within_the_call() {
    in_child("who_is_woken_waits_for_a_sleep_within_the_call", |object| {
        assert_eq!(starts_and_sleeps_us(object, Span::from_ms(9)), (10_000, 10_000));
    });
}
