//! Does the book's reference have everything that the program writes, and nothing else?

mod common;

use common::{json, root};
use schedlab_log::LOG_COLUMNS;
use schedlab_report::json_fields::{field_tables, json_schema};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Where pages have tables that are written from the program.
const MADE: &str = "made by `REFERENCE_WRITE=1 cargo test -p schedlab --test reference` -->\n";

/// The part of a page that is called `name` is `text`; it is written if the environment asks for that.
fn is_written_from_the_program(page: &str, name: &str, text: &str) {
    let path = root().join(page);
    let all = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = all.split_once(&format!("<!-- {name}: {MADE}")).expect("the part's first line");
    let (part, tail) = rest.split_once(&format!("<!-- end of {name} -->\n")).expect("the part's last line");
    if std::env::var_os("REFERENCE_WRITE").is_some() {
        let new = format!("{head}<!-- {name}: {MADE}{text}<!-- end of {name} -->\n{tail}");
        std::fs::write(&path, new).expect("the page is written");
    } else {
        assert_eq!(part, text, "{page} is out of date; make it anew as its comment says");
    }
}

#[test]
fn the_pages_tables_are_those_of_the_program() {
    is_written_from_the_program("docs/json.md", "fields", &(field_tables() + "\n"));
    let mut columns = String::from("\n| column | type | meaning |\n|---|---|---|\n");
    for column in LOG_COLUMNS {
        let _ = writeln!(columns, "| `{}` | {} | {} |", column.name, column.type_name(), column.help);
    }
    is_written_from_the_program("docs/logs.md", "columns", &(columns + "\n"));
}

/// What is wrong with a value by a schema, of which `type`, `properties`, `required`, `items`, `minimum`, `maximum` and
/// `const` are all that ours uses; a field without schema is wrong, too. Notes which properties occurred.
fn check(value: &Value, schema: &Value, place: &str, seen: &mut BTreeSet<String>, faults: &mut Vec<String>) {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{place}: the schema has a type '{other}'"),
    };
    let allowed: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        other => panic!("{place}: the schema's type is {other}"),
    };
    if !allowed.iter().any(|name| is(name)) {
        faults.push(format!("{place} is {value}, not {allowed:?}"));
    }
    let number = value.as_f64();
    let beyond = |limit: &str, is_beyond: fn(f64, f64) -> bool| {
        number.zip(schema[limit].as_f64()).is_some_and(|(number, limit)| is_beyond(number, limit))
    };
    if beyond("minimum", |number, limit| number < limit) || beyond("maximum", |number, limit| number > limit)
    {
        faults.push(format!("{place} is {value}, beyond its limit"));
    }
    if schema["const"] != Value::Null && schema["const"] != *value {
        faults.push(format!("{place} is {value}, not {}", schema["const"]));
    }
    for item in value.as_array().into_iter().flatten().filter(|_| schema["items"] != Value::Null) {
        check(item, &schema["items"], &format!("{place}[]"), seen, faults);
    }
    let (Some(map), Some(properties)) = (value.as_object(), schema["properties"].as_object()) else { return };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            faults.push(format!("{place}.{name} is missing"));
        }
    }
    for (name, value) in map {
        let place = format!("{place}.{name}");
        match properties.get(name) {
            Some(schema) => check(value, schema, &place, seen, faults),
            None => faults.push(format!("{place} has no description")),
        }
        seen.insert(place);
    }
}

/// Every property of a schema.
fn all(schema: &Value, place: &str, names: &mut BTreeSet<String>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        all(inner, &place, names);
        all(&inner["items"], &format!("{place}[]"), names);
        names.insert(place);
    }
}

/// What these runs do not show: a sched_ext scheduler's counts; tasks and threads of which a recorder lost sight.
fn is_rare(name: &str) -> bool {
    let is_lost = |list: &str| name.contains(list);
    name == ".scheduler"
        || [".known_tasks", "tasks[].unknown", "kernel_threads[].unknown"].into_iter().any(is_lost)
}

#[test]
fn results_obey_the_json_schema_which_has_no_field_that_never_comes() {
    let schema = json_schema();
    let (mut seen, mut faults) = (BTreeSet::new(), Vec::new());
    let run = |workload: &'static str, cpus: &'static str, more: &[&'static str]| {
        let run = [
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
        json(&[&run, more].concat())
    };
    let elsewhere = format!("{}/elsewhere.txt", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&elsewhere, "1 INIT 0 0 100 runnable name=a affinity=5\n- EXIT 100 1ms\n").unwrap();
    let mut results = vec![
        json(&["--quiet", "run", &elsewhere, "--sched", "eevdf", "--cpus", "2", "--json", "-"]),
        run("samples/hand/cameras.txt", "1", &[]),
        run("samples/hackbench", "2", &["--seed", "1"]),
        run("samples/hand/rt.txt", "2", &["--param", "base_slice=1ms"]),
        json(&["--quiet", "report", "samples/compile", "--json", "-"]),
    ];
    if common::has_linux() {
        let real = ["--sched", "linux-6.12", "--cpus", "2", "--duration", "1s", "--json", "-"];
        results.push(json(&[&["--quiet", "run", "samples/hackbench"][..], &real].concat()));
    }
    for result in &results {
        check(result, &schema, "", &mut seen, &mut faults);
    }
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let mut described = BTreeSet::new();
    all(&schema, "", &mut described);
    let is_explained = |name: &str| name.ends_with(".explain") && !common::has_linux();
    let never: Vec<&String> =
        described.difference(&seen).filter(|name| !is_rare(name) && !is_explained(name)).collect();
    assert!(never.is_empty(), "no result has {never:?}");
}
