//! Makes runs: looks up what a trial names, gives it its key, runs it, and judges what comes of it.
//!
//! ```text
//!   Trial ── workload, kernel, machine, costs ──> Key          what made it, by content
//!         ── lab::run ── worker, forked child ──> Outcome      a failed run is an outcome too
//!                                             └─> SweepError   the host could not: nothing to be kept
//! ```
//!
//! Workloads, schedulers, machines and costs are looked up once, for all threads.

use crate::error::SweepError;
use crate::key::{Key, Naming, Summing, hex};
use crate::order::ObjectFacts;
use crate::row::{self, Cell, FAILED, RUNS, SweptRun, TableRow};
use crate::trial::Trial;
use schedlab_instruments::jobs::job_report;
use schedlab_lab::{
    Ended, Fails, Finished, Loaded, Progress, Setting, Silent, Standard, Subject, SubjectSpec,
};
use schedlab_machine::kernel::SKEW_TICK;
use schedlab_machine::{Costs, Perturb};
use schedlab_runner::{ExitKind, RunError, RunRequest, Scheduler};
use schedlab_stdx::lock;
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::generate::{GenerateError, Spec};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where trials become runs. Used by all threads of a sweep.
pub struct Bench {
    base: PathBuf,
    workloads: Mutex<Workloads>,
    subjects: Mutex<HashMap<(String, u32, bool), Arc<Known>>>,
    machines: Mutex<HashMap<String, Topology>>,
    costs: Mutex<HashMap<String, Costs>>,
    /// Kernel objects by path, for orders.
    pub(crate) objects: Mutex<HashMap<PathBuf, ObjectFacts>>,
    stall_limit: Duration,
}

/// A workload with its name by content.
pub(crate) struct Ready {
    pub(crate) loaded: Loaded,
    pub(crate) sha256: [u8; 32],
}

/// Those used last are last; what files held when they were first read is remembered for all.
#[derive(Default)]
struct Workloads {
    kept: VecDeque<(String, Arc<Ready>, u64)>,
    first_seen: HashMap<String, [u8; 32]>,
}

/// A scheduler without a trial's own parameters, and its name by content.
struct Known {
    subject: Subject,
    kernel_key: Option<String>,
}

/// Memory for workloads that may be wanted again.
const KEPT_BYTES: u64 = 128 << 20;
/// How many of those.
const KEPT_MAX: usize = 64;
/// A run whose process was ended from outside is made again so often.
const TRIES: u32 = 10;
/// CPUs up to which a kernel is built small.
const SMALL_BUILD_CPUS: u32 = 64;

/// Everything that a trial names, looked up.
pub struct Prepared {
    /// The run's name.
    pub key: Key,
    pub(crate) ready: Arc<Ready>,
    pub(crate) subject: Subject,
    pub(crate) kernel_key: Option<String>,
    pub(crate) topology: Topology,
    duration: Option<Span>,
    perturb: Option<Perturb>,
    pub(crate) costs: Option<Costs>,
}

impl Prepared {
    /// Whether it is real Linux.
    pub(crate) fn is_linux(&self) -> bool {
        self.subject.linux().is_some()
    }

    pub(crate) fn request(&self, stall_limit: Duration) -> RunRequest<'_> {
        RunRequest {
            duration: self.duration,
            perturb: self.perturb,
            costs: self.costs,
            stall_limit,
            ..self.subject.on(&self.ready.loaded.workload, self.topology.clone())
        }
    }
}

impl Bench {
    /// Paths in trials are relative to `base`.
    pub fn new(base: &Path) -> Bench {
        Bench {
            base: base.to_owned(),
            workloads: Mutex::default(),
            subjects: Mutex::default(),
            machines: Mutex::default(),
            costs: Mutex::default(),
            objects: Mutex::default(),
            stall_limit: schedlab_runner::STALL_LIMIT,
        }
    }

