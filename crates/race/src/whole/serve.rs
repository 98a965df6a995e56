//! How are many schedules run on one boot? In a process that boots once, and forks for each.
//!
//! ```text
//! asker            server (started by exec)                    child
//! job ───────────> loads the object, boots, runs to `from`
//!                  fork ─────────────────────────────────────> a schedule, to its end
//!                  waits   <──────────────────────────────────  its page: nothing, or what went wrong
//!                  the next ─────────────────────────────────> puts its memory back (again.rs), runs it
//!                  ...
//! answer <──────── counts, findings
//! ```
//!
//! The first child records all its points and stops nowhere: where the others may stop is drawn from that.

use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, Ordering};

use schedlab_linux::layout::Layout;
use schedlab_linux::race::{PrivateWords, RaceControl, RaceEvent, RaceModel};
use schedlab_linux::symbols::Symbols;
use schedlab_linux::{Extension, LinuxKernel, LoadedKernel};
use schedlab_log::Record;
use schedlab_machine::kernel::{Action, Fault, FaultKind, FileRequest, Kernel, Refusal};
use schedlab_machine::sink::Sink;
use schedlab_machine::{End, Machine, Outcome, Program, Setup, WaitsFor};
use schedlab_scx::{CompiledScx, ScxExtension};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Span};
use serde::{Deserialize, Serialize};

use super::again;
use super::draw::{self, BLOCK, Places, TRUNKS};
use super::hb;
use super::late::Stores;
use super::order::{Explorer, Fork, Given, Stop};
use super::page::{PAIRS, Page, REFUSED, Verdict, shared_memory};
use super::replay::Around;
use super::scenario::WholeScenario;
use crate::explore::Aside;
use crate::memory::MemoryModel;
use crate::schedule::Choice;
use crate::strategy::Strategy;
use crate::worker::{Done, Found, receive, send};

schedlab_process::entrance! {
    /// Where whole schedulers are run.
    pub(crate) static WHOLE = ("whole", serve);
}

/// What is to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum WholeTask {
    /// Blocks `first`, `first + stride`, ... of the schedules in this range, up to so many findings without those
    /// aside.
    Explore { first: u64, stride: u64, schedules: Range<u64>, findings: usize, aside: Vec<Aside> },
    /// One, with all that happens in it; of a race: around its two accesses, which are known by their code.
    Replay { choices: Vec<Choice>, race: Option<(u64, u64)> },
    /// One, in this process, under gdb.
    Watch { choices: Vec<Choice> },
    /// Fewer stops, the same finding.
    Shrink { choices: Vec<Choice>, kind: String, text: String },
}

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WholeJob {
    pub(super) object: PathBuf,
    pub(super) name: String,
    pub(super) scenario: String,
    pub(super) model: MemoryModel,
    pub(super) strategy: Strategy,
    pub(super) seed: u64,
    /// Accesses that nothing orders are findings, too.
    pub(super) races: bool,
    /// The scenario's sched_ext scheduler.
    pub(super) scx: Option<CompiledScx>,
    pub(super) task: WholeTask,
}

/// The kernel's command line, as in other runs.
const COMMAND_LINE: &str = "noautogroup";
/// Events of one schedule that are kept: 40 bytes each.
const TRACE_MAX: usize = 4 << 20;
/// Schedules that are tried at most to shrink one.
const SHRINKS_MAX: usize = 1000;
/// Stops that are left out one by one when a schedule is shrunk.
const FEW: usize = 8;
/// Stops that are kept of a schedule that is drawn as it goes on.
const NOTED_MAX: usize = 1 << 16;
/// A schedule that takes longer than this, of CPU time, has no end.
const LIMIT_S: i64 = 3;
/// And so has what comes before the schedules: the object is loaded, the kernel boots and runs to `from`.
const BEGIN_LIMIT_S: i64 = 30;

struct Nowhere;

