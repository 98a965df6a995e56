//! Which experiments answer the questions? A start state each, that differs from balance in one thing, and is
//! released at an instant that the scheduler cannot know.
//!
//! | experiment | start state, on 4 CPUs | looked at |
//! |---|---|---|
//! | spread | [8,0,0,0] | does it spread, how fast, how often does it move later |
//! | intrinsic | [5,0,0,0] | five cannot share four CPUs evenly: who gets what |
//! | fall idle | [9,9,9,1], and the one sleeps | when does the CPU take its first task |
//! | idle | [9,9,9,0] | the same, of a CPU that has been idle |
//! | detect | [4+x,4+x,4+x,4] | when does the busy CPU take its first tasks, how many, when the next |
//! | threshold | [3+d,3,3,3] | does anything move |
//! | mixed | 4 heavy and 4 light on one CPU | is each CPU given one of each; CPU time of the heavy |
//! | mixed-bound | one of each bound to each CPU | what the heavy would have |
//! | priorities | 4 at nice -10, 4 at nice 10 | who shares a CPU, who is moved |
//! | capacity | as many as CPUs of the largest capacity, on a small one | do they end on those |
//! | weighted | one at nice -10, seven at nice 0 | has the one company in the end |
//! | wake, fork, exec | a sleeper, a parent, one that executes programs, beside hogs | where tasks are put |
//! | near and far | two long queues, one in another cache or node | which of them is taken from |
//! | far | all queues of the other caches or nodes are long | when does one of them give a task away |
//! | across | [3+d,3+d,3,3] on two caches or nodes | does anything cross |
//! | demand | 4 heavy and 4 light of another size on one CPU | what difference is left alone |
//! | sticky | one of 85 % and two heavy on one CPU; also after 16 others were there | what the one is given |
//! | reduced, little, sibling, isolated | a CPU that is easily overlooked ([`corners`]) | is it used, or left alone |

pub mod corners;

use crate::plan::{Act, Class, Plan, Step, Tasks};
use crate::scenario::Scenario;
use schedlab_machine::kernel::FileRequest;
use schedlab_stdx::Random;
use schedlab_topology::{Cpu, Topology};
use schedlab_units::{Span, TaskId};
use schedlab_workload::build::ENDLESS;
use schedlab_workload::{Builder, WorkloadBuildError};

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What the table of the paper needs, with fewer runs.
    Quick,
    /// Everything.
    Full,
}

/// A part of the machine that CPUs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The last-level cache.
    Cache,
    /// The NUMA node.
    Node,
}

impl Level {
    /// Which part a CPU belongs to.
    pub fn part(self, cpu: &Cpu) -> u32 {
        match self {
            Level::Cache => cpu.llc,
            Level::Node => cpu.node,
        }
    }

    /// Its short name, as in the identifiers of questions.
    pub fn name(self) -> &'static str {
        match self {
            Level::Cache => "llc",
            Level::Node => "numa",
        }
    }

    /// Whether the machine has more than one such part.
    pub fn exists(self, topology: &Topology) -> bool {
        let first = topology.cpus().first().map(|cpu| self.part(cpu));
        topology.cpus().iter().any(|cpu| Some(self.part(cpu)) != first)
    }
}

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the module's table says what each is
pub enum What {
    Spread,
    Intrinsic,
    FallIdle,
    Idle,
    Detect { base: u32, excess: u32 },
    Threshold { difference: u32 },
    Mixed,
    MixedBound,
    Priorities,
    Capacity,
    Weighted,
    Wake { all_busy: bool },
    Fork { all_busy: bool },
    Exec { all_busy: bool },
    Between { level: Level, both: bool },
    Across { level: Level, difference: u32 },
    Demand { percent: u32 },
    Sticky { warm: bool },
    Cores,
    Reduced,
    Little,
    Sibling,
    Isolated { cpu: u32 },
}

