//! `schedlab manual`: how does a person look up what can be asked for, without the program's help?
//!
//! ```text
//! schedlab manual man -o DIR           DIR/schedlab.1, DIR/schedlab-run.1, ...: then man -M, or man DIR/schedlab-run.1
//! schedlab manual completions bash     what the shell reads to complete commands and options
//! schedlab manual book -o DIR          the reference in the book: DIR/commands.md, DIR/native-schedulers.md (make book)
//! ```
//!
//! All three are written from the command line's own definition, so they cannot say anything else than it.

use crate::args::Cli;
use crate::failure::{Failure, Result};
use crate::output;
use clap::{CommandFactory, Subcommand};
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
    /// Completions of commands and options, on standard output: schedlab manual completions bash > ~/.local/share/bash-completion/completions/schedlab
    Completions {
        /// The shell that reads them.
        shell: Shell,
    },
    /// The pages of the book that are written from the program: its commands, its native schedulers with their parameters.
    Book {
        /// The folder that they go to; it is made if it is not there.
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
    },
}

pub(crate) fn manual(command: &ManualCommand) -> Result<()> {
    match command {
        ManualCommand::Man { output } => man(output),
        ManualCommand::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "schedlab", &mut text);
            print!("{}", String::from_utf8_lossy(&text));
            Ok(())
        }
        ManualCommand::Book { output } => {
            folder(output)?;
            output::text(&output.join("commands.md"), &commands())?;
            output::text(&output.join("native-schedulers.md"), &native_schedulers(registry()))
        }
    }
}

fn folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Failure::input(LogError::io("write", path)(error)))
}

/// A page for the program, and one for each command that help shows.
fn man(folder_path: &Path) -> Result<()> {
    folder(folder_path)?;
    clap_mangen::generate_to(Cli::command(), folder_path)
        .map_err(|error| Failure::input(LogError::io("write", folder_path)(error)))
}

/// The book's page of commands.
fn commands() -> String {
    let options = clap_markdown::MarkdownOptions::new()
        .title("Commands".into())
        .show_footer(false)
        .show_table_of_contents(false);
    clap_markdown::help_markdown_custom::<Cli>(&options)
}

/// Text within a cell of a table in Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

/// The book's page of native schedulers.
fn native_schedulers(all: &[PolicyInfo]) -> String {
    let mut page = String::from(
        "# Native schedulers\n\nEach is written in Rust after a paper or a kernel. `schedlab schedulers NAME` shows the same on the terminal. \
         [How a scheduler is written](../schedulers.md) has the form of NAME and its parameters.\n",
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use clap::error::ErrorKind;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
    }

    struct Shown {
        line: usize,
        /// Behind `schedlab`.
        words: Vec<String>,
        /// To be typed as it stands: in a block of code.
        whole: bool,
    }

    /// Commands of a page, in blocks of code and within lines.
    fn commands_of(page: &str) -> Vec<Shown> {
        let (mut found, mut code) = (Vec::new(), false);
        for (number, line) in page.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                code = !code;
                continue;
            }
            let whole = code || line.starts_with("    ");
            let texts: Vec<&str> =
                if whole { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
            for text in texts {
                let text = text.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
                let Some(rest) = text.strip_prefix("schedlab ").or_else(|| text.strip_prefix("$schedlab "))
                else {
                    continue;
                };
                // a remark stands behind spaces
                let Some(words) = rest.split("   ").next().and_then(shlex::split) else { continue };
                // what a shell takes for itself ends the command
                let ends = ["|", ">", "2>", "&&", ";", "#", "->", "=>", "<", "&"];
                let words = words.into_iter().take_while(|word| !ends.contains(&word.as_str()));
                let words: Vec<String> = words.collect();
                found.push(Shown { line: number + 1, words, whole });
            }
        }
        found
    }

    #[test]
    fn pages_are_read_as_a_person_does() {
        let page = "schedlab run x `schedlab list`\n```sh\n$ schedlab run 'a b' --cpus 2 | head # x\nls\n  sudo schedlab record -- ls\n```\nschedlab y";
        let found = commands_of(page);
        let of = |nth: usize| (found[nth].line, found[nth].words.join("+"), found[nth].whole);
        assert_eq!(of(0), (1, "list".into(), false));
        assert_eq!(of(1), (3, "run+a b+--cpus+2".into(), true));
        assert_eq!((found.len(), of(2)), (3, (5, "record+--+ls".into(), true)));
    }

    /// What the pages tell a person to type is a command: no option has another name, no value another form.
    #[test]
    fn every_command_on_a_page_is_one() {
        let (mut wrong, mut checked) = (Vec::new(), 0);
        let pages = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let pages = pages.chain([root().join("README.md")]);
        for path in pages.filter(|path| path.extension().is_some_and(|e| e == "md")) {
            for Shown { line, words, whole } in commands_of(&std::fs::read_to_string(&path).unwrap()) {
                if words.iter().any(|word| word.contains(['[', '…']) || word == "...") {
                    continue; // a form, not a command
                }
                checked += 1;
                let Err(error) = Cli::try_parse_from(std::iter::once("schedlab".into()).chain(words)) else {
                    continue;
                };
                // what stands within a line may be a part of a command, with words such as NAME in it
                let named = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand);
                if error.use_stderr() && (whole || named) {
                    let text = error.to_string();
                    wrong.push(format!(
                        "{}:{line}: {}",
                        path.display(),
                        text.lines().next().unwrap_or_default()
                    ));
                }
            }
        }
        assert!(checked > 100, "only {checked} commands were found");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn the_manual_has_every_command_and_every_scheduler() {
        let dir = tempfile::tempdir().unwrap();
        man(dir.path()).unwrap();
        let page = std::fs::read_to_string(dir.path().join("schedlab-linux-add.1")).unwrap();
        assert!(page.contains("schedlab-linux-add") && page.contains("tarball"), "{page}");
        assert!(!dir.path().join("schedlab-probe.1").exists());
        let text = commands();
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            assert!(
                text.contains(&format!("## `schedlab {}`", command.get_name())),
                "{}",
                command.get_name()
            );
        }
        let text = native_schedulers(registry());
        assert!(registry().iter().all(|info| text.contains(&format!("\n## {}\n", info.name))));
        assert!(text.contains("| `quantum` |"));
    }
}
