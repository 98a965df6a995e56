//! `run --profile`: which functions of the scheduler were called how often, and what they cost.
//!
//! ```text
//! calls   self       total      function
//! 74,623  1.2 M 12 %  9.8 M 93 %  __schedule
//! ```
//!
//! As WARP's figure 4, which gprof made: calls, self, total. The run is repeated under valgrind's callgrind,
//! which counts every call and every instruction: exact, and the same on every host. *Self* are the
//! instructions of a function; *total* adds, as gprof does, what it called: of each function that it calls,
//! the part of that function's total that its calls are of all calls (so switching stacks, where calls and
//! returns do not pair, does not disturb it). The boot, counted by itself, is subtracted.

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use clap::Args;
use schedlab_linux::symbols::Symbols;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ProfileArgs {
    /// Repeat the run under valgrind and print calls, own and total instructions of each function of the
    /// scheduler. Some 50 times slower: give a short --duration.
    #[arg(long)]
    pub profile: bool,
    /// With --profile: functions shown.
    #[arg(long, value_name = "N", default_value_t = 30, requires = "profile")]
    pub profile_rows: usize,
}

/// One function of the kernel object.
#[derive(Clone, Debug, Default, PartialEq)]
struct Function {
    /// The file that it begins in, e.g. `/.../kernel/sched/fair.c`; empty if unknown.
    file: String,
    calls: u64,
    own: u64,
    /// Calls to others, by name.
    calls_to: BTreeMap<String, u64>,
}

/// The environment variable that keeps the repeated run from profiling itself.
const INSIDE: &str = "SCHEDLAB_PROFILED";

pub(crate) fn profile(args: &ProfileArgs, ui: &Ui) -> Result<()> {
    if !args.profile || std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let args_given: Vec<OsString> = std::env::args_os().skip(1).filter(|a| a != "--quiet").collect();
    let step = ui.step("the same run under callgrind");
    let whole = Profile::of(args_given.clone())?;
    step.now("its boot alone under callgrind".to_owned());
    let profile = whole.without(&Profile::of_boot(args_given)?);
    drop(step);
    print!("\n{}", table(&profile.0, args.profile_rows));
    Ok(())
}

/// Functions of the kernel object in a run of this program, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile(BTreeMap<String, Function>);

impl Profile {
    /// Of `ARGS` of this program.
    pub(crate) fn of(args: Vec<OsString>) -> Result<Profile> {
        let functions = callgrind(&args)?;
        match functions.is_empty() {
            true => Err(Failure::Input("--profile looks into real Linux; take a --sched linux-...".into())),
            false => Ok(Profile(functions)),
        }
    }

    /// Of the same command, ended as soon as the workload is there.
    pub(crate) fn of_boot(args: Vec<OsString>) -> Result<Profile> {
        callgrind(&only_boot(args)).map(Profile)
    }

    /// Less what its boot did: both are counted exactly, and a boot is like another.
    pub(crate) fn without(mut self, boot: &Profile) -> Profile {
        for (name, boot) in &boot.0 {
            if let Some(f) = self.0.get_mut(name) {
                f.calls = f.calls.saturating_sub(boot.calls);
                f.own = f.own.saturating_sub(boot.own);
                for (to, count) in &boot.calls_to {
                    if let Some(n) = f.calls_to.get_mut(to) {
                        *n = n.saturating_sub(*count);
                    }
                }
            }
        }
        self.0.retain(|_, f| f.own > 0 || f.calls > 0);
        self
    }

    /// Calls of each of these functions, and the instructions of all of them together with what they call.
    pub(crate) fn calls(&self, names: &[&str]) -> Vec<(u64, f64)> {
        let total = totals(&self.0);
        let of = |name: &&str| {
            let calls = self.0.get(*name).map_or(0, |f| f.calls);
            (calls, if calls == 0 { 0.0 } else { total.get(*name).copied().unwrap_or(0.0) })
        };
        names.iter().map(of).collect()
    }
}

/// The same command, ended as soon as the workload is there.
fn only_boot(given: Vec<OsString>) -> Vec<OsString> {
    let mut args = Vec::new();
    let mut given = given.into_iter();
    while let Some(arg) = given.next() {
        if arg == "--duration" {
            drop(given.next());
        } else if !arg.to_string_lossy().starts_with("--duration=") {
            args.push(arg);
        }
    }
    args.extend(["--duration".into(), "1ns".into()]);
    args
}

