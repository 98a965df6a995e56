//! Which stops are tried? Drawn from the seed and the schedule's number alone.
//!
//! A stop is of use before an access to memory that another CPU changes, too. Those are known from the schedule
//! without stops, whose accesses are recorded:
//!
//! ```text
//! cpu0's 812th point   load t->on_rq       cpu1 stores there: shared
//! cpu0's 813th point   load t->comm        nobody stores: not drawn, save now and then
//! ```
//!
//! Half of the other schedules of a mix stop by line of code, so that a line which runs once is stopped at as often as
//! one that runs a thousand times, and near another stop. One block in six begins with a *trunk*: a few stops, whose
//! schedule is recorded as well. What comes behind these stops is another run, with places that the first one does not
//! have; the block's schedules stop there, too.
//!
//! ```text
//! without stops   cpu0 pushes a task
//! trunk           cpu0 ┤ gives its queue's lock up: the task runs, and sleeps ├ takes the lock again
//! of its block    ...                              the same, and ┤ between two looks at the task ├
//! ```
//!
//! One block in six has its first stop in a *window*: a CPU gives a lock up and takes it again a few points later.
//! What it knew before may not hold any more, so it looks again, and its second stop is between these looks:
//!
//! ```text
//! cpu0  pushes t: gives cpu1's queue up ┤ t runs, and sleeps ├ takes both queues; is t there? ┤ ... ├ is t queued?
//! ```
//!
//! In one block in six stops end when another CPU changes what is looked at (conflict.rs), one is of random walks with
//! up to 40 stops, and in one the order of accesses is drawn (pos.rs).

use std::collections::HashMap;

use schedlab_linux::race::{RaceEvent, SAYS_LOCKED, SAYS_RELEASE};
use schedlab_stdx::Random;
use schedlab_units::Span;

use super::conflict::Conflicts;
use super::groups::Groups;
use super::hb::ByAddress;
use super::late::Stores;
use super::order::{Given, Stop, Until};
use crate::strategy::Strategy;

/// How long a CPU stands, most often until nothing else happens at this instant: then the shortest lengths of the
/// scheduler's own, a tick of 4 ms, and more than RCU's grace periods take.
const HOLDS_US: [u64; 12] = [0, 0, 0, 0, 0, 0, 10, 100, 1000, 4100, 12_000, 40_000];
/// How long a CPU stands in a window: long enough that others get there.
const WINDOW_HOLDS_US: [u64; 8] = [0, 10, 100, 100, 100, 1000, 1000, 4100];
/// How long the stop of an exhaustive search lasts if what would end it does not come.
const ONE_STOP_MOST: Span = Span::from_us(40_000);
/// One stop in so many is drawn from all points.
const ANY_IN: u64 = 8;
/// Most stops of a random walk.
const WALK_MAX: u64 = 40;

/// Late stores are drawn from a stream of their own, and so are priorities of accesses.
const LATE_SEED: u64 = 0x1a7e_1a7e;
const PRIORITY_SEED: u64 = 0x9051_9051;

/// Schedules of a block, of which one in six has a trunk.
pub(super) const BLOCK: u64 = 32;
/// Kinds of blocks: drawn one by one, grown from a trunk, in windows, by conflict, walks of many stops, by priorities
/// of accesses.
const KINDS: u64 = 6;
/// Which of them is by priorities of accesses.
const BY_PRIORITIES: u64 = 5;
/// Trunks that are recorded for a block; the one that comes to most new lines is taken.
pub(super) const TRUNKS: u64 = 3;
/// How many points of its CPU a stop that is near another one is away at most.
const NEAR: u64 = 64;

/// Most points between a lock's release and its CPU's next hold of it in a window.
const WINDOW_MAX: u64 = 20;
/// A window is known by what its CPU does so many points behind it: locks are taken in a few functions.
const WINDOW_KEY: usize = 8;
/// How far behind a window its CPU looks again.
const LOOKS: u64 = 32;

/// A CPU gives a lock up behind point `from`, and has it again behind point `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    key: u64,
    cpu: u32,
    from: u64,
    to: u64,
}

/// A point at which what is touched is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shared {
    code: u64,
    cpu: u32,
    at: u64,
}

