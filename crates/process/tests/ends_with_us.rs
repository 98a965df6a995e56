//! C5: what a program started ends with it, also by `kill -9`. QEMU and the recorder's command are started so.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Starts `sleep 60` and says its number, then waits for ever.
fn starter(mut socket: UnixStream) {
    // a shell that starts tests in the background has SIGINT ignored, and that is inherited: nothing would end here
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: a disposition.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let mut command = Command::new("sleep");
    command.arg("60");
    schedlab_process::ends_with_us(&mut command, libc::SIGKILL);
    // nobody waits: the test kills this process while its child lives
    #[allow(clippy::zombie_processes)]
    let started = command.spawn().expect("sleep starts");
    socket.write_all(&started.id().to_le_bytes()).expect("the other end is there");
    let _ = socket.read(&mut [0]);
}

schedlab_process::entrance! {
    /// The program that is killed.
    static STARTER = ("starter", starter);
}

#[test]
fn what_was_started_ends_with_a_killed_starter() {
    for signal in [libc::SIGKILL, libc::SIGINT, libc::SIGTERM] {
        let mut other = STARTER.start().unwrap();
        let mut number = [0; 4];
        other.socket.read_exact(&mut number).unwrap();
        let stat = format!("/proc/{}/stat", u32::from_le_bytes(number));
        // gone, or dead and not yet waited for
        let ended = || std::fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z "));
        assert!(Path::new(&stat).exists() && !ended());
        // SAFETY: a signal to a child of ours that nobody has waited for.
        unsafe { libc::kill(other.child.id() as i32, signal) };
        other.child.wait().unwrap();
        let begin = Instant::now();
        while !ended() {
            assert!(begin.elapsed() < Duration::from_secs(10), "it outlives its starter ({signal})");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
