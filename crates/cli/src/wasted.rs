//! `schedlab wasted`: when did a CPU idle beside a task that it may run?

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_harmony::again::{Again, machine};
use schedlab_instruments::{Picture, Wasted, for_each_picture, wasted as find};
use schedlab_lab::SubjectSpec;
use schedlab_log::{Log, LogHeader};
use schedlab_report::{Style, wasted_json, wasted_stretch_json, wasted_terminal};
use schedlab_trace::Mode;
use schedlab_units::Span;
use schedlab_workload::save;
use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Stretches that the terminal's table is made of.
const SHOWN: usize = 50;

#[derive(Args, Debug)]
pub(crate) struct WastedArgs {
    /// A schedule log, text or Arrow: of the machine, a guest or a host (`run --log FILE` writes one); or a recording
    /// (trace.dat, perf.data, ...), as it happened.
    #[arg(value_name = "LOG|TRACE")]
    pub log: PathBuf,
    /// Only stretches that are longer than this.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub longer: Span,
    /// Write the stretches as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a workload of few tasks that shows the longest stretch again; on a machine of as many CPUs, all alike.
    #[arg(short, long, value_name = "W")]
    pub output: Option<PathBuf>,
    /// Who has to show it again: the log's own scheduler unless given.
    #[arg(long, value_name = "SPEC", requires = "output")]
    pub sched: Option<SubjectSpec>,
}

pub(crate) fn wasted(args: &WastedArgs, ui: &Ui) -> Result<()> {
    [&args.json, &args.output].into_iter().flatten().try_for_each(|path| output::check(path))?;
    let log = open(&args.log, ui)?;
    let step = ui.step("reading the log");
    let problem = |problem| Failure::of_log(args.log.display(), problem);
    let found = find(&*log, args.longer).map_err(problem)?;
    drop(step);
    if let Some(path) = &args.output {
        again(args, path, &*log, &found, ui)?;
    }
    if output::json(args.json.as_deref(), |out| write_json(out, &*log, &found))? {
        return Ok(());
    }
    // the table's rows are the longest; a picture each is small, and there are few
    let mut longest = found.all.longest.clone();
    longest.sort_by_key(|stretch| (Reverse(stretch.ns()), stretch.from_ns));
    longest.truncate(SHOWN);
    longest.sort_unstable();
    let mut pictures: Vec<Picture> = Vec::new();
    for_each_picture(&*log, &longest, |picture| pictures.push(picture.clone())).map_err(problem)?;
    print!("{}", wasted_terminal(log.header(), &found, &pictures, Style::detect()));
    Ok(())
}

/// A log, or a recording as it happened.
pub(crate) fn open(path: &Path, ui: &Ui) -> Result<Box<dyn Log>> {
    if !schedlab_lab::is_recording(path) {
        return schedlab_log::open(path).map_err(Failure::input);
    }
    let recording = schedlab_lab::load_recording(path, Mode::Strict, ui)?;
    recording.warnings().iter().for_each(|warning| ui.say(format!("warning: {warning}")));
    Ok(Box::new(recording.recorded.log))
}

/// Writes the scenario of the longest stretch, with as few tasks as it takes under a scheduler that can be run here.
fn again(args: &WastedArgs, path: &Path, log: &dyn Log, found: &Wasted, ui: &Ui) -> Result<()> {
    let header = log.header();
    let longest = found.all.longest.iter().max_by_key(|stretch| (stretch.ns(), Reverse(stretch.from_ns)));
    let Some(longest) = longest else {
        return Err(Failure::Input(format!(
            "{}: no stretch is longer than {}: there is nothing to show again; give a smaller --longer",
            args.log.display(),
            args.longer
        )));
    };
    let mut scenario = None;
    for_each_picture(log, &[*longest], |picture| scenario = Some(Again::of(header, picture)))
        .map_err(|problem| Failure::Input(format!("{}: {problem}", args.log.display())))?;
    let scenario = scenario.ok_or_else(|| Failure::Internal("a stretch without a picture".to_string()))?;
    let all = scenario.nr_tasks();
    let topology = machine(header).map_err(Failure::input)?;
    let subject = match &args.sched {
        Some(spec) => Some(spec.resolve(ui.setting(args_hz(header), &topology))?),
        None => own(header).and_then(|spec| spec.resolve(ui.setting(args_hz(header), &topology)).ok()),
    };
    let (scenario, said) = match subject {
        None => (scenario, format!("not tried: {} cannot be run here; give --sched", header.sched)),
        Some(subject) => {
            let step = ui.step(format!("showing it again under {}", subject.label));
            let shown = scenario.shown(&subject, &topology, args.longer)?;
            drop(step);
            let said = match shown.longest_ns {
                Some(ns) => {
                    format!("a CPU idles beside work for {} in it", Span::from_ns(ns))
                }
                None => {
                    format!("under {} it does not show it: more than these queues is needed", subject.label)
                }
            };
            (shown.scenario, said)
        }
    };
    let workload = scenario.workload().map_err(|error| Failure::Internal(error.to_string()))?;
    save(path, &workload, schedlab_workload::Form::of_path(path)).map_err(Failure::input)?;
    ui.say(format!(
        "{}: {} of the {all} tasks that were there at {}; {said}; run it with --cpus {} --duration {}",
        path.display(),
        scenario.nr_tasks(),
        Span::from_ns(longest.from_ns),
        header.nr_cpus,
        scenario.duration()
    ));
    Ok(())
}

/// Ticks a second, as the log has them; of a policy without any, what `run` takes.
fn args_hz(header: &LogHeader) -> u32 {
    if header.hz == 0 { 250 } else { header.hz }
}

/// The log's own scheduler with its parameters.
fn own(header: &LogHeader) -> Option<SubjectSpec> {
    let mut text = header.sched.clone();
    if !text.contains('=') {
        header.params.iter().for_each(|(name, value)| text += &format!(":{name}={value}"));
    }
    text.parse().ok()
}

/// The stretches are written as they are found: there may be many.
fn write_json(out: &mut dyn Write, log: &dyn Log, found: &Wasted) -> io::Result<()> {
    let header: &LogHeader = log.header();
    let head = wasted_json(header, found).to_string();
    write!(out, "{},\"stretches\":[", head.strip_suffix('}').unwrap_or(&head))?;
    let mut written: io::Result<u64> = Ok(0);
    for_each_picture(log, &found.all.longest, |picture| {
        if let Ok(number) = written {
            let comma = if number > 0 { "," } else { "" };
            let row = wasted_stretch_json(header, picture);
            written = write!(out, "{comma}\n{row}").map(|()| number + 1);
        }
    })
    .map_err(io::Error::other)?;
    written?;
    out.write_all(b"]}\n")
}