/// Functions of the kernel object in a run of this program under callgrind; none if it executed no kernel object.
fn callgrind(args: &[OsString]) -> Result<BTreeMap<String, Function>> {
    let dir = crate::output::temporary_folder()?;
    let program = std::env::current_exe().map_err(Failure::input)?;
    let status = Command::new("valgrind")
        .args(["-q", "--tool=callgrind", "--trace-children=yes"]) // (the worker is started by exec)
        .arg(format!("--callgrind-out-file={}/%p", dir.path().display()))
        .arg(program)
        .arg("--quiet")
        .args(args)
        .env(INSIDE, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Err(error) => {
            return Err(Failure::Input(format!(
                "--profile needs valgrind ({error}); on Debian: apt-get install valgrind"
            )));
        }
        Ok(status) if !matches!(status.code(), Some(0 | 1)) => {
            return Err(Failure::Internal(format!(
                "internal error: the run under valgrind ended with {status}"
            )));
        }
        Ok(_) => {}
    }
    // one file for each process: the child is the one that executed the kernel object
    let mut best = (BTreeMap::new(), String::new());
    for entry in std::fs::read_dir(dir.path()).map_err(Failure::input)? {
        let text = std::fs::read(entry.map_err(Failure::input)?.path()).map_err(Failure::input)?;
        let profile = parse(&String::from_utf8_lossy(&text));
        if !profile.1.is_empty() && profile.0.len() > best.0.len() {
            best = profile;
        }
    }
    let (mut functions, object) = best;
    if !functions.is_empty() {
        locate(&mut functions, Path::new(&object)).map_err(Failure::input)?;
    }
    Ok(functions)
}

/// Where the functions are in the source, by the object's debugging information: callgrind does not tell of
/// all. What the object does not have is dropped.
fn locate(functions: &mut BTreeMap<String, Function>, object: &Path) -> io::Result<()> {
    let symbols = Symbols::read(object)?;
    let mut addresses = Vec::new();
    functions.retain(|name, _| {
        let address = symbols.address(name);
        addresses.extend(address.map(|address| format!("{address:#x}")));
        address.is_some()
    });
    let output = Command::new("addr2line").arg("-e").arg(object).args(&addresses).output()?;
    // a line for each address, in the order of the names
    for (function, line) in functions.values_mut().zip(String::from_utf8_lossy(&output.stdout).lines()) {
        if let Some((file, _)) = line.rsplit_once(':') {
            file.clone_into(&mut function.file);
        }
    }
    Ok(())
}

/// Functions of the kernel object by name, and that object, from callgrind's output. Names are compressed
/// there: `(7) name` defines, `(7)` refers.
fn parse(text: &str) -> (BTreeMap<String, Function>, String) {
    let mut names: [BTreeMap<String, String>; 2] = Default::default();
    let mut look = |table: usize, text: &str| -> String {
        let (id, name) = text.split_once(' ').unwrap_or((text, ""));
        if !name.is_empty() {
            // f'2 is f, called while f runs: stacks that are switched look like that
            let name = name.split_once('\'').map_or(name, |(name, _)| name);
            names[table].insert(id.to_owned(), name.to_owned());
        }
        names[table].get(id).cloned().unwrap_or_default()
    };
    const OBJECT: usize = 0;
    const FUNCTION: usize = 1;
    let mut functions: BTreeMap<String, Function> = BTreeMap::new();
    let (mut object, mut name, mut kernel) = (String::new(), String::new(), String::new());
    let mut called: Option<(String, String)> = None;
    let (mut called_object, mut called_name) = (String::new(), String::new());
    // of functions that the kernel has patched (static keys) callgrind knows the name only
    let is_kernel = |object: &str| object.ends_with("/linux.so") || object == "???";
    for line in text.lines() {
        let (key, value) = line.split_once('=').unwrap_or(("", line));
        match key {
            "ob" => object = look(OBJECT, value),
            "fn" => {
                name = look(FUNCTION, value);
                if object.ends_with("/linux.so") {
                    kernel.clone_from(&object);
                }
            }
            "cob" => called_object = look(OBJECT, value),
            "cfn" => called_name = look(FUNCTION, value),
            "calls" => {
                let count: u64 = value.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                let into = if called_object.is_empty() {
                    object.clone()
                } else {
                    std::mem::take(&mut called_object)
                };
                // going on with another stack looks like a call by what switched
                if is_kernel(&into) && !switches(&name) {
                    functions.entry(called_name.clone()).or_default().calls += count;
                    if is_kernel(&object) {
                        let to = functions.entry(name.clone()).or_default();
                        *to.calls_to.entry(called_name.clone()).or_default() += count;
                    }
                }
                called = Some((into, called_name.clone()));
            }
            // the cost line after `calls=` is the callee's, as callgrind saw it
            "" if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) => {
                let is_own = called.take().is_none();
                if is_own && is_kernel(&object) {
                    let cost = line.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
                    functions.entry(name.clone()).or_default().own += cost;
                }
            }
            _ => {}
        }
    }
    functions.retain(|_, f| f.own > 0 || f.calls > 0);
    (functions, kernel)
}

