//! What does a task do next? Its program's steps, one by one: most enter the kernel, some only leave a note.
//!
//! ```text
//! program of t0              wakes t1 after 3 us     sleeps for token 7 after 2 us
//! t1 waits for it            Enter(Wake(t1))         token 7 not there: Enter(Block)
//! t1 does not wait yet       Note EARLY              token 7 has come before: Note AWAKE
//! ```

use super::rounds::PutOff;
use super::{AT_OBJECT, Machine, NO_TOKEN, RETRIES, Run, Sent, pay};
use crate::kernel::{Fault, Kernel, Op, Spawn, SpawnState, Stimulus};
use crate::objects::Did;
use crate::order::Order;
use crate::program::{Code, Step};
use crate::queue::{CLASS_OP, Key};
use schedlab_log::{Kind, Record, note};
use schedlab_units::{CpuId, Span, TaskId, Time};
use schedlab_workload::{ObjectId, ObjectOp, Recorded, Wakes};
use std::sync::Arc;

/// What comes of a step of a task's program.
pub(super) enum Act {
    /// It enters the kernel.
    Enter(Op<'static>),
    /// It does not enter the kernel.
    GoesOn,
    /// It enters the kernel with more than a number: [`Machine::operate_seldom`].
    Seldom(Code),
}

impl Run {
    /// The CPU time until the next step.
    #[inline]
    fn load(&mut self, steps: &[Step]) {
        self.remaining_ns = steps.get(self.step).map_or(0, |step| step.after_ns);
    }

    /// The system call in which it has woken another goes on to its next step.
    pub(super) fn joins_call(&mut self) {
        self.remaining_ns = self.remaining_ns.saturating_add(std::mem::take(&mut self.behind_ns));
        self.returns = false;
    }
}

/// How a task is woken at an object.
#[inline(always)]
pub(super) fn woken_by(wakes: Wakes, task: TaskId) -> Op<'static> {
    match wakes {
        Wakes::Plain => Op::Wake(task),
        Wakes::Sync => Op::WakeSync(task),
    }
}

impl<K: Kernel, O: Order> Machine<K, O> {
    /// The task on this CPU has computed as long as its program says: its next step, and whether it stays in the kernel
    /// if that enters it.
    #[inline(always)]
    pub(super) fn next_step<const PLAIN: bool>(&mut self, cpu: CpuId, id: TaskId) -> (Act, bool) {
        let step = self.program.steps[self.runs[id.index()].step];
        (self.take_step::<PLAIN>(cpu, id, step), step.stays())
    }

    #[inline(always)]
    fn take_step<const PLAIN: bool>(&mut self, cpu: CpuId, id: TaskId, step: Step) -> Act {
        let now_ns = self.now_ns;
        let run = &mut self.runs[id.index()];
        run.cpu = cpu.0;
        run.step += 1;
        run.load(&self.program.steps);
        if !PLAIN && self.costly {
            self.load_cost(id);
        }
        let code = step.code();
        let op = match code {
            Code::BlockTimer(after_ns) => {
                let until_ns = now_ns.saturating_add(after_ns);
                self.sleep_until(id, until_ns, until_ns)
            }
            Code::BlockDevice(after_ns) => {
                self.wheel.insert(id.0, now_ns.saturating_add(after_ns));
                Op::Block
            }
            Code::BlockUntil(after_ns) => {
                let late_ns = self.late_ns(id);
                let until_ns = self.until_ns(id, after_ns).saturating_add(late_ns);
                self.sleep_until(id, until_ns.max(now_ns), until_ns)
            }
            Code::BlockGrid(after_ns) | Code::BlockGridRestart(after_ns) | Code::BlockGridSkip(after_ns) => {
                let until_ns = &mut self.runs[id.index()].until_ns;
                let expiry_ns = until_ns.saturating_add(after_ns);
                if expiry_ns <= now_ns {
                    // Late: no sleep, as clock_nanosleep until a time that has passed.
                    *until_ns = match code {
                        Code::BlockGridRestart(_) => now_ns,
                        Code::BlockGridSkip(_) => now_ns - (now_ns - expiry_ns) % after_ns.max(1),
                        _ => expiry_ns,
                    };
                    self.tokens_early += 1;
                    self.note(cpu, id, TaskId::IDLE, note::AWAKE, note::NO_WAKEUP);
                    return Act::GoesOn;
                }
                *until_ns = expiry_ns;
                let wakes_ns = expiry_ns.saturating_add(self.late_ns(id));
                self.sleep_until(id, wakes_ns, wakes_ns)
            }
            Code::BlockToken(token) => {
                let sent = &mut self.sent[token as usize];
                if *sent == Sent::Early {
                    self.tokens_early += 1;
                    let waker = self.program.tokens[token as usize].waker;
                    self.note(cpu, id, waker, note::AWAKE, token.into());
                    return Act::GoesOn;
                }
                *sent = Sent::Awaited;
                self.runs[id.index()].token = token;
                self.waiting += 1;
                Op::Block
            }
            Code::BlockForever => {
                self.done(id);
                Op::Block
            }
            Code::Deliver(token) => {
                let sleeper = self.program.tokens[token as usize].sleeper;
                let sent = &mut self.sent[token as usize];
                if *sent != Sent::Awaited {
                    *sent = Sent::Early;
                    self.note(cpu, id, sleeper, note::EARLY, token.into());
                    return Act::GoesOn;
                }
                self.runs[sleeper.index()].token = NO_TOKEN;
                self.waiting -= 1;
                Op::Wake(sleeper)
            }
            Code::Exit => {
                self.done(id);
                Op::Exit
            }
            Code::Object(act) if self.put_off.is_empty() => return self.at_object(id, act),
            Code::Object(act) => return self.at_polled(id, act),
            Code::Fork(_) | Code::Set(_) | Code::Yield | Code::Exec => return Act::Seldom(code),
        };
        if !PLAIN {
            self.settle_costs(id, op);
        }
        Act::Enter(op)
    }

