//! `schedlab workload`: look at a workload, take a part of it, stretch it, give it away.

mod fit;
mod show;
mod svg;

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use clap::{Args, Subcommand};
use schedlab_report::units;
use schedlab_units::Span;
use schedlab_workload::Form;
use schedlab_workload::stream::{Head, Source, StreamError, save_stream, write_stream};
use schedlab_workload::tools::{Anonymise, Cut, Edit, Factor, Filter, Scale, Selector, edited};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Subcommand, Debug)]
pub(crate) enum WorkloadCommand {
    /// A summary, and with --task or --pid a picture of one task's life.
    Show(show::ShowArgs),
    /// Leave some of the tasks; what they needed from the others becomes external.
    Filter(FilterArgs),
    /// Take a window of own time: as if no task ever waited for a CPU.
    Cut(CutArgs),
    /// Make CPU times and sleeps longer or shorter.
    Scale(ScaleArgs),
    /// Replace the names of tasks and groups.
    Anonymise(AnonymiseArgs),
    /// Text to binary, binary to text.
    Convert(ConvertArgs),
    /// Measure distributions of times, as settings of a generator.
    Fit(fit::FitArgs),
}

/// Which tasks: all criteria given must fit, of each criterion one value.
#[derive(Args, Debug, Default)]
pub(crate) struct SelectArgs {
    /// Tasks with this name; `*` and `?` stand for any characters. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub name: Vec<String>,
    /// Tasks with these pids.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Tasks in this group or below it.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// Kernel threads only (yes), or none of them (no).
    #[arg(long, value_name = "yes|no", value_parser = parse_yes_no)]
    pub kernel: Option<bool>,
    /// And everything that these tasks forked.
    #[arg(long)]
    pub children: bool,
}

