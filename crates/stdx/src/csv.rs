//! How does a text become one field of a table, and a table its records? As RFC 4180 has it.
//!
//! ```text
//! make -j4, "fast"     ->     "make -j4, ""fast"""     a comma or a quote: the field is quoted, its quotes are doubled
//! hog                  ->     hog                      nothing special: as it is
//! ```
//!
//! ```
//! use schedlab_stdx::csv::{field, records};
//! assert_eq!(field("hogs:0,5"), "\"hogs:0,5\"");
//! let table = "pid,comm\n7,\"a\nb\"\n8,c\n";
//! let read: Vec<_> = records(table).collect();
//! assert_eq!(read[1], (2, vec!["7".to_owned(), "a\nb".to_owned()]));
//! assert_eq!(read[2].0, 4, "the line on which the record begins");
//! ```

use std::borrow::Cow;

/// A text as one field.
pub fn field(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

/// The records of a table, each with the number of the line on which it begins, from 1. The header is one of
/// them. A line ends with LF or CR LF; an empty line is no record.
pub fn records(table: &str) -> impl Iterator<Item = (usize, Vec<String>)> {
    let mut chars = table.chars().peekable();
    let mut line = 1;
    std::iter::from_fn(move || {
        while let Some('\n' | '\r') = chars.peek() {
            line += usize::from(chars.next() == Some('\n'));
        }
        chars.peek()?;
        let (start, mut record, mut field, mut quoted) = (line, Vec::new(), String::new(), false);
        loop {
            match chars.next() {
                None => break,
                Some('"') if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    field.push('"');
                }
                Some('"') => quoted = !quoted,
                Some(',') if !quoted => record.push(std::mem::take(&mut field)),
                Some('\r') if !quoted && matches!(chars.peek(), None | Some('\n')) => {}
                Some('\n') if !quoted => {
                    line += 1;
                    break;
                }
                Some(c) => {
                    line += usize::from(c == '\n');
                    field.push(c);
                }
            }
        }
        record.push(field);
        Some((start, record))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_may_end_in_cr_lf_or_not_at_all() {
        let read =
            |table: &str| records(table).map(|(line, record)| (line, record.join("|"))).collect::<Vec<_>>();
        let expected = [(1, "a|b".to_owned()), (3, "|".to_owned())];
        assert_eq!(read("a,b\n\n,"), expected);
        assert_eq!(read("a,b\r\n\r\n,\r\n"), expected);
        assert_eq!(read(""), []);
        assert_eq!(read("\"x\r\""), [(1, "x\r".to_owned())], "within quotes all is text");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(table in prop::collection::vec(prop::collection::vec("[a,\"\r\n \
            ]{0,4}", 2..4), 0..4)) {
            let text: String =
                table.iter().map(|row| row.iter().map(|f| field(f)).collect::<Vec<_>>().join(",") + "\n").collect();
            let read: Vec<Vec<String>> = records(&text).map(|(_, record)| record).collect();
            prop_assert_eq!(read, table);
        }
    }
}
