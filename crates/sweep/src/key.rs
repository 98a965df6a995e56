//! What names a run? What made it, and nothing else.
//!
//! ```text
//! key = SHA-256 of   engine · workload's content · kernel · scheduler · parameters · machine · HZ
//!                    · duration · seed and ranges · costs             each with its name and its length
//! ```
//!
//! No path, no host, no order of runs is in it. Two shards, two machines or two sweeps that ask for the same run
//! have one name for it, and one row.

use sha2::{Digest, Sha256};
use std::fmt;
use std::io;
use std::str::FromStr;

/// Changes when the encoding does.
const FORM: &str = "schedlab run 1";

/// The name of a run: 256 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; 32]);

impl Key {
    /// Its first 64 bits as a number: for shards and claims.
    pub(crate) fn number(self) -> u64 {
        u64::from_be_bytes(self.0[..8].try_into().expect("eight of 32 bytes"))
    }

    /// Its first 128 bits: for sets in memory.
    pub(crate) fn short(self) -> u128 {
        u128::from_be_bytes(self.0[..16].try_into().expect("sixteen of 32 bytes"))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Not 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no key: expected 64 hexadecimal digits, as in the column 'key'")]
pub struct KeyError(String);

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        let wrong = || KeyError(text.to_owned());
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut key = [0; 32];
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Key(key))
    }
}

/// Collects what a key is made of. Names and lengths stand before values, so that no two lists look alike.
pub(crate) struct Naming(Sha256);

impl Naming {
    pub(crate) fn new() -> Naming {
        Naming(Sha256::new()).and("form", FORM.as_bytes())
    }

    #[must_use]
    pub(crate) fn and(mut self, name: &str, value: &[u8]) -> Naming {
        for part in [name.as_bytes(), value] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    pub(crate) fn key(self) -> Key {
        Key(self.0.finalize().into())
    }
}

/// Takes bytes as a file does, and keeps their SHA-256.
#[derive(Default)]
pub(crate) struct Summing(Sha256);

impl Summing {
    pub(crate) fn sum(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

impl io::Write for Summing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let key = Naming::new().and("a", b"1").key();
        assert_eq!(key.to_string().parse::<Key>(), Ok(key));
        for bad in ["", "12", &"g".repeat(64), &"é".repeat(32)] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
    }

    #[test]
    fn lengths_keep_fields_apart() {
        let one = Naming::new().and("ab", b"c").key();
        let other = Naming::new().and("a", b"bc").key();
        assert_ne!(one, other);
    }
}
