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

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::RaceError;

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
    /// As a target.
    pub source: String,
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

/// `1:r0=1 /\ x=2` as C, with the registers that it names: (process, register).
fn condition(text: &str) -> (String, Vec<(usize, String)>) {
    let mut registers: Vec<(usize, String)> = Vec::new();
    let mut c = String::new();
    for token in text
        .replace("/\\", " && ")
        .replace("\\/", " || ")
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('~', " ! ")
        .split_whitespace()
    {
        let Some((left, right)) = token.split_once('=') else {
            c.push_str(token);
            continue;
        };
        let value = |word: &str| match word.trim_start_matches('&') {
            number if number.parse::<i64>().is_ok() => number.to_owned(),
            name => format!("(long)&v_{name}"),
        };
        let what = match left.split_once(':') {
            Some((process, register)) => {
                let key = (process.parse().unwrap_or(0), register.to_owned());
                let at = registers.iter().position(|r| *r == key).unwrap_or_else(|| {
                    registers.push(key);
                    registers.len() - 1
                });
                format!("out[{at}]")
            }
            None => format!("(long)v_{}", left.trim_matches(['[', ']'])),
        };
        let _ = write!(c, "{what} == {}", value(right));
    }
    (c, registers)
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
        let (test, registers) = condition(&rest[at + "exists".len()..]);
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
        let mut source = format!("{MACROS}static long out[{}] RACE_PRIVATE;\n", registers.len().max(1));
        for (name, kind) in &types {
            let _ = writeln!(source, "static {kind} v_{name};");
        }
        source.push_str("static int init(int cpus)\n{\n");
        for (name, value) in &values {
            let value =
                if value.parse::<i64>().is_ok() { value.clone() } else { format!("(void *)&v_{value}") };
            let _ = writeln!(source, "\tv_{name} = {value};");
        }
        source.push_str("\treturn 0;\n}\n");
        let names: BTreeSet<&String> = types.keys().collect();
        for (n, process) in processes.iter().enumerate() {
            let _ = writeln!(source, "static long P{n}(int cpu, const long *args_, int nr_args_)\n{{");
            for (kind, name) in process.params.iter().filter(|(_, name)| names.contains(name)) {
                let _ = writeln!(source, "\t{kind} {name} = &v_{name};");
            }
            source.push_str(&process.body);
            for (at, (_, register)) in registers.iter().enumerate().filter(|(_, (p, _))| *p == n) {
                let _ = writeln!(source, "\tout[{at}] = (long){register};");
            }
            source.push_str("\treturn 0;\n}\n");
        }
        let _ = writeln!(source, "static void rest(void)\n{{\n\tif ({test})\n\t\trace_fail(\"{SEEN}\");\n}}");
        source.push_str("static const struct race_op ops[] = {\n");
        let mut scenario = format!("cpus {}\\n", processes.len());
        for n in 0..processes.len() {
            let _ = writeln!(source, "\t{{ \"P{n}\", P{n}, \"\", 0 }},");
            let _ = write!(scenario, "cpu{n} P{n}\\n");
        }
        let _ = writeln!(
            source,
            "\t{{ NULL }},\n}};\nRACE_TARGET(.name = \"litmus\", .init = init, .rest = rest, .ops = ops,\n\t    \
             .scenario = \"{scenario}\");"
        );
        Ok(Litmus { name: name.trim().to_owned(), verdict: verdict.to_owned(), source })
    }
}
