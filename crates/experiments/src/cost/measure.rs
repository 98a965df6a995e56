//! Timings on the test bench, in this process.

use super::{Config, Cost, CostError, ProbeCommand, Row, Times};
use schedlab_lab::{FailureKind, Subject};
use schedlab_machine::bench::PolicyBench;
use schedlab_machine::policy::{Policy, Stop};
use schedlab_stdx::Random;
use schedlab_stdx::percentile::upper_median;
use schedlab_units::{CpuId, Nice, SchedParams, Span, TaskId};
use std::process::Command;
use std::time::{Duration, Instant};

pub(super) type AnyBench = PolicyBench<Box<dyn Policy>>;

pub(super) const CPU: CpuId = CpuId(0);
pub(super) const QUANTUM: Span = Span::from_ms(10);
/// A batch lasts at least this long, so that the clock's resolution does not matter, and not much longer, so
/// that some are not interrupted.
const BATCH: Duration = Duration::from_micros(200);
/// Expensive operations are timed for this long if that makes ...
const LONGEST: Duration = Duration::from_millis(500);
/// ... so many batches.
const FEWEST: usize = 5;

/// N runnable clients, one of them current. Nice values ascend with ids: each joins behind those before it.
pub(super) fn bench(policy: Box<dyn Policy>, nr_clients: u32) -> AnyBench {
    let mut bench = PolicyBench::new(policy, 1, nr_clients);
    for id in 0..nr_clients {
        let nice = Nice::new((u64::from(id) * 40 / u64::from(nr_clients)) as i32 - 20).expect("-20 to 19");
        bench.create(TaskId(id), SchedParams::normal(nice));
        bench.wake(TaskId(id));
    }
    bench.pick(CPU);
    bench
}

/// Ends the current client's quantum and chooses the next, so often.
#[inline(never)]
pub(super) fn region_select(bench: &mut AnyBench, rounds: u64) {
    for _ in 0..rounds {
        bench.put(CPU, QUANTUM, Stop::Preempted);
        bench.pick(CPU);
    }
}

#[inline(never)]
pub(super) fn region_dequeue(bench: &mut AnyBench, client: TaskId) {
    bench.dequeue(client);
}

#[inline(never)]
pub(super) fn region_enqueue(bench: &mut AnyBench, client: TaskId) {
    bench.wake(client);
}

/// A random client that waits; none if there is but the current one.
pub(super) fn waiting(bench: &AnyBench, random: &mut Random, nr_clients: u32) -> Option<TaskId> {
    let current = bench.view().current(CPU)?;
    (nr_clients > 1).then(|| {
        let other = random.below(u64::from(nr_clients) - 1) as u32;
        TaskId(if other >= current.0 { other + 1 } else { other })
    })
}

/// Host ns per round of `run`, which makes the number of rounds given and returns how many it made: the least
/// of so many batches, and by how many percent the middle one was longer.
fn timed(repetitions: u32, mut run: impl FnMut(u64) -> u64) -> Option<(f64, f64)> {
    let mut rounds = 16;
    let mut each_ns = Vec::new();
    let begun = Instant::now();
    while each_ns.len() < repetitions.max(1) as usize {
        let started = Instant::now();
        let made = run(rounds);
        let elapsed = started.elapsed();
        if made == 0 {
            return None;
        }
        if elapsed < BATCH && rounds < 1 << 30 {
            rounds *= 2;
            continue;
        }
        if elapsed > 8 * BATCH && rounds > 1 && each_ns.is_empty() {
            // an expensive operation, or an interruption
            rounds = (rounds / 4).max(1);
        }
        each_ns.push(elapsed.as_nanos() as f64 / made as f64);
        if begun.elapsed() > LONGEST && each_ns.len() >= FEWEST {
            break;
        }
    }
    each_ns.sort_by(f64::total_cmp);
    let (least, middle) = (each_ns.first()?, upper_median(&each_ns)?);
    Some((*least, (middle / least - 1.0) * 100.0))
}

