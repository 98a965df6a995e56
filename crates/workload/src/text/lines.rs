//! Where do the lines of a text come from? From memory, or from a file that need not fit into it.

use super::error::{TextError, TextProblem};
use crate::limits::LINE_BYTES_MAX;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// The lines of a text; may be read more than once.
#[derive(Clone, Copy)]
pub(super) enum LineSource<'a> {
    /// All in memory.
    Text(&'a str),
    /// A file, read line by line.
    File(&'a Path),
}

/// Bytes read from a file at a time.
const BUFFER: usize = 1 << 18;
const BOM: &[u8] = "\u{feff}".as_bytes();

/// What is called with the number and the text of each line.
type EachLine<'a> = &'a mut dyn FnMut(usize, &str) -> Result<(), Box<TextError>>;

impl<'a> LineSource<'a> {
    /// A text in memory; it must be UTF-8.
    pub fn of_bytes(file: &str, bytes: &'a [u8]) -> Result<LineSource<'a>, Box<TextError>> {
        let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
            let line_end =
                bytes[line_start..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| line_start + n);
            let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
            encoding(file, line, &bytes[line_start..line_end])
        })?;
        Ok(LineSource::Text(text))
    }

    /// Calls `each` with the number (from 1) and the text of every line; returns how many there are. A file
    /// that ends in a line feed has an empty line after it, as `split` says.
    pub fn each(self, file: &str, each: EachLine<'_>) -> Result<usize, Box<TextError>> {
        let path = match self {
            LineSource::Text(text) => {
                let mut count = 0;
                for line in text.split('\n') {
                    count += 1;
                    each(count, line)?;
                }
                return Ok(count);
            }
            LineSource::File(path) => path,
        };
        let mut reader =
            BufReader::with_capacity(BUFFER, File::open(path).map_err(|e| reading(file, 1, &e))?);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            io::Read::take(&mut reader, LINE_BYTES_MAX)
                .read_until(b'\n', &mut line)
                .map_err(|error| reading(file, number, &error))?;
            let ended = line.last() != Some(&b'\n');
            if ended && line.len() as u64 == LINE_BYTES_MAX {
                return Err(reading(file, number, &io::Error::other("the line is longer than 16 MiB")));
            }
            let content = line.strip_suffix(b"\n").unwrap_or(&line);
            let content = if number == 1 { content.strip_prefix(BOM).unwrap_or(content) } else { content };
            let text = std::str::from_utf8(content).map_err(|_| encoding(file, number, content))?;
            each(number, text)?;
            if ended {
                return Ok(number);
            }
        }
        unreachable!("a file has fewer than 2^64 lines")
    }

    /// One line, for a message.
    pub fn line(self, number: usize) -> Cow<'a, str> {
        match self {
            LineSource::Text(text) => Cow::Borrowed(text.split('\n').nth(number - 1).unwrap_or_default()),
            LineSource::File(path) => {
                let lines = File::open(path).map(|file| BufReader::with_capacity(BUFFER, file).split(b'\n'));
                let line = lines.ok().and_then(|mut lines| lines.nth(number - 1)).and_then(Result::ok);
                Cow::Owned(String::from_utf8_lossy(&line.unwrap_or_default()).into_owned())
            }
        }
    }
}

/// A line that is not UTF-8.
fn encoding(file: &str, line: usize, bytes: &[u8]) -> Box<TextError> {
    let good = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    Box::new(TextError {
        file: file.to_string(),
        line,
        column: String::from_utf8_lossy(&bytes[..good]).chars().count() + 1,
        problem: TextProblem::Encoding,
        value: format!("\\x{:02x}", bytes.get(good).copied().unwrap_or_default()),
        expected: "this byte is not UTF-8 text".into(),
        remedy: "is this a workload in text form? write odd bytes in quotes, as \\x1b".into(),
        source_line: String::from_utf8_lossy(bytes).into_owned(),
    })
}

fn reading(file: &str, line: usize, error: &io::Error) -> Box<TextError> {
    Box::new(TextError {
        file: file.to_string(),
        line,
        column: 1,
        problem: TextProblem::Reading,
        value: String::new(),
        expected: format!("cannot read: {error}"),
        remedy: String::new(),
        source_line: String::new(),
    })
}