impl Sink for Nowhere {
    fn push(&mut self, _: Record) {}
    fn push_all(&mut self, _: &[Record]) {}
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn serve(socket: UnixStream) {
    end_with_parent();
    again::prepare();
    let Ok(job) = receive::<WholeJob>(&socket) else { return };
    let carried_out = Page::shared().map_err(no_memory).and_then(|page| {
        PAGE.store(page, Ordering::Relaxed);
        match &job.task {
            WholeTask::Watch { .. } => carry_out(job, &socket, page),
            _ => guard(job, &socket, page),
        }
    });
    if let Err(why) = carried_out {
        drop(send(&socket, &Done { refused: Some(why), ..Done::default() }));
    }
}

fn end_with_parent() {
    // SAFETY: a process without threads ends with its parent.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

fn no_memory(e: std::io::Error) -> String {
    format!("no memory to share with children: {e}")
}

/// Carries a job out in a child. If the kernel ends that one before the schedules begin, then that is a finding.
fn guard(job: WholeJob, socket: &UnixStream, page: &'static mut Page) -> Result<(), String> {
    // SAFETY: a process with one thread.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(format!("cannot fork for a kernel: {}", std::io::Error::last_os_error())),
        0 => {
            end_with_parent();
            set_limit(BEGIN_LIMIT_S);
            return carry_out(job, socket, page);
        }
        pid => pid,
    };
    let verdict = wait(pid, page)?;
    if page.is_answered() {
        return Ok(());
    }
    let is_first = match &job.task {
        WholeTask::Explore { first, schedules, .. } => *first == 0 && schedules.start == 0,
        _ => true,
    };
    let text_start = Symbols::read(&job.object).map_err(|e| e.to_string())?.text_start();
    let mut done = Done::default();
    if is_first {
        done.schedules = 1;
        done.findings = found(verdict, 0, (0, Vec::new()), text_start);
    }
    send(socket, &done).map_err(|e| e.to_string())
}

/// From now on a process that takes so much CPU time more is in a loop. 0: no longer.
fn set_limit(seconds: i64) {
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer =
        libc::itimerval { it_interval: never, it_value: libc::timeval { tv_sec: seconds, tv_usec: 0 } };
    // SAFETY: a timer of this process.
    unsafe { libc::setitimer(libc::ITIMER_VIRTUAL, &raw const timer, std::ptr::null_mut()) };
}

/// What a child has left that has ended, or is about to.
fn wait(pid: libc::pid_t, page: &Page) -> Result<Verdict, String> {
    let mut status = 0;
    // SAFETY: our child.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Err("a child was lost".into());
        }
    }
    Ok(page.verdict())
}

/// What a verdict says: nothing, one finding, or each race by itself.
fn found(
    verdict: Verdict,
    index: u64,
    (preemptions, choices): (u32, Vec<Choice>),
    text_start: u64,
) -> Vec<Found> {
    let (kind, text, sites) = match verdict {
        Verdict::Good => return Vec::new(),
        Verdict::Died => ("crash", "the process died".to_owned(), Vec::new()),
        Verdict::Wrong { kind, text, sites } => (kind, text, sites),
    };
    let found = |text: String, sites: &[u64]| Found {
        kind: kind.to_owned(),
        text,
        sites: sites.iter().map(|site| (site + text_start) as usize).collect(),
        index,
        times: 1,
        preemptions,
        choices: choices.clone(),
    };
    if kind == "race" {
        // told apart by their places; these are put into words by whoever asked
        let race = |pair: &[u64]| found(format!("{:x} {:x}", pair[0], pair[1]), pair);
        return sites.chunks_exact(2).map(race).collect();
    }
    vec![found(text, &sites)]
}

/// What is recorded of a schedule.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Watch {
    Nothing,
    /// All its accesses.
    Accesses,
    /// And those that nothing orders are findings.
    Races,
}

impl Watch {
    fn races(wanted: bool) -> Watch {
        if wanted { Watch::Races } else { Watch::Nothing }
    }

    fn from_number(number: u32) -> Watch {
        [Watch::Nothing, Watch::Accesses, Watch::Races][number as usize]
    }
}

/// A child that runs schedule after schedule.
struct Many {
    pid: libc::pid_t,
    /// A byte: run the next one; one back: it is over. No byte back: the child has ended.
    wake: OwnedFd,
    done: OwnedFd,
}

/// Reads one byte; `false`: nobody will write any.
fn comes(from: &OwnedFd) -> bool {
    let mut byte = [0u8];
    loop {
        // SAFETY: the byte has room.
        let got = unsafe { libc::read(from.as_raw_fd(), byte.as_mut_ptr().cast(), 1) };
        if got >= 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return got == 1;
        }
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), String> {
    let mut ends = [0; 2];
    // SAFETY: two new descriptors, which are ours.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(format!("no pipe to a child: {}", std::io::Error::last_os_error()));
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// The server's side of [`Fork`]: in the server it does the whole job and ends the process; in a child it returns.
struct Server<'a> {
    job: WholeJob,
    nr_cpus: u32,
    text_start: u64,
    places: super::replay::Places,
    socket: &'a UnixStream,
    page: &'static mut Page,
    trace: *mut RaceEvent,
    /// Stops of schedules that are drawn as they go on, so many on the page.
    noted: *mut Stop,
    /// What is not shared, in the schedule without stops.
    private: PrivateWords,
    /// Of a child: what the kernel had warned of before.
    is_child: bool,
    /// Of a child that runs many schedules, and of the server: where its memory is kept.
    kept: *mut again::Kept,
    runs_many: bool,
    /// Of the server: the child that runs many.
    many: Option<Many>,
    watch: Watch,
    /// Of the child that stops nowhere.
    is_plain: bool,
    /// The kernel may refuse what the scenario writes.
    may_refuse: bool,
}

