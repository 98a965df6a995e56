//! `schedlab record`: capture what tasks do here.

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_host::anonymise::Others;
use schedlab_host::overhead::{self, Overhead, OverheadOptions, Spread, loads};
use schedlab_host::{
    Backend, CaptureMethod, EventChoice, HostError, RecordEnd, RecordOptions, RecordRequest, RecordedTrace,
    Scope, Stage, User, signal_by_name,
};
use schedlab_lab::CONTENDED_SHARE;
use schedlab_units::Span;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the progress line of a recording is renewed; each time is a wake-up on the recorded host.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
pub(crate) struct RecordArgs {
    /// Trace file to write; the snapshot of /proc goes beside it.
    #[arg(short, long, default_value = "trace.dat")]
    pub output: PathBuf,
    /// Keep all tasks, not only the command's, --pid's or --cgroup's (without those: until Ctrl-C or
    /// --duration). Otherwise the time of others is shown as idle, and their names, the host's and paths are
    /// left out.
    #[arg(long)]
    pub system: bool,
    /// Only these processes, with their threads and all processes below them.
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Only the tasks of this control group and those below it, also those that are moved there:
    /// /system.slice/ssh.service.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// Stop after this long; a command runs on.
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Begin when this signal comes: `kill -USR1 PID-OF-RECORDER`. A command runs from the start.
    #[arg(long, value_name = "SIGNAL", value_parser = parse_signal)]
    pub start_on: Option<i32>,
    /// Stop when this signal comes; a command runs on.
    #[arg(long, value_name = "SIGNAL", value_parser = parse_signal)]
    pub stop_on: Option<i32>,
    /// Ring buffer per CPU, in KiB; it is drained while the recording runs, and takes the bursts between two drains.
    #[arg(long, value_name = "KIB", default_value_t = 4096)]
    pub buffer_kib: u32,
    /// How events are taken from the kernel: bpf (programs of ours, at less than half the cost), ftrace
    /// (every kernel), or auto (bpf where the kernel takes it).
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = parse_backend)]
    pub backend: Backend,
    /// Record interrupts and softirqs too: their time is taken out of the tasks', and they show which wakeups are
    /// theirs.
    #[arg(long, alias = "irq")]
    pub interrupts: bool,
    /// Record what tasks wait for each other at, too: what is sent and received at pipes, sockets, eventfds and message
    /// queues, who waits and wakes at futexes (`--messages recorded`). Needs programs (bpf). `locks`: also the C
    /// library's locks, conditions, semaphores and barriers, which make no system call where nobody waits.
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "calls")]
    pub objects: Option<Objects>,
    /// Measure what recording costs here, per type of event and per event from the buffer to the file, beside
    /// WARP's published values (about a minute); RUNS runs of each workload, 0 for the types of event alone.
    #[arg(long, value_name = "RUNS", num_args = 0..=1, default_missing_value = "5")]
    #[arg(conflicts_with_all = ["command", "pid", "cgroup", "system"])]
    pub measure_overhead: Option<u32>,
    /// What --measure-overhead found, as JSON, to a file or `-`.
    #[arg(long, value_name = "FILE", requires = "measure_overhead")]
    pub json: Option<PathBuf>,
    /// A workload of --measure-overhead.
    #[arg(long, hide = true, value_name = "NAME")]
    pub load: Option<String>,
    /// With --system: replace the names of all tasks that are not the command's, the host name and paths.
    #[arg(long)]
    pub anonymise: bool,
    /// Run the command as this user, who also gets the files [default: who called sudo, else the user who records].
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The command, after `--`.
    #[arg(last = true)]
    pub command: Vec<String>,
}

/// What `--objects` records.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    /// System calls.
    Calls,
    /// Also functions of the C library's locks.
    Locks,
}

fn parse_backend(text: &str) -> std::result::Result<Backend, String> {
    match text {
        "auto" => Ok(Backend::Auto),
        "bpf" => Ok(Backend::Bpf),
        "ftrace" => Ok(Backend::Ftrace),
        _ => Err(format!("'{text}' is not auto, bpf or ftrace")),
    }
}

fn parse_signal(text: &str) -> std::result::Result<i32, String> {
    signal_by_name(text).ok_or_else(|| format!("'{text}' is not USR1, USR2, ALRM, CONT, URG, WINCH or IO"))
}

