//! What did every CPU do over time, in a size that a browser can draw? Shares per bucket for the whole run,
//! and exact runs for as much of it as the budget allows.
//!
//! ```text
//!   whole run   |▇▇▆▂ ▁▅▇▇▇▇▆|▇▇▇▇▇▇▇▇▇▇▇▇|...   buckets: which groups had which share of the CPU's time
//!   windows     |exact|         |exact|          each run: task, start, length, why it stopped, how long it had waited
//! ```
//!
//! A log with no more runs than the budget gets one window over everything. Otherwise the windows are the
//! beginning, the surroundings of the longest waits, and places spread evenly over the run.

use crate::groups::Groups;
use schedlab_instruments::{LogProblem, Stay, Stretch, Summary, WaitCause, for_each_stay};
use schedlab_log::{Fact, Log, Observer, PrevState, Slots, replay};
use schedlab_units::{CpuId, TaskId};
use std::cmp::Reverse;

/// Groups told apart in a bucket.
pub const CELL_GROUPS: usize = 3;

/// What a CPU did in one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Busy part, 0..=255.
    pub busy: u8,
    /// The groups with the most time: index into [`Groups::list`] and part of the bucket, 0..=255.
    pub top: [(u32, u8); CELL_GROUPS],
    /// Part in which nobody saw what the CPU did, 0..=255.
    pub unseen: u8,
}

/// One run in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRun {
    /// Workload tasks by row, then kernel threads in the header's order.
    pub row: u32,
    /// From when, in ns from the start of the log.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
    /// Why it stopped; `None`: the log ends.
    pub stop: Option<PrevState>,
    /// Why it had been waiting, and for how long in ns.
    pub waited: Option<(WaitCause, u64)>,
}

/// A part of the log with all its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// First instant.
    pub start_ns: u64,
    /// Last instant.
    pub end_ns: u64,
    /// Runs by CPU, each CPU's in order; those that overlap the window.
    pub runs: Vec<Vec<WindowRun>>,
}

/// The whole run in buckets, parts of it exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Length of a bucket; the last one may reach beyond the end.
    pub bucket_ns: u64,
    /// By CPU, each CPU's buckets in order.
    pub cells: Vec<Vec<Bucket>>,
    /// Ordered, not overlapping.
    pub windows: Vec<Window>,
    /// Number of runs in the log.
    pub nr_runs: u64,
    /// Number of runs in the windows.
    pub nr_runs_kept: u64,
}

/// How much detail to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Buckets over all CPUs.
    pub cells: usize,
    /// Exact runs.
    pub runs: usize,
}

impl Detail {
    /// For one of `nr_runs` runs in an HTML file of at most about 4 MB.
    pub fn for_html(nr_runs: usize) -> Detail {
        let share = nr_runs.max(1);
        Detail { cells: 120_000 / share, runs: 150_000 / share }
    }
    /// For the terminal: buckets only.
    pub fn for_terminal(nr_cpus: u32) -> Detail {
        Detail { cells: 64 * nr_cpus.max(1) as usize, runs: 0 }
    }
}

/// Windows beside the one at the beginning: around the longest waits, and evenly spread.
const WINDOWS_AT_WAITS: usize = 8;
/// Windows at the beginnings of the longest times in which a CPU idled while work waited.
const WINDOWS_AT_STRETCHES: usize = 4;
const WINDOWS_SPREAD: usize = 7;
const BUCKETS_MAX: usize = 4096;
const BUCKETS_MIN: usize = 32;

