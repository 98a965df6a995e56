//! Which steps leave but a note? Wakeups that nobody waits for yet, and sleeps that are not needed.
//!
//! ```text
//! cpu0   t4 delivers token 7 to t9          Note EARLY      t9 sleeps for another one, or computes
//! cpu1   t9 would sleep for token 7         Note AWAKE      it has come: t9 goes on
//! ```
//!
//! Where tasks send messages, two steps of three are of this kind. The kernel hears nothing of them, so they are taken
//! in one short loop, on whatever CPU comes next. What is seldom there goes the long way (`steps.rs`), to the same
//! effect.

use super::{Machine, Sent};
use crate::kernel::Kernel;
use crate::order::Order;
use crate::program::TokenStep;
use crate::queue::{CLASS_OP, Key};
use schedlab_log::{Kind, Record, note};
use schedlab_units::{CpuId, TaskId, Time};

impl<K: Kernel, O: Order> Machine<K, O> {
    /// Takes such steps, from this CPU's next one on, in order of time up to `others`. The CPU whose step is due and of
    /// another kind; `None`: another event comes first.
    #[inline(always)]
    pub(super) fn quiet_steps<const PLAIN: bool>(&mut self, cpu: CpuId, others: Key) -> Option<CpuId> {
        if O::STEERS || !PLAIN && (self.costly || self.asymmetric) || self.acting.is_some() {
            return Some(cpu);
        }
        let Machine { kernel, program, cpus, runs, sent, queue, now_ns, tokens_early, .. } = self;
        let (steps, tokens) = (program.steps.as_slice(), program.tokens.as_slice());
        let (cpus, runs, sent) = (cpus.as_mut_slice(), runs.as_mut_slice(), sent.as_mut_slice());
        let mut cpu = cpu.index();
        loop {
            let at = &mut cpus[cpu];
            let task = at.user;
            let run = &mut runs[task.index()];
            if run.within {
                break;
            }
            let Some([step, next]) = steps.get(run.step..).and_then(|steps| steps.first_chunk()) else {
                break;
            };
            let Some(what) = step.token() else { break };
            let (arg, other, token) = match what {
                TokenStep::Block(token) => {
                    if sent[token as usize] != Sent::Early {
                        break;
                    }
                    *tokens_early += 1;
                    (note::AWAKE, tokens[token as usize].waker, token)
                }
                TokenStep::Deliver(token) => {
                    let sent = &mut sent[token as usize];
                    if *sent == Sent::Awaited {
                        break;
                    }
                    *sent = Sent::Early;
                    (note::EARLY, tokens[token as usize].sleeper, token)
                }
            };
            (run.step, run.remaining_ns) = (run.step + 1, next.after_ns);
            at.since_ns = *now_ns;
            let due = Key::new(now_ns.saturating_add(next.after_ns), CLASS_OP).min(at.timer);
            kernel.note(Time::from_ns(*now_ns), said(cpu, task, other, arg, token));
            queue.set(cpu, due);
            let (key, first) = queue.first();
            if key >= others || key.class() != CLASS_OP {
                return None;
            }
            *now_ns = (*now_ns).max(key.time_ns());
            cpu = first;
        }
        Some(CpuId(cpu as u32))
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
