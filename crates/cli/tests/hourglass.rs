//! `schedlab hourglass`: safe however it ends, of use without rights, and right where the truth is known.

mod common;

use common::{fails, has_linux, json};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Processes whose command line has this word.
fn with_word(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // a dead process that nobody has waited for has no command line
        if line.contains(word) {
            found.push(line);
        }
    }
    found
}

/// Kills a run at one moment after the other; nothing of it may be left.
fn nothing_is_left(times: u64) {
    let load = ["--load", "NET"];
    // where its programs are not installed, it is refused before anything is started
    let has_load = ["iperf3", "ip", "unshare"].iter().all(|program| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
    });
    let folder = tempfile::tempdir().unwrap();
    for time in 0..times {
        // a number that no other process has on its command line
        let odd = format!("{}.{time:04}", 7000 + std::process::id());
        let beside = format!("sleep {odd} & sleep {odd}");
        let files = ["a.log", "a.html", "a.json"].map(|name| folder.path().join(name));
        let [log, html, json] = files.each_ref().map(|path| path.to_str().unwrap());
        let mut child = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .args(["--quiet", "hourglass", "-d", "150ms", "-n", "3", "--beside", &beside])
            .args(["--log", log, "--html", html, "--json", json])
            .args(if has_load { &load[..] } else { &[] })
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // spread over the run's length, without a pattern
        let at_us = (time * 2_654_435_761) % 900_000;
        std::thread::sleep(Duration::from_micros(at_us));
        child.kill().unwrap();
        child.wait().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while !with_word(&odd).is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(with_word(&odd), Vec::<String>::new(), "killed after {at_us} us");
        for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
            let path = entry.path();
            assert!(files.contains(&path), "killed after {at_us} us: {} is left", path.display());
            let text = std::fs::read_to_string(&path).unwrap();
            let is_whole = match path.extension().unwrap().to_str() {
                Some("html") => text.trim_end().ends_with("</html>"),
                Some("json") => serde_json::from_str::<serde_json::Value>(&text).is_ok(),
                _ => schedlab_log::open(&path).is_ok(),
            };
            assert!(is_whole, "killed after {at_us} us: {} is half a file", path.display());
            std::fs::remove_file(path).unwrap();
        }
    }
    // a namespace without a name lives as long as a process in it: the load's ends have their address on their line
    let ends = "10.77.0.";
    let until = Instant::now() + Duration::from_secs(10);
    while !with_word(ends).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(with_word(ends), Vec::<String>::new(), "an end of the load is left");
}

#[test]
fn a_killed_run_leaves_nothing() {
    nothing_is_left(6);
}

#[test]
#[ignore = "long: a hundred runs are killed"]
fn a_run_killed_at_a_hundred_moments_leaves_nothing() {
    nothing_is_left(100);
}

#[test]
fn real_time_threads_may_not_have_every_cpu() {
    let cpus = std::thread::available_parallelism().unwrap().get().to_string();
    let (code, said) = fails(&["hourglass", "-d", "100ms", "-n", &cpus, "-p", "FIFO", "10", "-w", "CPU"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--all-cpus"), "{said}");
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

/// This program as the user nobody; `None` (said aloud) where we are not root.
fn as_nobody() -> Option<Command> {
    if !is_root() {
        eprintln!("SKIPPED: only root can become nobody; every other test here runs without rights then");
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
    command.arg(env!("CARGO_BIN_EXE_schedlab")).arg("--quiet").current_dir("/");
    Some(command)
}

/// Status, what was printed, and what was said of it.
fn ended(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.code().unwrap_or(-1), out, err)
}

/// As the user nobody: a map with causes, and a sentence for each right that is missing.
#[test]
fn a_user_without_rights_gets_a_map() {
    let Some(mut command) = as_nobody() else { return };
    let line = "hourglass -d 300ms -w PERIODIC 1ms 10ms -p RTHIGH -i RTC";
    let (code, said, error) = ended(command.args(line.split(' ')));
    assert_eq!(code, 0, "{said}{error}");
    assert!(said.contains("RTHIGH") || said.contains("was refused"), "{said}");
    assert!(said.contains("deadlines missed") && said.contains("cause of a gap"), "{said}");
}

/// As the user nobody, who may lock no memory at all.
#[test]
fn memory_that_cannot_be_locked_is_said() {
    let Some(mut command) = as_nobody() else { return };
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &none);
            Ok(())
        });
    }
    let (code, said, error) = ended(command.args(["hourglass", "-d", "100ms"]));
    assert!(code == 0 && said.contains("could not be locked") && said.contains("ulimit -l"), "{said}{error}");
}

