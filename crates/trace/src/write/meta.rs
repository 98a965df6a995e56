//! What must stand beside the pages so that they can be read: formats, names, clock.

use crate::error::WriteError;
use std::fs;
use std::io::Read;
use std::path::Path;

/// The events of one system, e.g. `sched`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSystem {
    /// Name of its directory under `events/`.
    pub name: String,
    /// Text of each event's `format` file.
    pub formats: Vec<Vec<u8>>,
}

/// An option of trace.dat, for what [`TraceMeta`] has no field for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawOption {
    /// The option's number in `man trace-cmd.dat`.
    pub id: u16,
    /// Its data, in the file's byte order.
    pub data: Vec<u8>,
}

/// Everything in a trace.dat besides the pages. Texts are those of the tracefs files of the same name.
///
/// Nothing here names the machine unless the caller puts it in: see [`TraceMeta::uname`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceMeta {
    /// `events/header_page`: layout of a page's header.
    pub header_page: Vec<u8>,
    /// `events/header_event`: layout of an event's header.
    pub header_event: Vec<u8>,
    /// `format` files of `events/ftrace/*` (may be empty).
    pub ftrace_events: Vec<Vec<u8>>,
    /// All other events that occur in the pages.
    pub systems: Vec<EventSystem>,
    /// `/proc/kallsyms` (may be empty; needed only for symbol names in reports).
    pub kallsyms: Vec<u8>,
    /// `printk_formats` (may be empty).
    pub printk_formats: Vec<u8>,
    /// `saved_cmdlines`: a line `PID NAME` per task.
    pub saved_cmdlines: Vec<u8>,
    /// Bytes of a C `long` in the traced system's user space, 4 or 8.
    pub long_size: u8,
    /// Memory page size of the traced system.
    pub page_size: u32,
    /// Number of CPUs of the traced system; at least the highest CPU with data + 1.
    pub cpus: u32,
    /// Clock of the timestamps, as selected in `trace_clock` (e.g. `mono`).
    pub clock: String,
    /// Name of the tracefs instance; empty for the top one. Reports prefix lines with it, so empty is friendlier.
    pub buffer_name: String,
    /// `uname -snrm`, where the host name has been replaced.
    pub uname: Option<String>,
    /// Program that made the recording, with version.
    pub tool: Option<String>,
    /// `per_cpu/cpuN/stats` of each CPU, in order: entries, overruns, lost events.
    pub cpu_stats: Vec<String>,
    /// Further options, written as they are.
    pub options: Vec<RawOption>,
}

impl Default for TraceMeta {
    fn default() -> Self {
        TraceMeta {
            header_page: Vec::new(),
            header_event: Vec::new(),
            ftrace_events: Vec::new(),
            systems: Vec::new(),
            kallsyms: Vec::new(),
            printk_formats: Vec::new(),
            saved_cmdlines: Vec::new(),
            long_size: 8,
            page_size: 4096,
            cpus: 0,
            clock: "local".to_string(),
            buffer_name: String::new(),
            uname: None,
            tool: None,
            cpu_stats: Vec::new(),
            options: Vec::new(),
        }
    }
}

