//! Progress on standard error when it is a terminal; nothing but results on standard output.

use crate::print;
use indicatif::{ProgressBar, ProgressStyle};
use schedlab_lab::{Progress, Setting};
use schedlab_stdx::escape::visible;
use schedlab_topology::Topology;
use std::io::IsTerminal;
use std::time::Duration;

/// How much the user wants to see.
pub(crate) struct Ui {
    quiet: bool,
    interactive: bool,
    /// `--strict`.
    strict: bool,
}

/// A step under way; its line goes when it is dropped.
pub(crate) struct Step {
    bar: Option<ProgressBar>,
    /// Without a terminal each new message is a line.
    plain: bool,
}

impl Ui {
    pub(crate) fn new(quiet: bool, strict: bool) -> Ui {
        Ui { quiet, interactive: !quiet && std::io::stderr().is_terminal(), strict }
    }

    /// As strict, and says nothing: for one of many runs.
    pub(crate) fn silent(&self) -> Ui {
        Ui { quiet: true, interactive: false, strict: self.strict }
    }

    /// Whether another experiment than the one that was asked for is bad input.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Whether somebody watches.
    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Begins a step that may take a while.
    pub(crate) fn step(&self, message: impl Into<String>) -> Step {
        let message = message.into();
        if self.interactive {
            let bar = ProgressBar::new_spinner();
            let style =
                ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("the template is valid");
            bar.set_style(style);
            bar.set_message(visible(&message).into_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            Step { bar: Some(bar), plain: false }
        } else {
            Step { bar: None, plain: !self.quiet }
        }
    }

    /// A sentence for the person, not a result.
    pub(crate) fn say(&self, sentence: impl AsRef<str>) {
        if !self.quiet {
            print::stderr(sentence.as_ref());
        }
    }
}

impl Ui {
    /// Real Linux for this machine, its build shown here.
    pub(crate) fn setting(&self, hz: u32, topology: &Topology) -> Setting<'_> {
        Setting { hz, nr_cpus: topology.nr_cpus(), progress: self }
    }
}

impl Progress for Ui {
    fn step(&self, what: String) -> Box<dyn schedlab_lab::ProgressStep + '_> {
        Box::new(Ui::step(self, what))
    }
    fn say(&self, sentence: &str) {
        Ui::say(self, sentence);
    }
}

impl schedlab_lab::ProgressStep for Step {
    fn now(&self, what: String) {
        Step::now(self, what);
    }
    fn progress(&self, what: String) {
        Step::progress(self, what);
    }
}

impl Step {
    /// What is being done now.
    pub(crate) fn now(&self, message: impl Into<String>) {
        let message = message.into();
        match &self.bar {
            Some(bar) => bar.set_message(visible(&message).into_owned()),
            None if self.plain => print::stderr(&message),
            None => {}
        }
    }
}

impl Step {
    /// How far it is; shown on a terminal only.
    pub(crate) fn progress(&self, message: impl Into<String>) {
        if let Some(bar) = &self.bar {
            bar.set_message(visible(&message.into()).into_owned());
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
