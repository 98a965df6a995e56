//! A schedule of a whole scheduler as a story: what each CPU did around its stops.

use std::collections::BTreeMap;

use schedlab_linux::layout::Placed;
use schedlab_linux::race::{LATE, RaceEvent, SAYS_LOCKED, SAYS_RELEASE, SAYS_SEEN};
use schedlab_machine::kernel::PointKind;

use super::hb::{ByAddress, bytes};
use super::order::Stop;
use crate::schedule::Memory;
use crate::story::{Event, Happened, SEEN};
use crate::worker::Done;

/// Points before and behind a stop that are shown; and from the end.
const BEFORE: usize = 12;
const AFTER: usize = 40;
const LAST: usize = 60;
/// Points before and behind a late store and who misses it; and so many of these.
const BESIDE: usize = 3;
const LATE_MAX: usize = 24;

/// Where the kernel object lies in this process, and where the simulated memory does. The first differs from process to
/// process, so names stand for the addresses in both.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) object: usize,
    pub(super) object_len: usize,
}

const TRIES_LOCK: u8 = PointKind::Lock as u8;

/// `crates/linux/src/memory.rs`.
const RAM: usize = 0x0100_0000_0000;
const RAM_LEN: usize = 1 << 40;

/// Whether these bytes are memory of this process.
fn is_mapped(address: u64, size: u8) -> bool {
    let page = 4096u64;
    let (first, last) = (address / page, (address + u64::from(size.max(1)) - 1) / page);
    let mut there = [0u8; 2];
    // SAFETY: mincore() reads no memory there, and writes a byte a page, of which there are two at most.
    let result = unsafe {
        let start = std::ptr::with_exposed_provenance_mut((first * page) as usize);
        libc::mincore(start, ((last - first + 1) * page) as usize, there.as_mut_ptr())
    };
    result == 0
}

impl Places {
    /// The address as a schedule's text has it; `None`: neither the object's nor simulated memory.
    pub(super) fn memory(&self, address: u64) -> Option<Memory> {
        let at = address as usize;
        if (self.object..self.object + self.object_len).contains(&at) {
            return Some(Memory::Object((at - self.object) as u64));
        }
        (RAM..RAM + RAM_LEN).contains(&at).then(|| Memory::Ram((at - RAM) as u64))
    }

    /// And back; `None`: this process has not so many bytes there.
    pub(super) fn address(&self, memory: Memory, size: u8) -> Option<u64> {
        let (start, len, at) = match memory {
            Memory::Ram(at) => (RAM, RAM_LEN, at),
            Memory::Object(at) => (self.object, self.object_len, at),
        };
        let is_within = at < (len as u64).saturating_sub(u64::from(size));
        is_within.then(|| start as u64 + at).filter(|at| is_mapped(*at, size))
    }

    fn name(&self, at: usize, placed: Option<&Placed>) -> Option<String> {
        if let Some(name) = placed.and_then(|placed| placed.name(at as u64)) {
            return Some(name);
        }
        if (self.object..self.object + self.object_len).contains(&at) {
            return Some(format!("linux+{:#x}", at - self.object));
        }
        (RAM..RAM + RAM_LEN).contains(&at).then(|| format!("ram+{:#x}", at - RAM))
    }

    /// A distance from the object to simulated memory, as per-CPU offsets are. The object lies elsewhere in each
    /// process.
    fn distance(&self, value: usize) -> Option<String> {
        let at = value.wrapping_add(self.object);
        let is_in_ram = (RAM..RAM + RAM_LEN).contains(&at);
        is_in_ram.then(|| format!("ram+{:#x} - &linux", at - RAM))
    }
}

/// What a story is about.
pub(super) struct Around<'a> {
    pub(super) stops: &'a [Stop],
    pub(super) race: Option<(RaceEvent, RaceEvent)>,
}

/// Late stores, and the other CPUs' loads that do not see them.
///
/// ```text
/// cpu0  store t->woken (late) ......................... its late stores are seen
/// cpu1                         load t->woken = 0        a miss, of cpu0's
/// ```
#[derive(Debug, Default, PartialEq)]
struct Lateness {
    /// By their places among the events, the first ones of each time that a CPU's stores are late.
    stores: Vec<usize>,
    /// And whose store is missed.
    misses: BTreeMap<usize, u16>,
}