impl Timeline {
    /// Reads the log once more. `summary` and `groups` are of the same log.
    pub fn new(
        log: &dyn Log,
        summary: &Summary,
        groups: &Groups,
        detail: Detail,
    ) -> Result<Timeline, LogProblem> {
        let nr_cpus = summary.cpus.len();
        let nr_buckets = (detail.cells / nr_cpus.max(1)).clamp(BUCKETS_MIN, BUCKETS_MAX) as u64;
        let bucket_ns = summary.duration_ns.div_ceil(nr_buckets).max(1);
        let all = summary.tasks.iter().chain(&summary.kernel_threads);
        let nr_runs = all.map(|task| task.runs).sum();
        let windows = plan_windows(summary, nr_runs, detail.runs);
        let kept_max = if windows.is_empty() { 0 } else { detail.runs / windows.len() };
        let mut collector = Collector {
            kernel_rows: kernel_rows(log),
            nr_tasks: summary.tasks.len() as u32,
            groups,
            duration_ns: summary.duration_ns,
            bucket_ns,
            cpus: (0..nr_cpus).map(|_| CpuCells::default()).collect(),
            windows,
            window_kept: Vec::new(),
            kept_max: kept_max as u64,
        };
        collector.window_kept = vec![0; collector.windows.len()];
        collector.windows.iter_mut().for_each(|window| window.runs = vec![Vec::new(); nr_cpus]);
        for_each_stay(log, |run| collector.run(run))?;
        let unseen = unseen(log, bucket_ns)?;
        let mut timeline = collector.finish();
        timeline.nr_runs = nr_runs;
        for (cells, unseen) in timeline.cells.iter_mut().zip(&unseen) {
            for (cell, ns) in cells.iter_mut().zip(unseen) {
                // any part at all shows
                cell.unseen = (u128::from(*ns) * 255).div_ceil(u128::from(bucket_ns)) as u8;
            }
        }
        Ok(timeline)
    }
}

/// Per CPU and bucket, in how much of it nobody saw what the CPU did; nothing where a log hides nothing of the kind.
fn unseen(log: &dyn Log, bucket_ns: u64) -> Result<Vec<Vec<u64>>, LogProblem> {
    struct Gaps {
        bucket_ns: u64,
        cpus: Vec<Vec<u64>>,
    }
    impl Observer for Gaps {
        fn cpu_unknown_end(&mut self, cpu: CpuId, since_ns: u64, now_ns: u64) {
            let (mut at, buckets) = (since_ns, &mut self.cpus[cpu.index()]);
            while at < now_ns {
                let bucket = at / self.bucket_ns;
                let until = now_ns.min((bucket + 1) * self.bucket_ns);
                buckets.resize(buckets.len().max(bucket as usize + 1), 0);
                buckets[bucket as usize] += until - at;
                at = until;
            }
        }
    }
    let header = log.header();
    let mut gaps = Gaps { bucket_ns, cpus: vec![Vec::new(); header.nr_cpus as usize] };
    if header.hidden.has_any(&[Fact::Idle, Fact::Spans]) {
        replay(log, &Slots::new(header), &mut gaps)?;
    }
    Ok(gaps.cpus)
}

fn kernel_rows(log: &dyn Log) -> std::collections::BTreeMap<TaskId, u32> {
    let threads = log.header().kernel_threads.iter().enumerate();
    threads.map(|(row, thread)| (TaskId::kernel_thread(thread.pid), row as u32)).collect()
}

/// Where to keep exact runs, so that about `budget` of them are kept.
fn plan_windows(summary: &Summary, nr_runs: u64, budget: usize) -> Vec<Window> {
    let end = summary.duration_ns;
    let window = |start_ns: u64, end_ns: u64| Window { start_ns, end_ns, runs: Vec::new() };
    if budget == 0 || end == 0 {
        return Vec::new();
    }
    if nr_runs <= budget as u64 {
        return vec![window(0, end)];
    }
    let count = 1 + WINDOWS_AT_WAITS + WINDOWS_AT_STRETCHES + WINDOWS_SPREAD;
    // as long as holds its share of the runs at the mean density; denser places are cut when they are full
    let length = (u128::from(end) * budget as u128 / u128::from(nr_runs) / count as u128) as u64;
    let length = length.clamp(1, end);
    let mut starts: Vec<u64> = vec![0];
    starts.extend((1..=WINDOWS_SPREAD as u64).map(|n| (end - length) / WINDOWS_SPREAD as u64 * n));
    // most of the wait and what came right after it
    starts.extend(
        summary
            .system
            .longest_waits
            .iter()
            .take(WINDOWS_AT_WAITS)
            .map(|w| w.end_ns.saturating_sub(length / 4 * 3)),
    );
    // and the beginnings of the longest times in which a CPU idled while work waited
    let mut stretches = summary.system.conservation.longest.clone();
    stretches.sort_by_key(|stretch| (Reverse(stretch.ns()), stretch.from_ns));
    let before = |stretch: &Stretch| stretch.from_ns.saturating_sub(length / 4);
    starts.extend(stretches.iter().take(WINDOWS_AT_STRETCHES).map(before));
    starts.sort_unstable();
    let mut windows: Vec<Window> = Vec::new();
    for start in starts {
        let stop = (start + length).min(end);
        match windows.last_mut() {
            Some(last) if last.end_ns >= start => last.end_ns = last.end_ns.max(stop),
            _ => windows.push(window(start, stop)),
        }
    }
    windows
}

