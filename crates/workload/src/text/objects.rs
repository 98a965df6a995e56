//! Lines about objects: what there is, and what is done at it.

use super::TextProblem;
use super::lex::Word;
use super::statement::{Parsed, Rest, fault, number, span};
use crate::{ALL, Handover, Late, Object, ObjectId, ObjectKind, ObjectOp, Recorded, WaitCosts, Wakes};

/// What is done at objects.
pub(super) const ACTS: [&str; 10] =
    ["SEND", "RECV", "CLOSE", "LOCK", "UNLOCK", "WAIT", "SIGNAL", "BROADCAST", "ARRIVE", "TICK"];

/// An event at an object: its names are looked up later.
pub(super) struct Act {
    /// With no object yet.
    pub op: ObjectOp,
    pub object: Name,
    pub mutex: Option<Name>,
    pub recorded: Recorded,
}

/// An object's name, and where it stands in the line.
pub(super) struct Name {
    pub text: String,
    pub at: usize,
    pub len: usize,
}

/// The words behind OBJECT.
pub(super) fn declaration(rest: &mut Rest<'_>) -> Parsed<Object> {
    let name = rest.string("the object's name")?;
    let kind = rest.word(KINDS)?;
    let (mut capacity, mut start, mut low, mut parties) = (None, None, None, None);
    let (mut fifo, mut restart, mut sync) = (false, false, false);
    let (mut is_polled, mut is_closed) = (false, false);
    let mut costs = WaitCosts::default();
    let keys: &[&str] = match kind.text {
        "channel" | "stream" => {
            &["capacity", "start", "low", "sync", "sleep", "wake", "tail", "polled", "closed"]
        }
        "semaphore" => &["start", "sync", "sleep", "wake", "tail", "closed"],
        "mutex" => &["fifo", "sync", "sleep", "wake", "tail", "closed"],
        "condition" => &["sync", "sleep", "wake", "tail", "closed"],
        "barrier" => &["parties", "sync", "sleep", "wake", "tail", "closed"],
        "timer" => &["restart", "closed"],
        _ => return fault(kind, TextProblem::Word, format!("expected {KINDS}"), ""),
    };
    while let Some(word) = rest.optional() {
        let (key, value) = word.text.split_once('=').unwrap_or((word.text, ""));
        if !keys.contains(&key) {
            let expected = format!("a {} may have {}", kind.text, keys.join(", "));
            return fault(word, TextProblem::Word, expected, "");
        }
        let value = Word { text: value, at: word.at + word.text.len() - value.len() };
        let amount =
            |of: &mut Option<u32>| match of.replace(number(value, "a whole number up to 4294967295")?) {
                Some(_) => fault(word, TextProblem::Extra, format!("{key}= stands here twice"), "keep one"),
                None => Ok(()),
            };
        match key {
            "capacity" => amount(&mut capacity)?,
            "start" => amount(&mut start)?,
            "low" => amount(&mut low)?,
            "parties" => amount(&mut parties)?,
            "sleep" => costs.sleep = span(value)?,
            "wake" => costs.wake = span(value)?,
            "tail" => costs.tail = span(value)?,
            "fifo" => fifo = true,
            "restart" => restart = true,
            "sync" => sync = true,
            "polled" => is_polled = true,
            _ => is_closed = true,
        }
    }
    let kind = match kind.text {
        "channel" => ObjectKind::Channel { capacity, start: start.unwrap_or(0), low },
        "stream" => ObjectKind::Stream { capacity, start: start.unwrap_or(0), low },
        "semaphore" => ObjectKind::Semaphore { start: start.unwrap_or(0) },
        "mutex" => ObjectKind::Mutex(if fifo { Handover::Fifo } else { Handover::Competing }),
        "condition" => ObjectKind::Condition,
        "barrier" => match parties {
            Some(parties) => ObjectKind::Barrier { parties },
            None => {
                return fault(
                    kind,
                    TextProblem::Missing,
                    "a barrier needs parties=",
                    "say how many wait there",
                );
            }
        },
        _ => ObjectKind::Timer(if restart { Late::Restart } else { Late::Grid }),
    };
    let wakes = if sync { Wakes::Sync } else { Wakes::Plain };
    Ok(Object { name, kind, wakes, costs, is_closed, is_polled })
}

const KINDS: &str = "channel, stream, semaphore, mutex, condition, barrier or timer";

fn name(rest: &mut Rest<'_>, expected: &str) -> Parsed<Name> {
    let (at, len) = rest.peek().map_or((0, 0), |word| (word.at, word.text.len()));
    Ok(Name { text: rest.string(expected)?, at, len })
}

/// The words behind an event's length.
pub(super) fn act(kind: &str, rest: &mut Rest<'_>) -> Parsed<Act> {
    let own = name(rest, "an object's name")?;
    let object = ObjectId(0);
    let mut mutex = None;
    let op = match kind {
        "SEND" => ObjectOp::Send { object, amount: amount(rest, false)? },
        "RECV" => ObjectOp::Receive { object, amount: amount(rest, true)? },
        "CLOSE" => ObjectOp::Close { object },
        "LOCK" => ObjectOp::Lock { object },
        "UNLOCK" => ObjectOp::Unlock { object },
        "WAIT" => {
            mutex = Some(name(rest, "the name of the mutex that it lets go")?);
            ObjectOp::Wait { object, mutex: object }
        }
        "SIGNAL" => ObjectOp::Signal { object },
        "BROADCAST" => ObjectOp::Broadcast { object },
        "ARRIVE" => ObjectOp::Arrive { object },
        _ => ObjectOp::Tick { object, period: span(rest.word("the timer's period")?)? },
    };
    let recorded = match rest.optional() {
        None => Recorded::Nothing,
        Some(word) => match word.text {
            "slept" => Recorded::Slept,
            "awake" => Recorded::Awake,
            _ => {
                let expected = "expected slept, awake, or the end of the line";
                return fault(word, TextProblem::Word, expected, "begin a comment with #");
            }
        },
    };
    Ok(Act { op, object: own, mutex, recorded })
}

/// How much: 1 unless it is said.
fn amount(rest: &mut Rest<'_>, receives: bool) -> Parsed<u32> {
    let is_amount = |word: Word<'_>| !matches!(word.text, "slept" | "awake");
    let Some(word) = rest.peek().filter(|word| is_amount(*word)) else { return Ok(1) };
    rest.optional();
    if receives && word.text == "all" {
        return Ok(ALL);
    }
    match word.text.parse::<u32>() {
        Ok(amount) if amount > 0 => Ok(amount),
        _ => {
            let all = if receives { ", or \"all\"" } else { "" };
            let expected = format!("expected how much, a whole number from 1 to 4294967295{all}");
            fault(word, TextProblem::Number, expected, "")
        }
    }
}
