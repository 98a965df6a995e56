//! What did real Linux do, the last time it was asked? A file per case, keyed by kernel, QEMU and command line.
//!
//! What is kept answers what was asked then. If a later version of the guest's program, of the workload or of
//! the command line asks something else, the answer belongs to another question: [`Golden::check`] refuses it
//! ([`GoldenError::Stale`]). Kernel and QEMU are those that answered: newer ones elsewhere make the answer
//! older, not wrong; the caller may say so.

use crate::{Case, Measures};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The version of the file's form.
const FORMAT: u32 = 3;

/// A guest's runs of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Golden {
    /// Form of this file.
    pub format: u32,
    /// Kernel package.
    pub package: String,
    /// Its version.
    pub package_version: String,
    /// `qemu-system-x86_64 --version`.
    pub qemu: String,
    /// QEMU's command line, of the first run.
    pub command_line: String,
    /// What names the guest's own program.
    pub guest_program: String,
    /// Ticks per second.
    pub hz: u32,
    /// Per run, what names it: of kernel, initramfs, QEMU and command line.
    pub keys: Vec<String>,
    /// Per run, what names that which the guest's program was to do.
    pub workloads: Vec<String>,
    /// Per run, what was measured.
    pub runs: Vec<Measures>,
}

/// What this version of schedlab would ask a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestQuestion {
    /// What names the guest's own program.
    pub guest_program: String,
    /// Per run, what names that which it is to do.
    pub workloads: Vec<String>,
    /// QEMU's command line of the first run.
    pub command_line: String,
}

/// A golden file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// The system refuses.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// It is no golden file.
    #[error("{}: {what}; make it anew with `schedlab validate --refresh`", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It answers another question.
    #[error("{}: it is of another {what} than this version's; make it anew with `schedlab validate {workload} \
        --kernel {series} --cpus {cpus} --refresh`", path.display())]
    Stale {
        /// The file.
        path: PathBuf,
        /// What is not the same.
        what: &'static str,
        /// The case's workload.
        workload: String,
        /// Its kernel.
        series: String,
        /// Its CPUs.
        cpus: u32,
    },
}

impl Golden {
    /// An empty one of this version's form.
    pub fn new() -> Golden {
        Golden { format: FORMAT, ..Golden::default() }
    }

    /// Where a case's file lies.
    pub fn path(directory: &Path, case: &Case) -> PathBuf {
        directory.join(format!("{}.json", case.slug()))
    }

    /// Reads a case's file; `None` if there is none.
    pub fn load(directory: &Path, case: &Case) -> Result<Option<Golden>, GoldenError> {
        let path = Golden::path(directory, case);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(GoldenError::Io { doing: "read", path, source }),
        };
        let golden: Golden = serde_json::from_str(&text)
            .map_err(|error| GoldenError::Form { path: path.clone(), what: error.to_string() })?;
        match golden.format {
            FORMAT => Ok(Some(golden)),
            other => Err(GoldenError::Form { path, what: format!("its form is {other}, not {FORMAT}") }),
        }
    }

    /// Refuses what does not belong to this question. Fewer runs than asked for are an answer, too:
    /// `--refresh --guest-runs 1`.
    ///
    /// # Errors
    /// [`GoldenError::Stale`], with what differs.
    pub fn check(&self, directory: &Path, case: &Case, question: &GuestQuestion) -> Result<(), GoldenError> {
        let parts = [
            ("guest program", self.guest_program == question.guest_program),
            ("number of runs", !self.runs.is_empty() && self.runs.len() == self.workloads.len()),
            ("workload", question.workloads.starts_with(&self.workloads)),
            ("command line of QEMU", self.command_line == question.command_line),
        ];
        match parts.into_iter().find(|(_, same)| !same) {
            None => Ok(()),
            Some((what, _)) => Err(GoldenError::Stale {
                path: Golden::path(directory, case),
                what,
                workload: case.workload.clone(),
                series: case.series.clone(),
                cpus: case.cpus,
            }),
        }
    }

    /// The file's text: a run a line, so that a difference shows which run changed.
    pub fn to_text(&self) -> String {
        let mut head = self.clone();
        head.runs.clear();
        let mut text = serde_json::to_string_pretty(&head).expect("plain data is valid JSON");
        let end = text.rfind("\"runs\": []").expect("the last field is an empty list");
        text.truncate(end);
        text.push_str("\"runs\": [");
        for (index, run) in self.runs.iter().enumerate() {
            text.push_str(if index == 0 { "\n" } else { ",\n" });
            text.push_str(&serde_json::to_string(run).expect("plain data is valid JSON"));
        }
        text.push_str("\n]}\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let case = crate::matrix().remove(0);
        assert_eq!(Golden::load(directory.path(), &case).unwrap(), None);
        let run = Measures { duration_ns: 5, delays: vec![(0, 3), (400, 1)], ..Measures::default() };
        let golden = Golden { runs: vec![run.clone(), run], hz: 250, ..Golden::new() };
        let path = Golden::path(directory.path(), &case);
        std::fs::write(&path, golden.to_text()).unwrap();
        assert_eq!(Golden::load(directory.path(), &case).unwrap(), Some(golden.clone()));
        for bad in
            [golden.to_text().replace(&format!("\"format\": {FORMAT}"), "\"format\": 99"), "{".to_string()]
        {
            std::fs::write(&path, bad).unwrap();
            let error = Golden::load(directory.path(), &case).unwrap_err().to_string();
            assert!(error.contains("--refresh") && error.contains(&case.slug()), "{error}");
        }
    }

    /// Each part of the question by itself makes the answer another's.
    #[test]
    fn an_answer_to_another_question_is_refused() {
        let case = crate::matrix().remove(0);
        let golden = Golden {
            guest_program: "p".into(),
            workloads: vec!["w".into()],
            command_line: "qemu".into(),
            runs: vec![Measures::default()],
            ..Golden::new()
        };
        let same = GuestQuestion {
            guest_program: "p".into(),
            workloads: vec!["w".into()],
            command_line: "qemu".into(),
        };
        let check = |question: &GuestQuestion| golden.check(Path::new("d"), &case, question);
        check(&same).unwrap();
        let others = [
            ("guest program", GuestQuestion { guest_program: "q".into(), ..same.clone() }),
            ("workload", GuestQuestion { workloads: vec!["v".into()], ..same.clone() }),
            ("workload", GuestQuestion { workloads: Vec::new(), ..same.clone() }),
            ("command line", GuestQuestion { command_line: "qemu -smp 2".into(), ..same.clone() }),
        ];
        check(&GuestQuestion { workloads: vec!["w".into(), "x".into()], ..same.clone() }).unwrap(); // one of two runs
        for (what, question) in others {
            let said = check(&question).unwrap_err().to_string();
            assert!(
                said.contains(what) && said.contains("--refresh") && said.contains(&case.slug()),
                "{said}"
            );
        }
    }
}