impl What {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            What::Spread => "spread".into(),
            What::Intrinsic => "intrinsic".into(),
            What::FallIdle => "fall-idle".into(),
            What::Idle => "idle".into(),
            What::Detect { base, excess } => format!("detect-{base}+{excess}"),
            What::Threshold { difference } => format!("threshold-{difference}"),
            What::Mixed => "mixed".into(),
            What::MixedBound => "mixed-bound".into(),
            What::Priorities => "priorities".into(),
            What::Capacity => "capacity".into(),
            What::Weighted => "weighted".into(),
            What::Wake { all_busy } => format!("wake-{}", if all_busy { "busy" } else { "idle" }),
            What::Fork { all_busy } => format!("fork-{}", if all_busy { "busy" } else { "idle" }),
            What::Exec { all_busy } => format!("exec-{}", if all_busy { "busy" } else { "idle" }),
            What::Between { level, both } => {
                format!("{}-{}", level.name(), if both { "near-and-far" } else { "far" })
            }
            What::Across { level, difference } => format!("{}-across-{difference}", level.name()),
            What::Demand { percent } => format!("demand-{percent}"),
            What::Sticky { warm } => format!("sticky-{}", if warm { "warm" } else { "cold" }),
            What::Cores => "cores".into(),
            What::Reduced => "reduced".into(),
            What::Little => "little".into(),
            What::Sibling => "sibling".into(),
            What::Isolated { cpu } => format!("isolated-{cpu}"),
        }
    }
}

/// The experiment of this name on this machine, if it is one of those that are made.
pub fn find(name: &str, topology: &Topology) -> Option<What> {
    let isolated = (0..topology.nr_cpus())
        .filter(|cpu| corners::sibling_of(topology, *cpu).is_some())
        .map(|cpu| What::Isolated { cpu });
    let all = experiments(topology, Depth::Full).into_iter().map(|(what, _)| what).chain(isolated);
    all.into_iter().find(|what| what.name() == name)
}

/// The differences that `detect` tries: tasks on the short queue, tasks more on the others.
pub const SHAPES: [(u32, u32); 6] = [(1, 3), (4, 4), (4, 8), (4, 16), (4, 32), (4, 64)];
/// The largest difference that `threshold` tries.
pub const THRESHOLD_MAX: u32 = 8;
/// How often a task is carried back to CPU 0 where it is asked where tasks are put.
const TIMES_CARRIED: u64 = 40;
/// Rounds in a run of several.
pub const ROUNDS: u64 = 8;

/// The experiments on this machine, each with its number of runs.
pub fn experiments(topology: &Topology, depth: Depth) -> Vec<(What, u64)> {
    let full = depth == Depth::Full;
    let runs = |quick, more| if full { more } else { quick };
    let mut list = vec![
        (What::Spread, runs(5, 12)),
        (What::Intrinsic, runs(4, 10)),
        (What::FallIdle, runs(2, 4)),
        (What::Idle, runs(2, 8)),
    ];
    if topology.nr_cpus() == 1 {
        return Vec::new();
    }
    // a shape's tasks all at once: no more than 1,300, so that 64 CPUs have one shape above all thresholds
    let fits = |(base, excess): &(u32, u32)| topology.nr_cpus() * (base + excess) <= 1300;
    list.extend(
        SHAPES
            .iter()
            .filter(|shape| fits(shape))
            .map(|(base, excess)| (What::Detect { base: *base, excess: *excess }, runs(1, 2))),
    );
    list.extend((1..=THRESHOLD_MAX).map(|difference| (What::Threshold { difference }, 1)));
    list.push((What::Mixed, runs(10, 24)));
    list.push((What::MixedBound, runs(4, 6)));
    list.push((What::Priorities, runs(4, 10)));
    list.push((What::Weighted, runs(4, 10)));
    if full {
        for all_busy in [false, true] {
            list.push((What::Wake { all_busy }, 2));
            list.push((What::Fork { all_busy }, 2));
            list.push((What::Exec { all_busy }, 2));
        }
        for level in [Level::Cache, Level::Node].into_iter().filter(|level| level.exists(topology)) {
            for both in [false, true] {
                list.push((What::Between { level, both }, 8));
            }
            list.extend(
                across(topology).into_iter().map(|difference| (What::Across { level, difference }, 1)),
            );
        }
        list.extend([5, 10, 60].map(|percent| (What::Demand { percent }, 6)));
        list.extend([false, true].map(|warm| (What::Sticky { warm }, 8)));
        if topology.is_asymmetric() {
            list.push((What::Capacity, 8));
        }
        list.push((What::Reduced, 24));
        if corners::large_and_small(topology).is_some() {
            list.push((What::Little, 96));
        }
        if has_siblings(topology) {
            list.push((What::Cores, 8));
        }
        if corners::last_core(topology).is_some() {
            list.push((What::Sibling, 10));
        }
    }
    list
}

