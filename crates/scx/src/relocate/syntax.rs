//! How is preprocessed C read? As words; of what they say only definitions of types with a flavour, and
//! accesses to fields.
//!
//! ```text
//! struct rq___local { u64 clock; } __attribute__((preserve_access_index));      a definition, marked
//! f(x)->a.b[3]                                                                 base f(x), a pointer; a, b[3]
//! ```

use std::ops::Range;

use crate::names::essential;

/// A file's bytes as text in which each byte is one character: C need not be UTF-8.
pub(crate) fn decoded(bytes: &[u8]) -> String {
    bytes.iter().map(|b| char::from(*b)).collect()
}

/// The bytes of [`decoded`] text.
pub(crate) fn encoded(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect()
}

/// A word, or one other character; strings and comments are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// Of vmlinux.h.
    pub(super) is_kernels: bool,
    /// Within `#pragma clang attribute push(__attribute__((preserve_access_index)), ...)`.
    pub(super) is_marked: bool,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// `# 27 "a.c" 1`: 27 and a.c.
pub(super) fn marker(line: &str) -> Option<(usize, String)> {
    let (number, rest) = line.strip_prefix("# ")?.split_once(' ')?;
    let number = number.parse().ok()?;
    let (mut file, mut is_escaped) = (String::new(), false);
    for c in rest.strip_prefix('"')?.chars() {
        match c {
            '"' if !is_escaped => return Some((number, file)),
            '\\' if !is_escaped => is_escaped = true,
            _ => {
                file.push(c);
                is_escaped = false;
            }
        }
    }
    None
}

/// `FILE:LINE` of a place in preprocessed text.
pub(super) fn place(text: &str, at: usize) -> String {
    let (mut file, mut number) = (String::from("the scheduler"), 0);
    for line in text.get(..at).unwrap_or(text).split('\n') {
        match marker(line) {
            Some((next, name)) => (number, file) = (next.saturating_sub(1), name),
            None => number += 1,
        }
    }
    format!("{file}:{number}")
}

/// Behind a string or character; `prefix` is the word directly in front of it.
pub(super) fn behind_string(text: &str, at: usize, prefix: &str) -> usize {
    let bytes = text.as_bytes();
    let quote = bytes[at];
    if quote == b'"' && matches!(prefix, "R" | "LR" | "uR" | "UR" | "u8R") {
        // R"mark(...)mark"
        let mark = text[at + 1..].split('(').next().unwrap_or_default();
        let end = format!("){mark}\"");
        return text[at..].find(&end).map_or(text.len(), |found| at + found + end.len());
    }
    let mut at = at + 1;
    while at < bytes.len() && bytes[at] != quote && bytes[at] != b'\n' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// The words of preprocessed C. `header`: the kernel's vmlinux.h.
pub(super) fn tokens<'a>(text: &'a str, header: &str) -> Vec<Token<'a>> {
    let bytes = text.as_bytes();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80;
    let mut found: Vec<Token<'a>> = Vec::new();
    let (mut at, mut line_start, mut is_kernels) = (0, true, false);
    let mut pushed: Vec<bool> = Vec::new();
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'\n' => {
                line_start = true;
                at += 1;
                continue;
            }
            b'#' if line_start => {
                let line = text[at..].split('\n').next().unwrap_or_default();
                if let Some((_, file)) = marker(line) {
                    is_kernels = file == header;
                } else if let Some((_, order)) = line.split_once("clang attribute") {
                    let order = order.trim_start();
                    if order.starts_with("push") {
                        pushed.push(order.contains("preserve_access_index"));
                    } else if order.starts_with("pop") {
                        pushed.pop();
                    }
                }
                at += line.len();
                continue;
            }
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'"' | b'\'' => {
                let prefix = found.last().filter(|t| t.end() == at).map_or("", |t| t.text);
                at = behind_string(text, at, prefix);
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
        let is_marked = pushed.contains(&true);
        found.push(Token { text: &text[start..at], at: start, is_kernels, is_marked });
    }
    found
}

