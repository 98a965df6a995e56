//! How are events recorded without ftrace? By small programs of ours in the kernel, one per event, which
//! write into a ring per CPU.
//!
//! ```text
//! tracepoint ── program ──> ring of the CPU ── reader thread ──> pages as ftrace has them ──> unnamed file of the CPU
//!               (programs.rs, loaded by sys.rs)  (this file)        (anonymise/pages.rs)
//! ```
//!
//! Why: the same records cost less than half (docs/decisions/0010). A program writes only what the record
//! holds; ftrace also notes names of tasks for all tracers of the host, and as soon as it records one system
//! call every other one takes the kernel's slow path. It needs a kernel with BPF, with a description of its
//! types (/sys/kernel/btf/vmlinux), from 5.8 on, on x86-64; where that is missing the recorder falls back to
//! ftrace and says why.
//!
//! Events are lost where a ring is full. Each sample carries how many had been lost on its CPU until then, so
//! that the place of a loss is known: it is put where ftrace puts it, in the head of the next page.

pub(crate) mod calls;
mod futex;
mod insn;
mod locks;
mod objects;
mod programs;
mod sys;

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use schedlab_trace::{EventFormat, OBJECT_FORMAT, object_has_address};

use crate::drain::{CpuPages, DrainCost, Drained, thread_cpu_time};
use crate::error::HostError;
use crate::events::{ESSENTIAL, LOCK, is_ours, split};
use crate::signals::{event_fd, raise_event_fd};
use crate::tracefs::{Tracefs, read_text};
use locks::{LockFunction, LockPlace};
use programs::{
    Generator, InterruptCount, STATE_BYTES, STATE_CPUS, STATE_HEAD, STATE_PER_CPU, reported_state,
    trace_type, wanted_types,
};
use schedlab_btf::{Btf, Named};
use schedlab_trace::write::{Missed, PageBuilder};
use sys::{Attached, Epoll, Mapping};

/// Bytes of the pages that are written.
pub(crate) const PAGE: usize = 4096;
const YIELD: &str = "syscalls:sys_enter_sched_yield";
const YIELD_END: &str = "syscalls:sys_exit_sched_yield";
/// CPUs that one thread reads.
const CPUS_PER_THREAD: usize = 8;
/// Longest sleep of a reader.
const POLL_MS: i32 = 1000;

/// Number of `schedlab:object`, and where its keys stand ([`OBJECT_FORMAT`]).
const OBJECT_ID: u16 = 65000;
const OBJECT_KEYS: [std::ops::Range<usize>; 2] = [8..16, 32..40];
/// Place of its kind, a byte: not all have addresses for keys.
const OBJECT_KIND: usize = 16;

/// Where every record has the task that had the CPU: `common_pid`, behind type, flags and depth.
const COMMON_PID: std::ops::Range<usize> = 4..8;

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// The running programs and their readers.
pub(crate) struct BpfRecorder {
    state: Mapping,
    /// Detached when dropped.
    programs: Vec<Attached>,
    readers: Vec<JoinHandle<Drained>>,
    stop: Arc<OwnedFd>,
    failed: Arc<OwnedFd>,
    bytes: Arc<AtomicU64>,
    /// Events written, by CPU.
    written: Arc<Vec<AtomicU64>>,
    cpus: u32,
    pub first: Arc<FirstProcess>,
}

/// Which events have programs.
#[derive(Default)]
pub(crate) struct Programs {
    /// As system:name.
    pub enabled: Vec<String>,
    /// Those that have none, and why.
    pub rest: Vec<(String, String)>,
}

/// The threads of process 1, and whether a program has run while one of them had the CPU. Some kernels hide that
/// process from programs: no event is seen while it has a CPU, not even the wakeups that interrupts bring then.
#[derive(Debug, Default)]
pub(crate) struct FirstProcess {
    /// Ascending.
    pub threads: Vec<i32>,
    seen: AtomicBool,
}

impl FirstProcess {
    fn find() -> FirstProcess {
        let entries = std::fs::read_dir("/proc/1/task").into_iter().flatten().flatten();
        let mut threads: Vec<i32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        threads.sort_unstable();
        FirstProcess { threads, seen: AtomicBool::new(false) }
    }

