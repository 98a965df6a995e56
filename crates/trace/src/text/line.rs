//! What does a line begin with? Task, CPU, flags, time and the event's name; or it is no event at all.

use crate::event::{Context, Pid};

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// An event: name and what follows it.
    Event(Head, Time, &'a [u8], &'a [u8]),
    /// Events are missing here: of which CPU, how many.
    Lost(Option<u32>, Option<u64>),
    /// The header says how many events are here, and how many were written.
    Entries(u64, u64),
    /// Headers and the like.
    Nothing,
    /// Anything else.
    Unknown,
}

/// What stands before an event's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Less than 0: unknown.
    pub pid: Pid,
    pub cpu: u32,
    pub context: Context,
    pub preempt_count: u8,
}

/// A time as printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time {
    pub ns: u64,
    /// Digits behind the point; 0: there is no point.
    pub digits: u8,
}

impl<'a> Line<'a> {
    /// Reads a line without its end.
    #[inline]
    pub fn parse(line: &'a [u8]) -> Line<'a> {
        match line.first() {
            None => return Line::Nothing,
            Some(b'#') => return comment(line),
            _ => {}
        }
        match event(line).or_else(|| event_latency(line)) {
            Some(parsed) => parsed,
            None => other(line),
        }
    }
}

/// `TASK-PID (TGID) [CPU] FLAGS TIME: NAME: REST`.
#[inline]
fn event(line: &[u8]) -> Option<Line<'_>> {
    let mut from = 0;
    loop {
        let open = from + memchr::memchr(b'[', &line[from..])?;
        let (cpu, digits) = number(&line[open + 1..]);
        let close = open + 1 + digits;
        // A name may hold a bracket.
        if digits > 0
            && line.get(close) == Some(&b']')
            && let Some(pid) = pid_before(&line[..open])
        {
            let rest = skip_spaces(&line[close + 1..]);
            if let Some((flags, time, rest)) = flags_and_time(rest) {
                let (context, preempt_count) = flags.map_or((Context::Unknown, 0), context);
                let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
                return named(Head { pid, cpu, context, preempt_count }, time, rest);
            }
        }
        from = open + 1;
    }
}

/// `TASK-PID  CPUFLAGS TIME: NAME: REST`, as `trace-cmd report -l` has it.
#[cold]
fn event_latency(line: &[u8]) -> Option<Line<'_>> {
    let mut before: Option<(&[u8], &[u8])> = None;
    let mut rest = skip_spaces(line);
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let token = &rest[..end];
        if let Some(time) = time(token)
            && time.digits > 0
        {
            let (task, flags) = before?;
            let (cpu, digits) = number(flags);
            let flags = &flags[digits..];
            if digits == 0 || flags.is_empty() {
                return None;
            }
            let pid = pid_before(task)?;
            let (context, preempt_count) = context(flags);
            let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
            return named(Head { pid, cpu, context, preempt_count }, time, &rest[end..]);
        }
        before = Some((&line[..line.len() - rest.len()], token));
        rest = skip_spaces(&rest[end..]);
    }
    None
}

/// The thread's number at the end of a line's begin: `bash-812 `, `bash-812 (  811) `, `bash   811/812 `, `:-1    -1 `.
#[inline]
fn pid_before(text: &[u8]) -> Option<Pid> {
    let mut text = trim_end(text);
    if let [head @ .., b')'] = text {
        let open = head.iter().rposition(|byte| *byte == b'(')?;
        text = trim_end(&head[..open]);
    }
    let mut start = text.len();
    let (mut value, mut scale) = (0i64, 1i64);
    while start > 0 && text[start - 1].is_ascii_digit() {
        start -= 1;
        if scale > 1_000_000_000 {
            return None;
        }
        value += i64::from(text[start] - b'0') * scale;
        scale *= 10;
    }
    if start == text.len() {
        return None;
    }
    match text[..start] {
        [.., b' ', b'-'] => Some(Pid(-1)),
        [.., b'-' | b'/' | b' '] => Some(Pid(i32::try_from(value).ok()?)),
        _ => None,
    }
}

type FlagsTimeRest<'a> = (Option<&'a [u8]>, Time, &'a [u8]);

/// `d..2. 1234.567890: rest` or `1234.567890: rest`.
#[inline]
fn flags_and_time(text: &[u8]) -> Option<FlagsTimeRest<'_>> {
    if let Some((time, end)) = time_before_space(text) {
        return Some((None, time, &text[end..]));
    }
    let end = text.iter().take(9).position(|byte| *byte == b' ')?;
    let (flags, rest) = (&text[..end], skip_spaces(&text[end..]));
    let (time, end) = time_before_space(rest)?;
    Some((Some(flags), time, &rest[end..]))
}

