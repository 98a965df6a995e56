//! Descriptions, keys, datasets: what is asked for is made once, and stays.

use schedlab_lab::{Fails, FailureKind, Silent};
use schedlab_sweep::{
    Asked, Asking, Bench, Key, RunOptions, Store, Sweep, SweepError, SweepSummary, SweptRun, Trial, dataset,
    run,
};
use std::path::Path;

fn parse(text: &str) -> Result<Sweep, SweepError> {
    Sweep::parse("s.toml", text, Path::new("."))
}

fn commands(text: &str) -> Vec<String> {
    let sweep = parse(text).unwrap_or_else(|error| panic!("{error}"));
    sweep.trials().map(|trial| trial.command().trim_start_matches("schedlab run ").to_owned()).collect()
}

/// Everything that is varied twice.
#[test]
fn a_description_is_the_product_of_its_parts_less_what_is_left_out() {
    let text = r#"
        [grid]
        workload = "w.txt"
        sched = ["fifo", "rr"]
        seed = "1-2,5"
        [zip]
        cpus = [1, 2]
        duration = ["1s", "2s"]
        [[except]]
        sched = "rr"
        cpus = { min = 2 }
        [[except]]
        duration = { max = "1000ms" }
        seed = 5
    "#;
    assert_eq!(parse(text).unwrap().nr_candidates(), 12);
    let expected = [
        "w.txt --sched fifo --cpus 1 --duration 1s --seed 1",
        "w.txt --sched fifo --cpus 2 --duration 2s --seed 1",
        "w.txt --sched fifo --cpus 1 --duration 1s --seed 2",
        "w.txt --sched fifo --cpus 2 --duration 2s --seed 2",
        "w.txt --sched fifo --cpus 2 --duration 2s --seed 5",
        "w.txt --sched rr --cpus 1 --duration 1s --seed 1",
        "w.txt --sched rr --cpus 1 --duration 1s --seed 2",
    ];
    assert_eq!(commands(text), expected);
    let only = format!("{text}\n[[only]]\nsched = [\"rr\", \"bfs\"]\n");
    assert_eq!(commands(&only), expected[5..]);
}

#[test]
fn kernels_flavours_ranges_and_rows() {
    let text = r#"
        [grid]
        workload = "w.txt"
        machine = "packages=2,cores=2"
        kernel = ["6.12", "7.2"]
        flavour = ["", "uclamp"]
        param.base_slice_ns = { from = 100000, to = 10000000, count = 3, scale = "log" }
    "#;
    let all = commands(text);
    assert_eq!(all.len(), 12);
    assert_eq!(all[0], "w.txt --sched linux-6.12 --machine packages=2,cores=2 --param base_slice_ns=100000");
    assert!(all[4].contains("linux-6.12+uclamp") && all[4].contains("=1000000"), "{}", all[4]);
    let text = r#"
        [grid]
        workload = "w.txt"
        cpus = { from = 2, to = 8, step = 3 }
        [[list]]
        sched = "fifo"
        [[list]]
        sched = "rr"
        param.quantum = "5ms"
    "#;
    let all = commands(text);
    assert_eq!(
        all[..3],
        [
            "w.txt --sched fifo --cpus 2",
            "w.txt --sched rr --cpus 2 --param quantum=5ms",
            "w.txt --sched fifo --cpus 5"
        ]
    );
}

