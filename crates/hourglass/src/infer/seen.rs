//! What does a poller's log hold, in the form in which inference asks for it?

use super::rules::Clockwork;
use crate::line::parse_thread;
use crate::plan::{Model, Timer};
use crate::stats::Estimate;
use schedlab_log::{Kind, Log, LogProblem, Missed, MissedCause, PrevState, Record, for_each, note};
use schedlab_units::SchedParams;
use std::cell::OnceCell;

/// Why a stretch of running ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Against its will.
    Preempted,
    /// It slept.
    Slept,
    /// With the log.
    Over,
}

/// A thread on a CPU without being switched out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) thread: usize,
    pub(crate) cpu: u32,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) ending: Ending,
}

/// Time that a thread missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) thread: usize,
    pub(crate) cpu: u32,
    pub(crate) from_ns: u64,
    pub(crate) missed: Missed,
}

impl Gap {
    pub(crate) fn end_ns(&self) -> u64 {
        self.from_ns + self.missed.ns
    }
    /// The thread kept its CPU as far as it knows.
    pub(crate) fn is_on_cpu(&self) -> bool {
        !self.missed.cause.is_off_cpu()
    }
}

/// A wakeup that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    pub(crate) thread: usize,
    pub(crate) cpu: u32,
    /// It ran on another CPU before it slept.
    pub(crate) moved: bool,
    pub(crate) timer: Option<Timer>,
    pub(crate) due_ns: u64,
    pub(crate) ran_ns: u64,
    /// Another of the log's threads ran on that CPU just before.
    pub(crate) preempts: bool,
}

/// A job with its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) late: bool,
}

/// What a poller saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) duration_ns: u64,
    pub(crate) loop_ns: f64,
    /// Parameters and model of each thread.
    pub(crate) threads: Vec<(SchedParams, Option<Model>)>,
    /// In order of CPU, then time.
    pub(crate) stretches: Vec<Stretch>,
    /// In order of time.
    pub(crate) gaps: Vec<Gap>,
    pub(crate) wakes: Vec<Wake>,
    pub(crate) jobs: Vec<Job>,
    /// When threads came to another CPU.
    pub(crate) moves: Vec<u64>,
    /// Of each thread: it may run on several CPUs.
    pub(crate) may_move: Vec<bool>,
    /// What the rules have found of the tick.
    pub(crate) tick_clock: OnceCell<Option<TickClock>>,
}

/// What was found of the tick.
#[derive(Clone, Debug)]
pub(crate) struct TickClock {
    pub(crate) period: Estimate,
    /// About how many there are in a second.
    pub(crate) hz: f64,
    /// Of each CPU.
    pub(crate) grids: Vec<Clockwork>,
    /// By what it was found.
    pub(crate) what: &'static str,
}

impl Seen {
    /// Reads a log once.
    pub(crate) fn of(log: &dyn Log) -> Result<Seen, LogProblem> {
        let header = log.header();
        let param =
            |name: &str| header.params.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let model = |index: usize| param(&format!("hourglass.thread.{index:04}")).and_then(parse_thread);
        let seen = Seen {
            duration_ns: header.duration.as_ns(),
            loop_ns: param("hourglass.loop_ns").and_then(|value| value.parse().ok()).unwrap_or(0.0),
            threads: header
                .tasks
                .iter()
                .enumerate()
                .map(|(index, task)| (task.params, model(index).map(|(model, _)| model)))
                .collect(),
            may_move: header
                .tasks
                .iter()
                .map(|task| header.nr_cpus > 1 && task.affinity.as_ref().is_none_or(|cpus| cpus.len() > 1))
                .collect(),
            ..Seen::default()
        };
        let mut reader = Reader {
            running: vec![None; header.nr_cpus as usize],
            last: vec![None; header.nr_cpus as usize],
            due: vec![None; header.tasks.len()],
            was: vec![None; header.tasks.len()],
            seen,
        };
        for_each(log, |_, record| -> Result<(), LogProblem> {
            reader.record(record);
            Ok(())
        })?;
        Ok(reader.finish())
    }
}

struct Reader {
    /// Per CPU, who runs since when.
    running: Vec<Option<(usize, u64)>>,
    /// Per CPU, who stopped last, and when.
    last: Vec<Option<(usize, u64)>>,
    due: Vec<Option<(u64, Option<Timer>)>>,
    /// On which CPU each thread ran last.
    was: Vec<Option<usize>>,
    seen: Seen,
}

/// A thread that starts so soon after another stopped has taken the CPU from it.
pub(crate) const HANDOVER_NS: u64 = 200_000;

