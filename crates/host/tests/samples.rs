//! Do the samples hold no name but those they may: the recorded command's, kernel threads that every Linux
//! has, other-N?
//!
//! Looked for in three ways that do not trust each other: the names that the reader finds in events; the
//! snapshot's rows; and every run of six or more printable bytes in the unpacked file. (Six: a time word and
//! the first byte of an event's number can make five by chance; the number's second byte is below 32.)

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use schedlab_host::Snapshot;
use schedlab_trace::{Mode, TraceFile};

/// A sample and the names that its command's tasks have.
const SAMPLES: &[(&str, &[&str])] = &[
    ("gzip", &["gzip"]),
    (
        "compile",
        &[
            "ar",
            "as",
            "cat",
            "cc",
            "cc1",
            "collect2",
            "date",
            "git",
            "grep",
            "head",
            "install",
            "ld",
            "make",
            "mkreleasehdr.sh",
            "pkg-config",
            "ranlib",
            "rm",
            "run.sh",
            "sh",
            "touch",
            "uname",
            "wc",
            "which",
        ],
    ),
    ("hackbench", &["run.sh", "perf", "sched-messaging"]),
    (
        "kv",
        &[
            "run.sh",
            "redis-server",
            "redis-cli",
            "redis-benchmark",
            "sleep",
            "bio_close_file",
            "bio_aof_fsync",
            "bio_lazy_free",
            "jemalloc_bg_thd",
        ],
    ),
    ("interactive", &["mix", "editor", "spell", "painter", "audio", "background", "helper"]),
    ("dependencies/pipeline", PIPELINE),
    ("dependencies/pipeline-again", PIPELINE),
    ("dependencies/pipeline-1cpu", PIPELINE),
    ("dependencies/queue", &["queue"]),
    ("objects/nginx", &["ab", "nginx", "sh", "sleep"]),
    ("objects/nginx-1cpu", &["ab", "nginx", "sh", "sleep", "taskset"]),
    ("objects/zstd-locks-1cpu", &["taskset", "zstd"]),
    ("dependencies/server", SERVER),
    ("dependencies/server-again", SERVER),
    // the server was there before anybody slept
    ("dependencies/server-1cpu", SERVER_WITHOUT_SLEEP),
];

const PIPELINE: &[&str] = &["pipeline.sh", "seq", "gzip", "md5sum"];
const SERVER: &[&str] = &[
    "sleep",
    "server.sh",
    "redis-server",
    "redis-cli",
    "redis-benchmark",
    "bio_close_file",
    "bio_aof_fsync",
    "bio_lazy_free",
    "jemalloc_bg_thd",
];

fn folder(sample: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(sample)
}

const SERVER_WITHOUT_SLEEP: &[&str] = SERVER.split_at(1).1;

/// Kernel threads of every Linux, written down anew (not taken from the code under test).
fn is_kernel_thread(name: &str) -> bool {
    const WHOLE: &[&str] = &[
        "kthreadd",
        "khugepaged",
        "ksmd",
        "kdevtmpfs",
        "kauditd",
        "khungtaskd",
        "oom_reaper",
        "watchdogd",
        "hwrng",
        "pool_workqueue_",
        "kworker/R",
        "jbd2",
        "rcu_preempt",
        "rcu_sched",
        "rcu_exp_gp_kthr",
        "rcu_exp_par_gp_",
        "rcu_tasks_kthre",
        "rcu_tasks_rude_",
        "rcu_tasks_trace",
    ];
    const THEN_NUMBER: &[&str] =
        &["swapper/", "ksoftirqd/", "migration/", "cpuhp/", "irq/", "kcompactd", "kswapd", "kdamond."];
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if WHOLE.contains(&name) || THEN_NUMBER.iter().any(|p| name.strip_prefix(p).is_some_and(digits)) {
        return true;
    }
    // kworker/CPU:N, kworker/CPU:NH, kworker/uPOOL:N
    let worker = |rest: &str| {
        let rest = rest.strip_suffix('H').unwrap_or(rest);
        rest.strip_prefix('u').unwrap_or(rest).split_once(':').is_some_and(|(a, b)| digits(a) && digits(b))
    };
    name.strip_prefix("kworker/").is_some_and(worker)
}

