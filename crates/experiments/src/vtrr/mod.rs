//! Every table and figure of the paper on VTRR, beside the published value.
//!
//! Nieh, Vaill, Zhong, "Virtual-Time Round-Robin: An O(1) Proportional Share Scheduler", USENIX ATC 2001. The
//! digits of the published figures could not be checked against the printed paper: they are marked
//! *unverified* wherever they stand. Where the paper's set-up is unknown (points of the domain, frame
//! lengths, shares of the encoders and the virtual machines), ours is stated.
//!
//! | paper | here |
//! |---|---|
//! | worked example, sections 2 and 3 | `vtrr-example`: order and error range, also for hundredfold shares |
//! | figures 1 to 4: error ranges over N and S | `fairness-*`, surfaces |
//! | figure 5: cost of selecting a client | `cost`, if measured; ratios in `vtrr-published` |
//! | five clients at coarse grain, text | `vtrr-coarse` |
//! | figures 6 to 8: who ran when | `sequences-100ms`, `sequences` |
//! | figures 9 to 11: MPEG encoder | `frames`, `vtrr-frames` |
//! | virtual machines, text | `machines`, `vtrr-machines` |
//!
//! Real Linux of today, where it is given, stands beside the paper's schedulers in all but the study.

mod cases;
mod judge;

use crate::cost::Cost;
use crate::fairness::{Config, ConfigError, Study, study};
use schedlab_lab::Subject;
use schedlab_policies::proportional::quantum;
use schedlab_report::pages::{OutputError, Pages};
use schedlab_report::table::{Column, Table};
use schedlab_units::Span;
use std::path::{Path, PathBuf};

/// What to reproduce, and how thoroughly.
#[derive(Clone, Debug)]
pub struct ReproduceConfig {
    /// The study of error ranges.
    pub study: Config,
    /// Measured costs, if there are any.
    pub cost: Option<Cost>,
    /// Real Linux, to stand beside the paper's schedulers.
    pub linux: Vec<Subject>,
}

impl Default for ReproduceConfig {
    fn default() -> ReproduceConfig {
        ReproduceConfig { study: Config::vtrr_paper(), cost: None, linux: Vec::new() }
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
    let published = judge::table(&study, config.cost.as_ref());
    let example = example_table();
    let study_pages = study.pages();
    let mut pages = Pages {
        title: "VTRR: every table and figure beside the published value".into(),
        remarks: vec![
            "Nieh, Vaill, Zhong: Virtual-Time Round-Robin: An O(1) Proportional Share Scheduler. USENIX Annual \
                Technical Conference, 2001."
                .into(),
            "Published values marked 'unverified' are from memory and could not be checked against the printed paper; \
             those marked 'from the text' stand in its text."
                .into(),
            "tu: one quantum of 10 ms. Where the paper's set-up is unknown (the domain's points, CPU time per frame, \
             shares of encoders and virtual machines), ours is stated."
                .into(),
        ],
        drawings: study_pages.drawings,
        tables: vec![published.clone(), example],
    };
    if let Some(cost) = &config.cost {
        let cost = cost.pages();
        pages.drawings.extend(cost.drawings);
        pages.tables.extend(cost.tables);
        pages.remarks.extend(cost.remarks);
    }
    let micro = cases::micro(&config.linux)?;
    pages.drawings.push(cases::sequences("sequences-100ms", Span::from_ms(100), &micro));
    pages.drawings.push(cases::sequences("sequences", Span::from_ms(300), &micro));
    pages.drawings.push(cases::frames(&micro));
    pages.tables.push(cases::coarse(&micro));
    pages.tables.push(cases::frames_table(&micro));
    let (drawing, table) = cases::machines(&config.linux)?;
    pages.drawings.push(drawing);
    pages.tables.push(table);
    pages.tables.extend(study_pages.tables);
    Ok(Reproduction { study, published, pages })
}

impl Reproduction {
    /// Tables and drawings together.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Writes all tables (CSV, JSON), drawings (SVG) and a page (HTML) into a folder; returns the paths, the
    /// page first.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, OutputError> {
        self.pages.write(folder)
    }

    /// For a terminal: every table but those by point and by number of clients.
    pub fn summary(&self) -> String {
        let long = ["fairness-points", "fairness-domain", "cost"];
        let mut text = String::new();
        for table in self.pages.tables.iter().filter(|table| !long.contains(&table.name.as_str())) {
            text += &format!("{}\n{}\n", table.title, table.to_text());
        }
        text + &self.study.summary()
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

#[cfg(test)]
mod tests;
