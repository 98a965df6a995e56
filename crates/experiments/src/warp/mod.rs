//! Every figure of the evaluation in the paper on WARP, beside the published value.
//!
//! Haoqiang Zheng, Jason Nieh: WARP: Enabling Fast CPU Scheduler Development and Evaluation, section V.
//!
//! | paper | here |
//! |---|---|
//! | figures 5 and 6: time and speed-up of four workloads | `figure5`, `figure6`, `warp-speed` |
//! | section V.C: overhead of tracing | `warp-overhead`, if measured |
//! | figure 7: allocation, WARP against real | `figure7`, `warp-allocation` |
//! | figure 8: nice to share | `figure8`, `warp-nice` |
//! | figure 9: allocation, WARP against ideal | `figure9`, `warp-ideal` |
//! | figure 10: responsiveness, WARP against real | `figure10`, `warp-response` |
//! | what the text says of figures 7 to 10 | `warp-text` |
//!
//! The paper's three schedulers are native models here; their real runs are in the paper only. Real Linux of
//! today, unmodified, stands beside them, against the same kernel in a guest.

mod accuracy;
pub mod cases;
mod published;
mod speed;

pub use cases::{Benchmark, Levels};
pub use speed::Recording;

use schedlab_lab::{Ended, Fails, FailureKind, Subject};
use schedlab_policies::PolicyError;
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};
use schedlab_topology::TopologyError;
use schedlab_units::Span;
use serde::{Deserialize, Serialize};

/// The length of the paper's runs of figures 7, 9 and 10.
pub const DURATION: Span = Span::from_s(180);

/// What real Linux did in a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Real {
    /// `6.12`.
    pub series: String,
    /// Where it ran, and which version: `guest, 6.12.94-1`.
    pub version: String,
    /// Names the run: of kernel, initramfs, QEMU and command line.
    pub key: String,
    /// Which benchmark.
    pub benchmark: Benchmark,
    /// How long.
    pub duration_ns: u64,
    /// What the levels got.
    pub levels: Levels,
}

/// What tracing costs per event on this host, in us (section V.C).
#[derive(Clone, Debug, PartialEq)]
pub struct Overhead {
    /// What is measured: an event, or a workload's way to the file.
    pub what: String,
    /// The paper's name of it.
    pub like: String,
    /// Which way of recording: `ftrace`, `bpf`.
    pub way: String,
    /// Measured: the median of all samples.
    pub us: f64,
    /// A quarter of the samples is below.
    pub low_us: f64,
    /// A quarter of the samples is above.
    pub high_us: f64,
}

/// What to reproduce, and how thoroughly.
#[derive(Clone, Debug)]
pub struct WarpConfig {
    /// Recordings to be replayed for figures 5 and 6.
    pub recordings: Vec<Recording>,
    /// Real Linux, unmodified.
    pub linux: Vec<Subject>,
    /// CPUs of the replays of figures 5 and 6.
    pub cpus: u32,
    /// Replays of each recording, of which the shortest counts.
    pub repeats: u32,
    /// Length of the benchmarks' runs.
    pub duration: Span,
    /// Runs of each benchmark, which differ in what it leaves open.
    pub samples: u32,
    /// What real Linux did.
    pub real: Vec<Real>,
    /// Measured overhead of tracing; empty: not measured.
    pub overhead: Vec<Overhead>,
    /// Where it was measured, or why it was not.
    pub overhead_note: String,
}

impl Default for WarpConfig {
    fn default() -> WarpConfig {
        WarpConfig {
            recordings: Vec::new(),
            linux: Vec::new(),
            cpus: 2,
            repeats: 3,
            duration: DURATION,
            samples: 5,
            real: Vec::new(),
            overhead: Vec::new(),
            overhead_note: String::new(),
        }
    }
}

/// A study that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WarpError {
    /// A run did not end as it should.
    #[error(transparent)]
    Run(#[from] Ended),
    /// The machine cannot be.
    #[error(transparent)]
    Topology(TopologyError),
    /// A scheduler refuses its parameters.
    #[error(transparent)]
    Params(PolicyError),
}

impl Fails for WarpError {
    fn kind(&self) -> FailureKind {
        match self {
            WarpError::Run(ended) => ended.kind(),
            WarpError::Topology(_) | WarpError::Params(_) => FailureKind::Input,
        }
    }
}

