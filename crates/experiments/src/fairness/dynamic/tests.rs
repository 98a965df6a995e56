use super::*;
use crate::fairness::{CONTENDERS, Spread, draw_shares, find};
use schedlab_policies::proportional::quantum;
use schedlab_stdx::Random;

fn config(contenders: Vec<&'static Contender>) -> DynamicConfig {
    DynamicConfig { quanta: 5_000, ..DynamicConfig::default_mix(contenders) }
}

/// Nobody sleeps, nobody changes: the errors are those of the static definition.
#[test]
fn without_changes_it_is_the_static_error() {
    for contender in CONTENDERS {
        let still = DynamicConfig {
            nr_clients: 7,
            total: 100,
            quanta: 100,
            work_quanta: 0,
            change_quanta: 0,
            ..config(vec![contender])
        };
        let result = simulate(&still).unwrap().results.remove(0);
        let mut random = Random::for_part(still.seed, 7);
        let shares = draw_shares(&mut random, Spread::Uniform, 7, 100);
        let mut discipline = (contender.make)(7, still.seed);
        let (low, high) = quantum::serve(&mut *discipline, &shares, 100, |_, _, _| {}).from_start_tu();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(
            near(result.since_start_tu.0, low) && near(result.since_start_tu.1, high),
            "{contender:?}: {:?}, {low} {high}",
            result.since_start_tu
        );
        assert_eq!(result.since_start_tu, result.since_join_tu);
    }
}

/// EEVDF keeps lags while away: since the start its errors stay near a quantum or two, where WFQ's, which
/// forgets, wander.
#[test]
fn kept_lags_keep_errors_small() {
    let results = simulate(&config(vec![find("eevdf-1995").unwrap(), find("wfq").unwrap()])).unwrap().results;
    let width = |result: &DynamicResult| result.since_start_tu.1 - result.since_start_tu.0;
    assert!(width(&results[0]) < width(&results[1]));
    assert!(results.iter().all(|result| result.nr_joins > 200 && result.nr_changes > 5));
}

/// Share changes come at the same times under every scheduler.
#[test]
fn clients_are_the_same_for_all() {
    let changing = DynamicConfig { change_quanta: 200, ..config(CONTENDERS.iter().collect()) };
    let results = simulate(&changing).unwrap().results;
    assert!(results.iter().all(|result| result.nr_changes == results[0].nr_changes), "one plan for all");
}

fn follow_one(sched: &str, shares: &[u64], events: &[&str], quanta: u64) -> DynamicResult {
    let happenings = events.iter().map(|event| event.parse().unwrap()).collect();
    let script = Script { shares: shares.to_vec(), happenings, quanta, seed: 1 };
    follow(&[find(sched).unwrap()], &script).unwrap().results.remove(0)
}

/// VTRR's rules by hand. B sleeps after the second quantum, in which it was served; A and C (shares 3, 1) go on.
///
/// ```text
/// t        0 1 2 3 4 5 6 7 8
/// served   A B C A A . . .      B away from 2 on: A is due 3/4, C 1/4
/// ```
#[test]
fn a_client_leaves_at_the_end_of_its_quantum() {
    let result = follow_one("vtrr", &[3, 2, 1], &["2:B:sleep"], 6);
    assert_eq!(result.received_tu[1], 1.0);
    let order: Vec<usize> = result.stretches.iter().map(|stretch| stretch.0).collect();
    assert_eq!(order[..4], [0, 1, 2, 0]);
    assert!(!order[2..].contains(&1));
    // B was due 2 x 1/3 and had 1; it keeps that lead while away
    assert_eq!(result.curves[1].last().unwrap().0, 2.0);
    assert!((result.curves[1].last().unwrap().1 - 1.0 / 3.0).abs() < 1e-12);
}

/// In the middle of its quantum a client that leaves is cut short: B has half a quantum.
#[test]
fn a_client_leaves_within_its_quantum() {
    for sched in ["vtrr", "wfq", "wf2q", "stride", "wrr", "drr", "sfq", "eevdf-1995"] {
        let result = follow_one(sched, &[1, 1], &["1.5:B:leave"], 5);
        let expected = if result.stretches[0].0 == 0 { [4.5, 0.5] } else { [3.5, 1.5] };
        assert_eq!(result.received_tu, expected, "{sched}");
    }
}

/// A latecomer is due nothing before it comes, and its share from then on.
#[test]
fn a_latecomer_is_due_nothing_before() {
    for sched in ["vtrr", "wfq", "wf2q", "stride", "eevdf-1995"] {
        let result = follow_one(sched, &[1, 1, 2], &["100:C:join"], 500);
        let parts: Vec<f64> = result.received_tu.clone();
        assert!((parts[2] - 200.0).abs() <= 2.0, "{sched}: half of 400, {parts:?}");
        assert!((parts[0] - 150.0).abs() <= 2.0, "{sched}: half of 100 and a quarter of 400, {parts:?}");
    }
}

/// A share that is doubled counts from then on.
#[test]
fn a_changed_share_counts_from_its_instant() {
    for sched in ["vtrr", "wfq", "wf2q", "stride", "eevdf-1995", "wrr"] {
        let result = follow_one(sched, &[1, 1], &["100:A:share=3"], 500);
        assert!((result.received_tu[0] - 350.0).abs() <= 3.0, "{sched}: {:?}", result.received_tu);
    }
}

/// Who is not runnable is not served, under any scheduler and any script.
#[test]
fn sleepers_are_never_served() {
    let mut random = Random::new(8);
    for contender in CONTENDERS {
        for _ in 0..20 {
            let from = 1 + random.below(20);
            let to = from + 1 + random.below(20);
            let events = [format!("{from}.{}:B:sleep", random.below(10)), format!("{to}.5:B:wake")];
            let events: Vec<&str> = events.iter().map(String::as_str).collect();
            let result = follow_one(contender.name, &[3, 2, 1], &events, 60);
            let (from, to) = (events[0].split(':').next().unwrap(), events[1].split(':').next().unwrap());
            let (from, to): (f64, f64) = (from.parse().unwrap(), to.parse().unwrap());
            for &(client, began, ended) in &result.stretches {
                assert!(
                    client != 1 || ended <= from || began >= to,
                    "{contender:?} {events:?} {began} {ended}"
                );
            }
            assert!((result.received_tu.iter().sum::<f64>() - 60.0).abs() < 1e-9, "the CPU is never idle");
        }
    }
}
