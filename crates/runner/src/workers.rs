//! The caller's side: which worker makes this run, and what if it is lost?
//!
//! ```text
//! thread 1   run ── takes ──> worker a ── gives back ──┐
//! thread 2   run ── takes ──> worker b (started now)   ├─> idle: a, b       one set for the process
//! thread 1   run ── takes ──> the one that has this kernel object and this workload
//! ```
//!
//! As many are started as threads run at once; they stay for the next runs. One that is lost costs the run it was at.

use crate::control::SharedPage;
use crate::store::Prepared;
use crate::wire::{self, Ended, Hash, Hello, Job, ObjectKey};
use crate::worker::RUNS;
use crate::{ENGINE, RunError, RunRequest, Scheduler};
use schedlab_process::Started;
use schedlab_stdx::lock;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Idle ones that are kept; more than anyone has cores to use at once are ended when they come back.
const IDLE_MAX: usize = 256;

/// How long a worker has for its end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Between two looks at whether a run is still wanted.
const LOOK: Duration = Duration::from_millis(50);

struct Set {
    /// The process whose they are: a fork has the same memory and none of them.
    owner: u32,
    idle: Vec<Worker>,
}

static SET: Mutex<Set> = Mutex::new(Set { owner: 0, idle: Vec::new() });

fn set() -> MutexGuard<'static, Set> {
    // (changed by single steps: whole whatever panicked)
    let mut set = lock(&SET);
    let me = std::process::id();
    if set.owner != me {
        std::mem::forget(std::mem::take(&mut set.idle));
        set.owner = me;
    }
    set
}

/// A process that makes runs.
pub(crate) struct Worker {
    child: Child,
    line: UnixStream,
    page: SharedPage,
    /// Where its children leave their reports.
    answer: File,
    is_own: bool,
    /// What [`schedlab_process::program`] was.
    program: Option<PathBuf>,
    /// What it had to do last.
    object: Option<ObjectKey>,
    workload: Option<Hash>,
}

/// Why there is no [`Ended`].
pub(crate) enum Lost {
    /// What became of the worker.
    Died(String),
    /// Nobody wants the run any more.
    Stopped,
}

/// Ends the workers that have nothing to do, and waits for that. Later runs start new ones. (They end with
/// this process in any case.)
pub fn end_idle() {
    let idle = std::mem::take(&mut set().idle);
    for worker in &idle {
        worker.hang_up();
    }
}

/// A worker for this request: idle, or new.
pub(crate) fn take(request: &RunRequest<'_>, workload: Hash) -> Result<Worker, RunError> {
    let object = match request.scheduler {
        Scheduler::Linux(linux) => ObjectKey::of(linux),
        Scheduler::Native(_) => None,
    };
    let program = schedlab_process::program();
    loop {
        let mut set = set();
        let fits = |worker: &Worker| {
            let object = object.is_some() && worker.object == object;
            (worker.program == program).then_some((object, worker.workload == Some(workload)))
        };
        let fitting = set.idle.iter().enumerate().filter_map(|(at, worker)| Some((fits(worker)?, at)));
        let Some((_, at)) = fitting.max() else { break };
        let mut worker = set.idle.swap_remove(at);
        drop(set);
        if worker.is_silent() {
            (worker.object, worker.workload) = (object, Some(workload));
            return Ok(worker);
        }
    }
    let mut worker = Worker::start(program)?;
    (worker.object, worker.workload) = (object, Some(workload));
    Ok(worker)
}

/// For the next run.
pub(crate) fn give_back(worker: Worker) {
    let mut set = set();
    if set.idle.len() < IDLE_MAX {
        set.idle.push(worker);
    }
}

impl Worker {
    fn start(program: Option<PathBuf>) -> Result<Worker, RunError> {
        let Started { child, socket: line, is_own } = RUNS.start()?;
        let mut starting = Starting(Some(child));
        let lost = |how: String| RunError::Worker(how);
        let hello = wire::receive::<Hello>(&line);
        let (hello, files) = match hello {
            Ok(Some(hello)) => hello,
            Ok(None) => return Err(lost(end(starting.0.as_mut().expect("it is there")))),
            Err(error) => return Err(lost(format!("speaks another language ({error})"))),
        };
        if hello.engine != ENGINE {
            return Err(RunError::OtherEngine { theirs: hello.engine });
        }
        let host =
            |source| RunError::Host { doing: "share memory with a worker", source, remedy: "free memory" };
        let [page, answer] = wire::two(files).map_err(host)?;
        let page = SharedPage::of(&page).map_err(host)?;
        let child = starting.0.take().expect("it is there");
        Ok(Worker { child, line, page, answer, is_own, program, object: None, workload: None })
    }

    /// Whether an idle worker is there, and says nothing, as it should.
    fn is_silent(&self) -> bool {
        !self.is_readable(Duration::ZERO)
    }

    fn is_readable(&self, within: Duration) -> bool {
        let mut poll = libc::pollfd { fd: self.line.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, a local.
        unsafe { libc::poll(&mut poll, 1, within.as_millis() as i32) == 1 }
    }

    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    pub(crate) fn page(&self) -> &SharedPage {
        &self.page
    }

    pub(crate) fn answer(&self) -> &File {
        &self.answer
    }

    /// Has it make the run; `go_on` is asked now and then. After an error this worker is of no use.
    pub(crate) fn perform(
        &mut self,
        job: &Job,
        prepared: &Prepared,
        spill: &File,
        go_on: Option<&mut dyn FnMut() -> bool>,
    ) -> Result<Ended, Lost> {
        let files: [BorrowedFd<'_>; 2] = wire::borrowed([&prepared.file, spill]);
        let sent = wire::send(&self.line, job, &files);
        if let (Ok(()), Some(go_on)) = (&sent, go_on) {
            while !self.is_readable(LOOK) {
                if !go_on() {
                    return Err(Lost::Stopped);
                }
            }
        }
        match sent.and_then(|()| wire::receive::<Ended>(&self.line)) {
            Ok(Some((ended, _))) => Ok(ended),
            Ok(None) => Err(Lost::Died(end(&mut self.child))),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Lost::Died(end(&mut self.child))),
            Err(error) => Err(Lost::Died(format!("cannot be understood ({error})"))),
        }
    }

    /// It ends by itself then, and whatever it has started with it.
    fn hang_up(&self) {
        let _ = self.line.shutdown(std::net::Shutdown::Both);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.hang_up();
        end(&mut self.child);
    }
}

/// A worker that has not said its first word.
struct Starting(Option<Child>);

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for a worker whose line has ended; how it ended.
fn end(child: &mut Child) -> String {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(50);
    while begun.elapsed() < FAREWELL {
        match child.try_wait() {
            Ok(Some(status)) => return schedlab_process::ended(status),
            Ok(None) => std::thread::sleep(pause),
            Err(error) => return format!("has ended, nobody knows how ({error})"),
        }
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    "would not end, and was killed".into()
}
