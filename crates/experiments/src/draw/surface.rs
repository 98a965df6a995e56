//! Surfaces over two axes as wire frames, as the paper on VTRR draws its error ranges: the lowest and the highest over (N, S).

use super::axis::{Axis, Scale, label};
use super::{colour, escape, line, open_svg, px, text};

/// One surface: a height per pair of places along x and y.
#[derive(Clone, Debug)]
pub struct Surface {
    /// Its name; surfaces of one name have one colour.
    pub name: String,
    /// `heights[i][j]` belongs to the i-th x and the j-th y.
    pub heights: Vec<Vec<f64>>,
}

/// What the axes are.
#[derive(Clone, Debug)]
pub struct Axes<'a> {
    /// Name and places of the axis to the right and to the front.
    pub x: (&'a str, &'a [f64]),
    /// Name and places of the axis to the right and to the back.
    pub y: (&'a str, &'a [f64]),
    /// Name of the axis upwards.
    pub z: &'a str,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 470.0;

/// From the unit cube to the page: seen from the front, turned by 35 degrees, from a little above.
fn project(x: f64, y: f64, z: f64) -> (f64, f64) {
    let (x, y) = (x - 0.5, y - 0.5);
    let angle = 35f64.to_radians();
    let (right, depth) = (x * angle.cos() + y * angle.sin(), -x * angle.sin() + y * angle.cos());
    (330.0 + 330.0 * right, 360.0 - 120.0 * depth - 230.0 * z)
}

/// Draws surfaces on common axes. x and y places stand at equal distances (they are usually powers of two).
pub fn surfaces(title: &str, x: (&str, &[f64]), y: (&str, &[f64]), z: &str, surfaces: &[Surface]) -> String {
    let axes = Axes { x, y, z };
    let even = |index: usize, count: usize| if count < 2 { 0.5 } else { index as f64 / (count - 1) as f64 };
    let heights = surfaces.iter().flat_map(|surface| surface.heights.iter().flatten().copied());
    let up = Axis::fit(Scale::Linear, heights.chain([0.0]), 1.0);
    let mut svg = open_svg(WIDTH, HEIGHT);
    text(&mut svg, 20.0, 20.0, "start", "font-weight=\"600\" font-size=\"14\"", title);
    // the two walls behind, with heights marked, and the floor's edges
    let grid = "stroke=\"#e4e4e4\"";
    for tick in up.ticks() {
        let at = up.at(tick);
        let style = if tick == 0.0 { "stroke=\"#aaa\"" } else { grid };
        line(&mut svg, project(0.0, 0.0, at), project(0.0, 1.0, at), style);
        line(&mut svg, project(0.0, 1.0, at), project(1.0, 1.0, at), style);
        let (px_, py_) = project(0.0, 0.0, at);
        text(&mut svg, px_ - 8.0, py_ + 4.0, "end", "fill=\"#444\"", &label(tick));
    }
    let floor = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)];
    for pair in floor.windows(2) {
        line(
            &mut svg,
            project(pair[0].0, pair[0].1, 0.0),
            project(pair[1].0, pair[1].1, 0.0),
            "stroke=\"#bbb\"",
        );
    }
    for (index, &place) in axes.x.1.iter().enumerate() {
        let (at_x, at_y) = project(even(index, axes.x.1.len()), 0.0, 0.0);
        text(&mut svg, at_x - 8.0, at_y + 24.0, "middle", "fill=\"#444\"", &label(place));
    }
    for (index, &place) in axes.y.1.iter().enumerate() {
        let (at_x, at_y) = project(1.0, even(index, axes.y.1.len()), 0.0);
        text(&mut svg, at_x + 10.0, at_y + 8.0, "start", "fill=\"#444\"", &label(place));
    }
    let (name_x, name_y) = project(0.5, 0.0, 0.0);
    text(&mut svg, name_x - 30.0, name_y + 48.0, "middle", "", axes.x.0);
    let (name_x, name_y) = project(1.0, 0.5, 0.0);
    text(&mut svg, name_x + 56.0, name_y + 22.0, "start", "", axes.y.0);
    let (top_x, top_y) = project(0.0, 0.0, 1.0);
    text(&mut svg, top_x, top_y - 22.0, "middle", "", axes.z);
    let mut names: Vec<&str> = Vec::new();
    for surface in surfaces {
        if !names.contains(&surface.name.as_str()) {
            names.push(&surface.name);
        }
        let colour = colour(names.iter().position(|name| *name == surface.name).unwrap_or(0));
        draw_wires(&mut svg, surface, &up, colour, even);
    }
    for (index, name) in names.iter().enumerate() {
        let y = 50.0 + 18.0 * index as f64;
        let style = format!("stroke=\"{}\" stroke-width=\"3\"", colour(index));
        line(&mut svg, (640.0, y - 4.0), (658.0, y - 4.0), &style);
        svg += &format!("<text x=\"664\" y=\"{}\">{}</text>\n", px(y), escape(name));
    }
    svg + "</svg>\n"
}

/// The cells of one surface from back to front, filled a little so that what is behind stays behind.
fn draw_wires(
    svg: &mut String,
    surface: &Surface,
    up: &Axis,
    colour: &str,
    even: impl Fn(usize, usize) -> f64,
) {
    let (nr_x, nr_y) = (surface.heights.len(), surface.heights.first().map_or(0, Vec::len));
    let corner = |i: usize, j: usize| {
        let (x, y) = project(even(i, nr_x), even(j, nr_y), up.at(surface.heights[i][j]));
        format!("{},{}", px(x), px(y))
    };
    for j in (0..nr_y.saturating_sub(1)).rev() {
        for i in 0..nr_x.saturating_sub(1) {
            *svg += &format!(
                "<polygon points=\"{} {} {} {}\" fill=\"{colour}\" fill-opacity=\"0.12\" stroke=\"{colour}\" stroke-width=\"1\"/>\n",
                corner(i, j),
                corner(i + 1, j),
                corner(i + 1, j + 1),
                corner(i, j + 1)
            );
        }
    }
}
