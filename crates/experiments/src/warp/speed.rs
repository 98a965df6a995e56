//! How much faster than running is replaying (figures 5 and 6), and how near to the time of the scheduler alone?
//!
//! ```text
//!   recording of a compile: 11 s    replay: 7 ms, of it 6 ms in the scheduler's own functions
//!   speed-up 11 s / 7 ms = 1,570    optimal 11 s / 6 ms = 1,830    replay / optimal = 1.17
//! ```
//!
//! The *optimal* time is, as in the paper, what the scheduler's functions take: here those of the kernel
//! object in the replay (sampled), where the paper measured them on the system that was recorded.

use super::WarpError;
use super::published::{SPEED, Speed};
use schedlab_lab::{Standard, Subject, run};
use schedlab_report::chart::{Bars, Drawing, Scale};
use schedlab_report::table::{Column, Table};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::{Workload, read_binary, write_binary};
use std::time::Instant;

/// A recording to be replayed.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Its name.
    pub name: String,
    /// Row of the paper's figure 6 whose part it takes: 0 gzip, 1 Mozilla, 2 kernel compile, 3 VolanoMark.
    pub like: Option<usize>,
    /// The workload.
    pub workload: Workload,
    /// How long the recording took on the real machine.
    pub recorded: Span,
}

/// What one replay took.
struct Measured {
    label: String,
    like: Option<&'static Speed>,
    recorded_ms: f64,
    load_ms: f64,
    run_ms: f64,
    optimal_ms: f64,
}

impl Measured {
    fn total_ms(&self) -> f64 {
        self.load_ms + self.run_ms
    }
}

/// Replays each recording under each scheduler, `repeats` times each; the shortest counts, since the host is shared.
pub(super) fn speed(
    recordings: &[Recording],
    subjects: &[Subject],
    cpus: u32,
    repeats: u32,
) -> Result<(Vec<Drawing>, Table), WarpError> {
    let columns = vec![
        Column::new("workload", "", "the recording"),
        Column::new("sched", "", "scheduler"),
        Column::new("recorded_ms", "ms", "time of the real run"),
        Column::new("load_ms", "ms", "time to read the workload, in its binary form"),
        Column::new("replay_ms", "ms", "time of the replay, without reading"),
        Column::new("optimal_ms", "ms", "of it, in the scheduler's functions (sampled)"),
        Column::new("speedup", "", "recorded over load and replay"),
        Column::new("speedup_optimal", "", "recorded over optimal"),
        Column::new("over_optimal", "", "load and replay over optimal; the paper: about 2"),
        Column::new("paper", "", "the paper's workload of this kind"),
        Column::new("paper_speedup", "", "published"),
        Column::new("paper_speedup_optimal", "", "published"),
    ];
    let mut table = Table::new("warp-speed", "Figures 5 and 6: time and speed-up", columns);
    let mut measured = Vec::new();
    for recording in recordings {
        let mut bytes = Vec::new();
        write_binary(&recording.workload, &mut bytes).expect("memory takes everything");
        for subject in subjects {
            let found = measure(recording, &bytes, subject, cpus, repeats)?;
            let published = recording.like.map(|row| &SPEED[row]);
            let of_paper = |get: fn(&Speed) -> f64| published.map(get).into();
            table.push(vec![
                recording.name.as_str().into(),
                subject.label.as_str().into(),
                found.recorded_ms.into(),
                found.load_ms.into(),
                found.run_ms.into(),
                found.optimal_ms.into(),
                (found.recorded_ms / found.total_ms()).into(),
                (found.recorded_ms / found.optimal_ms).into(),
                (found.total_ms() / found.optimal_ms).into(),
                published.map(|row| row.workload).into(),
                of_paper(|row| row.warp),
                of_paper(|row| row.optimal),
            ]);
            measured.push(found);
        }
    }
    Ok((drawings(&measured, subjects.len()), table))
}

