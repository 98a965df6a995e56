//! When does a poller answer? When it has taken all questions that were there when its round began.
//!
//! ```text
//! program           RECV SEND RECV SEND RECV SEND      each answer behind its question
//! three are there   RECV      RECV      RECV           at the first one two more are there: two answers are put off
//!                        SEND      SEND      SEND      then all three
//! one is there      RECV SEND | sleeps
//! ```
//!
//! And whose question is taken? That of whoever comes first. A program has its questions in the order of a recording.
//! Where the next one is not there, and that of another connection is, that one and its answer change places with those
//! before it. So do they if it comes while the poller sleeps for the other. The questions of one connection keep their
//! order, and so does the CPU time before the questions.

use super::steps::Act;
use super::{AT_OBJECT, Machine, Run};
use crate::kernel::Kernel;
use crate::objects::Objects;
use crate::order::Order;
use crate::program::{Code, Program};
use schedlab_units::TaskId;
use schedlab_workload::{ObjectId, ObjectOp};
use std::sync::Arc;

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

/// Who polls where.
#[derive(Clone, Default)]
pub(super) struct Pollers {
    /// Of each object the task that takes questions there, if it is one alone.
    readers: Vec<Option<TaskId>>,
    /// At how many objects each task takes questions.
    nr_objects: Vec<usize>,
}

impl Pollers {
    pub fn new(program: &Program) -> Pollers {
        let nr_objects = program.objects.len();
        let mut at: Vec<Vec<TaskId>> = vec![Vec::new(); if program.has_questions() { nr_objects } else { 0 }];
        if at.is_empty() {
            return Pollers::default();
        }
        let firsts: Vec<usize> = program.tasks.iter().map(|task| task.first_step).collect();
        for (step, what) in program.steps.iter().enumerate() {
            let Some(object) = program.question(what.code()).map(ObjectOp::object) else { continue };
            let id = TaskId(firsts.partition_point(|first| *first <= step) as u32 - 1);
            let here = &mut at[object.0 as usize];
            if !here.contains(&id) {
                here.push(id);
            }
        }
        let mut nr_objects = vec![0; program.tasks.len()];
        at.iter().flatten().for_each(|id| nr_objects[id.index()] += 1);
        let alone = |here: Vec<TaskId>| if let [id] = here[..] { Some(id) } else { None };
        Pollers { readers: at.into_iter().map(alone).collect(), nr_objects }
    }
}

impl<K: Kernel, O: Order> Machine<K, O> {
    /// Something at an object, where answers may be put off.
    #[inline(never)]
    pub(super) fn at_polled(&mut self, id: TaskId, mut act: u32) -> Act {
        let op = self.program.acts[act as usize].op;
        self.offer(op);
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
        if put_off.nr > 0 && !self.objects.holds(op, 0) {
            // another reader has taken it
            self.answer(id, here - 1);
            return Act::GoesOn;
        }
        let is_open = self.puts_off(here - 1) && self.objects.begins(id) && !self.objects.holds(op, 0);
        if is_open && self.choose(id, here - 1, |objects, op| objects.holds(op, 0)) {
            if let Code::Object(chosen) = self.program.steps[here - 1].code() {
                act = chosen;
            }
            self.load_step(id);
        }
        let did = self.at_object(id, act);
        if matches!(did, Act::GoesOn) && self.runs[id.index()].step == here {
            self.asked(id);
        }
        did
    }

    /// Something is about to be sent. A poller who sleeps for a question of another connection may take it.
    fn offer(&mut self, op: ObjectOp) {
        let ObjectOp::Send { object, amount } = op else { return };
        let Some(reader) = self.pollers.readers[object.0 as usize] else { return };
        let Run { token, step, .. } = self.runs[reader.index()];
        if token != AT_OBJECT {
            return;
        }
        let Some(awaited) = self.program.question(self.program.steps[step].code()) else { return };
        let is_whole = awaited.object() != object && self.objects.awaits_all_of(reader, awaited);
        let is_it = |objects: &Objects, op: ObjectOp| op.object() == object && objects.will_hold(op, amount);
        if is_whole
            && self.choose(reader, step, is_it)
            && let Some(chosen) = self.program.question(self.program.steps[step].code())
        {
            self.objects.awaits_instead(reader, chosen);
        }
    }

    /// Puts the first question from step `to` on that is there, and its answer, at this place. Whether there is one.
    fn choose(&mut self, id: TaskId, to: usize, is_there: impl Fn(&Objects, ObjectOp) -> bool) -> bool {
        let nr_objects = self.pollers.nr_objects[id.index()];
        let mut passed: Vec<ObjectId> = Vec::with_capacity(nr_objects);
        for step in (to..).step_by(2).take(QUESTIONS_MAX) {
            let Some(op) = self.program.steps.get(step).and_then(|step| self.program.question(step.code()))
            else {
                return false;
            };
            if !passed.contains(&op.object()) {
                if is_there(&self.objects, op) {
                    if step > to {
                        let steps = &mut Arc::make_mut(&mut self.program).steps;
                        let (first, moved) = (steps[to].after_ns, steps[step].after_ns);
                        (steps[to].after_ns, steps[step].after_ns) = (moved, first);
                        steps[to..step + 2].rotate_right(2);
                    }
                    return true;
                }
                passed.push(op.object());
                if passed.len() == nr_objects {
                    return false;
                }
            }
        }
        false
    }

    /// Puts all questions from step `to` on that are there behind one another, with their answers.
    fn gather(&mut self, id: TaskId, to: usize) {
        let mut taken: Vec<(ObjectId, u64)> = Vec::new();
        if self.pollers.nr_objects[id.index()] < 2 {
            return;
        }
        for step in (to..).step_by(2).take(QUESTIONS_MAX) {
            let before = |of: ObjectId| taken.iter().filter(|(id, _)| *id == of).map(|(_, n)| n).sum::<u64>();
            if !self.choose(id, step, |objects, op| objects.holds(op, before(op.object()))) {
                return;
            }
            if let Some(ObjectOp::Receive { object, amount }) =
                self.program.question(self.program.steps[step].code())
            {
                taken.push((object, amount.into()));
            }
        }
    }

    /// A task has taken a message. If that was a question and others were there when the round began, the answer is put
    /// off; behind the last of them all answers follow.
    pub(super) fn asked(&mut self, id: TaskId) {
        let next = self.runs[id.index()].step;
        let is_question = self.puts_off(next - 1);
        if is_question && self.put_off[id.index()].nr == 0 {
            self.gather(id, next + 1);
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
        self.program.steps.get(step).is_some_and(|step| self.program.question(step.code()).is_some())
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