impl TraceMeta {
    /// Reads the description of a recording in `instance` (a directory `instances/X`, or `tracefs` itself)
    /// from tracefs. `keep(system, event)` says which events' formats are wanted: all that were enabled, at
    /// least.
    ///
    /// The host name is replaced by `localhost`; `kallsyms` stays empty. Call it after the recording and before the
    /// instance is removed, so that saved_cmdlines and stats are complete.
    ///
    /// # Errors
    /// [`WriteError::Io`] naming the file that could not be read.
    pub fn from_tracefs(
        tracefs: &Path,
        instance: &Path,
        mut keep: impl FnMut(&str, &str) -> bool,
    ) -> Result<TraceMeta, WriteError> {
        let events = tracefs.join("events");
        let mut meta = TraceMeta {
            header_page: read_first(&[&instance.join("events/header_page"), &events.join("header_page")])?,
            header_event: read(&events.join("header_event"))?,
            // Only the top instance has these two, and the second not on every kernel.
            saved_cmdlines: read(&tracefs.join("saved_cmdlines"))?,
            printk_formats: read(&tracefs.join("printk_formats")).unwrap_or_default(),
            clock: selected_clock(&String::from_utf8_lossy(&read(&instance.join("trace_clock"))?))
                .to_string(),
            tool: Some(concat!("schedlab ", env!("CARGO_PKG_VERSION")).to_string()),
            long_size: size_of::<std::ffi::c_long>() as u8,
            ..TraceMeta::default()
        };
        if let Ok(release) = fs::read_to_string("/proc/sys/kernel/osrelease") {
            meta.uname = Some(format!("Linux localhost {} {}", release.trim(), std::env::consts::ARCH));
        }
        for system in sorted_directories(&events)? {
            let directory = events.join(&system);
            let mut formats = Vec::new();
            for event in sorted_directories(&directory)? {
                if keep(&system, &event) {
                    formats.push(read(&directory.join(&event).join("format"))?);
                }
            }
            match (system.as_str(), formats.is_empty()) {
                (_, true) => {}
                ("ftrace", _) => meta.ftrace_events = formats,
                _ => meta.systems.push(EventSystem { name: system, formats }),
            }
        }
        for cpu in 0.. {
            match fs::read_to_string(instance.join(format!("per_cpu/cpu{cpu}/stats"))) {
                Ok(text) => meta.cpu_stats.push(format!("CPU: {cpu}\n{text}")),
                Err(_) if cpu > 0 => break,
                Err(source) => {
                    let path = instance.join("per_cpu/cpu0/stats");
                    return Err(WriteError::Io { action: "reading", path, source });
                }
            }
        }
        meta.cpus = meta.cpu_stats.len() as u32;
        Ok(meta)
    }

    /// A trace without these could not be read again.
    pub(super) fn check(&self) -> Result<(), WriteError> {
        if self.header_page.is_empty() {
            return Err(WriteError::MissingMeta { what: "header_page" });
        }
        if self.systems.is_empty() {
            return Err(WriteError::MissingMeta { what: "systems (event formats)" });
        }
        Ok(())
    }

    /// The options both versions share, `(number, data)`, in trace-cmd's order. 4 TRACECLOCK, 5 UNAME, 9 VERSION,
    /// 2 CPUSTAT, 8 CPUCOUNT.
    pub(super) fn common_options(&self) -> Vec<(u16, Vec<u8>)> {
        let text = |text: &str| [text.as_bytes(), b"\0"].concat();
        let mut options = vec![(4, text(&format!("[{}]", self.clock)))];
        options.extend(self.uname.iter().map(|uname| (5, text(uname))));
        options.extend(self.tool.iter().map(|tool| (9, text(tool))));
        options.extend(self.cpu_stats.iter().map(|stats| (2, text(stats))));
        options.extend(self.options.iter().map(|option| (option.id, option.data.clone())));
        options.push((8, self.cpus.to_le_bytes().to_vec()));
        options
    }
}

/// The bracketed word of `[local] global mono`; the whole text if none is.
pub(crate) fn selected_clock(text: &str) -> &str {
    let text = text.trim_matches(['\0', '\n', ' ']);
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(clock, _)| clock)
}

/// Reads a tracefs file whole. `header_page` and `header_event` give all they have to the first read and nothing to the
/// next (the kernel's `show_header`), so that `fs::read`, which begins with 32 bytes, would get just these 32.
fn read(path: &Path) -> Result<Vec<u8>, WriteError> {
    let io = |source| WriteError::Io { action: "reading", path: path.to_path_buf(), source };
    let mut file = fs::File::open(path).map_err(io)?;
    let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(text),
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io(error)),
        }
    }
}

fn read_first(paths: &[&Path]) -> Result<Vec<u8>, WriteError> {
    let mut result = read(paths[0]);
    for path in &paths[1..] {
        if result.is_err() {
            result = read(path);
        }
    }
    result
}

fn sorted_directories(path: &Path) -> Result<Vec<String>, WriteError> {
    let io = |source| WriteError::Io { action: "listing", path: path.to_path_buf(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(io)? {
        let entry = entry.map_err(io)?;
        if entry.file_type().map_err(io)?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}
