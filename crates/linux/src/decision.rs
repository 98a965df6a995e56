//! Why did the kernel decide so? What its own structures said at one decision.
//!
//! A decision about a task is the next pick on its CPU (it is chosen, is put aside, or waits) or its next
//! placement at a wakeup. The port reads the candidates at that instant (`linux/arch-warp/kernel/watch.c`)
//! and changes nothing; [`Decision`] is what it saw.
//!
//! ```text
//! cpu0 at 40 ms: A leaves, B is picked
//!      weight  vruntime  deadline  slice    lag      eligible
//!   A  1024    44 ms     47 ms     3 ms     -2 ms    no
//!   B  1024    40 ms     43 ms     3 ms     +2 ms    yes        earliest deadline of those that are
//! ```
//!
//! From 6.6 on the fair class picks, of the entities that have had no more than their due (eligible: lag >=
//! 0), the one with the earliest deadline; before, the one with the least vruntime. [`Queue::lag`] computes
//! the lag from the printed numbers: average of all vruntimes, weighted, minus its own.
//! [`Candidate::eligible`] is the kernel's own verdict.

use serde::{Deserialize, Serialize};

use crate::abi::{self, Entity};

/// What kind of decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionKind {
    /// A CPU switches tasks.
    Pick,
    /// A task wakes up: on which CPU?
    Placement,
}

/// A decision, as the kernel's own structures showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The task that was asked about: its id in the log.
    pub task: u32,
    /// What kind.
    pub kind: DecisionKind,
    /// When, ns from the workload's start.
    pub time_ns: u64,
    /// Where it was decided.
    pub cpu: u32,
    /// Pick: who ran before. Placement: who runs where the task is woken (the waker, or whom the waking
    /// interrupt interrupts).
    pub before: u32,
    /// Pick: who runs now.
    pub after: Option<u32>,
    /// Placement: the CPU that the task was on before.
    pub prev_cpu: Option<u32>,
    /// Pick: candidates of the real-time and deadline classes.
    pub real_time: Vec<Candidate>,
    /// Pick: queues of the fair class, from the CPU's root to the one that the task is on.
    pub queues: Vec<Queue>,
    /// Placement: the CPUs that the task may use.
    pub cpus: Vec<CpuLoad>,
    /// Candidates beyond the limit of [`MAX_ENTITIES`].
    pub lost: u32,
}

/// A queue of the fair class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// What is on it, whoever runs first, the others by vruntime (deadline from 6.6 on).
    pub candidates: Vec<Candidate>,
}

/// Something that could have been picked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The task's id; none for a group.
    pub task: Option<u32>,
    /// The group's path.
    pub group: Option<String>,
    /// It runs from now on.
    pub picked: bool,
    /// Real-time priority, 1 to 99; none in the fair and deadline classes.
    pub rt_priority: Option<i32>,
    /// Virtual time received, ns at weight 1024.
    pub vruntime_ns: u64,
    /// Virtual deadline (from 6.6 on); of a deadline task: absolute, ns of the kernel's clock.
    pub deadline_ns: Option<u64>,
    /// Slice (from 6.6 on); of a deadline task: what is left of its runtime.
    pub slice_ns: Option<u64>,
    /// Weight: 1024 at nice 0.
    pub weight: u64,
    /// The kernel's verdict (from 6.6 on): it has had no more than its due.
    pub eligible: Option<bool>,
    /// It sleeps already and is kept on the queue until its lag is used up (from 6.12 on).
    pub delayed: bool,
    /// The queue's buddy: preferred if it can be.
    pub next_buddy: bool,
    /// CPU time in all, ns.
    pub cpu_ns: u64,
    /// CPU time of its present or last turn, ns.
    pub turn_ns: u64,
    /// Load average as the balancer sees it.
    pub load: u64,
    /// Utilisation, 1024 = a big CPU.
    pub util: u64,
}

/// A CPU at a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLoad {
    /// Its number.
    pub cpu: u32,
    /// Who runs there.
    pub current: u32,
    /// Runnable tasks.
    pub runnable: u32,
    /// Nothing to do there.
    pub idle: bool,
    /// It shares its last-level cache with the CPU that the task was on.
    pub shares_cache: bool,
    /// Load average.
    pub load: u64,
    /// Utilisation.
    pub util: u64,
    /// Capacity, 1024 = the biggest.
    pub capacity: u64,
}

/// Candidates that are read at most.
pub const MAX_ENTITIES: usize = 4096;

