//! The study's drawings and its page.

use super::Study;
use super::study::PointResult;
use schedlab_report::chart::{Axes, Chart, Drawing, Panel, Scale, Series, Style, surfaces};
use schedlab_report::pages::{OutputError, Pages};
use std::path::{Path, PathBuf};

/// Number of clients, mean lowest and mean highest error.
type Range = (f64, (f64, f64));

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

    /// Mean lowest and highest errors of some schedulers as surfaces over (N, S), a panel each, on one scale;
    /// `None` if the points are no grid of at least 2 x 2.
    pub fn surface_drawing(&self, name: &str, scheds: &[&str], caption: &str) -> Option<Drawing> {
        let (clients, totals) = self.axes();
        if clients.len() < 2 || totals.len() < 2 {
            return None;
        }
        let panel = |sched: &&str| {
            let heights = |pick: &dyn Fn((f64, f64)) -> f64| -> Option<Vec<Vec<f64>>> {
                let height = |&n: &u32, &total: &u64| {
                    self.result(sched, n, total).map(|result| pick(result.mean_tu(result.from_start)))
                };
                clients.iter().map(|n| totals.iter().map(|total| height(n, total)).collect()).collect()
            };
            let (low, high) = (heights(&|range| range.0)?, heights(&|range| range.1)?);
            Some(Panel { name: sched.to_string(), low, high })
        };
        let panels: Vec<Panel> = scheds.iter().map(panel).collect::<Option<_>>()?;
        let x: Vec<f64> = clients.iter().map(|&n| f64::from(n)).collect();
        let y: Vec<f64> = totals.iter().map(|&total| total as f64).collect();
        let title = format!("Service time error, means over combinations: {}", scheds.join(", "));
        let axes = Axes { x: ("number of clients", &x), y: ("sum of shares", &y), z: "error, tu" };
        let svg = surfaces(&title, axes, &panels);
        Some(Drawing { name: name.into(), caption: caption.into(), svg })
    }

    /// Mean lowest and highest errors against N at the largest sum of shares, all schedulers.
    pub fn curve_drawing(&self) -> Drawing {
        let (clients, totals) = self.axes();
        let total = totals.last().copied().unwrap_or(0);
        // schedulers with the same curve share a name
        let mut curves: Vec<(String, Vec<Range>)> = Vec::new();
        for sched in self.schedulers() {
            let range = |n: &u32| {
                let result = self.result(sched, *n, total)?;
                Some((f64::from(*n), result.mean_tu(result.from_start)))
            };
            let ranges: Vec<_> = clients.iter().filter_map(range).collect();
            match curves.iter_mut().find(|(_, known)| *known == ranges) {
                Some((names, _)) => names.push_str(&format!(", {sched}")),
                None => curves.push((sched.to_string(), ranges)),
            }
        }
        let mut series = Vec::new();
        for (names, ranges) in curves {
            let curve = |name: String, pick: &dyn Fn((f64, f64)) -> f64| {
                let points = ranges.iter().map(|&(n, range)| (n, pick(range)));
                Series::new(name, points.collect(), Style::Line)
            };
            series.push(curve(names, &|range| range.1));
            series.push(curve(String::new(), &|range| range.0));
        }
        let chart = Chart {
            title: format!("Highest and lowest service time error, S = {total}"),
            x_label: "number of clients".into(),
            y_label: "error, tu (means over combinations)".into(),
            x_scale: Scale::Log,
            y_scale: Scale::SymLog,
            series,
            x_marks: clients.iter().map(|&n| f64::from(n)).collect(),
            size: (860.0, 460.0),
            ..Chart::default()
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
                &["vtrr", "wrr"],
                "As the paper's figure of VTRR and WRR on one scale: beside WRR's error, VTRR's is flat.",
            ),
            (
                "surface-vtrr-wfq",
                &["vtrr", "wfq"],
                "As the paper's figure of VTRR and WFQ: VTRR's error grows with the sum of shares, WFQ's hardly.",
            ),
            (
                "surface-fair-queueing",
                &["wfq", "sfq", "wf2q"],
                "SFQ is WFQ's mirror; WF2Q stays within one quantum on both sides.",
            ),
        ];
        for (name, pair, caption) in &pairs {
            if has(pair) {
                drawings.extend(self.surface_drawing(name, pair, caption));
            }
        }
        let drawn = |sched: &&str| pairs.iter().any(|(_, pair, _)| pair.contains(sched) && has(pair));
        let mut others: Vec<&str> = scheds.iter().filter(|sched| !drawn(sched)).copied().collect();
        // drr serves as wrr, stride as wfq, eevdf-1995 as wf2q
        let twins: Vec<(&str, &str)> = others
            .iter()
            .filter_map(|sched| Some((*sched, self.twin(sched).filter(|twin| drawn(twin))?)))
            .collect();
        others.retain(|sched| !twins.iter().any(|(twin, _)| twin == sched));
        let alike = twins.iter().map(|(sched, twin)| format!(" {sched} has the errors of {twin}."));
        let caption = format!("Each row of panels has its own scale.{}", alike.collect::<String>());
        for (index, row) in self.rows_of_alike(&others).iter().enumerate() {
            let name = format!("surface-others-{}", index + 1);
            drawings.extend(self.surface_drawing(&name, row, &caption));
        }
        Pages {
            title: "Fairness of proportional share schedulers".into(),
            remarks: self.remarks(),
            drawings,
            tables: vec![self.domain_table(), self.points_table()],
        }
    }

    /// A scheduler before this one that has the same errors at every point.
    fn twin<'a>(&'a self, sched: &str) -> Option<&'a str> {
        let ranges = |name: &str| {
            self.of(name).map(|r| (r.point, r.denominator, r.from_start, r.intervals)).collect::<Vec<_>>()
        };
        let own = ranges(sched);
        self.schedulers().into_iter().take_while(|other| *other != sched).find(|other| ranges(other) == own)
    }

    /// Rows of up to three schedulers whose errors are of one size, so that one scale fits them.
    fn rows_of_alike<'a>(&self, scheds: &[&'a str]) -> Vec<Vec<&'a str>> {
        let size = |sched: &str| {
            let ranges = self.of(sched).map(|result| result.mean_tu(result.from_start));
            ranges.map(|(low, high)| high.max(-low)).fold(0.0, f64::max)
        };
        let mut by_size: Vec<(&str, f64)> = scheds.iter().map(|sched| (*sched, size(sched))).collect();
        by_size.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut rows: Vec<(f64, Vec<&str>)> = Vec::new();
        for (sched, size) in by_size {
            match rows.last_mut() {
                Some((least, row)) if row.len() < 3 && size <= 4.0 * *least => row.push(sched),
                _ => rows.push((size, vec![sched])),
            }
        }
        rows.into_iter().map(|(_, row)| row).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![
            super::ERROR_IS.to_string(),
            "One combination is one cycle (as many quanta as there are shares) of one random set of shares. Means are \
             those of the paper: over the combinations of a point (number of clients, sum of shares), of their \
             highest and of their lowest error; the worst single combination stands beside them."
                .to_string(),
        ];
        if self.results.iter().any(|result| result.denominator == super::MACHINE_DENOMINATOR) {
            remarks.push(
                "Schedulers that are not among the paper's ran in the full machine, with their own ticks and slices, \
                 and on fewer combinations (nr_combinations); their errors are against the shares that they could \
                 express (off_percent)."
                    .to_string(),
            );
        }
        remarks
    }

    /// Writes tables (CSV, JSON), drawings (SVG) and a page (HTML) into a folder; returns the paths, the page first.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, OutputError> {
        self.pages().write(folder)
    }

    /// For a terminal: the schedulers over the whole domain.
    pub fn summary(&self) -> String {
        let mut table = self.domain_table();
        let totals = self.axes().1.len();
        let total_column = 1;
        if totals > 1 {
            table.rows.retain(|row| row[total_column] == "all");
        }
        let (clients, totals) = self.axes();
        let ends = |low: String, high: String| if low == high { low } else { format!("{low} to {high}") };
        let of = |list: &[u64]| match (list.first(), list.last()) {
            (Some(low), Some(high)) => ends(low.to_string(), high.to_string()),
            _ => String::new(),
        };
        let clients: Vec<u64> = clients.into_iter().map(u64::from).collect();
        let mut text = format!(
            "{}: {} clients, {} shares in all\n{}",
            table.title,
            of(&clients),
            of(&totals),
            table.to_text()
        );
        let inexact: u32 = self
            .results
            .iter()
            .filter(|r| super::find(&r.sched).is_some_and(|c| c.repeats))
            .map(|r| r.inexact)
            .sum();
        text += &match inexact {
            0 => "Every cycle gave each client exactly its share (lottery and machine arms are not meant \
                to).\n"
                .to_string(),
            n => format!(
                "{n} cycles did NOT give each client exactly its share: see nr_inexact in fairness-points.\n"
            ),
        };
        text
    }
}
