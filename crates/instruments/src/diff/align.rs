//! Which decisions of two logs belong together? Per CPU, in order, with a tolerance in time; the logs are
//! read side by side.
//!
//! A *decision* is a CPU's turning to another task (or to idle, or to a task that comes back from blocking).
//! On each CPU the next decisions of both logs agree if they choose the same task at most `within` apart. If
//! not, up to `within` of stays that only one log has may be skipped:
//!
//! ```text
//!   a   t1......t2......t1......         the same, as far as a tolerance of two dots can tell:
//!   b   t1.......t3t2......t1.....       t3's stay is skipped, the others are late by one or two
//! ```
//!
//! What cannot be explained so is a difference. From there on the CPU counts as diverged, until a decision
//! agrees again.

use super::map::TaskMap;
use crate::{Impossible, LogProblem};
use schedlab_log::{Kind, Log, Record, Records, Slots};
use schedlab_units::{CpuId, TaskId};
use std::collections::{BTreeSet, VecDeque};

/// Common number of idle.
pub(super) const IDLE: u32 = u32::MAX;
/// Decisions of one CPU that wait for their partners at most; more than that within the tolerance are not kept apart.
const PENDING_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub time_ns: u64,
    /// Common number of the task chosen.
    pub who: u32,
    /// Position of its record in the log.
    pub index: u64,
}

/// A decision without a partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unmatched {
    pub cpu: CpuId,
    pub time_ns: u64,
    /// The next decision of each side, if there is one.
    pub next: [Option<Decision>; 2],
}

/// What the first pass over both logs tells.
#[derive(Debug, Default)]
pub(super) struct Alignment {
    pub first: Option<Unmatched>,
    /// Decisions that agree, and those before the first difference.
    pub agreed: u64,
    pub agreed_before_first: u64,
    pub skipped: u64,
    pub differences: u64,
    pub decisions: [u64; 2],
    pub disagree_ns: u64,
    /// CPU time per log by common number.
    pub cpu_ns: [Vec<u64>; 2],
    /// Stays and CPU time of kernel threads, per log.
    pub kernel_threads: [(u64, u64); 2],
    /// Largest distance in time between decisions that agree.
    pub largest_shift_ns: u64,
}

/// One log's view of one CPU.
#[derive(Clone)]
struct Lane {
    /// The task chosen last (kernel threads left out).
    who: u32,
    /// It has blocked since.
    ended: bool,
    /// Who is really on the CPU, and since when.
    current: TaskId,
    since_ns: u64,
    pending: VecDeque<Decision>,
}

struct Cpu {
    lanes: [Lane; 2],
    /// Choice of the last decision that agreed.
    agreed: u32,
    diverged: bool,
    /// Its entry in the aligner's list of CPUs that wait.
    waits_since: Option<u64>,
    /// Since when the two logs have had different tasks here.
    differ_since: Option<u64>,
}

pub(super) struct Aligner<'a> {
    within_ns: u64,
    with_kernel_threads: bool,
    end_ns: u64,
    slots: [&'a Slots; 2],
    map: &'a TaskMap,
    cpus: Vec<Cpu>,
    /// CPUs whose next decisions do not agree: since when, which.
    waiting: BTreeSet<(u64, u32)>,
    out: Alignment,
}

/// Reads one log record by record, with a look at the next one's time.
struct Side<'a> {
    records: Records<'a>,
    next: Option<Record>,
    index: u64,
    now_ns: u64,
}

impl<'a> Side<'a> {
    fn new(log: &'a dyn Log) -> Result<Side<'a>, LogProblem> {
        let mut records = log.records()?;
        let next = records.next().transpose()?;
        Ok(Side { records, next, index: 0, now_ns: 0 })
    }
    fn time_ns(&self) -> u64 {
        self.next.map_or(u64::MAX, |record| record.time_ns)
    }
    fn take(&mut self) -> Result<Option<(u64, Record)>, LogProblem> {
        let Some(record) = self.next else { return Ok(None) };
        let index = self.index;
        if record.time_ns < self.now_ns {
            let problem = Impossible::TimeBackwards { previous_ns: self.now_ns };
            return Err(LogProblem::Record { index, time_ns: record.time_ns, problem });
        }
        self.now_ns = record.time_ns;
        self.index += 1;
        self.next = self.records.next().transpose()?;
        Ok(Some((index, record)))
    }
}

impl<'a> Aligner<'a> {
    pub(super) fn new(
        within_ns: u64,
        with_kernel_threads: bool,
        (nr_cpus, end_ns): (u32, u64),
        slots: [&'a Slots; 2],
        map: &'a TaskMap,
    ) -> Aligner<'a> {
        let lane =
            Lane { who: IDLE, ended: false, current: TaskId::IDLE, since_ns: 0, pending: VecDeque::new() };
        let cpu = || Cpu {
            lanes: [lane.clone(), lane.clone()],
            agreed: IDLE,
            diverged: false,
            waits_since: None,
            differ_since: None,
        };
        let zeros = || vec![0; map.pairs.len()];
        Aligner {
            within_ns,
            with_kernel_threads,
            end_ns,
            slots,
            map,
            cpus: (0..nr_cpus).map(|_| cpu()).collect(),
            waiting: BTreeSet::new(),
            out: Alignment { cpu_ns: [zeros(), zeros()], ..Alignment::default() },
        }
    }

