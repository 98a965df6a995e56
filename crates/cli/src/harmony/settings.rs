//! In what are two subjects set differently? Said before any difference of what they do: only what remains when both
//! are set alike is the code's.
//!
//! ```text
//! tunable          linux-6.12     linux-7.2     set alike in b
//! base_slice_ns    2100000        2800000       2100000
//! latency_ns       18000000       -             -
//! ```

use crate::failure::Result;
use crate::tunables::tunables;
use crate::ui::Ui;
use schedlab_lab::Subject;
use schedlab_report::table::{Column, Table};
use schedlab_runner::{LinuxObject, Scheduler};
use serde_json::Value;
use std::collections::BTreeMap;

/// Options of a kernel's configuration with one of these words are the scheduler's.
const WORDS: [&str; 11] =
    ["SCHED", "PREEMPT", "HZ", "NUMA", "CGROUP", "UCLAMP", "PSI", "SMP", "SMT", "CPU_FREQ", "ENERGY"];
/// Sets nothing that balancing could depend on, or changes with the kernel's version alone.
const IDLE: [&str; 3] = ["verbose", "latency_warn_ms", "latency_warn_once"];

/// A setting: its name, both values, and what the second is set to when it is set as the first is.
type Row = (String, Option<String>, Option<String>, Option<String>);

/// What differs.
pub(super) struct Settings {
    rows: Vec<Row>,
    names: [String; 2],
    /// How many each has that the other's kind knows nothing of: a native policy has no kernel configuration.
    foreign: [usize; 2],
}

impl Settings {
    /// Asks both: their parameters, tunables and configurations.
    pub(super) fn of(subjects: [&Subject; 2], nr_cpus: u32, ui: &Ui) -> Result<Settings> {
        let [a, b] = [all(subjects[0], nr_cpus, ui)?, all(subjects[1], nr_cpus, ui)?];
        let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
        names.sort();
        names.dedup();
        let (mut rows, mut foreign) = (Vec::new(), [0, 0]);
        let is_native = |subject: &Subject| matches!(subject.scheduler, Scheduler::Native(_));
        let one_is_native = is_native(subjects[0]) != is_native(subjects[1]);
        for name in names {
            let (of_a, of_b) = (a.get(name), b.get(name));
            if of_a == of_b || IDLE.contains(&name.as_str()) {
                continue;
            }
            if one_is_native && of_a.is_some() != of_b.is_some() {
                foreign[usize::from(of_b.is_some())] += 1;
                continue;
            }
            let both = of_a.zip(of_b).filter(|_| !name.starts_with(CONFIG));
            // what was asked for stays: the two were given different values on purpose
            let is_given =
                subjects.iter().any(|subject| subject.params.iter().any(|(given, _)| given == name));
            let alike = both.filter(|_| !is_given).and_then(|(of_a, of_b)| alike(name, of_a, of_b));
            let shown = |value: Option<&String>| value.map(|value| differing(value, of_a, of_b));
            rows.push((name.clone(), shown(of_a), shown(of_b), alike));
        }
        Ok(Settings { rows, names: subjects.map(|subject| subject.label.clone()), foreign })
    }

    /// A table, if anything differs.
    pub(super) fn table(&self) -> Option<Table> {
        let columns = vec![
            Column::new("setting", "", "parameter, tunable, or option of the configuration"),
            Column::new("a", "", "first subject"),
            Column::new("b", "", "second subject"),
            Column::new("b set alike", "", "what b takes to be set as a is"),
        ];
        let [a, b] = &self.names;
        let title = format!("settings that differ, a = {a}, b = {b}");
        let mut table = Table::new("harmony-settings", title, columns);
        for (name, a, b, alike) in &self.rows {
            let cell = |value: &Option<String>| value.as_ref().map_or(Value::Null, |v| v.clone().into());
            table.push(vec![name.clone().into(), cell(a), cell(b), cell(alike)]);
        }
        (!self.rows.is_empty()).then_some(table)
    }

    /// For the terminal: the table with long lists cut, and what is not compared.
    pub(super) fn text(&self) -> String {
        let mut text = match self.table() {
            None => "no setting that both have differs\n".to_string(),
            Some(mut table) => {
                for cell in table.rows.iter_mut().flatten() {
                    if let Value::String(value) = cell {
                        *value = cut(value);
                    }
                }
                format!("{}\n\n{}", table.title, table.to_text())
            }
        };
        if self.foreign != [0, 0] {
            let [a, b] = self.foreign;
            text +=
                &format!("a native policy beside a kernel: {a} settings are a's alone, {b} are b's alone\n");
        }
        text
    }

