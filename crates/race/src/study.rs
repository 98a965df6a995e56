//! Which barriers are needed, and which seeded bugs are found, by what, how soon?

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::RaceError;
use crate::abi;
use crate::compile::{self, Compiled, Frame, places};
use crate::engine::{Altered, Met};
use crate::explore::{Aside, Finding, Plan};
use crate::memory::MemoryModel;
use crate::scenario::Scenario;
use crate::seeded::Seeded;
use crate::strategy::Strategy;
use crate::whole;
use schedlab_linux::build;

/// A finding of an unmodified kernel whose reason is known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// The target; `linux`: the whole scheduler, of any version and flavour.
    pub target: String,
    /// Of which series of Linux, e.g. `6.1`; empty: of all. A tree of one's own counts by its version.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// In which scenarios; empty: in all.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// Under which models.
    pub models: Vec<String>,
    /// The edit of `linux/race/seeds` that mends it; empty: none.
    pub mended_by: String,
    /// Of a whole scheduler: no schedule without stops shows it. One that does has a reason of its own.
    #[serde(default)]
    pub needs_stop: bool,
    /// The finding's text; `cpuN` stands for any CPU.
    pub text: String,
    /// Where in the source.
    pub place: String,
    /// Why it does no harm.
    pub reason: String,
}

impl Explained {
    /// Whether it explains findings of this target of this version, as it is or with a bug, under this model. A bug
    /// that needs late stores may show the same text for a reason of its own, and is believed.
    pub fn covers(&self, target: &str, version: &str, model: MemoryModel, seeded: Option<&Seeded>) -> bool {
        let is_mended = |s: &Seeded| {
            !self.mended_by.is_empty()
                && (s.base == self.mended_by || s.name == self.mended_by || s.needs == "weak")
        };
        let is_target = match target.starts_with(whole::PREFIX) {
            true => self.target == "linux",
            false => self.target == target,
        };
        let is_kernel = whole::is_of_series(&self.kernels, version);
        let is_model = self.models.iter().any(|name| name == model.name());
        is_target && is_kernel && is_model && !seeded.is_some_and(is_mended)
    }

    /// What ends no search of this scenario, of a target that is covered.
    pub fn aside(&self, scenario: &str) -> Option<Aside> {
        let is_here = self.scenarios.is_empty() || self.scenarios.iter().any(|name| name == scenario);
        is_here.then(|| Aside { text: self.text.clone(), needs_stop: self.needs_stop })
    }

    /// Whether this finding of a target that is covered is the one.
    pub fn is(&self, finding: &Finding) -> bool {
        let aside = self.aside(&finding.scenario.name);
        aside.is_some_and(|aside| aside.is(&finding.text, finding.first_schedule))
    }
}

/// A text with `cpuN` for each `cpu0`, `cpu12`.
pub fn any_cpu(text: &str) -> String {
    let mut parts = text.split("cpu");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        all.push_str(if rest.len() < part.len() { "cpuN" } else { "cpu" });
        all.push_str(rest);
    }
    all
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllExplained {
    explained: Vec<Explained>,
}

/// All findings with a known reason.
///
/// # Errors
/// The file of them cannot be read.
pub fn explained() -> Result<Vec<Explained>, RaceError> {
    let path = build::port()?.join("race/explained.toml");
    let text = std::fs::read_to_string(&path).map_err(crate::io("read", &path))?;
    let all: AllExplained =
        toml::from_str(&text).map_err(|e| RaceError::Refused(format!("{}: {e}", path.display())))?;
    Ok(all.explained)
}

/// What is done to a barrier in an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It does nothing.
    Out,
    /// It stands before the access that was before it.
    Earlier,
    /// It stands behind the access that was behind it.
    Later,
}

impl Change {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Change::Out => "out",
            Change::Earlier => "earlier",
            Change::Later => "later",
        }
    }
}

