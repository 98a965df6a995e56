//! What happens around a stay in the kernel? What the CPU did before is counted, and what has come of it is planned.
//!
//! ```text
//! 3 us  t4 sleeps                enters by its own step            what it computed has been counted
//!       the kernel chooses t9    settles: t9 computes on cpu0      its next step is due in 5 us, cpu0's timer in 4 us
//! 7 us  cpu0's timer             enters from outside               t9 has computed 4 us of its 5
//! ```

use super::{Charge, Cpu, Machine, RETRIES, Rest, SAMPLE_EVERY, SAMPLE_TICKS_MAX, pay};
use crate::costs::Drawn;
use crate::kernel::{Fault, Kernel, Op, Stimulus, WITHIN_CALL, Yield};
use crate::order::{Order, Turn};
use crate::queue::{CLASS_DEVICE, CLASS_TIMER, Key};
use schedlab_units::{CpuId, Span, TaskId, Time};

impl<K: Kernel, O: Order> Machine<K, O> {
    /// The task on this CPU enters the kernel by its own step, which is due at this instant: what it computed before
    /// has been counted.
    #[inline(always)]
    pub(super) fn enter_now<const PLAIN: bool>(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        op: Op<'_>,
        stays: bool,
    ) -> Result<(), Box<Fault>> {
        if stays || !PLAIN && (O::STEERS || self.costly || self.idles_out) {
            return self.step(cpu, if stays { Stimulus::Call(task, op) } else { Stimulus::Op(task, op) });
        }
        self.events = self.events.wrapping_add(1);
        let yielded = if self.events == self.sample_at {
            self.resume_sampled(cpu, Stimulus::Op(task, op))?
        } else {
            self.kernel.resume(cpu, Time::from_ns(self.now_ns), Stimulus::Op(task, op))
        };
        self.settle::<PLAIN>(cpu, yielded, task, None)
    }

    /// Whether a CPU that has been posted an interrupt is idle, and takes it only when it has come out of that.
    #[cold]
    pub(super) fn leaves_idle(&mut self, turn: Turn) -> bool {
        let cpu = turn.cpu.index();
        match self.rest[cpu] {
            _ if turn.spins => return false,
            Rest::Awake => return false,
            // it takes both at once
            Rest::Leaving => {}
            Rest::Idle { since_ns } => {
                self.kick();
                self.rest[cpu] = Rest::Leaving;
                let idle = Span::from_ns(self.now_ns - since_ns);
                let exit = self.program.costs.exit_after(idle, &mut self.exits);
                let until_ns = self.now_ns.saturating_add(exit.as_ns());
                let key = Key::new(until_ns, CLASS_DEVICE).min(self.cpus[cpu].timer);
                self.queue.set(cpu, key);
            }
        }
        true
    }

    /// What an idle CPU's own timer or device wakes waits until that CPU has come out of idleness.
    #[cold]
    pub(super) fn set_idle_resched(&mut self, cpu: CpuId, stimulus: &Stimulus<'_>) {
        let is_own = matches!(stimulus, Stimulus::Timer(_) | Stimulus::Device(_));
        let span = match self.rest[cpu.index()] {
            Rest::Idle { .. } if is_own => self.program.costs.resched_idle(&mut self.exits),
            _ => Span::ZERO,
        };
        self.kernel.set_idle_resched(cpu, span);
    }

    /// An interrupt finds the task on this CPU in a system call, maybe. What the task does itself ends the call.
    #[cold]
    pub(super) fn draw_call(&mut self, cpu: CpuId, times: &Drawn, stimulus: &Stimulus<'_>) {
        let user = self.cpus[cpu.index()].user;
        let is_interrupt = !matches!(stimulus, Stimulus::Op(..) | Stimulus::Call(..));
        let ends_ns = &mut self.call_ends_ns[cpu.index()];
        if !is_interrupt || user.is_idle() || self.runs[user.index()].within {
            *ends_ns = u64::MAX;
        } else if *ends_ns == u64::MAX || *ends_ns <= self.now_ns {
            *ends_ns = match self.exits.pick(times).as_ns() {
                0 => u64::MAX,
                goes_on_ns => self.now_ns.saturating_add(goes_on_ns),
            };
        }
        self.kernel.set_resched(if *ends_ns == u64::MAX { Span::ZERO } else { WITHIN_CALL });
    }

    /// Whether the call in which an interrupt found this CPU's task is over. A step that is due now belongs to it.
    pub(super) fn call_is_over(&mut self, cpu: CpuId) -> bool {
        let Cpu { user, since_ns, .. } = self.cpus[cpu.index()];
        let is_over = self.call_ends_ns[cpu.index()] <= self.now_ns
            && self.runs[user.index()].remaining_ns > self.work(cpu.0, self.now_ns - since_ns);
        if is_over {
            self.call_ends_ns[cpu.index()] = u64::MAX;
        }
        is_over
    }

