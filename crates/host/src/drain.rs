//! How do pages get out of the kernel's buffers before they are overwritten, without the recorder becoming the load?
//!
//! Each CPU has its own ring of pages (4 KiB with a 16-byte head: timestamp, bytes in use and loss flags). A thread
//! sleeps in poll until the kernel says that a CPU's ring has reached the fill mark (`buffer_percent`), then moves
//! whole pages with splice, from the ring to an unnamed temporary file. At 4 MiB per CPU and a mark of 50 % that is
//! one wake per 2 MiB: at 100,000 events/s of 40 bytes, twice a second.
//!
//! ```text
//!  cpu0 ring ─┐ poll               ┌─> unnamed file of cpu0 (whole pages)
//!  cpu1 ring ─┼──────> thread 0 ───┼─> unnamed file of cpu1
//!  ...        │  (8 CPUs a thread) │
//!  stop ──────┘                    └   at the end: what is left, the last page of each CPU part full
//! ```
//!
//! Where events were lost (the ring went round before it was drained) the kernel sets bit 31 in the head of the next
//! page it gives, and, when bit 30 is set too, stores how many behind that page's data. [`PageLoss`] adds these up, and
//! [`Gap`] says when: from the last event before to the first one after.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::anonymise::pages::walk;
use crate::error::HostError;
use crate::signals::{event_fd, poll, raise_event_fd};
use crate::tracefs::Instance;

/// CPUs that one draining thread looks after: splice moves pages without touching them, so that a thread keeps up
/// with many; eight bounds the threads on a host of 256 CPUs to 32. A guess that no measurement here contradicts.
const CPUS_PER_THREAD: usize = 8;

/// Longest sleep while nothing is said to be ready, for kernels that miss a wake-up of poll.
const POLL_MS: i32 = 1000;

/// Sleep between two looks when poll says "ready" and no whole page is: a ring of very few pages.
const PAUSE: Duration = Duration::from_millis(5);

/// Most bytes moved in one splice: sixteen pages, a pipe's default length.
const SPLICE_PAGES: usize = 16;

pub(crate) const MISSED_EVENTS: u64 = 1 << 31;
pub(crate) const MISSED_STORED: u64 = 1 << 30;
pub(crate) const COMMIT_MASK: u64 = (1 << 20) - 1;

/// One CPU's recorded pages.
#[derive(Debug)]
pub struct CpuPages {
    /// The CPU.
    pub cpu: u32,
    /// An unnamed temporary file of whole pages, at its start.
    pub file: File,
    /// Its length, a multiple of the page size.
    pub bytes: u64,
}

/// A place in time where a CPU's events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The CPU.
    pub cpu: u32,
    /// Last event before it, in ns of the trace's clock; `None`: it is at the beginning.
    pub from_ns: Option<u64>,
    /// First event after it.
    pub until_ns: u64,
    /// How many are missing, if the kernel stored it.
    pub events: Option<u64>,
}

/// Gaps of one CPU that are kept; the rest is counted only.
const GAPS_KEPT: usize = 10_000;

/// What the pages themselves say about losses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageLoss {
    /// Places in time where events are missing, the first 10,000.
    pub places: Vec<Gap>,
    /// How many such places there are.
    pub gaps: u64,
    /// Events missing there, as far as the kernel stored a number.
    pub events: u64,
    /// Gaps without a number.
    pub gaps_of_unknown_size: u64,
}

/// What draining has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrainCost {
    /// CPU time of the draining threads.
    pub cpu: Duration,
    /// How often they were woken, or woke by themselves.
    pub wakes: u64,
}

/// What a draining thread leaves.
pub(crate) type Drained = Result<(Vec<CpuPages>, DrainCost), HostError>;

/// The running threads that empty an instance's buffers.
pub(crate) struct Drain {
    stop: Arc<OwnedFd>,
    failed: Arc<OwnedFd>,
    bytes: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Drained>>,
}