/// What light tasks want of a CPU, in %, in the experiments on unequal demand: 30 is `mixed`.
pub const DEMANDS: [u32; 4] = [5, 10, 30, 60];

/// The differences that `across` tries: all on a small machine.
pub fn across(topology: &Topology) -> Vec<u32> {
    (1..=THRESHOLD_MAX).filter(|d| topology.nr_cpus() <= 16 || d.is_power_of_two()).collect()
}

/// Whether a core has several CPUs.
pub fn has_siblings(topology: &Topology) -> bool {
    let mut cores: Vec<u32> = topology.cpus().iter().map(|cpu| cpu.core).collect();
    cores.sort_unstable();
    cores.windows(2).any(|pair| pair[0] == pair[1])
}

/// The round's time: long enough for the slowest checks of a machine of this size.
pub fn round(topology: &Topology) -> Span {
    Span::from_ms(3000 * u64::from(topology.nr_cpus().div_ceil(8)))
}

/// The CPU whose queue is short (or, of one that is long, the only one): another one for each seed.
pub fn special(topology: &Topology, seed: u64) -> usize {
    ((seed - 1) % u64::from(topology.nr_cpus())) as usize
}

/// Each CPU's tasks in a round of `Between`: one near and one far queue are long; or all far ones, which leaves enough
/// for whoever comes last.
pub fn between(topology: &Topology, level: Level, special: usize, both: bool) -> Vec<u32> {
    let cpus = topology.cpus();
    let is_near = |cpu: usize| level.part(&cpus[cpu]) == level.part(&cpus[special]);
    let find = |near: bool| (0..cpus.len()).find(|cpu| is_near(*cpu) == near && *cpu != special);
    let (near, far) = (find(true), find(false));
    let is_long = |cpu: usize| match both {
        true => Some(cpu) == near || Some(cpu) == far,
        false => !is_near(cpu),
    };
    (0..cpus.len()).map(|cpu| if is_long(cpu) { 12 } else { 2 }).collect()
}

impl What {
    /// What is drawn with this seed: other times than in other experiments.
    pub fn drawn(self, seed: u64) -> u64 {
        let salt =
            self.name().bytes().fold(0u64, |salt, byte| salt.wrapping_mul(257).wrapping_add(u64::from(byte)));
        Random::for_part(seed, salt).next_u64()
    }

