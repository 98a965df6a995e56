//! What did tasks say to each other that the kernel's scheduling events do not tell? A wakeup that finds its task awake
//! leaves no trace, so the guest's tasks note what they do at the tokens of their [`Program`] (`note()` in `init.c`).
//!
//! ```text
//! guest       A: token 7 = 1, futex wake, marker "S00000007"     B: futex wait until token 7, marker "R00000007"
//! recording   A: schedlab:object key=2 send 1                    B: schedlab:object key=2 receive 1
//! ```
//!
//! A token is used once. Those that one task has for another are counters of one, as an eventfd: they come in the order
//! in which they are waited for, or each is a counter of its own. Notes are written where a recording is, and
//! where there are tokens; other guests are as they were.

use crate::frames::Frames;
use crate::{Options, RealError};
use schedlab_host::page_events;
use schedlab_machine::{Code, Program};
use schedlab_trace::write::PageBuilder;
use schedlab_trace::{EventFormat, OBJECT_EVENTFD, OBJECT_FORMAT};
use schedlab_units::TaskId;
use std::collections::BTreeMap;

/// Size of a page of the guest's ring buffers.
const PAGE: usize = 4096;
/// Bytes of a note: what was done, and eight digits.
const NOTE: usize = 9;
/// `write` and `read`: at a counter they add and take.
const ADD: u32 = 1;
const TAKE: u32 = 0;

/// Whether tasks are to write notes.
pub(crate) fn are_wanted(program: &Program, options: &Options) -> bool {
    options.recording.is_some() && !program.tokens.is_empty()
}

/// How notes become events.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Number of the event that has a note's text, and where the text begins.
    print: Option<(u16, usize)>,
    /// The number of `schedlab:object`.
    object: u16,
    /// Which counter each token is of.
    keys: Vec<u64>,
}

impl Notes {
    /// Those of a guest's run, if its tasks wrote any.
    pub(crate) fn of(
        frames: &Frames<'_>,
        program: &Program,
        options: &Options,
    ) -> Result<Option<Notes>, RealError> {
        if !are_wanted(program, options) {
            return Ok(None);
        }
        let wrong = |what: String| RealError::Output { offset: 0, what };
        let format = |text: &[u8]| EventFormat::parse(text).map_err(|problem| wrong(problem.to_string()));
        let print = format(frames.file("events/ftrace/print/format")?)?;
        let text = print.field("buf").ok_or_else(|| wrong("the format of ftrace/print has no buf".into()))?;
        Ok(Some(Notes {
            print: Some((print.id, text.offset as usize)),
            object: format(OBJECT_FORMAT.as_bytes())?.id,
            keys: counters(program),
        }))
    }

