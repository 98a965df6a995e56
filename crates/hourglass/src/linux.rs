//! Linux's answers to what [`System`] asks, without privilege where Linux lets us.

use crate::counter::clock_ns;
use crate::os::{Alarm, Missing, Probes, Reading, System};
use crate::plan::{Class, THREADS_MAX, Timer};
use schedlab_units::{CpuSet, SchedPolicy};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// Linux.
#[derive(Clone, Debug)]
pub(crate) struct Linux {
    nr_cpus: u32,
    is_virtual: bool,
    /// Whether a `cpu.stat` counts throttling: our own group's, or that of one which a thread has entered.
    counts_throttling: Arc<AtomicBool>,
}

fn last_error() -> io::Error {
    io::Error::last_os_error()
}

/// The first words of a file, or why not.
fn text(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    fs::read_to_string(path)
        .map(|text| text.trim().to_string())
        .map_err(|error| format!("{}: {error}", path.display()))
}

impl Linux {
    /// This machine.
    pub(crate) fn detect() -> Linux {
        // SAFETY: takes a number, returns a number.
        let nr_cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.clamp(1, 4096) as u32;
        let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
        let is_virtual = flags.split_whitespace().any(|flag| flag == "hypervisor");
        Linux { nr_cpus, is_virtual, counts_throttling: Arc::new(own_throttle_file().is_some().into()) }
    }
}

/// As [`throttle_file`], of the calling thread's group.
fn own_throttle_file() -> Option<PathBuf> {
    let groups = text("/proc/thread-self/cgroup").unwrap_or_default();
    let mounts = text("/proc/self/mountinfo").unwrap_or_default();
    throttle_file(&groups, &mounts)
}

/// The `cpu.stat` of our group that has `nr_throttled`: the root group has none.
fn throttle_file(groups: &str, mounts: &str) -> Option<PathBuf> {
    let mut candidates = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let kind = match controllers {
            "" => "cgroup2",
            list if list.split(',').any(|name| name == "cpu") => "cgroup",
            _ => continue,
        };
        for mount in mounts.lines() {
            let Some((left, right)) = mount.split_once(" - ") else { continue };
            let mut after = right.split(' ');
            let (fs_type, options) = (after.next().unwrap_or(""), after.nth(1).unwrap_or(""));
            let is_it = fs_type == kind && (kind == "cgroup2" || options.split(',').any(|o| o == "cpu"));
            let mut before = left.split(' ').skip(3);
            let (root, point) = (before.next().unwrap_or("/"), before.next().unwrap_or(""));
            if is_it {
                let inside = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
                candidates.push(Path::new(point).join(inside.trim_start_matches('/')).join("cpu.stat"));
                candidates.push(Path::new(point).join("cpu.stat"));
            }
        }
    }
    candidates.into_iter().find(|path| text(path).is_ok_and(|stat| stat.contains("nr_throttled")))
}

/// The number behind a word in a file of words and numbers.
fn after(stat: &str, word: &str) -> Option<u64> {
    let line = stat.lines().find(|line| line.split(' ').next() == Some(word))?;
    line.split(' ').nth(1)?.parse().ok()
}

/// Time held back, in us: `throttled_usec` (v2) or `throttled_time` in ns (v1).
fn throttled_us(stat: &str) -> Option<u64> {
    after(stat, "throttled_usec").or_else(|| Some(after(stat, "throttled_time")? / 1000))
}

/// Steal of the first line of `/proc/stat`, in ms; USER_HZ is 100 on every architecture that we know.
fn steal_ms(stat: &str) -> Option<u64> {
    let ticks: u64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(ticks * 10)
}

struct LinuxProbes {
    schedstat: Option<File>,
    cpu_stat: Option<File>,
    proc_stat: Option<File>,
    sequence: Option<Sequence>,
    last: Reading,
    buffer: Box<[u8; 4096]>,
}

fn read_at_start<'b>(file: Option<&File>, buffer: &'b mut [u8; 4096]) -> Option<&'b str> {
    let count = file?.read_at(&mut buffer[..], 0).ok()?;
    std::str::from_utf8(&buffer[..count]).ok()
}

