//! `schedlab schedulers`: what `--sched` takes.

use crate::failure::{Failure, Result};
use crate::output;
use crate::tunables::Tunable;
use crate::ui::Ui;
use schedlab_lab::{SpecForm, SubjectSpec, kernels};
use schedlab_policies::{PolicyInfo, registry};
use schedlab_runner::{LinuxObject, Scheduler};
use schedlab_scx as scx;
use schedlab_topology::Topology;
use serde_json::json;

/// Ticks per second of a kernel whose tunables are shown.
const HZ: u32 = 250;

pub(crate) fn schedulers(name: Option<&SubjectSpec>, nr_cpus: u32, as_json: bool, ui: &Ui) -> Result<()> {
    let native: Vec<&PolicyInfo> = match name {
        None => registry().iter().collect(),
        Some(name) => {
            let subject = name.resolve(ui.setting(HZ, &Topology::flat(nr_cpus).map_err(Failure::input)?))?;
            match (&subject.scheduler, name.form()) {
                (Scheduler::Native(info), _) => vec![*info],
                (Scheduler::Linux(linux), SpecForm::Scx(asked)) => {
                    return scx_in_full(name.text(), &asked.kernel, linux, as_json);
                }
                (Scheduler::Linux(linux), _) => return linux_in_full(linux, nr_cpus, as_json, ui),
            }
        }
    };
    let linux = if name.is_none() { kernels::versions() } else { Vec::new() };
    if as_json {
        let linux = linux.iter().map(|linux| {
            json!({"name": linux.name, "kind": "linux", "summary": linux.summary, "built": linux.built,
                   "params": "schedlab schedulers NAME asks the kernel"})
        });
        let native = native.iter().map(|info| {
            let params = info.params.iter();
            let params = params.map(|p| json!({"name": p.name, "default": p.default, "help": p.help}));
            json!({"name": info.name, "kind": "native", "summary": info.summary, "source": info.source,
                   "differs": info.differs, "uncertain": info.uncertain, "params": params.collect::<Vec<_>>()})
        });
        let all: Vec<_> = linux.chain(native).collect();
        return output::print_json(&all);
    }
    if !linux.is_empty() {
        println!("Real Linux");
        for linux in &linux {
            println!(
                "  {:<14} {}{}",
                linux.name,
                linux.summary,
                if linux.built { "" } else { "  (built on first use)" }
            );
        }
        println!("\nNative");
    }
    for info in &native {
        match name {
            None => {
                let mark = if info.uncertain.is_empty() { "" } else { " [?]" };
                println!("  {:<14} {}{mark}", info.name, info.summary);
            }
            Some(_) => print!("{}", in_full(info)),
        }
    }
    if name.is_none() {
        println!(
            "\n'schedlab schedulers NAME' shows source, parameters (--param) and what differs; [?]: and what is not \
                certain. Of real Linux it\n\
             shows every tunable with its default, as the kernel itself has them."
        );
    }
    if name.is_none() {
        println!(
            "\nsched_ext, in BPF C, on the kernel's own ext.c ('schedlab schedulers scx:simple' lists a scheduler's \
                options)"
        );
        println!("  {:<14} a file of yours", "scx:FILE.bpf.c");
        println!("  {:<14} of the kernel's tools/sched_ext: also qmap, central, flatcg", "scx:simple");
        println!("  {:<14} of a published crate, fetched by cargo: also bpfland, rusty", "scx:lavd");
    }
    Ok(())
}

/// The kernel that most examples run, and what can be set in it on one CPU.
pub(crate) fn default_kernel(ui: &Ui) -> Result<(LinuxObject, Vec<Tunable>)> {
    let name: SubjectSpec = "linux-6.12".parse().map_err(Failure::input)?;
    let subject = name.resolve(ui.setting(HZ, &Topology::flat(1).map_err(Failure::input)?))?;
    let Scheduler::Linux(linux) = subject.scheduler else { unreachable!("the name is real Linux's") };
    let tunables = crate::tunables::tunables(&linux, 1, ui)?;
    Ok((linux, tunables))
}

