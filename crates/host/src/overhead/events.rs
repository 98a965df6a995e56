//! What does one event of each type cost the task that causes it? An operation that causes little else, some
//! ten thousand times, its events off and on in turn: recorded by ftrace, and by programs where the kernel
//! takes them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Spread;
use super::pipe::Pipe;
use crate::bpf::BpfRecorder;
use crate::error::HostError;
use crate::events::{LOCK, OBJECT, is_ours};
use crate::record::stat;
use crate::tracefs::{Instance, Tracefs};

/// CPU time of one slice that is aimed at: some 20 times the host's scheduling slices would let others
/// disturb it more, less would leave the cost of switching the events visible.
const SLICE: Duration = Duration::from_millis(15);

/// An operation, and the events that belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// WARP's FORK: a thread is made.
    Fork,
    /// WARP's BLOCK: two threads take turns on one CPU.
    Block,
    /// WARP's WAKEUP: the same.
    Wakeup,
    /// WARP's PRIO: `setpriority` to the value that is set already.
    Prio,
    /// WARP's EXIT: a thread ends.
    Exit,
    /// Any other system call, while system calls of some kind are recorded: the kernel then takes its slow
    /// path for all of them.
    OtherCall,
    /// A send or a receipt, with `--objects`: a byte into a pipe and out of it. Programs alone record it.
    Message,
    /// A wakeup at a futex where nobody waits, with `--objects`.
    Futex,
    /// A lock that nobody holds, taken or let go, with `--objects=locks`.
    Lock,
}

impl Operation {
    /// All, in WARP's order.
    pub const ALL: [Operation; 9] = [
        Operation::Fork,
        Operation::Block,
        Operation::Wakeup,
        Operation::Prio,
        Operation::Exit,
        Operation::OtherCall,
        Operation::Message,
        Operation::Futex,
        Operation::Lock,
    ];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Fork => "FORK",
            Operation::Block => "BLOCK",
            Operation::Wakeup => "WAKEUP",
            Operation::Prio => "PRIO",
            Operation::Exit => "EXIT",
            Operation::OtherCall => "other call",
            Operation::Message => "MESSAGE",
            Operation::Futex => "FUTEX",
            Operation::Lock => "LOCK",
        }
    }

    /// The kernel events that are switched on for it.
    pub fn events(self) -> &'static [&'static str] {
        match self {
            Operation::Fork => &["sched:sched_process_fork", "sched:sched_wakeup_new"],
            Operation::Block => &["sched:sched_switch"],
            Operation::Wakeup => &["sched:sched_waking"],
            Operation::Prio => &["syscalls:sys_enter_setpriority", "syscalls:sys_exit_setpriority"],
            Operation::Exit => &["sched:sched_process_exit"],
            Operation::OtherCall => &["syscalls:sys_enter_sched_yield", "syscalls:sys_exit_sched_yield"],
            Operation::Message | Operation::Futex => &[OBJECT],
            Operation::Lock => &[LOCK],
        }
    }

    /// Kernel events that one event of WARP's type is recorded as.
    fn events_each(self) -> u64 {
        match self {
            Operation::Fork | Operation::Prio => 2,
            _ => 1,
        }
    }

    /// A slice has at most so many. A recorded lock takes a thousand times as long as one that is not.
    fn times_max(self) -> u64 {
        match self {
            Operation::Lock => 1 << 12,
            _ => 1 << 24,
        }
    }

    /// Does it this many times; the caller's thread is on its one CPU already.
    fn run(self, times: u64, turns: &Turns) {
        match self {
            Operation::Fork | Operation::Exit => {
                for _ in 0..times {
                    let _ = std::thread::Builder::new().stack_size(16 << 10).spawn(|| {}).map(|t| t.join());
                }
            }
            Operation::Block | Operation::Wakeup => turns.take(times),
            Operation::Prio => {
                for _ in 0..times {
                    // SAFETY: plain calls without pointers; nice stays as it is.
                    unsafe {
                        let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
                        libc::setpriority(libc::PRIO_PROCESS, 0, nice);
                    }
                }
            }
            Operation::OtherCall => {
                for _ in 0..times {
                    // SAFETY: a plain query; as a raw call, so that no library remembers the answer.
                    unsafe { libc::syscall(libc::SYS_getppid) };
                }
            }
            Operation::Message => {
                for _ in 0..times {
                    turns.own.put();
                    turns.own.get();
                }
            }
            Operation::Futex => {
                let word = std::sync::atomic::AtomicU32::new(0);
                for _ in 0..times {
                    const WAKE_PRIVATE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
                    // SAFETY: the word lives as long as the call.
                    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), WAKE_PRIVATE, 1) };
                }
            }
            Operation::Lock => {
                let mutex = std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER);
                for _ in 0..times {
                    // SAFETY: a mutex of this function's own, which is not moved.
                    unsafe {
                        libc::pthread_mutex_lock(mutex.get());
                        libc::pthread_mutex_unlock(mutex.get());
                    }
                }
            }
        }
    }
}

