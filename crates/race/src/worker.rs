//! How is a target run without harm? In a process of its own, which does one job and ends.
//!
//! The job comes over a socket, as JSON behind its length, and the answer goes back the same way. What the target's
//! code does wrong becomes a finding here: a bad pointer by SIGSEGV and its like, a loop without points by a timer of
//! the process's own CPU time.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::engine::{self, Altered, End, Engine, Failure, Met, Prepared, abandon};
use crate::memory::MemoryModel;
use crate::object::{HOOKS, Target};
use crate::scenario::{Call, Scenario};
use crate::schedule::Choice;
use crate::story::Event;
use crate::strategy::{Search, Strategy};
use schedlab_stdx::Random;

schedlab_process::entrance! {
    /// Where targets are run.
    pub(crate) static RACES = ("race", serve);
}

/// What is to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// What the target can be asked for, and its own scenario.
    Describe,
    /// Schedules `first`, `first + stride`, ... below `schedules`.
    Explore { first: u64, stride: u64, schedules: u64, findings: usize },
    /// One, with all that happens in it.
    Replay { choices: Vec<Choice> },
    /// One, under gdb: it begins when gdb is there.
    Watch { choices: Vec<Choice> },
    /// Whether so many schedules all show a finding, the one without any preemption among them.
    Always { schedules: u64, kind: String, text: String },
    /// Fewer calls, fewer choices, the same finding.
    Shrink { choices: Vec<Choice>, kind: String, text: String },
}

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) object: PathBuf,
    pub(crate) scenario: Option<Scenario>,
    pub(crate) model: MemoryModel,
    pub(crate) strategy: Strategy,
    pub(crate) seed: u64,
    /// What is done to barriers: addresses in the object.
    pub(crate) without: Vec<Altered>,
    pub(crate) task: Task,
}

/// A finding, as a worker knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) kind: String,
    pub(crate) text: String,
    /// Addresses in the object.
    pub(crate) sites: Vec<usize>,
    /// The schedule's number.
    pub(crate) index: u64,
    pub(crate) times: u64,
    pub(crate) preemptions: u32,
    pub(crate) choices: Vec<Choice>,
}

/// What the target can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The operation's name.
    pub name: String,
    /// Arguments and meaning.
    pub help: String,
}

/// The answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    /// Why there is none.
    pub(crate) refused: Option<String>,
    pub(crate) schedules: u64,
    pub(crate) points: u64,
    /// An exhaustive search has seen all.
    pub(crate) is_complete: bool,
    pub(crate) redundant: u64,
    pub(crate) findings: Vec<Found>,
    pub(crate) events: Vec<Event>,
    /// Names of the addresses in `events`.
    pub(crate) names: Vec<(usize, String)>,
    /// Barriers that were met: addresses in the object.
    pub(crate) barriers: Vec<Met>,
    pub(crate) offers: Vec<Offer>,
    pub(crate) scenario: Option<Scenario>,
    /// Of [`Task::Always`]: every schedule shows the finding.
    pub(crate) is_always: bool,
    pub(crate) own_scenario: Option<String>,
}

pub(crate) fn send<T: Serialize>(socket: &UnixStream, value: &T) -> io::Result<()> {
    write(socket, value)
}

fn write<T: Serialize>(mut to: impl Write, value: &T) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(&bytes)
}

