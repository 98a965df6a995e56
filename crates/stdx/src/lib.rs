//! What does every crate need that the standard library lacks? Eight small things, each of them once.
//!
//! | module | what it answers |
//! |---|---|
//! | [`aside`] | how is a file written so that nobody ever sees half of it? |
//! | [`csv`] | how does a text become one field of a table, and a table its records? |
//! | [`escape`] | how is foreign text shown on a terminal or a page without being obeyed? |
//! | [`limits`] | how much may a file ask for? |
//! | [`lock`] | how is a lock taken that a panic may have poisoned? |
//! | [`percentile`] | which of the sorted samples is the 99th percentile? |
//! | [`whereabouts`] | where is a file to be looked for that is not there? |
//! | [`Random`] | which numbers does a seed stand for? |
//!
//! This crate depends on no other of the project.

pub mod aside;
pub mod csv;
pub mod escape;
pub mod limits;
mod locked;
pub mod percentile;
mod random;
mod whereabouts;

pub use locked::lock;
pub use random::Random;
pub use whereabouts::whereabouts;
