//! How does a litmus test of the kernel's become a target? By rewriting its few forms as C.
//!
//! ```text
//! P0(int *x, int *y) { WRITE_ONCE(*x, 1); smp_wmb(); WRITE_ONCE(*y, 1); }      CPU 0
//! P1(int *x, int *y) { r0 = READ_ONCE(*y); smp_rmb(); r1 = READ_ONCE(*x); }    CPU 1
//! exists (1:r0=1 /\ 1:r1=0)                                                    a finding, if some schedule ends so
//! ```
//!
//! The files are those of `tools/memory-model/litmus-tests`, whose first comment gives herd7's verdict: `Result:
//! Never`, `Sometimes`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::{RaceError, Scenario};

pub mod export;
pub mod generate;
pub mod herd;

/// What the kernel's macros are here.
const MACROS: &str = "#include <schedlab_race.h>
#include <stddef.h>
#define READ_ONCE(x) (*(volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#define smp_mb() race_barrier(RACE_MB)
#define smp_rmb() race_barrier(RACE_RMB)
#define smp_wmb() race_barrier(RACE_WMB)
#define smp_mb__before_atomic smp_mb
#define smp_mb__after_atomic smp_mb
#define smp_mb__after_spinlock smp_mb
#define smp_mb__after_unlock_lock smp_mb
#define smp_store_release(p, v) do { race_barrier(RACE_RELEASE); WRITE_ONCE(*(p), v); } while (0)
#define smp_load_acquire(p) ({ __typeof__(*(p)) v_ = READ_ONCE(*(p)); race_barrier(RACE_ACQUIRE); v_; })
#define rcu_assign_pointer(p, v) smp_store_release(&(p), v)
#define rcu_dereference(p) READ_ONCE(p)
#define rcu_read_lock() do { } while (0)
#define rcu_read_unlock() do { } while (0)
#define spin_lock(l) race_lock(l)
#define spin_unlock(l) race_unlock(l)
#define spin_is_locked(l) (READ_ONCE(*(l)) != 0)
#define rmw_(p, op, v, order, result) ((int)race_atomic(p, 4, op, (unsigned long)(v), 0, order, result))
#define xchg(p, v) rmw_(p, RACE_SWAP, v, RACE_FULL, 1)
#define xchg_relaxed(p, v) rmw_(p, RACE_SWAP, v, RACE_RELAXED, 1)
#define xchg_acquire(p, v) rmw_(p, RACE_SWAP, v, RACE_ACQ, 1)
#define xchg_release(p, v) rmw_(p, RACE_SWAP, v, RACE_REL, 1)
#define add_(p, v, order) rmw_(p, RACE_ADD, v, order, 1)
#define atomic_fetch_add(v, p) add_(p, v, RACE_FULL)
#define atomic_fetch_add_relaxed(v, p) add_(p, v, RACE_RELAXED)
#define atomic_fetch_add_acquire(v, p) add_(p, v, RACE_ACQ)
#define atomic_fetch_add_release(v, p) add_(p, v, RACE_REL)
#define atomic_add_return(v, p) (add_(p, v, RACE_FULL) + (v))
#define atomic_add_return_relaxed(v, p) (add_(p, v, RACE_RELAXED) + (v))
#define atomic_add_return_acquire(v, p) (add_(p, v, RACE_ACQ) + (v))
#define atomic_add_return_release(v, p) (add_(p, v, RACE_REL) + (v))
#define cas_(p, was, v, order) ((int)race_atomic(p, 4, RACE_SWAP_IF, (unsigned int)(v), (unsigned int)(was), order, 1))
#define cmpxchg(p, was, v) cas_(p, was, v, RACE_FULL)
#define cmpxchg_relaxed(p, was, v) cas_(p, was, v, RACE_RELAXED)
#define cmpxchg_acquire(p, was, v) cas_(p, was, v, RACE_ACQ)
#define cmpxchg_release(p, was, v) cas_(p, was, v, RACE_REL)
#define atomic_inc(p) ((void)rmw_(p, RACE_ADD, 1, RACE_RELAXED, 0))
#define atomic_dec(p) ((void)rmw_(p, RACE_ADD, -1, RACE_RELAXED, 0))
#define atomic_add(v, p) ((void)rmw_(p, RACE_ADD, v, RACE_RELAXED, 0))
typedef unsigned int spinlock_t;
typedef int atomic_t;
";

/// The finding when the condition holds at the end.
pub const SEEN: &str = "the outcome is seen";