/// Own instructions and those of what it calls, in proportion to the calls, as gprof does it. Cycles settle
/// by repetition.
fn totals(functions: &BTreeMap<String, Function>) -> BTreeMap<&str, f64> {
    let mut total: BTreeMap<&str, f64> = functions.iter().map(|(n, f)| (n.as_str(), f.own as f64)).collect();
    let all: f64 = total.values().sum();
    for _ in 0..60 {
        let next: BTreeMap<&str, f64> = functions
            .iter()
            .map(|(name, f)| {
                let below: f64 = f
                    .calls_to
                    .iter()
                    .filter(|(to, _)| *to != name && !switches(to))
                    .map(|(to, count)| {
                        let calls = functions.get(to).map_or(0, |f| f.calls).max(1);
                        total.get(to.as_str()).copied().unwrap_or(0.0) * *count as f64 / calls as f64
                    })
                    .sum();
                (name.as_str(), (f.own as f64 + below).min(all))
            })
            .collect();
        if next == total {
            break;
        }
        total = next;
    }
    total
}

/// Where the kernel goes on with another stack: what comes after is not of this call.
fn switches(name: &str) -> bool {
    matches!(name, "__switch_to" | "warp_to_host" | "warp_leave" | "warp_switch_to" | "__switch_to_asm")
}

fn million(n: f64) -> String {
    if n >= 1e6 { format!("{:.2} M", n / 1e6) } else { format!("{:.1} k", n / 1e3) }
}

fn table(functions: &BTreeMap<String, Function>, rows: usize) -> String {
    let total = totals(functions);
    let all: u64 = functions.values().map(|f| f.own).sum();
    let of_sched = |f: &Function| f.file.contains("kernel/sched/");
    let sched: u64 = functions.values().filter(|f| of_sched(f)).map(|f| f.own).sum();
    let mut shown: Vec<(&String, &Function)> = functions.iter().filter(|(_, f)| of_sched(f)).collect();
    shown.sort_by_key(|(name, f)| (std::cmp::Reverse(f.own), (*name).clone()));
    let mut out = format!(
        "instructions in the kernel object, without its boot: {}, of them {} ({:.1} %) in kernel/sched\n\n",
        million(all as f64),
        million(sched as f64),
        100.0 * sched as f64 / all.max(1) as f64
    );
    out.push_str("     calls       self       %   self/call      total  total/call  function\n");
    for (name, f) in shown.iter().take(rows) {
        let calls = f.calls.max(1) as f64;
        let whole = total.get(name.as_str()).copied().unwrap_or(0.0);
        let place = f.file.rsplit("kernel/sched/").next().unwrap_or_default();
        out.push_str(&format!(
            "{:>10} {:>10} {:>7.2} {:>11.0} {:>10} {:>11.0}  {name} ({place})\n",
            f.calls,
            million(f.own as f64),
            100.0 * f.own as f64 / sched.max(1) as f64,
            f.own as f64 / calls,
            million(whole),
            whole / calls,
        ));
    }
    if shown.len() > rows {
        out.push_str(&format!(
            "and {} more functions of kernel/sched (--profile-rows)\n",
            shown.len() - rows
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// a (10 of its own) calls b twice and c once; b (6) calls c four times; c has 25: 5 for each call.
    /// `b` is entered again while it runs, by a switch of stacks.
    const OUTPUT: &str = "events: Ir\n\
        ob=(1) /cache/linux.so\nfl=(1) ../src/kernel/sched/core.c\nfn=(1) a\n10 10\n\
        cfn=(2) b\ncalls=1 20\n11 20\ncfn=(5) b'2\ncalls=1 20\n11 6\ncfn=(3) c\ncalls=1 30\n12 5\n\
        fn=(2)\n20 2\nob=(3) ???\nfn=(5)\n+1 4\ncfn=(3)\ncalls=4 30\n21 20\n\
        ob=(1)\nfl=(2) ../src/lib/x.c\nfn=(3)\n30 25\n\
        ob=(2) /usr/bin/schedlab\nfn=(4) main\n1 1000\ncob=(1)\ncfn=(1)\ncalls=3 10\n2 61\n";

    #[test]
    fn calls_own_and_total_are_counted() {
        let (mut functions, object) = parse(OUTPUT);
        assert_eq!(object, "/cache/linux.so", "not that of what was patched");
        assert_eq!(functions.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        let of = |name: &str| (functions[name].calls, functions[name].own);
        assert_eq!((of("a"), of("b"), of("c")), ((3, 10), (2, 6), (5, 25)));
        for (name, file) in [("a", "core.c"), ("b", "fair.c")] {
            functions.get_mut(name).unwrap().file = format!("/src/kernel/sched/{file}");
        }
        let total = totals(&functions);
        // c 25; b 6 + 4 of 5 of c's 25; a 10 + all of b + 1 of 5 of c's
        assert_eq!((total["c"], total["b"], total["a"]), (25.0, 26.0, 41.0));
        let text = table(&functions, 1);
        // of kernel/sched's own 16 instructions a has 10; its 41 in all are 14 a call
        assert!(
            text.contains("62.50") && text.contains("14  a (core.c)") && text.contains("and 1 more"),
            "{text}"
        );
    }
}