    /// The events of these pages at wanted times, notes in their own form, in new pages.
    pub(crate) fn pages(
        &self,
        pages: &[&[u8]],
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<Vec<u8>, RealError> {
        let mut builder = PageBuilder::new(PAGE);
        let mut offset = 0;
        for page in pages {
            let take = |time_ns: u64, data: &[u8]| {
                if is_wanted(time_ns) {
                    match self.event(data) {
                        Some(event) => builder.push(time_ns, &event),
                        None => builder.push(time_ns, data),
                    }
                }
            };
            page_events(page, take).map_err(|what| RealError::Output { offset, what })?;
            offset += page.len();
        }
        Ok(builder.finish())
    }

    /// `schedlab:object` in the place of a note; `None`: it is none.
    fn event(&self, data: &[u8]) -> Option<Vec<u8>> {
        let (id, at) = self.print?;
        if data.first_chunk() != Some(&id.to_le_bytes()) {
            return None;
        }
        let (what, digits) = data.get(at..at + NOTE)?.split_first()?;
        let call = match what {
            b'S' => ADD,
            b'R' => TAKE,
            _ => return None,
        };
        let token = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        let key = self.keys.get(token)?;
        let mut event = self.object.to_le_bytes().to_vec();
        event.extend_from_slice(data.get(2..8)?); // flags, preemption count, pid
        event.extend_from_slice(&key.to_le_bytes());
        for word in [OBJECT_EVENTFD as u32, 1, call, size_of::<u64>() as u32] {
            event.extend_from_slice(&word.to_le_bytes());
        }
        event.extend_from_slice(&0u64.to_le_bytes());
        Some(event)
    }
}

/// Who waits, and for whom.
type Pair = (TaskId, TaskId);

/// The counter of each token, from 1: one for each pair of tasks that deliver and wait in the same order.
fn counters(program: &Program) -> Vec<u64> {
    let mut orders: BTreeMap<Pair, [Vec<u32>; 2]> = BTreeMap::new();
    for task in &program.tasks {
        for step in program.steps.get(task.first_step..).unwrap_or_default() {
            let (token, side) = match step.code() {
                Code::Deliver(token) => (token, 0),
                Code::BlockToken(token) => (token, 1),
                Code::Exit | Code::BlockForever => break,
                _ => continue,
            };
            if let Some(of) = program.tokens.get(token as usize) {
                orders.entry((of.sleeper, of.waker)).or_default()[side].push(token);
            }
        }
    }
    let mut next = 0..;
    let mut fresh = || next.next().unwrap_or(0);
    let mut keys = vec![0; program.tokens.len()];
    fresh(); // 0: nothing
    for [delivered, awaited] in orders.values() {
        let common = (delivered == awaited).then(&mut fresh);
        for token in delivered.iter().chain(awaited) {
            let key = &mut keys[*token as usize];
            if *key == 0 {
                *key = common.unwrap_or_else(&mut fresh);
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::write::PageBuilder;
    use schedlab_workload::read_text;

    fn program(text: &str) -> Program {
        Program::new(&read_text("drawn", text.as_bytes()).expect("a sound workload")).expect("one that runs")
    }

    /// Task 1 wakes task 2 twice, which waits for it twice; task 3 once.
    #[test]
    fn tokens_of_two_tasks_are_one_counter() {
        let program = program(
            "schedlab-workload 1\n- INIT 0 0 1 runnable name=a\n@x BLOCK 1 1ms\n- WAKEUP 1 1ms\n@y BLOCK 1 1ms\n\
             - WAKEUP 1 1ms\n@z EXIT 1 1ms\n\
             - INIT 0 0 2 runnable name=b\n- BLOCK 2 1ms\n- WAKEUP 2 0 @x 1 0\n- BLOCK 2 1ms\n- WAKEUP 2 0 @y 1 0\n\
             - EXIT 2 1ms\n\
             - INIT 0 0 3 runnable name=c\n- BLOCK 3 1ms\n- WAKEUP 3 0 @z 1 0\n- EXIT 3 1ms\n",
        );
        let keys = counters(&program);
        let of = |sleeper: u32| {
            let tokens = program.tokens.iter().zip(&keys).filter(|(token, _)| token.sleeper.0 == sleeper);
            tokens.map(|(_, key)| *key).collect::<Vec<u64>>()
        };
        let (second, third) = (of(1), of(2));
        assert_eq!((second.len(), third.len()), (2, 1));
        assert!(second[0] == second[1] && second[0] != third[0] && second[0] > 0 && third[0] > 0);
    }

    #[test]
    fn a_note_becomes_an_event_and_all_else_stays() {
        let notes = Notes { print: Some((5, 16)), object: 65_000, keys: vec![0, 42] };
        let print = |text: &[u8]| {
            let mut data = vec![5, 0, 1, 2, 0xe8, 3, 0, 0]; // pid 1000
            data.extend([9; 8]);
            data.extend(text);
            data.resize(data.len().next_multiple_of(4), 0);
            data
        };
        let events = [print(b"S00000001\n"), print(b"R00000001\n"), print(b"start\n"), print(b"S0000000f\n")];
        let mut builder = PageBuilder::new(PAGE);
        (100..).zip(&events).for_each(|(time_ns, event)| builder.push(time_ns, event));
        let page = builder.finish();
        let mut seen = Vec::new();
        let out = notes.pages(&[&page], |time_ns| time_ns != 101).expect("a sound page");
        page_events(&out, |time_ns, data| seen.push((time_ns, data.to_vec()))).expect("a sound page");
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[0].0, 100);
        assert_eq!(seen[0].1[..8], [0xe8, 0xfd, 1, 2, 0xe8, 3, 0, 0]);
        let words: Vec<u32> = seen[0].1[8..]
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
            .collect();
        assert_eq!(words, [42, 0, 7, 1, 1, 8, 0, 0]);
        assert_eq!((seen[1].0, &seen[1].1), (102, &events[2]));
        // a token that the program does not have
        assert_eq!((seen[2].0, &seen[2].1), (103, &events[3]));
    }
}