pub(crate) fn record(args: &RecordArgs, ui: &Ui) -> Result<()> {
    if let Some(name) = &args.load {
        return match loads::run(name) {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(Failure::Input(format!("no load {name}; there are {}", loads::LOADS.join(", "))))
            }
            Err(error) => Err(Failure::Input(format!("the load {name} failed: {error}"))),
        };
    }
    if let Some(runs) = args.measure_overhead {
        return measure_overhead(runs, args.json.as_deref(), ui);
    }
    let options = options(args)?;
    let recorded = capture(&options, ui).map_err(Failure::input)?;
    ui.say(recorded.to_string().trim_end());
    ui.say(cost(&recorded));
    if let Some(hidden) = hidden(&recorded) {
        eprintln!("{hidden}");
    }
    if let Some(strangers) = strangers(&recorded) {
        ui.say(strangers);
    }
    // ftrace has none of them, and says so above
    if let (Some(objects), CaptureMethod::Bpf { .. }) = (args.objects, &recorded.method) {
        ui.say(about_locks(objects));
    }
    if !args.command.is_empty() && recorded.ended == RecordEnd::Duration {
        ui.say("the command ran on after the recording");
    }
    ui.say(format!("next: schedlab run {} --sched linux-6.12 --cpus 4", recorded.trace.display()));
    match recorded.status() {
        0 => Ok(()),
        status => Err(Failure::Status(u8::try_from(status).unwrap_or(1))),
    }
}

/// Pairs of slices per type of event.
pub(crate) const OVERHEAD_PAIRS: u32 = 41;

/// How overhead is measured: the loads are this program's own.
pub(crate) fn overhead_options(pairs: u32, runs: u32) -> Result<OverheadOptions> {
    let program = std::env::current_exe().map_err(Failure::input)?;
    let load_program = vec![program.into(), "record".into(), "--load".into()];
    Ok(OverheadOptions { pairs, runs, load_program })
}

fn measure_overhead(runs: u32, to: Option<&Path>, ui: &Ui) -> Result<()> {
    let options = overhead_options(OVERHEAD_PAIRS, runs)?;
    let step = ui.step("measuring");
    let overhead = overhead::measure(&options, &mut |what| step.now(what)).map_err(Failure::input)?;
    drop(step);
    if !output::json_value(to, &json(&overhead))? {
        print!("{overhead}");
    }
    Ok(())
}

fn json(overhead: &Overhead) -> Value {
    let spread = |s: Spread| json!({"median": s.median, "low": s.low, "high": s.high});
    let events = overhead.events.iter().map(|cost| {
        json!({
            "type": cost.operation.name(), "recorded_as": cost.operation.events(), "ftrace_us": cost.us.map(spread),
            "bpf_us": cost.bpf_us.map(spread), "operation_us": cost.operation_us, "warp_us": cost.published_us(),
            "events": cost.events,
        })
    });
    let workloads = overhead.workloads.iter().map(|cost| {
        let ways = cost.ways.iter().map(|way| {
            json!({
                "way": way.way, "events": spread(way.events), "lost": way.lost, "drain_us": spread(way.drain_us),
                "write_us": spread(way.write_us), "bytes": spread(way.bytes), "cpu_s": spread(way.cpu_s),
                "elapsed_s": spread(way.elapsed_s), "added_us": spread(way.added_us),
            })
        });
        json!({
            "name": cost.name, "missing": cost.missing,
            "cpu_s": spread(cost.cpu_s), "elapsed_s": spread(cost.elapsed_s),
            "ways": ways.collect::<Vec<_>>(), "warp_like": cost.published().map(|(like, _)| like),
            "warp_us": cost.published().map(|(_, us)| us),
        })
    });
    json!({
        "schema": 1, "kernel": overhead.kernel, "cpus": overhead.cpus,
        "events": events.collect::<Vec<_>>(), "workloads": workloads.collect::<Vec<_>>(),
    })
}

/// What is known of locks, and what knowing it costs.
fn about_locks(objects: Objects) -> String {
    if objects == Objects::Calls {
        return "locks: contended ones only, for a lock that nobody holds makes no system call. Under another schedule \
            a replay has too few waits for them; --objects=locks records all"
            .to_string();
    }
    let cost = overhead::lock_cost();
    cost.map_or("locks: no program can be put at the C library here".to_string(), |us| {
        format!(
            "locks: each one taken or let go cost {:.2} us ({:.2} to {:.2}), measured just now, of every process that \
             uses these libraries",
            us.median, us.low, us.high
        )
    })
}

