//! Idle CPUs beside waiting tasks: drawn schedules, the times read off the drawings by hand.

use schedlab_instruments::*;
use schedlab_log::{Kind, LogGroup, MemLog, PrevState, Record, TextLog, note};
use schedlab_units::{CpuSet, Span, TaskId};
use std::path::Path;

const MS: u64 = 1_000_000;

/// Lines `ms cpu kind ...` (times in ms) to a log of tasks t0, t1, ... (all CPUs allowed).
fn log(nr_cpus: u32, nr_tasks: u32, duration_ms: u64, lines: &str) -> MemLog {
    let mut text = format!(
        "# schedlab log 1\n# sched \"drawn\"\n# cpus {nr_cpus}\n# duration_ns {}\n",
        duration_ms * MS
    );
    (0..nr_tasks).for_each(|t| text += &format!("# task t{t} pid={} name=\"{t}\"\n", t + 1));
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    for line in &lines {
        let (ms, rest) = line.split_once(' ').unwrap();
        text += &format!("{} {rest}\n", ms.parse::<u64>().unwrap() * MS);
    }
    text += &format!("# end {}\n", lines.len());
    TextLog::parse(&text, Path::new("drawn")).unwrap()
}

fn put(log: &mut MemLog, records: impl IntoIterator<Item = Record>) {
    log.records.extend(records);
    log.records.sort_by_key(|record| record.time_ns);
}

/// `setter` sets these words of `task`, which then take effect.
fn set(ms: u64, setter: u32, task: u32, words: &str, takes_effect: bool) -> Vec<Record> {
    let mut records: Vec<Record> = (0..=words.len())
        .step_by(8)
        .enumerate()
        .map(|(piece, start)| {
            let mut bytes = [0; 8];
            let part = &words.as_bytes()[start..words.len().min(start + 8)];
            bytes[..part.len()].copy_from_slice(part);
            let (value, flags) = (u64::from_le_bytes(bytes), piece as u8);
            let (kind, arg) = (Kind::Note as u8, note::SET);
            Record {
                time_ns: ms * MS,
                kind,
                flags,
                task: setter,
                other: task,
                arg,
                value,
                ..Record::default()
            }
        })
        .collect();
    if takes_effect {
        let (kind, flags, other) = (Kind::Params as u8, 1, TaskId::IDLE.0);
        records.push(Record { time_ns: ms * MS, kind, flags, task, other, ..Record::default() });
    }
    records
}

fn noted(ms: u64, task: u32, arg: u32, value: u64) -> Record {
    let (kind, other) = (Kind::Note as u8, TaskId::IDLE.0);
    Record { time_ns: ms * MS, kind, task, other, arg, value, ..Record::default() }
}

/// In ms: from and to of each stretch longer than `bound_ms`, then what is unknown.
fn found(log: &MemLog, bound_ms: u64) -> (Vec<(u64, u64)>, u64) {
    let found = wasted(log, Span::from_ms(bound_ms)).unwrap();
    let stretches: Vec<(u64, u64)> =
        found.all.longest.iter().map(|s| (s.from_ns / MS, s.to_ns / MS)).collect();
    assert_eq!(found.nr_stretches, stretches.len() as u64);
    assert_eq!(found.total_ns, stretches.iter().map(|(from, to)| (to - from) * MS).sum::<u64>());
    assert_eq!(summarize(log).unwrap().system.conservation, wasted(log, Span::ZERO).unwrap().all);
    (stretches, found.all.unknown_ns / MS)
}

/// A runs on cpu0 all the time, B waits there from the start; cpu1 and cpu2 are idle.
const ONE_RUNS: &str = "0 cpu0 new t0 cpu0
    0 cpu0 new t1 cpu0
    0 cpu0 switch idle -> t0";

