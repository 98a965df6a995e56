//! Recordings of other tools, and rt-app's descriptions: told by content, imported, run on the fly, refused
//! with a sentence.

mod common;

use common::{fails, json, number, root, schedlab};

const RECORDINGS: [(&str, &str); 8] = [
    ("trace.dat", "trace.dat"),
    ("perf.data", "perf.data"),
    ("perf-pipe.data", "perf.data"),
    ("ftrace.txt", "text"),
    ("report.txt", "text"),
    ("compact.perfetto", "perfetto"),
    ("packed.perfetto", "perfetto"),
    ("plain.perfetto", "perfetto"),
];

#[test]
fn the_content_tells_the_format() {
    let folder = tempfile::tempdir().unwrap();
    // Every thread that the kernel's own text names, the idle task apart.
    let text = std::fs::read_to_string(root().join("samples/tools/ftrace.txt")).unwrap();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '=');
    let pids =
        words.filter_map(|word| word.split_once("pid=")?.1.parse::<u32>().ok()).filter(|pid| *pid != 0);
    let nr_tasks = pids.collect::<std::collections::BTreeSet<u32>>().len() as u64;
    for (name, format) in RECORDINGS {
        // The name says nothing, or something wrong.
        let path = folder.path().join("recording.json");
        std::fs::copy(root().join("samples/tools").join(name), &path).unwrap();
        let facts = json(&["--quiet", "import", path.to_str().unwrap(), "--json", "-"]);
        assert_eq!(facts["format"], format, "{name}");
        assert_eq!(number(&facts, "trace_events"), 384, "{name}");
        assert_eq!(number(&facts, "tasks"), nr_tasks, "{name}");
    }
    let facts = json(&["--quiet", "import", "samples/rtapp/player.json", "--json", "-"]);
    assert_eq!((&facts["format"], number(&facts, "tasks")), (&"rt-app".into(), 6));
    let facts = json(&["--quiet", "import", "samples/hand/figure1.txt", "--json", "-"]);
    assert_eq!(facts["format"], "workload");
}

#[test]
fn any_of_them_runs_on_the_fly() {
    let paths = RECORDINGS.map(|(name, _)| format!("samples/tools/{name}"));
    for path in paths.iter().map(String::as_str).chain(["samples/rtapp/player.json"]) {
        let result = json(&["--quiet", "run", path, "--sched", "fifo", "--cpus", "2", "--json", "-"]);
        assert_eq!(result["end"], "every task is done", "{path}");
        assert!(number(&result, "cpu_ns") > 10_000_000, "{path}");
    }
}

#[test]
fn an_import_can_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    for form in ["w.txt", "w.wlb"] {
        let path = folder.path().join(form);
        let path = path.to_str().unwrap();
        assert!(schedlab(&["--quiet", "import", "samples/rtapp/player.json", "-o", path]).status.success());
        let run = |workload: &str| {
            let result =
                json(&["--quiet", "run", workload, "--sched", "eevdf", "--cpus", "2", "--json", "-"]);
            (number(&result, "duration_ns"), number(&result, "switches"), number(&result, "cpu_ns"))
        };
        assert_eq!(run(path), run("samples/rtapp/player.json"));
    }
}

#[test]
fn damage_is_refused_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    let path_text = path.to_str().unwrap();
    for (name, _) in RECORDINGS {
        let bytes = std::fs::read(root().join("samples/tools").join(name)).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() * 2 / 3 + 1]).unwrap();
        let (code, text) = fails(&["import", path_text]);
        assert_eq!(code, 2, "{name}: {text}");
        assert!(
            text.contains(path_text) && text.contains("cut short") && !text.contains("panicked"),
            "{name}: {text}"
        );
    }
    for name in ["perf-pipe.data", "ftrace.txt", "plain.perfetto"] {
        let bytes = std::fs::read(root().join("samples/tools").join(name)).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() * 2 / 3 + 1]).unwrap();
        let facts = json(&["--quiet", "import", path_text, "--lenient", "--json", "-"]);
        let dropped = facts["dropped"].as_object().unwrap();
        assert!(dropped.keys().any(|reason| reason.contains("left out")), "{name}: {dropped:?}");
    }
    std::fs::write(&path, "{ \"tasks\": { \"a\": { \"run\": \"long\" } } }").unwrap();
    let (code, text) = fails(&["run", path_text, "--sched", "fifo", "--cpus", "1"]);
    assert_eq!(code, 2);
    assert!(text.contains("line 1, column 28") && text.contains("a whole number"), "{text}");
}

#[test]
fn a_part_of_a_recording_is_taken_in_its_own_time() {
    let import = |more: &[&str]| {
        let all = ["--quiet", "import", "samples/gzip", "--keep-interrupts", "--json", "-"];
        json(&[&all[..], more].concat())
    };
    // outside: refused, with the times that the recording has
    let (code, text) = fails(&["import", "samples/gzip", "--from", "0"]);
    assert_eq!(code, 2, "{text}");
    let held = text.split_once("which holds ").expect("the times that there are").1;
    let times: Vec<f64> = held.split([' ', ':']).filter_map(|word| word.parse().ok()).collect();
    let (first, last) = (times[0], times[1]);
    assert!(text.contains("trace.dat: --from 0.000000000 is outside"), "{text}");
    let middle = format!("{:.9}", (first + last) / 2.0);
    let beyond = format!("{:.9}", last + 1.0);
    for (args, says) in [
        (["--to", &beyond], "is outside the recording"),
        (["--from", "soon"], "is not a time of a recording: seconds as tools print them, 12345.678901"),
    ] {
        let (code, text) = fails(&[&["import", "samples/gzip"], &args[..]].concat());
        assert!(code == 2 && text.contains(says), "{text}");
    }
    let empty = ["run", "samples/gzip", "--sched", "fifo", "--cpus", "1", "--from", &middle, "--to", &middle];
    let (code, text) = fails(&empty);
    assert!(code == 2 && text.contains("is empty: --to is to be later than --from"), "{text}");
    for path in ["samples/hand/figure1.txt", "samples/rtapp/player.json", "samples/mix/desktop.toml"] {
        let (code, text) = fails(&["run", path, "--sched", "fifo", "--cpus", "1", "--from", "1"]);
        assert!(code == 2 && text.contains("--from and --to are times of a recording"), "{text}");
    }
    // the two halves have all events of the whole, and each its own time
    let (whole, early, late) = (import(&[]), import(&["--to", &middle]), import(&["--from", &middle]));
    for count in ["trace_events", "switches", "trace_duration_ns"] {
        assert_eq!(number(&early, count) + number(&late, count), number(&whole, count), "{count}");
        assert!(number(&early, count).min(number(&late, count)) > 0, "{count}");
    }
    assert!(late["notes"]["part of the recording"].as_str().unwrap().starts_with(&middle), "{late}");
    // a run of a part is a run of its workload
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("late.txt");
    let kept = kept.to_str().unwrap();
    assert!(schedlab(&["--quiet", "import", "samples/gzip", "--from", &middle, "-o", kept]).status.success());
    let run = |args: &[&str]| {
        let all = [&["--quiet", "run"], args, &["--sched", "fifo", "--cpus", "2", "--json", "-"]].concat();
        let result = json(&all);
        (number(&result, "duration_ns"), number(&result, "switches"), number(&result, "cpu_ns"))
    };
    assert_eq!(run(&["samples/gzip", "--from", &middle]), run(&[kept]));
}
