//! `schedlab race`: scheduler code under every order of events.

mod audit;
pub(crate) mod in_kernel;
mod into_kernel;
mod litmus;
mod replay;
mod result;
mod scoreboard;
mod threads;
mod whole;
mod whole_scores;

pub(crate) use replay::debug_schedule;

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::{Args, ValueEnum};
use schedlab_lab::{FailureKind, kernels};
use schedlab_linux::build;
use schedlab_linux::{BuildOptions, BuiltKernel};
use schedlab_race::compile::{self, Compiled};
use schedlab_race::explore::{Explored, Plan};
use schedlab_race::seeded::Seeded;
use schedlab_race::{MemoryModel, RaceError, Scenario, Strategy, study};
use schedlab_stdx::limits::{RACE_BYTES_MAX, read_text};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Schedules of each scenario if nothing else is said.
const SCHEDULES: u64 = 100_000;
/// How many different findings of one scenario are kept.
const FINDINGS_MAX: usize = 20;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelName {
    /// Every store is seen at once by all.
    Sc,
    /// x86: stores are late, in order.
    Tso,
    /// A part of the kernel's model: stores late in any order that barriers leave, loads see what has been.
    Lkmm,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StrategyName {
    /// In turn: random, pct with 2 and 3, pos.
    Mix,
    /// Any CPU at each point.
    Random,
    /// Priorities that change at --depth less one points.
    Pct,
    /// Random priorities of accesses.
    Pos,
    /// Of a whole scheduler: CPUs stand until another one changes what they look at; else as pos.
    Conflict,
    /// All schedules with at most --preemptions; without that, one of each class.
    Exhaustive,
}

#[derive(Args, Debug)]
pub(crate) struct RaceArgs {
    /// What is explored: cpupri, cpudl, a whole scheduler (linux-6.12), a C file with the hooks of schedlab_race.h, or
    /// a kernel's litmus test (.litmus).
    #[arg(value_name = "TARGET", required_unless_present_any = ["replay", "scoreboard", "header"])]
    target: Option<String>,
    /// Of which kernel: a version, or a name given by 'linux add'; built if it is not there (default: 6.12).
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// What a load may see.
    #[arg(long, value_enum, default_value = "sc")]
    model: ModelName,
    /// Which orders are tried.
    #[arg(long, value_enum, default_value = "mix")]
    strategy: StrategyName,
    /// Of pct: how many order constraints a bug may need (default: 3).
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=8))]
    depth: Option<u32>,
    /// Of exhaustive: at most so many preemptions; under a weak model, early stores and old loads count, too.
    #[arg(long, value_name = "N")]
    preemptions: Option<u32>,
    /// Who calls what: one of the target's scenarios, or a file; default: all of the target's.
    #[arg(long, value_name = "NAME|FILE")]
    scenario: Option<String>,
    /// Schedules of each scenario (default 100000; of a whole scheduler in rounds up to that, the last of which has a
    /// finding)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: Option<u64>,
    /// Another seed, other schedules.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Processes; the result does not depend on it. Default: one per CPU.
    #[arg(long, value_name = "N", value_parser = crate::parse::parse_jobs)]
    jobs: Option<usize>,
    /// Of a whole scheduler: accesses that nothing orders are findings, too.
    #[arg(long)]
    races: bool,
    /// Put a bug into the target: a name from linux/race/seeds, a description (.toml) or a patch (.patch, .diff) of
    /// yours; reverse:FIX.patch takes a fix back.
    #[arg(long, value_name = "NAME|FILE")]
    seeded: Option<String>,
    /// A macro for the C file; with --replay: beside those of the schedule.
    #[arg(short = 'D', long = "define", value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Is each barrier, acquire and release needed? Take them out and move them (default --model lkmm).
    #[arg(long)]
    audit: bool,
    /// Repeat a schedule, and show it, a column a CPU.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "scoreboard", "audit"])]
    replay: Option<PathBuf>,
    /// With --replay: what must come out of it, for a schedule that is kept as a test; another outcome ends with
    /// status 1.
    #[arg(long, value_enum, requires = "replay")]
    expect: Option<replay::Expected>,
    /// With --replay: write the finding as a litmus test of the kernel's, and ask herd7 about it.
    #[arg(long, value_name = "FILE", requires = "replay")]
    litmus: Option<PathBuf>,
    /// With --replay: gdb, at the schedule's choices one after the other (schedlab-next, schedlab-point).
    #[arg(long, requires = "replay")]
    debug: bool,
    /// With --debug: a command for gdb at the first choice; may be given several times.
    #[arg(long = "gdb", value_name = "COMMAND", requires = "debug")]
    gdb_commands: Vec<String>,
    /// With --debug: no prompt; carry out the --gdb commands and leave.
    #[arg(long, requires = "debug")]
    batch: bool,
    /// Of a litmus test: ask herd7, too.
    #[arg(long)]
    herd: bool,
    /// All seeded bugs: which search finds them, how soon; of the structures, or of the whole scheduler that is TARGET.
    #[arg(long, conflicts_with = "audit")]
    scoreboard: bool,
    /// Seeds over which the scoreboard takes the median.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "scoreboard")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Of a whole scheduler's scoreboard: a line is added for each search that was made, a search whose line is there
    /// is not made again.
    #[arg(long, value_name = "FILE", requires = "scoreboard")]
    rows: Option<PathBuf>,
    #[command(flatten)]
    threads: threads::ThreadArgs,
    /// Put the C file into a kernel in place of cpudeadline.c, and build that one as a library: --sched linux-NAME.
    #[arg(long, value_name = "NAME", requires = "target")]
    #[arg(conflicts_with_all = ["replay", "scoreboard", "audit", "scenario", "races", "stress", "cost", "seeded"])]
    into_kernel: Option<String>,
    /// Of --into-kernel: into this tree of yours, not into a copy of --kernel's source; a real kernel can be built of
    /// it, too.
    #[arg(long, value_name = "DIR", requires = "into_kernel", conflicts_with = "kernel")]
    tree: Option<PathBuf>,
    /// Print schedlab_race.h, for an editor or a compiler.
    #[arg(long)]
    header: bool,
    /// Where schedules of findings go: NAME-1.race, NAME-2.race, ... (default: the target's name, here).
    #[arg(short, long, value_name = "NAME")]
    output: Option<PathBuf>,
    /// Write the result as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the first finding's story, or the replayed one, as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl RaceArgs {
    /// Schedules of each scenario at most.
    fn schedules(&self) -> u64 {
        self.schedules.unwrap_or(SCHEDULES)
    }

    /// The kernel's name.
    fn kernel(&self) -> &str {
        self.kernel.as_deref().unwrap_or("6.12")
    }

    /// Options that were given and would do nothing: the first one, and what it goes with. clap lets those pass whose
    /// companion cannot stand beside what else was given.
    fn in_vain(&self) -> Option<(&'static str, &'static str)> {
        let target = self.target.as_deref().unwrap_or_default();
        let is_replayed = self.replay.is_some();
        let is_whole = target.starts_with(schedlab_race::whole::PREFIX);
        let is_own = target.ends_with(".c");
        let takes_kernel = !is_replayed && !is_whole && (!is_own || self.into_kernel.is_some());
        let is_exhaustive = matches!(self.strategy, StrategyName::Exhaustive);
        let is_pct = matches!(self.strategy, StrategyName::Pct);
        let own = [
            ("--expect", self.expect.is_some(), is_replayed, "--replay FILE"),
            ("--litmus", self.litmus.is_some(), is_replayed, "--replay FILE"),
            ("--debug", self.debug, is_replayed, "--replay FILE"),
            ("--scenario", self.scenario.is_some(), !is_replayed, "a target: a schedule has its own"),
            ("--seeded", self.seeded.is_some(), !is_replayed, "a target: a schedule has its own"),
            ("--races", self.races, is_replayed || is_whole, "a whole scheduler, as linux-6.12"),
            ("--preemptions", self.preemptions.is_some(), is_exhaustive, "--strategy exhaustive"),
            ("--depth", self.depth.is_some(), is_pct, "--strategy pct"),
            ("--define", !self.define.is_empty(), is_own || is_replayed, "a C file of your own"),
            (
                "--kernel",
                self.kernel.is_some(),
                takes_kernel,
                "cpupri, cpudl, a litmus test, or --into-kernel",
            ),
        ];
        let threads = self.threads.given().map(|(name, given)| {
            (name, given, self.threads.is_asked(), "threads of this machine: add --stress or --cost")
        });
        own.into_iter()
            .chain(threads)
            .find(|(_, given, has_use, _)| *given && !has_use)
            .map(|(name, _, _, companion)| (name, companion))
    }
}

