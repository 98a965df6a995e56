//! How does a person, a script or a viewer see a run? Summary on the terminal, JSON, one HTML file, Perfetto.

mod facts;
mod json;
mod perfetto;

pub use facts::{NextStep, RunFacts, RunView};
pub use json::{SCHEMA, json};
pub use perfetto::{PerfettoStats, perfetto, write_perfetto};