pub(crate) fn receive<T: DeserializeOwned>(mut socket: &UnixStream) -> io::Result<T> {
    let mut length = [0; 8];
    socket.read_exact(&mut length)?;
    let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
    socket.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn serve(socket: UnixStream) {
    // SAFETY: a process without threads ends with its parent.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let Ok(job) = receive::<Job>(&socket) else { return };
    // the handlers and the timer of crashes first: inside, nobody sets a timer
    catch_crashes();
    if matches!(job.task, Task::Watch { .. }) {
        engine::admit_debugger();
    }
    // where the host's kernel cannot, the limits hold all the same (docs/race.md)
    drop(schedlab_process::contain::enter_cell(socket.as_fd()));
    let done = carry_out(&job).unwrap_or_else(|why| Done { refused: Some(why), ..Done::default() });
    // as a file: inside, nobody sends
    if let Ok(line) = socket.try_clone() {
        drop(write(File::from(OwnedFd::from(line)), &done));
    }
}

/// Finds the operations that calls name.
fn prepare(target: &Target, scenario: &Scenario, calls: &[Call]) -> Result<Vec<Prepared>, String> {
    let known =
        || target.ops.iter().map(|op| format!("'{} {}'", op.name, op.help)).collect::<Vec<_>>().join(", ");
    calls
        .iter()
        .map(|call| {
            let place = format!("{}:{}: '{}'", scenario.name, call.line, call.op);
            let found = target.ops.iter().position(|op| op.name == call.op);
            let op = found.ok_or_else(|| match known() {
                known if known.is_empty() => {
                    format!("{place}: this target has no operation at all; {}", to_add(&call.op))
                }
                known => format!("{place}, expected one of {known}; {}", to_add(&call.op)),
            })?;
            let wanted = target.ops[op].nr_args;
            if call.args.len() != wanted {
                let help = &target.ops[op].help;
                return Err(format!("{place} has {} arguments, expected {wanted}: {help}", call.args.len()));
            }
            let words: Vec<String> = [call.op.clone()].into_iter().chain(args(call)).collect();
            let place = format!("{}:{}: '{}'", scenario.name, call.line, words.join(" "));
            Ok(Prepared { op, args: call.args.clone(), place })
        })
        .collect()
}

fn args(call: &Call) -> impl Iterator<Item = String> {
    call.args.iter().map(i64::to_string)
}

/// What a target's author does about an operation that is not there.
fn to_add(op: &str) -> String {
    match HOOKS.contains(&op) {
        true => format!("to have it, write the hook {op}() and add '.{op} = {op}' to RACE_TARGET(...)"),
        false => format!("to have it, add {{ \"{op}\", ... }} to the table of '.ops' in RACE_TARGET(...)"),
    }
}

fn programs(target: &Target, scenario: &Scenario) -> Result<Vec<Vec<Prepared>>, String> {
    scenario.cpus.iter().map(|calls| prepare(target, scenario, calls)).collect()
}

fn carry_out(job: &Job) -> Result<Done, String> {
    let target = Target::load(&job.object)?;
    let mut done = Done {
        offers: target.ops.iter().map(|op| Offer { name: op.name.clone(), help: op.help.clone() }).collect(),
        own_scenario: target.scenario.clone(),
        ..Done::default()
    };
    let (Some(scenario), false) = (&job.scenario, matches!(job.task, Task::Describe)) else {
        return Ok(done);
    };
    let all = programs(&target, scenario)?;
    let first = prepare(&target, scenario, &scenario.first)?;
    let engine = Engine::start(target, all, first, job.model)?;
    // SAFETY: no schedule runs, and no other reference is alive; so below.
    let base = unsafe {
        let engine = &mut *engine;
        let base = engine.base();
        engine.alter(job.without.iter().map(|a| a.moved_by(base)).collect());
        base
    };
    match &job.task {
        Task::Describe => {}
        Task::Explore { first, stride, schedules, findings } => {
            let is_enough = |found: &[Found]| found.len() >= *findings;
            explore(engine, job, (*first, *stride, *schedules), &is_enough, &mut done)?;
        }
        Task::Replay { choices } => {
            // SAFETY: as above.
            unsafe { (*engine).trace = Some(Vec::new()) };
            if let Some(found) = replay(engine, choices)? {
                done.findings.push(found);
            }
            // SAFETY: as above.
            let engine = unsafe { &mut *engine };
            done.points = engine.steps();
            done.events = engine.trace.take().unwrap_or_default();
            done.names = names(engine, &done.events);
            done.events.iter_mut().filter(|e| e.code != 0).for_each(|e| e.code -= base);
        }
        Task::Watch { choices } => {
            // SAFETY: as above.
            unsafe { (*engine).is_watched = true };
            engine::watch()?;
            done.findings.extend(replay(engine, choices)?);
        }
        Task::Always { schedules, kind, text } => {
            done.is_always = is_always(engine, job, *schedules, (kind, text))?;
        }
        Task::Shrink { choices, kind, text } => {
            let (found, scenario) = shrink(engine, job, scenario, choices, (kind, text))?;
            done.findings.push(found);
            done.scenario = Some(scenario);
        }
    }
    for found in &mut done.findings {
        found.sites.iter_mut().for_each(|site| *site = site.wrapping_sub(base));
    }
    // SAFETY: as above.
    done.barriers = unsafe { &*engine }.barriers.clone();
    for met in &mut done.barriers {
        met.code -= base;
        met.before.iter_mut().chain(&mut met.behind).for_each(|at| *at -= base);
    }
    done.barriers.sort_unstable_by_key(|met| (met.code, met.kind));
    Ok(done)
}

fn names(engine: &Engine, events: &[Event]) -> Vec<(usize, String)> {
    use crate::story::Happened::{Access, Atomic, Flush, Lock, Unlock};
    // values that are addresses differ from process to process: they have names, too
    let values = events.iter().flat_map(|event| match event.happened {
        Access { value, new, .. } => [value as usize, new.unwrap_or(0) as usize],
        Flush { value, .. } => [value as usize, 0],
        Atomic { old, new, .. } => [old as usize, new as usize],
        _ => [0; 2],
    });
    let values: Vec<usize> = values.filter(|value| engine.is_address(*value)).collect();
    let mut addresses: Vec<usize> = events
        .iter()
        .filter_map(|event| match event.happened {
            Access { address, .. }
            | Atomic { address, .. }
            | Flush { address, .. }
            | Lock { address }
            | Unlock { address } => Some(address),
            _ => None,
        })
        .chain(values)
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.into_iter().map(|at| (at, engine.name_of(at))).collect()
}

fn found(engine: &Engine, failure: Failure, index: u64) -> Found {
    Found {
        kind: failure.kind.into(),
        text: failure.text,
        sites: failure.sites,
        index,
        times: 1,
        preemptions: engine.preemptions(),
        choices: engine.choices().to_vec(),
    }
}

/// Runs a given schedule.
fn replay(engine: *mut Engine, choices: &[Choice]) -> Result<Option<Found>, String> {
    // SAFETY: as in `carry_out`.
    unsafe {
        (*engine).set_search(Search::Given { choices: choices.to_vec() });
        (*engine).set_flush_chance(0);
        match engine::run(engine) {
            End::Good | End::Redundant => Ok(None),
            End::Bad(failure) => Ok(Some(found(&*engine, failure, 0))),
            End::Refused(text) => Err(text),
        }
    }
}

/// How often late stores become visible at a point, by schedule: soon, late, or when they must.
fn flush_chance(model: MemoryModel, seed: u64, index: u64) -> u64 {
    if model == MemoryModel::Sc {
        return 0;
    }
    *Random::for_part(!seed, index).pick(&[128, 64, 8, 0])
}

fn explore(
    engine: *mut Engine,
    job: &Job,
    (first, stride, schedules): (u64, u64, u64),
    is_enough: &dyn Fn(&[Found]) -> bool,
    done: &mut Done,
) -> Result<(), String> {
    // an ordinary schedule: how long one is, and which barriers it meets
    // SAFETY: as in `carry_out`.
    unsafe { (*engine).count_barriers(true) };
    if let Some(found) = replay(engine, &[])?.filter(|f| is_endless(&f.kind, &f.text)) {
        // each schedule would take as long, and would say the same: the first process says it
        if first == 0 {
            done.schedules = 1;
            done.findings.push(found);
        }
        return Ok(());
    }
    // SAFETY: as above.
    let length = unsafe { (*engine).steps() };
    let is_exhaustive = job.strategy.is_exhaustive();
    // SAFETY: as above.
    unsafe {
        (*engine).count_barriers(false);
        (*engine).set_search(Search::new(job.strategy, job.seed, 0, length));
    }
    let mut index = first;
    while index < schedules {
        // SAFETY: as above.
        let end = unsafe {
            let me = &mut *engine;
            if !is_exhaustive {
                me.set_search(Search::new(job.strategy, job.seed, index, length));
            }
            me.set_flush_chance(flush_chance(job.model, job.seed, index));
            engine::run(engine)
        };
        // SAFETY: as above.
        let me = unsafe { &mut *engine };
        done.points += me.steps();
        match end {
            End::Good => done.schedules += 1,
            End::Redundant => done.redundant += 1,
            End::Refused(text) => return Err(text),
            End::Bad(failure) => {
                done.schedules += 1;
                let known =
                    done.findings.iter_mut().find(|f| f.kind == failure.kind && f.text == failure.text);
                match known {
                    Some(known) => known.times += 1,
                    None => done.findings.push(found(me, failure, index)),
                }
                let last = done.findings.iter().any(|f| is_endless(&f.kind, &f.text));
                if last || is_enough(&done.findings) {
                    return Ok(());
                }
            }
        }
        index += stride;
        if is_exhaustive && !me.search().advance() {
            done.is_complete = !me.search().is_cut();
            break;
        }
    }
    Ok(())
}

/// Whether a finding is a call that comes to no end, which takes seconds to see.
pub(crate) fn is_endless(kind: &str, text: &str) -> bool {
    kind == "livelock" && text == ENDLESS
}

/// A search that draws.
fn drawn(strategy: Strategy) -> Strategy {
    if strategy.is_exhaustive() { Strategy::Random } else { strategy }
}

/// Schedules by which a finding is taken for one of every order.
pub(crate) const ALWAYS_TRIES: u64 = 300;

/// Whether a finding may come of a call that is not there, rather than of the order of those that are: nobody goes on,
/// or it was seen when all was over.
pub(crate) fn may_be_of_absence(found: &Found) -> bool {
    matches!(found.kind.as_str(), "lost_wakeup" | "deadlock" | "livelock") || found.sites.is_empty()
}

/// Whether every schedule shows the finding: the one without any preemption, and so many that are drawn.
fn is_always(
    engine: *mut Engine,
    job: &Job,
    schedules: u64,
    (kind, text): (&str, &str),
) -> Result<bool, String> {
    let is_it = |f: &Found| f.kind == kind && f.text == text;
    if !replay(engine, &[])?.is_some_and(|f| is_it(&f)) {
        return Ok(false);
    }
    let job = Job { strategy: drawn(job.strategy), ..job.clone() };
    let mut some = Done::default();
    explore(engine, &job, (0, 1, schedules), &|found| !found.iter().all(is_it), &mut some)?;
    let times: u64 = some.findings.iter().filter(|f| is_it(f)).map(|f| f.times).sum();
    Ok(times == some.schedules + some.redundant)
}

/// Random schedules that are tried on a scenario with a call less.
const TRIES: u64 = 3000;
/// Schedules of a search for one with few preemptions.
const BOUNDED_TRIES: u64 = 60_000;
/// The most preemptions of that search.
const BOUND: u32 = 4;

/// Whether a search meets the finding within so many schedules; then how.
fn meets(
    engine: *mut Engine,
    job: &Job,
    strategy: Strategy,
    tries: u64,
    (kind, text): (&str, &str),
) -> Result<Option<Found>, String> {
    let job = Job { strategy, ..job.clone() };
    let mut some = Done::default();
    let is_it = |f: &Found| f.kind == kind && f.text == text;
    explore(engine, &job, (0, 1, tries), &|found| found.iter().any(is_it), &mut some)?;
    Ok(some.findings.into_iter().find(is_it))
}

fn shrink(
    engine: *mut Engine,
    job: &Job,
    scenario: &Scenario,
    choices: &[Choice],
    (kind, text): (&str, &str),
) -> Result<(Found, Scenario), String> {
    let same = |found: &Option<Found>| found.as_ref().is_some_and(|f| f.kind == kind && f.text == text);
    let use_scenario = |scenario: &Scenario| -> Result<(), String> {
        // SAFETY: as in `carry_out`.
        let me = unsafe { &mut *engine };
        me.set_programs(programs(me.target(), scenario)?);
        Ok(())
    };
    let Some(mut best) = replay(engine, choices)?.filter(|f| f.kind == kind && f.text == text) else {
        return Err(
            "the schedule alone does not show its finding; what the target keeps from one schedule to the \
                    next (RACE_PRIVATE) is to be set anew in start()"
                .into(),
        );
    };
    let mut scenario = scenario.clone();
    // fewer calls; without the one that wakes, every order would lose the wakeup, which is another finding
    let random = drawn(job.strategy);
    let may_vanish = may_be_of_absence(&best) && !is_always(engine, job, ALWAYS_TRIES, (kind, text))?;
    for cpu in 0..scenario.cpus.len() {
        let mut call = 0;
        while call < scenario.cpus[cpu].len() {
            let mut fewer = scenario.clone();
            fewer.cpus[cpu].remove(call);
            use_scenario(&fewer)?;
            let hit = meets(engine, job, random, TRIES, (kind, text))?;
            let is_other = hit.is_some() && may_vanish && is_always(engine, job, ALWAYS_TRIES, (kind, text))?;
            match hit.filter(|_| !is_other) {
                Some(hit) => (best, scenario) = (hit, fewer),
                None => call += 1,
            }
        }
    }
    scenario.text = written(&scenario);
    use_scenario(&scenario)?;
    // fewer preemptions
    if job.model == MemoryModel::Sc {
        for bound in 0..BOUND.min(best.preemptions) {
            if let Some(hit) = meets(engine, job, Strategy::Bounded(bound), BOUNDED_TRIES, (kind, text))? {
                best = hit;
                break;
            }
        }
    }
    // fewer choices
    let mut size = best.choices.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < best.choices.len() {
            let mut fewer = best.choices.clone();
            fewer.drain(at..(at + size).min(best.choices.len()));
            let again = replay(engine, &fewer)?;
            match again.filter(|f| f.choices.len() < best.choices.len()) {
                Some(f) if same(&Some(f.clone())) => best = f,
                _ => at += size,
            }
        }
        size /= 2;
    }
    Ok((best, scenario))
}