/// What can be refused before anything is compiled.
fn refuse(args: &RaceArgs, target: &str) -> Result<()> {
    if args.audit && !compile::KERNEL_TARGETS.iter().any(|(name, _)| *name == target) {
        let known = compile::KERNEL_TARGETS.map(|(name, _)| name).join(" or ");
        return Err(Failure::Input(format!("--audit takes {known}, not {target}")));
    }
    let wanted = args.scenario.as_deref().filter(|name| !Path::new(name).is_file());
    let Some(name) = wanted.filter(|_| !study::is_file(target)) else { return Ok(()) };
    let is_whole = target.starts_with(schedlab_race::whole::PREFIX);
    let all = compile::scenarios(if is_whole { "linux" } else { target }).map_err(fault)?;
    if all.is_empty() || all.iter().any(|scenario| scenario.name == name) {
        return Ok(());
    }
    let known = all.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ");
    Err(fault(RaceError::Scenario { target: target.to_owned(), asked: name.to_owned(), known }))
}

/// An error of the explorer, with whose fault it is.
fn fault(error: RaceError) -> Failure {
    let kind = match &error {
        // whatever ended the process, it was not what was asked for, and nothing is known of the target
        RaceError::Lost(_) => FailureKind::Misbehaved,
        _ => FailureKind::Input,
    };
    Failure::of(kind, error.to_string())
}

