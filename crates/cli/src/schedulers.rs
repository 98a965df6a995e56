//! `schedlab schedulers`: what `--sched` takes.

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_policies::registry;
use schedlab_runner::Scheduler;
use schedlab_topology::Topology;
use serde_json::json;

pub(crate) fn schedulers(name: Option<&str>, as_json: bool, ui: &Ui) -> Result<()> {
    let native: Vec<_> = registry().iter().filter(|info| name.is_none_or(|name| name == info.name)).collect();
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
    // of a single kernel that is built, what can be set
    let tunables = match (name, &linux[..]) {
        (Some(name), [one]) if one.built => {
            match resolve(name, 250, &Topology::flat(1).map_err(Failure::input)?, ui)? {
                Scheduler::Linux(object) => crate::tunables::ask(&object)?,
                Scheduler::Native(_) => Vec::new(),
            }
        }
        _ => Vec::new(),
    };
    if as_json {
        let params: Vec<_> = tunables.iter().map(|t| json!({"name": t.name, "default": t.value})).collect();
        let linux = linux
            .iter()
            .map(|l| json!({"name": l.name, "kind": "linux", "summary": l.summary, "built": l.built, "params": params}));
        let native = native.iter().map(|info| {
            let params = info.params.iter();
            let params = params.map(|p| json!({"name": p.name, "default": p.default, "help": p.help}));
            json!({"name": info.name, "kind": "native", "summary": info.summary, "source": info.source,
                   "params": params.collect::<Vec<_>>()})
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
    if !tunables.is_empty() {
        crate::tunables::print(&tunables);
    }
    if !native.is_empty() {
        println!("{}Native", if linux.is_empty() { "" } else { "\n" });
        for info in native {
            println!("  {:<14} {}", info.name, info.summary);
            println!("  {:<14} source: {}", "", info.source);
            for param in info.params {
                println!("  {:<14} --param {}={}: {}", "", param.name, param.default, param.help);
            }
        }
    }
    Ok(())
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
