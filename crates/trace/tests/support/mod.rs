//! Pages, formats and whole traces made by hand. The fields stand at other places than in any kernel, so that
//! a reader that knows them in advance fails.

#![allow(dead_code)] // each test file uses its part

use schedlab_trace::write::{EventSystem, TraceDatWriter, TraceMeta, WriteOptions};
use schedlab_trace::{EventStream, Mode, TraceError, TraceEvent, TraceFile};
use schedlab_units::CpuId;
use std::path::PathBuf;

pub const PAGE: usize = 4096;

/// A file of tests/data.
pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

fn format(name: &str, id: u16, fields: &[(&str, u32, u32, u32)], print_fmt: &str) -> Vec<u8> {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    for (declaration, offset, size, signed) in [
        ("int common_pid", 0, 4, 1),
        ("unsigned short common_type", 4, 2, 0),
        ("unsigned char common_flags", 6, 1, 0),
        ("unsigned char common_preempt_count", 7, 1, 0),
    ]
    .iter()
    .chain(fields)
    {
        text += &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
    }
    format!("{text}\nprint fmt: {print_fmt}\n").into_bytes()
}

pub const SWITCH: u16 = 11;
pub const WAKING: u16 = 12;
pub const FORK: u16 = 13;

/// `prev_state` here: 1 S, 2 D, 4 Z, plus bit 8.
pub fn systems() -> Vec<EventSystem> {
    let switch = format(
        "sched_switch",
        SWITCH,
        &[
            ("int next_prio", 8, 2, 1),
            ("int prev_prio", 10, 2, 1),
            ("unsigned int prev_state", 12, 4, 0),
            ("pid_t next_pid", 16, 8, 1),
            ("pid_t prev_pid", 24, 4, 1),
            ("char next_comm[8]", 28, 8, 0),
            ("char prev_comm[16]", 36, 16, 0),
        ],
        r#""%s", REC->prev_state & (8-1) ? __print_flags(REC->prev_state & (8-1), "|", { 1, "S" }, { 2, "D" }, { 4, "Z" }) : "R", REC->prev_state & 8 ? "+" : """#,
    );
    let waking = format(
        "sched_waking",
        WAKING,
        &[
            ("pid_t pid", 8, 4, 1),
            ("int prio", 12, 4, 1),
            ("int target_cpu", 16, 4, 1),
            ("char comm[16]", 20, 16, 0),
        ],
        "\"\"",
    );
    let fork = format(
        "sched_process_fork",
        FORK,
        &[
            ("pid_t child_pid", 8, 4, 1),
            ("__data_loc char[] parent_comm", 12, 4, 0),
            ("__data_loc char[] child_comm", 16, 4, 0),
            ("pid_t parent_pid", 20, 4, 1),
        ],
        "\"\"",
    );
    vec![EventSystem { name: "sched".to_string(), formats: vec![switch, waking, fork] }]
}

pub fn meta() -> TraceMeta {
    TraceMeta {
        header_page: HEADER_PAGE.as_bytes().to_vec(),
        header_event: b"# compressed entry header\n".to_vec(),
        systems: systems(),
        saved_cmdlines: b"7 seven\n8 eight of them\n".to_vec(),
        cpus: 4,
        clock: "mono".to_string(),
        ..TraceMeta::default()
    }
}

fn common(pid: i32, id: u16, flags: u8) -> Vec<u8> {
    let mut record = pid.to_le_bytes().to_vec();
    record.extend_from_slice(&id.to_le_bytes());
    record.extend_from_slice(&[flags, 3]);
    record
}

fn text<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

pub fn switch(prev: i32, prev_state: u32, next: i32) -> Vec<u8> {
    let mut record = common(prev, SWITCH, 0);
    record.extend_from_slice(&120i16.to_le_bytes());
    record.extend_from_slice(&(-1i16).to_le_bytes());
    record.extend_from_slice(&prev_state.to_le_bytes());
    record.extend_from_slice(&i64::from(next).to_le_bytes());
    record.extend_from_slice(&prev.to_le_bytes());
    record.extend_from_slice(&text::<8>(&format!("n{next}")));
    record.extend_from_slice(&text::<16>(&format!("p{prev}")));
    record
}

