//! `schedlab manual`: how does a person look up what can be asked for, without the program's help?
//!
//! ```text
//! schedlab manual man -o DIR          DIR/schedlab.1, DIR/schedlab-run.1, ...: then man -M, or man DIR/schedlab-run.1
//! schedlab manual completions bash    what the shell reads to complete commands and options
//! schedlab manual book -o DIR         the reference in the book: DIR/commands.md, DIR/native-schedulers.md (make book)
//! ```
//!
//! All three are written from the command line's own definition, so they cannot say anything else than it.

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::{Command, Subcommand};
use clap_complete::Shell;
use schedlab_log::LogError;
use schedlab_policies::{PolicyInfo, registry};
use schedlab_report::json_fields::json_schema;
use schedlab_sweep::ColumnType;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Subcommand, Debug)]
pub(crate) enum ManualCommand {
    /// Man pages, one for each command.
    Man {
        /// The folder that they go to; it is made if it is not there.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Completions of commands and options, on standard output: schedlab manual completions bash >
    /// ~/.local/share/bash-completion/completions/schedlab
    Completions {
        /// The shell that reads them.
        shell: Shell,
    },
    /// JSON Schema of the result of a run (run --json, report --json), on standard output.
    Schema,
    /// The pages of the book that are written from the program: commands, native schedulers and real Linux with
    /// their parameters, columns of a sweep's tables, the JSON Schema of a run.
    Book {
        /// The folder that they go to; it is made if it is not there.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
    },
}

/// `program` is the command line itself.
pub(crate) fn manual(command: &ManualCommand, mut program: Command, ui: &Ui) -> Result<()> {
    match command {
        ManualCommand::Man { output } => man(output, program),
        ManualCommand::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut program, "schedlab", &mut text);
            print!("{}", String::from_utf8_lossy(&text));
            Ok(())
        }
        ManualCommand::Schema => output::print_json(&json_schema()),
        ManualCommand::Book { output } => {
            folder(output)?;
            let schema = serde_json::to_string_pretty(&json_schema()).expect("it is JSON");
            output::text(&output.join("run.schema.json"), &(schema + "\n"))?;
            output::text(&output.join("dataset.md"), &dataset())?;
            output::text(&output.join("linux-parameters.md"), &linux_parameters(ui)?)?;
            output::text(&output.join("commands.md"), &commands(&program))?;
            output::text(&output.join("native-schedulers.md"), &native_schedulers(registry()))
        }
    }
}

fn folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Failure::input(LogError::io("write", path)(error)))
}

/// A page for the program, and one for each command that help shows.
pub(crate) fn man(folder_path: &Path, program: Command) -> Result<()> {
    folder(folder_path)?;
    clap_mangen::generate_to(program, folder_path)
        .map_err(|error| Failure::input(LogError::io("write", folder_path)(error)))
}

/// The book's page of commands.
pub(crate) fn commands(program: &Command) -> String {
    let options = clap_markdown::MarkdownOptions::new()
        .title("Commands".into())
        .show_footer(false)
        .show_table_of_contents(false);
    clap_markdown::help_markdown_command_custom(program, &options)
}

/// Text within a cell of a table in Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

/// The book's page of what can be set in real Linux, asked of the kernel that most commands run.
fn linux_parameters(ui: &Ui) -> Result<String> {
    let (linux, tunables) = crate::schedulers::default_kernel(ui)?;
    let mut page = format!(
        "# Parameters of real Linux\n\n`--param NAME=VALUE` sets these. Defaults are those of `{}` ({}) on one CPU, at \
         HZ={}. `schedlab schedulers NAME --cpus N` asks another kernel or machine.\n\n| parameter | default | what it \
         does |\n|---|---|---|\n",
        linux.name, linux.version, linux.hz
    );
    for tunable in &tunables {
        let more = tunable.by_cpus.iter().filter(|(cpus, _)| *cpus > 1);
        let more: Vec<String> = more.map(|(cpus, value)| format!("from {cpus} CPUs on {value}")).collect();
        let default = [vec![tunable.default.clone()], more].concat().join("; ");
        let _ = writeln!(page, "| `{}` | {} | {} |", tunable.name, cell(&default), cell(tunable.help));
    }
    Ok(page)
}

/// The book's page of a sweep's tables.
pub(crate) fn dataset() -> String {
    let mut page = String::from(
        "# Tables of a sweep\n\n`schedlab sweep FILE -o DIR` writes two tables in Parquet ([many \
         runs](../sweeps.md)).\n",
    );
    let tables = [
        ("runs", "a row for each run", schedlab_sweep::RUNS),
        ("tasks", "a row for each task of a run", schedlab_sweep::TASKS),
    ];
    for (name, what, columns) in tables {
        let _ = write!(page, "\n## `{name}`: {what}\n\n| column | type | meaning |\n|---|---|---|\n");
        for column in columns {
            let holds = match column.kind {
                ColumnType::Int => "int64",
                ColumnType::Bool => "bool",
                ColumnType::Text => "string",
            };
            let _ = writeln!(page, "| `{}` | {holds} | {} |", column.name, cell(column.help));
        }
    }
    page
}

/// The book's page of native schedulers.
pub(crate) fn native_schedulers(all: &[PolicyInfo]) -> String {
    let mut page = String::from(
        "# Native schedulers\n\nEach is written in Rust after a paper or a kernel. `schedlab schedulers NAME` shows \
         the same on the terminal. [How a scheduler is written](../schedulers.md) has the form of NAME and its \
         parameters.\n",
    );
    for info in all {
        let _ = write!(page, "\n## {}\n\n{}\n\n*Source:* {}\n", info.name, info.summary, info.source);
        if !info.differs.is_empty() {
            let _ = write!(page, "\n*Differs from it:* {}\n", info.differs);
        }
        if !info.uncertain.is_empty() {
            let _ = write!(page, "\n*Not certain:* {}\n", info.uncertain);
        }
        if info.params.is_empty() {
            continue;
        }
        page += "\n| parameter | default | what it does |\n|---|---|---|\n";
        for param in info.params {
            let _ = writeln!(page, "| `{}` | {} | {} |", param.name, cell(param.default), cell(param.help));
        }
    }
    page
}