    /// What b takes to be set as a is.
    pub(super) fn for_b(&self) -> Vec<(String, String)> {
        self.rows.iter().filter_map(|(name, _, _, alike)| Some((name.clone(), alike.clone()?))).collect()
    }
}

const CONFIG: &str = "CONFIG_";

/// All settings of a subject, with those that were given.
fn all(subject: &Subject, nr_cpus: u32, ui: &Ui) -> Result<BTreeMap<String, String>> {
    let mut found: BTreeMap<String, String> = match &subject.scheduler {
        Scheduler::Native(policy) => {
            policy.params.iter().map(|param| (param.name.to_string(), param.default.to_string())).collect()
        }
        Scheduler::Linux(linux) => {
            let tunables = tunables(linux, nr_cpus, ui)?;
            let mut found: BTreeMap<String, String> =
                tunables.into_iter().map(|tunable| (tunable.name, tunable.default)).collect();
            found.insert("HZ".to_string(), linux.hz.to_string());
            found.extend(config(linux));
            found
        }
    };
    found.extend(subject.params.iter().cloned());
    Ok(found)
}

/// The scheduler's options in the configuration that it was built with, where that lies beside it.
fn config(linux: &LinuxObject) -> BTreeMap<String, String> {
    let path = linux.object.with_file_name("build").join(".config");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let options = text.lines().filter_map(|line| line.strip_prefix(CONFIG)?.split_once('='));
    options
        .filter(|(name, _)| WORDS.iter().any(|word| name.contains(word)))
        .map(|(name, value)| (format!("{CONFIG}{name}"), value.to_string()))
        .collect()
}

/// The first words of a long list, and how many there are more.
fn cut(value: &str) -> String {
    const WIDTH: usize = 48;
    let words: Vec<&str> = value.split_whitespace().collect();
    let mut length = 0;
    let is_shown = |word: &&&str| {
        length += word.len() + 1;
        length <= WIDTH
    };
    let shown = words.iter().take_while(is_shown).count().max(1);
    match words.len().saturating_sub(shown) {
        0 => value.to_string(),
        more => format!("{} and {more} more", words[..shown].join(" ")),
    }
}

/// Of lists (features, models of preemption) the words that the other has not.
fn differing(value: &str, a: Option<&String>, b: Option<&String>) -> String {
    let (Some(a), Some(b)) = (a, b) else { return value.to_string() };
    let is_list = a.split_whitespace().count() > 1 || b.split_whitespace().count() > 1;
    if !is_list {
        return value.to_string();
    }
    let common: Vec<&str> =
        a.split_whitespace().filter(|word| b.split_whitespace().any(|w| w == *word)).collect();
    let own: Vec<&str> = value.split_whitespace().filter(|word| !common.contains(word)).collect();
    own.join(" ")
}

/// What the second takes to be set as the first is: nothing that it does not know.
fn alike(name: &str, a: &str, b: &str) -> Option<String> {
    let bare = |word: &str| word.trim_start_matches("NO_").trim_matches(['(', ')']).to_string();
    let words = |list: &str| list.split_whitespace().map(str::to_string).collect::<Vec<String>>();
    if name == "features" {
        let known = words(b);
        let differ = words(a)
            .into_iter()
            .filter(|word| !known.contains(word) && known.iter().any(|other| bare(other) == bare(word)));
        let set: Vec<String> = differ.collect();
        return (!set.is_empty()).then(|| set.join(","));
    }
    if a.contains('(') {
        // the model in force is in brackets
        let chosen = words(a).into_iter().find(|word| word.starts_with('(')).map(|word| bare(&word))?;
        let is_known = words(b).iter().any(|word| bare(word) == chosen);
        let in_force = words(b).iter().any(|word| *word == format!("({chosen})"));
        return (is_known && !in_force).then_some(chosen);
    }
    (!a.is_empty() && name != "HZ").then(|| a.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_know_is_set_alike() {
        let features = alike("features", "A NO_B C ONLY_A", "A B NO_C ONLY_B");
        assert_eq!(features.as_deref(), Some("NO_B,C"));
        assert_eq!(alike("preempt", "none (voluntary) full", "(full) lazy"), None);
        assert_eq!(alike("preempt", "none (full)", "none voluntary (lazy) full").as_deref(), Some("full"));
        assert_eq!(alike("base_slice_ns", "2100000", "2800000").as_deref(), Some("2100000"));
        assert_eq!(
            (cut("(full) lazy"), cut(&"ABCDEFG ".repeat(9))),
            ("(full) lazy".to_string(), format!("{}and 3 more", "ABCDEFG ".repeat(6)))
        );
        let (a, b) = ("A NO_B".to_string(), "A B".to_string());
        assert_eq!(differing(&a, Some(&a), Some(&b)), "NO_B");
    }
}
