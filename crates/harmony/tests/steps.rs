//! Do steps do what they say, at one instant, and to nobody else?

use schedlab_harmony::facts::Facts;
use schedlab_harmony::plan::Plan;
use schedlab_harmony::toy::toy;
use schedlab_instruments::MoveKind;
use schedlab_topology::Topology;

/// Runs a plan on two CPUs under round robin without any balancing.
fn run(tasks: &str, steps: &str) -> Facts {
    run_under(&[], tasks, steps)
}

/// The same under a toy with parameters.
fn run_under(params: &[(String, String)], tasks: &str, steps: &str) -> Facts {
    let text = format!("name = \"t\"\ncpus = 2\nduration = \"1s\"\n{tasks}{steps}");
    let plan = Plan::parse("plan", &text).unwrap_or_else(|error| panic!("{error}"));
    let subject = toy("toy", params).unwrap();
    plan.scenario(1)
        .unwrap()
        .run(&subject, &Topology::flat(2).unwrap(), 1)
        .unwrap_or_else(|f| panic!("{}", f.reason))
}

fn at(facts: &Facts, ms: u64) -> Vec<u32> {
    facts.lengths_at(ms * 1_000_000)
}

const HOGS: &str = "[[tasks]]\nname = \"hog\"\ncounts = [4, 0]\n";

// ms    0         200        400        600
// cpu0  AAAABBBB..AABBAABB   CDCDCD     ABCD          4 hogs
// cpu1            CDCDCD     ABABAB                   [4,0], then [2,2], then [0,4], then back
#[test]
fn arrangements_take_hold_at_one_instant() {
    let step =
        |ms: u64, counts: &str| format!("[[steps]]\nat = \"{ms}ms\"\ndo = \"arrange\"\ncounts = {counts}\n");
    let facts = run(HOGS, &[step(200, "[2, 2]"), step(400, "[0, 4]"), step(600, "[4, 0]")].concat());
    assert_eq!(
        [199, 200, 399, 400, 599, 600, 999].map(|ms| at(&facts, ms)),
        [vec![4, 0], vec![2, 2], vec![2, 2], vec![0, 4], vec![0, 4], vec![4, 0], vec![4, 0]]
    );
    let times: std::collections::BTreeSet<u64> =
        facts.moves.iter().map(|moved| moved.time_ns / 1_000_000).collect();
    assert_eq!(times.into_iter().collect::<Vec<_>>(), [200, 400, 600], "nothing moves but at the steps");
}

// ms    0         100       300       500
// cpu0  AAAAAAAA  ........  AAAAAAA   .......       A is stopped, goes on, ends
// cpu1  .......             BBBBBBBBBBBBBBBB        B is asleep until a step starts it
#[test]
fn tasks_stop_go_on_end_and_start() {
    let tasks =
        "[[tasks]]\nname = \"a\"\ncounts = [1]\n[[tasks]]\nname = \"b\"\ncounts = [0, 1]\nasleep = true\n";
    let step = |ms: u64, act: &str, who: &str| {
        format!("[[steps]]\nat = \"{ms}ms\"\ndo = \"{act}\"\ntasks = \"{who}\"\n")
    };
    let steps =
        [step(100, "stop", "a"), step(300, "continue", "a"), step(300, "start", "b"), step(500, "end", "a")];
    let facts = run(tasks, &steps.concat());
    assert_eq!(
        [99, 101, 299, 301, 499, 501, 999].map(|ms| at(&facts, ms)),
        [vec![1, 0], vec![0, 0], vec![0, 0], vec![1, 1], vec![1, 1], vec![0, 1], vec![0, 1]]
    );
    assert_eq!(facts.cpu_ns, [300_000_000, 700_000_000]);
}

/// Released tasks stay under a scheduler that does not balance; a release to one CPU carries them there.
#[test]
fn a_release_moves_nobody_by_itself() {
    let release = |ms: u64, cpus: &str| format!("[[steps]]\nat = \"{ms}ms\"\ndo = \"release\"\n{cpus}");
    let facts = run(HOGS, &release(100, ""));
    assert!(facts.moves.is_empty(), "{:?}", facts.moves);
    let facts = run(HOGS, &release(100, "cpus = \"1\"\n"));
    assert_eq!([99, 101].map(|ms| at(&facts, ms)), [vec![4, 0], vec![0, 4]]);
}

/// The same answers for any number of runs at once, and for the same seed twice.
#[test]
fn answers_do_not_depend_on_how_many_run_at_once() {
    use schedlab_harmony::data::{Data, Effort};
    use schedlab_harmony::experiments::Depth;
    use schedlab_harmony::model::Model;
    let subject = toy("toy", &[("busy".into(), "40ms".into()), ("newidle".into(), "yes".into())]).unwrap();
    let topology = Topology::flat(2).unwrap();
    let json = |jobs, seed| {
        let effort = Effort { depth: Depth::Quick, seed, jobs };
        let data = Data::collect(&subject, &topology, effort, |_, _| {}).unwrap();
        Model::of(&data, "toy", "").json().to_string()
    };
    assert_eq!(json(1, 1), json(3, 1));
    assert_ne!(json(1, 1), json(1, 2));
}

// ms    0       300
// cpu0  ABCABC  BCBC        three hogs that may go anywhere from 1 ms on; A, B and C execute a program at 300 ms,
// cpu1          AAAA        each as soon as it has the CPU: the first is moved, and then no queue is shorter
#[test]
fn a_new_program_goes_on_where_the_scheduler_wants_it() {
    let hogs = "[[tasks]]\nname = \"hog\"\ncounts = [3, 0]\n";
    let steps = "[[steps]]\nat = \"1ms\"\ndo = \"release\"\n[[steps]]\nat = \"300ms\"\ndo = \"exec\"\n";
    let stays = run(hogs, steps);
    assert_eq!((at(&stays, 299), at(&stays, 999)), (vec![3, 0], vec![3, 0]));
    let moved = run_under(&[("exec".into(), "shortest".into())], hogs, steps);
    assert_eq!((at(&moved, 299), at(&moved, 400)), (vec![3, 0], vec![2, 1]));
    let kinds: Vec<MoveKind> = moved.moves.iter().map(|moved| moved.kind).collect();
    assert_eq!(kinds, [MoveKind::Exec]);
}