/// The token that ends what the first one begins; `pairs`: what can begin, and its end.
pub(super) fn partner<'t, 'a: 't>(
    tokens: impl Iterator<Item = (usize, &'t Token<'a>)>,
    pairs: &[(&str, &str)],
) -> Option<usize> {
    let mut tokens = tokens.peekable();
    let first = tokens.peek()?.1.text;
    let (begin, end) = pairs.iter().find(|(begin, _)| *begin == first)?;
    let mut depth = 0usize;
    for (at, token) in tokens {
        if token.text == *begin {
            depth += 1;
        } else if token.text == *end {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// The token that closes what `open` opens.
pub(super) fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    partner(tokens.iter().enumerate().skip(open), &[("(", ")"), ("{", "}"), ("[", "]")])
}

/// The token that opens what the last one closes.
pub(super) fn opening(tokens: &[Token<'_>]) -> Option<usize> {
    partner(tokens.iter().enumerate().rev(), &[(")", "("), ("]", "[")])
}

pub(super) fn is_word(token: &Token<'_>) -> bool {
    token.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii())
}

/// Without the parentheses around all of them.
pub(super) fn bare<'t, 'a>(mut tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    while tokens.len() > 2 && tokens[0].text == "(" && closing(tokens, 0) == Some(tokens.len() - 1) {
        tokens = &tokens[1..tokens.len() - 1];
    }
    tokens
}

pub(super) fn source<'a>(text: &'a str, tokens: &[Token<'_>]) -> &'a str {
    match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => text.get(first.at..last.end()).unwrap_or_default(),
        _ => "",
    }
}

/// `struct NAME___FLAVOUR {`: where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition<'a> {
    pub(super) keyword: &'a str,
    pub(super) name: &'a str,
    /// Of the name's token, and of the braces'.
    pub(super) name_token: usize,
    pub(super) braces: Range<usize>,
    /// `preserve_access_index`: each access through it is relocated.
    pub(super) is_marked: bool,
    /// Not within a function.
    pub(super) is_global: bool,
}

impl Definition<'_> {
    pub(super) fn is_union(&self) -> bool {
        self.keyword == "union"
    }
}

/// Behind `__attribute__((...))`; and whether `preserve_access_index` is among them.
pub(super) fn attributes(tokens: &[Token<'_>], mut at: usize) -> (usize, bool) {
    let mut is_marked = false;
    while tokens.get(at).is_some_and(|t| t.text == "__attribute__" || t.text == "__attribute") {
        let Some(end) = closing(tokens, at + 1) else { break };
        is_marked |= tokens[at..end]
            .iter()
            .any(|t| matches!(t.text, "preserve_access_index" | "__preserve_access_index__"));
        at = end + 1;
    }
    (at, is_marked)
}

/// Definitions of the scheduler's own types with a flavour, in order; inner ones follow the outer.
pub(super) fn definitions<'a>(tokens: &[Token<'a>]) -> Vec<Definition<'a>> {
    let (mut found, mut all) = (Vec::new(), Vec::new());
    let mut open_braces = Vec::new();
    let mut depths = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => open_braces.push(at),
            "}" => drop(open_braces.pop()),
            _ => {}
        }
        depths.push(open_braces.len());
        if token.is_kernels || !matches!(token.text, "struct" | "union") {
            continue;
        }
        let (name_token, before) = attributes(tokens, at + 1);
        let name = tokens.get(name_token).filter(|t| is_word(t));
        let (open, behind) = attributes(tokens, name_token + usize::from(name.is_some()));
        if tokens.get(open).is_none_or(|t| t.text != "{") {
            continue;
        }
        let Some(close) = closing(tokens, open) else { continue };
        let is_marked = token.is_marked || before || behind || attributes(tokens, close + 1).1;
        all.push((open..close, is_marked));
        let Some(name) = name.filter(|n| essential(n.text) != n.text) else { continue };
        found.push(Definition {
            keyword: token.text,
            name: name.text,
            name_token,
            braces: open..close,
            is_marked,
            is_global: true,
        });
    }
    for d in &mut found {
        let around = all.iter().filter(|(braces, _)| braces.contains(&d.name_token));
        // a type's mark is on those that are defined within it, too
        d.is_marked |= around.clone().any(|(_, is_marked)| *is_marked);
        d.is_global = around.count() == depths[d.name_token];
    }
    found
}

