//! Traces made by hand: order between CPUs, clocks, lost events, buffers, names. Nothing stands where a kernel has it.

mod support;

use schedlab_trace::write::{Compression, FileVersion, RawOption, TraceDatWriter, TraceMeta, WriteOptions};
use schedlab_trace::{Context, Mode, Pid, SchedEvent, TaskState, TraceFile, WriteError};
use schedlab_units::CpuId;
use support::{PAGE, Page, fork, meta, open, read_all, switch, trace, waking};

const PLAIN: WriteOptions = WriteOptions { version: FileVersion::V7(Compression::None), page_size: PAGE };

#[test]
fn events_of_all_cpus_come_in_order_of_time_then_cpu() {
    //  ns   10  20  30  40
    // cpu0   a       b   c
    // cpu2       d   e            cpu3 is silent; cpu1 has an empty page before its event
    // cpu1           f
    let s = |pid| switch(pid, 0, 0);
    let cpus = [
        (0, vec![Page::at(10).event(0, &s(1)), Page::at(30).event(0, &s(2)).event(10, &s(3))]),
        (2, vec![Page::at(20).event(0, &s(4)).event(10, &s(5))]),
        (1, vec![Page::at(5), Page::at(30).event(0, &s(6))]),
    ];
    for version in
        [FileVersion::V6, FileVersion::V7(Compression::None), FileVersion::V7(Compression::Zstd(3))]
    {
        let bytes = trace(&meta(), WriteOptions { version, page_size: PAGE }, &cpus);
        let file = open(&bytes, Mode::Strict).unwrap();
        let (events, _) = read_all(&file).unwrap();
        let order: Vec<(u64, u32, i32)> =
            events.iter().map(|event| (event.time_ns, event.cpu.0, event.pid.0)).collect();
        assert_eq!(order, [(10, 0, 1), (20, 2, 4), (30, 0, 2), (30, 1, 6), (30, 2, 5), (40, 0, 3)]);
    }
}

#[test]
fn fields_stand_where_the_formats_say() {
    let page = Page::at(0)
        .event(1, &switch(1, 1, 70_000))
        .event(1, &switch(1, 8, 2))
        .event(1, &switch(1, 16, 2))
        .event(1, &waking(1, 0x10, 9))
        .event(1, &waking(1, 0x18, 9))
        .event(1, &waking(1, 0x58, 9))
        .event(1, &fork(1, 3, "parent's name", "ch"));
    let bytes = trace(&meta(), PLAIN, &[(1, vec![page])]);
    let file = open(&bytes, Mode::Strict).unwrap();
    let (events, stream) = read_all(&file).unwrap();
    let SchedEvent::Switch { prev, prev_state, next } = events[0].what else { panic!("{:?}", events[0]) };
    assert_eq!((prev.pid, prev.prio, prev_state), (Pid(1), -1, TaskState::Interruptible));
    assert_eq!((next.pid, next.prio, events[0].preempt_count), (Pid(70_000), 120, 3));
    assert_eq!((stream.comm(prev.comm), stream.comm(next.comm)), ("p1", "n70000"));
    let states: Vec<TaskState> = events[1..3]
        .iter()
        .map(
            |event| {
                if let SchedEvent::Switch { prev_state, .. } = event.what { prev_state } else { panic!() }
            },
        )
        .collect();
    // This kernel's "+" is 8; it has no 16.
    assert_eq!(states, [TaskState::RunningPreempted, TaskState::Unknown]);
    let contexts: Vec<Context> = events[3..6].iter().map(|event| event.context).collect();
    assert_eq!(contexts, [Context::SoftIrq, Context::HardIrq, Context::Nmi]);
    let SchedEvent::Waking(wake) = events[3].what else { panic!() };
    assert_eq!((wake.pid, wake.prio, wake.target_cpu, stream.comm(wake.comm)), (Pid(9), 120, CpuId(2), "w9"));
    let SchedEvent::Fork { parent, child, child_comm } = events[6].what else { panic!() };
    assert_eq!((parent, child, stream.comm(child_comm)), (Pid(1), Pid(3), "ch"));
    assert_eq!(file.cmdlines()[&Pid(8)], "eight of them");
}

#[test]
fn clocks_extend_and_jump() {
    let page = Page::at(1000)
        .event(5, &switch(1, 0, 2))
        .time_extend((1 << 40) + 3)
        .event(7, &switch(2, 0, 1))
        .time_stamp(5 << 40)
        .event(1, &switch(1, 0, 2));
    let bytes = trace(&meta(), PLAIN, &[(0, vec![page])]);
    let file = open(&bytes, Mode::Strict).unwrap();
    let (events, _) = read_all(&file).unwrap();
    let times: Vec<u64> = events.iter().map(|event| event.time_ns).collect();
    assert_eq!(times, [1005, 1005 + (1 << 40) + 3 + 7, (5 << 40) + 1]);
}

