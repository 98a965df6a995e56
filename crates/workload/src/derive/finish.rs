//! From observations to a workload: who stays, which wakeups are dependent, what the snapshot adds.

use super::calls;
use super::engine::Deriver;
use super::groups::Cgroups;
use super::tasks::{Evidence, Task, Wake, Where, count_outside};
use super::{Derived, InterruptRule, Summary};
use crate::messages::{infer, put_in};
use crate::{
    Birth, Builder, CgroupId, Event, EventId, EventKind, ExternalSource, InitState, Messages, ParamChange,
    Task as WorkloadTask, Wakeup, Workload,
};
use schedlab_trace::{CommId, Pid};
use schedlab_units::{CpuId, CpuSet, Span, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// Where what an event that is taken out meant is found: the next event, and the CPU time up to it (ns).
type Removed = BTreeMap<EventId, (EventId, u64)>;

/// A mask of all recorded CPUs is one of so many: it binds nobody on a larger machine either.
const ANYWHERE: u32 = 64;

impl Deriver<'_> {
    /// Ends the derivation. `cpu_count` is the number of CPUs of the recorded system, where known: an
    /// affinity to all of them is none.
    pub fn finish<'n>(mut self, cpu_count: Option<u32>, name: impl Fn(CommId) -> &'n str) -> Derived {
        if let Some(to) = self.options.window.to {
            self.now_ns = self.now_ns.max(to.0);
        }
        self.end_of_trace();
        self.drop_unseen_prio();
        self.count(
            "wakeup while a task ran, by it or by an interrupt (this form of recording does not say which); taken \
             as the task's",
            self.facts.unknown_context,
        );
        let start_ns = self.start_ns.unwrap_or(0);
        self.summary.duration_ns = self.now_ns.saturating_sub(start_ns);

        let rows = self.kept_rows();
        let removed = self.removed_events(&rows);
        let mut workload = Workload::default();
        let mut cgroups = Cgroups::new(self.snapshot, cpu_count);
        let mut by_tid = BTreeMap::new();
        let mut shown = Vec::new();
        // in the order in which tasks and moves name them
        let groups: Vec<CgroupId> =
            std::mem::take(&mut self.moves.paths).iter().map(|path| cgroups.of_move(path)).collect();
        let list = std::mem::take(&mut self.tasks.list);
        let is_stated = self.facts.told_settings;
        for (old, mut task) in list.into_iter().enumerate() {
            let Some(new) = rows[old] else { continue };
            let row = match task.birth {
                Birth::Init { .. } => self.snapshot.and_then(|snapshot| snapshot.row(task.tid.0)),
                Birth::Fork { .. } => None,
            };
            shown.push(std::mem::take(&mut task.calls));
            let birth = self.birth(&mut task, &rows, start_ns);
            let mut events = std::mem::take(&mut task.events);
            // settings that an export states are what they are; a call's mask of all CPUs binds nobody
            let is_everywhere = |set: &CpuSet| !is_stated && cgroups.is_all(set);
            events.retain_mut(|event| {
                !removed.contains_key(&event.eid)
                    && self.translate(event, &mut task, &rows, &removed, &groups, is_everywhere)
            });
            events.shrink_to_fit();
            task.outside.add_to(&mut self.summary);
            self.summary.cpu_ns += task.total_cpu_ns;
            let comm = name(task.comm);
            let born = task.prio.born.take().unwrap_or_default();
            if matches!(birth, Birth::Init { .. }) {
                by_tid.insert(task.tid, new);
            }
            let row_is_kernel = row.is_some_and(|row| row.ppid == Some(2) || row.pid == Some(2));
            workload.tasks.push(WorkloadTask {
                pid: task.pid,
                name: if comm.is_empty() { format!("task-{}", task.tid) } else { comm.to_string() },
                birth,
                params: task.prio.initial.or(row.and_then(|row| row.params)),
                affinity: (row.and_then(|row| row.affinity.clone()))
                    .filter(|set| !cgroups.is_all(set))
                    .or(born.affinity),
                cgroup: (row.and_then(|row| cgroups.of_row(row)))
                    .or(born.cgroup.map(|row| groups[row.0 as usize])),
                kernel_thread: task.kernel_thread || row_is_kernel,
                events,
            });
        }
        self.parents(&mut workload, &by_tid);
        self.count("control group with cpu.idle, taken as one of weight 1", cgroups.idle);
        cgroups.put_into(&mut workload);
        self.notes(&mut workload);
        if self.tasks.settled > 0 {
            let (key, times) =
                ("stays whose length sched_stat_runtime tells", self.tasks.settled.to_string());
            workload.notes.insert(key.to_string(), times);
        }
        workload.dropped = std::mem::take(&mut self.counts);
        if let Some(mut timeline) = self.tasks.timeline.take() {
            timeline.renumber(&rows);
            let mut at_futexes = None;
            if self.messages == Messages::Recorded {
                self.channels.renumber(&rows);
                let put = put_in(&mut workload, &mut self.channels);
                self.summary.kick = put.kick;
                at_futexes = Some(put.at_futexes);
            }
            infer(&mut workload, &timeline, at_futexes.as_ref());
            if at_futexes.is_some() {
                calls::mark(&mut workload, &shown);
            }
        }
        if self.stolen.iter().any(|stretches| !stretches.is_empty()) {
            let mut builder = Builder::of(workload);
            for (cpu, stretches) in (0..).zip(&self.stolen).filter(|(_, stretches)| !stretches.is_empty()) {
                builder.stolen(format!("interrupts-cpu{cpu}"), CpuId(cpu), stretches);
            }
            workload = builder.finish().expect("what was derived keeps the rules, and was counted");
        }
        self.summary.messages = self.messages;
        Derived { workload, summary: self.summary }
    }

    /// Tasks that want a CPU still get a BLOCK that carries the CPU time since their last event.
    fn end_of_trace(&mut self) {
        for task in 0..self.tasks.list.len() {
            self.fork_children(task);
            self.tasks.charge(task, self.now_ns, self.now_ns);
            if matches!(self.tasks.list[task].at, Where::Runnable { .. }) && self.tasks.has_unsaid(task) {
                self.tasks.emit(task, self.now_ns, |length| EventKind::Block { length });
            }
        }
    }

    /// Row of each task in the workload; `None`: left out.
    fn kept_rows(&mut self) -> Vec<Option<TaskId>> {
        let (mut next, mut left_out) = (0, 0);
        let rows = self.tasks.list.iter().map(|task| {
            if task.is_glimpsed() {
                left_out += 1;
                return None;
            }
            next += 1;
            Some(TaskId(next - 1))
        });
        let rows = rows.collect();
        self.count(
            "task of which the trace has only a part (the recording followed others), left out",
            left_out,
        );
        rows
    }

    /// Events that say nothing any more: (next event of the same task, CPU time up to that) by identifier.
    /// One that is a task's last becomes a BLOCK: it carries the CPU time before it.
    fn removed_events(&mut self, rows: &[Option<TaskId>]) -> Removed {
        let mut removed = BTreeMap::new();
        let mut lost_forks = 0;
        for task in &mut self.tasks.list {
            let mut next: Option<(EventId, Span)> = None;
            for event in task.events.iter_mut().rev() {
                let Some(length) = event.kind.length() else {
                    next = None;
                    continue;
                };
                let gone = match &event.kind {
                    EventKind::Fork { child, .. } => {
                        lost_forks += u64::from(rows[child.index()].is_none());
                        rows[child.index()].is_none()
                    }
                    EventKind::Prio { change, .. } => {
                        (ParamChange { target: None, ..(**change).clone() } == ParamChange::default())
                            || change.target.is_some_and(|target| rows[target.index()].is_none())
                    }
                    _ => false,
                };
                match next {
                    Some((eid, end)) if gone => {
                        removed.insert(event.eid, (eid, end.saturating_sub(length).as_ns()));
                    }
                    _ => {
                        if gone {
                            event.kind = EventKind::Block { length };
                        }
                        next = Some((event.eid, length));
                    }
                }
            }
        }
        self.count("fork of a task of which the trace has only a part, left out", lost_forks);
        removed
    }

    /// The task's birth in the workload; a child whose parent is left out starts blocked and is woken when it was born.
    fn birth(&mut self, task: &mut Task, rows: &[Option<TaskId>], start_ns: u64) -> Birth {
        let Birth::Fork { parent } = task.birth else { return task.birth };
        if let Some(parent) = rows[parent.index()] {
            return Birth::Fork { parent };
        }
        let eid = self.tasks.fresh_eid();
        let after = Span::from_ns(task.born_ns.saturating_sub(start_ns));
        let wakeup = Wakeup::External { after, source: ExternalSource::Unknown };
        let first = Event { eid: self.tasks.fresh_eid(), kind: EventKind::Wakeup(wakeup) };
        task.events.insert(0, first);
        count_outside(&mut task.outside, ExternalSource::Unknown);
        Birth::Init { eid, parent: None, state: InitState::Blocked }
    }

    /// Puts rows and wakers of the workload into an event. Always true.
    fn translate(
        &mut self,
        event: &mut Event,
        task: &mut Task,
        rows: &[Option<TaskId>],
        removed: &Removed,
        groups: &[CgroupId],
        is_everywhere: impl Fn(&CpuSet) -> bool,
    ) -> bool {
        match &mut event.kind {
            EventKind::Fork { child, .. } => {
                *child = rows[child.index()].expect("forks of others are removed")
            }
            EventKind::Prio { change, .. } => {
                if let Some(set) = change.affinity.as_mut().filter(|set| is_everywhere(set)) {
                    *set = (0..ANYWHERE).map(CpuId).collect();
                }
                change.target =
                    change.target.map(|target| rows[target.index()].expect("changes of others are removed"));
                change.cgroup = change.cgroup.map(|row| groups[row.0 as usize]);
            }
            EventKind::Wakeup(wakeup) => {
                if let Wakeup::Dependent { recorded_after, event: token, .. } = *wakeup {
                    let wake = self.tasks.wakes[token.0 as usize];
                    *wakeup = self.resolve(wake, recorded_after, rows, removed, task);
                }
            }
            EventKind::Block { .. } => self.summary.blocks += 1,
            EventKind::Yield { .. } => self.summary.yields += 1,
            EventKind::Exec { .. }
            | EventKind::Call { .. }
            | EventKind::Exit { .. }
            | EventKind::Object { .. } => {}
        }
        true
    }

    fn resolve(
        &mut self,
        wake: Wake,
        after: Span,
        rows: &[Option<TaskId>],
        removed: &Removed,
        task: &mut Task,
    ) -> Wakeup {
        let by_evidence = match wake.evidence {
            Evidence::Task | Evidence::SoftIrq | Evidence::SoftIrqRaised => true,
            // They wake each other that way.
            Evidence::SoftIrqMaybe => self.softirq_pairs.contains(&(wake.wakee, wake.waker)),
        };
        if !by_evidence {
            count_outside(&mut task.outside, ExternalSource::SoftIrq);
            return Wakeup::External { after, source: ExternalSource::SoftIrq };
        }
        let place = match removed.get(&EventId(wake.event)) {
            None if wake.event == 0 => None,
            None => Some((EventId(wake.event), wake.cpu_ns)),
            Some((eid, more_ns)) => Some((*eid, wake.cpu_ns + more_ns)),
        };
        match (rows[wake.waker as usize], place) {
            (Some(waker), Some((event, distance_ns))) => {
                match wake.evidence {
                    Evidence::Task => self.summary.wakeups.task += 1,
                    evidence => {
                        self.summary.wakeups.softirq_on_behalf += 1;
                        self.summary.wakeups.softirq_raised += u64::from(evidence == Evidence::SoftIrqRaised);
                    }
                }
                let distance = Span::from_ns(distance_ns);
                Wakeup::Dependent { recorded_after: after, event, task: waker, distance }
            }
            _ => {
                count_outside(&mut task.outside, ExternalSource::Unknown);
                Wakeup::External { after, source: ExternalSource::Unknown }
            }
        }
    }

    /// Parents of tasks that were there at the start, from the snapshot.
    fn parents(&self, workload: &mut Workload, by_tid: &BTreeMap<Pid, TaskId>) {
        let Some(snapshot) = self.snapshot else { return };
        for (tid, row) in by_tid {
            let ppid = snapshot.row(tid.0).and_then(|row| row.ppid);
            let found = ppid.and_then(|ppid| by_tid.get(&Pid(ppid))).filter(|parent| *parent != row);
            if let Birth::Init { parent, .. } = &mut workload.tasks[row.index()].birth {
                *parent = found.copied();
            }
        }
    }

    fn notes(&self, workload: &mut Workload) {
        let wakeups = self.summary.wakeups;
        let mut note = |key: &str, value: String| {
            workload.notes.insert(key.to_string(), value);
        };
        note(
            "wakeups",
            format!(
                "{} in all: {} by tasks, {} by softirqs on behalf of tasks; external {} ({:.1} %): {} hardirq ({} \
                    timer, {} device, {} of unknown kind), {} softirq ({} timer), {} idle task, {} waker unknown, \
                    {} made up",
                wakeups.total(),
                wakeups.task,
                wakeups.softirq_on_behalf,
                wakeups.external(),
                wakeups.external_percent(),
                wakeups.hardirqs(),
                wakeups.timer,
                wakeups.device,
                wakeups.other_hardirq,
                wakeups.softirqs(),
                wakeups.timer_softirq,
                wakeups.idle,
                wakeups.unknown_waker,
                wakeups.made_up
            ),
        );
        note("wakeups before the switch-out", self.facts.early_wakes.to_string());
        note("wakings of tasks that had not blocked", self.facts.ignored_wakes.to_string());
        if self.facts.wakeup_fallback > 0 {
            note("wakeups taken from sched_wakeup (no sched_waking)", self.facts.wakeup_fallback.to_string());
        }
        note(
            "calls of sched_yield",
            format!("{}, {} became YIELD", self.facts.yield_calls, self.summary.yields),
        );
        let raised = wakeups.softirq_raised;
        let evidence = match (self.facts.irq_events, self.facts.softirq_events) {
            _ if self.facts.raise_events => format!(
                "softirq_raise in the waker's own context ({raised}); for the others, interrupts before the softirq, \
                    and pairs"
            ),
            (true, true) => "softirq and interrupt events in the trace".to_string(),
            (false, true) => {
                "softirq events in the trace, and pairs of tasks that wake each other by softirqs".to_string()
            }
            _ => "pairs of tasks that wake each other by softirqs".to_string(),
        };
        note("evidence for softirqs on behalf of tasks", evidence);
        note(
            "evidence for timers and devices",
            match (self.facts.vector_events, self.facts.irq_events) {
                (true, true) => "handlers of devices, and the CPUs' own interrupts",
                (false, true) => "handlers of devices",
                (true, false) => "the CPUs' own interrupts",
                (false, false) => "none: interrupts were not recorded",
            }
            .to_string(),
        );
        if self.facts.irq_events || self.facts.vector_events {
            let interrupt = Span::from_ns(self.summary.interrupt_ns);
            note("interrupts that hit tasks", fate_of_interrupts(self.options.interrupts, interrupt));
        }
        if self.facts.uncharged_ns > 0 {
            note(
                "CPU time of stays without end in the trace, not charged",
                Span::from_ns(self.facts.uncharged_ns).to_string(),
            );
        }
        if !self.facts.gaps.is_empty() {
            let start_ns = self.start_ns.unwrap_or(0);
            let at = |ns: u64| Span::from_ns(ns.saturating_sub(start_ns)).as_s_f64();
            let place = |(cpu, from_ns, until_ns, count): &(u32, u64, u64, Option<u64>)| {
                let count = count.map_or("some".to_string(), |count| count.to_string());
                format!("cpu{cpu} {:.6}-{:.6} s ({count})", at(*from_ns), at(*until_ns))
            };
            let mut places: Vec<String> = self.facts.gaps.iter().map(place).collect();
            let more = self.facts.nr_gaps - self.facts.gaps.len() as u64;
            if more > 0 {
                places.push(format!("and {more} more places"));
            }
            note("events lost by the recording", places.join(", "));
        }
        note("trace duration", Span::from_ns(self.summary.duration_ns).to_string());
        if let Some(snapshot) = self.snapshot {
            let seen: BTreeSet<i32> = workload.tasks.iter().map(|task| task.pid as i32).collect();
            let unseen = snapshot.rows().filter(|(tid, _)| !seen.contains(tid)).count();
            workload
                .notes
                .insert("tasks of the snapshot that did nothing, left out".to_string(), unseen.to_string());
        }
    }
}

/// What has become of so much time of interrupts.
fn fate_of_interrupts(rule: InterruptRule, interrupt: Span) -> String {
    match rule {
        InterruptRule::Subtract => format!("{interrupt}, taken out of the tasks' CPU time"),
        InterruptRule::Keep => "left in the tasks' CPU time".to_string(),
        InterruptRule::Replay => format!("{interrupt}, taken from their CPUs by tasks of their own"),
    }
}

impl super::WakeupCounts {
    fn add_to(&self, summary: &mut Summary) {
        let total = &mut summary.wakeups;
        total.softirq += self.softirq;
        total.timer_softirq += self.timer_softirq;
        total.timer += self.timer;
        total.device += self.device;
        total.other_hardirq += self.other_hardirq;
        total.idle += self.idle;
        total.unknown_waker += self.unknown_waker;
        total.made_up += self.made_up;
    }
}