/// What one type of event costs.
#[derive(Debug, Clone, Copy)]
pub struct EventCost {
    /// Which.
    pub operation: Operation,
    /// By ftrace, where it has the event: CPU time per event of WARP's type (for other calls: per call), in us.
    pub us: Option<Spread>,
    /// By programs, where the kernel takes them for this event.
    pub bpf_us: Option<Spread>,
    /// CPU time of the operation itself without recording, in us per event.
    pub operation_us: f64,
    /// Events counted with recording on, in all slices of ftrace.
    pub events: u64,
}

/// A second thread on the same CPU, with which the first takes turns.
struct Turns {
    there: Pipe,
    back: Pipe,
    /// The first thread's alone.
    own: Pipe,
    stop: AtomicBool,
}

impl Turns {
    fn take(&self, times: u64) {
        for _ in 0..times {
            self.there.put();
            self.back.get();
        }
    }

    fn answer(&self) {
        loop {
            self.there.get();
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            self.back.put();
        }
    }
}

pub(super) fn measure(pairs: u32, progress: &mut dyn FnMut(&str)) -> Result<Vec<EventCost>, HostError> {
    let tracefs = Tracefs::open()?;
    tracefs.remove_stale();
    let instance = tracefs.make_instance()?;
    instance.set("trace_clock", "mono", "The clock mono is in every kernel since 3.17; use a newer one")?;
    // Nobody empties it: older events are overwritten, at the same cost.
    instance.set("buffer_size_kb", "4096", "It is per CPU and must fit into memory")?;
    let (there, back, own) = (Pipe::new()?, Pipe::new()?, Pipe::new()?);
    let turns = Turns { there, back, own, stop: AtomicBool::new(false) };
    let former = pin_to_one_cpu()?;
    let there = |event: &str| is_ours(event) || instance.has(&format!("events/{}", event.replace(':', "/")));
    let costs = std::thread::scope(|scope| {
        let second = scope.spawn(|| turns.answer());
        let costs: Result<Vec<EventCost>, HostError> = Operation::ALL
            .into_iter()
            .filter(|operation| operation.events().iter().all(|event| there(event)))
            .map(|operation| {
                progress(&format!("measuring {}", operation.name()));
                cost(operation, pairs, &tracefs, &instance, &turns)
            })
            .collect();
        turns.stop.store(true, Ordering::Relaxed);
        turns.there.put();
        let _ = second.join();
        costs
    });
    set_affinity(&former)?;
    instance.remove()?;
    costs
}

/// What recording a lock of the C library costs here, in us; `None`: no program can be put there.
pub fn lock_cost() -> Option<Spread> {
    const PAIRS: u32 = 5;
    let tracefs = Tracefs::open().ok()?;
    let (there, back, own) = (Pipe::new().ok()?, Pipe::new().ok()?, Pipe::new().ok()?);
    let turns = Turns { there, back, own, stop: AtomicBool::new(false) };
    by_programs(Operation::Lock, PAIRS, Operation::Lock.times_max(), &tracefs, &turns).map(|(us, _)| us)
}

fn cost(
    operation: Operation,
    pairs: u32,
    tracefs: &Tracefs,
    instance: &Instance,
    turns: &Turns,
) -> Result<EventCost, HostError> {
    let switch = |on: &str| {
        let file = |event: &str| format!("events/{}/enable", event.replace(':', "/"));
        operation.events().iter().try_for_each(|event| instance.set(&file(event), on, ""))
    };
    // How many times make a slice?
    let mut times = 16;
    let mut took = slice(operation, times, turns);
    while took < SLICE / 2 && times < operation.times_max() {
        times *= 2;
        took = slice(operation, times, turns);
    }
    instance.set("tracing_on", "1", "")?;
    let mut differences = Differences::default();
    let by_ftrace = if operation.events().iter().any(|event| is_ours(event)) { 0 } else { pairs };
    for _ in 0..by_ftrace {
        let off = slice(operation, times, turns);
        let before = nr_events(instance)?;
        switch("1")?;
        let on = slice(operation, times, turns);
        switch("0")?;
        differences.add(operation, times, nr_events(instance)? - before, off, on);
    }
    instance.set("tracing_on", "0", "")?;
    let by_bpf = by_programs(operation, pairs.div_ceil(3), times, tracefs, turns);
    let (bpf_us, alone) = by_bpf.map_or((None, Vec::new()), |(us, alone)| (Some(us), alone));
    let off = if by_ftrace > 0 { differences.off } else { alone };
    Ok(EventCost {
        operation,
        us: (by_ftrace > 0).then(|| Spread::of(differences.on)),
        bpf_us,
        operation_us: Spread::of(off).median,
        events: differences.events,
    })
}