fn measure(
    recording: &Recording,
    bytes: &[u8],
    subject: &Subject,
    cpus: u32,
    repeats: u32,
) -> Result<Measured, WarpError> {
    let mut best: Option<Measured> = None;
    for _ in 0..repeats.max(1) {
        let start = Instant::now();
        let workload = read_binary(bytes).expect("it was written just now");
        let load_ms = start.elapsed().as_secs_f64() * 1e3;
        let machine = Topology::flat(cpus).map_err(WarpError::Topology)?;
        let report = run(&subject.on(&workload, machine), Standard::NoWarning)?.report;
        let found = Measured {
            label: format!("{}, {}", recording.name, subject.label),
            like: recording.like.map(|row| &SPEED[row]),
            recorded_ms: recording.recorded.as_ms_f64(),
            load_ms,
            run_ms: report.loop_wall_ns as f64 / 1e6,
            optimal_ms: report.kernel_wall_ns as f64 / 1e6,
        };
        if best.as_ref().is_none_or(|best| found.total_ms() < best.total_ms()) {
            best = Some(found);
        }
    }
    Ok(best.expect("there was one run at least"))
}

/// Of each recording, as many as there are subjects.
fn drawings(measured: &[Measured], subjects: usize) -> Vec<Drawing> {
    let groups = |values: fn(&Measured) -> Vec<Option<f64>>| {
        measured.iter().map(|found| (found.label.clone(), values(found))).collect::<Vec<_>>()
    };
    let time = Bars {
        title: "Figure 5: execution time".into(),
        y_label: "ms, logarithmic".into(),
        y_scale: Scale::Log,
        names: ["Linux (recorded)", "replay", "optimal"].map(String::from).to_vec(),
        groups: groups(|found| vec![Some(found.recorded_ms), Some(found.total_ms()), Some(found.optimal_ms)]),
        set: subjects,
    };
    let mut beside = Vec::new(); // each recording's replays behind the paper's workload of that kind
    for replays in measured.chunks(subjects.max(1)) {
        let paper = replays[0].like.map(|row| (row.workload, vec![Some(row.warp), Some(row.optimal)]));
        let (name, values) = paper.unwrap_or(("-", vec![None, None]));
        beside.push((format!("{name}, the paper"), values));
        beside.extend(replays.iter().map(|found| {
            let times = |ms: f64| Some(found.recorded_ms / ms);
            (found.label.clone(), vec![times(found.total_ms()), times(found.optimal_ms)])
        }));
    }
    let speedup = Bars {
        title: "Figure 6: speed-up over running".into(),
        y_label: "times, logarithmic".into(),
        y_scale: Scale::Log,
        names: ["replay", "optimal"].map(String::from).to_vec(),
        groups: beside,
        set: subjects + 1,
    };
    vec![
        Drawing {
            name: "figure5".into(),
            caption: "Time of the recorded run, of its replay (reading the workload included), and of the scheduler's \
                      own functions within it."
                .into(),
            svg: time.svg(),
        },
        Drawing {
            name: "figure6".into(),
            caption: "The recorded time over that of the replay, and over that of the scheduler's own functions. The \
                      paper's values are of 2.6.7 on one CPU of 2.8 GHz, and of other recordings: their order and \
                      ratio compare, not their size."
                .into(),
            svg: speedup.svg(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spoilt::{circle, overfull};
    use schedlab_lab::Ended;

    #[test]
    fn a_replay_that_deadlocks_or_warns_has_no_speed() {
        let speed_of = |workload: Workload, sched: &str| {
            let recording = Recording { name: "w".into(), like: None, workload, recorded: Span::from_s(1) };
            speed(&[recording], &[Subject::native(sched).unwrap()], 1, 1).map(|(_, table)| table.rows.len())
        };
        let ended = |error| match error {
            WarpError::Run(ended) => ended,
            other => panic!("{other}"),
        };
        assert!(matches!(ended(speed_of(circle(), "fifo").unwrap_err()), Ended::Deadlock { .. }));
        assert!(matches!(ended(speed_of(overfull(), "cbs").unwrap_err()), Ended::Warned { .. }));
        assert_eq!(speed_of(overfull(), "fifo").unwrap(), 1);
    }
}
