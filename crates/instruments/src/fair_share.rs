//! Did each task get its due? Service received less service ideal, against the weights.
//!
//! The ideal is generalised processor sharing on all CPUs: at every instant each runnable task of the fair
//! class runs at a rate in proportion to its weight, but at most on one CPU (what a heavy task cannot use
//! goes to the others).
//!
//! ```text
//!   ms    0         1         2
//!         01234567890123456789
//!   cpu0  AAAAAAAAAABBBBBBBBBB      equal weights; A exits at 10, B waits until then
//!
//!   A: received 10 ms, due  5 ms: error +5 ms      (half a CPU while both are runnable)
//!   B: received 10 ms, due 15 ms: error -5 ms      (then the whole CPU)
//!   share error: (5 + 5) / (20 + 20) = 25 %
//! ```
//!
//! A task that sleeps is due nothing, and its error is kept over sleeps. CPUs on which other classes or
//! kernel threads run are not there to be shared. Left out of account: control groups and affinities (the
//! ideal is flat, and every CPU is for everybody). Arithmetic is in integers, in units of 2^-32 ns.

use crate::LogProblem;
use schedlab_log::{Fact, Kind, Log, LogHeader, Observer, Record, Row, Run, Slots, Wait, WaitCause, replay};
use schedlab_units::{ClassKind, CpuId, Nice, SchedParams, SchedPolicy};

/// What one task received and was due, while it was of the fair class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// CPU time received.
    pub service_ns: u64,
    /// CPU time due.
    pub ideal_ns: u64,
    /// Lowest error (received less due) at any time.
    pub lowest_ns: i64,
    /// Highest error at any time.
    pub highest_ns: i64,
}

impl Due {
    /// Received less due, in the end.
    pub fn error_ns(&self) -> i64 {
        self.service_ns as i64 - self.ideal_ns as i64
    }
}

/// Fairness of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FairShare {
    /// Row i is `TaskId(i)`; zero throughout for tasks that never were of the fair class.
    pub tasks: Vec<Due>,
}

impl FairShare {
    /// CPU time that went to others than it was due to, 0 to 1: sum of |received - due| over the sum of received + due.
    pub fn share_error(&self) -> f64 {
        let wrong: u64 = self.tasks.iter().map(|task| task.error_ns().unsigned_abs()).sum();
        let all: u64 = self.tasks.iter().map(|task| task.service_ns + task.ideal_ns).sum();
        if all == 0 { 0.0 } else { wrong as f64 / all as f64 }
    }

    /// Largest error of any task at any time, in either direction.
    pub fn largest_error_ns(&self) -> u64 {
        let worst = |task: &Due| task.lowest_ns.unsigned_abs().max(task.highest_ns.unsigned_abs());
        self.tasks.iter().map(worst).max().unwrap_or(0)
    }

    /// Jain's index (Jain, Chiu, Hawe 1984) of received / due over the tasks that were due something: 1 = all
    /// alike, 1/n = one has all.
    pub fn jain(&self) -> f64 {
        let ratios = self.tasks.iter().filter(|task| task.ideal_ns > 0);
        let ratios: Vec<f64> = ratios.map(|task| task.service_ns as f64 / task.ideal_ns as f64).collect();
        let (sum, squares) = ratios.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        if squares == 0.0 { 1.0 } else { sum * sum / (ratios.len() as f64 * squares) }
    }
}

/// Reads the log once.
///
/// # Errors
/// [`LogProblem`] if the log is no schedule, or if its observer could not see when each task was runnable.
pub fn fair_share(log: &dyn Log) -> Result<FairShare, LogProblem> {
    let needed = [Fact::Wakeups, Fact::Stops, Fact::Params, Fact::Lives, Fact::Spans, Fact::Idle];
    log.header().needs("what each task was due", &needed)?;
    let slots = Slots::new(log.header());
    let mut share = Share::new(log.header(), slots.len());
    replay(log, &slots, &mut share)?;
    let tasks = share.rows.iter().take(log.header().tasks.len()).map(|row| row.due).collect();
    Ok(FairShare { tasks })
}

/// Nice levels, then SCHED_IDLE: heaviest first.
const CLASSES: usize = 41;
const IDLE_CLASS: u8 = 40;
/// kernel/sched/sched.h, `WEIGHT_IDLEPRIO`.
const IDLE_WEIGHT: u64 = 3;
/// One, as a rate.
const ONE: u64 = 1 << 32;

/// The weight class of these parameters; `None`: not of the fair class.
fn class_of(policy: SchedPolicy, nice: Nice) -> Option<u8> {
    match policy {
        SchedPolicy::Idle => Some(IDLE_CLASS),
        _ if policy.class() == ClassKind::Fair => Some((nice.get() + 20) as u8),
        _ => None,
    }
}

