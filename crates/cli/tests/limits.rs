//! A small file that asks for much: every command that reads a workload refuses it, soon and in little
//! memory, with its place, what it makes, the limit and what to do. (`schedlab_workload::limits` states them;
//! each is tested at the limit there.)

mod common;

use common::root;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// 2 GB of address space: what took 4 GB and aborted.
const MEMORY_KIB: u32 = 2_000_000;
const SOON: Duration = Duration::from_secs(20);

/// Runs the program in little memory.
fn schedlab(args: &[&str]) -> Output {
    let script = format!("ulimit -v {MEMORY_KIB}; exec \"$@\"");
    let begin = Instant::now();
    let mut command = Command::new("bash");
    command.args(["-c", &script, "bash", env!("CARGO_BIN_EXE_schedlab")]).args(args).current_dir(root());
    let output = command.output().expect("bash runs");
    assert!(begin.elapsed() < SOON, "{args:?} took {:?}", begin.elapsed());
    output
}

/// Every command that reads a workload, on this one.
fn commands<'a>(w: &'a str, out: &'a str) -> Vec<Vec<&'a str>> {
    [
        &["workload", "show", w][..],
        &["workload", "convert", w, "-o", out],
        &["workload", "filter", w, "--name", "x", "-o", out],
        &["workload", "cut", w, "--from", "1ms", "--to", "2ms", "-o", out],
        &["workload", "scale", w, "--cpu", "0.5", "-o", out],
        &["workload", "anonymise", w, "-o", out],
        &["workload", "fit", w],
        &["import", w, "-o", out],
        &["run", w, "--sched", "fifo", "--cpus", "1"],
        &["run", "--together", w, "samples/hand/figure1.txt", "--sched", "fifo", "--cpus", "1"],
        &["compare", w, "--sched", "fifo", "--sched", "rr", "--cpus", "1"],
    ]
    .map(<[&str]>::to_vec)
    .to_vec()
}

fn refused(path: &Path, words: &[&str]) {
    refused_by(path, words, usize::MAX);
}

/// As [`refused`], by the first commands only: all load a mix in one way, and these take a second.
fn refused_by(path: &Path, words: &[&str], nr_commands: usize) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.txt");
    for args in commands(path.to_str().unwrap(), out.to_str().unwrap()).into_iter().take(nr_commands) {
        let output = schedlab(&args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        for word in words {
            assert!(errors.contains(word), "{args:?}: '{word}' is missing in: {errors}");
        }
        assert!(!out.exists() && output.stdout.is_empty(), "{args:?}");
    }
}

fn write(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// C1: one line, and what it asks for.
#[test]
fn one_line_cannot_ask_for_thousands_of_millions() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = write(&folder, "tasks.txt", "- INIT 0 0 1..4000000000 runnable\n");
    refused(
        &tasks,
        &["tasks.txt:1:12: '1..4000000000'", "4000000000 tasks", "may have 1000000", "state fewer"],
    );
    let text = "- INIT 0 0 1 runnable\nREPEAT 100000000000 {\n- YIELD 1 0\n}\n";
    let events = write(&folder, "events.txt", text);
    refused(
        &events,
        &["events.txt:4:1: '}'", "100000000001 events; a workload may have", "repeat less often"],
    );
    // 8 KiB each, by one word
    let text = "- INIT 0 0 1..1000000 runnable affinity=65535\n";
    let bytes = write(&folder, "bytes.txt", text);
    refused(&bytes, &["bytes.txt:1:12:", "8204000000 bytes", "may have 1073741824", "shorter names"]);
}

