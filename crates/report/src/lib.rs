//! How does a person, a script or a viewer see a run? Summary on the terminal, JSON, one HTML file, Perfetto.

mod facts;
mod json;

pub use facts::{NextStep, RunFacts, RunView};
pub use json::{SCHEMA, json};
