//! What is wrong with a text file, where, and what to write instead.

use std::fmt;

/// What kind of mistake a text file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextProblem {
    /// The file cannot be read.
    Reading,
    /// Bytes that are not UTF-8.
    Encoding,
    /// No header where one is needed, or one that says something else.
    Header,
    /// Written by a newer version.
    Version,
    /// A word is missing at the end of the line.
    Missing,
    /// A word too many.
    Extra,
    /// A word that is none of those expected here.
    Word,
    /// Not a number, or out of range.
    Number,
    /// Not a duration.
    Duration,
    /// A bad value of `key=value`.
    Value,
    /// A quotation mark or escape out of place.
    Quote,
    /// A REPEAT block out of place, or without its `}`.
    Repeat,
    /// An event label that nobody or more than one carries.
    Label,
    /// A task or control group that is not declared, or declared twice.
    Declaration,
    /// More events or tasks than the reader accepts.
    Limit,
    /// Every line is in order, but the whole breaks a rule of the model ([`WorkloadError`](crate::WorkloadError)).
    Rule,
}

/// A mistake in a text file. Prints on one line; [`picture`](TextError::picture) shows the line with a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// File name as the caller gave it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What kind of mistake.
    pub problem: TextProblem,
    /// The text at fault; empty where something is missing.
    pub value: String,
    /// What is wrong with it or was expected instead.
    pub expected: String,
    /// What to do; may be empty where `expected` says it.
    pub remedy: String,
    /// The line as it stands in the file.
    pub source_line: String,
}

/// Characters of a long line shown on each side of the caret.
const CONTEXT: usize = 60;
/// Characters of a long value shown.
const VALUE_MAX: usize = 60;

impl TextError {
    /// The offending line with carets under the value, to stand below the message:
    ///
    /// ```text
    ///   7 | 3 WAKUP 100 6ms
    ///     |   ^^^^^
    /// ```
    pub fn picture(&self) -> String {
        let chars: Vec<char> = self.source_line.chars().collect();
        let at = (self.column - 1).min(chars.len());
        let from = at.saturating_sub(CONTEXT);
        let to = chars.len().min(at + CONTEXT + VALUE_MAX);
        let clean = |c: &char| match c {
            '\t' => '\t',
            c if c.is_control() => '\u{fffd}',
            c => *c,
        };
        let shown: String = chars[from..to].iter().map(clean).collect();
        let pad: String = chars[from..at].iter().map(|&c| if c == '\t' { '\t' } else { ' ' }).collect();
        let width = self.value.chars().count().clamp(1, (to - at).max(1));
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let carets = "^".repeat(width);
        format!("  {number} | {shown}\n  {gutter} | {pad}{carets}")
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.value.is_empty() {
            let mut shown: String = self.value.chars().take(VALUE_MAX).collect();
            if shown.len() < self.value.len() {
                shown.push_str("...");
            }
            write!(f, "'{}': ", shown.escape_debug())?;
        }
        f.write_str(&self.expected)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for TextError {}
