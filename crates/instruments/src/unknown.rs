//! Which numbers of a summary are unknown, and why? A log's observer may not have seen everything.
//!
//! ```text
//!   ms     0    1    2    3    4    # observer poller
//!   cpu0   AAAAA?????AAAAA?????     # hidden wakeups stops idle
//!
//!   A      cpu_ns       2 ms        known: A was seen whenever it ran
//!          run_delay    unknown     hidden from the poller: why tasks stop (A may have waited, or slept)
//!   cpu0   idle_ns      unknown     hidden from the poller: whether CPUs idle
//! ```
//!
//! A number is unknown if what nobody saw could change it. So a task that nobody lost sight of has known waits,
//! even where those of others are hidden. One task that was lost makes the machine's sums unknown; [`KnownTasks`] are
//! the sums of the others.

use crate::{CpuStats, Summary, TaskStats};
use schedlab_log::{Fact, Hidden, ObservedBy};
use std::fmt;

/// What a number says, so far as it matters for what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// When tasks ran and where: CPU time, runs, changes of CPU.
    CpuTime,
    /// How long they waited: run delay, wakeup latency, first and last.
    Waiting,
    /// How long they were blocked.
    Blocked,
    /// Number of wakeups.
    Wakeups,
    /// Why they stopped: switches, voluntary or not.
    Stops,
    /// `migrate` records.
    Assignments,
    /// Whether they exited.
    Exit,
    /// Whether CPUs idled, and their switches.
    Idle,
    /// How many tasks waited at once, on a CPU's queue or on all.
    Queue,
    /// Idling while work waits.
    IdleWhileWaiting,
}

/// Why a number is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WhyUnknown {
    /// The observer cannot see this.
    Hidden(ObservedBy, Fact),
    /// Nobody saw the task or the CPU for so long; for the machine: for so long in all.
    Lost {
        /// Of how much time nobody saw it.
        ns: u64,
    },
}

impl fmt::Display for WhyUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (observer, fact) = match self {
            WhyUnknown::Lost { ns } => return write!(f, "nobody saw {ns} ns of it"),
            WhyUnknown::Hidden(observer, fact) => (observer, fact),
        };
        let what = match fact {
            Fact::Wakeups => "when tasks become runnable",
            Fact::Stops => "why tasks stop",
            Fact::Idle => "whether CPUs idle",
            Fact::Assignments => "on whose queue tasks wait",
            Fact::Affinity => "where tasks may run",
            Fact::Params => "changes of scheduling parameters",
            Fact::Lives => "births and exits of tasks",
            Fact::Spans => "some stretches of time",
            Fact::Limits => "whether a limit holds tasks back",
        };
        write!(f, "hidden from the {observer}: {what}")
    }
}

/// What nobody saw of some tasks.
#[derive(Clone, Copy, Default)]
struct Gaps {
    off_cpu_ns: u64,
    unseen_ns: u64,
}

impl Gaps {
    fn of<'a>(tasks: impl Iterator<Item = &'a TaskStats>) -> Gaps {
        tasks.fold(Gaps::default(), |sum, task| Gaps {
            off_cpu_ns: sum.off_cpu_ns + task.off_cpu_ns,
            unseen_ns: sum.unseen_ns + task.unseen_ns,
        })
    }
}

/// Sums of the tasks whose waits are known, where those of others are not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownTasks {
    /// How many they are.
    pub tasks: usize,
    /// Of how many.
    pub of: usize,
    /// Their counts, times and waits.
    pub sum: TaskStats,
}

impl Summary {
    /// What is known of the tasks that nobody lost sight of; `None`: of all tasks, or of none.
    pub fn known_tasks(&self) -> Option<KnownTasks> {
        self.why_unknown(Quantity::Waiting)?;
        let mut known = KnownTasks { of: self.tasks.len(), ..KnownTasks::default() };
        let is_known = |task: &&TaskStats| self.task_why_unknown(task, Quantity::Waiting).is_none();
        for task in self.tasks.iter().filter(is_known) {
            known.tasks += 1;
            known.sum.add(task);
        }
        (known.tasks > 0).then_some(known)
    }

