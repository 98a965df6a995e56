//! How does a program get a process with one thread, although it has many itself? It starts itself again.
//!
//! A run forks, and a fork is safe only from a process with one thread. (Another thread may hold a lock, the
//! allocator's say, and the child's copy of it is never released.) A program with a notebook, a thread pool
//! or a test harness inside has many. So it starts its own executable once more, by `posix_spawn`, with a
//! variable in the environment that names an [`Entrance`]:
//!
//! ```text
//! program, 16 threads                  the same executable again, 1 thread
//!   RUNS.start() ──posix_spawn────────>  .init_array: SCHEDLAB_SERVE=runs ?
//!   socket <──────── stdin ───────────>  serve(socket), before main()
//!   closes it, or ends                   reads the end, ends as well
//! ```
//!
//! The loader calls the entrance before `main()`. So it is there in every executable that links the crate
//! which declares it: the command line, a test of any crate, an example, a user's own program. None of them
//! has to do anything, and what is started is always what runs already: nothing can be stale. A shared
//! library in someone else's executable (Python) names a program: [`set_program`].

use schedlab_stdx::lock;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

pub mod contain;
mod image;
mod pids;

pub use image::{address_of_offset, offset_of_address};
pub use pids::PROCESSES_MAX;

/// The environment variable that names the entrance.
pub const VARIABLE: &str = "SCHEDLAB_SERVE";

/// How long a started program may take for its first word: valgrind needs seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Started by hand, or with threads: EX_USAGE and EX_SOFTWARE of sysexits.h.
const EXIT_USAGE: i32 = 64;
const EXIT_SOFTWARE: i32 = 70;

/// A second way into the program. Made by [`entrance!`].
pub struct Entrance {
    name: &'static str,
    serve: fn(UnixStream),
}

/// Declares a [`static Entrance`](Entrance) and has the loader ask it before `main()`.
///
/// The second argument is a `fn(UnixStream)`. It runs before `main()` in a process with one thread; the
/// process ends when it returns. It must not rely on what `main()` or a test harness sets up. A panic in it
/// ends the process.
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
///
/// fn echo(mut socket: UnixStream) {
///     let mut word = [0; 5];
///     socket.read_exact(&mut word).unwrap();
///     socket.write_all(&word).unwrap();
/// }
/// schedlab_process::entrance! {
///     /// Says what it hears.
///     static ECHO = ("echo", echo);
/// }
///
/// let mut other = ECHO.start().unwrap();
/// other.socket.write_all(b"hello").unwrap();
/// let mut word = [0; 5];
/// other.socket.read_exact(&mut word).unwrap();
/// assert_eq!(&word, b"hello");
/// assert!(other.child.wait().unwrap().success());
/// ```
#[macro_export]
macro_rules! entrance {
    ($(#[$doc:meta])* $visible:vis static $ENTRANCE:ident = ($name:literal, $serve:path);) => {
        $(#[$doc])*
        $visible static $ENTRANCE: $crate::Entrance = $crate::Entrance::new($name, $serve);

        // SAFETY (of the section): the loader calls what is in it one after the other, in a process with one
        // thread, when all libraries are relocated and libc is ready. std needs no more for what is used
        // here: the environment, the allocator, files and sockets. The function does not unwind (extern "C")
        // and takes no arguments, which libc tolerates.
        const _: () = {
            extern "C" fn open() {
                $ENTRANCE.open();
            }
            #[used]
            #[unsafe(link_section = ".init_array")]
            static OPEN: extern "C" fn() = open;
        };
    };
}

/// A program that has started again.
#[derive(Debug)]
pub struct Started {
    /// To be waited for.
    pub child: Child,
    /// The line to it. It ends when this is closed.
    pub socket: UnixStream,
    /// Whether it is this very executable: addresses in it mean the same ([`offset_of_address`]).
    pub is_own: bool,
}

/// A program that does not start again.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The executable is someone else's.
    #[error(
        "this code is a library inside {program}, which cannot be started for a run; name the schedlab program that \
            can (set_program)"
    )]
    NotOwn {
        /// The executable.
        program: String,
    },
    /// The system refuses.
    #[error(
        "cannot start {program} again: {source}; raise the limits on processes and files (ulimit -u, ulimit -n)"
    )]
    Start {
        /// The executable.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// It is no program of ours, or it broke.
    #[error("{program} was started for runs, and {how}; name a schedlab program of this release")]
    Silent {
        /// The executable.
        program: String,
        /// What came instead of an answer.
        how: String,
    },
}

