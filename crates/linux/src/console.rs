//! What did the simulated kernel print, and was any of it a warning?
//!
//! The kernel's console text arrives in pieces; lines are kept (the last 4,096), and each `WARNING:` or `BUG:` opens a
//! [`Warning`] that collects the lines up to the end of its trace. Stack traces arrive as offsets (`[<+0x1a2b>]`), because
//! the kernel object has no symbol names at run time; [`Symbols`] reads them from the object's file when they are needed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::symbols::Symbols;

const KEPT_LINES: usize = 4096;
const KEPT_WARNINGS: usize = 64;

/// A WARN, or a BUG, of the simulated kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The line that says what and where.
    pub head: String,
    /// What follows: modules, call trace, with function names.
    pub text: Vec<String>,
}

/// The console.
pub struct Console {
    object: PathBuf,
    text_start: usize,
    symbols: Option<Symbols>,
    partial: String,
    lines: VecDeque<String>,
    warnings: Vec<Warning>,
    nr_warnings: u64,
    open: bool,
    echo: bool,
}

impl Console {
    pub(crate) fn new(object: &Path, text_start: usize) -> Console {
        Console {
            object: object.to_owned(),
            text_start,
            symbols: None,
            partial: String::new(),
            lines: VecDeque::new(),
            warnings: Vec::new(),
            nr_warnings: 0,
            open: false,
            echo: std::env::var_os("SCHEDLAB_CONSOLE").is_some(),
        }
    }

    /// The kernel object that prints.
    pub(crate) fn object(&self) -> &Path {
        &self.object
    }

    /// The last lines.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// The first warnings, at most 64 are kept.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// How many warnings there were.
    pub fn nr_warnings(&self) -> u64 {
        self.nr_warnings
    }

    pub(crate) fn print(&mut self, text: &[u8]) {
        self.partial.push_str(&String::from_utf8_lossy(text));
        while let Some(end) = self.partial.find('\n') {
            let line: String = self.partial.drain(..=end).collect();
            let line = self.with_names(line.trim_end());
            self.line(line);
        }
    }

    fn line(&mut self, line: String) {
        if self.echo {
            eprintln!("kernel: {line}");
        }
        // the text after the time stamp "[    0.123456] "
        let body = line.split_once("] ").map_or(line.as_str(), |(_, rest)| rest);
        if body.starts_with("WARNING: ") || body.starts_with("BUG: ") {
            self.nr_warnings += 1;
            self.open = self.warnings.len() < KEPT_WARNINGS;
            if self.open {
                self.warnings.push(Warning { head: body.to_owned(), text: Vec::new() });
            }
        } else if body.starts_with("---[ end trace") {
            self.open = false;
        } else if let (true, Some(warning)) = (self.open, self.warnings.last_mut()) {
            warning.text.push(body.to_owned());
        }
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Replace `[<+0x1a2b>]` by the function's name and the offset in it.
    fn with_names(&mut self, line: &str) -> String {
        let Some((before, rest)) = line.split_once("[<+0x") else { return line.to_owned() };
        let Some((hex, after)) = rest.split_once(">]") else { return line.to_owned() };
        let Ok(offset) = usize::from_str_radix(hex, 16) else { return line.to_owned() };
        let symbols = self.symbols.get_or_insert_with(|| Symbols::read(&self.object).unwrap_or_default());
        match symbols.find(symbols.text_start() + offset as u64) {
            Some((name, within)) => format!("{before}{name}+{within:#x}{after}"),
            None => format!("{before}{:#x}{after}", self.text_start + offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_collects_its_lines_across_pieces() {
        let mut console = Console::new(Path::new("/nonexistent"), 0x1000);
        console
            .print(b"[    0.1] ------------[ cut here ]------------\n[    0.1] WARNING: CPU: 0 PID: 1 at fa");
        console.print(b"ir.c:1\n[    0.1] Call trace of x (pid 1):\n[    0.1]  [<+0x10>]\n");
        console.print(b"[    0.1] ---[ end trace 0000000000000000 ]---\n[    0.2] calm\n");
        assert_eq!(console.nr_warnings(), 1);
        let warning = &console.warnings()[0];
        assert_eq!(warning.head, "WARNING: CPU: 0 PID: 1 at fair.c:1");
        assert_eq!(warning.text, ["Call trace of x (pid 1):", " 0x1010"]);
        assert_eq!(console.lines().last(), Some("[    0.2] calm"));
    }
}
