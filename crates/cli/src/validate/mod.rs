//! `schedlab validate`: is the simulation close to real Linux? Tables with tolerances; exit 1 if a quantity
//! is beyond its own.

mod real;

use crate::costs;
use crate::failure::{Failure, Result};
use crate::guest;
use crate::output;
use crate::ui::Ui;
use clap::Args;
use real::Real;
use schedlab_instruments::{Stay, for_each_stay};
use schedlab_lab::{Real as Arm, Standard, SubjectSpec};
use schedlab_log::MemLog;
use schedlab_machine::{Costs, Perturb, Program};
use schedlab_real::{GuestKernel, workloads};
use schedlab_runner::{RunRequest, Scheduler};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Span};
use schedlab_validate::{Case, Judged, Measures, SERIES, Verdict, Width, csv, effect, html, matrix, table};
use schedlab_workload::Workload;
use std::path::{Path, PathBuf};

#[derive(Args, Clone, Debug)]
pub(crate) struct ValidateArgs {
    /// Only these workloads: names as in `schedlab guest list`, or files. Without: the whole matrix.
    #[arg(value_name = "WORKLOAD")]
    pub workload: Vec<String>,
    /// What real Linux to compare with, as every command writes it: guest:6.12 (as --kernel 6.12), guest:FILE
    /// (as --kernel-image FILE), or host (as --host); several releases if given several times.
    #[arg(long, value_name = "guest:VERSION|guest:FILE|host", conflicts_with_all = ["kernel", "kernel_image", "host"])]
    pub against: Vec<SubjectSpec>,
    /// Only these kernels.
    #[arg(long, value_name = "VERSION,...", value_delimiter = ',', conflicts_with = "kernel_image")]
    pub kernel: Vec<String>,
    /// Only these numbers of CPUs.
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub cpus: Vec<u32>,
    /// Length of a run, for workloads that are not in the matrix.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub duration: Span,
    /// Runs of the simulation, each with another phase of the tick and other timer slack.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub runs: u32,
    /// Runs of real Linux, at most; without, as many as the matrix says (two, or ten where times to balance
    /// are compared).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub guest_runs: Option<u32>,
    /// Where what real Linux did is kept.
    #[arg(long, value_name = "FOLDER", default_value = "tests/golden/guest")]
    pub golden: PathBuf,
    /// Boot the guest for every case, and keep what it did.
    #[arg(long)]
    pub refresh: bool,
    /// Only cases whose guest runs are kept: boot nothing.
    #[arg(long, conflicts_with = "refresh")]
    pub golden_only: bool,
    /// Use the host's CPU for the guest (needs /dev/kvm): physical times, other results each time; nothing is kept.
    #[arg(long, conflicts_with_all = ["refresh", "golden_only"])]
    pub kvm: bool,
    /// Compare with this machine's own kernel instead of a guest (needs root); the simulated one is
    /// --kernel's, 6.12 unless given.
    #[arg(long, conflicts_with_all = ["refresh", "golden_only", "kvm"])]
    pub host: bool,
    /// Boot this kernel image (a bzImage, its .config beside it as `config`) in the guest: one built from a
    /// tree of your own. Nothing is kept but in the cache.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["refresh", "golden_only", "host"])]
    pub kernel_image: Option<PathBuf>,
    /// Simulate this scheduler instead of the release that is compared with: linux-NAME of `schedlab linux
    /// add --source DIR --name NAME`, or any other.
    #[arg(long, value_name = "NAME")]
    pub sched: Option<SubjectSpec>,
    /// Simulate with the costs of kernel code in this file, and show how near each quantity is with them and without.
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
    /// A tunable of the simulated kernel, NAME=VALUE as for `run`: to try out a cause. The guest keeps its own.
    #[arg(long, value_name = "K=V", value_parser = crate::parse::parse_param)]
    pub param: Vec<(String, String)>,
    /// All quantities; without, those beyond tolerance.
    #[arg(long)]
    pub all: bool,
    /// Write the tables as JSON, `-` = standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write an HTML page with pictures.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the first simulated run of each case as a schedule log into this folder, and that of real Linux
    /// if a guest is asked: for `schedlab diff`.
    #[arg(long, value_name = "DIR")]
    pub logs: Option<PathBuf>,
    /// Write all quantities of all cases as one CSV table.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

impl ValidateArgs {
    /// The same with what `--against` says in the options of that meaning.
    fn with_against(&self) -> Result<ValidateArgs> {
        let mut args = self.clone();
        let mut images = Vec::new();
        for spec in &self.against {
            match spec.real("validate --against")? {
                Arm::Host => args.host = true,
                Arm::Guest(file) if file.contains('/') || Path::new(file).is_file() => images.push(file),
                Arm::Guest(series) => args.kernel.push(series.to_string()),
            }
        }
        let refuse = |why: &str| Err(Failure::Input(format!("--against: {why}")));
        let nr_kinds = usize::from(args.host) + images.len() + usize::from(!args.kernel.is_empty());
        if !self.against.is_empty() && nr_kinds > 1 {
            return refuse("give one kernel image, or host, or releases; one kind at a time");
        }
        if (args.host || !images.is_empty()) && (args.refresh || args.golden_only) {
            return refuse("--refresh and --golden-only are for guests with a packaged kernel");
        }
        if args.host && args.kvm {
            return refuse("--kvm is for guests");
        }
        args.kernel_image = images.first().map(PathBuf::from).or(args.kernel_image);
        Ok(args)
    }
}

pub(crate) fn validate(args: &ValidateArgs, ui: &Ui) -> Result<()> {
    let args = &args.with_against()?;
    let costs = args.costs.as_deref().map(costs::load).transpose()?;
    let mut judged = Vec::new();
    let mut without_costs = Vec::new();
    let (mut skipped, mut not_judged) = (0, 0);
    let to_stdout = output::is_stdout(args.json.as_deref());
    let color = schedlab_report::Style::detect().color;
    let width = if args.all { Width::All } else { Width::Brief };
    let image =
        args.kernel_image.as_deref().map(GuestKernel::from_file).transpose().map_err(guest::failure)?;
    if let Some(image) = image.as_ref().filter(|image| image.hz == 0) {
        let config = image.image.with_file_name("config");
        return Err(Failure::Input(format!(
            "{}: its ticks per second are not known; put the .config that it was built with beside it, as {}",
            image.image.display(),
            config.display()
        )));
    }
    for mut case in cases(args, image.as_ref()) {
        let (workload, _) = guest::workload(&case.workload, case.span(), ui)?;
        let Some(Real { source, hz, runs: real, notes, withheld }) =
            real::find(args, image.as_ref(), &case, &workload, ui)?
        else {
            skipped += 1;
            continue;
        };
        case.runs = real.len() as u32; // kept ones may be fewer; the simulation takes their phases
        if costs.is_some() {
            let Simulated { version, runs, .. } = simulate(args, &case, hz, (&workload, &real), None, ui)?;
            let real = (source.clone(), real.clone());
            without_costs.push(Judged::new(case.clone(), hz, real, (version, runs)));
        }
        let Simulated { version, runs, warnings } = simulate(args, &case, hz, (&workload, &real), costs, ui)?;
        let mut found = Judged::new(case, hz, (source, real), (version, runs));
        found.notes = notes;
        if let Some(first) = warnings.first() {
            found
                .notes
                .push(format!("the simulated kernel warned {} times; the first: {first}", warnings.len()));
        }
        if let Some(image) = &image {
            found.notes.push(format!("real: {}, SHA-256 {}", image.image.display(), &image.sha256[..16]));
            found.notes.push(format!("simulated: {}", found.simulated_version));
        } else {
            version_note(&mut found);
        }
        if let Some(why) = withheld {
            found.withhold(why);
            not_judged += 1;
        }
        if !to_stdout {
            print!("{}", table(std::slice::from_ref(&found), width, color));
        }
        judged.push(found);
    }
    if judged.is_empty() {
        return Err(Failure::Input(
            "there is nothing to compare: no case of the matrix matches, or none is kept; leave out --golden-only to \
                boot guests"
                .to_string(),
        ));
    }
    if costs.is_some() && !to_stdout {
        print!("\n{}", effect(&without_costs, &judged));
    }
    write(args, &judged)?;
    conclude(&judged, (skipped, not_judged), ui)
}

/// The cases asked for, with no more runs of real Linux than asked for.
fn cases(args: &ValidateArgs, image: Option<&GuestKernel>) -> Vec<Case> {
    let mut cases = match image {
        None => selected(args, &args.kernel),
        Some(image) => {
            // the newest of the matrix: what it asks of a kernel is asked of this one
            let newest = SERIES[SERIES.len() - 1].to_string();
            let mut cases = selected(args, &[newest]);
            cases.iter_mut().for_each(|case| case.series = image.series());
            cases
        }
    };
    for case in &mut cases {
        case.runs = args.guest_runs.map_or(case.runs, |most| case.runs.min(most));
    }
    cases
}

fn selected(args: &ValidateArgs, kernels: &[String]) -> Vec<Case> {
    let series = |case: &Case| kernels.is_empty() || kernels.contains(&case.series);
    let cpus = |case: &Case| args.cpus.is_empty() || args.cpus.contains(&case.cpus);
    let mut all = matrix();
    if args.host {
        // one kernel, one run each; what would change the machine (control groups) is left out
        let series = kernels.first().map_or("6.12", String::as_str);
        all.retain(|case| case.series == series && case.workload != "cgroup" && case.cpus <= 2);
        all.iter_mut().for_each(|case| case.runs = 1);
        if args.cpus.is_empty() {
            all.retain(|case| case.cpus == 1);
        }
    }
    if args.workload.is_empty() {
        return all.into_iter().filter(|case| series(case) && cpus(case)).collect();
    }
    let mut cases = Vec::new();
    for name in &args.workload {
        let matching: Vec<Case> =
            all.iter().filter(|c| c.workload == *name && series(c) && cpus(c)).cloned().collect();
        if !matching.is_empty() {
            cases.extend(matching);
            continue;
        }
        let kernels = if kernels.is_empty() { SERIES.map(String::from).to_vec() } else { kernels.to_vec() };
        for cpus in if args.cpus.is_empty() { &[1] } else { args.cpus.as_slice() } {
            for series in &kernels {
                let (duration, runs) = (args.duration.to_string(), 2);
                cases.push(Case {
                    series: series.clone(),
                    cpus: *cpus,
                    workload: name.clone(),
                    duration,
                    runs,
                });
            }
        }
    }
    cases
}

/// The simulation's side of a case.
struct Simulated {
    /// The scheduler's exact version.
    version: String,
    /// Its runs.
    runs: Vec<Measures>,
    /// What it warned of in them, a line each.
    warnings: Vec<String>,
}

/// The simulation's runs: to each run of the guest as many, with its phase of the tick and (on several CPUs)
/// its tasks where they began, else varied by what no real run has exactly.
fn simulate(
    args: &ValidateArgs,
    case: &Case,
    hz: u32,
    (workload, real): (&Workload, &[Measures]),
    costs: Option<Costs>,
    ui: &Ui,
) -> Result<Simulated> {
    let topology: Topology = case.cpus.to_string().parse().map_err(Failure::input)?;
    let spec = match &args.sched {
        Some(spec) => spec.clone(),
        None => format!("linux-{}", case.series).parse()?,
    };
    let subject = spec.and(&args.param).resolve(ui.setting(hz, &topology))?;
    let tick_ns = 1_000_000_000 / u64::from(hz.max(1));
    let costs = if args.host { costs } else { Some(schedlab_validate::of_guest(costs)) };
    let runs_of_real = if args.host { args.runs.max(1) } else { case.runs.max(1) };
    let tick_at_ns = tick_offset(&subject.scheduler, tick_ns)?;
    let (mut runs, mut warnings) = (Vec::new(), Vec::new());
    let mut seed = 0;
    for index in 0..args.runs.max(1) {
        let phase_ns = Case::phase(index % runs_of_real).as_ns();
        // the first tick comes a whole number of ticks after time 0, less the phase, in the guest
        let wanted_ns = (tick_at_ns + phase_ns) % tick_ns;
        seed = seed_with_phase(seed + 1, wanted_ns, tick_ns)?;
        let perturb = Perturb::of_guest(seed).with_turns_of(if args.host { 1 } else { case.cpus });
        let mut varied = schedlab_validate::vary(workload, seed);
        let mut placement = Vec::new();
        let in_guest = case.cpus > 1 && !args.host;
        if let Some(real) = real.get((index % runs_of_real) as usize).filter(|_| in_guest) {
            varied = schedlab_validate::as_in_guest(varied, &real.held_ns, case.span());
            placement = real.start.iter().map(|cpu| u32::try_from(*cpu).ok().map(CpuId)).collect();
        }
        let request = RunRequest {
            duration: Some(case.span()),
            perturb: Some(perturb),
            placement,
            costs,
            ..subject.on(&varied, topology.clone())
        };
        let run = schedlab_lab::run(&request, Standard::Shown)?;
        warnings.extend(run.report.warnings.iter().filter_map(|text| text.lines().next()).map(str::to_owned));
        if index == 0 {
            crate::changes::tell(&format!("{}, simulated", case.workload), &run.changed, ui)?;
            keep_log(args, case, "simulated", &MemLog::read(&run.log).map_err(Failure::input)?)?;
        }
        let measures = Measures::of_first(&run.log, workload.tasks.len());
        runs.push(measures.map_err(|error| Failure::Internal(error.to_string()))?);
    }
    Ok(Simulated { version: subject.scheduler.version(), runs, warnings })
}

/// A run as a file, where that is asked for: `DIR/6.12-2-fairbench-simulated.log`.
fn keep_log(args: &ValidateArgs, case: &Case, side: &str, log: &MemLog) -> Result<()> {
    let Some(folder) = &args.logs else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::Input(format!("{}: cannot be made: {error}", folder.display())))?;
    schedlab_log::write(&folder.join(format!("{}-{side}.log", case.slug())), log).map_err(Failure::input)
}

