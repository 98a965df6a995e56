//! Which CPU goes on first when several could at one instant? [`Order`] decides; [`FirstPosted`] is the order
//! of every ordinary run.
//!
//! At one instant a CPU is *ready* if another CPU has posted an interrupt to it, or if it has stopped inside
//! the kernel: it spins until another CPU does something, or it stands at a [`Point`] at which the kernel
//! object was asked to stop. Real CPUs would go on at once, all together. The machine lets one go on after
//! the other:
//!
//! ```text
//! cpu0's operation wakes t1 on cpu1 and t2 on cpu2      ready: cpu1 (posted), cpu2 (posted)
//! FirstPosted          cpu1 switches to t1, then cpu2 to t2
//! Chosen(the last)     cpu2 switches to t2, then cpu1 to t1
//! ```
//!
//! An order of your own implements [`Choose`] and is handed to the machine as [`Chosen`]. It sees every ready
//! CPU, may have CPUs stop at points, and may hold ready CPUs back while simulated time goes on, as a
//! hypervisor may stop a virtual CPU anywhere. Every schedule that comes of it is one that hardware could
//! produce. The choices must depend on nothing but what `choose` is handed and the order's own seed; then the
//! same order gives the same log.
//!
//! The boot is not steered: up to time 0 of the log all orders are [`FirstPosted`].

use crate::kernel::{Kernel, Point, PointKind, PointSet};
use schedlab_units::{CpuId, Time};
use std::collections::VecDeque;

/// A CPU that goes on now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which.
    pub cpu: CpuId,
    /// It spins, and nothing has been posted to it: it may find that nothing has changed. Many such turns in
    /// a row are a livelock.
    pub spins: bool,
}

/// The order in which ready CPUs go on. The engine owns one; [`Chosen`] makes one of a [`Choose`].
///
/// Call order: [`stopped`](Order::stopped) and [`entered`](Order::entered) as it happens,
/// [`next`](Order::next) before each event. [`start`](Order::start) once, when the boot is over.
pub trait Order {
    /// Whether CPUs may stop at points and be held back while time goes on. If not, the engine has no code for either.
    const STEERS: bool;

    /// The CPU that goes on now, at `now`; `None`: none is ready, or all that are ready are held back, and
    /// time goes on to the next event. Interrupts that have been posted are taken from [`Kernel::next_kick`].
    fn next<K: Kernel>(&mut self, kernel: &mut K, now: Time) -> Option<Turn>;

    /// A CPU has stopped inside the kernel; [`Kernel::point`] says where.
    fn stopped<K: Kernel>(&mut self, kernel: &K, cpu: CpuId);

    /// A CPU goes on, for whatever reason: by its turn, or because its timer, a device or its task's next
    /// operation is due.
    fn entered(&mut self, _cpu: CpuId) {}

    /// Where a CPU stands that has stopped inside the kernel; `None`: it has not. Asked only if the order
    /// [`STEERS`](Order::STEERS).
    fn stands(&self, _cpu: CpuId) -> Option<Point> {
        None
    }

    /// The kinds of points at which CPUs are to stop. Asked once, before [`start`](Order::start).
    fn points(&self) -> PointSet {
        PointSet::NONE
    }

    /// The boot is over: this is time 0 of the log.
    fn start(&mut self) {}

    /// Whether CPUs may be held back from now on. They may, unless the engine says otherwise: it does while
    /// the experimenter's requests are carried out, and when the run ends or nothing else can happen.
    fn may_hold(&mut self, _hold: bool) {}
}

/// The order of every ordinary run: interrupts first, first posted first; then CPUs that spin, in the order
/// in which they began.
///
/// An interrupt belongs to the event that posted it, and who spins waits for another CPU to act. So both are
/// over before the next event.
#[derive(Clone, Debug, Default)]
pub struct FirstPosted {
    spinning: VecDeque<CpuId>,
}

impl Order for FirstPosted {
    const STEERS: bool = false;

    #[inline(always)]
    fn next<K: Kernel>(&mut self, kernel: &mut K, _now: Time) -> Option<Turn> {
        if let Some(cpu) = kernel.next_kick() {
            return Some(Turn { cpu, spins: false });
        }
        self.spinning.pop_front().map(|cpu| Turn { cpu, spins: true })
    }

    fn stopped<K: Kernel>(&mut self, _kernel: &K, cpu: CpuId) {
        self.spinning.push_back(cpu);
    }
}

