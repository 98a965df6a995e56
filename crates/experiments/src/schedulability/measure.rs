//! One set under one scheduler: when did each job end?
//!
//! CPU time counts jobs, not wakeups: job k of a task is complete when the task has had (k + 1) C. A
//! task that is late begins its next job without sleeping, which no wakeup shows.

use super::cases::{PeriodicTask, TaskSet};
use schedlab_lab::{Subject, SubjectError};
use schedlab_policies::PolicyError;
use schedlab_policies::lab::{Lab, Step, TaskSpec};
use schedlab_units::{Span, TaskId};

/// How a scheduler gets what the tasks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Runtime, deadline and period (SCHED_DEADLINE's three numbers).
    Deadlines,
    /// The same, each runtime longer by [`MARGIN`]: a server whose budget ends with the job itself would not
    /// see the job's end.
    Reservations,
    /// SCHED_FIFO, higher for shorter periods.
    Priorities,
    /// Nothing: SCHED_NORMAL, nice 0.
    Nothing,
}

/// What a reservation has more than its job needs.
pub const MARGIN: Span = Span::from_us(1);

/// A scheduler under study.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// As it was given: `NAME` or `NAME:K=V`.
    pub label: String,
    sched: String,
    params: Vec<(String, String)>,
    /// How it gets what the tasks need.
    pub telling: Telling,
}

/// What became of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The scheduler said that it could not take all tasks as they asked: refused by admission control, or no
    /// CPU has room.
    pub refused: bool,
    /// Per task and job: from release to end; `None`: not ended when all was over, twice the horizon.
    pub responses: Vec<Vec<Option<Span>>>,
}

impl Arm {
    /// `NAME` or `NAME:K=V`.
    ///
    /// # Errors
    /// No such scheduler, or a parameter that it does not have.
    pub fn parse(text: &str) -> Result<Arm, SubjectError> {
        let subject = Subject::native(text)?;
        let sched = subject.scheduler.name().to_string();
        let telling = match sched.as_str() {
            "rm" | "gedf" | "pedf" => Telling::Deadlines,
            "cbs" => Telling::Reservations,
            "posix" => Telling::Priorities,
            _ => Telling::Nothing,
        };
        Ok(Arm { label: text.to_string(), sched, params: subject.params, telling })
    }

    /// The schedulers that the study is about.
    pub fn usual() -> Vec<Arm> {
        let texts = ["rm", "rm:fit=first", "posix", "gedf", "pedf", "cbs"];
        texts.into_iter().map(|text| Arm::parse(text).expect("registered")).collect()
    }

    /// Runs a set.
    ///
    /// # Errors
    /// None with an arm that was parsed.
    ///
    /// # Panics
    /// If the scheduler breaks its contract.
    pub fn run(&self, set: &TaskSet, nr_cpus: u32) -> Result<Measure, PolicyError> {
        let specs: Vec<TaskSpec> = set.tasks.iter().map(|&task| self.spec(set, task)).collect();
        let lab = Lab::new(&self.sched, nr_cpus);
        let lab = self.params.iter().fold(lab, |lab, (name, value)| lab.param(name, value));
        let measured = lab.run(set.horizon + set.horizon, &specs)?;
        let runs = measured.runs();
        let responses = set.tasks.iter().enumerate().map(|(index, &task)| {
            let stays = runs.iter().filter(|run| run.3 == TaskId(index as u32));
            let nr_jobs = set.horizon.as_ns() / task.period.as_ns();
            responses(stays.map(|run| (run.1, run.2)), task, nr_jobs as usize)
        });
        Ok(Measure { refused: !measured.warnings.is_empty(), responses: responses.collect() })
    }

    fn spec(&self, set: &TaskSet, task: PeriodicTask) -> TaskSpec {
        let PeriodicTask { run, period } = task;
        let job = [Step::RunFor(run)];
        let mut spec = match self.telling {
            Telling::Deadlines => TaskSpec::deadline_of(run, period, period, &job),
            Telling::Reservations => TaskSpec::deadline_of((run + MARGIN).min(period), period, period, &job),
            Telling::Nothing => TaskSpec::nice(0, &job),
            Telling::Priorities => {
                let mut shorter: Vec<Span> =
                    set.tasks.iter().map(|task| task.period).filter(|&other| other < period).collect();
                shorter.sort_unstable();
                shorter.dedup();
                TaskSpec::fifo(98u8.saturating_sub(shorter.len().min(97) as u8), &job)
            }
        };
        (spec.period, spec.times) = (Some(period), set.horizon.as_ns() / period.as_ns());
        spec
    }
}

