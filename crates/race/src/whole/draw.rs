//! Which stops are tried? Drawn from the seed and the schedule's number alone.
//!
//! A stop is of use before an access to memory that another CPU changes, too. Those are known from the schedule
//! without stops, whose accesses are recorded:
//!
//! ```text
//! cpu0's 812th point   load t->on_rq       cpu1 stores there: shared
//! cpu0's 813th point   load t->comm        nobody stores: not drawn, save now and then
//! ```

use std::collections::BTreeMap;

use schedlab_linux::race::RaceEvent;
use schedlab_stdx::Random;
use schedlab_units::Span;

use super::order::Stop;
use crate::strategy::Strategy;

/// How long a CPU stands, most often until nothing else happens at this instant: then the shortest lengths of the
/// scheduler's own, a tick of 4 ms, and more than RCU's grace periods take.
const HOLDS_US: [u64; 12] = [0, 0, 0, 0, 0, 0, 10, 100, 1000, 4100, 12_000, 40_000];
/// One stop in so many is drawn from all points.
const ANY_IN: u64 = 8;
/// Most stops of a random walk.
const WALK_MAX: u64 = 40;

/// Where CPUs can stop.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Per CPU: the points at which what it touches is shared.
    shared: Vec<Vec<u64>>,
    /// Per CPU: all its points.
    all: Vec<u64>,
}

impl Places {
    /// From the schedule without stops.
    pub(super) fn of(events: &[RaceEvent], all: Vec<u64>) -> Places {
        // by words of 8 bytes: who touches them, and who writes (bits)
        let mut words: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let is_write = |kind: u8| matches!(kind, 1 | 2 | 3 | 6 | 8);
        for event in events.iter().filter(|e| e.address != 0 && e.is_point()) {
            let bit = 1u64 << (event.cpu & 63);
            let word = words.entry(event.address >> 3).or_default();
            word.0 |= bit;
            if is_write(event.what()) {
                word.1 |= bit;
            }
        }
        let mut shared = vec![Vec::new(); all.len()];
        for event in events.iter().filter(|e| e.address != 0 && e.is_point()) {
            let bit = 1u64 << (event.cpu & 63);
            let (touched, written) = words[&(event.address >> 3)];
            let others = if is_write(event.what()) { touched } else { written };
            if others & !bit != 0
                && let Some(list) = shared.get_mut(usize::from(event.cpu))
            {
                list.push(u64::from(event.at));
            }
        }
        Places { shared, all }
    }

    /// Points in all, and those at which what is touched is shared.
    pub(super) fn count(&self) -> (u64, u64) {
        (self.all.iter().sum(), self.shared.iter().map(|s| s.len() as u64).sum())
    }

    fn one(&self, random: &mut Random) -> Option<Stop> {
        let weight = |n: usize| self.shared[n].len() as u64;
        let total: u64 = (0..self.all.len()).map(weight).sum();
        if total == 0 || random.below(ANY_IN) == 0 {
            let cpus: Vec<usize> = (0..self.all.len()).filter(|n| self.all[*n] > 0).collect();
            let cpu = *cpus.get(random.below(cpus.len().max(1) as u64) as usize)?;
            let at = 1 + random.below(self.all[cpu]);
            return Some(Stop { cpu: cpu as u32, at, hold: hold(random) });
        }
        let mut place = random.below(total);
        for cpu in 0..self.all.len() {
            match place.checked_sub(weight(cpu)) {
                Some(rest) => place = rest,
                None => {
                    let at = self.shared[cpu][place as usize];
                    return Some(Stop { cpu: cpu as u32, at, hold: hold(random) });
                }
            }
        }
        None
    }

    /// The stops of schedule `index`; `None`: there is no such.
    pub(super) fn draw(&self, strategy: Strategy, seed: u64, index: u64) -> Option<Vec<Stop>> {
        let mut random = Random::for_part(seed, index);
        let nr = match strategy {
            Strategy::Pct(depth) => u64::from(depth.max(2) - 1),
            Strategy::Random => 1 + random.below(WALK_MAX),
            Strategy::Bounded(_) | Strategy::Dpor => return self.nth(index).map(|stop| vec![stop]),
            Strategy::Mix | Strategy::Pos => match index % 4 {
                0 => 1 + random.below(WALK_MAX),
                1 => 1,
                2 => 2,
                _ => 3,
            },
        };
        let mut stops: Vec<Stop> = (0..nr).filter_map(|_| self.one(&mut random)).collect();
        stops.sort_by_key(|stop| (stop.cpu, stop.at));
        stops.dedup_by_key(|stop| (stop.cpu, stop.at));
        Some(stops)
    }

    /// The schedule with one stop of this number: all shared points, one CPU's after the other's.
    fn nth(&self, mut index: u64) -> Option<Stop> {
        for (cpu, points) in self.shared.iter().enumerate() {
            match index.checked_sub(points.len() as u64) {
                Some(rest) => index = rest,
                None => {
                    return Some(Stop { cpu: cpu as u32, at: points[index as usize], hold: Span::ZERO });
                }
            }
        }
        None
    }
}

fn hold(random: &mut Random) -> Span {
    Span::from_us(*random.pick(&HOLDS_US))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(cpu: u16, at: u32, address: u64, kind: u8) -> RaceEvent {
        RaceEvent { cpu, at, address, kind, ..RaceEvent::default() }
    }

    /// cpu0 loads 0x100 and 0x200; cpu1 stores 0x100 only: one point of each is shared.
    #[test]
    fn points_of_shared_memory_are_drawn() {
        let events = [event(0, 1, 0x100, 5), event(0, 2, 0x200, 5), event(1, 1, 0x100, 6)];
        let places = Places::of(&events, vec![2, 1]);
        assert_eq!(places.count(), (3, 2));
        let all: Vec<_> = (0..3).map(|n| places.draw(Strategy::Bounded(1), 1, n)).collect();
        let stop = |cpu, at| Some(vec![Stop { cpu, at, hold: Span::ZERO }]);
        assert_eq!(all, [stop(0, 1), stop(1, 1), None]);
        assert_eq!(places.draw(Strategy::Pct(3), 7, 5), places.draw(Strategy::Pct(3), 7, 5));
        assert!(places.draw(Strategy::Pct(3), 7, 5).unwrap().len() <= 2);
    }
}