impl Lateness {
    fn of(events: &[RaceEvent]) -> Lateness {
        // by word: whose store is late, and of which bytes
        let mut late: ByAddress<(u16, u8)> = ByAddress::default();
        let mut found = Lateness::default();
        let mut run = [0usize; 64];
        for (n, event) in events.iter().enumerate() {
            let word = event.address >> 3;
            if event.what() == SAYS_SEEN {
                late.retain(|_, (cpu, _)| *cpu != event.cpu);
                run[usize::from(event.cpu & 63)] = 0;
            } else if event.kind & LATE != 0 && event.stores() {
                let (cpu, stored) = late.entry(word).or_default();
                *stored = if *cpu == event.cpu { *stored | bytes(event) } else { bytes(event) };
                *cpu = event.cpu;
                let run = &mut run[usize::from(event.cpu & 63)];
                *run += 1;
                if *run <= LATE_MAX {
                    found.stores.push(n);
                }
            } else if event.loads()
                && let Some((cpu, stored)) = late.get(&word)
                && *cpu != event.cpu
                && stored & bytes(event) != 0
                && found.misses.len() < LATE_MAX
            {
                found.misses.insert(n, *cpu);
            }
        }
        found
    }
}

/// Whether a story has a line for it.
fn is_line(event: &RaceEvent) -> bool {
    event.is_point() || matches!(event.what(), SAYS_LOCKED | SAYS_SEEN)
}

/// Marks who tries a lock once more, and has come to no other point since it last tried it.
fn tried_again(events: &[RaceEvent]) -> Vec<bool> {
    let mut tries: BTreeMap<u16, u64> = BTreeMap::new();
    let again = |event: &RaceEvent| match event.what() {
        TRIES_LOCK => tries.insert(event.cpu, event.address) == Some(event.address),
        what => {
            if what == SAYS_LOCKED || event.is_point() {
                tries.remove(&event.cpu);
            }
            false
        }
    };
    events.iter().map(again).collect()
}

/// Marks what is shown: the events around the stops, those around a race's accesses, else the last ones; late stores,
/// and who misses them. What others do while a CPU stands is shown from the stop on, up to a bound. Who spins for a
/// lock is shown to try it once.
fn shown(events: &[RaceEvent], around: &Around<'_>, late: &Lateness) -> Vec<bool> {
    let mut again = tried_again(events);
    let mut shown = vec![false; events.len()];
    let mut mark = |from: usize, to: usize| shown[from..to.min(events.len())].fill(true);
    for n in late.stores.iter().chain(late.misses.keys()) {
        mark(n.saturating_sub(BESIDE), n + BESIDE + 1);
    }
    let is_point = RaceEvent::is_point;
    let Around { stops, race } = around;
    for stop in *stops {
        // its event is noted when the CPU goes on again: what comes before it in the list are the others' doings
        let at = |e: &RaceEvent| u32::from(e.cpu) == stop.cpu && u64::from(e.at) == stop.at && is_point(e);
        let Some(resumed) = events.iter().position(at) else { continue };
        again[resumed] = false;
        let stood = events[..resumed]
            .iter()
            .rposition(|e| u32::from(e.cpu) == stop.cpu)
            .map_or(0, |before| before + 1);
        mark(stood.saturating_sub(BEFORE), (stood + AFTER).min(resumed));
        mark(resumed.saturating_sub(BEFORE).max(stood), resumed + AFTER);
    }
    match race {
        Some((a, b)) => {
            for at in [a, b].into_iter().filter_map(|access| events.iter().position(|e| e == access)) {
                mark(at.saturating_sub(BEFORE), at + BEFORE);
            }
        }
        None => {
            let mut last = (0..events.len()).rev().filter(|n| !again[*n] && is_line(&events[*n]));
            mark(last.nth(LAST - 1).unwrap_or(0), events.len());
        }
    }
    shown.iter().zip(again).map(|(is_shown, again)| *is_shown && !again).collect()
}