fn carry_out(job: WholeJob, socket: &UnixStream, page: &'static mut Page) -> Result<(), String> {
    let carried_out = run(job, socket, page);
    // SAFETY: the page is this process's, and nobody else holds it any more.
    carried_out.inspect_err(|_| unsafe { (*PAGE.load(Ordering::Relaxed)).answer() })
}

fn run(job: WholeJob, socket: &UnixStream, page: &'static mut Page) -> Result<(), String> {
    let scenario = WholeScenario::parse(&job.name, &job.scenario).map_err(|e| e.to_string())?;
    let workload =
        schedlab_workload::parse_text(&job.name, scenario.workload.as_bytes()).map_err(|e| e.to_string())?;
    let program = Program::new(&workload).map_err(|e| format!("{}: {e}", job.name))?;
    let kernel = LoadedKernel::load(&job.object).map_err(|e| e.to_string())?;
    let control = kernel.race().ok_or(
        "this kernel was built without points: 'schedlab linux add VERSION --with race' builds one with them",
    )?;
    control.set_model(match job.model {
        MemoryModel::Sc => RaceModel::Sc,
        MemoryModel::Tso => RaceModel::Tso,
        MemoryModel::Lkmm => RaceModel::Lkmm,
    });
    control.pin(ids("pinned", &scenario.pinned, &workload.tasks)?);
    control.wait(ids("waits", &scenario.waits, &workload.tasks)?);
    control.share_mutex(ids("mutex", &scenario.mutex, &workload.tasks)?);
    let text_start = Symbols::read(&job.object).map_err(|e| e.to_string())?.text_start();
    let places = super::replay::Places {
        object: (kernel.text().start as usize).wrapping_sub(text_start as usize),
        object_len: std::fs::metadata(&job.object).map_or(0, |m| m.len() as usize),
    };
    TEXT.store(kernel.text().start as *mut u8, Ordering::Relaxed);
    let flat = || Topology::flat(scenario.cpus).map_err(|e| e.to_string());
    let topology = scenario.topology.clone().map_or_else(flat, Ok)?;
    let trace = shared_memory(TRACE_MAX * size_of::<RaceEvent>()).map_err(no_memory)?.cast();
    let noted = shared_memory(NOTED_MAX * size_of::<Stop>()).map_err(no_memory)?.cast();
    catch_crashes();
    let name = job.name.clone();
    let scx = job.scx.clone().map(|compiled| Box::new(ScxExtension::new(compiled)) as Box<dyn Extension>);
    let server = Server {
        nr_cpus: scenario.cpus,
        text_start,
        places,
        socket,
        page,
        trace,
        noted,
        private: PrivateWords::new(&[]),
        is_child: false,
        kept: again::room().map_err(no_memory)?,
        runs_many: false,
        many: None,
        watch: Watch::Nothing,
        is_plain: false,
        may_refuse: scenario.may_refuse,
        job,
    };
    let mut explorer = Explorer::new(server, scenario.cpus, scenario.from);
    explorer.set_control(control);
    let setup =
        Setup { topology, duration: Some(scenario.from + scenario.length), params: scenario.params.clone() };
    let kernel = LinuxKernel::new(kernel, COMMAND_LINE, Nowhere).with_extension(scx);
    let mut machine = Machine::with_order(kernel, program, setup, explorer);
    let action = |(at, name, value): &(Span, String, String)| {
        // as echo writes it: /proc/pressure takes the last byte for the end of the line
        let line = if name.starts_with('/') { format!("{value}\n") } else { value.clone() };
        let request = FileRequest::set(name, &line, Refusal::Noted);
        request.map(|request| Action { at: *at, files: vec![request] })
    };
    let actions: Result<Vec<Action>, String> = scenario.writes.iter().map(action).collect();
    machine.set_actions(actions.map_err(|e| format!("{name}: {e}"))?);
    let outcome = machine.run();
    let warnings = machine.kernel().read_out().warnings;
    let refused = machine.readings().iter().find_map(|reading| {
        let errno = *reading.result.as_ref().err()?;
        Some(format!("at {} {}: {}", reading.at, reading.name, std::io::Error::from_raw_os_error(errno)))
    });
    // here comes a child, and a server whose scenario has ended before it began
    machine.order_mut().end(outcome, &warnings, refused)
}

/// The tasks that a line of the scenario's names, by their ids, as bits.
fn ids(line: &str, pids: &[u32], tasks: &[schedlab_workload::Task]) -> Result<u64, String> {
    pids.iter().try_fold(0, |bits, pid| {
        let found = tasks.iter().position(|task| task.pid == *pid).filter(|id| *id < 64);
        let id = found.ok_or_else(|| format!("{line} {pid}: none of the workload's first 64 tasks"))?;
        Ok(bits | 1 << id)
    })
}

