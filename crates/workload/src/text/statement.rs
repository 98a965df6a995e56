//! One line of text as a statement, before any task or event is looked up.

use super::TextProblem;
use super::attributes::Attributes;
use super::lex::{LexError, Word, unquote};
use super::objects::{self, ACTS, Act};
use crate::limits::Exceeded;
use crate::{CpuMax, ExternalSource, InitState, Object};
use schedlab_units::{CpuSet, Span};
use std::borrow::Cow;

/// A mistake within one line.
pub(super) struct Fault {
    /// Line, if another than the one being read (a line of a REPEAT block).
    pub line: Option<usize>,
    pub at: usize,
    pub len: usize,
    pub problem: TextProblem,
    pub expected: String,
    pub remedy: &'static str,
}

pub(super) type Parsed<T> = Result<T, Box<Fault>>;

/// A mistake at a word.
pub(super) fn fault<T>(
    word: Word<'_>,
    problem: TextProblem,
    expected: impl Into<String>,
    remedy: &'static str,
) -> Parsed<T> {
    fault_at(word.at, word.text.len(), problem, expected.into(), remedy)
}

/// A limit that a line would pass, at the word that asks for so much.
pub(super) fn within(word: Word<'_>, room: Result<(), Exceeded>) -> Parsed<()> {
    room.or_else(|error| fault(word, TextProblem::Limit, error.to_string(), error.remedy()))
}

fn fault_at<T>(
    at: usize,
    len: usize,
    problem: TextProblem,
    expected: String,
    remedy: &'static str,
) -> Parsed<T> {
    Err(Box::new(Fault { line: None, at, len, problem, expected, remedy }))
}

impl From<LexError> for Box<Fault> {
    fn from(error: LexError) -> Box<Fault> {
        let LexError { at, len, expected } = error;
        Box::new(Fault {
            line: None,
            at,
            len,
            problem: TextProblem::Quote,
            expected: expected.to_string(),
            remedy: "",
        })
    }
}

/// A line.
pub(super) enum Statement {
    Cgroup { path: String, weight: Option<u32>, max: Option<CpuMax>, cpuset: Option<CpuSet> },
    Object(Object),
    Note { key: String, value: String },
    Dropped { count: u64, reason: String },
    Repeat { count: u64 },
    End,
    Init(Box<Init>),
    Event(Event),
}

pub(super) struct Init {
    pub eid: Eid,
    pub parent: Pids,
    pub pids: Pids,
    pub state: InitState,
    pub attributes: Attributes,
}

pub(super) struct Event {
    pub eid: Eid,
    pub pids: Pids,
    pub length: Length,
    pub body: Body,
}

pub(super) enum Body {
    Fork { children: Pids, attributes: Box<Attributes> },
    Prio(Box<Attributes>),
    Yield,
    Exec,
    Call,
    Block,
    Exit,
    External(ExternalSource),
    Object(Act),
    Dependent { event: EventRef, waker: Option<Pids>, distance: Span },
}

/// An event's own identifier.
#[derive(Clone)]
pub(super) enum Eid {
    Auto,
    Number(u64),
    Label(String),
}

/// deid.
pub(super) enum EventRef {
    Number(u64),
    Label { name: String, instance: Instance, at: usize, len: usize },
}

/// Which of a repeated label's events.
#[derive(Clone, Copy)]
pub(super) enum Instance {
    Relative(i64),
    Absolute(u64),
}

#[derive(Clone, Copy)]
pub(super) enum Length {
    SinceWakeup(Span),
    SincePrevious(Span),
}

/// A pid, or a range of them, and where it stands in the line.
#[derive(Clone, Copy)]
pub(super) struct Pids {
    pub first: u32,
    pub last: u32,
    pub at: usize,
    pub len: usize,
}

impl Pids {
    /// A mistake at this pid.
    pub fn fault<T>(
        self,
        problem: TextProblem,
        expected: impl Into<String>,
        remedy: &'static str,
    ) -> Parsed<T> {
        fault_at(self.at, self.len, problem, expected.into(), remedy)
    }

    /// A limit that these tasks would pass.
    pub fn within(self, room: Result<(), Exceeded>) -> Parsed<()> {
        room.or_else(|error| self.fault(TextProblem::Limit, error.to_string(), error.remedy()))
    }

    pub fn count(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }
}

impl Event {
    /// The events that this line stands for.
    pub fn nr_events(&self) -> u64 {
        let children = match &self.body {
            Body::Fork { children, .. } => children.count(),
            _ => 1,
        };
        self.pids.count().saturating_mul(children)
    }
}

const TYPES: &str = "FORK, INIT, PRIO, YIELD, EXEC, CALL, BLOCK, WAKEUP, EXIT, or what is done at an object (SEND, \
        RECV, ...)";
