//! Every table and figure of the paper on VTRR, beside the published value.
//!
//! Nieh, Vaill, Zhong, "Virtual-Time Round-Robin: An O(1) Proportional Share Scheduler", USENIX ATC 2001. The digits of the published
//! figures could not be checked against the printed paper: they are marked *unverified* wherever they stand. Where the paper's
//! set-up is unknown (points of the domain, frame lengths, shares of the encoders and the virtual machines), ours is stated.
//!
//! | paper | here |
//! |---|---|
//! | worked example, sections 2 and 3 | `vtrr-example`: order and error range, also for hundredfold shares |
//! | figures 1 to 4: error ranges over N and S | `fairness-*`, surfaces |
//! | figure 5: cost of selecting a client | `cost`, if measured; ratios in `vtrr-published` |
//! | figures 6 to 8: who ran when | `sequence-*` |
//! | figures 9 to 11: MPEG encoder | `frames-*` |
//! | virtual machines, text | `vtrr-machines` |

mod published;

use crate::arm::{Client, Setting, Stretch, received_and_wait, who_ran};
use crate::cost::Cost;
use crate::draw::{Bar, Chart, Scale, Series, Style, gantt};
use crate::fairness::{Config, ConfigError, Study, study};
use crate::output::{Drawing, OutputError, Pages};
use crate::subject::Subject;
use crate::table::{Column, Table};
use schedlab_policies::proportional::quantum;
use schedlab_units::{Nice, Span};
use std::path::{Path, PathBuf};

/// What to reproduce, and how thoroughly.
#[derive(Clone, Debug)]
pub struct ReproduceConfig {
    /// The study of error ranges.
    pub study: Config,
    /// Measured costs, if there are any.
    pub cost: Option<Cost>,
}

impl Default for ReproduceConfig {
    fn default() -> ReproduceConfig {
        ReproduceConfig { study: Config::vtrr_paper(), cost: None }
    }
}

/// All that was reproduced.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// The study of error ranges.
    pub study: Study,
    /// Published values beside ours.
    pub published: Table,
    pages: Pages,
}

/// Runs everything; a few seconds, most of it the study.
pub fn reproduce(config: &ReproduceConfig) -> Result<Reproduction, ConfigError> {
    let study = study(&config.study)?;
    let published = published::table(&study, config.cost.as_ref());
    let mut pages = Pages {
        title: "VTRR: every table and figure beside the published value".into(),
        remarks: vec![
            "Published values are from memory and could not be checked against the printed paper: unverified.".into(),
            "tu: one quantum of 10 ms.".into(),
        ],
        drawings: study.pages().drawings,
        tables: vec![published.clone(), example_table()],
    };
    if let Some(cost) = &config.cost {
        let cost = cost.pages();
        pages.drawings.extend(cost.drawings);
        pages.tables.extend(cost.tables);
        pages.remarks.extend(cost.remarks);
    }
    pages.drawings.extend(sequence_drawings());
    pages.tables.push(coarse_table());
    pages.drawings.extend(frame_drawings());
    pages.tables.push(machines_table());
    pages.tables.extend(study.pages().tables);
    Ok(Reproduction { study, published, pages })
}

impl Reproduction {
    /// Tables and drawings together.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Writes all tables (CSV, JSON), drawings (SVG) and a page (HTML) into a folder; returns the paths, the page first.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, OutputError> {
        self.pages.write(folder)
    }

    /// For a terminal: published values beside ours, then the domain.
    pub fn summary(&self) -> String {
        format!("{}\n{}\n{}", self.published.title, self.published.to_text(), self.study.summary())
    }
}

