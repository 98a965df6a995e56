//! Where in this kernel is a field that a scheduler reads through a type of its own? What libbpf does when it loads a program
//! (CO-RE, "compile once, run everywhere"), done when the scheduler is compiled.
//!
//! ```text
//! struct rq___local { u64 clock_task, clock_pelt, prev_steal_time_rq; };     the scheduler's: "struct rq, as far as I need it"
//!        |                in struct rq of the kernel: bytes 2824, 2832, none
//!        v
//! struct rq___local { union {
//!         struct schedlab_declared_rq___local { ... } schedlab_declared;
//!         struct { char schedlab_pad0[2824]; u64 clock_task; } packed;
//!         struct { char schedlab_pad1[2832]; u64 clock_pelt; } packed;
//!         u64 prev_steal_time_rq aligned(65536);                             not there: bpf_core_field_exists() sees it
//! }; };
//! bpf_core_type_exists(struct irqtime___local)      0, if the kernel has no struct irqtime
//! ```
//!
//! The preprocessed text is changed, not the file; lines keep their numbers. A name without what follows its last `___` is the
//! kernel's ([`essential`], as in libbpf's relo_core.c). Types from vmlinux.h are the kernel's already.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

use super::ScxError;
use super::btf::{Btf, Kind, Member, TypeId};
use super::elf::essential;

/// Of what this module does, for the key of what it compiles.
pub(super) const REVISION: &[u8] = b"relocate 1";
/// More than any field of a kernel's is aligned to: a field with it is not in the kernel.
const ABSENT_ALIGNMENT: u32 = 65536;
/// Questions that linux/scx/include/bpf/bpf_core_read.h leaves in the text.
const QUESTION: &str = "__schedlab_core_";

/// A word, or one other character; strings and comments are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    at: usize,
    /// Of vmlinux.h.
    is_kernels: bool,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// The words of preprocessed C.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80;
    let (mut found, mut at, mut line_start, mut is_kernels) = (Vec::new(), 0, true, false);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'\n' => {
                line_start = true;
                at += 1;
                continue;
            }
            // # 27 "vmlinux.h" 1
            b'#' if line_start => {
                let line = text[at..].lines().next().unwrap_or_default();
                if let Some(file) = line.split('"').nth(1) {
                    is_kernels = file.rsplit('/').next() == Some("vmlinux.h");
                }
                at += line.len();
                continue;
            }
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            quote @ (b'"' | b'\'') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote && bytes[at] != b'\n' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                line_start = false;
                continue;
            }
            b if is_word(b) => {
                while at < bytes.len() && is_word(bytes[at]) {
                    at += 1;
                }
            }
            _ => at += 1,
        }
        line_start = false;
        found.push(Token { text: &text[start..at], at: start, is_kernels });
    }
    found
}

/// The token that closes what `open` opens.
fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let (left, right) = match tokens.get(open)?.text {
        "(" => ("(", ")"),
        "{" => ("{", "}"),
        "[" => ("[", "]"),
        _ => return None,
    };
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.text == left {
            depth += 1;
        } else if token.text == right {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

fn is_word(token: &Token<'_>) -> bool {
    token.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// `struct NAME___FLAVOUR {`: where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition<'a> {
    keyword: &'a str,
    name: &'a str,
    /// Of the name's token, and of the braces'.
    name_token: usize,
    braces: Range<usize>,
}

/// Behind `__attribute__((...))`.
fn skip_attributes(tokens: &[Token<'_>], mut at: usize) -> usize {
    while tokens.get(at).is_some_and(|t| t.text == "__attribute__" || t.text == "__attribute") {
        match closing(tokens, at + 1) {
            Some(end) => at = end + 1,
            None => return at,
        }
    }
    at
}

/// Definitions of the scheduler's own types with a flavour, in order; inner ones follow the outer.
fn definitions<'a>(tokens: &[Token<'a>]) -> Vec<Definition<'a>> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.is_kernels || !matches!(token.text, "struct" | "union") {
            continue;
        }
        let name_token = skip_attributes(tokens, at + 1);
        let Some(name) = tokens.get(name_token).filter(|t| is_word(t)) else { continue };
        if essential(name.text) == name.text {
            continue;
        }
        let open = skip_attributes(tokens, name_token + 1);
        if tokens.get(open).is_none_or(|t| t.text != "{") {
            continue;
        }
        let Some(close) = closing(tokens, open) else { continue };
        found.push(Definition { keyword: token.text, name: name.text, name_token, braces: open..close });
    }
    found
}

