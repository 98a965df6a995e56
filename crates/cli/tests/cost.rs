//! What operations cost, counted in instructions by valgrind: flat, logarithmic and linear costs are known
//! apart whatever the host's load.

mod common;

use common::{has_linux, json, schedlab};
use serde_json::Value;

fn has_valgrind() -> bool {
    let there = std::process::Command::new("valgrind").arg("--version").output().is_ok();
    if !there {
        eprintln!("SKIPPED: valgrind is missing (apt-get install valgrind; `make test` does that)");
    }
    there
}

struct Costs(Value);

impl Costs {
    fn of(scheds: &str, clients: &str) -> Costs {
        Costs(json(&[
            "fairness",
            "cost",
            "--sched",
            scheds,
            "--clients",
            clients,
            "--repetitions",
            "1",
            "--json",
            "-",
        ]))
    }
    fn get(&self, sched: &str, nr_clients: u32, column: &str) -> f64 {
        let rows = self.0["tables"][0]["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["sched"] == sched && row["nr_clients"] == nr_clients);
        let row = row.unwrap_or_else(|| panic!("{sched} with {nr_clients} clients"));
        row[column].as_f64().unwrap_or_else(|| panic!("{column} of {row}: {}", self.0["remarks"]))
    }
    fn select(&self, sched: &str, nr_clients: u32) -> f64 {
        self.get(sched, nr_clients, "select_instructions")
    }
}

/// VTRR is flat, a list linear, a heap logarithmic: the paper's figure of costs.
#[test]
fn flat_linear_and_logarithmic() {
    if !has_valgrind() {
        return;
    }
    let costs = Costs::of("vtrr,wfq,wfq-list", "10,100,1000,10000");
    for n in [100, 1_000, 10_000] {
        let ratio = costs.select("vtrr", n) / costs.select("vtrr", 10);
        assert!((0.9..1.1).contains(&ratio), "VTRR with {n} clients: {ratio}");
    }
    // ten times the clients, ten times the cost; a tenth less for what does not grow
    let list = [100, 1_000, 10_000].map(|n| costs.select("wfq-list", n));
    assert!(list.windows(2).all(|pair| (8.0..10.5).contains(&(pair[1] / pair[0]))), "{list:?}");
    // equal steps for equal factors, and no more
    let heap = [10, 100, 1_000, 10_000].map(|n| costs.select("wfq", n));
    let steps: Vec<f64> = heap.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step > 0.4 * steps[0] && *step < 2.5 * steps[0]), "{heap:?}");
    assert!(heap[3] < 3.0 * heap[0] && list[2] > 20.0 * heap[3], "{heap:?} {list:?}");
}

/// VTRR's insertion: by walking it is linear, by array and between remembered neighbours flat, by tree in
/// between. Resetting counters by a pass or incrementally gives equal schedules, and costs the same per
/// decision once the pass is spread over its cycle.
#[test]
fn insertion_variants() {
    if !has_valgrind() {
        return;
    }
    let costs = Costs::of("vtrr,vtrr:insert=list,vtrr:insert=array,vtrr:insert=tree", "100,10000");
    let growth = |sched: &str| {
        costs.get(sched, 10_000, "enqueue_instructions") / costs.get(sched, 100, "enqueue_instructions")
    };
    assert!(growth("vtrr:insert=list") > 30.0, "{}", growth("vtrr:insert=list"));
    for flat in ["vtrr", "vtrr:insert=array"] {
        assert!((0.7..1.4).contains(&growth(flat)), "{flat}: {}", growth(flat));
    }
    assert!((1.0..4.0).contains(&growth("vtrr:insert=tree")), "{}", growth("vtrr:insert=tree"));
}

/// Real Linux keeps its runnable tasks in a balanced tree: ten times as many cost a constant more.
#[test]
fn real_linux_is_logarithmic() {
    if !has_valgrind() || !has_linux() {
        return;
    }
    let costs = Costs::of("linux-6.12", "10,100,1000");
    for column in ["select_instructions", "dequeue_instructions", "enqueue_instructions"] {
        let counted = [10, 100, 1_000].map(|n| costs.get("linux-6.12", n, column));
        assert!(counted[0] > 100.0, "{column}: {counted:?}");
        // the second decade costs what the first did (linear: ten times as much); a tenth of the whole is
        // noise of what is inlined where
        let (first, second) = (counted[1] - counted[0], counted[2] - counted[1]);
        assert!(second < 2.0 * first.max(0.1 * counted[0]), "{column}: {counted:?}");
    }
    assert!(costs.get("linux-6.12", 100, "select_wall_ns") > 0.0);
}

/// PRAcTISE's figure 3, in instructions: a change of cpupri is cheaper than one of cpudl, a search of cpudl than one of
/// cpupri; a search of cpupri looks at fewer levels the more CPUs there are.
#[test]
#[ignore = "long: twelve task sets under callgrind, three minutes"]
fn published_order_of_cpupri_and_cpudl() {
    if !has_valgrind() || !has_linux() {
        return;
    }
    let line =
        ["reproduce", "practise", "--cpus", "2,16", "--duration", "200ms", "--cycles", "2000", "--json", "-"];
    let pages = json(&line);
    let rows = |name: &str| {
        let tables = pages["tables"].as_array().unwrap();
        tables.iter().find(|table| table["name"] == name).unwrap()["rows"].as_array().unwrap().clone()
    };
    let statements = rows("statements");
    assert_eq!(
        [0, 1].map(|at: usize| statements[at]["verdict"].clone()),
        ["holds", "holds"],
        "{statements:?}"
    );
    let mean = |structure: &str, operation: &str, cpus: u32| {
        let rows = rows("figure-3");
        let is_it = |row: &&Value| {
            row["structure"] == structure && row["operation"] == operation && row["cpus"] == cpus
        };
        rows.iter().find(is_it).unwrap()["mean"].as_f64().unwrap()
    };
    assert!(mean("cpudl", "modify", 16) > 2.0 * mean("cpupri", "modify", 16));
    assert!(mean("cpupri", "query", 2) > 2.0 * mean("cpupri", "query", 16));
    assert!(rows("table-2").iter().all(|row| row["evidence"].as_str().is_some_and(|sum| sum.len() == 64)));
}

/// Host times need no valgrind.
#[test]
fn times_without_valgrind() {
    let output = schedlab(&[
        "fairness",
        "cost",
        "--sched",
        "vtrr,fifo",
        "--clients",
        "1,20",
        "--no-instructions",
        "--json",
        "-",
    ]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = answer["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(
        rows.iter()
            .all(|row| row["select_wall_ns"].as_f64().unwrap() > 0.0 && row["select_instructions"].is_null())
    );
}