static PROGRAM: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Names the executable that is started from now on; `None`: this process's own. For libraries inside a
/// foreign executable.
pub fn set_program(program: Option<PathBuf>) {
    *lock(&PROGRAM) = program;
}

/// What has been given to [`set_program`].
pub fn program() -> Option<PathBuf> {
    lock(&PROGRAM).clone()
}

/// The command ends with this process, whatever ends that: a `kill -9`, Ctrl-C, a crash. It then gets this
/// signal. Its own children get nothing; one that has many is asked (SIGTERM) and passes it on.
///
/// The thread that starts the command must live as long as it is wanted: the system watches the thread.
pub fn ends_with_us(command: &mut Command, signal: i32) {
    let us = std::process::id();
    // SAFETY: after fork: prctl(2) and getppid(2) are async-signal-safe and touch no memory.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
                return Err(io::Error::last_os_error());
            }
            match std::os::unix::process::parent_id() == us {
                true => Ok(()),
                false => Err(io::Error::other("the program that started it has ended")), // before it was asked for
            }
        });
    }
}

/// Removes what a process of ours left in a folder when it was killed: entries whose name is `prefix` and the
/// number of a process that is gone, with anything behind it. Others' entries stay, and so does what cannot be
/// removed.
///
/// ```
/// let folder = std::env::temp_dir().join(format!("schedlab-sweep-{}", std::process::id()));
/// let ours = folder.join(format!("part-{}", std::process::id()));
/// // no Linux has a process of the number 4194304
/// for entry in [&ours, &folder.join("part-4194304-x"), &folder.join("party")] {
///     std::fs::create_dir_all(entry).unwrap();
/// }
/// schedlab_process::sweep(&folder, "part-");
/// assert!(ours.is_dir() && !folder.join("part-4194304-x").exists() && folder.join("party").is_dir());
/// std::fs::remove_dir_all(folder).unwrap();
/// ```
pub fn sweep(folder: &Path, prefix: &str) {
    // SAFETY: asks for a number.
    let me = unsafe { libc::geteuid() };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)).map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse::<u32>()
        });
        let Some(Ok(pid)) = number else { continue };
        let is_ours = entry.metadata().is_ok_and(|metadata| metadata.uid() == me);
        if is_ours && !Path::new("/proc").join(pid.to_string()).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A prefix for names of temporary files or folders, with this process's number in it; what others of the same name
/// left when they were killed is removed first ([`sweep`]).
///
/// ```
/// let prefix = schedlab_process::prefix_in(&std::env::temp_dir(), "schedlab-doc-");
/// assert_eq!(prefix, format!("schedlab-doc-{}-", std::process::id()));
/// ```
pub fn prefix_in(folder: &Path, name: &str) -> String {
    sweep(folder, name);
    format!("{name}{}-", std::process::id())
}

/// In words, as a shell's user knows it: how a process ended.
pub fn ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(libc::SIGKILL)) => {
            "was ended by signal 9 (SIGKILL: from outside, or out of memory)".into()
        }
        (None, Some(libc::SIGSYS)) => {
            "was ended by signal 31 (SIGSYS: it asked the host for something that it may not)".into()
        }
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// The executable's file: device and inode.
type Identity = [u64; 2];

const OWN: &str = "/proc/self/exe";

fn identity() -> Identity {
    std::fs::metadata(OWN).map_or([0; 2], |file| [file.dev(), file.ino()])
}

impl Entrance {
    /// Use [`entrance!`], which also has the loader ask for it.
    pub const fn new(name: &'static str, serve: fn(UnixStream)) -> Entrance {
        Entrance { name, serve }
    }

