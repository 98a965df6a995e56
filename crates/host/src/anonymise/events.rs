//! What becomes of one event: kept, renamed, or left out?
//!
//! With [`Others::Drop`], strangers' time is shown as idle: a switch to a stranger becomes one to swapper, a
//! switch between strangers goes, and so does everything that happens to a stranger. Every CPU's chain of
//! switches stays whole:
//!
//! ```text
//! recorded   gzip -> cargo    cargo -> rustc    rustc -> gzip      (on one CPU)
//! result     gzip -> swapper                    swapper -> gzip
//! ```
//!
//! A task's own CPU times, blocks and wakes are untouched; what a stranger woke is woken by pid 0 (nobody of ours).

use std::collections::{BTreeMap, BTreeSet};

use schedlab_trace::{EventFormat, FieldKind};

use super::Others;
use super::names::{Owner, Tasks};
use super::strangers::{self, Has, Told};

/// A number's place.
#[derive(Debug, Clone, Copy)]
struct Number {
    at: usize,
    size: usize,
}

/// A text's place, and what it says.
#[derive(Debug, Clone, Copy)]
struct Text {
    at: usize,
    /// Bytes in place; `None` where the field holds place and length of text at the record's end.
    array: Option<usize>,
    role: Role,
}

#[derive(Debug, Clone, Copy)]
enum Role {
    /// The name of the task whose pid stands there.
    NameOf(Number),
    /// The file that the task whose pid stands there executes.
    Program(Number),
    /// The control group that the task whose pid stands there moves to.
    Group(Number),
    /// Anything else: emptied.
    Unknown,
}

/// Whom an event is about.
#[derive(Debug, Clone, Copy)]
enum About {
    Switch {
        prev: Side,
        next: Side,
        state: Option<Number>,
    },
    /// The task with this pid: woken, moved, born, ended.
    Subject(Number),
    /// The task that runs: a system call.
    Current,
    /// No task: an interrupt.
    Nobody,
}

#[derive(Debug, Clone, Copy)]
struct Side {
    pid: Number,
    prio: Option<Number>,
}

/// What an event's bytes mean, from its format text.
#[derive(Debug, Clone)]
struct Shape {
    common_pid: Option<Number>,
    about: About,
    texts: Vec<Text>,
    /// (parent, child) of a fork.
    fork: Option<(Number, Number)>,
    /// Bytes that every record of it has.
    fixed: usize,
}

/// All events' shapes, by their number in the trace.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    shapes: BTreeMap<u16, Shape>,
    /// The number of `schedlab:stranger`, and where its `busy` stands, if the trace tells of strangers already.
    stranger: Option<(u16, Number)>,
    /// Where every record has its event's number: `common_type`, which kernels put first.
    id_at: usize,
}

/// What the first reading collects.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub forks: BTreeSet<(i32, i32)>,
    pub pids: BTreeSet<i32>,
    /// Tasks that were moved, and the paths of the control groups to which.
    pub moves: BTreeSet<(i32, String)>,
    /// The latest name of each task, with its time.
    pub names: BTreeMap<i32, (u64, String)>,
}

