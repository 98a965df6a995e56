//! Is it still the experiment that was asked for? If not, that is said first; with `--strict` it is bad input.
//!
//! ```text
//! $ schedlab run camera.txt --sched fifo --cpus 2
//! this is not the experiment that was asked for
//!           1  'camera' is bound to CPUs 4-5, which this machine lacks: it may run on any
//! ```
//!
//! What counts as a change: [`Workload::changed_experiment`], which is known before a run, and what the scheduler
//! refused ([`schedlab_lab::Finished::changed`]).

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use schedlab_report::CHANGED;
use schedlab_report::units::count;
use schedlab_workload::Workload;
use std::collections::BTreeMap;

/// For commands whose report says it: with `--strict` bad input, else nothing.
pub(crate) fn refuse(changed: &BTreeMap<String, u64>, ui: &Ui) -> Result<()> {
    let Some((first, times)) = changed.first_key_value().filter(|_| ui.is_strict()) else { return Ok(()) };
    let more = match changed.len() - 1 {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    Err(Failure::Input(format!(
        "{CHANGED}: {first} ({times} times){more}; correct the workload or the machine, or leave --strict out \
         to see all and the result"
    )))
}

/// For commands whose report has no place for it: on standard error, also with `--quiet`.
pub(crate) fn tell(name: &str, changed: &BTreeMap<String, u64>, ui: &Ui) -> Result<()> {
    refuse(changed, ui)?;
    if !changed.is_empty() {
        crate::print::stderr(&format!("{name}: {CHANGED}"));
    }
    for (what, times) in changed {
        crate::print::stderr(&format!("{:>9}  {what}", count(*times)));
    }
    Ok(())
}

/// The same of a workload on a machine of so many CPUs, before it is run; `None`: of the workload by itself.
pub(crate) fn tell_of(name: &str, workload: &Workload, nr_cpus: Option<u32>, ui: &Ui) -> Result<()> {
    tell(name, &workload.changed_experiment(nr_cpus.unwrap_or(u32::MAX)), ui)
}

/// For JSON: a list of what, and how many times.
pub(crate) fn json(changed: &BTreeMap<String, u64>) -> serde_json::Value {
    changed.iter().map(|(what, times)| serde_json::json!({"what": what, "times": times})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_names_what_changed() {
        let changed = BTreeMap::from([("a was refused".to_string(), 2), ("b was left out".to_string(), 1)]);
        let strict = Ui::new(true, true);
        assert!(refuse(&BTreeMap::new(), &strict).is_ok() && refuse(&changed, &Ui::new(true, false)).is_ok());
        let failure = refuse(&changed, &strict).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.sentence().contains("a was refused (2 times), and 1 more"), "{}", failure.sentence());
    }
}
