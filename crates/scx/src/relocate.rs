//! Where in this kernel is a field that a scheduler reads through a type of its own? What libbpf does when it
//! loads a program (CO-RE, "compile once, run everywhere"), done when the scheduler is compiled.
//!
//! ```text
//! struct rq___local { u64 clock_pelt, clock_task, no_such; };     the scheduler's: "struct rq, as far as I need it"
//!        |                in struct rq of 6.12 (3,712 bytes): bytes 3016, 3008, none
//!        v
//! struct rq___local { union {
//!         struct { char pad1[3008]; u64 clock_task; u64 clock_pelt; char pad2[688]; } packed; as large as the kernel's
//!         struct { u64 no_such; } packed;                         not there: it compiles, and no question finds it
//! }; };
//! bpf_core_field_exists(q->no_such)     !(*q is a struct rq___local): the kernel's struct rq has no path no_such
//! ```
//!
//! The preprocessed text is changed, not the file; lines keep their numbers. A name without what follows its
//! last `___` is the kernel's ([`essential`], as in libbpf's relo_core.c). Types of the kernel's vmlinux.h
//! are the kernel's already, and a type that the kernel does not have stays as it is.

mod syntax;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::ScxError;
use super::names::essential;
use schedlab_btf::{Btf, Member, TypeId, TypeKind};
use syntax::{
    Access, Definition, Step, Token, access, bare, closing, definitions, named_type, place, pointed_to,
    source, tokens,
};
pub(super) use syntax::{decoded, encoded};

/// Of what this module does, for the key of what it compiles.
pub(super) const REVISION: [&[u8]; 2] = [include_bytes!("relocate.rs"), include_bytes!("relocate/syntax.rs")];
/// Questions that linux/scx/include/bpf/bpf_core_read.h leaves in the text.
const QUESTION: &str = "__schedlab_core_";
/// Types within types are followed so far: a damaged object could have a loop.
const DEPTH: usize = 32;

/// Whether anything in the text is to be relocated.
pub(super) fn is_needed(text: &str, header: &str) -> bool {
    text.contains(QUESTION) || (text.contains("___") && !definitions(&tokens(text, header)).is_empty())
}

fn error(text: &str, at: usize, why: &str) -> ScxError {
    ScxError::Relocation(format!("{}: {why}", place(text, at)))
}

/// The beginning of the text with which a compiler writes down the members of all [`definitions`]; `None` if
/// there are none.
pub(super) fn probe(text: &str, header: &str, kernel: &Btf) -> Result<Option<String>, ScxError> {
    let tokens = tokens(text, header);
    let definitions = definitions(&tokens);
    let kernel = Kernel::new(kernel);
    let is_hidden = |d: &&Definition<'_>| !d.is_global && kernel.has_composite(d.is_union(), d.name);
    if let Some(d) = definitions.iter().find(is_hidden) {
        let why = format!(
            "{} {} is defined within a function, and the kernel has such a type; define it at file scope",
            d.keyword, d.name
        );
        return Err(error(text, tokens[d.name_token].at, &why));
    }
    let definitions: Vec<_> = definitions.into_iter().filter(|d| d.is_global).collect();
    let Some(last) = definitions.iter().map(|d| d.braces.end).max() else { return Ok(None) };
    let mut depth = 0i64;
    let mut end = text.len();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            ";" if depth == 0 && at > last => {
                end = token.end();
                break;
            }
            _ => {}
        }
    }
    let mut probe = text[..end].to_owned();
    // questions are in what follows, or in functions that nothing calls
    probe.push('\n');
    for (number, d) in definitions.iter().enumerate() {
        let _ = writeln!(probe, "{} {} *schedlab_probe{number};", d.keyword, d.name);
    }
    Ok(Some(answered(&probe, &|_, _| Ok("1".to_owned()))?))
}

/// On one line, and the line ends and markers that were in it.
fn one_line(text: &str) -> (String, String) {
    let (mut line, mut rest) = (String::new(), String::new());
    for (number, part) in text.split('\n').enumerate() {
        if number > 0 {
            rest.push('\n');
        }
        if part.starts_with('#') {
            rest.push_str(part);
        } else {
            if number > 0 {
                line.push(' ');
            }
            line.push_str(part);
        }
    }
    (line, rest)
}

/// What answers a question: its name, and the text between the parentheses; or says what it does not understand.
type Answer<'a> = dyn Fn(&str, &str) -> Result<String, String> + 'a;

/// The text with the questions replaced by what `answer` says to each, inner ones first.
fn answered(text: &str, answer: &Answer<'_>) -> Result<String, ScxError> {
    let tokens = tokens(text, "");
    let mut out = String::with_capacity(text.len());
    let (mut done, mut at) = (0, 0);
    while at < tokens.len() {
        let Some(name) = tokens[at].text.strip_prefix(QUESTION) else {
            at += 1;
            continue;
        };
        let refuse = |why: &str| Err(error(text, tokens[at].at, &format!("bpf_core_{name}(): {why}")));
        let Some(close) = closing(&tokens, at + 1) else { return refuse("its parentheses do not end") };
        let (mut asked, rest) = one_line(source(text, &tokens[at + 2..close]));
        if asked.contains(QUESTION) {
            asked = answered(&asked, answer)?;
        }
        let replaced = match answer(name, &asked) {
            Ok(replaced) => replaced,
            Err(why) => return refuse(&format!("{why}; this is: {}", asked.trim())),
        };
        out.push_str(&text[done..tokens[at].at]);
        out.push_str(&replaced);
        out.push_str(&rest);
        done = tokens[close].end();
        at = close + 1;
    }
    out.push_str(&text[done..]);
    Ok(out)
}

/// A field, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    offset_bits: u32,
    is_bit_field: bool,
    id: TypeId,
}

/// Members and those of members without a name.
fn flattened(btf: &Btf, members: &[Member], base_bits: u32, depth: usize, found: &mut Vec<(String, Field)>) {
    for member in members {
        let offset_bits = base_bits.saturating_add(member.offset_bits);
        if !member.name.is_empty() {
            let is_bit_field = member.width_bits != 0;
            found.push((member.name.clone(), Field { offset_bits, is_bit_field, id: member.id }));
        } else if let TypeKind::Composite { members, .. } = btf.kind(btf.plain(member.id).0)
            && depth < DEPTH
        {
            flattened(btf, members, offset_bits, depth + 1, found);
        }
    }
}

