//! Who ran where, from when to when?

use schedlab_instruments::{LogProblem, Stay, stays};
use schedlab_log::{Kind, Log, for_each};
use schedlab_units::CpuId;
use std::collections::BTreeSet;

/// All stays of workload tasks, in order of their ends, and their wakeups.
pub(crate) struct Schedule {
    pub stays: Vec<Stay>,
    /// Task and time.
    pub wakeups: Vec<(u32, u64)>,
    /// CPU and time of each turn of a kernel thread (which takes no time).
    pub kernel: BTreeSet<(u32, u64)>,
    pub end_ns: u64,
}

impl Schedule {
    pub(crate) fn new(log: &dyn Log) -> Result<Schedule, LogProblem> {
        let (mut wakeups, mut kernel) = (Vec::new(), BTreeSet::new());
        for_each(log, |_, r| {
            match r.kind() {
                Some(Kind::Wakeup) if r.task().is_workload() => wakeups.push((r.task, r.time_ns)),
                Some(Kind::Switch) if r.other().kernel_pid().is_some() => {
                    kernel.insert((u32::from(r.cpu), r.time_ns));
                }
                _ => {}
            }
            Ok::<(), LogProblem>(())
        })?;
        Ok(Schedule { stays: stays(log)?, wakeups, kernel, end_ns: log.header().duration.as_ns() })
    }

    /// Of the wakeups of a task: how many there were, and after how many it ran at the same instant.
    pub(crate) fn at_once(&self, task: u32) -> (usize, usize) {
        let starts: BTreeSet<u64> =
            self.stays.iter().filter(|s| s.task.0 == task).map(|s| s.start_ns).collect();
        let times = self.wakeups.iter().filter(|w| w.0 == task).map(|w| w.1);
        (times.clone().count(), times.filter(|ns| starts.contains(ns)).count())
    }

    /// Stays within a window, cut to it.
    pub(crate) fn within(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Stay> + '_ {
        self.stays.iter().filter_map(move |stay| stay.within(from_ns, to_ns))
    }

    /// CPU time of a task in a window.
    pub(crate) fn cpu_ns(&self, task: u32, from_ns: u64, to_ns: u64) -> u64 {
        self.within(from_ns, to_ns).filter(|s| s.task.0 == task).map(|s| s.ns()).sum()
    }

    /// Time in which a CPU ran workload tasks.
    pub(crate) fn busy_ns(&self, cpu: u32, from_ns: u64, to_ns: u64) -> u64 {
        self.within(from_ns, to_ns).filter(|s| s.cpu == CpuId(cpu)).map(|s| s.ns()).sum()
    }

    /// The CPUs that a task ran on in a window, in order.
    pub(crate) fn cpus_of(&self, task: u32, from_ns: u64, to_ns: u64) -> Vec<u32> {
        let mut cpus: Vec<u32> =
            self.within(from_ns, to_ns).filter(|s| s.task.0 == task).map(|s| s.cpu.0).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// The CPU of each task that runs at an instant, by task.
    pub(crate) fn running_at(&self, ns: u64) -> Vec<(u32, u32)> {
        let here = self.stays.iter().filter(|s| s.start_ns <= ns && ns < s.end_ns);
        let mut all: Vec<(u32, u32)> = here.map(|s| (s.task.0, s.cpu.0)).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_log::TextLog;
    use std::path::Path;

    // ms     0    1    2    3    4
    // cpu0   t0...t1...t0........
    // cpu1        t2...idle
    #[test]
    fn stays_are_cut_from_switches() {
        let header = "# schedlab log 1\n# sched \"x\"\n# cpus 2\n# duration_ns 4000000\n# task t0 name=\"a\"\n\
            # task t1 name=\"b\"\n# task t2 name=\"c\"\n";
        let lines = "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n1000000 cpu0 wakeup t1 cpu0\n\
            1000000 cpu0 wakeup t2 cpu1\n\
            1000000 cpu0 switch t0 sleeping -> t1\n1000000 cpu1 switch idle -> t2\n2000000 cpu0 wakeup t0 cpu0\n\
            2000000 cpu0 switch t1 sleeping -> t0\n2000000 cpu1 switch t2 sleeping -> idle\n\
            3000000 cpu0 wakeup t0 cpu0\n";
        let log = TextLog::parse(&format!("{header}{lines}# end 10\n"), Path::new("drawn")).unwrap();
        let s = Schedule::new(&log).unwrap();
        assert_eq!(s.cpu_ns(0, 0, u64::MAX), 3_000_000);
        assert_eq!(s.cpu_ns(0, 500_000, 2_500_000), 1_000_000);
        assert_eq!((s.busy_ns(1, 0, u64::MAX), s.cpus_of(2, 0, u64::MAX)), (1_000_000, vec![1]));
        assert_eq!(s.running_at(1_500_000), [(1, 0), (2, 1)]);
        assert_eq!(s.end_ns, 4_000_000);
        assert_eq!((s.at_once(1), s.at_once(0)), ((1, 1), (2, 1)));
    }
}
