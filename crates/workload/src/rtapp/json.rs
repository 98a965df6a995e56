//! JSON as rt-app reads it: keys in order and perhaps twice, `/* */` and `//` comments, commas before a
//! closing bracket. Every value knows where it stands. Keys without a value (as in `"suspend",`, which
//! rt-app's workgen completes) are null.

use crate::limits::JSON_DEPTH_MAX;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Json {
    pub what: What,
    pub place: Place,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    /// Keys in order of the file.
    Object(Vec<(String, Json)>),
}

/// Line and column, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Where the text is not JSON, and what was expected there.
pub(super) type Fault = (Place, &'static str);

pub(super) fn parse(text: &str) -> Result<Json, Fault> {
    let mut parser = Parser { text, rest: text, depth: 0 };
    let value = parser.value()?;
    parser.skip()?;
    if parser.rest.is_empty() { Ok(value) } else { Err(parser.fault("the end of the file")) }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    depth: u32,
}

impl Parser<'_> {
    fn place(&self) -> Place {
        let read = &self.text[..self.text.len() - self.rest.len()];
        let line = read.bytes().filter(|byte| *byte == b'\n').count() as u32 + 1;
        let start = read.rfind('\n').map_or(0, |at| at + 1);
        Place { line, column: read[start..].chars().count() as u32 + 1 }
    }
    fn fault(&self, expected: &'static str) -> Fault {
        (self.place(), expected)
    }
    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
    /// Blanks and comments.
    fn skip(&mut self) -> Result<(), Fault> {
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with("//") {
                self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
            } else if self.rest.starts_with("/*") {
                let Some((_, rest)) = self.rest.split_once("*/") else {
                    return Err(self.fault("the comment's end, */"));
                };
                self.rest = rest;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self) -> Result<Json, Fault> {
        self.skip()?;
        let place = self.place();
        if self.depth == JSON_DEPTH_MAX {
            return Err(self.fault("no more than 64 nested values"));
        }
        self.depth += 1;
        let what = match self.rest.chars().next() {
            Some('{') => self.object()?,
            Some('[') => self.list()?,
            Some('"') => What::Text(self.string()?),
            Some('-' | '0'..='9') => self.number()?,
            _ if self.eat("true") => What::Bool(true),
            _ if self.eat("false") => What::Bool(false),
            _ if self.eat("null") => What::Null,
            _ => return Err(self.fault("a value: { [ \" a number, true, false or null")),
        };
        self.depth -= 1;
        Ok(Json { what, place })
    }

    fn object(&mut self) -> Result<What, Fault> {
        self.eat("{");
        let mut members = Vec::new();
        loop {
            self.skip()?;
            if self.eat("}") {
                return Ok(What::Object(members));
            }
            if !self.rest.starts_with('"') {
                return Err(self.fault("a key in quotes, or }"));
            }
            let place = self.place();
            let key = self.string()?;
            self.skip()?;
            if self.rest.starts_with([',', '}']) {
                // workgen's "suspend", without a value
                members.push((key, Json { what: What::Null, place }));
            } else if self.eat(":") {
                members.push((key, self.value()?));
            } else {
                return Err(self.fault(": after the key"));
            }
            self.skip()?;
            if !self.eat(",") && !self.rest.starts_with('}') {
                return Err(self.fault(", or }"));
            }
        }
    }

    fn list(&mut self) -> Result<What, Fault> {
        self.eat("[");
        let mut items = Vec::new();
        loop {
            self.skip()?;
            if self.eat("]") {
                return Ok(What::List(items));
            }
            items.push(self.value()?);
            self.skip()?;
            if !self.eat(",") && !self.rest.starts_with(']') {
                return Err(self.fault(", or ]"));
            }
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        let begin = self.place();
        let mut chars = self.rest[1..].char_indices();
        let mut text = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[1 + at + 1..];
                    return Ok(text);
                }
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'u')) => {
                        let code: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                        text.push(code.ok_or((begin, "four hexadecimal digits after \\u"))?);
                    }
                    Some((_, other)) => text.push(other),
                    None => break,
                },
                other => text.push(other),
            }
        }
        Err((begin, "the text's end, \", on the same line"))
    }

    fn number(&mut self) -> Result<What, Fault> {
        let length = self
            .rest
            .find(|c: char| !c.is_ascii_digit() && !matches!(c, '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(self.rest.len());
        let digits = &self.rest[..length];
        let what = match (digits.parse(), digits.parse()) {
            (Ok(number), _) => What::Int(number),
            (_, Ok(number)) => What::Float(number),
            _ => return Err(self.fault("a number")),
        };
        self.rest = &self.rest[length..];
        Ok(what)
    }
}

impl Json {
    /// What kind of value it is, for messages.
    pub fn kind(&self) -> String {
        match &self.what {
            What::Null => "null".to_string(),
            What::Bool(value) => value.to_string(),
            What::Int(value) => value.to_string(),
            What::Float(value) => value.to_string(),
            What::Text(text) => format!("\"{text}\""),
            What::List(_) => "a list".to_string(),
            What::Object(_) => "an object".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rt_app_reads() {
        let text = "/* a */ { \"b\" : [1, -2, 3.5,], // c\n \"b\": \"x\\\"\\u00e9\", \"d\": {\"e\": true, \"f\": \
            null,} }";
        let Json { what: What::Object(members), .. } = parse(text).unwrap() else { panic!() };
        let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["b", "b", "d"]);
        assert_eq!(members[1].1.what, What::Text("x\"é".to_string()));
        assert_eq!(members[1].1.place, Place { line: 2, column: 7 });
    }

    #[test]
    fn faults_have_places() {
        for (text, line, column, expected) in [
            ("", 1, 1, "a value"),
            ("{\n \"a\" 1}", 2, 6, ": after the key"),
            ("{\"a\": 1 \"b\": 2}", 1, 9, ", or }"),
            ("{\"a\": \"x\n\"}", 1, 7, "the text's end"),
            ("/* ", 1, 1, "the comment's end"),
            ("{} x", 1, 4, "the end of the file"),
            ("[1,,2]", 1, 4, "a value"),
            ("{a: 1}", 1, 2, "a key in quotes"),
            ("-", 1, 1, "a number"),
        ] {
            let (place, message) = parse(text).unwrap_err();
            assert_eq!(place, Place { line, column }, "{text}");
            assert!(message.starts_with(expected), "{text}: {message}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
