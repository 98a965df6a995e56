//! Which barriers are needed, and which seeded bugs are found, by what, how soon?

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::RaceError;
use crate::abi;
use crate::compile::{self, Compiled, Seeded, places};
use crate::explore::{Finding, Plan};
use crate::memory::MemoryModel;
use crate::scenario::Scenario;
use crate::strategy::Strategy;
use schedlab_linux::build;

/// A finding of an unmodified kernel whose reason is known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// The target.
    pub target: String,
    /// Under which models.
    pub models: Vec<String>,
    /// The edit of `linux/race/seeds` that mends it; empty: none.
    pub mended_by: String,
    /// The finding's text.
    pub text: String,
    /// Where in the source.
    pub place: String,
    /// Why it does no harm.
    pub reason: String,
}

impl Explained {
    /// Whether it explains findings of this target, as it is or with a bug, under this model. A bug that needs late
    /// stores may show the same text for a reason of its own, and is believed.
    pub fn covers(&self, target: &str, model: MemoryModel, seeded: Option<&Seeded>) -> bool {
        let is_mended = |s: &Seeded| {
            !self.mended_by.is_empty()
                && (s.base == self.mended_by || s.name == self.mended_by || s.needs == "weak")
        };
        self.target == target
            && self.models.iter().any(|name| name == model.name())
            && !seeded.is_some_and(is_mended)
    }
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

/// What leaving out a barrier did.
#[derive(Clone, Debug)]
pub struct Audited {
    /// `full barrier`, `read barrier`, ...
    pub kind: &'static str,
    /// `kernel/sched/cpupri.c:250 cpupri_set`
    pub place: String,
    /// Schedules executed without it, over all scenarios.
    pub schedules: u64,
    /// What went wrong, with the plan that repeats it; `None`: nothing.
    pub finding: Option<(Plan, Finding)>,
}

fn barrier_name(kind: u32) -> &'static str {
    match kind {
        abi::MB => "full barrier",
        abi::RMB => "read barrier",
        abi::WMB => "write barrier",
        abi::ACQUIRE => "acquire",
        abi::RELEASE => "release",
        _ => "barrier",
    }
}

/// The first finding that is not among those known, over all scenarios.
fn first_new(
    plan: &Plan,
    scenarios: &[Scenario],
    known: &[String],
) -> Result<(u64, Option<Finding>), RaceError> {
    let mut schedules = 0;
    for scenario in scenarios {
        let explored = plan.explore(scenario)?;
        schedules += explored.schedules;
        if let Some(new) = explored.findings.into_iter().find(|f| !known.contains(&f.text)) {
            return Ok((schedules, Some(new)));
        }
    }
    Ok((schedules, None))
}

/// Takes each barrier out that the scenarios meet, one after the other.
///
/// # Errors
/// A process was lost; a scenario asks for what is not there.
pub fn audit(
    plan: &Plan,
    scenarios: &[Scenario],
    heard: &mut dyn FnMut(&Audited),
) -> Result<Vec<Audited>, RaceError> {
    let mut known = Vec::new();
    let mut met: BTreeMap<(String, u32), Vec<usize>> = BTreeMap::new();
    for scenario in scenarios {
        let explored = plan.explore(scenario)?;
        known.extend(explored.findings.into_iter().map(|f| f.text));
        let addresses: Vec<usize> = explored.barriers.iter().map(|(at, _)| *at).collect();
        let lines = places(&plan.compiled.object, &addresses);
        for ((at, kind), place) in explored.barriers.into_iter().zip(lines) {
            let all = met.entry((place, kind)).or_default();
            if !all.contains(&at) {
                all.push(at);
            }
        }
    }
    let mut audited = Vec::new();
    for ((place, kind), without) in met {
        let plan = Plan { without, findings: usize::MAX, ..plan.clone() };
        let (schedules, finding) = first_new(&plan, scenarios, &known)?;
        let finding = finding.map(|finding| (plan, finding));
        let one = Audited { kind: barrier_name(kind), place, schedules, finding };
        heard(&one);
        audited.push(one);
    }
    Ok(audited)
}

/// The addresses of a barrier that was left out, by its place.
///
/// # Errors
/// No scenario meets one there.
pub fn barriers_at(plan: &Plan, scenario: &Scenario, wanted: &[String]) -> Result<Vec<usize>, RaceError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let one = Plan { schedules: 1, jobs: 1, without: Vec::new(), ..plan.clone() };
    let explored = one.explore(scenario)?;
    let addresses: Vec<usize> = explored.barriers.iter().map(|(at, _)| *at).collect();
    let lines = places(&plan.compiled.object, &addresses);
    let mut found = Vec::new();
    for place in wanted {
        let here = addresses.iter().zip(&lines).filter(|(_, line)| *line == place).map(|(at, _)| *at);
        let before = found.len();
        found.extend(here);
        if found.len() == before {
            let met = lines.join(", ");
            return Err(RaceError::Refused(format!(
                "no barrier at '{place}' is met by this scenario; there are {met}"
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
