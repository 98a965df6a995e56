//! Which waiting client has the least key? A binary heap in an array, and, as the simple way, an unsorted list.

use super::{May, Virtual};
use schedlab_units::TaskId;
use std::cmp::Reverse;

/// What a set of clients is ordered by. Ends with the client, so that keys are distinct.
pub trait Key: Ord + Copy {
    /// Whose it is.
    fn client(&self) -> TaskId;
}

impl Key for (Virtual, TaskId) {
    #[inline]
    fn client(&self) -> TaskId {
        self.1
    }
}

impl Key for (Virtual, Reverse<u64>, TaskId) {
    #[inline]
    fn client(&self) -> TaskId {
        self.2
    }
}

/// A set of clients from which the one with the least key is taken.
pub trait MinQueue<K: Key> {
    /// Adds a client, which is not here.
    fn push(&mut self, key: K);
    /// Takes the least key among those that may be served.
    fn pop(&mut self, may: May<'_>) -> Option<TaskId>;
    /// Takes this client out if it is here.
    fn remove(&mut self, client: TaskId) -> bool;
}

const ABSENT: u32 = u32::MAX;

/// A binary heap that knows where each client stands: push, pop and remove cost O(log n), the least key O(1).
///
/// A scheduler mostly takes the least and soon puts it back with a larger key. So the root stays empty after
/// a pop until it is known what comes next: a push then fills it, at half the cost of closing it first.
#[derive(Debug)]
pub struct Heap<K> {
    /// If `hole`, the first is no entry.
    entries: Vec<K>,
    hole: bool,
    /// Per client: its place in `entries`.
    places: Vec<u32>,
}

impl<K> Default for Heap<K> {
    fn default() -> Heap<K> {
        Heap { entries: Vec::new(), hole: false, places: Vec::new() }
    }
}

impl<K: Key> Heap<K> {
    /// The least key.
    #[inline]
    pub fn first(&mut self) -> Option<K> {
        self.close();
        self.entries.first().copied()
    }

    #[inline]
    fn set(&mut self, place: usize, key: K) {
        self.places[key.client().index()] = place as u32;
        self.entries[place] = key;
    }

    fn rise(&mut self, mut place: usize, key: K) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent] <= key {
                break;
            }
            self.set(place, self.entries[parent]);
            place = parent;
        }
        self.set(place, key);
    }

    fn sink(&mut self, mut place: usize, key: K) {
        let len = self.entries.len();
        loop {
            let mut child = 2 * place + 1;
            if child >= len {
                break;
            }
            if child + 1 < len && self.entries[child + 1] < self.entries[child] {
                child += 1;
            }
            if key <= self.entries[child] {
                break;
            }
            self.set(place, self.entries[child]);
            place = child;
        }
        self.set(place, key);
    }

    /// Closes the hole at the root, if there is one, with the last entry.
    #[inline]
    fn close(&mut self) {
        if std::mem::take(&mut self.hole) {
            let last = self.entries.pop().expect("the hole has a place");
            if !self.entries.is_empty() {
                self.sink(0, last);
            }
        }
    }

    /// Takes the client with the least key.
    #[inline]
    pub fn pop_first(&mut self) -> Option<K> {
        let first = self.first()?;
        self.places[first.client().index()] = ABSENT;
        self.hole = true;
        Some(first)
    }
}

impl<K: Key> MinQueue<K> for Heap<K> {
    #[inline]
    fn push(&mut self, key: K) {
        let index = super::row(&mut self.places, key.client(), &ABSENT);
        debug_assert_eq!(self.places[index], ABSENT, "{} is in the heap already", key.client());
        if std::mem::take(&mut self.hole) {
            self.sink(0, key);
        } else {
            self.entries.push(key);
            self.rise(self.entries.len() - 1, key);
        }
    }

    #[inline]
    fn pop(&mut self, may: May<'_>) -> Option<TaskId> {
        let first = self.first()?.client();
        if may(first) {
            self.pop_first();
            return Some(first);
        }
        // those before the first that may be served are set aside: O(k log n) for k of them
        let mut aside = Vec::new();
        let found = loop {
            match self.pop_first() {
                Some(key) if may(key.client()) => break Some(key.client()),
                Some(key) => aside.push(key),
                None => break None,
            }
        };
        aside.into_iter().for_each(|key| self.push(key));
        found
    }

    fn remove(&mut self, client: TaskId) -> bool {
        self.close();
        let place = match self.places.get(client.index()) {
            Some(&place) if place != ABSENT => place as usize,
            _ => return false,
        };
        self.places[client.index()] = ABSENT;
        let taken = self.entries[place];
        let last = self.entries.pop().expect("a place in the heap exists");
        if place < self.entries.len() {
            if last < taken { self.rise(place, last) } else { self.sink(place, last) }
        }
        true
    }
}

/// An unsorted list, searched at each decision: the way that the paper on VTRR calls usual for fair queueing
/// in kernels.
#[derive(Debug)]
pub struct List<K> {
    entries: Vec<K>,
}

impl<K> Default for List<K> {
    fn default() -> List<K> {
        List { entries: Vec::new() }
    }
}

impl<K: Key> MinQueue<K> for List<K> {
    fn push(&mut self, key: K) {
        self.entries.push(key);
    }

    fn pop(&mut self, may: May<'_>) -> Option<TaskId> {
        let served = self.entries.iter().enumerate().filter(|(_, key)| may(key.client()));
        let (place, _) = served.min_by_key(|(_, key)| **key)?;
        Some(self.entries.swap_remove(place).client())
    }

    fn remove(&mut self, client: TaskId) -> bool {
        let place = self.entries.iter().position(|key| key.client() == client);
        place.map(|place| self.entries.swap_remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_stdx::Random;
    use std::collections::BTreeSet;

    /// Heap and list against a sorted set.
    #[test]
    fn both_equal_a_sorted_set() {
        let mut random = Random::new(1);
        let (mut heap, mut list) = (Heap::default(), List::default());
        let mut set: BTreeSet<(Virtual, TaskId)> = BTreeSet::new();
        for _ in 0..50_000 {
            let client = TaskId(random.below(60) as u32);
            let present = set.iter().find(|(_, c)| *c == client).copied();
            match (random.below(3), present) {
                (0, None) => {
                    let key = (Virtual::from(random.below(1000)), client);
                    heap.push(key);
                    list.push(key);
                    set.insert(key);
                }
                (1, _) => {
                    let modulus = 1 + random.below(3) as u32;
                    let may = |client: TaskId| client.0.is_multiple_of(modulus);
                    let least = set.iter().find(|(_, c)| may(*c)).copied();
                    if random.below(2) == 0 {
                        assert_eq!(heap.first(), set.first().copied());
                    }
                    assert_eq!(heap.pop(&may), least.map(|(_, client)| client));
                    assert_eq!(list.pop(&may), least.map(|(_, client)| client));
                    least.map(|least| set.remove(&least));
                }
                (_, present) => {
                    assert_eq!(heap.remove(client), present.is_some());
                    assert_eq!(list.remove(client), present.is_some());
                    present.map(|entry| set.remove(&entry));
                }
            }
        }
    }
}