#[test]
fn only_stretches_longer_than_the_bound_count() {
    // ms    0         1
    //       01234567890123456789
    // cpu0  AAAAAAAAAAAAAAAAAAAA      B waits from 2 to 12, on cpu0
    // cpu1  CCCC.CCCC..B........      cpu1 idles from 4 to 5 and from 9 to 11 beside it
    let log = log(
        2,
        3,
        20,
        "0 cpu0 new t0 cpu0
         0 cpu0 switch idle -> t0
         0 cpu1 new t2 cpu1
         0 cpu1 switch idle -> t2
         2 cpu0 new t1 cpu0
         4 cpu1 switch t2 sleeping -> idle
         5 cpu1 wakeup t2 cpu1
         5 cpu1 switch idle -> t2
         9 cpu1 switch t2 sleeping -> idle
         11 cpu1 migrate t1 cpu0 -> cpu1
         11 cpu1 switch idle -> t1
         12 cpu1 switch t1 dead -> idle",
    );
    assert_eq!(found(&log, 0), (vec![(4, 5), (9, 11)], 0));
    assert_eq!(found(&log, 1), (vec![(9, 11)], 0));
    assert_eq!(found(&log, 2), (vec![], 0));
    let mut pictures = Vec::new();
    for_each_picture(&log, &wasted(&log, Span::from_ms(1)).unwrap().all.longest, |p| {
        pictures.push(p.clone())
    })
    .unwrap();
    let cpu = schedlab_units::CpuId;
    let waiting = WaitingTask { task: TaskId(1), cpu: cpu(0), since_ns: 2 * MS, throughout: true };
    let queue = |running, waiting| QueueLength { running, waiting };
    let expected = Picture {
        stretch: Stretch { from_ns: 9 * MS, to_ns: 11 * MS },
        idle_cpus: vec![cpu(1)],
        idle_throughout: vec![cpu(1)],
        waiting: vec![waiting],
        queues: vec![queue(1, 1), queue(0, 0)],
        began: vec![Began::FellIdle(cpu(1))],
        present: [(0, 0), (1, 0)]
            .map(|(task, on)| QueuedTask {
                task: TaskId(task),
                cpu: cpu(on),
                cpus: CpuSet::first(2),
                params: Default::default(),
            })
            .to_vec(),
    };
    assert_eq!(pictures, [expected]);
}

/// A3: a task whose affinity changes is not lost.
#[test]
fn a_new_affinity_is_followed() {
    // B is bound to cpu0, is released for cpu0-1 at 4 (by t0), bound to cpu0 again at 10, and released by
    // nobody knows what at 15
    let mut log = log(3, 2, 20, ONE_RUNS);
    log.header.tasks[1].affinity = Some("0".parse::<CpuSet>().unwrap());
    assert_eq!(found(&log, 0), (vec![], 0));
    put(&mut log, set(4, 0, 1, "affinity=0-1", true));
    assert_eq!(found(&log, 0), (vec![(4, 20)], 0));
    put(&mut log, set(10, 0, 1, "affinity=0", true));
    assert_eq!(found(&log, 0), (vec![(4, 10)], 0));
    let unknown = set(15, 0, 1, "", true).split_off(1);
    put(&mut log, unknown);
    assert_eq!(found(&log, 0), (vec![(4, 10)], 5));
    // refused: announced, but it does not take effect
    let mut log = three_cpus(ONE_RUNS);
    log.header.tasks[1].affinity = Some("0".parse::<CpuSet>().unwrap());
    put(&mut log, set(4, 0, 1, "affinity=0-1", false));
    assert_eq!(found(&log, 0), (vec![], 0));
}

fn three_cpus(lines: &str) -> MemLog {
    log(3, 2, 20, lines)
}

#[test]
fn a_task_of_unknown_affinity_may_use_its_own_queues_cpu() {
    // ms    0         1
    //       01234567890123456789
    // cpu0  AAAAAAAAAA..........      B waits on cpu0 throughout; from 10 on its own CPU idles
    let mut log = log(1, 2, 20, &format!("{ONE_RUNS}\n10 cpu0 switch t0 sleeping -> idle"));
    put(&mut log, set(5, 0, 1, "", true).split_off(1));
    assert_eq!(found(&log, 0), (vec![(10, 20)], 0));
}

#[test]
fn a_child_may_run_where_its_parent_may_at_its_birth() {
    // A, which may use cpu0, lets itself use cpu1, too, at 2; B, forked at 4, waits on cpu0: cpu1 idles beside it
    let lines = "0 cpu0 new t0 cpu0
        0 cpu0 switch idle -> t0
        4 cpu0 fork t0 -> t1
        4 cpu0 new t1 cpu0";
    let mut log = log(2, 2, 10, lines);
    for task in &mut log.header.tasks {
        task.affinity = Some("0".parse::<CpuSet>().unwrap());
    }
    put(&mut log, set(2, 0, 0, "affinity=0-1", true));
    assert_eq!(found(&log, 0), (vec![(4, 10)], 0));
    // one that is bound at its birth to what the header says, in so many words
    let mut log = three_cpus(lines);
    log.header.tasks[1].affinity = Some("0".parse::<CpuSet>().unwrap());
    put(&mut log, set(4, 0, 1, "", true).split_off(1));
    assert_eq!(found(&log, 0), (vec![], 0));
}

