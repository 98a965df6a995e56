//! How is a plan performed elsewhere, and what came of it judged here?
//!
//! ```text
//! harmony plan -o DIR     DIR/plan.json      which runs there are, and of which tasks
//!                         DIR/RUN.workload   the tasks of one, and a controller that takes its steps
//!                         DIR/RUN.json       the steps, for whoever has other means to take them
//! somewhere               DIR/RUN.arrow      its log; or RUN.log, RUN.dat, RUN.data, ...: a recording
//! harmony judge DIR       the answers
//! ```
//!
//! Each task has a name of its own, `hXXXX.N`: XXXX is drawn from the run, so that a log of another run or of another
//! plan is not taken for this one. `hXXXX.ctl` is the controller: it sleeps between steps, and what it does while it
//! is awake is the step. Where there is none, steps count as taken at the plan's times.

use crate::data::{Data, One};
use crate::experiments::{Depth, What, experiments, find};
use crate::facts::{BETWEEN_STEPS_NS, Cast, Facts};
use crate::scenario::Scenario;
use schedlab_instruments::LogProblem;
use schedlab_lab::{Fails, FailureKind, RunFailure, Silent, load_recording};
use schedlab_log::{Log, LogHeader, ObservedBy, Observer, Row, Run, Slots, Wait, replay};
use schedlab_machine::kernel::FileRequest;
use schedlab_stdx::limits::{JSON_BYTES_MAX, read_text};
use schedlab_topology::Topology;
use schedlab_trace::Mode;
use schedlab_units::{CpuId, CpuSet, Span, TaskId};
use schedlab_workload::build::ENDLESS;
use schedlab_workload::{Builder, CgroupId, ParamChange, Workload, WorkloadBuildError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The list of runs in a folder.
pub const MANIFEST: &str = "plan.json";
/// Endings of what a folder holds besides logs.
const OURS: [&str; 3] = ["json", "workload", "csv"];
/// The controller's priority: above whatever it carries around.
const CONTROLLER_PRIORITY: u8 = 98;
/// A step that nobody was seen to take counts from so much after its time in the plan.
const RECORDED: Span = Span::from_us(5);
/// More of the CPUs' time than this for tasks of nobody's plan, and a run is not counted.
const BUSY_SHARE: f64 = 0.05;
/// So much of its end a log may lack: nothing may happen in it.
const END_SHARE: f64 = 0.01;

/// The runs of a plan that is performed elsewhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Of this file: 1.
    pub schema: u32,
    /// The machine, as `--machine` has it.
    pub machine: String,
    /// Only the questions of `--quick`.
    pub quick: bool,
    /// First seed.
    pub seed: u64,
    /// The runs.
    pub runs: Vec<Entry>,
}

/// One of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name: that of its files, before the dot.
    pub run: String,
    /// The experiment.
    pub experiment: String,
    /// What is drawn in it.
    pub seed: u64,
    /// What its tasks' names begin with.
    pub prefix: String,
    /// How many tasks it has, without the controller.
    pub tasks: usize,
    /// How long it lasts.
    pub duration_ns: u64,
}

