//! FIFO, RR and DEADLINE.

use super::{MS, S, feature, hogs, sleeper};
use crate::measure::Case;
use crate::{Feature, FeatureGroup, Finding, ScenarioBench, Trouble};

pub(super) fn features() -> Vec<Feature> {
    let f = |name, what, run| feature(name, FeatureGroup::RealTime, what, run);
    vec![
        f("FIFO", "2 hogs of equal priority on 1 CPU: the first has it for ever, the second never", fifo),
        f("RR", "2 hogs on 1 CPU take turns of 100 ms (RR_TIMESLICE): 99 changes within 10 s", round_robin),
        f(
            "push/pull",
            "FIFO 20 runs, FIFO 30 runs 5 of 10 ms, FIFO 10 gets what it leaves, on 2 CPUs: 10, 5, 5 s of 10",
            push_pull,
        ),
        f(
            "RT limit",
            "a FIFO hog and a normal one on 1 CPU: 5 % are left (RT throttling; from 6.12 the fair server)",
            rt_limit,
        ),
        f(
            "RT limit set",
            "the same with 20 % kept (rt_runtime_us=800000; from 6.12 the fair server's runtime, 200 ms): 20 % are \
                left",
            rt_limit_set,
        ),
        f(
            "RT limit off",
            "the same with rt_runtime_us=-1 (and the fair server off): nothing is left",
            rt_limit_off,
        ),
        f("DEADLINE", "30 ms in each 100 ms among 5 hogs on 4 CPUs: 3 s of 10", deadline),
        f("DL throttles", "it wants more, and never gets more than 30 ms in a period", deadline_throttles),
        f(
            "DL admission",
            "50 of 100 ms twice on 1 CPU: the second is refused, 0.5 + 0.5 > 0.95 (EBUSY)",
            deadline_admission,
        ),
        f(
            "DL earliest",
            "deadlines of 40 and 20 ms released together: the later released wins with the earlier deadline",
            deadline_order,
        ),
    ]
}

/// Throttling off, and, where there is one, the fair server: real-time tasks may have all.
const UNLIMITED: &[(&str, &str)] = &[("rt_runtime_us", "-1")];

fn fifo(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let case = Case::new("1", 10, &hogs(1, 2, "policy=fifo prio=50")).params(UNLIMITED);
    Ok(Finding::numbers(&bench.go(case)?.all_cpu_s(0..2), &[10.0, 0.0], 0.001, " s"))
}

fn round_robin(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("1", 10, &hogs(1, 2, "policy=rr prio=50")).params(UNLIMITED))?;
    let turns: Vec<u32> = seen.schedule.stays.iter().map(|s| s.task.0).collect();
    let changes = turns.windows(2).filter(|w| w[0] != w[1]).count();
    Ok(Finding::number(changes as f64, 99.0, 1.0, ""))
}

fn push_pull(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = hogs(1, 1, "policy=fifo prio=20")
        + &sleeper(2, "5ms", "5ms", 1000, "policy=fifo prio=30")
        + &hogs(3, 1, "policy=fifo prio=10");
    let seen = bench.go(Case::new("2", 10, &workload).params(UNLIMITED))?;
    Ok(Finding::numbers(&seen.all_cpu_s(0..3), &[10.0, 5.0, 5.0], 0.006, " s"))
}

fn rt_limit(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = hogs(1, 1, "policy=fifo prio=50") + &hogs(2, 1, "");
    let seen = bench.go(Case::new("1", 20, &workload))?;
    // the window is 1 s long: the cut may fall before the last one's 50 ms
    Ok(Finding::number(seen.shares(0..2)[1], 5.0, 0.3, " %"))
}

fn rt_limit_set(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = hogs(1, 1, "policy=fifo prio=50") + &hogs(2, 1, "");
    let case = Case::new("1", 20, &workload);
    let case = if bench.version < (6, 12) {
        case.params(&[("rt_runtime_us", "800000")])
    } else {
        case.set(0, "/sys/kernel/debug/sched/fair_server/cpu0/runtime", "200000000")
    };
    let seen = bench.go(case)?;
    // the first window may still be the default's, the last one's part is cut off: 0.15 s each of 20
    Ok(Finding::number(seen.shares(0..2)[1], 20.0, 1.5, " %"))
}

fn rt_limit_off(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = hogs(1, 1, "policy=fifo prio=50") + &hogs(2, 1, "");
    let server = "/sys/kernel/debug/sched/fair_server/cpu0/runtime";
    let case = Case::new("1", 20, &workload).params(UNLIMITED).set(0, server, "0");
    let seen = bench.go(case)?;
    Ok(Finding::number(seen.shares(0..2)[1], 0.0, 0.02, " %"))
}

const DL_30_100: &str = "policy=deadline runtime=30ms deadline=100ms period=100ms";

fn deadline(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = hogs(1, 5, "") + &hogs(6, 1, DL_30_100);
    let seen = bench.go(Case::new("4", 10, &workload))?;
    // the budget is checked at ticks: up to 4 ms too much, subtracted from the next
    Ok(Finding::number(seen.cpu_s(5), 3.0, 0.034, " s"))
}

fn deadline_throttles(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("1", 10, &hogs(1, 1, DL_30_100)))?;
    let most = (0..100).map(|p| seen.schedule.cpu_ns(0, p * 100 * MS, (p + 1) * 100 * MS)).max();
    let most_ms = most.unwrap_or(0) as f64 / 1e6;
    // alone on the CPU the tick may see the budget's end a tick later (HZ=250)
    Ok(Finding {
        as_expected: (29.9..=34.0).contains(&most_ms),
        found: format!("at most {most_ms:.1} ms"),
        expected: "at most 30 ms and a tick".into(),
    })
}

fn deadline_admission(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let words = "policy=deadline runtime=50ms deadline=100ms period=100ms";
    let seen = bench.go(Case::new("1", 2, &hogs(1, 2, words)))?;
    let refused: Vec<String> = seen.report.refused.iter().map(|(what, n)| format!("{n} x {what}")).collect();
    let busy = refused.len() == 1 && refused[0].starts_with("1 x") && refused[0].contains("os error 16");
    Ok(Finding {
        as_expected: busy,
        found: if busy { "refused, EBUSY".into() } else { format!("{refused:?}") },
        expected: "refused, EBUSY".into(),
    })
}

/// Task 0 has its deadline 40 ms after its wakeups, task 1 20 ms; both wake at 100 ms and want 10 ms.
fn deadline_order(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let task = |pid: u32, deadline: &str| {
        let words = format!("policy=deadline runtime=12ms deadline={deadline} period=100ms");
        format!("- INIT 0 0 {pid} blocked name=dl {words}\n- WAKEUP {pid} 100ms\n- EXIT {pid} 10ms\n")
    };
    let seen = bench.go(Case::new("1", 1, &(task(1, "40ms") + &task(2, "20ms"))))?;
    let order: Vec<u32> = seen.schedule.within(0, S).map(|s| s.task.0).collect();
    Ok(Finding::words(format!("{order:?}"), "[1, 0]"))
}
