//! `race X.litmus --herd` and `race --replay F --litmus OUT`: what herd7 says.

use super::{RaceArgs, fault, kernel};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use schedlab_linux::build::herd::herd7;
use schedlab_race::explore::Explored;
use schedlab_race::litmus::herd::{Axioms, Herd, Verdict};
use schedlab_race::litmus::{Litmus, export};
use schedlab_race::story::Story;
use schedlab_stdx::limits::{SOURCE_BYTES_MAX, read_text};
use std::path::Path;

/// How long herd7 may take, s.
const SECONDS: u32 = 60;

/// herd7's verdict of a test, with the model of a kernel.
fn ask(text: &str, kernel_name: &str, axioms: Axioms, ui: &Ui) -> Result<(Verdict, String)> {
    let step = ui.step("asking herd7");
    let tool = herd7().map_err(|e| fault(e.into()))?;
    let kernel = kernel(kernel_name, ui)?;
    let herd = Herd::new(tool, &kernel.source).map_err(fault)?;
    let verdict = herd.ask(&[text], axioms, SECONDS).map_err(fault)?.remove(0);
    drop(step);
    Ok((verdict, format!("herd7 {} with the model of Linux {}", herd.version(), kernel.version)))
}

pub(super) fn herd(target: &str, args: &RaceArgs, ui: &Ui) -> Result<()> {
    if !target.ends_with(".litmus") {
        return Err(Failure::Input(format!(
            "--herd: {target} is no litmus test (.litmus); leave --herd out"
        )));
    }
    let text = read_text(Path::new(target), SOURCE_BYTES_MAX)
        .map_err(|e| Failure::Input(format!("{target}: {e}; give a litmus test of the kernel's")))?;
    let (verdict, who) = ask(&text, args.kernel(), Axioms::Kernel, ui)?;
    ui.say(format!("{who}: {}", verdict.observation));
    Ok(())
}

/// By order alone no store is late: says so if nothing was seen, and herd7's verdict is another one or not known.
pub(super) fn hint(target: &str, all: &[Explored], ui: &Ui) -> Result<()> {
    let text = read_text(Path::new(target), SOURCE_BYTES_MAX)
        .map_err(|e| Failure::Input(format!("{target}: {e}; give a litmus test of the kernel's")))?;
    let verdict = Litmus::parse(target, &text).map_err(fault)?.verdict;
    let is_seen = all.iter().any(|explored| !explored.findings.is_empty());
    if !is_seen && verdict != "Never" {
        let theirs = if verdict.is_empty() { "not in the file".to_owned() } else { format!("'{verdict}'") };
        ui.say(format!(
            "note: under --model sc no store is late, and herd7's verdict is {theirs}; --model lkmm explores them"
        ));
    }
    Ok(())
}

/// Writes a story as a litmus test, and says what herd7 says of it.
pub(super) fn write(story: &Story, name: &str, path: &Path, kernel_name: &str, ui: &Ui) -> Result<()> {
    let kernel_name = if kernel_name.is_empty() { "6.12" } else { kernel_name };
    let text = export::litmus(story, name).map_err(|why| {
        Failure::Input(format!("--litmus {}: this schedule has no such shape: {why}", path.display()))
    })?;
    output::text(path, &text)?;
    let asked = ask(&text, kernel_name, Axioms::NoLoadBuffering, ui);
    let (verdict, who) = asked.map_err(|e| match e {
        Failure::Input(why) => {
            Failure::Input(format!("{} is written, without a verdict: {why}", path.display()))
        }
        other => other,
    })?;
    let text =
        text.replacen("Result: ?", &format!("Result: {}", verdict.observation), 1).replacen("herd7", &who, 1);
    output::text(path, &text)?;
    ui.say(format!("{}: {who} says '{}'", path.display(), verdict.observation));
    Ok(())
}