fn is_other(name: &str) -> bool {
    name.strip_prefix("other-").is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n > 0))
}

fn is_allowed(name: &str, own: &[&str]) -> bool {
    name.is_empty() || own.contains(&name) || is_kernel_thread(name) || is_other(name)
}

/// The file's sections and pages, unpacked with nothing but zstd's own frame search: no knowledge of the format that a
/// mistake in the writer could share.
fn unpacked(file: &[u8]) -> Vec<u8> {
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let (mut out, mut at, mut frames) = (Vec::new(), 0, 0);
    while let Some(found) = file[at..].windows(4).position(|window| window == MAGIC) {
        out.extend_from_slice(&file[at..at + found]);
        let start = at + found;
        let size = zstd::zstd_safe::find_frame_compressed_size(&file[start..]).expect("a whole frame");
        // 4 MiB: more than any section or chunk of pages has.
        out.extend(zstd::bulk::decompress(&file[start..start + size], 4 << 20).expect("a good frame"));
        at = start + size;
        frames += 1;
    }
    assert!(frames >= 7, "six sections and at least one chunk of pages, found {frames}");
    out.extend_from_slice(&file[at..]);
    out
}

/// Runs of printable bytes.
fn strings(bytes: &[u8], at_least: usize) -> BTreeSet<String> {
    bytes
        .split(|byte| !(0x20..0x7f).contains(byte))
        .filter(|run| run.len() >= at_least)
        .map(|run| String::from_utf8_lossy(run).into_owned())
        .collect()
}

#[test]
fn the_list_of_samples_is_complete() {
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    };
    let root = folder("");
    let mut folders = BTreeSet::new();
    for name in names(&root) {
        folders.extend(names(&root.join(&name)).into_iter().map(|inner| format!("{name}/{inner}")));
        folders.insert(name);
    }
    // hand-written workloads are samples too, but no recordings; tools/ holds one run in the forms of other
    // tools, see its own test
    folders.retain(|name| root.join(name).join("trace.dat").exists() && name != "tools");
    let listed: BTreeSet<String> = SAMPLES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(folders, listed);
    let mut total = 0;
    for (sample, _) in SAMPLES {
        assert!(
            folder(sample).join("PROVENANCE.md").exists() || folder(sample).join("../PROVENANCE.md").exists()
        );
        for file in ["trace.dat", "trace.proc.csv"] {
            let path = folder(sample).join(file);
            let bytes = std::fs::metadata(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).len();
            assert!(bytes < 3_000_000, "{} has {bytes} bytes", path.display());
            total += bytes;
        }
    }
    assert!(total < 10_000_000, "all samples together have {total} bytes");
}

#[test]
fn names_in_events_and_saved_names_are_allowed_ones() {
    for (sample, own) in SAMPLES {
        let file =
            TraceFile::open(&folder(sample).join("trace.dat"), Mode::Strict).expect("a readable sample");
        let mut names: BTreeSet<String> = file.cmdlines().values().cloned().collect();
        let mut events = file.events().expect("sched events");
        while let Some(event) = events.next_event().expect("a readable event") {
            use schedlab_trace::SchedEvent::*;
            match event.what {
                Switch { prev, next, .. } => {
                    names.insert(events.comm(prev.comm).to_owned());
                    names.insert(events.comm(next.comm).to_owned());
                }
                Waking(wake) | Wakeup(wake) | WakeupNew(wake) => {
                    names.insert(events.comm(wake.comm).to_owned());
                }
                _ => {}
            }
        }
        for name in &names {
            assert!(is_allowed(name, own), "{sample}: {name:?} in an event");
        }
        let unused: Vec<_> = own.iter().filter(|name| !names.contains(**name)).collect();
        assert!(unused.is_empty(), "{sample}: {unused:?} may occur and do not: shorten the list");
        assert_eq!(file.uname(), Some("Linux localhost 6.18 x86_64"), "{sample}");
        assert!(file.buffers().iter().all(|buffer| buffer.name.is_empty()), "{sample}");
    }
}

