//! Surfaces over two axes, as the paper on VTRR draws its error ranges: the highest and the lowest over (N,
//! S), a panel per scheduler, all panels with the same upward scale.

use super::axis::{self, Axis, Scale, Unit};
use super::svg::{Rule, px};
use super::{Anchor, Ink, Svg};

/// One panel: two surfaces, a height per pair of places along x and y.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Its name.
    pub name: String,
    /// `low[i][j]` belongs to the i-th x and the j-th y: the lower surface.
    pub low: Vec<Vec<f64>>,
    /// The upper surface.
    pub high: Vec<Vec<f64>>,
}

/// What the axes are.
#[derive(Clone, Copy, Debug)]
pub struct Axes<'a> {
    /// Name and places of the axis to the right and to the front.
    pub x: (&'a str, &'a [f64]),
    /// Name and places of the axis to the right and to the back.
    pub y: (&'a str, &'a [f64]),
    /// Name of the axis upwards.
    pub z: &'a str,
}

const WIDTH: f64 = 430.0;
const HEIGHT: f64 = 360.0;
const TOP: f64 = 44.0;
const HIGH: &str = "#c1440e";
const LOW: &str = "#2166ac";

/// From the unit cube to a panel: seen from the front, turned by 35 degrees, from a little above.
fn project(x: f64, y: f64, z: f64) -> (f64, f64) {
    let (x, y) = (x - 0.5, y - 0.5);
    let angle = 35f64.to_radians();
    let (right, depth) = (x * angle.cos() + y * angle.sin(), -x * angle.sin() + y * angle.cos());
    (212.0 + 212.0 * right, 268.0 - 86.0 * depth - 168.0 * z)
}

fn even(index: usize, count: usize) -> f64 {
    if count < 2 { 0.5 } else { index as f64 / (count - 1) as f64 }
}

/// Draws panels side by side. x and y places stand at equal distances (they are usually powers of two).
pub fn surfaces(title: &str, axes: Axes<'_>, panels: &[Panel]) -> Svg {
    let heights = panels.iter().flat_map(|panel| panel.low.iter().chain(&panel.high).flatten().copied());
    let up = Axis::fit(Scale::Linear, heights.chain([0.0]), 1.0, axis::UP);
    let width = WIDTH * panels.len().max(2) as f64; // room for the title
    let mut svg = Svg::new(width, HEIGHT + TOP);
    svg.title(20.0, 20.0, title);
    for (index, (name, colour)) in [("highest", HIGH), ("lowest", LOW)].into_iter().enumerate() {
        let x = 20.0 + 80.0 * index as f64;
        svg.stroke((x, 38.0), (x + 16.0, 38.0), colour, 4.0, "");
        svg.words(x + 21.0, 42.0, Anchor::Start, Ink::Full, name);
    }
    for (index, panel) in panels.iter().enumerate() {
        svg.raw(&format!("<g transform=\"translate({} {})\">\n", px(WIDTH * index as f64), px(TOP)));
        draw_panel(&mut svg, axes, panel, &up);
        svg.raw("</g>\n");
    }
    svg
}

fn draw_panel(svg: &mut Svg, axes: Axes<'_>, panel: &Panel, up: &Axis) {
    svg.title(190.0, 16.0, &panel.name);
    // the two walls behind, with heights marked, and the floor's edges
    for tick in up.ticks() {
        let at = up.at(tick);
        let rule = if tick == 0.0 { Rule::Axis } else { Rule::Grid };
        svg.rule(project(0.0, 0.0, at), project(0.0, 1.0, at), rule);
        svg.rule(project(0.0, 1.0, at), project(1.0, 1.0, at), rule);
        let (x, y) = project(0.0, 0.0, at);
        svg.words(x - 6.0, y + 4.0, Anchor::End, Ink::Soft, &Unit::Number.label(tick));
    }
    let floor = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)];
    for pair in floor.windows(2) {
        let [from, to] = [pair[0], pair[1]].map(|(x, y)| project(x, y, 0.0));
        svg.rule(from, to, Rule::Axis);
    }
    for (index, &place) in axes.x.1.iter().enumerate() {
        let (x, y) = project(even(index, axes.x.1.len()), 0.0, 0.0);
        svg.words(x - 5.0, y + 17.0, Anchor::Middle, Ink::Soft, &Unit::Number.label(place));
    }
    for (index, &place) in axes.y.1.iter().enumerate() {
        let (x, y) = project(1.0, even(index, axes.y.1.len()), 0.0);
        svg.words(x + 7.0, y + 8.0, Anchor::Start, Ink::Soft, &Unit::Number.label(place));
    }
    let (x, y) = project(0.5, 0.0, 0.0);
    svg.words(x - 30.0, y + 38.0, Anchor::Middle, Ink::Full, axes.x.0);
    let (x, y) = project(1.0, 0.5, 0.0);
    svg.words(x + 64.0, y + 34.0, Anchor::Middle, Ink::Full, axes.y.0);
    let (x, y) = project(0.0, 0.0, 1.0);
    svg.words(x - 4.0, y - 14.0, Anchor::Middle, Ink::Full, axes.z);
    draw_surface(svg, &panel.low, up, LOW);
    draw_surface(svg, &panel.high, up, HIGH);
}

/// The cells of one surface from back to front. Those that lean to the light are lighter.
fn draw_surface(svg: &mut Svg, heights: &[Vec<f64>], up: &Axis, colour: &str) {
    let (nr_x, nr_y) = (heights.len(), heights.first().map_or(0, Vec::len));
    let corner = |i: usize, j: usize| project(even(i, nr_x), even(j, nr_y), up.at(heights[i][j]));
    let mut cells: Vec<(usize, usize)> = Vec::new();
    for j in 0..nr_y.saturating_sub(1) {
        cells.extend((0..nr_x.saturating_sub(1)).map(|i| (i, j)));
    }
    // far is a small x and a large y
    let depth = |&(i, j): &(usize, usize)| even(j, nr_y) - even(i, nr_x);
    cells.sort_by(|a, b| depth(b).total_cmp(&depth(a)));
    for (i, j) in cells {
        let corners = [corner(i, j), corner(i + 1, j), corner(i + 1, j + 1), corner(i, j + 1)];
        let slope = up.at(heights[i + 1][j]) - up.at(heights[i][j + 1]);
        let opacity = (0.42 + 0.9 * slope).clamp(0.16, 0.78);
        let points = corners.map(|(x, y)| format!("{},{}", px(x), px(y))).join(" ");
        svg.raw(&format!(
            "<polygon points=\"{points}\" fill=\"#fff\" fill-opacity=\"0.75\"/><polygon points=\"{points}\" \
             fill=\"{colour}\" fill-opacity=\"{opacity:.2}\" stroke=\"{colour}\" stroke-width=\"0.8\" \
             stroke-linejoin=\"round\"/>\n"
        ));
    }
}