/// The same with programs, which are loaded anew each time (for locks once), and the operation alone; `None`: the
/// kernel takes none for these events.
fn by_programs(
    operation: Operation,
    pairs: u32,
    times: u64,
    tracefs: &Tracefs,
    turns: &Turns,
) -> Option<(Spread, Vec<f64>)> {
    /// Large enough that no reader is woken, whose time would count.
    const BUFFER_KB: u32 = 32 << 10;
    if operation == Operation::OtherCall {
        // Programs are on functions: a call that is not recorded meets none.
        return None;
    }
    let names: Vec<String> = operation.events().iter().map(|name| (*name).to_owned()).collect();
    // A probe in a library takes .1 s to go, and there are twenty.
    let at_once = if operation == Operation::Lock { pairs.max(1) } else { 1 };
    let mut differences = Differences::default();
    for _ in 0..pairs / at_once {
        let slices = || -> Vec<Duration> { (0..at_once).map(|_| slice(operation, times, turns)).collect() };
        let off = slices();
        let folder = std::env::temp_dir();
        let (recorder, made) =
            BpfRecorder::new(tracefs, names.clone(), None, BUFFER_KB, 50, (&folder, &[])).ok()?;
        if !made.rest.is_empty() {
            return None;
        }
        recorder.record(true);
        let on = slices();
        let (_, _, counts) = recorder.finish().ok()?;
        let events: u64 = counts.iter().map(|count| count.written + count.lost).sum();
        for (off, on) in off.into_iter().zip(on) {
            differences.add(operation, times, events / u64::from(at_once), off, on);
        }
    }
    Some((Spread::of(differences.on), differences.off))
}

#[derive(Default)]
struct Differences {
    /// What an event adds, in us.
    on: Vec<f64>,
    /// The operation alone, per event in us.
    off: Vec<f64>,
    events: u64,
}

impl Differences {
    fn add(&mut self, operation: Operation, times: u64, events: u64, off: Duration, on: Duration) {
        self.events += events;
        let each = match operation {
            Operation::OtherCall => times,
            _ => events / operation.events_each(),
        };
        if each > 0 {
            let us = |seconds: f64| seconds * 1e6 / each as f64;
            self.on.push(us(on.as_secs_f64() - off.as_secs_f64()));
            self.off.push(us(off.as_secs_f64()));
        }
    }
}

/// CPU time of this process for so many operations.
fn slice(operation: Operation, times: u64, turns: &Turns) -> Duration {
    let began = process_cpu_time();
    operation.run(times, turns);
    process_cpu_time() - began
}

/// Events recorded so far, overwritten ones included.
fn nr_events(instance: &Instance) -> Result<u64, HostError> {
    let mut sum = 0;
    for cpu in instance.cpus()? {
        let stats = instance.get(&format!("per_cpu/cpu{cpu}/stats"))?;
        sum += stat(&stats, "entries").unwrap_or(0) + stat(&stats, "overrun").unwrap_or(0);
    }
    Ok(sum)
}

fn process_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills a local; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Puts this thread, and those that it makes, on the CPU it is on; gives what it was allowed before.
fn pin_to_one_cpu() -> Result<libc::cpu_set_t, HostError> {
    // SAFETY: sets of CPUs are plain bits; the calls fill or read locals of the size passed.
    unsafe {
        let mut former: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut former) != 0 {
            return Err(HostError::last_os("cannot read the CPUs allowed"));
        }
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap_or(0), &mut one);
        set_affinity(&one)?;
        Ok(former)
    }
}

fn set_affinity(cpus: &libc::cpu_set_t) -> Result<(), HostError> {
    // SAFETY: reads a set of the size passed.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) } {
        0 => Ok(()),
        _ => Err(HostError::last_os("cannot choose a CPU")),
    }
}
