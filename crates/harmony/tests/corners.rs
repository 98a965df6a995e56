//! Are CPUs that a policy overlooks found, and those that it does not?

use schedlab_harmony::answer::Answer;
use schedlab_harmony::data::{Data, One};
use schedlab_harmony::experiments::What;
use schedlab_harmony::questions;
use schedlab_harmony::toy::toy;
use schedlab_topology::Topology;

/// The answer to a question, by five runs of the experiment that it is asked with.
fn ask(params: &str, machine: &str, what: What, id: &str) -> Answer {
    let set: Vec<(String, String)> = params
        .split(':')
        .filter_map(|param| param.split_once('='))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let subject = toy(&format!("toy:{params}"), &set).unwrap();
    let topology: Topology = machine.parse().unwrap();
    let one = |seed: u64| {
        let mut scenario = what.scenario(&topology, seed).unwrap();
        let facts = scenario.run(&subject, &topology, seed).unwrap_or_else(|failure| panic!("{failure:?}"));
        scenario.workload = Default::default();
        One { seed, scenario, facts }
    };
    let runs = [(what, (1..=5).map(one).collect())].into();
    let data = Data { runs, failed: Vec::new(), topology };
    questions::answers(&data).into_iter().find(|answer| answer.id == id).unwrap()
}

const SIBLINGS: &str = "packages=1,llcs=1,cores=2,smt=2";

/// Nobody looks; or an idle CPU looks each 10 ms. It takes waiting tasks only, and the hog waits at three of ten looks.
#[test]
fn a_task_leaves_a_robbed_cpu_where_idle_cpus_look() {
    let ask = |params| ask(params, SIBLINGS, What::Reduced, "reduced_capacity");
    assert_eq!(ask("newidle=no").answer, "no");
    let leaves = ask("idle=10ms");
    assert_eq!(leaves.answer, "yes", "{leaves:?}");
}

#[test]
fn a_small_cpu_has_work_as_soon_as_it_looks() {
    let ask = |params| ask(params, "laptop", What::Little, "little_idle_ms");
    let never = ask("newidle=no");
    assert!(never.samples.iter().all(|ms| *ms > 1000.0), "{never:?}");
    let soon = ask("idle=10ms");
    assert!(soon.samples.len() == 5 && soon.samples.iter().all(|ms| *ms <= 10.1), "{soon:?}");
}

#[test]
fn who_takes_what_both_cpus_of_a_core_may_take() {
    let ask = |params| ask(params, SIBLINGS, What::Sibling, "busy_beside_idle");
    let idle = ask("idle=10ms");
    assert_eq!((idle.answer.as_str(), idle.runs > 1000), ("no", true), "{idle:?}");
    let busy = ask("busy=60ms");
    assert_eq!(busy.answer, "yes", "{busy:?}");
    assert!(busy.value.is_some_and(|share| share.mean == 1.0), "{busy:?}");
}
