//! How does a recording end in order when somebody presses Ctrl-C?
//!
//! And how is one told to begin, or to end, by a program? By signals of the user's choice (SIGUSR1, SIGUSR2,
//! ...), which reach nobody else.
//!
//! The handlers only count and write to an eventfd, which the recorder's one waiting place polls. They are installed
//! for the length of a recording and the former ones put back afterwards.
//!
//! Ctrl-C in a terminal reaches the command by itself, because the kernel sends it to the whole foreground group;
//! `kill -INT` of the recorder does not. The two differ in `si_code`: positive for what the kernel sent, zero or less
//! for what a process sent. Only the latter is forwarded, so that the command gets each signal once.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::error::HostError;

/// A signal by its name, with or without SIG, in any case, or by its number; only those that may be caught,
/// and that do not end a recording anyway.
pub fn signal_by_name(name: &str) -> Option<libc::c_int> {
    const NAMES: [(&str, libc::c_int); 7] = [
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
        ("ALRM", libc::SIGALRM),
        ("CONT", libc::SIGCONT),
        ("URG", libc::SIGURG),
        ("WINCH", libc::SIGWINCH),
        ("IO", libc::SIGIO),
    ];
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = |&(known, number): &(&str, libc::c_int)| known == short || number.to_string() == short;
    NAMES.iter().find(|pair| known(pair)).map(|(_, number)| *number)
}

/// The signals that end a recording.
pub(crate) const STOPPING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

static EVENT_FD: AtomicI32 = AtomicI32::new(-1);
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Bit N: signal N has come; only for signals of the user's choice.
static CHOSEN: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicI32 = AtomicI32::new(0);
/// Whether LAST was sent by a process and so has to be forwarded.
static SENT_BY_PROCESS: AtomicBool = AtomicBool::new(false);
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// A stopping signal that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stop {
    /// How many have come so far.
    pub count: u32,
    /// The latest.
    pub signal: libc::c_int,
    /// The command has not had it: no terminal sent it.
    pub forward: bool,
}

/// The handlers of a recording; the former ones come back when dropped.
pub(crate) struct Signals {
    fd: OwnedFd,
    former: Vec<(libc::c_int, libc::sigaction)>,
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO; errno is this thread's own.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        if STOPPING.contains(&signal) {
            LAST.store(signal, Ordering::Relaxed);
            SENT_BY_PROCESS.store(info.is_null() || (*info).si_code <= 0, Ordering::Relaxed);
            COUNT.fetch_add(1, Ordering::Release);
        } else {
            CHOSEN.fetch_or(1 << signal, Ordering::Release);
        }
        let one = 1u64;
        // write is async-signal-safe; a full eventfd (EAGAIN) is as good as a written one.
        libc::write(EVENT_FD.load(Ordering::Relaxed), (&raw const one).cast(), 8);
        *errno = saved;
    }
}

impl Signals {
    /// Handlers for the stopping signals and for these `chosen` ones.
    pub(crate) fn install(chosen: &[libc::c_int]) -> Result<Signals, HostError> {
        if INSTALLED.swap(true, Ordering::AcqRel) {
            return Err(HostError::Busy);
        }
        let fd = match event_fd() {
            Ok(fd) => fd,
            Err(e) => {
                INSTALLED.store(false, Ordering::Release);
                return Err(e);
            }
        };
        EVENT_FD.store(fd.as_raw_fd(), Ordering::Relaxed);
        COUNT.store(0, Ordering::Release);
        CHOSEN.store(0, Ordering::Release);
        let mut signals = Signals { fd, former: Vec::new() };
        for signal in STOPPING.into_iter().chain(chosen.iter().copied()) {
            // SAFETY: an all-zero sigaction is valid (default action, empty mask).
            let mut former: libc::sigaction = unsafe { std::mem::zeroed() };
            // SAFETY: reads the current action into a local.
            if unsafe { libc::sigaction(signal, std::ptr::null(), &mut former) } != 0 {
                return Err(HostError::last_os("cannot read a signal's action"));
            }
            // nohup and the like: what is ignored stays ignored.
            if former.sa_sigaction == libc::SIG_IGN && STOPPING.contains(&signal) {
                continue;
            }
            // SAFETY: as above; then every field that matters is set.
            let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
            ours.sa_sigaction = on_signal as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // SAFETY: on_signal does only async-signal-safe things.
            if unsafe { libc::sigaction(signal, &ours, std::ptr::null_mut()) } != 0 {
                return Err(HostError::last_os("cannot install a signal handler"));
            }
            signals.former.push((signal, former));
        }
        Ok(signals)
    }

    /// Becomes readable when a signal has come.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Whether this chosen signal has come.
    pub(crate) fn has_come(&self, signal: libc::c_int) -> bool {
        CHOSEN.load(Ordering::Acquire) & 1 << signal != 0
    }

    /// The latest stopping signal, if any has come; quiets the descriptor.
    pub(crate) fn take(&self) -> Option<Stop> {
        drain_event_fd(self.fd.as_raw_fd());
        let count = COUNT.load(Ordering::Acquire);
        (count > 0).then(|| Stop {
            count,
            signal: LAST.load(Ordering::Relaxed),
            forward: SENT_BY_PROCESS.load(Ordering::Relaxed),
        })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, former) in &self.former {
            // SAFETY: puts back an action the kernel gave us.
            unsafe { libc::sigaction(*signal, former, std::ptr::null_mut()) };
        }
        EVENT_FD.store(-1, Ordering::Relaxed);
        INSTALLED.store(false, Ordering::Release);
    }
}

/// A descriptor that one side writes to and the other polls.
pub(crate) fn event_fd() -> Result<OwnedFd, HostError> {
    // SAFETY: eventfd takes no pointers; the result is checked and owned by nobody else.
    unsafe {
        let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
        if fd < 0 {
            return Err(HostError::last_os("cannot make an eventfd"));
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Wakes whoever polls the descriptor.
pub(crate) fn raise_event_fd(fd: RawFd) {
    let one = 1u64;
    // SAFETY: eight bytes of a local; a failed write means the counter is full, which wakes as well.
    unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

fn drain_event_fd(fd: RawFd) {
    let mut count = 0u64;
    // SAFETY: eight bytes into a local; EAGAIN when there was nothing.
    unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
}

/// Waits until one of the descriptors is readable or the time is over; which ones are, in order.
pub(crate) fn poll(fds: &[RawFd], timeout_ms: i32) -> Result<Vec<bool>, HostError> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: the pointer and length describe the vector above.
    let rc = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    if rc < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(HostError::System { doing: "cannot poll", source: error });
        }
    }
    Ok(polled.iter().map(|p| p.revents != 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_usual_names() {
        for (name, number) in
            [("SIGUSR1", Some(10)), ("usr2", Some(12)), ("10", Some(10)), ("KILL", None), ("INT", None)]
        {
            assert_eq!(signal_by_name(name), number, "{name}");
        }
    }
}
