//! A run with everything that pictures and tables need.

use crate::groups::Groups;
use crate::timeline::{Detail, Timeline};
use crate::worst::worst_stretches;
use crate::{RunFacts, RunView};
use schedlab_instruments::{
    KnownTasks, LogProblem, Summary, WaitCause, for_each_picture, meanwhile, summarize_seen,
};
use schedlab_log::{Log, LogHeader};

/// A run, ready to be shown. Its size is bounded by tasks and [`Detail`], not by the log.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// Who ran on what.
    pub header: LogHeader,
    /// The tables.
    pub summary: Summary,
    /// Sums of the tasks that nobody lost sight of, where the machine's are unknown.
    pub known_tasks: Option<KnownTasks>,
    /// What the log does not hold.
    pub facts: RunFacts,
    /// Tasks by name.
    pub groups: Groups,
    /// Who was where when.
    pub timeline: Timeline,
}

impl RunReport {
    /// Reads the log twice: for the summary, and for the timeline. What the log's observer could not know is
    /// shown as unknown.
    pub fn new(log: &dyn Log, facts: RunFacts, detail: Detail) -> Result<RunReport, LogProblem> {
        RunReport::with_summary(log, summarize_seen(log)?, facts, detail)
    }

    /// As [`RunReport::new`], with a summary of this log that is there already. Reads the log once more for
    /// the longest times in which a CPU idled while work waited, unless the facts hold them.
    pub fn with_summary(
        log: &dyn Log,
        summary: Summary,
        mut facts: RunFacts,
        detail: Detail,
    ) -> Result<RunReport, LogProblem> {
        if facts.stretches.is_empty() {
            let stretches = worst_stretches(&summary);
            for_each_picture(log, &stretches, |picture| facts.stretches.push(picture.clone()))?;
        }
        if facts.meanwhile.is_empty() {
            facts.meanwhile = meanwhile(log, &summary.system.longest_waits)?;
        }
        let groups = Groups::new(log.header(), &summary);
        let timeline = Timeline::new(log, &summary, &groups, detail)?;
        let known_tasks = summary.known_tasks();
        Ok(RunReport { header: log.header().clone(), summary, known_tasks, facts, groups, timeline })
    }

    /// What [`json`](crate::json()) takes.
    pub fn view(&self) -> RunView<'_> {
        RunView { header: &self.header, summary: &self.summary, facts: &self.facts }
    }
}

/// Why a task waits, in words.
pub(crate) fn cause_text(cause: WaitCause) -> &'static str {
    match cause {
        WaitCause::New => "new",
        WaitCause::Wakeup => "woken",
        WaitCause::Preempted => "preempted",
    }
}