/// What changing a barrier did.
#[derive(Clone, Debug)]
pub struct Audited {
    /// `full barrier`, `read barrier`, ...
    pub kind: &'static str,
    /// `kernel/sched/cpupri.c:250 cpupri_set`
    pub place: String,
    /// What was done to it.
    pub change: Change,
    /// Schedules executed so, over all scenarios: drawn ones.
    pub schedules: u64,
    /// And all those with at most [`AUDIT_BOUND`] deviations, over the scenarios of which these are all.
    pub bounded: u64,
    /// In how many of the scenarios these are all.
    pub complete: usize,
    /// What went wrong, with the plan that repeats it; `None`: nothing.
    pub finding: Option<(Plan, Finding)>,
}

impl Audited {
    /// As a schedule's file names it.
    pub fn words(&self) -> String {
        words(self.kind, &self.place, self.change)
    }
}

fn words(kind: &str, place: &str, change: Change) -> String {
    match change {
        Change::Out => format!("{kind} at {place}"),
        moved => format!("{kind} at {place}, {}", moved.name()),
    }
}

/// Preemptions, early stores and old loads together, of the exhaustive part of an audit.
pub const AUDIT_BOUND: u32 = 2;
/// Schedules of that part, of each scenario.
const BOUNDED_MOST: u64 = 400_000;

fn barrier_name(kind: u32) -> &'static str {
    match kind {
        abi::MB => "full barrier",
        abi::RMB => "read barrier",
        abi::WMB => "write barrier",
        abi::ACQUIRE => "acquire",
        abi::RELEASE => "release",
        abi::LOCK_ACQUIRE => "lock's acquire",
        abi::UNLOCK_RELEASE => "unlock's release",
        abi::ATOMIC_ORDER => "order of an atomic",
        _ => "barrier",
    }
}

/// A barrier of the source: all places in the object that it became.
#[derive(Clone, Debug, Default)]
struct Barrier {
    codes: Vec<usize>,
    before: Vec<usize>,
    behind: Vec<usize>,
}

impl Barrier {
    /// What is done to the object for a change; `None`: there is nothing that it could be moved over.
    fn altered(&self, kind: u32, change: Change) -> Option<Vec<Altered>> {
        let mut all: Vec<Altered> = self.codes.iter().map(|at| Altered::Out(*at)).collect();
        let places = match change {
            Change::Out => return Some(all),
            // an operation's own order cannot be moved
            _ if kind == abi::ATOMIC_ORDER => return None,
            Change::Earlier => &self.before,
            Change::Later => &self.behind,
        };
        all.extend(places.iter().map(|at| match change {
            Change::Earlier => Altered::Before(*at, kind),
            _ => Altered::Behind(*at, kind),
        }));
        (!places.is_empty()).then_some(all)
    }
}

type Barriers = BTreeMap<(String, u32), Barrier>;

/// Adds what a scenario met.
fn note(met: Vec<Met>, plan: &Plan, barriers: &mut Barriers) {
    let codes: Vec<usize> = met.iter().map(|met| met.code).collect();
    let add = |all: &mut Vec<usize>, new: &[usize]| {
        let missing: Vec<usize> = new.iter().filter(|at| !all.contains(at)).copied().collect();
        all.extend(missing);
    };
    for (met, place) in met.into_iter().zip(places(&plan.compiled.object, &codes, Frame::Innermost)) {
        let barrier = barriers.entry((place, met.kind)).or_default();
        add(&mut barrier.codes, &[met.code]);
        add(&mut barrier.before, &met.before);
        add(&mut barrier.behind, &met.behind);
    }
}

/// A stated property of a target: what the finding would say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// The finding's text.
    pub text: String,
    /// How many schedules broke it.
    pub broken: u64,
}

/// What a target states, from its source: the text of each finding that it could report.
///
/// # Errors
/// Its source cannot be read.
pub fn stated(target: &str) -> Result<Vec<String>, RaceError> {
    let race = build::port()?.join("race");
    let mut texts = Vec::new();
    for name in [format!("target_{target}.c"), "cpudl_heap.h".to_owned()] {
        if !name.contains(target) {
            continue;
        }
        let path = race.join(name);
        let source = std::fs::read_to_string(&path).map_err(crate::io("read", &path))?;
        let said = source.split("race_fail(\"").skip(1).filter_map(|rest| rest.split('"').next());
        texts.extend(said.map(str::to_owned));
    }
    Ok(texts)
}