#[test]
fn cpusets_bind_and_moves_between_groups_are_followed() {
    let mut log = log(3, 2, 20, ONE_RUNS);
    let group = |path: &str, cpuset: Option<&str>| LogGroup {
        path: path.into(),
        cpuset: cpuset.map(|cpus| cpus.parse().unwrap()),
        ..LogGroup::default()
    };
    log.header.groups = vec![group("/a", Some("0")), group("/a/b", None), group("/ab", Some("0,2"))];
    log.header.tasks[1].group = Some(1);
    assert_eq!(found(&log, 0), (vec![], 0), "/a/b has the CPUs of /a");
    put(&mut log, set(5, 0, 1, "cgroup=/ab", false));
    assert_eq!(found(&log, 0), (vec![(5, 20)], 0));
    // the kernel says what came of it
    put(&mut log, [noted(8, 1, note::ALLOWED, 1)]);
    assert_eq!(found(&log, 0), (vec![(5, 8)], 0));
}

#[test]
fn a_cpu_that_is_down_does_not_idle() {
    let mut log = log(2, 2, 20, ONE_RUNS);
    let cpu = |ms, up| Record { cpu: 1, ..noted(ms, 0, note::CPU, up) };
    put(&mut log, [cpu(3, 0), cpu(12, 1)]);
    assert_eq!(found(&log, 0), (vec![(0, 3), (12, 20)], 0));
}

/// A3: a throttled task has no CPU to wait for.
#[test]
fn a_task_that_is_held_back_does_not_wait() {
    // ms    0         1
    //       01234567890123456789
    // cpu0  AAAAA...............      A is held back from 5 to 15, then waits for a CPU that idles
    let lines = "0 cpu0 new t0 cpu0
        0 cpu0 switch idle -> t0
        5 cpu0 note t0 note=2147483669 other=idle value=1 flags=0
        5 cpu0 switch t0 preempted -> idle
        15 cpu0 note t0 note=2147483669 other=idle value=0 flags=0";
    assert_eq!(note::HELD, 2_147_483_669);
    assert_eq!(found(&log(1, 1, 20, lines), 0), (vec![(15, 20)], 0));
    // B, of the same group, has what is left of the limit on cpu0, where it waits: cpu1 and cpu2 cannot serve
    // it from 5 to 15
    let mut log = three_cpus(ONE_RUNS);
    log.header.groups = vec![LogGroup {
        path: "/a".into(),
        max: Some((Span::from_ms(10), Span::from_ms(100))),
        cpuset: None,
    }];
    log.header.tasks.push(log.header.tasks[0].clone());
    log.header.tasks.iter_mut().for_each(|task| task.group = Some(0));
    assert_eq!(found(&log, 0), (vec![(0, 20)], 0));
    put(&mut log, [noted(5, 2, note::HELD, note::HELD_GROUP), noted(15, 2, note::HELD, note::HELD_NOT)]);
    assert_eq!(found(&log, 0), (vec![(0, 5), (15, 20)], 0));
    // in another group it can be
    log.header.tasks[1].group = None;
    assert_eq!(found(&log, 0), (vec![(0, 20)], 0));
}

/// Random numbers below a bound: splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

const CPUS: u64 = 3;
const TASKS: u64 = 5;

/// Where a task of the model is.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Blocked,
    Waits,
    Runs(u16),
}

/// A machine that does anything lawful, and what is wasted in it by the definition itself.
struct Model {
    log: MemLog,
    now_ns: u64,
    at: Vec<At>,
    masks: Vec<u64>,
    is_down: Vec<bool>,
    is_held: Vec<bool>,
    wasted_ns: u64,
}

impl Model {
    fn pass(&mut self, ns: u64) {
        let idles = |cpu: u64| !self.is_down[cpu as usize] && !self.at.contains(&At::Runs(cpu as u16));
        let wasted = (0..TASKS as usize).any(|task| {
            self.at[task] == At::Waits
                && !self.is_held[task]
                && (0..CPUS).any(|cpu| self.masks[task] >> cpu & 1 == 1 && idles(cpu))
        });
        self.wasted_ns += if wasted { ns } else { 0 };
        self.now_ns += ns;
    }

