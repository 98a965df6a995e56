//! How does real Linux get into the simulator?
//!
//! The port (`linux/arch-warp`, GPL-2.0-only) makes the simulator a CPU architecture; the kernel's own build
//! compiles the unmodified kernel for it into a shared object. This crate is the host's side of that: it
//! loads and drives the object.
//!
//! * [`kernel`]: the loaded kernel, its CPUs, its tasks, its log;
//! * [`LinuxKernel`]: the kernel as the machine sees it (`impl Kernel`);
//! * [`abi`]: the boundary, byte by byte;
//! * [`build`]: source package -> object, cached; list, check, remove;
//! * [`Extension`]: what a scheduler that is loaded beside the kernel answers (sched_ext: the crate `scx`);
//! * [`race`]: stopping CPUs at accesses, for whoever explores interleavings;
//! * [`decision`]: what the kernel's structures said at one decision;
//! * [`console`], [`symbols`], [`stack`], [`callers`]: what it prints, with names in stack traces.

pub mod abi;
mod adapter;
mod batch;
pub mod bugs;
pub mod build;
pub mod callers;
pub mod console;
pub mod decision;
pub mod elf;
mod extension;
mod groups;
pub mod kernel;
pub mod layout;
mod memory;
mod params;
pub mod race;
pub mod stack;
pub mod symbols;

pub use adapter::LinuxKernel;
pub use build::{BuildError, BuildOptions, BuildProgress, BuiltKernel};
pub use console::{Console, Warning};
pub use elf::loads_quietly;
pub use extension::{Extension, InitCall};
pub use kernel::{
    BootOptions, KernelError, KernelObject, KernelTaskStats, KernelThreadInfo, LoadedKernel, LogSink, State,
};
pub use params::{NO_SUCH_PARAMETER, tunable_name};
