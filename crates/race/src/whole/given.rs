//! A schedule of a whole scheduler, as lines of a file and back, and with less in it.

use schedlab_units::Span;

use super::order::{Given, Late, Stop, Until};
use super::replay::Places;
use crate::schedule::{Choice, ChoiceKind, Ends, Later};

impl Given {
    /// Stops and late stores.
    pub(super) fn len(&self) -> usize {
        self.stops.len() + self.late.len()
    }

    /// Without so many of them, from the nth.
    pub(super) fn without(&self, n: usize, nr: usize) -> Given {
        let mut fewer = self.clone();
        let of_stops = |at: usize| at.min(self.stops.len());
        let of_late = |at: usize| at.saturating_sub(self.stops.len()).min(self.late.len());
        fewer.stops.drain(of_stops(n)..of_stops(n + nr));
        fewer.late.drain(of_late(n)..of_late(n + nr));
        fewer
    }

    /// With the nth as simple as it can be: a stop until nothing else happens at its instant, whoever goes on
    /// meanwhile, a store that is late alone. `None`: it is.
    pub(super) fn simpler(&self, n: usize, has_single: bool) -> Option<Given> {
        let mut simpler = self.clone();
        match n.checked_sub(simpler.stops.len()) {
            None => {
                let stop = &mut simpler.stops[n];
                *stop = Stop::new(stop.cpu, stop.at, Span::ZERO);
            }
            Some(n) => simpler.late[n].all &= !has_single,
        }
        (simpler != *self).then_some(simpler)
    }

    /// As lines of a schedule.
    pub(super) fn choices(&self, places: Places) -> Vec<Choice> {
        let late = |store: &Late| {
            let later = if store.all { Later::All } else { Later::One };
            Choice { cpu: store.cpu as u8, at: store.at as u32, what: ChoiceKind::Late(later) }
        };
        self.late.iter().map(late).chain(self.stops.iter().map(|stop| choice(stop, places))).collect()
    }

    /// From a schedule's lines; `None`: one looks at memory that is not there.
    pub(super) fn of(choices: &[Choice], places: Places) -> Option<Given> {
        let mut given = Given::default();
        for Choice { cpu, at, what } in choices {
            let (cpu, at) = (u32::from(*cpu), u64::from(*at));
            let (ns, ends) = match what {
                ChoiceKind::To(to) => {
                    given.stops.push(Stop::turn(cpu, at, u32::from(*to)));
                    continue;
                }
                ChoiceKind::Hold(ns) => (*ns, None),
                ChoiceKind::Until(ns, ends) => (*ns, Some(*ends)),
                ChoiceKind::Late(later) => {
                    given.late.push(Late { cpu, at, all: *later == Later::All });
                    continue;
                }
                _ => continue,
            };
            let until = match ends {
                None => None,
                Some(Ends::Interrupt) => Some(Until::Interrupt),
                Some(Ends::Changed(at, size)) => {
                    Some(Until::Changed { address: places.address(at, size)?, size })
                }
                Some(Ends::ChangedNow(at, size, times)) => {
                    Some(Until::ChangedNow { address: places.address(at, size)?, size, times })
                }
            };
            given.stops.push(Stop { until, ..Stop::new(cpu, at, Span::from_ns(ns)) });
        }
        Some(given)
    }
}

/// A stop as a schedule's line.
fn choice(stop: &Stop, places: Places) -> Choice {
    let (cpu, at) = (stop.cpu as u8, stop.at as u32);
    if let Some(to) = stop.to {
        return Choice { cpu, at, what: ChoiceKind::To(to as u8) };
    }
    let ns = stop.hold.as_ns();
    let memory = |address| places.memory(address);
    let ends = stop.until.and_then(|until| match until {
        Until::Interrupt => Some(Ends::Interrupt),
        Until::Changed { address, size } => Some(Ends::Changed(memory(address)?, size)),
        Until::ChangedNow { address, size, times } => Some(Ends::ChangedNow(memory(address)?, size, times)),
    });
    let what = ends.map_or(ChoiceKind::Hold(ns), |ends| ChoiceKind::Until(ns, ends));
    Choice { cpu, at, what }
}
