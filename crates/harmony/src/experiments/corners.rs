//! Which CPUs may be overlooked? Each of these start states has one CPU that a balancer may forget, and a task for it.
//!
//! | experiment | start state | looked at |
//! |---|---|---|
//! | reduced | a hog on one CPU, of which a real-time task takes 30 %; the others are idle | when does the hog leave |
//! | little | one task a CPU, but two on a large one and none on a small one | when does the small one get a task |
//! | sibling | all CPUs busy but the second of the last core; a task of the first CPU may come to that core, for 20 ms of each 40 | is it ever taken by the busy CPU |
//! | isolated-N | all CPUs busy but CPU N, which `boot.isolcpus` leaves out | is a sleeper woken there |

use super::What;
use crate::plan::{Act, Plan, Step, Tasks};
use crate::scenario::Scenario;
use schedlab_lab::Subject;
use schedlab_stdx::Random;
use schedlab_topology::{Cpu, Topology};
use schedlab_units::{CpuId, CpuSet, Span, TaskId};
use schedlab_workload::build::ENDLESS;
use schedlab_workload::{Builder, ParamChange, WorkloadBuildError};

/// How often the last core is opened to a task in a run of `sibling`.
pub const OPENED: u64 = 1000;

/// The two CPUs of the last core that has two: the first of them, and the second.
pub fn last_core(topology: &Topology) -> Option<[u32; 2]> {
    let cpus = topology.cpus();
    let of = |core: u32| (0..cpus.len()).filter(move |cpu| cpus[*cpu].core == core).map(|cpu| cpu as u32);
    let mut pairs = cpus.iter().rev().filter_map(|cpu| {
        let mut siblings = of(cpu.core);
        Some([siblings.next()?, siblings.next()?])
    });
    pairs.find(|pair| pair[0] != 0)
}

/// A large CPU, another large one, and a small one: the first two of the largest capacity, the last of the smallest.
pub fn large_and_small(topology: &Topology) -> Option<[u32; 3]> {
    let cpus = topology.cpus();
    let most = cpus.iter().map(|cpu| cpu.capacity).max()?;
    let least = cpus.iter().map(|cpu| cpu.capacity).min().filter(|least| *least < most)?;
    let is = |capacity: u32| move |(_, cpu): &(usize, &Cpu)| cpu.capacity == capacity;
    let mut large = cpus.iter().enumerate().filter(is(most)).map(|(cpu, _)| cpu as u32);
    let small = cpus.iter().enumerate().rfind(is(least)).map(|(cpu, _)| cpu as u32);
    Some([large.next()?, large.next()?, small?])
}

/// The experiment on a CPU that this subject leaves out of balancing, and whose core has another.
pub fn isolated(subject: &Subject, topology: &Topology) -> Option<What> {
    let (_, list) = subject.params.iter().find(|(name, _)| name == "boot.isolcpus")?;
    // flags come first: domain,managed_irq,2-3
    let numbers = list.trim_start_matches(|c: char| !c.is_ascii_digit());
    let isolated: CpuSet = numbers.parse().ok()?;
    let cpus = topology.cpus();
    let is_out = |cpu: usize| isolated.iter().any(|out| out.index() == cpu);
    let sibling = |cpu: usize| {
        (0..cpus.len()).any(|other| other != cpu && cpus[other].core == cpus[cpu].core && !is_out(other))
    };
    (0..cpus.len()).find(|cpu| is_out(*cpu) && sibling(*cpu)).map(|cpu| What::Isolated { cpu: cpu as u32 })
}

/// Another CPU of the same core.
pub fn sibling_of(topology: &Topology, cpu: u32) -> Option<u32> {
    let cpus = topology.cpus();
    let core = cpus.get(cpu as usize)?.core;
    (0..cpus.len() as u32).find(|other| *other != cpu && cpus[*other as usize].core == core)
}

fn on(nr: u32, cpu: u32, count: u32) -> Vec<u32> {
    (0..nr).map(|each| if each == cpu { count } else { 0 }).collect()
}

fn to(cpus: impl IntoIterator<Item = u32>) -> CpuSet {
    cpus.into_iter().map(CpuId).collect()
}

fn may(target: Option<TaskId>, cpus: CpuSet) -> ParamChange {
    ParamChange { target, affinity: Some(cpus), ..ParamChange::default() }
}

/// Adds a hog that is bound to this CPU.
fn hog(builder: &mut Builder, cpu: u32) -> TaskId {
    builder.task("hog").cpu(cpu).run(ENDLESS).exit().id()
}

