//! Which task of one log is which of the other?

use schedlab_log::{LogHeader, Row, Slots};
use schedlab_units::TaskId;
use std::collections::BTreeMap;

/// How tasks were matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedBy {
    /// Both logs list the same names in the same order.
    Number,
    /// The logs list as many tasks, but under other names: by their place in the list.
    Place,
    /// By pid and name where both agree, then by name in order of appearance.
    Name,
}

/// The same task in both logs, or a task that is in one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// In the first log.
    pub a: Option<TaskId>,
    /// In the second log.
    pub b: Option<TaskId>,
}

/// A common numbering of the tasks of two logs: the workload's tasks first, then kernel threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMap {
    /// How the workload's tasks were matched.
    pub by: MappedBy,
    /// Every task; its place is its common number.
    pub pairs: Vec<Pair>,
    /// Of the pairs, the first so many are the workload's.
    pub nr_workload: usize,
    /// Common number by row, per log.
    pub(super) of_row: [Vec<u32>; 2],
}

impl TaskMap {
    pub(super) fn new(headers: [&LogHeader; 2], slots: [&Slots; 2]) -> TaskMap {
        let keys = |header: &LogHeader| -> Vec<(u32, String)> {
            header.tasks.iter().map(|task| (task.pid, task.name.clone())).collect()
        };
        let [a, b] = headers.map(keys);
        let names = |keys: &[(u32, String)]| keys.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>();
        let (by, partner_of_b) = if names(&a) == names(&b) {
            (MappedBy::Number, (0..b.len()).map(Some).collect())
        } else {
            match by_name(&a, &b) {
                none if a.len() == b.len() && none.iter().all(Option::is_none) => {
                    (MappedBy::Place, (0..b.len()).map(Some).collect())
                }
                partner => (MappedBy::Name, partner),
            }
        };
        // kernel threads have other pids in every kernel
        let threads = |header: &LogHeader| -> Vec<(u32, String)> {
            header.kernel_threads.iter().map(|thread| (0, thread.name.clone())).collect()
        };
        let [threads_a, threads_b] = headers.map(threads);
        let partner_of_thread_b = by_name(&threads_a, &threads_b);
        let mut map = TaskMap {
            by,
            pairs: Vec::new(),
            nr_workload: 0,
            of_row: [Vec::new(), vec![u32::MAX; slots[1].len()]],
        };
        map.add(slots, (0, a.len()), 0, &partner_of_b);
        map.nr_workload = map.pairs.len();
        map.add(slots, (a.len(), threads_a.len()), b.len(), &partner_of_thread_b);
        map
    }

    /// Numbers the rows `first_a..` of one log, then those of the other that have no partner there.
    fn add(
        &mut self,
        slots: [&Slots; 2],
        (first_a, nr_a): (usize, usize),
        first_b: usize,
        partner_of_b: &[Option<usize>],
    ) {
        let base = self.pairs.len();
        for row in first_a..first_a + nr_a {
            self.of_row[0].push(self.pairs.len() as u32);
            self.pairs.push(Pair { a: Some(slots[0].id(Row(row as u32))), b: None });
        }
        for (row, partner) in partner_of_b.iter().enumerate().map(|(i, partner)| (first_b + i, partner)) {
            let id = Some(slots[1].id(Row(row as u32)));
            let number = match partner {
                Some(at) => {
                    self.pairs[base + at].b = id;
                    base + at
                }
                None => {
                    self.pairs.push(Pair { a: None, b: id });
                    self.pairs.len() - 1
                }
            };
            self.of_row[1][row] = number as u32;
        }
    }

    /// Tasks of the workload that are in one log only.
    pub fn unmatched(&self) -> impl Iterator<Item = &Pair> {
        self.pairs[..self.nr_workload].iter().filter(|pair| pair.a.is_none() || pair.b.is_none())
    }
}

/// For each of `b` its partner in `a`: equal pid and name first, then equal names in order of appearance.
fn by_name(a: &[(u32, String)], b: &[(u32, String)]) -> Vec<Option<usize>> {
    let mut partner = vec![None; b.len()];
    let mut taken = vec![false; a.len()];
    let exact: BTreeMap<&(u32, String), usize> =
        a.iter().enumerate().rev().map(|(i, key)| (key, i)).collect();
    for (i, key) in b.iter().enumerate() {
        if let Some(&at) = exact.get(key)
            && !taken[at]
        {
            (partner[i], taken[at]) = (Some(at), true);
        }
    }
    let mut free: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, (_, name)) in a.iter().enumerate().rev().filter(|(i, _)| !taken[*i]) {
        free.entry(name).or_default().push(i); // the first to appear last, to be popped first
    }
    for (i, (_, name)) in b.iter().enumerate() {
        if partner[i].is_none() {
            partner[i] = free.get_mut(name.as_str()).and_then(Vec::pop);
        }
    }
    partner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_partners() {
        let list = |text: &str| -> Vec<(u32, String)> {
            let one = |word: &str| {
                let (pid, name) = word.split_once(':').unwrap();
                (pid.parse().unwrap(), name.to_string())
            };
            text.split_whitespace().map(one).collect()
        };
        let a = list("1:sh 2:cc 3:cc 4:ld 9:cc");
        assert_eq!(
            by_name(&a, &list("4:ld 3:cc 7:cc 8:cc 1:make")),
            [Some(3), Some(2), Some(1), Some(4), None]
        );
        assert_eq!(by_name(&a, &a), (0..5).map(Some).collect::<Vec<_>>());
        assert_eq!(by_name(&[], &list("1:x")), [None]);
        // the same key twice has two partners
        let twice = list("0:k 0:k");
        assert_eq!(by_name(&twice, &twice), [Some(0), Some(1)]);
    }
}