/// Whether the machine was the program's own while it was recorded.
fn strangers(recorded: &RecordedTrace) -> Option<String> {
    let others_s = recorded.anonymised.as_ref()?.strangers_ns as f64 * 1e-9;
    let all_s = recorded.duration.as_secs_f64() * recorded.cpus.len() as f64;
    let share = if all_s > 0.0 { others_s / all_s } else { 0.0 };
    (share > CONTENDED_SHARE).then(|| {
        format!(
            "others had {:.0} % of the CPUs' time meanwhile: delays are not the program's own, and it may have taken \
             longer than it would alone",
            100.0 * share
        )
    })
}

/// What programs were blind to.
fn hidden(recorded: &RecordedTrace) -> Option<String> {
    let nr = recorded.hidden_wakings.filter(|nr| *nr > 0)?;
    Some(format!(
        "this kernel runs no program while process 1 has a CPU; {nr} wakeups of such moments are ftrace's, and its \
         switches may be missing"
    ))
}

/// What the recorder itself has used.
fn cost(recorded: &RecordedTrace) -> String {
    let way = match &recorded.method {
        CaptureMethod::Bpf { rest } => match rest.first() {
            None => "by programs in the kernel (bpf)".to_string(),
            Some((name, why)) => format!(
                "by programs in the kernel (bpf), {} kinds of events by ftrace (first {name}: {})",
                rest.len(),
                why.trim()
            ),
        },
        CaptureMethod::Ftrace { why } => format!("by ftrace ({why})"),
    };
    format!(
        "recorded {way}; the recorder's own CPU time: {:.3} s draining ({} wakes), {:.3} s writing",
        recorded.drain.cpu.as_secs_f64(),
        recorded.drain.wakes,
        recorded.write_cpu.as_secs_f64()
    )
}

fn options(args: &RecordArgs) -> Result<RecordOptions> {
    let duration = args.duration.map(|span| Duration::from_nanos(span.as_ns()));
    // always the whole system: what a recording of some tasks only shows of the others looks like
    // the truth. Those that were not asked for are taken out afterwards
    let scope = Scope::Whole;
    let what = match (args.command.is_empty(), args.pid.is_empty(), args.cgroup.is_empty()) {
        (false, true, true) => {
            RecordRequest::Command { argv: args.command.iter().map(Into::into).collect(), duration, scope }
        }
        (true, false, true) => RecordRequest::Processes {
            pids: args.pid.iter().map(|&pid| pid as i32).collect(),
            duration,
            scope,
        },
        (true, true, false) => RecordRequest::Cgroups { paths: args.cgroup.clone(), duration },
        (true, true, true) if args.system => RecordRequest::System { duration },
        (true, true, true) => {
            return Err(Failure::Input(
                "nothing to record: give a command after `--`, or --pid, --cgroup or --system".into(),
            ));
        }
        _ => return Err(Failure::Input("a command, --pid and --cgroup exclude each other".into())),
    };
    let mut options = RecordOptions::new(&args.output, what);
    options.buffer_kb = args.buffer_kib;
    options.anonymise = match (args.system, args.anonymise) {
        (true, false) => None,
        (true, true) => Some(Others::Rename),
        (false, _) => Some(Others::Drop),
    };
    if args.interrupts {
        options.events = EventChoice::default().with_interrupts();
    }
    options.events.objects = args.objects.is_some();
    options.events.locks = args.objects == Some(Objects::Locks);
    options.backend = args.backend;
    (options.start_on, options.stop_on) = (args.start_on, args.stop_on);
    options.user = match &args.user {
        Some(name) => Some(User::named(name).map_err(Failure::input)?),
        None => User::invoking(),
    };
    Ok(options)
}

/// Records with a progress line.
pub(crate) fn capture(options: &RecordOptions, ui: &Ui) -> std::result::Result<RecordedTrace, HostError> {
    let step = ui.step("recording");
    let mut options = options.clone();
    options.progress_every = ui.is_interactive().then_some(PROGRESS_EVERY);
    schedlab_host::record(&options, &mut |stage| match stage {
        Stage::Waiting { signal } => {
            step.now(format!("waiting for signal {signal}: kill -{signal} {}", std::process::id()));
        }
        Stage::Recording { elapsed, drained_bytes } => step.now(format!(
            "recording: {} s, {:.1} MB of events",
            elapsed.as_secs(),
            drained_bytes as f64 / 1e6
        )),
        Stage::Draining => step.now("taking the rest from the buffers"),
        Stage::Writing => step.now("writing the trace"),
        Stage::CommandGoesOn => step.now("the recording is over; waiting for the command"),
    })
}
