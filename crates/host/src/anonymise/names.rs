//! Which name may a task keep when a recording is given away, and what is it called otherwise?
//!
//! | task | name in the result |
//! |---|---|
//! | the recorded command's own (root and all it forks) | its own |
//! | a kernel thread that every Linux has | its own, less device names: irq/24-ACPI:Ged becomes irq/24 |
//! | swapper | its own |
//! | everything else | other-1, other-2, ... in order of pid, one per pid |

use std::collections::{BTreeMap, BTreeSet};

use schedlab_trace::standard_kernel_thread;

use super::Others;
use crate::cgroup::lineage;

/// kthreadd, the parent of all kernel threads.
pub(super) const KTHREADD: i32 = 2;

/// Whose task is it?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// pid 0.
    Idle,
    /// The recorded command's.
    Kept,
    /// A kernel thread with a standard name.
    Kernel,
    /// Somebody else's.
    Foreign,
}

/// What the first reading found out about the tasks.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub kept: BTreeSet<i32>,
    /// Threads whose parent is kthreadd.
    pub kernel: BTreeSet<i32>,
    /// Names of foreign tasks.
    pub others: BTreeMap<i32, String>,
    /// Ids that belonged to the command and to somebody else in turn: treated as somebody else's.
    pub reused: BTreeSet<i32>,
    /// New names of control groups, by path.
    pub groups: BTreeMap<String, String>,
}

/// New paths for control groups: every part has a number instead of its name, so that what lies in what is still told.
pub(super) fn rename_groups<'a>(paths: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    paths.for_each(|path| known.extend(lineage(path)));
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    // a path comes after those above it
    for (path, n) in known.into_iter().zip(1..) {
        let above = path.rfind('/').and_then(|at| renamed.get(&path[..at])).map_or("", String::as_str);
        let new = format!("{above}/cgroup-{n}");
        renamed.insert(path.to_owned(), new);
    }
    renamed
}

impl Tasks {
    /// `roots` and what they fork are kept; `alive` are the threads that lived at the start, with their parents.
    pub(super) fn new(
        roots: &BTreeSet<i32>,
        forks: &BTreeSet<(i32, i32)>,
        alive: &BTreeMap<i32, Option<i32>>,
        seen: &BTreeSet<i32>,
    ) -> Tasks {
        let mut tasks = Tasks { kept: roots.clone(), ..Tasks::default() };
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for &(parent, child) in forks {
            children.entry(parent).or_default().push(child);
        }
        let mut open: Vec<i32> = roots.iter().copied().collect();
        while let Some(parent) = open.pop() {
            for &child in children.get(&parent).into_iter().flatten() {
                if tasks.kept.insert(child) {
                    open.push(child);
                }
            }
        }
        let kept = &tasks.kept;
        let foreign_births =
            forks.iter().filter(|(parent, child)| kept.contains(child) && !kept.contains(parent));
        let lived_before = kept.iter().filter(|pid| alive.contains_key(pid) && !roots.contains(pid));
        tasks.reused = foreign_births.map(|(_, child)| *child).chain(lived_before.copied()).collect();
        tasks.kept = tasks.kept.difference(&tasks.reused).copied().collect();
        let kernel_parent = |parent: Option<i32>| parent == Some(KTHREADD);
        tasks.kernel =
            alive.iter().filter(|(_, parent)| kernel_parent(**parent)).map(|(pid, _)| *pid).collect();
        tasks.kernel.extend(children.get(&KTHREADD).into_iter().flatten());
        tasks.kernel.insert(KTHREADD);
        let foreign =
            seen.iter().chain(alive.keys()).copied().filter(|pid| *pid > 0 && !tasks.kept.contains(pid));
        let foreign: BTreeSet<i32> = foreign.collect();
        tasks.others = foreign.into_iter().zip(1..).map(|(pid, n)| (pid, format!("other-{n}"))).collect();
        tasks
    }

    /// Whose is it, if it bears this name?
    pub(super) fn kind(&self, pid: i32, name: &str) -> Owner {
        if pid == 0 {
            Owner::Idle
        } else if self.kept.contains(&pid) {
            Owner::Kept
        } else if self.kernel.contains(&pid) && standard_kernel_thread(name).is_some() {
            Owner::Kernel
        } else {
            Owner::Foreign
        }
    }

    /// Whose is it, where no name stands by? Kernel threads without a standard name count as the kernel's: only their
    /// name is replaced.
    pub(super) fn kind_by_pid(&self, pid: i32) -> Owner {
        match pid {
            0 => Owner::Idle,
            _ if self.kept.contains(&pid) => Owner::Kept,
            _ if self.kernel.contains(&pid) => Owner::Kernel,
            _ => Owner::Foreign,
        }
    }

    /// True when the task stays in the result.
    pub(super) fn stays(&self, pid: i32, others: Others) -> bool {
        others == Others::Rename || self.kind_by_pid(pid) != Owner::Foreign
    }

    /// The path for a control group in the result.
    pub(super) fn group(&self, path: &str) -> String {
        if path == "/" { path.to_owned() } else { self.groups.get(path).cloned().unwrap_or_default() }
    }

    /// The name for a task in the result, whose name was `name`, met on `cpu`.
    pub(super) fn name(&self, pid: i32, name: &str, cpu: u32) -> String {
        match self.kind(pid, name) {
            Owner::Idle => match name.strip_prefix("swapper/") {
                Some(number) if number.parse::<u32>().is_ok() => name.to_owned(),
                _ => format!("swapper/{cpu}"),
            },
            Owner::Kept => name.to_owned(),
            Owner::Kernel => standard_kernel_thread(name).unwrap_or_default(),
            Owner::Foreign => self.others.get(&pid).cloned().unwrap_or_else(|| "other".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_tree_is_kept_and_reused_ids_are_not() {
        // 100 is the command; 100 -> 101 -> 102; 50 (foreign) -> 60; kthreadd -> 70.
        // 103 was forked by the command and later by a stranger; 104 lived before the command forked it.
        let forks =
            BTreeSet::from([(100, 101), (101, 102), (50, 60), (2, 70), (100, 103), (50, 103), (100, 104)]);
        let alive =
            BTreeMap::from([(2, Some(0)), (15, Some(2)), (50, Some(1)), (100, Some(99)), (104, Some(1))]);
        let seen = BTreeSet::from([0, 15, 50, 60, 70, 100, 101, 102, 103, 104]);
        let tasks = Tasks::new(&BTreeSet::from([100]), &forks, &alive, &seen);
        assert_eq!(tasks.kept, BTreeSet::from([100, 101, 102]));
        assert_eq!(tasks.reused, BTreeSet::from([103, 104]));
        assert_eq!(tasks.kernel, BTreeSet::from([2, 15, 70]));
        assert_eq!(tasks.name(102, "cc1", 0), "cc1");
        assert_eq!(tasks.name(15, "rcu_preempt", 0), "rcu_preempt");
        assert_eq!(tasks.name(15, "evil", 0), tasks.others[&15]);
        assert_eq!(tasks.name(0, "", 3), "swapper/3");
        // A stranger who calls himself a kernel thread is a stranger.
        assert_eq!(tasks.name(60, "ksoftirqd/0", 0), tasks.others[&60]);
        assert_ne!(tasks.others[&50], tasks.others[&60]);
        assert!(tasks.name(103, "secret", 0).starts_with("other-"));
    }
}
