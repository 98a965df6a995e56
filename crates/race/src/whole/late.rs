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
//!
//! Where both CPUs hold one lock, it orders them, and there is nothing to draw: so it is in 35,915 of 38,749 pairs of
//! `delayed-woken`. Of message passing one line in so many has what is stored last, for few lines are looked at without
//! their lock. Half the time all that was stored before is late: who passes it on may be a third CPU, which no schedule
//! without stops has.

use std::collections::HashMap;

use schedlab_linux::race::{RELAXED, RaceEvent, SAYS_MB, SAYS_RELEASE, SAYS_STORE_RELEASE, SAYS_WMB};
use schedlab_stdx::Random;

use super::conflict::{Conflicts, Held};
use super::groups::Groups;
use super::hb::ByAddress;
use super::order::{Given, Late, Stop, Until};
use crate::memory::MemoryModel;
use schedlab_units::Span;

const ATOMIC: u8 = 1;
const LOCK: u8 = 2;

/// How many points behind what it stores the other CPU's load is at most.
const BEHIND: u64 = 64;
/// How many accesses of a place are looked at, before the CPU's own in time and behind it.
const NEAR: usize = 24;
/// How many accesses behind a store.
const NEXT: usize = 64;
/// Of a line's stores so many are looked at, and of three lines so many pairs are kept.
const STORES_MAX: usize = 32;
const PAIRS_MAX: usize = 12;
/// How long a CPU stands until memory changes, at most.
const MOST: Span = Span::from_ms(40);
/// How long it stands else.
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
    /// The locks that its CPU holds, as bits.
    locks: u128,
}

/// A store that another CPU looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Store {
    access: Access,
    /// The last point at which it is late, alone and with those behind it.
    one_to: u64,
    all_to: u64,
}

impl std::ops::Deref for Store {
    type Target = Access;
    fn deref(&self) -> &Access {
        &self.access
    }
}

/// The stores that may be late.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    /// By line of code.
    lines: Groups<Store>,
    /// In order, by CPU and by address.
    by_cpu: Vec<Vec<Access>>,
    by_address: ByAddress<Vec<Access>>,
    /// Those that may be late alone, in order, by CPU.
    alone: Vec<Vec<Store>>,
    /// Of a store that is late with those behind it, by their three lines.
    buffered: Groups<Pair>,
    /// Of one that is late alone, by the line of what is stored behind it.
    passed: Groups<Pair>,
    is_tso: bool,
}

/// A store, what its CPU loads or stores next, and the opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    store: Store,
    y: Access,
    other: Access,
    /// A number for the three lines.
    lines: u64,
}