/// All tunables of a kernel, with their defaults on so many CPUs, from the kernel itself.
fn linux_in_full(linux: &LinuxObject, nr_cpus: u32, as_json: bool, ui: &Ui) -> Result<()> {
    let tunables = crate::tunables::tunables(linux, nr_cpus, ui)?;
    if as_json {
        let param = |t: &Tunable| {
            let by_cpus: Vec<_> = t.by_cpus.iter().map(|(n, v)| json!({"cpus": n, "default": v})).collect();
            json!({"name": t.name, "default": t.default, "by_cpus": by_cpus, "help": t.help})
        };
        let params: Vec<_> = tunables.iter().map(param).collect();
        let all = json!([{"name": linux.name, "kind": "linux", "version": linux.version, "hz": linux.hz,
                          "cpus": nr_cpus, "params": params}]);
        return output::print_json(&all);
    }
    println!("  {:<11} Linux {}, unmodified", linux.name, linux.version);
    print!(
        "{}",
        wrapped(
            "uncertain",
            "nothing of the scheduler itself; what surrounds it: linux/NOTES.md, LIMITATIONS.md"
        )
    );
    let on = if nr_cpus == 1 { "one CPU (--cpus)".to_owned() } else { format!("{nr_cpus} CPUs") };
    println!(
        "  --param NAME=VALUE sets these, and VALUE is in force as it is; defaults on {on}, HZ={}:\n",
        linux.hz
    );
    let width = tunables.iter().map(|tunable| tunable.name.len()).max().unwrap_or(0);
    for tunable in &tunables {
        let value = if tunable.default.len() > 20 { "(below)" } else { &tunable.default };
        println!("{}", format!("  {:<width$}  {value:<10}  {}", tunable.name, tunable.help).trim_end());
        if !tunable.by_cpus.is_empty() {
            let step = |(n, value): &(u32, String)| match n {
                1 => format!("on one CPU {value}"),
                n => format!("from {n} on {value}"),
            };
            let steps: Vec<String> = tunable.by_cpus.iter().map(step).collect();
            println!("  {:<width$}  default {}", "", steps.join(", "));
        }
        if tunable.default.len() > 20 {
            for line in wrapped("", &tunable.default).lines() {
                println!("  {}", line);
            }
        }
    }
    Ok(())
}

/// `schedlab schedulers scx:WHAT`: what `--param` can set.
fn scx_in_full(name: &str, kernel: &str, object: &LinuxObject, as_json: bool) -> Result<()> {
    let Some(compiled) = &object.scx else { return Ok(()) };
    let settings = scx::settings_of(compiled).map_err(Failure::Internal)?;
    let (options, variables): (Vec<_>, Vec<_>) = settings.iter().partition(|s| s.is_option);
    if as_json {
        let params = options
            .iter()
            .map(|s| json!({"name": s.name, "default": s.default.to_string(), "bytes": s.bytes}));
        let all = [
            json!({"name": name, "kind": "scx", "summary": object.version, "params": params.collect::<Vec<_>>()}),
        ];
        return output::print_json(&all);
    }
    println!("{name}: {}, on Linux {kernel}", compiled.source.display());
    println!(
        "options (--param NAME=VALUE); some are replaced by what its user-space half would set, which each report \
            states"
    );
    for s in &options {
        println!("  {:<28} {}", s.name, s.default);
    }
    println!("  {:<28} members of struct sched_ext_ops, for instance ops.timeout_ms=2000", "ops.MEMBER");
    println!(
        "  {:<28} a sub-scheduler for a control group of the workload, and its option (Linux 7.1 and later)",
        "sub@/GROUP, NAME@/GROUP"
    );
    let names: Vec<&str> = variables.iter().map(|s| s.name.as_str()).collect();
    if !names.is_empty() {
        println!(
            "variables that it changes itself, and which can be given a first value\n  {}",
            names.join(" ")
        );
    }
    Ok(())
}

/// Everything that is known about a native scheduler.
fn in_full(info: &schedlab_policies::PolicyInfo) -> String {
    let or = |text: &'static str, none: &'static str| if text.is_empty() { none } else { text };
    let mut text = format!("  {:<11} {}\n", info.name, info.summary);
    for (what, said) in [
        ("source", info.source),
        ("differs", or(info.differs, "in nothing that is known")),
        ("uncertain", or(info.uncertain, "nothing known")),
    ] {
        text.push_str(&wrapped(what, said));
    }
    for param in info.params {
        text.push_str(&wrapped("parameter", &format!("{}={}: {}", param.name, param.default, param.help)));
    }
    text
}

/// A paragraph beside its heading, at most 100 columns wide.
fn wrapped(heading: &str, said: &str) -> String {
    const WIDTH: usize = 86;
    let mut lines: Vec<String> = vec![String::new()];
    for word in said.split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_string());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    let mut text = String::new();
    for (place, line) in lines.iter().enumerate() {
        text.push_str(&format!("  {:<11} {line}\n", if place == 0 { heading } else { "" }));
    }
    text
}