    /// Whether a program has recorded something while this process had the CPU.
    pub fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }

    /// Looks at who has the CPU in a record.
    fn look(&self, record: &[u8]) {
        let Some(Ok(pid)) = record.get(COMMON_PID).map(<[u8; 4]>::try_from) else { return };
        if self.threads.binary_search(&i32::from_le_bytes(pid)).is_ok() {
            self.seen.store(true, Ordering::Relaxed);
        }
    }
}

/// What each CPU's programs counted.
pub(crate) struct CpuEvents {
    pub cpu: u32,
    pub written: u64,
    pub lost: u64,
}

impl BpfRecorder {
    /// Makes rings of `buffer_kb` each, loads and attaches the programs and starts the readers; nothing is
    /// recorded until [`BpfRecorder::record`]. `pids`: processes whose libraries matter besides those of the host.
    ///
    /// # Errors
    /// Why programs cannot be used here: the kernel's answer, or what it lacks.
    pub(crate) fn new(
        tracefs: &Tracefs,
        names: Vec<String>,
        hierarchy: Option<u32>,
        buffer_kb: u32,
        percent: u32,
        (folder, pids): (&Path, &[i32]),
    ) -> Result<(BpfRecorder, Programs), String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("programs are written for x86-64".to_owned());
        }
        let cpus = possible_cpus()?;
        if cpus as usize > STATE_CPUS {
            return Err(format!("{cpus} CPUs are possible here, programs know {STATE_CPUS}"));
        }
        let description = sys::read_btf().map_err(|e| format!("/sys/kernel/btf/vmlinux: {e}"))?;
        let btf = Btf::parse(&description).map_err(|e| format!("/sys/kernel/btf/vmlinux: {e}"))?;
        let mut wanted = wanted_types();
        wanted.extend(names.iter().map(|name| (Named::Typedef, trace_type(split(name).1))));
        let types = btf.find(&wanted.iter().map(|(kind, name)| (*kind, name.as_str())).collect::<Vec<_>>());

        let ring_bytes = (buffer_kb.max(8) * 1024).next_power_of_two();
        let (rings, by_cpu) = rings(cpus, ring_bytes)?;
        let shared = sys::shared(STATE_BYTES as u32).map_err(refused("the kernel gives no shared memory"))?;
        let state = Mapping::new(&shared, 0, STATE_BYTES.next_multiple_of(4096), true)
            .map_err(refused("shared memory cannot be mapped"))?;

        let named = kernel_names_variables();
        let generator = Generator {
            interrupts: InterruptCount::find(&btf, &types, named)?,
            btf: &btf,
            types: &types,
            rings: by_cpu.as_raw_fd(),
            state: shared.as_raw_fd(),
            // a ring is never quite full
            mark: (u64::from(ring_bytes) * u64::from(percent.min(87)) / 100) as i32,
            hierarchy,
            yields: None,
            lock: LockFunction::default(),
        };
        let format = |name: &str| {
            if is_ours(name) {
                return EventFormat::parse(OBJECT_FORMAT.as_bytes()).map_err(|e| e.to_string());
            }
            let (system, event) = split(name);
            let path = tracefs.root().join(format!("events/{system}/{event}/format"));
            let text = read_text(&path).map_err(|_| "this kernel does not have it".to_owned())?;
            EventFormat::parse(text.as_bytes()).map_err(|e| e.to_string())
        };
        let mut generator = generator;
        let with_yields = names.iter().any(|name| name == YIELD);
        if with_yields {
            generator.yields = format(YIELD).ok();
        }
        let Taken { programs, switch, waking, made } =
            attach_all(&mut generator, names, with_yields, (&format, pids))?;
        // Without switches (when single events are measured) no record needs its state seen to.
        let switch = switch.unwrap_or((0, usize::MAX - 8));

        let system = |e: HostError| e.to_string();
        let written: Arc<Vec<AtomicU64>> = Arc::new((0..cpus).map(|_| AtomicU64::new(0)).collect());
        let mut recorder = BpfRecorder {
            state,
            programs,
            readers: Vec::new(),
            stop: Arc::new(event_fd().map_err(system)?),
            failed: Arc::new(event_fd().map_err(system)?),
            bytes: Arc::new(AtomicU64::new(0)),
            written,
            cpus,
            first: Arc::new(FirstProcess::find()),
        };
        let mut readers = Vec::new();
        let secret = RandomState::new();
        for (cpu, ring) in (0..).zip(rings) {
            let aside = (secret.clone(), Arc::clone(&recorder.first));
            let reader = Reader::new(cpu, ring, ring_bytes as usize, switch, aside, folder);
            readers.push(reader.map_err(|e| e.to_string())?);
        }
        if let (InterruptCount::FromRunqueue(_), Some(waking)) = (generator.interrupts, &waking) {
            recorder.check_interrupts(&mut readers, waking)?;
        }
        recorder.start(readers)?;
        Ok((recorder, made))
    }

    /// Starts the threads that read the rings, several rings each.
    fn start(&mut self, mut readers: Vec<Reader>) -> Result<(), String> {
        while !readers.is_empty() {
            let rest = readers.split_off(readers.len().min(CPUS_PER_THREAD));
            let group = std::mem::replace(&mut readers, rest);
            let (stop, failed) = (Arc::clone(&self.stop), Arc::clone(&self.failed));
            let (bytes, written) = (Arc::clone(&self.bytes), Arc::clone(&self.written));
            let thread = std::thread::Builder::new().name("schedlab-drain".to_owned()).spawn(move || {
                run(group, &stop, &bytes, &written).inspect_err(|_| raise_event_fd(failed.as_raw_fd()))
            });
            self.readers.push(thread.map_err(|e| format!("cannot start a reading thread: {e}"))?);
        }
        Ok(())
    }

    /// The place of the count of interrupts was reckoned, not read: does it distinguish a timer's wakeup from a
    /// task's? Something else may wake this thread meanwhile (a disk, by a softirq), so it is asked some times.
    fn check_interrupts(&self, readers: &mut [Reader], waking: &EventFormat) -> Result<(), String> {
        const TRIES: usize = 5;
        let mut tried = (0..TRIES).map(|_| self.distinguishes_interrupts(readers, waking));
        let first = tried.next().expect("there is one at least");
        first.or_else(|why| tried.find(Result::is_ok).unwrap_or(Err(why)))
    }

    /// Records both wakeups of this thread, and throws the events away.
    fn distinguishes_interrupts(&self, readers: &mut [Reader], waking: &EventFormat) -> Result<(), String> {
        let place = |name: &str| waking.field(name).map(|field| field.offset as usize);
        let (Some(flags), Some(pid)) = (place("common_flags"), place("pid")) else {
            return Err("sched_waking has no flags or no pid".to_owned());
        };
        // SAFETY: a plain query.
        let own = unsafe { libc::gettid() }.to_le_bytes();
        let mut wakings = |during: &mut dyn FnMut()| {
            self.record(true);
            during();
            self.record(false);
            let mut found = Vec::new();
            for reader in readers.iter_mut() {
                reader.take_with(|_, _, record| {
                    let is_ours = record.get(pid..pid + 4) == Some(&own);
                    if is_ours && record.starts_with(&waking.id.to_le_bytes()) {
                        found.push(record[flags]);
                    }
                });
            }
            found
        };
        const INTERRUPTS: u8 = 0x08 | 0x10 | 0x40;
        const HARDIRQ: u8 = 0x08;
        let by_timer = wakings(&mut || std::thread::sleep(Duration::from_micros(300)));
        let (go, gone) = (std::sync::mpsc::channel::<()>(), std::sync::mpsc::channel::<()>());
        let other = std::thread::spawn(move || {
            let _ = go.1.recv();
            std::thread::sleep(Duration::from_millis(2));
            let _ = gone.0.send(());
        });
        let by_task = wakings(&mut || {
            let _ = go.0.send(());
            let _ = gone.1.recv();
        });
        let _ = other.join();
        let timer = by_timer.iter().any(|flags| flags & HARDIRQ != 0);
        let task = !by_task.is_empty() && by_task.iter().all(|flags| flags & INTERRUPTS == 0);
        if timer && task {
            Ok(())
        } else {
            Err(format!(
                "interrupts cannot be distinguished from tasks (flags {by_timer:x?} of a timer's, {by_task:x?} of a \
                    task's wakeup)"
            ))
        }
    }

    /// Switches recording on or off.
    pub(crate) fn record(&self, on: bool) {
        self.state.long(0).store(u64::from(on), Ordering::SeqCst);
    }

    /// Becomes readable when a reader has given up: [`BpfRecorder::finish`] says why.
    pub(crate) fn failed_fd(&self) -> RawFd {
        self.failed.as_raw_fd()
    }

    /// Bytes of pages written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Detaches the programs, takes what is left in the rings and ends the readers.
    pub(crate) fn finish(mut self) -> Result<(Vec<CpuPages>, DrainCost, Vec<CpuEvents>), HostError> {
        self.record(false);
        self.programs.clear();
        let (mut pages, mut cost, mut failed) = (Vec::new(), DrainCost::default(), None);
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
        if let Some(e) = failed {
            return Err(e);
        }
        pages.sort_by_key(|p| p.cpu);
        let events = (0..self.cpus).map(|cpu| CpuEvents {
            cpu,
            written: self.written[cpu as usize].load(Ordering::Relaxed),
            lost: self.state.long(STATE_HEAD + STATE_PER_CPU * cpu as usize).load(Ordering::Relaxed),
        });
        let events = events.collect();
        Ok((pages, cost, events))
    }

    fn join(&mut self) -> Vec<Drained> {
        raise_event_fd(self.stop.as_raw_fd());
        let panicked = || HostError::System {
            doing: "a reading thread panicked",
            source: std::io::Error::other("panic"),
        };
        self.readers.drain(..).map(|thread| thread.join().unwrap_or_else(|_| Err(panicked()))).collect()
    }
}

