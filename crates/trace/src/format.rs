//! Where in an event's bytes does a field stand? The traced kernel says so itself, in the event's `format` file.
//!
//! ```text
//! name: sched_waking
//! ID: 375
//! format:
//!     field:unsigned short common_type;   offset:0;   size:2;   signed:0;
//!     field:char comm[16];                offset:8;   size:16;  signed:0;
//!     field:pid_t pid;                    offset:24;  size:4;   signed:1;
//!     field:__data_loc char[] name;       offset:28;  size:4;   signed:0;   16 bits of place, 16 of length
//!
//! print fmt: "comm=%s pid=%d", REC->comm, REC->pid
//! ```
//!
//! Offsets, sizes and signs differ between kernels; none is known in advance.

use crate::error::Problem;

/// A parsed `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// Name, e.g. `sched_switch`.
    pub name: String,
    /// The number that `common_type` has in its records.
    pub id: u16,
    /// Fields in the order of the file, the common ones first.
    pub fields: Vec<Field>,
    /// How the kernel would print it (C source).
    pub print_fmt: String,
}

/// One field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name without brackets.
    pub name: String,
    /// Its C type, e.g. `__data_loc char[]`.
    pub ctype: String,
    /// First byte in the record.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Whether its numbers are signed.
    pub signed: bool,
    /// What its bytes mean.
    pub kind: FieldKind,
}

/// What a field's bytes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// One number.
    Number,
    /// An array in place (`char comm[16]`).
    Array,
    /// Place and length of data at the record's end, counted from the record's begin.
    DataLoc,
    /// Place and length of data at the record's end, counted from this field's end.
    RelLoc,
}

impl Field {
    /// Whether it holds text.
    pub fn is_text(&self) -> bool {
        self.kind != FieldKind::Number && self.ctype.contains("char")
    }
}

impl EventFormat {
    /// Parses the text of a `format` file. Unknown lines are ignored.
    ///
    /// # Errors
    /// [`Problem::Format`] if name, number or a field's place is missing or out of range.
    pub fn parse(text: &[u8]) -> Result<EventFormat, Problem> {
        let text = String::from_utf8_lossy(text);
        let (name, id) = name_and_id(&text)?;
        let mut format = EventFormat { name, id, fields: Vec::new(), print_fmt: String::new() };
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with("field:") {
                format.fields.push(parse_field(&format.name, line)?);
            } else if let Some(print_fmt) = line.strip_prefix("print fmt:") {
                format.print_fmt = print_fmt.trim().to_string();
            }
        }
        Ok(format)
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The first two facts of a format, without parsing the rest.
pub(crate) fn name_and_id(text: &str) -> Result<(String, u16), Problem> {
    let mut name = None;
    for line in text.lines().map(str::trim) {
        if let Some(value) = line.strip_prefix("name:") {
            name = Some(value.trim().to_string());
        } else if let Some(value) = line.strip_prefix("ID:") {
            let event = name.unwrap_or_else(|| "(without name)".to_string());
            return match value.trim().parse() {
                Ok(id) => Ok((event, id)),
                Err(_) => {
                    Err(format_error(&event, format!("ID is \"{}\", expected 0 to 65535", value.trim())))
                }
            };
        }
    }
    Err(format_error(name.as_deref().unwrap_or("(without name)"), "it has no ID line".to_string()))
}

pub(crate) fn format_error(event: &str, problem: String) -> Problem {
    Problem::Format { event: event.chars().take(80).collect(), problem }
}

/// Parses `field:TYPE NAME; offset:N; size:N; signed:N;`.
pub(crate) fn parse_field(event: &str, line: &str) -> Result<Field, Problem> {
    let mut declaration = None;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in line.split(';') {
        let part = part.trim();
        let Some((key, value)) = part.split_once(':') else { continue };
        match key {
            "field" => declaration = Some(value.trim()),
            "offset" => offset = value.trim().parse::<u32>().ok(),
            "size" => size = value.trim().parse::<u32>().ok(),
            "signed" => signed = value.trim() != "0",
            _ => {}
        }
    }
    let (Some(declaration), Some(offset), Some(size)) = (declaration, offset, size) else {
        return Err(format_error(event, format!("a field without name, offset or size: \"{line}\"")));
    };
    // No record is longer than a page of 64 KiB.
    if offset > 1 << 16 || size > 1 << 16 {
        return Err(format_error(event, format!("a field at offset {offset} with {size} bytes: \"{line}\"")));
    }
    let (ctype, name) = declaration.rsplit_once([' ', '*']).unwrap_or(("", declaration));
    let (name, array) = match name.split_once('[') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    let kind = match ctype {
        _ if ctype.starts_with("__data_loc") => FieldKind::DataLoc,
        _ if ctype.starts_with("__rel_loc") => FieldKind::RelLoc,
        _ if array => FieldKind::Array,
        _ => FieldKind::Number,
    };
    Ok(Field { name: name.to_string(), ctype: ctype.trim().to_string(), offset, size, signed, kind })
}

/// A number's place in a record, for reading it millions of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    offset: u32,
    size: u8,
    signed: bool,
}

