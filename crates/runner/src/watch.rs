//! The parent's side: fork, watch, collect.

use crate::crash::{self, Scene};
use crate::{ChildReport, ExitKind, ExitReport, Request, RunEnd, RunError, Scheduler, child};
use schedlab_machine::sink::{Buffer, bytes};
use schedlab_machine::{Program, Setup};
use std::cell::UnsafeCell;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shared between parent and child.
#[repr(C)]
pub(crate) struct ControlPage {
    /// Grows while events happen.
    pub pulse: AtomicU64,
    /// Records that are not yet in the spill file; what a child that died leaves in it is read from here.
    pub log: Buffer,
    /// Written by a child that crashes, read when it is gone.
    scene: UnsafeCell<Scene>,
}

// SAFETY: the scene is written by one process (the dying child) and read by the other only after it has ended.
unsafe impl Sync for ControlPage {}

/// The control page in memory that both processes see; unmapped by the parent when the run is over.
struct SharedPage(*mut ControlPage);

impl SharedPage {
    fn new() -> std::io::Result<SharedPage> {
        // SAFETY: a fresh anonymous mapping; no address is asked for, so nothing is replaced.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<ControlPage>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            Err(std::io::Error::last_os_error())
        } else {
            Ok(SharedPage(page.cast()))
        }
    }
    fn get(&self) -> &ControlPage {
        // SAFETY: the mapping lives as long as `self` and is zeroed, which is valid for all fields.
        unsafe { &*self.0 }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: `self.0` is the mapping made in `new`, and no reference outlives `self` in this process.
        unsafe { libc::munmap(self.0.cast(), size_of::<ControlPage>()) };
    }
}

/// Where a child leaves the text of a panic; negative in the parent.
static CHILD_ANSWER: AtomicI32 = AtomicI32::new(-1);

/// Installs, once and before the first fork, a panic hook that knows whether it is in a child. (A child must not install one of its own: another
/// thread of the parent that was printing a panic during the fork holds the lock on hooks in the child's copy for ever.)
fn hook_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let in_parent = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let answer = CHILD_ANSWER.load(Ordering::Relaxed);
            if answer < 0 {
                return in_parent(info);
            }
            // SAFETY: the descriptor is open in a child until it ends; ManuallyDrop leaves it open.
            let mut text = ManuallyDrop::new(unsafe { File::from_raw_fd(answer) });
            let _ = write!(text, "{info}"); // a failure here leaves the signal to tell the story
            std::process::abort();
        }));
    });
}

fn host(doing: &'static str, remedy: &'static str) -> impl FnOnce(std::io::Error) -> RunError {
    move |source| RunError::Host { doing, source, remedy }
}

/// Runs the machine in a child; returns its report and the spill file, rewound.
pub(crate) fn supervise(
    request: &Request<'_>,
    program: Program,
    setup: Setup,
) -> Result<(ChildReport, File), RunError> {
    const SPACE: &str = "free space in the temporary directory (TMPDIR)";
    let mut spill = tempfile::tempfile().map_err(host("create a temporary file for the log", SPACE))?;
    let mut answer = tempfile::tempfile().map_err(host("create a temporary file for the report", SPACE))?;
    let child_spill = spill.try_clone().map_err(host("duplicate a file handle", "close files"))?;
    let page = SharedPage::new().map_err(host("map a shared page", "free memory"))?;
    let nr_tasks = request.workload.tasks.len();

    hook_panics();
    // SAFETY: the child only runs code of this program and leaves by _exit. Allocation after fork is safe with glibc's and
    // musl's allocators, which handle fork; the program has no other thread that could hold a lock the child needs
    // (progress is drawn by the parent itself).
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(host("start a child process", "raise the process limit (ulimit -u)")(
            std::io::Error::last_os_error(),
        )),
        0 => {
            let code = in_child(request, program, setup, child_spill, answer, page);
            // SAFETY: _exit ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
        pid => {
            drop(program);
            let status = wait(pid, page.get(), request.stall_limit);
            // SAFETY: the child is gone; nobody writes any more.
            let scene = unsafe { *page.get().scene.get() };
            let object = match request.scheduler {
                Scheduler::Linux(linux) => Some(&*linux.object),
                Scheduler::Native(_) => None,
            };
            let pulse = page.get().pulse.load(Ordering::Relaxed);
            let died = !matches!(status, Status::Exited(_));
            let rest = if died { page.get().log.rest() } else { &[] };
            // (after what the child has written: the position in the file is shared)
            spill.write_all(bytes(rest)).map_err(host("complete the log", SPACE))?;
            let time_ns = rest.last().map_or(0, |record| record.time_ns);
            spill.rewind().map_err(host("rewind the log", SPACE))?;
            let mut text = String::new();
            let read = answer.rewind().and_then(|()| answer.read_to_string(&mut text));
            read.map_err(host("read the run's report", SPACE))?;
            match status {
                Status::Exited(0) => {
                    let report =
                        serde_json::from_str(&text).map_err(|error| RunError::Report(error.to_string()))?;
                    Ok((report, spill))
                }
                Status::Exited(code) => {
                    Err(RunError::Report(format!("the child ended with status {code}: {text}")))
                }
                Status::Signal(signal) => {
                    let mut reason = signal_reason(signal, &text);
                    if scene.is_there() {
                        reason.push_str(&format!("{} {}", scene.access(), scene.place(object)));
                    }
                    let report =
                        crashed(ExitKind::Crash, reason, time_ns.max(scene.time_ns()), pulse, nr_tasks);
                    keep_last(&mut spill, &scene).map_err(host("write the log's end", SPACE))?;
                    Ok((report, spill))
                }
                Status::Stalled => {
                    let limit = request.stall_limit;
                    let mut reason =
                        format!("nothing happened for {limit:?}: an endless loop inside the scheduler");
                    if object.is_some() && scene.is_there() {
                        reason.push_str(&format!(", {}", scene.place(object)));
                    }
                    let report =
                        crashed(ExitKind::Stall, reason, time_ns.max(scene.time_ns()), pulse, nr_tasks);
                    keep_last(&mut spill, &scene).map_err(host("write the log's end", SPACE))?;
                    Ok((report, spill))
                }
            }
        }
    }
}

