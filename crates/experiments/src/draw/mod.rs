//! Drawings as SVG text: curves, surfaces, and who ran when. Made by hand: three kinds of picture, no library, no font files, the same
//! bytes everywhere.

mod axis;
mod bars;
mod curves;
mod gantt;
mod surface;

pub use axis::Scale;
pub use bars::Bars;
pub use curves::{Chart, Series, Style};
pub use gantt::{Bar, Gantt};
pub use surface::{Axes, Panel, surfaces};

use schedlab_stdx::escape::html as escape;

/// Colours that differ for colour-blind readers too (Okabe, Ito 2008).
pub const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#b8a800"];

/// Whether the palette's colours have all been used once before this series.
pub(crate) fn second_round(index: usize) -> bool {
    index / COLOURS.len() % 2 == 1
}

/// Drawings beside and below each other, `columns` in a row, each of this size. `names` are those of the series, common to all.
pub fn grid(title: &str, names: &[String], drawings: &[String], columns: usize, size: (f64, f64)) -> String {
    const HEAD: f64 = 34.0;
    // for the last number of an axis, which is centred on its end
    const RIGHT: f64 = 12.0;
    let rows = drawings.len().div_ceil(columns.max(1));
    let mut svg = open_svg(size.0 * columns as f64 + RIGHT, HEAD + size.1 * rows as f64);
    text(&mut svg, 12.0, 20.0, "start", "font-weight=\"600\" font-size=\"15\"", title);
    let mut x = size.0 * columns as f64 - 16.0;
    for (index, name) in names.iter().enumerate().rev() {
        x -= 30.0 + 7.0 * name.chars().count() as f64;
        // dashed as in the panels: sixteen clients share eight colours
        let dash = if second_round(index) { " stroke-dasharray=\"3 2\"" } else { "" };
        let style = format!("stroke=\"{}\" stroke-width=\"3\"{dash}", colour(index));
        line(&mut svg, (x, 16.0), (x + 16.0, 16.0), &style);
        text(&mut svg, x + 20.0, 20.0, "start", "", name);
    }
    for (index, drawing) in drawings.iter().enumerate() {
        let (x, y) = (size.0 * (index % columns) as f64, HEAD + size.1 * (index / columns) as f64);
        svg += &drawing.replacen("<svg ", &format!("<svg x=\"{}\" y=\"{}\" ", px(x), px(y)), 1);
    }
    svg + "</svg>\n"
}

/// The colour of series number `index`.
pub fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// A coordinate with a tenth of a pixel: enough to see, and the same text on every machine.
pub(crate) fn px(x: f64) -> String {
    let text = format!("{x:.1}");
    if text == "-0.0" { "0.0".into() } else { text }
}

pub(crate) fn open_svg(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        px(width),
        px(height)
    )
}

/// Text at a place; `anchor` is start, middle or end.
pub(crate) fn text(svg: &mut String, x: f64, y: f64, anchor: &str, extra: &str, content: &str) {
    *svg += &format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" {extra}>{}</text>\n",
        px(x),
        px(y),
        escape(content)
    );
}

pub(crate) fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), style: &str) {
    *svg += &format!(
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {style}/>\n",
        px(from.0),
        px(from.1),
        px(to.0),
        px(to.1)
    );
}