impl Probes for LinuxProbes {
    fn was_preempted(&mut self) -> Option<bool> {
        let torn = self.sequence.as_ref()?.is_forgotten();
        Some(torn)
    }

    fn read(&mut self, long: bool) -> Reading {
        // first of all: what comes behind this is the reading's own
        let preempted = self.sequence.as_mut().is_some_and(Sequence::was_preempted);
        // SAFETY: a zeroed rusage is valid, and the kernel writes one.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
        let mut reading = Reading {
            voluntary: usage.ru_nvcsw as u32,
            involuntary: usage.ru_nivcsw as u32,
            faults: (usage.ru_minflt + usage.ru_majflt) as u32,
            cpu_ns: clock_ns(libc::CLOCK_THREAD_CPUTIME_ID),
            preempted,
            ..self.last
        };
        if let Some(text) = read_at_start(self.schedstat.as_ref(), &mut self.buffer) {
            reading.run_delay_ns = text.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
        }
        if long {
            if let Some(text) = read_at_start(self.cpu_stat.as_ref(), &mut self.buffer) {
                reading.throttled_us = throttled_us(text).unwrap_or(0);
            }
            if let Some(text) = read_at_start(self.proc_stat.as_ref(), &mut self.buffer) {
                reading.steal_ms = steal_ms(text).unwrap_or(0);
            }
        }
        self.last = reading;
        reading
    }
}

/// A restartable sequence that no code is in: the kernel forgets it whenever it takes the CPU from the
/// thread, and so tells.
///
/// `linux/rseq.h`: on the way back to user code after a preemption, a migration or a signal, a `rseq_cs`
/// whose range does not hold the instruction pointer is set to null.
struct Sequence {
    /// The field `rseq_cs` of this thread's area, which glibc (2.35 on) registered.
    field: *mut u64,
    /// A range of no instructions, at an address that no code has.
    empty: Box<EmptyRange>,
}

#[repr(C, align(32))]
struct EmptyRange {
    version: u32,
    flags: u32,
    start_ip: u64,
    post_commit_offset: u64,
    /// The address of `behind`: the kernel wants the signature before it. It is never jumped to, since no
    /// code is in the range.
    abort_ip: u64,
    signature: u32,
    behind: u32,
}

/// `RSEQ_SIG` of glibc on x86.
const SIGNATURE: u32 = 0x5305_3053;

impl Sequence {
    /// This thread's; `None` where the C library registered none.
    #[cfg(target_arch = "x86_64")]
    fn open() -> Option<Sequence> {
        // SAFETY: dlsym looks a name up; the strings end in zero bytes.
        let symbol = |name: &std::ffi::CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        let (offset, size) = (symbol(c"__rseq_offset").cast::<isize>(), symbol(c"__rseq_size").cast::<u32>());
        if offset.is_null() || size.is_null() {
            return None;
        }
        // SAFETY: both are objects of glibc of these types (sys/rseq.h).
        let (offset, size) = unsafe { (*offset, *size) };
        if size < 20 {
            return None;
        }
        let thread: usize;
        // SAFETY: reads the thread pointer, which the ABI keeps at the start of the thread's block.
        unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly)) };
        let area = thread.wrapping_add_signed(offset);
        let mut empty = Box::new(EmptyRange {
            version: 0,
            flags: 0,
            start_ip: 64,
            post_commit_offset: 1,
            abort_ip: 0,
            signature: SIGNATURE,
            behind: 0,
        });
        empty.abort_ip = &raw const empty.behind as u64;
        let mut sequence = Sequence { field: (area + 8) as *mut u64, empty };
        sequence.was_preempted();
        Some(sequence)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn open() -> Option<Sequence> {
        None
    }

    /// Whether the kernel has forgotten it since [`Sequence::was_preempted`] was called.
    fn is_forgotten(&self) -> bool {
        // SAFETY: as in was_preempted.
        unsafe { self.field.read_volatile() == 0 }
    }

    /// Whether the kernel has forgotten it since the last call.
    fn was_preempted(&mut self) -> bool {
        // SAFETY: the field is this thread's own as long as the thread lives, and a `Sequence` never leaves
        // its thread (raw pointer); volatile because the kernel writes it.
        unsafe {
            let forgotten = self.field.read_volatile() == 0;
            self.field.write_volatile(&raw const *self.empty as u64);
            forgotten
        }
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        // SAFETY: as in was_preempted; afterwards the kernel no longer looks at `empty`.
        unsafe { self.field.write_volatile(0) };
    }
}

