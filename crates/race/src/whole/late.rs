//! Which stores are late? Those that another CPU looks at, in a stretch of code that nothing orders.
//!
//! A store is late until its CPU comes to a barrier, and matters only if the CPU stops before that. Both are known from
//! the schedule without stops:
//!
//! ```text
//! cpu0's 812th point   t->__state = 1     cpu1 looks there
//! cpu0's 813th point   load t->woken      the store may be late here,
//! cpu0's 814th point   load rq->lock      and here
//!                      smp_mb()           and is seen behind this
//! ```
//!
//! So a draw is a store and a stop behind it, mostly the last that there can be: the CPU has loaded all that it loads
//! before the store is seen. The stop ends when another CPU changes what was loaded meanwhile, or after a while. A
//! store that is late alone is overtaken by those behind it, up to a write barrier or a release.
//!
//! Half of the draws look for another CPU that does the opposite at about the same time, and hold it until then:
//!
//! ```text
//! store buffering    cpu0: x = 1 (late); load y ┤ stop      cpu1: ┤ stop ├ y = 1; load x
//! message passing    cpu0: x = 1 (late); y = 1 ┤ stop       cpu1: ┤ until y changes ├ load y; load x
//! ```

use std::collections::HashMap;

use schedlab_linux::race::{RELAXED, RaceEvent, SAYS_MB, SAYS_RELEASE, SAYS_STORE_RELEASE, SAYS_WMB};
use schedlab_stdx::Random;

use super::conflict::Conflicts;
use super::groups::Groups;
use super::hb::ByAddress;
use super::order::{Given, Late, Stop, Until};
use crate::memory::MemoryModel;
use schedlab_units::Span;

const ATOMIC: u8 = 1;
const LOCK: u8 = 2;

/// How many points behind what it stores or loads first the other CPU's load is at most.
const BEHIND: u64 = 64;
/// How many accesses of a place are looked at, before the CPU's own in time and behind it.
const NEAR: usize = 24;
/// How many accesses behind a store.
const NEXT: usize = 64;
/// Of a line's stores so many are looked at, and of three lines so many pairs are kept.
const STORES_MAX: usize = 32;
const PAIRS_MAX: usize = 12;
/// How long the other CPU stands.
const HOLDS_US: [u64; 6] = [0, 10, 100, 100, 1000, 4100];

/// An access to memory that several CPUs touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    /// Among all events.
    index: usize,
    code: u64,
    cpu: u32,
    at: u64,
    address: u64,
    size: u8,
    loads: bool,
    stores: bool,
}

/// A store that another CPU looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Store {
    code: u64,
    index: usize,
    cpu: u32,
    at: u64,
    address: u64,
    /// The last point at which it is late, alone and with those behind it.
    one_to: u64,
    all_to: u64,
}

/// The stores that may be late.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    /// By line of code.
    lines: Groups<Store>,
    /// In order, by CPU and by address.
    by_cpu: Vec<Vec<Access>>,
    by_address: ByAddress<Vec<Access>>,
    /// By the stores' lines.
    pairs: Groups<Pair>,
    is_tso: bool,
}

/// A store, what its CPU loads or stores next, and the opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    store: Store,
    /// Message passing, else store buffering.
    passes: bool,
    y: Access,
    other: Access,
}

/// What ends lateness: of a single store, and of all.
fn ends(event: &RaceEvent, is_tso: bool) -> (bool, bool) {
    match event.what() {
        SAYS_WMB | SAYS_STORE_RELEASE | SAYS_RELEASE => (true, false),
        SAYS_MB => (true, true),
        ATOMIC => {
            let is_end = is_tso || event.kind & RELAXED == 0;
            (is_end, is_end)
        }
        LOCK => (is_tso, is_tso),
        _ => (false, false),
    }
}