pub fn waking(waker: i32, flags: u8, pid: i32) -> Vec<u8> {
    let mut record = common(waker, WAKING, flags);
    for number in [pid, 120, 2] {
        record.extend_from_slice(&number.to_le_bytes());
    }
    record.extend_from_slice(&text::<16>(&format!("w{pid}")));
    record
}

pub fn fork(parent: i32, child: i32, parent_comm: &str, child_comm: &str) -> Vec<u8> {
    let mut record = common(parent, FORK, 0);
    let (a, b) = (parent_comm.len() as u32 + 1, child_comm.len() as u32 + 1);
    record.extend_from_slice(&child.to_le_bytes());
    record.extend_from_slice(&(a << 16 | 24).to_le_bytes());
    record.extend_from_slice(&(b << 16 | (24 + a)).to_le_bytes());
    record.extend_from_slice(&parent.to_le_bytes());
    record.extend_from_slice(format!("{parent_comm}\0{child_comm}\0").as_bytes());
    record
}

/// One ring-buffer page.
pub struct Page {
    timestamp: u64,
    events: Vec<u8>,
    flags: u64,
    lost: Option<u64>,
}

impl Page {
    pub fn at(timestamp: u64) -> Page {
        Page { timestamp, events: Vec::new(), flags: 0, lost: None }
    }
    fn word(&mut self, type_len: u32, delta: u32) {
        self.events.extend_from_slice(&(delta << 5 | type_len).to_le_bytes());
    }
    pub fn event(mut self, delta: u32, record: &[u8]) -> Page {
        let words = record.len().div_ceil(4);
        if words <= 28 {
            self.word(words as u32, delta);
        } else {
            self.word(0, delta);
            self.events.extend_from_slice(&(record.len() as u32 + 4).to_le_bytes());
        }
        self.events.extend_from_slice(record);
        self.events.resize(self.events.len().next_multiple_of(4), 0);
        self
    }
    pub fn time_extend(mut self, delta: u64) -> Page {
        self.word(30, (delta & 0x7ff_ffff) as u32);
        self.events.extend_from_slice(&((delta >> 27) as u32).to_le_bytes());
        self
    }
    pub fn time_stamp(mut self, clock: u64) -> Page {
        self.word(31, (clock & 0x7ff_ffff) as u32);
        self.events.extend_from_slice(&((clock >> 27) as u32).to_le_bytes());
        self
    }
    pub fn raw(mut self, bytes: &[u8]) -> Page {
        self.events.extend_from_slice(bytes);
        self
    }
    pub fn lost(mut self, count: Option<u64>) -> Page {
        self.flags = 1 << 31 | if count.is_some() { 1 << 30 } else { 0 };
        self.lost = count;
        self
    }
    pub fn bytes(&self) -> Vec<u8> {
        let mut page = self.timestamp.to_le_bytes().to_vec();
        page.extend_from_slice(&(self.events.len() as u64 | self.flags).to_le_bytes());
        page.extend_from_slice(&self.events);
        page.extend(self.lost.iter().flat_map(|count| count.to_le_bytes()));
        assert!(page.len() <= PAGE);
        page.resize(PAGE, 0xaa); // what was there before
        page
    }
}

/// A whole trace in memory.
pub fn trace(meta: &TraceMeta, options: WriteOptions, cpus: &[(u32, Vec<Page>)]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.dat");
    let mut writer = TraceDatWriter::create(&path, options).unwrap();
    for (cpu, pages) in cpus {
        let pages: Vec<u8> = pages.iter().flat_map(Page::bytes).collect();
        writer.append_pages(CpuId(*cpu), &pages).unwrap();
    }
    let written = writer.finish(meta).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(written.file_bytes, bytes.len() as u64);
    bytes
}

/// All events, and the stream at its end.
pub fn read_all(file: &TraceFile) -> Result<(Vec<TraceEvent>, EventStream<'_>), TraceError> {
    let mut stream = file.events()?;
    let mut events = Vec::new();
    while let Some(event) = stream.next_event()? {
        events.push(event);
    }
    Ok((events, stream))
}

pub fn open(bytes: &[u8], mode: Mode) -> Result<TraceFile, TraceError> {
    TraceFile::from_bytes(bytes.to_vec(), mode)
}
