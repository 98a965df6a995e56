//! `schedlab fidelity`: a recording and its replay, side by side.

use crate::costs;
use crate::failure::{Failure, Result};
use crate::output;
use crate::parse::{Affinity, parse_cpus};
use crate::ui::Ui;
use clap::Args;
use schedlab_compare::fidelity::{
    Cause, Fidelity, IdleExits, MatchBy, QUANTILES, Sample, Side, TASKS_LISTED, Variant, busy_waits,
    cpus_used, exits_of_idle, first_stop_differences, json, page, placement, table, terminal, wakeup_order,
};
use schedlab_instruments::{LogProblem, summarize_seen};
use schedlab_lab::{
    Finished, KnownRecording, Loaded, Standard, Subject, SubjectSpec, load_as, load_recording,
};
use schedlab_log::{FromWaking, Log, Observer, PrevState, Row, Run, Slots, WaitCause, replay};
use schedlab_machine::{COST_MAX, Costs, Perturb};
use schedlab_report::Style;
use schedlab_runner::{RunRequest, Scheduler};
use schedlab_topology::Topology;
use schedlab_trace::Mode;
use schedlab_units::{CpuId, Span};
use schedlab_workload::build::ENDLESS;
use schedlab_workload::derive::{DeriveOptions, InterruptRule, Summary};
use schedlab_workload::{Builder, Dependencies, Event, EventId, EventKind, Messages, Workload};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Args, Debug)]
pub(crate) struct FidelityArgs {
    /// Recordings: trace.dat, perf.data, ftrace's text, Perfetto; or folders with one. Several give a table,
    /// a row for each.
    #[arg(required = true, value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// The scheduler that replays; the newest port that is not newer than the recorded kernel unless given.
    #[arg(long, value_name = "NAME")]
    pub sched: Option<SubjectSpec>,
    /// CPUs of the replay; as many as were recorded unless given.
    #[arg(long, value_name = "N", value_parser = parse_cpus)]
    pub cpus: Option<Topology>,
    /// Another recording of the same program, on another number of CPUs: the replay of FILE on that many is
    /// compared with it.
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Where channels come from: none (each block waits for its recorded wakeup), inferred (from who woke whom), or
    /// recorded (`record --objects`). The default is recorded if the recording has any, else none.
    #[arg(long, value_name = "CHOICE")]
    pub messages: Option<Messages>,
    /// What kernel code takes: none, or recorded (an idle CPU answers another one's wakeup as late as the recorded
    /// machine's did, at the median; the default with recorded messages), or a file of costs.
    #[arg(long, value_name = "CHOICE|FILE")]
    pub costs: Option<FidelityCosts>,
    /// What becomes of recorded interrupts: keep (theirs is the tasks' time), subtract (they take no time), or replay
    /// (they take their CPU again).
    #[arg(long, value_name = "CHOICE", default_value = "keep")]
    pub interrupts: FidelityInterrupts,
    /// What becomes of tasks that the recording does not show: none, or replay (they take their CPU again when they
    /// had it, or where one is shown as idle although a task waits there). The default is replay where the recording
    /// says when they had a CPU and the replay has the recorded CPUs, else none.
    #[arg(long, value_name = "CHOICE")]
    pub strangers: Option<FidelityStrangers>,
    /// Where tasks may run: recorded (where they were allowed to), or none (on every CPU: what was recorded under
    /// taskset on one CPU, with more of them).
    #[arg(long, value_name = "CHOICE", default_value = "recorded")]
    pub affinity: Affinity,
    /// Timer ticks per second of real Linux: 100, 250, 300 or 1000.
    #[arg(long, default_value_t = 250, value_name = "HZ", value_parser = crate::parse::parse_hz)]
    pub hz: u32,
    /// Replay with so many seeds, whose ticks fall elsewhere: from the least to the most that they give, and what was
    /// recorded beside it. A replay is one sample, as a recording is.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Do not look for the cause: one replay instead of up to five.
    #[arg(long)]
    pub no_causes: bool,
    /// Take what a damaged or truncated recording still holds, and count what is missing.
    #[arg(long)]
    pub lenient: bool,
    /// Write the replay's schedule log, of one recording: Arrow if the name ends in .arrow, else text. `report --log`
    /// writes the recorded schedule's; `export` makes Perfetto of either.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Write an HTML page: recorded and replayed distributions, one over the other.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the results as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What kernel code takes in a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FidelityCosts {
    /// Nothing.
    None,
    /// What the recording shows.
    Recorded,
    /// What a file says.
    File(PathBuf),
}

