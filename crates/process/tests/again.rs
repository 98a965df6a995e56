//! A test's own executable starts again, from many threads, and ends with the line to it.

use schedlab_process::{StartError, ended, nr_threads, set_program};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// Answers each byte with: threads, open descriptors, whether the variable is still set.
fn describe(mut socket: UnixStream) {
    let mut asked = [0];
    while socket.read_exact(&mut asked).is_ok() {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().count() - 1; // (the folder itself)
        let set = std::env::var_os(schedlab_process::VARIABLE).is_some();
        socket.write_all(&[nr_threads().unwrap() as u8, files as u8, u8::from(set)]).unwrap();
    }
}

schedlab_process::entrance! {
    /// What is it like there?
    static DESCRIBE = ("describe", describe);
}

#[test]
fn it_has_one_thread_and_no_file_of_ours() {
    // one that is passed on by a program that does not take care
    let leaky = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: a flag of a descriptor that is open.
    unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&leaky), libc::F_SETFD, 0) };
    let ask = || {
        let mut other = DESCRIBE.start().unwrap();
        assert!(other.is_own);
        other.socket.write_all(b"?").unwrap();
        let mut answer = [0; 3];
        other.socket.read_exact(&mut answer).unwrap();
        // input, output, errors, the line
        assert_eq!(answer, [1, 4, 0]);
        drop(other.socket);
        assert!(other.child.wait().unwrap().success());
    };
    std::thread::scope(|scope| {
        (0..8).for_each(|_| {
            scope.spawn(ask);
        });
    });
}

/// Starts a command that ends with this process, tells its number, and waits to be killed.
fn start_one(mut socket: UnixStream) {
    // (a test that runs in the background has SIGINT ignored)
    // SAFETY: sets dispositions before any thread or handler exists.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
    }
    let mut command = Command::new("nice");
    command.args(["-n", "1", "sleep", "100"]);
    schedlab_process::ends_with_us(&mut command, libc::SIGKILL);
    let mut child = command.spawn().unwrap();
    socket.write_all(&child.id().to_le_bytes()).unwrap();
    let _ = socket.read(&mut [0]);
    let _ = child.wait();
}

schedlab_process::entrance! {
    /// Has a child.
    static PARENT = ("parent", start_one);
}

#[test]
fn a_command_ends_with_whoever_started_it() {
    for signal in [libc::SIGKILL, libc::SIGINT, libc::SIGTERM] {
        let mut parent = PARENT.start().unwrap();
        let mut pid = [0; 4];
        parent.socket.read_exact(&mut pid).unwrap();
        let started = std::path::PathBuf::from(format!("/proc/{}/stat", u32::from_le_bytes(pid)));
        let lives = || std::fs::read_to_string(&started).is_ok_and(|stat| !stat.contains(") Z "));
        assert!(lives());
        // SAFETY: the parent is our child, not yet waited for.
        unsafe { libc::kill(parent.child.id() as i32, signal) };
        parent.child.wait().unwrap();
        let killed = std::time::Instant::now();
        while lives() {
            assert!(killed.elapsed().as_secs() < 10, "it survived signal {signal}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn by_hand_it_says_what_it_is() {
    let output = Command::new(std::env::current_exe().unwrap())
        .env(schedlab_process::VARIABLE, "describe")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("SCHEDLAB_SERVE=describe: its input is not the line")
    );
    assert_eq!(ended(output.status), "ended with status 64");
}

/// In a process of its own: the program is the whole process's.
#[test]
fn another_program_must_be_one_of_ours() {
    const CHILD: &str = "SCHEDLAB_TEST_OTHER_PROGRAM";
    if std::env::var_os(CHILD).is_none() {
        let test = "another_program_must_be_one_of_ours";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let status = again.args(["--exact", test]).env(CHILD, "1").status().unwrap();
        assert!(status.success());
        return;
    }
    set_program(Some("/bin/true".into()));
    match DESCRIBE.start() {
        Err(StartError::Silent { program, how }) => {
            assert_eq!(
                (program.as_str(), how.contains("status 0") || how.contains("does not answer")),
                ("/bin/true", true)
            );
        }
        other => panic!("{other:?}"),
    }
    set_program(Some("/nowhere/schedlab".into()));
    assert!(matches!(DESCRIBE.start(), Err(StartError::Start { .. })));
    set_program(Some(std::env::current_exe().unwrap()));
    let other = DESCRIBE.start().unwrap();
    assert!(!other.is_own, "it might be another build");
}