/// A field's name in a path, and the indices behind it: their text, and which if they are numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) indices: Vec<(String, Option<u32>)>,
}

/// `f(x)->a.b[3]`: what is in front of the fields, whether it points to what they are in, and the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) base: String,
    pub(super) is_pointer: bool,
    pub(super) steps: Vec<Step>,
}

/// A name, a call, an element, something in parentheses: what `->` can follow as it stands.
pub(super) fn is_postfix(tokens: &[Token<'_>]) -> bool {
    let mut at = match tokens.first() {
        Some(t) if is_word(t) => 1,
        Some(t) if t.text == "(" => closing(tokens, 0).map_or(usize::MAX, |end| end + 1),
        _ => return false,
    };
    while let Some(token) = tokens.get(at) {
        at = match token.text {
            "(" | "[" => closing(tokens, at).map_or(usize::MAX, |end| end + 1),
            "." if tokens.get(at + 1).is_some_and(is_word) => at + 2,
            "-" if tokens.get(at + 1).is_some_and(|t| t.text == ">") => at + 3,
            _ => return false,
        };
    }
    at == tokens.len()
}

/// As clang follows an access: back to the last pointer.
pub(super) fn access(text: &str) -> Option<Access> {
    let all = tokens(text, "");
    let mut rest = bare(&all);
    let (mut steps, mut indices, mut base) = (Vec::new(), Vec::new(), None);
    while let Some(last) = rest.last() {
        let count = rest.len();
        match last.text {
            "]" => {
                let open = opening(rest)?;
                let index = source(text, &rest[open + 1..count - 1]).to_owned();
                let number = index.parse().ok();
                indices.insert(0, (index, number));
                rest = &rest[..open];
            }
            ")" if opening(rest) == Some(0) => rest = &rest[1..count - 1],
            name if is_word(last) && count > 2 => {
                let step =
                    |indices: &mut Vec<_>| Step { name: name.to_owned(), indices: std::mem::take(indices) };
                if rest[count - 2].text == "." {
                    steps.insert(0, step(&mut indices));
                    rest = &rest[..count - 2];
                    base = Some((rest, false));
                } else if count > 3 && rest[count - 2].text == ">" && rest[count - 3].text == "-" {
                    steps.insert(0, step(&mut indices));
                    base = Some((&rest[..count - 3], true));
                    break;
                } else {
                    break;
                }
            }
            _ => break,
        }
    }
    let (base, is_pointer) = base.filter(|(base, _)| is_postfix(base))?;
    Some(Access { base: source(text, base).to_owned(), is_pointer, steps })
}

/// `struct NAME`, also `(const struct NAME)` and `typeof(struct NAME)`: the two words.
pub(super) fn named_type<'a>(tokens: &[Token<'a>]) -> Option<(&'a str, &'a str)> {
    let mut tokens = bare(tokens);
    let is_qualifier = |t: &Token<'_>| matches!(t.text, "const" | "volatile" | "__const" | "__volatile__");
    while tokens.first().is_some_and(is_qualifier) {
        tokens = &tokens[1..];
    }
    while tokens.last().is_some_and(is_qualifier) {
        tokens = &tokens[..tokens.len() - 1];
    }
    match tokens {
        [kind, name] if matches!(kind.text, "struct" | "union" | "enum") && is_word(name) => {
            Some((kind.text, name.text))
        }
        [of, open, ..]
            if matches!(of.text, "typeof" | "__typeof__" | "__typeof")
                && closing(tokens, 1) == Some(tokens.len() - 1)
                && open.text == "(" =>
        {
            named_type(&tokens[2..tokens.len() - 1])
        }
        _ => None,
    }
}

/// What `((struct NAME *)anything)` points to.
pub(super) fn pointed_to(base: &str) -> Option<(bool, String)> {
    let all = tokens(base, "");
    let all = bare(&all);
    let end = closing(all, 0).filter(|end| all[0].text == "(" && end + 1 < all.len())?;
    let (star, of) = all[1..end].split_last()?;
    let (keyword, name) = named_type(of).filter(|(k, _)| star.text == "*" && *k != "enum")?;
    Some((keyword == "union", name.to_owned()))
}
