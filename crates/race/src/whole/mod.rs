//! A whole scheduler under every order of events: kernel/sched in its kernel, in simulated time.
//!
//! ```text
//! linux-6.12, flavour race        each access of kernel/sched is a point: linux/arch-warp/kernel/race.c
//! scenario rt-push                CPUs, tasks, what the experimenter writes: scenario.rs
//! a schedule                      which CPU stands at which of its points, for how long: order.rs
//! many schedules                  one boot, a fork for each: serve.rs; drawn where memory is shared: draw.rs
//! whose access comes next         random priorities of accesses: pos.rs
//! late stores                     others do not see them yet, under a weak model: late.rs
//! ```
//!
//! What must hold is asked at each stop of the queues whose locks are free, of all when every CPU is at rest, and at
//! the end: linux/arch-warp/kernel/race.c. The kernel's own warnings and crashes are findings, as is an end that the
//! scenario does not have. With `--races` accesses that nothing orders are findings, too (hb.rs).

mod again;
pub mod build;
mod conflict;
mod draw;
mod given;
mod groups;
mod hb;
pub mod known;
mod late;
mod order;
mod page;
mod pos;
mod replay;
mod scenario;
mod serve;

use crate::RaceError;
use crate::compile::Compiled;
use crate::explore::{Finding, Plan, merged};
use crate::memory::MemoryModel;
use crate::scenario::Scenario;
use crate::strategy::Strategy;
use crate::worker::{Done, receive, send};
use known::KnownRace;
use schedlab_linux::build::{self as kernel_build, BuildOptions};
use serve::{WHOLE, WholeJob, WholeTask};

pub(crate) use crate::explore::Explored;
pub(crate) use scenario::is_of_series;

/// What a target's name begins with that is a whole scheduler.
pub const PREFIX: &str = "linux-";

/// A scenario of a whole scheduler.
///
/// # Errors
/// The line, what it holds and what was expected.
pub fn scenario(name: &str, text: &str) -> Result<Scenario, RaceError> {
    let whole = scenario::WholeScenario::parse(name, text)?;
    schedlab_workload::parse_text(name, whole.workload.as_bytes())
        .map_err(|e| RaceError::Refused(e.to_string()))?;
    Ok(Scenario {
        name: name.to_owned(),
        text: text.to_owned(),
        first: Vec::new(),
        cpus: vec![Vec::new(); whole.cpus as usize],
        beside: None,
    })
}

/// What this kernel lacks for a scenario; `None`: nothing.
pub fn lacks(scenario: &Scenario, kernel: &Compiled) -> Option<String> {
    let whole = scenario::WholeScenario::parse(&scenario.name, &scenario.text).ok()?;
    whole.lacks(&kernel.name, &kernel.kernel.1)
}

/// The flavours of this kernel, without that of the points.
pub fn flavours(kernel: &Compiled) -> Vec<String> {
    scenario::flavours_of(&kernel.name).map(str::to_owned).collect()
}

/// The sched_ext scheduler that a scenario asks for, as behind `scx:`.
pub fn scheduler(scenario: &Scenario) -> Option<String> {
    let whole = scenario::WholeScenario::parse(&scenario.name, &scenario.text).ok()?;
    Some(whole.sched).filter(|what| !what.is_empty())
}

fn ask(job: &WholeJob) -> Result<Done, RaceError> {
    let lost = |why: String| RaceError::Lost(format!("the process that runs the kernel was lost: {why}"));
    let mut started = WHOLE.start().map_err(|e| lost(e.to_string()))?;
    send(&started.socket, job).map_err(|e| lost(e.to_string()))?;
    let answer = receive::<Done>(&started.socket);
    if answer.is_err() {
        let _ = started.child.kill();
    }
    let status = started.child.wait().map_err(|e| lost(e.to_string()))?;
    let done = answer.map_err(|_| lost(format!("it {}", schedlab_process::ended(status))))?;
    match done.refused {
        Some(why) => Err(RaceError::Refused(why)),
        None => Ok(done),
    }
}

impl Plan {
    fn whole_job(&self, scenario: &Scenario, task: WholeTask) -> WholeJob {
        WholeJob {
            object: self.compiled.object.clone(),
            name: scenario.name.clone(),
            scenario: scenario.text.clone(),
            model: self.model,
            strategy: self.strategy,
            seed: self.seed,
            races: self.races,
            scx: scenario.beside.clone(),
            task,
        }
    }

