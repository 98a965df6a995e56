//! What is asked of the operating system? Everything a poller needs that is not its own loop, behind one trait.
//!
//! | asked | when | without it |
//! |---|---|---|
//! | locked memory | before the run | page faults may show as gaps; said |
//! | class, CPUs, group of a thread | before the run | a named fallback; said |
//! | counters of the thread | at each gap, never in the loop | causes are less sure; named |
//! | an alarm | when the model sleeps | another timer; said |
//! | the machine's steal and throttling | at each long gap | as above |
//!
//! [`Linux`](crate::linux::Linux) answers; a test may answer otherwise.

use crate::plan::{Class, Timer};
use schedlab_units::CpuSet;
use std::path::Path;

/// What a thread's counters say at one moment. All grow; what is missing stays 0, and [`Missing`] names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Times it was switched out of its own will.
    pub voluntary: u32,
    /// Times it was switched out against its will.
    pub involuntary: u32,
    /// Page faults.
    pub faults: u32,
    /// CPU time, in ns.
    pub cpu_ns: u64,
    /// Time it was runnable without a CPU, in ns.
    pub run_delay_ns: u64,
    /// Time its group was held back by cpu.max, in us. Read at long gaps only.
    pub throttled_us: u64,
    /// Time the hypervisor took from all CPUs, in ms. Read at long gaps only.
    pub steal_ms: u64,
    /// The kernel has passed this thread through its scheduler (restartable sequences tell).
    pub preempted: bool,
}

/// How long a gap must be before slow counters are read.
pub(crate) const LONG_GAP_NS: u64 = 1_000_000;

/// The counters of one thread, open.
pub(crate) trait Probes {
    /// Reads them; `long`: the slow ones too.
    fn read(&mut self, long: bool) -> Reading;
    /// Whether the kernel took the CPU from this thread since [`Probes::read`] began; `None`: not known. The
    /// next reading says of its gap that it did, then.
    fn was_preempted(&mut self) -> Option<bool>;
}

/// Something that wakes a thread.
pub(crate) trait Alarm {
    /// Blocks until this time of the monotonic clock, in ns. May come back early if a signal comes: the
    /// caller asks again.
    fn wait_until(&mut self, at_ns: u64);
}

/// Which counters this system does not have, by name and why.
pub(crate) type Missing = Vec<(&'static str, String)>;

/// The operating system.
pub(crate) trait System: Send + Sync + 'static {
    /// CPUs that exist; their numbers are below this.
    fn nr_cpus(&self) -> u32;
    /// Touches and locks memory; a sentence if it cannot be locked.
    fn lock(&self, memory: &mut [u8]) -> Result<(), String>;
    /// Sets the calling thread's class.
    fn schedule(&self, class: Class) -> Result<(), String>;
    /// Binds the calling thread to CPUs.
    fn bind(&self, cpus: &CpuSet) -> Result<(), String>;
    /// Moves the calling thread into a control group.
    fn enter(&self, group: &Path) -> Result<(), String>;
    /// The calling thread's counters.
    fn probes(&self) -> Box<dyn Probes>;
    /// Counters that this system lacks.
    fn missing(&self) -> Missing;
    /// An alarm of this kind for the calling thread, with periods about so long.
    fn alarm(&self, timer: Timer, period_ns: u64) -> Result<Box<dyn Alarm>, String>;
    /// The CPU that the calling thread is on.
    fn cpu(&self) -> u32;
    /// The calling thread's number.
    fn thread(&self) -> u32;
    /// What a result depends on: name and value.
    fn preconditions(&self) -> Vec<(&'static str, String)>;
    /// Time that the hypervisor has taken from all CPUs, in ms; `None`: not known.
    fn steal_ms(&self) -> Option<u64>;
    /// These threads of this process become normal ones at a time of the monotonic clock, whatever they do, as
    /// long as what comes back lives.
    fn dead_man(&self, at_ns: u64, threads: Vec<u32>) -> Result<Box<dyn std::any::Any>, String>;
    /// Whether this is a virtual machine.
    fn is_virtual(&self) -> bool;
}
