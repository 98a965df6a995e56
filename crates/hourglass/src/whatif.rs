//! What if the scheduler, the number of CPUs or the computing time were another? Measured threads, and the time that
//! was stolen from them, as a workload.
//!
//! ```text
//!   measured    t0  ███x█████......███x████......      x: time that something else had: a tick, an interrupt,
//!                      ^stolen        ^stolen             the hypervisor, another program
//!   workload    t0  run 4 ms, sleep until 5 ms, ...
//!               stolen-cpu0 (above all others)  at 1.3 ms for 8 us, at 6.1 ms for 40 us, ...
//! ```
//!
//! A wakeup comes as late as it was measured to, less the time that other threads of the run had the CPU: to let them
//! wait for each other is the scheduler's part. Nobody sees what is
//! stolen while all threads sleep. Such stretches get what was stolen in others of equal length, drawn by a seed.

use crate::map::{Map, Piece, ThreadMap};
use crate::plan::{Model, ModelStep, ThreadPlan};
use crate::poll::What;
use schedlab_instruments::LogProblem;
use schedlab_instruments::jobs::job_report;
use schedlab_lab::{Ended, Standard, Subject, run};
use schedlab_runner::RunRequest;
use schedlab_stdx::Random;
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Span};
use schedlab_workload::{Builder, ExternalSource, Life, Wakeup, Workload};
use std::collections::BTreeMap;

/// A stretch of time, in ns from the start.
type Stretch = (u64, u64);

/// A run in the machine that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// The simulated run did not end as it should.
    #[error(transparent)]
    Run(#[from] Ended),
    /// Its log cannot be read.
    #[error(transparent)]
    Log(#[from] LogProblem),
    /// No thread of the run has deadlines.
    #[error("no thread has deadlines, so that nothing can be predicted; give e.g. -w PERIODIC 4ms 5ms")]
    NoJobs,
    /// A machine with so many CPUs cannot be.
    #[error("{0} CPUs are no machine; expected 1 to 4096")]
    Cpus(u32),
    /// The measured process could not run for a while.
    #[error(
        "the measured process was stopped for {0} (SIGSTOP, a debugger, the freezer), which no scheduler does; \
         measure again"
    )]
    Stopped(String),
}

/// What was watched of a CPU, and what of it was stolen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Watched {
    /// In order of time, without overlaps.
    spans: Vec<Stretch>,
    stolen: Vec<Stretch>,
}

/// Deadlines of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadlines {
    /// Jobs with a deadline.
    pub jobs: u64,
    /// Not done at it.
    pub missed: u64,
}

impl Map {
    /// Refuses a run from which nothing can be predicted.
    ///
    /// # Errors
    /// [`WhatIfError::Stopped`], [`WhatIfError::NoJobs`].
    pub fn predicts(&self) -> Result<(), WhatIfError> {
        let stopped_ns = self.threads.iter().map(ThreadMap::stopped_ns).max().unwrap_or(0);
        match stopped_ns {
            0 if self.threads.iter().all(|thread| thread.jobs().is_none()) => Err(WhatIfError::NoJobs),
            0 => Ok(()),
            ns => Err(WhatIfError::Stopped(schedlab_report::units::time(ns))),
        }
    }

    /// What the threads did and what was stolen from them, as a workload; jobs take `compute_pct` per cent of
    /// their computing time, and what nobody saw is drawn from `seed`.
    ///
    /// # Panics
    /// Never: what was measured is a workload.
    pub fn workload(&self, compute_pct: u32, seed: u64) -> Workload {
        let mut builder = Builder::new();
        for (index, thread) in self.threads.iter().enumerate() {
            let life = builder.task(format!("hourglass-{index}")).params(thread.plan.class.params);
            let life = match &thread.plan.cpus {
                Some(cpus) => life.affinity(cpus.clone()),
                None => life,
            };
            self.life(life, thread, compute_pct, Random::for_part(self.plan.seed, index as u64));
        }
        for cpu in 0..self.nr_cpus {
            let watched = self.watched(cpu);
            let mut random = Random::for_part(seed, u64::from(cpu));
            let stolen = watched.filled(self.duration_ns, &mut random);
            if stolen.is_empty() {
                continue;
            }
            builder.stolen(format!("stolen-cpu{cpu}"), CpuId(cpu), &stolen);
        }
        builder.finish().expect("what was measured is a workload")
    }

