//! CRC-32 (IEEE 802.3, reflected, 0xEDB88320), eight bytes a step (Kounavis and Berry 2005, "slicing by 8").

const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut i = 0;
    while i < 256 {
        let mut slice = 1;
        while slice < 8 {
            let previous = tables[slice - 1][i];
            tables[slice][i] = previous >> 8 ^ tables[0][(previous & 0xff) as usize];
            slice += 1;
        }
        i += 1;
    }
    tables
}

/// The checksum of `bytes` appended to what gave `crc` (0 for nothing).
pub(super) fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    let mut crc = !crc;
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let low = crc ^ u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]);
        let low = low.to_le_bytes();
        crc = TABLES[7][low[0] as usize]
            ^ TABLES[6][low[1] as usize]
            ^ TABLES[5][low[2] as usize]
            ^ TABLES[4][low[3] as usize]
            ^ TABLES[3][eight[4] as usize]
            ^ TABLES[2][eight[5] as usize]
            ^ TABLES[1][eight[6] as usize]
            ^ TABLES[0][eight[7] as usize];
    }
    for &byte in eights.remainder() {
        crc = crc >> 8 ^ TABLES[0][(crc as u8 ^ byte) as usize];
    }
    !crc
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
