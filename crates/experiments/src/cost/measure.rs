//! Timings on the test stand, in this process.

use super::{Config, Cost, CostError, Row, Subject};
use schedlab_machine::policy::{Policy, Stop};
use schedlab_machine::stand::Stand;
use schedlab_units::{CpuId, Nice, Random, SchedParams, Span, TaskId};
use std::time::{Duration, Instant};

pub(super) type AnyStand = Stand<Box<dyn Policy>>;

const CPU: CpuId = CpuId(0);
const QUANTUM: Span = Span::from_ms(10);
/// A timing lasts at least this long, so that the clock's resolution does not matter.
const TIMED: Duration = Duration::from_millis(3);

/// N runnable clients, one of them current. Nice values ascend with ids: each joins behind those before it.
pub(super) fn stand(subject: &Subject, nr_clients: u32) -> Result<AnyStand, CostError> {
    let mut stand = Stand::new(subject.build()?, 1, nr_clients);
    for id in 0..nr_clients {
        let nice = Nice::new((u64::from(id) * 40 / u64::from(nr_clients)) as i32 - 20).expect("-20 to 19");
        stand.create(TaskId(id), SchedParams::normal(nice));
        stand.wake(TaskId(id));
    }
    stand.pick(CPU);
    Ok(stand)
}

/// Ends the current client's quantum and chooses the next, so often.
#[inline(never)]
pub(super) fn region_select(stand: &mut AnyStand, rounds: u64) {
    for _ in 0..rounds {
        stand.put(CPU, QUANTUM, Stop::Preempted);
        stand.pick(CPU);
    }
}

#[inline(never)]
pub(super) fn region_dequeue(stand: &mut AnyStand, client: TaskId) {
    stand.dequeue(client);
}

#[inline(never)]
pub(super) fn region_enqueue(stand: &mut AnyStand, client: TaskId) {
    stand.wake(client);
}

/// A random client that waits; none if there is but the current one.
pub(super) fn waiting(stand: &AnyStand, random: &mut Random, nr_clients: u32) -> Option<TaskId> {
    let current = stand.view().current(CPU)?;
    (nr_clients > 1).then(|| {
        let other = random.below(u64::from(nr_clients) - 1) as u32;
        TaskId(if other >= current.0 { other + 1 } else { other })
    })
}

/// Least ns per round of `run`, which makes the number of rounds given and returns how many it made.
fn timed(repetitions: u32, mut run: impl FnMut(u64) -> u64) -> Option<f64> {
    let mut rounds = 16;
    let mut least = f64::INFINITY;
    let mut counted = 0;
    while counted < repetitions.max(1) {
        let started = Instant::now();
        let made = run(rounds);
        let elapsed = started.elapsed();
        if made == 0 {
            return None;
        }
        if elapsed < TIMED && rounds < 1 << 30 {
            rounds *= 2;
            continue;
        }
        least = least.min(elapsed.as_nanos() as f64 / made as f64);
        counted += 1;
    }
    Some(least)
}

/// Measures host time of every subject at every number of clients.
pub fn measure(config: &Config) -> Result<Cost, CostError> {
    let mut cost = Cost::default();
    for subject in &config.subjects {
        for &nr_clients in &config.clients {
            let mut stand = stand(subject, nr_clients)?;
            let select_wall_ns = timed(config.repetitions, |rounds| {
                region_select(&mut stand, rounds);
                rounds
            });
            let mut random = Random::new(u64::from(nr_clients));
            let sleep_wake_wall_ns = timed(config.repetitions, |rounds| {
                for made in 0..rounds {
                    let Some(client) = waiting(&stand, &mut random, nr_clients) else { return made };
                    region_dequeue(&mut stand, client);
                    region_enqueue(&mut stand, client);
                }
                rounds
            });
            let label = subject.label.clone();
            cost.rows.push(Row { label, nr_clients, select_wall_ns, sleep_wake_wall_ns, ..Row::default() });
        }
    }
    Ok(cost)
}
