//! Where do two CPUs meet? At memory that one looks at and another one changes.
//!
//! Of a recorded schedule the *looks* are kept: accesses to what another CPU has changed last, or changes next. What
//! goes from CPU to CPU with a task is so looked at only where it changes hands. A look is *free* if no lock is held
//! both there and at such a change: then the change can come right before the look, or right behind it.
//!
//! ```text
//! cpu0  holds a's lock:  t->on_rq = 1          cpu1  holds b's lock:  looks at t->on_rq    free
//! cpu0  holds a's lock:  t->on_rq = 0          cpu1  holds a's lock:  looks at t->on_rq    not free
//! ```
//!
//! A stop by conflict stands near a look until its memory changes, however long that takes. So two stops can match:
//!
//! ```text
//! cpu1  gives a queue up ┤ until t->on_rq changes ├ ... t's queue? ┤ until t->on_rq changes ├ is t queued?
//! cpu0                     t runs, and sleeps
//! cpu2                                                               wakes t
//! ```
//!
//! As RaceFuzzer (Sen, PLDI 2008) waits at one access for the other; by address as Snowboard (Gong, SOSP 2021).

use schedlab_linux::race::{RaceEvent, SAYS_LOCKED, SAYS_RELEASE};
use schedlab_stdx::Random;
use schedlab_units::Span;

use super::groups::Groups;
use super::hb::ByAddress;
use super::order::{Stop, Until};

/// How long a CPU stands if nothing changes.
const MOST_US: [u64; 6] = [100, 100, 1000, 1000, 4100, 40_000];
/// How far before a look, and behind it, a stop stands at most.
const BEFORE: u64 = 16;
const BEHIND: u64 = 8;
/// How far behind a stop the next look is.
const NEAR: u64 = 64;

/// An access to what another CPU changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    code: u64,
    cpu: u32,
    at: u64,
    address: u64,
    size: u8,
}

/// What is known of a place in memory.
#[derive(Default)]
struct Memory {
    /// Who changed it last.
    writer: Option<u16>,
    /// Looks since then, by their numbers.
    looks: Vec<usize>,
    /// Who changes it, and the locks that are held then.
    changes: Vec<(u16, u128)>,
}

/// Which locks each CPU holds, as bits: one a lock, in the order in which they are first taken. Those beyond 128 count
/// as none.
#[derive(Default)]
pub(super) struct Held {
    bits: ByAddress<u128>,
    cpus: Vec<u128>,
}

impl Held {
    /// The locks of this event's CPU behind it.
    pub(super) fn after(&mut self, event: &RaceEvent) -> u128 {
        let cpu = usize::from(event.cpu);
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, 0);
        }
        let mine = &mut self.cpus[cpu];
        let what = event.what();
        if matches!(what, SAYS_LOCKED | SAYS_RELEASE) {
            let next = 1u128.checked_shl(self.bits.len() as u32).unwrap_or(0);
            let bit = *self.bits.entry(event.address).or_insert(next);
            *mine = if what == SAYS_LOCKED { *mine | bit } else { *mine & !bit };
        }
        *mine
    }
}

/// Where CPUs meet.
#[derive(Clone, Debug, Default)]
pub(super) struct Conflicts {
    /// By line of code.
    all: Groups<Look>,
    free: Groups<Look>,
    /// Of each CPU, in order.
    by_cpu: Vec<Vec<Look>>,
}

impl Conflicts {
    pub(super) fn of(events: &[RaceEvent], nr_cpus: usize) -> Conflicts {
        let mut held = Held::default();
        let mut memory: ByAddress<Memory> = ByAddress::default();
        let mut looks: Vec<(Look, u128, bool)> = Vec::new();
        for event in events.iter().filter(|event| usize::from(event.cpu) < nr_cpus) {
            let locks = held.after(event);
            if (event.loads() || event.stores()) && event.address != 0 && (1..=8).contains(&event.size) {
                let RaceEvent { code, address, size, .. } = *event;
                let look = Look { code, cpu: u32::from(event.cpu), at: u64::from(event.at), address, size };
                let place = memory.entry(address).or_default();
                let of_other = place.writer.is_some_and(|cpu| cpu != event.cpu);
                looks.push((look, locks, of_other));
                place.looks.push(looks.len() - 1);
                if event.stores() {
                    let change = (event.cpu, locks);
                    if !place.changes.contains(&change) {
                        place.changes.push(change);
                    }
                    // whoever has looked since the last change has seen what this one ends
                    for seen in place.looks.drain(..) {
                        looks[seen].2 |= looks[seen].0.cpu != u32::from(event.cpu);
                    }
                    place.writer = Some(event.cpu);
                }
            }
        }
        let mut by_cpu = vec![Vec::new(); nr_cpus];
        let mut free = Vec::new();
        for (look, locks, _) in looks.into_iter().filter(|(.., near)| *near) {
            by_cpu[look.cpu as usize].push(look);
            let others = memory.get(&look.address).map_or(&[][..], |place| &place.changes);
            if others.iter().any(|(cpu, theirs)| u32::from(*cpu) != look.cpu && theirs & locks == 0) {
                free.push(look);
            }
        }
        let by_line = |looks| Groups::of(looks, |look: &Look| look.code);
        Conflicts { all: by_line(by_cpu.concat()), free: by_line(free), by_cpu }
    }

    /// Looks behind this point of a CPU, so many points at most.
    fn behind(&self, cpu: u32, at: u64, most: u64) -> &[Look] {
        let looks = self.by_cpu.get(cpu as usize).map_or(&[][..], Vec::as_slice);
        let from = looks.partition_point(|look| look.at <= at);
        &looks[from..from + looks[from..].partition_point(|look| look.at <= at + most)]
    }

