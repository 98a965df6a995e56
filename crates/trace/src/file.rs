//! What is in this trace file, and which of its buffers has the scheduler's events?

use crate::bytes::Bytes;
use crate::container::{self, Buffer, BufferStats, Contents, Counts, Mode};
use crate::decode::Decoder;
use crate::error::{Problem, TraceError};
use crate::event::Pid;
use crate::ring::PageFormat;
use crate::stream::{EventStream, TimeScale};
use crate::write::{EventSystem, RawOption, TraceMeta};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An opened trace.dat. The pages stay in the file (mapped into memory) until they are read.
pub struct TraceFile {
    pub(crate) path: Option<PathBuf>,
    pub(crate) bytes: Bytes,
    mode: Mode,
    contents: Contents,
    page_format: PageFormat,
    cmdlines: BTreeMap<Pid, String>,
}

impl TraceFile {
    /// Opens a trace and reads all but its pages.
    ///
    /// The file must not be shortened while it is open (the system would end the process with SIGBUS): recordings are
    /// renamed into place when they are complete, and this is how [`crate::write`] does it.
    pub fn open(path: &Path, mode: Mode) -> Result<TraceFile, TraceError> {
        let bytes = Bytes::open(path).map_err(|problem| TraceError::new(Some(path), problem))?;
        TraceFile::parse(Some(path), bytes, mode)
    }

    /// A trace in memory.
    pub fn from_bytes(bytes: Vec<u8>, mode: Mode) -> Result<TraceFile, TraceError> {
        TraceFile::parse(None, Bytes::Owned(bytes), mode)
    }

    pub(crate) fn parse(path: Option<&Path>, bytes: Bytes, mode: Mode) -> Result<TraceFile, TraceError> {
        let fail = |problem| TraceError::new(path, problem);
        let contents = container::parse(bytes.as_slice(), mode).map_err(fail)?;
        let page_format = PageFormat::parse(&contents.header_page).map_err(fail)?;
        let cmdlines = parse_cmdlines(&contents.cmdlines);
        Ok(TraceFile { path: path.map(Path::to_path_buf), bytes, mode, contents, page_format, cmdlines })
    }