    /// An idle CPU is interrupted: whoever has just woken somebody at an object pays for it, if it still has its CPU.
    pub(super) fn kick(&mut self) {
        let (task, cpu) = std::mem::replace(&mut self.woke, (TaskId::IDLE, CpuId(0)));
        let there = self.cpus[cpu.index()];
        if !task.is_idle() && there.user == task && there.since_ns == self.now_ns {
            pay(&mut self.runs[task.index()], self.program.costs.kick.as_ns(), true);
            self.queue.set(cpu.index(), there.timer.min(self.next_step_key(cpu, task)));
        }
    }

    /// Lets a CPU execute, and plans its next event.
    pub(super) fn step(&mut self, cpu: CpuId, stimulus: Stimulus<'_>) -> Result<(), Box<Fault>> {
        self.step_here::<false>(cpu, stimulus)
    }

    /// As [`Self::step`], as part of its caller.
    #[inline(always)]
    pub(super) fn step_here<const PLAIN: bool>(
        &mut self,
        cpu: CpuId,
        stimulus: Stimulus<'_>,
    ) -> Result<(), Box<Fault>> {
        let now_ns = self.now_ns;
        if O::STEERS {
            self.enter_steered(cpu);
        }
        let state = self.cpus[cpu.index()];
        if !state.user.is_idle() {
            let passed_ns = now_ns - state.since_ns;
            let worked_ns = if PLAIN { passed_ns } else { self.work(cpu.0, passed_ns) };
            let run = &mut self.runs[state.user.index()];
            run.remaining_ns = run.remaining_ns.saturating_sub(worked_ns);
            self.cpus[cpu.index()].since_ns = now_ns;
        }
        let before = if state.user.is_idle() { state.before } else { state.user };
        let charge = (!PLAIN && self.costly).then(|| match O::STEERS {
            true => self.steer.charge(&stimulus),
            false => Charge::of(&stimulus),
        });
        if !PLAIN && self.idles_out {
            self.set_idle_resched(cpu, &stimulus);
        }
        if !PLAIN
            && self.costly
            && let Some(times) = self.program.costs.call_drawn
        {
            self.draw_call(cpu, &times, &stimulus);
        }
        self.events += 1;
        let yielded = if self.events == self.sample_at {
            self.resume_sampled(cpu, stimulus)?
        } else {
            self.kernel.resume(cpu, Time::from_ns(now_ns), stimulus)
        };
        self.settle::<PLAIN>(cpu, yielded, before, charge)
    }

    /// What has come of a stay in the kernel, and this CPU's next event. `before`: the task that computed there.
    #[inline(always)]
    pub(super) fn settle<const PLAIN: bool>(
        &mut self,
        cpu: CpuId,
        yielded: Yield,
        before: TaskId,
        charge: Option<Charge>,
    ) -> Result<(), Box<Fault>> {
        let now_ns = self.now_ns;
        let timer_ns = self.kernel.timer(cpu).as_ns();
        let timer_ns = if PLAIN { timer_ns } else { self.program.late.of(cpu, timer_ns) };
        let timer = Key::new(timer_ns, CLASS_TIMER);
        if !PLAIN && self.idles_out {
            let is_idle = matches!(yielded, Yield::Idle);
            self.rest[cpu.index()] = if is_idle { Rest::Idle { since_ns: now_ns } } else { Rest::Awake };
        }
        let state = &mut self.cpus[cpu.index()];
        let key = match yielded {
            Yield::User(task) => {
                if !PLAIN && self.costly && task != before {
                    self.call_ends_ns[cpu.index()] = u64::MAX;
                }
                *state = Cpu { user: task, before: TaskId::IDLE, since_ns: now_ns, timer };
                if let Some(charge) = charge {
                    self.charge(cpu, task, before, charge);
                }
                let run = &self.runs[task.index()];
                let (remaining_ns, is_as_before) =
                    (run.remaining_ns, run.on == cpu.0 && run.token != RETRIES);
                match PLAIN && is_as_before {
                    true => timer.min(Key::op_soon(now_ns, remaining_ns)),
                    false => timer.min(self.computes_again::<PLAIN>(cpu, task)),
                }
            }
            Yield::Idle => {
                (state.user, state.before) = (TaskId::IDLE, TaskId::IDLE);
                timer
            }
            _ => self.settle_seldom(cpu, yielded, (before, charge), timer)?,
        };
        self.queue.set(cpu.index(), key);
        Ok(())
    }