/// `clock_nanosleep`.
struct Sleeper {
    absolute: bool,
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

impl Alarm for Sleeper {
    fn wait_until(&mut self, at_ns: u64) {
        let (flags, ns) = if self.absolute {
            (libc::TIMER_ABSTIME, at_ns)
        } else {
            (0, at_ns.saturating_sub(clock_ns(libc::CLOCK_MONOTONIC)))
        };
        // SAFETY: the kernel reads one timespec.
        unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, flags, &timespec(ns), std::ptr::null_mut()) };
    }
}

struct Timerfd(OwnedFd);

impl Timerfd {
    fn open() -> io::Result<Timerfd> {
        // SAFETY: makes a descriptor.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(last_error());
        }
        // SAFETY: it is new and ours.
        Ok(Timerfd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

fn once(at_ns: u64) -> libc::itimerspec {
    libc::itimerspec { it_interval: timespec(0), it_value: timespec(at_ns.max(1)) }
}

impl Alarm for Timerfd {
    fn wait_until(&mut self, at_ns: u64) {
        let fd = self.0.as_raw_fd();
        let mut expirations = 0u64;
        // SAFETY: the kernel reads one itimerspec and writes eight bytes.
        unsafe {
            libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &once(at_ns), std::ptr::null_mut());
            libc::read(fd, (&raw mut expirations).cast(), 8);
        }
    }
}

/// Waits for a signal that is blocked in all threads.
fn wait_for(signal: i32) {
    // SAFETY: sets are initialised by sigemptyset; no info is asked for.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigwaitinfo(&set, std::ptr::null_mut());
    }
}

/// Blocks a signal in the calling thread.
fn block_signal(signal: i32, how: i32) {
    // SAFETY: as in wait_for.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(how, &set, std::ptr::null_mut());
    }
}

/// `setitimer`: SIGALRM to the process, which only this thread waits for.
struct Itimer;

impl Alarm for Itimer {
    fn wait_until(&mut self, at_ns: u64) {
        let ns = at_ns.saturating_sub(clock_ns(libc::CLOCK_MONOTONIC)).max(1000);
        let value = libc::timeval {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_usec: (ns % 1_000_000_000 / 1000) as i64,
        };
        let spec = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
        // SAFETY: the kernel reads one itimerval.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &spec, std::ptr::null_mut()) };
        wait_for(libc::SIGALRM);
    }
}

/// `timer_create`, by a signal to this thread.
struct Posix(libc::timer_t);

impl Posix {
    fn open() -> io::Result<Posix> {
        block_signal(libc::SIGRTMIN(), libc::SIG_BLOCK);
        // SAFETY: a zeroed sigevent is valid; the kernel writes one timer's number.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGRTMIN();
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::ptr::null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) < 0 {
                return Err(last_error());
            }
            Ok(Posix(timer))
        }
    }
}

impl Alarm for Posix {
    fn wait_until(&mut self, at_ns: u64) {
        // SAFETY: the timer is ours, the kernel reads one itimerspec.
        unsafe { libc::timer_settime(self.0, libc::TIMER_ABSTIME, &once(at_ns), std::ptr::null_mut()) };
        wait_for(libc::SIGRTMIN());
    }
}

