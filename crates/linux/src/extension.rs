//! What does a scheduler that is loaded beside the kernel answer to whoever drives the kernel?
//!
//! ```text
//! load           before the kernel boots: into the process, settings written
//! first_calls    process 1, last step of the boot: maps made, programs run, the scheduler attached
//! later_calls    process 1, once the control groups are there: schedulers below the first one
//! has_exited?    after every resume
//! account        when the run is over
//! ```
//!
//! The crate `scx` implements it for sched_ext. This crate compiles and runs without it.

use std::path::Path;

use crate::abi::Topo;
use crate::kernel::LoadedKernel;

/// A function that process 1 has to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitCall {
    /// Its purpose, for messages: `attaching simple`.
    pub what: String,
    /// Its address.
    pub function: u64,
    /// Its argument.
    pub argument: u64,
}

/// A scheduler in the simulated kernel's process, with the schedulers below it, each for the tasks of a control group.
pub trait Extension {
    /// Brings it into this process and writes those of `params` that it takes; nothing runs yet.
    ///
    /// # Errors
    /// A sentence: which object, setting or variable is wrong.
    fn load(
        &mut self,
        kernel: &LoadedKernel,
        object: &Path,
        cpus: &[Topo],
        params: &[(String, String)],
    ) -> Result<(), String>;
    /// How many schedulers are loaded.
    fn nr_schedulers(&self) -> u32;
    /// Whether a `--param` of this name is meant for one of them.
    fn takes(&self, name: &str) -> bool;
    /// What process 1 calls as the last step of the boot, in this order.
    fn first_calls(&mut self) -> Vec<InitCall>;
    /// What process 1 calls once the control groups are there, in this order.
    fn later_calls(&mut self) -> Vec<InitCall>;
    /// Which of the schedulers below the first has the tasks that are forked in this group.
    fn of_group(&self, path: &str) -> Option<usize>;
    /// What the kernel said when it refused one of `later_calls`.
    fn refused_later(&self) -> Option<String>;
    /// What the kernel said when it refused any call; empty: nothing.
    fn refused(&self) -> String;
    /// Whether one has left or was thrown out. Asked after every resume.
    fn has_exited(&self) -> bool;
    /// Which, and why.
    fn exit(&self) -> Option<String>;
    /// Settings, statistics, what was emulated: part, name, value.
    fn account(&self) -> Vec<(String, String, String)>;
}