impl Stores {
    /// From the schedule without stops.
    pub(super) fn of(events: &[RaceEvent], model: MemoryModel) -> Stores {
        let is_tso = model == MemoryModel::Tso;
        if model == MemoryModel::Sc {
            return Stores::default();
        }
        let mut touched: ByAddress<u64> = ByAddress::default();
        for event in events.iter().filter(|event| event.address != 0 && event.is_point()) {
            *touched.entry(event.address >> 3).or_default() |= 1 << (event.cpu & 63);
        }
        // per CPU: stores that are late so far, alone and with others, as places in `found`
        let mut open: Vec<(Vec<usize>, Vec<usize>)> = vec![Default::default(); 64];
        let mut found: Vec<Store> = Vec::new();
        let mut by_cpu: Vec<Vec<Access>> = vec![Vec::new(); 64];
        let mut by_address: ByAddress<Vec<Access>> = ByAddress::default();
        for (index, event) in events.iter().enumerate() {
            let (alone, all) = &mut open[usize::from(event.cpu & 63)];
            let (ends_one, ends_all) = ends(event, is_tso);
            // a CPU may still stop before what ends lateness; what is no point itself counts as the next one then
            let last = u64::from(event.at);
            let end = last + u64::from(!event.is_point());
            if ends_one {
                alone.drain(..).for_each(|n| found[n].one_to = end);
            }
            if ends_all {
                all.drain(..).for_each(|n| found[n].all_to = end);
            }
            let is_relaxed = event.kind == ATOMIC | RELAXED;
            let is_store = if event.what() == ATOMIC { is_relaxed && !is_tso } else { event.stores() };
            let others = touched.get(&(event.address >> 3)).map_or(0, |cpus| cpus & !(1 << (event.cpu & 63)));
            if others == 0 || !(1..=8).contains(&event.size) || !event.is_point() {
                continue;
            }
            let (cpu, at, address, size) = (u32::from(event.cpu), last, event.address, event.size);
            let (loads, stores) = (event.loads(), event.stores());
            let access = Access { index, code: event.code, cpu, at, address, size, loads, stores };
            by_cpu[usize::from(event.cpu & 63)].push(access);
            by_address.entry(address).or_default().push(access);
            if is_store {
                alone.push(found.len());
                all.push(found.len());
                found.push(Store { code: event.code, index, cpu, at, address, one_to: at, all_to: at });
            }
        }
        found.retain(|store| store.all_to > store.at);
        let lines = Groups::of(found, |store| store.code);
        let stores = Stores { lines, by_cpu, by_address, pairs: Groups::default(), is_tso };
        Stores { pairs: stores.pairs(), ..stores }
    }

    /// The CPU's accesses behind point `from`, up to point `to`.
    fn between(&self, cpu: u32, from: u64, to: u64) -> &[Access] {
        let all = self.by_cpu.get(cpu as usize).map_or(&[][..], Vec::as_slice);
        let begin = all.partition_point(|access| access.at <= from);
        &all[begin..begin + all[begin..].partition_point(|access| access.at <= to)]
    }

    /// The accesses of a place by other CPUs that are of this kind and before a load of `x`: the last one before this
    /// one in time, and the first behind it.
    fn opposites(
        &self,
        y: &Access,
        x: u64,
        wanted: fn(&Access) -> bool,
    ) -> impl Iterator<Item = Access> + use<> {
        let all = self.by_address.get(&y.address).map_or(&[][..], Vec::as_slice);
        let here = all.partition_point(|access| access.index < y.index);
        let fits = |other: &&Access| {
            let then = |access: &Access| self.between(access.cpu, access.at, access.at + BEHIND);
            other.cpu != y.cpu
                && wanted(other)
                && then(other).iter().any(|load| load.address == x && load.loads)
        };
        let before = all[here.saturating_sub(NEAR)..here].iter().rev().find(fits).copied();
        let behind = all[here..(here + NEAR).min(all.len())].iter().find(fits).copied();
        before.into_iter().chain(behind)
    }

    /// The pairs of a store, with those behind it late (`passes`: alone).
    fn pairs_of(&self, store: &Store, passes: bool) -> Vec<Pair> {
        let Store { cpu, at, address, one_to, all_to, .. } = *store;
        let next = self.between(cpu, at, if passes { one_to } else { all_to });
        let is_next = |y: &&Access| y.address != address && if passes { y.stores } else { y.loads };
        let wanted: fn(&Access) -> bool = if passes { |other| other.loads } else { |other| other.stores };
        (next.iter().take(NEXT).filter(is_next))
            .flat_map(|y| self.opposites(y, address, wanted).map(|other| (*y, other)))
            .map(|(y, other)| Pair { store: *store, passes, y, other })
            .collect()
    }

