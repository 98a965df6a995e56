//! What are a task's settings when it is born, or later? As far as the workload tells: a child inherits what
//! its parent has at the FORK.

use crate::{Birth, CgroupId, ParamChange, Task, Workload};
use schedlab_units::{CpuSet, Nice, SchedParams};

/// A task's settings; `None` as in [`Task`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    pub params: Option<SchedParams>,
    pub affinity: Option<CpuSet>,
    pub cgroup: Option<CgroupId>,
}

/// Changes one after the other, as one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Delta {
    params: Option<SchedParams>,
    /// After `params`.
    nice: Option<Nice>,
    affinity: Option<CpuSet>,
    cgroup: Option<CgroupId>,
}

impl Delta {
    /// Another change, after those so far.
    pub fn add(&mut self, change: &ParamChange) {
        if change.params.is_some() {
            (self.params, self.nice) = (change.params, None);
        }
        self.nice = change.nice.or(self.nice);
        if change.affinity.is_some() {
            self.affinity.clone_from(&change.affinity);
        }
        self.cgroup = change.cgroup.or(self.cgroup);
    }

    /// Makes the changes.
    pub fn apply(&self, settings: &mut Settings) {
        settings.params = self.params.or(settings.params);
        if let Some(nice) = self.nice {
            settings.params = Some(SchedParams { nice, ..settings.params.unwrap_or_default() });
        }
        if self.affinity.is_some() {
            settings.affinity.clone_from(&self.affinity);
        }
        settings.cgroup = self.cgroup.or(settings.cgroup);
    }
}

impl Settings {
    /// What a task states of itself.
    fn of(task: &Task) -> Settings {
        Settings { params: task.params, affinity: task.affinity.clone(), cgroup: task.cgroup }
    }

    /// Gives them to a task.
    pub fn give(self, task: &mut Task) {
        (task.params, task.affinity, task.cgroup) = (self.params, self.affinity, self.cgroup);
    }
}

/// The settings of every task at its birth. `inherited` tells per row what the parent had changed of itself
/// until the FORK.
pub(crate) fn at_birth(workload: &Workload, inherited: &[Delta]) -> Vec<Settings> {
    let nr = workload.tasks.len();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nr];
    let mut open = Vec::new();
    let mut settings: Vec<Settings> = workload.tasks.iter().map(Settings::of).collect();
    for (row, task) in workload.tasks.iter().enumerate() {
        match task.birth {
            Birth::Init { .. } => open.push(row),
            Birth::Fork { parent } => {
                if let Some(list) = children.get_mut(parent.0 as usize) {
                    list.push(row);
                }
            }
        }
    }
    while let Some(parent) = open.pop() {
        for &child in &children[parent] {
            let mut at_fork = settings[parent].clone();
            inherited[child].apply(&mut at_fork);
            let own = Settings::of(&workload.tasks[child]);
            settings[child] = Settings {
                params: own.params.or(at_fork.params),
                affinity: own.affinity.or(at_fork.affinity),
                cgroup: own.cgroup.or(at_fork.cgroup),
            };
            open.push(child);
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventKind, parse_text};

    #[test]
    fn children_inherit_what_their_parents_had_become() {
        let text = "CGROUP /a\n- INIT 0 0 1 runnable policy=batch nice=2\n- PRIO 1 1ms nice=7 affinity=0\n\
            - FORK 1 2ms 2\n- PRIO 1 3ms policy=idle cgroup=/a\n- FORK 1 4ms 3 affinity=1\n- FORK 2 1ms 4\n";
        let workload = parse_text("t", text.as_bytes()).unwrap();
        let mut inherited = vec![Delta::default(); 4];
        let mut delta = Delta::default();
        for event in &workload.tasks[0].events {
            match &event.kind {
                EventKind::Prio { change, .. } => delta.add(change),
                EventKind::Fork { child, .. } => inherited[child.index()] = delta.clone(),
                _ => {}
            }
        }
        let listed: Vec<String> = at_birth(&workload, &inherited)
            .iter()
            .map(|settings| {
                let params = settings.params.unwrap();
                let affinity = settings.affinity.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("{} {} {affinity} {:?}", params.policy, params.nice, settings.cgroup.map(|id| id.0))
            })
            .collect();
        assert_eq!(listed, ["batch 2  None", "batch 7 0 None", "idle 0 1 Some(0)", "batch 7 0 None"]);
    }
}
