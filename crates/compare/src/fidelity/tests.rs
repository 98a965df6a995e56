use super::*;
use schedlab_instruments::summarize_seen;
use schedlab_log::{MemLog, TextLog};
use std::path::Path;

pub(super) fn log(tasks: &[&str], duration_ms: u64, lines: &str) -> MemLog {
    let nr_cpus = if lines.contains(" cpu1 ") { 2 } else { 1 };
    let mut text = format!(
        "# schedlab log 1\n# sched \"x\"\n# sched_version \"1\"\n# cpus {nr_cpus}\n# hz 250\n# duration_ns {}\n",
        duration_ms * 1_000_000
    );
    for (row, name) in tasks.iter().enumerate() {
        text += &format!("# task t{row} pid={} policy=normal nice=0 name=\"{name}\"\n", row + 11);
    }
    text += lines;
    text += &format!("# end {}\n", lines.lines().filter(|line| !line.starts_with('#')).count());
    TextLog::parse(&text, Path::new("drawn")).unwrap()
}

fn side(log: &MemLog) -> Side {
    Side::of(log, &summarize_seen(log).unwrap(), |_| true).unwrap()
}

// ms        0    1    2    3    4
// recorded  A    A|sleeps  B    B       A wakes B at 1; B waits 1 ms (to 2), runs, is preempted by nobody
// replayed  A    A    A|sleeps  B       B waits 2 ms
const RECORDED: &str = "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n\
                        1000000 cpu0 waking t1 by t0\n1000000 cpu0 wakeup t1 cpu0\n\
                        2000000 cpu0 switch t0 sleeping -> t1\n4000000 cpu0 switch t1 dead -> idle\n";
const REPLAYED: &str = "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n\
                        1000000 cpu0 waking t1 by t0\n1000000 cpu0 wakeup t1 cpu0\n\
                        3000000 cpu0 switch t0 preempted -> t1\n4000000 cpu0 switch t1 dead -> idle\n";