pub(crate) fn race(args: &RaceArgs, ui: &Ui) -> Result<()> {
    for path in [&args.json, &args.html].into_iter().flatten() {
        output::check(path)?;
    }
    if args.header {
        print!("{}", compile::HEADER);
        return Ok(());
    }
    if let Some((option, companion)) = args.in_vain() {
        return Err(Failure::Input(format!(
            "{option} goes with {companion}; here it would do nothing: leave it out"
        )));
    }
    if let Some(path) = &args.replay {
        return replay::replay(path, args, ui);
    }
    let target = args.target.as_deref().unwrap_or_default();
    if args.scoreboard {
        return match target.starts_with(schedlab_race::whole::PREFIX) {
            true => whole_scores::scoreboard(target, args, ui),
            false => scoreboard::scoreboard(args, ui),
        };
    }
    if args.threads.is_asked() {
        return threads::threads(target, args, ui);
    }
    if let Some(name) = &args.into_kernel {
        return into_kernel::into_kernel(target, name, args, ui);
    }
    refuse(args, target)?;
    let seeded = match (&args.seeded, args.audit) {
        (None, true) => audit::mended(target, ui)?,
        (named, _) => named.clone(),
    };
    let compiled = compiled((target, &args.define), args.kernel(), seeded.as_deref(), ui)?;
    let plan = plan(args, compiled)?;
    let scenarios = scenarios(&plan, target, args.scenario.as_deref(), ui)?;
    if args.audit {
        let as_it_is = self::compiled((target, &args.define), args.kernel(), None, ui)?;
        let as_it_is = Plan { compiled: as_it_is, ..plan.clone() };
        return audit::audit(&plan, &as_it_is, &scenarios, args, ui);
    }
    let started = Instant::now();
    if args.herd {
        litmus::herd(target, args, ui)?;
    }
    let all = match plan.compiled.is_whole() {
        true => whole::explore(&plan, &scenarios, args.schedules, ui)?,
        false => explore(&plan, &scenarios, ui)?,
    };
    if target.ends_with(".litmus") && plan.model == MemoryModel::Sc {
        litmus::hint(target, &all, ui)?;
    }
    result::report(args, &plan, &scenarios, all, started.elapsed(), ui)
}

/// One scenario after the other.
fn explore(plan: &Plan, scenarios: &[Scenario], ui: &Ui) -> Result<Vec<Explored>> {
    let target = &plan.compiled.name;
    let step = ui.step(format!("exploring {target}"));
    let one = |scenario: &Scenario| {
        step.now(format!("exploring {target}: {}", result::label(&scenario.name)));
        plan.explore(scenario).map_err(fault)
    };
    scenarios.iter().map(one).collect()
}

