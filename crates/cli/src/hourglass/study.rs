//! `schedlab hourglass study`: is inference right? Asked where the truth is known.

use crate::failure::{Failure, Result};
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::Parser;
use schedlab_hourglass::{StudyConfig, study};
use schedlab_lab::{Setting, Subject, SubjectList};
use schedlab_report::pages::Pages;
use schedlab_runner::pool;

/// How often do the intervals of `infer` hold the truth? Schedules of the machine with drawn parameters, seen as
/// pollers would see them.
#[derive(Parser, Debug)]
#[command(name = "schedlab hourglass study")]
pub(super) struct StudyArgs {
    /// Cases.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Of what cases are drawn; case i has the seed N + i.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Schedulers, drawn with equal chances; real Linux is built if it is not there.
    #[arg(long, value_name = "LIST", default_value = "eevdf,cfs-6.1,rr,linux-6.12")]
    sched: SubjectList,
    /// Most runs at once; all cores unless given.
    #[arg(long, value_name = "N", value_parser = crate::parse::parse_jobs)]
    jobs: Option<usize>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn studied(args: &StudyArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    let setting = Setting { hz: 250, nr_cpus: 1, progress: ui };
    let subjects: std::result::Result<Vec<Subject>, _> =
        args.sched.0.iter().map(|spec| spec.resolve(setting)).collect();
    let subjects = subjects.map_err(Failure::input)?;
    let jobs = args.jobs.unwrap_or_else(pool::cores).max(1);
    let config = StudyConfig { runs: args.runs, seed: args.seed, jobs, subjects };
    let step = ui.step("asking schedules whose truth is known");
    let found = study(&config, |done| step.progress(format!("{done} of {} cases", args.runs)));
    drop(step);
    let found = found.map_err(Failure::input)?;
    let summary = found.summary();
    let remarks = summary.lines().take(3).map(str::to_string).collect();
    let title = "schedlab hourglass study".to_string();
    let pages = Pages {
        title,
        remarks,
        drawings: vec![found.drawing()],
        tables: vec![found.table(), found.misses()],
    };
    args.output.deliver(&pages, &summary, ui)
}
