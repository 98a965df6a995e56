//! Tables and curves of the study.

use super::{Study, Tally, tests};
use schedlab_report::chart::{Chart, Drawing, Series, Style};
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};

const DEFINITION: &str = "Periodic tasks, deadline = period, released together at 0. A set counts as schedulable if \
     the scheduler took all tasks as they asked and no job ended after its deadline. Tardiness: end less deadline, 0 \
     if in time; response: end less release. Jobs are released for 720 ms, which all periods divide; a job that has \
     not ended by 1440 ms counts as late up to then.";

const HEARD: &str = "rm, gedf and pedf know runtime, deadline and period; posix is SCHED_FIFO, a higher priority for \
     a shorter period, one queue of all CPUs; cbs is SCHED_DEADLINE with reservations 1 us longer than the jobs, and \
     refuses what is beyond 95 % of the CPUs.";

fn pct(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { 100.0 * part / whole }
}

impl Study {
    fn title(&self) -> String {
        let config = &self.config;
        let cpus = if config.nr_cpus == 1 { "1 CPU".to_string() } else { format!("{} CPUs", config.nr_cpus) };
        format!("{cpus}, {} tasks, {} random sets at each point", config.nr_tasks, config.sets)
    }

    /// A row per point and scheduler.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::new("load_pct", "%", "utilisation of all tasks, per cent of the CPUs"),
            Column::new("sched", "", "scheduler"),
            Column::new("schedulable_pct", "%", "sets whose tasks were all taken and had no late job"),
            Column::new("refused_pct", "%", "sets of which a task was refused (admission) or fits on no CPU"),
            Column::new("late_pct", "%", "jobs that ended after their deadline"),
            Column::new("tardiness_mean_ms", "ms", "the latest job of a set, mean over the sets"),
            Column::new("tardiness_max_ms", "ms", "the latest job of all"),
            Column::new(
                "response_mean_pct",
                "%",
                "response as part of the period, mean over all jobs that ended",
            ),
            Column::new("response_max_pct", "%", "response as part of the period, longest of those"),
        ];
        let mut table = Table::new("schedulability", format!("Schedulability: {}", self.title()), columns);
        for point in &self.points {
            for (arm, tally) in self.config.arms.iter().zip(&point.tallies) {
                let sets = f64::from(tally.nr_sets);
                table.push(vec![
                    point.load_pct.into(),
                    arm.label.clone().into(),
                    pct(tally.nr_schedulable.into(), sets).into(),
                    pct(tally.nr_refused.into(), sets).into(),
                    pct(tally.nr_late as f64, tally.nr_jobs as f64).into(),
                    mean_tardiness_ms(tally).into(),
                    crate::agreement::ms(tally.worst_tardiness_ns).into(),
                    pct(tally.response_sum, tally.nr_ended as f64).into(),
                    (100.0 * tally.response_max).into(),
                ]);
            }
        }
        table
    }

    /// A row per claim.
    pub fn claims_table(&self) -> Table {
        let columns = vec![
            Column::new("claim", "", "what is proved"),
            Column::new("source", "", "by whom"),
            Column::new("nr_cases", "", "how often it was tried: sets, or tasks of sets"),
            Column::new("nr_against", "", "how often the schedule was against it"),
        ];
        let mut table = Table::new("claims", "What theory proves, tried on every schedule", columns);
        for claim in self.claims.rows() {
            table.push(vec![
                claim.what.into(),
                claim.source.into(),
                claim.nr_cases.into(),
                claim.nr_against.into(),
            ]);
        }
        table
    }

    /// A row per machine and e, a column per scheduler.
    pub fn dhall_table(&self) -> Table {
        let columns = vec![
            Column::new("nr_cpus", "", "CPUs"),
            Column::new(
                "light_pct",
                "%",
                "e: light tasks run 2e each period, the heavy one's period is 1 + e",
            ),
            Column::new("utilisation", "CPUs", "CPUs that all tasks use together"),
            Column::new("sched", "", "scheduler"),
            Column::new("nr_jobs", "", "jobs"),
            Column::new("nr_late", "", "of them late"),
        ];
        let mut table =
            Table::new("dhall", "Dhall's effect: m light tasks and a heavy one on m CPUs", columns);
        for row in &self.dhall {
            table.push(vec![
                row.nr_cpus.into(),
                (row.light_pm as f64 / 10.0).into(),
                row.utilisation.into(),
                row.sched.clone().into(),
                row.nr_jobs.into(),
                row.nr_late.into(),
            ]);
        }
        table
    }

    fn theory_table(&self) -> Table {
        let columns = vec![
            Column::new("load_pct", "%", "utilisation of all tasks, per cent of the CPUs"),
            Column::new("test", "", "test of theory"),
            Column::new("schedulable_pct", "%", "sets that it calls schedulable"),
        ];
        let mut table = Table::new("theory", "What tests call schedulable without running the sets", columns);
        for point in &self.points {
            for ((name, _), &count) in tests(self.config.nr_cpus).iter().zip(&point.theory) {
                let value = pct(count.into(), self.config.sets.into());
                table.push(vec![point.load_pct.into(), (*name).into(), value.into()]);
            }
        }
        table
    }

    fn chart(&self, title: &str, y_label: &str, value: &dyn Fn(&Tally) -> f64) -> Chart {
        let series = self.config.arms.iter().enumerate().map(|(place, arm)| {
            let points = self.points.iter();
            let points = points.map(|point| (f64::from(point.load_pct), value(&point.tallies[place])));
            Series::new(arm.label.clone(), points.collect(), Style::Line)
        });
        Chart {
            title: format!("{title}: {}", self.title()),
            x_label: "utilisation, per cent of the CPUs".into(),
            y_label: y_label.into(),
            series: series.collect(),
            size: (940.0, 420.0),
            ..Chart::default()
        }
    }

    fn drawings(&self) -> Vec<Drawing> {
        let schedulable = |tally: &Tally| pct(tally.nr_schedulable.into(), tally.nr_sets.into());
        let mut curves = self.chart("Schedulable sets", "sets without a late job, %", &schedulable);
        for (place, (name, _)) in tests(self.config.nr_cpus).iter().enumerate() {
            let point = |point: &super::Point| {
                (f64::from(point.load_pct), pct(point.theory[place].into(), self.config.sets.into()))
            };
            curves.series.push(Series::new(*name, self.points.iter().map(point).collect(), Style::Dashed));
        }
        curves.y_holds = vec![0.0, 100.0];
        let tardiness = self.chart("Tardiness", "latest job of a set, mean, ms", &mean_tardiness_ms);
        let response = |tally: &Tally| pct(tally.response_sum, tally.nr_ended as f64);
        let mut responses = self.chart("Response times", "mean response, % of the period", &response);
        responses.y_holds = vec![0.0];
        vec![
            Drawing {
                name: "schedulability".into(),
                caption: "Solid: what ran without a late job. Dashed: what theory promises without running it; a \
                          sufficient test lies below, an exact one on the curve of its scheduler."
                    .into(),
                svg: curves.svg(),
            },
            Drawing {
                name: "tardiness".into(),
                caption: "How late the latest job of a set is, mean over the sets. Global EDF keeps it bounded up to \
                          full load; fixed priorities let the longest periods wait."
                    .into(),
                svg: tardiness.svg(),
            },
            Drawing {
                name: "responses".into(),
                caption: "From release to end, as part of the period, mean over all jobs that ended.".into(),
                svg: responses.svg(),
            },
        ]
    }

    /// Tables and drawings together.
    pub fn pages(&self) -> Pages {
        Pages {
            title: format!("Real-time schedulers: {}", self.title()),
            remarks: vec![DEFINITION.into(), HEARD.into()],
            drawings: self.drawings(),
            tables: vec![self.claims_table(), self.dhall_table(), self.table(), self.theory_table()],
        }
    }

    /// For a terminal: schedulable sets and tardiness by load and scheduler, the claims, Dhall's effect.
    pub fn summary(&self) -> String {
        let mut text = format!("{}\n{DEFINITION}\n{HEARD}\n\n", self.title());
        let names: Vec<String> = self.config.arms.iter().map(|arm| arm.label.clone()).collect();
        let block = |heading: &str, value: &dyn Fn(&Tally) -> String| {
            let widths: Vec<usize> = names.iter().map(|name| name.len().max(6)).collect();
            let mut text = format!("{heading}\n{:>6}", "load");
            names.iter().zip(&widths).for_each(|(name, width)| text += &format!("  {name:>width$}"));
            text.push('\n');
            for point in &self.points {
                text += &format!("{:>4} %", point.load_pct);
                for (tally, width) in point.tallies.iter().zip(&widths) {
                    text += &format!("  {:>width$}", value(tally));
                }
                text.push('\n');
            }
            text + "\n"
        };
        text += &block("Sets without a late job, %", &|tally| {
            format!("{:.0}", pct(tally.nr_schedulable.into(), tally.nr_sets.into()))
        });
        text +=
            &block("The latest job of a set, mean, ms", &|tally| format!("{:.2}", mean_tardiness_ms(tally)));
        for table in [self.claims_table(), self.dhall_table()] {
            text += &format!("{}\n{}\n", table.title, table.to_text());
        }
        text
    }
}

fn mean_tardiness_ms(tally: &Tally) -> f64 {
    crate::agreement::ms(tally.worst_tardiness_sum_ns) / f64::from(tally.nr_sets.max(1))
}