    fn record(&mut self, kind: Kind, cpu: u16, task: u32, record: Record) {
        self.log.records.push(Record { time_ns: self.now_ns, kind: kind as u8, cpu, task, ..record });
    }

    fn switch(&mut self, cpu: u16, next: Option<usize>, state: PrevState) {
        let prev = self.at.iter().position(|at| *at == At::Runs(cpu));
        let id = |task: Option<usize>| task.map_or(TaskId::IDLE.0, |task| task as u32);
        if prev.is_none() && next.is_none() {
            return;
        }
        let record = Record { other: id(next), flags: state as u8, ..Record::default() };
        self.record(Kind::Switch, cpu, id(prev), record);
        if let Some(prev) = prev {
            self.at[prev] = if state.is_runnable() { At::Waits } else { At::Blocked };
        }
        if let Some(next) = next {
            self.at[next] = At::Runs(cpu);
        }
    }

    fn step(&mut self, dice: &mut Dice) {
        let (cpu, task) = (dice.below(CPUS) as u16, dice.below(TASKS) as usize);
        let idle = TaskId::IDLE.0;
        match dice.below(8) {
            0 | 1 if self.at[task] == At::Blocked => {
                self.at[task] = At::Waits;
                let to = dice.below(CPUS) as u32;
                self.record(
                    Kind::Wakeup,
                    cpu,
                    task as u32,
                    Record { other: idle, arg: to, ..Record::default() },
                );
            }
            2 | 3 if self.at[task] == At::Waits => self.switch(cpu, Some(task), PrevState::Preempted),
            4 => self.switch(cpu, None, PrevState::Sleeping),
            5 => self.switch(cpu, None, PrevState::Preempted),
            6 => {
                self.masks[task] = 1 + dice.below((1 << CPUS) - 1);
                let cpus: Vec<String> = (0..CPUS)
                    .filter(|cpu| self.masks[task] >> cpu & 1 == 1)
                    .map(|cpu| cpu.to_string())
                    .collect();
                let records = set(0, 0, task as u32, &format!("affinity={}", cpus.join(",")), true);
                self.log.records.extend(records.into_iter().map(|r| Record { time_ns: self.now_ns, ..r }));
            }
            7 if dice.below(2) == 0 => {
                self.is_held[task] = !self.is_held[task];
                let value = u64::from(self.is_held[task]) * note::HELD_DEADLINE;
                let record = Record { other: idle, arg: note::HELD, value, ..Record::default() };
                self.record(Kind::Note, cpu, task as u32, record);
            }
            7 => {
                self.is_down[usize::from(cpu)] = !self.is_down[usize::from(cpu)];
                let value = u64::from(!self.is_down[usize::from(cpu)]);
                self.record(Kind::Note, cpu, 0, Record { arg: note::CPU, value, ..Record::default() });
            }
            _ => {}
        }
    }
}

/// Against the definition, on random logs: at every instant, is there an idle CPU, and a task that waits and
/// may run there?
#[test]
fn it_is_what_the_definition_says() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let mut model = Model {
            log: log(CPUS as u32, TASKS as u32, 0, ""),
            now_ns: 0,
            at: vec![At::Blocked; TASKS as usize],
            masks: vec![(1 << CPUS) - 1; TASKS as usize],
            is_down: vec![false; CPUS as usize],
            is_held: vec![false; TASKS as usize],
            wasted_ns: 0,
        };
        for _ in 0..300 {
            model.step(&mut dice);
            let ns = dice.below(3);
            model.pass(ns);
        }
        model.log.header.duration = Span::from_ns(model.now_ns);
        let found = wasted(&model.log, Span::ZERO).unwrap().all;
        assert_eq!(found.idle_while_waiting_ns, model.wasted_ns, "seed {seed}");
        assert_eq!((found.unknown_ns, &found.unknown[..]), (0, &[][..]), "seed {seed}");
        let mut sum_ns = 0;
        for_each_picture(&model.log, &found.longest, |picture| {
            assert!(!picture.idle_cpus.is_empty() && !picture.waiting.is_empty(), "seed {seed}: {picture:?}");
            sum_ns += picture.stretch.ns();
        })
        .unwrap();
        assert_eq!(sum_ns, model.wasted_ns, "seed {seed}");
    }
}