    /// What one thread wants.
    fn life(&self, mut life: Life<'_>, thread: &ThreadMap, compute_pct: u32, mut random: Random) {
        let end_ns = self.duration_ns;
        let scaled = |span: Span| Span::from_ns(span.as_ns() * u64::from(compute_pct) / 100);
        let late = self.lateness(thread);
        let late = |due_ns: u64| Span::from_ns(late.get(&due_ns).copied().unwrap_or(0));
        // who is late does not sleep, as in `models::jobs`
        let grid = |after, source| Wakeup::External { after, source };
        let mut at_ns = 0;
        match &thread.plan.model {
            Model::Periodic { compute, period } => {
                while at_ns < end_ns {
                    at_ns += period.as_ns();
                    life = life
                        .run(scaled(*compute))
                        .wakeup(grid(*period, ExternalSource::GridSkip))
                        .run(late(at_ns));
                }
            }
            Model::Sporadic { compute, period } => {
                while at_ns < end_ns {
                    let beyond = -f64::ln(1.0 - random.unit_f64());
                    let next = Span::from_ns(period.as_ns() + (beyond * period.as_ns() as f64) as u64);
                    at_ns += next.as_ns();
                    life =
                        life.run(scaled(*compute)).wakeup(grid(next, ExternalSource::Grid)).run(late(at_ns));
                }
            }
            Model::Latency { period } => {
                while at_ns < end_ns {
                    at_ns += period.as_ns();
                    life = life.run(Span::from_us(1)).sleep_until(*period).run(late(at_ns));
                }
            }
            Model::OnOff { on, off } => {
                while at_ns < end_ns {
                    life = life.run(*on).sleep(*off);
                    at_ns += on.as_ns() + off.as_ns();
                }
            }
            Model::Steps(steps) => {
                while at_ns < end_ns {
                    for step in steps {
                        (life, at_ns) = match step {
                            ModelStep::Run(span) => (life.run(*span), at_ns + span.as_ns()),
                            ModelStep::Sleep(span) => (life.sleep(*span), at_ns + span.as_ns()),
                            ModelStep::Grid { after, .. } => {
                                (life.sleep_until(*after), at_ns + after.as_ns())
                            }
                            ModelStep::Yield => (life.yields(), at_ns + 1),
                        };
                    }
                }
            }
            Model::Script { steps, .. } => {
                for step in steps {
                    life = match step {
                        ModelStep::Run(span) => life.run(scaled(*span)),
                        ModelStep::Sleep(span) => life.sleep(*span),
                        ModelStep::Grid { after, restarts } => {
                            at_ns += after.as_ns();
                            let source =
                                if *restarts { ExternalSource::GridRestart } else { ExternalSource::Grid };
                            life.wakeup(grid(*after, source)).run(late(at_ns))
                        }
                        ModelStep::Yield => life.yields(),
                    };
                }
            }
            Model::Cpu | Model::NonBlocking { .. } | Model::Scan { .. } => {
                life = life.run(Span::from_ns(2 * end_ns));
            }
        }
        life.exit();
    }

