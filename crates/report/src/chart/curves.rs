//! Curves, clouds of points and bands over a common x axis, with their names at the side.

use super::axis::{self, Axis, Scale, Unit};
use super::svg::Rule;
use super::{Anchor, Ink, SECOND_ROUND, Svg, colour, second_round, text_width};

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Straight from point to point, points marked.
    Line,
    /// Straight from point to point, no marks: many points.
    Thin,
    /// Horizontal, then vertical: a staircase.
    Steps,
    /// Dashed, no marks: something to compare with.
    Dashed,
    /// A dashed staircase.
    DashedSteps,
    /// A broad, pale staircase: lies under another, and both are seen where they agree.
    BroadSteps,
    /// The area under a staircase.
    Area,
    /// Marks only.
    Points,
}

impl Style {
    fn is_staircase(self) -> bool {
        matches!(self, Style::Steps | Style::DashedSteps | Style::BroadSteps | Style::Area)
    }
    fn is_dashed(self) -> bool {
        matches!(self, Style::Dashed | Style::DashedSteps)
    }
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
    /// An outline that is filled palely, if not empty: the lower edge from left to right, the upper one back.
    pub band: Vec<(f64, f64)>,
}

impl Series {
    /// Without a band.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>, style: Style) -> Series {
        Series { name: name.into(), points, style, band: Vec::new() }
    }
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
    /// Words of the numbers along x.
    pub x_unit: Unit,
    /// Words of the numbers along y.
    pub y_unit: Unit,
    /// The curves.
    pub series: Vec<Series>,
    /// Values to mark along x; empty = round numbers.
    pub x_marks: Vec<f64>,
    /// Values to mark along y; empty = round numbers.
    pub y_marks: Vec<f64>,
    /// The y axis holds at least these values: for panels that are to be compared.
    pub y_holds: Vec<f64>,
    /// Width and height of the drawing; 0 = 860 x 400.
    pub size: (f64, f64),
    /// Without names at the side: the first panel of several has them.
    pub no_names: bool,
}

/// A curve to draw.
struct Curve<'a> {
    series: &'a Series,
    /// Its name, with those of others that are the same.
    name: String,
    /// Its place in the palette: the same whether others are drawn or not.
    colour: usize,
    place: usize,
}

/// Where curves lie: the axes, and the upper left corner.
struct Plot {
    x: Axis,
    y: Axis,
    width: f64,
    height: f64,
}

const LEFT: f64 = 70.0;
const TOP: f64 = 36.0;
const BELOW: f64 = 64.0;
const RIGHT: f64 = 26.0;
/// Names at the side are broken after a comma beyond so many letters.
const NAME_MAX: usize = 26;
const LINE: f64 = 18.0;

impl Chart {
    /// As SVG.
    pub fn svg(&self) -> Svg {
        let (width, height) = if self.size.0 > 0.0 { self.size } else { (860.0, 400.0) };
        let points = || self.series.iter().flat_map(|series| series.points.iter().chain(&series.band));
        let plot_height = height - TOP - BELOW;
        let y_values = points().map(|p| p.1).chain(self.y_holds.iter().copied());
        let y = fitted(self.y_scale, y_values, &self.y_marks, plot_height, axis::UP);
        let curves = self.curves(&y);
        let names: Vec<Vec<String>> = curves.iter().map(|curve| broken(&curve.name)).collect();
        let longest = names.iter().flatten().map(|name| text_width(name)).fold(0.0, f64::max);
        let has_names = !self.no_names && longest > 0.0;
        let plot_width = width - LEFT - if has_names { 52.0 + longest } else { RIGHT };
        let x = fitted(self.x_scale, points().map(|p| p.0), &self.x_marks, plot_width, axis::RIGHT);
        let plot = Plot { x, y, width: plot_width, height: plot_height };
        let mut svg = Svg::new(width, height);
        svg.title(LEFT, 20.0, &self.title);
        self.axes(&mut svg, &plot);
        for curve in &curves {
            band(&mut svg, curve, &plot);
        }
        for curve in &curves {
            draw(&mut svg, curve, &plot);
        }
        let mut row = TOP + 10.0;
        for (curve, name) in
            curves.iter().zip(&names).filter(|(curve, _)| has_names && !curve.name.is_empty())
        {
            let x = LEFT + plot_width + 16.0;
            match curve.series.style {
                Style::Points => svg.dot((x + 9.0, row - 4.0), 3.0, colour(curve.colour), 1.0),
                _ => {
                    let (width, opacity) = stroke_of(curve.series.style);
                    let style = format!("{opacity}{}", dash(curve));
                    svg.stroke((x, row - 4.0), (x + 18.0, row - 4.0), colour(curve.colour), width, &style)
                }
            }
            for line in name {
                svg.words(x + 24.0, row, Anchor::Start, Ink::Full, line);
                row += LINE;
            }
        }
        svg
    }