impl Shapes {
    /// Adds an event; `system` is the folder its format stood in.
    pub(super) fn add(&mut self, system: &str, format: &EventFormat) {
        let number = |name: &str| {
            let field = format.field(name)?;
            (field.kind == FieldKind::Number && matches!(field.size, 1 | 2 | 4 | 8))
                .then_some(Number { at: field.offset as usize, size: field.size as usize })
        };
        let side = |prefix: &str| {
            Some(Side { pid: number(&format!("{prefix}_pid"))?, prio: number(&format!("{prefix}_prio")) })
        };
        if let Some(id) = number("common_type") {
            self.id_at = id.at;
        }
        let mut fixed = 0;
        let mut texts = Vec::new();
        for field in &format.fields {
            fixed = fixed.max(field.offset as usize + field.size as usize);
            let pid_of = |name: &str| match name.strip_suffix("comm") {
                Some(prefix) => number(&format!("{prefix}pid")).map(Role::NameOf),
                None if name == "filename" => number("pid").map(Role::Program),
                None if name == "dst_path" => number("pid").map(Role::Group),
                None => None,
            };
            if field.kind == FieldKind::Number {
                continue;
            }
            let role = pid_of(&field.name).unwrap_or(Role::Unknown);
            let array = (field.kind == FieldKind::Array).then_some(field.size as usize);
            // Arrays that hold no text (system call arguments) are numbers; text elsewhere is.
            if array.is_none() || field.is_text() {
                texts.push(Text { at: field.offset as usize, array, role });
            }
        }
        if format.name == strangers::NAME && system == strangers::SYSTEM {
            self.stranger = number("busy").map(|busy| (format.id, busy));
        }
        let fork = number("parent_pid").zip(number("child_pid"));
        let about = match (side("prev"), side("next"), fork, number("pid")) {
            (Some(prev), Some(next), _, _) => About::Switch { prev, next, state: number("prev_state") },
            (_, _, Some((_, child)), _) => About::Subject(child),
            _ if matches!(system, "irq" | "irq_vectors") => About::Nobody,
            // A system call's own "pid" is an argument.
            (_, _, _, Some(pid)) if system != "syscalls" => About::Subject(pid),
            _ => About::Current,
        };
        let shape = Shape { common_pid: number("common_pid"), about, texts, fork, fixed };
        self.shapes.insert(format.id, shape);
    }

    fn id(&self, data: &[u8]) -> Option<u16> {
        Some(u16::from_le_bytes(data.get(self.id_at..self.id_at + 2)?.try_into().ok()?))
    }

    fn of(&self, data: &[u8]) -> Option<&Shape> {
        self.shapes.get(&self.id(data)?).filter(|shape| shape.fixed <= data.len())
    }

    /// Who has the CPU; `None`: the event does not tell.
    pub(super) fn who(&self, data: &[u8], tasks: &Tasks) -> Option<Told> {
        let has = |pid: Number| match pid.get(data) {
            0 => Has::Nobody,
            pid if tasks.stays(pid, Others::Drop) => Has::Shown,
            _ => Has::Stranger,
        };
        let shape = self.of(data)?;
        if let About::Switch { prev, next, .. } = shape.about {
            return Some(Told::Switch { prev: has(prev.pid), next: has(next.pid) });
        }
        Some(Told::Current(has(shape.common_pid?)))
    }

    /// What the trace itself says: whether somebody has the CPU who is not in it.
    pub(super) fn told(&self, data: &[u8]) -> Option<bool> {
        let (id, busy) = self.stranger?;
        self.of(data).filter(|_| self.id(data) == Some(id)).map(|_| busy.get(data) != 0)
    }

    /// First reading: births, ids and names.
    pub(super) fn look(&self, time: u64, data: &[u8], seen: &mut Seen) {
        let Some(shape) = self.of(data) else { return };
        if let Some((parent, child)) = shape.fork {
            seen.forks.insert((parent.get(data), child.get(data)));
        }
        seen.pids.extend(shape.common_pid.map(|pid| pid.get(data)));
        if let About::Subject(pid) = shape.about {
            seen.pids.insert(pid.get(data));
        }
        for text in &shape.texts {
            if let Role::Group(pid) = text.role {
                seen.moves.insert((pid.get(data), text.get(data)));
            }
            if let Role::NameOf(pid) = text.role {
                let pid = pid.get(data);
                seen.pids.insert(pid);
                let name = text.get(data);
                let latest = seen.names.entry(pid).or_default();
                if latest.0 <= time {
                    *latest = (time, name);
                }
            }
        }
    }

