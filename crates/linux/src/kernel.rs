//! How does a simulator drive a Linux kernel that is loaded as a library?
//!
//! [`LoadedKernel::load`] opens the object, [`LoadedKernel::boot`] powers the machine on. From then on the simulator
//! calls [`LoadedKernel::resume`] for a CPU that has an interrupt pending, an operation to carry out, or was spinning:
//!
//! ```text
//! now 4,000,000   raise(cpu0, TIMER)   resume(cpu0) -> User(t7)      t7 computes on
//!                 deadline(cpu0) = 8,000,000                         the next tick
//! now 5,200,000   operate(t7, Op::block(None))   resume(cpu0) -> Idle
//! ```
//!
//! After each resume: read that CPU's [`LoadedKernel::deadline`] (only its own can have changed), and before
//! the next one drain [`LoadedKernel::drain_kicks`] (interrupts sent to other CPUs). The kernel is one host
//! thread's: the type is not `Send`.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use schedlab_log::Record;
use schedlab_machine::kernel::{Point, PointKind, PointSet};
use schedlab_units::{CpuId, Span, TaskId, Time};

use crate::abi::{self, Abi, Cpu, Task, Thread, Topo, call, why};
use crate::console::Console;
use crate::decision::{Decision, MAX_ENTITIES};
use crate::memory::{Contents, Memory};
use crate::race::RaceControl;
use crate::stack;

/// Why a kernel cannot be loaded or booted, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The dynamic loader refuses the object.
    #[error("cannot load the kernel object {path}: {why}")]
    Load {
        /// The object.
        path: String,
        /// The loader's words.
        why: String,
    },
    /// The object was built for another version of this program.
    #[error(
        "the kernel object {path} does not fit this program: {why}; remove it with `schedlab linux remove` and add it \
            again"
    )]
    Abi {
        /// The object.
        path: String,
        /// What differs.
        why: String,
    },
    /// A process holds one kernel, once.
    #[error("this process has already loaded a kernel; a process runs one kernel, once")]
    Second,
    /// Too many CPUs.
    #[error("{asked} CPUs asked for, but this kernel is built for 1 to {max}")]
    Cpus {
        /// Number asked for.
        asked: usize,
        /// Number built for.
        max: u32,
    },
    /// The machine's memory cannot be mapped, or the library's text not made writable.
    #[error("cannot prepare memory for the kernel: {0}")]
    Memory(String),
    /// It goes on and on at one instant.
    #[error(
        "{cpu} logs more than {records} records at one instant: a loop inside the kernel that would end as time \
         passes, which it does not within kernel code (linux/NOTES.md, limits 1 and 10)"
    )]
    Endless {
        /// Where.
        cpu: CpuId,
        /// The limit.
        records: u64,
    },
    /// The kernel ended itself.
    #[error("the simulated kernel {}: {reason}", if *.panic { "panicked" } else { "powered off" })]
    Dead {
        /// `panic()`, in contrast to a power-off.
        panic: bool,
        /// The kernel's words.
        reason: String,
    },
}

/// What a CPU does after [`LoadedKernel::resume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Halted until an interrupt.
    Idle,
    /// The task is in user mode: it computes. [`TaskId::kernel_thread`]`(1)` is the control task.
    User(TaskId),
    /// Spinning in the kernel until another CPU does something: resume it after the others.
    Relax,
    /// Working in the kernel until [`LoadedKernel::deadline`], at which it is to be resumed
    /// ([`LoadedKernel::set_resched`]).
    Paused,
    /// Stopped inside the kernel at a point that was asked for ([`LoadedKernel::set_points`]): it waits for nothing.
    Point,
}

/// What to boot.
pub struct BootOptions<'a> {
    /// One entry per CPU.
    pub topology: &'a [Topo],
    /// A row and a column per NUMA node: 10 = local. One node, if empty.
    pub distances: &'a [u32],
    /// Length of the table of workload tasks: ids 0..max_tasks can exist, dead ones included.
    pub max_tasks: u32,
    /// How many tasks may be alive at once; sizes memory.
    pub live_tasks: u32,
    /// How many control groups there will be; sizes memory, as each has something on every CPU.
    pub nr_groups: u32,
    /// How many sessions there will be, each with a group of the scheduler's own (autogroup); sizes memory.
    pub nr_sessions: u32,
    /// Kernel command line.
    pub command_line: &'a str,
    /// The clock at power-on, not 0.
    pub now: Time,
}