/// `infer` as the user nobody.
#[test]
fn a_user_without_rights_gets_answers() {
    let Some(mut command) = as_nobody() else { return };
    let (code, said, error) = ended(command.args(["hourglass", "infer", "-d", "200ms"]));
    assert_eq!(code, 0, "{said}{error}");
    assert!(said.contains("tick_ns") && said.contains("dispatch_latency_ns"), "{said}");
}

/// What is denied is missing and said; nothing is made up from counters that nobody could read.
fn denied(calls: &[i64], line: &str) -> (i32, String, String) {
    // load the call's number; equal to one of them: EPERM; else: as it was
    let stop = |code: u16, jt: u8, jf: u8, k: u32| libc::sock_filter { code, jt, jf, k };
    let mut filter = vec![stop(0x20, 0, 0, 0)];
    for (place, call) in calls.iter().enumerate() {
        filter.push(stop(0x15, (calls.len() - place) as u8, 0, *call as u32));
    }
    filter.extend([stop(0x06, 0, 0, 0x7fff_0000), stop(0x06, 0, 0, 0x0005_0000 | libc::EPERM as u32)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    // SAFETY: two system calls between fork and exec; the filter lives in the parent's memory, which the child has a
    // copy of.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            match libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    ended(command.arg("--quiet").args(line.split(' ')))
}

#[test]
fn what_seccomp_denies_is_missing_and_said() {
    let rights = [libc::SYS_perf_event_open, libc::SYS_bpf, libc::SYS_mlock, libc::SYS_sched_setattr];
    let (code, said, error) = denied(&rights, "hourglass -d 200ms -w LATENCY 5ms -p NICE 5");
    assert_eq!(code, 0, "{said}{error}");
    for words in ["could not be locked", "nice 5 was refused", "woken by ABSOLUTE"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (code, said, error) = denied(&[libc::SYS_getrusage], "hourglass -d 200ms --json -");
    assert_eq!(code, 0, "{said}{error}");
    let found: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(said.contains("switches and faults (getrusage)"), "{said}");
    // without the counter of switches nobody knows of a migration, a fault or a stop
    for cause in ["migration", "page fault", "stopped"] {
        assert_eq!(by_cause(&found, cause), 0, "{said}");
    }
    // threads cannot be made at all: a sentence, no result
    let (code, said, error) = denied(&[libc::SYS_clone3, libc::SYS_clone], "hourglass -d 200ms");
    assert!(code == 2 && said.is_empty() && error.contains("cannot be made"), "{code} {said}{error}");
}

/// Stopped for 300 ms in the middle: that time is said to be just this, and `whatif` refuses such a run.
#[test]
fn a_process_that_is_stopped_says_so() {
    let stopped = |words: &str| {
        let child = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .arg("--quiet")
            .args(words.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let signal = |signal| {
            // SAFETY: a process of ours that nobody has waited for.
            unsafe { libc::kill(child.id() as i32, signal) };
        };
        // its thread is there and has begun
        let tasks = format!("/proc/{}/task", child.id());
        let comm =
            |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let is_there = || {
            std::fs::read_dir(&tasks)
                .is_ok_and(|list| list.flatten().any(|e| comm(e).trim() == "hourglass-0"))
        };
        let until = Instant::now() + Duration::from_secs(20);
        while !is_there() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(300));
        signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(300));
        signal(libc::SIGCONT);
        let output = child.wait_with_output().unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), out, err)
    };
    let (code, said, error) = stopped("hourglass -d 1500ms -w CPU --json -");
    assert_eq!(code, Some(0), "{error}");
    let found: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!((250_000_000..1_400_000_000).contains(&by_cause(&found, "stopped")), "{said}");
    let (code, said, error) = stopped("hourglass whatif -d 1500ms -w NONBLOCKING 4ms 5ms");
    assert!(code == Some(2) && said.is_empty() && error.contains("SIGSTOP"), "{said}{error}");
}

/// A virtual machine whose counter is not invariant, as far as the program can see: the kernel's clock, and why.
#[test]
fn without_an_invariant_counter_the_kernels_clock_is_polled() {
    if !is_root() {
        eprintln!("SKIPPED: only root can put another file over /proc/cpuinfo");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("cpuinfo");
    let text = std::fs::read_to_string("/proc/cpuinfo")
        .unwrap()
        .replace("nonstop_tsc", "")
        .replace("constant_tsc", "");
    std::fs::write(&other, text).unwrap();
    let script = "mount --bind \"$1\" /proc/cpuinfo && exec \"$2\" --quiet hourglass -d 200ms";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&other).arg(env!("CARGO_BIN_EXE_schedlab"));
    let (code, said, error) = ended(&mut command);
    assert_eq!(code, 0, "{said}{error}");
    assert!(said.contains("the kernel's clock is polled") && said.contains("clock_gettime"), "{said}");
}

