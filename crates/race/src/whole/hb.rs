//! Which accesses of one schedule does nothing order? A happens-before detector on the recorded points.
//!
//! A CPU has a vector clock. Locks, atomic operations and marked accesses (`READ_ONCE()`, `WRITE_ONCE()`,
//! `smp_store_release()`, RCU's pointers) hand it on, by address:
//!
//! ```text
//! cpu0   x = 1   unlock(l)                    x's store is at cpu0's 5
//! cpu1                     lock(l)   r = x    cpu1 knows cpu0's 6: ordered
//! cpu1   r = x   lock(l)                      cpu1 knows cpu0's 3: a race
//! ```
//!
//! Two accesses of one place by different CPUs that nothing orders are a race if one of them stores and one of them is
//! plain. Those within `data_race()` are none, as KCSAN has it. Every marked access orders here, as if barriers stood
//! beside it: so less is reported than the kernel's memory model would allow, and nothing that it would forbid. RCU's
//! grace periods are seen through its own locks.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use schedlab_linux::race::{RaceEvent, SAID, SAYS_ACCESS, SAYS_LOCKED, SAYS_RELEASE, SAYS_WRITER};

const ATOMIC: u8 = 1;
const READ: u8 = 5;
const WRITE: u8 = 6;
const MARKED_READ: u8 = 7;
const MARKED_WRITE: u8 = 8;

/// CPUs that a detector has room for.
const CPUS: usize = 16;

type Clock = [u32; CPUS];

/// Addresses are spread by a product: there are millions of them, and nobody chooses them with malice.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

pub(super) type ByAddress<T> = HashMap<u64, T, BuildHasherDefault<Spread>>;

fn join(to: &mut Clock, from: &Clock) {
    for (a, b) in to.iter_mut().zip(from) {
        *a = (*a).max(*b);
    }
}

/// An access that may be one half of a race.
struct Cell {
    cpu: u16,
    is_write: bool,
    marks: Marks,
    bytes: u8,
    clock: u32,
    event: RaceEvent,
}

/// What the source says of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marks {
    /// Nothing: nobody else is to touch the place meanwhile.
    Plain,
    /// `READ_ONCE()`, an atomic operation and their like.
    Marked,
    /// `ASSERT_EXCLUSIVE_WRITER()`: nobody else writes, however marked.
    Writer,
    /// `ASSERT_EXCLUSIVE_ACCESS()`: nobody else touches it, however marked.
    Access,
}

impl Marks {
    fn of(event: &RaceEvent) -> Marks {
        match event.what() {
            SAYS_WRITER => Marks::Writer,
            SAYS_ACCESS => Marks::Access,
            READ | WRITE => Marks::Plain,
            _ => Marks::Marked,
        }
    }
}

/// Bytes of a word of 8 that an access touches.
pub(super) fn bytes(event: &RaceEvent) -> u8 {
    let from = event.address & 7;
    let size = u64::from(event.size).min(8 - from);
    (((1u16 << size) - 1) << from) as u8
}

/// The races of a schedule: both accesses of each, by the code that made them, once.
pub(super) fn races(events: &[RaceEvent], most: usize) -> Vec<(RaceEvent, RaceEvent)> {
    let mut cpus = [[0u32; CPUS]; CPUS];
    for (n, clock) in cpus.iter_mut().enumerate() {
        clock[n] = 1;
    }
    let mut handed_on: ByAddress<Clock> = HashMap::default();
    let mut words: ByAddress<Vec<Cell>> = HashMap::default();
    let mut known: HashSet<(u64, u64)> = HashSet::new();
    let mut found: Vec<(RaceEvent, RaceEvent)> = Vec::new();
    for event in events.iter().filter(|e| e.address != 0 && usize::from(e.cpu) < CPUS) {
        let cpu = usize::from(event.cpu);
        let (takes, gives) = match event.what() {
            SAYS_LOCKED | MARKED_READ => (true, false),
            SAYS_RELEASE | MARKED_WRITE => (false, true),
            ATOMIC => (true, true),
            _ => (false, false),
        };
        if takes && let Some(clock) = handed_on.get(&event.address) {
            join(&mut cpus[cpu], clock);
        }
        let is_access = matches!(
            event.what(),
            ATOMIC | READ | WRITE | MARKED_READ | MARKED_WRITE | SAYS_WRITER | SAYS_ACCESS
        );
        // data_race(x): nobody is to hear of x's accesses, whatever the other one is
        if is_access && event.kind & SAID == 0 {
            let cell = Cell {
                cpu: event.cpu,
                is_write: event.stores(),
                marks: Marks::of(event),
                bytes: bytes(event),
                clock: cpus[cpu][cpu],
                event: *event,
            };
            let word = words.entry(event.address >> 3).or_default();
            for other in word.iter().filter(|other| conflicts(&cell, other)) {
                let codes = (other.event.code.min(event.code), other.event.code.max(event.code));
                if cpus[cpu][usize::from(other.cpu)] < other.clock
                    && found.len() < most
                    && known.insert(codes)
                {
                    // the lower place first: a pair has one name
                    let pair = [other.event, *event];
                    found.push(if codes.0 == event.code { (pair[1], pair[0]) } else { (pair[0], pair[1]) });
                }
            }
            let same = |c: &Cell| {
                (c.cpu, c.is_write, c.marks, c.bytes) == (cell.cpu, cell.is_write, cell.marks, cell.bytes)
            };
            word.retain(|c| !same(c));
            word.push(cell);
        }
        if gives {
            let clock = cpus[cpu];
            join(handed_on.entry(event.address).or_insert([0; CPUS]), &clock);
            cpus[cpu][cpu] += 1;
        }
    }
    found
}

