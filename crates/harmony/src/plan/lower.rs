//! How does a plan become a run? Tasks become a workload, steps become actions of the experimenter.

use super::{Act, Class, Plan, PolicyWord, Step, Tasks};
use crate::scenario::{Mark, Scenario};
use schedlab_machine::kernel::{Action, Change, FileRequest};
use schedlab_stdx::Random;
use schedlab_units::{CpuId, CpuSet, Nice, SchedParams, SchedPolicy, Span, TaskId};
use schedlab_workload::build::ENDLESS;
use schedlab_workload::{Builder, Cgroup, CgroupId, WorkloadBuildError};

/// Streams of random numbers: the steps' times, then a stream per task.
const STEPS: u64 = 1 << 32;

/// The state of a plan while its steps are gone through in order of time.
struct Lowering<'a> {
    plan: &'a Plan,
    /// The tasks of each row of `plan.tasks`.
    rows: Vec<Vec<TaskId>>,
    /// Where each task is bound to, or was last.
    homes: Vec<u32>,
    actions: Vec<Action>,
    marks: Vec<Mark>,
}

impl Plan {
    /// The run of this seed.
    ///
    /// # Errors
    /// The workload breaks a rule of its model.
    pub fn scenario(&self, seed: u64) -> Result<Scenario, WorkloadBuildError> {
        let mut times = Random::for_part(seed, STEPS);
        let mut steps: Vec<(Span, &Step)> =
            self.steps.iter().map(|step| (step.time(&mut times), step)).collect();
        steps.sort_by_key(|(at, _)| *at);
        let mut builder = Builder::new();
        let mut lowering = Lowering {
            plan: self,
            rows: Vec::new(),
            homes: Vec::new(),
            actions: Vec::new(),
            marks: Vec::new(),
        };
        for tasks in &self.tasks {
            let group = tasks.group.as_ref().map(|path| {
                builder.cgroup(Cgroup { path: path.clone(), weight: tasks.weight, ..Cgroup::default() })
            });
            let mine: Vec<(Span, Act)> = steps
                .iter()
                .filter(|(_, step)| step.tasks.as_ref().is_none_or(|name| *name == tasks.name))
                .map(|(at, step)| (*at, step.act))
                .collect();
            let mut row = Vec::new();
            for (cpu, count) in tasks.counts.iter().enumerate() {
                for _ in 0..*count {
                    let random = Random::for_part(seed, lowering.homes.len() as u64);
                    row.push(tasks.live(&mut builder, (cpu as u32, group), &mine, (self.duration, random)));
                    lowering.homes.push(cpu as u32);
                }
            }
            lowering.rows.push(row);
        }
        for (at, step) in steps {
            lowering.step(at, step);
        }
        let Lowering { actions, marks, .. } = lowering;
        let workload = builder.finish()?;
        Ok(Scenario { workload, actions, marks, duration: self.duration, ..Scenario::default() })
    }
}

impl Step {
    fn time(&self, random: &mut Random) -> Span {
        match (self.at, self.from, self.to) {
            (None, Some(from), Some(to)) => from + Span::from_ns(random.below((to - from).as_ns() + 1)),
            (at, ..) => at.unwrap_or_default(),
        }
    }
}

impl Tasks {
    fn params(&self) -> SchedParams {
        let real_time = |policy| SchedParams { policy, rt_priority: self.priority, ..SchedParams::default() };
        match self.policy {
            PolicyWord::Normal => SchedParams::normal(Nice::new(self.nice).unwrap_or_default()),
            PolicyWord::Fifo => real_time(SchedPolicy::Fifo),
            PolicyWord::Rr => real_time(SchedPolicy::RoundRobin),
        }
    }

