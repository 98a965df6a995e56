//! `schedlab linux check --all`: what works in which version of Linux, each cell from a scenario that ran.
//!
//! Results are kept beside each kernel (`features.json` in its folder of the cache, whose name is a checksum
//! of all that went into it), so only what is new runs again.

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_features::page::{self, Column, Results};
use schedlab_features::{Feature, FeatureCell, ScenarioBench};
use schedlab_linux::build::{self, Origin};
use schedlab_linux::{BuildOptions, BuiltKernel};
use schedlab_runner::LinuxObject;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::IsTerminal;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// For example 6.12; all that are built if left out.
    pub version: Option<String>,
    /// What works in which version: a table, each cell from a scenario that ran.
    #[arg(long)]
    pub all: bool,
    /// With --all: run the scenarios again, also where the result is known.
    #[arg(long, requires = "all")]
    pub refresh: bool,
    /// With --all: what each scenario is, what it found and what was expected.
    #[arg(long, requires = "all")]
    pub details: bool,
    /// With --all: as JSON, to a file or `-`.
    #[arg(long, value_name = "FILE", requires = "all")]
    pub json: Option<PathBuf>,
}

pub(crate) fn check_all(args: &CheckArgs, ui: &Ui) -> Result<()> {
    let series: Vec<String> = match &args.version {
        Some(version) => vec![version.clone()],
        None => build::known_series().map_err(Failure::input)?,
    };
    let mut columns = Vec::new();
    for series in &series {
        columns.push(column(series, args.refresh, ui)?);
    }
    if columns.iter().all(|c| c.cells.values().all(|cell| matches!(cell, FeatureCell::NotBuilt { .. }))) {
        return Err(Failure::Input(format!(
            "none of {} is built; 'schedlab linux add 6.12' builds one",
            series.join(", ")
        )));
    }
    match &args.json {
        Some(path) => {
            output::json_value(Some(path), &page::json(&columns))?;
        }
        None => {
            let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            print!("{}", page::text(&columns, colour));
            if args.details {
                print!("\n{}", page::details(&columns));
            }
        }
    }
    let bad = columns.iter().flat_map(|c| c.cells.values()).filter(|cell| !cell.is_fine()).count();
    if bad > 0 {
        return Err(Failure::Finding(format!(
            "{bad} scenarios did not end as the kernel's formulas say; see above"
        )));
    }
    Ok(())
}

/// A build that scenarios run on, and what it is known to show.
struct Built {
    kernel: BuiltKernel,
    results: Results,
}

/// The cells of a version: known, or found now.
fn column(series: &str, refresh: bool, ui: &Ui) -> Result<Column> {
    let mut builds: BTreeMap<(u32, Option<&str>), Option<Built>> = BTreeMap::new();
    let step = ui.step(format!("linux-{series}"));
    let version = series.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let mut cells = BTreeMap::new();
    for feature in schedlab_features::all() {
        step.progress(format!("linux-{series}: {}", feature.name));
        let flavour = feature.flavour_of(version);
        let build = match builds.entry((feature.nr_cpus, flavour)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(find(series, &feature, flavour, refresh)?),
        };
        let cell = match build {
            None => not_built(series, &feature, flavour),
            Some(Built { kernel, results }) => match results.cells.get(feature.name) {
                Some(cell) => cell.clone(),
                None => {
                    let cell = bench(kernel).run(&feature);
                    results.cells.insert(feature.name.to_owned(), cell.clone());
                    // after each: an interrupted check goes on where it was
                    let path = kernel.dir.join("features.json");
                    results.write(&path).map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
                    cell
                }
            },
        };
        cells.insert(feature.name.to_owned(), cell);
    }
    drop(step);
    let version = builds.into_values().flatten().next().map_or(String::new(), |b| b.kernel.version);
    Ok(Column { name: format!("linux-{series}"), version, cells })
}

/// The build that a feature needs, if there is one. What only some builds have may be had from one that has
/// more: uclamp from a large one, and many CPUs from one with uclamp, which adds a feature and changes
/// nothing else.
fn find(series: &str, feature: &Feature, flavour: Option<&str>, refresh: bool) -> Result<Option<Built>> {
    /// The larger of the two sizes that are built.
    const LARGE: u32 = 1024;
    let own = build::named().map_err(Failure::input)?.into_iter().find(|n| n.name == series);
    let is_tree = own.is_some_and(|named| named.origin == Origin::Tree);
    let mut wanted = vec![(feature.nr_cpus, flavour)];
    if flavour.is_some() {
        wanted.push((LARGE, flavour));
    } else if feature.nr_cpus == LARGE {
        wanted.push((LARGE, Some("uclamp")));
    }
    for (nr_cpus, flavour) in wanted {
        let flavours = flavour.iter().map(|f| (*f).to_owned()).collect();
        let options = BuildOptions { nr_cpus, flavours, ..BuildOptions::default() };
        let kernel = match is_tree {
            // a tree is brought up to date; large builds and flavours of it are not made for this
            true if options == BuildOptions::default() => {
                Some(build::add(series, &options, &mut |_| {}).map_err(Failure::input)?)
            }
            true => None,
            false => build::find(series, &options).map_err(Failure::input)?,
        };
        if let Some(kernel) = kernel {
            let path = kernel.dir.join("features.json");
            let results = if refresh { Results::fresh() } else { Results::read(&path) };
            return Ok(Some(Built { kernel, results }));
        }
    }
    Ok(None)
}

fn not_built(series: &str, feature: &Feature, flavour: Option<&str>) -> FeatureCell {
    let large = if feature.nr_cpus > 64 { format!(" --nr-cpus {}", feature.nr_cpus) } else { String::new() };
    let with = flavour.map_or(String::new(), |f| format!(" --with {f}"));
    FeatureCell::NotBuilt { how: format!("schedlab linux add {series}{large}{with}") }
}

/// Scenarios run on this object.
fn bench(kernel: &BuiltKernel) -> ScenarioBench {
    ScenarioBench { version: kernel.linux_version(), kernel: LinuxObject::of(kernel) }
}