    /// The run of this seed on this machine.
    ///
    /// # Errors
    /// The workload breaks a rule of its model: never, for the machines that can be built.
    pub fn scenario(self, topology: &Topology, seed: u64) -> Result<Scenario, WorkloadBuildError> {
        let nr = topology.nr_cpus();
        let special = special(topology, seed);
        let one = |count: u32| -> Vec<u32> {
            (0..nr as usize).map(|cpu| if cpu == special { count } else { 0 }).collect()
        };
        let s = Span::from_s;
        match self {
            What::Spread => {
                let scenario = self.arranged(&one(2 * nr), s(10)).scenario(self.drawn(seed))?;
                Ok(Scenario { windows: vec![(s(2), s(10))], ..scenario })
            }
            What::Cores => self.arranged(&one(nr / 2), s(6)).scenario(self.drawn(seed)),
            What::Intrinsic => {
                let scenario = self.arranged(&one(nr + 1), s(16)).scenario(self.drawn(seed))?;
                Ok(Scenario { window: s(4), ..scenario })
            }
            What::Mixed => {
                let tasks = vec![Tasks::heavy("heavy", one(nr)), light(one(nr))];
                let scenario = self.released(tasks, nr, s(14)).scenario(self.drawn(seed))?;
                let at = scenario.marks[0].at;
                Ok(Scenario { windows: vec![(at + s(1), at + s(2)), (s(8), s(14))], ..scenario })
            }
            What::MixedBound => {
                let each = vec![1; nr as usize];
                let tasks = vec![Tasks::heavy("heavy", each.clone()), light(each)];
                let scenario = self.plan(nr, s(14), tasks).scenario(self.drawn(seed))?;
                Ok(Scenario { windows: vec![(s(2), s(3)), (s(8), s(14))], ..scenario })
            }
            What::Priorities => {
                let each = vec![1; nr as usize];
                let mut plan = self.arranged(&one(2 * nr), s(12));
                let high = Tasks { nice: -10, ..Tasks::heavy("high", each.clone()) };
                plan.tasks = vec![high, Tasks { nice: 10, ..Tasks::heavy("low", each) }];
                Ok(Scenario { window: s(6), ..plan.scenario(self.drawn(seed))? })
            }
            What::Capacity => {
                let most = topology.cpus().iter().map(|cpu| cpu.capacity).max().unwrap_or(0);
                let big = topology.cpus().iter().filter(|cpu| cpu.capacity == most).count() as u32;
                let least = topology.cpus().iter().map(|cpu| cpu.capacity).min().unwrap_or(0);
                let small = |cpu: &usize| topology.cpus()[*cpu].capacity == least;
                let at = (0..nr as usize).filter(small).nth(seed as usize % (nr - big) as usize).unwrap_or(0);
                let counts: Vec<u32> = (0..nr as usize).map(|cpu| if cpu == at { big } else { 0 }).collect();
                self.arranged(&counts, s(8)).scenario(self.drawn(seed))
            }
            What::Weighted => {
                let mut plan = self.arranged(&one(2 * nr), s(8));
                let weighty = Tasks { nice: -10, ..Tasks::heavy("weighty", vec![1]) };
                plan.tasks[0].counts[0] -= 1;
                plan.tasks.insert(0, weighty);
                plan.scenario(self.drawn(seed))
            }
            What::FallIdle | What::Idle => self.emptied(topology, seed),
            What::Detect { base, excess } => {
                let counts =
                    |low: usize| (0..nr as usize).map(|c| base + if c == low { 0 } else { excess }).collect();
                self.rounds(topology, seed, counts)
            }
            What::Threshold { difference } => {
                let counts = |high: usize| {
                    (0..nr as usize).map(|c| 3 + if c == high { difference } else { 0 }).collect()
                };
                self.rounds(topology, seed, counts)
            }
            What::Between { level, both } => {
                self.rounds(topology, seed, |low| between(topology, level, low, both))
            }
            What::Across { level, difference } => {
                let part = |cpu: usize| level.part(&topology.cpus()[cpu]);
                let counts = |high: usize| {
                    let longer = |cpu| if part(cpu) == part(high) { difference } else { 0 };
                    (0..nr as usize).map(|cpu| 3 + longer(cpu)).collect()
                };
                self.rounds(topology, seed, counts)
            }
            What::Demand { percent } => {
                let tasks = vec![Tasks::heavy("heavy", one(nr)), Tasks { percent, ..light(one(nr)) }];
                self.released(tasks, nr, s(14)).scenario(self.drawn(seed))
            }
            What::Sticky { warm } => {
                let scenario = self.beside_heavies([one(1), one(2), one(if warm { 16 } else { 0 })], s(12));
                Ok(Scenario { windows: vec![(s(11), s(12))], ..scenario.scenario(self.drawn(seed))? })
            }
            What::Wake { all_busy } => self.sleeper(nr, all_busy),
            What::Fork { all_busy } => self.parent(nr, all_busy),
            What::Exec { all_busy } => self.executor(nr, all_busy),
            What::Reduced => corners::reduced(self, nr, special as u32, self.drawn(seed)),
            What::Little => corners::little(self, topology, self.drawn(seed)),
            What::Sibling => corners::sibling(topology, self.drawn(seed)),
            What::Isolated { cpu } => corners::outside(topology, cpu, self.drawn(seed)),
        }
    }

