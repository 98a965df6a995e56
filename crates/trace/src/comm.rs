//! How do millions of 16-byte names become small numbers without a look-up each? Most switches repeat the name that the
//! same thread had last time, so a small cache by pid compares 16 bytes and is done.

use crate::event::CommId;
use std::collections::HashMap;

/// Names seen so far; `CommId(i)` is row i. Row 0 is the empty name.
pub(crate) struct CommTable {
    names: Vec<String>,
    /// From the 16 bytes, zeroed behind the first NUL. Only ever asked, never listed.
    ids: HashMap<[u8; 16], CommId>,
    /// Longer texts (paths), whole. Only ever asked, never listed.
    long: HashMap<String, CommId>,
    cache: Vec<(u128, CommId)>,
}

const CACHE_ROWS: usize = 4096;

impl CommTable {
    pub fn new() -> CommTable {
        CommTable {
            names: vec![String::new()],
            ids: HashMap::from([([0; 16], CommId(0))]),
            long: HashMap::new(),
            cache: vec![(0, CommId(0)); CACHE_ROWS],
        }
    }
    pub fn name(&self, id: CommId) -> &str {
        self.names.get(id.0 as usize).map_or("", String::as_str)
    }
    /// The name in these 16 bytes, which belong to `pid`.
    #[inline(always)]
    pub fn intern(&mut self, pid: i32, bytes: [u8; 16]) -> CommId {
        let raw = u128::from_le_bytes(bytes);
        let row = &mut self.cache[pid as usize % CACHE_ROWS];
        if row.0 == raw {
            return row.1;
        }
        let id = intern_slow(&mut self.names, &mut self.ids, bytes);
        *row = (raw, id);
        id
    }
    /// The name in text of any length.
    pub fn intern_text(&mut self, pid: i32, text: &[u8]) -> CommId {
        self.intern(pid, padded(text))
    }
    /// Text of any length, kept whole.
    pub fn intern_long(&mut self, text: &[u8]) -> CommId {
        let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        if let Some(id) = self.long.get(&text) {
            return *id;
        }
        let id = CommId(self.names.len() as u32);
        self.names.push(text.clone());
        self.long.insert(text, id);
        id
    }
}

/// The first 16 bytes of a name, zeroes behind it.
pub(crate) fn padded(text: &[u8]) -> [u8; 16] {
    let mut bytes = [0; 16];
    let length = text.len().min(16);
    bytes[..length].copy_from_slice(&text[..length]);
    bytes
}

#[cold]
fn intern_slow(names: &mut Vec<String>, ids: &mut HashMap<[u8; 16], CommId>, mut bytes: [u8; 16]) -> CommId {
    // What lies behind the NUL is left over from longer names.
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(16);
    bytes[length..].fill(0);
    *ids.entry(bytes).or_insert_with(|| {
        names.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        CommId((names.len() - 1) as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_once_whatever_lies_behind_them() {
        let mut table = CommTable::new();
        let bash = table.intern(7, *b"bash\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(table.intern(7, *b"bash\0old rest\0\0\0"), bash);
        assert_eq!(table.intern(7 + CACHE_ROWS as i32, *b"bash\0\0\0\0\0\0\0\0\0\0\0\0"), bash);
        assert_eq!(table.intern_text(-1, b"bash\0"), bash);
        let long = table.intern_text(8, b"a name beyond sixteen bytes");
        assert_eq!((table.name(bash), table.name(long)), ("bash", "a name beyond si"));
        assert_eq!(table.intern_text(9, b""), CommId(0));
        let path = table.intern_long(b"/system.slice/a.service\0rest");
        assert_eq!(table.intern_long(b"/system.slice/a.service"), path);
        assert_eq!(table.name(path), "/system.slice/a.service");
        assert_eq!(table.name(CommId(99)), "");
    }
}