/// Which locks each CPU holds, and what a story says of that: what is not shown takes and gives locks, too.
#[derive(Default)]
struct Holding {
    held: Vec<Vec<usize>>,
    told: Vec<Vec<usize>>,
}

impl Holding {
    /// Its CPU's locks before this event, if it is shown and the story has others.
    fn before(&mut self, event: &RaceEvent, is_shown: bool) -> Option<Vec<usize>> {
        let cpu = usize::from(event.cpu);
        if self.held.len() <= cpu {
            self.held.resize(cpu + 1, Vec::new());
            self.told.resize(cpu + 1, Vec::new());
        }
        let news = (is_shown && self.told[cpu] != self.held[cpu]).then(|| self.held[cpu].clone());
        let lock = event.address as usize;
        match event.what() {
            SAYS_LOCKED if !self.held[cpu].contains(&lock) => self.held[cpu].push(lock),
            SAYS_RELEASE => self.held[cpu].retain(|held| *held != lock),
            _ => {}
        }
        if is_shown {
            self.told[cpu].clone_from(&self.held[cpu]);
        }
        news
    }
}

/// The events that are shown, as a story has them.
pub(super) fn tell(
    events: &[RaceEvent],
    around: &Around<'_>,
    text_start: u64,
    (places, placed): (Places, Option<&Placed>),
    done: &mut Done,
) {
    let late = Lateness::of(events);
    let shown = shown(events, around, &late);
    let stops = around.stops;
    let is_point = RaceEvent::is_point;
    let note = |event: &RaceEvent, at: u32, text: String| Event {
        cpu: event.cpu as u8,
        at,
        code: 0,
        happened: Happened::Note { text },
    };
    let (mut gap, mut holding) = (0u64, Holding::default());
    for (n, (event, is_shown)) in events.iter().zip(&shown).enumerate() {
        let locks = holding.before(event, *is_shown && is_line(event));
        if !is_line(event) {
            continue;
        }
        if !is_shown {
            gap += 1;
            continue;
        }
        if let Some(addresses) = locks {
            let name = |address: &usize| places.name(*address, placed).map(|name| (*address, name));
            done.names.extend(addresses.iter().filter_map(name));
            done.events.push(Event {
                happened: Happened::Holds { addresses },
                ..note(event, event.at, String::new())
            });
        }
        if gap > 0 {
            done.events.push(note(event, 0, left_out(gap)));
            gap = 0;
        }
        if let Some(stop) = stops
            .iter()
            .find(|s| s.cpu == u32::from(event.cpu) && s.at == u64::from(event.at) && is_point(event))
        {
            let at_most = if stop.until.is_some() { " at most" } else { "" };
            let text = match (stop.to, stop.hold.as_ns()) {
                (Some(to), _) => format!("stood here for cpu{to}, now goes on:"),
                (None, 0) => "stood here, now goes on:".to_owned(),
                _ => format!("stood here for {}{at_most}, now goes on:", stop.hold),
            };
            done.events.push(note(event, event.at, text));
        }
        if around.race.is_some_and(|(a, b)| [a, b].contains(event)) {
            done.events.push(note(event, event.at, "nothing orders this and the other one:".to_owned()));
        }
        if let Some(cpu) = late.misses.get(&n) {
            done.events.push(note(event, event.at, format!("does not see cpu{cpu}'s late store:")));
        }
        let (address, value) = (event.address as usize, event.value as usize);
        let name = places.name(address, placed);
        done.events.push(as_story(event, text_start, name.as_deref()));
        done.names.extend(name.map(|name| (address, name)));
        let name = places.name(value, placed).or_else(|| places.distance(value));
        done.names.extend(name.map(|name| (value, name)));
    }
    if let (1.., Some(last)) = (gap, events.last()) {
        done.events.push(note(last, 0, left_out(gap)));
    }
    done.names.sort();
    done.names.dedup();
}

fn left_out(points: u64) -> String {
    format!("... {points} point{}", if points == 1 { "" } else { "s" })
}