fn in_child(
    request: &Request<'_>,
    program: Program,
    setup: Setup,
    spill: File,
    mut answer: File,
    page: SharedPage,
) -> i32 {
    // SAFETY: asks the kernel to end this process with its parent; no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let page: &'static SharedPage = Box::leak(Box::new(page));
    crash::watch(page.get().scene.get());
    // a panic (a policy's or ours) must not unwind into the parent's code: from here on the hook leaves its text for the report and aborts
    CHILD_ANSWER.store(answer.as_raw_fd(), Ordering::Relaxed);
    let report = child::run(request.scheduler, program, setup, request.actions, spill, page.get());
    let written =
        serde_json::to_vec(&report).map_err(std::io::Error::from).and_then(|json| answer.write_all(&json));
    if written.is_ok() { 0 } else { 4 }
}

enum Status {
    Exited(i32),
    Signal(i32),
    Stalled,
}

/// How long a child has had for its next event. Only time counts in which it could have gone on: its CPU time, and time that it slept
/// of its own accord. A host that is busy, a slow disk, a debugger and a user who stops the job for a while (Ctrl-Z) are no endless loop.
struct Patience {
    pulse: u64,
    cpu: Duration,
    looked: Instant,
    used_up: Duration,
}

/// Most that counts between two looks as slept: the parent may itself have been kept from looking.
const LONGEST_LOOK: Duration = Duration::from_millis(100);

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

/// Waits for the child; ends it when its pulse stops.
fn wait(pid: libc::pid_t, page: &ControlPage, stall_limit: Duration) -> Status {
    let mut patience = Patience::new();
    let mut pause = Duration::from_micros(100);
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call, `pid` is our child.
        let waited = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
        if waited == pid {
            return if libc::WIFSIGNALED(status) {
                Status::Signal(libc::WTERMSIG(status))
            } else {
                Status::Exited(libc::WEXITSTATUS(status))
            };
        }
        if patience.look(pid, page.pulse.load(Ordering::Relaxed)) > stall_limit {
            // SAFETY: `pid` is our child, not yet waited for; waitpid then takes its status.
            unsafe {
                // it says where it is and ends by that; if it cannot, it is ended
                libc::kill(pid, crash::ASK);
                let asked = Instant::now();
                while libc::waitpid(pid, &mut status, libc::WNOHANG) != pid {
                    if asked.elapsed() > Duration::from_secs(2) {
                        libc::kill(pid, libc::SIGKILL);
                        libc::waitpid(pid, &mut status, 0);
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            return Status::Stalled;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn signal_reason(signal: i32, text: &str) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV (a bad pointer)",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL (BUG or an illegal instruction)",
        libc::SIGFPE => "SIGFPE (division by zero)",
        libc::SIGABRT => "SIGABRT (an assertion)",
        libc::SIGKILL => "SIGKILL (ended from outside, or out of memory)",
        _ => "a signal",
    };
    let detail = if text.is_empty() { String::new() } else { format!("; {text}") };
    format!("the scheduler's process ended by signal {signal}, {name}{detail}")
}

/// Of a log whose end was lost with the child, only the last records that it left are of use.
fn keep_last(spill: &mut File, scene: &Scene) -> std::io::Result<()> {
    let last = scene.records();
    if !last.is_empty() {
        spill.set_len(0)?;
        spill.rewind()?;
        spill.write_all(&last)?;
        spill.rewind()?;
    }
    Ok(())
}

/// The report of a child that could not write one.
fn crashed(kind: ExitKind, reason: String, time_ns: u64, pulse: u64, nr_tasks: usize) -> ChildReport {
    ChildReport {
        end: RunEnd::Misbehaved { report: ExitReport { kind, reason, time_ns } },
        duration_ns: time_ns,
        finished: vec![false; nr_tasks],
        events: pulse,
        tokens_early: 0,
        loop_wall_ns: 0,
        kernel_wall_ns: 0,
        boot_ns: 0,
        kernel_threads: Vec::new(),
        refused: std::collections::BTreeMap::new(),
        warnings: Vec::new(),
        kernel_cpu_ns: Vec::new(),
        readings: Vec::new(),
        account: Vec::new(),
        coverage: Vec::new(),
        decisions: Vec::new(),
    }
}
