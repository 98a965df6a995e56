//! How is a trace freed of names that are nobody's business, without touching times and tasks?
//!
//! [`rewrite`] copies one buffer of a trace page by page. Task names (`comm`, `prev_comm`, ...: every text field whose name
//! ends so) and saved command lines go through a callback, other texts (file names, device names) through another; events
//! that are not wanted become discarded ones of the same size, so that times and order stay. What is left over on a page
//! behind its last event, in discarded events and behind the NUL of a name is wiped.
//!
//! Of the rest of the file only this is kept: header and event formats (of the wanted events), saved command lines, clock
//! and its corrections, counts of lost events, version and patch level of the kernel (the host name becomes `localhost`),
//! recording program.
//! Kernel symbols, printk formats, memory maps, session numbers, instance names are not.
//!
//! ```text
//! prev_comm=firefox prev_pid=4806 next_comm=gzip next_pid=71     comm(4806, "firefox") -> Some("other-4806")
//! prev_comm=other-4806 prev_pid=4806 next_comm=gzip next_pid=71  comm(71, "gzip")      -> None: as it is
//! ```

use crate::container::{Counts, Mode, count, invalid};
use crate::decode::Decoder;
use crate::error::{Problem, TraceError, WriteError};
use crate::event::Pid;
use crate::file::TraceFile;
use crate::format::{EventFormat, FieldKind, Number, Text};
use crate::pages::{Pages, Resident};
use crate::ring::{Step, discard, step};
use crate::write::{EventSystem, TraceDatWriter, TraceMeta, WriteOptions, WrittenTrace};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What [`rewrite`] asks.
pub trait Rewrite {
    /// The new name of thread `pid`, which is called `comm` here; `None` leaves it. It is cut to the place there is: 15
    /// bytes in most events, the old name's length where the kernel stores names with their length (`__data_loc`). Called
    /// for every event, CPU by CPU, and for the saved command lines.
    fn comm(&mut self, pid: Pid, comm: &str) -> Option<String>;

    /// The new value of any other text of a wanted event, cut to the old one's length; `None` leaves it. Unless overridden
    /// every such text is wiped.
    fn text(&mut self, event: &str, field: &str, pid: Pid, text: &str) -> Option<String> {
        let _ = (event, field, pid, text);
        Some(String::new())
    }

    /// Whether events of this kind stay. Unless overridden, those that [`crate::SchedEvent`] knows do.
    fn keep_event(&mut self, system: &str, event: &str) -> bool {
        Decoder::knows(system, event)
    }

    /// Whether the saved command line of this thread stays. Unless overridden, all of threads that occur in the events do
    /// (and no others: the kernel saves names of threads that ran long before).
    fn keep_cmdline(&mut self, pid: Pid) -> bool {
        let _ = pid;
        true
    }
}

/// What [`rewrite`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The new file.
    pub written: WrittenTrace,
    /// Events in it.
    pub events_kept: u64,
    /// Events made discarded ones, and what a lenient reader left out, by reason.
    pub counts: Counts,
}

/// Why a trace could not be rewritten.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// The source.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The target.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What to do with events of one number.
struct Plan {
    keep: bool,
    name: String,
    common_pid: Option<Number>,
    texts: Vec<TextPlan>,
}

struct TextPlan {
    field: String,
    text: Text,
    kind: FieldKind,
    /// Whose name it is; `None`: it is no name.
    pid: Option<Number>,
    is_comm: bool,
}

