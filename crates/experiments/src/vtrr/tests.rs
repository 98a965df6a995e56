use super::*;
use crate::arm::{Client, Setting, who_ran};
use crate::fairness::Config;
use schedlab_stdx::Random;
use schedlab_units::Span;

fn client(share: u64) -> Client {
    Client::new("", Setting::Share(share))
}

/// The simulation quantum by quantum serves in the same order as the policy in the full machine, over random
/// sets of shares.
#[test]
fn simulation_and_machine_agree() {
    let mut random = Random::new(9);
    for contender in crate::fairness::CONTENDERS {
        for _ in 0..6 {
            let shares: Vec<u64> = (0..1 + random.below(8)).map(|_| 1 + random.below(9)).collect();
            let quanta: u64 = 2 * shares.iter().sum::<u64>();
            // lottery's policy has seed 1 by default
            let mut simulated = Vec::new();
            quantum::serve(&mut *(contender.make)(shares.len(), 1), &shares, quanta, |client, _, length| {
                (0..length).for_each(|_| simulated.push(client.index()));
            });
            let clients: Vec<Client> = shares.iter().map(|&share| client(share)).collect();
            let subject = Subject::native(contender.name).unwrap();
            let stretches = who_ran(&subject, &clients, Span::from_ms(10 * quanta)).unwrap();
            let mut machine = Vec::new();
            for stretch in stretches {
                let length = stretch.to_ns - stretch.from_ns;
                assert_eq!(length % 10_000_000, 0);
                (0..length / 10_000_000).for_each(|_| machine.push(stretch.client));
            }
            assert_eq!(machine, simulated, "{contender:?}, shares {shares:?}");
        }
    }
}

#[test]
fn all_is_written() {
    let mut config = ReproduceConfig::default();
    config.study.combinations = 2;
    config.study.points = Config::grid(&[4, 8], &[64, 128]);
    let reproduction = reproduce(&config).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let paths = reproduction.write(folder.path()).unwrap();
    for name in ["index.html", "vtrr-published.csv", "fairness-points.json", "sequences.svg", "frames.svg"] {
        assert!(paths.iter().any(|path| path.ends_with(name)), "{name} in {paths:?}");
    }
    assert!(reproduction.summary().contains("unverified"));
    // A,B,C,A,B,A and WRR's range are exact
    let text = reproduction.published.to_text();
    assert!(
        text.contains("A,B,C,A,B,A")
            && text.contains("-1.00 .. 1.50 tu")
            && text.contains("-100.0 .. 150.0 tu"),
        "{text}"
    );
}

/// At coarse grain all are alike: each of five clients has its share within half a per cent in 30 s, Linux's included.
#[test]
fn coarse_shares_are_right() {
    let table = cases::coarse(&cases::micro(&[]).unwrap());
    for row in 0..table.rows.len() {
        let (due, received) =
            (table.number(row, "due_part").unwrap(), table.number(row, "received_part").unwrap());
        assert!((due - received).abs() < 0.005, "{}: {:?}", table.text(row, "sched"), table.rows[row]);
    }
    assert!(table.rows.len() == 25);
}

/// The staircase: under WRR the encoder with the largest share waits for a whole round of the others (10
/// quanta of 10 ms); VTRR and WFQ give it service within a few quanta. Shares 1 to 5 as published.
#[test]
fn frames_come_evenly_under_vtrr() {
    let table = cases::frames_table(&cases::micro(&[]).unwrap());
    let longest = |sched: &str, share: u64| {
        let row = (0..table.rows.len())
            .find(|&row| table.text(row, "sched") == sched && table.rows[row][1] == share)
            .unwrap();
        table.number(row, "frame_longest_ms").unwrap()
    };
    assert!(longest("wrr", 5) >= 100.0);
    for sched in ["vtrr", "wfq"] {
        assert!(longest(sched, 5) <= 60.0, "{sched}: {}", longest(sched, 5));
        assert!(longest("linux-2.2", 5) > 2.0 * longest(sched, 5), "{sched}");
    }
}

/// Loops per share differ by less than one cycle's worth, of the 5,000 that each share is due in 30 s.
#[test]
fn virtual_machines_progress_by_share() {
    let (_, table) = cases::machines(&[]).unwrap();
    for row in 0..table.rows.len() {
        let loops = table.number(row, "loops_per_share").unwrap();
        assert!((loops - 5_000.0).abs() <= 25.0, "{:?}", table.rows[row]);
    }
}
