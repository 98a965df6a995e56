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
    /// This and all that is later never comes.
    pub(crate) const NEVER: Key = Key(FAR_NS << 2);

    /// Times from 2^59 ns on (18 years) are never.
    #[inline]
    pub(crate) fn new(time_ns: u64, class: u64) -> Key {
        Key(time_ns.min(FAR_NS) << 2 | class)
    }
    /// The key of a task's own step so long after an instant, both of which are less than 2^59 ns.
    #[inline(always)]
    pub(crate) fn op_soon(now_ns: u64, after_ns: u64) -> Key {
        debug_assert!(now_ns < FAR_NS && after_ns < FAR_NS);
        Key(now_ns.wrapping_add(after_ns) << 2 | CLASS_OP)
    }
    #[inline]
    pub(crate) fn is_never(self) -> bool {
        self >= Key::NEVER
    }
    /// The instant of an event that comes.
    #[inline(always)]
    pub(crate) fn time_ns(self) -> u64 {
        self.0 >> 2
    }
    #[inline]
    pub(crate) fn class(self) -> u64 {
        self.0 & 3
    }
    /// Whether it is a task's own step.
    #[inline(always)]
    pub(crate) fn is_op(self) -> bool {
        self.0 & CLASS_OP != 0 // (no other class has this bit)
    }
    /// The first key that is later than every event at this time.
    pub(crate) fn after(time_ns: u64) -> Key {
        Key::new(time_ns.saturating_add(1), 0)
    }
}

/// Simulated time ends here, after 18 years: the sum of two times below it has a key.
pub(crate) const FAR_NS: u64 = 1 << 59;

/// So many CPUs are compared one by one; above them stands the tournament. Four comparisons cost less than two rounds.
pub(crate) const GROUP: usize = 1 << GROUP_BITS;
const GROUP_BITS: u32 = 2;

pub(crate) struct CpuQueue {
    /// The earliest key and its CPU: what the root holds.
    first: (Key, usize),
    /// Where all CPUs are one group: their keys.
    few: Group,
    /// The groups' keys, if there are several.
    groups: Vec<Group>,
    /// `tree[leaves + group]` is a group's leaf, `tree[1]` would be the root; each node holds its winner, key
    /// above CPU: one comparison decides both, the lower CPU among equals.
    tree: Vec<u128>,
    leaves: usize,
}

#[inline]
fn entry(key: Key, cpu: usize) -> u128 {
    u128::from(key.0) << 64 | cpu as u128
}

/// The keys of CPUs, each with its number within the group below: the smallest says whose it is.
#[derive(Clone, Copy)]
pub(crate) struct Group([u64; GROUP]);

impl Group {
    fn new() -> Group {
        Group(std::array::from_fn(|at| Key::NEVER.0 << GROUP_BITS | at as u64))
    }

    /// Sets a CPU's key; the smallest one, and whose it is.
    #[inline(always)]
    fn set(&mut self, cpu: usize, key: Key) -> Packed {
        self.0[cpu % GROUP] = key.0 << GROUP_BITS | (cpu % GROUP) as u64;
        let [a, b, c, d] = self.0;
        Packed(a.min(b).min(c.min(d)))
    }
}

/// A key above a CPU's number within its group.
#[derive(Clone, Copy)]
pub(crate) struct Packed(u64);

/// Who is next.
pub(crate) trait Next: Copy {
    /// Whether that is a task's own step, before this key.
    fn is_op_before(self, limit: Key) -> bool;
    /// When, if it ever is.
    fn time_ns(self) -> u64;
    /// Which CPU.
    fn cpu(self) -> usize;
}

impl Next for Packed {
    #[inline(always)]
    fn is_op_before(self, limit: Key) -> bool {
        self.0 < limit.0 << GROUP_BITS && self.0 & CLASS_OP << GROUP_BITS != 0
    }
    #[inline(always)]
    fn time_ns(self) -> u64 {
        self.0 >> (GROUP_BITS + 2)
    }
    #[inline(always)]
    fn cpu(self) -> usize {
        self.0 as usize % GROUP
    }
}

impl Packed {
    #[inline(always)]
    fn key(self) -> Key {
        Key(self.0 >> GROUP_BITS)
    }
}

impl Next for (Key, usize) {
    #[inline(always)]
    fn is_op_before(self, limit: Key) -> bool {
        self.0 < limit && self.0.is_op()
    }
    #[inline(always)]
    fn time_ns(self) -> u64 {
        self.0.time_ns()
    }
    #[inline(always)]
    fn cpu(self) -> usize {
        self.1
    }
}