    /// A scenario that this kernel cannot serve ([`lacks`]) is refused.
    pub(crate) fn explore_whole(&self, scenario: &Scenario) -> Result<Explored, RaceError> {
        if self.strategy == Strategy::Dpor {
            return Err(RaceError::Refused(
                "a whole scheduler has too many orders for --strategy exhaustive: add --preemptions 1".into(),
            ));
        }
        if matches!(self.strategy, Strategy::Bounded(2..)) {
            return Err(RaceError::Refused(
                "a whole scheduler has too many orders for more than one stop: --preemptions 1".into(),
            ));
        }
        if self.strategy.is_exhaustive() && self.model != MemoryModel::Sc {
            return Err(RaceError::Refused(
                "a whole scheduler has too many late stores for --strategy exhaustive: take --model sc, or mix"
                    .into(),
            ));
        }
        if let Some(needs) = lacks(scenario, &self.compiled) {
            return Err(RaceError::Refused(format!(
                "{}: {} cannot serve it; it asks for {needs}",
                scenario.name, self.compiled.name
            )));
        }
        if let (Some(what), None) = (scheduler(scenario), &scenario.beside) {
            return Err(RaceError::Refused(format!(
                "{}: its sched_ext scheduler '{what}' was not compiled",
                scenario.name
            )));
        }
        let jobs = self.jobs.max(1) as u64;
        let task = |first| WholeTask::Explore {
            first,
            stride: jobs,
            schedules: self.from..self.schedules,
            findings: self.findings,
            aside: self.aside.clone(),
        };
        let answers: Vec<Result<Done, RaceError>> = std::thread::scope(|scope| {
            let ask = |first| {
                let job = self.whole_job(scenario, task(first));
                scope.spawn(move || ask(&job))
            };
            let threads: Vec<_> = (0..jobs).map(ask).collect();
            let lost = |_| Err(RaceError::Lost("a thread was lost".into()));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(lost)).collect()
        });
        let mut explored = merged(self, scenario, answers)?;
        explored.explained = self.explain_races(&mut explored.findings, "")?;
        Ok(explored)
    }

    /// Takes out the races whose reason is known, save the one with this text: reasons, and how often each was met.
    pub(crate) fn explain_races(
        &self,
        findings: &mut Vec<Finding>,
        kept: &str,
    ) -> Result<Vec<(KnownRace, u64)>, RaceError> {
        if !findings.iter().any(|f| f.kind == "race") {
            return Ok(Vec::new());
        }
        let known = known::known(&self.compiled.kernel.1)?;
        let edits = self.compiled.seeded.as_ref().map(|seeded| seeded.edits.clone());
        let tree = kernel_build::find(&self.compiled.kernel.0, &BuildOptions::default())?
            .map(|kernel| kernel.source);
        let mut source = known::Source::new(&tree.unwrap_or_default(), &edits.unwrap_or_default());
        let mut counts: Vec<u64> = vec![0; known.len()];
        findings.retain(|finding| {
            let is_race = finding.kind == "race" && finding.text != kept;
            let reason = if is_race { source.explain(finding, &known) } else { None };
            let place = reason.and_then(|reason| known.iter().position(|k| k == reason));
            if let Some(place) = place {
                counts[place] += finding.times;
            }
            place.is_none()
        });
        Ok(known.into_iter().zip(counts).filter(|(_, times)| *times > 0).collect())
    }

    pub(crate) fn shrink_whole(&self, finding: &Finding) -> Result<Finding, RaceError> {
        let task = WholeTask::Shrink {
            choices: finding.choices.clone(),
            kind: finding.kind.clone(),
            text: finding.told_as.clone(),
        };
        let mut done = ask(&self.whole_job(&finding.scenario, task))?;
        let found = done.findings.pop().ok_or(RaceError::NotAgain)?;
        let shrunk = self.finding(found, &finding.scenario);
        Ok(Finding { first_schedule: finding.first_schedule, times: finding.times, ..shrunk })
    }

    /// A process that waits for gdb, and its job.
    pub(crate) fn watched_whole(
        &self,
        scenario: &Scenario,
        choices: &[crate::Choice],
    ) -> std::io::Result<schedlab_process::Started> {
        let started = WHOLE.start().map_err(std::io::Error::other)?;
        send(&started.socket, &self.whole_job(scenario, WholeTask::Watch { choices: choices.to_vec() }))?;
        Ok(started)
    }

    /// With `race` the story is about that pair of accesses.
    pub(crate) fn replay_whole(
        &self,
        scenario: &Scenario,
        choices: &[crate::Choice],
        race: Option<(u64, u64)>,
    ) -> Result<Done, RaceError> {
        ask(&self.whole_job(scenario, WholeTask::Replay { choices: choices.to_vec(), race }))
    }
}

/// For tests: an access of four bytes, by a line of its own for each point.
#[cfg(test)]
fn event(cpu: u16, at: u32, address: u64, kind: u8) -> schedlab_linux::race::RaceEvent {
    let code = u64::from(at);
    schedlab_linux::race::RaceEvent { cpu, at, address, kind, size: 4, code, ..Default::default() }
}