fn conflicts(a: &Cell, b: &Cell) -> bool {
    if a.cpu == b.cpu || a.bytes & b.bytes == 0 {
        return false;
    }
    match (a.marks, b.marks) {
        // assertions are no accesses: two of them, or one and a load, are fine
        (Marks::Access, other) | (other, Marks::Access) => !matches!(other, Marks::Access | Marks::Writer),
        (Marks::Writer, Marks::Writer) => false,
        (Marks::Marked, Marks::Marked) => false,
        _ => a.is_write || b.is_write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: u64 = 0x1000;
    const L: u64 = 0x2000;

    /// An access; its place in the code follows from all three, since a pair of places is reported once.
    fn e(cpu: u16, kind: u8, address: u64) -> RaceEvent {
        RaceEvent {
            cpu,
            kind,
            address,
            size: 4,
            code: address << 16 | u64::from(cpu) << 8 | u64::from(kind),
            at: 1,
            value: 0,
        }
    }

    fn number(events: &[RaceEvent]) -> usize {
        races(events, 10).len()
    }

    /// The picture above.
    #[test]
    fn a_lock_orders_what_stands_before_its_release() {
        let store = [e(0, SAYS_LOCKED, L), e(0, WRITE, X), e(0, SAYS_RELEASE, L)];
        let ordered = [&store[..], &[e(1, SAYS_LOCKED, L), e(1, READ, X)]].concat();
        assert_eq!(number(&ordered), 0);
        let unordered = [&store[..], &[e(1, READ, X), e(1, SAYS_LOCKED, L)]].concat();
        assert_eq!(number(&unordered), 1);
    }

    #[test]
    fn marked_accesses_race_with_plain_ones_only() {
        assert_eq!(number(&[e(0, MARKED_WRITE, X), e(1, MARKED_READ, X)]), 0);
        // read first: nothing has been handed on
        assert_eq!(number(&[e(1, READ, X), e(0, MARKED_WRITE, X)]), 1);
        assert_eq!(number(&[e(1, READ, X), e(0, READ, X)]), 0);
        // a flag that is set behind the store and read before the load
        assert_eq!(number(&[e(0, WRITE, X), e(0, MARKED_WRITE, L), e(1, MARKED_READ, L), e(1, READ, X)]), 0);
        assert_eq!(number(&[e(0, WRITE, X), e(0, WRITE, L), e(1, READ, L), e(1, READ, X)]), 2);
    }

    #[test]
    fn the_source_can_say_that_an_access_may_race_or_that_nobody_else_writes() {
        assert_eq!(number(&[e(0, MARKED_WRITE, X), e(1, READ | SAID, X)]), 0);
        // nor if the other one is plain
        assert_eq!(number(&[e(0, WRITE, X), e(1, READ | SAID, X)]), 0);
        assert_eq!(number(&[e(0, SAYS_WRITER, X), e(1, MARKED_READ, X)]), 0);
        assert_eq!(number(&[e(0, SAYS_WRITER, X), e(1, MARKED_WRITE, X)]), 1);
        assert_eq!(number(&[e(0, SAYS_WRITER, X), e(1, SAYS_WRITER, X)]), 0);
        assert_eq!(number(&[e(0, SAYS_ACCESS, X), e(1, MARKED_READ, X)]), 1);
    }

    #[test]
    fn a_pair_of_places_in_the_code_is_reported_once() {
        let again = |times: usize| [e(0, WRITE, X), e(1, READ, X)].repeat(times);
        assert_eq!((number(&again(1)), number(&again(5))), (1, 1));
    }

    #[test]
    fn neighbours_in_a_word_are_two_places() {
        assert_eq!(number(&[e(0, WRITE, X), e(1, WRITE, X + 4)]), 0);
        assert_eq!(number(&[e(0, WRITE, X), e(1, WRITE, X + 2)]), 1);
    }
}
