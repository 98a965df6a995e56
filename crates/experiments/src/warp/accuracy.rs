//! Does the simulation give what the real system gives (figures 7 and 10), and what the scheduler's design
//! says (figures 8 and 9)?
//!
//! Real Linux is a guest whose runs were kept, at the same length. The schedulers of the paper exist as
//! native models only: their real runs are in the paper, drawn without digits.

use super::cases::{self, Benchmark, LEVELS, Levels};
use super::published::{DESIGN, NICES};
use super::{Real, WarpConfig, WarpError};
use crate::history::usual_run_ms;
use rayon::prelude::*;
use schedlab_lab::Subject;
use schedlab_machine::Perturb;
use schedlab_report::chart::{Bars, Chart, Drawing, Scale, Series, Style, grid};
use schedlab_report::table::{Column, Table};
use schedlab_units::{Nice, Span};
use serde_json::Value;

/// One scheduler's result in one benchmark, averaged over runs that differ in what a workload leaves open.
pub(super) struct Found {
    label: String,
    benchmark: Benchmark,
    samples: Vec<Levels>,
}

fn mean(samples: &[Levels], get: fn(&Levels) -> &Vec<f64>, level: usize) -> Option<f64> {
    let sum: f64 = samples.iter().map(|sample| get(sample)[level]).sum();
    (!samples.is_empty()).then(|| sum / samples.len() as f64)
}

fn range(samples: &[Levels], get: fn(&Levels) -> &Vec<f64>, level: usize) -> Option<(f64, f64)> {
    let values = || samples.iter().map(|sample| get(sample)[level]);
    (!samples.is_empty()).then(|| (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max)))
}

/// What of a benchmark counts.
fn quantity(benchmark: Benchmark) -> fn(&Levels) -> &Vec<f64> {
    match benchmark {
        Benchmark::Fairbench => |levels| &levels.cpu_ms,
        Benchmark::Responsebench => |levels| &levels.worst_wait_ms,
    }
}

/// Runs both benchmarks under every scheduler.
pub(super) fn simulate(config: &WarpConfig) -> Result<Vec<Found>, WarpError> {
    let natives = DESIGN.iter().map(|(name, _)| Subject::native(name).expect("it is registered"));
    let subjects: Vec<Subject> = natives.chain(config.linux.iter().cloned()).collect();
    let pairs: Vec<(&Subject, Benchmark)> =
        subjects.iter().flat_map(|subject| Benchmark::ALL.map(|benchmark| (subject, benchmark))).collect();
    // each run is a process of its own: a job here only waits
    let found = pairs.into_par_iter().map(|(subject, benchmark)| {
        let of_paper = subject.info().is_some();
        let run = |seed| {
            if of_paper {
                let workload = benchmark.workload_with_usleep(config.duration, seed);
                return cases::run(subject, &workload, config.duration, None);
            }
            let perturb = Perturb::of_guest(seed);
            cases::run(subject, &benchmark.workload(config.duration), config.duration, Some(perturb))
        };
        // hogs of the native models have nothing to differ in
        let all_equal = of_paper && benchmark == Benchmark::Fairbench;
        let nr_samples = if all_equal { 1 } else { u64::from(config.samples.max(1)) };
        let samples = (1..=nr_samples).into_par_iter().map(run).collect::<Result<_, _>>()?;
        Ok(Found { label: subject.label.clone(), benchmark, samples })
    });
    found.collect()
}

