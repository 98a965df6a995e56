//! Ticks, isolated CPUs, tunables, the kernel's own read-outs.

use super::{S, feature, hogs};
use crate::measure::Case;
use crate::{Feature, FeatureGroup, Finding, ScenarioBench, Trouble};
use schedlab_stdx::percentile::upper_median;

pub(super) fn features() -> Vec<Feature> {
    let f = |name, what, run| feature(name, FeatureGroup::System, what, run);
    vec![
        f("isolcpus", "boot.isolcpus=2-3: 8 hogs on 4 CPUs stay on 0 and 1", isolcpus),
        f(
            "nohz_full",
            "boot.nohz_full=1: the tick of CPU 1 is stopped under a single hog (/proc/timer_list)",
            nohz_full,
        ),
        f("nohz idle", "an idle CPU's tick is stopped (/proc/timer_list)", nohz_idle),
        f(
            "ticks aligned",
            "4 CPUs with 2 hogs each: their ticks, seen by preemptions, fall on one phase of 4 ms",
            aligned,
        ),
        f(
            "ticks skewed",
            "boot.skew_tick=1: phases of CPU k are k x 0.5 ms apart (half a tick over 4 CPUs)",
            skewed,
        ),
        f("features", "debugfs: NO_WAKEUP_PREEMPTION is written and read back", features_file),
        f(
            "sysctl",
            "rt_runtime_us is written and read back; a value above the period is refused (EINVAL)",
            sysctl,
        ),
        f(
            "slice",
            "base_slice_ns of 20 ms: of 2 hogs each runs 5 ticks at a time, in the median (CFS, min_granularity_ns: 6 \
                ticks)",
            slice,
        ),
        f("preempt mode", "debugfs sched/preempt names the mode that is in force", preempt_mode),
        f("schedstat", "/proc/schedstat is there, one line for each CPU", schedstat),
        f("sched debug", "the kernel's dump of its runqueues is there and names the hog", sched_debug),
    ]
}

fn isolcpus(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let seen = bench.go(Case::new("4", 2, &hogs(1, 8, "")).params(&[("boot.isolcpus", "2-3")]))?;
    let mut cpus: Vec<u32> = (0..8).flat_map(|t| seen.schedule.cpus_of(t, 0, u64::MAX)).collect();
    cpus.sort_unstable();
    cpus.dedup();
    Ok(Finding::words(format!("{cpus:?}"), "[0, 1]"))
}

/// `.tick_stopped` (a flag bit from 6.13 on) of each CPU.
fn tick_stopped(text: &str) -> Vec<bool> {
    let value = |line: &str| line.split(':').nth(1).and_then(|v| v.trim().parse::<u64>().ok());
    text.lines()
        .filter(|l| l.trim_start().starts_with(".tick_stopped"))
        .filter_map(value)
        .map(|v| v != 0)
        .collect()
}

fn nohz_full(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let with = |params| -> Result<bool, Trouble> {
        let case = Case::new("2", 4, &hogs(1, 1, "affinity=1")).params(params).read(3500, "/proc/timer_list");
        let text = bench.go(case)?.text(0)?;
        tick_stopped(&text)
            .get(1)
            .copied()
            .ok_or_else(|| Trouble::failed("no .tick_stopped in /proc/timer_list"))
    };
    let found = (with(&[("boot.nohz_full", "1")])?, with(&[])?);
    let word = |stopped| if stopped { "stopped" } else { "ticks" };
    Ok(Finding::words(format!("{}; without: {}", word(found.0), word(found.1)), "stopped; without: ticks"))
}

fn nohz_idle(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let case = Case::new("4", 2, &hogs(1, 1, "affinity=0")).read(1500, "/proc/timer_list");
    let text = bench.go(case)?.text(0)?;
    let stopped = tick_stopped(&text);
    // whoever reads the file runs on one of the idle CPUs, whose tick it starts
    let idle = stopped.iter().skip(1).filter(|s| **s).count();
    let busy = stopped.first().copied().unwrap_or(true);
    let word = if busy { "stopped" } else { "ticks" };
    Ok(Finding {
        as_expected: !busy && idle >= 2,
        found: format!("busy CPU {word}, {idle} of 3 idle ones stopped"),
        expected: "busy CPU ticks, 2 or 3 idle ones stopped".into(),
    })
}

/// Per CPU, the phase within a tick at which its hogs take turns; none if there are several.
fn phases(bench: &ScenarioBench, params: &[(&str, &str)]) -> Result<Vec<Option<u64>>, Trouble> {
    let workload: String = (0..4).map(|cpu| hogs(1 + 2 * cpu, 2, &format!("affinity={cpu}"))).collect();
    // the high-resolution tick (on from 7.0) would end slices between ticks
    let mut all = vec![("features", "NO_HRTICK")];
    all.extend(params);
    let seen = bench.go(Case::new("4", 4, &workload).params(&all))?;
    let tick_ns = 1_000_000_000 / u64::from(bench.kernel.hz);
    let phase = |cpu: u32| {
        // a kernel thread that is woken between two ticks ends a turn there, too
        let ends = seen.schedule.stays.iter().filter(|s| {
            s.cpu.0 == cpu
                && s.end_ns > S
                && s.end_ns < seen.schedule.end_ns
                && !seen.schedule.kernel.contains(&(cpu, s.end_ns))
        });
        let mut each: Vec<u64> = ends.map(|s| s.end_ns % tick_ns).collect();
        each.sort_unstable();
        each.dedup();
        if let [one] = each[..] { Some(one) } else { None }
    };
    Ok((0..4).map(phase).collect())
}