/// A point of some CPU with the memory that it touches.
#[derive(Clone, Copy, Debug)]
struct Touched {
    at: u64,
    address: u64,
    size: u8,
}

/// Whether a point's kind stores.
fn is_write(kind: u8) -> bool {
    matches!(kind, 1 | 2 | 3 | 6 | 8)
}

/// By words of 8 bytes: who touches them, and who writes (bits).
fn touched_words(events: &[RaceEvent]) -> ByAddress<(u64, u64)> {
    let mut words: ByAddress<(u64, u64)> = HashMap::default();
    for event in events.iter().filter(|e| e.address != 0 && e.is_point()) {
        let bit = 1u64 << (event.cpu & 63);
        let word = words.entry(event.address >> 3).or_default();
        word.0 |= bit;
        if is_write(event.what()) {
            word.1 |= bit;
        }
    }
    words
}

/// Words of 8 bytes that one CPU touches alone, or that nobody writes.
pub(super) fn private_words(events: &[RaceEvent]) -> Vec<u64> {
    let is_shared = |(touched, written): (u64, u64)| written != 0 && touched & (touched - 1) != 0;
    let words = touched_words(events).into_iter();
    words.filter(|(_, by)| !is_shared(*by)).map(|(word, _)| word).collect()
}

/// Where CPUs can stop.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// The points at which what is touched is shared, by line of code.
    lines: Groups<Shared>,
    /// Of the schedule without stops: its windows by their keys.
    windows: Groups<Window>,
    /// Per CPU, in order: the points at which what it touches is shared.
    shared: Vec<Vec<Touched>>,
    /// Per CPU: all its points.
    all: Vec<u64>,
    /// Of the schedule without stops.
    conflicts: Conflicts,
}

impl Places {
    /// From the schedule without stops.
    pub(super) fn of(events: &[RaceEvent], all: Vec<u64>) -> Places {
        let conflicts = Conflicts::of(events, all.len());
        let windows = Groups::of(windows(events), |window| window.key);
        Places { windows, conflicts, ..Places::behind(events, all, &[]) }
    }

    /// From the schedule of a trunk: what comes behind the first of its stops.
    pub(super) fn behind(events: &[RaceEvent], all: Vec<u64>, trunk: &[Stop]) -> Places {
        let is_stop = |e: &RaceEvent| {
            trunk.iter().any(|stop| stop.cpu == u32::from(e.cpu) && stop.at <= u64::from(e.at))
        };
        let begin = if trunk.is_empty() { Some(0) } else { events.iter().position(is_stop) };
        let events = &events[begin.unwrap_or(events.len())..];
        let words = touched_words(events);
        let mut shared = vec![Vec::new(); all.len()];
        let mut by_code = Vec::new();
        for event in events.iter().filter(|e| e.address != 0 && e.is_point()) {
            let bit = 1u64 << (event.cpu & 63);
            let (touched, written) = words[&(event.address >> 3)];
            let others = if is_write(event.what()) { touched } else { written };
            if others & !bit != 0
                && let Some(list) = shared.get_mut(usize::from(event.cpu))
            {
                let (cpu, at) = (u32::from(event.cpu), u64::from(event.at));
                list.push(Touched { at, address: event.address, size: event.size });
                by_code.push(Shared { code: event.code, cpu, at });
            }
        }
        let lines = Groups::of(by_code, |point| point.code);
        Places { lines, shared, all, ..Places::default() }
    }

    /// Lines of code at which what is touched is shared, and that `other` has not.
    pub(super) fn new_lines(&self, other: &Places) -> usize {
        self.lines.nr_missing(&other.lines)
    }

    /// Points in all, and those at which what is touched is shared.
    pub(super) fn count(&self) -> (u64, u64) {
        (self.all.iter().sum(), self.nr_shared())
    }

    fn one(&self, random: &mut Random) -> Option<Stop> {
        let total = self.nr_shared();
        if total == 0 || random.below(ANY_IN) == 0 {
            let cpus: Vec<usize> = (0..self.all.len()).filter(|n| self.all[*n] > 0).collect();
            let cpu = *cpus.get(random.below(cpus.len().max(1) as u64) as usize)?;
            let at = 1 + random.below(self.all[cpu]);
            return Some(Stop::new(cpu as u32, at, hold(random)));
        }
        let (cpu, point) = self.nth_shared(random.below(total))?;
        Some(Stop::new(cpu, point.at, hold(random)))
    }