impl Drop for Posix {
    fn drop(&mut self) {
        // SAFETY: the timer is ours.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// `/dev/rtc`: an interrupt 2^n times a second; the thread sleeps from one to the next until its time has come.
struct Rtc(File);

/// `RTC_IRQP_SET` and `RTC_PIE_ON` of linux/rtc.h on 64-bit machines.
const RTC_IRQP_SET: libc::c_ulong = 0x4008_700c;
const RTC_PIE_ON: libc::c_ulong = 0x7005;

impl Rtc {
    fn open(period_ns: u64) -> io::Result<Rtc> {
        let file = File::open("/dev/rtc").or_else(|_| File::open("/dev/rtc0"))?;
        // at least four interrupts a period, and what a user may have (64 Hz) if that is refused
        let wanted = (4_000_000_000 / period_ns.max(1)).max(2).next_power_of_two().min(8192);
        for rate in [wanted, 64] {
            // SAFETY: both requests take a number.
            unsafe {
                if libc::ioctl(file.as_raw_fd(), RTC_IRQP_SET, rate) == 0
                    && libc::ioctl(file.as_raw_fd(), RTC_PIE_ON, 0) == 0
                {
                    return Ok(Rtc(file));
                }
            }
        }
        Err(last_error())
    }
}

impl Alarm for Rtc {
    fn wait_until(&mut self, at_ns: u64) {
        let mut interrupts = [0u8; 8];
        while clock_ns(libc::CLOCK_MONOTONIC) < at_ns {
            if self.0.read_at(&mut interrupts, 0).is_err() {
                return;
            }
        }
    }
}

fn set_class(thread: u32, class: Class) -> io::Result<()> {
    let params = class.params;
    let deadline = params.deadline.map(|d| [d.runtime, d.deadline, d.period].map(|span| span.as_ns()));
    let [sched_runtime, sched_deadline, sched_period] = deadline.unwrap_or_default();
    let attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: params.policy.number().into(),
        sched_flags: if class.is_real_time() { libc::SCHED_FLAG_RESET_ON_FORK as u64 } else { 0 },
        sched_nice: params.nice.get(),
        sched_priority: params.rt_priority.into(),
        sched_runtime,
        sched_deadline,
        sched_period,
    };
    // SAFETY: the kernel reads `size` bytes.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &attr, 0) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Threads that the dead-man timer makes normal.
static DEAD_MAN_THREADS: [AtomicI32; THREADS_MAX] = [const { AtomicI32::new(0) }; THREADS_MAX];
static DEAD_MAN_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Makes all real-time threads normal. Only system calls, which signal handlers may make.
extern "C" fn demote(_signal: i32) {
    for thread in &DEAD_MAN_THREADS[..DEAD_MAN_COUNT.load(Ordering::Relaxed).min(THREADS_MAX)] {
        let none = libc::sched_param { sched_priority: 0 };
        // SAFETY: the kernel reads one sched_param; a thread that is gone is an error that nobody needs.
        unsafe { libc::sched_setscheduler(thread.load(Ordering::Relaxed), libc::SCHED_OTHER, &none) };
    }
}

/// The dead man's timer, set. Without this guard the timer of one run would demote the threads of the next.
struct DeadMan(libc::timer_t);

impl Drop for DeadMan {
    fn drop(&mut self) {
        // SAFETY: the timer is ours.
        unsafe { libc::timer_delete(self.0) };
        DEAD_MAN_COUNT.store(0, Ordering::Relaxed);
    }
}

impl System for Linux {
    fn nr_cpus(&self) -> u32 {
        self.nr_cpus
    }

    fn lock(&self, memory: &mut [u8]) -> Result<(), String> {
        // one write a page, so that each exists before the run
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 0);
        // SAFETY: locks a range of our own.
        if unsafe { libc::mlock(memory.as_ptr().cast(), memory.len()) } == 0 {
            return Ok(());
        }
        Err(format!(
            "{} KiB for gaps could not be locked ({}); it is touched, so faults are unlikely; raise 'ulimit -l'",
            memory.len() / 1024,
            last_error()
        ))
    }

    fn schedule(&self, class: Class) -> Result<(), String> {
        set_class(0, class).map_err(|error| error.to_string())
    }

    fn bind(&self, cpus: &CpuSet) -> Result<(), String> {
        // SAFETY: a zeroed set is empty; numbers are below CPU_SETSIZE, and the kernel reads the set.
        let result = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            cpus.iter().filter(|cpu| cpu.0 < 1024).for_each(|cpu| libc::CPU_SET(cpu.index(), &mut set));
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
        };
        if result == 0 { Ok(()) } else { Err(last_error().to_string()) }
    }

