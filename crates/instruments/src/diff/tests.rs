//! Hand-made pairs of logs, drawn, with known first differences; then properties.

use super::*;
use crate::WaitCause;
use proptest::prelude::*;
use schedlab_log::synthetic::Config;
use schedlab_log::{KernelThread, LogHeader, LogTask, MemLog, PrevState, Record};

const UNIT_NS: u64 = 1_000_000;

/// A log from a drawing: per CPU one character per ms. A letter is a task (all are runnable from 0 on), `.`
/// is idle, a digit is a kernel thread; a stay drawn in lower-case letters ends by blocking, and the task
/// wakes when it is next drawn.
fn drawn(lines: &[&str]) -> MemLog {
    let nr_tasks = 8;
    let ms = lines.iter().map(|line| line.len()).max().unwrap_or(0);
    let header = LogHeader {
        sched: "drawn".into(),
        nr_cpus: lines.len() as u32,
        duration: Span::from_ms(ms as u64),
        tasks: (0..nr_tasks)
            .map(|i| LogTask { pid: 100 + i, name: char::from(b'A' + i as u8).into(), ..LogTask::default() })
            .collect(),
        kernel_threads: (1..=9).map(|pid| KernelThread { pid, name: format!("k/{pid}") }).collect(),
        ..LogHeader::default()
    };
    let id = |c: u8| match c {
        b'.' => TaskId::IDLE,
        b'0'..=b'9' => TaskId::kernel_thread(u32::from(c - b'0')),
        _ => TaskId(u32::from(c.to_ascii_uppercase() - b'A')),
    };
    let record = |time_ns, kind: Kind, cpu: usize, task: TaskId, other: TaskId| Record {
        time_ns,
        kind: kind as u8,
        cpu: cpu as u16,
        task: task.0,
        other: other.0,
        arg: cpu as u32,
        ..Record::default()
    };
    let used: Vec<TaskId> = {
        let mut ids: Vec<TaskId> = lines.iter().flat_map(|line| line.bytes()).map(id).collect();
        ids.sort();
        ids.dedup();
        ids.into_iter().filter(|id| !id.is_idle()).collect()
    };
    let mut records: Vec<Record> =
        used.iter().map(|task| record(0, Kind::New, 0, *task, TaskId::IDLE)).collect();
    let mut current: Vec<u8> = vec![b'.'; lines.len()];
    let mut asleep = std::collections::BTreeSet::new();
    for at in 0..ms {
        let time_ns = at as u64 * UNIT_NS;
        for (cpu, line) in lines.iter().enumerate() {
            let next = line.as_bytes().get(at).copied().unwrap_or(b'.');
            let previous = std::mem::replace(&mut current[cpu], next);
            let blocks = previous.is_ascii_lowercase() && previous != next;
            let mut from = id(previous);
            if blocks {
                asleep.insert(from);
                // it may come back at once, by way of idle
                let to = if id(next) == from { TaskId::IDLE } else { id(next) };
                let mut switch = record(time_ns, Kind::Switch, cpu, from, to);
                switch.flags = PrevState::Sleeping as u8;
                if asleep.remove(&to) {
                    records.push(record(time_ns, Kind::Wakeup, cpu, to, TaskId::IDLE));
                }
                records.push(switch);
                from = to;
            }
            if from != id(next) {
                if asleep.remove(&id(next)) {
                    records.push(record(time_ns, Kind::Wakeup, cpu, id(next), TaskId::IDLE));
                }
                records.push(record(time_ns, Kind::Switch, cpu, from, id(next)));
            }
        }
    }
    MemLog { header, records }
}

fn compare(a: &[&str], b: &[&str], within_ms: u64) -> Diff {
    let (a, b) = (drawn(a), drawn(b));
    let options = DiffOptions { within: Span::from_ms(within_ms), ..DiffOptions::default() };
    diff([&a, &b], options).unwrap()
}

