//! Which lines of ext.c's debug dump are true, and said once?
//!
//! The kernel prints stacks as the port finds them: every word behind a call, left-overs too. In those of tasks the
//! callers are distinguished from left-overs as everywhere ([`saved_chain`]). The exit's own stack is left out: the
//! report has it above.

use schedlab_linux::callers::{Code, saved_chain};

/// The dump with callers in place of addresses, and without the exit's own stack.
pub(super) fn with_callers(dump: &str, code: &[Code]) -> String {
    let mut out = String::with_capacity(dump.len());
    let mut lines = dump.lines().peekable();
    while let Some(line) = lines.next() {
        let is_exits = line.trim() == "Backtrace:";
        let mut saved: Vec<u64> = address(line).into_iter().collect();
        if !is_exits && saved.is_empty() {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        while let Some(next) = lines.peek().and_then(|line| address(line)) {
            saved.push(next);
            lines.next();
        }
        if is_exits {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let callers = saved_chain(&saved, code, |_| false);
        if callers.is_empty() {
            saved.iter().for_each(|address| out.push_str(&format!("{indent}{address:#018x}\n")));
        }
        callers.iter().for_each(|place| out.push_str(&format!("{indent}{place}\n")));
    }
    out
}

/// A line that is nothing but an address in memory.
fn address(line: &str) -> Option<u64> {
    let digits = line.trim().strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() > 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exit's own stack goes, a task's stays (as addresses, since no code is known here), and all else, too.
    #[test]
    fn stacks_are_distinguished_from_the_rest() {
        let dump = "x[1] triggered exit kind 1026:\n  stall\n\nBacktrace:\n  0x00007f0000000001\n  \
            0x00007f0000000002\n\n\
                    CPU states\n  R hog[3]\n    0x00007f0000000003\n  no_mig=0x123 0x00007f0000000004\n";
        let wanted = "x[1] triggered exit kind 1026:\n  stall\n\n\nCPU states\n  R hog[3]\n    0x00007f0000000003\n  \
                      no_mig=0x123 0x00007f0000000004\n";
        assert_eq!(with_callers(dump, &[]), wanted);
    }
}