impl SelectArgs {
    pub fn selector(&self) -> Selector {
        Selector {
            names: self.name.clone(),
            pids: self.pid.clone(),
            cgroups: self.cgroup.clone(),
            kernel: self.kernel,
            children: self.children,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct FilterArgs {
    /// A workload, a trace, a mix.
    #[arg(value_name = "W")]
    pub input: PathBuf,
    #[command(flatten)]
    pub select: SelectArgs,
    /// Leave all others instead.
    #[arg(long)]
    pub not: bool,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct CutArgs {
    /// A workload, a trace, a mix.
    #[arg(value_name = "W")]
    pub input: PathBuf,
    /// Own time at which the window begins.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub from: Span,
    /// Own time at which it ends; the end of the workload if left out.
    #[arg(long, value_name = "TIME")]
    pub to: Option<Span>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct ScaleArgs {
    /// A workload, a trace, a mix.
    #[arg(value_name = "W")]
    pub input: PathBuf,
    /// Factor for CPU times: 0.5, 2, 1/3.
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub cpu: Factor,
    /// Factor for sleeps (external wakeups).
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub sleep: Factor,
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct AnonymiseArgs {
    /// A workload, a trace, a mix.
    #[arg(value_name = "W")]
    pub input: PathBuf,
    /// Names that stay; `*` and `?` stand for any characters. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub keep: Vec<String>,
    /// Print which name became which.
    #[arg(long)]
    pub table: bool,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// A workload, a trace, a mix.
    #[arg(value_name = "W")]
    pub input: PathBuf,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct Output {
    /// Workload file to write: text, or binary if the name ends in .wlb; without it text goes to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

fn parse_yes_no(text: &str) -> std::result::Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("'{text}' is neither yes nor no")),
    }
}

pub(crate) fn workload(command: &WorkloadCommand, ui: &Ui) -> Result<()> {
    match command {
        WorkloadCommand::Show(args) => show::show(args, ui),
        WorkloadCommand::Filter(args) => filter(args, ui),
        WorkloadCommand::Cut(args) => cut(args, ui),
        WorkloadCommand::Scale(args) => scale(args, ui),
        WorkloadCommand::Anonymise(args) => anonymise(args, ui),
        WorkloadCommand::Fit(args) => fit::fit(args, ui),
        WorkloadCommand::Convert(args) => {
            let work = Work::open(&args.input, ui)?;
            work.write(&args.output, work.source.head(), ui, |each| {
                work.source.runs(&mut |row, run| each(row, run))
            })
        }
    }
}

/// A source, and since when it has been worked on.
struct Work {
    source: Source,
    begin: Instant,
}

impl Work {
    fn open(path: &Path, ui: &Ui) -> Result<Work> {
        let begin = Instant::now();
        Ok(Work { source: open(path, ui)?, begin })
    }

    /// Writes what an edit makes of it.
    fn write_edited(&self, output: &Output, edit: &mut dyn Edit, ui: &Ui) -> Result<()> {
        let head = edit.head().clone();
        if head.workload.tasks.is_empty() {
            return Err(Failure::Input("nothing is left: no task fits; nothing was written".into()));
        }
        self.write(output, &head, ui, |each| edited(&self.source, edit, each))
    }

    fn write(
        &self,
        output: &Output,
        head: &Head,
        ui: &Ui,
        feed: impl FnOnce(
            &mut dyn FnMut(
                schedlab_units::TaskId,
                &[schedlab_workload::Event],
            ) -> std::result::Result<(), StreamError>,
        ) -> std::result::Result<(), StreamError>,
    ) -> Result<()> {
        let step = ui.step("writing");
        match &output.output {
            Some(path) => save_stream(path, Form::of_path(path), head, |sink| {
                feed(&mut |row, events| sink.events(row, events))
            }),
            None => {
                let out = Box::new(std::io::stdout().lock());
                write_stream(out, Path::new("standard output"), Form::Text, head, |sink| {
                    feed(&mut |row, events| sink.events(row, events))
                })
            }
        }
        .map_err(Failure::input)?;
        drop(step);
        let old = self.source.head();
        let name = output.output.as_ref().map_or("standard output".into(), |path| path.display().to_string());
        ui.say(format!(
            "{name}: {} tasks, {} events (of {} and {})",
            units::count(head.workload.tasks.len() as u64),
            units::count(head.nr_events),
            units::count(old.workload.tasks.len() as u64),
            units::count(old.nr_events)
        ));
        for (reason, count) in &head.workload.dropped {
            let new = count - old.workload.dropped.get(reason).copied().unwrap_or_default().min(*count);
            if new > 0 {
                ui.say(format!("  {:>10}  {reason}", units::count(new)));
            }
        }
        ui.say(self.speed());
        Ok(())
    }

    /// What it cost.
    fn speed(&self) -> String {
        let (wall_ns, events) = (self.begin.elapsed().as_nanos() as u64, self.source.head().nr_events);
        let rate = events as f64 / (wall_ns.max(1) as f64 * 1e-9) / 1e6;
        let memory =
            peak_memory_kib().map_or(String::new(), |kib| format!(", at most {} MiB of memory", kib / 1024));
        format!("{} events in {}: {rate:.1} M/s{memory}", units::count(events), units::time(wall_ns))
    }
}

/// The most memory that this process has had (`VmHWM`), in KiB.
fn peak_memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Opens any W: a workload file as a stream, all else through memory.
fn open(path: &Path, ui: &Ui) -> Result<Source> {
    let step = ui.step(format!("reading {}", path.display()));
    let source = match Source::open(path).map_err(Failure::input)? {
        Some(source) => source,
        None => {
            drop(step);
            Source::from(schedlab_lab::load(path, ui)?.workload)
        }
    };
    crate::changes::tell_of(&schedlab_lab::title(path), &source.head().workload, None, ui)?;
    Ok(source)
}

fn filter(args: &FilterArgs, ui: &Ui) -> Result<()> {
    let selector = args.select.selector();
    if selector.is_all() {
        return Err(Failure::Input(
            "which tasks? Give --name, --pid, --cgroup or --kernel; `workload show` lists the names".into(),
        ));
    }
    let work = Work::open(&args.input, ui)?;
    let mut keep = selector.rows(&work.source.head().workload);
    if args.not {
        keep.iter_mut().for_each(|keep| *keep = !*keep);
    }
    let mut edit = Filter::new(&work.source, &keep).map_err(Failure::input)?;
    work.write_edited(&args.output, &mut edit, ui)
}

fn cut(args: &CutArgs, ui: &Ui) -> Result<()> {
    let to = args.to.unwrap_or(Span::MAX);
    if to <= args.from {
        return Err(Failure::Input(format!(
            "--to {to} is not after --from {}; the window would be empty",
            args.from
        )));
    }
    let work = Work::open(&args.input, ui)?;
    let mut edit = Cut::new(&work.source, args.from, to).map_err(Failure::input)?;
    work.write_edited(&args.output, &mut edit, ui)
}

fn scale(args: &ScaleArgs, ui: &Ui) -> Result<()> {
    if (args.cpu, args.sleep) == (Factor::ONE, Factor::ONE) {
        return Err(Failure::Input("by how much? Give --cpu FACTOR, --sleep FACTOR or both".into()));
    }
    let work = Work::open(&args.input, ui)?;
    let rows = args.select.selector().rows(&work.source.head().workload);
    let mut edit = Scale::new(&work.source, &rows, args.cpu, args.sleep);
    work.write_edited(&args.output, &mut edit, ui)
}

fn anonymise(args: &AnonymiseArgs, ui: &Ui) -> Result<()> {
    let work = Work::open(&args.input, ui)?;
    let mut edit = Anonymise::new(&work.source, &args.keep);
    let naming = edit.naming().clone();
    work.write_edited(&args.output, &mut edit, ui)?;
    if args.table {
        for (old, new) in naming.tasks.iter().chain(&naming.groups) {
            println!("{new}\t{}", old.escape_debug());
        }
    }
    if !naming.notes.is_empty() {
        ui.say(format!("notes left out: {}", naming.notes.join(", ")));
    }
    Ok(())
}
