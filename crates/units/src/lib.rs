//! Which number is this: a time, a CPU, a task, a weight?
//!
//! Every quantity that two arguments of one function could swap has a type of its own.
//! Simulated time is an integer number of nanoseconds ([`Time`], [`Span`]); floats begin at the statistics.
//!
//! ```
//! use schedlab_units::{Span, Time};
//! let wakeup = Time::from_ns(1_000_000);
//! let running = Time::from_ns(5_000_000);
//! assert_eq!(running - wakeup, "4ms".parse::<Span>().unwrap());
//! ```

mod cpuset;
mod params;
mod span;

pub use cpuset::{CpuSet, ParseCpuSetError};
pub use params::{
    ClassKind, DeadlineParams, NICE_0_WEIGHT, Nice, NiceError, SchedParams, SchedPolicy, Weight,
};
pub use span::{ParseSpanError, Span, Time};

use serde::{Deserialize, Serialize};

/// One logical processor of a machine, numbered from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(transparent)]
pub struct CpuId(pub u32);

impl CpuId {
    /// As an index into a table with one row per CPU.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for CpuId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}

/// A schedulable thing (the kernel's `task_struct`).
///
/// Tasks of the workload are numbered densely from 0 in the order of the workload. The scheduler's own
/// threads have the top bit set ([`TaskId::kernel_thread`]), so that a log can hold both without a table;
/// [`TaskId::IDLE`] stands for "this CPU's idle task" and, as a waker, for "nobody".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(transparent)]
pub struct TaskId(pub u32);

impl TaskId {
    /// The idle task of the CPU in question.
    pub const IDLE: TaskId = TaskId(u32::MAX);
    const KERNEL_THREAD_BIT: u32 = 1 << 31;

    /// The scheduler's own thread with this pid (in the simulated kernel).
    pub const fn kernel_thread(pid: u32) -> TaskId {
        TaskId(Self::KERNEL_THREAD_BIT | pid)
    }
    /// Whether this is one of the workload's tasks.
    #[inline]
    pub const fn is_workload(self) -> bool {
        self.0 & Self::KERNEL_THREAD_BIT == 0
    }
    /// Whether this is a thread of the simulated kernel itself (not idle).
    #[inline]
    pub const fn is_kernel_thread(self) -> bool {
        !self.is_workload() && self.0 != u32::MAX
    }
    /// Whether this is an idle task.
    #[inline]
    pub const fn is_idle(self) -> bool {
        self.0 == u32::MAX
    }
    /// The simulated kernel's pid of a kernel thread.
    pub const fn kernel_pid(self) -> Option<u32> {
        if self.is_kernel_thread() { Some(self.0 & !Self::KERNEL_THREAD_BIT) } else { None }
    }
    /// As an index into a table with one row per workload task.
    #[inline]
    pub fn index(self) -> usize {
        debug_assert!(self.is_workload());
        self.0 as usize
    }
}

/// `t7`, `k12` (kernel thread with pid 12), `idle`: the form used in the text log.
impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kernel_pid() {
            _ if self.is_idle() => f.write_str("idle"),
            Some(pid) => write!(f, "k{pid}"),
            None => write!(f, "t{}", self.0),
        }
    }
}

impl std::str::FromStr for TaskId {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let number = |digits: &str| match digits.parse::<u32>() {
            Ok(n) if n < TaskId::KERNEL_THREAD_BIT => Ok(n),
            _ => Err(format!("'{s}': expected idle, tN or kN")),
        };
        match (s, s.get(..1)) {
            ("idle", _) => Ok(TaskId::IDLE),
            (_, Some("t")) => number(&s[1..]).map(TaskId),
            (_, Some("k")) => number(&s[1..]).map(TaskId::kernel_thread),
            _ => Err(format!("'{s}': expected idle, tN or kN")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_ids_print_and_parse() {
        for id in [TaskId(0), TaskId(70_000), TaskId::kernel_thread(17), TaskId::IDLE] {
            assert_eq!(id.to_string().parse::<TaskId>(), Ok(id));
        }
        assert!("t".parse::<TaskId>().is_err());
        assert!("t4294967295".parse::<TaskId>().is_err());
        assert!("".parse::<TaskId>().is_err());
        assert!(!TaskId::IDLE.is_kernel_thread() && TaskId::kernel_thread(2).is_kernel_thread());
    }
}
