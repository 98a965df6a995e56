//! What does a task set of itself or of another? The words of a PRIO, spread over several records.
//!
//! ```
//! use schedlab_log::{Record, SetWords};
//! let piece = |flags, text: &[u8; 8]| Record { flags, value: u64::from_le_bytes(*text), ..Record::default() };
//! let mut words = SetWords::default();
//! assert_eq!(words.piece(&piece(0, b"affinity")), None);
//! assert_eq!(words.piece(&piece(1, b"=0-3\0\0\0\0")), Some("affinity=0-3".to_string()));
//! ```

use crate::Record;

/// Gathers the pieces of a [`note::SET`](super::note::SET), which stand one after the other.
#[derive(Clone, Debug, Default)]
pub struct SetWords {
    bytes: Vec<u8>,
}

impl SetWords {
    /// Takes a piece; the words when it is the last one. `None` also for words that are not text, or none at all.
    pub fn piece(&mut self, record: &Record) -> Option<String> {
        if record.flags == 0 && self.bytes.len() < 256 * 8 {
            self.bytes.clear();
        }
        let piece = record.value.to_le_bytes();
        let end = piece.iter().position(|byte| *byte == 0);
        self.bytes.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        end?;
        let words = String::from_utf8(std::mem::take(&mut self.bytes)).ok()?;
        (!words.is_empty() && !words.contains(['\n', '\r'])).then_some(words)
    }
}
