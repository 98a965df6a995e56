//! Curves over a common x axis, with their names at the side.

use super::axis::{Axis, Scale, label};
use super::{colour, escape, line, open_svg, px, text};

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Straight from point to point, points marked.
    Line,
    /// Horizontal, then vertical: a staircase.
    Steps,
    /// Dashed, no marks: something to compare with.
    Dashed,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name; empty = belongs to the one before (same colour, no name).
    pub name: String,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: Style,
}

/// A drawing of curves.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Heading.
    pub title: String,
    /// What x is, with its unit.
    pub x_label: String,
    /// What y is, with its unit.
    pub y_label: String,
    /// Spread along x.
    pub x_scale: Scale,
    /// Spread along y.
    pub y_scale: Scale,
    /// The curves.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 36.0;
const PLOT_WIDTH: f64 = 540.0;
const PLOT_HEIGHT: f64 = 300.0;

impl Chart {
    /// As SVG.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let x_axis = Axis::fit(self.x_scale, points().map(|p| p.0), PLOT_WIDTH);
        let y_axis = Axis::fit(self.y_scale, points().map(|p| p.1), PLOT_HEIGHT);
        let place = |(x, y): (f64, f64)| (LEFT + x_axis.at(x), TOP + PLOT_HEIGHT - y_axis.at(y));
        let mut svg = open_svg(WIDTH, HEIGHT);
        text(&mut svg, LEFT, 20.0, "start", "font-weight=\"600\" font-size=\"14\"", &self.title);
        for tick in y_axis.ticks() {
            let y = TOP + PLOT_HEIGHT - y_axis.at(tick);
            let style = if tick == 0.0 { "stroke=\"#888\"" } else { "stroke=\"#e4e4e4\"" };
            line(&mut svg, (LEFT, y), (LEFT + PLOT_WIDTH, y), style);
            text(&mut svg, LEFT - 6.0, y + 4.0, "end", "fill=\"#444\"", &label(tick));
        }
        for tick in x_axis.ticks() {
            let x = LEFT + x_axis.at(tick);
            line(&mut svg, (x, TOP + PLOT_HEIGHT), (x, TOP + PLOT_HEIGHT + 4.0), "stroke=\"#888\"");
            text(&mut svg, x, TOP + PLOT_HEIGHT + 18.0, "middle", "fill=\"#444\"", &label(tick));
        }
        line(&mut svg, (LEFT, TOP + PLOT_HEIGHT), (LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT), "stroke=\"#888\"");
        text(&mut svg, LEFT + PLOT_WIDTH / 2.0, HEIGHT - 12.0, "middle", "", &self.x_label);
        let y_middle = TOP + PLOT_HEIGHT / 2.0;
        let turned = format!("transform=\"rotate(-90 16 {})\"", px(y_middle));
        text(&mut svg, 16.0, y_middle, "middle", &turned, &self.y_label);
        let mut named = 0;
        for series in &self.series {
            named += usize::from(!series.name.is_empty());
            let colour = colour(named.saturating_sub(1));
            let mut path = String::new();
            let mut last_y = None;
            for &point in &series.points {
                let (x, y) = place(point);
                match last_y {
                    None => path += &format!("M{} {}", px(x), px(y)),
                    Some(last_y) if series.style == Style::Steps => {
                        path += &format!("L{} {}L{} {}", px(x), px(last_y), px(x), px(y));
                    }
                    Some(_) => path += &format!("L{} {}", px(x), px(y)),
                }
                last_y = Some(y);
            }
            let dash = if series.style == Style::Dashed { " stroke-dasharray=\"5 4\"" } else { "" };
            svg += &format!(
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash}/>\n"
            );
            if series.style == Style::Line && series.points.len() <= 60 {
                for &point in &series.points {
                    let (x, y) = place(point);
                    svg +=
                        &format!("<circle cx=\"{}\" cy=\"{}\" r=\"2.4\" fill=\"{colour}\"/>\n", px(x), px(y));
                }
            }
        }
        let names = self.series.iter().filter(|series| !series.name.is_empty());
        for (index, series) in names.enumerate() {
            let y = TOP + 10.0 + 18.0 * index as f64;
            let x = LEFT + PLOT_WIDTH + 16.0;
            let dash = if series.style == Style::Dashed { " stroke-dasharray=\"5 4\"" } else { "" };
            let style = format!("stroke=\"{}\" stroke-width=\"3\"{dash}", colour(index));
            line(&mut svg, (x, y - 4.0), (x + 18.0, y - 4.0), &style);
            svg += &format!("<text x=\"{}\" y=\"{}\">{}</text>\n", px(x + 24.0), px(y), escape(&series.name));
        }
        svg + "</svg>\n"
    }
}