/// Whether anything in the text is to be relocated.
pub(super) fn is_needed(text: &str) -> bool {
    text.contains(QUESTION) || (text.contains("___") && !definitions(&tokens(text)).is_empty())
}

/// The beginning of the text with which a compiler writes down the members of all [`definitions`]; `None` if there are none.
pub(super) fn probe(text: &str) -> Result<Option<String>, ScxError> {
    let tokens = tokens(text);
    let definitions = definitions(&tokens);
    let Some(last) = definitions.iter().map(|d| d.braces.end).max() else { return Ok(None) };
    let mut depth = 0i64;
    let mut outermost = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            outermost.insert(at);
        }
    }
    let is_inside = |d: &Definition<'_>, of: &Definition<'_>| of.braces.contains(&d.name_token);
    let hidden = definitions
        .iter()
        .find(|d| !outermost.contains(&d.name_token) && !definitions.iter().any(|of| is_inside(d, of)));
    if let Some(hidden) = hidden {
        return Err(ScxError::Relocation(format!(
            "{} {} is defined within a function or another type; define it at file scope",
            hidden.keyword, hidden.name
        )));
    }
    let end = tokens.iter().enumerate().find(|(at, t)| *at > last && t.text == ";" && outermost.contains(at));
    let end = end.map_or(text.len(), |(_, token)| token.end());
    let mut probe = text[..end].to_owned();
    // questions are in what follows, or in functions that nothing calls
    probe.push('\n');
    for (number, d) in definitions.iter().enumerate() {
        let _ = writeln!(probe, "{} {} *schedlab_probe{number};", d.keyword, d.name);
    }
    Ok(Some(answered(&probe, &|_, _| Some("1".to_owned()))?))
}

/// The text with the questions replaced by what `answer` says to each: its name, and the tokens between the parentheses.
fn answered(text: &str, answer: &dyn Fn(&str, &[Token<'_>]) -> Option<String>) -> Result<String, ScxError> {
    let tokens = tokens(text);
    let mut out = String::with_capacity(text.len());
    let (mut done, mut at) = (0, 0);
    while at < tokens.len() {
        let Some(name) = tokens[at].text.strip_prefix(QUESTION) else {
            at += 1;
            continue;
        };
        let asked = closing(&tokens, at + 1).map(|close| (close, &tokens[at + 2..close]));
        let replaced = asked.and_then(|(close, inside)| Some((close, answer(name, inside)?)));
        let Some((close, replaced)) = replaced else {
            let line = text[tokens[at].at..].lines().next().unwrap_or_default();
            return Err(ScxError::Relocation(format!("not understood: {line}")));
        };
        out.push_str(&text[done..tokens[at].at]);
        out.push_str(&replaced);
        done = tokens[close].end();
        at = close + 1;
    }
    out.push_str(&text[done..]);
    Ok(out)
}

/// A field of the kernel's, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    offset_bits: u32,
    is_bit_field: bool,
    id: TypeId,
}

/// Members and those of members without a name.
fn flattened(btf: &Btf, members: &[Member], base_bits: u32, found: &mut Vec<(String, Field)>) {
    for member in members {
        let offset_bits = base_bits + member.offset_bits;
        if !member.name.is_empty() {
            let is_bit_field = member.width_bits != 0;
            found.push((member.name.clone(), Field { offset_bits, is_bit_field, id: member.id }));
        } else if let Kind::Composite { members, .. } = btf.kind(btf.plain(member.id).0) {
            flattened(btf, members, offset_bits, found);
        }
    }
}

fn fields(btf: &Btf, members: &[Member]) -> Vec<(String, Field)> {
    let mut found = Vec::new();
    flattened(btf, members, 0, &mut found);
    found
}

/// The kernel's types by name.
struct Kernel<'a> {
    btf: &'a Btf,
    composites: BTreeMap<&'a str, Vec<(u32, &'a [Member])>>,
    enumerators: BTreeMap<&'a str, i64>,
}

