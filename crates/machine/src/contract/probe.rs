//! A policy with a witness: passes every call on and keeps its own account of who owns what.

use crate::policy::{
    Arrival, BlockedBirth, Policy, Request, Resched, Stop, Timing, View, Wants, WorkConservation,
};
use schedlab_units::{CpuId, Span, TaskId, Time};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What a [`Probe`] has found; shared with whoever reads it after the run.
#[derive(Clone, Debug, Default)]
pub struct Findings(Rc<RefCell<Option<String>>>);

impl Findings {
    /// The first broken rule, if any.
    pub fn take(&self) -> Option<String> {
        self.0.borrow_mut().take()
    }
    fn set(&self, text: impl FnOnce() -> String) {
        self.0.borrow_mut().get_or_insert_with(text);
    }
}

/// Wraps a policy and checks both sides of the contract at each call.
///
/// Between two instants nothing changes; so the state found at the first call of an instant has lasted since
/// the last call of the one before: a CPU idle then, with a task owned by the policy that it may run, was
/// idle for that long.
pub struct Probe<P: Policy> {
    policy: P,
    promise: WorkConservation,
    findings: Findings,
    /// Tasks that exist.
    known: BTreeSet<TaskId>,
    /// Tasks that the policy owns.
    owned: BTreeSet<TaskId>,
    /// Who was picked on which CPU and not put back yet.
    picked: BTreeMap<CpuId, TaskId>,
    /// What `select_cpu` said, until `enqueue`.
    selected: Option<(TaskId, CpuId)>,
    last_call: Time,
}

impl<P: Policy> Probe<P> {
    /// The policy with its witness, and where the findings are read.
    pub fn new(policy: P) -> (Probe<P>, Findings) {
        let findings = Findings::default();
        let probe = Probe {
            promise: policy.work_conservation(),
            policy,
            findings: findings.clone(),
            known: BTreeSet::new(),
            owned: BTreeSet::new(),
            picked: BTreeMap::new(),
            selected: None,
            last_call: Time::ZERO,
        };
        (probe, findings)
    }

    fn require(&self, view: &View, holds: bool, rule: &str, task: TaskId) {
        if !holds {
            self.findings.set(|| format!("at {} ns, {task}: {rule}", view.now().as_ns()));
        }
    }

    /// At the first call of an instant: was a CPU idle since the last one that had no reason to be?
    fn instant(&mut self, view: &View) {
        let since = std::mem::replace(&mut self.last_call, view.now());
        if since > view.now() {
            self.findings.set(|| "time went back".to_string());
        }
        if since == view.now() {
            return;
        }
        for &task in &self.owned {
            let mut idle = (0..view.nr_cpus()).map(CpuId).filter(|&cpu| view.is_idle(cpu));
            let waste = match self.promise {
                WorkConservation::Never => None,
                WorkConservation::PerCpu => idle.find(|&cpu| view.task_cpu(task) == cpu),
                WorkConservation::Machine => idle.find(|&cpu| view.allowed(task, cpu)),
            };
            if let Some(cpu) = waste {
                let length = view.now() - since;
                self.findings.set(|| {
                    format!(
                        "{cpu} was idle for {length} until {} ns while {task}, which it may run, waited: \
                         against the policy's claim of work conservation ({:?})",
                        view.now().as_ns(),
                        self.promise
                    )
                });
            }
        }
    }

    fn running(&self, cpu: CpuId, task: TaskId) -> bool {
        self.picked.get(&cpu) == Some(&task)
    }
}

impl<P: Policy> Policy for Probe<P> {
    fn work_conservation(&self) -> WorkConservation {
        self.promise
    }

    fn timing(&self) -> Timing {
        self.policy.timing()
    }

    fn tick_phase(&self) -> Span {
        self.policy.tick_phase()
    }

    fn blocked_birth(&self) -> BlockedBirth {
        self.policy.blocked_birth()
    }

    fn task_new(&mut self, view: &View, task: TaskId) {
        self.instant(view);
        let new = self.known.insert(task);
        self.require(view, new, "task_new was called twice", task);
        self.policy.task_new(view, task);
    }

    fn task_exit(&mut self, view: &View, task: TaskId) {
        self.instant(view);
        let owned = self.owned.contains(&task);
        let known = self.known.remove(&task);
        self.require(
            view,
            known && !owned,
            "task_exit for a task that is unknown or owned by the policy",
            task,
        );
        self.policy.task_exit(view, task);
    }

