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

/// A key: time above, class of event in the lowest 2 bits. Smaller is earlier. The uppermost 2 bits are free, so that a
/// group can have its CPU's number below a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u64);

/// What an event is; at one instant, lower classes first (see [`crate::engine`]).
pub(crate) const CLASS_TIMER: u64 = 0;
pub(crate) const CLASS_DEVICE: u64 = 1;
pub(crate) const CLASS_OP: u64 = 2;

impl Key {
    pub(crate) const NEVER: Key = Key(u64::MAX >> GROUP_BITS);

    /// Times from 2^60 ns on (36 years) are never.
    #[inline]
    pub(crate) fn new(time_ns: u64, class: u64) -> Key {
        if time_ns < Key::NEVER.0 >> 2 { Key(time_ns << 2 | class) } else { Key::NEVER }
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
const GROUP: usize = 1 << GROUP_BITS;
const GROUP_BITS: u32 = 2;

pub(crate) struct CpuQueue {
    /// The earliest key and its CPU: what the root holds.
    first: (Key, usize),
    /// Each CPU's key, with its number within its group below: the smallest of a group says whose it is.
    keys: Vec<[u64; GROUP]>,
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
        let never = std::array::from_fn(|at| Key::NEVER.0 << GROUP_BITS | at as u64);
        CpuQueue { first: (Key::NEVER, 0), keys: vec![never; leaves], tree, leaves }
    }

    /// The earliest key and its CPU; the lower CPU if two are equal.
    #[inline]
    pub(crate) fn first(&self) -> (Key, usize) {
        self.first
    }

    /// Sets a CPU's key.
    #[inline(always)]
    pub(crate) fn set(&mut self, cpu: usize, key: Key) {
        let group = cpu / GROUP;
        let keys = &mut self.keys[group];
        keys[cpu % GROUP] = key.0 << GROUP_BITS | (cpu % GROUP) as u64;
        let [a, b, c, d] = *keys;
        let winner = a.min(b).min(c.min(d));
        let (first, at) = (Key(winner >> GROUP_BITS), winner as usize % GROUP);
        if self.leaves == 1 {
            self.first = (first, at);
        } else {
            self.climb(self.leaves + group, entry(first, group * GROUP + at));
        }
    }

    /// A group's leaf has this winner: so have all nodes above it up to one where another wins as before.
    fn climb(&mut self, mut node: usize, mut winner: u128) {
        while self.tree[node] != winner {
            self.tree[node] = winner;
            if node == 1 {
                self.first = (Key((winner >> 64) as u64), winner as usize);
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