#[test]
fn a_clock_that_goes_back_stands_still_and_is_counted() {
    let pages = vec![
        Page::at(100).event(5, &switch(1, 0, 2)),
        Page::at(50).event(0, &switch(2, 0, 1)).event(70, &switch(1, 0, 2)),
    ];
    let bytes = trace(&meta(), PLAIN, &[(0, pages)]);
    let file = open(&bytes, Mode::Strict).unwrap();
    let (events, stream) = read_all(&file).unwrap();
    assert_eq!(events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [105, 105, 120]);
    assert_eq!(stream.counts().values().sum::<u64>(), 1, "{:?}", stream.counts());
}

#[test]
fn cycles_become_ns_with_the_files_rate_and_offset() {
    // 3 GHz: 1 ns is 3 cycles; (cycles * 1431655766) >> 32 is cycles / 3 for small numbers. 2000 ns are added.
    let tsc = [1_431_655_766u32.to_le_bytes(), 32u32.to_le_bytes(), [0; 4], [0; 4]].concat();
    let options = vec![RawOption { id: 14, data: tsc }, RawOption { id: 7, data: b"2000\0".to_vec() }];
    let meta = TraceMeta { clock: "x86-tsc".to_string(), options, ..meta() };
    for version in [FileVersion::V6, FileVersion::V7(Compression::None)] {
        let pages = vec![Page::at(3000).event(0, &switch(1, 0, 2)).event(300, &switch(2, 0, 1))];
        let bytes = trace(&meta, WriteOptions { version, page_size: PAGE }, &[(0, pages)]);
        let file = open(&bytes, Mode::Strict).unwrap();
        let (events, _) = read_all(&file).unwrap();
        assert_eq!(events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [3000, 3100], "{version:?}");
    }
}

#[test]
fn lost_events_stand_before_the_page_that_tells_of_them() {
    let pages = vec![
        Page::at(100).lost(None).event(5, &switch(1, 0, 2)),
        Page::at(200).event(5, &switch(2, 0, 1)),
        Page::at(300).lost(Some(42)).event(5, &switch(1, 0, 2)),
        Page::at(400).lost(Some(7)),
    ];
    let bytes = trace(&meta(), PLAIN, &[(3, pages)]);
    let file = open(&bytes, Mode::Strict).unwrap();
    let (events, _) = read_all(&file).unwrap();
    let lost: Vec<(u64, Option<Option<u64>>)> = events
        .iter()
        .map(|event| {
            (event.time_ns, if let SchedEvent::Lost { count } = event.what { Some(count) } else { None })
        })
        .collect();
    assert_eq!(
        lost,
        [
            (100, Some(None)),
            (105, None),
            (205, None),
            (300, Some(Some(42))),
            (305, None),
            (400, Some(Some(7)))
        ]
    );
}

/// A version 7 file of two buffers: ours, and `second` appended through the chain of options.
fn with_second_buffer(mut bytes: Vec<u8>, name: &str, page: &[u8]) -> Vec<u8> {
    // The first options section, and in it DONE with the place of the next.
    let pointer = bytes.iter().skip(18).position(|byte| *byte == 0).unwrap() + 18 + 2;
    let first = u64::from_le_bytes(bytes[pointer..pointer + 8].try_into().unwrap()) as usize;
    let size = u64::from_le_bytes(bytes[first + 8..first + 16].try_into().unwrap()) as usize;
    let done = first + 16 + size - 8;
    let section = bytes.len() as u64;
    bytes[done..done + 8].copy_from_slice(&section.to_le_bytes());

    let mut option = Vec::new();
    let buffer_at = section + 4096;
    option.extend_from_slice(&buffer_at.to_le_bytes());
    option.extend_from_slice(format!("{name}\0mono\0").as_bytes());
    option.extend_from_slice(&[4096u32.to_le_bytes(), 1u32.to_le_bytes(), 0u32.to_le_bytes()].concat());
    option.extend_from_slice(&[(section + 8192).to_le_bytes(), (page.len() as u64).to_le_bytes()].concat());
    let mut options = [3u16.to_le_bytes().as_slice(), &(option.len() as u32).to_le_bytes(), &option].concat();
    options.extend_from_slice(&[0u16.to_le_bytes().as_slice(), &8u32.to_le_bytes(), &[0; 8]].concat());
    bytes.extend_from_slice(&[[0; 8].as_slice(), &(options.len() as u64).to_le_bytes(), &options].concat());
    bytes.resize(buffer_at as usize, 0);
    bytes.extend_from_slice(&[3u16.to_le_bytes().as_slice(), &[0; 6], &8176u64.to_le_bytes()].concat());
    bytes.resize(section as usize + 8192, 0);
    bytes.extend_from_slice(page);
    bytes
}

