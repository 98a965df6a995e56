//! What is one run of an experiment, and what is read off it?

use crate::facts::Facts;
use crate::plan::Act;
use schedlab_lab::{Ended, Fails, Finished, RunFailure, Standard, Subject};
use schedlab_machine::Perturb;
use schedlab_machine::kernel::Action;
use schedlab_runner::RunRequest;
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Span, TaskId};
use schedlab_workload::Workload;

/// One run: what there is, and what is done to it.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// The tasks.
    pub workload: Workload,
    /// What the experimenter does.
    pub actions: Vec<Action>,
    /// The steps, in order of time.
    pub marks: Vec<Mark>,
    /// How long it lasts.
    pub duration: Span,
    /// CPU time is counted from here to the end.
    pub window: Span,
    /// CPU time is counted within each of these, too: from, to.
    pub windows: Vec<(Span, Span)>,
    /// Tasks whose wakeups and births are looked at.
    pub watched: Vec<TaskId>,
}

/// A step, as it was taken.
#[derive(Clone, Debug)]
pub struct Mark {
    /// When.
    pub at: Span,
    /// How long it took: 0 in the simulated machine.
    pub took: Span,
    /// What.
    pub act: Act,
    /// Where each task of the workload is bound to, or was last.
    pub homes: Vec<CpuId>,
    /// The tasks that it was about.
    pub tasks: Vec<TaskId>,
}

impl Scenario {
    /// Runs it and reads off what happened. `seed` varies the phase of the kernel's periodic work, and what a
    /// scheduler draws.
    ///
    /// # Errors
    /// The run did not end as it should.
    pub fn run(&self, subject: &Subject, topology: &Topology, seed: u64) -> Result<Facts, RunFailure> {
        let failed = |ended: Ended| RunFailure { kind: ended.kind(), reason: ended.short() };
        let finished = self.finished(subject, topology, seed).map_err(failed)?;
        Facts::read(&finished.log, self).map_err(|problem| failed(problem.into()))
    }

    /// Runs it; what is wanted is the log.
    ///
    /// # Errors
    /// The run did not end as it should.
    pub fn finished(&self, subject: &Subject, topology: &Topology, seed: u64) -> Result<Finished, Ended> {
        let perturb = Perturb { slack: Span::ZERO, start: Span::ZERO, ..Perturb::new(seed) };
        let subject = subject.clone().seeded(seed);
        let request = RunRequest {
            duration: Some(self.duration),
            perturb: Some(perturb),
            actions: &self.actions,
            ..subject.on(&self.workload, topology.clone())
        };
        schedlab_lab::run(&request, Standard::NoWarning)
    }
}
