//! Where does a running kernel keep a task's pid? Its own description of its types (BTF, /sys/kernel/btf/vmlinux) tells.
//!
//! ```text
//! header: magic eb9f, version, flags, length; places of types and strings
//! types:  name, kind and count, size or type; then by kind members, parameters, ... Number 1 is the first.
//! ```
//!
//! Only what loading the recorder's programs needs: types by name and kind, members with their offsets (through unnamed structs
//! too), parameters of functions. The format is in include/uapi/linux/btf.h.

use std::collections::BTreeMap;

/// A type's number.
pub(super) type TypeId = u32;

/// Kinds of types that are asked for (BTF_KIND_*).
pub(super) mod kind {
    pub const PTR: u32 = 2;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const TYPE_TAG: u32 = 18;
}

const MAGIC: u16 = 0xeb9f;

/// The kernel's types.
pub(super) struct Btf {
    data: Vec<u8>,
    /// Where each type begins; number 0 is void.
    starts: Vec<u32>,
    strings: usize,
    strings_end: usize,
}

/// Bytes behind a type's first twelve.
fn trailing(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,              // INT, VAR, DECL_TAG
        3 => 12,                       // ARRAY
        4 | 5 | 15 | 19 => count * 12, // STRUCT, UNION, DATASEC, ENUM64
        6 | 13 => count * 8,           // ENUM, FUNC_PROTO
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

impl Btf {
    /// Parses; the reason if it is no BTF that this reader knows.
    pub(super) fn parse(data: Vec<u8>) -> Result<Btf, &'static str> {
        let word = |at: usize| {
            data.get(at..at + 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        let header = || Some((word(4)?, word(8)?, word(12)?, word(16)?, word(20)?));
        let Some((length, types, types_length, strings, strings_length)) = header() else {
            return Err("it is too short for a header");
        };
        if data[..2] != MAGIC.to_le_bytes() {
            return Err("it does not begin with BTF's magic number");
        }
        let (types, strings) = (length as usize + types as usize, length as usize + strings as usize);
        let (end, strings_end) = (types + types_length as usize, strings + strings_length as usize);
        if end > data.len() || strings_end > data.len() {
            return Err("it ends before its types or names do");
        }
        let mut starts = vec![0];
        let mut at = types;
        while at < end {
            let info = word(at + 4).ok_or("a type is cut short")?;
            starts.push(at as u32);
            let more = trailing(info >> 24 & 0x1f, (info & 0xffff) as usize);
            at += 12 + more.ok_or("it has a kind of type that is not known")?;
        }
        if at != end {
            return Err("its last type is cut short");
        }
        Ok(Btf { data, starts, strings, strings_end })
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = self.data.get(at..at + 4).unwrap_or(&[0; 4]);
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn name_at(&self, offset: u32) -> &[u8] {
        let start = self.strings + offset as usize;
        let bytes = self.data.get(start..self.strings_end).unwrap_or_default();
        &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
    }

    fn start(&self, id: TypeId) -> Option<usize> {
        self.starts.get(id as usize).filter(|_| id > 0).map(|start| *start as usize)
    }

    fn kind(&self, id: TypeId) -> u32 {
        self.start(id).map_or(0, |start| self.word(start + 4) >> 24 & 0x1f)
    }

    fn count(&self, id: TypeId) -> usize {
        self.start(id).map_or(0, |start| (self.word(start + 4) & 0xffff) as usize)
    }

    /// What it is a pointer to, another name for, ...
    fn target(&self, id: TypeId) -> TypeId {
        self.start(id).map_or(0, |start| self.word(start + 8))
    }

    /// Numbers of the types with these kinds and names, in one pass over all.
    pub(super) fn find(&self, wanted: &[(u32, &str)]) -> BTreeMap<(u32, String), TypeId> {
        let names: BTreeMap<(u32, &[u8]), &str> =
            wanted.iter().map(|(kind, name)| ((*kind, name.as_bytes()), *name)).collect();
        let mut found = BTreeMap::new();
        for (id, &start) in self.starts.iter().enumerate().skip(1) {
            let kind = self.word(start as usize + 4) >> 24 & 0x1f;
            if !matches!(kind, kind::STRUCT | kind::TYPEDEF | kind::FUNC | kind::VAR) {
                continue;
            }
            if let Some(name) = names.get(&(kind, self.name_at(self.word(start as usize)))) {
                found.entry((kind, (*name).to_owned())).or_insert(id as TypeId);
            }
        }
        found
    }

    /// Behind typedefs and qualifiers.
    fn bare(&self, mut id: TypeId) -> TypeId {
        // A chain of a thousand would be a circle.
        for _ in 0..1000 {
            match self.kind(id) {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    id = self.target(id);
                }
                _ => break,
            }
        }
        id
    }

    /// Offset in bytes, and type, of a member of a struct, also of one inside unnamed structs and unions of it.
    pub(super) fn member(&self, of: TypeId, name: &str) -> Option<(u32, TypeId)> {
        let of = self.bare(of);
        let start = self.start(of).filter(|_| matches!(self.kind(of), kind::STRUCT | kind::UNION))?;
        let flagged = self.word(start + 4) >> 31 == 1;
        for index in 0..self.count(of) {
            let at = start + 12 + index * 12;
            let (name_at, id, place) = (self.word(at), self.word(at + 4), self.word(at + 8));
            let bits = if flagged { place & 0xff_ffff } else { place };
            if self.name_at(name_at) == name.as_bytes() {
                // A bit field is not at a byte of its own.
                return (!flagged || place >> 24 == 0).then_some((bits / 8, id));
            }
            if name_at == 0
                && let Some((inner, id)) = self.member(id, name)
            {
                return Some((bits / 8 + inner, id));
            }
        }
        None
    }

    /// As [`Btf::member`], along a path: `thread_info.cpu`.
    pub(super) fn path(&self, of: TypeId, path: &str) -> Option<u32> {
        let (mut offset, mut id) = (0, of);
        for name in path.split('.') {
            let (at, next) = self.member(id, name)?;
            (offset, id) = (offset + at, next);
        }
        Some(offset)
    }

    /// Where a variable stands within the kernel's data of each CPU.
    pub(super) fn place_per_cpu(&self, variable: TypeId) -> Option<u32> {
        for (id, &start) in self.starts.iter().enumerate().skip(1) {
            let start = start as usize;
            let is_section = self.kind(id as TypeId) == kind::DATASEC;
            if is_section && self.name_at(self.word(start)) == b".data..percpu" {
                let mut variables = (0..self.count(id as TypeId)).map(|index| start + 12 + index * 12);
                let at = variables.find(|at| self.word(*at) == variable)?;
                return Some(self.word(at + 4));
            }
        }
        None
    }

    /// The struct that a member of pointer type points to.
    pub(super) fn pointed_to(&self, id: TypeId) -> Option<TypeId> {
        let id = self.bare(id);
        (self.kind(id) == kind::PTR).then(|| self.bare(self.target(id)))
    }

    /// The name of a struct; empty for anything else.
    fn struct_name(&self, id: TypeId) -> String {
        match self.kind(id) {
            kind::STRUCT => {
                let start = self.start(id).unwrap_or(0);
                String::from_utf8_lossy(self.name_at(self.word(start))).into_owned()
            }
            _ => String::new(),
        }
    }

    /// Parameters of a function, or of what a typedef says is a pointer to one: for a pointer to a struct the struct's name, else
    /// nothing. `None` if it is no function.
    pub(super) fn parameters(&self, id: TypeId) -> Option<Vec<String>> {
        let mut id = self.bare(id);
        if self.kind(id) == kind::PTR || self.kind(id) == kind::FUNC {
            id = self.bare(self.target(id));
        }
        let start = self.start(id).filter(|_| self.kind(id) == kind::FUNC_PROTO)?;
        let parameter = |index: usize| {
            let id = self.word(start + 12 + index * 8 + 4);
            self.pointed_to(id).map(|to| self.struct_name(to)).unwrap_or_default()
        };
        Some((0..self.count(id)).map(parameter).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description by hand: struct task { int a; struct { int pid; }; struct info *info; }, and a tracepoint that passes one.
    fn by_hand() -> Vec<u8> {
        let mut strings = vec![0u8];
        let mut name = |text: &str| {
            let at = strings.len() as u32;
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at
        };
        let mut types: Vec<u32> = Vec::new();
        let info = |kind: u32, count: u32| kind << 24 | count;
        types.extend([name("int"), info(1, 0), 4, 32]); // 1
        types.extend([0, info(kind::STRUCT, 1), 4, name("pid"), 1, 0]); // 2
        types.extend([name("info"), info(kind::STRUCT, 1), 8, name("cpu"), 1, 32]); // 3
        types.extend([0, info(kind::PTR, 0), 3]); // 4
        types.extend([name("task"), info(kind::STRUCT, 3), 16]); // 5
        types.extend([name("a"), 1, 0, 0, 2, 32, name("info"), 4, 64]);
        types.extend([0, info(kind::PTR, 0), 5]); // 6
        types.extend([0, info(kind::FUNC_PROTO, 2), 0, 0, 1, 0, 6]); // 7
        types.extend([0, info(kind::PTR, 0), 7]); // 8
        types.extend([name("btf_trace_x"), info(kind::TYPEDEF, 0), 8]); // 9
        let mut data = Vec::new();
        data.extend_from_slice(&MAGIC.to_le_bytes());
        data.extend_from_slice(&[1, 0]);
        for word in [24, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32] {
            data.extend_from_slice(&word.to_le_bytes());
        }
        types.iter().for_each(|word| data.extend_from_slice(&word.to_le_bytes()));
        data.extend_from_slice(&strings);
        data
    }

    #[test]
    fn members_and_parameters_are_found() {
        let btf = Btf::parse(by_hand()).expect("by hand");
        let found = btf.find(&[(kind::STRUCT, "task"), (kind::TYPEDEF, "btf_trace_x"), (kind::FUNC, "none")]);
        let task = found[&(kind::STRUCT, "task".to_owned())];
        assert_eq!((task, found.len()), (5, 2));
        assert_eq!(btf.path(task, "pid"), Some(4), "in the unnamed struct");
        assert_eq!(btf.path(task, "nothing"), None);
        let (at, info) = btf.member(task, "info").expect("there");
        assert_eq!(at, 8);
        assert_eq!(btf.path(btf.pointed_to(info).expect("a pointer"), "cpu"), Some(4));
        let trace = found[&(kind::TYPEDEF, "btf_trace_x".to_owned())];
        assert_eq!(btf.parameters(trace).expect("a function"), ["".to_owned(), "task".to_owned()]);
        assert_eq!(btf.parameters(task), None);
    }

    #[test]
    fn damage_is_told_and_never_panics() {
        let whole = by_hand();
        for length in 0..whole.len() {
            assert!(Btf::parse(whole[..length].to_vec()).is_err(), "{length}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            if let Ok(btf) = Btf::parse(damaged) {
                let found = btf.find(&[(kind::STRUCT, "task"), (kind::TYPEDEF, "btf_trace_x")]);
                for id in found.values() {
                    let _ = (btf.path(*id, "info.cpu"), btf.parameters(*id));
                }
            }
        }
    }

    #[test]
    fn this_kernels_description_is_read_if_there_is_one() {
        let Ok(data) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            eprintln!("SKIPPED: this kernel has no /sys/kernel/btf/vmlinux");
            return;
        };
        let btf = Btf::parse(data).expect("the kernel's own");
        let found = btf.find(&[(kind::STRUCT, "task_struct"), (kind::TYPEDEF, "btf_trace_sched_switch")]);
        let task = found[&(kind::STRUCT, "task_struct".to_owned())];
        for member in ["pid", "prio", "comm", "exit_state"] {
            assert!(btf.path(task, member).is_some(), "{member}");
        }
        let switch = found[&(kind::TYPEDEF, "btf_trace_sched_switch".to_owned())];
        let tasks = btf.parameters(switch).expect("a function");
        assert_eq!(tasks.iter().filter(|name| *name == "task_struct").count(), 2);
    }
}
