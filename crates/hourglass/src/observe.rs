//! What would pollers have seen of a schedule that is known in full? A log of the machine, reduced to a poller's.
//!
//! ```text
//!   the machine      t0 |AAAAAAAAAAAAAAAA|......|AAAAAAAA      exact, kernel code takes no time
//!   a poller         t0  .AAAAA.AAAAA.AAA        .AAAAAAA      switch, ticks, and handlers at random take some
//! ```
//!
//! The observer's own parameters (how long a switch, a tick, other handlers take) are part of the truth that
//! inference is asked for.

use crate::cause::{Evidence, classify};
use crate::map::{Map, Piece, ThreadMap};
use crate::plan::{Plan, ThreadPlan};
use crate::poll::What;
use schedlab_instruments::{Stay, WaitCause, stays};
use schedlab_log::{Kind, Log, LogProblem, MemLog, Missed, PrevState, for_each, note};
use schedlab_stdx::Random;

/// What stands between the schedule and a poller. Lengths in ns; each varies by up to `jitter` of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Shortest step that is a gap.
    pub threshold_ns: u64,
    /// A turn of the loop.
    pub loop_ns: f64,
    /// From tick to tick.
    pub tick_ns: f64,
    /// When the first tick is.
    pub tick_phase_ns: f64,
    /// The tick's handler.
    pub tick_cost_ns: u64,
    /// From one thread's last look at the clock to the next one's first.
    pub switch_ns: u64,
    /// From a timer's time to a sleeper's running on an idle CPU.
    pub wake_ns: u64,
    /// Timers go off at multiples of this only: a wakeup was asked for up to so long before; 0: at any time.
    pub timer_grain_ns: f64,
    /// Other handlers per second of running.
    pub noise_hz: f64,
    /// Their length, from and to.
    pub noise_ns: (u64, u64),
    /// Share by which lengths vary, 0 to 1.
    pub jitter: f64,
    /// Of what is drawn.
    pub seed: u64,
}

impl View {
    /// The last tick up to an instant.
    fn tick_before(&self, at_ns: f64) -> f64 {
        ((at_ns - self.tick_phase_ns) / self.tick_ns).floor() * self.tick_ns + self.tick_phase_ns
    }

    /// Ticks between two instants, more than 50 ns from both.
    pub(crate) fn ticks_within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let number = |at_ns: f64| (at_ns - self.tick_phase_ns) / self.tick_ns;
        let (first, end) = (number(from_ns as f64 + 50.0).ceil(), number(to_ns as f64 - 50.0).ceil());
        (end - first).max(0.0) as u64
    }
}

/// The log that pollers would have written of this schedule; `plans` say what each task does.
///
/// # Errors
/// [`LogProblem`]: the log is no schedule.
pub fn observe(log: &dyn Log, view: &View, plans: &[ThreadPlan]) -> Result<MemLog, LogProblem> {
    let header = log.header();
    let mut by_task: Vec<Vec<Stay>> = vec![Vec::new(); header.tasks.len()];
    for stay in stays(log)? {
        if let Some(own) = by_task.get_mut(stay.task.index()) {
            own.push(stay);
        }
    }
    let held = held(log, header.tasks.len())?;
    let threads = by_task.iter().zip(&held).enumerate().map(|(index, (own, held))| {
        let mut plan = plans.get(index).cloned().unwrap_or_default();
        plan.class.params = header.tasks[index].params;
        let mut random = Random::for_part(view.seed, index as u64);
        let pieces =
            Watch { view, held, random: &mut random, is_real_time: plan.class.is_real_time() }.pieces(own);
        ThreadMap {
            plan,
            tid: header.tasks[index].pid,
            pieces,
            lost: 0,
            computed_ns: 0,
            reading_ns: 0,
            cpu_ns: 0,
        }
    });
    let mut map = Map {
        plan: Plan::default(),
        calibration: crate::Calibration::default(),
        missing: Vec::new(),
        preconditions: Vec::new(),
        notes: Vec::new(),
        threads: threads.collect(),
        nr_cpus: header.nr_cpus,
        duration_ns: header.duration.as_ns(),
        start_ns: 0,
        steal_ms: None,
        beside: Vec::new(),
    };
    map.calibration.threshold_ns = view.threshold_ns as f64;
    map.calibration.loop_ns = view.loop_ns;
    Ok(map.log())
}

/// Per task, from when to when its group was held back.
fn held(log: &dyn Log, tasks: usize) -> Result<Vec<Vec<(u64, u64)>>, LogProblem> {
    let mut spans: Vec<Vec<(u64, u64)>> = vec![Vec::new(); tasks];
    let mut open: Vec<Option<u64>> = vec![None; tasks];
    for_each(log, |_, record| -> Result<(), LogProblem> {
        if record.kind() == Some(Kind::Note) && record.arg == note::HELD {
            let task = record.task();
            if let Some(since) = open.get_mut(task.index()).filter(|_| task.is_workload()) {
                if let Some(from) = since.take() {
                    spans[task.index()].push((from, record.time_ns));
                }
                if record.value == note::HELD_GROUP {
                    *since = Some(record.time_ns);
                }
            }
        }
        Ok(())
    })?;
    Ok(spans)
}

struct Watch<'a> {
    view: &'a View,
    held: &'a [(u64, u64)],
    random: &'a mut Random,
    is_real_time: bool,
}

