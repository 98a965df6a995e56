//! Who or what is behind a wakeup, and whose time is it while an interrupt has the CPU?

use super::engine::{Deriver, On};
use super::interrupts::{Origin, SoftIrq, softirq};
use super::tasks::{Cause, Evidence};
use super::{InterruptRule, SoftIrqRule};
use crate::ExternalSource;
use schedlab_trace::{Context, Pid, TraceEvent, Vector};

impl Deriver<'_> {
    /// Interrupts begin or end on this CPU: the clock of its task stands or goes on.
    pub(super) fn interrupted(&mut self, cpu: usize) {
        if self.options.interrupts == InterruptRule::Keep {
            return;
        }
        let On::Task(task) = self.cpus[cpu].on else {
            self.cpus[cpu].paused_ns = None;
            return;
        };
        let interrupts = self.cpus[cpu].interrupts;
        let softirq_thread = self.tasks.list[task].softirq_thread;
        let interrupted = if softirq_thread { interrupts.in_handler() } else { interrupts.interrupted() };
        match (interrupted, self.cpus[cpu].paused_ns) {
            (true, None) => {
                self.cpus[cpu].paused_ns = Some(self.now_ns);
                self.tasks.pause(task, self.now_ns);
            }
            (false, Some(since_ns)) => {
                self.cpus[cpu].paused_ns = None;
                self.tasks.resume(task, self.now_ns);
                self.summary.interrupt_ns += self.now_ns - since_ns;
                if self.options.interrupts == InterruptRule::Replay {
                    self.steal(cpu, since_ns);
                }
            }
            _ => {}
        }
    }

    /// An interrupt has had this CPU until now.
    fn steal(&mut self, cpu: usize, since_ns: u64) {
        if self.stolen.len() <= cpu {
            self.stolen.resize(cpu + 1, Vec::new());
        }
        let start_ns = self.start_ns.unwrap_or(0);
        let [from_ns, to_ns] = [since_ns, self.now_ns].map(|at_ns| at_ns.saturating_sub(start_ns));
        match self.stolen[cpu].last_mut().filter(|last| from_ns <= last.1) {
            Some(last) => last.1 = last.1.max(to_ns),
            None if from_ns < to_ns => self.stolen[cpu].push((from_ns, to_ns)),
            None => {}
        }
    }

    /// No task switches within an interrupt: whatever has begun on this CPU is over.
    pub(super) fn interrupts_over(&mut self, cpu: usize) {
        if self.cpus[cpu].interrupts.over() {
            self.count("interrupt whose end is not in the trace, taken as over at the next switch", 1);
        }
        self.interrupted(cpu);
    }

    /// Who or what is behind the wakeup of `wakee` by this event.
    pub(super) fn cause(&mut self, event: &TraceEvent, wakee: usize, late: bool) -> Cause {
        let cpu = self.cpus[event.cpu.index()];
        let waker = match cpu.on {
            On::Task(task) if task != wakee => Some(task),
            _ => None,
        };
        let outside = Cause::Outside;
        if event.context == Context::Unknown && waker.is_some() {
            self.facts.unknown_context += 1;
        }
        match event.context {
            // Seen where the woken task's CPU took it in: the waker may have been anybody.
            Context::HardIrq | Context::Nmi if late => outside(ExternalSource::Unknown),
            Context::HardIrq | Context::Nmi => outside(match cpu.interrupts.vector() {
                _ if cpu.interrupts.in_device() => ExternalSource::Device,
                Some(Vector::LocalTimer) => ExternalSource::Timer,
                _ => ExternalSource::HardIrq,
            }),
            Context::Task | Context::Unknown if late && event.pid == Pid::IDLE => {
                outside(ExternalSource::Unknown)
            }
            Context::Task | Context::Unknown if event.pid == Pid::IDLE => outside(ExternalSource::Idle),
            Context::Task | Context::Unknown => match waker {
                Some(waker) => self.tasks.token(waker, wakee, event.time_ns, Evidence::Task),
                None => outside(ExternalSource::Unknown),
            },
            Context::SoftIrq => self.softirq_cause(event, cpu.interrupts.softirq(), waker, wakee),
        }
    }

    fn softirq_cause(
        &mut self,
        event: &TraceEvent,
        running: Option<SoftIrq>,
        current: Option<usize>,
        wakee: usize,
    ) -> Cause {
        let external = Cause::Outside(match running.map(|softirq| softirq.vec) {
            Some(softirq::TIMER | softirq::HRTIMER) => ExternalSource::TimerSoftIrq,
            _ => ExternalSource::SoftIrq,
        });
        let Some(current) = current else { return external };
        let softirq_thread = self.tasks.list[current].softirq_thread;
        let mut on_behalf = |evidence| self.tasks.token(current, wakee, event.time_ns, evidence);
        match (self.options.softirq, running) {
            (SoftIrqRule::Never, _) => external,
            (SoftIrqRule::Always, _) => on_behalf(Evidence::SoftIrq),
            // The thread that does what interrupts have left: its work, after its own wakeup.
            (SoftIrqRule::Evidence, _) if softirq_thread => on_behalf(Evidence::SoftIrq),
            (SoftIrqRule::Evidence, Some(SoftIrq { origin: Origin::Task, recorded, .. })) => {
                on_behalf(if recorded { Evidence::SoftIrqRaised } else { Evidence::SoftIrq })
            }
            (SoftIrqRule::Evidence, Some(SoftIrq { origin: Origin::Interrupt, .. })) => external,
            // Whether a hardware interrupt came before is known only if those were recorded.
            (SoftIrqRule::Evidence, Some(SoftIrq { vec: softirq::NET_TX | softirq::NET_RX, .. }) | None) => {
                self.softirq_pairs.insert((current as u32, wakee as u32));
                self.tasks.token(current, wakee, event.time_ns, Evidence::SoftIrqMaybe)
            }
            (SoftIrqRule::Evidence, Some(_)) => external,
        }
    }
}
