//! The figures of agreement as tables and drawings.

use super::explain::Cause;
use super::judge::{Comparison, Divergence};
use super::{Agreement, Pair, Setup, ms, ms_text};
use schedlab_report::chart::{Chart, Drawing, Scale, Series, Style};
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};
use schedlab_units::TaskId;
use schedlab_workload::Workload;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is shown of one workload under one pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The native policy.
    pub native: String,
    /// The real kernel.
    pub real: String,
    /// The workload.
    pub workload: String,
    /// CPUs.
    pub cpus: u32,
    /// Length of the run in ms.
    pub duration_ms: f64,
    /// Part of the CPU time that went to other tasks.
    pub share_distance: f64,
    /// Largest relative difference of a task's CPU time.
    pub share_worst: f64,
    /// Stops by preemption of both.
    pub involuntary: (u64, u64),
    /// Decisions of both.
    pub decisions: (usize, usize),
    /// Migrations of both.
    pub migrations: (u64, u64),
    /// Distance of the distributions of run lengths.
    pub runs_ks: f64,
    /// Distance of the distributions of waits.
    pub waits_ks: Option<f64>,
    /// 99th percentile of the waits of both in ms.
    pub wait_p99_ms: (f64, f64),
    /// Part of the busy time in which the same tasks run.
    pub overlap: f64,
    /// Decisions in common before the first difference.
    pub common: usize,
    /// When the first difference is, in ms; `None`: never.
    pub first_ms: Option<f64>,
    /// Both decisions.
    pub first: String,
    /// The same with protection of fair tasks off and the kernel's own threads in both.
    pub alike_first_ms: Option<f64>,
    /// And of how many decisions how many are then in common.
    pub alike_common: (usize, usize),
    /// Same task running, then.
    pub alike_overlap: f64,
    /// Both decisions, then.
    pub alike_first: String,
    /// What explains the differences.
    pub causes: Vec<String>,
    /// Quantiles of run lengths of both.
    pub run_quantiles_ns: [Vec<u64>; 2],
}

impl Row {
    /// Of this agreement.
    pub fn new(case: &Setup, pair: &Pair, agreement: &Agreement) -> Row {
        let Agreement { plain, alike, .. } = agreement;
        Row {
            native: pair.native.name().to_string(),
            real: pair.real.name().to_string(),
            workload: case.name.clone(),
            cpus: case.topology.nr_cpus(),
            duration_ms: ms(agreement.duration_ns),
            share_distance: plain.share_distance,
            share_worst: plain.share_worst,
            involuntary: plain.involuntary,
            decisions: plain.decisions,
            migrations: plain.migrations,
            runs_ks: plain.runs_ks,
            waits_ks: plain.waits_ks,
            wait_p99_ms: (ms(plain.wait_p99_ns.0), ms(plain.wait_p99_ns.1)),
            overlap: plain.overlap,
            common: plain.common,
            first_ms: plain.divergence.map(|d| ms(d.time_ns)),
            first: first(plain, &case.workload),
            alike_first_ms: alike.divergence.map(|d| ms(d.time_ns)),
            alike_common: (alike.common, alike.decisions.1),
            alike_overlap: alike.overlap,
            alike_first: first(alike, &case.workload),
            causes: agreement.causes.iter().map(|cause| cause.name().to_string()).collect(),
            run_quantiles_ns: agreement.run_quantiles_ns.clone(),
        }
    }
}

/// Both decisions of the first difference in words.
fn first(comparison: &Comparison, workload: &Workload) -> String {
    let Some(found) = comparison.divergence else { return String::new() };
    let Divergence { cpu, first, second, .. } = found;
    let name = |task: TaskId| match workload.tasks.get(task.0 as usize) {
        Some(known) if !task.is_idle() => format!("{task} ({})", known.name),
        _ => task.to_string(),
    };
    let side = |decision: Option<super::Decision>| match decision {
        None => "nothing more".to_string(),
        Some(decision) => format!("{} at {} ms", name(decision.task), ms_text(decision.time_ns)),
    };
    format!("cpu{cpu}: native {}, real {}", side(first), side(second))
}

/// Tables and drawings.
pub fn pages(rows: &[Row]) -> Pages {
    let mut seen: Vec<Cause> = Vec::new();
    for cause in Cause::ALL {
        if rows.iter().any(|row| row.causes.iter().any(|name| name == cause.name())) {
            seen.push(cause);
        }
    }
    let mut causes = Table::new(
        "causes",
        "Causes of the first differences",
        vec![
            Column::new("cause", "", "as named in the table of agreement"),
            Column::new("workloads", "", "on how many rows it has a part"),
            Column::new("explanation", "", "how to see it, and where in the kernel it lies"),
        ],
    );
    for cause in seen {
        let count = rows.iter().filter(|row| row.causes.iter().any(|name| name == cause.name())).count();
        causes.push(vec![cause.name().into(), count.into(), cause.explanation().into()]);
    }
    Pages {
        title: "Native policies and the real kernels that they model".into(),
        remarks: vec![
            "Each row: one workload on one machine, under the native policy and through the unmodified kernel of that \
             version. Times are simulated. 'Alike' is the second look: 6.12's fair server or 6.1's limit of real-time \
             tasks off, and the wakeups of the kernel's own threads in the native policy's workload too; what differs \
             then differs by policy."
                .into(),
        ],
        drawings: drawings(rows),
        tables: vec![agreement(rows), first_differences(rows), causes],
    }
}

