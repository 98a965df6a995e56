//! `--sched scx:WHAT`: a sched_ext scheduler in BPF C, natively on the kernel's own ext.c.
//!
//! ```text
//! scx:PATH.bpf.c          the file, on Linux 6.12
//! scx:simple              scx_simple.bpf.c of the kernel's own tools/sched_ext
//! scx:lavd                scx_lavd of its published crate, in the version that this kernel was tried with
//! scx:lavd-1.0.6          the same, in this version
//! scx:simple@7.2          the same of 7.2, on 7.2; also the name of a tree of yours
//! ```
//!
//! `--param sub@/GROUP=WHAT` attaches a sub-scheduler to a control group: WHAT as above.

use crate::failure::{Failure, Result};
use crate::linux::Asked;
use crate::ui::Ui;
use schedlab_linux::BuiltKernel;
use schedlab_linux::scx::{self, Published};
use schedlab_runner::LinuxObject;
use schedlab_topology::Topology;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The kernel that a scheduler runs on unless it says otherwise.
const KERNEL: &str = "6.12";
/// The flavour of kernel that has the class ext.
const FLAVOUR: &str = "scx";

/// What `scx:...` asks for.
pub(crate) struct AskedScx {
    /// A path, or a name.
    what: String,
    kernel: String,
}

/// `scx:WHAT` or `scx:WHAT@KERNEL`.
pub(crate) fn parse(sched: &str) -> Option<AskedScx> {
    let rest = sched.strip_prefix("scx:")?;
    let known = |kernel: &str| Asked::series(kernel).known();
    let (what, kernel) = match rest.rsplit_once('@') {
        // a path can have an @
        Some((what, kernel)) if !Path::new(rest).is_file() && (known(kernel) || !kernel.contains('/')) => {
            (what, kernel)
        }
        _ => (rest, KERNEL),
    };
    Some(AskedScx { what: what.to_owned(), kernel: kernel.to_owned() })
}

/// The kernel with the class, and the scheduler compiled for it.
pub(crate) fn object(
    asked: &AskedScx,
    name: &str,
    params: &[(String, String)],
    hz: u32,
    topology: &Topology,
    ui: &Ui,
) -> Result<LinuxObject> {
    let subs = params.iter().filter_map(|(param, what)| match scx::sub_of(param) {
        Some((scx::ATTACHED, group)) => {
            let sub = AskedScx { what: what.clone(), kernel: asked.kernel.clone() };
            Some((group.to_owned(), sub, format!("--param {param}={what}")))
        }
        _ => None,
    });
    let subs: Vec<(String, AskedScx, String)> = subs.collect();
    // a misspelt path should not cost a kernel build
    asked.check(&format!("--sched {name}"))?;
    subs.iter().try_for_each(|(_, sub, option)| sub.check(option))?;
    scx::check_tools().map_err(Failure::input)?;
    let kernel = crate::linux::built(&Asked::flavoured(&asked.kernel, FLAVOUR), hz, topology, ui)?;
    let compile = |asked: &AskedScx| {
        let source = source(asked, &kernel, ui)?;
        let step = ui.step(format!("compiling {} for Linux {}", source.display(), kernel.version));
        let compiled = scx::compile(&kernel, &source);
        drop(step);
        compiled.map_err(|e| Failure::Input(format!("{}: {e}", source.display())))
    };
    let mut compiled = compile(asked)?;
    let mut programs = compiled.source_sha256[..12].to_owned();
    for (group, sub, _) in subs {
        let sub = compile(&sub)?;
        programs.push_str(&format!("+{}@{group}", &sub.source_sha256[..12]));
        compiled.subs.insert(group, sub);
    }
    Ok(LinuxObject {
        name: name.to_owned(),
        version: format!("{programs} on {}", kernel.version),
        hz,
        nr_cpus: kernel.nr_cpus,
        object: kernel.object(),
        scx: Some(compiled),
    })
}

/// `schedlab schedulers scx:WHAT`: what `--param` can set.
pub(crate) fn show(name: &str, asked: &AskedScx, as_json: bool, ui: &Ui) -> Result<()> {
    let one: Topology = "1".parse().map_err(|e: schedlab_topology::TopologyError| Failure::input(e))?;
    let object = object(asked, name, &[], 250, &one, ui)?;
    let Some(compiled) = object.scx else { return Ok(()) };
    let settings = scx::settings_of(&compiled).map_err(Failure::Internal)?;
    let (options, variables): (Vec<_>, Vec<_>) = settings.iter().partition(|s| s.is_option);
    if as_json {
        let params = options
            .iter()
            .map(|s| json!({"name": s.name, "default": s.default.to_string(), "bytes": s.bytes}));
        let all = [
            json!({"name": name, "kind": "scx", "summary": object.version, "params": params.collect::<Vec<_>>()}),
        ];
        println!("{}", serde_json::to_string_pretty(&all).expect("a list of strings is valid JSON"));
        return Ok(());
    }
    println!("{name}: {}, on Linux {}", compiled.source.display(), asked.kernel);
    println!(
        "options (--param NAME=VALUE); some are replaced by what its user-space half would set, which each report states"
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

impl AskedScx {
    /// Whether a file that is asked for is there.
    fn check(&self, option: &str) -> Result<()> {
        if self.is_path() && !Path::new(&self.what).is_file() {
            return Err(Failure::Input(format!("{}: there is no such file ({option})", self.what)));
        }
        Ok(())
    }

    fn is_path(&self) -> bool {
        self.what.contains('/') || self.what.ends_with(".c")
    }
}

fn source(asked: &AskedScx, kernel: &BuiltKernel, ui: &Ui) -> Result<PathBuf> {
    if asked.is_path() {
        return Ok(PathBuf::from(&asked.what));
    }
    let name = asked.what.strip_prefix("scx_").unwrap_or(&asked.what);
    let file = kernel.source.join(format!("tools/sched_ext/scx_{name}.bpf.c"));
    if file.is_file() {
        return Ok(file);
    }
    let known = scx::of_kernel(kernel).join(", ");
    let why = match Published::parse(name, &asked.kernel) {
        None => String::new(),
        Some(published) => {
            if let Some(file) = published.find() {
                return Ok(file);
            }
            let step = ui.step(format!("fetching scx_{} {} by cargo", published.name, published.version));
            let fetched = published.fetch();
            drop(step);
            match fetched {
                Ok(file) => return Ok(file),
                Err(error) => format!("\n{error}"),
            }
        }
    };
    Err(Failure::Input(format!(
        "Linux {} has no scheduler '{name}' in tools/sched_ext (it has {known}), and it is no published crate scx_{name}; a file of your own: scx:PATH.bpf.c{why}",
        kernel.version
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_told_apart() {
        let parsed = |text| parse(text).map(|a| (a.is_path(), a.what, a.kernel));
        let of = |path: bool, what: &str, kernel: &str| Some((path, what.to_owned(), kernel.to_owned()));
        assert_eq!(parsed("scx:simple"), of(false, "simple", "6.12"));
        assert_eq!(parsed("scx:simple@7.2"), of(false, "simple", "7.2"));
        assert_eq!(parsed("scx:./a.bpf.c"), of(true, "./a.bpf.c", "6.12"));
        assert_eq!(parsed("scx:x@y/a.bpf.c"), of(true, "x@y/a.bpf.c", "6.12"));
        assert_eq!(parsed("linux-6.12"), None);
    }
}
