//! Fairbench and responsebench: what did each of the five levels get, and how long did it wait at worst?
//!
//! Twenty-five tasks in five levels of five. Of fairbench the CPU time counts, of responsebench the longest
//! wait: the sum of the waits of one burst of 5 ms, from wakeup to block (section V.D: "the time spent on
//! waiting on the runqueue for each of the 5 ms run").

use schedlab_lab::{Ended, Standard, Subject};
use schedlab_log::{Log, LogProblem, Observer, Run, Slots, Wait, replay};
use schedlab_machine::Perturb;
use schedlab_policies::lab;
use schedlab_runner::RunRequest;
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::Workload;
use schedlab_workload::generate::{Fairbench, Responsebench, Spec};
use serde::{Deserialize, Serialize};

/// One of WARP's two micro benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Benchmark {
    /// Hogs at nice -20, -10, 0, 10, 19.
    Fairbench,
    /// 5 ms of work, then a sleep of 5, 10, 20, 50 or 100 ms.
    Responsebench,
}

/// Levels of either benchmark.
pub const LEVELS: usize = 5;
/// Tasks of each level.
pub const TASKS_PER_LEVEL: usize = 5;

impl Benchmark {
    /// Both.
    pub const ALL: [Benchmark; 2] = [Benchmark::Fairbench, Benchmark::Responsebench];

    /// Its name, as of a workload.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Fairbench => "fairbench",
            Benchmark::Responsebench => "responsebench",
        }
    }

    /// What the levels are called.
    pub fn levels(self) -> [&'static str; LEVELS] {
        match self {
            Benchmark::Fairbench => ["nice -20", "nice -10", "nice 0", "nice 10", "nice 19"],
            Benchmark::Responsebench => ["sleep 5 ms", "10 ms", "20 ms", "50 ms", "100 ms"],
        }
    }

    /// The workload, for a run of this length. Sleeps are exact.
    pub fn workload(self, duration: Span) -> Workload {
        let spec = match self {
            Benchmark::Fairbench => Spec::Fairbench(Fairbench::default()),
            Benchmark::Responsebench => Spec::Responsebench(Responsebench { duration, ..Default::default() }),
        };
        spec.build().expect("the defaults can be built")
    }

    /// The workload for a kernel of the paper's time, whose `usleep` is up to 2 ms late; the same for
    /// [`Benchmark::Fairbench`].
    pub fn workload_with_usleep(self, duration: Span, seed: u64) -> Workload {
        match self {
            Benchmark::Fairbench => self.workload(duration),
            Benchmark::Responsebench => lab::workload(&lab::responsebench_usleep(duration, seed)),
        }
    }
}

/// What the levels of a benchmark got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    /// CPU time per task, averaged over the level.
    pub cpu_ms: Vec<f64>,
    /// The longest wait of one burst of any task of the level.
    pub worst_wait_ms: Vec<f64>,
}

impl Levels {
    /// Reads a log of one of the benchmarks.
    pub fn of(log: &dyn Log) -> Result<Levels, LogProblem> {
        let tasks = LEVELS * TASKS_PER_LEVEL;
        let zeros = || vec![0; tasks];
        let mut account = Account { cpu_ns: zeros(), waited_ns: zeros(), worst_ns: zeros() };
        replay(log, &Slots::new(log.header()), &mut account)?;
        let Account { cpu_ns, worst_ns, .. } = account;
        let of_level = |ns: &[u64], f: fn(&[u64]) -> f64| ns.chunks(TASKS_PER_LEVEL).map(f).collect();
        Ok(Levels {
            cpu_ms: of_level(&cpu_ns, |level| level.iter().sum::<u64>() as f64 / level.len() as f64 / 1e6),
            worst_wait_ms: of_level(&worst_ns, |level| level.iter().copied().max().unwrap_or(0) as f64 / 1e6),
        })
    }

