//! How does text reach the terminal? Through here, so that foreign text in it is shown and not obeyed.
//!
//! ```text
//! a task called "ESC[2J" in a recording     ->     \u001b[2J in the report; the screen stays as it is
//! ```
//!
//! `print!` and `println!` take the place of the standard library's in this program. JSON keeps its meaning: the escapes are JSON's.

use schedlab_report::Style;
use schedlab_stdx::escape::{painted, visible};
use std::borrow::Cow;

/// As the standard library's, for text with names from files in it.
macro_rules! print {
    ($($text:tt)*) => { $crate::print::stdout(&format!($($text)*)) };
}

/// As the standard library's, for text with names from files in it.
macro_rules! println {
    () => { $crate::print::stdout("\n") };
    ($($text:tt)*) => { $crate::print::stdout(&(format!($($text)*) + "\n")) };
}

/// Prints a result. Colours stay if there are any.
pub(crate) fn stdout(text: &str) {
    std::print!("{}", if Style::detect().color { painted(text) } else { visible(text) });
}

/// Prints a line for the person: progress, or what went wrong.
pub(crate) fn stderr(line: &str) {
    std::eprintln!("{}", visible(line));
}

/// Ends the program as clap does; what the command line has of its own is escaped in the message.
pub(crate) fn refused(error: &clap::Error) -> ! {
    let text = error.to_string();
    if let Cow::Owned(shown) = visible(&text) {
        std::eprint!("{shown}");
        std::process::exit(error.exit_code());
    }
    error.exit()
}
