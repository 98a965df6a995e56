//! The binary form: round trips, and every kind of damage refused at its byte.

mod common;

use proptest::prelude::*;
use schedlab_workload::binary::{BinaryProblem, BinaryReader, BinaryWriter, Part};
use schedlab_workload::{
    BinaryError, EventKind, ExternalSource, Wakeup, Workload, parse_text, read_binary, write_binary,
};

fn bytes(workload: &Workload) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_binary(workload, &mut bytes).unwrap();
    bytes
}

/// About 500 KiB: several chunks.
fn large() -> Workload {
    let text = "NOTE kernel 6.12\nCGROUP /a max=20ms/100ms cpuset=0-3,900\n- INIT 0 0 1..3 runnable name=w cgroup=/a\n\
        REPEAT 20000 {\n @x BLOCK 1 4ms\n - WAKEUP 1 6ms\n - BLOCK 2 1ms\n - WAKEUP 2 0 @x 1 10us\n}\n\
        - PRIO 3 1ms nice=4\n";
    parse_text("large", text.as_bytes()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_is_read_back_exactly(workload in common::workloads()) {
        let bytes = bytes(&workload);
        prop_assert_eq!(read_binary(&bytes[..]).unwrap(), workload);
    }

    // A workload written in other pieces and another order is the same workload.
    #[test]
    fn pieces_may_come_in_any_order(workload in common::workloads(), piece in 1..7usize) {
        let mut writer = BinaryWriter::new(Vec::new()).unwrap();
        for (row, task) in workload.tasks.iter().enumerate().rev() {
            let id = schedlab_units::TaskId(row as u32);
            task.events.chunks(piece).for_each(|events| writer.events(id, events).unwrap());
            writer.task(id, task).unwrap();
        }
        workload.cgroups.iter().for_each(|cgroup| writer.cgroup(cgroup).unwrap());
        workload.objects.iter().for_each(|object| writer.object(object).unwrap());
        workload.notes.iter().for_each(|(key, value)| writer.note(key, value).unwrap());
        workload.dropped.iter().for_each(|(reason, count)| writer.dropped(reason, *count).unwrap());
        prop_assert_eq!(read_binary(&writer.finish().unwrap()[..]).unwrap(), workload);
    }
}

/// CRC-32 (IEEE 802.3), bit by bit: independent of the table-driven one.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0u32, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    // Damage that the checksum does not show must still not panic: first chunk changed, its checksum made right.
    #[test]
    fn damage_behind_a_right_checksum_is_survived(
        seed in 0..200u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut file = bytes(&common::workload(seed, 10));
        let length = u32::from_le_bytes(file[20..24].try_into().unwrap()) as usize;
        if &file[16..20] == b"DATA" {
            for (at, byte) in changes {
                file[28 + at.index(length)] = byte;
            }
            let crc = crc32(&[&file[16..24], &file[28..28 + length]].concat());
            file[24..28].copy_from_slice(&crc.to_le_bytes());
            let mut reader = BinaryReader::new(&file[..]).unwrap();
            while let Ok(Some(_)) = reader.next_part() {}
            if let Ok(workload) = read_binary(&file[..]) {
                let _ = (workload.check(), schedlab_workload::find_deadlock(&workload), workload.to_text());
            }
        }
    }
}

#[test]
fn every_cut_is_reported() {
    let whole = bytes(&common::workload(7, 12));
    assert!(whole.len() > 200);
    for length in 0..whole.len() {
        let BinaryError { offset, problem } = read_binary(&whole[..length]).unwrap_err();
        assert!(offset <= length as u64);
        match problem {
            BinaryProblem::Truncated(_) => assert_eq!(offset, length as u64),
            BinaryProblem::Magic => assert_eq!(length, 0),
            other => panic!("cut to {length}: {other}"),
        }
    }
    assert!(read_binary(&whole[..]).is_ok());
}