    /// Something at an object. The step is done again if it is not over.
    #[inline(always)]
    pub(super) fn at_object(&mut self, id: TaskId, act: u32) -> Act {
        let at = &self.program.acts[act as usize];
        if let ObjectOp::Tick { object, period } = at.op {
            return self.at_timer(id, (object, period), at.recorded);
        }
        match self.objects.at_once(id, at.op, at.recorded) {
            Some((Did::Goes, _)) => Act::GoesOn,
            Some((Did::Wakes(task), goes_on)) => self.let_on(id, task, act, goes_on),
            Some((Did::Sleeps, goes_on)) => self.sleep_at_object(id, act, goes_on),
            _ => self.at_object_long(id, act),
        }
    }

    /// What [`Self::at_object`] does seldom.
    #[inline(never)]
    fn at_object_long(&mut self, id: TaskId, act: u32) -> Act {
        let at = &self.program.acts[act as usize];
        let (did, goes_on) = self.objects.operate(id, at.op, at.recorded);
        match did {
            Did::Goes => Act::GoesOn,
            Did::Wakes(task) => self.let_on(id, task, act, goes_on),
            Did::WakesAndGoesOn(task) => {
                self.step_again(id);
                self.let_on(id, task, act, goes_on)
            }
            Did::Sleeps => self.sleep_at_object(id, act, goes_on),
        }
    }

    /// A task that sleeps at an object is woken; `goes_on`: it tries again then.
    #[inline(always)]
    fn let_on(&mut self, by: TaskId, task: TaskId, act: u32, goes_on: bool) -> Act {
        let wakes = self.program.acts[act as usize].wakes;
        self.runs[task.index()].token = if goes_on { RETRIES } else { NO_TOKEN };
        self.waiting -= 1;
        if self.pays_at_objects {
            self.pay_for_wakeup(by, act);
        }
        Act::Enter(woken_by(wakes, task))
    }

    /// A task goes to sleep at an object; `goes_on`: it tries again when it is woken.
    #[inline(always)]
    fn sleep_at_object(&mut self, id: TaskId, act: u32, goes_on: bool) -> Act {
        if goes_on {
            self.step_again(id);
        }
        self.runs[id.index()].token = AT_OBJECT;
        self.waiting += 1;
        if self.pays_at_objects {
            self.pay_for_sleep(id, act);
        }
        Act::Enter(Op::Block)
    }

    /// The task's last step is its next one, at once.
    #[inline]
    fn step_again(&mut self, id: TaskId) {
        let run = &mut self.runs[id.index()];
        (run.step, run.remaining_ns) = (run.step - 1, 0);
        if let Some(PutOff { left, now: Some(answer), .. }) = self.put_off.get_mut(id.index()) {
            (run.step, *left) = (*answer, *left + 1);
        }
    }

    /// A task that was woken at an object has a CPU, and its operation goes on. What is there for the receiver of
    /// a stream it takes at once; all else is its next step.
    #[inline(always)]
    pub(super) fn retry<const PLAIN: bool>(&mut self, cpu: CpuId, id: TaskId) {
        let run = &mut self.runs[id.index()];
        run.token = NO_TOKEN;
        if run.remaining_ns == 0 && (PLAIN || !run.within) && self.objects.takes_the_rest(id) {
            (run.cpu, run.step) = (cpu.0, run.step.wrapping_add(1));
            run.load(&self.program.steps);
            if !PLAIN && self.costly {
                self.load_cost(id);
            }
            if !PLAIN && !self.put_off.is_empty() {
                self.asked(id);
            }
        }
    }

