//! One task's life as a drawing: its share of time with work, and a mark for what happens.

use super::show::who;
use schedlab_report::chart::{Chart, Series, Style, Svg, Unit};
use schedlab_report::units::{count, time};
use schedlab_workload::stream::Head;
use schedlab_workload::tools::{Column, Life};
use std::path::Path;

/// What is marked above the work: a name, how high, and whether it happens in a stretch of time.
/// Name, height, and which columns have it.
type Mark = (&'static str, f64, fn(&Column) -> bool);

const MARKS: [Mark; 3] = [
    ("woken by a task", 1.08, |column| column.woken > 0),
    ("forks, changes, yields", 1.16, |column| column.forks > 0 || column.prios > 0 || column.yields > 0),
    ("ends", 1.24, |column| column.exit),
];

/// Writes the drawing: aside first, then renamed.
pub(super) fn write(path: &Path, head: &Head, life: &Life) -> crate::failure::Result<()> {
    crate::output::text(path, &drawing(head, life).text())
}

fn drawing(head: &Head, life: &Life) -> Svg {
    let cpu: u64 = life.columns.iter().map(|column| column.cpu.as_ns()).sum();
    let (from_ns, length_ns) = (life.from.as_ns() as f64, life.to.saturating_sub(life.from).as_ns());
    let column_ns = length_ns.max(1) as f64 / life.columns.len().max(1) as f64;
    let at = |place: f64| from_ns + column_ns * place;
    let mut work = vec![(from_ns, 0.0)];
    for (place, column) in life.columns.iter().enumerate() {
        let share = (column.cpu.as_ns() as f64 / column_ns).min(1.0);
        work.extend([(at(place as f64), share), (at(place as f64 + 1.0), share)]);
    }
    let mut series = vec![Series::new("work", work, Style::Area)];
    for (name, height, happens) in MARKS {
        let there = life.columns.iter().enumerate().filter(|(_, column)| happens(column));
        let points = there.map(|(place, _)| (at(place as f64 + 0.5), height));
        series.push(Series::new(name, points.collect(), Style::Points));
    }
    let chart = Chart {
        title: format!(
            "{}: {} events, {} of CPU time in {} of own time",
            who(&head.workload, life.row),
            count(life.nr_events),
            time(cpu),
            time(length_ns)
        ),
        x_label: "own time (as if it never waited for a CPU)".into(),
        y_label: "time with work".into(),
        x_unit: Unit::TimeNs,
        y_unit: Unit::Part,
        series,
        y_marks: vec![0.0, 0.5, 1.0],
        y_holds: vec![MARKS[2].1],
        size: (1000.0, 260.0),
        ..Chart::default()
    };
    chart.svg()
}