/// Figures 7 and 10: simulated beside real.
pub(super) fn against_real(found: &[Found], real: &[Real], duration: Span) -> (Vec<Drawing>, Vec<Table>) {
    let mut drawings = Vec::new();
    let mut tables = Vec::new();
    for (benchmark, figure, name, title, unit) in [
        (
            Benchmark::Fairbench,
            "figure7",
            "warp-allocation",
            "Figure 7: CPU time by nice value",
            "CPU time per task, ms",
        ),
        (
            Benchmark::Responsebench,
            "figure10",
            "warp-response",
            "Figure 10: worst wait by length of sleep",
            "longest wait of a burst, ms, logarithmic",
        ),
    ] {
        let get = quantity(benchmark);
        let columns = vec![
            Column::new("sched", "", "scheduler"),
            Column::new("level", "", "of the benchmark"),
            Column::new("simulated_ms", "ms", "mean over the runs"),
            Column::new("simulated_min_ms", "ms", "lowest of them"),
            Column::new("simulated_max_ms", "ms", "highest of them"),
            Column::new("real_ms", "ms", "the guest's runs, mean"),
            Column::new("difference_percent", "%", "simulated over real, less one"),
            Column::new("real", "", "what ran"),
        ];
        let long = format!("{title}, {duration}");
        let mut table = Table::new(name, long.as_str(), columns);
        let mut groups = Vec::new();
        for found in found.iter().filter(|found| found.benchmark == benchmark) {
            let of_it = |real: &&Real| {
                found.label == format!("linux-{}", real.series)
                    && real.benchmark == benchmark
                    && real.duration_ns == duration.as_ns()
            };
            let reals: Vec<&Real> = real.iter().filter(of_it).collect();
            let kept: Vec<Levels> = reals.iter().map(|real| real.levels.clone()).collect();
            for (level, level_name) in benchmark.levels().into_iter().enumerate() {
                let simulated = mean(&found.samples, get, level);
                let reality = mean(&kept, get, level);
                let bounds = range(&found.samples, get, level);
                let off =
                    simulated.zip(reality).filter(|(_, r)| *r > 0.0).map(|(s, r)| 100.0 * (s / r - 1.0));
                table.push(vec![
                    found.label.as_str().into(),
                    level_name.into(),
                    simulated.into(),
                    bounds.map(|b| b.0).into(),
                    bounds.map(|b| b.1).into(),
                    reality.into(),
                    off.into(),
                    reals.first().map(|real| real.version.clone()).into(),
                ]);
            }
            let bars = |samples: &[Levels]| (0..LEVELS).map(|level| mean(samples, get, level)).collect();
            groups.push((format!("{}, simulated", found.label), bars(&found.samples)));
            if !kept.is_empty() {
                groups.push((format!("{}, real", found.label), bars(&kept)));
            }
        }
        let svg = Bars {
            title: long,
            y_label: unit.into(),
            y_scale: if benchmark == Benchmark::Fairbench { Scale::Linear } else { Scale::Log },
            names: benchmark.levels().map(String::from).to_vec(),
            groups,
            set: 0,
        }
        .svg();
        let caption = match benchmark {
            Benchmark::Fairbench => {
                "Five tasks at each nice value compute all the time. The paper: 2.4 and 2.6 show a clear staircase of \
                 more than 30 % a step; under EBS nice -20 has only 10 % more than -10."
            }
            Benchmark::Responsebench => {
                "Tasks compute 5 ms and sleep. The paper: EBS is at par with 2.4, and both are an order of magnitude \
                 better than 2.6 with its second chance for interactive tasks."
            }
        };
        drawings.push(Drawing { name: figure.into(), caption: caption.into(), svg });
        tables.push(table);
    }
    (drawings, tables)
}