/// Each of the ten parts of an axis has one point; another seed brings others together.
#[test]
fn a_latin_hypercube_has_a_point_in_each_part() {
    let points = |seed: u32| {
        let text = format!(
            "[grid]\nworkload = \"w\"\nsched = \"rr\"\n[latin]\nsamples = 10\nseed = {seed}\n\
             param.quantum = {{ from = \"0ms\", to = \"10ms\" }}\ncpus = {{ from = 1, to = 64 }}\n"
        );
        let trials: Vec<Trial> = parse(&text).unwrap().trials().collect();
        let ns = |trial: &Trial| trial.params["quantum"].trim_end_matches("ns").parse::<u64>().unwrap();
        let cpus = |trial: &Trial| trial.machine.parse::<u64>().unwrap();
        trials.iter().map(|trial| (ns(trial), cpus(trial))).collect::<Vec<_>>()
    };
    let one = points(1);
    let mut parts: Vec<u64> = one.iter().map(|(ns, _)| (*ns / 1_000_000).min(9)).collect();
    parts.sort_unstable();
    assert_eq!(parts, (0..10).collect::<Vec<_>>());
    assert!(one.iter().all(|(_, cpus)| (1..=64).contains(cpus)));
    assert_eq!(one, points(1));
    assert_ne!(one, points(2));
}

/// What is wrong is said with file, line, value and what to do.
#[test]
fn mistakes_are_named_with_their_lines() {
    let base = "[grid]\nworkload = \"w\"\nsched = \"rr\"\ncpus = 1\n";
    let with = |more: &str| format!("{base}{more}");
    for (text, line, words) in [
        (with("cpuz = 1\n"), 5, &["no axis 'cpuz'", "param.NAME"][..]),
        (with("seed = []\n"), 5, &["seed has no values"]),
        (with("seed = \"1-x\"\n"), 5, &["'1-x'", "1-8"]),
        (with("param.p = nan\n"), 5, &["nan is no number"]),
        (with("param.p = [1, inf]\n"), 5, &["inf is no number"]),
        (with("param.p = 1979-05-27\n"), 5, &["datetime is no value"]),
        (with("hz = \"fast\"\n"), 5, &["hz = fast", "whole number"]),
        (with("param.hz = 250\n"), 5, &["the axis hz"]),
        (with("duration = \"soon\"\n"), 5, &["duration = soon", "such as 5s"]),
        (with("ticks = \"odd\"\n"), 5, &["aligned or staggered"]),
        (with("machine = \"4\"\n"), 5, &["not both"]),
        (with("flavour = \"scx\"\n"), 5, &["flavour goes with kernel"]),
        (with("perturb = \"slack=0\"\n"), 5, &["perturb goes with seed"]),
        (with("seed = [1, 2, 1]\n"), 5, &["stands there twice"]),
        (with("set.nices = [[0]]\n"), 5, &["goes with generate"]),
        (with("seed = { from = 1, to = 1000000000000 }\n"), 5, &["1000000000000 runs", "at most 10000000"]),
        (with("seed = { from = 1 }\n"), 5, &["to is missing"]),
        (with("seed = { from = 9, to = 1 }\n"), 5, &["from is greater than to"]),
        (with("param.p = { from = 0, to = 1, count = 3, scale = \"log\" }\n"), 5, &["begins above 0"]),
        (with("[zip]\nseed = [1, 2]\nhz = [100, 250, 1000]\n"), 7, &["hz has 3 values, and seed 2"]),
        (with("[zip]\n"), 5, &["[zip] has no axis"]),
        (with("[latin]\nseed = 1\n"), 5, &["no samples"]),
        (with("[latin]\nsamples = 0\nhz = [100]\n"), 5, &["no run comes of it"]),
        (with("[[list]]\nseed = [1, 2]\n"), 6, &["a row of [[list]] has one"]),
        (with("[[except]]\nseed = 1\n"), 6, &["seed is no axis of this sweep"]),
        (with("[[except]]\ncpus = { least = 2 }\n"), 6, &["'least'", "min, max or not"]),
        (with("[[only]]\n"), 5, &["says nothing"]),
        (with("[gird]\nseed = 1\n"), 5, &["'gird' is not known", "[grid]"]),
        (with("[zip]\ncpus = [1]\n"), 6, &["the axis cpus is given in line 4 already"]),
        ("[grid]\nsched = \"linux-6.12:hz=1000\"\n".to_owned(), 2, &["axis hz"]),
        ("[grid]\nsched = \"rr:quantum\"\n".to_owned(), 2, &["KEY=VALUE"]),
        ("[grid]\nsched = \"guest:6.12\"\n".to_owned(), 2, &["guest run"]),
        ("[grid]\ngenerate = \"hog\"\n".to_owned(), 2, &["no such generator"]),
        ("[grid\n".to_owned(), 1, &[]),
        (format!("{base}{}", "x".repeat(3)), 5, &[]),
    ] {
        let error = parse(&text).err().unwrap_or_else(|| panic!("{text}: it was taken"));
        assert_eq!(error.kind(), FailureKind::Input);
        let said = error.to_string();
        assert!(said.starts_with(&format!("s.toml: line {line}: ")), "{text}: {said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{text}: {said}"));
    }
    for (text, word) in [
        ("", "no axis"),
        ("[grid]\nsched = \"rr\"\ncpus = 1\n", "workload = \"FILE\""),
        ("[grid]\nworkload = \"w\"\ncpus = 1\n", "sched = \"NAME\""),
        ("[grid]\nworkload = \"w\"\nsched = \"rr\"\n", "cpus = 4"),
    ] {
        let said = parse(text).unwrap_err().to_string();
        assert!(said.contains(word), "{text}: {said}");
    }
}