/// A few pairs for each three lines that they are made with.
fn a_few(pairs: impl Iterator<Item = Pair>) -> Vec<Pair> {
    let mut known: HashMap<(u64, u64, u64), (u64, usize)> = HashMap::new();
    let a_few = |pair: Pair| {
        let next = known.len() as u64;
        let (lines, times) =
            known.entry((pair.store.code, pair.y.code, pair.other.code)).or_insert((next, 0));
        *times += 1;
        (*times <= PAIRS_MAX).then_some(Pair { lines: *lines, ..pair })
    };
    pairs.filter_map(a_few).collect()
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
        let mut held = Held::default();
        for (index, event) in events.iter().enumerate() {
            let locks = held.after(event);
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
            let access = Access { index, code: event.code, cpu, at, address, size, loads, stores, locks };
            by_cpu[usize::from(event.cpu & 63)].push(access);
            by_address.entry(address).or_default().push(access);
            if is_store {
                alone.push(found.len());
                all.push(found.len());
                found.push(Store { access, one_to: at, all_to: at });
            }
        }
        found.retain(|store| store.all_to > store.at);
        let mut alone = vec![Vec::new(); 64];
        for store in found.iter().filter(|store| !is_tso && store.one_to > store.at) {
            alone[store.cpu as usize & 63].push(*store);
        }
        let lines = Groups::of(found, |store| store.code);
        let stores = Stores { lines, by_cpu, by_address, alone, is_tso, ..Stores::default() };
        let [buffered, passed] = stores.pairs();
        Stores { buffered, passed, ..stores }
    }

    /// The CPU's accesses behind point `from`, up to point `to`.
    fn between(&self, cpu: u32, from: u64, to: u64) -> &[Access] {
        let all = self.by_cpu.get(cpu as usize).map_or(&[][..], Vec::as_slice);
        let begin = all.partition_point(|access| access.at <= from);
        &all[begin..begin + all[begin..].partition_point(|access| access.at <= to)]
    }

    /// The last access before this one in time of those that fit, and the first behind it, of the same memory.
    fn beside(&self, y: &Access, fits: impl Fn(&&Access) -> bool) -> [Option<Access>; 2] {
        let all = self.by_address.get(&y.address).map_or(&[][..], Vec::as_slice);
        let here = all.partition_point(|access| access.index < y.index);
        let before = all[here.saturating_sub(NEAR)..here].iter().rev().find(&fits).copied();
        let behind = all[here..(here + NEAR).min(all.len())].iter().find(&fits).copied();
        [before, behind]
    }

    /// The pairs of a store that is late with those behind it. Where both CPUs hold one lock at either place, that
    /// orders them.
    fn buffered_behind(&self, x: &Store) -> impl Iterator<Item = Pair> + use<'_> {
        let x = *x;
        let next = self.between(x.cpu, x.at, x.all_to).iter().take(NEXT);
        next.filter(move |y| y.address != x.address && y.loads).flat_map(move |y| {
            let loads =
                move |then: &Access| then.address == x.address && then.loads && then.locks & x.locks == 0;
            let fits = |other: &&Access| {
                let is_free = other.cpu != y.cpu && other.stores && other.locks & y.locks == 0;
                is_free && self.between(other.cpu, other.at, other.at + BEHIND).iter().any(loads)
            };
            let pair = move |other| Pair { store: x, y: *y, other, lines: 0 };
            self.beside(y, fits).into_iter().flatten().map(pair)
        })
    }

    /// The pairs of a store that is late alone: what is stored behind it, and who looks at that without its lock.
    fn passed_behind(&self, x: &Store) -> impl Iterator<Item = Pair> + use<'_> {
        let x = *x;
        let next = self.between(x.cpu, x.at, x.one_to).iter().take(NEXT);
        next.filter(move |y| y.address != x.address && y.stores).flat_map(move |y| {
            let fits = |other: &&Access| other.cpu != y.cpu && other.loads && other.locks & y.locks == 0;
            let pair = move |other| Pair { store: x, y: *y, other, lines: 0 };
            self.beside(y, fits).into_iter().flatten().map(pair)
        })
    }

    /// Stores of each line, spread over the schedule.
    fn spread(&self) -> impl Iterator<Item = &Store> {
        self.lines.groups().flat_map(|line| line.iter().step_by(line.len().div_ceil(STORES_MAX)))
    }

    /// Those of late stores, and those of a store that is late alone.
    fn pairs(&self) -> [Groups<Pair>; 2] {
        let is_loaded = |x: &&Store| {
            let all = self.by_address.get(&x.address).map_or(&[][..], Vec::as_slice);
            let is_free = |then: &Access| then.cpu != x.cpu && then.loads && then.locks & x.locks == 0;
            !self.is_tso && x.one_to > x.at && all.iter().any(is_free)
        };
        let buffered = a_few(self.spread().flat_map(|x| self.buffered_behind(x)));
        let passed = a_few(self.spread().filter(is_loaded).flat_map(|x| self.passed_behind(x)));
        [Groups::of(buffered, |pair| pair.lines), Groups::of(passed, |pair| pair.y.code)]
    }

    /// A late store, a stop behind what its CPU does next, and a stop of another CPU that does the opposite.
    fn buffering(&self, random: &mut Random) -> Option<Given> {
        let Pair { store, y, other, .. } = self.buffered.pick(random)?;
        let mut hold = || Span::from_us(*random.pick(&HOLDS_US));
        let own = Stop::new(store.cpu, y.at + 1, hold());
        let theirs = Stop::new(other.cpu, other.at, hold());
        let late = Late { cpu: store.cpu, at: store.at, all: true };
        Some(Given { late: vec![late], ..Given::with(vec![theirs, own]) })
    }

    /// A store that is seen before those that its CPU made earlier, and the CPU's stop behind it, half the time until
    /// somebody changes what it stored. Half the time all earlier ones are late.
    fn passing(&self, random: &mut Random) -> Option<Given> {
        let Pair { store, y, other, .. } = self.passed.pick(random)?;
        let earlier = self.alone.get(store.cpu as usize).map_or(&[][..], Vec::as_slice);
        let earlier = &earlier[..earlier.partition_point(|x| x.at < y.at)];
        let is_late = |x: &&Store| x.one_to >= y.at && x.address != y.address;
        let all = earlier.iter().rev().take(NEXT).filter(is_late).map(|x| x.at);
        let late: Vec<u64> = if random.below(2) == 0 { all.collect() } else { vec![store.at] };
        let changes = Some(Until::Changed { address: y.address, size: y.size });
        let own = match random.below(2) {
            0 => Stop::new(store.cpu, y.at + 1, Span::from_us(*random.pick(&HOLDS_US))),
            _ => Stop { until: changes, ..Stop::new(store.cpu, y.at + 1, MOST) },
        };
        // who looks later sees the change without a stop
        let theirs = (other.index < y.index && random.below(2) == 0)
            .then(|| Stop { until: changes, ..Stop::new(other.cpu, other.at, MOST) });
        let late = late.into_iter().rev().map(|at| Late { cpu: store.cpu, at, all: false }).collect();
        Some(Given { late, ..Given::with(theirs.into_iter().chain([own]).collect()) })
    }

    /// A store that is late, and a stop while it is.
    pub(super) fn draw(&self, conflicts: &Conflicts, random: &mut Random) -> Option<Given> {
        let pair = match random.below(4) {
            0 => self.buffering(random),
            1 => self.passing(random),
            _ => None,
        };
        if pair.is_some() {
            return pair;
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
    use crate::whole::event;
    use schedlab_linux::race::SAYS_LOCKED;

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

    /// cpu0 stores 0x100, 0x108 and 0x110 under lock 0x300, cpu1 looks at 0x110 and 0x100, under that lock or without.
    fn passing(locked: bool) -> Stores {
        let mut events = vec![
            event(0, 1, 0x300, SAYS_LOCKED),
            event(0, 1, 0x100, 6),
            event(0, 2, 0x108, 6),
            event(0, 3, 0x110, 8),
            event(0, 4, 0x300, SAYS_RELEASE),
            event(0, 5, 0, SAYS_MB),
            event(1, 1, 0x110, 7),
            event(1, 2, 0x108, 5),
            event(1, 3, 0x100, 5),
        ];
        if locked {
            events.insert(6, event(1, 1, 0x300, SAYS_LOCKED));
        }
        Stores::of(&events, MemoryModel::Lkmm)
    }

    #[test]
    fn what_is_stored_last_overtakes_all_that_was_stored_before() {
        let mut random = Random::for_part(1, 1);
        let stores = passing(false);
        let drawn: Vec<Given> = (0..200).filter_map(|_| stores.passing(&mut random)).collect();
        let late = |given: &Given| given.late.iter().map(|late| late.at).collect::<Vec<_>>();
        // behind the store at 3 stands its CPU, and what it stored at 1 and 2 is late
        let both = drawn.iter().find(|given| late(given) == [1, 2]).unwrap();
        assert_eq!((both.stops.last().unwrap().cpu, both.stops.last().unwrap().at), (0, 4));
        assert!(drawn.iter().any(|given| late(given) == [1]));
        assert!(drawn.iter().flat_map(|given| &given.late).all(|late| !late.all && late.cpu == 0));
        assert!(passing(true).passing(&mut random).is_none(), "the lock orders them");
    }
}
