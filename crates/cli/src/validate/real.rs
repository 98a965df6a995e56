//! What does real Linux do with a case? Kept runs of a guest, a guest booted now, or this machine itself.

use super::ValidateArgs;
use crate::failure::{Failure, Result};
use crate::guest;
use crate::output;
use crate::ui::Ui;
use schedlab_real::{Arm, GuestKernel, GuestRequest, Options, Present, RealReport};
use schedlab_units::SchedPolicy;
use schedlab_validate::{Case, Golden, GuestQuestion, Measures, Source, tolerance};
use schedlab_workload::{Task, Workload};

/// A guest with several CPUs takes three times its own time on a quiet host, and hosts are not always quiet.
const WALL_LIMIT_S: u64 = 3600;

/// Real Linux's side of a case.
pub(super) struct Real {
    /// Where it ran.
    pub source: Source,
    /// Ticks per second.
    pub hz: u32,
    /// Its runs.
    pub runs: Vec<Measures>,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// Why nothing can be judged by it.
    pub withheld: Option<String>,
}

/// What real Linux does; `None` if nothing is kept and nothing is to be booted.
pub(super) fn find(
    args: &ValidateArgs,
    image: Option<&GuestKernel>,
    case: &Case,
    workload: &Workload,
    ui: &Ui,
) -> Result<Option<Real>> {
    if args.host {
        return on_host(case, workload, ui).map(Some);
    }
    if let Some(image) = image {
        return boot(args, image, case, workload, ui).map(|golden| Some(of_golden(golden, "guest (image)")));
    }
    if !args.refresh
        && !args.kvm
        && let Some(golden) = Golden::load(&args.golden, case).map_err(Failure::input)?
    {
        return kept(args, case, workload, golden).map(Some);
    }
    if args.golden_only {
        return Ok(None);
    }
    let kernel = GuestKernel::find(&case.series).map_err(guest::failure)?;
    let golden = boot(args, &kernel, case, workload, ui)?;
    if args.refresh {
        std::fs::create_dir_all(&args.golden)
            .map_err(|error| Failure::Input(format!("{}: cannot be made: {error}", args.golden.display())))?;
        output::text(&Golden::path(&args.golden, case), &golden.to_text())?;
    }
    Ok(Some(of_golden(golden, if args.kvm { "guest (kvm)" } else { "guest" })))
}

fn of_golden(golden: Golden, arm: &str) -> Real {
    let source = Source { arm: arm.into(), version: golden.package_version, runs: golden.runs.len() };
    Real { source, hz: golden.hz, runs: golden.runs, notes: Vec::new(), withheld: None }
}

fn on_host(case: &Case, workload: &Workload, ui: &Ui) -> Result<Real> {
    let options = Options { cpus: case.cpus, duration: case.span(), ..Options::default() };
    let step = ui.step(format!("this machine: {} on {} CPUs", case.workload, case.cpus));
    let run = Arm::Host.perform(workload, &options, &mut |_| {}).map_err(guest::failure)?;
    drop(step);
    let measures = Measures::of(&run.log).map_err(|error| Failure::Input(error.to_string()))?;
    let others =
        measures.kernel_thread_ns as f64 / (measures.duration_ns.max(1) * u64::from(case.cpus)) as f64;
    let note = format!(
        "this machine: {:.1} % of the CPUs' time for the workload, {:.1} % for others, the rest idle",
        100.0 * measures.busy,
        100.0 * others
    );
    let too_many = (others > tolerance::HOST_OTHERS).then(|| {
        format!(
            "not judged: others had more than {:.0} % of the CPUs; try again when this machine is quiet",
            100.0 * tolerance::HOST_OTHERS
        )
    });
    let withheld = refusal(workload, &run.report, case.cpus).or(too_many);
    let dropped = run.report.dropped.iter().map(|(what, count)| format!("{count} {what}"));
    let notes = std::iter::once(note).chain(dropped).collect();
    let source = Source { arm: "host".into(), version: run.report.package_version, runs: 1 };
    Ok(Real { source, hz: run.log.header.hz, runs: vec![measures], notes, withheld })
}