    /// How late each wakeup came, without what other threads had of the CPU in between, by the time that was asked for;
    /// both in ns.
    fn lateness(&self, of: &ThreadMap) -> BTreeMap<u64, u64> {
        let others = |cpu: u32| {
            let others = self.threads.iter().filter(|thread| thread.tid != of.tid);
            union(others.flat_map(|thread| had(thread, cpu)).collect())
        };
        let others: Vec<Vec<Stretch>> = (0..self.nr_cpus).map(others).collect();
        let sleeps = of.pieces.iter().filter(|piece| piece.what == What::Sleep && piece.due_ns > 0);
        let late = |piece: &Piece| -> u64 {
            let wait = [(piece.due_ns, piece.resumed_ns.max(piece.due_ns))];
            without(&wait, &others[piece.cpu_to as usize]).iter().map(|(from, to)| to - from).sum()
        };
        sleeps.map(|piece| (piece.due_ns, late(piece))).collect()
    }

    /// What threads saw of a CPU. What other threads of the run had is not stolen.
    fn watched(&self, cpu: u32) -> Watched {
        let (mut spans, mut away, mut ran) = (Vec::new(), Vec::new(), Vec::new());
        for thread in &self.threads {
            let mut from_ns = None;
            for piece in &thread.pieces {
                let at = from_ns.replace(piece.resumed_ns).filter(|_| piece.cpu_from == cpu);
                match piece.what {
                    What::Gap if piece.cpu_from == cpu && piece.cpu_to == cpu => {
                        spans.extend(at.map(|at| (at, piece.resumed_ns)));
                        ran.extend(at.map(|at| (at, piece.from_ns)));
                        away.push((piece.from_ns, piece.resumed_ns));
                    }
                    // a job's end is no end of running
                    What::Job | What::Skip => from_ns = at.or(from_ns),
                    _ => {
                        spans.extend(at.map(|at| (at, piece.from_ns)));
                        ran.extend(at.map(|at| (at, piece.from_ns)));
                        // what makes a wakeup late stands in the thread's own life
                        if piece.what == What::Sleep && piece.due_ns > 0 && piece.cpu_to == cpu {
                            spans.push((piece.due_ns, piece.resumed_ns));
                        }
                    }
                }
            }
        }
        let stolen = without(&union(away), &union(ran));
        Watched { spans: union(spans), stolen }
    }
}

/// When a thread had a CPU, as far as it knows, with the ways to it and between its looks at the clock.
fn had(thread: &ThreadMap, cpu: u32) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    let mut from_ns = None;
    for piece in &thread.pieces {
        let is_off = piece.what == What::Sleep || piece.what == What::Gap && piece.missed.cause.is_off_cpu();
        if is_off {
            let at = from_ns.replace(piece.resumed_ns).filter(|_| piece.cpu_from == cpu);
            stretches.extend(at.map(|at| (at, piece.from_ns)));
        }
    }
    stretches
}

/// Stretches in order of time, put together where they touch.
fn union(mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    stretches.retain(|(from, to)| from < to);
    stretches.sort_unstable();
    let mut united: Vec<Stretch> = Vec::new();
    for (from, to) in stretches {
        match united.last_mut().filter(|last| from <= last.1) {
            Some(last) => last.1 = last.1.max(to),
            None => united.push((from, to)),
        }
    }
    united
}

/// The parts of `stretches` outside of `others`; both in order of time without overlaps.
fn without(stretches: &[Stretch], others: &[Stretch]) -> Vec<Stretch> {
    let mut left = Vec::new();
    for (from, to) in stretches {
        let mut at = *from;
        let first = others.partition_point(|other| other.1 <= *from);
        for other in others[first..].iter().take_while(|other| other.0 < *to) {
            if other.0 > at {
                left.push((at, other.0));
            }
            at = at.max(other.1);
        }
        if at < *to {
            left.push((at, *to));
        }
    }
    left
}

impl Watched {
    /// What was stolen, and in stretches that nobody watched as much as in others.
    fn filled(&self, end_ns: u64, random: &mut Random) -> Vec<Stretch> {
        let all_ns: u64 = self.spans.iter().map(|(from, to)| to - from).sum();
        let mut stolen = self.stolen.clone();
        if all_ns > 0 {
            for (from, to) in without(&[(0, end_ns)], &self.spans) {
                let begin = random.below(all_ns);
                stolen.extend(self.copied(begin, to - from, from));
            }
        }
        stolen.iter_mut().for_each(|stretch| stretch.1 = stretch.1.min(end_ns));
        union(stolen)
    }