/// What an array, also one of arrays, is made of.
fn element(btf: &Btf, id: TypeId) -> TypeId {
    let mut id = btf.plain(id).0;
    for _ in 0..DEPTH {
        let TypeKind::Array { element, .. } = btf.kind(id) else { break };
        id = btf.plain(*element).0;
    }
    id
}

fn fields(btf: &Btf, members: &[Member]) -> Vec<(String, Field)> {
    let mut found = Vec::new();
    flattened(btf, members, 0, 0, &mut found);
    found
}

/// Types by name: sizes and members.
type ByName<'a> = BTreeMap<&'a str, Vec<(u32, &'a [Member])>>;

/// The kernel's types.
struct Kernel<'a> {
    btf: &'a Btf,
    /// Structures, and unions.
    composites: [ByName<'a>; 2],
}

impl<'a> Kernel<'a> {
    fn new(btf: &'a Btf) -> Kernel<'a> {
        let mut composites = [ByName::new(), ByName::new()];
        for (is_union, name, bytes, members) in btf.structures().filter(|c| !c.1.is_empty()) {
            composites[usize::from(is_union)].entry(name).or_default().push((bytes, members));
        }
        Kernel { btf, composites }
    }

    /// Types of that name, but for a flavour.
    fn named(&self, is_union: bool, name: &str) -> &[(u32, &'a [Member])] {
        self.composites[usize::from(is_union)].get(essential(name)).map_or(&[], Vec::as_slice)
    }

    fn has_composite(&self, is_union: bool, name: &str) -> bool {
        !self.named(is_union, name).is_empty()
    }

    /// An enumerator of an enumeration, or of any if it is not said of which.
    fn enumerator(&self, of: Option<&str>, name: &str) -> Option<i64> {
        let (of, name) = (of.map(essential), essential(name));
        self.btf
            .enums()
            .filter(|(enumeration, _)| of.is_none_or(|of| of == *enumeration))
            .flat_map(|(_, values)| values)
            .find(|(n, _)| n == name)
            .map(|(_, value)| *value)
    }
}

/// One of the scheduler's own types.
struct Own<'a> {
    keyword: &'a str,
    name: &'a str,
    members: &'a [Member],
}

impl Own<'_> {
    fn is_union(&self) -> bool {
        self.keyword == "union"
    }
}

/// The kernel's types and the scheduler's.
struct Types<'a> {
    kernel: Kernel<'a>,
    declared: &'a Btf,
    own: Vec<Own<'a>>,
}

fn truth(is: bool) -> String {
    if is { "1" } else { "0" }.to_owned()
}

