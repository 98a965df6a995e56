//! How does a finding become a litmus test of the kernel's? What each CPU did, in its order, is the test; what the
//! loads saw is its last line.
//!
//! ```text
//! cpu0  store count[1] = 1               P0: WRITE_ONCE(*v0, 1);
//! cpu1  load count[1] = 1                P1: r0 = READ_ONCE(*v0);        exists (1:r0=1)
//! ```
//!
//! Only what two CPUs look at, and one writes, is in it. Branches that were not taken are not, nor what a store or an
//! address depends on: herd7 is asked with all loads before later stores of their CPU, which is more than any
//! dependency asks for. A plain access is a marked one, since the compiled code has made it as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::abi;
use crate::story::{Event, Happened, Story};

/// herd7 looks at all orders of so many.
const ACCESSES_MAX: usize = 40;

/// A variable of the test.
#[derive(Clone, Debug)]
struct Variable {
    size: u32,
    initial: Option<u64>,
    by: BTreeSet<u8>,
    is_written: bool,
    is_lock: bool,
}

struct Export<'a> {
    story: &'a Story,
    variables: BTreeMap<usize, Variable>,
    /// The variables that are in the test, by their places.
    names: BTreeMap<usize, String>,
    /// Values that are addresses, and other large ones, have numbers.
    large: BTreeMap<u64, i64>,
}

impl Export<'_> {
    fn note(&mut self, event: &Event) -> Result<(), String> {
        let (address, size, value, is_written, is_lock) = match &event.happened {
            Happened::Access { address, size, is_write, value, .. } => {
                (*address, *size, *value, *is_write, false)
            }
            Happened::Atomic { address, size, old, .. } => (*address, *size, *old, true, false),
            Happened::Lock { address } | Happened::Unlock { address } => (*address, 4, 0, true, true),
            Happened::Sleep { .. } => return Err("a CPU sleeps in it".into()),
            _ => return Ok(()),
        };
        let overlaps = |(at, v): &(&usize, &Variable)| {
            **at < address + size as usize
                && address < **at + v.size as usize
                && (**at, v.size) != (address, size)
        };
        if let Some((at, _)) = self.variables.iter().find(overlaps) {
            return Err(format!("{} is accessed in several sizes", self.story.name(*at)));
        }
        let variable = self.variables.entry(address).or_insert(Variable {
            size,
            initial: None,
            by: BTreeSet::new(),
            is_written: false,
            is_lock,
        });
        variable.initial.get_or_insert(value);
        variable.by.insert(event.cpu);
        variable.is_written |= is_written;
        variable.is_lock |= is_lock;
        Ok(())
    }

    /// A value as herd7 takes it.
    fn number(&mut self, value: u64, size: u32) -> i64 {
        let signed = match size {
            1 => i64::from(value as u8 as i8),
            2 => i64::from(value as u16 as i16),
            4 => i64::from(value as u32 as i32),
            _ => value as i64,
        };
        if i32::try_from(signed).is_ok() {
            return signed;
        }
        let next = 1_000_000 + self.large.len() as i64;
        *self.large.entry(value).or_insert(next)
    }
}

/// A CPU's part of the test.
#[derive(Default)]
struct Process {
    lines: Vec<String>,
    registers: usize,
    /// The load at the end of `lines` that an acquire may belong to.
    load: Option<(String, String)>,
    /// The next store is a release.
    is_release: bool,
    /// Registers and what they saw.
    seen: Vec<(String, i64)>,
}

impl Process {
    fn register(&mut self, value: i64) -> String {
        let name = format!("r{}", self.registers);
        self.registers += 1;
        self.seen.push((name.clone(), value));
        name
    }

    fn barrier(&mut self, kind: u32) {
        match kind {
            abi::ACQUIRE => match self.load.take() {
                Some((register, name)) => {
                    self.lines.pop();
                    self.lines.push(format!("{register} = smp_load_acquire({name});"));
                }
                None => self.lines.push("smp_rmb();".into()),
            },
            abi::RELEASE => self.is_release = true,
            abi::MB => self.lines.push("smp_mb();".into()),
            abi::RMB => self.lines.push("smp_rmb();".into()),
            abi::WMB => self.lines.push("smp_wmb();".into()),
            _ => {}
        }
    }
}

/// What an atomic operation is called, by its order.
fn ordered(base: &str, order: u32) -> String {
    let end = match order {
        abi::ORDER_ACQ => "_acquire",
        abi::ORDER_REL => "_release",
        abi::ORDER_FULL => "",
        _ => "_relaxed",
    };
    format!("{base}{end}")
}

