//! `schedlab guest`: what does real Linux do with this workload? Boots a distributor's kernel in QEMU and
//! gives its schedule log.

use crate::changes;
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::{Args, Subcommand};
use schedlab_instruments::summarize;
use schedlab_lab::SubjectSpec;
use schedlab_real::{Arm, GuestKernel, Options, RealError, RealRun, RunStage, list, workloads};
use schedlab_report::{Detail, NextStep, PerfettoOptions, RunFacts, RunReport, Style};
use schedlab_units::Span;
use schedlab_workload::Workload;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

mod calibrate;

/// Which kernel a guest boots.
#[derive(Args, Debug)]
pub(crate) struct KernelArgs {
    /// Real Linux, as every command writes schedulers: guest:6.12, guest:6.1, or guest:FILE, a kernel image.
    #[arg(long, value_name = "guest:VERSION|FILE", conflicts_with = "kernel")]
    pub sched: Option<SubjectSpec>,
    /// The same without the prefix: 6.12, 6.1, or the path of a kernel image.
    #[arg(long, value_name = "VERSION|FILE", default_value = "6.12")]
    pub kernel: String,
}

impl KernelArgs {
    fn find(&self, command: &'static str) -> Result<GuestKernel> {
        let kernel = match &self.sched {
            Some(spec) => spec.guest_kernel(command)?,
            None => &self.kernel,
        };
        GuestKernel::find(kernel).map_err(failure)
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum GuestCommand {
    /// Boot a real kernel, run the workload as real processes, give the schedule log.
    Run(Box<RunArgs>),
    /// Measure what kernel code costs, for `run --costs`.
    Calibrate(calibrate::CalibrateArgs),
    /// Kernels and workloads that there are.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// A workload file, a trace, or a name of `schedlab guest list`: fairbench, start:8,0,0,0, ...
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Virtual CPUs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub cpus: u32,
    /// Stop after this much of the guest's time.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub duration: Span,
    /// Write the schedule log: Arrow if the name ends in .arrow, else text.
    #[arg(short = 'o', long = "log", value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Keep the kernel's trace as a trace.dat.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the run as a recording, for `fidelity` and all else that takes one: a trace.dat, with the tables of tasks
    /// and groups beside it.
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    #[command(flatten)]
    pub results: output::ResultArgs,
    /// Move time 0 within the tick: another sample of the same run. Below 100 ms.
    #[arg(long, value_name = "TIME", default_value = "0ns")]
    pub phase: Span,
    /// Timer slack of the tasks; programs that state nothing have 50us.
    #[arg(long, value_name = "TIME", default_value = "1ns")]
    pub timer_slack: Span,
    /// Tasks poll their CPU clock while they compute, which makes the kernel account for them between ticks.
    #[arg(long)]
    pub poll_clock: bool,
    /// Time in which every virtual CPU gets a turn; shorter is truer and slower.
    #[arg(long, value_name = "TIME", default_value = "50us")]
    pub interleave: Span,
    /// An instruction takes 2^N ns.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub shift: u32,
    /// Use the host's CPU (needs /dev/kvm) instead of counting instructions: faster, physical times, never
    /// the same twice.
    #[arg(long)]
    pub kvm: bool,
    /// A file of the guest to write before the start: /proc/sys/kernel/sched_rt_runtime_us=-1.
    #[arg(long, value_name = "PATH=VALUE", value_parser = crate::parse::parse_param)]
    pub set: Vec<(String, String)>,
    /// A word for the kernel's command line, such as preempt=full.
    #[arg(long, value_name = "WORD")]
    pub kernel_arg: Vec<String>,
    /// Trace buffer per CPU, in MB.
    #[arg(long, value_name = "MB", default_value_t = 12)]
    pub trace_buffer_mb: u32,
    /// Give up after this many seconds of the host's time.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub wall_limit: u64,
    /// Boot even if this very run is in the cache.
    #[arg(long)]
    pub fresh: bool,
}

pub(crate) fn guest(command: &GuestCommand, ui: &Ui) -> Result<()> {
    match command {
        GuestCommand::Run(args) => run(args, ui),
        GuestCommand::Calibrate(args) => calibrate::calibrate(args, ui),
        GuestCommand::List { json } => show_list(*json),
    }
}

fn show_list(as_json: bool) -> Result<()> {
    let kernels = list().map_err(failure)?;
    if as_json {
        let kernels = kernels.iter().map(
            |k| json!({"series": k.series, "package": k.package, "version": k.version, "cached": k.cached}),
        );
        let names = workloads::NAMES.map(|(name, what)| json!({"name": name, "what": what}));
        let all = json!({"kernels": kernels.collect::<Vec<_>>(), "workloads": names});
        return output::print_json(&all);
    }
    println!("Kernels (--kernel; or the path of an image)");
    for k in &kernels {
        let cached = if k.cached { "" } else { "  (fetched on first use)" };
        println!("  {:<6} {} {}{cached}", k.series, k.package, k.version);
    }
    if kernels.is_empty() {
        println!("  none: this system's packages hold none; `apt-get update` may help");
    }
    println!("\nWorkloads (or a workload file, or a trace)");
    for (name, what) in workloads::NAMES {
        println!("  {name:<16} {what}");
    }
    Ok(())
}

/// The workload of this name or in this file, with its title.
pub(crate) fn workload(name: &str, duration: Span, ui: &Ui) -> Result<(Workload, String)> {
    if Path::new(name).exists() {
        let loaded = schedlab_lab::load(Path::new(name), ui)?;
        return Ok((loaded.workload, loaded.name));
    }
    Ok((workloads::named(name, duration).map_err(failure)?, name.to_string()))
}

/// Shows a guest's stages.
pub(crate) fn stages<'a>(ui: &'a Ui, what: &'a str) -> impl FnMut(RunStage) + 'a {
    let step = ui.step(format!("{what}: preparing"));
    let mut last = String::new();
    move |progress| {
        let text = match progress {
            RunStage::Preparing => "preparing".to_string(),
            RunStage::Booting => "the kernel boots".to_string(),
            RunStage::Starting => "setting up the workload".to_string(),
            RunStage::Running(duration) => format!("runs for {duration} of its time"),
            RunStage::Receiving(bytes) => {
                return step.progress(format!("{what}: hands over its trace, {} kB", bytes / 1000));
            }
            RunStage::Done => return,
        };
        if text != last {
            step.now(format!("{what}: {text}"));
            last = text;
        }
    }
}

fn run(args: &RunArgs, ui: &Ui) -> Result<()> {
    let (workload, name) = workload(&args.workload, args.duration, ui)?;
    let kernel = args.kernel.find("guest run")?;
    let options = Options {
        cpus: args.cpus,
        duration: args.duration,
        phase: args.phase,
        timer_slack: args.timer_slack,
        poll_clock: args.poll_clock,
        interleave: args.interleave,
        shift: args.shift,
        kvm: args.kvm,
        host_clock: false,
        trace_buffer_mb: args.trace_buffer_mb,
        settings: args.set.clone(),
        kernel_args: args.kernel_arg.clone(),
        wall_limit_s: args.wall_limit,
        keep_trace: args.trace.clone(),
        recording: args.recording.clone(),
        fresh: args.fresh,
    };
    let what = format!("guest {}", kernel.package);
    let mut guest =
        Arm::Guest(kernel.clone()).perform(&workload, &options, &mut stages(ui, &what)).map_err(failure)?;
    guest.log.header.params.extend(args.kernel_arg.iter().map(|word| (word.clone(), String::new())));
    let summary = summarize(&guest.log)
        .map_err(|error| Failure::Internal(format!("the guest's log contradicts itself: {error}")))?;
    let mut changed = workload.changed_experiment(args.cpus);
    changed.extend(guest.report.refused());
    changes::refuse(&changed, ui)?;
    let facts = facts(args, &guest, (name, changed));
    if let Some(path) = &args.log {
        schedlab_log::write(path, &guest.log).map_err(Failure::input)?;
    }
    if let Some(path) = &args.results.perfetto {
        schedlab_report::perfetto(path, &guest.log, PerfettoOptions::default()).map_err(Failure::input)?;
    }
    let report = |detail| {
        RunReport::with_summary(&guest.log, summary.clone(), facts.clone(), detail)
            .map_err(|error| Failure::Internal(format!("the guest's log contradicts itself: {error}")))
    };
    if let Some(path) = &args.results.html {
        let title = format!("{} on {}", facts.workload, guest.log.header.sched);
        schedlab_report::html(path, &title, &[report(Detail::for_html(1))?]).map_err(Failure::input)?;
    }
    let text = report(Detail::for_terminal(args.cpus))?;
    if !output::json(args.results.json.as_deref(), |out| schedlab_report::json(text.view(), out))? {
        print!("{}", schedlab_report::terminal(&text, Style::detect()));
    }
    Ok(())
}

fn facts(args: &RunArgs, guest: &RealRun, (workload, changed): (String, BTreeMap<String, u64>)) -> RunFacts {
    let report = &guest.report;
    let mut notes = vec![
        format!("{}; {}", report.package, report.qemu),
        if args.kvm {
            "this host's CPU ran it: times are physical, and another run differs".to_string()
        } else {
            format!(
                "an instruction takes {} ns, so that what lasts less than a tick has no physical meaning; key {}",
                1 << args.shift,
                &report.key[..16]
            )
        },
    ];
    if report.wall_ms == 0 && !output::is_reproducible() {
        notes.push("from the cache; --fresh boots again".to_string());
    }
    let series = guest.log.header.sched.trim_start_matches("guest-");
    let mut next_steps = Vec::new();
    if Path::new(&args.workload).exists() {
        let command = format!(
            "schedlab run {} --sched {series} --cpus {} --duration {}",
            args.workload, args.cpus, args.duration
        );
        next_steps.push(NextStep { what: "the same in the simulation".into(), command });
    } else {
        let command = format!("schedlab validate {} --cpus {}", args.workload, args.cpus);
        next_steps.push(NextStep { what: "compare with the simulation".into(), command });
    }
    RunFacts {
        workload,
        command: crate::execute::command_line(),
        changed_experiment: changed,
        end: format!("stopped after {}", guest.log.header.duration),
        wall_ns: output::host_ns(report.wall_ms * 1_000_000),
        dropped: report.dropped.clone(),
        notes,
        next_steps,
        ..RunFacts::default()
    }
}

/// A guest's failure by kind: the kernel died or the program inside gave up, or the input was wrong.
pub(crate) fn failure(error: RealError) -> Failure {
    match error {
        RealError::Output { .. } => Failure::Internal(error.to_string()),
        other => Failure::input(other),
    }
}