struct CpuDrain {
    cpu: u32,
    raw: File,
    file: File,
    bytes: u64,
}

impl Drain {
    /// Opens all CPUs' buffers and starts to empty them into unnamed files in `folder`.
    ///
    /// `wait_mark` says whether poll waits for the fill mark; without it (kernels before 4.20) the threads look ten
    /// times a second instead of being woken by every event.
    pub(crate) fn start(
        instance: &Instance,
        folder: &Path,
        page_size: usize,
        wait_mark: bool,
    ) -> Result<Drain, HostError> {
        let mut cpus = Vec::new();
        for cpu in instance.cpus()? {
            if let Some(raw) = instance.open_raw(cpu)? {
                let file = tempfile::tempfile_in(folder)
                    .map_err(HostError::io("cannot make a temporary file in", folder))?;
                cpus.push(CpuDrain { cpu, raw, file, bytes: 0 });
            }
        }
        let bytes = Arc::new(AtomicU64::new(0));
        let mut drain =
            Drain { stop: Arc::new(event_fd()?), failed: Arc::new(event_fd()?), bytes, threads: Vec::new() };
        while !cpus.is_empty() {
            let rest = cpus.split_off(cpus.len().min(CPUS_PER_THREAD));
            let group = std::mem::replace(&mut cpus, rest);
            let (stop, failed) = (Arc::clone(&drain.stop), Arc::clone(&drain.failed));
            let bytes = Arc::clone(&drain.bytes);
            let thread = std::thread::Builder::new()
                .name("schedlab-drain".to_owned())
                .spawn(move || {
                    run(group, &stop, &bytes, page_size, wait_mark)
                        .inspect_err(|_| raise_event_fd(failed.as_raw_fd()))
                })
                .map_err(|source| HostError::System { doing: "cannot start a draining thread", source })?;
            drain.threads.push(thread);
        }
        Ok(drain)
    }

    /// Becomes readable when a thread has given up (a full disk): [`Drain::finish`] says why.
    pub(crate) fn failed_fd(&self) -> RawFd {
        self.failed.as_raw_fd()
    }

    /// Bytes moved so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes what is left in the buffers (tracing must be off) and ends the threads. The kernel's files are closed
    /// when this returns, so that the instance can be removed.
    pub(crate) fn finish(mut self) -> Drained {
        let mut pages = Vec::new();
        let mut cost = DrainCost::default();
        let mut failed = None;
        for joined in self.join() {
            match joined {
                Ok((group, part)) => {
                    pages.extend(group);
                    cost.cpu += part.cpu;
                    cost.wakes += part.wakes;
                }
                Err(e) => failed = Some(e),
            }
        }
        match failed {
            Some(e) => Err(e),
            None => {
                pages.sort_by_key(|p| p.cpu);
                Ok((pages, cost))
            }
        }
    }

    fn join(&mut self) -> Vec<Drained> {
        raise_event_fd(self.stop.as_raw_fd());
        let panicked =
            || HostError::System { doing: "a draining thread panicked", source: io::Error::other("panic") };
        self.threads.drain(..).map(|thread| thread.join().unwrap_or_else(|_| Err(panicked()))).collect()
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // Left early: the threads hold the instance's files, which would keep it from being removed.
        self.join();
    }
}