    /// The task waits for a timer that several share.
    #[inline(never)]
    fn at_timer(&mut self, id: TaskId, (object, period): (ObjectId, Span), recorded: Recorded) -> Act {
        let Some(until_ns) = self.objects.tick(object, period, self.now_ns) else {
            self.objects.counts.skipped += u64::from(recorded == Recorded::Slept);
            return Act::GoesOn;
        };
        let op = self.sleep_until(id, until_ns, until_ns);
        self.settle_costs(id, op);
        Act::Enter(op)
    }

    /// A task has gone to sleep at an object: it pays for that once it has a CPU again.
    #[inline(never)]
    fn pay_for_sleep(&mut self, id: TaskId, act: u32) {
        let own = self.program.acts[act as usize].costs;
        let (costs, run) = (&self.program.costs, &mut self.runs[id.index()]);
        pay(run, own.sleep.as_ns(), true);
        if self.costly {
            pay(run, costs.block.as_ns(), costs.added);
        }
        self.settle_costs(id, Op::Block);
    }

    /// A task has woken one that slept at an object, and pays for that.
    #[inline(never)]
    fn pay_for_wakeup(&mut self, by: TaskId, act: u32) {
        let own = self.program.acts[act as usize].costs;
        let (costs, run) = (&self.program.costs, &mut self.runs[by.index()]);
        if own.wake > Span::ZERO || own.tail > Span::ZERO {
            // the wakeup comes in the midst of the call: whom it woke may have this CPU when the call returns
            let tail_ns = own.tail.as_ns().min(run.remaining_ns);
            (run.returns, run.behind_ns, run.remaining_ns) = (true, run.remaining_ns - tail_ns, tail_ns);
        }
        pay(run, own.wake.as_ns(), true);
        self.woke = (by, CpuId(run.cpu));
        if self.costly {
            pay(run, costs.wakeup.as_ns(), costs.added);
        }
    }

    /// Whether the system call in which this task has woken another is over now. Then its next step is what it
    /// computes for.
    #[inline]
    pub(super) fn returns(&mut self, id: TaskId) -> bool {
        let run = &mut self.runs[id.index()];
        if !run.returns {
            return false;
        }
        (run.returns, run.within, run.remaining_ns) = (false, false, run.behind_ns);
        true
    }