/// `(ms, cpu, a's choice, b's choice)`; `-` = goes on as before.
fn first(diff: &Diff) -> Option<(u64, u32, String, String)> {
    let first = diff.first.as_ref()?;
    let choice = |side: &SideView| side.decision.map_or("-".to_string(), |(_, task)| task.to_string());
    Some((first.time_ns / UNIT_NS, first.cpu.0, choice(&first.sides[0]), choice(&first.sides[1])))
}

fn expect(at_ms: u64, cpu: u32, a: &str, b: &str) -> Option<(u64, u32, String, String)> {
    Some((at_ms, cpu, a.into(), b.into()))
}

#[test]
fn the_documented_pair() {
    let diff = compare(&["AAAABBBBAAAACCCCAAAA"], &["AAAABBBBAAAABBBBCCCC"], 0);
    assert_eq!(first(&diff), expect(12, 0, "t2", "t1"));
    let found = diff.first.as_ref().unwrap();
    assert_eq!(found.agreed_before, 3);
    let [a, b] = &found.sides;
    // both had run A since 8 (8 ms in all), B had 4 ms and waited since 8, C was new and had waited from the start
    for side in [a, b] {
        assert_eq!(side.time_ns, 12 * UNIT_NS);
        assert_eq!(side.cpus[0], CpuView { current: TaskId(0), waiting: 2 });
        let running =
            TaskView { place: Place::Running(CpuId(0)), since_ns: 8 * UNIT_NS, cpu_ns: 8 * UNIT_NS };
        assert_eq!(side.tasks[0], running);
        let preempted = Place::Waiting(CpuId(0), WaitCause::Preempted);
        assert_eq!(side.tasks[1], TaskView { place: preempted, since_ns: 8 * UNIT_NS, cpu_ns: 4 * UNIT_NS });
        let new = Place::Waiting(CpuId(0), WaitCause::New);
        assert_eq!(side.tasks[2], TaskView { place: new, since_ns: 0, cpu_ns: 0 });
        assert_eq!(side.stop, Some(PrevState::Preempted));
        assert_eq!(side.after[0].time_ns, 12 * UNIT_NS);
        assert!(side.before.last().unwrap().time_ns <= 12 * UNIT_NS);
    }
    // C instead of B, then A instead of C: 8 ms with different tasks
    assert_eq!(diff.disagree_ns, 8 * UNIT_NS);
    assert_eq!(diff.decisions, [5, 5]);
    let times: Vec<i64> = diff.tasks.iter().map(|task| task.difference_ns() / UNIT_NS as i64).collect();
    assert_eq!(times[..3], [-4, 4, 0]);
    // both have a decision for C, 4 ms apart: with that tolerance the stay of B is what one log has alone
    let tolerant = compare(&["AAAABBBBAAAACCCCAAAA"], &["AAAABBBBAAAABBBBCCCC"], 4);
    assert_eq!((first(&tolerant), tolerant.skipped), (None, 2)); // B's in b, and A's at the end in a
}

#[test]
fn equal_logs_do_not_differ() {
    let lines = ["AABb.BBCC11CC..A", "DDDDD..EEEE2EEEE"];
    let diff = compare(&lines, &lines, 0);
    assert!(diff.is_empty());
    assert_eq!((diff.differences, diff.disagree_ns, diff.skipped), (0, 0, 0));
    assert_eq!(diff.decisions[0], diff.agreed);
}

#[test]
fn one_log_may_go_on_as_before() {
    // b does not let B in at 4
    let diff = compare(&["AAAABBBBAAAA"], &["AAAAAAAAAAAA"], 0);
    assert_eq!(first(&diff), expect(4, 0, "t1", "-"));
    let [a, b] = &diff.first.as_ref().unwrap().sides;
    assert_eq!((a.time_ns, b.time_ns), (4 * UNIT_NS, 4 * UNIT_NS));
    assert_eq!(b.tasks[0].cpu_ns, 4 * UNIT_NS);
    // an excursion of 4 ms is within a tolerance of 4
    assert_eq!(first(&compare(&["AAAABBBBAAAA"], &["AAAAAAAAAAAA"], 4)), None);
    assert_eq!(first(&compare(&["AAAABBBBAAAA"], &["AAAAAAAAAAAA"], 3)), expect(4, 0, "t1", "-"));
}