impl Number {
    /// The number in this field; sizes 1, 2, 4 and 8.
    pub fn of(event: &str, field: &Field) -> Result<Number, Problem> {
        match field.size {
            size @ (1 | 2 | 4 | 8) => {
                Ok(Number { offset: field.offset, size: size as u8, signed: field.signed })
            }
            size => Err(format_error(
                event,
                format!("field {} has {size} bytes, expected a number of 1, 2, 4 or 8", field.name),
            )),
        }
    }
    /// First byte behind it.
    pub fn end(self) -> usize {
        self.offset as usize + usize::from(self.size)
    }
    /// Its value in `record`, 0 where the record is too short (callers check its length once, against [`Number::end`]).
    #[inline(always)]
    pub fn get(self, record: &[u8]) -> i64 {
        let at = self.offset as usize;
        match (self.size, self.signed) {
            (4, true) => i64::from(i32::from_le_bytes(bytes_at(record, at))),
            (4, false) => i64::from(u32::from_le_bytes(bytes_at(record, at))),
            (8, _) => i64::from_le_bytes(bytes_at(record, at)),
            (2, true) => i64::from(i16::from_le_bytes(bytes_at(record, at))),
            (2, false) => i64::from(u16::from_le_bytes(bytes_at(record, at))),
            (_, true) => i64::from(i8::from_le_bytes(bytes_at(record, at))),
            (_, false) => i64::from(u8::from_le_bytes(bytes_at(record, at))),
        }
    }
    #[inline(always)]
    pub fn get_i32(self, record: &[u8]) -> i32 {
        self.get(record) as i32
    }
}

/// `N` bytes of `record` from `at`, zeros if it has not so many.
#[inline(always)]
pub(crate) fn bytes_at<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    record.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// A text's place in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    offset: u32,
    size: u32,
    kind: FieldKind,
}

impl Text {
    pub fn of(event: &str, field: &Field) -> Result<Text, Problem> {
        let fits = match field.kind {
            FieldKind::Number => false,
            FieldKind::Array => field.size > 0,
            FieldKind::DataLoc | FieldKind::RelLoc => field.size == 4,
        };
        if fits {
            return Ok(Text { offset: field.offset, size: field.size, kind: field.kind });
        }
        Err(format_error(event, format!("field {} ({}) holds no text", field.name, field.ctype)))
    }
    /// First byte behind the field itself.
    pub fn end(self) -> usize {
        self.offset as usize + self.size as usize
    }
    /// Whether this is `char x[16]` in place, as comm is.
    pub fn is_array_of_16(self) -> bool {
        self.kind == FieldKind::Array && self.size == 16
    }
    #[inline(always)]
    pub fn offset(self) -> usize {
        self.offset as usize
    }
    /// The bytes it has room for, in `record`; `None` if they lie outside.
    #[inline]
    pub fn range(self, record: &[u8]) -> Option<std::ops::Range<usize>> {
        let at = self.offset as usize;
        let range = match self.kind {
            FieldKind::Array | FieldKind::Number => at..at + self.size as usize,
            FieldKind::DataLoc | FieldKind::RelLoc => {
                let word = u32::from_le_bytes(bytes_at(record, at));
                let base = if self.kind == FieldKind::RelLoc { at + 4 } else { 0 };
                let start = base + (word & 0xffff) as usize;
                start..start + (word >> 16) as usize
            }
        };
        (range.end <= record.len()).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORK: &[u8] = b"name: sched_process_fork\nID: 366\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
        \tfield:char child_comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\
        \tfield:const char * where;\toffset:32;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"x\"\n";

    #[test]
    fn fields_are_where_the_text_says() {
        let format = EventFormat::parse(FORK).unwrap();
        assert_eq!((format.name.as_str(), format.id, format.fields.len()), ("sched_process_fork", 366, 6));
        assert_eq!(format.field("parent_comm").unwrap().kind, FieldKind::DataLoc);
        assert_eq!(format.field("child_comm").unwrap().kind, FieldKind::Array);
        assert!(format.field("child_comm").unwrap().is_text());
        let pointer = format.field("where").unwrap();
        assert_eq!((pointer.kind, pointer.offset, pointer.is_text()), (FieldKind::Number, 32, false));
        let pid = Number::of("x", format.field("parent_pid").unwrap()).unwrap();
        let mut record = vec![0; 40];
        record[12..16].copy_from_slice(&(-7i32).to_le_bytes());
        assert_eq!(pid.get(&record), -7);
        // Text of 5 bytes at 34.
        record[8..12].copy_from_slice(&(5u32 << 16 | 34).to_le_bytes());
        let text = Text::of("x", format.field("parent_comm").unwrap()).unwrap();
        assert_eq!(text.range(&record), Some(34..39));
        assert_eq!(text.range(&record[..38]), None);
    }

    #[test]
    fn formats_without_number_or_places_are_refused() {
        for bad in
            ["", "name: x\n", "name: x\nID: 70000\n", "name: x\nID: 1\n\tfield:int a;\toffset:-1;\tsize:4;\n"]
        {
            let error = EventFormat::parse(bad.as_bytes()).unwrap_err();
            assert!(matches!(error, Problem::Format { .. }), "{bad:?}: {error}");
        }
        assert!(
            EventFormat::parse(b"name: x\nID: 1\n\tfield:int a;\toffset:4000000000;\tsize:4;\n").is_err()
        );
    }
}
