//! What happened, when, on which CPU, and why where known?
//!
//! The schedule log is one schema for the machine, the guest and the host, so that an instrument cannot tell which it reads.
//! A log is a [`LogHeader`] (who ran on what) and a sequence of fixed-size [`Record`]s in a documented order.
//!
//! ```text
//!            0 ns cpu0 new      t0              created, runnable on cpu0
//!            0 ns cpu0 switch   idle -> t0      t0 runs
//!    4,000,000 ns cpu0 switch   t0 -> idle      t0 blocked
//!   10,000,000 ns cpu0 waking   t0 by idle irq  its timer fired
//!   10,000,000 ns cpu0 wakeup   t0              runnable again
//!   10,000,000 ns cpu0 switch   idle -> t0
//! ```

mod header;
mod record;

pub use header::{KernelThread, LogHeader, LogTask};
pub use record::{Kind, PrevState, Record};
