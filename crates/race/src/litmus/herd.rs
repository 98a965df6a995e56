//! What does herd7 say of a litmus test? It knows the kernel's model as its authors wrote it
//! (`tools/memory-model/linux-kernel.cat`), and gives all outcomes that it allows.
//!
//! ```text
//! Test SB Allowed
//! States 4
//! 0:r0=0; 1:r0=0;
//! ...
//! Observation SB Sometimes 1 3
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use schedlab_linux::build::herd::Herd7;

use crate::{RaceError, io};

/// What is added to the model. An operation without result may be late as a whole: its load orders nothing but its
/// own store.
const LOADS_FIRST: &str = "let before = ([R \\ Noreturn]; po; [W]) | rmw
acyclic before | rfe as no-load-buffering
";
const ONE_MEMORY: &str = "acyclic ppo | rfe | fre | coe as multi-copy-atomic
";
const NO_OVERTAKING: &str = "let in-time = ppo | before | rfe | fre | coe
acyclic in-time as loads-before-stores
";
const ONE_STEP: &str = "let one-step = [R \\ Noreturn]; rmw
acyclic (in-time \\ one-step); (one-step | one-step^-1)? as atomics-in-one-step
";
const FULL_BESIDE: &str = "let in-full = in-time | ([M]; fencerel(Before-atomic | After-atomic); [M])
acyclic (in-full \\ one-step); (one-step | one-step^-1)? as full-beside-atomics
";

/// The kernel's model, whole or without what [`crate::MemoryModel::Lkmm`] leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axioms {
    /// As it is.
    Kernel,
    /// No load sees a store that comes later in its past: no load buffering.
    NoLoadBuffering,
    /// Moreover, a store reaches all other CPUs at once.
    MultiCopyAtomic,
    /// Moreover, no store is seen before an earlier load of its CPU has its value.
    LoadsBeforeStores,
    /// Moreover, nothing comes between the load and the store of an atomic operation with a result, in any order.
    AtomicsInOneStep,
    /// Moreover, `smp_mb__before_atomic()` and `smp_mb__after_atomic()` are full barriers.
    FullBesideAtomics,
}

impl Axioms {
    /// What is added to `linux-kernel.cat`.
    fn added(self) -> String {
        [LOADS_FIRST, ONE_MEMORY, NO_OVERTAKING, ONE_STEP, FULL_BESIDE][..self as usize].concat()
    }
}

/// herd7 with the kernel's model.
#[derive(Clone, Debug)]
pub struct Herd {
    tool: Herd7,
    model: PathBuf,
}

/// What it says of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The test's name.
    pub name: String,
    /// `Never`, `Sometimes` or `Always`.
    pub observation: String,
    /// All outcomes: names as the test's last lines have them, and values.
    pub outcomes: Vec<BTreeMap<String, String>>,
}

impl Herd {
    /// `kernel_source`: whose `tools/memory-model` is taken.
    ///
    /// # Errors
    /// That kernel has no memory model.
    pub fn new(tool: Herd7, kernel_source: &Path) -> Result<Herd, RaceError> {
        let model = kernel_source.join("tools/memory-model");
        if !model.join("linux-kernel.cat").is_file() {
            return Err(RaceError::Refused(format!(
                "{}: there is no linux-kernel.cat; take a kernel that has it (--kernel 6.12)",
                model.display()
            )));
        }
        Ok(Herd { tool, model })
    }

    /// Its version and its package's: `7.58 (herdtools7 7.58-2)`.
    pub fn version(&self) -> String {
        format!("{} (herdtools7 {})", self.tool.version, self.tool.package)
    }

    /// What it says of these texts, in their order. `seconds`: for each test at most so many.
    ///
    /// # Errors
    /// It does not understand one, or does not come to an end with it.
    pub fn ask(&self, texts: &[&str], axioms: Axioms, seconds: u32) -> Result<Vec<Verdict>, RaceError> {
        let dir = crate::compile::temporary(&std::env::temp_dir())?;
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).map_err(io("write", &path)).map(|()| path)
        };
        let cat =
            write("asked.cat", &format!("\"asked\"\ninclude \"linux-kernel.cat\"\n{}", axioms.added()))?;
        let mut verdicts = Vec::new();
        // a command line has its length
        for (n, some) in texts.chunks(200).enumerate() {
            let mut command = self.tool.command();
            command.current_dir(&self.model).args([
                "-conf",
                "linux-kernel.cfg",
                "-timeout",
                &seconds.to_string(),
            ]);
            if axioms != Axioms::Kernel {
                command.arg("-I").arg(&self.model).arg("-model").arg(&cat);
            }
            for (m, text) in some.iter().enumerate() {
                command.arg(write(&format!("{n}-{m}.litmus"), text)?);
            }
            let output = command.output().map_err(io("run", "herd7".as_ref()))?;
            let these = read(&String::from_utf8_lossy(&output.stdout));
            if these.len() != some.len() {
                let said = String::from_utf8_lossy(&output.stderr);
                let why: Vec<&str> = said.lines().filter(|l| !l.trim().is_empty()).take(4).collect();
                return Err(RaceError::Refused(format!(
                    "herd7 gives {} verdicts of {} tests: {}",
                    these.len(),
                    some.len(),
                    match why.is_empty() {
                        true => format!("it was given {seconds} s for each"),
                        false => why.join("; "),
                    }
                )));
            }
            verdicts.extend(these);
        }
        Ok(verdicts)
    }
}

/// herd7's answer.
fn read(text: &str) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut outcomes: Vec<BTreeMap<String, String>> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["Test", ..] => outcomes.clear(),
            ["Observation", name, observation, ..] => verdicts.push(Verdict {
                name: name.to_owned(),
                observation: observation.to_owned(),
                outcomes: std::mem::take(&mut outcomes),
            }),
            _ if line.ends_with(';') && line.contains('=') => {
                let pairs = line.split(';').filter_map(|pair| pair.trim().split_once('='));
                let pair = |(name, value): (&str, &str)| {
                    (name.trim_matches(['[', ']']).to_owned(), value.trim_start_matches('&').to_owned())
                };
                outcomes.push(pairs.map(pair).collect());
            }
            _ => {}
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let text = "Test A Allowed\nStates 2\n0:r0=0; [x]=1;\n0:r0=&x; [x]=2;\nOk\nWitnesses\nPositive: 1 Negative: 1\n\
                    Condition exists (0:r0=0)\nObservation A Sometimes 1 1\nTime A 0.00\nHash=1\n\n";
        let verdicts = read(text);
        assert_eq!(verdicts.len(), 1);
        assert_eq!((verdicts[0].name.as_str(), verdicts[0].observation.as_str()), ("A", "Sometimes"));
        let values: Vec<&str> = verdicts[0].outcomes.iter().map(|o| o["0:r0"].as_str()).collect();
        assert_eq!(values, ["0", "x"]);
        assert_eq!(verdicts[0].outcomes[1]["x"], "2");
    }
}
