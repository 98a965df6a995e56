//! Who ran when: a row per client, a block per stretch of service.

use super::axis::{self, Axis, Scale, Unit};
use super::svg::Rule;
use super::{Anchor, Ink, Svg, colour, text_width};

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

/// A stretch of something else in a client's row, over its bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Shade {
    /// Where.
    pub bar: Bar,
    /// What colour.
    pub colour: &'static str,
    /// How strong: 1 hides the bar below it.
    pub opacity: f64,
    /// What it is, where a pointer rests on it.
    pub tip: String,
}

/// Who ran when, from 0 to `until`.
#[derive(Clone, Debug)]
pub struct Gantt<'a> {
    /// Heading.
    pub title: &'a str,
    /// What x is, with its unit.
    pub x_label: &'a str,
    /// Words of the numbers along x.
    pub x_unit: Unit,
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

    /// As SVG.
    pub fn svg(&self, bars: &[Bar]) -> Svg {
        self.shaded(bars, &[])
    }

    /// As SVG, with stretches of something else over the bars.
    pub fn shaded(&self, bars: &[Bar], shades: &[Shade]) -> Svg {
        let row = self.row();
        let height = TOP + row * self.clients.len() as f64 + BELOW;
        let has_names = row >= 12.0;
        let longest =
            self.clients.iter().filter(|_| has_names).map(|name| text_width(name)).fold(0.0, f64::max);
        let left = (longest + 16.0).max(LEFT);
        let width = self.width - left - 24.0;
        let gap = if has_names { 0.12 * row } else { row * 0.1 };
        let axis = Axis::tight(Scale::Linear, [0.0, self.until].into_iter(), width, axis::RIGHT);
        let mut svg = Svg::new(self.width, height);
        svg.title(12.0, 20.0, self.title);
        let bottom = TOP + row * self.clients.len() as f64;
        for tick in axis.ticks() {
            let x = left + axis.at(tick);
            svg.rule((x, TOP), (x, bottom + 4.0), Rule::Grid);
            svg.words(x, bottom + 18.0, Anchor::Middle, Ink::Soft, &self.x_unit.label(tick));
        }
        for (index, name) in self.clients.iter().enumerate().filter(|_| has_names) {
            let y = TOP + row * index as f64;
            svg.words(left - 8.0, y + row * 0.5 + 4.0, Anchor::End, Ink::Full, name);
            svg.rule((left, y + row), (left + width, y + row), Rule::Grid);
        }
        let mut fill = |bar: &Bar, colour: &str, opacity: f64, tip: &str| {
            let (x, y) = (left + axis.at(bar.from), TOP + row * bar.client as f64 + gap);
            let size = ((axis.at(bar.to) - axis.at(bar.from) - 0.4).max(0.3), (row - 2.0 * gap).max(0.8));
            svg.fill((x, y), size, colour, opacity, tip);
        };
        bars.iter().for_each(|bar| fill(bar, colour(bar.client), 1.0, ""));
        shades.iter().for_each(|shade| fill(&shade.bar, shade.colour, shade.opacity, &shade.tip));
        svg.words(left + width / 2.0, height - 10.0, Anchor::Middle, Ink::Full, self.x_label);
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_push_the_plot_to_the_right() {
        let clients = ["a".to_string(), "b".repeat(40)];
        let picture = |clients: &[String]| {
            let gantt =
                Gantt { title: "t", x_label: "ms", x_unit: Unit::Number, until: 4.0, clients, width: 500.0 };
            gantt.svg(&[Bar { client: 0, from: 0.0, to: 4.0 }]).text()
        };
        assert!(picture(&clients[..1]).contains("<rect x=\"130.0\""));
        assert!(picture(&clients).contains("<rect x=\"296.0\""));
    }
}