    /// Both logs up to the end of the shorter one.
    pub(super) fn run(mut self, logs: [&'a dyn Log; 2]) -> Result<Alignment, LogProblem> {
        let mut sides = [Side::new(logs[0])?, Side::new(logs[1])?];
        loop {
            let which = usize::from(sides[1].time_ns() < sides[0].time_ns());
            if sides[which].time_ns() > self.end_ns {
                break;
            }
            let Some((index, record)) = sides[which].take()? else { break };
            if record.kind() == Some(Kind::Switch) {
                self.switch(which, index, &record)?;
            }
            let read_ns = sides[0].time_ns().min(sides[1].time_ns());
            self.decide_until(read_ns);
        }
        self.decide_until(u64::MAX);
        for cpu in 0..self.cpus.len() {
            self.account(cpu, self.end_ns);
            for which in 0..2 {
                self.leave(which, cpu, self.end_ns);
            }
        }
        Ok(self.out)
    }

    /// Common number; `None`: left out.
    fn who(
        &self,
        which: usize,
        index: u64,
        record: &Record,
        task: TaskId,
    ) -> Result<Option<u32>, LogProblem> {
        if task.is_idle() {
            return Ok(Some(IDLE));
        }
        if !self.with_kernel_threads && task.is_kernel_thread() {
            return Ok(None);
        }
        self.number(which, index, record, task).map(Some)
    }

    fn number(&self, which: usize, index: u64, record: &Record, task: TaskId) -> Result<u32, LogProblem> {
        let unknown = || LogProblem::Record {
            index,
            time_ns: record.time_ns,
            problem: Impossible::UnknownTask { task },
        };
        let row = self.slots[which].row(task).ok_or_else(unknown)?;
        Ok(self.map.of_row[which][row.index()])
    }

    fn switch(&mut self, which: usize, index: u64, record: &Record) -> Result<(), LogProblem> {
        let cpu = usize::from(record.cpu);
        if cpu >= self.cpus.len() {
            return Ok(()); // the other log has fewer CPUs
        }
        for task in [record.task(), record.other()] {
            if !task.is_idle() {
                self.number(which, index, record, task)?;
            }
        }
        let now_ns = record.time_ns;
        self.account(cpu, now_ns);
        if self.cpus[cpu].lanes[which].current.is_idle() && !record.task().is_idle() {
            // a log that begins in the middle: the task ran here from the start
            self.cpus[cpu].lanes[which].current = record.task();
        }
        self.leave(which, cpu, now_ns);
        let blocked = record.prev_state().is_some_and(|state| !state.is_runnable());
        let previous = self.who(which, index, record, record.task())?;
        let next = self.who(which, index, record, record.other())?;
        let lane = &mut self.cpus[cpu].lanes[which];
        (lane.current, lane.since_ns) = (record.other(), now_ns);
        if previous.is_some_and(|who| who != IDLE) && blocked {
            lane.ended = true;
        }
        if let Some(who) = next
            && (who != lane.who || lane.ended)
        {
            let decision = Decision { time_ns: now_ns, who, index };
            (lane.who, lane.ended) = (who, false);
            lane.pending.push_back(decision);
            self.out.decisions[which] += 1;
            self.match_up(cpu);
        }
        let [a, b] = &self.cpus[cpu].lanes;
        let differ = a.who != b.who;
        self.cpus[cpu].differ_since = differ.then_some(now_ns);
        Ok(())
    }

    /// Time since the last change, if the logs had different tasks here.
    fn account(&mut self, cpu: usize, now_ns: u64) {
        if let Some(since_ns) = self.cpus[cpu].differ_since.replace(now_ns) {
            self.out.disagree_ns += now_ns - since_ns;
        } else {
            self.cpus[cpu].differ_since = None;
        }
    }

    /// The current task's time on the CPU.
    fn leave(&mut self, which: usize, cpu: usize, now_ns: u64) {
        let lane = &self.cpus[cpu].lanes[which];
        let ns = now_ns.saturating_sub(lane.since_ns);
        if let Some(row) = self.slots[which].row(lane.current) {
            self.out.cpu_ns[which][self.map.of_row[which][row.index()] as usize] += ns;
            if lane.current.is_kernel_thread() {
                self.out.kernel_threads[which].0 += 1;
                self.out.kernel_threads[which].1 += ns;
            }
        }
    }

    fn agree(&self, a: &Decision, b: &Decision) -> bool {
        a.who == b.who && a.time_ns.abs_diff(b.time_ns) <= self.within_ns
    }

    /// Pairs off the CPU's next decisions as long as they agree; else the CPU waits until the tolerance is over.
    fn match_up(&mut self, cpu: usize) {
        self.unwait(cpu);
        while let [Some(a), Some(b)] = self.heads(cpu) {
            if !self.agree(&a, &b) {
                break;
            }
            self.pair_off(cpu, a, b);
        }
        if let Some(first_ns) = self.earliest(cpu) {
            self.waiting.insert((first_ns, cpu as u32));
            self.cpus[cpu].waits_since = Some(first_ns);
        }
    }

    fn pair_off(&mut self, cpu: usize, a: Decision, b: Decision) {
        let state = &mut self.cpus[cpu];
        for lane in &mut state.lanes {
            lane.pending.pop_front();
        }
        (state.agreed, state.diverged) = (a.who, false);
        self.out.agreed += 1;
        self.out.largest_shift_ns = self.out.largest_shift_ns.max(a.time_ns.abs_diff(b.time_ns));
    }

    fn heads(&self, cpu: usize) -> [Option<Decision>; 2] {
        [0, 1].map(|which| self.cpus[cpu].lanes[which].pending.front().copied())
    }

    fn earliest(&self, cpu: usize) -> Option<u64> {
        self.heads(cpu).iter().flatten().map(|decision| decision.time_ns).min()
    }

    fn unwait(&mut self, cpu: usize) {
        if let Some(first_ns) = self.cpus[cpu].waits_since.take() {
            self.waiting.remove(&(first_ns, cpu as u32));
        }
    }

    /// Decides about every CPU whose next decisions have waited long enough: both logs have been read up to `read_ns`.
    fn decide_until(&mut self, read_ns: u64) {
        let patience_ns = self.within_ns.saturating_mul(2);
        while let Some(&(first_ns, cpu)) = self.waiting.first() {
            let cpu = cpu as usize;
            let crowded = self.cpus[cpu].lanes.iter().any(|lane| lane.pending.len() > PENDING_MAX);
            if first_ns.saturating_add(patience_ns) >= read_ns && !crowded {
                break;
            }
            self.decide(cpu, first_ns);
            self.match_up(cpu);
        }
    }

    /// The CPU's next decisions do not agree, and never will.
    fn decide(&mut self, cpu: usize, first_ns: u64) {
        self.unwait(cpu);
        if !self.cpus[cpu].diverged {
            if let Some(skip) = self.explain(cpu) {
                for (which, count) in skip.into_iter().enumerate() {
                    self.cpus[cpu].lanes[which].pending.drain(..count);
                    self.out.skipped += count as u64;
                }
                return;
            }
            self.out.differences += 1;
            self.cpus[cpu].diverged = true;
            let here = (first_ns, CpuId(cpu as u32));
            if self.out.first.is_none_or(|first| here < (first.time_ns, first.cpu)) {
                let next = self.heads(cpu);
                self.out.first = Some(Unmatched { cpu: here.1, time_ns: first_ns, next });
                self.out.agreed_before_first = self.out.agreed;
            }
        }
        // go on behind it
        let which = match self.heads(cpu) {
            [Some(a), Some(b)] => usize::from(b.time_ns < a.time_ns),
            [None, _] => 1,
            _ => 0,
        };
        self.cpus[cpu].lanes[which].pending.pop_front();
    }

    /// The fewest decisions to skip on each side so that the next ones agree, or the CPU is back at the task
    /// that both agreed on; stays that are skipped last at most `within` together.
    fn explain(&self, cpu: usize) -> Option<[usize; 2]> {
        let state = &self.cpus[cpu];
        let lists = [0, 1].map(|which| {
            let pending = &state.lanes[which].pending;
            let first_ns = pending.front().map_or(0, |first| first.time_ns);
            let near = move |decision: &&Decision| decision.time_ns - first_ns <= self.within_ns;
            pending.iter().take_while(near).copied().collect::<Vec<Decision>>()
        });
        // the log ends before the stay could become too long
        let ends = |which: usize| {
            let pending = &state.lanes[which].pending;
            let first = pending.front().filter(|_| pending.len() == lists[which].len());
            first.filter(|first| self.end_ns - first.time_ns <= self.within_ns).map(|_| pending.len())
        };
        let mut best: Option<[usize; 2]> = None;
        let mut offer = |skip: [usize; 2]| {
            if best.is_none_or(|best| skip[0] + skip[1] < best[0] + best[1]) {
                best = Some(skip);
            }
        };
        for (p, a) in lists[0].iter().enumerate() {
            for (q, b) in lists[1].iter().enumerate() {
                if p + q > 0 && self.agree(a, b) {
                    offer([p, q]);
                }
            }
        }
        for (which, list) in lists.iter().enumerate() {
            let back = list.iter().skip(1).position(|decision| decision.who == state.agreed);
            if let Some(count) = back.map(|at| at + 2).or_else(|| ends(which)) {
                offer(if which == 0 { [count, 0] } else { [0, count] });
            }
        }
        best
    }
}