/// `1234.567890:`, and nothing else.
fn time(token: &[u8]) -> Option<Time> {
    time_at_start(token).filter(|(_, length)| *length == token.len()).map(|(time, _)| time)
}

/// A time at the begin, which a space follows; and where that is.
#[inline]
fn time_before_space(text: &[u8]) -> Option<(Time, usize)> {
    time_at_start(text).filter(|(_, length)| text.get(*length) == Some(&b' '))
}

/// `1234.567890:` at the begin, and its length.
#[inline]
fn time_at_start(text: &[u8]) -> Option<(Time, usize)> {
    const SCALE: [u64; 10] =
        [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
    let (seconds, length) = number(text);
    if length == 0 {
        return None;
    }
    match text[length..] {
        [b':', ..] => Some((Time { ns: seconds, digits: 0 }, length + 1)),
        [b'.', ref fraction @ ..] => {
            let (value, digits) = number(fraction);
            if !(1..=9).contains(&digits) || fraction.get(digits) != Some(&b':') {
                return None;
            }
            let ns = seconds.checked_mul(1_000_000_000)?.checked_add(value * SCALE[digits])?;
            Some((Time { ns, digits: digits as u8 }, length + digits + 2))
        }
        _ => None,
    }
}

/// The third flag tells interrupts, the fourth the depth (kernel/trace/trace_output.c, trace_print_lat_fmt).
#[inline]
fn context(flags: &[u8]) -> (Context, u8) {
    let context = match flags.get(2) {
        Some(b'h' | b'H') => Context::HardIrq,
        Some(b's') => Context::SoftIrq,
        Some(b'z' | b'Z') => Context::Nmi,
        _ => Context::Task,
    };
    let depth = |at: usize| match flags.get(at) {
        Some(digit) => (*digit as char).to_digit(16).unwrap_or(0) as u8,
        None => 0,
    };
    (context, depth(3) | depth(4) << 4)
}

/// Name and the rest: `sched_switch: prev_comm=`, `sched:sched_switch: `, `sys_sched_yield()`, `sys_nice -> 0x0`.
#[inline]
fn named(head: Head, time: Time, rest: &[u8]) -> Option<Line<'_>> {
    /// What most lines are: their names need not be looked for.
    const OFTEN: [&[u8; 15]; 2] = [b" sched_switch: ", b" sched_waking: "];
    if let Some((start, payload)) = rest.split_first_chunk::<15>()
        && OFTEN.contains(&start)
        && payload.first() != Some(&b' ')
    {
        return Some(Line::Event(head, time, &start[1..13], payload));
    }
    let mut rest = skip_spaces(rest);
    loop {
        let end = rest.iter().position(|byte| matches!(byte, b':' | b' ' | b'('))?;
        let (name, after) = rest.split_at(end);
        match after {
            [b':', b' ', ..] | [b':'] => {
                return Some(Line::Event(head, time, name, skip_spaces(&after[1..])));
            }
            // "sched:" before the name
            [b':', ..] => rest = &after[1..],
            _ => return Some(Line::Event(head, time, name, after)),
        }
    }
}

/// `# entries-in-buffer/entries-written: 205/1205   #P:2`, `##### CPU 2 buffer started ####`.
#[cold]
fn comment(line: &[u8]) -> Line<'_> {
    let text = String::from_utf8_lossy(line);
    if let Some(rest) = text.split("entries-in-buffer/entries-written:").nth(1)
        && let Some((kept, written)) = rest.split_whitespace().next().and_then(|pair| pair.split_once('/'))
        && let (Ok(kept), Ok(written)) = (kept.parse::<u64>(), written.parse::<u64>())
    {
        return Line::Entries(kept, written);
    }
    if let Some(rest) = text.strip_prefix("##### CPU ")
        && let Some((cpu, _)) = rest.split_once(" buffer started")
        && let Ok(cpu) = cpu.parse()
    {
        return Line::Lost(Some(cpu), None);
    }
    Line::Nothing
}

