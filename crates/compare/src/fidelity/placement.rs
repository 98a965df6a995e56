//! Where do woken tasks run next, on their waker's CPU or on one that idles?
//!
//! ```text
//!   cpu0   A runs, and wakes B          kept: B runs next on cpu0
//!   cpu1   idle                         not kept: B runs next on cpu1
//! ```
//!
//! Of a wakeup from a CPU where a task runs, beside an idle CPU that the sleeper may use, there is a choice, and
//! kernels choose differently. (An interrupt that hits that task counts, too: the network's messages come so.) A
//! kernel that packs tasks kept a video player's on the waker's CPU in 70 of 100 such wakeups, the replay by an
//! unmodified 6.12 in 2 of 100.

use schedlab_instruments::{Allowed, LogProblem};
use schedlab_log::{Kind, Log, Observer, Record, Row, Run, Slots, Wait, WaitCause, replay};
use schedlab_units::CpuId;
use std::collections::BTreeSet;

/// Wakeups from a CPU where a task ran while another one idled, on which the woken task may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// How many.
    pub wakeups: u64,
    /// After so many the woken task ran next on the CPU that the wakeup came from.
    pub kept: u64,
}

impl Placement {
    /// Share that was kept, 0 to 1; `None`: there was no choice.
    pub fn share(&self) -> Option<f64> {
        (self.wakeups > 0).then(|| self.kept as f64 / self.wakeups as f64)
    }
}

/// The CPUs on which the tasks of a log have run; `wanted` says which rows count.
///
/// # Errors
/// [`LogProblem`] if the log cannot be read.
pub fn cpus_used(log: &dyn Log, wanted: impl Fn(u32) -> bool) -> Result<BTreeSet<CpuId>, LogProblem> {
    struct Used(Vec<bool>, BTreeSet<CpuId>);
    impl Observer for Used {
        fn run_begin(&mut self, row: Row, cpu: CpuId) {
            if self.0[row.index()] {
                self.1.insert(cpu);
            }
        }
    }
    let slots = Slots::new(log.header());
    let mut used = Used(counting(log, &slots, wanted), BTreeSet::new());
    replay(log, &slots, &mut used)?;
    Ok(used.1)
}

/// Which slots are tasks that count.
fn counting(log: &dyn Log, slots: &Slots, wanted: impl Fn(u32) -> bool) -> Vec<bool> {
    let nr_tasks = log.header().tasks.len();
    (0..slots.len()).map(|row| row < nr_tasks && wanted(row as u32)).collect()
}

/// Looks where the tasks of a log ran after wakeups; `wanted` says which rows count. A CPU where none of them ever ran
/// is no choice: a recording may not say that they were bound.
///
/// # Errors
/// [`LogProblem`] if the log cannot be read.
pub fn placement(log: &dyn Log, wanted: impl Fn(u32) -> bool) -> Result<Placement, LogProblem> {
    struct Watch<'a> {
        slots: &'a Slots,
        allowed: Allowed,
        used: BTreeSet<CpuId>,
        busy: Vec<bool>,
        waiting: Vec<u32>,
        /// Each row's last waking: on this CPU, where a task ran.
        woken_on: Vec<Option<CpuId>>,
        /// Of rows that were woken beside an idle CPU: the waker's.
        choice: Vec<Option<CpuId>>,
        counts: Vec<bool>,
        found: Placement,
    }
    impl Observer for Watch<'_> {
        fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
            self.allowed.record(record, kind, self.slots);
            if let (Kind::Waking, Some(row)) = (kind, row) {
                let is_busy = self.busy[record.cpu as usize];
                self.woken_on[row.index()] = is_busy.then(|| CpuId(record.cpu.into()));
            }
        }
        fn wait_begin(&mut self, row: Row, cpu: CpuId, cause: WaitCause) {
            let waker = self.woken_on[row.index()].take();
            let waker = waker.filter(|_| cause == WaitCause::Wakeup && self.counts[row.index()]);
            let may = waker.and_then(|_| self.allowed.may(row));
            let idles = |cpu: CpuId| !self.busy[cpu.index()] && self.waiting[cpu.index()] == 0;
            let others = may
                .iter()
                .flat_map(|may| may.cpus.iter())
                .filter(|cpu| Some(*cpu) != waker && self.used.contains(cpu));
            self.choice[row.index()] = waker.filter(|_| others.into_iter().any(idles));
            self.waiting[cpu.index()] += 1;
        }
        fn wait_moved(&mut self, _row: Row, from: CpuId, to: CpuId) {
            self.waiting[from.index()] -= 1;
            self.waiting[to.index()] += 1;
        }
        fn wait_end(&mut self, wait: &Wait) {
            self.waiting[wait.cpu.index()] -= 1;
            if let Some(waker) = self.choice[wait.row.index()].take() {
                self.found.wakeups += 1;
                self.found.kept += u64::from(wait.cpu == waker);
            }
        }
        fn run_begin(&mut self, _row: Row, cpu: CpuId) {
            self.busy[cpu.index()] = true;
        }
        fn run_end(&mut self, run: &Run) {
            self.busy[run.cpu.index()] = false;
        }
    }
    let (slots, nr_cpus) = (Slots::new(log.header()), log.header().nr_cpus as usize);
    let mut watch = Watch {
        slots: &slots,
        allowed: Allowed::new(log.header()),
        used: cpus_used(log, &wanted)?,
        busy: vec![false; nr_cpus],
        waiting: vec![0; nr_cpus],
        woken_on: vec![None; slots.len()],
        choice: vec![None; slots.len()],
        counts: counting(log, &slots, &wanted),
        found: Placement::default(),
    };
    replay(log, &slots, &mut watch)?;
    Ok(watch.found)
}
