//! What does the machine itself cost per event, against the number of CPUs and of tasks?
//!
//! A cheap policy (FIFO decides in constant time) on machines and workloads of many sizes. [`drive`] does one
//! run and says how many events there were; valgrind counts the instructions of two runs of different length,
//! and the difference of the counts divided by that of the events is the cost of an event: start, boot and
//! end cancel out. scripts/bench-flat.sh does that.
//!
//! ```text
//! load          tasks work 4 ms and sleep                      what it shows
//! steady        so long that 80 % of the CPUs are busy         many sleepers, short queues
//! crowded       6 ms                                           long queues: all but a few tasks wait
//! together      as steady, all starting at one instant         many events at one instant
//! ```

use schedlab_machine::native::Native;
use schedlab_machine::sink::Spill;
use schedlab_machine::{End, Machine, Program, Setup};
use schedlab_policies::PolicyInfo;
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::{Builder, Workload};

/// How much tasks sleep, and when they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// 80 % of the CPUs are busy.
    Steady,
    /// Most tasks wait.
    Crowded,
    /// As steady, in step.
    Together,
}

/// A load that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no load '{0}'; there are steady, crowded, together")]
pub struct ParseLoadError(String);

impl std::str::FromStr for Load {
    type Err = ParseLoadError;
    fn from_str(text: &str) -> Result<Load, ParseLoadError> {
        match text {
            "steady" => Ok(Load::Steady),
            "crowded" => Ok(Load::Crowded),
            "together" => Ok(Load::Together),
            other => Err(ParseLoadError(other.to_string())),
        }
    }
}

const WORK: Span = Span::from_ms(4);

fn workload(load: Load, nr_cpus: u32, nr_tasks: u32, length: Span) -> Workload {
    // work / (work + sleep) x tasks = 0.8 x CPUs
    let steady_ns = WORK.as_ns() * u64::from(nr_tasks) * 5 / (u64::from(nr_cpus) * 4) - WORK.as_ns();
    let sleep_ns = if load == Load::Crowded { 6_000_000 } else { steady_ns };
    let period_ns = WORK.as_ns() + sleep_ns;
    let mut builder = Builder::new();
    for id in 0..nr_tasks {
        let start_ns = match load {
            Load::Together => 0,
            _ => period_ns * u64::from(id) / u64::from(nr_tasks),
        };
        let mut life = builder.task("").blocked().sleep(Span::from_ns(start_ns));
        // not more rounds than fit: a crowded task waits for all others in between
        let least_round_ns = match load {
            Load::Crowded => period_ns.max(WORK.as_ns() * u64::from(nr_tasks / nr_cpus)),
            _ => period_ns,
        };
        for _ in 0..length.as_ns() / least_round_ns + 2 {
            life = life.run(WORK).sleep(Span::from_ns(sleep_ns));
        }
        life.run(WORK).exit();
    }
    builder.finish().expect("tasks that work and sleep keep the rules")
}

/// Runs the policy, with the log on, for `length` and returns the number of events. The tasks' programs are
/// long enough for `longest`: of two runs with equal programs only the loop differs.
///
/// # Panics
/// If the policy misbehaves, or if its parameters' defaults do not fit.
pub fn drive(
    policy: &PolicyInfo,
    load: Load,
    nr_cpus: u32,
    nr_tasks: u32,
    length: Span,
    longest: Span,
) -> u64 {
    let policy = policy.build(&[]).expect("a policy's defaults fit");
    let topology = Topology::flat(nr_cpus).expect("1 to 1,024 CPUs");
    let workload = workload(load, nr_cpus, nr_tasks, longest.max(length));
    let program = Program::new(&workload).expect("a valid workload");
    drop(workload);
    let setup = Setup { topology, duration: Some(length), params: Vec::new() };
    let mut machine = Machine::new(Native::new(policy, Spill::new(std::io::sink())), program, setup);
    let outcome = machine.run();
    assert_eq!(outcome.end, End::Duration, "tasks have work for the whole run");
    outcome.events
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_policies::find;

    /// Per round a task is woken and blocks; whoever wakes kicks a CPU that is idle, or waits. So events per
    /// round are 2 or 3, whatever the size: the loads are what they say.
    #[test]
    fn events_follow_the_work_done() {
        let fifo = find("fifo").unwrap();
        for (load, nr_cpus, nr_tasks) in [
            (Load::Steady, 4, 8),
            (Load::Steady, 64, 128),
            (Load::Steady, 4, 1_000),
            (Load::Crowded, 4, 1_000),
            (Load::Together, 16, 32),
        ] {
            let busy = if load == Load::Crowded { 1.0 } else { 0.8 };
            let rounds = busy * f64::from(nr_cpus) * 1000.0 / 4.0 * 2.0;
            let events = drive(fifo, load, nr_cpus, nr_tasks, Span::from_s(2), Span::ZERO) as f64;
            assert!(
                events > 1.8 * rounds && events < 3.3 * rounds,
                "{load:?} {nr_cpus} {nr_tasks}: {events}, {rounds}"
            );
        }
        assert!("busy".parse::<Load>().is_err());
    }
}