#[test]
fn late_decisions_are_within_the_tolerance() {
    let (a, b) = (["AAAABBBBCCCCAAAA"], ["AAAAABBBBBBCCCCA"]); // b is late by 1, 3 (C), 3 (A)
    assert_eq!(first(&compare(&a, &b, 3)), None);
    assert_eq!(compare(&a, &b, 3).largest_shift_ns, 3 * UNIT_NS);
    assert_eq!(first(&compare(&a, &b, 2)), expect(8, 0, "t2", "-"));
    assert_eq!(first(&compare(&a, &b, 0)), expect(4, 0, "t1", "-"));
    // the logs end before it shows whether the last decision has a partner
    assert_eq!(first(&compare(&["AAAAAAAB"], &["AAAAAAAA"], 2)), None);
    assert_eq!(first(&compare(&["AAAAAAAB"], &["AAAAAAAA"], 0)), expect(7, 0, "t1", "-"));
}

#[test]
fn the_earliest_of_all_cpus_comes_first() {
    let a = ["AAAABBBBBBBB", "CCCCCCDDDDDD", "EEFFFFFFFFFF"];
    let b = ["AAAACCCCCCCC", "CCCCEEEEEEEE", "EEFFFFFFFFFF"];
    let b_placed = ["AAAAGGGGGGGG", "CCCCHHHHHHHH", "EEFFFFFFFFFF"];
    assert_eq!(first(&compare(&a, &b_placed, 0)), expect(4, 0, "t1", "t6"));
    assert_eq!(compare(&a, &b_placed, 0).differences, 2);
    // in the world of b task C would run twice at once: a log that contradicts itself is refused
    assert!(diff([&drawn(&a), &drawn(&b)], DiffOptions::default()).is_err());
}

#[test]
fn kernel_threads_are_left_out_unless_asked_for() {
    let (a, b) = (drawn(&["AAAA11AABBBB"]), drawn(&["AAAAAAAABBBB"]));
    let plain = diff([&a, &b], DiffOptions::default()).unwrap();
    assert!(plain.is_empty());
    assert_eq!(plain.kernel_threads, [(1, 2 * UNIT_NS), (0, 0)]);
    assert_eq!(
        plain.tasks[0].cpu_ns,
        [6 * UNIT_NS, 8 * UNIT_NS],
        "the time is the kernel thread's all the same"
    );
    let all = diff([&a, &b], DiffOptions { kernel_threads: true, ..DiffOptions::default() }).unwrap();
    let kernel_thread = TaskId::kernel_thread(1).to_string();
    assert_eq!(first(&all), expect(4, 0, &kernel_thread, "-"));
}

/// Stays without a length are no decisions, even if A blocks and comes back at once; of any other length they are.
#[test]
fn stays_have_a_length() {
    assert!(compare(&["AAaaAAAA.B"], &["AAAAAAAA.B"], 0).is_empty());
    let pause = compare(&["AAaa.AAA.B"], &["AAAAAAAA.B"], 0);
    assert_eq!(first(&pause), expect(4, 0, "idle", "-"));
    assert_eq!(pause.first.unwrap().sides[0].stop, Some(PrevState::Sleeping));
    assert!(compare(&["AAaa.AAA.B"], &["AAAAAAAA.B"], 1).is_empty());
}