const KINDS: [&str; 9] = ["FORK", "INIT", "PRIO", "YIELD", "EXEC", "CALL", "BLOCK", "WAKEUP", "EXIT"];

/// Parses the words of a line; there is at least one.
pub(super) fn parse(words: &[Word<'_>]) -> Parsed<Statement> {
    let mut rest = Rest { words, next: 0 };
    let first = rest.word("")?;
    match first.text {
        "CGROUP" => cgroup(&mut rest),
        "OBJECT" => objects::declaration(&mut rest).map(Statement::Object),
        "NOTE" => {
            let key = rest.string("a key")?;
            let value = rest.string("a value")?;
            rest.end()?;
            Ok(Statement::Note { key, value })
        }
        "DROPPED" => {
            let count = rest.number("a count")?;
            let reason = rest.string("a reason")?;
            rest.end()?;
            Ok(Statement::Dropped { count, reason })
        }
        "REPEAT" => {
            let count = rest.word("how often")?;
            let Some(n) = count.text.parse::<u64>().ok().filter(|&n| n > 0) else {
                return fault(count, TextProblem::Number, "expected how often, at least 1", "");
            };
            let brace = rest.word("{")?;
            if brace.text != "{" {
                return fault(
                    brace,
                    TextProblem::Repeat,
                    "expected {",
                    "put the lines to repeat below, and } after them",
                );
            }
            rest.end()?;
            Ok(Statement::Repeat { count: n })
        }
        "}" => rest.end().map(|()| Statement::End),
        _ => event(first, &mut rest),
    }
}

/// Whether a line that starts with these two words is meant as one of ours.
pub(super) fn is_statement(first: &str, second: Option<&str>) -> bool {
    matches!(first, "CGROUP" | "OBJECT" | "NOTE" | "DROPPED" | "REPEAT")
        || second.is_some_and(|second| KINDS.contains(&second) || ACTS.contains(&second))
}

fn event(first: Word<'_>, rest: &mut Rest<'_>) -> Parsed<Statement> {
    let kind = match rest.word(TYPES) {
        Ok(kind) => kind,
        Err(_) => {
            let remedy = "a line is: eid TYPE pid length ..., or CGROUP, OBJECT, NOTE, DROPPED, REPEAT";
            return fault(first, TextProblem::Word, "expected an event", remedy);
        }
    };
    let act = ACTS.contains(&kind.text);
    if kind.text == "DEADLINE" {
        let expected = "deadlines of jobs are kept for a later version of the form";
        return fault(kind, TextProblem::Version, expected, "leave the line out");
    }
    if !act && !KINDS.contains(&kind.text) {
        let upper = kind.text.to_ascii_uppercase();
        let near = KINDS.into_iter().chain(ACTS).find(|name| near(&upper, name));
        let expected = match near {
            Some(name) => format!("expected {TYPES}; did you mean {name}?"),
            None => format!("expected {TYPES}"),
        };
        return fault(kind, TextProblem::Word, expected, "");
    }
    let eid = eid(first)?;
    if kind.text == "INIT" {
        return init(eid, rest);
    }
    let pids = rest.pids("the task's pid")?;
    let length = rest.word("a length such as 4ms")?;
    let length = match length.text.strip_prefix('+') {
        Some(text) => Length::SincePrevious(span(Word { text, at: length.at + 1 })?),
        None => Length::SinceWakeup(span(length)?),
    };
    let body = match kind.text {
        "FORK" => {
            let children = rest.pids("the child's pid")?;
            Body::Fork { children, attributes: Box::new(Attributes::parse(rest.take(), Attributes::TASK)?) }
        }
        "PRIO" => Body::Prio(Box::new(Attributes::parse(rest.take(), Attributes::PRIO)?)),
        "YIELD" => Body::Yield,
        "EXEC" => Body::Exec,
        "CALL" => Body::Call,
        "BLOCK" => Body::Block,
        "EXIT" => Body::Exit,
        _ if act => Body::Object(objects::act(kind.text, rest)?),
        _ => wakeup(rest, length)?,
    };
    rest.end()?;
    Ok(Statement::Event(Event { eid, pids, length, body }))
}

fn init(eid: Eid, rest: &mut Rest<'_>) -> Parsed<Statement> {
    let parent = rest.word("the parent's pid, 0 for none")?;
    let parent = match parent.text.parse::<u32>() {
        Ok(pid) => Pids { first: pid, last: pid, at: parent.at, len: parent.text.len() },
        Err(_) => return fault(parent, TextProblem::Number, "expected the parent's pid, 0 for none", ""),
    };
    let zero = rest.word("0")?;
    if span(zero)? != Span::ZERO {
        let remedy =
            "an INIT happens at time 0; start with BLOCKED and a WAKEUP for a task that begins later";
        return fault(zero, TextProblem::Value, "expected 0, the time of an INIT", remedy);
    }
    let pids = rest.pids("the new task's pid")?;
    let word = rest.word("runnable or blocked")?;
    let state = match word.text {
        "runnable" => InitState::Runnable,
        "blocked" => InitState::Blocked,
        _ => return fault(word, TextProblem::Word, "expected the initial state, runnable or blocked", ""),
    };
    let attributes = Attributes::parse(rest.take(), Attributes::TASK)?;
    Ok(Statement::Init(Box::new(Init { eid, parent, pids, state, attributes })))
}

fn wakeup(rest: &mut Rest<'_>, length: Length) -> Parsed<Body> {
    if let Length::SincePrevious(_) = length {
        let remedy = "write it without the +";
        return fault(
            rest.words[3],
            TextProblem::Value,
            "a WAKEUP always counts from the BLOCK before it",
            remedy,
        );
    }
    let source = |word: Word<'_>| ExternalSource::from_name(word.text);
    let Some(deid) = rest.peek() else { return Ok(Body::External(ExternalSource::Timer)) };
    if let Some(source) = source(deid) {
        rest.next += 1;
        return Ok(Body::External(source));
    }
    rest.next += 1;
    let event = event_ref(deid)?;
    let dpid = rest.word("dpid, the waker's pid")?;
    let distance_word = rest.word("distance, the waker's CPU time from the wakeup to event deid")?;
    let distance = span(distance_word)?;
    if let EventRef::Number(0) = event {
        for (word, zero) in [(dpid, dpid.text == "0"), (distance_word, distance == Span::ZERO)] {
            if !zero {
                let remedy = "write 0 0 0 for an external wakeup, or name the event it depends on";
                return fault(
                    word,
                    TextProblem::Value,
                    "expected 0, because deid is 0 (an external wakeup)",
                    remedy,
                );
            }
        }
        let source = rest.peek().and_then(source).inspect(|_| rest.next += 1);
        return Ok(Body::External(source.unwrap_or_default()));
    }
    let waker = match (dpid.text, &event) {
        ("-", EventRef::Label { .. }) => None,
        _ => Some(one_pid(dpid)?),
    };
    Ok(Body::Dependent { event, waker, distance })
}

fn cgroup(rest: &mut Rest<'_>) -> Parsed<Statement> {
    let path = rest.string("the group's path, for example /batch")?;
    let (mut weight, mut max, mut cpuset) = (None, None, None);
    while let Some(word) = rest.peek() {
        rest.next += 1;
        let keys = "expected weight=, max= or cpuset=";
        let Some((key, value)) = word.text.split_once('=') else {
            return fault(word, TextProblem::Word, keys, "");
        };
        let value = Word { text: value, at: word.at + key.len() + 1 };
        let repeated = match key {
            "weight" => weight.replace(number(value, "a weight, 1 to 10000")?).is_some(),
            "max" => {
                let (quota, period) = value.text.split_once('/').unwrap_or((value.text, "100ms"));
                let at = value.at + quota.len() + 1;
                let quota = span(Word { text: quota, at: value.at })?;
                max.replace(CpuMax { quota, period: span(Word { text: period, at })? }).is_some()
            }
            "cpuset" => cpuset.replace(cpus(value)?).is_some(),
            _ => return fault(word, TextProblem::Word, keys, ""),
        };
        if repeated {
            return fault(word, TextProblem::Extra, format!("{key}= stands here twice"), "keep one");
        }
    }
    Ok(Statement::Cgroup { path, weight, max, cpuset })
}

fn eid(word: Word<'_>) -> Parsed<Eid> {
    if word.text == "-" {
        return Ok(Eid::Auto);
    }
    if let Some(name) = word.text.strip_prefix('@') {
        if !label_name(name) {
            let remedy = "which event of a repeated label is meant ([7], +1, -1) is said where it is used";
            return fault(word, TextProblem::Label, "a label is @ with letters, digits and _", remedy);
        }
        return Ok(Eid::Label(name.to_string()));
    }
    let expected = "expected the event's identifier: a number from 1, - or a label @name";
    match word.text.parse::<u64>() {
        Ok(0) => fault(word, TextProblem::Number, expected, "0 means \"no event\""),
        Ok(eid) => Ok(Eid::Number(eid)),
        Err(_) => fault(word, TextProblem::Number, expected, ""),
    }
}

fn event_ref(word: Word<'_>) -> Parsed<EventRef> {
    let Some(label) = word.text.strip_prefix('@') else {
        let expected = "deid: the waker's next event (a number or @label), 0, timer or device";
        return number(word, expected).map(EventRef::Number);
    };
    let name_end = label.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(label.len());
    let (name, which) = label.split_at(name_end);
    let instance = match which.as_bytes().first() {
        None => Some(Instance::Relative(0)),
        Some(b'+' | b'-') => which.parse().ok().map(Instance::Relative),
        _ => which
            .strip_prefix('[')
            .and_then(|w| w.strip_suffix(']'))
            .and_then(|digits| digits.parse().ok())
            .map(Instance::Absolute),
    };
    match instance.filter(|_| label_name(name)) {
        Some(instance) => {
            Ok(EventRef::Label { name: name.to_string(), instance, at: word.at, len: word.text.len() })
        }
        None => fault(word, TextProblem::Label, "expected @name, @name+1, @name-1 or @name[7]", ""),
    }
}

fn label_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// One pid.
pub(super) fn one_pid(word: Word<'_>) -> Parsed<Pids> {
    let pid = number::<u32>(word, "a pid")?;
    Ok(Pids { first: pid, last: pid, at: word.at, len: word.text.len() })
}

/// A number of a type.
pub(super) fn number<T: std::str::FromStr>(word: Word<'_>, what: &str) -> Parsed<T> {
    match word.text.parse() {
        Ok(number) => Ok(number),
        Err(_) => fault(word, TextProblem::Number, format!("expected {what}"), ""),
    }
}

/// A duration.
pub(super) fn span(word: Word<'_>) -> Parsed<Span> {
    match word.text.parse::<Span>() {
        Ok(span) => Ok(span),
        Err(error) => {
            let text = error.to_string();
            // the error says "'value' is not a duration: why; write ..."; the value is shown by us
            let why = text.strip_prefix(&format!("'{}' is ", word.text)).unwrap_or(&text).to_string();
            fault(word, TextProblem::Duration, why, "")
        }
    }
}

/// A list of CPUs.
pub(super) fn cpus(word: Word<'_>) -> Parsed<CpuSet> {
    match word.text.parse() {
        Ok(cpus) => Ok(cpus),
        Err(_) => fault(word, TextProblem::Value, "expected a list of CPUs, for example 0-3,8", ""),
    }
}

/// Whether one edit (or a swap of neighbours) turns one word into the other.
pub(crate) fn near(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let prefix = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - suffix], &b[..b.len() - suffix]);
    a.len().max(b.len()) <= 1 || (a.len() == 2 && b.len() == 2 && a[0] == b[1] && a[1] == b[0])
}

