//! How is a scenario run on a kernel? As any run is: a workload, a machine, a child process.

mod schedule;

use schedlab_lab::{Ended, Standard};
use schedlab_machine::kernel::{Action, FileRequest, Refusal};
use schedlab_runner::{ChildReport, LinuxObject, RunRequest, Scheduler};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::Workload;

use std::time::Duration;

use crate::{Feature, FeatureCell};
use schedule::Schedule;

/// Where scenarios run: one kernel object.
pub struct ScenarioBench {
    /// The kernel.
    pub kernel: LinuxObject,
    /// Its version, as `(6, 12)`.
    pub version: (u32, u32),
}

/// A scenario that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// This kernel has no such thing.
    #[error("{0}")]
    Absent(String),
    /// Something went wrong.
    #[error("{0}")]
    Failed(String),
}

impl Trouble {
    pub(crate) fn failed(error: impl std::fmt::Display) -> Trouble {
        Trouble::Failed(error.to_string())
    }
}

/// What to run.
pub(crate) struct Case<'a> {
    /// The lines of a workload, without its header.
    pub workload: String,
    pub machine: &'a str,
    pub duration: Span,
    pub params: &'a [(&'a str, &'a str)],
    pub actions: Vec<Action>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(machine: &'a str, seconds: u64, workload: &str) -> Case<'a> {
        let workload = workload.to_owned();
        Case { workload, machine, duration: Span::from_s(seconds), params: &[], actions: Vec::new() }
    }

    pub(crate) fn params(mut self, params: &'a [(&'a str, &'a str)]) -> Case<'a> {
        self.params = params;
        self
    }

    /// At this time set a file, a tunable or a CPU; a refusal is noted.
    pub(crate) fn set(mut self, at_ms: u64, name: &str, value: &str) -> Case<'a> {
        let request = FileRequest::set(name, value, Refusal::Noted).expect("a scenario's CPUs are on or off");
        let files = vec![request];
        self.actions.push(Action { at: Span::from_ms(at_ms), files });
        self
    }

    /// At this time read a file.
    pub(crate) fn read(mut self, at_ms: u64, name: &str) -> Case<'a> {
        let files = vec![FileRequest::Read { name: name.to_owned() }];
        self.actions.push(Action { at: Span::from_ms(at_ms), files });
        self
    }
}

/// What came of it.
pub(crate) struct Observed {
    pub schedule: Schedule,
    pub report: ChildReport,
}

impl Observed {
    /// CPU time of a task, in s. Tasks are numbered from 0 in the order of the workload.
    pub(crate) fn cpu_s(&self, task: u32) -> f64 {
        self.schedule.cpu_ns(task, 0, u64::MAX) as f64 * 1e-9
    }

    /// CPU times in s.
    pub(crate) fn all_cpu_s(&self, tasks: std::ops::Range<u32>) -> Vec<f64> {
        tasks.map(|t| self.cpu_s(t)).collect()
    }

    /// Each task's part of their sum, in per cent.
    pub(crate) fn shares(&self, tasks: std::ops::Range<u32>) -> Vec<f64> {
        let each = self.all_cpu_s(tasks);
        let sum: f64 = each.iter().sum();
        each.iter().map(|c| 100.0 * c / sum).collect()
    }

    /// The text of the n-th reading; a refusal as `error 22`.
    pub(crate) fn reading(&self, n: usize) -> Result<String, String> {
        match self.report.readings.get(n) {
            Some((_, _, Ok(text))) => Ok(text.trim_end().to_owned()),
            Some((_, _, Err(errno))) => Err(format!("error {errno}")),
            None => Err("not reached".to_owned()),
        }
    }

    /// Readings that must be there; a file that is not means that the kernel has no such thing.
    pub(crate) fn text(&self, n: usize) -> Result<String, Trouble> {
        self.reading(n).map_err(|why| {
            let name = self.report.readings.get(n).map_or("", |r| &*r.1);
            Trouble::Absent(format!("{name}: {why}"))
        })
    }
}

impl ScenarioBench {
    /// Runs the scenario of a feature, if this version has it.
    pub fn run(&self, feature: &Feature) -> FeatureCell {
        if self.version < feature.since {
            return FeatureCell::Absent { why: format!("since {}.{}", feature.since.0, feature.since.1) };
        }
        match (feature.run)(self) {
            Ok(finding) => FeatureCell::Ran(finding),
            Err(Trouble::Absent(why)) => FeatureCell::Absent { why },
            Err(Trouble::Failed(why)) => FeatureCell::Failed { why },
        }
    }

    pub(crate) fn go(&self, case: Case<'_>) -> Result<Observed, Trouble> {
        let text = format!("schedlab-workload 1\n{}\n", case.workload);
        let workload: Workload =
            schedlab_workload::text::parse_text("scenario", text.as_bytes()).map_err(Trouble::failed)?;
        let topology: Topology = case.machine.parse().map_err(Trouble::failed)?;
        let scheduler = Scheduler::Linux(self.kernel.clone());
        let params = case.params.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let request = RunRequest {
            duration: Some(case.duration),
            params,
            actions: &case.actions,
            stall_limit: Duration::from_secs(20),
            ..RunRequest::new(&workload, &scheduler, topology)
        };
        let finished = schedlab_lab::run(&request, Standard::NoWarning).map_err(|ended| match ended {
            Ended::Misbehaved { report, .. } => {
                let first = report.reason.lines().take(3).collect::<Vec<_>>().join(" / ");
                Trouble::Failed(format!("{}: {first}", report.kind))
            }
            other => Trouble::Failed(other.short()),
        })?;
        let schedule = Schedule::new(&finished.log).map_err(Trouble::failed)?;
        Ok(Observed { schedule, report: finished.report })
    }
}