/// Whether each stated property holds of the target as it is: schedules, and how many broke which.
///
/// # Errors
/// As [`audit`].
pub fn properties(plan: &Plan, scenarios: &[Scenario]) -> Result<(u64, Vec<Stated>), RaceError> {
    let plan = Plan { findings: usize::MAX, ..plan.clone() };
    let mut schedules = 0;
    let mut all: Vec<Stated> =
        stated(&plan.compiled.name)?.into_iter().map(|text| Stated { text, broken: 0 }).collect();
    for scenario in scenarios {
        let explored = plan.explore(scenario)?;
        schedules += explored.schedules;
        for finding in explored.findings {
            match all.iter_mut().find(|one| one.text == finding.text) {
                Some(one) => one.broken += finding.times,
                None => all.push(Stated { text: finding.text, broken: finding.times }),
            }
        }
    }
    Ok((schedules, all))
}

/// Changes a barrier and looks for what is not among the known findings: at random first, then all schedules with few
/// deviations.
fn try_change(
    plan: &Plan,
    scenarios: &[Scenario],
    known: &[String],
    one: &mut Audited,
) -> Result<(), RaceError> {
    let bounded = Plan {
        strategy: Strategy::Bounded(AUDIT_BOUND),
        schedules: BOUNDED_MOST.min(plan.schedules.saturating_mul(4)),
        jobs: 1,
        ..plan.clone()
    };
    for (is_drawn, plan) in [(true, plan), (false, &bounded)] {
        for scenario in scenarios {
            let explored = plan.explore(scenario)?;
            match is_drawn {
                true => one.schedules += explored.schedules,
                false => {
                    one.bounded += explored.schedules;
                    one.complete += usize::from(explored.is_complete);
                }
            }
            if let Some(new) = explored.findings.into_iter().find(|f| !known.contains(&f.text)) {
                one.finding = Some((plan.clone(), new));
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Takes each barrier out that the scenarios meet, and moves it, one after the other.
///
/// # Errors
/// A process was lost; a scenario asks for what is not there.
pub fn audit(
    plan: &Plan,
    scenarios: &[Scenario],
    heard: &mut dyn FnMut(&Audited),
) -> Result<Vec<Audited>, RaceError> {
    let mut known = Vec::new();
    let mut met = Barriers::new();
    for scenario in scenarios {
        let explored = plan.explore(scenario)?;
        known.extend(explored.findings.into_iter().map(|f| f.text));
        note(explored.barriers, plan, &mut met);
    }
    let mut audited = Vec::new();
    for ((place, kind), barrier) in met {
        for change in [Change::Out, Change::Earlier, Change::Later] {
            let Some(without) = barrier.altered(kind, change) else { continue };
            let plan = Plan { without, findings: usize::MAX, ..plan.clone() };
            let (kind, place) = (barrier_name(kind), place.clone());
            let mut one =
                Audited { kind, place, change, schedules: 0, bounded: 0, complete: 0, finding: None };
            try_change(&plan, scenarios, &known, &mut one)?;
            heard(&one);
            audited.push(one);
        }
    }
    Ok(audited)
}

/// What is done to the object for barriers that a schedule's file names ([`Audited::words`], or the place alone).
///
/// # Errors
/// No scenario meets one there.
pub fn barriers_at(plan: &Plan, scenario: &Scenario, wanted: &[String]) -> Result<Vec<Altered>, RaceError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let one = Plan { schedules: 1, jobs: 1, without: Vec::new(), ..plan.clone() };
    let mut met = Barriers::new();
    note(one.explore(scenario)?.barriers, plan, &mut met);
    // places that a shrunk scenario comes to only in other orders
    if compile::KERNEL_TARGETS.iter().any(|(name, _)| *name == plan.compiled.name) {
        for other in compile::scenarios(&plan.compiled.name)? {
            note(one.explore(&other)?.barriers, plan, &mut met);
        }
    }
    let mut found = Vec::new();
    for text in wanted {
        let before = found.len();
        for ((place, kind), barrier) in &met {
            for change in [Change::Out, Change::Earlier, Change::Later] {
                let is_it = words(barrier_name(*kind), place, change) == *text
                    || change == Change::Out && place == text;
                found.extend(barrier.altered(*kind, change).filter(|_| is_it).into_iter().flatten());
            }
        }
        if found.len() == before {
            let met: Vec<String> =
                met.keys().map(|(place, kind)| words(barrier_name(*kind), place, Change::Out)).collect();
            return Err(RaceError::Refused(format!(
                "no barrier '{text}' is met by this scenario; there are: {}",
                met.join("; ")
            )));
        }
    }
    Ok(found)
}

/// A seeded bug under one search.
#[derive(Clone, Debug)]
pub struct Score {
    /// The search.
    pub strategy: Strategy,
    /// Memory.
    pub model: MemoryModel,
    /// Schedules up to the first finding, the median over the seeds; `None`: at most half of the seeds found it.
    pub schedules: Option<u64>,
    /// CPU time of that, s, estimated from the rate of the whole search.
    pub wall_s: f64,
    /// Schedules that were tried at most.
    pub tried: u64,
    /// The finding, of the first seed that has one.
    pub finding: Option<String>,
}

/// Schedules at first; ten times as many when nothing is found.
const FIRST: u64 = 1000;

/// Searches for a seeded bug with several seeds. `most`: schedules of each scenario.
///
/// # Errors
/// It cannot be compiled; a process was lost.
pub fn score(
    compiled: &Compiled,
    scenarios: &[Scenario],
    (strategy, model): (Strategy, MemoryModel),
    (seeds, most): (u64, u64),
    known: &[String],
) -> Result<Score, RaceError> {
    let started = std::time::Instant::now();
    let mut hits = Vec::new();
    let mut finding = None;
    let nr = scenarios.len() as u64;
    let seeds = if strategy.is_exhaustive() { 1 } else { seeds };
    for seed in 1..=seeds {
        let mut limit = FIRST.min(most);
        loop {
            let plan = Plan {
                compiled: compiled.clone(),
                model,
                strategy,
                seed,
                schedules: limit,
                jobs: 1,
                findings: 4,
                from: 0,
                aside: Vec::new(),
                without: Vec::new(),
                races: false,
            };
            let mut first: Option<(u64, Finding)> = None;
            let mut is_complete = true;
            for (n, scenario) in scenarios.iter().enumerate() {
                let explored = plan.explore(scenario)?;
                is_complete &= explored.is_complete;
                let new = explored.findings.into_iter().find(|f| !known.contains(&f.text));
                let Some(new) = new else { continue };
                // scenarios take turns
                let at = new.first_schedule * nr + n as u64 + 1;
                if first.as_ref().is_none_or(|(best, _)| at < *best) {
                    first = Some((at, new));
                }
            }
            if let Some((at, new)) = first {
                hits.push(at);
                finding.get_or_insert(format!("{}: {}", new.kind, new.text));
                break;
            }
            if limit >= most || is_complete && strategy.is_exhaustive() {
                break;
            }
            limit = (limit * 10).min(most);
        }
    }
    hits.sort_unstable();
    let is_found = hits.len() as u64 * 2 > seeds;
    Ok(Score {
        strategy,
        model,
        schedules: is_found.then(|| hits[(hits.len() - 1) / 2]),
        wall_s: started.elapsed().as_secs_f64() / seeds as f64,
        tried: most,
        finding,
    })
}

/// A kernel's target with a seeded bug, and its scenarios.
///
/// # Errors
/// It cannot be compiled.
pub fn seeded(
    seeded: &Seeded,
    kernel: &schedlab_linux::BuiltKernel,
) -> Result<(Compiled, Vec<Scenario>), RaceError> {
    Ok((compile::kernel_target(&seeded.target, kernel, Some(seeded))?, compile::scenarios(&seeded.target)?))
}

/// Whether a path is meant rather than a kernel's target.
pub fn is_file(target: &str) -> bool {
    target.ends_with(".c") || target.ends_with(".litmus") || Path::new(target).is_file()
}
