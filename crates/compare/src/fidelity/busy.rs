//! How long does a busy CPU keep on with its task when an interrupt, or another CPU, has woken somebody for it?
//!
//! ```text
//!   cpu0   copy computes │ copy is in write()         │ reader computes
//!   cpu1                 │ disk interrupt wakes reader
//!                        └─────────── 295 us ─────────┘
//! ```
//!
//! A kernel that is not preempted within system calls (`PREEMPT_NONE`, `PREEMPT_VOLUNTARY`, `PREEMPT_LAZY`) chooses
//! anew when the call is over. A recording shows when the waker asked and when the other task went. It does not show
//! whom the scheduler preferred: it may have let that task end its slice. So a replay is asked in how many of its waits
//! the woken task was preferred at once ([`BusyWaits::at_once`]). As many of the recorded
//! ones, the shortest, are waits for the end of a call ([`BusyWaits::calls_ns`]).

use super::QUANTILES;
use schedlab_instruments::LogProblem;
use schedlab_log::{Kind, Log, Observer, PrevState, Record, Row, Run, Slots, WaitCause, replay};
use schedlab_units::CpuId;

/// One task was woken onto a busy CPU where nobody else waited, by an interrupt or another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BusyWait {
    /// How long the other task went on.
    went_on_ns: u64,
    /// It went to sleep, or ended: it was not preempted until then.
    slept: bool,
}

/// Such waits of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusyWaits(Vec<BusyWait>);

/// Who is preempted within so many ns was preempted at once.
const AT_ONCE_NS: u64 = 2000;
/// Fewer say nothing.
const WAITS_MIN: usize = 20;

impl BusyWaits {
    /// For which part of them, 0 to 1, the other task was preempted at once. `None`: there are too few.
    pub fn at_once(&self) -> Option<f64> {
        let at_once = self.0.iter().filter(|wait| !wait.slept && wait.went_on_ns <= AT_ONCE_NS).count();
        (self.0.len() >= WAITS_MIN).then(|| at_once as f64 / self.0.len() as f64)
    }

    /// How long calls go on after the interrupt, if for `preferred` of the waits (0 to 1) the scheduler prefers who was
    /// woken: [`QUANTILES`] means, in ns. Where the other task slept, its call would have gone on for longer. `None`:
    /// there are too few.
    pub fn calls_ns(&self, preferred: f64) -> Option<[u64; QUANTILES]> {
        let mut waits = self.0.clone();
        waits.sort_unstable();
        waits.truncate((preferred * waits.len() as f64).round() as usize);
        if waits.len() < WAITS_MIN {
            return None;
        }
        // Kaplan and Meier: what a wait that ended by sleep stands for goes to the longer ones
        let longest_ns = waits.last()?.went_on_ns;
        let (mut steps, mut left) = (Vec::new(), 1.0);
        for (before, wait) in waits.iter().enumerate() {
            if !wait.slept {
                let share = left / (waits.len() - before) as f64;
                left -= share;
                steps.push((share, wait.went_on_ns));
            }
        }
        steps.push((left, longest_ns));
        Some(means(&steps))
    }
}

/// The means of [`QUANTILES`] equal parts of a distribution that is given by shares and values, in order of values.
fn means(steps: &[(f64, u64)]) -> [u64; QUANTILES] {
    let part = 1.0 / QUANTILES as f64;
    let mut steps = steps.iter().copied();
    let (mut share, mut value) = steps.next().unwrap_or_default();
    std::array::from_fn(|_| {
        let (mut wanted, mut sum) = (part, 0.0);
        while wanted > share {
            sum += share * value as f64;
            wanted -= share;
            match steps.next() {
                Some(next) => (share, value) = next,
                // what rounding has left over
                None => share = f64::INFINITY,
            }
        }
        share -= wanted;
        ((sum + wanted * value as f64) / part).round() as u64
    })
}

