//! How does a page of results look? One self-contained HTML file: headings, notes, drawings, tables; opens
//! offline, light and dark.
//!
//! ```
//! use schedlab_report::page::Page;
//! let mut page = Page::new("Waits < 1 ms");
//! page.note("All times are simulated.");
//! assert!(page.html().contains("<h1>Waits &lt; 1 ms</h1>"));
//! ```

use crate::chart::{Drawing, Svg};
use crate::table::{Grid, Table, Tone};
use schedlab_stdx::escape::html as escape;

/// A page under construction; all text is escaped.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

/// What is said of something, in pieces.
fn pieces(words: &[(&str, Tone)]) -> String {
    words.iter().map(|(text, tone)| tone.html(text)).collect()
}

impl Page {
    /// With this heading.
    pub fn new(title: impl Into<String>) -> Page {
        let title = title.into();
        let body = format!("<h1>{}</h1>\n", escape(&title));
        Page { title, body }
    }

    /// The file.
    pub fn html(&self) -> String {
        let (title, style) = (escape(&self.title), include_str!("../assets/report.css"));
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light \
             dark\"><title>{title}</title>\n<style>\n{style}</style></head>\n\
             <body><main class=\"page\">\n{}</main></body></html>\n",
            self.body
        )
    }

    fn push(&mut self, html: &str) {
        self.body.push_str(html);
        self.body.push('\n');
    }

    /// A section begins; `anchor` is what links lead to, empty = nothing.
    pub fn section(&mut self, text: &str, anchor: &str) {
        let id = if anchor.is_empty() { String::new() } else { format!(" id=\"{}\"", escape(anchor)) };
        self.push(&format!("<h2{id}>{}</h2>", escape(text)));
    }

    /// A part of a section begins.
    pub fn part(&mut self, text: &str) {
        self.push(&format!("<h3>{}</h3>", escape(text)));
    }

    /// A paragraph.
    pub fn note(&mut self, text: &str) {
        self.words(&[(text, Tone::Plain)]);
    }

    /// A paragraph of several tones.
    pub fn words(&mut self, words: &[(&str, Tone)]) {
        self.push(&format!("<p>{}</p>", pieces(words)));
    }

    /// A paragraph that must not be overlooked.
    pub fn warning(&mut self, text: &str) {
        self.push(&format!("<p class=\"warn\">{}</p>", escape(text)));
    }

    /// A line with the colour that something has in the drawings.
    pub fn key(&mut self, colour: &str, words: &[(&str, Tone)]) {
        let words = pieces(words);
        self.push(&format!(
            "<div><span class=\"swatch\" style=\"background:{}\"></span> {words}</div>",
            escape(colour)
        ));
    }

    /// A command to copy.
    pub fn command(&mut self, text: &str) {
        self.push(&format!("<pre>{}</pre>", escape(text)));
    }

    /// A drawing with what is to be seen in it.
    pub fn drawing(&mut self, drawing: &Drawing) {
        let caption = match drawing.caption.as_str() {
            "" => String::new(),
            text => format!("<figcaption>{}</figcaption>", escape(text)),
        };
        let (name, svg) = (escape(&drawing.name), drawing.svg.text());
        self.push(&format!("<figure id=\"{name}\">\n{svg}{caption}</figure>"));
    }

    /// A drawing without a name.
    pub fn svg(&mut self, svg: &Svg) {
        self.push(&svg.text());
    }

    /// Data under its heading.
    pub fn table(&mut self, table: &Table) {
        self.section(&table.title, &table.name);
        self.grid(&table.grid());
    }

    /// Rows.
    pub fn grid(&mut self, grid: &Grid) {
        self.push(&grid.html());
    }

    /// A part with a ground of its own.
    pub fn panel(&mut self, content: impl FnOnce(&mut Page)) {
        self.within("<div class=\"panel\">", content, "</div>");
    }

    /// Parts beside each other where there is room.
    pub fn beside(&mut self, content: impl FnOnce(&mut Page)) {
        self.within("<div class=\"beside\">", content, "</div>");
    }

    /// A part that can be folded away.
    pub fn fold(&mut self, summary: &str, is_open: bool, content: impl FnOnce(&mut Page)) {
        let open = if is_open { " open" } else { "" };
        let begin = format!("<details{open}><summary>{}</summary>", escape(summary));
        self.within(&begin, content, "</details>");
    }

    fn within(&mut self, begin: &str, content: impl FnOnce(&mut Page), end: &str) {
        self.push(begin);
        content(self);
        self.push(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_text_is_escaped() {
        let bad = "<i>\"&";
        let mut page = Page::new(bad);
        page.section(bad, bad);
        page.part(bad);
        page.note(bad);
        page.warning(bad);
        page.key(bad, &[(bad, Tone::Bold)]);
        page.command(bad);
        page.fold(bad, true, |page| page.panel(|page| page.words(&[(bad, Tone::Soft), (bad, Tone::Plain)])));
        page.drawing(&Drawing { name: bad.into(), caption: bad.into(), svg: Svg::new(1.0, 1.0) });
        let html = page.html();
        assert!(!html.contains("<i>") && !html.contains(bad));
        assert_eq!(html.matches("&lt;i&gt;&quot;&amp;").count(), 15);
    }
}