/// Tasks are matched by name where the numbers differ; a task that is in one log only never agrees.
#[test]
fn tasks_are_matched_by_name() {
    let a = drawn(&["AAAABBBBCCCC"]);
    let mut b = drawn(&["BBBBAAAACCCC"]);
    b.header.tasks.swap(0, 1);
    let same = diff([&a, &b], DiffOptions::default()).unwrap();
    assert!(same.is_empty());
    assert_eq!(same.map.by, MappedBy::Name);
    b.header.tasks[2].name = "other".into();
    let other = diff([&a, &b], DiffOptions::default()).unwrap();
    assert_eq!(first(&other), expect(8, 0, "t2", "t2"));
    assert_eq!(other.map.unmatched().count(), 2);
    // none of the names is known: by place
    let plain = drawn(&["AAAABBBBCCCC"]);
    let mut renamed = plain.clone();
    renamed.header.tasks.iter_mut().for_each(|task| task.name = format!("{}.0", task.pid));
    let by_place = diff([&plain, &renamed], DiffOptions::default()).unwrap();
    assert_eq!((by_place.map.by, by_place.is_empty()), (MappedBy::Place, true));
}

#[test]
fn logs_of_different_lengths_are_compared_as_far_as_both_go() {
    let diff = compare(&["AAAABBBB", "CCCCCCCC"], &["AAAABBBBAAAABBBB"], 0);
    assert!(diff.is_empty());
    assert_eq!((diff.compared_ns, diff.nr_cpus), (8 * UNIT_NS, 1));
}

/// Whatever is swapped in a log is found, at the place where it was swapped, and nothing is found in the log itself.
fn swap_is_found(seed: u64, at: usize) -> Result<(), TestCaseError> {
    let log = Config { nr_cpus: 2, duration: Span::from_ms(200), seed, ..Config::default() }.log();
    let options = DiffOptions { kernel_threads: true, ..DiffOptions::default() };
    prop_assert!(diff([&log, &log], options).unwrap().is_empty());
    // let the log end at some switch, and give its CPU to idle instead
    let long = |i: &usize| {
        let record = &log.records[*i];
        let next =
            log.records[i + 1..].iter().find(|r| r.kind() == Some(Kind::Switch) && r.cpu == record.cpu);
        record.kind() == Some(Kind::Switch)
            && !record.other().is_idle()
            && !record.task().is_idle()
            && next.is_some_and(|next| next.time_ns > record.time_ns)
    };
    let places: Vec<usize> = (0..log.records.len() - 1).filter(long).collect();
    let place = places[at % places.len()];
    let mut other = log.clone();
    other.records.truncate(place + 1);
    other.records[place].other = TaskId::IDLE.0;
    let found = diff([&log, &other], options).unwrap();
    let first = found.first.expect("the change is found");
    prop_assert_eq!((first.time_ns, first.cpu), (log.records[place].time_ns, log.records[place].cpu()));
    prop_assert_eq!(first.sides[0].decision.map(|d| d.1), Some(log.records[place].other()));
    prop_assert_eq!(first.sides[1].decision.map(|d| d.1), Some(TaskId::IDLE));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_change_is_found_where_it_was_made(seed in 0u64..1000, at in 0usize..10_000) {
        swap_is_found(seed, at)?;
    }

    /// A log whose every time is moved by less than the tolerance agrees with itself.
    #[test]
    fn small_shifts_are_tolerated(seed in 0u64..1000, shift_us in 1u64..500) {
        let log = Config { nr_cpus: 3, duration: Span::from_ms(300), seed, ..Config::default() }.log();
        let mut late = log.clone();
        late.header.duration += Span::from_ns(shift_us * 1000);
        late.records.iter_mut().filter(|r| r.time_ns > 0).for_each(|r| r.time_ns += shift_us * 1000);
        let compare = |within_us: u64| {
            let within = Span::from_ns(within_us * 1000);
            diff([&log, &late], DiffOptions { within, kernel_threads: true, ..DiffOptions::default() }).unwrap()
        };
        let tolerant = compare(shift_us);
        prop_assert!(tolerant.is_empty());
        prop_assert!(tolerant.largest_shift_ns <= shift_us * 1000);
        prop_assert!(!compare(0).is_empty());
    }
}