/// The kernel's own words, without those that differ from one time to the next:
/// `WARNING: CPU: 0 PID: 30 at /.../kernel/sched/core.c:3278 set_task_cpu+0x318`, or as 7.2 says it,
/// `WARNING: kernel/sched/core.c:3278 at set_task_cpu+0x318, CPU#0: a/30`, is
/// `WARNING at kernel/sched/core.c:3278 set_task_cpu`.
fn without_numbers(line: &str) -> String {
    let Some(warning) = line.strip_prefix("WARNING: ") else { return line.to_owned() };
    let (place, function) = match warning.strip_prefix("CPU: ").and_then(|rest| rest.split_once(" at ")) {
        Some((_, at)) => at.split_once(' ').unwrap_or((at, "")),
        None => match warning.split_once(" at ") {
            Some(at) => at,
            None => return line.to_owned(),
        },
    };
    let place = place.find("kernel/").map_or(place, |at| &place[at..]);
    let function = function.split("+0x").next().unwrap_or(function);
    format!("WARNING at {place} {function}").trim_end().to_owned()
}

/// A loop that time would end, without the CPU and the number of records: it is the same on every CPU. `None`: it is
/// something else.
fn endless(reason: &str) -> Option<String> {
    let (_, what) = reason.split_once(" records at one instant: ")?;
    Some(what.split(" (").next().unwrap_or(what).to_owned())
}

/// What it means that events at one instant do not come to an end.
fn stuck(reason: String, control: &RaceControl) -> (&'static str, String) {
    match control.deadlock() {
        Some(who) => ("deadlock", who),
        // (who waits for a lock of a CPU in such a loop is not what is wrong)
        None => ("livelock", endless(&reason).or_else(|| control.spinner()).unwrap_or(reason)),
    }
}

/// What the machine's end means as a finding.
fn judge(
    outcome: &Outcome,
    new_warnings: &[String],
    control: &RaceControl,
) -> Option<(&'static str, String)> {
    let end = || match &outcome.end {
        End::AllDone | End::Duration => None,
        End::Deadlock(waits) => {
            let who = |wait: &schedlab_machine::EndlessWait| match wait.waits_for {
                WaitsFor::Event { waker, .. } => format!("task {} waits for task {}", wait.task.0, waker.0),
                WaitsFor::Object { object, .. } => format!("task {} waits at object {object}", wait.task.0),
            };
            Some(("deadlock", waits.iter().map(who).collect::<Vec<_>>().join("; ")))
        }
        End::Fault(Fault { kind, reason }) => {
            let first = reason.lines().next().unwrap_or_default().to_owned();
            Some(match kind {
                FaultKind::Panic => ("crash", first),
                FaultKind::Livelock => stuck(first, control),
                FaultKind::LostTask => ("lost_wakeup", first),
                _ => ("invariant", first),
            })
        }
    };
    warning(new_warnings).or_else(end)
}

/// The first warning of these, as a finding.
fn warning(warnings: &[String]) -> Option<(&'static str, String)> {
    let first = warnings.first()?;
    Some(("warn", without_numbers(first.lines().next().unwrap_or_default())))
}

