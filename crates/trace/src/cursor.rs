//! How are numbers read from a file that may end anywhere? Every length is checked against what is there
//! before it is used.

use crate::error::{Place, Problem};

/// Reads a part of the file, or what a part of the file unpacks to, from front to back.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    position: usize,
    /// Place of `data[0]`.
    origin: Place,
}

impl<'a> Cursor<'a> {
    /// Over the whole file, from `offset`; an offset beyond the end gives an empty cursor at that place.
    pub fn at(file: &'a [u8], offset: u64) -> Cursor<'a> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(file.len());
        Cursor { data: &file[start..], position: 0, origin: Place::at(offset) }
    }
    /// Over data whose first byte is at `origin`.
    pub fn at_place(data: &'a [u8], origin: Place) -> Cursor<'a> {
        Cursor { data, position: 0, origin }
    }
    /// The place of the next byte.
    pub fn place(&self) -> Place {
        let read = self.position as u64;
        match self.origin.unpacked {
            None => Place::at(self.origin.offset.saturating_add(read)),
            Some(inner) => Place::unpacked(self.origin.offset, inner + read),
        }
    }
    /// Bytes left.
    pub fn left(&self) -> usize {
        self.data.len() - self.position
    }
    /// The next `count` bytes, which are (part of) `what`.
    pub fn take(&mut self, count: u64, what: &'static str) -> Result<&'a [u8], Problem> {
        match usize::try_from(count) {
            Ok(count) if count <= self.left() => {
                let taken = &self.data[self.position..self.position + count];
                self.position += count;
                Ok(taken)
            }
            _ => Err(Problem::Truncated {
                at: self.place(),
                what,
                needed: count,
                available: self.left() as u64,
                lenient: false,
            }),
        }
    }
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Problem> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N as u64, what)?);
        Ok(bytes)
    }
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Problem> {
        Ok(self.array::<1>(what)?[0])
    }
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Problem> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Problem> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Problem> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }
    /// Text up to a NUL, which is consumed. `limit` bounds its length.
    pub fn c_string(&mut self, limit: usize, what: &'static str) -> Result<String, Problem> {
        let rest = &self.data[self.position..];
        match rest.iter().take(limit + 1).position(|byte| *byte == 0) {
            Some(length) => {
                self.position += length + 1;
                Ok(String::from_utf8_lossy(&rest[..length]).into_owned())
            }
            None if rest.len() <= limit => Err(Problem::Truncated {
                at: self.place(),
                what,
                needed: rest.len() as u64 + 1,
                available: rest.len() as u64,
                lenient: false,
            }),
            None => Err(Problem::Invalid {
                at: self.place(),
                what,
                value: format!("a text longer than {limit} bytes"),
                expected: "a NUL-terminated name".to_string(),
            }),
        }
    }
    /// A 64-bit length, then that many bytes.
    pub fn sized_u64(&mut self, what: &'static str) -> Result<&'a [u8], Problem> {
        let length = self.u64(what)?;
        self.take(length, what)
    }
    /// A 32-bit length, then that many bytes.
    pub fn sized_u32(&mut self, what: &'static str) -> Result<&'a [u8], Problem> {
        let length = self.u32(what)?;
        self.take(u64::from(length), what)
    }
    /// The bytes `expected`, or an error that shows what stands there.
    pub fn expect(&mut self, expected: &[u8], what: &'static str) -> Result<(), Problem> {
        let at = self.place();
        let found = self.take(expected.len() as u64, what)?;
        if found == expected {
            return Ok(());
        }
        Err(Problem::Invalid { at, what, value: show_bytes(found), expected: show_bytes(expected) })
    }
}

/// Bytes for an error message: as text if they are, else as hexadecimal.
pub(crate) fn show_bytes(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.chars().all(|c| !c.is_control() && c != '\u{fffd}') {
        format!("\"{text}\"")
    } else {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
    }
}
