//! `schedlab reproduce warp` and `run --costs` as scripts use them.

mod common;

use common::{fails, json};
use serde_json::Value;

fn rows<'a>(answer: &'a Value, table: &str) -> &'a [Value] {
    let tables = answer["tables"].as_array().expect("tables");
    let found = tables.iter().find(|t| t["name"] == table).unwrap_or_else(|| panic!("no table {table}"));
    found["rows"].as_array().expect("rows")
}

/// The published digits stand beside ours, and a replay is faster than the run that it replays.
#[test]
fn every_figure_has_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/gzip");
    let answer = json(&[
        "reproduce",
        "warp",
        sample,
        "--duration",
        "2s",
        "--samples",
        "1",
        "--repeats",
        "1",
        "--overhead-runs",
        "0",
        "--overhead-pairs",
        "5",
        "-o",
        out,
        "--json",
        "-",
    ]);
    let speed = rows(&answer, "warp-speed");
    assert_eq!(speed[0]["paper_speedup"], 1666.0);
    for row in speed {
        assert!(row["speedup"].as_f64().unwrap() > 1.0, "{row}");
        assert!(row["optimal_ms"].as_f64().unwrap() <= row["replay_ms"].as_f64().unwrap(), "{row}");
    }
    // section V.C: what could be measured here stands beside the published figure, and why not, if not
    let remarks = answer["remarks"].to_string();
    for row in rows(&answer, "warp-overhead").iter().filter(|row| row["what"] == "capture") {
        assert!(row["paper_us"].as_f64().unwrap() > 0.0);
        match row["here_us"].as_f64() {
            Some(us) => {
                let events = row["here"].as_str().unwrap();
                let of = ["sched", "syscalls:"]; // a change of priority is two system calls
                assert!(us < 100.0 && of.iter().any(|group| events.contains(group)), "{row}");
            }
            None => assert!(remarks.contains("could not be measured here"), "{row}: {remarks}"),
        }
    }
    // slices by the text of the paper: 2.4 and 2.6.7 at nice -20
    let slices: Vec<&Value> = rows(&answer, "warp-nice")
        .iter()
        .filter(|row| row["nice"] == -20 && row["what"] == "slice_ms")
        .collect();
    assert_eq!((slices[0]["here"].as_f64(), slices[1]["here"].as_f64()), (Some(110.0), Some(200.0)));
    for figure in ["figure5", "figure6", "figure7", "figure8", "figure9", "figure10"] {
        assert!(folder.path().join(figure).with_extension("svg").is_file(), "{figure}");
    }
}

/// What guests did is kept for both kernels and both benchmarks, at the paper's length.
#[test]
fn kept_runs_of_guests_are_there() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/warp.json"))
        .unwrap();
    let kept: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(kept.len(), 4);
    for run in &kept {
        assert_eq!(run["duration_ns"], 180_000_000_000u64);
        assert_eq!(run["levels"]["cpu_ms"].as_array().unwrap().len(), 5);
    }
}

/// A cost of 1 ms a switch slows a ping-pong down; a file that is wrong is refused with its place.
#[test]
fn costs_are_read_and_felt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("costs.toml");
    std::fs::write(&file, "switch = \"1ms\"\ntotal = \"added\"\n").unwrap();
    let workload = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/hand/pingpong.txt");
    let base = ["run", workload, "--sched", "fifo", "--cpus", "1", "--json", "-"];
    let plain = json(&base);
    let with: Vec<&str> = base.iter().copied().chain(["--costs", file.to_str().unwrap()]).collect();
    let costly = json(&with);
    let (short, long) = (plain["duration_ns"].as_u64().unwrap(), costly["duration_ns"].as_u64().unwrap());
    let switches = costly["switches"].as_u64().unwrap();
    assert!(long > short + (switches - 2) * 900_000, "{short} -> {long} with {switches} switches");
    assert_eq!(costly["params"]["costs"], "switch=1ms,total=added");
    std::fs::write(&file, "swich = \"1ms\"\n").unwrap();
    let (code, error) = fails(&with);
    assert_eq!(code, 2);
    assert!(error.contains("swich") && error.contains("costs.toml"), "{error}");
}