fn as_story(event: &RaceEvent, text_start: u64, name: Option<&str>) -> Event {
    let at = name.map_or(String::new(), |name| format!(" {name}"));
    let (address, size) = (event.address as usize, u32::from(event.size));
    let access = |is_write, marked| Happened::Access {
        address,
        size,
        is_write,
        marked,
        value: event.value,
        late: event.kind & LATE != 0,
        new: None,
    };
    let happened = match event.what() {
        1 if event.kind & LATE != 0 => Happened::Note { text: format!("atomic{at}, late") },
        1 => Happened::Note { text: format!("atomic{at}") },
        TRIES_LOCK => Happened::Note { text: format!("tries the lock{at}") },
        3 => Happened::Unlock { address },
        4 => Happened::Note { text: "interrupts are on".into() },
        5 => access(false, false),
        6 => access(true, false),
        7 => access(false, true),
        8 => access(true, true),
        9 => Happened::Note { text: "barrier".into() },
        SAYS_SEEN => Happened::Note { text: SEEN.into() },
        SAYS_LOCKED => Happened::Lock { address },
        SAYS_RELEASE => Happened::Unlock { address },
        _ => Happened::Note { text: "?".into() },
    };
    Event { cpu: event.cpu as u8, at: event.at, code: (event.code + text_start) as usize, happened }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whole::event;

    #[test]
    fn what_is_not_shown_gives_locks_up_too() {
        let mut holding = Holding::default();
        let (lock, unlock, load) =
            (event(0, 1, 0x500, SAYS_LOCKED), event(0, 2, 0x500, SAYS_RELEASE), event(0, 3, 0x100, 5));
        assert_eq!(holding.before(&lock, true), None);
        assert_eq!(holding.before(&load, true), None, "the story knows");
        assert_eq!(holding.before(&unlock, false), None);
        assert_eq!(holding.before(&load, true), Some(Vec::new()));
        assert_eq!(holding.before(&lock, false), None);
        assert_eq!(holding.before(&event(1, 1, 0x100, 5), true), None, "another CPU");
        assert_eq!(holding.before(&load, true), Some(vec![0x500]));
    }

    #[test]
    fn who_misses_a_late_store_is_said_until_it_is_seen() {
        let events = [
            event(0, 1, 0x100, 8 | LATE),
            event(0, 2, 0x100, 7), // its own is forwarded
            event(1, 1, 0x200, 7),
            event(1, 2, 0x100, 7), // a miss
            event(0, 3, 0, SAYS_SEEN),
            event(1, 3, 0x100, 7),
            event(0, 4, 0x104, 8 | LATE),
            event(1, 4, 0x100, 7), // the other half of that word
        ];
        let late = Lateness::of(&events);
        assert_eq!(late, Lateness { stores: vec![0, 6], misses: BTreeMap::from([(3, 0)]) });
        let mut far = events.to_vec();
        far.extend((0..200).map(|at| event(1, 4 + at, 0x300, 7)));
        let shown = shown(&far, &Around { stops: &[], race: None }, &Lateness::of(&far));
        assert!(shown[..8].iter().all(|shown| *shown) && !shown[20], "a store and its misses are shown");
    }

    #[test]
    fn a_cpu_that_spins_for_a_lock_tries_it_once() {
        let mut events = vec![event(0, 1, 0x500, TRIES_LOCK), event(0, 1, 0x500, SAYS_LOCKED)];
        events.push(event(0, 2, 0x600, TRIES_LOCK));
        for at in 1..500 {
            events.push(event(1, at, 0x500, TRIES_LOCK));
            events.push(event(0, 2 + at, 0x600, TRIES_LOCK));
        }
        let shown_of = |stops: &[Stop]| {
            let shown = shown(&events, &Around { stops, race: None }, &Lateness::default());
            shown.iter().enumerate().filter_map(|(n, shown)| shown.then_some(n)).collect::<Vec<_>>()
        };
        assert_eq!(shown_of(&[]), [0, 1, 2, 3], "both CPUs' first tries");
        let stop = Stop::new(1, 400, schedlab_units::Span::ZERO);
        assert_eq!(shown_of(&[stop]), [0, 1, 2, 3, 801], "and where one stood");
    }
}