/// Each mistake is shown where it stands, with what is expected; no result is printed.
#[test]
fn mistakes_on_the_line_are_shown() {
    for (line, words) in [
        ("hourglass -n 1000000", "1000000 threads"),
        ("hourglass -w PERIODIC 6ms 5ms", "C <= T"),
        ("hourglass -w PERIODIC 0ms 0ms", "period of 0"),
        ("hourglass -w PERIODIC 4ms 5weeks", "unknown unit"),
        ("hourglass -i SUNDIAL", "no timer"),
        ("hourglass -a 4000", "does not exist"),
        ("hourglass -p TOP", "no class"),
        ("hourglass -w GUESS", "no model"),
        ("hourglass --load RAIN", "no load"),
        ("hourglass --in moon", "no place"),
        ("hourglass compare here guest:", "no place"),
        ("hourglass check --recorder tape", "expected auto"),
        ("hourglass infer --from /no/such.log", "/no/such.log"),
        ("hourglass -d 0s", "duration is 0"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        let (code, said, error) = ended(command.args(line.split(' ')));
        assert!(code == 2 && said.is_empty() && error.contains(words), "{line}: {code} {said}{error}");
    }
}

/// Time by cause in ns, of a run whose tables are JSON.
fn by_cause(found: &serde_json::Value, cause: &str) -> u64 {
    let tables = found["tables"].as_array().unwrap();
    let causes = tables.iter().find(|table| table["name"] == "causes").unwrap();
    let rows = causes["rows"].as_array().unwrap().iter().filter(|row| row["cause"] == cause);
    rows.map(|row| row["sum_ns"].as_u64().unwrap()).sum()
}

/// A group with cpu.max, in the first version of groups or the second; gone with its value.
struct Group(std::path::PathBuf);

impl Group {
    /// 2 ms of every 40 ms, less than a busy machine leaves; `None` if groups cannot be made here.
    fn throttled() -> Option<Group> {
        let name = format!("schedlab-test-{}", std::process::id());
        for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"] {
            let group = Group(std::path::Path::new(root).join(&name));
            let set = |file: &str, value: &str| std::fs::write(group.0.join(file), value).is_ok();
            let first = || set("cpu.cfs_period_us", "40000") && set("cpu.cfs_quota_us", "2000");
            if std::fs::create_dir(&group.0).is_ok() && (first() || set("cpu.max", "2000 40000")) {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).ok();
    }
}

/// A recorder that is killed leaves no trace instance: a second process removes it.
#[test]
fn a_killed_check_leaves_no_trace_instance() {
    let instances = std::path::Path::new("/sys/kernel/tracing/instances");
    let of = |pid: u32| -> Vec<String> {
        let names = std::fs::read_dir(instances).into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&format!("schedlab.{pid}."))).collect()
    };
    // SAFETY: asks who this is.
    if !instances.is_dir() || unsafe { libc::geteuid() } != 0 {
        return eprintln!("SKIPPED: recording needs root and tracefs");
    }
    let mut seen = 0;
    for time in 0..4_u64 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .args(["--quiet", "hourglass", "check", "-d", "20s", "-w", "CPU", "--recorder", "ftrace"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        let until = Instant::now() + Duration::from_secs(20);
        while of(pid).is_empty() && child.try_wait().unwrap().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        seen += of(pid).len();
        // the keeper is there some ms behind the instance; then at once, and in the midst of recording
        std::thread::sleep(Duration::from_millis(50 + time * 150));
        child.kill().unwrap();
        child.wait().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while !of(pid).is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(of(pid), Vec::<String>::new());
    }
    if seen == 0 {
        eprintln!("SKIPPED: this machine does not record");
    }
}

/// In a group with cpu.max most of the time is said to be its; beside a busy neighbour none of it.
#[test]
fn a_throttled_group_and_a_busy_neighbour_have_different_causes() {
    let Some(group) = Group::throttled() else {
        eprintln!("SKIPPED: no group with cpu.max can be made here");
        return;
    };
    let run = ["--quiet", "hourglass", "-d", "1s", "-a", "0", "-w", "CPU", "--json", "-"];
    let throttled = json(&[&run[..], &["-c", group.0.to_str().unwrap()]].concat());
    assert!(by_cause(&throttled, "cpu.max") > 500_000_000, "{throttled}");
    let neighbour = "exec taskset -c 0 sh -c 'while :; do :; done'";
    let beside = json(&[&run[..], &["--beside", neighbour]].concat());
    assert!(by_cause(&beside, "switched out") > 250_000_000, "{beside}");
    assert_eq!(by_cause(&beside, "cpu.max"), 0, "{beside}");
}