/// When the first tick comes after time 0, if the simulation's phase is 0: two equal hogs change places at ticks only.
fn tick_offset(scheduler: &Scheduler, tick_ns: u64) -> Result<u64> {
    let topology: Topology = "1".parse().map_err(Failure::input)?;
    let duration = Span::from_ns(50 * tick_ns);
    let hogs = workloads::named("hogs:0,0", duration).map_err(guest::failure)?;
    let request = RunRequest { duration: Some(duration), ..RunRequest::new(&hogs, scheduler, topology) };
    let log = schedlab_lab::run(&request, Standard::NoWarning)?.log;
    let mut last_ns = 0;
    let last_stop = |stay: &Stay| last_ns = if stay.stop.is_some() { stay.end_ns } else { last_ns };
    for_each_stay(&log, last_stop).map_err(Failure::input)?;
    Ok(last_ns % tick_ns)
}

/// The next seed whose phase is this within the tick, to a hundredth.
fn seed_with_phase(from: u64, wanted_ns: u64, tick_ns: u64) -> Result<u64> {
    let one = workloads::named("hogs:0", Span::from_s(1)).map_err(guest::failure)?;
    let mut program = Program::new(&one).map_err(Failure::input)?;
    let found = (from..from + 100_000).find(|seed| {
        program.perturb(&Perturb::new(*seed), |_| false);
        let off_ns = (program.phase.as_ns() + tick_ns - wanted_ns) % tick_ns;
        off_ns <= tick_ns / 100
    });
    found.ok_or_else(|| Failure::Internal(format!("no seed has the phase {wanted_ns} ns")))
}