    /// Why this number of the machine is unknown; `None`: it is known.
    pub fn why_unknown(&self, what: Quantity) -> Option<WhyUnknown> {
        if self.hidden.is_nothing() {
            return None;
        }
        let idle = || self.cpus_unseen(self.cpus.iter().map(|cpu| cpu.unseen_ns).sum());
        let all = || Gaps::of(self.tasks.iter().chain(&self.kernel_threads));
        match what {
            Quantity::Idle => idle(),
            Quantity::Queue => self.tasks_unseen(Quantity::Waiting, all()),
            Quantity::IdleWhileWaiting => idle()
                .or_else(|| self.tasks_unseen(Quantity::Waiting, Gaps::of(self.tasks.iter())))
                .or_else(|| self.hides(&[Fact::Affinity, Fact::Limits])),
            _ => self.tasks_unseen(what, Gaps::of(self.tasks.iter())),
        }
    }

    /// Why this number of a task is unknown; `None`: it is known.
    pub fn task_why_unknown(&self, task: &TaskStats, what: Quantity) -> Option<WhyUnknown> {
        if self.hidden.is_nothing() || what == Quantity::Exit && task.exited {
            return None;
        }
        self.tasks_unseen(what, Gaps { off_cpu_ns: task.off_cpu_ns, unseen_ns: task.unseen_ns })
    }

    /// Why this number of a CPU is unknown; `None`: it is known.
    pub fn cpu_why_unknown(&self, cpu: &CpuStats, what: Quantity) -> Option<WhyUnknown> {
        if self.hidden.is_nothing() {
            return None;
        }
        match what {
            Quantity::Queue => self.why_unknown(Quantity::Queue).or_else(|| self.hides(&[Fact::Assignments])),
            _ => self.cpus_unseen(cpu.unseen_ns),
        }
    }

    fn hides(&self, facts: &[Fact]) -> Option<WhyUnknown> {
        let hidden: Hidden = self.hidden;
        facts.iter().find(|fact| hidden.has(**fact)).map(|fact| WhyUnknown::Hidden(self.observer, *fact))
    }

    fn cpus_unseen(&self, ns: u64) -> Option<WhyUnknown> {
        (ns > 0).then(|| self.hides(&[Fact::Idle]).unwrap_or(WhyUnknown::Lost { ns }))
    }

