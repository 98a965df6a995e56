//! How is a command started so that none of its life is missed?
//!
//! It is forked first and held at a gate before exec; tracing starts and the snapshot is taken (the command's process
//! is in it); then the gate opens. It bears its final name from the start, so that the recorder's own name appears
//! nowhere in the command's life.
//!
//! ```text
//!  recorder   fork ── tracing on ── snapshot ── open gate ───────────────── wait ── tracing off
//!  command     └── waits at the gate ────────────────└── exec CMD ... exit ──┘
//! ```

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use crate::error::HostError;
use crate::signals::STOPPING;
use crate::user::User;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// It returned this status.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// The recording was stopped and it is still running.
    StillRunning,
}

impl CommandEnd {
    /// The exit status a shell would give: the command's own, 128 + the signal, and 130 (as after Ctrl-C) for one that
    /// runs on.
    pub fn status(&self) -> i32 {
        match self {
            CommandEnd::Exited(status) => *status,
            CommandEnd::Signalled(signal) => 128 + signal,
            CommandEnd::StillRunning => 128 + libc::SIGINT,
        }
    }
}

/// A command held at its gate, or running.
pub(crate) struct Command {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    gate: Option<OwnedFd>,
    /// Carries a byte when the command stands at its gate, then the errno of a failed exec; closed by a successful one.
    exec_error: File,
    name: String,
    end: Option<CommandEnd>,
}

