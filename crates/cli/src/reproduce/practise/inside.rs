//! Figure 3 in a real kernel: what do changes and searches cost there, under the same random sets?
//!
//! ```text
//! here          the kernel that runs here, in cycles            race cpudl --cost --in-kernel
//! guest:6.12    Debian's kernel in QEMU, where an instruction takes 2 ns: in instructions, as in the port
//! ```
//!
//! A guest's CPUs share one clock, which counts the instructions of all. They take turns of 50 us, so that a call is
//! hardly ever interrupted by another CPU; medians do not see it.

use super::{PractiseArgs, Statement, threads, verdict_on_cycles};
use crate::failure::{Failure, Result};
use crate::guest::{failure, stages};
use crate::race::in_kernel::{InKernel, LOADS, TASKS_PER_CPU, Wanted, columns, measure, said};
use crate::ui::Ui;
use schedlab_race::cost::Costs;
use schedlab_real::{GuestKernel, Options, errand};
use schedlab_report::table::{Column, Table};
use serde_json::{Value, json};

const STRUCTURES: [&str; 2] = ["cpupri", "cpudl"];
/// An instruction of a guest takes 2 ns (`Options::shift`).
const INSTRUCTIONS_PER_NS: f64 = 0.5;
/// The paper: below 1,000 cycles, and about 2,000.
const PUBLISHED_CPUPRI: f64 = 1000.0;
/// What "about twice" may be.
const TWICE: std::ops::RangeInclusive<f64> = 1.5..=3.0;

/// Which kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Here,
    Guest(String),
}

impl std::str::FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Where, String> {
        match (text, text.strip_prefix("guest:")) {
            ("here", _) => Ok(Where::Here),
            (_, Some(kernel)) if !kernel.is_empty() => Ok(Where::Guest(kernel.to_owned())),
            _ => Err(format!(
                "'{text}' is no kernel that can be measured; expected here, guest:6.12 or guest:FILE"
            )),
        }
    }
}

/// Both structures, for each number of CPUs.
#[derive(Clone, Debug)]
pub(super) struct Inside {
    place: Where,
    found: Vec<[InKernel; 2]>,
}

/// Measures in the kernel that was asked for; nothing if none was.
pub(super) fn figure_3(args: &PractiseArgs, ui: &Ui) -> Result<Option<Inside>> {
    let Some(place) = &args.in_kernel else { return Ok(None) };
    let found = match place {
        Where::Here => vec![here(args, ui)?],
        Where::Guest(kernel) => {
            let kernel = GuestKernel::find(kernel).map_err(failure)?;
            args.cpus.iter().map(|cpus| guest(&kernel, *cpus, args, ui)).collect::<Result<_>>()?
        }
    };
    Ok(Some(Inside { place: place.clone(), found }))
}

fn here(args: &PractiseArgs, ui: &Ui) -> Result<[InKernel; 2]> {
    let wanted = Wanted {
        loads: LOADS.to_vec(),
        sets: args.sets,
        duration: args.duration,
        tasks_per_cpu: TASKS_PER_CPU,
        seed: args.seed,
    };
    let step = ui.step("figure 3 in the running kernel");
    let one = |structure| {
        measure(structure, &wanted, &|what| step.progress(format!("figure 3 in the running kernel, {what}")))
    };
    Ok([one(STRUCTURES[0])?, one(STRUCTURES[1])?])
}