/// From release to end, of each of the first `nr_jobs` jobs of a task that runs from .. to (ns), in order.
fn responses(
    stays: impl Iterator<Item = (u64, u64)>,
    task: PeriodicTask,
    nr_jobs: usize,
) -> Vec<Option<Span>> {
    let mut out = Vec::with_capacity(nr_jobs);
    let (run_ns, mut had_ns) = (task.run.as_ns(), 0);
    for (from_ns, to_ns) in stays {
        had_ns += to_ns - from_ns;
        while out.len() < nr_jobs && had_ns >= (out.len() as u64 + 1) * run_ns {
            let beyond_ns = had_ns - (out.len() as u64 + 1) * run_ns;
            let released_ns = out.len() as u64 * task.period.as_ns();
            out.push(Some(Span::from_ns(to_ns - beyond_ns - released_ns)));
        }
    }
    out.resize(nr_jobs, None);
    out
}

impl Measure {
    /// How late each job of a task is; one that has not ended counts as late up to the end of the run.
    pub fn tardiness<'a>(&'a self, set: &'a TaskSet, task: usize) -> impl Iterator<Item = Span> + 'a {
        let period = set.tasks[task].period;
        self.responses[task].iter().enumerate().map(move |(job, response)| {
            let released = Span::from_ns(job as u64 * period.as_ns());
            let until_end = (set.horizon + set.horizon).saturating_sub(released);
            response.unwrap_or(until_end).saturating_sub(period)
        })
    }

    /// Jobs that ended after their deadline.
    pub fn nr_late(&self, set: &TaskSet) -> usize {
        let late = |task| self.tardiness(set, task).filter(|&late| late > Span::ZERO).count();
        (0..set.tasks.len()).map(late).sum()
    }

    /// The latest of all jobs.
    pub fn worst_tardiness(&self, set: &TaskSet) -> Span {
        let latest = (0..set.tasks.len()).flat_map(|task| self.tardiness(set, task)).max();
        latest.unwrap_or(Span::ZERO)
    }

    /// Whether all tasks were taken and all jobs ended in time.
    pub fn is_schedulable(&self, set: &TaskSet) -> bool {
        !self.refused && self.nr_late(set) == 0
    }

    /// The longest response of a task; `None` if a job did not end.
    pub fn worst_response(&self, task: usize) -> Option<Span> {
        self.responses[task].iter().copied().collect::<Option<Vec<Span>>>()?.into_iter().max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two jobs of 2 ms each 5 ms, run at 0..1, 3..4 (the first ends at 4), 5..6 and 9..10 (the second ends
    /// at 10, 5 ms after its release).
    #[test]
    fn jobs_are_known_by_cpu_time() {
        let task = PeriodicTask { run: Span::from_ns(2), period: Span::from_ns(5) };
        let ends = |stays: &[(u64, u64)]| responses(stays.iter().copied(), task, 2);
        let ns = |value| Some(Span::from_ns(value));
        assert_eq!(ends(&[(0, 1), (3, 4), (5, 6), (9, 10)]), [ns(4), ns(5)]);
        // both in one stay: the second begins when the first ends
        assert_eq!(ends(&[(6, 10)]), [ns(8), ns(5)]);
        assert_eq!(ends(&[(6, 9)]), [ns(8), None]);
    }

    /// The example of `edf`: A (2, 5), B (4, 7); B's jobs, released each 7 ms, end at 6, 12, 20, 26, 32 there.
    #[test]
    fn responses_of_a_drawn_schedule() {
        let task = |run, period| PeriodicTask { run: Span::from_ms(run), period: Span::from_ms(period) };
        let set = TaskSet { tasks: vec![task(2, 5), task(4, 7)], horizon: Span::from_ms(35) };
        let measure = Arm::parse("gedf").unwrap().run(&set, 1).unwrap();
        let ms: Vec<f64> = measure.responses[1].iter().map(|end| end.unwrap().as_ms_f64()).collect();
        assert_eq!(ms, [6.0, 5.0, 6.0, 5.0, 4.0]);
        assert!(measure.is_schedulable(&set));
        let rm = Arm::parse("rm").unwrap().run(&set, 1).unwrap();
        assert!(!rm.is_schedulable(&set) && rm.worst_tardiness(&set) > Span::ZERO);
    }
}
