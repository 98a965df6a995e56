use crate::lab::{Lab, Step::*, TaskSpec, fairbench, responsebench_late};
use schedlab_units::{Nice, Span};

fn lab() -> Lab {
    Lab::new("eevdf", 1).param("hz", "1000").param("base_slice", "3ms")
}

#[test]
fn equal_hogs_run_for_their_slices() {
    // ms    0         1
    //       012345678901234567
    // cpu0  AABBAAABBBAAABBB     first deadlines after half a slice (1.5 ms, noticed at 2), then 3 ms each
    let hog = TaskSpec::nice(0, &[Run(8)]);
    assert_eq!(lab().draw(20, &[hog.clone(), hog]), ["AABBAAABBBAAABBB"]);
}

#[test]
fn a_shorter_slice_preempts_at_wakeup() {
    // C asks for 1 ms at a time (runtime of its deadline parameters) and sleeps after each; A and B always
    // run. At its wakeup C is eligible and its slice is shorter: it preempts even one that is eligible and in
    // the middle of its slice. Without that rule it waits until that one has had too much, or its slice is
    // over.
    let mut short =
        TaskSpec::nice(0, &[RunFor(Span::from_us(900)), SleepFor(Span::from_us(4300))]).repeat(80);
    let (runtime, period) = (Span::from_ms(1), Span::from_ms(10));
    short.params.deadline = Some(schedlab_units::DeadlineParams { runtime, deadline: period, period });
    let mean_wait_ms = |preempt_short| {
        let lab = lab().param("base_slice", "12ms").param("preempt_short", preempt_short);
        let hog = TaskSpec::nice(0, &[Run(1000)]);
        let measured = lab.run(Span::from_ms(400), &[hog.clone(), hog, short.clone()]).unwrap();
        measured.waits[2].iter().map(|wait| wait.as_ms_f64()).sum::<f64>() / measured.waits[2].len() as f64
    };
    let (with, without) = (mean_wait_ms("yes"), mean_wait_ms("no"));
    assert!(with < 0.5 * without, "{with} and {without} ms");
}

/// Protection by RUN_TO_PARITY lasts while the current task is eligible, not longer; and what wakes up
/// accounts for it first, which can end its slice between two ticks.
#[test]
fn a_wakeup_ends_a_slice_that_is_over_between_two_ticks() {
    // HZ 100: no tick before 10 ms. A's first deadline is after 1.5 ms; at 2 ms C wakes, and the accounting
    // for that finds A's slice over: B, who has waited, is chosen, then C
    let tasks =
        [TaskSpec::nice(0, &[Run(4)]), TaskSpec::nice(0, &[Run(1)]), TaskSpec::nice(0, &[Run(1)]).from_ms(2)];
    let lab = Lab::new("eevdf", 1).param("hz", "100").param("tick_phase", "0").param("base_slice", "3ms");
    assert_eq!(lab.draw(20, &tasks), ["AABCAA"]);
}

/// Without sleeps and with slice = quantum, EEVDF is WF2Q: no task is ever a quantum ahead of or behind its
/// share of the time so far. (In the first round that does not hold: initial tasks get their nice value after
/// their first deadline, which 6.12 then leaves where it was. Hence from 20 ms on, when all have had their
/// turn.)
#[test]
fn service_error_is_below_a_quantum() {
    let nices = [0, 0, -3, 4, 8, -7];
    let tasks: Vec<TaskSpec> = nices.iter().map(|&nice| TaskSpec::nice(nice, &[Run(20_000)])).collect();
    let lab = Lab::new("eevdf", 1).param("hz", "1000").param("base_slice", "1ms");
    let measured = lab.run(Span::from_s(10), &tasks).unwrap();
    let weights: Vec<f64> = nices.iter().map(|&n| Nice::new(n).unwrap().weight().0 as f64).collect();
    let total: f64 = weights.iter().sum();
    let mut service_ms = vec![0.0; tasks.len()];
    for &(_, from_ns, to_ns, task) in measured.runs() {
        service_ms[task.index()] += (to_ns - from_ns) as f64 * 1e-6;
        let now_ms = to_ns as f64 * 1e-6;
        for (place, weight) in weights.iter().enumerate().filter(|_| now_ms >= 20.0) {
            let error = service_ms[place] - now_ms * weight / total;
            assert!(error.abs() < 1.0, "task {place} at {now_ms} ms: error {error} quanta");
        }
    }
}

#[test]
fn a_debtor_cannot_shed_its_debt_by_a_short_sleep() {
    // A runs 5.5 ms and sleeps 1 ms, B and C are hogs. With delayed dequeue, or with lag kept over the sleep,
    // A gets no more than a third; with neither it would.
    let a = TaskSpec::nice(0, &[Run(5), Sleep(1)]).repeat(1000);
    let hog = TaskSpec::nice(0, &[Run(10_000)]);
    for delay in ["yes", "no"] {
        let measured =
            lab().param("delay_dequeue", delay).run(Span::from_s(9), &[a.clone(), hog.clone(), hog.clone()]);
        let share = measured.unwrap().share(0);
        assert!(share < 0.34, "delay_dequeue={delay}: {share}");
    }
}

/// Real 6.12 gave .8916, .0963, .0109 (and a few ticks to the rest) in 20 s.
#[test]
fn fairbench_agrees_with_real_6_12() {
    let duration = Span::from_s(20);
    let shares = Lab::new("eevdf", 1).run(duration, &fairbench(duration)).unwrap().group_shares(5);
    for (place, real) in [(0, 0.8916), (1, 0.0963)] {
        assert!((shares[place] / real - 1.0).abs() < 0.01, "{shares:?}");
    }
    assert!((shares[2] - 0.0109).abs() < 0.001, "{shares:?}");
}

/// Real 6.12 (Debian's kernel in a guest, one CPU, tasks that do not read their CPU clock) gave 969, 937,
/// 874, 704 and 515 ms per task in 20 s; real 6.12 in the port is within 3 % of that at every level, and this
/// is within a decision in thousands of the port.
#[test]
fn responsebench_agrees_with_real_6_12() {
    let duration = Span::from_s(20);
    let tasks = responsebench_late(duration, Span::from_us(60));
    let measured = Lab::new("eevdf", 1).run(duration, &tasks).unwrap();
    for (group, real_ms) in [969.0, 937.0, 874.0, 704.0, 515.0].into_iter().enumerate() {
        let ms: f64 = measured.cpu[5 * group..5 * group + 5].iter().map(|c| c.as_ms_f64() / 5.0).sum();
        assert!((ms / real_ms - 1.0).abs() < 0.03, "group {group}: {ms} ms, real {real_ms} ms");
    }
}
