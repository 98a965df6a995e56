//! Every command that takes a scheduler, with every form in which schedulers are written: it takes it, or says why not
//! with status 2.

mod common;

use common::{has_linux, kernel_tree, schedlab};
use schedlab_linux::build::{self, BuildOptions};

/// What a command can do with a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Native,
    Linux,
    Scx,
    Guest,
    Host,
}

use Kind::{Guest, Host, Linux, Native, Scx};

/// A scheduler, and what the sentence says where it is taken but cannot be had.
struct Form {
    text: &'static str,
    kind: Kind,
    /// Empty: it can be had.
    missing: &'static str,
}

const fn form(text: &'static str, kind: Kind, missing: &'static str) -> Form {
    Form { text, kind, missing }
}

const FORMS: [Form; 14] = [
    form("fifo", Native, ""),
    form("rr:quantum=5ms", Native, ""),
    form("nosuch", Native, "no scheduler 'nosuch'"),
    form("linux-6.12", Linux, ""),
    form("linux-6.12:base_slice_ns=2000000:hz=250", Linux, ""),
    form("linux-6.12+scx", Linux, ""),
    form("linux-6.12:hz=7", Linux, "HZ"),
    form("linux:/nowhere/a:tree:hz=250", Linux, "/nowhere/a:tree"),
    form("scx:simple", Scx, ""),
    form("scx:simple@6.12:fifo_sched=1", Scx, ""),
    form("scx:/nowhere/x.bpf.c", Scx, "/nowhere/x.bpf.c: there is no such file"),
    form("guest:6.12", Guest, ""),
    form("guest:/nowhere/bzImage", Guest, "/nowhere/bzImage"),
    form("host", Host, ""),
];

/// A command up to the scheduler, what it takes, and what it says of all others.
struct Taker {
    args: &'static [&'static str],
    takes: &'static [Kind],
    says: &'static str,
}

const MACHINE: &[Kind] = &[Native, Linux, Scx];
const ELSEWHERE: &str = "the simulated machine does not take";
const HOGS: &str = "samples/hand/figure1.txt";

const fn taker(args: &'static [&'static str], takes: &'static [Kind], says: &'static str) -> Taker {
    Taker { args, takes, says }
}

const HARMONY_LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/subjects-harmony.log");

const TAKERS: [Taker; 13] = [
    taker(&["run", HOGS, "--cpus", "1", "--duration", "20ms", "--sched"], MACHINE, ELSEWHERE),
    taker(&["run", HOGS, HOGS, "--cpus", "1", "--duration", "20ms", "--sched"], MACHINE, ELSEWHERE),
    taker(
        &["compare", HOGS, "--cpus", "1", "--duration", "20ms", "--runs", "1", "--sched", "fifo", "--sched"],
        MACHINE,
        ELSEWHERE,
    ),
    taker(
        &["dependencies", "samples/hackbench", "--cpus", "1", "--choice", "infer", "--sched"],
        MACHINE,
        ELSEWHERE,
    ),
    taker(&["fairness", "--shares", "2,1", "--quanta", "30", "--sched"], MACHINE, ELSEWHERE),
    taker(
        &["fairness", "dynamic", "--clients", "2", "--total", "8", "--quanta", "60", "--sched"],
        MACHINE,
        ELSEWHERE,
    ),
    taker(&["schedulers"], MACHINE, ELSEWHERE),
    taker(&["fidelity", "samples/gzip", "--cpus", "1", "--sched"], MACHINE, ELSEWHERE),
    taker(
        &["harmony", "--experiment", "wake-idle", "--cpus", "2", "--log", HARMONY_LOG, "--sched"],
        MACHINE,
        ELSEWHERE,
    ),
    taker(&["hourglass", "study", "--runs", "1", "--sched"], MACHINE, ELSEWHERE),
    taker(
        &["schedulability", "--sets", "1", "--load", "50", "--tasks", "2", "--sched"],
        &[Native],
        "is no native scheduler, and this takes only those",
    ),
    taker(&["guest", "run", HOGS, "--duration", "1s", "--sched"], &[Guest], "guest run does not take"),
    taker(&["guest", "calibrate", "--duration", "1s", "--sched"], &[Guest], "guest calibrate does not take"),
];