impl Watch<'_> {
    fn vary(&mut self, ns: u64) -> u64 {
        (ns as f64 * (1.0 + self.view.jitter * (2.0 * self.random.unit_f64() - 1.0))) as u64
    }

    /// When it first looks at the clock in a stay.
    fn first_look(&mut self, stay: &Stay) -> u64 {
        let view = *self.view;
        // the step that is a gap has a turn of the loop in it
        let mut at = stay.start_ns + self.vary(view.switch_ns) + view.loop_ns as u64;
        if let Some((WaitCause::Wakeup, 0)) = stay.waited {
            at += self.vary(view.wake_ns);
        }
        // the last tick before it: on the way it delays all of it, at the beginning what is left of the handler
        let tick = view.tick_before(at as f64);
        let cost = self.vary(view.tick_cost_ns) as f64;
        at += (cost - (stay.start_ns as f64 - tick).max(0.0)).max(0.0) as u64;
        at.min(stay.end_ns)
    }

    fn pieces(mut self, own: &[Stay]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let Some(first) = own.first() else { return pieces };
        let mut at = self.first_look(first);
        pieces.push(piece(What::Sleep, at, at, (first.cpu.0, first.cpu.0)));
        for (place, stay) in own.iter().enumerate() {
            self.within(stay, at, &mut pieces);
            let Some(next) = own.get(place + 1) else {
                pieces.push(piece(What::Sleep, stay.end_ns, stay.end_ns, (stay.cpu.0, stay.cpu.0)));
                break;
            };
            at = self.first_look(next);
            let slept = matches!(stay.stop, Some(PrevState::Sleeping | PrevState::Disk));
            let what = if slept { What::Sleep } else { What::Gap };
            let mut missing = piece(what, stay.end_ns, at, (stay.cpu.0, next.cpu.0));
            if slept {
                let waited_ns = next.waited.map_or(0, |(_, ns)| ns);
                let early_ns = (self.view.timer_grain_ns * self.random.unit_f64()) as u64;
                missing.due_ns = (next.start_ns - waited_ns).saturating_sub(early_ns).max(1);
            } else {
                missing.missed = self.evidence(stay, next, at);
            }
            pieces.push(missing);
        }
        pieces
    }

    /// What the thread's counters would have said.
    fn evidence(&self, stay: &Stay, next: &Stay, at: u64) -> Missed {
        let overlap = |(from, to): &(u64, u64)| (*to).min(at).saturating_sub((*from).max(stay.end_ns));
        let held_ns: u64 = self.held.iter().map(overlap).sum();
        let ns = at - stay.end_ns;
        let away_ns = next.start_ns - stay.end_ns;
        let (cause, confidence_pct) = classify(&Evidence {
            ns,
            involuntary: 1,
            off_cpu_ns: away_ns,
            run_delay_ns: Some(away_ns - held_ns.min(away_ns)),
            throttled_ns: Some(held_ns),
            preempted: Some(true),
            migrated: stay.cpu != next.cpu,
            is_real_time: self.is_real_time,
            ..Evidence::default()
        });
        Missed { ns, cause, confidence_pct, switches: 1 }
    }

    /// Ticks and other handlers within a stay, from its first look at the clock on.
    fn within(&mut self, stay: &Stay, from_ns: u64, pieces: &mut Vec<Piece>) {
        let view = *self.view;
        let mut handlers: Vec<(u64, u64)> = Vec::new();
        let mut k = ((from_ns as f64 - view.tick_phase_ns) / view.tick_ns).ceil();
        let tick_at = |k: f64| (k * view.tick_ns + view.tick_phase_ns).round() as u64;
        while tick_at(k) < stay.end_ns.saturating_sub(50) {
            let late = self.random.below(300);
            handlers.push((tick_at(k) + late, self.vary(view.tick_cost_ns)));
            k += 1.0;
        }
        let mut at = from_ns as f64;
        if view.noise_hz > 0.0 {
            loop {
                at += -f64::ln(1.0 - self.random.unit_f64()) / view.noise_hz * 1e9;
                if at >= stay.end_ns as f64 {
                    break;
                }
                let (low, high) = view.noise_ns;
                handlers.push((at as u64, low + self.random.below(high - low + 1)));
            }
        }
        handlers.sort_unstable();
        let mut free_ns = from_ns;
        for (at_ns, ns) in handlers {
            let at_ns = at_ns.max(free_ns);
            let ns = ns + view.loop_ns as u64;
            let end_ns = at_ns + ns;
            if end_ns >= stay.end_ns || ns <= view.threshold_ns {
                continue;
            }
            let mut gap = piece(What::Gap, at_ns, end_ns, (stay.cpu.0, stay.cpu.0));
            let evidence = Evidence {
                ns,
                run_delay_ns: Some(0),
                throttled_ns: Some(0),
                preempted: Some(false),
                ..Evidence::default()
            };
            let (cause, confidence_pct) = classify(&evidence);
            gap.missed = Missed { ns, cause, confidence_pct, switches: 0 };
            pieces.push(gap);
            free_ns = end_ns;
        }
    }
}

fn piece(what: What, from_ns: u64, to_ns: u64, (cpu_from, cpu_to): (u32, u32)) -> Piece {
    Piece { what, from_ns, to_ns, resumed_ns: to_ns, cpu_from, cpu_to, due_ns: 0, missed: Missed::default() }
}