#[test]
fn a_replay_is_laid_beside_its_recording() {
    let (a, b) = (log(&["a", "b"], 5, RECORDED), log(&["a", "b"], 5, REPLAYED));
    let mut fidelity = Fidelity::of(&side(&a), &side(&b), MatchBy::Pid, 0);
    let waits = [0, 1].map(|which: usize| fidelity.all.sides[which].run_delay.sum_ns());
    assert_eq!(waits, [1_000_000, 4_000_000], "B waits 1 and 2 ms, A 2 ms more when preempted");
    assert_eq!(fidelity.tasks[0].label, "a (11)", "differs most, by 2 ms");
    let rows: Vec<[u32; 2]> = fidelity.tasks.iter().map(|pair| [pair.task.unwrap(); 2]).collect();
    let found = first_stop_differences([&a, &b], &rows).unwrap();
    let first = found[0].as_ref().expect("A blocks in one and is preempted in the other");
    assert_eq!(first.common, 0);
    assert_eq!(
        first.text(),
        "after 0 stops: recorded blocks at 2.00 ms on cpu0; replayed preempted at 3.00 ms on cpu0"
    );
    assert_eq!(found[1], None, "B exits in both");
    fidelity.order = Some(wakeup_order(&a, &b).unwrap());
    assert_eq!(fidelity.order.unwrap().wakeups, [1, 1]);
    let same = Fidelity::of(&side(&a), &side(&a), MatchBy::Pid, 0);
    assert_eq!((same.all.distance(0), same.all.run_delay_ks(0)), (0.0, Some(0.0)));
    assert!(fidelity.all.distance(0) > 0.3, "{}", fidelity.all.distance(0));
    let text = terminal(&fidelity, schedlab_report::Style::PLAIN);
    assert!(text.contains("run delay") && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(page("x", &[fidelity.clone()]).contains("<svg"));
    assert_eq!(json(&fidelity)["quantities"][1]["name"], "cpu");
}

/// The drawing of the module `order`.
#[test]
fn wakeups_that_swap_places_are_seen() {
    let lines = |order: [(u32, u32); 4]| {
        let mut text = String::from("0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n");
        for (us, (waker, sleeper)) in (1..).zip(order) {
            text +=
                &format!("{us}000 cpu0 waking t{sleeper} by t{waker}\n{us}000 cpu0 wakeup t{sleeper} cpu0\n");
        }
        text
    };
    let (ab, cd) = ((0, 1), (2, 3));
    let names = ["a", "b", "c", "d"];
    let recorded = log(&names, 1, &lines([ab, cd, ab, cd]));
    let replayed = log(&names, 1, &lines([ab, ab, cd, cd]));
    let order = wakeup_order(&recorded, &replayed).unwrap();
    assert_eq!((order.pairs, order.in_order), (3, 2));
    assert_eq!(wakeup_order(&recorded, &recorded).unwrap().share(), Some(1.0));
}

/// 20 us from the wakeup to the switch on an idle CPU are the kernel's: that is the grain, under which waits are equal.
#[test]
fn what_the_kernel_itself_takes_is_no_difference() {
    let woken = |us: u64| {
        format!(
            "1000000 cpu0 wakeup t0 cpu0\n{} cpu0 switch idle -> t0\n2000000 cpu0 switch t0 sleeping -> idle\n",
            1_000_000 + us * 1000
        )
    };
    let (a, b) = (log(&["a"], 3, &woken(20)), log(&["a"], 3, &woken(0)));
    let grain_ns = exits_of_idle(&a).unwrap().waits.percentile_ns(900);
    assert_eq!(grain_ns, 20_000);
    let fidelity = Fidelity::of(&side(&a), &side(&b), MatchBy::Pid, grain_ns);
    assert_eq!(
        (fidelity.all.wakeup_latency_ks(0), fidelity.all.wakeup_latency_ks(grain_ns)),
        (Some(1.0), Some(0.0))
    );
}

/// Forty ways out of 8 us of idleness take 1 us each, forty out of 1 ms take 10 to 49 us. Forty wakeups that came
/// before their task had left its CPU are no ways out of idle.
#[test]
fn ways_out_of_idle_are_as_many_quantiles_for_each_depth() {
    let (mut text, mut now_us) = (String::from("0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n"), 100);
    for (idle_us, exit_us) in (0..40).flat_map(|k| [(8, 1), (1000, 10 + k), (0, 70)]) {
        text += &format!("{now_us}000 cpu0 switch t0 sleeping -> idle\n");
        now_us += idle_us;
        text += &format!("{now_us}000 cpu0 wakeup t0 cpu0\n");
        now_us += exit_us;
        text += &format!("{now_us}000 cpu0 switch idle -> t0\n");
        now_us += 100;
    }
    let exits = exits_of_idle(&log(&["a"], 60, &text)).unwrap();
    let deep: [u64; QUANTILES] = std::array::from_fn(|k| 10_500 + 2000 * k as u64);
    assert_eq!(exits.depths_ns(), ([1000; QUANTILES], deep, Some(8192)));
}

/// Of 120 sleeps eighty end by a timer or device, 7 us before the switch, but one 5 ms: a stranger had that CPU. Half
/// of them interrupt the idle CPU itself, half the other one, which is idle, too. Forty end by a task on the other CPU,
/// 30 us before the switch.
#[test]
fn an_interrupt_is_no_way_out_of_idle_for_another_cpu_s_wakeup() {
    let (mut text, mut now_us) = (String::from("0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n"), 100);
    for k in 0..120 {
        let (by, exit_us) = match k {
            1 => ("cpu0 waking t0 by idle irq", 5000),
            _ if k % 3 == 0 => ("cpu1 waking t0 by idle", 30),
            _ if k % 2 == 0 => ("cpu1 waking t0 by idle irq", 7),
            _ => ("cpu0 waking t0 by idle irq", 7),
        };
        text += &format!("{now_us}000 cpu0 switch t0 sleeping -> idle\n");
        now_us += 1000;
        text += &format!("{now_us}000 {by}\n{now_us}000 cpu0 wakeup t0 cpu0\n");
        now_us += exit_us;
        text += &format!("{now_us}000 cpu0 switch idle -> t0\n");
        now_us += 100;
    }
    let exits = exits_of_idle(&log(&["a"], 200, &text)).unwrap();
    assert_eq!(exits.own_ns(), [7000; QUANTILES]);
    assert_eq!(exits.depths_ns().0, [30_000; QUANTILES]);
}

/// When a stranger woke is unknown: its stays after idleness are no ways out of it. And seven ways say nothing.
#[test]
fn strangers_and_a_handful_are_no_ways_out_of_idle() {
    let exits = |nr: u32, by: &str| {
        let mut text = String::from(
            "# kernel_thread k5 name=\"strangers/0\"\n0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n\
             100000 cpu0 switch t0 sleeping -> idle\n",
        );
        let mut now_us = 1000;
        for _ in 0..nr {
            text += &format!("{now_us}000 cpu0 wakeup k5 cpu0\n{now_us}000 cpu0 switch idle -> k5\n");
            text += &format!("{}000 cpu0 switch k5 sleeping -> idle\n", now_us + 100);
            now_us += 1000;
            text += &format!("{now_us}000 {by}\n{now_us}000 cpu0 wakeup t0 cpu0\n");
            text += &format!("{}000 cpu0 switch idle -> t0\n", now_us + 10);
            text += &format!("{}000 cpu0 switch t0 sleeping -> idle\n", now_us + 50);
            now_us += 1000;
        }
        exits_of_idle(&log(&["a"], 100, &text)).unwrap()
    };
    let all = [10_000; QUANTILES];
    let own = "cpu0 waking t0 by idle irq";
    let eight = exits(8, own);
    assert_eq!((eight.waits.count(), eight.own_ns(), eight.depths_ns()), (8, all, (all, all, None)));
    assert_eq!(
        exits(8, "cpu1 waking t0 by idle").own_ns(),
        all,
        "these are of other CPUs' wakeups, and better than none"
    );
    let none = [0; QUANTILES];
    let seven = exits(7, own);
    assert_eq!((seven.waits.count(), seven.own_ns(), seven.depths_ns()), (7, none, (none, none, None)));
}

#[test]
fn a_cause_counts_if_more_goes_with_it_than_chance_takes() {
    let (a, b) = (log(&["a", "b"], 5, RECORDED), log(&["a", "b"], 5, REPLAYED));
    let all = Fidelity::of(&side(&a), &side(&b), MatchBy::Pid, 0).all;
    let variant = |without, distance| Variant { without, all: all.clone(), distance };
    let plain = variant(None, 0.5);
    let messages = variant(Some(Cause::Messages), 0.2);
    assert_eq!(taken_away(&[plain.clone(), messages.clone()]), Some(Cause::Messages));
    assert_eq!(taken_away(&[plain.clone(), variant(Some(Cause::Costs), 0.48)]), None);
    let chance = variant(Some(Cause::Chance), 0.1);
    assert_eq!(taken_away(&[plain, messages, chance]), Some(Cause::Chance));
}

/// B waits 1 ms in the recording, 2 ms in the replay, and 1 ms with another seed.
#[test]
fn what_seeds_give_stands_beside_what_was_recorded() {
    let (a, b) = (log(&["a", "b"], 5, RECORDED), log(&["a", "b"], 5, REPLAYED));
    let mut fidelity = Fidelity::of(&side(&a), &side(&b), MatchBy::Pid, 0);
    assert_eq!((fidelity.duration_spread(), fidelity.run_delay_ks_spread()), (None, None));
    assert!(json(&fidelity)["quantities"][0]["seeds"].is_null());
    let mut other = Fidelity::of(&side(&a), &side(&a), MatchBy::Pid, 0);
    other.all.sides[1].voluntary += 7;
    fidelity.samples.push(Sample { all: other.all, duration_ns: 4_000_000 });
    let spread = fidelity.duration_spread().unwrap();
    assert_eq!((spread.least, spread.median, spread.most), (4_000_000, 4_000_000, 5_000_000));
    assert!(spread.holds());
    let ks = fidelity.run_delay_ks_spread().unwrap();
    assert!(ks[0] == 0.0 && ks[1] > 0.4, "{ks:?}");
    let value = json(&fidelity);
    let delay = &value["quantities"][2];
    assert_eq!((&delay["name"], &delay["seeds"]["least"]), (&"run_delay".into(), &1_000_000.into()));
    assert_eq!((&delay["seeds"]["most"], &value["seeds"]), (&4_000_000.into(), &2.into()));
    assert!(value["quantities"].as_array().unwrap().iter().any(|row| row["label"] == "a (11)"));
    let text = terminal(&fidelity, schedlab_report::Style::PLAIN);
    assert!(text.contains("of 2 seeds") && text.contains("+0.0 .. +300.0 %"), "{text}");
    assert!(text.contains("within what 2 seeds give: run delay, wakeup latency"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let both = table(&[fidelity.clone(), fidelity.clone()]).to_text();
    assert!(both.contains("run_delay_seeds") && both.contains("+0.0 .. +300.0 %"), "{both}");
    assert!(page("x", &[fidelity]).contains("of 2 seeds"));
}

/// A recording in which A is out of sight for `unseen_ms` of 100 ms, asleep or waiting; B is seen all the time.
fn partly_seen(unseen_ms: u64) -> MemLog {
    let back_ns = (50 + unseen_ms) * 1_000_000;
    let lines = format!(
        "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n0 cpu1 new t1 cpu1\n0 cpu1 switch idle -> t1\n\
         50000000 cpu0 switch t0 sleeping -> idle\n50000000 cpu0 note t0 note=2147483681 other=idle value=0 flags=0\n\
         {back_ns} cpu0 switch idle -> t0\n100000000 cpu0 switch t0 sleeping -> idle\n\
         100000000 cpu1 switch t1 sleeping -> idle\n"
    );
    let text = format!(
        "# schedlab log 2\n# sched \"x\"\n# sched_version \"1\"\n# cpus 2\n# hz 250\n# duration_ns 100000000\n\
         # observer recorder\n# hidden spans\n# task t0 pid=11 policy=normal nice=0 name=\"a\"\n\
         # task t1 pid=12 policy=normal nice=0 name=\"b\"\n{lines}# end {}\n",
        lines.lines().count()
    );
    TextLog::parse(&text, Path::new("drawn")).unwrap()
}

#[test]
fn a_task_that_was_hardly_out_of_sight_counts_and_one_that_was_long_is_unknown() {
    let of = |unseen_ms| {
        let side = side(&partly_seen(unseen_ms));
        Fidelity::of(&side, &side, MatchBy::Pid, 0)
    };
    let hardly = of(5);
    assert_eq!((hardly.unknown, hardly.about_unknown()), (0, None));
    assert_eq!((hardly.all.sides[0].unseen_ns, hardly.all.sides[0].voluntary), (5_000_000, 3));
    let text = terminal(&hardly, schedlab_report::Style::PLAIN);
    assert!(text.contains("1 tasks were out of the recorder's sight for 5.00 ms in all"), "{text}");
    let long = of(6);
    assert_eq!((long.unknown, long.all.sides[0].voluntary), (1, 1));
    let said = long.about_unknown().unwrap();
    assert!(
        said.starts_with("1 of 2 tasks, with 48 % of the tasks' CPU time") && said.contains("a (11)"),
        "{said}"
    );
}

#[test]
fn where_no_task_is_known_nothing_is_the_same() {
    let seen = side(&partly_seen(6));
    let mut fidelity = Fidelity::of(&seen, &seen, MatchBy::Pid, 0);
    fidelity.tasks.retain(|pair| !pair.is_known());
    fidelity.all.sides = [Figures::default(), Figures::default()];
    let said = fidelity.about_unknown().unwrap();
    assert!(said.contains("1 of 1 tasks") && said.ends_with("so nothing can be compared"), "{said}");
    let text = terminal(&fidelity, schedlab_report::Style::PLAIN);
    let delay = text.lines().find(|line| line.starts_with("run delay")).unwrap();
    assert_eq!(delay.split_whitespace().filter(|word| *word == "unknown").count(), 3, "{text}");
    let value = json(&fidelity);
    assert!(value["distance"].is_null() && value["quantities"][2]["recorded"].is_null(), "{value}");
    assert!(table(&[fidelity.clone(), fidelity]).to_text().contains("unknown"));
}

/// A wakes B on cpu0 while cpu1 idles: once B runs there, once on cpu0; the third time nothing idles.
#[test]
fn wakeups_beside_an_idle_cpu_are_kept_or_not() {
    let log = log(
        &["a", "b", "c"],
        20,
        "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n\
         1000000 cpu0 waking t1 by t0\n1000000 cpu0 wakeup t1 cpu1\n1000000 cpu1 switch idle -> t1\n\
         2000000 cpu1 switch t1 sleeping -> idle\n\
         3000000 cpu0 waking t1 by t0\n3000000 cpu0 wakeup t1 cpu1\n3000000 cpu0 migrate t1 cpu1 -> cpu0\n\
         4000000 cpu0 switch t0 sleeping -> t1\n5000000 cpu0 switch t1 sleeping -> idle\n\
         6000000 cpu0 waking t0 by idle irq\n6000000 cpu0 wakeup t0 cpu0\n6000000 cpu0 switch idle -> t0\n\
         7000000 cpu1 waking t2 by idle irq\n7000000 cpu1 wakeup t2 cpu1\n7000000 cpu1 switch idle -> t2\n\
         8000000 cpu0 waking t1 by t0\n8000000 cpu0 wakeup t1 cpu0\n9000000 cpu0 switch t0 sleeping -> t1\n",
    );
    assert_eq!(placement(&log, |_| true).unwrap(), Placement { wakeups: 2, kept: 1 });
    assert_eq!(placement(&log, |row| row == 0).unwrap().share(), None);
    assert_eq!(cpus_used(&log, |row| row == 2).unwrap().len(), 1, "C was never elsewhere");
}

/// B waits for 1 ms on an idle CPU: somebody whom the recording hides had that, and it is no way out of idle.
#[test]
fn a_wait_for_somebody_hidden_is_no_way_out_of_idle() {
    let lines = |exit_us: u64| {
        format!(
            "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n1000000 cpu0 waking t1 by t0\n1000000 cpu0 wakeup t1 cpu1\n\
             {}000 cpu1 switch idle -> t1\n4000000 cpu1 switch t1 dead -> idle\n",
            1000 + exit_us
        )
    };
    let grain = |exit_us| {
        let log = log(&["a", "b"], 5, &lines(exit_us));
        exits_of_idle(&log).unwrap().waits.percentile_ns(900)
    };
    assert_eq!((grain(30), grain(1000)), (30_000, 0));
}
