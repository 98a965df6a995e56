//! Ensembles whose outcome is known: differences by formula, none where there is none, the same whatever the
//! number of workers.

use schedlab_compare::metric::find;
use schedlab_compare::page::Tasks;
use schedlab_compare::{Compared, Comparison, Gate, MetricValues, Samples, Significance, page};
use schedlab_lab::{Ensemble, FailureKind, Subject};
use schedlab_machine::drawn::Life::{self, Run, Sleep};
use schedlab_machine::drawn::workload;
use schedlab_machine::policy::{Arrival, Policy, Stop, View};
use schedlab_machine::{Perturb, Program};
use schedlab_policies::PolicyInfo;
use schedlab_report::Style;
use schedlab_runner::Scheduler;
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Span, TaskId};
use schedlab_workload::Workload;

fn contender(name: &str, params: &[(&str, &str)]) -> Subject {
    let text: String = params.iter().map(|(key, value)| format!(":{key}={value}")).collect();
    Subject::native(&format!("{name}{text}")).expect("it is registered")
}

fn ensemble<'a>(
    workload: &'a Workload,
    nr_cpus: u32,
    contenders: &'a [Subject],
    seeds: &'a [u64],
    jobs: usize,
) -> Ensemble<'a> {
    Ensemble {
        workload,
        topology: Topology::flat(nr_cpus).unwrap(),
        duration: None,
        contenders,
        seeds,
        perturb: Some(Perturb::new(0)),
        jobs,
    }
}

fn measures(samples: &Samples, contender: usize) -> Vec<&MetricValues> {
    samples.runs[contender].iter().map(|run| run.as_ref().unwrap()).collect()
}

const MS: u64 = 1_000_000;

/// ```text
/// fifo   AAAA...AAAABBBB...BBBBC      C comes last: waits for both others, 200 ms
/// rr     AAAABBBBC                    for a quantum of each, 20 ms
/// ```
/// Starts are perturbed by up to 4 ms, which decides who comes first; the waits of C follow from the starts.
#[test]
fn first_in_first_out_against_round_robin_by_formula() {
    let workload = workload(&[&[Run(100)], &[Run(100)], &[Run(1)]]);
    let seeds: Vec<u64> = (1..=24).collect();
    let contenders = [contender("fifo", &[]), contender("rr", &[("quantum", "10ms")])];
    let ensemble = ensemble(&workload, 1, &contenders, &seeds, 2);
    let samples = Samples::of(&ensemble, |_| {}).unwrap();
    let c = samples.subjects.iter().position(|subject| subject.label == "C").unwrap();
    let delay = find("run_delay", "max").unwrap();
    let expected: Vec<[u64; 2]> = seeds
        .iter()
        .map(|&seed| {
            let mut program = Program::new(&workload).unwrap();
            program.perturb(&Perturb::new(seed), |_| false);
            let starts = [0, 1, 2].map(|task| program.tasks[task].start_after.as_ns());
            let first = starts.iter().min().unwrap();
            let before = starts[..2].iter().filter(|start| **start <= starts[2]).count() as u64;
            if before == 0 {
                return [0, 0];
            }
            [100 * MS, 10 * MS].map(|stay| first + before * stay - starts[2])
        })
        .collect();
    for sched in 0..2 {
        let got = measures(&samples, sched);
        for (run, expected) in got.iter().zip(&expected) {
            assert_eq!(run.subjects[c][delay.0], Some(expected[sched] as f64));
        }
    }
    let spread: std::collections::BTreeSet<u64> =
        expected.iter().map(|waits| waits[0] / (100 * MS)).collect();
    assert!(spread.len() >= 2, "the seeds decide who comes first: {expected:?}");
    let comparison = Comparison::new(&samples, 1, 0.95);
    let change = comparison.subjects.iter().find(|s| s.subject == Some(c) && s.metric == delay).unwrap();
    let mean = expected.iter().map(|[fifo, rr]| *rr as f64 - *fifo as f64).sum::<f64>() / 24.0;
    assert!((change.difference.mean - mean).abs() < 1.0);
    assert_eq!(change.verdict, Significance::Changed);
    // what the machine as a whole does: one CPU that always works is done at the same time under both
    let makespan = comparison.changes.iter().find(|s| s.metric == find("makespan", "").unwrap()).unwrap();
    assert_eq!((makespan.verdict, makespan.difference.mean), (Significance::NotShown, 0.0));
    // the share error of first in, first out is the larger one
    let share = comparison.changes.iter().find(|s| s.metric == find("share_error", "").unwrap()).unwrap();
    assert!(share.verdict == Significance::Changed && share.difference.high < 0.0);
}