/// Clients A, B, C with shares 3, 2, 1, and a hundred times as much.
fn example_table() -> Table {
    let columns = vec![
        Column::new("sched", "", "scheduler"),
        Column::new("order", "", "order of service in one cycle, shares 3, 2, 1"),
        Column::new("error_low_tu", "tu", "lowest error, shares 3, 2, 1"),
        Column::new("error_high_tu", "tu", "highest error, shares 3, 2, 1"),
        Column::new("error_low_300_tu", "tu", "lowest error, shares 300, 200, 100"),
        Column::new("error_high_300_tu", "tu", "highest error, shares 300, 200, 100"),
    ];
    let mut table =
        Table::new("vtrr-example", "The worked example: clients A, B, C with shares 3, 2, 1", columns);
    for contender in crate::fairness::CONTENDERS.iter().filter(|contender| contender.repeats) {
        let range = |shares: &[u64]| {
            let quanta = shares.iter().sum();
            quantum::serve(&mut *(contender.make)(3, 0), shares, quanta, |_, _, _| {}).from_start_tu()
        };
        let order = quantum::order(&mut *(contender.make)(3, 0), &[3, 2, 1], 6);
        let (small, large) = (range(&[3, 2, 1]), range(&[300, 200, 100]));
        table.push(vec![
            contender.name.into(),
            order.into(),
            small.0.into(),
            small.1.into(),
            large.0.into(),
            large.1.into(),
        ]);
    }
    table
}

/// The schedulers of the paper's measurements that are registered here. Linux's are given nice values whose time slices are as
/// 1 to 5. 2.2 refills 20 - nice ticks of 10 ms and gives one more: nice 19, 17, 15, 13, 11 refill 10, 30, 50, 70, 90 ms (the slices
/// that the paper names, unverified) and run 20, 40, 60, 80, 100 ms. 2.4 refills (20 - nice)/4 + 1 ticks and runs that.
fn measured() -> Vec<(&'static str, Vec<Client>)> {
    let by_share = |share: u64| Client::new(format!("share {share}"), Setting::Share(share));
    let by_nice = |(share, nice): (u64, i32)| {
        Client::new(format!("{share} (nice {nice})"), Setting::Nice(Nice::new(nice).expect("4 to 19")))
    };
    let shares = || (1..=5).map(by_share).collect::<Vec<_>>();
    let nices = |nice: [i32; 5]| (1..=5).zip(nice).map(by_nice).collect::<Vec<_>>();
    [
        ("linux-2.2", nices([19, 17, 15, 13, 11])),
        ("linux-2.4", nices([19, 16, 12, 8, 4])),
        ("wfq", shares()),
        ("vtrr", shares()),
        ("wrr", shares()),
    ]
    .into_iter()
    .filter(|(sched, _)| schedlab_policies::find(sched).is_some())
    .collect()
}

/// Who ran when, with the scheduler's default quantum.
fn run(sched: &str, clients: &[Client], length: Span) -> Vec<Stretch> {
    let subject = Subject::parse(sched).expect("the paper's schedulers are registered");
    who_ran(&subject, clients, length).expect("always runnable clients can be served")
}

/// Who ran when within 300 ms, five clients with shares 1 to 5.
fn sequence_drawings() -> Vec<Drawing> {
    let draw = |(sched, clients): (&str, Vec<Client>)| {
        let (from_ms, to_ms) = (3_000.0, 3_300.0); // after the start's own effects
        let stretches = run(sched, &clients, Span::from_ms(3_300));
        let bars: Vec<Bar> = stretches
            .iter()
            .map(|s| Bar { client: s.client, from: s.from_ns as f64 * 1e-6, to: s.to_ns as f64 * 1e-6 })
            .filter(|bar| bar.to > from_ms)
            .map(|bar| Bar { from: bar.from.max(from_ms) - from_ms, to: bar.to.min(to_ms) - from_ms, ..bar })
            .collect();
        let names: Vec<String> = clients.into_iter().map(|client| client.name).collect();
        Drawing {
            name: format!("sequence-{sched}"),
            caption: "Five always runnable clients; shares 1 to 5 (Linux: nice values whose time slices are as 1 to 5).".into(),
            svg: gantt(&format!("Who ran when: {sched}"), "ms (3 s after the start)", to_ms - from_ms, &names, &bars),
        }
    };
    measured().into_iter().map(draw).collect()
}

