//! Which CPU of a whole scheduler goes on? Every one as it would, save those that a schedule stops.
//!
//! A [`Stop`] is "CPU n stops before its kth point, for so long". It stands inside the kernel, with the locks that it
//! holds; the others go on, and time passes:
//!
//! ```text
//! cpu0  ..wakes t: reads t->on_rq ┤ stop ├─ goes on: takes the lock ..
//! cpu1                    schedule(): t leaves the queue ..
//! ```
//!
//! A stop may end before its time, when another CPU has changed what is at an address, or an interrupt has come:
//!
//! ```text
//! cpu0  ..looks at t->on_rq ┤ stop until t->on_rq changes ├─ takes the lock ..
//! cpu1                        t runs, and sleeps
//! ```
//!
//! So may a hypervisor stop a virtual CPU, anywhere and for any time: each schedule is possible. Without stops the
//! order is that of every run ([`in_posted_order`]).
//!
//! The order is also where one boot serves many schedules. When the scenario's first instant has come, [`Fork`] has
//! its say: it forks, and what comes back is a child with a schedule.

use schedlab_linux::race::{LateStore, PrivateWords, RaceControl};
use schedlab_machine::kernel::{Kernel, Point, PointKind};
use schedlab_machine::order::{Order, Ready, Turn, in_posted_order};
use schedlab_units::{CpuId, Span, Time};
use serde::{Deserialize, Serialize};

use super::pos::Pos;

/// A CPU stops before one of its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Stop {
    pub(crate) cpu: u32,
    /// Which of its points, from 1.
    pub(crate) at: u64,
    /// How long it stands. 0: until nothing else happens at this instant.
    pub(crate) hold: Span,
    /// What ends it before.
    pub(crate) until: Option<Until>,
    /// Who goes on in its place, whatever that one stood for. Where that CPU is not in the kernel, there is no stop.
    pub(crate) to: Option<u32>,
}

impl Stop {
    /// A stop that its length alone ends.
    pub(crate) fn new(cpu: u32, at: u64, hold: Span) -> Stop {
        Stop { cpu, at, hold, until: None, to: None }
    }

    /// Another CPU goes on; this one, too, when nothing else happens at this instant.
    pub(crate) fn turn(cpu: u32, at: u64, to: u32) -> Stop {
        Stop { to: Some(to), ..Stop::new(cpu, at, Span::ZERO) }
    }
}

/// A store that others see later than its CPU goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Late {
    pub(crate) cpu: u32,
    /// The point that stores, from 1.
    pub(crate) at: u64,
    /// Those behind it are late, too.
    pub(crate) all: bool,
}

/// A schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) stops: Vec<Stop>,
    pub(crate) late: Vec<Late>,
    /// Turns besides are drawn from this number, and noted ([`Fork::note`]).
    pub(crate) drawn: Option<u64>,
}

impl Given {
    /// With these stops alone.
    pub(crate) fn with(stops: Vec<Stop>) -> Given {
        Given { stops, ..Given::default() }
    }
}

/// What ends a stop before its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Until {
    /// An interrupt has arrived at the CPU that stands.
    Interrupt,
    /// What is at this address is another than when the stop began. Whoever changed it goes on until it leaves the
    /// kernel, waits, or stops.
    Changed { address: u64, size: u8 },
    /// It has changed so many times; whoever did it last stops behind that access until nothing else happens at this
    /// instant.
    ChangedNow { address: u64, size: u8, times: u8 },
}

impl Until {
    /// The memory that is looked at, from address and size.
    pub(crate) fn memory(self) -> Option<(u64, u8)> {
        match self {
            Until::Interrupt => None,
            Until::Changed { address, size } | Until::ChangedNow { address, size, .. } => {
                Some((address, size))
            }
        }
    }
}

/// What is there now, up to 8 bytes.
pub(super) fn value(address: u64, size: u8) -> u64 {
    let mut bytes = [0u8; 8];
    for (n, byte) in bytes.iter_mut().enumerate().take(usize::from(size)) {
        // SAFETY: a stop's memory is the simulated machine's or the kernel object's, which stay (serve.rs asks); only
        // one simulated CPU runs at a time, and none does now.
        *byte = unsafe { std::ptr::with_exposed_provenance::<u8>(address as usize + n).read_volatile() };
    }
    u64::from_le_bytes(bytes)
}