#[test]
fn an_rt_app_description_runs_as_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    std::fs::write(
        &path,
        r#"{ "global": { "duration": 1 }, "tasks": { "camera": { "loop": 20, "run": 1000,
             "timer": { "ref": "tick", "period": 10000 } } } }"#,
    )
    .unwrap();
    let found =
        json(&["--quiet", "hourglass", "-d", "300ms", "--rt-app", path.to_str().unwrap(), "--json", "-"]);
    let text = found.to_string();
    assert!(text.contains("SCRIPT camera"), "{text}");
}

/// A few cases under real Linux; `cargo test -p schedlab-hourglass` asks native schedulers.
#[test]
fn a_study_asks_real_linux() {
    if !has_linux() {
        return;
    }
    let found =
        json(&["--quiet", "hourglass", "study", "--runs", "6", "--sched", "linux-6.12", "--json", "-"]);
    let rows = found["tables"][0]["rows"].as_array().unwrap();
    let tick = rows.iter().find(|row| row.to_string().contains("tick_ns")).unwrap().to_string();
    assert!(!tick.contains("null"), "{tick}");
}

#[test]
fn what_if_says_what_it_needs() {
    let (code, said) = fails(&["hourglass", "whatif", "-d", "100ms", "-w", "CPU"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("deadlines"), "{said}");
    let (code, said) = fails(&["hourglass", "whatif", "--compute", "lots", "-d", "100ms"]);
    assert!(code == 2 && said.contains("per cent"), "{said}");
}

/// Guests that are measured by the host's clock, or beside one: one after the other.
static GUESTS: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// The same program in a guest with one CPU, beside the guest's own trace: every switch that it claims is one, and the
/// tick is the kernel's.
#[test]
#[ignore = "long: boots two guests"]
fn a_guests_own_trace_says_the_same() {
    let _alone = GUESTS.lock();
    for kernel in ["guest:6.12", "guest:6.1"] {
        let line = format!("hourglass check --in {kernel} --recorder ftrace -d 2s -n 3 -w CPU --json -");
        let found = json(&[&["--quiet"][..], &line.split(' ').collect::<Vec<_>>()].concat());
        let checked =
            found["tables"].as_array().unwrap().iter().find(|table| table["name"] == "check").unwrap();
        let row =
            |what: &str| checked["rows"].as_array().unwrap().iter().find(|row| row["what"] == what).unwrap();
        for what in ["recall", "precision"] {
            let row = row(what);
            assert!(row["of"].as_u64().unwrap() > 100, "{kernel}: {row}");
            assert!(row["value"].as_f64().unwrap() >= 99.0, "{kernel}: {row}");
        }
        let line = format!("hourglass infer --in {kernel} -d 1s --json -");
        let found = json(&[&["--quiet"][..], &line.split(' ').collect::<Vec<_>>()].concat());
        let rows = found["tables"][0]["rows"].as_array().unwrap().clone();
        let tick = rows.iter().find(|row| row["id"] == "tick_ns").unwrap();
        // Debian's kernels tick 250 times a second
        assert!((tick["value"].as_f64().unwrap() - 4e6).abs() < 4e3, "{kernel}: {tick}");
    }
}

/// A virtual machine that is robbed: its emulator is stopped for 60 ms of every 120. What it misses is the
/// hypervisor's. A busy neighbour inside it is not.
#[test]
#[ignore = "long: boots two guests"]
fn a_robbed_machine_and_a_busy_neighbour_have_different_causes() {
    let _alone = GUESTS.lock();
    let tag = format!("robbed={}", std::process::id());
    let line = |beside: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        let place = format!("guest:6.12,clock=host,{tag}");
        command.args(["--quiet", "hourglass", "--in", &place, "-d", "4s", "-w", "CPU", "--json", "-"]);
        if !beside.is_empty() {
            command.args(["--beside", beside]);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let found = |child: std::process::Child| -> serde_json::Value {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let mut child = line("");
    while child.try_wait().unwrap().is_none() {
        for (signal, ms) in [(libc::SIGSTOP, 60), (libc::SIGCONT, 60)] {
            for pid in emulators(&tag) {
                // SAFETY: a process that runs a guest of ours.
                unsafe { libc::kill(pid, signal) };
            }
            std::thread::sleep(Duration::from_millis(ms));
        }
    }
    let robbed = found(child);
    let beside = found(line("while :; do :; done"));
    assert!(by_cause(&robbed, "hypervisor") > 1_000_000_000, "{robbed}");
    assert!(by_cause(&robbed, "switched out") < 200_000_000, "{robbed}");
    assert!(by_cause(&beside, "switched out") > 1_000_000_000, "{beside}");
    assert!(by_cause(&beside, "hypervisor") < 400_000_000, "{beside}");
}

/// Emulators whose guest has this word.
fn emulators(word: &str) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        (line.contains("qemu-system") && line.contains("-append") && line.contains(word))
            .then(|| entry.file_name().to_string_lossy().parse().ok())
            .flatten()
    });
    pids.collect()
}