impl<'a> Kernel<'a> {
    fn new(btf: &'a Btf) -> Kernel<'a> {
        let mut composites = BTreeMap::<_, Vec<_>>::new();
        for (name, bytes, members) in btf.composites().filter(|c| !c.0.is_empty()) {
            composites.entry(name).or_default().push((bytes, members));
        }
        Kernel { btf, composites, enumerators: btf.enumerators() }
    }

    /// A field of the kernel's type of that name; an error if types of one name disagree.
    fn field(&self, of: &str, name: &str) -> Result<Option<Field>, ScxError> {
        let mut found: Option<Field> = None;
        for (_, members) in self.composites.get(of).into_iter().flatten() {
            let Some((_, field)) = fields(self.btf, members).into_iter().find(|(n, _)| n == name) else {
                continue;
            };
            if found.is_some_and(|other| other.offset_bits != field.offset_bits) {
                return Err(ScxError::Relocation(format!(
                    "the kernel has several types {of}, which do not agree on where {name} is"
                )));
            }
            found = Some(field);
        }
        Ok(found)
    }

    /// Whether a type (`struct rq`) has a field, by its path (`a . b`).
    fn has_path(&self, of: &str, path: &[&str]) -> bool {
        let Some((first, rest)) = path.split_first() else { return true };
        self.composites
            .get(of)
            .into_iter()
            .flatten()
            .any(|(_, members)| self.members_have(members, first, rest))
    }

    fn members_have(&self, members: &[Member], first: &str, rest: &[&str]) -> bool {
        fields(self.btf, members).into_iter().filter(|(name, _)| name == first).any(|(_, field)| {
            let Some((next, after)) = rest.split_first() else { return true };
            let mut id = self.btf.plain(field.id).0;
            while let Kind::Array { element, .. } | Kind::Pointer(element) = self.btf.kind(id) {
                id = self.btf.plain(*element).0;
            }
            match self.btf.kind(id) {
                Kind::Composite { members, .. } => self.members_have(members, next, after),
                _ => false,
            }
        })
    }

    /// Whether the kernel has `struct NAME`, `union NAME` or `enum NAME`; a type by another kind of name is there if it compiles.
    fn has(&self, asked: &[Token<'_>]) -> Option<bool> {
        match asked {
            [kind, name] if matches!(kind.text, "struct" | "union") => {
                Some(self.composites.contains_key(essential(name.text)))
            }
            [kind, name] if kind.text == "enum" => Some(self.btf.has_enum(essential(name.text))),
            _ => None,
        }
    }
}

/// `a . b`, `a -> b`, `a [ 1 ] . b`: the names.
fn path<'a>(tokens: &[Token<'a>]) -> Option<Vec<&'a str>> {
    let (mut names, mut at) = (Vec::new(), 0);
    while let Some(token) = tokens.get(at) {
        match token.text {
            "[" => at = closing(tokens, at)? + 1,
            "." | "-" | ">" => at += 1,
            _ if is_word(token) => {
                names.push(token.text);
                at += 1;
            }
            _ => return None,
        }
    }
    Some(names)
}

/// `((struct T *)0)->a.b`: T and the path.
fn of_null<'a>(tokens: &[Token<'a>]) -> Option<(&'a str, Vec<&'a str>)> {
    let texts: Vec<&str> = tokens.iter().map(|t| t.text).collect();
    match texts.as_slice() {
        ["(", "(", "struct" | "union", name, "*", ")", "0", ")", "-", ">", ..] => {
            Some((name, path(&tokens[10..])?))
        }
        // within further parentheses
        ["(", .., ")"] if closing(tokens, 0) == Some(tokens.len() - 1) => {
            of_null(&tokens[1..tokens.len() - 1])
        }
        _ => None,
    }
}

