//! Which wakeups shall depend on the task that caused them, and which come from outside at the recorded time?
//! The choice, and its being made anew.
//!
//! A recording shows who woke whom. Whether a replay honours that is a choice: a dependent wakeup comes when
//! its waker gets there, however the schedule has changed; an external one comes after the recorded time,
//! whatever its waker does. `docs/dependencies.md` measures what it does to replayed latencies.
//!
//! | choice | which wakeups depend on their wakers |
//! |---|---|
//! | `infer` | those that the evidence says tasks caused: the default of an import |
//! | `all` | these, and every softirq's that hit a task (more than is true: a packet for B that comes while A runs depends on A) |
//! | `none` | none: every task keeps its recorded sleeps |
//! | `tasks=LIST` | of the inferred ones, those between tasks of the list |
//!
//! An item of the list is a name, with `*` for any text: wakeups among all tasks so named stay dependent; or
//! `WAKER>SLEEPER`, which means this direction alone. `tasks=redis*` keeps a server with its client,
//! `tasks=make>cc1` only what make does to its compilers.

use crate::{EventKind, ExternalSource, Wakeup, Workload};
use std::fmt;
use std::str::FromStr;

/// Which dependencies to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Dependencies {
    /// What the evidence says.
    #[default]
    Infer,
    /// And every softirq's.
    All,
    /// None.
    None,
    /// Those between these tasks.
    Tasks(Vec<Between>),
}

/// Tasks between which dependencies are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Between {
    /// Name of the waker, `*` for any text.
    pub waker: String,
    /// Name of the sleeper; `None`: the wakeup stays if the sleeper matches any item that stands for both ends.
    pub sleeper: Option<String>,
}

/// A choice that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "dependencies \"{text}\": {problem}; expected infer, all, none, or tasks=NAME,WAKER>SLEEPER,... (* stands for any \
        text)"
)]
pub struct DependenciesError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// What [`Dependencies::apply`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Wakeups that depend on a task.
    pub dependent: u64,
    /// Wakeups that did and are external now.
    pub made_external: u64,
}

impl FromStr for Dependencies {
    type Err = DependenciesError;
    fn from_str(text: &str) -> Result<Dependencies, DependenciesError> {
        let fail = |problem| Err(DependenciesError { text: text.to_string(), problem });
        let list = match text {
            "infer" => return Ok(Dependencies::Infer),
            "all" => return Ok(Dependencies::All),
            "none" => return Ok(Dependencies::None),
            _ => match text.strip_prefix("tasks=") {
                Some(list) => list,
                None => return fail("no such choice"),
            },
        };
        let mut tasks = Vec::new();
        for item in list.split(',') {
            let between = match item.split_once('>') {
                Some((waker, sleeper)) => {
                    Between { waker: waker.to_string(), sleeper: Some(sleeper.to_string()) }
                }
                None => Between { waker: item.to_string(), sleeper: None },
            };
            if between.waker.is_empty() || between.sleeper.as_deref() == Some("") {
                return fail("a name is missing");
            }
            tasks.push(between);
        }
        Ok(Dependencies::Tasks(tasks))
    }
}