impl Drop for BpfRecorder {
    fn drop(&mut self) {
        self.programs.clear();
        self.join();
    }
}

/// How many CPUs this kernel may ever have.
fn possible_cpus() -> Result<u32, String> {
    let text = read_text(Path::new("/sys/devices/system/cpu/possible")).map_err(|e| e.to_string())?;
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u32>().ok());
    last.map(|last| last + 1).ok_or_else(|| format!("/sys/devices/system/cpu/possible is {text:?}"))
}

/// Whether programs may name the kernel's variables: if it tells the places of any (CONFIG_KALLSYMS_ALL).
fn kernel_names_variables() -> bool {
    let symbols = read_text(Path::new("/proc/kallsyms")).unwrap_or_default();
    symbols.lines().any(|line| {
        let name = line.split_whitespace().nth(2).unwrap_or_default();
        matches!(name, "__preempt_count" | "pcpu_hot")
    })
}

/// One CPU's ring and where its events go.
struct Reader {
    cpu: u32,
    ring: OwnedFd,
    /// The reader's place in it.
    consumer: Mapping,
    /// The programs' place, then the samples, twice in a row.
    producer: Mapping,
    mask: u64,
    /// Number of sched_switch, and where its state stands.
    switch: (u16, usize),
    /// By which the kernel's addresses of objects become numbers without meaning.
    secret: RandomState,
    first: Arc<FirstProcess>,
    builder: PageBuilder,
    file: File,
    bytes: u64,
    /// Events that had been lost at the last sample.
    lost: u32,
    last_ns: u64,
    record: Vec<u8>,
}

