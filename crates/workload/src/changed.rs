//! Is it still the experiment that was asked for? What changes who may run where, and with which right, before the
//! first decision.
//!
//! ```text
//! 8 INIT 0 0 100 runnable name=camera affinity=4-5      on 4 CPUs: it may run on any
//! dropped: 1 change of affinity, whose mask is not in the trace, left out
//! ```
//!
//! Most of what an import leaves out bends a length or a cause, and is counted in [`Workload::dropped`] only. What is
//! listed here
//! makes it another experiment: a report says it first, and `--strict` refuses the result. What the scheduler itself
//! refused (a policy, an affinity) is known after the run, and is added there.

use crate::{EventKind, Workload};
use schedlab_units::CpuSet;
use std::collections::BTreeMap;

/// A task was a deadline task, with a reservation that nobody recorded.
pub(crate) const UNKNOWN_DEADLINE: &str = "task with unknown deadline parameters, taken as normal";
/// A task became a deadline task, with a reservation that nobody recorded.
pub(crate) const UNKNOWN_CHANGE: &str =
    "change to deadline parameters that the trace does not tell, left out";
/// Somebody set an affinity that nobody recorded.
pub(crate) const UNKNOWN_AFFINITY: &str = "change of affinity, whose mask is not in the trace, left out";

/// What an import counts that changes the experiment.
const BY_IMPORT: [&str; 3] = [UNKNOWN_DEADLINE, UNKNOWN_CHANGE, UNKNOWN_AFFINITY];

/// More sentences than these are one.
const SENTENCES: usize = 20;

impl Workload {
    /// What makes a run on a machine of so many CPUs another experiment than the one that was asked for: a sentence
    /// and how often.
    ///
    /// Recorded kernel threads are not asked: one that was bound to a CPU that is not there has no other place.
    pub fn changed_experiment(&self, nr_cpus: u32) -> BTreeMap<String, u64> {
        let mut changed = BTreeMap::new();
        for reason in BY_IMPORT {
            if let Some(times) = self.dropped.get(reason) {
                changed.insert(reason.to_string(), *times);
            }
        }
        let is_lost = |cpus: &&CpuSet| cpus.iter().all(|cpu| cpu.0 >= nr_cpus);
        let mut lost: BTreeMap<String, u64> = BTreeMap::new();
        let mut say = |sentence: String| *lost.entry(sentence).or_default() += 1;
        for task in self.tasks.iter().filter(|task| !task.kernel_thread) {
            if let Some(cpus) = task.affinity.as_ref().filter(is_lost) {
                say(roams(cpus, &task.name));
            }
            for event in &task.events {
                let EventKind::Prio { change, .. } = &event.kind else { continue };
                let target = change.target.map_or(task, |target| self.task(target));
                if let Some(cpus) =
                    change.affinity.as_ref().filter(|cpus| is_lost(cpus) && !target.kernel_thread)
                {
                    say(roams(cpus, &target.name));
                }
            }
        }
        for group in &self.cgroups {
            if let Some(cpus) = group.cpuset.as_ref().filter(is_lost) {
                say(format!(
                    "control group {} is for CPUs {cpus}, which this machine lacks: all CPUs are taken",
                    group.path
                ));
            }
        }
        let rest: u64 = lost.values().skip(SENTENCES).sum();
        if rest > 0 {
            changed
                .insert("affinity of other tasks that names no CPU of this machine, left out".into(), rest);
        }
        changed.extend(lost.into_iter().take(SENTENCES));
        changed
    }
}

fn roams(cpus: &CpuSet, name: &str) -> String {
    format!("'{name}' is bound to CPUs {cpus}, which this machine lacks: it may run on any")
}

#[cfg(test)]
mod tests {
    use crate::parse_text;

    #[test]
    fn only_what_changes_the_experiment_is_listed() {
        let text = "CGROUP /rt cpuset=6\n1 INIT 0 0 1 runnable name=camera affinity=4-5\n2 EXIT 1 1ms\n\
            3 INIT 0 0 2 runnable name=kworker/5 affinity=5 kernel=yes\n4 EXIT 2 1ms\n\
            5 INIT 0 0 3 runnable name=moves affinity=0\n6 PRIO 3 1ms affinity=7\n7 EXIT 3 2ms\n";
        let mut workload = parse_text("test", text.as_bytes()).unwrap();
        workload.count_dropped(super::UNKNOWN_AFFINITY, 2);
        workload.count_dropped("blocked task that ran again without a wakeup in the trace; one made up", 9);
        let of = |nr_cpus| workload.changed_experiment(nr_cpus).into_iter().collect::<Vec<_>>();
        let two = (super::UNKNOWN_AFFINITY.to_string(), 2);
        assert_eq!(of(8), std::slice::from_ref(&two));
        let moves = "'moves' is bound to CPUs 7, which this machine lacks: it may run on any";
        let group = "control group /rt is for CPUs 6, which this machine lacks: all CPUs are taken";
        assert_eq!(of(6), [(moves.to_string(), 1), two.clone(), (group.to_string(), 1)]);
        let camera = "'camera' is bound to CPUs 4-5, which this machine lacks: it may run on any";
        assert!(of(4).iter().any(|(sentence, times)| sentence == camera && *times == 1));
        assert_eq!(of(4).len(), 4);
        assert!(!of(4).iter().any(|(sentence, _)| sentence.contains("kworker")));
    }
}
