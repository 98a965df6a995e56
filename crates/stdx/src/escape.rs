//! How is foreign text shown on a terminal or a page without being obeyed? Names come from traces, and a task
//! may call itself anything.
//!
//! ```text
//! a task called  ESC ]0;owned BEL   would set the window's title;   shown as  \u001b]0;owned\u0007
//! a file called  U+202E cod.exe     reads "exe.doc" on a terminal;  shown as  \u202ecod.exe
//! ```
//!
//! Escapes are `\u` and four hexadecimal digits, as in JSON. So JSON that passes through here keeps its meaning.
//!
//! | characters | shown by [`visible`] |
//! |---|---|
//! | line feed, tab | as they are |
//! | other control characters (U+0000 to U+001F, U+007F to U+009F) | escaped: ESC begins a terminal's commands, CR overwrites a line |
//! | marks of direction: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069 | escaped: they reorder what stands around them |
//! | separators of lines and paragraphs: U+2028, U+2029 | escaped |
//! | everything else | as it is |
//!
//! ```
//! use schedlab_stdx::escape::{html, visible};
//! assert_eq!(visible("\u{1b}[31mred"), "\\u001b[31mred");
//! assert_eq!(html("a < \u{202e}b"), "a &lt; \\u202eb");
//! ```

use std::borrow::Cow;
use std::fmt::Write;
use std::io;

/// Whether a character must not reach a terminal or a page as it is.
fn is_unsafe(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    }
}

/// The text with everything that a terminal would obey shown as an escape.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// What sets and ends our colours: end, bold, faint, red to white. Nothing that hides text or moves the cursor.
const COLOURS: [&str; 10] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[34m",
    "\u{1b}[35m",
    "\u{1b}[36m",
    "\u{1b}[37m",
];

/// As [`visible`], for text in which we have set colours ourselves: those stay.
pub fn painted(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len() + 16), text);
    while let Some(at) = rest.find('\u{1b}') {
        let (before, command) = rest.split_at(at);
        out.push_str(&visible(before));
        let ours = COLOURS.iter().find(|colour| command.starts_with(**colour));
        let length = ours.map_or(1, |colour| colour.len());
        out.push_str(&ours.map_or_else(|| visible("\u{1b}"), |colour| Cow::Borrowed(*colour)));
        rest = &command[length..];
    }
    out.push_str(&visible(rest));
    Cow::Owned(out)
}

/// A writer that passes text on as [`visible`] shows it. In JSON an escape stands only within strings, so a reader
/// gets the same value.
///
/// Bytes that are not UTF-8 are passed on as they are.
///
/// ```
/// use schedlab_stdx::escape::Shown;
/// use std::io::Write;
/// let mut out = Shown::new(Vec::new());
/// out.write_all("{\"name\":\"\u{202e}hog\"}".as_bytes())?;
/// assert_eq!(out.into_inner()?, b"{\"name\":\"\\u202ehog\"}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Shown<W> {
    inner: W,
    /// The beginning of a character whose other bytes are still to come: at most three bytes.
    begun: Vec<u8>,
}

impl<W: io::Write> Shown<W> {
    /// A writer in front of `inner`.
    pub fn new(inner: W) -> Self {
        Self { inner, begun: Vec::new() }
    }

    /// The writer behind, which has everything then.
    ///
    /// # Errors
    /// Those of `inner`.
    pub fn into_inner(mut self) -> io::Result<W> {
        self.inner.write_all(&self.begun)?;
        Ok(self.inner)
    }
}

impl<W: io::Write> io::Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.begun.is_empty() && bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
            self.inner.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (text, odd) = match std::str::from_utf8(rest) {
                Ok(text) => (text, 0),
                Err(error) => {
                    let (whole, behind) = rest.split_at(error.valid_up_to());
                    let text = std::str::from_utf8(whole).expect("valid up to here");
                    (text, error.error_len().unwrap_or(behind.len()))
                }
            };
            self.inner.write_all(visible(text).as_bytes())?;
            rest = &rest[text.len()..];
            // a character's beginning at the end waits for the rest of it; other odd bytes do not
            if odd > 0
                && odd == rest.len()
                && odd < 4
                && std::str::from_utf8(rest).is_err_and(|e| e.error_len().is_none())
            {
                self.begun.extend_from_slice(rest);
                break;
            }
            self.inner.write_all(&rest[..odd])?;
            rest = &rest[odd..];
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Text for HTML and SVG, within elements and within attributes in quotes.
pub fn html(text: &str) -> String {
    visible(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_text_is_not_copied() {
        let text = "cc1  ▁▂▃ naïve 編譯\t1\n";
        assert!(matches!(visible(text), Cow::Borrowed(_)));
        assert!(matches!(painted(text), Cow::Borrowed(_)));
        assert_eq!(html(text), text);
    }

    #[test]
    fn our_colours_stay_and_no_others() {
        let (ours, other) =
            ("\u{1b}[1mbold\u{1b}[0m \u{1b}[36mcyan\u{1b}[0m", "\u{1b}[8mhidden\u{1b}[2J\u{9b}31m\u{1b}");
        assert_eq!(painted(ours), ours);
        assert_eq!(painted(other), "\\u001b[8mhidden\\u001b[2J\\u009b31m\\u001b");
        assert_eq!(visible("\u{1b}[1mx\r"), "\\u001b[1mx\\u000d");
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(html("<a href=\"x\">&\u{7f}"), "&lt;a href=&quot;x&quot;&gt;&amp;\\u007f");
    }

    #[test]
    fn bytes_that_are_no_text_pass() {
        let mut out = Shown::new(Vec::new());
        let bytes = b"a\xff\x1b\xe2\x80x\xe2\x80\xae\xe2\x80";
        io::Write::write_all(&mut out, bytes).unwrap();
        assert_eq!(out.into_inner().unwrap(), b"a\xff\\u001b\xe2\x80x\\u202e\xe2\x80");
    }

    proptest! {
        #[test]
        fn nothing_unsafe_is_left(text in "[a\\n\\t<\"\u{0}-\u{1f}\u{7f}-\u{9f}\u{61c}\u{200b}-\u{2070}\u{feff}]*") {
            prop_assert!(!visible(&text).chars().any(is_unsafe));
            prop_assert!(!html(&text).chars().any(|c| is_unsafe(c) || "<>\"".contains(c)));
            // a writer shows the same, however the bytes are cut
            let mut out = Shown::new(Vec::new());
            for piece in text.as_bytes().chunks(1 + text.len() % 5) {
                io::Write::write_all(&mut out, piece).unwrap();
            }
            prop_assert_eq!(String::from_utf8(out.into_inner().unwrap()).unwrap(), visible(&text));
            // JSON keeps its meaning: a reader undoes the escapes
            let pieces: Vec<char> = visible(&text).split("\\u").enumerate().flat_map(|(n, piece)| {
                let code = (n > 0).then(|| char::from_u32(u32::from_str_radix(&piece[..4], 16).unwrap()).unwrap());
                code.into_iter().chain(piece[if n > 0 { 4 } else { 0 }..].chars()).collect::<Vec<_>>()
            }).collect();
            prop_assert_eq!(pieces, text.chars().collect::<Vec<_>>());
        }
    }
}
