//! What a task asks of a scheduler: policy, nice, real-time priority, deadline parameters.

use crate::Span;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// User priority, -20 (most) to 19 (least).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Nice(i8);

/// Share of the CPU in multiplicative form; nice 0 is [`NICE_0_WEIGHT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(pub u64);

/// Weight of nice 0 (kernel/sched/sched.h, `NICE_0_LOAD` before scaling).
pub const NICE_0_WEIGHT: Weight = Weight(1024);

/// The kernel's `sched_prio_to_weight` (kernel/sched/core.c, unchanged since 2.6.23): about 1.25 per nice level.
const WEIGHTS: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121,
    2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

/// A nice value out of range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiceError(String);

impl fmt::Display for NiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a nice value; expected -20 to 19", self.0)
    }
}
impl std::error::Error for NiceError {}

impl Nice {
    /// Nice `value`, which must lie in -20..=19.
    pub fn new(value: i32) -> Result<Nice, NiceError> {
        if (-20..=19).contains(&value) { Ok(Nice(value as i8)) } else { Err(NiceError(value.to_string())) }
    }
    /// The value, -20..=19.
    pub fn get(self) -> i32 {
        i32::from(self.0)
    }
    /// The fair class's weight.
    pub fn weight(self) -> Weight {
        Weight(WEIGHTS[(self.get() + 20) as usize])
    }
}

impl fmt::Display for Nice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl FromStr for Nice {
    type Err = NiceError;
    fn from_str(s: &str) -> Result<Nice, NiceError> {
        s.trim().parse::<i32>().ok().and_then(|v| Nice::new(v).ok()).ok_or_else(|| NiceError(s.to_string()))
    }
}

/// SCHED_* (include/uapi/linux/sched.h); the discriminant is the kernel's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum SchedPolicy {
    /// SCHED_NORMAL, also called SCHED_OTHER.
    #[default]
    Normal = 0,
    /// SCHED_FIFO.
    Fifo = 1,
    /// SCHED_RR.
    RoundRobin = 2,
    /// SCHED_BATCH.
    Batch = 3,
    /// SCHED_IDLE.
    Idle = 5,
    /// SCHED_DEADLINE.
    Deadline = 6,
    /// SCHED_EXT.
    Ext = 7,
}

/// The class family a policy belongs to, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClassKind {
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_FIFO and SCHED_RR.
    RealTime,
    /// SCHED_NORMAL, SCHED_BATCH, SCHED_IDLE.
    Fair,
    /// SCHED_EXT.
    Ext,
}

impl SchedPolicy {
    const ALL: [(SchedPolicy, &'static str); 7] = [
        (SchedPolicy::Normal, "normal"),
        (SchedPolicy::Fifo, "fifo"),
        (SchedPolicy::RoundRobin, "rr"),
        (SchedPolicy::Batch, "batch"),
        (SchedPolicy::Idle, "idle"),
        (SchedPolicy::Deadline, "deadline"),
        (SchedPolicy::Ext, "ext"),
    ];
    /// The name used in workload files, logs and JSON.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(policy, _)| *policy == self).expect("every policy has a name").1
    }
    /// The kernel's number.
    pub fn number(self) -> u8 {
        self as u8
    }
    /// From the kernel's number.
    pub fn from_number(number: u32) -> Option<SchedPolicy> {
        Self::ALL.iter().map(|(policy, _)| *policy).find(|policy| u32::from(policy.number()) == number)
    }
    /// As a system's tools write it, in capitals or not: `ps` (its column CLS: TS, FF, RR, B, IDL, DLN, EXT)
    /// and `chrt` (SCHED_OTHER, SCHED_FIFO, ...), or by its [`name`](Policy::name).
    pub fn from_tool(text: &str) -> Option<SchedPolicy> {
        let lower = text.to_ascii_lowercase();
        let word = lower.strip_prefix("sched_").unwrap_or(&lower);
        Some(match word {
            "ts" => SchedPolicy::Normal,
            "ff" => SchedPolicy::Fifo,
            "b" => SchedPolicy::Batch,
            "idl" => SchedPolicy::Idle,
            "dl" | "dln" => SchedPolicy::Deadline,
            word => return word.parse().ok(),
        })
    }
    /// Which class serves it.
    pub fn class(self) -> ClassKind {
        match self {
            SchedPolicy::Deadline => ClassKind::Deadline,
            SchedPolicy::Fifo | SchedPolicy::RoundRobin => ClassKind::RealTime,
            SchedPolicy::Normal | SchedPolicy::Batch | SchedPolicy::Idle => ClassKind::Fair,
            SchedPolicy::Ext => ClassKind::Ext,
        }
    }
}

impl fmt::Display for SchedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
impl FromStr for SchedPolicy {
    type Err = String;
    fn from_str(s: &str) -> Result<SchedPolicy, String> {
        let name = if s == "other" { "normal" } else { s };
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(policy, _)| *policy).ok_or_else(|| {
            format!("'{s}' is not a policy; expected normal, batch, idle, fifo, rr, deadline or ext")
        })
    }
}

/// Parameters of SCHED_DEADLINE: `runtime` in every `period`, done by `deadline` after the period's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeadlineParams {
    /// CPU time per period.
    pub runtime: Span,
    /// Relative deadline.
    pub deadline: Span,
    /// Period.
    pub period: Span,
}

/// Everything a task can ask for, as `sched_setattr(2)` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SchedParams {
    /// Policy.
    pub policy: SchedPolicy,
    /// Nice value; used by the fair policies, remembered by the others.
    pub nice: Nice,
    /// Real-time priority, 1..=99 for FIFO and RR, else 0.
    pub rt_priority: u8,
    /// For SCHED_DEADLINE.
    pub deadline: Option<DeadlineParams>,
}

impl SchedParams {
    /// SCHED_NORMAL at this nice value.
    pub fn normal(nice: Nice) -> SchedParams {
        SchedParams { nice, ..SchedParams::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_follow_the_kernel_table() {
        assert_eq!(Nice::new(0).unwrap().weight(), NICE_0_WEIGHT);
        assert_eq!(Nice::new(-20).unwrap().weight(), Weight(88761));
        assert_eq!(Nice::new(19).unwrap().weight(), Weight(15));
        assert!(Nice::new(20).is_err() && Nice::new(-21).is_err() && "x".parse::<Nice>().is_err());
    }

    #[test]
    fn policies_have_the_kernels_numbers() {
        for (policy, number) in [
            (SchedPolicy::Normal, 0),
            (SchedPolicy::Fifo, 1),
            (SchedPolicy::RoundRobin, 2),
            (SchedPolicy::Batch, 3),
            (SchedPolicy::Idle, 5),
            (SchedPolicy::Deadline, 6),
            (SchedPolicy::Ext, 7),
        ] {
            assert_eq!(SchedPolicy::from_number(number), Some(policy));
            assert_eq!(policy.name().parse::<SchedPolicy>(), Ok(policy));
        }
        assert_eq!(SchedPolicy::from_number(4), None);
    }
}
