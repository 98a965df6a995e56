//! How is a plan carried out? Threads that wait for one instant, do what their models say, and hand their buffers over.

use crate::beside::Beside;
use crate::calibrate::{Anchor, anchor, calibrate, clock_events, scale};
use crate::counter::{Choice, Clock, Counter, clock_ns};
use crate::linux::{Linux, block_timer_signals, class_remedy, take_dead_mans_signal};
use crate::map::{Frame, Map, ThreadMap, thread_map};
use crate::models::{Times, drive};
use crate::os::{Alarm, System};
use crate::plan::{Class, Model, Plan, PlanError, ThreadPlan, Timer};
use crate::poll::{Bounds, Buffer, Finished, Poller, Scale};
use schedlab_report::units::time;
use schedlab_stdx::Random;
use schedlab_units::Span;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, mpsc};
use std::time::Duration;

/// A run that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum HourglassError {
    /// What was asked for cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The system refused what there is no other way for.
    #[error("{0}")]
    System(String),
}

/// The memory that all buffers together may take.
const BUFFERS_BYTES: usize = 256 << 20;
/// Gaps a second that a thread has room for, unless memory is short.
const GAPS_PER_S: u64 = 8000;
/// A touch of memory in a scanning thread takes less, nearly always.
const SCAN_THRESHOLD_NS: f64 = 2000.0;
/// The clocks are compared so often during a run.
const SAMPLE: Duration = Duration::from_millis(100);
/// Real-time threads may go on so long beyond the end before the dead man's hand falls.
const GRACE_NS: u64 = 2_000_000_000;

/// Carries a plan out on this machine.
///
/// # Errors
/// [`HourglassError`]: the plan cannot be, or the system lets us make no thread.
pub fn run(plan: &Plan, progress: &dyn Fn(&str)) -> Result<Map, HourglassError> {
    let system = Linux::detect();
    plan.check(system.nr_cpus())?;
    block_timer_signals();
    progress("calibrating the counter");
    let choice = Choice::detect();
    match choice {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        Choice::Native => run_on(crate::counter::Native, &choice, &system, plan, progress),
        _ => run_on(Clock, &choice, &system, plan, progress),
    }
}

/// What a thread says when it is ready, and when it is done.
struct Worker {
    plan: ThreadPlan,
    tid: u32,
    notes: Vec<String>,
}

fn entries_of(plan: &Plan) -> usize {
    let wanted =
        plan.entries.unwrap_or(4096 + (plan.duration.as_ns() / 1_000_000 * GAPS_PER_S / 1000) as usize);
    let room = BUFFERS_BYTES / size_of::<crate::poll::Entry>() / plan.threads.len().max(1);
    wanted.clamp(64, room.max(64))
}

/// Where workers wait for the run's times; `None`: there is no run.
#[derive(Default)]
struct Gate {
    times: Mutex<Option<Option<Times>>>,
    bell: Condvar,
}

impl Gate {
    fn open(&self, times: Option<Times>) {
        *self.times.lock().expect("nobody panics with it") = Some(times);
        self.bell.notify_all();
    }

    fn wait(&self) -> Option<Times> {
        let held = self.times.lock().expect("nobody panics with it");
        let opened = self.bell.wait_while(held, |times| times.is_none()).expect("nobody panics with it");
        (*opened).expect("waited for")
    }
}

/// Everything a worker thread needs and shares.
struct Shared<'a, C: Counter> {
    counter: C,
    system: &'a Linux,
    scale: Scale,
    threshold_ns: f64,
    gate: &'a Gate,
    ready: mpsc::Sender<Option<u32>>,
    stop: &'a AtomicBool,
    seed: u64,
}

