//! Which task's event is this? From event identifiers to places in the workload.
//!
//! Identifiers of most workloads are dense (1, 2, 3, ...), so the index is a table with one row per
//! identifier, 8 bytes each; sparse ones (cut or filtered workloads) fall back to a sorted list.

use crate::{Birth, EventId, Workload};
use schedlab_units::TaskId;

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventPlace {
    /// It is the INIT of this task.
    Init(TaskId),
    /// It is `tasks[task].events[index]`.
    Event(TaskId, usize),
}

/// Finds events by identifier.
#[derive(Clone, Debug)]
pub struct EventIndex {
    /// Row `eid`; `VACANT` where there is none.
    dense: Vec<(u32, u32)>,
    /// (eid, task, index), sorted by eid, when identifiers are sparse.
    sparse: Vec<(u64, u32, u32)>,
}

const VACANT: (u32, u32) = (u32::MAX, u32::MAX);
/// Index of an INIT.
const INIT: u32 = u32::MAX;
/// A table is used while it is at most this many times longer than the events.
const DENSE_FACTOR: u64 = 8;

impl EventIndex {
    /// Indexes every event, and returns the identifiers that occur more than once (the first place is kept),
    /// at most `limit` of them. Time and memory in proportion to the events.
    pub fn build(workload: &Workload, limit: usize) -> (EventIndex, Vec<EventId>) {
        let events = || {
            workload.tasks.iter().enumerate().flat_map(|(row, task)| {
                let row = row as u32;
                let init = task.birth_eid().map(|eid| (eid.0, row, INIT));
                let events = task.events.iter().enumerate();
                init.into_iter().chain(events.map(move |(index, event)| (event.eid.0, row, index as u32)))
            })
        };
        let (nr, max) = events().fold((0u64, 0u64), |(nr, max), (eid, ..)| (nr + 1, max.max(eid)));
        let mut duplicates = Vec::new();
        if max <= nr * DENSE_FACTOR {
            let mut dense = vec![VACANT; max as usize + 1];
            for (eid, task, index) in events() {
                let place = &mut dense[eid as usize];
                if *place == VACANT {
                    *place = (task, index);
                } else if duplicates.len() < limit {
                    duplicates.push(EventId(eid));
                }
            }
            return (EventIndex { dense, sparse: Vec::new() }, duplicates);
        }
        let mut sparse: Vec<_> = events().collect();
        sparse.sort_by_key(|&(eid, ..)| eid); // stable: the first place stays first
        for pair in sparse.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            if duplicates.len() < limit {
                duplicates.push(EventId(pair[0].0));
            }
        }
        (EventIndex { dense: Vec::new(), sparse }, duplicates)
    }

    /// Where the event stands, if there is one.
    pub fn find(&self, eid: EventId) -> Option<EventPlace> {
        let (task, index) = if self.dense.is_empty() {
            let first = self.sparse.partition_point(|&(other, ..)| other < eid.0);
            let &(_, task, index) = self.sparse.get(first).filter(|&&(other, ..)| other == eid.0)?;
            (task, index)
        } else {
            *usize::try_from(eid.0)
                .ok()
                .and_then(|row| self.dense.get(row))
                .filter(|&&place| place != VACANT)?
        };
        Some(match index {
            INIT => EventPlace::Init(TaskId(task)),
            _ => EventPlace::Event(TaskId(task), index as usize),
        })
    }
}

impl Workload {
    /// Gives a fresh identifier to every event that has none ([`EventId`] 0): the INITs first, then task by
    /// task in order, counting on from the largest identifier in use.
    pub fn number_events(&mut self) {
        let mut next_eid = self.free_eid().0;
        let mut number = |eid: &mut EventId| {
            if eid.0 == 0 {
                eid.0 = next_eid;
                next_eid += 1;
            }
        };
        for task in &mut self.tasks {
            if let Birth::Init { eid, .. } = &mut task.birth {
                number(eid);
            }
        }
        for event in self.tasks.iter_mut().flat_map(|task| &mut task.events) {
            number(&mut event.eid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, EventKind, InitState, Task};
    use schedlab_units::Span;

    fn workload(eids: &[u64]) -> Workload {
        let yields = eids[1..]
            .iter()
            .map(|&eid| Event { eid: EventId(eid), kind: EventKind::Yield { length: Span::ZERO } });
        let birth = Birth::Init { eid: EventId(eids[0]), parent: None, state: InitState::Runnable };
        let task = Task {
            pid: 1,
            name: "a".into(),
            birth,
            params: None,
            affinity: None,
            cgroup: None,
            kernel_thread: false,
            events: yields.collect(),
        };
        Workload { tasks: vec![task], ..Workload::default() }
    }

    #[test]
    fn finds_dense_and_sparse_identifiers() {
        for eids in [[1, 2, 3, 4], [7, 1 << 40, 3, 9]] {
            let (index, duplicates) = EventIndex::build(&workload(&eids), 9);
            assert_eq!(duplicates, []);
            assert_eq!(index.find(EventId(eids[0])), Some(EventPlace::Init(TaskId(0))));
            for (i, &eid) in eids[1..].iter().enumerate() {
                assert_eq!(index.find(EventId(eid)), Some(EventPlace::Event(TaskId(0), i)));
            }
            assert_eq!(index.find(EventId(8)), None);
            assert_eq!(index.find(EventId(u64::MAX)), None);
        }
        assert_eq!(EventIndex::build(&Workload::default(), 9).0.find(EventId(0)), None);
    }

    #[test]
    fn repeated_identifiers_are_named() {
        for eids in [[1, 2, 2, 4], [7, 1 << 40, 1 << 40, 9]] {
            assert_eq!(EventIndex::build(&workload(&eids), 9).1, [EventId(eids[1])]);
        }
    }

    #[test]
    fn unnumbered_events_get_fresh_numbers() {
        let mut workload = workload(&[0, 5, 0, 0]);
        workload.number_events();
        let eids: Vec<u64> = workload.tasks[0].events.iter().map(|event| event.eid.0).collect();
        assert_eq!(workload.tasks[0].birth_eid(), Some(EventId(6)));
        assert_eq!(eids, [5, 7, 8]);
    }
}