fn run(
    mut cpus: Vec<CpuDrain>,
    stop: &OwnedFd,
    total: &AtomicU64,
    page_size: usize,
    wait_mark: bool,
) -> Drained {
    let mut wakes = 0;
    let pipe = Pipe::new()?;
    let mut fds: Vec<_> = vec![stop.as_raw_fd()];
    if wait_mark {
        fds.extend(cpus.iter().map(|cpu| cpu.raw.as_raw_fd()));
    }
    loop {
        let ready = poll(&fds, if wait_mark { POLL_MS } else { 100 })?;
        wakes += 1;
        let stopping = ready[0];
        let timed_out = !ready.contains(&true);
        let mut moved = 0;
        for (i, cpu) in cpus.iter_mut().enumerate() {
            if stopping || timed_out || ready.get(i + 1) == Some(&true) {
                moved += cpu.splice_whole_pages(&pipe, page_size)?;
            }
        }
        total.fetch_add(moved, Ordering::Relaxed);
        if stopping {
            break;
        }
        if moved == 0 && !timed_out {
            std::thread::sleep(PAUSE);
        }
    }
    let pages = cpus
        .into_iter()
        .map(|mut cpu| {
            total.fetch_add(cpu.read_rest(page_size)?, Ordering::Relaxed);
            cpu.file.seek(SeekFrom::Start(0)).map_err(HostError::io("cannot rewind", temporary(cpu.cpu)))?;
            Ok(CpuPages { cpu: cpu.cpu, file: cpu.file, bytes: cpu.bytes })
        })
        .collect::<Result<Vec<_>, HostError>>()?;
    Ok((pages, DrainCost { cpu: thread_cpu_time(), wakes }))
}

/// CPU time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills a local; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn temporary(cpu: u32) -> String {
    format!("the temporary file of CPU {cpu}")
}

impl CpuDrain {
    /// Moves the pages that are complete; the one being filled stays.
    fn splice_whole_pages(&mut self, pipe: &Pipe, page_size: usize) -> Result<u64, HostError> {
        let mut moved = 0;
        loop {
            match splice(self.raw.as_raw_fd(), pipe.write.as_raw_fd(), page_size * SPLICE_PAGES) {
                Ok(0) => break,
                Ok(n) => {
                    self.pipe_to_file(pipe, n)?;
                    moved += n as u64;
                }
                Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(HostError::Io {
                        doing: "cannot splice from trace_pipe_raw of",
                        path: format!("cpu{}", self.cpu).into(),
                        source,
                    });
                }
            }
        }
        Ok(moved)
    }

    fn pipe_to_file(&mut self, pipe: &Pipe, bytes: usize) -> Result<(), HostError> {
        let mut left = bytes;
        while left > 0 {
            match splice(pipe.read.as_raw_fd(), self.file.as_raw_fd(), left) {
                Ok(0) => {
                    return Err(HostError::Io {
                        doing: "cannot write to",
                        path: temporary(self.cpu).into(),
                        source: io::ErrorKind::WriteZero.into(),
                    });
                }
                Ok(n) => {
                    left -= n;
                    self.bytes += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(HostError::Io {
                        doing: "cannot write to",
                        path: temporary(self.cpu).into(),
                        source,
                    });
                }
            }
        }
        Ok(())
    }

    /// Reads what splice does not give: the page that was being filled.
    fn read_rest(&mut self, page_size: usize) -> Result<u64, HostError> {
        let mut page = vec![0u8; page_size];
        let mut moved = 0;
        loop {
            match self.raw.read(&mut page) {
                Ok(0) => break,
                Ok(n) => {
                    page[n..].fill(0);
                    self.file
                        .write_all(&page)
                        .map_err(HostError::io("cannot write to", temporary(self.cpu)))?;
                    self.bytes += page_size as u64;
                    moved += page_size as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(HostError::Io {
                        doing: "cannot read trace_pipe_raw of",
                        path: format!("cpu{}", self.cpu).into(),
                        source,
                    });
                }
            }
        }
        Ok(moved)
    }
}

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    fn new() -> Result<Pipe, HostError> {
        let mut fds = [0; 2];
        // SAFETY: pipe2 fills the two descriptors, which then belong to the two owners made here.
        unsafe {
            if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
                return Err(HostError::last_os("cannot make a pipe"));
            }
            Ok(Pipe { read: OwnedFd::from_raw_fd(fds[0]), write: OwnedFd::from_raw_fd(fds[1]) })
        }
    }
}

fn splice(from: libc::c_int, to: libc::c_int, bytes: usize) -> io::Result<usize> {
    // SAFETY: no offsets are passed, both descriptors are open for as long as their owners live.
    let n = unsafe {
        libc::splice(
            from,
            std::ptr::null_mut(),
            to,
            std::ptr::null_mut(),
            bytes,
            libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK,
        )
    };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}

