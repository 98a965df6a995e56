//! Which CPU has the next event? A tournament over the CPUs: the winner is at the root.
//!
//! Changing one CPU's key costs log2(CPUs) comparisons, reading the earliest costs nothing, and no event scans all CPUs.
//!
//! ```text
//!            [cpu2: 3 ms]
//!           /            \
//!     [cpu1: 5 ms]   [cpu2: 3 ms]
//!      /      \       /      \
//!   cpu0     cpu1   cpu2     cpu3
//!   9 ms     5 ms   3 ms     never
//! ```

/// A key: time in the upper 62 bits, class of event in the lower 2. Smaller is earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u64);

/// What an event is; at one instant, lower classes first (see [`crate::engine`]).
pub(crate) const CLASS_TIMER: u64 = 0;
pub(crate) const CLASS_DEVICE: u64 = 1;
pub(crate) const CLASS_OP: u64 = 2;

impl Key {
    pub(crate) const NEVER: Key = Key(u64::MAX);

    #[inline]
    pub(crate) fn new(time_ns: u64, class: u64) -> Key {
        if time_ns >= u64::MAX >> 2 { Key::NEVER } else { Key(time_ns << 2 | class) }
    }
    #[inline]
    pub(crate) fn time_ns(self) -> u64 {
        if self == Key::NEVER { u64::MAX } else { self.0 >> 2 }
    }
    #[inline]
    pub(crate) fn class(self) -> u64 {
        self.0 & 3
    }
}

pub(crate) struct CpuQueue {
    /// `tree[1]` is the root, `tree[leaves + cpu]` the CPU's leaf; each node holds (key, cpu) of its winner.
    tree: Vec<(Key, u32)>,
    leaves: usize,
}

impl CpuQueue {
    pub(crate) fn new(nr_cpus: usize) -> CpuQueue {
        let leaves = nr_cpus.next_power_of_two();
        let mut tree = vec![(Key::NEVER, 0); 2 * leaves];
        for node in (1..2 * leaves).rev() {
            tree[node].1 = if node >= leaves { (node - leaves) as u32 } else { tree[2 * node].1 };
        }
        CpuQueue { tree, leaves }
    }

    /// The earliest key and its CPU; the lower CPU if two are equal.
    #[inline]
    pub(crate) fn first(&self) -> (Key, usize) {
        let (key, cpu) = self.tree[1];
        (key, cpu as usize)
    }

    /// Sets a CPU's key.
    #[inline]
    pub(crate) fn set(&mut self, cpu: usize, key: Key) {
        let mut node = self.leaves + cpu;
        if self.tree[node].0 == key {
            return;
        }
        self.tree[node].0 = key;
        while node > 1 {
            let parent = node / 2;
            let (left, right) = (self.tree[2 * parent], self.tree[2 * parent + 1]);
            let winner = if right.0 < left.0 { right } else { left };
            if self.tree[parent] == winner {
                return;
            }
            self.tree[parent] = winner;
            node = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ties_go_to_class_then_cpu() {
        let mut queue = CpuQueue::new(3);
        assert_eq!(queue.first(), (Key::NEVER, 0));
        queue.set(2, Key::new(5, CLASS_TIMER));
        queue.set(0, Key::new(5, CLASS_OP));
        assert_eq!(queue.first().1, 2);
        queue.set(1, Key::new(5, CLASS_TIMER));
        assert_eq!(queue.first().1, 1);
        queue.set(1, Key::NEVER);
        queue.set(2, Key::NEVER);
        assert_eq!(queue.first(), (Key::new(5, CLASS_OP), 0));
    }

    proptest! {
        /// Against the obvious implementation: a scan over all CPUs.
        #[test]
        fn equals_a_scan(nr_cpus in 1usize..70, sets in proptest::collection::vec((0usize..70, 0u64..9, 0u64..3), 1..200)) {
            let mut queue = CpuQueue::new(nr_cpus);
            let mut keys = vec![Key::NEVER; nr_cpus];
            for (cpu, time, class) in sets {
                let key = if time == 8 { Key::NEVER } else { Key::new(time, class) };
                keys[cpu % nr_cpus] = key;
                queue.set(cpu % nr_cpus, key);
                let (earliest, first) = keys.iter().enumerate().map(|(cpu, key)| (*key, cpu)).min().unwrap();
                prop_assert_eq!(queue.first(), (earliest, if earliest == Key::NEVER { queue.first().1 } else { first }));
            }
        }
    }
}
