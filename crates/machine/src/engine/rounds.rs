//! When does a poller answer? When it has taken all questions that were there when its round began.
//!
//! ```text
//! program           RECV SEND RECV SEND RECV SEND      each answer behind its question
//! three are there   RECV      RECV      RECV           at the first one two more are there: two answers are put off
//!                        SEND      SEND      SEND      then all three
//! one is there      RECV SEND | sleeps
//! ```

use super::Machine;
use super::steps::Act;
use crate::kernel::Kernel;
use crate::order::Order;
use crate::program::Code;
use schedlab_units::TaskId;
use schedlab_workload::{ObjectId, ObjectOp};

/// A poller takes so many messages in one round at most (`epoll_wait` is asked for some hundred as a rule).
const QUESTIONS_MAX: usize = 512;

/// Answers of a poller that wait until there is no further question ([`crate::program::AtObject::puts_off`]).
#[derive(Clone, Copy, Default)]
pub(super) struct PutOff {
    /// The step of the first one; the others are the second next each.
    pub first: usize,
    /// How many there are.
    pub nr: usize,
    /// How many more questions were there when the round began.
    pub more: usize,
    /// How many are still to be sent, when they are.
    pub left: usize,
    /// The step behind the last of them.
    pub back: usize,
    /// The step that is an answer under way.
    pub now: Option<usize>,
}

impl<K: Kernel, O: Order> Machine<K, O> {
    /// Something at an object, where answers may be put off.
    #[inline(never)]
    pub(super) fn at_polled(&mut self, id: TaskId, act: u32) -> Act {
        let here = self.runs[id.index()].step;
        let put_off = &mut self.put_off[id.index()];
        if put_off.left > 0 {
            // one of the answers: the next one is behind the next question
            (put_off.left, put_off.now) = (put_off.left - 1, Some(here - 1));
            self.runs[id.index()].step = if put_off.left > 0 { here + 1 } else { put_off.back };
            self.load_step(id);
            let did = self.at_object(id, act);
            self.put_off[id.index()].now = None;
            return did;
        }
        if put_off.nr > 0 && !self.objects.holds(self.program.acts[act as usize].op, 0) {
            // another reader has taken it
            self.answer(id, here - 1);
            return Act::GoesOn;
        }
        let did = self.at_object(id, act);
        if matches!(did, Act::GoesOn) && self.runs[id.index()].step == here {
            self.asked(id);
        }
        did
    }

    /// A task has taken a message. If that was a question and others were there when the round began, the answer is put
    /// off; behind the last of them all answers follow.
    pub(super) fn asked(&mut self, id: TaskId) {
        let next = self.runs[id.index()].step;
        let is_question = self.puts_off(next - 1);
        if is_question && self.put_off[id.index()].nr == 0 {
            self.put_off[id.index()].more = self.questions_there(next + 1);
        }
        let put_off = &mut self.put_off[id.index()];
        if is_question && put_off.more > 0 {
            if put_off.nr == 0 {
                put_off.first = next;
            }
            (put_off.nr, put_off.more) = (put_off.nr + 1, put_off.more - 1);
            self.runs[id.index()].step = next + 1;
            self.load_step(id);
        } else if put_off.nr > 0 {
            // its own answer is the last one
            put_off.nr += usize::from(is_question);
            self.answer(id, next + usize::from(is_question));
        }
    }

    /// Whether the step is a question whose answer may be put off.
    fn puts_off(&self, step: usize) -> bool {
        let code = self.program.steps.get(step).map(|step| step.code());
        matches!(code, Some(Code::Object(act)) if self.program.acts[act as usize].puts_off)
    }

    /// How many of the questions from this step on, every other one, are there now.
    fn questions_there(&self, first: usize) -> usize {
        let mut taken: Vec<(ObjectId, u64)> = Vec::new();
        for nr in 0..QUESTIONS_MAX {
            let step = first + 2 * nr;
            let Code::Object(act) = self.program.steps[step].code() else { return nr };
            let op = self.program.acts[act as usize].op;
            let ObjectOp::Receive { object, amount } = op else { return nr };
            let place = taken.iter().position(|(of, _)| *of == object).unwrap_or_else(|| {
                taken.push((object, 0));
                taken.len() - 1
            });
            if !self.objects.holds(op, taken[place].1) {
                return nr;
            }
            taken[place].1 += u64::from(amount);
            if !self.puts_off(step) {
                return nr + 1;
            }
        }
        QUESTIONS_MAX
    }

    /// The answers that a task has put off are its next steps, and then it goes on at `back`.
    fn answer(&mut self, id: TaskId, back: usize) {
        let put_off = &mut self.put_off[id.index()];
        self.runs[id.index()].step = put_off.first;
        *put_off = PutOff { left: put_off.nr, back, ..PutOff::default() };
        self.load_step(id);
    }
}