    fn axes(&self, svg: &mut Svg, plot: &Plot) {
        let (bottom, right) = (TOP + plot.height, LEFT + plot.width);
        if plot.x.is_empty() {
            let middle = (LEFT + plot.width / 2.0, TOP + plot.height / 2.0);
            svg.words(middle.0, middle.1, Anchor::Middle, Ink::Soft, "nothing was measured");
        } else {
            let y_ticks = ticks(&plot.y, &self.y_marks);
            for (tick, label) in y_ticks.iter().zip(self.y_unit.labels(&y_ticks)) {
                let y = bottom - plot.y.at(*tick);
                let rule = if *tick == 0.0 { Rule::Axis } else { Rule::Grid };
                svg.rule((LEFT, y), (right, y), rule);
                svg.words(LEFT - 6.0, y + 4.0, Anchor::End, Ink::Soft, &label);
            }
            let mut end_of_last = f64::MIN;
            let x_ticks = ticks(&plot.x, &self.x_marks);
            for (tick, label) in x_ticks.iter().zip(self.x_unit.labels(&x_ticks)) {
                let x = LEFT + plot.x.at(*tick);
                svg.rule((x, bottom), (x, bottom + 4.0), Rule::Axis);
                let half = text_width(&label) / 2.0;
                if x - half > end_of_last {
                    svg.words(x, bottom + 18.0, Anchor::Middle, Ink::Soft, &label);
                    end_of_last = x + half + 4.0;
                }
            }
        }
        svg.rule((LEFT, bottom), (right, bottom), Rule::Axis);
        svg.words(LEFT + plot.width / 2.0, bottom + 40.0, Anchor::Middle, Ink::Full, &self.x_label);
        svg.turned(16.0, TOP + plot.height / 2.0, &self.y_label);
    }

    /// The curves to draw: of several that are the same, or less than a pixel apart, one, with the names of
    /// all (it would hide the others).
    fn curves(&self, y_axis: &Axis) -> Vec<Curve<'_>> {
        let alike = |a: &Series, b: &Series| {
            let near = |(a, b): (&(f64, f64), &(f64, f64))| {
                a.0 == b.0 && (y_axis.at(a.1) - y_axis.at(b.1)).abs() < 1.0
            };
            let same = |a: &[(f64, f64)], b: &[(f64, f64)]| a.len() == b.len() && a.iter().zip(b).all(near);
            let is_drawn = !a.points.is_empty();
            is_drawn && a.style == b.style && same(&a.points, &b.points) && same(&a.band, &b.band)
        };
        let mut curves: Vec<Curve<'_>> = Vec::new();
        let mut named: usize = 0;
        for (place, series) in self.series.iter().enumerate() {
            named += usize::from(!series.name.is_empty());
            // a curve of several pieces is compared with nothing
            let is_alone = |place: usize| self.series.get(place + 1).is_none_or(|next| !next.name.is_empty());
            let same = curves.iter_mut().find(|curve| {
                !series.name.is_empty()
                    && is_alone(place)
                    && is_alone(curve.place)
                    && alike(curve.series, series)
            });
            match same {
                Some(curve) => curve.name += &format!(", {}", series.name),
                None => {
                    let is_missing = !series.name.is_empty() && series.points.is_empty();
                    let none = if is_missing { " (none)" } else { "" };
                    let (name, colour) = (format!("{}{none}", series.name), named.saturating_sub(1));
                    curves.push(Curve { series, name, colour, place });
                }
            }
        }
        curves
    }
}

impl Plot {
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (LEFT + self.x.at(x), TOP + self.height - self.y.at(y))
    }
}

/// Ends at round numbers, unless others are to be marked.
fn fitted(scale: Scale, values: impl Iterator<Item = f64>, marks: &[f64], length: f64, apart: f64) -> Axis {
    match marks.is_empty() {
        true => Axis::fit(scale, values, length, apart),
        false => Axis::tight(scale, values.chain(marks.iter().copied()), length, apart),
    }
}

fn ticks(axis: &Axis, marks: &[f64]) -> Vec<f64> {
    if marks.is_empty() { axis.ticks() } else { marks.to_vec() }
}

/// A name in lines.
fn broken(name: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in name.split_inclusive(", ") {
        match lines.last_mut() {
            Some(line) if line.chars().count() + part.trim_end().chars().count() <= NAME_MAX => *line += part,
            _ => lines.push(part.to_string()),
        }
    }
    lines.iter().map(|line| line.trim_end().to_string()).collect()
}