    /// Called by the loader. Returns unless this process was started to serve here.
    pub fn open(&self) {
        if std::env::var_os(VARIABLE).is_none_or(|name| name != OsStr::new(self.name)) {
            return;
        }
        let complain = |why: &str, status: i32| -> ! {
            eprintln!("schedlab: {VARIABLE}={}: {why}", self.name);
            // SAFETY: ends the process at once; main() has not begun, so nothing is to be flushed.
            unsafe { libc::_exit(status) }
        };
        if nr_threads() != Some(1) {
            complain(
                "this process has threads before it begins; a library that it links starts them",
                EXIT_SOFTWARE,
            );
        }
        // SAFETY: there is no other thread. Whatever this process starts is not to serve.
        unsafe { std::env::remove_var(VARIABLE) };
        let socket = take_line().unwrap_or_else(|error| {
            let why =
                format!("its input is not the line to a schedlab program ({error}); unset this variable");
            complain(&why, EXIT_USAGE)
        });
        let said = (&socket).write_all(&identity().map(u64::to_le_bytes).concat());
        if said.is_ok() {
            (self.serve)(socket);
        }
        // SAFETY: as above.
        unsafe { libc::_exit(0) }
    }

    /// Starts the program again, to serve here. May be called from any thread.
    ///
    /// # Errors
    /// This code is a library in another program, and none is named; the system refuses; what was started
    /// does not answer.
    pub fn start(&self) -> Result<Started, StartError> {
        if let Some(program) = program() {
            return self.start_program(&program, None);
        }
        let name = std::fs::read_link(OWN).unwrap_or_else(|_| OWN.into());
        if image::offset_of_address(std::ptr::from_ref(self).addr()).is_none() {
            return Err(StartError::NotOwn { program: name.display().to_string() });
        }
        // by its name if that is still the same file (valgrind's own file is the one behind the link), else by the link
        let own = identity();
        match self.start_program(&name, Some(own)) {
            Err(_) if name.as_os_str() != OWN => self.start_program(Path::new(OWN), Some(own)),
            started => started,
        }
    }

    fn start_program(&self, program: &Path, own: Option<Identity>) -> Result<Started, StartError> {
        let text = || program.display().to_string();
        let refused = |source| StartError::Start { program: text(), source };
        let (socket, theirs) = UnixStream::pair().map_err(refused)?;
        let mut command = Command::new(program);
        command.arg0("schedlab-worker").env(VARIABLE, self.name).stdin(Stdio::from(OwnedFd::from(theirs)));
        // Ctrl-C is meant for the caller, which ends the line. A terminal, or a notebook, sends it to the whole group,
        // perhaps before the program has begun. A group of its own needs no fork, unlike code before an exec.
        command.process_group(0);
        let mut child = command.spawn().map_err(refused)?;
        drop(command); // and with it their end of the line
        let how = match greeting(&socket) {
            Ok(identity) if own.is_none_or(|own| own == identity) => {
                return Ok(Started { child, socket, is_own: own.is_some() });
            }
            Ok(_) => "it is another program by now".to_owned(),
            Err(error) => match child.try_wait() {
                Ok(Some(status)) => format!("it {}", ended(status)),
                _ => format!("it does not answer ({error})"),
            },
        };
        let _ = child.kill();
        let _ = child.wait();
        Err(StartError::Silent { program: text(), how })
    }
}

fn greeting(mut socket: &UnixStream) -> io::Result<Identity> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut words = [[0; 8]; 2];
    for word in &mut words {
        socket.read_exact(word)?;
    }
    socket.set_read_timeout(None)?;
    Ok(words.map(u64::from_le_bytes))
}

/// Threads of this process, if the system tells.
pub fn nr_threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// The line that [`Entrance::start`] laid as standard input; in its place comes an empty one. All other
/// descriptors that were inherited are closed: what keeps them open is not this process.
fn take_line() -> io::Result<UnixStream> {
    let mut kind = 0;
    let mut size = size_of_val(&kind) as libc::socklen_t;
    // SAFETY: the call fills two locals of the sizes that it is given.
    let asked = unsafe {
        libc::getsockopt(0, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut kind).cast(), &raw mut size)
    };
    if asked != 0 {
        return Err(io::Error::last_os_error());
    }
    if kind != libc::AF_UNIX {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: nothing of this process has begun: no descriptor from 3 on belongs to any object of it. A
    // kernel without this call (5.8 and older) leaves them open.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    // SAFETY: descriptor 0 is open, see above.
    let line = unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3) };
    if line < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let line = UnixStream::from(unsafe { OwnedFd::from_raw_fd(line) });
    let empty = std::fs::File::open("/dev/null")?;
    // SAFETY: both are open; 0 is replaced, which nobody else uses yet.
    if unsafe { libc::dup2(empty.as_raw_fd(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(line)
}
