//! Which CPU has the next event? A tournament over groups of CPUs: the winner is at the root.
//!
//! Changing one CPU's key costs a look at its group of four and log2(groups) comparisons, reading the
//! earliest costs nothing, and no event scans all CPUs. Of 16 CPUs, cpu9 is next:
//!
//! ```text
//!                       [cpu9: 3 ms]
//!               /                            \
//!         [cpu1: 5 ms]                  [cpu9: 3 ms]
//!         /          \                  /          \
//!   [cpu1: 5 ms] [cpu6: 8 ms]    [cpu9: 3 ms]  [cpu12: never]
//!    cpu0 .. 3    cpu4 .. 7       cpu8 .. 11    cpu12 .. 15
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
        if time_ns < u64::MAX >> 2 { Key(time_ns << 2 | class) } else { Key::NEVER }
    }
    #[inline]
    pub(crate) fn time_ns(self) -> u64 {
        if self == Key::NEVER { u64::MAX } else { self.0 >> 2 }
    }
    #[inline]
    pub(crate) fn class(self) -> u64 {
        self.0 & 3
    }
    /// The first key that is later than every event at this time.
    pub(crate) fn after(time_ns: u64) -> Key {
        Key::new(time_ns.saturating_add(1), 0)
    }
}

/// So many CPUs are compared one by one; above them stands the tournament. Four comparisons cost less than two rounds.
const GROUP: usize = 4;

pub(crate) struct CpuQueue {
    /// The earliest key and its CPU: what the root holds.
    first: u128,
    keys: Vec<[Key; GROUP]>,
    /// `tree[leaves + group]` is a group's leaf, `tree[1]` would be the root; each node holds its winner, key
    /// above CPU: one comparison decides both, the lower CPU among equals.
    tree: Vec<u128>,
    leaves: usize,
}

#[inline]
fn entry(key: Key, cpu: usize) -> u128 {
    u128::from(key.0) << 64 | cpu as u128
}

impl CpuQueue {
    pub(crate) fn new(nr_cpus: usize) -> CpuQueue {
        let leaves = nr_cpus.div_ceil(GROUP).next_power_of_two();
        let mut tree = vec![0; 2 * leaves];
        for node in (1..2 * leaves).rev() {
            tree[node] =
                if node >= leaves { entry(Key::NEVER, (node - leaves) * GROUP) } else { tree[2 * node] };
        }
        CpuQueue { first: entry(Key::NEVER, 0), keys: vec![[Key::NEVER; GROUP]; leaves], tree, leaves }
    }

    /// The earliest key and its CPU; the lower CPU if two are equal.
    #[inline]
    pub(crate) fn first(&self) -> (Key, usize) {
        (Key((self.first >> 64) as u64), self.first as usize)
    }

    /// Sets a CPU's key.
    #[inline(always)]
    pub(crate) fn set(&mut self, cpu: usize, key: Key) {
        let group = cpu / GROUP;
        let keys = &mut self.keys[group];
        keys[cpu % GROUP] = key;
        let [a, b, c, d] = *keys;
        let left = if b < a { (b, 1) } else { (a, 0) };
        let right = if d < c { (d, 3) } else { (c, 2) };
        let (first, at) = if right.0 < left.0 { right } else { left };
        let winner = entry(first, group * GROUP + at);
        if self.leaves == 1 {
            self.first = winner;
        } else {
            self.climb(self.leaves + group, winner);
        }
    }

    /// A group's leaf has this winner: so have all nodes above it up to one where another wins as before.
    fn climb(&mut self, mut node: usize, mut winner: u128) {
        while self.tree[node] != winner {
            self.tree[node] = winner;
            if node == 1 {
                self.first = winner;
                return;
            }
            winner = winner.min(self.tree[node ^ 1]);
            node /= 2;
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
        fn equals_a_scan(
            nr_cpus in 1usize..70,
            sets in proptest::collection::vec((0usize..70, 0u64..9, 0u64..3), 1..200),
        ) {
            let mut queue = CpuQueue::new(nr_cpus);
            let mut keys = vec![Key::NEVER; nr_cpus];
            for (cpu, time, class) in sets {
                let key = if time == 8 { Key::NEVER } else { Key::new(time, class) };
                keys[cpu % nr_cpus] = key;
                queue.set(cpu % nr_cpus, key);
                let (earliest, first) = keys.iter().enumerate().map(|(cpu, key)| (*key, cpu)).min().unwrap();
                let first = if earliest == Key::NEVER { queue.first().1 } else { first };
                prop_assert_eq!(queue.first(), (earliest, first));
            }
        }
    }
}