    /// How many shared points all CPUs have.
    fn nr_shared(&self) -> u64 {
        self.shared.iter().map(|points| points.len() as u64).sum()
    }

    /// The shared point of this number, one CPU's after the other's, and whose it is.
    fn nth_shared(&self, mut number: u64) -> Option<(u32, Touched)> {
        for (cpu, points) in self.shared.iter().enumerate() {
            match number.checked_sub(points.len() as u64) {
                Some(rest) => number = rest,
                None => return Some((cpu as u32, points[number as usize])),
            }
        }
        None
    }

    /// A line of code, each with equal chances; then one of its points.
    fn by_line(&self, random: &mut Random) -> Option<Stop> {
        match self.lines.pick(random) {
            Some(point) => Some(Stop::new(point.cpu, point.at, hold(random))),
            None => self.one(random),
        }
    }

    /// Stops in a window, of each kind with equal chances, most often between the looks behind it, and now and then
    /// anywhere.
    fn in_window(&self, random: &mut Random) -> Vec<Stop> {
        let Some(Window { cpu, from, to, .. }) = self.windows.pick(random) else {
            return self.with_mixed(Vec::new(), 1 + random.below(3), random);
        };
        let at = from + 1 + random.below((to - from).max(1));
        let long = Span::from_us(*random.pick(&WINDOW_HOLDS_US));
        let mut stops = vec![Stop::new(cpu, at, long)];
        if random.below(3) > 0 {
            let behind = Stop::new(cpu, to, Span::ZERO);
            stops.extend(self.within(&behind, LOOKS, random));
        }
        let more = u64::from(random.below(3) == 0);
        self.with_mixed(stops, more, random)
    }

    /// One or two stops that end when another CPU changes what is looked at, and now and then another one. The first
    /// stands in a window as often as not.
    fn by_conflict(&self, random: &mut Random) -> Vec<Stop> {
        let in_window = |random: &mut Random| {
            let window = self.windows.pick(random)?;
            let window_of = (window.from, window.to);
            let (stop, memory) = self.conflicts.in_window(window.cpu, window_of, LOOKS, random)?;
            Some((stop, memory, window.to))
        };
        let at_line = |random: &mut Random| {
            self.conflicts.by_line(random).map(|(stop, memory)| (stop, memory, stop.at))
        };
        let first = if random.below(2) == 0 { in_window(random) } else { None };
        let Some((first, memory, from)) = first.or_else(|| at_line(random)) else {
            return self.with_mixed(Vec::new(), 1 + random.below(3), random);
        };
        let mut stops = vec![first];
        if random.below(3) > 0 {
            stops.extend(self.conflicts.second(first.cpu, from, memory, random));
        }
        let more = u64::from(random.below(4) == 0);
        self.with_mixed(stops, more, random)
    }

    /// A stop of the same CPU, a little later.
    fn near(&self, stop: &Stop, random: &mut Random) -> Option<Stop> {
        self.within(stop, NEAR, random)
    }

    /// A stop of the same CPU, so many points later at most.
    fn within(&self, stop: &Stop, most: u64, random: &mut Random) -> Option<Stop> {
        let points = self.shared.get(stop.cpu as usize)?;
        let from = points.partition_point(|point| point.at <= stop.at);
        let to = points.partition_point(|point| point.at <= stop.at + most);
        let at = points.get(from..to).filter(|near| !near.is_empty()).map(|near| random.pick(near).at)?;
        Some(Stop::new(stop.cpu, at, hold(random)))
    }

    /// A stop by line, or near one of these.
    fn mixed(&self, stops: &[Stop], random: &mut Random) -> Option<Stop> {
        match random.below(3) {
            0 if !stops.is_empty() => {
                let stop = *random.pick(stops);
                self.near(&stop, random).or_else(|| self.by_line(random))
            }
            1 => self.one(random),
            _ => self.by_line(random),
        }
    }

    /// These stops, and so many more by line or near another.
    fn with_mixed(&self, mut stops: Vec<Stop>, more: u64, random: &mut Random) -> Vec<Stop> {
        for _ in 0..more {
            stops.extend(self.mixed(&stops, random));
        }
        in_order(stops)
    }

