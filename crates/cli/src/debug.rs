//! `schedlab linux debug W ...`: a run under gdb, with the kernel's source and symbols.
//!
//! ```text
//! schedlab linux debug --stop-at 40ms W --sched linux-6.12 --cpus 1         stops at the first event from 40 ms on
//! schedlab linux debug --wakeup hog:3 W --sched linux-6.12 --cpus 4         at the third wakeup of 'hog'
//! schedlab linux debug --decision 100 --gdb 'bt' --batch W ...              prints a backtrace at the 100th switch
//! ```
//!
//! Simulated time stands still while gdb has the run, so that nothing changes by it: the log is the same,
//! byte for byte. The commands that gdb gets are in `linux/gdb/schedlab.py`.

use crate::execute::PATIENT;
use crate::failure::{Failure, Result};
use crate::gdb;
use crate::ui::Ui;
use clap::Args;
use schedlab_linux::build;
use schedlab_units::Span;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct DebugArgs {
    /// Stop at the first event from this simulated time on.
    #[arg(long, value_name = "TIME", group = "stop")]
    pub stop_at: Option<Span>,
    /// Stop at a wakeup of a task (name or pid), the first or the Nth.
    #[arg(long, value_name = "TASK[:N]", group = "stop")]
    pub wakeup: Option<String>,
    /// Stop at the Nth switch of any CPU.
    #[arg(long, value_name = "N", group = "stop")]
    pub decision: Option<u32>,
    /// Stop at a migration that breaks a rule. leaves-idle-llc: out of a last-level cache in which a CPU is idle.
    #[arg(long, value_name = "RULE", group = "stop", value_parser = ["leaves-idle-llc"])]
    pub rule: Option<String>,
    /// With --rule: the Nth such migration.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rule")]
    pub nth: u32,
    /// Of 'race linux-NAME': stop where the CPUs of this schedule's file do, one after the other.
    #[arg(long, value_name = "FILE", group = "stop", conflicts_with = "run")]
    pub schedule: Option<PathBuf>,
    /// A command for gdb when it has stopped; may be given several times. Then the run goes on.
    #[arg(long = "gdb", value_name = "COMMAND")]
    pub commands: Vec<String>,
    /// No prompt: carry out the --gdb commands, go on to the end, leave.
    #[arg(long, requires = "commands")]
    pub batch: bool,
    /// The workload, then whatever `schedlab run` takes.
    #[arg(
        required_unless_present = "schedule",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "W --sched NAME ..."
    )]
    pub run: Vec<String>,
}

/// `struct warp_watch`: WARP_STOP_*.
const STOP_TIME: u32 = 1;
const STOP_WAKEUP: u32 = 2;
const STOP_DECISION: u32 = 3;
const STOP_LEAVES_IDLE_LLC: u32 = 4;

/// gdb's exit status if the run ended before its kernel began: `leave()` of the helper.
const REFUSED: i32 = 77;

/// Refuses options of this command that stand behind an argument of `run`: they would be that one's.
fn refuse_own_behind(run: &[String]) -> Result<()> {
    let own = DebugArgs::augment_args(clap::Command::new("debug"));
    let is_own = |word: &&String| {
        let name = word.split('=').next().and_then(|word| word.strip_prefix("--"));
        name.is_some_and(|name| own.get_arguments().any(|option| option.get_long() == Some(name)))
    };
    match (run.iter().find(is_own), run.first()) {
        (Some(own), Some(first)) => Err(Failure::Input(format!(
            "{own} stands behind '{first}', from which on all belongs to `schedlab run`; put the options of `linux \
             debug` first, then the workload: schedlab linux debug {own} ... W --sched NAME"
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn debug(args: &DebugArgs, ui: &Ui) -> Result<()> {
    if let Some(path) = &args.schedule {
        return crate::race::debug_schedule(path, (&args.commands, args.batch), ui);
    }
    refuse_own_behind(&args.run)?;
    let helper = build::port().map_err(Failure::input)?.join("gdb/schedlab.py");
    let gdb = gdb::program()?;
    let program = std::env::current_exe().map_err(|e| Failure::Internal(format!("internal error: {e}")))?;
    let mut command = gdb::command(&gdb, args.batch);
    command.env(PATIENT, "1");
    // gdb quotes the program's arguments for a shell: there must be one, and one that reads them so
    command.env("SHELL", "/bin/sh");
    // the run itself is a child process, which the helper follows; its parent waits for it
    command.args(["-ex", "set detach-on-fork on", "-ex", "set schedule-multiple off"]);
    command.arg("-x").arg(&helper);
    if let Some(stop) = stop(args, ui)? {
        command.arg("-ex").arg(stop);
    }
    command.arg("-ex").arg("run");
    let last = args.batch.then_some("continue");
    let commands = args.commands.iter().map(String::as_str).chain(last);
    for text in commands {
        command.arg("-ex").arg(format!("python then({})", python(text)));
    }
    if args.batch {
        command.arg("-ex").arg("python leave()");
    }
    command.arg("--args").arg(&program).arg("--quiet").arg("run").args(&args.run);
    // the run's parent outlives gdb by a moment: it becomes our child then, and we wait for it
    // SAFETY: asks for orphaned descendants; no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    let status = command.status().map_err(|e| Failure::Input(format!("gdb cannot be started: {e}")))?;
    loop {
        // SAFETY: waits for any child that is left; no status is asked for.
        if unsafe { libc::wait(std::ptr::null_mut()) } < 0 {
            break;
        }
    }
    match status.code() {
        Some(0) => Ok(()),
        Some(REFUSED) => {
            Err(Failure::Input("the run ended before its kernel began; the reason stands above".into()))
        }
        _ => Err(Failure::Input(format!("gdb ended with {status}"))),
    }
}

/// A text as Python writes it.
fn python(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// The call of the helper that says where to stop.
fn stop(args: &DebugArgs, ui: &Ui) -> Result<Option<String>> {
    let call = |kind: u32, rest: String, words: String| {
        let words = words.replace(['\\', '\''], "");
        Some(format!("python stop_at({kind}{rest}, words='{words}')"))
    };
    if let Some(at) = args.stop_at {
        return Ok(call(
            STOP_TIME,
            format!(", from_ns={}", at.as_ns()),
            format!("the first event from {at} on"),
        ));
    }
    if let Some(n) = args.decision {
        return Ok(call(STOP_DECISION, format!(", nth={n}"), format!("switch number {n}")));
    }
    if args.rule.is_some() {
        let words = "a migration out of a last-level cache in which a CPU is idle".to_owned();
        return Ok(call(STOP_LEAVES_IDLE_LLC, format!(", nth={}", args.nth), words));
    }
    let Some(wanted) = &args.wakeup else { return Ok(None) };
    let (name, n) = match wanted.rsplit_once(':').map(|(name, n)| (name, n.parse::<u32>())) {
        Some((name, Ok(n))) if n > 0 => (name, n),
        _ => (&**wanted, 1),
    };
    let workload = args.run.first().map(String::as_str).unwrap_or_default();
    let loaded = schedlab_lab::load(Path::new(workload), ui)?;
    let task = crate::explain::find(&loaded.workload, name)?;
    Ok(call(STOP_WAKEUP, format!(", task={}, nth={n}", task.0), format!("wakeup number {n} of {name}")))
}
