//! B6: docs/write-a-scheduler.md to its end: a crate outside the workspace that is the whole command line with one
//! scheduler more.

mod common;

use common::root;
use std::path::Path;
use std::process::{Command, Output};

const GUIDE: &str = include_str!("../../../docs/write-a-scheduler.md");

/// The page's code that goes into src/main.rs: the scheduler, and the end of the file.
fn program() -> String {
    let blocks = GUIDE.split("```rust\n").skip(1).map(|rest| rest.split("```").next().expect("a block ends"));
    let parts: Vec<&str> =
        blocks.filter(|block| block.contains("impl Policy") || block.contains("fn main()")).collect();
    assert_eq!(parts.len(), 2, "the scheduler and the call");
    parts.concat()
}

/// As the page's shell lines do, without the network.
fn build(folder: &Path) {
    std::fs::create_dir(folder.join("src")).unwrap();
    std::fs::write(folder.join("src/main.rs"), program()).unwrap();
    let parts = ["cli", "machine", "units"].map(|part| {
        let name = if part == "cli" { "schedlab".to_owned() } else { format!("schedlab-{part}") };
        format!("{name} = {{ path = {:?} }}\n", root().join("crates").join(part))
    });
    let profile =
        GUIDE.split("<<'END'\n").nth(1).and_then(|rest| rest.split("END").next()).expect("the profile");
    let manifest = format!(
        "[package]\nname = \"my-scheduler\"\nedition = \"2024\"\n[dependencies]\n{}{}",
        parts.concat(),
        profile
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--offline", "--quiet", "--target-dir"])
        .arg(root().join("target/own-program"))
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

#[test]
#[ignore = "long: compiles the command line once more, 2 to 6 minutes"]
fn a_program_outside_the_workspace_runs_its_own_policy_in_every_command() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let program = root().join("target/own-program/release/my-scheduler");
    let run = |args: &[&str]| -> Output {
        Command::new(&program).args(args).current_dir(folder.path()).output().expect("it starts")
    };
    let text = |args: &[&str]| {
        let output = run(args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let sample = root().join("samples/hand/sleepers8.txt");
    let sample = sample.to_str().unwrap();
    assert!(text(&["schedulers", "least-service"]).contains("who has had the least CPU time goes next"));

    // it runs, the same twice, and it is itself: its log differs from that of its nearest relative
    let log = |name: &str, sched: &str| {
        let path = folder.path().join(name);
        let path_text = path.to_str().unwrap();
        text(&["run", sample, "--sched", sched, "--cpus", "2", "--duration", "2s", "--log", path_text]);
        std::fs::read_to_string(path).unwrap()
    };
    let (once, twice, fifo) =
        (log("1.txt", "least-service"), log("2.txt", "least-service"), log("3.txt", "fifo"));
    assert_eq!(once, twice);
    let body = |log: &str| log.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    assert_ne!(body(&once), body(&fifo));

    // many workers, beside schedulers of this repository; a parameter that it does not have is refused by its name
    let compared = text(&[
        "compare",
        sample,
        "--sched",
        "least-service",
        "--sched",
        "rr",
        "--cpus",
        "2",
        "--duration",
        "1s",
        "--jobs",
        "2",
    ]);
    assert!(compared.contains("least-service") && compared.contains("rr"), "{compared}");
    let refused = run(&["run", sample, "--sched", "least-service", "--param", "depth=3", "--cpus", "2"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(why.contains("least-service has no parameter 'depth'"), "{why}");
    // its balancing policy shows in what it does, as that of any other
    let asked = ["--quiet", "harmony", "--sched", "least-service", "--quick", "--cpus", "2", "--json", "-"];
    let model: serde_json::Value = serde_json::from_str(&text(&asked)).unwrap();
    assert_eq!((&model["subject"], &model["failed"]), (&"least-service".into(), &serde_json::json!([])));
    let answers = model["questions"].as_array().unwrap().iter().filter(|q| q["answer"] != "undecided");
    assert!(answers.count() >= 10, "{model}");
    // the samples and the kernel port are found from elsewhere
    assert!(text(&["linux", "list"]).contains("linux") || !common::has_linux());
}
