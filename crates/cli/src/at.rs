//! `run --at TIME:NAME=VALUE` and `run --show TIME:FILE`: what the experimenter does to the kernel while the
//! workload runs.
//!
//! ```text
//! --at 2s:cpu3=off --at 4s:cpu3=on             CPU hotplug
//! --at 1s:base_slice_ns=6000000                any tunable of --param
//! --at 1s:/sys/fs/cgroup/batch/cpu.weight=10   any file
//! --show 3s:/proc/schedstat                    print a file as it is then
//! ```

use clap::Args;
use schedlab_machine::kernel::{Action, FileRequest, Refusal};
use schedlab_units::Span;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AtArgs {
    /// While the workload runs: set a tunable or a file of the kernel, or a CPU (cpu3=off); may be given several times.
    #[arg(long, value_name = "TIME:NAME=VALUE", value_parser = parse_at)]
    pub at: Vec<Action>,
    /// Print one of the kernel's files as it is at this time, e.g. 3s:/proc/schedstat or 3s:sched/debug.
    #[arg(long, value_name = "TIME:FILE", value_parser = parse_show)]
    pub show: Vec<Action>,
}

impl AtArgs {
    /// Both, what was given first first.
    pub(crate) fn actions(&self) -> Vec<Action> {
        self.at.iter().chain(&self.show).cloned().collect()
    }
}

fn split(text: &str) -> Result<(Span, &str), String> {
    let (at, rest) =
        text.split_once(':').ok_or_else(|| format!("'{text}' has no TIME: in front, e.g. 2s:"))?;
    Ok((at.parse().map_err(|e| format!("'{at}' is not a time: {e}"))?, rest))
}

fn parse_at(text: &str) -> Result<Action, String> {
    let (at, rest) = split(text)?;
    match rest.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(Action { at, files: vec![FileRequest::set(name, value, Refusal::Ends)?] })
        }
        _ => Err(format!("'{rest}' is not NAME=VALUE")),
    }
}

fn parse_show(text: &str) -> Result<Action, String> {
    let (at, name) = split(text)?;
    if name.is_empty() {
        return Err("which file?".to_owned());
    }
    Ok(Action { at, files: vec![FileRequest::Read { name: name.to_owned() }] })
}

/// What was read, for a person.
pub(crate) fn print(readings: &[(u64, String, Result<String, i32>)]) {
    for (at_ns, name, result) in readings {
        println!("\n{name} at {}", Span::from_ns(*at_ns));
        match result {
            Ok(text) => text.lines().for_each(|line| println!("  {line}")),
            Err(errno) => {
                let hint = if name.starts_with("/proc/pressure") {
                    "; it is in the flavour psi: --sched linux-6.12+psi"
                } else {
                    ""
                };
                println!("  cannot be read: {}{hint}", std::io::Error::from_raw_os_error(*errno));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_machine::kernel::Hotplug;
    use schedlab_units::CpuId;

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(parse_at("cpu3=off").unwrap_err(), "'cpu3=off' has no TIME: in front, e.g. 2s:");
        assert_eq!(parse_at("2s:cpu3").unwrap_err(), "'cpu3' is not NAME=VALUE");
        assert!(parse_at("soon:cpu3=off").unwrap_err().starts_with("'soon' is not a time"));
        assert_eq!(parse_at("2s:cpu3=of").unwrap_err(), "'of' is no state of a CPU: cpu3=on or cpu3=off");
        assert_eq!(parse_show("2s:").unwrap_err(), "which file?");
        let hotplug = |to| FileRequest::Hotplug { cpu: CpuId(3), to, refusal: Refusal::Ends };
        assert_eq!(parse_at("2s:cpu3=off").unwrap().files, [hotplug(Hotplug::Off)]);
        assert_eq!(parse_at("2s:cpu3=1").unwrap().files, [hotplug(Hotplug::On)]);
        let action = parse_at("2s:/a/b=1:2=3").unwrap();
        assert_eq!(action.at, Span::from_s(2));
        let FileRequest::Write { name, value, .. } = &action.files[0] else { panic!("{action:?}") };
        assert_eq!((name.as_str(), value.as_str()), ("/a/b", "1:2=3"));
    }
}