/// Copies buffer `buffer` of `source` to `target` under these rules. The target's name appears when it is complete.
pub fn rewrite(
    source: &TraceFile,
    buffer: usize,
    target: &Path,
    options: WriteOptions,
    rules: &mut dyn Rewrite,
) -> Result<Rewritten, RewriteError> {
    let fail = |problem| TraceError::new(source.path(), problem);
    let mut meta = source.meta(buffer);
    let (plans, common_type) = plans(&mut meta, rules).map_err(fail)?;
    let place = &source.buffers()[buffer];
    let mut counts = source.counts().clone();
    let options = WriteOptions { page_size: place.page_size, ..options };
    let mut writer = TraceDatWriter::create(target, options)?;
    let resident = Resident::default();
    let mut editor =
        PageEditor { source, plans, common_type, rules, seen: BTreeSet::new(), kept: 0, counts: &mut counts };
    for cpu in &place.cpus {
        let mut pages =
            Pages::new(source.bytes(), place, cpu, &resident, source.mode(), editor.counts).map_err(fail)?;
        while pages.next_page(source.mode(), editor.counts).map_err(fail)? {
            let at = pages.page();
            let mut page = pages.bytes()[at..at + place.page_size].to_vec();
            if editor.edit(&mut page, &pages).map_err(fail)? {
                writer.append_pages(cpu.cpu, &page)?;
            }
        }
    }
    let (events_kept, seen) = (editor.kept, editor.seen);
    clean_meta(&mut meta, &seen, rules);
    let written = writer.finish(&meta)?;
    Ok(Rewritten { written, events_kept, counts })
}

/// Decides for each event number, and leaves only the wanted formats in `meta`.
fn plans(
    meta: &mut TraceMeta,
    rules: &mut dyn Rewrite,
) -> Result<(BTreeMap<u16, Plan>, Option<Number>), Problem> {
    let mut plans = BTreeMap::new();
    let mut common_type = None;
    let mut systems = Vec::new();
    for system in std::mem::take(&mut meta.systems) {
        let mut formats = Vec::new();
        for text in system.formats {
            let Ok(format) = EventFormat::parse(&text) else { continue };
            let number = |name: &str| -> Result<Option<Number>, Problem> {
                format.field(name).map(|field| Number::of(&format.name, field)).transpose()
            };
            let keep = rules.keep_event(&system.name, &format.name);
            let mut texts = Vec::new();
            if keep {
                common_type = common_type.or(number("common_type")?);
                for field in format.fields.iter().filter(|field| field.is_text()) {
                    let owner = field.name.strip_suffix("comm");
                    let pid = match owner {
                        Some(prefix) => match number(&format!("{prefix}pid"))? {
                            Some(pid) => Some(pid),
                            None => number("pid")?,
                        },
                        None => None,
                    };
                    texts.push(TextPlan {
                        field: field.name.clone(),
                        text: Text::of(&format.name, field)?,
                        kind: field.kind,
                        pid,
                        is_comm: owner.is_some(),
                    });
                }
                formats.push(text);
            }
            let common_pid = if keep { number("common_pid")? } else { None };
            plans.insert(format.id, Plan { keep, name: format.name.clone(), common_pid, texts });
        }
        if !formats.is_empty() {
            systems.push(EventSystem { name: system.name, formats });
        }
    }
    meta.systems = systems;
    Ok((plans, common_type))
}

/// Drops from the metadata what may name people, machines or paths.
fn clean_meta(meta: &mut TraceMeta, seen: &BTreeSet<Pid>, rules: &mut dyn Rewrite) {
    const DATE: u16 = 1;
    const OFFSET: u16 = 7;
    const TSC2NSEC: u16 = 14;
    meta.ftrace_events.clear();
    meta.buffer_name.clear();
    meta.options.retain(|option| matches!(option.id, DATE | OFFSET | TSC2NSEC));
    meta.uname = meta.uname.take().map(|uname| {
        let mut words: Vec<&str> = uname.split_whitespace().collect();
        if let Some(host) = words.get_mut(1) {
            *host = "localhost";
        }
        // "6.18.44-acme-v5" as "6.18": who built it is told by the rest.
        if let Some(release) = words.get_mut(2) {
            let is_end = |(_, byte): &(usize, char)| !byte.is_ascii_digit();
            let end = release.char_indices().filter(is_end).map(|(at, _)| at).nth(1).unwrap_or(release.len());
            *release = &release[..end];
        }
        words.join(" ")
    });
    let mut cmdlines = String::new();
    for (pid, name) in crate::file::parse_cmdlines(&meta.saved_cmdlines) {
        if seen.contains(&pid) && rules.keep_cmdline(pid) {
            let name = rules.comm(pid, &name).unwrap_or(name);
            cmdlines.push_str(&format!("{pid} {name}\n"));
        }
    }
    meta.saved_cmdlines = cmdlines.into_bytes();
}