#[derive(Default)]
struct CpuCells {
    done: Vec<Bucket>,
    /// Time by group in the bucket under way (number `done.len()`).
    open: Vec<(u32, u64)>,
}

impl CpuCells {
    fn close(&mut self, bucket_ns: u64) {
        let part =
            |ns: u64| ((u128::from(ns) * 255 + u128::from(bucket_ns / 2)) / u128::from(bucket_ns)) as u8;
        let busy: u64 = self.open.iter().map(|(_, ns)| ns).sum();
        self.open.sort_unstable_by_key(|(group, ns)| (std::cmp::Reverse(*ns), *group));
        let mut cell = Bucket { busy: part(busy), ..Bucket::default() };
        for (top, (group, ns)) in cell.top.iter_mut().zip(&self.open) {
            *top = (*group, part(*ns));
        }
        self.done.push(cell);
        self.open.clear();
    }

    fn add(&mut self, group: u32, start_ns: u64, end_ns: u64, bucket_ns: u64) {
        let mut at = start_ns;
        while at < end_ns {
            let bucket = at / bucket_ns;
            while (self.done.len() as u64) < bucket {
                self.close(bucket_ns);
            }
            let until = end_ns.min((bucket + 1) * bucket_ns);
            match self.open.iter_mut().find(|(g, _)| *g == group) {
                Some((_, ns)) => *ns += until - at,
                None => self.open.push((group, until - at)),
            }
            at = until;
        }
    }
}

struct Collector<'a> {
    kernel_rows: std::collections::BTreeMap<TaskId, u32>,
    nr_tasks: u32,
    groups: &'a Groups,
    duration_ns: u64,
    bucket_ns: u64,
    cpus: Vec<CpuCells>,
    windows: Vec<Window>,
    window_kept: Vec<u64>,
    kept_max: u64,
}

impl Collector<'_> {
    fn run(&mut self, run: &Stay) {
        let (row, group) = if run.task.is_workload() {
            (run.task.0, self.groups.of_task[run.task.index()])
        } else {
            let row = self.kernel_rows[&run.task];
            (self.nr_tasks + row, self.groups.of_kernel_thread[row as usize])
        };
        let cpu = run.cpu.index();
        self.cpus[cpu].add(group, run.start_ns, run.end_ns, self.bucket_ns);
        // runs come by their end: one that lies behind a window may still be followed by a long one that overlaps it
        for (window, kept) in self.windows.iter_mut().zip(&mut self.window_kept) {
            if window.start_ns > run.end_ns {
                break;
            }
            if run.start_ns > window.end_ns || (run.end_ns == window.start_ns && run.start_ns < run.end_ns) {
                continue;
            }
            if *kept >= self.kept_max && window.end_ns > run.end_ns {
                // full: it ends here
                window.end_ns = run.end_ns.max(window.start_ns);
            }
            *kept += 1;
            window.runs[cpu].push(WindowRun {
                row,
                start_ns: run.start_ns,
                end_ns: run.end_ns,
                stop: run.stop,
                waited: run.waited,
            });
        }
    }

    fn finish(mut self) -> Timeline {
        let nr_buckets = self.duration_ns.div_ceil(self.bucket_ns) as usize;
        for cpu in &mut self.cpus {
            while cpu.done.len() < nr_buckets {
                cpu.close(self.bucket_ns);
            }
        }
        for window in &mut self.windows {
            let end_ns = window.end_ns;
            for runs in &mut window.runs {
                runs.retain(|run| {
                    run.start_ns < end_ns || (run.start_ns == run.end_ns && run.start_ns <= end_ns)
                });
            }
        }
        let kept = self.windows.iter().flat_map(|window| &window.runs).map(|runs| runs.len() as u64).sum();
        Timeline {
            bucket_ns: self.bucket_ns,
            cells: self.cpus.into_iter().map(|cpu| cpu.done).collect(),
            windows: self.windows,
            nr_runs: 0,
            nr_runs_kept: kept,
        }
    }
}