impl FromStr for FidelityCosts {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> std::result::Result<FidelityCosts, Self::Err> {
        Ok(match text {
            "none" => FidelityCosts::None,
            "recorded" => FidelityCosts::Recorded,
            path => FidelityCosts::File(path.into()),
        })
    }
}

/// What becomes of recorded interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FidelityInterrupts {
    /// They take no time.
    Subtract,
    /// Their time is that of the tasks that they hit.
    Keep,
    /// They take their CPU again.
    Replay,
}

impl FidelityArgs {
    fn mode(&self) -> Mode {
        if self.lenient { Mode::Lenient } else { Mode::Strict }
    }

    fn options(&self) -> DeriveOptions {
        DeriveOptions {
            messages: self.messages,
            interrupts: self.interrupts.rule(),
            ..DeriveOptions::default()
        }
    }
}

impl FidelityArgs {
    fn strangers(&self, recording: &KnownRecording, nr_cpus: u32) -> FidelityStrangers {
        let is_same_machine = self.against.is_none() && nr_cpus == recording.recorded.log.header().nr_cpus;
        let by_default = match recording.strangers_share() > 0.0 && is_same_machine {
            true => FidelityStrangers::Replay,
            false => FidelityStrangers::None,
        };
        self.strangers.unwrap_or(by_default)
    }

    /// What kernel code takes: what recorded messages need, unless something was asked for.
    fn costs_choice(&self, derived: Option<Summary>) -> FidelityCosts {
        let by_default = match derived.unwrap_or_default().messages {
            Messages::Recorded => FidelityCosts::Recorded,
            Messages::None | Messages::Inferred => FidelityCosts::None,
        };
        self.costs.clone().unwrap_or(by_default)
    }

    /// Whether the replay has tasks that stand for what took a CPU and was no task of the program.
    fn has_thieves(&self, recording: &KnownRecording, nr_cpus: u32) -> bool {
        self.strangers(recording, nr_cpus) == FidelityStrangers::Replay
            || self.interrupts == FidelityInterrupts::Replay
    }
}

impl FidelityInterrupts {
    fn rule(self) -> InterruptRule {
        match self {
            FidelityInterrupts::Subtract => InterruptRule::Subtract,
            FidelityInterrupts::Keep => InterruptRule::Keep,
            FidelityInterrupts::Replay => InterruptRule::Replay,
        }
    }
}

/// What becomes of tasks that the recording does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FidelityStrangers {
    /// They are left out.
    None,
    /// They take their CPU again.
    Replay,
}

/// Nine tenths of the ways out of idle are shorter than the grain.
const GRAIN_PER_MILLE: u32 = 900;
/// A replay that takes so many times as long as the recording is stopped.
const PATIENCE: u64 = 4;

pub(crate) fn fidelity(args: &FidelityArgs, ui: &Ui) -> Result<()> {
    [&args.log, &args.html, &args.json].into_iter().flatten().try_for_each(|path| output::check(path))?;
    if args.against.is_some() && args.inputs.len() > 1 {
        return Err(Failure::Input("--against is about one recording; give one FILE".to_string()));
    }
    if args.log.is_some() && args.inputs.len() > 1 {
        return Err(Failure::Input("--log writes one replay's schedule; give one FILE".to_string()));
    }
    let all = args.inputs.iter().map(|input| measure(input, args, ui)).collect::<Result<Vec<Fidelity>>>()?;
    let [found] = &all[..] else { return write_several(&all, args, ui) };
    if let Some(path) = &args.html {
        let title = format!("{}: recorded and replayed", found.name);
        output::text(path, &page(&title, std::slice::from_ref(found)))?;
    }
    if !output::json_value(args.json.as_deref(), &json(found))? {
        print!("{}", terminal(found, Style::detect()));
    }
    for (what, path) in [("log", &args.log), ("HTML page", &args.html)] {
        path.iter().for_each(|path| ui.say(format!("{what}: {}", path.display())));
    }
    Ok(())
}