    /// Sleep until an instant, by a timer of the kernel's own (`until_ns`) or of the machine's (`wheel_ns`).
    #[inline]
    fn sleep_until(&mut self, id: TaskId, wheel_ns: u64, until_ns: u64) -> Op<'static> {
        if K::OWNS_TASK_TIMERS {
            self.asleep_until_ns = self.asleep_until_ns.max(until_ns);
            return Op::BlockUntil(Time::from_ns(until_ns));
        }
        self.wheel.insert(id.0, wheel_ns);
        Op::Block
    }

    /// The operations that hand the kernel more than a number, or need a look at what has come of them.
    #[inline(never)]
    pub(super) fn operate_seldom(
        &mut self,
        cpu: CpuId,
        id: TaskId,
        code: Code,
        stays: bool,
    ) -> Result<(), Box<Fault>> {
        match code {
            Code::Fork(child) => {
                self.born(TaskId(child));
                let program = Arc::clone(&self.program);
                let task = &program.tasks[child as usize];
                let spawn = Spawn {
                    id: TaskId(child),
                    name: &task.name,
                    kernel_thread: task.kernel_thread,
                    change: task.change.as_ref(),
                    state: SpawnState::Runnable,
                    cpu: None,
                };
                self.enter(cpu, id, Op::Fork(&spawn), stays)
            }
            Code::Set(change) => {
                let program = Arc::clone(&self.program);
                let words = &program.change_words[change as usize];
                let (target, change) = &program.changes[change as usize];
                let target = target.unwrap_or(id);
                self.note_words(cpu, id, target, words);
                self.enter(cpu, id, Op::Set(target, change), stays)
            }
            Code::Exec => {
                self.note(cpu, id, TaskId::IDLE, note::EXEC, 0);
                self.enter(cpu, id, Op::Exec, stays)
            }
            Code::Yield => {
                self.enter(cpu, id, Op::Yield, stays)?;
                if self.cpus[cpu.index()].user == id {
                    self.note(cpu, id, TaskId::IDLE, note::YIELD, 0);
                }
                Ok(())
            }
            other => unreachable!("{other:?} is an operation like any other"),
        }
    }

    /// A task is about to enter the kernel.
    #[inline]
    fn settle_costs(&mut self, id: TaskId, op: Op<'_>) {
        if self.costly && matches!(op, Op::Block | Op::BlockUntil(_) | Op::Yield) {
            // what the kernel has cost it so far comes off its next burst
            let run = &mut self.runs[id.index()];
            let off_ns = run.paid_ns.min(run.remaining_ns);
            run.paid_ns -= off_ns;
            run.remaining_ns -= off_ns;
        }
    }

    fn enter(&mut self, cpu: CpuId, id: TaskId, op: Op<'_>, stays: bool) -> Result<(), Box<Fault>> {
        self.settle_costs(id, op);
        self.step(cpu, if stays { Stimulus::Call(id, op) } else { Stimulus::Op(id, op) })
    }

    /// Notes what a task does that changes nothing in the schedule.
    #[inline(always)]
    pub(super) fn note(&mut self, cpu: CpuId, task: TaskId, other: TaskId, what: u32, value: u64) {
        let note = Record {
            kind: Kind::Note as u8,
            cpu: cpu.0 as u16,
            task: task.0,
            other: other.0,
            arg: what,
            value,
            ..Record::default()
        };
        self.kernel.note(Time::from_ns(self.now_ns), note);
    }

    /// Notes what a task sets of another or of itself, whole: [`note::SET`].
    fn note_words(&mut self, cpu: CpuId, task: TaskId, other: TaskId, words: &str) {
        // the end shows by a zero byte
        for (piece, start) in (0..=words.len()).step_by(8).enumerate() {
            let mut bytes = [0; 8];
            let part = &words.as_bytes()[start..words.len().min(start + 8)];
            bytes[..part.len()].copy_from_slice(part);
            let note = Record {
                kind: Kind::Note as u8,
                flags: piece as u8,
                cpu: cpu.0 as u16,
                task: task.0,
                other: other.0,
                arg: note::SET,
                value: u64::from_le_bytes(bytes),
                ..Record::default()
            };
            self.kernel.note(Time::from_ns(self.now_ns), note);
        }
    }

    /// The instant that a task sleeps until.
    pub(super) fn until_ns(&mut self, id: TaskId, after_ns: u64) -> u64 {
        let until_ns = &mut self.runs[id.index()].until_ns;
        *until_ns = until_ns.saturating_add(after_ns);
        *until_ns
    }

    /// How late the sleep ends that the task's last step begins.
    #[inline]
    fn late_ns(&self, id: TaskId) -> u64 {
        self.program.late_by.get(self.runs[id.index()].step - 1).copied().unwrap_or(0)
    }

    /// When the next step of a task that computes on this CPU is due, or its system call ends.
    #[inline]
    pub(super) fn next_step_key(&self, cpu: CpuId, task: TaskId) -> Key {
        self.next_step_key_here::<false>(cpu, task)
    }

    /// As [`Self::next_step_key`], as part of its caller.
    #[inline(always)]
    pub(super) fn next_step_key_here<const PLAIN: bool>(&self, cpu: CpuId, task: TaskId) -> Key {
        if PLAIN {
            return Key::op_soon(self.now_ns, self.runs[task.index()].remaining_ns);
        }
        let needs_ns = self.time_for(cpu.0, self.runs[task.index()].remaining_ns);
        let due_ns = self.now_ns.saturating_add(needs_ns);
        let ends_ns = if self.costly { self.call_ends_ns[cpu.index()] } else { u64::MAX };
        Key::new(due_ns.min(ends_ns), CLASS_OP)
    }

    fn done(&mut self, id: TaskId) {
        let run = &mut self.runs[id.index()];
        run.finished = true;
        run.live = false;
        self.live -= 1;
    }

    /// The CPU time until the task's next step takes effect.
    pub(super) fn load_step(&mut self, id: TaskId) {
        self.runs[id.index()].load(&self.program.steps);
        if self.costly {
            self.load_cost(id);
        }
    }

    /// What it costs to have the next step take effect.
    #[cold]
    fn load_cost(&mut self, id: TaskId) {
        let run = &mut self.runs[id.index()];
        if let Some(step) = self.program.steps.get(run.step) {
            let costs = &self.program.costs;
            let cost = match step.code() {
                Code::Deliver(_) => costs.wakeup,
                Code::Fork(_) => costs.fork,
                // what happens at an object costs only if somebody sleeps or is woken: it is paid after that
                Code::Set(_) | Code::Exec | Code::Object(_) => Span::ZERO,
                _ => costs.block,
            };
            pay(run, cost.as_ns(), costs.added);
        }
    }
}
