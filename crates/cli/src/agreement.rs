//! `schedlab agreement`: how far native policies agree with the real kernels that they model.

use crate::failure::{Failure, Result};
use crate::pages::OutputArgs;
use crate::ui::Ui;
use clap::Args;
use schedlab_experiments::agreement::{Pair, Row, Setup, agree, cases, pages};
use schedlab_lab::{RunFailure, Subject, SubjectSpec};
use schedlab_runner::pool;
use schedlab_topology::Topology;
use schedlab_units::Span;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct AgreementArgs {
    /// Workloads to compare on instead of the usual ones (generated ones, and samples where they are found).
    #[arg(value_name = "W")]
    pub workload: Vec<PathBuf>,
    /// Kernels, each with the native policy that models it.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "6.1,6.12")]
    pub linux: Vec<String>,
    /// Numbers of CPUs for the workloads given.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4")]
    pub cpus: Vec<u32>,
    /// Compare this much simulated time.
    #[arg(long, value_name = "TIME", default_value = "20s")]
    pub duration: Span,
    /// Workloads at once; all cores unless given.
    #[arg(long, value_name = "N", value_parser = crate::parse::parse_jobs)]
    pub jobs: Option<usize>,
    /// Keep the logs of all runs in this folder, for `schedlab diff`.
    #[arg(long, value_name = "DIR")]
    pub logs: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Recordings and hand-written workloads of the project: folder or file, numbers of CPUs.
const SAMPLES: [(&str, &[u32]); 9] = [
    ("samples/hand/overrun.txt", &[1, 2]),
    ("samples/hand/rt.txt", &[1, 2]),
    ("samples/hand/pingpong.txt", &[1, 2]),
    ("samples/hand/forktree.txt", &[1, 4]),
    ("samples/compile", &[1, 2, 4]),
    ("samples/gzip", &[1, 2]),
    ("samples/interactive", &[1, 4]),
    ("samples/kv", &[1, 2]),
    ("samples/hackbench", &[1, 4]),
];

/// The native policy that models a series, whether that has a fair server, and whether it places new tasks
/// behind the others.
const MODELS: [(&str, &str, bool, bool); 2] =
    [("6.1", "cfs-6.1", false, true), ("6.12", "eevdf", true, false)];

pub(crate) fn agreement(args: &AgreementArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    if let Some(folder) = &args.logs {
        schedlab_report::pages::create(folder).map_err(Failure::input)?;
    }
    let pairs = args.linux.iter().map(|series| pair(series, ui)).collect::<Result<Vec<_>>>()?;
    let cases = all_cases(args, ui)?;
    let all: Vec<(&Setup, &Pair)> =
        cases.iter().flat_map(|case| pairs.iter().map(move |pair| (case, pair))).collect();
    let step = ui.step(format!("{} workloads under {} pairs", cases.len(), pairs.len()));
    let work = |index: usize| {
        let (case, pair) = all[index];
        agree(case, pair, args.logs.as_deref())
            .map(|found| Row::new(case, pair, &found))
            .map_err(|error| RunFailure::of(&error))
    };
    let jobs = args.jobs.unwrap_or_else(pool::cores);
    let done = |count| step.progress(format!("{count} of {} comparisons", all.len()));
    let results = pool::map(all.len(), jobs, work, done)?;
    drop(step);
    let mut rows = Vec::new();
    for result in results {
        rows.push(result??);
    }
    rows.sort_by_key(|row| args.linux.iter().position(|series| row.real == format!("linux-{series}")));
    let pages = pages(&rows);
    let mut summary = String::new();
    for table in &pages.tables {
        summary.push_str(&format!("{}\n{}\n", table.title, table.to_text()));
    }
    args.output.deliver(&pages, &summary, ui)
}

fn pair(series: &str, ui: &Ui) -> Result<Pair> {
    let model = MODELS.iter().find(|(known, ..)| *known == series);
    let Some(&(_, native, fair_server, start_debit)) = model else {
        let known: Vec<&str> = MODELS.iter().map(|(known, ..)| *known).collect();
        return Err(Failure::Input(format!(
            "--linux {series}: no native policy models this version; there are models of {}",
            known.join(" and ")
        )));
    };
    let topology = Topology::flat(1).map_err(Failure::input)?;
    let real: SubjectSpec = format!("linux-{series}").parse()?;
    let real = real.resolve(ui.setting(250, &topology))?.scheduler;
    let native = Subject::native(native)?.scheduler;
    Ok(Pair { native, real, fair_server, start_debit })
}

fn all_cases(args: &AgreementArgs, ui: &Ui) -> Result<Vec<Setup>> {
    let mut out = Vec::new();
    let mut add = |path: &std::path::Path, machines: &[u32]| -> Result<()> {
        let loaded = schedlab_lab::load(path, ui)?;
        for &nr_cpus in machines {
            crate::changes::tell_of(&loaded.name, &loaded.workload, Some(nr_cpus), ui)?;
            out.push(Setup {
                name: loaded.name.clone(),
                workload: loaded.workload.clone(),
                topology: Topology::flat(nr_cpus).map_err(Failure::input)?,
                duration: args.duration,
            });
        }
        Ok(())
    };
    for path in &args.workload {
        add(path, &args.cpus)?;
    }
    if !args.workload.is_empty() {
        return Ok(out);
    }
    for (name, machines) in SAMPLES {
        match crate::project::project_file(name) {
            Some(path) => add(&path, machines)?,
            None => ui.say(format!("{name} is not found: left out")),
        }
    }
    let mut generated = cases(args.duration).map_err(Failure::input)?;
    generated.append(&mut out);
    Ok(generated)
}
