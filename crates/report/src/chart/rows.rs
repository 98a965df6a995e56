//! A row per thing: its samples as dots, with an interval around their mean, or with a box of their quartiles.
//!
//! ```text
//! wakeup latency   . [==|==] .          +60 %   +38 % .. +82 %
//! run delay         .--[ | ]----.
//!                 ----+------+----
//!                   x 1/2   same
//! ```

use super::axis::{self, Axis, Scale, Unit};
use super::svg::Rule;
use super::{Anchor, Ink, Svg, text_width};
use schedlab_stdx::percentile::interpolated;

/// What stands in a row beside its samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// An interval and what it is around.
    Interval {
        /// Lower end.
        low: f64,
        /// Usually a mean.
        middle: f64,
        /// Upper end.
        high: f64,
    },
    /// Quartiles of the samples as a box, the median in it, and a line from the least to the greatest.
    Box,
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Any colour that SVG knows.
    pub colour: String,
    /// One dot each.
    pub samples: Vec<f64>,
    /// What is drawn over them.
    pub mark: Mark,
    /// Texts to the right of the row, in columns.
    pub notes: Vec<String>,
}

/// A drawing of rows over a common axis.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Heading; empty = none.
    pub title: String,
    /// What the axis is, with its unit; empty = the numbers say it.
    pub label: String,
    /// Spread along the axis.
    pub scale: Scale,
    /// Words of the numbers; [`Unit::Ratio`] stands around 1.
    pub unit: Unit,
    /// From top to bottom.
    pub rows: Vec<Row>,
}

const PLOT: f64 = 420.0;
const ROW: f64 = 24.0;
/// Ratios beyond this factor stand at the edge.
const REACH_MAX: f64 = 2000.0;

impl Rows {
    /// As SVG.
    pub fn svg(&self) -> Svg {
        let longest =
            |texts: &mut dyn Iterator<Item = &String>| texts.map(|t| text_width(t)).fold(0.0, f64::max);
        let left = 26.0 + longest(&mut self.rows.iter().map(|row| &row.name)).max(90.0);
        let nr_notes = self.rows.iter().map(|row| row.notes.len()).max().unwrap_or(0);
        let widths: Vec<f64> = (0..nr_notes)
            .map(|column| 18.0 + longest(&mut self.rows.iter().filter_map(|row| row.notes.get(column))))
            .collect();
        let top = if self.title.is_empty() { 10.0 } else { 36.0 };
        let bottom = top + ROW * self.rows.len() as f64;
        let below = if self.label.is_empty() { 30.0 } else { 50.0 };
        let right = (widths.iter().sum::<f64>() + 8.0).max(24.0);
        let mut svg = Svg::new(left + PLOT + right, bottom + below);
        if !self.title.is_empty() {
            svg.title(12.0, 20.0, &self.title);
        }
        let (axis, ticks) = self.axis();
        for tick in ticks {
            let x = left + axis.at(tick);
            let is_middle = self.unit == Unit::Ratio && tick == 1.0;
            let rule = if is_middle { Rule::Axis } else { Rule::Grid };
            svg.rule((x, top), (x, bottom + 4.0), rule);
            svg.words(x, bottom + 18.0, Anchor::Middle, Ink::Soft, &self.unit.label(tick));
        }
        svg.words(left + PLOT / 2.0, bottom + 38.0, Anchor::Middle, Ink::Full, &self.label);
        for (number, row) in self.rows.iter().enumerate() {
            let y = top + ROW * (number as f64 + 0.5);
            svg.words(left - 12.0, y + 4.0, Anchor::End, Ink::Full, &row.name);
            for sample in &row.samples {
                svg.dot((left + axis.at(*sample), y), 2.2, &row.colour, 0.35);
            }
            row.mark(&mut svg, |value| left + axis.at(value), y);
            let mut x = left + PLOT + 18.0;
            for (note, width) in row.notes.iter().zip(&widths) {
                svg.words(x, y + 4.0, Anchor::Start, Ink::Full, note);
                x += width;
            }
        }
        svg
    }