/// Most points at which others are looked at one by one, in a schedule.
const STEPS_MAX: u64 = 50_000;
/// Most points of shared memory at which turns are drawn: a million events at one instant pass for a livelock.
const DRAWN_MAX: u64 = 500_000;

/// What happens at the boundary between a boot and its schedules, and at the end of one.
pub(crate) trait Fork {
    /// The first instant of the scenario: comes back in a process that runs one schedule, which it returns.
    fn fork(&mut self, control: &RaceControl) -> Given;
    /// Memory that one CPU touches alone, or that nobody changes, as far as is known. It stays where it is.
    fn private(&self) -> &PrivateWords;
    /// A schedule that is drawn as it goes on has this stop.
    fn note(&mut self, stop: &Stop);
    /// Something does not hold: the process ends here.
    fn wrong(&mut self, control: &RaceControl, why: String, sites: &[u64]) -> !;
}

#[derive(Clone, Copy)]
struct Held {
    until: Time,
    ends: Option<Until>,
    /// What was at the address when the stop began, or behind the last change that was counted.
    was: u64,
    /// Who was stopped first goes on first.
    turn: u64,
}

impl Held {
    /// What it waits for has changed, as often as it waits for that.
    fn is_changed(&self) -> bool {
        let is_last = !matches!(self.ends, Some(Until::ChangedNow { times: 2.., .. }));
        let memory = self.ends.and_then(Until::memory);
        is_last && memory.is_some_and(|(address, size)| value(address, size) != self.was)
    }

    /// Point by point: whether a change is the last that it waits for. Then it goes on, whatever else changes.
    fn counts_change(&mut self) -> bool {
        let Some(Until::ChangedNow { address, size, times }) = self.ends else { return false };
        let value = value(address, size);
        if value == self.was {
            return false;
        }
        if times > 1 {
            (self.was, self.ends) = (value, Some(Until::ChangedNow { address, size, times: times - 1 }));
            return false;
        }
        (self.ends, self.until) = (None, Time::ZERO);
        true
    }
}

/// See the module.
pub(crate) struct Explorer<F: Fork> {
    fork: F,
    control: Option<RaceControl>,
    from: Span,
    /// The boot is over; when it was.
    is_started: bool,
    epoch: Option<Time>,
    is_live: bool,
    /// Warnings of the kernel's before the first schedule.
    warned: usize,
    may_hold: bool,
    ready: Vec<Ready>,
    held: Vec<Option<Held>>,
    /// Of each CPU, next one last.
    stops: Vec<Vec<Stop>>,
    /// Of each CPU, in order; the kernel reads them.
    late: Vec<Vec<LateStore>>,
    /// Turns so far, and at which a CPU that spins had its last.
    turns: u64,
    changes: u64,
    spun: Vec<u64>,
    /// A CPU that spins has its turn.
    spinning: Option<CpuId>,
    /// The code before which CPUs have stopped, first ones first.
    reached: Vec<u64>,
    /// Whose access comes next, where that is drawn.
    pos: Option<Pos>,
    /// A CPU stands so that another one goes on: the two.
    turned: Option<(CpuId, CpuId)>,
    /// A CPU that is looked at point by point, and how many such points there were.
    stepping: Option<CpuId>,
    /// The one whose turn it is because of that: nothing has happened since it was looked at.
    step: Option<CpuId>,
    /// Who was sent interrupts meanwhile.
    posted: Vec<CpuId>,
    steps: u64,
    /// Something has happened since all was asked for the last time.
    is_dirty: bool,
    now: Time,
}

impl<F: Fork> Explorer<F> {
    /// From `from` after time 0 on, schedules differ.
    pub(crate) fn new(fork: F, nr_cpus: u32, from: Span) -> Explorer<F> {
        let nr = nr_cpus as usize;
        Explorer {
            fork,
            control: None,
            from,
            is_started: false,
            epoch: None,
            is_live: false,
            warned: 0,
            may_hold: true,
            ready: Vec::new(),
            held: vec![None; nr],
            stops: vec![Vec::new(); nr],
            late: vec![Vec::new(); nr],
            turns: 0,
            changes: 1,
            spun: vec![0; nr],
            spinning: None,
            reached: Vec::new(),
            pos: None,
            turned: None,
            stepping: None,
            step: None,
            posted: Vec::new(),
            steps: 0,
            is_dirty: false,
            now: Time::ZERO,
        }
    }

