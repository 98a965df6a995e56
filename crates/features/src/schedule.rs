//! Who ran where, from when to when?

use schedlab_log::{Kind, Record};
use schedlab_units::TaskId;
use std::collections::BTreeSet;

/// A task on a CPU without interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stay {
    pub task: u32,
    pub cpu: u32,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// All stays of workload tasks, in order of their ends, and their wakeups.
pub(crate) struct Schedule {
    pub stays: Vec<Stay>,
    /// Task and time.
    pub wakeups: Vec<(u32, u64)>,
    pub end_ns: u64,
}

impl Schedule {
    pub(crate) fn new(records: &[Record], nr_cpus: u32, end_ns: u64) -> Schedule {
        let mut on: Vec<Option<(u32, u64)>> = vec![None; nr_cpus as usize];
        let mut stays = Vec::new();
        let mut close = |open: &mut Option<(u32, u64)>, cpu: u32, to_ns: u64| {
            if let Some((task, from_ns)) = open.take()
                && to_ns > from_ns
            {
                stays.push(Stay { task, cpu, from_ns, to_ns });
            }
        };
        for r in records.iter().filter(|r| r.kind == Kind::Switch as u8) {
            let cpu = r.cpu as usize;
            close(&mut on[cpu], cpu as u32, r.time_ns);
            if TaskId(r.other).is_workload() {
                on[cpu] = Some((r.other, r.time_ns));
            }
        }
        for (cpu, open) in on.iter_mut().enumerate() {
            close(open, cpu as u32, end_ns);
        }
        let wakeups = records
            .iter()
            .filter(|r| r.kind == Kind::Wakeup as u8 && TaskId(r.task).is_workload())
            .map(|r| (r.task, r.time_ns))
            .collect();
        Schedule { stays, wakeups, end_ns }
    }

    /// Of the wakeups of a task: how many there were, and after how many it ran at the same instant.
    pub(crate) fn at_once(&self, task: u32) -> (usize, usize) {
        let starts: BTreeSet<u64> = self.stays.iter().filter(|s| s.task == task).map(|s| s.from_ns).collect();
        let times = self.wakeups.iter().filter(|w| w.0 == task).map(|w| w.1);
        (times.clone().count(), times.filter(|ns| starts.contains(ns)).count())
    }

    /// Stays within a window, cut to it.
    pub(crate) fn within(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Stay> + '_ {
        self.stays.iter().filter(move |s| s.from_ns < to_ns && s.to_ns > from_ns).map(move |s| Stay {
            from_ns: s.from_ns.max(from_ns),
            to_ns: s.to_ns.min(to_ns),
            ..*s
        })
    }

    /// CPU time of a task in a window.
    pub(crate) fn cpu_ns(&self, task: u32, from_ns: u64, to_ns: u64) -> u64 {
        self.within(from_ns, to_ns).filter(|s| s.task == task).map(|s| s.to_ns - s.from_ns).sum()
    }

    /// Time in which a CPU ran workload tasks.
    pub(crate) fn busy_ns(&self, cpu: u32, from_ns: u64, to_ns: u64) -> u64 {
        self.within(from_ns, to_ns).filter(|s| s.cpu == cpu).map(|s| s.to_ns - s.from_ns).sum()
    }

    /// The CPUs that a task ran on in a window, in order.
    pub(crate) fn cpus_of(&self, task: u32, from_ns: u64, to_ns: u64) -> Vec<u32> {
        let mut cpus: Vec<u32> =
            self.within(from_ns, to_ns).filter(|s| s.task == task).map(|s| s.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// The CPU of each task that runs at an instant, by task.
    pub(crate) fn running_at(&self, ns: u64) -> Vec<(u32, u32)> {
        let mut all: Vec<(u32, u32)> =
            self.stays.iter().filter(|s| s.from_ns <= ns && ns < s.to_ns).map(|s| (s.task, s.cpu)).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ms     0    1    2    3    4
    // cpu0   t0...t1...t0........
    // cpu1        t2...idle
    #[test]
    fn stays_are_cut_from_switches() {
        let idle = TaskId::IDLE.0;
        let switch = |ms: u64, cpu, task, other| Record {
            time_ns: ms * 1_000_000,
            kind: Kind::Switch as u8,
            cpu,
            task,
            other,
            ..Record::default()
        };
        let wakeup = |ms: u64, task| Record {
            time_ns: ms * 1_000_000,
            kind: Kind::Wakeup as u8,
            task,
            ..Record::default()
        };
        let records = [
            switch(0, 0, idle, 0),
            switch(1, 0, 0, 1),
            switch(1, 1, idle, 2),
            switch(2, 0, 1, 0),
            switch(2, 1, 2, idle),
            wakeup(1, 1),
            wakeup(3, 0),
        ];
        let s = Schedule::new(&records, 2, 4_000_000);
        assert_eq!(s.cpu_ns(0, 0, u64::MAX), 3_000_000);
        assert_eq!(s.cpu_ns(0, 500_000, 2_500_000), 1_000_000);
        assert_eq!((s.busy_ns(1, 0, u64::MAX), s.cpus_of(2, 0, u64::MAX)), (1_000_000, vec![1]));
        assert_eq!(s.running_at(1_500_000), [(1, 0), (2, 1)]);
        assert_eq!(s.end_ns, 4_000_000);
        assert_eq!((s.at_once(1), s.at_once(0)), ((1, 1), (1, 0)));
    }
}
