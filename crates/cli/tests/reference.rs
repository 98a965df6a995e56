//! Does the book's reference have everything that the program writes?

mod common;

use common::{json, root};
use serde_json::Value;
use std::collections::BTreeSet;

/// Every field's name in a value, at any depth; what stands in `params`, `dropped` and `scheduler` depends on the run.
fn fields(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                names.insert(name.clone());
                if !["params", "dropped", "scheduler"].contains(&name.as_str()) {
                    fields(value, names);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| fields(value, names)),
        _ => {}
    }
}

#[test]
fn the_page_on_json_has_every_field() {
    let page = std::fs::read_to_string(root().join("docs/json.md")).unwrap();
    let described: BTreeSet<&str> =
        page.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches("[]")).collect();
    let mut names = BTreeSet::new();
    for (workload, cpus) in
        [("samples/hand/cameras.txt", "1"), ("samples/hackbench", "2"), ("samples/hand/rt.txt", "2")]
    {
        let args = [
            "--quiet",
            "run",
            workload,
            "--sched",
            "eevdf",
            "--cpus",
            cpus,
            "--duration",
            "2s",
            "--json",
            "-",
        ];
        fields(&json(&args), &mut names);
    }
    let distributions = ["run_delay", "wakeup_latency", "response", "tardiness"];
    let of_distribution = |name: &str| {
        let name = name.strip_suffix("_ns")?;
        let stem =
            ["_mean", "_p50", "_p99", "_max"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        distributions.contains(&stem).then(|| stem.to_owned())
    };
    let missing: Vec<&String> = names
        .iter()
        .filter(|name| !described.contains(name.as_str()))
        .filter(|name| of_distribution(name).is_none_or(|stem| !described.contains(stem.as_str())))
        .collect();
    assert!(missing.is_empty(), "docs/json.md does not describe {missing:?}");
    assert!(names.len() > 80, "{names:?}");
}
