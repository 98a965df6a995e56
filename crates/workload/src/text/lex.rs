//! Words of a line, and quoting.
//!
//! A line is words between spaces; `#` at the start of a word begins a comment. In a word, `"..."` holds
//! spaces and anything else: `name="a \"b\" \t \x1b \u{2028}"`. Bare values are letters, digits and
//! `_-./:,+@%()[]*~^!?=<>|&$` and every printable character beyond ASCII; the writer quotes all others.

use std::borrow::Cow;

/// A word and where it starts in its line (byte offset).
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub text: &'a str,
    pub at: usize,
}

/// A lexical mistake: byte range in the line, and what was expected.
pub(super) struct LexError {
    pub at: usize,
    pub len: usize,
    pub expected: &'static str,
}

/// Splits a line into words.
pub(super) fn split<'a>(line: &'a str, words: &mut Vec<Word<'a>>) -> Result<(), LexError> {
    words.clear();
    let bytes = line.as_bytes();
    let mut at = 0;
    loop {
        while at < bytes.len() && bytes[at].is_ascii_whitespace() {
            at += 1;
        }
        if at == bytes.len() || bytes[at] == b'#' {
            return Ok(());
        }
        let start = at;
        // most words have no quotation mark
        let plain = bytes[at..].iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'"');
        at = plain.map_or(bytes.len(), |plain| at + plain);
        let mut quote = None;
        while at < bytes.len() && (quote.is_some() || !bytes[at].is_ascii_whitespace()) {
            match (bytes[at], quote) {
                (b'"', None) => quote = Some(at),
                (b'"', Some(_)) => quote = None,
                (b'\\', Some(_)) => at += 1,
                _ => {}
            }
            at += 1;
        }
        if let Some(quote) = quote {
            let expected = "this quotation mark is never closed; expected a second \" on the same line";
            return Err(LexError { at: quote, len: 1, expected });
        }
        words.push(Word { text: &line[start..at], at: start });
    }
}

/// The value of a word: itself, or the inside of its quotation marks with the escapes resolved.
pub(super) fn unquote(word: Word<'_>) -> Result<Cow<'_, str>, LexError> {
    let fail = |at: usize, len: usize, expected| LexError { at: word.at + at, len, expected };
    let Some(inner) = word.text.strip_prefix('"') else {
        return match word.text.find('"') {
            None => Ok(Cow::Borrowed(word.text)),
            Some(at) => Err(fail(at, 1, "a quotation mark inside a bare value; quote the whole value")),
        };
    };
    let end = inner.len().wrapping_sub(1);
    let mut value = String::new();
    let mut chars = inner.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' if at == end => return Ok(Cow::Owned(value)),
            '"' => {
                return Err(fail(at + 1, 1, "text follows the closing quotation mark; put a space between"));
            }
            '\\' => {
                let escape = chars.next().map_or(' ', |(_, c)| c);
                let rest = &inner[chars.peek().map_or(inner.len(), |&(at, _)| at)..];
                let (resolved, skip) = match escape {
                    'n' => (Some('\n'), 0),
                    't' => (Some('\t'), 0),
                    'r' => (Some('\r'), 0),
                    '"' | '\\' => (Some(escape), 0),
                    'x' => (rest.get(..2).and_then(hex).filter(char::is_ascii), 2),
                    'u' => match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                        Some((digits, _)) if digits.len() <= 6 => (hex(digits), digits.len() + 2),
                        _ => (None, 0),
                    },
                    _ => (None, 0),
                };
                let expected = "expected \\n, \\t, \\r, \\\", \\\\, \\x00 to \\x7f or \\u{...}";
                value.push(resolved.ok_or_else(|| fail(at + 1, 2, expected))?);
                for _ in 0..skip {
                    chars.next();
                }
            }
            c => value.push(c),
        }
    }
    Err(fail(0, 1, "this quotation mark is never closed; expected a second \" on the same line"))
}

fn hex(digits: &str) -> Option<char> {
    let digits = Some(digits).filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)
}

/// Characters that would disturb a line or a terminal: controls, and the invisible ones that reorder or split text.
fn unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn bare(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => true,
        c if c.is_ascii() => "_-./:,+@%()[]*~^!?=<>|&$".contains(c),
        c => !unprintable(c) && !c.is_whitespace(),
    }
}

/// Appends a value, quoted where needed, so that [`unquote`] gives it back.
pub(super) fn quote(value: &str, out: &mut Vec<u8>) {
    let mut utf8 = [0; 4];
    if !value.is_empty() && value.chars().all(bare) {
        return out.extend_from_slice(value.as_bytes());
    }
    out.push(b'"');
    for c in value.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            c if c.is_ascii_control() => out.extend_from_slice(format!("\\x{:02x}", c as u32).as_bytes()),
            c if unprintable(c) => out.extend_from_slice(format!("\\u{{{:x}}}", c as u32).as_bytes()),
            c => out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_survives_quoting() {
        for value in [
            "",
            "worker",
            "Web Content",
            "a\"b\\c",
            "#x",
            "-",
            "tab\there",
            "\u{1b}[31m",
            "\0",
            "é",
            "kworker/0:1-ev",
            "line\nbreak",
            "\u{202e}x",
            "a=b",
            "\"",
            "\\",
            "{",
            "}",
            "\u{10ffff}",
            "x\u{a0}y",
        ] {
            let mut line = b"name=".to_vec();
            quote(value, &mut line);
            let line = String::from_utf8(line).unwrap();
            let mut words = Vec::new();
            assert!(split(&line, &mut words).is_ok(), "{line}");
            assert_eq!(words.len(), 1, "{line}");
            let value_word = Word { text: &words[0].text[5..], at: 5 };
            assert_eq!(unquote(value_word).ok().as_deref(), Some(value), "{line}");
        }
    }

    #[test]
    fn bad_quotes_are_located() {
        for (text, at) in
            [("a\"b", 1), ("\"a\"b", 2), ("\"\\q\"", 1), ("\"\\xzz\"", 1), ("\"\\u{110000}\"", 1), ("\"", 0)]
        {
            assert_eq!(unquote(Word { text, at: 0 }).err().map(|e| e.at), Some(at), "{text}");
        }
        for line in ["a \"b", "name=\"x\\\""] {
            assert!(split(line, &mut Vec::new()).is_err(), "{line}");
        }
    }
}