const CURR: u8 = 0x01;
const ELIGIBLE: u8 = 0x02;
const DELAYED: u8 = 0x04;
const NEXT: u8 = 0x08;
const IDLE_CPU: u8 = 0x10;
const SHARES_CACHE: u8 = 0x20;
const CLASS_FAIR: u8 = 0;
const CLASS_RT: u8 = 1;
const CLASS_CPU: u8 = 3;
const EVENT_WAKING: u32 = 2;
const IDLE: u32 = 0xffff_ffff;

impl Queue {
    /// Lag of each candidate, virtual ns: the weighted average of all vruntimes minus its own. Positive: less
    /// than its due.
    pub fn lags(&self) -> Vec<i64> {
        let Some(first) = self.candidates.first() else { return Vec::new() };
        let key = |c: &Candidate| i128::from(c.vruntime_ns.wrapping_sub(first.vruntime_ns) as i64);
        let weights: i128 = self.candidates.iter().map(|c| i128::from(c.weight)).sum();
        let sum: i128 = self.candidates.iter().map(|c| key(c) * i128::from(c.weight)).sum();
        let average = sum.div_euclid(weights.max(1));
        self.candidates.iter().map(|c| i64::try_from(average - key(c)).unwrap_or(0)).collect()
    }
}

impl Candidate {
    fn new(e: &Entity, eevdf: bool) -> Candidate {
        let is = |flag| e.flags & flag != 0;
        let fair = e.class == CLASS_FAIR;
        let text = e.group.split(|b| *b == 0).next().unwrap_or_default();
        let group = (fair && e.task == IDLE).then(|| String::from_utf8_lossy(text).into_owned());
        let timed = if fair { eevdf } else { e.class != CLASS_RT };
        Candidate {
            task: group.is_none().then_some(e.task),
            group,
            picked: is(CURR),
            rt_priority: (e.class == CLASS_RT).then_some(e.prio),
            vruntime_ns: e.vruntime,
            deadline_ns: timed.then_some(e.deadline),
            slice_ns: timed.then_some(e.slice_ns),
            weight: e.weight,
            eligible: (fair && eevdf).then(|| is(ELIGIBLE)),
            delayed: is(DELAYED),
            next_buddy: is(NEXT),
            cpu_ns: e.exec_ns,
            turn_ns: e.ran_ns,
            load: e.load_avg,
            util: e.util_avg,
        }
    }
}

impl Decision {
    /// From what the port has written. `version` is the kernel's, as `(6, 12)`.
    pub(crate) fn new(watch: &abi::Watch, entities: &[Entity], version: (u32, u32)) -> Decision {
        let placement = watch.event == EVENT_WAKING;
        let eevdf = version >= (6, 6);
        let mut decision = Decision {
            task: watch.task,
            kind: if placement { DecisionKind::Placement } else { DecisionKind::Pick },
            time_ns: watch.time_ns,
            cpu: watch.cpu,
            before: watch.prev,
            after: (!placement).then_some(watch.curr),
            prev_cpu: placement.then_some(watch.prev_cpu),
            real_time: Vec::new(),
            queues: Vec::new(),
            cpus: Vec::new(),
            lost: watch.lost,
        };
        for e in entities {
            match e.class {
                CLASS_CPU => decision.cpus.push(CpuLoad {
                    cpu: u32::from(e.level),
                    current: e.task,
                    runnable: e.prio.unsigned_abs(),
                    idle: e.flags & IDLE_CPU != 0,
                    shares_cache: e.flags & SHARES_CACHE != 0,
                    load: e.load_avg,
                    util: e.util_avg,
                    capacity: e.weight,
                }),
                CLASS_FAIR => {
                    let level = usize::from(e.level);
                    while decision.queues.len() <= level {
                        decision.queues.push(Queue::default());
                    }
                    decision.queues[level].candidates.push(Candidate::new(e, eevdf));
                }
                _ => decision.real_time.push(Candidate::new(e, eevdf)),
            }
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights 1024 and 3072 at 44 and 40 ms: the average is 41 ms; and what is behind it has a positive lag.
    #[test]
    fn lag_is_the_distance_from_the_weighted_average() {
        let c = |weight, vruntime_ns| Candidate { weight, vruntime_ns, ..Candidate::default() };
        let queue = Queue { candidates: vec![c(1024, 44_000_000), c(3072, 40_000_000)] };
        assert_eq!(queue.lags(), [-3_000_000, 1_000_000]);
        // vruntime wraps
        let queue = Queue { candidates: vec![c(1024, 1_000_000), c(1024, u64::MAX - 999_999)] };
        assert_eq!(queue.lags(), [-1_000_000, 1_000_000]);
    }
}