    /// Second reading: the event as it stands in the result, or `None` if it does not.
    pub(super) fn rewrite(&self, data: &[u8], cpu: u32, tasks: &Tasks, others: Others) -> Option<Vec<u8>> {
        // An event whose meaning is not known cannot be cleared of names.
        let shape = self.of(data)?;
        let stays = |pid: Number| tasks.stays(pid.get(data), others);
        let mut numbers: Vec<(Number, i64)> = Vec::new();
        // Names are found by the pids of the result.
        let mut idle_pids: Vec<usize> = Vec::new();
        match shape.about {
            About::Nobody => {}
            About::Current => {
                shape.common_pid.filter(|pid| stays(*pid))?;
            }
            About::Subject(pid) => {
                if !stays(pid) {
                    return None;
                }
            }
            About::Switch { prev, next, state } => {
                let from_idle = !stays(prev.pid) || prev.pid.get(data) == 0;
                let to_idle = !stays(next.pid) || next.pid.get(data) == 0;
                if from_idle && to_idle {
                    return None;
                }
                for (side, state) in [(prev, state), (next, None)] {
                    if !stays(side.pid) {
                        idle_pids.push(side.pid.at);
                        numbers.push((side.pid, 0));
                        // swapper is shown with priority 120 and always runnable.
                        numbers.extend(side.prio.map(|prio| (prio, 120)));
                        numbers.extend(state.map(|state| (state, 0)));
                    }
                }
            }
        }
        if let Some(pid) = shape.common_pid.filter(|pid| !stays(*pid)) {
            numbers.push((pid, 0));
        }
        let texts: Vec<String> = shape
            .texts
            .iter()
            .map(|text| match text.role {
                Role::NameOf(pid) if idle_pids.contains(&pid.at) => format!("swapper/{cpu}"),
                Role::NameOf(pid) => tasks.name(pid.get(data), &text.get(data), cpu),
                Role::Program(pid) => program(pid.get(data), &text.get(data), tasks),
                Role::Group(_) => tasks.group(&text.get(data)),
                Role::Unknown => String::new(),
            })
            .collect();
        Some(shape.build(data, &numbers, &texts))
    }
}

impl Shape {
    /// The record with these numbers and texts; bytes behind the fields are those of the texts alone.
    fn build(&self, data: &[u8], numbers: &[(Number, i64)], texts: &[String]) -> Vec<u8> {
        // Texts at the record's end come behind the fields, as the kernel puts them; a record without any is copied at
        // the length its fields have.
        let mut out = data[..self.fixed].to_vec();
        for (number, value) in numbers {
            out[number.at..number.at + number.size].copy_from_slice(&value.to_le_bytes()[..number.size]);
        }
        for (text, value) in self.texts.iter().zip(texts) {
            match text.array {
                Some(size) => {
                    let room = &mut out[text.at..text.at + size];
                    room.fill(0);
                    // The last byte stays NUL.
                    let length = value.len().min(size.saturating_sub(1));
                    room[..length].copy_from_slice(&value.as_bytes()[..length]);
                }
                None => {
                    let (place, length) = (out.len() as u32, value.len() as u32 + 1);
                    out.extend_from_slice(value.as_bytes());
                    out.push(0);
                    out[text.at..text.at + 4].copy_from_slice(&(length << 16 | place).to_le_bytes());
                }
            }
        }
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }
}

impl Number {
    fn get(self, data: &[u8]) -> i32 {
        let mut bytes = [0; 4];
        let count = self.size.min(4);
        bytes[..count].copy_from_slice(&data[self.at..self.at + count]);
        i32::from_le_bytes(bytes)
    }
}

impl Text {
    fn get(self, data: &[u8]) -> String {
        let range = match self.array {
            Some(size) => self.at..self.at + size,
            None => {
                let word = u32::from_le_bytes(data[self.at..self.at + 4].try_into().unwrap_or_default());
                let start = (word & 0xffff) as usize;
                start..start + (word >> 16) as usize
            }
        };
        let bytes = data.get(range).unwrap_or_default();
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }
}

