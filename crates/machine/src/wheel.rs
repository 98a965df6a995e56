//! Which sleeping task wakes next? A hierarchical timer wheel: the cost of a sleep does not depend on how many sleep.
//!
//! Level `l` has 64 slots of 64^l ns. A timer lies in the level of the highest 6-bit digit in which its time
//! differs from the wheel's; when the wheel's time reaches its slot, it moves down a level (a 6 ms sleep
//! moves at most three times). Timers of one instant come out in the order in which they were put in.
//!
//! The wheel's time is moved only where it must be, to sort the timers of one slot: a timer that is alone in
//! the earliest slot is taken out where it lies.

const LEVELS: usize = 11; // 6 * 11 = 66 bits
const NONE: u32 = u32::MAX;
/// The time of a task that has no timer.
const NOT_PLANNED: u64 = u64::MAX;

/// The timers of a slot: first and last task of their list, and the earliest of their times.
#[derive(Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
    earliest_ns: u64,
}

pub(crate) struct Wheel {
    /// No timer is earlier.
    now_ns: u64,
    /// A bit per level that is not empty.
    levels: u32,
    /// Per level, a bit per non-empty slot.
    occupied: [u64; LEVELS],
    slots: Vec<Slot>,
    /// Per task: its time and the next in its slot's list. A task has at most one timer.
    timers: Vec<(u64, u32)>,
    /// The earliest time, `u64::MAX` if empty, and the slot of the timers that have it.
    earliest_ns: u64,
    earliest_slot: usize,
}

impl Wheel {
    pub(crate) fn new(nr_tasks: usize) -> Wheel {
        Wheel {
            now_ns: 0,
            levels: 0,
            occupied: [0; LEVELS],
            slots: vec![Slot { first: NONE, last: NONE, earliest_ns: u64::MAX }; LEVELS * 64],
            timers: vec![(NOT_PLANNED, NONE); nr_tasks],
            earliest_ns: u64::MAX,
            earliest_slot: 0,
        }
    }

    /// Puts a timer into its slot, which is returned.
    #[inline]
    fn place(&mut self, task: u32, time_ns: u64) -> usize {
        let differ = (time_ns ^ self.now_ns) | 1;
        let level = differ.ilog2() as usize / 6;
        let digit = (time_ns >> (6 * level)) as usize & 63;
        let at = level * 64 + digit;
        self.timers[task as usize] = (time_ns, NONE);
        let slot = &mut self.slots[at];
        if slot.first == NONE {
            *slot = Slot { first: task, last: task, earliest_ns: time_ns };
            self.occupied[level] |= 1 << digit;
            self.levels |= 1 << level;
        } else {
            self.timers[slot.last as usize].1 = task;
            slot.last = task;
            slot.earliest_ns = slot.earliest_ns.min(time_ns);
        }
        at
    }

    /// Plans a wakeup of a task that has none planned; a time in the past counts as now.
    #[inline]
    pub(crate) fn insert(&mut self, task: u32, time_ns: u64) {
        let time_ns = time_ns.max(self.now_ns).min(NOT_PLANNED - 1);
        assert!(self.timers[task as usize].0 == NOT_PLANNED, "task {task} has a timer already");
        let at = self.place(task, time_ns);
        if time_ns < self.earliest_ns {
            (self.earliest_ns, self.earliest_slot) = (time_ns, at);
        }
    }

    /// When the earliest planned wakeup is due; `u64::MAX` if none.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.earliest_ns
    }

    /// Takes the first task whose time is `now_ns`, which must be the earliest time.
    #[inline]
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<u32> {
        if self.earliest_ns > now_ns {
            return None;
        }
        let slot = self.slots[self.earliest_slot];
        if slot.first != slot.last && self.earliest_slot >= 64 {
            self.advance(self.earliest_ns);
            self.earliest_slot = (self.earliest_ns & 63) as usize;
        }
        let Slot { first: task, last, .. } = self.slots[self.earliest_slot];
        if task == last {
            self.clear(self.earliest_slot);
            self.find();
        } else {
            // more of the same instant: a slot of the lowest level holds no other
            self.slots[self.earliest_slot].first = self.timers[task as usize].1;
        }
        self.timers[task as usize].0 = NOT_PLANNED;
        Some(task)
    }

    /// Finds the earliest: the lowest non-empty level holds it, in its lowest slot (all its slots lie ahead
    /// of the wheel's time).
    #[inline]
    fn find(&mut self) {
        self.earliest_ns = u64::MAX;
        if self.levels != 0 {
            let level = self.levels.trailing_zeros() as usize;
            self.earliest_slot = level * 64 + self.occupied[level].trailing_zeros() as usize;
            self.earliest_ns = self.slots[self.earliest_slot].earliest_ns;
        }
    }

    #[inline]
    fn clear(&mut self, at: usize) {
        self.slots[at].first = NONE;
        let level = at / 64;
        self.occupied[level] &= !(1 << (at % 64));
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Moves time forward to the earliest timer, handing slots down.
    fn advance(&mut self, to_ns: u64) {
        let changed = to_ns ^ self.now_ns;
        self.now_ns = to_ns;
        // digits above the highest that has changed lead to the slots that were handed down before
        let highest = (changed | 1).ilog2() / 6;
        for level in (1..=highest as usize).rev() {
            let digit = (to_ns >> (6 * level)) as usize & 63;
            if self.occupied[level] >> digit & 1 == 1 {
                let mut task = self.slots[level * 64 + digit].first;
                self.clear(level * 64 + digit);
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

    impl Wheel {
        /// How many timers lie in the slots' lists.
        fn len(&self) -> usize {
            let list = |slot: &Slot| {
                let next = |task: &u32| Some(self.timers[*task as usize].1).filter(|_| *task != slot.last);
                std::iter::successors(Some(slot.first).filter(|first| *first != NONE), next).count()
            };
            self.slots.iter().map(list).sum()
        }
    }

    proptest! {
        /// Against a sorted map keyed by (time, order of insertion).
        #[test]
        fn equals_a_sorted_map(seed in any::<u64>(), scale in 1u32..40, n in 1usize..300) {
            let mut random = seed | 1;
            let mut draw = move |bound: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % bound
            };
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