    fn plan(self, nr_cpus: u32, duration: Span, tasks: Vec<Tasks>) -> Plan {
        Plan { name: self.name(), cpus: nr_cpus, duration, repeats: 1, tasks, steps: Vec::new() }
    }

    /// A task that wants 85 % of its CPU, beside heavy ones; others are there for the first 10 s. All are bound.
    fn beside_heavies(self, [light, heavy, load]: [Vec<u32>; 3], duration: Span) -> Plan {
        let nr = light.len() as u32;
        let (percent, mean) = (85, Span::from_ms(17));
        let light = Tasks { class: Class::Light, percent, mean, ..Tasks::heavy("light", light) };
        let tasks = vec![light, Tasks::heavy("heavy", heavy), Tasks::heavy("load", load)];
        let end = Step { tasks: Some("load".into()), ..Step::at(Span::from_s(10), Act::End) };
        Plan { steps: vec![end], ..self.plan(nr, duration, tasks) }
    }

    /// Hogs that are spread evenly and bound at first, and arranged so at one instant. (Were they bound as they are to
    /// be arranged, an idle CPU would find nothing that it may take, again and again, and look less and less often:
    /// Linux does.)
    fn arranged(self, counts: &[u32], duration: Span) -> Plan {
        let (nr, total) = (counts.len() as u32, counts.iter().sum::<u32>());
        let evenly = (0..nr).map(|cpu| total / nr + u32::from(cpu < total % nr)).collect();
        let step = Step::drawn(Span::from_s(1), Span::from_s(2), Act::Arrange).counts(counts);
        Plan { steps: vec![step], ..self.plan(nr, duration, vec![Tasks::heavy("hog", evenly)]) }
    }

    /// All are bound for a second at least, then released.
    fn released(self, tasks: Vec<Tasks>, nr_cpus: u32, duration: Span) -> Plan {
        let step = Step::drawn(Span::from_s(1), Span::from_s(2), Act::Release);
        Plan { steps: vec![step], ..self.plan(nr_cpus, duration, tasks) }
    }

    /// An arrangement each [`round`], at a drawn time in its first third; the special CPU is another one in each.
    fn rounds(
        self,
        topology: &Topology,
        seed: u64,
        counts: impl Fn(usize) -> Vec<u32>,
    ) -> Result<Scenario, WorkloadBuildError> {
        let nr = topology.nr_cpus();
        let length = round(topology);
        let mut plan = self.plan(nr, Span::from_ns(length.as_ns() * (ROUNDS + 1)), Vec::new());
        for number in 0..ROUNDS {
            let special = special(topology, seed + number);
            if number == 0 {
                plan.tasks.push(Tasks::heavy("hog", counts(special)));
                // were they bound for long, Linux's balancers would look less and less often, up to each 0.4 s
                plan.steps.push(Step::at(Span::from_ms(1), Act::Release));
            }
            let from = Span::from_ns(length.as_ns() * (number + 1));
            let to = from + Span::from_ns(length.as_ns() / 3);
            plan.steps.push(Step::drawn(from, to, Act::Arrange).counts(&counts(special)));
        }
        plan.scenario(self.drawn(seed))
    }

