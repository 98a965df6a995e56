//! Which waiting client has the least key? A binary heap in an array, and, as the simple way, an unsorted list.

use super::May;
use schedlab_units::TaskId;

/// A set of clients with keys from which the least is taken; keys are distinct (they end with the client's id).
pub trait MinQueue<K: Ord + Copy> {
    /// Adds a client, which is not here.
    fn push(&mut self, key: K, client: TaskId);
    /// Takes the least key among those that may be served.
    fn pop(&mut self, may: May<'_>) -> Option<TaskId>;
    /// Takes this client out if it is here.
    fn remove(&mut self, client: TaskId) -> bool;
}

const ABSENT: u32 = u32::MAX;

/// A binary heap that knows where each client stands: push, pop and remove cost O(log n), the least key O(1).
#[derive(Debug)]
pub struct Heap<K> {
    entries: Vec<(K, TaskId)>,
    /// Per client: its place in `entries`.
    places: Vec<u32>,
}

impl<K> Default for Heap<K> {
    fn default() -> Heap<K> {
        Heap { entries: Vec::new(), places: Vec::new() }
    }
}

impl<K: Ord + Copy> Heap<K> {
    /// The least key and its client.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, TaskId)> {
        self.entries.first().copied()
    }

    #[inline]
    fn set(&mut self, place: usize, entry: (K, TaskId)) {
        self.places[entry.1.index()] = place as u32;
        self.entries[place] = entry;
    }

    fn rise(&mut self, mut place: usize, entry: (K, TaskId)) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent].0 <= entry.0 {
                break;
            }
            self.set(place, self.entries[parent]);
            place = parent;
        }
        self.set(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: (K, TaskId)) {
        loop {
            let mut child = 2 * place + 1;
            if child >= self.entries.len() {
                break;
            }
            if child + 1 < self.entries.len() && self.entries[child + 1].0 < self.entries[child].0 {
                child += 1;
            }
            if entry.0 <= self.entries[child].0 {
                break;
            }
            self.set(place, self.entries[child]);
            place = child;
        }
        self.set(place, entry);
    }

    fn take(&mut self, place: usize) -> (K, TaskId) {
        let taken = self.entries[place];
        self.places[taken.1.index()] = ABSENT;
        let last = self.entries.pop().expect("a place in the heap exists");
        if place < self.entries.len() {
            if last.0 < taken.0 { self.rise(place, last) } else { self.sink(place, last) }
        }
        taken
    }

    /// Takes the client with the least key.
    #[inline]
    pub(crate) fn pop_first(&mut self) -> Option<(K, TaskId)> {
        (!self.entries.is_empty()).then(|| self.take(0))
    }
}

impl<K: Ord + Copy> MinQueue<K> for Heap<K> {
    fn push(&mut self, key: K, client: TaskId) {
        let index = super::row(&mut self.places, client, &ABSENT);
        debug_assert_eq!(self.places[index], ABSENT, "{client} is in the heap already");
        self.entries.push((key, client));
        self.rise(self.entries.len() - 1, (key, client));
    }

    #[inline]
    fn pop(&mut self, may: May<'_>) -> Option<TaskId> {
        let first = self.first()?.1;
        if may(first) {
            self.take(0);
            return Some(first);
        }
        // those before the first that may be served are set aside: O(k log n) for k of them
        let mut aside = Vec::new();
        let found = loop {
            match self.pop_first() {
                Some((_, client)) if may(client) => break Some(client),
                Some(entry) => aside.push(entry),
                None => break None,
            }
        };
        aside.into_iter().for_each(|(key, client)| self.push(key, client));
        found
    }

    fn remove(&mut self, client: TaskId) -> bool {
        match self.places.get(client.index()) {
            Some(&place) if place != ABSENT => {
                self.take(place as usize);
                true
            }
            _ => false,
        }
    }
}

/// An unsorted list, searched at each decision: the way that the paper on VTRR calls usual for fair queueing in kernels.
#[derive(Debug)]
pub struct List<K> {
    entries: Vec<(K, TaskId)>,
}

impl<K> Default for List<K> {
    fn default() -> List<K> {
        List { entries: Vec::new() }
    }
}

impl<K: Ord + Copy> MinQueue<K> for List<K> {
    fn push(&mut self, key: K, client: TaskId) {
        self.entries.push((key, client));
    }

    fn pop(&mut self, may: May<'_>) -> Option<TaskId> {
        let served = self.entries.iter().enumerate().filter(|(_, (_, client))| may(*client));
        let (place, _) = served.min_by_key(|(_, (key, _))| *key)?;
        Some(self.entries.swap_remove(place).1)
    }

    fn remove(&mut self, client: TaskId) -> bool {
        let place = self.entries.iter().position(|(_, c)| *c == client);
        place.map(|place| self.entries.swap_remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_units::Random;
    use std::collections::BTreeSet;

    /// Heap and list against a sorted set.
    #[test]
    fn both_equal_a_sorted_set() {
        let mut random = Random::new(1);
        let (mut heap, mut list, mut set) = (Heap::default(), List::default(), BTreeSet::new());
        for _ in 0..50_000 {
            let client = TaskId(random.below(60) as u32);
            let present = set.iter().find(|(_, c)| *c == client).copied();
            match (random.below(3), present) {
                (0, None) => {
                    let key = (random.below(1000), client);
                    heap.push(key, client);
                    list.push(key, client);
                    set.insert((key, client));
                }
                (1, _) => {
                    let modulus = 1 + random.below(3) as u32;
                    let may = |client: TaskId| client.0.is_multiple_of(modulus);
                    let least = set.iter().find(|(_, c)| may(*c)).copied();
                    assert_eq!(heap.first().map(|(key, _)| key), set.first().map(|(key, _)| *key));
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