/// A litmus test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Litmus {
    /// Its name.
    pub name: String,
    /// What its comment says that herd7 says: `Never`, `Sometimes`; empty: nothing.
    pub verdict: String,
    /// As a target: the outcome of its last line is a finding.
    pub source: String,
    /// What its last lines speak of, in their order: `0:r0`, `x`.
    pub observed: Vec<String>,
    processes: Vec<Process>,
    /// Of each variable.
    types: BTreeMap<String, String>,
    values: Vec<(String, String)>,
    condition: String,
}

/// Text without comments of both kinds.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("(*").into_iter().chain(rest.find("//")).min() {
        let is_line = rest[at..].starts_with("//");
        // "(*x)" is a dereference in C
        if !is_line && !rest[at + 2..].starts_with([' ', '\n', '\t']) {
            out.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let end = if is_line { "\n" } else { "*)" };
        rest = match rest[at..].find(end) {
            Some(length) if is_line => &rest[at + length..],
            Some(length) => &rest[at + length + 2..],
            None => "",
        };
    }
    out + rest
}

/// The index behind the bracket that closes the one at `open`.
fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text[open..].char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 {
            return Some(open + at + 1);
        }
    }
    None
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    params: Vec<(String, String)>,
    body: String,
}

/// `P0(int *x, int **p) { ... } P1(...) ...`
fn processes(text: &str) -> Option<Vec<Process>> {
    let mut all = Vec::new();
    let mut rest = text;
    loop {
        let Some(at) = rest.find(&format!("P{}(", all.len())) else { return Some(all) };
        let open = rest[at..].find('{')? + at;
        let header = &rest[at..open];
        let inside = &header[header.find('(')? + 1..header.rfind(')')?];
        let mut params = Vec::new();
        for param in inside.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let name: String =
                param.chars().rev().take_while(|c| is_word(*c)).collect::<String>().chars().rev().collect();
            params.push((param[..param.len() - name.len()].trim().to_owned(), name));
        }
        let end = closing(rest, open)?;
        all.push(Process { params, body: rest[open + 1..end - 1].to_owned() });
        rest = &rest[end..];
    }
}

/// `1:r0=1 /\ x=2` as C. Registers are places in `out`, variables have a prefix.
fn condition(text: &str, observed: &[String], prefix: &str) -> String {
    let mut c = String::new();
    for token in words(text) {
        let Some((left, right)) = token.split_once('=') else {
            c.push_str(&token);
            continue;
        };
        let value = |word: &str| match word.trim_start_matches('&') {
            number if number.parse::<i64>().is_ok() => number.to_owned(),
            name => format!("(long)&{prefix}{name}"),
        };
        let _ = write!(c, "{} == {}", term(left.trim_matches(['[', ']']), observed, prefix), value(right));
    }
    c
}

/// A register or variable at the end, in C.
fn term(name: &str, observed: &[String], prefix: &str) -> String {
    if !name.contains(':') {
        return format!("(long){prefix}{name}");
    }
    format!("{prefix}out[{}]", observed.iter().position(|o| o == name).unwrap_or(0))
}

/// The words of a condition, brackets and signs as C has them.
fn words(condition: &str) -> Vec<String> {
    let text = condition.replace("/\\", " && ").replace("\\/", " || ");
    let text = text.replace('(', " ( ").replace(')', " ) ").replace('~', " ! ");
    text.split_whitespace().map(str::to_owned).collect()
}

/// The registers and variables that a test's last lines name, each once.
fn observed(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        let name = name.trim().trim_matches(['[', ']']);
        if !name.is_empty() && !names.iter().any(|n| n == name) {
            names.push(name.to_owned());
        }
    };
    let (before, condition) = text.split_once("exists").unwrap_or((text, ""));
    words(condition).iter().filter_map(|word| word.split_once('=')).for_each(|(name, _)| add(name));
    if let Some((_, list)) = before.split_once("locations").and_then(|(_, list)| list.split_once('[')) {
        list.split(']').next().unwrap_or_default().split(';').for_each(&mut add);
    }
    names
}

