//! How does a measurement look? Drawings as SVG text: curves, bars, intervals and boxes in rows, who ran
//! when, surfaces.
//!
//! ```
//! use schedlab_report::chart::{Chart, Scale, Series, Style, Unit};
//! let waits = Series::new("run delay", vec![(1e3, 1.0), (1e5, 0.1), (1e7, 0.001)], Style::Steps);
//! let chart = Chart {
//!     title: "Waits".into(),
//!     x_label: "longer than".into(),
//!     x_scale: Scale::Log,
//!     x_unit: Unit::TimeNs,
//!     series: vec![waits],
//!     ..Chart::default()
//! };
//! assert!(chart.svg().text().contains(">10 ms</text>"));
//! ```
//!
//! Own code and no library: five kinds of picture, no font files, the same bytes everywhere. Colours stand in
//! the elements, so that a drawing is whole as a file of its own. Classes stand beside them, so that a page
//! with a dark ground can change them.

mod axis;
mod bars;
mod curves;
mod gantt;
mod rows;
mod surface;
mod svg;

pub use axis::{Scale, Unit};
pub use bars::Bars;
pub use curves::{Chart, Series, Style};
pub use gantt::{Bar, Gantt, Shade};
pub use rows::{Mark, Row, Rows};
pub use surface::{Axes, Panel, surfaces};
pub use svg::Svg;

use svg::{Anchor, Ink, text_width};

/// Colours that differ for colour-blind readers too (Okabe, Ito 2008).
pub const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#b8a800"];

/// Of what is better.
pub const GOOD: &str = "#15803d";
/// Of what is worse.
pub const BAD: &str = "#c2410c";
/// Of what differs, neither for the better nor for the worse.
pub const CHANGED: &str = "#2563eb";

/// The colour of series number `index`.
pub fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Whether the palette's colours have all been used once before this series.
fn second_round(index: usize) -> bool {
    index / COLOURS.len() % 2 == 1
}

/// Dashes of the palette's second round, to tell it from the first.
const SECOND_ROUND: &str = " stroke-dasharray=\"3 2\"";

/// A drawing with its name and what it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// Name of its file, without ending.
    pub name: String,
    /// What to see in it.
    pub caption: String,
    /// The picture.
    pub svg: Svg,
}

/// Drawings beside and below each other, `columns` in a row. `names` are those of the series, common to all;
/// they stand beside the title, or in lines of their own where there are many.
pub fn grid(title: &str, names: &[String], drawings: &[Svg], columns: usize) -> Svg {
    const LINE: f64 = 18.0;
    // for the last number of an axis, which is centred on its end
    const RIGHT: f64 = 12.0;
    let columns = columns.max(1);
    let cell_width = drawings.iter().map(|drawing| drawing.width).fold(0.0, f64::max);
    let width = cell_width * columns as f64 + RIGHT;
    let keys = keys(names, title, width);
    let head = 34.0 + keys.iter().map(|key| key.1).fold(20.0, f64::max) - 20.0;
    let rows: Vec<&[Svg]> = drawings.chunks(columns).collect();
    let row_height = |row: &[Svg]| row.iter().map(|drawing| drawing.height).fold(0.0, f64::max);
    let height = head + rows.iter().map(|row| row_height(row)).sum::<f64>();
    let mut svg = Svg::new(width, height);
    svg.title(12.0, 20.0, title);
    for (index, (x, y)) in keys.into_iter().enumerate() {
        let dash = if second_round(index) { SECOND_ROUND } else { "" };
        svg.stroke((x, y - 4.0), (x + 16.0, y - 4.0), colour(index), 3.0, dash);
        svg.words(x + 20.0, y, Anchor::Start, Ink::Full, &names[index]);
    }
    let mut y = head;
    for row in rows {
        for (column, drawing) in row.iter().enumerate() {
            svg.inset(cell_width * column as f64, y, drawing);
        }
        y += row_height(row);
    }
    return svg;

    /// Where the key of each name begins: to the right of the title if all have room there.
    fn keys(names: &[String], title: &str, width: f64) -> Vec<(f64, f64)> {
        let length = |name: &String| 30.0 + text_width(name);
        let all: f64 = names.iter().map(length).sum();
        let beside_title = 24.0 + 8.0 * title.chars().count() as f64;
        let (mut x, mut y) = (width - 16.0 - all, 20.0);
        if x < beside_title {
            (x, y) = (12.0, 20.0 + LINE);
        }
        let place = |name| {
            if x > 12.0 && x + length(name) > width {
                (x, y) = (12.0, y + LINE);
            }
            let here = (x, y);
            x += length(name);
            here
        };
        names.iter().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 names fit beside the title, 26 are broken into lines below it, and push the panels down.
    #[test]
    fn names_of_a_grid_stand_beside_its_title_or_in_lines_below_it() {
        let names: Vec<String> = (0..26).map(|i| format!("client {i}")).collect();
        let panels = [Svg::new(300.0, 100.0), Svg::new(300.0, 120.0), Svg::new(300.0, 80.0)];
        let few = grid("Panels", &names[..3], &panels, 2);
        assert_eq!((few.width, few.height), (612.0, 34.0 + 120.0 + 80.0));
        let many = grid("Panels", &names, &panels, 2);
        assert!(many.height > few.height + 3.0 * 18.0, "{} {}", many.height, few.height);
        assert_eq!(many.text().matches("<svg").count(), 4);
    }
}