/// The scenario as text, after calls were taken out.
pub(crate) fn written(scenario: &Scenario) -> String {
    let calls = |calls: &[Call]| {
        let call = |c: &Call| {
            let args: String = c.args.iter().map(|a| format!(" {a}")).collect();
            format!("{}{args}", c.op)
        };
        calls.iter().map(call).collect::<Vec<_>>().join("; ")
    };
    let mut text = format!("cpus {}\n", scenario.cpus.len());
    if !scenario.first.is_empty() {
        text.push_str(&format!("first {}\n", calls(&scenario.first)));
    }
    for (cpu, program) in scenario.cpus.iter().enumerate().filter(|(_, p)| !p.is_empty()) {
        text.push_str(&format!("cpu{cpu} {}\n", calls(program)));
    }
    text
}

/// The finding of a call that does not return.
const ENDLESS: &str = "code that does not come back, without a point";

/// Signals that bad code brings.
const CRASHES: [(libc::c_int, &str); 4] = [
    (libc::SIGSEGV, "a bad pointer (SIGSEGV)"),
    (libc::SIGBUS, "a bad pointer (SIGBUS)"),
    (libc::SIGFPE, "a division by zero or its like (SIGFPE)"),
    (libc::SIGILL, "no instruction (SIGILL): a trap of the compiler's, or a wild jump"),
];