/// A kernel by its name or version; `linux-6.12` and `6.12` mean the same.
fn kernel(name: &str, ui: &Ui) -> Result<BuiltKernel> {
    let series = name.strip_prefix("linux-").unwrap_or(name);
    let options = BuildOptions::default();
    let found = build::find(series, &options);
    match found.map_err(|e| fault(e.into()))? {
        Some(kernel) => Ok(kernel),
        None => kernels::obtain(series, &options, ui).map_err(|e| fault(e.into())),
    }
}

fn compiled(
    (target, defines): (&str, &[String]),
    kernel_name: &str,
    seeded: Option<&str>,
    ui: &Ui,
) -> Result<Compiled> {
    if study::is_file(target) {
        if let Some(name) = seeded {
            return Err(Failure::Input(format!(
                "--seeded {name}: only kernels' targets have seeded bugs; edit {target}"
            )));
        }
        if target.ends_with(".litmus") {
            let (compiled, litmus) = compile::litmus_target(Path::new(target)).map_err(fault)?;
            if !litmus.verdict.is_empty() {
                ui.say(format!("{target}: herd7's verdict in the file is '{}'", litmus.verdict));
            }
            return Ok(compiled);
        }
        if !target.ends_with(".c") {
            let known = compile::KERNEL_TARGETS.map(|(name, _)| name).join(", ");
            return Err(fault(RaceError::Target { asked: target.to_owned(), known }));
        }
        return compile::own_target(Path::new(target), defines).map_err(fault);
    }
    if target.starts_with(schedlab_race::whole::PREFIX) {
        return whole::compiled(target, seeded, ui);
    }
    let seeded = seeded.map(|name| seed_named(name, target)).transpose()?;
    let known = compile::KERNEL_TARGETS.map(|(name, _)| name);
    if !known.contains(&target) {
        return Err(fault(RaceError::Target { asked: target.to_owned(), known: known.join(", ") }));
    }
    let kernel = kernel(kernel_name, ui)?;
    let step = ui.step(format!("compiling {target} of Linux {}", kernel.version));
    let compiled = compile::kernel_target(target, &kernel, seeded.as_ref()).map_err(fault);
    drop(step);
    compiled
}

fn seed_named(name: &str, target: &str) -> Result<Seeded> {
    schedlab_race::seeded::named(name, target).map_err(fault)
}

fn plan(args: &RaceArgs, compiled: Compiled) -> Result<Plan> {
    let model = match (args.model, args.audit) {
        (ModelName::Sc, false) => MemoryModel::Sc,
        (ModelName::Tso, _) => MemoryModel::Tso,
        // without late stores no barrier does anything
        (ModelName::Lkmm, _) | (ModelName::Sc, true) => MemoryModel::Lkmm,
    };
    let strategy = match args.strategy {
        StrategyName::Mix => Strategy::Mix,
        StrategyName::Random => Strategy::Random,
        StrategyName::Pct => Strategy::Pct(args.depth.unwrap_or(3)),
        StrategyName::Pos => Strategy::Pos,
        StrategyName::Conflict => Strategy::Conflict,
        StrategyName::Exhaustive => args.preemptions.map_or(Strategy::Dpor, Strategy::Bounded),
    };
    if strategy == Strategy::Dpor && model != MemoryModel::Sc {
        return Err(Failure::Input(format!(
            "--strategy exhaustive without a bound goes with --model sc; for {} say how many preemptions, early stores \
             and old loads there may be: --preemptions 2",
            model.name()
        )));
    }
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    Ok(Plan {
        compiled,
        model,
        strategy,
        seed: args.seed,
        schedules: args.schedules(),
        jobs,
        findings: FINDINGS_MAX,
        from: 0,
        aside: Vec::new(),
        without: Vec::new(),
        races: args.races,
    })
}

/// A scenario in the words of its target.
fn scenario_of(plan: &Plan, name: &str, text: &str, ui: &Ui) -> Result<Scenario> {
    match plan.compiled.is_whole() {
        true => {
            let mut scenario = schedlab_race::whole::scenario(name, text).map_err(fault)?;
            whole::with_scheduler(&mut scenario, &plan.compiled, ui)?;
            Ok(scenario)
        }
        false => Scenario::parse(name, text).map_err(fault),
    }
}

