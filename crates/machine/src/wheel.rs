//! Which sleeping task wakes next? A hierarchical timer wheel: the cost of a sleep does not depend on how many sleep.
//!
//! Level `l` has 64 slots of 64^l ns. A timer lies in the level of the highest 6-bit digit in which its time differs from now;
//! when time reaches its slot, it moves down a level (a 6 ms sleep moves at most three times). Timers of one instant come out
//! in the order in which they were put in.

const LEVELS: usize = 11; // 6 * 11 = 66 bits
const NONE: u32 = u32::MAX;

pub(crate) struct Wheel {
    now_ns: u64,
    /// Per level, a bit per non-empty slot.
    occupied: [u64; LEVELS],
    /// Per slot, first and last task of its list.
    slots: Vec<(u32, u32)>,
    /// Per task: its time and the next in its slot's list. A task has at most one timer.
    timers: Vec<(u64, u32)>,
    len: usize,
    /// Cached earliest time; `u64::MAX` if empty, `None` if it must be found anew.
    earliest: Option<u64>,
}

impl Wheel {
    pub(crate) fn new(nr_tasks: usize) -> Wheel {
        Wheel {
            now_ns: 0,
            occupied: [0; LEVELS],
            slots: vec![(NONE, NONE); LEVELS * 64],
            timers: vec![(0, NONE); nr_tasks],
            len: 0,
            earliest: Some(u64::MAX),
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn place(&mut self, task: u32, time_ns: u64) {
        let differ = (time_ns ^ self.now_ns) | 1;
        let level = (63 - differ.leading_zeros()) as usize / 6;
        let digit = (time_ns >> (6 * level)) as usize & 63;
        let slot = level * 64 + digit;
        self.timers[task as usize] = (time_ns, NONE);
        let (first, last) = self.slots[slot];
        if first == NONE {
            self.slots[slot] = (task, task);
            self.occupied[level] |= 1 << digit;
        } else {
            self.timers[last as usize].1 = task;
            self.slots[slot].1 = task;
        }
    }

    /// Plans a wakeup; a time in the past counts as now.
    #[inline]
    pub(crate) fn insert(&mut self, task: u32, time_ns: u64) {
        let time_ns = time_ns.max(self.now_ns);
        self.place(task, time_ns);
        self.len += 1;
        if let Some(earliest) = self.earliest {
            self.earliest = Some(earliest.min(time_ns));
        }
    }

    /// When the earliest planned wakeup is due; `u64::MAX` if none.
    #[inline]
    pub(crate) fn next_ns(&mut self) -> u64 {
        match self.earliest {
            Some(earliest) => earliest,
            None => self.find(),
        }
    }

    /// Finds the earliest: the lowest non-empty level holds it, in its lowest slot (all its slots lie ahead of now).
    fn find(&mut self) -> u64 {
        let mut earliest = u64::MAX;
        if let Some(level) = self.occupied.iter().position(|&bits| bits != 0) {
            let digit = self.occupied[level].trailing_zeros() as usize;
            let mut task = self.slots[level * 64 + digit].0;
            if level == 0 {
                earliest = self.timers[task as usize].0;
            } else {
                while task != NONE {
                    let (time_ns, next) = self.timers[task as usize];
                    earliest = earliest.min(time_ns);
                    task = next;
                }
            }
        }
        self.earliest = Some(earliest);
        earliest
    }

    /// Takes the first task whose time is `now_ns`, which must be the earliest time.
    #[inline]
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<u32> {
        if self.len == 0 || self.next_ns() > now_ns {
            return None;
        }
        self.advance(now_ns);
        let digit = (now_ns & 63) as usize;
        let (task, last) = self.slots[digit];
        let next = self.timers[task as usize].1;
        if task == last {
            self.slots[digit] = (NONE, NONE);
            self.occupied[0] &= !(1 << digit);
            self.earliest = None;
        } else {
            self.slots[digit].0 = next;
        }
        self.len -= 1;
        Some(task)
    }

    /// Moves time forward to the earliest timer, handing slots down.
    #[inline]
    fn advance(&mut self, to_ns: u64) {
        let changed = to_ns ^ self.now_ns;
        if changed == 0 {
            return;
        }
        self.now_ns = to_ns;
        // digits above the highest that has changed lead to the slots that were handed down before
        let highest = (63 - changed.leading_zeros()) as usize / 6;
        for level in (1..=highest).rev() {
            let digit = (to_ns >> (6 * level)) as usize & 63;
            if self.occupied[level] >> digit & 1 == 1 {
                self.occupied[level] &= !(1 << digit);
                let (mut task, _) = std::mem::replace(&mut self.slots[level * 64 + digit], (NONE, NONE));
                while task != NONE {
                    let (time_ns, next) = self.timers[task as usize];
                    self.place(task, time_ns);
                    task = next;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a sorted map keyed by (time, order of insertion).
        #[test]
        fn equals_a_sorted_map(seed in any::<u64>(), scale in 1u32..40, n in 1usize..300) {
            let mut random = seed | 1;
            let mut draw = move |bound: u64| { random ^= random << 13; random ^= random >> 7; random ^= random << 17; random % bound };
            let mut wheel = Wheel::new(64);
            let mut map = BTreeMap::new();
            let (mut now, mut order) = (0u64, 0u64);
            let mut free: Vec<u32> = (0..64).collect();
            for _ in 0..n {
                if draw(3) > 0 && !free.is_empty() {
                    let task = free.remove(draw(free.len() as u64) as usize);
                    let time = now + draw(1 << scale);
                    wheel.insert(task, time);
                    map.insert((time, order), task);
                    order += 1;
                } else if let Some((&(time, order), &task)) = map.first_key_value() {
                    prop_assert_eq!(wheel.next_ns(), time);
                    prop_assert_eq!(wheel.pop(time), Some(task));
                    prop_assert!(now <= time);
                    now = time;
                    map.remove(&(time, order));
                    free.push(task);
                }
                prop_assert_eq!(wheel.len(), map.len());
                prop_assert_eq!(wheel.next_ns(), map.first_key_value().map_or(u64::MAX, |((time, _), _)| *time));
            }
        }
    }

    #[test]
    fn one_instant_is_first_in_first_out_also_across_levels() {
        let mut wheel = Wheel::new(4);
        wheel.insert(0, 1_000_000); // far: a high level
        wheel.insert(1, 999_990);
        assert_eq!(wheel.pop(999_990), Some(1)); // time moves: task 0 is handed down
        wheel.insert(2, 1_000_000); // near: a low level
        assert_eq!(
            (wheel.pop(1_000_000), wheel.pop(1_000_000), wheel.pop(1_000_000)),
            (Some(0), Some(2), None)
        );
    }
}