impl Server<'_> {
    /// Runs one schedule; in the child it returns `None`.
    fn one(&mut self, control: &RaceControl, watch: Watch) -> Result<Option<Verdict>, String> {
        self.page.clear();
        // SAFETY: a process with one thread; the child goes on as its parent would have.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(format!("cannot fork for a schedule: {}", std::io::Error::last_os_error())),
            0 => {
                self.child_begins(control, watch);
                Ok(None)
            }
            pid => self.ended(pid).map(Some),
        }
    }

    fn child_begins(&mut self, control: &RaceControl, watch: Watch) {
        self.is_child = true;
        self.watch = watch;
        end_with_parent();
        set_limit(LIMIT_S);
        // SAFETY: the memory is shared with the server, which waits.
        unsafe {
            control.trace((watch != Watch::Nothing).then_some((self.trace, TRACE_MAX)));
        }
    }

    fn ended(&self, pid: libc::pid_t) -> Result<Verdict, String> {
        wait(pid, self.page)
    }

    /// As [`Self::one`] with this schedule, in a child that runs others afterwards. There, too, it returns `None`, once
    /// for each schedule: which it is stands on the page.
    fn next(
        &mut self,
        control: &RaceControl,
        watch: Watch,
        given: &Given,
    ) -> Result<Option<Verdict>, String> {
        self.page.clear();
        if !self.page.give(given) {
            return self.one(control, watch);
        }
        self.page.watch = watch as u32;
        match &self.many {
            Some(many) => {
                // SAFETY: one byte of a constant; that nobody reads it is seen below.
                unsafe { libc::write(many.wake.as_raw_fd(), c"n".as_ptr().cast(), 1) };
            }
            None => {
                let ((wake, wakes), (done, tells)) = (pipe()?, pipe()?);
                // SAFETY: as in `one`.
                match unsafe { libc::fork() } {
                    -1 => {
                        let why = std::io::Error::last_os_error();
                        return Err(format!("cannot fork for a schedule: {why}"));
                    }
                    0 => {
                        drop((wakes, done));
                        // where memory cannot be looked at, the child ends behind its schedule
                        self.runs_many = again::again(self.kept, wake.as_raw_fd(), tells.as_raw_fd()).is_ok();
                        let watch = Watch::from_number(self.page.watch);
                        self.child_begins(control, watch);
                        // they stay open
                        std::mem::forget((wake, tells));
                        return Ok(None);
                    }
                    pid => self.many = Some(Many { pid, wake: wakes, done }),
                }
            }
        }
        if self.many.as_ref().is_some_and(|many| comes(&many.done)) {
            return Ok(Some(self.page.verdict()));
        }
        let pid = self.many.take().map_or(0, |many| many.pid);
        self.ended(pid).map(Some)
    }

    /// What the last schedule recorded.
    fn events(&self) -> &[RaceEvent] {
        // SAFETY: the child that wrote there is gone; `points[63]` holds how many events it wrote.
        unsafe { std::slice::from_raw_parts(self.trace, (self.page.points[63] as usize).min(TRACE_MAX)) }
    }

    /// The two accesses of a race of the last schedule's, by their code.
    fn race_at(&self, codes: (u64, u64)) -> Option<(RaceEvent, RaceEvent)> {
        hb::races(self.events(), PAIRS).into_iter().find(|(a, b)| (a.code, b.code) == codes)
    }

    fn found(&self, verdict: Verdict, index: u64, given: &Given) -> Vec<Found> {
        if verdict == Verdict::Good {
            return Vec::new();
        }
        let noted = given.drawn.map(|_| {
            let nr = (self.page.nr_noted as usize).min(NOTED_MAX);
            // SAFETY: the child wrote so many, and is gone or waits.
            let stops = unsafe { std::slice::from_raw_parts(self.noted, nr) }.to_vec();
            Given { late: given.late.clone(), ..Given::with(stops) }
        });
        let given = noted.as_ref().unwrap_or(given);
        let how = (given.stops.len() as u32, given.choices(self.places));
        found(verdict, index, how, self.text_start)
    }
}

/// A child is to go on with this schedule; or the job is done.
enum Turned {
    Child(Given),
    Done(Box<Done>),
}

/// As [`Turned`], of a block's trunk: its stops, and what comes behind the first.
enum Trunk {
    Child(Given),
    Grown(Option<Box<Recorded>>),
}

/// A trunk that was recorded.
type Recorded = (Vec<Stop>, Places);

