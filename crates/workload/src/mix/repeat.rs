//! How does a workload begin anew when it is over? A task of its own sees to it, as a shell does with `for i
//! in 1 2 3; do make; done`.
//!
//! ```text
//! repeat   w w w . . . . . . . .WX      w: waits for the end of one task after the other; W: wakes all of the start
//! make     RRR---RR---RRX
//! make                          RRR---RR---RRX
//! ```
//!
//! The task needs no CPU time, but like any other it must be given a CPU to go on.

use crate::{Birth, Event, EventId, EventKind, ExternalSource, InitState, Task, Wakeup, Workload};
use schedlab_units::{SchedParams, Span, TaskId};

/// What a task must do last, so that the workload is over: its last event that takes CPU time.
pub(super) fn last_events(workload: &Workload, rows: std::ops::Range<usize>) -> Vec<(TaskId, EventId)> {
    rows.filter_map(|row| {
        let events = &workload.tasks[row].events;
        let last = events.iter().rev().find(|event| event.kind.length().is_some())?;
        Some((TaskId(row as u32), last.eid))
    })
    .collect()
}

/// The task that repeats, still without work.
pub(super) fn conductor(name: String, pid: u32, eid: EventId) -> Task {
    Task {
        pid,
        name,
        birth: Birth::Init { eid, parent: None, state: InitState::Blocked },
        params: Some(SchedParams::default()),
        affinity: None,
        cgroup: None,
        kernel_thread: false,
        events: Vec::new(),
    }
}

/// Adds to the conductor's work: wait for these events, then be on the way to its event, whose identifier is returned.
pub(super) fn conduct(
    conductor: &mut Task,
    awaited: &[(TaskId, EventId)],
    is_last: bool,
    mut eid: impl FnMut() -> EventId,
) -> EventId {
    let mut ready = EventId(0);
    for (i, &(task, event)) in awaited.iter().enumerate() {
        let wakeup = Wakeup::Dependent { recorded_after: Span::ZERO, event, task, distance: Span::ZERO };
        conductor.events.push(Event { eid: eid(), kind: EventKind::Wakeup(wakeup) });
        ready = eid();
        let kind = if is_last && i + 1 == awaited.len() {
            EventKind::Exit { length: Span::ZERO }
        } else {
            EventKind::Block { length: Span::ZERO }
        };
        conductor.events.push(Event { eid: ready, kind });
    }
    ready
}

/// Makes a task that is there from the start begin when the conductor comes to its event.
pub(super) fn begin_at(task: &mut Task, conductor: TaskId, event: EventId, mut eid: impl FnMut() -> EventId) {
    let Birth::Init { state, .. } = &mut task.birth else { return };
    let gate = Wakeup::Dependent { recorded_after: Span::ZERO, event, task: conductor, distance: Span::ZERO };
    let gate = |eid| Event { eid, kind: EventKind::Wakeup(gate) };
    match (*state, task.events.first().map(|event| &event.kind)) {
        (InitState::Runnable, _) => {
            *state = InitState::Blocked;
            task.events.insert(0, gate(eid()));
        }
        // blocked for some time from the start: that time counts from the gate
        (InitState::Blocked, Some(EventKind::Wakeup(Wakeup::External { .. }))) => {
            let block = Event { eid: eid(), kind: EventKind::Block { length: Span::ZERO } };
            task.events.splice(0..0, [gate(eid()), block]);
        }
        // woken by another task of the workload, which waits for the gate itself; or blocked for ever
        (InitState::Blocked, _) => {}
    }
}

/// Makes a task that is there from the start begin so much later. Timers set for an instant count from the
/// start: the first one is set later by as much.
pub(super) fn begin_later(task: &mut Task, by: Span, mut eid: impl FnMut() -> EventId) -> Option<()> {
    let Birth::Init { state, .. } = &mut task.birth else { return Some(()) };
    if by == Span::ZERO {
        return Some(());
    }
    if let Some(Event { kind: EventKind::Wakeup(Wakeup::External { after, .. }), .. }) =
        task.events.iter_mut().find(|event| event.kind.is_instant())
    {
        *after = after.checked_add(by)?;
    }
    match (*state, task.events.first_mut().map(|event| &mut event.kind)) {
        (InitState::Runnable, _) => {
            *state = InitState::Blocked;
            let wakeup = Wakeup::External { after: by, source: ExternalSource::Timer };
            task.events.insert(0, Event { eid: eid(), kind: EventKind::Wakeup(wakeup) });
        }
        (InitState::Blocked, Some(EventKind::Wakeup(Wakeup::External { source, .. })))
            if source.is_instant() => {}
        (
            InitState::Blocked,
            Some(EventKind::Wakeup(
                Wakeup::External { after, .. } | Wakeup::Dependent { recorded_after: after, .. },
            )),
        ) => *after = after.checked_add(by)?,
        (InitState::Blocked, _) => {}
    }
    Some(())
}

/// Whether a task sets timers for an instant, which count from its start: then it cannot begin at a time that
/// nobody knows.
pub(super) fn sets_instants(workload: &Workload) -> bool {
    let init = |task: &&Task| matches!(task.birth, Birth::Init { .. });
    workload.tasks.iter().filter(init).any(|task| task.events.iter().any(|event| event.kind.is_instant()))
}