fn phase_words(found: &[Option<u64>]) -> String {
    let first = found.first().copied().flatten().unwrap_or(0);
    let tick =
        |p: &Option<u64>| p.map_or("several".to_owned(), |p| format!("{}", (p as i64 - first as i64) / 1000));
    format!("{} us", found.iter().map(tick).collect::<Vec<_>>().join(" "))
}

fn aligned(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    Ok(Finding::words(phase_words(&phases(bench, &[])?), "0 0 0 0 us"))
}

fn skewed(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    // tick_setup_sched_timer(): TICK_NSEC / 2, divided by the number of possible CPUs, times the CPU's number
    let step = 1_000_000 / u64::from(bench.kernel.hz) / 2 / 4;
    let expected = format!("0 {} {} {} us", step, 2 * step, 3 * step);
    Ok(Finding::words(phase_words(&phases(bench, &[("boot.skew_tick", "1")])?), expected))
}

/// Where the scheduler's debugfs files are: in a folder of their own from 5.13 on.
fn features_path(bench: &ScenarioBench) -> &'static str {
    if bench.version < (5, 13) {
        "/sys/kernel/debug/sched_features"
    } else {
        "/sys/kernel/debug/sched/features"
    }
}

fn features_file(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let path = features_path(bench);
    let case = Case::new("1", 1, &hogs(1, 1, "")).set(1, "features", "NO_WAKEUP_PREEMPTION").read(2, path);
    let text = bench.go(case)?.text(1)?;
    let found =
        text.split_whitespace().find(|w| w.ends_with("WAKEUP_PREEMPTION")).unwrap_or("nothing").to_owned();
    Ok(Finding::words(found, "NO_WAKEUP_PREEMPTION"))
}

fn sysctl(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let case = Case::new("1", 1, &hogs(1, 1, ""))
        .set(1, "rt_runtime_us", "900000")
        .read(2, "rt_runtime_us")
        .set(3, "rt_runtime_us", "2000000");
    let seen = bench.go(case)?;
    let refused = seen.reading(2).err().unwrap_or_else(|| "accepted".into());
    Ok(Finding::words(format!("{}, {refused}", seen.text(1)?), "900000, error 22"))
}

fn slice(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    // HZ=250: a slice is 5 ticks. EEVDF, update_deadline(): the tick at which vruntime reaches the deadline
    // ends the turn, 20 ms. CFS, check_preempt_tick(): the tick at which it has run for *more* than
    // sched_slice() does, 24 ms
    let eevdf = bench.version >= (6, 6);
    let (name, turn_ms) = if eevdf { ("base_slice_ns", 20) } else { ("min_granularity_ns", 24) };
    let params = [(name, "20000000"), ("features", "NO_HRTICK")];
    let seen = bench.go(Case::new("1", 13, &hogs(1, 2, "")).params(&params))?;
    // the kernel's own threads wake a few times a second and cut the turns around them: the median is exact
    // all the same. From 1 s on: a new task's first slice is halved
    let mut turns: Vec<u64> = Vec::new();
    let mut last = None;
    for stay in seen.schedule.within(S, 13 * S) {
        match last {
            Some((task, _)) if task == stay.task => {}
            Some((_, since)) => {
                turns.push(stay.start_ns - since);
                last = Some((stay.task, stay.start_ns));
            }
            None => last = Some((stay.task, stay.start_ns)),
        }
    }
    turns.sort_unstable();
    let median_ms = upper_median(&turns).map_or(0.0, |ns| ns as f64 / 1e6);
    Ok(Finding::number(median_ms, f64::from(turn_ms), 0.0, " ms"))
}

fn preempt_mode(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let read = |params| -> Result<String, Trouble> {
        let case =
            Case::new("1", 1, &hogs(1, 1, "")).params(params).read(1, "/sys/kernel/debug/sched/preempt");
        let text = bench.go(case)?.text(0)?;
        let mode = text.split_whitespace().find_map(|w| w.strip_prefix('(')?.strip_suffix(')'));
        Ok(mode.unwrap_or("none").to_owned())
    };
    if bench.version < (5, 13) {
        return Err(Trouble::Absent(
            "fixed when built (voluntary); flavours preempt-none, preempt-full".into(),
        ));
    }
    let found = format!("{}, {}", read(&[])?, read(&[("boot.preempt", "full")])?);
    let default = if bench.version < (6, 13) { "voluntary" } else { "lazy" };
    Ok(Finding::words(found, format!("{default}, full")))
}

fn schedstat(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let text = bench.go(Case::new("3", 1, &hogs(1, 1, "")).read(500, "/proc/schedstat"))?.text(0)?;
    let cpus = text.lines().filter(|l| l.starts_with("cpu")).count();
    Ok(Finding::words(format!("{cpus} CPUs"), "3 CPUs"))
}

fn sched_debug(bench: &ScenarioBench) -> Result<Finding, Trouble> {
    let path = if bench.version < (5, 13) { "/proc/sched_debug" } else { "/sys/kernel/debug/sched/debug" };
    let text = bench.go(Case::new("1", 1, &hogs(1, 1, "")).read(500, path))?.text(0)?;
    let found = if text.contains("hog") { "names it" } else { "does not name it" };
    Ok(Finding::words(found, "names it"))
}
