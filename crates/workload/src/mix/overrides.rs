//! How does a mix give tasks other settings than their workload does?
//!
//! What is overridden holds for good: where the workload changes it later, the change sets the overriding
//! value. A child that inherits inherits overridden settings too, as on any Linux.

use crate::tools::{Delta, at_birth};
use crate::{Birth, CgroupId, EventKind, ParamChange, Workload};
use schedlab_units::{CpuSet, DeadlineParams, Nice, SchedParams, SchedPolicy};

/// Settings that tasks get; `None`: as the workload has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Override {
    pub nice: Option<Nice>,
    pub policy: Option<SchedPolicy>,
    /// With the policies that have one.
    pub rt_priority: u8,
    pub deadline: Option<DeadlineParams>,
    pub affinity: Option<CpuSet>,
    pub cgroup: Option<String>,
}

impl Override {
    /// These settings, and where they leave something open those of `under`.
    pub fn over(&self, under: &Override) -> Override {
        let policy = if self.policy.is_some() { self } else { under };
        Override {
            nice: self.nice.or(under.nice),
            policy: policy.policy,
            rt_priority: policy.rt_priority,
            deadline: policy.deadline,
            affinity: self.affinity.clone().or_else(|| under.affinity.clone()),
            cgroup: self.cgroup.clone().or_else(|| under.cgroup.clone()),
        }
    }

    /// The parameters that come of these.
    pub fn params(&self, old: SchedParams) -> SchedParams {
        let params = match self.policy {
            Some(policy) => {
                SchedParams { policy, nice: old.nice, rt_priority: self.rt_priority, deadline: self.deadline }
            }
            None => old,
        };
        SchedParams { nice: self.nice.unwrap_or(params.nice), ..params }
    }

    fn changes_params(&self) -> bool {
        self.nice.is_some() || self.policy.is_some()
    }

    /// Whether a child of a task with `parent` gets the same parameters by inheriting.
    fn inherits(&self, parent: &Override) -> bool {
        let of = |over: &Override| (over.nice, over.policy, over.rt_priority, over.deadline);
        of(self) == of(parent)
    }

    fn change(&self, change: &mut ParamChange, group: impl Fn(&str) -> CgroupId) {
        change.params = change.params.map(|params| self.params(params));
        if change.nice.is_some() {
            change.nice = self.nice.or(change.nice);
        }
        if change.affinity.is_some() && self.affinity.is_some() {
            change.affinity.clone_from(&self.affinity);
        }
        if let (Some(_), Some(path)) = (change.cgroup, &self.cgroup) {
            change.cgroup = Some(group(path));
        }
    }
}

/// Gives the tasks of a workload their overriding settings, one per row; `group` finds the control group of a path.
pub(super) fn apply(workload: &mut Workload, overrides: &[Override], group: impl Fn(&str) -> CgroupId) {
    if overrides.iter().all(|over| *over == Override::default()) {
        return;
    }
    // what they would have at birth: a child of whom other settings are asked cannot inherit them
    let mut inherited = vec![Delta::default(); workload.tasks.len()];
    for (row, task) in workload.tasks.iter().enumerate() {
        let mut delta = Delta::default();
        for event in &task.events {
            match &event.kind {
                EventKind::Prio { change, .. }
                    if change.target.is_none_or(|target| target.index() == row) =>
                {
                    delta.add(change);
                }
                EventKind::Fork { child, .. } => inherited[child.index()].clone_from(&delta),
                _ => {}
            }
        }
    }
    let births = at_birth(workload, &inherited);
    for (row, task) in workload.tasks.iter_mut().enumerate() {
        let over = &overrides[row];
        if over.changes_params() {
            let by_inheriting = match task.birth {
                Birth::Fork { parent } => task.params.is_none() && over.inherits(&overrides[parent.index()]),
                Birth::Init { .. } => false,
            };
            if !by_inheriting {
                task.params = Some(over.params(births[row].params.unwrap_or_default()));
            }
        }
        if over.affinity.is_some() {
            task.affinity.clone_from(&over.affinity);
        }
        if let Some(path) = &over.cgroup {
            task.cgroup = Some(group(path));
        }
        for event in &mut task.events {
            if let EventKind::Prio { change, .. } = &mut event.kind {
                let target = change.target.map_or(row, |target| target.index());
                overrides[target].change(change, &group);
            }
        }
    }
}