fn sleepers(nr_tasks: usize) -> Workload {
    let lives: Vec<Vec<Life>> =
        (0..nr_tasks).map(|i| (0..20).flat_map(|_| [Run(2 + i as u64), Sleep(3)]).collect()).collect();
    workload(&lives.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// The same scheduler with the same seeds: not even a nanosecond.
#[test]
fn nothing_differs_from_itself() {
    let workload = sleepers(6);
    let contenders = [contender("rr", &[]), contender("rr", &[])];
    let seeds: Vec<u64> = (1..=8).collect();
    let samples = Samples::of(&ensemble(&workload, 2, &contenders, &seeds, 2), |_| {}).unwrap();
    assert_eq!(samples.runs[0], samples.runs[1]);
    assert!(measures(&samples, 0).windows(2).any(|pair| pair[0] != pair[1]), "seeds give different runs");
    let comparison = Comparison::new(&samples, 1, 0.95);
    assert!(comparison.changes.len() > 15);
    for change in comparison.changes.iter().chain(&comparison.subjects) {
        assert_eq!((change.verdict, change.difference.mean), (Significance::NotShown, 0.0));
    }
}

/// The same scheduler with other seeds on each side: noise, of which at most 5 % of the comparisons may make
/// a difference. Of 30, more than 5 have a probability of 0.3 % if it is exactly 5 %.
#[test]
fn noise_is_no_difference() {
    let workload = sleepers(5);
    let contenders = [contender("rr", &[])];
    let mut found = 0;
    for round in 0..30u64 {
        let side = |half: u64| {
            let first = 1 + 20 * round + 10 * half;
            let seeds: Vec<u64> = (first..first + 10).collect();
            Samples::of(&ensemble(&workload, 2, &contenders, &seeds, 2), |_| {}).unwrap()
        };
        let (mut samples, other) = (side(0), side(1));
        samples.runs.extend(other.runs);
        let comparison = Comparison::new(&samples, 1, 0.95);
        found += u32::from(comparison.changed().next().is_some());
    }
    assert!(found <= 5, "{found} of 30 comparisons of a scheduler with itself found a difference");
}

#[test]
fn the_number_of_workers_changes_nothing() {
    let workload = sleepers(4);
    let contenders = [contender("rr", &[]), contender("lottery", &[]), contender("eevdf", &[])];
    let seeds = [3, 1, 7];
    let results: Vec<(Samples, String)> = [1, 2, 5]
        .into_iter()
        .map(|jobs| {
            let ensemble = ensemble(&workload, 2, &contenders, &seeds, jobs);
            let samples = Samples::of(&ensemble, |_| {}).unwrap();
            let compared = Compared::new("sleepers", &ensemble, samples.clone(), 0.95, &[]);
            (samples, page::json(&[compared], &[]).to_string())
        })
        .collect();
    assert!(
        results[0] == results[1] && results[0] == results[2],
        "{} jobs differ",
        if results[0] == results[1] { 5 } else { 2 }
    );
    // lottery draws from the seed
    assert_ne!(measures(&results[0].0, 1)[0], measures(&results[0].0, 1)[1]);
}

/// Runs every task to its end, but forgets the third that is enqueued if it comes late.
struct Forgetful {
    queue: Vec<TaskId>,
    forgets: bool,
}

impl Policy for Forgetful {
    fn task_new(&mut self, _: &View, _: TaskId) {}
    fn select_cpu(&mut self, view: &View, task: TaskId, _: Arrival) -> CpuId {
        view.home_cpu(task)
    }
    fn enqueue(&mut self, view: &View, _: CpuId, task: TaskId, arrival: Arrival) {
        // an odd nanosecond, which only some seeds give
        self.forgets |= matches!(arrival, Arrival::Wakeup { .. }) && view.now().as_ns() % 2 == 1;
        if !self.forgets {
            self.queue.push(task);
        }
    }
    fn dequeue(&mut self, _: &View, _: CpuId, task: TaskId) {
        self.queue.retain(|&t| t != task);
    }
    fn pick_next(&mut self, _: &View, _: CpuId) -> Option<TaskId> {
        (!self.queue.is_empty()).then(|| self.queue.remove(0))
    }
    fn put_prev(&mut self, _: &View, _: CpuId, task: TaskId, _: Span, stop: Stop) {
        if stop.is_runnable() {
            self.queue.push(task);
        }
    }
}

static FORGETFUL: PolicyInfo = PolicyInfo::new("forgetful", "", "", &[], |_| {
    Ok(Box::new(Forgetful { queue: Vec::new(), forgets: false }))
});

/// A scheduler that breaks its contract under some seeds is reported; the other seeds are compared all the same.
#[test]
fn a_misbehaving_scheduler_costs_its_own_runs_only() {
    let workload = workload(&[&[Run(1), Sleep(2), Run(1)]]);
    let forgetful =
        Subject { label: "forgetful".into(), scheduler: Scheduler::Native(&FORGETFUL), params: vec![] };
    let contenders = [contender("fifo", &[]), forgetful];
    let seeds: Vec<u64> = (1..=12).collect();
    let ensemble = ensemble(&workload, 1, &contenders, &seeds, 2);
    let samples = Samples::of(&ensemble, |_| {}).unwrap();
    assert!(samples.runs[0].iter().all(Result::is_ok));
    let failures: Vec<_> = samples.runs[1].iter().filter_map(|run| run.as_ref().err()).collect();
    assert!(!failures.is_empty() && failures.len() < 12, "{} failures", failures.len());
    assert!(failures.iter().all(|f| f.kind == FailureKind::Misbehaved && f.reason.contains("lost task")));
    let nr_failures = failures.len();
    let compared = Compared::new("w", &ensemble, samples, 0.95, &[]);
    assert_eq!(compared.comparisons[0].nr_pairs, 12 - nr_failures);
    assert_eq!(compared.worst_failure(), Some(FailureKind::Misbehaved));
    let text = page::terminal(&compared, &[], Tasks::Most(8), Style::PLAIN);
    assert!(text.contains(&format!("{nr_failures} of 12 runs failed")), "{text}");
}

/// Lines fit the terminal, pages load nothing, and the page has the conditions' outcomes.
#[test]
fn results_are_shown() {
    let workload = sleepers(9);
    let contenders =
        [contender("fifo", &[]), contender("rr", &[("quantum", "1ms")]), contender("eevdf", &[])];
    let seeds: Vec<u64> = (1..=6).collect();
    let ensemble = ensemble(&workload, 2, &contenders, &seeds, 2);
    let gates: Vec<Gate> =
        ["p99>5%", "A:delay.p99>1s", "migrations>+1"].map(|text| text.parse().unwrap()).to_vec();
    let compared =
        Compared::new("sleepers", &ensemble, Samples::of(&ensemble, |_| {}).unwrap(), 0.95, &gates);
    let text = page::terminal(&compared, &gates, Tasks::Most(8), Style::PLAIN);
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(text.contains("B against A") && text.contains("rr:quantum=1ms") && text.contains("preemptions"));
    assert!(text.contains("A:delay.p99>1s") && text.contains("not met"));
    let page = page::html("t < u", std::slice::from_ref(&compared), &gates, "schedlab compare");
    let without_names = page.replace("http://www.w3.org/2000/svg", "");
    assert!(
        ["http:", "https:", "@import", "src=", "<script"]
            .iter()
            .all(|outside| !without_names.contains(outside))
    );
    assert!(page.contains("t &lt; u") && page.matches("<svg").count() >= 3);
    let json = page::json(&[compared], &gates);
    assert_eq!(json["schema"], 1);
    let scenario = &json["scenarios"][0];
    assert_eq!(scenario["contenders"][1]["params"]["quantum"], "1ms");
    assert_eq!(scenario["contenders"][1]["values"]["run_delay.p99"].as_array().unwrap().len(), 6);
    assert_eq!(scenario["gates"].as_array().unwrap().len(), 6);
    assert!(scenario["comparisons"][0]["changes"][0]["difference"]["low"].is_number());
}
