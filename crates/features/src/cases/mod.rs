//! The scenarios, by section. Each says where its expected result is from; tolerances are the granularity of
//! the scenario.

mod fair;
mod groups;
mod machine;
mod realtime;
mod system;

use crate::{Feature, FeatureGroup, Finding, ScenarioBench, Trouble};

/// All features, in the order of the table.
pub fn all() -> Vec<Feature> {
    [fair::features(), realtime::features(), groups::features(), machine::features(), system::features()]
        .concat()
}

/// A feature of the plain configuration that every version has.
fn feature(
    name: &'static str,
    group: FeatureGroup,
    what: &'static str,
    run: fn(&ScenarioBench) -> Result<Finding, Trouble>,
) -> Feature {
    Feature { name, group, what, since: (5, 10), flavour: None, nr_cpus: 64, run }
}

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// `n` tasks that never stop, pids from 1, with these words.
fn hogs(first: u32, n: u32, words: &str) -> String {
    let last = first + n - 1;
    format!("- INIT 0 0 {first}..{last} runnable name=hog {words}\n- EXIT {first}..{last} 100000s\n")
}

/// A task that computes and sleeps, over and over.
fn sleeper(pid: u32, run: &str, sleep: &str, times: u32, words: &str) -> String {
    format!(
        "- INIT 0 0 {pid} runnable name=sleeper {words}\nREPEAT {times} {{\n- BLOCK {pid} {run}\n\
            - WAKEUP {pid} {sleep}\n}}\n- EXIT {pid} 1ms\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different() {
        let mut names: Vec<&str> = all().iter().map(|f| f.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