/// A row for each recording.
fn write_several(all: &[Fidelity], args: &FidelityArgs, ui: &Ui) -> Result<()> {
    if let Some(path) = &args.html {
        output::text(path, &page("Recorded and replayed", all))?;
        ui.say(format!("HTML page: {}", path.display()));
    }
    let recordings: Vec<_> = all.iter().map(json).collect();
    if !output::json_value(args.json.as_deref(), &serde_json::json!({"schema": 1, "recordings": recordings}))?
    {
        print!("{}", table(all).to_text());
    }
    Ok(())
}

/// What is replayed, and with what it is compared.
struct Study<'a> {
    loaded: &'a Loaded,
    subject: Subject,
    topology: Topology,
    recording: &'a KnownRecording,
    /// The recording that the replay is compared with: that one, or that of `--against`.
    truth: &'a KnownRecording,
    truth_side: Side,
    by: MatchBy,
    /// Numbers of the tasks that count in the replay.
    wanted: BTreeSet<u32>,
    /// Those that wanted a CPU when the recording ended.
    wants_cpu: BTreeSet<u32>,
    /// Whether any of them computes on: then a replay ends when the recording did.
    goes_on: bool,
    grain_ns: u64,
}

impl Study<'_> {
    fn contradiction(&self) -> impl Fn(LogProblem) -> Failure + '_ {
        |problem| Failure::Input(format!("{}: {problem}", self.truth.path.display()))
    }

    /// A replay, varied in one way.
    fn replay(
        &self,
        workload: &Workload,
        perturb: Option<Perturb>,
        costs: Option<Costs>,
    ) -> Result<Finished> {
        let recorded_ns = self.truth.recorded.log.header().duration.as_ns();
        let request = RunRequest {
            duration: Some(Span::from_ns(if self.goes_on {
                recorded_ns
            } else {
                recorded_ns.saturating_mul(PATIENCE).saturating_add(1_000_000_000)
            })),
            perturb,
            costs,
            ..self.subject.on(workload, self.topology.clone())
        };
        Ok(schedlab_lab::run(&request, Standard::Shown)?)
    }

    /// With the time that system calls take to their end where an interrupt asks for another task: as recorded, where
    /// this replay without them prefers that task.
    fn with_calls(
        &self,
        costs: Option<Costs>,
        choice: &FidelityCosts,
        without: &Finished,
    ) -> Result<Option<Costs>> {
        let is_linux = matches!(self.subject.scheduler, Scheduler::Linux(_));
        let (Some(costs), FidelityCosts::Recorded, true) = (costs, choice, is_linux) else {
            return Ok(costs);
        };
        let truth = &self.truth.recorded.log;
        let waits = |log: &dyn Log, numbers: &BTreeSet<u32>| busy_waits(log, among(log, numbers));
        let internal = |problem| Failure::Internal(format!("internal error: {problem}"));
        let preferred = waits(&FromWaking(&without.log), &self.wanted).map_err(internal)?.at_once();
        let recorded = waits(truth, &counted(self.truth)).map_err(self.contradiction())?;
        let calls_ns = preferred.and_then(|preferred| recorded.calls_ns(preferred));
        let call_drawn = calls_ns.map(|calls_ns| calls_ns.map(|ns| Span::from_ns(ns).min(COST_MAX)));
        Ok(Some(Costs { call_drawn, ..costs }))
    }

    fn side(&self, finished: &Finished) -> Result<Side> {
        let wanted = among(&finished.log, &self.wanted);
        // a recording has wakings, and counts waits from there
        let log = FromWaking(&finished.log);
        let summary = summarize_seen(&log);
        summary
            .and_then(|summary| Side::of(&log, &summary, wanted))
            .map_err(|problem| Failure::Internal(format!("internal error: {problem}")))
    }

    fn compare(&self, finished: &Finished) -> Result<Fidelity> {
        let report = &finished.report;
        let side =
            self.side(finished)?.at_objects(report.waits_skipped, report.waits_gained, report.waits_forced);
        Ok(Fidelity::of(&self.truth_side, &side, self.by, self.grain_ns))
    }

    fn variant(&self, without: Option<Cause>, finished: &Finished) -> Result<Variant> {
        let all = self.compare(finished)?.all;
        let distance = all.distance(self.grain_ns);
        Ok(Variant { without, all, distance })
    }
}

/// Whether a row of this log is a task with one of these numbers.
fn among<'a>(log: &'a dyn Log, numbers: &'a BTreeSet<u32>) -> impl Fn(u32) -> bool + 'a {
    let tasks = &log.header().tasks;
    move |row| tasks.get(row as usize).is_some_and(|task| numbers.contains(&task.pid))
}

