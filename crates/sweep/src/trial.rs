//! One run that is to be made, by names and values: what a description gives, a worker is sent, a row keeps.
//!
//! ```
//! use schedlab_sweep::Trial;
//! let text = r#"{"workload":"hogs.txt","sched":"rr","params":{"quantum":"5ms"},"machine":"2","seed":7}"#;
//! let trial = Trial::from_json(text)?;
//! assert_eq!(trial.command(), "schedlab run hogs.txt --sched rr --cpus 2 --param quantum=5ms --seed 7");
//! # Ok::<(), schedlab_sweep::SweepError>(())
//! ```

use crate::error::SweepError;
use crate::key::hex;
use crate::value::Value;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Ticks per second unless a trial says otherwise: those of `schedlab run`.
pub const HZ: u32 = 250;

/// What is to be run. Paths are relative to the description's folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// A workload's path: a file, a folder, a mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Instead of it: a generator's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<String>,
    /// The generator's settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Value>,
    /// The scheduler, as `--sched` takes it.
    pub sched: String,
    /// More parameters of the scheduler.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// The machine, as `--machine` takes it: a number of CPUs among others.
    pub machine: String,
    /// Ticks per second of real Linux; [`HZ`] if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hz: Option<u32>,
    /// Stop after this much simulated time, as `--duration` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// Vary what the workload leaves open, with this seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Ranges of the variation, as `--perturb` takes them, without a seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perturb: Option<String>,
    /// A file of costs; `none`, or missing: kernel code takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<String>,
    /// `aligned` (if missing) or `staggered`, as `--ticks` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<String>,
}

impl Trial {
    /// As one line of JSON; fields that are missing are left out.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a struct of texts and numbers has a JSON form")
    }

    /// From what [`Trial::to_json`] gives.
    ///
    /// # Errors
    /// It is no JSON, or a field is not known.
    pub fn from_json(text: &str) -> Result<Trial, SweepError> {
        serde_json::from_str(text).map_err(|error| {
            SweepError::setting("trial", text, format!("{error}; expected what Trial::to_json gives"))
        })
    }

    /// Ticks per second.
    pub fn hz(&self) -> u32 {
        self.hz.unwrap_or(HZ)
    }

    /// The generator's settings as the TOML file that they could stand in; `None`: it is not generated.
    pub fn settings_toml(&self) -> Option<String> {
        let kind = self.generate.as_ref()?;
        let mut text = format!("kind = {}\n", Value::Text(kind.clone()).to_toml());
        for (name, value) in &self.set {
            text.push_str(&format!("{name} = {}\n", value.to_toml()));
        }
        Some(text)
    }

    /// What the workload is called in rows: as `run --json` calls it.
    pub fn workload_name(&self) -> String {
        match (&self.workload, self.settings_toml()) {
            (_, Some(settings)) => {
                let sum = hex(&Sha256::digest(settings.as_bytes())[..4]);
                format!("{}-{sum}", self.generate.as_deref().unwrap_or_default())
            }
            (Some(path), None) => schedlab_lab::title(path.as_ref()),
            (None, None) => String::new(),
        }
    }

    /// The command that repeats the run, in the description's folder. What is generated is written to a file there.
    pub fn command(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        let mut before = String::new();
        match &self.generate {
            None => words.push(self.workload.clone().unwrap_or_default()),
            Some(kind) => {
                let file = format!("{}.txt", self.workload_name());
                let mut made = vec!["generate".to_owned(), kind.clone()];
                for (name, value) in &self.set {
                    made.push("--set".to_owned());
                    made.push(format!("{name}={}", as_setting(value)));
                }
                made.extend(["-o".to_owned(), file.clone()]);
                before = format!("{} && ", command_of(&made));
                words.push(file);
            }
        }
        let mut option = |name: &str, value: &str| words.extend([format!("--{name}"), value.to_owned()]);
        option("sched", &self.sched);
        let is_number = self.machine.bytes().all(|byte| byte.is_ascii_digit());
        option(if is_number { "cpus" } else { "machine" }, &self.machine);
        if let Some(hz) = self.hz.filter(|hz| *hz != HZ) {
            option("hz", &hz.to_string());
        }
        for (name, value) in &self.params {
            option("param", &format!("{name}={value}"));
        }
        if let Some(ticks) = self.ticks.as_deref().filter(|ticks| *ticks != "aligned") {
            option("ticks", ticks);
        }
        if let Some(duration) = &self.duration {
            option("duration", duration);
        }
        if let Some(seed) = self.seed {
            option("seed", &seed.to_string());
        }
        if let Some(perturb) = &self.perturb {
            option("perturb", perturb);
        }
        if let Some(costs) = self.costs.as_deref().filter(|costs| *costs != "none") {
            option("costs", costs);
        }
        words.insert(0, "run".to_owned());
        format!("{before}{}", command_of(&words))
    }
}

/// As `--set` takes it: what looks like TOML is taken as that, else as a text.
fn as_setting(value: &Value) -> String {
    match value {
        Value::Text(text) if text.parse::<f64>().is_ok() || text.starts_with(['[', '{', '"']) => {
            value.to_toml()
        }
        other => other.to_string(),
    }
}

fn command_of(words: &[String]) -> String {
    let quote = |word: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    std::iter::once("schedlab".to_owned()).chain(words.iter().map(quote)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_gives_the_same_trial_back_and_refuses_what_it_does_not_know() {
        let trial = Trial {
            generate: Some("hogs".into()),
            set: [("nices".to_owned(), Value::List(vec![Value::Int(0), Value::Int(5)]))].into(),
            sched: "linux-6.12".into(),
            machine: "packages=2,cores=2".into(),
            hz: Some(1000),
            seed: Some(3),
            ..Trial::default()
        };
        assert_eq!(Trial::from_json(&trial.to_json()).unwrap(), trial);
        assert_eq!(
            trial.command(),
            "schedlab generate hogs --set 'nices=[0, 5]' -o hogs-c31a0d25.txt && schedlab run hogs-c31a0d25.txt \
             --sched linux-6.12 --machine packages=2,cores=2 --hz 1000 --seed 3"
                .replace("c31a0d25", &trial.workload_name()[5..])
        );
        let error = Trial::from_json(r#"{"sched":"rr","machine":"1","cpu":1}"#).unwrap_err().to_string();
        assert!(error.contains("unknown field `cpu`"), "{error}");
    }
}
