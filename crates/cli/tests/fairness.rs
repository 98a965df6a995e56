//! `schedlab fairness` and `schedlab reproduce vtrr` as scripts use them.

mod common;

use common::{fails, has_linux, json, schedlab};
use serde_json::Value;

/// The rows of a table of the answer.
fn rows<'a>(answer: &'a Value, table: &str) -> &'a [Value] {
    let tables = answer["tables"].as_array().expect("tables");
    let found = tables.iter().find(|t| t["name"] == table).unwrap_or_else(|| panic!("no table {table}"));
    found["rows"].as_array().expect("rows")
}

fn row<'a>(answer: &'a Value, table: &str, sched: &str) -> &'a Value {
    rows(answer, table).iter().find(|row| row["sched"] == sched).unwrap_or_else(|| panic!("no row {sched}"))
}

fn number(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column} is a number in {row}"))
}

/// The worked example of specs and docs/fairness.md: orders and exact errors for shares 3, 2, 1.
#[test]
fn the_worked_example() {
    let answer = json(&[
        "fairness",
        "--shares",
        "3,2,1",
        "--sched",
        "wrr,wfq,vtrr,sfq,wf2q,eevdf-1995,stride",
        "--json",
        "-",
    ]);
    for (sched, order, errors) in [
        ("wrr", "AAABBC", "-1 .. 3/2"),
        ("wfq", "ABAABC", "-5/6 .. 1"),
        ("stride", "ABAABC", "-5/6 .. 1"),
        ("vtrr", "ABCABA", "-1/2 .. 1/2"),
        ("sfq", "ABCABA", "-1/2 .. 1/2"),
        ("wf2q", "ABABAC", "-5/6 .. 2/3"),
        ("eevdf-1995", "ABABAC", "-5/6 .. 2/3"),
    ] {
        let row = row(&answer, "fairness-given", sched);
        assert_eq!((&row["order"], &row["error_exact"]), (&order.into(), &errors.into()), "{sched}");
    }
    let hundredfold =
        json(&["fairness", "--shares", "300,200,100", "--sched", "wrr,wfq,vtrr,wf2q", "--json", "-"]);
    for (sched, errors) in
        [("wrr", "-100 .. 150"), ("wfq", "-5/6 .. 1"), ("vtrr", "-1 .. 2/3"), ("wf2q", "-5/6 .. 2/3")]
    {
        assert_eq!(row(&hundredfold, "fairness-given", sched)["error_exact"], errors, "{sched}");
    }
}

/// A study is the same whatever the number of threads; its bounds are the published ones.
#[test]
fn a_small_study() {
    let study = |threads: &str| {
        let study = [
            "fairness",
            "--clients",
            "4,16",
            "--total",
            "64,256",
            "--combinations",
            "20",
            "--threads",
            threads,
        ];
        json(&[&study[..], &["--json", "-"]].concat())
    };
    let (one, three) = (study("1"), study("3"));
    assert_eq!(one, three);
    for row in rows(&one, "fairness-points") {
        let (low, high) = (number(row, "error_low_worst_tu"), number(row, "error_high_worst_tu"));
        match row["sched"].as_str().unwrap() {
            "wf2q" | "eevdf-1995" => assert!(low > -1.0 && high < 1.0, "{row}"),
            "wfq" | "stride" => assert!(low > -1.0, "{row}"),
            "sfq" => assert!(high < 1.0, "{row}"),
            _ => {}
        }
        assert!(row["sched"] == "lottery" || row["nr_inexact"] == 0, "{row}");
    }
}

/// Native schedulers that get nice values run in the machine: CFS gives each its weight's part within
/// half a per cent in 10 s.
#[test]
fn nice_values_side_by_side() {
    let answer = json(&["fairness", "--nice", "0,1,5,-3", "--sched", "vtrr,cfs-2.6.32,eevdf", "--json", "-"]);
    assert_eq!(rows(&answer, "fairness-given-clients").len(), 12);
    for row in rows(&answer, "fairness-given-clients") {
        assert!((number(row, "part_due") - number(row, "part_received")).abs() < 0.005, "{row}");
        assert_eq!(number(row, "part_due"), number(row, "part_asked"), "weights of nice values are exact");
    }
}