/// Says if the two kernels are not the same release.
fn version_note(judged: &mut Judged) {
    let simulated = judged.simulated_version.split(',').next().unwrap_or_default().to_string();
    if simulated != judged.real.version && !judged.real.version.is_empty() {
        let note = format!("versions differ: real {}, simulated {simulated}", judged.real.version);
        judged.notes.push(note);
        if judged.real.arm == "host" {
            let note = "a port of the running kernel: schedlab linux add --source ITS_TREE --name NAME, then --sched \
                linux-NAME";
            judged.notes.push(note.to_string());
        }
    }
}

fn write(args: &ValidateArgs, judged: &[Judged]) -> Result<()> {
    output::json_value(args.json.as_deref(), &serde_json::json!({"schema": 1, "cases": judged}))?;
    if let Some(path) = &args.html {
        output::text(path, &html(judged))?;
    }
    if let Some(path) = &args.csv {
        output::text(path, &csv(judged))?;
    }
    Ok(())
}

fn conclude(judged: &[Judged], (skipped, not_judged): (usize, usize), ui: &Ui) -> Result<()> {
    let count = |verdict| judged.iter().map(|case| case.count(verdict)).sum::<usize>();
    let (pass, known, fail) = (count(Verdict::Pass), count(Verdict::Known), count(Verdict::Fail));
    let skipped =
        if skipped > 0 { format!("; {skipped} cases have no kept guest runs") } else { String::new() };
    let not_judged =
        if not_judged > 0 { format!(", {not_judged} of them not judged") } else { String::new() };
    ui.say(format!(
        "{} cases{not_judged}: {pass} quantities within tolerance, {known} beyond it for a known cause, {fail} \
            failed{skipped}",
        judged.len()
    ));
    if fail == 0 {
        return Ok(());
    }
    Err(Failure::Finding(format!("{fail} quantities differ from real Linux by more than is tolerated")))
}
