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