impl fmt::Display for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dependencies::Infer => f.write_str("infer"),
            Dependencies::All => f.write_str("all"),
            Dependencies::None => f.write_str("none"),
            Dependencies::Tasks(tasks) => {
                for (i, between) in tasks.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "tasks=" } else { "," }, between.waker)?;
                    if let Some(sleeper) = &between.sleeper {
                        write!(f, ">{sleeper}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl Dependencies {
    /// Whether a wakeup that depends on `waker` stays so.
    fn keeps(&self, waker: &str, sleeper: &str) -> bool {
        match self {
            Dependencies::Infer | Dependencies::All => true,
            Dependencies::None => false,
            Dependencies::Tasks(tasks) => {
                let named = |name: &str| {
                    tasks.iter().any(|item| item.sleeper.is_none() && matches(&item.waker, name))
                };
                let directed = |item: &Between| {
                    let Some(to) = &item.sleeper else { return false };
                    matches(&item.waker, waker) && matches(to, sleeper)
                };
                (named(waker) && named(sleeper)) || tasks.iter().any(directed)
            }
        }
    }

    /// Makes every dependent wakeup external that is not kept: it then comes after the time that it took in
    /// the recording. The choice and its effect are noted in the workload. ([`Dependencies::All`] keeps what
    /// is there; more dependencies only an import can give, by
    /// [`SoftIrqRule::Always`](crate::derive::SoftIrqRule::Always).)
    pub fn apply(&self, workload: &mut Workload) -> Chosen {
        let mut chosen = Chosen::default();
        let names: Vec<String> = workload.tasks.iter().map(|task| task.name.clone()).collect();
        for (row, task) in workload.tasks.iter_mut().enumerate() {
            for event in &mut task.events {
                let EventKind::Wakeup(wakeup) = &mut event.kind else { continue };
                let Wakeup::Dependent { recorded_after, task: waker, .. } = *wakeup else { continue };
                let keeps = names.get(waker.0 as usize).is_none_or(|waker| self.keeps(waker, &names[row]));
                if keeps {
                    chosen.dependent += 1;
                } else {
                    chosen.made_external += 1;
                    *wakeup = Wakeup::External { after: recorded_after, source: ExternalSource::Task };
                }
            }
        }
        if *self != Dependencies::Infer {
            let Chosen { dependent, made_external } = chosen;
            let note = format!("{self}: {dependent} wakeups depend on tasks, {made_external} made external");
            workload.notes.insert("dependencies, by choice".to_string(), note);
        }
        chosen
    }
}

/// Whether `name` is as `pattern` says; `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(first) else { return false };
    (0..=name.len()).any(|at| name.get(at..).is_some_and(|name| matches(rest, name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_text;

    const CHAIN: &str = "1 INIT 0 0 1 runnable name=make\n2 INIT 0 0 2 blocked name=cc1\n\
        3 INIT 0 0 3 blocked name=as\n\
        @m BLOCK 1 1ms\n- WAKEUP 2 30us @m 1 5us\n@c BLOCK 2 2ms\n- WAKEUP 3 70us @c 2 1us\n@a BLOCK 3 1ms\n\
        - WAKEUP 1 9ms @a 3 0\n- WAKEUP 2 4ms\n- EXIT 1 1ms\n- EXIT 2 1ms\n";

    fn chosen(choice: &str) -> (Chosen, String) {
        let mut workload = parse_text("test", CHAIN.as_bytes()).unwrap();
        let chosen = choice.parse::<Dependencies>().unwrap().apply(&mut workload);
        workload.check().unwrap();
        (chosen, workload.to_text().unwrap())
    }

    #[test]
    fn a_choice_keeps_what_it_says() {
        for (choice, dependent) in [
            ("infer", 3),
            ("all", 3),
            ("none", 0),
            ("tasks=make", 0),
            ("tasks=make,cc1", 1),
            ("tasks=*", 3),
            ("tasks=cc1>as", 1),
            ("tasks=as>cc1", 0),
            ("tasks=cc*>a*,make>*", 2),
            ("tasks=as>make,make,cc1", 2),
        ] {
            let (chosen, _) = chosen(choice);
            assert_eq!((chosen.dependent, chosen.made_external), (dependent, 3 - dependent), "{choice}");
            assert_eq!(choice.parse::<Dependencies>().unwrap().to_string(), choice);
        }
    }

    #[test]
    fn a_wakeup_made_external_takes_the_recorded_time_and_says_what_it_was() {
        let (_, text) = chosen("none");
        for line in [
            "WAKEUP 2 30us 0 0 0 task",
            "WAKEUP 3 70us 0 0 0 task",
            "WAKEUP 1 9ms 0 0 0 task",
            "WAKEUP 2 4ms 0 0 0\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert!(text.contains("none: 0 wakeups depend on tasks, 3 made external"), "{text}");
    }

    #[test]
    fn a_wrong_choice_is_reported() {
        for text in ["", "some", "tasks=", "tasks=a,,b", "tasks=>b", "tasks=a>"] {
            let error = text.parse::<Dependencies>().unwrap_err().to_string();
            assert!(error.contains("expected infer, all, none, or tasks="), "{error}");
        }
    }
}
