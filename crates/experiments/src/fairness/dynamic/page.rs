//! Tables and drawings of dynamic cases.

use super::plan::{Action, Happening};
use super::{DynamicResult, SHOWN, Script, UNITS_PER_QUANTUM};
use crate::fairness::given::{PANEL, error_panel, names};
use schedlab_report::chart::{Bar, Drawing, Gantt, Series, Style, Svg, Unit, grid};
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};

/// The result of a dynamic case.
#[derive(Clone, Debug)]
pub struct Dynamic {
    /// What it was.
    pub title: String,
    /// What was written down, if it was.
    pub script: Option<Script>,
    /// A result per scheduler.
    pub results: Vec<DynamicResult>,
}

const DEFINITION: &str = "The error's definition here: a client is due share / (sum of the shares of all clients that \
     are runnable now) of each unit of time while it is runnable, and nothing while it sleeps; a share counts from \
     the instant of its change. The error is service received less service due, in quanta (tu): since the start (kept \
     over sleeps, so that who left ahead comes back ahead) or since the client last joined (from zero at each wakeup).";

impl Dynamic {
    /// A row per scheduler.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::new("sched", "", "scheduler"),
            Column::new("since_start_low_tu", "tu", "lowest error since the start (kept over sleeps)"),
            Column::new("since_start_high_tu", "tu", "highest error since the start (kept over sleeps)"),
            Column::new("since_join_low_tu", "tu", "lowest error since the client last joined"),
            Column::new("since_join_high_tu", "tu", "highest error since the client last joined"),
            Column::new("nr_joins", "", "joins of all clients"),
            Column::new("nr_changes", "", "share changes of all clients"),
        ];
        let mut table = Table::new("fairness-dynamic", self.title.clone(), columns);
        for result in &self.results {
            table.push(vec![
                result.sched.clone().into(),
                result.since_start_tu.0.into(),
                result.since_start_tu.1.into(),
                result.since_join_tu.0.into(),
                result.since_join_tu.1.into(),
                result.nr_joins.into(),
                result.nr_changes.into(),
            ]);
        }
        table
    }

    /// Until when pictures show, in quanta.
    fn until(&self) -> f64 {
        let longest = self.script.as_ref().map_or(SHOWN, |script| script.quanta);
        longest.min(SHOWN) as f64
    }

    fn drawings(&self) -> Vec<Drawing> {
        let until = self.until();
        let nr_clients = self.results.first().map_or(0, |result| result.curves.len());
        let names = names(nr_clients);
        let panels = self.results.iter().map(|result| {
            let series = result.curves.iter().zip(&names).map(|(curve, name)| {
                let points = curve.iter().copied().filter(|(time, _)| *time <= until);
                Series::new(name.clone(), points.collect(), Style::Thin)
            });
            error_panel(&result.sched, series.collect())
        });
        let mut drawings = vec![Drawing {
            name: "dynamic-error-by-time".into(),
            caption: format!(
                "A line per client, level while it sleeps; the first {until} quanta. Each panel has its own scale.{}",
                self.script.as_ref().map_or(String::new(), |script| format!(" {}", happenings(script)))
            ),
            svg: grid(
                "Error since the start against time",
                if nr_clients <= 26 { &names } else { &[] },
                &panels.collect::<Vec<_>>(),
                2,
            ),
        }];
        let row = |result: &DynamicResult| {
            let gantt = Gantt {
                title: &result.sched,
                x_label: "time, tu",
                x_unit: Unit::Number,
                until,
                clients: &names,
                width: PANEL.0,
            };
            let stretches = result.stretches.iter().filter(|(_, from, _)| *from < until);
            let bars: Vec<Bar> =
                stretches.map(|&(client, from, to)| Bar { client, from, to: to.min(until) }).collect();
            gantt.svg(&bars)
        };
        let panels: Vec<Svg> = self.results.iter().map(row).collect();
        drawings.push(Drawing {
            name: "dynamic-sequences".into(),
            caption: String::new(),
            svg: grid("Who ran when", &[], &panels, 2),
        });
        drawings
    }

    /// Tables and drawings together.
    pub fn pages(&self) -> Pages {
        let mut remarks = vec![DEFINITION.to_string()];
        remarks.extend(self.script.as_ref().map(happenings));
        Pages { title: self.title.clone(), remarks, drawings: self.drawings(), tables: vec![self.table()] }
    }

    /// For a terminal.
    pub fn summary(&self) -> String {
        let table = self.table();
        let mut text = format!("{}\n{DEFINITION}\n", table.title);
        if let Some(script) = &self.script {
            text += &format!("{}\n", happenings(script));
        }
        text + &table.to_text()
    }
}

/// `B sleeps at 6, A has share 5 from 9, B wakes at 12.`
fn happenings(script: &Script) -> String {
    let words = script.happenings.iter().map(|Happening { at, action, client }| {
        let name = char::from(b'A' + *client as u8);
        let at = *at as f64 / UNITS_PER_QUANTUM as f64;
        match action {
            Action::Sleep => format!("{name} sleeps or leaves at {at}"),
            Action::Wake => format!("{name} wakes or joins at {at}"),
            Action::Share(share) => format!("{name} has share {share} from {at}"),
        }
    });
    format!("{}.", words.collect::<Vec<_>>().join(", "))
}
