//! `schedlab wasted`: when did a CPU idle beside a task that it may run?

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_instruments::{LogProblem, Picture, Wasted, for_each_picture, wasted as find};
use schedlab_log::{Log, LogHeader};
use schedlab_report::{Style, wasted_json, wasted_stretch_json, wasted_terminal};
use schedlab_units::Span;
use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Stretches that the terminal's table is made of.
const SHOWN: usize = 50;

#[derive(Args, Debug)]
pub(crate) struct WastedArgs {
    /// A schedule log, text or Arrow: of the machine, a guest or a host (`run --log FILE` writes one).
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// Only stretches that are longer than this.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub longer: Span,
    /// Write the stretches as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

pub(crate) fn wasted(args: &WastedArgs, ui: &Ui) -> Result<()> {
    if let Some(path) = &args.json {
        output::check(path)?;
    }
    let log = open(&args.log)?;
    let step = ui.step("reading the log");
    let problem = |error| match error {
        LogProblem::Log(error) => Failure::input(error),
        other => Failure::Input(format!("{}: {other}", args.log.display())),
    };
    let found = find(&*log, args.longer).map_err(problem)?;
    drop(step);
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

/// A log. A recording is something else: it is said what to do with it.
fn open(path: &Path) -> Result<Box<dyn Log>> {
    schedlab_log::open(path).map_err(|error| {
        let hint = match schedlab_lab::is_recording(path) {
            true => format!(
                "{}: this is a recording; wasted reads schedule logs so far: replay it with 'schedlab run {} --sched NAME \
                 --cpus N --log FILE' and give that log",
                path.display(),
                path.display()
            ),
            false => return Failure::input(error),
        };
        Failure::Input(hint)
    })
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