#[test]
fn the_buffer_with_sched_events_is_read() {
    // The first has more pages but only wakings; the instance has the switches.
    let pages = (0..5).map(|i| Page::at(i * 100).event(1, &waking(1, 0, 2))).collect();
    let first = trace(&meta(), PLAIN, &[(0, pages)]);
    let bytes = with_second_buffer(first, "instance", &Page::at(900).event(1, &switch(1, 0, 2)).bytes());
    let file = open(&bytes, Mode::Strict).unwrap();
    assert_eq!(
        file.buffers().iter().map(|buffer| buffer.name.as_str()).collect::<Vec<_>>(),
        ["", "instance"]
    );
    assert_eq!(file.sched_buffer_index().unwrap(), 1);
    let (events, stream) = read_all(&file).unwrap();
    assert_eq!((events.len(), events[0].time_ns), (1, 901));
    assert!(stream.counts().is_empty());
    let mut other = file.events_of(0).unwrap();
    assert_eq!(other.by_ref().map(Result::unwrap).count(), 5);

    // Both have switches: the larger is read, the other counted.
    let pages = (0..5).map(|i| Page::at(i * 100).event(1, &switch(1, 0, 2))).collect();
    let first = trace(&meta(), PLAIN, &[(0, pages)]);
    let bytes = with_second_buffer(first, "instance", &Page::at(900).event(1, &switch(1, 0, 2)).bytes());
    let file = open(&bytes, Mode::Strict).unwrap();
    let (events, stream) = read_all(&file).unwrap();
    assert_eq!(events.len(), 5);
    assert_eq!(stream.counts().get("other buffer with sched events, ignored"), Some(&1));
}

#[test]
fn a_chain_of_options_that_bites_its_tail_ends() {
    let bytes = trace(&meta(), PLAIN, &[(0, vec![Page::at(0).event(1, &switch(1, 0, 2))])]);
    let pointer = bytes.iter().skip(18).position(|byte| *byte == 0).unwrap() + 18 + 2;
    let first: [u8; 8] = bytes[pointer..pointer + 8].try_into().unwrap();
    let mut looped = with_second_buffer(bytes, "x", &[]);
    let end = looped.len();
    let section = end - 8192;
    let size = u64::from_le_bytes(looped[section + 8..section + 16].try_into().unwrap()) as usize;
    looped[section + 16 + size - 8..section + 16 + size].copy_from_slice(&first);
    let error = open(&looped, Mode::Strict).err().unwrap().to_string();
    assert!(error.contains("not read before"), "{error}");
}

#[test]
fn many_pages_make_several_chunks() {
    // 40 pages: chunks of 16, 16 and 8; pages come in odd portions.
    let pages: Vec<u8> = (0..40).flat_map(|i| Page::at(i * 10).event(1, &switch(1, 0, 2)).bytes()).collect();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.dat");
    let mut writer = TraceDatWriter::create(&path, WriteOptions::default()).unwrap();
    writer.append_pages(CpuId(5), &pages[..3 * PAGE]).unwrap();
    writer.append_pages(CpuId(5), &pages[3 * PAGE..20 * PAGE]).unwrap();
    assert_eq!(writer.add_cpu_data(CpuId(5), &pages[20 * PAGE..]).unwrap(), 20 * PAGE as u64);
    assert!(!path.exists());
    let written = writer.finish(&meta()).unwrap();
    assert_eq!((written.pages, written.cpus_with_data), (40, 1));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left there");
    let file = TraceFile::open(&path, Mode::Strict).unwrap();
    let (events, _) = read_all(&file).unwrap();
    assert_eq!(
        events.iter().map(|event| event.time_ns).collect::<Vec<_>>(),
        (0..40).map(|i| i * 10 + 1).collect::<Vec<_>>()
    );
    assert!(events.iter().all(|event| event.cpu == CpuId(5)));
}

#[test]
fn a_writer_refuses_what_could_not_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.dat");
    let bad_page = WriteOptions { page_size: 3000, ..WriteOptions::default() };
    assert!(matches!(TraceDatWriter::create(&path, bad_page), Err(WriteError::PageSize { value: 3000 })));
    let mut writer = TraceDatWriter::create(&path, WriteOptions::default()).unwrap();
    assert!(matches!(
        writer.append_pages(CpuId(0), &[0; 100]),
        Err(WriteError::PartialPage { bytes: 100, .. })
    ));
    assert!(matches!(writer.finish(&TraceMeta::default()), Err(WriteError::MissingMeta { .. })));
    let nowhere = TraceDatWriter::create("/no/such/directory/t.dat".as_ref(), WriteOptions::default());
    assert!(nowhere.err().unwrap().to_string().contains("/no/such/directory"));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
