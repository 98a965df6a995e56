//! Long logs: sums that must hold in any schedule, and the cost per record.

use proptest::prelude::*;
use schedlab_instruments::*;
use schedlab_log::{Kind, Log, synthetic::Config};
use schedlab_units::Span;

fn check(config: Config) {
    let log = config.log();
    let verdict = verify(&log).unwrap();
    assert!(verdict.is_clean(), "{config:?}: {:?}", &verdict.violations[..verdict.violations.len().min(3)]);
    let s = summarize(&log).unwrap();
    s.check_time().unwrap();
    for t in s.tasks.iter().chain(&s.kernel_threads) {
        // every moment from the first to the last is run, wait or sleep
        let waits = t.wakeup_latency.sum_ns() + t.preempted_wait_ns + t.new_wait_ns;
        assert_eq!(t.run_delay.sum_ns(), waits, "{config:?} {}", t.id);
        let end = if t.exited { t.last_ns.unwrap() } else { s.duration_ns };
        if let (Some(first), true) = (t.first_ns, t.id.is_workload()) {
            assert_eq!(t.cpu_ns + t.run_delay.sum_ns() + t.blocked_ns, end - first, "{config:?} {}", t.id);
        }
        assert!(t.switches_voluntary + t.switches_involuntary <= t.runs);
    }
    // the queue's integral is the sum of all waits
    let waits: u64 = s.tasks.iter().chain(&s.kernel_threads).map(|t| t.run_delay.sum_ns()).sum();
    assert_eq!(s.system.waiting_task_ns, waits);
    assert_eq!(s.cpus.iter().map(|c| c.waiting_task_ns).sum::<u64>(), waits);
    let switches = log.records.iter().filter(|r| r.kind() == Some(Kind::Switch)).count();
    assert_eq!(s.system.switches, switches as u64);
    // the longest waits, by sorting all of them; whether one ends that lasts to the log's end is not known
    let mut all = Vec::new();
    for_each_stay(&log, |run| {
        if let (true, Some((_, ns))) = (run.task.is_workload() && run.start_ns < s.duration_ns, run.waited) {
            all.push(ns);
        }
    })
    .unwrap();
    all.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let ended = |w: &&LongWait| w.end_ns < s.duration_ns;
    let found: Vec<u64> =
        s.system.longest_waits.iter().filter(ended).map(LongWait::ns).filter(|ns| *ns > 0).collect();
    assert!(all.starts_with(&found), "{found:?}");
    let mut run_ns = 0;
    for_each_stay(&log, |run| run_ns += run.end_ns - run.start_ns).unwrap();
    assert_eq!(run_ns, s.system.task_ns + s.system.kernel_thread_ns);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn sums_hold_in_any_schedule(
        nr_cpus in 1u32..70, jobs in 0u32..40, hogs in 0u32..5, daemons in 0u32..10, seed: u64, ms in 1u64..400,
    ) {
        check(Config { nr_cpus, duration: Span::from_ms(ms), jobs, hogs, daemons, seed });
    }
}

/// A wait of 3 ms ends with the log, at 21 ms.
#[test]
fn sums_hold_where_a_wait_ends_with_the_log() {
    check(Config { nr_cpus: 2, duration: Span::from_ms(21), jobs: 0, hogs: 3, daemons: 0, seed: 0 });
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let config = Config::default();
    assert_eq!(config.log(), config.log());
    assert_ne!(config.log(), Config { seed: 2, ..config }.log());
}

/// A record that is changed must be noticed by the verifier, the sums, or be harmless; here: swap two CPUs of a switch.
#[test]
fn a_damaged_log_is_noticed() {
    let log = Config::default().log();
    let switches: Vec<usize> =
        (0..log.records.len()).filter(|i| log.records[*i].kind() == Some(Kind::Switch)).collect();
    for at in switches.iter().skip(10).step_by(97) {
        let mut damaged = log.clone();
        damaged.records[*at].cpu = (damaged.records[*at].cpu + 1) % log.header().nr_cpus as u16;
        assert!(!verify(&damaged).unwrap().is_clean(), "record {at}");
        assert!(summarize(&damaged).is_err(), "record {at}");
    }
}