fn tell(export: &mut Export<'_>, process: &mut Process, event: &Event) {
    match &event.happened {
        Happened::Barrier { kind } => return process.barrier(*kind),
        Happened::Access { address, size, is_write, value, new, .. } => {
            let Some(name) = export.names.get(address).cloned() else { return };
            if *is_write {
                let value = export.number(new.unwrap_or(*value), *size);
                process.lines.push(match std::mem::take(&mut process.is_release) {
                    true => format!("smp_store_release({name}, {value});"),
                    false => format!("WRITE_ONCE(*{name}, {value});"),
                });
            } else {
                let value = export.number(*value, *size);
                let register = process.register(value);
                process.lines.push(format!("{register} = READ_ONCE(*{name});"));
                process.load = Some((register, name));
                return;
            }
        }
        Happened::Atomic { address, size, old, new, how } => {
            let Some(name) = export.names.get(address).cloned() else { return };
            let (was, now) = (export.number(*old, *size), export.number(*new, *size));
            match how.op {
                4 if how.has_result => {
                    let register = process.register(was);
                    process
                        .lines
                        .push(format!("{register} = {}({name}, {now});", ordered("xchg", how.order)));
                }
                4 => process.lines.push(format!("WRITE_ONCE(*{name}, {now});")),
                5 => {
                    let register = process.register(was);
                    let (expected, value) =
                        (export.number(how.expected, *size), export.number(how.argument, *size));
                    let call = ordered("cmpxchg", how.order);
                    process.lines.push(format!("{register} = {call}({name}, {expected}, {value});"));
                }
                // bits that are set or cleared: the same change, as a sum
                _ if how.has_result => {
                    let register = process.register(was);
                    let call = ordered("atomic_fetch_add", how.order);
                    process.lines.push(format!("{register} = {call}({}, {name});", now - was));
                }
                _ => process.lines.push(format!("atomic_add({}, {name});", now - was)),
            }
        }
        Happened::Lock { address } | Happened::Unlock { address } => {
            let Some(name) = export.names.get(address) else { return };
            let verb =
                if matches!(event.happened, Happened::Lock { .. }) { "spin_lock" } else { "spin_unlock" };
            process.lines.push(format!("{verb}({name});"));
        }
        _ => return,
    }
    process.load = None;
}

/// The test in the kernel's form. Its comment says `Result: ?`, for herd7 to answer.
///
/// # Errors
/// Why it has no such shape.
pub fn litmus(story: &Story, name: &str) -> Result<String, String> {
    let mut export =
        Export { story, variables: BTreeMap::new(), names: BTreeMap::new(), large: BTreeMap::new() };
    for event in story.events() {
        export.note(event)?;
    }
    let shared = export.variables.iter().filter(|(_, v)| v.by.len() > 1 && v.is_written).map(|(at, _)| *at);
    let names: BTreeMap<usize, String> = shared.enumerate().map(|(n, at)| (at, format!("v{n}"))).collect();
    export.names = names.clone();
    let mut processes: Vec<Process> = (0..story.nr_cpus()).map(|_| Process::default()).collect();
    for event in story.events() {
        let Some(process) = processes.get_mut(usize::from(event.cpu)) else { continue };
        tell(&mut export, process, event);
    }
    processes.retain(|process| !process.lines.is_empty());
    let nr: usize = processes.iter().map(|p| p.lines.len()).sum();
    if names.is_empty() || processes.len() < 2 {
        return Err("no two CPUs meet at a variable that one of them writes".into());
    }
    if nr > ACCESSES_MAX {
        return Err(format!("it has {nr} accesses and barriers, and herd7 takes some {ACCESSES_MAX}"));
    }
    let title: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    let mut text = format!(
        "C {title}\n\n(*\n * Result: ?\n *\n * herd7; loads come before later stores of their CPU.\n"
    );
    let mut initial = String::new();
    for (at, name) in &names {
        let variable = export.variables[at].clone();
        let _ = writeln!(text, " * {name}: {}", story.name(*at));
        let value = export.number(variable.initial.unwrap_or(0), variable.size);
        if value != 0 && !variable.is_lock {
            let _ = writeln!(initial, "\t{name} = {value};");
        }
    }
    for (value, number) in &export.large {
        let _ = writeln!(text, " * {number} stands for {}", story.number(*value));
    }
    let _ = writeln!(text, " *)\n\n{{\n{initial}}}");
    let param = |(at, name): (&usize, &String)| match export.variables[at].is_lock {
        true => format!("spinlock_t *{name}"),
        false => format!("int *{name}"),
    };
    let params: Vec<String> = names.iter().map(param).collect();
    let mut condition = Vec::new();
    for (n, process) in processes.iter().enumerate() {
        let _ = writeln!(text, "\nP{n}({})\n{{", params.join(", "));
        (0..process.registers).for_each(|r| text.push_str(&format!("\tint r{r};\n")));
        process.lines.iter().for_each(|line| text.push_str(&format!("\t{line}\n")));
        text.push_str("}\n");
        condition.extend(process.seen.iter().map(|(register, value)| format!("{n}:{register}={value}")));
    }
    if condition.is_empty() {
        return Err("nobody loads what another CPU stores".into());
    }
    let _ = writeln!(text, "\nexists ({})", condition.join(" /\\ "));
    Ok(text)
}
