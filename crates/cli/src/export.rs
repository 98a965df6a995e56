//! `schedlab export`: a schedule log in a form that other tools open.
//!
//! ```text
//! schedlab run W --sched linux-6.12 --cpus 2 --log run.arrow
//! schedlab export run.arrow -o run.dat         trace-cmd report run.dat, kernelshark run.dat, schedlab import run.dat
//! schedlab export run.arrow -o run.pftrace     ui.perfetto.dev
//! ```

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use clap::Args;
use schedlab_convert::{Extra, TraceDatOptions};
use schedlab_log::LogHeader;
use schedlab_report::PerfettoOptions;
use schedlab_workload::Workload;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// A schedule log, text or Arrow: of the machine, a guest or a host.
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// What to write: NAME.dat (trace-cmd, KernelShark; a snapshot NAME.proc.csv beside it), NAME.pftrace
    /// (ui.perfetto.dev), NAME.arrow (a log, as a table), NAME.log or NAME.txt (a log, as text).
    #[arg(short, long)]
    pub output: PathBuf,
    /// The workload that ran, for what a log does not hold: which tasks were kernel threads, settings of
    /// control groups (NAME.dat).
    #[arg(long, value_name = "W")]
    pub workload: Option<PathBuf>,
    /// With the simulated kernel's own threads, which an import would take for tasks (NAME.dat, NAME.pftrace;
    /// logs always have them).
    #[arg(long)]
    pub kernel_threads: bool,
    /// Compress the pages of NAME.dat (zstd): a fifth of the size.
    #[arg(long)]
    pub compress: bool,
}

/// What a file's name asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    TraceDat,
    Perfetto,
    Arrow,
    Text,
}

fn form(path: &Path) -> Result<Form> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("dat") => Ok(Form::TraceDat),
        Some("pftrace" | "perfetto" | "perfetto-trace") => Ok(Form::Perfetto),
        Some("arrow") => Ok(Form::Arrow),
        Some("log" | "txt") => Ok(Form::Text),
        _ => Err(Failure::Input(format!(
            "{}: its name does not tell what to write; give it an end of .dat (trace-cmd), .pftrace (Perfetto), \
                .arrow, .log or .txt",
            path.display()
        ))),
    }
}

pub(crate) fn export(args: &ExportArgs, ui: &Ui) -> Result<()> {
    let form = form(&args.output)?;
    crate::output::check(&args.output)?;
    if form != Form::TraceDat && (args.workload.is_some() || args.compress) {
        let text = "--workload and --compress are for NAME.dat";
        return Err(Failure::Input(format!("{}: {text}", args.output.display())));
    }
    let log = schedlab_log::open(&args.log).map_err(Failure::input)?;
    let extra = match &args.workload {
        Some(path) => extra(&schedlab_lab::load(path, ui)?.workload, log.header(), path)?,
        None => Vec::new(),
    };
    let tasks_only = !args.kernel_threads;
    let step = ui.step(format!("writing {}", args.output.display()));
    let said = match form {
        Form::TraceDat => {
            let options = TraceDatOptions { tasks_only, compress: args.compress, extra };
            let stats = schedlab_convert::trace_dat(&args.output, &*log, &options).map_err(Failure::input)?;
            format!("{} events{}", stats.events, shifts(stats.shifted_events, stats.shift_max_ns))
        }
        Form::Perfetto => {
            let stats = schedlab_report::perfetto(
                &args.output,
                &*log,
                PerfettoOptions { tasks_only, ..PerfettoOptions::default() },
            )
            .map_err(Failure::input)?;
            format!("{} events{}", stats.events, shifts(stats.shifted_events, stats.shift_max_ns))
        }
        Form::Arrow | Form::Text => {
            schedlab_log::write(&args.output, &*log).map_err(Failure::input)?;
            "all records".to_string()
        }
    };
    drop(step);
    ui.say(format!("{}: {said}", args.output.display()));
    Ok(())
}

/// What was written later than it happened, so that readers see events of one instant in their order.
fn shifts(events: u64, max_ns: u64) -> String {
    match events {
        0 => String::new(),
        _ => format!(
            ", {events} of them up to {max_ns} ns later than in the log, to keep the order of one instant"
        ),
    }
}

/// What the workload knows of each task of the log.
fn extra(workload: &Workload, header: &LogHeader, path: &Path) -> Result<Vec<Extra>> {
    let same = workload.tasks.len() == header.tasks.len()
        && workload.tasks.iter().zip(&header.tasks).all(|(task, entry)| task.name == entry.name);
    if !same {
        return Err(Failure::Input(format!(
            "{}: {} tasks, the log has {}; give the workload that the log is a run of",
            path.display(),
            workload.tasks.len(),
            header.tasks.len()
        )));
    }
    let of = |task: &schedlab_workload::Task| {
        let group = task.cgroup.and_then(|id| workload.cgroups.get(id.0 as usize));
        Extra {
            kernel_thread: task.kernel_thread,
            cgroup: group.map(|group| group.path.clone()),
            cpu_weight: group.and_then(|group| group.weight),
            cpu_max_us: group
                .and_then(|group| group.max)
                .map(|max| (max.quota.as_ns() / 1000, max.period.as_ns() / 1000)),
            cpuset: group.and_then(|group| group.cpuset.as_ref()).map(ToString::to_string),
        }
    };
    Ok(workload.tasks.iter().map(of).collect())
}
