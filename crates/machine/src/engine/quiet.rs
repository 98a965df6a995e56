//! Which steps leave but a note? Wakeups that nobody waits for yet, and sleeps that are not needed.
//!
//! ```text
//! cpu0   t4 delivers token 7 to t9          Note EARLY      t9 sleeps for another one, or computes
//! cpu1   t9 would sleep for token 7         Note AWAKE      it has come: t9 goes on
//! ```
//!
//! Where tasks send messages, two steps of three are of this kind. The kernel hears nothing of them, so they are taken
//! in one short loop, on whatever CPU comes next. Where nothing takes time, a sleep or wakeup that does enter the
//! kernel goes there from this loop, too. What is seldom there goes the long way (`steps.rs`), to the same effect.

use super::steps::woken_by;
use super::{AT_OBJECT, Cpu, Machine, NO_TOKEN, RETRIES, Run, Sent};
use crate::kernel::{Fault, Kernel, Op};
use crate::objects::Did;
use crate::order::Order;
use crate::program::{QuickStep, Step};
use crate::queue::{CpuQueue, Few, GROUP, Key, Next, Turns};
use schedlab_log::{Kind, Record, note};
use schedlab_units::{CpuId, TaskId, Time};

/// How the loop knows whose turn is next.
trait Queue {
    type Turns<'a>: Turns;
    /// These CPUs by themselves, so that the compiler knows how many they can be at most.
    fn cpus(cpus: &mut [Cpu]) -> &mut [Cpu];
    /// A CPU's number, likewise.
    fn cpu(cpu: usize) -> usize;
    fn of(queue: &mut CpuQueue) -> Self::Turns<'_>;
}

/// Of CPUs that are one group.
struct OneGroup;

impl Queue for OneGroup {
    type Turns<'a> = Few<'a>;
    #[inline(always)]
    fn cpus(cpus: &mut [Cpu]) -> &mut [Cpu] {
        &mut cpus[..GROUP]
    }
    #[inline(always)]
    fn cpu(cpu: usize) -> usize {
        cpu % GROUP
    }
    #[inline(always)]
    fn of(queue: &mut CpuQueue) -> Few<'_> {
        queue.few()
    }
}

/// Of any number.
struct Groups;

impl Queue for Groups {
    type Turns<'a> = &'a mut CpuQueue;
    #[inline(always)]
    fn cpus(cpus: &mut [Cpu]) -> &mut [Cpu] {
        cpus
    }
    #[inline(always)]
    fn cpu(cpu: usize) -> usize {
        cpu
    }
    #[inline(always)]
    fn of(queue: &mut CpuQueue) -> &mut CpuQueue {
        queue
    }
}

/// A task takes its next step, by which it enters the kernel at this instant.
#[inline(always)]
fn enters(at: &mut Cpu, run: &mut Run, cpu: CpuId, (now_ns, after_ns): (u64, u64)) {
    (run.step, run.remaining_ns) = (run.step.wrapping_add(1), after_ns);
    (run.cpu, at.since_ns) = (cpu.0, now_ns);
}

impl<K: Kernel, O: Order> Machine<K, O> {
    /// Takes such steps, from this CPU's next one on, in order of time up to `others`. What sleeps or wakes behind them
    /// is done, too, if nothing takes time. The CPU whose step is due and of another kind; `None`: another event may be
    /// earlier.
    #[inline(always)]
    pub(super) fn quiet_steps<const PLAIN: bool, const OBJECTS: bool>(
        &mut self,
        cpu: CpuId,
        others: Key,
    ) -> Result<Option<CpuId>, Box<Fault>> {
        if O::STEERS || !PLAIN && (self.costly || self.asymmetric || self.acting.is_some()) {
            return Ok(Some(cpu));
        }
        match self.queue.is_few() {
            true => self.quiet_steps_by::<PLAIN, OBJECTS, OneGroup>(cpu, others),
            false => self.quiet_steps_of_many::<PLAIN, OBJECTS>(cpu, others),
        }
    }

    #[inline(never)]
    fn quiet_steps_of_many<const PLAIN: bool, const OBJECTS: bool>(
        &mut self,
        cpu: CpuId,
        others: Key,
    ) -> Result<Option<CpuId>, Box<Fault>> {
        self.quiet_steps_by::<PLAIN, OBJECTS, Groups>(cpu, others)
    }