fn run_on<C: Counter>(
    counter: C,
    choice: &Choice,
    system: &Linux,
    plan: &Plan,
    progress: &dyn Fn(&str),
) -> Result<Map, HourglassError> {
    let (mut calibration, first_scale, first_anchor) = calibrate(choice, system);
    if let Some(threshold) = plan.threshold {
        calibration.threshold_ns = threshold.as_ns() as f64;
        calibration.threshold_why = "given".into();
    }
    let mut notes = Vec::new();
    let entries = entries_of(plan);
    let buffers: Vec<Buffer> = plan
        .threads
        .iter()
        .map(|_| {
            let (buffer, trouble) = Buffer::new(entries, system);
            if let Some(trouble) = trouble
                && !notes.contains(&trouble)
            {
                notes.push(trouble);
            }
            buffer
        })
        .collect();
    progress(&format!("running {} threads for {}", plan.threads.len(), plan.duration));
    let seconds = plan.duration.as_ns().div_ceil(1_000_000_000);
    let own = plan.beside.iter().map(|command| (command.clone(), command.clone()));
    let loads = plan.loads.iter().map(|load| (load.what().to_string(), load.command(seconds)));
    let commands: Vec<(String, String)> = own.chain(loads).collect();
    let mut beside = Beside::start(&commands).map_err(HourglassError::System)?;
    let steal_before = system.steal_ms();
    let (gate, stop) = (Gate::default(), AtomicBool::new(false));
    let shared = |ready| Shared {
        counter,
        system,
        scale: first_scale,
        threshold_ns: calibration.threshold_ns,
        gate: &gate,
        ready,
        stop: &stop,
        seed: plan.seed,
    };
    let crew = crew(plan, buffers, &shared, first_anchor)?;
    let Crew { times, done, mut anchors } = crew;
    anchors.push(anchor(counter, 64));
    let steal_ms = steal_before.and_then(|before| Some(system.steal_ms()?.saturating_sub(before)));
    if let Some(problem) = beside.not_run() {
        return Err(HourglassError::System(problem));
    }
    notes.extend(beside.ended_early());
    let said = beside.finish();
    let (error_ns, events) = clock_events(&anchors);
    let last = anchors.last().expect("the last was just taken");
    let final_scale = scale(&first_anchor, last);
    calibration.rate_hz = final_scale.ticks_per_ns * 1e9;
    calibration.rate_error_ns = error_ns;
    calibration.clock_events = events;
    let missing = system.missing();
    let lacks = |word: &str| missing.iter().any(|(name, _)| name.contains(word));
    let frame = Frame {
        scale: final_scale,
        start_ns: times.start_ns,
        has_run_delay: !lacks("schedstat"),
        has_throttling: !lacks("cpu.stat"),
        has_sequences: !lacks("sequences"),
        has_switches: !lacks("getrusage"),
        is_virtual: system.is_virtual(),
    };
    let mut threads = Vec::new();
    for (worker, finished) in done {
        threads.push(thread_map(worker.plan, worker.tid, &finished, &frame));
        for note in worker.notes {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes.extend(stops(&threads));
    Ok(Map {
        plan: plan.clone(),
        calibration,
        missing: missing.into_iter().map(|(name, why)| (name.to_string(), why)).collect(),
        preconditions: system
            .preconditions()
            .into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .collect(),
        notes,
        threads,
        nr_cpus: system.nr_cpus(),
        duration_ns: plan.duration.as_ns(),
        start_ns: times.start_ns,
        steal_ms,
        beside: said,
    })
}

/// Which threads were not allowed to run, and for how long.
fn stops(threads: &[ThreadMap]) -> impl Iterator<Item = String> {
    let stopped = threads.iter().enumerate().filter(|(_, thread)| thread.stopped_ns() > 0);
    stopped.map(|(index, thread)| {
        format!(
            "thread {index} was not allowed to run for {}: its process was stopped (SIGSTOP, a debugger, the \
             freezer); jobs that fell into that count as missed, so measure again",
            time(thread.stopped_ns())
        )
    })
}

/// A run that was made.
struct Crew {
    times: Times,
    done: Vec<(Worker, Finished)>,
    anchors: Vec<Anchor>,
}

/// Makes the threads, starts them together, and waits for them.
fn crew<'a, C: Counter>(
    plan: &Plan,
    buffers: Vec<Buffer>,
    shared: &dyn Fn(mpsc::Sender<Option<u32>>) -> Shared<'a, C>,
    first_anchor: Anchor,
) -> Result<Crew, HourglassError> {
    let (ready, are_ready) = mpsc::channel();
    let common = shared(ready.clone());
    let (gate, system) = (common.gate, common.system);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, (plan, buffer)) in plan.threads.iter().zip(buffers).enumerate() {
            let name = format!("hourglass-{index}");
            let mine = shared(ready.clone());
            let work = move || work(&mine, index, plan, buffer);
            let spawned =
                std::thread::Builder::new().name(name).stack_size(256 << 10).spawn_scoped(scope, work);
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    gate.open(None);
                    return Err(HourglassError::System(format!(
                        "thread {index} of {} cannot be made ({error}); ask for fewer (-n)",
                        plan.model
                    )));
                }
            }
        }
        let real_time: Vec<u32> = threads.iter().filter_map(|_| are_ready.recv().ok().flatten()).collect();
        let start_ns = clock_ns(libc::CLOCK_MONOTONIC) + 20_000_000 + 50_000 * plan.threads.len() as u64;
        let times = Times { start_ns, end_ns: start_ns + plan.duration.as_ns() };
        let armed = system.dead_man(times.end_ns + GRACE_NS, real_time).map_err(|error| {
            gate.open(None);
            HourglassError::System(format!("no dead-man timer for real-time threads: {error}"))
        })?;
        gate.open(Some(times));
        let anchors = watch(common.counter, first_anchor, times, common.stop);
        let done = threads.into_iter().filter_map(|thread| thread.join().expect("a poller does not panic"));
        let done = done.collect();
        drop(armed);
        Ok(Crew { times, done, anchors })
    })
}