impl Reader {
    fn new(
        cpu: u32,
        ring: OwnedFd,
        ring_bytes: usize,
        switch: (u16, usize),
        (secret, first): (RandomState, Arc<FirstProcess>),
        folder: &Path,
    ) -> std::io::Result<Reader> {
        let page = page_size();
        Ok(Reader {
            cpu,
            consumer: Mapping::new(&ring, 0, page, true)?,
            producer: Mapping::new(&ring, page, page + 2 * ring_bytes, false)?,
            ring,
            mask: ring_bytes as u64 - 1,
            switch,
            secret,
            first,
            builder: PageBuilder::new(PAGE),
            file: tempfile::tempfile_in(folder)?,
            bytes: 0,
            lost: 0,
            last_ns: 0,
            record: Vec::new(),
        })
    }

    /// Hands on all samples that are complete: time, events lost so far, record.
    fn take_with(&mut self, mut each: impl FnMut(u64, u32, &[u8])) {
        let data = page_size();
        let mut at = self.consumer.long(0).load(Ordering::Relaxed);
        loop {
            let end = self.producer.long(0).load(Ordering::Acquire);
            if at == end {
                return;
            }
            while at < end {
                let place = data + (at & self.mask) as usize;
                let head = self.producer.word(place).load(Ordering::Acquire);
                if head & BUSY != 0 {
                    return;
                }
                let length = (head & !DISCARDED) as usize;
                let sample = self.producer.bytes(place + 8, length);
                if let (0, Some((head, record))) =
                    (head & DISCARDED, sample.split_at_checked(programs::SAMPLE_HEAD))
                {
                    let word =
                        |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
                    let time_ns = u64::from(word(0)) | u64::from(word(4)) << 32;
                    if let Some(record) = record.get(..word(12) as usize) {
                        each(time_ns, word(8), record);
                    }
                }
                at += (length as u64 + 8).next_multiple_of(8);
                // Room for the programs again.
                self.consumer.long(0).store(at, Ordering::Release);
            }
        }
    }

