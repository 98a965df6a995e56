//! Did each job end in time, and if not, how late was it?
//!
//! A *job* is one activation of a task: it is *released* when its work is due to begin, and *ends* when the
//! task blocks for the next release or exits. Its *response time* is end - release. Its *tardiness* is what
//! the response time has beyond the relative deadline.
//!
//! ```text
//!   ms     0    5    10   15   20   25   30  a camera: 6 ms of work each 10 ms, beside a hog that has every other 5 ms
//!   cpu0   CCCCChhhhhChhhhCCCCChhhhhCC...
//!          ^r0       ^r1       ^r2
//!
//!   job 0: released at 0, ends at 11: response 11 ms, deadline 10 ms: missed, tardiness 1 ms
//!   job 1: released at 10, although the camera was still busy with job 0
//! ```
//!
//! Where releases come from ([`plans`]):
//!
//! | the task's wakeups | release of the next job | relative deadline |
//! |---|---|---|
//! | timers set for an instant (`absolute`, `grid`: periodic generators, rt-app's timers) | the instant, whether or not the task was asleep | the time to the next instant |
//! | `grid-restart` | the instant, or the block that came after it | the same |
//! | `grid-skip` | the instant; one that is a whole period late is given up, and missed | the same |
//! | any, of a task that is SCHED_DEADLINE from its start | the wakeup, also one that came before the task slept | its `deadline` parameter |
//!
//! A SCHED_DEADLINE task with timers for instants is released by these and has the deadline of its
//! parameters. Blocks between two releases belong to the job. A task whose kind of wakeups says nothing about
//! jobs has no row. Instants count from when the task was first runnable, so that a start which a
//! perturbation delays moves all of its releases.

mod bounds;
mod plan;
#[cfg(test)]
mod tests;

pub use bounds::{Bound, bounds};
pub use plan::{Ends, JobPlan, Passed, plans};

use crate::Distribution;
use schedlab_log::{Kind, Log, LogProblem, Observer, PrevState, Record, Row, Slots, note, replay};
use schedlab_units::{SchedParams, TaskId};
use schedlab_workload::Workload;
use std::collections::BTreeMap;

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number among the task's jobs, from 0.
    pub number: u64,
    /// Release, ns from the start.
    pub release_ns: u64,
    /// End, ns from the start; `None`: it had not ended when the log did.
    pub end_ns: Option<u64>,
    /// Relative deadline; `None`: it has none that is known.
    pub deadline_ns: Option<u64>,
}

impl Job {
    /// Response time; of a job that had not ended by `log_end_ns`: the time that it has had so far.
    pub fn response_ns(&self, log_end_ns: u64) -> u64 {
        self.end_ns.unwrap_or(log_end_ns).saturating_sub(self.release_ns)
    }
    /// How late it was; 0 = in time, or no deadline is known. Of a job that had not ended: so far.
    pub fn tardiness_ns(&self, log_end_ns: u64) -> u64 {
        self.deadline_ns.map_or(0, |deadline_ns| self.response_ns(log_end_ns).saturating_sub(deadline_ns))
    }
}

/// The jobs of one task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskJobs {
    /// The task.
    pub task: TaskId,
    /// Jobs that ended, and those that did not although their deadline had passed.
    pub nr_jobs: u64,
    /// Of them, with a known deadline.
    pub nr_with_deadline: u64,
    /// Of those, the ones that ended after it, or not at all.
    pub misses: u64,
    /// Of the misses, jobs that had not ended when the log did, or were given up.
    pub unfinished: u64,
    /// Response times of the jobs that ended.
    pub response: Distribution,
    /// Tardiness of the missed ones; of unfinished ones: so far.
    pub tardiness: Distribution,
    /// The job with the longest response time; of equal ones the first.
    pub worst: Option<Job>,
    /// Jobs in order, for pictures: the first [`JOBS_KEPT`] of all tasks together.
    pub kept: Vec<Job>,
    /// The log has blocks that the workload does not ask for, so that jobs are unknown from then on.
    pub lost_track: bool,
}

/// Jobs that are kept one by one, all tasks together.
pub const JOBS_KEPT: usize = 50_000;

impl TaskJobs {
    /// Share of missed deadlines with its 95 % interval by Wilson's score: low, estimate, high. `None`
    /// without deadlines.
    ///
    /// It treats jobs as independent. Misses come in bursts, so that the true interval is wider.
    ///
    /// ```
    /// let jobs = schedlab_instruments::jobs::TaskJobs { nr_with_deadline: 100, misses: 5, ..Default::default() };
    /// let (low, share, high) = jobs.miss_share().unwrap();
    /// assert_eq!(share, 0.05);
    /// assert!((low - 0.0215).abs() < 1e-3 && (high - 0.1118).abs() < 1e-3);
    /// ```
    pub fn miss_share(&self) -> Option<(f64, f64, f64)> {
        const Z: f64 = 1.959_963_984_540_054; // 97.5 % of the normal distribution
        if self.nr_with_deadline == 0 {
            return None;
        }
        let n = self.nr_with_deadline as f64;
        let share = self.misses as f64 / n;
        let scale = 1.0 + Z * Z / n;
        let middle = (share + Z * Z / (2.0 * n)) / scale;
        let reach = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        Some(((middle - reach).max(0.0), share, (middle + reach).min(1.0)))
    }
}

