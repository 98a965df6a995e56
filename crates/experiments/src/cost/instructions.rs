//! Instructions per operation: this program again, under valgrind, doing each operation so often in a
//! function of its own.

use super::measure::{AnyBench, CPU, QUANTUM, bench, region_dequeue, region_enqueue, region_select, waiting};
use super::{Config, Cost, CostError, ProbeCommand, Times, linux};
use rayon::prelude::*;
use schedlab_lab::{Subject, SubjectSpec};
use schedlab_machine::policy::Stop;
use schedlab_stdx::Random;
use std::path::Path;
use std::process::Command;

/// How often each operation is done in a probe: often enough that what a scheduler does once in a while (a
/// pass over all counters, a promotion of all tasks each second) has its part, also among very many.
const ROUNDS: u64 = 200;

/// Rounds before counting starts: tables have grown, first decisions are made.
const WARM_UP: u64 = ROUNDS / 4;

/// Counted for one subject at one number of clients, per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
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

/// What the program does when it is started as a probe: `text` as a [`SubjectSpec`], `object` for real Linux.
/// Returns host times of real Linux (a native policy's are taken without a probe).
pub fn probe(text: &str, nr_clients: u32, object: Option<&Path>) -> Result<Times, CostError> {
    if let Some(object) = object {
        return linux::probe(object, text.parse::<SubjectSpec>()?.kernel_params(), nr_clients);
    }
    let policy = Subject::native(text)?.policy().expect("a native scheduler has a policy");
    let mut bench = bench(policy, nr_clients);
    let mut random = Random::new(u64::from(nr_clients));
    put_and_pick(&mut bench);
    (0..WARM_UP).for_each(|_| put_and_pick(&mut bench));
    region_select(&mut bench, ROUNDS);
    for _ in 0..ROUNDS {
        let Some(client) = waiting(&bench, &mut random, nr_clients) else { break };
        region_dequeue(&mut bench, client);
        region_enqueue(&mut bench, client);
    }
    Ok(Times::default())
}

fn put_and_pick(bench: &mut AnyBench) {
    bench.put(CPU, QUANTUM, Stop::Preempted);
    bench.pick(CPU);
}

/// Counts for every subject and number of clients and adds the counts to `cost`; two at a time. `seen` hears
/// what is next.
pub fn instructions(
    config: &Config,
    command: &ProbeCommand,
    cost: &mut Cost,
    seen: &(dyn Fn(&str, u32) + Sync),
) -> Result<(), InstructionsError> {
    Command::new("valgrind").arg("--version").output().map_err(InstructionsError::NoValgrind)?;
    let measured = |subject: &Subject, n: u32| config.measures(subject, n);
    let jobs: Vec<(&Subject, u32)> = config
        .subjects
        .iter()
        .flat_map(|subject| config.clients.iter().map(move |&n| (subject, n)))
        .filter(|&(subject, n)| measured(subject, n))
        .collect();
    let work = |&(subject, n): &(&Subject, u32)| {
        seen(&subject.label, n);
        count(command, subject, n)
    };
    let counts: Vec<Result<Count, InstructionsError>> = jobs.par_iter().map(work).collect();
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

/// The functions whose calls are counted, and how many operations a call does.
fn brackets(subject: &Subject) -> [(&'static str, u64); 3] {
    match subject.linux() {
        None => [("region_select", ROUNDS), ("region_dequeue", 1), ("region_enqueue", 1)],
        Some(_) => linux::FUNCTIONS.map(|function| (function, 1)),
    }
}

fn count(command: &ProbeCommand, subject: &Subject, nr_clients: u32) -> Result<Count, InstructionsError> {
    let label = &subject.label;
    let failed = |problem: String| InstructionsError::Failed { label: label.clone(), nr_clients, problem };
    let name =
        format!("schedlab-cost-{}-{}-{nr_clients}", std::process::id(), label.replace([':', '=', '/'], "-"));
    let out = std::env::temp_dir().join(name);
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", out.display()));
    if subject.linux().is_some() {
        // the kernel rewrites its own text; and the tasks' creation does not count
        valgrind.arg("--smc-check=all").arg(format!("--zero-before={}", linux::COUNT_FROM));
    }
    let output = valgrind
        .arg(&command.program)
        .args(command.arguments_for(subject, nr_clients))
        .output()
        .map_err(InstructionsError::NoValgrind)?;
    let text = std::fs::read_to_string(&out);
    let _ = std::fs::remove_file(&out); // it lies in the temporary folder
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("").to_string()));
    }
    let text = text.map_err(|error| failed(format!("valgrind's output cannot be read: {error}")))?;
    let per_operation = brackets(subject).map(|(function, rounds)| {
        let (calls, instructions) = inclusive(&text, function);
        (calls > 0).then(|| instructions as f64 / (calls * rounds) as f64)
    });
    let [select, dequeue, enqueue] = per_operation;
    Ok(Count { select, dequeue, enqueue })
}

/// Whether callgrind's name of a function is this one: `a::b::NAME`, `NAME'2` (the second on the stack).
fn is_function(name: &str, function: &str) -> bool {
    let name = name.split('\'').next().unwrap_or(name);
    name.strip_suffix(function).is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

/// Calls of a function and their inclusive cost, from callgrind's format: `cfn=NAME`, `calls=COUNT ...`, `LINE COST`.
fn inclusive(text: &str, function: &str) -> (u64, u64) {
    let (mut calls, mut cost) = (0, 0);
    let mut lines = text.lines();
    let mut callee_matches = false;
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("cfn=") {
            callee_matches = is_function(name, function);
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
                    cfn=region_select'2\ncalls=2 20\n13 500\ncfn=__region_select\ncalls=9 1\n14 900\n";
        assert_eq!(inclusive(text, "region_select"), (3, 4500));
        assert_eq!(inclusive(text, "region_dequeue"), (0, 0));
    }
}
