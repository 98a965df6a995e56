//! `schedlab hourglass`: what does this machine's scheduler do, as seen from user level?

mod elsewhere;
mod study;
mod whatif;

use crate::failure::{Failure, Result};
use crate::output;
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::{Args, Parser};
use elsewhere::{Place, place};
use schedlab_hourglass::{
    Backend, Checked, Findings, Line, Map, PlanFile, check, compare, compare_all, compared_drawings,
    compared_text, infer, parse, run, suite, threads_of,
};
use schedlab_report::pages::Pages;
use schedlab_report::table::Table;
use schedlab_report::units::count;
use schedlab_stdx::limits::read_toml;
use schedlab_units::Span;
use std::path::{Path, PathBuf};

/// The forms of the command and its options, which clap does not read.
const GRAMMAR: &str = "\
Threads that poll the clock show when they run and when not, without privilege: an execution map with a
cause for every gap.

hourglass [OPTIONS]            runs threads and shows the map
hourglass infer [--from LOG]   tick, slice, switch cost, ...: each with an interval, or \"cannot tell\"
hourglass check [OPTIONS]      the map beside the kernel's own trace (root); --recorder auto | ftrace | bpf
hourglass compare A B...       what differs, and is it more than chance? Of logs, folders of logs (infer --log),
                               here (this machine), guest:6.12,preempt=full (a guest with one CPU)
hourglass study                how often infer is right, on schedules whose truth is known
hourglass whatif [OPTIONS]     deadlines under other schedulers, CPUs, computing times; measured afterwards.
                               --sched NAME, --cpus N, --compute PCT, --draws N, --workload FILE

-d TIME           how long (2s)
-n N              threads (1)
-t K              the options that follow are for thread K, or for all
-w MODEL          CPU | PERIODIC C T | NONBLOCKING C T | LATENCY T | SCAN SIZE | SPORADIC C T | ONOFF ON OFF |
                  STEPS run=2ms,sleep=3ms,yield
-p CLASS          RTHIGH RTMED RTLOW NORMAL HIGH LOW, NICE n, BATCH, IDLE, FIFO n, RR n, DEADLINE C T
-i TIMER          SLEEP ABSOLUTE TIMERFD ITIMER POSIX RTC BUSY
-a CPUS           where the threads may run, e.g. 0-3
-c DIR            a control group's folder to enter
-g TIME           shortest gap (found by calibration); -gh prints the histogram of the loop
--raw             the raw execution trace; -x leaves it out
--plan FILE       all of this as TOML; what stands behind it on the line comes on top
--rt-app FILE     the threads of an rt-app description (JSON); -w, -p and -a do not apply then
--load LOAD       NET (network receive), DISK or CPU beside it; may be given several times
--beside CMD      a command that runs beside it; may be given several times
--log FILE        a schedule log as any other; --html FILE a page; --perfetto FILE; --json FILE or -
--buffer N        gaps that each thread has room for
--all-cpus        real-time threads may have every CPU
--in guest:6.12   in a guest with one CPU; guest:6.12,preempt=full: with words for its kernel's command line
--seed N          of what is drawn at random";