impl Litmus {
    /// Reads a test.
    ///
    /// # Errors
    /// A form that is not known: the file and what was expected.
    pub fn parse(file: &str, text: &str) -> Result<Litmus, RaceError> {
        let bad = |expected: &str| RaceError::Text {
            file: file.to_owned(),
            line: 1,
            value: text.lines().next().unwrap_or("").to_owned(),
            expected: expected.to_owned(),
        };
        let verdict = text.split("Result:").nth(1).and_then(|t| t.split_whitespace().next()).unwrap_or("");
        let body = plain(text);
        let name = body
            .lines()
            .find_map(|l| l.strip_prefix("C "))
            .ok_or_else(|| bad("'C NAME', a litmus test in C"))?;
        let open = body.find('{').ok_or_else(|| bad("'{...}' with initial values"))?;
        let end = closing(&body, open).ok_or_else(|| bad("'}' behind the initial values"))?;
        let (initial, rest) = (&body[open + 1..end - 1], &body[end..]);
        let at = rest.find("exists").ok_or_else(|| bad("'exists (...)' at the end"))?;
        let processes =
            processes(&rest[..at]).filter(|p| !p.is_empty()).ok_or_else(|| bad("'P0(...) {...}'"))?;
        let mut types: BTreeMap<String, String> = BTreeMap::new();
        for (kind, name) in processes.iter().flat_map(|p| &p.params) {
            types.insert(name.clone(), kind.strip_suffix('*').unwrap_or(kind).trim().to_owned());
        }
        let mut values = Vec::new();
        for statement in initial.split(';').map(str::trim).filter(|s| !s.is_empty()) {
            let (left, right) =
                statement.split_once('=').map_or((statement, None), |(l, r)| (l.trim(), Some(r.trim())));
            let name = left.rsplit(|c: char| !is_word(c)).next().unwrap_or(left).to_owned();
            types.entry(name.clone()).or_insert_with(|| "int".into());
            if let Some(right) = right {
                let right = right.trim_start_matches('&').to_owned();
                if right.parse::<i64>().is_err() {
                    types.entry(right.clone()).or_insert_with(|| "int".into());
                }
                values.push((name, right));
            }
        }
        let last = last_process(&rest[..at]);
        let mut litmus = Litmus {
            name: name.trim().to_owned(),
            verdict: verdict.to_owned(),
            source: String::new(),
            observed: observed(&rest[last..]),
            processes,
            types,
            values,
            condition: rest[at + "exists".len()..].to_owned(),
        };
        litmus.source = litmus.alone();
        Ok(litmus)
    }

    /// herd7's outcome as [`outcome`] writes it. `None`: it has a value above 9, or lacks one.
    pub fn letters(&self, outcome: &BTreeMap<String, String>) -> Option<String> {
        let letter = |name: &String| {
            let value = outcome.get(name)?;
            match value.parse::<u32>() {
                Ok(digit) => char::from_digit(digit, 10),
                Err(_) => {
                    let place = self.types.keys().position(|variable| variable == value)?;
                    Some((b'a' + place as u8) as char)
                }
            }
        };
        self.observed.iter().map(letter).collect()
    }

    /// Variables and processes in C, with a prefix.
    fn body(&self, prefix: &str) -> String {
        let mut c = format!("static long {prefix}out[{}] RACE_PRIVATE;\n", self.observed.len().max(1));
        for (name, kind) in &self.types {
            let _ = writeln!(c, "static {kind} {prefix}{name};");
        }
        for (n, process) in self.processes.iter().enumerate() {
            let _ = writeln!(c, "static long {prefix}P{n}(int cpu, const long *args_, int nr_args_)\n{{");
            for (kind, name) in process.params.iter().filter(|(_, name)| self.types.contains_key(name)) {
                let _ = writeln!(c, "\t{kind} {name} = &{prefix}{name};");
            }
            c.push_str(&process.body);
            for (at, name) in self.observed.iter().enumerate() {
                let Some((_, register)) = name.split_once(':').filter(|(p, _)| p.parse() == Ok(n)) else {
                    continue;
                };
                let _ = writeln!(c, "\t{prefix}out[{at}] = (long){register};");
            }
            c.push_str("\treturn 0;\n}\n");
        }
        c
    }

    /// The initial values in C.
    fn initial(&self, prefix: &str) -> String {
        let mut c = String::new();
        for (name, value) in &self.values {
            let value = match value.parse::<i64>() {
                Ok(_) => value.clone(),
                Err(_) => format!("(void *)&{prefix}{value}"),
            };
            let _ = writeln!(c, "\t{prefix}{name} = {value};");
        }
        c
    }

    fn scenario(&self, prefix: &str, first: &str) -> String {
        let mut scenario = format!("cpus {}\n{first}", self.processes.len());
        for n in 0..self.processes.len() {
            let _ = writeln!(scenario, "cpu{n} {prefix}P{n}");
        }
        scenario
    }