/// What the kernel answers to a question. `absent`: names of the fields that it lacks, of the scheduler's own types.
fn answer(
    kernel: &Kernel<'_>,
    absent: &BTreeSet<String>,
    text: &str,
    question: &str,
    asked: &[Token<'_>],
) -> Option<String> {
    let source = |tokens: &[Token<'_>]| {
        let (first, last) = (tokens.first()?, tokens.last()?);
        Some(text.get(first.at..last.end())?.to_owned())
    };
    let truth = |is: bool| Some(if is { "1" } else { "0" }.to_owned());
    let comma = asked.iter().position(|t| t.text == ",");
    match question {
        "type_exists" => match kernel.has(asked) {
            Some(is) => truth(is),
            None => Some(format!("(sizeof({}) || 1)", source(asked)?)),
        },
        "type_size" => match asked {
            [kind, name] if matches!(kind.text, "struct" | "union") && essential(name.text) != name.text => {
                let sizes = kernel.composites.get(essential(name.text));
                Some(format!("{}ULL", sizes.and_then(|all| all.first()).map_or(0, |(bytes, _)| *bytes)))
            }
            _ => Some(format!("sizeof({})", source(asked)?)),
        },
        "enum_value" | "enum_value_exists" => {
            let value = kernel.enumerators.get(essential(asked.get(comma? + 1)?.text));
            if question == "enum_value_exists" {
                return truth(value.is_some());
            }
            Some(format!("{:#x}ULL", value.copied().unwrap_or(0)))
        }
        "field_exists" => {
            if let Some(comma) = comma
                && let [kind, name] = &asked[..comma]
                && matches!(kind.text, "struct" | "union")
            {
                return truth(kernel.has_path(essential(name.text), &path(&asked[comma + 1..])?));
            }
            if let Some((name, path)) = of_null(asked) {
                return truth(kernel.has_path(essential(name), &path));
            }
            let last = asked.iter().rev().find(|t| is_word(t))?;
            if absent.contains(last.text) {
                return Some(format!("(__alignof__({}) < {ABSENT_ALIGNMENT})", source(asked)?));
            }
            // what is not there does not compile
            Some(format!("(__builtin_constant_p({}) || 1)", source(asked)?))
        }
        _ => None,
    }
}

/// Whether a type of the scheduler's is laid out as the kernel's: what its fields' fields are read by.
fn is_same_layout(declared: &Btf, mine: TypeId, kernel: &Btf, theirs: TypeId) -> bool {
    match (declared.kind(declared.plain(mine).0), kernel.kind(kernel.plain(theirs).0)) {
        (Kind::Composite { name, members, .. }, Kind::Composite { members: known, .. }) => {
            // a flavoured one is relocated itself
            if essential(name) != name {
                return true;
            }
            let known = fields(kernel, known);
            fields(declared, members).iter().all(|(name, field)| {
                known.iter().any(|(n, k)| {
                    n == name
                        && k.offset_bits == field.offset_bits
                        && is_same_layout(declared, field.id, kernel, k.id)
                })
            })
        }
        (Kind::Array { element: mine, .. }, Kind::Array { element: theirs, .. }) => {
            is_same_layout(declared, *mine, kernel, *theirs)
        }
        _ => true,
    }
}

/// A definition with every field where the kernel has it.
fn relocated(
    kernel: &Kernel<'_>,
    declared: &Btf,
    definition: &Definition<'_>,
    body: &str,
    absent: &mut BTreeSet<String>,
) -> Result<String, ScxError> {
    let Definition { keyword, name, .. } = definition;
    let known = essential(name);
    let refuse =
        |field: &str, why: &str| Err(ScxError::Relocation(format!("{keyword} {name}: {field} {why}")));
    let Some((_, _, members)) = declared.composites().find(|(n, _, _)| n == name) else {
        return Err(ScxError::Relocation(format!("the compiler wrote no members of {keyword} {name} down")));
    };
    // on one line: the lines that follow keep their numbers
    let mut text =
        format!("{name} {{ union {{ {keyword} schedlab_declared_{name} {{{body}}} schedlab_declared;");
    for (number, (field, mine)) in fields(declared, members).into_iter().enumerate() {
        let value = format!("(({keyword} schedlab_declared_{name} *)0)->{field}");
        if mine.is_bit_field {
            return refuse(&field, "is a bit field; those are not relocated");
        }
        let Some(theirs) = kernel.field(known, &field)? else {
            let _ =
                write!(text, " __typeof__({value}) {field} __attribute__((aligned({ABSENT_ALIGNMENT})));");
            absent.insert(field);
            continue;
        };
        if theirs.is_bit_field {
            return refuse(&field, "is a bit field in the kernel; those are not relocated");
        }
        if !is_same_layout(declared, mine.id, kernel.btf, theirs.id) {
            return refuse(
                &field,
                "has a type without a flavour (NAME___FLAVOUR) that the kernel lays out otherwise",
            );
        }
        // as libbpf: an integer has the kernel's width
        let of = match kernel.btf.kind(kernel.btf.plain(theirs.id).0) {
            Kind::Int { bytes, signed } => {
                let sign = if *signed { "signed" } else { "unsigned" };
                let width = match bytes {
                    1 => "char",
                    2 => "short",
                    4 => "int",
                    _ => "long",
                };
                format!("__builtin_choose_expr(sizeof({value}) == {bytes}, {value}, ({sign} {width})0)")
            }
            _ => value,
        };
        let _ = write!(
            text,
            " struct {{ char schedlab_pad{number}[{}]; __typeof__({of}) {field}; }} __attribute__((packed));",
            theirs.offset_bits / 8
        );
    }
    text.push_str(" }; }");
    Ok(text)
}

/// The text with the scheduler's own types laid out as `kernel` has them, and questions answered. `declared`: what the compiler
/// says of [`probe`]'s text.
pub(super) fn apply(text: &str, declared: &Btf, kernel: &Btf) -> Result<String, ScxError> {
    let kernel = Kernel::new(kernel);
    let tokens = tokens(text);
    let definitions = definitions(&tokens);
    let mut absent = BTreeSet::new();
    let changed = substituted(text, &tokens, &definitions, text.len(), 0, &mut |definition, body| {
        relocated(&kernel, declared, definition, body, &mut absent)
    })?;
    answered(&changed, &|question, asked| answer(&kernel, &absent, &changed, question, asked))
}

/// `text[from..to]` with each outermost definition there replaced, name to closing brace, inner ones in its body first.
fn substituted<'a>(
    text: &str,
    tokens: &[Token<'a>],
    definitions: &[Definition<'a>],
    to: usize,
    from: usize,
    replace: &mut dyn FnMut(&Definition<'a>, &str) -> Result<String, ScxError>,
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
        out.push_str(&replace(definition, &body)?);
        done = close.end();
    }
    out.push_str(&text[done..to]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# 1 \"main.bpf.c\"\n# 1 \"/k/vmlinux.h\" 1\nstruct rq___2 { int a; };\n# 2 \"main.bpf.c\" 2
struct rq___local {\n\tlong clock; struct in___x { char c[2]; } in;\n} __attribute__((preserve));
struct plain { int b; };\nchar *s = \"struct no___t { int a; };\"; int c = '{';
struct opaque___x;\nint f(struct rq___local *p) { return __schedlab_core_type_exists(struct irq___l) ? p->clock : 0; }\n";

    #[test]
    fn definitions_are_found() {
        let tokens = tokens(TEXT);
        let names: Vec<_> = definitions(&tokens).iter().map(|d| d.name).collect();
        assert_eq!(names, ["rq___local", "in___x"]);
        let mut seen = Vec::new();
        let changed = substituted(TEXT, &tokens, &definitions(&tokens), TEXT.len(), 0, &mut |d, body| {
            seen.push((d.name.to_owned(), body.to_owned()));
            Ok(format!("<{}>", d.name))
        });
        let changed = changed.unwrap();
        assert!(
            changed.contains("struct <rq___local> __attribute__((preserve));\nstruct plain"),
            "{changed}"
        );
        assert!(
            changed.contains("struct rq___2 { int a; };") && changed.contains("struct no___t { int a; }")
        );
        assert_eq!(seen[0], ("in___x".into(), " char c[2]; ".into()));
        assert_eq!(seen[1], ("rq___local".into(), "\n\tlong clock; struct <in___x> in;\n".into()));
    }

    /// The probe ends with the last definition's statement.
    #[test]
    fn the_probe_is_whole() {
        assert!(is_needed(TEXT) && !is_needed("struct a { int b; }; int x___y;"));
        let probe = probe(TEXT).unwrap().unwrap();
        assert!(!probe.contains("struct plain"), "{probe}");
        assert!(
            probe.ends_with(
                "(preserve));\nstruct rq___local *schedlab_probe0;\nstruct in___x *schedlab_probe1;\n"
            ),
            "{probe}"
        );
        let inside = super::probe("int f(void) { struct a___b { int c; } *d; return 0; }").unwrap_err();
        assert!(inside.to_string().contains("struct a___b is defined within a function"), "{inside}");
        assert_eq!(super::probe("int x;").unwrap(), None);
    }

    #[test]
    fn questions_are_answered() {
        let text = "if (__schedlab_core_field_exists(((p)->a[f(1)].b)) && x) y();";
        let answer = |question: &str, asked: &[Token<'_>]| {
            assert_eq!(question, "field_exists");
            assert_eq!(path(&asked[4..10]).unwrap_or_default(), Vec::<&str>::new());
            Some(asked.iter().map(|t| t.text).collect())
        };
        assert_eq!(answered(text, &answer).unwrap(), "if (((p)->a[f(1)].b) && x) y();");
        let error = answered("\n__schedlab_core_what(1) ;", &|_, _| None).unwrap_err();
        assert!(error.to_string().contains("not understood: __schedlab_core_what(1) ;"), "{error}");
        let tokens = tokens("(((struct rq___l *)0)->a.b[3].c)");
        assert_eq!(of_null(&tokens), Some(("rq___l", vec!["a", "b", "c"])));
    }
}