/// Numbers of the tasks that count: the program's; if that is not known, all but the kernel's threads.
fn counted(recording: &KnownRecording) -> BTreeSet<u32> {
    let whose = &recording.recorded.whose;
    let tasks = recording.recorded.log.header().tasks.iter().enumerate();
    let counts = |row: usize| match &whose.program {
        Some(program) => program.get(row) == Some(&true),
        None => whose.kernel.get(row) != Some(&true),
    };
    tasks.filter(|(row, _)| counts(*row)).map(|(_, task)| task.pid).collect()
}

/// What is replayed: the recording as these options have it, with strangers if they are asked for, and with tasks that
/// compute on. Whether there are any such.
fn derived(
    input: &Path,
    args: &FidelityArgs,
    options: DeriveOptions,
    (recording, wants_cpu): (&KnownRecording, &BTreeSet<u32>),
    nr_cpus: u32,
    ui: &Ui,
) -> Result<(Loaded, bool)> {
    let mut loaded = load_as(input, args.mode(), options, ui)?;
    if args.strangers(recording, nr_cpus) == FidelityStrangers::Replay {
        loaded.workload = with_strangers(loaded.workload, recording, nr_cpus)?;
    }
    args.affinity.apply(&mut loaded);
    let goes_on = go_on(&mut loaded.workload, wants_cpu);
    Ok((loaded, goes_on))
}

fn measure(input: &Path, args: &FidelityArgs, ui: &Ui) -> Result<Fidelity> {
    let recording = load_recording(input, args.mode(), ui)?;
    let other = args.against.as_ref().map(|path| load_recording(path, args.mode(), ui)).transpose()?;
    let truth = other.as_ref().unwrap_or(&recording);
    let wanted = counted(&recording);
    let wants_cpu = match &other {
        Some(_) => BTreeSet::new(),
        None => wanting_a_cpu(&recording, &wanted)?,
    };
    let topology = match (&args.cpus, truth.recorded.log.header().nr_cpus) {
        (Some(topology), _) => topology.clone(),
        (None, nr_cpus) => Topology::flat(nr_cpus).map_err(Failure::input)?,
    };
    let nr_cpus = topology.nr_cpus();
    let (loaded, goes_on) = derived(input, args, args.options(), (&recording, &wants_cpu), nr_cpus, ui)?;
    let spec = match &args.sched {
        Some(spec) => spec.clone(),
        None => {
            let release = recording.recorded.notes.get("recorded kernel").map_or("", String::as_str);
            schedlab_lab::kernels::port_for(release).parse()?
        }
    };
    let mut subject = spec.resolve(ui.setting(args.hz, &topology))?;
    if args.has_thieves(&recording, nr_cpus) {
        // they had it, whoever else waited
        subject = subject.unprotected(nr_cpus);
    }
    let log = &truth.recorded.log;
    let contradicts = |problem: LogProblem| Failure::Input(format!("{}: {problem}", truth.path.display()));
    let summary = summarize_seen(log).map_err(contradicts)?;
    let truth_counted = counted(truth);
    let is_counted = among(log, &truth_counted);
    let exits = exits_of_idle(log).map_err(contradicts)?;
    let study = Study {
        loaded: &loaded,
        subject,
        topology,
        recording: &recording,
        truth,
        truth_side: Side::of(log, &summary, is_counted).map_err(contradicts)?,
        by: if other.is_some() { MatchBy::Name } else { MatchBy::Pid },
        wanted,
        wants_cpu,
        goes_on,
        grain_ns: exits.waits.percentile_ns(GRAIN_PER_MILLE),
    };
    let costs = costs_of(args, &exits, loaded.derived.unwrap_or_default())?;
    let step = ui.step(format!("replaying {} under {}", recording.name, study.subject.label));
    let mut finished = study.replay(&loaded.workload, None, costs)?;
    let costs = study.with_calls(costs, &args.costs_choice(loaded.derived), &finished)?;
    if costs.is_some_and(|costs| costs.call_drawn.is_some()) {
        finished = study.replay(&loaded.workload, None, costs)?;
    }
    drop(step);
    if let Some(path) = &args.log {
        schedlab_log::write(path, &finished.log).map_err(Failure::input)?;
    }
    let mut found = study.compare(&finished)?;
    found.name = match &other {
        Some(other) => format!("{} for {}", recording.name, other.name),
        None => recording.name.clone(),
    };
    found.takes_time = costs.is_some();
    found.calls_ns = costs.and_then(|costs| costs.call_drawn).map(|times| times.map(Span::as_ns));
    (found.messages, found.locks) = (noted(&loaded, "messages"), noted(&loaded, "locks"));
    found.strangers = (recording.strangers_share() > 0.0).then(|| {
        let now = match args.strangers(&recording, nr_cpus) {
            FidelityStrangers::Replay if matches!(study.subject.scheduler, Scheduler::Linux(_)) => {
                "have it again in the replay, above all its tasks (without fair server and limit of real-time tasks)"
            }
            FidelityStrangers::Replay => "have it again in the replay",
            FidelityStrangers::None => "are not in the replay",
        };
        format!("had {:.1} % of the recorded CPUs' time, and {now}", 100.0 * recording.strangers_share())
    });
    found.warnings = warnings(&recording, other.as_ref(), finished.is_done() || goes_on);
    found.warnings.extend(found.about_unknown());
    found.warnings.extend(in_vain(args, &loaded, &study.subject));
    if let Some(other) = &other {
        found.warnings.extend(about_prediction(args, &found, (&recording, other))?);
    }
    if study.by == MatchBy::Pid {
        follow(&study, &finished, &mut found)?;
    }
    found.samples = samples(args.seeds, costs, &study, ui)?;
    if !args.no_causes {
        found.variants = causes(input, (args, costs), &study, &finished, ui)?;
    }
    Ok(found)
}