/// Sleepers of two schedulers on one and two CPUs, four seeds: 16 runs of some milliseconds.
const SMALL: &str = r#"
    [grid]
    generate = "sleepers"
    set.tasks = 3
    set.run = "1ms"
    set.sleep = "1ms"
    set.duration = "20ms"
    sched = ["rr", "eevdf"]
    cpus = [1, 2]
    seed = "1-4"
"#;

fn make(text: &str, dir: &Path, options: &RunOptions) -> Result<SweepSummary, SweepError> {
    let base = dir.parent().unwrap();
    run(&Sweep::parse("s.toml", text, base)?, dir, options, &Silent, &mut |_| true)
}

fn jobs(jobs: usize) -> RunOptions {
    RunOptions { jobs, ..RunOptions::default() }
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let files = dataset::files(dir).unwrap();
    let read = |path: &std::path::PathBuf| {
        let name = path.strip_prefix(dir).unwrap().display().to_string();
        (name, std::fs::read(path).unwrap())
    };
    files.runs.iter().chain(&files.tasks).map(read).collect()
}

#[test]
fn equal_sweeps_are_equal_files_whatever_their_order_and_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let summary = make(SMALL, &at("one"), &jobs(1)).unwrap();
    assert_eq!((summary.progress.done, summary.progress.known, summary.is_compact), (16, 0, true));
    make(SMALL, &at("two"), &jobs(3)).unwrap();
    let reversed = SMALL.replace("[\"rr\", \"eevdf\"]", "[\"eevdf\", \"rr\"]");
    make(&reversed, &at("three"), &jobs(2)).unwrap();
    assert_eq!(files(&at("one")), files(&at("two")));
    assert_eq!(files(&at("one")), files(&at("three")));
    assert_eq!(files(&at("one")).len(), 2);
    // the same in three parts, in this order and joined in another
    for part in ["1/3", "2/3", "3/3"] {
        let options = RunOptions { shard: Some(part.parse().unwrap()), ..jobs(2) };
        make(SMALL, &at(&format!("part-{}", &part[..1])), &options).unwrap();
    }
    let parts = ["part-3", "part-1", "part-2", "part-1"].map(at);
    let merged = dataset::merge(&parts, &at("merged")).unwrap();
    assert_eq!(merged.runs, 16);
    assert_eq!(files(&at("one")), files(&at("merged")));
    assert_eq!(dataset::hash(&at("one")).unwrap(), dataset::hash(&at("merged")).unwrap());
}