/// A CPU that could go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Which.
    pub cpu: CpuId,
    /// Interrupts from other CPUs wait for it.
    pub posted: bool,
    /// Where it has stopped inside the kernel; `None`: it is idle or in user mode, and has been posted an interrupt.
    pub stands: Option<Point>,
}

/// Chooses among ready CPUs. Deterministic: no clock of the host, no addresses (those of [`Point`] differ
/// from process to process).
pub trait Choose {
    /// The kinds of points at which CPUs stop. None, unless stated.
    fn points(&self) -> PointSet {
        PointSet::NONE
    }

    /// Who goes on: an index into `ready`, which is never empty and has each CPU at most once, in the order
    /// in which they became ready. `None`: nobody for now; time goes on to the next event, after which it is
    /// asked again. The engine may overrule a `None`, then the first goes on: requests of the experimenter
    /// are not held up, nor is the end of a run.
    fn choose(&mut self, now: Time, ready: &[Ready]) -> Option<usize>;
}

#[deny(clippy::missing_trait_methods)] // a default would hide what is in the box
impl<C: Choose + ?Sized> Choose for Box<C> {
    fn points(&self) -> PointSet {
        (**self).points()
    }
    fn choose(&mut self, now: Time, ready: &[Ready]) -> Option<usize> {
        (**self).choose(now, ready)
    }
}

/// The order that a [`Choose`] makes.
#[derive(Clone, Debug)]
pub struct Chosen<C> {
    choose: C,
    /// In the order in which they became ready.
    ready: Vec<Ready>,
    started: bool,
    may_hold: bool,
}

impl<C: Choose> Chosen<C> {
    /// From time 0 on, `choose` decides.
    pub fn new(choose: C) -> Chosen<C> {
        Chosen { choose, ready: Vec::new(), started: false, may_hold: true }
    }

    /// What decides, for read-outs after the run.
    pub fn choose(&self) -> &C {
        &self.choose
    }

    /// A CPU becomes ready, or ready for one more reason: it is the last in line.
    fn becomes(&mut self, cpu: CpuId, reason: impl FnOnce(&mut Ready)) {
        let known = self.ready.iter().position(|ready| ready.cpu == cpu).map(|at| self.ready.remove(at));
        let mut ready = known.unwrap_or(Ready { cpu, posted: false, stands: None });
        reason(&mut ready);
        self.ready.push(ready);
    }
}

impl<C: Choose> Order for Chosen<C> {
    const STEERS: bool = true;

    fn next<K: Kernel>(&mut self, kernel: &mut K, now: Time) -> Option<Turn> {
        while let Some(cpu) = kernel.next_kick() {
            self.becomes(cpu, |ready| ready.posted = true);
        }
        if self.ready.is_empty() {
            return None;
        }
        let index = match self.started {
            false => in_posted_order(&self.ready),
            true => match self.choose.choose(now, &self.ready) {
                None if self.may_hold => return None,
                index => index.unwrap_or(0),
            },
        };
        let Ready { cpu, posted, stands } = self.ready[index];
        Some(Turn { cpu, spins: !posted && stands.is_some_and(|point| point.kind == PointKind::Relax) })
    }

    fn stopped<K: Kernel>(&mut self, kernel: &K, cpu: CpuId) {
        let point = kernel.point(cpu);
        self.becomes(cpu, |ready| ready.stands = Some(point));
    }

    fn entered(&mut self, cpu: CpuId) {
        self.ready.retain(|ready| ready.cpu != cpu);
    }

    fn stands(&self, cpu: CpuId) -> Option<Point> {
        self.ready.iter().find(|ready| ready.cpu == cpu).and_then(|ready| ready.stands)
    }

    fn points(&self) -> PointSet {
        self.choose.points()
    }

    fn start(&mut self) {
        self.started = true;
    }

    fn may_hold(&mut self, hold: bool) {
        self.may_hold = hold;
    }
}

/// The index that [`FirstPosted`] would choose. A CPU at a point goes on at once, as it would without the
/// point; then who has been posted an interrupt, then who spins.
pub fn in_posted_order(ready: &[Ready]) -> usize {
    let rank = |ready: &Ready| match ready.stands {
        Some(point) if point.kind != PointKind::Relax => 0,
        _ if ready.posted => 1,
        _ => 2,
    };
    ready.iter().enumerate().min_by_key(|(_, ready)| rank(ready)).map_or(0, |(index, _)| index)
}