/// What a log says about the jobs of a workload's tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jobs {
    /// The log's length.
    pub duration_ns: u64,
    /// Tasks that have jobs, in order.
    pub tasks: Vec<TaskJobs>,
}

impl Jobs {
    /// Misses of all tasks.
    pub fn misses(&self) -> u64 {
        self.tasks.iter().map(|task| task.misses).sum()
    }
    /// The latest job of all: its tardiness in ns, 0 = none was late.
    pub fn worst_tardiness_ns(&self) -> u64 {
        self.tasks.iter().map(|task| task.tardiness.max_ns()).max().unwrap_or(0)
    }
}

/// Reads the jobs of a log; row i of `plans` is `TaskId(i)`.
///
/// # Errors
/// A log that contradicts itself, or whose observer could not see everything.
pub fn jobs(log: &dyn Log, plans: &[Option<JobPlan>]) -> Result<Jobs, LogProblem> {
    let header = log.header();
    header.needs_everything("what became of each job")?;
    let slots = Slots::new(header);
    let tracks = plans.iter().take(header.tasks.len()).enumerate();
    let tracks = tracks.map(|(id, plan)| plan.as_ref().map(|plan| Track::new(TaskId(id as u32), plan)));
    let mut reader = Reader { tracks: tracks.collect(), early: BTreeMap::new(), room: JOBS_KEPT };
    replay(log, &slots, &mut reader)?;
    let duration_ns = header.duration.as_ns();
    let Reader { tracks, mut room, .. } = reader;
    let tasks = tracks.into_iter().flatten().map(|track| track.finish(duration_ns, &mut room));
    Ok(Jobs { duration_ns, tasks: tasks.collect() })
}

/// The jobs of a task, while the log is read.
struct Track<'a> {
    plan: &'a JobPlan,
    blocks: plan::Blocks<'a>,
    /// Since when it has its CPU; whether it has had any CPU time.
    on_ns: Option<u64>,
    has_worked: bool,
    /// Release of the job that is not over.
    release_ns: Option<u64>,
    number: u64,
    jobs: TaskJobs,
}

struct Reader<'a> {
    tracks: Vec<Option<Track<'a>>>,
    /// Wakeups by tasks that came before the sleeper slept: number -> when.
    early: BTreeMap<u64, u64>,
    room: usize,
}

impl Observer for Reader<'_> {
    fn record(&mut self, record: &Record, kind: Kind, row: Option<Row>) {
        let now_ns = record.time_ns;
        if kind == Kind::Note && record.arg == note::EARLY {
            self.early.insert(record.value, now_ns);
            return;
        }
        if kind == Kind::Switch
            && let Some(Some(track)) = self.tracks.get_mut(record.other as usize)
        {
            track.on_ns = Some(now_ns);
        }
        let Some(Some(track)) = row.and_then(|row| self.tracks.get_mut(row.index())) else { return };
        if kind == Kind::Switch {
            track.has_worked |= track.on_ns.take().is_some_and(|on_ns| on_ns < now_ns);
        }
        match kind {
            Kind::New | Kind::Wakeup => track.runnable(now_ns),
            Kind::Switch => match record.prev_state() {
                Some(PrevState::Sleeping) => track.block(now_ns, None, &mut self.room),
                Some(PrevState::Dead) => track.exit(now_ns, &mut self.room),
                _ => {}
            },
            Kind::Note if record.arg == note::AWAKE => {
                let woken_ns = self.early.remove(&record.value).unwrap_or(now_ns);
                track.block(now_ns, Some(woken_ns), &mut self.room);
            }
            _ => {}
        }
    }
}