    fn params_changed(&mut self, view: &View, task: TaskId) {
        self.instant(view);
        let fine = self.known.contains(&task) && !self.owned.contains(&task);
        self.require(view, fine, "params_changed for a task that is unknown or owned by the policy", task);
        self.policy.params_changed(view, task);
    }

    fn select_cpu(&mut self, view: &View, task: TaskId, arrival: Arrival) -> CpuId {
        self.instant(view);
        let fine = self.known.contains(&task) && !self.owned.contains(&task);
        self.require(view, fine, "select_cpu for a task that is unknown or owned by the policy", task);
        let cpu = self.policy.select_cpu(view, task, arrival);
        self.selected = Some((task, cpu));
        cpu
    }

    fn exec_cpu(&mut self, view: &View, task: TaskId) -> CpuId {
        self.instant(view);
        self.require(view, self.known.contains(&task), "exec_cpu for a task that is unknown", task);
        let cpu = self.policy.exec_cpu(view, task);
        self.selected = Some((task, cpu));
        cpu
    }

    fn enqueue(&mut self, view: &View, cpu: CpuId, task: TaskId, arrival: Arrival) {
        self.instant(view);
        let selected = self.selected.take() == Some((task, cpu));
        self.require(view, selected, "enqueue without select_cpu before it", task);
        let new = self.owned.insert(task);
        self.require(view, new, "enqueue of a task that the policy owns already", task);
        self.policy.enqueue(view, cpu, task, arrival);
    }

    fn dequeue(&mut self, view: &View, cpu: CpuId, task: TaskId) {
        self.instant(view);
        let owned = self.owned.remove(&task);
        self.require(view, owned, "dequeue of a task that the policy does not own", task);
        self.policy.dequeue(view, cpu, task);
    }

    fn pick_next(&mut self, view: &View, cpu: CpuId) -> Option<TaskId> {
        self.instant(view);
        let free = !self.picked.contains_key(&cpu);
        self.require(view, free, "pick_next before put_prev of the last pick", TaskId::IDLE);
        let next = self.policy.pick_next(view, cpu);
        // a task that the policy does not own is the adaptor's to find
        if let Some(task) = next.filter(|task| self.owned.remove(task)) {
            self.picked.insert(cpu, task);
        }
        next
    }

    fn put_prev(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span, stop: Stop) {
        self.instant(view);
        let running = self.running(cpu, task);
        self.picked.remove(&cpu);
        self.require(view, running, "put_prev of a task that does not run there", task);
        if stop.is_runnable() {
            self.owned.insert(task);
        }
        self.policy.put_prev(view, cpu, task, ran, stop);
    }

    fn preempts(&mut self, view: &View, cpu: CpuId, current: TaskId, woken: TaskId) -> Resched {
        let fine = self.running(cpu, current) && self.owned.contains(&woken);
        self.require(view, fine, "preempts for a task that does not run there, or is not queued", woken);
        self.policy.preempts(view, cpu, current, woken)
    }

    fn slice(&mut self, view: &View, cpu: CpuId, task: TaskId) -> Option<Span> {
        self.require(view, self.running(cpu, task), "slice for a task that does not run there", task);
        self.policy.slice(view, cpu, task)
    }

    fn slice_end(&mut self, view: &View, cpu: CpuId, task: TaskId, ran: Span) -> Resched {
        self.instant(view);
        self.require(view, self.running(cpu, task), "slice_end for a task that does not run there", task);
        self.policy.slice_end(view, cpu, task, ran)
    }

    fn tick(&mut self, view: &View, cpu: CpuId, current: TaskId, ran: Span) -> Resched {
        self.instant(view);
        self.require(view, self.running(cpu, current), "tick for a task that does not run there", current);
        self.policy.tick(view, cpu, current, ran)
    }

    fn boot(&mut self, view: &View) -> Wants {
        self.policy.boot(view)
    }

    fn tick_idle(&mut self, view: &View, cpu: CpuId) -> Resched {
        self.instant(view);
        self.policy.tick_idle(view, cpu)
    }

    fn next_request(&mut self) -> Option<Request> {
        let request = self.policy.next_request();
        if let Some(Request::Moved { task, .. }) = request
            && !self.owned.contains(&task)
        {
            self.findings.set(|| format!("{task}: Request::Moved for a task that the policy does not own"));
        }
        request
    }

    fn next_timer(&mut self, view: &View, cpu: CpuId) -> Option<Time> {
        self.policy.next_timer(view, cpu)
    }

    fn timer(&mut self, view: &View, cpu: CpuId) -> Resched {
        self.instant(view);
        self.policy.timer(view, cpu)
    }

    fn warnings(&self) -> Vec<String> {
        self.policy.warnings()
    }
}