    /// The trunk of this number of a block's; `None`: the block has none.
    pub(super) fn trunk(&self, strategy: Strategy, seed: u64, block: u64, number: u64) -> Option<Vec<Stop>> {
        if !is_mixed(strategy) || block % KINDS != 1 {
            return None;
        }
        // as far from the schedules' own numbers as can be
        let mut random = Random::for_part(seed, u64::MAX - (block * TRUNKS + number));
        let nr = 1 + random.below(2);
        Some(self.with_mixed(Vec::new(), nr, &mut random))
    }

    /// The trunk with one to three more stops; the block's first schedule is the trunk alone. These are the trunk's
    /// places.
    pub(super) fn grown(&self, trunk: &[Stop], seed: u64, index: u64) -> Vec<Stop> {
        if index.is_multiple_of(BLOCK) {
            return trunk.to_vec();
        }
        let mut random = Random::for_part(seed, index);
        let more = 1 + random.below(3);
        self.with_mixed(trunk.to_vec(), more, &mut random)
    }

    /// Under a weak model, three schedules of four have a late store and a stop while it is late; half of these keep
    /// the stops that were drawn, too.
    pub(super) fn with_late(&self, stops: Vec<Stop>, stores: &Stores, seed: u64, index: u64) -> Given {
        let mut random = Random::for_part(seed.wrapping_add(LATE_SEED), index);
        if index % 4 == 3 {
            return Given::with(stops);
        }
        let Some(mut given) = stores.draw(&self.conflicts, &mut random) else {
            return Given::with(stops);
        };
        if random.below(2) == 0 {
            given.stops.extend(stops);
        }
        given.stops = in_order(given.stops);
        given
    }

    /// From what number schedule `index` draws the priorities of its accesses, if it has them.
    pub(super) fn priorities(strategy: Strategy, seed: u64, index: u64) -> Option<u64> {
        let mut random = Random::for_part(seed.wrapping_add(PRIORITY_SEED), index);
        let is_drawn =
            strategy == Strategy::Pos || (is_mixed(strategy) && index / BLOCK % KINDS == BY_PRIORITIES);
        is_drawn.then(|| random.next_u64())
    }

    /// The stops of schedule `index`; `None`: there is no such.
    pub(super) fn draw(&self, strategy: Strategy, seed: u64, index: u64) -> Option<Vec<Stop>> {
        let mut random = Random::for_part(seed, index);
        let nr = match strategy {
            Strategy::Pct(depth) => u64::from(depth.max(2) - 1),
            Strategy::Random => 1 + random.below(WALK_MAX),
            Strategy::Bounded(_) | Strategy::Dpor => return self.nth(index).map(|stop| vec![stop]),
            Strategy::Pos => return Some(self.beside_priorities(index, &mut random)),
            Strategy::Mix | Strategy::Conflict => match index % 8 {
                0 => 1 + random.below(WALK_MAX),
                7 => 1 + random.below(8),
                more => 1 + (more - 1) % 3,
            },
        };
        match index / BLOCK % KINDS {
            _ if strategy == Strategy::Conflict => return Some(self.by_conflict(&mut random)),
            2 if is_mixed(strategy) => return Some(self.in_window(&mut random)),
            3 if is_mixed(strategy) => return Some(self.by_conflict(&mut random)),
            4 if is_mixed(strategy) => {
                let nr = 1 + random.below(WALK_MAX);
                return Some(self.walk(nr, &mut random));
            }
            BY_PRIORITIES if is_mixed(strategy) => return Some(self.beside_priorities(index, &mut random)),
            _ => {}
        }
        if is_mixed(strategy) && index % 8 >= 4 {
            return Some(self.with_mixed(Vec::new(), nr, &mut random));
        }
        Some(self.walk(nr, &mut random))
    }

    /// Where accesses have priorities: the other CPUs stand as these say, and a few stops come on top.
    fn beside_priorities(&self, index: u64, random: &mut Random) -> Vec<Stop> {
        let nr = match index % 4 {
            0 => 0,
            3 => 1 + random.below(8),
            _ => 1 + random.below(2),
        };
        self.walk(nr, random)
    }