impl<'a> Track<'a> {
    fn new(task: TaskId, plan: &'a JobPlan) -> Track<'a> {
        let jobs = TaskJobs { task, ..TaskJobs::default() };
        let (on_ns, has_worked) = (None, false);
        Track { plan, blocks: plan.blocks(), on_ns, has_worked, release_ns: None, number: 0, jobs }
    }

    /// It is woken, or new: the release of a job whose instant is not set.
    fn runnable(&mut self, now_ns: u64) {
        self.release_ns.get_or_insert(now_ns);
    }

    /// It blocks, or would (`woken_ns`: when the wakeup came for which it need not).
    fn block(&mut self, now_ns: u64, woken_ns: Option<u64>, room: &mut usize) {
        let (Some(release_ns), false) = (self.release_ns, self.jobs.lost_track) else { return };
        if self.plan.begins_with_work && !self.has_worked && woken_ns.is_none() {
            return; // not its own: several SCHED_DEADLINE tasks wait until all are there
        }
        match self.blocks.next() {
            None => self.jobs.lost_track = true,
            Some(Ends::Nothing) => {}
            Some(Ends::AtWakeup) => {
                self.end(release_ns, Some(now_ns), self.plan.deadline_ns, room);
                self.release_ns = woken_ns;
            }
            Some(Ends::Instant { after_ns, passed }) => {
                let deadline_ns = self.plan.deadline_ns.or(Some(after_ns));
                self.end(release_ns, Some(now_ns), deadline_ns, room);
                let mut next_ns = release_ns.saturating_add(after_ns);
                while passed == Passed::Skips && after_ns > 0 && next_ns.saturating_add(after_ns) <= now_ns {
                    self.give_up(next_ns, now_ns, deadline_ns, room);
                    next_ns += after_ns;
                }
                self.release_ns =
                    Some(if passed == Passed::Restarts { next_ns.max(now_ns) } else { next_ns });
            }
        }
    }

    fn exit(&mut self, now_ns: u64, room: &mut usize) {
        if let Some(release_ns) = self.release_ns.take()
            && self.plan.ends_in_job
            && !self.jobs.lost_track
        {
            self.end(release_ns, Some(now_ns), self.plan.last_deadline_ns(), room);
        }
    }

    /// A job that was never begun, when the one before it ended at `now_ns`.
    fn give_up(&mut self, release_ns: u64, now_ns: u64, deadline_ns: Option<u64>, room: &mut usize) {
        let job = Job { number: self.number, release_ns, end_ns: None, deadline_ns };
        self.number += 1;
        // missed, also at the very instant of its deadline
        let missed_ns = release_ns.saturating_add(deadline_ns.unwrap_or(0) + 1);
        self.count(job, now_ns.max(missed_ns), room);
    }

    fn end(&mut self, release_ns: u64, end_ns: Option<u64>, deadline_ns: Option<u64>, room: &mut usize) {
        let job = Job { number: self.number, release_ns, end_ns, deadline_ns };
        self.number += 1;
        self.count(job, end_ns.unwrap_or(0), room);
    }

    fn count(&mut self, job: Job, log_end_ns: u64, room: &mut usize) {
        let jobs = &mut self.jobs;
        jobs.nr_jobs += 1;
        let response_ns = job.response_ns(log_end_ns);
        if job.end_ns.is_some() {
            jobs.response.add(response_ns);
        }
        if job.deadline_ns.is_some() {
            jobs.nr_with_deadline += 1;
            let tardiness_ns = job.tardiness_ns(log_end_ns);
            if tardiness_ns > 0 {
                jobs.misses += 1;
                jobs.unfinished += u64::from(job.end_ns.is_none());
                jobs.tardiness.add(tardiness_ns);
            }
        }
        if jobs.worst.is_none_or(|worst| worst.response_ns(log_end_ns) < response_ns) {
            jobs.worst = Some(job);
        }
        if *room > 0 {
            *room -= 1;
            jobs.kept.push(job);
        }
    }

    /// The log is over: jobs whose deadline has passed are missed, those behind an unfinished one too.
    fn finish(mut self, log_end_ns: u64, room: &mut usize) -> TaskJobs {
        let Some(mut release_ns) = self.release_ns.filter(|_| !self.jobs.lost_track) else {
            return self.jobs;
        };
        loop {
            let ends = self.blocks.next();
            let deadline_ns = match ends {
                None if self.plan.ends_in_job => self.plan.last_deadline_ns(),
                None => None,
                Some(Ends::Nothing) => continue,
                Some(Ends::AtWakeup) => self.plan.deadline_ns,
                Some(Ends::Instant { after_ns, .. }) => self.plan.deadline_ns.or(Some(after_ns)),
            };
            let Some(deadline_ns) = deadline_ns else { break };
            if release_ns.saturating_add(deadline_ns) >= log_end_ns {
                break;
            }
            let job = Job { number: self.number, release_ns, end_ns: None, deadline_ns: Some(deadline_ns) };
            self.number += 1;
            self.count(job, log_end_ns, room);
            match ends {
                Some(Ends::Instant { after_ns, passed: Passed::Stays | Passed::Skips }) => {
                    release_ns += after_ns
                }
                _ => break,
            }
        }
        self.jobs
    }
}

/// The jobs of a run, with what theory says beside what was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobReport {
    /// What was measured.
    pub jobs: Jobs,
    /// What theory says on one CPU; row i belongs to `jobs.tasks[i]`.
    pub bounds: Vec<Option<Bound>>,
}

/// Reads the jobs that `workload` asks for from the log of its run. `None`: no task of it has jobs.
///
/// # Errors
/// A log that contradicts itself.
pub fn job_report(log: &dyn Log, workload: &Workload) -> Result<Option<JobReport>, LogProblem> {
    let plans = plans(workload);
    if plans.iter().all(Option::is_none) {
        return Ok(None);
    }
    let jobs = jobs(log, &plans)?;
    let header = log.header();
    let params: Vec<SchedParams> = header.tasks.iter().map(|task| task.params).collect();
    let of_all = if header.nr_cpus == 1 && params.len() == plans.len() {
        bounds(workload, &plans, &params)
    } else {
        vec![None; plans.len()]
    };
    let bounds = jobs.tasks.iter().map(|task| of_all[task.task.index()]).collect();
    Ok(Some(JobReport { jobs, bounds }))
}
