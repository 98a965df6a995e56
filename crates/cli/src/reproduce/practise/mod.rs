//! The paper on PRAcTISE (Falzoi, Lelli, Lipari 2012): figures 3 to 6 and Table 2, beside this machine and the port.
//!
//! ```text
//! figure 3    a real kernel's cpupri and cpudl, in cycles      the port's, in instructions: port.rs
//!                                                              a real kernel's: inside.rs
//! figures 4-6 the tool's own copies of them, in cycles         the kernel's files themselves, and rivals: threads.rs
//! Table 2     lines changed between tool and kernel            none: the files are the kernel's
//! ```

pub(crate) mod inside;
mod port;
mod threads;

use crate::failure::Result;
use crate::pages::OutputArgs;
use crate::race::in_kernel::{LOADS, TASKS_PER_CPU};
use crate::ui::Ui;
use clap::Args;
use schedlab_compare::stats::Interval;
use schedlab_race::cost::CPUS_FOR_A_CLAIM;
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};
use schedlab_units::Span;
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(crate) struct PractiseArgs {
    /// Of which kernel cpupri.c and cpudeadline.c are.
    #[arg(long, value_name = "NAME", default_value = "6.12")]
    pub kernel: String,
    /// Random task sets at each utilisation and number of CPUs; 20 as published.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sets: u32,
    /// Simulated time of each; 10s as published.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub duration: Span,
    /// Numbers of simulated CPUs in figure 3.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2,4,8,16,24,32,40,48")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub cpus: Vec<u32>,
    /// Figure 3 in a real kernel, too: the one that runs here (in cycles; needs root, and a kernel that takes programs
    /// at its functions), or Debian's in an emulator (in instructions, with each of --cpus).
    #[arg(long, value_name = "here|guest:VERSION")]
    pub in_kernel: Option<inside::Where>,
    /// Cycles of each thread in figures 4 to 6.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub cycles: u64,
    /// Another seed, other sets and streams of events.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// One statement of the paper, and what is found here.
struct Statement {
    published: &'static str,
    ours: String,
    verdict: &'static str,
}

pub(super) fn practise(args: &PractiseArgs, ui: &Ui) -> Result<()> {
    args.output.check()?;
    // first what may be refused: the port may take hours
    let inside = inside::figure_3(args, ui)?;
    let threads = threads::figures_4_to_6(args, ui)?;
    let (port, sums) = port::figure_3(args, ui)?;
    let mut statements = port::judged(&port);
    statements.extend(threads::judged(&threads));
    statements.extend(inside.iter().flat_map(|inside| inside.judged(&threads)));
    if args.in_kernel != Some(inside::Where::Here) {
        statements.push(inside::not_measured());
    }
    let mut tables = vec![statement_table(&statements), port::table(&port)];
    tables.extend(inside.iter().map(|inside| inside.table()));
    tables.push(threads::table(&threads));
    tables.extend([table_2(&sums), port::sets_table(&port)]);
    let drawings = [port::drawings(&port), threads::drawings(&threads)].concat();
    let mut remarks = vec![format!(
        "figure 3: {} set(s) at each of {} utilisations, {} simulated, {} tasks for each CPU, periods 10 to 100 ms by \
         RandFixedSum; published: 20 sets, 10 s",
        args.sets,
        LOADS.len(),
        args.duration,
        TASKS_PER_CPU,
    )];
    remarks.push(
        "instructions are counted by callgrind, and repeat; they are no cycles: caches and contention are not in \
         them"
            .into(),
    );
    remarks.extend(inside.iter().flat_map(|inside| inside.remarks()));
    remarks.extend(threads.iter().take(1).flat_map(|costs| costs.remarks()));
    let pages =
        Pages { title: "PRAcTISE (OSPERT 2012), figures 3 to 6, Table 2".into(), remarks, drawings, tables };
    let mut summary = pages.remarks.iter().map(|remark| format!("{remark}\n")).collect::<String>();
    for table in &pages.tables {
        summary += &format!("\n{}\n{}", table.title, table.to_text());
    }
    args.output.deliver(&pages, &summary, ui)
}

/// Whether a difference is surely below zero, surely above, or neither.
fn is_below_zero(difference: &Interval) -> &'static str {
    match (difference.high < 0.0, difference.low > 0.0) {
        (true, _) => "holds",
        (_, true) => "does not hold",
        _ => "undecided",
    }
}

fn statement_table(statements: &[Statement]) -> Table {
    let columns = vec![
        Column::new("published", "", "what the paper says"),
        Column::new("ours", "", "what is found here; in brackets 95 % intervals"),
        Column::new("verdict", "", "holds, does not hold, undecided, not shown"),
    ];
    let mut table = Table::new("statements", "The paper's statements", columns);
    for statement in statements {
        table.push(vec![json!(statement.published), json!(statement.ours), json!(statement.verdict)]);
    }
    table
}

/// The paper's Table 2. `sums`: our files and their checksums, which are the packaged kernel's.
fn table_2(sums: &[(String, String)]) -> Table {
    let columns = vec![
        Column::new("structure", "", "of the kernel"),
        Column::new("published_lines", "", "added and removed between tool and kernel"),
        Column::new("published_pct", "%", "of the structure's lines"),
        Column::new("ours_lines", "", "changed"),
        Column::new("ours_pct", "%", "of the structure's lines"),
        Column::new("evidence", "", "sha256 of the file that is compiled, which is the kernel's"),
    ];
    let mut table = Table::new("table-2", "Table 2: lines changed between user space and kernel", columns);
    for (name, lines, share) in [("cpudl", "12+ 14-", 8.2), ("cpupri", "17+ 21-", 14.0)] {
        let sum = sums.iter().find(|(known, _)| known == name).map_or(Value::Null, |(_, sum)| json!(sum));
        table.push(vec![json!(name), json!(lines), json!(share), json!("0+ 0-"), json!(0.0), sum]);
    }
    table
}

/// What a machine with few CPUs may say of cycles.
fn verdict_on_cycles(cpus: u32, holds: bool) -> &'static str {
    match (cpus < CPUS_FOR_A_CLAIM, holds) {
        (true, _) => "not shown",
        (_, true) => "holds",
        _ => "does not hold",
    }
}
