//! How do many runs use all cores? Worker processes take them one by one; results come back in order.
//!
//! ```text
//!   parent ──fork──> worker 1 ── takes 0, 2, ... ──┐
//!          ──fork──> worker 2 ── takes 1, 3, ... ──┴─> results 0, 1, 2, 3, ... whatever the number of workers
//! ```
//!
//! Workers are processes, not threads: a run forks a child of its own ([`run`](crate::run())), which is safe only from a process with
//! one thread. A worker that dies (a bug of ours, or no memory) costs the job it had taken; another takes its place.
//!
//! ```
//! let squares = schedlab_runner::pool::map(5, 2, |index| index * index, |_| {}).unwrap();
//! assert_eq!(squares.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), [0, 1, 4, 9, 16]);
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// The workers could not be started or heard.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {source}; {remedy}")]
pub struct PoolError {
    /// What was being done.
    pub doing: &'static str,
    /// The system's answer.
    pub source: std::io::Error,
    /// What to do.
    pub remedy: &'static str,
}

/// A job without a result: its worker died.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("internal error: the worker of job {index} died: {reason}")]
pub struct WorkerDied {
    /// Which job.
    pub index: usize,
    /// How.
    pub reason: String,
}

/// Cores that may be used (affinity and cgroup respected); at least 1.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does jobs `0..count`, at most `jobs` at once, and returns their results in order. `done` hears how many are finished. With one
/// worker, or one job, everything happens in this process.
///
/// To be called from a process without other threads that hold locks (one that draws progress is harmless: workers draw none).
pub fn map<T: Serialize + DeserializeOwned>(
    count: usize,
    jobs: usize,
    work: impl Fn(usize) -> T,
    mut done: impl FnMut(usize),
) -> Result<Vec<Result<T, WorkerDied>>, PoolError> {
    let jobs = jobs.clamp(1, count.max(1));
    if jobs == 1 {
        let one = |index| {
            let result = work(index);
            done(index + 1);
            Ok(result)
        };
        return Ok((0..count).map(one).collect());
    }
    let counter = SharedCounter::new().map_err(host("map a shared page", "free memory"))?;
    let mut workers: Vec<Worker> = Vec::new();
    for _ in 0..jobs {
        workers.push(Worker::start(&counter, count, &work)?);
    }
    let mut results: Vec<Option<Result<T, WorkerDied>>> = (0..count).map(|_| None).collect();
    let mut nr_done = 0;
    while !workers.is_empty() {
        for at in wait_readable(&workers)?.into_iter().rev() {
            let worker = &mut workers[at];
            let is_open = worker.read().map_err(host("read from a worker process", "close files"))?;
            while let Some((index, result)) = worker.next_result() {
                results[index] = Some(result);
                nr_done += 1;
                done(nr_done);
            }
            if is_open {
                continue;
            }
            let worker = workers.swap_remove(at);
            let taken = worker.taken;
            if let Some(reason) = worker.reap()
                && let Some(index) = taken
            {
                results[index] = Some(Err(WorkerDied { index, reason }));
                nr_done += 1;
                done(nr_done);
                workers.push(Worker::start(&counter, count, &work)?);
            }
        }
    }
    let missing = |index| WorkerDied { index, reason: "it was never taken".into() };
    Ok(results.into_iter().enumerate().map(|(i, r)| r.unwrap_or_else(|| Err(missing(i)))).collect())
}

fn host(doing: &'static str, remedy: &'static str) -> impl FnOnce(std::io::Error) -> PoolError {
    move |source| PoolError { doing, source, remedy }
}

/// The number of the next job, in memory that all processes share.
struct SharedCounter(*mut AtomicU64);

impl SharedCounter {
    fn new() -> std::io::Result<SharedCounter> {
        // SAFETY: a fresh anonymous mapping; no address is asked for, so nothing is replaced.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<AtomicU64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(SharedCounter(page.cast()))
    }
    fn take(&self) -> usize {
        // SAFETY: the mapping lives as long as `self`, is zeroed (a valid atomic) and only accessed as an atomic.
        unsafe { (*self.0).fetch_add(1, Ordering::Relaxed) as usize }
    }
}

impl Drop for SharedCounter {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; no reference outlives `self`.
        unsafe { libc::munmap(self.0.cast(), size_of::<AtomicU64>()) };
    }
}

/// What a worker says: it has taken a job, or here is its result (JSON), or it panicked (text).
const TAKEN: u8 = 0;
const RESULT: u8 = 1;
const PANICKED: u8 = 2;
/// Kind, index, length.
const HEAD_BYTES: usize = 1 + 8 + 8;

struct Worker {
    pid: libc::pid_t,
    from: File,
    received: Vec<u8>,
    /// The job it is at.
    taken: Option<usize>,
}