    fn enter(&self, group: &Path) -> Result<(), String> {
        let is_threaded = text(group.join("cgroup.type")).is_ok_and(|kind| kind == "threaded");
        let file = if is_threaded || group.join("tasks").exists() { "tasks" } else { "cgroup.procs" };
        let file = if is_threaded { "cgroup.threads" } else { file };
        let write = OpenOptions::new().write(true).open(group.join(file));
        let number = if file == "cgroup.procs" { std::process::id() } else { self.thread() };
        write
            .and_then(|file| file.write_at(number.to_string().as_bytes(), 0))
            .map_err(|error| format!("{}: {error}", group.join(file).display()))?;
        self.counts_throttling.fetch_or(own_throttle_file().is_some(), Ordering::Relaxed);
        Ok(())
    }

    fn probes(&self) -> Box<dyn Probes> {
        let open = |path: &Path| File::open(path).ok();
        Box::new(LinuxProbes {
            schedstat: open(Path::new("/proc/thread-self/schedstat")),
            cpu_stat: own_throttle_file().as_deref().and_then(open),
            proc_stat: open(Path::new("/proc/stat")),
            sequence: Sequence::open(),
            last: Reading::default(),
            buffer: Box::new([0; 4096]),
        })
    }

    fn missing(&self) -> Missing {
        let mut missing = Missing::new();
        if let Err(error) = text("/proc/thread-self/schedstat") {
            missing.push(("run delay (/proc/thread-self/schedstat)", error));
        }
        // SAFETY: a zeroed rusage is valid, and the kernel writes one.
        let counts = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage)
        };
        if counts != 0 {
            missing.push(("switches and faults (getrusage)", last_error().to_string()));
        }
        if !self.counts_throttling.load(Ordering::Relaxed) {
            missing.push((
                "throttling (cpu.stat)",
                "no group of ours counts it: there is no cpu.max here".into(),
            ));
        }
        match text("/proc/stat") {
            Err(error) => missing.push(("steal (/proc/stat)", error)),
            Ok(_) if !self.is_virtual => {}
            Ok(stat) if steal_ms(&stat).is_none() => {
                missing.push(("steal (/proc/stat)", "no such column".into()))
            }
            Ok(_) => {}
        }
        if Sequence::open().is_none() {
            missing.push(("preemption (restartable sequences)", "the C library has registered none".into()));
        }
        missing
    }

    fn alarm(&self, timer: Timer, period_ns: u64) -> Result<Box<dyn Alarm>, String> {
        let alarm: io::Result<Box<dyn Alarm>> = match timer {
            Timer::Sleep => Ok(Box::new(Sleeper { absolute: false })),
            Timer::Absolute | Timer::Busy => Ok(Box::new(Sleeper { absolute: true })),
            Timer::Timerfd => Timerfd::open().map(|timer| Box::new(timer) as Box<dyn Alarm>),
            Timer::Itimer => Ok(Box::new(Itimer)),
            Timer::Posix => Posix::open().map(|timer| Box::new(timer) as Box<dyn Alarm>),
            Timer::Rtc => Rtc::open(period_ns).map(|timer| Box::new(timer) as Box<dyn Alarm>),
        };
        alarm.map_err(|error| error.to_string())
    }

    fn cpu(&self) -> u32 {
        // SAFETY: takes nothing.
        unsafe { libc::sched_getcpu() }.max(0) as u32
    }

    fn thread(&self) -> u32 {
        // SAFETY: takes nothing.
        unsafe { libc::gettid() as u32 }
    }

    fn preconditions(&self) -> Vec<(&'static str, String)> {
        let cpu = "/sys/devices/system/cpu";
        let known = |path: String| text(&path).unwrap_or_else(|_| "not known".into());
        let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("not known");
        vec![
            ("kernel", known("/proc/sys/kernel/osrelease".into())),
            ("processor", model.trim_start_matches([' ', '\t', ':']).to_string()),
            ("CPUs", self.nr_cpus.to_string()),
            ("virtual machine", if self.is_virtual { "yes" } else { "no" }.into()),
            (
                "clock source",
                known("/sys/devices/system/clocksource/clocksource0/current_clocksource".into()),
            ),
            ("SMT", known(format!("{cpu}/smt/control")).replace("notsupported", "not supported")),
            ("frequency governor", known(format!("{cpu}/cpu0/cpufreq/scaling_governor"))),
            ("idle driver", known(format!("{cpu}/cpuidle/current_driver"))),
            (
                "isolated CPUs",
                match known(format!("{cpu}/isolated")) {
                    none if none.is_empty() => "none".into(),
                    list => list,
                },
            ),
            (
                "RT limit",
                format!(
                    "{} us in {} us",
                    known("/proc/sys/kernel/sched_rt_runtime_us".into()),
                    known("/proc/sys/kernel/sched_rt_period_us".into())
                ),
            ),
        ]
    }

    fn steal_ms(&self) -> Option<u64> {
        steal_ms(&text("/proc/stat").ok()?)
    }

    fn dead_man(&self, at_ns: u64, threads: Vec<u32>) -> Result<Box<dyn std::any::Any>, String> {
        if threads.is_empty() {
            return Ok(Box::new(()));
        }
        let count = threads.len().min(THREADS_MAX);
        for (place, thread) in DEAD_MAN_THREADS.iter().zip(&threads) {
            place.store(*thread as i32, Ordering::Relaxed);
        }
        DEAD_MAN_COUNT.store(count, Ordering::Relaxed);
        // SAFETY: the handler makes system calls only; zeroed structures are valid; the timer lives as long as
        // the guard that is given back.
        let guard = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = demote as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut());
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGUSR2;
            let mut timer: libc::timer_t = std::ptr::null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) < 0 {
                return Err(last_error().to_string());
            }
            let guard = DeadMan(timer);
            if libc::timer_settime(timer, libc::TIMER_ABSTIME, &once(at_ns), std::ptr::null_mut()) < 0 {
                return Err(last_error().to_string());
            }
            guard
        };
        Ok(Box::new(guard))
    }

    fn is_virtual(&self) -> bool {
        self.is_virtual
    }
}

