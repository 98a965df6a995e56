//! Puts a workload together: numbers tasks and events as they come.

use super::GenerateError;
use crate::limits::Limits;
use crate::{Birth, Event, EventId, EventKind, ExternalSource, InitState, Task, Wakeup, Workload};
use schedlab_units::{Nice, SchedParams, Span, TaskId};

/// As many as can be held.
const EVENTS_MAX: u64 = Limits::HELD.events;

pub(super) struct Builder {
    workload: Workload,
    next_eid: u64,
}

/// Where a wait stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
    task: TaskId,
    index: usize,
}

impl Builder {
    /// For a workload of about `nr_events` events; refuses too many before any is made.
    pub fn new(nr_events: u128) -> Result<Builder, GenerateError> {
        if nr_events > u128::from(EVENTS_MAX) {
            return Err(GenerateError::TooLarge { nr_events, events_max: EVENTS_MAX });
        }
        Ok(Builder { workload: Workload::default(), next_eid: 1 })
    }

    /// Refuses to go on when there are too many events, for generators that cannot tell beforehand how many there will be.
    pub fn room(&self) -> Result<(), GenerateError> {
        match self.next_eid {
            made if made > EVENTS_MAX => {
                Err(GenerateError::TooLarge { nr_events: u128::from(made), events_max: EVENTS_MAX })
            }
            _ => Ok(()),
        }
    }

    fn eid(&mut self) -> EventId {
        self.next_eid += 1;
        EventId(self.next_eid - 1)
    }

    /// A new task, there from the start. Pids count from 1.
    pub fn task(&mut self, name: String, params: SchedParams, state: InitState) -> TaskId {
        let eid = self.eid();
        let id = TaskId(self.workload.tasks.len() as u32);
        self.workload.tasks.push(Task {
            pid: id.0 + 1,
            name,
            birth: Birth::Init { eid, parent: None, state },
            params: Some(params),
            affinity: None,
            cgroup: None,
            kernel_thread: false,
            events: Vec::new(),
        });
        id
    }

    /// A new runnable task of the normal policy.
    pub fn normal(&mut self, name: String, nice: Nice) -> TaskId {
        self.task(name, SchedParams::normal(nice), InitState::Runnable)
    }

    fn push(&mut self, task: TaskId, kind: EventKind) -> EventId {
        let eid = self.eid();
        self.workload.tasks[task.index()].events.push(Event { eid, kind });
        eid
    }

    pub fn block(&mut self, task: TaskId, length: Span) -> EventId {
        self.push(task, EventKind::Block { length })
    }

    pub fn exit(&mut self, task: TaskId, length: Span) -> EventId {
        self.push(task, EventKind::Exit { length })
    }

    /// A new task that `parent` forks after `length`; it inherits the parent's settings.
    pub fn fork(&mut self, parent: TaskId, length: Span, name: String) -> TaskId {
        let child = TaskId(self.workload.tasks.len() as u32);
        self.push(parent, EventKind::Fork { length, child });
        self.workload.tasks.push(Task {
            pid: child.0 + 1,
            name,
            birth: Birth::Fork { parent },
            params: None,
            affinity: None,
            cgroup: None,
            kernel_thread: false,
            events: Vec::new(),
        });
        child
    }

    /// A device wakes the task, `after` this elapsed time.
    pub fn device(&mut self, task: TaskId, after: Span) {
        self.push(task, EventKind::Wakeup(Wakeup::External { after, source: ExternalSource::Device }));
    }

    pub fn sleep(&mut self, task: TaskId, after: Span) {
        self.push(task, EventKind::Wakeup(Wakeup::External { after, source: ExternalSource::Timer }));
    }

    /// `task` sleeps until this long after its previous wakeup of this kind, or after the start.
    pub fn sleep_until(&mut self, task: TaskId, after: Span) {
        self.push(task, EventKind::Wakeup(Wakeup::External { after, source: ExternalSource::Absolute }));
    }

    /// `task` sleeps until `waker` is about to do an event that is not known yet: [`Builder::set_event`] names it, at the
    /// place returned.
    pub fn wait(&mut self, task: TaskId, waker: TaskId) -> Place {
        let (event, distance) = (EventId(0), Span::ZERO);
        let wakeup = Wakeup::Dependent { recorded_after: Span::ZERO, event, task: waker, distance };
        self.push(task, EventKind::Wakeup(wakeup));
        Place { task, index: self.workload.tasks[task.index()].events.len() - 1 }
    }

    /// Completes a [`Builder::wait`]: it ends when the waker has `before` of CPU time left until its event `eid`.
    pub fn set_event(&mut self, place: Place, eid: EventId, before: Span) {
        match &mut self.workload.tasks[place.task.index()].events[place.index].kind {
            EventKind::Wakeup(Wakeup::Dependent { event, distance, .. }) => {
                *event = eid;
                *distance = before;
            }
            other => panic!("a place given by wait() holds {}", other.name()),
        }
    }

    /// The workload. A broken rule would be a mistake of the generator.
    pub fn finish(self) -> Workload {
        if let Err(error) = self.workload.check() {
            panic!("the generator made a workload that breaks the rules: {error}");
        }
        self.workload
    }
}