    /// As [`Self::settle`], of a CPU that neither computes nor is idle: when it goes on by itself.
    #[cold]
    pub(super) fn settle_seldom(
        &mut self,
        cpu: CpuId,
        yielded: Yield,
        (before, charge): (TaskId, Option<Charge>),
        timer: Key,
    ) -> Result<Key, Box<Fault>> {
        let state = &mut self.cpus[cpu.index()];
        Ok(match yielded {
            Yield::User(_) | Yield::Idle => unreachable!("it is no such state"),
            Yield::Spin => {
                (state.user, state.before) = (TaskId::IDLE, TaskId::IDLE);
                self.order.stopped(&self.kernel, cpu);
                timer
            }
            Yield::Point => {
                assert!(O::STEERS, "a kernel stops at points only if it is asked to");
                // it will go on as if it had not stopped: what it did before is kept
                self.steer.stopped(cpu, *state, charge);
                (state.user, state.before) = (TaskId::IDLE, TaskId::IDLE);
                self.order.stopped(&self.kernel, cpu);
                timer
            }
            Yield::Paused => {
                if !state.user.is_idle() && !self.program.costs.added {
                    self.runs[state.user.index()].paid_ns += self.program.costs.resched.as_ns();
                }
                (state.user, state.before) = (TaskId::IDLE, before);
                Key::new(self.kernel.timer(cpu).as_ns(), CLASS_TIMER) // not late: no interrupt
            }
            Yield::Fault => return Err(Box::new(self.kernel.fault())),
        })
    }

    /// When a task that has a CPU again takes its next step. It may come from another CPU, or try once more what it
    /// slept for.
    #[inline(always)]
    pub(super) fn computes_again<const PLAIN: bool>(&mut self, cpu: CpuId, task: TaskId) -> Key {
        let run = &self.runs[task.index()];
        let retries = run.token == RETRIES;
        if run.on != cpu.0 {
            self.arrive_from(task, cpu);
        }
        if retries {
            self.retry::<PLAIN>(cpu, task);
        }
        self.next_step_key_here::<PLAIN>(cpu, task)
    }

    /// A task computes on another CPU than before. It may have been taken off that one at this very instant,
    /// before that CPU has had its own turn: what it computed there is counted now.
    pub(super) fn arrive_from(&mut self, task: TaskId, cpu: CpuId) {
        let before = std::mem::replace(&mut self.runs[task.index()].on, cpu.0);
        let there = self.cpus[before as usize];
        if there.user == task {
            let worked_ns = self.work(before, self.now_ns - there.since_ns);
            let run = &mut self.runs[task.index()];
            run.remaining_ns = run.remaining_ns.saturating_sub(worked_ns);
            self.cpus[before as usize].user = TaskId::IDLE;
        }
    }

    /// `resume` with a stop watch and the checks that need not be made each time.
    #[cold]
    #[inline(never)]
    pub(super) fn resume_sampled(&mut self, cpu: CpuId, stimulus: Stimulus<'_>) -> Result<Yield, Box<Fault>> {
        let before = ticks();
        if let Some((began, inside)) = self.sample.take() {
            // the event after a measured one closes the measurement: kernel's part and whole of one event
            self.sample_at = self.events + SAMPLE_EVERY;
            let whole = before.saturating_sub(began);
            if whole < SAMPLE_TICKS_MAX {
                self.sampled_inside += inside;
                self.sampled_whole += whole;
            }
            return Ok(self.kernel.resume(cpu, Time::from_ns(self.now_ns), stimulus));
        }
        self.sample_at = self.events + 1;
        if let Some(pulse) = self.pulse {
            pulse.store(self.events, std::sync::atomic::Ordering::Relaxed);
        }
        self.check(stimulus)?;
        let before = ticks();
        let yielded = self.kernel.resume(cpu, Time::from_ns(self.now_ns), stimulus);
        self.sample = Some((before, ticks().saturating_sub(before)));
        Ok(yielded)
    }

    /// A task is about to compute: what the kernel did just now on this CPU comes first.
    #[cold]
    pub(super) fn charge(&mut self, cpu: CpuId, task: TaskId, before: TaskId, what: Charge) {
        let costs = self.program.costs;
        let mut ns = match what {
            Charge::Tick => costs.tick,
            Charge::Interrupt => costs.interrupt,
            Charge::Ipi => costs.ipi,
            Charge::Own => Span::ZERO,
        }
        .as_ns();
        if task != before {
            ns += costs.switch.as_ns();
        }
        let run = &mut self.runs[task.index()];
        if run.on != cpu.0 && run.has_run {
            ns += costs.migration.as_ns();
        }
        run.has_run = true;
        pay(run, ns, costs.added);
    }
}

/// A cheap clock of the host, for shares of time only.
#[inline]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: RDTSC has no preconditions.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        static START: OnceLock<std::time::Instant> = OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}