/// Measures host time of every subject at every number of clients, real Linux in processes of their own;
/// `seen` hears what is next.
pub fn measure(config: &Config, probe: &ProbeCommand, seen: &dyn Fn(&str, u32)) -> Result<Cost, CostError> {
    let mut cost = Cost::default();
    for subject in &config.subjects {
        if subject.linux().is_some_and(|linux| linux.scx.is_some()) {
            return Err(super::refuses_scx(&subject.label).into());
        }
        for &nr_clients in config.clients.iter().filter(|&&n| config.measures(subject, n)) {
            seen(&subject.label, nr_clients);
            let Times { select_wall_ns, sleep_wake_wall_ns, noise_pct } = match subject.policy() {
                Some(policy) => on_bench(policy, config.repetitions, nr_clients),
                None => in_process(subject, probe, config.repetitions, nr_clients)?,
            };
            let label = subject.label.clone();
            let times = Row { select_wall_ns, sleep_wake_wall_ns, noise_pct, ..Row::default() };
            cost.rows.push(Row { label, nr_clients, ..times });
        }
    }
    Ok(cost)
}

fn on_bench(policy: Box<dyn Policy>, repetitions: u32, nr_clients: u32) -> Times {
    let mut bench = bench(policy, nr_clients);
    let select = timed(repetitions, |rounds| {
        region_select(&mut bench, rounds);
        rounds
    });
    let mut random = Random::new(u64::from(nr_clients));
    let sleep_wake = timed(repetitions, |rounds| {
        for made in 0..rounds {
            let Some(client) = waiting(&bench, &mut random, nr_clients) else { return made };
            region_dequeue(&mut bench, client);
            region_enqueue(&mut bench, client);
        }
        rounds
    });
    Times {
        select_wall_ns: select.map(|(ns, _)| ns),
        sleep_wake_wall_ns: sleep_wake.map(|(ns, _)| ns),
        noise_pct: select.map(|(_, noise)| noise),
    }
}

/// The least of several processes' medians.
fn in_process(
    subject: &Subject,
    probe: &ProbeCommand,
    repetitions: u32,
    nr_clients: u32,
) -> Result<Times, CostError> {
    let failed =
        |kind, problem| CostError::Process { label: subject.label.clone(), nr_clients, problem, kind };
    let mut least = Times::default();
    for _ in 0..repetitions.clamp(1, 3) {
        let output = Command::new(&probe.program)
            .args(probe.arguments_for(subject, nr_clients))
            .output()
            .map_err(|error| failed(FailureKind::Input, error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let times: Option<Times> = text.lines().last().and_then(Times::parse);
        let times = times.filter(|_| output.status.success()).ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
            match output.status.code() {
                Some(code) => failed(FailureKind::of_exit_status(code), said),
                // it died of a signal: of a crash, or of a call that its cage refuses
                None => failed(
                    FailureKind::Misbehaved,
                    format!("{} {said}", schedlab_process::ended(output.status)),
                ),
            }
        })?;
        let less = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        least.select_wall_ns = less(least.select_wall_ns, times.select_wall_ns);
        least.sleep_wake_wall_ns = less(least.sleep_wake_wall_ns, times.sleep_wake_wall_ns);
    }
    Ok(least)
}

impl Times {
    /// As [`print`](Times::print) wrote it.
    fn parse(line: &str) -> Option<Times> {
        let mut numbers = line.strip_prefix("times ")?.split(' ').map(|word| word.parse::<f64>().ok());
        Some(Times { select_wall_ns: numbers.next()?, sleep_wake_wall_ns: numbers.next()?, noise_pct: None })
    }

    /// One line for the process that started the probe: `times 812 1031`, `-` for what did not occur.
    pub fn print(&self) -> String {
        let word = |ns: Option<f64>| ns.map_or("-".to_string(), |ns| ns.to_string());
        format!("times {} {}", word(self.select_wall_ns), word(self.sleep_wake_wall_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_and_read() {
        let times = Times { select_wall_ns: Some(812.5), ..Times::default() };
        assert_eq!(times.print(), "times 812.5 -");
        assert_eq!(Times::parse(&times.print()), Some(times));
        assert_eq!(Times::parse("warning"), None);
    }
}