/// The words behind `hourglass`; [`GRAMMAR`] says which there are.
#[derive(Args, Debug)]
#[command(after_help = GRAMMAR)]
pub(crate) struct HourglassArgs {
    /// As on the slides: -d 20s -n 1 -t 0 -p RTHIGH -w PERIODIC 4ms 5ms -i RTC.
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

pub(crate) fn hourglass(args: &HourglassArgs, ui: &Ui) -> Result<()> {
    if let [first, second, ..] = &args.words[..]
        && ["check", "whatif"].contains(&first.as_str())
        && ["--help", "-h"].contains(&second.as_str())
    {
        crate::print::stdout(&format!("{GRAMMAR}\n"));
        return Ok(());
    }
    match args.words.first().map(String::as_str) {
        Some("infer") => inferred(&sub(&args.words), ui),
        Some("check") => checked(&args.words[1..], ui),
        Some("compare") => compared(&sub(&args.words), ui),
        Some("study") => study::studied(&sub(&args.words), ui),
        Some("whatif") => whatif::whatif(&args.words[1..], ui),
        _ => map(&args.words, ui),
    }
}

/// The options of a subcommand; its first word is the name.
fn sub<T: Parser>(words: &[String]) -> T {
    T::try_parse_from(words).unwrap_or_else(|error| crate::print::refused(&error))
}

/// What does a log say of the scheduler that made it? Without --from, a few short runs are made here.
#[derive(Parser, Debug)]
#[command(name = "schedlab hourglass infer")]
struct InferArgs {
    /// A log of pollers; may be given several times: the best answers are taken.
    #[arg(long, value_name = "LOG")]
    from: Vec<PathBuf>,
    /// Length of each run.
    #[arg(short, long, value_name = "TIME", default_value = "2s")]
    duration: Span,
    /// The CPU on which threads share.
    #[arg(short = 'a', long, value_name = "CPU", default_value_t = 0)]
    cpu: u32,
    /// Write the logs of the runs into this folder.
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Run in a guest with one CPU: guest:6.12, guest:6.1,preempt=full.
    #[arg(long = "in", value_name = "PLACE", conflicts_with = "from")]
    place: Option<Place>,
    /// Write what switches and ticks cost, for run --costs.
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

fn inferred(args: &InferArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    let mut findings = Findings::default();
    let mut remarks = Vec::new();
    for path in &args.from {
        findings = findings.or(of_log(path)?);
        remarks.push(format!("from {}", path.display()));
    }
    if let Some(folder) = &args.log {
        schedlab_report::pages::create(folder).map_err(Failure::input)?;
    }
    match &args.place {
        Some(place) => {
            let found = guest(place, args.duration, args.log.as_deref(), ui)?;
            (findings, remarks) = (found.0, vec![found.1]);
        }
        None if args.from.is_empty() => {
            let found = here(args.duration, args.cpu, args.log.as_deref(), ui)?;
            (findings, remarks) = found;
        }
        None => {}
    }
    if let Some(path) = &args.costs {
        match findings.costs(&remarks.join("; ")) {
            Some(text) => output::text(path, &text)?,
            None => ui.say("no costs were found; no file is written"),
        }
    }
    let title = "schedlab hourglass infer".to_string();
    let tables = vec![findings.table(), findings.timer_table(), findings.conditions()];
    let pages = Pages { title, remarks, drawings: Vec::new(), tables };
    args.output.deliver(&pages, &findings.summary(), ui)
}

/// The runs of `suite` on this machine; and what each was.
fn here(duration: Span, cpu: u32, folder: Option<&Path>, ui: &Ui) -> Result<(Findings, Vec<String>)> {
    let (mut findings, mut remarks) = (Findings::default(), Vec::new());
    for (number, (what, plan)) in suite(duration, cpu).into_iter().enumerate() {
        let step = ui.step(what);
        let map = run(&plan, &|_| {}).map_err(Failure::input)?;
        drop(step);
        let log = map.log();
        if let Some(folder) = folder {
            schedlab_log::write(&folder.join(format!("{number}.log")), &log).map_err(Failure::input)?;
        }
        findings = findings.or(infer(&log).map_err(Failure::input)?);
        remarks.push(format!("{what}, {duration}"));
    }
    Ok((findings, remarks))
}

/// The same in a guest; and what a reader must know of its numbers.
fn guest(place: &Place, duration: Span, folder: Option<&Path>, ui: &Ui) -> Result<(Findings, String)> {
    let temporary = tempfile::tempdir().map_err(Failure::input)?;
    let folder = folder.unwrap_or(temporary.path());
    let about = place.logs(&duration.to_string(), folder, ui)?;
    Ok((of_folder(folder)?, about))
}

/// The best answers of the logs in a folder.
fn of_folder(folder: &Path) -> Result<Findings> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Failure::Input(format!("{}: {error}", folder.display())))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "log" || end == "arrow"));
    paths.sort();
    if paths.is_empty() {
        let what = "holds no logs (*.log, *.arrow); 'schedlab hourglass infer --log DIR' writes some";
        return Err(Failure::Input(format!("{}: {what}", folder.display())));
    }
    paths.iter().try_fold(Findings::default(), |all, path| Ok(all.or(of_log(path)?)))
}