    /// So many stops at shared points, each with equal chances.
    fn walk(&self, nr: u64, random: &mut Random) -> Vec<Stop> {
        in_order((0..nr).filter_map(|_| self.one(random)).collect())
    }

    /// The schedule with one stop of this number: all shared points with a stop until nothing else happens at this
    /// instant, then all with one until their memory changes, then all with one until an interrupt comes.
    fn nth(&self, index: u64) -> Option<Stop> {
        let nr = self.nr_shared();
        let (cpu, Touched { at, address, size }) = self.nth_shared(index.checked_rem(nr)?)?;
        let changes = (1..=8).contains(&size).then_some(Until::Changed { address, size });
        let (hold, until) = match index / nr {
            0 => (Span::ZERO, None),
            1 => (ONE_STOP_MOST, changes),
            2 => (ONE_STOP_MOST, Some(Until::Interrupt)),
            _ => return None,
        };
        Some(Stop { until, ..Stop::new(cpu, at, hold) })
    }
}

/// Whether a search takes all kinds of stops in turn.
fn is_mixed(strategy: Strategy) -> bool {
    strategy == Strategy::Mix
}

/// The windows of a schedule, with their keys: those of locks that several CPUs take.
fn windows(events: &[RaceEvent]) -> Vec<Window> {
    let mut takers: ByAddress<u64> = HashMap::default();
    for event in events.iter().filter(|e| e.what() == SAYS_LOCKED) {
        *takers.entry(event.address).or_default() |= 1 << (event.cpu & 63);
    }
    // by CPU and lock: behind which point it was given up
    let mut given_up: HashMap<(u16, u64), u64> = HashMap::new();
    // by CPU: its points so far that are looked at, and where in them its windows end
    let mut codes: HashMap<u16, Vec<u64>> = HashMap::new();
    let mut found: Vec<(usize, Window)> = Vec::new();
    for event in events {
        let at = u64::from(event.at);
        match event.what() {
            SAYS_RELEASE => drop(given_up.insert((event.cpu, event.address), at)),
            SAYS_LOCKED if takers[&event.address].count_ones() > 1 => {
                let from = given_up.remove(&(event.cpu, event.address));
                let seen = codes.get(&event.cpu).map_or(0, Vec::len);
                if let Some(from) = from.filter(|from| at.saturating_sub(*from) <= WINDOW_MAX && at > *from) {
                    found.push((seen, Window { key: 0, cpu: u32::from(event.cpu), from, to: at }));
                }
            }
            _ if event.is_point() => codes.entry(event.cpu).or_default().push(event.code),
            _ => {}
        }
    }
    let key = |(seen, window): (usize, Window)| {
        let codes = codes.get(&(window.cpu as u16)).map_or(&[][..], |codes| codes);
        let key = codes.get(seen + WINDOW_KEY).or(codes.last()).copied().unwrap_or_default();
        Window { key, ..window }
    };
    found.into_iter().map(key).collect()
}

fn in_order(mut stops: Vec<Stop>) -> Vec<Stop> {
    stops.sort_by_key(|stop| (stop.cpu, stop.at));
    stops.dedup_by_key(|stop| (stop.cpu, stop.at));
    stops
}