    fn axis(&self) -> (Axis, Vec<f64>) {
        let values = self.rows.iter().flat_map(Row::values).filter(|value| value.is_finite());
        if self.unit != Unit::Ratio {
            let axis = Axis::fit(self.scale, values, PLOT, axis::RIGHT);
            return (axis, axis.ticks());
        }
        let least = 1.05_f64.ln();
        let reach = values.map(|ratio| ratio.max(1e-12).ln().abs()).fold(least, f64::max);
        let reach = (reach.min(REACH_MAX.ln()) * 1.08).exp();
        let steps: &[f64] = match reach {
            _ if reach < 1.13 => &[1.02, 1.05, 1.1],
            _ if reach < 1.65 => &[1.1, 1.2, 1.5],
            _ if reach < 4.5 => &[1.5, 2.0, 4.0],
            _ if reach < 33.0 => &[2.0, 5.0, 10.0, 20.0],
            _ => &[10.0, 100.0, 1000.0],
        };
        let inside = steps.iter().filter(|step| **step < reach);
        let ticks = inside.flat_map(|step| [1.0 / step, *step]).chain([1.0]).collect();
        (Axis::around_one(reach, PLOT), ticks)
    }
}

impl Row {
    fn values(&self) -> Vec<f64> {
        let mut values = self.samples.clone();
        if let Mark::Interval { low, middle, high } = self.mark {
            values.extend([low, middle, high]);
        }
        values
    }

    fn mark(&self, svg: &mut Svg, x: impl Fn(f64) -> f64, y: f64) {
        let bar = |svg: &mut Svg, value: f64| {
            svg.fill((x(value) - 1.5, y - 7.0), (3.0, 14.0), &self.colour, 1.0, "")
        };
        match self.mark {
            Mark::Interval { low, middle, high } => {
                let width = (x(high) - x(low)).max(1.0);
                svg.fill((x(low), y - 3.0), (width, 6.0), &self.colour, 0.55, "");
                bar(svg, middle);
            }
            Mark::Box => {
                let mut sorted = self.samples.clone();
                sorted.sort_by(f64::total_cmp);
                let Some([least, quarter, median, three, most]) = quartiles(&sorted) else { return };
                svg.stroke((x(least), y), (x(most), y), &self.colour, 1.2, "");
                let width = (x(three) - x(quarter)).max(1.0);
                svg.fill((x(quarter), y - 6.0), (width, 12.0), &self.colour, 0.4, "");
                bar(svg, median);
            }
        }
    }
}

/// Least, lower quartile, median, upper quartile, greatest of sorted samples.
fn quartiles(sorted: &[f64]) -> Option<[f64; 5]> {
    let [least, quarter, median, three, most] =
        [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| interpolated(sorted, share));
    Some([least?, quarter?, median?, three?, most?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(samples: &[f64], mark: Mark) -> Row {
        Row { name: "a".into(), colour: "#000".into(), samples: samples.to_vec(), mark, notes: Vec::new() }
    }

    #[test]
    fn quartiles_are_those_of_r() {
        assert_eq!(quartiles(&[]), None);
        assert_eq!(quartiles(&[3.0]), Some([3.0; 5]));
        // quantile(c(1, 2, 3, 4)): 1.00 1.75 2.50 3.25 4.00
        assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0]), Some([1.0, 1.75, 2.5, 3.25, 4.0]));
    }

    /// 116 pixels of names, 420 of plot: the box lies from 1.75 to 3.25 of an axis from 1 to 4.
    #[test]
    fn a_box_lies_between_the_quartiles() {
        let rows = Rows { rows: vec![row(&[4.0, 1.0, 3.0, 2.0], Mark::Box)], ..Rows::default() };
        let svg = rows.svg().text();
        assert!(svg.contains("<line x1=\"116.0\" y1=\"22.0\" x2=\"536.0\""), "{svg}");
        assert!(svg.contains("<rect x=\"221.0\" y=\"16.0\" width=\"210.0\" height=\"12.0\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4);
    }

    #[test]
    fn ratios_stand_around_the_middle() {
        let mark = Mark::Interval { low: 1.8, middle: 2.0, high: 2.2 };
        let rows = Rows { unit: Unit::Ratio, rows: vec![row(&[], mark)], ..Rows::default() };
        let svg = rows.svg().text();
        assert!(svg.contains(">same</text>") && svg.contains(">x 2</text>") && svg.contains(">x 1/2</text>"));
        let middle = 116.0 + 420.0 / 2.0;
        assert!(svg.contains(&format!("<line x1=\"{middle:.1}\"")), "{svg}");
    }
}
