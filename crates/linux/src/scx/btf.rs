//! Which types do a scheduler's variables have? BTF, the type format of BPF, as the compiler writes it (`-gbtf`).
//!
//! ```text
//! [11] CONST -> [10] VOLATILE -> [9] TYPEDEF bool -> [8] INT _Bool 1 byte
//! [28] VAR fifo_sched : [11]                 `--param fifo_sched=1` writes one byte
//! [43] DATASEC .maps: stats                  a map to be made
//! ```
//!
//! Format: Documentation/bpf/btf.rst of the kernel. Little endian only, which is all that the port is built as.

use std::collections::BTreeMap;

const MAGIC: u16 = 0xeb9f;

/// Number of a type; 0 is `void`.
pub(crate) type TypeId = u32;

/// A member of a structure or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) id: TypeId,
    /// From the start of the structure.
    pub(crate) offset_bits: u32,
    /// Of a bit field; else 0.
    pub(crate) width_bits: u32,
}

/// A type, or a variable or section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int {
        bytes: u32,
        signed: bool,
    },
    Pointer(TypeId),
    Array {
        element: TypeId,
        length: u32,
    },
    Composite {
        is_union: bool,
        name: String,
        bytes: u32,
        members: Vec<Member>,
    },
    Enum {
        name: String,
        bytes: u32,
        values: Vec<(String, i64)>,
    },
    /// typedef, const, volatile, restrict, tags: what they are of; whether it is `const`.
    Other {
        id: TypeId,
        is_const: bool,
    },
    Var {
        name: String,
        id: TypeId,
    },
    Section {
        name: String,
        variables: Vec<TypeId>,
    },
    /// What a function takes: names and types.
    Prototype(Vec<(String, TypeId)>),
    Function {
        name: String,
        prototype: TypeId,
    },
    /// Forward declarations, floats.
    Opaque,
}

impl Kind {
    /// The same with all numbers of types raised; `void` stays 0.
    fn shifted(mut self, by: TypeId) -> Kind {
        let shift = |id: &mut TypeId| {
            if *id != 0 {
                *id += by;
            }
        };
        match &mut self {
            Kind::Pointer(id)
            | Kind::Array { element: id, .. }
            | Kind::Other { id, .. }
            | Kind::Var { id, .. }
            | Kind::Function { prototype: id, .. } => shift(id),
            Kind::Composite { members, .. } => members.iter_mut().for_each(|m| shift(&mut m.id)),
            Kind::Section { variables, .. } => variables.iter_mut().for_each(shift),
            Kind::Prototype(parameters) => parameters.iter_mut().for_each(|(_, id)| shift(id)),
            Kind::Int { .. } | Kind::Enum { .. } | Kind::Opaque => {}
        }
        self
    }
}

/// `char[2][3]`, of linux/scx/include/bpf/bpf_helpers.h.
const PROBE: &str = "schedlab_dimensions";

/// All types of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Btf {
    types: Vec<Kind>,
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn u32(&mut self) -> Option<u32> {
        let bytes = self.data.get(self.at..self.at + 4)?;
        self.at += 4;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }
}

impl Btf {
    #[cfg(test)]
    pub(crate) fn of(types: Vec<Kind>) -> Btf {
        Btf { types }
    }

    /// Read a `.BTF` section; `None` if it is damaged. Of an object that was linked from several, the types of all: a linker puts
    /// their sections one behind the other, each with a header of its own.
    pub(crate) fn parse(data: &[u8]) -> Option<Btf> {
        let (mut types, mut rest) = Self::parse_one(data)?;
        while !rest.is_empty() {
            let (more, after) = Self::parse_one(rest)?;
            let shift = types.len() as TypeId - 1;
            types.extend(more.into_iter().skip(1).map(|kind| kind.shifted(shift)));
            rest = after;
        }
        let mut btf = Btf { types };
        btf.put_dimensions_right();
        Some(btf)
    }