impl Reader {
    fn thread(&self, id: schedlab_units::TaskId) -> Option<usize> {
        (id.is_workload() && id.index() < self.due.len()).then_some(id.index())
    }

    fn record(&mut self, record: &Record) {
        let (time_ns, cpu) = (record.time_ns, usize::from(record.cpu));
        match record.kind() {
            Some(Kind::Switch) => {
                let next = self.thread(record.other());
                // the end of a stretch of which nobody knows anything: the thread is still where it was
                let goes_on = next.is_some() && self.running.get(cpu).is_some_and(|r| r.map(|r| r.0) == next);
                if !goes_on {
                    self.stop(cpu, time_ns, record.prev_state());
                    if let Some(thread) = next {
                        self.start(cpu, time_ns, thread);
                    }
                }
            }
            Some(Kind::Note) => self.note(record),
            _ => {}
        }
    }

    fn stop(&mut self, cpu: usize, time_ns: u64, state: Option<PrevState>) {
        let Some((thread, from_ns)) = self.running.get_mut(cpu).and_then(Option::take) else { return };
        let ending = match state {
            Some(state) if state.is_runnable() => Ending::Preempted,
            Some(PrevState::Dead) | None => Ending::Over,
            Some(_) => Ending::Slept,
        };
        self.seen.stretches.push(Stretch { thread, cpu: cpu as u32, from_ns, to_ns: time_ns, ending });
        self.last[cpu] = Some((thread, time_ns));
    }

    fn start(&mut self, cpu: usize, time_ns: u64, thread: usize) {
        let Some(place) = self.running.get_mut(cpu) else { return };
        *place = Some((thread, time_ns));
        let moved = self.was[thread].replace(cpu).is_some_and(|before| before != cpu);
        if moved {
            self.seen.moves.push(time_ns);
        }
        if let Some((due_ns, timer)) = self.due[thread].take() {
            let preempts =
                self.last[cpu].is_some_and(|(other, at)| other != thread && time_ns - at < HANDOVER_NS);
            self.seen.wakes.push(Wake {
                thread,
                cpu: cpu as u32,
                moved,
                timer,
                due_ns,
                ran_ns: time_ns,
                preempts,
            });
        }
    }

    fn note(&mut self, record: &Record) {
        let Some(thread) = self.thread(record.task()) else { return };
        if let Some(missed) = Missed::of(record) {
            let gap = Gap { thread, cpu: record.cpu.into(), from_ns: record.time_ns, missed };
            self.seen.gaps.push(gap);
        } else if record.arg == note::DUE {
            let timer = Timer::ALL.into_iter().find(|timer| *timer as u8 == record.flags);
            self.due[thread] = Some((record.value, timer));
        } else if record.arg == note::JOB {
            self.seen.jobs.push(Job { late: record.flags & 1 != 0 || record.time_ns > record.value });
        }
    }

    fn finish(mut self) -> Seen {
        for cpu in 0..self.running.len() {
            let end_ns = self.seen.duration_ns;
            self.stop(cpu, end_ns, None);
        }
        self.seen.stretches.sort_by_key(|stretch| (stretch.cpu, stretch.from_ns));
        self.seen
    }
}

impl Seen {
    /// Stretches that follow each other on a CPU at once: the second thread took over from the first.
    pub(crate) fn handovers(&self) -> impl Iterator<Item = (&Stretch, &Stretch)> {
        self.stretches.windows(2).map(|pair| (&pair[0], &pair[1])).filter(|(a, b)| {
            a.cpu == b.cpu && a.thread != b.thread && b.from_ns.saturating_sub(a.to_ns) < HANDOVER_NS
        })
    }

    /// Stretches as the scheduler charges them: who takes a CPU over pays for the switch.
    pub(crate) fn charged(&self) -> Vec<Stretch> {
        let mut charged = self.stretches.clone();
        for (place, pair) in self.stretches.windows(2).enumerate() {
            let (a, b) = (&pair[0], &pair[1]);
            if a.cpu == b.cpu && b.from_ns.saturating_sub(a.to_ns) < HANDOVER_NS {
                charged[place + 1].from_ns = a.to_ns;
            }
        }
        charged
    }

    /// Whether a thread computes all the time: by its model, or because it never sleeps.
    pub(crate) fn computes(&self, thread: usize) -> bool {
        match &self.threads[thread].1 {
            Some(model) => matches!(model, Model::Cpu | Model::Scan { .. }),
            None => !self.stretches.iter().any(|s| s.thread == thread && s.ending == Ending::Slept),
        }
    }

    /// Gaps of a cause.
    pub(crate) fn of_cause(&self, cause: MissedCause) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(move |gap| gap.missed.cause == cause)
    }
}