/// An executed file's name without its folder, for the command's own tasks.
fn program(pid: i32, path: &str, tasks: &Tasks) -> String {
    match tasks.kind_by_pid(pid) {
        Owner::Kept => path.rsplit('/').next().unwrap_or_default().to_owned(),
        _ => tasks.name(pid, "", 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
        \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n";
    const EXEC: &str = "name: sched_process_exec\nID: 8\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n";

    fn shapes() -> Shapes {
        let mut shapes = Shapes::default();
        for text in [SWITCH, EXEC] {
            shapes.add("sched", &EventFormat::parse(text.as_bytes()).expect("format"));
        }
        shapes
    }

    fn switch(prev: (&str, i32, i64), next: (&str, i32)) -> Vec<u8> {
        let mut data = vec![0u8; 64];
        let mut put = |at: usize, bytes: &[u8]| data[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &7u16.to_le_bytes());
        put(4, &prev.1.to_le_bytes());
        put(8, prev.0.as_bytes());
        put(24, &prev.1.to_le_bytes());
        put(28, &139i32.to_le_bytes());
        put(32, &prev.2.to_le_bytes());
        put(40, next.0.as_bytes());
        put(56, &next.1.to_le_bytes());
        put(60, &139i32.to_le_bytes());
        data
    }

    /// 100 is ours, 50 and 60 are strangers.
    fn tasks() -> Tasks {
        let seen = BTreeSet::from([50, 60, 100]);
        Tasks::new(&BTreeSet::from([100]), &BTreeSet::new(), &BTreeMap::new(), &seen)
    }

    #[test]
    fn strangers_are_renamed_and_nothing_else_changes() {
        let before = switch(("secret", 50, 1), ("gzip", 100));
        let after = shapes().rewrite(&before, 1, &tasks(), Others::Rename).expect("kept");
        assert_eq!(after, switch(("other-1", 50, 1), ("gzip", 100)));
    }

    #[test]
    fn strangers_time_becomes_idle_time() {
        let rewrite = |data: &[u8]| shapes().rewrite(data, 1, &tasks(), Others::Drop);
        let mut to_idle = switch(("gzip", 100, 1), ("swapper/1", 0));
        to_idle[60..64].copy_from_slice(&120i32.to_le_bytes());
        assert_eq!(rewrite(&switch(("gzip", 100, 1), ("secret", 50))), Some(to_idle));
        let mut from_idle = switch(("swapper/1", 0, 0), ("gzip", 100));
        from_idle[28..32].copy_from_slice(&120i32.to_le_bytes());
        assert_eq!(rewrite(&switch(("secret", 50, 1), ("gzip", 100))), Some(from_idle));
        for gone in [
            switch(("secret", 50, 1), ("hidden", 60)),
            switch(("swapper/1", 0, 0), ("hidden", 60)),
            switch(("hidden", 60, 2), ("swapper/1", 0)),
        ] {
            assert_eq!(rewrite(&gone), None);
        }
    }

    #[test]
    fn old_text_behind_a_name_and_folders_of_programs_go() {
        let mut data = switch(("gzip", 100, 0), ("hidden", 60));
        data[8..24].copy_from_slice(b"gzip\0old secret\0");
        let after = shapes().rewrite(&data, 0, &tasks(), Others::Rename).expect("kept");
        assert_eq!(&after[8..24], b"gzip\0\0\0\0\0\0\0\0\0\0\0\0");

        let mut exec = vec![0u8; 16];
        exec[0..2].copy_from_slice(&8u16.to_le_bytes());
        exec[12..16].copy_from_slice(&100i32.to_le_bytes());
        let path = b"/home/someone/bin/gzip\0";
        exec[8..12].copy_from_slice(&((path.len() as u32) << 16 | 16).to_le_bytes());
        exec.extend_from_slice(path);
        let after = shapes().rewrite(&exec, 0, &tasks(), Others::Rename).expect("kept");
        assert_eq!(&after[16..], b"gzip\0\0\0\0");
        assert_eq!(u32::from_le_bytes(after[8..12].try_into().expect("4")), 5 << 16 | 16);
    }

    #[test]
    fn an_unknown_event_is_left_out() {
        assert_eq!(shapes().rewrite(&[9, 0, 0, 0], 0, &tasks(), Others::Rename), None);
        assert_eq!(shapes().rewrite(&[7, 0, 0, 0], 0, &tasks(), Others::Rename), None, "too short");
    }
}
