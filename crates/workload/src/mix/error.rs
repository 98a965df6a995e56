//! What is wrong with a mix, and where.

use crate::text::{TextError, TextProblem};
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// A mistake in a mix. Prints with the line and a caret:
///
/// ```text
/// mix.toml:4:8: '21': expected a nice value, -20 to 19
///   4 | nice = 21
///     |        ^^ expected a nice value, -20 to 19
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixError {
    /// Where and what; [`TextError::line`] is 0 if it is no single place.
    pub error: Box<TextError>,
}

impl fmt::Display for MixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.error.line == 0 {
            return write!(f, "{}: {}", self.error.file, self.error.expected);
        }
        write!(f, "{}\n{}", self.error, self.error.picture())
    }
}

impl std::error::Error for MixError {}

impl MixError {
    /// A mistake at a place of the text (in bytes).
    pub(super) fn at(
        (file, text): (&Path, &str),
        at: &Range<usize>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> MixError {
        let start = (0..=at.start.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |n| start + n);
        let end = (at.end.clamp(start, line_end)..=line_end)
            .find(|&i| text.is_char_boundary(i))
            .unwrap_or(line_end);
        // the caret stands under what is in the quotation marks
        let value = text[start..end].trim_end();
        let inner = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        let (start, value) =
            inner.filter(|inner| !inner.is_empty()).map_or((start, value), |inner| (start + 1, inner));
        MixError {
            error: Box::new(TextError {
                file: file.display().to_string(),
                line: text[..start].matches('\n').count() + 1,
                column: text[line_start..start].chars().count() + 1,
                problem: TextProblem::Value,
                value: value.to_string(),
                expected: expected.into(),
                remedy: remedy.into(),
                source_line: text[line_start..line_end].trim_end_matches('\r').to_string(),
            }),
        }
    }

    /// A mistake of the whole.
    pub(super) fn whole(file: &Path, expected: impl Into<String>) -> MixError {
        MixError {
            error: Box::new(TextError {
                file: file.display().to_string(),
                line: 0,
                column: 1,
                problem: TextProblem::Rule,
                value: String::new(),
                expected: expected.into(),
                remedy: String::new(),
                source_line: String::new(),
            }),
        }
    }
}
