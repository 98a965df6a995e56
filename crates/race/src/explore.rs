//! Many schedules of a target: how many, what was found, how each finding is repeated.
//!
//! Schedule number `i` depends on the seed and `i` alone, and processes take them in turn; so the result does not
//! depend on how many processes there are.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::RaceError;
use crate::compile::{Compiled, Frame, places, places_and_text};
use crate::engine::{Altered, Met};
use crate::memory::MemoryModel;
use crate::scenario::Scenario;
use crate::schedule::{Choice, Schedule};
use crate::story::Story;
use crate::strategy::Strategy;
use crate::study::any_cpu;
use crate::whole::known::KnownRace;
use crate::worker::{
    ALWAYS_TRIES, Done, Found, Job, Offer, RACES, Task, is_endless, may_be_of_absence, receive, send, written,
};

/// What is explored, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The target.
    pub compiled: Compiled,
    /// Memory.
    pub model: MemoryModel,
    /// The search.
    pub strategy: Strategy,
    /// Its seed.
    pub seed: u64,
    /// How many schedules of each scenario.
    pub schedules: u64,
    /// Processes.
    pub jobs: usize,
    /// Of a whole scheduler: the first schedule's number; those before it were made by an earlier search.
    pub from: u64,
    /// Stop a scenario at so many findings that differ.
    pub findings: usize,
    /// Of a whole scheduler: findings that do not count for that.
    pub aside: Vec<Aside>,
    /// What is done to barriers: addresses in the object.
    pub without: Vec<Altered>,
    /// Of a whole scheduler: accesses that nothing orders are findings, too.
    pub races: bool,
}

/// A finding that ends no search, since its reason is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aside {
    /// Its text; `cpuN` stands for any CPU.
    pub text: String,
    /// In the schedule without stops it counts.
    pub needs_stop: bool,
}

impl Aside {
    /// Whether this text is the one; `index`: the first schedule that shows it.
    pub(crate) fn is(&self, text: &str, index: u64) -> bool {
        self.text == any_cpu(text) && !(self.needs_stop && index == 0)
    }
}

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `invariant`, `deadlock`, `livelock`, `lost_wakeup`, `crash` or `warn`.
    pub kind: String,
    /// In words.
    pub text: String,
    /// Source lines: where the CPU that found it stood, then the others.
    pub sites: Vec<String>,
    /// The first schedule that showed it, from 0.
    pub first_schedule: u64,
    /// How many did.
    pub times: u64,
    /// Switches away from a CPU that could have gone on.
    pub preemptions: u32,
    /// What repeats it.
    pub choices: Vec<Choice>,
    /// The scenario, shrunk if it was.
    pub scenario: Scenario,
    /// What the process that found it calls it.
    pub(crate) told_as: String,
}

/// What was explored.
#[derive(Clone, Debug)]
pub struct Explored {
    /// The scenario's name.
    pub scenario: String,
    /// Schedules that were executed to their end or a finding.
    pub schedules: u64,
    /// Points in all.
    pub points: u64,
    /// An exhaustive search has seen all there is.
    pub is_complete: bool,
    /// Schedules that were begun and given up, for another one had shown the same.
    pub redundant: u64,
    /// What was found, first ones first.
    pub findings: Vec<Finding>,
    /// Barriers that an ordinary schedule meets: addresses in the object.
    pub barriers: Vec<Met>,
    /// Accesses that nothing orders, whose reason is known, and how many schedules showed them.
    pub explained: Vec<(KnownRace, u64)>,
}

impl Explored {
    /// Adds what a search found that went on behind this one.
    pub fn go_on(&mut self, later: Explored) {
        let Explored { schedules, points, is_complete, redundant, findings, explained, .. } = later;
        self.schedules += schedules;
        self.points += points;
        self.redundant += redundant;
        self.is_complete = is_complete;
        for new in findings {
            match self.findings.iter_mut().find(|old| old.kind == new.kind && old.told_as == new.told_as) {
                Some(old) => old.times += new.times,
                None => self.findings.push(new),
            }
        }
        for (race, times) in explained {
            match self.explained.iter_mut().find(|(old, _)| *old == race) {
                Some((_, old)) => *old += times,
                None => self.explained.push((race, times)),
            }
        }
    }
}

