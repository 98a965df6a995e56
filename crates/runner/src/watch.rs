//! The worker's side of a run: is the child alive, does it get on, is its caller still there?

use crate::control::ControlPage;
use crate::crash;
use crate::wire::Ended;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a child has had for its next event. Only time counts in which it could have gone on: its CPU
/// time, and time that it slept of its own accord. A host that is busy, a slow disk, a debugger and a user
/// who stops the job for a while (Ctrl-Z) are no endless loop.
struct Patience {
    pulse: u64,
    cpu: Duration,
    looked: Instant,
    used_up: Duration,
}

/// Most that counts between two looks as slept: the worker may itself have been kept from looking.
const LONGEST_LOOK: Duration = Duration::from_millis(100);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

impl Patience {
    fn new() -> Patience {
        Patience { pulse: 0, cpu: Duration::ZERO, looked: Instant::now(), used_up: Duration::ZERO }
    }

    /// Looks at the child, which must not have been waited for.
    fn look(&mut self, pid: libc::pid_t, pulse: u64) -> Duration {
        let (cpu, now) = (cpu_time(pid), Instant::now());
        if pulse == self.pulse {
            let used = cpu.saturating_sub(self.cpu);
            let rest = now.duration_since(self.looked).saturating_sub(used).min(LONGEST_LOOK);
            self.used_up += if is_asleep(pid) { used + rest } else { used };
        } else {
            self.used_up = Duration::ZERO;
        }
        (self.pulse, self.cpu, self.looked) = (pulse, cpu, now);
        self.used_up
    }
}

/// CPU time that a process has used.
fn cpu_time(pid: libc::pid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut clock = 0;
    // SAFETY: both calls fill a local.
    let known = unsafe {
        libc::clock_getcpuclockid(pid, &mut clock) == 0 && libc::clock_gettime(clock, &mut time) == 0
    };
    if known { Duration::new(time.tv_sec as u64, time.tv_nsec as u32) } else { Duration::ZERO }
}

/// Whether a process sleeps, and could be woken: `1234 (name) S ...`.
fn is_asleep(pid: libc::pid_t) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// The end of a child interrupts this process while it waits in [`rest`], and only there.
pub(crate) struct Attention {
    /// The signals blocked there.
    while_resting: libc::sigset_t,
}

extern "C" fn nothing(_signal: i32) {}

impl Attention {
    /// From now on.
    pub(crate) fn pay() -> Attention {
        // SAFETY: all structures are locals; the handler does nothing. There is one thread.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut());
            let mut blocked: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut blocked);
            libc::sigaddset(&mut blocked, libc::SIGCHLD);
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigprocmask(libc::SIG_BLOCK, &blocked, &mut before);
            libc::sigdelset(&mut before, libc::SIGCHLD);
            Attention { while_resting: before }
        }
    }

    /// In a child: as if it had never been paid.
    pub(crate) fn end(&self) {
        // SAFETY: the set is this object's; SIGCHLD is ignored by default.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::sigprocmask(libc::SIG_SETMASK, &self.while_resting, std::ptr::null_mut());
        }
    }

    /// Rests until a child ends, the line has something (its end, that is), or the time is over. True: the line.
    fn rest(&self, line: BorrowedFd<'_>, at_most: Duration) -> bool {
        let mut poll = libc::pollfd { fd: line.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let time =
            libc::timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
        // SAFETY: the arguments are locals or this object's, and outlive the call.
        unsafe { libc::ppoll(&mut poll, 1, &time, &self.while_resting) == 1 }
    }

    /// Waits for the child; ends it when its pulse stops. `None`: whoever asked for it has gone, and so has the child.
    pub(crate) fn watch(
        &self,
        pid: libc::pid_t,
        page: &ControlPage,
        stall_limit: Duration,
        line: BorrowedFd<'_>,
    ) -> Option<Ended> {
        let mut patience = Patience::new();
        let mut looked = Instant::now();
        loop {
            let mut status = 0;
            // SAFETY: `status` outlives the call, `pid` is our child.
            let waited = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
            if waited == pid {
                return Some(if libc::WIFSIGNALED(status) {
                    Ended::Signal(libc::WTERMSIG(status))
                } else {
                    Ended::Exited(libc::WEXITSTATUS(status))
                });
            }
            if looked.elapsed() >= PAUSE {
                looked = Instant::now();
                if patience.look(pid, page.pulse.load(Ordering::Relaxed)) > stall_limit {
                    end_stalled(pid);
                    return Some(Ended::Stalled);
                }
            }
            if self.rest(line, PAUSE) {
                kill(pid);
                return None;
            }
        }
    }
}

/// A child that stalls says where it is and ends by that; if it cannot, it is ended.
fn end_stalled(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: `pid` is our child, not yet waited for; waitpid then takes its status.
    unsafe {
        libc::kill(pid, crash::ASK);
        let asked = Instant::now();
        while libc::waitpid(pid, &mut status, libc::WNOHANG) != pid {
            if asked.elapsed() > Duration::from_secs(2) {
                return kill(pid);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn kill(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: `pid` is our child, not yet waited for.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, &mut status, 0);
    }
}

/// Ends whatever a child has left behind: this process is the one to which orphans among its descendants come.
pub(crate) fn end_descendants() {
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call; every child of this process is one of a run's.
        let waited = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        match waited {
            0 => {
                let me = std::process::id();
                let all =
                    std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")).unwrap_or_default();
                for pid in all.split_whitespace().filter_map(|pid| pid.parse::<libc::pid_t>().ok()) {
                    // SAFETY: a child of this process that has not been waited for keeps its number.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            pid if pid > 0 => {}
            _ => return,
        }
    }
}
