//! `schedlab manual`: how does a person look up what can be asked for, without the program's help?
//!
//! ```text
//! schedlab manual man -o DIR           DIR/schedlab.1, DIR/schedlab-run.1, ...: then man -M, or man DIR/schedlab-run.1
//! schedlab manual completions bash     what the shell reads to complete commands and options
//! schedlab manual book -o DIR          the reference in the book: DIR/commands.md, DIR/native-schedulers.md (make book)
//! ```
//!
//! All three are written from the command line's own definition, so they cannot say anything else than it.

use crate::failure::{Failure, Result};
use crate::output;
use clap::{Command, Subcommand};
use clap_complete::Shell;
use schedlab_log::LogError;
use schedlab_policies::{PolicyInfo, registry};
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
    /// The pages of the book that are written from the program: its commands, its native schedulers with
    /// their parameters.
    Book {
        /// The folder that they go to; it is made if it is not there.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
    },
}

/// `program` is the command line itself.
pub(crate) fn manual(command: &ManualCommand, mut program: Command) -> Result<()> {
    match command {
        ManualCommand::Man { output } => man(output, program),
        ManualCommand::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut program, "schedlab", &mut text);
            print!("{}", String::from_utf8_lossy(&text));
            Ok(())
        }
        ManualCommand::Book { output } => {
            folder(output)?;
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
