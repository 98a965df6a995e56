//! When did somebody have a CPU who is left out of the recording?
//!
//! With [`Others::Drop`](super::Others::Drop) a stranger's time is shown as idle. Without more nobody could say whether
//! the program had the machine to itself. So an event of ours says when a stranger takes a CPU and when the last one
//! leaves it: never who, nor how many there were.
//!
//! ```text
//! recorded   gzip -> cargo                 cargo -> rustc    rustc -> gzip
//! result     gzip -> swapper  stranger 1                     stranger 0  swapper -> gzip
//! ```

use super::events::Shapes;
use super::names::Tasks;
use schedlab_trace::write::EventSystem;
use schedlab_trace::{EventFormat, Field, FieldKind};

/// The event's folder under `events`, and its name there.
pub(super) const SYSTEM: &str = "schedlab";
pub(super) const NAME: &str = "stranger";

/// The event: its number, and where its fields stand.
#[derive(Debug, Clone)]
pub(super) struct StrangerEvent {
    id: u16,
    id_at: usize,
    busy_at: usize,
    format: Vec<u8>,
}

impl StrangerEvent {
    /// The event for a trace with these formats: behind the fields that every event has there, with a number that none
    /// of them has. `None`: no event is described.
    pub(super) fn new(formats: &[EventFormat]) -> Option<StrangerEvent> {
        let id = formats.iter().map(|format| format.id).max()?.checked_add(1)?;
        let model = formats.iter().find(|format| format.field("common_type").is_some())?;
        let common = || model.fields.iter().filter(|field| field.name.starts_with("common_"));
        let end = common().map(|field| field.offset + field.size).max()?;
        let busy_at = (end as usize).next_multiple_of(4);
        let mut text = format!("name: {NAME}\nID: {id}\nformat:\n");
        for field in common().filter(|field| field.kind == FieldKind::Number) {
            let signed = u8::from(field.signed);
            let Field { ctype, name, offset, size, .. } = field;
            text.push_str(&format!(
                "\tfield:{ctype} {name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
            ));
        }
        text.push_str(&format!("\n\tfield:unsigned int busy;\toffset:{busy_at};\tsize:4;\tsigned:0;\n\n"));
        text.push_str("print fmt: \"busy=%u\", REC->busy\n");
        let id_at = model.field("common_type")?.offset as usize;
        Some(StrangerEvent { id, id_at, busy_at, format: text.into_bytes() })
    }

    /// Among the trace's formats, in place of an earlier one.
    pub(super) fn describe(self, systems: &mut Vec<EventSystem>) {
        let earlier = format!("name: {NAME}\n");
        for system in systems.iter_mut().filter(|system| system.name == SYSTEM) {
            system.formats.retain(|format| !format.starts_with(earlier.as_bytes()));
        }
        match systems.iter_mut().find(|system| system.name == SYSTEM) {
            Some(ours) => ours.formats.push(self.format),
            None => systems.push(EventSystem { name: SYSTEM.to_owned(), formats: vec![self.format] }),
        }
    }

    /// A record of it, in the context of the idle task.
    pub(super) fn record(&self, busy: bool) -> Vec<u8> {
        let mut data = vec![0; self.busy_at + 4];
        data[self.id_at..self.id_at + 2].copy_from_slice(&self.id.to_le_bytes());
        data[self.busy_at] = u8::from(busy);
        data
    }
}

/// Who has a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Has {
    /// A task that stays in the result.
    Shown,
    Nobody,
    Stranger,
}

/// Who has a CPU before an event and behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Switch { prev: Has, next: Has },
    Current(Has),
}

/// What is known of strangers on one CPU.
#[derive(Debug, Default)]
pub(super) struct StrangersHere {
    /// Said last in the result; `None`: nothing yet.
    said: Option<bool>,
    /// Since when, if somebody has it.
    since_ns: Option<u64>,
    /// How long somebody had it, in ns.
    pub busy_ns: u64,
}

/// What the result says of strangers before an event and behind it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub before: Option<bool>,
    pub behind: Option<bool>,
}

impl StrangersHere {
    /// What is to be said at this event: where the CPU is shown as idle, and only what is new. The trace goes by its
    /// switches; whose coming no switch tells is not put in.
    pub(super) fn at(&mut self, time_ns: u64, data: &[u8], shapes: &Shapes, tasks: &Tasks) -> Said {
        if let Some(busy) = shapes.told(data) {
            return Said { before: self.says(time_ns, busy), behind: None };
        }
        match shapes.who(data, tasks) {
            Some(Told::Switch { prev: Has::Stranger, next: Has::Stranger }) => {
                Said { before: None, behind: self.says(time_ns, true) }
            }
            Some(Told::Switch { prev, next }) => {
                let said = self.said;
                let over = self.says(time_ns, false).filter(|_| said == Some(true) && prev != Has::Shown);
                let behind = match next {
                    Has::Stranger => self.says(time_ns, true),
                    Has::Nobody => said.is_none().then_some(false),
                    Has::Shown => None,
                };
                Said { before: over, behind }
            }
            Some(Told::Current(has)) if self.said.is_none() && has != Has::Shown => {
                Said { before: self.says(time_ns, has == Has::Stranger), behind: None }
            }
            _ => Said::default(),
        }
    }

    /// It is so from now on: `Some` if that is news.
    fn says(&mut self, time_ns: u64, busy: bool) -> Option<bool> {
        if self.said.replace(busy) == Some(busy) {
            return None;
        }
        match self.since_ns.take() {
            None if busy => self.since_ns = Some(time_ns),
            Some(since_ns) => self.busy_ns += time_ns.saturating_sub(since_ns),
            None => {}
        }
        Some(busy)
    }

    /// The recording ends.
    pub(super) fn end(&mut self, time_ns: u64) {
        if let Some(since_ns) = self.since_ns.take() {
            self.busy_ns += time_ns.saturating_sub(since_ns);
        }
    }
}