impl CpuPages {
    /// Adds up what the page heads say about losses; the file is at its start again afterwards.
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn loss(&mut self, page_size: usize) -> Result<PageLoss, HostError> {
        let mut page = vec![0u8; page_size];
        let mut before = vec![0u8; page_size];
        let mut loss = PageLoss::default();
        for index in 0..self.bytes / page_size as u64 {
            self.file.read_exact(&mut page).map_err(HostError::io("cannot read", temporary(self.cpu)))?;
            loss.add_page(self.cpu, &page, (index > 0).then_some(&before));
            std::mem::swap(&mut page, &mut before);
        }
        self.file.seek(SeekFrom::Start(0)).map_err(HostError::io("cannot rewind", temporary(self.cpu)))?;
        Ok(loss)
    }
}

impl PageLoss {
    /// Adds one page in the byte order of this machine; `before` is the CPU's page before it.
    fn add_page(&mut self, cpu: u32, page: &[u8], before: Option<&Vec<u8>>) {
        const HEAD: usize = 16;
        let word = |at: usize| {
            page.get(at..at + 8)
                .and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)))
                .unwrap_or(0)
        };
        let commit = word(8);
        if commit & MISSED_EVENTS == 0 {
            return;
        }
        self.gaps += 1;
        let events = (commit & MISSED_STORED != 0).then(|| word(HEAD + (commit & COMMIT_MASK) as usize));
        match events {
            None => self.gaps_of_unknown_size += 1,
            Some(events) => self.events += events,
        }
        if self.places.len() < GAPS_KEPT {
            let (mut from_ns, mut until_ns) = (None, None);
            // A page that contradicts itself tells less; whoever reads the file says so.
            if let Some(before) = before {
                let _ = walk(before, |time_ns, _| from_ns = Some(time_ns));
            }
            let _ = walk(page, |time_ns, _| until_ns = until_ns.or(Some(time_ns)));
            self.places.push(Gap { cpu, from_ns, until_ns: until_ns.unwrap_or(word(0)), events });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_read_from_the_page_head() {
        // 24 bytes of data behind the head, 7 events missed before it, then a gap of unknown size, then none.
        let mut stored = vec![0u8; 4096];
        stored[8..16].copy_from_slice(&(24u64 | MISSED_EVENTS | MISSED_STORED).to_ne_bytes());
        stored[16 + 24..16 + 32].copy_from_slice(&7u64.to_ne_bytes());
        let mut unknown = vec![0u8; 4096];
        unknown[8..16].copy_from_slice(&(4080u64 | MISSED_EVENTS).to_ne_bytes());
        let mut whole = vec![0u8; 4096];
        whole[8..16].copy_from_slice(&4080u64.to_ne_bytes());
        // Times: the page before begins at 1000 and ends with an event 30 later; the one after begins at 5000.
        let mut first = vec![0u8; 4096];
        first[..8].copy_from_slice(&1000u64.to_ne_bytes());
        first[8..16].copy_from_slice(&16u64.to_ne_bytes());
        for (at, delta) in [(16, 10u32), (24, 20)] {
            first[at..at + 4].copy_from_slice(&(delta << 5 | 1).to_ne_bytes());
        }
        stored[..8].copy_from_slice(&5000u64.to_ne_bytes());
        stored[16..20].copy_from_slice(&(3u32 << 5 | 1).to_ne_bytes());
        let mut loss = PageLoss::default();
        let mut before = None;
        for page in [&first, &stored, &unknown, &whole] {
            loss.add_page(3, page, before);
            before = Some(page);
        }
        assert_eq!((loss.gaps, loss.events, loss.gaps_of_unknown_size), (2, 7, 1));
        assert_eq!(loss.places[0], Gap { cpu: 3, from_ns: Some(1030), until_ns: 5003, events: Some(7) });
    }
}