impl Server<'_> {
    /// From a schedule's lines.
    fn given(&self, choices: &[Choice]) -> Result<Given, String> {
        let what = "the schedule stops a CPU until memory changes that this machine does not have: it was made for \
             another kernel or scenario; take the line with 'change' out, or run 'race' again";
        let given = Given::of(choices, self.places).ok_or_else(|| what.to_owned())?;
        match self.job.model {
            MemoryModel::Sc if !given.late.is_empty() => Err("the schedule has late stores, and its model is sc, \
                 which has none: write 'model tso' or 'model lkmm'"
                .to_owned()),
            MemoryModel::Tso if given.late.iter().any(|store| !store.all) => Err("the schedule has a store that is \
                 late alone, and its model is tso, where those behind it are, too: write 'late all' or 'model lkmm'"
                .to_owned()),
            _ => Ok(given),
        }
    }

    fn job(&mut self, control: &RaceControl) -> Result<Turned, String> {
        if let WholeTask::Watch { choices } = &self.job.task {
            let given = self.given(choices)?;
            (self.is_child, self.watch) = (true, Watch::Accesses);
            // SAFETY: the memory is this process's; each point is noted, where gdb can stop
            unsafe { control.trace(Some((self.trace, TRACE_MAX))) };
            crate::engine::admit_debugger();
            crate::engine::watch()?;
            return Ok(Turned::Child(given));
        }
        // the schedule without stops: it counts as number 0 of the first server's
        let watch = if self.job.races { Watch::Races } else { Watch::Accesses };
        let Some(verdict) = self.one(control, watch)? else {
            self.is_plain = true;
            return Ok(Turned::Child(Given::default()));
        };
        if let Verdict::Wrong { kind: REFUSED, text, .. } = verdict {
            return Err(format!("{}: the kernel refuses what the scenario writes: {text}", self.job.name));
        }
        let plain = self.found(verdict, 0, &Given::default());
        match self.job.task.clone() {
            WholeTask::Explore { first, stride, schedules, findings, aside } => {
                let all = self.page.points[..self.nr_cpus as usize].to_vec();
                let places = Places::of(self.events(), all);
                let is_sc = self.job.model == MemoryModel::Sc;
                if self.job.strategy == Strategy::Pos && !is_sc {
                    self.job.strategy = Strategy::Mix;
                }
                if is_sc && matches!(self.job.strategy, Strategy::Pos | Strategy::Mix) {
                    self.private = PrivateWords::new(&draw::private_words(self.events()));
                }
                let stores = Stores::of(self.events(), self.job.model);
                let numbers = (first, stride, schedules);
                self.explore(control, (&places, &stores), plain, numbers, (findings, &aside))
            }
            WholeTask::Replay { choices, race } => {
                let given = self.given(&choices)?;
                let Some(verdict) = self.one(control, watch)? else { return Ok(Turned::Child(given)) };
                let mut done = Done::default();
                done.findings.extend(self.found(verdict, 0, &given));
                done.points = self.page.points[..self.nr_cpus as usize].iter().sum();
                let around = Around { stops: &given.stops, race: race.and_then(|codes| self.race_at(codes)) };
                let layout = Layout::read(&self.job.object).map_err(|e| e.to_string())?;
                // SAFETY: it is loaded there, and has booted before anything was recorded.
                let placed = unsafe { layout.placed(self.places.object as u64, self.nr_cpus) };
                let places = (self.places, Some(&placed));
                super::replay::tell(self.events(), &around, self.text_start, places, &mut done);
                Ok(Turned::Done(Box::new(done)))
            }
            WholeTask::Watch { .. } => Err("it is watched already".into()),
            WholeTask::Shrink { choices, kind, text } => {
                let given = self.given(&choices)?;
                self.shrink(control, given, &kind, &text)
            }
        }
    }

    fn explore(
        &mut self,
        control: &RaceControl,
        (places, stores): (&Places, &Stores),
        plain: Vec<Found>,
        (first, stride, schedules): (u64, u64, Range<u64>),
        (findings, aside): (usize, &[Aside]),
    ) -> Result<Turned, String> {
        let has_plain = first == 0 && schedules.start == 0;
        let mut done = Done { schedules: u64::from(has_plain), ..Done::default() };
        if has_plain {
            done.points = places.count().0;
            done.findings.extend(plain);
        }
        let mut trunk = (u64::MAX, None);
        let own = |index: &u64| (*index - 1) / BLOCK % stride == first;
        for index in (schedules.start.max(1)..schedules.end).filter(own) {
            let block = (index - 1) / BLOCK;
            if trunk.0 != block {
                trunk = match self.trunk(control, places, block)? {
                    Trunk::Child(given) => return Ok(Turned::Child(given)),
                    Trunk::Grown(grown) => (block, grown),
                };
            }
            let given = match trunk.1.as_deref() {
                Some((stops, behind)) => Some(behind.grown(stops, self.job.seed, index - 1)),
                None => places.draw(self.job.strategy, self.job.seed, index - 1),
            };
            let Some(stops) = given else {
                done.is_complete = true;
                break;
            };
            let mut given = places.with_late(stops, stores, self.job.seed, index - 1);
            // a late store is not seen where its CPU stands, so that one cannot be looked at point by point
            if self.job.model == MemoryModel::Sc {
                given.drawn = Places::priorities(self.job.strategy, self.job.seed, index - 1);
            }
            // what a replay could not name is not looked at
            for stop in &mut given.stops {
                stop.until = stop.until.filter(|until| {
                    until.memory().is_none_or(|(address, _)| self.places.memory(address).is_some())
                });
            }
            let watch = Watch::races(self.job.races);
            let Some(verdict) = self.next(control, watch, &given)? else { return Ok(Turned::Child(given)) };
            done.schedules += 1;
            done.points += self.page.points[..self.nr_cpus as usize].iter().sum::<u64>();
            for found in self.found(verdict, index, &given) {
                match done.findings.iter_mut().find(|f| f.kind == found.kind && f.text == found.text) {
                    Some(known) => known.times += 1,
                    None => done.findings.push(found),
                }
            }
            let is_aside = |f: &Found| f.kind == "race" || aside.iter().any(|a| a.is(&f.text, f.index));
            let counts = |f: &&Found| !is_aside(f);
            if done.findings.iter().filter(counts).count() >= findings {
                break;
            }
        }
        Ok(Turned::Done(Box::new(done)))
    }

    /// A block's trunk, and the places behind it: of some that are recorded, the one that comes to most new lines.
    fn trunk(&mut self, control: &RaceControl, places: &Places, block: u64) -> Result<Trunk, String> {
        let mut best: Option<(usize, Box<Recorded>)> = None;
        for number in 0..TRUNKS {
            let Some(stops) = places.trunk(self.job.strategy, self.job.seed, block, number) else { break };
            // what it finds is found again by the block's first schedule
            let given = Given::with(stops);
            if self.next(control, Watch::Accesses, &given)?.is_none() {
                return Ok(Trunk::Child(given));
            }
            let stops = given.stops;
            let all = self.page.points[..self.nr_cpus as usize].to_vec();
            let behind = Places::behind(self.events(), all, &stops);
            let lines = behind.new_lines(places);
            if best.as_ref().is_none_or(|(most, _)| lines > *most) {
                best = Some((lines, Box::new((stops, behind))));
            }
        }
        Ok(Trunk::Grown(best.map(|(_, grown)| grown)))
    }

    /// Each stop and late store in turn is left out, and made as simple as it can be.
    ///
    /// A livelock of turns that were drawn may show as another one: only so many turns are kept, so that CPUs which
    /// looked at each other for ever may each look for ever at what does not change. A schedule that shows nothing
    /// of the kind leaves nothing found.
    fn shrink(
        &mut self,
        control: &RaceControl,
        mut best: Given,
        kind: &str,
        text: &str,
    ) -> Result<Turned, String> {
        let (mut kind, mut text) = (kind.to_owned(), text.to_owned());
        let mut last = None;
        let mut at = 0;
        // many are left out together first
        let is_long = best.len() > FEW;
        let mut nr = if is_long { best.len().div_ceil(2) } else { 1 };
        let mut before = best.len();
        let mut shortens = false;
        for _ in 0..SHRINKS_MAX {
            let mut fewer = best.clone();
            if last.is_some() {
                if at >= best.len() {
                    if shortens {
                        break;
                    }
                    // what is left out late may make more needless
                    let again = nr == 1 && is_long && best.len() < before;
                    (at, shortens, nr) = (0, nr == 1 && !again, if again { 4 } else { (nr / 2).max(1) });
                    before = best.len();
                    continue;
                }
                fewer = match shortens {
                    false => best.without(at, nr),
                    true => match best.simpler(at, self.job.model == MemoryModel::Lkmm) {
                        Some(simpler) => simpler,
                        None => {
                            at += 1;
                            continue;
                        }
                    },
                };
            }
            let watch = Watch::races(kind == "race");
            let Some(verdict) = self.next(control, watch, &fewer)? else { return Ok(Turned::Child(fewer)) };
            let is_stuck = |kind: &str| matches!(kind, "livelock" | "deadlock");
            let again = self.found(verdict, 0, &fewer).into_iter().find(|f| match last {
                None if kind == "livelock" => is_stuck(&f.kind),
                _ => f.kind == kind && f.text == text,
            });
            match again {
                Some(found) => {
                    (kind, text) = (found.kind.clone(), found.text.clone());
                    (best, last) = (fewer, Some(found));
                }
                None if last.is_none() => break,
                None => at += if shortens { 1 } else { nr },
            }
        }
        let findings = last.into_iter().collect();
        Ok(Turned::Done(Box::new(Done { findings, ..Done::default() })))
    }

    fn leave(&mut self, control: &RaceControl) -> ! {
        for cpu in 0..self.nr_cpus {
            self.page.points[cpu as usize] = control.points(CpuId(cpu));
        }
        self.page.points[63] = control.traced();
        if self.runs_many {
            again::leave(self.kept);
        }
        // SAFETY: a child ends here; nothing of it is to be cleaned up.
        unsafe { libc::_exit(0) }
    }
}

