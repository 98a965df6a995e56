//! `schedlab schedulers`: what `--sched` takes.

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_policies::registry;
use schedlab_runner::Scheduler;
use schedlab_topology::Topology;
use serde_json::json;

pub(crate) fn schedulers(name: Option<&str>, as_json: bool) -> Result<()> {
    let native: Vec<_> = match name {
        Some(name) => schedlab_policies::find(name).into_iter().collect(),
        None => registry().iter().collect(),
    };
    let linux: Vec<_> = crate::linux::versions()
        .into_iter()
        .filter(|linux| name.is_none_or(|name| name == linux.name))
        .collect();
    if native.is_empty() && linux.is_empty() {
        let name = name.unwrap_or_default();
        return Err(Failure::Input(format!(
            "there is no scheduler '{name}'; 'schedlab schedulers' lists them"
        )));
    }
    if as_json {
        let linux = linux
            .iter()
            .map(|l| json!({"name": l.name, "kind": "linux", "summary": l.summary, "built": l.built}));
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
        for l in &linux {
            println!("  {:<14} {}{}", l.name, l.summary, if l.built { "" } else { "  (built on first use)" });
        }
    }
    if !native.is_empty() {
        println!("{}Native", if linux.is_empty() { "" } else { "\n" });
        for info in &native {
            match name {
                None => println!("  {:<14} {}{}", info.name, info.summary, if info.uncertain.is_empty() { "" } else { " [?]" }),
                Some(_) => print!("{}", in_full(info)),
            }
        }
    }
    if name.is_none() {
        println!("\n[?] something about it is not certain: 'schedlab schedulers NAME' says what, and shows source and parameters.");
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
    if let Some(asked) = crate::linux::parse(name)
        && asked.known()
    {
        return crate::linux::object(&asked, hz, topology, ui).map(Scheduler::Linux);
    }
    match schedlab_policies::find(name) {
        Some(info) => Ok(Scheduler::Native(info)),
        None => {
            Err(Failure::Input(format!("there is no scheduler '{name}'; 'schedlab schedulers' lists them")))
        }
    }
}
