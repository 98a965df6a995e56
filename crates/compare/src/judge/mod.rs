//! Is it more than chance, and is it good enough?

pub mod compared;
pub mod comparison;
pub mod gate;