    /// The types of one object, and what follows them.
    fn parse_one(data: &[u8]) -> Option<(Vec<Kind>, &[u8])> {
        let mut head = Reader { data, at: 4 };
        if data.len() < 24 || u16::from_le_bytes(data[..2].try_into().ok()?) != MAGIC {
            return None;
        }
        let header = head.u32()? as usize;
        let (type_at, type_len) = (head.u32()? as usize, head.u32()? as usize);
        let (text_at, text_len) = (head.u32()? as usize, head.u32()? as usize);
        let text = data.get(header + text_at..header + text_at + text_len)?;
        let name = |at: u32| -> Option<String> {
            let bytes = text.get(at as usize..)?.split(|&b| b == 0).next()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let mut r = Reader { data: data.get(header + type_at..header + type_at + type_len)?, at: 0 };
        let mut types = vec![Kind::Opaque];
        while r.at < r.data.len() {
            let (name_at, info, size) = (r.u32()?, r.u32()?, r.u32()?);
            let (count, flag) = ((info & 0xffff) as usize, info >> 31 == 1);
            types.push(match info >> 24 & 0x1f {
                1 => {
                    let encoding = r.u32()?;
                    Kind::Int { bytes: size, signed: encoding >> 24 & 1 == 1 }
                }
                2 => Kind::Pointer(size),
                3 => {
                    let (element, _index, length) = (r.u32()?, r.u32()?, r.u32()?);
                    Kind::Array { element, length }
                }
                kind @ (4 | 5) => {
                    let is_union = kind == 5;
                    let mut members = Vec::with_capacity(count);
                    for _ in 0..count {
                        let (member, id, offset) = (name(r.u32()?)?, r.u32()?, r.u32()?);
                        let (offset_bits, width_bits) =
                            if flag { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
                        members.push(Member { name: member, id, offset_bits, width_bits });
                    }
                    Kind::Composite { is_union, name: name(name_at)?, bytes: size, members }
                }
                6 => {
                    let mut values = Vec::with_capacity(count);
                    for _ in 0..count {
                        let (value, number) = (name(r.u32()?)?, r.u32()?);
                        values.push((value, if flag { i64::from(number as i32) } else { i64::from(number) }));
                    }
                    Kind::Enum { name: name(name_at)?, bytes: size, values }
                }
                19 => {
                    let mut values = Vec::with_capacity(count);
                    for _ in 0..count {
                        let (value, low, high) = (name(r.u32()?)?, r.u32()?, r.u32()?);
                        values.push((value, (u64::from(high) << 32 | u64::from(low)) as i64));
                    }
                    Kind::Enum { name: name(name_at)?, bytes: size, values }
                }
                8 | 9 | 11 | 18 => Kind::Other { id: size, is_const: false },
                10 => Kind::Other { id: size, is_const: true },
                12 => Kind::Function { name: name(name_at)?, prototype: size },
                13 => {
                    let mut parameters = Vec::with_capacity(count);
                    for _ in 0..count {
                        parameters.push((name(r.u32()?)?, r.u32()?));
                    }
                    Kind::Prototype(parameters)
                }
                14 => {
                    r.u32()?;
                    Kind::Var { name: name(name_at)?, id: size }
                }
                15 => {
                    let mut variables = Vec::with_capacity(count);
                    for _ in 0..count {
                        variables.push(r.u32()?);
                        r.at += 8;
                    }
                    Kind::Section { name: name(name_at)?, variables }
                }
                17 => {
                    r.u32()?;
                    Kind::Opaque
                }
                _ => Kind::Opaque,
            });
        }
        let end = header + (type_at + type_len).max(text_at + text_len);
        Some((types, data.get(end..)?))
    }

    /// gcc 12 writes the dimensions of `int a[2][3]` the wrong way round. Every scheduler has a variable, [`PROBE`], that tells.
    fn put_dimensions_right(&mut self) {
        let probe = self.variables().find(|(name, _)| *name == PROBE).map(|(_, id)| self.plain(id).0);
        let is_wrong = probe.is_some_and(|id| matches!(self.kind(id), Kind::Array { length: 3, .. }));
        if !is_wrong {
            return;
        }
        let original = self.types.clone();
        for id in 0..original.len() {
            let (mut lengths, mut inner) = (Vec::new(), id as TypeId);
            // (types refer to any others: a damaged object could have a loop)
            while let Some(Kind::Array { element, length }) = original.get(inner as usize)
                && lengths.len() < 16
            {
                lengths.push(*length);
                inner = *element;
            }
            if lengths.len() < 2 {
                continue;
            }
            let Some((outer, rest)) = lengths.split_last() else { continue };
            for &length in rest {
                self.types.push(Kind::Array { element: inner, length });
                inner = (self.types.len() - 1) as TypeId;
            }
            self.types[id] = Kind::Array { element: inner, length: *outer };
        }
    }

    pub(crate) fn kind(&self, id: TypeId) -> &Kind {
        self.types.get(id as usize).unwrap_or(&Kind::Opaque)
    }

    /// The type without its typedefs and qualifiers; and whether one was `const`.
    pub(crate) fn plain(&self, mut id: TypeId) -> (TypeId, bool) {
        let mut constant = false;
        // a damaged object could have a loop
        for _ in 0..64 {
            match self.kind(id) {
                Kind::Other { id: inner, is_const } => {
                    constant |= is_const;
                    id = *inner;
                }
                // `const` is on the elements of an array
                Kind::Array { element, .. } => return (id, constant || self.plain(*element).1),
                _ => break,
            }
        }
        (id, constant)
    }

    /// Size in bytes.
    pub(crate) fn size(&self, id: TypeId) -> u32 {
        match self.kind(self.plain(id).0) {
            Kind::Int { bytes, .. } | Kind::Composite { bytes, .. } | Kind::Enum { bytes, .. } => *bytes,
            Kind::Pointer(_) => 8,
            Kind::Array { element, length } => self.size(*element).saturating_mul(*length),
            _ => 0,
        }
    }

    /// All variables: name and type, in the object's order.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, TypeId)> {
        self.types.iter().filter_map(|kind| match kind {
            Kind::Var { name, id } => Some((name.as_str(), *id)),
            _ => None,
        })
    }

    /// Names and types of a section's variables.
    pub(crate) fn section(&self, wanted: &str) -> Vec<(String, TypeId)> {
        let mut found = Vec::new();
        for kind in &self.types {
            if let Kind::Section { name, variables } = kind
                && name == wanted
            {
                found.extend(variables.iter().filter_map(|id| match self.kind(*id) {
                    Kind::Var { name, id } => Some((name.clone(), *id)),
                    _ => None,
                }));
            }
        }
        found
    }

    pub(crate) fn composites(&self) -> impl Iterator<Item = (&str, u32, &[Member])> {
        self.structures().map(|(_, name, bytes, members)| (name, bytes, members))
    }

    /// The same; and whether each is a union.
    pub(crate) fn structures(&self) -> impl Iterator<Item = (bool, &str, u32, &[Member])> {
        self.types.iter().filter_map(|kind| match kind {
            Kind::Composite { is_union, name, bytes, members } => {
                Some((*is_union, name.as_str(), *bytes, members.as_slice()))
            }
            _ => None,
        })
    }

    /// Functions whose last parameter is the calling program (`struct bpf_prog_aux *`), which BPF's verifier adds to a call: the
    /// parameter's place.
    pub(crate) fn with_program(&self) -> BTreeMap<&str, usize> {
        let mut found = BTreeMap::new();
        for kind in &self.types {
            let Kind::Function { name, prototype } = kind else { continue };
            let Kind::Prototype(parameters) = self.kind(*prototype) else { continue };
            let Some((_, last)) = parameters.last() else { continue };
            let Kind::Pointer(to) = self.kind(self.plain(*last).0) else { continue };
            if matches!(self.kind(self.plain(*to).0), Kind::Composite { name, .. } if name == "bpf_prog_aux")
            {
                found.insert(name.as_str(), parameters.len() - 1);
            }
        }
        found
    }

    /// Whether one of the members is, or holds, an enumeration of one byte.
    pub(crate) fn holds_packed_enum(&self, members: &[Member]) -> bool {
        members.iter().any(|m| match self.kind(self.plain(m.id).0) {
            Kind::Enum { bytes: 1, .. } => true,
            Kind::Composite { members, .. } => self.holds_packed_enum(members),
            Kind::Array { element, .. } => match self.kind(self.plain(*element).0) {
                Kind::Enum { bytes: 1, .. } => true,
                Kind::Composite { members, .. } => self.holds_packed_enum(members),
                _ => false,
            },
            _ => false,
        })
    }

    /// Enumerations: names and values.
    pub(crate) fn enums(&self) -> impl Iterator<Item = (&str, &[(String, i64)])> {
        self.types.iter().filter_map(|kind| match kind {
            Kind::Enum { name, values, .. } => Some((name.as_str(), values.as_slice())),
            _ => None,
        })
    }

    /// Every enumerator by name.
    pub(crate) fn enumerators(&self) -> BTreeMap<&str, i64> {
        self.enums().flat_map(|(_, values)| values).map(|(name, value)| (name.as_str(), *value)).collect()
    }

    /// Whether there is an enumeration of this name.
    pub(crate) fn has_enum(&self, wanted: &str) -> bool {
        self.enums().any(|(name, _)| name == wanted)
    }

    /// Where in a value of this type structures of this name lie: offsets in bytes, also within members and arrays.
    pub(crate) fn find_inside(&self, id: TypeId, wanted: &str, base: u32, found: &mut Vec<(u32, u32)>) {
        match self.kind(self.plain(id).0) {
            Kind::Composite { name, bytes, .. } if name == wanted => found.push((base, *bytes)),
            Kind::Composite { members, .. } => {
                for member in members {
                    self.find_inside(member.id, wanted, base + member.offset_bits / 8, found);
                }
            }
            Kind::Array { element, length } => {
                let size = self.size(*element);
                // special fields in arrays are few
                for i in 0..(*length).min(16) {
                    self.find_inside(*element, wanted, base + i * size, found);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header's numbers and kinds as in Documentation/bpf/btf.rst: `const volatile int x;` in `.data`.
    #[test]
    fn a_variable_by_hand() {
        let mut text = vec![0u8];
        let mut name = |s: &str| {
            let at = text.len() as u32;
            text.extend(s.bytes().chain([0]));
            at
        };
        let (int, x, data) = (name("int"), name("x"), name(".data"));
        let words: Vec<u32> = [
            vec![int, 1 << 24, 4, 1 << 24 | 32],  // [1] INT, signed, 32 bits
            vec![0, 9 << 24, 1],                  // [2] VOLATILE 1
            vec![0, 10 << 24, 2],                 // [3] CONST 2
            vec![x, 14 << 24, 3, 1],              // [4] VAR x
            vec![data, 15 << 24 | 1, 4, 4, 0, 4], // [5] DATASEC .data: [4]
            vec![0, 3 << 24, 0, 1, 1, 7],         // [6] ARRAY of 7 int
        ]
        .concat();
        let types: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types.len() as u32, types.len() as u32, text.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(&types);
        bytes.extend(&text);
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.variables().collect::<Vec<_>>(), [("x", 3)]);
        assert_eq!(btf.plain(3), (1, true));
        assert_eq!((btf.size(3), btf.size(6)), (4, 28));
        assert_eq!(btf.section(".data"), [("x".to_owned(), 3)]);
        assert_eq!(btf.kind(1), &Kind::Int { bytes: 4, signed: true });
        for cut in [0, 3, 23, bytes.len() - text.len() - 1] {
            assert!(Btf::parse(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        // linked from two such objects: the second's types have the numbers behind the first's
        let twice = [&bytes[..], &bytes].concat();
        let btf = Btf::parse(&twice).unwrap();
        assert_eq!(btf.variables().collect::<Vec<_>>(), [("x", 3), ("x", 9)]);
        assert_eq!((btf.plain(9), btf.size(9), btf.size(12)), ((7, true), 4, 28));
        assert_eq!(btf.section(".data"), [("x".to_owned(), 3), ("x".to_owned(), 9)]);
        assert!(Btf::parse(&twice[..twice.len() - 1]).is_none());
    }

    /// `u64 masks[64][8]` as gcc 12 writes it: an array of 8 arrays of 64. `masks[1]` is 64 bytes into it, not 512.
    #[test]
    fn dimensions_are_put_right() {
        let array = |element, length| Kind::Array { element, length };
        let types = |probe: [u32; 2]| {
            let var = |name: &str, id| Kind::Var { name: name.into(), id };
            let int = Kind::Int { bytes: 8, signed: false };
            vec![
                Kind::Opaque,
                int,
                array(1, probe[1]),
                array(2, probe[0]),
                var(PROBE, 3),
                array(1, 64),
                array(5, 8),
                var("masks", 6),
            ]
        };
        let stride = |probe| {
            let mut btf = Btf { types: types(probe) };
            btf.put_dimensions_right();
            let Kind::Array { element, length } = btf.kind(6).clone() else { panic!() };
            (btf.size(element), length, btf.size(6))
        };
        assert_eq!(stride([3, 2]), (64, 64, 4096));
        // as clang and pahole write it: left alone
        assert_eq!(stride([2, 3]), (512, 8, 4096));
    }
}