/// A thread of the simulated kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelThreadInfo {
    /// Its id in the log.
    pub id: TaskId,
    /// Its pid in the simulated kernel.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// CPU time it has used, ns.
    pub cpu_ns: u64,
}

/// What the kernel says about a task: `se.sum_exec_runtime` and its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelTaskStats {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Voluntary switches.
    pub nvcsw: u64,
    /// Involuntary switches.
    pub nivcsw: u64,
    /// `se.nr_migrations`.
    pub migrations: u64,
    /// `sched_info.run_delay`, ns.
    pub wait_ns: u64,
    /// Operations completed.
    pub done: u32,
}

/// Receives the log, window by window.
pub type LogSink<'a> = &'a mut dyn FnMut(&[Record]);

/// Records per log window: 256 KiB, which stay in the cache.
pub const WINDOW: usize = 8 * 1024;

/// More records than this at one instant, and [`RECORDS_PER_TASK`] for each task, are an endless loop: 32 MB of log.
const RECORDS_PER_INSTANT: u64 = 1_000_000;
/// A task that starts or wakes at that instant leaves some ten records.
const RECORDS_PER_TASK: u64 = 64;

static LOADED: AtomicBool = AtomicBool::new(false);

/// A kernel object in memory, of which nothing has been executed: what a process that forks for each run opens once.
///
/// ```text
/// worker   KernelObject::open   0.2 to 0.4 ms: 15,711 relocations in 146 pages
///   child    LoadedKernel::of(object)     its pages are the worker's until it writes to them
///   child    LoadedKernel::of(object)
/// ```
pub struct KernelObject {
    path: PathBuf,
    abi: *mut Abi,
    // last: the code that the table points into
    library: libloading::os::unix::Library,
}

impl KernelObject {
    /// Opens the kernel object and checks that it speaks this crate's version of the boundary.
    pub fn open(object: &Path) -> Result<KernelObject, KernelError> {
        let path = object.display().to_string();
        let failed = |why: libloading::Error| KernelError::Load { path: path.clone(), why: why.to_string() };
        // SAFETY: the object has no constructors beyond the C runtime's; it was built by `schedlab linux add`.
        let library =
            unsafe { libloading::os::unix::Library::open(Some(object), libc::RTLD_NOW | libc::RTLD_LOCAL) }
                .map_err(failed)?;
        // SAFETY: the signature is warp_abi.h's, which has not changed since version 1.
        let abi = unsafe {
            let get = library.get::<unsafe extern "C" fn() -> *mut Abi>(b"warp_abi_get\0").map_err(failed)?;
            get()
        };
        // SAFETY: version and sizes are the table's first words in every version of the boundary.
        if let Some(why) = unsafe { (*abi).check() } {
            return Err(KernelError::Abi { path, why });
        }
        Ok(KernelObject { path: object.to_owned(), abi, library })
    }
}

/// A loaded kernel.
pub struct LoadedKernel {
    abi: *mut Abi,
    cpus: *mut Cpu,
    resume: unsafe extern "C" fn(*mut Cpu),
    nr_cpus: u32,
    /// The table of workload tasks, and the memory that it lies in.
    boxes: *mut Task,
    tasks: Option<Memory>,
    max_tasks: u32,
    ram: Option<Memory>,
    topology: Vec<Topo>,
    distances: Vec<u32>,
    command_line: CString,
    console: Console,
    window: &'static mut [Record],
    /// Full windows of one instant: that instant, and how many records they held.
    crowd: (u64, u64),
    now_ns: *mut u64,
    exited: Vec<KernelThreadInfo>,
    /// Decisions that are asked about: log time and task, the next one last; and those that have come.
    questions: Vec<(u64, TaskId)>,
    decisions: Vec<Decision>,
    entities: Vec<abi::Entity>,
    race: Option<RaceControl>,
    /// Per CPU: tasks that its devices are waking.
    devices: Vec<Vec<TaskId>>,
    // last: the code everything above points into
    _library: libloading::os::unix::Library,
}

fn find_race(library: &libloading::os::unix::Library, max_cpus: u32) -> Option<RaceControl> {
    // SAFETY: the signature is race.c's; only kernels of the flavour export the name.
    unsafe {
        let get = library.get::<unsafe extern "C" fn() -> *mut c_void>(b"warp_race_get\0").ok()?;
        RaceControl::new(get(), max_cpus)
    }
}

impl LoadedKernel {
    /// Open the kernel object and check that it speaks this crate's version of the boundary.
    ///
    /// # Errors
    /// The loader refuses it; it is of another version; this process has a kernel already.
    pub fn load(object: &Path) -> Result<LoadedKernel, KernelError> {
        if LOADED.swap(true, Ordering::SeqCst) {
            return Err(KernelError::Second);
        }
        Ok(LoadedKernel::new(KernelObject::open(object)?))
    }