impl Fork for Server<'_> {
    fn fork(&mut self, control: &RaceControl) -> Given {
        set_limit(0);
        let done = match self.job(control) {
            // one that runs many was forked for another schedule
            Ok(Turned::Child(_)) if self.runs_many => return self.page.given(),
            Ok(Turned::Child(given)) => return given,
            Ok(Turned::Done(done)) => *done,
            Err(why) => Done { refused: Some(why), ..Done::default() },
        };
        if let Some(Many { pid, wake, .. }) = self.many.take() {
            // nobody wakes it any more, so it ends: whoever counts CPU time has it, too
            drop(wake);
            drop(self.ended(pid));
        }
        self.page.answer();
        let sent = send(self.socket, &done);
        // SAFETY: the job is done.
        unsafe { libc::_exit(i32::from(sent.is_err())) }
    }

    fn private(&self) -> &PrivateWords {
        &self.private
    }

    fn note(&mut self, stop: &Stop) {
        let nr = self.page.nr_noted as usize;
        if nr < NOTED_MAX {
            // SAFETY: there is room for so many, and only this child writes there.
            unsafe { self.noted.add(nr).write(*stop) };
            self.page.nr_noted += 1;
        }
    }

    fn wrong(&mut self, control: &RaceControl, why: String, sites: &[u64]) -> ! {
        self.page.wrong("invariant", &why, sites);
        self.leave(control)
    }
}