/// C2: copies of copies, and files that name each other.
#[test]
fn mixes_cannot_multiply_without_end() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "four.txt", "- INIT 0 0 1..4 runnable\n- EXIT 1..4 1ms\n");
    let part = |w: &str, copies: u32| format!("[[part]]\nworkload = \"{w}\"\ncopies = {copies}\n");
    let million = write(&folder, "million.toml", &part("four.txt", 1_000_000));
    refused(&million, &["million.toml:3:10: '1000000'", "4000000 tasks", "may have 1000000", "fewer copies"]);
    // copies of copies of copies
    write(&folder, "mix0.toml", &part("four.txt", 10));
    for i in 1..=12 {
        write(&folder, &format!("mix{i}.toml"), &part(&format!("mix{}.toml", i - 1), 10));
    }
    refused(&folder.path().join("mix12.toml"), &["mixes are nested 9 deep; at most 8", "directly"]);
    refused_by(
        &folder.path().join("mix6.toml"),
        &["mix5.toml:3:10: '10'", "4000000 tasks", "may have 1000000"],
        2,
    );
    // as deep as may be
    write(&folder, "in0.toml", &part("four.txt", 1));
    for i in 1..=8 {
        write(&folder, &format!("in{i}.toml"), &part(&format!("in{}.toml", i - 1), 1));
    }
    let run = |name: &str| {
        let path = folder.path().join(name);
        let output = schedlab(&["run", path.to_str().unwrap(), "--sched", "fifo", "--cpus", "1"]);
        output.status.code().unwrap()
    };
    assert_eq!((run("in7.toml"), run("in8.toml")), (0, 2));
    // a mix that reads the same few files again and again
    write(&folder, "none0.toml", &part("four.txt", 1));
    for i in 1..=6 {
        for k in 0..8 {
            let link = folder.path().join(format!("link{i}-{k}.toml"));
            std::os::unix::fs::symlink(folder.path().join(format!("none{}.toml", i - 1)), link).unwrap();
        }
        let parts: String = (0..8).map(|k| part(&format!("link{i}-{k}.toml"), 1)).collect();
        write(&folder, &format!("none{i}.toml"), &parts);
    }
    refused_by(&folder.path().join("none6.toml"), &["one file more than the 10000 that a mix may read"], 2);
}

#[test]
fn settings_are_short() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("[[part]]\nworkload = \"x\"\n# {}\n", "x".repeat(4 << 20));
    refused(
        &write(&folder, "long.toml", &long),
        &["long.toml", "bytes; such a file may have 4194304", "divide it"],
    );
    let json = folder.path().join("long.json");
    std::fs::write(&json, format!("{{ \"tasks\": {{}} }}{}", " ".repeat(64 << 20))).unwrap();
    refused(&json, &["long.json", "67108879 bytes; such a file may have 67108864"]);
}

/// C1: every command that reads a small file whole, on one that has no end: 1 TiB that takes no room on the disk.
#[test]
fn files_without_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let names =
        ["x.toml", "x.c", "x.bpf.c", "x.litmus", "x.txt", "copy.proc.csv", "devices/system/cpu/online"];
    std::fs::create_dir_all(folder.path().join("devices/system/cpu")).unwrap();
    for name in names {
        std::fs::File::create(path(name)).unwrap().set_len(1 << 40).unwrap();
    }
    std::fs::copy(root().join("samples/gzip/trace.dat"), path("copy.dat")).unwrap();
    let (toml, out) = (path("x.toml"), path("out"));
    let (c, litmus, txt) = (path("x.c"), path("x.litmus"), path("x.txt"));
    let (copy, machine, scx) = (path("copy.dat"), path(""), format!("scx:{}", path("x.bpf.c")));
    let work = "samples/hand/figure1.txt";
    let commands: [(&[&str], &str); 12] = [
        (&["run", &toml, "--sched", "fifo", "--cpus", "1"], "4194304"),
        (&["generate", "--from", &toml, "-o", &out], "4194304"),
        (&["harmony", "--sched", "fifo", "--plan", &toml], "4194304"),
        (&["hourglass", "--plan", &toml], "4194304"),
        (&["run", work, "--sched", "fifo", "--cpus", "1", "--costs", &toml], "4194304"),
        (&["race", &c], "16777216"),
        (&["race", &litmus], "16777216"),
        (&["race", "samples/race/lowest.c", "--scenario", &txt], "67108864"),
        (&["race", "--replay", &txt], "67108864"),
        (&["import", &copy, "-o", &out], "268435456"),
        (&["run", work, "--sched", "fifo", "--machine", &machine], "1048576"),
        (&["run", work, "--sched", &scx, "--cpus", "1"], "16777216"),
    ];
    for (args, limit) in commands {
        let output = schedlab(args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        let says = format!("1099511627776 bytes; such a file may have {limit}: divide it");
        assert!(errors.contains(&says), "{args:?}: {errors}");
        assert!(!Path::new(&out).exists() && output.stdout.is_empty(), "{args:?}");
    }
}

/// What a command of the help reads: with each of these arguments it meets a file that asks for too much.
struct Reads {
    command: &'static str,
    /// Its words, with `WORK` for a workload of four thousand million tasks, `LOG` for a log and `TRACE` for a
    /// recording of 1 TiB each, `TOML`, `C`, `SETS` (a dataset) and `PLANS` (a folder of plans) likewise.
    words: &'static [&'static str],
    /// Why it reads nothing that anybody can give it, or what stands elsewhere.
    none: &'static str,
}