/// Runs one command with one form and returns what is wrong with the answer.
fn fault(taker: &Taker, form: &Form) -> Option<String> {
    let output = schedlab(&[&["--quiet"][..], taker.args, &[form.text]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code();
    // a name that nothing has is called so everywhere but where only real Linux is looked for
    let is_taken = taker.takes.contains(&form.kind);
    let word = if is_taken { form.missing } else { taker.says };
    let expected = if is_taken && form.missing.is_empty() { 0 } else { 2 };
    let is_right = code == Some(expected) && error.contains(word) && !error.contains("panicked");
    (!is_right).then(|| {
        format!("{:?} {}: status {code:?}, expected {expected} with '{word}': {error}", taker.args, form.text)
    })
}

#[test]
fn every_command_takes_every_form_or_says_why_not() {
    let mut faults = Vec::new();
    for taker in &TAKERS {
        for form in FORMS.iter().filter(|form| form.kind == Native || has_linux()) {
            // booting a guest takes its time: that it is looked for is shown by the image that is not there
            if taker.args[0] == "guest" && form.text == "guest:6.12" {
                continue;
            }
            faults.extend(fault(taker, form));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What a decision costs is measured in the functions of the fair class, which a sched_ext scheduler replaces.
#[test]
fn costs_are_measured_of_policies_and_the_fair_class() {
    let args = &["fairness", "cost", "--clients", "2", "--repetitions", "1", "--no-instructions", "--sched"];
    let taker = taker(args, &[Native, Linux], "");
    let mut faults = Vec::new();
    for form in FORMS.iter().filter(|form| form.kind == Native || has_linux()) {
        let says = if form.kind == Scx { "fairness cost does not take" } else { ELSEWHERE };
        faults.extend(fault(&Taker { says, ..taker }, form));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whatever is simulated, by kept runs of the guest; the result (0 or 1) is another question.
#[test]
fn validate_simulates_every_form() {
    if !has_linux() {
        return;
    }
    let args = ["--quiet", "validate", "fairbench", "--golden-only", "--cpus", "1", "--runs", "1"];
    let run = |more: &[&str]| {
        let output = schedlab(&[&args[..], more].concat());
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for form in &FORMS {
        let (code, error) = run(&["--kernel", "6.12", "--sched", form.text]);
        match (MACHINE.contains(&form.kind), form.missing) {
            (true, "") => assert!(code <= 1, "{}: {code}: {error}", form.text),
            (true, word) => assert!(code == 2 && error.contains(word), "{}: {code}: {error}", form.text),
            (false, _) => assert!(code == 2 && error.contains(ELSEWHERE), "{}: {code}: {error}", form.text),
        }
    }
    // and what it is compared with; the flags of old are the same
    assert_eq!(run(&["--against", "guest:6.12"]), run(&["--kernel", "6.12"]));
    for (against, word) in [
        ("fifo", "validate --against does not take 'fifo'"),
        ("linux-6.12", "validate --against does not take 'linux-6.12'"),
        ("scx:simple", "validate --against does not take 'scx:simple'"),
        ("guest:6.12:hz=100", "parameters are for the simulated machine"),
        ("guest:/nowhere/bzImage", "--golden-only are for guests with a packaged kernel"),
        ("host", "--golden-only are for guests with a packaged kernel"),
    ] {
        let (code, error) = run(&["--against", against]);
        assert!(code == 2 && error.contains(word), "{against}: {code}: {error}");
    }
    let (code, error) = run(&["--against", "guest:6.12", "--against", "host"]);
    assert!(code == 2 && error.contains("one kind at a time"), "{code}: {error}");
}

/// A kernel tree by its path, whose name has a colon and an equals sign, wherever a name can stand.
#[test]
#[ignore = "long: builds a kernel tree"]
fn a_tree_is_taken_wherever_a_name_is() {
    let kernel = build::add("6.12", &BuildOptions::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{e}"));
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("my:tree=1");
    std::fs::create_dir(&tree).unwrap();
    kernel_tree(&tree, &kernel.source);
    let text = format!("linux:{}", tree.display()).replace("my:", r"my\:");
    let text: &'static str = text.leak();
    let form = form(text, Linux, "");
    let faults: Vec<String> = TAKERS
        .iter()
        .filter(|taker| taker.takes == MACHINE)
        .filter_map(|taker| fault(taker, &form))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
