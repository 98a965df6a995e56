//! The elements of a drawing.

use schedlab_stdx::escape::html as escape;
use std::fmt::Write;

/// A drawing of so many pixels.
#[derive(Clone, Debug, PartialEq)]
pub struct Svg {
    /// In pixels.
    pub width: f64,
    /// In pixels.
    pub height: f64,
    body: String,
}

/// Which end of a text lies at its place.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How strong a text is.
#[derive(Clone, Copy)]
pub(super) enum Ink {
    /// Names and labels.
    Full,
    /// Numbers along axes.
    Soft,
}

/// A line that is not data.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    Axis,
    Grid,
}

/// About how long a text is: names are short, and no font is measured.
pub(super) fn text_width(text: &str) -> f64 {
    7.0 * text.chars().count() as f64
}

/// A coordinate with a tenth of a pixel: enough to see, and the same text on every machine.
pub(super) fn px(x: f64) -> String {
    let text = format!("{x:.1}");
    if text == "-0.0" { "0.0".into() } else { text }
}

impl Svg {
    /// With nothing in it.
    pub fn new(width: f64, height: f64) -> Svg {
        Svg { width, height, body: String::new() }
    }

    /// The whole file.
    pub fn text(&self) -> String {
        let (width, height) = (px(self.width), px(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"system-ui,sans-serif\" font-size=\"12\"><rect \
             class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
            self.body
        )
    }

    /// Another drawing within this one.
    pub(super) fn inset(&mut self, x: f64, y: f64, other: &Svg) {
        let Svg { width, height, body } = other;
        let [x, y, width, height] = [x, y, *width, *height].map(px);
        let _ = write!(
            self.body,
            "<svg x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\">\n{body}</svg>\n"
        );
    }

    pub(super) fn title(&mut self, x: f64, y: f64, content: &str) {
        let _ = writeln!(
            self.body,
            "<text x=\"{}\" y=\"{}\" font-weight=\"600\" font-size=\"14\">{}</text>",
            px(x),
            px(y),
            escape(content)
        );
    }

    pub(super) fn words(&mut self, x: f64, y: f64, anchor: Anchor, ink: Ink, content: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let ink = match ink {
            Ink::Full => "",
            Ink::Soft => " class=\"soft\" fill=\"#444\"",
        };
        let (x, y, content) = (px(x), px(y), escape(content));
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\"{anchor}{ink}>{content}</text>");
    }

    /// What an axis upwards is: read from below.
    pub(super) fn turned(&mut self, x: f64, y: f64, content: &str) {
        let (x, y) = (px(x), px(y));
        let _ = writeln!(
            self.body,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">{}</text>",
            escape(content)
        );
    }

    pub(super) fn rule(&mut self, from: (f64, f64), to: (f64, f64), rule: Rule) {
        let (class, colour) = match rule {
            Rule::Axis => ("axis", "#888"),
            Rule::Grid => ("grid", "#e4e4e4"),
        };
        self.stroke(from, to, colour, 1.0, &format!(" class=\"{class}\""));
    }

    /// A straight line; `extra` are attributes, each after a blank.
    pub(super) fn stroke(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64, extra: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(px);
        let _ = writeln!(
            self.body,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{colour}\" \
                stroke-width=\"{width}\"{extra}/>"
        );
    }

    /// A filled box from its upper left corner; `tip` is shown where a pointer rests on it.
    pub(super) fn fill(&mut self, at: (f64, f64), size: (f64, f64), colour: &str, opacity: f64, tip: &str) {
        let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(px);
        let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() };
        let end =
            if tip.is_empty() { "/>".into() } else { format!("><title>{}</title></rect>", escape(tip)) };
        let _ = writeln!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"{opacity}{end}"
        );
    }

    pub(super) fn dot(&mut self, at: (f64, f64), radius: f64, colour: &str, opacity: f64) {
        let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() };
        let _ = writeln!(
            self.body,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" fill=\"{colour}\"{opacity}/>",
            px(at.0),
            px(at.1)
        );
    }

    /// An outline or an area: `style` are attributes.
    pub(super) fn path(&mut self, points: impl Iterator<Item = (f64, f64)>, is_closed: bool, style: &str) {
        let places: Vec<String> = points.map(|(x, y)| format!("{} {}", px(x), px(y))).collect();
        let end = if is_closed { "Z" } else { "" };
        if !places.is_empty() {
            let _ = writeln!(self.body, "<path d=\"M{}{end}\" {style}/>", places.join("L"));
        }
    }

    /// Elements that no method here makes.
    pub(super) fn raw(&mut self, elements: &str) {
        self.body.push_str(elements);
    }
}