fn weight(class: usize) -> u64 {
    match Nice::new(class as i32 - 20) {
        Ok(nice) => nice.weight().0,
        Err(_) => IDLE_WEIGHT,
    }
}

/// Rates of the weight classes with so many runnable tasks each on so many CPUs, in units of 2^-32 CPUs.
fn rates(runnable: &[u32; CLASSES], nr_cpus: u32) -> [u64; CLASSES] {
    let mut rates = [0; CLASSES];
    let mut cpus = u64::from(nr_cpus);
    let mut total: u64 = (0..CLASSES).map(|class| u64::from(runnable[class]) * weight(class)).sum();
    for class in (0..CLASSES).filter(|class| runnable[*class] > 0) {
        let (weight, number) = (weight(class), u64::from(runnable[class]));
        if weight * cpus >= total {
            // more than a CPU each: they get one each, and leave the rest to the others
            rates[class] = ONE;
            cpus -= number;
            total -= number * weight;
        } else {
            rates[class] = (u128::from(weight * cpus) * u128::from(ONE) / u128::from(total)) as u64;
        }
    }
    rates
}

#[derive(Clone, Copy, Default)]
struct Entry {
    class: Option<u8>,
    runnable: bool,
    /// The class's clock when the task became runnable (or when its due was last settled).
    mark: u128,
    /// Due so far, in units of 2^-32 ns.
    ideal: u128,
    running_on: Option<CpuId>,
    /// Since when this stay counts as service.
    counted_from_ns: u64,
    due: Due,
}

struct Share {
    nr_cpus: u32,
    now_ns: u64,
    rows: Vec<Entry>,
    runnable: [u32; CLASSES],
    /// Service per task of each class, in units of 2^-32 ns.
    clocks: [u128; CLASSES],
    rates: [u64; CLASSES],
    /// Classes with runnable tasks, as they were when the rates were computed.
    active: Vec<u8>,
    is_stale: bool,
    /// CPUs with a task that is not of the fair class.
    foreign: Vec<bool>,
    nr_foreign: u32,
}

impl Share {
    fn new(header: &LogHeader, nr_rows: usize) -> Share {
        let mut rows = vec![Entry::default(); nr_rows];
        for (row, task) in rows.iter_mut().zip(&header.tasks) {
            let SchedParams { policy, nice, .. } = task.params;
            row.class = class_of(policy, nice);
        }
        Share {
            nr_cpus: header.nr_cpus,
            now_ns: 0,
            rows,
            runnable: [0; CLASSES],
            clocks: [0; CLASSES],
            rates: [0; CLASSES],
            active: Vec::new(),
            is_stale: true,
            foreign: vec![false; header.nr_cpus as usize],
            nr_foreign: 0,
        }
    }

    fn set_runnable(&mut self, row: Row, runnable: bool) {
        self.bring_up_to_date(row);
        let row = &mut self.rows[row.index()];
        if row.runnable == runnable {
            return;
        }
        row.runnable = runnable;
        if let Some(class) = row.class {
            let count = &mut self.runnable[usize::from(class)];
            if runnable {
                *count += 1
            } else {
                *count -= 1
            }
            self.is_stale = true;
        }
    }

    /// Brings what a task is due up to now.
    fn bring_up_to_date(&mut self, row: Row) {
        let row = &mut self.rows[row.index()];
        if let Some(class) = row.class {
            let clock = self.clocks[usize::from(class)];
            if row.runnable {
                row.ideal += clock - row.mark;
            }
            row.mark = clock;
        }
    }

    /// Notes the error at an edge of the task's own service.
    fn note(&mut self, row: Row) {
        self.bring_up_to_date(row);
        let row = &mut self.rows[row.index()];
        if row.class.is_none() {
            return;
        }
        row.due.ideal_ns = (row.ideal >> 32) as u64;
        let mut due = row.due;
        if row.running_on.is_some() {
            due.service_ns += self.now_ns - row.counted_from_ns;
        }
        row.due.lowest_ns = row.due.lowest_ns.min(due.error_ns());
        row.due.highest_ns = row.due.highest_ns.max(due.error_ns());
    }

    /// Service of the current stay so far.
    fn serve(&mut self, row: Row) {
        let row = &mut self.rows[row.index()];
        if row.running_on.is_some() && row.class.is_some() {
            row.due.service_ns += self.now_ns - row.counted_from_ns;
        }
        row.counted_from_ns = self.now_ns;
    }

    fn set_foreign(&mut self, cpu: CpuId, is_foreign: bool) {
        if std::mem::replace(&mut self.foreign[cpu.index()], is_foreign) != is_foreign {
            if is_foreign {
                self.nr_foreign += 1
            } else {
                self.nr_foreign -= 1
            }
            self.is_stale = true;
        }
    }

