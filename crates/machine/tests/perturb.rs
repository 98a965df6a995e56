//! Perturbed replays: who starts when, where the ticks fall, and that nothing changes unless asked for.

use schedlab_log::{Kind, Record};
use schedlab_machine::drawn::Life::{self, Run, Sleep};
use schedlab_machine::drawn::workload;
use schedlab_machine::kernel::SKEW_TICK;
use schedlab_machine::native::Native;
use schedlab_machine::policy::{Arrival, Policy, Resched, Stop, Timing, View};
use schedlab_machine::{End, Machine, Perturb, Program, Setup};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Span, TaskId, Time};
use schedlab_workload::parse_text;
use std::collections::VecDeque;

/// First in, first out; notes when each CPU's ticks come.
struct Ticking {
    queue: VecDeque<TaskId>,
    tick: Span,
    ticks: Vec<(CpuId, Time)>,
}

impl Policy for Ticking {
    fn timing(&self) -> Timing {
        Timing { tick: Some(self.tick) }
    }
    fn task_new(&mut self, _: &View, _: TaskId) {}
    fn select_cpu(&mut self, view: &View, task: TaskId, _: Arrival) -> CpuId {
        view.idle_cpu_for(task).unwrap_or(view.home_cpu(task))
    }
    fn enqueue(&mut self, _: &View, _: CpuId, task: TaskId, _: Arrival) {
        self.queue.push_back(task);
    }
    fn dequeue(&mut self, _: &View, _: CpuId, task: TaskId) {
        self.queue.retain(|&t| t != task);
    }
    fn pick_next(&mut self, _: &View, _: CpuId) -> Option<TaskId> {
        self.queue.pop_front()
    }
    fn put_prev(&mut self, _: &View, _: CpuId, task: TaskId, _: Span, stop: Stop) {
        if stop.is_runnable() {
            self.queue.push_back(task);
        }
    }
    fn tick(&mut self, view: &View, cpu: CpuId, _: TaskId, _: Span) -> Resched {
        self.ticks.push((cpu, view.now()));
        Resched::No
    }
}

struct Done {
    records: Vec<Record>,
    ticks: Vec<(CpuId, Time)>,
    end: End,
    duration: Span,
}

fn run(program: Program, nr_cpus: u32, tick: Span, params: &[(&str, &str)]) -> Done {
    let mut records: Vec<Record> = Vec::new();
    let params = params.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let setup = Setup { topology: Topology::flat(nr_cpus).unwrap(), duration: None, params };
    let policy = Ticking { queue: VecDeque::new(), tick, ticks: Vec::new() };
    let mut machine = Machine::new(Native::new(policy, &mut records), program, setup);
    let outcome = machine.run();
    let ticks = machine.kernel().policy().ticks.clone();
    drop(machine);
    Done { records, ticks, end: outcome.end, duration: outcome.duration }
}

fn program(lives: &[&[Life]]) -> Program {
    Program::new(&workload(lives)).unwrap()
}

fn times(records: &[Record], kind: Kind) -> Vec<(u64, u32)> {
    let of_kind = records.iter().filter(|record| record.kind() == Some(kind));
    of_kind.map(|record| (record.time_ns / 1_000_000, record.task)).collect()
}

/// ```text
/// ms    0123456789
/// cpu0  ..CCCAAB..      C starts at 2, A at 4, B at 5; nobody at 0
/// ```
#[test]
fn tasks_start_when_they_are_due() {
    let mut late = program(&[&[Run(2)], &[Run(1)], &[Run(3)]]);
    for (task, ms) in [(0, 4), (1, 5), (2, 2)] {
        late.tasks[task].start_after = Span::from_ms(ms);
    }
    let done = run(late, 1, Span::from_s(1), &[]);
    assert_eq!(done.end, End::AllDone);
    assert_eq!(times(&done.records, Kind::New), [(2, 2), (4, 0), (5, 1)]);
    let switches = done.records.iter().filter(|r| r.kind() == Some(Kind::Switch));
    let switches: Vec<_> = switches.map(|r| (r.time_ns / 1_000_000, r.other().to_string())).collect();
    let expected = [(2, "t2"), (5, "t0"), (7, "t1"), (8, "idle")];
    assert_eq!(switches, expected.map(|(ms, who)| (ms, who.to_string())));
    assert_eq!(done.duration, Span::from_ms(8));
}

/// A task that starts after everybody else has gone is waited for; one that starts after the duration never comes.
#[test]
fn late_tasks_are_neither_lost_nor_forced() {
    let mut late = program(&[&[Run(1)], &[Run(1)]]);
    late.tasks[1].start_after = Span::from_s(2);
    let done = run(late, 2, Span::from_s(1), &[]);
    assert_eq!((done.end, done.duration), (End::AllDone, Span::from_ms(2001)));
}