fn ask(job: &Job) -> Result<Done, RaceError> {
    let lost = |why: String| RaceError::Lost(format!("the process that runs the target was lost: {why}"));
    let mut started = RACES.start().map_err(|e| lost(e.to_string()))?;
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

/// What several processes answered, as one.
pub(crate) fn merged(
    plan: &Plan,
    scenario: &Scenario,
    answers: Vec<Result<Done, RaceError>>,
) -> Result<Explored, RaceError> {
    let mut explored = Explored {
        scenario: scenario.name.clone(),
        schedules: 0,
        points: 0,
        is_complete: true,
        redundant: 0,
        findings: Vec::new(),
        barriers: Vec::new(),
        explained: Vec::new(),
    };
    let mut found: BTreeMap<(String, String), Found> = BTreeMap::new();
    for answer in answers {
        let done = answer?;
        explored.schedules += done.schedules;
        explored.points += done.points;
        explored.redundant += done.redundant;
        explored.is_complete &= done.is_complete;
        explored.barriers = done.barriers;
        for new in done.findings {
            match found.entry((new.kind.clone(), new.text.clone())) {
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(new);
                }
                std::collections::btree_map::Entry::Occupied(mut place) => {
                    let old = place.get_mut();
                    let times = old.times + new.times;
                    if new.index < old.index {
                        *old = new;
                    }
                    old.times = times;
                }
            }
        }
    }
    let mut sites: Vec<usize> = found.values().flat_map(|f| f.sites.iter().copied()).collect();
    sites.sort_unstable();
    sites.dedup();
    let names: HashMap<usize, String> = sites.iter().copied().zip(plan.places(&sites)).collect();
    explored.findings = found.into_values().map(|f| named(f, scenario, &names)).collect();
    explored.findings.sort_by_key(|f| f.first_schedule);
    Ok(explored)
}

impl Finding {
    /// Whether it is a call that does not return, without a point. Each schedule that shows it takes seconds, so the
    /// first one ends the search of its scenario.
    pub fn is_endless(&self) -> bool {
        is_endless(&self.kind, &self.told_as)
    }

    /// Whether both say the same. Accesses that nothing orders are others if their lines are.
    pub fn is_same(&self, other: &Finding) -> bool {
        let lines = |finding: &Finding| {
            let mut lines = finding.sites.clone();
            lines.sort();
            lines
        };
        let is_race = self.kind == "race";
        self.kind == other.kind && self.text == other.text && (!is_race || lines(self) == lines(other))
    }

    /// Of a race of a whole scheduler: the code of its accesses, from the begin of the text.
    fn pair(&self) -> Option<(u64, u64)> {
        let (a, b) = if self.kind == "race" { self.told_as.split_once(' ')? } else { return None };
        Some((u64::from_str_radix(a, 16).ok()?, u64::from_str_radix(b, 16).ok()?))
    }
}

/// A finding with its places in the source.
fn named(found: Found, scenario: &Scenario, names: &HashMap<usize, String>) -> Finding {
    let mut sites: Vec<String> = found.sites.iter().filter_map(|at| names.get(at).cloned()).collect();
    sites.dedup();
    let text = match found.kind.as_str() {
        // by functions: lines differ from version to version, and stand among the places
        "race" => {
            let function = |site: &String| site.rsplit(' ').next().unwrap_or_default().to_owned();
            let mut functions: Vec<String> = sites.iter().map(function).collect();
            functions.sort();
            functions.dedup();
            format!("nothing orders {}", functions.join("() and ") + "()")
        }
        _ => found.text.clone(),
    };
    Finding {
        kind: found.kind,
        text,
        told_as: found.text,
        sites,
        first_schedule: found.index,
        times: found.times,
        preemptions: found.preemptions,
        choices: found.choices,
        scenario: scenario.clone(),
    }
}

impl Plan {
    fn job(&self, scenario: Option<&Scenario>, task: Task) -> Job {
        Job {
            object: self.compiled.object.clone(),
            scenario: scenario.cloned(),
            model: self.model,
            strategy: self.strategy,
            seed: self.seed,
            without: self.without.clone(),
            task,
        }
    }

    pub(crate) fn finding(&self, found: Found, scenario: &Scenario) -> Finding {
        let names = found.sites.iter().copied().zip(self.places(&found.sites)).collect();
        named(found, scenario, &names)
    }

