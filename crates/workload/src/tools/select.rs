//! Which tasks are meant?
//!
//! ```text
//! names cc1* as       pids 4711       cgroups /build       kernel no       children
//! ```
//!
//! A task is meant if it fits one of the names (if any are given), one of the pids, one of the groups, and is
//! a kernel thread or not as asked. With `children` everything that such a task forked is meant too, whatever
//! it is called.

use crate::{Birth, Task, Workload};

/// Says which tasks of a workload are meant; the default means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Patterns for names, see [`glob`]; empty: any name.
    pub names: Vec<String>,
    /// Identifiers as in the text form; empty: any.
    pub pids: Vec<u32>,
    /// Paths of groups: tasks in them and in groups below; empty: any.
    pub cgroups: Vec<String>,
    /// Kernel threads only, or no kernel threads.
    pub kernel: Option<bool>,
    /// Also all that the others forked, and what these forked.
    pub children: bool,
}

impl Selector {
    /// Whether it means every task there can be.
    pub fn is_all(&self) -> bool {
        *self == Selector { children: self.children, ..Selector::default() }
    }

    /// Per row whether the task is meant.
    pub fn rows(&self, workload: &Workload) -> Vec<bool> {
        let mut rows: Vec<bool> = workload.tasks.iter().map(|task| self.fits(workload, task)).collect();
        if self.children && !self.is_all() {
            // parents may stand behind their children: down from those that are meant
            let mut children: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
            for (row, task) in workload.tasks.iter().enumerate() {
                let (Birth::Init { parent: Some(parent), .. } | Birth::Fork { parent }) = task.birth else {
                    continue;
                };
                if let Some(list) = children.get_mut(parent.0 as usize) {
                    list.push(row);
                }
            }
            let mut open: Vec<usize> = (0..rows.len()).filter(|&row| rows[row]).collect();
            while let Some(row) = open.pop() {
                for &child in &children[row] {
                    if !std::mem::replace(&mut rows[child], true) {
                        open.push(child);
                    }
                }
            }
        }
        rows
    }

    fn fits(&self, workload: &Workload, task: &Task) -> bool {
        let path = || {
            let group = task.cgroup.and_then(|id| workload.cgroups.get(id.0 as usize));
            group.map_or("/", |group| group.path.as_str())
        };
        let in_group = |group: &String| {
            let rest = path().strip_prefix(group.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        (self.names.is_empty() || self.names.iter().any(|pattern| glob(pattern, &task.name)))
            && (self.pids.is_empty() || self.pids.contains(&task.pid))
            && (self.cgroups.is_empty() || self.cgroups.iter().any(in_group))
            && self.kernel.is_none_or(|kernel| kernel == task.kernel_thread)
    }
}

/// Whether a name fits a pattern: `*` stands for any characters, `?` for one.
pub fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star = None; // the last `*`, and how much of the name it may already have taken
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_text;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name, fits) in [
            ("cc1", "cc1", true),
            ("cc1", "cc1plus", false),
            ("cc1*", "cc1plus", true),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("k*/?:*", "kworker/0:1H", true),
            ("k*/?:*", "kworker/12:1", false),
            ("*a*b", "xxaxxbxb", true),
            ("*a*b", "xxaxxbxbc", false),
            ("?é", "éé", true),
        ] {
            assert_eq!(glob(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn every_criterion_narrows_and_children_widen() {
        let text = "CGROUP /a\nCGROUP /a/b\nCGROUP /ab\n\
            - INIT 0 0 1 runnable name=make cgroup=/a\n- INIT 0 0 2 runnable name=cc1 cgroup=/ab kernel=yes\n\
            - FORK 1 1ms 3 name=sh cgroup=/a/b\n- FORK 3 1ms 4 name=cc1\n- INIT 2 0 5 runnable name=odd\n";
        let workload = parse_text("t", text.as_bytes()).unwrap();
        let pids = |selector: Selector| -> Vec<u32> {
            let rows = selector.rows(&workload);
            workload.tasks.iter().zip(rows).filter(|(_, meant)| *meant).map(|(task, _)| task.pid).collect()
        };
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let all = Selector::default;
        assert_eq!(pids(all()).len(), 5);
        assert_eq!(pids(Selector { names: names(&["cc1"]), ..all() }), [2, 4]);
        assert_eq!(pids(Selector { names: names(&["cc1"]), kernel: Some(false), ..all() }), [4]);
        assert_eq!(pids(Selector { cgroups: names(&["/a"]), ..all() }), [1, 3]);
        assert_eq!(pids(Selector { cgroups: names(&["/"]), ..all() }).len(), 5);
        assert_eq!(pids(Selector { pids: vec![1], children: true, ..all() }), [1, 3, 4]);
        assert_eq!(pids(Selector { pids: vec![2], children: true, ..all() }), [2, 5]);
    }
}