/// Who is next, asked each time that a CPU's key has changed.
pub(crate) trait Turns {
    type Next: Next;
    /// Sets a CPU's key; the earliest key and its CPU, the lower CPU if two are equal.
    fn turn(&mut self, cpu: usize, key: Key) -> Self::Next;
    /// The queue itself knows of it, too.
    fn settle(&mut self);
}

/// A queue of so few CPUs that they are one group: what is the first is written down at the end.
pub(crate) struct Few<'a> {
    group: &'a mut Group,
    first: &'a mut (Key, usize),
    last: Packed,
}

impl Turns for Few<'_> {
    type Next = Packed;
    #[inline(always)]
    fn turn(&mut self, cpu: usize, key: Key) -> Packed {
        self.last = self.group.set(cpu, key);
        self.last
    }
    #[inline(always)]
    fn settle(&mut self) {
        *self.first = (self.last.key(), self.last.cpu());
    }
}

impl Turns for &mut CpuQueue {
    type Next = (Key, usize);
    #[inline(always)]
    fn turn(&mut self, cpu: usize, key: Key) -> (Key, usize) {
        self.set(cpu, key);
        self.first
    }
    fn settle(&mut self) {}
}

impl CpuQueue {
    pub(crate) fn new(nr_cpus: usize) -> CpuQueue {
        let leaves = nr_cpus.div_ceil(GROUP).next_power_of_two();
        let mut tree = vec![0; 2 * leaves];
        for node in (1..2 * leaves).rev() {
            tree[node] =
                if node >= leaves { entry(Key::NEVER, (node - leaves) * GROUP) } else { tree[2 * node] };
        }
        let groups = if leaves > 1 { vec![Group::new(); leaves] } else { Vec::new() };
        CpuQueue { first: (Key::NEVER, 0), few: Group::new(), groups, tree, leaves }
    }

    /// The earliest key and its CPU; the lower CPU if two are equal.
    #[inline]
    pub(crate) fn first(&self) -> (Key, usize) {
        self.first
    }

    /// Whether all CPUs are one group.
    #[inline(always)]
    pub(crate) fn is_few(&self) -> bool {
        self.leaves == 1
    }

    /// That group.
    #[inline(always)]
    pub(crate) fn few(&mut self) -> Few<'_> {
        let last = Packed(self.first.0.0 << GROUP_BITS | self.first.1 as u64);
        Few { group: &mut self.few, first: &mut self.first, last }
    }

    /// Sets a CPU's key.
    #[inline(always)]
    pub(crate) fn set(&mut self, cpu: usize, key: Key) {
        if self.leaves == 1 {
            let first = self.few.set(cpu, key);
            self.first = (first.key(), first.cpu());
        } else {
            self.set_among_many(cpu, key);
        }
    }

    #[inline]
    fn set_among_many(&mut self, cpu: usize, key: Key) {
        let group = cpu / GROUP;
        let first = self.groups[group].set(cpu, key);
        self.climb(self.leaves + group, entry(first.key(), group * GROUP + first.cpu()));
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

    #[test]
    fn what_is_far_is_never() {
        let soon = Key::op_soon(5, 7);
        assert_eq!((soon, soon.time_ns(), soon.is_op()), (Key::new(12, CLASS_OP), 12, true));
        let last = Key::new(FAR_NS - 1, CLASS_OP);
        assert!(!last.is_never() && last < Key::NEVER && Key::after(u64::MAX) == Key::NEVER);
        for never in [
            Key::op_soon(FAR_NS - 1, FAR_NS - 1),
            Key::new(FAR_NS, CLASS_TIMER),
            Key::new(u64::MAX, CLASS_OP),
        ] {
            let mut queue = CpuQueue::new(2);
            queue.set(0, never);
            assert!(never.is_never() && queue.first().0.is_never(), "{never:?}");
            queue.set(1, last);
            assert_eq!(queue.first(), (last, 1));
        }
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
                match queue.is_few() {
                    true => {
                        let mut few = queue.few();
                        let next = few.turn(cpu % nr_cpus, key);
                        let is_op = !key.is_never() && next.is_op_before(Key::NEVER);
                        few.settle();
                        let (earliest, first) = queue.first();
                        prop_assert!(next.cpu() == first && next.time_ns() == earliest.time_ns());
                        prop_assert!(key.is_never() || is_op == (earliest, first).is_op_before(Key::NEVER));
                    }
                    false => queue.set(cpu % nr_cpus, key),
                }
                let (earliest, first) = keys.iter().enumerate().map(|(cpu, key)| (*key, cpu)).min().unwrap();
                let first = if earliest.is_never() { queue.first().1 } else { first };
                prop_assert_eq!(queue.first(), (earliest, first));
            }
        }
    }
}