/// Written by the programs of those versions: what they wrote must be read for ever, and is still written
/// where it says all.
#[test]
fn files_of_older_versions_are_read() {
    let old = [
        (
            "89534c574c4f4144010000000000000044415441210000009c96385804000101610001050005160b02c0843d0480897a03c0843d05c08db70107c0843d\
             454e442e1c00000067a52a830100000000000000010000000000000005000000000000007f20635d",
            vec![ExternalSource::Timer, ExternalSource::Device],
        ),
        (
            "89534c574c4f41440200000000000000444154413c000000a12d3a090400010161000105000b310b02c0843d0480897a03c0843d05c08db70103c0843d\
             128092f40103c0843d10c096b10203c0843d11809bee0207c0843d454e442e1c000000ff6c1a1e010000000000000001000000000000000b00000000000000\
             121273b8",
            vec![
                ExternalSource::Timer,
                ExternalSource::Device,
                ExternalSource::Absolute,
                ExternalSource::Grid,
                ExternalSource::GridRestart,
            ],
        ),
    ];
    for (version, (hex, sources)) in (1u32..).zip(old) {
        let file: Vec<u8> =
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
        let workload = read_binary(&file[..]).unwrap();
        let found: Vec<ExternalSource> = workload.tasks[0]
            .events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Wakeup(Wakeup::External { source, .. }) => Some(source),
                _ => None,
            })
            .collect();
        assert_eq!(found, sources);
        assert_eq!(workload.version(), version);
        assert_eq!(bytes(&workload), file);
    }
}

#[test]
fn every_flipped_bit_is_reported() {
    let whole = bytes(&common::workload(7, 12));
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = read_binary(&damaged[..]).expect_err("a flipped bit changes a checksum");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn missing_doubled_and_swapped_chunks_are_reported() {
    let whole = bytes(&large());
    let mut at = 16;
    let mut chunks = Vec::new();
    while at < whole.len() {
        let length = u32::from_le_bytes(whole[at + 4..at + 8].try_into().unwrap()) as usize;
        chunks.push(&whole[at..at + 12 + length]);
        at += 12 + length;
    }
    assert!(chunks.len() > 5, "{} chunks", chunks.len());
    let assemble = |order: &[usize]| {
        let parts = order.iter().flat_map(|&i| chunks[i].iter().copied());
        whole[..16].iter().copied().chain(parts).collect::<Vec<u8>>()
    };
    let all: Vec<usize> = (0..chunks.len()).collect();
    assert_eq!(assemble(&all), whole);
    let mut without = all.clone();
    without.remove(2);
    let mut twice = all.clone();
    twice.insert(2, 2);
    let mut swapped = all.clone();
    swapped.swap(2, 3);
    let mut trailing = all.clone();
    trailing.push(0);
    for (order, says) in [
        (without, "other chunks"),
        (twice, "other chunks"),
        (swapped, "other checksums"),
        (trailing, "bytes follow"),
    ] {
        let message = read_binary(&assemble(&order)[..]).unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn other_files_and_newer_versions_are_refused() {
    let mut newer = bytes(&Workload::default());
    newer[8] = 9;
    let message = read_binary(&newer[..]).unwrap_err().to_string();
    assert!(message.starts_with("byte 8: version 9") && message.contains("newer schedlab"), "{message}");
    for other in [&b"ARROW1\0\0"[..], b"schedlab-workload 1\n", b"\x17\x08\x44tracing"] {
        assert!(matches!(read_binary(other), Err(BinaryError { offset: 0, problem: BinaryProblem::Magic })));
    }
}

#[test]
fn parts_stream_in_bounded_pieces() {
    let workload = large();
    let bytes = bytes(&workload);
    let mut reader = BinaryReader::new(&bytes[..]).unwrap();
    let (mut events, mut longest) = (0, 0);
    while let Some(part) = reader.next_part().unwrap() {
        if let Part::Events(_, run) = part {
            events += run.len();
            longest = longest.max(run.len());
        }
    }
    assert_eq!(events as u64 + 3, workload.nr_events());
    assert!(longest < 40_000, "{longest}");
    assert!(bytes.len() < 10 * events, "{} bytes for {events} events", bytes.len());
}
