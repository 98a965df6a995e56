//! What did the simulated kernel print, and was any of it a warning?
//!
//! The kernel's console text arrives in pieces; lines are kept (the last 4,096), and each `WARNING:`, `BUG:`
//! or `UBSAN:` opens a [`Warning`] that collects the lines up to the end of its trace. Stack traces arrive as
//! offsets (`[<+0x1a2b>]`), because the kernel object has no symbol names at run time; [`Symbols`] reads them
//! from the object's file when they are needed.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::symbols::Symbols;

const KEPT_LINES: usize = 4096;
const KEPT_WARNINGS: usize = 64;

/// How findings of the kernel begin: WARN(), lock debugging; BUG(), the address sanitizer; undefined behaviour.
const HEADS: [&str; 3] = ["WARNING: ", "BUG: ", "UBSAN: "];

/// What the port's symbol table (kallsyms.c) makes of every address, in flavours that have one.
const PORT_SYMBOL: &str = "linux+0x";

/// The line below which the address sanitizer's report is over.
fn is_rule(body: &str) -> bool {
    body.len() > 20 && body.bytes().all(|b| b == b'=')
}

/// A WARN, or a BUG, of the simulated kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The line that says what and where.
    pub head: String,
    /// What follows: modules, call trace, with function names.
    pub text: Vec<String>,
}

/// Warnings that follow from what the port leaves out, by the function that warns, with the reason. They are
/// no findings.
const KNOWN: [(&str, &str); 4] = [
    // WARN_ON_ONCE(!current->mm): "kernel threads aren't supposed to go to userspace"; without an MMU no task has an mm
    ("__ct_user_enter", "tasks have no mm (nohz_full)"),
    ("ct_user_enter", "tasks have no mm (nohz_full)"),
    ("__context_tracking_enter", "tasks have no mm (nohz_full)"),
    ("__user_enter", "tasks have no mm (nohz_full)"),
];

/// Whether a warning's first line names a function of [`KNOWN`].
fn is_known(head: &str) -> bool {
    let mut functions = head.split([' ', ',']).filter_map(|word| Some(word.split_once("+0x")?.0));
    functions.any(|function| KNOWN.iter().any(|(known, _)| *known == function))
}

/// What `bpf_printk()` of a scheduler writes begins with (`linux/scx/support.c`).
const PRINTED: &str = "bpf_printk: ";
/// Lines of it that are kept: the report shows them.
pub const KEPT_PRINTED: usize = 100;

/// The console.
pub struct Console {
    object: PathBuf,
    text: Range<usize>,
    symbols: Option<Symbols>,
    partial: String,
    lines: VecDeque<String>,
    warnings: Vec<Warning>,
    nr_warnings: u64,
    /// The last lines of `bpf_printk()` with the kernel's time in ns, and how many there were.
    printed: VecDeque<(u64, String)>,
    nr_printed: u64,
    now_ns: u64,
    open: bool,
    echo: bool,
}

