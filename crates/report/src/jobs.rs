//! How are response times and deadlines shown? A table for the terminal, fields of the JSON, data for the page.
//!
//! ```text
//! jobs             jobs  response p50      p99      max  deadline     missed (95 % of the truth in)     latest   bound
//! camera            500        6.1 ms   9.8 ms  11.0 ms     10 ms       12   2.4 % (1.4 to 4.1 %)       1.0 ms   10 ms
//! ```

use crate::json::distribution;
use crate::report::RunReport;
use crate::terminal::{Style, clip, line};
use crate::units::{count, time};
use schedlab_instruments::jobs::{Bound, Job, JobReport, TaskJobs};
use schedlab_log::LogHeader;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Tasks in the terminal's table: those with the most misses, then the longest responses.
const SHOWN: usize = 12;
/// Jobs of a task in the page's picture.
const DRAWN: usize = 4000;

/// Rows of a report with their bounds, the worst first: by share of misses, then by response time.
fn ordered(report: &JobReport) -> Vec<(&TaskJobs, Option<Bound>)> {
    let mut rows: Vec<_> = report.jobs.tasks.iter().zip(report.bounds.iter().copied()).collect();
    rows.sort_by_key(|(jobs, _)| (Reverse(jobs.misses), Reverse(jobs.response.max_ns()), jobs.task));
    rows
}

/// The deadline of a task's jobs, if the kept ones have one in common.
fn one_deadline_ns(jobs: &TaskJobs) -> Option<u64> {
    let mut deadlines = jobs.kept.iter().filter_map(|job| job.deadline_ns);
    let first_ns = deadlines.next()?;
    deadlines.all(|other_ns| other_ns == first_ns).then_some(first_ns)
}

fn misses_text(jobs: &TaskJobs) -> String {
    match jobs.miss_share() {
        None => "no deadline".to_owned(),
        Some((low, share, high)) => format!(
            "{:>7} {:>6.1} % ({:.1} to {:.1} %)",
            count(jobs.misses),
            100.0 * share,
            100.0 * low,
            100.0 * high
        ),
    }
}

/// The table of a run's jobs, if it has any.
pub(crate) fn terminal(text: &mut String, run: &RunReport, style: Style) {
    let Some(report) = &run.facts.jobs else { return };
    let rows = ordered(report);
    let has_bounds = report.bounds.iter().any(Option::is_some);
    let head = format!(
        "\n{:<15} {:>7} {:>9} {:>9} {:>9} {:>9}  {:<29} {:>8}{}",
        "jobs of",
        "jobs",
        "resp p50",
        "p99",
        "max",
        "deadline",
        " missed, 95 % interval",
        "latest",
        if has_bounds { "    bound" } else { "" }
    );
    line(text, &style.dim(&head));
    for (jobs, bound) in rows.iter().take(SHOWN) {
        let task = &run.header.tasks[jobs.task.index()];
        let name = format!("{} ({})", clip(&task.name, 8), task.pid);
        let times =
            [jobs.response.percentile_ns(500), jobs.response.percentile_ns(990), jobs.response.max_ns()];
        let times = times.map(|ns| if jobs.response.count() == 0 { "-".to_owned() } else { time(ns) });
        let deadline = match (jobs.nr_with_deadline, one_deadline_ns(jobs)) {
            (0, _) => "none".to_owned(),
            (_, Some(ns)) => time(ns),
            (_, None) => "several".to_owned(),
        };
        let missed = misses_text(jobs);
        let missed =
            if jobs.misses > 0 { style.warn(&format!("{missed:<29}")) } else { format!("{missed:<29}") };
        let latest = if jobs.misses > 0 { time(jobs.tardiness.max_ns()) } else { "-".to_owned() };
        let bound = bound.map_or(String::new(), |bound| format!(" {:>8}", time(bound.response_ns)));
        line(
            text,
            &format!(
                "{:<15} {:>7} {:>9} {:>9} {:>9} {deadline:>9}  {missed} {latest:>8}{bound}",
                clip(&name, 15),
                count(jobs.nr_jobs),
                times[0],
                times[1],
                times[2],
            ),
        );
    }
    let hidden = rows.len().saturating_sub(SHOWN);
    if hidden > 0 {
        line(text, &style.dim(&format!("and {hidden} more tasks with jobs (--json)")));
    }
    remarks(text, report, style);
}

fn remarks(text: &mut String, report: &JobReport, style: Style) {
    let tasks = &report.jobs.tasks;
    let unfinished: u64 = tasks.iter().map(|jobs| jobs.unfinished).sum();
    if unfinished > 0 {
        let content = format!("{} of the missed jobs had not ended when the run did", count(unfinished));
        line(text, &style.dim(&content));
    }
    let lost = tasks.iter().filter(|jobs| jobs.lost_track).count();
    if lost > 0 {
        let content =
            format!("{lost} tasks blocked more often than the workload says; their later jobs are unknown");
        line(text, &style.warn(&content));
    }
    if let Some(bound) = report.bounds.iter().flatten().next() {
        let content =
            format!("bound: longest response by theory ({}), without overhead and throttling", bound.theory);
        line(text, &style.dim(&content));
    }
}