/// One of what `compare` is given.
fn of_source(source: &str, duration: Span, ui: &Ui) -> Result<(Findings, Option<String>)> {
    let path = Path::new(source);
    match source {
        "here" => Ok((here(duration, 0, None, ui)?.0, None)),
        guests if guests.starts_with("guest:") => {
            let place: Place = guests.parse().map_err(Failure::Input)?;
            guest(&place, duration, None, ui).map(|(found, about)| (found, Some(about)))
        }
        _ if path.is_dir() => Ok((of_folder(path)?, None)),
        _ => Ok((of_log(path)?, None)),
    }
}

fn of_log(path: &Path) -> Result<Findings> {
    let log = schedlab_log::open(path).map_err(Failure::input)?;
    infer(&*log).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

/// In what do two or more machines differ, as pollers see them, and is that more than chance?
#[derive(Parser, Debug)]
#[command(name = "schedlab hourglass compare")]
struct CompareArgs {
    /// What the others are compared with: a log, a folder of logs, here, or guest:6.12,preempt=full.
    #[arg(value_name = "A")]
    a: String,
    /// The others.
    #[arg(value_name = "B", required = true)]
    others: Vec<String>,
    /// Length of each run that is made.
    #[arg(short, long, value_name = "TIME", default_value = "2s")]
    duration: Span,
    #[command(flatten)]
    output: OutputArgs,
}

fn compared(args: &CompareArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    let mut found = Vec::new();
    let mut remarks = Vec::new();
    for source in [&args.a].into_iter().chain(&args.others) {
        let (findings, about) = of_source(source, args.duration, ui)?;
        remarks.extend(about);
        remarks.push(format!("{source} holds for: {}", findings.holds_for()));
        found.push((source.clone(), findings));
    }
    let table = match &found[..] {
        [(a, first), (b, second)] => {
            remarks.insert(0, format!("a: {a}; b: {b}"));
            compare(first, second)
        }
        _ => compare_all(&found),
    };
    let summary =
        remarks.iter().map(|remark| format!("{remark}\n")).collect::<String>() + &compared_text(&found);
    let title = "schedlab hourglass compare".to_string();
    let pages = Pages { title, remarks, drawings: compared_drawings(&found), tables: vec![table] };
    args.output.deliver(&pages, &summary, ui)
}

/// The line, with what a file of its says in front, or with the threads of an rt-app description.
fn line(words: &[String]) -> Result<Line> {
    let Some(place) = words.iter().position(|word| word == "--rt-app") else { return planned(words) };
    let Some(path) = words.get(place + 1) else {
        return Err(Failure::Input("--rt-app: the line ends where a file should stand".into()));
    };
    let workload = schedlab_workload::read_rtapp(Path::new(path)).map_err(Failure::input)?;
    let (threads, otherwise) = threads_of(&workload);
    let rest: Vec<String> = [&words[..place], &words[place + 2..]].concat();
    let mut line = planned(&rest)?;
    line.plan.threads = threads;
    otherwise.iter().for_each(|what| eprintln!("note: {path}: {what}"));
    Ok(line)
}

/// The line, with what a file of its says in front.
fn planned(words: &[String]) -> Result<Line> {
    let Some(place) = words.iter().position(|word| word == "--plan") else {
        return parse(words).map_err(Failure::input);
    };
    let Some(path) = words.get(place + 1) else {
        return Err(Failure::Input("--plan: the line ends where a file should stand".into()));
    };
    let text = read_toml(Path::new(path)).map_err(|error| {
        Failure::Input(format!("{path}: {error}; give a TOML file, see docs/hourglass.md"))
    })?;
    let mut all = PlanFile::parse(&text).map_err(|error| Failure::Input(format!("{path}: {error}")))?.words();
    all.extend(words[..place].iter().cloned());
    all.extend(words[place + 2..].iter().cloned());
    parse(&all).map_err(Failure::input)
}

/// Runs what the line says and shows it.
fn map(words: &[String], ui: &Ui) -> Result<()> {
    let (place, words) = &place(words)?;
    if let Some(place) = place {
        parse(words).map_err(Failure::input)?;
        return place.shown(words, ui);
    }
    let line = line(words)?;
    check_outputs(&line)?;
    let step = ui.step("hourglass");
    let map = run(&line.plan, &|what| step.now(what.to_string())).map_err(Failure::input)?;
    drop(step);
    deliver(&map, &line, None, words, ui)
}

/// As [`map`], beside the kernel's own trace.
fn checked(words: &[String], ui: &Ui) -> Result<()> {
    let (place, words) = &place(words)?;
    let (backend, rest) = recorder(words)?;
    if let Some(place) = place {
        parse(&rest).map_err(Failure::input)?;
        return place.shown(&[&["check".to_string()], &words[..]].concat(), ui);
    }
    let line = line(&rest)?;
    check_outputs(&line)?;
    let step = ui.step("hourglass check");
    let (map, checked) =
        check(&line.plan, backend, &|what| step.now(what.to_string())).map_err(Failure::input)?;
    drop(step);
    deliver(&map, &line, Some(&checked), words, ui)
}

/// The recorder that the words ask for, and the others.
fn recorder(words: &[String]) -> Result<(Backend, Vec<String>)> {
    let Some(place) = words.iter().position(|word| word == "--recorder") else {
        return Ok((Backend::Auto, words.to_vec()));
    };
    let backend = match words.get(place + 1).map(String::as_str) {
        Some("auto") => Backend::Auto,
        Some("ftrace") => Backend::Ftrace,
        Some("bpf") => Backend::Bpf,
        other => {
            let other = other.unwrap_or("(nothing)");
            return Err(Failure::Input(format!("--recorder {other}: expected auto, ftrace or bpf")));
        }
    };
    Ok((backend, [&words[..place], &words[place + 2..]].concat()))
}

fn check_outputs(line: &Line) -> Result<()> {
    let outputs = &line.outputs;
    for path in [&outputs.log, &outputs.json, &outputs.html, &outputs.perfetto].into_iter().flatten() {
        output::check(path)?;
    }
    Ok(())
}

fn deliver(map: &Map, line: &Line, checked: Option<&Checked>, words: &[String], ui: &Ui) -> Result<()> {
    let outputs = &line.outputs;
    let tables: Vec<Table> = checked.iter().flat_map(|checked| [checked.counts(), checked.table()]).collect();
    if let Some(path) = &outputs.log {
        schedlab_log::write(path, &map.log()).map_err(Failure::input)?;
        ui.say(format!("wrote {}", path.display()));
    }
    if let Some(path) = &outputs.html {
        let command = if checked.is_some() { "hourglass check" } else { "hourglass" };
        let mut pages = map.pages(&format!("schedlab {command} {}", words.join(" ")));
        pages.tables.splice(0..0, tables.iter().cloned());
        pages.drawings.extend(checked.map(Checked::drawing));
        output::text(path, &pages.html())?;
        ui.say(format!("wrote {}", path.display()));
    }
    if let Some(path) = &outputs.perfetto {
        output::text(path, &map.perfetto().to_string())?;
        ui.say(format!("wrote {}", path.display()));
    }
    let mut json = map.to_json();
    if let Some(list) = json["tables"].as_array_mut() {
        list.extend(tables.iter().map(Table::to_json));
    }
    if !output::json_value(outputs.json.as_deref(), &json)? {
        print!("{}", map.summary());
        if let Some(checked) = checked {
            print!("\n{}", checked.summary());
        }
        if outputs.histogram {
            print!("\n{}", histogram(map));
        }
        if outputs.raw {
            print!("\n{}", map.raw().to_text());
        }
    }
    Ok(())
}

/// Steps of the loop by length.
fn histogram(map: &Map) -> String {
    let mut text = String::from("steps of the loop up to, and how many\n");
    for (ns, steps) in &map.calibration.histogram {
        text += &format!("{:>12.0} ns  {:>12}\n", ns, count(*steps));
    }
    text
}