    /// As a target of its own.
    fn alone(&self) -> String {
        let prefix = "v_";
        let test = condition(&self.condition, &self.observed, prefix);
        let mut c = format!("{MACROS}{}static int init(int cpus)\n{{\n", self.body(prefix));
        let _ = writeln!(c, "{}\treturn 0;\n}}", self.initial(prefix));
        let _ = writeln!(c, "static void rest(void)\n{{\n\tif ({test})\n\t\trace_fail(\"{SEEN}\");\n}}");
        c.push_str("static const struct race_op ops[] = {\n");
        for n in 0..self.processes.len() {
            let _ = writeln!(c, "\t{{ \"{prefix}P{n}\", {prefix}P{n}, \"\", 0 }},");
        }
        let scenario = self.scenario(prefix, "").replace('\n', "\\n");
        let _ = writeln!(
            c,
            "\t{{ NULL }},\n}};\nRACE_TARGET(.name = \"litmus\", .init = init, .rest = rest, .ops = ops,\n\t    \
             .scenario = \"{scenario}\");"
        );
        c
    }
}

/// Where the last process ends.
fn last_process(text: &str) -> usize {
    text.rfind('}').map_or(0, |at| at + 1)
}

/// Several tests as one target: it is compiled once. Each schedule ends with the finding [`outcome`] reads. The
/// scenario of each says which test it is.
pub fn together(tests: &[Litmus]) -> (String, Vec<Scenario>) {
    let mut c = format!("{MACROS}static long which RACE_PRIVATE;\n{PLACE}");
    let mut init = String::new();
    let mut rest = String::new();
    let mut ops = String::new();
    let mut scenarios = Vec::new();
    for (n, test) in tests.iter().enumerate() {
        let prefix = format!("t{n}_");
        c.push_str(&test.body(&prefix));
        init.push_str(&test.initial(&prefix));
        let places: Vec<String> = test.types.keys().map(|name| format!("&{prefix}{name}")).collect();
        let _ = writeln!(
            rest,
            "\tcase {n}: {{\n\t\tstatic const void *const places[] = {{ {} }};\n\t\trace_fail(\"outcome{}\"",
            places.join(", "),
            " %ld".repeat(test.observed.len())
        );
        for name in &test.observed {
            let _ = writeln!(
                rest,
                "\t\t\t, place({}, places, {})",
                term(name, &test.observed, &prefix),
                places.len()
            );
        }
        rest.push_str("\t\t);\n\t}\n");
        for p in 0..test.processes.len() {
            let _ = writeln!(ops, "\t{{ \"{prefix}P{p}\", {prefix}P{p}, \"\", 0 }},");
        }
        let text = test.scenario(&prefix, &format!("first test {n}\n"));
        scenarios.extend(Scenario::parse(&test.name, &text));
    }
    let _ = writeln!(c, "static int init(int cpus)\n{{\n{init}\treturn 0;\n}}");
    c.push_str("static long test(int cpu, const long *args, int nr_args) { which = args[0]; return 0; }\n");
    let _ = writeln!(c, "static void rest(void)\n{{\n\tswitch (which) {{\n{rest}\t}}\n}}");
    let _ = writeln!(
        c,
        "static const struct race_op ops[] = {{\n\t{{ \"test\", test, \"N\", 1 }},\n{ops}\t{{ NULL }},\n}};\n\
         RACE_TARGET(.name = \"litmus\", .init = init, .rest = rest, .ops = ops);"
    );
    (c, scenarios)
}

/// A pointer's value is the number of what it points to.
const PLACE: &str = "static long place(long value, const void *const *places, int nr)
{
	for (int n = 0; n < nr; n++)
		if (value == (long)places[n])
			return 1000 + n;
	return value;
}
";

/// The values that a finding of [`together`]'s tells, a letter each: digits, and `a`, `b`, ... for the test's
/// variables in the order of their names. `None`: another finding, or a value above 9.
pub fn outcome(text: &str) -> Option<String> {
    let letter = |value: &str| match value.parse::<i64>().ok()? {
        digit @ 0..=9 => char::from_digit(digit as u32, 10),
        place @ 1000..=1025 => Some((b'a' + (place - 1000) as u8) as char),
        _ => None,
    };
    text.strip_prefix("outcome")?.split_whitespace().map(letter).collect()
}
