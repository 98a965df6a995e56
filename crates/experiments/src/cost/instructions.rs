//! Instructions per operation: this program again, under valgrind, doing each operation so often in a function of its own.

use super::measure::{region_dequeue, region_enqueue, region_select, stand, waiting};
use super::{Config, Cost, CostError, Subject};
use rayon::prelude::*;
use schedlab_units::Random;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// How often each operation is done in a probe.
const ROUNDS: u64 = 200;
/// Rounds before counting starts: tables have grown, first decisions are made.
const WARM_UP: u64 = 50;

/// Counted for one policy at one number of clients, per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Probe {
    /// Put back and choose.
    pub select: Option<f64>,
    /// Take out.
    pub dequeue: Option<f64>,
    /// Put back in.
    pub enqueue: Option<f64>,
}

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub enum InstructionsError {
    /// valgrind is not there.
    #[error("valgrind cannot be started ({0}); install it (apt install valgrind) to count instructions")]
    NoValgrind(std::io::Error),
    /// It ran and failed.
    #[error("counting {label} with {nr_clients} clients failed: {problem}")]
    Failed {
        /// The subject.
        label: String,
        /// Clients.
        nr_clients: u32,
        /// What it said.
        problem: String,
    },
}

/// What the program does when it is started as a probe: `subject` as in [`Subject::parse`].
pub fn probe(subject: &str, nr_clients: u32) -> Result<(), CostError> {
    let mut stand = stand(&Subject::parse(subject)?, nr_clients)?;
    let mut random = Random::new(u64::from(nr_clients));
    stand.put(
        schedlab_units::CpuId(0),
        schedlab_units::Span::from_ms(10),
        schedlab_machine::policy::Stop::Preempted,
    );
    stand.pick(schedlab_units::CpuId(0));
    for _ in 0..WARM_UP {
        stand.put(
            schedlab_units::CpuId(0),
            schedlab_units::Span::from_ms(10),
            schedlab_machine::policy::Stop::Preempted,
        );
        stand.pick(schedlab_units::CpuId(0));
    }
    region_select(&mut stand, ROUNDS);
    for _ in 0..ROUNDS {
        let Some(client) = waiting(&stand, &mut random, nr_clients) else { break };
        region_dequeue(&mut stand, client);
        region_enqueue(&mut stand, client);
    }
    Ok(())
}

/// Counts for every subject and number of clients and adds the counts to `cost`. `program` with `arguments` followed by SUBJECT
/// and N must call [`probe`]. Two at a time.
pub fn instructions(
    config: &Config,
    program: &Path,
    arguments: &[OsString],
    cost: &mut Cost,
) -> Result<(), InstructionsError> {
    Command::new("valgrind").arg("--version").output().map_err(InstructionsError::NoValgrind)?;
    let jobs: Vec<(&Subject, u32)> = config
        .subjects
        .iter()
        .flat_map(|subject| config.clients.iter().map(move |&n| (subject, n)))
        .collect();
    let counts: Vec<Result<Probe, InstructionsError>> =
        jobs.par_iter().map(|(subject, n)| count(program, arguments, &subject.label, *n)).collect();
    for ((subject, nr_clients), count) in jobs.into_iter().zip(counts) {
        let count = count?;
        if let Some(row) =
            cost.rows.iter_mut().find(|row| row.label == subject.label && row.nr_clients == nr_clients)
        {
            row.select_instructions = count.select;
            row.dequeue_instructions = count.dequeue;
            row.enqueue_instructions = count.enqueue;
        }
    }
    Ok(())
}

fn count(
    program: &Path,
    arguments: &[OsString],
    label: &str,
    nr_clients: u32,
) -> Result<Probe, InstructionsError> {
    let failed =
        |problem: String| InstructionsError::Failed { label: label.to_string(), nr_clients, problem };
    let name =
        format!("schedlab-cost-{}-{}-{nr_clients}", std::process::id(), label.replace([':', '=', '/'], "-"));
    let out = std::env::temp_dir().join(name);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(arguments)
        .arg(label)
        .arg(nr_clients.to_string())
        .output()
        .map_err(InstructionsError::NoValgrind)?;
    let text = std::fs::read_to_string(&out);
    let _ = std::fs::remove_file(&out); // it lies in the temporary folder
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("").to_string()));
    }
    let text = text.map_err(|error| failed(format!("valgrind's output cannot be read: {error}")))?;
    let per_call = |region: &str, rounds: u64| {
        let (calls, instructions) = inclusive(&text, region);
        (calls > 0).then(|| instructions as f64 / (calls * rounds) as f64)
    };
    Ok(Probe {
        select: per_call("region_select", ROUNDS),
        dequeue: per_call("region_dequeue", 1),
        enqueue: per_call("region_enqueue", 1),
    })
}

/// Calls of a function and their inclusive cost, from callgrind's format: `cfn=NAME`, `calls=COUNT ...`, `LINE COST`.
fn inclusive(text: &str, region: &str) -> (u64, u64) {
    let (mut calls, mut cost) = (0, 0);
    let mut lines = text.lines();
    let mut callee_matches = false;
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("cfn=") {
            callee_matches = name.contains(region);
        } else if let Some(count) = line.strip_prefix("calls=") {
            let costs = lines.next();
            if std::mem::take(&mut callee_matches) {
                let number = |text: Option<&str>| text.and_then(|t| t.parse::<u64>().ok()).unwrap_or(0);
                calls += number(count.split_whitespace().next());
                cost += number(costs.and_then(|costs| costs.split_whitespace().nth(1)));
            }
        }
    }
    (calls, cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_format_is_read() {
        let text = "fn=main\n10 5\ncfn=a::region_select\ncalls=1 20\n11 4000\ncfn=other\ncalls=3 1\n12 7\n\
                    cfn=a::region_select\ncalls=2 20\n13 500\n";
        assert_eq!(inclusive(text, "region_select"), (3, 4500));
        assert_eq!(inclusive(text, "region_dequeue"), (0, 0));
    }
}