/// The main thread's part: compares the clocks until the run is over.
fn watch<C: Counter>(counter: C, first: Anchor, times: Times, stop: &AtomicBool) -> Vec<Anchor> {
    let mut anchors = vec![first];
    loop {
        let now_ns = clock_ns(libc::CLOCK_MONOTONIC);
        if now_ns >= times.end_ns {
            break;
        }
        std::thread::sleep(SAMPLE.min(Duration::from_nanos(times.end_ns - now_ns + 1000)));
        anchors.push(anchor(counter, 8));
    }
    // the counter may have stopped or jumped: whoever goes by it alone would never end
    std::thread::sleep(Duration::from_millis(20));
    stop.store(true, Ordering::Relaxed);
    anchors
}

/// A thread's life.
fn work<C: Counter>(
    shared: &Shared<'_, C>,
    index: usize,
    asked: &ThreadPlan,
    buffer: Buffer,
) -> Option<(Worker, Finished)> {
    let system = shared.system;
    take_dead_mans_signal();
    let mut plan = asked.clone();
    let mut notes = Vec::new();
    if let Some(group) = &plan.cgroup
        && let Err(error) = system.enter(group)
    {
        notes.push(format!("thread {index} stays in its group: {error}"));
    }
    if let Some(cpus) = &plan.cpus
        && let Err(error) = system.bind(cpus)
    {
        notes.push(format!("thread {index} may run on any CPU: binding it to {cpus} was refused ({error})"));
        plan.cpus = None;
    }
    let (mut alarm, used) = alarm(system, index, &plan, &mut notes);
    plan.timer = used;
    let default = plan.class == Class::default();
    if !default && let Err(error) = system.schedule(plan.class) {
        let remedy = class_remedy(plan.class);
        notes.push(format!(
            "thread {index} is scheduled as normal, nice 0: {} was refused ({error}); {remedy}",
            plan.class
        ));
        plan.class = Class::default();
    }
    let tid = system.thread();
    let mut threshold_ns = shared.threshold_ns;
    if matches!(plan.model, Model::Scan { .. }) && threshold_ns < SCAN_THRESHOLD_NS {
        threshold_ns = SCAN_THRESHOLD_NS;
        notes.push("scanning threads see gaps of 2 us and more: a touch of memory takes up to that".into());
    }
    shared.ready.send(plan.class.is_real_time().then_some(tid)).ok();
    let times = shared.gate.wait()?;
    let scale = shared.scale;
    while clock_ns(libc::CLOCK_MONOTONIC) < times.start_ns {
        alarm_until(times.start_ns);
    }
    let bounds = Bounds {
        scale,
        threshold: scale.ticks_of(threshold_ns as u64).max(1),
        end: scale.ticks_at(times.end_ns),
    };
    let mut poller = Poller::new(shared.counter, system, buffer, bounds, shared.stop);
    let random = Random::for_part(shared.seed, index as u64);
    drive(&mut poller, &plan, &mut *alarm, times, random);
    let finished = poller.finish();
    if plan.class.is_real_time() {
        system.schedule(Class::default()).ok();
    }
    Some((Worker { plan, tid, notes }, finished))
}

/// Sleeps to the start, however the thread will sleep later.
fn alarm_until(at_ns: u64) {
    let now_ns = clock_ns(libc::CLOCK_MONOTONIC);
    std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns)));
}

/// The alarm asked for, or the absolute sleep in its place.
fn alarm(
    system: &Linux,
    index: usize,
    plan: &ThreadPlan,
    notes: &mut Vec<String>,
) -> (Box<dyn Alarm>, Timer) {
    let period_ns = plan.model.period().unwrap_or(Span::from_ms(10)).as_ns();
    match system.alarm(plan.timer, period_ns) {
        Ok(alarm) => (alarm, plan.timer),
        Err(error) => {
            let name = plan.timer.name();
            notes.push(format!(
                "thread {index} is woken by ABSOLUTE (clock_nanosleep) in place of {name}, \
                 which this machine does not give: {error}"
            ));
            let alarm = system.alarm(Timer::Absolute, period_ns).expect("sleeping needs no right");
            (alarm, Timer::Absolute)
        }
    }
}
