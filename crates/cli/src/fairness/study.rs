//! A given set of shares, or the paper's study over random ones.

use super::args::StudyArgs;
use super::executions;
use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_experiments::fairness::{Config, Execution, GivenConfig, given, study_seen};
use std::time::Instant;

/// Shares beyond this are not counted exactly any more.
const SHARE_MAX: u64 = 1 << 30;

pub(super) fn study(args: &StudyArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    if args.quantum.as_ns() == 0 {
        return Err(Failure::Input("--quantum 0: a quantum is longer than zero; the default is 10ms".into()));
    }
    let executions = executions(&args.sched, args.hz, args.share_forms(), ui)?;
    if args.shares.is_empty() && args.nice.is_empty() {
        drawn(args, executions, ui)
    } else {
        by_hand(args, executions, ui)
    }
}

fn by_hand(args: &StudyArgs, executions: Vec<Execution>, ui: &Ui) -> Result<()> {
    let nices = (!args.nice.is_empty()).then(|| args.nice.clone());
    let shares: Vec<u64> = match &nices {
        Some(nices) => nices.iter().map(|nice| nice.weight().0).collect(),
        None => args.shares.clone(),
    };
    if let Some(share) = shares.iter().find(|&&share| share == 0 || share > SHARE_MAX) {
        return Err(Failure::Input(format!(
            "--shares {share}: a share is a whole number from 1 to {SHARE_MAX}"
        )));
    }
    let total: u64 = shares.iter().sum();
    let quanta = args.quanta.unwrap_or_else(|| GivenConfig::default_quanta(&shares));
    if quanta == 0
        || total > SHARE_MAX
        || quanta.checked_mul(args.quantum.as_ns()).is_none_or(|ns| ns >> 60 > 0)
    {
        return Err(Failure::Input(format!(
            "{quanta} quanta of {} with {total} shares in all cannot be served; take fewer or smaller ones (--quanta, \
                --quantum)",
            args.quantum
        )));
    }
    let step = ui.step("serving the shares under each scheduler");
    let config = GivenConfig { shares, nices, executions, unit: args.quantum, quanta, seed: args.seed };
    let given = given(&config)?;
    drop(step);
    args.output.deliver(&given.pages(), &given.summary(), ui)
}

fn drawn(args: &StudyArgs, executions: Vec<Execution>, ui: &Ui) -> Result<()> {
    let mut config = Config {
        contenders: Vec::new(),
        machine: Vec::new(),
        machine_combinations: args.machine_combinations,
        unit: args.quantum,
        points: Config::grid(&args.clients, &args.total),
        combinations: args.combinations,
        spread: args.distribution,
        seed: args.seed,
        threads: args.threads,
    };
    for execution in executions {
        match execution {
            Execution::Quanta(contender) => config.contenders.push(contender),
            machine => config.machine.push(machine),
        }
    }
    let sets = config.points.len() as u64 * u64::from(config.combinations);
    let step = ui.step(format!("serving {sets} sets of shares"));
    let (started, cpu_started) = (Instant::now(), cpu_seconds());
    let seen = |done| step.progress(format!("served {done} of {sets} sets of shares"));
    let study = study_seen(&config, &seen)?;
    drop(step);
    let (wall, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu_started);
    let mut summary = study.summary();
    if !config.contenders.is_empty() && config.machine.is_empty() {
        let per_minute = |seconds: f64| sets as f64 / seconds.max(1e-9) * 60.0;
        ui.say(format!(
            "{sets} share combinations, each under {} schedulers, in {wall:.1} s: {:.0} combinations/s, {:.0} a \
             minute; {cpu:.1} s of CPU time: {:.0} a minute on two cores of their own",
            config.contenders.len(),
            per_minute(wall) / 60.0,
            per_minute(wall),
            2.0 * per_minute(cpu),
        ));
    }
    if args.output.output.is_none() && args.output.html.is_none() {
        summary += "Surfaces, curves and the tables by point: -o DIR, or --html FILE.\n";
    }
    args.output.deliver(&study.pages(), &summary, ui)
}

/// CPU time of this process, all threads.
fn cpu_seconds() -> f64 {
    // SAFETY: an all-zero rusage is valid, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