impl Command {
    /// Forks the command and holds it; it will run as this user, or as the recorder does.
    pub(crate) fn hold(argv: &[OsString], user: Option<&User>) -> Result<Command, HostError> {
        let name = argv.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = |source: io::Error| HostError::Command { command: name.clone(), source };
        let words: Vec<CString> =
            argv.iter().map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>().map_err(
                |_| failed(io::Error::new(io::ErrorKind::InvalidInput, "a word of it has a NUL byte")),
            )?;
        let Some(program) = words.first() else {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is empty")));
        };
        let base = name.rsplit('/').next().unwrap_or(&name);
        let base = CString::new(base).unwrap_or_default();
        let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(std::ptr::null());
        let environment = user.map(User::environment);
        let mut lines: Vec<*const libc::c_char> =
            environment.iter().flatten().map(|line| line.as_ptr()).collect();
        lines.push(std::ptr::null());
        let become_user = user.map(|user| (user, lines.as_slice()));
        let (gate_read, gate_write) = pipe()?;
        let (error_read, error_write) = pipe()?;

        // SAFETY: between fork and exec the child calls only async-signal-safe functions on memory made before the
        // fork (other threads of ours may hold the allocator's lock), and it never returns.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(HostError::last_os("cannot fork"));
        }
        if pid == 0 {
            // SAFETY: as above.
            unsafe { child(&gate_read, &gate_write, &error_write, &base, (program, &pointers), become_user) }
        }
        drop(gate_read);
        drop(error_write);
        // SAFETY: pidfd_open takes a pid and flags; the child is ours and not yet reaped, so the pid is its.
        let pidfd = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
            if fd < 0 {
                let error = HostError::last_os("cannot open a pidfd (Linux 5.3 or newer has them)");
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
                return Err(error);
            }
            OwnedFd::from_raw_fd(fd)
        };
        let mut command = Command {
            pid,
            pidfd,
            gate: Some(gate_write),
            exec_error: File::from(error_read),
            name,
            end: None,
        };
        // Until it says that it stands at the gate it may still bear the recorder's name.
        let mut ready = [0];
        match command.exec_error.read(&mut ready) {
            Ok(1) => Ok(command),
            _ => Err(HostError::last_os("the command ended before it began")),
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Becomes readable when it ends.
    pub(crate) fn fd(&self) -> RawFd {
        self.pidfd.as_raw_fd()
    }

    /// Lets it run; waits for its exec.
    pub(crate) fn open_gate(&mut self) -> Result<(), HostError> {
        if let Some(gate) = self.gate.take() {
            // SAFETY: one byte of a literal into a pipe we own.
            let written = unsafe { libc::write(gate.as_raw_fd(), c"g".as_ptr().cast(), 1) };
            // EPIPE: a signal (Ctrl-C) ended it at the gate; wait() tells.
            if written != 1 && io::Error::last_os_error().raw_os_error() != Some(libc::EPIPE) {
                return Err(HostError::last_os("cannot start the command"));
            }
        }
        let mut errno = [0; 4];
        match self.exec_error.read(&mut errno) {
            Ok(4) => {
                self.wait()?;
                let source = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
                Err(HostError::Command { command: self.name.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: libc::c_int) {
        if self.end.is_none() {
            // SAFETY: the child is not reaped yet, so the pid cannot be another's.
            unsafe { libc::kill(self.pid, signal) };
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> Result<CommandEnd, HostError> {
        if let Some(end) = self.end {
            return Ok(end);
        }
        let mut status = 0;
        loop {
            // SAFETY: status is a local; the pid is our unreaped child.
            if unsafe { libc::waitpid(self.pid, &mut status, 0) } == self.pid {
                break;
            }
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return Err(HostError::last_os("cannot wait for the command"));
            }
        }
        let end = if libc::WIFEXITED(status) {
            CommandEnd::Exited(libc::WEXITSTATUS(status))
        } else {
            CommandEnd::Signalled(libc::WTERMSIG(status))
        };
        self.end = Some(end);
        Ok(end)
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        // Still at the gate: something failed before it ran, and it must not wait for ever.
        if self.gate.is_some() && self.end.is_none() {
            self.signal(libc::SIGKILL);
            let _ = self.wait();
        }
    }
}

/// The child's side.
///
/// # Safety
/// Only in a forked child; `pointers` and the user's environment are null-terminated arrays of live C strings.
unsafe fn child(
    gate_read: &OwnedFd,
    gate_write: &OwnedFd,
    error_write: &OwnedFd,
    name: &CString,
    (program, pointers): (&CString, &[*const libc::c_char]),
    become_user: Option<(&User, &[*const libc::c_char])>,
) -> ! {
    // SAFETY: async-signal-safe calls on memory made before the fork.
    unsafe {
        // Our copy of the writing end would keep the gate from closing when the recorder dies.
        libc::close(gate_write.as_raw_fd());
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        // Rust programs ignore SIGPIPE; the command expects the default. The recorder's own handlers go too, so that
        // Ctrl-C works at the gate; what was ignored before (nohup) stays ignored.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        for signal in STOPPING {
            if libc::signal(signal, libc::SIG_DFL) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
        let mut byte = 0u8;
        libc::write(error_write.as_raw_fd(), (&raw const byte).cast(), 1);
        loop {
            let n = libc::read(gate_read.as_raw_fd(), (&raw mut byte).cast(), 1);
            if n == 1 {
                break;
            }
            if n == 0 || *libc::__errno_location() != libc::EINTR {
                libc::_exit(127);
            }
        }
        match become_user {
            None => {
                libc::execvp(program.as_ptr(), pointers.as_ptr());
            }
            // groups first: a user may not change them
            Some((user, environment)) => {
                if libc::setgroups(user.groups.len(), user.groups.as_ptr()) == 0
                    && libc::setgid(user.gid) == 0
                    && libc::setuid(user.uid) == 0
                {
                    libc::execvpe(program.as_ptr(), pointers.as_ptr(), environment.as_ptr());
                }
            }
        }
        let errno = *libc::__errno_location();
        libc::write(error_write.as_raw_fd(), (&raw const errno).cast(), 4);
        libc::_exit(127);
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), HostError> {
    let mut fds = [0; 2];
    // SAFETY: pipe2 fills the two descriptors, which then belong to the two owners made here.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(HostError::last_os("cannot make a pipe"));
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// A descriptor that becomes readable when a process that is not our child ends.
pub(crate) fn pidfd_of(pid: i32) -> Result<OwnedFd, HostError> {
    // SAFETY: pidfd_open takes a pid and flags; the result is checked and owned by nobody else.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
        if fd < 0 { Err(HostError::NoSuchProcess { pid }) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_held_command_runs_only_after_the_gate_opens() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mark = folder.path().join("mark");
        let mut command = Command::hold(&words(&format!("touch {}", mark.display())), None).expect("fork");
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!mark.exists());
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", command.pid())).expect("comm");
        assert_eq!(comm, "touch\n");
        command.open_gate().expect("exec");
        assert_eq!(command.wait().expect("wait"), CommandEnd::Exited(0));
        assert!(mark.exists());
    }

    #[test]
    fn status_and_signal_of_the_command_come_back() {
        for (argv, status) in [(vec!["sh", "-c", "exit 7"], 7), (vec!["sh", "-c", "kill -TERM $$"], 143)] {
            let argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
            let mut command = Command::hold(&argv, None).expect("fork");
            command.open_gate().expect("exec");
            assert_eq!(command.wait().expect("wait").status(), status);
        }
    }

    /// C8: as `sudo schedlab record -- id`: the user's ids, its groups alone, its home.
    #[test]
    fn a_command_runs_as_its_user() {
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("SKIPPED: only root can become someone else");
            return;
        }
        let nobody = User::named("nobody").expect("every system has nobody");
        let script = "[ $(id -un) = nobody ] && [ \"$(id -G)\" = $(id -g) ] && [ $USER = nobody ] && \
                      [ $HOME != /root ]";
        let argv: Vec<OsString> = ["sh", "-c", script].map(OsString::from).to_vec();
        let mut command = Command::hold(&argv, Some(&nobody)).expect("fork");
        command.open_gate().expect("exec");
        assert_eq!(command.wait().expect("wait"), CommandEnd::Exited(0));
    }

    #[test]
    fn a_command_that_is_not_there_is_an_error_with_its_name() {
        let mut command = Command::hold(&words("/no/such/program"), None).expect("fork");
        let error = command.open_gate().expect_err("no such program");
        assert!(error.to_string().contains("/no/such/program"), "{error}");
        assert!(Command::hold(&[], None).is_err());
    }

    #[test]
    fn a_command_that_never_starts_is_not_left_behind() {
        let command = Command::hold(&words("sleep 1000"), None).expect("fork");
        let pid = command.pid();
        drop(command);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