const fn reads(command: &'static str, words: &'static [&'static str]) -> Reads {
    Reads { command, words, none: "" }
}

const fn reads_none(command: &'static str, none: &'static str) -> Reads {
    Reads { command, words: &[], none }
}

/// Every command that the help names.
const COMMANDS: [Reads; 29] = [
    reads_none("demo", "its own sample or recording"),
    reads_none("record", "the running system"),
    reads("anonymise", &["TRACE -o OUT"]),
    reads("import", &["WORK -o OUT", "TRACE -o OUT"]),
    reads("dependencies", &["WORK --sched fifo --cpus 2", "TRACE --sched fifo --cpus 2"]),
    reads("generate", &["--from TOML -o OUT"]),
    reads(
        "workload",
        &[
            "show WORK",
            "convert WORK -o OUT",
            "filter WORK --name x -o OUT",
            "scale WORK --cpu 0.5 -o OUT",
            "fit WORK",
        ],
    ),
    reads(
        "run",
        &["WORK --sched fifo --cpus 1", "TRACE --sched fifo --cpus 1", "TOML --sched fifo --cpus 1"],
    ),
    reads("report", &["TRACE"]),
    reads("fidelity", &["TRACE --sched fifo"]),
    reads("compare", &["WORK --sched fifo --sched rr --cpus 1", "TRACE --sched fifo --sched rr --cpus 1"]),
    reads(
        "sweep",
        &["TOML -o OUT", "TOML --dry-run", "status SETS", "show SETS", "retry SETS", "merge SETS -o OUT"],
    ),
    reads("diff", &["LOG LOG"]),
    reads("wasted", &["LOG", "TRACE"]),
    reads("race", &["C", "samples/race/lowest.c --scenario C", "--replay C"]),
    reads("export", &["LOG -o DAT"]),
    reads_none("linux", "`debug` has gdb start `run`, which reads the workload; tar unpacks tarballs"),
    reads_none("fairness", "shares on the command line; a case is a workload of its own reader"),
    reads_none("reproduce", "what the paper says, which is in the program"),
    reads("harmony", &["--sched fifo --plan TOML", "judge PLANS"]),
    reads("hourglass", &["--plan TOML", "infer --from LOG", "compare LOG LOG"]),
    reads("guest", &["run WORK"]),
    reads_none("validate", "its own cases"),
    reads_none("agreement", "its own cases"),
    reads_none("schedulability", "drawn sets"),
    reads_none("manual", "itself"),
    reads("machines", &["FOLDER"]),
    reads_none("schedulers", "names"),
    reads_none("help", "itself"),
];

/// C1: every command that the help names is in the list, and whatever it reads ends with 2, soon, in little memory.
#[test]
fn every_command_that_reads_a_file_is_under_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("work.txt"), "- INIT 0 0 1..4000000000 runnable\n").unwrap();
    let log = schedlab(&[
        "run",
        "samples/hand/figure1.txt",
        "--sched",
        "fifo",
        "--cpus",
        "1",
        "--log",
        &path("run.log"),
    ]);
    assert!(log.status.success(), "{log:?}");
    std::fs::copy(root().join("samples/tools/ftrace.txt"), path("trace.txt")).unwrap();
    for name in ["d/runs", "d/tasks", "plans", "machine/devices/system/cpu"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    let endless = [
        "run.log",
        "trace.txt",
        "x.toml",
        "x.c",
        "d/dataset.json",
        "plans/plan.json",
        "machine/devices/system/cpu/online",
    ];
    for name in endless {
        let file = std::fs::File::options().create(true).append(true).open(path(name)).unwrap();
        file.set_len(1 << 40).unwrap();
    }
    let names = [
        ("WORK", "work.txt"),
        ("LOG", "run.log"),
        ("TRACE", "trace.txt"),
        ("TOML", "x.toml"),
        ("C", "x.c"),
        ("SETS", "d"),
        ("PLANS", "plans"),
        ("FOLDER", "machine"),
        ("OUT", "out"),
        ("DAT", "out.dat"),
    ];
    let place = |word: &str| {
        let known = names.iter().find(|(name, _)| *name == word);
        known.map_or(word.to_owned(), |(_, name)| path(name))
    };
    let help = schedlab(&["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let part = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let lines = part.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for command in lines.map(|line| line.split_whitespace().next().unwrap()) {
        let known = COMMANDS.iter().find(|known| known.command == command);
        let known = known.unwrap_or_else(|| panic!("{command} is new: what does it read?"));
        assert!(known.words.is_empty() != known.none.is_empty(), "{command}");
        for words in known.words {
            let words: Vec<String> = words.split(' ').map(place).collect();
            let mut args = vec!["--quiet", command];
            args.extend(words.iter().map(String::as_str));
            let output = schedlab(&args);
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
            assert!(
                !errors.contains("memory (os error") && !errors.contains("out of memory"),
                "{args:?}: {errors}"
            );
            let stated =
                ["may have", "more than 1048576 bytes", "at most", "no such", "not a log", "no schedule log"];
            assert!(stated.iter().any(|words| errors.contains(words)), "{args:?}: {errors}");
            assert!(!Path::new(&path("out")).exists() && !Path::new(&path("out.dat")).exists(), "{args:?}");
        }
    }
}

/// A file as long as may be is read.
#[test]
fn files_at_the_limit_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let filled = |name: &str, text: &str, bytes: usize| {
        let path = folder.path().join(name);
        let comment = format!("{text}# {}", "x".repeat(bytes - text.len() - 2));
        std::fs::write(&path, comment).unwrap();
        path.display().to_string()
    };
    const TOML: usize = 4 << 20;
    let work = "samples/hand/figure1.txt";
    for (extra, status) in [(0, 0), (1, 2)] {
        let costs = filled("costs.toml", "switch = \"2us\"\n", TOML + extra);
        let plan = filled("plan.toml", "cpus = 0\n", TOML + extra);
        let output = schedlab(&["run", work, "--sched", "fifo", "--cpus", "1", "--costs", &costs]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        // a plan that has been read is then told what is missing in it
        let output = schedlab(&["harmony", "--sched", "fifo", "--plan", &plan]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(errors.contains("such a file may have 4194304"), extra == 1, "{errors}");
    }
}

/// Every other file that is read whole: as long as may be it is read, and then found wanting or not; with one byte
/// more it is not.
#[test]
fn files_of_every_kind_are_read_up_to_the_limit() {
    use schedlab_stdx::limits;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir_all(folder.path().join("devices/system/cpu")).unwrap();
    std::fs::copy(root().join("samples/gzip/trace.dat"), path("copy.dat")).unwrap();
    let (json, c, scx) = (path("x.json"), path("x.c"), format!("scx:{}", path("x.bpf.c")));
    let (txt, copy, machine, out) = (path("x.txt"), path("copy.dat"), path(""), path("out"));
    let work = "samples/hand/figure1.txt";
    let task = r#"{ "tasks": { "a": { "loop": 1, "phases": { "p": { "run": 1000 } } } } }"#;
    // file, what stands in it before spaces, limit, command, its exit status at the limit
    let cases: [(&str, &str, u64, &[&str], i32); 7] = [
        ("x.json", task, limits::JSON_BYTES_MAX, &["run", &json, "--sched", "fifo", "--cpus", "1"], 0),
        ("devices/system/cpu/online", "0-1\n", limits::SYSFS_BYTES_MAX, &["machines", &machine], 2),
        ("x.c", "#error no target\n", limits::SOURCE_BYTES_MAX, &["race", &c], 2),
        (
            "x.bpf.c",
            "#error no scheduler\n",
            limits::SOURCE_BYTES_MAX,
            &["run", work, "--sched", &scx, "--cpus", "1"],
            2,
        ),
        (
            "x.txt",
            "nothing\n",
            limits::RACE_BYTES_MAX,
            &["race", "samples/race/lowest.c", "--scenario", &txt],
            2,
        ),
        ("x.txt", "nothing\n", limits::RACE_BYTES_MAX, &["race", "--replay", &txt], 2),
        ("copy.proc.csv", "nothing\n", limits::SNAPSHOT_BYTES_MAX, &["import", &copy, "-o", &out], 2),
    ];
    for (name, text, limit, args, status) in cases {
        for extra in [0, 1] {
            let mut content = vec![b' '; (limit + extra) as usize];
            content[..text.len()].copy_from_slice(text.as_bytes());
            std::fs::write(path(name), content).unwrap();
            let output = schedlab(args);
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let says = format!("{} bytes; such a file may have {limit}", limit + 1);
            assert_eq!(errors.contains(&says), extra == 1, "{args:?} +{extra}: {errors}");
            assert!(extra == 1 || !errors.contains("may have"), "{args:?}: {errors}");
            assert_eq!(
                output.status.code(),
                Some(if extra == 1 { 2 } else { status }),
                "{args:?} +{extra}: {errors}"
            );
        }
        std::fs::remove_file(path(name)).unwrap();
    }
}

/// A mix may read so many files, and not one more.
#[test]
fn a_mix_reads_up_to_the_limit_of_files() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "one.txt", "- INIT 0 0 1 runnable\n- EXIT 1 1us\n");
    let nr_files = schedlab_workload::limits::MIX_FILES_MAX;
    let mut parts = String::new();
    for i in 0..=nr_files {
        std::os::unix::fs::symlink("one.txt", folder.path().join(format!("link{i}.txt"))).unwrap();
        if i == nr_files {
            let fits = write(&folder, "fits.toml", &parts).display().to_string();
            let output = schedlab(&["run", &fits, "--sched", "fifo", "--cpus", "1"]);
            assert!(output.status.success(), "{output:?}");
        }
        parts += &format!("[[part]]\nworkload = \"link{i}.txt\"\n");
    }
    refused_by(
        &write(&folder, "beyond.toml", &parts),
        &["one file more than the 10000 that a mix may read"],
        2,
    );
}

