//! LEB128 varints: seven bits a byte, low first; signed differences as zigzag (0, -1, 1, -2, ...).

/// Appends a number.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[inline]
pub(super) fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

#[inline]
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Reads on through a slice.
pub(super) struct Cursor<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// A number; none at the end of the slice or past 64 bits.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut number = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    pub fn number32(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub fn slice(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let slice = self.bytes.get(self.at..)?.get(..len)?;
        self.at += len;
        Some(slice)
    }

    pub fn text(&mut self) -> Option<String> {
        std::str::from_utf8(self.slice()?).ok().map(str::to_string)
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_come_back() {
        for shift in 0..64 {
            for number in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put(&mut bytes, number);
                assert_eq!(Cursor { bytes: &bytes, at: 0 }.number(), Some(number));
                assert_eq!(Cursor { bytes: &bytes[..bytes.len() - 1], at: 0 }.number(), None);
                assert_eq!(zigzag(unzigzag(number)), number);
            }
        }
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }

    #[test]
    fn numbers_past_64_bits_are_refused() {
        let mut bytes = vec![0xff; 9];
        bytes.push(2);
        assert_eq!(Cursor { bytes: &bytes, at: 0 }.number(), None);
        assert_eq!(Cursor { bytes: &[0x80; 11], at: 0 }.number(), None);
    }
}