    /// What was stolen within `length` of the watched time from `begin` on, moved to `to`. Watched time is one
    /// piece here, and begins again at its end.
    fn copied(&self, begin: u64, length: u64, to: u64) -> Vec<Stretch> {
        let mut copy = Vec::new();
        let (mut skip, mut done) = (begin, 0);
        while done < length {
            for (from, end) in &self.spans {
                if skip >= end - from {
                    skip -= end - from;
                    continue;
                }
                let start = from + std::mem::take(&mut skip);
                let take = (end - start).min(length - done);
                let first = self.stolen.partition_point(|stretch| stretch.1 <= start);
                let within = self.stolen[first..].iter().take_while(|stretch| stretch.0 < start + take);
                copy.extend(within.map(|(a, b)| {
                    let [a, b] = [a, b].map(|at| (*at).clamp(start, start + take) - start + to + done);
                    (a, b)
                }));
                done += take;
                if done == length {
                    break;
                }
            }
        }
        copy
    }
}

/// Which deadlines would be missed: the workload under a scheduler, per thread of the measured run.
///
/// # Errors
/// [`WhatIfError`].
pub fn predict(
    workload: &Workload,
    threads: &[ThreadPlan],
    subject: &Subject,
    (nr_cpus, duration): (u32, Span),
) -> Result<Vec<Option<Deadlines>>, WhatIfError> {
    let topology = Topology::flat(nr_cpus).map_err(|_| WhatIfError::Cpus(nr_cpus))?;
    let request = RunRequest { duration: Some(duration), ..subject.on(workload, topology) };
    let finished = run(&request, Standard::Shown)?;
    let report = job_report(&finished.log, workload)?.ok_or(WhatIfError::NoJobs)?;
    let of = |(index, plan): (usize, &ThreadPlan)| {
        let has_jobs =
            matches!(plan.model, Model::Periodic { .. } | Model::Sporadic { .. } | Model::Script { .. });
        let task = report.jobs.tasks.iter().find(|task| task.task.index() == index && has_jobs)?;
        Some(Deadlines { jobs: task.nr_with_deadline, missed: task.misses })
    };
    Ok(threads.iter().enumerate().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_put_together_and_taken_apart() {
        assert_eq!(union(vec![(5, 7), (1, 3), (2, 5), (9, 9)]), [(1, 7)]);
        assert_eq!(without(&[(0, 10), (20, 30)], &[(2, 3), (8, 22)]), [(0, 2), (3, 8), (22, 30)]);
    }

    /// ```text
    /// ns        0         10        20        30        40
    /// watched   [-------------------]         [---------]       of which 2 to 4 and 35 to 36 were stolen
    /// filled    ..xx................ ????????? .....x....       ?: as some ten ns of watched time
    /// ```
    #[test]
    fn what_nobody_saw_is_drawn_from_what_was_seen() {
        let watched = Watched { spans: vec![(0, 20), (30, 40)], stolen: vec![(2, 4), (35, 36)] };
        // watched time from 18 on: two ns before the hole, eight behind it, of which the sixth was stolen
        assert_eq!(watched.copied(18, 10, 20), [(27, 28)]);
        // beyond its end it begins again
        assert_eq!(watched.copied(28, 10, 20), [(24, 26)]);
        let mut drawn = 0;
        for seed in 0..300 {
            let stolen = watched.filled(40, &mut Random::new(seed));
            drawn += stolen.iter().map(|(from, to)| to - from).sum::<u64>() - 3;
        }
        // a tenth of the watched time was stolen, so 1 ns of ten
        assert!((240..360).contains(&drawn), "{drawn}");
    }
}