#[test]
fn names_and_groups_in_snapshots_are_allowed_ones() {
    for (sample, own) in SAMPLES {
        let snapshot = Snapshot::read(&folder(sample).join("trace.proc.csv")).expect("a readable snapshot");
        // a command that binds itself to a CPU is still called so when the snapshot is taken
        let own: Vec<&str> = own.iter().copied().chain(["taskset"]).collect();
        assert!(
            snapshot.rows.iter().any(|row| own.contains(&row.comm.as_str())),
            "{sample}: its command is there"
        );
        for row in &snapshot.rows {
            assert!(is_allowed(&row.comm, &own), "{sample}: {:?} in the snapshot", row.comm);
            let group = row.cgroup.path.as_deref().unwrap_or("/");
            let numbered = |n: &str| n.parse::<u32>().is_ok();
            assert!(
                group == "/" || group.strip_prefix("/cgroup-").is_some_and(numbered),
                "{sample}: {group}"
            );
            assert!(
                row.policy.is_some() && row.nice.is_some() && row.affinity.is_some(),
                "{sample}: {row:?}"
            );
        }
    }
}

#[test]
fn no_other_text_is_anywhere_in_the_files() {
    for (sample, own) in SAMPLES {
        let path = folder(sample).join("trace.dat");
        let bytes = unpacked(&std::fs::read(&path).expect("sample"));
        // What may stand there: the kernel's texts on events (which say "field:", "print fmt:" and the like,
        // and hold no data), and the few words of the container.
        let file = TraceFile::open(&path, Mode::Strict).expect("a readable sample");
        let mut texts: Vec<u8> = Vec::new();
        let meta = file.meta(0);
        texts.extend(meta.header_page.iter().chain(&meta.header_event));
        for format in meta.systems.iter().flat_map(|system| &system.formats).chain(&meta.ftrace_events) {
            texts.extend(format);
        }
        let kernel_texts = strings(&texts, 1);
        let container = [
            "Dtracing7",
            "header_page",
            "header_event",
            "syscalls",
            "cgroup",
            "irq_vectors",
            "headers",
            "ftrace events",
            "events format",
            "kallsyms",
            "printk",
            "command lines",
            "options",
            "strings",
            "flyrecord",
            "Linux localhost 6.18 x86_64",
            "[mono]",
            "zstd",
            "1.5.0",
            "schedlab 0.1.0",
            "schedlab", // whose event `object` is
        ];
        let count_line = |text: &str| {
            let names =
                ["CPU", "entries", "overrun", "commit overrun", "bytes", "dropped events", "read events"];
            text.split_once(": ").is_some_and(|(name, n)| names.contains(&name) && n.parse::<u64>().is_ok())
        };
        let saved_name = |text: &str| {
            text.split_once(' ')
                .is_some_and(|(pid, name)| pid.parse::<u32>().is_ok() && is_allowed(name, own))
        };
        // keys of objects are eight random bytes each, and thousands of them make six letters by chance
        for text in strings(&bytes, if sample.starts_with("objects/") { 10 } else { 6 }) {
            let known = kernel_texts.contains(&text) || container.contains(&text.as_str());
            // An executed program's name may be longer than a task's.
            let name = is_allowed(&text, own) || PROGRAMS.contains(&text.as_str());
            assert!(
                known || name || count_line(&text) || saved_name(&text),
                "{sample}: {text:?} in the file"
            );
        }
    }
}

/// Programs whose names are longer than a task's or differ from it.
const PROGRAMS: &[&str] = &[];

#[test]
fn the_search_for_text_finds_a_name_that_should_not_be_there() {
    // The checks above must be able to fail: a stranger's name in a page, packed as in a trace.
    let mut page = vec![0u8; 4096];
    page[100..110].copy_from_slice(b"topsecret\0");
    let packed = zstd::bulk::compress(&page, 3).expect("zstd");
    let file: Vec<u8> = (0..7).flat_map(|_| packed.clone()).collect();
    assert!(strings(&unpacked(&file), 6).contains("topsecret"));
    for name in ["topsecret", "kworker/0:1-events", "kworker/secret", "other-x", "migration/x", "irq/24-eth0"]
    {
        assert!(!is_allowed(name, &["gzip"]), "{name}");
    }
    for name in ["gzip", "kworker/0:1H", "kworker/u8:2", "other-7", "swapper/1", ""] {
        assert!(is_allowed(name, &["gzip"]), "{name}");
    }
}
