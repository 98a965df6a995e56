//! Who runs next, and when does anything happen at all? The machine: virtual CPUs, one event queue, simulated time.

pub mod kernel;