    #[inline(always)]
    fn quiet_steps_by<const PLAIN: bool, const OBJECTS: bool, Q: Queue>(
        &mut self,
        cpu: CpuId,
        others: Key,
    ) -> Result<Option<CpuId>, Box<Fault>> {
        let Machine { kernel, program, cpus, runs, sent, objects, queue, now_ns, waiting, .. } = self;
        let (steps, tokens, tokens_early) = (&*program.steps, &*program.tokens, &mut self.tokens_early);
        let (cpus, runs, sent) = (Q::cpus(cpus), runs.as_mut_slice(), &mut sent[..tokens.len()]);
        let last_step = steps.len().saturating_sub(1);
        let (mut turns, mut now, mut cpu) = (Q::of(queue), *now_ns, Q::cpu(cpu.index()));
        let is_over = loop {
            let (at, this) = (&mut cpus[cpu], CpuId(cpu as u32));
            let task = at.user;
            let run = &mut runs[task.index()];
            if run.step >= last_step || !PLAIN && run.within {
                break false;
            }
            // SAFETY: it is not the last step, so there are two from it on.
            let [step, next] = unsafe { &*steps.as_ptr().add(run.step).cast::<[Step; 2]>() };
            let after_ns = next.after_ns;
            let noted = match step.quick() {
                Some(QuickStep::Block(token)) if sent[token as usize] == Sent::Early => {
                    *tokens_early = tokens_early.wrapping_add(1);
                    Some((note::AWAKE, tokens[token as usize].waker, token))
                }
                Some(QuickStep::Block(token)) if PLAIN => {
                    sent[token as usize] = Sent::Awaited;
                    enters(at, run, this, (now, after_ns));
                    (run.token, *waiting, *now_ns) = (token, waiting.wrapping_add(1), now);
                    // (what the queue has not heard of it hears behind that: this CPU gets another key)
                    drop(turns);
                    return self.enter_now::<PLAIN>(this, task, Op::Block, false).map(|()| None);
                }
                Some(QuickStep::Deliver(token)) if sent[token as usize] != Sent::Awaited => {
                    sent[token as usize] = Sent::Early;
                    Some((note::EARLY, tokens[token as usize].sleeper, token))
                }
                Some(QuickStep::Deliver(token)) if PLAIN => {
                    let sleeper = tokens[token as usize].sleeper;
                    enters(at, run, this, (now, after_ns));
                    runs[sleeper.index()].token = NO_TOKEN;
                    (*waiting, *now_ns) = (waiting.wrapping_sub(1), now);
                    drop(turns);
                    return self.enter_now::<PLAIN>(this, task, Op::Wake(sleeper), false).map(|()| None);
                }
                Some(QuickStep::Object(act)) if PLAIN && OBJECTS => {
                    let act = &program.acts[act as usize];
                    match objects.at_once(task, act.op, act.recorded) {
                        Some((Did::Goes, _)) => run.cpu = this.0,
                        Some((Did::Sleeps, goes_on)) => {
                            enters(at, run, this, (now, after_ns));
                            if goes_on {
                                (run.step, run.remaining_ns) = (run.step.wrapping_sub(1), 0);
                            }
                            (run.token, *waiting, *now_ns) = (AT_OBJECT, waiting.wrapping_add(1), now);
                            drop(turns);
                            return self.enter_now::<PLAIN>(this, task, Op::Block, false).map(|()| None);
                        }
                        Some((Did::Wakes(woken), goes_on)) => {
                            enters(at, run, this, (now, after_ns));
                            runs[woken.index()].token = if goes_on { RETRIES } else { NO_TOKEN };
                            (*waiting, *now_ns) = (waiting.wrapping_sub(1), now);
                            drop(turns);
                            let op = woken_by(act.wakes, woken);
                            return self.enter_now::<PLAIN>(this, task, op, false).map(|()| None);
                        }
                        Some((Did::WakesAndGoesOn(_), _)) | None => break false,
                    }
                    None
                }
                _ => break false,
            };
            (run.step, run.remaining_ns) = (run.step.wrapping_add(1), after_ns);
            at.since_ns = now;
            let due = Key::op_soon(now, after_ns).min(at.timer);
            if let Some((arg, other, token)) = noted {
                kernel.note_by(Time::from_ns(now), || said(cpu, task, other, arg, token));
            }
            let next = turns.turn(cpu, due);
            if !next.is_op_before(others) {
                break true;
            }
            // (as `at_step`)
            debug_assert!(!PLAIN || next.time_ns() >= now);
            now = if PLAIN { next.time_ns() } else { now.max(next.time_ns()) };
            cpu = next.cpu();
        };
        *now_ns = now;
        turns.settle();
        Ok((!is_over).then_some(CpuId(cpu as u32)))
    }
}

#[inline(always)]
fn said(cpu: usize, task: TaskId, other: TaskId, arg: u32, token: u32) -> Record {
    Record {
        kind: Kind::Note as u8,
        cpu: cpu as u16,
        task: task.0,
        other: other.0,
        arg,
        value: token.into(),
        ..Record::default()
    }
}