    /// A CPU was looked at after one more point: it goes on, or stands since it has just made the change that another
    /// one stands for.
    fn stepped(&mut self, cpu: CpuId) {
        self.steps += 1;
        let mut has_changed = false;
        for held in self.held.iter_mut().flatten() {
            has_changed |= held.counts_change();
        }
        if has_changed {
            self.turns += 1;
            self.held[cpu.index()] = Some(Held { until: self.now, ends: None, was: 0, turn: self.turns });
        } else {
            self.stepping = Some(cpu);
        }
        self.arm(cpu.index());
    }

    /// Who goes on when the first of two stands for the second: that one, if it is in the kernel.
    fn turn(&mut self, (from, to): (CpuId, CpuId)) -> CpuId {
        let goes = if self.ready.iter().any(|ready| ready.cpu == to) { to } else { from };
        self.held[goes.index()] = None;
        goes
    }

    /// Where turns are drawn: the CPU that has come to this point stands for another one.
    fn drawn(&mut self, cpu: CpuId, at: u64, point: &Point) -> Option<Stop> {
        let pos = self.pos.as_ref()?;
        if self.ready.len() < 2 || point.address == 0 {
            return None;
        }
        let able = |ready: &&Ready| self.held[ready.cpu.index()].is_some() || self.may_go(ready, self.now);
        let best = self.ready.iter().filter(able).max_by_key(|ready| pos.priority(ready))?;
        (best.cpu != cpu && pos.priority(best) > 0).then(|| Stop::turn(cpu.0, at, best.cpu.0))
    }

    /// Whether this CPU goes on from a point at which it was looked at, and would not have stopped otherwise.
    fn is_step(&self, cpu: CpuId) -> bool {
        self.pos.is_some() && self.step == Some(cpu)
    }

    fn becomes(&mut self, cpu: CpuId, reason: impl FnOnce(&mut Ready)) {
        let known = self.ready.iter().position(|ready| ready.cpu == cpu).map(|at| self.ready.remove(at));
        let mut ready = known.unwrap_or(Ready { cpu, posted: false, stands: None });
        reason(&mut ready);
        self.ready.push(ready);
    }

    /// Gives the kernel the CPU's next stop, if one is planned.
    fn arm(&mut self, cpu: usize) {
        let Some(control) = &self.control else { return };
        let at = control.points(CpuId(cpu as u32));
        while self.stops[cpu].last().is_some_and(|stop| stop.at <= at) {
            self.stops[cpu].pop();
        }
        let planned = self.stops[cpu].last().map(|stop| stop.at);
        if self.pos.is_some() && self.steps < DRAWN_MAX {
            control.stop_before_next(CpuId(cpu as u32), planned);
            return;
        }
        let at = if self.steps() { Some(at + 1) } else { planned };
        control.stop_before(CpuId(cpu as u32), at);
    }

    /// Whether a CPU stands until some memory changes, and is to go on right then.
    fn steps(&self) -> bool {
        let steps = |held: &Held| matches!(held.ends, Some(Until::ChangedNow { .. })) && !held.is_changed();
        self.steps < STEPS_MAX && self.held.iter().flatten().any(steps)
    }

    fn begin(&mut self, warned: usize) {
        let Some(control) = self.control else { return };
        self.warned = warned;
        let Given { stops, late, drawn } = self.fork.fork(&control);
        self.pos = drawn.map(|seed| Pos::new(seed, self.stops.len()));
        if self.pos.is_some() {
            // SAFETY: the words are the fork's, which stays as long as the machine runs.
            unsafe { control.pass(self.fork.private()) };
        }
        self.is_live = true;
        control.set_on(true);
        for stop in stops {
            if let Some(list) = self.stops.get_mut(stop.cpu as usize) {
                list.push(stop);
            }
        }
        for Late { cpu, at, all } in late {
            if let Some(list) = self.late.get_mut(cpu as usize) {
                list.push(LateStore { at, one: u64::from(!all) });
            }
        }
        for (cpu, list) in self.late.iter_mut().enumerate() {
            list.sort_by_key(|store| store.at);
            // SAFETY: the lists are this explorer's, and are not touched again.
            unsafe { control.make_late(CpuId(cpu as u32), list) };
        }
        for cpu in 0..self.stops.len() {
            self.stops[cpu].sort_by_key(|stop| std::cmp::Reverse(stop.at));
            self.arm(cpu);
        }
    }