#[test]
fn an_overlapping_sweep_makes_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("d");
    make(SMALL, &dir, &jobs(2)).unwrap();
    let more = SMALL.replace("\"1-4\"", "\"3-6\"");
    let summary = make(&more, &dir, &jobs(2)).unwrap();
    assert_eq!((summary.progress.done, summary.progress.known), (8, 8));
    assert_eq!(dataset::status(&dir).unwrap().runs, 24);
}

/// The folder's name, the place of the workload's file, and how the machine is written are no part of a key; all
/// that changes the run is.
#[test]
fn a_key_is_the_run_s_content() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/hand/sleepers8.txt")).unwrap();
    for name in ["a.txt", "b.txt"] {
        std::fs::write(folder.path().join(name), &text).unwrap();
    }
    let bench = Bench::new(folder.path());
    let trial = |change: &dyn Fn(&mut Trial)| {
        let mut trial = Trial {
            workload: Some("a.txt".into()),
            sched: "linux-2.4".into(),
            machine: "2".into(),
            duration: Some("1s".into()),
            ..Trial::default()
        };
        change(&mut trial);
        bench.key(&trial).unwrap()
    };
    let plain = trial(&|_| {});
    assert_eq!(plain, trial(&|t| t.workload = Some("b.txt".into())));
    assert_eq!(plain, trial(&|t| t.machine = "cores=2".into()));
    assert_eq!(plain, trial(&|t| t.duration = Some("1000ms".into())));
    assert_eq!(plain, trial(&|t| t.costs = Some("none".into())));
    let mut keys = vec![plain];
    keys.extend([
        trial(&|t| t.machine = "packages=2".into()),
        trial(&|t| t.sched = "rr".into()),
        trial(&|t| t.sched = "rr:quantum=7ms".into()),
        trial(&|t| t.duration = Some("2s".into())),
        trial(&|t| t.seed = Some(1)),
        trial(&|t| t.seed = Some(2)),
        trial(&|t| (t.seed, t.perturb) = (Some(1), Some("slack=0".into()))),
        trial(&|t| t.ticks = Some("staggered".into())),
    ]);
    let distinct: std::collections::BTreeSet<Key> = keys.iter().copied().collect();
    assert_eq!(distinct.len(), keys.len());
    // an edited workload is seen, and named
    std::fs::write(folder.path().join("a.txt"), [&text[..], b"\n1000 INIT 1000 x runnable\n"].concat()).ok();
    let fresh = Bench::new(folder.path()).key(&Trial {
        workload: Some("a.txt".into()),
        sched: "linux-2.4".into(),
        machine: "2".into(),
        duration: Some("1s".into()),
        ..Trial::default()
    });
    assert!(fresh.is_err() || fresh.unwrap() != plain);
}

/// A worker that answers twice, one that was not asked, one that lies, one that vanishes.
#[test]
fn what_comes_from_elsewhere_is_taken_once_and_only_if_it_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("d");
    make(SMALL, &folder.path().join("plain"), &jobs(2)).unwrap();
    let sweep = Sweep::parse("s.toml", SMALL, folder.path()).unwrap();
    let elsewhere = Bench::new(folder.path());
    let mut asking = Asking::new(sweep, &dir, None).unwrap();
    let (key, trial) = asking.ask().unwrap().unwrap();
    let outcome = elsewhere.run(&Trial::from_json(&trial.to_json()).unwrap()).unwrap();
    let outcome = SweptRun::from_bytes(&outcome.to_bytes()).unwrap();
    assert_eq!(outcome.key(), key);
    assert_eq!(asking.propose(&trial).unwrap(), Asked::UnderWay(key));
    // the next run's result under this one's key
    let (other_key, other_trial) = asking.ask().unwrap().unwrap();
    let other = elsewhere.run(&other_trial).unwrap();
    let mut bytes = other.to_bytes();
    bytes[..32].copy_from_slice(&key.0);
    assert!(SweptRun::from_bytes(&bytes).is_err(), "a row with another key");
    assert!(SweptRun::from_bytes(b"cos\nsystem\n(S'true'\ntR.").is_err());
    assert_eq!(asking.under_way(), 2);
    assert!(asking.tell(outcome.clone()).unwrap());
    assert_eq!(asking.under_way(), 1);
    assert!(!asking.tell(outcome.clone()).unwrap(), "told twice");
    assert_eq!(asking.propose(&trial).unwrap(), Asked::Known(key));
    // it vanishes: asked again
    asking.give_up(other_key);
    assert!(matches!(asking.tell(other), Err(SweepError::NotAsked { .. })));
    let mut nr = 1;
    while let Some((_, trial)) = asking.ask().unwrap() {
        asking.tell(elsewhere.run(&trial).unwrap()).unwrap();
        nr += 1;
    }
    assert_eq!(nr, 16);
    assert!(asking.finish().unwrap());
    assert_eq!(files(&dir), files(&folder.path().join("plain")));
}