impl<'a> Types<'a> {
    fn new(declared: &'a Btf, kernel: &'a Btf, definitions: &[Definition<'a>]) -> Types<'a> {
        let members: BTreeMap<_, _> = declared.structures().map(|(u, name, _, m)| ((u, name), m)).collect();
        let own = definitions.iter().filter(|d| d.is_global).filter_map(|d| {
            let members = members.get(&(d.is_union(), d.name))?;
            Some(Own { keyword: d.keyword, name: d.name, members })
        });
        Types { kernel: Kernel::new(kernel), declared, own: own.collect() }
    }

    /// Whether libbpf takes a field of the kernel's for one of the scheduler's of the same name
    /// (bpf_core_fields_are_compat()).
    fn is_compatible(&self, mine: TypeId, theirs: TypeId, depth: usize) -> bool {
        let (kernel, declared) = (self.kernel.btf, self.declared);
        match (declared.kind(declared.plain(mine).0), kernel.kind(kernel.plain(theirs).0)) {
            (TypeKind::Composite { .. }, TypeKind::Composite { .. })
            | (TypeKind::Pointer(_), TypeKind::Pointer(_))
            | (TypeKind::Int { .. }, TypeKind::Int { .. })
            | (TypeKind::Opaque, TypeKind::Opaque) => true,
            (TypeKind::Enum { name: mine, .. }, TypeKind::Enum { name: theirs, .. }) => {
                mine.is_empty() || theirs.is_empty() || essential(mine) == essential(theirs)
            }
            (TypeKind::Array { element: mine, .. }, TypeKind::Array { element: theirs, .. }) => {
                depth < DEPTH && self.is_compatible(*mine, *theirs, depth + 1)
            }
            _ => false,
        }
    }

    /// The type of what a path leads to in the kernel's type. `own`: the scheduler's members, if it has its own type.
    fn reached(&self, members: &[Member], own: Option<&[Member]>, steps: &[Step]) -> Option<TypeId> {
        let (step, rest) = steps.split_first()?;
        let (kernel, declared) = (self.kernel.btf, self.declared);
        let mut mine = match own {
            Some(own) => Some(fields(declared, own).into_iter().find(|(n, _)| *n == step.name)?.1.id),
            None => None,
        };
        let there = fields(kernel, members).into_iter().find(|(n, _)| *n == step.name)?.1;
        if mine.is_some_and(|mine| !self.is_compatible(mine, there.id, 0)) {
            return None;
        }
        let mut theirs = there.id;
        for (_, number) in &step.indices {
            theirs = match kernel.kind(kernel.plain(theirs).0) {
                // (0: it has no end)
                TypeKind::Array { element, length } if *length == 0 || number.is_none_or(|n| n < *length) => {
                    *element
                }
                TypeKind::Pointer(to) => *to,
                _ => return None,
            };
            mine = mine.and_then(|mine| match declared.kind(declared.plain(mine).0) {
                TypeKind::Array { element, .. } | TypeKind::Pointer(element) => Some(*element),
                _ => None,
            });
        }
        if rest.is_empty() {
            return Some(theirs);
        }
        let TypeKind::Composite { members, .. } = kernel.kind(kernel.plain(theirs).0) else { return None };
        let own = mine.and_then(|mine| match declared.kind(declared.plain(mine).0) {
            TypeKind::Composite { members, .. } => Some(members.as_slice()),
            _ => None,
        });
        self.reached(members, own, rest)
    }

    /// The same from a type by its name.
    fn reached_from(&self, is_union: bool, name: &str, steps: &[Step]) -> Option<TypeId> {
        let own = self.own.iter().find(|own| own.name == name && own.is_union() == is_union);
        let own = own.map(|own| own.members);
        self.kernel.named(is_union, name).iter().find_map(|(_, members)| self.reached(members, own, steps))
    }

    /// The scheduler's own types that `access` compiles for.
    fn candidates<'s>(&'s self, access: &'s Access) -> impl Iterator<Item = &'s Own<'a>> {
        let first = access.steps.first().map(|s| s.name.as_str()).unwrap_or_default();
        self.own.iter().filter(move |own| fields(self.declared, own.members).iter().any(|(n, _)| n == first))
    }

    /// C for "the fields are looked for in a type of this name".
    fn is_of(access: &Access, own: &Own<'_>) -> String {
        let star = if access.is_pointer { "*" } else { "" };
        format!(
            "__builtin_types_compatible_p(__typeof__({star}({})), {} {})",
            access.base, own.keyword, own.name
        )
    }

    fn field_exists(&self, asked: &str) -> Result<String, String> {
        let access = access(asked).ok_or("expected a field: p->a.b, or a type and a field")?;
        if access.is_pointer
            && let Some((is_union, name)) = pointed_to(&access.base)
        {
            return Ok(truth(self.reached_from(is_union, &name, &access.steps).is_some()));
        }
        // what is not there in a type of vmlinux.h does not compile
        let mut out = format!("((__builtin_constant_p({asked}) || 1)");
        for own in self.candidates(&access) {
            if self.reached_from(own.is_union(), own.name, &access.steps).is_none() {
                let _ = write!(out, " && !{}", Self::is_of(&access, own));
            }
        }
        out.push(')');
        Ok(out)
    }

    fn field_size(&self, asked: &str) -> Result<String, String> {
        let access = access(asked).ok_or("expected a field: p->a.b, or a type and a field")?;
        let mut out = String::from("(");
        for own in self.candidates(&access) {
            if let Some(id) = self.reached_from(own.is_union(), own.name, &access.steps) {
                let _ = write!(out, "{} ? {}ULL : ", Self::is_of(&access, own), self.kernel.btf.size(id));
            }
        }
        let _ = write!(out, "sizeof({asked}))");
        Ok(out)
    }

    fn field_offset(&self, asked: &str) -> Result<String, String> {
        let access = access(asked).ok_or("expected a field: p->a.b, or a type and a field")?;
        let star = if access.is_pointer { "*" } else { "" };
        let steps = access.steps.iter().map(|step| {
            let indices = step.indices.iter().map(|(text, _)| format!("[{text}]"));
            step.name.clone() + &indices.collect::<String>()
        });
        let path = steps.collect::<Vec<_>>().join(".");
        Ok(format!("__builtin_offsetof(__typeof__({star}({})), {path})", access.base))
    }

    /// Whether there is a type, or (`is_size`) how large it is.
    fn type_is(&self, asked: &str, is_size: bool) -> Result<String, String> {
        let all = tokens(asked, "");
        match named_type(&all) {
            Some(("enum", name)) if !is_size => {
                return Ok(truth(self.kernel.btf.has_enum(essential(name))));
            }
            Some((keyword @ ("struct" | "union"), name)) => {
                let known = self.kernel.named(keyword == "union", name);
                return Ok(match is_size {
                    false => truth(!known.is_empty()),
                    true if essential(name) == name => format!("sizeof({asked})"),
                    true => format!("{}ULL", known.first().map_or(0, |(bytes, _)| *bytes)),
                });
            }
            _ => {}
        }
        if let Some(name) = all.iter().find(|t| essential(t.text) != t.text) {
            return Err(format!("{} is not understood here: write struct NAME___FLAVOUR", name.text));
        }
        // by another name
        let mut out = String::from("(");
        for own in &self.own {
            let known = self.kernel.named(own.is_union(), own.name).first();
            if !is_size && known.is_some() {
                continue;
            }
            let bytes = known.map_or(0, |(bytes, _)| *bytes);
            let _ = write!(
                out,
                "__builtin_types_compatible_p(__typeof__({asked}), {} {}) ? {bytes} : ",
                own.keyword, own.name
            );
        }
        let _ = write!(
            out,
            "{})",
            if is_size { format!("sizeof({asked})") } else { format!("(sizeof({asked}) || 1)") }
        );
        Ok(out)
    }

    /// What the kernel answers to a question.
    fn answer(&self, question: &str, asked: &str) -> Result<String, String> {
        let all = tokens(asked, "");
        let mut depth = 0usize;
        let comma = all.iter().position(|t| {
            match t.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && t.text == ","
        });
        let (first, second) = match comma {
            Some(comma) => (source(asked, &all[..comma]), source(asked, &all[comma + 1..])),
            None => (asked, ""),
        };
        match (question, comma) {
            ("type_exists", None) => self.type_is(asked, false),
            ("type_size", None) => self.type_is(asked, true),
            ("enum_value" | "enum_value_exists", Some(comma)) => {
                let [name] = bare(&all[comma + 1..]) else {
                    return Err("expected an enumerator's name behind the comma".into());
                };
                let of = named_type(&all[..comma]).filter(|(k, _)| *k == "enum").map(|(_, of)| of);
                let value = self.kernel.enumerator(of, name.text);
                if question == "enum_value_exists" {
                    return Ok(truth(value.is_some()));
                }
                Ok(format!("{:#x}ULL", value.unwrap_or(0)))
            }
            ("field_exists", None) => self.field_exists(asked),
            ("field_size", None) => self.field_size(asked),
            ("field_offset", None) => self.field_offset(asked),
            ("field_offset", Some(_)) => Ok(format!("__builtin_offsetof(__typeof__({first}), {second})")),
            ("field_exists" | "field_size", Some(_)) => {
                let asked = format!("((__typeof__({first}) *)0)->{second}");
                if question == "field_exists" { self.field_exists(&asked) } else { self.field_size(&asked) }
            }
            _ => Err("it is asked otherwise than libbpf's macro of this name".into()),
        }
    }

    /// Whether a type of the scheduler's is laid out as the kernel's: what its fields' fields are read by.
    /// `sizes`: of types that are relocated.
    fn is_same_layout(
        &self,
        sizes: &BTreeMap<String, u32>,
        mine: TypeId,
        theirs: TypeId,
        depth: usize,
    ) -> bool {
        let (declared, kernel) = (self.declared, self.kernel.btf);
        if depth > DEPTH {
            return false;
        }
        match (declared.kind(declared.plain(mine).0), kernel.kind(kernel.plain(theirs).0)) {
            (TypeKind::Composite { name, .. }, TypeKind::Composite { name: known, .. })
                if sizes.contains_key(name) =>
            {
                essential(name) == known
            }
            (TypeKind::Composite { members, .. }, TypeKind::Composite { members: known, .. }) => {
                let known = fields(kernel, known);
                // a relocated one moves what is around it
                let is_relocated = |id| match declared.kind(element(declared, id)) {
                    TypeKind::Composite { name, .. } => sizes.contains_key(name),
                    _ => false,
                };
                fields(declared, members).iter().all(|(name, field)| {
                    known.iter().any(|(n, k)| {
                        n == name
                            && !is_relocated(field.id)
                            && k.offset_bits == field.offset_bits
                            && self.is_same_layout(sizes, field.id, k.id, depth + 1)
                    })
                })
            }
            (TypeKind::Array { element: mine, .. }, TypeKind::Array { element: theirs, .. }) => {
                self.size(sizes, *mine) == kernel.size(*theirs)
                    && self.is_same_layout(sizes, *mine, *theirs, depth + 1)
            }
            _ => declared.size(mine) == kernel.size(theirs),
        }
    }

    /// How large a type of the scheduler's is, once it is relocated.
    fn size(&self, sizes: &BTreeMap<String, u32>, id: TypeId) -> u32 {
        let declared = self.declared;
        let (one, all) = (element(declared, id), declared.size(id));
        match declared.kind(one) {
            TypeKind::Composite { name, bytes, .. } if sizes.contains_key(name) => {
                all.checked_div(*bytes).unwrap_or(1).saturating_mul(sizes[name])
            }
            _ => all,
        }
    }

    /// Where a field is in the kernel; an error if types of one name disagree.
    fn field(&self, definition: &Definition<'_>, name: &str, mine: Field) -> Result<Option<Field>, String> {
        let mut found: Option<Field> = None;
        for (_, members) in self.kernel.named(definition.is_union(), definition.name) {
            let Some((_, field)) = fields(self.kernel.btf, members)
                .into_iter()
                .find(|(n, f)| n == name && self.is_compatible(mine.id, f.id, 0))
            else {
                continue;
            };
            if found.is_some_and(|other| other.offset_bits != field.offset_bits) {
                return Err("is in several types of the kernel's of this name, at different places".into());
            }
            found = Some(field);
        }
        Ok(found)
    }

    /// A field's type in C as the kernel has it, and its bytes; or what keeps it from being relocated.
    fn as_kernels(
        &self,
        sizes: &BTreeMap<String, u32>,
        (mine, theirs): (TypeId, TypeId),
        value: &str,
    ) -> Result<(String, u32), String> {
        let (declared, kernel) = (self.declared, self.kernel.btf);
        let (mut of, mut bytes) = (format!("__typeof__({value})"), self.size(sizes, mine));
        match (declared.kind(declared.plain(mine).0), kernel.kind(kernel.plain(theirs).0)) {
            // as libbpf: an unsigned integer has the kernel's width
            (TypeKind::Int { bytes: m, signed: ms }, TypeKind::Int { bytes: t, signed: ts }) if m != t => {
                let width = match t {
                    1 => "char",
                    2 => "short",
                    4 => "int",
                    8 => "long",
                    _ => return Err("is an integer of an unusual width in the kernel".into()),
                };
                if *ms || *ts {
                    return Err(format!(
                        "has {m} bytes here and {t} in the kernel; libbpf changes the width of unsigned integers \
                            only: declare it as the kernel does"
                    ));
                }
                (of, bytes) = (format!("unsigned {width}"), *t);
            }
            _ if !self.is_same_layout(sizes, mine, theirs, 0) => {
                let (mine, theirs) = (element(declared, mine), element(kernel, theirs));
                return Err(match (declared.kind(mine), kernel.kind(theirs)) {
                    (TypeKind::Composite { name: mine, .. }, TypeKind::Composite { name, bytes, .. })
                        if sizes.contains_key(mine) =>
                    {
                        format!(
                            "is made of {name} ({bytes} bytes) in the kernel: {mine} stands for another type, or \
                                holds a field that the kernel lacks and that is larger; give it the name of that type \
                                and such fields only as fit"
                        )
                    }
                    (_, TypeKind::Composite { is_union, name, .. }) if !name.is_empty() => format!(
                        "has a type that the kernel lays out otherwise; give it a name of its own and the mark: {} \
                            {name}___own",
                        if *is_union { "union" } else { "struct" }
                    ),
                    _ => {
                        "has a type that the kernel lays out otherwise; declare it as the kernel does".into()
                    }
                });
            }
            _ => {}
        }
        Ok((of, bytes))
    }

    /// A definition with every field where the kernel has it; `None` if it stays as it is. `sizes` gets the new type's.
    fn relocated(
        &self,
        definition: &Definition<'_>,
        body: &str,
        sizes: &mut BTreeMap<String, u32>,
    ) -> Result<Option<String>, String> {
        let Definition { keyword, name, .. } = definition;
        let known = self.kernel.named(definition.is_union(), name);
        let Some((kernel_bytes, _)) = known.first() else { return Ok(None) };
        let own = self.own.iter().find(|own| own.name == *name && own.keyword == *keyword);
        let own = own.ok_or_else(|| format!("{keyword} {name}: the compiler wrote no members of it down"))?;
        // (libbpf relocates some accesses through such a type: BPF_CORE_READ())
        let unmarked = |why: &str| {
            format!(
                "{keyword} {name} is not marked, and does not fit the kernel's type of this name ({why}): if it \
                    stands for the kernel's, add __attribute__((preserve_access_index)); if it is the scheduler's \
                    own, change its name"
            )
        };
        let (mut items, mut absent) = (Vec::new(), Vec::new());
        for (field, mine) in fields(self.declared, own.members) {
            let refuse = |why: &str| {
                let marked = || format!("{keyword} {name}: {field} {why}");
                Err(if definition.is_marked { marked() } else { unmarked(&field) })
            };
            let value = format!("(({keyword} schedlab_declared_{name} *)0)->{field}");
            let theirs = match self.field(definition, &field, mine) {
                Ok(theirs) => theirs,
                Err(why) => return refuse(&why),
            };
            let Some(theirs) = theirs else {
                if !definition.is_marked {
                    return Err(unmarked(&format!("{field} is not in it")));
                }
                let plus = if mine.is_bit_field { "+" } else { "" };
                absent.push((
                    self.size(sizes, mine.id).max(8 * u32::from(mine.is_bit_field)),
                    format!("__typeof__({plus}{value}) {field};"),
                ));
                continue;
            };
            if mine.is_bit_field || theirs.is_bit_field {
                return refuse(&format!(
                    "is a bit field; those are not relocated: take it out, and read it through {keyword} {} of \
                        vmlinux.h",
                    essential(name)
                ));
            }
            let (of, bytes) = match self.as_kernels(sizes, (mine.id, theirs.id), &value) {
                Ok(fits) => fits,
                Err(why) => return refuse(&why),
            };
            items.push((theirs.offset_bits / 8, bytes, format!("{of} {field};")));
        }
        items.sort_by_key(|(offset, ..)| *offset);
        // one behind the other; what the kernel has at the same place, and arrays without an end, beside them
        let mut pads = 0;
        let mut pad = |bytes: u32| {
            pads += 1;
            if bytes == 0 { String::new() } else { format!("char schedlab_{name}_pad{pads}[{bytes}]; ") }
        };
        let (mut row, mut at, mut arms) = (String::new(), 0, Vec::new());
        let mut size = *kernel_bytes;
        for (offset, bytes, text) in items {
            size = size.max(offset.saturating_add(bytes));
            if offset < at && bytes > 0 && !definition.is_marked {
                return Err(unmarked("fields lie in one place"));
            }
            if offset < at || bytes == 0 {
                arms.push(format!("char schedlab_{name}_at_{offset}_{}[{offset}]; {text}", arms.len()));
            } else {
                let _ = write!(row, "{}{text} ", pad(offset - at));
                at = offset + bytes;
            }
        }
        row.push_str(&pad(kernel_bytes.saturating_sub(at)));
        for (bytes, text) in absent {
            size = size.max(bytes);
            arms.push(format!("char schedlab_{name}_absent_{}[0]; {text}", arms.len()));
        }
        sizes.insert((*name).to_owned(), size);
        // the first line has what lines the body has: those that follow keep their numbers
        let declared =
            format!("char schedlab_{name}_pad[0 * sizeof({keyword} schedlab_declared_{name} {{{body}}})];");
        let mut text = format!("struct {{ {declared} {row}}} __attribute__((packed));");
        if !arms.is_empty() {
            for arm in arms {
                let _ = write!(text, " struct {{ {arm} }} __attribute__((packed));");
            }
            text = format!("union {{ {text} }};");
        }
        Ok(Some(format!("{name} {{ {text} }}")))
    }
}

/// The text with the scheduler's own types laid out as `kernel` has them, and questions answered. `declared`:
/// what the compiler says of [`probe`]'s text.
pub(super) fn apply(text: &str, header: &str, declared: &Btf, kernel: &Btf) -> Result<String, ScxError> {
    let tokens = tokens(text, header);
    let definitions = definitions(&tokens);
    let types = Types::new(declared, kernel, &definitions);
    let mut sizes = BTreeMap::new();
    let changed = substituted(text, &tokens, &definitions, text.len(), 0, &mut |definition, body| {
        types
            .relocated(definition, body, &mut sizes)
            .map_err(|why| error(text, tokens[definition.name_token].at, &why))
    })?;
    answered(&changed, &|question, asked| types.answer(question, asked))
}

/// Whether the compiler put the fields of relocated types where the kernel has them. `compiled`: the types of
/// [`apply`]'s text.
pub(super) fn check(compiled: &Btf, kernel: &Btf) -> Result<(), ScxError> {
    let kernel = Kernel::new(kernel);
    for (is_union, name, _, members) in compiled.structures() {
        let prefix = format!("schedlab_{name}_");
        let mut is_absent = false;
        let members = fields(compiled, members);
        // (another type can be within this one, and is looked at itself)
        if members.first().is_none_or(|(first, _)| !first.starts_with(&prefix)) {
            continue;
        }
        for (field, mine) in members {
            if field.starts_with("schedlab_") {
                is_absent = field.starts_with(&format!("{prefix}absent_"));
                continue;
            }
            let mut known = kernel.named(is_union, name).iter().flat_map(|(_, m)| fields(kernel.btf, m));
            if !is_absent && !known.any(|(n, k)| n == field && k.offset_bits == mine.offset_bits) {
                return Err(ScxError::Relocation(format!(
                    "the compiler puts {field} of {name} elsewhere than the kernel has it; this is an error of the \
                        simulator's"
                )));
            }
        }
    }
    Ok(())
}

/// What stands for a definition, given its body; `None`: it stays.
type Replace<'r, 'a> = dyn FnMut(&Definition<'a>, &str) -> Result<Option<String>, ScxError> + 'r;

/// `text[from..to]` with each outermost definition there replaced, name to closing brace, inner ones in its body first.
fn substituted<'a>(
    text: &str,
    tokens: &[Token<'a>],
    definitions: &[Definition<'a>],
    to: usize,
    from: usize,
    replace: &mut Replace<'_, 'a>,
) -> Result<String, ScxError> {
    let (mut out, mut done) = (String::new(), from);
    for (number, definition) in definitions.iter().enumerate() {
        let (name, open, close) = (
            &tokens[definition.name_token],
            &tokens[definition.braces.start],
            &tokens[definition.braces.end],
        );
        if name.at < done || close.end() > to {
            continue;
        }
        let body = substituted(text, tokens, &definitions[number + 1..], close.at, open.end(), replace)?;
        out.push_str(&text[done..name.at]);
        match replace(definition, &body)? {
            Some(changed) => out.push_str(&changed),
            None => {
                out.push_str(&text[name.at..open.end()]);
                out.push_str(&body);
                out.push('}');
            }
        }
        done = close.end();
    }
    out.push_str(&text[done..to]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::syntax::marker;
    use super::*;

    const HEADER: &str = "/k/vmlinux.h";
    const TEXT: &str = "# 1 \"main.bpf.c\"\n# 1 \"/k/vmlinux.h\" 1\nstruct rq___2 { int a; };\n# 2 \"main.bpf.c\" 2
struct rq___local {\n\tlong clock; struct in___x { char c[2]; } in;\n} __attribute__((preserve_access_index));
struct plain { int b; };\nchar *s = \"struct no___t { int a; };\"; int c = '{';
struct opaque___x;\nint f(struct rq___local *p) { return __schedlab_core_type_exists(struct irq___l) ? p->clock : 0; \
}\n";

    fn found(text: &str) -> Vec<(String, bool, bool)> {
        let tokens = tokens(text, HEADER);
        definitions(&tokens).iter().map(|d| (d.name.to_owned(), d.is_marked, d.is_global)).collect()
    }

    fn member(name: &str, id: TypeId, offset: u32) -> Member {
        Member { name: name.into(), id, offset_bits: 8 * offset, width_bits: 0 }
    }

    fn structure(name: &str, bytes: u32, members: Vec<Member>) -> TypeKind {
        TypeKind::Composite { is_union: false, name: name.into(), bytes, members }
    }

    const U32: TypeId = 1;
    const U64: TypeId = 2;
    const S32: TypeId = 3;
    const POINTER: TypeId = 4;

    fn types(more: Vec<TypeKind>) -> Btf {
        let int = |bytes, signed| TypeKind::Int { bytes, signed };
        let mut all =
            vec![TypeKind::Opaque, int(4, false), int(8, false), int(4, true), TypeKind::Pointer(0)];
        all.extend(more);
        Btf::of(all)
    }

    /// `struct in { u64 x; u32 y, z; }; struct rq { u32 flags; s32 nr; u64 clock; struct in in; struct in
    /// many[2]; void *next; }`
    fn kernel() -> Btf {
        types(vec![
            structure("in", 16, vec![member("x", U64, 0), member("y", U32, 8), member("z", U32, 12)]),
            TypeKind::Array { element: 5, length: 2 },
            structure(
                "rq",
                72,
                vec![
                    member("flags", U32, 0),
                    member("nr", S32, 4),
                    member("clock", U64, 8),
                    member("in", 5, 16),
                    member("many", 6, 32),
                    member("next", POINTER, 64),
                ],
            ),
            TypeKind::Enum { name: "state".into(), bytes: 4, values: vec![("UP".into(), 3)] },
        ])
    }

    /// `struct in___own { u32 y; }`; `struct rq___own` with these members; 5: the former, 6: two of them.
    fn declared(members: Vec<Member>) -> Btf {
        types(vec![
            structure("in___own", 4, vec![member("y", U32, 0)]),
            TypeKind::Array { element: 5, length: 2 },
            structure("rq___own", 99, members),
        ])
    }

    const OWN: &str = "# 7 \"a.c\"\nstruct in___own { u32 y; } __attribute__((preserve_access_index));\n\
        struct rq___own {} __attribute__((preserve_access_index));\n";

    fn applied(text: &str, members: Vec<Member>) -> Result<String, String> {
        let text = format!("{OWN}{text}");
        apply(&text, HEADER, &declared(members), &kernel()).map_err(|e| e.to_string())
    }

    #[test]
    fn definitions_are_found() {
        let named = |name: &str, is_marked, is_global| (name.to_owned(), is_marked, is_global);
        assert_eq!(found(TEXT), [named("rq___local", true, true), named("in___x", true, true)]);
        let more = "struct __attribute__((preserve_access_index)) a___1 { int x; };
struct b { struct b___1 { int x; } *p; };\nvoid f(void) { struct c___1 { int x; } c; }
#pragma clang attribute push (__attribute__((preserve_access_index)), apply_to = record)\nunion d___1 { int x; };
#pragma clang attribute pop\nstruct e___1 { int x; } __attribute__((packed));\nstruct f____1 { int x; };\n";
        let expected = [
            named("a___1", true, true),
            named("b___1", false, true),
            named("c___1", false, false),
            named("d___1", true, true),
            named("e___1", false, true),
        ];
        assert_eq!(found(more), expected);
        let tokens = tokens(TEXT, HEADER);
        let mut seen = Vec::new();
        let changed = substituted(TEXT, &tokens, &definitions(&tokens), TEXT.len(), 0, &mut |d, body| {
            seen.push((d.name.to_owned(), body.to_owned()));
            Ok(Some(format!("<{}>", d.name)))
        });
        let changed = changed.unwrap();
        assert!(
            changed.contains("struct <rq___local> __attribute__((preserve_access_index));\nstruct plain"),
            "{changed}"
        );
        assert!(
            changed.contains("struct rq___2 { int a; };") && changed.contains("struct no___t { int a; }")
        );
        assert_eq!(seen[0], ("in___x".into(), " char c[2]; ".into()));
        assert_eq!(seen[1], ("rq___local".into(), "\n\tlong clock; struct <in___x> in;\n".into()));
        let same = substituted(TEXT, &tokens, &definitions(&tokens), TEXT.len(), 0, &mut |_, _| Ok(None));
        assert_eq!(same.unwrap(), TEXT);
    }

    /// Only what a compiler's own line says is a file's name; only the kernel's header is the kernel's.
    #[test]
    fn the_kernels_header_is_distinguished_from_others() {
        let names = |lines: &str| found(&format!("{lines}\nstruct a___1 {{ int x; }};")).len();
        assert_eq!(names("# 1 \"/k/vmlinux.h\" 1"), 0);
        assert_eq!(names("# 1 \"/home/me/vmlinux.h\" 1"), 1);
        assert_eq!(names("#pragma message \"/k/vmlinux.h\""), 1);
        assert_eq!(marker("# 12 \"a\\\"b\\\\c.h\" 1 3"), Some((12, "a\"b\\c.h".into())));
        assert_eq!(place("# 1 \"a.c\"\nx\n# 5 \"b.h\" 1\ny\nz", 31), "b.h:6");
    }

    #[test]
    fn strings_are_passed_over() {
        let words = |text| tokens(text, "").iter().map(|t| t.text.to_owned()).collect::<Vec<_>>().join(" ");
        assert_eq!(words("a = R\"x(it's \" { )\" )x\" b"), "a = R b");
        assert_eq!(words("L\"a}{\\\"b\" '\\'' \"\\\\\" c"), "L c");
        let latin = b"char *s = \"\xe9\xff{\"; int \xc3\xa9;";
        assert_eq!(encoded(&decoded(latin)), latin);
    }

    /// The probe ends with the last definition's statement.
    #[test]
    fn the_probe_is_whole() {
        assert!(is_needed(TEXT, HEADER) && !is_needed("struct a { int b; }; int x___y;", HEADER));
        let none = Btf::default();
        let whole = probe(TEXT, HEADER, &none).unwrap().unwrap();
        assert!(!whole.contains("struct plain"), "{whole}");
        assert!(
            whole.ends_with(
                "(preserve_access_index));\nstruct rq___local *schedlab_probe0;\nstruct in___x *schedlab_probe1;\n"
            ),
            "{whole}"
        );
        let inside = |name: &str| {
            let text = format!("# 3 \"m.c\"\nint f(void) {{ struct {name} {{ int c; }} *d; return 0; }}");
            probe(&text, HEADER, &kernel()).map_err(|e| e.to_string())
        };
        let refused = inside("rq___b").unwrap_err();
        assert!(refused.contains("m.c:3: struct rq___b is defined within a function"), "{refused}");
        // the scheduler's own
        assert_eq!(inside("a___b").unwrap(), None);
        assert_eq!(probe("int x;", HEADER, &none).unwrap(), None);
    }

    #[test]
    fn questions_are_found() {
        let text = "if (__schedlab_core_field_exists(((p)->a[f(1)]\n# 3 \"a.c\"\n .b)) && x) y();";
        let answer = |question: &str, asked: &str| {
            assert_eq!(question, "field_exists");
            Ok(format!("<{asked}>"))
        };
        // lines keep their numbers
        assert_eq!(answered(text, &answer).unwrap(), "if (<((p)->a[f(1)]  .b)>\n# 3 \"a.c\"\n && x) y();");
        let inner =
            answered("__schedlab_core_a(p->b[__schedlab_core_c(d)])", &|q, a| Ok(format!("{q}<{a}>")));
        assert_eq!(inner.unwrap(), "a<p->b[c<d>]>");
        let error =
            answered("\n# 8 \"x.c\"\n__schedlab_core_what(1) ;", &|_, _| Err("why".into())).unwrap_err();
        assert!(error.to_string().contains("x.c:8: bpf_core_what(): why; this is: 1"), "{error}");
    }

    #[test]
    fn accesses_are_taken_apart() {
        let apart = |text: &str| {
            let Access { base, is_pointer, steps } = access(text)?;
            let step = |s: &Step| {
                let indices = s.indices.iter().map(|(text, _)| format!("[{text}]"));
                s.name.clone() + &indices.collect::<String>()
            };
            let path = steps.iter().map(step).collect::<Vec<_>>().join(".");
            Some(format!("{base} {} {path}", if is_pointer { "->" } else { "." }))
        };
        for (text, expected) in [
            ("p->a.b[3].c", "p -> a.b[3].c"),
            ("((p)->a[f(1)].b)", "(p) -> a[f(1)].b"),
            ("((p->a).b).c", "p -> a.b.c"),
            ("get(p->a, 2)->b", "get(p->a, 2) -> b"),
            ("p->a->b", "p->a -> b"),
            ("v.a", "v . a"),
            ("v[1].a", "v[1] . a"),
            ("(*p).a", "(*p) . a"),
            ("(p->a)[i][2]", "p -> a[i][2]"),
        ] {
            assert_eq!(apart(text).as_deref(), Some(expected));
        }
        for text in ["p", "*p->a", "a + p->b", "(u64)p->b", "3", ""] {
            assert_eq!(apart(text), None, "{text}");
        }
        assert_eq!(pointed_to("((const struct rq *)((void *)0))"), Some((false, "rq".into())));
        assert_eq!(pointed_to("((__typeof__(typeof( union u ))*)p)"), Some((true, "u".into())));
        assert_eq!(pointed_to("(p)"), None);
    }

    /// In the order of the kernel, as large as the kernel's; what it lacks is beside.
    #[test]
    fn types_are_laid_out() {
        let text =
            applied("", vec![member("clock", U64, 0), member("flags", U64, 8), member("next", POINTER, 16)]);
        let text = text.unwrap();
        let rq = text.lines().nth(2).unwrap();
        assert!(
            rq.starts_with(
                "struct rq___own { struct { char schedlab_rq___own_pad[0 * sizeof(struct \
                schedlab_declared_rq___own {})]; unsigned int flags; char schedlab_rq___own_pad"
            ),
            "{rq}"
        );
        assert!(
            rq.contains("[4]; __typeof__(((struct schedlab_declared_rq___own *)0)->clock) clock; char"),
            "{rq}"
        );
        assert!(
            rq.contains(
                "[48]; __typeof__(((struct schedlab_declared_rq___own *)0)->next) next; } \
            __attribute__((packed)); } __attribute__"
            ),
            "{rq}"
        );
        // u64 over a pointer is another field
        let text = applied("", vec![member("clock", U64, 0), member("next", U64, 8), member("many", 6, 16)])
            .unwrap();
        let rq = text.lines().nth(2).unwrap();
        assert!(
            rq.contains("union {")
                && rq.contains(
                    "absent_0[0]; __typeof__(((struct schedlab_declared_rq___own *)0)->next) next; }"
                ),
            "{rq}"
        );
        assert!(
            rq.contains("[16]; __typeof__(((struct schedlab_declared_rq___own *)0)->many) many; char"),
            "{rq}"
        );
        // what the kernel does not have stays
        let same = "struct mine___2 { int a; };";
        assert!(applied(same, Vec::new()).unwrap().ends_with(same));
    }

    #[test]
    fn what_cannot_be_laid_out_is_refused() {
        let refused = |members| applied("", members).unwrap_err();
        let signed = refused(vec![member("nr", U64, 0)]);
        assert!(
            signed.contains("a.c:8: struct rq___own: nr has 8 bytes here and 4 in the kernel"),
            "{signed}"
        );
        let mut bit = member("flags", U32, 0);
        bit.width_bits = 1;
        let bit = refused(vec![bit]);
        assert!(
            bit.contains("flags is a bit field") && bit.contains("through struct rq of vmlinux.h"),
            "{bit}"
        );
        let own = types(vec![
            structure("", 4, vec![member("y", U32, 0)]),
            structure("rq___own", 4, vec![member("in", 5, 0)]),
        ]);
        let nested = apply(OWN.lines().last().unwrap(), HEADER, &own, &kernel()).unwrap_err().to_string();
        assert!(nested.contains("struct in___own"), "{nested}");
        // elements of more bytes than the kernel's; a type of another name; one without a flavour around one with it
        let own = |name: &str, more: Vec<Member>, of: TypeId| {
            let members = [vec![member("y", U32, 0)], more].concat();
            let types = types(vec![
                structure(name, 44, members),
                TypeKind::Array { element: 5, length: 2 },
                structure("rq___own", 99, vec![member("many", 6, 0), member("in", of, 88)]),
                TypeKind::Array { element: U64, length: 5 },
                structure("", 44, vec![member("in", 5, 0)]),
            ]);
            let text = OWN.replace("in___own", name);
            apply(&text, HEADER, &types, &kernel()).map(drop).map_err(|e| e.to_string())
        };
        assert_eq!(own("in___own", Vec::new(), 5), Ok(()));
        let large = own("in___own", vec![member("no", 8, 4)], 5).unwrap_err();
        assert!(large.contains("many is made of in (16 bytes) in the kernel"), "{large}");
        let other = own("rq___2", Vec::new(), 5).unwrap_err();
        assert!(other.contains("rq___2: y is") || other.contains("many is made of in"), "{other}");
        let around = own("in___own", Vec::new(), 9).unwrap_err();
        assert!(around.contains("in has a type that the kernel lays out otherwise"), "{around}");
        let unmarked = "struct rq___own { int x; };";
        let own = declared(vec![member("no", U32, 0)]);
        let unmarked = apply(unmarked, HEADER, &own, &kernel()).unwrap_err().to_string();
        assert!(unmarked.contains("struct rq___own is not marked"), "{unmarked}");
        assert!(unmarked.contains("(no is not in it)"), "{unmarked}");
    }

    #[test]
    fn what_the_compiler_made_of_it_is_checked() {
        let compiled = |clock: u32| {
            let inner = vec![member("schedlab_rq___own_pad", U32, 0), member("clock", U64, clock)];
            let absent = vec![member("schedlab_rq___own_absent_0", U32, 0), member("no", U64, 0)];
            types(vec![
                structure("", 72, inner),
                structure("", 8, absent),
                structure("rq___own", 72, vec![member("", 5, 0), member("", 6, 0)]),
            ])
        };
        assert!(check(&compiled(8), &kernel()).is_ok());
        let wrong = check(&compiled(12), &kernel()).unwrap_err().to_string();
        assert!(wrong.contains("puts clock of rq___own elsewhere"), "{wrong}");
    }

    #[test]
    fn questions_are_answered() {
        let members = || {
            vec![member("clock", U64, 0), member("no", 6, 8), member("next", U64, 16), member("in", 5, 24)]
        };
        let ask = |question: &str| {
            let text = applied(&format!("__schedlab_core_{question}"), members())?;
            Ok::<_, String>(text.lines().nth(3).unwrap_or_default().to_owned())
        };
        let is_own = "__builtin_types_compatible_p(__typeof__(*(p)), struct rq___own)";
        for (question, expected) in [
            ("field_exists(struct rq___own, clock)", "1"),
            ("field_exists(struct rq___own, no[1].y)", "0"),
            ("field_exists(struct rq___own, next)", "0"),
            ("field_exists(struct rq, next)", "1"),
            ("field_exists(struct rq, many[1].z)", "1"),
            ("field_exists(struct rq, many[2].z)", "0"),
            ("field_exists(((const struct rq *)((void *)0))->many)", "1"),
            ("field_exists(union rq, next)", "0"),
            ("field_exists(typeof( struct rq ), nothing)", "0"),
            ("field_exists(p->clock)", "((__builtin_constant_p(p->clock) || 1))"),
            ("field_exists(p->no[i])", &format!("((__builtin_constant_p(p->no[i]) || 1) && !{is_own})")),
            ("field_offset(p->in.y)", "__builtin_offsetof(__typeof__(*(p)), in.y)"),
            ("field_offset(struct rq, many[1].z)", "__builtin_offsetof(__typeof__(struct rq), many[1].z)"),
            ("field_size(p->in)", &format!("({is_own} ? 16ULL : sizeof(p->in))")),
            ("type_exists(struct rq___x)", "1"),
            ("type_exists(union rq___x)", "0"),
            ("type_exists((const typeof(struct in___x)))", "1"),
            ("type_size(struct rq___x)", "72ULL"),
            ("type_size(struct rq)", "sizeof(struct rq)"),
            ("type_exists(enum state___x)", "1"),
            ("enum_value(enum state___x, UP___x)", "0x3ULL"),
            ("enum_value_exists(enum state, (UP))", "1"),
            ("enum_value_exists(enum other, UP)", "0"),
        ] {
            assert_eq!(ask(question).as_deref(), Ok(expected), "{question}");
        }
        for question in [
            "field_exists(*p->clock)",
            "field_offset(x)",
            "enum_value(enum state, UP + 1)",
            "type_exists(typeof(((struct rq___x *)0)->in))",
            "type_exists(struct rq, x)",
        ] {
            let error = ask(question).unwrap_err();
            assert!(error.contains("a.c:9: bpf_core_"), "{error}");
        }
    }
}