    /// Ends a run as a stall if its scheduler does nothing for this long.
    #[must_use]
    pub fn with_stall_limit(mut self, stall_limit: Duration) -> Bench {
        self.stall_limit = stall_limit;
        self
    }

    /// The run's name.
    ///
    /// # Errors
    /// The trial makes no run: a setting with its value, and what to do.
    pub fn key(&self, trial: &Trial) -> Result<Key, SweepError> {
        self.prepare(trial, &Silent).map(|prepared| prepared.key)
    }

    /// Makes the run.
    ///
    /// # Errors
    /// As [`Bench::key`]; or the host could not make it. A run that fails is no error.
    pub fn run(&self, trial: &Trial) -> Result<SweptRun, SweepError> {
        let prepared = self.prepare(trial, &Silent)?;
        self.perform(trial, &prepared, None, &mut || true)
    }

    /// Looks everything up; real Linux is built if it is not there yet, which `progress` hears.
    ///
    /// # Errors
    /// As [`Bench::key`].
    pub fn prepare(&self, trial: &Trial, progress: &dyn Progress) -> Result<Prepared, SweepError> {
        let topology = self.machine(&trial.machine)?;
        let ready = self.workload(trial, progress)?;
        let subject = self.subject(trial, topology.nr_cpus(), progress)?;
        let costs = self.costs(trial)?;
        let duration = ready.loaded.duration;
        self.assembled(trial, (ready, duration), subject, topology, costs)
    }

    /// What was looked up, with the run's name. Of the workload also when a run of it ends.
    pub(crate) fn assembled(
        &self,
        trial: &Trial,
        (ready, duration): (Arc<Ready>, Option<Span>),
        (subject, kernel_key): (Subject, Option<String>),
        topology: Topology,
        costs: Option<Costs>,
    ) -> Result<Prepared, SweepError> {
        let duration = match &trial.duration {
            Some(text) => {
                Some(text.parse::<Span>().map_err(|error| SweepError::setting("duration", text, error))?)
            }
            None => duration,
        };
        let perturb = perturb(trial)?;
        let key =
            key(&ready, &subject, kernel_key.as_deref(), &topology, (duration, trial.seed, perturb, costs))?;
        Ok(Prepared { key, ready, subject, kernel_key, topology, duration, perturb, costs })
    }