/// The words of a line not yet consumed.
pub(super) struct Rest<'a> {
    words: &'a [Word<'a>],
    next: usize,
}

impl<'a> Rest<'a> {
    pub(super) fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).copied()
    }

    pub(super) fn word(&mut self, expected: &str) -> Parsed<Word<'a>> {
        let Some(&word) = self.words.get(self.next) else {
            let at = self.words.last().map_or(0, |last| last.at + last.text.len());
            let missing = Word { text: "", at };
            return fault(
                missing,
                TextProblem::Missing,
                format!("the line ends here; expected {expected}"),
                "",
            );
        };
        self.next += 1;
        Ok(word)
    }

    pub(super) fn string(&mut self, expected: &str) -> Parsed<String> {
        Ok(unquote(self.word(expected)?).map(Cow::into_owned)?)
    }

    /// The next word, if there is one.
    pub(super) fn optional(&mut self) -> Option<Word<'a>> {
        self.peek().inspect(|_| self.next += 1)
    }

    fn number(&mut self, expected: &str) -> Parsed<u64> {
        number(self.word(expected)?, expected)
    }

    fn pids(&mut self, expected: &str) -> Parsed<Pids> {
        let word = self.word(expected)?;
        let one = word.text.parse::<u32>().map(|pid| (pid, pid)).ok();
        let range = one.or_else(|| {
            let (first, last) = word.text.split_once("..")?;
            first.parse::<u32>().ok().zip(last.parse::<u32>().ok())
        });
        match range.filter(|&(first, last)| 0 < first && first <= last) {
            Some((first, last)) => Ok(Pids { first, last, at: word.at, len: word.text.len() }),
            None => {
                let expected = format!("expected {expected}: a number from 1, or a range such as 101..105");
                fault(word, TextProblem::Number, expected, "")
            }
        }
    }

    /// All remaining words.
    fn take(&mut self) -> &'a [Word<'a>] {
        let rest = &self.words[self.next..];
        self.next = self.words.len();
        rest
    }

    pub(super) fn end(&self) -> Parsed<()> {
        match self.peek() {
            None => Ok(()),
            Some(word) => {
                fault(word, TextProblem::Extra, "expected the end of the line", "begin a comment with #")
            }
        }
    }
}