    /// The kernel of an object that has been opened.
    pub fn of(object: KernelObject) -> Result<LoadedKernel, KernelError> {
        if LOADED.swap(true, Ordering::SeqCst) {
            return Err(KernelError::Second);
        }
        Ok(LoadedKernel::new(object))
    }

    fn new(object: KernelObject) -> LoadedKernel {
        let KernelObject { path, abi, library } = object;
        // SAFETY: the object has been checked: the table is laid out as `Abi`, and valid as long as the library.
        let table = unsafe { &*abi };
        let console = Console::new(&path, table.text_start as usize..table.text_end as usize);
        LoadedKernel {
            abi,
            cpus: table.cpus,
            resume: table.resume,
            nr_cpus: 0,
            boxes: ptr::null_mut(),
            tasks: None,
            max_tasks: 0,
            ram: None,
            topology: Vec::new(),
            distances: Vec::new(),
            command_line: CString::default(),
            console,
            window: &mut [],
            crowd: (0, 0),
            now_ns: table.now_ns,
            exited: Vec::new(),
            questions: Vec::new(),
            decisions: Vec::new(),
            entities: Vec::new(),
            race: find_race(&library, table.max_cpus),
            devices: vec![Vec::new(); table.max_cpus as usize],
            _library: library,
        }
    }

    /// Power on. Nothing runs yet: resume CPU 0 until [`LoadedKernel::booted`], with time advancing to each deadline.
    pub fn boot(&mut self, options: &BootOptions) -> Result<(), KernelError> {
        let nr = options.topology.len();
        // SAFETY: `abi` is valid as long as the library is loaded, that is, as long as `self`.
        let table = unsafe { &*self.abi };
        if nr == 0 || nr > table.max_cpus as usize {
            return Err(KernelError::Cpus { asked: nr, max: table.max_cpus });
        }
        if self.nr_cpus != 0 {
            return Err(KernelError::Second);
        }
        let memory = |e: std::io::Error| KernelError::Memory(e.to_string());
        Memory::make_text_writable(table.text_start as usize, table.text_end as usize).map_err(memory)?;
        let contents = Contents {
            nr_cpus: nr,
            max_cpus: table.max_cpus as usize,
            live_tasks: options.live_tasks as usize,
            nr_groups: options.nr_groups as usize + options.nr_sessions as usize,
        };
        let ram = Memory::ram(&contents).map_err(memory)?;
        let tasks =
            Memory::anonymous(options.max_tasks.max(1) as usize * size_of::<Task>()).map_err(memory)?;
        self.topology = options.topology.to_vec();
        self.distances = if options.distances.is_empty() { vec![10] } else { options.distances.to_vec() };
        let nr_nodes = self.distances.len().isqrt();
        assert_eq!(nr_nodes * nr_nodes, self.distances.len(), "the table of distances is square");
        assert!(self.topology.iter().all(|t| (t.node as usize) < nr_nodes), "every node has distances");
        self.command_line = CString::new(options.command_line).unwrap_or_default();
        let boot = abi::Boot {
            now_ns: options.now.as_ns(),
            nr_cpus: nr as u32,
            max_tasks: options.max_tasks,
            topo: self.topology.as_ptr(),
            tasks: tasks.start().cast(),
            memory: ram.start(),
            memory_size: ram.len() as u64,
            command_line: self.command_line.as_ptr(),
            distance: self.distances.as_ptr(),
            nr_nodes: nr_nodes as u32,
            nr_groups: options.nr_groups,
        };
        // SAFETY: all pointers are to memory that lives as long as `self`; boot() copies the struct.
        if unsafe { (table.boot)(&boot) } != 0 {
            return Err(KernelError::Memory("the kernel refuses the boot parameters".into()));
        }
        self.nr_cpus = nr as u32;
        self.max_tasks = options.max_tasks;
        self.boxes = tasks.start().cast();
        self.tasks = Some(tasks);
        self.ram = Some(ram);
        Ok(())
    }

    /// The points at which this kernel can stop; `None`: it was not built with the flavour `race`.
    pub fn race(&self) -> Option<RaceControl> {
        self.race
    }

    #[inline]
    fn cpu(&self, cpu: CpuId) -> *mut Cpu {
        assert!(cpu.0 < self.nr_cpus);
        // SAFETY: the table has max_cpus >= nr_cpus entries.
        unsafe { self.cpus.add(cpu.index()) }
    }