    /// A stop in a window that ends, two times in three, when what some look behind it sees changes; and what the next
    /// stop is to look at.
    pub(super) fn in_window(
        &self,
        cpu: u32,
        (from, to): (u64, u64),
        most: u64,
        random: &mut Random,
    ) -> Option<(Stop, u64)> {
        let looks = self.behind(cpu, to, most);
        let look = (!looks.is_empty()).then(|| *random.pick(looks))?;
        let at = from + 1 + random.below((to - from).max(1));
        let until = (random.below(3) > 0).then(|| changed(&look, random));
        Some((Stop { until, ..Stop::new(cpu, at, most_of(random)) }, look.address))
    }

    /// A stop at a look of a line, a little before it or behind it.
    pub(super) fn by_line(&self, random: &mut Random) -> Option<(Stop, u64)> {
        let lines = if random.below(4) == 0 { &self.all } else { &self.free };
        let look = lines.pick(random).or_else(|| self.all.pick(random))?;
        let at = match random.below(4) {
            0 => look.at.saturating_sub(random.below(BEFORE)).max(1),
            1 | 2 => look.at + 1 + random.below(BEHIND),
            _ => look.at,
        };
        let until = if random.below(4) == 0 { Until::Interrupt } else { changed(&look, random) };
        Some((Stop { until: Some(until), ..Stop::new(look.cpu, at, most_of(random)) }, look.address))
    }

    /// A stop right before a later look of the same CPU, most often one at this memory.
    pub(super) fn second(&self, cpu: u32, from: u64, memory: u64, random: &mut Random) -> Option<Stop> {
        let looks = self.behind(cpu, from, NEAR);
        let same: Vec<Look> = looks.iter().filter(|look| look.address == memory).copied().collect();
        let look = match (same.is_empty(), looks.is_empty()) {
            (false, _) if random.below(3) > 0 => *random.pick(&same),
            (_, false) => *random.pick(looks),
            (_, true) => return None,
        };
        let stop = Stop::new(look.cpu, look.at, most_of(random));
        Some(Stop { until: Some(changed(&look, random)), ..stop })
    }

    /// A stop before point `to` of a CPU whose store at point `from` is late. It ends, two times in three, when another
    /// CPU changes what was looked at between, or an interrupt comes.
    pub(super) fn while_late(&self, cpu: u32, (from, to): (u64, u64), random: &mut Random) -> Stop {
        let looks = self.behind(cpu, from, to - from);
        let until = match random.below(6) {
            0 | 1 => None,
            2 => Some(Until::Interrupt),
            _ => (!looks.is_empty()).then(|| changed(random.pick(looks), random)),
        };
        Stop { until, ..Stop::new(cpu, to, most_of(random)) }
    }

    /// Lines of looks in all, and of those that are free.
    #[cfg(test)]
    fn count(&self) -> (usize, usize) {
        (self.all.len(), self.free.len())
    }
}

fn changed(look: &Look, random: &mut Random) -> Until {
    let Look { address, size, .. } = *look;
    match random.below(4) {
        // the first change half the time: a task is moved, run and asleep by the third
        0 => Until::ChangedNow { address, size, times: *random.pick(&[1, 1, 1, 1, 2, 3, 3, 4]) },
        _ => Until::Changed { address, size },
    }
}

fn most_of(random: &mut Random) -> Span {
    Span::from_us(*random.pick(&MOST_US))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whole::event;

    /// cpu0 writes under lock 0x500; cpu1 looks under it, and without it.
    #[test]
    fn a_look_under_the_changes_lock_is_not_free() {
        let events = [
            event(0, 0, 0x500, SAYS_LOCKED),
            event(0, 1, 0x100, 6),
            event(0, 1, 0x500, SAYS_RELEASE),
            event(1, 0, 0x500, SAYS_LOCKED),
            event(1, 11, 0x100, 5),
            event(1, 11, 0x500, SAYS_RELEASE),
            event(1, 12, 0x100, 7),
            event(1, 13, 0x200, 5),
        ];
        let conflicts = Conflicts::of(&events, 2);
        assert_eq!(conflicts.count(), (2, 1));
        assert_eq!(conflicts.free.members()[0].at, 12);
        let mut random = Random::for_part(1, 1);
        let ats: Vec<u64> = (0..200).map(|_| conflicts.by_line(&mut random).unwrap().0.at).collect();
        assert!(ats.iter().all(|at| (1..=12 + BEHIND).contains(at)) && ats.contains(&12), "{ats:?}");
        let mut again = Random::for_part(1, 1);
        assert!(ats.iter().all(|at| conflicts.by_line(&mut again).unwrap().0.at == *at));
    }

    /// The second stop is most often at the memory of the first.
    #[test]
    fn a_second_stop_matches_the_first() {
        let mut events: Vec<RaceEvent> =
            (1..=20).map(|at| event(0, at, 0x1000 + u64::from(at) * 8, 5)).collect();
        events.push(event(0, 21, 0x100, 5));
        events.extend((1..=20).map(|at| event(1, at, 0x1000 + u64::from(at) * 8, 6)));
        events.push(event(1, 21, 0x100, 6));
        let conflicts = Conflicts::of(&events, 2);
        let mut random = Random::for_part(1, 1);
        let matching = |_: &i32| conflicts.second(0, 2, 0x100, &mut random).unwrap().at == 21;
        let matching = (0..300).filter(matching).count();
        assert!((150..260).contains(&matching), "{matching}");
        let mut random = Random::for_part(1, 2);
        let (stop, address) = conflicts.in_window(0, (5, 7), 4, &mut random).unwrap();
        assert!((6..=7).contains(&stop.at) && (0x1000..0x1100).contains(&address));
        assert_eq!(conflicts.in_window(0, (20, 22), 4, &mut random), None);
    }
}