/// Brackets within brackets, 200,000 of them, are an error and no overflow of the stack.
#[test]
fn nesting_has_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let deep = format!("a = {}{}\n", "[".repeat(200_000), "]".repeat(200_000));
    let toml = write(&folder, "deep.toml", &deep).display().to_string();
    let keys =
        write(&folder, "keys.toml", &format!("{} = 1\n", vec!["a"; 200_000].join("."))).display().to_string();
    let work = "samples/hand/figure1.txt";
    for file in [&toml, &keys] {
        for args in [
            &["run", file, "--sched", "fifo", "--cpus", "1"][..],
            &["harmony", "--sched", "fifo", "--plan", file],
            &["hourglass", "--plan", file],
            &["run", work, "--sched", "fifo", "--cpus", "1", "--costs", file],
        ] {
            let output = schedlab(args);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        }
    }
}

/// The table of docs/results.md has every limit, as the code has it.
#[test]
fn the_page_states_the_limits() {
    use schedlab_stdx::limits as files;
    use schedlab_workload::limits::{self as workloads, Limits};
    let page = std::fs::read_to_string(root().join("docs/results.md")).unwrap();
    let limits: [(&str, u64); 24] = [
        ("HELD.events", Limits::HELD.events),
        ("HELD.tasks", Limits::HELD.tasks),
        ("HELD.bytes", Limits::HELD.bytes),
        ("STREAMED.events", Limits::STREAMED.events),
        ("LINE_BYTES_MAX", files::LINE_BYTES_MAX),
        ("REPEAT_DEPTH_MAX", workloads::REPEAT_DEPTH_MAX as u64),
        ("CHUNK_BYTES_MAX", workloads::CHUNK_BYTES_MAX as u64),
        ("TOML_BYTES_MAX", files::TOML_BYTES_MAX),
        ("MIX_DEPTH_MAX", workloads::MIX_DEPTH_MAX as u64),
        ("MIX_FILES_MAX", workloads::MIX_FILES_MAX as u64),
        ("TIMES_MAX", workloads::TIMES_MAX.into()),
        ("JSON_BYTES_MAX", files::JSON_BYTES_MAX),
        ("JSON_DEPTH_MAX", files::JSON_DEPTH_MAX.into()),
        ("SNAPSHOT_BYTES_MAX", files::SNAPSHOT_BYTES_MAX),
        ("RECORDING_EVENTS_MAX", files::RECORDING_EVENTS_MAX),
        ("RECORDING_BYTES_MAX", files::RECORDING_BYTES_MAX),
        ("UNPACKED_BYTES_MAX", files::UNPACKED_BYTES_MAX),
        ("PACKETS_MAX", files::PACKETS_MAX as u64),
        ("LOG_RECORDS_MAX", files::LOG_RECORDS_MAX),
        ("LOG_LINE_BYTES_MAX", files::LOG_LINE_BYTES_MAX),
        ("LOG_HEADER_LINES_MAX", files::LOG_HEADER_LINES_MAX),
        ("SYSFS_BYTES_MAX", files::SYSFS_BYTES_MAX),
        ("SOURCE_BYTES_MAX", files::SOURCE_BYTES_MAX),
        ("RACE_BYTES_MAX", files::RACE_BYTES_MAX),
    ];
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |")).collect();
    for (name, value) in limits {
        let row = rows.iter().find(|row| row.ends_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("{name} is missing"));
        let stated: String = row.split('|').nth(2).unwrap().replace(',', "");
        let mut words = stated.split_whitespace();
        let number: u64 = words.next().unwrap().parse().unwrap();
        let unit = match words.next() {
            Some("MiB") => 1 << 20,
            Some("GiB") => 1 << 30,
            _ => 1,
        };
        assert_eq!(number * unit, value, "{name}");
    }
    let constants =
        rows.iter().filter(|row| row.contains("_MAX`") || row.contains("HELD.") || row.contains("STREAMED."));
    assert_eq!(constants.count(), limits.len(), "a row without a limit");
}
