//! `schedlab workload fit`: distributions of a workload's times, as settings of a generator.

use super::{SelectArgs, open};
use crate::failure::{Failure, Result};
use crate::ui::Ui;
use clap::Args;
use schedlab_report::units::{count, time};
use schedlab_units::Span;
use schedlab_workload::generate::{Arrivals, Distribution, Random, Spec};
use schedlab_workload::stream::Source;
use schedlab_workload::tools::{Law, Measure, Sample, measure};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct FitArgs {
    /// A workload, a trace, a mix.
    #[arg(value_name = "W")]
    pub input: PathBuf,
    #[command(flatten)]
    pub select: SelectArgs,
    /// The generator whose settings are printed: random (tasks that run and sleep so), arrivals (tasks that
    /// come and work so).
    #[arg(long, value_name = "KIND", default_value = "random", value_parser = ["random", "arrivals"])]
    pub kind: String,
    /// Find the parameters of this law instead of quantiles: exponential, pareto (the 1/T law of lifetimes),
    /// log-normal. How far each law is from what was measured is printed in any case.
    #[arg(long, value_name = "LAW", value_parser = Law::ALL.map(|(name, _)| name))]
    pub law: Option<String>,
    /// Only lengths from this on: laws of lifetimes hold in the tail.
    #[arg(long, value_name = "TIME")]
    pub above: Option<Span>,
    /// Print one distribution instead: run (CPU time between blocks), sleep, cpu (of a whole life), between
    /// (from birth to birth).
    #[arg(long, value_name = "WHAT", value_parser = Measure::ALL.map(|(name, _)| name))]
    pub of: Option<String>,
}

pub(super) fn fit(args: &FitArgs, ui: &Ui) -> Result<()> {
    let source = open(&args.input, ui)?;
    let rows = args.select.selector().rows(&source.head().workload);
    let meant = rows.iter().filter(|meant| **meant).count();
    if meant == 0 {
        return Err(Failure::Input("no task fits; `schedlab workload show` lists the names".into()));
    }
    let find = |what: Measure| -> Result<(Sample, Distribution)> {
        let mut sample = measure(&source, &rows, what).map_err(Failure::input)?;
        if let Some(least) = args.above {
            sample = sample.from_length(least);
        }
        let name = Measure::ALL.iter().find(|(_, of)| *of == what).map_or("", |(name, _)| name);
        let none =
            || Failure::Input(format!("the {meant} tasks meant have no '{name}' to measure; select others"));
        let law = Law::ALL.iter().find(|(known, _)| args.law.as_deref() == Some(known));
        let distribution = match law {
            Some((_, law)) => sample.fitted(*law).map(|(distribution, _)| distribution),
            None => sample.distribution(),
        };
        let distribution = distribution.ok_or_else(none)?;
        Ok((sample, distribution))
    };
    let described = |what: &str, (sample, distribution): &(Sample, Distribution)| {
        let mean = sample.mean().as_ns();
        let mut text = format!("# {what}: {} measured, mean {}", count(sample.count), time(mean));
        if let Some(fitted) = distribution.mean_ns() {
            text.push_str(&format!("; what is printed has a mean of {}", time(fitted as u64)));
        }
        let laws = Law::ALL.iter().filter_map(|(name, law)| Some((name, sample.fitted(*law)?.1)));
        let distances: Vec<String> =
            laws.map(|(name, distance)| format!("{name} {:.1} %", 100.0 * distance)).collect();
        if !distances.is_empty() {
            text.push_str(&format!("\n#   distance of the likeliest law (K-S): {}", distances.join(", ")));
        }
        text
    };
    if let Some(name) = &args.of {
        let what =
            Measure::ALL.iter().find(|(known, _)| known == name).map_or(Measure::Run, |(_, what)| *what);
        let found = find(what)?;
        println!("{}", described(name, &found));
        println!("{name} = {}", inline(&found.1));
        return Ok(());
    }
    let spec = if args.kind == "arrivals" {
        let (between, service) = (find(Measure::Between)?, find(Measure::Cpu)?);
        println!("{}\n{}", described("between", &between), described("service", &service));
        let tasks = meant as u32;
        Spec::Arrivals(Arrivals { tasks, between: between.1, service: service.1, ..Arrivals::default() })
    } else {
        let (run, sleep) = (find(Measure::Run)?, find(Measure::Sleep)?);
        println!("{}\n{}", described("run", &run), described("sleep", &sleep));
        let duration = longest_life(&source, &rows);
        Spec::Random(Random {
            tasks: meant as u32,
            run: run.1,
            sleep: sleep.1,
            duration,
            ..Random::default()
        })
    };
    print!("{}", spec.to_documented_toml());
    Ok(())
}

fn longest_life(source: &Source, rows: &[bool]) -> Span {
    let lives = source.head().lives.iter().zip(rows).filter(|(_, meant)| **meant);
    let longest = lives.map(|(life, _)| life.end.saturating_sub(life.birth)).max().unwrap_or_default();
    longest.max(Span::from_ms(1))
}

/// As an inline table.
fn inline(distribution: &Distribution) -> String {
    let spec = Spec::Arrivals(Arrivals { service: distribution.clone(), ..Arrivals::default() });
    let text = spec.to_documented_toml();
    let line = text.lines().find_map(|line| line.strip_prefix("service = "));
    line.unwrap_or_default().to_string()
}