    fn tasks_unseen(&self, what: Quantity, gaps: Gaps) -> Option<WhyUnknown> {
        let lost = (gaps.unseen_ns > 0).then_some(WhyUnknown::Lost { ns: gaps.unseen_ns });
        match what {
            Quantity::Waiting | Quantity::Blocked => {
                let off = (gaps.off_cpu_ns > 0).then_some(WhyUnknown::Lost { ns: gaps.off_cpu_ns });
                off.map(|why| self.hides(&[Fact::Stops, Fact::Wakeups, Fact::Lives]).unwrap_or(why)).or(lost)
            }
            Quantity::Wakeups => self.hides(&[Fact::Wakeups]).or(lost),
            Quantity::Stops => self.hides(&[Fact::Stops]).or(lost),
            Quantity::Assignments => self.hides(&[Fact::Assignments]).or(lost),
            Quantity::Exit => self.hides(&[Fact::Lives]).or(lost),
            Quantity::CpuTime | Quantity::Idle | Quantity::Queue | Quantity::IdleWhileWaiting => lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{summarize, summarize_seen};
    use schedlab_log::{MemLog, TextLog};
    use std::path::Path;

    fn log(hidden: &str, lines: &str) -> MemLog {
        let text = format!(
            "# schedlab log 2\n# sched \"x\"\n# sched_version \"1\"\n# cpus 2\n# hz 0\n# duration_ns 4000000\n\
             # observer poller\n# hidden {hidden}\n# task t0 pid=1 policy=normal nice=0 name=\"a\"\n\
             # task t1 pid=2 policy=normal nice=0 name=\"b\"\n{lines}# end {}\n",
            lines.lines().count()
        );
        TextLog::parse(&text, Path::new("drawn")).unwrap()
    }

    /// The drawing of this module; t1 keeps cpu1 all the time.
    #[test]
    fn a_poller_knows_its_own_cpu_time_and_nothing_of_the_rest() {
        let log = log(
            "wakeups stops idle",
            "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n0 cpu1 new t1 cpu1\n0 cpu1 switch idle -> t1\n\
             1000000 cpu0 switch t0 unknown -> idle\n2000000 cpu0 switch idle -> t0\n\
             3000000 cpu0 switch t0 unknown -> idle\n",
        );
        assert!(summarize(&log).unwrap_err().to_string().contains("hidden from its observer, the poller"));
        let s = summarize_seen(&log).unwrap();
        s.check_time().unwrap();
        let [a, b] = &s.tasks[..] else { panic!("two tasks") };
        assert_eq!((a.cpu_ns, a.off_cpu_ns, a.unseen_ns), (2_000_000, 2_000_000, 0));
        let stops = Some(WhyUnknown::Hidden(ObservedBy::Poller, Fact::Stops));
        let wakeups = Some(WhyUnknown::Hidden(ObservedBy::Poller, Fact::Wakeups));
        let idle = Some(WhyUnknown::Hidden(ObservedBy::Poller, Fact::Idle));
        let of_a =
            [Quantity::CpuTime, Quantity::Waiting, Quantity::Blocked, Quantity::Wakeups, Quantity::Stops];
        assert_eq!(of_a.map(|what| s.task_why_unknown(a, what)), [None, stops, stops, wakeups, stops]);
        // t1 was seen all the time: it neither waited nor was it blocked
        assert_eq!(s.task_why_unknown(b, Quantity::Waiting), None);
        assert_eq!(s.cpu_why_unknown(&s.cpus[0], Quantity::Idle), idle);
        assert_eq!(s.cpu_why_unknown(&s.cpus[1], Quantity::Idle), None);
        let machine = [
            Quantity::CpuTime,
            Quantity::Waiting,
            Quantity::Idle,
            Quantity::Queue,
            Quantity::IdleWhileWaiting,
        ];
        assert_eq!(machine.map(|what| s.why_unknown(what)), [None, stops, idle, stops, idle]);
        let known = s.known_tasks().unwrap();
        assert_eq!((known.tasks, known.of, known.sum.cpu_ns), (1, 2, b.cpu_ns));
        assert_eq!(known.sum.run_delay, b.run_delay);
        // beside cpu0, which may idle, t0 may wait: from 1 to 2 and from 3 to 4
        assert_eq!(s.system.conservation.unknown_ns, 2_000_000);
        assert_eq!(
            stops.map(|why| why.to_string()).as_deref(),
            Some("hidden from the poller: why tasks stop")
        );
    }

    /// From 1 to 3 ms nobody sees cpu0; it is a whole log but for that.
    #[test]
    fn a_gap_makes_unknown_what_it_touches() {
        let log = log(
            "spans",
            "0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n0 cpu1 new t1 cpu1\n0 cpu1 switch idle -> t1\n\
             1000000 cpu0 note idle note=2147483680 other=idle value=0 flags=0\n\
             3000000 cpu0 switch t0 sleeping -> idle\n",
        );
        let s = summarize_seen(&log).unwrap();
        s.check_time().unwrap();
        let lost = Some(WhyUnknown::Lost { ns: 2_000_000 });
        assert_eq!(s.tasks[0].cpu_ns, 1_000_000, "what was seen");
        assert_eq!(s.task_why_unknown(&s.tasks[0], Quantity::CpuTime), lost);
        assert_eq!(s.task_why_unknown(&s.tasks[1], Quantity::CpuTime), None);
        assert_eq!(s.cpu_why_unknown(&s.cpus[0], Quantity::Idle), lost);
        assert_eq!(s.cpu_why_unknown(&s.cpus[1], Quantity::Idle), None);
        assert_eq!(lost.map(|why| why.to_string()).as_deref(), Some("nobody saw 2000000 ns of it"));
    }

    #[test]
    fn a_log_that_hides_nothing_knows_everything() {
        let log = schedlab_log::synthetic::Config::default().log();
        let s = summarize_seen(&log).unwrap();
        assert_eq!(s, summarize(&log).unwrap());
        for what in [Quantity::CpuTime, Quantity::Waiting, Quantity::Idle, Quantity::IdleWhileWaiting] {
            assert_eq!(s.why_unknown(what), None);
        }
        assert_eq!(s.known_tasks(), None);
        assert!(s.tasks.iter().all(|task| task.off_cpu_ns + task.unseen_ns == 0));
    }
}
