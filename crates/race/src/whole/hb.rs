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
//! plain. Every marked access orders here, as if barriers stood beside it: so less is reported than the kernel's memory
//! model would allow, and nothing that it would forbid. RCU's grace periods are seen through its own locks.

use std::collections::HashMap;

use schedlab_linux::race::{RaceEvent, SAYS_LOCKED, SAYS_RELEASE};

const ATOMIC: u8 = 1;
const READ: u8 = 5;
const WRITE: u8 = 6;
const MARKED_READ: u8 = 7;
const MARKED_WRITE: u8 = 8;

/// CPUs that a detector has room for.
const CPUS: usize = 16;

type Clock = [u32; CPUS];

fn join(to: &mut Clock, from: &Clock) {
    for (a, b) in to.iter_mut().zip(from) {
        *a = (*a).max(*b);
    }
}

/// An access that may be one half of a race.
struct Cell {
    cpu: u16,
    is_write: bool,
    is_plain: bool,
    bytes: u8,
    clock: u32,
    event: RaceEvent,
}

/// Bytes of a word of 8 that an access touches.
fn bytes(event: &RaceEvent) -> u8 {
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
    let mut handed_on: HashMap<u64, Clock> = HashMap::new();
    let mut words: HashMap<u64, Vec<Cell>> = HashMap::new();
    let mut found: Vec<(RaceEvent, RaceEvent)> = Vec::new();
    for event in events.iter().filter(|e| e.address != 0 && usize::from(e.cpu) < CPUS) {
        let cpu = usize::from(event.cpu);
        let (takes, gives) = match event.kind {
            SAYS_LOCKED | MARKED_READ => (true, false),
            SAYS_RELEASE | MARKED_WRITE => (false, true),
            ATOMIC => (true, true),
            _ => (false, false),
        };
        if takes && let Some(clock) = handed_on.get(&event.address) {
            join(&mut cpus[cpu], clock);
        }
        if matches!(event.kind, ATOMIC | READ | WRITE | MARKED_READ | MARKED_WRITE) {
            let cell = Cell {
                cpu: event.cpu,
                is_write: matches!(event.kind, ATOMIC | WRITE | MARKED_WRITE),
                is_plain: matches!(event.kind, READ | WRITE),
                bytes: bytes(event),
                clock: cpus[cpu][cpu],
                event: *event,
            };
            let word = words.entry(event.address >> 3).or_default();
            for other in word.iter().filter(|other| conflicts(&cell, other)) {
                let is_new = |(a, b): &(RaceEvent, RaceEvent)| {
                    (a.code, b.code) != (other.event.code, event.code)
                        && (b.code, a.code) != (other.event.code, event.code)
                };
                if cpus[cpu][usize::from(other.cpu)] < other.clock
                    && found.len() < most
                    && found.iter().all(is_new)
                {
                    found.push((other.event, *event));
                }
            }
            let same = |c: &Cell| {
                (c.cpu, c.is_write, c.is_plain, c.bytes)
                    == (cell.cpu, cell.is_write, cell.is_plain, cell.bytes)
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
    a.cpu != b.cpu && (a.is_write || b.is_write) && (a.is_plain || b.is_plain) && a.bytes & b.bytes != 0
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