/// A note of the import.
fn noted(loaded: &Loaded, name: &str) -> Option<String> {
    loaded.workload.notes.get(name).cloned()
}

/// What was asked for and makes no difference here.
fn in_vain(args: &FidelityArgs, loaded: &Loaded, subject: &Subject) -> Vec<String> {
    let mut said = Vec::new();
    let took_time = loaded.derived.is_some_and(|derived| derived.interrupt_ns > 0);
    if args.interrupts != FidelityInterrupts::Keep && !took_time {
        said.push("--interrupts: the recording has none (record --interrupts)".to_string());
    }
    if args.costs == Some(FidelityCosts::Recorded) && !matches!(subject.scheduler, Scheduler::Linux(_)) {
        said.push(format!("--costs: what kernel code takes is nothing to {}", subject.label));
    }
    said
}

/// Below this share of CPU time that tasks of the same names have, the two are hardly the same program.
const SAME_PROGRAM: f64 = 0.5;

/// What makes a prediction one of something else: another program, or CPUs that were there and not allowed.
fn about_prediction(
    args: &FidelityArgs,
    found: &Fidelity,
    (recording, other): (&KnownRecording, &KnownRecording),
) -> Result<Vec<String>> {
    let mut said = Vec::new();
    if found.matched_share < SAME_PROGRAM {
        said.push(format!(
            "tasks of the same names have {:.0} % of the CPU time of {}: is it the same program?",
            100.0 * found.matched_share,
            other.name
        ));
    }
    let bound = |of: &KnownRecording| -> Result<Option<u32>> {
        let (used, there) = (nr_used(of)?, of.recorded.log.header().nr_cpus);
        Ok((used < there).then_some(used))
    };
    let nr_cpus = found.cpus[1];
    if let Some(used) = bound(other)?.filter(|used| *used != nr_cpus) {
        said.push(format!(
            "the program of {} ran on {used} of {} CPUs (was it bound to them?), and the replay has {nr_cpus}: \
             --cpus {used}",
            other.name, found.cpus[0]
        ));
    }
    if let (Some(used), Affinity::Recorded) = (bound(recording)?, args.affinity)
        && used < nr_cpus
    {
        said.push(format!(
            "the program of {} ran on {used} CPUs of its machine. If it was bound to them, its replay is, too: \
             --affinity none",
            recording.name
        ));
    }
    Ok(said)
}

/// On how many CPUs the program's tasks have run.
fn nr_used(recording: &KnownRecording) -> Result<u32> {
    let (log, counted) = (&recording.recorded.log, counted(recording));
    let tasks = &log.header().tasks;
    let used = cpus_used(log, |row| counted.contains(&tasks[row as usize].pid));
    let contradicts = |problem| Failure::Input(format!("{}: {problem}", recording.path.display()));
    Ok(used.map_err(contradicts)?.len() as u32)
}

