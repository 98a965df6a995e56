//! Which types does a compiled object or a running kernel have? BTF, the type format of BPF.
//!
//! A scheduler's object has it from the compiler (`-gbtf`), a running kernel in /sys/kernel/btf/vmlinux:
//!
//! ```text
//! [11] CONST -> [10] VOLATILE -> [9] TYPEDEF bool -> [8] INT _Bool 1 byte
//! [28] VAR fifo_sched : [11]                 `--param fifo_sched=1` writes one byte
//! [43] DATASEC .maps: stats                  a map to be made
//! [126] STRUCT task_struct: pid at bit 19456 a program of the recorder reads at byte 2432
//! ```
//!
//! Format: Documentation/bpf/btf.rst of the kernel. Little endian only.
//!
//! Published readers take one object's types. This one also takes those of objects that were linked, one
//! behind the other, and puts right what gcc 12 writes of arrays with several dimensions.

use std::collections::{BTreeMap, BTreeSet};

const MAGIC: u16 = 0xeb9f;

/// Number of a type; 0 is `void`, 1 the first.
pub type TypeId = u32;

/// A member of a structure or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Empty of an unnamed structure or union, whose members are the outer one's too.
    pub name: String,
    /// Its type.
    pub id: TypeId,
    /// From the start of the structure.
    pub offset_bits: u32,
    /// Of a bit field; else 0.
    pub width_bits: u32,
}

/// A type, or a variable, function or section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// A whole number, a truth value or a character.
    Int {
        /// Its size.
        bytes: u32,
        /// Whether it can be less than 0.
        signed: bool,
    },
    /// To what.
    Pointer(TypeId),
    /// So many of one type.
    Array {
        /// Of what.
        element: TypeId,
        /// How many.
        length: u32,
    },
    /// A structure or union.
    Composite {
        /// Whether its members share their place.
        is_union: bool,
        /// Empty if it has none.
        name: String,
        /// Its size.
        bytes: u32,
        /// In order.
        members: Vec<Member>,
    },
    /// An enumeration.
    Enum {
        /// Empty if it has none.
        name: String,
        /// Its size.
        bytes: u32,
        /// Names and values.
        values: Vec<(String, i64)>,
    },
    /// Another name for a type.
    Typedef {
        /// The name.
        name: String,
        /// The type.
        id: TypeId,
    },
    /// const, volatile, restrict, a tag.
    Qualified {
        /// The type.
        id: TypeId,
        /// Whether it is `const`.
        is_const: bool,
    },
    /// A variable.
    Var {
        /// Its name.
        name: String,
        /// Its type.
        id: TypeId,
    },
    /// A section of an object.
    Section {
        /// Its name.
        name: String,
        /// Its variables, each with its offset in bytes.
        variables: Vec<(TypeId, u32)>,
    },
    /// What a function takes: names and types.
    Prototype(Vec<(String, TypeId)>),
    /// A function.
    Function {
        /// Its name.
        name: String,
        /// A [`TypeKind::Prototype`].
        prototype: TypeId,
    },
    /// Forward declarations, floats, tags of declarations.
    Opaque,
}

/// Which things [`Btf::find`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// A structure.
    Struct,
    /// Another name for a type.
    Typedef,
    /// A function.
    Function,
    /// A variable.
    Variable,
}

impl TypeKind {
    /// The same with all numbers of types raised; `void` stays 0.
    fn shifted(mut self, by: TypeId) -> TypeKind {
        let shift = |id: &mut TypeId| {
            if *id != 0 {
                *id += by;
            }
        };
        match &mut self {
            TypeKind::Pointer(id)
            | TypeKind::Array { element: id, .. }
            | TypeKind::Typedef { id, .. }
            | TypeKind::Qualified { id, .. }
            | TypeKind::Var { id, .. }
            | TypeKind::Function { prototype: id, .. } => shift(id),
            TypeKind::Composite { members, .. } => members.iter_mut().for_each(|m| shift(&mut m.id)),
            TypeKind::Section { variables, .. } => variables.iter_mut().for_each(|(id, _)| shift(id)),
            TypeKind::Prototype(parameters) => parameters.iter_mut().for_each(|(_, id)| shift(id)),
            TypeKind::Int { .. } | TypeKind::Enum { .. } | TypeKind::Opaque => {}
        }
        self
    }
}