/// The waits of the tasks of these rows that were woken onto a busy CPU by an interrupt or another CPU.
///
/// # Errors
/// [`LogProblem`] if the log cannot be read.
pub fn busy_waits(log: &dyn Log, wanted: impl Fn(u32) -> bool) -> Result<BusyWaits, LogProblem> {
    struct Watch {
        wanted: Vec<bool>,
        /// Whether somebody runs on each CPU, and how many wait there.
        busy: Vec<bool>,
        waiting: Vec<u32>,
        /// Since when a woken task waits for each busy CPU, alone at first.
        pending: Vec<Option<u64>>,
        /// On which CPU each row was last woken, and whether by the task that ran there.
        woken: Vec<(u16, bool)>,
        now_ns: u64,
        waits: BusyWaits,
    }
    impl Observer for Watch {
        fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
            self.now_ns = to_ns;
        }
        fn wait_begin(&mut self, row: Row, cpu: CpuId, cause: WaitCause) {
            let (woken_on, by_task) = self.woken[row.index()];
            let asks_from_aside = !by_task || CpuId(woken_on.into()) != cpu;
            let is_alone = self.busy[cpu.index()] && self.waiting[cpu.index()] == 0;
            if cause == WaitCause::Wakeup && is_alone && asks_from_aside && self.wanted[row.index()] {
                self.pending[cpu.index()] = Some(self.now_ns);
            }
            self.waiting[cpu.index()] += 1;
        }
        fn wait_moved(&mut self, _row: Row, from: CpuId, to: CpuId) {
            self.pending[from.index()] = None;
            self.waiting[from.index()] -= 1;
            self.waiting[to.index()] += 1;
        }
        fn wait_end(&mut self, wait: &schedlab_log::Wait) {
            self.waiting[wait.cpu.index()] -= 1;
        }
        fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
            if let (Kind::Waking, Some(row)) = (kind, row) {
                self.woken[row.index()] = (record.cpu, record.flags & 1 == 0);
            }
        }
        fn run_begin(&mut self, _row: Row, cpu: CpuId) {
            self.busy[cpu.index()] = true;
        }
        fn run_end(&mut self, run: &Run) {
            self.busy[run.cpu.index()] = false;
            if let (Some(since_ns), Some(stop)) = (self.pending[run.cpu.index()].take(), run.stop) {
                let slept = !PrevState::is_runnable(stop);
                self.waits.0.push(BusyWait { went_on_ns: run.until_ns - since_ns, slept });
            }
        }
    }
    let (slots, nr_cpus) = (Slots::new(log.header()), log.header().nr_cpus as usize);
    let mut watch = Watch {
        wanted: (0..slots.len() as u32).map(wanted).collect(),
        busy: vec![false; nr_cpus],
        waiting: vec![0; nr_cpus],
        pending: vec![None; nr_cpus],
        woken: vec![(u16::MAX, false); slots.len()],
        now_ns: 0,
        waits: BusyWaits::default(),
    };
    replay(log, &slots, &mut watch)?;
    Ok(watch.waits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fidelity::tests::log;

    fn waits(list: &[(u64, bool)]) -> BusyWaits {
        BusyWaits(
            list.iter()
                .map(|(went_on_ns, slept)| BusyWait { went_on_ns: *went_on_ns, slept: *slept })
                .collect(),
        )
    }

    #[test]
    fn calls_are_the_shortest_waits_as_many_as_are_preferred() {
        // 20 of 40 are preferred: 1 to 20 us, each the mean of a twentieth
        let list: Vec<_> = (1..=40).map(|us| (us * 1000, false)).collect();
        let wanted: [u64; QUANTILES] = std::array::from_fn(|k| 1000 * (k as u64 + 1));
        assert_eq!(waits(&list).calls_ns(0.5), Some(wanted));
        assert_eq!(waits(&list).calls_ns(0.4), None, "16 are too few");
    }

    #[test]
    fn a_task_that_slept_would_have_gone_on() {
        // ten calls of 1 us; of the other thirty ten sleep after 2 us, and twenty end after 3 us
        let list = [vec![(1000, false); 10], vec![(2000, true); 10], vec![(3000, false); 20]].concat();
        let calls = waits(&list).calls_ns(1.0).unwrap();
        assert_eq!(calls, std::array::from_fn(|k| if k < 5 { 1000 } else { 3000 }));
        // all that is left sleeps: as long as was seen, at least
        let list = [vec![(1000, false); 10], vec![(2000, true); 10]].concat();
        assert_eq!(
            waits(&list).calls_ns(1.0),
            Some(std::array::from_fn(|k| if k < 10 { 1000 } else { 2000 }))
        );
    }

    // us    0      100   130    200   201   300   307          c runs, and is interrupted for b three times
    // cpu0  c           │b    c│     b│     c     │slept        30 us, at once, and c sleeps after 7 us
    #[test]
    fn waits_begin_with_an_interrupt_or_on_another_cpu() {
        let text = "0 cpu0 new t0 cpu0\n0 cpu0 new t1 cpu0\n0 cpu0 switch idle -> t1\n\
                    1000 cpu0 switch t1 sleeping -> t0\n\
                    100000 cpu1 waking t1 by idle irq\n100000 cpu0 wakeup t1 cpu0\n\
                    130000 cpu0 switch t0 preempted -> t1\n150000 cpu0 switch t1 sleeping -> t0\n\
                    200000 cpu0 waking t1 by t0 irq\n200000 cpu0 wakeup t1 cpu0\n\
                    200000 cpu0 switch t0 preempted -> t1\n220000 cpu0 switch t1 sleeping -> t0\n\
                    250000 cpu0 waking t1 by t0\n250000 cpu0 wakeup t1 cpu0\n\
                    260000 cpu0 switch t0 preempted -> t1\n280000 cpu0 switch t1 sleeping -> t0\n\
                    300000 cpu1 waking t1 by idle irq\n300000 cpu0 wakeup t1 cpu0\n\
                    307000 cpu0 switch t0 sleeping -> t1\n400000 cpu0 switch t1 sleeping -> idle\n";
        let log = log(&["c", "b"], 1, text);
        assert_eq!(busy_waits(&log, |_| true).unwrap(), waits(&[(30_000, false), (0, false), (7000, true)]));
        assert_eq!(busy_waits(&log, |row| row == 0).unwrap(), BusyWaits::default());
    }

    #[test]
    fn few_waits_say_nothing() {
        assert_eq!(waits(&[(0, false); 19]).at_once(), None);
        let mixed = [vec![(0, false); 15], vec![(4_000_000, false); 3], vec![(0, true); 2]].concat();
        assert_eq!(waits(&mixed).at_once(), Some(0.75));
    }
}