    /// Puts all samples that are complete into pages; how many.
    fn take(&mut self) -> u64 {
        let (id, at) = (self.switch.0.to_le_bytes(), self.switch.1);
        let object = OBJECT_ID.to_le_bytes();
        let mut builder = std::mem::replace(&mut self.builder, PageBuilder::new(PAGE));
        let mut copy = std::mem::take(&mut self.record);
        let (mut events, mut lost_before, mut last_ns) = (0, self.lost, self.last_ns);
        let (secret, first) = (self.secret.clone(), Arc::clone(&self.first));
        self.take_with(|time_ns, lost, record| {
            first.look(record);
            if lost != lost_before {
                builder.lost(Missed { count: Some(u64::from(lost.wrapping_sub(lost_before))) });
                lost_before = lost;
            }
            // An interrupt between a program's taking its place and its looking at the clock is a hair older
            // than what it interrupts.
            last_ns = last_ns.max(time_ns);
            copy.clear();
            copy.extend_from_slice(record);
            if let (true, Some(state)) = (record.starts_with(&id), copy.get_mut(at..at + 8)) {
                let mut raw = [0; 8];
                raw.copy_from_slice(state);
                state.copy_from_slice(&reported_state(u64::from_le_bytes(raw)).to_le_bytes());
            }
            let has_address = record.starts_with(&object)
                && record.get(OBJECT_KIND).is_some_and(|kind| object_has_address(i64::from(*kind)));
            for keys in OBJECT_KEYS.into_iter().filter(|_| has_address) {
                if let Some(key) = copy.get_mut(keys).filter(|key| key.iter().any(|byte| *byte != 0)) {
                    let hidden = secret.hash_one(&*key);
                    key.copy_from_slice(&hidden.to_le_bytes());
                }
            }
            builder.push(last_ns, &copy);
            events += 1;
        });
        (self.builder, self.record, self.lost, self.last_ns) = (builder, copy, lost_before, last_ns);
        events
    }

    fn write(&mut self, pages: &[u8]) -> Result<u64, HostError> {
        let failed = HostError::io("cannot write to", format!("the temporary file of CPU {}", self.cpu));
        self.file.write_all(pages).map_err(failed)?;
        self.bytes += pages.len() as u64;
        Ok(pages.len() as u64)
    }
}

