//! Any bytes as a binary workload: an error with an offset, or a workload that is written and read as the
//! same. The bytes are tried as they are, and as the payload of a chunk whose checksums are right, so that
//! the decoder behind them is reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_workload::binary::{BinaryReader, Part};
use schedlab_workload::{find_deadlock, read_binary, write_binary};

/// CRC-32 (IEEE), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0u32, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

fn chunk(kind: &[u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    let crc = crc32(&[kind, &length[..], payload].concat()).to_le_bytes();
    [kind, &length[..], &crc, payload].concat()
}

/// A whole file around a payload; the totals of tasks and events are what the reader counts.
fn wrapped(payload: &[u8]) -> Vec<u8> {
    let data = chunk(b"DATA", payload);
    let mut file = b"\x89SLWLOAD\x01\0\0\0\0\0\0\0".to_vec();
    file.extend_from_slice(&data);
    let (mut tasks, mut events) = (0u64, 0u64);
    if let Ok(mut reader) = BinaryReader::new(&file[..]) {
        while let Ok(Some(part)) = reader.next_part() {
            match part {
                Part::Task(..) => tasks += 1,
                Part::Events(_, run) => events += run.len() as u64,
                _ => {}
            }
        }
    }
    let mut end = [1, tasks, events].map(u64::to_le_bytes).concat();
    end.extend_from_slice(&crc32(&data[8..12]).to_le_bytes());
    file.extend_from_slice(&chunk(b"END.", &end));
    file
}

fuzz_target!(|bytes: &[u8]| {
    for file in [bytes.to_vec(), wrapped(bytes)] {
        let Ok(workload) = read_binary(&file[..]) else { continue };
        let checked = workload.check();
        find_deadlock(&workload);
        let mut written = Vec::new();
        write_binary(&workload, &mut written).expect("a vector takes everything");
        assert_eq!(read_binary(&written[..]).expect("what is written can be read"), workload);
        if checked.is_ok() {
            workload.to_text().expect("what passes the check can be written");
        }
    }
});