/// The scenarios that are meant: one by name or path, or all of the target's.
fn scenarios(plan: &Plan, target: &str, wanted: Option<&str>, ui: &Ui) -> Result<Vec<Scenario>> {
    let own = || -> Result<Vec<Scenario>> {
        let (offers, own) = plan.describe().map_err(fault)?;
        match own {
            Some(text) => Ok(vec![Scenario::parse(&format!("{target}'s scenario"), &text).map_err(fault)?]),
            None if offers.is_empty() => Err(Failure::Input(format!(
                "{target} says nothing that can be called: give RACE_TARGET(...) a hook ('.find = find'), or a table \
                 of operations ('.ops = ops'), and a '.scenario' of their calls"
            ))),
            None => {
                let ops: Vec<String> = offers.iter().map(|o| format!("  {} {}", o.name, o.help)).collect();
                Err(Failure::Input(format!(
                    "{target} has no scenario of its own; give one: --scenario FILE, with calls of\n{}",
                    ops.join("\n")
                )))
            }
        }
    };
    let all = || match study::is_file(target) {
        true => own(),
        false if plan.compiled.is_whole() => whole::scenarios(&plan.compiled, None, ui),
        false => compile::scenarios(target).map_err(fault),
    };
    match wanted {
        Some(path) if Path::new(path).is_file() => {
            let text = read_text(Path::new(path), RACE_BYTES_MAX)
                .map_err(|e| Failure::Input(format!("{path}: {e}")))?;
            Ok(vec![scenario_of(plan, path, &text, ui)?])
        }
        Some(name) if plan.compiled.is_whole() => whole::scenarios(&plan.compiled, Some(name), ui),
        Some(name) => {
            let all = all()?;
            let known = all.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ");
            let missing = RaceError::Scenario { target: target.to_owned(), asked: name.to_owned(), known };
            all.into_iter().find(|s| s.name == name).map(|s| vec![s]).ok_or_else(|| fault(missing))
        }
        None => all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RaceArgs,
    }

    fn in_vain(line: &str) -> Option<&'static str> {
        let words = ["race"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().args.in_vain().map(|(name, _)| name)
    }

    #[test]
    fn an_option_that_would_do_nothing_is_refused() {
        for (line, name) in [
            ("cpupri --races", "--races"),
            ("cpupri --expect none", "--expect"),
            ("cpupri --litmus x", "--litmus"),
            ("cpupri --debug", "--debug"),
            ("cpupri --cycles 5", "--cycles"),
            ("cpupri --period 5ms", "--period"),
            ("cpupri --paced", "--paced"),
            ("cpupri --arrive 5", "--arrive"),
            ("cpupri --cpus 1", "--cpus"),
            ("cpupri --from x", "--from"),
            ("cpupri --preemptions 3", "--preemptions"),
            ("cpupri --depth 2", "--depth"),
            ("cpupri -D X", "--define"),
            ("linux-6.12 --kernel 7.2", "--kernel"),
            ("--replay x.race --scenario raise", "--scenario"),
        ] {
            assert_eq!(in_vain(line), Some(name), "{line}");
        }
        for line in [
            "cpupri --kernel 6.1 --strategy exhaustive --preemptions 3",
            "cpupri --strategy pct --depth 2",
            "linux-6.12 --races",
            "--replay x.race --races --expect none --schedules 10 -D MENDED",
            "cpudl --stress 2 --cycles 5 --period 5ms --paced --cpus 1",
            "cpudl --cost --run-times 1ms --deadlines 1ms-2ms",
            "own.c -D X",
            "own.c --into-kernel mine --kernel 6.1",
            "sb.litmus --herd --kernel 6.1",
            "--scoreboard --kernel 6.1",
        ] {
            assert_eq!(in_vain(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_before_anything_is_compiled() {
        let refused = |target: &str, line: &str| {
            let words = ["race", target].into_iter().chain(line.split_whitespace());
            let args = Line::try_parse_from(words).unwrap().args;
            match refuse(&args, target) {
                Err(Failure::Input(text)) => text,
                _ => String::new(),
            }
        };
        assert!(refused("linux-6.12", "--audit").contains("--audit takes cpupri or cpudl, not linux-6.12"));
        assert!(refused("linux-6.12", "--scenario nosuch").contains("linux-6.12 has no scenario 'nosuch'"));
        assert!(refused("cpupri", "--scenario nosuch").contains("cpupri has no scenario 'nosuch'"));
        assert_eq!(refused("linux-6.12", "--scenario wakeup"), "");
        assert_eq!(refused("cpupri", "--audit"), "");
    }
}