struct PageEditor<'a> {
    source: &'a TraceFile,
    plans: BTreeMap<u16, Plan>,
    common_type: Option<Number>,
    rules: &'a mut dyn Rewrite,
    /// Threads that the events kept speak of.
    seen: BTreeSet<Pid>,
    kept: u64,
    counts: &'a mut Counts,
}

impl PageEditor<'_> {
    /// Edits one page; false if it must be left out (a lenient reader met an impossible header).
    fn edit(&mut self, page: &mut [u8], pages: &Pages<'_>) -> Result<bool, Problem> {
        let format = self.source.page_format();
        let strict = self.source.mode() == Mode::Strict;
        let header = match format.header(page) {
            Ok(header) => header,
            Err(length) if strict => {
                let at = pages.place(pages.page());
                return Err(invalid(
                    at,
                    "the length of a page's events",
                    length,
                    "at most what the page has room for",
                ));
            }
            Err(_) => {
                count(self.counts, "page left out: its events are longer than it", 1);
                return Ok(false);
            }
        };
        let (mut at, end, mut clock) = (format.data, format.data + header.length, 0);
        loop {
            match step(page, at, end, &mut clock) {
                Step::Event { data, length, next } => {
                    if self.keep(&mut page[data..data + length]) {
                        page[data + length..next].fill(0); // up to the next word
                        self.kept += 1;
                    } else {
                        discard(page, at, next);
                    }
                    at = next;
                }
                Step::Skip { next } => {
                    if page[at] & 31 == 29 && next > at + 8 {
                        page[at + 8..next].fill(0); // what a discarded event said
                    }
                    at = next;
                }
                Step::End => break,
                Step::Damaged(why) if strict => {
                    let place = pages.place(pages.page() + at);
                    return Err(invalid(place, "an event", why, "an event that ends within its page's data"));
                }
                Step::Damaged(why) => {
                    count(self.counts, &format!("rest of a page left out: {why}"), 1);
                    break;
                }
            }
        }
        // What the page's events end with: unused space within its length stays unused, only wiped.
        if at < end {
            page[at..end].fill(0);
            if at + 4 <= end {
                page[at..at + 4].copy_from_slice(&29u32.to_le_bytes());
            }
        }
        let used = format.used(page, &header);
        page[used..].fill(0);
        Ok(true)
    }

    /// Edits one event's texts; false if it is not wanted.
    fn keep(&mut self, record: &mut [u8]) -> bool {
        let id = self.common_type.map_or(0, |number| number.get(record) as u16);
        let plan = match self.plans.get(&id) {
            Some(plan) if plan.keep => plan,
            Some(plan) => {
                count(self.counts, &format!("event discarded: {}", plan.name), 1);
                return false;
            }
            None => {
                count(self.counts, "event discarded: its format is not in the trace", 1);
                return false;
            }
        };
        self.seen.extend(plan.common_pid.map(|number| Pid(number.get(record) as i32)));
        for text in &plan.texts {
            let Some(range) = text.text.range(record) else {
                count(self.counts, "event discarded: its text lies outside it", 1);
                return false;
            };
            let number = text.pid.or(plan.common_pid);
            let pid = Pid(number.map_or(0, |number| number.get(record) as i32));
            self.seen.insert(pid);
            let bytes = &mut record[range];
            let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            bytes[length..].fill(0);
            let old = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let new = match text.is_comm {
                true => self.rules.comm(pid, &old),
                false => self.rules.text(&plan.name, &text.field, pid, &old),
            };
            if let Some(new) = new {
                // An array in place has its NUL; so has text with a stored length.
                let room = match text.kind {
                    FieldKind::Array | FieldKind::DataLoc | FieldKind::RelLoc => {
                        bytes.len().saturating_sub(1)
                    }
                    FieldKind::Number => 0,
                };
                bytes.fill(0);
                let new = new.as_bytes();
                let length = new.len().min(room);
                bytes[..length].copy_from_slice(&new[..length]);
            }
        }
        true
    }
}