/// Runs everything.
pub fn reproduce(config: &WarpConfig) -> Result<Pages, WarpError> {
    let mut pages = Pages {
        title: "WARP: every figure of the evaluation beside the published value".into(),
        remarks: vec![
            "Haoqiang Zheng, Jason Nieh: WARP: Enabling Fast CPU Scheduler Development and Evaluation.".into(),
            "linux-2.4, o1-2.6.7 and ebs are native models of the paper's schedulers; linux-5.10, -6.1, -6.12 and \
             -7.2 are unmodified kernel code. Figures 7, 9 and 10 were published without digits: what the text says \
             of them is in the last table."
                .into(),
        ],
        ..Pages::default()
    };
    if !config.recordings.is_empty() {
        let fifo = Subject::native("fifo").expect("it is registered");
        let subjects: Vec<Subject> = config.linux.iter().cloned().chain([fifo]).collect();
        let (drawings, table) = speed::speed(&config.recordings, &subjects, config.cpus, config.repeats)?;
        pages.drawings.extend(drawings);
        pages.tables.push(table);
    }
    pages.tables.push(overhead(&config.overhead));
    if !config.overhead_note.is_empty() {
        pages.remarks.push(format!("Section V.C: {}.", config.overhead_note));
    }
    let found = accuracy::simulate(config)?;
    let (drawings, tables) = accuracy::against_real(&found, &config.real, config.duration);
    let (figure8, nice) = accuracy::nice_to_share(&config.linux)?;
    let (figure9, ideal) = accuracy::against_ideal(&found, config.duration);
    let mut drawings = drawings.into_iter();
    pages.drawings.extend(drawings.next());
    pages.drawings.extend([figure8, figure9]);
    pages.drawings.extend(drawings);
    pages.tables.extend(tables);
    pages.tables.extend([nice, ideal]);
    let mut text = crate::history::warp().map_err(WarpError::Params)?;
    (text.name, text.title) = ("warp-text".into(), "What the text says of figures 7 to 10".into());
    pages.tables.push(text);
    Ok(pages)
}

/// Section V.C: a row per published figure and way of recording here.
fn overhead(measured: &[Overhead]) -> Table {
    let columns = vec![
        Column::new("what", "", "an event's capture, or its way from the buffer to the file"),
        Column::new("paper", "", "the paper's name of it"),
        Column::new("paper_us", "us", "published, on a CPU of 2.8 GHz"),
        Column::new("here", "", "measured here"),
        Column::new("way", "", "how it was recorded"),
        Column::new("here_us", "us", "measured on this host: the median"),
        Column::new("low_us", "us", "a quarter of the samples is below"),
        Column::new("high_us", "us", "a quarter of the samples is above"),
    ];
    let mut table = Table::new("warp-overhead", "Section V.C: what tracing costs per event", columns);
    for (what, rows) in [("capture", &published::EVENT_US[..]), ("to the file", &published::FILE_US[..])] {
        for (name, us) in rows {
            let mut found: Vec<Option<&Overhead>> =
                measured.iter().filter(|row| row.like == *name).map(Some).collect();
            if found.is_empty() {
                found.push(None);
            }
            for here in found {
                table.push(vec![
                    what.into(),
                    (*name).into(),
                    (*us).into(),
                    here.map(|row| row.what.clone()).into(),
                    here.map(|row| row.way.clone()).into(),
                    here.map(|row| row.us).into(),
                    here.map(|row| row.low_us).into(),
                    here.map(|row| row.high_us).into(),
                ]);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ways of one event are two rows beside one published figure; what was not measured stays a row
    /// without a figure.
    #[test]
    fn overhead_stands_beside_the_published_figures() {
        let row = |way: &str, us| Overhead {
            what: "FORK".into(),
            like: "FORK".into(),
            way: way.into(),
            us,
            low_us: us / 2.0,
            high_us: us * 2.0,
        };
        let table = overhead(&[row("ftrace", 0.5), row("bpf", 0.25)]);
        let number = |row: usize, column: usize| table.rows[row][column].as_f64();
        assert_eq!(table.rows.len(), 5 + 3 + 1);
        assert_eq!(
            [number(0, 2), number(0, 5), number(0, 6), number(0, 7)],
            [0.74, 0.5, 0.25, 1.0].map(Some)
        );
        assert_eq!([number(1, 2), number(1, 5)], [0.74, 0.25].map(Some));
        assert_eq!([number(2, 2), number(2, 5)], [Some(0.18), None]);
    }
}