    /// A task is alone on the special CPU, and sleeps: just after many others come to the other CPUs, or long before.
    /// Those others are bound only while they sleep: a balancer that finds nothing but bound tasks may look less often
    /// from then on.
    fn emptied(self, topology: &Topology, seed: u64) -> Result<Scenario, WorkloadBuildError> {
        let nr = topology.nr_cpus();
        let special = special(topology, seed);
        let on_others = |count: u32| -> Vec<u32> {
            (0..nr as usize).map(|cpu| if cpu == special { 0 } else { count }).collect()
        };
        let length = round(topology);
        let many = Tasks { asleep: true, ..Tasks::heavy("many", on_others(8)) };
        let tasks = vec![Tasks::heavy("hog", on_others(1)), many];
        let mut plan = self.plan(nr, Span::from_ns(length.as_ns() * (ROUNDS + 1)), tasks);
        let mut random = Random::for_part(self.drawn(seed), 1 << 40);
        let (mut leaves, mut comes) = (Vec::new(), Vec::new());
        let of = |name: &str, step: Step| Step { tasks: Some(name.to_string()), ..step };
        for number in 1..=ROUNDS {
            let alone = Span::from_ms(150) + Span::from_ns(random.below(100_000_000));
            let part = |random: &mut Random, of: u64| Span::from_ns(random.below(length.as_ns() / of));
            let leaves_at = Span::from_ns(length.as_ns() * number) + part(&mut random, 3);
            let (leaves_at, comes_at) = match self {
                What::FallIdle => (leaves_at, leaves_at - Span::from_us(10)),
                // the sum of two draws: its remainder by any interval up to half a second is uniform to some per cent,
                // where a single draw favours some remainders, and times to the next check would not be uniform
                _ => {
                    let idle = Span::from_ms(100) + part(&mut random, 5) + part(&mut random, 5);
                    let leaves_at = Span::from_ns(length.as_ns() * number) + part(&mut random, 6);
                    (leaves_at, leaves_at + idle)
                }
            };
            // all that came have a CPU and go to sleep again; each hog has a CPU, and the special one is left alone
            plan.steps.push(of("many", Step::at(leaves_at - alone - Span::from_ms(300), Act::Stop)));
            plan.steps.push(of("hog", Step::at(leaves_at - alone, Act::Arrange).counts(&on_others(1))));
            plan.steps.push(of("many", Step::at(leaves_at - alone, Act::Bind)));
            plan.steps.push(of("many", Step::at(comes_at, Act::Release)));
            leaves.push((leaves_at, alone));
            comes.push(comes_at);
        }
        let mut scenario = plan.scenario(self.drawn(seed))?;
        let many: Vec<TaskId> =
            scenario.marks.iter().find(|mark| mark.act == Act::Stop).map_or(Vec::new(), |m| m.tasks.clone());
        // there is nobody to stop before the first round
        scenario.actions.retain(|action| action.at > comes[0] || !action.files.iter().any(is_cut));
        let mut builder = Builder::of(scenario.workload);
        for task in &many {
            let mut since = Span::ZERO;
            for at in &comes {
                builder.life(*task).sleep_until(*at - since).run(ENDLESS).block();
                since = *at;
            }
        }
        let mut life = builder.task("leaver").cpu(special as u32).blocked();
        let mut since = Span::ZERO;
        for (at, alone) in leaves {
            life = life.sleep_until(at - alone - since).run(alone).block();
            since = at - alone;
        }
        let workload = builder.finish()?;
        Ok(Scenario { workload, ..scenario })
    }

    /// Hogs bound to CPUs, of other lengths each if all are busy: long where the task was, and shortest on the third
    /// CPU.
    fn hogs(nr_cpus: u32, all_busy: bool) -> Vec<u32> {
        match all_busy {
            false => vec![1],
            true => (0..nr_cpus).map(|cpu| [4, 2, 1, 3][cpu as usize % 4] + 2 * u32::from(cpu > 3)).collect(),
        }
    }

