//! What does each kind of thread do between its first and its last look at the counter?
//!
//! ```text
//! PERIODIC 2ms 5ms      ██...██...██...      computes, then sleeps to the next release
//! NONBLOCKING 2ms 5ms   ██───██───██───      computes, then polls to the next release
//! LATENCY 5ms           |....|....|....      only wakes
//! ```
//!
//! Releases lie on a grid from the run's start. A late job's successor begins at once. Jobs that are a whole
//! period behind are given up, and count as missed.

use crate::counter::Counter;
use crate::os::Alarm;
use crate::plan::{Model, ModelStep, ThreadPlan, Timer};
use crate::poll::{Poller, What};
use schedlab_stdx::Random;
use schedlab_units::Span;
use std::hint::black_box;

/// Bytes between two touches of [`Model::Scan`]: a line of the cache.
const LINE: usize = 64;

/// The times of one thread: ns of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// Does what the plan says until the run is over.
pub(crate) fn drive<C: Counter>(
    poller: &mut Poller<'_, C>,
    plan: &ThreadPlan,
    alarm: &mut dyn Alarm,
    times: Times,
    random: Random,
) {
    match &plan.model {
        Model::Cpu => {
            while !poller.is_over() {
                poller.compute(u64::MAX);
            }
        }
        Model::Periodic { compute, period } => {
            let busy = plan.timer == Timer::Busy;
            let wait = if busy { Wait::Poll } else { Wait::Sleep(alarm) };
            jobs(poller, *compute, times, wait, Grid { period_ns: period.as_ns(), drawn: None });
        }
        Model::NonBlocking { compute, period } => {
            jobs(poller, *compute, times, Wait::Poll, Grid { period_ns: period.as_ns(), drawn: None });
        }
        Model::Sporadic { compute, period } => {
            let grid = Grid { period_ns: period.as_ns(), drawn: Some(random) };
            jobs(poller, *compute, times, Wait::Sleep(alarm), grid);
        }
        Model::Latency { period } => {
            let mut at_ns = times.start_ns + period.as_ns();
            while at_ns < times.end_ns && !poller.is_over() {
                poller.sleep_until(alarm, at_ns);
                let now_ns = poller.scale().ns_at(poller.now());
                // a wakeup that is missed as a whole is not asked for again
                let periods = (now_ns.saturating_sub(at_ns) / period.as_ns().max(1)) + 1;
                at_ns += periods * period.as_ns();
            }
        }
        Model::Scan { bytes } => scan(poller, *bytes),
        Model::OnOff { on, off } => {
            let mut grid_ns = times.start_ns;
            while !poller.is_over() {
                steps(poller, &[ModelStep::Run(*on), ModelStep::Sleep(*off)], alarm, &mut grid_ns);
            }
        }
        Model::Steps(list) => {
            while !poller.is_over() {
                let mut grid_ns = times.start_ns;
                steps(poller, list, alarm, &mut grid_ns);
            }
        }
        Model::Script { steps: list, .. } => {
            let mut grid_ns = times.start_ns;
            steps(poller, list, alarm, &mut grid_ns);
        }
    }
}

/// How a thread waits for its next release.
enum Wait<'a> {
    Sleep(&'a mut dyn Alarm),
    Poll,
}

/// When releases come.
struct Grid {
    period_ns: u64,
    /// Draws the time beyond the period that lies between two releases.
    drawn: Option<Random>,
}

impl Grid {
    fn next_ns(&mut self, release_ns: u64) -> u64 {
        let beyond = self.drawn.as_mut().map_or(0.0, |random| -f64::ln(1.0 - random.unit_f64()));
        release_ns + self.period_ns + (beyond * self.period_ns as f64) as u64
    }
}

fn jobs<C: Counter>(
    poller: &mut Poller<'_, C>,
    compute: Span,
    times: Times,
    mut wait: Wait<'_>,
    mut grid: Grid,
) {
    let ticks = poller.scale().ticks_of(compute.as_ns());
    let mut release_ns = times.start_ns;
    loop {
        let due_ns = release_ns + grid.period_ns;
        if due_ns > times.end_ns || poller.is_over() {
            break;
        }
        let now_ns = poller.scale().ns_at(poller.now());
        if now_ns >= due_ns {
            poller.job(What::Skip, due_ns);
            release_ns = grid.next_ns(release_ns);
            continue;
        }
        if now_ns < release_ns {
            match &mut wait {
                Wait::Sleep(alarm) => poller.sleep_until(&mut **alarm, release_ns),
                Wait::Poll => poller.poll_until(poller.scale().ticks_at(release_ns)),
            }
        }
        poller.compute(ticks);
        // the end cut it off: nobody knows whether it would have been in time
        if !poller.is_over() {
            poller.job(What::Job, due_ns);
        }
        release_ns = grid.next_ns(release_ns);
    }
    while let (Wait::Poll, false) = (&wait, poller.is_over()) {
        poller.compute(u64::MAX);
    }
}

/// Does each step once; `grid_ns` is the last time of the grid.
fn steps<C: Counter>(
    poller: &mut Poller<'_, C>,
    steps: &[ModelStep],
    alarm: &mut dyn Alarm,
    grid_ns: &mut u64,
) {
    for step in steps {
        match step {
            ModelStep::Run(span) => poller.compute(poller.scale().ticks_of(span.as_ns())),
            ModelStep::Sleep(span) => {
                let now_ns = poller.scale().ns_at(poller.now());
                poller.sleep_until(alarm, now_ns + span.as_ns());
            }
            ModelStep::Yield => std::thread::yield_now(),
            ModelStep::Grid { after, restarts } => {
                *grid_ns += after.as_ns();
                poller.job(What::Job, *grid_ns);
                let now_ns = poller.scale().ns_at(poller.now());
                if now_ns < *grid_ns {
                    poller.sleep_until(alarm, *grid_ns);
                } else if *restarts {
                    *grid_ns = now_ns;
                }
            }
        }
        if poller.is_over() {
            break;
        }
    }
}

fn scan<C: Counter>(poller: &mut Poller<'_, C>, bytes: usize) {
    let mut memory = vec![0u8; bytes.max(LINE)];
    let mut place = 0;
    while !poller.is_over() {
        let byte = black_box(&mut memory[place]);
        *byte = byte.wrapping_add(1);
        place = if place + LINE < memory.len() { place + LINE } else { 0 };
        poller.compute(0);
    }
}