/// A7: real Linux, by nice and in control groups: once the start is over, nobody is more than a tick and a slice
/// (8 ms of 10) from its due.
#[test]
fn real_linux_side_by_side() {
    if !has_linux() {
        return;
    }
    let answer = json(&["fairness", "--shares", "3,2,1", "--sched", "vtrr,linux-6.12", "--json", "-"]);
    for sched in ["linux-6.12 nice", "linux-6.12 cpu.weight"] {
        let row = row(&answer, "fairness-given", sched);
        let (low, high) = (number(row, "settled_low_tu"), number(row, "settled_high_tu"));
        assert!(low > -0.8 && high < 0.8, "{row}");
        // what is left when the start is over is a part of all
        assert!(number(row, "error_low_tu") <= low && high <= number(row, "error_high_tu"), "{row}");
    }
    assert_eq!(number(row(&answer, "fairness-given", "linux-6.12 cpu.weight"), "off_percent"), 0.0);
}

/// Drawn cases with real Linux in them: all arms see the same clients.
#[test]
fn clients_that_come_and_go() {
    let mut scheds = "vtrr,eevdf-1995,eevdf".to_string();
    if has_linux() {
        scheds += ",linux-6.12";
    }
    let answer = json(&[
        "fairness", "dynamic", "--quanta", "3000", "--change", "500", "--sched", &scheds, "--json", "-",
    ]);
    let rows = rows(&answer, "fairness-dynamic");
    assert!(
        rows.iter().all(|row| row["nr_changes"] == rows[0]["nr_changes"] && number(row, "nr_joins") > 50.0)
    );
    assert!(answer["remarks"][0].as_str().unwrap().contains("runnable now"), "the definition is stated");
}

#[test]
fn a_written_case() {
    let answer = json(&[
        "fairness",
        "dynamic",
        "--shares",
        "1,1,2",
        "--event",
        "100:C:join,200:A:share=2,300:B:sleep",
        "--quanta",
        "400",
        "--sched",
        "vtrr,wfq",
        "--json",
        "-",
    ]);
    for sched in ["vtrr", "wfq"] {
        let row = row(&answer, "fairness-dynamic", sched);
        assert_eq!((&row["nr_joins"], &row["nr_changes"]), (&3.into(), &1.into()));
    }
}

#[test]
fn bad_usage_is_refused() {
    for (args, expected) in [
        (&["fairness", "--shares", "3,0"][..], "whole number from 1"),
        (&["fairness", "--shares", "3,x"], "invalid digit"),
        (&["fairness", "--sched", "nosuch"], "no scheduler 'nosuch'"),
        (&["fairness", "--sched", "vtrr:insert=heap", "--shares", "1"], "expected list"),
        (
            &["fairness", "--sched", "vtrr:insert", "--shares", "1"],
            "'insert' in 'vtrr:insert' is not KEY=VALUE",
        ),
        (&["fairness", "--clients", "9", "--total", "8"], "9 clients cannot have 8 shares"),
        (&["fairness", "--distribution", "normal"], "no distribution 'normal'"),
        (&["fairness", "--shares", "1", "--quantum", "0"], "--quantum 0"),
        (&["fairness", "--shares", "1,1", "--html", "/nowhere/x.html"], "folder"),
        (&["fairness", "dynamic", "--shares", "1,1", "--event", "1:C:sleep"], "client C does not exist"),
        (&["fairness", "dynamic", "--shares", "1,1", "--event", "1:A:wake,2:A:wake"], "is so already"),
        (&["fairness", "dynamic", "--event", "1:A:sleep"], "--shares"),
        (&["fairness", "cost", "--clients", "0"], "1 to 1,000,000"),
        (&["reproduce", "nosuch"], "nosuch"),
    ] {
        let (code, error) = fails(args);
        assert_eq!(code, 2, "{args:?}: {error}");
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}

#[test]
fn a_reproduction_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let output = schedlab(&["reproduce", "vtrr", "--no-cost", "--combinations", "2", "-o", path]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("unverified") && text.contains("A,B,C,A,B,A"), "{text}");
    for name in [
        "index.html",
        "vtrr-published.csv",
        "vtrr-frames.json",
        "surface-vtrr-wrr.svg",
        "frames.svg",
        "machines.svg",
    ] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}