/// The field `jobs` of a run's JSON: an object per task that has jobs.
pub(crate) struct JobsJson<'a> {
    pub header: &'a LogHeader,
    pub report: &'a JobReport,
}

impl Serialize for JobsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.report.jobs.tasks.len()))?;
        for (jobs, bound) in self.report.jobs.tasks.iter().zip(&self.report.bounds) {
            list.serialize_element(&TaskJson { header: self.header, jobs, bound: *bound })?;
        }
        list.end()
    }
}

struct TaskJson<'a> {
    header: &'a LogHeader,
    jobs: &'a TaskJobs,
    bound: Option<Bound>,
}

impl Serialize for TaskJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TaskJson { header, jobs, bound } = self;
        let task = &header.tasks[jobs.task.index()];
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("task", &jobs.task.0)?;
        map.serialize_entry("pid", &task.pid)?;
        map.serialize_entry("name", &task.name)?;
        map.serialize_entry("jobs", &jobs.nr_jobs)?;
        map.serialize_entry("with_deadline", &jobs.nr_with_deadline)?;
        map.serialize_entry("misses", &jobs.misses)?;
        map.serialize_entry("unfinished", &jobs.unfinished)?;
        let share = jobs.miss_share();
        map.serialize_entry("miss_share", &share.map(|(_, share, _)| share))?;
        map.serialize_entry("miss_share_low", &share.map(|(low, _, _)| low))?;
        map.serialize_entry("miss_share_high", &share.map(|(_, _, high)| high))?;
        distribution(&mut map, "response", &jobs.response)?;
        distribution(&mut map, "tardiness", &jobs.tardiness)?;
        map.serialize_entry("bound_ns", &bound.map(|bound| bound.response_ns))?;
        map.serialize_entry("bound_theory", &bound.map(|bound| bound.theory))?;
        map.serialize_entry("lost_track", &jobs.lost_track)?;
        map.serialize_entry("worst", &jobs.worst.map(|job| job_json(&job)))?;
        let list: Vec<Value> = jobs.kept.iter().map(job_json).collect();
        map.serialize_entry("list", &list)?;
        map.end()
    }
}

fn job_json(job: &Job) -> Value {
    json!({"job": job.number, "release_ns": job.release_ns, "end_ns": job.end_ns, "deadline_ns": job.deadline_ns})
}

/// Data of the page: per task its row, numbers as the table shows them, and jobs as release, response,
/// deadline (-1: none), whether it ended. Of a task with very many jobs an even part, and all that are late.
pub(crate) fn page(report: &JobReport) -> Value {
    let end_ns = report.jobs.duration_ns;
    let task = |(jobs, bound): &(&TaskJobs, Option<Bound>)| {
        let step = jobs.kept.len().div_ceil(DRAWN).max(1);
        let drawn = jobs.kept.iter().enumerate();
        let drawn =
            drawn.filter(|(at, job)| at % step == 0 || job.tardiness_ns(end_ns) > 0).map(|(_, job)| {
                let deadline_ns = job.deadline_ns.map_or(-1, |ns| ns as i64);
                json!([job.release_ns, job.response_ns(end_ns), deadline_ns, u8::from(job.end_ns.is_some())])
            });
        json!({
            "row": jobs.task.0,
            "jobs": jobs.nr_jobs,
            "misses": jobs.misses,
            "unfinished": jobs.unfinished,
            "share": jobs.miss_share().map(|(low, share, high)| [low, share, high]),
            "response": [jobs.response.percentile_ns(500), jobs.response.percentile_ns(990), jobs.response.max_ns()],
            "tardiness": jobs.tardiness.max_ns(),
            "deadline": one_deadline_ns(jobs),
            "bound": bound.map(|bound| bound.response_ns),
            "theory": bound.map(|bound| bound.theory),
            "drawn": drawn.collect::<Vec<_>>(),
        })
    };
    Value::Array(ordered(report).iter().map(task).collect())
}

/// A deadline for a trace viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeadlineMark {
    /// When the deadline is, ns from the start.
    pub at_ns: u64,
    /// Row of the task among the workload's.
    pub row: u32,
    /// The job's number.
    pub job: u64,
    /// How late the job was; 0 = in time.
    pub tardiness_ns: u64,
}

impl DeadlineMark {
    /// What stands at the mark.
    pub fn text(&self) -> String {
        match self.tardiness_ns {
            0 => format!("deadline of job {}", self.job),
            ns => format!("deadline of job {} missed by {}", self.job, time(ns)),
        }
    }
}

/// The deadlines of a run's kept jobs within the run, in order of time.
pub fn deadline_marks(report: &JobReport) -> Vec<DeadlineMark> {
    let end_ns = report.jobs.duration_ns;
    let of_task = |jobs: &TaskJobs| {
        let row = jobs.task.0;
        let mark = move |job: &Job| {
            let at_ns = job.release_ns.checked_add(job.deadline_ns?)?;
            let tardiness_ns = job.tardiness_ns(end_ns);
            (at_ns <= end_ns).then_some(DeadlineMark { at_ns, row, job: job.number, tardiness_ns })
        };
        jobs.kept.iter().filter_map(mark).collect::<Vec<_>>()
    };
    let mut marks: Vec<DeadlineMark> = report.jobs.tasks.iter().flat_map(of_task).collect();
    marks.sort_unstable();
    marks
}
