//! The study's drawings and its page.

use super::Study;
use super::study::PointResult;
use crate::draw::{Chart, Scale, Series, Style, Surface, surfaces};
use crate::output::{Drawing, OutputError, Pages};
use std::path::{Path, PathBuf};

impl Study {
    /// Clients and sums of shares of the points, each in ascending order.
    fn axes(&self) -> (Vec<u32>, Vec<u64>) {
        let mut clients: Vec<u32> = self.results.iter().map(|result| result.point.nr_clients).collect();
        let mut totals: Vec<u64> = self.results.iter().map(|result| result.point.total).collect();
        clients.sort_unstable();
        clients.dedup();
        totals.sort_unstable();
        totals.dedup();
        (clients, totals)
    }

    fn result(&self, sched: &str, nr_clients: u32, total: u64) -> Option<&PointResult> {
        let here = |result: &&PointResult| {
            result.sched == sched && result.point.nr_clients == nr_clients && result.point.total == total
        };
        self.results.iter().find(here)
    }

    /// Mean lowest and highest errors of some schedulers as surfaces over (N, S); `None` if the points are no grid of at least 2 x 2.
    pub fn surface_drawing(&self, name: &str, scheds: &[&str], caption: &str) -> Option<Drawing> {
        let (clients, totals) = self.axes();
        if clients.len() < 2 || totals.len() < 2 {
            return None;
        }
        let mut shapes = Vec::new();
        for sched in scheds {
            let heights = |pick: &dyn Fn((f64, f64)) -> f64| -> Option<Vec<Vec<f64>>> {
                let height = |&n: &u32, &total: &u64| {
                    self.result(sched, n, total).map(|result| pick(result.mean_tu(result.from_start)))
                };
                clients.iter().map(|n| totals.iter().map(|total| height(n, total)).collect()).collect()
            };
            shapes.push(Surface { name: sched.to_string(), heights: heights(&|range| range.0)? });
            shapes.push(Surface { name: sched.to_string(), heights: heights(&|range| range.1)? });
        }
        let x: Vec<f64> = clients.iter().map(|&n| f64::from(n)).collect();
        let y: Vec<f64> = totals.iter().map(|&total| total as f64).collect();
        let title = format!("Service time error: {}", scheds.join(" and "));
        let svg = surfaces(&title, ("number of clients", &x), ("sum of shares", &y), "error, tu", &shapes);
        Some(Drawing { name: name.into(), caption: caption.into(), svg })
    }

    /// Mean lowest and highest errors against N at the largest sum of shares, all schedulers.
    pub fn curve_drawing(&self) -> Drawing {
        let (clients, totals) = self.axes();
        let total = totals.last().copied().unwrap_or(0);
        let mut series = Vec::new();
        for sched in self.schedulers() {
            let range = |n: &u32| {
                let result = self.result(sched, *n, total)?;
                Some((f64::from(*n), result.mean_tu(result.from_start)))
            };
            let ranges: Vec<_> = clients.iter().filter_map(range).collect();
            let curve = |name: &str, pick: &dyn Fn((f64, f64)) -> f64| Series {
                name: name.to_string(),
                points: ranges.iter().map(|&(n, range)| (n, pick(range))).collect(),
                style: Style::Line,
            };
            series.push(curve(sched, &|range| range.1));
            series.push(curve("", &|range| range.0));
        }
        let chart = Chart {
            title: format!("Highest and lowest service time error, S = {total}"),
            x_label: "number of clients".into(),
            y_label: "error, tu (means over combinations)".into(),
            x_scale: Scale::Log,
            y_scale: Scale::SymLog,
            series,
        };
        let caption = "Linear between -1 and 1, logarithmic beyond. One quantum is 1 tu.";
        Drawing { name: "error-by-clients".into(), caption: caption.into(), svg: chart.svg() }
    }

    /// Tables and drawings together.
    pub fn pages(&self) -> Pages {
        let scheds = self.schedulers();
        let has = |names: &[&str]| names.iter().all(|name| scheds.contains(name));
        let mut drawings = vec![self.curve_drawing()];
        let pairs: [(&str, &[&str], &str); 3] = [
            (
                "surface-vtrr-wrr",
                &["wrr", "vtrr"],
                "As the paper's figure of VTRR and WRR on one scale: beside WRR's error, VTRR's is flat.",
            ),
            (
                "surface-vtrr-wfq",
                &["vtrr", "wfq"],
                "As the paper's figure of VTRR and WFQ: VTRR's error grows with shares per client, WFQ's hardly.",
            ),
            ("surface-wfq-wf2q", &["wfq", "wf2q"], "WF2Q stays within one quantum on both sides."),
        ];
        for (name, pair, caption) in pairs {
            if has(pair) {
                drawings.extend(self.surface_drawing(name, pair, caption));
            }
        }
        if !["wrr", "vtrr", "wfq"].iter().any(|name| scheds.contains(name)) {
            drawings.extend(self.surface_drawing("surface", &scheds, "Mean lowest and highest errors."));
        }
        Pages {
            title: "Fairness of proportional share schedulers".into(),
            remarks: vec![
                "Error of a client at time t: service received less service due, t x share / sum of shares, in time units (tu) of one \
                 quantum; all clients always runnable; extremes over all clients and all quantum edges of one cycle."
                    .into(),
            ],
            drawings,
            tables: vec![self.domain_table(), self.points_table()],
        }
    }

    /// Writes tables (CSV, JSON), drawings (SVG) and a page (HTML) into a folder; returns the paths, the page first.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, OutputError> {
        self.pages().write(folder)
    }

    /// For a terminal.
    pub fn summary(&self) -> String {
        let table = self.domain_table();
        let mut text = format!("{}\n{}", table.title, table.to_text());
        let inexact: u32 = self
            .results
            .iter()
            .filter(|r| super::find(r.sched).is_some_and(|c| c.repeats))
            .map(|r| r.inexact)
            .sum();
        text += &match inexact {
            0 => "Every cycle gave each client exactly its share (lottery excepted).\n".to_string(),
            n => format!(
                "{n} cycles did NOT give each client exactly its share: see nr_inexact in fairness-points.\n"
            ),
        };
        text
    }
}
