//! Curves over a common x axis, with their names at the side.

use super::axis::{Axis, Scale, label};
use super::{colour, line, open_svg, px, second_round, text};
use schedlab_stdx::escape::html as escape;

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
    /// Values to mark along x; empty = round numbers.
    pub x_marks: Vec<f64>,
    /// The y axis holds at least these values: for panels that are to be compared.
    pub y_holds: Vec<f64>,
    /// Width and height of the drawing; 0 = 760 x 400.
    pub size: (f64, f64),
    /// Without names at the side: the first panel of several has them.
    pub no_names: bool,
    /// Room for the names at the side; 0 = 150.
    pub names_width: f64,
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

const LEFT: f64 = 70.0;
const TOP: f64 = 36.0;
const NAMES: f64 = 150.0;
const BELOW: f64 = 64.0;

impl Chart {
    /// As SVG.
    pub fn svg(&self) -> String {
        let (width, height) = if self.size.0 > 0.0 { self.size } else { (760.0, 400.0) };
        let plot_height = height - TOP - BELOW;
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let y_values = points().map(|p| p.1).chain(self.y_holds.iter().copied());
        let y_axis = Axis::fit(self.y_scale, y_values, plot_height);
        let curves = self.curves(&y_axis);
        let longest = curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or(0);
        let asked = if self.names_width > 0.0 { self.names_width } else { NAMES };
        let names_width = asked.max(46.0 + 7.2 * longest as f64);
        let plot_width = width - LEFT - if self.no_names { 16.0 } else { names_width };
        let x_axis = Axis::fit(self.x_scale, points().map(|p| p.0), plot_width);
        let place = |(x, y): (f64, f64)| (LEFT + x_axis.at(x), TOP + plot_height - y_axis.at(y));
        let mut svg = open_svg(width, height);
        text(&mut svg, LEFT, 20.0, "start", "font-weight=\"600\" font-size=\"14\"", &self.title);
        for tick in y_axis.ticks() {
            let y = TOP + plot_height - y_axis.at(tick);
            let style = if tick == 0.0 { "stroke=\"#888\"" } else { "stroke=\"#e4e4e4\"" };
            line(&mut svg, (LEFT, y), (LEFT + plot_width, y), style);
            text(&mut svg, LEFT - 6.0, y + 4.0, "end", "fill=\"#444\"", &label(tick));
        }
        let marks = if self.x_marks.is_empty() { x_axis.ticks() } else { self.x_marks.clone() };
        for tick in marks {
            let x = LEFT + x_axis.at(tick);
            line(&mut svg, (x, TOP + plot_height), (x, TOP + plot_height + 4.0), "stroke=\"#888\"");
            text(&mut svg, x, TOP + plot_height + 18.0, "middle", "fill=\"#444\"", &label(tick));
        }
        line(&mut svg, (LEFT, TOP + plot_height), (LEFT + plot_width, TOP + plot_height), "stroke=\"#888\"");
        text(&mut svg, LEFT + plot_width / 2.0, height - 24.0, "middle", "", &self.x_label);
        let y_middle = TOP + plot_height / 2.0;
        let turned = format!("transform=\"rotate(-90 16 {})\"", px(y_middle));
        text(&mut svg, 16.0, y_middle, "middle", &turned, &self.y_label);
        for curve in &curves {
            self.draw(&mut svg, curve.series, curve.colour, &place);
        }
        let names = curves.iter().filter(|curve| !curve.name.is_empty() && !self.no_names);
        for (row, curve) in names.enumerate() {
            let y = TOP + 10.0 + 18.0 * row as f64;
            let x = LEFT + plot_width + 16.0;
            let dash = dash(curve.series, curve.colour);
            let style = format!("stroke=\"{}\" stroke-width=\"3\"{dash}", colour(curve.colour));
            line(&mut svg, (x, y - 4.0), (x + 18.0, y - 4.0), &style);
            svg += &format!("<text x=\"{}\" y=\"{}\">{}</text>\n", px(x + 24.0), px(y), escape(&curve.name));
        }
        svg + "</svg>\n"
    }

    /// The curves to draw: of several that are the same, or less than a pixel apart, one, with the names of all (it would hide the others).
    fn curves(&self, y_axis: &Axis) -> Vec<Curve<'_>> {
        let alike = |a: &Series, b: &Series| {
            let near = |(a, b): (&(f64, f64), &(f64, f64))| {
                a.0 == b.0 && (y_axis.at(a.1) - y_axis.at(b.1)).abs() < 1.0
            };
            a.style == b.style && a.points.len() == b.points.len() && a.points.iter().zip(&b.points).all(near)
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
                    let (name, colour) = (series.name.clone(), named.saturating_sub(1));
                    curves.push(Curve { series, name, colour, place });
                }
            }
        }
        curves
    }

    fn draw(
        &self,
        svg: &mut String,
        series: &Series,
        index: usize,
        place: &impl Fn((f64, f64)) -> (f64, f64),
    ) {
        let colour = colour(index);
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
        let width = if series.style == Style::Thin { 1.2 } else { 1.6 };
        let dash = dash(series, index);
        *svg += &format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>\n"
        );
        if series.style == Style::Line && series.points.len() <= 60 {
            for &point in &series.points {
                let (x, y) = place(point);
                *svg += &format!("<circle cx=\"{}\" cy=\"{}\" r=\"2.4\" fill=\"{colour}\"/>\n", px(x), px(y));
            }
        }
    }
}

/// Dashes of a series; the palette's second round has short ones, to tell it from the first.
fn dash(series: &Series, index: usize) -> &'static str {
    match (series.style, second_round(index)) {
        (Style::Dashed, _) => " stroke-dasharray=\"6 4\"",
        (_, true) => " stroke-dasharray=\"3 2\"",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, y: f64, style: Style) -> Series {
        Series { name: name.into(), points: vec![(0.0, 0.0), (1.0, y)], style }
    }

    /// rm and posix are one curve (0.15 pixels apart): it is drawn once and has both names; gedf keeps the third colour.
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
        let curves = chart.curves(&Axis::fit(Scale::default(), [0.0, 2.0].into_iter(), 300.0));
        let seen: Vec<(&str, usize)> =
            curves.iter().map(|curve| (curve.name.as_str(), curve.colour)).collect();
        assert_eq!(seen, [("rm, posix", 0), ("gedf", 2), ("bound", 3)]);
        let svg = chart.svg();
        assert_eq!(svg.matches("<path").count(), 3);
        assert!(svg.contains(">rm, posix</text>"), "{svg}");
    }
}