/// `char[2][3]`, of linux/scx/include/bpf/bpf_helpers.h.
const PROBE: &str = "schedlab_dimensions";

/// All types of an object.
#[derive(Clone, Debug, Default)]
pub struct Btf {
    types: Vec<TypeKind>,
}

/// What is wrong with most damaged files.
const SHORT: &str = "it ends before its types or names do";

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

    /// The next type; numbers are those of include/uapi/linux/btf.h.
    fn kind(&mut self, names: &[u8]) -> Option<TypeKind> {
        let name = |at: u32| -> Option<String> {
            let bytes = names.get(at as usize..)?.split(|&b| b == 0).next()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let (name_at, info, size) = (self.u32()?, self.u32()?, self.u32()?);
        let (count, flag) = ((info & 0xffff) as usize, info >> 31 == 1);
        Some(match info >> 24 & 0x1f {
            1 => {
                let encoding = self.u32()?;
                TypeKind::Int { bytes: size, signed: encoding >> 24 & 1 == 1 }
            }
            2 => TypeKind::Pointer(size),
            3 => {
                let (element, _index, length) = (self.u32()?, self.u32()?, self.u32()?);
                TypeKind::Array { element, length }
            }
            kind @ (4 | 5) => {
                let is_union = kind == 5;
                let mut members = Vec::with_capacity(count);
                for _ in 0..count {
                    let (member, id, offset) = (name(self.u32()?)?, self.u32()?, self.u32()?);
                    let (offset_bits, width_bits) =
                        if flag { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
                    members.push(Member { name: member, id, offset_bits, width_bits });
                }
                TypeKind::Composite { is_union, name: name(name_at)?, bytes: size, members }
            }
            6 => {
                let mut values = Vec::with_capacity(count);
                for _ in 0..count {
                    let (value, number) = (name(self.u32()?)?, self.u32()?);
                    values.push((value, if flag { i64::from(number as i32) } else { i64::from(number) }));
                }
                TypeKind::Enum { name: name(name_at)?, bytes: size, values }
            }
            19 => {
                let mut values = Vec::with_capacity(count);
                for _ in 0..count {
                    let (value, low, high) = (name(self.u32()?)?, self.u32()?, self.u32()?);
                    values.push((value, (u64::from(high) << 32 | u64::from(low)) as i64));
                }
                TypeKind::Enum { name: name(name_at)?, bytes: size, values }
            }
            7 | 16 => TypeKind::Opaque,
            8 => TypeKind::Typedef { name: name(name_at)?, id: size },
            kind @ (9 | 10 | 11 | 18) => TypeKind::Qualified { id: size, is_const: kind == 10 },
            12 => TypeKind::Function { name: name(name_at)?, prototype: size },
            13 => {
                let mut parameters = Vec::with_capacity(count);
                for _ in 0..count {
                    parameters.push((name(self.u32()?)?, self.u32()?));
                }
                TypeKind::Prototype(parameters)
            }
            14 => {
                self.u32()?;
                TypeKind::Var { name: name(name_at)?, id: size }
            }
            15 => {
                let mut variables = Vec::with_capacity(count);
                for _ in 0..count {
                    let (id, offset, _bytes) = (self.u32()?, self.u32()?, self.u32()?);
                    variables.push((id, offset));
                }
                TypeKind::Section { name: name(name_at)?, variables }
            }
            17 => {
                self.u32()?;
                TypeKind::Opaque
            }
            _ => return None,
        })
    }
}

impl Btf {
    /// Of types, by number: the first stands for `void`.
    pub fn of(types: Vec<TypeKind>) -> Btf {
        Btf { types }
    }

    /// Reads a `.BTF` section or the kernel's file. Of an object that was linked from several, the types of
    /// all: a linker puts their sections one behind the other, each with a header of its own.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(data: &[u8]) -> Result<Btf, &'static str> {
        let (mut types, mut rest) = Self::parse_one(data)?;
        while !rest.is_empty() {
            let (more, after) = Self::parse_one(rest)?;
            let shift = types.len() as TypeId - 1;
            types.extend(more.into_iter().skip(1).map(|kind| kind.shifted(shift)));
            rest = after;
        }
        let mut btf = Btf { types };
        btf.put_dimensions_right();
        Ok(btf)
    }

    /// The types of one object, and what follows them.
    fn parse_one(data: &[u8]) -> Result<(Vec<TypeKind>, &[u8]), &'static str> {
        if data.len() < 24 {
            return Err("it is too short for a header");
        }
        if data[..2] != MAGIC.to_le_bytes() {
            return Err("it does not begin with BTF's magic number");
        }
        let mut head = Reader { data, at: 4 };
        let mut number = || head.u32().map(|n| n as usize).ok_or(SHORT);
        let (header, type_at, type_len, text_at, text_len) =
            (number()?, number()?, number()?, number()?, number()?);
        let types = data.get(header + type_at..header + type_at + type_len).ok_or(SHORT)?;
        let names = data.get(header + text_at..header + text_at + text_len).ok_or(SHORT)?;
        let mut reader = Reader { data: types, at: 0 };
        let mut kinds = vec![TypeKind::Opaque];
        while reader.at < types.len() {
            kinds.push(
                reader
                    .kind(names)
                    .ok_or("a type is cut short, has no name where one must be, or is of an unknown kind")?,
            );
        }
        let end = header + (type_at + type_len).max(text_at + text_len);
        Ok((kinds, data.get(end..).unwrap_or_default()))
    }

    /// gcc 12 writes the dimensions of `int a[2][3]` the wrong way round. Every scheduler has a variable,
    /// [`PROBE`], that tells.
    fn put_dimensions_right(&mut self) {
        let probe = self.variables().find(|(name, _)| *name == PROBE).map(|(_, id)| self.plain(id).0);
        let is_wrong = probe.is_some_and(|id| matches!(self.kind(id), TypeKind::Array { length: 3, .. }));
        if !is_wrong {
            return;
        }
        let original = self.types.clone();
        for id in 0..original.len() {
            let (mut lengths, mut inner) = (Vec::new(), id as TypeId);
            // (types refer to any others: a damaged object could have a loop)
            while let Some(TypeKind::Array { element, length }) = original.get(inner as usize)
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
                self.types.push(TypeKind::Array { element: inner, length });
                inner = (self.types.len() - 1) as TypeId;
            }
            self.types[id] = TypeKind::Array { element: inner, length: *outer };
        }
    }

    /// The type of this number; [`TypeKind::Opaque`] for `void` and for numbers that there are not.
    pub fn kind(&self, id: TypeId) -> &TypeKind {
        self.types.get(id as usize).unwrap_or(&TypeKind::Opaque)
    }

    /// The type without its typedefs and qualifiers; and whether one was `const`.
    pub fn plain(&self, mut id: TypeId) -> (TypeId, bool) {
        let mut constant = false;
        // a damaged object could have a loop
        for _ in 0..64 {
            match self.kind(id) {
                TypeKind::Typedef { id: inner, .. } => id = *inner,
                TypeKind::Qualified { id: inner, is_const } => {
                    constant |= is_const;
                    id = *inner;
                }
                // `const` is on the elements of an array
                TypeKind::Array { element, .. } => return (id, constant || self.plain(*element).1),
                _ => break,
            }
        }
        (id, constant)
    }

    /// Size in bytes.
    pub fn size(&self, id: TypeId) -> u32 {
        match self.kind(self.plain(id).0) {
            TypeKind::Int { bytes, .. }
            | TypeKind::Composite { bytes, .. }
            | TypeKind::Enum { bytes, .. } => *bytes,
            TypeKind::Pointer(_) => 8,
            TypeKind::Array { element, length } => self.size(*element).saturating_mul(*length),
            _ => 0,
        }
    }

    /// All variables: name and type, in the object's order.
    pub fn variables(&self) -> impl Iterator<Item = (&str, TypeId)> {
        self.types.iter().filter_map(|kind| match kind {
            TypeKind::Var { name, id } => Some((name.as_str(), *id)),
            _ => None,
        })
    }

    /// Names and types of a section's variables.
    pub fn section(&self, wanted: &str) -> Vec<(String, TypeId)> {
        let mut found = Vec::new();
        for kind in &self.types {
            if let TypeKind::Section { name, variables } = kind
                && name == wanted
            {
                found.extend(variables.iter().filter_map(|(id, _)| match self.kind(*id) {
                    TypeKind::Var { name, id } => Some((name.clone(), *id)),
                    _ => None,
                }));
            }
        }
        found
    }

    /// Structures and unions: names, bytes and members.
    pub fn composites(&self) -> impl Iterator<Item = (&str, u32, &[Member])> {
        self.structures().map(|(_, name, bytes, members)| (name, bytes, members))
    }

    /// The same; and whether each is a union.
    pub fn structures(&self) -> impl Iterator<Item = (bool, &str, u32, &[Member])> {
        self.types.iter().filter_map(|kind| match kind {
            TypeKind::Composite { is_union, name, bytes, members } => {
                Some((*is_union, name.as_str(), *bytes, members.as_slice()))
            }
            _ => None,
        })
    }

    /// Functions whose last parameter is the calling program (`struct bpf_prog_aux *`), which BPF's verifier
    /// adds to a call: the parameter's place.
    pub fn with_program(&self) -> BTreeMap<&str, usize> {
        let mut found = BTreeMap::new();
        for kind in &self.types {
            let TypeKind::Function { name, prototype } = kind else { continue };
            let TypeKind::Prototype(parameters) = self.kind(*prototype) else { continue };
            let Some((_, last)) = parameters.last() else { continue };
            let TypeKind::Pointer(to) = self.kind(self.plain(*last).0) else { continue };
            if matches!(self.kind(self.plain(*to).0), TypeKind::Composite { name, .. } if name == "bpf_prog_aux")
            {
                found.insert(name.as_str(), parameters.len() - 1);
            }
        }
        found
    }

    /// Numbers of the things with these names, in one pass over all; of several the first.
    pub fn find(&self, wanted: &[(Named, &str)]) -> BTreeMap<(Named, String), TypeId> {
        let wanted: BTreeSet<(Named, &str)> = wanted.iter().copied().collect();
        let mut found = BTreeMap::new();
        for (id, kind) in (0..).zip(&self.types) {
            let (named, name) = match kind {
                TypeKind::Composite { is_union: false, name, .. } => (Named::Struct, name),
                TypeKind::Typedef { name, .. } => (Named::Typedef, name),
                TypeKind::Function { name, .. } => (Named::Function, name),
                TypeKind::Var { name, .. } => (Named::Variable, name),
                _ => continue,
            };
            if wanted.contains(&(named, name)) {
                found.entry((named, name.clone())).or_insert(id);
            }
        }
        found
    }

    /// Offset in bytes, and type, of a member of a structure, also of one inside unnamed structures and
    /// unions of it. `None` for a bit field, which is not at a byte of its own.
    pub fn member(&self, of: TypeId, name: &str) -> Option<(u32, TypeId)> {
        self.member_within(of, name, 0)
    }

    fn member_within(&self, of: TypeId, wanted: &str, depth: u32) -> Option<(u32, TypeId)> {
        let TypeKind::Composite { members, .. } = self.kind(self.plain(of).0) else { return None };
        // a damaged file could have a structure within itself
        let inner = |id| if depth < 16 { self.member_within(id, wanted, depth + 1) } else { None };
        members.iter().find_map(|Member { name, id, offset_bits, width_bits }| match name.as_str() {
            name if name == wanted => Some((*width_bits == 0).then_some((offset_bits / 8, *id))),
            "" => inner(*id).map(|(at, id)| Some((offset_bits / 8 + at, id))),
            _ => None,
        })?
    }

    /// As [`Btf::member`], along a path: `thread_info.cpu`.
    pub fn path(&self, of: TypeId, path: &str) -> Option<u32> {
        let (mut offset, mut id) = (0, of);
        for name in path.split('.') {
            let (at, next) = self.member(id, name)?;
            (offset, id) = (offset + at, next);
        }
        Some(offset)
    }

    /// Where a variable stands within the kernel's data of each CPU.
    pub fn place_per_cpu(&self, variable: TypeId) -> Option<u32> {
        self.types.iter().find_map(|kind| match kind {
            TypeKind::Section { name, variables } if name == ".data..percpu" => {
                variables.iter().find(|(id, _)| *id == variable).map(|(_, offset)| *offset)
            }
            _ => None,
        })
    }

    /// What a member of pointer type points to.
    pub fn pointed_to(&self, id: TypeId) -> Option<TypeId> {
        match self.kind(self.plain(id).0) {
            TypeKind::Pointer(to) => Some(self.plain(*to).0),
            _ => None,
        }
    }

    /// Parameters of a function, or of what a typedef says is a pointer to one: for a pointer to a structure
    /// the structure's name, else nothing. `None` if it is no function.
    pub fn parameters(&self, id: TypeId) -> Option<Vec<&str>> {
        let id = self.plain(id).0;
        let id = match self.kind(id) {
            TypeKind::Pointer(to) | TypeKind::Function { prototype: to, .. } => self.plain(*to).0,
            _ => id,
        };
        let TypeKind::Prototype(parameters) = self.kind(id) else { return None };
        let name = |id| match self.kind(self.pointed_to(id)?) {
            TypeKind::Composite { is_union: false, name, .. } => Some(name.as_str()),
            _ => None,
        };
        Some(parameters.iter().map(|(_, id)| name(*id).unwrap_or_default()).collect())
    }

    /// Whether one of the members is, or holds, an enumeration of one byte.
    pub fn holds_packed_enum(&self, members: &[Member]) -> bool {
        members.iter().any(|m| match self.kind(self.plain(m.id).0) {
            TypeKind::Enum { bytes: 1, .. } => true,
            TypeKind::Composite { members, .. } => self.holds_packed_enum(members),
            TypeKind::Array { element, .. } => match self.kind(self.plain(*element).0) {
                TypeKind::Enum { bytes: 1, .. } => true,
                TypeKind::Composite { members, .. } => self.holds_packed_enum(members),
                _ => false,
            },
            _ => false,
        })
    }

    /// Enumerations: names and values.
    pub fn enums(&self) -> impl Iterator<Item = (&str, &[(String, i64)])> {
        self.types.iter().filter_map(|kind| match kind {
            TypeKind::Enum { name, values, .. } => Some((name.as_str(), values.as_slice())),
            _ => None,
        })
    }

    /// Every enumerator by name.
    pub fn enumerators(&self) -> BTreeMap<&str, i64> {
        self.enums().flat_map(|(_, values)| values).map(|(name, value)| (name.as_str(), *value)).collect()
    }

    /// The names of `length` counters in order, by the one enumeration that has just so many: `{ LOCAL, GLOBAL
    /// }`, or with its number at the end, `{ LOCAL, GLOBAL, NR_STATS }`. Of several those that speak of `about`
    /// count, and not those that `is_foreign` by an enumerator (a kernel's, which its header brings along). `None`:
    /// there is no such one, or two.
    pub fn names_of_counters(
        &self,
        length: usize,
        about: &str,
        is_foreign: impl Fn(&str) -> bool,
    ) -> Option<Vec<&str>> {
        let counts = |(_, values): &(&str, &[(String, i64)])| {
            let in_order = values.iter().enumerate().all(|(i, (_, value))| *value == i as i64);
            in_order && length > 1 && (values.len() == length || values.len() == length + 1)
        };
        let speaks = |(name, values): &(&str, &[(String, i64)])| {
            let names = std::iter::once(*name).chain(values.iter().map(|(name, _)| name.as_str()));
            // whole words: the kernel's BPF_ITER_STATE_NEXT does not speak of "stat"
            let mut words = names.flat_map(|name| name.split('_')).map(str::to_ascii_lowercase);
            words.any(|word| word.strip_suffix('s').unwrap_or(&word) == about)
        };
        let own = |(_, values): &(&str, &[(String, i64)])| !values.iter().any(|(name, _)| is_foreign(name));
        let found: Vec<_> = self.enums().filter(counts).filter(speaks).filter(own).collect();
        let [(_, values)] = found.as_slice() else { return None };
        Some(values[..length].iter().map(|(name, _)| name.as_str()).collect())
    }

    /// Whether there is an enumeration of this name.
    pub fn has_enum(&self, wanted: &str) -> bool {
        self.enums().any(|(name, _)| name == wanted)
    }

    /// Where in a value of this type structures of this name lie: offsets in bytes, also within members and arrays.
    pub fn find_inside(&self, id: TypeId, wanted: &str, base: u32, found: &mut Vec<(u32, u32)>) {
        match self.kind(self.plain(id).0) {
            TypeKind::Composite { name, bytes, .. } if name == wanted => found.push((base, *bytes)),
            TypeKind::Composite { members, .. } => {
                for member in members {
                    self.find_inside(member.id, wanted, base + member.offset_bits / 8, found);
                }
            }
            TypeKind::Array { element, length } => {
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
        assert_eq!(btf.kind(1), &TypeKind::Int { bytes: 4, signed: true });
        for cut in [0, 3, 23, bytes.len() - text.len() - 1] {
            assert!(Btf::parse(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        // linked from two such objects: the second's types have the numbers behind the first's
        let twice = [&bytes[..], &bytes].concat();
        let btf = Btf::parse(&twice).unwrap();
        assert_eq!(btf.variables().collect::<Vec<_>>(), [("x", 3), ("x", 9)]);
        assert_eq!((btf.plain(9), btf.size(9), btf.size(12)), ((7, true), 4, 28));
        assert_eq!(btf.section(".data"), [("x".to_owned(), 3), ("x".to_owned(), 9)]);
        assert!(Btf::parse(&twice[..twice.len() - 1]).is_err());
    }

    #[test]
    fn counters_have_the_names_of_their_enumeration() {
        let enumeration = |name: &str, values: &[&str]| {
            let values = values.iter().enumerate().map(|(i, name)| ((*name).to_owned(), i as i64)).collect();
            TypeKind::Enum { name: name.into(), values, bytes: 4 }
        };
        let mut types = vec![
            TypeKind::Opaque,
            enumeration("", &["STAT_LOCAL", "STAT_GLOBAL", "NR_STATS"]),
            enumeration("color", &["RED", "GREEN", "BLUE"]),
        ];
        let names = |types: &[TypeKind], length| {
            let btf = Btf { types: types.to_vec() };
            let is_kernels = |name: &str| name.starts_with("NETDEV_");
            btf.names_of_counters(length, "stat", is_kernels).map(|names| names.join(" "))
        };
        assert_eq!(names(&types, 2).as_deref(), Some("STAT_LOCAL STAT_GLOBAL"));
        assert_eq!(names(&types, 3).as_deref(), Some("STAT_LOCAL STAT_GLOBAL NR_STATS"));
        assert_eq!((names(&types, 1), names(&types, 4)), (None, None));
        // the kernel's header has one for network devices, which is nobody's counters
        types.push(enumeration("netdev_stat_type", &["NETDEV_NONE", "NETDEV_LSTATS"]));
        assert_eq!(names(&types, 2).as_deref(), Some("STAT_LOCAL STAT_GLOBAL"));
        types.push(enumeration("stat_kind", &["A", "B"]));
        assert_eq!(names(&types, 2), None, "two of them");
        let other = [TypeKind::Opaque, enumeration("bpf_iter_state", &["ITER_STATE_NEW", "ITER_STATE_DONE"])];
        assert_eq!(names(&other, 2), None, "a state is no statistic");
    }

    /// `u64 masks[64][8]` as gcc 12 writes it: an array of 8 arrays of 64. `masks[1]` is 64 bytes into it, not 512.
    #[test]
    fn dimensions_are_put_right() {
        let array = |element, length| TypeKind::Array { element, length };
        let types = |probe: [u32; 2]| {
            let var = |name: &str, id| TypeKind::Var { name: name.into(), id };
            let int = TypeKind::Int { bytes: 8, signed: false };
            vec![
                TypeKind::Opaque,
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
            let TypeKind::Array { element, length } = btf.kind(6).clone() else { panic!() };
            (btf.size(element), length, btf.size(6))
        };
        assert_eq!(stride([3, 2]), (64, 64, 4096));
        // as clang and pahole write it: left alone
        assert_eq!(stride([2, 3]), (512, 8, 4096));
    }

    /// A description by hand: struct task { int a; struct { int pid; }; struct info *info; }, and a
    /// tracepoint that passes one.
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
        types.extend([0, info(4, 1), 4, name("pid"), 1, 0]); // 2
        types.extend([name("info"), info(4, 1), 8, name("cpu"), 1, 32]); // 3
        types.extend([0, info(2, 0), 3]); // 4
        types.extend([name("task"), info(4, 3), 16]); // 5
        types.extend([name("a"), 1, 0, 0, 2, 32, name("info"), 4, 64]);
        types.extend([0, info(2, 0), 5]); // 6
        types.extend([0, info(13, 2), 0, 0, 1, 0, 6]); // 7
        types.extend([0, info(2, 0), 7]); // 8
        types.extend([name("btf_trace_x"), info(8, 0), 8]); // 9
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
        let btf = Btf::parse(&by_hand()).expect("by hand");
        let found =
            btf.find(&[(Named::Struct, "task"), (Named::Typedef, "btf_trace_x"), (Named::Function, "none")]);
        let task = found[&(Named::Struct, "task".to_owned())];
        assert_eq!((task, found.len()), (5, 2));
        assert_eq!(btf.path(task, "pid"), Some(4), "in the unnamed struct");
        assert_eq!(btf.path(task, "nothing"), None);
        let (at, info) = btf.member(task, "info").expect("there");
        assert_eq!(at, 8);
        assert_eq!(btf.path(btf.pointed_to(info).expect("a pointer"), "cpu"), Some(4));
        let trace = found[&(Named::Typedef, "btf_trace_x".to_owned())];
        assert_eq!(btf.parameters(trace).expect("a function"), ["", "task"]);
        assert_eq!(btf.parameters(task), None);
    }

    #[test]
    fn damage_is_reported_and_never_panics() {
        let whole = by_hand();
        for length in 0..whole.len() {
            assert!(Btf::parse(&whole[..length]).is_err(), "{length}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            if let Ok(btf) = Btf::parse(&damaged) {
                let found = btf.find(&[(Named::Struct, "task"), (Named::Typedef, "btf_trace_x")]);
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
        let btf = Btf::parse(&data).expect("the kernel's own");
        let found = btf.find(&[(Named::Struct, "task_struct"), (Named::Typedef, "btf_trace_sched_switch")]);
        let task = found[&(Named::Struct, "task_struct".to_owned())];
        for member in ["pid", "prio", "comm", "exit_state"] {
            assert!(btf.path(task, member).is_some(), "{member}");
        }
        let switch = found[&(Named::Typedef, "btf_trace_sched_switch".to_owned())];
        let tasks = btf.parameters(switch).expect("a function");
        assert_eq!(tasks.iter().filter(|name| **name == "task_struct").count(), 2);
    }
}