    /// A waker on CPU 1 wakes a sleeper that was last on CPU 0.
    fn sleeper(self, nr_cpus: u32, all_busy: bool) -> Result<Scenario, WorkloadBuildError> {
        let one = Tasks { asleep: true, ..Tasks::heavy("sleeper", vec![1]) };
        let (mut scenario, sleeper) = self.carried(nr_cpus, all_busy, one)?;
        let mut builder = Builder::of(scenario.workload);
        // it has a CPU when it should: hogs are many
        let waker = builder.task("waker").fifo(50).cpu(1.min(nr_cpus - 1)).id();
        for _ in 0..TIMES_CARRIED * 5 {
            let (before, after, pause) = (Span::from_us(200), Span::from_us(100), Span::from_us(19_700));
            builder.life(waker).run(before).wakes(sleeper).run(after).sleep(pause);
            builder.life(sleeper).run(Span::from_us(300));
        }
        builder.life(sleeper).block();
        builder.life(waker).run(ENDLESS).exit();
        scenario.workload = builder.finish()?;
        scenario.watched = vec![sleeper];
        Ok(scenario)
    }

    /// One task on CPU 0, beside hogs, that is carried back there again and again; its life is still to come.
    fn carried(
        self,
        nr_cpus: u32,
        all_busy: bool,
        one: Tasks,
    ) -> Result<(Scenario, TaskId), WorkloadBuildError> {
        let steps = again_and_again(&one.name, TIMES_CARRIED);
        let tasks = vec![Tasks::heavy("hog", What::hogs(nr_cpus, all_busy)), one];
        let plan = Plan { steps, ..self.plan(nr_cpus, Span::from_ms(100 * (TIMES_CARRIED + 2)), tasks) };
        let mut scenario = plan.scenario(1)?;
        let task = TaskId(scenario.workload.tasks.len() as u32 - 1);
        scenario.workload.tasks[task.index()].events.clear();
        Ok((scenario, task))
    }

    /// A parent on CPU 0 has a child now and then.
    fn parent(self, nr_cpus: u32, all_busy: bool) -> Result<Scenario, WorkloadBuildError> {
        let (mut scenario, parent) = self.carried(nr_cpus, all_busy, Tasks::heavy("parent", vec![1]))?;
        let mut builder = Builder::of(scenario.workload);
        for _ in 0..600 {
            let child = builder.life(parent).run(Span::from_ms(3)).fork("child");
            builder.life(child).run(Span::from_us(200)).exit();
            scenario.watched.push(child);
        }
        builder.life(parent).run(ENDLESS).exit();
        scenario.workload = builder.finish()?;
        Ok(scenario)
    }

    /// A task on CPU 0 executes a new program now and then.
    fn executor(self, nr_cpus: u32, all_busy: bool) -> Result<Scenario, WorkloadBuildError> {
        let (mut scenario, task) = self.carried(nr_cpus, all_busy, Tasks::heavy("program", vec![1]))?;
        let mut builder = Builder::of(scenario.workload);
        for _ in 0..1500 {
            builder.life(task).run(Span::from_ms(3)).executes();
        }
        builder.life(task).run(ENDLESS).exit();
        scenario.workload = builder.finish()?;
        scenario.watched = vec![task];
        Ok(scenario)
    }
}

fn light(counts: Vec<u32>) -> Tasks {
    Tasks { class: Class::Light, percent: 30, ..Tasks::heavy("light", counts) }
}

fn is_cut(file: &FileRequest) -> bool {
    matches!(file, FileRequest::Cut { .. })
}

/// The named tasks are carried to CPU 0 again and again, and released a little later.
fn again_and_again(tasks: &str, times: u64) -> Vec<Step> {
    let step = |ms, act| Step { tasks: Some(tasks.to_string()), ..Step::at(Span::from_ms(ms), act) };
    (1..=times).flat_map(|n| [step(100 * n, Act::Bind), step(100 * n + 30, Act::Release)]).collect()
}
