//! In what state did the previous task leave the CPU? `prev_state` is a number whose bits mean different
//! things in different kernels; the print format of `sched_switch` in the trace itself tells which.
//!
//! ```text
//! 6.x:  prev_state & ((... + 1) << 1) - 1 ? __print_flags(..., { 0x0001, "S" }, ..., { 0x0080, "I" }) : "R",
//!       prev_state & (0x100) ? "+" : ""
//! 4.9:  prev_state & (2048-1) ? __print_flags(..., { 1, "S" }, { 2, "D" }, { 16, "Z" }, { 1024, "N" }) : "R",
//!       prev_state & 2048 ? "+" : ""
//! ```
//!
//! So 0x100 is "R+", preempted inside the kernel, on 6.x; on 4.9 it means a waking task.

/// State of a task that gives up the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskState {
    /// R: runnable; preempted on return to user space, or it yielded.
    Running,
    /// R+: runnable; preempted while inside the kernel.
    RunningPreempted,
    /// S: sleeps, a signal may wake it.
    Interruptible,
    /// D: sleeps, no signal wakes it.
    Uninterruptible,
    /// T: stopped by a signal.
    Stopped,
    /// t: stopped by a debugger.
    Traced,
    /// X or x: gone.
    Dead,
    /// Z: dead, its parent has not noticed.
    Zombie,
    /// P: a parked kernel thread.
    Parked,
    /// I: an idle kernel thread (D that does not count as load).
    Idle,
    /// A value that the print format does not explain.
    Unknown,
}

impl TaskState {
    /// Whether the task still wants the CPU.
    pub fn is_runnable(self) -> bool {
        matches!(self, TaskState::Running | TaskState::RunningPreempted)
    }
}

/// Turns `prev_state` into a [`TaskState`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDecoder {
    /// Bits that name a state.
    mask: i64,
    /// Bit for "+".
    plus: i64,
    letters: Vec<(i64, u8)>,
    /// Answers for small values, i.e. for all that occur.
    table: Vec<TaskState>,
    /// Whether the print format was understood.
    from_file: bool,
}

const TABLE: i64 = 4096;

impl StateDecoder {
    /// From the `print fmt` of `sched_switch`. Where that cannot be understood, Linux 4.14's bits, which have
    /// not changed since, are taken; [`StateDecoder::is_from_file`] tells.
    pub fn parse(print_fmt: &str) -> StateDecoder {
        let (mask, plus, letters, from_file) = match parse_print_fmt(print_fmt) {
            Some((mask, plus, letters)) => (mask, plus, letters, true),
            None => {
                let letters =
                    b"SDTtXZPI".iter().enumerate().map(|(bit, letter)| (1 << bit, *letter)).collect();
                (0xff, 0x100, letters, false)
            }
        };
        let mut decoder = StateDecoder { mask, plus, letters, table: Vec::new(), from_file };
        decoder.table = (0..TABLE).map(|value| decoder.explain(value)).collect();
        decoder
    }
    /// Whether the trace's own print format gave the meaning.
    pub fn is_from_file(&self) -> bool {
        self.from_file
    }
    /// The state that this `prev_state` stands for.
    #[inline]
    pub fn decode(&self, prev_state: i64) -> TaskState {
        match self.table.get(prev_state as usize) {
            Some(state) if prev_state >= 0 => *state,
            _ => self.explain(prev_state),
        }
    }

    fn explain(&self, value: i64) -> TaskState {
        if value & self.mask == 0 {
            return match value {
                0 => TaskState::Running,
                _ if value == self.plus => TaskState::RunningPreempted,
                _ => TaskState::Unknown,
            };
        }
        let named = self.letters.iter().fold(0, |bits, (bit, _)| bits | bit);
        if value & self.mask & !named != 0 {
            return TaskState::Unknown;
        }
        let has = |letter: u8| self.letters.iter().any(|(bit, l)| *l == letter && value & bit != 0);
        // Old kernels combine: D|N is an idle kernel thread, D|K and T|K can be killed. The first that fits wins.
        let order = [
            (b'X', TaskState::Dead),
            (b'x', TaskState::Dead),
            (b'Z', TaskState::Zombie),
            (b'I', TaskState::Idle),
            (b'P', TaskState::Parked),
            (b'T', TaskState::Stopped),
            (b't', TaskState::Traced),
        ];
        match order.iter().find(|(letter, _)| has(*letter)) {
            Some((_, state)) => *state,
            None if has(b'D') && has(b'N') => TaskState::Idle,
            None if has(b'D') => TaskState::Uninterruptible,
            None if has(b'S') => TaskState::Interruptible,
            None => TaskState::Unknown,
        }
    }
}

type Bits = (i64, i64, Vec<(i64, u8)>);

/// Finds mask, plus bit and letters in the print format; `None` if anything is not as expected.
fn parse_print_fmt(text: &str) -> Option<Bits> {
    let after_flags = text.split_once("__print_flags(")?.1;
    let (expression, rest) = after_flags.split_once(',')?;
    let mask = constant_after_and(expression)?;
    let mut letters = Vec::new();
    // { 0x0001, "S" } , { ... } ) : "R"
    let (list, rest) = rest.split_once(") :").or_else(|| rest.split_once("):"))?;
    for entry in list.split('{').skip(1) {
        let (value, name) = entry.split_once('}')?.0.split_once(',')?;
        let name = name.trim().trim_matches('"');
        if let [letter] = name.as_bytes() {
            letters.push((evaluate(value)?, *letter));
        }
    }
    // "R", prev_state & X ? "+" : ""
    let plus = match rest.split_once("? \"+\"") {
        Some((expression, _)) => constant_after_and(expression.split_once(',')?.1)?,
        None => 0,
    };
    (mask != 0 && !letters.is_empty()).then_some((mask, plus, letters))
}