/// Signals of timers reach those that wait for them only: to be called before any thread is made.
pub(crate) fn block_timer_signals() {
    block_signal(libc::SIGALRM, libc::SIG_BLOCK);
    block_signal(libc::SIGUSR2, libc::SIG_BLOCK);
}

/// For a program that the calling thread starts: it would have the blocked signals from it, and wait for its own alarm
/// for ever.
pub(crate) fn let_timer_signals_through() {
    block_signal(libc::SIGALRM, libc::SIG_UNBLOCK);
    block_signal(libc::SIGUSR2, libc::SIG_UNBLOCK);
}

/// The dead man's signal is taken by the workers: a thread that waits for a CPU behind them could not answer.
pub(crate) fn take_dead_mans_signal() {
    block_signal(libc::SIGUSR2, libc::SIG_UNBLOCK);
}

/// What to do about a class that was refused.
pub(crate) fn class_remedy(class: Class) -> &'static str {
    match class.params.policy {
        SchedPolicy::Fifo | SchedPolicy::RoundRobin => "run as root, give CAP_SYS_NICE, or raise 'ulimit -r'",
        SchedPolicy::Deadline => {
            "run as root, and leave out -a: a thread bound to few CPUs is refused (EPERM)"
        }
        _ => "run as root, or raise 'ulimit -e'; an unprivileged user may only be nicer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_in_both_versions_of_groups() {
        assert_eq!(throttled_us("usage_usec 5\nnr_throttled 2\nthrottled_usec 70\n"), Some(70));
        assert_eq!(throttled_us("nr_periods 9\nnr_throttled 2\nthrottled_time 70000\n"), Some(70));
        assert_eq!(throttled_us("usage_usec 5\n"), None);
        assert_eq!(steal_ms("cpu  1 2 3 4 5 6 7 80 0 0\ncpu0 1\n"), Some(800));
    }

    #[test]
    fn a_group_without_throttling_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let point = folder.path().display();
        let mounts = format!("30 20 0:26 / {point} rw - cgroup2 cgroup2 rw\n");
        std::fs::write(folder.path().join("cpu.stat"), "usage_usec 1\n").unwrap();
        assert_eq!(throttle_file("0::/a/b\n", &mounts), None);
        let group = folder.path().join("a/b");
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(group.join("cpu.stat"), "usage_usec 1\nnr_throttled 0\n").unwrap();
        assert_eq!(throttle_file("3:cpuset:/\n0::/a/b\n", &mounts), Some(group.join("cpu.stat")));
    }

    #[test]
    fn every_timer_that_needs_no_device_wakes_when_it_should() {
        let linux = Linux::detect();
        block_timer_signals();
        for timer in [Timer::Sleep, Timer::Absolute, Timer::Timerfd, Timer::Posix] {
            let mut alarm = linux.alarm(timer, 1_000_000).unwrap();
            let at_ns = clock_ns(libc::CLOCK_MONOTONIC) + 2_000_000;
            alarm.wait_until(at_ns);
            assert!(clock_ns(libc::CLOCK_MONOTONIC) >= at_ns, "{timer:?} came early");
        }
    }

    /// A run that is over demotes nobody: its timer is gone.
    #[test]
    fn the_dead_mans_timer_ends_with_its_run() {
        let linux = Linux::detect();
        block_timer_signals();
        let at_ns = clock_ns(libc::CLOCK_MONOTONIC) + 20_000_000;
        let armed = linux.dead_man(at_ns, vec![linux.thread()]).unwrap();
        assert_eq!(DEAD_MAN_COUNT.load(Ordering::Relaxed), 1);
        drop(armed);
        assert_eq!(DEAD_MAN_COUNT.load(Ordering::Relaxed), 0);
        std::thread::sleep(std::time::Duration::from_millis(40));
        // SAFETY: zeroed sets are valid, and the kernel writes one.
        let pending = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&mut set);
            libc::sigismember(&set, libc::SIGUSR2)
        };
        assert_eq!(pending, 0, "the timer of a run that is over has fired");
    }

    /// A real-time thread that computes beyond its end is a normal one then.
    #[test]
    fn the_dead_man_demotes_who_does_not_stop() {
        let linux = Linux::detect();
        block_timer_signals();
        let demoted = std::thread::spawn(move || {
            take_dead_mans_signal();
            if linux.schedule(Class::real_time(SchedPolicy::Fifo, 1)).is_err() {
                eprintln!("SKIPPED: no right to real-time classes here");
                return true;
            }
            let armed =
                linux.dead_man(clock_ns(libc::CLOCK_MONOTONIC) + 5_000_000, vec![linux.thread()]).unwrap();
            // SAFETY: takes a number, returns a number.
            let policy = || unsafe { libc::sched_getscheduler(0) };
            let before = policy();
            let until_ns = clock_ns(libc::CLOCK_MONOTONIC) + 2_000_000_000;
            while policy() & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO
                && clock_ns(libc::CLOCK_MONOTONIC) < until_ns
            {}
            drop(armed);
            before & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO && policy() == libc::SCHED_OTHER
        });
        assert!(demoted.join().unwrap(), "it is still a real-time thread");
    }

    #[test]
    fn a_threads_counters_grow() {
        let mut probes = Linux::detect().probes();
        let before = probes.read(true);
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = probes.read(true);
        assert!(after.voluntary > before.voluntary && after.cpu_ns > before.cpu_ns);
    }
}
