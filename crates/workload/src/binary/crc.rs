//! CRC-32 (IEEE 802.3), by the crate `crc32fast`.

/// The checksum of `bytes` appended to what gave `crc` (0 for nothing).
pub(super) fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn gives_the_published_check_values() {
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926); // the check value of CRC-32/ISO-HDLC
        assert_eq!(crc32(0, b""), 0);
        assert_eq!(crc32(0, b"The quick brown fox jumps over the lazy dog"), 0x414f_a339);
        assert_eq!(crc32(crc32(0, b"12345"), b"6789"), 0xcbf4_3926);
    }
}