/// The clock of the kernel is a whole number of ms (the tick) plus the phase when the workload starts.
#[test]
fn the_phase_moves_the_ticks_against_the_workload() {
    let tick = Span::from_ms(4);
    let mut shifted = program(&[&[Run(20)]]);
    shifted.phase = Span::from_ns(3_100_000);
    let first = |done: &Done| done.ticks[0].1.as_ns() % 1_000_000_000;
    let started_at = |done: &Done| done.records[0].time_ns;
    let (plain, moved) = (run(program(&[&[Run(20)]]), 1, tick, &[]), run(shifted, 1, tick, &[]));
    assert_eq!((started_at(&plain), started_at(&moved)), (0, 0));
    // ticks stay on the grid of the clock: 4.0 ms after the second; the workload starts at 0 or at 3.1 ms of it
    assert_eq!((first(&plain), first(&moved)), (4_000_000, 4_000_000));
    // 4, 8, .., 20 in both: the one at 20 comes before the exit at 20 (timers first), the other ends at 23.1
    assert_eq!((plain.ticks.len(), moved.ticks.len()), (5, 5));
}

/// `tick_setup_sched_timer()`: half a tick, divided by the number of CPUs, times the CPU.
#[test]
fn staggered_ticks_are_spread_over_half_a_tick() {
    let tick = Span::from_ms(4);
    let lives: [&[Life]; 4] = [&[Run(9)], &[Run(9)], &[Run(9)], &[Run(9)]];
    let offsets = |params: &[(&str, &str)]| {
        let done = run(program(&lives), 4, tick, params);
        let mut offsets: Vec<_> =
            done.ticks.iter().map(|(cpu, at)| (cpu.0, at.as_ns() % 4_000_000 / 1000)).collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    };
    assert_eq!(offsets(&[]), [(0, 0), (1, 0), (2, 0), (3, 0)]);
    assert_eq!(offsets(&[(SKEW_TICK, "1")]), [(0, 0), (1, 500), (2, 1000), (3, 1500)]);
}

/// Every seed is a run that ends, gives each task its CPU time, and repeats.
#[test]
fn every_seed_keeps_the_work() {
    let lives: [&[Life]; 3] = [&[Run(3), Sleep(2), Run(4)], &[Run(5), Sleep(1), Run(1)], &[Sleep(7), Run(2)]];
    let run = |seed| {
        let mut varied = program(&lives);
        varied.perturb(&Perturb::new(seed), |_| false);
        run(varied, 2, Span::from_ms(4), &[])
    };
    let mut durations = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let done = run(seed);
        assert_eq!(done.end, End::AllDone);
        assert_eq!(done.records, run(seed).records);
        durations.insert(done.duration);
        let cpu_ns: i64 = done
            .records
            .iter()
            .filter(|record| record.kind() == Some(Kind::Switch))
            .map(|r| {
                let sign = i64::from(!r.task().is_idle()) - i64::from(!r.other().is_idle());
                sign * r.time_ns as i64
            })
            .sum();
        assert_eq!(cpu_ns, 15_000_000);
    }
    assert!(durations.len() > 45, "seeds give different runs");
}

/// A task's instants move with its start, and a wakeup that comes late does not move the next instant. Both were
/// otherwise: jobs ended before they were released, or later each time.
#[test]
fn instants_move_with_the_start_and_not_with_the_slack() {
    const PERIOD_NS: u64 = 10_000_000;
    const SLACK_NS: u64 = 50_000;
    for (state, source) in ["runnable", "blocked"]
        .into_iter()
        .flat_map(|state| ["absolute", "grid", "grid-restart", "grid-skip"].map(|source| (state, source)))
    {
        let mut text = format!("schedlab-workload 6\n- INIT 0 0 1 {state} name=a\n");
        if state == "blocked" {
            text += &format!("- WAKEUP 1 10ms {source}\n");
        }
        for _ in 0..200 {
            text += &format!("- BLOCK 1 1ms\n- WAKEUP 1 10ms {source}\n");
        }
        let workload = parse_text("drawn", format!("{text}- EXIT 1 1ms\n").as_bytes()).unwrap();
        for is_real_time in [false, true] {
            let mut varied = Program::new(&workload).unwrap();
            varied.perturb(&Perturb::new(3), |_| is_real_time);
            let done = run(varied, 1, Span::from_ms(4), &[]);
            let mut wakeups: Vec<u64> = done
                .records
                .iter()
                .filter(|r| matches!(r.kind(), Some(Kind::New | Kind::Wakeup)))
                .map(|r| r.time_ns)
                .collect();
            if state == "blocked" && matches!(done.records[0].kind(), Some(Kind::New)) {
                wakeups.remove(0); // it comes to be, and sleeps
            }
            assert_eq!(wakeups.len(), 201, "{state} {source}");
            assert!(!wakeups[0].is_multiple_of(PERIOD_NS), "{state} {source}: the start is late");
            let late: Vec<u64> =
                (0..).zip(&wakeups).map(|(i, at_ns)| at_ns - wakeups[0] - i * PERIOD_NS).collect();
            assert!(late.iter().all(|late_ns| *late_ns <= SLACK_NS), "{state} {source}: {late:?}");
            assert_eq!(late.iter().all(|late_ns| *late_ns == 0), is_real_time, "{state} {source}: {late:?}");
        }
    }
}