/// The constant in `REC->prev_state & (constant)`.
fn constant_after_and(expression: &str) -> Option<i64> {
    evaluate(expression.split_once("prev_state")?.1.trim().strip_prefix('&')?)
}

/// A C constant expression of numbers, `| & + - << >> ~` and parentheses.
fn evaluate(text: &str) -> Option<i64> {
    let mut parser = Constant { text: text.as_bytes(), depth: 0 };
    let value = parser.binary(0)?;
    parser.skip_space();
    parser.text.is_empty().then_some(value)
}

struct Constant<'a> {
    text: &'a [u8],
    depth: u32,
}

impl Constant<'_> {
    fn skip_space(&mut self) {
        self.text = self.text.trim_ascii_start();
    }
    fn eat(&mut self, token: &[u8]) -> bool {
        self.skip_space();
        match self.text.strip_prefix(token) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }
    /// Operators by C precedence: `|`, `&`, shifts, sums.
    fn binary(&mut self, level: usize) -> Option<i64> {
        const LEVELS: [&[&[u8]]; 4] = [&[b"|"], &[b"&"], &[b"<<", b">>"], &[b"+", b"-"]];
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut value = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.eat(operator)) {
            let right = self.binary(level + 1)?;
            value = match *operator {
                b"|" => value | right,
                b"&" => value & right,
                b"<<" => value.checked_shl(u32::try_from(right).ok()?)?,
                b">>" => value.checked_shr(u32::try_from(right).ok()?)?,
                b"+" => value.checked_add(right)?,
                _ => value.checked_sub(right)?,
            };
        }
        Some(value)
    }
    fn unary(&mut self) -> Option<i64> {
        // A damaged text may nest without end; the stack may not.
        self.depth += 1;
        if self.depth > 200 {
            return None;
        }
        let value = if self.eat(b"~") {
            self.unary().map(|value| !value)
        } else if self.eat(b"(") {
            let value = self.binary(0)?;
            self.eat(b")").then_some(value)
        } else {
            self.number()
        };
        self.depth -= 1;
        value
    }
    fn number(&mut self) -> Option<i64> {
        self.skip_space();
        let length = self.text.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let (digits, rest) = self.text.split_at(length);
        self.text = rest;
        let digits = std::str::from_utf8(digits).ok()?.trim_end_matches(['U', 'L', 'u', 'l']);
        match digits.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.12 and 6.18 have it (include/trace/events/sched.h, TASK_REPORT expanded).
    const LINUX_6: &str = r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : "", REC->next_comm"#;
    /// As Linux 4.9 has it.
    const LINUX_4_9: &str = r#""prev_state=%s%s", REC->prev_state & (2048-1) ? __print_flags(REC->prev_state & (2048-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "X" }, { 32, "Z" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 2048 ? "+" : "", REC->next_comm"#;

    #[test]
    fn linux_6_states() {
        let decoder = StateDecoder::parse(LINUX_6);
        assert!(decoder.is_from_file());
        use TaskState::*;
        for (value, state) in [
            (0, Running),
            (1, Interruptible),
            (2, Uninterruptible),
            (4, Stopped),
            (8, Traced),
            (0x10, Dead),
            (0x20, Zombie),
            (0x40, Parked),
            (0x80, Idle),
            (0x100, RunningPreempted),
            (0x200, Unknown),
            (1 << 40, Unknown),
            (-1, Dead), // every bit: the worst that is named
        ] {
            assert_eq!(decoder.decode(value), state, "{value:#x}");
        }
    }

    #[test]
    fn linux_4_9_gives_the_same_bits_other_meanings() {
        let decoder = StateDecoder::parse(LINUX_4_9);
        assert!(decoder.is_from_file());
        use TaskState::*;
        for (value, state) in [
            (0, Running),
            (0x100, Unknown), // waking: never seen at a switch
            (2048, RunningPreempted),
            (2 | 1024, Idle),
            (2 | 128, Uninterruptible),
            (4 | 128, Stopped),
            (512, Parked),
            (64, Dead),
        ] {
            assert_eq!(decoder.decode(value), state, "{value:#x}");
        }
    }

    #[test]
    fn what_cannot_be_understood_falls_back_and_says_so() {
        for text in [
            "",
            "__print_flags(REC->prev_state & (",
            &format!("__print_flags(prev_state & {}", "(".repeat(9999)),
        ] {
            let decoder = StateDecoder::parse(text);
            assert!(!decoder.is_from_file());
            assert_eq!(decoder.decode(0x100), TaskState::RunningPreempted);
            assert_eq!(decoder.decode(1), TaskState::Interruptible);
        }
    }

    #[test]
    fn constants_follow_c() {
        for (text, value) in [
            ("1 | 2 + 3 << 1", Some(11)),
            ("~0 & 0xffUL", Some(255)),
            ("(2048-1)", Some(2047)),
            ("1 +", None),
            ("1 << 99", None),
        ] {
            assert_eq!(evaluate(text), value, "{text}");
        }
    }
}