impl Worker {
    fn start<T: Serialize>(
        counter: &SharedCounter,
        count: usize,
        work: &impl Fn(usize) -> T,
    ) -> Result<Worker, PoolError> {
        let (from, to) = pipe().map_err(host("make a pipe", "close files (ulimit -n)"))?;
        // SAFETY: the child runs code of this program only and leaves by _exit. Allocation after fork is safe with glibc's and
        // musl's allocators; other locks the child needs are not held by the caller (see `map`).
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(host("start a worker process", "raise the process limit (ulimit -u) or lower --jobs")(
                std::io::Error::last_os_error(),
            )),
            0 => {
                drop(from);
                let code = i32::from(serve(counter, count, work, to).is_err());
                // SAFETY: _exit ends the worker at once, without the parent's exit handlers.
                unsafe { libc::_exit(code) }
            }
            pid => Ok(Worker { pid, from, received: Vec::new(), taken: None }),
        }
    }

    /// Reads what is there; false at the end.
    fn read(&mut self) -> std::io::Result<bool> {
        let mut chunk = [0; 64 * 1024];
        let length = self.from.read(&mut chunk)?;
        self.received.extend_from_slice(&chunk[..length]);
        Ok(length > 0)
    }

    fn next_result<T: DeserializeOwned>(&mut self) -> Option<(usize, Result<T, WorkerDied>)> {
        loop {
            let head = self.received.get(..HEAD_BYTES)?;
            let number = |at: usize| {
                let bytes: [u8; 8] = head[at..at + 8].try_into().expect("a number has eight bytes");
                u64::from_le_bytes(bytes) as usize
            };
            let (kind, index, length) = (head[0], number(1), number(9));
            let body = self.received.get(HEAD_BYTES..HEAD_BYTES + length)?;
            let died = |reason: String| Err(WorkerDied { index, reason });
            let result = match kind {
                TAKEN => None,
                RESULT => Some(serde_json::from_slice(body).or_else(|error| died(error.to_string()))),
                _ => Some(died(String::from_utf8_lossy(body).into_owned())),
            };
            self.received.drain(..HEAD_BYTES + length);
            match result {
                None => self.taken = Some(index),
                Some(result) => {
                    self.taken = None;
                    return Some((index, result));
                }
            }
        }
    }

    /// Takes leave of a worker that has closed its pipe: how it died, if it did not end well.
    fn reap(self) -> Option<String> {
        let mut status = 0;
        // SAFETY: `status` outlives the call, `pid` is our child.
        let waited = unsafe { libc::waitpid(self.pid, &mut status, 0) };
        if waited != self.pid || (libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0) {
            return None;
        }
        Some(if libc::WIFSIGNALED(status) {
            format!("ended by signal {}", libc::WTERMSIG(status))
        } else {
            format!("ended with status {}", libc::WEXITSTATUS(status))
        })
    }
}

/// The worker's side.
fn serve<T: Serialize>(
    counter: &SharedCounter,
    count: usize,
    work: &impl Fn(usize) -> T,
    mut to: File,
) -> std::io::Result<()> {
    // SAFETY: asks the kernel to end this process with its parent; no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    loop {
        let index = counter.take();
        if index >= count {
            return Ok(());
        }
        send(&mut to, TAKEN, index, &[])?;
        match catch_unwind(AssertUnwindSafe(|| work(index))) {
            Ok(result) => {
                let body = serde_json::to_vec(&result).map_err(std::io::Error::from)?;
                send(&mut to, RESULT, index, &body)?;
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                let text = text.unwrap_or_else(|| "a panic without a message".into());
                send(&mut to, PANICKED, index, format!("panicked: {text}").as_bytes())?;
            }
        }
    }
}

fn send(to: &mut File, kind: u8, index: usize, body: &[u8]) -> std::io::Result<()> {
    let mut message = Vec::with_capacity(HEAD_BYTES + body.len());
    message.push(kind);
    message.extend((index as u64).to_le_bytes());
    message.extend((body.len() as u64).to_le_bytes());
    message.extend(body);
    to.write_all(&message)
}

fn pipe() -> std::io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: both descriptors were just made and belong to nobody else.
    let [from, to] = ends.map(|fd| File::from(unsafe { OwnedFd::from_raw_fd(fd) }));
    Ok((from, to))
}

/// The workers that have something to say (or have ended), in ascending order.
fn wait_readable(workers: &[Worker]) -> Result<Vec<usize>, PoolError> {
    let poll =
        |worker: &Worker| libc::pollfd { fd: worker.from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut polls: Vec<libc::pollfd> = workers.iter().map(poll).collect();
    loop {
        // SAFETY: `polls` is a valid array of that many entries.
        let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, -1) };
        if ready >= 0 {
            return Ok((0..polls.len()).filter(|at| polls[*at].revents != 0).collect());
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(host("wait for worker processes", "start again")(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(count: usize, jobs: usize) -> Vec<String> {
        let work = |index: usize| "x".repeat(index * 1000) + &index.to_string();
        let mut heard = 0;
        let results = map(count, jobs, work, |done| heard = done).unwrap();
        assert_eq!(heard, count);
        results.into_iter().map(Result::unwrap).collect()
    }

    /// Also results that are larger than a pipe holds (64 KiB).
    #[test]
    fn results_come_in_order_whatever_the_number_of_workers() {
        let alone = texts(90, 1);
        assert_eq!(alone[89].len(), 89_002);
        for jobs in [2, 3, 200] {
            assert_eq!(texts(90, jobs), alone, "{jobs} workers");
        }
        assert!(texts(0, 4).is_empty());
    }

    #[test]
    fn a_death_costs_one_job() {
        let work = |index: usize| {
            match index {
                // SAFETY: ends this worker process, as a crash would.
                3 => unsafe { libc::_exit(9) },
                5 => panic!("job five is broken"),
                _ => {}
            }
            index
        };
        let results = map(12, 3, work, |_| {}).unwrap();
        for (index, result) in results.iter().enumerate() {
            match index {
                3 => assert!(result.as_ref().unwrap_err().reason.contains("status 9")),
                5 => assert!(result.as_ref().unwrap_err().to_string().contains("job five is broken")),
                _ => assert_eq!(*result, Ok(index)),
            }
        }
    }
}
