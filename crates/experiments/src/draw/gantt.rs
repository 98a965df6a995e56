//! Who ran when: a row per client, a block per stretch of service.

use super::axis::{Axis, Scale, label};
use super::{colour, line, open_svg, px, text};

/// A stretch of service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Row.
    pub client: usize,
    /// Beginning.
    pub from: f64,
    /// End.
    pub to: f64,
}

/// Who ran when, from 0 to `until`.
#[derive(Clone, Debug)]
pub struct Gantt<'a> {
    /// Heading.
    pub title: &'a str,
    /// What x is, with its unit.
    pub x_label: &'a str,
    /// Where x ends.
    pub until: f64,
    /// Names of the rows; more than 24 have thin rows without names.
    pub clients: &'a [String],
    /// Width of the drawing.
    pub width: f64,
}

const LEFT: f64 = 130.0;
const TOP: f64 = 34.0;
const BELOW: f64 = 46.0;

impl Gantt<'_> {
    fn row(&self) -> f64 {
        match self.clients.len() {
            0..=6 => 24.0,
            7..=24 => 16.0,
            many => (400.0 / many as f64).max(2.0),
        }
    }

    /// Height of the drawing.
    pub fn height(&self) -> f64 {
        TOP + self.row() * self.clients.len() as f64 + BELOW
    }

    /// As SVG.
    pub fn svg(&self, bars: &[Bar]) -> String {
        let (row, width) = (self.row(), self.width - LEFT - 24.0);
        let gap = if row >= 12.0 { 0.12 * row } else { row * 0.1 };
        let axis = Axis::fit(Scale::Linear, [0.0, self.until].into_iter(), width);
        let mut svg = open_svg(self.width, self.height());
        text(&mut svg, 12.0, 20.0, "start", "font-weight=\"600\" font-size=\"14\"", self.title);
        let bottom = TOP + row * self.clients.len() as f64;
        for tick in axis.ticks() {
            let x = LEFT + axis.at(tick);
            line(&mut svg, (x, TOP), (x, bottom + 4.0), "stroke=\"#e4e4e4\"");
            text(&mut svg, x, bottom + 18.0, "middle", "fill=\"#444\"", &label(tick));
        }
        for (index, name) in self.clients.iter().enumerate().filter(|_| row >= 12.0) {
            let y = TOP + row * index as f64;
            text(&mut svg, LEFT - 8.0, y + row * 0.5 + 4.0, "end", "", name);
            line(&mut svg, (LEFT, y + row), (LEFT + width, y + row), "stroke=\"#eee\"");
        }
        for bar in bars {
            let (x, y) = (LEFT + axis.at(bar.from), TOP + row * bar.client as f64 + gap);
            svg += &format!(
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
                px(x),
                px(y),
                px((axis.at(bar.to) - axis.at(bar.from) - 0.4).max(0.3)),
                px((row - 2.0 * gap).max(0.8)),
                colour(bar.client)
            );
        }
        text(&mut svg, LEFT + width / 2.0, self.height() - 10.0, "middle", "", self.x_label);
        svg + "</svg>\n"
    }
}