impl Console {
    /// `text` is where the kernel's code is loaded.
    pub(crate) fn new(object: &Path, text: Range<usize>) -> Console {
        Console {
            object: object.to_owned(),
            text,
            symbols: None,
            partial: String::new(),
            lines: VecDeque::new(),
            warnings: Vec::new(),
            nr_warnings: 0,
            printed: VecDeque::new(),
            nr_printed: 0,
            now_ns: 0,
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

    /// The last lines of a scheduler's `bpf_printk()`, at most [`KEPT_PRINTED`], each with the kernel's time in ns; and
    /// how many there were.
    pub fn printed(&self) -> (impl Iterator<Item = (u64, &str)>, u64) {
        (self.printed.iter().map(|(now_ns, line)| (*now_ns, line.as_str())), self.nr_printed)
    }

    /// How many warnings there were.
    pub fn nr_warnings(&self) -> u64 {
        self.nr_warnings
    }

    /// What the kernel prints, at `now_ns` of its clock.
    pub(crate) fn print_at(&mut self, now_ns: u64, text: &[u8]) {
        self.now_ns = now_ns;
        self.print(text);
    }

    fn print(&mut self, text: &[u8]) {
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
        if HEADS.iter().any(|head| body.starts_with(head)) {
            let known = is_known(body);
            self.nr_warnings += u64::from(!known);
            self.open = self.warnings.len() < KEPT_WARNINGS && !known;
            if self.open {
                self.warnings.push(Warning { head: body.to_owned(), text: Vec::new() });
            }
        } else if body.starts_with("---[ end trace") || is_rule(body) {
            self.open = false;
        } else if let (true, Some(warning)) = (self.open, self.warnings.last_mut()) {
            warning.text.push(body.to_owned());
        }
        if let Some(text) = body.strip_prefix(PRINTED) {
            self.nr_printed += 1;
            if self.printed.len() == KEPT_PRINTED {
                self.printed.pop_front();
            }
            self.printed.push_back((self.now_ns, text.to_owned()));
        }
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Return addresses of a stack, printed as the kernel would.
    pub(crate) fn stack(&mut self, calls: &[u64]) {
        if calls.is_empty() {
            return;
        }
        self.line("Possible call trace:".to_owned());
        for call in calls {
            let name = self.name(*call as usize);
            self.line(format!(" {name}"));
        }
    }

    /// Replace `[<+0x1a2b>]`, and the address that `%pS` prints, by the function's name and the offset in it.
    fn with_names(&mut self, line: &str) -> String {
        if let Some((before, rest)) = line.split_once("[<+0x")
            && let Some((hex, after)) = rest.split_once(">]")
            && let Ok(offset) = usize::from_str_radix(hex, 16)
        {
            let name = self.name(self.text.start + offset);
            return format!("{before}{name}{after}");
        }
        if line.contains(PORT_SYMBOL) {
            return self.with_port_symbols(line);
        }
        // "WARNING: CPU: 0 PID: 1 at kernel/sched/core.c:42 0x00007f2b6472dbfa"; from 7.0 on "... at
        // 0x00007f2b6472dbfa, CPU#0: ..."
        if let Some((before, rest)) = line.split_once(" 0x") {
            let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
            if let Ok(address) = usize::from_str_radix(&rest[..digits], 16)
                && self.text.contains(&address)
            {
                let name = self.name(address);
                return format!("{before} {name}{}", &rest[digits..]);
            }
        }
        line.to_owned()
    }

    /// Replace each `linux+0x1a2b/0x...`, of which the port's symbol table of one entry knows no more.
    fn with_port_symbols(&mut self, line: &str) -> String {
        let mut parts = line.split(PORT_SYMBOL);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(part.len());
            let after = part[end..]
                .strip_prefix("/0x")
                .map_or(&part[end..], |size| size.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
            match usize::from_str_radix(&part[..end], 16) {
                Ok(offset) => out.push_str(&self.name(self.text.start + offset)),
                Err(_) => out.push_str(&format!("{PORT_SYMBOL}{}", &part[..end])),
            }
            out.push_str(after);
        }
        out
    }

    /// `function+0x12`, or the address.
    fn name(&mut self, address: usize) -> String {
        let symbols = self.symbols.get_or_insert_with(|| Symbols::read(&self.object).unwrap_or_default());
        let offset = address.wrapping_sub(self.text.start) as u64;
        match symbols.find(symbols.text_start().wrapping_add(offset)) {
            Some((name, within)) => format!("{name}+{within:#x}"),
            None => format!("{address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_collects_its_lines_across_pieces() {
        let mut console = Console::new(Path::new("/nonexistent"), 0x1000..0x2000);
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

    #[test]
    fn sanitizers_and_lock_debugging_are_findings() {
        let mut console = Console::new(Path::new("/nonexistent"), 0x1000..0x2000);
        console.print(b"[    0.1] ==================================================================\n");
        console.print(
            b"[    0.1] BUG: KASAN: slab-out-of-bounds in linux+0x10/0x990\n[    0.1] Write of size 8\n",
        );
        console.print(
            b"[    0.1] ==================================================================\n[    0.2] calm\n",
        );
        console.print(b"[    0.3] UBSAN: shift-out-of-bounds in kernel/sched/pelt.c:44:6\n");
        console.print(
            b"[    0.4] WARNING: possible circular locking dependency detected\n\
            [    0.4] at: linux+0x20/0x9, linux+0x30/0x9\n",
        );
        let heads: Vec<&str> = console.warnings().iter().map(|w| w.head.as_str()).collect();
        assert_eq!(
            heads,
            [
                "BUG: KASAN: slab-out-of-bounds in 0x1010",
                "UBSAN: shift-out-of-bounds in kernel/sched/pelt.c:44:6",
                "WARNING: possible circular locking dependency detected"
            ]
        );
        assert_eq!(console.warnings()[0].text, ["Write of size 8"]);
        assert_eq!(console.warnings()[2].text, ["at: 0x1020, 0x1030"]);
    }

    #[test]
    fn what_the_port_leaves_out_is_no_finding() {
        assert!(is_known("WARNING: CPU: 0 PID: 1 at kernel/context_tracking.c:474 __ct_user_enter+0xaa"));
        assert!(is_known(
            "WARNING: kernel/context_tracking.c:453 at __ct_user_enter+0x9a, CPU#0: swapper/0/1"
        ));
        assert!(!is_known("WARNING: CPU: 0 PID: 1 at kernel/sched/fair.c:1 update_entity_lag+0x1"));
    }
}