    /// Makes the run that was looked up. Its log goes to `log`, if that is wanted. `go_on` is asked some twenty times
    /// a second, and ends it with a false.
    ///
    /// # Errors
    /// The host could not make it; or it was not to go on.
    pub fn perform(
        &self,
        trial: &Trial,
        prepared: &Prepared,
        log: Option<&Path>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SweptRun, SweepError> {
        let request = prepared.request(self.stall_limit);
        let mut tries = 0;
        let ended = loop {
            tries += 1;
            let ended = schedlab_lab::run_while(&request, Standard::Shown, go_on);
            match &ended {
                Err(lost) if is_lost(lost) && tries < TRIES => continue,
                _ => break ended,
            }
        };
        let outcome = match ended {
            Ok(finished) => {
                if let Some(path) = log {
                    schedlab_log::write(path, &finished.log)
                        .map_err(|error| SweepError::Host(error.to_string()))?;
                }
                finished_row(trial, prepared, &finished)?
            }
            Err(ended) => failed_row(trial, prepared, ended)?,
        };
        Ok(outcome)
    }

    pub(crate) fn machine(&self, text: &str) -> Result<Topology, SweepError> {
        if let Some(known) = lock(&self.machines).get(text) {
            return Ok(known.clone());
        }
        // a folder is relative to the description, as workloads are
        let path = self.base.join(text);
        let full = if text.contains('/') { path.to_string_lossy().into_owned() } else { text.to_owned() };
        let topology: Topology = full.parse().map_err(|error| SweepError::setting("machine", text, error))?;
        lock(&self.machines).insert(text.to_owned(), topology.clone());
        Ok(topology)
    }

    fn costs(&self, trial: &Trial) -> Result<Option<Costs>, SweepError> {
        let Some(text) = trial.costs.as_deref().filter(|costs| *costs != "none") else { return Ok(None) };
        if let Some(known) = lock(&self.costs).get(text) {
            return Ok(Some(*known));
        }
        let costs = schedlab_lab::load_costs(&self.base.join(text));
        let costs = costs.map_err(|error| SweepError::setting("costs", text, error))?;
        lock(&self.costs).insert(text.to_owned(), costs);
        Ok(Some(costs))
    }

    pub(crate) fn workload(&self, trial: &Trial, progress: &dyn Progress) -> Result<Arc<Ready>, SweepError> {
        let settings = trial.settings_toml();
        let name = settings.clone().or_else(|| trial.workload.clone());
        let Some(name) = name else {
            return Err(SweepError::setting(
                "workload",
                "",
                "a run has a workload: a path, or a generator's kind",
            ));
        };
        if let Some(ready) = self.known_workload(&name) {
            return Ok(ready);
        }
        // (others go on meanwhile; two may make the same one)
        let mut loaded = match &settings {
            Some(settings) => generated(trial, settings)?,
            None => schedlab_lab::load(&self.base.join(&name), progress)
                .map_err(|error| SweepError::setting("workload", &name, error))?,
        };
        let sha256 = content(&mut loaded)?;
        if settings.is_none()
            && *lock(&self.workloads).first_seen.entry(name.clone()).or_insert(sha256) != sha256
        {
            return Err(SweepError::Changed { workload: name });
        }
        Ok(self.keep(name, Ready { loaded, sha256 }))
    }

    /// A workload that is in memory.
    pub(crate) fn known_workload(&self, name: &str) -> Option<Arc<Ready>> {
        let mut workloads = lock(&self.workloads);
        let at = workloads.kept.iter().position(|(known, ..)| *known == name)?;
        let kept = workloads.kept.remove(at).expect("it is there");
        let ready = kept.1.clone();
        workloads.kept.push_back(kept);
        Some(ready)
    }

    /// Keeps a workload in memory, for as long as there is room.
    pub(crate) fn keep(&self, name: String, ready: Ready) -> Arc<Ready> {
        let workload = &ready.loaded.workload;
        let bytes = workload.nr_events() * 48 + workload.tasks.len() as u64 * 300;
        let ready = Arc::new(ready);
        let mut workloads = lock(&self.workloads);
        workloads.kept.push_back((name, ready.clone(), bytes));
        let mut total: u64 = workloads.kept.iter().map(|(.., bytes)| bytes).sum();
        while workloads.kept.len() > KEPT_MAX || (total > KEPT_BYTES && workloads.kept.len() > 1) {
            total -= workloads.kept.pop_front().map_or(0, |(.., bytes)| bytes);
        }
        ready
    }

    /// The scheduler with the trial's parameters and seed, and the key of its kernel.
    pub(crate) fn subject(
        &self,
        trial: &Trial,
        nr_cpus: u32,
        progress: &dyn Progress,
    ) -> Result<(Subject, Option<String>), SweepError> {
        let wrong = |error: schedlab_lab::SubjectError| SweepError::setting("sched", &trial.sched, error);
        let spec: SubjectSpec = trial.sched.parse().map_err(wrong)?;
        let params: Vec<(String, String)> =
            trial.params.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let setting = Setting { hz: trial.hz(), nr_cpus, progress };
        let of_param = |error: schedlab_lab::SubjectError| match (&error, params.as_slice()) {
            (schedlab_lab::SubjectError::Params(_), [(name, value), ..]) => {
                let text = error.to_string();
                let named = params.iter().find(|(name, _)| text.contains(name.as_str()));
                let (name, value) = named.map_or((name, value), |(name, value)| (name, value));
                SweepError::setting(&format!("param.{name}"), value, text)
            }
            _ => wrong(error),
        };
        let is_linux = spec.is_linux();
        // sub-schedulers are compiled with the scheduler
        let builds = params.iter().any(|(name, _)| name.contains('@'));
        let (subject, kernel_key) = if !is_linux || builds {
            let subject = spec.and(&params).resolve(setting).map_err(of_param)?;
            let kernel_key = kernel_key(&subject)?;
            (subject, kernel_key)
        } else {
            let place = (trial.sched.clone(), trial.hz(), nr_cpus <= SMALL_BUILD_CPUS);
            // (held meanwhile: nobody builds a kernel twice)
            let mut subjects = lock(&self.subjects);
            let known = match subjects.get(&place) {
                Some(known) => known.clone(),
                None => {
                    let subject = spec.resolve(setting).map_err(wrong)?;
                    let kernel_key = kernel_key(&subject)?;
                    let known = Arc::new(Known { subject, kernel_key });
                    subjects.insert(place, known.clone());
                    known
                }
            };
            drop(subjects);
            let mut subject = known.subject.clone();
            subject.params.extend(params);
            (subject, known.kernel_key.clone())
        };
        Ok((dressed(subject, trial)?, kernel_key))
    }
}

/// A scheduler with the trial's ticks and seed.
pub(crate) fn dressed(mut subject: Subject, trial: &Trial) -> Result<Subject, SweepError> {
    match trial.ticks.as_deref() {
        None | Some("aligned") => {}
        Some("staggered") => subject = subject.with(SKEW_TICK, "1"),
        Some(other) => return Err(SweepError::setting("ticks", other, "expected aligned or staggered")),
    }
    Ok(match trial.seed {
        Some(seed) => subject.seeded(seed),
        None => subject,
    })
}

fn generated(trial: &Trial, settings: &str) -> Result<Loaded, SweepError> {
    let workload = Spec::from_toml("", settings)
        .and_then(|spec| spec.build())
        .map_err(|error| wrong_setting(trial, settings, &error))?;
    let (name, path) = (String::new(), PathBuf::new());
    Ok(Loaded { workload, name, notes: Vec::new(), path, derived: None, duration: None, format: None })
}

/// Which of the generator's settings an error is of: the one it stands at, or the one it names.
fn wrong_setting(trial: &Trial, settings: &str, error: &GenerateError) -> SweepError {
    let (number, what) = match error {
        GenerateError::Toml { message, place, .. } => {
            let before = settings.get(..place.as_ref().map_or(0, |place| place.start)).unwrap_or_default();
            // (the kind has the first line, and each setting one)
            (before.matches('\n').count().checked_sub(1), message.clone())
        }
        GenerateError::Parameter { name, expected, .. } => {
            (trial.set.keys().position(|known| known == name), format!("expected {expected}"))
        }
        GenerateError::Kind { .. } | GenerateError::TooLarge(_) => (None, error.to_string()),
    };
    match number.and_then(|number| trial.set.iter().nth(number)) {
        Some((name, value)) => SweepError::setting(&format!("set.{name}"), &value.to_string(), what),
        None => {
            let kind = trial.generate.as_deref().unwrap_or_default();
            let said =
                if matches!(error, GenerateError::Parameter { .. }) { error.to_string() } else { what };
            SweepError::setting("generate", kind, said)
        }
    }
}

/// SHA-256 of the workload's binary form without notes: those say where it came from.
pub(crate) fn content(loaded: &mut Loaded) -> Result<[u8; 32], SweepError> {
    let notes = std::mem::take(&mut loaded.workload.notes);
    let mut sum = Summing::default();
    let written = schedlab_workload::write_binary(&loaded.workload, &mut sum);
    loaded.workload.notes = notes;
    written.map_err(|error| SweepError::Internal(format!("a workload has no binary form: {error}")))?;
    Ok(sum.sum())
}

fn perturb(trial: &Trial) -> Result<Option<Perturb>, SweepError> {
    match (trial.seed, &trial.perturb) {
        (None, None) => Ok(None),
        (Some(seed), None) => Ok(Some(Perturb::new(seed))),
        (None, Some(ranges)) => {
            Err(SweepError::setting("perturb", ranges, "it goes with a seed, which is not given"))
        }
        (Some(seed), Some(ranges)) => format!("{seed},{ranges}")
            .parse()
            .map(Some)
            .map_err(|error| SweepError::setting("perturb", ranges, error)),
    }
}

/// The kernel object by all that went into it; of a tree, whose key is its path, by its bytes.
fn kernel_key(subject: &Subject) -> Result<Option<String>, SweepError> {
    let Some(linux) = subject.linux() else { return Ok(None) };
    let folder = linux.object.parent();
    let built = schedlab_linux::build::installed().unwrap_or_default();
    let built = built.into_iter().find(|kernel| Some(kernel.dir.as_path()) == folder);
    let mut key = match built.filter(|kernel| kernel.origin != schedlab_linux::build::Origin::Tree) {
        Some(kernel) => kernel.key,
        None => {
            let mut sum = Summing::default();
            let mut file =
                std::fs::File::open(&linux.object).map_err(SweepError::io("read", &linux.object))?;
            std::io::copy(&mut file, &mut sum).map_err(SweepError::io("read", &linux.object))?;
            hex(&sum.sum())
        }
    };
    if let Some(scx) = &linux.scx {
        key.push_str(&format!("+scx:{}", scx.source_sha256));
        for (group, sub) in &scx.subs {
            key.push_str(&format!("+{group}:{}", sub.source_sha256));
        }
    }
    Ok(Some(key))
}

/// How long, which seed, which variation, which costs.
type Rest = (Option<Span>, Option<u64>, Option<Perturb>, Option<Costs>);

fn key(
    ready: &Ready,
    subject: &Subject,
    kernel_key: Option<&str>,
    topology: &Topology,
    (duration, seed, perturb, costs): Rest,
) -> Result<Key, SweepError> {
    let mut naming = Naming::new()
        .and("engine", schedlab_runner::ENGINE.as_bytes())
        .and("workload", &ready.sha256)
        .and("sched", subject.scheduler.name().as_bytes())
        .and("version", subject.scheduler.version().as_bytes())
        .and("kernel", kernel_key.unwrap_or_default().as_bytes())
        .and("hz", &subject.scheduler.hz().to_le_bytes());
    if let Scheduler::Native(info) = subject.scheduler
        && schedlab_policies::is_extra(info.name)
    {
        naming = naming.and("program", program()?.as_bytes()); // its source is in no engine
    }
    // of equal names the later one counts
    let params: BTreeMap<&str, &str> =
        subject.params.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for (name, value) in params {
        naming = naming.and("param", name.as_bytes()).and("value", value.as_bytes());
    }
    for cpu in topology.cpus() {
        let numbers = [cpu.core, cpu.cluster, cpu.llc, cpu.package, cpu.node, cpu.capacity];
        naming = naming.and("cpu", &numbers.map(u32::to_le_bytes).concat());
    }
    for distance in topology.distances() {
        naming = naming.and("distance", &distance.to_le_bytes());
    }
    if let Some(duration) = duration {
        naming = naming.and("duration", &duration.as_ns().to_le_bytes());
    }
    if let Some(seed) = seed {
        naming = naming.and("seed", &seed.to_le_bytes());
    }
    if let Some(perturb) = perturb {
        naming = naming.and("perturb", perturb.to_string().as_bytes());
    }
    if let Some(costs) = costs.filter(|costs| !costs.is_none()) {
        naming = naming.and("costs", costs.to_string().as_bytes());
    }
    Ok(naming.key())
}

/// SHA-256 of this very program: for policies of its own.
fn program() -> Result<String, SweepError> {
    static SUM: Mutex<Option<String>> = Mutex::new(None);
    let mut known = lock(&SUM);
    if let Some(sum) = &*known {
        return Ok(sum.clone());
    }
    let path = Path::new("/proc/self/exe");
    let mut sum = Summing::default();
    let mut file = std::fs::File::open(path).map_err(SweepError::io("read", path))?;
    std::io::copy(&mut file, &mut sum).map_err(SweepError::io("read", path))?;
    Ok(known.insert(hex(&sum.sum())).clone())
}

/// Its process was ended from outside: that says nothing of the run.
fn is_lost(ended: &Ended) -> bool {
    match ended {
        Ended::NotStarted(RunError::Worker(_)) => true,
        Ended::Misbehaved { report, .. } => {
            report.kind == ExitKind::Crash
                && report.reason.contains("SIGKILL (ended from outside, or out of memory)")
        }
        _ => false,
    }
}

/// The columns up to `nr_tasks`, for every run.
struct Head<'a> {
    status: &'a str,
    exit_status: u8,
    end: &'a str,
    failure: Option<String>,
    exit: Option<(&'static str, String, u64)>,
    params: &'a [(String, String)],
    duration_ns: Option<u64>,
}

fn head(trial: &Trial, prepared: &Prepared, head: Head<'_>) -> TableRow {
    let text = |text: Option<String>| text.map_or(Cell::Null, Cell::text);
    let scheduler = &prepared.subject.scheduler;
    let mut row: TableRow = Vec::with_capacity(RUNS.len());
    row.push(Cell::text(prepared.key.to_string()));
    row.push(Cell::text(head.status));
    row.push(Cell::Int(head.exit_status.into()));
    row.push(Cell::text(head.end));
    row.push(text(head.failure));
    match head.exit {
        Some((kind, reason, time_ns)) => {
            row.extend([Cell::text(kind), Cell::text(reason), Cell::count(time_ns)])
        }
        None => row.extend([Cell::Null, Cell::Null, Cell::Null]),
    }
    row.push(Cell::text(trial.command()));
    row.push(Cell::text(trial.to_json()));
    row.push(Cell::text(trial.workload_name()));
    row.push(Cell::text(hex(&prepared.ready.sha256)));
    row.push(Cell::text(scheduler.name()));
    row.push(Cell::text(scheduler.version()));
    row.push(text(prepared.kernel_key.clone()));
    row.push(Cell::text(object(head.params)));
    row.push(Cell::Int(prepared.topology.nr_cpus().into()));
    row.push(Cell::text(trial.machine.as_str()));
    row.push(Cell::Int(scheduler.hz().into()));
    row.push(head.duration_ns.map_or(Cell::Null, Cell::count));
    row.push(trial.seed.map_or(Cell::Null, Cell::count));
    row.push(text(prepared.perturb.map(|perturb| perturb.to_string())));
    row.push(text(prepared.costs.filter(|costs| !costs.is_none()).map(|costs| costs.to_string())));
    row.push(Cell::text(schedlab_runner::ENGINE));
    row.push(Cell::count(prepared.ready.loaded.workload.tasks.len() as u64));
    row
}

/// Names and values as a JSON object, in this order.
fn object(pairs: &[(String, String)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| (name.clone(), value.clone().into()));
    serde_json::Value::Object(pairs.collect()).to_string()
}

/// What and how many times, as `run --json` has it.
fn changed(changed: &BTreeMap<String, u64>) -> String {
    let list = changed.iter().map(|(what, times)| serde_json::json!({ "what": what, "times": times }));
    list.collect::<serde_json::Value>().to_string()
}

fn finished_row(trial: &Trial, prepared: &Prepared, finished: &Finished) -> Result<SweptRun, SweepError> {
    let workload = &prepared.ready.loaded.workload;
    let header = schedlab_log::Log::header(&finished.log);
    let end = if finished.is_done() {
        "every task is done".to_owned()
    } else {
        format!("stopped after {}", Span::from_ns(finished.report.duration_ns))
    };
    let warnings = &finished.report.warnings;
    let warned = !warnings.is_empty();
    let failure = warned.then(|| {
        let (sched, warnings) = (header.sched.clone(), warnings.clone());
        Ended::Warned { sched, warnings }.to_string()
    });
    let (status, exit_status) = if warned { ("warned", 1) } else { ("done", 0) };
    let of = Head {
        status,
        exit_status,
        end: &end,
        failure,
        exit: None,
        params: &header.params,
        duration_ns: Some(header.duration.as_ns()),
    };
    let mut row = head(trial, prepared, of);
    row::numbers(&mut row, &finished.summary);
    let jobs = job_report(&finished.log, workload)
        .map_err(|problem| SweepError::Host(Ended::from(problem).to_string()))?;
    match jobs {
        Some(report) => {
            row.extend([report.jobs.misses(), report.jobs.worst_tardiness_ns()].map(Cell::count));
        }
        None => row.extend([Cell::Null, Cell::Null]),
    }
    let mut dropped = workload.dropped.clone();
    for (reason, count) in finished.dropped.iter().chain(&finished.report.refused) {
        *dropped.entry(reason.clone()).or_default() += count;
    }
    row.push(Cell::text(changed(&finished.changed)));
    row.push(Cell::text(serde_json::to_string(&dropped).expect("texts and numbers have a JSON form")));
    row.push(Cell::text(serde_json::to_string(warnings).expect("texts have a JSON form")));
    let key = prepared.key.to_string();
    let tasks = header.tasks.iter().zip(&finished.summary.tasks).enumerate().map(|(id, (task, stats))| {
        let done = finished.report.finished.get(id).copied().unwrap_or(false);
        row::task(&key, id, task, stats, done)
    });
    let tasks = tasks.collect();
    Ok(SweptRun::new(prepared.key, row, tasks))
}

/// A run without numbers, if it is the run that failed.
fn failed_row(trial: &Trial, prepared: &Prepared, ended: Ended) -> Result<SweptRun, SweepError> {
    let exit = match &ended {
        Ended::NotStarted(RunError::Program(_) | RunError::Scheduler(_))
        | Ended::Deadlock { .. }
        | Ended::Refused { .. } => None,
        Ended::Misbehaved { report, .. } => {
            Some((report.kind.as_str(), report.reason.clone(), report.time_ns))
        }
        Ended::NotAsAsked { .. } | Ended::Warned { .. } => unreachable!("Standard::Shown shows them"),
        Ended::NotStarted(RunError::Stopped) => return Err(SweepError::Stopped),
        Ended::NotStarted(RunError::Worker(why)) => {
            return Err(SweepError::Host(format!(
                "the worker process of a run was lost {TRIES} times, the last time it {why}; repeat it with: {}",
                trial.command()
            )));
        }
        Ended::NotStarted(_) | Ended::Log(_) => return Err(SweepError::Host(ended.to_string())),
        Ended::Internal(why) => {
            return Err(SweepError::Internal(format!("{why}; repeat it with: {}", trial.command())));
        }
    };
    let mut params = prepared.subject.params.clone();
    params.sort();
    let end = match &exit {
        Some((kind, ..)) => (*kind).to_owned(),
        None => match &ended {
            Ended::Deadlock { .. } => "deadlock".to_owned(),
            _ => "refused".to_owned(),
        },
    };
    let of = Head {
        status: FAILED,
        exit_status: ended.kind().exit_status(),
        end: &end,
        failure: Some(ended.short()),
        exit,
        params: &params,
        duration_ns: None,
    };
    let mut row = head(trial, prepared, of);
    row.resize(RUNS.len(), Cell::Null);
    Ok(SweptRun::new(prepared.key, row, Vec::new()))
}
