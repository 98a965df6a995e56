//! Who ran when, as the threads themselves saw it?
//!
//! ```text
//!   thread   ran          then missed
//!   0        9.976 ms     0.006 ms    switched out, 99 %
//!   1        7.574 ms     0.003 ms    interrupt, 95 %
//! ```

use crate::calibrate::Calibration;
use crate::cause::{Evidence, classify};
use crate::plan::{Plan, ThreadPlan};
use crate::poll::{Entry, Finished, Scale, What};
use schedlab_log::{Missed, MissedCause};

/// A sleep, a gap, or a job of a thread. Times are ns from the run's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) what: What,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    /// Polling went on.
    pub(crate) resumed_ns: u64,
    pub(crate) cpu_from: u32,
    pub(crate) cpu_to: u32,
    /// When it had asked to be woken, or when the job was due.
    pub(crate) due_ns: u64,
    pub(crate) missed: Missed,
}

impl Piece {
    /// Its length.
    pub(crate) fn ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// What one thread saw.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadMap {
    /// What it did, and how it was scheduled in the end.
    pub plan: ThreadPlan,
    /// The kernel's number of it.
    pub tid: u32,
    /// In order of time; the first and the last say where it began and ended.
    pub(crate) pieces: Vec<Piece>,
    /// Gaps that did not fit into the buffer.
    pub lost: u64,
    /// Time it computed, in ns.
    pub computed_ns: u64,
    /// Time it read counters, in ns.
    pub reading_ns: u64,
    /// Its CPU time as the kernel has it, in ns.
    pub cpu_ns: u64,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// What was asked for.
    pub plan: Plan,
    /// How the counter is.
    pub calibration: Calibration,
    /// Counters that this system lacks: name, why.
    pub missing: Vec<(String, String)>,
    /// What the result depends on: name, value.
    pub preconditions: Vec<(String, String)>,
    /// What was done otherwise than asked, as sentences.
    pub notes: Vec<String>,
    /// The threads.
    pub threads: Vec<ThreadMap>,
    /// CPUs of the machine.
    pub nr_cpus: u32,
    /// Length in ns.
    pub duration_ns: u64,
    /// The monotonic clock at the run's start, in ns.
    pub(crate) start_ns: u64,
    /// What the hypervisor took from all CPUs in the run, in ms; `None`: not known.
    pub steal_ms: Option<u64>,
    /// What the commands beside it said last: command, lines.
    pub beside: Vec<(String, String)>,
}

/// What all threads of a run have in common for [`thread_map`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) scale: Scale,
    pub(crate) start_ns: u64,
    pub(crate) has_run_delay: bool,
    pub(crate) has_throttling: bool,
    pub(crate) has_sequences: bool,
    pub(crate) has_switches: bool,
    pub(crate) is_virtual: bool,
}

impl Frame {
    fn ns(&self, ticks: u64) -> u64 {
        self.scale.ns_at(ticks).saturating_sub(self.start_ns)
    }

    fn evidence(&self, before: &Entry, entry: &Entry, is_real_time: bool) -> Evidence {
        let (old, new) = (&before.reading, &entry.reading);
        let ns = self.ns(entry.to).saturating_sub(self.ns(entry.from));
        let elapsed_ns = self.ns(entry.to).saturating_sub(self.ns(before.to));
        let steal_ms = new.steal_ms.saturating_sub(old.steal_ms);
        // counters in ms and in steps of 10 ms: only where a gap is long enough to have made them grow
        Evidence {
            ns,
            voluntary: new.voluntary.saturating_sub(old.voluntary),
            involuntary: new.involuntary.saturating_sub(old.involuntary),
            faults: new.faults.saturating_sub(old.faults),
            off_cpu_ns: elapsed_ns.saturating_sub(new.cpu_ns.saturating_sub(old.cpu_ns)),
            run_delay_ns: self.has_run_delay.then(|| new.run_delay_ns.saturating_sub(old.run_delay_ns)),
            throttled_ns: self
                .has_throttling
                .then(|| new.throttled_us.saturating_sub(old.throttled_us).saturating_mul(1000)),
            steal_ns: steal_ms * 1_000_000,
            preempted: self.has_sequences.then_some(new.preempted),
            migrated: entry.cpu_from != entry.cpu_to,
            is_real_time,
            is_virtual: self.is_virtual,
            is_blind: !self.has_switches,
        }
    }
}