    /// Writes the life of one.
    fn live(
        &self,
        builder: &mut Builder,
        (cpu, group): (u32, Option<CgroupId>),
        steps: &[(Span, Act)],
        (duration, mut random): (Span, Random),
    ) -> TaskId {
        let mut life = builder.task(self.name.clone()).params(self.params()).cpu(cpu);
        if let Some(group) = group {
            life = life.cgroup(group);
        }
        // instants count from the one before
        let mut since = Span::ZERO;
        if self.asleep {
            life = life.blocked();
            match steps.iter().find(|(_, act)| *act == Act::Start) {
                Some((at, _)) => {
                    life = life.sleep_until(*at);
                    since = *at;
                }
                None => return life.id(),
            }
        }
        if self.class == Class::Light {
            let pause_ns = self.mean.as_ns() * u64::from(100 - self.percent) / u64::from(self.percent);
            let mut vary = |ns: u64| match self.periodic {
                true => Span::from_ns(ns),
                false => Span::from_ns(ns / 2 + random.below(ns + 1)),
            };
            let rounds = 2 * duration.as_ns() / (self.mean.as_ns() + pause_ns) + 2;
            for _ in 0..rounds {
                life = life.run(vary(self.mean.as_ns())).sleep(vary(pause_ns));
            }
        }
        for (at, act) in steps {
            match act {
                Act::Stop => life = life.run(ENDLESS).block(),
                Act::Exec => life = life.run(ENDLESS).executes(),
                Act::Continue => {
                    life = life.sleep_until(at.saturating_sub(since));
                    since = *at;
                }
                Act::End => return life.run(ENDLESS).exit().id(),
                _ => {}
            }
        }
        life.run(ENDLESS).exit().id()
    }
}

impl Lowering<'_> {
    fn step(&mut self, at: Span, step: &Step) {
        let named = |tasks: &Tasks| step.tasks.as_ref().is_none_or(|name| *name == tasks.name);
        let rows = self.plan.tasks.iter().zip(&self.rows).filter(|(tasks, _)| named(tasks));
        let tasks: Vec<TaskId> = rows.flat_map(|(_, row)| row.iter().copied()).collect();
        let everywhere = CpuSet::first(self.plan.cpus);
        match step.act {
            Act::Release => self.change(at, &tasks, affinity(step.cpus.clone().unwrap_or(everywhere))),
            Act::Bind | Act::Arrange => {
                if let Some(counts) = &step.counts {
                    let cpus =
                        counts.iter().enumerate().flat_map(|(cpu, count)| (0..*count).map(move |_| cpu));
                    for (task, cpu) in tasks.iter().zip(cpus) {
                        self.homes[task.index()] = cpu as u32;
                    }
                }
                // first one task for each CPU: none falls idle while the others come and go
                for is_first in [true, false] {
                    for cpu in 0..self.plan.cpus {
                        let mine = tasks.iter().copied().filter(|task| self.homes[task.index()] == cpu);
                        let here: Vec<TaskId> = match is_first {
                            true => mine.take(1).collect(),
                            false => mine.skip(1).collect(),
                        };
                        if !here.is_empty() {
                            self.change(at, &here, affinity(CpuSet::single(CpuId(cpu))));
                        }
                    }
                }
                if step.act == Act::Arrange {
                    self.change(at, &tasks, affinity(everywhere));
                }
            }
            Act::Set => {
                let nice = step.nice.and_then(|nice| Nice::new(nice).ok());
                self.change(at, &tasks, Change { nice, ..Change::default() });
            }
            Act::Stop | Act::End | Act::Exec => {
                let files = tasks.iter().map(|task| FileRequest::Cut { task: *task }).collect();
                self.actions.push(Action { at, files });
            }
            Act::Start | Act::Continue => {}
        }
        let homes = self.homes.iter().map(|cpu| CpuId(*cpu)).collect();
        self.marks.push(Mark { at, took: Span::ZERO, act: step.act, homes, tasks });
    }

    fn change(&mut self, at: Span, tasks: &[TaskId], change: Change) {
        let by = busiest(&self.homes, self.plan.cpus);
        let request = FileRequest::Change { tasks: tasks.to_vec(), change, by };
        self.actions.push(Action { at, files: vec![request] });
    }
}

fn affinity(cpus: CpuSet) -> Change {
    Change { affinity: Some(cpus), ..Change::default() }
}

/// The CPU with the most tasks; of equals the lowest.
fn busiest(homes: &[u32], nr_cpus: u32) -> CpuId {
    let count = |cpu: &u32| homes.iter().filter(|home| **home == *cpu).count();
    CpuId((0..nr_cpus).rev().max_by_key(count).unwrap_or(0))
}