    fn change_class(&mut self, row: Row, class: Option<u8>) {
        let was = self.rows[row.index()];
        if was.class == class {
            return;
        }
        self.serve(row);
        self.note(row);
        if was.runnable {
            self.set_runnable(row, false);
        }
        let state = &mut self.rows[row.index()];
        state.class = class;
        state.mark = class.map_or(0, |class| self.clocks[usize::from(class)]);
        if was.runnable {
            self.set_runnable(row, true);
        }
        if let Some(cpu) = was.running_on {
            self.set_foreign(cpu, class.is_none());
        }
    }
}

impl Observer for Share {
    fn elapse(&mut self, from_ns: u64, to_ns: u64) {
        if self.is_stale {
            self.rates = rates(&self.runnable, self.nr_cpus - self.nr_foreign);
            self.active = (0..CLASSES as u8).filter(|class| self.runnable[usize::from(*class)] > 0).collect();
            self.is_stale = false;
        }
        for class in &self.active {
            let class = usize::from(*class);
            self.clocks[class] += u128::from(self.rates[class]) * u128::from(to_ns - from_ns);
        }
        self.now_ns = to_ns;
    }
    fn wait_begin(&mut self, row: Row, _cpu: CpuId, _cause: WaitCause) {
        self.set_runnable(row, true);
    }
    fn wait_end(&mut self, wait: &Wait) {
        self.note(wait.row);
    }
    fn run_end(&mut self, run: &Run) {
        let began_unseen = run.waited.is_none();
        if began_unseen && self.rows[run.row.index()].running_on.is_none() {
            // it ran from the log's beginning: what it was due until now is not known
            self.rows[run.row.index()].counted_from_ns = self.now_ns;
        }
        self.serve(run.row);
        self.rows[run.row.index()].running_on = None;
        self.note(run.row);
        if run.stop.is_some_and(|stop| !stop.is_runnable()) {
            self.set_runnable(run.row, false);
        }
    }
    fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
        match kind {
            Kind::Switch => {
                let next = record.other();
                let is_fair = match next.is_workload() {
                    true => {
                        let state = &mut self.rows[next.index()];
                        (state.running_on, state.counted_from_ns) = (Some(record.cpu()), record.time_ns);
                        state.class.is_some()
                    }
                    false => next.is_idle(),
                };
                if next.is_workload() {
                    self.set_runnable(Row(next.0), true);
                }
                self.set_foreign(record.cpu(), !is_fair);
            }
            Kind::Params => {
                if let (Some(row), Some((policy, nice, _))) = (row, record.params())
                    && let Ok(nice) = Nice::new(nice.into())
                    && record.task().is_workload()
                {
                    self.change_class(row, class_of(policy, nice));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_log::{LogTask, MemLog, PrevState};
    use schedlab_units::{Span, TaskId};

    const MS: u64 = 1_000_000;

    /// `(ms, cpu, from, to, stop)`: switches of tasks that are all new on CPU 0 at 0; -1 is idle.
    fn log(nices: &[i32], nr_cpus: u32, ms: u64, switches: &[(u64, u16, i32, i32, PrevState)]) -> MemLog {
        let task = |nice: &i32| LogTask {
            params: SchedParams::normal(Nice::new(*nice).unwrap()),
            ..LogTask::default()
        };
        let id = |n: i32| if n < 0 { TaskId::IDLE.0 } else { n as u32 };
        let header = LogHeader {
            nr_cpus,
            duration: Span::from_ms(ms),
            tasks: nices.iter().map(task).collect(),
            ..LogHeader::default()
        };
        let new =
            (0..nices.len() as u32).map(|task| Record { kind: Kind::New as u8, task, ..Record::default() });
        let switches = switches.iter().map(|&(at, cpu, from, to, stop)| Record {
            time_ns: at * MS,
            kind: Kind::Switch as u8,
            flags: stop as u8,
            cpu,
            task: id(from),
            other: id(to),
            ..Record::default()
        });
        MemLog { header, records: new.chain(switches).collect() }
    }

    use PrevState::{Dead, Preempted};

    #[test]
    fn the_documented_example() {
        let switches = [(0, 0, -1, 0, Preempted), (10, 0, 0, 1, Dead), (20, 0, 1, -1, Dead)];
        let share = fair_share(&log(&[0, 0], 1, 20, &switches)).unwrap();
        let due = |service, ideal, lowest: i64, highest: i64| Due {
            service_ns: service * MS,
            ideal_ns: ideal * MS,
            lowest_ns: lowest * MS as i64,
            highest_ns: highest * MS as i64,
        };
        assert_eq!(share.tasks, [due(10, 5, 0, 5), due(10, 15, -5, 0)]);
        assert_eq!((share.share_error(), share.largest_error_ns()), (0.25, 5 * MS));
        // Jain of 2 and 2/3: (8/3)^2 / (2 * 40/9) = 0.8
        assert!((share.jain() - 0.8).abs() < 1e-12, "{}", share.jain());
    }

    /// Weights 1024 and 335 (nice 0 and 5) on one CPU for 1359 ms, in exact proportion at the end.
    #[test]
    fn weights_decide_what_is_due() {
        let switches = [(0, 0, -1, 0, Preempted), (1024, 0, 0, 1, Preempted), (1359, 0, 1, 0, Preempted)];
        let share = fair_share(&log(&[0, 5], 1, 1359, &switches)).unwrap();
        for task in &share.tasks {
            assert!(task.error_ns().abs() <= 2, "{task:?}"); // rates are rounded to 2^-32
        }
        // after 1024 ms the second had received nothing of its 1024 * 335 / 1359
        let lag_ms = 1024.0 * 335.0 / 1359.0;
        assert!((share.tasks[1].lowest_ns as f64 / MS as f64 + lag_ms).abs() < 1e-5);
        assert!(share.share_error() < 1e-8 && (share.jain() - 1.0).abs() < 1e-8);
    }

    /// Three CPUs, a task too heavy for its share (it can use one CPU only) and four light ones: 1, and 2/4 each.
    #[test]
    fn nobody_is_due_more_than_a_cpu() {
        let mut runnable = [0; CLASSES];
        (runnable[0], runnable[20]) = (1, 4);
        let rates = rates(&runnable, 3);
        assert_eq!((rates[0], rates[20]), (ONE, ONE / 2));
        runnable[IDLE_CLASS as usize] = 1;
        let three = super::rates(&runnable, 3);
        let expected = 2.0 * 3.0 / (4.0 * 1024.0 + 3.0);
        assert!((three[40] as f64 / ONE as f64 - expected).abs() < 1e-9);
        // fewer tasks than CPUs: a CPU each
        let few = super::rates(
            &{
                let mut few = [0; CLASSES];
                (few[3], few[39]) = (1, 1);
                few
            },
            4,
        );
        assert_eq!((few[3], few[39]), (ONE, ONE));
    }

    /// A CPU with a real-time task is not there to be shared.
    #[test]
    fn other_classes_take_their_cpu_away() {
        let mut log = log(&[0, 0], 1, 20, &[(0, 0, -1, 0, Preempted), (10, 0, 0, 1, Preempted)]);
        log.header.tasks[0].params.policy = SchedPolicy::Fifo;
        let share = fair_share(&log).unwrap();
        assert_eq!(share.tasks[0], Due::default());
        assert_eq!((share.tasks[1].service_ns, share.tasks[1].ideal_ns), (10 * MS, 10 * MS));
        assert_eq!(share.share_error(), 0.0);
        // made real-time at 5 ms, while it runs
        let mut log =
            super::tests::log(&[0, 0], 1, 20, &[(0, 0, -1, 0, Preempted), (10, 0, 0, 1, Preempted)]);
        let params =
            Record { time_ns: 5 * MS, kind: Kind::Params as u8, value: 1 | 50 << 16, ..Record::default() };
        log.records.insert(3, params);
        let share = fair_share(&log).unwrap();
        // the first had 5 ms of 2.5 due; the second is due 2.5 until then, nothing until 10, all afterwards
        assert_eq!((share.tasks[0].service_ns, share.tasks[0].ideal_ns), (5 * MS, 5 * MS / 2));
        assert_eq!((share.tasks[1].service_ns, share.tasks[1].ideal_ns), (10 * MS, 25 * MS / 2));
    }

    /// Received and due add up to the same wherever no CPU idles while work waits.
    #[test]
    fn what_is_due_is_what_there_is() {
        for seed in 0..5 {
            let config = schedlab_log::synthetic::Config { nr_cpus: 1, hogs: 3, seed, ..Default::default() };
            let log = config.log();
            let share = fair_share(&log).unwrap();
            let sum = |get: fn(&Due) -> u64| share.tasks.iter().map(get).sum::<u64>();
            let (service, ideal) = (sum(|task| task.service_ns), sum(|task| task.ideal_ns));
            let off = service.abs_diff(ideal);
            assert!(off < 1000 * share.tasks.len() as u64, "{service} received, {ideal} due");
            let summary = crate::summarize(&log).unwrap();
            for (task, stats) in share.tasks.iter().zip(&summary.tasks) {
                assert_eq!(task.service_ns, stats.cpu_ns);
            }
        }
    }
}