    /// Of each line of stores: a few pairs for each two lines that they are made with.
    fn pairs(&self) -> Groups<Pair> {
        let mut found: Vec<Pair> = Vec::new();
        let mut known: HashMap<(u64, u64, u64, bool), usize> = HashMap::new();
        for line in self.lines.groups() {
            // spread over the schedule
            for store in line.iter().step_by(line.len().div_ceil(STORES_MAX)) {
                let alone = !self.is_tso && store.one_to > store.at;
                let both = [false, true].into_iter().filter(|passes| alone || !passes);
                for pair in both.flat_map(|passes| self.pairs_of(store, passes)) {
                    let lines = (store.code, pair.y.code, pair.other.code, pair.passes);
                    let times = known.entry(lines).or_default();
                    *times += 1;
                    if *times <= PAIRS_MAX {
                        found.push(pair);
                    }
                }
            }
        }
        Groups::of(found, |pair| pair.store.code)
    }

    /// A late store, a stop behind what its CPU does next, and a stop of another CPU that does the opposite.
    fn pair(&self, random: &mut Random) -> Option<Given> {
        let Pair { store, passes, y, other } = self.pairs.pick(random)?;
        let hold = Span::from_us(*random.pick(&HOLDS_US));
        let (most, until) = match passes {
            true => (Span::from_ms(40), Some(Until::Changed { address: y.address, size: y.size })),
            false => (hold, None),
        };
        let theirs = Stop { until, ..Stop::new(other.cpu, other.at, most) };
        let own = Stop::new(store.cpu, y.at + 1, Span::from_us(*random.pick(&HOLDS_US)));
        let late = Late { cpu: store.cpu, at: store.at, all: !passes };
        Some(Given { late: vec![late], ..Given::with(vec![theirs, own]) })
    }

    /// A store that is late, and a stop while it is.
    pub(super) fn draw(&self, conflicts: &Conflicts, random: &mut Random) -> Option<Given> {
        if random.below(2) == 0
            && let Some(given) = self.pair(random)
        {
            return Some(given);
        }
        let store = self.lines.pick(random)?;
        let all = self.is_tso || store.one_to == store.at || random.below(2) == 0;
        let to = if all { store.all_to } else { store.one_to };
        let at = match random.below(2) {
            0 => to,
            _ => store.at + 1 + random.below(to - store.at),
        };
        let stop: Stop = conflicts.while_late(store.cpu, (store.at, at), random);
        let late = vec![Late { cpu: store.cpu, at: store.at, all }];
        Some(Given { late, ..Given::with(vec![stop]) })
    }

    #[cfg(test)]
    fn all(&self) -> Vec<(u64, u64, u64)> {
        self.lines.members().iter().map(|store| (store.at, store.one_to, store.all_to)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(cpu: u16, at: u32, address: u64, kind: u8) -> RaceEvent {
        RaceEvent { cpu, at, address, kind, size: 4, code: u64::from(at), ..RaceEvent::default() }
    }

    /// cpu0 stores 0x100, passes a lock, stores 0x200, gives the lock up, and comes to a full barrier.
    fn events() -> Vec<RaceEvent> {
        vec![
            event(1, 1, 0x100, 5),
            event(0, 1, 0x100, 8),
            event(0, 2, 0x300, LOCK),
            event(0, 3, 0x200, 6),
            event(0, 3, 0x300, SAYS_RELEASE),
            event(0, 4, 0x300, 3),
            event(0, 5, 0x100, 5),
            event(0, 5, 0, SAYS_MB),
            event(0, 6, 0x100, 5),
        ]
    }

    #[test]
    fn a_store_is_late_up_to_what_orders_it() {
        let stores = Stores::of(&events(), MemoryModel::Lkmm);
        // nobody else looks at 0x200
        assert_eq!(stores.all(), [(1, 4, 6)]);
        let stores = Stores::of(&events(), MemoryModel::Tso);
        assert_eq!(stores.all(), [(1, 2, 2)]);
        assert!(Stores::of(&events(), MemoryModel::Sc).all().is_empty());
    }

    #[test]
    fn a_draw_stops_while_the_store_is_late() {
        let events = events();
        let (stores, conflicts) = (Stores::of(&events, MemoryModel::Lkmm), Conflicts::of(&events, 2));
        let mut random = Random::for_part(1, 1);
        let drawn: Vec<Given> = (0..200).filter_map(|_| stores.draw(&conflicts, &mut random)).collect();
        assert_eq!(drawn.len(), 200);
        for Given { stops, late, .. } in &drawn {
            let [Late { cpu: 0, at: 1, all }] = late[..] else { panic!("{late:?}") };
            assert!((2..=if all { 6 } else { 4 }).contains(&stops[0].at), "{stops:?}");
        }
        assert!(drawn.iter().any(|given| given.stops[0].at == 6));
    }
}
