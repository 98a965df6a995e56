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

use super::Machine;
use crate::kernel::Kernel;
use crate::order::Order;
use crate::program::{Program, TokenStep};
use crate::queue::{CLASS_OP, Key};
use schedlab_log::{Kind, Record, note};
use schedlab_units::{CpuId, TaskId, Time};

impl<K: Kernel, O: Order> Machine<K, O> {
    /// Takes such steps, from this CPU's next one on, in order of time up to `others`. The CPU whose step is due and of
    /// another kind; `None`: another event comes first.
    #[inline(always)]
    pub(super) fn quiet_steps(&mut self, cpu: CpuId, others: Key) -> Option<CpuId> {
        if O::STEERS || self.costly || self.asymmetric || self.acting.is_some() {
            return Some(cpu);
        }
        let Machine { kernel, program, cpus, runs, delivered, queue, now_ns, tokens_early, .. } = self;
        let Program { steps, tokens, .. } = &**program;
        let mut cpu = cpu.index();
        loop {
            let at = &mut cpus[cpu];
            let run = &runs[at.user.index()];
            let (Some(step), Some(next)) = (steps.get(run.step), steps.get(run.step + 1)) else { break };
            let Some(what) = step.token().filter(|_| !run.within) else { break };
            let (task, place) = (at.user, run.step + 1);
            let (arg, other, token) = match what {
                TokenStep::Block(token) => {
                    if delivered[token as usize / 64] & (1 << (token % 64)) == 0 {
                        break;
                    }
                    *tokens_early += 1;
                    (note::AWAKE, tokens[token as usize].waker, token)
                }
                TokenStep::Deliver(token) => {
                    let sleeper = tokens[token as usize].sleeper;
                    if runs[sleeper.index()].token == token {
                        break;
                    }
                    delivered[token as usize / 64] |= 1 << (token % 64);
                    (note::EARLY, sleeper, token)
                }
            };
            kernel.note(Time::from_ns(*now_ns), said(cpu, task, other, arg, token));
            let run = &mut runs[task.index()];
            (run.step, run.remaining_ns) = (place, next.after_ns);
            at.since_ns = *now_ns;
            let due = Key::new(now_ns.saturating_add(next.after_ns), CLASS_OP);
            queue.set(cpu, at.timer.min(due));
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
