//! `race FILE.c --into-kernel NAME`: a structure behind the hooks in place of cpudeadline.c.

use super::{RaceArgs, fault, kernel};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use schedlab_lab::kernels;
use schedlab_linux::BuildOptions;
use schedlab_linux::build::{self, Named, Origin};
use schedlab_race::into_kernel::{Placed, into_copy, into_tree};
use schedlab_race::study;
use serde_json::json;
use std::path::Path;

pub(super) fn into_kernel(target: &str, name: &str, args: &RaceArgs, ui: &Ui) -> Result<()> {
    if !study::is_file(target) || !target.ends_with(".c") {
        return Err(Failure::Input(format!(
            "{target}: --into-kernel takes a C file with the hooks of schedlab_race.h (docs/race.md)"
        )));
    }
    let path = Path::new(target);
    let placed = match &args.tree {
        Some(tree) => into_tree(path, &args.define, tree).map_err(fault)?,
        None => {
            let kernel = kernel(args.kernel(), ui)?;
            into_copy(path, &args.define, &kernel, name).map_err(fault)?
        }
    };
    let named = Named {
        name: name.to_owned(),
        origin: Origin::Tree,
        ..Named::tree(&placed.tree).map_err(Failure::input)?
    };
    build::add_named(&named).map_err(Failure::input)?;
    let kernel = kernels::obtain(name, &BuildOptions::default(), ui).map_err(Failure::input)?;
    let files: Vec<_> = placed
        .files
        .iter()
        .map(|(file, sum, lines)| json!({"file": file, "sha256": sum, "lines": lines, "changed": 0}))
        .collect();
    let value = json!({
        "schema": 1, "target": target, "name": name, "kernel_version": kernel.version, "tree": placed.tree,
        "files": files,
    });
    if !output::json_value(args.json.as_deref(), &value)? {
        print!("{}", text(target, name, &kernel.version, &placed));
    }
    Ok(())
}

fn text(target: &str, name: &str, version: &str, placed: &Placed) -> String {
    let mut text = format!(
        "{target} is kernel/sched/cpudeadline.c of linux-{name} (Linux {version})\n\n\
         file                      lines  changed  sha256, here and there\n"
    );
    for (file, sum, lines) in &placed.files {
        text.push_str(&format!("{file:<24}  {lines:>5}  {:>7}  {}\n", 0, &sum[..16]));
    }
    text.push_str(&format!(
        "\nthe tree   {}\nrun it     schedlab run WORKLOAD --sched linux-{name}\n",
        placed.tree.display()
    ));
    text
}