fn hold(random: &mut Random) -> Span {
    Span::from_us(*random.pick(&HOLDS_US))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All by one line.
    fn event(cpu: u16, at: u32, address: u64, kind: u8) -> RaceEvent {
        RaceEvent { code: 0, ..crate::whole::event(cpu, at, address, kind) }
    }

    /// cpu0 loads 0x100 and 0x200; cpu1 stores 0x100 only: one point of each is shared.
    #[test]
    fn points_of_shared_memory_are_drawn() {
        let events = [event(0, 1, 0x100, 5), event(0, 2, 0x200, 5), event(1, 1, 0x100, 6)];
        let places = Places::of(&events, vec![2, 1]);
        assert_eq!(places.count(), (3, 2));
        let all: Vec<_> = (0..7).map(|n| places.draw(Strategy::Bounded(1), 1, n)).collect();
        let ends = |until| move |cpu| Some(vec![Stop { until, ..Stop::new(cpu, 1, ONE_STOP_MOST) }]);
        let at_once = |cpu| Some(vec![Stop::new(cpu, 1, Span::ZERO)]);
        let changed = ends(Some(Until::Changed { address: 0x100, size: 4 }));
        let interrupted = ends(Some(Until::Interrupt));
        let wanted = [at_once(0), at_once(1), changed(0), changed(1), interrupted(0), interrupted(1), None];
        assert_eq!(all, wanted);
        assert_eq!(Places::default().draw(Strategy::Bounded(1), 1, 0), None);
        assert_eq!(places.draw(Strategy::Pct(3), 7, 5), places.draw(Strategy::Pct(3), 7, 5));
        assert!(places.draw(Strategy::Pct(3), 7, 5).unwrap().len() <= 2);
    }

    /// cpu0 runs line 1 a thousand times and line 2 once; both are shared.
    #[test]
    fn a_rare_line_is_drawn_as_often_as_a_common_one() {
        let mut events: Vec<RaceEvent> = (1..=1000).map(|at| event(0, at, 0x100, 5)).collect();
        events.push(RaceEvent { code: 2, ..event(0, 1001, 0x100, 5) });
        events.push(event(1, 1, 0x100, 6));
        let places = Places::of(&events, vec![1001, 1]);
        let mut random = Random::for_part(1, 1);
        let rare = (0..1000).filter(|_| places.by_line(&mut random).unwrap().at == 1001).count();
        assert!((300..700).contains(&rare), "{rare}");
        let stop = Stop::new(0, 990, Span::ZERO);
        assert!((0..100).all(|_| (991..=1001).contains(&places.near(&stop, &mut random).unwrap().at)));
        assert_eq!(places.near(&Stop { at: 1001, ..stop }, &mut random), None);
    }

    /// cpu0 gives lock 0x500 up behind its 10th point and has it again behind its 12th; cpu1 writes what it looks at.
    #[test]
    fn a_lock_that_is_taken_again_makes_a_window() {
        let mut events: Vec<RaceEvent> = (1..=10).map(|at| event(0, at, 0x100, 5)).collect();
        events.push(event(0, 10, 0x500, SAYS_RELEASE));
        events.extend((11..=12).map(|at| event(0, at, 0x500, 2)));
        events.push(event(0, 12, 0x500, SAYS_LOCKED));
        events.push(event(1, 0, 0x500, SAYS_LOCKED));
        events.extend((13..=30).map(|at| RaceEvent { code: u64::from(at), ..event(0, at, 0x100, 5) }));
        events.push(event(1, 1, 0x100, 6));
        assert_eq!(windows(&events), [Window { key: 21, cpu: 0, from: 10, to: 12 }]);
        let places = Places::of(&events, vec![30, 1]);
        let mut random = Random::for_part(1, 1);
        let drawn: Vec<_> = (0..100).map(|_| places.in_window(&mut random)).collect();
        assert!(drawn.iter().all(|stops| stops.iter().any(|s| s.cpu == 0 && (11..=12).contains(&s.at))));
        assert!(drawn.iter().any(|stops| stops.iter().any(|s| s.at > 12)));
    }

    /// A trunk's places lie behind its first stop, and its block's schedules begin with it.
    #[test]
    fn a_blocks_schedules_grow_from_its_trunk() {
        let events: Vec<RaceEvent> =
            (1..=50).flat_map(|at| [event(0, at, 0x100, 6), event(1, at, 0x100, 6)]).collect();
        let trunk = [Stop::new(0, 40, Span::ZERO)];
        let places = Places::behind(&events, vec![50, 50], &trunk);
        assert_eq!(places.count(), (100, 22));
        assert_eq!(places.new_lines(&Places::default()), 1);
        assert_eq!(places.grown(&trunk, 1, 2 * BLOCK), trunk);
        for index in 1..BLOCK {
            let grown = places.grown(&trunk, 1, index);
            assert!(grown.contains(&trunk[0]) && grown.len() <= 4, "{grown:?}");
            assert_eq!(grown, places.grown(&trunk, 1, index));
        }
        let all = Places::of(&events, vec![50, 50]);
        assert_eq!(all.trunk(Strategy::Mix, 1, 2, 0), None);
        assert_eq!(all.trunk(Strategy::Pct(3), 1, 1, 0), None);
        assert!((1..=2).contains(&all.trunk(Strategy::Mix, 1, 1, 0).unwrap().len()));
    }
}