/// Why a workload of which this machine refused a part cannot be compared: the simulation, which has a
/// machine to itself, refused nothing.
fn refusal(workload: &Workload, report: &RealReport, cpus: u32) -> Option<String> {
    let refused = report.nr_refused;
    let wants_deadline =
        |task: &Task| task.params.is_some_and(|params| params.policy == SchedPolicy::Deadline);
    (refused > 0).then(|| {
        let mut why = format!(
            "nothing is compared: this machine's kernel refused {refused} of the workload's operations, so that other \
                tasks ran than were asked for"
        );
        if workload.tasks.iter().any(wants_deadline) {
            why.push_str(&format!(
                "; it gives SCHED_DEADLINE only to tasks that may run on all CPUs of the machine, and these are bound \
                    to {cpus} of them"
            ));
        }
        why
    })
}

/// Run `index` of a case.
fn options(case: &Case, index: u32) -> Options {
    Options {
        cpus: case.cpus,
        duration: case.span(),
        phase: Case::phase(index),
        wall_limit_s: WALL_LIMIT_S,
        ..Options::default()
    }
}

/// Kept runs, if they are of what would be asked now.
fn kept(args: &ValidateArgs, case: &Case, workload: &Workload, mut golden: Golden) -> Result<Real> {
    if args.guest_runs.is_some() {
        golden.runs.truncate(case.runs as usize);
        golden.workloads.truncate(case.runs as usize);
    }
    let asked = (0..case.runs).map(|index| GuestRequest::of(workload, &options(case, index)));
    let asked = asked.collect::<std::result::Result<Vec<_>, _>>().map_err(guest::failure)?;
    let question = GuestQuestion {
        guest_program: asked.first().map(|asked| asked.guest_program.clone()).unwrap_or_default(),
        workloads: asked.into_iter().map(|asked| asked.workload).collect(),
        command_line: schedlab_real::command_line(workload, &options(case, 0), golden.hz)
            .map_err(guest::failure)?,
    };
    golden.check(&args.golden, case, &question).map_err(Failure::input)?;
    let present = Present::of(&case.series, case.cpus);
    let pairs = [("kernel", &golden.package_version, present.kernel), ("QEMU", &golden.qemu, present.qemu)];
    let notes = pairs.into_iter().filter_map(|(what, kept, now)| {
        let now = now.filter(|now| now != kept)?;
        Some(format!("kept of {what} {kept}; this machine has {now}: --refresh asks that one"))
    });
    let notes = notes.collect();
    Ok(Real { notes, ..of_golden(golden, "guest (kept)") })
}

/// Boots a guest per run, or takes it from the cache.
fn boot(
    args: &ValidateArgs,
    kernel: &GuestKernel,
    case: &Case,
    workload: &Workload,
    ui: &Ui,
) -> Result<Golden> {
    let mut golden = Golden { hz: kernel.hz, ..Golden::new() };
    for index in 0..case.runs {
        let options = Options { kvm: args.kvm, ..options(case, index) };
        let what =
            format!("guest {} on {} CPUs, {}, run {}", case.series, case.cpus, case.workload, index + 1);
        let run = Arm::Guest(kernel.clone()).perform(workload, &options, &mut guest::stages(ui, &what));
        let run = run.map_err(guest::failure)?;
        if index == 0 {
            super::keep_log(args, case, "real", &run.log)?;
        }
        let measures = Measures::of(&run.log).map_err(|error| Failure::Internal(error.to_string()))?;
        golden.runs.push(measures);
        golden.keys.push(run.report.key);
        golden.workloads.push(run.report.asked.workload);
        golden.guest_program = run.report.asked.guest_program;
        golden.package = run.report.package;
        golden.package_version = run.report.package_version;
        golden.qemu = run.report.qemu;
        if index == 0 {
            golden.command_line = schedlab_real::without_memory(&run.report.command_line);
        }
    }
    Ok(golden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_that_was_refused_a_part_is_not_compared() {
        let report = |nr_refused| RealReport { nr_refused, ..RealReport::default() };
        let named = |name| schedlab_real::workloads::named(name, schedlab_units::Span::from_s(1)).unwrap();
        assert_eq!(refusal(&named("deadline"), &report(0), 1), None);
        let why = refusal(&named("deadline"), &report(2), 1).unwrap();
        assert!(why.contains("refused 2 of") && why.contains("SCHED_DEADLINE"), "{why}");
        let why = refusal(&named("periodic-rt"), &report(3), 1).unwrap();
        assert!(why.contains("refused 3 of") && !why.contains("SCHED_DEADLINE"), "{why}");
    }
}