/// What a thread's buffer says, in ns and with causes.
pub(crate) fn thread_map(plan: ThreadPlan, tid: u32, done: &Finished, frame: &Frame) -> ThreadMap {
    let is_real_time = plan.class.is_real_time();
    let mut pieces: Vec<Piece> = Vec::with_capacity(done.entries.len() + 1);
    let mut before: Option<&Entry> = None;
    for entry in done.entries.iter().chain([&done.last]) {
        let mut missed = Missed::default();
        if let (What::Gap, Some(before)) = (entry.what, before) {
            let evidence = frame.evidence(before, entry, is_real_time);
            let (cause, confidence_pct) = classify(&evidence);
            let switches = (evidence.voluntary + evidence.involuntary).min(255) as u8;
            missed = Missed { ns: evidence.ns, cause, confidence_pct, switches };
        }
        if entry.what != What::Job && entry.what != What::Skip {
            before = Some(entry);
        }
        let floor_ns = pieces.last().map_or(0, |piece| piece.resumed_ns);
        pieces.push(Piece {
            what: entry.what,
            from_ns: frame.ns(entry.from).max(floor_ns),
            to_ns: frame.ns(entry.to).max(floor_ns),
            resumed_ns: frame.ns(entry.resumed).max(floor_ns),
            cpu_from: entry.cpu_from.into(),
            cpu_to: entry.cpu_to.into(),
            due_ns: entry.due_ns.saturating_sub(frame.start_ns),
            missed,
        });
    }
    // the median times their number: a thread that is switched out while it reads does not read all that time
    let mut readings: Vec<u64> = done.entries.iter().map(|entry| entry.resumed - entry.to).collect();
    readings.retain(|ticks| *ticks > 0);
    readings.sort_unstable();
    let reading_ticks = readings.get(readings.len() / 2).map_or(0, |median| median * readings.len() as u64);
    let first_cpu_ns = done.entries.first().map_or(0, |entry| entry.reading.cpu_ns);
    let in_ns = |ticks: u64| (ticks as f64 / frame.scale.ticks_per_ns) as u64;
    ThreadMap {
        plan,
        tid,
        pieces,
        lost: done.lost,
        computed_ns: in_ns(done.computed_ticks),
        reading_ns: in_ns(reading_ticks),
        cpu_ns: done.last.reading.cpu_ns.saturating_sub(first_cpu_ns),
    }
}

/// Gaps of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseSum {
    /// How many.
    pub count: u64,
    /// Together, in ns.
    pub ns: u64,
    /// The longest, in ns.
    pub max_ns: u64,
    /// Sum of confidences in per cent, for their mean.
    pub confidence_pct: u64,
}

/// Jobs of a thread with releases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Done or given up, with their deadline within the run.
    pub count: u64,
    /// Not done at their deadline.
    pub missed: u64,
    /// Of the missed ones, those that were not even begun.
    pub skipped: u64,
    /// By how much each late job was late, in ns, in order of length.
    pub tardiness_ns: Vec<u64>,
}

impl ThreadMap {
    /// Its gaps in order of time.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().filter(|piece| piece.what == What::Gap)
    }

    /// Sums by cause, in the order of [`MissedCause::ALL`].
    pub fn causes(&self) -> [CauseSum; MissedCause::ALL.len()] {
        let mut sums = [CauseSum::default(); MissedCause::ALL.len()];
        for piece in self.gaps() {
            let sum = &mut sums[piece.missed.cause as usize];
            sum.count += 1;
            sum.ns += piece.ns();
            sum.max_ns = sum.max_ns.max(piece.ns());
            sum.confidence_pct += u64::from(piece.missed.confidence_pct);
        }
        sums
    }

    /// For how long it could not run because its process was stopped, in ns.
    pub fn stopped_ns(&self) -> u64 {
        self.causes()[MissedCause::Stopped as usize].ns
    }

    /// How late it ran after each sleep, in ns, in order of length.
    pub fn lateness_ns(&self) -> Vec<u64> {
        let sleeps = self.pieces.iter().filter(|piece| piece.what == What::Sleep && piece.due_ns > 0);
        let mut late: Vec<u64> = sleeps.map(|piece| piece.to_ns.saturating_sub(piece.due_ns)).collect();
        late.sort_unstable();
        late
    }

    /// Its jobs; `None` if its model has none.
    pub fn jobs(&self) -> Option<JobCounts> {
        let mut jobs = JobCounts::default();
        for piece in &self.pieces {
            match piece.what {
                What::Job => {
                    jobs.count += 1;
                    if piece.to_ns > piece.due_ns {
                        jobs.missed += 1;
                        jobs.tardiness_ns.push(piece.to_ns - piece.due_ns);
                    }
                }
                What::Skip => {
                    jobs.count += 1;
                    jobs.missed += 1;
                    jobs.skipped += 1;
                }
                What::Gap | What::Sleep => {}
            }
        }
        jobs.tardiness_ns.sort_unstable();
        (jobs.count > 0).then_some(jobs)
    }
}