    #[inline]
    fn task(&self, task: TaskId) -> *mut Task {
        if task.0 >= self.max_tasks {
            return self.control_task(task);
        }
        // SAFETY: the mapping holds max_tasks entries (0 before there is one).
        unsafe { self.boxes.add(task.index()) }
    }

    #[cold]
    fn control_task(&self, task: TaskId) -> *mut Task {
        assert_eq!(task.0, abi::CONTROL, "there is no such task");
        // SAFETY: `abi` is valid; control is set before the control task can exist.
        unsafe { (*self.abi).control }
    }

    /// Run a CPU until it has nothing more to do at this instant. Interrupts sent to it so far arrive now.
    /// Full windows of the log go to `sink`.
    pub fn resume(&mut self, cpu: CpuId, sink: LogSink<'_>) -> Result<State, Box<KernelError>> {
        match self.run(cpu) {
            Some(state) => Ok(state),
            None => self.serve_on(cpu, sink),
        }
    }

    /// The first part of [`Self::resume`]: run a CPU until it has nothing more to do, or (`None`) waits
    /// inside a call, which is to be served by [`Self::serve_on`].
    #[inline(always)]
    pub fn run(&mut self, cpu: CpuId) -> Option<State> {
        let c = self.cpu(cpu);
        // SAFETY: `c` points into the table; nothing runs. The CPU has been started (its sp is set); one host thread.
        unsafe {
            // (whatever has been posted has queued the CPU)
            if (*c).posted != 0 {
                (*c).pending |= (*c).posted & !abi::irq::START;
                (*c).posted = 0;
                (*c).queued = 0;
            }
            (self.resume)(c);
        }
        self.state(c)
    }

    /// What the CPU does now that it has come back; `None`: it waits inside a call.
    #[inline(always)]
    fn state(&self, c: *mut Cpu) -> Option<State> {
        // SAFETY: `c` points into the table; nothing runs.
        let (why, task) = unsafe { ((*c).why, (*c).task) };
        if why == why::USER {
            return Some(State::User(TaskId(task)));
        }
        if why == why::IDLE { Some(State::Idle) } else { LoadedKernel::stands(why) }
    }

    /// What a CPU does that neither computes nor is idle.
    #[cold]
    #[inline(never)]
    fn stands(why: u8) -> Option<State> {
        match why {
            why::RELAX => Some(State::Relax),
            why::PAUSED => Some(State::Paused),
            why::POINT => Some(State::Point),
            _ => None,
        }
    }

    /// Serve the calls of a CPU that waits inside one, until it has nothing more to do. Full windows of the
    /// log go to `sink`.
    #[cold]
    pub fn serve_on(&mut self, cpu: CpuId, sink: LogSink<'_>) -> Result<State, Box<KernelError>> {
        let c = self.cpu(cpu);
        loop {
            self.serve(c, sink)?;
            // SAFETY: as in `resume`.
            unsafe { (self.resume)(c) };
            if let Some(state) = self.state(c) {
                return Ok(state);
            }
        }
    }