impl Explorer<Server<'_>> {
    /// The machine has come to its end, in a child or, too early, in the server.
    fn end(&mut self, outcome: Outcome, warnings: &[String], refused: Option<String>) -> Result<(), String> {
        let warned = self.warned().min(warnings.len());
        let Some(control) = self.control() else { return Err("no control".into()) };
        let mut sites = self.reached().to_vec();
        let is_at_rest = self.is_at_rest();
        let server = self.fork_mut();
        if !server.is_child {
            if let Some((kind, text)) = judge(&outcome, &[], &control) {
                server.page.wrong(kind, &text, &sites);
                // SAFETY: whoever waits for this process answers.
                unsafe { libc::_exit(0) };
            }
            return Err(format!(
                "{}: the scenario is over before 'from': begin earlier, or give the tasks more to do",
                server.job.name
            ));
        }
        let mut wrong = judge(&outcome, &warnings[warned..], &control);
        if wrong.is_none() && server.watch == Watch::Races {
            server.page.points[63] = control.traced();
            let races = hb::races(server.events(), PAIRS);
            if !races.is_empty() {
                sites = races.iter().flat_map(|(a, b)| [a.code, b.code]).collect();
                wrong = Some(("race", "nothing orders".to_owned()));
            }
        }
        if wrong.is_none() && is_at_rest {
            wrong = control.check_end().map(|why| ("invariant", why));
        }
        // a warning is said once: one of the time before 'from' is every schedule's, and hides no other finding
        wrong = wrong.or_else(|| warning(&warnings[..warned]));
        if wrong.is_none() && server.is_plain {
            wrong = refused.filter(|_| !server.may_refuse).map(|what| (REFUSED, what));
        }
        match wrong {
            Some((kind, text)) => server.page.wrong(kind, &text, &sites),
            None => server.page.good(),
        }
        server.leave(&control)
    }
}

static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::null_mut());
static TEXT: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

const CRASHES: [(i32, &str); 5] = [
    (libc::SIGSEGV, "a bad pointer (SIGSEGV)"),
    (libc::SIGBUS, "a bad pointer (SIGBUS)"),
    (libc::SIGFPE, "a division by zero or its like (SIGFPE)"),
    (libc::SIGILL, "no instruction (SIGILL): BUG(), or a wild jump"),
    (libc::SIGVTALRM, "kernel code that does not come back"),
];

extern "C" fn on_signal(signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let page = PAGE.load(Ordering::Relaxed);
    // SAFETY: the kernel's description of where we were; the page is shared memory of this process.
    unsafe {
        let code = (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
        let text = CRASHES.iter().find(|(number, _)| *number == signal).map_or("a signal", |(_, text)| text);
        let kind = if signal == libc::SIGVTALRM { "livelock" } else { "crash" };
        // a return address stands behind its call, and so does this
        let site = code.wrapping_sub(TEXT.load(Ordering::Relaxed) as u64) + 1;
        (*page).wrong(kind, text, &[site]);
        libc::_exit(0);
    }
}

fn catch_crashes() {
    let stack = Box::leak(vec![0u8; 64 << 10].into_boxed_slice());
    // SAFETY: handlers for a process without threads, on a stack that stays.
    unsafe {
        let alternative =
            libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
        libc::sigaltstack(&raw const alternative, std::ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for (signal, _) in CRASHES {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_at_one_instant_is_the_same_on_every_cpu() {
        let reason =
            "cpu1 logs more than 1000576 records at one instant: a loop inside the kernel (linux/NOTES.md)";
        assert_eq!(endless(reason).as_deref(), Some("a loop inside the kernel"));
        assert_eq!(endless("cpu0 spins"), None);
    }

    #[test]
    fn a_warning_is_the_same_on_every_cpu() {
        let line = "WARNING: CPU: 1 PID: 30 at /src/kernel/sched/core.c:3278 set_task_cpu+0x318";
        assert_eq!(without_numbers(line), "WARNING at kernel/sched/core.c:3278 set_task_cpu");
        let line = "WARNING: kernel/sched/core.c:3058 at affine_move_task+0xad1, CPU#0: pinned-rt/33";
        assert_eq!(without_numbers(line), "WARNING at kernel/sched/core.c:3058 affine_move_task");
        assert_eq!(without_numbers("BUG: sleeping function"), "BUG: sleeping function");
    }
}
