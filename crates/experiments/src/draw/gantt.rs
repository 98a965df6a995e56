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

/// Draws clients by name over `x_label`, from 0 to `until`.
pub fn gantt(title: &str, x_label: &str, until: f64, clients: &[String], bars: &[Bar]) -> String {
    // many clients have thin rows without names
    let (left, top, width) = (130.0, 34.0, 600.0);
    let row = if clients.len() <= 24 { 24.0 } else { (560.0 / clients.len() as f64).max(2.0) };
    let gap = if row >= 12.0 { 3.0 } else { row * 0.1 };
    let height = top + row * clients.len() as f64 + 46.0;
    let axis = Axis::fit(Scale::Linear, [0.0, until].into_iter(), width);
    let mut svg = open_svg(left + width + 24.0, height);
    text(&mut svg, 12.0, 20.0, "start", "font-weight=\"600\" font-size=\"14\"", title);
    let bottom = top + row * clients.len() as f64;
    for tick in axis.ticks() {
        let x = left + axis.at(tick);
        line(&mut svg, (x, top), (x, bottom + 4.0), "stroke=\"#e4e4e4\"");
        text(&mut svg, x, bottom + 18.0, "middle", "fill=\"#444\"", &label(tick));
    }
    for (index, name) in clients.iter().enumerate() {
        let y = top + row * index as f64;
        if row >= 12.0 {
            text(&mut svg, left - 8.0, y + row * 0.68, "end", "", name);
            line(&mut svg, (left, y + row), (left + width, y + row), "stroke=\"#eee\"");
        }
    }
    for bar in bars {
        let (x, y) = (left + axis.at(bar.from), top + row * bar.client as f64 + gap);
        svg += &format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
            px(x),
            px(y),
            px((axis.at(bar.to) - axis.at(bar.from) - 0.4).max(0.3)),
            px((row - 2.0 * gap).max(0.8)),
            colour(bar.client)
        );
    }
    text(&mut svg, left + width / 2.0, height - 10.0, "middle", "", x_label);
    svg + "</svg>\n"
}
