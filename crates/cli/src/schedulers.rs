//! `schedlab schedulers`: what `--sched` takes.

use crate::failure::{Failure, Result};
use crate::tunables::Tunable;
use crate::ui::Ui;
use schedlab_policies::registry;
use schedlab_runner::Scheduler;
use schedlab_topology::Topology;
use serde_json::json;

pub(crate) fn schedulers(name: Option<&str>, nr_cpus: u32, as_json: bool, ui: &Ui) -> Result<()> {
    if let Some((name, asked)) = name.and_then(|name| Some((name, crate::scx::parse(name)?))) {
        return crate::scx::show(name, &asked, as_json, ui);
    }
    if let Some(asked) = name
        && crate::linux::parse(asked).is_some_and(|asked| asked.known())
    {
        return linux_in_full(asked, nr_cpus, as_json, ui);
    }
    let native: Vec<_> = match name {
        Some(name) => schedlab_policies::find(name).into_iter().collect(),
        None => registry().iter().collect(),
    };
    let linux = if name.is_none() { crate::linux::versions() } else { Vec::new() };
    if native.is_empty() && linux.is_empty() {
        return Err(unknown(name.unwrap_or_default()));
    }
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
        println!("{}", serde_json::to_string_pretty(&all).expect("a list of strings is valid JSON"));
        return Ok(());
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
            "\n'schedlab schedulers NAME' shows source, parameters (--param) and what differs; [?]: and what is not certain. Of real Linux it\n\
             shows every tunable with its default, as the kernel itself has them."
        );
    }
    if name.is_none() {
        println!(
            "\nsched_ext, in BPF C, on the kernel's own ext.c ('schedlab schedulers scx:simple' lists a scheduler's options)"
        );
        println!("  {:<14} a file of yours", "scx:FILE.bpf.c");
        println!("  {:<14} of the kernel's tools/sched_ext: also qmap, central, flatcg", "scx:simple");
        println!("  {:<14} of a published crate, fetched by cargo: also bpfland, rusty", "scx:lavd");
    }
    Ok(())
}

/// All tunables of a kernel, with their defaults on so many CPUs, from the kernel itself; it is built if it is not there yet.
fn linux_in_full(name: &str, nr_cpus: u32, as_json: bool, ui: &Ui) -> Result<()> {
    const HZ: u32 = 250;
    let machine = Topology::flat(nr_cpus).map_err(Failure::input)?;
    let Scheduler::Linux(linux) = resolve(name, HZ, &machine, ui)? else {
        return Err(Failure::Internal(format!("internal error: '{name}' is no kernel")));
    };
    let tunables = crate::tunables::tunables(&linux, nr_cpus)?;
    if as_json {
        let param = |t: &Tunable| {
            let by_cpus: Vec<_> = t.by_cpus.iter().map(|(n, v)| json!({"cpus": n, "default": v})).collect();
            json!({"name": t.name, "default": t.default, "by_cpus": by_cpus, "help": t.help})
        };
        let params: Vec<_> = tunables.iter().map(param).collect();
        let all = json!([{"name": linux.name, "kind": "linux", "version": linux.version, "hz": linux.hz, "cpus": nr_cpus,
                          "params": params}]);
        println!("{}", serde_json::to_string_pretty(&all).expect("a list of strings is valid JSON"));
        return Ok(());
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

/// The scheduler of this name; real Linux is built if it is not there yet.
pub(crate) fn resolve(name: &str, hz: u32, topology: &Topology, ui: &Ui) -> Result<Scheduler> {
    resolve_with(name, &[], hz, topology, ui)
}

/// The same, with the sub-schedulers that parameters ask for.
pub(crate) fn resolve_with(
    name: &str,
    params: &[(String, String)],
    hz: u32,
    topology: &Topology,
    ui: &Ui,
) -> Result<Scheduler> {
    if let Some(asked) = crate::linux::parse(name)
        && asked.known()
    {
        return crate::linux::object(&asked, hz, topology, ui).map(Scheduler::Linux);
    }
    if let Some(asked) = crate::scx::parse(name) {
        return crate::scx::object(&asked, name, params, hz, topology, ui).map(Scheduler::Linux);
    }
    match schedlab_policies::find(name) {
        Some(info) => Ok(Scheduler::Native(info)),
        None => Err(unknown(name)),
    }
}

/// Nothing is called so.
fn unknown(name: &str) -> Failure {
    let mut sentence = format!("there is no scheduler '{name}'; ");
    if name.starts_with("linux-") {
        let known: Vec<String> = crate::linux::versions().into_iter().map(|linux| linux.name).collect();
        sentence.push_str(&format!(
            "of real Linux there are {}, and any tree of your own ('schedlab linux add --source DIR --name NAME'); ",
            known.join(", ")
        ));
    }
    sentence.push_str("'schedlab schedulers' lists them");
    Failure::Input(sentence)
}