    /// Places of a finding.
    fn places(&self, sites: &[usize]) -> Vec<String> {
        places(&self.compiled.object, sites, self.frame())
    }

    fn frame(&self) -> Frame {
        // of a file of one's own its headers say more than who calls what stands in them
        let is_own = self.compiled.kernel.0.is_empty();
        if is_own { Frame::Innermost } else { Frame::OutOfHeaders }
    }

    /// What the target can be asked for, and the scenario that it brings along.
    ///
    /// # Errors
    /// It is no target.
    pub fn describe(&self) -> Result<(Vec<Offer>, Option<String>), RaceError> {
        let done = ask(&self.job(None, Task::Describe))?;
        Ok((done.offers, done.own_scenario))
    }

    /// Explores one scenario.
    ///
    /// # Errors
    /// The scenario asks for what the target does not have; a process was lost.
    pub fn explore(&self, scenario: &Scenario) -> Result<Explored, RaceError> {
        if self.compiled.is_whole() {
            return self.explore_whole(scenario);
        }
        let jobs = if self.strategy.is_exhaustive() { 1 } else { self.jobs.max(1) as u64 };
        let task =
            |first| Task::Explore { first, stride: jobs, schedules: self.schedules, findings: self.findings };
        let answers: Vec<Result<Done, RaceError>> = std::thread::scope(|scope| {
            let ask = |first| {
                let job = self.job(Some(scenario), task(first));
                scope.spawn(move || ask(&job))
            };
            let threads: Vec<_> = (0..jobs).map(ask).collect();
            let lost = |_| Err(RaceError::Lost("a thread was lost".into()));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(lost)).collect()
        });
        merged(self, scenario, answers)
    }

    /// Fewer calls, fewer choices, the same finding.
    ///
    /// # Errors
    /// It does not show again.
    pub fn shrink(&self, finding: &Finding) -> Result<Finding, RaceError> {
        if self.compiled.is_whole() {
            return self.shrink_whole(finding);
        }
        if finding.is_endless() {
            return Ok(finding.clone());
        }
        let task = Task::Shrink {
            choices: finding.choices.clone(),
            kind: finding.kind.clone(),
            text: finding.text.clone(),
        };
        let mut done = ask(&self.job(Some(&finding.scenario), task))?;
        let (Some(found), Some(scenario)) = (done.findings.pop(), done.scenario) else {
            return Ok(finding.clone());
        };
        let of_absence = may_be_of_absence(&found);
        let shrunk = self.smaller(self.finding(found, &scenario), of_absence)?;
        Ok(Finding { first_schedule: finding.first_schedule, times: finding.times, ..shrunk })
    }

    /// The same schedule with fewer CPUs and fewer calls before all others, as far as the finding stays.
    fn smaller(&self, finding: Finding, of_absence: bool) -> Result<Finding, RaceError> {
        let mut best = finding;
        let is_always = |scenario: &Scenario| -> Result<bool, RaceError> {
            let (kind, text) = (best.kind.clone(), best.told_as.clone());
            let task = Task::Always { schedules: ALWAYS_TRIES, kind, text };
            Ok(ask(&self.job(Some(scenario), task))?.is_always)
        };
        let may_vanish = of_absence && !is_always(&best.scenario)?;
        let shows = |scenario: &Scenario| -> Result<bool, RaceError> {
            // a target may refuse so few CPUs
            let task = Task::Replay { choices: best.choices.clone() };
            match ask(&self.job(Some(scenario), task)) {
                Ok(done) => Ok(done.findings.iter().any(|f| f.kind == best.kind && f.text == best.told_as)),
                Err(RaceError::Refused(_)) => Ok(false),
                Err(error) => Err(error),
            }
        };
        let mut scenario = best.scenario.clone();
        while scenario.cpus.len() > 1 && scenario.cpus.last().is_some_and(Vec::is_empty) {
            let mut fewer = scenario.clone();
            fewer.cpus.pop();
            if !shows(&fewer)? {
                break;
            }
            scenario = fewer;
        }
        let mut at = 0;
        while at < scenario.first.len() {
            let mut fewer = scenario.clone();
            fewer.first.remove(at);
            match shows(&fewer)? && !(may_vanish && is_always(&fewer)?) {
                true => scenario = fewer,
                false => at += 1,
            }
        }
        scenario.text = written(&scenario);
        best.scenario = scenario;
        Ok(best)
    }

    /// Runs one schedule with all that happens in it. Of several findings the one with this text is returned, else the
    /// first that has no known reason.
    ///
    /// # Errors
    /// A process was lost.
    pub fn replay(
        &self,
        scenario: &Scenario,
        choices: &[Choice],
        wanted: &str,
    ) -> Result<(Option<Finding>, Story), RaceError> {
        let mut done = match self.compiled.is_whole() {
            true => self.replay_whole(scenario, choices, None)?,
            false => ask(&self.job(Some(scenario), Task::Replay { choices: choices.to_vec() }))?,
        };
        let mut found: Vec<Finding> = done.findings.drain(..).map(|f| self.finding(f, scenario)).collect();
        self.explain_races(&mut found, wanted)?;
        let at = found.iter().position(|f| f.text == wanted).unwrap_or(0);
        let finding = (at < found.len()).then(|| found.swap_remove(at));
        if let Some(pair) = finding.as_ref().and_then(Finding::pair) {
            done = self.replay_whole(scenario, choices, Some(pair))?;
        }
        let mut codes: Vec<usize> = done.events.iter().map(|e| e.code).filter(|c| *c != 0).collect();
        codes.sort_unstable();
        codes.dedup();
        let files = (&*self.compiled.object, &*self.compiled.sources);
        let lines = places_and_text(files, &codes, self.frame());
        let lines = codes.iter().copied().zip(lines).collect();
        let names = done.names.into_iter().collect();
        let mut story = Story::new(done.events, scenario.clone(), names, lines);
        if let Some(finding) = &finding {
            story.decides(self.deciding(scenario, choices, finding)?);
        }
        Ok((finding, story))
    }

    /// Starts a process that waits for a debugger before it runs one schedule; `debug` gets its number. It ends when
    /// `debug` returns.
    ///
    /// # Errors
    /// A process was lost.
    pub fn watch<T>(
        &self,
        scenario: &Scenario,
        choices: &[Choice],
        debug: impl FnOnce(u32) -> T,
    ) -> Result<T, RaceError> {
        let lost = |e: std::io::Error| RaceError::Lost(format!("no process for gdb: {e}"));
        let start = || match self.compiled.is_whole() {
            true => self.watched_whole(scenario, choices),
            false => {
                let job = self.job(Some(scenario), Task::Watch { choices: choices.to_vec() });
                let started = RACES.start().map_err(std::io::Error::other)?;
                send(&started.socket, &job)?;
                Ok(started)
            }
        };
        let mut started = start().map_err(lost)?;
        let value = debug(started.child.id());
        // it has ended, or gdb has left it
        let _ = started.child.kill();
        started.child.wait().map_err(lost)?;
        Ok(value)
    }

    /// Which of a schedule's choices decides: the last one without which its finding is not shown.
    ///
    /// # Errors
    /// A process was lost.
    pub fn deciding(
        &self,
        scenario: &Scenario,
        choices: &[Choice],
        finding: &Finding,
    ) -> Result<Option<Choice>, RaceError> {
        if self.compiled.is_whole() || finding.is_endless() {
            return Ok(None);
        }
        for n in (0..choices.len()).rev() {
            let mut fewer = choices.to_vec();
            let left_out = fewer.remove(n);
            let done = ask(&self.job(Some(scenario), Task::Replay { choices: fewer }))?;
            if !done.findings.iter().any(|f| f.kind == finding.kind && f.text == finding.told_as) {
                return Ok(Some(left_out));
            }
        }
        Ok(None)
    }

    /// The file that repeats a finding.
    pub fn schedule(&self, finding: &Finding, without: Vec<String>) -> Schedule {
        let compiled = &self.compiled;
        Schedule {
            target: compiled.name.clone(),
            kernel: compiled.kernel.0.clone(),
            version: compiled.kernel.1.clone(),
            seeded: compiled.seeded_name().to_owned(),
            defines: compiled.defines.clone(),
            object: compiled.key.clone(),
            model: self.model.name().into(),
            without,
            finding: (finding.kind.clone(), finding.text.clone()),
            scenario: (finding.scenario.name.clone(), finding.scenario.text.clone()),
            choices: finding.choices.clone(),
        }
    }
}