    /// Whether a CPU that is ready may go on now: it is not held, and does not spin in vain.
    fn may_go(&self, ready: &Ready, now: Time) -> bool {
        let cpu = ready.cpu.index();
        let spins = ready.stands.is_some_and(|point| point.kind == PointKind::Relax);
        match self.held[cpu] {
            Some(held) => {
                let interrupted = held.ends == Some(Until::Interrupt) && ready.posted;
                now > held.until || interrupted || held.is_changed()
            }
            None => !spins || ready.posted || self.spun[cpu] != self.changes,
        }
    }

    fn choose(&self, now: Time) -> Option<usize> {
        let able: Vec<usize> = (0..self.ready.len()).filter(|n| self.may_go(&self.ready[*n], now)).collect();
        if able.is_empty() {
            let any_held = self.ready.iter().any(|ready| self.held[ready.cpu.index()].is_some());
            return match any_held && self.may_hold {
                true => None,
                // nobody may be held: who was stopped first goes on first, then whoever spins
                false => {
                    let turn = |n: &usize| self.held[self.ready[*n].cpu.index()].map_or(u64::MAX, |h| h.turn);
                    (0..self.ready.len()).min_by_key(turn)
                }
            };
        }
        let those: Vec<Ready> = able.iter().map(|n| self.ready[*n]).collect();
        // those whose time is over last: what can happen at this instant has happened
        let free = those.iter().position(|ready| self.held[ready.cpu.index()].is_none());
        let first = in_posted_order(&those);
        match free {
            Some(_) if self.held[those[first].cpu.index()].is_some() => {
                let others: Vec<usize> =
                    (0..those.len()).filter(|n| self.held[those[*n].cpu.index()].is_none()).collect();
                let free: Vec<Ready> = others.iter().map(|n| those[*n]).collect();
                Some(able[others[in_posted_order(&free)]])
            }
            _ => Some(able[first]),
        }
    }

    /// All CPUs are idle or compute, and nothing is on its way.
    fn check(&mut self, at_rest: bool) {
        if let Some(control) = self.control
            && let Some(why) = control.check(at_rest)
        {
            self.fork.wrong(&control, why, &self.reached);
        }
    }

    /// What the kernel can do and say; without it nothing stops.
    pub(crate) fn set_control(&mut self, control: RaceControl) {
        self.control = Some(control);
    }

    pub(crate) fn control(&self) -> Option<RaceControl> {
        self.control
    }

    /// Warnings of the kernel's before the first schedule.
    pub(crate) fn warned(&self) -> usize {
        self.warned
    }

    /// No CPU stands or is on its way.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.ready.is_empty()
    }

    /// The code before which CPUs have stopped, first ones first.
    pub(crate) fn reached(&self) -> &[u64] {
        &self.reached
    }

    pub(crate) fn fork_mut(&mut self) -> &mut F {
        &mut self.fork
    }
}

impl<F: Fork> Order for Explorer<F> {
    const STEERS: bool = true;

    fn next<K: Kernel>(&mut self, kernel: &mut K, now: Time) -> Option<Turn> {
        self.step = self.stepping.take();
        while let Some(cpu) = kernel.next_kick() {
            if self.pos.is_some() && self.step.is_some() && !self.posted.contains(&cpu) {
                self.posted.push(cpu);
            }
            if let Some(pos) = self.pos.as_mut().filter(|_| self.ready.iter().all(|ready| ready.cpu != cpu)) {
                pos.becomes_ready(cpu);
            }
            self.becomes(cpu, |ready| ready.posted = true);
        }
        // where a CPU is only looked at, all is as if it had gone on
        if self.pos.is_none() || self.step.is_none() {
            self.now = now;
            self.posted.clear();
        }
        if (self.pos.is_none() || self.step.is_none()) && self.spinning.take().is_some() {
            // it has found what it waited for
            self.changes += 1;
        }
        if self.is_started && !self.is_live && self.may_hold && self.ready.is_empty() {
            let epoch = *self.epoch.get_or_insert(now);
            if now >= epoch + self.from {
                self.begin(kernel.read_out().warnings.len());
            }
        }
        if self.ready.is_empty() {
            if self.is_live && self.is_dirty {
                self.is_dirty = false;
                self.check(true);
            }
            return None;
        }
        let turned = self.turned.take().map(|turned| self.turn(turned));
        let stepped = turned.or(self.step);
        let stepped = stepped.and_then(|cpu| self.ready.iter().position(|ready| ready.cpu == cpu));
        let index = match (self.is_live, stepped) {
            (false, _) => in_posted_order(&self.ready),
            (true, Some(index)) => index,
            (true, None) => self.choose(now)?,
        };
        let Ready { cpu, posted, stands } = self.ready[index];
        let spins = !posted && stands.is_some_and(|point| point.kind == PointKind::Relax);
        if spins {
            self.spun[cpu.index()] = self.changes;
            self.spinning = Some(cpu);
        }
        Some(Turn { cpu, spins })
    }

