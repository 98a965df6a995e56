//! How is a run written down in a file? As TOML, in the words of the command line.
//!
//! ```
//! use schedlab_hourglass::{PlanFile, parse};
//! let text = r#"
//!     duration = "20s"
//!     [[thread]]
//!     class = "RTHIGH"
//!     model = "PERIODIC 4ms 5ms"
//!     timer = "RTC"
//!     [[thread]]
//!     count = 3
//!     cpus = "0-1"
//! "#;
//! let line = parse(&PlanFile::parse(text)?.words())?;
//! assert_eq!(line.plan.threads.len(), 4);
//! assert_eq!(line.plan.threads[0].model.to_string(), "PERIODIC 4ms 5ms");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde::Deserialize;

/// A run as a file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// How long.
    pub duration: Option<String>,
    /// Shortest gap.
    pub gap: Option<String>,
    /// Commands beside it.
    #[serde(default)]
    pub beside: Vec<String>,
    /// Of what is drawn.
    pub seed: Option<u64>,
    /// The threads.
    #[serde(default)]
    pub thread: Vec<ThreadFile>,
}

/// Some threads that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadFile {
    /// How many; 1 if left out.
    pub count: Option<usize>,
    /// As after `-w`.
    pub model: Option<String>,
    /// As after `-p`.
    pub class: Option<String>,
    /// As after `-i`.
    pub timer: Option<String>,
    /// As after `-a`.
    pub cpus: Option<String>,
    /// As after `-c`.
    pub cgroup: Option<String>,
}

impl PlanFile {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, with its line, as the TOML reader says it.
    pub fn parse(text: &str) -> Result<PlanFile, toml::de::Error> {
        toml::from_str(text)
    }

    /// The words of the command line that say the same.
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut option = |name: &str, value: &Option<String>| {
            if let Some(value) = value {
                words.push(name.to_string());
                words.extend(value.split_whitespace().map(str::to_string));
            }
        };
        option("-d", &self.duration);
        option("-g", &self.gap);
        option("--seed", &self.seed.map(|seed| seed.to_string()));
        let counts = self.thread.iter().map(|thread| thread.count.unwrap_or(1));
        let all = counts.fold(0usize, usize::saturating_add);
        option("-n", &(all > 0).then(|| all.to_string()));
        let mut first = 0usize;
        for thread in &self.thread {
            let count = thread.count.unwrap_or(1);
            // more than a plan may have are refused by their number, not listed
            for index in (first..first.saturating_add(count)).take(crate::THREADS_MAX + 1) {
                option("-t", &Some(index.to_string()));
                option("-w", &thread.model);
                option("-p", &thread.class);
                option("-i", &thread.timer);
                option("-a", &thread.cpus);
                option("-c", &thread.cgroup);
            }
            first = first.saturating_add(count);
        }
        option("-t", &Some("all".into()));
        for command in &self.beside {
            words.extend(["--beside".to_string(), command.clone()]);
        }
        words
    }
}