/// The same five clients at coarse grain: their parts of 30 s.
fn coarse_table() -> Table {
    let columns = vec![
        Column::new("sched", "", "scheduler"),
        Column::new("client", "", "client"),
        Column::new("due_part", "", "share / sum of shares"),
        Column::new("received_part", "", "part of the CPU in 30 s"),
        Column::new("longest_wait_ns", "ns", "longest time without service"),
    ];
    let mut table = Table::new("vtrr-coarse", "Five clients at coarse grain (30 s)", columns);
    let length = Span::from_s(30);
    for (sched, clients) in measured() {
        let stretches = run(sched, &clients, length);
        for (index, client) in clients.iter().enumerate() {
            let (received_ns, wait_ns) = received_and_wait(&stretches, index, length);
            table.push(vec![
                sched.into(),
                client.name.clone().into(),
                ((index + 1) as f64 / 15.0).into(),
                (received_ns as f64 / length.as_ns() as f64).into(),
                wait_ns.into(),
            ]);
        }
    }
    table
}

/// CPU time per frame of the encoder: an MP3 frame holds 26 ms of sound; encoded at three times real time when alone.
const FRAME_NS: u64 = 8_700_000;

/// Frames encoded against time, five encoders with shares 1 to 5.
fn frame_drawings() -> Vec<Drawing> {
    let draw = |(sched, clients): (&str, Vec<Client>)| {
        let length = Span::from_ms(2_000);
        let stretches = run(sched, &clients, length);
        let series = |(index, client): (usize, &Client)| {
            let mut points = vec![(0.0, 0.0)];
            let mut received_ns = 0;
            for stretch in stretches.iter().filter(|stretch| stretch.client == index) {
                let first = received_ns / FRAME_NS + 1;
                let last = (received_ns + stretch.to_ns - stretch.from_ns) / FRAME_NS;
                for frame in first..=last {
                    let at_ns = stretch.from_ns + frame * FRAME_NS - received_ns;
                    points.push((at_ns as f64 * 1e-6, frame as f64));
                }
                received_ns += stretch.to_ns - stretch.from_ns;
            }
            points.push((length.as_ms_f64(), (received_ns / FRAME_NS) as f64));
            Series { name: client.name.clone(), points, style: Style::Steps }
        };
        let chart = Chart {
            title: format!("Frames encoded: {sched}"),
            x_label: "time, ms".into(),
            y_label: "frames".into(),
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            series: clients.iter().enumerate().map(series).collect(),
            ..Chart::default()
        };
        Drawing {
            name: format!("frames-{sched}"),
            caption: format!(
                "Five audio encoders, {:.1} ms of CPU time per frame (our choice). Steps are bursts: a long flat stretch is a time \
                 without service.",
                FRAME_NS as f64 * 1e-6
            ),
            svg: chart.svg(),
        }
    };
    measured().into_iter().map(draw).collect()
}

/// Three virtual machines with shares 1, 2, 3, each of which runs a timing loop: how evenly does it go on?
fn machines_table() -> Table {
    let columns = vec![
        Column::new("sched", "", "scheduler"),
        Column::new("share", "", "share of the virtual machine (our choice)"),
        Column::new("nr_loops", "", "loops of 1 ms of CPU time done in 30 s"),
        Column::new("loops_per_share", "", "the same per share: equal if fair"),
        Column::new("longest_loop_ns", "ns", "longest time from one loop's end to the next's"),
    ];
    let mut table =
        Table::new("vtrr-machines", "Three virtual machines that run a timing loop (30 s)", columns);
    let length = Span::from_s(30);
    for sched in ["wfq", "vtrr", "wrr"] {
        let shares = 1..=3;
        let clients: Vec<Client> =
            shares.clone().map(|share| Client::new(format!("vm {share}"), Setting::Share(share))).collect();
        let stretches = run(sched, &clients, length);
        for (index, share) in shares.enumerate() {
            let (received_ns, wait_ns) = received_and_wait(&stretches, index, length);
            let loops = received_ns / 1_000_000;
            table.push(vec![
                sched.into(),
                share.into(),
                loops.into(),
                (loops as f64 / share as f64).into(),
                (wait_ns + 1_000_000).into(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests;