fn band(svg: &mut Svg, curve: &Curve<'_>, plot: &Plot) {
    let style = format!("fill=\"{}\" fill-opacity=\"0.18\"", colour(curve.colour));
    svg.path(curve.series.band.iter().map(|&point| plot.place(point)), true, &style);
}

fn draw(svg: &mut Svg, curve: &Curve<'_>, plot: &Plot) {
    let (series, colour) = (curve.series, colour(curve.colour));
    let mut path: Vec<(f64, f64)> = Vec::with_capacity(series.points.len());
    for &point in &series.points {
        let (x, y) = plot.place(point);
        if let Some(&(_, last_y)) = path.last()
            && series.style.is_staircase()
        {
            path.push((x, last_y));
        }
        path.push((x, y));
    }
    let bottom = TOP + plot.height;
    let (width, opacity) = stroke_of(series.style);
    match (series.style, path.first(), path.last()) {
        (Style::Area, Some(&(first, _)), Some(&(last, _))) => {
            let outline = [(first, bottom)].into_iter().chain(path).chain([(last, bottom)]);
            svg.path(outline, true, &format!("fill=\"{colour}\""));
        }
        (Style::Points, ..) => {}
        _ => {
            let style = format!(
                "fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{opacity} stroke-linejoin=\"round\"{}",
                dash(curve)
            );
            svg.path(path.into_iter(), false, &style);
        }
    }
    let is_marked = series.style == Style::Points || series.style == Style::Line && series.points.len() <= 60;
    for &point in series.points.iter().filter(|_| is_marked) {
        svg.dot(plot.place(point), 2.4, colour, 1.0);
    }
}

/// How broad a curve is, in the plot and beside its name, and its opacity.
fn stroke_of(style: Style) -> (f64, &'static str) {
    match style {
        Style::Thin => (1.2, ""),
        Style::BroadSteps => (5.0, " stroke-opacity=\"0.4\""),
        _ => (1.6, ""),
    }
}

/// Dashes of a series.
fn dash(curve: &Curve<'_>) -> &'static str {
    match (curve.series.style.is_dashed(), second_round(curve.colour)) {
        (true, _) => " stroke-dasharray=\"6 4\"",
        (_, true) => SECOND_ROUND,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, y: f64, style: Style) -> Series {
        Series::new(name, vec![(0.0, 0.0), (1.0, y)], style)
    }

    /// rm and posix are one curve (0.15 pixels apart): it is drawn once and has both names; gedf keeps the
    /// third colour.
    #[test]
    fn equal_curves_share_a_line_and_a_name() {
        let chart = Chart {
            series: vec![
                series("rm", 1.0, Style::Line),
                series("posix", 1.001, Style::Line),
                series("gedf", 2.0, Style::Line),
                series("bound", 1.0, Style::Dashed),
            ],
            ..Chart::default()
        };
        let curves = chart.curves(&Axis::fit(Scale::default(), [0.0, 2.0].into_iter(), 300.0, axis::UP));
        let seen: Vec<(&str, usize)> =
            curves.iter().map(|curve| (curve.name.as_str(), curve.colour)).collect();
        assert_eq!(seen, [("rm, posix", 0), ("gedf", 2), ("bound", 3)]);
        let svg = chart.svg().text();
        assert_eq!(svg.matches("<path").count(), 3);
        assert!(svg.contains(">rm, posix</text>"), "{svg}");
        let empty = |name| Series::new(name, Vec::new(), Style::Line);
        let chart = Chart { series: vec![series("rm", 1.0, Style::Line), empty("a"), empty("b")], ..chart };
        let svg = chart.svg().text();
        assert!(svg.contains(">a (none)</text>") && svg.contains(">b (none)</text>"), "{svg}");
    }

    #[test]
    fn a_staircase_goes_along_then_up_and_points_have_no_line() {
        let of = |style| {
            let chart = Chart { series: vec![series("a", 1.0, style)], no_names: true, ..Chart::default() };
            chart.svg().text()
        };
        // 764 wide, 300 high: from the lower left corner along, then up
        assert!(of(Style::Steps).contains("d=\"M70.0 336.0L834.0 336.0L834.0 36.0\""));
        assert!(of(Style::Thin).contains("d=\"M70.0 336.0L834.0 36.0\""));
        let points = of(Style::Points);
        assert!(!points.contains("<path") && points.matches("<circle").count() == 2);
        assert!(of(Style::Area).contains("L834.0 336.0Z\" fill="));
        assert!(Chart::default().svg().text().contains("nothing was measured"));
    }

    #[test]
    fn long_names_are_broken_after_commas() {
        assert_eq!(broken("wfq, stride"), ["wfq, stride"]);
        let lines = broken("linux-5.10, linux-6.1, linux-6.12, linux-7.2");
        assert_eq!(lines, ["linux-5.10, linux-6.1,", "linux-6.12, linux-7.2"]);
    }
}
