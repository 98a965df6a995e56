//! How does text reach the terminal? Through here, so that foreign text in it is shown and not obeyed.
//!
//! ```text
//! a task called "ESC[2J" in a recording     ->     \u001b[2J in the report; the screen stays as it is
//! ```
//!
//! `print!` and `println!` take the place of the standard library's in this program. JSON keeps its meaning:
//! the escapes are JSON's.

use crate::failure::Failure;
use schedlab_report::Style;
use schedlab_stdx::escape::{painted, visible};
use std::borrow::Cow;
use std::io::Write;

/// As the standard library's, for text with names from files in it.
macro_rules! print {
    ($($text:tt)*) => { $crate::print::stdout(&format!($($text)*)) };
}

/// As the standard library's, for text with names from files in it.
macro_rules! println {
    () => { $crate::print::stdout("\n") };
    ($($text:tt)*) => { $crate::print::stdout(&(format!($($text)*) + "\n")) };
}

/// Prints a result. Colours stay if there are any. A result that cannot be printed (a full disk) ends the program
/// with status 2; a pipe that its reader has closed ends it by SIGPIPE, before this sees an error.
pub(crate) fn stdout(text: &str) {
    let shown = if Style::detect().color { painted(text) } else { visible(text) };
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(shown.as_bytes()).and_then(|()| out.flush()) {
        end_unwritten(&error);
    }
}

fn end_unwritten(error: &std::io::Error) -> ! {
    let failure = unwritten(error);
    stderr(&format!("schedlab: {}", failure.sentence()));
    std::process::exit(failure.code().into());
}

/// Standard output did not take a result.
pub(crate) fn unwritten(error: &std::io::Error) -> Failure {
    Failure::Input(format!(
        "the result cannot be written to standard output: {error}; free space there, or print to another place"
    ))
}

/// Prints a line for the person: progress, or what went wrong. Nobody is left to tell if that fails.
pub(crate) fn stderr(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", visible(line));
}

/// Ends the program as clap does; what the command line has of its own is escaped in the message.
pub(crate) fn refused(error: &clap::Error) -> ! {
    let text = error.to_string();
    if let Cow::Owned(shown) = visible(&text) {
        let _ = write!(std::io::stderr(), "{shown}");
        std::process::exit(error.exit_code());
    }
    if !error.use_stderr() {
        // help and version are results
        match error.print().and_then(|()| std::io::stdout().flush()) {
            Ok(()) => std::process::exit(error.exit_code()),
            Err(full) => end_unwritten(&full),
        }
    }
    error.exit()
}