/// What kernel code takes in this replay.
fn costs_of(args: &FidelityArgs, exits: &IdleExits, derived: Summary) -> Result<Option<Costs>> {
    Ok(match args.costs_choice(Some(derived)) {
        FidelityCosts::None => None,
        FidelityCosts::File(path) => Some(costs::load(&path)?),
        FidelityCosts::Recorded => {
            // what is longer is no cost of kernel code
            let cost = |ns| Span::from_ns(ns).min(COST_MAX);
            let (shallow_ns, deep_ns, after_ns) = exits.depths_ns();
            let drawn = |times: [u64; QUANTILES]| (times[QUANTILES - 1] > 0).then(|| times.map(cost));
            Some(Costs {
                idle_exit_drawn: drawn(shallow_ns),
                idle_exit_deep_drawn: drawn(deep_ns),
                idle_deep_after: after_ns.map_or(Span::ZERO, cost),
                idle_resched_drawn: drawn(exits.own_ns()),
                kick: derived.kick,
                ..Costs::default()
            })
        }
    })
}

/// Tasks of the program that wanted a CPU when the recording ended compute on, as they would have. Whether there are
/// any.
fn go_on(workload: &mut Workload, wants_cpu: &BTreeSet<u32>) -> bool {
    let mut next_eid = workload.free_eid().0;
    let mut any = false;
    for task in workload.tasks.iter_mut().filter(|task| wants_cpu.contains(&task.pid)) {
        let length = |event: &Event| event.kind.length().unwrap_or(Span::ZERO);
        match task.events.last_mut() {
            Some(Event { kind: EventKind::Exit { .. }, .. }) => continue,
            Some(Event { kind: EventKind::Block { length }, .. }) => *length += ENDLESS,
            last => {
                let length = last.map_or(Span::ZERO, |last| length(last)) + ENDLESS;
                task.events.push(Event { eid: EventId(next_eid), kind: EventKind::Block { length } });
                next_eid += 1;
            }
        }
        any = true;
    }
    any
}

/// Numbers of the counted tasks that ran or waited for a CPU when the recording ended.
fn wanting_a_cpu(recording: &KnownRecording, counted: &BTreeSet<u32>) -> Result<BTreeSet<u32>> {
    struct AtEnd(Vec<bool>);
    impl Observer for AtEnd {
        fn wait_begin(&mut self, row: Row, _cpu: CpuId, _cause: WaitCause) {
            self.0[row.index()] = true;
        }
        fn run_end(&mut self, run: &Run) {
            self.0[run.row.index()] = run.stop.is_none_or(PrevState::is_runnable);
        }
    }
    let log = &recording.recorded.log;
    let slots = Slots::new(log.header());
    let mut end = AtEnd(vec![false; slots.len()]);
    let contradicts = |problem| Failure::Input(format!("{}: {problem}", recording.path.display()));
    replay(log, &slots, &mut end).map_err(contradicts)?;
    let tasks = log.header().tasks.iter().zip(end.0);
    Ok(tasks
        .filter(|(task, wants)| *wants && counted.contains(&task.pid))
        .map(|(task, _)| task.pid)
        .collect())
}

/// With tasks that have the CPUs where nobody is shown to, as far as the replay has these CPUs.
fn with_strangers(workload: Workload, recording: &KnownRecording, nr_cpus: u32) -> Result<Workload> {
    let contradicts = |problem| Failure::Input(format!("{}: {problem}", recording.path.display()));
    let stays = recording.hidden_stays().map_err(contradicts)?;
    let mut builder = Builder::of(workload);
    for (cpu, stretches) in (0..nr_cpus).zip(&stays).filter(|(_, stretches)| !stretches.is_empty()) {
        builder.stolen(format!("strangers-cpu{cpu}"), CpuId(cpu), stretches);
    }
    builder.finish().map_err(Failure::input)
}

fn warnings(recording: &KnownRecording, other: Option<&KnownRecording>, is_done: bool) -> Vec<String> {
    let mut warnings = recording.warnings();
    warnings.extend(other.into_iter().flat_map(KnownRecording::warnings));
    if !is_done {
        warnings.push(format!(
            "the replay was stopped after {PATIENCE} times the recording's length: not every task was done"
        ));
    }
    warnings
}

