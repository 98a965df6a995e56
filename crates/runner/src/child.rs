//! The child's side: build the kernel, run the machine, write the report.

use crate::control::ControlPage;
use crate::scheduler::policy_params;
use crate::{ChildReport, ExitKind, ExitReport, RunEnd, Scheduler};
use schedlab_linux::{Extension, KernelObject, LinuxKernel, LoadedKernel};
use schedlab_machine::kernel::{Action, Fault, FaultKind, FileRequest, Kernel, ReadOut};
use schedlab_machine::native::Native;
use schedlab_machine::sink::Spill;
use schedlab_machine::{End, Machine, Outcome, Program, Setup};
use schedlab_scx::ScxExtension;
use schedlab_units::{Span, TaskId};
use std::fs::File;

/// Runs to the end; returns what to report. `opened`: the scheduler's kernel object, if it is in memory already.
pub(crate) fn run(
    scheduler: &Scheduler,
    opened: Option<KernelObject>,
    program: Program,
    setup: Setup,
    actions: &[Action],
    spill: File,
    control: &'static ControlPage,
) -> ChildReport {
    let nr_tasks = program.nr_tasks();
    let (questions, actions) = questions(actions);
    match scheduler {
        Scheduler::Native(info) => {
            let policy =
                info.build(&policy_params(&setup.params)).expect("the caller has checked the parameters");
            let native = Native::new(policy, Spill::through(&control.log, spill));
            let mut machine = Machine::new(native, program, setup);
            drive(&mut machine, actions, control)
        }
        Scheduler::Linux(linux) => {
            let loaded = opened.map_or_else(|| LoadedKernel::load(&linux.object), LoadedKernel::of);
            let mut kernel = match loaded {
                Ok(kernel) => kernel,
                Err(error) => {
                    let fault = Fault { kind: FaultKind::Refused, reason: error.to_string() };
                    return not_started(fault, nr_tasks);
                }
            };
            crate::crash::loaded(kernel.table());
            // SAFETY: a child runs one scheduler, here; its worker and its caller look at the window when it is gone.
            kernel.log_through(unsafe { &mut *control.window() });
            if !questions.is_empty() {
                kernel.ask(questions);
            }
            let kernel = LinuxKernel::new(kernel, COMMAND_LINE, Spill::through(&control.log, spill));
            let scx =
                linux.scx.clone().map(|compiled| Box::new(ScxExtension::new(compiled)) as Box<dyn Extension>);
            let kernel = kernel.with_extension(scx);
            let mut machine = Machine::new(kernel, program, setup);
            let mut report = drive(&mut machine, actions, control);
            report.decisions = machine.kernel().decisions();
            report
        }
    }
}

/// Decisions that are to be explained, and what is left to be done to the kernel.
fn questions(actions: &[Action]) -> (Vec<(u64, TaskId)>, Vec<Action>) {
    let mut questions = Vec::new();
    let mut rest = Vec::new();
    for action in actions {
        let (asked, files) =
            action.files.iter().partition::<Vec<_>, _>(|f| matches!(f, FileRequest::Explain { .. }));
        questions.extend(asked.into_iter().filter_map(|f| match f {
            FileRequest::Explain { task } => Some((action.at.as_ns(), *task)),
            _ => None,
        }));
        if !files.is_empty() {
            rest.push(Action { at: action.at, files: files.into_iter().cloned().collect() });
        }
    }
    (questions, rest)
}

/// The simulated kernel's command line: as on a server, without grouping by session (there are no sessions).
pub const COMMAND_LINE: &str = "noautogroup";

/// A scheduler that could not be loaded.
fn not_started(fault: Fault, nr_tasks: u32) -> ChildReport {
    let outcome = Outcome {
        end: End::Fault(fault),
        duration: Span::ZERO,
        finished: vec![false; nr_tasks as usize],
        events: 0,
        tokens_early: 0,
        waits_gained: 0,
        waits_skipped: 0,
        sends_lost: 0,
        waits_forced: 0,
        first_forced: None,
        loop_wall_ns: 0,
        kernel_wall_ns: 0,
        boot: Span::ZERO,
    };
    report(outcome, ReadOut::default())
}

fn drive<K: Kernel>(
    machine: &mut Machine<K>,
    actions: Vec<Action>,
    control: &'static ControlPage,
) -> ChildReport {
    machine.set_pulse(&control.pulse);
    machine.set_actions(actions);
    let outcome = machine.run();
    let readings =
        machine.readings().iter().map(|r| (r.at.as_ns(), r.name.clone(), r.result.clone())).collect();
    let kernel = machine.kernel();
    let flushed = kernel.flush_log();
    let mut report = report(outcome, kernel.read_out());
    report.readings = readings;
    if let Err(error) = flushed {
        report.end = RunEnd::Misbehaved {
            report: ExitReport {
                kind: ExitKind::Log,
                reason: format!(
                    "the log could not be written: {error}; free space in the temporary directory"
                ),
                time_ns: report.duration_ns,
            },
        };
    }
    report
}

fn report(outcome: Outcome, read_out: ReadOut) -> ChildReport {
    let ReadOut { kernel_threads, tasks, warnings, refused, loaded_scheduler, coverage } = read_out;
    let duration_ns = outcome.duration.as_ns();
    ChildReport {
        end: RunEnd::of(outcome.end, outcome.duration),
        duration_ns,
        finished: outcome.finished,
        events: outcome.events,
        tokens_early: outcome.tokens_early,
        waits_gained: outcome.waits_gained,
        waits_skipped: outcome.waits_skipped,
        sends_lost: outcome.sends_lost,
        waits_forced: outcome.waits_forced,
        first_forced: outcome.first_forced,
        loop_wall_ns: outcome.loop_wall_ns,
        kernel_wall_ns: outcome.kernel_wall_ns,
        boot_ns: outcome.boot.as_ns(),
        kernel_threads: kernel_threads.into_iter().map(|thread| (thread.pid, thread.name)).collect(),
        refused,
        warnings,
        kernel_cpu_ns: tasks.iter().map(|counters| counters.cpu.as_ns()).collect(),
        readings: Vec::new(),
        account: loaded_scheduler,
        coverage,
        decisions: Vec::new(),
        uncontained: None,
    }
}
