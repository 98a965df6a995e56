//! `schedlab record`: capture what tasks do here.

use crate::args::RecordArgs;
use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_host::anonymise::Others;
use schedlab_host::{EventChoice, HostError, RecordOptions, Recorded, Scope, Stage, What};
use std::time::Duration;

pub(crate) fn record(args: &RecordArgs, ui: &Ui) -> Result<()> {
    let options = options(args)?;
    let recorded = capture(&options, ui).map_err(Failure::input)?;
    ui.say(recorded.to_string().trim_end());
    ui.say(format!("next: schedlab run {} --sched linux-6.12 --cpus 4", recorded.trace.display()));
    match recorded.status() {
        0 => Ok(()),
        status => Err(Failure::Status(u8::try_from(status).unwrap_or(1))),
    }
}

fn options(args: &RecordArgs) -> Result<RecordOptions> {
    let duration = args.duration.map(|span| Duration::from_nanos(span.as_ns()));
    // always the whole system: what a recording of some tasks only shows of the others cannot be told from the truth. Those that
    // were not asked for are taken out afterwards
    let scope = Scope::Whole;
    let what = match (args.command.is_empty(), args.pid.is_empty()) {
        (false, true) => {
            if duration.is_some() {
                return Err(Failure::Input(
                    "--duration is for --system or --pid; a command is recorded until it ends".into(),
                ));
            }
            What::Command { argv: args.command.iter().map(Into::into).collect(), scope }
        }
        (true, false) => {
            What::Processes { pids: args.pid.iter().map(|&pid| pid as i32).collect(), duration, scope }
        }
        (true, true) if args.system => What::System { duration },
        (true, true) => {
            return Err(Failure::Input(
                "nothing to record: give a command after `--`, or --system, or --pid".into(),
            ));
        }
        (false, false) => return Err(Failure::Input("--pid and a command exclude each other".into())),
    };
    let mut options = RecordOptions::new(&args.output, what);
    options.buffer_kb = args.buffer_kib;
    options.anonymise = match (args.system, args.anonymise) {
        (true, false) => None,
        (true, true) => Some(Others::Rename),
        (false, _) => Some(Others::Drop),
    };
    options.events = EventChoice { irq: args.irq, softirq: args.irq, ..EventChoice::default() };
    Ok(options)
}

/// Records with a progress line.
pub(crate) fn capture(options: &RecordOptions, ui: &Ui) -> std::result::Result<Recorded, HostError> {
    let step = ui.step("recording");
    schedlab_host::record(options, &mut |stage| match stage {
        Stage::Recording { .. } => {}
        Stage::Draining => step.now("taking the rest from the buffers"),
        Stage::Writing => step.now("writing the trace"),
    })
}