    fn stopped<K: Kernel>(&mut self, kernel: &K, cpu: CpuId) {
        let point = kernel.point(cpu);
        self.becomes(cpu, |ready| ready.stands = Some(point));
        if point.kind == PointKind::Relax {
            if self.spinning == Some(cpu) {
                self.spinning = None;
            }
            return;
        }
        // a CPU that spins comes to points, too: where each one is looked at, those change nothing
        self.changes += u64::from(self.pos.is_none());
        let at = self.control.map_or(0, |control| control.points(cpu));
        let planned = self.stops[cpu.index()].pop_if(|stop| stop.at <= at);
        if let Some(pos) = &mut self.pos {
            pos.comes_to(cpu, &point, planned.is_some());
        }
        let Some(stop) = planned.or_else(|| self.drawn(cpu, at, &point)) else {
            self.stepped(cpu);
            return;
        };
        if self.pos.is_some() {
            self.changes += 1;
            self.fork.note(&stop);
            for cpu in std::mem::take(&mut self.posted) {
                self.becomes(cpu, |ready| ready.posted = true);
            }
        }
        self.turns += 1;
        self.reached.push(point.code);
        let was = stop.until.and_then(Until::memory).map_or(0, |(address, size)| value(address, size));
        let until = self.now + stop.hold;
        self.held[cpu.index()] = Some(Held { until, ends: stop.until, was, turn: self.turns });
        self.turned = stop.to.map(|to| (cpu, CpuId(to)));
        match self.steps() {
            true => (0..self.stops.len()).for_each(|cpu| self.arm(cpu)),
            false => self.arm(cpu.index()),
        }
        self.check(false);
    }

    fn entered(&mut self, cpu: CpuId) {
        let spins = self.ready.iter().find(|ready| ready.cpu == cpu).is_some_and(|ready| {
            !ready.posted && ready.stands.is_some_and(|point| point.kind == PointKind::Relax)
        });
        if !spins && !self.is_step(cpu) {
            self.changes += 1;
        }
        self.is_dirty = true;
        let is_within = self.ready.iter().any(|ready| ready.cpu == cpu && ready.stands.is_some());
        if let Some(pos) = self.pos.as_mut().filter(|_| !is_within) {
            pos.becomes_ready(cpu);
        }
        self.ready.retain(|ready| ready.cpu != cpu);
        self.held[cpu.index()] = None;
    }

    fn stands(&self, cpu: CpuId) -> Option<Point> {
        // who is only looked at takes no interrupt here that it would not take otherwise
        let ready = self.ready.iter().find(|ready| ready.cpu == cpu && !self.is_step(cpu));
        ready.and_then(|ready| ready.stands)
    }

    fn start(&mut self) {
        self.is_started = true;
    }

    fn may_hold(&mut self, hold: bool) {
        self.may_hold = hold;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// on_rq of a task that is moved, runs elsewhere and sleeps: 1, 2, 1, 0.
    #[test]
    fn a_stop_may_wait_for_the_third_change() {
        let on_rq = AtomicU32::new(1);
        let address = on_rq.as_ptr().expose_provenance() as u64;
        let ends = Some(Until::ChangedNow { address, size: 4, times: 3 });
        let mut held = Held { until: Time::ZERO + Span::from_ms(1), ends, was: 1, turn: 1 };
        assert!(!held.counts_change());
        for (value, is_last) in [(2, false), (1, false), (0, true)] {
            on_rq.store(value, Ordering::Relaxed);
            assert_eq!(held.is_changed(), is_last, "{value}");
            assert_eq!(held.counts_change(), is_last, "{value}");
            assert!(!held.counts_change(), "{value}: counted once");
        }
        assert_eq!((held.ends, held.until), (None, Time::ZERO));
    }
}
