//! Protocol buffers on the wire: a message is a list of fields, each a number, a kind and a value. Nothing is copied.

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number: signed ones as two's complement in 64 bits.
    Number(u64),
    /// Text, a message, packed numbers.
    Bytes(&'a [u8]),
    /// 4 or 8 bytes as they are; none of the fields that are read here is such.
    Fixed,
}

/// A message's fields, from front to back.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

/// What is wrong with a message.
pub(super) type Wrong = &'static str;

const CUT: Wrong = "a message that ends within a field";

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0 }
    }

    /// The next field; `None` at the message's end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Wrong> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = u32::try_from(tag >> 3).map_err(|_| "a field's number beyond 2^29")?;
        if field == 0 {
            return Err("a field of number 0");
        }
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| CUT)?;
                Value::Bytes(self.take(length)?)
            }
            1 => {
                self.take(8)?;
                Value::Fixed
            }
            5 => {
                self.take(4)?;
                Value::Fixed
            }
            _ => return Err("a field of an unknown kind"),
        };
        Ok(Some((field, value)))
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Wrong> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len()).ok_or(CUT)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Wrong> {
        let (value, length) = varint(&self.bytes[self.at..])?;
        self.at += length;
        Ok(value)
    }
}

/// A number, 7 bits a byte, least first; and its length.
#[inline]
pub(super) fn varint(bytes: &[u8]) -> Result<(u64, usize), Wrong> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        // The tenth byte has room for one bit; what is beyond is dropped, as other readers do.
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, index + 1));
        }
    }
    Err(if bytes.len() < 10 { CUT } else { "a number longer than 10 bytes" })
}

/// Packed numbers, from front to back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packed<'a> {
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    pub fn new(bytes: &'a [u8]) -> Packed<'a> {
        Packed { bytes }
    }
    /// The next number; `None` at the end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<u64>, Wrong> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let (value, length) = varint(self.bytes)?;
        self.bytes = &self.bytes[length..];
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_kind() {
        // 1: 150, 2: "ab", 3: fixed64, 4: fixed32, 5: -1
        let bytes = b"\x08\x96\x01\x12\x02ab\x19xxxxxxxx\x25yyyy\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let mut fields = Fields::new(bytes);
        let mut found = Vec::new();
        while let Some(field) = fields.next().unwrap() {
            found.push(field);
        }
        let expected = [
            (1, Value::Number(150)),
            (2, Value::Bytes(b"ab")),
            (3, Value::Fixed),
            (4, Value::Fixed),
            (5, Value::Number(u64::MAX)),
        ];
        assert_eq!(found, expected);
        for length in [1, 2, 4, 5, 6, 10, 20, 24, 30] {
            let mut fields = Fields::new(&bytes[..length]);
            let result = std::iter::from_fn(|| fields.next().transpose()).collect::<Result<Vec<_>, _>>();
            assert!(result.is_err() || [3, 7].contains(&length), "{length}: {result:?}");
        }
        assert!(Fields::new(b"\x00\x01").next().is_err());
        assert!(Fields::new(b"\x0b").next().is_err());
        assert!(Fields::new(&[0x80; 11]).next().is_err());
    }
}