fn agreement(rows: &[Row]) -> Table {
    let columns = vec![
        Column::new("native", "", "native policy"),
        Column::new("workload", "", "workload"),
        Column::new("cpus", "", "CPUs"),
        Column::new(
            "share_diff_pct",
            "%",
            "part of the CPU time that went to other tasks than in the real kernel",
        ),
        Column::new(
            "share_worst_pct",
            "%",
            "largest relative difference of the CPU time of a task with 1 % or more of it",
        ),
        Column::new("runs", "", "runs and idle times: native"),
        Column::new("runs_real", "", "runs and idle times: real"),
        Column::new("preempted", "", "stops of runnable tasks: native"),
        Column::new("preempted_real", "", "stops of runnable tasks: real"),
        Column::new("migr", "", "runs on another CPU than before: native"),
        Column::new("migr_real", "", "runs on another CPU than before: real"),
        Column::new("run_ks", "", "Kolmogorov-Smirnov distance of the lengths of runs"),
        Column::new("wait_ks", "", "the same of the waits after wakeups"),
        Column::new("wait_p99_ms", "ms", "99th percentile of the waits after wakeups: native"),
        Column::new("wait_p99_real_ms", "ms", "99th percentile of the waits after wakeups: real"),
        Column::new("same_pct", "%", "part of the busy time in which the same tasks run"),
        Column::new("first_ms", "ms", "first decision that differs"),
        Column::new(
            "alike_first_ms",
            "ms",
            "first decision that differs, protection of fair tasks off and own threads in both",
        ),
        Column::new("alike_common", "", "decisions in common then, of how many"),
        Column::new("causes", "", "of the differences, see the table of causes"),
    ];
    let mut table = Table::new("agreement", "Agreement", columns);
    let opt = |value: Option<f64>| value.map_or(Value::Null, |v| Value::from((v * 1000.0).round() / 1000.0));
    let pct = |part: f64| Value::from((part * 1e5).round() / 1e3);
    let round = |value: f64| Value::from((value * 1000.0).round() / 1000.0);
    for row in rows {
        table.push(vec![
            row.native.clone().into(),
            row.workload.clone().into(),
            row.cpus.into(),
            pct(row.share_distance),
            pct(row.share_worst),
            row.decisions.0.into(),
            row.decisions.1.into(),
            row.involuntary.0.into(),
            row.involuntary.1.into(),
            row.migrations.0.into(),
            row.migrations.1.into(),
            round(row.runs_ks),
            opt(row.waits_ks),
            round(row.wait_p99_ms.0),
            round(row.wait_p99_ms.1),
            pct(row.overlap),
            opt(row.first_ms),
            opt(row.alike_first_ms),
            format!("{}/{}", row.alike_common.0, row.alike_common.1).into(),
            if row.causes.is_empty() { "identical".into() } else { row.causes.join(", ").into() },
        ]);
    }
    table
}

fn first_differences(rows: &[Row]) -> Table {
    let columns = vec![
        Column::new("native", "", "native policy"),
        Column::new("workload", "", "workload"),
        Column::new("cpus", "", "CPUs"),
        Column::new("first", "", "both decisions at the first difference"),
        Column::new("alike_first", "", "the same, protection of fair tasks off and own threads in both"),
    ];
    let mut table = Table::new("first_differences", "First differences", columns);
    for row in rows.iter().filter(|row| row.first_ms.is_some()) {
        let none = || "none".to_string();
        let alike = Some(row.alike_first.clone()).filter(|text| !text.is_empty()).unwrap_or_else(none);
        table.push(vec![
            row.native.clone().into(),
            row.workload.clone().into(),
            row.cpus.into(),
            row.first.clone().into(),
            alike.into(),
        ]);
    }
    table
}

/// Per workload and machine: the distribution of run lengths under all of them.
fn drawings(rows: &[Row]) -> Vec<Drawing> {
    let mut places: Vec<(&str, u32)> = Vec::new();
    for row in rows {
        if !places.contains(&(row.workload.as_str(), row.cpus)) {
            places.push((&row.workload, row.cpus));
        }
    }
    places
        .into_iter()
        .map(|(workload, cpus)| {
            let here = rows.iter().filter(|row| row.workload == workload && row.cpus == cpus);
            let series = here.flat_map(|row| {
                let curve = |name: &str, quantiles: &[u64], style| {
                    let points = quantiles.iter().enumerate().map(|(i, ns)| (ms(*ns), (i + 1) as f64));
                    Series::new(name, points.collect(), style)
                };
                let [native, real] = &row.run_quantiles_ns;
                [curve(&row.native, native, Style::Steps), curve(&row.real, real, Style::DashedSteps)]
            });
            let chart = Chart {
                title: format!(
                    "{workload}, {cpus} CPU{}: lengths of uninterrupted runs",
                    if cpus == 1 { "" } else { "s" }
                ),
                x_label: "length of a run, ms".into(),
                y_label: "runs no longer than that, %".into(),
                x_scale: Scale::Log,
                y_scale: Scale::Linear,
                series: series.collect(),
                ..Chart::default()
            };
            Drawing {
                name: format!("runs_{workload}_{cpus}"),
                caption: "Native (line) and real (dashed) lie on each other where they agree.".into(),
                svg: chart.svg(),
            }
        })
        .collect()
}
