//! How does another program make a run of this command line? With the same words, and it gets the result itself
//! instead of its text: for a program around this library, which may have threads and someone who presses Ctrl-C.
//!
//! ```text
//! ["run", "w.txt", "--sched", "rr", "--cpus", "2"]  ──run──>  Run: log, json(), html(), command()
//!                                                             Failed: exit status and sentence
//! ```
//!
//! Nothing is printed and no file is written, and no compiler is started here: if [`is_ready`] says no, the hidden
//! command `schedlab resolve` with the same words has the kernel object built and prints it, and [`run`] takes that.
//! A program that is not `schedlab` itself names one first ([`schedlab_process::set_program`]).

use crate::args::{Cli, Command};
use crate::execute::{self, Finished};
use crate::failure::Failure;
use crate::run::{self, RunArgs};
use crate::ui::Ui;
use clap::Parser;
use schedlab_lab::Loaded;
use schedlab_log::{Log, RawLog};
use schedlab_report::{RunReport, Style};
use schedlab_runner::LinuxObject;
use std::path::Path;

pub use schedlab_report::Detail;

/// The environment variable with the number of the process that a command ends with: a program that starts
/// `schedlab` sets it to its own number, and its commands do not outlive it.
pub const PARENT: &str = "SCHEDLAB_PARENT";

/// Why there is no result: what the command would have said, and the status that it would have ended with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Failed {
    /// 1 a finding, 2 bad input, 3 the scheduler misbehaved, 4 a bug of ours.
    pub status: u8,
    /// Over several lines if need be.
    pub sentence: String,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed { status: failure.code(), sentence: failure.sentence().to_string() }
    }
}

/// A run that ended as it should.
pub struct Run {
    finished: Finished,
}

impl Run {
    /// The line that `--json` writes.
    pub fn json(&self) -> String {
        let mut json = Vec::new();
        schedlab_report::json(self.finished.view(), &mut json).expect("memory takes every byte");
        String::from_utf8(json).expect("JSON is UTF-8")
    }

    /// The page that `--html` writes, in so much detail.
    ///
    /// # Errors
    /// The log cannot be read again.
    pub fn html(&self, detail: Detail) -> Result<String, Failed> {
        let report = self.report(detail)?;
        let title = format!("{} under {}", self.finished.facts.workload, self.finished.header().sched);
        let mut page = Vec::new();
        schedlab_report::write_html(&title, &[report], &mut page).expect("memory takes every byte");
        Ok(String::from_utf8(page).expect("a page is UTF-8"))
    }

    /// What is printed on the terminal, without colours.
    ///
    /// # Errors
    /// The log cannot be read again.
    pub fn text(&self) -> Result<String, Failed> {
        let report = self.report(Detail::for_terminal(self.finished.header().nr_cpus))?;
        Ok(schedlab_report::terminal(&report, Style::PLAIN))
    }

    /// The command that repeats the run.
    pub fn command(&self) -> &str {
        &self.finished.facts.command
    }

    /// What happened, record by record.
    pub fn log(&self) -> &RawLog {
        &self.finished.log
    }

    /// The scheduler's warnings: a finding, for which the command ends with status 1 although it has a result.
    pub fn warnings(&self) -> &[String] {
        &self.finished.facts.warnings
    }

    fn report(&self, detail: Detail) -> Result<RunReport, Failed> {
        Ok(execute::report(&self.finished, detail)?)
    }
}

/// The page of any log, with the timeline of `--html`.
///
/// # Errors
/// The log cannot be read, or contradicts itself.
pub fn log_html(title: &str, log: &dyn Log, detail: Detail) -> Result<String, Failed> {
    let facts = schedlab_report::RunFacts { workload: title.to_string(), ..Default::default() };
    let report = RunReport::new(log, facts, detail).map_err(Failure::input)?;
    let mut page = Vec::new();
    schedlab_report::write_html(title, &[report], &mut page).expect("memory takes every byte");
    Ok(String::from_utf8(page).expect("a page is UTF-8"))
}

/// Makes the run that these words of the command line ask for, without the program's name. The workload may have been
/// loaded before (from the path in the words), the kernel object found. `go_on` is asked some twenty times a second; a
/// false ends the run. May be called from any thread.
///
/// # Errors
/// What the command would have ended with; that the run was stopped is bad input.
pub fn run(
    words: &[String],
    loaded: Option<&Loaded>,
    object: Option<LinuxObject>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Run, Failed> {
    let (args, ui) = parse(words)?;
    let finished = run::one(&args, (loaded, object), words, go_on, &ui)?;
    Ok(Run { finished })
}

/// Whether the run of these words has nothing to compile first.
///
/// # Errors
/// As [`run`].
pub fn is_ready(words: &[String]) -> Result<bool, Failed> {
    let (args, ui) = parse(words)?;
    Ok(run::is_ready(&args, &ui)?)
}

/// A workload, as the commands load it.
///
/// # Errors
/// There is none at this path, or it is damaged.
pub fn load(path: &Path) -> Result<Loaded, Failed> {
    Ok(schedlab_lab::load(path, &schedlab_lab::Silent).map_err(Failure::from)?)
}

fn parse(words: &[String]) -> Result<(Box<RunArgs>, Ui), Failed> {
    let all = std::iter::once("schedlab").chain(words.iter().map(String::as_str));
    let bad = |sentence: String| Failed::from(Failure::Input(sentence));
    let cli = Cli::try_parse_from(all).map_err(|error| {
        let text = error.to_string();
        bad(text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_string())
    })?;
    let ui = Ui::new(true, cli.strict);
    match cli.command {
        Command::Run(args) => Ok((args, ui)),
        _ => Err(bad("only 'run' is made inside another program; start the others as commands".into())),
    }
}

/// Has this process end when the one ends that [`PARENT`] names, however that happens.
pub(crate) fn end_with_parent() {
    let Some(parent) = std::env::var_os(PARENT) else { return };
    // SAFETY: there is no other thread yet. What this process starts has a parent of its own.
    unsafe { std::env::remove_var(PARENT) };
    // SAFETY: sets an attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
    if parent.to_str() != Some(&std::os::unix::process::parent_id().to_string()) {
        std::process::exit(Failure::Input(String::new()).code().into()); // it ended before it was asked for
    }
}