/// Figure 8: what a nice value means to each scheduler.
pub(super) fn nice_to_share(linux: &[Subject]) -> Result<(Drawing, Table), WarpError> {
    let columns = vec![
        Column::new("sched", "", "scheduler"),
        Column::new("what", "", "time slice in ms, or share"),
        Column::new("nice", "", "nice value"),
        Column::new("published", "", "in the paper's text"),
        Column::new("here", "", "measured: the usual length of a hog's run, or the share by definition"),
    ];
    let mut table = Table::new("warp-nice", "Figure 8: nice value to time slice or share", columns);
    let mut slices = Vec::new();
    for (sched, published) in &DESIGN[..2] {
        let every: Vec<i32> = (-20..=19).collect();
        let here: Vec<u64> = every
            .par_iter()
            .map(|nice| usual_run_ms(sched, *nice))
            .collect::<Result<_, _>>()
            .map_err(WarpError::Params)?;
        let points = every.iter().zip(&here).map(|(nice, ms)| (f64::from(*nice), *ms as f64));
        slices.push(Series::new(*sched, points.collect(), Style::Steps));
        let paper = NICES.iter().zip(published).map(|(nice, ms)| (f64::from(*nice), *ms));
        slices.push(Series::new(format!("{sched}, paper"), paper.collect(), Style::Line));
        for (nice, published) in NICES.into_iter().zip(published) {
            let ms = here[(nice + 20) as usize];
            table.push(vec![(*sched).into(), "slice_ms".into(), nice.into(), (*published).into(), ms.into()]);
        }
    }
    let weights = |nice: i32| Nice::new(nice).map_or(0, |nice| nice.weight().0);
    let mut shares = Vec::new();
    let ebs = NICES.iter().zip(DESIGN[2].1).map(|(nice, share)| (f64::from(*nice), share));
    shares.push(Series::new("ebs, paper", ebs.collect(), Style::Line));
    for (nice, share) in NICES.into_iter().zip(DESIGN[2].1) {
        table.push(vec!["ebs".into(), "share".into(), nice.into(), share.into(), Value::Null]);
    }
    if !linux.is_empty() {
        // drawn on EBS's scale: 20 at nice 0
        let points = (-20..=19).map(|nice| (f64::from(nice), weights(nice) as f64 / 1024.0 * 20.0));
        shares.push(Series::new("Linux since 2.6.23", points.collect(), Style::Thin));
        for nice in NICES {
            table.push(vec![
                "linux-6.x".into(),
                "weight".into(),
                nice.into(),
                Value::Null,
                weights(nice).into(),
            ]);
        }
    }
    let chart = |title: &str, y: &str, y_scale, series| {
        let x_marks = NICES.map(f64::from).to_vec();
        let (title, x_label, y_label) = (title.into(), "nice value".into(), y.into());
        Chart { title, x_label, y_label, y_scale, series, x_marks, size: (560.0, 340.0), ..Chart::default() }
            .svg()
    };
    let panels = [
        chart("Time slice", "ms", Scale::Linear, slices),
        chart("Share (20 at nice 0)", "share, logarithmic", Scale::Log, shares),
    ];
    let svg = grid("Figure 8: what a nice value means", &[], &panels, 2);
    let caption = "Left: the slices that hogs get under the native models, with those that the paper's text gives. \
                   Right: EBS's shares in the paper, and Linux's weights, at the same scale.";
    Ok((Drawing { name: "figure8".into(), caption: caption.into(), svg }, table))
}

/// Figure 9: CPU time by the design, and as measured.
pub(super) fn against_ideal(found: &[Found], duration: Span) -> (Drawing, Table) {
    let columns = vec![
        Column::new("sched", "", "scheduler"),
        Column::new("level", "", "of fairbench"),
        Column::new("ideal_ms", "ms", "CPU time per task by slices, shares or weights"),
        Column::new("simulated_ms", "ms", "CPU time per task"),
        Column::new("difference_percent", "%", "simulated over ideal, less one"),
        Column::new("paper", "", "what the text says"),
    ];
    let mut table = Table::new("warp-ideal", "Figure 9: allocation against the ideal", columns);
    let mut groups = Vec::new();
    for found in found.iter().filter(|found| found.benchmark == Benchmark::Fairbench) {
        let design = DESIGN.iter().find(|(name, _)| *name == found.label);
        let shares = match design {
            Some((_, shares)) => *shares,
            None => NICES.map(|nice| Nice::new(nice).map_or(0.0, |nice| nice.weight().0 as f64)),
        };
        let said = match (design, found.label.as_str()) {
            (None, _) => Value::Null,
            (_, "ebs") => "a huge difference".into(),
            _ => "precisely maintained".into(),
        };
        let per_share = duration.as_ms_f64() / (shares.iter().sum::<f64>() * cases::TASKS_PER_LEVEL as f64);
        let ideal: Vec<f64> = shares.iter().map(|share| share * per_share).collect();
        let simulated = |level| mean(&found.samples, |levels| &levels.cpu_ms, level);
        for (level, name) in Benchmark::Fairbench.levels().into_iter().enumerate() {
            let off = simulated(level).map(|ms| 100.0 * (ms / ideal[level] - 1.0));
            table.push(vec![
                found.label.as_str().into(),
                name.into(),
                ideal[level].into(),
                simulated(level).into(),
                off.into(),
                said.clone(),
            ]);
        }
        groups.push((format!("{}, simulated", found.label), (0..LEVELS).map(simulated).collect()));
        groups.push((format!("{}, ideal", found.label), ideal.into_iter().map(Some).collect()));
    }
    let bars = Bars {
        title: "Figure 9: CPU time, simulated and by the design".into(),
        y_label: "CPU time per task, ms".into(),
        y_scale: Scale::Linear,
        names: Benchmark::Fairbench.levels().map(String::from).to_vec(),
        groups,
        set: 2,
    };
    let caption = "Ideal: in proportion to the slices and shares of figure 8, for Linux to its weights.";
    (Drawing { name: "figure9".into(), caption: caption.into(), svg: bars.svg() }, table)
}
