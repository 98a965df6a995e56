//! Whose access comes next? Random priorities of accesses (POS: Yuan, Yang and Gu, CAV 2018).
//!
//! Each CPU in the kernel is about to make an access, which has a random priority. The highest goes first. What it
//! touches is drawn anew for those that are about to touch the same memory:
//!
//! ```text
//! cpu0  stores t->on_rq  .7 ├─ goes first                       next: .4
//! cpu1  loads t->on_rq   .2 ┤ waited for it, so it draws anew: .9 ├─ goes first
//! ```
//!
//! So the order of two accesses does not depend on how many others stand between them. Accesses that one CPU alone
//! makes are no choices. A CPU that stands for some time has the lowest priority, until another CPU touches what it is
//! about to touch. Who goes on when a CPU leaves the kernel is not drawn: that is the order of every run.

use schedlab_machine::kernel::{Point, PointKind};
use schedlab_machine::order::Ready;
use schedlab_stdx::Random;
use schedlab_units::CpuId;

use super::order::value;

/// Bytes of a spin lock, which is not 0 while it is held.
const LOCK_SIZE: u8 = 4;

/// An access that a CPU is about to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Access {
    /// Its 8 bytes of memory; 0: none.
    word: u64,
    writes: bool,
}

impl Access {
    fn at(point: &Point) -> Access {
        use PointKind::{Atomic, Lock, MarkedWrite, Unlock, Write};
        let writes = matches!(point.kind, Atomic | Lock | Unlock | Write | MarkedWrite);
        Access { word: point.address >> 3, writes }
    }

    fn conflicts(&self, other: &Access) -> bool {
        self.word != 0 && self.word == other.word && (self.writes || other.writes)
    }
}

/// Priorities of what each CPU is about to do.
#[derive(Clone, Debug)]
pub(super) struct Pos {
    random: Random,
    next: Vec<Access>,
    /// 0: the lowest.
    priority: Vec<u64>,
}

impl Pos {
    pub(super) fn new(seed: u64, nr_cpus: usize) -> Pos {
        let mut random = Random::new(seed);
        let priority = (0..nr_cpus).map(|_| drawn(&mut random)).collect();
        Pos { random, next: vec![Access::default(); nr_cpus], priority }
    }

    /// A CPU has made its access, and is about to make this one. `stands`: it stands here, whatever others do.
    pub(super) fn comes_to(&mut self, cpu: CpuId, point: &Point, stands: bool) {
        let made = std::mem::replace(&mut self.next[cpu.index()], Access::at(point));
        // an unlock is a point behind its access
        let unlocked = (point.kind == PointKind::Unlock).then(|| Access::at(point));
        for other in (0..self.next.len()).filter(|other| *other != cpu.index()) {
            let next = self.next[other];
            if next.conflicts(&made) || unlocked.is_some_and(|unlocked| next.conflicts(&unlocked)) {
                self.priority[other] = drawn(&mut self.random);
            }
        }
        self.priority[cpu.index()] = if stands { 0 } else { drawn(&mut self.random) };
    }

    /// A CPU that is not in the kernel is to go there.
    pub(super) fn becomes_ready(&mut self, cpu: CpuId) {
        self.next[cpu.index()] = Access::default();
        self.priority[cpu.index()] = drawn(&mut self.random);
    }

    /// The higher goes first. 0: it cannot, as the lock is held that it is about to take.
    pub(super) fn priority(&self, ready: &Ready) -> u64 {
        let is_lock = |point: &Point| point.kind == PointKind::Lock;
        match ready.stands.filter(is_lock).is_some_and(|lock| value(lock.address, LOCK_SIZE) != 0) {
            true => 0,
            false => self.priority[ready.cpu.index()],
        }
    }
}

fn drawn(random: &mut Random) -> u64 {
    random.next_u64() | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUS: [CpuId; 2] = [CpuId(0), CpuId(1)];

    fn point(kind: PointKind, address: u64) -> Point {
        Point { kind, address, ..Point::RELAX }
    }

    fn ready(cpu: CpuId, stands: Point) -> Ready {
        Ready { cpu, posted: false, stands: Some(stands) }
    }

    /// cpu1 stands before a load of 0x100; cpu0 stores to 0x108, then to 0x104: the second is cpu1's word.
    #[test]
    fn an_access_to_the_same_memory_draws_anew() {
        let mut pos = Pos::new(1, 2);
        let load = point(PointKind::Read, 0x100);
        pos.comes_to(CPUS[1], &load, true);
        assert_eq!(pos.priority(&ready(CPUS[1], load)), 0);
        pos.comes_to(CPUS[0], &point(PointKind::Write, 0x108), false);
        pos.comes_to(CPUS[0], &point(PointKind::Write, 0x104), false);
        assert_eq!(pos.priority(&ready(CPUS[1], load)), 0, "another word");
        pos.comes_to(CPUS[0], &point(PointKind::Read, 0x300), false);
        assert!(pos.priority(&ready(CPUS[1], load)) > 0);
    }

    #[test]
    fn who_waits_for_a_lock_cannot_go() {
        let lock = std::sync::atomic::AtomicU64::new(1);
        let pos = Pos::new(1, 1);
        let waits = ready(CPUS[0], point(PointKind::Lock, lock.as_ptr().expose_provenance() as u64));
        assert_eq!(pos.priority(&waits), 0);
        lock.store(0, std::sync::atomic::Ordering::Relaxed);
        assert!(pos.priority(&waits) > 0);
    }

    /// Each of two accesses without conflicts comes first about as often as the other.
    #[test]
    fn either_comes_first() {
        let first = (0..1000).filter(|seed| {
            let mut pos = Pos::new(*seed, 2);
            let points = [point(PointKind::Read, 0x100), point(PointKind::Write, 0x200)];
            for (cpu, point) in CPUS.iter().zip(&points) {
                pos.comes_to(*cpu, point, false);
            }
            pos.priority(&ready(CPUS[0], points[0])) > pos.priority(&ready(CPUS[1], points[1]))
        });
        assert!((400..600).contains(&first.count()));
    }
}