    /// The scheduler's events of all CPUs in order of time, then CPU; from the buffer with sched events, or
    /// if several have some, from the one with most bytes.
    ///
    /// # Errors
    /// [`Problem::NoSchedEvents`], [`Problem::Unsupported`] for a clock that does not count time, [`Problem::Format`].
    pub fn events(&self) -> Result<EventStream<'_>, TraceError> {
        let fail = |problem| TraceError::new(self.path.as_deref(), problem);
        let decoder = self.decoder().map_err(fail)?;
        let (index, ignored) = self.sched_buffer(&decoder).map_err(fail)?;
        let mut stream = self.stream(index, decoder).map_err(fail)?;
        container::count(&mut stream.counts, "other buffer with sched events, ignored", ignored);
        Ok(stream)
    }

    /// The events of one buffer of [`TraceFile::buffers`], whether or not it has sched events.
    pub fn events_of(&self, buffer: usize) -> Result<EventStream<'_>, TraceError> {
        self.decoder()
            .and_then(|decoder| self.stream(buffer, decoder))
            .map_err(|problem| TraceError::new(self.path.as_deref(), problem))
    }

    fn stream(&self, buffer: usize, decoder: Decoder) -> Result<EventStream<'_>, Problem> {
        let scale = self.time_scale(&self.contents.buffers[buffer])?;
        EventStream::new(self, buffer, decoder, scale)
    }

    fn decoder(&self) -> Result<Decoder, Problem> {
        let decoder = Decoder::for_systems(&self.contents.systems)?;
        Ok(decoder.with_print(&self.contents.ftrace_events))
    }

    /// The buffer with sched events, and how many others have some.
    fn sched_buffer(&self, decoder: &Decoder) -> Result<(usize, u64), Problem> {
        let mut order: Vec<usize> = (0..self.contents.buffers.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(self.contents.buffers[*index].stored_bytes()));
        let mut found = Vec::new();
        for index in order {
            if self.contents.buffers[index].stored_bytes() > 0
                && EventStream::has_switch(self, index, decoder)?
            {
                found.push(index);
            }
        }
        match found.first() {
            Some(index) => Ok((*index, found.len() as u64 - 1)),
            None => {
                let bytes: u64 = self.contents.buffers.iter().map(Buffer::stored_bytes).sum();
                let text = &self.contents.options.text_buffers;
                let detail = match (bytes, text.len()) {
                    (0, 0) => format!("none of the {} buffers has any data", self.contents.buffers.len()),
                    (0, _) => "the trace holds text only".to_string(),
                    _ => format!("{bytes} bytes of pages hold not one sched_switch"),
                };
                Err(Problem::NoSchedEvents { detail })
            }
        }
    }

    fn time_scale(&self, buffer: &Buffer) -> Result<TimeScale, Problem> {
        let options = &self.contents.options;
        match buffer.clock.as_str() {
            // Counts of events or of timer ticks: no time can be had from them.
            clock @ ("counter" | "uptime") => Err(Problem::Unsupported {
                at: crate::error::Place::at(buffer.cpus.first().map_or(0, |cpu| cpu.offset)),
                what: "the clock",
                value: format!("\"{clock}\""),
                remedy: "record again with `echo mono > trace_clock`",
            }),
            clock @ ("x86-tsc" | "ppc-tb") if options.tsc.is_none() => Err(Problem::Unsupported {
                at: crate::error::Place::at(buffer.cpus.first().map_or(0, |cpu| cpu.offset)),
                what: "the clock",
                value: format!("\"{clock}\" without its rate (option TSC2NSEC)"),
                remedy: "record again with `echo mono > trace_clock`",
            }),
            _ => Ok(TimeScale { tsc: options.tsc, offset_ns: options.offset_ns }),
        }
    }

    /// The buffer that [`TraceFile::events`] reads.
    pub fn sched_buffer_index(&self) -> Result<usize, TraceError> {
        let found = self.decoder().and_then(|decoder| self.sched_buffer(&decoder));
        found.map(|(index, _)| index).map_err(|problem| TraceError::new(self.path.as_deref(), problem))
    }

    /// Version of the file format, 6 or 7.
    pub fn version(&self) -> u32 {
        self.contents.version
    }
    /// Its buffers, as in the file.
    pub fn buffers(&self) -> &[Buffer] {
        &self.contents.buffers
    }
    /// Number of CPUs of the traced system, where the file tells.
    pub fn cpu_count(&self) -> Option<u32> {
        self.contents.options.cpu_count
    }
    /// `uname` of the traced system: system, host name, release, machine.
    pub fn uname(&self) -> Option<&str> {
        self.contents.options.uname.as_deref()
    }
    /// Version of the program that recorded.
    pub fn tool(&self) -> Option<&str> {
        self.contents.options.tool.as_deref()
    }
    /// The kernel's own counts of written and lost events of one buffer, per CPU.
    pub fn cpu_stats(&self, buffer: usize) -> impl Iterator<Item = BufferStats> {
        let name = self.contents.buffers[buffer].name.as_str();
        let stats = self.contents.options.cpu_stats.iter();
        stats.filter(move |(buffer, _)| buffer == name).map(|(_, stats)| *stats)
    }
    /// Names that the kernel had saved, by thread.
    pub fn cmdlines(&self) -> &BTreeMap<Pid, String> {
        &self.cmdlines
    }
    /// Format texts of the events, by system.
    pub fn systems(&self) -> &[EventSystem] {
        &self.contents.systems
    }
    /// What a lenient [`TraceFile::open`] found missing, by reason.
    pub fn counts(&self) -> &Counts {
        &self.contents.counts
    }
    /// How damage is treated.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Everything besides the pages of one buffer, ready to be written again; kernel symbols and printk formats are
    /// left out.
    pub fn meta(&self, buffer: usize) -> TraceMeta {
        let cpu_stats = self.cpu_stats(buffer).map(|stats| stats.text()).collect();
        let buffer = &self.contents.buffers[buffer];
        let highest = buffer.cpus.iter().map(|cpu| cpu.cpu.0 + 1).max().unwrap_or(0);
        let known = [2, 4, 5, 9]; // CPUSTAT, TRACECLOCK, UNAME, VERSION have fields of their own
        let options = &self.contents.options;
        TraceMeta {
            header_page: self.contents.header_page.clone(),
            header_event: self.contents.header_event.clone(),
            ftrace_events: self.contents.ftrace_events.clone(),
            systems: self.contents.systems.clone(),
            saved_cmdlines: self.contents.cmdlines.clone(),
            long_size: self.contents.long_size,
            page_size: self.contents.page_size,
            cpus: options.cpu_count.unwrap_or(0).max(highest),
            clock: buffer.clock.clone(),
            buffer_name: buffer.name.clone(),
            uname: options.uname.clone(),
            tool: options.tool.clone(),
            cpu_stats,
            options: options
                .raw
                .iter()
                .filter(|option| !known.contains(&option.id))
                .cloned()
                .collect::<Vec<RawOption>>(),
            ..TraceMeta::default()
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
    pub(crate) fn page_format(&self) -> PageFormat {
        self.page_format
    }
}

/// Lines `PID NAME`; names may hold blanks.
pub(crate) fn parse_cmdlines(text: &[u8]) -> BTreeMap<Pid, String> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| line.trim_start().split_once(' '))
        .filter_map(|(pid, name)| Some((Pid(pid.parse().ok()?), name.trim_end_matches('\0').to_string())))
        .collect()
}
