//! Storms of short tasks: everything that `fork` and program starts ask of a scheduler.
//!
//! ```text
//! forkstorm, at_once = 2               execstorm, one shell
//! parent  FF-----F---F----X            sh   F--------F--------F------X    forks, waits for the command, forks the next
//! child   .RRRRX                       cmd  .EE--RRX .EE--RRX             E: the new program begins, -: reads its file
//! child    .RRRRRRRX
//! child          .RRX                  F: a fork, after which the parent waits if enough children live
//! ```
//!
//! No command executes a program here (EXEC): what Linux' balancing does at that moment (`sched_exec`) is left out,
//! only the work around it is there.

use super::distribution::Distribution;
use super::rng::Rng;
use super::{GenerateError, duration, finished, nice};
use crate::limits::TIME_MAX;
use crate::{Builder, Object, ObjectId, ObjectKind, ObjectOp, WaitCosts, Wakes, Workload};
use schedlab_units::{Span, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Parents that fork children as fast as they can.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Forkstorm {
    /// Names the times drawn.
    pub seed: u64,
    /// Parents, independent of each other.
    pub parents: u32,
    /// Children of each parent.
    pub children: u32,
    /// Children of one parent alive at once: then it waits for the oldest one's end.
    pub at_once: u32,
    /// CPU time of a fork.
    #[serde(with = "duration")]
    pub fork: Span,
    /// CPU time of each child.
    pub service: Distribution,
    /// Nice value of all.
    pub nice: i32,
    /// Whether ends of children are an object, a semaphore of each parent: it waits for whichever child ends first, as
    /// `wait()` does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub objects: bool,
}

impl Default for Forkstorm {
    /// Four parents, 1000 children each, 16 at once; 60 us a fork, a guess for a small process; 500 us of
    /// work on average.
    fn default() -> Forkstorm {
        Forkstorm {
            seed: 1,
            parents: 4,
            children: 1000,
            at_once: 16,
            fork: Span::from_us(60),
            service: Distribution::exponential(Span::from_us(500)),
            nice: 0,
            objects: false,
        }
    }
}

impl Forkstorm {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        self.service.check("service")?;
        at_least_one("at_once", self.at_once)?;
        let all = u128::from(self.parents) * u128::from(self.children);
        let mut builder = Builder::new().with_room(4 * all + 2 * u128::from(self.parents))?;
        too_long("fork", self.fork, u64::from(self.children))?;
        let mut rng = Rng::new(self.seed, 0);
        let parents: Vec<TaskId> = (0..self.parents)
            .map(|_| Ok(builder.task("parent").nice(nice("nice", self.nice)?).id()))
            .collect::<Result<_, GenerateError>>()?;
        for (number, &parent) in (1..).zip(&parents) {
            if self.objects {
                self.children_with_semaphore(&mut builder, (number, parent), &mut rng);
                continue;
            }
            // ends of the children alive, oldest first
            let mut alive = VecDeque::new();
            for _ in 0..self.children {
                if alive.len() == self.at_once as usize
                    && let Some((child, end)) = alive.pop_front()
                {
                    builder.life(parent).wait_for(child, end, Span::ZERO);
                }
                let child = builder.life(parent).run(self.fork).fork("child");
                let cpu = self.service.draw(&mut rng);
                alive.push_back((child, builder.life(child).run(cpu).exit().eid()));
            }
            for (child, end) in alive {
                builder.life(parent).wait_for(child, end, Span::ZERO);
            }
            builder.life(parent).exit();
        }
        finished(builder)
    }

    /// As `wait()` wakes, synchronously.
    fn children_with_semaphore(&self, builder: &mut Builder, (number, parent): (u32, TaskId), rng: &mut Rng) {
        let (kind, wakes, costs) = (ObjectKind::Semaphore { start: 0 }, Wakes::Sync, WaitCosts::default());
        let name = format!("children-{number}");
        let object: ObjectId =
            builder.object(Object { name, kind, wakes, costs, is_closed: false, is_polled: false });
        let end = ObjectOp::Receive { object, amount: 1 };
        for born in 0..self.children {
            let life = builder.life(parent);
            let life = if born >= self.at_once { life.at(end) } else { life };
            let child = life.run(self.fork).fork("child");
            let cpu = self.service.draw(rng);
            builder.life(child).run(cpu).at(ObjectOp::Send { object, amount: 1 }).exit();
        }
        for _ in 0..self.at_once.min(self.children) {
            builder.life(parent).at(end);
        }
        builder.life(parent).exit();
    }
}

/// Shells that run one short command after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Execstorm {
    /// Names the times drawn.
    pub seed: u64,
    /// Shells, independent of each other.
    pub shells: u32,
    /// Commands that each runs.
    pub commands: u32,
    /// CPU time of the shell before each fork.
    #[serde(with = "duration")]
    pub fork: Span,
    /// CPU time of the child from the fork until its new program begins.
    #[serde(with = "duration")]
    pub exec: Span,
    /// How long a device takes to read the program; 0: it is in memory.
    pub load: Distribution,
    /// CPU time of the program.
    pub service: Distribution,
    /// Nice value of all.
    pub nice: i32,
}

impl Default for Execstorm {
    /// Eight shells, 500 commands each: 100 us to fork, 250 us to exec, 100 us to load, 1 ms of work on
    /// average; guesses for `sh -c true`.
    fn default() -> Execstorm {
        Execstorm {
            seed: 1,
            shells: 8,
            commands: 500,
            fork: Span::from_us(100),
            exec: Span::from_us(250),
            load: Distribution::fixed(Span::from_us(100)),
            service: Distribution::exponential(Span::from_ms(1)),
            nice: 0,
        }
    }
}

impl Execstorm {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        self.service.check("service")?;
        self.load.check("load")?;
        let all = u128::from(self.shells) * u128::from(self.commands);
        let mut builder = Builder::new().with_room(7 * all + 2 * u128::from(self.shells))?;
        too_long("fork", self.fork, u64::from(self.commands))?;
        too_long("exec", self.exec, u64::from(self.commands))?;
        let (mut load, mut service) = (Rng::new(self.seed, 0), Rng::new(self.seed, 1));
        let shells: Vec<TaskId> = (0..self.shells)
            .map(|_| Ok(builder.task("sh").nice(nice("nice", self.nice)?).id()))
            .collect::<Result<_, GenerateError>>()?;
        for &shell in &shells {
            for _ in 0..self.commands {
                let command = builder.life(shell).run(self.fork).fork("cmd");
                let (wait, work) = (self.load.draw(&mut load), self.service.draw(&mut service));
                let mut life = builder.life(command).run(self.exec);
                if wait > Span::ZERO {
                    life = life.device(wait);
                }
                let end = life.run(work).exit().eid();
                builder.life(shell).wait_for(command, end, Span::ZERO);
            }
            builder.life(shell).exit();
        }
        finished(builder)
    }
}

pub(super) fn at_least_one(name: &'static str, value: u32) -> Result<(), GenerateError> {
    if value > 0 {
        Ok(())
    } else {
        Err(GenerateError::Parameter { name, value: "0".into(), expected: "1 or more" })
    }
}

/// Refuses times that add up to more than the model can hold.
pub(super) fn too_long(name: &'static str, each: Span, times: u64) -> Result<(), GenerateError> {
    match each.as_ns().checked_mul(times) {
        Some(ns) if Span::from_ns(ns) <= TIME_MAX => Ok(()),
        _ => Err(GenerateError::Parameter {
            name,
            value: each.to_string(),
            expected: "at most 1000000s in sum",
        }),
    }
}