fn page_size() -> usize {
    // SAFETY: a plain query; the page size is positive and small.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

fn run(mut cpus: Vec<Reader>, stop: &OwnedFd, total: &AtomicU64, written: &[AtomicU64]) -> Drained {
    let refused = |source| HostError::System { doing: "cannot wait for the rings", source };
    let epoll = Epoll::new().map_err(refused)?;
    epoll.add(stop.as_raw_fd(), false).map_err(refused)?;
    for cpu in &cpus {
        epoll.add(cpu.ring.as_raw_fd(), true).map_err(refused)?;
    }
    let mut wakes = 0;
    loop {
        let stopping = epoll.wait(POLL_MS, stop.as_raw_fd()).map_err(refused)?;
        wakes += 1;
        for cpu in &mut cpus {
            written[cpu.cpu as usize].fetch_add(cpu.take(), Ordering::Relaxed);
            let pages = cpu.builder.take_whole_pages();
            total.fetch_add(cpu.write(&pages)?, Ordering::Relaxed);
        }
        if stopping {
            break;
        }
    }
    let mut pages = Vec::new();
    for mut cpu in cpus {
        let rest = std::mem::replace(&mut cpu.builder, PageBuilder::new(PAGE)).finish();
        total.fetch_add(cpu.write(&rest)?, Ordering::Relaxed);
        let failed = HostError::io("cannot rewind", format!("the temporary file of CPU {}", cpu.cpu));
        cpu.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        pages.push(CpuPages { cpu: cpu.cpu, file: cpu.file, bytes: cpu.bytes });
    }
    Ok((pages, DrainCost { cpu: thread_cpu_time(), wakes }))
}

fn refused(what: &'static str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {error}")
}

/// A ring per CPU, and the map by which programs find their CPU's.
fn rings(cpus: u32, ring_bytes: u32) -> Result<(Vec<OwnedFd>, OwnedFd), String> {
    let rings = (0..cpus)
        .map(|_| sys::ring(ring_bytes))
        .collect::<Result<Vec<_>, _>>()
        .map_err(refused("the kernel gives no ring"))?;
    let by_cpu = sys::rings(cpus, &rings[0]).map_err(refused("the kernel gives no map of rings"))?;
    for (cpu, ring) in (0..).zip(&rings) {
        sys::set_ring(&by_cpu, cpu, ring).map_err(refused("the kernel takes no ring"))?;
    }
    Ok((rings, by_cpu))
}

/// Programs that the kernel has taken.
struct Taken {
    programs: Vec<Attached>,
    /// The event of a switch: its number, and where the state of the previous task stands.
    switch: Option<(u16, usize)>,
    /// The event of a wakeup.
    waking: Option<EventFormat>,
    made: Programs,
}

/// A program at each function of the C library's locks.
fn attach_locks(
    generator: &mut Generator<'_>,
    format: &EventFormat,
    pids: &[i32],
) -> Result<Vec<Attached>, String> {
    let uprobe = locks::uprobe_type()?;
    let mut attach = |place: &LockPlace| {
        let code = generator.lock_program(place.function, format)?;
        sys::attach_to_library(&code, place, uprobe)
    };
    locks::places(pids)?.iter().map(&mut attach).collect()
}

/// The format of an event by its name.
type FormatOf<'a> = dyn Fn(&str) -> Result<EventFormat, String> + 'a;

/// Writes, loads and attaches a program for each event in `names`.
fn attach_all(
    generator: &mut Generator<'_>,
    names: Vec<String>,
    with_yields: bool,
    (format, pids): (&FormatOf<'_>, &[i32]),
) -> Result<Taken, String> {
    let mut made = Programs::default();
    let (mut programs, mut switch, mut waking) = (Vec::new(), None, None);
    for name in names {
        let event = split(&name).1;
        // Switches show yields, and nothing shows their ends.
        if name == YIELD || name == YIELD_END {
            continue;
        }
        if name == LOCK {
            match attach_locks(generator, &format(&name)?, pids) {
                Ok(more) => {
                    programs.extend(more);
                    made.enabled.push(name);
                }
                Err(problem) => made.rest.push((name, problem)),
            }
            continue;
        }
        let attach = |generator: &Generator<'_>| {
            let format = format(&name)?;
            Ok::<_, String>((sys::attach(&generator.program(&name, &format)?)?, format))
        };
        let mut attached = attach(generator);
        if attached.is_err() && name == ESSENTIAL && generator.yields.take().is_some() {
            attached = attach(generator);
        }
        match attached {
            Ok((program, format)) => {
                programs.push(program);
                if name == ESSENTIAL {
                    let offset = format.field("prev_state").map_or(0, |field| field.offset as usize);
                    switch = Some((format.id, offset));
                }
                if event == "sched_waking" {
                    waking = Some(format);
                }
                made.enabled.push(name);
            }
            Err(problem) if name == ESSENTIAL => return Err(format!("{name}: {problem}")),
            Err(problem) => made.rest.push((name, problem)),
        }
    }
    if with_yields {
        match generator.yields {
            Some(_) => made.enabled.push(YIELD.to_owned()),
            None => made.rest.extend(
                [YIELD, YIELD_END].map(|name| (name.to_owned(), "switches do not tell it here".to_owned())),
            ),
        }
    }
    Ok(Taken { programs, switch, waking, made })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_1_is_seen_once_a_record_is_of_one_of_its_threads() {
        let first = FirstProcess { threads: vec![1, 68, 75], ..FirstProcess::default() };
        let record = |pid: i32| [&[7, 0, 0, 0][..], &pid.to_le_bytes(), &[0; 8]].concat();
        [0, 2, 69, 76, -1].into_iter().for_each(|pid| first.look(&record(pid)));
        first.look(&[7, 0, 0, 0, 1]);
        assert!(!first.is_seen());
        first.look(&record(68));
        assert!(first.is_seen());
        assert!(FirstProcess::find().threads.is_sorted(), "they are looked up by halves");
    }
}