/// `CPU:1 [LOST 123 EVENTS]` (tracefs), `CPU:1 [123 EVENTS DROPPED]` (trace-cmd), `cpus=2`.
#[cold]
fn other(line: &[u8]) -> Line<'_> {
    let text = String::from_utf8_lossy(&line[..line.len().min(200)]);
    let text = text.trim();
    // trace-cmd puts the name of an instance before it
    if let Some(at) = text.find("CPU:")
        && let Some((cpu, rest)) = text[at + 4..].split_once(" [")
        && let (true, Ok(cpu)) = (rest.contains("EVENTS"), cpu.trim().parse())
    {
        return Line::Lost(Some(cpu), rest.split_whitespace().find_map(|word| word.parse().ok()));
    }
    let header = |prefix: &str| text.starts_with(prefix);
    if text.is_empty()
        || header("cpus=")
        || header("version = ")
        || (header("CPU ") && text.ends_with(" is empty"))
    {
        return Line::Nothing;
    }
    Line::Unknown
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| *byte != b' ').unwrap_or(text.len());
    &text[start..]
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// The digits at the begin as a number (saturating), and how many they are.
#[inline]
pub(super) fn number(text: &[u8]) -> (u64, usize) {
    /// So many digits fit in 64 bits.
    const SAFE: usize = 19;
    let (mut value, mut length) = (0u64, 0);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        length += 1;
    }
    (if length > SAFE { u64::MAX } else { value }, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn event_of(line: &str) -> (i32, u32, Context, u64, u8, &str, &str) {
        match Line::parse(line.as_bytes()) {
            Line::Event(head, time, name, rest) => (
                head.pid.0,
                head.cpu,
                head.context,
                time.ns,
                time.digits,
                std::str::from_utf8(name).unwrap(),
                std::str::from_utf8(rest).unwrap(),
            ),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_heads_of_all_tools() {
        use Context::*;
        let ns = 1_234_567_890_000;
        for (line, pid, cpu, context, digits) in [
            ("            bash-812     [001] d..2.  1234.567890: x: y", 812, 1, Task, 6),
            ("          <idle>-0       [003] dNh3.  1234.567890: x: y", 0, 3, HardIrq, 6),
            ("          <idle>-0       [003] d.s3  1234.567890: x: y", 0, 3, SoftIrq, 6),
            ("          <idle>-0       [003] d.Z3.  1234.567890: x: y", 0, 3, Nmi, 6),
            ("            bash-812     [001]  1234.567890: x: y", 812, 1, Unknown, 6),
            ("            bash-812     (    800) [001] d.H2.  1234.567890: x: y", 812, 1, HardIrq, 6),
            ("            bash-812     (-------) [001]  1234.567890: x: y", 812, 1, Unknown, 6),
            ("inst:       bash-812   [001] 1234.567890000: x:            y", 812, 1, Unknown, 9),
            ("inst:   bash-812   11d.s2. 1234.567890: x:            y", 812, 11, SoftIrq, 6),
            ("            bash   812 [001]  1234.567890:       sched:x: y", 812, 1, Unknown, 6),
            ("            bash   800/812 [001]  1234.567890: sched:x: y", 812, 1, Unknown, 6),
            ("             :-1    -1 [001]  1234.567890: sched:x: y", -1, 1, Unknown, 6),
            (" a [x] b-7 c: d-812     [001] .....  1234.567890: x: y", 812, 1, Task, 6),
            ("kworker/0:1-812     [000] .....  1234.567890: x: y", 812, 0, Task, 6),
        ] {
            assert_eq!(event_of(line), (pid, cpu, context, ns, digits, "x", "y"), "{line}");
        }
        assert_eq!(event_of("a-1 [000] d..1. 5: x: y").4, 0);
        assert_eq!(event_of("a-1 [000] ..... 5.1: sys_sched_yield()").5, "sys_sched_yield");
        assert_eq!(event_of("a-1 [000] ..... 5.1: sys_sched_yield -> 0x0").6, " -> 0x0");
        assert_eq!(event_of("a-1 [000] ..... 5.1: sys_enter_sched_yield:").6, "");
    }

    #[test]
    fn lines_that_are_no_events() {
        for (line, what) in [
            ("", Line::Nothing),
            ("# tracer: nop", Line::Nothing),
            ("cpus=2", Line::Nothing),
            ("CPU 3 is empty", Line::Nothing),
            ("# entries-in-buffer/entries-written: 205/1205   #P:2", Line::Entries(205, 1205)),
            ("##### CPU 2 buffer started ####", Line::Lost(Some(2), None)),
            ("CPU:1 [LOST 123 EVENTS]", Line::Lost(Some(1), Some(123))),
            ("CPU:1 [LOST EVENTS]", Line::Lost(Some(1), None)),
            ("inst: CPU:0 [77 EVENTS DROPPED]", Line::Lost(Some(0), Some(77))),
            (" => do_syscall_64", Line::Unknown),
            ("a-1 [000] d..1.", Line::Unknown),
            ("a-1 [000] d..1. 5.1", Line::Unknown),
            ("a-99999999999999 [000] d..1. 5.1: x: y", Line::Unknown),
            ("a [000] d..1. 5.1: x: y", Line::Unknown),
        ] {
            assert_eq!(Line::parse(line.as_bytes()), what, "{line}");
        }
    }
}