fn guest(kernel: &GuestKernel, cpus: u32, args: &PractiseArgs, ui: &Ui) -> Result<[InKernel; 2]> {
    let words = |structure: &str| {
        let fixed = ["--quiet", "race", structure, "--cost", "--in-kernel", "--json"].map(str::to_owned);
        let numbers = [
            ("--sets", args.sets.to_string()),
            ("--set-duration", args.duration.to_string()),
            ("--seed", args.seed.to_string()),
        ];
        let numbers = numbers.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        fixed.into_iter().chain([format!("/out/{structure}")]).chain(numbers).collect::<Vec<_>>()
    };
    // an errand brings up no CPUs: the kernel is to do it at boot
    let kernel_args = vec![format!("maxcpus={cpus}")];
    let options = Options { cpus, kernel_args, ..Options::default() };
    let what = format!("figure 3 in a guest with {cpus} CPUs");
    let returned =
        errand(kernel, &STRUCTURES.map(words), &options, &mut stages(ui, &what)).map_err(failure)?;
    let read = |at: usize| {
        let (said, status) = &returned.said[at];
        let bytes = returned.files.get(STRUCTURES[at]).map_or(&[][..], Vec::as_slice);
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        InKernel::from_json(&value["in_kernel"]).ok_or_else(|| {
            Failure::Input(format!(
                "{what}: it says nothing of {}, status {status}: {}",
                STRUCTURES[at],
                said.trim()
            ))
        })
    };
    Ok([read(0)?, read(1)?])
}

impl Inside {
    fn unit(&self) -> &'static str {
        if self.place == Where::Here { "cycles" } else { "instructions" }
    }

    fn per_ns(&self, found: &InKernel) -> f64 {
        if self.place == Where::Here { found.tsc_hz / 1e9 } else { INSTRUCTIONS_PER_NS }
    }

    pub(super) fn remarks(&self) -> Vec<String> {
        match &self.place {
            Where::Here => self.found.iter().flat_map(|both| both[0].remarks()).collect(),
            Where::Guest(_) => {
                let own = |found: &InKernel| found.own_ns.map(|ns| ns as f64 * INSTRUCTIONS_PER_NS);
                self.found.iter().take(1).map(|both| {
                    let [often, rare] = own(&both[0]);
                    format!(
                        "figure 3 in a guest: Linux {}, where an instruction takes 2 ns; programs at begin and end of \
                         each function. Measuring takes {often:.0} instructions in a loop, {rare:.0} under the load, \
                         which are taken off",
                        both[0].kernel
                    )
                })
                .collect()
            }
        }
    }

    pub(super) fn table(&self) -> Table {
        let mut heads = vec![Column::new("structure", "", "of the kernel")];
        heads.extend(columns(self.unit()));
        let title = match self.place {
            Where::Here => "Figure 3, in the running kernel: cycles of a call",
            Where::Guest(_) => "Figure 3, in a real kernel in a guest: instructions of a call",
        };
        let mut table = Table::new("figure-3-kernel", title, heads);
        for (at, structure) in STRUCTURES.iter().enumerate() {
            for both in &self.found {
                let cells = both[at].cells(self.per_ns(&both[at]));
                cells.into_iter().for_each(|cells| table.push([&[json!(structure)][..], &cells].concat()));
            }
        }
        table
    }

    /// Figure 3, and what the tool takes of it. `tool`: figures 4 to 6.
    pub(super) fn judged(&self, tool: &[Costs]) -> Vec<Statement> {
        let Some([pri, dl]) = self.found.last() else { return Vec::new() };
        let of = |found: &InKernel, is_change| {
            let measured = found.of(is_change)?;
            let per_ns = self.per_ns(found);
            Some((said(measured, per_ns), measured.ns[1]? * per_ns))
        };
        let (Some(pri_change), Some(dl_change), Some(pri_find), Some(dl_find)) =
            (of(pri, true), of(dl, true), of(pri, false), of(dl, false))
        else {
            let ours = "a function was not called".to_owned();
            return vec![Statement { published: "figure 3, in a real kernel", ours, verdict: "not shown" }];
        };
        let is_here = self.place == Where::Here;
        let about = format!("{}, {} CPUs", self.unit(), pri.cpus);
        let verdict = |holds: bool| match is_here {
            true => verdict_on_cycles(pri.cpus, holds),
            false if holds => "holds",
            false => "does not hold",
        };
        let is_below = pri_change.1 < dl_change.1 && (!is_here || pri_change.1 < PUBLISHED_CPUPRI);
        let mut statements = vec![
            Statement {
                published: "figure 3a, in a kernel: modifying cpupri takes less than 1000 cycles, modifying cpudl \
                            about 2000",
                ours: format!("median {about}: cpupri {}, cpudl {}", pri_change.0, dl_change.0),
                verdict: verdict(is_below),
            },
            Statement {
                published: "figure 3b, in a kernel: a search of cpudl is cheaper than one of cpupri",
                ours: format!("median {about}: cpudl {}, cpupri {}", dl_find.0, pri_find.0),
                verdict: verdict(dl_find.1 < pri_find.1),
            },
        ];
        if is_here {
            let kernel = [pri_change.1, dl_change.1, pri_find.1, dl_find.1];
            statements.extend(twice(pri.cpus, kernel, tool));
        }
        statements
    }
}