/// Two at one folder: what one makes, the other sees; the last one puts it in order.
#[test]
fn two_stores_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("d");
    let sweep = Sweep::parse("s.toml", SMALL, folder.path()).unwrap();
    let bench = Bench::new(folder.path());
    let (one, other) = (Store::open(&dir).unwrap(), Store::open(&dir).unwrap());
    let outcomes: Vec<SweptRun> = sweep.trials().map(|trial| bench.run(&trial).unwrap()).collect();
    let key = outcomes[0].key();
    assert!(one.claim(key).unwrap() && !other.claim(key).unwrap());
    assert!(one.tell(outcomes[0].clone()).unwrap());
    one.give_up(key);
    assert!(other.claim(key).unwrap() && other.has(key), "seen in the other's journal");
    assert!(!other.tell(outcomes[0].clone()).unwrap());
    one.tell(outcomes[1].clone()).unwrap();
    one.flush().unwrap();
    let next = outcomes[1].key();
    assert!(other.claim(next).unwrap() && other.has(next), "seen in the other's files");
    for outcome in &outcomes[2..] {
        other.tell(outcome.clone()).unwrap();
    }
    // somebody reads while it grows
    assert_eq!(dataset::status(&dir).unwrap().runs, 16);
    assert!(!one.finish().unwrap(), "the other is at work");
    assert!(other.finish().unwrap());
    make(SMALL, &folder.path().join("plain"), &jobs(2)).unwrap();
    assert_eq!(files(&dir), files(&folder.path().join("plain")));
}

/// A process that died left its journal, with a torn end.
#[test]
fn a_journal_that_was_left_is_taken_up_to_its_last_whole_entry() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("d");
    let sweep = Sweep::parse("s.toml", SMALL, folder.path()).unwrap();
    let bench = Bench::new(folder.path());
    let outcomes: Vec<SweptRun> = sweep.trials().take(5).map(|trial| bench.run(&trial).unwrap()).collect();
    let store = Store::open(&dir).unwrap();
    for outcome in outcomes {
        store.tell(outcome).unwrap();
    }
    drop(store); // nothing was flushed
    let journals = dir.join(".work/journal");
    let journal = std::fs::read_dir(&journals).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&journal).unwrap();
    for (cut, whole) in [(0, 5), (1, 4), (bytes.len() - 7, 0)] {
        std::fs::write(&journal, &bytes[..bytes.len() - cut]).unwrap();
        assert_eq!(dataset::status(&dir).unwrap().runs, whole);
    }
    std::fs::write(&journal, &bytes[..bytes.len() - 1]).unwrap();
    let summary = make(SMALL, &dir, &jobs(2)).unwrap();
    assert_eq!((summary.progress.known, summary.progress.done), (4, 12));
    make(SMALL, &folder.path().join("plain"), &jobs(2)).unwrap();
    assert_eq!(files(&dir), files(&folder.path().join("plain")));
}