/// CPU time between two looks, us.
const LOOK_US: i64 = 250_000;
/// So many looks without progress are no end.
const LOOKS: u32 = 8;

static SEEN: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static STILL: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let e = engine::engine();
    // SAFETY: the kernel's description of where we were; the engine is this thread's, which stands still.
    unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        // sites are return addresses, which stand behind what they name; this one stands on it
        let code = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize + 1;
        let (kind, text) = if signal == libc::SIGVTALRM {
            let (number, steps) = if e.is_null() { (0, 0) } else { (*e).progress() };
            let before = [SEEN[0].swap(number, Ordering::Relaxed), SEEN[1].swap(steps, Ordering::Relaxed)];
            if before != [number, steps] {
                STILL.store(0, Ordering::Relaxed);
                return;
            }
            if STILL.fetch_add(1, Ordering::Relaxed) < LOOKS {
                return;
            }
            STILL.store(0, Ordering::Relaxed);
            ("livelock", ENDLESS)
        } else {
            let named = CRASHES.iter().find(|(number, _)| *number == signal);
            ("crash", named.map_or("a signal", |(_, text)| text))
        };
        if e.is_null() || !(*e).crashed(kind, text.to_owned(), code) {
            if signal != libc::SIGVTALRM {
                // ours: die of it
                libc::signal(signal, libc::SIG_DFL);
            }
            return;
        }
        let stack = (*e).stack();
        context.uc_mcontext.gregs[libc::REG_RSP as usize] = (stack.end - 72) as i64;
        context.uc_mcontext.gregs[libc::REG_RIP as usize] = abandon as *const () as i64;
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
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        for signal in CRASHES.iter().map(|(signal, _)| *signal).chain([libc::SIGVTALRM]) {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        let every = libc::timeval { tv_sec: 0, tv_usec: LOOK_US };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        libc::setitimer(libc::ITIMER_VIRTUAL, &raw const timer, std::ptr::null_mut());
    }
}