    /// The longest wait of all.
    pub fn worst_ms(&self) -> f64 {
        self.worst_wait_ms.iter().copied().fold(0.0, f64::max)
    }
}

/// Per task, in ns.
struct Account {
    cpu_ns: Vec<u64>,
    /// Waited in the burst at hand: since the task blocked last.
    waited_ns: Vec<u64>,
    worst_ns: Vec<u64>,
}

impl Observer for Account {
    // a wait that the end cuts off counts as long as it was seen
    fn wait_end(&mut self, wait: &Wait) {
        let task = wait.row.index();
        if task < self.cpu_ns.len() {
            self.waited_ns[task] += wait.until_ns - wait.since_ns;
            self.worst_ns[task] = self.worst_ns[task].max(self.waited_ns[task]);
        }
    }
    fn run_end(&mut self, run: &Run) {
        let task = run.row.index();
        if task < self.cpu_ns.len() {
            self.cpu_ns[task] += run.until_ns - run.since_ns;
            if run.stop.is_some_and(|stop| !stop.is_runnable()) {
                self.waited_ns[task] = 0;
            }
        }
    }
}

/// Runs a workload that is one of the benchmarks on one CPU. A warning ends it.
pub(crate) fn run(
    subject: &Subject,
    workload: &Workload,
    duration: Span,
    perturb: Option<Perturb>,
) -> Result<Levels, Ended> {
    let one = Topology::flat(1).expect("one CPU is a machine");
    let request = RunRequest { duration: Some(duration), perturb, ..subject.on(workload, one) };
    let finished = schedlab_lab::run(&request, Standard::NoWarning)?;
    Levels::of(&finished.log).map_err(Ended::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(text: &str) -> Subject {
        Subject::native(text).unwrap()
    }

    // Round robin gives each of 25 hogs the same, and each waits 24 quanta of the others.
    #[test]
    fn round_robin_gives_all_levels_the_same() {
        let duration = Span::from_s(25);
        let found = run(&native("rr"), &Benchmark::Fairbench.workload(duration), duration, None).unwrap();
        assert_eq!(found.cpu_ms.len(), LEVELS);
        for cpu_ms in &found.cpu_ms {
            assert!((cpu_ms - 1000.0).abs() <= 100.0, "{cpu_ms} ms");
        }
    }

    // Under FIFO with priorities kept by nobody the second hog of two never runs: it waits from the start to the end.
    #[test]
    fn a_wait_without_an_end_counts() {
        let duration = Span::from_s(3);
        let found = run(&native("fifo"), &Benchmark::Fairbench.workload(duration), duration, None).unwrap();
        assert_eq!(found.worst_wait_ms, [3000.0; LEVELS]);
        assert_eq!(found.cpu_ms.iter().sum::<f64>(), 600.0, "one task of five has had all");
    }

    // First come, first served, each for 5 ms: nobody waits longer than all the others take.
    #[test]
    fn under_fifo_a_burst_waits_for_the_others_at_most() {
        let duration = Span::from_s(10);
        let found =
            run(&native("fifo"), &Benchmark::Responsebench.workload(duration), duration, None).unwrap();
        assert!(found.worst_ms() <= 24.0 * 5.0 && found.worst_ms() > 50.0, "{found:?}");
        assert!(found.cpu_ms[0] > found.cpu_ms[4], "who sleeps less computes more: {found:?}");
    }

    #[test]
    fn a_deadlock_and_a_warning_are_no_results() {
        use crate::spoilt::{LENGTH, circle, overfull};
        let deadlock = run(&native("fifo"), &circle(), LENGTH, None).unwrap_err();
        assert!(matches!(deadlock, Ended::Deadlock { .. }), "{deadlock}");
        let warned = run(&native("cbs"), &overfull(), LENGTH, None).unwrap_err();
        assert!(matches!(warned, Ended::Warned { .. }), "{warned}");
        assert!(run(&native("fifo"), &overfull(), LENGTH, None).is_ok());
    }
}
