//! `schedlab generate`: workloads made, not recorded.

use crate::failure::{Failure, Result};
use crate::parse::parse_param;
use crate::ui::Ui;
use clap::Args;
use schedlab_workload::generate::{KINDS, Spec};
use schedlab_workload::limits::read_toml;
use schedlab_workload::{Form, save};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// What to make, or a TOML file (NAME.toml) with kind and settings; without one the kinds are listed.
    #[arg(value_name = "KIND|FILE.toml")]
    pub kind: Option<String>,
    /// Take kind and settings from a TOML file.
    #[arg(long, value_name = "FILE", conflicts_with = "kind")]
    pub from: Option<PathBuf>,
    /// Nice values, where the kind has them: 0,0,5,-5.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub nice: Option<String>,
    /// A setting of the kind, NAME=VALUE; without -o all settings are printed.
    #[arg(long, value_name = "K=V", value_parser = parse_param)]
    pub set: Vec<(String, String)>,
    /// Print the settings with their meanings, as TOML to edit (also what happens without -o).
    #[arg(long)]
    pub print_spec: bool,
    /// Workload file to write: text, or binary if the name ends in .wlb.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

pub(crate) fn generate(args: &GenerateArgs, ui: &Ui) -> Result<()> {
    let file = args
        .from
        .clone()
        .or_else(|| args.kind.as_ref().filter(|kind| kind.ends_with(".toml")).map(Into::into));
    let (name, text) = match (&args.kind, file) {
        (_, Some(path)) => {
            let text = read_toml(&path);
            let mut text =
                text.map_err(|error| Failure::Input(format!("{}: cannot be read: {error}", path.display())))?;
            if !args.set.is_empty() || args.nice.is_some() {
                return Err(Failure::Input(format!(
                    "{}: --set and --nice go with a kind; edit the file instead",
                    path.display()
                )));
            }
            if !text.ends_with('\n') {
                text.push('\n');
            }
            (path.display().to_string(), text)
        }
        (Some(kind), None) => ("the command line".to_string(), as_toml(kind, args)),
        _ => {
            let kinds: Vec<String> =
                KINDS.iter().map(|(kind, what)| format!("  {kind:<14} {what}")).collect();
            return Err(Failure::Input(format!(
                "say what to make: schedlab generate KIND, or --from FILE.toml. Kinds:\n{}",
                kinds.join("\n")
            )));
        }
    };
    let spec = Spec::from_toml(&name, &text).map_err(Failure::input)?;
    if args.print_spec {
        print!("{}", spec.to_documented_toml());
    }
    let Some(output) = &args.output else {
        if args.print_spec {
            return Ok(());
        }
        print!("{}", spec.to_documented_toml());
        ui.say(
            "these are the settings; -o FILE writes the workload (text, or binary if the name ends in .wlb)",
        );
        return Ok(());
    };
    let workload = spec.build().map_err(Failure::input)?;
    save(output, &workload, Form::of_path(output)).map_err(Failure::input)?;
    ui.say(format!("{}: {} tasks, {} events", output.display(), workload.tasks.len(), workload.nr_events()));
    Ok(())
}

/// The options as the TOML that a file would hold. A value is taken as TOML if it is that, else as text (`5ms`).
fn as_toml(kind: &str, args: &GenerateArgs) -> String {
    let mut text = format!("kind = {}\n", quoted(kind));
    if let Some(nices) = &args.nice {
        text.push_str(&format!("nices = [{nices}]\n"));
    }
    for (name, value) in &args.set {
        let plain = value.parse::<f64>().is_ok()
            || matches!(&value[..], "true" | "false")
            || value.starts_with(['[', '{', '"']);
        text.push_str(&format!("{name} = {}\n", if plain { value.clone() } else { quoted(value) }));
    }
    text
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}