/// The tool's cycles against the kernel's: of a change of cpupri, of cpudl, of a search of each.
fn twice(cpus: u32, kernel: [f64; 4], tool: &[Costs]) -> Option<Statement> {
    let names = [("cpupri", "set"), ("cpudl", "set"), ("cpupri", "find"), ("cpudl", "find")];
    let mut ratios = Vec::new();
    for ((structure, operation), kernel) in names.into_iter().zip(kernel) {
        let tool = threads::median(tool, structure, operation)?;
        ratios.push((format!("{structure} {operation}"), tool.value / kernel.max(1.0)));
    }
    let said: Vec<String> = ratios.iter().map(|(name, ratio)| format!("{name} {ratio:.1}")).collect();
    Some(Statement {
        published: "the tool takes about twice the kernel's cycles",
        ours: format!("median of the tool by that of the kernel, {cpus} CPUs: {}", said.join(", ")),
        verdict: verdict_on_cycles(cpus, ratios.iter().all(|(_, ratio)| TWICE.contains(ratio))),
    })
}

/// Said where no kernel was asked.
pub(super) fn not_measured() -> Statement {
    Statement {
        published: "the tool takes about twice the kernel's cycles",
        ours: "cycles inside a real kernel are measured by --in-kernel here".into(),
        verdict: "not shown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_here_or_a_guest() {
        assert_eq!("here".parse(), Ok(Where::Here));
        assert_eq!("guest:6.12".parse(), Ok(Where::Guest("6.12".into())));
        for wrong in ["", "guest:", "6.12", "there"] {
            assert!(wrong.parse::<Where>().unwrap_err().contains("expected here"), "{wrong}");
        }
    }

    fn found(structure: &str, cpus: u32, change: f64, find: f64) -> InKernel {
        let row = |operation: &str, median: f64| crate::race::in_kernel::Measured {
            operation: operation.into(),
            sets: 9,
            calls: 100,
            ns: [Some(median); 4],
            interval_ns: Some((median - 1.0, median + 1.0)),
        };
        InKernel {
            structure: structure.into(),
            kernel: "6.12".into(),
            cpus,
            tsc_hz: 2e9,
            own_ns: [40, 50],
            rows: vec![row("set", change), row("find", find)],
        }
    }

    /// In cycles eight CPUs are asked for, and cpupri below 1,000; of instructions the order alone.
    #[test]
    fn verdicts_ask_for_cpus_and_limits() {
        let of = |place: Where, cpus, pri: f64| {
            let both = [found("cpupri", cpus, pri, 80.0), found("cpudl", cpus, 1000.0, 30.0)];
            let inside = Inside { place, found: vec![both] };
            inside.judged(&[]).iter().map(|s| s.verdict).collect::<Vec<_>>()
        };
        let guest = || Where::Guest("6.12".into());
        assert_eq!(of(Where::Here, 2, 300.0), ["not shown", "not shown"]);
        assert_eq!(of(Where::Here, 8, 300.0), ["holds", "holds"]);
        assert_eq!(of(Where::Here, 8, 600.0), ["does not hold", "holds"], "1,200 cycles");
        assert_eq!(of(guest(), 2, 600.0), ["holds", "holds"]);
        assert_eq!(of(guest(), 2, 1600.0), ["does not hold", "holds"]);
    }
}
