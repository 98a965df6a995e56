//! Control groups, affinity, clamps, sessions.

use super::{MS, S, feature, hogs, sleeper};
use crate::measure::{Case, Observed};
use crate::{Feature, FeatureGroup, Finding, ScenarioBench, Trouble};

pub(super) fn features() -> Vec<Feature> {
    let f = |name, what, run| feature(name, FeatureGroup::Groups, what, run);
    vec![
        f(
            "cpu.weight",
            "groups of weight 300 and 100 on 1 CPU: 3 : 1, however many tasks (1 and 2) they hold",
            weight,
        ),
        f("nested", "within the group of 3/4, subgroups of weight 100 and 200: 25, 50, 25 %", nested),
        f(
            "2,000 groups",
            "among 2,000 groups on 2 CPUs, one hog each in 300 and 100 on CPU 0, 200 and 100 on CPU 1: 75, 25, 66.7, \
                33.3 %",
            two_thousand,
        ),
        f(
            "groups, 64 CPUs",
            "500 groups on 64 CPUs, a hog in each of 64 of them: one on every CPU at 3 s",
            many_wide,
        ),
        f("cpu.max", "20 of 100 ms for a group of 2 on 2 CPUs, other hogs beside: 12 s of 60", max),
        Feature {
            since: (5, 15),
            ..f("cpu.idle", "a group of cpu.idle 1 beside one of weight 100: 3 of 1027", group_idle)
        },
        f(
            "cpuset",
            "a group on CPUs 2-3 of 4: its tasks run nowhere else; moved to CPU 0 at 1 s, they follow",
            cpuset,
        ),
        f("affinity", "a task bound to CPU 1 of 4 among 8 hogs runs there only", affinity),
        Feature {
            flavour: Some(("uclamp", (7, 2))),
            ..f(
                "uclamp.min",
                "clamped to 100 %, a task of 10 % wakes on big cores only (2 of 4; the little ones have 350)",
                uclamp,
            )
        },
        f(
            "autogroup",
            "sessions of 1 and 3 hogs on 1 CPU share equally; without autogroup 25 : 75",
            autogroup,
        ),
    ]
}

fn share_of(shares: &[f64], tasks: std::ops::Range<usize>) -> f64 {
    shares[tasks].iter().sum()
}

fn weight(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = String::from("CGROUP /a weight=300\nCGROUP /b weight=100\n")
        + &hogs(1, 1, "cgroup=/a")
        + &hogs(2, 2, "cgroup=/b");
    let shares = bench.go(Case::new("1", 60, &workload))?.shares(0..3);
    // one level and the tasks' own: see nested()
    Ok(Finding::numbers(&[shares[0], share_of(&shares, 1..3)], &[75.0, 25.0], 0.053, " %"))
}

fn nested(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = String::from(
        "CGROUP /a weight=300\nCGROUP /a/x weight=100\nCGROUP /a/y weight=200\nCGROUP /b weight=100\n",
    ) + &hogs(1, 1, "cgroup=/a/x")
        + &hogs(2, 1, "cgroup=/a/y")
        + &hogs(3, 1, "cgroup=/b");
    let shares = bench.go(Case::new("1", 60, &workload))?.shares(0..3);
    // at the cut each level is off by a turn at most: CFS sched_latency (6 ms), START_DEBIT's slice (6 ms)
    // and a tick; EEVDF's lag is limited to a tick, and a turn ends a tick late: 2 x 16 ms of 60 s are 0.053
    // %
    Ok(Finding::numbers(&shares, &[25.0, 50.0, 25.0], 0.053, " %"))
}

/// Groups /g0, /g1, ... with these weights, 100 where none is given.
fn groups(count: u32, weights: &[(u32, u32)]) -> String {
    let weight = |group| weights.iter().find(|(g, _)| *g == group).map_or(100, |(_, weight)| *weight);
    (0..count).map(|group| format!("CGROUP /g{group} weight={}\n", weight(group))).collect()
}

/// How many groups the kernel has below the root.
fn nr_groups(seen: &Observed) -> Result<u32, Trouble> {
    let text = seen.text(0)?;
    let line = text.lines().find_map(|line| line.strip_prefix("nr_descendants "));
    let number = line.and_then(|number| number.parse().ok());
    number.ok_or_else(|| Trouble::Failed(format!("no nr_descendants in cgroup.stat: {text}")))
}

const GROUP_STATISTICS: &str = "/sys/fs/cgroup/cgroup.stat";

fn two_thousand(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    // the first and the last made, and two between
    let workload = groups(2000, &[(0, 300), (1333, 200)])
        + &hogs(1, 1, "cgroup=/g0 affinity=0")
        + &hogs(2, 1, "cgroup=/g666 affinity=0")
        + &hogs(3, 1, "cgroup=/g1333 affinity=1")
        + &hogs(4, 1, "cgroup=/g1999 affinity=1");
    let seen = bench.go(Case::new("2", 60, &workload).read(1000, GROUP_STATISTICS))?;
    let count = nr_groups(&seen)?;
    if count != 2000 {
        return Ok(Finding::words(format!("{count} groups"), "2000 groups"));
    }
    // a group's weight is all on the CPU where its tasks are; one level and the tasks' own: see nested()
    let shares = [seen.shares(0..2), seen.shares(2..4)].concat();
    Ok(Finding::numbers(&shares, &[75.0, 25.0, 200.0 / 3.0, 100.0 / 3.0], 0.053, " %"))
}