/// Where each of the tasks that differ most first goes another way, and in which order wakeups came.
fn follow(study: &Study<'_>, finished: &Finished, found: &mut Fidelity) -> Result<()> {
    let truth = &study.truth.recorded.log;
    let numbers = |log: &dyn Log, pid: u32| log.header().tasks.iter().position(|task| task.pid == pid);
    let shown =
        found.tasks.iter_mut().take(TASKS_LISTED).filter(|pair| pair.is_known() && pair.weight_ns() > 0);
    let mut followed = Vec::new();
    let mut rows = Vec::new();
    for pair in shown {
        let Some(row) = pair.task else { continue };
        let pid = truth.header().tasks[row as usize].pid;
        if let Some(other) = numbers(&finished.log, pid) {
            rows.push([row, other as u32]);
            followed.push(pair);
        }
    }
    let differences = first_stop_differences([truth, &finished.log], &rows).map_err(study.contradiction())?;
    for (pair, difference) in followed.into_iter().zip(differences) {
        pair.first = difference;
    }
    found.order = Some(wakeup_order(truth, &finished.log).map_err(study.contradiction())?);
    if found.cpus.iter().all(|cpus| *cpus > 1) {
        let kept = |log: &dyn Log| {
            let tasks = &log.header().tasks;
            placement(log, |row| study.wanted.contains(&tasks[row as usize].pid))
                .map_err(study.contradiction())
        };
        found.placement = Some([kept(truth)?, kept(&finished.log)?]);
    }
    Ok(())
}

/// The same replay with other seeds than the first. How long sleeps last and when tasks start was recorded; when ticks
/// come was not.
fn samples(seeds: u64, costs: Option<Costs>, study: &Study<'_>, ui: &Ui) -> Result<Vec<Sample>> {
    let step = (seeds > 1).then(|| ui.step(format!("replaying with {} seeds more", seeds - 1)));
    let mut samples = Vec::new();
    for seed in 1..seeds {
        let perturb = Perturb { slack: Span::ZERO, start: Span::ZERO, ..Perturb::new(seed) };
        let found = study.compare(&study.replay(&study.loaded.workload, Some(perturb), costs)?)?;
        samples.push(Sample { all: found.all, duration_ns: found.duration_ns[1] });
    }
    drop(step);
    Ok(samples)
}

/// The replay as it is, and without each cause.
fn causes(
    input: &Path,
    (args, own_costs): (&FidelityArgs, Option<Costs>),
    study: &Study<'_>,
    plain: &Finished,
    ui: &Ui,
) -> Result<Vec<Variant>> {
    let mut variants = vec![study.variant(None, plain)?];
    let workload = &study.loaded.workload;
    let mut without = |cause: Cause, workload: &Workload, perturb, costs| -> Result<()> {
        let step = ui.step(format!("replaying again: {}", cause.without()));
        // a variation that cannot be made (a deadlock) tells nothing
        match study.replay(workload, perturb, costs) {
            Ok(finished) => variants.push(study.variant(Some(cause), &finished)?),
            Err(failure) => ui.say(format!("{}: {}", cause.without(), failure.sentence())),
        }
        drop(step);
        Ok(())
    };
    // as the workload of the study, but for one rule
    let otherwise = |options: DeriveOptions| -> Result<Workload> {
        derived(input, args, options, (study.recording, &study.wants_cpu), study.topology.nr_cpus(), ui)
            .map(|(loaded, _)| loaded.workload)
    };
    let mut asleep = match study.loaded.derived.map(|derived| derived.messages) {
        None | Some(Messages::None) => workload.clone(),
        _ => otherwise(DeriveOptions { messages: Some(Messages::None), ..args.options() })?,
    };
    Dependencies::None.apply(&mut asleep);
    without(Cause::Messages, &asleep, None, own_costs)?;
    without(Cause::Costs, workload, None, Some(costs::measured()?))?;
    let took_time = study.loaded.derived.is_some_and(|derived| derived.interrupt_ns > 0);
    if took_time && args.interrupts != FidelityInterrupts::Keep {
        let kept = otherwise(DeriveOptions { interrupts: InterruptRule::Keep, ..args.options() })?;
        without(Cause::Interrupts, &kept, None, own_costs)?;
    }
    without(Cause::Chance, workload, Some(Perturb::new(1)), own_costs)?;
    Ok(variants)
}