#[test]
fn failed_runs_are_rows_and_are_made_again_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("d");
    let text = SMALL.replace("\"eevdf\"", "\"broken-lost\"");
    let summary = make(&text, &dir, &jobs(2)).unwrap();
    assert_eq!((summary.progress.done, summary.progress.failed), (16, 8));
    assert!(summary.failures[0].0.contains("schedlab run "), "{:?}", summary.failures);
    let status = dataset::status(&dir).unwrap();
    assert_eq!((status.by_status["done"], status.by_status["failed"]), (8, 8));
    let before = files(&dir);
    let again = make(&text, &dir, &jobs(2)).unwrap();
    assert_eq!((again.progress.done, again.progress.known), (0, 16));
    let options = RunOptions { again: true, ..jobs(2) };
    let retried = dataset::retry(&dir, folder.path(), &options, &Silent, &mut |_| true).unwrap();
    assert_eq!((retried.progress.done, retried.progress.failed), (8, 8));
    assert_eq!(files(&dir), before, "a failure that is the run's own stays as it was");
}

#[test]
fn what_is_no_dataset_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("other")).unwrap();
    std::fs::write(at("other/letter.txt"), "dear").unwrap();
    std::fs::create_dir(at("later")).unwrap();
    std::fs::write(at("later/dataset.json"), "{\"format\":\"schedlab sweep\",\"schema\":2}").unwrap();
    for (dir, word) in [("other", "no dataset of a sweep"), ("later", "\"schema\":2")] {
        let error = make(SMALL, &at(dir), &jobs(1)).unwrap_err();
        assert!(error.to_string().contains(word) && error.kind() == FailureKind::Input, "{error}");
    }
    assert!(dataset::status(&at("nowhere")).unwrap_err().to_string().contains("there is no dataset"));
    // a cut file is named; without it only its runs are made again
    make(SMALL, &at("d"), &jobs(2)).unwrap();
    let whole = files(&at("d"));
    let path = at("d").join(&whole[0].0);
    std::fs::write(&path, &whole[0].1[..whole[0].1.len() / 2]).unwrap();
    let error = make(SMALL, &at("d"), &jobs(2)).unwrap_err().to_string();
    assert!(error.contains(&path.display().to_string()) && error.contains("remove it"), "{error}");
    std::fs::remove_file(path).unwrap();
    assert_eq!(make(SMALL, &at("d"), &jobs(2)).unwrap().progress.done, 16);
    assert_eq!(files(&at("d")), whole);
}

/// Also where all runs are known, and a sweep would have nothing to do: a file of `tasks` that is cut, changed or
/// gone is named, with what brings its runs back.
#[test]
fn damaged_tasks_are_found_though_all_runs_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("d");
    make(SMALL, &dir, &jobs(2)).unwrap();
    let whole = files(&dir);
    let tasks = dir.join(&whole[1].0);
    assert!(tasks.starts_with(dir.join("tasks")), "{}", tasks.display());
    let runs = dir.join(&whole[0].0);
    let bytes = whole[1].1.clone();
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 1;
    for damaged in [&bytes[..bytes.len() / 2], &changed, &[]] {
        std::fs::write(&tasks, damaged).unwrap();
        if damaged.is_empty() {
            std::fs::remove_file(&tasks).unwrap();
        }
        let error = make(SMALL, &dir, &jobs(2)).unwrap_err();
        assert_eq!(error.kind(), FailureKind::Input);
        let said = error.to_string();
        let remedy = format!("remove it and {}", runs.display());
        assert!(said.contains(&tasks.display().to_string()) && said.contains(&remedy), "{said}");
    }
    std::fs::remove_file(&runs).unwrap();
    assert_eq!(make(SMALL, &dir, &jobs(2)).unwrap().progress.done, 16);
    assert_eq!(files(&dir), whole);
}