    fn serve(&mut self, c: *mut Cpu, sink: LogSink<'_>) -> Result<(), Box<KernelError>> {
        // SAFETY: `c` points into the table; nothing runs.
        let (what, text, len) = unsafe { ((*c).call, (*c).call_text, (*c).call_len as usize) };
        match what {
            call::LOG_FULL => {
                self.flush_log(sink);
                self.check_instant(c)
            }
            call::PRINT => {
                // SAFETY: the clock is a word that this simulator owns.
                let now_ns = unsafe { *self.now_ns };
                // SAFETY: the kernel says so in call_text and call_len, valid until the CPU is resumed.
                self.console.print_at(now_ns, unsafe { std::slice::from_raw_parts(text, len) });
                Ok(())
            }
            call::DECISION => {
                // SAFETY: `abi` and its watch are valid; the kernel waits inside its call.
                let watch = unsafe { &*(*self.abi).watch };
                let seen = &self.entities[..watch.nr_entities as usize];
                self.decisions.push(Decision::new(watch, seen, self.version()));
                self.ask_next();
                Ok(())
            }
            call::THREAD => {
                // SAFETY: as for PRINT; `task` is the id of the thread.
                let (name, id) = unsafe { (std::slice::from_raw_parts(text, len), TaskId((*c).task)) };
                let name = String::from_utf8_lossy(name).into_owned();
                self.exited.push(KernelThreadInfo { id, pid: id.kernel_pid().unwrap_or(0), name, cpu_ns: 0 });
                Ok(())
            }
            _ => {
                // SAFETY: as for PRINT.
                let reason =
                    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(text, len) }).into_owned();
                self.console.stack(&self.callers(c));
                Err(Box::new(KernelError::Dead { panic: what == call::PANIC, reason }))
            }
        }
    }

    /// A full window of the log has been written: is it one of very many that the kernel fills without any time
    /// passing?
    fn check_instant(&mut self, c: *mut Cpu) -> Result<(), Box<KernelError>> {
        // (the window's records stay where they lie until the kernel writes over them)
        let (Some(first), Some(last)) = (self.window.first(), self.window.last()) else { return Ok(()) };
        let (instant_ns, records) = self.crowd;
        let is_one_instant = first.time_ns == last.time_ns && last.time_ns == instant_ns;
        self.crowd = (last.time_ns, if is_one_instant { records + WINDOW as u64 } else { 0 });
        let limit = RECORDS_PER_INSTANT + RECORDS_PER_TASK * u64::from(self.max_tasks);
        if self.crowd.1 <= limit {
            return Ok(());
        }
        self.console.stack(&self.callers(c));
        // SAFETY: `c` points into the table of CPUs.
        let cpu = CpuId(unsafe { c.offset_from(self.cpus) } as u32);
        Err(Box::new(KernelError::Endless { cpu, records: limit }))
    }

    /// Explain the next decision about each of these tasks at or after its log time, one after the other.
    /// Nothing that the kernel does is changed by it.
    pub fn ask(&mut self, mut questions: Vec<(u64, TaskId)>) {
        questions.sort();
        questions.reverse();
        self.questions = questions;
        self.entities = vec![abi::Entity::default(); MAX_ENTITIES];
        self.ask_next();
    }

    fn ask_next(&mut self) {
        let Some((from_ns, task)) = self.questions.pop() else { return };
        // SAFETY: `abi` and its watch are valid; the array is not moved, and is as long as it says.
        unsafe {
            let watch = &mut *(*self.abi).watch;
            watch.from_ns = from_ns;
            watch.task = task.0;
            watch.entities = self.entities.as_mut_ptr();
            watch.max_entities = self.entities.len() as u32;
            watch.explain = 1;
            (*self.abi).watch_on = 1;
        }
    }

    /// The decisions that were asked about and have come, in order.
    pub fn decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// Return addresses on the stack of a CPU that waits inside a call.
    fn callers(&self, c: *mut Cpu) -> Vec<u64> {
        let mut calls = vec![0; 24];
        // SAFETY: the CPU is not running: its stack pointer is that of its current task's stack.
        let found = unsafe {
            let text = ((*self.abi).text_start as usize, (*self.abi).text_end as usize);
            stack::walk((*c).sp as usize, &[text], &mut calls)
        };
        calls.truncate(found);
        calls
    }

    /// Set the clock. It never goes back.
    #[inline]
    pub fn set_now(&mut self, now: Time) {
        // SAFETY: the kernel's clock variable; nothing runs.
        unsafe {
            debug_assert!(*self.now_ns <= now.as_ns());
            *self.now_ns = now.as_ns();
        }
    }

    /// Whether this CPU takes part: it was started, and has not gone off since.
    #[inline]
    pub fn is_online(&self, cpu: CpuId) -> bool {
        // SAFETY: `cpu()` points into the table.
        unsafe { (*self.cpu(cpu)).online != 0 }
    }

    /// When this CPU's timer fires, `None` if it is off; while it is paused, the end of that.
    #[inline]
    pub fn deadline(&self, cpu: CpuId) -> Option<Time> {
        let c = self.cpu(cpu);
        // SAFETY: `cpu()` points into the table.
        let (ns, why) = unsafe { ((*c).deadline_ns, (*c).why) };
        if why == why::PAUSED {
            return Some(self.end_of_pause(cpu));
        }
        (ns != u64::MAX).then(|| Time::from_ns(ns))
    }

    #[cold]
    #[inline(never)]
    fn end_of_pause(&self, cpu: CpuId) -> Time {
        // SAFETY: `cpu()` points into the table.
        Time::from_ns(unsafe { (*self.cpu(cpu)).paused_until_ns })
    }

    /// Time passes from now on between an interrupt that asks for another task and the choice of it; 0: none,
    /// as at boot. [`schedlab_machine::kernel::WITHIN_CALL`], as all that is too long:
    /// it comes with the next operation.
    pub fn set_resched(&mut self, span: Span) {
        // SAFETY: `abi` is valid; nothing runs.
        unsafe { (*self.abi).resched_ns = u32::try_from(span.as_ns()).unwrap_or(abi::RESCHED_CALL) }
    }

    /// The same for the interrupts of an idle CPU, the next time that it is resumed.
    pub fn set_idle_resched(&mut self, cpu: CpuId, span: Span) {
        // SAFETY: `cpu()` points into the table; nothing runs.
        unsafe { (*self.cpu(cpu)).idle_resched_ns = u32::try_from(span.as_ns()).unwrap_or(u32::MAX) }
    }

    /// CPUs stop from now on at points of these kinds. Without effect on a kernel that was built without the flavour
    /// points.
    pub fn set_points(&mut self, kinds: PointSet) {
        // SAFETY: `abi` is valid, and so is the set if there is one; nothing runs.
        unsafe {
            if let Some(points) = (*self.abi).points.as_mut() {
                *points = kinds.bits();
            }
        }
    }

    /// Where a CPU stands that spins or has stopped at a point.
    pub fn point(&self, cpu: CpuId) -> Point {
        // SAFETY: `cpu()` points into the table; nothing runs.
        let (c, text) = unsafe { (&*self.cpu(cpu), (*self.abi).text_start as usize) };
        let stopped = PointKind::from_number(c.point).filter(|_| c.why == why::POINT);
        stopped.map_or(Point { interrupts_on: c.irq_on != 0, ..Point::RELAX }, |kind| Point {
            kind,
            address: c.point_address as u64,
            code: c.point_code.wrapping_sub(text) as u64,
            interrupts_on: c.irq_on != 0,
        })
    }

    /// Interrupts of [`abi::irq`] arrive at a CPU; resume it to have them taken. A timer that fires is off
    /// afterwards. The end of a pause is no interrupt: the timer's comes with it only if its own time has
    /// come, too.
    #[inline]
    pub fn raise(&mut self, cpu: CpuId, mut irqs: u8) {
        let c = self.cpu(cpu);
        // SAFETY: `c` points into the table; nothing runs.
        unsafe {
            if (*c).why == why::PAUSED && (*c).deadline_ns > *(*self.abi).now_ns {
                irqs &= !abi::irq::TIMER;
            }
            if irqs & abi::irq::TIMER != 0 {
                (*c).deadline_ns = u64::MAX;
            }
            (*c).pending |= irqs & !abi::irq::START;
        }
    }

    /// Move the CPUs to which interrupts have been sent since the last call to the end of `queue`, first posted first.
    /// The interrupts arrive when such a CPU is resumed; it is not listed again before that.
    #[inline]
    pub fn drain_kicks(&mut self, queue: &mut VecDeque<CpuId>) {
        // SAFETY: `abi` and its kick array are valid; nothing runs.
        unsafe {
            let kicked = std::slice::from_raw_parts((*self.abi).kick, (*self.abi).nr_kick as usize);
            queue.extend(kicked.iter().map(|cpu| CpuId(*cpu)));
            (*self.abi).nr_kick = 0;
        }
    }

    /// How many there are for [`LoadedKernel::drain_kicks`].
    #[inline]
    pub fn nr_kicks(&self) -> u32 {
        // SAFETY: `abi` is valid; nothing runs.
        unsafe { (*self.abi).nr_kick }
    }

    /// Where there is one for [`LoadedKernel::drain_kicks`]: that CPU.
    #[inline]
    pub fn only_kick(&mut self) -> CpuId {
        assert_eq!(self.nr_kicks(), 1);
        // SAFETY: `abi` is valid, and its kick array has one entry; nothing runs.
        unsafe {
            (*self.abi).nr_kick = 0;
            CpuId(*(*self.abi).kick)
        }
    }

    /// Whether interrupts from other CPUs wait for this CPU to be resumed.
    #[inline]
    pub fn kicked(&self, cpu: CpuId) -> bool {
        // SAFETY: `cpu()` points into the table.
        unsafe { (*self.cpu(cpu)).posted != 0 }
    }

    /// Something has been raised for this CPU outside of a resume: count it as kicked.
    pub fn kick(&mut self, cpu: CpuId) {
        let c = self.cpu(cpu);
        // SAFETY: `c` points into the table; nothing runs.
        unsafe {
            (*c).posted |= abi::irq::START;
            (*c).queued = 1;
        }
    }

    /// A device interrupt on `cpu` that wakes these tasks, in this order, behind those that an earlier one still has to
    /// wake. Resume the CPU to have it taken.
    pub fn raise_device(&mut self, cpu: CpuId, tasks: &[TaskId]) {
        let c = self.cpu(cpu);
        // on one that is off the list would stay pending, and be read when it is gone
        assert!(self.is_online(cpu), "{cpu} is off: no device can interrupt it");
        let list = &mut self.devices[cpu.0 as usize];
        // SAFETY: `c` points into the table; nothing runs.
        let left = unsafe { (*c).nr_device_tasks } as usize;
        list.drain(..list.len().saturating_sub(left));
        list.extend_from_slice(tasks);
        // SAFETY: as above; TaskId is a transparent u32, and the list stays until the next call for this CPU.
        unsafe {
            (*c).device_tasks = list.as_ptr().cast();
            (*c).nr_device_tasks = list.len() as u32;
            (*c).pending |= abi::irq::DEVICE;
        }
    }

    /// Put an operation into the mailbox of a task that is in user mode; resume its CPU to have it carried out.
    #[inline]
    pub fn operate(&mut self, task: TaskId, op: u32, flags: u32, arg: [u64; 5]) {
        let t = self.task(task);
        // SAFETY: `task()` points into the table of tasks; nothing runs.
        unsafe {
            (*t).flags = flags;
            (*t).arg = arg;
            (*t).op = op;
        }
    }

    /// As [`Self::operate`], of an operation that looks at one argument.
    #[inline]
    pub fn operate_one(&mut self, task: TaskId, op: u32, flags: u32, arg: u64) {
        let t = self.task(task);
        // SAFETY: as above.
        unsafe {
            (*t).flags = flags;
            (*t).arg[0] = arg;
            (*t).op = op;
        }
    }

    /// Result of the last operation, and how many the task has completed.
    #[inline]
    pub fn result(&self, task: TaskId) -> (i64, u32) {
        let t = self.task(task);
        // SAFETY: `task()` points into the table of tasks; nothing runs.
        unsafe { ((*t).result, (*t).done) }
    }

    /// Whether a task exists in the simulated kernel.
    pub fn alive(&self, task: TaskId) -> bool {
        // SAFETY: `task()` points into the table of tasks; nothing runs.
        unsafe { !(*self.task(task)).task.is_null() }
    }

    /// What the kernel says about a task, dead or alive. A running task's CPU time is as of its last accounting.
    pub fn stats(&self, task: TaskId) -> KernelTaskStats {
        let t = self.task(task);
        // SAFETY: `task()` points into the table of tasks; nothing runs, so the kernel's structures are at rest.
        unsafe {
            ((*self.abi).task_stats)(t);
            let t = &*t;
            KernelTaskStats {
                cpu_ns: t.cpu_ns,
                nvcsw: t.nvcsw,
                nivcsw: t.nivcsw,
                migrations: t.migrations,
                wait_ns: t.wait_ns,
                done: t.done,
            }
        }
    }

    /// Line coverage counts from here on (flavour gcov).
    pub fn reset_coverage(&mut self) {
        // SAFETY: `abi` is valid; nothing runs, so the counters are at rest.
        unsafe {
            if let Some(reset) = (*self.abi).coverage_reset {
                reset();
            }
        }
    }

    /// Line coverage so far, per compiled file: its name, and gcov's data in the format of a `.gcda` file.
    /// Empty without the flavour gcov.
    pub fn coverage(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        // SAFETY: `abi` is valid; nothing runs. The function writes at most `room` bytes, and a name that
        // lives as long as the kernel object.
        unsafe {
            let Some(coverage) = (*self.abi).coverage else { return files };
            for n in 0.. {
                let mut name = ptr::null();
                let size = coverage(n, &raw mut name, ptr::null_mut(), 0);
                if size == 0 {
                    break;
                }
                let mut data = vec![0; size as usize];
                coverage(n, &raw mut name, data.as_mut_ptr(), size);
                files.push((CStr::from_ptr(name).to_string_lossy().into_owned(), data));
            }
        }
        files.sort();
        files
    }

    /// The kernel's own threads and the control task, dead ones included, in order of pid.
    pub fn threads(&self) -> Vec<KernelThreadInfo> {
        // SAFETY: the function walks the task list, which is at rest; the buffer is as long as it says.
        let list = unsafe {
            let threads = (*self.abi).threads;
            let mut list = vec![Thread::default(); threads(ptr::null_mut(), 0) as usize];
            threads(list.as_mut_ptr(), list.len() as u32);
            list
        };
        let name = |comm: &[u8; 16]| {
            CStr::from_bytes_until_nul(comm).map_or(String::new(), |c| c.to_string_lossy().into_owned())
        };
        let alive = list.iter().map(|t| KernelThreadInfo {
            id: TaskId(t.id),
            pid: t.pid,
            name: name(&t.comm),
            cpu_ns: t.cpu_ns,
        });
        let mut all: Vec<KernelThreadInfo> = alive.chain(self.exited.iter().cloned()).collect();
        all.sort_by_key(|t| t.pid);
        all.dedup_by_key(|t| t.pid);
        all
    }

    /// Have the log written here first, [`WINDOW`] records at a time: into memory that another process sees too, say.
    pub fn log_through(&mut self, window: &'static mut [Record; WINDOW]) {
        self.window = window;
    }

    /// Start writing the schedule log, with times counted from `epoch`.
    pub fn start_log(&mut self, epoch: Time) {
        if self.window.is_empty() {
            // (there is one per process and run)
            self.window = vec![Record::default(); WINDOW].leak();
        }
        // SAFETY: `abi` is valid; the window is not moved while the kernel may write to it.
        unsafe {
            let range = self.window.as_mut_ptr_range();
            (*self.abi).log_next = range.start;
            (*self.abi).log_end = range.end;
            (*self.abi).log_epoch_ns = epoch.as_ns();
            (*self.abi).log_on = 1;
        }
    }

    /// The instant from which records count their time; `None` while the log is off.
    #[inline]
    pub fn log_epoch(&self) -> Option<Time> {
        // SAFETY: `abi` is valid.
        unsafe { ((*self.abi).log_on != 0).then(|| Time::from_ns((*self.abi).log_epoch_ns)) }
    }

    /// Append a record about this instant to the log, behind all that the kernel has logged so far. False, and nothing
    /// has been appended: the log is off, or its window is full.
    #[inline(always)]
    pub fn append(&mut self, now: Time, record: impl FnOnce() -> Record) -> bool {
        // SAFETY: `abi` is valid; nothing runs. log_next points into the window, or is log_end: its end, or null before
        // the log is on.
        unsafe {
            let next = (*self.abi).log_next;
            if next == (*self.abi).log_end {
                return false;
            }
            // (the log is on, so this is no earlier than its epoch)
            let time_ns = now.as_ns().wrapping_sub((*self.abi).log_epoch_ns);
            next.write(Record { time_ns, ..record() });
            (*self.abi).log_next = next.add(1);
        }
        true
    }

    /// Hand what is in the current window to the sink.
    #[cold]
    pub fn flush_log(&mut self, sink: LogSink<'_>) {
        // SAFETY: `abi` is valid; once the log has been started, log_next points into the window, or to its end.
        unsafe {
            if (*self.abi).log_next.is_null() {
                return;
            }
            let start = self.window.as_mut_ptr();
            let n = (*self.abi).log_next.offset_from(start) as usize;
            sink(&self.window[..n]);
            (*self.abi).log_next = start;
        }
    }

    /// Whether the boot is over: the control task is in user mode.
    pub fn booted(&self) -> bool {
        // SAFETY: `abi` is valid.
        unsafe { (*self.abi).control_ready != 0 }
    }

    /// Number of CPUs of the booted machine.
    pub fn nr_cpus(&self) -> u32 {
        self.nr_cpus
    }

    /// Ticks per second that this kernel was built with.
    pub fn hz(&self) -> u32 {
        // SAFETY: `abi` is valid.
        unsafe { (*self.abi).hz }
    }

    /// The kernel's version, as `(6, 12)`.
    pub fn version(&self) -> (u32, u32) {
        // SAFETY: `abi` is valid.
        let code = unsafe { (*self.abi).linux_version };
        (code >> 16, code >> 8 & 0xff)
    }

    /// `Linux version 6.12.117 ...`
    pub fn banner(&self) -> String {
        // SAFETY: a NUL-terminated string constant of the object.
        unsafe { CStr::from_ptr((*self.abi).linux_banner) }.to_string_lossy().trim().to_owned()
    }

    /// Console text and warnings so far.
    pub fn console(&self) -> &Console {
        &self.console
    }

    /// The table that the kernel exports, for whoever looks at a crash; valid as long as `self`.
    pub fn table(&self) -> *const Abi {
        self.abi
    }

    /// Address range of kernel code in this process, for profilers and debuggers.
    pub fn text(&self) -> std::ops::Range<*const c_void> {
        // SAFETY: `abi` is valid.
        unsafe { (*self.abi).text_start.cast()..(*self.abi).text_end.cast() }
    }
}
