//! One task's life as a drawing: its share of time with work, and a mark for what happens.

use super::show::who;
use schedlab_report::units::{count, time};
use schedlab_stdx::escape::html as escape;
use schedlab_workload::stream::Head;
use schedlab_workload::tools::Life;
use std::fmt::Write as _;
use std::path::Path;

const LEFT: u32 = 20;
const TOP: u32 = 48;
const WIDTH: u32 = 960;
const HEIGHT: u32 = 90;

/// Writes the drawing: aside first, then renamed.
pub(super) fn write(path: &Path, head: &Head, life: &Life) -> crate::failure::Result<()> {
    crate::output::text(path, &drawing(head, life))
}

fn drawing(head: &Head, life: &Life) -> String {
    let (width, height) = (WIDTH + 2 * LEFT, TOP + HEIGHT + 56);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' \
         font-family='system-ui, sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='#fff'/>\n"
    );
    let cpu: u64 = life.columns.iter().map(|column| column.cpu.as_ns()).sum();
    let length_ns = life.to.saturating_sub(life.from).as_ns();
    let _ = writeln!(
        svg,
        "<text x='{LEFT}' y='20' font-size='15' font-weight='600'>{}</text>\n\
         <text x='{LEFT}' y='38' fill='#666'>{} events, {} of CPU time in {} of own time (as if it never waited for a CPU)</text>",
        escape(&who(&head.workload, life.row)),
        count(life.nr_events),
        time(cpu),
        time(length_ns)
    );
    let bottom = TOP + HEIGHT;
    let _ = writeln!(svg, "<rect x='{LEFT}' y='{TOP}' width='{WIDTH}' height='{HEIGHT}' fill='#f3f4f6'/>");
    // one path for all work: a step per column
    let step = f64::from(WIDTH) / life.columns.len() as f64;
    let per_column_ns = length_ns.max(1) as f64 / life.columns.len() as f64;
    let mut area = format!("M{LEFT} {bottom}");
    for (i, column) in life.columns.iter().enumerate() {
        let share = (column.cpu.as_ns() as f64 / per_column_ns).min(1.0);
        let x = f64::from(LEFT) + step * i as f64;
        let _ = write!(
            area,
            "L{x:.1} {y:.1}L{:.1} {y:.1}",
            x + step,
            y = f64::from(bottom) - share * f64::from(HEIGHT)
        );
    }
    let _ = writeln!(svg, "<path d='{area}L{} {bottom}Z' fill='#2563eb'/>", LEFT + WIDTH);
    for (i, column) in life.columns.iter().enumerate() {
        let x = f64::from(LEFT) + step * (i as f64 + 0.5);
        let mut mark = |there: bool, color: &str, row: u32| {
            if there {
                let y = bottom + 3 + 5 * row;
                let _ = writeln!(
                    svg,
                    "<rect x='{:.1}' y='{y}' width='{:.1}' height='4' fill='{color}'/>",
                    x - step / 2.0,
                    step.max(1.5)
                );
            }
        };
        mark(column.woken > 0, "#16a34a", 0);
        mark(column.forks > 0 || column.prios > 0 || column.yields > 0, "#d97706", 1);
        mark(column.exit, "#dc2626", 2);
    }
    let _ = writeln!(
        svg,
        "<text x='{LEFT}' y='{y}' fill='#444'>{}</text>\
         <text x='{x}' y='{y}' fill='#444' text-anchor='end'>{}</text>\n\
         <text x='{m}' y='{y}' fill='#666' text-anchor='middle'><tspan fill='#16a34a'>■</tspan> woken by a task \
         <tspan fill='#d97706'>■</tspan> forks, changes parameters, yields <tspan fill='#dc2626'>■</tspan> ends</text>\n</svg>",
        time(life.from.as_ns()),
        time(life.to.as_ns()),
        y = bottom + 40,
        x = LEFT + WIDTH,
        m = LEFT + WIDTH / 2
    );
    svg
}