fn many_wide(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let busy: String = (0..64).map(|n| hogs(n + 1, 1, &format!("cgroup=/g{}", 7 * n))).collect();
    let workload = groups(500, &[]) + &busy;
    let seen = bench.go(Case::new("64", 3, &workload).read(1000, GROUP_STATISTICS))?;
    let mut cpus: Vec<u32> = seen.schedule.running_at(3 * S - 1).iter().map(|(_, cpu)| *cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let found = format!("{} groups, {} CPUs busy", nr_groups(&seen)?, cpus.len());
    Ok(Finding::words(found, "500 groups, 64 CPUs busy"))
}

fn max(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = String::from("CGROUP /a max=20ms/100ms\n") + &hogs(1, 2, "cgroup=/a") + &hogs(3, 2, "");
    let seen = bench.go(Case::new("2", 60, &workload))?;
    // each CPU may hold a slice of 5 ms (sched_cfs_bandwidth_slice_us) and overrun by a tick, which the next
    // period pays for
    Ok(Finding::number(seen.cpu_s(0) + seen.cpu_s(1), 12.0, 0.1, " s"))
}

fn group_idle(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = String::from("CGROUP /a weight=100\nCGROUP /b weight=100\n")
        + &hogs(1, 1, "cgroup=/a")
        + &hogs(2, 1, "cgroup=/b");
    let case = Case::new("1", 60, &workload).set(0, "/sys/fs/cgroup/b/cpu.idle", "1");
    let seen = bench.go(case)?;
    seen.text(0)?;
    let shares = seen.shares(0..2);
    // the weight may be distributed anew a few ms after the write
    Ok(Finding::number(shares[1], 100.0 * 3.0 / 1027.0, 0.06, " %"))
}

fn cpuset(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = String::from("CGROUP /s cpuset=2-3\n") + &hogs(1, 3, "cgroup=/s") + &hogs(4, 4, "");
    let case = Case::new("4", 2, &workload).set(1000, "/sys/fs/cgroup/s/cpuset.cpus", "0");
    let seen = bench.go(case)?;
    let on = |from, to| {
        let mut cpus: Vec<u32> = (0..3).flat_map(|t| seen.schedule.cpus_of(t, from, to)).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    };
    // the others' own CPU must be given up first: within a tick
    let found = format!("{:?}, then {:?}", on(10 * MS, S), on(S + 10 * MS, 2 * S));
    Ok(Finding::words(found, "[2, 3], then [0]"))
}

fn affinity(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let workload = hogs(1, 8, "") + &hogs(9, 1, "affinity=1");
    let seen = bench.go(Case::new("4", 2, &workload))?;
    Ok(Finding::words(format!("{:?}", seen.schedule.cpus_of(8, 0, u64::MAX)), "[1]"))
}

fn uclamp(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let machine = "cores=4,capacity=1024*2+350*2";
    let workload =
        String::from("CGROUP /top\n") + &sleeper(1, "1ms", "9ms", 1000, "cgroup=/top affinity=0-3");
    let plain = Case::new(machine, 3, &workload);
    let case = Case::new(machine, 3, &workload).set(0, "/sys/fs/cgroup/top/cpu.uclamp.min", "100");
    let seen = bench.go(case)?;
    if let Err(why) = seen.reading(0) {
        return Err(Trouble::Absent(format!("cpu.uclamp.min: {why}")));
    }
    let clamped = seen.schedule.cpus_of(0, S, 3 * S);
    let plain = bench.go(plain)?.schedule.cpus_of(0, S, 3 * S);
    let big = !clamped.is_empty() && clamped.iter().all(|c| *c < 2);
    Ok(Finding {
        as_expected: big,
        found: format!("on {clamped:?} (unclamped {plain:?})"),
        expected: "on 0, 1 only".into(),
    })
}

fn autogroup(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    // task 0 alone in its session; task 1 and its two children in another
    let workload = "- INIT 0 0 1 runnable name=alone\n- INIT 0 0 2 runnable name=three\n\
        - FORK 2 0 3\n- FORK 2 0 4\n- EXIT 1 100000s\n- EXIT 2 100000s\n- EXIT 3 100000s\n- EXIT 4 100000s\n";
    let share = |on: &'static str| -> Result<f64, Trouble> {
        let params: &[(&str, &str)] = &[("autogroup", on), ("sessions", "each")];
        Ok(bench.go(Case::new("1", 60, workload).params(params))?.shares(0..4)[0])
    };
    Ok(Finding::numbers(&[share("on")?, share("off")?], &[50.0, 25.0], 0.1, " %"))
}