/// The real-time task runs for 0.3 ms of each: balancers look at ticks, and in seven of ten runs it sleeps at those.
pub(super) fn reduced(what: What, nr: u32, cpu: u32, seed: u64) -> Result<Scenario, WorkloadBuildError> {
    let (run, pause, duration) = (Span::from_us(300), Span::from_us(700), Span::from_s(6));
    let start = Span::from_s(1) + Span::from_ns(Random::for_part(seed, 1).below(1_000_000_000));
    // it is bound for a moment only: a balancer that finds nothing but bound tasks may look less often from then on
    let steps = vec![Step::at(start, Act::Start), Step::at(start + Span::from_ms(1), Act::Release)];
    let tasks = vec![Tasks { asleep: true, ..Tasks::heavy("hog", on(nr, cpu, 1)) }];
    let scenario = Plan { steps, ..what.plan(nr, duration, tasks) }.scenario(seed)?;
    let mut builder = Builder::of(scenario.workload);
    let mut life = builder.task("taker").fifo(50).cpu(cpu);
    for _ in 0..duration.as_ns() / (run + pause).as_ns() {
        life = life.run(run).sleep(pause);
    }
    life.run(run).exit();
    Ok(Scenario { workload: builder.finish()?, ..scenario })
}

/// The two have had a large CPU each for a second, and sleep for a millisecond: as sleepers they are remembered as
/// tasks that fill a large CPU. Then they are together, and all are released at once: a balancer that finds nothing but
/// bound tasks may look less often from then on.
pub(super) fn little(what: What, topology: &Topology, seed: u64) -> Result<Scenario, WorkloadBuildError> {
    let nr = topology.nr_cpus();
    let [first, second, small] = large_and_small(topology).expect("asked of such machines only");
    let (alone, pause, warm) = (Span::from_s(1), Span::from_ms(1), Span::from_ms(100));
    let alone = alone + Span::from_ns(Random::for_part(seed, 1).below(300_000_000));
    let together = alone + pause + pause;
    let mut plan = what.plan(nr, Span::from_ms(2_500), vec![Tasks::heavy("pair", on(nr, first, 2))]);
    // the small CPUs have been busy for a while; the second large one is left by one of the two first
    let rest = (0..nr).map(|cpu| u32::from(![first, second, small].contains(&cpu))).collect();
    let starts = [("rest", rest, alone - warm), ("follower", on(nr, second, 1), together + pause)];
    for (name, counts, at) in starts {
        plan.tasks.push(Tasks { asleep: true, ..Tasks::heavy(name, counts) });
        plan.steps.push(Step { tasks: Some(name.into()), ..Step::at(at, Act::Start) });
    }
    plan.steps.push(Step::at(together + pause + pause, Act::Release));
    let mut scenario = plan.scenario(seed)?;
    let pair = [TaskId(0), TaskId(1)];
    for task in pair {
        scenario.workload.tasks[task.index()].events.clear();
    }
    let mut builder = Builder::of(scenario.workload);
    builder.life(pair[0]).run(alone).sleep(pause).run(ENDLESS).exit();
    let apart = builder.life(pair[1]).cpu(second).run(alone).sleep(pause);
    apart.run(pause).set(may(None, to([first]))).run(ENDLESS).exit();
    scenario.workload = builder.finish()?;
    Ok(scenario)
}

/// The task that comes and goes has company at home, so that it is worth being taken.
pub(super) fn sibling(topology: &Topology, seed: u64) -> Result<Scenario, WorkloadBuildError> {
    let nr = topology.nr_cpus();
    let [busy, idle] = last_core(topology).expect("asked of such machines only");
    let (open, closed) = (Span::from_us(20_123), Span::from_us(20_456));
    let mut random = Random::for_part(seed, 1);
    let mut builder = Builder::new();
    let watched = builder.task("wanderer").cpu(0).run(ENDLESS).exit().id();
    hog(&mut builder, 0);
    for cpu in (0..nr).filter(|cpu| *cpu != idle) {
        hog(&mut builder, cpu);
    }
    let opener = builder.task("opener").fifo(50).cpu(0).id();
    let mut life = builder.life(opener).start(Span::from_ms(100) + Span::from_us(random.below(40_000)));
    for _ in 0..OPENED {
        life = life.set(may(Some(watched), to([0, busy, idle]))).sleep(open);
        life = life.set(may(Some(watched), to([0]))).sleep(closed);
    }
    life.run(Span::from_us(1)).exit();
    let duration = Span::from_ns((open + closed).as_ns() * (OPENED + 5));
    Ok(Scenario { workload: builder.finish()?, duration, watched: vec![watched], ..Scenario::default() })
}

/// The sleeper may go anywhere; it begins on the other CPU of that core.
pub(super) fn outside(topology: &Topology, cpu: u32, seed: u64) -> Result<Scenario, WorkloadBuildError> {
    let nr = topology.nr_cpus();
    let sibling = sibling_of(topology, cpu).unwrap_or(0);
    let mut random = Random::for_part(seed, 1);
    let mut builder = Builder::new();
    let watched = builder.task("sleeper").cpu(sibling).id();
    for other in (0..nr).filter(|other| *other != cpu) {
        hog(&mut builder, other);
    }
    let mut life = builder.life(watched).start(Span::from_ms(5));
    life = life.run(Span::from_us(500)).set(may(None, to(0..nr)));
    for _ in 0..200 {
        life = life.run(Span::from_us(500)).sleep(Span::from_ms(8) + Span::from_us(random.below(4_000)));
    }
    life.run(Span::from_us(500)).exit();
    let duration = Span::from_s(5);
    Ok(Scenario { workload: builder.finish()?, duration, watched: vec![watched], ..Scenario::default() })
}