/// A folder that cannot be written or judged.
#[derive(Debug, thiserror::Error)]
pub enum ElsewhereError {
    /// A file cannot be read or written.
    #[error("{place}: {why}")]
    File {
        /// The file.
        place: String,
        /// The system's reason.
        why: String,
    },
    /// Its list of runs says something else than this version would write.
    #[error("{place}: {what}; write the folder anew with 'schedlab harmony plan -o DIR'")]
    Manifest {
        /// The file.
        place: String,
        /// Value and expectation.
        what: String,
    },
    /// No log at all.
    #[error(
        "{place}: no run has a log here: expected {example}.arrow, .log, .txt, .dat, .data, ... ('schedlab harmony \
         perform' makes them)"
    )]
    Nothing {
        /// The folder.
        place: String,
        /// The first run.
        example: String,
    },
    /// Two logs of one run.
    #[error("{place}: two logs of one run, {first} and {second}; leave one")]
    Two {
        /// The folder.
        place: String,
        /// File name.
        first: String,
        /// File name.
        second: String,
    },
    /// It is neither a log nor a recording.
    #[error(transparent)]
    Log(schedlab_log::LogError),
    /// It is a recording that cannot be read.
    #[error(transparent)]
    Recording(#[from] schedlab_lab::RecordingError),
    /// A log of something else, or less than a whole one.
    #[error("{place}: {what}: {why}")]
    NotOfPlan {
        /// The file.
        place: String,
        /// What was looked at.
        what: &'static str,
        /// Value, expectation and remedy.
        why: String,
    },
    /// It contradicts itself, or hides what the questions need.
    #[error("{place}: {problem}")]
    Contradicts {
        /// The file.
        place: String,
        /// Where and how.
        problem: LogProblem,
    },
    /// A workload that breaks a rule of its model.
    #[error(transparent)]
    Build(#[from] WorkloadBuildError),
}

impl Fails for ElsewhereError {
    fn kind(&self) -> FailureKind {
        match self {
            ElsewhereError::Build(_) => FailureKind::Internal,
            _ => FailureKind::Input,
        }
    }
}

/// A run to be performed: what to call it, and what it is.
#[derive(Clone, Debug)]
pub struct Part {
    /// As the folder's list has it.
    pub entry: Entry,
    /// Its tasks, renamed, and its steps.
    pub scenario: Scenario,
    what: What,
    /// CPUs of the plan's machine.
    nr_cpus: u32,
}

impl Part {
    fn of(what: What, topology: &Topology, seed: u64) -> Result<Part, WorkloadBuildError> {
        let mut scenario = what.scenario(topology, seed)?;
        let prefix = prefix(what, topology, seed, &scenario);
        for (number, task) in scenario.workload.tasks.iter_mut().enumerate() {
            task.name = format!("{prefix}.{number}");
        }
        let entry = Entry {
            run: format!("{}-{seed}", what.name()),
            experiment: what.name(),
            seed,
            prefix,
            tasks: scenario.workload.tasks.len(),
            duration_ns: scenario.duration.as_ns(),
        };
        Ok(Part { entry, scenario, what, nr_cpus: topology.nr_cpus() })
    }

    /// The seed of what else varies.
    pub fn drawn(&self) -> u64 {
        self.what.drawn(self.entry.seed)
    }

    /// The steps, for those who take them by other means than the controller's.
    pub fn steps(&self) -> Value {
        let step = |at: Span, file: &FileRequest| match file {
            FileRequest::Change { tasks, change, .. } => json!({
                "at_ns": at.as_ns(),
                "tasks": tasks.iter().map(|task| task.0).collect::<Vec<u32>>(),
                "cpus": change.affinity.as_ref().map(CpuSet::to_string),
                "nice": change.nice.map(|nice| nice.get()),
            }),
            FileRequest::Cut { task } => json!({"at_ns": at.as_ns(), "tasks": [task.0], "stop": true}),
            other => unreachable!("no step of a plan reads or writes a file: {other:?}"),
        };
        let steps: Vec<Value> = self
            .scenario
            .actions
            .iter()
            .flat_map(|action| action.files.iter().map(|file| step(action.at, file)))
            .collect();
        let Entry { run, prefix, tasks, duration_ns, .. } = &self.entry;
        json!({"run": run, "prefix": prefix, "tasks": tasks, "duration_ns": duration_ns, "steps": steps})
    }

    /// Whether a task of the workload can take all steps. (None can end another's need for CPU time.)
    pub fn can_be_controlled(&self) -> bool {
        let is_cut = |file: &FileRequest| matches!(file, FileRequest::Cut { .. });
        !self.scenario.actions.iter().any(|action| action.files.iter().any(is_cut))
    }

    /// The workload with a controller that takes the steps; `None`: no task can ([`Part::can_be_controlled`]).
    ///
    /// # Errors
    /// It breaks a rule of its model: never, for the experiments that there are.
    pub fn controlled(&self) -> Result<Option<Workload>, WorkloadBuildError> {
        if !self.can_be_controlled() {
            return Ok(None);
        }
        if self.scenario.actions.is_empty() {
            return Ok(Some(self.scenario.workload.clone()));
        }
        let mut builder = Builder::of(self.scenario.workload.clone());
        let name = format!("{}.ctl", self.entry.prefix);
        let mut since = Span::ZERO;
        let first = self.scenario.actions.first().map_or(0, by);
        let mut life = builder.task(name).fifo(CONTROLLER_PRIORITY).cpu(first).blocked();
        let mut is_first = true;
        for (number, action) in self.scenario.actions.iter().enumerate() {
            if is_first || action.at - since > Span::from_ns(BETWEEN_STEPS_NS) {
                life = if is_first { life } else { life.block() };
                life = life.sleep_until(action.at - since);
                (since, is_first) = (action.at, false);
            }
            for file in &action.files {
                let FileRequest::Change { tasks, change, .. } = file else { continue };
                for task in tasks {
                    life = life.set(ParamChange {
                        target: Some(*task),
                        params: change.params,
                        nice: change.nice,
                        affinity: change.affinity.clone(),
                        cgroup: change.cgroup.map(CgroupId),
                    });
                }
            }
            // it takes the next step from the CPU that has the most tasks then
            let next = self.scenario.actions.get(number + 1);
            if let Some(next) = next.filter(|next| by(next) != by(action)) {
                let affinity = Some(CpuSet::single(CpuId(by(next))));
                life = life.set(ParamChange { affinity, ..ParamChange::default() });
            }
        }
        // it does not end: a CPU that tidies up after a dead task may fall idle by it, and pull
        life.block().sleep(ENDLESS).exit();
        builder.finish().map(Some)
    }
}

/// The CPU that the first of an action's changes is made on.
fn by(action: &schedlab_machine::kernel::Action) -> u32 {
    let of = |file: &FileRequest| match file {
        FileRequest::Change { by, .. } => Some(by.0),
        _ => None,
    };
    action.files.iter().find_map(of).unwrap_or(0)
}

/// `h` and four digits that follow from all that a run is. (FNV-1a, folded.)
fn prefix(what: What, topology: &Topology, seed: u64, scenario: &Scenario) -> String {
    let text = format!("{}|{topology}|{seed}|{:?}|{:?}", what.name(), scenario.marks, scenario.duration);
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let folded = hash ^ hash >> 32;
    format!("h{:04x}", (folded ^ folded >> 16) & 0xffff)
}

/// All runs that the questions need on this machine.
///
/// # Errors
/// [`WorkloadBuildError`]: never, for the machines that can be built.
pub fn parts(topology: &Topology, depth: Depth, seed: u64) -> Result<Vec<Part>, WorkloadBuildError> {
    crate::data::seeds(topology, depth, seed).map(|(what, seed)| Part::of(what, topology, seed)).collect()
}

/// Writes the folder: what to perform.
///
/// # Errors
/// It cannot be written.
pub fn write(
    folder: &Path,
    topology: &Topology,
    depth: Depth,
    seed: u64,
) -> Result<Manifest, ElsewhereError> {
    let parts = parts(topology, depth, seed)?;
    std::fs::create_dir_all(folder).map_err(|error| unreadable(folder, &error))?;
    for part in &parts {
        let file = |ending: &str| folder.join(format!("{}.{ending}", part.entry.run));
        save(&file("json"), &format!("{:#}\n", part.steps()))?;
        if let Some(workload) = part.controlled()? {
            let path = file("workload");
            save(&path, &workload.to_text().map_err(|error| unreadable(&path, &error))?)?;
        }
    }
    let manifest = Manifest {
        schema: 1,
        machine: topology.to_string(),
        quick: depth == Depth::Quick,
        seed,
        runs: parts.into_iter().map(|part| part.entry).collect(),
    };
    save(&folder.join(MANIFEST), &format!("{:#}\n", json!(manifest)))?;
    Ok(manifest)
}

fn save(path: &Path, text: &str) -> Result<(), ElsewhereError> {
    schedlab_stdx::aside::write(path, text.as_bytes()).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> ElsewhereError {
    ElsewhereError::File { place: path.display().to_string(), why: error.to_string() }
}

/// Reads a folder's list again: its runs, as this version would write them, and the machine.
///
/// # Errors
/// There is none, or this version would write another one.
pub fn read(folder: &Path) -> Result<(Topology, Vec<Part>), ElsewhereError> {
    let path = folder.join(MANIFEST);
    let wrong = |what: String| ElsewhereError::Manifest { place: path.display().to_string(), what };
    let text = read_text(&path, JSON_BYTES_MAX).map_err(|error| unreadable(&path, &error))?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if manifest.schema != 1 {
        return Err(wrong(format!("schema {}: this version reads 1", manifest.schema)));
    }
    let machine: Result<Topology, _> = manifest.machine.parse();
    let topology = machine.map_err(|error| wrong(format!("machine '{}': {error}", manifest.machine)))?;
    let mut parts = Vec::new();
    for entry in &manifest.runs {
        let Some(what) = find(&entry.experiment, &topology) else {
            let known: Vec<String> =
                experiments(&topology, Depth::Full).iter().map(|(what, _)| what.name()).collect();
            let known = known.join(", ");
            return Err(wrong(format!("experiment '{}': there are {known}", entry.experiment)));
        };
        let part = Part::of(what, &topology, entry.seed.max(1))?;
        if part.entry.prefix != entry.prefix || part.entry.run != entry.run {
            return Err(wrong(format!(
                "run '{}' with tasks {}.N: this version's has {}.N",
                entry.run, entry.prefix, part.entry.prefix
            )));
        }
        parts.push(part);
    }
    Ok((topology, parts))
}

/// Reads all logs of a folder. Runs without one are not counted, and said.
///
/// # Errors
/// There is no log at all, or one is not of this plan, not whole, or no log.
pub fn judged(folder: &Path, mut done: impl FnMut(usize, usize)) -> Result<Data, ElsewhereError> {
    let (topology, parts) = read(folder)?;
    let logs = logs(folder)?;
    let mut data = Data { runs: BTreeMap::new(), failed: Vec::new(), topology };
    let count = parts.len();
    for (number, part) in parts.into_iter().enumerate() {
        let mut fail = |reason: String| {
            let failure = RunFailure { kind: FailureKind::Input, reason };
            data.failed.push((part.entry.experiment.clone(), part.entry.seed, failure));
        };
        let Some(path) = logs.get(&part.entry.run) else {
            fail(format!("there is no log of it in {}", folder.display()));
            continue;
        };
        let read = facts_of(path, &part)?;
        let share = read.facts.strangers_ns as f64
            / (read.facts.duration_ns as f64 * f64::from(data.topology.nr_cpus()));
        if share > BUSY_SHARE {
            fail(format!(
                "{}: the machine was busy: other tasks had {:.0} % of the CPUs' time, expected at most {:.0} %",
                path.display(),
                100.0 * share,
                100.0 * BUSY_SHARE
            ));
            continue;
        }
        data.runs.entry(part.what).or_default().push(read);
        done(number + 1, count);
    }
    if data.runs.is_empty() && logs.is_empty() {
        let example = data.failed.first().map_or(String::new(), |(name, seed, _)| format!("{name}-{seed}"));
        return Err(ElsewhereError::Nothing { place: folder.display().to_string(), example });
    }
    Ok(data)
}

/// By run: its log.
fn logs(folder: &Path) -> Result<BTreeMap<String, PathBuf>, ElsewhereError> {
    let mut names: Vec<PathBuf> = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    for entry in entries {
        names.push(entry.map_err(|error| unreadable(folder, &error))?.path());
    }
    names.sort();
    let mut logs: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in names {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some((run, ending)) = name.split_once('.') else { continue };
        // NAME.proc.csv lies beside a trace.dat
        if OURS.contains(&ending) || ending.ends_with("csv") {
            continue;
        }
        if let Some(first) = logs.get(run) {
            let first = first.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            return Err(ElsewhereError::Two { place: folder.display().to_string(), first, second: name });
        }
        logs.insert(run.to_string(), path);
    }
    Ok(logs)
}

/// Reads one log, whatever it was made by.
fn facts_of(path: &Path, part: &Part) -> Result<One, ElsewhereError> {
    if schedlab_lab::is_recording(path) {
        let recording = load_recording(path, Mode::Strict, &Silent)?;
        let (events, places) = recording.recorded.lost;
        if places > 0 {
            let why =
                format!("{events} events or more in {places} places; record again with a larger buffer");
            return Err(not_of_plan(path, "lost events", why));
        }
        return one(path, &recording.recorded.log, part);
    }
    let log = schedlab_log::open(path).map_err(ElsewhereError::Log)?;
    one(path, &*log, part)
}

fn not_of_plan(path: &Path, what: &'static str, why: String) -> ElsewhereError {
    ElsewhereError::NotOfPlan { place: path.display().to_string(), what, why }
}

fn one(path: &Path, log: &dyn Log, part: &Part) -> Result<One, ElsewhereError> {
    let contradicts =
        |problem: LogProblem| ElsewhereError::Contradicts { place: path.display().to_string(), problem };
    let mut cast = cast(path, log.header(), part)?;
    // a log of ours begins when the plan does; a recording was begun before
    let mut first = FirstSeen { cast: &cast, first_ns: None };
    if matches!(log.header().observer, ObservedBy::Recorder | ObservedBy::Poller) {
        replay(log, &Slots::new(log.header()), &mut first).map_err(contradicts)?;
        cast.zero_ns = first.first_ns.unwrap_or(0);
    }
    let has_ns = log.header().duration.as_ns().saturating_sub(cast.zero_ns);
    let wants_ns = part.entry.duration_ns;
    let last_ns = part.scenario.marks.last().map_or(0, |mark| mark.at.as_ns());
    let lacks = |ns: u64| has_ns + ns < wants_ns;
    if lacks((wants_ns as f64 * END_SHARE) as u64) || has_ns <= last_ns {
        let why = format!(
            "it ends {} after the plan's first task began; expected {}: it was cut off, or stopped too early",
            Span::from_ns(has_ns),
            Span::from_ns(wants_ns)
        );
        return Err(not_of_plan(path, "length", why));
    }
    cast.duration_ns = has_ns.min(wants_ns);
    let mut scenario = part.scenario.clone();
    let facts = Facts::read_as(log, &scenario, &cast).map_err(contradicts)?;
    if cast.controller.is_some() {
        as_taken(path, &mut scenario, &facts.awake)?;
    } else if cast.zero_ns > 0 || log.header().observer == ObservedBy::Recorder {
        // nobody else's clock is ours to the nanosecond
        scenario.marks.iter_mut().for_each(|mark| mark.took = RECORDED);
    }
    scenario.workload = Workload::default();
    Ok(One { seed: part.entry.seed, scenario, facts })
}

/// Finds the plan's tasks by name.
fn cast(path: &Path, header: &LogHeader, part: &Part) -> Result<Cast, ElsewhereError> {
    let Entry { prefix, tasks, run, .. } = &part.entry;
    let number = |name: &str| name.strip_prefix(prefix.as_str())?.strip_prefix('.')?.parse::<u32>().ok();
    let mut seen = vec![false; *tasks];
    let mut cast = Cast { nr_tasks: *tasks, ..Cast::default() };
    for (row, task) in (0..).zip(&header.tasks) {
        let found = number(&task.name).filter(|number| (*number as usize) < *tasks);
        if let Some(number) = found {
            if seen[number as usize] {
                let why =
                    format!("two are called {prefix}.{number}; expected one: are two runs in this log?");
                return Err(not_of_plan(path, "tasks", why));
            }
            seen[number as usize] = true;
        }
        if task.name == format!("{prefix}.ctl") {
            cast.controller = Some(TaskId(row));
        }
        cast.tasks.push(found.map(TaskId));
    }
    let missing: Vec<usize> =
        (0..*tasks).filter(|number| !seen[*number] && !part.may_be_unborn(*number)).collect();
    if let Some(first) = missing.first() {
        let other = header
            .tasks
            .iter()
            .find_map(|task| task.name.strip_prefix('h')?.split_once('.').map(|_| &task.name));
        let hint = match other {
            Some(name) if !name.starts_with(prefix.as_str()) => {
                format!("; it has '{name}', as a run of another plan or another run of this one has")
            }
            _ => String::new(),
        };
        let why = format!(
            "{} of the {tasks} tasks of {run} are not in it, the first of them {prefix}.{first}{hint}",
            missing.len()
        );
        return Err(not_of_plan(path, "tasks", why));
    }
    let (has, wants) = (header.nr_cpus, part.nr_cpus);
    if has != wants {
        let why =
            format!("{has}: the plan is for {wants}; record on a machine with as many, or plan for {has}");
        return Err(not_of_plan(path, "CPUs", why));
    }
    Ok(cast)
}

impl Part {
    /// Children may be born after the end, or never.
    fn may_be_unborn(&self, task: usize) -> bool {
        matches!(self.scenario.workload.tasks[task].birth, schedlab_workload::Birth::Fork { .. })
    }
}

/// Gives the steps the times at which the controller took them.
fn as_taken(path: &Path, scenario: &mut Scenario, awake: &[(u64, u64)]) -> Result<(), ElsewhereError> {
    let mut number = 0;
    let mut before: Option<Span> = None;
    for mark in &mut scenario.marks {
        if let Some(before) = before
            && mark.at - before > Span::from_ns(BETWEEN_STEPS_NS)
        {
            number += 1;
        }
        before = Some(mark.at);
        let Some((from_ns, to_ns)) = awake.get(number) else {
            let why = format!(
                "the controller was awake {} times; the step at {} was not taken",
                awake.len(),
                mark.at
            );
            return Err(not_of_plan(path, "steps", why));
        };
        (mark.at, mark.took) = (Span::from_ns(*from_ns), Span::from_ns(to_ns - from_ns));
    }
    Ok(())
}

/// When was a task of the plan first seen?
struct FirstSeen<'a> {
    cast: &'a Cast,
    first_ns: Option<u64>,
}

impl FirstSeen<'_> {
    fn see(&mut self, row: Row, ns: u64) {
        if self.cast.tasks.get(row.index()).copied().flatten().is_some() {
            self.first_ns = Some(self.first_ns.map_or(ns, |first| first.min(ns)));
        }
    }
}

impl Observer for FirstSeen<'_> {
    fn wait_end(&mut self, wait: &Wait) {
        self.see(wait.row, wait.since_ns);
    }
    fn run_end(&mut self, run: &Run) {
        self.see(run.row, run.since_ns);
    }
}
